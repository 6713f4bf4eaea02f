#!/bin/bash
# gpu-first.sh OUT | --plan -- the first ten minutes on a GPU: checks whether all results are right and
# measures each part of the work, the most important first.  gpu-first.md says what it needs and how to read
# its output.
#
# OUT/first.tgz has the output of each part; OUT/parts.tsv each part's status, seconds and expected seconds;
# OUT/compared.txt the predicted and the measured figures (gpu-compare.sh).  They are replaced after each
# part, so a run that is killed loses only the parts that were running.  No part starts that cannot end in
# time.  --plan prints the parts and the seconds that they are expected to take on an H100.
#
#     open        does the plugin load, and does one kernel launch?  If not, the run stops here
#     right       each operation compared with double precision, twice; the programs compared with the CPU
#     ceilings    a copy, and products of a layer's shapes by each of cuBLAS's ways
#     delta       the delta rule
#     passes      forward and backward passes in segments of 2048 and 8192 rows, and in float32
#     steps       a step of ReFINE, its memory, with recomputation, of 1 and 8 rollouts
#     families    Gated DeltaNet, LaCT, Qwen3.5
#     lengths     other segments and other lengths of the above
#     counters    Nsight Compute: one launch of each kernel and size that memory does not limit
#     sanitizers  compute-sanitizer's memcheck, racecheck and initcheck
#     peer        the delta rule by flash-linear-attention, if it is installed
#
#     BUDGET=540 pipelines/bench/gpu-first.sh out
#     ONLY='open delta passes' pipelines/bench/gpu-first.sh out2
#
# BUDGET: seconds for the whole run, at least 20.  RF_BIN, RF_BENCH, RF_CUBLAS, RF_UNITS, RF_PLUGIN: other
# paths of the programs.  MODEL, WINDOWED: other configs; FAMILIES, SMALL: lists of them.  T, SEGMENTS, ROWS,
# SIZES, DELTAS, HEADS, WIDE: other sizes.  LIBRARIES: folders to look for cuBLAS in.  SLOWER: a factor for
# the time limits of parts.
#
# Exit status: 0; 1: something is NOT RIGHT; 64: usage; 69: no kernel runs; 73: OUT cannot be written, or has
# a run already; 143: interrupted.
set -eu -o pipefail
here=$(cd -- "$(dirname -- "$0")" >/dev/null && pwd)
plan=
case $#:${1:-} in
1:--help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;;
1:--plan) plan=1 ;;
1:-* | [!1]:*) echo "usage: gpu-first.sh OUT | --plan | --help" >&2; exit 64 ;;
esac
bench=$(realpath -m "${RF_BENCH:-$here/../../build/t/helper/bench}")
units=$(realpath -m "${RF_UNITS:-$here/../../build/t}")
cublas=$(realpath -m "${RF_CUBLAS:-$here/../../build/t/helper/cublas}")
bin=$(realpath -m "${RF_BIN:-$here/../../bin}")
RF_PLUGIN=$(realpath -m "${RF_PLUGIN:-$here/../../build/rf-cuda.so}")
configs=$here/../configs
MODEL=$(realpath "${MODEL:-$configs/delta_net-1.3b.json}")
families=("$configs"/{gated_deltanet-400m,lact-760m,qwen3_5-0.8b}.json)
small=("$here"/../demo/demo-{delta_net,gated_deltanet,lact_swiglu,qwen3_5_text}.json)
# shellcheck disable=SC2086  # lists
{
	[ -z "${FAMILIES+set}" ] || mapfile -t families < <(realpath -m ${FAMILIES:+$FAMILIES} 2>/dev/null)
	[ -z "${SMALL+set}" ] || mapfile -t small < <(realpath -m ${SMALL:+$SMALL} 2>/dev/null)
}
WINDOWED=$(realpath "${WINDOWED:-$configs/lact-760m.json}")
T=${T:-16384}
SEGMENTS=${SEGMENTS:-2048 8192 4096 16384}
ROWS=${ROWS:-2048 8192 16384}
SIZES=${SIZES:-2048 5632 32000}
DELTAS=${DELTAS:-2048 16384 8192 32768}
HEADS=${HEADS:-16 128}
WIDE=${WIDE:-6 128x256} # the heads of Gated DeltaNet-400M
BUDGET=${BUDGET:-540}
SLOWER=${SLOWER:-1}
LIBRARIES=${LIBRARIES:-/usr/local /opt}
groups=' open right ceilings delta passes steps families lengths counters sanitizers peer '
ONLY=${ONLY:-$groups}
for name in BUDGET SLOWER T; do
	[[ "${!name}" =~ ^[1-9][0-9]*$ ]] || {
		echo "gpu-first.sh: $name='${!name}': a whole number is needed" >&2
		exit 64
	}
