#!/usr/bin/env bats
# The fuzzers' corpora, each file as a test: make fuzz looks for more of them.
setup() { load helper; }

@test "fuzz: no file of the corpora breaks a reader" {
	for fuzzer in "$ROOT"/t/f-*.c; do
		name=$(basename "$fuzzer" .c)
		unit "$name" "$ROOT/t/corpus/${name#f-}"/*
	done
}
