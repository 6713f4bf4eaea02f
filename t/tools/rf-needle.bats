#!/usr/bin/env bats
# rf-needle: prompts with needles.  An independent reader, helper/needle.py, checks the lines.

setup_file() {
	load ../helper
	cd "$BATS_FILE_TMPDIR"
	python3 - <<-'END'
		import json, random
		random.seed(5)
		words = "a calm river of many stones goes by old houses where people say little".split()
		def sentence(n):
		    return " ".join(random.choice(words) for _ in range(n)).capitalize() + random.choice(
		        [".", ".", "?", "!", '."', ".)", ".\u201d", "\u2026 and."])
		open("essay.txt", "w").write("\n".join(sentence(random.randrange(4, 22)) for _ in range(400)))
		open("endless.txt", "w").write(" ".join(random.choice(words) for _ in range(500)))
		with open("squad.jsonl", "w") as one, open("hotpot.jsonl", "w") as ten:
		    for t in range(12):
		        for p in range(4):
		            text = f"The {t}-{p}th \u2019text\u2019. "
		            text += " ".join(sentence(8) for _ in range(4))
		            for q in range(2):
		                one.write(json.dumps({"question": f"How is {t}, {p}, {q}?", "context": text,
		                    "answers": [f"{t}-{p}th", "\u2019text"], "title": f"Of {t}"}) + "\n")
		    for t in range(40):
		        texts = [f"Of {t}.\n{p}: " + sentence(20) for p in range(10)]
		        ten.write(json.dumps({"question": f"Which of {t}?", "answers": ["yes"],
		            "paragraphs": texts}) + "\n")
	END
	for kind in llama3 mistral; do
		zstd -qdc "$G/tokenizer/$kind.json.zst" >$kind.json
	done
}

setup() {
	load ../helper
	load ../promises
	D=$BATS_FILE_TMPDIR
}

needles() { rf-needle --tokenizer bytes --haystack "$D/essay.txt" "$@"; }
reader() { python3 "$ROOT/t/helper/needle.py" "$@"; }
NIAH=niah_single_1,niah_single_2,niah_single_3,niah_multikey_1,niah_multikey_2,niah_multikey_3
NIAH+=,niah_multivalue,niah_multiquery

# bad STATUS SENTENCE OPTION...: rf-needle exits with this status and one line that has the sentence, and
# writes no file
bad() {
	local status=$1 sentence=$2
	shift 2
	run "-$status" --separate-stderr needles -o never.jsonl "$@"
	[ ! -e never.jsonl ]
	[ "${#stderr_lines[@]}" -eq 1 ]
	[[ "$stderr" == "rf-needle: "*"$sentence"* ]] || { echo "$stderr"; return 1; }
}

@test "rf-needle: keeps the promises of --help, -o, full devices and readers that leave" {
	promise "help full reader output" sink /dev/null \
		rf-needle --task vt --length 16k -n 100 --tokenizer bytes
}

@test "rf-needle: each needle occurs once, at the place that the line names, and a sample fills its length" {
	[ -n "${RF_ALL:-}" ] && n=30 || n=10
	needles --task $NIAH,vt,cwe,fwe --length 2k,5k -n $n >a.jsonl
	[ "$(reader check --essay "$D/essay.txt" a.jsonl)" -eq $((22 * n)) ]
	# short samples, where needles are close to each other
	needles --task vt --length 900 -n $((6 * n)) >a.jsonl
	[ "$(reader check a.jsonl)" -eq $((6 * n)) ]
	# long samples, which repeat the essay
	needles --task $NIAH,vt,cwe,fwe --length 200k -n 2 >a.jsonl
	[ "$(reader check --essay "$D/essay.txt" a.jsonl)" -eq 22 ]
}