done
[ "$BUDGET" -ge 20 ] || { echo "gpu-first.sh: BUDGET=$BUDGET: at least 20 seconds are needed" >&2; exit 64; }
PATH=$PATH:/usr/sbin:/sbin:/usr/local/cuda/bin newest=
for folder in /opt/nvidia/nsight-compute/*; do
	PATH=${PATH%:"$newest"}:$folder newest=$folder
done
export LC_ALL=C RF_PLUGIN RF_DEVICE=cuda BENCH_FRESH=1 PATH
# For the peer.  A process finds the kernels that another process compiled, but must not use the timings of
# that process, because other parts ran at the same time.
export PYTHONUNBUFFERED=1 TRITON_CACHE_AUTOTUNING=0 FLA_CACHE_RESULTS=0
[ ! -d "$here/../../lib/python" ] || export PYTHONPATH=$here/../../lib/python

read -ra segments <<<"$SEGMENTS"
read -ra rows <<<"$ROWS"
read -ra sizes <<<"$SIZES"
read -ra deltas <<<"$DELTAS"
read -ra heads <<<"$HEADS"
read -ra wide <<<"$WIDE"
short=${segments[0]} long=${segments[1]:-${segments[0]}} # rows of a segment
peers=${deltas[1]:-${deltas[0]}} # tokens of the delta rule that both the bench and the peer compute

# ---- parts ------------------------------------------------------------------------------------

# Statuses in parts.tsv that do not come from a program.  124 and 137 mean that timeout has stopped the part.
readonly NOT_BEGUN=-1 MISSING=-2 INTERRUPTED=-3
readonly RESERVE=3 # seconds for the last comparison and archive
began=$EPOCHSECONDS
patience=3 # a part may take its expected seconds times this, plus 15 s
declare -A name_of=() began_at=() expected_of=()
clocks='' warming='' side_by_side=0 total=0

left() { echo $((BUDGET - RESERVE - (EPOCHSECONDS - began))); }

# keep: replaces the files in OUT
keep() {
	cp parts.tsv compared.txt "$out"
	# tar exits with 1 if a running part changes its file meanwhile
	{ tar -cf - --exclude=triton . 2>/dev/null || [ $? -eq 1 ]; } | gzip -1 >"$out/first.tgz.new"
	mv "$out/first.tgz.new" "$out/first.tgz"
}

# record NAME STATUS SECONDS EXPECTED: adds a part to parts.tsv, and prints how it ended
record() {
	printf '%s\t%d\t%.1f\t%d\n' "$@" >>parts.tsv
	printf '%-32s %3d %6.1f s\n' "$1" "$2" "$3"
	[ ! -s "$1.txt" ] || [ "$2" -eq 0 ] || tail -n 2 "$1.txt" | cut -c 1-150 | sed 's/^/    /'
	[ ! -s "$1.txt" ] || sed -nE '/^(forward|step|delta rule|copy|square)/s/ {3,}/  /gp' "$1.txt" |
		cut -c 1-90 | sed 's/^/    /'
	keep || echo "gpu-first.sh: $out could not be written" >&2
}
# status_of NAME: prints the last status of a part, or NOT_BEGUN
status_of() {
	awk -F '\t' -v name="$1" -v none=$NOT_BEGUN '$1 == name { s = $2 } END { print s == "" ? none : s }' \
		parts.tsv
}

# start SECONDS NAME COMMAND...: starts a part, if the seconds that it is expected to take are left
start() {
	local expected=$1 name=$2 limit most
	shift 2
	if [ -n "$plan" ]; then
		printf '%-32s %4d s\n' "$name" "$expected"
		side_by_side=$((expected > side_by_side ? expected : side_by_side))
		return
	fi
	most=$(left)
	if [ "$most" -lt "$expected" ]; then
		record "$name" $NOT_BEGUN 0 "$expected"
	elif ! command -v "$1" >/dev/null; then
		echo "there is no $1" >"$name.txt"
		record "$name" $MISSING 0 "$expected"
	else
		limit=$(((patience * expected + 15) * SLOWER))
		timeout -k 2 $((limit < most ? limit : most)) "$@" >"$name.txt" 2>&1 </dev/null &
		name_of[$!]=$name
		began_at[$!]=$EPOCHREALTIME
		expected_of[$!]=$expected
	fi
}
# ended PID STATUS: records a part
ended() {
	local name=${name_of[$1]}
	unset "name_of[$1]"
	record "$name" "$2" "$(awk -v a="${began_at[$1]}" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }')" \
		"${expected_of[$1]}"
}
# finish: waits for the parts that were started.  It checks each of them, since wait -n forgets processes that
# a signal ended.
finish() {
	local pid status
	total=$((total + side_by_side))
	side_by_side=0
	while [ ${#name_of[@]} -gt 0 ]; do
		for pid in "${!name_of[@]}"; do
			if ! kill -0 "$pid" 2>/dev/null; then
				status=0
				wait "$pid" 2>/dev/null || status=$?
				ended "$pid" "$status"
			fi
		done
		sleep .05
	done
}
part() {
	start "$@"
	finish
}
# profiled SECONDS NAME COMMAND...: runs a part that also writes a table of its launches to NAME.profile
profiled() {
	RF_PROFILE=${work:-}/$2.profile part "$@"
}
# valued SECONDS NAME COMMAND...: runs a part that also writes the numbers of a pass to NAME.values
valued() {
	BENCH_VALUES=${work:-}/$2.values part "$@"
}

# compare: prints the new lines of gpu-compare.sh
compare() {
	"$here/gpu-compare.sh" . >compared.new &&
		awk 'FILENAME == ARGV[1] { before[$0]++; next } before[$0]-- > 0 { next } { print }' \
			compared.txt compared.new &&
		mv compared.new compared.txt && keep || echo "gpu-first.sh: the comparison failed" >&2
}

# end: ends the run, also an interrupted one
end() {
	local status=$? pid
	trap '' TERM INT
	kill ${clocks:+"$clocks"} "${!name_of[@]}" 2>/dev/null || true
	to_peer TERM
	to_peer CONT
	for pid in "${!name_of[@]}"; do
		wait "$pid" 2>/dev/null || true
		ended "$pid" $INTERRUPTED
	done
	compare
	[ "$status" -ne 0 ] || ! grep -q 'NOT RIGHT' compared.txt || status=1
	cd /
	rm -rf "$work"
	echo "$((EPOCHSECONDS - began)) s; all that was printed is in $out/first.tgz"
	exit $status
}

# ---- groups -----------------------------------------------------------------------------------

# The part `open` reads 600 MB of cuBLAS from the disk, so its time limit is longer.
open() {
	start 2 loads ldd "$RF_PLUGIN"
	start 3 nvidia-smi nvidia-smi
	finish
	local patience=5
	RF_SYNC=1 part 15 open "$bench" - delta 64 2 32
	[ -n "$plan" ] || [ "$(status_of open)" -eq 0 ] || exit 69
}

# repeat UNIT: if a unit program failed, runs it again with a wait after each kernel, so that the message
# names the kernel that failed; then runs it without the case that failed.  At most three cases are left out.
repeat() {
	local name=right-$1 left_out='' failed tries
	for ((tries = 0; tries < 3; tries++)); do
		[ "$(status_of "$name")" -gt 0 ] || return 0
		RF_SYNC=1 RF_NOT=$left_out part 5 "$name-sync" "$units/unit/ops-$1" cuda
		failed=$(sed -n 's/^Bail out!.*(RF_NOT=\(.*\) leaves this case out)$/\1/p' "$name.txt")
		# if no kernel failed, the lines say which results are not right
		[ -n "$failed" ] && [[ ",$left_out," != *",$failed,"* ]] || return 0
		left_out=$left_out${left_out:+,}$failed
		name=right-$1-without-${left_out//,/-}
		RF_NOT=$left_out part 5 "$name" "$units/unit/ops-$1" cuda
	done
}

right() {
	local names=(products written rows delta attention fast-weights head) unit config
	for unit in "${names[@]}"; do
		start 12 "right-$unit" "$units/unit/ops-$unit" cuda # in float32 and in bf16
		start 12 "right-$unit-again" "$units/unit/ops-$unit" cuda
	done
	finish
	for unit in "${names[@]}"; do
		[ -n "$plan" ] || repeat "$unit"
	done
	for config in "${small[@]}"; do
		start 25 "programs-$(basename "$config" .json)" "$here/gpu-programs.sh" "$bin" "$config"
	done
	finish
}

ceilings() {
	part 8 products "$bench" - products "${sizes[@]}" "${rows[@]}"
	part 16 cublas "$cublas" "${sizes[@]:0:2}" "${rows[@]}"
}

delta() {
	local t
	for t in "${deltas[@]:0:2}"; do
		part 4 "delta-$t" "$bench" - delta "$t" "${heads[@]}"
	done
	part 4 delta-wide "$bench" - delta "$T" "${wide[@]}"
	profiled 4 delta-profiled "$bench" - delta "$peers" "${heads[@]}"
}

# Times come from runs without events (profiles of launches), because events take time.
passes() {
	local segment
	for segment in "${segments[@]:0:2}"; do
		BENCH_SEGMENT=$segment valued 7 "pass-$segment" "$bench" "$MODEL" pass "$T" 2
	done
	BENCH_SEGMENT=$short profiled 6 "pass-$short-launches" "$bench" "$MODEL" pass "$T" 1
	BENCH_SEGMENT=$short BENCH_DTYPE=f32 valued 10 pass-f32 "$bench" "$MODEL" pass "$T" 0
}

# Three engines share the memory of the GPU.  They do not fit with the longest segments, nor with the exact
# sum unless activations are recomputed.
steps() {
	local -x BENCH_SEGMENT=$short
	BENCH_RECOMPUTE=1 part 13 step-recompute "$bench" "$MODEL" step "$T" 1
	local -x BENCH_SUM=plain
	part 12 step "$bench" "$MODEL" step "$T" 1
	BENCH_ROLLOUTS=8 part 12 step-n8 "$bench" "$MODEL" step "$T" 1
	profiled 12 step-launches "$bench" "$MODEL" step "$T" 1
}

families() {
	local config name segment
	for config in "${families[@]}"; do
		name=$(basename "$config" .json)
		for segment in "$long" "$short"; do
			BENCH_SEGMENT=$segment valued 7 "$name-$segment" "$bench" "$config" pass "$T" 2
		done
		BENCH_SEGMENT=$long profiled 5 "$name-launches" "$bench" "$config" pass "$T" 1
	done
}

# Sums are plain, because the exact sum leaves no room for the peer, which is stopped but keeps its memory.
lengths() {
	local t segment
	for segment in "${segments[@]:2}"; do
		BENCH_SUM=plain BENCH_SEGMENT=$segment valued 7 "pass-$segment" "$bench" "$MODEL" pass "$T" 2
	done
	for t in "${deltas[@]:2}"; do
		part 5 "delta-$t" "$bench" - delta "$t" "${heads[@]}"
	done
	BENCH_SUM=plain BENCH_SEGMENT=${segments[2]:-$short} \
		part 10 step-longer "$bench" "$MODEL" step "$T" 1
}

# The counters use a model of one layer: it runs all kernels, and ncu saves little memory between the
# repetitions of a launch.
counted() {
	[ -n "$plan" ] || sed 's/\("num_hidden_layers": *\)[0-9]*/\11/' "$3" >"$2.json"
	part "$1" "$2" ncu --clock-control none --section SpeedOfLight --section WarpStateStats \
		--section MemoryWorkloadAnalysis --section Occupancy --kernel-name-base demangled \
		-k "regex:$4" --filter-mode per-launch-config -c 1 "$bench" "$2.json" pass "$short" 0
}
counters() {
	counted 15 counters "$MODEL" 'prepare|walk|read_out|ready|scan_bf16|back|conv_rows'
	counted 15 counters-attention "$WINDOWED" 'attn|feature|learn'
}

