#!/bin/bash
# report-phases.sh posttrain|testtime RUN -- RUN/posttrain.md or RUN/testtime.md with its figure, from what
# demo-phases.mk left in RUN.  Settings come from the environment.
set -euo pipefail
export LC_ALL=C

[ $# -eq 2 ] || { echo 'usage: report-phases.sh posttrain|testtime RUN' >&2; exit 64; }
phase=$1 run=$2
here=$(cd -- "$(dirname -- "$0")" >/dev/null && pwd)
lib=$here/../lib
# shellcheck source=pipelines/lib/shown.sh
. "$lib/shown.sh"
tmp=$run/$phase.tmp
rm -rf "$tmp"
mkdir -p "$tmp"
trap 'rm -rf "$tmp"' EXIT

# The methods, what each is compared with, and where its answers are.
if [ "$phase" = posttrain ]; then
	names="start $POSTS" base=sft
	answers() { echo "$run/post/$1.rf"; }
	steps() { if [ "$1" = start ]; then echo 0; else steps_of "$run/post/$1"; fi; }
else
	names=$TTTS base=t-ntp
	answers() { ls "$run/test/$1"/answers/*.rf; }
	steps() { steps_of "$run/test/$1"; }
fi
steps_of() { rf-dump --tsv --rows step --columns step --no-header "$1" | tail -n 1; }
seconds() {
	local of=$run/post/$1
	[ "$phase" = posttrain ] || of=$run/test/$1
	[ -e "$of/data/times.tsv" ] || { echo 0; return; }
	awk '{ t[$1] = $3 } END { for (b in t) sum += t[b]; printf "%.0f\n", sum / 1e6 }' \
		<"$of/data/times.tsv"
}

# one NAME: a line per question: id, nll of the right answer per byte, whether the answer is right
one() {
	local file
	for file in $(answers "$1"); do
		rf-dump --tsv --rows token --columns id,t,nll,prompt_len --no-header "$file" |
			awk -F '\t' '$2 >= $4 - 1 && $3 != "NaN" { n[$1]++; s[$1] += $3 }
				END { for (i in n) print i "\t" s[i] / n[i] }' | sort -n >"$tmp/nll"
		rf-dump --tsv --rows sample --columns id,answer,written --no-header "$file" |
			awk -F '\t' '
				function word(s) { sub(/^ +/, "", s); sub(/(\\n| )*$/, "", s); return s }
				{ print $1 "\t" (word($2) == word($3)) }' |
			sort -n >"$tmp/right"
		paste "$tmp/nll" "$tmp/right" | awk -F '\t' -v OFS='\t' '{ print $1, $2, $4 }'
	done | sort -n
}
for name in $names; do
	one "$name" >"$tmp/$name.tsv"
done

# against A B: a sentence with the differences of A from B, by question, with standard errors
against() {
	paste -- "$tmp/$1.tsv" "$tmp/$2.tsv" | awk -F '\t' -v a="$1" -v b="$2" '
		{
			x[1] = $2 - $5; x[2] = $3 - $6
			for (i = 1; i <= 2; i++) { s[i] += x[i]; q[i] += x[i] * x[i] }
		}
		END {
			for (i = 1; i <= 2; i++) {
				mean = s[i] / NR
				se = (q[i] - NR * mean * mean) / (NR - 1) / NR
				se = se > 0 ? sqrt(se) : 0
				said[i] = sprintf("%+.4f ± %.4f%s", mean, se,
					mean > 2 * se || -mean > 2 * se ? "*" : "")
			}
			print "- " a " against " b ": nll " said[1] ", right " said[2] "."
		}'
}

# table: means over questions, and differences from the base by question, with standard errors
table() {
	local name
	echo "| method | steps | s | nll of the right answer | right | nll against $base |" \
		"right against $base |"
	echo "|---|---|---|---|---|---|---|"
	for name in $names; do
		paste -- "$tmp/$name.tsv" "$tmp/$base.tsv" | awk -F '\t' -v name="$name" -v base="$base" \
			-v steps="$(steps "$name")" -v seconds="$(seconds "$name")" '
			{
				x[1] = $2; x[2] = $3; x[3] = $2 - $5; x[4] = $3 - $6
				for (i = 1; i <= 4; i++) { s[i] += x[i]; q[i] += x[i] * x[i] }
			}
			END {
				printf "| %s | %d | %d |", name, steps, seconds
				for (i = 1; i <= 4; i++) {
					mean = s[i] / NR
					se = (q[i] - NR * mean * mean) / (NR - 1) / NR
					se = se > 0 ? sqrt(se) : 0
					sign = i > 2 && (mean > 2 * se || -mean > 2 * se) ? "*" : ""
					if (i > 2 && name == base)
						printf " |"
					else
						printf (i > 2 ? " %+.4f" : " %.4f") " ± %.4f%s |", mean,
							se, sign
				}
				printf "\n"
			}'
	done
}

# examples NAME N: the first questions, what was said, and what is right
examples() {
	rf-dump --tsv --rows sample --columns id,answer,written --no-header "$(answers "$1" | head -n 1)" |
		head -n "$2" | while IFS=$'\t' read -r id right said; do
		printf '| %s | %s | %s | %s |\n' "$id" "$(markdown "$(question "$id")")" \
			"$(markdown "$said")" "$(markdown "${right%\\n}")"
	done
}
question() {
	rf-dump --json "$run/test.rf" | jq -r --argjson id "$1" '
		select(.type == "seq" and .body.id == $id).body | .tokens.data[:.prompt_len]
		| map(select(. >= 3) - 3) | implode' | tail -n 1
}

# The running mean difference from the base, along the questions in the order of the file.
order() { rf-dump --tsv --rows record --columns id --no-header "$run/test.rf"; }
for name in $names; do
	paste -- "$tmp/$name.tsv" "$tmp/$base.tsv" | awk -F '\t' 'NR == FNR { d[$1] = $2 - $5; next }
		{ s += d[$1]; print FNR "\t" s / FNR }' - <(order) >"$tmp/$name.mean"
done
for name in $names; do
	[ "$name" = "$base" ] || printf '%s\n' "$name"
done >"$tmp/names"
printf '%s\n' "$base" >"$tmp/base"
(cd -- "$tmp" && gnuplot "$lib/style.gp" "$here/report-phases.gp")

cat >"$tmp/report.md" <<-END
	# $phase: what came out

	$(table)

	$([ "$phase" = posttrain ] || against t-reset t-ntp-reset)
	- $(wc -l <"$tmp/$base.tsv") questions about texts that were not trained on, made by a rule
	  (pipelines/demo/questions.awk): a passage, two words that stand together once in it, and the word
	  that follows them. nll: of the right answer's bytes, in nats per byte. right: greedy answers, until
	  the line's end, that are the right word.
	- ± is the standard error over questions; * marks a difference beyond two of them. One difference in
	  twenty is so large by chance. Each line is one run with one seed (SEED=$SEED), and seeds differ by
	  more than these errors say.
	- steps, s: optimizer steps of the run, of which t-ntp-reset and t-reset keep none, and the seconds of
	  all batches, for none, t-ntp-reset and t-reset with their answers. What ReFINE and its control with
	  random rewards have in common is not due to the rewards.
	- sft-published, ntp-published, t-ntp-published: one optimizer step where ReFINE takes four (two at
	  test time), as by the authors' released trainer. All others take as many as ReFINE.

	## Figure

	![running mean differences]($phase.png)

	The mean difference of nll from $base over the questions so far, in their order.

	## Examples

	| id | question | answer of ${names##* } | reference |
	|---|---|---|---|
	$(examples "${names##* }" 8)

	## Settings

	$(sed 's/^/    /' "$run/words" | shown_lines)
	    model: $(if [ "$phase" = posttrain ]; then shown "$MODEL"; else echo "$run/post/refine"; fi)
	    $(rf-grpo --version), $(uname -sr), $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
END
mv "$tmp/phases.png" "$run/$phase.png"
mv "$tmp/report.md" "$run/$phase.md"
