#!/bin/bash
# bench-lines.sh -- a batch in a line of programs beside what its stages compute; for bench.sh, which reads it
# with `.`.  It takes a quarter of an hour, the memory of two lines and 2 GB of /dev/shm.
#
# A machine is faster for a minute and then slower by more than what is looked for here.  So the line and the
# stages by themselves take turns of a second: one stands still while the other computes, and both see the
# same machine.
# shellcheck disable=SC2154,SC2086  # $here and $train are bench.sh's; $s, $few and $many are words

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
# has written to rounds.out; else it goes on to its end, which over.out tells it to come to.  turns.out: when
# each turn began, and whose; published.out: the step that was seen in FOLDER in each, and when it had come.
by_turns() ( # a shell of its own, whose end is the end of both
	local names=(line apart) pid=() who=0 n=0 begun=''
	rm -f over.out rounds.out published.out
	setsid bash -c "set -eu -o pipefail; $1" &
	pid[0]=$!
	setsid bash -c "set -eu -o pipefail; $2" &
	pid[1]=$!
	# shellcheck disable=SC2064  # of now
	trap "kill -KILL -- -${pid[0]} -${pid[1]} 2>/dev/null || :" EXIT
	stop "${pid[1]}"
	echo "$EPOCHREALTIME line" >turns.out
	while :; do
		kill -0 $$ 2>/dev/null || exit 1 # the bench was broken off; these are groups of their own
		# short turns at first, and when steps begin to come: a tiny model's take less than a second
		if [ $((n++)) -lt 200 ]; then sleep .02; else sleep 1; fi
		stop "${pid[who]}" || break
		published "$3" >>published.out
		if [ -z "$begun" ] && [ -s published.out ]; then
			begun=yes n=0
		fi
		who=$((1 - who))
		echo "$EPOCHREALTIME ${names[who]}" >>turns.out
		kill -CONT -- "-${pid[who]}" 2>/dev/null || break # it was at its end when it was stopped
	done
	echo "$EPOCHREALTIME apart" >>turns.out
	if [ $who = 1 ]; then
		say 'bench: the stages by themselves ended before the line'
		exit 1
	fi
	wait "${pid[0]}"
	if [ -s rounds.out ]; then
		kill -KILL -- "-${pid[1]}" 2>/dev/null || :
		wait "${pid[1]}" 2>/dev/null || : # or bash says that it was killed
	else
		touch over.out
		kill -CONT -- "-${pid[1]}" 2>/dev/null || :
		wait "${pid[1]}"
	fi
)

# apart FOLDER: runs each stage on one record and on nine, until over.out is there.  The difference is what
# eight records cost without start, weights, commit and the first use of memory.  stages.out: the stage, and
# when it began with one, began with nine, and was done; rounds.out: a line when all stages were.
apart() {
	local s few many a b c
	until [ -e over.out ]; do
		while IFS=: read -r s few many; do
			$s $few # a virtual machine may have given its free memory back, and wait for it
			a=$EPOCHREALTIME
			$s $few
			b=$EPOCHREALTIME
			$s $many
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

# Two lines: one that is started for a batch and ends with it, and one for four batches (--live).  A batch of
# the latter takes the time from one published step to the next; its start and its commits, which are shared
# by however many batches there are, are not counted, nor is the first batch, in which memory is first used.
lines() {
	local live=/dev/shm/rf-bench-$$ t single batch
	# shellcheck disable=SC2064  # of now
	trap "rm -rf '$live' '$live.run' .[ersw][19].rf.tmp-*" EXIT
	rm -rf long stages.out
	rf-init --from model long
	rf-init --from model "$live.run" # in memory, where a commit takes as long each time
	rf-cat --repeat 4 -o batches.rf 4096.rf
	rf-cat --renumber -o nine.rf one.rf 4096.rf
	export -f apart
	by_turns "
		echo \$EPOCHREALTIME >single.out
		rf-entropy -m run 4096.rf | rf-select | rf-rollout -m run | rf-reward | $train
		echo \$EPOCHREALTIME >>single.out
		rf-cat --range 0:32 --batch 8 batches.rf | rf-entropy -m $live --follow | rf-select --follow |
			rf-rollout -m $live --follow | rf-reward --follow |
			rf-grpo -m long --mini-batch 8 --keep 1 --live $live --commit-every 4" \
		"apart $live.run" "$live"
	awk -f "$here/bench-lines.awk" turns.out single.out published.out stages.out >lines.out
	grep '^    ' lines.out
	single=$(pick lines.out 'for one ' s)
	t=$(pick lines.out 'beside one ' s)
	row 'a batch of 8 x 4096, a line for it, over its computing' "$(ratio "$single" "$t")" '' \
		"$single s, $t s"
	batch=$(pick lines.out 'for many ' s)
	t=$(pick lines.out 'beside many ' s)
	row 'a batch in a line for many (--live), over its computing' "$(ratio "$batch" "$t")" '<= 1.03' \
		"$batch s, $t s, without start and commit"
}
