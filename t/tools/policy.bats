#!/usr/bin/env bats
# The options of the policy loss that rf-grpo and rf-step share: refusals, the running baseline, figures of
# the log.  t/exact/losses.bats compares values and gradients with references.
setup() {
	load ../helper
	load ../model
	load ../ranks
}

# rewarded [OPTION...]: prints a batch of three texts with four rollouts at two positions; the options are
# those of rf-rollout
rewarded() {
	texts 40 1:30 2:31 3:32 | rf-entropy -m "$M" | rf-select --chunks 2 -k 3 --margin 3 |
		rf-rollout -m "$M" -k 3 -n 4 "$@" | rf-reward
}
# referred: adds log-probabilities of a reference model, which are those of the stream minus 0.25
referred() {
	edited '(.body.rollout? // empty) |= (.logp_ref = .logp | .logp_ref.data |= map(. - 0.25))' "$@"
}
# figure LOG KEY: prints a figure of each line of a log
figure() { jq -r --arg key "$2" '.[$key]' "$1"; }
# gradient FILE OPTION...: prints the hash of the gradient of a stream
gradient() {
	rm -f gradient
	rf-grpo -m run --grad-out gradient "${@:2}" "$1" || return
	cksum <gradient
}

@test "rf-grpo: refuses options of the policy loss that have no effect together, and so does rf-step" {
	rewarded >in
	runs run
	while IFS=: read -r options said; do
		for program in rf-grpo rf-step; do
			[[ "$options" != *stream* || $program = rf-grpo ]] || continue
			# shellcheck disable=SC2086
			mentions 64 "$said" $program -m run $options in
		done
	done <<-'END'
		--objective cispo --dual-clip 3:--dual-clip cannot be combined with --objective cispo
		--kl k2:--kl requires --kl-coef
		--baseline loo --no-std:--no-std cannot be combined with --baseline loo
		--baseline running --no-std:--no-std cannot be combined with --baseline running
		--baseline running --zero-spread drop:--zero-spread cannot be combined with --baseline running
		--baseline-decay 0.5:--baseline-decay requires --baseline running
		--advantage token --baseline loo:--baseline cannot be combined with --advantage token
		--advantage stream --baseline loo:--baseline cannot be combined with --advantage stream
		--advantage stream --zero-spread drop:--zero-spread cannot be combined with --advantage stream
		--clip-high -0.1:--clip-high
		--ratio rollout:--ratio
		--rl-mean sequences:--rl-mean
		--objective ppo:--objective
		--kl-coef 1 --kl k4:--kl
		--entropy-coef nan:--entropy-coef
		--baseline-decay 1.5 --baseline running:--baseline-decay
	END
}

@test "rf-grpo: --kl-coef refuses rollouts without log-probabilities of a reference, and changes nothing" {
	rewarded >in
	runs run
	cp -a run before
	said='the rollouts have no log-probabilities of a reference model, which --kl-coef needs '
	said+='(rf-rollout --score --as ref -m CHECKPOINT writes them; in a pipeline REFERENCE=CHECKPOINT)'
	mentions 65 "in: record 1 (byte ...): $said" rf-grpo -m run --kl-coef 0.1 --log log in
	diff -r -x .lock before run
	[ ! -e log ]
	# with --rl-coef 0 nothing needs them
	silent rf-grpo -m run --kl-coef 0.1 --rl-coef 0 in
}

