#!/usr/bin/env bats
# rf-step: writes the same bytes as the pipeline of five programs, with ranks and on the GPU, too; commits and
# memory.
setup() {
	load ../helper
	load ../model
	load ../ranks
}

# The options of most tests: short texts have several segments, and two positions each.
ways=(--threads 1 --chunks 2 --margin 3 -k 3 --lr 1e-3 --segment 64)

# sixteen: prints texts whose ids do not ascend; one has one token, and two are too short for positions
sixteen() {
	texts 40 9:50 2:90 7:9 4:33 15:41 6:70 17:4 8:6 3:30 10:22 1:51 12:1 13:44 5:20 11:25 16:66
}
# count FILE: prints the number of records of a stream
count() { rf-dump --tsv --rows record --columns id --no-header "$1" | wc -l; }

# share_out OPTION...: gives each option of rf-step to those programs of the pipeline that have the option, by
# the arrays choose, rollout, reward, trainer and model; batch is the value of --batch
share_out() {
	local drawn=() words command=''
	choose=() rollout=() reward=() trainer=() model=() batch=128
	while [ $# -gt 0 ]; do
		words=("$1" "${2:-}")
		case $1 in
		--strict | --eos | --per-token | --text | --no-hidden | --no-std | --allow-single | \
			--log-gradients)
			words=("$1")
			;;
		esac
		shift ${#words[@]}
		case ${words[0]} in
		--batch) batch=${words[1]} ;;
		--commit-every) ;;
		--chunks | --smooth | --tau | --mode | --margin | --strict) choose+=("${words[@]}") ;;
		-k) choose+=("${words[@]}") rollout+=("${words[@]}") ;;
		-n | --temperature | --top-[pk] | --eos) rollout+=("${words[@]}") ;;
		--seed | --draw-step)
			choose+=("${words[@]}") rollout+=("${words[@]}") drawn+=("${words[@]}")
			;;
		--exec | --text | --no-hidden | --kind-name) command=1 reward+=("${words[@]}") ;;
		--kind | --shift | --per-token) reward+=("${words[@]}") ;;
		--device | --threads | --segment | --dtype) model+=("${words[@]}") ;;
		*) trainer+=("${words[@]}") ;;
		esac
	done
	[ -n "$command" ] || reward+=("${drawn[@]}")
}
# step_by_hand RUN FILE I J [OPTION...]: trains one batch, records I to J, with the five programs and the
# options in the arrays of share_out
step_by_hand() {
	local tokenizer=()
	[[ " ${reward[*]} " != *' --exec '* ]] || tokenizer=(-m "$1")
	rf-cat --range "$3:$4" "$2" | rf-entropy -m "$1" "${model[@]}" | rf-select "${choose[@]}" |
		rf-rollout -m "$1" "${model[@]}" "${rollout[@]}" |
		rf-reward "${tokenizer[@]}" "${reward[@]}" |
		rf-grpo -m "$1" "${model[@]}" "${trainer[@]}" "${@:5}"
}
# pipeline RUN FILE OPTION...: trains the run batch by batch with the five programs, with the options of
# rf-step.  RUN.log is the log, and the folder RUN.rf has the records of each batch.
pipeline() {
	local i n
	share_out "${@:3}"
	n=$(count "$2")
	[ "$batch" -gt 0 ] || batch=$n
	mkdir -p "$1.rf"
	export LINES=$PWD/$1.lines
	for ((i = 0; i < n; i += batch)); do
		step_by_hand "$1" "$2" $i $((i + batch < n ? i + batch : n)) --log "$1.log" \
			-o "$1.rf/$(readlink "$1/latest").rf" 2>>said
	done
}
# fused RUN FILE OPTION...: trains the run with rf-step, with files of the same names
fused() {
	mkdir -p "$1.rf"
	export LINES=$PWD/$1.lines
	rf-step -m "$1" --log "$1.log" -o "$1.rf" "${@:3}" "$2" 2>>said
}
# bodies FILE: prints the records of a stream and its end, without the hash of the stream
bodies() { rf-dump --json "$1" | sed '1d; s/"xxh64":"\?[0-9]*"\?//'; }
# records FILE: prints the messages of a stream without what the history changes.  This and `untimed` run so
# often that the start of jq would take most of the time.
records() { rf-dump --json "$1" | sed '1s/,"history":.*]//; s/"xxh64":"\?[0-9]*"\?//'; }
# untimed LOG: prints a log without times
untimed() { sed -E 's/,"(timing_s|perf)[^,}]*//g' "$1"; }
same_records() {
	records "$1" >records.1
	records "$2" | cmp records.1 -
}
# same_all A B: succeeds if two runs are the same, with their logs except for times, and their records except
# for the history
same_all() {
	local file
	diff -r -x manifest.json "$1" "$2" || return
	diff <(untimed "$1.log") <(untimed "$2.log") || return
	[ "$(ls "$1.rf")" = "$(ls "$2.rf")" ] || { ls "$1.rf" "$2.rf"; return 1; }
	for file in "$1.rf"/*; do
		same_records "$file" "$2.rf/${file##*/}" || return
	done
}
# as_pipeline FILE OPTION...: succeeds if rf-step writes the bytes of the pipeline with these options and the
# model $M
as_pipeline() {
	rm -rf a a.log a.rf b b.log b.rf
	runs a b
	{ pipeline a "$@" && fused b "$@" && same_all a b; } ||
		{ echo "${M##*/}: ${*:2}"; cat said; return 1; }
}

