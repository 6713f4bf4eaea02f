#!/usr/bin/env bats
# Promises of both trainers: each step is made exactly once, whole or not at all, with fresh rollouts.
setup() {
	load ../helper
	load ../model
}

at() { readlink "${1:-run}/latest"; }

# read_all PID: succeeds if the process has read all of the file `in`
read_all() {
	local fd
	for fd in /proc/$1/fd/*; do
		[ "$(readlink "$fd")" != "$PWD/in" ] || [ "$(awk '/^pos:/ { print $2 }' \
			"/proc/$1/fdinfo/${fd##*/}")" -ne "$(stat -c %s in)" ] || return 0
	done
	return 1
}

@test "train: --at N trains a run at step N, does nothing past step N, and exits 65 before step N" {
	batch 1:50 2:40 >in
	runs run
	for trainer in rf-grpo rf-ntp; do
		now=$(jq .step run/latest/state.json)
		state >before
		run -65 $trainer -m run --at $((now + 1)) in
		[ "$output" = "$trainer: run is only at step $now, but --at is $((now + 1))" ]
		state | cmp - before
		$trainer -m run --at "$now" in
		state >after
		run ! cmp before after
		# the same stream again makes no second step
		run -0 $trainer -m run --at "$now" in
		[ "$output" = "$trainer: already at step $((now + 1))" ]
		run -0 $trainer -m run --at "$now" </dev/null
		# a program before it in the pipe succeeds
		run -0 bash -c 'set -o pipefail; head -c 1000000 /dev/zero | "$@"' _ $trainer \
			-m run --at "$now"
		state | cmp - after
	done
}

@test "train: rollouts by older or by other weights are refused as stale, unless --stale allows them" {
	batch 1:50 2:40 >in
	runs run
	stale() {
		run -65 rf-grpo -m run "$@" in
		record='rf-grpo: in: record 1 (byte '
		said='): the rollouts were made by weights '
		[[ "$output" =~ ^"$record"[0-9]+"$said"[0-9a-f]{12}', but the run is at '[0-9a-f]{12} ]]
	}
	rf-grpo -m run in
	stale
	stale --stale 0
	rf-grpo -m run --stale 1 in
	stale --stale 1
	rf-grpo -m run --stale 2 in
	[ "$(at)" = step-000003 ]
	# neither rf-ntp nor a coefficient of 0 for the policy needs rollouts
	rf-ntp -m run in
	rf-grpo -m run --rl-coef 0 in
	rf-grpo -m run <(texts 40 1:30)
	# weights of another model
	M=$G/delta-gate-neg batch 1:50 2:40 >in
	stale --stale 16
	rf-grpo -m run --stale any in
	# unknown weights
	rf-dump --json in | jq -c 'del(.body.model)' | rf-cat --json >unknown
	mentions 65 "does not say which weights made its rollouts" rf-grpo -m run --stale 3 unknown
	rf-grpo -m run --stale any unknown
	for bad in some -1 1x ''; do
		state >before
		run -64 rf-grpo -m run --stale "$bad" unknown
		run -64 rf-grpo -m run --stale "$bad" "$G/stream/tokens.rf"
		state | cmp - before
	done
}

@test "train: a second trainer of the same run exits 75, while other programs can read the run" {
	batch 1:50 >in
	runs run
	mkfifo fifo
	rf-grpo -m run fifo &
	pid=$!
	exec 9>fifo
	taken run/.lock
	for trainer in rf-grpo rf-ntp; do
		run -75 $trainer -m run in
		[ "$output" = \
			"$trainer: run: another program is training this run; try again when it has ended" ]
	done
	# programs that only read the run succeed
	rf-entropy -m run in >/dev/null
	rf-grpo -m run --dry-run >/dev/null </dev/null
	cat in >&9
	exec 9>&-
	wait $pid
	[ "$(at)" = step-000001 ]
}

@test "train: an empty stream exits 65, and with --allow-empty exits 0 without a commit" {
	runs run
	state >before
	for trainer in rf-grpo rf-ntp; do
		run -65 $trainer -m run "$G/stream/empty.rf"
		[[ "$output" == *"the stream has no records, so there is nothing to learn from"* ]]
		silent $trainer -m run --allow-empty --log log "$G/stream/empty.rf"
		state | cmp - before
	done
	[ ! -e log ]
}

