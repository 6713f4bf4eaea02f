#!/usr/bin/env bats
# What LaCT's models promise beyond t/golden.bats and t/tree.bats.
setup() {
	load helper
	load model
	M=$G/lact-long
}

@test "lact: entropies do not depend on the segments, whatever the chunks" {
	texts 40 1:250 2:32 3:33 >in
	for case in lact lact-full-nope lact-long lact-muon lact-prenorm; do
		rf-entropy -m "$G/$case" in | json - | jq '.entropy.data[]' >whole
		rf-entropy -m "$G/$case" --segment 64 in | json - | jq '.entropy.data[]' >parts
		limit=$([ $case = lact-muon ] && echo 5e-5 || echo 1e-5)
		paste whole parts | awk -v l="$limit" '{ d = $1 - $2; if (d > l * $1 || d < -l * $1) exit 1 }'
	done
}

@test "lact: tensors of the other kind of fast weights are one line that names one, and 78" {
	cp -r "$M" low && cp -r "$G/lact-full-nope" whole && chmod -R u+w low whole
	sed -i 's/"w0_w2_low_rank": 4/"w0_w2_low_rank": -1/' low/config.json
	sed -i 's/"w0_w2_low_rank": -1/"w0_w2_low_rank": 4/' whole/config.json
	texts 40 1:20 >in
	for model in low whole; do
		run -78 --separate-stderr rf-entropy -m $model in
		[ "${#stderr_lines[@]}" -eq 1 ]
		[[ "$stderr" == *attn.w0* ]]
	done
	# a rank that is another than the tensors'
	cp -r "$M" other && chmod -R u+w other
	sed -i 's/"w0_w2_low_rank": 4/"w0_w2_low_rank": 3/' other/config.json
	run -78 --separate-stderr rf-entropy -m other in
	[ "${#stderr_lines[@]}" -eq 1 ]
	[[ "$stderr" == *w_left* ]]
}

@test "lact: a chunk or window of 0, heads that do not divide, a rank above the width: one line, and 78" {
	texts 40 1:20 >in
	while read -r key value; do
		rm -rf m && cp -r "$M" m && chmod -R u+w m
		sed -i "s/\"$key\": [^,]*/\"$key\": $value/" m/config.json
		run -78 --separate-stderr rf-entropy -m m in
		[ "${#stderr_lines[@]}" -eq 1 ]
		[[ "$stderr" == "rf-entropy: m/config.json: '$key' must be "* ]]
	done <<-END
		lact_chunk_size 0
		window_size 0
		num_lact_heads 3
		num_attn_heads 5
		w0_w2_low_rank 9
	END
}

@test "lact: fast weights that overflow name the layer and the chunk, and end it with 70" {
	texts 40 1:100 >in
	rf-entropy -m "$M" in | rf-select --chunks 2 -k 3 --margin 3 >chosen
	cp -r "$M" m && chmod -R u+w m
	# rates of 3e38: the first chunk's rows read weights that are well, and the next one's may, since they are rescaled
	"$RF_UNITS/u-model" poke m model.layers.0.attn.lr_proj.bias 0 3e38
	run -70 --separate-stderr bash -c 'rf-entropy -m m in >out'
	[ "${#stderr_lines[@]}" -eq 1 ]
	[[ "$stderr" =~ 'not finite: layer 0 overflows at position 64 (chunk 2 of its fast weights)'$ ]]
	run -70 --separate-stderr bash -c 'rf-rollout -m m -k 3 chosen >out'
	[[ "$stderr" == *'(chunk 2 of its fast weights)' ]]
	rf-init --from m run
	run -70 --separate-stderr rf-ntp -m run in
	[[ "$stderr" == *'(chunk 2 of its fast weights)' ]]
	[ "$(readlink run/latest)" = step-000000 ]
}

@test "lact: --recompute segment gives the same step, and rollouts that were drawn are scored alike" {
	texts 40 1:120 2:70 | rf-entropy -m "$M" | rf-select --chunks 4 -k 5 --margin 3 | rf-rollout -m "$M" -k 5 -n 2 >rolled
	rf-reward --kind cosine rolled >rewarded
	rf-rollout -m "$M" --score rolled | json - | jq '.rollout.logp.data[]' >scored
	json rolled | jq '.rollout.logp.data[]' | paste - scored | awk '{ d = $1 - $2; if (d > 5e-5 || d < -5e-5) exit 1 }'
	for mode in none segment; do
		rf-init --from "$M" $mode
		smooth rf-grpo -m $mode --segment 64 --recompute $mode rewarded
	done
	unit u-golden change none/latest segment/latest "$M"
}

@test "lact: a fresh model's rates begin at 0.001 and its losses are finite" {
	jq '.num_hidden_layers = 2 | .hidden_size = 64 | .num_attn_heads = 2 | .num_lact_heads = 2 | .lact_chunk_size = 16 | .window_size = 16
		| .vocab_size = 100 | .w0_w2_low_rank = 8 | del(.intermediate_size)' "$ROOT/pipelines/configs/lact-760m.json" >c.json
	rf-init --config c.json --seed 3 fresh
	texts 100 1:100 | rf-entropy -m fresh | json - | jq -e '.entropy.data | all(. > 4.4 and . < 4.61)' >/dev/null
}