@test "rf-step: keeps the promises of a trainer" {
	load ../promises
	texts 40 1:30 2:31 3:32 >in
	PROMISE_MIB=128 PROMISE_RESET=reset PROMISE_STATE=state promises trainer "$PWD/in" \
		rf-step -m run --chunks 2 -k 3 --margin 3 --batch 0 --mini-batch 2
}

@test "rf-step: prints nothing if the training succeeds" {
	runs run
	silent rf-step -m run "${ways[@]}" <(texts 40 1:30 2:40)
	[ "$(readlink run/latest)" = step-000001 ]
}

@test "rf-step: writes the bytes of the pipeline with each model family, and with one and eight rollouts" {
	sixteen >in
	local models=(delta gated lact qwen)
	models+=(${RF_ALL:+delta-hybrid lact-muon lact-prenorm gated-gva-neg qwen-tied})
	local hows=('-n 1 --batch 6 --mini-batch 0 --recompute segment --keep 9'
		'-n 8 --group position --batch 16 --mini-batch 16'
		'-n 8 --group sequence --batch 6 --mini-batch 4 --recompute segment'
		'-n 1 --kind hybrid --batch 0 --mini-batch 4') i=0
	for M in "${models[@]/#/$G/}"; do
		# in one of the four ways, in turns
		[ -n "${RF_ALL:-}" ] && these=("${hows[@]}") || these=("${hows[i++ % 4]}")
		for how in "${these[@]}"; do
			# shellcheck disable=SC2086
			as_pipeline in "${ways[@]}" $how
		done
	done
	# the last case has one batch of four mini-batches
	[ "$(jq -c '[.step, .commits]' b/latest/state.json)" = '[4,1]' ]
	[ "$(jq -c .records b.log | paste -sd' ')" = '4 4 4 4' ]
	grep -q '^rf-step: 2 of 16 sequences were too short' said
}

@test "rf-step: writes the bytes of the pipeline with each kind of reward, and with --shift" {
	sixteen >in
	local n=0 shifts=('' '--shift 1')
	[ -n "${RF_ALL:-}" ] && which=(0 1) size=9 || which=(0) size=16
	for kind in cosine binary edit hybrid random; do
		for i in "${which[@]}"; do
			M=$G/delta-hybrid
			as_pipeline in "${ways[@]}" --kind $kind -n 3 --batch $size --mini-batch 4 \
				--seed 12345678901 ${shifts[(n + i) % 2]}
		done
		n=$((n + 1))
	done
	M=$G/gated
	as_pipeline in "${ways[@]}" --kind cosine --shift 2 -n 1 --batch 9 --mini-batch 9 --draw-step 7
	grep -q 'sequences lost their rollouts: they have no other position for --shift 1' said
}

