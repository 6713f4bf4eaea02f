#!/bin/bash
# eval-step.sh -- evaluates a step after a batch of rf-loop, with the variables of rf-loop and EVAL, EVERY,
# EVALUATE and MODEL of loop.mk in the environment.  Writes a line of RUN/eval.jsonl: the losses of EVAL, and
# with eval_line the mean reward of its rollouts.  The first line is that of step 0.  A step has one line,
# however often the script is called or killed.
#
# KEEP_BEST=nll, accuracy, ntp_accuracy or reward: RUN/best is then a copy of the best of these steps, by hard
# links, because the trainer removes old steps.  A line may also call ntp_accuracy probability.
#
# eval-step.sh check [MODEL] -- checks that EVAL exists and is the file that RUN's lines are about.  While RUN
# has no line, EVAL may be any file whose first sequence EVALUATE can evaluate with RUN, or with MODEL before
# RUN exists.
# eval-step.sh keep -- makes RUN/best only, for another KEEP_BEST than that of RUN's lines.
# eval-step.sh only -- writes the line of STEP only, whatever its batch.  RUN may come from another user, so
# the command for its rewards that RUN names is run only if all its stages are programs of rf-tools.
set -euo pipefail
export LC_ALL=C
lib=$(cd -- "$(dirname -- "$0")" >/dev/null && pwd)
# shellcheck source=pipelines/lib/shown.sh
. "$lib/shown.sh"

case $EVAL in -*) EVAL=./$EVAL ;; esac # else programs would take it for an option

# check_same: checks that EVAL and the commands are those of RUN's lines
check_same() {
	"$lib/check.sh" words "$RUN/eval.words" EVALUATE -- "$EVAL"
	[ -z "${eval_line:-}" ] || "$lib/check.sh" words "$RUN/eval-reward.words" eval_line -- "$EVAL"
}

# print_rewards DIR: prints the rewards of rollouts by the weights in DIR, as members of a line of JSON
print_rewards() {
	[ -n "${eval_line:-}" ] || return 0
	bash -e -o pipefail -c "$eval_line" rollouts "$1" | rf-dump --json --no-hidden |
		jq -njr 'reduce (inputs | select(.type == "seq").body.reward | values) as $r ({ n: 0 };
				.n += ($r.total.data | length) | .sum += ($r.total.data | add)
				| .kind = if (.kind // $r.kind) == $r.kind then $r.kind else "mixed" end)
			| if .n > 0 then {"reward/mean": (.sum / .n), "reward/kind": .kind, rollouts: .n}
				| tojson | "," + .[1:-1] else "" end'
}

# has_line STEP: succeeds if RUN has the whole line of this step
has_line() { grep -q "^{\"step\":$1,.*}\$" "$RUN/eval.jsonl" 2>/dev/null; }

# add_line DIR STEP: evaluates the weights in DIR and adds the line of this step, in the order of steps
add_line() {
	local said rewarded
	! has_line "$2" || return 0
	# shellcheck disable=SC2086  # options
	said=$(bash -eu -o pipefail -c "$EVALUATE"' "$@"' evaluate -m "$1" ${COMPUTE:-} "$EVAL")
	rewarded=$(print_rewards "$1")
	{
		# leaves out a line that a crash cut; its step is evaluated again
		[ ! -e "$RUN/eval.jsonl" ] || sed -n '/}$/p' "$RUN/eval.jsonl"
		said=${said#\{}
		printf '{"step":%d,%s%s}\n' "$2" "${said%\}}" "$rewarded"
	} | sort -t : -k 2n >"$RUN/eval.jsonl.tmp"
	mv "$RUN/eval.jsonl.tmp" "$RUN/eval.jsonl"
}

# rank_steps: prints the steps of the lines that have the figure of KEEP_BEST, the best step first
rank_steps() {
	sed -n '/}$/p' "$RUN/eval.jsonl" |
		jq -sr --arg by "$KEEP_BEST" '($by | if . == "reward" then "reward/mean" else . end) as $key
			| map(.ntp_accuracy //= .probability)
			| map(select((.[$key] | type == "number") and (.step | type == "number")))
			| sort_by(.[$key] * if $by == "nll" then 1 else -1 end)[].step'
}

# keep_best: points RUN/best to a copy of the best step that RUN still has, and removes earlier copies
keep_best() {
	local at kept='' gone='' said why
	said=$(printf '%s: KEEP_BEST=%s' "${PHASE:-$RUN}" "$KEEP_BEST")
	if [ -e "$RUN/best" ] && [ ! -L "$RUN/best" ]; then
		printf '%s: %s/best is no link that KEEP_BEST made: move it away\n' "$said" "$RUN" >&2
		exit 73
	fi
	for at in $(rank_steps); do
		kept=$(printf 'step-%06d' "$at")
		[ "$(readlink "$RUN/best" || true)" != "best-$kept" ] || return 0
		[ ! -e "$RUN/$kept" ] || break
		gone=${gone:-$at} kept=''
	done
	if [ -z "$kept" ]; then
		why='no line of RUN/eval.jsonl has this figure'
		[ -z "$gone" ] || why='the steps of RUN/eval.jsonl were removed'
		printf '%s: RUN/best stays as it is, because %s\n' "$said" \
			"$why" >&2
		return 0
	fi
	[ -z "$gone" ] ||
		printf '%s: step %d is better than step %d, but it was removed\n' "$said" "$gone" "$at" >&2
	rm -rf "${RUN:?}/best-$kept" "$RUN/.best"
	cp -al "$RUN/$kept" "$RUN/best-$kept"
	ln -s "best-$kept" "$RUN/.best"
	mv -T "$RUN/.best" "$RUN/best"
	find "$RUN" -maxdepth 1 -name 'best-step-*' ! -name "best-$kept" -exec rm -rf {} +
}

# evaluate_first MODEL: evaluates the first sequence of EVAL
evaluate_first() {
	local status=0
	tmp=$(mktemp -d)
	trap 'rm -rf "$tmp"' EXIT
	# shellcheck disable=SC2086  # options
	{ rf-cat --range 0:1 -o "$tmp/first.rf" "$EVAL" &&
		bash -eu -o pipefail -c "$EVALUATE"' "$@"' evaluate -m "$1" ${COMPUTE:-} "$tmp/first.rf"
	} >/dev/null || status=$?
	[ "$status" -eq 0 ] || {
		printf "EVAL='%s': EVALUATE='%s' cannot evaluate it with %s (the reason is above)\n" \
			"$EVAL" "$EVALUATE" "$1" >&2
		exit "$status"
	}
}

# is_safe LINE: succeeds if each stage is a program of rf-tools with plain words, which starts no other
# program and writes only to the next stage
is_safe() {
	local stage word words
	while IFS= read -r stage; do
		read -ra words <<<"$stage"
		[[ ${words[0]-} =~ ^rf-(cat|select|rollout|reward)$ ]] || return 1
		for word in "${words[@]:1}"; do
			# shellcheck disable=SC2016  # as the line has them
			case $word in
			'"$EVAL"' | '"$1"' | '$COMPUTE') ;;
			-o* | --o* | --ex*) return 1 ;;
			*) [[ $word =~ ^[-A-Za-z0-9_.,:=+/]+$ ]] || return 1 ;;
			esac
		done
	done < <(tr '|' '\n' <<<"$1")
}

