#!/bin/bash
# curves.sh -- what curves.mk runs, with its words in the environment.
set -euo pipefail
export LC_ALL=C
here=$(dirname "$0")

die() {
	local status=$1
	shift
	printf 'curves: %s\n' "$*" >&2
	exit "$status"
}

# numbers RUN: a line for each step: run, step, nll, accuracy, loss, reward.  A log may have lines twice, of a
# batch that was trained again after a kill; the last one counts.
numbers() {
	local files=()
	[ ! -e "$1/eval.jsonl" ] || files+=("$1/eval.jsonl")
	[ ! -e "$1/log.jsonl" ] || files+=("$1/log.jsonl")
	jq -r '[.step, .nll, .accuracy, ."loss/ntp", ."reward/mean"] | map(. // "NaN" | tostring)
		| join("\t")' "${files[@]}" | awk -F '\t' -v OFS='\t' -v run="$1" '
		{
			seen[$1]
			for (i = 2; i <= NF; i++)
				if ($i != "NaN")
					value[$1, i] = $i
		}
		END {
			for (step in seen) {
				line = run OFS step
				for (i = 2; i <= 5; i++)
					line = line OFS ((step, i) in value ? value[step, i] : "NaN")
				print line
			}
		}' | sort -t $'\t' -k 2n
}

# about RUN: by what command its lines were made, and size and hash of what they are about
about() { sed -n '/^EVALUATE=/p; s/^\([0-9]* bytes, sha256 [0-9a-f]*\).*/\1/p' "$1/eval.words"; }

command -v gnuplot >/dev/null || die 69 'gnuplot is not installed (make deps)'
first=
for run in $RUNS; do
	[ -e "$run/latest" ] || die 66 "$run is no run"
	if [ -n "$EVAL" ]; then
		RUN=$run "$here/eval-step.sh" check
		for step in "$run"/step-*; do
			at=$((10#${step##*-}))
			RUN=$run STEP=$step AT=$at "$here/eval-step.sh" only
		done
	fi
	[ -e "$run/eval.jsonl" ] || [ -e "$run/log.jsonl" ] ||
		die 66 "$run has neither eval.jsonl nor log.jsonl: EVAL=valid.rf writes the first"
	[ -e "$run/eval.words" ] || continue
	first=${first:-$run}
	[ "$(about "$run")" = "$(about "$first")" ] ||
		die 65 "$first and $run were evaluated on different texts, or by another EVALUATE," \
			"so they cannot be compared"
done

mkdir -p "$OUT"
tmp=$OUT/curves.tmp
rm -rf "$tmp"
mkdir "$tmp"
trap 'rm -rf "$tmp"' EXIT
{
	printf 'run\tstep\tnll\taccuracy\tloss\treward\n'
	for run in $RUNS; do numbers "$run"; done
} >"$tmp/curves.tsv"

# a file for each curve, and a panel for each column that has any
panels='' i=0
for run in $RUNS; do
	i=$((i + 1))
	for column in 3 4 5 6; do
		awk -F '\t' -v run="$run" -v of=$column \
			'NR > 1 && $1 == run && $of != "NaN" { print $2, $of }' \
			"$tmp/curves.tsv" >"$tmp/$i.$column"
		[ ! -s "$tmp/$i.$column" ] || panels+=" $column"
	done
done
panels=$(tr ' ' '\n' <<<"$panels" | sort -u | paste -sd ' ')
gnuplot -e "tmp='$tmp'; runs='$RUNS'; panels='$panels'" "$here/curves.gp"
mv "$tmp/curves.tsv" "$OUT/curves.tsv"
mv "$tmp/curves.png" "$OUT/curves.png"
printf 'curves: %s, %s\n' "$OUT/curves.png" "$OUT/curves.tsv" >&2
