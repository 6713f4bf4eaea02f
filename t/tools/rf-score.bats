#!/usr/bin/env bats
# rf-score: scores by the rules of benchmarks, their intervals, and differences between models.
setup() {
	load ../helper
	load ../promises
	load ../model
}

# answered N [WORD]: prints a stream of N questions of the task qasper with the answer "a b", and samples with
# the texts "x b" and "x WORD" in turn [c]
answered() {
	local i
	for ((i = 0; i < $1; i++)); do
		printf '{"prompt":"q%d","answers":["a b"],"task":"qasper","length":%d}\n' $i $((i % 2 * 100))
	done | rf-tokenize --bytes --prompt-key prompt --answers-key answers --meta-key task,length --no-eos |
		rf-dump --json | awk -v other="${2:-c}" '/"type":"seq"/ {
			text = n++ % 2 ? "x " other : "x b"
			sub(/}}$/, ",\"generation\":{\"temperature\":0.0,\"tokens\":{\"dtype\":\"<i4\"," \
				"\"shape\":[1,1],\"data\":[100]}," \
				"\"length\":{\"dtype\":\"<i4\",\"shape\":[1]," \
				"\"data\":[1]},\"stop\":[\"length\"],\"text\":[\"" text "\"]}}}")
		} { print }' | rf-cat --json
}
# field NAME: prints the value of this key of each line of rf-score
# near A B: succeeds if two numbers are equal to 1e-9
field() { sed -n "s/.*\"$1\":\([^,}]*\).*/\1/p"; }
near() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a - b < 1e-9 && b - a < 1e-9) }'; }

@test "rf-score: keeps the promises of a program that reads a stream" {
	answered 5 >good.rf
	promises sink good.rf rf-score
}

# The pairs were scored by the published programs.  python-Levenshtein, whose ratio differs, scored the pairs
# of lcc that end with the text that grep looks for.
@test "rf-score: equals the published programs to 1e-12 on 600 pairs of 13 tasks, with both sets of rules" {
	zstd -dcq "$G/score/metrics.jsonl.zst" >all.jsonl
	[ "$(wc -l <all.jsonl)" -eq 600 ]
	grep '"task": "lcc".*something, else; entirely (new)"' all.jsonl >levenshtein.jsonl
	grep -v '"task": "lcc".*something, else; entirely (new)"' all.jsonl >pairs.jsonl
	[ "$(wc -l <levenshtein.jsonl)" -eq 6 ]
	for rules in official refine; do
		for metric in auto levenshtein; do
			of=pairs
			[ $metric = auto ] || of=levenshtein
			# rf-score prints the lines task by task
			awk -F'"' '{ if (!($4 in n)) { name[++k] = $4 } n[$4]++; line[$4, n[$4]] = $0 }
				END { for (i = 1; i <= k; i++) for (j = 1; j <= n[name[i]]; j++)
					print line[name[i], j] }' $of.jsonl | field $rules >want
			rf-score --rules $rules --metric $metric --each $of.jsonl | field score >have
			[ "$(wc -l <have)" = "$(wc -l <$of.jsonl)" ]
			paste have want |
				awk '{ d = $1 - $2 }
				d > 1e-12 || d < -1e-12 { print NR ": " $0; bad = 1 }
				END { exit bad }'
		done
	done
}

# The Python code of the published programs scored these texts.
@test "rf-score: equals the published programs on 200 pairs of 10 tasks whose texts have NULs" {
	zstd -dcq "$G/score/nul.jsonl.zst" >all.jsonl
	[ "$(wc -l <all.jsonl)" -eq 200 ]
	field official <all.jsonl >want
	rf-score --each all.jsonl | field score >have
	paste have want | awk '
		{ d = $1 - $2 }
		d > 1e-12 || d < -1e-12 { print NR ": " $0; bad = 1 }
		END { exit bad }'
	[ "$(wc -l <have)" = "$(wc -l <want)" ]
}

@test "rf-score: --by separates numbers that differ in the last digit" {
	for x in 0.1 0.30000000000000004 0.3 1.0; do
		echo "{\"pred\":\"x\",\"answers\":[\"x\"],\"task\":\"a\",\"x\":$x}"
	done >in.jsonl
	[ "$(rf-score --metric part --by task,x in.jsonl | grep -o '"x":[^,]*' | paste -sd' ')" = \
		'"x":0.1 "x":0.30000000000000004 "x":0.3 "x":1.0' ]
	[ "$(rf-score --metric part --by x in.jsonl | grep -o '"x":[0-9][^,]*' | paste -sd' ')" = \
		'"x":0.1 "x":0.30000000000000004 "x":0.3 "x":1.0' ]
}

