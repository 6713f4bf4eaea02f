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
# edge VALUE VALUES: marks the smallest and the largest of the values
edge() {
	[[ " $2 " == *" $1 "* ]] || return 0
	tr ' ' '\n' <<<"$2" | sort -g | awk -v value="$1" '{ last = $1 } NR == 1 { first = $1 }
		END { if (NR > 1 && value == first) printf " (the smallest)"
			if (NR > 1 && value == last) printf " (the largest)" }'
}
# chosen PHASE POINT: prints a line for each method: its name, its rate and its coefficient, "NAME|RATE|COEF"
chosen() {
	local file method lr coef rates
	for file in "$run/chosen/$1/$2"/*; do
		[ -e "$file" ] || continue
		IFS=_ read -r _ lr coef <"$file"
		method=${file##*/}
		case $1:$method in
		*:none) continue ;;
		mid:sft*) rates=SFT_LRS_$2 ;;
		mid:*) rates=LRS_$2 ;;
		*) rates=POST_LRS ;;
		esac
		[ "$coef" = 0 ] && coef='' || coef+=$(edge "$coef" "$COEFS")
		echo "${title[$1:$method]}|$lr$(edge "$lr" "${!rates}")|$coef"
	done
}
# settings PHASE POINT: prints the chosen settings in one line, and a paragraph on those at the smallest rate
settings() {
	local names right='exact answers'
	[ "$1" != testtime ] || right='right answers'
	echo "Settings at the point \"$2\": $(chosen "$1" "$2" | awk -F '|' '
		{ printf "%s%s: %s", s, $1, $2 ($3 == "" ? "" : ", coefficient " $3); s = "; " }')."
	names=$(chosen "$1" "$2" | awk -F '|' '$2 ~ /the smallest/ { printf "%s%s", s, $1; s = "; " }')
	[ "$names" ] || return 0
	cat <<-END

		At the point "$2", these methods chose the smallest of their learning rates: $names.
		At such a rate training hardly changes a model, so small differences say nothing about larger
		rates. With larger rates, none of these methods had more $right on validation texts.
	END
}
# all_settings PHASE: prints the settings at each point that has them
all_settings() {
	local point
	for point in $POINTS; do
		[ ! -d "$run/chosen/$1/$point" ] || printf '%s\n\n' "$(settings "$1" "$point")"
	done
}
# Prints the words of make study in the form in which they are typed.
words() { sed -n 's/^\([A-Za-z_]*\)=\(.*\)$/    \1='"'\2'"' \\/p' "$run/words" | shown_lines; }

# documents of three loads with eight questions each
export QUESTIONS=$((3 * 8 * ASK))
# computed here, because a failure inside the text below would be ignored
declare -A of title
for name in sentences contrasts secondary mid rate tune post post-tune testtime testtime-tune ablation; do
	of[$name]=$(table $name)
done
of[drawing]=$(table drawing | sed 's/^./    &/') # four blanks make a block of code in Markdown
titles=$(table titles)
while IFS=$'\t' read -r phase method name; do
	title[$phase:$method]=$name
done <<<"$titles"
for phase in mid post testtime; do
	of[$phase-settings]=$(all_settings $phase)
