#!/bin/bash
# gpu-compare.sh DIR -- reads the output of gpu-first.sh in DIR.  It prints which parts failed, whether all
# results are right, the predicted (gpu-predicted.tsv) and measured figures, what a difference means, and
# how much time of a pass each kind of kernel takes.  gpu-first.md explains the lines.
set -eu -o pipefail
here=$(cd -- "$(dirname -- "$0")" >/dev/null && pwd)
if [ $# -ne 1 ] || [ ! -e "$1/parts.tsv" ]; then
	echo "usage: gpu-compare.sh DIR, the output of gpu-first.sh or its first.tgz unpacked" >&2
	exit 64
fi
cd "$1"
if [ -e first.tgz ]; then
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	tar -xzf first.tgz -C "$work"
	cd "$work"
fi
export LC_ALL=C
shopt -s nullglob

# ---- failures ---------------------------------------------------------------------------------

# reads the name of each part and its last status
statuses=$(awk -F '\t' '{ last[$1] = $2 } END { for (p in last) print p "\t" last[p] }' parts.tsv | sort)

awk -F '\t' '
	$2 && $1 !~ /^right-.*-sync$/ {
		why = "failed with status " $2
		if ($2 == -1)
			why = "not begun, for too little time was left"
		if ($2 == -2)
			why = "no such program"
		if ($2 == -3)
			why = "interrupted"
		if ($2 == 124 || $2 == 137)
			why = "out of time"
		if (!(why in parts))
			order[++n] = why
		parts[why] = parts[why] (parts[why] == "" ? "" : ", ") $1
	}
	END { for (i = 1; i <= n; i++) print order[i] ": " parts[order[i]] }' <<<"$statuses"
if grep -q '^open	[^0-]' <<<"$statuses"; then
	echo 'NOTHING RUNS: the plugin does not load, or no kernel launches:'
	sed 's/^/    /; 15q' open.txt
	[ ! -s loads.txt ] || sed -n '/not found/s/^/    /p' loads.txt
	[ ! -s nvidia-smi.txt ] || sed 's/^/    /; 15q' nvidia-smi.txt
fi

# ---- right and wrong results ------------------------------------------------------------------

awk -F '\t' '/^(right|programs)-/ && $2 > 0 { wrong = 1 }
	/^right-/ { asked = 1; if (!$2) checked = 1 }
	END {
		if (asked && !checked)
			print "NOT CHECKED: no unit program ran well"
		if (wrong)
			print "NOT RIGHT: right-* or programs-* failed: no time below counts"
	}' <<<"$statuses"
for unit in right-*.txt; do
	sed -n "/^Bail out!\|^not ok/s/^/${unit%.txt}: /p" "$unit" | cut -c 1-200
done
for again in right-*-again.txt; do
	one=$(grep '^# bits of all outputs' "${again%-again.txt}.txt" 2>/dev/null) || continue
	two=$(grep '^# bits of all outputs' "$again") || continue
	[ "$one" = "$two" ] || echo "NOT RIGHT: ${again%-again.txt}: two runs gave different bits: a race"
done
for programs in programs-*.txt; do
	sed "s/^/${programs%.txt}: /" "$programs"
done

# Weights are random, so the entropy is a little below ln N.
for file in *.txt; do
	awk -v part="${file%.txt}" '/^entropy .* nats, ln N / { if (!($2 > $NF - 1 && $2 <= $NF))
		print "NOT RIGHT: " part ": the mean entropy is " $2 " nats, and ln N is " $NF }' "$file"
done