@test "train: a gradient that is not finite exits 70 without a change; --on-nan skip skips its mini-batch" {
	texts 40 1:50 2:40 >in
	copy_model "$M" m
	# the loss does not change; in the backward pass the head's weights meet a coefficient of 1e6
	"$RF_UNITS/helper/model" scale m lm_head.weight 1e36
	"$RF_UNITS/helper/model" scale m model.norm.weight 1e-36
	rf-init --from m run
	state >before
	for trainer in rf-ntp rf-grpo; do
		run -70 $trainer -m run --ntp-coef 1e6 --log log in
		[[ "$output" == "$trainer: "*"the gradient is not finite: the batch is not committed"* ]]
		state | cmp - before
		[ ! -e log ]
	done
	run -0 rf-grpo -m run --ntp-coef 1e6 --on-nan skip --mini-batch 1 --log log in
	[ "${lines[0]}" = "rf-grpo: 2 of 2 mini-batches were skipped (their gradients were not finite)" ]
	[ "$(at)" = step-000002 ]
	cmp run/step-000002/model.safetensors run/step-000000/model.safetensors
	jq -se 'all(.stepped == false and (has("loss/ntp") | not) and .["actor/grad_norm_ttt"] == null)' \
		log >/dev/null
	run -70 rf-grpo -m run --ntp-coef 1e6 --on-nan skip --grad-out g in
	[ ! -e g ]
}

@test "train: with --on-nan skip a bad record skips only its own mini-batch" {
	batch 1:50 2:40 3:30 >in
	rf-dump --json in | jq -c 'if .body.id == 2 then .body.rollout.temperature = 1e-38 else . end' |
		rf-cat --json >bad
	runs run other
	state >before
	mentions 70 "id 2: the log-probability of token " rf-grpo -m run --stale any --mini-batch 1 bad
	state | cmp - before
	run -0 rf-grpo -m run --stale any --mini-batch 1 --on-nan skip --log log bad
	[ "$output" = "rf-grpo: 1 of 3 mini-batches were skipped (their gradients were not finite)" ]
	[ "$(jq -c .stepped log | paste -sd' ')" = 'true false true' ]
	[ "$(at)" = step-000003 ]
	rf-cat --range 0:1 in | rf-grpo -m other
	rf-cat --range 2:3 in | rf-grpo -m other --stale any
	cmp run/latest/model.safetensors other/latest/model.safetensors
}

@test "train: weights that a step makes infinite are not committed" {
	batch 1:50 >in
	runs run
	state >before
	for trainer in rf-ntp rf-grpo; do
		run -70 $trainer -m run --lr 1000 --weight-decay 1000 \
			--mini-batch 1 <(batch 1:50 2:50 3:50 4:50 5:50 6:50 7:50 8:50)
		state | cmp - before
	done
}

@test "train: the learning rate follows the formulas of --lr-schedule and --warmup" {
	texts 40 {1..12}:4 >in
	for how in 'constant 3 9' 'linear 3 9' 'cosine 3 9' 'cosine 0 30' 'linear 0 5' 'constant 0 0'; do
		set -- $how
		rm -rf run log
		runs run
		rf-ntp -m run --mini-batch 1 --lr 2e-3 --lr-schedule $1 --warmup $2 --total-steps $3 \
			--log log <(rf-cat --range 0:5 in)
		rf-ntp -m run --mini-batch 1 --lr 2e-3 --lr-schedule $1 --warmup $2 --total-steps $3 \
			--log log <(rf-cat --range 5:12 in)
		[ "$(wc -l <log)" -eq 12 ]
		helper model lr $1 2e-3 $2 $3 log
	done
	run -1 cmp -s run/latest/model.safetensors "$M/model.safetensors"
	run -64 rf-ntp -m run --lr-schedule sometimes in
}

@test "train: --adam-eps takes 1e-30 and refuses values that are negative, or zero in float32" {
	texts 20 1:9 >in
	runs run
	for trainer in rf-ntp rf-grpo; do
		for eps in 0 1e-46 -1; do
			run -64 $trainer -m run --adam-eps $eps in
		done
		run -0 $trainer -m run --adam-eps 1e-30 in
	done
	run -64 rf-ntp -m run --stale 1 in
}