@test "rf-grpo: a running baseline is saved with each step, and a run continues with it" {
	rewarded >in
	runs run
	mean=$(rf-dump --tsv --rows rollout --columns reward --no-header in |
		awk '{ s += $1 } END { print s / NR }')
	rf-grpo -m run --lr 0 --weight-decay 0 --stale any --baseline running --log log in
	near() { awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(d < 1e-5 && d > -1e-5) }'; }
	[ "$(figure log reward/baseline)" = null ]
	near "$(jq .reward_mean run/latest/state.json)" "$mean"
	# a batch whose rewards are all 1 has the advantages 1 - b, and moves b by a tenth of them
	edited '(.body.reward? // empty).total.data |= map(1)' in >ones
	rf-grpo -m run --lr 0 --weight-decay 0 --stale any --baseline running --log log -o out ones
	near "$(figure log reward/baseline | tail -n 1)" "$mean"
	near "$(rf-dump --tsv --rows rollout --columns advantage --no-header out | sort -u)" \
		"$(awk -v b="$mean" 'BEGIN { print 1 - b }')"
	near "$(jq .reward_mean run/latest/state.json)" "$(awk -v b="$mean" 'BEGIN { print 0.9 * b + 0.1 }')"
	rf-dump run | grep -q '^reward mean *0\.[0-9]'
	# another baseline leaves the mean as it is, and so does the next step of another program
	was=$(jq .reward_mean run/latest/state.json)
	rf-grpo -m run --stale any in
	[ "$(jq .reward_mean run/latest/state.json)" = "$was" ]
	rf-ntp -m run in
	[ "$(jq .reward_mean run/latest/state.json)" = "$was" ]
	# a run that begins from the moments of the step has its mean, and a new run has none
	rf-init --from run --moments copy
	[ "$(jq .reward_mean copy/latest/state.json)" = "$was" ]
	rf-init --from run new
	[ "$(jq .reward_mean new/latest/state.json)" = null ]
}

@test "rf-grpo: without early ends the three means give the same loss, and with them other ones" {
	rewarded >in
	rewarded --eos --seed 3 >early
	[ "$(rf-dump --tsv --rows rollout --columns length --no-header early | sort -u | wc -l)" -gt 1 ]
	for file in in early; do
		rm -f log
		for mean in tokens rollouts constant; do
			rm -rf run
			runs run
			rf-grpo -m run --rl-mean $mean --log log $file
		done
		figure log loss/rl | awk -v file=$file 'NR == 1 { first = $1; next }
			{ d = $1 - first; far += d > 1e-6 || d < -1e-6 }
			END { exit far != 2 * (file == "early") }'
	done
}

@test "rf-grpo: the divergence of a reference that is 0.25 nats below is that of its formulas" {
	rewarded | referred >in
	while read -r kind value; do
		rm -rf run log
		runs run
		rf-grpo -m run --kl-coef 0.3 --kl "$kind" --log log in
		awk -v a="$(figure log actor/kl_loss)" -v b="$value" \
			'BEGIN { d = a - b; exit !(d < 1e-5 && d > -1e-5) }' ||
			{ echo "$kind"; cat log; false; }
		[ "$(figure log actor/kl_coef)" = 0.3 ]
	done <<-'END'
		k1 0.25
		k2 0.03125
		k3 0.0288008
	END
	# equal distributions have no gradient, except for k1
	edited '(.body.rollout? // empty) |= (.logp_ref = .logp)' in >same
	rm -rf run
	runs run
	plain=$(gradient same)
	[ "$(gradient same --kl-coef 0.3 --kl k1)" != "$plain" ]
	[ "$(gradient same --kl-coef 0.3 --kl k2)" = "$plain" ]
	[ "$(gradient same --kl-coef 0.3 --kl k3)" = "$plain" ]
	rm -rf run log
	runs run
	rf-grpo -m run --kl-coef 0.3 --log log same
	awk -v a="$(figure log actor/kl_loss)" 'BEGIN { exit !(a >= 0 && a < 1e-9) }'
}

