#!/bin/bash
# surprise.sh [AHEAD] -- a reward for rf-reward --exec: the probability of the text after a rollout, by the
# weights in $STEP.
#
#     make -f pipelines/midtrain.mk ... REWARD=pipelines/examples/surprise.sh
#
# R = mean log-probability of the AHEAD=16 tokens of the text after the k tokens of a rollout, given the text
# before the rollout, and the rollout instead of the text's k tokens: minus the surprise of the text under the
# state that the rollout left.  So the reward does not ask whether a rollout has the words of the text, but
# whether the model, after writing it, still knows the continuation.  If the text ends at the rollout, R is 0.
set -euo pipefail

: "${STEP:?is not set: it is the model, as rf-loop has it}"
ahead=${1:-16}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cat >"$tmp/records"

# A question for each position: the prompt is the text before it, and each choice is a rollout, whose tokens
# do not count, followed by the text.  Its meta names record and position.
{
	jq -c '{seq: 0, type: "head", body: {format: 1, vocab: .vocab_size}}' "$STEP/config.json"
	jq -c --argjson ahead "$ahead" '.body | .id as $record | .tokens.data as $text
		| .rollout.tokens.data as $rollout | .rollout.tokens.shape as [$c, $n, $k] | range($c) as $i
		| .positions.data[$i] as $s | $text[$s + $k:$s + $k + $ahead] as $next
		| ($k + ($next | length)) as $length | {
			tokens: {dtype: "<i4", shape: [$s], data: $text[:$s]},
			meta: {at: "\($record) \($i)"},
			choice: {
				tokens: {dtype: "<i4", shape: [$n, $length], data: [
					range($i * $n * $k; ($i + 1) * $n * $k; $k) as $from
					| $rollout[$from:$from + $k][], $next[]]},
				length: {dtype: "<i4", shape: [$n], data: [range($n) | $length]},
				from: {dtype: "<i4", shape: [$n], data: [range($n) | $k]}
			}
		} | select($length > $k)' "$tmp/records" |
		jq -nc 'foreach inputs as $x (0; . + 1; {seq: ., type: "seq", body: ({id: .} + $x)})'
} >"$tmp/questions"
lines=$(wc -l <"$tmp/questions")
jq -nc --argjson n $((lines - 1)) \
	'{seq: ($n + 1), type: "end", body: {count: $n, xxh64: 0}}' >>"$tmp/questions"

# shellcheck disable=SC2086  # COMPUTE is options
rf-cat --json "$tmp/questions" | rf-logp -m "$STEP" ${COMPUTE:-} 2>"$tmp/log" | rf-dump --json |
	jq -nc '[inputs | select(.type == "seq").body | {
		key: .meta.at,
		value: (.choice | [.logp.data, .length.data, .from.data] | transpose
			| map(.[0] / (.[1] - .[2])))
	}] | from_entries' >"$tmp/answers" || { cat "$tmp/log" >&2; exit 70; }

jq -c --slurpfile answers "$tmp/answers" '.body | .id as $record | .rollout.tokens.shape as [$c, $n]
	| {id: $record, total: [range($c) | $answers[0]["\($record) \(.)"] // [range($n) | 0]]}' \
	"$tmp/records"
