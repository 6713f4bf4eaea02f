#!/usr/bin/env bats
# Tests of Qwen3.5 as it is published: a text model, and other parts that rf-tools does not use.
setup() {
	load ../helper
	load ../model
}

sees() { python3 "$ROOT/t/helper/qwen.py" sees "$G/$1" "$2" "${3:-1}"; }
others() { python3 "$ROOT/t/helper/qwen.py" others "$1" "$2"; }
# entropies DIR [STREAM]: prints the entropies and losses of the records
entropies() {
	rf-entropy -m "$1" --nll "${2:-in}" | rf-dump --json |
		jq -c 'select(.type == "seq").body | .entropy, .nll'
}

@test "qwen: a text model gives the same values with and without the model's other parts, also in shards" {
	texts 40 1:70 2:9 >in
	for case in qwen qwen-tied; do
		entropies "$G/$case" >alone
		for shards in 1 2 5; do
			sees $case $case-$shards $shards
			entropies $case-$shards | cmp - alone
		done
	done
}

@test "qwen: steps and exports keep the names and bytes of every tensor outside the text model" {
	texts 40 1:70 2:9 >in
	for shards in 1 3; do
		for case in qwen qwen-tied; do
			rm -rf ckpt run f32 bf16 again
			sees $case ckpt $shards
			rf-init --from ckpt run
			rf-ntp -m run --lr 0.01 in
			others ckpt run/step-000001
			rf-init --from "$G/$case" alone
			rf-ntp -m alone --lr 0.01 in
			[ "$(entropies run)" = "$(entropies alone)" ]
			[ "$(entropies run)" != "$(entropies ckpt)" ]
			rm -rf alone
			rf-init --from run --dtype bf16 bf16
			others ckpt bf16
			rf-init --from bf16 --dtype f32 f32
			others ckpt f32
			rf-init --from f32 --dtype bf16 again
			diff -r bf16 again
			[ ! -e bf16/model.safetensors.index.json ]
		done
	done
}

@test "qwen: an export changes only the dtype in config.json" {
	sees qwen ckpt
	rf-init --from ckpt --dtype f32 a
	jq .text_config.dtype ckpt/config.json a/config.json | tr '\n' ' ' | grep -qx '"bfloat16" "float32" '
	[ "$(diff ckpt/config.json a/config.json | grep -c '^[<>]')" -eq 2 ]
}

@test "qwen: an export has A_log and the norms of linear attention as float32 if the config asks for it" {
	# types DIR: prints the types of the text model's tensors, the names of the float32 tensors and the
	# bytes of all tensors
	types() {
		python3 - "$1/model.safetensors" <<-'END'
			import json, sys
			with open(sys.argv[1], "rb") as f:
			    head = json.loads(f.read(int.from_bytes(f.read(8), "little")))
			no = "model.visual.", "mtp.", "__"
			head = {n: t for n, t in head.items() if not n.startswith(no)}
			print(*sorted({t["dtype"] for t in head.values()}),
			      *sorted({n.split(".", 4)[-1] for n, t in head.items() if t["dtype"] == "F32"}),
			      sum(t["data_offsets"][1] - t["data_offsets"][0] for t in head.values()))
		END
	}
	sees qwen ckpt
	rf-init --from ckpt run
	rf-init --from run --dtype bf16 bf16
	rf-init --from run --dtype f16 f16
	bytes=$(rf-init --from run --dtype bf16 --dry-run x | awk '$1 == "weights" { print $2 }')
	[ "$(types bf16)" = "BF16 F32 linear_attn.A_log linear_attn.norm.weight $bytes" ]
	[ "$(types f16)" = "F16 F32 linear_attn.A_log linear_attn.norm.weight $bytes" ]
	jq 'del(.text_config.mamba_ssm_dtype)' ckpt/config.json >config.json
	cp config.json ckpt/config.json
	rf-init --from ckpt --dtype bf16 all
	[[ "$(types all)" == 'BF16 '[1-9]* ]]
}

@test "qwen: missing or unknown tensors exit 78 in the text model, but are accepted in the other parts" {
	tensor() { python3 "$ROOT/t/helper/qwen.py" "$@"; }
	L=model.language_model.layers
	sees qwen ckpt
	for name in $L.0.linear_attn.A_log $L.1.linear_attn.in_proj_qkv.weight $L.3.self_attn.k_norm.weight \
		model.language_model.norm.weight; do
		cp -r ckpt bad
		tensor drop bad $name
		says 78 "rf-entropy: bad: tensors missing: $name" rf-entropy -m bad
		rm -r bad
	done
	for name in $L.0.self_attn.q_norm.weight $L.3.linear_attn.dt_bias $L.4.mlp.up_proj.weight \
		model.language_model.x lm_head.bias; do
		cp -r ckpt bad
		tensor add bad $name
		says 78 "rf-entropy: bad: tensors unexpected: $name" rf-entropy -m bad
		rm -r bad
	done
	cp -r ckpt good
	tensor add good model.visual.more
	tensor add good mtp.layers.7.x
	tensor drop good mtp.norm.weight
	rf-init --from good run
	# also in a text-only model
	copy_model "$G/qwen" alone
	tensor add alone mtp.norm.weight
	rf-init --from alone --dtype f32 alone-too
	tensor add alone model.layers.0.more
	says 78 "rf-entropy: alone: tensors unexpected: model.layers.0.more" rf-entropy -m alone
}

@test "qwen: an unsupported value in config.json exits 78 with a message that names its key" {
	try() {
		jq "$1" "$G/qwen/config.json" >config.json
		says 78 "rf-init: config.json: $2" rf-init --config config.json new
		[ ! -e new ]
	}
	try '.num_experts = 8' "'num_experts' must be absent or 0: only dense models are supported"
	try '.rope_parameters.rope_type = "yarn"' \
		"'rope_parameters.rope_type' must be one of default, not 'yarn'"
	said="'layer_types' must be a list of linear_attention and full_attention, one for each of"
	try '.layer_types = ["full_attention"]' "$said the num_hidden_layers"
	try '.linear_num_value_heads = 3' \
		"'linear_num_value_heads' must be a multiple of linear_num_key_heads"
	try '.attention_bias = true' "'attention_bias' must be false: nothing else is supported"
}
