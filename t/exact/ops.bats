#!/usr/bin/env bats
setup() { load ../helper; }

# Each test runs on several devices: on the CPU with 1, 2 and 3 threads, and on the checking device, which
# must give the same bits.
#
# one_in N UNIT: runs a unit program with the first case of each of its functions and one of N other cases, or
# with all cases if RF_ALL=1
one_in() { RF_EVERY=${RF_ALL:-$1} unit "$2"; }

@test "cpu: products agree with double precision, also in batches and rounded, and threads change no bit" {
	one_in 4 ops-products
}
@test "cpu: a product multiplies the newest numbers after any operation has written its operand" {
	unit ops-written
}
@test "cpu: norms, gates, convolutions and rotary embeddings agree with double precision, also with gaps" {
	one_in 3 ops-rows
}
@test "cpu: the delta rule and its gradients agree with double precision, by segments and token by token" {
	one_in 4 ops-delta
}
@test "cpu: attention and its gradients agree with double precision, also in windows and token by token" {
	one_in 4 ops-attention
}
@test "cpu: the operations of fast weights and their gradients agree with double precision" {
	unit ops-fast-weights
}
@test "cpu: the head, sampling and the optimizer agree with double precision" {
	one_in 8 ops-head
}
@test "cpu: at every lower level of the instruction set all operations agree with double precision" {
	local every=${RF_ALL:+1}
	# auto and the highest level are tested above
	for isa in $(levels | sed 1,2d); do
		for unit in "$ROOT"/t/unit/ops-*.c; do
			RF_ISA=$isa RF_EVERY=${every:-32} unit "$(basename "$unit" .c)" cpu
		done
	done
}
@test "device: the checking device reports errors that a GPU does not report, like a write out of bounds" {
	unit dev-check
}
