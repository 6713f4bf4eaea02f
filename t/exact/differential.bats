#!/usr/bin/env bats
# Compares the method, step by step, with the formulas of the paper and of the published code in double
# precision (helper/differential.py).  golden.bats compares the passes of the models.
setup() {
	load ../helper
	load ../model
}

# peer COMMAND ARGUMENT...: runs a comparison, and prints its figures if it fails or if RF_SHOW=1
peer() {
	run python3 "$ROOT/t/helper/differential.py" "$@"
	[ -z "${RF_SHOW:-}" ] || sed 's/^/# /' <<<"$output" >&3
	[ "$status" -eq 0 ] || { echo "$output"; return 1; }
}
# written COMMAND ARGUMENT...: prints the stream that a command of helper/differential.py writes
written() { python3 "$ROOT/t/helper/differential.py" "$@" | rf-cat --json; }
# rewarded CHUNKS N ID:T...: prints texts with N rollouts of five tokens at each position, and hybrid rewards
rewarded() {
	texts 40 "${@:3}" | rf-entropy -m "$M" | rf-select --chunks "$1" --margin 5 |
		rf-rollout -m "$M" -n "$2" | rf-reward --kind hybrid
}

@test "differential: entropies, next-token losses and their two means follow from the logits" {
	for m in delta lact; do
		M=$G/$m
		texts 40 1:64 2:41 3:433 4:150 | rf-entropy -m "$M" --nll --keep logits >pass
		rm -rf run log
		runs run
		rf-ntp -m run --lr 0 --log log pass
		rf-ntp -m run --lr 0 --log log --mean sequences pass
		rf-ntp -m run --eval pass >figures
		peer losses pass log figures
	done
}

@test "differential: positions are drawn as often as the published code draws them" {
	written entropies >in
	# chunks, k, smooth, margin, mode; the published margin is 20.  Each of three texts is drawn 2000
	# times: as 200 ids with 10 seeds each.
	local hows=('8 5 5 20 entropy' '5 2 5 2 entropy' '8 5 5 20 uniform' '8 5 5 20 max' '8 5 5 20 min')
	[ -z "${RF_ALL:-}" ] || hows+=('3 4 4 20 entropy' '8 1 1 20 entropy')
	for how in "${hows[@]}"; do
		read -r chunks k smooth margin mode <<<"$how"
		# the width of smoothing in the published code is k, which is the default
		smoothed=()
		[ "$smooth" = "$k" ] || smoothed=(--smooth "$smooth")
		for seed in {1..10}; do
			rf-select --chunks "$chunks" -k "$k" "${smoothed[@]}" --margin "$margin" \
				--mode "$mode" --seed "$seed" -o "out.$seed" in
		done
		peer positions in $how out.*
	done
}

# separately: compares the rollouts of the file `drawn` with passes over each prefix and its rollout
separately() {
	written sequences drawn | rf-entropy -m "$M" --nll --keep hidden >sequences
	peer rollouts drawn sequences
}

@test "differential: each rollout has the states, log-probabilities and rewards of a separate sequence" {
	for m in delta lact; do
		M=$G/$m
		texts 40 1:41 2:83 3:200 4:300 | rf-entropy -m "$M" --keep hidden | rf-select |
			rf-rollout -m "$M" -n 2 | rf-reward --kind hybrid >drawn
		separately
	done
}

@test "differential: rollouts of LaCT that cross chunks of 64 tokens equal separate sequences" {
	copy_model "$G/lact" wide
	sed -i 's/"lact_chunk_size": 16/"lact_chunk_size": 64/' wide/config.json
	M=wide
	texts 40 1:270 | rf-entropy -m "$M" --keep hidden | edited 'if .type == "seq" then
			[60, 61, 62, 63, 64, 65, 126, 190] as $s
			| .body.positions = {dtype: "<i4", shape: [$s | length], data: $s}
		else . end' | rf-rollout -m "$M" -k 70 -n 2 | rf-reward --kind hybrid >drawn
	separately
}

@test "differential: advantages and the second mini-batch's policy loss follow the formulas of PPO" {
	# with several rollouts per position the group is the position, with one it is the sequence
	for how in 'delta 4 4' 'lact 8 1'; do
		read -r m chunks n <<<"$how"
		M=$G/$m
		rewarded "$chunks" "$n" 1:64 2:60 3:150 4:83 >in
		rm -rf all first log out
		runs all first
		rf-grpo -m all --mini-batch 2 --lr 1e-1 --log log -o out in
		rf-cat --range 2:4 -o drawn out
		# the weights between the two mini-batches
		rf-cat --range 0:2 in | rf-grpo -m first --lr 1e-1
		rf-entropy -m first --nll drawn | rf-rollout -m first --score >scored
		peer policy drawn scored log
	done
}

@test "differential: the gradient predicts how the losses change along it and along other directions" {
	local coefs=('0.2 1' '1 0') i=0
	for m in delta lact; do
		M=$G/$m
		# the ratios to the old log-probabilities are not 1, and not at a kink of the loss
		rewarded 4 4 1:64 2:60 3:150 | edited '[-1.3, -0.26, -0.1, 0, 0.1, 0.4] as $off
			| if .type == "seq" then
				.body.rollout.logp.data |= [to_entries[] | .value + $off[.key * 7 % 6]]
			else . end' >old
		rm -rf run
		runs run
		[ -n "${RF_ALL:-}" ] && pairs=("${coefs[@]}") || pairs=("${coefs[i++]}") # one and the other
		for coef in "${pairs[@]}"; do
			read -r rl ntp <<<"$coef"
			rf-grpo -m run --rl-coef "$rl" --ntp-coef "$ntp" --stale any --grad-out gradient old
			peer slope "$M" gradient old "$rl" "$ntp"
		done
	done
}

@test "differential: AdamW moves every weight as torch's optimizer does, with and without clipping" {
	for m in ${RF_ALL:+delta} lact; do
		M=$G/$m
		rewarded 4 4 1:64 2:60 3:150 >in
		rm -rf run log
		runs run
		# the norm of the third gradient is below the limit
		step=0 of=()
		for clip in 0.2 0.2 100; do
			step=$((step + 1))
			rf-grpo -m run --stale any --grad-out gradient.$step in
			rf-grpo -m run --stale any --lr 1e-2 --weight-decay 0.1 --grad-clip $clip --log log in
			of+=("$clip:gradient.$step")
		done
		peer adamw "$M" run/latest log 1e-2 0.1 "${of[@]}"
	done
}

@test "differential: a post-training batch trains on every prompt token, then on the responses only" {
	for m in delta ${RF_ALL:+lact}; do
		M=$G/$m
		texts 40 1:90 2:64 3:70 4:85 | edited 'if .type == "seq" then .body.prompt_len = 50 + .body.id
			else . end' >joined
		rf-cat --split-response joined | rf-entropy -m "$M" | rf-select | rf-rollout -m "$M" |
			rf-reward --kind hybrid >in
		rm -rf run inner log
		runs run inner
		rf-grpo -m run --mini-batch 2 --lr 1e-2 --outer response --log log in
		jq -se 'length == 3' log >/dev/null
		rf-grpo -m inner --mini-batch 2 --lr 1e-2 in
		rf-entropy -m inner --keep logits joined >pass
		peer responses pass log
	done
}
