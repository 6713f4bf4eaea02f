#!/bin/bash
# study-report.sh RUN -- writes RUN/report.md from the figures that study.mk has so far, RUN/report.html for a
# browser, and RUN/figures.tsv, with one figure on each line.  Settings come from the environment.
set -euo pipefail
export LC_ALL=C

[ $# -eq 1 ] || { echo 'usage: study-report.sh RUN' >&2; exit 64; }
run=$1
here=$(cd -- "$(dirname -- "$0")" >/dev/null && pwd)
lib=$here/../lib
# shellcheck source=pipelines/lib/report.sh
. "$lib/report.sh"

"$here/study-parts.sh" pack "$run" "$run/figures.tsv"
# both LIST LIST: prints the words that both lists have
both() { comm -12 <(tr ' ' '\n' <<<"$1" | sort) <(tr ' ' '\n' <<<"$2" | sort) | sort -n | paste -sd ' '; }
ADAPT=$(both "$SEEDS" "$ADAPT")
EXPLORE=$(both "$SEEDS" "$EXPLORE")

# table NAME: prints this table, all of whose lines are over the same seeds
table() {
	local only=$SEEDS
	case $1 in
	*tune) only=$TUNE ;;
	post | testtime) only=$ADAPT ;;
	ablation) only=$EXPLORE ;;
	esac
	awk -F '\t' -v only=" $only " 'index(only, " " $4 " ")' "$run/figures.tsv" |
		awk -v table="$1" -f "$lib/tables.awk" -f "$here/compare.awk" -f "$here/study.awk"
}
# minutes [PHASE...]: prints the number of parts of these phases, or of all, and the sum of their times
minutes() {
	awk -F '\t' -v phases="$*" '
		$5 == "seconds" && (phases == "" || index(" " phases " ", " " $1 " ")) { n++; s += $6 }
		END { printf "%d parts, %d minutes", n, s / 60 }' <"$run/figures.tsv"
}
parameters() {
	rf-init --config "$here/study-delta_net.json" --dry-run | awk '/^parameters/ { print $2 }'
}
# edge RATE RATES: marks the smallest and the largest of the rates
edge() {
	[[ " $2 " == *" $1 "* ]] || return 0
	tr ' ' '\n' <<<"$2" | sort -g | awk -v rate="$1" '{ last = $1 } NR == 1 { first = $1 }
		END { if (NR > 1 && rate == first) printf " (the smallest)"
			if (NR > 1 && rate == last) printf " (the largest)" }'
}
# chosen PHASE POINT: prints the setting that each method chose
chosen() {
	local file setting lr coef rates
	for file in "$run/chosen/$1/$2"/*; do
		IFS=_ read -r _ lr coef <"$file"
		case $1:${file##*/} in
		*:none) continue ;;
		mid:sft*) rates=SFT_LRS_$2 ;;
		mid:*) rates=LRS_$2 ;;
		*) rates=POST_LRS ;;
		esac
		setting=$lr$(edge "$lr" "${!rates}")
		[ "$coef" = 0 ] || setting+=", coefficient $coef"
		echo "${file##*/} $setting"
	done | paste -s -d ';' | sed 's/;/; /g'
}
# Prints a line of the chosen settings for each phase and point.
all_chosen() {
	local phase point title
	for phase in mid=mid-training post=post-training testtime='test time'; do
		title=${phase#*=} phase=${phase%%=*}
		for point in $POINTS; do
			[ -d "$run/chosen/$phase/$point" ] || continue
			echo "- $title, $point: $(chosen "$phase" "$point")."
		done
	done
}
# Prints a paragraph on the methods of mid-training that chose their smallest rate, if there are any.
smallest_chosen() {
	local point names
	for point in $POINTS; do
		names=$(sed -n "s/^- mid-training, $point: //p" <<<"${of[chosen]}" | tr ';' '\n' |
			awk '/the smallest/ { print $1 }' | paste -s -d ',' | sed 's/,/, /g')
		[ "$names" ] || continue
		cat <<-END
			At the point "$point", these methods chose the smallest of their learning rates:
			$names.
			Such a rate hardly changes a model, and a small difference there is no evidence about
			larger rates. With larger rates, each of these methods had fewer exact answers on
			validation texts (the tables of settings).
		END
	done
}
# Prints the words of make study in the form in which they are typed.
words() { sed -n 's/^\([A-Za-z_]*\)=\(.*\)$/    \1='"'\2'"' \\/p' "$run/words" | shown_lines; }

# documents of three loads with eight questions each
export QUESTIONS=$((3 * 8 * ASK))
# computed here, because a failure inside the text below would be ignored
declare -A of
for name in sentences contrasts secondary mid rate tune post post-tune testtime testtime-tune ablation; do
	of[$name]=$(table $name)
done
of[chosen]=$(all_chosen)
of[smallest]=$(smallest_chosen)
of[drawing]=$(table drawing | sed 's/^./    &/') # four blanks make a block of code in Markdown
last=$(<"$here/given-up.md")
case ${POINTS%% *} in
plateau) last_point='at the plateau' ;;
*) last_point=${POINTS%% *} ;;
esac
cat >"$run/report.md.tmp" <<-END
	# Is the model better for ReFINE? A study at a small scale

	Differences in exact answers, in points of percent, with 95 % intervals over $(wc -w <<<"$SEEDS")
	seeds. A positive difference is in favour of the method that is named first.

	${of[drawing]}

	${of[sentences]}

	pipelines/study/PLAN.md has the questions, the analysis and the reasons, and was committed before the
	first of these seeds ran.

	${of[smallest]}

	## The primary contrasts

	Exact answers in percent: the mean over documents with 8, 16 and 32 facts. p is of a paired t-test
	over the seeds; Holm's correction is for the three contrasts of a point. The last column is the
	smallest effect that a study with this many seeds and this standard deviation finds in 80 % of
	cases. PLAN.md expected a standard deviation of 1.0 points, and with it 1.1 points in this column.

	${of[contrasts]}

	The same contrasts in the secondary figure, nats per word of the right answer's words 2 to 4, each
	model at its best temperature; less is better:

	${of[secondary]}

	## The methods

	Each line is the mean over seeds, each with its own pre-trained model, data, questions and draws.
	The pieces of text, and the questions on validation texts that choose the temperature, are the same
	for all seeds. The number in parentheses is the difference from SFT, seed by seed, and ± half of its
	95 % interval; * marks an interval without 0, before any correction. One in twenty has this mark by
	chance.

	${of[mid]}

	## The same learning rate, exploratory

	SFT tried six learning rates and ReFINE three, each with two coefficients, so that a contrast with
	SFT also compares rates that ReFINE could not choose. In the first table both have the rate that
	ReFINE n 8 chose, and in the second table both have the rate that SFT chose. Differences are from
	SFT. This comparison was added after six of the twelve seeds, and no conclusion of PLAN.md depends
	on it.

	${of[rate]}

	## Post-training

	Training begins from the models of ReFINE n 8, $last_point. Each method tried
	$(wc -w <<<"$POST_LRS") learning rates on the models of the tuning seeds, and has the one with the
	most exact answers on validation data. Nested ReFINE has cosine rewards, eight rollouts and the
	coefficient of mid-training. Differences are from the model before post-training, over seeds $ADAPT.

	${of[post]}

	${of[post-tune]}

	## Test-time training

	The models, rewards, rollouts and coefficient are those of post-training, and each method has its
	best learning rate for questions on validation texts. The model is trained on the prompts of a
	batch before it answers them, and keeps its weights for the next batch. Differences are from
	answers without training, over seeds $ADAPT.

	${of[testtime]}

	${of[testtime-tune]}

	## Appendix: ablations, exploratory

	Seeds $EXPLORE only, $last_point, and no correction. Each line differs from ReFINE n 8 in one word,
	and has its settings.

	${of[ablation]}

	## Appendix: settings

	Each method chose among six settings by exact answers on validation texts, on the mean of seeds
	$TUNE, which are in no table of results. Names of methods are those of study.mk.

	${of[chosen]}

	${of[tune]}

	## What was done

	- Text: the manuals of perl-doc; of every six texts four to train on, one for validation, one for
	  tests. Tokenizer: 2048 pieces (spm_train). DeltaNet with $(parameters) parameters.
	- Pre-training: lessons (study-data.sh), $LESSONS and five times $SHORT short documents; then a
	  mixture of documents, early $EARLY and plateau $PLATEAU: two in five text, two in five text with
	  8, 16 or 32 facts that are repeated at its end, one in five text with needles and their answers.
	  Mid-training: $MID others of that mixture. Post-training: $POST questions on facts with answers;
	  test time: $TTT questions.
	- Facts: two words mean four others. $((8 * ASK)) questions of each load and seed, eight for a
	  document. An answer is exact if its four words are all the most probable ones.
	- Batches of $BATCH and mini-batches of $MINI; at test time of $TTT_BATCH and $TTT_MINI. All options
	  that this report does not name have the defaults of the programs, which are the paper's values.
	- Time, one part after the other, without work that was lost when the study was stopped: base
	  $(minutes base); tuning $(minutes tune); mid-training
	  $(minutes mid); the same learning rate $(minutes rate); post-training
	  $(minutes post-tune post); test time
	  $(minutes testtime-tune testtime); ablations $(minutes ablation).
	  In all $(minutes); with two lanes on two cores, half of these minutes.
	- $(made_by rf-grpo)
	- All figures are in figures.tsv, with one line for each figure of a part.

	    make -f pipelines/study/study.mk \\
	$(words)
	    POINTS='$POINTS' SEEDS='$SEEDS' TUNE='$TUNE' ADAPT='$ADAPT' EXPLORE='$EXPLORE' \\
	    COMPUTE='$COMPUTE'

	$last
END
mv "$run/report.md.tmp" "$run/report.md"
"$lib/page.sh" "$run/report.md" "$run/report.html"
echo "study: the report is $run/report.md$([ ! -e "$run/report.html" ] ||
	echo ", and for a browser $run/report.html")" >&2