@test "train: --keep keeps the newest steps, and --keep-every keeps the multiples of its number" {
	texts 40 {1..7}:4 >in
	runs run
	for i in {0..6}; do
		rf-ntp -m run --at $i --keep 2 --keep-every 3 <(rf-cat --range $i:$((i + 1)) in)
	done
	[ "$(ls run)" = $'latest\nmanifest.json\nstep-000000\nstep-000003\nstep-000006\nstep-000007' ]
	rf-ntp -m run --keep 1 in
	[ "$(ls run)" = $'latest\nmanifest.json\nstep-000008' ]
}

@test "train: a trainer refuses a checkpoint, and its message tells how to begin a run" {
	for trainer in rf-grpo rf-ntp; do
		run -64 $trainer -m "$M" "$G/stream/tokens.rf"
		[[ "$output" == *"a checkpoint, not a run; begin a run with: rf-init --from $M RUN" ]]
		run -66 $trainer -m nowhere "$G/stream/tokens.rf"
		run -64 $trainer "$G/stream/tokens.rf"
	done
	[ ! -e "$M/.lock" ]
}

@test "train: SIGTERM, SIGINT or SIGHUP ends a trainer that waits for input, and the run stays as it was" {
	batch 1:50 2:40 >in
	runs run
	state >before
	mkfifo fifo
	for trainer in rf-grpo rf-ntp; do
		for sig in TERM INT HUP; do
			env --default-signal=HUP,INT $trainer -m run --mini-batch 1 --log log fifo 2>err &
			pid=$!
			exec 9>fifo
			"$RF_UNITS/helper/lab" pick in 0 1 >&9
			taken run/.lock
			sleep .02
			kill -$sig $pid
			ended_by $sig $pid
			exec 9>&-
			[ ! -s err ]
			state | cmp - before
		done
	done
	[ ! -e log ]
	rf-grpo -m run in
}

@test "train: SIGTERM or SIGINT between the end of the input and the commit leaves the run as it was" {
	texts 40 {1..10}:20000 >in
	runs run
	state >before
	mkfifo fifo
	for sig in TERM INT; do
		env --default-signal=HUP,INT rf-ntp -m run --threads 1 in 2>err &
		pid=$!
		until read_all $pid; do sleep .01; done
		sleep .05
		kill -$sig $pid
		ended_by $sig $pid
		[ ! -s err ]
		state | cmp - before
		# the commit begins with the log: here it waits until the log's pipe is read
		exec 9<>fifo
		head -c 65536 /dev/zero >&9
		env --default-signal=HUP,INT rf-ntp -m run --log fifo <(texts 40 1:20) 2>err 9>&- &
		pid=$!
		sleep .5
		kill -$sig $pid
		head -c 65536 <&9 >zeros
		ended_by $sig $pid
		exec 9>&-
		[ "$(cat err)" = "rf-ntp: interrupted before the commit; the run is at its last commit" ]
		state | cmp - before
	done
}

@test "train: a loop of steps that is killed at random moments and started again ends with the same bytes" {
	texts 40 {1..8}:40 >corpus
	cat >loop <<-'END'
		set -eu -o pipefail
		for ((i = 0; i < 4; i++)); do
			[ "$(readlink "$1/latest")" = "$(printf 'step-%06d' $i)" ] || continue
			rf-cat --range $((2 * i)):$((2 * i + 2)) corpus | rf-entropy -m "$1" |
				rf-select --chunks 2 -k 3 --margin 3 |
				rf-rollout -m "$1" -k 3 -n 2 | rf-reward | rf-grpo -m "$1" --at $i --lr 1e-2
		done
	END
	runs want run
	began=${EPOCHREALTIME/./}
	bash loop want
	took=$(((${EPOCHREALTIME/./} - began) / 1000))
	[ "$(at want)" = step-000004 ]
	kills=0
	for ((try = 0; try < ${RF_ALL:+10}10; try++)); do
		rc=0
		ms=$((1 + RANDOM % took))
		timeout -s KILL $((ms / 1000)).$(printf %03d $((ms % 1000))) bash loop run 2>err || rc=$?
		# 75: a program that was just killed still holds the lock
		[ $rc -eq 0 ] || [ $rc -eq 137 ] || [ $rc -eq 75 ] || { echo "rc $rc"; cat err; false; }
		[ $rc -eq 0 ] || kills=$((kills + 1))
		# a reader finds a valid step after any kill
		rf-dump --check -q run
		if [ "$(at)" = step-000004 ] && [ $rc -eq 0 ]; then
			same_step want run
			diff <(jq -S 'del(.files)' want/latest/state.json) \
				<(jq -S 'del(.files)' run/latest/state.json)
			rm -rf run
			runs run
		fi
	done
	[ "$kills" -gt 2 ]
	flock run/.lock true
	bash loop run
	same_step want run
}