@test "rf-score: writes NULs in tasks and values as JSON escapes, and escapes them in messages" {
	line='{"pred":"x","answers":["x"],"task":"a\u0000b","of":"c\u0000","d":["\u0000"]}'
	echo "$line" >in.jsonl
	[ "$(rf-score --metric part --by task,of in.jsonl | cut -d, -f 1-3)" = \
		'{"task":"a\u0000b","of":"c\u0000","n":1' ]
	rf-score --metric part --each --show d in.jsonl | grep -qF '"d":["\u0000"]'
	says 65 "...line 1: the task 'a\x00b' has no metric here: name one with --metric" rf-score in.jsonl
	# the task is in the meta data of a stream
	made='"generation":{"temperature":0.0,"tokens":{"dtype":"<i4","shape":[1,1],"data":[100]},'
	made+='"length":{"dtype":"<i4","shape":[1],"data":[1]},"stop":["eos"],"text":["x"]}'
	jq -c '.prompt = "p"' in.jsonl |
		rf-tokenize --bytes --prompt-key prompt --answers-key answers --meta-key task 2>err |
		rf-dump --json | sed '/"type":"seq"/s/}}$/,'"$made"'}}/' |
		rf-cat --json >in.rf
	[ "$(rf-score --metric part in.rf | cut -d, -f 1,2)" = '{"task":"a\u0000b","n":1' ]
}

@test "rf-score: equals the published programs where blanks, case, ties and odd characters decide" {
	# try TASK RULES SCORE PRED ANSWER...: the published programs gave this score
	try() {
		local task=$1 rules=$2 want=$3 pred=$4 answers
		shift 4
		answers=$(printf ',"%s"' "$@")
		have=$(printf '{"task":"%s","pred":"%s","answers":[%s]}\n' $task "$pred" "${answers:1}" |
			rf-score --format jsonl --rules $rules --each | field score)
		near "$have" "$want" || { echo "$task $rules $pred: $have, not $want"; return 1; }
	}
	try lcc official .86 '    return a + b\nx' '  return a+b'
	try lcc official .9 '# c\nint y = 1;' 'int x = 1;'
	try lcc official 0 '# only' 'x = 1'
	try lcc refine .18 '# only' 'x = 1'
	try lcc refine 0 '' 'x = 1'
	try lcc refine .67 '\n\nabc' abd
	try qasper refine .8 'The cat, sat.' 'a cat sat down'
	try qasper refine 1 "it's" its
	try qasper refine 0 '\ncat' cat
	try qasper official 1 '\ncat' cat
	try qmsum refine 0.6666666616666667 'the cat sat on the mat. it purred.' \
		'the cat sat on a mat. the dog barked.'
	try qmsum refine 0.999999995 'a . b' 'a b'
	try qmsum refine 0 '...' a
	try trec refine .5 'Description of a person or Individual' Individual
	try trec refine 0.3333333333333333 'Individual Description of something Description of a person' \
		'Description of a person'
	try trec refine .5 'Other location, City' City
	try ruler_qa refine 0 '\nParis' paris
	try ruler_qa official 1 '\nParis' paris
	try ruler_qa refine 1 'x\ty' 'x y' && return 1 || :
	try niah_multivalue official .5 'it is 1234567' 1234567 7654321
	# a newline at the beginning ends the answer, except in tasks whose leading newlines are dropped
	try hotpotqa refine 0 '\nParis' Paris
	try triviaqa refine 1 '\nParis' Paris
	try hotpotqa refine 1 'Paris\nRome' Paris
	try qa_1 refine 1 'In Paris.\nIn Rome.' Rome Paris
	try qa_1 refine 0 'In Rome.\nIn Paris.' Paris
	try trec refine 1 '\nCity' City
	try cwe_e official 1 'APPLE' apple
	# a final sigma, a capital I with a dot, blanks that only Python treats as such
	try qasper official 1 'ΟΔΟΣ' 'οδος'
	try qasper official 1 'İx' 'i̇x'
	try qasper official 1 'b\u001cc\u2028d' 'b c d'
	# "a" is not an article before a letter outside ASCII
	try qasper official 1 'aé' 'aé'
	try passage_count official .5 '3 or 5' 3
	try passage_retrieval_en official 1 'It is 12.' 'Paragraph 12'
}