@test "rf-step: writes the bytes of the pipeline with the other options of the five programs" {
	sixteen >in
	local n=0 models=(delta gated lact qwen delta-hybrid lact-muon)
	set -f # '*' in a pattern
	[ -n "${RF_ALL:-}" ] && size=11 || size=16
	# each option is in one of the first ten lines
	while read -r how; do
		M=$G/${models[n++ % 6]}
		# shellcheck disable=SC2086
		as_pipeline in "${ways[@]}" --batch $size --mini-batch 4 $how
		[ -n "${RF_ALL:-}" ] || [ $n -lt 10 ] || break
	done <<-'END'
		--sum plain -n 4 --batch 16 --mini-batch 16 --recompute segment --objective cispo
		--log-gradients --mean sequences -n 2 --mode max --smooth 5 --top-p 0.8 --ratio sequence
		--temperature 1.5 --top-k 5 --eos --group sequence --mode min --zero-spread drop --kind binary
		--no-std -n 3 --seed 18446744073709551615 --draw-step 3 --rl-mean constant --tau 0.1
		--clip 0.01 --clip-high 0.02 --dual-clip 1.5 -n 4 --lr 1e-2 --mini-batch 2 --dtype bf16
		--per-token --advantage token --group sequence --no-std --train *.attn.* --kind random
		--baseline running --baseline-decay 0.5 --kind binary --segment 128 --ntp-coef 0 --margin 1
		--lr-schedule cosine --warmup 2 --total-steps 5 --clip 0 --entropy-coef 1 --baseline loo
		--mode uniform -k 2 --rl-coef 2 --group position --allow-single --betas .8,.9 --segment 0
		--weight-decay .1 --grad-clip 1 --temperature 0.7 --rl-mean rollouts --eos --chunks 8 -n 4
		--group position --allow-single --entropy-coef 0.1 --objective cispo --kind binary
		--log-gradients -n 2 --temperature 0.7 --top-p 0.8
		--log-gradients --mean sequences --recompute segment -n 2 --mode max --smooth 5
		--ntp-coef 0 -n 3 --tau 100 --smooth 9 --draw-step 3
		--ntp-coef 0.3 --rl-coef 2 --mean sequences --no-std -n 8 --group sequence
		--group position --allow-single --kind binary --segment 128
		--eos --per-token --advantage token -n 3 --kind hybrid --lr 1e-2
		--chunks 8 -k 5 --margin 20 --segment 0
	END
}

