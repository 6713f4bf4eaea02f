#!/usr/bin/env bats
# Tests of the exchange between ranks on GPUs by NCCL, on emulated GPUs and with an emulated NCCL.
setup() {
	load ../helper
	load ../model
	load ../ranks
	have_mpi || skip 'MPI was left out'
	[ -e "$RF_UNITS/emu/libnccl.so" ] || skip "there is no nccl.h"
	export RF_PLUGIN=$RF_UNITS/../rf-cuda-host.so RF_NCCL=$RF_UNITS/emu/libnccl.so TMPDIR=$PWD
	RF_DEVICE=cuda
	unset "${!EMU_@}"
}

# some N OPTION...: trains the run `some` on a batch of two mini-batches, on N ranks
some() {
	in_line "$1" "rf-cat --shard auto --mini-batch 4 in |
		rf-ntp -m some --dtype f32 --mini-batch 4 --lr 1e-3 --threads 1 --ranks mpi \
			--log some.log ${*:2}"
}
many() { texts "${1:-40}" 1:20 2:66 3:9 4:13 5:11 6:30 7:20; }
trained_alone() {
	many >in
	runs one some
	rf-ntp -m one --dtype f32 --mini-batch 4 --lr 1e-3 --log one.log in
}

@test "nccl: any number of ranks on GPUs makes the same steps, sharded or not, by NCCL or through the hosts" {
	trained_alone
	local i=0 hows=('--exchange host --shard optimizer' --exchange\ nccl{,\ --shard\ optimizer})
	[ -z "${RF_ALL:-}" ] || hows+=('--exchange host' '')
	for how in "${hows[@]}"; do
		[ -n "${RF_ALL:-}" ] && by=(2 3 4) || by=($((2 + i++ % 3))) # each number in turn
		for n in "${by[@]}"; do
			some $n "$how"
			[ ! -s said ]
			diff -r --exclude=manifest.json one some
			diff <(figures one.log) <(figures some.log)
			rm -r some some.log
			runs some
		done
	done
	[ -z "$(find . -name 'nccl-*')" ]
	# the other ranks wait for a late rank
	EMU_NCCL=delay:1:2 some 2 --exchange nccl
	diff -r --exclude=manifest.json one some
	# a model whose parts have several tiles
	rm -r one some
	larger one some
	rf-ntp -m one --dtype f32 --mini-batch 4 --lr 1e-3 in
	some 3 --exchange nccl --shard optimizer
	diff -r --exclude=manifest.json one some
}

@test "nccl: a failed call, a call that differs between ranks and a lost rank end the other ranks with 75" {
	trained_alone
	state some >before
	local hows=('' '--shard optimizer') i=0
	for kind in abort:1:2 count:1:1 ${RF_ALL:+type:0:1 op:2:2 root:1:2 group:2:1} join:2; do
		[ -n "${RF_ALL:-}" ] && in=("${hows[@]}") || in=("${hows[i++ % 2]}") # one way and the other
		for how in "${in[@]}"; do
			EMU_NCCL=$kind run -75 some 3 --rank-timeout 30 "$how"
			[ "$(codes)" = '75 75 75' ]
			grep -q '^rf-ntp: .*the ranks cannot reach each other: NCCL: ' said
			state some | cmp - before
		done
	done
	grep -q ': NCCL: unhandled cuda error: no access to the GPU$' said
	for kind in hang leave; do
		GRACE=1 EMU_NCCL=$kind:1:2 run ! some 3 --rank-timeout 2
		[ "$(codes)" = "75 $([ $kind = hang ] && echo 75 || echo 137) 75" ]
		grep -qE '(all 3 ranks came, but|1 of 3 ranks did not come) within 2 s' said
		state some | cmp - before
	done
	some 3
	diff -r --exclude=manifest.json one some
}

@test "nccl: if sums or weights are wrong on one rank, the ranks exit 65 without a commit" {
	trained_alone
	state some >before
	for wrong in 1:2 2:2 ${RF_ALL:+0:1}; do
		EMU_NCCL=corrupt:$wrong run -65 some 3
		[[ "$(cat said)" == 'rf-ntp: rank '?' differs from rank 0 in its last step' ]]
		state some | cmp - before
	done
	for wrong in 0:2 1:4; do # wrong weights; rank 2 owns all weights
		EMU_NCCL=corrupt:$wrong run -65 some 3 --shard optimizer
		[[ "$(cat said)" == 'rf-ntp: rank '?' differs from rank 0 in its last step' ]]
		state some | cmp - before
	done
}

@test "nccl: with a shared GPU or without NCCL, --exchange auto uses the hosts and nccl exits 69" {
	trained_alone
	refused() { # refused MESSAGE: checks that --exchange nccl fails so, and that --exchange auto trains
		run -69 some 3 --exchange nccl
		[ "$(codes)" = '69 69 69' ]
		[[ "$(cat said)" == "rf-ntp: rank 0: --exchange nccl: "$1 ]]
		some 3 --exchange auto
		[ ! -s said ]
		diff -r --exclude=manifest.json one some
		rm -r some
		runs some
	}
	EMU_UUID=1 refused 'ranks 0 and 1 have the same GPU (rf-ranks(7) gives each its own)'
	RF_NCCL=/nowhere refused 'rank 0: NCCL cannot be loaded: /nowhere: cannot open shared object file: *'
	RF_NCCL=libm.so.6 refused 'rank 0: NCCL is older than 2.14: it has no nccl*'
	RF_DEVICE=cpu run -69 some 2 --exchange nccl
	[[ "$(cat said)" == *'rank 0: the device has no link to others (--device cuda has)' ]]
}

@test "nccl: NVIDIA's library has all functions that rf-tools calls, and without a GPU nothing is committed" {
	local real
	real=$(ldconfig -p | sed -n 's/.*libnccl.so.2 .*=> //p' | head -n 1)
	for real in "$real" /usr/local/cuda/lib/libnccl.so.2 /usr/local/cuda/lib64/libnccl.so.2; do
		[ ! -e "$real" ] || break
	done
	[ -e "$real" ] || skip 'there is no libnccl.so.2'
	trained_alone
	state some >before
	# NCCL reports that it finds no driver, or that the memory is not a GPU's memory
	RF_NCCL=$real run ! some 2 --exchange nccl --rank-timeout 20
	cat said
	grep -q 'the ranks cannot reach each other: \(nccl[A-Z]\|NCCL: \)' said
	state some | cmp - before
}
