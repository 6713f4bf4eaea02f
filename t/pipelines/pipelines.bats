#!/usr/bin/env bats
# Tests of the training pipelines, with a tiny model over bytes and the manual pages as text.

setup_file() {
	load ../helper
	load ../pipelines
	text_model_and_run
	command -v gnuplot >/dev/null || return 0
	cd "$P"
	local began=${EPOCHREALTIME/./}
	demo RUN=demo >"$P/demo.out" 2>"$P/demo.err" || { cat "$P/demo.err"; return 1; }
	export DEMO_TOOK=$((${EPOCHREALTIME/./} - began))
}

setup() {
	load ../helper
	load ../pipelines
	# words that start fewer programs: the sequences of $P/want instead of texts, and training without
	# rollouts
	data=(CORPUS= DATA="$P/want/data/corpus.rf")
	ntp=("${data[@]}" METHOD=ntp)
}

# demo WORD...: runs the demonstration of make midtrain, with a tiny model
demo() {
	make -s -f "$ROOT/pipelines/demo/demo.mk" CORPUS="$P/text/*.txt" CONFIG="$P/config.json" HOLD_OUT=2 \
		LEN=256 POSITIONS=8 WARM_STEPS=80 BATCHES=2 BATCH=4 MINI_BATCH=2 "$@"
}
export -f demo

steps() { rf-dump --tsv --rows step --columns step,commits,weights --no-header "$1" | tail -n 1; }

# share N D MICROSECONDS: prints N / D of the time in seconds, for sleep
share() { awk -v n="$1" -v d="$2" -v t="$3" 'BEGIN { printf "%.3f", n * t / d / 1e6 }'; }

# end SID HOW: ends a session in one of three ways
end() {
	case $2 in
	# kills all its processes, and then those that were started meanwhile
	0) kill -9 $(session "$1") 2>/dev/null && sleep .02 && kill -9 $(session "$1") 2>/dev/null || true ;;
	1) kill -9 -- "-$1" 2>/dev/null || true ;;      # kills make and the loop; a guard ends the pipeline
	# asks make and the loop to end; the loop ends the pipeline
	2) kill -TERM -- "-$1" 2>/dev/null || true ;;
	esac
}

# session SID: prints the running processes of a session
session() {
	cat /proc/[0-9]*/stat 2>/dev/null |
		awk -v s="$1" '{ pid = $1; sub(/^.*\) /, "") } $4 == s && $1 != "Z" { print pid }'
}

# killed_again_and_again COMMAND MICROSECONDS AT-LEAST: starts COMMAND again and again, and ends it after a
# time that grows by an eighth, or with RF_ALL=1 by a twelfth, until COMMAND finishes first.  MICROSECONDS is
# about how long it takes.  If it was ended fewer than AT-LEAST times, all starts over with half of the time.
killed_again_and_again() {
	local sid took=$2 i parts=$((${RF_ALL:+1} + 0 ? 12 : 8))
	while :; do
		for ((i = 0; i < 60; i++)); do
			setsid bash -c "$1" >out 2>&1 3>&- &
			sid=$!
			sleep "$(share $((1 + i)) $parts "$took")"
			end "$sid" $((i % 3))
			wait "$sid" 2>/dev/null && break
		done
		[ "$i" -lt "$3" ] || break
		took=$((took / 2))
		rm -rf run killed
	done
}

@test "midtrain.mk: makes BATCHES commits of BATCH / MINI_BATCH optimizer steps each, and logs every step" {
	[ "$(steps "$P/want" | cut -f 1,2)" = $'6\t3' ]
	[ "$(jq -sc 'map(.step), (map([.records, .rollouts, ."actor/lr"]) | unique)' "$P/want/log.jsonl")" = \
		$'[0,1,2,3,4,5]\n[[2,16,0.001]]' ]
	[ "$(cut -f 1,2 "$P/want/data/times.tsv" | paste -sd' ')" = $'1\t2 2\t4 3\t6' ]
	rf-dump --check -q "$P/want"
}

@test "midtrain.mk: a run that is killed many times and started again ends with the same bytes" {
	killed_again_and_again 'midtrain RUN=run BATCHES=3' "$TOOK" 2
	midtrain RUN=run BATCHES=3
	[ "$(steps run)" = "$(steps "$P/want")" ]
	same_run run "$P/want"
	[ "$(jq .step run/log.jsonl | sort -nu | paste -sd' ')" = "0 1 2 3 4 5" ]
}