done
last=$(<"$here/given-up.md")
case ${POINTS%% *} in
plateau) last_point='at the plateau' ;;
*) last_point=${POINTS%% *} ;;
esac
cat >"$run/report.md.tmp" <<-END
	# Does ReFINE make a model better? A study at a small scale

	ReFINE trains a model on short continuations (rollouts) and rewards those that agree with the text.
	This study asks whether a small DeltaNet recalls more facts after ReFINE than after next-token
	training (SFT) on the same documents. A fact is a line such as "gate loop means join last hash
	term.", and a document has 8, 16 or 32 of them. A question asks for the meaning, and an answer is
	exact if each of its words is the most probable one. All methods train the same models, two for each
	of $(wc -w <<<"$SEEDS") seeds: one after a long pre-training ("plateau"), which gives the confirmatory
	answer, and one after a short pre-training ("early"). All models of a seed answer the same
	$QUESTIONS new questions.

	Differences in exact answers, in percentage points, with 95 % intervals without a correction. O is
	the mean, and | is 0. A positive difference is in favour of the method that is named first. n is the
	number of rollouts at a position; "The methods" below explains the other names. * is exploratory.

	${of[drawing]}

	${of[sentences]}

	PLAN.md has the questions, the analysis and the reasons, and was committed before the first of these
	seeds ran. One part was added to it later, when the figures of six seeds had been read: the
	exploratory comparison at the same learning rate. The twelve seeds took 16 hours, and PLAN.md has a
	limit of 14; "Tried and given up" has the conclusions of the seeds that 14 hours finished.

	${of[mid-settings]}

	The coefficient is the weight of the policy loss; in the paper it is 0.2. Where two methods have
	different coefficients, their contrast also compares these.

	## The primary contrasts

	Exact answers in percent: the mean over documents with 8, 16 and 32 facts. p is of a paired t-test
	over the seeds; Holm's correction is for the three contrasts of a point. The last column was
	computed afterwards from the measured standard deviation: a true difference of this size would be
	found in 80 % of such studies, at Holm's first level, 0.05 / 3. Before the runs, PLAN.md expected a
	standard deviation of 1.0 points, and with it 1.1 points in this column.

	${of[contrasts]}

	The same contrasts in the secondary figure, nats per word of the right answer's words 2 to 4, each
	model at its best temperature; fewer are better. PLAN.md has Holm's correction for exact answers
	only, so that here it is descriptive.

	${of[secondary]}

	## The methods

	| name | training |
	|---|---|
	| SFT | next tokens, with as many optimizer steps as ReFINE: four for each batch |
	| SFT as published | next tokens, with one step for each batch, as in the authors' released trainer |
	| ReFINE, n 1, n 8, n 16 | the paper's mid-training with 1, 8 and 16 rollouts at a position |
	| random rewards | ReFINE, n 8, with random rewards |
	| teacher-forced | next tokens, and with a coefficient the text's five tokens at the same positions |

	Each line is the mean over seeds, each with its own pre-trained model, data, questions and draws.
	The pieces of text, and the questions on validation texts that choose the temperature, are the same
	for all seeds. The number in parentheses is the difference from SFT, seed by seed, and ± half of its
	95 % interval; * marks an interval without 0, before any correction. Where two methods do not
	differ, one interval in twenty has this mark by chance. The columns of a line are not independent.

	${of[mid]}

	## The same learning rate, exploratory

	SFT tried six learning rates and ReFINE three, each with two coefficients, so that a contrast with
	SFT also compares rates that ReFINE could not choose. In the first table both have the rate that
	ReFINE n 8 chose, and in the second table both have the rate that SFT chose. Differences are from
	SFT. This comparison was added when the figures of six of the twelve seeds had been read, and no
	conclusion of PLAN.md depends on it.

	${of[rate]}

	## Post-training

	Training begins from the models of ReFINE n 8, $last_point. Each method tried
	$(wc -w <<<"$POST_LRS") learning rates on the models of the tuning seeds, and has the one with the
	most exact answers on validation data. Nested methods train on the prompts of a batch, and then take
	a step on its answers. SFT, not nested, takes as many steps on the answers. Nested ReFINE has cosine
	rewards, eight rollouts and the coefficient of mid-training. Differences are from the model before
	post-training, over seeds $ADAPT.

	${of[post]}

	${of[post-settings]}

	${of[post-tune]}

	## Test-time training

	The models, rewards, rollouts and coefficient are those of post-training, and each method has its
	best learning rate for questions on validation texts. The model is trained on the prompts of a
	batch before it answers them, and keeps its weights for the next batch. Of $TTT questions on 8 facts,
	"answers" are those whose generated answer has the right one in it; nats are for each token of
	the right answer, at temperature 1. Differences are from answers without training, over seeds $ADAPT.

	${of[testtime]}

	${of[testtime-settings]}

	${of[testtime-tune]}

	## Appendix: ablations, exploratory

	Seeds $EXPLORE only, $last_point, and no correction. The first line is ReFINE n 8: cosine rewards,
	positions drawn by entropy, rollouts of five tokens (k 5), one position in each of eight chunks
	(c 8). Each other line changes one of these, and keeps the learning rate and the coefficient. At a
	rate that hardly changes the model, no change can show much.

	${of[ablation]}

	## Appendix: settings

	Each method of mid-training chose among six settings by exact answers on validation texts, on the
	mean of seeds $TUNE, which are in no table of results.

	${of[tune]}

	## What was done

	- Text: the manuals of perl-doc. Four of every six texts are for training, one is for validation
	  and one for tests. Tokenizer: 2048 pieces (spm_train). DeltaNet with $(parameters) parameters.
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
