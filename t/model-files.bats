#!/usr/bin/env bats
# What a model is on disk: config.json, safetensors, the table of weights.
setup() { load helper; }

@test "model files: a safetensors file that breaks any one rule of the format is refused" {
	unit tensors "$G"
}
@test "model files: a published config.json is read, and whatever is not supported is named" {
	unit config
}
@test "model files: fresh weights have the distribution of the published code" {
	unit init
}
@test "model files: the fuzzing corpora of config.json and safetensors pass their fuzz targets" {
	[ -x "$RF_UNITS/fuzz/tensors" ] && [ -x "$RF_UNITS/fuzz/config" ] ||
		skip "the fuzz targets are not built"
	replay tensors "$ROOT"/t/fuzz/corpus/tensors/*
	replay config "$ROOT"/t/fuzz/corpus/config/*
}