@test "rf-step: writes the same bytes with any number of threads, and on the check device" {
	sixteen >in
	local machines=('--device cpu --threads 3' '--device check' ${RF_ALL:+'--device cpu --threads 2'})
	for M in "$G"/{delta-hybrid,lact-muon}; do
		rm -rf ./*.log ./*.rf a b
		runs a
		how=("${ways[@]:2}" -n 3 --batch 10 --mini-batch 4)
		pipeline a in "${how[@]}" --device cpu --threads 1
		for machine in "${machines[@]}"; do
			rm -rf b b.log b.rf
			runs b
			fused b in "${how[@]}" $machine
			same_all a b
		done
	done
}

# lines RUN: prints the lines that the command of RUN has read, without the history and the tokenizer
lines() { jq -c 'del(.body.history, .tokenizer)' "$1.lines"; }

@test "rf-step: --exec writes the bytes of the pipeline, and the command reads the same lines" {
	export P=$PWD
	tiny_model_and_text
	rf-cat --range 0:13 -o in text.rf
	M=$P/ckpt
	# the reward is a part called first, made of the first token of each rollout
	cat >first.jq <<-'END'
		select(.type == "seq") | .body as $b | ($b.rollout.tokens | .shape as $s | .data as $t
			| [range($s[0]) as $i | [range($s[1]) as $j | $t[($i * $s[1] + $j) * $s[2]] / 100]])
		| {id: $b.id, total: ., parts: {first: .}}
	END
	at_once='tee -a "$LINES" | jq -c --unbuffered -f first.jq'
	at_the_end='cat >all; cat all >>"$LINES"; jq -c -f first.jq all'
	hows=('--text -n 2 --batch 6 --mini-batch 6' '--no-hidden --kind-name mine --batch 7 --mini-batch 2')
	for command in "$at_once" "$at_the_end"; do
		for how in "${hows[@]}"; do
			# each command with one of the ways
			[ -n "${RF_ALL:-}" ] || case $how in
			*--text*) [ "$command" = "$at_once" ] ;;
			*) [ "$command" = "$at_the_end" ] ;;
			esac || continue
			rm -f ./*.lines
			as_pipeline in "${ways[@]}" $how --exec "$command"
			cmp <(lines a) <(lines b)
			[ "$(wc -l <b.lines)" -ge 15 ]
		done
	done
	# the command fails or omits answers in the second batch
	for bad in 'exit 3' 'jq -c -f first.jq | head -n 3; exit'; do
		rm -rf b was
		runs b
		run -65 rf-step -m b "${ways[@]}" --batch 6 --mini-batch 3 \
			--exec "[ ! -e was ] || { $bad; }; touch was; jq -c -f first.jq" in
		[ "${#lines[@]}" -eq 1 ]
		[ "$(readlink b/latest)" = step-000002 ]
	done
	# the message names the record of a bad answer, not the record that was sent last
	runs c
	run -65 rf-step -m c "${ways[@]}" --batch 0 --progress \
		--exec "$at_the_end | jq -c 'if .id == 2 then .total = [[0]] else . end'" in
	[[ "${lines[-1]}" == "rf-step: --exec "*'record id 2'* && "${lines[-1]}" != *'(byte '* ]]
	run -65 rf-step -m c "${ways[@]}" --batch 0 --group position --exec "$at_the_end" in
	[[ "$output" == 'rf-step: in: record 1 (byte '* ]]
	run -0 rf-step -m c "${ways[@]}" --batch 0 --progress --exec "$at_once" in
	[[ "$output" == *' 13 records'* && "$output" != *' 26 records'* ]]
}

# asked: prints the sixteen texts with prompts of 20 tokens, whose rest is the response; some are all prompt
asked() {
	sixteen | edited 'if .type == "seq" then .body |= (.prompt_len =
		([.tokens.shape[0], if .id % 3 == 0 then 90 else 20 end] | min)) else . end'
}

@test "rf-step: writes the bytes of the pipeline on prompts and responses, and for --weights-out" {
	asked >asked
	rf-cat --split-response asked >split
	local models=(qwen ${RF_ALL:+delta})
	for M in "${models[@]/#/$G/}"; do
		as_pipeline split "${ways[@]}" --outer response -n 2 --batch 7 --mini-batch 3
		as_pipeline split "${ways[@]}" --outer response --mean sequences --batch 0 --mini-batch 0
		as_pipeline asked "${ways[@]}" --loss response -n 2 --batch 7 --mini-batch 4
		# test-time training with a reset: from a checkpoint and from a run
		share_out "${ways[@]}" --kind binary --rl-coef 0.4 --mini-batch 4
		for from in "$M" b; do
			rm -rf w x ./*.log
			step_by_hand "$from" split 0 16 --weights-out w --log w.log 2>>said
			rf-step -m "$from" "${ways[@]}" --kind binary --rl-coef 0.4 --batch 0 --mini-batch 4 \
				--weights-out x --log x.log split 2>>said
			diff -r -x .weights-out w x
			diff <(figures w.log) <(figures x.log)
		done
	done
	run -64 rf-step -m b "${ways[@]}" --batch 8 --weights-out y split
	[[ "$output" == 'rf-step: --weights-out takes one batch'* ]]
	run -64 rf-step -m b --commit-every 2 --weights-out y split
	[ ! -e y ]
}

@test "rf-step: --rl-coef 0 writes the bytes of rf-ntp" {
	asked >in
	local n=0 models=(delta lact qwen gated)
	for how in '--mini-batch 4' '--mini-batch 0 --mean sequences' '--mini-batch 3 --loss response' \
		'--mini-batch 6 --ntp-coef 0.5 --recompute segment'; do
		M=$G/${models[n++]}
		rm -rf a b ./*.log
		runs a b
		for range in 0:6 6:12 12:16; do
			rf-cat --range $range in |
				rf-ntp -m a $how --lr 1e-3 --segment 64 --threads 1 --log a.log 2>>said
		done
		rm -rf b.rf
		mkdir b.rf
		run -0 rf-step -m b "${ways[@]}" $how --rl-coef 0 --batch 6 --log b.log -o b.rf in
		[[ "$how" == *response ]] || [ -z "$output" ]
		[ "$(find b.rf -type f | wc -l)" -eq 3 ]
		rf-cat b.rf/* | records - | cmp - <(records in)
		diff -r -x manifest.json a b
		diff <(figures a.log) <(figures b.log)
	done
}

@test "rf-step: replaces positions, rollouts and rewards that its input has" {
	sixteen >in
	as_pipeline in "${ways[@]}" -n 2 --batch 16 --mini-batch 8
	runs c
	rf-step -m c "${ways[@]}" -n 2 --batch 16 --mini-batch 8 -o out b.rf/step-000000.rf 2>>said
	same_step a c
	same_records a.rf/step-000000.rf out
	runs d
	rf-entropy -m "$M" in | rf-select --chunks 4 -k 5 --margin 1 --mode max | rf-rollout -m "$M" -n 2 |
		rf-reward --kind random | rf-step -m d "${ways[@]}" -n 2 --batch 16 --mini-batch 8 2>>said
	same_step a d
}

@test "rf-step: in the log, the time of a step includes the time of its computations" {
	sixteen >in
	runs run
	rf-step -m run "${ways[@]}" --batch 8 --mini-batch 4 --log log in 2>>said
	jq -se 'length == 4 and all(.[]; .["timing_s/step"] >= .["timing_s/compute"])' log >/dev/null
}

# entry RUN: prints what a commit records about its step, without its parent
entry() { jq -c '[.step, .commits, .updates, .weights, .data]' "$1/latest/state.json"; }

@test "rf-step: --commit-every makes one commit of several batches, and the same bytes" {
	sixteen >in
	how=("${ways[@]}" --batch 5 --mini-batch 2 --keep 9)
	as_pipeline in "${how[@]}"
	[ "$(cd b && echo step-*)" = 'step-000000 step-000003 step-000006 step-000009 step-000010' ]
	for every in 3 10m ${RF_ALL:+2 9}; do
		rm -rf c c.log c.rf
		runs c
		fused c in "${how[@]}" --commit-every $every
		same_step a c
		[ "$(entry a)" = "$(entry c)" ]
		diff <(figures a.log) <(figures c.log)
		# weights that are not committed have no hash, so heads may differ
		for file in a.rf/*; do
			cmp <(bodies "$file") <(bodies "c.rf/${file##*/}")
		done
		case $every in
		2) [ "$(cd c && echo step-*)" = 'step-000000 step-000006 step-000010' ] ;;
		3) [ "$(cd c && echo step-*)" = 'step-000000 step-000009 step-000010' ] ;;
		*) [ "$(cd c && echo step-*)" = 'step-000000 step-000010' ] ;;
		esac
		for step in c/step-*[1-9]*; do
			cmp "$step/model.safetensors" "a/${step##*/}/model.safetensors"
			cmp "$step/optim.safetensors" "a/${step##*/}/optim.safetensors"
		done
	done
	for bad in 0 -1 x 1x 10d ''; do
		run -64 rf-step -m c --commit-every "$bad" in
	done
}

