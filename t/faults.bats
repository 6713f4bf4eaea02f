#!/usr/bin/env bats
# The programs themselves under faults: killed at each call by which they change files, stopped by signals, on
# a full disk.  t/helper/fault.c lets the calls go wrong; RF_ALL=1 tries every call, otherwise one in six.
# The library's commit: t/run.bats.
setup() {
	load helper
	load model
	export ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0
	EVERY=${RF_ALL:+1}
	EVERY=${EVERY:-6}
}

# faulty NAME=VALUE COMMAND...: the command, with this fault
faulty() { env LD_PRELOAD="$RF_UNITS/helper/fault.so" "$@"; }

# sweep LEAST COMMAND...: for each call of the command that changes files, the command killed there.  Before
# each time `prepare` is called, after it `judge`.
sweep() {
	local least=$1 k n
	shift
	prepare
	rm -f calls
	faulty RF_FAULT_LOG="$PWD/calls" "$@"
	n=$(wc -l <calls)
	[ "$n" -ge "$least" ] || { echo "$n calls"; return 1; }
	for ((k = 1 + RANDOM_START % EVERY; k <= n; k += EVERY)); do
		prepare
		run -137 faulty RF_FAULT=kill:$k "$@"
		judge || { echo "$*: killed at call $k of $n, $(sed -n ${k}p calls)"; return 1; }
	done
}

# lines FILE: of a log, without what time decides; nothing where there is no file
lines() { [ ! -e "$1" ] || jq -c 'del(.["timing_s/step"], .["perf/throughput"])' "$1"; }

# The run is the old one or the new one, byte for byte, and its log that of before or after; the same words
# again make it the new one, and leave nothing else.
prepare_run() {
	rm -rf run log
	cp -a old run
}
judge_run() {
	local step lines=
	lines=$(lines log) || return 1
	[ -z "$lines" ] || [ "$lines" = "$(lines new.log)" ] || return 1
	[ ! -e run/step-000001 ] || [ -n "$lines" ] || return 1
	for step in run/step-*; do
		diff -r "$step" "new/${step#run/}" || return 1
	done
	rf-dump --check -q run || return 1
	"$@" --at 0 2>again || return 1
	diff -r --exclude=.lock run new
}

@test "faults: a trainer killed during a commit leaves the old step or the new one, and a log that fits" {
	batch 1:50 2:40 >in
	runs old
	RANDOM_START=0
	for trainer in rf-grpo rf-ntp; do
		rm -rf new new.log
		cp -a old new
		$trainer -m new --log new.log in
		rm -f new/.lock
		prepare() { prepare_run; }
		judge() { judge_run $trainer -m run --log log in; }
		sweep 40 $trainer -m run --log log in
		RANDOM_START=3
	done
}

@test "faults: rf-grpo --grad-out killed at any call leaves the run unchanged and a whole gradient or none" {
	batch 1:50 2:40 >in
	runs old
	state old >before
	cp -a old run
	rf-grpo -m run --grad-out want in
	RANDOM_START=0
	prepare() {
		rm -rf run g .g.tmp-*
		cp -a old run
	}
	judge() {
		state run | cmp - before || return 1
		[ ! -e g ] || cmp g want
	}
	sweep 8 rf-grpo -m run --grad-out g in
	# and the step with it
	rm -rf new new.log && cp -a old new
	rf-ntp -m new --grad-in want --log new.log in
	rm -f new/.lock
	prepare() { prepare_run; }
	judge() { judge_run rf-ntp -m run --grad-in want --log log in; }
	sweep 40 rf-ntp -m run --grad-in want --log log in
}

@test "faults: SIGTERM at any call of rf-init leaves either nothing or the complete result" {
	cp "$G/delta/config.json" .
	for how in "--config config.json" "--from $G/delta" "--from $G/delta --dtype bf16"; do
		rm -rf want calls
		faulty RF_FAULT_LOG="$PWD/calls" rf-init $how want
		n=$(wc -l <calls)
		[ "$n" -ge 15 ]
		for ((k = 1; k <= n; k += EVERY / 2 + 1)); do
			rm -rf a
			status=0
			faulty RF_FAULT=term:$k rf-init $how a 2>message || status=$?
			[ "$status" -eq 0 ] || [ "$status" -eq 143 ] ||
				{ echo "$how, call $k: status $status"; return 1; }
			[ "$status" -eq 0 ] && diff -r a want || [ ! -e a ] ||
				{ echo "$how, call $k: half of it"; return 1; }
			[ -z "$(find . -name '.*.tmp-*')" ] ||
				{ echo "$how, call $k: leaves $(find . -name '.*.tmp-*')"; return 1; }
		done
	done
}

@test "faults: a trainer warns if the disk is nearly full or if old steps could not be removed" {
	texts 40 1:50 >in
	batch 1:50 >rewarded
	for trainer in "rf-ntp -m run in" "rf-grpo -m run rewarded"; do
		rm -rf run && runs run
		run -0 --separate-stderr faulty RF_FAULT_FREE=2000000 $trainer
		said="${trainer%% *}: run: the disk is nearly full: 2000000 bytes are free, and a step needs "
		[[ "$stderr" =~ ^"$said"[0-9]+$ ]]
		[ "$(readlink run/latest)" = step-000001 ]
		rm -rf run && runs run
		run -0 --separate-stderr faulty RF_FAULT_FREE=900000000 $trainer
		[ -z "$stderr" ]
		# a file system that does not count
		rm -rf run && runs run
		run -0 --separate-stderr faulty RF_FAULT_FREE=uncounted $trainer
		[ -z "$stderr" ]
		# old steps in the lower layer of an overlay go all the same
		rm -rf run && runs run
		run -0 --separate-stderr faulty RF_FAULT_OVERLAY=1 $trainer --keep 1
		[ -z "$stderr" ]
		[ "$(cd run && echo step-* .step*)" = "step-000001 .step*" ]
		# a step that cannot be taken apart
		rm -rf run && runs run
		mkdir -p run/step-000000/a/b/c/d/e/f
		run -0 --separate-stderr $trainer --keep 1
		said="${trainer%% *}: run: old steps could not be removed: run/.step-000000.tmp-"
		[[ "$stderr" == "$said"* ]]
		[ "$(readlink run/latest)" = step-000001 ]
	done
}