@test "midtrain.mk: KEEP=1 keeps the trainer's stream of each batch, made by the weights of its step" {
	midtrain RUN=run "${data[@]}" BATCHES=2 KEEP=1
	rf-dump --check -q run/streams/*
	for step in 0 2; do
		rf-dump --head run/streams/step-00000$step.rf | grep -qE "^model .*step $step\b"
		[ "$(rf-dump --tsv --rows rollout --columns advantage \
			--no-header run/streams/step-00000$step.rf | grep -vc NaN)" -eq 32 ]
	done
}

@test "midtrain.mk: SELECT, REWARD and N on the command line replace the defaults" {
	midtrain RUN=run "${data[@]}" BATCHES=1 KEEP=1 SELECT='rf-select --mode uniform --chunks 4' N=2 \
		REWARD='rf-reward --kind edit'
	rf-dump --head run/streams/step-000000.rf >head
	grep -q 'rf-select .*--mode uniform' head
	grep -q 'rf-reward --kind edit' head
	[ "$(rf-dump --tsv --columns rollout --no-header run/streams/step-000000.rf | head -n 8 |
		paste -sd' ')" = "0 1 0 1 0 1 0 1" ]
}

@test "midtrain.mk: --total-steps auto is the number of optimizer steps of all batches" {
	local falls='--mini-batch 3 --lr 1e-3 --lr-schedule linear'
	rates() { jq -s 'map(.["actor/lr"] * 1e6 | round)' -c "$1/log.jsonl"; }
	midtrain RUN=by-hand "${data[@]}" BATCHES=2 OPTIM="$falls --total-steps 4"
	midtrain RUN=run "${data[@]}" BATCHES=2 OPTIM="$falls --total-steps auto"
	same_run by-hand run
	[ "$(rates run)" = '[1000,750,500,250]' ]
	# a run that is continued with more BATCHES follows the schedule of the longer run from then on
	midtrain RUN=run "${data[@]}" BATCHES=3 OPTIM="$falls --total-steps auto"
	[ "$(rates run)" = '[1000,750,500,250,333,167]' ]
	# with EPOCHS the number of batches follows from the data
	rf-cat --range 0:8 -o eight.rf "$P/want/data/corpus.rf"
	midtrain RUN=epochs "${ntp[@]}" DATA=eight.rf EPOCHS=2 OPTIM="$falls --total-steps=auto" \
		TRAIN='rf-ntp $(OPTIM)'
	[ "$(rates epochs)" = '[1000,875,750,625,500,375,250,125]' ]
	steps() { "$ROOT/pipelines/lib/steps.sh" "$@"; }
	[ "$(steps 64 'rf-grpo --lr 1 --outer response')" = 3 ]
	[ "$(steps 64 'rf-ntp --outer=response')" = 2 ]
	[ "$(steps 64 'bin/rf-ntp --mini-batch 9 --mini-batch=10 --loss response')" = 7 ]
	[ "$(steps 64 'rf-ntp --records $((TO - FROM)) --steps $(((TO - FROM + 16 - 1) / 16 + 1))')" = 5 ]
	[ "$(steps 5 'rf-ntp --steps 9')" = 5 ]
	run -64 steps 64 'rf-ntp --mini-batch $N'
	[[ "$output" == "TRAIN: --total-steps auto: "*" does not say a number with --mini-batch" ]]
}

# reward FILE EXPRESSION: writes a Python program whose reward for rollout j of position i is the expression,
# and which copies the lines that it reads to the file `seen`
reward() {
	cat >"$1" <<-END
		import json, sys
		seen = open("seen", "w")
		seen.write(next(sys.stdin))
		for line in sys.stdin:
		    seen.write(line)
		    b = json.loads(line)["body"]
		    c, n, k = b["rollout"]["tokens"]["shape"]
		    total = [[$2 for j in range(n)] for i in range(c)]
		    print(json.dumps({"id": b["id"], "total": total}), flush=True)
	END
}

@test "midtrain.mk: REWARD may be any program that reads lines of JSON and prints rewards" {
	reward one.py 'float(i == 2)'
	midtrain RUN=run "${data[@]}" BATCHES=1 KEEP=1 REWARD='python3 one.py'
	[ "$(rf-dump --tsv --columns reward --no-header run/streams/step-000000.rf | head -n 8 |
		paste -sd' ')" = "0 0 1 0 0 0 0 0" ]
	# the program gets texts and no hidden states, unless REWARD_OPTIONS change this
	jq -se '(.[0] | [.type, .tokenizer, .k, .n]) == ["head", "run", 5, 1] and length > 2 and
		all(.[1:][]; (.text | length) == .body.positions.shape[0] and
			(.body.rollout | has("h_pred") | not))' seen >/dev/null
	midtrain RUN=same "${data[@]}" BATCHES=1 REWARD='rf-reward --exec "python3 one.py"'
	same_run run same
	midtrain RUN=hidden "${data[@]}" BATCHES=1 REWARD='python3 one.py' \
		REWARD_OPTIONS='--kind-name one -m ckpt'
	jq -se '.[0].tokenizer == "ckpt" and length > 2 and
		all(.[1:][]; (has("text") | not) and .body.rollout.h_pred)' seen >/dev/null
	# the command may have quotes, blanks and a pipe
	midtrain RUN=quotes "${data[@]}" BATCHES=1 \
		REWARD="cat | python3 -c 'exec(open(\"one.py\").read())'"
	same_run run quotes
	# REWARD may also be a pipeline of programs that read streams, whose first has a path
	midtrain RUN=plain "${data[@]}" BATCHES=1
	midtrain RUN=stream "${data[@]}" BATCHES=1 REWARD="$RF_BIN/rf-cat | cat | rf-reward"
	same_run stream plain
	[ -z "${RF_ALL:-}" ] || for how in 'rf-cat | cat | rf-reward' "$RF_BIN/rf-reward"; do
		rm -r stream
		midtrain RUN=stream "${data[@]}" BATCHES=1 REWARD="$how"
		same_run stream plain
	done
	mentions 2 "rf-reward: --exec 'false'" midtrain RUN=bad "${data[@]}" BATCHES=1 REWARD='false'
}

@test "midtrain.mk: SELECT may be any program that reads lines of JSON and prints positions" {
	cat >two.py <<-'END'
		import json, sys
		k = json.loads(next(sys.stdin))["k"]
		for line in sys.stdin:
		    b = json.loads(line)["body"]
		    last = b["tokens"]["shape"][0] - k
		    print(json.dumps({"id": b["id"], "positions": [last, 3]}), flush=True)
	END
	# EVAL_SELECT chooses positions of held-out sequences by such a program
	rf-cat --range 0:4 -o valid.rf "$P/want/data/corpus.rf"
	midtrain RUN=run "${data[@]}" BATCHES=1 KEEP=1 K=4 SELECT='tee seen | python3 two.py' \
		EVAL=valid.rf EVAL_SELECT='tee held | python3 two.py'
	[ "$(wc -l <held)" -eq 5 ]
	rf-dump --json run/streams/step-000000.rf | jq -se 'map(select(.type == "seq").body) | all(
		.positions.data == [(.tokens.data | length) - 4, 3] and .rollout.tokens.shape == [2, 1, 4])' \
		>/dev/null
	# the program gets texts and entropies, unless SELECT_OPTIONS change this
	jq -se '(.[0] | [.type, .tokenizer, .k]) == ["head", "run", 4] and length > 2 and
		all(.[1:][]; (.text | length) == .body.entropy.shape[0])' seen >/dev/null
	tokens() {
		midtrain RUN=tokens "${data[@]}" K=4 SELECT='tee all | python3 two.py' \
			SELECT_OPTIONS='--no-hidden -m ckpt' "$@"
	}
	tokens BATCHES=1
	same_run run tokens
	jq -se '.[0].tokenizer == "ckpt" and length > 2 and all(.[1:][]; has("text") | not)' all >/dev/null
	midtrain RUN=same "${data[@]}" BATCHES=1 K=4 SELECT='rf-select -k 4 --exec "python3 two.py"'
	same_run run same
	# the script may not change within the run
	sed -i 's/, 3]/, 4]/' two.py
	mentions 2 two.py tokens BATCHES=2
	mentions 2 "rf-select: --exec 'false'" midtrain RUN=bad "${data[@]}" BATCHES=1 SELECT=false
}

@test "midtrain.mk: without ReFINE's stages KEEP=1 keeps the trainer's batches and changes no weight" {
	local words=("${data[@]}" BATCHES=2 ENTROPY= SELECT= ROLLOUT= REWARD= TRAIN='rf-ntp $(OPTIM)')
	midtrain RUN=run "${words[@]}" KEEP=1
	midtrain RUN=bare "${words[@]}"
	same_run run bare
	[ "$(ls run/streams)" = $'step-000000.rf\nstep-000002.rf' ]
	rf-cat --range 4:8 run/data/epoch-0.rf | cmp - run/streams/step-000002.rf
}

@test "midtrain.mk: refuses to continue a run if the contents of its corpus have changed" {
	cp -r "$P/text" text
	midtrain RUN=run BATCHES=1 CORPUS='text/*.txt' METHOD=ntp
	touch text/*.txt
	midtrain RUN=run BATCHES=2 CORPUS='text/*.txt' METHOD=ntp
	sed -i '1s/^./x/' text/rf-cat.1.txt
	run -2 midtrain RUN=run BATCHES=3 CORPUS='text/*.txt' METHOD=ntp
	[[ "$output" == *"run/data/words: the run was started with other settings or data (<) than now"* ]]
	[[ "$output" == *"> words=$(stat -c %s text/rf-cat.1.txt) bytes, sha256 "*": text/rf-cat.1.txt"* ]]
	[ "$(grep -c '^rf-loop: run: [<>]' <<<"$output")" -eq 2 ]
	[ "$(steps run | cut -f 1,2)" = $'4\t2' ]
}

@test "midtrain.mk: without ReFINE's stages rf-ntp trains the baseline on the same data in as many steps" {
	midtrain RUN=run BATCHES=3 ENTROPY= SELECT= ROLLOUT= REWARD= TRAIN='rf-ntp $(OPTIM)'
	[ "$(steps run | cut -f 1,2)" = "$(steps "$P/want" | cut -f 1,2)" ]
	cmp run/data/epoch-0.rf "$P/want/data/epoch-0.rf"
	# the losses before the first step are equal
	[ "$(jq -sc 'map([.records, .tokens]), .[0]."loss/ntp"' run/log.jsonl)" = \
		"$(jq -sc 'map([.records, .tokens]), .[0]."loss/ntp"' "$P/want/log.jsonl")" ]
	[ "$(steps run)" != "$(steps "$P/want")" ]
}

@test "midtrain.mk: METHOD=ntp makes as many steps as ReFINE, or with INNER_STEPS=published one per batch" {
	midtrain RUN=old "${data[@]}" BATCHES=2 ENTROPY= SELECT= ROLLOUT= REWARD= TRAIN='rf-ntp $(OPTIM)'
	midtrain RUN=ntp "${ntp[@]}" BATCHES=2
	same_run old ntp
	[ "$(steps ntp | cut -f 1,2)" = $'4\t2' ]
	rm -r ntp
	midtrain RUN=ntp "${ntp[@]}" BATCHES=2 INNER_STEPS=matched FUSED=1
	same_run old ntp
	# with one step per batch, ranks must divide the batch by a mini-batch of that size
	midtrain RUN=by-hand "${data[@]}" BATCHES=2 ENTROPY= SELECT= ROLLOUT= REWARD= \
		TRAIN='rf-ntp --lr 1e-3 --mini-batch 4'
	midtrain RUN=one "${ntp[@]}" BATCHES=2 INNER_STEPS=published
	same_run by-hand one
	[ "$(steps one | cut -f 1,2)" = $'2\t2' ]
	grep -q '^line=.*SHARD --mini-batch 4' one/data/words
	grep -q '^line=.*SHARD --mini-batch 2' old/data/words
	# the trainer gets the option only once
	grep -q '^line=.* rf-ntp --mini-batch 4 --lr 1e-3 -m ' one/data/words
	grep -q '^line=.* rf-ntp --mini-batch 2 --lr 1e-3 -m ' old/data/words
	# fused.bats compares this in post-training
	[ -z "${RF_ALL:-}" ] || {
		midtrain RUN=fused "${ntp[@]}" BATCHES=2 INNER_STEPS=published FUSED=1
		same_run by-hand fused
	}
	midtrain RUN=falls "${ntp[@]}" BATCHES=2 INNER_STEPS=published \
		OPTIM='--mini-batch 2 --lr 1e-3 --lr-schedule linear --total-steps auto'
	[ "$(jq -sc 'map(.["actor/lr"] * 1e6 | round)' falls/log.jsonl)" = '[1000,500]' ]
	# INNER_STEPS has no effect on the steps of ReFINE
	midtrain RUN=refine "${data[@]}" BATCHES=3 INNER_STEPS=published
	same_run refine "$P/want"
	mentions 2 "METHOD='sft' is not one of refine|ntp" midtrain batches RUN=no METHOD=sft
	mentions 2 "INNER_STEPS='1' is not one of published|matched" midtrain batches RUN=no INNER_STEPS=1
	mentions 2 'INNER_STEPS has no effect here: TRAIN='"'rf-ntp'" midtrain RUN=no METHOD=ntp \
		TRAIN=rf-ntp INNER_STEPS=published
}

# sequences FILE: prints the records of a stream
sequences() { rf-dump --json "$1" | grep '"type":"seq"'; }

@test "midtrain.mk: LONG=1 takes only texts of LEN or more tokens, and cuts them to LEN without end token" {
	mkdir text
	for n in 127 128 129 700; do
		head -c $n "$ROOT/README.md" >text/$n.txt
	done
	lengths() { rf-dump --tsv --rows record --columns T --no-header "$1/data/corpus.rf" | paste -sd' '; }
	midtrain RUN=long LONG=1 CORPUS='text/*.txt' BATCH=2 BATCHES=1 METHOD=ntp
	[ "$(lengths long)" = '128 128 128' ]
	rf-tokenize --tokenizer "$P/ckpt" --text-key text --max-len 128 --truncate right --min-len 128 \
		--no-eos text/*.txt | sequences - | diff - <(sequences long/data/corpus.rf)
	midtrain RUN=short CORPUS='text/*.txt' BATCH=2 BATCHES=1 METHOD=ntp
	[ "$(lengths short)" = '128 128 128 128 128 128 128 128' ]
	for word in yes 0; do
		mentions 2 "LONG='$word': it must be 1 or empty" midtrain RUN=no LONG=$word
	done
	mentions 2 'LONG has no effect here: TOKENIZE=' midtrain RUN=no LONG=1 TOKENIZE='rf-tokenize --bytes'
	mentions 2 'LONG has no effect here: DATA=' midtrain RUN=no LONG=1 CORPUS= \
		DATA="$P/want/data/corpus.rf"
	[ ! -e no ]
	mentions 2 ' has 0 sequences, fewer than a batch of 2 (--batch): give more text, a smaller batch '\
'(BATCH of a pipeline), or options that leave out less text (a smaller LEN with LONG=1, ' \
		midtrain RUN=none LONG=1 LEN=1k CORPUS='text/*.txt' BATCH=2 BATCHES=1
}

@test "midtrain.mk: reports once if a first batch has short sequences, with their mean length and a remedy" {
	said() { grep -c 'tokens on average, less than half of' "$1" || true; }
	jq -nc 'range(12) | {text: ("word" * (15 + 3 * (. % 3)))}' >short.jsonl
	# 61, 73 and 85 tokens
	midtrain RUN=run CORPUS=short.jsonl BATCHES=2 LEN=1k METHOD=ntp 2>err
	[ "$(said err)" = 1 ]
	grep -q '^rf-loop: run: the sequences of the first batch have [67][0-9] tokens on average, less '\
'than half of 1024 (LONG=1 takes only texts of at least LEN tokens, ' err
	midtrain RUN=run CORPUS=short.jsonl BATCHES=3 LEN=1k METHOD=ntp 2>err
	[ "$(said err)" = 0 ]
	# also if DATA is a stream, and with FUSED=1
	midtrain RUN=stream CORPUS= DATA=run/data/corpus.rf BATCHES=2 LEN=200 FUSED=1 METHOD=ntp 2>err
	[ "$(said err)" = 1 ]
	grep -q 'half of 200 (LEN is the length that sequences are expected to have: give a smaller LEN)' err
	midtrain RUN=own CORPUS=short.jsonl BATCHES=1 LEN=1k TOKENIZE='rf-tokenize --bytes' METHOD=ntp 2>err
	grep -q 'half of 1024 (LEN is the length that sequences are expected to have: ' err
	midtrain RUN=enough CORPUS= DATA=run/data/corpus.rf BATCHES=1 LEN=120 METHOD=ntp 2>err
	[ "$(said err)" = 0 ]
}

@test "midtrain.mk: an error names a missing, malformed or unknown variable, and no file is made" {
	refuses() { # WANT WORD...
		mentions 2 "$1" midtrain RUN=run "${@:2}"
		[ -z "$(ls)" ]
	}
	refuses 'RUN is not set: where does the run go? RUN=runs/a' RUN=
	refuses 'MODEL is not set' MODEL=
	refuses 'rf-loop: run: nothing: ' MODEL=nothing
	refuses 'CORPUS is not set' CORPUS=
	refuses 'nothing/*.txt: No such file or directory' CORPUS='nothing/*.txt'
	refuses 'nothing.rf: No such file or directory' DATA=nothing.rf
	refuses 'SELECT: rf-selekt: command not found' SELECT=rf-selekt
	for word in BATCHES=x BATCHES=-1 BATCHES=09 SEED=1e3 BATCH=0 MINI_BATCH=many LEN= K=0 N=1.5 \
		BATCHES=9999999999999999999; do
		refuses "${word%%=*}='${word#*=}': it must be a whole number" "$word"
	done
	refuses "LR='abc': it must be a number, such as 1e-6" LR=abc
	for command in 'python3 nosuch.py' 'rf-reward --exec "python3 -u nosuch.py --config x"'; do
		refuses 'REWARD: nosuch.py: the script does not exist' REWARD="$command"
	done
	for command in 'cd x && python3 y.py' 'cd x && bash -c "python3 y.py"' 'python3 -c "a b" y.py' \
		'python3 -m x y.py' 'cat y.py'; do
		"$ROOT/pipelines/lib/scripts.sh" REWARD="$command"
	done
	# variables of the build are accepted
	refuses 'TRAIN is empty' TRAIN= CUDA=no CC=cc
	refuses 'unknown variable SELCT: did you mean SELECT? (help explains all)' \
		SELCT='rf-select --mode uniform'
	refuses 'unknown variable XYZ; the variables are RUN MODEL CORPUS DATA ... SELECT ' XYZ=1
	refuses "RUN contains a space...'runs/with space'" RUN='runs/with space'
}

@test "midtrain.mk: TOKENIZE without a tokenizer gets that of MODEL, and SKIP_BAD skips malformed lines" {
	# MODEL's own tokenizer, which is also the default of TOKENIZE
	midtrain RUN=own BATCHES=1 METHOD=ntp \
		TOKENIZE='rf-tokenize --max-len 128 --truncate split --min-len 64'
	grep -q '^make=rf-tokenize --max-len 128 --truncate split --min-len 64 --tokenizer .*/ckpt -o' \
		own/data/words
	sequences own/data/corpus.rf | diff - <(sequences "$P/want/data/corpus.rf")
	midtrain RUN=bytes BATCHES=1 METHOD=ntp \
		TOKENIZE='rf-tokenize --bytes --max-len 128 --truncate split --min-len 64'
	run ! grep -q -- '-m .*/ckpt -o' bytes/data/words
	jq -nc '{text: ("some words " * 30)}, {text: 1}, {text: ("more words " * 30)}' >bad.jsonl
	mentions 2 "bad.jsonl: line 2: " midtrain RUN=bad CORPUS=bad.jsonl BATCHES=1 BATCH=2
	run -0 midtrain RUN=bad CORPUS=bad.jsonl BATCHES=1 BATCH=2 METHOD=ntp SKIP_BAD=1
	mentions 2 "SKIP_BAD='x': it must be a whole number" midtrain RUN=bad CORPUS=bad.jsonl SKIP_BAD=x
}

