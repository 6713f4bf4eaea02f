#!/usr/bin/env bats
# Tests of evaluations during a run (EVAL of loop.mk), and of curves.mk and entropy.mk, which draw figures,
# with a tiny model over bytes.

setup_file() {
	load ../helper
	export P=$BATS_FILE_TMPDIR
	tiny_model
	rf-tokenize --bytes --format text --max-len 96 --truncate split -o "$P/train.rf" \
		"$ROOT/man/rf-loop.1"
	rf-tokenize --bytes --format text --max-len 200 --truncate right -o "$P/valid.rf" \
		"$ROOT"/man/rf-c*.1 "$ROOT"/man/rf-d*.1
	midtrain RUN="$P/a" EVERY=2
	midtrain RUN="$P/b" "${ntp[@]}" ORDER=shuffle
}

setup() { load ../helper; }

# names: prints the files that curves.mk writes
names() {
	with_page 'curves.html
'
	printf 'curves.png\ncurves.tsv\n'
}

# midtrain WORD...: trains five batches of two steps each, with evaluations
ntp=(ENTROPY= SELECT= ROLLOUT= REWARD= 'TRAIN=rf-ntp $(OPTIM)')
midtrain() {
	RF_BIN=$RF_BIN make -s -f "$ROOT/pipelines/midtrain.mk" MODEL="$P/ckpt" DATA="$P/train.rf" BATCH=4 \
		MINI_BATCH=2 LR=1e-2 BATCHES=5 EVAL="$P/valid.rf" "$@"
}
curves() { RF_BIN=$RF_BIN make -s -f "$ROOT/pipelines/curves.mk" "$@"; }
export -f midtrain
export ROOT RF_BIN

# evaluated DIR STEP: prints the line that eval.jsonl must have for this step
evaluated() { rf-ntp --eval -m "$1" "$P/valid.rf" | sed "s/^{/{\"step\":$2,/"; }
# predicted FILE: prints the lines without the rewards of rollouts
predicted() { sed 's/,"reward\/mean".*}/}/' "$1"; }

@test "EVAL: eval.jsonl has a line for step 0 and for each EVERY batches, and the weights stay the same" {
	[ "$(jq .step "$P/a/eval.jsonl" | paste -sd' ')" = '0 4 8' ]
	[ "$(jq .step "$P/b/eval.jsonl" | paste -sd' ')" = '0 2 4 6 8 10' ]
	evaluated "$P/ckpt" 0 | cmp - <(predicted "$P/a/eval.jsonl" | head -n 1)
	evaluated "$P/a/step-000008" 8 | cmp - <(predicted "$P/a/eval.jsonl" | tail -n 1)
	evaluated "$P/b/latest" 10 | cmp - <(tail -n 1 "$P/b/eval.jsonl")
	midtrain RUN=bare "${ntp[@]}" EVAL=
	diff -r bare/latest/ "$P/b/latest/"
	[ ! -e bare/eval.jsonl ]
	# together with AFTER, and with answers
	midtrain RUN=both "${ntp[@]}" BATCHES=1 AFTER='echo "$$AT" >>at'
	[ "$(cat at) $(jq .step both/eval.jsonl | paste -sd' ')" = '2 0 2' ]
	echo '{"prompt": "a question", "answers": ["b"]}' >q.jsonl
	RF_BIN=$RF_BIN make -s -f "$ROOT/pipelines/testtime.mk" MODEL="$P/ckpt" RUN=t DATA=q.jsonl \
		METHOD=ntp EVAL="$P/valid.rf" MAX_NEW=1
	[ "$(jq .step t/eval.jsonl | paste -sd' ') $(ls t/answers)" = '0 1 batch-000000.rf' ]
	run -2 make -s -f "$ROOT/pipelines/testtime.mk" MODEL="$P/ckpt" RUN=t2 DATA=q.jsonl METHOD=none \
		EVAL="$P/valid.rf"
	[[ "$output" == *'EVAL is not possible here'* ]]
}

@test "EVAL: after kills at random moments and new starts, each step has one line with the same numbers" {
	[ -n "${RF_ALL:-}" ] && times=60 || times=2
	for ((kill = 0; kill < times; kill++)); do
		setsid bash -c 'midtrain RUN=run EVERY=2' >out 2>&1 3>&- &
		sid=$!
		sleep "0.$((RANDOM % 9))$((RANDOM % 10))"
		case $((kill % 3)) in
		# again, for a process that was started meanwhile
		0) pkill -KILL -s $sid && sleep .02 && pkill -KILL -s $sid || : ;;
		1) kill -KILL -- -$sid 2>/dev/null || : ;;
		2) kill -TERM -- -$sid 2>/dev/null || : ;;
		esac
		wait $sid || continue
		cmp run/eval.jsonl "$P/a/eval.jsonl"
		rm -rf run
	done
	midtrain RUN=run EVERY=2
	cmp run/eval.jsonl "$P/a/eval.jsonl"
	[ -z "$(find run -name 'eval*tmp*')" ]
	# a kill between the line and the loop's record of it causes no second line
	for ((i = 0; i < 2; i++)); do
		midtrain RUN=again BATCHES=1 AFTER='kill -9 $$PPID' || :
	done
	[ "$(jq .step again/eval.jsonl | paste -sd' ')" = '0 2' ]
}

