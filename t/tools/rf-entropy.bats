#!/usr/bin/env bats
# rf-entropy: entropies, and the values that it may keep with them.  t/exact/golden.bats compares with
# reference values.
setup() {
	load ../helper
	load ../model
}

@test "rf-entropy: keeps the promises of a filter" {
	load ../promises
	PROMISE_MIB=128 promises filter "$G/stream/tokens.rf" rf-entropy -m "$M"
}

@test "rf-entropy: writes the same bytes with any number of threads and on the check device" {
	texts 40 1:300 2:1 3:64 4:65 >in
	wide delta_net lact_swiglu qwen3_5_text
	local models=(delta-hybrid delta-gate-neg gated lact-muon qwen ${RF_ALL:+delta lact})
	for m in "${models[@]/#/$G/}" wide-*; do
		for threads in 1 3 ${RF_ALL:+2}; do
			rf-entropy --device cpu -m "$m" --nll --keep hidden,logits --segment 128 \
				--threads $threads in >$threads
			cmp 1 $threads
		done
		rf-entropy --device check -m "$m" --nll --keep hidden,logits --segment 128 in | cmp - 1
	done
}

@test "rf-entropy: a record's values do not depend on the records before it" {
	texts 40 1:70 2:5 3:200 4:1 5:64 >in
	wide delta_net lact_swiglu qwen3_5_text
	for m in ${RF_ALL:+"$M"} wide-*; do
		rf-entropy -m "$m" --nll --keep hidden in >want
		"$RF_UNITS/helper/records" reverse in | rf-entropy -m "$m" --nll --keep hidden >back
		"$RF_UNITS/helper/records" reverse back | cmp - want
		alone in want rf-entropy -m "$m" --nll --keep hidden
		rf-entropy -m "$m" --nll --keep hidden --max-len 5000 in | cmp - want
	done
}

@test "rf-entropy: the segment size changes values only by rounding" {
	texts 40 1:300 2:64 3:129 >in
	wide delta_net lact_swiglu qwen3_5_text
	for m in "$G"/{delta,delta-hybrid} wide-*; do
		rf-entropy -m "$m" --nll --keep hidden,logits in >whole
		for segment in 1 100 ${RF_ALL:+64 128}; do
			rf-entropy -m "$m" --nll --keep hidden,logits --segment $segment in >part
			helper model near part whole entropy nll correct hidden logits
		done
	done
}

@test "rf-entropy: entropy, nll and correct agree with the logits" {
	texts 40 1:50 2:2 >in
	rf-entropy -m "$M" --nll --keep logits in >out
	json out | jq -e --slurp 'length == 2 and all(
		. as $r | .logits.shape[1] as $n
		| [range(0; .tokens.shape[0]) as $t | $r.logits.data[$t * $n:($t + 1) * $n]] as $z
		| [$z[] | (map(exp) | add | log) as $l | map(. - $l)] as $logp
		| ([$logp[] | map(- . * exp) | add] | [., $r.entropy.data]
			| transpose | all((.[0] - .[1]) | fabs < 1e-5))
		and ([range(0; ($z | length) - 1) as $t | - $logp[$t][$r.tokens.data[$t + 1]]]
			| [., $r.nll.data] | transpose | all((.[0] - .[1]) | fabs < 1e-4))
		and ([range(0; ($z | length) - 1) as $t
			| if ($z[$t] | index(max)) == $r.tokens.data[$t + 1] then 1 else 0 end]
			== $r.correct.data))' >/dev/null
}

@test "rf-entropy: --dtype bf16 gives nearly the same entropies, in every family, at every --isa level" {
	texts 40 1:300 2:64 >in
	entropies() { rf-dump --json | jq 'select(.type == "seq").body.entropy.data[]'; }
	for m in delta ${RF_ALL:+gated} lact lact-muon qwen; do
		rf-entropy -m "$G/$m" in | entropies >f32
		# Newton-Schulz computes in float32, but enlarges the rounding errors of its input
		limit=$([ $m = lact-muon ] && echo 2.5e-2 || echo 1e-2)
		for level in $(levels); do
			rf-entropy -m "$G/$m" --dtype bf16 --isa $level in | entropies >bf16
			run ! cmp -s f32 bf16
			paste f32 bf16 | awk -v l="$limit" '{ s += ($1 - $2) ^ 2 }
				END { exit !(NR == 364 && sqrt(s / NR) < l) }'
		done
	done
}

@test "rf-entropy: a text of one token has an entropy but no nll" {
	texts 40 7:1 >in
	rf-entropy -m "$M" --nll in >out
	[ "$(json out | jq -c '[.entropy.shape, .nll.shape, .correct.shape]')" = "[[1],[0],[0]]" ]
}

@test "rf-entropy: keeps positions, rollouts and rewards, and adds only the values that options name" {
	rf-entropy -m "$M" "$G/stream/rewarded.rf" >out
	json out | jq -c 'del(.entropy)' >less
	json "$G/stream/rewarded.rf" | jq -c . | cmp - less
	[ "$(json out | jq -c 'keys_unsorted' | head -n 1)" = \
		'["id","tokens","source","meta","entropy","positions","rollout","reward"]' ]
	rf-entropy -m "$M" --nll out | rf-entropy -m "$M" >nll
	[ "$(json nll | jq -c 'has("nll")' | sort -u)" = true ]
}