# reach RUN STEP: waits until the run is at the step
reach() {
	local i
	for ((i = 0; i < 1000; i++)); do
		[ "$(readlink "$1/latest")" != "$2" ] || return 0
		sleep .02
	done
	echo "$1 does not reach $2"
	return 1
}

@test "rf-step: commits a batch once the record after it is read, and keeps it if the input then fails" {
	sixteen | rf-cat -o in
	how=("${ways[@]}" --batch 4 --mini-batch 4 --keep 9)
	as_pipeline in "${how[@]}"
	# the offset of each frame: the head, sixteen records, the end
	mapfile -t frame < <("$RF_UNITS/helper/lab" frames in | cut -d' ' -f1)
	cut() { # BYTES COMMITS: a stream of BYTES leaves COMMITS, and the rest ends at the same bytes
		rm -rf c
		runs c
		head -c "$1" in >short
		run -65 rf-step -m c "${how[@]}" short
		[[ "$output" == *'rf-step: short: '*truncated* ]]
		[ "$(jq .commits c/latest/state.json)" -eq "$2" ]
		rf-cat --range $((4 * $2)):16 in | rf-step -m c --at "$2" "${how[@]}" 2>>said
		diff -r -x manifest.json a c
	}
	cut $((frame[5] + 9)) 0
	cut $((frame[6])) 1
	cut $((frame[17])) 3
	if [ -n "${RF_ALL:-}" ]; then
		cut $((frame[5])) 0
		cut $((frame[9])) 1
		cut $((frame[10])) 2
	fi
	# a bad record ends the training like a truncated stream
	"$RF_UNITS/helper/lab" pick in {0..10} 12 >bad
	rm -rf c
	runs c
	mentions 65 'found record 12 where record 11 was expected' rf-step -m c "${how[@]}" bad
	[ "$(jq .commits c/latest/state.json)" -eq 2 ]
	# batches that were not committed are lost
	rm -rf c
	runs c
	head -c $((frame[16])) in >short
	run -65 rf-step -m c "${how[@]}" --commit-every 2 short
	[ "$(jq -c '[.step, .commits]' c/latest/state.json)" = '[2,2]' ]
}