@test "midtrain.mk: continues a run that was renamed, with the same bytes" {
	midtrain RUN=run BATCHES=1
	mkdir elsewhere
	mv run elsewhere/moved
	midtrain RUN=elsewhere/moved BATCHES=3
	same_run elsewhere/moved "$P/want"
}

@test "midtrain.mk: takes variables from the command line and never from the environment" {
	K=9 N=7 LR=5 SEED=3 KEEP=1 DATA=/etc SELECT=false BATCHES=9 AFTER=false midtrain RUN=run BATCHES=3
	same_run run "$P/want"
	[ ! -e run/streams ]
}

@test "demo.mk: takes variables from the command line and never from the environment" {
	words() {
		CONFIG="$P/config.json" CORPUS="$P/text/*.txt" make -s \
			-f "$ROOT/pipelines/demo/demo.mk" CORPUS="$P/text/*.txt" RUN=demo "$@" words
	}
	command -v gnuplot >/dev/null || skip "gnuplot is not installed (make deps)"
	LR=5 SEED=3 LEN=7 BATCH=2 ARCH=llama words
	cp demo/words before
	words
	cmp before demo/words
	grep -qx LR=3e-4 demo/words
}

@test "midtrain.mk: CORPUS may be 1500 text files, and a change in one of them is refused" {
	mkdir text
	seq 1500 | awk '{ f = "text/a-file-with-a-name-" $1 ".txt"
		print "This is a text of some length, and its number is " $1 ", so that it has 64 bytes." >f
		close(f) }'
	midtrain RUN=run BATCHES=1 CORPUS='text/*.txt' METHOD=ntp
	grep -q '^words=1500 files, sha256 [0-9a-f]* of their sizes and hashes$' run/data/words
	echo >>text/a-file-with-a-name-7.txt
	mentions 2 "> words=1500 files, sha256 " midtrain RUN=run BATCHES=2 CORPUS='text/*.txt' \
		METHOD=ntp
}