@test "train: a trainer that is already past --at reads its pipe to the end, even a non-blocking pipe" {
	batch 1:50 >in
	runs run
	rf-ntp -m run in
	for trainer in rf-grpo rf-ntp; do
		run -0 python3 - $trainer <<-'END'
			import os, subprocess, sys, time
			r, w = os.pipe()
			os.set_blocking(r, False)
			p = subprocess.Popen([sys.argv[1], "-m", "run", "--at", "0"], stdin=r,
			                     stderr=subprocess.DEVNULL)
			os.close(r)
			time.sleep(0.3)
			for i in range(4):
			    os.write(w, bytes(65536))
			os.close(w)
			sys.exit(p.wait())
		END
	done
}

@test "train: a trainer commits its step even if the reader of its messages exits" {
	texts 40 1:50 >in
	for trainer in rf-grpo rf-ntp; do
		rm -rf run
		runs run
		run -0 bash -c '{ sleep .3; cat in; } | "$@" -m run --ntp-coef 0 2>&1 | true
			exit "${PIPESTATUS[1]}"' _ $trainer
		[ "$(at)" = step-000001 ]
	done
}

@test "train: if latest points to no existing step, every program takes the newest step and reports this" {
	texts 40 1:50 >in
	runs run
	rf-ntp -m run in
	rf-ntp -m run in
	rm -r run/step-000002
	said="latest points to step-000002, which does not exist: the newest step is step-000001"
	says 0 "rf-entropy: run/step-000001: $said" rf-entropy -m run -o out in
	[ "$(rf-dump --json out | head -n 1 | jq .body.model.step)" -eq 1 ]
	says 0 "rf-ntp: run/step-000001: $said" rf-ntp --eval -m run in
	for form in "" "--json" "--rows step" "--tsv --rows step"; do
		# shellcheck disable=SC2086
		says 0 "rf-dump: run: $said" rf-dump $form run
		[[ "$output" == *step*1* ]]
	done
	says 0 "rf-ntp: run/step-000001: $said" rf-ntp -m run --dry-run in
	says 0 "rf-init: run: $said" rf-init --from run other
	says 0 "rf-ntp: run/step-000001: $said" rf-ntp -m run in
	[ "$(readlink run/latest)" = step-000002 ]
	silent rf-ntp -m run in
	rm run/latest
	run -0 --separate-stderr rf-entropy -m run -o out in
	said='the link latest is missing: the newest step is step-000003'
	[ "$stderr" = "rf-entropy: run/step-000003: $said" ]
}

@test "train: --help of a trainer describes -m as a run, and only rf-ntp --eval takes a checkpoint" {
	run ! grep -qE -- '--model.*checkpoint' <(rf-grpo --help)
	rf-ntp --help | grep -qE -- '--model path +run to train; with --eval a run or a checkpoint'
}

# prompts ID...: prints four texts with rewarded rollouts on their prompts.  The texts with these ids have a
# prompt of 20 tokens and a response; the others are prompts as a whole.
prompts() {
	texts 40 1:90 2:41 3:15 4:21 | edited 'if .type == "seq" then .body |= (.prompt_len =
			if .id | IN('"$(IFS=, && echo "${*:-0}")"') then 20 else .tokens.shape[0] end)
		else . end' | rf-cat --split-response | rf-entropy -m "$M" |
		rf-select --chunks 2 -k 3 --margin 3 | rf-rollout -m "$M" -k 3 -n 3 | rf-reward --kind hybrid
}

