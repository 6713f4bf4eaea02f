#!/usr/bin/env bats
# rf-rollout --score --as ref: log-probabilities of a reference model.
setup() {
	load ../helper
	load ../model
}

# trained: prints texts with rewarded rollouts by the weights of $M, and with advantages.  The record, its
# rollout and its reward have unknown keys.
trained() {
	runs trained
	batch 1:60 2:90 3:2 4:41 >batch
	rf-grpo -m trained -o advantages batch
	edited 'if .body.rollout then .body.mine = {x: [1, "y"]} | .body.rollout.mine = 2.5
		| .body.reward.mine = {base64: "AAE="} else . end' advantages | rf-cat
}
# values KEY FILE: prints a key of the rollouts
values() { json "$2" | jq -c ".rollout.$1"; }
# without KEY FILE: prints the records of a stream without a key of their rollouts
without() { json "$2" | sed "s/,\"$1\":{[^}]*}//"; }

@test "rf-rollout --as ref: keeps the promises of a filter" {
	load ../promises
	PROMISE_MIB=128 promises filter "$G/stream/rewarded.rf" rf-rollout -m "$M" --score --as ref
}

@test "rf-rollout --as ref: writes the bits of --score as logp_ref, and changes nothing else in a record" {
	local families=(delta delta-hybrid gated lact lact-muon qwen)
	wide delta_net lact_swiglu qwen3_5_text # of another width, and with large weights
	trained >in
	for m in "${families[@]/#/$G/}" wide-*; do
		rf-rollout -m "$m" --score --as ref in >ref
		rf-rollout -m "$m" --score in >scored
		cmp <(values logp_ref ref) <(values logp scored) || { echo "$m"; return 1; }
		cmp <(without logp_ref ref) <(json in) || { echo "$m"; return 1; }
	done
	# the third record is too short for rollouts
	json in | sed -n 3p | jq -e '.rollout == null' >/dev/null
	cmp <(json in | sed -n 3p) <(json ref | sed -n 3p)
}

@test "rf-rollout --as ref: the model that drew the rollouts gives their log-probabilities, to 1e-6" {
	wide delta_net lact_swiglu qwen3_5_text
	for m in "$G"/{delta,delta-gate-neg,gated,lact,lact-long,qwen} wide-*; do
		M=$m
		chosen 3 4 1:60 2:300 | rf-rollout -m "$m" -k 4 -n 3 --temperature 0.7 >in
		rf-rollout -m "$m" --score --as ref in >ref
		json ref | jq -se 'length == 2 and (map(.rollout | [.logp.data, .logp_ref.data] | transpose
			| length == 36 and all(.[0] - .[1] | fabs <= 1e-6)) | all)' >/dev/null ||
			{ echo "$m"; return 1; }
	done
}

@test "rf-rollout --as ref: the stage may stand at any place after the rollouts, and may be repeated" {
	runs run
	texts 40 1:60 2:90 | rf-entropy -m "$M" | rf-select --chunks 2 -k 3 --margin 3 |
		rf-rollout -m "$M" -k 3 -n 3 >drawn
	ref() { rf-rollout -m "$G/gated" --score --as ref "$@"; }
	ref drawn | rf-reward --kind hybrid | rf-grpo -m run -o first -
	rm -r run
	runs run
	rf-reward --kind hybrid drawn | rf-grpo -m run -o last -
	ref last >last.ref
	cmp <(json first) <(json last.ref)
	# another reference replaces the values
	rf-rollout -m "$G/lact" --score --as ref last.ref >other
	cmp <(json other) <(rf-rollout -m "$G/lact" --score --as ref last | json -)
	run ! cmp -s <(json other) <(json last.ref)
	# rollouts of another program have only tokens
	edited 'if .body.rollout then .body.rollout |= {temperature, tokens} else . end' drawn >bare
	cmp <(ref bare | json - | jq -c .rollout) \
		<(json last.ref | jq -c '.rollout | {temperature, tokens, logp_ref}')
}

