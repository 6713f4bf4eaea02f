#!/usr/bin/env bats
setup() { load helper; }

@test "device: every operation agrees with double precision, and gives the same bits for any number of threads" {
	unit u-ops
}
@test "device: the operations that mix rows do so too, forward and backward" {
	unit u-ops-mix
}
