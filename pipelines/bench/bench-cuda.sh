#!/bin/bash
# bench-cuda.sh [FOLDER] -- measures speed and memory on a GPU, in one run: `make bench DEVICE=cuda`.
#
# The models are fresh, of the sizes in configs/, and read one sequence of 16384 tokens.  "The product" is
# cuBLAS's product at the width of the model, with operands that are already in bf16.  The delta rule is
# measured in the sizes of DeltaNet-1.3B and Gated DeltaNet-400M, and in a segment of 2048 rows.  It is
# compared with the kernels of flash-linear-attention and of FlashQLA (with a decay), if python3 has these
# packages.  A row that misses its limit is marked FALLS SHORT.  A measurement that fails has a row that is
# marked FAILED; the other measurements continue, and the exit status is 1.
#
# From the environment:
#
#     RF_BIN, RF_BENCH, RF_PLUGIN    the programs, the program of t/helper/bench.c, and rf-cuda.so
#     T, CONFIGS                     the number of tokens, and the configs of the models
#     DELTAS                         sizes of the delta rule, each as tokens,heads,KxV
set -eu -o pipefail
here=$(cd -- "$(dirname -- "$0")" >/dev/null && pwd)
dir=${1:-build/bench-cuda}
bench=$(realpath "${RF_BENCH:-$here/../../build/t/helper/bench}")
RF_BIN=$(realpath "${RF_BIN:-$here/../../bin}")
RF_PLUGIN=$(realpath "${RF_PLUGIN:-$here/../../build/rf-cuda.so}")
T=${T:-16384}
sizes=("$here"/../configs/{delta_net-1.3b,gated_deltanet-400m,lact-760m,qwen3_5-0.8b}.json)
CONFIGS=${CONFIGS:-${sizes[*]}}
DELTAS=${DELTAS:-$T,16,128x128 2048,16,128x128 $T,6,128x256}
PATH=$RF_BIN:$PATH
export LC_ALL=C RF_BIN RF_PLUGIN RF_DEVICE=cuda
# shellcheck source=pipelines/bench/bench-rows.sh
. "$here/bench-rows.sh"
configs=()
for config in $CONFIGS; do
	configs+=("$(realpath "$config")")
done
mkdir -p "$dir"
cd "$dir"

passes() {
	local fast=45 back=''
	[ "$name" != delta_net ] || fast=50 back='>= 45'
	"$bench" model pass "$T" 4 >pass.out
	# leaves out the memory of a pass: step() prints that of a step
	grep -v -e '^peak' -e '^of the GPU' pass.out
	row "$label: forward / product, %" "$(pick pass.out 'forward  ' %)" ">= $fast" ''
	row "$label: forward + backward / product, %" "$(pick pass.out 'forward +' %)" "$back" ''
}

# Only DeltaNet-1.3B has limits of memory.
step() {
	local most='' least=''
	[ "$name" != delta_net ] || most='<= 60' least='<= 40'
	# the exact sum takes 8 bytes for each weight, and does not fit next to the other two engines
	BENCH_SUM=plain "$bench" model step "$T" 1 >step.out
	grep -v '^peak' step.out
	row "$label: one step, in forward passes over the same tokens" \
		"$(pick step.out 'step  ' forward)" '<= 5.5' ''
	row "$label: memory of a step, GiB" "$(gib step.out)" "$most" ''
	BENCH_SUM=plain BENCH_RECOMPUTE=1 "$bench" model step "$T" 1 >again.out
	row "$label: with --recompute segment, in forward passes" "$(pick again.out 'step  ' forward)" '' ''
	row "$label: with --recompute segment, GiB" "$(gib again.out)" "$least" ''
}
gib() { awk -v m="$(pick "$1" 'of the GPU' MiB)" 'BEGIN { printf "%.2f", m / 1024 }'; }

operations() {
	BENCH_OPS=1 "$bench" model pass "$T" 2 | grep '^    '
}

delta() {
	local words peer what ours theirs least status size=()
	for words in $DELTAS; do
		IFS=, read -ra size <<<"$words"
		"$bench" - delta "${size[@]}" >delta.out
		for what in 'delta rule  ' 'delta rule and back'; do
			row "${what%  }, $words, ms" "$(pick delta.out "$what" ms)" '' ''
		done
		for peer in fla flash_qla; do
			status=0
			python3 "$here/delta-peer.py" "${size[@]}" $peer >peer.out || status=$?
			if [ $status -eq 69 ] || [ $status -eq 127 ]; then
				printf '%-62s %10s\n' "delta rule, $words, speed over $peer's" 'not there'
				continue
			fi
			[ $status -eq 0 ] || { say "bench: $peer: status $status" && return 1; }
			least=''
			[ $peer != fla ] || least='>= 1.0'
			for what in 'delta rule  ' 'delta rule and back'; do
				ours=$(pick delta.out "$what" ms)
				theirs=$(pick peer.out "$what" ms)
				row "${what%  }, $words, speed over $peer's" "$(ratio "$theirs" "$ours")" \
					"$least" "$ours ms, $theirs ms"
			done
		done
	done
}

printf '%-62s %10s  %-8s\n' 'what' 'measured' 'must'
for config in "${configs[@]}"; do
	label=$(basename "$config" .json)
	name=$(sed -n 's/.*"model_type": *"\([^"]*\)".*/\1/p' "$config")
	say "$label"
	rm -rf model
	RF_DEVICE=cpu rf-init --config "$config" --seed 1 model
	rf-entropy -m model --max-len "$T" --dry-run </dev/null | sed -n 's/^device     /# /p'
	for group in passes step operations; do
		measure $group
	done
done
rm -rf model
measure delta
finish