@test "rf-needle: a prompt has all documents of its question, and others with the same title come first" {
	needles --task qa_1 --length 3k,6k,40k -n 40 --qa "$D/squad.jsonl" >a.jsonl
	[ "$(reader check --qa "$D/squad.jsonl" a.jsonl)" -eq 120 ]
	needles --task qa_2 --length 3k,6k,100k -n 40 --qa "$D/squad.jsonl" --qa "$D/hotpot.jsonl" >a.jsonl
	[ "$(reader check --qa "$D/hotpot.jsonl" a.jsonl)" -eq 120 ]
	# there are as many samples as questions: each question is used once
	[ "$(jq -r .query a.jsonl | sort | uniq -c | awk '{ print $1 }' | sort -u)" -eq 3 ]
	# one file serves for both tasks
	[ "$(needles --task qa_1,qa_2 -n 1 --qa "$D/squad.jsonl" | wc -l)" -eq 2 ]
}

# counted TOKENIZER FILE: prints for each sample the tokens that rf-tokenize counts plus those of the answer
counted() {
	rf-tokenize --tokenizer "$1" --prompt-key input --prompt-suffix-key answer_prefix \
		--answers-key outputs \
		--meta-key max_new_tokens,length,task,depth "$2" 2>/dev/null | rf-dump --json |
		jq -r 'select(.type == "seq") | .body.tokens.shape[0] + .body.meta.max_new_tokens'
}

@test "rf-needle: the number of tokens equals rf-tokenize's count, and one more line exceeds the length" {
	[ -n "${RF_ALL:-}" ] && n=4 || n=2
	for kind in llama3 mistral; do
		rf-needle --task $NIAH,vt,cwe,fwe,qa_1,qa_2 --length 4k,7k -n $n --tokenizer "$D/$kind.json" \
			--haystack "$D/essay.txt" --qa "$D/squad.jsonl" --qa "$D/hotpot.jsonl" >a.jsonl
		counted "$D/$kind.json" a.jsonl | diff - <(jq .tokens a.jsonl)
		jq -e -s 'all(.tokens <= .length)' a.jsonl
		grep -v '"task":"qa' a.jsonl >b.jsonl
		[ "$(reader check --tokens 150 --essay "$D/essay.txt" b.jsonl)" -eq $((22 * n)) ]
		# the prompts get one more line of noise
		grep -E '"task":"(niah_single_1|vt)"' a.jsonl | jq -c '.context[1] as $stop | .input |=
			.[:$stop] + "\n" + "The lake is calm. The road is long. The bread is warm. " +
			"On we walk. Soon we are home." + .[$stop:]' >b.jsonl
		paste <(counted "$D/$kind.json" b.jsonl) <(jq .length b.jsonl) |
			awk -v n=$((4 * n)) '$1 <= $2 { bad = 1 } END { exit bad || NR != n }'
	done
}

@test "rf-needle: rf-tokenize reads a sample with its answers, task, length and depths" {
	needles --task niah_multiquery --length 2k -n 2 --haystack "$D/endless.txt" -o a.jsonl.zst
	rf-tokenize --bytes --prompt-key input --prompt-suffix-key answer_prefix --answers-key outputs \
		--meta-key task,length,depth -o a.rf a.jsonl.zst 2>/dev/null
	rf-dump --json a.rf | jq -c 'select(.type == "seq") | .body | [.answers, .meta.task, .meta.length,
		(.meta.depth | length), (.tokens.data | map(. - 3) | implode)]' >have
	zstd -dcq a.jsonl.zst | jq -c '[.outputs, .task, .length, 4, .input + .answer_prefix]' | diff - have
}

@test "rf-needle: needles and questions are the same at every length, and differ between samples" {
	needles --task all --length 3k,9k,30k -n 40 --qa "$D/squad.jsonl" --qa "$D/hotpot.jsonl" >a.jsonl
	reader paired a.jsonl
}

@test "rf-needle: the depths of needles are uniformly distributed" {
	# Kolmogorov's bound is 1.95 at 1 in 1000
	needles --task $NIAH,qa_1,qa_2 --length 8k -n 400 --qa "$D/squad.jsonl" \
		--qa "$D/hotpot.jsonl" >a.jsonl
	reader uniform --bound 1.95 a.jsonl
	# the needles of a chain are in order, so only all depths together are uniform
	needles --task vt --length 8k -n 400 >a.jsonl
	reader uniform --bound 1.95 a.jsonl
}

