#!/usr/bin/env bats
# The unit programs on an emulated processor, but for those of figures (figures.bats) and exec: an emulator
# makes a fork of vfork, so that a command that is stopped at once is not yet a group, and is waited for.
setup() { load ../helper; }

@test "units: random numbers, selection, rewards, advantages, policy loss" {
	unit method "$G"
	unit rewards "$G"
}
@test "units: messages, records, JSON, tables, text" {
	unit rules
	unit json "$G"/stream/*.rf
	unit table
	unit text
}
@test "units: streams, damaged anywhere" { unit stream; }
@test "units: what a model is on disk, and fresh weights" {
	unit tensors "$G"
	unit config
	unit init
}
@test "units: what fuzzers found" {
	for kind in config stream tensors text; do
		replay $kind "$ROOT"/t/fuzz/corpus/$kind/*
	done
}
@test "units: a run's commits" { unit run "$G"; }