@test "make help: prints the header of the makefile, and for midtrain.mk that of loop.mk as well" {
	head() { awk '!/^#/ { exit } { print substr($0, 3) }' "$ROOT/$1"; }
	for file in Makefile pipelines/demo/demo.mk; do
		run -0 make -s -C "$ROOT" -f "$file" help
		[ "${#lines[@]}" -gt 8 ]
		[ "$output" = "$(head "$file")" ]
	done
	run -0 make -s -C "$ROOT" -f pipelines/midtrain.mk help
	[ "$output" = "$(head pipelines/midtrain.mk; echo; head pipelines/lib/loop.mk)" ]
}

# prompts: writes prompts.mk, a new phase that trains on prompts only, with a reward that compares tokens and
# with a variable of its own
prompts() {
	cat >prompts.mk <<-END
		include $ROOT/pipelines/lib/loop.mk

		PER_POSITION = 2
		CUT     = rf-cat --part prompt
		REWARD  = rf-reward --kind binary
		TRAIN   = rf-grpo \$(OPTIM) --rl-coef 0.4

		NUMBERS += PER_POSITION
		STAGES  += CUT REWARD TRAIN
		LINE     = \$(next_batch)\$(call stage,\$(CUT))\$(call model_stage,rf-entropy)\$(call \\
		           stage,rf-select --chunks 2 -k 3 --margin 3)\$(call \\
		           model_stage,rf-rollout -k 3 -n \$(PER_POSITION))\$(call \\
		           reward_stage,\$(REWARD))\$(call trainer,\$(TRAIN))
	END
	seq 12 | jq -c '{prompt: "How far is it to town number \(.), and who lives there?", answer: "\(.)"}' \
		>tasks.jsonl
	rf-tokenize --bytes --prompt-key prompt --answer-key answer -o tasks.rf tasks.jsonl
}

