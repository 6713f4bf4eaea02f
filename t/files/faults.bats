#!/usr/bin/env bats
# Programs under faults: killed at each call that changes files, ended by signals, on a full disk.
# t/helper/fault.c makes the calls fail.  RF_ALL=1 tries every call, otherwise one in 24.
# t/files/run.bats tests the commit of the library.
setup() {
	load ../helper
	load ../model
	export ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0
	EVERY=${RF_ALL:+1}
	EVERY=${EVERY:-24}
}

# faulty NAME=VALUE COMMAND...: runs the command with this fault
faulty() { env LD_PRELOAD="$RF_UNITS/helper/fault.so" "$@"; }

# sweep LEAST COMMAND...: runs the command once for each of its calls that change files, and kills it there,
# or injects the fault HOW.  Calls `prepare` before each run, and `judge` after it, which sees $status and
# $output.
sweep() {
	local least=$1 k n how=${HOW:-kill}
	shift
	prepare
	rm -f calls
	faulty RF_FAULT_LOG="$PWD/calls" "$@"
	n=$(wc -l <calls)
	[ "$n" -ge "$least" ] || { echo "$n calls"; return 1; }
	for ((k = 1 + RANDOM_START % EVERY; k <= n; k += EVERY)); do
		prepare
		run faulty RF_FAULT=$how:$k "$@"
		[ $how != kill ] || [ "$status" -eq 137 ]
		judge || { echo "$*: $how at $k of $n, $(sed -n ${k}p calls): $status $output"; return 1; }
	done
}

# prepare_run makes the old run; judge_run COMMAND...: succeeds if the run is the old one or the new one, byte
# for byte, with the log of before or after, and if the same command makes it the new run and leaves nothing
# else.
prepare_run() {
	rm -rf run log
	cp -a old run
}
judge_run() {
	local step lines=
	[ ! -e log ] || lines=$(figures log) || return 1
	[ new.figures -nt new.log ] || figures new.log >new.figures
	[ -z "$lines" ] || [ "$lines" = "$(cat new.figures)" ] || return 1
	[ ! -e run/step-000001 ] || [ -n "$lines" ] || return 1
	for step in run/step-*; do
		diff -r "$step" "new/${step#run/}" || return 1
	done
	[ ! -e run/manifest.json ] ||
		[[ $(cat run/manifest.json) =~ ^'{"event":"begin",'[^$'\n']*$ ]] || return 1
	rf-dump --check -q run || return 1
	"$@" --at 0 2>again || return 1
	diff -r --exclude=.lock --exclude=manifest.json run new
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

@test "faults: a trainer with an outer step, killed at any call, leaves the old step or the whole new one" {
	texts 40 1:50 2:40 | edited 'if .type == "seq" then .body.prompt_len = 9 else . end' |
		rf-cat --split-response >in
	runs old
	RANDOM_START=1
	cp -a old new
	rf-ntp -m new --mini-batch 1 --outer response --log new.log in
	[ -e new/step-000003 ]
	rm -f new/.lock
	prepare() { prepare_run; }
	judge() {
		[ ! -e run/step-000001 ] || return 1
		[ ! -e run/step-000002 ] || return 1
		judge_run rf-ntp -m run --mini-batch 1 --outer response --log log in
	}
	sweep 40 rf-ntp -m run --mini-batch 1 --outer response --log log in
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
	# the step with this gradient, too
	rm -rf new new.log
	cp -a old new
	rf-ntp -m new --grad-in want --log new.log in
	rm -f new/.lock
	prepare() { prepare_run; }
	judge() { judge_run rf-ntp -m run --grad-in want --log log in; }
	sweep 40 rf-ntp -m run --grad-in want --log log in
}

@test "faults: SIGTERM at any call of rf-init leaves either nothing or the complete result" {
	cp "$G/delta/config.json" .
	local ended=
	prepare() { rm -rf a; }
	judge() {
		ended+=" $status"
		case $status in
		0) diff -r a want ;;
		143) [ ! -e a ] ;;
		*) false ;;
		esac && [ -z "$(find . -name '.*.tmp-*')" ]
	}
	EVERY=$((EVERY / 2 + 1))
	for how in "--config config.json" "--from $G/delta" "--from $G/delta --dtype bf16"; do
		rm -rf want
		rf-init $how want
		HOW=term sweep 15 rf-init $how a
	done
	[[ "$ended" == *143* ]]
}