@test "rf-grpo: groups of equal rewards leave the policy loss with --zero-spread drop" {
	rewarded >in
	# the rewards of the first position are equal
	edited '(.body.reward? // empty).total.data |= [.[range(4)] | 0.5] + .[4:]' in >half
	runs run
	rf-grpo -m run --lr 0 --weight-decay 0 --stale any --log log half
	rf-grpo -m run --lr 0 --weight-decay 0 --stale any --log log --zero-spread drop half
	[ "$(figure log group/spread_free | paste -sd' ')" = '3 3' ]
	jq -s -e '.[0]["loss/rl"] * 2 - .[1]["loss/rl"] | fabs < 1e-6' log
	# a group of one rollout is not one of equal rewards, with rewards of tokens either
	texts 40 1:30 2:31 | rf-entropy -m "$M" | rf-select --chunks 1 -k 3 --margin 3 |
		rf-rollout -m "$M" -k 3 | rf-reward --per-token |
		edited '(.body.reward? // empty).per_token.data |= map(1)' >single
	rm -f log
	rf-grpo -m run --stale any --log log --zero-spread drop --advantage token --allow-single single
	[ "$(jq -c '[.["group/spread_free"], .["loss/rl"] < -1]' log)" = '[0,true]' ]
	# a batch without any spread teaches only next tokens, or nothing, and has rollouts all the same
	edited '(.body.reward? // empty).total.data |= map(0.5)' in >none
	rm -f log
	rf-grpo -m run --stale any --log log --zero-spread drop --need-rollouts none
	[ "$(jq -c '[.stepped, has("loss/rl"), has("loss/ntp")]' log)" = '[true,false,true]' ]
	run -0 rf-grpo -m run --stale any --log log --zero-spread drop --ntp-coef 0 none
	[[ "$output" == *'1 of 1 mini-batches had nothing to learn from'* ]]
	# the divergence and the entropy teach where all advantages are 0, but not from dropped groups
	referred none >ref
	rm -f log
	silent rf-grpo -m run --stale any --log log --ntp-coef 0 --kl-coef 0.1 ref
	silent rf-grpo -m run --stale any --log log --ntp-coef 0 --entropy-coef 0.1 ref
	[ "$(jq .stepped log | paste -sd' ')" = 'true true' ]
	run -0 rf-grpo -m run --stale any --zero-spread drop --ntp-coef 0 --kl-coef 0.1 ref
	[[ "$output" == *'1 of 1 mini-batches had nothing to learn from'* ]]
}

@test "rf-grpo: the parts of the clipped share add up, and CISPO counts clipped ratios" {
	# ratios on both sides of the bounds
	edited '(.body.rollout? // empty).logp.data |= [to_entries[] | .value + [-0.5, 0.1, 0.5][.key % 3]]' \
		<(rewarded) >in
	for options in '' '--objective cispo' '--ratio sequence --clip 0.01' '--clip 0.01 --clip-high 0.9'; do
		rm -rf run log
		runs run
		# shellcheck disable=SC2086
		rf-grpo -m run --stale any $options --log log in
		jq -e '.["actor/pg_clipfrac_ttt"] as $both | $both > 0 and
			(.["clip_ratio/low_mean"] + .["clip_ratio/high_mean"] - $both | fabs) < 1e-12' log
	done
	rm -rf run log
	runs run
	rf-grpo -m run --stale any --objective cispo --log log in
	# two of three log-ratios are outside of the bounds
	jq -e '(.["clip_ratio/low_mean"] - 1 / 3 | fabs) < 1e-12 and .["actor/pg_clipfrac_lower_ttt"] == 0 and
		(.["clip_ratio/high_mean"] - 1 / 3 | fabs) < 1e-12' log
}

@test "rf-grpo: every variant gives the same bits with any threads, any order and any unit of memory" {
	rewarded --eos | referred >in
	"$RF_UNITS/helper/records" reverse in >turned
	for options in '--ratio sequence --rl-mean rollouts' '--objective cispo --rl-mean constant' \
		'--kl-coef 0.2 --entropy-coef 0.1 --zero-spread drop' '--baseline loo --kl k1 --kl-coef 1'; do
		rm -rf run
		runs run
		# shellcheck disable=SC2086
		first=$(gradient in --stale any --threads 1 $options)
		# shellcheck disable=SC2086
		turned=$(gradient turned --stale any --threads 3 $options)
		# shellcheck disable=SC2086
		again=$(gradient in --stale any --recompute segment $options)
		[ "$turned $again" = "$first $first" ] || { echo "$options"; false; }
	done
}