@test "rf-step: a run that is killed, between batches or at any moment, continues to the same bytes" {
	sixteen | rf-cat -o in
	how=("${ways[@]}" --batch 4 --mini-batch 4)
	as_pipeline in "${how[@]}"
	# it has read nine records and waits for more: the third batch is not complete
	runs c
	mkfifo fifo
	rf-step -m c "${how[@]}" fifo 2>>said &
	pid=$!
	exec 9>fifo
	"$RF_UNITS/helper/lab" pick in {0..9} >&9
	reach c step-000002
	kill -9 $pid
	wait $pid || true
	exec 9>&-
	rf-cat --range 8:16 in | rf-step -m c --at 2 "${how[@]}" 2>>said
	same_step a c
	[ "$(entry a)" = "$(entry c)" ]
	for ((i = 0; i < ${RF_ALL:+5}2; i++)); do
		rm -rf c
		runs c
		until [ "$(jq .commits c/latest/state.json)" -eq 4 ]; do
			n=$(jq .commits c/latest/state.json)
			rf-cat --range $((4 * n)):16 in | timeout -s KILL ".$((RANDOM % 150 + 100))" \
				rf-step -m c --at "$n" "${how[@]}" --commit-every $((i + 1)) 2>>said || true
			rf-dump --check -q c
		done
		same_step a c
	done
}

@test "rf-step: if RUN/stop exists, commits the batch and exits 75; a new start continues" {
	sixteen >in
	how=("${ways[@]}" --batch 4 --mini-batch 2)
	as_pipeline in "${how[@]}"
	runs c
	touch c/stop
	for every in 1 9; do
		n=$(jq .commits c/latest/state.json)
		run -75 bash -c 'rf-cat --range "$0" in | rf-step -m c --commit-every "$@"' \
			$((4 * n)):16 $every "${how[@]}"
		[ "$(jq -c '[.step, .commits]' c/latest/state.json)" = "[$((2 * n + 2)),$((n + 1))]" ]
		[[ "$output" == *"rf-step: c: stopped after "*"'stop'"* ]]
	done
	rm c/stop
	rf-cat --range 8:16 in | rf-step -m c --at 4 "${how[@]}" 2>>said
	same_step a c
	[ "$(entry a)" = "$(entry c)" ]
}

@test "rf-step: --at does nothing if the run is past this step, and refuses a run before it" {
	sixteen >in
	runs run
	how=("${ways[@]}" --batch 8 --mini-batch 4)
	state >before
	says 65 'rf-step: run is only at step 0, but --at is 1' rf-step -m run --at 1 "${how[@]}" in
	state | cmp - before
	rf-step -m run --at 0 "${how[@]}" in 2>>said
	[ "$(readlink run/latest)" = step-000004 ]
	state >after
	says 0 'rf-step: already at step 4' rf-step -m run --at 0 "${how[@]}" in
	run -0 rf-step -m run --at 2 "${how[@]}" </dev/null
	state | cmp - after
}

@test "rf-step: -o writes the records of one batch to a file, refuses a second batch, and fills a folder" {
	sixteen >in
	as_pipeline in "${ways[@]}" -n 2 --batch 0 --mini-batch 4
	runs c
	rf-step -m c "${ways[@]}" -n 2 --batch 0 --mini-batch 4 -o - in 2>>said | records - |
		cmp - <(records a.rf/step-000000.rf)
	rf-dump --json b.rf/step-000000.rf | jq -se '.[0].body.history[-1].tool == "rf-step"' >/dev/null
	runs d
	state d >before
	for out in out.rf -; do
		run -64 --separate-stderr rf-step -m d "${ways[@]}" --batch 15 --log log -o $out in
		[[ "$stderr" == "rf-step: -o: '$out' is for one batch, but the stream has more than 15 "* ]]
	done
	for out in /dev/full none/out.rf; do
		run -74 rf-step -m d "${ways[@]}" --batch 16 --log log -o $out in
	done
	state d | cmp - before
	[ ! -e out.rf ]
	[ ! -e log ]
}

