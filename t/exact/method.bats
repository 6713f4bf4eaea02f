#!/usr/bin/env bats
# Tests of the method (random numbers, selection, rewards, advantages, policy loss), and of the child process
# that runs a command for rewards.
setup() { load ../helper; }

@test "method: draws, positions, rewards, advantages and the policy loss agree with references and formulas" {
	unit method "$G"
}

@test "exec: after a command ends, no process and no descriptor is left; one that hangs is killed" {
	unit exec
}
