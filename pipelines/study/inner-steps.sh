#!/bin/bash
# inner-steps.sh RUN -- computes a table from the results of inner-steps.mk, prints it, and writes it to
# RUN/inner-steps.md, with all figures in RUN/figures.tsv.  Settings come from the environment.
set -euo pipefail
export LC_ALL=C

[ $# -eq 1 ] || { echo 'usage: inner-steps.sh RUN' >&2; exit 64; }
run=$1
here=$(cd -- "$(dirname -- "$0")" >/dev/null && pwd)

# results of an older rf-ntp have ntp_accuracy under the name probability
for arm in $ARMS; do
	for seed in $SEEDS; do
		line=$(<"$run/$arm/$seed.json")
		printf '["%s","%s",%s]\n' "$arm" "$seed" "$line"
	done
done | jq -r '. as [$arm, $seed, $of]
	| ["nll", $of.nll], ["accuracy.points", 100 * $of.accuracy],
		["ntp_accuracy.points", 100 * ($of.ntp_accuracy // $of.probability)]
	| ["mid", "all", $arm, $seed] + . | @tsv' >"$run/figures.tsv.tmp"
mv "$run/figures.tsv.tmp" "$run/figures.tsv"

steps() { rf-dump --tsv --rows step --columns step --no-header "$run/$1/${SEEDS%% *}" | tail -n 1; }
{
	awk -f "$here/../lib/tables.awk" -f "$here/compare.awk" -f "$here/inner-steps.awk" \
		<"$run/figures.tsv"
	echo
	echo "Differences seed by seed (seeds $SEEDS), each an order of the same texts. ± is half of the 95 %"
	echo "interval over the seeds, and * marks an interval without 0. $BATCHES batches of $BATCH"
	echo "sequences, mini-batches of $MINI_BATCH, learning rate $LR. Optimizer steps:" \
		"$(for arm in $ARMS; do echo "$arm $(steps "$arm")"; done | paste -sd, | sed 's/,/, /g')."
} >"$run/inner-steps.md.tmp"
mv "$run/inner-steps.md.tmp" "$run/inner-steps.md"
cat "$run/inner-steps.md"
