#!/bin/bash
# entropy.sh -- the program of entropy.mk, with its words in the environment.
set -euo pipefail
export LC_ALL=C
lib=$(cd -- "$(dirname -- "$0")" >/dev/null && pwd)
tool=entropy
# shellcheck source=pipelines/lib/picture.sh
. "$lib/picture.sh"

check_gnuplot
# shellcheck disable=SC2153  # a word of entropy.mk
[ -f "$STREAM" ] || die 66 "STREAM='$STREAM': it must be a file, which is a stream with entropies"
stream=$(plain "$STREAM") out=$(plain "$OUT")
mkdir -p -- "$out"
out=$(CDPATH='' cd -- "$out" && pwd)
tmp=$out/entropy.tmp
rm -rf "$tmp"
mkdir "$tmp"
trap 'rm -rf "$tmp"' EXIT

where=()
if [ -n "$ID" ]; then
	where=(--where "id=$ID")
else
	rf-dump --tsv --rows record --columns id -n 1 --no-header "$stream" >"$tmp/id"
	[ -s "$tmp/id" ] || die 65 "$STREAM: the stream has no record"
	where=(--where "id=$(cat "$tmp/id")")
fi
rf-dump --tsv --rows token --columns t,entropy,chosen "${where[@]}" "$stream" \
	>"$tmp/tokens" 2>"$tmp/said" || {
	status=$?
	cat "$tmp/said" >&2
	exit "$status"
}
[ "$(wc -l <"$tmp/tokens")" -gt 1 ] || die 65 "$STREAM: no record has the id $ID"
awk -F '\t' 'NR > 1 && $2 != "NaN" { found = 1 } END { exit !found }' <"$tmp/tokens" ||
	die 65 "$STREAM: the sequence has no entropies (rf-entropy writes them)"
if rf-dump --head "$stream" | grep -q '^tokenizer  *kind "bytes"'; then
	echo byte
else
	echo token
fi >"$tmp/unit"
cd "$tmp"
# one line for each token, however many positions were chosen at it
awk -F '\t' -v OFS='\t' 'NR == 1 || $1 != t { if (NR > 1) print line; line = $0; t = $1 }
	$3 == 1 { line = $0 } END { print line }' tokens >entropy.tsv
cp entropy.tsv tokens
tail -n +2 tokens | awk -F '\t' -v width=5 -v columns=2 -f "$lib/running.awk" | cut -f 1,2 >mean
tail -n +2 tokens | paste mean - | awk -F '\t' -v OFS='\t' '$5 == 1 { print $1, $2 }' >chosen
CHUNKS=$(wc -l <chosen) gnuplot "$lib/style.gp" "$lib/entropy-figure.gp"
mv "entropy.$FORMAT" "$out/entropy.$FORMAT"
mv entropy.tsv "$out/entropy.tsv"
say "$OUT/entropy.$FORMAT, $OUT/entropy.tsv"
