#!/bin/bash
# study-report.sh RUN -- writes RUN/report.md from the results that study.mk has so far, RUN/report.html with
# 20 rollouts in addition, and RUN/figures.tsv, with one figure on each line.  Settings come from the
# environment.
set -euo pipefail
export LC_ALL=C

[ $# -eq 1 ] || { echo 'usage: study-report.sh RUN' >&2; exit 64; }
run=$1
here=$(cd -- "$(dirname -- "$0")" >/dev/null && pwd)
lib=$here/../lib
# shellcheck source=pipelines/lib/report.sh
. "$lib/report.sh"

# Writes the table of all figures of these families, from PHASE/FAMILY/METHOD/SEED.tsv.
for phase in base grid mid post testtime ideas; do
	for family in $FAMILIES; do
		numbers=$SEEDS
		[ "$phase" != grid ] || numbers=${SEEDS%% *}
		for seed in $numbers; do
			for file in "$run/$phase/$family"/*/"$seed.tsv"; do
				[ -e "$file" ] || continue
				file=${file#"$run/"}
				PART=${file%.tsv} awk 'BEGIN { path = ENVIRON["PART"]; gsub("/", "\t", path) }
					{ print path "\t" $0 }' <"$run/$file"
			done
		done
	done
done >"$run/figures.tsv.tmp"
mv "$run/figures.tsv.tmp" "$run/figures.tsv"

# Prints the rows of the table of ideas, as ideas:sft=SFT;..., in the order of IDEAS in study.mk.
ideas() {
	local idea
	for idea in $IDEAS; do
		case $idea in
		sft) echo 'ideas:sft=SFT' ;;
		refine) echo 'ideas:refine=ReFINE, n 1' ;;
		refine-n8) echo 'ideas:refine-n8=ReFINE, n 8' ;;
		n16) echo 'ideas:n16=n 16' ;;
		no-std) echo 'ideas:no-std=n 8, advantages not divided by the deviation' ;;
		strong) echo 'ideas:strong=n 8, coefficient 1' ;;
		surprise) echo 'ideas:surprise=n 8, minus the surprise of the following text' ;;
		max-c16) echo 'ideas:max-c16=n 8, 16 positions of most entropy' ;;
		*) echo "ideas:$idea=$idea" ;;
		esac
	done | paste -s -d ';'
}
table() {
	IDEA_ROWS=$(ideas) awk -v table="$1" -f "$lib/tables.awk" -f "$here/study.awk" <"$run/figures.tsv"
}
chosen() {
	local file
	for family in $FAMILIES; do
		for file in "$run/chosen/$family"/*; do
			[ -e "$file" ] && markdown "$family: $(tr '_' ' ' <"$file")"
		done
	done | paste -s -d ';' | sed 's/;/; /g'
}
steps=$((MID / MINI))
minutes() { # prints the number of parts of a phase, and the sum of their times
	for family in $FAMILIES; do
		find "$run/$1/$family" -name '*.seconds' -exec cat {} + 2>/dev/null
	done |
		awk '{ s += $1 } END { printf "%d parts, %d minutes", NR, s / 60 }'
}
parameters() {
	for family in $FAMILIES; do
		echo "$family $(rf-init --config "$here/study-$family.json" --dry-run |
			awk '/^parameters/ { print $2 }')"
	done | paste -s -d ',' | sed 's/,/, /g'
}
# Prints the words of make study in the form in which they are typed.
words() { sed -n 's/^\([A-Za-z_]*\)=\(.*\)$/    \1='"'\2'"' \\/p' "$run/words" | shown_lines; }

# computed here, because a failure inside the text below would be ignored
declare -A of
for name in answer verdicts mid sharp post testtime ablations ideas grid; do
	of[$name]=$(table $name)
done
of[forest]=$(table forest | sed 's/^/    /') # four blanks make a block of code in Markdown
cat >"$run/report.md.tmp" <<-END
	# Is the model better for ReFINE? A study at a small scale

	Each line is the mean over seeds ($SEEDS), each with its own pre-trained model, order of the data and
	draws. The number in parentheses is the difference from the method that a table compares with, seed
	by seed, and ± half of its 95 % interval over the seeds; * marks an interval without 0. One
	interval in twenty has this mark by chance. All lines of a table took as many optimizer steps on
	the same sequences in the same order: $steps in mid-training. Only SFT as published takes one step
	for each batch, $((MID / BATCH)) in all, as the authors' released trainer does.

	Facts are asked for at the end of a text that states them, and needles in a long text by rf-needle
	(see "What was done" below). The nll of an answer is that of the right answer. The score of an
	answer is the share of the references that a greedy answer contains. Cosine and binary are the
	rewards (rf-reward) of rollouts on held-out text, greedy or sampled; n is the number of rollouts at
	a position, k their tokens, c the positions. An interval of width 0, where all seeds differ by the
	same number of questions, has no mark.

	## In short

	Does ReFINE in mid-training make better answers than next tokens on the same data, and than random
	rewards with as many rollouts, by more than seeds differ?

	${of[answer]}

	## What held, and what did not

	${of[verdicts]}

	The difference of each method from SFT in the nll of the right answers, over all lengths, in nats per
	token; less is better:

	${of[forest]}

	## 1. Mid-training: needles and facts, at the length of training and beyond (the paper's table 1)

	Greedy answers: the share of the references that were written.

	${of[mid]}

	## 2. Sharpening and knowledge

	Sharpening alone raises the rewards of sampled rollouts: the entropy is then lower, and greedy
	rollouts agree no more than before.

	${of[sharp]}

	## 3. Post-training (table 2)

	${of[post]}

	## 4. Test-time training (table 3)

	${of[testtime]}

	## 5. Ablations of the reward, the positions, k and the chunks (table 4)

	Each method differs from ReFINE n 1 in one word, and has the learning rate and coefficient of ReFINE
	n 1. Random rewards with eight rollouts have those of ReFINE n 8.

	${of[ablations]}

	## 6. Other ideas, on validation data

	${of[ideas]}

	## 7. Learning rates and coefficients

	By the nll of answers on validation texts and questions, of the first seed; nothing was chosen by test
	data. Chosen: $(chosen).

	${of[grid]}

	## What was done

	- Text: the manuals of perl-doc; of every six texts four to train on, one for validation, one for
	  tests. Tokenizer: 2048 pieces (spm_train). Parameters: $(parameters).
	- Pre-training: lessons (study-data.sh), $LESSONS and five times $SHORT short documents; then $PRE
	  sequences of at most $LEN tokens: two in five text, two in five text with facts that are asked at
	  its end, one in five text with needles and their answers. Mid-training: $MID others of that mixture.
	  Post-training: $POST questions with answers; test time: $TTT questions.
	- Facts: two words mean four others, eight of them in a text, one asked for. Needles: rf-needle's
	  niah_single_2, multikey_1, multivalue, multiquery. $ASK questions of each of both at each length:
	  that of training, twice and four times that.
	- Batches of $BATCH and mini-batches of $MINI; at test time of $TTT_BATCH and $TTT_MINI. All other
	  options have the defaults of the programs, which are the paper's values.
	- Time, one after the other: base $(minutes base); grid $(minutes grid); mid $(minutes mid); post
	  $(minutes post); test time $(minutes testtime); ideas $(minutes ideas).
	- $(made_by rf-grpo)
	- All seeds answer the same questions, so the intervals have no error of which questions were asked.
	  The settings in section 7 were chosen by the questions of section 6, but the ideas in section 6 were
	  not.
	- Facts in the lessons of seed 1 and in the mixture of seed 3 are drawn by the same random numbers. Of
	  10,000 questions on facts, three have a key that stands for two things.
	- All figures are in figures.tsv, next to this report in the run's folder, with one line for each
	  figure of a seed.

	    make -f pipelines/study/study.mk \\
	$(words)
	    FAMILIES='$FAMILIES' SEEDS='$SEEDS' COMPUTE='$COMPUTE'
END
mv "$run/report.md.tmp" "$run/report.md"
rollouts=
for family in $FAMILIES; do
	for file in "$run/mid/$family"/refine-n8/*.html; do
		[ -n "$rollouts" ] || [ ! -e "$file" ] || rollouts=$file
	done
done
"$lib/page.sh" "$run/report.md" "$run/report.html" ${rollouts:+"$rollouts"}
echo "study: the report is $run/report.md$([ ! -e "$run/report.html" ] ||
	echo ", and for a browser $run/report.html")" >&2
