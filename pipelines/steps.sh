#!/bin/bash
# steps.sh RUN -- takes a run through a corpus: one pipeline and one commit per batch, STEPS of them in all.
#
# Which batch comes next is read from the run itself: it knows how many commits it has.  The stages read the weights of
# exactly that step, and the trainer is told at which step it must be (--at); so after a kill at any moment the same words
# go on with every batch used once and only once, and end at the same bytes.
#
# A batch is the next BATCH sequences of the corpus, in an order that is drawn anew for each epoch; what is left over at an
# epoch's end is less than a batch and waits for the next draw.  How a run begins stands in begin.sh.
#
# From the environment, set by midtrain.mk:
#
#     MODEL CORPUS TOKENIZE DATA            what a run begins from: a checkpoint, files of text, the command that makes
#                                           sequences of them; a stream of sequences, where that is not RUN/data/corpus.rf
#     ENTROPY SELECT ROLLOUT REWARD TRAIN   stages, as shell commands that read and write streams; an empty one is left out.
#                                           A REWARD whose first word is no program of rf-tools is a command that judges,
#                                           lines of JSON in and rewards out: it is run by rf-reward --exec
#     COMPUTE                               options of those that have a model: the first, the third and the last
#     STEPS BATCH SEED                      batches in all, sequences of a batch, seed of the order
#     MINI_BATCH LEN K N                    numbers that stages have from midtrain.mk, only checked
#     KEEP                                  not empty: each batch's stream stays in RUN/streams, as rf-grpo writes it, with
#                                           advantages; of another trainer as it goes in, before that begins
#     PHASE                                 what lines of progress begin with
set -euo pipefail
export LC_ALL=C

here=$(dirname "$0")
if [ $# -ne 1 ]; then
	echo "usage: steps.sh RUN (from midtrain.mk, which says how it is set)" >&2
	exit 64
fi
run=$1
# shellcheck disable=SC2153  # MODEL and model are two things, as are CORPUS and corpus
: "$MODEL" "$CORPUS" "$TOKENIZE" "$DATA" "$ENTROPY" "$SELECT" "$ROLLOUT" "$REWARD" "$TRAIN" "${KEEP:=}"
phase=${PHASE:-$run} corpus=$DATA
eval "files=($CORPUS)" # blanks, quotes and wildcards as for TOKENIZE
[ "$corpus" = "$run/data/corpus.rf" ] || files+=("$corpus")
# shellcheck disable=SC2153  # as are BATCH and batch
batches=$STEPS size=$BATCH
# shellcheck source=pipelines/begin.sh
. "$here/begin.sh"

say() { printf '%s: %s\n' "$phase" "$*" >&2; }
die() {
	local status=$1
	shift
	say "$*"
	exit "$status"
}

# Sets at, the newest step, and batch, how many commits led to it.
look() {
	at=0 batch=0 step=step-000000
	begun || return 0
	read -r at batch < <(rf-dump --tsv --rows step --columns step,commits --no-header "$run" | tail -n 1) ||
		die 66 "$run: no run, or its last step cannot be read"
	printf -v step 'step-%06d' "$at"
}

# order EPOCH: the corpus in the order of an epoch, in a file; those of other epochs go.
order() {
	order=$run/data/epoch-$1.rf
	[ ! -e "$order" ] || return 0
	rm -f "$run"/data/epoch-*.rf
	rf-cat --shuffle --seed "$SEED" --epoch "$1" -o "$order" "$corpus"
}

# The pipeline of this batch, as everyone may type it.
compose() {
	local from=$((batch % per_epoch * size)) model keep='' stream trainer=${TRAIN%% *} judge=${REWARD%%[[:space:]]*}
	printf -v model -- '-m %q%s' "$run/$step" "${COMPUTE:+ $COMPUTE}"
	printf -v line 'rf-cat --range %d:%d %q' "$from" $((from + size)) "$order"
	[ -z "$ENTROPY" ] || line+=" | $ENTROPY $model"
	[ -z "$SELECT" ] || line+=" | $SELECT"
	[ -z "$ROLLOUT" ] || line+=" | $ROLLOUT $model"
	case ${judge##*/} in
	'') ;;
	rf-*) line+=" | $REWARD" ;;
	*) line+=" | rf-reward --exec ${REWARD@Q}" ;;
	esac
	if [ -n "$KEEP" ]; then
		printf -v stream '%q' "$run/streams/$step.rf"
		case ${trainer##*/} in
		rf-grpo) keep=" -o $stream" ;;
		*) line+=" | rf-cat -o $stream && rf-cat $stream" ;;
		esac
	fi
	printf -v model -- '-m %q%s --at %d' "$run" "${COMPUTE:+ $COMPUTE}" "$at"
	printf -v line '%s | %s %s --log %q%s' "$line" "$TRAIN" "$model" "$run/log.jsonl" "$keep"
}

