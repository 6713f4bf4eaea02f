#!/usr/bin/env bats
# Tests of names and values in the pipelines: no name that a user gives and no text of a file is run as a
# command, or acts on the terminal or the page that shows it.

setup_file() {
	load ../helper
	export P=$BATS_FILE_TMPDIR
	tiny_model
	seq 12 | jq -c '{
		text: "which number is \(.) of those in this text, and \(.) again, and once more \(.)?",
		prompt: "which number is \(.) of all of the numbers that there are in it? ",
		answer: "number \(.)\n", answers: ["number \(.)"], task: "qa_1"}' >"$P/q.jsonl"
}

setup() {
	load ../helper
	# a folder and names whose parts would make the file PWN if they were run as commands
	folder="a b'\$(touch PWN);\`touch PWN\`"
	mkdir "$folder"
	cd "$folder"
	odd="m '(1)\" \$(touch PWN);touch PWN&\`touch PWN\`|<#*?[x]{a,b}%=\\n"
}

# typed NAME: prints the name as a user types it after make
typed() { printf '%s\n' "${1//\$/\$\$}"; }
# phase NAME WORD...: runs the pipeline of this name
phase() { RF_BIN=$RF_BIN make -s -f "$ROOT/pipelines/$1.mk" "${@:2}"; }
nothing_ran() { [ -z "$(find "$BATS_TEST_TMPDIR" -name PWN)" ]; }
# weights RUN: prints the hash of its weights
weights() { sha256sum <"$1/latest/model.safetensors"; }
need_gnuplot() { command -v gnuplot >/dev/null || skip "gnuplot is not installed (make deps)"; }

@test "names: midtrain.mk trains the same weights whatever the names of model, text, key and folder are" {
	small=(BATCH=4 MINI_BATCH=2 BATCHES=1)
	cp -a "$P/ckpt" "$odd"
	jq -c '{"t'\''\"x;touch PWN": .text}' "$P/q.jsonl" >"$odd.jsonl"
	words=(MODEL="$(typed "$odd")" TEXT_KEY="t'\"x;touch PWN" CORPUS="$(typed "$odd").jsonl")
	phase midtrain RUN='r=1#(a)&`touch' "${words[@]}" "${small[@]}"
	phase midtrain RUN='r=1#(a)&`touch' "${words[@]}" "${small[@]}" BATCHES=2
	phase midtrain RUN=plain MODEL="$P/ckpt" CORPUS="$P/q.jsonl" "${small[@]}" BATCHES=2
	[ "$(weights 'r=1#(a)&`touch')" = "$(weights plain)" ]
	# a name with quotes, a pattern, and names that begin with a dash
	cp "$P/q.jsonl" 'two words.jsonl'
	cp -- "$P/q.jsonl" '-x=y.jsonl'
	phase midtrain RUN=-two MODEL="$P/ckpt" CORPUS="'two words.jsonl'" "${small[@]}" BATCHES=2
	[ "$(weights ./-two)" = "$(weights plain)" ]
	phase midtrain RUN=dash MODEL="$P/ckpt" CORPUS='-x*.jsonl' "${small[@]}" BATCHES=2
	[ "$(weights dash)" = "$(weights plain)" ]
	# held-out sequences
	rf-cat --range 0:2 -o "eval ;'.rf" dash/data/corpus.rf
	phase midtrain RUN='e%v*' MODEL="$P/ckpt" CORPUS="$P/q.jsonl" "${small[@]}" \
		EVAL="eval ;'.rf" KEEP_BEST=nll
	[ "$(jq -c .step 'e%v*/eval.jsonl' | paste -sd' ')" = '0 2' ]
	nothing_ran
}

@test "names: with ordinary names, RUN/data/words has the commands without quotes" {
	phase midtrain RUN=run MODEL="$P/ckpt" CORPUS="$P/*.jsonl" BATCH=4 MINI_BATCH=2 BATCHES=1
	make="rf-tokenize --tokenizer $P/ckpt --text-key text --max-len 16384 --truncate split --min-len 64"
	grep -qxF "make=$make -o \"\$DATA\" -- $P/*.jsonl" run/data/words
	grep -qF ' | rf-rollout -k 5 -n 1 -m ' run/data/words
}