@test "EVAL: another text for the same run is refused, and EVAL may be given from a later batch on" {
	head -c 300 "$ROOT/README.md" | rf-tokenize --bytes --format text -o other.rf
	cp -a "$P/b" run
	run -2 midtrain RUN=run "${ntp[@]}" BATCHES=6 EVAL=other.rf
	[[ "$output" == *'run/eval.words: the run was started with other settings or data (<) than now'* ]]
	run -2 midtrain RUN=run "${ntp[@]}" BATCHES=6 EVALUATE='rf-ntp --eval --loss response'
	[[ "$output" == *'run/eval.words: '*'> EVALUATE=rf-ntp --eval --loss response'* ]]
	[ "$(readlink run/latest)" = step-000010 ]
	run -2 midtrain RUN=no EVAL=nothing.rf
	[[ "$output" == *"EVAL='nothing.rf': it must be a file of sequences, as valid.rf"* ]]
	mentions 2 "EVERY='0': it must be a whole number, 1 or more" midtrain RUN=no EVERY=0
	mentions 2 'EVALUATE: rf-nope: command not found' midtrain RUN=no EVALUATE=rf-nope
	[ ! -e no ]
	# step 0 is evaluated if MODEL is a checkpoint, or a run that still has its step 0
	midtrain RUN=later "${ntp[@]}" BATCHES=3 EVAL=
	[ ! -e later/step-000000 ]
	midtrain RUN=later "${ntp[@]}" BATCHES=4
	[ "$(jq .step later/eval.jsonl | paste -sd' ')" = '0 6 8' ]
	evaluated "$P/ckpt" 0 | cmp - <(head -n 1 later/eval.jsonl)
	rf-init --from "$P/ckpt" begin
	midtrain RUN=from-run MODEL=begin "${ntp[@]}" BATCHES=2 EVAL=
	midtrain RUN=from-run MODEL=begin "${ntp[@]}" BATCHES=3
	[ "$(jq .step from-run/eval.jsonl | paste -sd' ')" = '4 6' ]
	# post-training evaluates responses
	echo '{"prompt": "a question", "answer": "and its answer"}' >q.jsonl
	rf-tokenize --bytes --prompt-key prompt --answer-key answer -o q.rf q.jsonl
	RF_BIN=$RF_BIN make -s -f "$ROOT/pipelines/posttrain.mk" MODEL="$P/ckpt" RUN=p DATA=q.jsonl \
		METHOD=sft EVAL=q.rf
	[ "$(jq .tokens p/eval.jsonl | paste -sd' ')" = '15 15' ]
}

@test "EVAL: a file that cannot be evaluated is refused before the first batch, and another one is accepted" {
	jq -c 'if .type == "head" then .body.vocab = 500 else . end' <(rf-dump --json "$P/valid.rf") |
		rf-cat --json -o large.rf
	echo '{"text": "no stream"}' >lines.jsonl
	for file in large.rf lines.jsonl; do
		run -2 midtrain RUN=run "${ntp[@]}" EVAL=$file
		said="EVAL='$file': EVALUATE='rf-ntp --eval' cannot evaluate it with $P/ckpt (the reason"
		[[ "$output" == *"$said is above)"* ]]
		[ ! -e run ]
	done
	# the settings of an evaluation that never wrote a line may change
	midtrain RUN=run "${ntp[@]}" EVAL= BATCHES=1
	printf 'EVALUATE=other\n' >run/eval.words
	midtrain RUN=run "${ntp[@]}" BATCHES=2
	[ "$(jq .step run/eval.jsonl | paste -sd' ')" = '0 2 4' ]
	grep -qx 'EVALUATE=rf-ntp --eval' run/eval.words
}

@test "EVAL: an evaluation that fails after a batch is reported as EVAL, and the next start repeats it" {
	once='rf-ntp --eval "$$@"; [ ! -e broken ] || [ ! -e run/latest ] ||'
	touch broken
	run -2 midtrain RUN=run "${ntp[@]}" BATCHES=1 EVALUATE="$once"' exit 9;:'
	[[ "$output" == *"EVAL='$P/valid.rf': the evaluation failed (the reason is above)"* ]]
	[[ "$output" == *"batch 1 is done, but the command after it (--after, EVAL or AFTER of a pipe"* ]]
	rm broken
	midtrain RUN=run "${ntp[@]}" BATCHES=1 EVALUATE="$once"' exit 9;:'
	[ "$(jq .step run/eval.jsonl | paste -sd' ')" = '0 2' ]
}

