#!/bin/bash
# scaling.sh [FOLDER] -- measures the time of a step with 1, 2 and 4 ranks on this machine, compares it with a
# formula, and prints tables of the times that the formula predicts for clusters:
#
#     T(R) = ceil(B/R) record + optimizer + exchange(R) + (commit / K) / mini-batches of a batch
#
# R ranks share the B records of a mini-batch.  Then they add their sums of gradients, and take a step.  If
# there are more ranks than cores, the ranks share the cores.  On this machine the times of a record and of
# the optimizer are measured with one rank, and the time of an exchange with another model, which has a
# quarter of the parameters.  So the predictions for 2 and 4 ranks do not use the steps that they predict.
#
# The tables are estimates, from the operations that `rf-grpo --dry-run` counts and these assumptions about a
# GPU and a network:
#
#     SUSTAINED=300e12   operations per second of a GPU, over all programs of the line
#     MEMORY=3e12        bytes per second of its memory, for the optimizer and the sum
#     NODE=350e9 NETWORK=300e9 ALPHA=20e-6
#                        bytes per second of an exchange between up to 8 ranks, and between more; seconds
#                        for each of the log2(R) steps of an exchange
#     DISK=3e9           bytes per second for reading and committing steps
#     START=3            seconds in which the programs of a line start
#
# ONLY=measured or ONLY=reckoned prints only the first or the second half.  RF_BIN: the programs.
set -euo pipefail
export LC_ALL=C
here=$(cd -- "$(dirname -- "$0")" >/dev/null && pwd)
dir=${1:-build/scaling}
PATH=$(realpath "${RF_BIN:-$here/../../bin}"):$PATH
: "${SUSTAINED:=300e12}" "${MEMORY:=3e12}" "${NODE:=350e9}" "${NETWORK:=300e9}" "${ALPHA:=20e-6}"
: "${DISK:=3e9}" "${START:=3}"
: "${SIZES:=delta_net-1.3b gated_deltanet-400m lact-760m qwen3_5-0.8b}"

# ---- this machine