@test "rf-step: --zero-spread drop leaves out nothing of the rollouts that its input has" {
	rewarded >in
	rf-dump --json in | jq -c 'del(.body.reward?, .body.rollout?, .body.positions?)' | rf-cat --json >bare
	ways=(--chunks 2 -k 3 --margin 3 -n 2 --kind binary --zero-spread drop --need-rollouts)
	runs a b
	rf-step -m a "${ways[@]}" bare
	rf-step -m b "${ways[@]}" in
	same_step a b
	rf-cat in | rf-rollout -m b -k 3 -n 4 -o unrewarded
	rf-step -m b "${ways[@]}" --per-token --advantage token unrewarded
}

@test "rf-step: --reference writes the bytes of rf-rollout --score --as ref in the pipeline" {
	texts 40 1:30 2:31 3:32 4:50 >in
	runs a b
	# a model of another family and width
	runs c
	for ref in "$G/qwen" c; do
		rm -rf a b
		runs a b
		rf-entropy -m a in | rf-select --chunks 2 -k 3 --margin 3 | rf-rollout -m a -k 3 -n 2 --eos |
			rf-rollout --score --as ref -m "$ref" | rf-reward |
			rf-grpo -m a --kl-coef 0.5 --mini-batch 2 --log a.log -o a.rf
		rf-step -m b --reference "$ref" --chunks 2 -k 3 --margin 3 -n 2 --eos --kl-coef 0.5 \
			--mini-batch 2 --log b.log -o b.rf in
		same_step a b
		cmp <(rf-dump --json a.rf | sed 1d | grep -v '"type":"end"') \
			<(rf-dump --json b.rf | sed 1d | grep -v '"type":"end"')
		sed -i -E 's/,"(timing_s|perf)[^,}]*//g' a.log b.log
		cmp a.log b.log
		rm a.log b.log
	done
	# the history and the manifest name the weights of the reference
	first=$(jq -r .weights c/step-000000/state.json)
	rf-dump --head b.rf | grep -q "rf-step .*weights $first"
	grep -q "\"reference_weights\": *\"$first\"" b/manifest.json
}

@test "rf-step: refuses a reference that is missing, unused or of another vocabulary, and changes nothing" {
	texts 40 1:30 2:31 >in
	runs run
	cp -a run before
	jq '.vocab_size = 30' "$M/config.json" >small.json
	rf-init --config small.json small
	for how in '' --dry-run; do
		mentions 66 "nowhere" rf-step $how -m run --kl-coef 1 --reference nowhere in
	done
	mentions 65 "--reference: " rf-step -m run --kl-coef 1 --reference small in
	# a model whose head overflows is not taken for the run
	copy_model "$M" huge
	"$RF_UNITS/helper/model" poke huge lm_head.weight 83 3e38
	mentions 70 "--reference: the log-probability of rollout ..." rf-step -m run --kl-coef 1 \
		--reference huge --chunks 4 -n 3 -k 3 --margin 3 "$G/stream/tokens.rf"
	for ref in run run/step-000000; do
		mentions 64 "--reference: $ref is a step of the run that is trained: use the checkpoint" \
			rf-step -m run --kl-coef 1 --reference $ref in
	done
	mentions 64 "--reference requires --kl-coef" rf-step -m run --reference "$M" in
	mentions 64 "--kl-coef requires --reference" rf-step -m run --kl-coef 1 in
	diff -r -x .lock before run
	# without a policy loss, the reference is not read
	rf-step -m run --rl-coef 0 --kl-coef 1 --reference nowhere in
}

@test "rf-step: ranks refuse references with other weights, before the first step" {
	have_mpi || skip 'MPI was left out'
	texts 40 1:30 2:31 3:32 4:50 >in
	runs run
	mkdir 0 1
	cp -r "$M" 0/ref
	rf-init --config "$M/config.json" --seed 3 1/ref
	export W=$PWD
	run -65 in_line 2 'cd $OMPI_COMM_WORLD_RANK && rf-cat --shard auto --mini-batch 2 "$W/in" |
		rf-step -m "$W/run" --mini-batch 2 --kl-coef 1 --reference ref --ranks mpi --rank-timeout 60'
	[[ "$(cat said)" == *"stream's head"* ]]
	[ "$(readlink run/latest)" = step-000000 ]
}
