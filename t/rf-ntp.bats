#!/usr/bin/env bats
# rf-ntp: training on next tokens, and evaluation.  What it shares with rf-grpo: t/train.bats.
setup() {
	load helper
	load model
}

# prompted ID:T...: texts whose prompt is 20 tokens long, or all of it
prompted() {
	rf-dump --json <(texts 40 "$@") | jq -c \
		'if .type == "seq" then (.body.prompt_len = ([20, .body.tokens.shape[0]] | min)) else . end' |
		rf-cat --json
}

@test "rf-ntp: keeps the promises of a trainer" {
	load promises
	texts 40 1:30 2:31 3:32 >in
	PROMISE_MIB=128 PROMISE_RESET=reset PROMISE_STATE=state promises trainer "$PWD/in" rf-ntp -m run
}

@test "rf-ntp: --eval keeps the promises of a sink" {
	load promises
	texts 40 1:30 2:31 3:32 >in
	PROMISE_MIB=128 promise \
		'whole nothing foreign cuts after order killed claims usage help terminal_in full' sink \
		"$PWD/in" rf-ntp --eval -m "$M"
}

@test "rf-ntp: makes one optimizer step per stream, or one per mini-batch with --mini-batch" {
	texts 40 1:50 2:60 3:9 >in
	runs a b c
	run -0 rf-ntp -m a in
	[ -z "$output" ]
	[ "$(readlink a/latest)" = step-000001 ]
	rf-ntp -m b --mini-batch 2 --log log in
	[ "$(readlink b/latest)" = step-000002 ]
	[ "$(jq -c '[.step, .records, .tokens]' log | paste -sd' ')" = '[0,2,110] [1,1,9]' ]
	jq -se 'all(has("loss/ntp") and (has("loss/rl") | not))' log >/dev/null
	for i in 0:2 2:3; do
		rf-cat --range $i in | rf-ntp -m c
	done
	same_step b c
}

@test "rf-ntp: threads, record order, --recompute and the check device do not change the weights" {
	for m in delta delta-hybrid gated lact lact-muon qwen; do
		M=$G/$m
		texts 40 1:200 2:70 3:9 4:1 >in
		rm -rf ? && runs a b c d e
		rf-ntp --device cpu -m a --segment 128 --threads 1 in
		rf-ntp --device cpu -m b --segment 128 --threads 2 in
		"$RF_UNITS/helper/records" reverse in | rf-ntp --device cpu -m c --segment 128 --threads 3
		rf-ntp --device check -m d --segment 128 in
		rf-ntp --device $like_cpu -m e --segment 128 --recompute segment in
		for run in b c d e; do
			same_step a $run
		done
	done
}

@test "rf-ntp: --eval prints the means of rf-entropy --nll, over all tokens or those of the response" {
	prompted 1:50 2:300 3:20 4:1 5:21 >in
	rf-entropy -m "$M" --nll in >nll
	rf-ntp --eval -m "$M" in >all
	rf-ntp --eval -m "$M" --loss response --segment 64 in >response
	for what in all:0 response:19; do
		jq -n --slurpfile have "${what%:*}" --slurpfile nll <(json nll) \
			--argjson from "${what#*:}" -e '[$nll[] | .nll.data[$from:][]] as $n
			| [$nll[] | .correct.data[$from:][]] as $c | $have[0]
			| ([.nll - ($n | add / length), .accuracy - ($c | add / length),
				.probability - ($n | map(- . | exp) | add / length),
				(.nll | exp) - .perplexity] | all(fabs < 1e-5))
			and .tokens == ($n | length) and .sequences == 5' >/dev/null
	done
	[ "$(wc -l <all)" -eq 1 ]
	jq -e '.tokens == 387' all >/dev/null
	jq -e '.tokens == 311' response >/dev/null
}

@test "rf-ntp: --eval changes nothing in a run or a checkpoint" {
	prompted 1:50 >in
	runs run
	chmod -R a-w run
	state >before
	[ "$(rf-ntp --eval -m run in)" = "$(rf-ntp --eval -m "$M" in)" ]
	[ "$(rf-ntp --eval -m run --device check in)" = \
		"$(rf-ntp --eval -m "$M" --device $like_cpu --threads 1 in)" ]
	[ "$(flock run/step-000000/state.json rf-ntp --eval -m run in)" = "$(rf-ntp --eval -m "$M" in)" ]
	state | cmp - before
	[ ! -e run/.lock ]
	chmod -R u+w run
}

@test "rf-ntp: --eval -o writes each record's nll" {
	prompted 1:50 2:30 >in
	rf-ntp --eval -m "$M" -o out in >line
	[ "$(wc -l <line)" -eq 1 ]
	rf-entropy -m "$M" --nll in >want
	[ "$(json out)" = "$(json want)" ]
	rf-dump --json out |
		jq -se '.[0].body | .history[-1].tool == "rf-ntp" and .model.step == 0' >/dev/null
	# one standard output
	rf-ntp --eval -m "$M" -o - in | cmp - out
	run -64 rf-ntp -m "$M" -o out in
	run -64 rf-ntp --eval -m "$M" --grad-in g in
}

