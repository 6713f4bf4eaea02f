#!/usr/bin/env bats
# A model on disk: config.json, generation_config.json, safetensors and the index of shards.
setup() {
	load ../helper
	load ../model
}

@test "model files: a safetensors file that breaks any one rule of the format is refused" {
	unit tensors "$G"
}
@test "model files: a published config.json is read, and an unsupported value is named" {
	unit config
}
@test "model files: a generation_config.json that is not an object or names wrong tokens is refused" {
	copy_model "$G/delta" m
	for good in '{}' '{"eos_token_id":null}' '{"eos_token_id":39,"max_length":20}' '{"eos_token_id":[]}' \
		'{"eos_token_id":[2,2,0,1,3,4,5,6,7,8,9,10,11,12,13,14,15]}'; do
		echo "$good" >m/generation_config.json
		rf-dump m >/dev/null
	done
	said="'eos_token_id' must be a token of the vocabulary or a list of them, 16 at most in all"
	for bad in 40 -1 '"</s>"' 1.5 '[1,40]' '[[1]]' '[0,1,3,4,5,6,7,8,9,10,11,12,13,14,15,16]'; do
		echo "{\"eos_token_id\":$bad}" >m/generation_config.json
		says 78 "rf-dump: m/generation_config.json: $said" rf-dump m
	done
	for bad in '[]' '{"eos_token_id":NaN}' '' '{"eos_token_id":1,"eos_token_id":2}' '{'; do
		echo "$bad" >m/generation_config.json
		says 78 "rf-dump: m/generation_config.json: ..." rf-dump m
		says 78 "rf-rollout: m/generation_config.json: ..." rf-rollout -m m "$G/stream/rewarded.rf"
	done
}
# shards EDIT...: makes the checkpoint m with one shard and an index, changed by these lines of Python, in
# which h is the header, d the data, w the map of the index, f the shard; add() adds a tensor
shards() {
	rm -rf m
	rf-init --config config.json m
	python3 -S - m "$@" <<-'END'
		import json, struct, sys
		m, f = sys.argv[1], "model-00001-of-00001.safetensors"
		b = open(m + "/model.safetensors", "rb").read()
		n = struct.unpack("<Q", b[:8])[0]
		h, d, e = json.loads(b[8:8 + n]), b[8 + n:], "model.embed_tokens.weight"
		h.pop("__metadata__", None)
		w = {k: f for k in h}
		def add(name, dtype="F32", bytes=4, shape=(1,), listed=True):
		    global d
		    h[name] = dict(dtype=dtype, shape=list(shape), data_offsets=[len(d), len(d) + bytes])
		    d += b"\x01" * bytes
		    if listed:
		        w[name] = f
		def rename(a, b):
		    global h, w
		    h = {k.replace(a, b, 1) if k.startswith(a) else k: v for k, v in h.items()}
		    w = {k: f for k in h}
		for line in sys.argv[2:]:
		    exec(line)
		def save(name, h, d):
		    j = json.dumps(h).encode()
		    open(m + "/" + name, "wb").write(struct.pack("<Q", len(j)) + j + d)
		save(f, h, d)
		json.dump({"metadata": {}, "weight_map": w}, open(m + "/model.safetensors.index.json", "w"))
	END
	rm m/model.safetensors
}

# qwen ROOT: makes config.json of a text model, or of a text model inside another model, whose tensors have
# names that begin with ROOT in transformers
qwen() {
	local text='{"model_type": "qwen3_5_text", "hidden_size": 32, "num_hidden_layers": 1, "head_dim": 16,
		"num_attention_heads": 1, "num_key_value_heads": 1, "linear_num_key_heads": 1,
		"linear_num_value_heads": 1, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
		"intermediate_size": 32, "vocab_size": 384, "eos_token_id": 1}'
	[ "$1" = model. ] || text='{"model_type": "qwen3_5", "text_config": '$text'}'
	echo "$text" >config.json
}

@test "model files: tensors that are not the model's own are skipped, with one warning that counts them" {
	texts 384 1:9 >in.rf
	for root in ${RF_ALL:+model.} model.language_model.; do
		qwen $root
		shards pass
		rf-entropy -m m in.rf -o right.rf
		while IFS='|' read -r edit count first; do
			warning="$count tensors are not the model's and are not read"
			[ "$count" -ne 1 ] || warning="1 tensor is not the model's and is not read"
			warning+="; the first is '$first'"
			shards "$edit"
			run --separate-stderr rf-entropy -m m in.rf -o out.rf
			[ "$stderr" = "rf-entropy: m: $warning" ] || { echo "$edit: $stderr"; return 1; }
			cmp <(json out.rf) <(json right.rf)
			says 0 "rf-dump: m: $warning" rf-dump --check m
			rm -rf r out
			rf-init --from m r 2>err
			[ "$(cat err)" = "rf-init: m: $warning" ]
			quiet rf-entropy -m r in.rf -o out.rf
			rf-init --from r --dtype bf16 out
		done <<-'END'
			w["mtp.fc.weight"] = f|1|mtp.fc.weight
			w["mtp.fc.weight"] = "no"|1|mtp.fc.weight
			add("model.visual.y", listed=False)|1|model.visual.y
			add("model.visual.y"); w["model.visual.y"] = "no"|1|model.visual.y
			add("v.b", "F8_E4M3", 1); add("v.a", "C64", 8); add("v.c", "F4", 2, (4,))|3|v.a
			add("v.b", "I8", 1); add("v.a", "NEW", 8)|2|v.a
		END
	done
}