@test "loop.mk: a new phase in a file of 20 lines trains, checks its variables and continues after a kill" {
	prompts
	[ "$(wc -l <prompts.mk)" -le 20 ]
	phase() {
		make -s -f prompts.mk MODEL="$P/ckpt" DATA=tasks.rf BATCH=4 MINI_BATCH=2 LR=1e-3 BATCHES=3 \
			"$@"
	}
	phase RUN=want
	[ "$(steps want)" = "$(steps "$P/want" | cut -f 1,2)"$'\t'"$(steps want | cut -f 3)" ]
	grep -q '| rf-cat --part prompt | rf-entropy ' want/data/words
	phase RUN=run BATCHES=1
	phase RUN=run AFTER='kill -9 $PPID' || true
	phase RUN=run
	same_run run want
	phase RUN=other PER_POSITION=3 REWARD='rf-reward --kind random'
	grep -q -- '-n 3 .*--kind random' other/data/words
	mentions 2 "PER_POSITION='none': it must be a whole number" phase RUN=no PER_POSITION=none
	mentions 2 "unknown variable K; the variables are ...PER_POSITION" phase RUN=no K=3
	mentions 2 "CUT: rf-cut: command not found" phase RUN=no CUT=rf-cut
	make -s -f prompts.mk help | grep -q '^ *BATCHES=100'
}

@test "make midtrain: goes from text to a report with figures, and a second call repeats nothing" {
	command -v gnuplot >/dev/null || skip "gnuplot is not installed (make deps)"
	cp -a "$P/demo" demo
	grep -q 'warm-up: batches 1 to 2 ' "$P/demo.err"
	run ! grep -q 'tokens on average' "$P/demo.err"
	[ "$(grep -c '^| ' "$P/demo.out")" -eq 17 ]
	for name in start sft sft-published refine refine-n8 random; do
		[ "$(wc -l <demo/eval/$name.documents.tsv)" -ge 3 ]
		cmp <(cut -f 1,8 demo/eval/$name.documents.tsv) <(cut -f 1,8 demo/eval/start.documents.tsv)
		[ "$name" = start ] || cmp demo/$name/data/epoch-0.rf demo/sft/data/epoch-0.rf
	done
	for name in sft refine refine-n8 random; do
		[ "$(steps demo/$name | cut -f 1,2)" = $'4\t2' ]
	done
	[ "$(steps demo/sft-published | cut -f 1,2)" = $'2\t2' ]
	grep -q '^| SFT as published - SFT | ' demo/report.md
	# only random rewards differ from the cosine
	[ "$(jq -c '[.rollouts, ."reward/mean" == ."reward/cs_reward_mean"]' demo/sft/log.jsonl \
		demo/{refine,refine-n8,random}/log.jsonl | uniq -c | paste -sd' ' | tr -s ' ')" = \
		" 4 [null,true] 4 [16,true] 4 [128,true] 4 [16,false]" ]
	for figure in entropy rewards steps; do
		[ "$(head -c 4 demo/$figure.png | tail -c 3)" = PNG ]
		grep -q "]($figure.png)" demo/report.md
	done
	grep -q 'rf-grpo --mini-batch 2' demo/report.md
	run -0 --separate-stderr demo RUN=demo
	[ "$stderr" = \
		"$(printf 'rf-loop: %s: 2 of 2 batches are done\n' warm-up sft sft-published refine \
			refine-n8 random)" ]
	diff -r "$P/demo" demo
	mentions 2 "unknown variable STPES; the variables are RUN ARCH " demo RUN=demo STPES=3
	mentions 2 "WARM_STEPS='x': it must be a whole number" demo RUN=demo WARM_STEPS=x
	mentions 2 "RUN contains a space" demo RUN='runs/with space'
	for odd in a:b a%b "a'b"; do
		mentions 2 "RUN must not contain ${odd:1:1}, because" demo RUN="$odd"
	done
	mentions 2 "RUN='~/run': make does not expand ~" demo RUN='~/run'
	run -2 make -s -f "$ROOT/pipelines/demo/demo.mk" RUN=demo SEED=2
	[[ "$output" == *"demo/words: the run was started with other settings"* ]]
}

