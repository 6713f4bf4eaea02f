#!/usr/bin/env bats
# rf-select: positions that are drawn by entropy, and positions of a command.
setup() {
	load ../helper
	load ../promises
	load ../records
	J="python3 -S $ROOT/t/helper/judge.py"
}

# chosen N: prints the positions that judge.py gives the records 0 .. N-1 of `records make`, as records show
# does; a rollout has five tokens
chosen() {
	for ((id = 0; id < $1; id++)); do
		echo "$id: $((60 + id % 7 - 5)) $((2 + id % 7)) 1 1"
	done
}

@test "rf-select: keeps the promises of a filter" {
	PROMISE_CUTS=${RF_ALL:+5050} promises filter "$G/stream/tokens.rf" \
		rf-select --mode uniform --chunks 2 -k 2 --margin 2
}

@test "rf-select: positions agree with those of another implementation" {
	# a Python program written from the description computed these, with XXH64, Philox and softmax in
	# double
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
	# without a step in the head, positions are drawn as at step 0
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

@test "rf-select: --mode max and min choose the first extreme of each chunk's entropies, without smoothing" {
	records make 8 1 0 >in
	# a position is s = t + 1
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
	# nothing is drawn at random
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

@test "rf-select: the history has the options that decide the positions" {
	records make 1 1 0 >in
	rf-select --tau 0.25 --seed 9 in | zstd -dcq | tr -c '[:print:]' '\n' >out
	for word in rf-select chunks smooth tau mode entropy margin seed; do
		grep -q "$word" out
	done
	run ! grep -q 'strict\|output\|max-record' out
	# without --smooth the history has the width that was used
	cmp <(rf-select -k 4 in) <(rf-select -k 4 --smooth 4 in)
	cmp <(rf-select -k 4 in | records show -) <(rf-select -k 4 --smooth 5 in | records show -)
}

@test "rf-select: option values out of range exit 64" {
	for o in "--chunks 0" "-k 0" "--tau 0" "--tau nan" "--margin -1" "--mode greedy" \
		"--smooth -1" "--seed -1" "--step 1"; do
		run -64 rf-select $o "$G/stream/empty.rf"
	done
	run -64 rf-select "$G/stream/empty.rf" "$G/stream/empty.rf"
}

@test "rf-select: --shift N takes the entropy of row t - N for token t" {
	records make 8 1 0 >in
	at() { rf-select --chunks 4 -k 1 --margin 1 --smooth 1 "$@" | records show -; }
	for mode in entropy max; do
		at --mode $mode in >plain
		at --mode $mode --shift 0 in | cmp plain -
		for n in 1 7; do
			# the same entropies, each N tokens later; the first tokens are never chosen
			edited "if .type == \"seq\" then .body.entropy.data |=
				[range($n) | -1000] + .[:length - $n] else . end" in >later
			at --mode $mode --shift $n in >shifted
			at --mode $mode later | cmp - shifted
			run ! cmp plain shifted
		done
	done
	mentions 64 "--shift has no effect with --mode uniform" rf-select --mode uniform --shift 1 in
	# N may exceed the length of the sequence
	at --mode max --shift 65536 in >/dev/null
	for n in -1 65537 x; do
		run -64 rf-select --shift $n in
	done
}

@test "rf-select: --shift 1 begins a rollout after the token whose entropy is greatest, as the paper says" {
	# row 30, which predicts token 31, has the greatest entropy: H_t of the paper belongs to x_t
	records make 1 1 0 | edited 'if .type == "seq" then
		.body.entropy.data |= [range(length) | if . == 30 then 9 else 1 end] else . end' >in
	at() { rf-select --chunks 1 --mode max "$@" in | records show -; }
	[ "$(at)" = "0: 31" ]
	[ "$(at --shift 1)" = "0: 32" ]
}

@test "rf-select --exec: keeps the promises of a filter" {
	printf '%s\n' 's/.*"body":\{("id":[0-9]+).*/{\1,"positions":[4,1]}/p' >judge.sed
	promises filter "$G/stream/tokens.rf" rf-select -k 2 --exec 'exec sed -unEf judge.sed'
}

@test "rf-select --exec: the command's positions are written in its order, whenever it answers" {
	records make 9 4 0 >in
	chosen 9 >want
	for mode in right buffered late ahead slow-start extra string-id spaces no-newline; do
		quiet rf-select --exec "$J $mode" -o out in
		diff want <(records show out)
	done
	rf-dump --check -q out
	# whole numbers may have a point
	printf '%s\n' 's/.*"body":\{("id":[0-9]+).*/{\1,"positions":[4.0,1e1]}/p' >judge.sed
	rf-select --exec 'sed -unEf judge.sed' in | records show - | diff - <(seq -f '%g: 4 10' 0 8)
}

@test "rf-select --exec: an empty list leaves a record without positions" {
	records make 3 4 0 >in
	printf '%s\n' 's/.*"body":\{"id":1,.*/{"id":1,"positions":[]}/p' \
		's/.*"body":\{("id":[0-9]+).*/{\1,"positions":[7]}/p' >judge.sed
	says 0 "rf-select: 1 of 3 sequences have no positions: the command chose none" \
		rf-select --exec 'sed -unEf judge.sed' -o out in
	diff - <(records show out) <<<$'0: 7\n1:\n2: 7'
	[ "$(rf-dump --json out | jq -c 'select(.type == "seq").body | has("positions")' | paste -sd' ')" \
		= "true false true" ]
}

@test "rf-select --exec: the texts of tokens for single bytes join to the text of the sequence" {
	text='x 𠮷𠮷飘飘飘飘飘飘 end é'
	cat >join.py <<-'END'
		import json, sys
		next(sys.stdin)
		for line in sys.stdin:
		    record = json.loads(line)
		    print("".join(record["text"]), file=sys.stderr)
		    print(json.dumps({"id": record["body"]["id"], "positions": []}), flush=True)
	END
	for tokenizer in llama2 llama3; do
		zstd -dcq "$G/tokenizer/$tokenizer.json.zst" >tokenizer.json
		jq -nc --arg text "$text" '{$text}' |
			rf-tokenize --tokenizer tokenizer.json --text-key text --no-eos -o in - 2>err
		rf-select -k 1 --exec 'python3 join.py 2>joined' --text --tokenizer tokenizer.json \
			-o out in 2>err
		[ "$(sed 's/^ //' joined)" = "$text" ] || { echo "$tokenizer"; cat joined err; return 1; }
	done
}

@test "rf-select --exec: the command sees entropies, but no older positions, rollouts and rewards" {
	records make 3 4 0 >in
	rf-reward --exec "$J right" in >rewarded
	rf-select --exec "tee seen | $J right" -m 'a "b"' -k 6 rewarded >out
	[ "$(head -n 1 seen | jq -c 'del(.body)')" = '{"type":"head","k":6,"tokenizer":"a \"b\""}' ]
	head -n 1 seen | jq -c .body >head.json
	rf-dump --json out | sed -n 1p | jq -c .body | cmp - head.json
	sed 1d seen | jq -se 'length == 3 and all((.body | keys_unsorted) == ["id", "tokens", "entropy"] and
		.body.entropy.shape == .body.tokens.shape and (has("text") | not))' >/dev/null
	rf-dump --json out | jq -se 'map(select(.type == "seq").body) |
		all(.positions and .entropy and .rollout == null and .reward == null)' >/dev/null
	# a stream without entropies is sent, too
	rf-select -k 2 --exec "tee seen | $J right" "$G/stream/tokens.rf" | rf-dump --check -q -
	sed 1d seen | jq -se 'length == 4 and all(.body.tokens and .body.entropy == null)' >/dev/null
	# hidden states are sent without --no-hidden, and the stream keeps them
	edited 'if .type == "seq" then .body.hidden = {dtype: "<f4", shape: [.body.tokens.shape[0], 1],
		data: .body.entropy.data} else . end' in >hidden
	rf-select --exec "tee seen | $J right" hidden >a
	sed 1d seen | jq -se 'all(.body.hidden)' >/dev/null
	rf-select --exec "tee seen | $J right" --no-hidden hidden >b
	sed 1d seen | jq -se 'all(.body.hidden == null)' >/dev/null
	cmp a b
}