@test "EVAL: a run of ReFINE records rewards for the same positions and draws at every step" {
	# by_hand MODEL [KIND]: prints the mean reward and the number of rollouts, computed by the single
	# programs
	by_hand() {
		rf-select --mode uniform -k 5 --draw-step 0 "$P/valid.rf" |
			rf-rollout -k 5 -n 1 --draw-step 0 -m "$1" | rf-reward --kind "${2:-cosine}" |
			rf-dump --tsv --rows rollout --columns reward --no-header |
			awk '{ s += $1 } END { printf "%.6f %d\n", s / NR, NR }'
	}
	held() {
		jq -r '[."reward/mean", .rollouts, ."reward/kind"] | @tsv' "$1" |
			awk '{ printf "%.6f %d %s\n", $1, $2, $3 }'
	}
	[ "$(held "$P/a/eval.jsonl" | sed -n 1p)" = "$(by_hand "$P/ckpt") cosine" ]
	[ "$(held "$P/a/eval.jsonl" | sed -n 3p)" = "$(by_hand "$P/a/step-000008") cosine" ]
	run ! grep reward "$P/b/eval.jsonl"
	# a baseline with EVAL_REWARD, a run with another kind of reward, and a run without rewards
	midtrain RUN=base "${ntp[@]}" BATCHES=1 EVERY=9 EVAL_REWARD='rf-reward --kind cosine'
	[ "$(held base/eval.jsonl | sed -n 1p)" = "$(by_hand "$P/ckpt") cosine" ]
	midtrain RUN=binary BATCHES=1 REWARD='rf-reward --kind binary'
	[ "$(held binary/eval.jsonl | sed -n 1p)" = "$(by_hand "$P/ckpt" binary) binary" ]
	midtrain RUN=none BATCHES=1 EVERY=9 EVAL_REWARD=
	run ! grep reward none/eval.jsonl
	# curves.mk adds lines of the same form
	[ "$(jq -r .step binary/eval.jsonl | paste -sd' ')" = '0 2' ]
	sed -i 2d binary/eval.jsonl
	curves RUNS=binary OUT=out EVAL="$P/valid.rf"
	[ "$(held binary/eval.jsonl | sed -n 2p)" = "$(by_hand binary/step-000002 binary) binary" ]
	grep -q 'binary$' out/curves.tsv
	# other rollouts for the same run are refused
	run -2 midtrain RUN=base "${ntp[@]}" BATCHES=2 EVAL_REWARD='rf-reward --kind cosine' N=2
	[[ "$output" == *'base/eval-reward.words: the run was started with other settings'* ]]
	# post-training draws the rollouts on prompts
	echo '{"prompt": "a question that is long enough to have a position or two, or more",' \
		'"answer": " yes"}' >q.jsonl
	rf-tokenize --bytes --prompt-key prompt --answer-key answer -o q.rf q.jsonl
	RF_BIN=$RF_BIN make -s -f "$ROOT/pipelines/posttrain.mk" MODEL="$P/ckpt" RUN=p DATA=q.jsonl EVAL=q.rf
	[ "$(jq -r '."reward/kind"' p/eval.jsonl | sort -u)" = hybrid ]
}

@test "curves.mk: leaves out held-out rewards whose rollouts were drawn in different ways, with a warning" {
	command -v gnuplot >/dev/null || skip "gnuplot is not installed (make deps)"
	# evaluates step 0 only
	rewarded() {
		midtrain BATCHES=1 EVERY=9 "${ntp[@]}" EVAL_REWARD="rf-reward --kind $2" RUN="$1" "${@:3}"
	}
	rewarded one cosine
	rewarded two cosine N=2
	rewarded same cosine N=2 EVAL_ROLLOUT='rf-rollout -k 5 -n 1 --draw-step 0'
	rewarded random random
	run -0 curves RUNS='one two' OUT=out FORMAT=svg
	said='curves: one and two have held-out rewards of rollouts that were drawn in other ways ('
	said+='rf-select --mode uniform -k 5 --draw-step 0 | rf-rollout -k 5 -n 1 --draw-step 0; '
	said+='rf-select --mode uniform -k 5 --draw-step 0 | rf-rollout -k 5 -n 2 --draw-step 0): these '
	said+='rewards are left out of the figure (runs with another N or K need the same EVAL_SELECT'
	said+=' and EVAL_ROLLOUT)'
	[ "${lines[0]}" = "$said" ]
	grep -q 'held-out loss' out/curves.svg
	run ! grep -q 'held-out reward' out/curves.svg
	grep -q 'cosine$' out/curves.tsv
	run -0 curves RUNS='one same' OUT=out FORMAT=svg
	[ "${#lines[@]}" -eq 1 ]
	grep -q 'held-out reward' out/curves.svg
	run -0 curves RUNS='one random' OUT=out
	said='curves: held-out rewards are of several kinds (cosine random), each with its own panel:'
	[ "${lines[0]}" = "$said EVAL_REWARD='rf-reward --kind cosine' gives all runs the same kind" ]
}