# The tools run at the same time, each with its own port.  Their time limit is short, to leave time for the
# peer.
sanitizers() {
	local tool unit port=49152 patience=1 options=()
	for tool in memcheck racecheck initcheck; do
		for unit in rows delta attention; do
			[[ "$(compute-sanitizer --help 2>/dev/null)" != *--port* ]] ||
				options=(--port $((port += 20)))
			RF_EVERY=40 start 20 "$tool-$unit" compute-sanitizer "${options[@]}" --tool "$tool" \
				--error-exitcode 9 "$units/unit/ops-$unit" cuda
		done
	done
	finish
}

# The peer compiles a hundred variants of its kernels while nothing is measured.
warm_up() {
	export TRITON_CACHE_DIR=$work/triton
	timeout -k 2 "$(left)" \
		python3 "$here/delta-peer.py" --warm-up "$peers" "${heads[@]}" \
		>peer-warm-up.txt 2>&1 </dev/null &
	warming=$!
}
# to_peer SIGNAL: sends the signal to the warm-up and all of its processes, which timeout made a group
to_peer() { [ -z "$warming" ] || kill "-$1" -- "-$warming" 2>/dev/null || true; }
peer() {
	part 40 "delta-$peers-fla" python3 "$here/delta-peer.py" "$peers" "${heads[@]}"
}