if [ "${1:-}" = check ]; then
	if [ ! -f "$EVAL" ]; then
		printf "EVAL='%s': it must be a file of sequences, as valid.rf\n" "$EVAL" >&2
		exit 66
	fi
	if [ -s "$RUN/eval.jsonl" ]; then
		[ ! -e "$RUN/eval.words" ] || check_same
	elif [ -e "$RUN/latest" ]; then
		evaluate_first "$RUN"
	elif [ -e "${2:-}" ]; then
		evaluate_first "$2"
	fi
	exit 0
fi
if [ "${1:-}" = only ] && [ -f "$RUN/eval-reward.words" ]; then
	eval_line=$(sed -n 's/^eval_line=//p' <"$RUN/eval-reward.words")
	if ! is_safe "$eval_line"; then
		has_line "$AT" ||
			printf '%s: the rewards are made by a command that is not one of %s %s %s\n' \
				"$(shown "$RUN/eval-reward.words")" \
				'rf-tools, so it is not run, and the line of' \
				"$(shown "${STEP##*/}")" 'has no reward' >&2
		eval_line=''
	fi
fi
export eval_line
report_failure() {
	[ "$1" -eq 0 ] || printf "EVAL='%s': the evaluation failed (the reason is above)\n" "$EVAL" >&2
}
trap 'report_failure $?' EXIT
[ "${1:-}" != keep ] || [ -s "$RUN/eval.jsonl" ] || exit 0
exec 9>"$RUN/.eval" # a training run and curves.sh may evaluate at the same time
flock 9
if [ "${1:-}" = keep ]; then
	keep_best
	exit 0
fi
[ -s "$RUN/eval.jsonl" ] || rm -f "$RUN/eval.words" "$RUN/eval-reward.words"
check_same
if [ "${1:-}" = only ]; then
	add_line "$STEP" "$AT"
	exit 0
fi
if [ ! -e "$RUN/eval.jsonl" ]; then
	# a checkpoint does not change; a run in MODEL may have trained on since
	if [ -e "$RUN/step-000000" ]; then
		add_line "$RUN/step-000000" 0
	elif [ ! -e "$MODEL/latest" ]; then
		add_line "$MODEL" 0
	fi
	# the trainer may remove step 0 before the next evaluation
	[ -z "${KEEP_BEST:-}" ] || [ ! -e "$RUN/eval.jsonl" ] || keep_best
fi
[ $(((BATCH + 1) % EVERY)) -eq 0 ] || exit 0
add_line "$STEP" "$AT"
[ -z "${KEEP_BEST:-}" ] || keep_best
