#!/usr/bin/env bats
# Tests of LaCT models, in addition to t/exact/golden.bats and t/exact/tree.bats.
setup() {
	load ../helper
	load ../model
	M=$G/lact-long
}

@test "lact: entropies depend neither on the segment size nor on the preceding records" {
	texts 40 1:250 2:70 3:33 >in
	for case in lact lact-full-nope lact-long lact-muon lact-prenorm; do
		rf-entropy -m "$G/$case" in | json - | jq '.entropy.data[]' >whole
		rf-entropy -m "$G/$case" --segment 64 in | json - | jq '.entropy.data[]' >parts
		limit=$([ $case = lact-muon ] && echo 5e-5 || echo 1e-5)
		paste whole parts | awk -v l="$limit" '{ d = $1 - $2; if (d > l * $1 || d < -l * $1) exit 1 }'
		# each record gives the same bits without the others
		for i in 1 2; do
			rf-cat --range $i:$((i + 1)) in | rf-entropy -m "$G/$case" --segment 64 | json - |
				jq '.entropy.data[]'
		done | cmp - <(tail -n +251 parts)
	done
}

@test "lact: segments of 64 with chunks of 24 rows change no entropy, no rollout and no step" {
	copy_model "$G/lact" odd
	sed -i 's/"lact_chunk_size": 16/"lact_chunk_size": 24/' odd/config.json
	M=odd
	texts 40 1:250 2:73 >in
	rf-entropy -m odd in >whole
	rf-entropy -m odd --segment 64 in >parts
	helper model near parts whole entropy
	rf-entropy -m "$G/lact" in >other
	run ! "$RF_UNITS/helper/model" near other whole entropy
	rf-select --chunks 4 -k 5 --margin 3 whole >chosen
	rf-rollout -m odd -k 5 -n 2 chosen >rolled
	rf-rollout -m odd -k 5 -n 2 --segment 64 chosen >again
	[ "$(drawn rolled)" = "$(drawn again)" ]
	helper model near again rolled logp h_pred h_gt
	rf-reward --kind cosine rolled >rewarded
	runs a b c
	smooth rf-grpo -m a rewarded
	smooth rf-grpo -m b --segment 64 rewarded
	smooth rf-grpo -m c --segment 64 --recompute segment rewarded
	helper golden change b/latest a/latest odd
	same_step b c
}

@test "lact: tensors that do not fit the config's fast weights exit 78 with one line that names a tensor" {
	copy_model "$M" low
	copy_model "$G/lact-full-nope" whole
	sed -i 's/"w0_w2_low_rank": 4/"w0_w2_low_rank": -1/' low/config.json
	sed -i 's/"w0_w2_low_rank": -1/"w0_w2_low_rank": 4/' whole/config.json
	texts 40 1:20 >in
	for model in low whole; do
		run -78 --separate-stderr rf-entropy -m $model in
		[ "${#stderr_lines[@]}" -eq 1 ]
		[[ "$stderr" == *attn.w0* ]]
	done
	# the rank of the config differs from that of the tensors
	copy_model "$M" other
	sed -i 's/"w0_w2_low_rank": 4/"w0_w2_low_rank": 3/' other/config.json
	run -78 --separate-stderr rf-entropy -m other in
	[ "${#stderr_lines[@]}" -eq 1 ]
	[[ "$stderr" == *w_left* ]]
}

@test "lact: an impossible chunk, window, head count or rank exits 78 with one line that names the key" {
	texts 40 1:20 >in
	while read -r key value; do
		copy_model "$M" m
		sed -i "s/\"$key\": [^,]*/\"$key\": $value/" m/config.json
		says 78 "rf-entropy: m/config.json: '$key' must be ..." rf-entropy -m m in
	done <<-END
		lact_chunk_size 0
		window_size 0
		num_lact_heads 3
		num_attn_heads 5
		w0_w2_low_rank 9
	END
}

@test "lact: fast weights that overflow exit 70 with one line that names the layer and the chunk" {
	texts 40 1:100 >in
	rf-entropy -m "$M" in | rf-select --chunks 2 -k 3 --margin 3 >chosen
	copy_model "$M" m
	# learning rates of 3e38: the rows of the first chunk read finite weights.  So may the rows of the
	# next chunk, since weights are rescaled; but these rows make weights that are not finite.
	"$RF_UNITS/helper/model" poke m model.layers.0.attn.lr_proj.bias 0 3e38
	run -70 --separate-stderr bash -c 'rf-entropy -m m in >out'
	[ "${#stderr_lines[@]}" -eq 1 ]
	[[ "$stderr" =~ 'not finite: layer 0 overflows at position 64 (chunk 1 of its fast weights)'$ ]]
	mentions 70 '(chunk 1 of its fast weights)' bash -c 'rf-rollout -m m -k 3 chosen >out'
	rf-init --from m run
	says 70 '...(chunk 1 of its fast weights)' rf-ntp -m run in
	[ "$(readlink run/latest)" = step-000000 ]
}

@test "lact: an overflow in attention is reported with its position and without a chunk" {
	texts 40 1:100 >in
	copy_model "$M" m
	# a value is infinite in a row of the first chunk, and so are the attention of that row and the
	# weights that the next chunk reads
	for i in {512..527}; do
		"$RF_UNITS/helper/model" poke m model.layers.0.attn.qkv.weight $i 3e38
	done
	run -70 --separate-stderr bash -c 'rf-entropy -m m in >out'
	[[ "$stderr" =~ 'not finite: layer 0 overflows at position '[0-9]$ ]]
}

