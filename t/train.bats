#!/usr/bin/env bats
# What both trainers promise: steps once and only once, whole or not at all, by rollouts that are fresh.
setup() {
	load helper
	load model
}

at() { readlink "${1:-run}/latest"; }

@test "train: --at N trains a run at step N, does nothing if it is past N, and refuses it if it is before N" {
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
		# the same stream again: once and only once
		run -0 $trainer -m run --at "$now" in
		[ "$output" = "$trainer: already at step $((now + 1))" ]
		run -0 $trainer -m run --at "$now" </dev/null
		# what comes before it in the pipe ends well
		run -0 bash -c 'set -o pipefail; head -c 1000000 /dev/zero | "$@"' _ $trainer \
			-m run --at "$now"
		state | cmp - after
	done
}

@test "train: rollouts by older or other weights are refused as stale, unless --stale allows them" {
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
	# next tokens need no rollouts, and neither does a policy's coefficient of 0
	rf-ntp -m run in
	rf-grpo -m run --rl-coef 0 in
	rf-grpo -m run <(texts 40 1:30)
	# weights of another model
	M=$G/delta-gate-neg batch 1:50 2:40 >in
	stale --stale 16
	rf-grpo -m run --stale any in
	# unknown ones
	rf-dump --json in | jq -c 'del(.body.model)' | rf-cat --json >unknown
	run -65 rf-grpo -m run --stale 3 unknown
	[[ "$output" == *"does not say which weights made its rollouts"* ]]
	rf-grpo -m run --stale any unknown
	for bad in some -1 1x ''; do
		state >before
		run -64 rf-grpo -m run --stale "$bad" unknown
		run -64 rf-grpo -m run --stale "$bad" "$G/stream/tokens.rf"
		state | cmp - before
	done
}

@test "train: a second trainer of the same run exits 75 at once, while readers are not kept out" {
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
	# a reader is not kept away
	rf-entropy -m run in >/dev/null
	rf-grpo -m run --dry-run >/dev/null </dev/null
	cat in >&9
	exec 9>&-
	wait $pid
	[ "$(at)" = step-000001 ]
}

@test "train: an empty stream is an error, unless --allow-empty is given" {
	runs run
	state >before
	for trainer in rf-grpo rf-ntp; do
		run -65 $trainer -m run "$G/stream/empty.rf"
		[[ "$output" == *"the stream has no records, so there is nothing to learn from"* ]]
		run -0 $trainer -m run --allow-empty --log log "$G/stream/empty.rf"
		[ -z "$output" ]
		state | cmp - before
	done
	[ ! -e log ]
}

