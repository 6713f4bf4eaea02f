#!/bin/bash
# report.sh RUN -- writes RUN/report.md and its figures, and RUN/report.html, which has all of them and 20
# rollouts, from the results of demo.mk in RUN.  Settings come from the environment.
set -euo pipefail
export LC_ALL=C

[ $# -eq 1 ] || { echo 'usage: report.sh RUN' >&2; exit 64; }
run=$1
here=$(cd -- "$(dirname -- "$0")" >/dev/null && pwd)
lib=$here/../lib
# shellcheck source=pipelines/lib/report.sh
. "$lib/report.sh"
make_folder report
runs=
for name in sft sft-published refine refine-n8 random; do
	[ ! -e "$run/$name/latest" ] || runs+=" $name"
done

say() { printf 'report: %s\n' "$*" >&2; }

# ---- figures -----------------------------------------------------------------------------------

# log NAME: prints a line for each step in a run's log: step, next-token loss, mean cosine reward and mean
# binary reward, separated by tabs.  If a killed step has two lines in the log, the last one counts.
log() {
	awk '
		function figure(key,    i, v) {
			if (!(i = index($0, "\"" key "\":")))
				return "NaN"
			split(substr($0, i + length(key) + 3), v, /[,}]/)
			return v[1]
		}
		{ step = figure("step") }
		{
			rewards = figure("reward/cs_reward_mean") "\t" figure("reward/binary_reward_mean")
			line[step] = figure("loss/ntp") "\t" rewards
		}
		step > last { last = step }
		END { for (s = 0; s <= last; s++) if (s in line) print s "\t" line[s] }
	' <"$run/$1/log.jsonl"
}

# The figure shows differences from the loss of SFT on the same batch, because losses differ less between runs
# than between batches.  SFT as published has other steps, so the figure leaves it out.
for name in sft refine refine-n8 random; do
	log "$name" >"$tmp/$name.log"
done
for name in sft refine refine-n8 random; do
	paste -- "$tmp/$name.log" "$tmp/sft.log" | awk -F '\t' -v OFS='\t' '{ print $1, $2 - $6, $3, $4 }' |
		smooth 9 2 3 4 >"$tmp/$name.steps"
done
for name in start $runs; do
	tail -n +2 "$run/eval/$name.rollouts.tsv" | awk -F '\t' -v OFS='\t' '
		function bin(x) { x = int((x + 1) * 40); return x > 79 ? 79 : x < 0 ? 0 : x }
		{ own[bin($2)]++; other[bin($4)]++ }
		END { for (i = 0; i < 80; i++) print (i + .5) / 40 - 1, 40 * own[i] / NR, 40 * other[i] / NR }
	' >"$tmp/$name.bins"
	echo "$name" >>"$tmp/models"
done
say "figures"
cut -f 1-3 "$run/eval/entropy.tsv" >"$tmp/tokens"
tail -n +2 "$tmp/tokens" | smooth 5 2 | cut -f 1,2 >"$tmp/mean"
tail -n +2 "$tmp/tokens" | paste "$tmp/mean" - |
	awk -F '\t' -v OFS='\t' '$5 == 1 { print $1, $2 }' >"$tmp/chosen"
echo byte >"$tmp/unit"
CHUNKS=8 draw "$lib/entropy-figure.gp" "$here/report.gp"

# Prints the usual name of the model's family.
family() {
	local type
	type=$(jq -r .model_type <"$CONFIG")
	case $type in
	delta_net) echo DeltaNet ;;
	gated_deltanet) echo 'Gated DeltaNet' ;;
	lact_swiglu) echo LaCT ;;
	qwen3_5_text) echo 'Qwen3.5' ;;
	*) markdown "$type" ;;
	esac
}

# ---- text --------------------------------------------------------------------------------------

# seconds NAME: prints the seconds of a phase, or the sum of the seconds of a run's batches
seconds() {
	if [ -e "$run/$1/data/times.tsv" ]; then
		batch_seconds "$run/$1"
	else
		cat "$run/phases/$1.seconds" 2>/dev/null || echo '?'
	fi
}

# progress NAME: prints how many batches and steps a run has completed
progress() {
	rf-dump --tsv --rows step --columns commits,step --no-header "$run/$1" | tail -n 1 |
		awk '{ print $1 " batches, " $2 " steps" }'
}

records() {
	rf-dump --tsv --rows record --columns T --no-header "$1" |
		awk '{ n++; t += $1 } END { printf "%d sequences, %d tokens\n", n, t }'
}