@test "rf-select --exec: a sequence of at most k tokens is not asked about, and is counted" {
	# lengths: the numbers of tokens of the sequences
	rf-dump --json "$G/stream/tokens.rf" | jq 'select(.type == "seq").body.tokens.shape[0]' >lengths
	least=$(sort -n lengths | head -n 1)
	said="1 of 4 sequences were too short and have no positions: -k needs $((least + 1)) tokens"
	says 0 "rf-select: $said" \
		rf-select -k "$least" --exec "tee seen | $J right" -o out "$G/stream/tokens.rf"
	[ "$(wc -l <seen)" -eq 4 ]
	[ "$(records show out | grep -c ': ')" -eq 3 ]
	quiet rf-select -k $((least - 1)) --exec "tee seen | $J right" -o out "$G/stream/tokens.rf"
	[ "$(wc -l <seen)" -eq 5 ]
	said="a sequence of $least tokens is too short: a position and a rollout of $least tokens need "
	says 65 "rf-select: ...: record ... (byte ...): $said$((least + 1))" \
		rf-select --strict -k "$least" --exec "$J right" -o none "$G/stream/tokens.rf"
	[ ! -e none ]
}

@test "rf-select --exec --text: each token has a text, and the texts join to the text of the sequence" {
	for kind in bytes gpt2 llama2 ${RF_ALL:+llama3} model; do
		tokenized_by $kind
		rf-select --exec "tee seen | $J right" --text -m $kind -o out doc.rf
		# some tokenizers drop the blank in front of a text's first word
		sed 1d seen | jq -e --arg text "$text" '(.text | length) == .body.tokens.shape[0] and
			(.text | add | ltrimstr(" ")) == ($text | ltrimstr(" "))' >/dev/null ||
			{ echo $kind; sed 1d seen | jq -c .text; return 1; }
		rf-select --exec "$J right" doc.rf | cmp out -
	done
	# the last token of a character has its text; special tokens have no text
	rf-tokenize --bytes - <<<'{"text": "aé"}' 2>/dev/null |
		rf-select --exec "tee seen | $J right" -k 1 --text -o out
	[ "$(sed 1d seen | jq -c .text)" = '["a","","é",""]' ]
	# an incomplete character at the end
	rf-tokenize --bytes - <<<'{"text": "aé"}' 2>/dev/null |
		edited 'if .type == "seq" then .body.tokens = {dtype: "<i4", shape: [2], data: [100, 198]}
			else . end' |
		rf-select --exec "tee seen | $J right" -k 1 --text -o out
	[ "$(sed 1d seen | jq -c .text)" = '["a","\ufffd"]' ] ||
		[ "$(sed 1d seen | jq -c .text)" = '["a","�"]' ]
	says 64 "rf-select: --text: the stream names no tokenizer: name one with -m or --tokenizer, or ..." \
		rf-select --exec cat --text <(records make 1 1 0)
	mkdir other
	zstd -dcq "$G/tokenizer/gpt2.json.zst" >other/tokenizer.json
	run -65 rf-select --exec cat --text -m other -o none doc.rf
}