@test "demo.mk: evaluates and reports new steps, whatever the dates of the old files are" {
	command -v gnuplot >/dev/null || skip "gnuplot is not installed (make deps)"
	cp -a "$P/demo" demo
	touch -d '1 hour' demo/eval/*.tsv demo/report.md
	# of one model, which removes the report
	demo RUN=demo BATCHES=3 demo/eval/refine.documents.tsv
	run ! cmp -s {"$P/demo",demo}/eval/refine.documents.tsv
	[ ! -e demo/report.md ]
	demo RUN=demo ${RF_ALL:+BATCHES=3}
	[ -z "${RF_ALL:-}" ] || for name in sft sft-published refine refine-n8 random; do
		run ! cmp -s {"$P/demo",demo}/eval/$name.documents.tsv
	done
	cmp {"$P/demo",demo}/eval/start.documents.tsv
	run ! cmp -s {"$P/demo",demo}/report.md
}

@test "make midtrain: a run killed many times and started again ends with the same bytes and all streams" {
	command -v gnuplot >/dev/null || skip "gnuplot is not installed (make deps)"
	cp -a "$P/demo" before
	killed_again_and_again 'demo RUN=killed KEEP=1' "$DEMO_TOOK" 3
	demo RUN=killed KEEP=1
	for name in start sft sft-published refine refine-n8 random; do
		same_run killed/$name before/$name
		cmp killed/eval/$name.documents.tsv before/eval/$name.documents.tsv
		cmp killed/eval/$name.rollouts.tsv before/eval/$name.rollouts.tsv
		rf-dump --check -q killed/eval/$name.rf killed/$name/streams/*.rf
		[ "$(ls killed/$name/streams | wc -l)" -eq 2 ]
	done
	cmp killed/eval/entropy.tsv before/eval/entropy.tsv
	cmp killed/train.rf before/train.rf
	cmp killed/valid.rf before/valid.rf
	cmp <(grep '^|.*±' killed/report.md) <(grep '^|.*±' before/report.md)
}

@test "demo.mk: ARCH selects another family, with about the same number of weights and its own folder" {
	command -v gnuplot >/dev/null || skip "gnuplot is not installed (make deps)"
	folder() {
		(make -s -f "$ROOT/pipelines/demo/demo.mk" CORPUS="$P/text/*.txt" "$@" words && echo runs/*)
		rm -rf runs
	}
	size() {
		rf-init --config "$ROOT/pipelines/demo/demo-$1.json" --dry-run |
			awk '/^parameters/ { print $2 }'
	}
	same=$(size delta_net)
	for arch in delta_net gated_deltanet lact_swiglu qwen3_5_text; do
		n=$(size $arch)
		[ $((n * 100)) -gt $((same * 98)) ]
		[ $((n * 100)) -lt $((same * 102)) ]
		make -s -f "$ROOT/pipelines/demo/demo.mk" CORPUS="$P/text/*.txt" ARCH=$arch RUN=$arch \
			$arch/fresh
		jq -se --arg arch $arch '(.[0] | del(.dtype)) == .[1]
			and (.[1] | [.model_type, .vocab_size]) == [$arch, 384]' \
			$arch/fresh/config.json "$ROOT/pipelines/demo/demo-$arch.json" >/dev/null
	done
	[ "$(folder)" = runs/midtrain ]
	[ "$(folder ARCH=lact_swiglu)" = runs/midtrain-lact_swiglu ]
	run -2 make -s -f "$ROOT/pipelines/demo/demo.mk" CORPUS="$P/text/*.txt" ARCH=llama RUN=llama \
		llama/fresh
	[[ "$output" == *"demo-llama.json: No such file or directory"* ]]
}

@test "demo.mk: a file that a kill left incomplete never has its final name" {
	command -v gnuplot >/dev/null || skip "gnuplot is not installed (make deps)"
	# in the pipeline of entropies, rf-dump writes a little and then kills all programs
	mkdir stubs
	cat >stubs/rf-dump <<-END
		#!/bin/sh
		case "\$*" in *"--rows token"*) echo half; touch struck; kill -9 0 ;; esac
		exec "$RF_BIN/rf-dump" "\$@"
	END
	chmod +x stubs/rf-dump
	for tool in "$RF_BIN"/rf-*; do [ "${tool##*/}" = rf-dump ] || ln -s "$tool" stubs; done
	cp -a "$P/demo" demo
	rm demo/eval/entropy.tsv
	run ! setsid -w bash -c 'demo RUN=demo RF_BIN="$PWD/stubs" demo/eval/entropy.tsv' >out 2>&1 3>&-
	[ -e struck ]
	[ ! -e demo/eval/entropy.tsv ]
	demo RUN=demo demo/eval/entropy.tsv
	[ "$(wc -l <demo/eval/entropy.tsv)" -gt 100 ]
}

@test "inner-steps.mk: prints a table of differences between methods over several orders of the data" {
	mkdir base
	rf-tokenize --bytes --max-len 128 --truncate split --min-len 64 -o base/train.rf \
		"$P"/text/rf-[a-g]*.txt
	rf-tokenize --bytes --max-len 128 --truncate right -o base/valid.rf "$P"/text/rf-[h-z]*.txt
	table() {
		make -s -f "$ROOT/pipelines/study/inner-steps.mk" BASE=base MODEL="$P/ckpt" RUN=run \
			SEEDS='1 2' LEN=128 BATCHES=1 BATCH=4 MINI_BATCH=2 JOBS=2 LR=1e-2 "$@"
	}
	run -0 --separate-stderr table
	[ "$(grep -c '^| ' <<<"$output")" -eq 8 ]
	[[ "$output" == *'Optimizer steps: sft 2, sft-published 1, refine 2, refine-n8 2, forced 2.' ]]
	diff run/inner-steps.md - <<<"$output"
	# the table has the mean difference over seeds and Student's interval, from the figures of rf-ntp
	# --eval
	for seed in 1 2; do
		rf-ntp --eval -m run/refine-n8/$seed --threads 1 base/valid.rf >eval
		diff eval run/refine-n8/$seed.json
		jq -s '.[0].nll - .[1].nll' run/refine-n8/$seed.json run/sft/$seed.json
	done | awk '{ x[NR] = $1; m += $1 / 2 } END { for (i in x) s += (x[i] - m) ^ 2
		h = 12.706 * sqrt(s / 2)
		printf "| ReFINE n 8 - SFT in as many steps | %+.4f ± %.4f%s |", m, h,
			m > h || -m > h ? " *" : "" }' >row
	grep -qF "$(cat row)" run/inner-steps.md
	# all arms of a seed have the same batches, and another seed has others
	for arm in sft-published refine-n8 forced; do
		cmp run/$arm/2/data/epoch-0.rf run/sft/2/data/epoch-0.rf
	done
	run ! cmp -s run/sft/1/data/epoch-0.rf run/sft/2/data/epoch-0.rf
	# the arm `forced` trains at the positions of ReFINE, without rollouts
	grep -q '^line=.*rf-select -k 5 | .*rf-ntp .*--position-coef 0.2' run/forced/1/data/words
	# a second call makes only missing files, with the same bytes
	cp -a run before
	rm -r run/sft/1.json run/forced/2
	run -0 --separate-stderr table
	cmp before/inner-steps.md run/inner-steps.md
	mentions 2 'run/words: the run was started with other settings' table BATCH=2
	mentions 2 "unknown variable ARM" table ARM=sft
	run -0 --separate-stderr table ARMS='sft refine'
	[ "$(grep -c '^| ' <<<"$output")" -eq 2 ]
	for bad in JOBS=x BATCHES=0 SEEDS='a:b'; do run ! table "$bad"; done
}