@test "faults: a trainer warns if the disk is nearly full or if old steps could not be removed" {
	texts 40 1:50 >in
	batch 1:50 >rewarded
	for trainer in "rf-ntp -m run in" "rf-grpo -m run rewarded"; do
		rm -rf run
		runs run
		run -0 --separate-stderr faulty RF_FAULT_FREE=2000000 $trainer
		said="${trainer%% *}: run: the disk is nearly full: 2000000 bytes are free, and a step needs "
		[[ "$stderr" =~ ^"$said"[0-9]+$ ]]
		[ "$(readlink run/latest)" = step-000001 ]
		rm -rf run
		runs run
		quiet faulty RF_FAULT_FREE=900000000 $trainer
		# the file system does not report its free space
		rm -rf run
		runs run
		quiet faulty RF_FAULT_FREE=uncounted $trainer
		# old steps in the lower layer of an overlay are removed, too
		rm -rf run
		runs run
		quiet faulty RF_FAULT_OVERLAY=1 $trainer --keep 1
		[ "$(cd run && echo step-* .step*)" = "step-000001 .step*" ]
		# a step with nested folders cannot be removed
		rm -rf run
		runs run
		mkdir -p run/step-000000/a/b/c/d/e/f
		run -0 --separate-stderr $trainer --keep 1
		said="${trainer%% *}: run: old steps could not be removed: run/.step-000000.tmp-"
		[[ "$stderr" == "$said"* ]]
		[ "$(readlink run/latest)" = step-000001 ]
	done
}

# judge_out absent|whole: succeeds if a killed --weights-out left the old weights or the new ones, or with
# `absent` none, and if the same command then makes the new ones
judge_out() {
	local found=none try
	for try in was new; do
		[ ! -d out ] || ! diff -r out $try >/dev/null || found=out
	done
	[ -d out ] || [ "$1" = absent ] || { echo "out is gone"; return 1; }
	[ ! -e out ] || [ "$found" = out ] || { ls -la out; return 1; }
	state run | cmp - before || return 1
	rm -rf .out.tmp-*
	$out 2>again || return 1
	diff -r out new || return 1
	[ -z "$(find . -maxdepth 1 -name '.out*')" ]
}

@test "faults: --weights-out killed at any call leaves the old weights or the new, and the run unchanged" {
	batch 1:50 2:40 >in
	runs old
	state old >before
	rf-ntp -m "$M" --lr 1e-2 --weights-out was in
	for how in "absent rf-ntp -m run" "whole rf-grpo -m run" "swapped rf-ntp -m run"; do
		out="${how#* } --weights-out out in"
		rf-ntp -m "$M" --weights-out out in
		rm -rf new run
		cp -a old run
		$out
		mv out new
		prepare() {
			rm -rf out .out.tmp-*
			[ "${how%% *}" = absent ] || cp -a was out
		}
		judge() {
			case $how in
			whole*) judge_out whole ;;
			*) judge_out absent ;; # without an exchange `out` is missing for a moment
			esac
		}
		RANDOM_START=${#how}
		if [[ $how == swapped* ]]; then
			RF_FAULT_EXCHANGE=1 sweep 15 $out
		else
			sweep 15 $out
		fi
	done
}

# old_and_new: makes the checkpoint `new` and a function `prepare` that makes the old checkpoint `out`
old_and_new() {
	texts 40 1:50 2:40 >in
	runs run
	rf-ntp -m "$M" --lr 1e-2 --weights-out was in
	rf-ntp -m run --weights-out new in
	prepare() {
		rm -rf out .out.tmp-*
		cp -a was out
	}
}

