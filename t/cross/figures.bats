#!/usr/bin/env bats
# The unit programs that compute, on an emulated processor: of the cases of operations, and of the models, as
# many as minutes are enough for.
setup() { load ../helper; }

@test "figures: operations, and their bits for any number of threads" { RF_EVERY=8 unit ops; }
@test "figures: operations that mix rows" { RF_EVERY=40 unit ops-mix; }
@test "figures: operations in rows apart, in batches, of fast weights; what a GPU would not forgive" {
	unit ops-args
	unit ops-fast
	unit dev-check
}
@test "figures: DeltaNet's and LaCT's texts with rollouts are the same bits as separate sequences" {
	RF_EVERY=33 unit tree bits
}
@test "figures: DeltaNet's and Qwen3.5's gradients against finite differences" {
	RF_EVERY=22 unit tree slope
}
