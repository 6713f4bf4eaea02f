#!/usr/bin/env bats
# rf-rollout: tokens that are drawn, and their values.  t/exact/golden.bats compares with reference values.
setup() {
	load ../helper
	load ../model
}

@test "rf-rollout: keeps the promises of a filter" {
	load ../promises
	PROMISE_MIB=128 promises filter "$G/stream/rewarded.rf" rf-rollout -m "$M" -k 3 -n 2
	PROMISE_MIB=128 promises filter "$G/stream/rewarded.rf" rf-rollout -m "$M" --score
}

# placed POSITIONS [FILE]: prints the stream with the positions of the object {ID: [POSITION, ...]}
placed() {
	edited "if .type == \"seq\" then ($1)[\"\\(.body.id)\"] as \$s
		| if \$s then .body.positions = {dtype: \"<i4\", shape: [\$s | length], data: \$s} else . end
	else . end" "${@:2}"
}

@test "rf-rollout: seed, step, id, position and rollout determine every token, drawn from row s-1 on" {
	chosen 6 5 1:300 2:40 77:65 >in
	rf-rollout -m "$M" -k 5 -n 6 in >out
	helper model draws "$M" 0 0 0 0 1 out
	rf-rollout -m "$M" -k 5 -n 6 --seed 12345678901 --temperature 0.7 --draw-step 9 in >out
	helper model draws "$M" 12345678901 9 0 0 1 out
	run ! "$RF_UNITS/helper/model" draws "$M" 12345678901 8 0 0 1 out
	rf-rollout -m "$M" -k 2 -n 40 --eos in >out
	helper model draws "$M" 0 0 1 0 1 out
}

@test "rf-rollout: --top-k and --top-p draw from fewer tokens, but logp is over all tokens" {
	chosen 6 5 1:300 2:40 >in
	rf-rollout -m "$M" -k 5 -n 6 --top-k 3 in >out
	helper model draws "$M" 0 0 0 3 1 out
	rf-rollout -m "$M" -k 5 -n 6 --top-p 0.6 in >out
	helper model draws "$M" 0 0 0 0 0.6 out
	rf-rollout -m "$M" -k 5 -n 6 --top-p 0.5 --top-k 7 --temperature 1.5 in >out
	helper model draws "$M" 0 0 0 7 0.5 out
	rf-rollout -m "$M" -k 4 --top-k 1 in >greedy
	rf-rollout -m "$M" -k 4 --top-k 1 --seed 5 in >other
	[ "$(drawn greedy)" = "$(drawn other)" ]
	rf-rollout -m "$M" -k 4 --top-p 1e-6 in >other
	[ "$(drawn greedy)" = "$(drawn other)" ]
	rf-rollout -m "$M" -k 4 --seed 5 in >other
	[ "$(drawn greedy)" != "$(drawn other)" ]
}

# fits_kept MODEL FILE BANNED TOP_K TOP_P: succeeds if `kept` of the rollouts in FILE is, to 2e-6, what jq
# computes of the logits that rf-entropy gives after each prefix and its rollout
fits_kept() {
	json "$2" | jq -c '.tokens.data as $x | .positions.data as $s | .rollout as $o
		| $o.tokens.shape as [$c, $n, $k] | range($c * $n) as $b
		| {tokens: ($x[:$s[$b / $n | floor]] + $o.tokens.data[$b * $k:][:$k])}' >ids.jsonl
	rf-tokenize --vocab 40 --format ids ids.jsonl 2>/dev/null |
		rf-entropy -m "$1" --keep logits -o logits.rf
	json "$2" | jq -c '.rollout | .kept.shape[2] as $k | .temperature as $t | . as $o
		| range(.kept.data | length / $k) as $b
		| {$t, kept: $o.kept.data[$b * $k:][:$k], n: ($o.length.data[$b] // $k)}' >drawn
	json logits.rf | jq -c '{T: .tokens.shape[0], N: .logits.shape[1], z: .logits.data}' >logits
	jq -en --slurpfile drawn drawn --slurpfile logits logits --argjson banned "$3" --argjson top_k "$4" \
		--argjson top_p "$5" 'def kept($t):
			(max as $m | map((. - $m) / $t | exp)) as $p
			| [range($p | length) | select(IN($banned[]) | not) | $p[.]] | sort | reverse
			| if $top_k > 0 then .[:$top_k] else . end
			| add as $all | reduce .[] as $x (0; if . < $top_p * $all then . + $x else . end)
			| . / ($p | add);
		[range($drawn | length) as $i | $drawn[$i] as $d | $logits[$i] as $l
			| ($d.kept | length) as $k | range($k) as $j
			| if $j >= $d.n then $d.kept[$j] == 1
			else $l.z[($l.T - 1 - $k + $j) * $l.N:][:$l.N]
				| kept($d.t) - $d.kept[$j] | fabs < 2e-6 end]
		| length >= 300 and all' >/dev/null
}

@test "rf-rollout: kept is the probability of the tokens that --top-p and --top-k keep, computed by hand" {
	for m in delta-hybrid gated; do
		M=$G/$m
		chosen 6 5 1:70 2:40 >in
		rf-rollout -m "$M" -k 5 -n 6 --top-k 3 in >out
		fits_kept "$M" out '[2]' 3 1
		run ! fits_kept "$M" out '[2]' 4 1
		rf-rollout -m "$M" -k 5 -n 6 --top-p 0.6 in >out
		fits_kept "$M" out '[2]' 0 0.6
		run ! fits_kept "$M" out '[2]' 0 0.7
		rf-rollout -m "$M" -k 5 -n 6 --top-p 0.5 --top-k 7 --temperature 1.5 in >out
		fits_kept "$M" out '[2]' 7 0.5
		# --eos keeps end tokens, and after the end of a rollout kept is 1
		copy_model "$M" m
		sed -i 's/"eos_token_id": 2/"eos_token_id": [2, 5, 30]/' m/config.json
		rf-rollout -m m -k 5 -n 12 --top-p 0.9 --eos in >out
		fits_kept m out '[]' 0 0.9
		json out | jq -se '[.[].rollout.length.data[]] | min < 5 and max == 5' >/dev/null
		# all tokens but the end tokens are kept
		rf-rollout -m m -k 5 -n 6 --top-k 1000 in >out
		fits_kept m out '[2, 5, 30]' 0 1
		rf-rollout -m m -k 5 -n 6 --eos --top-k 1000 in >out
		json out | jq -se 'map(.rollout.kept.data[]) | min > 0.999999 and max <= 1' >/dev/null
	done
}

@test "rf-rollout: writes kept only with --top-p or --top-k, with the same bits for any threads and records" {
	chosen 6 5 1:300 2:40 3:64 >in
	for options in '' '--top-p 1' '--top-k 0 --top-p 1 --temperature 2'; do
		rf-rollout -m "$M" -k 5 -n 6 $options in | json - |
			jq -se 'map(.rollout | has("kept")) == [false, false, false]' >/dev/null
	done
	for m in delta-hybrid lact-muon; do
		roll=(rf-rollout -m "$G/$m" -k 5 -n 6 --top-p 0.7 --top-k 20)
		"${roll[@]}" --device cpu --threads 1 in >one
		[ "$(json one | jq -c .rollout.kept.shape | paste -sd' ')" = '[6,6,5] [6,6,5] [6,6,5]' ]
		"${roll[@]}" --device cpu --threads 2 in | cmp - one
		"${roll[@]}" --device cpu --max-len 400 in | cmp - one
		"${roll[@]}" --device check in | cmp - one
		alone in one "${roll[@]}" --device cpu
	done
	# logp is over all tokens, as without these options
	rf-rollout -m "$G/$m" --score one >scored
	helper model near scored one logp
	cmp <(json scored | jq -c .rollout.kept) <(json one | jq -c .rollout.kept)
}

@test "rf-rollout: tokens are drawn from the softmax at --temperature" {
	chosen 1 1 3:70 >in
	for temperature in 1 0.8 2; do
		rf-rollout -m "$M" -k 1 -n 20000 --temperature $temperature in >out
		helper model fit out
	done
	run ! "$RF_UNITS/helper/model" fit <(
		rf-rollout -m "$M" -k 1 -n 20000 --temperature 2 in | rf-dump --json |
		sed 's/"temperature":2/"temperature":1/' | rf-cat --json)
}

@test "rf-rollout: the tokens that end a sequence are drawn only with --eos" {
	chosen 4 5 1:60 2:60 >in
	copy_model "$M" m
	sed -i 's/"eos_token_id": 2/"eos_token_id": [2, 5, 30]/' m/config.json
	rf-rollout -m m -k 5 -n 100 in >out
	[ "$(json out | jq '.rollout.tokens.data[] | select(. == 2 or . == 5 or . == 30)' | wc -l)" -eq 0 ]
	helper model draws m 0 0 0 0 1 out
	cp out want
	rf-rollout -m m -k 5 -n 100 --eos in >out
	[ "$(json out | jq '.rollout.tokens.data[] | select(. == 2 or . == 5 or . == 30)' | sort -u |
		wc -l)" -eq 3 ]
	# the end tokens that generation_config.json adds count, too, also in a run of the checkpoint
	sed -i 's/"eos_token_id": \[2, 5, 30\]/"eos_token_id": 5/' m/config.json
	echo '{"eos_token_id": [2, 30, 5], "temperature": 0.6, "more": {}}' >m/generation_config.json
	rf-init --from m RUN
	for model in m RUN; do
		rf-rollout -m $model -k 5 -n 100 in >out
		cmp <(json want) <(json out)
	done
	# the default of the family, 2, is used only if neither file names a token
	sed 's/"eos_token_id": 5/"eos_token_id": [5, 30]/' m/config.json >named.json
	sed 's/"eos_token_id": 5,//' m/config.json >unnamed.json
	cp named.json m/config.json
	rm m/generation_config.json
	rf-rollout -m m -k 5 -n 100 in >want
	json want | jq -e '[.rollout.tokens.data[] | select(. == 2)] | length > 0' >/dev/null
	cp unnamed.json m/config.json
	! grep eos_token_id m/config.json || false
	echo '{"eos_token_id": [5, 30]}' >m/generation_config.json
	rf-rollout -m m -k 5 -n 100 in >out
	cmp <(json want) <(json out)
	for nothing in '{"eos_token_id": null}' '{}'; do
		echo "$nothing" >m/generation_config.json
		rf-rollout -m m -k 5 -n 100 in >out
		[ "$(json out | jq '.rollout.tokens.data[] | select(. == 2)' | wc -l)" -eq 0 ]
	done
}

@test "rf-rollout: with --eos a rollout ends with the first end token, and later tokens have no value" {
	chosen 4 5 1:60 2:60 >in
	copy_model "$M" m
	sed -i 's/"eos_token_id": 2/"eos_token_id": [2, 5, 30]/' m/config.json
	rf-rollout -m m -k 5 -n 50 --eos in >out
	json out | jq -se 'def ends: . == 2 or . == 5 or . == 30;
		[.[].rollout | . as $o | range(200) as $b | $o.length.data[$b] as $n
			| $o.tokens.data[$b * 5:][:5] as $t | $o.logp.data[$b * 5:][:5] as $p
			| ($t[:$n - 1] | any(ends) | not) and ($n == 5 or ($t[$n - 1] | ends))
				and ($t[$n:] | all(. == $t[$n - 1])) and ($p[$n:] | all(. == 0))
				and ($p[:$n] | all(. < 0))]
		| length == 400 and all' >/dev/null
	json out | jq -se '[.[].rollout.length.data[]] | unique == [1, 2, 3, 4, 5]' >/dev/null
	json out | jq -se '[.[].rollout | .h_pred.shape[3] as $d | .length.data as $n | .h_pred.data as $h
		| range(200) as $b | $h[($b * 5 + $n[$b]) * $d:($b + 1) * 5 * $d]
		| all(. == 0)] | all' >/dev/null
	rf-rollout -m m --score out >scored
	helper model near scored out logp h_pred h_gt
	cmp <(json out | jq -c .rollout.length) <(json scored | jq -c .rollout.length)
	# without --eos all rollouts have k tokens, and records have no lengths
	rf-rollout -m m -k 5 in | json - | jq -se 'map(.rollout | has("length")) | any | not' >/dev/null
}

@test "rf-rollout: --score gives the values that were written when the rollouts were drawn" {
	for m in delta delta-hybrid delta-gate-neg; do
		M=$G/$m
		chosen 5 7 1:300 2:41 3:64 | rf-rollout -m "$M" -k 7 -n 3 --temperature 0.9 >drawn
		rf-rollout -m "$M" --score drawn >scored
		helper model near scored drawn logp h_pred h_gt
		[ "$(drawn scored)" = "$(drawn drawn)" ]
		[ "$(json scored | jq .rollout.temperature | sort -u)" = 0.9 ]
	done
}

@test "rf-rollout: --score adds the values that rollouts made elsewhere lack" {
	rf-rollout -m "$M" --score "$G/stream/rewarded.rf" >want
	rf-dump --json "$G/stream/rewarded.rf" |
		jq -c 'if .body.rollout then del(.body.rollout["logp", "h_pred", "h_gt"]) else . end' |
		rf-cat --json |
		rf-rollout -m "$M" --score >have
	same_messages want <have
	# other weights give other values
	rf-rollout -m "$G/delta-gate-neg" --score want >other
	[ "$(drawn other)" = "$(drawn want)" ]
	run ! "$RF_UNITS/helper/model" near other want logp
}

@test "rf-rollout: writes the same bytes with any number of threads and on the check device" {
	for m in ${RF_ALL:+delta gated lact} delta-hybrid lact-muon qwen; do
		M=$G/$m
		chosen 5 6 1:300 2:41 3:64 >in
		for threads in 1 3 ${RF_ALL:+2}; do
			rf-rollout --device cpu -m "$M" -k 6 -n 4 --segment 128 \
				--threads $threads in >$threads
			rf-rollout --device cpu -m "$M" --score --segment 128 \
				--threads $threads $threads >score$threads
			cmp 1 $threads
			cmp score1 score$threads
		done
		rf-rollout --device check -m "$M" -k 6 -n 4 --segment 128 in | cmp - 1
		rf-rollout --device check -m "$M" --score --segment 128 1 | cmp - score1
	done
}

@test "rf-rollout: tokens depend neither on segments, nor on the order of records, nor on other rollouts" {
	for m in ${RF_ALL:+delta} delta-hybrid; do
		M=$G/$m
		chosen 5 6 1:300 2:41 3:${RF_ALL:+1}600 4:8 >in
		rf-rollout -m "$M" -k 6 -n 4 in >want
		for segment in 64 ${RF_ALL:+128} 4096; do
			rf-rollout -m "$M" -k 6 -n 4 --segment $segment in >have
			[ "$(drawn have)" = "$(drawn want)" ]
			helper model near have want logp h_pred h_gt
		done
		"$RF_UNITS/helper/records" reverse in | rf-rollout -m "$M" -k 6 -n 4 >back
		"$RF_UNITS/helper/records" reverse back | cmp - want
		rf-rollout -m "$M" -k 6 -n 1 in >one
		[ "$(json one | jq -c '.rollout.tokens.data // []')" = \
			"$(json want | jq -c '[.rollout.tokens.data // [] | range(0; length / 24) as $p
			| .[24 * $p:24 * $p + 6][]]')" ]
		rf-rollout -m "$M" -k 3 -n 4 in >short
		[ "$(json short | jq -c '.rollout.tokens.data // []')" = \
			"$(json want | jq -c '[.rollout.tokens.data // [] | range(0; length / 6) as $r
			| .[6 * $r:6 * $r + 3][]]')" ]
	done
}

# Weights that multiply few rows many times have a form of their own.
@test "rf-rollout: a record's rollouts have the same bits with any records before it and any --max-len" {
	local at='{"1": [4, 30, 64, 70, 71, 150, 201], "2": [7], "4": [3, 66, 4], "5": [20, 40]}'
	wide ${RF_ALL:+delta_net} lact_swiglu qwen3_5_text
	texts 40 1:300 2:41 3:330 4:90 5:130 | placed "$at" >some
	placed "{\"3\": [$(seq -s, 1 8 300)]}" some >in # 38 of them
	for m in wide-*; do
		rf-rollout -m "$m" --device "$like_cpu" -k 16 in >out
		rf-rollout -m "$m" --device "$like_cpu" -k 16 --max-len 400 in | cmp - out
		"$RF_UNITS/helper/records" reverse in | rf-rollout -m "$m" --device "$like_cpu" -k 16 >back
		"$RF_UNITS/helper/records" reverse back | cmp - out || { echo "$m"; return 1; }
		alone in out rf-rollout -m "$m" --device "$like_cpu" -k 16
		[ -n "${RF_ALL:-}" ] || [ "$m" = wide-lact_swiglu ] || continue
		rf-rollout -m "$m" --device "$like_cpu" --score out >score
		alone out score rf-rollout -m "$m" --device "$like_cpu" --score
	done
}

@test "rf-rollout: another seed or step draws other tokens, and --draw-step draws those of a given step" {
	chosen 5 6 1:300 >in
	rf-init --from "$M" run
	rf-rollout -m "$M" -k 6 in >bare
	rf-rollout -m run -k 6 in >zero
	[ "$(drawn zero)" = "$(drawn bare)" ]
	rf-rollout -m run -k 6 --seed 1 in >seed
	[ "$(drawn seed)" != "$(drawn bare)" ]
	rf-ntp -m run --lr 0 in
	rf-rollout -m run -k 6 in >one
	[ "$(drawn one)" != "$(drawn bare)" ]
	rf-rollout -m run -k 6 --draw-step 0 in >again
	[ "$(drawn again)" = "$(drawn bare)" ]
	rf-rollout -m run/step-000001 -k 6 --draw-step -1 in >again
	[ "$(drawn again)" = "$(drawn one)" ]
}

@test "rf-rollout: positions may repeat, in any order, from 1 to the last one that k tokens follow" {
	texts 40 1:9 2:70 3:2 | rf-entropy -m "$M" --keep hidden,logits >in
	positions() { placed "$1" in; }
	positions '{"1": [8, 1, 8, 4], "2": [65, 69, 64, 1, 65, 65], "3": [1]}' >some
	rf-rollout -m "$M" -k 1 -n 3 some >out
	helper model draws "$M" 0 0 0 0 1 out
	rf-rollout -m "$M" --score out >score
	helper model near score out logp h_pred h_gt
	positions '{"1": [5], "2": [66, 1, 66]}' | rf-rollout -m "$M" -k 4 -n 2 >out
	helper model draws "$M" 0 0 0 0 1 out
	# k tokens of the text must follow
	for s in '{"1": [6]}' '{"2": [1, 67]}' '{"3": [1]}'; do
		positions "$s" >in2
		run -65 bash -c 'rf-rollout -m "$0" -k 4 in2 >out' "$M"
		where='rf-rollout: in2: record '
		said=', but it must be at least 1 and leave room for 4 rollout'
		[[ "$output" =~ ^"$where"[0-9]+' (byte '[0-9]+'): position '[01]' is '[0-9]+"$said" ]]
	done
}

@test "rf-rollout: a text longer than its windows gives the same rollouts in segments as in one piece" {
	local at='{"1": [324, 64, 1, 65, 128, 64, 200, 129], "3": [65, 1], "4": [70, 64, 3]}'
	for m in ${RF_ALL:+lact} lact-long delta-hybrid; do
		M=$G/$m
		texts 40 1:330 2:40 3:200 4:76 | rf-entropy -m "$M" --keep hidden,logits | placed "$at" >in
		rf-rollout -m "$M" -k 6 -n 3 in >want
		helper model draws "$M" 0 0 0 0 1 want
		rf-rollout -m "$M" -k 6 -n 3 --segment 64 in >have
		[ "$(drawn have)" = "$(drawn want)" ]
		helper model near have want logp h_pred h_gt
		rf-rollout -m "$M" --score --segment 64 have >scored
		[ "$(drawn scored)" = "$(drawn want)" ]
		helper model near scored want logp h_pred h_gt
		# a record has the same values without the records before it
		for i in ${RF_ALL:+0 1 2} 3; do
			rf-cat --range $i:$((i + 1)) in | rf-rollout -m "$M" -k 6 -n 3 --segment 64 |
				json - >alone
			cmp alone <(json have | sed -n $((i + 1))p)
			rf-cat --range $i:$((i + 1)) have | rf-rollout -m "$M" --score --segment 64 |
				json - >alone
			cmp alone <(json scored | sed -n $((i + 1))p)
		done
	done
}

@test "rf-rollout: removes old rewards and advantages, and passes a record without positions unchanged" {
	rf-init --from "$M" run
	rf-grpo -m run --stale any -o in "$G/stream/rewarded.rf"
	rf-rollout -m "$M" -k 3 in >out
	[ "$(json out | jq -c 'select(.id == 0) | keys_unsorted')" = \
		'["id","tokens","source","meta","positions","rollout"]' ]
	[ "$(json out | jq -c 'select(.id == 2)')" = "$(json in | jq -c 'select(.id == 2)')" ]
	texts 40 1:30 >plain
	[ "$(json <(rf-rollout -m "$M" plain))" = "$(json plain)" ]
	[ "$(json <(rf-rollout -m "$M" --score plain))" = "$(json plain)" ]
}

@test "rf-rollout: the history has the options that change the result" {
	rf-rollout -m "$M" -k 3 -n 2 --threads 2 --segment 64 "$G/stream/rewarded.rf" >out
	rf-dump --json out | jq -se '.[0].body.history[-1] | .tool == "rf-rollout"
		and .options == {"dtype": "f32", "length": 3, "rollouts": 2, "temperature": 1, "top-p": 1,
			"top-k": 0, "eos": false, "score": false, "seed": 0, "draw-step": -1}' >/dev/null
}

@test "rf-rollout --score: refuses options of the draw, and later stages find the numbers of the draw" {
	for option in '-k 5' '-n 1' '--temperature 1' '--top-p 1' '--top-k 0' --eos '--seed 0' '--draw-step 0'
	do
		says 64 "rf-rollout: --... cannot be combined with --score..." \
			rf-rollout -m "$M" --score $option "$G/stream/rewarded.rf"
	done
	chosen 2 3 1:60 | rf-rollout -m "$M" -k 3 -n 4 | rf-rollout -m "$M" --score >out
	rf-dump --json out | jq -se --arg version "$(version)" '
		.[0].body.history[-1] == {tool: "rf-rollout", $version,
		options: {dtype: "f32", score: true, as: "policy"}}' >/dev/null
	rf-init --from "$M" run
	"$RF_UNITS/helper/lab" pick out 0 >head
	"$RF_UNITS/helper/lab" end head >empty
	mentions 0 " 2 positions, 4 rollouts of 3 tokens at each" rf-grpo -m run --dry-run empty
	rf-reward --exec 'head -n 1 | jq -c "[.k, .n]" >seen' empty
	[ "$(cat seen)" = '[3,4]' ]
}

@test "rf-rollout: may draw tokens that the tokenizer lacks, and all later stages take them" {
	jq '.vocab_size = 500 | .eos_token_id = 1' "$M/config.json" >config.json
	rf-init --config config.json m
	rf-init --from m run
	printf 'some text of bytes %.0s' {1..80} >a.txt
	rf-tokenize --bytes a.txt 2>/dev/null | rf-entropy -m m | rf-select --chunks 3 -k 5 >in
	[ "$(rf-dump --json in | jq 'select(.type == "head").body.vocab')" = 384 ]
	rf-rollout -m m -n 20 --temperature 5 in >out
	[ "$(rf-dump --json out | jq 'select(.type == "head").body.vocab')" = 500 ]
	[ "$(json out | jq '.rollout.tokens.data | max')" -ge 384 ]
	rf-dump --check -q out
	# rf-dump shows tokens without a text as numbers
	id=$(json out | jq '[.rollout.tokens.data[] | select(. >= 384)][0]')
	for form in '' --tsv; do
		rf-dump $form out >text
		grep -qF "<$id>" text
	done
	for kind in cosine binary hybrid edit random; do
		rf-reward --kind $kind out >rewarded
		rf-grpo -m run --stale any rewarded
	done
	rf-reward --exec 'sed -u 1d | jq -c --unbuffered .body | jq -c --unbuffered "{id, total:
		[range(0; 3) as \$i | [range(0; 20) as \$j | .rollout.tokens.data[\$i * 100 + \$j * 5]]]}"' \
		out >rewarded
	[ "$(json rewarded | jq -c '.reward.total.data')" = \
		"$(json out | jq -c '[.rollout.tokens.data as $t | range(0; 60) | $t[. * 5]]')" ]
	rf-grpo -m run --stale any rewarded
	rf-rollout -m m --score out | rf-dump --check -q -
	# a stage that draws nothing keeps the vocabulary of the head
	[ "$(rf-entropy -m m in | rf-dump --json | jq 'select(.type == "head").body.vocab')" = 384 ]
}

@test "rf-rollout: a model that overflows exits 70 and names the rollout and its position" {
	copy_model "$M" m
	"$RF_UNITS/helper/model" poke m lm_head.weight 83 3e38
	run -70 --separate-stderr bash -c 'rf-rollout -m m -k 3 -n 8 "$0" >out' "$G/stream/rewarded.rf"
	said='): the log-probability of rollout '
	[[ "$stderr" =~ 'record 1 (byte '[0-9]+"$said"[0-9]+' at position '[0-9]+' is not finite' ]]
	run -65 rf-cat out
}

@test "rf-rollout: exits 71 with one line if the rollouts do not fit into memory" {
	texts 40 1:70000 | edited 'if .type == "seq" then
		.body.positions = {dtype: "<i4", shape: [65536], data: [range(1; 65537)]}
	else . end' >in
	run -71 bash -c 'rf-rollout -m "$0" -n 65536 -k 5 in >out' "$M"
	[ "${#lines[@]}" -eq 1 ]
}

@test "rf-rollout: option values out of range exit 64" {
	run -64 rf-rollout -k 3 </dev/null
	for bad in '-k 0' '-n 0' '--temperature 0' '--temperature nan' '--top-p 0' '--top-p 1.5' \
		'--top-k -1' '--draw-step -2' '--seed -1'; do
		run -64 rf-rollout -m "$M" $bad "$G/stream/rewarded.rf"
	done
}
