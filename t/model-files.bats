#!/usr/bin/env bats
# What a model is on disk: config.json, safetensors, the table of weights.
setup() { load helper; }

@test "model files: safetensors follow every rule of the reference implementation, or are refused" {
	unit tensors "$G"
}
@test "model files: config.json is read as it is published, and what is not supported is named" {
	unit config
}
@test "model files: fresh weights have the distribution of the published code" {
	unit init
}
@test "model files: what the fuzzers found, and their seeds, stay harmless" {
	[ -x "$RF_UNITS/fuzz/tensors" ] && [ -x "$RF_UNITS/fuzz/config" ] ||
		skip "the fuzz targets are not built"
	replay tensors "$ROOT"/t/fuzz/corpus/tensors/*
	replay config "$ROOT"/t/fuzz/corpus/config/*
}