@test "curves.mk: the table has each run's evaluations, and the last line of its log for each step" {
	command -v gnuplot >/dev/null || skip "gnuplot is not installed (make deps)"
	cp -a "$P/a" "$P/b" .
	# the log has two lines of step 3, as after a kill between the log and the commit
	jq -c 'select(.step == 3) | ."loss/ntp" = 9' b/log.jsonl >line
	cat line b/log.jsonl >log
	mv log b/log.jsonl
	curves RUNS='a b' OUT=out/curves
	python3 - >want <<-'END'
		import json
		print("run\tstep\tnll\taccuracy\tntp_accuracy\tloss\treward\tkind\t"
		      "held_out_reward\theld_out_kind")
		for run in "ab":
		    held = {json.loads(l)["step"]: json.loads(l) for l in open(f"{run}/eval.jsonl")}
		    log = {json.loads(l)["step"]: json.loads(l) for l in open(f"{run}/log.jsonl")}
		    for step in sorted(held.keys() | log.keys()):
		        h, l = held.get(step, {}), log.get(step, {})
		        cells = (h.get("nll"), h.get("accuracy"), h.get("ntp_accuracy"), l.get("loss/ntp"),
		                 l.get("reward/mean"))
		        cells = ["NaN" if c is None else f"{c:.6g}" for c in cells]
		        mean = h.get("reward/mean")
		        cells += [l.get("reward/kind", "NaN"), "NaN" if mean is None else f"{mean:.6g}",
		                  h.get("reward/kind", "NaN")]
		        print(run, step, *cells, sep="\t")
	END
	awk -F '\t' -v OFS='\t' 'NR > 1 { for (i = 3; i <= 9; i += 1 + (i == 7)) if ($i != "NaN")
		$i = sprintf("%.6g", $i) } { print }' out/curves/curves.tsv | diff want -
	[ "$(wc -l <want)" -eq 22 ]
	[ "$(head -c 4 out/curves/curves.png | tail -c 3)" = PNG ]
	# the figure of a run without rewards has two panels fewer
	height() { od -An -j 20 -N 4 -t u1 "$1" | awk '{ print $3 * 256 + $4 }'; }
	four=$(height out/curves/curves.png)
	run -0 curves RUNS=b OUT=b-alone
	[ "$output" = "curves: b-alone/curves.png, b-alone/curves.tsv$(with_page ', b-alone/curves.html')" ]
	[ $((four - $(height b-alone/curves.png))) -eq $((2 * 175 * 240 / 100)) ]
	[ "$(ls -A out/curves)" = "$(names)" ]
	cp -a out before
	curves RUNS='a b' OUT=out/curves
	diff -r before out
}

@test "curves.mk: EVAL evaluates steps that have no line, and runs with different evaluations are refused" {
	command -v gnuplot >/dev/null || skip "gnuplot is not installed (make deps)"
	without_figures
	midtrain RUN=c "${ntp[@]}" EVAL= BATCHES=3
	curves RUNS=c OUT=out EVAL="$P/valid.rf"
	[ "$(jq -c .step c/eval.jsonl | paste -sd' ')" = '4 6' ]
	evaluated c/step-000006 6 | cmp - <(tail -n 1 c/eval.jsonl)
	cp -a "$P/a" a
	curves RUNS='a c' OUT=out EVAL="$P/valid.rf"
	[ "$(jq -c .step a/eval.jsonl | paste -sd' ')" = '0 4 8 10' ]
	cmp <(head -n 3 a/eval.jsonl) "$P/a/eval.jsonl"
	# lines at the beginning are missing
	sed -i 1,2d a/eval.jsonl
	cp -a "$P/a/step-000008" a/step-000004
	curves RUNS=a OUT=out EVAL="$P/valid.rf"
	[ "$(jq -c .step a/eval.jsonl | paste -sd' ')" = '4 8 10' ]
	head -c 300 "$ROOT/README.md" | rf-tokenize --bytes --format text -o other.rf
	midtrain RUN=d "${ntp[@]}" EVAL=other.rf BATCHES=1
	run -2 curves RUNS='a d' OUT=no
	said='curves: a and d were evaluated on different texts, or by another EVALUATE, so they cannot be'
	[[ "$output" == "$said compared"* ]]
	run -2 curves RUNS='a none' OUT=no
	said='curves: none is not a run (blanks in RUNS separate runs; a name with a blank stands in quotes)'
	[[ "$output" == "$said"* ]]
	rf-init --from "$P/ckpt" fresh
	run -2 curves RUNS=fresh OUT=no
	said='curves: fresh has neither eval.jsonl nor log.jsonl: EVAL=valid.rf writes the first'
	[ "${lines[0]}" = "$said" ]
	mentions 2 "RUNS is not set: which runs? RUNS='runs/a runs/b'" curves RUNS= OUT=no
	mentions 2 'OUT is not set' curves RUNS=a
	mentions 2 'unknown variable RUN: did you mean RUNS? (help explains all)' curves RUNS=a OUT=no RUN=a
	[ ! -e no ]
	curves help | grep -q 'EVERY=10'
}