# ---- the run ----------------------------------------------------------------------------------

for group in $ONLY; do
	[[ "$groups" == *" $group "* ]] || { echo "gpu-first.sh: ONLY: there is no '$group'" >&2; exit 64; }
done
if [ -n "$plan" ]; then
	for group in $ONLY; do
		"$group"
	done
	printf '%-32s %4d s\n' 'all, some side by side' "$total"
	exit
fi
if ! mkdir -p "$1" || ! out=$(realpath "$1") || [ ! -w "$out" ]; then
	echo "gpu-first.sh: $1: a folder that can be written is needed" >&2
	exit 73
fi
if [ -e "$out/parts.tsv" ]; then
	echo "gpu-first.sh: $1 has a run already: name another folder" >&2
	exit 73
fi
work=$(mktemp -d)
cd "$work"
: >parts.tsv
: >compared.txt
trap end EXIT
trap 'exit 143' TERM INT
# finds cuBLAS if the loader does not know its folder
if [[ "$(ldconfig -p 2>/dev/null)" != *libcublas.so.13* ]]; then
	# shellcheck disable=SC2086  # folders
	found=$(find $LIBRARIES -xdev -name libcublas.so.13 -printf '%h:' 2>/dev/null || true)
	[ -z "$found" ] || export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}${found%:}
fi
timeout "$BUDGET" nvidia-smi --format=csv -lms 500 \
	--query-gpu=timestamp,clocks.sm,power.draw,clocks_event_reasons.active >clocks.csv 2>&1 </dev/null &
clocks=$!

for group in $ONLY; do
	case $group in
	right)
		[[ " $ONLY " != *' peer '* ]] || warm_up
		right
		;;
	sanitizers)
		to_peer CONT
		sanitizers
		;;
	*) "$group" ;;
	esac
	# no other program uses the GPU during a measurement
	to_peer STOP
	compare
done