@test "train: --outer response equals the steps on the prompts and then a step of rf-ntp on the responses" {
	local all=("rf-grpo --stale any:--mean tokens" "rf-ntp:--mean sequences") i=0
	for m in delta-hybrid lact qwen ${RF_ALL:+delta gated lact-muon}; do
		M=$G/$m
		prompts 1 2 4 >in
		[ -n "${RF_ALL:-}" ] && hows=("${all[@]}") || hows=("${all[i++ % 2]}") # one and the other
		for how in "${hows[@]}"; do
			optim="${how#*:} --lr 1e-2 --lr-schedule cosine --warmup 2 --total-steps 9"
			trainer="${how%:*} --mini-batch 2 $optim" log=log.$m.${how%% *}
			rm -rf a b
			runs a b
			# the stream comes through a pipe
			cat in | $trainer -m a --outer response --log "$log"
			[ "$(at a)" = step-000003 ]
			$trainer -m b in
			rf-cat --join-response in >joined
			rf-ntp --eval -m b --loss response ${how#*:} joined >loss
			rf-ntp -m b --loss response $optim --log hand joined
			same_step a b
			[ "$(jq -c '[.step, .updates, .weights]' a/latest/state.json)" = \
				"$(jq -c '[.step, .updates, .weights]' b/latest/state.json)" ]
			jq -e '.commits == 1 and .updates == 3 and .data.next == 4' \
				a/latest/state.json >/dev/null
			jq -se '.[0] as $e | .[1] as $h | .[4] | .step == 2 and .stepped and .records == 3
				and .tokens == 152 and (has("loss/ntp") or has("actor/grad_norm_ttt") | not)
				and (.["actor/sft_loss"] - $e.nll | fabs < 1e-5)
				and .["actor/sft_loss"] == $h["loss/ntp"]
				and .["actor/grad_norm"] == $h["actor/grad_norm_ttt"]
				and .["actor/lr"] == $h["actor/lr"]' loss <(tail -n 1 hand) "$log" >/dev/null
			jq -se 'length == 3 and (.[:2] | all(has("actor/sft_loss") or has("actor/grad_norm")
				| not))' "$log" >/dev/null
		done
	done
}

@test "train: with --outer response, threads, the order of records and the checking device change no weight" {
	prompts 1 2 4 >in
	for trainer in "rf-grpo --stale any" rf-ntp; do
		rm -rf ?
		runs a b c d e
		trainer+=" --mini-batch 0 --outer response"
		$trainer --device cpu -m a --segment 64 --threads 1 in
		$trainer --device cpu -m b --segment 64 --threads 2 in
		"$RF_UNITS/helper/records" reverse in | $trainer --device cpu -m c --segment 64 --threads 3
		$trainer --device check -m d --segment 64 in
		for run in b c d; do
			same_step a $run
		done
		$trainer --device cpu -m e --outer none --segment 64 in
		run ! same_step a e
	done
}

@test "train: a stream or option that makes --outer response impossible is refused without a commit" {
	prompts 1 2 4 >in
	prompts >none
	edited 'if .type == "head" then del(.body.vocab)
		elif .seq == 1 then .body.response.data[3] = 40 else . end' in >bad
	runs run
	state >before
	for trainer in "rf-grpo --stale any" rf-ntp; do
		name=${trainer%% *}
		trainer+=" -m run --mini-batch 1 --log log"
		run -65 $trainer --outer response none
		said='none of 4 records has a response, so there is nothing for --outer response'
		[ "$output" = "$name: $said to learn from (rf-cat --split-response makes it)" ]
		# the response counts towards --max-len, and its tokens must be in the model's vocabulary
		for dry in '' --dry-run; do
			run -65 $trainer --outer response --max-len 89 $dry in
			said='the sequence has 90 tokens with its response, more than --max-len 89'
			[[ "$output" == "$name: in: record 1 (byte "*"): $said (raise it, or cut "* ]]
			run -65 $trainer --outer response $dry bad
			said="response token 3 is 40, outside the model's vocabulary of 40"
			[[ "$output" == "$name: bad: record 1 (byte "*"): $said" ]]
		done
		run -65 $trainer --outer response <(head -c -1 in)
		run -64 $trainer --outer response --loss response in
		said='the response of a record is not among its tokens'
		[ "$output" = "$name: --outer response cannot be combined with --loss response: $said" ]
		state | cmp - before
		[ ! -e log ]
		# without --outer the response is not checked
		$trainer --max-len 20 <(rf-cat --range 0:2 bad)
		rm -rf run log
		runs run
	done
	run -64 rf-grpo -m run --stale any --outer response --grad-out g in
	said='it follows the steps, and --grad-out makes none'
	[ "$output" = "rf-grpo: --outer response cannot be combined with --grad-out: $said" ]
	run -64 rf-ntp -m run --eval --outer response in
	[ "$output" = "rf-ntp: --outer cannot be combined with --eval (try --help)" ]
	run -0 rf-ntp -m run --allow-empty --outer response "$G/stream/empty.rf"
	state | cmp - before
	rf-grpo -m run --stale any --outer response -o out in
	rf-dump --json out | jq -se '.[0].body.history[-1].options.outer == "response"' >/dev/null
	[ "$(json out | jq -c .response)" = "$(json in | jq -c .response)" ]
}