@test "rf-step: refuses input that does not fit the model or the options, and changes neither run nor log" {
	sixteen >in
	runs run
	state >before
	refused() { # STATUS WORDS OPTION...: it fails with one line that has the words
		run "-$1" --separate-stderr rf-step -m run "${ways[@]}" --batch 0 --log log "${@:3}"
		[ "${#stderr_lines[@]}" -eq 1 ] || { echo "$stderr"; return 1; }
		[[ "$stderr" == 'rf-step: '*"$2"* ]] || { echo "$stderr"; return 1; }
		state | cmp - before
		[ ! -e log ]
	}
	refused 65 'record 2 (byte ' --max-len 64 in
	refused 65 vocabulary <(texts 41 1:30)
	refused 65 '' --strict in
	refused 65 'a group of one rollout has nothing to compare it with' --group position in
	refused 65 "none of the batch's 2 records has rollouts" --need-rollouts <(texts 40 1:4 2:5)
	refused 65 response --outer response in
	refused 65 prompt_len --loss response in
	refused 64 'cannot be combined with --exec' --exec true --kind binary in
	refused 64 'requires --exec' --text in
	refused 64 "unknown option '--stale'" --stale 1 in
	refused 64 "unknown option '--steps'" --steps 4 in
	refused 64 "unknown option '--mini'" --mini 2 in
	refused 64 '--strict takes no value' --strict=yes in
	refused 64 '' --batch -1 in
	refused 66 nowhere nowhere
	run -64 rf-step -m "$M" in
	run -66 rf-step -m nowhere in
	run -0 rf-step -m run --allow-empty --log log "$G/stream/empty.rf"
	state | cmp - before
	# one message counts the records without rollouts, which are trained on next tokens
	mentions 0 '2 of 2 sequences were too short' rf-step -m run --log log <(texts 40 1:4 2:5)
	[ "$(jq -c '[.stepped, has("loss/rl")]' log)" = '[true,false]' ]
}

@test "rf-step: --dry-run plans at most a tenth more memory than rf-grpo, and changes nothing" {
	memory() { awk '/^memory/ { gsub(/[^0-9 ]/, ""); print $1 }' <<<"$output"; }
	for config in "$ROOT"/pipelines/demo/demo-*.json; do
		for how in '--max-len 2048' '--max-len 4096 --recompute segment --segment 512'; do
			run -0 rf-grpo -m "$config" $how --dry-run </dev/null
			planned=$(memory)
			run -0 rf-step -m "$config" $how --dry-run </dev/null
			[ $(($(memory) * 10)) -le $((planned * 11)) ] ||
				{ echo "$config $how: $(memory), $planned"; return 1; }
		done
	done
	sixteen >in
	runs run
	state >before
	run -0 rf-step -m run "${ways[@]}" --log log -o out --dry-run in
	state | cmp - before
	[ ! -e log ]
	[ ! -e out ]
	run -65 rf-step -m run --at 3 --dry-run in
	mkdir many
	run -0 rf-step -m run -o many --dry-run in
	run -74 rf-entropy -m "$M" -o many --dry-run in
	run -74 rf-step -m run --log none/log --dry-run in
}

@test "rf-step: memory and file descriptors do not grow from batch to batch" {
	batches=${RF_ALL:+9}110
	batches=$((batches < 1000 ? batches : 1000))
	sixteen | rf-cat -o some
	rf-cat --repeat 130 -o in some
	runs run
	rf-cat --range 0:$((batches * 2)) in |
		rf-step -m run "${ways[@]}" --batch 2 --mini-batch 1 --log log 2>>said &
	pid=$!
	look() {
		kill -STOP $pid
		sleep .1
		ls /proc/$pid/fd | wc -l
		# a sanitizer keeps memory that was freed
		if ldd "$(command -v rf-step)" | grep -q libasan; then
			echo 0
		else
			awk '/^VmData/ { print int($2 / 512) }' /proc/$pid/status
		fi
		kill -CONT $pid
	}
	logged() { until [ "$(wc -l 2>/dev/null <log || echo 0)" -ge "$1" ]; do sleep .02; done; }
	logged 60 # every text was seen
	early=$(look)
	logged $((batches * 2 - 20))
	late=$(look)
	wait $pid
	# the number of open files varies by a few; memory is counted in units of half a MiB
	paste -sd' ' <<<"$early"$'\n'"$late" |
		awk '$3 > $1 + 3 || $4 > $2 + 1 { print; bad = 1 } END { exit bad }'
	[ "$(jq .commits run/latest/state.json)" -eq "$batches" ]
}

