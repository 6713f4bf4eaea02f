#!/bin/bash
# study-measure.sh MODEL FOLDER OUT [FIGURES] -- measures a model on the questions and texts in a folder,
# valid or test of study-data.sh, and writes lines "figure<TAB>value":
#
#     text.nll, text.accuracy, text.entropy       next tokens of text, nats
#     facts-1.nll, facts-1.score, ... -2, -4      facts at 1, 2 and 4 times the length of training: the nll of
#                                                 the right answer's tokens; the score of greedy answers in
#                                                 percent
#     needle-1.nll, needle-1.score, ...           the same for needles
#     greedy.cosine, greedy.binary                rewards of the most probable rollout of 5 tokens
#     sampled.cosine, sampled.binary              mean rewards of 4 drawn rollouts, at the same positions,
#                                                 with the same random numbers for every model
#
# and next to OUT a page with 20 of the sampled rollouts (.html).
#
# With the FIGURES answers, it measures only the nll of answers at the first two lengths, by which settings
# are chosen.
# From the environment: COMPUTE, options of the programs that have a model.
set -euo pipefail
export LC_ALL=C

[ $# -ge 3 ] || { echo 'usage: study-measure.sh MODEL FOLDER OUT [FIGURES]' >&2; exit 64; }
model=$1 data=$2 out=$3 figures=${4:-all}
mkdir -p "$(dirname "$out")"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
read -ra compute <<<"${COMPUTE:-}"
run() { "$1" -m "$model" ${compute[@]+"${compute[@]}"} "${@:2}"; }

# field NAME KEY: reads a line of JSON whose key has the figure NAME, and prints what one jq at the end turns
# into the line of this figure
field() { sed "s/.*/[\"$1\",\"$2\",&]/"; }

answers() {
	run rf-ntp --eval --loss response "$data/$1.ask.rf" | field "$1.nll" nll
}
scores() {
	run rf-generate --max-new "$2" --stop $'\n' "$data/$1.rf" |
		rf-score --metric all --task "$1" --by length | field "$1.score" score
}
rewards() {
	run rf-rollout --draw-step 0 "${@:2}" "$tmp/places" | rf-reward -o "$tmp/rewarded"
	rf-dump --tsv --rows rollout --columns cosine,binary --no-header "$tmp/rewarded" |
		awk -v name="$1" '{ c += $1; b += $2 }
			END { printf "%s.cosine\t%.6f\n%s.binary\t%.6f\n", name, c / NR, name, b / NR }'
}

{
	if [ "$figures" = answers ]; then
		for times in 1 2; do
			answers facts-$times
			answers needle-$times
		done
	else
		run rf-ntp --eval "$data/text.rf" >"$tmp/text"
		field text.nll nll <"$tmp/text"
		field text.accuracy accuracy <"$tmp/text"
		run rf-entropy "$data/text.rf" |
			rf-dump --tsv --rows token --columns entropy --no-header 2>/dev/null |
			awk '{ s += $1 } END { printf "text.entropy\t%.6f\n", s / NR }'
		for times in 1 2 4; do
			answers facts-$times
			scores facts-$times 16
			answers needle-$times
			scores needle-$times 48
		done
		run rf-entropy "$data/places.rf" -o "$tmp/places"
		rewards greedy -n 1 --top-k 1
		rewards sampled -n 4
	fi
} | jq -rR 'if startswith("[") then fromjson | [.[0], .[2][.[1]]] | @tsv else . end' >"$tmp/out"
[ "$figures" = answers ] ||
	"$(dirname -- "$0")/../lib/sample-page.sh" rollout "$model" "${out%.tsv}.html" "$tmp/rewarded"
mv "$tmp/out" "$out.tmp"
mv "$out.tmp" "$out"