@test "train: SIGKILL or SIGTERM during --outer response, after the end of the input, commits nothing" {
	texts 40 {1..10}:20000 | edited 'if .type == "seq" then .body.prompt_len = 2 else . end' |
		rf-cat --split-response >in
	runs run
	state >before
	for sig in KILL TERM; do
		# only the outer step takes time: the prompts have two tokens
		rf-ntp -m run --threads 1 --outer response in 2>err &
		pid=$!
		until read_all $pid; do sleep .01; done
		sleep .05
		kill -$sig $pid
		ended_by $sig $pid
		[ ! -s err ]
		state | cmp - before
	done
}

# same_weights A B: compares two folders, without README.md and the list of files that --weights-out writes
same_weights() { diff -r --exclude=.weights-out --exclude=README.md "$1" "$2"; }

@test "train: --weights-out writes an export of the weights that would be committed, and changes no run" {
	batch 1:50 2:40 3:9 >in
	runs run
	rf-ntp -m run --lr 1e-2 in
	rm run/.lock
	state >before
	for trainer in "rf-grpo --stale any" rf-ntp; do
		rm -rf other want
		cp -a run other
		$trainer -m other --mini-batch 2 --lr 1e-2 --log want.log in
		rf-init --from other --dtype f32 want
		# without `silent`, which would leave a file in this folder
		run -0 $trainer -m run --mini-batch 2 --lr 1e-2 --weights-out out --log log in
		[ -z "$output" ]
		same_weights out want
		diff <(figures log) <(figures want.log)
		# -m can also be a step of a run
		$trainer -m run/step-000001 --mini-batch 2 --lr 1e-2 --weights-out out in
		same_weights out want
		rm -rf log want.log
	done
	# the run is only read, even while another program holds its lock
	chmod -R a-w run
	bound rf-ntp -m run --lr 1e-2 --weights-out out in
	chmod -R u+w run
	state | cmp - before
	[ ! -e run/.lock ]
	cp -a run locked
	touch locked/.lock
	flock locked/.lock rf-ntp -m locked --lr 1e-2 --weights-out again in
	diff -r out again
	[ "$(ls -A)" = $'again\nbefore\nin\nlocked\nother\nout\nrun\nwant' ]
}