# joined RUN: prints the records of each batch of a run, of all its ranks, sorted by id
joined() {
	local step
	for step in "$1.rf"/*.rf; do
		for file in "$step"*; do json "$file"; done | jq -sc 'sort_by(.id)[]'
	done
}

@test "rf-step: one to four ranks write the bytes of the pipeline" {
	have_mpi || skip 'MPI was left out'
	RF_DEVICE=$like_cpu
	sixteen >all
	rf-cat --range 0:13 -o in all
	by() { # N OPTION...: of the run b
		in_line "$1" "rf-cat --shard auto --mini-batch 4 in | rf-step -m b --log b.log -o b.rf \
			--ranks mpi --rank-timeout 60 ${*:2}"
	}
	local n=0 numbers=(4 3 2 1)
	hows=('-n 2 --kind hybrid --baseline running --rl-mean rollouts --entropy-coef 0.1'
		'-n 8 --kind binary --zero-spread drop --shard optimizer --recompute segment'
		'--log-gradients -n 3 --entropy-coef 0.1' '--shift 1 -n 2')
	local models=(delta gated ${RF_ALL:+lact qwen})
	for M in "${models[@]/#/$G/}"; do
		how="${ways[*]} --batch 8 --mini-batch 4 ${hows[n]}"
		rm -rf a a.log a.rf b
		runs a b
		pipeline a in ${how/--shard optimizer/}
		cp -r b begun
		for ranks in ${numbers[n]} ${RF_ALL:+1 2 3 4}; do
			rm -rf b b.log b.rf
			cp -r begun b
			mkdir b.rf
			by $ranks "$how" || { cat said; false; }
			diff -r -x manifest.json a b
			diff <(figures a.log) <(figures b.log)
			cmp <(joined a) <(joined b)
		done
		rm -rf begun
		n=$((n + 1))
	done
	# the stream is cut on one rank
	cp -r b before
	run -65 in_line 3 "rf-cat --shard auto --mini-batch 4 all |
		if [ \$OMPI_COMM_WORLD_RANK = 1 ]; then head -c 400; else cat; fi |
		rf-step -m b ${ways[*]} --batch 0 --mini-batch 4 --ranks mpi"
	diff -r -x .ranks -x .lock before b
	run -64 in_line 2 "rf-cat --shard auto --mini-batch 4 in |
		rf-step -m b --batch 6 --mini-batch 4 --ranks mpi"
	[[ "$(cat said)" == *'--batch'*'--mini-batch'* ]]
	diff -r -x .ranks -x .lock before b
}

@test "rf-step: several ranks write the bytes of one rank with --exec, --rl-coef 0 and --outer" {
	have_mpi || skip 'MPI was left out'
	RF_DEVICE=$like_cpu
	sixteen >in
	cat >zero.jq <<-'END'
		select(.type == "seq") | .body.rollout.tokens.shape as $s
		| {id: .body.id, total: [range($s[0]) as $i | [range($s[1]) | . * ($i + 1)]]}
	END
	command='jq -c -f zero.jq'
	for how in "--exec '$command' -n 2" '--rl-coef 0' '--outer response'; do
		of=in
		[[ "$how" != *outer* ]] || { asked | rf-cat --split-response >split; of="split"; }
		rm -rf a b a.log b.log
		runs a b
		all="${ways[*]} --batch 8 --mini-batch 4 --commit-every 2 $how"
		eval "rf-step -m a --log a.log $all $of" 2>>said
		in_line 3 "rf-cat --shard auto --mini-batch 4 $of |
			rf-step -m b --log b.log --ranks mpi $all" || { cat said; false; }
		diff -r -x manifest.json a b
		diff <(figures a.log) <(figures b.log)
	done
	# one rank has another seed
	run ! in_line 2 'rf-cat --shard auto --mini-batch 8 in |
		rf-step -m b --ranks mpi --mini-batch 8 --seed $OMPI_COMM_WORLD_RANK'
	[[ "$(cat said)$output" == *"rank 1 differs from rank 0 in its options"* ]]
}

@test "rf-step: writes the bytes of the pipeline on the emulated GPU" {
	[ -e "$RF_UNITS/../rf-cuda-host.so" ] || skip "CUDA was left out: no toolkit"
	export RF_PLUGIN=$RF_UNITS/../rf-cuda-host.so
	unset RF_DEVICE
	texts 40 5:70 2:30 4:9 >in
	local n=0 models=(lact ${RF_ALL:+delta qwen gated delta-hybrid lact-muon})
	for M in "${models[@]/#/$G/}"; do
		how=("${ways[@]}" --device cuda -n 2 --batch 2)
		[ $((n++ % 2)) -eq 0 ] && how+=(--mini-batch 1) || how+=(--dtype f32 --recompute segment)
		as_pipeline in "${how[@]}"
	done
}
