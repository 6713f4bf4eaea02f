#!/bin/bash
# bench-lines.sh -- a batch in a line of programs beside what its stages compute; for bench.sh, which reads it
# with `.`.
#
# A machine is faster for a minute and then slower by more than what is looked for here.  So the line and the
# stages by themselves take turns of a second: one stands still while the other computes, and both see the
# same machine.
# shellcheck disable=SC2154,SC2086  # $here and $train are its; $s, $one and $nine are words

# stop GROUP: stops its processes; 1 if it is over
stop() {
	until kill -STOP -- "-$1" 2>/dev/null; do # it is no group yet, or no more
		kill -0 "$1" 2>/dev/null || return 1
	done
}

# published FOLDER: the step that is seen there, and when it came
published() {
	local seen
	seen=$(stat -c '%N %.6Y' "$1/latest" 2>/dev/null) || return 0 # a link, made anew for each step
	seen=${seen##*step-}
	echo "${seen/\'/}"
}

# by_turns LINE APART FOLDER: runs both commands by turns until LINE is over.  APART is then broken off if it
# has written to rounds.out; else it goes on to its end, which over.out tells it to come to.  To turns.out
# when which of them began to run; to published.out the steps that came in FOLDER, and when.
by_turns() {
	local names=(line apart) pid=() who=0 n=0
	rm -f over.out
	setsid bash -c "set -eu -o pipefail; $1" &
	pid[0]=$!
	setsid bash -c "set -eu -o pipefail; $2" &
	pid[1]=$!
	# shellcheck disable=SC2064  # of now
	trap "kill -KILL -- -${pid[0]} -${pid[1]} 2>/dev/null" EXIT
	stop "${pid[1]}"
	echo "$EPOCHREALTIME line" >turns.out
	while :; do
		# short ones first, since steps may be short: then the line is over before a second is
		if [ $((n++)) -lt 200 ]; then sleep .02; else sleep 1; fi
		published "$3" >>seen.out
		stop "${pid[who]}" || break
		who=$((1 - who))
		echo "$EPOCHREALTIME ${names[who]}" >>turns.out
		kill -CONT -- "-${pid[who]}"
	done
	echo "$EPOCHREALTIME apart" >>turns.out
	uniq seen.out published.out
	wait "${pid[who]}"
	[ $who = 0 ] # it is not for APART to end
	if [ -s rounds.out ]; then
		kill -KILL -- "-${pid[1]}"
		wait "${pid[1]}" 2>/dev/null || : # or bash says that it was killed
	else
		touch over.out
		kill -CONT -- "-${pid[1]}"
		wait "${pid[1]}"
	fi
	trap - EXIT
}

# apart FOLDER: what each stage takes by itself for one record and for nine, and what it therefore takes for a
# batch of eight when it has started, has its weights and its memory, and not yet to commit; again and again.
# To stages.out the stage, and when it began with one, with nine, and was done; to rounds.out when all were.
apart() {
	local s one nine a b c
	until [ -e over.out ]; do
		while IFS=: read -r s one nine; do
			$s $one # a virtual machine may have given its free memory back, and wait for it
			a=$EPOCHREALTIME
			$s $one
			b=$EPOCHREALTIME
			$s $nine
			c=$EPOCHREALTIME
			echo "${s%% *} $a $b $c"
		done >>stages.out <<-END
		rf-entropy -m run:-o e1.rf one.rf:-o e9.rf nine.rf
		rf-select:-o s1.rf e1.rf:-o s9.rf e9.rf
		rf-rollout -m run:-o r1.rf s1.rf:-o r9.rf s9.rf
		rf-reward:-o w1.rf r1.rf:-o w9.rf r9.rf
		rf-grpo -m $1 --stale any --mini-batch 9 --keep 1:w1.rf:w9.rf
		END
		echo "$EPOCHREALTIME" >>rounds.out
	done
}

# A line for each batch beside one for many, of which a batch takes the time from one step's weights to the
# next's: its start and its commit are shared by however many there are, and so is the first batch's time, in
# which memory is used for the first time.
lines() {
	local live=/dev/shm/rf-bench-$$ t one many
	rm -rf long ./*.out
	rf-init --from model long
	rf-init --from model "$live.run" # in memory, where a commit takes as long each time
	rf-cat --repeat 3 -o batches.rf 4096.rf
	rf-cat --renumber -o nine.rf one.rf 4096.rf
	export -f apart
	by_turns "
		echo \$EPOCHREALTIME >one.out
		rf-entropy -m run 4096.rf | rf-select | rf-rollout -m run | rf-reward | $train
		echo \$EPOCHREALTIME >>one.out
		rf-cat --range 0:24 --batch 8 batches.rf | rf-entropy -m $live --follow | rf-select --follow |
			rf-rollout -m $live --follow | rf-reward --follow |
			rf-grpo -m long --mini-batch 8 --keep 1 --live $live --commit-every 3" \
		"apart $live.run" "$live"
	rm -rf "$live.run"
	awk -f "$here/bench-lines.awk" turns.out stages.out one.out published.out >lines.out
	grep '^    ' lines.out
	t=$(pick lines.out 'computing ' s)
	one=$(pick lines.out 'line ' s)
	many=$(pick lines.out 'batch ' s)
	row 'a batch of 8 x 4096, a line for it, over its computing' "$(ratio "$one" "$t")" '' "$one s, $t s"
	row 'a batch in a line for many (--live), over its computing' "$(ratio "$many" "$t")" '<= 1.03' \
		"$many s, $t s"
}
