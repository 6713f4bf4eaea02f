# suite.jq -- the lines of a suite for evaluate.mk: jq -cnR -L FOLDER --arg suite ... -f suite.jq
#
# Prompts and references stay as they are.  New tokens, stop strings, task and length have the same keys for
# all suites: max_new_tokens, stop, task, length.  depth: the place in the input at which the answers of a
# needle begin.  suite, file, task, length, max_new: arguments, or "".

include "shown";

def ruler: {
	niah_single_1: 128, niah_single_2: 128, niah_single_3: 128, niah_multikey_1: 128,
	niah_multikey_2: 128, niah_multikey_3: 128, niah_multivalue: 128, niah_multiquery: 128,
	vt: 30, cwe: 120, fwe: 50, qa_1: 32, qa_2: 32
};

def longbench: {
	narrativeqa: 128, qasper: 128, multifieldqa_en: 64, hotpotqa: 32, "2wikimqa": 32, musique: 32,
	gov_report: 512, qmsum: 512, multi_news: 512, trec: 64, triviaqa: 32, samsum: 128, passage_count: 32,
	passage_retrieval_en: 32, lcc: 64, "repobench-p": 64
};

# stop(N; what): prints a sentence about line N and ends the program
def stop($n; $what): ("\($file): line \($n): \($what)" | shown) + "\n" | halt_error(65);

# need(N; key; kind): the value of the line's key, which must have this type
def need($n; $key; $kind):
	if has($key) | not then stop($n; "there is no \"\($key)\"")
	elif .[$key] | type == $kind then .[$key]
	else stop($n; "\"\($key)\" is of type \(.[$key] | type), not \($kind)") end;

def limit($n; $table; $of):
	if $max_new != "" then ($max_new | tonumber)
	elif .max_gen_tokens != null then need($n; "max_gen_tokens"; "number")
	else $table[$of] // stop($n; "the task \"\($of)\" says no number of new tokens: MAX_NEW=n") end;

# The place of a text in the input, from 0 to 1; null if the text is empty or does not occur.
def depth_of($text): . as $input | ($input | split($text)) as $parts
	| if ($text | length) == 0 or ($parts | length) < 2 then null
		else ($parts[0] | length) / ($input | length) end;

foreach inputs as $text (0; . + 1; . as $n | select($text | test("^[ \t\r]*$") | not)
	| $text | (try fromjson catch stop($n; "no JSON: \(.)"))
	| if type != "object" then stop($n; "the line is of type \(type), not an object") else . end
	| if $suite == "ruler" then
		need($n; "input"; "string") as $input
		| need($n; "outputs"; "array") as $outputs
		| . + {
			answer_prefix: (.answer_prefix // ""), task: $task, length: ($length | tonumber),
			max_new_tokens: limit($n; ruler; $task),
			depth: (if $task | test("^(niah_|vt$)") then
				[$outputs[] as $one | $input | depth_of($one)]
				| if any(. == null) then [] else . end
				else [] end)
		}
	else
		(.task // .dataset // .data_source // $task) as $of
		| if $of == "" then
			stop($n; "no \"task\" or \"dataset\" says which task this is: TASK=name")
			else . end
		| ($of | sub("_e$"; "")) as $table_name
		| . + {
			task: $of, max_new_tokens: limit($n; longbench; $table_name),
			stop: (if $table_name == "samsum" then ["\n"] else [] end), all_classes: .all_classes
		}
	end)