# noted NAME [LINE...]: makes a run with these lines in its log
noted() {
	mkdir -p "./$1/step-000001"
	ln -sfn step-000001 "./$1/latest"
	[ $# -eq 1 ] || printf '%s\n' "${@:2}" >"./$1/log.jsonl"
}

@test "curves.mk: runs and folders with any name are drawn, and a blank separates runs outside quotes" {
	command -v gnuplot >/dev/null || skip "gnuplot is not installed (make deps)"
	local names=('i\j' '-d"e$(pwd)f' 'o{p}_q^r' 1)
	[ -z "${RF_ALL:-}" ] || names+=('d"e' -f 'k$(pwd)l' "b'c" 'g=h' 'm`n' 's;t' 'ü' 'NaN' 'u%dv')
	for name in "${names[@]}"; do
		noted "$name" '{"step":1,"loss/ntp":2}' '{"step":2,"loss/ntp":1}'
		curves RUNS="${name//\$/\$\$}" OUT="out of ${name//\$/\$\$}"
		[ "$(tail -n 2 "out of $name/curves.tsv" | cut -f 1-6 | paste -sd,)" = \
			"$name	1	NaN	NaN	NaN	2,$name	2	NaN	NaN	NaN	1" ]
		[ "$(ls -A "out of $name")" = "$(names)" ]
	done
	for name in '-out' 'a=b/c'; do
		curves RUNS=1 OUT="$name"
		[ "$(head -c 4 "./$name/curves.png" | tail -c 3)" = PNG ]
	done
	without_figures
	noted 'two words' '{"step":1,"loss/ntp":2}'
	for names in 'two words' "'two words' 1" '1 two\ words'; do
		curves RUNS="$names" OUT=two
		grep -qx "two words	1	NaN	NaN	NaN	2	.*" two/curves.tsv
	done
	run -2 curves RUNS='two words 1' OUT=no
	[[ "$output" == 'curves: two is not a run (blanks in RUNS separate runs; a name with a blank '* ]]
	[ ! -e no ]
}

@test "curves.mk: a run without numbers is refused, and the error for a damaged line names file and line" {
	command -v gnuplot >/dev/null || skip "gnuplot is not installed (make deps)"
	noted good '{"step":1,"loss/ntp":2}'
	try() {
		run -2 curves RUNS="good $1" OUT=out
		[[ "${lines[0]}" == "curves: $2"* ]] || { echo "$output"; return 1; }
		[[ "$output" == *"Error $3" ]]
		[ ! -e out/curves.png ]
		[ ! -e out/curves.tsv ]
	}
	noted empty
	: >empty/log.jsonl
	said='empty has no numbers to draw: its eval.jsonl and log.jsonl have no loss, accuracy or reward'
	try empty "$said" 66
	noted bare '{"step":1,"stepped":true,"loss/ntp":null}' ''
	try bare 'bare has no numbers to draw' 66
	noted torn '{"step":1,"loss/ntp":2}' '' '{"step":2,"los'
	said='torn/log.jsonl: line 3: not a line of JSON, as after a kill while it was written: remove it'
	try torn "$said" 65
	noted "to'rn" '{"step":1,"loss/ntp":2}{"step":2'
	try "to'rn" "to'rn/log.jsonl: line 1: not a line of JSON" 65
	noted zeros '{"step":1,"loss/ntp":2}'
	printf '\0\0\0\n' >>zeros/log.jsonl
	try zeros 'zeros/log.jsonl: line 2: not a line of JSON' 65
	noted nan '{"step":1,"loss/ntp":NaN}' '{"step":2,"loss/ntp":1e999}'
	try nan 'nan/log.jsonl: 2 of its values are NaN or infinite and are left out' 66
	noted list '[1]'
	try list 'list/log.jsonl: line 1: there is no number "step"' 65
	noted eval '{"step":1,"loss/ntp":2}'
	printf '{"step":0,"nll":' >eval/eval.jsonl
	try eval 'eval/eval.jsonl: line 1: not a line of JSON' 65
	# the figure has the numbers that are finite
	noted some '{"step":1,"loss/ntp":NaN}' '{"step":2,"loss/ntp":1.5}' '{"step":3,"loss/ntp":-Infinity}'
	curves RUNS=some OUT=out 2>err
	grep -qx 'curves: some/log.jsonl: 2 of its values are NaN or infinite and are left out' err
	[ "$(cut -f 2,6 out/curves.tsv | tail -n +2)" = $'2\t1.5' ]
	# make would expand the dollar sign
	for word in 'OUT=o$q' 'RUNS=so$me' 'EVAL=$(q)'; do
		run -2 curves RUNS=some OUT=out "$word"
		[[ "$output" == *"${word%%=*}='${word#*=}': make takes a dollar sign for the beginning of"* ]]
	done
}

@test "curves.mk: LABELS, GROUP and BASELINE must fit the runs, and FORMAT is svg, pdf or the default, png" {
	command -v gnuplot >/dev/null || skip "gnuplot is not installed (make deps)"
	noted a '{"step":1,"loss/ntp":2,"reward/mean":1,"reward/kind":"cosine"}'
	noted b '{"step":1,"loss/ntp":3,"reward/mean":2,"reward/kind":"binary"}'
	try() {
		run -2 curves RUNS='a b' OUT=no "${@:2}"
		[[ "${lines[0]}" == "curves: $1"* ]] || { echo "$output"; return 1; }
		[ ! -e no ]
	}
	try "LABELS='x' has 1 names, but RUNS has 2 runs" LABELS=x
	try "LABELS='x;;y': a name between its semicolons is empty" LABELS='x;;y'
	try "'x' names two curves of LABELS: GROUP= draws several runs as one" LABELS='x;x'
	try 'LABELS and GROUP cannot be combined' LABELS='x;y' GROUP='x;y'
	try "BASELINE='c' is not one of RUNS, LABELS or GROUP" BASELINE=c
	try "FORMAT='gif' is not one of png|svg|pdf" FORMAT=gif
	mentions 2 "SMOOTH='0': it must be a whole number, 1 or more" curves RUNS='a b' OUT=no SMOOTH=0
	curves RUNS='a b' OUT=out FORMAT=svg LABELS=' SFT & "x" ; ReFINE, n {1}_2 '
	# the figure has every name unchanged and every axis; rewards of two kinds have two panels
	sed 's/<[^>]*>//g; s/&amp;/\&/g; s/&quot;/"/g' out/curves.svg >text
	for said in 'SFT & "x"' 'ReFINE, n {1}_2' 'optimizer step' 'training loss, nats' \
		'training reward: cosine' 'training reward: binary'; do
		grep -qF "$said" text || { cat text; return 1; }
	done
	# names of panels are titles: rotated names at the axes would overlap
	run ! grep -q 'rotate(270)' out/curves.svg
	curves RUNS='a b' OUT=out FORMAT=pdf GROUP='x;x' BASELINE=x
	[ "$(head -c 4 out/curves.pdf)" = %PDF ]
}

@test "curves.mk: draws the figure probability of old evaluations in the panel of the NTP accuracy" {
	command -v gnuplot >/dev/null || skip "gnuplot is not installed (make deps)"
	noted a
	printf '{"step":%d,"nll":2,"accuracy":0.5,"%s":%s}\n' 0 probability 0.25 1 ntp_accuracy 0.375 \
		>a/eval.jsonl
	curves RUNS=a OUT=out FORMAT=svg
	[ "$(cut -f 2-5 out/curves.tsv | tail -n +2 | paste -sd,)" = $'0\t2\t0.5\t0.25,1\t2\t0.5\t0.375' ]
	sed 's/<[^>]*>//g' out/curves.svg >text
	grep -qF 'held-out accuracy (arg max)' text
	grep -qF 'held-out NTP accuracy (drawn)' text
}

@test "curves.mk: GROUP draws the runs of a pattern as one curve, with a band of their range or deviation" {
	command -v gnuplot >/dev/null || skip "gnuplot is not installed (make deps)"
	mkdir stubs
	# gnuplot's replacement keeps the files that are drawn; another test draws groups
	printf '#!/bin/sh\ncp names groups *.[0-9] "$KEPT"\n: >curves.png\n' >stubs/gnuplot
	chmod +x stubs/gnuplot
	export PATH=$PWD/stubs:$PATH KEPT=$PWD
	for seed in 1 2 3; do
		noted runs/sft-$seed "{\"step\":1,\"loss/ntp\":$seed}"
		noted runs/refine-$seed "{\"step\":1,\"loss/ntp\":$((seed * seed))}"
	done
	for runs in 'runs/sft-{1,2,3} runs/refine-[1-3]' ${RF_ALL:+'runs/sft-* runs/refine-*'}; do
		rm -f names groups 1.[12]
		curves RUNS="$runs" GROUP='SFT; ReFINE, n 1' OUT=out
		[ "$(paste -sd, names)" = 'SFT,ReFINE, n 1' ]
		[ "$(paste -sd' ' groups)" = '1 1 1 2 2 2' ]
		[ "$(cat 1.1) $(awk '{ printf "%.3f %g %g", $2, $3, $4 }' 1.2)" = $'1\t2\t1\t3 4.667 1 9' ]
	done
	curves RUNS='runs/sft-* runs/refine-*' GROUP='SFT;ReFINE, n 1' OUT=out BAND=deviation
	[ "$(cat 1.1)" = $'1\t2\t1\t3' ]
	[ "$(awk '{ printf "%.3f %.3f", $3, $4 }' 1.2)" = '0.625 8.708' ]
	# with BASELINE, the run of SFT with the same seed is subtracted from each run of ReFINE
	curves RUNS='runs/sft-* runs/refine-*' GROUP='SFT;ReFINE, n 1' BASELINE=SFT OUT=out
	[ "$(cat 1.1) $(awk '{ printf "%.3f %g %g", $2, $3, $4 }' 1.2)" = $'1\t0\t0\t0 2.667 0 6' ]
	# two runs cannot be paired with three: the mean of the three is subtracted
	curves RUNS='runs/sft-* runs/refine-[23]' GROUP='SFT;ReFINE, n 1' BASELINE=SFT OUT=out
	[ "$(cat 1.1) $(cat 1.2)" = $'1\t0\t0\t0 1\t4.5\t2\t7' ]
	# GROUP can also name each run, in any order
	curves RUNS='runs/sft-* runs/refine-1' GROUP='a;b;a;b' OUT=out
	[ "$(paste -sd' ' groups)" = '1 2 1 2' ]
	for names in 'SFT;ReFINE;three' 'a;b;c;d;e'; do
		run -2 curves RUNS='runs/sft-* runs/refine-*' GROUP="$names" OUT=no
		[[ "${lines[0]}" == "curves: GROUP='$names' has "*' names, but RUNS has 6 runs: one for '* ]]
		[[ "${lines[0]}" == *', or one for each pattern in RUNS' ]]
	done
	run -2 curves RUNS='runs/sft-* runs/refine-*' LABELS='SFT;ReFINE' OUT=no
	[[ "${lines[0]}" == "curves: LABELS='SFT;ReFINE' has 2 names, but RUNS has 6 runs"* ]]
	mentions 2 "BAND='sd' is not one of range|deviation" curves RUNS='runs/sft-*' OUT=no BAND=sd
	mentions 2 'BAND has no effect here: without GROUP a curve is one run' curves RUNS='runs/sft-*' \
		OUT=no BAND=range
	[ ! -e no ]
}

@test "curves.awk: smooths training figures, subtracts the baseline run by run, and gives means with a band" {
	cat >points.py <<-'END'
		import random, statistics as st, sys
		random.seed(1)
		band = sys.argv[1]
		# runs 1 and 3 are curve 1, runs 2, 4 and 5 curve 2, runs 6 and 7 curve 3; panel 1 is
		# held-out, panel 2 training
		curve = [1, 2, 1, 2, 2, 3, 3]
		value = {(p, r, s): round(random.random(), 3) for p in (1, 2) for r in range(1, 8)
		         for s in range(0, 12, 3 - p) if not (r == 4 and s == 6)}
		with open("numbers", "w") as f:
		    for (p, r, s), v in sorted(value.items()):
		        print(r, p, s, v, sep="\t", file=f)
		with open("groups", "w") as f:
		    f.writelines(f"{c}\n" for c in curve)
		def smoothed(p, r):
		    steps = sorted(s for q, t, s in value if (q, t) == (p, r))
		    near = lambda i: steps[max(0, i - 1):i + 2] if p == 2 else [steps[i]]
		    return {s: st.mean(value[p, r, t] for t in near(i)) for i, s in enumerate(steps)}
		for p in (1, 2):
		    runs = {r: smoothed(p, r) for r in range(1, 8)}
		    # curves 1 and 3 have pairs in curve 1, and curve 2 has none
		    base = {r: runs[b] for r, b in ((1, 1), (3, 3), (6, 1), (7, 3))}
		    base |= {r: {s: st.mean((runs[1][s], runs[3][s])) for s in runs[1]} for r in (2, 4, 5)}
		    for c in (1, 2, 3):
		        of = [r for r in runs if curve[r - 1] == c]
		        for s in sorted(runs[of[0]]):
		            if all(s in runs[r] for r in of):
		                v = [runs[r][s] - base[r][s] for r in of]
		                m, d = st.mean(v), st.stdev(v)
		                low, high = (m - d, m + d) if band == "deviation" else (min(v), max(v))
		                line = f"{m + 0:.6f} {low:.6f} {high:.6f}"
		                print(p, c, s, line.replace("-0.000000", "0.000000"))
	END
	for band in range deviation; do
		python3 points.py $band >want
		awk -v OFMT=%.9g -v panels=2 -v training=2 -v smooth=3 -v base=1 -v band=$band \
			-f "$ROOT/pipelines/lib/curves.awk" numbers
		for p in 1 2; do
			for c in 1 2 3; do
				awk -v at="$p $c" \
					'{ printf "%s %d %.6f %.6f %.6f\n", at, $1, $2, $3, $4 }' "$p.$c"
			done
		done | sed 's/-0\.000000/0.000000/g' | diff want -
	done
	# a curve of a single run has no band
	echo 1 >groups
	grep -P '^1\t1\t' numbers | awk -v panels=1 -v training=2 -v smooth=1 -v base=0 \
		-f "$ROOT/pipelines/lib/curves.awk"
	[ "$(cut -f 3,4 1.1 | sort -u)" = $'NaN\tNaN' ]
}

# entropy WORD...: runs entropy.mk
entropy() { RF_BIN=$RF_BIN make -s -f "$ROOT/pipelines/entropy.mk" "$@"; }

@test "entropy.mk: draws the entropies and positions of one sequence of a stream, as PNG, SVG or PDF" {
	command -v gnuplot >/dev/null || skip "gnuplot is not installed (make deps)"
	rf-entropy -m "$P/ckpt" "$P/valid.rf" | rf-select --chunks 4 -o x.rf
	run -0 entropy STREAM=x.rf OUT=out
	[ "$output" = 'entropy: out/entropy.png, out/entropy.tsv' ]
	[ "$(ls -A out)" = $'entropy.png\nentropy.tsv' ]
	id=$(rf-dump --tsv --rows record --columns id --no-header x.rf | head -n 2 | tail -n 1)
	for name in "-o'ut" 'd"e$f=b c' ${RF_ALL:+-out 'a=b' 'two words'}; do
		cp x.rf "./$name.rf"
		entropy STREAM="${name//\$/\$\$}.rf" OUT="${name//\$/\$\$}" ID="$id" FORMAT=svg
		rf-dump --json x.rf | jq -r --argjson id "$id" 'select(.body.id == $id).body
			| .positions.data as $s | .entropy.data | keys[] as $t
			| [$t, .[$t], if $s | any(. == $t + 1) then 1 else 0 end] | @tsv' >want
		diff <(awk '{ printf "%d %.5g %d\n", $1, $2, $3 }' want) \
			<(tail -n +2 "./$name/entropy.tsv" | awk '{ printf "%d %.5g %d\n", $1, $2, $3 }')
		grep -q 'position, bytes' "./$name/entropy.svg"
		grep -q 'chosen, one in each chunk' "./$name/entropy.svg"
	done
	# a stream without positions and without the tokenizer's name
	rf-entropy -m "$P/ckpt" "$P/valid.rf" | rf-dump --json | jq -c 'del(.body.tokenizer)' |
		rf-cat --json -o bare.rf
	entropy STREAM=bare.rf OUT=out FORMAT=svg
	grep -q 'position, tokens' out/entropy.svg
	run ! grep -q chosen out/entropy.svg
	entropy STREAM=bare.rf OUT=out FORMAT=pdf
	[ "$(head -c 4 out/entropy.pdf)" = %PDF ]
}

@test "entropy.mk: refuses a stream without entropies, an unknown id or a missing file, and draws nothing" {
	command -v gnuplot >/dev/null || skip "gnuplot is not installed (make deps)"
	try() {
		run -2 entropy OUT=out "${@:2}"
		[[ "$output" == "$1"* ]] || { echo "$output"; return 1; }
		[ -z "$(ls -A out 2>/dev/null)" ]
	}
	rf-entropy -m "$P/ckpt" -o x.rf "$P/valid.rf"
	rf-cat --range 0:0 -o none.rf x.rf
	try "entropy: $P/valid.rf: the sequence has no entropies (rf-entropy writes them)" \
		STREAM="$P/valid.rf"
	try 'entropy: x.rf: no record has the id 99' STREAM=x.rf ID=99
	try 'entropy: none.rf: the stream has no record' STREAM=none.rf
	try "entropy: STREAM='no.rf': it must be a file" STREAM=no.rf
	try "entropy: FORMAT='gif' is not one of png|svg|pdf" STREAM=x.rf FORMAT=gif
	try "ID='x': it must be a whole number" STREAM=x.rf ID=x
	head -c 200 x.rf >cut.rf
	mentions 2 'rf-dump: cut.rf: ...Error 65' entropy STREAM=cut.rf OUT=out
}
