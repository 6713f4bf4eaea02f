#!/usr/bin/env bats
setup() { load ../helper; }

@test "tree: a text with rollouts has the states, log-probabilities and gradients of separate sequences" {
	unit tree exact ${RF_ALL:+all}
}
@test "tree: rollouts have the same states and log-probabilities when drawn, scored or read as a text" {
	unit tree bits ${RF_ALL:+all}
}
@test "tree: the gradients of both losses agree with finite differences" {
	unit tree slope ${RF_ALL:+all}
}
