#!/usr/bin/env bats
# The method's mathematics: random numbers, selection, rewards, advantages, policy loss.
setup() { load helper; }

@test "method: reference figures, second implementations, finite differences, frequencies" {
	unit u-method "$G"
}