@test "train: a gradient that is not finite exits 70 and changes nothing; --on-nan skip goes on" {
	texts 40 1:50 2:40 >in
	cp -r "$M" m && chmod -R u+w m
	# the loss is as it was; on the way back the head's weights meet a coefficient of 1e6
	"$RF_UNITS/helper/model" scale m lm_head.weight 1e36
	"$RF_UNITS/helper/model" scale m model.norm.weight 1e-36
	rf-init --from m run
	state >before
	for trainer in rf-ntp rf-grpo; do
		run -70 $trainer -m run --ntp-coef 1e6 --log log in
		[[ "$output" == "$trainer: "*"the gradient is not finite: nothing was changed"* ]]
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

@test "train: with --on-nan skip a bad record costs its own mini-batch and no other" {
	batch 1:50 2:40 3:30 >in
	rf-dump --json in | jq -c 'if .body.id == 2 then .body.rollout.temperature = 1e-38 else . end' |
		rf-cat --json >bad
	runs run other
	state >before
	run -70 rf-grpo -m run --stale any --mini-batch 1 bad
	[[ "$output" == *"id 2: the log-probability of token "* ]]
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
		rm -rf run log && runs run
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

@test "train: --adam-eps takes 1e-30 and refuses what is negative or zero in float32" {
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

@test "train: --keep and --keep-every decide which steps stay" {
	texts 40 {1..7}:4 >in
	runs run
	for i in {0..6}; do
		rf-ntp -m run --at $i --keep 2 --keep-every 3 <(rf-cat --range $i:$((i + 1)) in)
	done
	[ "$(ls run)" = $'latest\nstep-000000\nstep-000003\nstep-000006\nstep-000007' ]
	rf-ntp -m run --keep 1 in
	[ "$(ls run)" = $'latest\nstep-000008' ]
}

@test "train: a trainer refuses a checkpoint and says how to begin a run" {
	for trainer in rf-grpo rf-ntp; do
		run -64 $trainer -m "$M" "$G/stream/tokens.rf"
		[[ "$output" == *"a checkpoint, not a run; begin a run with: rf-init --from $M RUN" ]]
		run -66 $trainer -m nowhere "$G/stream/tokens.rf"
		run -64 $trainer "$G/stream/tokens.rf"
	done
	[ ! -e "$M/.lock" ]
}

@test "train: SIGTERM, SIGINT or SIGHUP while it waits for input exits 128 + N and changes nothing" {
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
			rc=0
			wait $pid || rc=$?
			exec 9>&-
			[ $rc -eq $((128 + $(kill -l $sig))) ]
			[ ! -s err ]
			state | cmp - before
		done
	done
	[ ! -e log ]
	rf-grpo -m run in
}

@test "train: SIGTERM or SIGINT between the end of input and the commit exits 128 + N and changes nothing" {
	texts 40 {1..10}:20000 >in
	runs run
	state >before
	# whether the process has read all of in
	read_all() {
		local fd
		for fd in /proc/$1/fd/*; do
			[ "$(readlink "$fd")" != "$PWD/in" ] || [ "$(awk '/^pos:/ { print $2 }' \
				"/proc/$1/fdinfo/${fd##*/}")" -ne "$(stat -c %s in)" ] || return 0
		done
		return 1
	}
	mkfifo fifo
	for sig in TERM INT; do
		env --default-signal=HUP,INT rf-ntp -m run --threads 1 in 2>err &
		pid=$!
		until read_all $pid; do sleep .01; done
		sleep .05
		kill -$sig $pid
		rc=0
		wait $pid || rc=$?
		[ $rc -eq $((128 + $(kill -l $sig))) ]
		[ ! -s err ]
		state | cmp - before
		# the commit begins with the log, and that waits for its reader
		exec 9<>fifo
		head -c 65536 /dev/zero >&9
		env --default-signal=HUP,INT rf-ntp -m run --log fifo <(texts 40 1:20) 2>err 9>&- &
		pid=$!
		sleep .5
		kill -$sig $pid
		head -c 65536 <&9 >zeros
		rc=0
		wait $pid || rc=$?
		exec 9>&-
		[ $rc -eq $((128 + $(kill -l $sig))) ]
		[ "$(cat err)" = "rf-ntp: interrupted before the commit; the run is unchanged" ]
		state | cmp - before
	done
}

@test "train: a loop of steps that is killed at any moment and started again ends at the same bytes" {
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
	for ((try = 0; try < ${RF_ALL:+10}30; try++)); do
		rc=0
		ms=$((1 + RANDOM % took))
		timeout -s KILL $((ms / 1000)).$(printf %03d $((ms % 1000))) bash loop run 2>err || rc=$?
		# 75: what was killed a moment ago has not let go of the lock
		[ $rc -eq 0 ] || [ $rc -eq 137 ] || [ $rc -eq 75 ] || { echo "rc $rc"; cat err; false; }
		[ $rc -eq 0 ] || kills=$((kills + 1))
		# a reader finds a step at any time
		rf-dump --check -q run
		if [ "$(at)" = step-000004 ] && [ $rc -eq 0 ]; then
			same_step want run
			diff <(jq -S 'del(.files)' want/latest/state.json) \
				<(jq -S 'del(.files)' run/latest/state.json)
			rm -rf run && runs run
		fi
	done
	[ "$kills" -gt 3 ]
	flock run/.lock true
	bash loop run
	same_step want run
}

@test "train: a trainer with nothing to do still reads its pipe to the end, even if it is non-blocking" {
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

@test "train: a trainer goes on if the reader of its messages leaves" {
	texts 40 1:50 >in
	for trainer in rf-grpo rf-ntp; do
		rm -rf run && runs run
		run -0 bash -c '{ sleep .3; cat in; } | "$@" -m run --ntp-coef 0 2>&1 | true
			exit "${PIPESTATUS[1]}"' _ $trainer
		[ "$(at)" = step-000001 ]
	done
}

@test "train: if latest points to no step, every program takes the newest step there is and says so" {
	texts 40 1:50 >in
	runs run
	rf-ntp -m run in && rf-ntp -m run in
	rm -r run/step-000002
	said="latest points to step-000002, which does not exist: the newest step is step-000001"
	run -0 --separate-stderr rf-entropy -m run -o out in
	[ "$stderr" = "rf-entropy: run/step-000001: $said" ]
	[ "$(rf-dump --json out | head -n 1 | jq .body.model.step)" -eq 1 ]
	run -0 --separate-stderr rf-ntp --eval -m run in
	[ "$stderr" = "rf-ntp: run/step-000001: $said" ]
	for form in "" "--json" "--rows step" "--tsv --rows step"; do
		# shellcheck disable=SC2086
		run -0 --separate-stderr rf-dump $form run
		[ "$stderr" = "rf-dump: run: $said" ]
		[[ "$output" == *step*1* ]]
	done
	run -0 --separate-stderr rf-ntp -m run --dry-run in
	[ "$stderr" = "rf-ntp: run/step-000001: $said" ]
	run -0 --separate-stderr rf-init --from run other
	[ "$stderr" = "rf-init: run: $said" ]
	run -0 --separate-stderr rf-ntp -m run in
	[ "$stderr" = "rf-ntp: run/step-000001: $said" ]
	[ "$(readlink run/latest)" = step-000002 ]
	run -0 rf-ntp -m run in
	[ -z "$output" ]
	rm run/latest
	run -0 --separate-stderr rf-entropy -m run -o out in
	said='the link latest is missing: the newest step is step-000003'
	[ "$stderr" = "rf-entropy: run/step-000003: $said" ]
}

@test "train: --help of a trainer says that -m is a run" {
	run ! grep -qE -- '--model.*checkpoint' <(rf-grpo --help)
	rf-ntp --help | grep -qE -- '--model path +run to train; with --eval a run or a checkpoint'
}
