#!/usr/bin/env bats
# What a model is on disk: config.json, safetensors, the table of weights.
setup() { load helper; }

@test "model files: a safetensors file that breaks any one rule of the format is refused" {
	unit tensors "$G"
}
@test "model files: a published config.json is read, and whatever is not supported is named" {
	unit config
}
@test "model files: a generation_config.json that is no object or names no tokens is refused, with its name" {
	cp -r "$G/delta" m
	chmod -R u+w m
	for good in '{}' '{"eos_token_id":null}' '{"eos_token_id":39,"max_length":20}' '{"eos_token_id":[]}' \
		'{"eos_token_id":[2,2,0,1,3,4,5,6,7,8,9,10,11,12,13,14,15]}'; do
		echo "$good" >m/generation_config.json
		rf-dump m >/dev/null
	done
	said="'eos_token_id' must be a token of the vocabulary or a list of them, 16 at most in all"
	for bad in 40 -1 '"</s>"' 1.5 '[1,40]' '[[1]]' '[0,1,3,4,5,6,7,8,9,10,11,12,13,14,15,16]'; do
		echo "{\"eos_token_id\":$bad}" >m/generation_config.json
		run -78 --separate-stderr rf-dump m
		[ "$stderr" = "rf-dump: m/generation_config.json: $said" ]
	done
	for bad in '[]' '' '{"eos_token_id":1,"eos_token_id":2}' '{'; do
		echo "$bad" >m/generation_config.json
		run -78 --separate-stderr rf-dump m
		[[ "$stderr" == "rf-dump: m/generation_config.json: "* ]]
		[ "${#stderr_lines[@]}" -eq 1 ]
	done
	rm m/generation_config.json
	ln -s generation_config.json m/generation_config.json
	run --separate-stderr rf-dump m
	[ "$status" -ne 0 ]
	[[ "$stderr" == "rf-dump: m/generation_config.json: "* ]]
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