@test "rf-rollout --as ref: the head keeps the weights that drew the rollouts, for rf-grpo --stale" {
	runs run
	rf-init --from "$G/gated" ref
	batch 1:60 2:90 >in
	rf-rollout -m ref --score --as ref in >out
	head_of() { rf-dump --json --head "$1" | jq -c .body; }
	cmp <(head_of in | jq -c 'del(.history)') <(head_of out | jq -c 'del(.history)')
	cmp <(head_of in | jq -c .history) <(head_of out | jq -c '.history[:-1]')
	model=$(rf-dump --json ref | jq -c 'select(.type == "checkpoint") | {arch, weights, step}')
	head_of out | jq -e --argjson model "$model" --arg version "$(version)" '
		.history[-1] == {tool: "rf-rollout", $version, $model,
			options: {dtype: "f32", score: true, as: "ref"}}' >/dev/null
	said="  rf-rollout --dtype f32 --score --as ref  # $(version), weights"
	[ "$(rf-dump --head out | tail -n 1)" = "$said $(
		jq -r .weights ref/latest/state.json)" ]
	# the stage of the next program has no model
	head_of <(rf-reward out) |
		jq -e '[.history[] | has("model")] == [false, false, false, false, true, false]' >/dev/null
	rf-grpo -m run out
	[ "$(jq -c '[.stages[] | select(.model).model.weights]' run/manifest.json)" = \
		"$(jq -c '[.weights]' ref/latest/state.json)" ]
	rf-rollout -m ref --score in | rf-reward >other
	mentions 65 '--stale' rf-grpo -m run other
	# a head without a vocabulary gets none
	edited 'del(.body.vocab)' in >some
	[ "$(head_of <(rf-rollout -m ref --score --as ref some) | jq -c 'has("vocab")')" = false ]
}

@test "rf-rollout --as ref: a rollout has 0 after its end, and the values of --score before" {
	copy_model "$M" m
	sed -i 's/"eos_token_id": 2/"eos_token_id": [2, 5, 30]/' m/config.json
	chosen 4 5 1:60 2:60 | rf-rollout -m m -k 5 -n 50 --eos >in
	rf-rollout -m "$G/gated" --score --as ref in >ref
	cmp <(values logp_ref ref) <(values logp <(rf-rollout -m "$G/gated" --score in))
	cmp <(without logp_ref ref) <(json in)
	json ref | jq -se '[.[].rollout | . as $o | range(200) as $b | $o.length.data[$b] as $n
			| $o.logp_ref.data[$b * 5:][:5] | (.[:$n] | all(. < 0)) and (.[$n:] | all(. == 0))]
		| length == 400 and all' >/dev/null
	json ref | jq -se '[.[].rollout.length.data[]] | unique == [1, 2, 3, 4, 5]' >/dev/null
}

@test "rf-rollout --as ref: writes the same bytes for any threads, records before, and on the check device" {
	wide lact_swiglu
	texts 40 1:60 2:41 3:70 | rf-entropy -m "$M" | rf-select --chunks 3 -k 4 --margin 3 |
		rf-rollout -m "$M" -k 4 -n 3 >in
	for m in "$G"/{delta-hybrid,lact-muon,qwen} wide-lact_swiglu; do
		ref=(rf-rollout -m "$m" --score --as ref)
		"${ref[@]}" --device cpu --threads 1 in >one
		"${ref[@]}" --device cpu --threads 2 in | cmp - one
		"${ref[@]}" --device cpu --max-len 100 in | cmp - one
		"${ref[@]}" --device check in | cmp - one
		"$RF_UNITS/helper/records" reverse in | "${ref[@]}" --device cpu >back
		"$RF_UNITS/helper/records" reverse back | cmp - one
		alone in one "${ref[@]}" --device cpu
	done
	# in segments the bits are those of --score in the same segments
	"${ref[@]}" --segment 64 in >ref
	cmp <(values logp_ref ref) <(values logp <(rf-rollout -m "$m" --score --segment 64 in))
}

@test "rf-rollout: --score keeps logp_ref and kept, and new rollouts remove them" {
	batch 1:60 2:90 | edited 'if .body.rollout then .body.rollout.kept = (.body.rollout.logp
		| .data |= map(exp)) else . end' | rf-rollout -m "$G/gated" --score --as ref >in
	rf-rollout -m "$G/delta-gate-neg" --score in >scored
	for key in logp_ref kept; do
		[ "$(values $key in | grep -c dtype)" -eq 2 ]
		cmp <(values $key scored) <(values $key in)
	done
	run ! cmp -s <(values logp scored) <(values logp in)
	rf-rollout -m "$M" -k 3 in | json - |
		jq -se 'map(.rollout | has("logp_ref") or has("kept")) == [false, false]' >/dev/null
}

