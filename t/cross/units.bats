#!/usr/bin/env bats
# Runs the unit programs on an emulated processor, except those of figures (figures.bats), and except exec: an
# emulator turns vfork into fork, so a command that is stopped immediately is not yet a process group, and the
# test would wait for it.
setup() { load ../helper; }

@test "units: random numbers, selection, rewards, advantages and policy loss pass their unit tests" {
	unit method "$G"
}
@test "units: messages, records, JSON, tables and text pass their unit tests" {
	unit rules
	unit json
	unit table
	unit text
}
@test "units: a damaged stream is refused, or is still the same stream" { unit stream; }
@test "units: model files and fresh weights pass their unit tests" {
	unit tensors "$G"
	unit config
	unit init
}
@test "units: every file of the fuzzing corpora passes its fuzz target" {
	for kind in config stream tensors text; do
		replay $kind "$ROOT"/t/fuzz/corpus/$kind/*
	done
}
@test "units: opening, exporting and committing a run pass their unit tests" { unit run "$G"; }
@test "units: tokenizers give the ids and texts of the reference" {
	unit tokenizer "$G/tokenizer/qwen3_5.json.zst" "$G/tokenizer/qwen3_5.expected.jsonl.zst"
	unit tokenizer "$G/tokenizer/tokenizer.model" "$G/tokenizer/expected.jsonl.zst"
}
