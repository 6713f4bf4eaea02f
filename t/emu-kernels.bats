#!/usr/bin/env bats
# The CUDA kernels on the emulated GPU (t/emu): every operation of the table, in three orders of
# blocks, warps and threads, and once where every access is checked for races.  DEVICE=cuda and
# t/emu-programs.bats are about programs.
setup() {
	load helper
	[ -e "$RF_UNITS/../rf-cuda-host.so" ] || skip "CUDA was left out: no toolkit"
	export RF_PLUGIN=$RF_UNITS/../rf-cuda-host.so
}

# in_all_orders NAME [EVERY]: a unit program's numbers are right in all of its cases, or some, and in two more
# orders in a third of these, to the same bits; make check-all has all of them.  Under sanitizers it is slow.
in_all_orders() {
	local every=${2:-1} failed=
	[ -z "${RF_ALL:-}" ] || every=1
	[[ "$RF_UNITS" != */sanitize/* ]] || every=12
	export RF_UNITS
	printf '%s\n' "fwd $every" "rev $((3 * every))" "rand:1 $((3 * every))" |
		xargs -P 2 -L 1 sh -c 'EMU_ORDER=$1 RF_EVERY=$2 "$RF_UNITS/unit/$0" cuda >"$1" 2>&1 ||
			echo "not ok in order $1" >>"$1"' "$1"
	for order in fwd rev rand:1; do
		! grep '^not ok in order' "$order" || { grep -v '^ok' "$order"; failed=1; }
	done
	[ -z "${RF_SHOW:-}" ] || sed 's/^/# /' fwd >&3
	[ -z "$failed" ]
	[ "$(grep -h '^# bits' rev rand:1 | sort -u | wc -l)" -eq 1 ]
}

@test "cuda, emulated: products agree with double precision, in any order of threads" {
	in_all_orders ops-products 2
}
@test "cuda, emulated: what an operation has written is what products multiply, rounded or not" {
	in_all_orders ops-written
}
@test "cuda, emulated: norms, gates, convolutions and rotary embeddings agree with double precision" {
	in_all_orders ops-rows 2
}
@test "cuda, emulated: the delta rule agrees with double precision, in segments and step by step" {
	in_all_orders ops-delta 3
}
@test "cuda, emulated: attention agrees with double precision, with windows, caches and step by step" {
	in_all_orders ops-attention 3
}
@test "cuda, emulated: the operations of fast weights agree with double precision" {
	in_all_orders ops-fast-weights
}
@test "cuda, emulated: the head, sampling and the optimizer agree with double precision" {
	in_all_orders ops-head 2
}
@test "cuda, emulated: no operation lets two threads touch the same memory without a barrier" {
	local every=${RF_ALL:+6}
	export RF_UNITS RF_PLUGIN=$RF_UNITS/../rf-cuda-race.so RF_EVERY=${every:-12}
	[ -e "$RF_PLUGIN" ] || skip "not under sanitizers"
	printf '%s\n' ops-{products,written,rows,delta,attention,fast-weights,head} |
		xargs -P 2 -I '{}' sh -c '"$RF_UNITS/unit/$1" cuda >"$1" 2>&1 || touch failed' _ '{}'
	[ ! -e failed ] || { grep -v '^ok' ops*; false; }
}
@test "cuda, emulated: the emulator finds every planted kernel bug and accepts the corrected kernels" {
	for order in fwd rev rand:1; do
		EMU_ORDER=$order shown emu/bugs
		[ ! -e "$RF_UNITS/emu/bugs-race" ] || EMU_ORDER=$order shown emu/bugs-race
	done
}