@test "rf-rollout --as ref: all later stages keep logp_ref and kept, except those that draw again" {
	runs run
	batch 1:60 2:90 | edited 'if .body.rollout then .body.rollout.kept = (.body.rollout.logp
		| .data |= map(exp)) else . end' | rf-rollout -m "$G/gated" --score --as ref >in
	both() { json "$1" | jq -sc 'sort_by(.id)[] | [.id, .rollout.logp_ref, .rollout.kept]'; }
	both in >want
	[ "$(grep -o dtype want | wc -l)" -eq 4 ]
	echo 'sed -u 1d | jq -c --unbuffered "{id: .body.id, total: [[1, 2, 3], [4, 5, 6]]}"' >reward.sh
	for stage in rf-cat 'rf-cat --shuffle' 'rf-cat --range 0:2' 'rf-cat --shard 0/1' 'rf-entropy -m run' \
		'rf-reward --kind binary --per-token' 'rf-reward --exec "sh reward.sh"' \
		'rf-rollout -m run --score' 'rf-grpo -m run -o -' 'rf-dump --json | rf-cat --json'; do
		eval "<in $stage" >out
		both out | cmp - want || { echo "$stage"; return 1; }
	done
	# new positions, and a sequence of other tokens, remove the rollouts
	for stage in 'rf-select --chunks 2 -k 3 --margin 3' 'rf-cat --part response'; do
		eval "<in edited 'if .type == \"seq\" then .body.prompt_len = 9 else . end' | $stage" >out
		json out | jq -se 'map(has("rollout")) == [false, false]' >/dev/null
	done
}

@test "rf-rollout --as: requires --score and one of its words, and --score alone is --as policy" {
	for as in ref policy; do
		says 64 'rf-rollout: --as requires --score (...' \
			rf-rollout -m "$M" --as $as "$G/stream/rewarded.rf"
	done
	says 64 "rf-rollout: --as: 'reference' is not one of policy|ref..." \
		rf-rollout -m "$M" --score --as reference "$G/stream/rewarded.rf"
	says 64 'rf-rollout: --length cannot be combined with --score (...' \
		rf-rollout -m "$M" --score --as ref -k 5 "$G/stream/rewarded.rf"
	rf-rollout -m "$M" --score "$G/stream/rewarded.rf" >want
	rf-rollout -m "$M" --score --as policy "$G/stream/rewarded.rf" | cmp - want
	# the history of a draw does not have the option
	rf-rollout -m "$M" -k 3 "$G/stream/rewarded.rf" | rf-dump --json |
		jq -se '.[0].body.history[-1].options | has("as") | not' >/dev/null
}

@test "rf-rollout --as ref: passes records without rollouts, and reports that no record has any" {
	texts 40 1:30 2:50 | rf-entropy -m "$M" | rf-select --chunks 2 -k 3 --margin 3 >in
	says 0 'rf-rollout: none of 2 records has rollouts (rf-rollout without --score writes them)' \
		rf-rollout -m "$M" --score --as ref -o out in
	cmp <(json in) <(json out)
}

@test "rf-rollout --as ref: refuses a reference with a smaller vocabulary or another tokenizer" {
	tiny() {
		jq ".vocab_size = $1 | .eos_token_id = 1" "$M/config.json" >"$2.json"
		rf-init --config "$2.json" "$2"
	}
	tiny 384 m
	tiny 400 larger
	tiny 300 smaller
	printf 'some text of bytes %.0s' {1..80} >a.txt
	rf-tokenize --tokenizer m a.txt 2>/dev/null | rf-entropy -m m | rf-select --chunks 3 -k 5 |
		rf-rollout -m m -n 2 >in
	says 65 'rf-rollout: in: the stream has a vocabulary of 384, but the model only of 300' \
		rf-rollout -m smaller --score --as ref -o out in
	quiet rf-rollout -m larger --score --as ref -o out in
	edited 'if .type == "head" then .body.tokenizer.hash = "0123456789abcdef" else . end' in >other
	says 65 'rf-rollout: other: the stream was made with tokenizer 0123456789ab, but ...' \
		rf-rollout -m m --score --as ref -o out other
	# without a vocabulary in the head, each token is compared
	edited 'del(.body.vocab, .body.tokenizer) | if .body.rollout then .body.rollout.tokens.data[7] = 383
		else . end' in >some
	said="record 1 (byte ...): rollout token 7 is 383, outside the model's vocabulary of 300"
	says 65 "rf-rollout: some: $said" rf-rollout -m smaller --score --as ref -o out some
}

@test "rf-rollout --as ref: a reference that overflows exits 70 and names the rollout and its position" {
	copy_model "$M" m
	"$RF_UNITS/helper/model" poke m lm_head.weight 83 3e38
	said='record 1 (byte ...): the log-probability of rollout ... at position ... is not finite...'
	says 70 "rf-rollout: ...$said" rf-rollout -m m --score --as ref -o out "$G/stream/rewarded.rf"
	[ ! -e out ]
}
