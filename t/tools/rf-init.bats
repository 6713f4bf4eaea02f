#!/usr/bin/env bats
# rf-init: makes fresh checkpoints, begins runs, and exports them.
setup() {
	load ../helper
	sed 's/"vocab_size": 40/"vocab_size": 384/; s/"eos_token_id": 2/"eos_token_id": 1/' \
		"$G/delta/config.json" >config.json
}

nothing_left() { [ -z "$(find . -name '.*.tmp-*')" ]; }

@test "rf-init: the example of the man page makes a checkpoint, a run and a smaller export" {
	rf-init --config config.json --seed 1 ckpt
	rf-init --from ckpt a
	rf-init --from a --dtype bf16 published
	[ "$(readlink a/latest)" = step-000000 ]
	[ -e a/latest/state.json ]
	[ ! -e ckpt/state.json ]
	[ ! -e published/state.json ]
	grep -q '"dtype": "bfloat16"' published/config.json
	[ "$(stat -c %s published/model.safetensors)" -lt "$(stat -c %s ckpt/model.safetensors)" ]
}
@test "rf-init: prints nothing if it succeeds" {
	run --separate-stderr rf-init --config config.json --seed 1 ckpt
	[ -z "$output$stderr" ]
	run --separate-stderr rf-init --from ckpt a
	[ -z "$output$stderr" ]
}
@test "rf-init: the same seed gives the same bytes, and another seed gives other weights" {
	rf-init --config config.json --seed 1 a
	rf-init --config config.json --seed 1 b
	rf-init --config config.json --seed 2 c
	diff -r a b
	run -1 cmp -s a/model.safetensors c/model.safetensors
	cmp a/config.json c/config.json
}
@test "rf-init: an export as f32 keeps every bit, and bf16 survives an export to f32 and back" {
	rf-init --from "$G/delta" --dtype f32 a
	cmp a/model.safetensors "$G/delta/model.safetensors"
	rf-init --from "$G/delta-relu-tied" --dtype f32 b
	rf-init --from b --dtype bf16 c
	rf-init --from c --dtype f32 d
	rf-init --from d --dtype bf16 e
	diff -r c e
}
@test "rf-init: an export changes only the dtype in config.json" {
	rf-init --from "$G/delta-hybrid" --dtype f16 a
	grep -v dtype a/config.json | cmp - <(cat "$G/delta-hybrid/config.json" <(echo))
}
@test "rf-init: --from a run begins another run with the same weights" {
	rf-init --from "$G/delta" a
	rf-init --from a b
	cmp a/latest/model.safetensors b/latest/model.safetensors
}
@test "rf-init: --moments forks a run, and both runs continue with the same bytes" {
	load ../model
	texts 40 1:20 2:30 3:25 >in
	runs a
	rf-ntp -m a --lr 1e-3 <(rf-cat --range 0:1 in)
	rf-ntp -m a --lr 1e-3 <(rf-cat --range 1:2 in)
	rf-init --from a --moments b
	[ "$(readlink b/latest)" = step-000002 ]
	cmp a/latest/optim.safetensors b/latest/optim.safetensors
	[ "$(jq -c '[.step, .commits, .updates, .parent]' b/latest/state.json)" = '[2,0,2,-1]' ]
	rf-dump --check -q b
	rf-init --from b --moments c # once more, before anything was trained
	diff -r b/latest/ c/latest/
	for run in a b; do rf-ntp -m $run --at 2 --lr 1e-3 <(rf-cat --range 2:3 in); done
	same_step a b
	[ "$(jq -c .start.step b/manifest.json)" = 2 ]
	# the fork may have another learning rate; a fork without moments is refused
	rf-init --from a/step-000002 --moments d
	rf-ntp -m d --lr 1e-2 in
	[ "$(readlink d/latest)" = step-000003 ]
	runs fresh
	while read -r status words; do
		run -"$status" --separate-stderr rf-init $words
		[[ "$stderr" == 'rf-init: '*moments* ]]
		[ "${#stderr_lines[@]}" -eq 1 ]
		[ ! -e new ]
	done <<-END
		78 --from fresh --moments new
		78 --from $M --moments new
		64 --from a --moments --dtype f32 new
		64 --config config.json --moments new
	END
}
@test "rf-init: shipped configs have no unknown key, and the parameter counts of the published models" {
	for config in "$ROOT"/pipelines/configs/*.json "$ROOT"/pipelines/demo/demo-*.json; do
		quiet rf-init --config "$config" --dry-run
		[[ "$output" == *parameters* ]]
	done
	for size in qwen3_5-0.8b:752393024 qwen3_5-9b:8953803264 lact-760m:797625312 \
		gated_deltanet-400m:379888124 gated_deltanet-360m:357781928; do
		run -0 rf-init --config "$ROOT/pipelines/configs/${size%:*}.json" --dry-run
		[ "${lines[0]}" = "parameters"$'\t'"${size#*:}" ]
	done
}
@test "rf-init: a model with a vocabulary of 384 gets the byte tokenizer; one with 40 cannot have it" {
	rf-init --config config.json a
	jq -e '.tokenizer_class == "ByT5Tokenizer" and .eos_token == "</s>"' \
		a/tokenizer_config.json >/dev/null
	rf-init --config "$G/delta/config.json" b
	[ "$(cd b && echo *)" = "config.json model.safetensors" ]
	mentions 78 "vocab_size is 40" rf-init --config "$G/delta/config.json" --tokenizer bytes c
	[ ! -e c ]
}
@test "rf-init: a tokenizer is copied from a folder, and runs and exports keep it" {
	mkdir tok
	cp "$G/tokenizer/tokenizer.model" tok/
	jq '.vocab_size = 33000' config.json >larger.json
	for name in tokenizer_config special_tokens_map generation_config; do echo '{}' >tok/$name.json; done
	echo template >tok/chat_template.jinja
	echo no >tok/model.safetensors
	rf-init --config larger.json --tokenizer tok a
	rf-init --from a b
	rf-init --from b --dtype f16 c
	for d in a b/latest c; do
		for name in tokenizer.model {tokenizer,generation}_config.json special_tokens_map.json \
			chat_template.jinja; do
			cmp tok/$name $d/$name
		done
	done
	mkdir none
	mentions 78 "none: there is no tokenizer here" rf-init --config config.json --tokenizer none d
	[ ! -e d ]
	nothing_left
}
@test "rf-init: --dry-run states the sizes and writes nothing" {
	run --separate-stderr rf-init --config "$G/delta/config.json" --dry-run
	[ "$output" = $'parameters\t6176\nweights\t24704 bytes\na step of a run\t74112 bytes' ]
	run rf-init --from "$G/delta" --dtype bf16 --dry-run x
	[ "$output" = $'parameters\t6176\nweights\t12352 bytes' ]
	[ ! -e x ]
	run -74 bash -c 'rf-init --from "$1" --dry-run >/dev/full' - "$G/delta"
}
@test "rf-init: refuses a folder with files in it, and leaves the folder unchanged" {
	mkdir full empty
	touch full/x
	run -64 rf-init --from "$G/delta" full
	run -64 rf-init --from "$G/delta" --dtype f32 full
	run -64 rf-init --from "$G/delta" --dtype f32 empty
	run -64 rf-init --config config.json full
	run -64 rf-init --from "$G/delta" .
	rf-init --from "$G/delta" empty
	[ "$(ls full)" = x ]
	nothing_left
}
@test "rf-init: mistakes on the command line exit 64 with one line that names them" {
	for words in a "--config config.json --dtype f32 a" "--from $G/delta --seed 1 a" \
		"--from $G/delta --tokenizer bytes a" "--config config.json --seed -1 a" "--nonsense"; do
		says 64 "rf-init: ..." rf-init $words
		[ ! -e a ]
	done
	while IFS='|' read -r words message; do
		# shellcheck disable=SC2086
		says 64 "rf-init: $message (try --help)" rf-init $words
	done <<-'END'
		|missing option: --config or --from
		--config config.json|missing argument: directory
		--config config.json --from x a|--config cannot be combined with --from
		--from x a b|unexpected argument 'b'
		--from x --dtype bf a|--dtype: 'bf' is not one of f32|bf16|f16
	END
}
@test "rf-init: keeps the promise of --help and --version" {
	load ../promises
	promise help sink config.json rf-init
}
@test "rf-init: bad input exits 66, 74 or 78 with one line that names it" {
	says 66 "rf-init: nowhere: No such file or directory" rf-init --config nowhere a
	run -66 rf-init --from nowhere a
	echo '{"model_type": "llama"}' >llama.json
	run -78 --separate-stderr rf-init --config llama.json a
	families='delta_net, gated_deltanet, lact_swiglu, qwen3_5_text and qwen3_5'
	[ "$stderr" = "rf-init: llama.json: 'model_type' is 'llama', but only $families are supported" ]
	mkdir broken
	cp config.json broken
	head -c 9000 "$G/delta/model.safetensors" >broken/model.safetensors
	says 78 "rf-init: broken/model.safetensors: ..." rf-init --from broken a
	run -74 rf-init --from "$G/delta" nowhere/a
}
@test "rf-init: warns of unknown config keys and of a missing lm_head.weight" {
	copy_model "$G/delta-relu-tied" a
	sed -i 's/"tie_word_embeddings": true/"tie_word_embeddings": false, "wheels": 4/' a/config.json
	run -0 --separate-stderr rf-init --from a b
	said='a: config.json has unknown keys, which have no effect: wheels; there is no lm_head.weight'
	[[ "$stderr" == "rf-init: $said"* ]]
	sed -i 's/"vocab_size"/"cogs": 1, "vocab_size"/' config.json
	run -0 --separate-stderr rf-init --config config.json c
	[ "$stderr" = "rf-init: config.json: warning: these keys are unknown and have no effect: cogs" ]
}
@test "rf-init: an error about widths that do not divide names both of them" {
	jq '.hidden_size = 65 | .num_heads = 2 | del(.attn)' "$G/delta/config.json" >config.json
	mentions 78 "hidden_size (65)...num_heads (2)" rf-init --config config.json a
}
@test "rf-init: a write over the file size limit exits 74 and leaves no files" {
	run -74 bash -c "ulimit -f 20; exec rf-init --config config.json a"
	[[ "$output" == "rf-init: .a.tmp-"*"/model.safetensors: write: File too large" ]]
	run -74 bash -c "ulimit -f 20; exec rf-init --from '$G/delta' a"
	[ "$(ls)" = config.json ]
	nothing_left
}

@test "rf-init: SIGINT during a write exits 130 and leaves no files" {
	can_trace
	for how in "--config config.json" "--from $G/delta" "--from $G/delta --dtype bf16"; do
		run -130 strace -qq -f -o /dev/null -e trace=write -e inject=write:signal=INT:when=5 \
			rf-init $how a
		[ "$output" = "rf-init: interrupted" ]
		[ "$(ls -A)" = config.json ]
	done
}