# infinite_rate: copies the model to m, where token 39 has an infinite learning rate, since only this token
# has a number in column 0.  The texts do not use token 39.
infinite_rate() {
	copy_model "$M" m
	for token in {0..38}; do
		"$RF_UNITS/helper/model" poke m model.embeddings.weight $((16 * token)) 0
	done
	"$RF_UNITS/helper/model" poke m model.embeddings.weight $((16 * 39)) 1000
	"$RF_UNITS/helper/model" poke m model.layers.0.attn_norm.weight 0 1
	"$RF_UNITS/helper/model" poke m model.layers.0.attn.lr_proj.weight 0 3e38
}

# at POSITION...: copies the stream, with these positions
at() {
	edited 'if .type == "seq" then
		.body.positions = {dtype: "<i4", shape: ['$#'], data: ['"$(IFS=,; echo "$*")"']}
	else . end'
}
# token_39 I: copies the stream, with rollouts of tokens 0 to 38, except that token number I becomes 39
token_39() {
	edited 'if .body.rollout then
		.body.rollout.tokens.data |= (map([., 38] | min) | .['"$1"'] = 39)
	else . end'
}

@test "lact: fast weights that overflow only in a rollout are reported with layer, rollout and chunk" {
	infinite_rate
	texts 39 1:100 | at 40 60 >in
	# a rollout that draws token 39 in the rows 60 to 63, which end chunk 1, overflows from row 64 on
	run -70 --separate-stderr bash -c 'rf-rollout -m m -k 8 -n 40 in >out'
	[ "${#stderr_lines[@]}" -eq 1 ]
	[[ "$stderr" =~ \
		'layer 0 overflows in rollout '[4-7][0-9]' at position 64 (chunk 1 of its fast weights)'$ ]]
	# one rollout of two has token 39; other weights drew it
	rf-rollout -m "$M" -k 8 -n 2 in | token_39 25 >rolled
	run -70 --separate-stderr bash -c 'rf-rollout -m m --score rolled >out'
	[[ "$stderr" == *' layer 0 overflows in rollout 3 at position 64 (chunk 1 of its fast weights)' ]]
	rf-init --from m run
	run -70 --separate-stderr bash -c 'rf-reward --kind binary rolled | rf-grpo -m run --stale any'
	[[ "$stderr" == *' layer 0 overflows in rollout 3 at position 64 (chunk 1 of its fast weights)' ]]
	[ "$(readlink run/latest)" = step-000000 ]
}

@test "lact: in a text longer than the window, an overflow is reported with the number of its rollout" {
	infinite_rate
	# the rollouts in rows 40 to 59 and 70 to 89 stay inside their chunks of 32.  With segments of 64, the
	# second of three segments has rows 69 and 79.
	texts 39 1:140 | at 80 40 70 >in
	for segment in 64 128; do
		run -70 --separate-stderr bash -c 'rf-rollout -m m -k 20 -n 8 --segment $0 in >out' $segment
		said=' at position 96 (chunk 2 of its fast weights)'
		[[ "$stderr" =~ 'layer 0 overflows in rollout '[0-7]"$said"$ ]]
		rf-rollout -m "$M" -k 20 -n 2 in | token_39 35 >rolled
		says 70 '... layer 0 overflows in rollout 1 at position 96 (chunk 2 of its fast weights)' \
			bash -c 'rf-rollout -m m --score --segment $0 rolled >out' $segment
	done
}

@test "lact: --recompute segment makes the same step and plans less than half of the memory for a pass" {
	copy_model "$G/lact" short
	sed -i 's/"lact_chunk_size": 16/"lact_chunk_size": 8/' short/config.json
	M=short
	texts 40 1:400 2:150 | rf-entropy -m short | rf-select --chunks 4 -k 10 --margin 3 |
		rf-rollout -m short -k 10 -n 2 | rf-reward --kind cosine >rewarded
	runs a b c
	smooth rf-grpo -m a --segment 64 rewarded
	smooth rf-grpo -m b --segment 64 --recompute segment rewarded
	smooth rf-grpo -m c rewarded
	same_step a b
	helper golden change b/latest c/latest short
	# with rollouts in every chunk, each chunk's gradient has its own memory; without rollouts, memory for
	# two gradients is enough
	texts 40 1:400 | rf-entropy -m short | rf-select --chunks 50 -k 2 --margin 2 |
		rf-rollout -m short -k 2 | rf-reward >everywhere
	runs d e
	smooth rf-grpo -m d --segment 64 --rl-coef 1e-12 everywhere
	smooth rf-ntp -m e --segment 64 everywhere
	helper golden change e/latest d/latest short
	# for a long text, each chunk takes memory for weights and momentum, and once for their gradients
	for mode in none segment; do
		rf-grpo -m a --segment 64 --recompute $mode --max-len 100000 --dry-run </dev/null |
			sed -n 's/.*, pass \([0-9]*\),.*/\1/p' >$mode
	done
	[ "$(<segment)" -lt $(($(<none) / 2)) ]
}

@test "lact: the entropies of a fresh model are finite and just below the entropy of equal probabilities" {
	jq '.num_hidden_layers = 2 | .hidden_size = 64 | .num_attn_heads = 2 | .num_lact_heads = 2
		| .lact_chunk_size = 16 | .window_size = 16 | .vocab_size = 100 | .w0_w2_low_rank = 8
		| del(.intermediate_size)' "$ROOT/pipelines/configs/lact-760m.json" >c.json
	rf-init --config c.json --seed 3 fresh
	texts 100 1:100 | rf-entropy -m fresh | json - |
		jq -e '.entropy.data | all(. > 4.4 and . < 4.61)' >/dev/null
}
