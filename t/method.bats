#!/usr/bin/env bats
# The method: random numbers, selection, rewards, advantages, policy loss; and the command that
# decides rewards.
setup() { load helper; }

@test "method: reference figures, second implementations, finite differences, frequencies" {
	unit method "$G"
}

@test "method: a command as a child process leaves nothing behind and is never waited for in vain" {
	unit exec
}