@test "evaluate.sh: equal weights at another step have equal scores, and other weights do not" {
	rf-init --from "$P/want" again
	rf-tokenize --bytes --max-len 128 --truncate right "$P"/text/*.txt |
		rf-select --mode uniform --chunks 4 -o positions.rf
	for model in "$P/want" again "$P/ckpt"; do
		K=3 N=2 "$ROOT/pipelines/lib/evaluate.sh" "$model" positions.rf "$(basename "$model")"
	done
	[ "$(wc -l <want.rollouts.tsv)" -eq $(($(ls "$P"/text | wc -l) * 4 * 2 + 1)) ]
	cmp want.rollouts.tsv again.rollouts.tsv
	cmp want.documents.tsv again.documents.tsv
	run ! cmp -s want.rollouts.tsv ckpt.rollouts.tsv
	run ! cmp -s <(cut -f 2 want.rollouts.tsv | tail -n +2) <(cut -f 4 want.rollouts.tsv | tail -n +2)
	[ -z "$(ls ./*.tmp ./want.rf 2>/dev/null)" ]
}

@test "evaluate.sh: prints its usage as the other scripts do; K defaults to 5 and N to 1" {
	run -64 "$ROOT/pipelines/lib/evaluate.sh"
	[ "$output" = "usage: evaluate.sh MODEL POSITIONS.rf OUT" ]
	rf-tokenize --bytes --max-len 128 --truncate right "$P"/text/*.txt 2>/dev/null |
		rf-select --mode uniform --chunks 2 -o positions.rf
	env -u K -u N PATH=/usr/bin:/bin RF_BIN="$RF_BIN" "$ROOT/pipelines/lib/evaluate.sh" \
		"$P/ckpt" positions.rf default
	K=5 N=1 "$ROOT/pipelines/lib/evaluate.sh" "$P/ckpt" positions.rf out
	cmp default.rollouts.tsv out.rollouts.tsv
	for script in demo/{corpus,timed,report} lib/check; do
		mentions 64 "usage: ${script#*/}.sh " "$ROOT/pipelines/$script.sh"
	done
}

@test "evaluate.sh: leaves out a document that is too short for two different positions" {
	for n in 39 59 69; do head -c $n "$ROOT/README.md" >$n.txt; done
	rf-tokenize --bytes --source 39.txt 59.txt 69.txt |
		rf-select --mode uniform --chunks 4 -o positions.rf
	rf-tokenize --bytes --source 39.txt | rf-select --mode uniform --chunks 4 -o alone.rf
	[ "$(rf-dump --tsv --rows position --columns s --no-header alone.rf | paste -sd' ')" = "20 20 20 20" ]
	K=3 N=2 "$ROOT/pipelines/lib/evaluate.sh" "$P/ckpt" positions.rf out 2>err
	[ "$(cut -f 1 out.documents.tsv | paste -sd' ')" = "id 1 2" ]
	[ "$(cat err)" = \
		"rf-reward: 1 of 3 sequences lost their rollouts: they have no other position for --shift 1" ]
	[ "$(cut -f 1 out.rollouts.tsv | uniq -c | tr -s ' ' | paste -sd,)" = " 1 id, 8 1, 8 2" ]
	run ! cmp -s <(cut -f 2 out.rollouts.tsv | tail -n +2) <(cut -f 4 out.rollouts.tsv | tail -n +2)
	rf-tokenize --bytes --max-len 128 --truncate right -o none.rf "$P"/text/rf-cat.1.txt
	run -65 "$ROOT/pipelines/lib/evaluate.sh" "$P/ckpt" none.rf none
	[[ "$output" == *"evaluate.sh: none.rf: no sequence has two different positions to evaluate"* ]]
	[ ! -e none.documents.tsv ]
}

