#!/usr/bin/env bats
setup() {
	load helper
	load promises
	load records
}

@test "rf-select: keeps the promises of a filter" {
	PROMISE_CUTS=500 promises filter "$G/stream/tokens.rf" \
		rf-select --mode uniform --chunks 2 -k 2 --margin 2
}

@test "rf-select: positions agree with those of another implementation" {
	# by a Python program written from the description: XXH64, Philox, softmax, all in double
	records make 6 4 9 | rf-select --chunks 5 -k3 --smooth 6 --tau 0.3 --margin 2 --seed 77 >out
	diff - <(records show out) <<-'END'
		0: 12 21 27 48 52
		1: 5 22 27 41 55
		2: 6 19 25 41 54
		3: 5 22 35 46 57
		4: 5 23 35 48 49
		5: 12 25 36 48 58
	END
	records make 4 4 0 | rf-select >out
	diff - <(records show out) <<-'END'
		0: 20 20 20 28 34 40 40 40
		1: 20 20 20 22 34 38 41 41
		2: 20 20 20 23 29 40 42 42
		3: 20 20 20 26 30 37 43 43
	END
}

@test "rf-select: the order of the records does not change their positions" {
	records make 50 1 0 >in
	records reverse in >reversed
	rf-select --margin 2 in >a
	rf-select --margin 2 reversed >b
	cmp <(records show a) <(records show b | tac)
	records reverse b | cmp a -
}

@test "rf-select: the same input gives the same bytes, and another seed or step gives other positions" {
	records make 20 1 3 >in
	rf-select in >a
	rf-select <in | cmp a -
	rf-select --seed 0 --smooth 5 in | cmp a -
	run ! cmp <(records show a) <(rf-select --seed 1 in | records show -)
	run ! cmp <(records show a) <(records make 20 1 4 | rf-select | records show -)
	cmp <(records show a) <(records make 20 1 4 | rf-select --draw-step 3 | records show -)
	# a model whose step is not said draws as at step 0
	cmp <(records make 20 1 -1 | rf-select | records show -) <(records make 20 1 0 | rf-select |
		records show -)
}

@test "rf-select: removes the rollouts, rewards and advantages of old positions" {
	edited 'if .body.reward then .body.advantage = .body.reward.total else . end' \
		"$G/stream/rewarded.rf" >in
	records show in | grep -q 'hybrid .* advantage'
	rf-select --mode uniform --chunks 4 -k 3 --margin 3 in >out
	[ "$(rf-dump --json out | jq -c 'select(.type == "seq").body
		| has("rollout") or has("reward") or has("advantage")' | sort | uniq -c)" = "      4 false" ]
}

@test "rf-select: --mode uniform needs no entropies, and other modes name the program that writes them" {
	rf-select --mode uniform --margin 1 -k 1 --chunks 2 "$G/stream/tokens.rf" >/dev/null
	for mode in entropy max min; do
		run -65 --separate-stderr rf-select -o out --mode $mode "$G/stream/tokens.rf"
		said='the record has no entropy (rf-entropy writes it; '
		[[ "$stderr" == "rf-select: $G/stream/tokens.rf: record 1 (byte "*"): $said"* ]]
	done
}

@test "rf-select: --mode max and min choose the first extreme of each chunk's entropies, not averaged" {
	records make 8 1 0 >in
	# s = t + 1
	for mode in max min; do
		rf-select --mode $mode --chunks 4 --smooth 5 -k 1 --margin 1 in | rf-dump --json |
			jq -c 'select(.type == "seq") | .body.positions.data' >have
		rf-dump --json in | jq -c --arg mode $mode 'select(.type == "seq") | .body
			| (.tokens.data | length) as $T | (($T / 4) | floor) as $n
			| .entropy.data as $H | [range(4) | (. * $n) as $from | [range($from; $from + $n)]
				| if $mode == "max" then max_by([$H[.], -.]) else min_by([$H[.], .]) end
				| . + 1 | if . > $T - 1 then $T - 1 else . end]' >want
		cmp have want
	done
	# they draw nothing
	cmp <(rf-select --mode max in | records show -) <(rf-select --mode max --seed 5 in | records show -)
}

@test "rf-select: sequences that are too short pass without positions and are counted" {
	run -0 --separate-stderr rf-select --mode uniform --chunks 4 -o out "$G/stream/tokens.rf"
	said='1 of 4 sequences were too short and have no positions'
	[[ $stderr == "rf-select: $said: --chunks, -k and --margin need "[0-9]*" tokens" ]]
	[ "$(records show out | grep -c ': ')" -eq 3 ]
	[ "$(records show out | sed -n 3p)" = "2:" ]
	quiet rf-select --mode uniform --chunks 4 -k 3 --margin 3 \
		-o out "$G/stream/tokens.rf"
	run -0 --separate-stderr rf-select --mode uniform --chunks 10 -k 3 --margin 3 \
		-o out "$G/stream/tokens.rf"
	said='1 of 4 sequences were too short and have no positions'
	[[ $stderr == "rf-select: $said: --chunks, -k and --margin need "[0-9]*" tokens" ]]
}

@test "rf-select: --strict makes a sequence that is too short an error" {
	run -65 --separate-stderr rf-select --strict --mode uniform -o out "$G/stream/tokens.rf"
	said='a sequence of 9 tokens is too short: 8 chunks, rollouts of 5 tokens and margin 20 need 40'
	[[ "$stderr" == "rf-select: $G/stream/tokens.rf: record 3 (byte "*"): $said" ]]
	[ ! -e out ]
}

@test "rf-select: the history has the options by which positions were chosen" {
	records make 1 1 0 >in
	rf-select --tau 0.25 --seed 9 in | zstd -dcq | tr -c '[:print:]' '\n' >out
	for word in rf-select chunks smooth tau mode entropy margin seed; do
		grep -q "$word" out
	done
	run ! grep -q 'strict\|output\|max-record' out
	# the width that was used, where none was given
	cmp <(rf-select -k 4 in) <(rf-select -k 4 --smooth 4 in)
	cmp <(rf-select -k 4 in | records show -) <(rf-select -k 4 --smooth 5 in | records show -)
}

@test "rf-select: option values that make no sense exit 64" {
	for o in "--chunks 0" "-k 0" "--tau 0" "--tau nan" "--margin -1" "--mode greedy" \
		"--smooth -1" "--seed -1" "--step 1"; do
		run -64 rf-select $o "$G/stream/empty.rf"
	done
	run -64 rf-select "$G/stream/empty.rf" "$G/stream/empty.rf"
}
