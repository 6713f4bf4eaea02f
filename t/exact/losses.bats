#!/usr/bin/env bats
# Compares each variant of the policy loss with values and gradients that a PyTorch program computed in
# float64 (t/golden/losses): rollouts of 1 to 4 tokens, ratios on both sides of each bound, a group of equal
# rewards.
setup() {
	load ../helper
	c=$G/losses
	rf-cat --json "$c/rewarded.jsonl" >in.rf
	rf-init --from "$G/delta" run
}

# variant NAME [OPTION...]: compares a variant, with these options of rf-grpo.
variant() {
	local name=$1
	shift
	rf-grpo -m run --stale any --rl-coef 1 --ntp-coef 0 --grad-out "$name.grad" -o "$name.rf" "$@" in.rf
	cp -r run "run-$name"
	rf-grpo -m "run-$name" --stale any --rl-coef 1 --ntp-coef 0 --lr 0 --log "$name.log" "$@" in.rf
	helper golden variant "$c" "$name" "$name.grad" "$name.log" "$name.rf"
}

@test "losses: the policy loss equals its reference figures and finite differences" {
	unit policy "$G"
}

@test "losses: GRPO, clip-higher and the denominators match PyTorch" {
	variant base
	variant clip_high --clip-high 0.28
	variant rollouts --rl-mean rollouts
	variant constant --rl-mean constant --no-std
}

@test "losses: GSPO matches PyTorch" {
	variant gspo --ratio sequence --rl-mean rollouts --clip 0.03 --clip-high 0.04
	variant gspo_tokens --ratio sequence --clip 0.03 --clip-high 0.04
}

@test "losses: CISPO matches PyTorch" {
	variant cispo --objective cispo
	variant cispo_tis --objective cispo --clip 1 --clip-high 1
	variant cispo_sequence --objective cispo --ratio sequence --rl-mean rollouts
}

@test "losses: the divergence from a reference model matches PyTorch" {
	variant kl_k1 --kl-coef 0.1 --kl k1
	variant kl_k2 --kl-coef 0.1 --kl k2
	variant kl_k3 --kl-coef 0.1 --kl k3
	variant kl_rollouts --kl-coef 0.1 --rl-mean rollouts
}

@test "losses: the entropy bonus matches PyTorch" {
	variant entropy --entropy-coef 0.05
	variant entropy_constant --entropy-coef 0.05 --rl-mean constant
}

@test "losses: groups of equal rewards are left out as in PyTorch" {
	variant drop --zero-spread drop
	variant drop_all --zero-spread drop --kl-coef 0.1 --entropy-coef 0.05 --rl-mean rollouts \
		--objective cispo --clip-high 0.28
}

@test "losses: baselines match PyTorch" {
	variant no_std --no-std
	variant loo --baseline loo
	# a batch whose mean reward is 0.4 sets the running baseline
	edited '(.body.reward? // empty).total.data |= [keys[] | if . % 2 == 0 then 0.5 else 0.3 end]' \
		in.rf >first.rf
	rf-grpo -m run --stale any --lr 0 --weight-decay 0 --baseline running first.rf
	variant running --baseline running
	jq -e '."reward/baseline" > 0.3999999 and ."reward/baseline" < 0.4000001' running.log
}
