#!/usr/bin/env bats
setup() { load ../helper; }

# Each on several devices: the CPU with 1, 2 and 3 threads, and the checking device, whose bits are the same.
# one_in N UNIT: a unit program in the first case of each of its functions and one in N of the others; in all
# cases with RF_ALL=1
one_in() { RF_EVERY=${RF_ALL:-$1} unit "$2"; }

@test "cpu: products agree with double precision, also in batches and rounded; equal bits for any threads" {
	one_in 2 ops-products
}
@test "cpu: what an operation has written is what products multiply" {
	unit ops-written
}
@test "cpu: norms, gates, convolutions and rotary embeddings agree with double precision, also with gaps" {
	one_in 3 ops-rows
}
@test "cpu: the delta rule and its gradients agree with double precision, in segments and step by step" {
	one_in 2 ops-delta
}
@test "cpu: attention and its gradients agree with double precision, with windows, caches and step by step" {
	unit ops-attention
}
@test "cpu: the operations of fast weights and their gradients agree with double precision" {
	unit ops-fast-weights
}
@test "cpu: the head, sampling and the optimizer agree with double precision" {
	one_in 3 ops-head
}
@test "cpu: at every lower level of the instruction set all operations agree with double precision" {
	local every=${RF_ALL:+1}
	for isa in $(levels | sed 1d); do # the highest level is tested above
		for unit in "$ROOT"/t/unit/ops-*.c; do
			RF_ISA=$isa RF_EVERY=${every:-8} unit "$(basename "$unit" .c)" cpu
		done
	done
}
@test "device: the check device reports what a GPU would not forgive, like a write out of bounds" {
	unit dev-check
}
