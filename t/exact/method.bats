#!/usr/bin/env bats
# The method: random numbers, selection, rewards, advantages, policy loss; and the command that
# decides rewards.
setup() { load ../helper; }

@test "method: draws, positions, rewards, advantages and policy loss agree with references and formulas" {
	unit method "$G"
}

@test "method: a command run as a child process leaves nothing behind, and one that hangs is ended" {
	unit exec
}