@test "rf-score: means, standard errors and intervals follow Student's t distribution" {
	answered 4 >in.rf
	rf-score in.rf >line
	# the article of "a b" is dropped: F1 against "b" is 2/3 for "x b" and 0 for "x c"
	rf-score --each in.rf | field score >each
	awk '{ s += $1; q += $1 * $1 } END {
		m = s / NR; se = sqrt((q / NR - m * m) / (NR - 1)); t = 3.182446305284263
		low = m > t * se ? m - t * se : 0
		printf "%.9f %.9f %.9f %.9f\n", 100 * m, 100 * se, 100 * low, 100 * (m + t * se) }' each >want
	for name in score se low high; do field $name <line; done | xargs printf '%.9f %.9f %.9f %.9f\n' |
		cmp - want
	[ "$(field n <line)" = 4 ]
	# one question has neither error nor interval
	answered 1 | rf-score | grep -q '"se":null,"low":null,"high":null'
}

# lines TASK N SCORE [N SCORE]...: prints N JSON lines of a task that have this score, for each pair
lines() {
	local task=$1 i
	shift
	while [ $# -gt 0 ]; do
		for ((i = 0; i < $1; i++)); do
			case $2 in
			1) echo "{\"task\":\"$task\",\"pred\":\"a b\",\"answers\":[\"a\",\"b\"]}" ;;
			.5) echo "{\"task\":\"$task\",\"pred\":\"a\",\"answers\":[\"a\",\"b\"]}" ;;
			0) echo "{\"task\":\"$task\",\"pred\":\"x\",\"answers\":[\"a\",\"b\"]}" ;;
			esac
		done
		shift 2
	done
}

# interval KEY: prints "low high" of this key of a line; an empty KEY is the score
interval() { jq -r "$1"' | [.low, .high] | map(. * 1e4 | round / 1e4 | tostring) | join(" ")'; }

@test "rf-score: the interval of a proportion of right answers is exact, also if all or none are right" {
	# scipy.stats.binomtest(x, n).proportion_ci(method="exact") gave these intervals
	check() { [ "$(rf-score --format jsonl | interval .)" = "$1" ]; }
	lines vt 12 0 | check '0 26.4648'
	lines vt 12 1 | check '73.5352 100'
	lines vt 3 1 7 0 | check '6.674 65.2453'
	lines vt 480 1 20 0 | check '93.8897 97.5399'
	# with a score between 0 and 1 it is not a proportion; an interval stays within 0 to 100
	lines vt 11 1 1 .5 | check '86.6626 100'
	[ "$(lines vt 1 0 | rf-score --format jsonl | jq -c '[.se, .low, .high]')" = '[null,null,null]' ]
}

@test "rf-score: a mean over tasks and a difference have an interval even if all answers are right or wrong" {
	cat <(lines vt 12 0) <(lines cwe 3 1 7 0) | rf-score --format jsonl >both
	cat <(lines vt 12 0) <(lines cwe 12 0) | rf-score --format jsonl >none
	python3 - >want <<-'END'
		from math import sqrt
		a, b = (0, 0, 26.464847), (30, 6.673951, 65.245297)
		for x, y in ((a, b), (a, a)):
		    m = (x[0] + y[0]) / 2
		    print(*(f"{m + s * sqrt((x[i] - x[0])**2 + (y[i] - y[0])**2) / 2:.4f}"
		            for i, s in ((1, -1), (2, 1))))
	END
	for file in both none; do
		tail -n 1 $file | jq -r '[.low, .high] | @tsv' | awk '{ printf "%.4f %.4f\n", $1, $2 }'
	done | sed 's/-0\.0000/0.0000/' | diff want -
	lines vt 2 0 1 1 9 0 >a.jsonl
	lines vt 1 0 2 1 9 0 >b.jsonl
	rf-score --against a.jsonl b.jsonl >line
	rf-score --against a.jsonl a.jsonl >same
	python3 - >want <<-'END'
		from math import sqrt
		for better, worse in ((1, 0), (0, 0)):
		    p, q = (better + 1) / 14, (worse + 1) / 14
		    half = 1.959963984540054 * sqrt((p + q - (p - q)**2) / 14)
		    print(f"{100 * (p - q - half):.4f} {100 * (p - q + half):.4f}")
	END
	for file in line same; do
		jq -r '.against | [.low, .high] | @tsv' $file | awk '{ printf "%.4f %.4f\n", $1, $2 }'
	done | diff want -
}

