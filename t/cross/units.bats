#!/usr/bin/env bats
# The unit programs on an emulated processor, but for those of figures (figures.bats) and u-exec: an emulator
# makes a fork of vfork, so that a command that is stopped at once is not yet a group, and is waited for.
setup() { load ../helper; }

@test "units: random numbers, selection, rewards, advantages, policy loss" {
	unit u-method "$G"
	unit u-rewards "$G"
}
@test "units: messages, records, JSON, tables, text" {
	unit u-rules
	unit u-json "$G"/stream/*.rf
	unit u-table
	unit u-text
}
@test "units: streams, damaged anywhere" { unit u-stream; }
@test "units: what a model is on disk, and fresh weights" {
	unit u-tensors "$G"
	unit u-config
	unit u-init
}
@test "units: what fuzzers found" {
	for kind in config stream tensors text; do
		unit f-$kind "$ROOT"/t/corpus/$kind/*
	done
}
@test "units: a run's commits" { unit u-run test "$G"; }
