#!/bin/bash
# estimate.sh RUN -- says how long make midtrain will still take: from a small batch of each run, 20 sequences
# of the warm-up and 8 of the others, and eight documents, which it times once, in RUN/speed; what they made
# is thrown away.  Called by demo.mk, whose words it has in its environment, with the commands that run a
# batch as SPEED_start, SPEED_sft, SPEED_refine and SPEED_refine_n8.
#
# RUN/speed.tsv: of each run and of the evaluations how many there are, and the seconds of each.
set -euo pipefail
export LC_ALL=C

[ $# -eq 1 ] || { echo 'usage: estimate.sh RUN' >&2; exit 64; }
run=$1 here=$(dirname -- "$0")
kinds=(start sft sft-published refine refine-n8 random)

# timed NAME COUNT SIZE KIND SMALL: a line of the table: COUNT batches of SIZE sequences, estimated from the
# batch of SMALL sequences that KIND was timed with
timed() {
	awk -v name="$1" -v count="$2" -v times="$3/$5" '
		{ split(times, n, "/"); printf "%s\t%d\t%.2f\n", name, count, $3 / 1e6 * n[1] / n[2] }' \
		<"$run/speed/$4/data/times.tsv"
}

measure() {
	local kind name began documents
	rm -rf "$run/speed"
	mkdir "$run/speed"
	for kind in start sft refine refine-n8; do
		name=SPEED_${kind//-/_}
		bash -c "${!name}" >"$run/speed/log" 2>&1 || {
			cat "$run/speed/log" >&2
			exit 70
		}
	done
	rf-cat --range 0:8 -o "$run/speed/valid.rf" "$run/valid.rf"
	documents=$(rf-dump --tsv --rows record --columns id --no-header "$run/valid.rf" | wc -l)
	began=${EPOCHREALTIME/./}
	K=5 N=4 "$here/../lib/evaluate.sh" "$run/fresh" "$run/speed/valid.rf" "$run/speed/eval"
	{
		timed start $((WARM_STEPS / 40)) 40 start 20
		timed sft "$BATCHES" "$BATCH" sft 8
		timed sft-published "$BATCHES" "$BATCH" sft 8
		timed refine "$BATCHES" "$BATCH" refine 8
		timed refine-n8 "$BATCHES" "$BATCH" refine-n8 8
		timed random "$BATCHES" "$BATCH" refine 8
		awk -v t=$((${EPOCHREALTIME/./} - began)) -v n="$documents" \
			'BEGIN { printf "eval\t6\t%.2f\n", t / 1e6 * (n > 8 ? n / 8 : 1) }'
	} >"$run/speed.tmp"
	rm -rf "$run/speed"
	mv "$run/speed.tmp" "$run/speed.tsv"
}

[ -e "$run/speed.tsv" ] || measure
for kind in "${kinds[@]}"; do
	[ ! -e "$run/$kind/data/times.tsv" ] || echo "$kind $(wc -l <"$run/$kind/data/times.tsv")"
	[ ! -e "$run/eval/$kind.documents.tsv" ] || echo eval 1
done | awk -v now="$(date +%s)" '
	NR == FNR { left[$1] = $2; each[$1] = $3; next }
	{ left[$1] -= $2 }
	END {
		for (name in left)
			seconds += each[name] * (left[name] > 0 ? left[name] : 0)
		if (seconds < 100)
			printf "midtrain: about %d s to go\n", seconds
		else
			printf "midtrain: about %.1f min to go, until %s\n", seconds / 60,
				strftime("%H:%M", now + seconds)
	}' <(cat -- "$run/speed.tsv") - >&2
