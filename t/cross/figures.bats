#!/usr/bin/env bats
# Runs the unit programs that compute on an emulated processor, with as many cases of operations and models as
# a few minutes allow.
setup() { load ../helper; }

@test "figures: products, rows, heads and fast weights agree with double precision on another processor" {
	for unit in ops-{products,rows,head}; do
		RF_EVERY=8 unit $unit
	done
	unit ops-fast-weights
}
@test "figures: the delta rule and attention agree with double precision" {
	RF_EVERY=40 unit ops-delta
	RF_EVERY=40 unit ops-attention
}
@test "figures: the checking device reports errors that a GPU does not report" {
	unit dev-check
}
@test "figures: a text with rollouts has the same bits as separate sequences, in DeltaNet and LaCT" {
	RF_EVERY=33 unit tree bits
}
@test "figures: the gradients of DeltaNet and Qwen3.5 agree with finite differences" {
	RF_EVERY=22 unit tree slope
}
