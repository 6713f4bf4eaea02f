#!/usr/bin/env bats
# Tests of evaluate.mk, which turns questions into scores, with a tiny model over bytes or with a program that
# answers by a rule.

setup_file() {
	load ../helper
	export P=$BATS_FILE_TMPDIR
	tiny_model
	yes 'The road went on. Few asked where it led to.' | head -n 60 >"$P/essay.txt"
	# rule: a program in place of rf-generate.  It answers questions whose needle is deep enough, and more
	# of them in shorter texts; with different values of RULE it acts as different models.
	cat >"$P/rule" <<-'END'
		#!/bin/bash
		while [ $# -gt 0 ]; do [ "$1" != -o ] || out=$2; shift; done
		rf-dump --json | jq -c --argjson rule "${RULE:-4000}" 'if .type == "seq" then .body |= (
			(.meta.depth // []) as $depth | (.answers | length) as $n
			| ([range($n) as $i
				| select(($depth[$i] // 0.5) > (.meta.length // 1024) / $rule - .id % 5 / 10)
				| .answers[$i]] | join(", ")) as $text
			| .generation = {temperature: 0, tokens: {dtype: "<i4", shape: [1, 1], data: [5]},
				length: {dtype: "<i4", shape: [1], data: [1]}, stop: ["eos"], text: [$text]})
			else . end' | rf-cat --json -o "$out"
	END
	chmod +x "$P/rule"
	command -v gnuplot >/dev/null || return 0
	real RUN="$P/want" BATCH=3 2>"$P/said" || { cat "$P/said"; return 1; }
}

setup() {
	load ../helper
	command -v gnuplot >/dev/null || skip "gnuplot is not installed (make deps)"
}

# evaluate WORD...: runs evaluate.mk with the tiny model
evaluate() {
	RF_BIN=$RF_BIN make -s -f "$ROOT/pipelines/evaluate.mk" MODEL="$P/ckpt" "$@"
}
# real WORD...: asks for needles, which the model answers; needles WORD...: the same, but the rule answers
real() { evaluate TASK=niah_single_1,vt LENGTH=1k,2k SAMPLES=2 MAX_NEW=4 "$@"; }
needles() { evaluate LENGTH=1k,2k SAMPLES=12 BATCH=40 GENERATE="$P/rule" "$@"; }
export -f evaluate real needles
export ROOT RF_BIN

# table FILE: prints the rows that a report must have for the scores in a file
table() {
	python3 - "$1" <<-'END'
		import json, sys
		for line in open(sys.argv[1]):
		    o = json.loads(line)
		    keys = [o[k] for k in ("task", "length") if k in o]
		    interval = lambda x, f: "" if x["low"] is None else f"{x['low']:{f}} to {x['high']:{f}}"
		    cells = [*keys, o["n"], f"{o['score']:.2f}", interval(o, ".2f")]
		    if "against" in o:
		        a = o["against"]
		        star = " *" if a["low"] is not None and (a["low"] > 0 or a["high"] < 0) else ""
		        cells += [f"{a['score']:.2f}", f"{a['difference']:+.2f}{star}", interval(a, "+.2f"),
		                  a.get("better", ""), a.get("worse", "")]
		    print("| " + " | ".join(str(c) for c in cells) + " |")
	END
}
rows() { grep '^| ' "$1" | sed 1d; }
# answered RUN: prints its answered records, sorted
answered() { rf-dump --json "$1"/answers/batch-*.rf | jq -c 'select(.type == "seq").body' | sort; }
png() { [ "$(head -c 4 "$1" | tail -c 3)" = PNG ]; }
# size FILE: prints width and height of a picture
size() { od -An -j 16 -N 8 -t u1 "$1" | awk '{ print $3 * 256 + $4, $7 * 256 + $8 }'; }

@test "evaluate.mk: answers and scores are those of rf-needle, rf-generate and rf-score run one by one" {
	[ "$(ls "$P/want/answers" | paste -sd' ')" = 'batch-000000.rf batch-000001.rf batch-000002.rf' ]
	[ "$(grep -c 'want: batch [123] of 3, .* left$' "$P/said")" -eq 3 ]
	# the same by the single programs
	rf-needle --task niah_single_1,vt --length 1k,2k -n 2 --tokenizer "$P/ckpt" -o needles.jsonl
	rf-tokenize --tokenizer "$P/ckpt" --prompt-key input --prompt-suffix-key answer_prefix \
		--answers-key outputs \
		--meta-key task,length,depth,max_new_tokens --no-eos needles.jsonl 2>/dev/null |
		rf-generate -m "$P/ckpt" --max-new 4 -o want.rf
	rf-dump --json want.rf | jq -c 'select(.type == "seq").body' | sort | diff - <(answered "$P/want")
	rf-score --by task,length want.rf | cmp - "$P/want/scores.jsonl"
	rf-score --by task,length --each --show depth want.rf | cmp - "$P/want/each.jsonl"
	diff <(table "$P/want/scores.jsonl") <(rows "$P/want/report.md")
	# the costs in the report
	read -r n read longest written < <(answered "$P/want" | jq -s 'length, (map(.prompt_len) | add, max),
		(map(.generation.length.data[0]) | add)' | paste -sd' ')
	said="- $n questions: $read tokens of prompts read, $written tokens written"
	grep -qx -- "$said" "$P/want/report.md"
	passes=$(awk "BEGIN { printf \"%.1f\", ($read + $written) / $longest }")
	said="- as many rows as $passes forward passes over the longest, $longest tokens"
	grep -qx -- "$said" "$P/want/report.md"
	seconds=$(cut -f 3 "$P/want/data/times.tsv" | awk '{ s += $1 / 1e6 } END { printf "%.1f", s }')
	grep -q "^- $seconds s, " "$P/want/report.md"
	# without MAX_NEW each task has its own number of new tokens
	evaluate RUN=keys TASK=vt LENGTH=1k SAMPLES=1
	[ "$(answered keys | jq -c '.generation.length.data[0]')" -eq 30 ]
}

@test "evaluate.mk: an evaluation that is killed at random times and started again ends with the same bytes" {
	[ -n "${RF_ALL:-}" ] && times=60 || times=2
	for ((kill = 0; kill < times; kill++)); do
		setsid bash -c 'real RUN=run BATCH=3' >out 2>&1 3>&- &
		sid=$!
		sleep "0.$((RANDOM % 4))$((RANDOM % 10))"
		case $((kill % 3)) in
		0) pkill -KILL -s $sid || : ;;
		1) kill -KILL -- -$sid 2>/dev/null || : ;;
		2) kill -TERM -- -$sid 2>/dev/null || : ;;
		esac
		wait $sid || continue
		same
		rm -rf run
	done
	real RUN=run BATCH=3
	same
}
same() {
	diff -r run/answers "$P/want/answers"
	for file in questions.rf questions.jsonl.zst scores.jsonl each.jsonl heat.tsv; do
		cmp run/$file "$P/want/$file"
	done
	diff <(rows run/report.md) <(rows "$P/want/report.md")
	[ "$(cut -f 1 run/data/times.tsv | sort -u | paste -sd' ')" = '1 2 3' ]
	[ -z "$(find run -name '*tmp*')" ]
}

@test "evaluate.mk: keeps existing outputs, computes a missing batch again, and may run twice at a time" {
	cp -a "$P/want" run
	real RUN=run BATCH=3 2>said
	diff said - <<-END
		rf-loop: run: 3 of 3 batches are done
		run: the report is run/report.md$(with_page ', and for a browser run/report.html')
	END
	diff -r --exclude='*.png' run "$P/want"
	rm run/answers/batch-000001.rf
	real RUN=run BATCH=3 2>said
	grep -q '^rf-loop: run: batches 2 to 3 of 3 sequences each: ' said
	[ "$(grep -c 'run: batch . of 3, ' said)" -eq 1 ]
	diff -r run/answers "$P/want/answers"
	[ "$(cut -f 1 run/data/times.tsv | paste -sd' ')" = '1 2 3 2' ]
	# a batch whose time is not known does not make the others look faster
	sed -i 1d run/data/times.tsv
	real RUN=run BATCH=3
	grep -q '^- [0-9.]* s for 2 of 3 batches, loading included$' run/report.md
	# of two evaluations into one folder, one waits; files that a kill at the beginning left do no harm
	rm -r run
	mkdir -p run/answers
	touch run/{.evaluation,words.tmp,.questions.rf.tmp-123,answers/.batch-new.tmp-0}
	real RUN=run BATCH=3 >a 2>&1 &
	real RUN=run BATCH=3 >b 2>&1
	wait $!
	diff -r run/answers "$P/want/answers"
	[ "$(wc -l <run/data/times.tsv)" -eq 3 ]
	[ -z "$(find run -name '*tmp*')" ]
}

@test "evaluate.mk: the heat map counts each needle at its own depth, as a separate count in Python does" {
	for i in 1 2 3; do
		echo "{\"question\": \"Who is $i?\", \"answers\": [\"no $i\"], \"context\": \"He is no $i.\"}"
	done >qa.jsonl
	needles RUN=run SAMPLES=8 TASK=niah_multivalue,vt,qa_1,fwe HAYSTACK="$P/essay.txt" QA=qa.jsonl
	zstd -dcq run/questions.jsonl.zst >questions.jsonl
	rf-dump --pred run/answers/*.rf >pred.jsonl
	python3 - >want <<-'END'
		import collections, json
		count, found = collections.Counter(), collections.Counter()
		for a, b in zip(open("questions.jsonl"), open("pred.jsonl")):
		    q, pred = json.loads(a), json.loads(b)["pred"].lower()
		    there = [o.lower() in pred for o in q["outputs"]]
		    if q["task"] == "qa_1":
		        there = [any(there)] * len(q["depth"])
		    for depth, t in zip(q["depth"], there):
		        cell = q["task"], q["length"], min(int(depth * 10), 9)
		        count[cell] += 1
		        found[cell] += t
		order = {t: i for i, t in enumerate(("niah_multivalue", "vt", "qa_1"))}
		print("task\tlength\tfrom\tto\tn\tscore")
		for task, length, b in sorted(count, key=lambda c: (order[c[0]], *c[1:])):
		    c = task, length, b
		    print(task, length, f"{b / 10:.1f}", f"{(b + 1) / 10:.1f}", count[c],
		          f"{100 * found[c] / count[c]:.2f}", sep="\t")
	END
	diff want run/heat.tsv
	# many cells have some but not all needles found, so the order of depths matters
	[ "$(awk 'NR > 1 && $6 > 0 && $6 < 100' run/heat.tsv | wc -l)" -ge 8 ]
	png run/heat.png
	png run/scores.png
	# a panel for each task that has depths, three in a row, and a bar for each score
	[ "$(size run/heat.png)" = '1884 624' ]
	[ "$(size run/scores.png)" = '1200 552' ]
	grep -q '](heat.png)' run/report.md
	# a task without depths has no heat map
	needles RUN=fwe TASK=fwe SAMPLES=2
	[ ! -e fwe/heat.png ]
	[ ! -e fwe/heat.tsv ]
	png fwe/scores.png
	run ! grep heat fwe/report.md
}

@test "evaluate.mk: AGAINST adds the differences of rf-score --against, and refuses other questions" {
	export RULE=4000
	needles RUN=a TASK=niah_multikey_2,vt SAMPLES=6
	export RULE=2000
	needles RUN=b TASK=niah_multikey_2,vt SAMPLES=6 AGAINST=a
	rf-score --by task,length --against a/answers/batch-000000.rf b/answers/batch-000000.rf |
		cmp - b/scores.jsonl
	diff <(table b/scores.jsonl) <(rows b/report.md)
	grep -q '^| vt .* | -[0-9.]* \* | -' b/report.md
	# the figure has the other model's scores, too
	[ "$(size b/scores.png)" != "$(size a/scores.png)" ]
	# answers in many files give the same scores as in one file
	needles RUN=c TASK=niah_multikey_2,vt SAMPLES=6 AGAINST=a BATCH=$((${RF_ALL:+1} + 0 ? 1 : 9))
	cmp b/scores.jsonl c/scores.jsonl
	needles RUN=b TASK=niah_multikey_2,vt SAMPLES=6 AGAINST=c
	diff <(table b/scores.jsonl) <(rows b/report.md)
	grep -q '^| vt .* | +0.00 | +0.00 to +0.00 |' b/report.md
	# AGAINST and the rules of scoring may change
	needles RUN=b TASK=niah_multikey_2,vt SAMPLES=6 RULES=refine METRIC=part BY=task
	rf-score --rules refine --metric part b/answers/batch-000000.rf | cmp - b/scores.jsonl
	diff <(table b/scores.jsonl) <(rows b/report.md)
	run -2 needles RUN=b TASK=niah_multikey_2,vt SAMPLES=6 AGAINST=none
	[[ "$output" == *'b: AGAINST=none: no scores of an evaluation'* ]]
	needles RUN=d TASK=niah_multikey_2,vt LENGTH=1k SAMPLES=1 SEED=1
	run -2 needles RUN=b TASK=niah_multikey_2,vt SAMPLES=6 AGAINST=d
	[[ "$output" == *'the id 0 stands for two different questions'* ]]
	# the error for a damaged file of the other run names this file
	head -c -20 d/answers/batch-000000.rf >cut
	mv cut d/answers/batch-000000.rf
	run -2 needles RUN=b TASK=niah_multikey_2,vt SAMPLES=6 AGAINST=d
	[[ "$output" == *'rf-score: d/answers/batch-000000.rf: '* ]]
	run ! grep -F .tmp <<<"$output"
}

@test "evaluate.mk: leaves out tasks that lack a text or questions, or refuses them if TASK names them" {
	without_figures
	run -0 --separate-stderr needles RUN=run SAMPLES=1 LENGTH=4k
	[[ "$stderr" == *'run: left out, for lack of a file: niah_single_2,niah_single_3,niah_multikey_1,'\
'niah_multivalue,niah_multiquery (HAYSTACK=file) qa_1,qa_2 (QA=file)'* ]]
	[ "$(jq -r .task run/scores.jsonl | paste -sd' ')" = \
		'niah_single_1 niah_multikey_2 niah_multikey_3 vt cwe fwe mean' ]
	echo '{"question": "Who?", "answers": ["it"], "context": "It is it."}' >qa.jsonl
	needles RUN=more SAMPLES=1 LENGTH=4k HAYSTACK="$P/essay.txt" QA=qa.jsonl 2>said
	[ "$(jq -r .task more/scores.jsonl | wc -l)" -eq 14 ]
	run ! grep 'left out' <(grep -v rf-tokenize said)
	run -2 needles RUN=no TASK=all
	[[ "$output" == 'no: niah_single_2 needs a text to hide needles in: HAYSTACK=file'* ]]
	run -2 needles RUN=no TASK=all HAYSTACK="$P/essay.txt"
	[[ "$output" == 'no: qa_1 needs questions: QA=file'* ]]
	run -2 needles RUN=no TASK=vt,niah
	[[ "$output" == "rf-needle: "*"'niah'"* ]]
	[ ! -e no/questions.jsonl.zst ]
}

# ruler TASK LENGTH N: prints lines in the form of RULER's programs
ruler() {
	rf-needle --task "$1" --length "$2" -n "$3" --tokenizer bytes | jq -c '{index: (.index % 2), input,
		outputs, length: .tokens, answer_prefix, token_position_answer: 3}'
}

@test "evaluate.mk: SUITE=ruler takes task and length from a file's path, and depths from the text" {
	without_figures
	# the upper folder is named like a task and a length, but the lower folders take precedence
	mkdir -p cwe-8192/2048/data/vt cwe-8192/1024/data plain
	ruler vt 2k 3 >cwe-8192/2048/data/vt/validation.jsonl
	ruler niah_multikey_2 1k 3 | zstd -q >cwe-8192/1024/data/niah_multikey_2.jsonl.zst
	ruler fwe 1k 1 >cwe-8192/1024/data/fwe-test.jsonl
	# a folder in place of a file is refused
	evaluate RUN=run SUITE=ruler DATA='cwe-8192/*/data/*' GENERATE="$P/rule" 2>err || :
	[[ "$(cat err)" == *'cwe-8192/2048/data/vt'* ]]
	[ ! -e run/answers ]
	data='cwe-8192/1024/data/* cwe-8192/2048/data/vt/*.jsonl'
	evaluate RUN=run SUITE=ruler DATA="$data" GENERATE="$P/rule"
	[ "$(jq -c '[.task, .length, .n]' run/scores.jsonl | paste -sd' ')" = '["fwe",1024,1] '\
'["niah_multikey_2",1024,3] ["mean",1024,4] ["vt",2048,3]' ]
	# the prompt is unchanged, whatever its index is, and the numbers of new tokens are those of RULER's
	# table
	answered run | jq -c '[.meta.task, .meta.max_new_tokens]' | sort | uniq -c | tr -s ' ' >have
	[ "$(paste -sd, have)" = ' 1 ["fwe",50], 3 ["niah_multikey_2",128], 3 ["vt",30]' ]
	for file in $data; do zstd -dcqf "$file"; done |
		jq -c '[.input + .answer_prefix | utf8bytelength] + .outputs' >want
	answered run | jq -s -c 'sort_by(.id)[] | [.prompt_len] + .answers' | diff want -
	python3 - >want <<-'END'
		import json, subprocess
		files = "cwe-8192/1024/data/n* cwe-8192/2048/data/vt/*"
		lines = subprocess.run("zstd -dcqf " + files, shell=True, stdout=-1).stdout
		for line in lines.splitlines():
		    q = json.loads(line)
		    print([round(q["input"].index(o) / len(q["input"]), 12) for o in q["outputs"]])
	END
	jq -c 'select(.task != "fwe").depth | map(. * 1e12 | round / 1e12)' run/each.jsonl |
		diff <(tr -d ' ' <want) -
	# TASK and LENGTH replace missing names in the path
	ruler vt 1k 1 >plain/x.jsonl
	run -2 evaluate RUN=odd SUITE=ruler DATA=plain/x.jsonl GENERATE="$P/rule"
	said="odd: plain/x.jsonl: neither file nor folder has the name of one of RULER's tasks: TASK=name"
	[ "${lines[0]}" = "$said" ]
	run -2 evaluate RUN=odd SUITE=ruler DATA=plain/x.jsonl GENERATE="$P/rule" TASK=vt
	[ "${lines[0]}" = 'odd: plain/x.jsonl: no folder has the length as its name: LENGTH=4k' ]
	evaluate RUN=odd SUITE=ruler DATA=plain/x.jsonl GENERATE="$P/rule" TASK=vt LENGTH=1k
	[ "$(jq -c '[.task, .length]' odd/scores.jsonl)" = '["vt",1024]' ]
}

@test "evaluate.mk: SUITE=longbench asks prompts unchanged, for as many new tokens as the task has" {
	without_figures
	cat >lines.jsonl <<-'END'
		{"prompt":"\u00e9\ud83d\ude00\u2028\"\\ \n ","answers":["x"],"task":"trec","max_gen_tokens":3}
		{"prompt":"b","answers":["x","y"],"dataset":"samsum","all_classes":null}

		{"dataset":"hotpotqa_e","prompt":"c","answers":["x"],"length":5}
		{"prompt":"d","answers":["x"],"task":"samsum_e","max_gen_tokens":9,"all_classes":["x","z"]}
	END
	evaluate RUN=run SUITE=longbench DATA=lines.jsonl RULES=refine
	grep . lines.jsonl | rf-tokenize --tokenizer "$P/ckpt" --prompt-key prompt --no-eos 2>/dev/null |
		rf-dump --json | jq -c 'select(.type == "seq").body.tokens' >want
	answered run | jq -s -c 'sort_by(.id)[].tokens' | diff want -
	[ "$(jq -s -c 'sort_by(.id)[].meta | [.task, .max_new_tokens, .stop, .all_classes]' <(answered run) |
		paste -sd' ')" = '["trec",3,[],null] ["samsum",128,["\n"],null] ["hotpotqa_e",32,[],null] '\
'["samsum_e",9,["\n"],["x","z"]]' ]
	[ "$(jq -r .rules run/scores.jsonl | sort -u)" = refine ]
	[ "$(answered run | jq '.generation.length.data[0] <= .meta.max_new_tokens' | sort -u)" = true ]
	grep -q 'rf-generate --max-new-key max_new_tokens --stop-key stop' run/words
	# MAX_NEW gives all tasks the same number of new tokens, as in the paper's program
	evaluate RUN=all SUITE=longbench DATA=lines.jsonl MAX_NEW=2
	[ "$(answered all | jq '.generation.length.data[0] <= 2' | sort -u)" = true ]
	# bad lines
	try() {
		printf '%b' "$1" >bad.jsonl
		run -2 evaluate RUN=bad SUITE=longbench DATA=bad.jsonl
		[ "${lines[0]}" = "$2" ] || { echo "$output"; return 1; }
		[ ! -e bad/questions.rf ]
		rm -rf bad
	}
	good='{"prompt":"a","answers":["x"],"task":"trec"}\n'
	try "$good"'{"prompt":"a","answers":["x"]}\n' \
		'bad.jsonl: line 2: no "task" or "dataset" says which task this is: TASK=name'
	try "$good\n"'{"prompt":"a","answers":["x"],"task":"mine"}\n' \
		'bad.jsonl: line 3: the task "mine" says no number of new tokens: MAX_NEW=n'
	try "$good"'[]\n' 'bad.jsonl: line 2: the line is of type array, not an object'
	try "$good"'{"prompt":"\xff","answers":["x"],"task":"trec"}\n' \
		'bad: bad.jsonl: line 2: this is no UTF-8'
	printf '%b' "$good" '{"prompt":' >bad.jsonl
	run -2 evaluate RUN=bad SUITE=longbench DATA=bad.jsonl
	[[ "${lines[0]}" == 'bad.jsonl: line 2: no JSON: '* ]]
}

@test "evaluate.mk: SUITE=files takes lines with any keys, or a stream, and checks them before any answer" {
	without_figures
	printf '{"q":"%s","of":["x","b"],"task":"qasper","len":%d}\n' a 1 b 2 c 1 >q.jsonl
	evaluate RUN=run SUITE=files DATA=q.jsonl PROMPT_KEY=q ANSWER_KEY=of META_KEY=len BY=task,len \
		MAX_NEW=3
	[ "$(jq -c '[.task, .len, .n]' run/scores.jsonl | paste -sd' ')" = '["qasper",1,2] ["qasper",2,1]' ]
	[ "$(answered run | jq -c '[.answers, .generation.length.data[0]]' | sort -u)" = '[["x","b"],3]' ]
	# the score of a single question has no interval
	grep -qx '| qasper | 2 | 1 | 0.00 |  |' run/report.md
	evaluate RUN=task SUITE=files DATA=q.jsonl PROMPT_KEY=q ANSWER_KEY=of TASK=mine METRIC=part \
		GENERATE="$P/rule"
	[ "$(jq -c '[.task, .n, .score]' task/scores.jsonl)" = '["mine",3,100]' ]
	rf-cat --range 0:2 -o two.rf run/questions.rf
	evaluate RUN=two SUITE=files DATA=two.rf GENERATE="$P/rule"
	cmp two/questions.rf <(rf-cat two.rf)
	[ "$(jq .n two/scores.jsonl)" -eq 2 ]
	# the report has no empty section, and no variables of another suite
	sed -n '/^## Figures/,/^## Cost/p' two/report.md | paste -sd/ |
		grep -qx '## Figures//!.*png)//## Cost'
	run ! grep -E '^ *(SAMPLES|SEED|NEEDLE)=' two/report.md
	grep -q '^    SUITE=files' two/report.md
	# an unknown task is refused now, not by rf-score after hours
	run -2 evaluate RUN=no SUITE=files DATA=q.jsonl PROMPT_KEY=q ANSWER_KEY=of TASK=mine
	[[ "$output" == *"the task 'mine' has no metric here: METRIC= names one, such as METRIC=f1"* ]]
	[ -z "$(ls no/answers)" ]
	# the variables may change until there are answers
	evaluate RUN=no SUITE=files DATA=q.jsonl PROMPT_KEY=q ANSWER_KEY=of TASK=qasper GENERATE="$P/rule"
	[ "$(jq .n no/scores.jsonl)" -eq 3 ]
	run -2 evaluate RUN=no SUITE=files DATA=q.jsonl PROMPT_KEY=q ANSWER_KEY=of TASK=trec \
		GENERATE="$P/rule"
	[[ "$output" == *"no/words: the run was started with other settings"*"> TASK=trec"* ]]
	# a long prompt loses its middle
	echo '{"prompt":"0123456789","answers":["x"],"task":"qasper"}' >long.jsonl
	evaluate RUN=cut SUITE=files DATA=long.jsonl MAX_PROMPT=4 GENERATE="$P/rule"
	[ "$(answered cut | jq -c '.tokens.data | map(. - 3) | implode')" = '"0189"' ]
	# with TRUNCATE=drop its question is left out, and the report has the number of these questions
	echo '{"prompt":"0123","answers":["x"],"task":"qasper"}' >>long.jsonl
	evaluate RUN=drop SUITE=files DATA=long.jsonl MAX_PROMPT=4 TRUNCATE=drop GENERATE="$P/rule" 2>err
	[ "$(answered drop | jq -c '.tokens.data | map(. - 3) | implode')" = '"0123"' ]
	said='rf-tokenize: 1 prompt longer than 4 tokens was left out (--truncate drop)'
	grep -qx -- "$said" err
	grep -qx -- "- $said" drop/report.md
	grep -qx -- '- rf-tokenize: 2 documents: 1 kept .*' drop/report.md
	run -2 evaluate RUN=none SUITE=files DATA=long.jsonl MAX_PROMPT=3 TRUNCATE=drop GENERATE="$P/rule"
	[[ "$output" == *'none: there are no questions'* ]]
}

@test "evaluate.mk: a run as MODEL answers all questions by one step's weights; other weights are refused" {
	without_figures
	rf-init --from "$P/ckpt" model
	cp -a model elsewhere
	# three questions in two batches
	words=(MODEL=model TASK=vt LENGTH=1k SAMPLES=3 GENERATE='rf-generate --max-new 2' BATCH=2)
	needles RUN=run "${words[@]}"
	[ "$(cat run/step)" = model/step-000000 ]
	rf-cat --range 0:1 -o one.rf "$P/want/questions.rf"
	rf-ntp -m model --lr 1e-2 one.rf
	rm run/answers/batch-000001.rf
	needles RUN=run "${words[@]}"
	for file in run/answers/*.rf; do rf-dump --head "$file" | grep ^model; done | uniq | wc -l >models
	[ "$(cat models)" -eq 1 ]
	needles RUN=new "${words[@]}"
	[ "$(cat new/step)" = model/step-000001 ]
	rm -r model/step-000000
	needles RUN=run "${words[@]}"
	rm run/answers/batch-000001.rf
	run -2 needles RUN=run "${words[@]}"
	[[ "$output" == *'run: model/step-000000 is gone, by which the first questions were answered:'* ]]
	# without any answer, the evaluation takes the newest step
	rm run/answers/*
	needles RUN=run "${words[@]}"
	[ "$(cat run/step)" = model/step-000001 ]
	# a checkpoint whose weights were replaced
	cp -r "$P/ckpt" ckpt
	words[0]=MODEL=ckpt
	needles RUN=other "${words[@]}"
	rm other/answers/batch-000001.rf
	rf-ntp -m "$P/ckpt" --lr 1e-2 --weights-out other-ckpt one.rf
	cp other-ckpt/model.safetensors ckpt
	run -2 needles RUN=other "${words[@]}"
	[[ "$output" == *'other: ckpt has other weights than when the first questions were answered'* ]]
	[ ! -e other/answers/batch-000001.rf ]
}

@test "evaluate.mk: a step answers all questions even if the run removes the step meanwhile" {
	without_figures
	rf-init --from "$P/ckpt" model
	words=(MODEL=model TASK=vt LENGTH=1k SAMPLES=3 GENERATE='rf-generate --max-new 2' BATCH=2)
	needles RUN=want "${words[@]}"
	rf-cat --range 0:1 -o one.rf "$P/want/questions.rf"
	mkdir bin
	printf '#!/bin/sh\nrm -rf model/step-000000\nexec rf-generate --max-new 2 "$@"\n' >bin/removes
	chmod +x bin/removes
	words+=("GENERATE=$PWD/bin/removes")
	needles RUN=run "${words[@]}"
	cmp run/each.jsonl want/each.jsonl
	[ ! -e model/step-000000 ]
	[ ! -e run/weights ]
	# also while the questions are made
	rm -r model
	rf-init --from "$P/ckpt" model
	cat >bin/removes <<-END
		#!/bin/sh
		rf-ntp -m model --keep 1 --lr 1e-2 one.rf >&2
		exec rf-needle "\$@"
	END
	words+=(GENERATE='rf-generate --max-new 2')
	needles RUN=early "${words[@]}" NEEDLE="$PWD/bin/removes"
	cmp early/each.jsonl want/each.jsonl
	[ ! -e model/step-000000 ]
}

@test "evaluate.mk: a file stop ends an evaluation after a batch, and the same words go on" {
	without_figures
	printf '#!/bin/sh\ntouch run/stop\nexec rf-generate --max-new 2 "$@"\n' >stops
	chmod +x stops
	words=(MODEL="$P/ckpt" TASK=vt LENGTH=1k SAMPLES=3 GENERATE="$PWD/stops" BATCH=2)
	needles RUN=run "${words[@]}" 2>said
	grep -q 'run: 1 of 2 batches are done: stopped, as .* asked' said
	[ "$(ls run/answers)" = batch-000000.rf ]
	[ ! -e run/report.md ]
	needles RUN=run "${words[@]}"
	[ -e run/report.md ]
}

@test "evaluate.mk: an error names a missing, unknown or malformed variable, and no file is made" {
	try() {
		mentions 2 "$1" evaluate RUN=no "${@:2}"
		[ ! -e no ]
	}
	try 'RUN is not set: where does it go? RUN=runs/e' RUN=
	try 'MODEL is not set: which checkpoint? MODEL=ckpt' MODEL=
	try 'no: MODEL=nothing: no checkpoint or run' MODEL=nothing
	try "SUITE='x' is not one of needle|ruler|longbench|files" SUITE=x
	try "RULES='x' is not one of official|refine" RULES=x
	try 'unknown variable SUIT: did you mean SUITE? (help explains all)' SUIT=ruler
	try 'unknown variable XYZ; the variables are RUN MODEL SUITE TASK' XYZ=1
	try 'DATA: SUITE=needle has no use for that' DATA=x
	try 'HAYSTACK: SUITE=longbench has no use for that' SUITE=longbench DATA=x HAYSTACK=x
	try "DATA is not set: which questions? DATA='data/*.jsonl'" SUITE=files
	try "SAMPLES='x': it must be a whole number, 1 or more" SAMPLES=x
	try "BATCH='0': it must be a whole number, 1 or more" BATCH=0
	try 'GENERATE: rf-genrate: command not found' GENERATE=rf-genrate
	mentions 2 'none.jsonl: No such file or directory' evaluate RUN=no SUITE=longbench DATA=none.jsonl
	mkdir mine
	touch mine/file
	mentions 2 'mine: it exists but is not an evaluation' evaluate RUN=mine
	[ "$(ls -A mine)" = file ]
	SUITE=ruler LENGTH=7 SEED=x RULES=x TASK=none GENERATE=false real RUN=env BATCH=3
	diff -r env/answers "$P/want/answers"
	# help explains all variables
	evaluate help >help
	for word in SUITE TASK LENGTH SAMPLES SEED NEEDLE HAYSTACK QA DATA PROMPT_KEY ANSWER_KEY RULES \
		METRIC BY META_KEY MAX_NEW MAX_PROMPT TRUNCATE BOS TOKENIZE GENERATE BATCH COMPUTE AGAINST \
		PHASE; do
		grep -q "$word" help || { echo "$word"; return 1; }
	done
}

@test "evaluate.mk: leaves out a task at a length that is too short, or refuses it if TASK names it" {
	without_figures
	run -0 --separate-stderr needles RUN=run SAMPLES=2 LENGTH=512,2k
	[[ "$stderr" == *'rf-needle: left out, too short: vt at length 512 (it needs '* ]]
	[ "$(jq -c 'select(.task == "vt") | .length' run/scores.jsonl)" = 2048 ]
	[ "$(jq -c 'select(.task == "niah_single_1") | .length' run/scores.jsonl | paste -sd' ')" = \
		'512 2048' ]
	grep -q '^- rf-needle: left out, too short: vt at length 512 .*over different tasks' run/report.md
	run -2 needles RUN=no SAMPLES=2 LENGTH=512 TASK=vt
	[[ "$output" == *'rf-needle: vt does not fit the length 512: the least length is '* ]]
}

@test "evaluate.mk: METRIC, TASK, BY and the tasks of the data are checked before anything is tokenized" {
	try() {
		mentions 2 "$1" evaluate RUN=no SUITE=files "${@:2}"
		[ ! -e no/questions.rf ]
		[ ! -e no/tokenized ]
		rm -rf no
	}
	echo '{"prompt":"a","answers":["x"],"task":"mine"}' >q.jsonl
	try "the task 'mine' has no metric here: METRIC= names one, such as METRIC=f1" DATA=q.jsonl
	try "the task 'own' has no metric here: METRIC= names one, such as METRIC=f1" DATA=q.jsonl TASK=own
	try "--metric: 'nope' is not one of auto|f1" DATA=q.jsonl TASK=own METRIC=nope
	try 'BY=task,len: questions do not keep the key len: META_KEY=len keeps it' DATA=q.jsonl BY=task,len
	mentions 2 "--metric: 'nope' is not one of" needles RUN=no METRIC=nope
	[ ! -e no ]
	mentions 2 "the task 'mine' has no metric here" evaluate RUN=no SUITE=longbench DATA=q.jsonl MAX_NEW=1
	[ ! -e no/questions.rf ]
	echo '{"prompt":"a","answers":["x"]}' >bare.jsonl
	run -2 evaluate RUN=no SUITE=files DATA=bare.jsonl
	[[ "$output" == *"the key 'task' is missing"*" (TASK=name gives all questions a task)"* ]]
}

@test "evaluate.mk: a tokenizer other than bytes causes no warning from the programs that count tokens" {
	without_figures
	mkdir tokenizer
	zstd -qdc "$G/tokenizer/qwen3_5.json.zst" >tokenizer/tokenizer.json
	jq '.vocab_size = 4008 | .eos_token_id = 4000' "$P/config.json" >config.json
	rf-init --config config.json --tokenizer tokenizer bpe
	run -0 --separate-stderr evaluate MODEL=bpe RUN=run TASK=niah_single_1 LENGTH=1k SAMPLES=1 MAX_NEW=2
	run ! grep 'shown as numbers' <<<"$stderr"
}