@test "report.awk: computes means, standard errors and differences by document" {
	row() { printf '%s\n' "$@" | awk -v OFS='\t' '{ print NR, $1, 0, 0.25, 0.5, 0, 0, "d" NR }'; }
	for name in start sft sft-published refine refine-n8 random; do
		printf 'id\tnll\n' >$name.documents.tsv
	done
	row 1 2 3 6 >>start.documents.tsv
	row 1 2 3 6 >>sft.documents.tsv
	row 1 2 3 5 >>sft-published.documents.tsv
	row 0.9 1.8 2.9 5.8 >>refine.documents.tsv
	row 2 3 4 7 >>random.documents.tsv
	row 1 2 3 7 >>refine-n8.documents.tsv
	tables() { awk -f "$ROOT/pipelines/lib/tables.awk" -f "$ROOT/pipelines/demo/report.awk" "$@"; }
	tables ./*.documents.tsv >report
	# the standard deviation of 1 2 3 6 is sqrt(14/3), that of -.1 -.2 -.1 -.2 is sqrt(1/300)
	grep -q '^| SFT | 3.0000 ± 1.0801 | 0.0000 ± 0.0000 | 0.2500 ± 0.0000 | 0.5000 ± 0.0000 |' report
	[ "$(head -n 1 report)" = "| held-out documents: 4 | nll, nats | accuracy (arg max) | NTP accuracy\
 (drawn) | cosine | binary | cosine elsewhere |" ]
	[ "$(cut -d '|' -f 2 report | sed -n 3,8p | paste -sd,)" = \
		' start , SFT , SFT as published , ReFINE, n 1 , ReFINE, n 8 , random rewards ' ]
	grep -q '^| SFT as published - SFT | -0.2500 ± 0.2500 | +0.0000 ± 0.0000 |' report
	grep -q '^| ReFINE, n 8 - SFT as published | +0.5000 ± 0.5000 |' report
	grep -q '^| ReFINE, n 1 - SFT | -0.1500 ± 0.0289 \* | +0.0000 ± 0.0000 |' report
	grep -q '^| ReFINE, n 8 - SFT | +0.2500 ± 0.2500 |' report
	line='- ReFINE, n 1 against SFT: nll better by 0.1500 (5.2 standard errors)'
	line+='; accuracy (arg max), NTP accuracy (drawn), cosine, binary: no difference beyond two standard'
	line+=' errors.'
	grep -qxF -- "$line" report
	grep -q '^- random rewards against SFT: nll worse by 1.0000 (in every document);' report
	# a model that was not evaluated has no row
	rm sft-published.documents.tsv
	tables ./*.documents.tsv | diff - <(grep -v 'as published' report)
}

@test "make deps: installs missing packages as root or through sudo, and otherwise prints the command" {
	mkdir stubs
	printf '#!/bin/sh\ncase $* in *bats|*jq) exit 1 ;; esac\necho installed\n' >stubs/dpkg-query
	printf '#!/bin/sh\necho "$USERID"\n' >stubs/id
	printf '#!/bin/sh\necho "apt-get $*" >>log\n' >stubs/apt-get
	printf '#!/bin/sh\necho sudo >>log\n"$@"\n' >sudo
	chmod +x stubs/* sudo
	for tool in sh env; do ln -s "$(command -v $tool)" stubs; done
	deps() { PATH=$PWD/stubs USERID=$1 "$ROOT/pipelines/lib/deps.sh"; }
	run -77 deps 1000
	[ "$output" = "deps: sudo is missing; run this as root: apt-get install bats jq" ]
	run -0 deps 0
	[ "$(cat log)" = $'apt-get update -q\napt-get install -q -y --no-install-recommends bats jq' ]
	rm log
	mv sudo stubs
	run -0 deps 1000
	[ "$(cat log)" = \
		$'sudo\napt-get update -q\nsudo\napt-get install -q -y --no-install-recommends bats jq' ]
	rm log
	printf '#!/bin/sh\necho installed\n' >stubs/dpkg-query
	silent deps 1000
	[ ! -e log ]
}

@test "midtrain.mk: KEEP_STEPS and KEEP_BEST decide which steps stay, and may change from call to call" {
	rf-tokenize --bytes --max-len 128 --truncate right -o valid.rf "$P/text/rf-cat.1.txt" 2>err
	kept() { (cd run && echo step-* best-*); }
	words=("${ntp[@]}" EVAL=valid.rf)
	midtrain RUN=run "${words[@]}" KEEP_STEPS=1 KEEP_BEST=accuracy BATCHES=2 2>err
	[ "$(cd run && echo step-*)" = step-000004 ]
	# the step of the best line of eval.jsonl is kept, and its weights give that line
	midtrain RUN=run "${words[@]}" KEEP_STEPS=2 KEEP_BEST=nll BATCHES=3 2>err
	best=$(jq -s 'min_by(.nll).step' run/eval.jsonl)
	[ "$(kept)" = "step-000004 step-000006 $(printf 'best-step-%06d' "$best")" ]
	rf-ntp --eval -m run/best valid.rf >figures
	jq -se '.[0].nll == (.[1:] | min_by(.nll).nll)' figures run/eval.jsonl >/dev/null
	# the best step stays in best-step-N after the trainer has removed it
	jq -c ".nll -= if .step == $best then 1 else 0 end" run/eval.jsonl >eval.jsonl
	mv eval.jsonl run/
	midtrain RUN=run "${words[@]}" KEEP_STEPS=1 KEEP_BEST=nll BATCHES=4 2>err
	[ "$(kept)" = "step-000008 $(printf 'best-step-%06d' "$best")" ]
	# a folder that KEEP_BEST did not make is not replaced
	mv run/best run/link
	mkdir run/best
	run -2 midtrain RUN=run "${words[@]}" KEEP_STEPS=1 KEEP_BEST=nll BATCHES=4
	[[ "$output" == *'KEEP_BEST=nll: run/best is no link that KEEP_BEST made: move it away'* ]]
	rmdir run/best
	mv run/link run/best
	mentions 2 "KEEP_BEST='probability': this figure is called ntp_accuracy" \
		midtrain RUN=run "${words[@]}" BATCHES=5 KEEP_BEST=probability
	for bad in KEEP_BEST=loss 'KEEP_BEST=nll EVAL=' KEEP_STEPS=0 'KEEP_BEST=reward EVAL_REWARD='; do
		run -2 midtrain RUN=run "${words[@]}" BATCHES=5 $bad
	done
}

@test "midtrain.mk: a later KEEP_BEST keeps the best existing step, and reports a better removed step" {
	rf-tokenize --bytes --max-len 128 --truncate right -o valid.rf "$P/text/rf-cat.1.txt" 2>err
	words=("${ntp[@]}" EVAL=valid.rf)
	best() { readlink run/best || echo none; }
	# figures STEP NLL ACCURACY...: replaces the lines of eval.jsonl
	figures() {
		printf '{"step":%d,"nll":%s,"accuracy":%s}\n' "$@" >run/eval.jsonl
	}
	midtrain RUN=run "${words[@]}" KEEP_STEPS=2 BATCHES=3 2>err
	figures 0 1 .5 2 3 .6 4 3 .7 6 4 .4
	midtrain RUN=run "${words[@]}" KEEP_STEPS=2 KEEP_BEST=nll BATCHES=3 2>err
	[ "$(best)" = best-step-000004 ]
	grep -q 'KEEP_BEST=nll: step 0 is better than step 4, but it was removed' err
	midtrain RUN=run "${words[@]}" KEEP_STEPS=2 KEEP_BEST=accuracy BATCHES=3 2>err
	[ "$(best)" = best-step-000004 ]
	run ! grep -q KEEP_BEST err
	figures 0 1 .5 2 3 .6 4 5 .1 6 4 .4
	midtrain RUN=run "${words[@]}" KEEP_STEPS=2 KEEP_BEST=accuracy BATCHES=3 2>err
	[ "$(cd run && echo best*)" = 'best best-step-000006' ]
	grep -q 'step 2 is better than step 6' err
	figures 0 1 .5
	midtrain RUN=run "${words[@]}" KEEP_STEPS=2 KEEP_BEST=nll BATCHES=3 2>err
	grep -q 'RUN/best stays as it is, because the steps of RUN/eval.jsonl were removed' err
	[ "$(best)" = best-step-000006 ]
	figures 6 null null
	midtrain RUN=run "${words[@]}" KEEP_STEPS=2 KEEP_BEST=nll BATCHES=3 2>err
	grep -q 'RUN/best stays as it is, because no line of RUN/eval.jsonl has this figure' err
	for figures in '4 ntp_accuracy .3 6 probability .4' '4 probability .2 6 ntp_accuracy .1'; do
		# shellcheck disable=SC2086  # several words
		printf '{"step":%d,"%s":%s}\n' $figures >run/eval.jsonl
		midtrain RUN=run "${words[@]}" KEEP_STEPS=2 KEEP_BEST=ntp_accuracy BATCHES=3 \
			2>err
		best >>bests
	done
	[ "$(paste -sd' ' bests)" = 'best-step-000006 best-step-000004' ]
	# step 0 is kept, although the trainer removes it before the first evaluation
	rm -r run
	midtrain RUN=run "${words[@]}" EVERY=3 KEEP_STEPS=2 KEEP_BEST=nll OPTIM='--lr 9' \
		BATCHES=3 2>err
	jq -se 'min_by(.nll).step == 0' run/eval.jsonl >/dev/null
	[ "$(best)" = best-step-000000 ]
	rf-ntp --eval -m run/best valid.rf >figures
	jq -se '.[0].nll == .[1].nll' figures run/eval.jsonl >/dev/null
}

@test "midtrain.mk: LEN=1k is LEN=1024" {
	midtrain RUN=a BATCHES=1 METHOD=ntp LEN=1k 2>err
	midtrain RUN=b BATCHES=1 METHOD=ntp LEN=1024
	diff <(sed '/^from=\|^hash=/d' a/data/words) <(sed '/^from=\|^hash=/d' b/data/words)
	same_run a b
	mentions 2 "LEN='xk': it must be a whole number" midtrain RUN=c LEN=xk
}

@test "midtrain.mk: the line of a batch reports groups with equal rewards, which teach nothing" {
	reward same.py 1
	midtrain RUN=run "${data[@]}" BATCHES=1 REWARD='python3 same.py' 2>err
	grep -q ', reward 1, nothing to learn in 4 of 4 groups, whose rewards are equal' err
	[ "$(grep -c ', reward ' "$P/said")" -eq 3 ]
	run ! grep -q 'nothing to learn' "$P/said"
}

@test "midtrain.mk: SKIP_BAD with a stream is an error" {
	run -2 midtrain RUN=run CORPUS= DATA="$P/want/data/corpus.rf" SKIP_BAD=3
	[[ "$output" == *'SKIP_BAD has no effect here: '*' is a stream, which has no bad lines'* ]]
}