@test "model files: rotary frequencies that older programs saved are skipped, with a warning" {
	for m in delta gated lact qwen; do
		cp "$G/$m/config.json" config.json
		frequencies="$(printf 'add("model.layers.%d.self_attn.rotary_emb.inv_freq");' 0 1)"
		shards "$frequencies"
		run -0 --separate-stderr rf-dump --check m
		said="2 tensors are not the model's and are not read; the first is"
		[ "$stderr" = "rf-dump: m: $said 'model.layers.0.self_attn.rotary_emb.inv_freq'" ]
		shards "$frequencies" 'add("model.layers.0.self_attn.rotary_emb.inv_freq.weight")'
		run -78 rf-dump --check m
	done
}

@test "model files: a tensor of an unsupported type keeps its bytes in runs and exports" {
	qwen model.
	shards 'add("v.a", "F8_E5M2", 3, (3,))' 'add("v.b", "ANY", 5, (7,))'
	rf-init --from m r 2>/dev/null
	rf-init --from r --dtype bf16 out
	for d in m r/latest out; do
		rf-dump --tsv --columns name,dtype,shape,bytes $d 2>/dev/null | grep '^v[.]' \
			>"$(basename $d).tsv"
	done
	printf 'v.a\tF8_E5M2\t3\t3\nv.b\tANY\t7\t5\n' | cmp - m.tsv
	cmp latest.tsv m.tsv
	cmp out.tsv m.tsv
	[ "$(tail -c 8 out/model.safetensors | tr -d '\001' | wc -c)" -eq 0 ]
}

@test "model files: a tensor of the model that is misplaced or of a wrong type is refused by name" {
	qwen model.
	# each case has two lines: the edit, and the sentence, in which FILE is the shard
	while read -r edit && read -r said; do
		said=${said//FILE/model-00001-of-00001.safetensors}
		shards "$edit"
		for program in rf-entropy rf-init rf-dump; do
			case $program in
			rf-entropy) run -78 --separate-stderr rf-entropy -m m ;;
			rf-init) run -78 --separate-stderr rf-init --from m new ;;
			rf-dump) run -78 --separate-stderr rf-dump --check m ;;
			esac
			[[ "$stderr" == "$program: m"*"$said"* ]] || { echo "$edit: $stderr"; return 1; }
			[ "${#stderr_lines[@]}" -eq 1 ]
			[ ! -e new ]
		done
	done <<-'END'
		w["model.more"] = f
		'model.more': the index places it in FILE, which does not have it
		h["v"] = h.pop(e); w.update({"v": f, e: "no"})
		'model.embed_tokens.weight': the index places it in no, which does not exist
		del w[e]
		'model.embed_tokens.weight': it is in FILE, where the index does not place it
		h["model.norm.weight"].update(dtype="F8_E4M3", shape=[128])
		of another shape: model.norm.weight (128, not 32)
		h["model.norm.weight"].update(dtype="I32")
		of a type that holds no weights: model.norm.weight (I32)
		h["model.norm.weight"].update(dtype="QQ")
		of a type that holds no weights: model.norm.weight (QQ)
	END
	shards pass
	cp m/model-00001-of-00001.safetensors m/more.safetensors
	jq '.weight_map["model.norm.weight"] = "more.safetensors"' m/model.safetensors.index.json >t
	mv t m/model.safetensors.index.json
	run -78 rf-entropy -m m
	said="tensors of the model are not where the index places them; the first is: "
	[[ "$output" == *"$said'lm_head.weight': it is in "*" and in another shard: a checkpoint has each"* ]]
}

@test "model files: a qwen3_5 checkpoint of either kind is read with either prefix of its tensors" {
	texts 384 1:9 >in.rf
	for root in model. model.language_model.; do
		qwen $root
		shards pass
		rf-entropy -m m in.rf -o right.rf
		if [ $root = model. ]; then
			shards 'rename("model.", "model.language_model.")'
		else
			shards 'rename("model.language_model.", "model.")'
		fi
		quiet rf-entropy -m m in.rf -o out.rf
		cmp <(json out.rf) <(json right.rf)
		rm -rf r
		rf-init --from m r
		rf-ntp -m r in.rf
		rf-dump --check r
	done
}

@test "model files: a __metadata__ of null counts as none" {
	qwen model.
	shards 'h["__metadata__"] = None'
	quiet rf-dump --check m
}

@test "model files: model.safetensors is read and an index next to it is ignored, with a warning" {
	rf-init --from "$G/delta" --dtype f32 m
	echo '{"weight_map": {"x": "y"}}' >m/model.safetensors.index.json
	says 0 "rf-init: m: model.safetensors is read, and the index next to it is ignored" rf-init --from m r
	says 0 "rf-dump: m: model.safetensors is read, and the index next to it is ignored" rf-dump --check m
	quiet rf-dump --check r
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