@test "rf-select --exec: a malformed answer is an error that names the command, the record and the number" {
	records make 4 4 0 >in
	# wrong COMMAND MESSAGE: the command is an error with this message
	wrong() {
		run -65 --separate-stderr rf-select --exec "$1" -o out in
		[[ "$stderr" == "rf-select: --exec '"*"': $2" ]] || { echo "$1: $stderr"; return 1; }
		[ "$(wc -l <<<"$stderr")" -eq 1 ]
		[ ! -e out ]
	}
	first=" (the command's first line is the stream's head, which needs no answer)"
	while IFS='|' read -r mode what; do
		wrong "$J $mode" "$what"
	done <<-END
		id|the answer to record id 1: it has the id 2
		no-id|the answer to record id 1: the key 'id' is missing
		list|the answer to record id 1: '[1, 2]' is not a JSON object
		nul|the answer to record id 1: '{"id": 1\x00}' is not a JSON object: it has a NUL
		twice|the answer to record id 2: it has the id 1
		skip|the answer to record id 1: it has the id 2
		head|the answer to record id 0: it has the id null$first
		die|the command exited with status 3 before it answered record id 1
		last|the command exited with status 1 after its last answer
		one-more|the command printed more lines than it got records: '{"id": 99, "total": []}'
	END
	range='but with 60 tokens in the sequence and 5 in a rollout it must be from 1 to 55'
	while IFS='|' read -r positions what; do
		wrong "read -r head; cat >/dev/null; echo '{\"id\":0$positions}'" \
			"the answer to record id 0: $what"
	done <<-END
		|the list 'positions' is missing
		,"positions":7|the list 'positions' is missing
		,"positions":{"0":7}|the list 'positions' is missing
		,"positions":[0]|positions[0] is 0, $range
		,"positions":[55,1,56]|positions[2] is 56, $range
		,"positions":[-3]|positions[0] is -3, $range
		,"positions":[1,4294967297]|positions[1] is 4294967297, $range
		,"positions":[1,1e300]|positions[1] is 1e+300, $range
		,"positions":[1,2.5]|positions[1] is not a whole number
		,"positions":[1,"2"]|positions[1] is not a whole number
		,"positions":[[1]]|positions[0] is not a whole number
		,"positions":[true]|positions[0] is not a whole number
		,"positions":[null]|positions[0] is not a whole number
	END
	not='that is not finite, which JSON does not allow'
	wrong 'read -r head; cat >/dev/null; echo "{\"id\":0,\"positions\":[NaN]}"' \
		"the answer to record id 0: '{\"id\":0,\"positions\":[NaN]}' has a number $not"
	# each record has its own length
	[ "$(records show <(rf-select --exec "$J right" in) | cut -d' ' -f2 | paste -sd' ')" = "55 56 57 58" ]
}