@test "rf-score: --by separates lengths, and a mean is over tasks of the same length" {
	answered 4 >a.rf
	sed 's/qasper/hotpotqa/' <(rf-dump --json a.rf) | rf-cat --json -o b.rf
	rf-score --by task,length a.rf b.rf >lines
	[ "$(wc -l <lines)" -eq 6 ]
	[ "$(grep -c '"task":"mean"' lines)" -eq 2 ]
	grep -q '"task":"mean","length":0,"n":4,"score":' lines
	[ "$(grep -c '"length":100' lines)" -eq 3 ]
	[ "$(rf-score a.rf b.rf | wc -l)" -eq 3 ]
	run -65 --separate-stderr rf-score --by task,depth a.rf
	[[ $stderr == "rf-score: a.rf: record 1 "*"the question has no 'depth' that is a text or a number" ]]
}

@test "rf-score --against: differences are paired by question, and other questions are refused" {
	answered 6 >a.rf
	answered 6 b >b.rf
	rf-score --against a.rf b.rf >line
	grep -q '"against":{"score":.*"difference":' line
	[ "$(field better <line)" = 3 ]
	[ "$(field worse <line)" = 0 ]
	near "$(field score <line)" "$(rf-score a.rf | field score)"
	near "$(field difference <line)" \
		"$(awk -v a="$(rf-score b.rf | field score)" -v b="$(rf-score a.rf | field score)" \
			'BEGIN { printf "%.12f", a - b }')"
	# the order of questions does not matter
	rf-cat --shuffle --seed 3 -o shuffled.rf a.rf
	rf-score --against shuffled.rf b.rf | cmp - line
	# a folder stands for its streams
	mkdir folder none
	rf-cat --range 0:1 -o folder/1.rf a.rf
	rf-cat --range 1: -o folder/2.rf a.rf
	touch folder/.3.rf folder/4.rf.tmp-1
	rf-score --against folder b.rf | cmp - line
	# folders and pipes in the folder are ignored
	mkdir folder/4.rf none/1.rf
	mkfifo folder/5.rf none/2.rf
	rf-score --against folder b.rf | cmp - line
	ln -s nowhere folder/6.rf
	says 66 "rf-score: folder/6.rf: ..." rf-score --against folder b.rf
	says 66 'rf-score: none: the folder has no file *.rf' rf-score --against none b.rf
	rf-cat --range 0:5 -o fewer.rf a.rf
	says 65 "...the question 5 has an answer in one of both only" rf-score --against fewer.rf b.rf
	says 65 "...the question 5 has an answer in one of both only" rf-score --against b.rf fewer.rf
	sed 's/qasper/vt/' <(rf-dump --json a.rf) | rf-cat --json -o task.rf
	rf-cat --shuffle a.rf task.rf 2>err -o both.rf || rf-cat --renumber --shuffle a.rf task.rf -o both.rf
	run -65 --separate-stderr rf-score --against both.rf a.rf
	[[ $stderr == *'--against has questions of "vt", and the input has none'* ]]
	sed 's/"a b"/"a d"/' <(rf-dump --json a.rf) | rf-cat --json -o others.rf
	says 65 "...the id 0 stands for two different questions" rf-score --against others.rf b.rf
	says 65 "...the id 0 occurs twice..." rf-score --against a.rf --against a.rf b.rf
}

@test "rf-score --each: with the metric all, reports which references were found, as means over samples" {
	line='{"task":"vt","pred":"one three","outputs":["one","two","THREE","thr|two"]}'
	found() { sed 's/.*"found":\(\[[^]]*\]\).*/\1/'; }
	[ "$(rf-score --each --format jsonl <<<"$line" | found)" = '[1.0,0.0,1.0,0.0]' ]
	# the rules of refine split the last reference in two
	rf-score --each --rules refine --format jsonl <<<"$line" >out
	[ "$(found <out)" = '[1.0,0.0,1.0,1.0,0.0]' ]
	[ "$(field score <out)" = 0.6 ]
	# other metrics do not report them
	rf-score --each --metric part --format jsonl <<<"$line" | grep -vq found
	# a question with four samples
	answered 1 | edited 'if .type == "seq" then .body.meta.task = "vt"
		| .body.answers = ["b", "x", "z"]
		| .body.generation |= (.tokens.shape = [4, 1] | .tokens.data = [1, 1, 1, 1]
			| .length.shape = [4] | .length.data = [1, 1, 1, 1]
			| .stop = ["eos", "eos", "eos", "eos"] | .text = ["b", "bx", "x", "b"])
		else . end' >four.rf
	rf-score --each four.rf >out
	[ "$(found <out)" = '[0.75,0.5,0.0]' ]
	near "$(field score <out)" "$(rf-score four.rf | field score | awk '{ printf "%.15g", $1 / 100 }')"
}

