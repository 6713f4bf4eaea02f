#!/bin/bash
# report-phases.sh posttrain|testtime RUN -- writes RUN/posttrain.md or RUN/testtime.md with its figure, and
# the same report for a browser with 20 answers (.html), from the results of demo-phases.mk in RUN.  Settings
# come from the environment.
set -euo pipefail
export LC_ALL=C

[ $# -eq 2 ] || { echo 'usage: report-phases.sh posttrain|testtime RUN' >&2; exit 64; }
phase=$1 run=$2
here=$(cd -- "$(dirname -- "$0")" >/dev/null && pwd)
lib=$here/../lib
# shellcheck source=pipelines/lib/report.sh
. "$lib/report.sh"
make_folder "$phase"

# Sets the methods, the base of the comparison, and the files of the answers.
if [ "$phase" = posttrain ]; then
	names="start $POSTS" base=sft
	answers() { echo "$run/post/$1.rf"; }
	run_of() { echo "$run/post/$1"; }
else
	names=$TTTS base=t-ntp
	answers() { ls "$run/test/$1"/answers/*.rf; }
	run_of() { echo "$run/test/$1"; }
fi

# one NAME: prints a line for each question: its id, the nll of the right answer per byte, and whether the
# model's answer is right (1 or 0)
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

# Writes the steps and seconds of each method.  The model before training has 0 of both.
for name in $names; do
	if [ "$name" = start ]; then
		echo "$name 0 0"
	else
		echo "$name $(last_step "$(run_of "$name")") $(batch_seconds "$(run_of "$name")")"
	fi
done >"$tmp/runs"
# table VARIABLE=VALUE...: prints tables of the answers
table() {
	local name files=()
	for name in $names; do files+=("$tmp/$name.tsv"); done
	awk "${@/#/-v}" -f "$lib/tables.awk" -f "$here/report-phases.awk" "$tmp/runs" "${files[@]}"
}

# examples NAME N: prints the first N questions, their answers, and the references
examples() {
	rf-dump --tsv --rows sample --columns id,answer,written --no-header "$(answers "$1" | head -n 1)" |
		head -n "$2" >"$tmp/examples"
	# the last line of a prompt is the question
	rf-dump --json "$run/test.rf" | jq -nr -L "$lib" --rawfile examples "$tmp/examples" 'include "shown";
		[inputs | select(.type == "seq").body | {key: "\(.id)", value: (.tokens.data[:.prompt_len]
			| map(select(. >= 3) - 3) | implode | split("\n")[-1])}] | from_entries as $questions
		| $examples | split("\n")[:-1][] | split("\t") as [$id, $right, $said]
		| [$questions[$id], $said, ($right | rtrimstr("\\n"))] | map(markdown)
		| "| \($id) | \(join(" | ")) |"'
}

# Writes the running mean of the differences from the base, over the questions in the order of the file.
order() { rf-dump --tsv --rows record --columns id --no-header "$run/test.rf"; }
for name in $names; do
	paste -- "$tmp/$name.tsv" "$tmp/$base.tsv" | awk -F '\t' 'NR == FNR { d[$1] = $2 - $5; next }
		{ s += d[$1]; print FNR "\t" s / FNR }' - <(order) >"$tmp/$name.mean"
done
for name in $names; do
	[ "$name" = "$base" ] || printf '%s\n' "$name"
done >"$tmp/names"
printf '%s\n' "$base" >"$tmp/base"
draw "$here/report-phases.gp"

cat >"$tmp/report.md" <<-END
	# $phase: what came out

	$(table base="$base")

	$([ "$phase" = posttrain ] || table a=t-reset b=t-ntp-reset)
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
	    $(made_by rf-grpo)
END
mv "$tmp/phases.png" "$tmp/$phase.png"
mapfile -t files < <(answers "${names##* }")
"$lib/sample-page.sh" sample "$MODEL" "$tmp/answers.html" "${files[@]}"
"$lib/page.sh" "$tmp/report.md" "$run/$phase.html" "$tmp/answers.html"
mv "$tmp/$phase.png" "$run/$phase.png"
mv "$tmp/report.md" "$run/$phase.md"
