#!/usr/bin/env bats
# Compares the programs with reference cases that PyTorch code of other authors computed: every value to 1e-5,
# every gradient to 1e-4, and two steps of AdamW to 1e-2 of the change (t/golden/README.md).
setup() { load ../helper; }

golden() { helper golden "$@"; }

# case_of NAME: compares all values of a case with those of the programs, in the order of a training step.
# RF_CASES, for slow devices, names the cases to run; without it all cases run.
case_of() {
	local c=$G/$1
	[[ " ${RF_CASES:-$1} " == *" $1 "* ]] || skip "RF_CASES leaves it out"
	"$RF_UNITS/helper/golden" stream "$c" >in.rf
	rf-entropy -m "$c" --nll --keep hidden,logits in.rf >entropy.rf
	golden values "$c" entropy.rf entropy nll hidden logits
	rf-rollout -m "$c" --score entropy.rf | rf-reward --kind hybrid >rewarded.rf
	golden values "$c" rewarded.rf rollout.logp rollout.h_pred rollout.h_gt reward.cosine \
		reward.binary reward.edit
	rf-init --from "$c" run
	rf-grpo -m run --stale any --rl-coef 1 --ntp-coef 0 --grad-out rl -o advantage.rf in.rf
	rf-grpo -m run --stale any --rl-coef 0 --ntp-coef 1 --grad-out ntp in.rf
	golden values "$c" advantage.rf advantage
	golden grads "$c" grad_rl rl
	golden grads "$c" grad_ntp ntp
	for _ in 1 2; do
		rf-grpo -m run --stale any --lr 0.01 --weight-decay 0.1 --log log in.rf
	done
	golden log "$c" log loss.rl loss.ntp step.grad_norm
	golden step "$c" run/latest
}

@test "golden: DeltaNet matches PyTorch" { case_of delta; }
@test "golden: DeltaNet with gate and negative eigenvalues matches PyTorch" { case_of delta-gate-neg; }
@test "golden: DeltaNet (no convolution/beta, elu, sum norm, wide v) matches PyTorch" { case_of delta-plain; }
@test "golden: DeltaNet (relu, convolution of width 3, tied) matches PyTorch" { case_of delta-relu-tied; }
@test "golden: DeltaNet over more than three chunks matches PyTorch" { case_of delta-long; }
@test "golden: DeltaNet with a layer of softmax attention (window, grouped heads, bias) matches PyTorch" {
	case_of delta-hybrid
}
@test "golden: Gated DeltaNet matches PyTorch" { case_of gated; }
@test "golden: Gated DeltaNet (grouped v, negative eig., no gate) matches PyTorch" { case_of gated-gva-neg; }
@test "golden: Gated DeltaNet (no convolution, tied) matches PyTorch" { case_of gated-noconv; }
@test "golden: Gated DeltaNet over more than three chunks matches PyTorch" { case_of gated-long; }
@test "golden: LaCT matches PyTorch" { case_of lact; }
@test "golden: LaCT (full rank, no positions, qk norm, bias, silu on q and k, no momentum) matches PyTorch" {
	case_of lact-full-nope
}
@test "golden: LaCT over many chunks matches PyTorch" { case_of lact-long; }
@test "golden: LaCT with Muon matches PyTorch" { case_of lact-muon; }
@test "golden: LaCT (prenorm, no scale, no silu, short window) matches PyTorch" { case_of lact-prenorm; }
@test "golden: Qwen3.5 (gated delta rule and gated softmax attention layers, 3 to 1) matches PyTorch" {
	case_of qwen
}
@test "golden: Qwen3.5, tied, over more than two chunks matches PyTorch" { case_of qwen-tied; }

@test "golden: AdamW on the reference gradients makes the same steps as double precision, to 1e-6" {
	golden adamw "$G/delta"
	golden adamw "$G/delta-relu-tied"
}

@test "golden: a mini-batch of records of unequal length, with three rollouts per position, matches PyTorch" {
	c=$G/stream
	rf-entropy -m "$G/delta" "$c/rewarded.rf" >entropy.rf
	golden values "$c" entropy.rf entropy
	rf-init --from "$G/delta" run
	rf-grpo -m run --stale any --group position --rl-coef 1 --ntp-coef 0 --grad-out rl \
		-o advantage.rf "$c/rewarded.rf"
	golden values "$c" advantage.rf advantage
	[ "${#lines[@]}" -eq 4 ]
	golden grads "$c" grad_rl rl
	rf-grpo -m run --stale any --group position --rl-coef 0 --ntp-coef 1 --grad-out ntp "$c/rewarded.rf"
	golden grads "$c" grad_ntp ntp
	rf-ntp -m run --lr 0 --log ntp.log "$c/tokens.rf"
	golden log "$c" ntp.log loss.ntp
	# without --group, several rollouts at a position are a group
	rf-init --from "$G/delta" auto
	rf-grpo -m auto --stale any --log log --lr 0 "$c/rewarded.rf"
	golden log "$c" log loss.rl loss.ntp
}