@test "rf-score --check: without answers, reports how many questions can be scored, or why one cannot" {
	answered 5 | edited 'del(.body.generation)' >in.rf
	rf-score --check --by task,length in.rf >out
	diff out - <<-'END'
		{"task":"qasper","length":0,"n":3}
		{"task":"qasper","length":100,"n":2}
	END
	line='{"task":"vt","answers":["a"],"pred":null}'
	[ "$(printf '%s\n' "$line" "$line" | rf-score --check --format jsonl)" = '{"task":"vt","n":2}' ]
	edited 'if .body.id == 3 then .body.meta.task = "lsht" else . end' in.rf >bad.rf
	run -65 --separate-stderr rf-score --check bad.rf
	said="the task 'lsht' has no metric here: name one with --metric"
	[[ $stderr == "rf-score: bad.rf: record 4 "*"$said" ]]
	rf-score --check --metric f1 bad.rf >out
	[ "$(wc -l <out)" -eq 2 ]
	run -65 --separate-stderr rf-score --check --format jsonl <<<'{"task":"vt","answers":[]}'
	[[ $stderr == *"line 1: there are no references to compare with (--skip-bad "* ]]
	for option in --each --partial '--against in.rf' '-o out.rf'; do
		run -64 rf-score --check $option in.rf
	done
}

@test "rf-score --show: adds the values of these keys, of any type, to the lines of --each" {
	cat >in.jsonl <<-'END'
		{"answers":["a\n"],"depth":[0.25,1],"task":"trec","pred":"x","of":{"a":["b\"",null]},"n":-3}
		{"answers":["a"],"task":"trec","pred":null,"depth":[1]}
		{"n":"\u00e4","answers":["a"],"task":"trec","pred":"x","depth":[]}
	END
	rf-score --partial --each --show depth,of,n,answers in.jsonl | jq -c 'del(.task, .id, .score)' >lines
	diff lines - <<-'END'
		{"depth":[0.25,1],"of":{"a":["b\"",null]},"n":-3,"answers":["a\n"]}
		{"depth":[],"of":null,"n":"ä","answers":["a"]}
	END
	# the keys are in the meta data of a record
	answered 2 | edited 'if .type == "seq"
		then .body.meta += {depth: [0.25, 1], of: {a: ["b", null, true]}} else . end' |
		rf-score --each --show depth,no,of | jq -c 'del(.task, .score)' >lines
	diff lines - <<-'END'
		{"id":0,"depth":[0.25,1],"no":null,"of":{"a":["b",null,true]}}
		{"id":1,"depth":[0.25,1],"no":null,"of":{"a":["b",null,true]}}
	END
	says 64 "rf-score: --show is for the lines of --each" rf-score --show depth in.jsonl
	run -64 --separate-stderr rf-score --each --show depth, in.jsonl
	[ "$stderr" = "rf-score: --show takes 1 to 8 keys, separated by commas, not 'depth,'" ]
	run -64 rf-score --each --against in.jsonl in.jsonl
}

@test "rf-score -o: writes each sample's score into its record, where rf-dump and rf-cat read it" {
	answered 4 >in.rf
	rf-score -o out.rf in.rf >line
	[ "$(rf-dump --tsv --rows sample --columns score --no-header out.rf | sort -u | wc -l)" -eq 2 ]
	[ "$(rf-dump --rows sample --where 'score<0.1' --tsv --no-header out.rf | wc -l)" -eq 2 ]
	rf-dump --json out.rf | grep -q '"metric":"official f1"'
	rf-cat out.rf | rf-score | cmp - line
	# scored again with other rules
	rf-score --rules refine -o again.rf out.rf >/dev/null
	rf-dump --json again.rf | grep -q '"metric":"refine f1"'
	says 64 "rf-score: -o takes one input, not 2: rf-cat joins them" rf-score -o out.rf in.rf in.rf
}