@test "rf-needle --digits: values have this many digits, seven by default, and differ within a sample" {
	needles --task niah_multivalue,niah_multiquery --length 3k -n 20 >seven
	needles --task niah_multivalue,niah_multiquery --length 3k -n 20 --digits 7 | cmp - seven
	[ "$(jq -r '.outputs[]' seven | grep -cE '^[1-9][0-9]{6}$')" -eq 160 ]
	for digits in 3 9; do
		needles --task niah_multivalue,niah_multiquery --length 3k -n 20 --digits $digits >few
		[ "$(jq -r '.outputs[]' few | grep -cE "^[1-9][0-9]{$((digits - 1))}$")" -eq 160 ]
		jq -e -s 'all(.outputs as $o | ($o | unique | length) == 4
			and (.input as $text | all($o[]; inside($text))))' few >true
	done
	bad 64 "--digits: '2' is not a whole number from 3 to 9" --task niah_single_2 --digits 2
}

@test "rf-needle --digits: an answer occurs once, even if other values repeat" {
	needles --task niah_multikey_2,niah_multikey_1 --digits 3 --length 256k -n 2 >lines
	python3 - <<-'END'
		import json, re
		for line in open("lines"):
		    sample = json.loads(line)
		    for answer in sample["outputs"]:
		        assert len(re.findall(rf"\b{answer}\b", sample["input"])) == 1, answer
	END
}

@test "rf-needle: the needles of a sample come in any order" {
	needles --task niah_multivalue --length 4k -n 200 |
		jq -r '.needles | to_entries | sort_by(.value) | map(.key) | join(" ")' \
			| sort | uniq -c >orders
	[ "$(wc -l <orders)" -eq 24 ]
}

@test "rf-needle: any range and any order of tasks and lengths gives the same lines" {
	qa=(--qa "$D/squad.jsonl" --qa "$D/hotpot.jsonl")
	needles --task all --length 3k,5k -n 9 "${qa[@]}" >whole
	needles --task all --length 3k,5k -n 9 "${qa[@]}" | cmp - whole
	for range in :2 2:3 3:3 3:7 7:; do
		needles --task all --length 5k,3k -n 9 --range $range "${qa[@]}"
	done >parts
	cmp <(sort whole) <(sort parts)
	needles --task vt,fwe,niah_single_2 --length 3k -n 9 >some
	[ "$(sort some | comm -12 - <(sort whole) | wc -l)" -eq 27 ]
	# more samples do not change the first ones; another seed changes all
	needles --task vt --length 3k -n 20 | head -n 9 | cmp - <(head -n 9 some)
	[ -z "$(needles --task all --length 3k,5k -n 9 --seed 43 "${qa[@]}" \
		| sort | comm -12 - <(sort whole))" ]
}

@test "rf-needle: -o writes a file whole or not at all, compressed if it is named .zst" {
	needles --task vt,cwe --length 4k -n 5 >want
	needles --task vt,cwe --length 4k -n 5 -o a.jsonl.zst
	zstd -dcq a.jsonl.zst | cmp - want
	zstd -lv a.jsonl.zst 2>&1 | grep -q 'Check: XXH64'
	echo old >b.jsonl
	run -65 --separate-stderr needles --task vt --length 600 -n 2 -o b.jsonl
	[ "$(cat b.jsonl)" = old ]
	mkdir d
	rf-needle --task vt --length 1M -n 100000 --tokenizer bytes -o d/a.jsonl.zst &
	pid=$!
	for _ in $(seq 500); do [ -n "$(ls -A d)" ] && break || sleep 0.02; done
	[ -n "$(ls -A d)" ]
	kill $pid
	status=0
	wait $pid || status=$?
	[ "$status" -eq 143 ]
	[ -z "$(ls -A d)" ]
}

