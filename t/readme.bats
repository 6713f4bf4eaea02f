#!/usr/bin/env bats
# The README's commands, block by block, with a model and a text that are tiny: what is in a block marked sh
# is run, and of the other one that its words exist.

setup() {
	load helper
	cp -r "$ROOT/pipelines" .
	mkdir data
	for i in $(seq 160); do
		echo "{\"text\": \"This is document $i of a text that is long enough" \
			"to have $((i * i)) places where a rollout may begin.\"}"
	done | zstd -q >data/a.jsonl.zst
	echo '{ "model_type": "delta_net", "hidden_size": 16, "num_hidden_layers": 1, "num_heads": 2,
		"vocab_size": 384, "eos_token_id": 1 }' >config.json
	rf-init --config config.json ckpt
	sed -n '/^\.Bd/,/^\.Ed/p' "$ROOT/man/rf-reward.1" | sed '/^\.[BE]d/d; s/\\e/\\/g' >my_reward.py
	unset MAKEFLAGS
	export RF_BIN
	make() { command make "$@" BATCH=8 MINI_BATCH=4 LEN=128; }
	export -f make
	make -s -f pipelines/midtrain.mk RUN=runs/midtrain/refine MODEL=ckpt CORPUS='data/*.jsonl.zst' \
		STEPS=1 KEEP=1 2>/dev/null
}

@test "README: its commands run" {
	awk '/^```sh$/ { on = 1; next } /^```$/ { on = 0 } on' "$ROOT/README.md" |
		sed 's/STEPS=100/STEPS=2/' >commands
	[ "$(grep -c . commands)" -ge 15 ]
	rm -r ckpt # the README makes its own, here as small
	[ -e pipelines/demo-delta_net.json ] && cp config.json pipelines/demo-delta_net.json
	bash -eu -o pipefail commands >out 2>err </dev/null || { cat err; return 1; }
	[ "$(rf-dump --tsv --rows step --columns step,commits --no-header RUN | tail -n 1)" = $'4\t1' ]
	[ "$(grep -c '^runs/[a-e] step-[0-9]* {"nll"' out)" -eq 5 ]
	grep -q ' rf-reward --exec .python3 my_reward.py. ' runs/c/data/words
	[ "$(rf-dump --json runs/a/streams/step-000000.rf | head -n 1 | jq '.body.history | length')" -ge 4 ]
}

@test "README: the files that it names are there" {
	n=0
	for name in $(grep -oE '`(lib/)?[a-z_]+\.c`' "$ROOT/README.md" | tr -d '`'); do
		[ -n "$(compgen -G "$ROOT/lib/*/${name#lib/}")" ] || { echo "$name is not there"; return 1; }
		n=$((n + 1))
	done
	[ "$n" -ge 2 ]
}

@test "README: the targets of make are there, and it is a page" {
	for target in deps check midtrain install; do
		grep -q "make.* $target" "$ROOT/README.md"
		grep -q "^$target:" "$ROOT/Makefile"
	done
	grep -q 'make help' "$ROOT/README.md"
	[ "$(wc -l <"$ROOT/README.md")" -le 100 ]
}
