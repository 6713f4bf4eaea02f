#!/bin/bash
# suite-report.sh RUN -- RUN/report.md with its figures, from the scores and answers that suite.sh left in
# RUN.  Settings come from the environment.
set -euo pipefail
export LC_ALL=C

[ $# -eq 1 ] || { echo 'usage: suite-report.sh RUN' >&2; exit 64; }
run=$1
here=$(cd -- "$(dirname -- "$0")" >/dev/null && pwd)
tmp=$run/report.tmp
rm -rf "$tmp"
mkdir -p "$tmp"
trap 'rm -rf "$tmp"' EXIT

# rows: of scores.jsonl the keys of BY, n, score, low, high; of AGAINST also score, difference, low, high,
# better, worse; with tabs between
rows() {
	jq -r --arg by "$BY" '[(.[$by | split(",")[]] | tostring | gsub("[|\\s]+"; " ")),
		.n, .score, .low, .high,
		(.against // empty | .score, .difference, .low, .high, .better, .worse)]
		| map(. // "" | tostring) | join("\t")' "$run/scores.jsonl"
}

# table: the same for people
table() {
	local head="| ${BY//,/ | } | n | score | 95 % interval |"
	[ -z "$AGAINST" ] || head+=" $AGAINST | difference | 95 % interval | better | worse |"
	printf '%s\n%s\n' "$head" "${head//[^|]/-}"
	rows | awk -F '\t' -v keys=$(($(tr -dc , <<<"$BY" | wc -c) + 1)) '
		function interval(low, high, form) {
			return low == "" ? "" : sprintf(form " to " form, low, high)
		}
		{
			line = "|"
			for (i = 1; i <= keys; i++)
				line = line " " $i " |"
			line = line sprintf(" %d | %.2f | %s |", $i, $(i + 1),
				interval($(i + 2), $(i + 3), "%.2f"))
			if (NF > keys + 4) {
				i += 4
				beyond = $(i + 2) != "" && ($(i + 2) > 0 || $(i + 3) < 0)
				line = line sprintf(" %.2f | %+.2f%s | %s | %s | %s |", $i, $(i + 1),
					beyond ? " *" : "", interval($(i + 2), $(i + 3), "%+.2f"),
					$(i + 4), $(i + 5))
			}
			print line
		}'
}

# ---- figures -------------------------------------------------------------------------------

# Each needle counts at its own depth: by the metric all whether it was found, else its question's score.
jq -r 'select(.depth | type == "number" or (type == "array" and length > 0))
	| .score as $score | (.depth | if type == "number" then [.] else . end) as $depth
	| (if (.found // [] | length) == ($depth | length) then .found
		else $depth | map($score) end) as $found
	| (.task // "all" | tostring | gsub("[^-A-Za-z0-9_.+]"; "_")) as $task
	| (.length // "all" | tostring | gsub("[^-A-Za-z0-9_.+]"; "_")) as $length
	| range($depth | length) as $i | [$task, $length, $depth[$i], $found[$i]]
	| map(tostring) | join("\t")' "$run/each.jsonl" | awk -f "$here/suite-heat.awk" >"$tmp/heat.tsv"

# list COLUMN: its values in heat.tsv, the first of each; short: lengths as 4k where that is exact
list() { awk -F '\t' -v of="$1" 'NR > 1 && !($of in seen) { seen[$of]; print $of }' <"$tmp/heat.tsv"; }
short() { awk '{ print ($1 >= 1024 && $1 % 1024 == 0 ? $1 / 1024 "k" : $1) }'; }
list 1 >"$tmp/tasks"
list 2 | sort -n >"$tmp/lengths"
short <"$tmp/lengths" >"$tmp/labels"
heat=
if [ -s "$tmp/tasks" ]; then
	heat=yes
	(cd -- "$tmp" && gnuplot "$here/style.gp" "$here/suite-heat.gp")
fi

# A line for each bar, task by task: place, name, score, low, high.
jq -r --arg by "$BY" '
	def short: if type == "number" and . >= 1024 and . % 1024 == 0 then "\(. / 1024)k" else tostring end;
	[($by | split(",")[]) as $key | .[$key] | if $key == "length" then short else tostring end
		| gsub("[\"\\\\\\s]+"; " ")] as $names
	| [$names[0], ($names | join(", ")), .score, .low // .score, .high // .score, .against.score // "NaN"]
	| map(tostring) | join("\t")' "$run/scores.jsonl" | awk -F '\t' '
	{
		if (!($1 in n)) task[++tasks] = $1
		line[$1, ++n[$1]] = "\"" $2 "\" " $3 " " $4 " " $5 " " $6
	}
	END {
		for (t = 1; t <= tasks; t++)
			for (i = 1; i <= n[task[t]]; i++)
				print ++bars, line[task[t], i]
	}' >"$tmp/bars"
printf '%s\n' "$run" ${AGAINST:+"$AGAINST"} >"$tmp/models"
(cd -- "$tmp" && gnuplot "$here/style.gp" "$here/suite-bars.gp")

# ---- the report ----------------------------------------------------------------------------

# cost: what was read and written, and how long it took
cost() {
	rf-dump --tsv --rows sample --columns sample,prompt_len,length,T --no-header \
		"$run"/answers/batch-*.rf |
		awk -F '\t' 'NR == FNR { seconds[$1] = $2 / 1e6; next }
			$2 == "NaN" { $2 = $4 }
			$1 == 0 { questions++; read += $2; if ($2 > longest) longest = $2 }
			{ written += $3 }
			END {
				for (batch in seconds)
					sum += seconds[batch]
				speed = sum > 0 ? (read + written) / sum : 0
				printf "- %d questions: %d tokens of prompts read, %d tokens written\n",
					questions, read, written
				printf "- as many rows as %.1f forward passes over the longest, %d tokens\n",
					(read + written) / longest, longest
				printf "- %.1f s, loading included: %.0f tokens a second\n", sum, speed
			}' <(cat -- "$run/times.tsv") -
}

notes() {
	cat <<-END
		- score: percent, by the $RULES rules; a mean is over tasks, all with the same weight. The
		  interval is that of the mean over questions: exact where all are right or wrong, else by
		  Student's distribution.
	END
	[ "$SUITE" != needle ] || [[ ,$BY, = *,length,* ]] || echo "- the questions of several lengths" \
		"are the same, with which the interval does not reckon: BY=task,length tells them apart"
	[ "$SUITE" != needle ] || [ -n "$TASK" ] || [ -n "$HAYSTACK$QA" ] || echo "- the mean is not" \
		"RULER's, which has 13 tasks: some need HAYSTACK= and QA="
	! grep -qs 'left out, too short' "$run/made" || echo "- $(grep 'left out, too short' "$run/made"):" \
		"means of different lengths are over different tasks"
	[ ! -s "$run/tokenized" ] || echo "- $(tail -n 1 "$run/tokenized")"
	[ -z "$AGAINST" ] || cat <<-END
		- difference: to $AGAINST, paired by question; * where the interval leaves out 0. One in
		  twenty does so by chance.
	END
}

figures() {
	[ -z "$heat" ] || cat <<-END
		![scores by length and depth](heat.png)

		Scores by length and by depth, the place in the text where a needle stands; heat.tsv has the
		numbers.

	END
	echo '![scores](scores.png)'
}

# settings: the words of the evaluation, without those that its suite has no use for
settings() {
	local word script=
	for word in ${OTHERS:-}; do script+="/^$word=/d; "; done
	sed "/=\$/d; ${script}s/^/    /" "$run/words"
}

# not inside the text below, where a failure would be an empty place
table=$(table) costs=$(cost)
cat >"$tmp/report.md" <<-END
	# $SUITE, $(cat "$run/step")

	$table

	$(notes)

	## Figures

	$(figures)

	## Cost

	$costs

	## Settings

	$(settings)
	    RULES=$RULES${METRIC:+ METRIC=$METRIC} BY=$BY${COMPUTE:+ COMPUTE=$COMPUTE}
	    $(rf-score --version), $(uname -sr), $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)

	The stream of answers says by which commands and weights it was made:

	$(rf-dump --head "$run/answers/batch-000000.rf" | sed 's/^/    /')
END
if [ -n "$heat" ]; then
	mv "$tmp/heat.tsv" "$run/heat.tsv"
	mv "$tmp/heat.png" "$run/heat.png"
else
	rm -f "$run/heat.tsv" "$run/heat.png"
fi
mv "$tmp/scores.png" "$run/scores.png"
mv "$tmp/report.md" "$run/report.md"
