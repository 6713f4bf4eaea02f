#!/usr/bin/env bats
setup() { load ../helper; }

# tree WAY [N]: runs the unit program with one of N models [2], or with all models and lengths if RF_ALL=1
tree() { RF_EVERY=${RF_ALL:-${2:-2}} unit tree "$1" ${RF_ALL:+all}; }

@test "tree: a text with rollouts has the states, log-probabilities and gradients of separate sequences" {
	tree exact
}
@test "tree: rollouts have the same states and log-probabilities when drawn, scored or read as a text" {
	tree bits 3
}
@test "tree: the gradients of both losses agree with finite differences" {
	tree slope
}