@test "rf-entropy: the head names the weights and the options that change the result" {
	rf-init --from "$M" run
	rf-entropy -m "$M" --nll --segment 64 --threads 1 "$G/stream/tokens.rf" >out
	rf-entropy -m run --nll --device "${RF_DEVICE:-cpu}" "$G/stream/tokens.rf" | cmp - out
	rf-dump --json out | jq -se --arg weights "$(jq -r .weights run/latest/state.json)" '.[0].body
		| .model.step == 0 and .model.weights == $weights and (.history | length == 1
		and .[0].tool == "rf-entropy" and .[0].options == {"dtype": "f32", "nll": true})' >/dev/null
}

@test "rf-entropy: a logit that overflows exits 70 and names the position, and no NaN is written" {
	copy_model "$M" m
	"$RF_UNITS/helper/model" poke m lm_head.weight 83 3e38
	texts 40 1:2 2:80 >in
	# the first row whose hidden state makes a logit +infinity; -infinity is a probability of 0 and no
	# error
	rf-entropy -m "$M" --keep hidden in >hidden
	at=$(json hidden |
		jq 'select(.id == 2).hidden.data as $h | first(range(0; 80) | select($h[16 * . + 3] > 1.14))')
	[ "$(json hidden | jq 'select(.id == 1).hidden.data | .[3], .[19] | select(. > 1.1)' | wc -l)" -eq 0 ]
	run -70 --separate-stderr bash -c 'rf-entropy -m m in >out'
	[ "${#stderr_lines[@]}" -eq 1 ]
	[[ "$stderr" =~ \
		^'rf-entropy: in: record 2 (byte '[0-9]+'): the logits at position '$at' are not finite' ]]
	rf-dump --json out >out.json 2>err || true
	[ "$(jq -c 'select(.type == "seq").body.id' out.json)" = 1 ]
	run -65 rf-cat out
	run -70 --separate-stderr bash -c 'rf-entropy -m m -o whole in'
	[ ! -e whole ]
}

@test "rf-entropy: a weight that is NaN or infinite exits 70 and is named" {
	for x in nan inf; do
		copy_model "$M" m
		"$RF_UNITS/helper/model" poke m model.layers.1.attn.o_proj.weight 3 $x
		mentions 70 "model.layers.1.attn.o_proj.weight" rf-entropy -m m "$G/stream/tokens.rf"
	done
}

@test "rf-entropy: refuses a larger vocabulary than the model's one, and a token outside the vocabulary" {
	mentions 65 "vocabulary of 41, but the model only of 40" rf-entropy -m "$M" <(texts 41 1:9)
	# the head names no vocabulary, and a token is outside the model's vocabulary
	rf-dump --json <(texts 4000 1:9 2:9) | jq -c 'del(.body.vocab)' | rf-cat --json >in
	run -65 bash -c 'rf-entropy -m "$0" in >out' "$M"
	said=", outside the model's vocabulary of 40"
	[[ "$output" =~ ^'rf-entropy: in: record 1 (byte '[0-9]+'): token '[0-9]' is '[0-9]+"$said"$ ]]
}

@test "rf-entropy: refuses a stream of another tokenizer and names both; so do rf-rollout and rf-ntp" {
	sed 's/"vocab_size": 40/"vocab_size": 384/; s/"eos_token_id": 2/"eos_token_id": 1/' \
		"$M/config.json" >config.json
	rf-init --config config.json m
	echo 'a text of bytes' >a.txt
	rf-tokenize --tokenizer m a.txt >in
	rf-entropy -m m in >out
	own=$(rf-dump --json in | jq -r 'select(.type == "head").body.tokenizer.hash')
	rf-dump --json in |
		jq -c 'if .type == "head" then .body.tokenizer.hash = "0123456789abcdef" else . end' |
		rf-cat --json >other
	for tool in rf-entropy rf-rollout 'rf-ntp --eval'; do
		run -65 bash -c "$tool -m m other >out"
		[[ "$output" == *"other: the stream was made with tokenizer 0123456789ab, but m/token"*" is \
${own:0:12} (if another program"*"rf-tokenize --tokenizer m/tokenizer"*")" ]]
	done
}

@test "rf-entropy: wrong options exit 64, a missing file or model exits 66, and a broken model exits 78" {
	mentions 64 "-m" rf-entropy </dev/null
	run -64 rf-entropy -m "$M" --keep hidden,dreams "$G/stream/tokens.rf"
	run -64 rf-entropy -m "$M" --segment -1 "$G/stream/tokens.rf"
	run -66 rf-entropy -m nowhere "$G/stream/tokens.rf"
	run -66 rf-entropy -m "$M" nothing.rf
	mkdir empty
	run -66 rf-entropy -m empty "$G/stream/tokens.rf"
	copy_model "$M" m
	echo '{' >m/config.json
	run -78 rf-entropy -m m "$G/stream/tokens.rf"
}