# compare_passes A B: compares two passes of a model, with any length of segments and any type: the mean
# entropy, the entropy of each token (in standard deviations of the tokens' entropies), and the norm of each
# weight's gradient.  Rounding to bf16 changes tokens of DeltaNet-1.3B by up to 0.4 deviations; a wrong number
# changes some tokens by three deviations.
compare_passes() {
	awk -F '\t' -v a="${1%.values}" -v b="${2%.values}" '
	function size(x) { return x < 0 ? -x : x }
	function worse(x, y) { return x != x || x > y ? x : y }
	FNR == NR { first[$1, $2] = $3; all++; next }
	!(($1, $2) in first) { lacks++; next }
	{ met++; x = first[$1, $2]; d = size(x - $3) }
	$3 !~ /^-?[0-9]/ || x !~ /^-?[0-9]/ { lacks++; next }
	$1 == "entropy" { n++; sum += x; squares += x * x; other += $3; token = worse(d, token) }
	$1 == "gradient" { gradients++; norm = worse(x > 0 ? d / x : d, norm) }
	END {
		deviation = n ? sqrt(worse(squares / n - (sum / n) ^ 2, 0)) : 0
		mean = n ? size(sum - other) / n : 0
		lacks += all - met
		bad = lacks || !n || !gradients || mean > 1e-3 || token > 2 * deviation || norm > 0.1
		printf("%s%s and %s: mean entropies differ by %.1e (of 1e-3), a token'\''s by %.2f " \
			"deviations (of 2), norms of gradients by %.1f %% (of 10)%s\n",
			(bad ? "NOT RIGHT: " : ""), a, b, mean, (deviation > 0 ? token / deviation : 0),
			100 * norm,
			(lacks ? "; " lacks " numbers are missing or NaN" : ""))
	}' "$1" "$2"
}
declare -A reference=()
while read -r part _; do
	[ -s "$part.values" ] || continue
	model=${part%-*}
	if [ -n "${reference[$model]:-}" ]; then
		compare_passes "${reference[$model]}" "$part.values"
	else
		reference[$model]=$part.values
	fi
done <parts.tsv

# ---- times ------------------------------------------------------------------------------------

printf '%-28s %12s %10s %7s  %s\n' what predicted measured ratio 'what that says'
grep -v '^#' "$here/gpu-predicted.tsv" | awk -F '\t' '
# Returns the figure before its unit in the line that begins with `line`.
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
# Returns the time of one launch of a kernel.  If launches have several sizes, the size that took most time
# in all counts.
function each(file, kernel,   text, w, n, most, found) {
	while ((getline text <file) > 0)
		if (index(text, kernel) == 1) {
			n = split(substr(text, 65), w, " ")
			if (w[3] + 0 > most) { most = w[3] + 0; found = w[4] }
		}
	close(file)
	return found
}
# Returns the sentence for a figure above or below its prediction.
function side(which, sentences,   s, n, i) {
	n = split(sentences, s, "; ")
	for (i = 1; i <= n; i++)
		if (index(s[i], which) == 1 || s[i] !~ /^(more|less)/)
			return s[i]
	return which " than predicted"
}
{
	got = $4 == "each" ? each($2 ".profile", $3) : figure($2 ".txt", $3, $4)
	predicted = $5 " " ($4 == "each" ? "us" : $4)
	if (got == "") { missing++; next }
	says = "as predicted"
	if (got !~ /^-?[0-9]/)
		says = "NOT RIGHT: no number"
	else if (got + 0 < $6)
		says = side("less", $8)
	else if (got + 0 > $7)
		says = side("more", $8)
	printf "%-28s %12s %10.6g %7.2f  %s\n", $1, predicted, got, got / $5, says
}
END { if (missing) print missing " of " NR " predictions are not measured yet" }'

# shares FILE: prints the shares of a pass, by kind of kernel
shares() {
	awk '
	function kind(k) {
		if (k ~ /^product/) return "products"
		if (k ~ /^round/) return "rounding before products"
		if (k ~ /^CONV/) return "convolutions"
		if (k ~ /^(prepare|walk|read_out|ready|scan|back|sum_states|between|shared_states)/)
			return "delta rule"
		if (k ~ /^attn|^ATTN|^forward|^dq|^dkv|^join/) return "attention"
		if (k ~ /feature|learn|momentum|renorm|length|rates/) return "fast weights"
		if (k ~ /norm|swiglu|gate|rows|embed|axpy|add_strips/) return "rows between products"
		if (k ~ /head|fold|ce_|finish|best/) return "head"
		if (k ~ /adamw|dot|sum_/) return "optimizer"
		return "other"
	}
	FNR > 1 { name = substr($0, 1, 64); split(substr($0, 65), w, " ")
		if (name ~ /^all /) next
		all += w[3]; calls += w[2]; part[kind(name)] += w[3] }
	END { for (c in part) printf "%6.2f %%  %s\n", 100 * part[c] / all, c | "sort -rn"
		close("sort -rn")
		printf "%d launches, %.3f ms; the rest of a pass is gaps between launches\n", calls, all
	}' "$1"
}
for profile in *-launches.profile; do
	printf '\n%s: where the time goes\n' "${profile%.profile}"
	shares "$profile"
done