# The figure of the log's last line, or nothing.
figure() {
	tail -n 1 "$run/log.jsonl" 2>/dev/null | awk -v key="\"$1\":" -v name="$2" '
		(i = index($0, key)) { split(substr($0, i + length(key)), v, /[,}]/); printf ", %s %.4g", name, v[1] }'
}

duration() {
	if [ "$1" -lt 100 ]; then
		echo "$1 s"
	else
		echo "$((($1 + 30) / 60)) min"
	fi
}

# A pipeline is a group of processes: whoever ends this script ends all of it, and Ctrl-C does not reach it twice.
set -m
group=
stop() {
	trap '' INT TERM HUP
	if [ -n "$group" ]; then
		kill -TERM -- "-$group" 2>/dev/null || true
		kill -CONT -- "-$group" 2>/dev/null || true
		wait -f "$group" 2>/dev/null || true
	fi
	say "interrupted: the same words go on from here"
	exit "$1"
}
trap 'stop 129' HUP
trap 'stop 130' INT
trap 'stop 143' TERM

# work LINE: a line of the shell, as such a group.
work() {
	local status=0
	{ eval "$1"; } &
	group=$!
	wait -f "$group" || status=$? # -f: to its end, where it may be stopped and continued
	group=
	return "$status"
}

check
mkdir -p "$run/data"

# One loop at a time.  The pipeline inherits the lock: where only the script was killed, its last batch is waited for.
exec 9>"$run/data/.lock"
flock -n 9 || { say "another loop works on $run: waiting for it"; flock 9; }

look
begin
look
[ -z "$KEEP" ] || mkdir -p "$run/streams"
if [ "$batch" -gt "$batches" ]; then
	say "$batch batches are done, more than STEPS=$batches"
elif [ "$batch" -eq "$batches" ]; then
	say "$batch of $batches batches are done"
fi
[ "$batch" -lt "$batches" ] || exit 0

sequences=$(rf-dump --tsv --rows record --columns id --no-header "$corpus" | wc -l)
per_epoch=$((sequences / size))
[ "$per_epoch" -gt 0 ] || die 65 "$corpus has $sequences sequences, fewer than a batch of $size (BATCH=...)"

first=$batch began=$SECONDS
while [ "$batch" -lt "$batches" ]; do
	order $((batch / per_epoch))
	compose
	if [ "$batch" -eq "$first" ]; then
		say "batches $((batch + 1)) to $batches of $size sequences; the first: $line"
		printf '%s\n' "$line" >"$run/data/pipeline"
	fi
	from=$EPOCHREALTIME
	status=0
	work "$line" || status=$?
	[ "$status" -eq 0 ] || die "$status" "batch $((batch + 1)): a stage failed with status $status and said why;" \
		"the same words begin at this batch again"
	before=$batch
	look
	[ "$batch" -gt "$before" ] || die 70 "batch $((before + 1)): no stage failed, and nothing was committed"
	printf '%d\t%d\t%d\n' "$batch" "$at" $((${EPOCHREALTIME/./} - ${from/./})) >>"$run/data/times.tsv"
	say "batch $batch of $batches, step $at$(figure loss/ntp loss)$(figure reward/mean reward)," \
		"$(duration $(((SECONDS - began) * (batches - batch) / (batch - first)))) left"
done
