#!/usr/bin/env bats
# Tests with published models: for each family, a directory like a published model but with small sizes is
# trained in all phases and exported again.  Gated DeltaNet, whose files differ least from those of the other
# families, runs only with RF_ALL=1.

setup_file() {
	load ../helper
	export P=$BATS_FILE_TMPDIR
	cd "$P" || exit
	texts_of_all
	config_delta_net >delta_net.json
	config_gated_deltanet >gated_deltanet.json
	config_lact >lact.json
	config_qwen >qwen.json
	local family
	for family in $families; do
		tokenizer $family
		rf-init --config $family.json --seed 7 --tokenizer $family.tok fresh
		rf-init --from fresh --dtype bf16 half
		cp $family.tok/* half
		cp $family.json half/config.json
		published publish half $family 3
		rm -r fresh half

		pipeline midtrain $family.mid $family CORPUS=texts.jsonl LEN=100
		pipeline posttrain $family.post $family.mid DATA=questions.jsonl ANSWER_BLANK=1
		pipeline testtime $family.test $family.post DATA=questions.jsonl MAX_NEW=5
		rf-init --from $family.test --dtype bf16 $family.out
	done
}

setup() {
	load ../helper
	cd "$P" || exit
	T=$BATS_TEST_TMPDIR
}

families="delta_net ${RF_ALL:+gated_deltanet} lact qwen"
# kind FAMILY: prints how the name of its tokenizer.json begins in t/golden/tokenizer.  LaCT has none: its
# tokenizer is a file of SentencePiece.
kind() {
	case $1 in
	delta_net) echo mistral. ;;
	gated_deltanet) echo llama2. ;;
	qwen) echo qwen3_5. ;;
	esac
}
published() { python3 "$ROOT/t/helper/published.py" "$@"; }
# pipeline PHASE RUN MODEL WORD...: trains one batch of a phase
pipeline() {
	RF_BIN=$RF_BIN make -s -f "$ROOT/pipelines/$1.mk" RUN="$2" MODEL="$3" BATCHES=1 BATCH=4 MINI_BATCH=4 \
		LR=1e-3 "${@:4}"
}
# each COMMAND: runs the command for each family and prints the family's name; the last name is of the one
# that failed
each() {
	local family
	for family in $families; do
		echo "$family"
		"$1" $family
	done
}
# files_of DIR: prints the files that stay the same from one checkpoint to the next
files_of() {
	(cd "$1" && find . -type f ! -name '*.safetensors*' ! -name config.json ! -name state.json | sort)
}

# config_FAMILY: prints a config.json of pipelines/configs with small sizes, and with the further keys of a
# published config.json
small='.hidden_size = 16 | .num_hidden_layers = 2 | .use_cache = true'
config_delta_net() {
	jq "$small"' | .num_heads = 2 | . + {_name_or_path: "delta_net", attn_mode: "chunk",
		fuse_cross_entropy: true, fuse_norm: true, norm_first: false, share_conv_kernel: false,
		torch_dtype: "bfloat16", transformers_version: "4.45.0", use_elu: false,
		use_output_norm: true, use_rope: false} | del(.allow_neg_eigval, .dtype)' \
		"$ROOT/pipelines/configs/delta_net-1.3b.json"
}
config_gated_deltanet() {
	jq "$small"' | .num_heads = 2 | .head_dim = 6 | . + {attn_mode: "chunk", attnres_block_size: null,
		fuse_cross_entropy: true, fuse_linear_cross_entropy: false, fuse_norm: true,
		fuse_swiglu: true, output_gate_activation: "swish", transformers_version: "5.23.0",
		use_l2warp: false}' "$ROOT/pipelines/configs/gated_deltanet-400m.json"
}
config_lact() {
	jq "$small"' | .num_attn_heads = 4 | .num_lact_heads = 2 | .w0_w2_low_rank = 4
		| .lact_chunk_size = 32 | .window_size = 32 | . + {auto_map:
			{AutoConfig: "configuration_lact_swiglu.LaCTSWIGLUConfig",
				AutoModelForCausalLM: "modeling_lact.LaCTForCausalLM"},
		elementwise_affine: true, fuse_cross_entropy: true, fuse_norm: true, fuse_swiglu: true,
		last_layer_fuse_norm: true, max_position_embeddings: 2048, torch_dtype: "bfloat16",
		transformers_version: "4.51.3"}' "$ROOT/pipelines/configs/lact-760m.json"
}
config_qwen() {
	cat <<-'END'
		{
		    "architectures": ["Qwen3_5ForConditionalGeneration"],
		    "image_token_id": 4004,
		    "model_type": "qwen3_5",
		    "text_config": {
		        "attention_bias": false, "attention_dropout": 0.0, "attn_output_gate": true,
		        "dtype": "bfloat16", "eos_token_id": 4000, "full_attention_interval": 4,
		        "head_dim": 8, "hidden_act": "silu", "hidden_size": 16, "initializer_range": 0.02,
		        "intermediate_size": 32, "layer_types": ["linear_attention", "linear_attention",
		        "linear_attention", "full_attention"], "linear_conv_kernel_dim": 4,
		        "linear_key_head_dim": 4, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
		        "linear_value_head_dim": 4, "mamba_ssm_dtype": "float32",
		        "max_position_embeddings": 262144, "mlp_only_layers": [],
		        "model_type": "qwen3_5_text", "mtp_num_hidden_layers": 1,
		        "mtp_use_dedicated_embeddings": false, "num_attention_heads": 2,
		        "num_hidden_layers": 4, "num_key_value_heads": 1, "rms_norm_eps": 1e-06,
		        "rope_parameters": {"mrope_interleaved": true, "mrope_section": [1, 0, 0],
		            "partial_rotary_factor": 0.25, "rope_theta": 10000000,
		            "rope_type": "default"},
		        "tie_word_embeddings": true, "use_cache": true, "vocab_size": 4032
		    },
		    "tie_word_embeddings": true,
		    "transformers_version": "4.57.0.dev0",
		    "video_token_id": 4005,
		    "vision_config": {
		        "deepstack_visual_indexes": [], "depth": 1, "hidden_act": "gelu_pytorch_tanh",
		        "hidden_size": 8, "in_channels": 3, "initializer_range": 0.02,
		        "intermediate_size": 16, "model_type": "qwen3_5", "num_heads": 2,
		        "num_position_embeddings": 16, "out_hidden_size": 16, "patch_size": 2,
		        "spatial_merge_size": 2, "temporal_patch_size": 2
		    },
		    "vision_end_token_id": 4006,
		    "vision_start_token_id": 4007
		}
	END
}

# tokenizer FAMILY: makes FAMILY.tok, with all files that are published in addition to weights.  DeltaNet has
# both forms of its tokenizer.
tokenizer() {
	local eos='</s>'
	mkdir "$1.tok"
	[ $1 != qwen ] || eos='<|endoftext|>'
	[ $1 = lact ] || zstd -dcq "$G/tokenizer/$(kind $1)json.zst" >"$1.tok/tokenizer.json"
	[ $1 = qwen ] || [ $1 = gated_deltanet ] || cp "$G/tokenizer/tokenizer.model" "$1.tok"
	(
		cd "$1.tok" || exit
		chmod u+w ./*
		jq -n --arg eos "$eos" '{ add_bos_token: true, eos_token: $eos, model_max_length: 2048 }' \
			>tokenizer_config.json
		jq -n --arg eos "$eos" '{ eos_token: { content: $eos } }' >special_tokens_map.json
		echo '{"bos_token_id": 1, "eos_token_id": [2, 7], "do_sample": true}' >generation_config.json
		echo '{% for m in messages %}{{ m.content }}{% endfor %}' >chat_template.jinja
		echo '{}' >added_tokens.json
		printf '# A model\n' >README.md
		head -c 999 "$RF_BIN/rf-init" >LICENSE # any bytes
		[ $1 != lact ] || tee modeling_lact.py >configuration_lact_swiglu.py <<<'class LaCT: ...'
		[ $1 != qwen ] || tee preprocessor_config.json video_preprocessor_config.json vocab.json \
			merges.txt <<<'{"patch_size": 2}' >/dev/null
	)
}

# texts_of_all: writes texts.jsonl and questions.jsonl, which are not only ASCII
texts_of_all() {
	local i
	for i in 1 2 3 4 5; do
		tail -n +$((10 * i)) "$ROOT/README.md" | head -c 900 | iconv -c -t utf-8 |
			jq -Rsc '{ text: . }'
	done >texts.jsonl
	for i in Zürich 'São Paulo' Tōkyō 'New York' Łódź; do
		tail -n 35 "$ROOT/README.md" | head -c $((300 + 9 * ${#i})) | jq -Rsc --arg i "$i" '{
			prompt: "\(.)\nThe train to \($i) leaves at noon — where does it go?\nAnswer:",
			answer: $i, answers: [$i, "\($i)."] }'
	done >questions.jsonl
}

# one_file FAMILY: exports the published directory in bf16 to $T/FAMILY, without training
one_file() { [ -e "$T/$1" ] || rf-init --from $1 --dtype bf16 "$T/$1"; }
imports_and_exports() {
	silent one_file $1
	quiet rf-entropy -m $1 --dry-run
	[ "$(ls $1/*.safetensors | wc -l)" -eq 3 ]
	[ "$(ls "$T/$1"/model*.safetensors*)" = "$T/$1/model.safetensors" ]
	published equal $1 "$T/$1"
	files_of $1 | grep -c . | grep -vqx 0
	diff <(files_of $1) <(files_of "$T/$1")
	(cd $1 && files_of . | xargs -I{} cmp {} "$T/$1"/{})
}
@test "published: shards in bf16 are read without a message and exported as one file with equal tensors" {
	each imports_and_exports
}

same_ids() {
	zstd -dcq "$G/tokenizer/$(kind $1)expected.jsonl.zst" |
		jq -c 'select(.ids | length > 0)' | sed -n 1,120p >"$T/golden.jsonl"
	rf-tokenize --tokenizer $1 --no-eos -o "$T/golden.rf" "$T/golden.jsonl" 2>/dev/null
	diff <(jq -c .ids "$T/golden.jsonl") \
		<(rf-dump --json "$T/golden.rf" | jq -c 'select(.type == "seq").body.tokens.data')
	for model in $1 $1.mid $1.test $1.out; do
		rf-tokenize --tokenizer $model -o "$T/$model.rf" texts.jsonl 2>/dev/null
		cmp "$T/$1.rf" "$T/$model.rf"
	done
	# the end token is the one that the files of the tokenizer name
	[ "$(rf-dump --json "$T/$1.rf" | jq 'select(.type == "seq").body.tokens.data[-1]' | uniq)" = \
		"$([ $1 = qwen ] && echo 4000 || echo 2)" ]
}
@test "published: rf-tokenize gives the ids of the model's tokenizer, also with a run and with its export" {
	each same_ids
}

took_steps() {
	local phase
	for phase in mid post test; do
		rf-dump --tsv --rows step --columns weights --no-header $1.$phase >>"$T/$1.weights"
		[ "$(rf-dump --tsv --rows step --columns commits --no-header $1.$phase | tail -n 1)" -eq 1 ]
		[ "$(jq 'select(has("loss/rl") and .stepped)' $1.$phase/log.jsonl | jq -s length)" -eq 1 ]
		diff <(files_of $1) <(files_of $1.$phase/latest/)
		(cd $1 && files_of . | xargs -I{} cmp {} "$P/$1.$phase/latest/"{})
	done
	[ "$(jq -c 'has("actor/sft_loss")' $1.post/log.jsonl | paste -sd' ')" = 'false true' ]
	[ "$(sort -u "$T/$1.weights" | wc -l)" -eq 4 ]
}
@test "published: mid-, post- and test-time training make steps, and runs carry the model's other files" {
	each took_steps
}

# said STREAM: prints the generated ids and text of each record
said() { rf-dump --json "$1" | jq -c 'select(.type == "seq").body.generation | [.tokens.data, .text]'; }
speaks() {
	one_file $1
	rf-init --from $1.test --dtype f32 "$T/$1.f32"
	rf-tokenize --tokenizer $1 --prompt-key prompt --answers-key answers -o "$T/in" questions.jsonl \
		2>/dev/null
	for model in $1 "$T/$1" $1.test "$T/$1.f32" $1.out; do
		rf-generate -m "$model" --max-new 5 -o "$T/said" "$T/in"
		said "$T/said" >"$T/$(basename "$model").said"
	done
	jq -se 'length == 5 and all(.[1][0] | length > 0)' "$T/$1.said" >/dev/null
	rf-generate -m $1 --max-new 5 "$T/in" | said - | diff - "$T/$1.said"
	diff <(head -n 4 "$T/$1.test.said") <(said $1.test/answers/batch-000000.rf)
	diff "$T/$1.test.said" "$T/$1.f32.said"
	jq -se 'length == 5' "$T/$1.out.said" >/dev/null
}
@test "published: rf-generate answers with a published model, with a run and with its export" {
	each speaks
}

exported() {
	published same $1 $1.out
	run ! published equal $1 $1.out
	[ $1 != qwen ] || python3 "$ROOT/t/helper/qwen.py" others qwen qwen.out
	[ "$(ls $1.out/model*.safetensors*)" = $1.out/model.safetensors ]
	[ "$(jq -r '(.text_config // .).dtype' $1.out/config.json)" = bfloat16 ]
	diff <(jq -S 'del(.dtype)' $1/config.json) <(jq -S 'del(.dtype)' $1.out/config.json)
	# the export of a run has its own README.md, and keeps the model's as README.base.md
	diff <(files_of $1) <(files_of $1.out | grep -vx ./README.base.md)
	(cd $1 && files_of . | grep -vx ./README.md | xargs -I{} cmp {} "$P/$1.out/"{})
	[ ! -e $1/README.md ] || cmp $1/README.md $1.out/README.base.md
}
@test "published: an export has the model's tensor names, shapes and types, its config and its other files" {
	each exported
}

# peer COMMAND...: runs a command of helper/qwen-peer.py, which uses transformers' own Qwen3.5
peer() { python3 "$ROOT/t/helper/qwen-peer.py" "$@"; }
# by_transformers [text]: makes a model with transformers, trains and exports it, and compares the logits and
# ids of all of them with those that transformers computes
by_transformers() {
	local text model pairs=() exact=(--device cpu --dtype f32)
	cd "$T" || exit
	zstd -dcq "$G/tokenizer/qwen3_5.json.zst" >tokenizer.json
	run peer make q tokenizer.json "$@"
	[ "$status" -ne 69 ] || skip "Python's transformers with Qwen3.5 is not installed"
	echo "$output"
	[ "$status" -eq 0 ]
	[ -e q/model-00003-of-00003.safetensors ]
	for text in 'The train leaves at noon — where to?' 'São Paulo, Zürich, Łódź' 'f = lambda x: x * 2' \
		'Reinforced fast weights, with next-sequence prediction' a '12 345 and 9,000.5' '日本語'; do
		jq -nc --arg text "$text" '{ $text }'
	done >prompts.jsonl
	rf-tokenize --tokenizer q --no-eos --meta-key text -o in prompts.jsonl
	pipeline midtrain q.mid q CORPUS="$P/texts.jsonl" LEN=100
	pipeline posttrain q.post q.mid DATA="$P/questions.jsonl"
	pipeline testtime q.test q.post DATA="$P/questions.jsonl"
	rf-init --from q.test --dtype bf16 q.out
	for model in q q.test/latest q.out; do
		rf-entropy -m $model --nll --keep logits "${exact[@]}" in |
			rf-generate -m $model --max-new 16 "${exact[@]}" | rf-dump --json >"${model%/*}.json"
		pairs+=("$model" "${model%/*}.json")
	done
	run ! cmp q.json q.out.json
	peer compare "${pairs[@]}"
}
@test "published: a model that transformers saved and rf-tools trained has equal logits in both" {
	by_transformers
}
@test "published: a text-only model that transformers saved and rf-tools trained has equal logits in both" {
	by_transformers text
}
