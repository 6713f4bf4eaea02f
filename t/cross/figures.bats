#!/usr/bin/env bats
# The unit programs that compute, on an emulated processor: of the cases of operations, and of the models, as
# many as minutes are enough for.
setup() { load ../helper; }

@test "figures: operations agree with double precision, with equal bits for any number of threads" {
	for unit in ops-{products,rows,head}; do
		RF_EVERY=8 unit $unit
	done
	unit ops-fast-weights
}
@test "figures: the delta rule and attention agree with double precision" {
	RF_EVERY=40 unit ops-delta
	RF_EVERY=40 unit ops-attention
}
@test "figures: the checking device reports what a GPU would not forgive" {
	unit dev-check
}
@test "figures: a text with rollouts has the same bits as separate sequences, in DeltaNet and LaCT" {
	RF_EVERY=33 unit tree bits
}
@test "figures: the gradients of DeltaNet and Qwen3.5 agree with finite differences" {
	RF_EVERY=22 unit tree slope
}
