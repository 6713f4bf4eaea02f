#!/bin/bash
# gpu-first.sh OUT -- the first ten minutes on a GPU: what it can do, whether all is right there, and what
# each part of the work takes, the most important first.
#
# Each part has a time limit of its own and writes OUT/NAME.txt as it goes, so whatever time there is gives
# the most; OUT/parts.tsv has a part's status (0: well; 124: out of time; 127: the machine has no such
# program) and seconds.  At the end gpu-compare.sh says what was predicted, what was measured, and what is
# next by that. It needs no compiler, no test program and no weights: those are made on the spot.
#
#     ceilings    a copy, cuBLAS's products of a layer's shapes, and its other ways to them
#     right       each operation against double precision, on the GPU, in both types
#     sanitizers  compute-sanitizer's memcheck, racecheck and initcheck of the same
#     delta       the delta rule alone, beside flash-linear-attention's and FlashQLA's
#     passes      forward, and forward and backward, in segments of each length
#     steps       a step of ReFINE, its memory, with recomputation, of 1 and 8 rollouts
#     families    Gated DeltaNet, LaCT, Qwen3.5
#     counters    Nsight Compute, one launch of each kernel that is bound by something else than memory
#
#     pipelines/gpu-first.sh out
#     ONLY='delta passes' pipelines/gpu-first.sh out
#
# $RF_BENCH, $RF_CUBLAS, $RF_UNITS, $RF_PLUGIN: programs elsewhere; $MODEL, $FAMILIES, $T, $SEGMENTS, $ROWS,
# $SIZES, $DELTAS, $HEADS, $WIDE: other sizes; $SLOWER: times that a limit is longer.
set -eu -o pipefail
here=$(cd -- "$(dirname -- "$0")" >/dev/null && pwd)
[ $# -eq 1 ] || { echo "usage: gpu-first.sh OUT" >&2; exit 64; }
bench=$(realpath "${RF_BENCH:-$here/../build/t/helper/bench}")
units=$(realpath "${RF_UNITS:-$here/../build/t}")
cublas=$(realpath "${RF_CUBLAS:-$here/../build/t/helper/cublas}")
RF_PLUGIN=$(realpath "${RF_PLUGIN:-$here/../build/rf-cuda.so}")
configs=$here/configs
MODEL=$(realpath "${MODEL:-$configs/delta_net-1.3b.json}")
FAMILIES=${FAMILIES:-$(printf '%s ' "$configs"/{gated_deltanet-400m,lact-760m,qwen3_5-0.8b}.json)}
T=${T:-16384}
SEGMENTS=${SEGMENTS:-2048 4096 8192 16384}
ROWS=${ROWS:-2048 8192 16384}
SIZES=${SIZES:-2048 5632 32000}
DELTAS=${DELTAS:-2048 8192 16384 32768}
HEADS=${HEADS:-16 128}
WIDE=${WIDE:-6 128x256} # Gated DeltaNet-400M's
SLOWER=${SLOWER:-1}
ONLY=${ONLY:-ceilings right sanitizers delta passes steps families counters}
# the libraries of make gpu-bundle, if this is one
[ ! -d "$here/../lib/bundled" ] || LD_LIBRARY_PATH=$here/../lib/bundled${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LC_ALL=C RF_PLUGIN RF_DEVICE=cuda BENCH_FRESH=1 ${LD_LIBRARY_PATH:+LD_LIBRARY_PATH}

read -ra segments <<<"$SEGMENTS"
read -ra rows <<<"$ROWS"
read -ra sizes <<<"$SIZES"
read -ra heads <<<"$HEADS"
read -ra wide <<<"$WIDE"
mkdir -p "$1"
cd "$1"
: >>parts.tsv

# part SECONDS NAME COMMAND...
part() {
	local limit=$(($1 * SLOWER)) name=$2 began=$EPOCHREALTIME status=0
	shift 2
	printf '%s ... ' "$name" >&2
	if command -v "${1%% *}" >/dev/null; then
		timeout -k 5 "$limit" "$@" >"$name.txt" 2>&1 || status=$?
	else
		echo "there is no $1" >"$name.txt"
		status=127
	fi
	awk -v name="$name" -v status="$status" -v a="$began" -v b="$EPOCHREALTIME" \
		'BEGIN { printf "%s\t%d\t%.1f\n", name, status, b - a }' >>parts.tsv
	tail -n 1 parts.tsv | cut -f 2,3 >&2
}
# profiled SECONDS NAME COMMAND...: a table of its launches in NAME.profile too
profiled() {
	rm -f "$2.profile"
	RF_PROFILE=$PWD/$2.profile part "$@"
}

ceilings() {
	part 10 nvidia-smi nvidia-smi
	part 30 products "$bench" - products "${sizes[@]}" "${rows[@]}"
	part 30 cublas "$cublas" "${sizes[@]:0:2}" "${rows[@]}"
}

right() {
	local unit
	for unit in products written rows delta attention fast-weights head; do
		part 30 "right-$unit" "$units/unit/ops-$unit" cuda # in float32 and in bf16
	done
}

sanitizers() {
	local tool unit
	for tool in memcheck racecheck initcheck; do
		for unit in rows delta attention; do
			RF_EVERY=9 part 15 "$tool-$unit" compute-sanitizer --tool "$tool" --error-exitcode 9 \
				"$units/unit/ops-$unit" cuda
		done
	done
}

delta() {
	local t
	for t in $DELTAS; do
		profiled 20 "delta-$t" "$bench" - delta "$t" "${heads[@]}"
	done
	profiled 20 delta-wide "$bench" - delta "$T" "${wide[@]}"
	for t in $DELTAS; do
		part 40 "delta-$t-fla" python3 "$here/delta-peer.py" "$t" "${heads[@]}"
		part 40 "delta-$t-flash_qla" python3 "$here/delta-peer.py" "$t" "${heads[@]}" flash_qla
	done
}

# Without the events first: they take time themselves.
passes() {
	local segment
	for segment in "${segments[@]}"; do
		BENCH_SEGMENT=$segment part 40 "pass-$segment" "$bench" "$MODEL" pass "$T" 2
	done
	for segment in "${segments[0]}" "${segments[2]:-${segments[-1]}}"; do
		BENCH_SEGMENT=$segment profiled 40 "pass-$segment-launches" "$bench" "$MODEL" pass "$T" 1
	done
}

# Three engines are on the GPU at once, which neither the longest segments nor, without recomputation, the
# exact sum leaves room for.
steps() {
	local -x BENCH_SEGMENT=${segments[0]}
	BENCH_RECOMPUTE=1 part 40 step-recompute "$bench" "$MODEL" step "$T" 1
	local -x BENCH_SUM=plain
	part 40 step "$bench" "$MODEL" step "$T" 1
	BENCH_ROLLOUTS=8 part 40 step-n8 "$bench" "$MODEL" step "$T" 1
	BENCH_SEGMENT=${segments[1]:-${segments[0]}} part 40 step-longer "$bench" "$MODEL" step "$T" 1
	profiled 40 step-launches "$bench" "$MODEL" step "$T" 1
}

families() {
	local config name segment
	for config in $FAMILIES; do
		name=$(basename "$config" .json)
		for segment in "${segments[0]}" "${segments[2]:-${segments[-1]}}"; do
			BENCH_SEGMENT=$segment part 30 "$name-$segment" "$bench" "$config" pass "$T" 2
		done
		profiled 30 "$name-launches" "$bench" "$config" pass "$T" 1
	done
}

counters() {
	part 60 counters ncu --clock-control none --section SpeedOfLight --section WarpStateStats \
		--section MemoryWorkloadAnalysis --section Occupancy --kernel-name-base demangled -k \
		'regex:prepare|walk|read_out|ready|scan_bf16|back|conv_rows|attn_forward' -c 24 \
		"$bench" "$MODEL" pass "${segments[0]}" 1
}

for group in $ONLY; do
	case $group in
	ceilings | right | sanitizers | delta | passes | steps | families | counters) "$group" ;;
	*) echo "gpu-first.sh: ONLY: there is no '$group'" >&2; exit 64 ;;
	esac
done
"$here/gpu-compare.sh" . | tee compared.txt