@test "rf-ntp: --eval without tokens to evaluate is an error, unless --allow-empty is given" {
	for in in "$G/stream/empty.rf" <(texts 40 1:1); do
		run -65 rf-ntp --eval -m "$M" "$in"
		[[ "$output" == *"no tokens to evaluate"* ]]
	done
	run -0 rf-ntp --eval -m "$M" --allow-empty "$G/stream/empty.rf"
	jq -e '.tokens == 0' <<<"$output" >/dev/null
	run -65 rf-ntp --eval -m "$M" --loss response <(texts 40 1:9)
	[[ "$output" == *"prompt_len"* ]]
}

@test "rf-ntp: --eval --loss response says how many records have no tokens behind their prompt" {
	# prompts of 40 and 9 tokens, and a record of 30
	texts 40 1:30 2:30 | edited 'if .seq == 1 then .body.prompt_len = 30
		elif .seq == 2 then .body.prompt_len = 9
		else . end' >mixed
	run -0 --separate-stderr rf-ntp --eval -m "$M" --loss response mixed
	said='1 of 2 records have no tokens after their prompt and were not counted'
	[ "$stderr" = "rf-ntp: $said (rf-tokenize --truncate left keeps answers)" ]
	jq -e '.tokens == 21' <<<"$output" >/dev/null
	run -65 rf-ntp --eval -m "$M" --loss response <(rf-cat --range 0:1 mixed)
	said='no record has tokens after its prompt'
	[[ "$output" == *": $said (rf-tokenize --truncate left keeps answers; --allow-empty accepts it)" ]]
	run -0 --separate-stderr rf-ntp --eval -m "$M" mixed
	[ -z "$stderr" ]
}

@test "rf-ntp: options that would have no effect exit 64" {
	texts 40 1:30 >in
	runs run
	for how in "--log f" "--lr 3" "--mini-batch 2" "--at 0" "--ntp-coef 1" "--recompute none" \
		"--grad-in g"; do
		# shellcheck disable=SC2086
		run -64 rf-ntp --eval -m run $how in
		[ "$output" = "rf-ntp: ${how% *} cannot be combined with --eval (try --help)" ]
	done
	run -64 rf-ntp -m run -o out in
	[ "$output" = "rf-ntp: --output requires --eval (try --help)" ]
	run -64 rf-ntp -m run --log - in
	[[ "$output" == "rf-ntp: --log: '-' is not a file: "* ]]
	[ ! -e ./- ]
}

@test "rf-ntp: --loss response trains on the response alone" {
	prompted 1:50 2:15 3:21 >in
	runs a b
	rf-ntp -m a --loss response --lr 0 --log log in
	rf-entropy -m "$M" --nll in >nll
	jq -n --slurpfile log log --slurpfile nll <(json nll) -e '[$nll[] | .nll.data[19:][]]
		| length == 31 and (add / 31 - $log[0]["loss/ntp"] | fabs < 1e-5)' >/dev/null
	# the last token that counts depends on all of the text: the prompt's tokens get no loss, and matter
	rf-ntp -m a --loss response --lr 1e-3 in
	rf-ntp -m b --lr 1e-3 in
	run ! same_step a b
	run -65 rf-ntp -m a --loss response <(texts 40 1:50)
	[[ "$output" =~ ^'rf-ntp: '.*': record 1 (byte '[0-9]+'): --loss response needs prompt_len' ]]
	# a prompt and nothing else
	run -0 rf-ntp -m b --loss response <(prompted 1:20)
	[[ "$output" == "rf-ntp: 1 of 1 mini-batches had nothing to learn from"* ]]
}

@test "rf-ntp: trains on the texts of any stream, with or without rollouts" {
	runs a b
	rf-ntp -m a "$G/stream/tokens.rf"
	rf-ntp -m b "$G/stream/rewarded.rf"
	same_step a b
	rf-ntp -m a <(batch 1:30)
}

@test "rf-ntp: --ntp-coef scales the gradient and not the logged loss" {
	texts 40 1:50 >in
	runs a b
	rf-ntp -m a --lr 0 --log log in
	rf-ntp -m b --lr 0 --log log --ntp-coef 0.25 in
	jq -se '.[0]["loss/ntp"] == .[1]["loss/ntp"]
		and (.[0]["actor/grad_norm_ttt"] / .[1]["actor/grad_norm_ttt"] - 4 | fabs < 1e-5)
		and (.[1]["actor/sft_loss_ttt"] * 4 - .[1]["loss/ntp"] | fabs < 1e-6)' log >/dev/null
}