@test "train: --weights-out copies the newest step's other files if the step that it read was removed" {
	batch 1:50 2:40 >in
	cp -a "$M" m
	echo a note >m/notes.txt
	rf-init --from m run
	rf-ntp -m run --lr 1e-2 in
	rf-ntp -m run --lr 1e-2 --weights-out want in
	mkfifo late
	rf-ntp -m run --lr 1e-2 --weights-out out late &
	exec 8>late
	until [ "$(find "/proc/$!/fd" -lname "*/step-000001/*")" ]; do sleep .01; done
	rf-ntp -m run --lr 1e-2 --keep 1 in
	[ "$(ls -d run/step-*)" = run/step-000002 ]
	cat in >&8
	exec 8>&-
	wait $!
	diff -r want out
}

@test "train: every program reads the output of --weights-out, and no run or export inherits .weights-out" {
	batch 1:50 2:40 >in
	copy_model "$M" m
	echo notes >m/notes
	rf-ntp -m m --lr 1e-2 --weights-out out in
	[ "$(ls -A out)" = $'.weights-out\nconfig.json\nmodel.safetensors\nnotes' ]
	rf-entropy -m out in | rf-select --chunks 2 -k 3 --margin 3 | rf-rollout -m out -k 3 -n 3 |
		rf-reward >next
	rf-grpo -m out --weights-out out2 next
	rf-ntp --eval -m out in >/dev/null
	rf-dump out >/dev/null
	rf-init --from out run
	rf-init --from out --dtype f32 export
	[ ! -e export/.weights-out ]
	[ ! -e run/latest/.weights-out ]
	same_weights out export
	rf-grpo -m run next
	# the rollouts were made by the weights in `out`, not by those of m
	mentions 65 "the rollouts were made by weights " rf-grpo -m m --weights-out out2 next
}

@test "train: from a checkpoint, --weights-out starts with fresh moments, also after another batch" {
	texts 40 1:50 2:40 >one
	texts 40 3:31 4:60 >two
	runs run
	rf-ntp -m run --mini-batch 1 --lr 1e-2 --warmup 3 --outer none one
	rf-init --from run --dtype f32 want
	rf-ntp -m "$M" --mini-batch 1 --lr 1e-2 --warmup 3 --weights-out a one
	same_weights a want
	rf-ntp -m "$M" --mini-batch 1 --lr 1e-2 --warmup 3 --weights-out b two
	rf-ntp -m "$M" --mini-batch 1 --lr 1e-2 --warmup 3 --weights-out b one
	diff -r a b
	rf-ntp -m "$M" --mini-batch 1 --lr 1e-2 --warmup 3 --weights-out a two
	run ! same_weights a b
	# moments in a checkpoint are not used if no state.json gives their number of updates
	cp -r run/latest/ step
	rm step/state.json
	rf-ntp -m step --lr 1e-2 --weights-out a two
	rf-ntp -m want --lr 1e-2 --weights-out b two
	cmp a/model.safetensors b/model.safetensors
}

@test "train: --weights-out replaces only its own output, and refuses any other folder, also with --dry-run" {
	batch 1:50 >in
	runs run
	mkdir empty folder
	echo mine >file
	ln -s out link
	echo hidden >folder/.hidden
	rf-init --from run --dtype f32 export
	rf-ntp -m "$M" --weights-out out in
	cp -a out more
	echo mine >more/notes
	cp -a out hidden
	mkdir hidden/.git
	cp -a out unlisted
	rm unlisted/.weights-out
	cp -a out model
	cp -a run other
	touch names before
	find . | sort >names
	bytes() { cksum $(find . -type f ! -name names ! -name before | sort); }
	bytes >before
	for trainer in rf-grpo rf-ntp; do
		# one trainer without --dry-run and one with it
		[ $trainer = rf-grpo ] && dries=('') || dries=(--dry-run)
		[ -z "${RF_ALL:-}" ] || dries=('' --dry-run)
		for dry in "${dries[@]}"; do
			for dir in empty folder file link link/ export unlisted run other more hidden \
				run/latest run/data run/step-000007 run/step-000000/new run/step-000000 \
				- . / ''; do
				run -64 $trainer -m run $dry --weights-out "$dir" /dev/null
				[ "${#lines[@]}" -eq 1 ] && [[ "$output" == "$trainer: "*"${dir%/}"* ]] ||
					{ echo "$dir: $output"; return 1; }
			done
			run -64 $trainer -m model $dry --weights-out model/ in
			run -64 $trainer -m model $dry --weights-out model/new in
			run -64 $trainer -m run/latest $dry --weights-out run/step-000009 in
			run -74 $trainer -m run $dry --weights-out none/new in
			[ "$output" = "$trainer: none/new: create: No such file or directory" ]
			for how in "--at 0" "--keep 1" "--keep-every 3" --allow-empty; do
				# shellcheck disable=SC2086  # words
				run -64 $trainer -m run $dry --weights-out new $how in
				said="$trainer: ${how% *} cannot be combined with --weights-out, which "
				[[ "$output" == "$said"* ]]
			done
		done
		run -65 $trainer -m run --weights-out new "$G/stream/empty.rf"
		run -65 $trainer -m run --weights-out new <(head -c -1 in)
		run -65 $trainer -m run --weights-out out <(head -c -1 in)
		run -66 $trainer -m nowhere --weights-out new in
		run -0 $trainer -m run --weights-out out --dry-run in
	done
	run -64 rf-grpo -m run --weights-out new --grad-out g in
	run -64 rf-ntp --eval -m run --weights-out new in
	[ "$output" = "rf-ntp: --weights-out cannot be combined with --eval (try --help)" ]
	find . | sort | diff names -
	bytes | diff before -
	# a copy of its output counts as its output
	rf-ntp -m run --weights-out model in
	same_weights model out
}

@test "train: --steps N divides the records into N steps, and another number than --records exits 65" {
	texts 40 1:70 2:9 3:30 4:25 5:40 >in
	# 5 records in 3 steps: 2, 2, 1
	rf-init --from "$G/delta" run
	rf-ntp -m run --lr 0.01 --steps 3 --records 5 in
	rf-init --from "$G/delta" hand
	for range in 0:2 2:4 4:5; do rf-cat --range $range in | rf-ntp -m hand --lr 0.01; done
	[ "$(basename "$(readlink run/latest)")" = step-000003 ]
	cmp run/latest/model.safetensors hand/latest/model.safetensors
	cmp run/latest/optim.safetensors hand/latest/optim.safetensors
	# with more steps than records, each record is a step
	rf-ntp -m run --at 3 --steps 9 --records 5 in
	[ "$(basename "$(readlink run/latest)")" = step-000008 ]
	for n in 4 6; do
		run -65 --separate-stderr rf-ntp -m run --steps 2 --records $n in
		[[ $stderr == *"the stream has 5 records, not $n (--records)" ]]
	done
	run -64 --separate-stderr rf-ntp -m run --steps 2 in
	[[ $stderr == *"--steps and --records require each other: the records are shared among the steps" ]]
	run -64 rf-ntp -m run --steps 2 --records 5 --grad-out g in
	[ "$(basename "$(readlink run/latest)")" = step-000008 ]
}

# tensors MODEL: prints the name and the bytes' hash of each tensor
tensors() {
	python3 - "$1" <<-'END'
		import hashlib, json, sys
		with open(sys.argv[1], "rb") as f:
		    data = f.read()
		n = int.from_bytes(data[:8], "little")
		for name, t in sorted(json.loads(data[8:8 + n]).items()):
		    if name != "__metadata__":
		        a, b = t["data_offsets"]
		        print(name, hashlib.md5(data[8 + n + a:8 + n + b]).hexdigest())
	END
}

@test "train: --train PATTERN trains only the tensors whose names match, and no other tensor gets moments" {
	M=$G/lact
	batch 1:50 2:40 >in
	runs all some
	# without a clip a tensor's step does not depend on the others
	rf-grpo -m all --lr 1e-2 --grad-clip 1e9 in
	rf-grpo -m some --lr 1e-2 --grad-clip 1e9 --train 'attn.w[02].*,model.layers.1.attn.w1' --log log in
	tensors "$M/model.safetensors" >start
	tensors all/latest/model.safetensors >every
	tensors some/latest/model.safetensors >only
	comm -13 start only >changed
	cut -d ' ' -f 1 changed | paste -sd ' ' >names
	[ "$(sed 's/model.layers/L/g' names)" = "$(printf '%s ' L.{0,1}.attn.w0.w_{left,right} \
		L.1.attn.w1 L.{0,1}.attn.w2.w_{left,right} | tr ' ' '\n' | sort | paste -sd ' ' |
		sed 's/^ //')" ]
	[ -z "$(comm -13 every changed)" ]
	# the logged norm, which is clipped, is the norm of the matching tensors' gradients
	runs whole
	rf-grpo -m whole --grad-out grad in
	rf-dump --stats --tsv --rows tensor grad >stats
	awk -F '\t' -v names="$(cat names)" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
		index(" " names " ", " " $at["name"] " ") { sum += $at["norm"] ^ 2 }
		END { printf "%.17g\n", sqrt(sum) }' stats >norm
	jq -e --argjson n "$(cat norm)" '.["actor/grad_norm_ttt"] / $n - 1 | fabs < 1e-4' log >/dev/null
	rf-dump --stats --tsv --rows tensor some/latest/optim.safetensors >moments
	awk -F '\t' -v names="$(cat names)" '
		NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
		{ sub(/^[^.]*\./, "", $at["name"]); trained = index(" " names " ", " " $at["name"] " ") > 0
			if (trained != ($at["norm"] > 0)) { print $at["name"]; bad = 1 }
			n += trained }
		END { exit bad || n != 18 }' moments
	said="rf-grpo: --train: no tensor of the model matches 'attn.w9*' (rf-dump lists them; the first is "
	says 64 "${said}lm_head.weight)" rf-grpo -m some --dry-run --train 'attn.w9*' in
	says 64 "${said}lm_head.weight)" rf-grpo -m some --train 'attn.w[02].*,attn.w9*' in
}
