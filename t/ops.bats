#!/usr/bin/env bats
setup() { load helper; }

@test "device: every operation agrees with double precision, with the same bits for any number of threads" {
	unit ops
}
@test "device: the operations that mix rows do so too, forward and backward" {
	unit ops-mix
}
@test "device: and those that not all models use, in rows that do not touch, in batches" {
	unit ops-args
}
@test "device: and those of fast weights" {
	unit ops-fast
}
@test "device: so do the kernels for older processors" {
	for isa in $(levels | sed 1d); do # its own is above
		RF_ISA=$isa unit ops cpu
		RF_ISA=$isa unit ops-mix cpu
		RF_ISA=$isa unit ops-args cpu
		RF_ISA=$isa unit ops-fast cpu
	done
}
@test "device: check notices what a GPU would not forgive" {
	unit dev-check
}
