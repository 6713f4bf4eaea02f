#!/usr/bin/env bats
# Tests of the CUDA kernels on the emulated GPU (t/emu): every operation runs in three orders of blocks, warps
# and threads, once with contracted multiply-adds, and once with every access checked for races.
# t/gpu/emu-programs.bats tests programs on the emulated GPU; DEVICE=cuda tests them on a real one.
setup() {
	load ../helper
	[ -e "$RF_UNITS/../rf-cuda-host.so" ] || skip "CUDA was left out: no toolkit"
	export RF_PLUGIN=$RF_UNITS/../rf-cuda-host.so
}

# in_all_orders NAME EVERY: runs a unit program on a GPU of 132 multiprocessors, with all cases or one of
# EVERY.  A third of these cases also runs on a GPU of 4 multiprocessors, in two more orders, which must give
# the same bits.  make check-all runs all cases.  Under sanitizers, which are slow, one of 12 cases runs.
in_all_orders() {
	local every=$2 failed=
	[ -z "${RF_ALL:-}" ] || every=1
	[[ "$RF_UNITS" != */sanitize/* ]] || every=12
	export RF_UNITS
	printf '%s\n' "fwd $every 132" "rev $((3 * every)) 4" "rand:1 $((3 * every)) 4" |
		xargs -P 2 -L 1 sh -c 'EMU_ORDER=$1 RF_EVERY=$2 EMU_SMS=$3 \
			"$RF_UNITS/unit/$0" cuda >"$1" 2>&1 || echo "not ok in order $1" >>"$1"' "$1"
	for order in fwd rev rand:1; do
		! grep '^not ok in order' "$order" || { grep -v '^ok' "$order"; failed=1; }
	done
	[ -z "${RF_SHOW:-}" ] || sed 's/^/# /' fwd >&3
	[ -z "$failed" ]
	[ "$(grep -h '^# bits' rev rand:1 | sort -u | wc -l)" -eq 1 ]
}

# side_by_side PLUGIN EVERY: runs all unit programs with another build of the kernels, with the first case of
# each function and one of EVERY other cases, or six times as many if RF_ALL=1; ops-written and ops-delta,
# whose cases cost most, run with a quarter of these
side_by_side() {
	local every=$2
	[ -z "${RF_ALL:-}" ] || every=$(($2 / 6))
	export RF_UNITS RF_PLUGIN=$RF_UNITS/../rf-cuda-$1.so
	printf '%s\n' ops-{delta,written}" $((4 * every))" \
		ops-{products,rows,attention,fast-weights,head}" $every" |
		xargs -P 2 -L 1 sh -c 'RF_EVERY=$1 "$RF_UNITS/unit/$0" cuda >"$0" 2>&1 || touch failed'
	[ ! -e failed ] || { grep -v '^ok' ops*; false; }
}

@test "cuda, emulated: products agree with double precision in three orders of threads" {
	in_all_orders ops-products 8
}
@test "cuda, emulated: a product multiplies the newest numbers after any operation has written its operand" {
	in_all_orders ops-written 6 # with each writer
}
@test "cuda, emulated: norms, gates, convolutions and rotary embeddings agree with double precision" {
	in_all_orders ops-rows 6
}
@test "cuda, emulated: the delta rule agrees with double precision, by segments and token by token" {
	in_all_orders ops-delta 32
}
@test "cuda, emulated: attention agrees with double precision, also in windows and token by token" {
	in_all_orders ops-attention 8
}
@test "cuda, emulated: the operations of fast weights agree with a reference in double precision" {
	in_all_orders ops-fast-weights 2
}
@test "cuda, emulated: the head, sampling and the optimizer agree with double precision" {
	in_all_orders ops-head 12
}
@test "cuda, emulated: all operations agree with double precision with contracted multiply-adds" {
	[[ "$RF_UNITS" != */sanitize/* ]] || skip "not under sanitizers"
	grep -qw fma /proc/cpuinfo || skip "this processor has no fused multiply-adds"
	side_by_side contracted 60
}
@test "cuda, emulated: no operation lets two threads touch the same memory without a barrier" {
	[[ "$RF_UNITS" != */sanitize/* ]] || skip "not under sanitizers"
	EMU_SMS=132 side_by_side race 90
}
@test "cuda, emulated: the emulator finds every planted kernel bug and accepts the corrected kernels" {
	for order in fwd rev rand:1; do
		EMU_ORDER=$order shown emu/bugs
		[ -z "${RF_ALL:-}" ] && [ $order != fwd ] || [ ! -e "$RF_UNITS/emu/bugs-race" ] ||
			EMU_ORDER=$order shown emu/bugs-race
	done
}
@test "cuda-report: fails if a kernel uses so many registers that no block fits on a multiprocessor" {
	local records=$RF_UNITS/../cuda
	[ -e "$records/head.ptxas" ] || skip "the plugin was not built here"
	EMU_LAUNCHES=launches EMU_SMS=132 helper launches
	mkdir few many
	cp "$records/head.ptxas" few
	sed 's/Used [0-9]* registers/Used 255 registers/' "$records/head.ptxas" >many/head.ptxas
	report() { SPILLS=600 "$ROOT/kernels/cuda/report.sh" "$1" "$RF_PLUGIN" launches launches; }
	run -0 report few
	mentions 1 'report.sh: no block of select_rows fits on sm_' report many
}
