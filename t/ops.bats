#!/usr/bin/env bats
setup() { load helper; }

@test "device: every operation agrees with double precision, with the same bits for any number of threads" {
	unit u-ops
}
@test "device: the operations that mix rows do so too, forward and backward" {
	unit u-ops-mix
}
@test "device: and those that not all models use, in rows that do not touch, in batches" {
	unit u-ops-args
}
@test "device: and those of fast weights" {
	unit u-ops-fast
}
@test "device: so do the kernels for older processors" {
	for isa in $(levels | sed 1d); do # its own is above
		RF_ISA=$isa unit u-ops cpu
		RF_ISA=$isa unit u-ops-mix cpu
		RF_ISA=$isa unit u-ops-args cpu
		RF_ISA=$isa unit u-ops-fast cpu
	done
}
@test "device: check notices what a GPU would not forgive" {
	unit u-dev-check
}