# loop RUN: prints the command of rf-loop that trained the run, from its words
loop() {
	local name value
	local -A word
	while IFS='=' read -r name value; do
		word[$name]=$value
	done <"$1/data/words"
	printf '%srf-loop -m %s --from %s --data %s --batches %d --batch %d --seed %d -- \\\n    %s\n' \
		"${COMPUTE:+COMPUTE=${COMPUTE@Q} }" \
		"$1" "${word[from]}" "${word[data]/#RUN\//$1/}" "$(progress "${1##*/}" | cut -d ' ' -f 1)" \
		"${word[batch]}" "${word[seed]}" "${word[line]@Q}"
}

commands() {
	local name
	for name in corpus train.rf valid.rf fresh; do
		[ ! -e "$run/phases/$name.sh" ] || cat "$run/phases/$name.sh"
	done
	for name in start $runs; do
		printf '\n# %s: %s\n' "$name" "$(progress "$name")"
		loop "$run/$name"
	done
	printf '\n'
	cat "$run"/phases/eval-*.sh "$run/phases/entropy.sh"
}

# These functions print cells of the report's tables.
text() {
	if [ -n "$CORPUS" ]; then
		markdown "$CORPUS"
	else
		awk -F ': *' '{ printf "%s%s", s, $2; s = ", " }' <"$run/corpus/SOURCE"
	fi
}
versions() {
	echo "$(rf-grpo --version | sed -n 1p), $(uname -sr)," \
		"$(dpkg-query -W -f '${Package} ${Version}, ' libdnnl2 gnuplot-nox 2>/dev/null)$(
		bash --version | sed 's/ *(.*//; s/GNU //; q')"
}
phases() {
	local name
	for name in train.rf valid.rf start $runs eval-start ${runs// / eval-}; do
		echo "| $name | $(seconds "$name") |"
	done
}
# published_steps: prints a paragraph about SFT as published, which takes other steps
published_steps() {
	[ -e "$run/sft-published/latest" ] || return 0
	cat <<-END
		- SFT as published takes one optimizer step per batch, as the authors' released trainer takes
		  for SFT. All other runs take one per mini-batch.
	END
}
# Prints the words of make midtrain in the form in which they are typed.
words() {
	sed -n "s/\\$/&&/g; s/'/'\\\\''/g; s/^\([A-Z_]*\)=\(.*\)\$/ \1='\2'/p" "$run/words" |
		tr -d '\n' | shown_lines
}

report() {
	local processor memory document parameters held_out falling mini_batches
	processor=$(processor)
	memory=$(awk '/^MemTotal/ { printf "%.0f GB", $2 / 1e6 }' /proc/meminfo)
	document=$(awk -F '\t' 'NR == 2 { print $4 }' <"$run/eval/entropy.tsv")
	document=$(markdown "$document")
	parameters=$(rf-init --config "$CONFIG" --dry-run | awk '/^parameters/ { print $2 }')
	held_out="$(records "$run/valid.rf") evaluated, the first $LEN of each document at most"
	falling="learning rate $WARM_LR falling to 0 as a cosine"
	mini_batches="mini-batches of $MINI_BATCH, learning rate $LR"
	cat <<-END
		# ReFINE mid-training: what came out

		## Held-out documents

		$(cd -- "$run/eval" && awk -f "$lib/tables.awk" -f "$here/report.awk" \
			./*.documents.tsv)

		- nll: of next tokens (bytes), in nats. accuracy (arg max): the share of bytes that the model
		  finds most likely. NTP accuracy (drawn): as in the paper, the share that is right when the
		  model draws each byte; the expected value, so without the noise of drawing.
		- cosine, binary: mean rewards of 4 rollouts of 5 tokens at each of $POSITIONS positions per
		  document, the same positions and random numbers for every model. cosine elsewhere: the same
		  rollouts against the text of the document's next position, which is what no skill scores.
		$(published_steps)
		- ± is the standard error over documents; * marks a difference beyond two of them. One
		  difference in twenty is so large by chance.
		- Each line is one training run with one seed (SEED=$SEED). Another seed would move it by more
		  than these errors say: they count the choice of documents alone. What ReFINE and its control
		  with random rewards have in common is not due to the rewards.

		## Figures

		![entropy along a document](entropy.png)

		Entropy of the start's predictions along a held-out document, $document,
		and the position that ReFINE draws in each of 8 chunks.

		![distribution of rewards](rewards.png)

		Cosine rewards of all rollouts on the held-out documents.

		![over the steps](steps.png)

		Training, by optimizer step: the next-token loss minus SFT's on the same sequences, and the
		rewards of the rollouts that were trained on (running means over 9 steps, in bands of one
		standard deviation).

		## What was done

		| | |
		|---|---|
		| text | $(text) |
		| held out | 1 of every $HOLD_OUT documents; $held_out |
		| training text | $(records "$run/train.rf") of at most $LEN |
		| model | $(family), $parameters parameters, $(markdown "${CONFIG##*/}") |
		| warm-up | $WARM_STEPS steps of 1 sequence, next tokens, $falling |
		| each run | $(progress sft): batches of $BATCH sequences, $mini_batches |
		| machine | $(uname -n): $(nproc) of ${processor:-$(uname -m)}, $memory |
		| versions | $(versions) |

		The learning rate was chosen by SFT's loss on training documents alone, so not to any rival's
		advantage; everything else is the paper's or fits the time.

		| phase | seconds |
		|---|---|
		$(phases)

		## Commands

		    make midtrain RUN='$run'$(words) BATCHES='$(progress sft | cut -d ' ' -f 1)'

		or, one by one:

		$(commands | shown_lines | sed 's/^/    /')
	END
}

say "text"
report >"$tmp/report.md"
rollouts=$run/eval/refine.html
[ -e "$rollouts" ] || rollouts=
"$lib/page.sh" "$tmp/report.md" "$run/report.html" ${rollouts:+"$rollouts"}
mv "$tmp"/*.png "$run"
mv "$tmp/report.md" "$run/report.md"
