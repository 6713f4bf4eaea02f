#!/usr/bin/env bats
# The fuzzers' corpora, each file as a test: make fuzz looks for more of them.
setup() { load helper; }

@test "fuzz: every file of the fuzzing corpora passes its fuzz target" {
	for corpus in "$ROOT"/t/fuzz/corpus/*; do
		replay "$(basename "$corpus")" "$corpus"/*
	done
}
