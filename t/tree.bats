#!/usr/bin/env bats
setup() { load helper; }

@test "tree: states, log-probabilities, gradients of a text with rollouts equal those of separate sequences" {
	unit tree exact ${RF_ALL:+all}
}
@test "tree: states and log-probabilities are the same bits, drawn, scored or read as a text" {
	unit tree bits ${RF_ALL:+all}
}
@test "tree: the gradient of both losses agrees with finite differences" {
	unit tree slope
}