@test "names: posttrain.mk and testtime.mk take files, streams, models and keys with any name" {
	small=(BATCH=8 BATCHES=1 SELECT='rf-select -k 5 --margin 4')
	cp -a "$P/ckpt" "$odd"
	jq -c '{"p;touch PWN": .prompt, "a$(touch PWN)": .answer, "b`touch PWN`": .answers, "m'\''": .task}' \
		"$P/q.jsonl" >"$odd.jsonl"
	words=(MODEL="$(typed "$odd")" DATA="$(typed "$odd").jsonl" PROMPT_KEY='p;touch PWN' META_KEY="m'")
	phase posttrain RUN='p=1' "${words[@]}" ANSWER_KEY='a$$(touch PWN)' "${small[@]}"
	phase posttrain RUN=p MODEL="$P/ckpt" DATA="$P/q.jsonl" META_KEY=task "${small[@]}"
	[ "$(weights p=1)" = "$(weights p)" ]
	rf-cat -o 'my ;touch PWN.rf' p/data/corpus.rf
	for data in 'my ;touch PWN.rf' "'my ;touch PWN.rf'"; do
		rm -rf stream
		phase posttrain RUN=stream MODEL="$P/ckpt" DATA="$data" "${small[@]}"
		[ "$(weights stream)" = "$(weights p)" ]
	done
	phase testtime RUN='t=1' "${words[@]}" ANSWER_KEY='b`touch PWN`' "${small[@]}" MAX_NEW=2
	phase testtime RUN=t MODEL="$P/ckpt" DATA="$P/q.jsonl" META_KEY=task "${small[@]}" MAX_NEW=2
	[ "$(weights t=1)" = "$(weights t)" ]
	cmp <(rf-dump --pred t=1/answers/*.rf | jq .pred) <(rf-dump --pred t/answers/*.rf | jq .pred)
	nothing_ran
}

@test "names: evaluate.mk takes models, files, keys and folders with any name, and reports the right costs" {
	need_gnuplot
	cp -a "$P/ckpt" "$odd"
	jq -c '{"p;touch PWN": .prompt, "b`touch PWN`": .answers, task}' "$P/q.jsonl" >"$odd.jsonl"
	phase evaluate RUN='lr=1' MODEL="$(typed "$odd")" SUITE=files DATA="$(typed "$odd").jsonl" \
		PROMPT_KEY='p;touch PWN' ANSWER_KEY='b`touch PWN`' MAX_NEW=2 >said
	phase evaluate RUN=e MODEL="$P/ckpt" SUITE=files DATA="$P/q.jsonl" MAX_NEW=2 AGAINST=lr=1 >said
	cmp <(rf-dump --pred lr=1/answers/*.rf) <(rf-dump --pred e/answers/*.rf)
	tokens=$(rf-dump --tsv --rows record --columns prompt_len --no-header e/questions.rf |
		awk '{ n += $1 } END { print n }')
	grep -qx -- "- 12 questions: $tokens tokens of prompts read, 24 tokens written" lr=1/report.md
	grep -qE -- '^- [0-9.]+ s, loading included: [1-9][0-9]* tokens a second$' lr=1/report.md
	run ! grep -q nan lr=1/report.md
	# names of HAYSTACK and QA
	without_figures
	yes 'The road went on. Few asked where it led to.' | head -n 60 >"$odd.txt"
	echo '{"question": "Who?", "answers": ["no"], "context": "He is no."}' >"$odd.qa"
	phase evaluate RUN=needle MODEL="$P/ckpt" TASK=niah_single_2,qa_1 LENGTH=1k SAMPLES=1 MAX_NEW=2 \
		HAYSTACK="$(typed "$odd").txt" QA="$(typed "$odd").qa" >said
	cp "$odd.txt" 'two words.txt'
	phase evaluate RUN=quoted MODEL="$P/ckpt" TASK=niah_single_2 LENGTH=1k SAMPLES=1 MAX_NEW=2 \
		HAYSTACK="'two words.txt'" >said
	cmp <(zstd -dc quoted/questions.jsonl.zst) <(zstd -dc needle/questions.jsonl.zst | head -n 1)
	[ "$(jq -c .task needle/scores.jsonl | paste -sd' ')" = '"niah_single_2" "qa_1" "mean"' ]
	# folders of RULER's files, and a length that a shell would evaluate
	mkdir -p 'x;touch PWN/1024/vt'
	echo '{"input": "a", "answer_prefix": "b", "outputs": ["c"]}' >'x;touch PWN/1024/vt/a b.jsonl'
	phase evaluate RUN=ruler MODEL="$P/ckpt" SUITE=ruler DATA="'x;touch PWN'/*/vt/*.jsonl" MAX_NEW=2 >said
	[ "$(jq -c '[.task, .length, .n]' ruler/scores.jsonl | head -n 1)" = '["vt",1024,1]' ]
	run -2 phase evaluate RUN=no MODEL="$P/ckpt" SUITE=ruler DATA="$P/q.jsonl" TASK=vt \
		LENGTH='a[$$(touch PWN)]k'
	[[ "$output" == *'no folder has the length as its name: LENGTH=4k'* ]]
	nothing_ran
}

# hostile N: prints N questions of each task; tasks and lengths are programs, markup or control characters
hostile() {
	jq -cn --argjson n "$1" '["a'\''b\"c", "<script>alert(1)</script>", "![x](http://y/z.png)",
		"[x](javascript:alert(1))", "\u001b[31mred\u202e\u009b", "x|y", "a\tb\nc\u0000d",
		"50%d %s", "`touch PWN`", "$(touch PWN)", "_em_ *b* {/Bold x} ^a @", "N" * 3000,
		"niah_single_1", "-dash", "NaN", "\"q", "&amp;", "\\", "# h"]
		| to_entries[] | .key as $i | .value as $task | range($n) as $j
		| {prompt: "q\($i)? ", answers: ["n"], dataset: $task, task: $task, all_classes: null,
			depth: ($i % 10 / 10), length: (["4'\'').system(\"touch PWN\").('\''",
				"4\"; system(\"touch PWN\"); x=\"", 2048, "`touch PWN`",
				"8%dk"][($i + $j) % 5])}'
}

@test "names: evaluate.mk shows tasks and lengths as plain text, and neither runs nor formats them" {
	need_gnuplot
	hostile 2 >h.jsonl
	phase evaluate RUN=e MODEL="$P/ckpt" SUITE=files DATA=h.jsonl META_KEY=length,depth BY=task,length \
		METRIC=part MAX_NEW=2 >said
	nothing_ran
	# all tasks have their questions
	[ "$(jq -s 'map(select(.task != "mean").n) | add' e/scores.jsonl)" -eq 38 ]
	[ "$(tail -n +2 e/heat.tsv | awk -F '\t' 'NF != 6 { exit 1 } { n += $5 } END { print n }')" -eq 38 ]
	[ "$(cut -f 1 e/heat.tsv | tail -n +2 | sort -u | wc -l)" -eq 19 ]
	# neither file nor terminal gets a control character
	for file in said e/report.md; do
		run ! grep -qP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xa8-\xae]' "$file"
	done
	# no tag, image, link, code or cell
	run ! grep -qE '<script|<[a-z/]|[^\\]\]\(http|[^\\]\]\(java|http://' e/report.md
	grep -qF '| &lt;script&gt;alert(1)&lt;/script&gt; |' e/report.md
	grep -qF '| !\[x\](http\://y/z.png) |' e/report.md
	grep -qF '| \\u001b\[31mred\\u202e\\u009b |' e/report.md
	grep -qF '| a\\tb\\nc\\u0000d |' e/report.md
	grep -qF '| x\|y |' e/report.md
	grep -qF '| \`touch PWN\` |' e/report.md
	grep -qF '| \_em\_ \*b\* {/Bold x} ^a \@ |' e/report.md
	grep -qF '| niah_single_1 |' e/report.md
	grep -qF '| &amp;amp; |' e/report.md
	# each line of the table has five cells
	sed -n '/^|/p' e/report.md | sed 's/\\|//g' | awk -F '|' 'NF != 7 { exit 1 }'
	[ "$(head -c 4 e/heat.png | tail -c 3)" = PNG ]
	# SUITE=longbench has its own message for an unknown task
	jq -c 'del(.task)' h.jsonl | sed -n '9,10p' >long.jsonl
	run -2 phase evaluate RUN=long MODEL="$P/ckpt" SUITE=longbench DATA=long.jsonl
	[[ "$output" == *'"\u001b[31mred\u202e\u009b" says no number of new tokens'* ]]
	run ! grep -q $'\033' <<<"$output"
	nothing_ran
}

# seen COMMAND...: runs the command with a gnuplot that copies its folder to `seen`
seen() {
	mkdir -p bin
	rm -rf seen
	printf '#!/bin/bash\nmkdir -p %q\ncp -a . %q\nexec %q "$@"\n' "$PWD/seen" "$PWD/seen" \
		"$(command -v gnuplot)" >bin/gnuplot
	chmod +x bin/gnuplot
	PATH=$PWD/bin:$PATH "$@"
}
# drawn FIGURE: draws a figure of the copy as SVG, and prints its texts, one per line
drawn() {
	(cd seen && FORMAT=svg gnuplot "$ROOT"/pipelines/lib/{style,"$1"}.gp && cat ./*.svg) |
		grep -o '<text>.*</text>' |
		sed 's/<[^>]*>//g; s/&lt;/</g; s/&gt;/>/g; s/&quot;/"/g; s/&amp;/\&/g'
}

@test "names: figures show names unchanged, cut long names, and have a bar for each of 200 tasks" {
	need_gnuplot
	hostile 1 >h.jsonl
	seen phase evaluate RUN="e'{x}_1" MODEL="$P/ckpt" SUITE=files DATA=h.jsonl METRIC=part MAX_NEW=2 \
		META_KEY=length,depth >said
	drawn suite-bars >texts
	for name in "a'b\"c" '<script>alert(1)</script>' '\u001b[31mred\u202e\u009b' \
		'a\tb\nc\u0000d' '50%d %s' '`touch PWN`' '_em_ *b* {/Bold x} ^a @' \
		'niah_single_1' NaN '"q' '&amp;' '\' mean; do
		grep -qxF -- "$name" texts || { printf '%s is not in:\n' "$name" && cat texts; return 1; }
	done
	grep -qx 'N\{39\}…' texts
	seen phase evaluate RUN="e'{x}_1" MODEL="$P/ckpt" SUITE=files DATA=h.jsonl METRIC=part MAX_NEW=2 \
		META_KEY=length,depth BY=task,length >said
	drawn suite-heat >texts
	grep -qxF "_em_ *b* {/Bold x} ^a @" texts
	grep -qx 'N\{23\}…' texts
	grep -qxF '8%dk' texts
	# 200 tasks: a bar for each, and with depths a panel
	jq -cn 'range(200) | {prompt: "q? ", answers: ["n"], task: "task \(.)", length: 1024, depth: 0.5}' \
		>many.jsonl
	seen phase evaluate RUN=many MODEL="$P/ckpt" SUITE=files DATA=many.jsonl METRIC=part MAX_NEW=1 \
		META_KEY=length${RF_ALL:+,depth} BY=task >said
	[ "$(drawn suite-bars | grep -c '^task [0-9]*$')" -eq 200 ]
	for figure in scores ${RF_ALL:+heat}; do
		read -r wide high < <(od -An -j 16 -N 8 -t u1 many/$figure.png |
			awk '{ print $3 * 256 + $4, $7 * 256 + $8 }')
		[ "$wide" -ge 500 ]
		[ "$high" -ge 5000 ]
	done
	nothing_ran
}

# noted NAME: makes a run with two steps in its log
noted() {
	mkdir -p -- "./$1/step-000001"
	ln -sfn step-000001 "./$1/latest"
	printf '{"step":%d,"loss/ntp":%d}\n' 1 2 2 1 >"./$1/log.jsonl"
}

@test "names: curves.mk and entropy.mk draw any names, and run no commands that another user's run has" {
	need_gnuplot
	noted "$odd"
	noted 'r\t2'
	noted x=1
	out="o=1' ;touch PWN\" \$(touch PWN)"
	seen phase curves RUNS="r\\t2 x=1" OUT="$(typed "$out")" LABELS="a'.system('touch PWN').'; b{x}_1^2@&"
	[ "$(cut -f 1,2,6 "$out/curves.tsv" | tail -n +2 | tr '\t' ' ' | paste -sd,)" = \
		'r\t2 1 2,r\t2 2 1,x=1 1 2,x=1 2 1' ]
	drawn curves >texts
	grep -qxF "a'.system('touch PWN').'" texts
	grep -qxF 'b{x}_1^2@&' texts
	[ "$(awk 'END { print NR }' seen/1.2)" -eq 2 ]
	phase curves RUNS="$(typed "$odd")" OUT=a=b
	[ "$(cut -f 1 a=b/curves.tsv | tail -n 1)" = "$odd" ]
	# another user's run: folders named like shell arithmetic, and control characters in its name
	rf-init --from "$P/ckpt" r
	rf-cat -o v.rf <(rf-tokenize --bytes "$P/q.jsonl" 2>err)
	mkdir -p 'r/step-1+b[$(touch PWN)]'
	phase curves RUNS=r OUT=r-curves EVAL=v.rf
	[ "$(jq -c .step r/eval.jsonl)" = 0 ]
	# commands in its eval-reward.words
	local drawing=$PATH
	without_figures
	lines=('touch PWN; cat "$EVAL"' 'rf-cat "$EVAL" | rf-reward --exec ./PWN' 'rf-cat -o PWN "$EVAL"'
		'rf-cat "$EVAL" $(touch PWN)')
	[ -z "${RF_ALL:-}" ] || lines+=('rf-cat "$EVAL" | rf-select --exec ./PWN' 'rf-cat "$EVAL" >PWN'
		'rf-cat "$EVAL" & touch PWN')
	for line in "${lines[@]}"; do
		rm r/eval.jsonl
		printf 'eval_line=%s\n' "$line" >r/eval-reward.words
		phase curves RUNS=r OUT=r-curves EVAL=v.rf 2>err
		grep -q 'the rewards are made by a command that is not one of rf-tools, so it is not run' err
	done
	noted $'esc\033[31m'
	mentions 2 'esc\u001b[31m has a control character' phase curves RUNS='esc*' OUT=no
	for name in {eval,log}.jsonl eval.words eval-reward.words; do
		noted fifo
		rm -f "fifo/$name"
		mkfifo "fifo/$name"
		run -2 timeout 20 make -s -f "$ROOT/pipelines/curves.mk" RUNS=fifo OUT=no EVAL=v.rf
		[[ "$output" == *"fifo/$name is not a regular file"* ]]
		rm -r fifo
	done
	# the name of a stream
	PATH=$drawing
	rf-entropy -m "$P/ckpt" v.rf | rf-select --margin 4 -o "$odd.rf"
	phase entropy STREAM="$(typed "$odd").rf" OUT="$(typed "$out")"
	[ "$(head -c 4 "$out/entropy.png" | tail -c 3)" = PNG ]
	[ "$(wc -l <"$out/entropy.tsv")" -gt 40 ]
	nothing_ran
}

@test "names: demo.mk and demo-phases.mk take texts, keys, configs and models with any name" {
	need_gnuplot
	mkdir texts
	for i in 1 2 3 4; do
		jq -Rsc '{"t;touch PWN": .}' "$ROOT/man/rf-cat.1" >"texts/$i '\$(touch PWN).jsonl"
	done
	cp "$P/config.json" "$odd.json"
	phase demo/demo RUN=demo CORPUS='texts/*.jsonl' TEXT_KEY='t;touch PWN' CONFIG="$(typed "$odd").json" \
		HOLD_OUT=2 LEN=256 POSITIONS=4 WARM_STEPS=80 BATCHES=1 BATCH=4 MINI_BATCH=2 >said 2>&1
	grep -qF '| text | texts/\*.jsonl |' demo/report.md
	grep -q '^| refine, n 1 |\|^| ReFINE, n 1 |' demo/report.md
	mkdir -p base/corpus
	for page in rf-cat rf-dump rf-init; do
		sed 's/^\.Pp$//' "$ROOT/man/$page.1" >"base/corpus/$page.txt"
	done
	cp -a "$P/ckpt" "$odd"
	phase demo/demo-phases phases/post/start.rf BASE=base MODEL="$(typed "$odd")" RUN=phases EACH=3 \
		TESTS=3 MAX_NEW=2 >said 2>&1
	[ "$(rf-dump --pred phases/post/start.rf | wc -l)" -eq 3 ]
	nothing_ran
}

@test "names: pipelines refuse control characters, single dollar signs and ~ before they make any file" {
	for word in 'RUN=a b' 'RUN=$(shell touch PWN)' $'RUN=a\nb' $'RUN=a\tb' $'MODEL=a\033[31m' \
		$'DATA=a\302\233' $'CORPUS=a\342\200\256b' 'MODEL=~/m' \
		'TEXT_KEY=$(shell touch PWN)' 'RUN=`$`'; do
		run -2 phase midtrain RUN=r MODEL="$P/ckpt" CORPUS="$P/q.jsonl" "$word"
		[ "${#lines[@]}" -eq 1 ]
		[[ "$output" == *"*** ${word%%=*}"* ]]
	done
	for word in 'LEN=$$(shell touch PWN)k' "K=5;touch PWN" "LR=1';touch PWN;'" 'BATCH=a[$$(touch PWN)]' \
		'EVERY=`touch PWN`' 'N=1 ;touch PWN'; do
		run -2 phase midtrain RUN=r MODEL="$P/ckpt" CORPUS="$P/q.jsonl" "$word"
		[[ "$output" == *"${word%%=*}='"*"': it must be a"* ]]
	done
	for word in 'METHOD=sft;touch PWN' 'METHOD=sft ntp' 'EOS=`touch PWN`'; do
		run -2 phase posttrain RUN=r MODEL="$P/ckpt" DATA="$P/q.jsonl" "$word"
		[[ "$output" == *"${word%%=*}='${word#*=}' is not one of "* ]]
	done
	for word in 'RUN=a;b' 'RUN=a$$b' 'RUN=a(b' 'RUN=a`b' 'RUN=a#b' 'POINTS=early;touch' \
		'SEEDS=1;touch' 'COEFS=`touch`' 'MIDS=x$$(touch)' "PRE_LR=1';touch;'"; do
		run -2 phase study/study "$word"
		[[ "$output" == *"${word%%=*} must not contain "*", because targets are named after it: '"* ]]
	done
	# variables that are too long for a command line are refused, as they cannot be checked
	long=$(printf "%40000s" '' | tr ' ' "'")
	run -2 phase midtrain RUN=r MODEL=m DATA=x.rf TEXT_KEY='$(shell touch PWN)' PHASE="$long"
	[[ "$output" == *'the words cannot be checked, because they are too long for a command'* ]]
	COMMANDS=TEXT_KEY run -2 phase midtrain RUN=r MODEL=m DATA=x.rf TEXT_KEY='$(shell touch PWN)'
	[[ "$output" == *"TEXT_KEY='"*"two for one"* ]]
	run -2 phase demo/demo-phases BASE='a;b' MODEL="$P/ckpt"
	[[ "$output" == *'BASE must not contain ;, because targets are named after it'* ]]
	mentions 2 "CORPUS=''x': a quote is not closed" phase midtrain RUN=r MODEL="$P/ckpt" CORPUS="'x"
	run -2 phase midtrain RUN=r MODEL="$P/ckpt" CORPUS='$$(touch PWN).jsonl'
	[[ "$output" == *'$(touch: No such file or directory'* ]]
	run -2 phase evaluate RUN=e MODEL="$P/ckpt" SUITE=files DATA='none*.jsonl'
	[[ "$output" == *'none*.jsonl: No such file or directory'* ]]
	[ ! -e r ]
	nothing_ran
}

@test "names: pipelines refuse to run from a folder whose path has a blank or a quote" {
	for name in 'a b' "a'b" 'a;b' 'a$b' 'a[1]'; do
		cp -a "$ROOT/pipelines" "../$name"
		for file in midtrain posttrain testtime evaluate curves entropy \
			study/study demo/demo{,-phases}; do
			run -2 make -s -f "../$name/$file.mk" RUN=r
			[ "${#lines[@]}" -eq 1 ]
			[[ "$output" == *"'../$name/"*"': "*' so name another path'* || "$output" == \
				*"'../$name/"*"': the pipelines do not work in a folder whose path has "* ]]
		done
		rm -r "../$name"
	done
}

@test "files.sh: splits a word into file names like a shell, but runs nothing" {
	touch 'a;b' "it's" 'x y' p.txt q.txt 'm[1].txt' m1.txt
	# files WORD: prints the files of the word, one per line
	files() {
		(. "$ROOT/pipelines/lib/files.sh" && files_of DATA "$1" && printf '%s\n' "${files[@]}")
	}
	# as_text WORD: prints the same by a shell that reads the text of files.sh
	as_text() { bash -c "printf '%s\n' $("$ROOT/pipelines/lib/files.sh" DATA="$1")"; }
	expect() {
		[ "$(files "$1")" = "$2" ] || { echo "$1: $(files "$1")"; return 1; }
		[ "$(as_text "$1")" = "$2" ] || { echo "$1: $(as_text "$1")"; return 1; }
	}
	expect 'p.txt q.txt' $'p.txt\nq.txt'
	expect "it's a;b" $'it\'s\na;b'
	expect 'x y' 'x y'
	expect '"x y" ?.txt' $'x y\np.txt\nq.txt'
	expect 'm[1].txt' 'm[1].txt'
	expect 'm[1]*' m1.txt
	expect '{p,q}.txt none' $'p.txt\nq.txt\nnone'
	# shellcheck disable=SC2088
	expect '~/f ~root #c d#e' "$HOME/f"$'\n~root\n#c\nd#e'
	expect 'a\ b;c' 'a b;c'
	expect '$(touch PWN) `touch PWN` ;touch PWN &touch >PWN <PWN |touch' \
		$'$(touch\nPWN)\n`touch\nPWN`\n;touch\nPWN\n&touch\n>PWN\n<PWN\n|touch'
	expect '[a[$(touch>PWN)]]=x [5]=y' $'[a[$(touch>PWN)]]=x\n[5]=y'
	expect '"$(touch PWN)\"`touch PWN`\\" '\''$(touch PWN)'\' $'$(touch PWN)"`touch PWN`\\\n$(touch PWN)'
	[ "$("$ROOT/pipelines/lib/files.sh" DATA="data/*.jsonl 'a b'.txt  c")" = "data/*.jsonl 'a b'.txt  c" ]
	for word in "'a" '"a' 'a\'; do
		run -64 files "$word"
		[[ "$output" == "DATA='$word': a quote is not closed, or a backslash ends it"* ]]
	done
	expect 'q=~root a:~/b' $'q=~root\na:~/b'
	# a long list takes seconds
	local n=800 seconds=4
	[ -z "${RF_ALL:-}" ] || n=3000 seconds=20
	list=$(seq -f 'no-file-%g.jsonl ' $n | tr -d '\n')
	[ "$(timeout $seconds bash -c '. "$1/pipelines/lib/files.sh"; files_of DATA "$2"; echo ${#files[@]}' \
		x "$ROOT" "$list")" -eq $n ]
	nothing_ran
}

@test "evaluate.sh: writes the same table if the name of its output has an equals sign" {
	rf-tokenize --bytes --format text --max-len 64 --min-len 64 --truncate split "$ROOT/man/rf-cat.1" \
		2>err |
		rf-cat --range 0:3 | rf-select --mode uniform --chunks 2 --draw-step 0 -o p.rf
	RF_BIN=$RF_BIN "$ROOT/pipelines/lib/evaluate.sh" "$P/ckpt" p.rf a=1 </dev/null
	RF_BIN=$RF_BIN "$ROOT/pipelines/lib/evaluate.sh" "$P/ckpt" p.rf plain
	cmp a=1.documents.tsv plain.documents.tsv
	[ "$(wc -l <a=1.documents.tsv)" -eq 4 ]
}