# config WIDTH: prints a config of DeltaNet, with parameters proportional to the square of the width
config() {
	printf '{"model_type":"delta_net","hidden_size":%d,"num_hidden_layers":6,"num_heads":4,' "$1"
	printf '"intermediate_size":%d,"vocab_size":384,"eos_token_id":1}\n' $((3 * $1))
}
# steps MODEL R: takes steps of R ranks with one thread each, on 8 records, and prints medians of seconds: for
# the records of a rank, the exchange, the optimizer, and the step
steps() {
	rm -rf run log
	rf-init --from "$1" run
	mpirun --bind-to none -n "$2" bash -o pipefail -c "rf-cat --shard auto --mini-batch 8 text.rf |
		rf-ntp -m run --mini-batch 8 --threads 1 --ranks mpi --keep 1 --log log" </dev/null
	jq -rs '
		def median(f): map(f) | sort | .[length / 2 | floor];
		[median(."timing_s/compute"), median(."timing_s/reduce"), median(."timing_s/optimizer"),
		median(."timing_s/step")] | @tsv' log
}
measured() {
	local r row cores width
	mkdir -p "$dir"
	cd "$dir"
	export OMPI_MCA_rmaps_base_oversubscribe=1
	cores=$(nproc)
	for width in 128 256; do
		config $width >$width.json
		rm -rf "m$width"
		rf-init --config $width.json --tokenizer bytes --seed 1 m$width
	done
	[ -f text.rf ] || {
		bash "$here/../demo/corpus.sh" text >/dev/null
		rf-tokenize --bytes --max-len 1024 --min-len 1024 --truncate split text/*.txt 2>/dev/null |
			rf-cat --range 0:40 -o text.rf
	}
	for r in 1 2 4; do
		for width in 128 256; do
			row=$(steps m$width "$r")
			echo "$r $width $row"
		done
	done >measured.tsv
	awk -v cores="$cores" '
		{ compute[$1, $2] = $3; reduce[$1, $2] = $4; optimizer[$1, $2] = $5; step[$1, $2] = $6 }
		END {
			printf "\nThis machine: mini-batches of 8 records of 1024 tokens, DeltaNet of width "
			print "256, a thread a rank\n"
			print "| ranks | predicted, s | measured, s | off | over one rank |"
			print "|---|---|---|---|---|"
			record = compute[1, 256] / 8
			for (r = 1; r <= 4; r *= 2) {
				busy = r > cores ? r / cores : 1
				# the exchange takes four times as long as with a quarter of the parameters
				exchange = r == 1 ? reduce[1, 256] : 4 * reduce[r, 128]
				t = int((8 + r - 1) / r) * record * busy + optimizer[1, 256] * busy + exchange
				off = 100 * (t / step[r, 256] - 1)
				printf "| %d | %.3f | %.3f | %+.1f %% | %.2f |\n", r, t, step[r, 256], off,
					step[1, 256] / step[r, 256]
				bad = bad || off > 10 || off < -10
			}
			exit bad
		}' measured.tsv
}

# ---- clusters

# counted SIZE PROGRAM: prints the plan of a program for a record of 16384 tokens
counted() {
	$2 -m "$here/../configs/$1.json" --max-len 16384 --device cpu --dry-run </dev/null 2>/dev/null
}
# operations SIZE: prints the operations of the separate programs, and of rf-step.  The first of four
# mini-batches of rf-step needs no separate pass for the entropies
operations() {
	local program
	for program in rf-entropy rf-rollout 'rf-grpo --recompute segment'; do
		counted "$1" "$program" | sed -n 's/^operations \([0-9]*\) GFLOP.*/\1/p'
	done | awk 'NR == 1 { one = $1 } { s += $1 } END { printf "%.0f %.0f", s, s - one / 4 }'
}
reckoned() {
	local size flop parameters
	for size in $SIZES; do
		flop=$(operations "$size")
		parameters=$(counted "$size" rf-entropy | sed -n 's/.*, \([0-9]*\) parameters.*/\1/p')
		echo "$size $flop $parameters"
	done | awk -v sustained="$SUSTAINED" -v memory="$MEMORY" -v node="$NODE" \
		-v network="$NETWORK" -v alpha="$ALPHA" -v disk="$DISK" -v start="$START" '
		function log2(r) { return log(r) / log(2) }
		# seconds of a mini-batch of b records with r ranks; a batch has four
		function seconds(b, r, fused,   t) {
			t = int((b + r - 1) / r) * (record[fused] + 24 * P / memory) + 40 * P / memory
			if (r > 1)
				t += 12 * P * (r - 1) / r / (r > 8 ? network : node) + alpha * log2(r)
			# rf-step commits after each tenth batch; the separate programs read the step
			# three times, once with the moments, and commit each batch
			if (fused)
				return t + (12 * P / disk / 10) / 4
			return t + (start + 32 * P / disk) / 4
		}
		{ size[NR] = $1; flop[NR, 0] = $2 * 1e9; flop[NR, 1] = $3 * 1e9; parameters[NR] = $4 }
		END {
			printf "\nReckoned: records of 16384 tokens; a mini-batch of 32, or (weak) of 32 "
			print "for each 8 GPUs;"
			printf "assumed: %g TFLOP/s a GPU, memory %g GB/s, exchange %g and %g GB/s; ",
				sustained / 1e12, memory / 1e9, node / 1e9, network / 1e9
			print "FUSED=1 COMMIT_EVERY=10"
			for (i = 1; i <= NR; i++) {
				P = parameters[i]
				record[0] = flop[i, 0] / sustained
				record[1] = flop[i, 1] / sustained
				one = seconds(32, 1, 1)
				printf "\n%s: %.3g parameters, %.0f TFLOP and %.2f s a record\n\n",
					size[i], P, flop[i, 1] / 1e12, record[1]
				printf "| GPUs | step, s | efficiency | separate programs "
				print "| weak, s | efficiency | 200M tokens, h |"
				print "|---|---|---|---|---|---|---|"
				for (r = 1; r <= 64; r *= 2) {
					t = seconds(32, r, 1)
					per = 32 * (r > 8 ? r / 8 : 1)
					weak = seconds(per, r, 1)
					printf "| %d | %.2f | %.0f %% | %.0f %% | %.2f | %.0f %% | %.2f |\n",
						r, t, 100 * one / r / t, 100 * one / r / seconds(32, r, 0),
						weak, 100 * one / 32 * per / r / weak,
						2e8 / 16384 / per * weak / 3600
				}
			}
		}'
}

failed=0
if [ "${ONLY:-measured}" = measured ]; then
	set +e # || would switch off -e inside the function
	(set -e && measured)
	failed=$?
	set -e
	[ $failed -eq 0 ] || echo 'scaling.sh: the model is off by more than 10 %, or the ranks failed' >&2
fi
[ "${ONLY:-reckoned}" != reckoned ] || reckoned
exit $failed