@test "rf-score: a question without answer, references, task or metric is an error that names the lack" {
	try() {
		printf '%s\n' "$1" >in.jsonl
		run -65 --separate-stderr rf-score in.jsonl
		stderr=${stderr% (--skip-bad *)}
		[ "$stderr" = "rf-score: in.jsonl: line 1: $2" ] || { echo "$stderr"; return 1; }
	}
	try '{"pred":"a","answers":["b"]}' "the question has no 'task' that is a text or a number (--task \
NAME gives one to all questions; a task that is not one of the benchmarks also needs --metric)"
	try '{"task":"lsht","pred":"a","answers":["b"]}' \
		"the task 'lsht' has no metric here: name one with --metric"
	try '{"task":"trec","pred":"a","answers":[]}' 'there are no references to compare with'
	try '{"task":"trec","pred":"a"}' "there are no 'answers', 'outputs' or 'answer' to compare with"
	try '{"task":"trec","pred":"a","answers":[1]}' "'answers' has an element that is a number, not a text"
	try '{"task":"trec","pred":"a","answers":{}}' "'answers' is an object, not a text or a list of texts"
	try '{"task":"trec","pred":null,"answers":["b"]}' \
		"there is no 'pred' that is a text (--partial leaves such questions out)"
	try '["a"]' 'the line is a list, not an object'
	: >empty.jsonl
	run -0 --separate-stderr rf-score empty.jsonl
	[ -z "$output" ]
	[ "$stderr" = "rf-score: there are no questions" ]
	printf '%s\n' '{"task":"vt","pred":"A","answers":["a"]}' '{"task":"vt","answers":["b"]}' >some.jsonl
	rf-score --partial some.jsonl | grep -q '"n":1,"unanswered":1,"score":100.0'
	answered 2 | rf-dump --json | sed 's/,"generation":.*/}}/' | rf-cat --json -o none.rf
	run -65 --separate-stderr rf-score none.rf
	said='there is no generation: rf-generate writes it (--partial leaves such questions out)'
	[[ $stderr == *"$said" ]]
	says 65 'rf-score: "qasper": none of its 2 questions has an answer' rf-score --partial none.rf
	answered 2 | rf-dump --json | sed 's/,"text":\["[a-z ]*"\]//' | rf-cat --json -o ids.rf
	run -65 --separate-stderr rf-score ids.rf
	[[ $stderr == *"the generation has no text: rf-generate writes it if the model has a tokenizer" ]]
	run -64 --separate-stderr rf-score --by task,, some.jsonl
	[ "$stderr" = "rf-score: --by takes 1 to 8 keys, separated by commas, not 'task,,'" ]
	run -64 rf-score --metric bleu some.jsonl
	run -64 rf-score --rules mine some.jsonl
}

@test "rf-dump --pred: lines have the field names of RULER and LongBench, and the same scores" {
	answered 4 >in.rf
	rf-dump --pred --tokenizer bytes in.rf >pred.jsonl
	[ "$(wc -l <pred.jsonl)" -eq 4 ]
	python3 - <<-'END'
		import json
		for i, line in enumerate(open("pred.jsonl")):
		    o = json.loads(line)
		    # the names that RULER's evaluate.py and LongBench's eval.py read
		    for name in ("index", "input", "outputs", "pred", "others"):
		        assert name in o, name
		    for name in ("pred", "answers", "all_classes", "length"):
		        assert name in o, name
		    assert o["index"] == i and o["input"] == f"q{i}" and o["outputs"] == ["a b"], o
		    assert o["length"] == i % 2 * 100 and o["task"] == "qasper", o
	END
	rf-score pred.jsonl | cmp - <(rf-score in.rf)
	[ "$(rf-dump --pred --where 'prompt_len=2' -n 1 in.rf | grep -c '"index":0')" -eq 1 ]
	# keys of the question do not replace the model's answer
	rf-dump --json in.rf |
		jq -c 'if .type == "seq" then .body.meta += {pred: "no", index: 9} else . end' |
		rf-cat --json -o named.rf
	rf-dump --pred --tokenizer bytes named.rf | jq -cS . | cmp - <(jq -cS . pred.jsonl)
	says 64 "...--tsv cannot be combined with --pred..." rf-dump --pred --tsv in.rf
}