@test "rf-needle: a too short length is an error that names the least length that fits all samples" {
	for task in $(tr , ' ' <<<"$NIAH,vt,cwe,fwe,qa_1,qa_2"); do
		run --separate-stderr needles --task $task --length 512 -n 20 --qa "$D/squad.jsonl" \
			--qa "$D/hotpot.jsonl" -o a.jsonl
		[ "$status" -eq 0 ] && continue
		[ "$status" -eq 65 ]
		[[ "$stderr" == "rf-needle: $task does not fit the length 512: the least length is "* ]]
		least=${stderr##* }
		needles --task $task --length $least -n 20 --qa "$D/squad.jsonl" \
			--qa "$D/hotpot.jsonl" >a.jsonl
		[ "$(wc -l <a.jsonl)" -eq 20 ]
		bad 65 "$least" --task $task --length $((least - 1)) -n 20 --qa "$D/squad.jsonl" \
			--qa "$D/hotpot.jsonl"
	done
	[ -n "$least" ]
}

@test "rf-needle: ends with a tokenizer that makes one token of all unknown text" {
	cat >one.json <<-'END'
		{"added_tokens": [], "normalizer": null, "pre_tokenizer": null, "post_processor": null,
		 "decoder": null,
		 "model": {"type": "BPE", "unk_token": "?", "fuse_unk": true, "byte_fallback": false,
		           "vocab": {"?": 0}, "merges": []}}
	END
	timeout 60 rf-needle --task niah_single_1,fwe,niah_multikey_2 --length 1k -n 2 \
		--tokenizer one.json >a.jsonl
	jq -e -s 'length == 6 and all(.tokens < 140 and .units >= 1024)' a.jsonl
}

@test "rf-needle: an essay without sentences has needles between any two words" {
	rf-needle --task niah_multikey_1 --length 6k -n 20 --tokenizer bytes \
		--haystack "$D/endless.txt" >a.jsonl
	[ "$(reader check --essay "$D/endless.txt" a.jsonl)" -eq 20 ]
	# an essay in JSON lines, and compressed
	split -l 100 "$D/essay.txt" part
	for part in part*; do jq -Rsc '{text: .}' $part; done | zstd -q >essay.jsonl.zst
	needles --task niah_single_2 --length 4k -n 3 >want
	needles --task niah_single_2 --length 4k -n 3 --haystack essay.jsonl.zst | cmp - want
}

@test "rf-needle: an essay without blanks between its words is refused" {
	for i in $(seq 50); do printf '%s' '河水平静地流过许多石头。人们在老房子旁边说话。'; done >zh.txt
	run -65 rf-needle --task niah_single_2 --haystack zh.txt -n 1 --tokenizer bytes
	[ "$output" = 'rf-needle: zh.txt: its words have 3450 bytes on average, so they are no words: '\
'put blanks between them' ]
}

@test "rf-needle: words come from --adjectives and --nouns; too few words are combined into pairs" {
	printf 'big\r\n\nred\nbig\n%s\n' "$(printf 'adj%s\n' {a..h})" >adjectives
	printf 'noun%s\n' {a..j} >nouns
	needles --task niah_multiquery,niah_multikey_2 --length 16k -n 2 --adjectives adjectives \
		--nouns nouns |
		jq -r .input | grep -o 'that of [^ ]*' | sort -u >keys
	[ "$(wc -l <keys)" -eq 100 ]
	run ! grep -vE '^that of (big|red|adj[a-h])-noun[a-j]$' keys
	needles --task cwe --length 8k -n 2 --adjectives adjectives --nouns nouns >a.jsonl
	[ "$(reader check a.jsonl)" -eq 2 ]
	# the built-in lists have as many words as the manual says, without duplicates
	awk -F'"' '/^const/ { n++ } n { for (i = 2; i < NF; i += 2) print n, $i }' \
		"$ROOT/lib/needle/common_words.c" >words
	[ "$(grep -c ^1 words) $(grep -c ^2 words)" = "406 554" ]
	run ! grep -vE '^[12] [a-z]+$' words
	[ -z "$(cut -d' ' -f2 words | sort | uniq -d)" ]
	grep -q '406 adjectives and 554 nouns' "$ROOT/man/rf-needle.1"
}

@test "rf-needle: --template replaces the texts of the prompts" {
	cat >t.json <<-'END'
		{ "noise": {"line": "Nothing."},
		  "types": {"number": "Zahl", "numbers": "Zahlen"},
		  "niah": {"needle": "{{{key}}} = {value} ({type_needle_v})",
		           "input_one": "{type_needle_v}:\n{context}\n{query}?",
		           "answer_prefix_one": " {query} ="},
		  "fwe": {"input": "<{context}>"} }
	END
	needles --template t.json --task niah_single_1 --length 600 -n 1 >a.jsonl
	jq -r .input a.jsonl >text
	key=$(jq -r .query a.jsonl)
	[ "$(head -n 1 text) $(tail -n 1 text)" = "Zahl: $key?" ]
	[ "$(grep -c '^Nothing\.$' text)" -eq "$(jq .units a.jsonl)" ]
	grep -qxF "{$key} = $(jq -r '.outputs[0]' a.jsonl) (Zahlen)" text
	[ "$(jq -r .answer_prefix a.jsonl)" = " $key =" ]
	needles --template t.json --task fwe --length 2k -n 1 \
		| jq -r .input | grep -qE '^<([a-z]{6} |\.\.\. )+.*>$'
	# the template of the manual
	awk '/^\{ "niah"/, /\} \}$/' "$ROOT/man/rf-needle.1" | sed 's/\\e/\\/g' >t.json
	needles --template t.json --task niah_single_1 --length 600 -n 1 \
		| jq -r '.input + .answer_prefix' >text
	grep -q '^The code of [a-z-]* is [0-9]*\.$' text
	[[ "$(tail -n 1 text)" == "What is the code of "*"? The code of "*" is" ]]
}

@test "ruler-words.py: writes the words of an installed lm-eval as a template, and names what it lacks" {
	words() { PYTHONPATH=$PWD python3 "$ROOT/pipelines/examples/ruler-words.py" "$@"; }
	mkdir -p lm_eval/tasks/ruler
	: >lm_eval/__init__.py
	cd lm_eval/tasks/ruler
	# ruler-words.py only reads these files: the import would fail
	cat >prepare_niah.py <<-'END'
		import nothing_that_exists
		def generate_input_output(template):
		    NEEDLE = "Here {key} has {value}, of {type_needle_v}."
		    template = template.replace("Many", "One")
		    template = template.replace("stand", "stands")
		def generate_samples(type_needle_v, query):
		    return {"index": 1, "gen_prefix": (f"The {type_needle_v[:-1]} of {query} is" if query else
		            f"The {type_needle_v} of {query} are")}
		def get_haystack(kind):
		    if kind == "essay":
		        haystack = open("essay").read()
		    elif kind == "repeat":
		        haystack = "Noise {and} more."
	END
	echo 'TEMPLATE = """Many {type_needle_v} stand here.\n{context}\nWhat of {query}?"""' >niah_utils.py
	cat >vt_utils.py <<-'END'
		CONFIG = {"tracking": {"template": "Track.\n{context}\nWhat is {query}?",
		                       "answer_prefix": " Answer: {num_v} names are {query}: "}}
		def generate_chains(names, n):
		    this_chain = [f"SET {names[0]} TO {n + 1}"]
		    this_chain.append(f"SET {names[1]} TO {names[0]} ")
	END
	echo 'CONFIG = {"template": "List: {context}\nWhich?", "answer_prefix": " Answer: these:"}' |
		tee cwe_utils.py >fwe_utils.py
	cat >qa_utils.py <<-'END'
		CONFIG = {"template": "Read.\n\n{context}\n\nQuestion: {query}", "answer_prefix": "Answer:"}
		DOCUMENT_PROMPT = "Text {i}:\n{document}"
	END
	cd - >/dev/null
	words -o t.json
	diff <(jq -S . t.json) - <<-'END'
		{
		  "cwe": {
		    "answer_prefix": " Answer: these:",
		    "example": "{input}{answer_prefix}{answers}\n",
		    "input": "List: {context}\nWhich?"
		  },
		  "fwe": {
		    "answer_prefix": " Answer: these:",
		    "input": "List: {context}\nWhich?"
		  },
		  "niah": {
		    "answer_prefix": " The {type_needle_v} of {query} are",
		    "answer_prefix_one": " The {type_needle_v} of {query} is",
		    "input": "Many {type_needle_v} stand here.\n{context}\nWhat of {query}?",
		    "input_one": "One {type_needle_v} stands here.\n{context}\nWhat of {query}?",
		    "needle": "Here {key} has {value}, of {type_needle_v}."
		  },
		  "noise": {
		    "line": "Noise {{and}} more."
		  },
		  "qa": {
		    "answer_prefix": " Answer:",
		    "document": "Text {i}:\n{document}",
		    "input": "Read.\n\n{context}\n\nQuestion: {query}"
		  },
		  "vt": {
		    "answer_prefix": " Answer: {count} names are {query}:",
		    "example": "{input}{answer_prefix}  {answers}\n\n\n\n",
		    "first": "SET {name} TO {value}",
		    "input": "Track.\n{context}\nWhat is {query}?",
		    "next": "SET {name} TO {from}"
		  }
		}
	END
	needles --template t.json --task vt --length 2k -n 1 | jq -r .input >text
	[ "$(head -n 1 text) $(tail -n 1 text | cut -d ' ' -f 1,2)" = 'Track. What is' ]
	grep -qx 'Noise {and} more.' text
	# texts and files that are missing
	cd lm_eval/tasks/ruler
	sed -i s/DOCUMENT/TEXT/ qa_utils.py
	says 78 "ruler-words.py: $PWD/qa_utils.py: there is no text DOCUMENT_PROMPT (lm-eval 0.4.13 has it)" \
		env PYTHONPATH="$OLDPWD" python3 "$ROOT/pipelines/examples/ruler-words.py"
	rm qa_utils.py
	says 78 "ruler-words.py: $PWD/qa_utils.py: No such file or directory" \
		env PYTHONPATH="$OLDPWD" python3 "$ROOT/pipelines/examples/ruler-words.py" -o never
	[ ! -e never ]
	says 69 'ruler-words.py: lm-eval is not installed: pip install --no-deps lm-eval' \
		python3 -S "$ROOT/pipelines/examples/ruler-words.py"
	says 64 'ruler-words.py: unrecognized arguments: x (try --help)' \
		python3 "$ROOT/pipelines/examples/ruler-words.py" x
}

@test "ruler-words.py: prompts made with its template equal the prompts that the code of lm-eval builds" {
	package=$(python3 -c 'import importlib.util as i; found = i.find_spec("lm_eval")
if found: print(found.submodule_search_locations[0])')
	[ -n "$package" ] || skip "lm-eval is not installed (pip install --no-deps lm-eval)"
	python3 "$ROOT/pipelines/examples/ruler-words.py" -o t.json
	needles --template t.json --haystack "$D/essay.txt" --qa "$D/squad.jsonl" --qa "$D/hotpot.jsonl" \
		--length 3k,8k -n 2 -o prompts.jsonl --task niah_single_1,niah_multikey_2,niah_multikey_3\
,niah_multivalue,niah_multiquery,vt,cwe,fwe,qa_1,qa_2
	python3 "$ROOT/t/helper/ruler.py" "$package" <prompts.jsonl >said
	[ "$(cat said)" = "40 prompts are RULER's" ]
}

@test "rf-needle: the jq commands of rf-needle(1) make questions from the formats of SQuAD and HotpotQA" {
	mandoc -T ascii -O width=1000 "$ROOT/man/rf-needle.1" | sed 's/.\x08//g' |
		sed -n '/^ *jq -c/,/>[a-z]*\.jsonl$/p' >commands
	[ "$(grep -c 'jsonl$' commands)" -eq 2 ]
	cat >dev-v2.0.json <<-'END'
		{"data": [{"title": "T", "paragraphs": [{"context": "It is here.", "qas": [
		  {"question": "Where?", "is_impossible": false,
		   "answers": [{"text": "here"}, {"text": "here"}]},
		  {"question": "When?", "is_impossible": true, "answers": []}]}]}]}
	END
	cat >hotpot_dev_distractor_v1.json <<-'END'
		[{"question": "Who?", "answer": "she",
		  "context": [["A", ["One. ", "Two."]], ["B", ["Three."]]]}]
	END
	bash -eu commands
	jq -S -c . squad.jsonl | diff - <(
		echo '{"answers":["here"],"context":"It is here.","question":"Where?","title":"T"}')
	jq -S -c . hotpot.jsonl | diff - <(
		echo '{"answers":["she"],"paragraphs":["A\nOne. Two.","B\nThree."],"question":"Who?"}')
	[ "$(needles --task qa_1,qa_2 -n 1 --qa squad.jsonl --qa hotpot.jsonl \
		| jq .units | paste -sd' ')" = "0 0" ]
}

@test "rf-needle: a mistake on the command line exits 64, and a missing file exits 66" {
	bad 64 '--task is missing'
	bad 64 "--task: 'niah' is no task" --task niah
	bad 64 "--task: '' is no task" --task vt,
	bad 64 "--task: 'vt' is named twice" --task vt,vt
	run -64 --separate-stderr rf-needle --task vt,niah_multiquery --tokenizer bytes
	[ "$stderr" = 'rf-needle: niah_multiquery needs a text: --haystack' ]
	bad 64 'qa_2 needs questions: --qa' --task qa_2
	bad 64 '--qa is given more than twice' --task qa_1 --qa a --qa b --qa c
	for length in 511 17M 4K 1e3 k '4k,' 99999999999999999999k; do
		bad 64 "--length: '${length#4k,}' is not a whole number" --task vt --length "$length"
	done
	bad 64 '--length: 2048 is named twice' --task vt --length 2k,2048
	for range in 3 a:b 5:4 0:501 -1:; do
		bad 64 "--range: '$range' is not I:J" --task vt --range $range
	done
	says 64 'rf-needle: --tokenizer is missing (try --help)' rf-needle --task vt
	cp "$D/essay.txt" essay.txt
	run -64 --separate-stderr needles --task niah_single_2 --haystack essay.txt -o essay.txt
	cmp essay.txt "$D/essay.txt"
	bad 66 'none' --task vt --tokenizer none
	bad 66 'none' --task niah_single_2 --haystack none
	bad 66 'none' --task qa_1 --qa none
	bad 66 'none' --task cwe --nouns none
	bad 66 'none' --task cwe --template none
}

@test "rf-needle: a bad file exits 65, and the message names file and line" {
	: >empty
	printf 'good\nnot good\n' >words
	printf 'good\nnot-good\n' >hyphen
	printf '\377\n' >bytes
	printf 'a\nb\n' >few
	bad 65 'empty: there are no words' --task vt --adjectives empty
	bad 65 "words: line 2: the word 'not good' has a blank" --task vt --nouns words
	bad 65 "hyphen: line 2: the word 'not-good' has" --task vt --nouns hyphen
	bad 65 'bytes: line 1: the word ' --task vt --nouns bytes
	bad 65 'few: 2 adjectives and 2 nouns make 4 keys' --task vt --adjectives few --nouns few
	bad 65 'empty: there are no words' --task niah_single_2 --haystack empty
	bad 65 'bytes: the text is not UTF-8' --task niah_single_2 --haystack bytes

	# question LINE SENTENCE: LINE as the second line of a file is refused with this sentence
	question() {
		printf '{"question":"q","answers":["a"],"context":"c"}\n%s\n' "$1" >q.jsonl
		bad 65 "q.jsonl: line 2: $2" --task qa_1 --qa q.jsonl
	}
	bad 65 'empty: there are no questions' --task qa_1 --qa empty
	question '{"question":"q"' ''
	question '[]' 'the line is a list, not an object'
	question '{"answers":["a"],"context":"c"}' "the key 'question' is missing"
	question '{"question":"q","context":"c"}' "the key 'answers' is missing"
	question '{"question":"q","answers":[],"context":"c"}' "'answers' is empty"
	question '{"question":"q","answers":"a","context":"c"}' "'answers' is a string, not a list"
	question '{"question":"q","answers":[1],"context":"c"}' "'answers' is a number, not a string"
	question '{"question":"q","answers":["a"]}' "there must be either 'context' or 'paragraphs'"
	question '{"question":"q","answers":["a"],"context":"c","paragraphs":["d"]}' 'there must be either'
	question '{"question":"q","answers":["a"],"paragraphs":[]}' "'paragraphs' is empty"
	question '{"question":"q","answers":[""],"context":"c"}' "'answers' is empty"
	question '{"question":"q\u0000","answers":["a"],"context":"c"}' "'question' contains a NUL"
	question '{"question":"q","answers":["a"],"context":"c","title":1}' "'title' is a number"
	question '{"question":"q","question":"r","answers":["a"],"context":"c"}' ''

	# template JSON SENTENCE: the template is refused with this sentence
	template() {
		printf '%s' "$1" >t.json
		bad 65 "t.json: $2" --task vt --template t.json
	}
	template '{' ''
	template '[]' 'line 1: the file is a list'
	template $'{\n"nyah": {}}' "line 2: unknown key \"nyah\""
	template $'{\n"niah": []}' "line 2: 'niah' is a list, not an object"
	template $'{"niah": {\n\n"x": "y"}}' "line 3: 'niah' has no key \"x\""
	template $'{"noise":{"line":"\\n\\n"},\n"niah":{"needle":"{key}"}}' \
		"line 2: 'niah.needle': {value} is missing"
	template '{"niah":{"input":"{query}"}}' "line 1: 'niah.input': {context} is missing"
	template '{"niah":{"input":"{query}{context}{context}"}}' \
		"line 1: 'niah.input': {context} occurs twice"
	template '{"niah":{"input":"{query}{context}{word}"}}' "line 1: 'niah.input': '{word}' is nothing"
	template '{"niah":{"input":"{query}{context}{"}}' "line 1: 'niah.input': '{' is nothing"
	template '{"niah":{"input":"{query}{context}}"}}' "line 1: 'niah.input': a brace closes nothing"
	template '{"fwe":{"answer_prefix":"so:"}}' \
		"line 1: 'fwe.answer_prefix': an answer_prefix begins with a blank"
	template '{"noise":{"line":""}}' "line 1: 'noise.line': the line is empty"
	template '{"noise":{"line":5}}' "line 1: 'noise.line': 'line' is a number"
	template '{"noise":{"line":"a","line":"b"}}' "line 1: 'noise.line' occurs twice"
	template '{"noise":{"line":"a\u0000"}}' "line 1: 'noise.line': there is a NUL in it"
}

@test "rf-needle: --skip-short omits a task at lengths that are too short for it, with any --range" {
	needle() {
		rf-needle --task niah_single_1,vt,cwe --length 512,2k -n 3 --tokenizer bytes --skip-short "$@"
	}
	run -0 --separate-stderr needle -o all.jsonl
	said='^rf-needle: left out, too short: vt at length 512 \(it needs ([0-9]+)\), cwe at length 512'
	[[ "$stderr" =~ $said ]]
	# the message names the least length that fits
	needs=${BASH_REMATCH[1]}
	rf-needle --task vt --length "$needs" -n 3 --tokenizer bytes >fits
	run -65 rf-needle --task vt --length $((needs - 1)) -n 3 --tokenizer bytes
	[ "$(jq -c '[.task, .length]' all.jsonl | uniq -c | tr -s ' ' | paste -sd,)" = \
		' 3 ["niah_single_1",512], 3 ["niah_single_1",2048], 3 ["vt",2048], 3 ["cwe",2048]' ]
	# the lines are the same as without the option
	rf-needle --task niah_single_1 --length 512,2k -n 3 --tokenizer bytes | cmp - <(head -n 6 all.jsonl)
	cat <(needle --range 0:1) <(needle --range 1:3) 2>/dev/null | sort | diff - <(sort all.jsonl)
	run -0 --separate-stderr rf-needle --task vt --length 512 -n 1 --tokenizer bytes --skip-short
	[ -z "$output" ]
}
