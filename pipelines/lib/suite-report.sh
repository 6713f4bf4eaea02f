#!/bin/bash
# suite-report.sh RUN -- writes RUN/report.md with its figures, and RUN/report.html, the same report for a
# browser with 20 answers, from the scores and answers that suite.sh left in RUN.  Settings come from the
# environment.
set -euo pipefail
export LC_ALL=C

[ $# -eq 1 ] || { echo 'usage: suite-report.sh RUN' >&2; exit 64; }
run=$1
lib=$(cd -- "$(dirname -- "$0")" >/dev/null && pwd)
# shellcheck source=pipelines/lib/report.sh
. "$lib/report.sh"
make_folder report

# table: prints the rows as a table of Markdown
table() {
	local head='|' keys key
	IFS=, read -ra keys <<<"$BY"
	for key in "${keys[@]}"; do head+=" $(markdown "$key") |"; done
	head+=' n | score | 95 % interval |'
	[ -z "$AGAINST" ] || head+=" $(markdown "$AGAINST") | difference | 95 % interval | better | worse |"
	HEAD=$head awk -F '\t' -v keys=${#keys[@]} -f "$lib/suite-report.awk" <"$tmp/rows"
}

# ---- figures -------------------------------------------------------------------------------

# Each needle counts at its own depth: by whether it was found, or by the score of its question.
jq -r -L "$lib" 'include "shown"; select(.depth | type == "number" or (type == "array" and length > 0))
	| .score as $score | (.depth | if type == "number" then [.] else . end) as $depth
	| (if (.found // [] | length) == ($depth | length) then .found
		else $depth | map($score) end) as $found
	| (.task // "all" | tostring | shown) as $task | (.length // "all" | tostring | shown) as $length
	| range($depth | length) as $i | [$task, $length, $depth[$i], $found[$i]]
	| map(tostring) | join("\t")' "$run/each.jsonl" >"$tmp/depths"

(cd -- "$tmp" && touch tasks lengths rows bars names && awk -f "$lib/suite-heat.awk" <depths >heat.tsv)

# One jq prints the lines of several files, each after the name of its file and a tab:
#
#     rows     the keys of BY, n, score, low, high of scores.jsonl; with AGAINST also its score, difference,
#              low, high, better, worse; with tabs between
#     bars, names
#              the same lines, task by task: place, score, low, high; and the text of the tic
#     titles, labels, models
#              tasks and lengths of the heat map; the names of the evaluations
#
# short: a length in tokens, as 4k if that is exact; tic: the text of a tic, in which gnuplot takes % for a
# format.
jq -srj -L "$lib" --arg by "$BY" --arg run "$run" --arg against "$AGAINST" --rawfile tasks "$tmp/tasks" \
	--rawfile lengths "$tmp/lengths" 'include "shown";
	def short: if type == "number" and . >= 1024 and . % 1024 == 0 then "\(. / 1024)k" else tostring end;
	def tic($most): caption($most) | gsub("%"; "%%");
	def lines: split("\n")[:-1][];
	def row: map(. // "" | tostring) | join("\t");
	($by | split(",")) as $keys
	| . as $scores
	| [reduce .[] as $line ({order: [], of: {}}; ($line[$keys[0]] | tostring) as $task
		| (if .of[$task] then . else .order += [$task] end) | .of[$task] += [$line])
		| .of[.order[]][]] as $bars
	| ["rows", ($scores[] | [(.[$keys[]] | tostring | markdown), .n, .score, .low, .high,
			(.against // empty | .score, .difference, .low, .high, .better, .worse)] | row)],
		["bars", ($bars | to_entries[] | .value + {place: (.key + 1)}
			| [.place, .score, .low // .score, .high // .score, .against.score // "NaN"]
			| map(tostring) | join(" "))],
		["names", ($bars[] | [$keys[] as $key | .[$key] | if $key == "length" then short
			else tostring end] | join(", ") | tic(40))],
		["titles", ($tasks | lines | caption(24))],
		["labels", ($lengths | lines | (tonumber? // .) | short | tic(10))],
		["models", ($run, ($against | select(. != "")) | caption)]
	| .[0] as $file | .[1:][] | "\($file)\t\(.)\n"' "$run/scores.jsonl" |
	(cd -- "$tmp" && awk '{ i = index($0, "\t"); print substr($0, i + 1) >substr($0, 1, i - 1) }')

heat=
if [ -s "$tmp/depths" ]; then
	heat=yes
	draw "$lib/suite-heat.gp"
fi
draw "$lib/suite-bars.gp"

# ---- the report ----------------------------------------------------------------------------

# cost: prints the tokens that were read and written, and the time.  A loop that was killed may not have
# recorded the time of a batch
cost() {
	local batches=("$run"/answers/batch-*.rf)
	rf-dump --tsv --rows sample --columns sample,prompt_len,length,T --no-header \
		"$run"/answers/batch-*.rf |
		awk -F '\t' -v batches=${#batches[@]} 'NR == FNR { seconds[$1] = $3 / 1e6; next }
			$2 == "NaN" { $2 = $4 }
			$1 == 0 { questions++; read += $2; if ($2 > longest) longest = $2 }
			{ written += $3 }
			END {
				for (batch in seconds) {
					sum += seconds[batch]
					timed += seconds[batch] > 0
				}
				printf "- %d questions: %d tokens of prompts read, %d tokens written\n",
					questions, read, written
				printf "- as many rows as %.1f forward passes over the longest, %d tokens\n",
					(read + written) / longest, longest
				if (timed == batches)
					printf "- %.1f s, loading included: %.0f tokens a second\n", sum,
						(read + written) / sum
				else
					printf "- %.1f s for %d of %d batches, loading included\n", sum,
						timed, batches
			}' <(cat -- "$run/data/times.tsv") -
}

notes() {
	local said
	cat <<-END
		- score: percent, by the $RULES rules; a mean is over tasks, all with the same weight. The
		  interval is that of the mean over questions: exact where all are right or wrong, else by
		  Student's distribution.
	END
	[ "$SUITE" != needle ] || [[ ,$BY, = *,length,* ]] || echo "- the questions of several lengths" \
		"are the same, with which the interval does not reckon: BY=task,length tells them apart"
	[ "$SUITE" != needle ] || [ -n "$TASK" ] || [ -n "$HAYSTACK$QA" ] || echo "- the mean is not" \
		"RULER's, which has 13 tasks: some need HAYSTACK= and QA="
	! grep -qs 'left out, too short' "$run/made" ||
		echo "- $(markdown "$(grep -m 1 'left out, too short' "$run/made")"):" \
		"means of different lengths are over different tasks"
	[ ! -e "$run/tokenized" ] || while IFS= read -r said; do
		echo "- $(markdown "$said")"
	done <"$run/tokenized"
	[ -z "$AGAINST" ] || cat <<-END
		- difference: to $(markdown "$AGAINST"), paired by question; * where the interval leaves out
		  0. One in twenty does so by chance.
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

# settings: prints the words of the evaluation, except those that its suite does not use
settings() {
	local word script=
	for word in ${OTHERS:-}; do script+="/^$word=/d; "; done
	sed "/=\$/d; ${script}s/^/    /" "$run/words" | shown_lines
}

# computed here, because a failure inside the text below would be ignored
table=$(table) costs=$(cost)
cat >"$tmp/report.md" <<-END
	# $SUITE, $(markdown "$(cat "$run/step")")

	$table

	$(notes)

	## Figures

	$(figures)

	## Cost

	$costs

	## Settings

	$(settings)
	    RULES=$RULES${METRIC:+ METRIC=$METRIC} BY=$BY${COMPUTE:+ COMPUTE=$COMPUTE}
	    $(made_by rf-score)

	The stream of answers says by which commands and weights it was made:

	$(rf-dump --head "$run/answers/batch-000000.rf" | sed 's/^/    /')
END
rf-cat "$run"/answers/batch-*.rf | "$lib/sample-page.sh" sample "$MODEL" "$tmp/answers.html" -
"$lib/page.sh" "$tmp/report.md" "$run/report.html" "$tmp/answers.html"
if [ -n "$heat" ]; then
	mv "$tmp/heat.tsv" "$run/heat.tsv"
	mv "$tmp/heat.png" "$run/heat.png"
else
	rm -f "$run/heat.tsv" "$run/heat.png"
fi
mv "$tmp/scores.png" "$run/scores.png"
mv "$tmp/report.md" "$run/report.md"
