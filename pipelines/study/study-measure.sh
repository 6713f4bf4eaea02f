#!/bin/bash
# study-measure.sh MODEL QUESTIONS OUT [VALID] -- measures a model on the questions and texts in the folder
# QUESTIONS, and writes lines "figure<TAB>value".  L is the number of facts in a document: 8, 16, 32.
#
#     weights        the hash of the weights, if the model is a run
#     temperature    the best temperature: it gives words 2 to 4 of the answers in the folder VALID the fewest
#                    nats, as the vertex of a parabola over its logarithm.  Without VALID it is 1
#     plain          nats per word of words 2 to 4 of the answers in VALID, at temperature 1: the mean over
#                    loads
#     exact-L        answers whose four words are all the most probable ones, in percent: the greedy answers
#                    that are right
#     later-L        nats per word of the right answer's words 2 to 4, after its first word, at this
#                    temperature
#     whole-L        the same for all four words
#     text.nll, text.accuracy
#                    next tokens of text, nats, at temperature 1
#
# From the environment: COMPUTE, options of the programs that have a model.
set -euo pipefail
export LC_ALL=C

[ $# -eq 3 ] || [ $# -eq 4 ] || { echo 'usage: study-measure.sh MODEL QUESTIONS OUT [VALID]' >&2; exit 64; }
model=$1 questions=$2 out=$3 valid=${4:-}
here=$(dirname -- "$0")
[ ! -e "$model/latest" ] || model=$model/latest
mkdir -p "$(dirname -- "$out")"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
read -ra compute <<<"${COMPUTE:-}"

# tempered TEMPERATURE: prints the model at this temperature
tempered() {
	if [ "$1" = 1 ]; then
		echo "$model"
	else
		[ -e "$tmp/at-$1" ] || "$here/study-temper.py" "$model" "$1" "$tmp/at-$1"
		echo "$tmp/at-$1"
	fi
}

# asked FOLDER TEMPERATURE: prints a line for each load: its name, the share of exact answers in percent, and
# the nats per word of words 2 to 4 and of all words
asked() {
	local file load at
	at=$(tempered "$2")
	for file in "$1"/facts-*.rf; do
		load=${file##*/facts-}
		rf-logp -m "$at" ${compute[@]+"${compute[@]}"} "$file" |
			rf-dump --tsv --rows choice --columns choice,logp,greedy --no-header |
			awk -v load="${load%.rf}" '
				$1 % 2 { later -= $2 / 3; next }
				{ n++; whole -= $2 / 4; exact += $3 }
				END { printf "%d\t%.4f\t%.6f\t%.6f\n", load, 100 * exact / n, later / n,
					whole / n }'
	done
}

# later FOLDER TEMPERATURE: prints the mean over loads of the nats per word of words 2 to 4
later() { asked "$1" "$2" | awk '{ s += $3 } END { printf "%.6f\n", s / NR }'; }

best=1
if [ "$valid" ]; then
	step=0.25 # of the logarithm of the temperature
	cold=$(later "$valid" "$(awk "BEGIN { printf \"%.6f\", exp(-$step) }")")
	same=$(later "$valid" 1)
	hot=$(later "$valid" "$(awk "BEGIN { printf \"%.6f\", exp($step) }")")
	best=$(awk -v a="$cold" -v b="$same" -v c="$hot" -v step=$step 'BEGIN {
		curve = a - 2 * b + c
		at = curve > 0 ? step * (a - c) / (2 * curve) : (a < c ? -step : step)
		limit = 2 * step
		printf "%.6f", exp(at > limit ? limit : at < -limit ? -limit : at) }')
fi
{
	[ ! -e "$model/state.json" ] || jq -r '"weights\t\(.weights)"' "$model/state.json"
	[ ! "$valid" ] || printf 'temperature\t%s\nplain\t%s\n' "$best" "$same"
	asked "$questions" "$best" |
		awk '{ printf "exact-%d\t%s\nlater-%d\t%s\nwhole-%d\t%s\n", $1, $2, $1, $3, $1, $4 }'
	rf-ntp --eval -m "$model" ${compute[@]+"${compute[@]}"} "$questions/text.rf" |
		jq -r '"text.nll\t\(.nll)", "text.accuracy\t\(.accuracy)"'
} >"$tmp/out"
mv "$tmp/out" "$out.tmp"
mv "$out.tmp" "$out"
