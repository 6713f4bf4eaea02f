#!/usr/bin/env bats
# Runs the programs of another machine ($RF_BIN) and of this machine ($RF_HOST) on the same inputs.  Ids,
# draws, positions, rewards, advantages and fresh weights are the same bytes.  Values that a model computes
# agree to 1e-5, because kernels add in another order if vectors are shorter.  So draws from a model's
# probabilities are compared only if no rounding can change them.
setup() {
	load ../helper
	load ../model
	[ -x "${RF_HOST:-}/rf-cat" ] || skip "no programs of this machine: make check-arm64"
}

here() { PATH=$RF_HOST:$PATH "$@"; }
# same COMMAND...: runs the command of both machines, which must write the same bytes.  The output stays in
# `out`, and is not empty.
same() {
	here "$@" >want 2>want.err
	"$@" >out 2>err
	[ -s out ]
	cmp out want
	cmp err want.err
}
# Makes a text of every byte, lines of JSON with all that is escaped, and lines of ids
texts_of_all_kinds() {
	for byte in {0..255}; do
		printf '%b' "\\0$(printf %o "$byte")"
	done >bytes.txt
	printf '{"text":"\\u0041\\u00e9\\ud83d\\ude00\\u0000\\n \377 \303\274","id":%d}\n' {1..50} |
		sed 's/\o377/\o302\o200/' >lines.jsonl
	printf '{"tokens":[%d,0,1,39]}\n' {2..30} >rows.ids
	zstd -q lines.jsonl
}
# Makes entropies, states, rollouts and rewards by the programs of this machine
rewarded() { here batch 1:300 2:150 9:80 >rewarded.rf; }

@test "same bytes: rf-tokenize writes the same stream on both machines, from text, jsonl and ids" {
	texts_of_all_kinds
	same rf-tokenize --bytes --max-len 7 --truncate split bytes.txt lines.jsonl lines.jsonl.zst
	same rf-tokenize --bytes --hold-out 3 --source --meta-key id lines.jsonl
	same rf-tokenize --bytes --hold-out 3 --held-out --no-eos lines.jsonl
	same rf-tokenize --vocab 40 rows.ids
}

@test "same bytes: rf-cat and rf-dump order, cut, repeat, sample and convert equally on both machines" {
	"$RF_UNITS/helper/records" make 200 3 5 >in.rf
	same rf-cat --shuffle --seed 77 --epoch 3 in.rf
	same rf-cat --repeat 3 --shuffle --range 100:500 in.rf
	same rf-cat --renumber "$G/stream/rewarded.rf" "$G/stream/tokens.rf"
	same rf-dump --json in.rf
	cp out in.json
	same rf-cat --json in.json
	same_messages in.rf <out
	same rf-dump --tsv --rows token --sample 50 --seed 3 "$G/stream/rewarded.rf"
	same rf-dump --sample 5 "$G/stream/rewarded.rf"
	head -c 300 in.rf >cut.rf
	for tool in here ''; do
		$tool rf-dump --check cut.rf 2>"message.$tool" || echo $? >>"message.$tool"
	done
	cmp message.here message.
}

@test "same bytes: rf-select chooses the same positions on both machines in every mode" {
	"$RF_UNITS/helper/records" make 300 1 4 >in.rf
	for mode in entropy uniform max min; do
		same rf-select --mode $mode --chunks 5 -k 3 --margin 2 --seed 12345678901 in.rf
	done
	same rf-select --chunks 3 -k 3 --margin 2 --smooth 7 --tau 0.01 in.rf
	same rf-select --chunks 3 -k 3 --margin 2 --tau 100 --draw-step 9 in.rf
}

@test "same bytes: rf-reward gives the same rewards on both machines, by every kind and by a command" {
	rewarded
	"$RF_UNITS/helper/records" make 100 8 4 >made.rf
	for in in rewarded.rf made.rf; do
		for kind in cosine binary hybrid edit random; do
			same rf-reward --kind $kind --seed 5 $in
		done
	done
	same rf-reward --kind cosine --shift 3 rewarded.rf
	same rf-reward \
		--exec 'sed 1d | jq -c ".body | {id, total: [.positions.data[] / 3 | [., -., . * 1e-9]]}"' \
		rewarded.rf
}

@test "same bytes: rf-init makes the same fresh weights on both machines, for every architecture" {
	for config in "$ROOT"/pipelines/demo/demo-*.json; do
		jq '.vocab_size = 384' "$config" >config.json
		here rf-init --config config.json --seed 3 here
		rf-init --config config.json --seed 3 there
		diff -r here there
		rm -r here there
	done
}

@test "same bytes: rf-rollout draws the same tokens from equal probabilities on both machines" {
	cp -r "$M" even
	chmod -R u+w even
	"$RF_UNITS/helper/model" scale even lm_head.weight 0
	chosen 6 5 1:300 2:40 9:1000 >in.rf
	for options in '' '--temperature 0.7 --seed 12345678901' '--top-k 7' '--top-p 0.5'; do
		# shellcheck disable=SC2086
		{
			here rf-rollout -m even -k 5 -n 6 $options in.rf | rf-dump --json |
				jq -c '.body.rollout | .tokens, .logp' >want
			rf-rollout -m even -k 5 -n 6 $options in.rf | rf-dump --json |
				jq -c '.body.rollout | .tokens, .logp' >out
		}
		[ "$(jq '.data[0]' out | sort -u | wc -l)" -gt 3 ]
		cmp out want
	done
}

@test "same bytes: rf-grpo computes the same advantages from the same rewards on both machines" {
	rewarded
	here rf-init --from "$M" here
	rf-init --from "$M" there
	for options in '' --no-std '--group sequence'; do
		# shellcheck disable=SC2086
		{
			here rf-grpo -m here --stale any $options --grad-out gradient -o want.rf rewarded.rf
			rf-grpo -m there --stale any $options --grad-out gradient -o out.rf rewarded.rf
		}
		rf-dump --json out.rf | jq -c 'select(.type == "seq").body.advantage' >out
		rf-dump --json want.rf | jq -c 'select(.type == "seq").body.advantage' | cmp out -
	done
}

@test "same bytes: code in lib has no fused multiply-add on arm64, so it rounds as on x86-64" {
	aarch64-linux-gnu-objdump -d "$RF_UNITS"/../lib/*/*.o >code
	grep -qw fmul code
	run ! grep -wE 'fn?madd|fn?msub|fml[as]' code
}

@test "same to 1e-5: both machines compute the same entropies, states and scores of rollouts" {
	for model in delta gated-gva-neg delta-hybrid lact qwen; do
		m=$G/$model
		texts 40 1:300 2:150 >in.rf
		here rf-entropy -m "$m" --nll --keep hidden,logits in.rf >want.rf
		rf-entropy -m "$m" --nll --keep hidden,logits in.rf >out.rf
		helper model near out.rf want.rf entropy nll hidden logits
		rf-select --chunks 4 -k 5 --margin 2 want.rf | rf-rollout -m "$m" -k 5 -n 4 >drawn.rf
		here rf-rollout -m "$m" --score drawn.rf >scored.rf
		helper model near drawn.rf scored.rf logp h_pred h_gt
	done
}