@test "rf-select --exec: a command that hangs, and processes that outlive a failed one, are ended" {
	records make 4 4 0 >in
	says 65 "rf-select: --exec ...: the command neither read nor wrote a byte for 0.3 s (--timeout)" \
		rf-select -o out --timeout .3 --exec 'echo $$ >pid; sleep 61 & sleep 62' in
	[ ! -e out ]
	gone
	run -65 rf-select -o out --exec 'echo $$ >pid; sleep 61 >&2 & echo oops' in
	gone
}

@test "rf-select --exec: more than --queue-limit bytes of records without a first answer are an error" {
	records make 400 1 0 >in
	said=': the command has not answered yet, and more than 65536 bytes of records wait for it'
	says 65 "rf-select: --exec ...$said: make it answer and flush earlier, or raise --queue-limit" \
		rf-select -o out --queue-limit 64k --exec "$J late" in
}

@test "rf-select --exec: options of the draw are refused, and options for the command require --exec" {
	records make 1 1 0 >in
	for o in "--chunks 8" "--smooth 1" "--tau 1" "--mode max" "--margin 1" "--shift 1" "--seed 1" \
		"--draw-step 1"; do
		says 64 "rf-select: ${o% *} cannot be combined with --exec (try --help)" \
			rf-select --exec cat $o in
	done
	for o in --text "--model a" "--tokenizer bytes" --no-hidden "--timeout 1" "--queue-limit 1M"; do
		says 64 "rf-select: ${o% *} requires --exec (try --help)" rf-select $o in
	done
	says 64 "rf-select: --model cannot be combined with --tokenizer (try --help)" \
		rf-select --exec cat -m a --tokenizer bytes in
}

@test "rf-select --exec: the history has k and the name of the command's script, not the command" {
	records make 2 1 0 >in
	options() { rf-select --exec "$@" in | rf-dump --json | head -n 1 |
		jq -c '.body.history[-1].options'; }
	[ "$(options "$J right; : secret" -k 3)" = '{"length":3,"exec":"judge"}' ]
	printf '%s\n' 's/.*"body":\{("id":[0-9]+).*/{\1,"positions":[4,1]}/p' >judge.sed
	[ "$(options 'sed -unEf judge.sed')" = '{"length":5,"exec":"exec"}' ]
	# the history has no --chunks
	run ! grep -q chunks <(rf-select --exec "$J right" in | rf-dump --json)
}
