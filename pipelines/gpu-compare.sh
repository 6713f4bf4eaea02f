#!/bin/bash
# gpu-compare.sh OUT -- what gpu-first.sh measured beside what was reckoned (gpu-predicted.tsv), what follows
# where they differ, and where a pass's time goes, each share with the change that would take it away.
set -eu -o pipefail
here=$(cd -- "$(dirname -- "$0")" >/dev/null && pwd)
if [ $# -ne 1 ] || [ ! -e "$1/parts.tsv" ]; then
	echo "usage: gpu-compare.sh OUT, of gpu-first.sh" >&2
	exit 64
fi
cd "$1"
export LC_ALL=C

# of each part its last try
awk -F '\t' '{ last[$1] = $2 } $2 == "" { next }
	END { for (p in last) if (last[p]) print last[p] "\t" p }' parts.tsv | sort -k2 |
	awk -F '\t' '{ why = $1 == 124 || $1 == 137 ? "out of time" : "status " $1
		if ($1 == 127) why = "no such program"
		print "did not end well: " $2 " (" why ")"
		wrong += $2 ~ /^right-/ }
		END { if (wrong) print "NOT RIGHT: until all of right-* is, no time below means anything" }'

printf '%-28s %10s %10s %7s  %s\n' what predicted measured ratio 'what that says'
grep -v '^#' "$here/gpu-predicted.tsv" | awk -F '\t' '
# the figure before its unit in the line that begins so; of launches of that name those that took most
function figure(file, line, unit,   text, w, n, i) {
	while ((getline text <file) > 0)
		if (index(text, line) == 1) {
			n = split(text, w, " ")
			for (i = 1; i < n; i++)
				if (index(w[i + 1], unit) == 1) { close(file); return w[i] }
		}
	close(file)
	return ""
}
function each(file, kernel,   text, w, n, most, found) {
	while ((getline text <file) > 0)
		if (index(text, kernel) == 1) {
			n = split(substr(text, 65), w, " ")
			if (w[3] + 0 > most) { most = w[3] + 0; found = w[4] }
		}
	close(file)
	return found
}
{
	got = $4 == "each" ? each($2 ".profile", $3) : figure($2 ".txt", $3, $4)
	predicted = $5 " " ($4 == "each" ? "us" : $4)
	if (got == "") { printf "%-28s %10s %10s\n", $1, predicted, "-"; next }
	says = got + 0 < $6 || got + 0 > $7 ? $8 : "as reckoned"
	printf "%-28s %10s %10.2f %7.2f  %s\n", $1, predicted, got, got / $5, says
}'

# shares FILE: of a pass, by what would make them less
shares() {
	awk '
	function change(k) {
		if (k ~ /^product/) return "products: bf16 results (6), larger ones"
		if (k ~ /^round/) return "rounding before products: kernels write bf16 themselves (6)"
		if (k ~ /^CONV/) return "convolutions: (5)"
		if (k ~ /^(prepare|walk|read_out|ready|scan|back|sum_states|between|shared_states)/)
			return "delta rule: inverse by matrix units, K split, bf16 (7); no recomputation (8)"
		if (k ~ /^attn|^ATTN|^forward|^dq|^dkv|^join/)
			return "attention: bf16 K and V by cp.async, then wgmma (9)"
		if (k ~ /feature|learn|momentum|renorm|length|rates/)
			return "fast weights: apply and learn side by side (9)"
		if (k ~ /norm|swiglu|gate|rows|embed|axpy|add_strips/)
			return "rows between products: bf16 (6)"
		if (k ~ /head|fold|ce_|finish|best/) return "head: logits in larger blocks"
		if (k ~ /adamw|dot|sum_/) return "optimizer: at the floor for float32 moments"
		return "other"
	}
	FNR > 1 { name = substr($0, 1, 64); split(substr($0, 65), w, " ")
		if (name ~ /^all /) next
		all += w[3]; calls += w[2]; part[change(name)] += w[3] }
	END { for (c in part) printf "%6.2f %%  %s\n", 100 * part[c] / all, c | "sort -rn"
		close("sort -rn")
		printf "%d launches, %.3f ms; what the clock has beyond that is gaps: graphs (10)\n",
			calls, all
	}' "$1"
}
for profile in *-launches.profile; do
	[ -e "$profile" ] || continue
	printf '\n%s: where the time goes, and what would take it away\n' "${profile%.profile}"
	shares "$profile"
done