@test "faults: SIGTERM at any call of --weights-out leaves the old weights or the new, and nothing else" {
	old_and_new
	state run >before
	ended=
	judge() {
		ended+=" $status"
		case $status in
		0) diff -r out new ;;
		143) diff -r out was && grep -q ': interrupted before the commit; the run ' <<<"$output" ;;
		*) false ;;
		esac && [ -z "$(find . -name '.*.tmp-*')" ]
	}
	EVERY=$((EVERY / 2 + 1))
	HOW=term sweep 15 rf-ntp -m run --weights-out out in
	[[ "$ended" == *143* ]]
	[[ "$ended" == *" 0"* ]]
	state run | cmp - before
}

@test "faults: --weights-out keeps a file that another program adds at any call, or names its new place" {
	old_and_new
	judge() {
		ended+=" $status"
		# the file is where it was made, or where the message says
		if [ ! -e out/theirs ]; then
			said=$(sed 's/.* is kept as \(.*\)$/\1/' <<<"$output")
			[ -e "$said/theirs" ]
		fi || return 1
		rm -f {out,.out.tmp-*}/theirs
		case $status in
		0) diff -r out new ;;
		64) diff -r out was || diff -r out new ;;
		*) false ;;
		esac
	}
	[ "$EVERY" -eq 1 ] || EVERY=2
	for how in '' RF_FAULT_EXCHANGE=1; do
		ended=
		RF_FAULT_FILE=out/theirs HOW=make sweep 15 $how rf-ntp -m run --weights-out out in
		[[ "$ended" == *64* ]]
	done
}

@test "faults: --weights-out on a full disk exits 74 and leaves the old weights" {
	texts 40 1:50 2:40 >in
	runs run
	rf-ntp -m "$M" --lr 1e-2 --weights-out was in
	for place in out new; do
		rm -rf out
		cp -a was out
		# the disk is full before the first record, or while the weights are written
		run -74 faulty RF_FAULT_FREE=1000 rf-ntp -m run --weights-out $place /dev/null
		said="rf-ntp: $place: a checkpoint needs "
		[[ "$output" =~ ^"$said"[0-9]+" bytes, but only 1000 are free"$ ]]
		run -74 bash -c "trap '' XFSZ; ulimit -f 8; exec rf-ntp -m run --weights-out $place in"
		[[ "$output" == "rf-ntp: "*": write: File too large" ]]
		diff -r out was
		[ ! -e new ]
		[ -z "$(find . -name '.*.tmp-*')" ]
	done
}

@test "faults: --weights-out syncs all its files before the rename, and the rename before it ends" {
	can_trace
	texts 40 1:50 2:40 >in
	for place in new replaced; do
		rm -f trace.*
		strace -ff -y -o trace rf-ntp -m "$M" --weights-out out in
		mv "$(printf '%s\n' trace.* | sort -V | head -n 1)" trace
		awk -v place=$place 'function path(s) { sub(/^[^<]*</, "", s); sub(/>.*/, "", s); return s }
			{ sub(/^[0-9]+ +/, "") }
			/O_CREAT/ && /\.out\.tmp/ { split($0, q, " = "); f = path(q[2]); dirty[f] = 1
				sub(/\/[^\/]*$/, "", f); dirty[f] = 1; files++ }
			/^write\(/ && /\.out\.tmp/ { dirty[path($0)] = 1 }
			/^fsync\(/ { delete dirty[path($0)]; synced = renamed }
			/^rename(at2)?\(.*\.out\.tmp/ { for (f in dirty) { print "not synced: " f; bad = 1 }
				renamed = 1; exchanged = /EXCHANGE/ }
			/^unlink/ && renamed && !synced { print "removed too early"; bad = 1 }
			END { exit bad || files != 3 || !synced || exchanged != (place == "replaced") }' trace
	done
}
