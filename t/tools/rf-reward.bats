#!/usr/bin/env bats
# rf-reward: computed reward parts, and rewards of a command.
setup() {
	load ../helper
	load ../promises
	load ../records
	J="python3 -S $ROOT/t/helper/judge.py"
}

# judged N [KIND]: prints the rewards that judge.py gives the records 0 .. N-1 of `records make`, as records
# show does
judged() {
	for ((id = 0; id < $1; id++)); do
		if ((id % 4 == 2)); then
			echo "$id:"
		else
			echo "$id: 7 $((57 + id % 7)) ${2:-judge} $id $id.25 $((id + 1)) $((id + 1)).25"
		fi
	done
}

@test "rf-reward: keeps the promises of a filter" {
	PROMISE_CUTS=${RF_ALL:+5050} promises filter "$G/stream/rewarded.rf" rf-reward --kind hybrid
}

@test "rf-reward --exec: keeps the promises of a filter" {
	# the stream has 4 positions and 3 rollouts; sed -u reads and writes a line at a time, unlike mawk
	printf '%s\n' \
		's/.*"body":\{("id":[0-9]+).*/{\1,"total":[[1,2,3],[4,5,6],[7,8,9],[0,0,1]]}/p' >judge.sed
	promises filter "$G/stream/rewarded.rf" rf-reward --exec 'exec sed -unEf judge.sed'
}

@test "rf-reward: computes the same reward parts as the other implementation that made the golden stream" {
	rf-reward --kind hybrid "$G/stream/rewarded.rf" >out
	records same "$G/stream/rewarded.rf" out
	run ! records same "$G/stream/rewarded.rf" <(rf-reward --kind cosine out)
	rf-reward --kind edit out | rf-reward --kind random | rf-reward --kind hybrid |
		records same "$G/stream/rewarded.rf" -
}

@test "rf-reward: --kind decides which part is the total" {
	records make 3 4 0 >in
	for kind in cosine binary hybrid edit random; do
		rf-reward --kind $kind in >$kind.rf
		[ "$(records show $kind.rf | grep -c " $kind ")" -eq 2 ]
		records show $kind.rf | sed "s/ $kind / /" >$kind
	done
	run -0 cat cosine binary edit random
	[ "$(sort -u cosine binary edit random | grep -c ': 7')" -eq 6 ] ||
		[ "$(sort -u cosine random | wc -l)" -eq 5 ]
	rf-reward in | cmp - cosine.rf
}

@test "rf-reward: --per-token writes a reward for each token, and the mean of these is the total" {
	for kind in cosine binary hybrid random; do
		rf-reward --per-token --kind $kind "$G/stream/rewarded.rf" -o out
		rf-dump --json out | jq -se '
			map(select(.type == "seq").body | select(.rollout))
			| map(.rollout.tokens.shape as [$c, $n, $k] | .reward | .per_token as $r
				| ($r.shape == [$c, $n, $k]) as $fits | .total.data | to_entries
				| map(.value - ($r.data[.key * $k:][:$k] | add / $k) | $fits and fabs < 1e-6))
			| flatten | length > 20 and all' >/dev/null
		[ $kind = random ] || records same <(rf-reward --kind $kind out) \
			<(rf-reward --kind $kind "$G/stream/rewarded.rf")
	done
	# random rewards differ from token to token; a binary reward is 1 if the tokens are equal
	rf-dump --json out | jq -se 'map(.body.reward.per_token.data[]?) | unique | length > 60' >/dev/null
	rf-reward --per-token --kind binary "$G/stream/rewarded.rf" | rf-dump --json |
		jq -se 'map(.body | select(.rollout)) | map(.tokens.data as $x | .positions.data as $s
			| .rollout.tokens as $t | $t.shape as [$c, $n, $k]
			| .reward.per_token.data | to_entries
			| map((.key % $k) as $j | (.key / $k / $n | floor) as $p
				| .value == (if $t.data[.key] == $x[$s[$p] + $j] then 1 else 0 end)))
			| flatten | length > 60 and all' >/dev/null
	mentions 64 "--per-token needs a kind that is a mean over tokens, and 'edit' is not" \
		rf-reward --per-token --kind edit "$G/stream/rewarded.rf"
	mentions 64 "cannot be combined with --exec" rf-reward --per-token --exec cat "$G/stream/rewarded.rf"
}

@test "rf-reward: --kind random depends only on seed, step, id, position and rollout" {
	records make 30 1 5 >in
	rf-reward --kind random in >a
	records reverse in | rf-reward --kind random >b
	records reverse b | cmp a -
	run ! cmp <(records show a) <(rf-reward --kind random --seed 1 in | records show -)
	run ! cmp <(records show a) <(rf-reward --kind random --draw-step 6 in | records show -)
	cmp <(records show a) <(records make 30 1 6 | rf-reward --kind random --draw-step 5 | records show -)
	[ "$(records show a | tr ' ' '\n' | grep '^0\.' | sort -u | wc -l)" -eq 92 ]
}

@test "rf-reward: the order of the records does not change their rewards" {
	records make 30 3 0 >in
	rf-reward --kind hybrid in >a
	records reverse in | rf-reward --kind hybrid | records reverse - | cmp a -
	rf-reward --exec "$J right" in >a
	records reverse in | rf-reward --exec "$J right" | records reverse - | cmp a -
}

@test "rf-reward: rollouts without hidden states are an error that names rf-rollout --score" {
	records make 2 0 0 >in # no hidden states
	run -65 --separate-stderr rf-reward -o out in
	said='rollout has no h_pred (rf-rollout --score computes it)'
	[[ "$stderr" == "rf-reward: in: record 1 (byte "*"): $said" ]]
}

@test "rf-reward: with two positions --shift 3 equals --shift 1, and --shift 2 drops their rollouts" {
	records make 3 4 0 >in
	quiet bash -c 'rf-reward --shift 1 in >a'
	records same a <(rf-reward --shift 3 in)
	run ! records same a <(rf-reward in)
	says 0 "rf-reward: 2 of 3 sequences lost their rollouts: they have no other position for --shift 2" \
		bash -c 'rf-reward --shift 2 in >b'
	diff - <(records show b) <<<$'0:\n1:\n2:'
}

# echoes FILE K: prints a stream with positions with two rollouts for each: the text at the position, and the
# text one token later
echoes() {
	cat >echoes.py <<-'END'
		import json, sys
		array = lambda dtype, shape, data: {"dtype": dtype, "shape": shape, "data": data}
		k = int(sys.argv[1])
		for line in sys.stdin:
		    m = json.loads(line)
		    b = m["body"]
		    if m["type"] == "seq":
		        text, at = b["tokens"]["data"], b["positions"]["data"]
		        c = len(at)
		        echo = [text[s + r + j] for s in at for r in (0, 1) for j in range(k)]
		        b["rollout"] = {"temperature": 1.0,
		            "tokens": array("<i4", [c, 2, k], echo),
		            "logp": array("<f4", [c, 2, k], [-1] * len(echo)),
		            "h_pred": array("<f4", [c, 2, k, 1], [1] * len(echo)),
		            "h_gt": array("<f4", [c, k, 1], [1] * c * k)}
		    print(json.dumps(m))
	END
	rf-dump --json "$1" | python3 echoes.py "$2" | rf-cat --json
}

# The texts have 80 and 40 tokens in 8 chunks.  With a margin of 20, the first two positions of 80 tokens are
# 20 and the last two are 60; all positions of 40 tokens are 20.
@test "rf-reward: --shift never compares a rollout with its own text, even where positions repeat" {
	for T in 80 40; do
		tr -dc a-z <"$ROOT/README.md" | head -c $T >text.txt
		rf-tokenize --bytes --no-eos text.txt | rf-select --mode uniform --chunks 8 -o at.rf
		echoes at.rf 5 >echo$T.rf
		rf-dump --tsv --rows position --columns s --no-header echo$T.rf >at$T
	done
	[ "$(sort at40 | uniq -c | tr -s ' ')" = " 8 20" ]
	[ "$(sort at80 | uniq -c | grep -c ' 2 [26]0')" -eq 2 ]
	# the first rollout equals the text
	truth() { rf-dump --tsv --columns binary,edit --no-header --where rollout=0; }
	[ "$(rf-reward echo80.rf | truth | sort -u)" = $'1\t1' ]
	for n in 1 2 5; do
		rf-reward --shift $n echo80.rf | truth >shifted
		awk '$1 == 1 || $2 == 1 { bad = 1 } END { exit bad || NR != 8 }' shifted
	done
	says 0 "rf-reward: 1 of 1 sequences lost their rollouts: they have no other position for --shift 1" \
		rf-reward --shift 1 -o none echo40.rf
	[ "$(rf-dump --check none)" = "none: ok, 1 record, $(stat -c %s none) bytes" ]
	[ "$(rf-dump --json none |
		jq -c 'select(.type == "seq") | .body | has("positions") or has("rollout")')" = false ]
}

@test "rf-reward: records without rollouts pass unchanged, and a message appears if no record has any" {
	records same "$G/stream/tokens.rf" <(rf-reward "$G/stream/tokens.rf")
	records same "$G/stream/tokens.rf" \
		<(rf-reward --exec 'cat >&2; echo only answers count >&2' "$G/stream/tokens.rf" 2>err)
	grep -qx "only answers count" err
	# the message appears after the output of the command
	[ "$(tail -n 1 err)" = "rf-reward: none of 4 records has rollouts (rf-rollout writes them)" ]
	records make 3 4 1 >in
	quiet rf-reward -o out in
	quiet rf-reward -o out "$G/stream/empty.rf"
}

@test "rf-reward: mistakes on the command line exit 64" {
	for o in "--kind cos" "--kind=" "--kind cosine|binary" "--kind-name x" "--timeout -1" \
		"--queue-limit x" "--exec=" \
		"--exec true --kind-name a/b" "--shift -1" "--exec cat --shift 1" "--exec cat --kind hybrid" \
		"--exec cat --seed 1" "--timeout 3" "--no-hidden"; do
		run -64 rf-reward $o "$G/stream/empty.rf"
	done
}

@test "rf-reward --exec: the command's numbers become the total, whenever it answers" {
	records make 9 4 0 >in
	judged 9 >want
	for mode in right buffered late ahead slow-start extra string-id spaces no-newline; do
		quiet rf-reward --exec "$J $mode" -o out in
		diff want <(records show out)
	done
	rf-reward --exec "$J right" --kind-name mine in >out
	diff <(judged 9 mine) <(records show out)
}

@test "rf-reward --exec: the command sees the computed parts, and they stay in the stream" {
	records make 5 4 0 >in
	# the reward is the edit distance, read out of the record
	cat >parts.py <<-'END'
		import json, sys
		next(sys.stdin)
		for line in sys.stdin:
		    b = json.loads(line)["body"]
		    (c, n), x = b["reward"]["edit"]["shape"], b["reward"]["edit"]["data"]
		    print(json.dumps({"id": b["id"], "total": [x[i * n:(i + 1) * n] for i in range(c)]}))
	END
	rf-reward --exec 'python3 -S parts.py' --kind-name edit in >a
	rf-reward --kind edit in >b
	records same a b
}

@test "rf-reward --exec: parts that the command names are written in addition to the computed ones" {
	rewards() { rf-dump --json "$1" | jq -c 'select(.type == "seq").body.reward | select(.)'; }
	records make 5 4 0 >in
	judged 5 >want
	rf-reward --exec "$J parts" in >out
	rf-dump --check -q out
	diff want <(records show out)
	rewards <(rf-reward in) | jq -c 'del(.kind, .total)' >computed
	rewards out | jq -c 'del(.kind, .total, .parts.twice, .parts.Half_1) |
		del(.parts | select(. == {}))' \
		>rest
	diff computed rest
	rewards out | jq -se 'length == 4 and all(.parts.twice.data == [.total.data[] * 2])' >/dev/null
	rewards out | jq -se 'map(.parts.Half_1 | select(.)) | length == 3' >/dev/null
	rewards out | jq -se 'all(.parts.Half_1 == null or .parts.Half_1.data == [.total.data[] / 2])' >halves
	[ "$(cat halves)" = true ]
	# the parts keep the order of the answer, which may omit some or all
	rewards out | jq -c '.parts | keys_unsorted | map(select(. == ("twice", "Half_1")))' >names
	diff <(paste -sd' ' names) - <<<'["twice","Half_1"] ["twice"] ["twice","Half_1"] ["twice","Half_1"]'
	rf-reward -o some --exec "$J parts-empty" in
	[ "$(rewards some | jq -c '.parts.twice != null' | paste -sd' ')" = "true false true true" ]
	# a second reward has only its own parts, and the command does not see the parts of the first
	rf-reward -o again --exec "tee seen | $J parts" out
	diff <(rewards out) <(rewards again)
	run ! grep -q twice seen
	rewards <(rf-reward out) | diff - <(rewards <(rf-reward in))
}

# ends FILE: prints the stream with lengths of its rollouts, from 1 to k in turn
ends() { edited 'if .body.rollout then .body.rollout |= (.tokens.shape as [$c, $n, $k] | .length = {
	dtype: "<i4", shape: [$c, $n], data: [range($c * $n) | . % $k + 1]}) else . end' "$1"; }

# tokens LIST KEYS: makes tokens.py, which answers with rewards per token, LIST for rollout g of L tokens, and
# with these keys
tokens() {
	cat >tokens.py <<-END
		import json, sys
		next(sys.stdin)
		for line in sys.stdin:
		    b = json.loads(line)["body"]
		    c, n, k = b["rollout"]["tokens"]["shape"]
		    length = b["rollout"].get("length", {"data": [k] * c * n})["data"]
		    each = [[($1) for g in range(i * n, i * n + n) for L in length[g:g + 1]]
		            for i in range(c)]
		    answer = {"id": b["id"], "per_token": each}
		    answer.update($2)
		    print(json.dumps(answer))
	END
}

@test "rf-reward --exec: rewards per token are written, and their mean is the total if the answer has none" {
	rewards() { rf-dump --json "$1" | jq -c 'select(.type == "seq").body | select(.reward)'; }
	records make 5 4 0 >plain
	ends plain >in
	for file in plain in; do
		# any numbers after the end of a rollout are ignored
		for list in '[g + t / 2 for t in range(L)]' \
			'[g + t / 2 if t < L else ["x", float(9)][t % 2] for t in range(k)]'; do
			[ -n "${RF_ALL:-}" ] || [[ $file-$list = @(plain*'(L)]'|in*'(k)]') ]] || continue
			tokens "$list" '{}'
			rf-reward --exec 'python3 -S tokens.py' -o out $file
			rf-dump --check -q out
			rewards out | jq -se 'length == 4 and all(.rollout.tokens.shape as [$c, $n, $k] |
				(.rollout.length.data // [range($c * $n) | $k]) as $L | .reward |
				.per_token.shape == [$c, $n, $k] and .kind == "tokens" and
				.per_token.data == [range($c * $n) as $g | range($k) |
					if . < $L[$g] then $g + . / 2 else 0 end] and
				.total.data == [range($c * $n) | . + ($L[.] - 1) / 4])' >/dev/null ||
				{ rewards out; return 1; }
		done
	done
	# a total that the command gives is kept, and parts are given per rollout
	tokens '[0.5] * L' '{"total": [[7] * n] * c, "parts": {"p": [[1] * n] * c}}'
	rf-reward --exec 'python3 -S tokens.py' -o out in
	rewards out | jq -se 'all(.reward | (.total.data | unique) == [7] and .parts.p and
		(.per_token.data | unique) == [0, 0.5])' >/dev/null
	# an answer without rewards per token removes those that the stream had
	rf-reward --exec "$J right" out | rf-dump --json |
		jq -se 'all(.body.reward.per_token == null)' >/dev/null
}

@test "rf-reward --exec: malformed rewards per token are an error that names the number" {
	records make 2 4 0 | ends - >in
	said="rf-reward: --exec 'python3 -S tokens.py': the answer to record id 0"
	while IFS='|' read -r list words what; do
		tokens "$list" "$words"
		run -65 --separate-stderr rf-reward --exec 'python3 -S tokens.py' -o out in
		[[ "$stderr" == "$said: $what" ]] || { echo "$list: $stderr"; return 1; }
		[ ! -e out ]
	done <<-'END'
		[0] * (L + (g == 0))|{}|per_token[0][0] is not a list of 1 numbers, one for each token
		[0] * (k + (g == 3))|{}|per_token[1][1] is not a list of 1 numbers, one for each token
		[0] * L if g else 5|{}|per_token[0][0] is not a list of 1 numbers, one for each token
		["x"[:g == 2 and t] or 0 for t in range(L)]|{}|per_token[1][0][1] is not a finite number
		[1e39] * L|{}|per_token[0][0][0] is not a finite number
		0|{"per_token": each[:1]}|per_token has 1 lists, but the record has 2 positions
		0|{"per_token": [each[0], [0]]}|per_token[0][0] is not a list of 1 numbers, one for each token
		[0] * L|{"per_token": [each[0], [0]]}|per_token[1] is not a list of 2 lists, one per rollout
		[0] * L|{"per_token": 3}|per_token is not a list
		[0] * L|{"total": 3}|the list 'total' is missing
		[0] * L|{"total": [[1, 2]]}|total has 1 lists, but the record has 2 positions
	END
}

@test "rf-reward --exec: an invalid or repeated name of a part is an error" {
	records make 4 4 0 >in
	while IFS='|' read -r mode shown; do
		run -65 --separate-stderr rf-reward --exec ": $mode; $J $mode" -o out in
		[[ "$stderr" == *": the answer to record id 1: parts: '$shown' is not a name of up to 32 "* ]]
	done <<-'END'
		parts-no-name|a-b
		parts-long|ppppppppppppppppppppppppppppppppp
		parts-empty-name|
		parts-escape|\x1b[1m
	END
	run -65 --separate-stderr rf-reward --exec "$J parts-doubled" -o out in
	[[ "$stderr" == *": the answer to record id 0: '"*"' has a key twice: duplicate object key"* ]]
	[ ! -e out ]
}

@test "rf-reward --exec: the head has --kind-name, and never the command" {
	records make 1 1 0 | rf-reward --exec "$J right; : secret" --kind-name mine | zstd -dcq |
		tr -c '[:print:]' '\n' >out
	grep -q kind-name out
	run ! grep -q 'secret\|timeout\|hold' out
}

@test "rf-reward --exec: the kind of the rewards is the name of the command's script, or exec" {
	records make 1 1 0 >in
	answer="cat >all; echo '{\"id\": 0, \"total\": [[1, 2], [3, 4]]}'"
	while IFS='%' read -r command want; do
		found=$(rf-reward --exec "$command" in | rf-dump --json |
			sed -n '1s/.*"kind-name":"\([^"]*\)"[^"]*$/\1/p')
		[ "$found" = "$want" ] || { echo "$command: $found"; return 1; }
	done <<-END
		$J right%judge
		: a.txt; $J right%judge
		: rewards/mine.py x.sh; $answer%mine
		: --config=x.json './My-2.1.sh'; $answer%My-2.1
		: cosine.py; $answer%exec
		: 'a b.py'; $answer%b
		: a+b.py; $answer%exec
		: .py x.py/y; $J right%judge
	END
}

@test "rf-reward --exec: the history has --kind-name and no --kind" {
	records make 2 2 0 >in
	[ "$(rf-reward --exec "$J right" in | rf-dump --json | head -n 1 |
		jq -c '.body.history[-1].options')" = '{"kind-name":"judge"}' ]
	[ "$(rf-reward --kind edit in | rf-dump --json | head -n 1 |
		jq -c '.body.history[-1].options.kind')" = '"edit"' ]
}

@test "rf-reward --exec --no-hidden: the command gets no hidden states, but the stream keeps them" {
	records make 3 2 0 >in
	rf-reward --exec "$J right" in >a
	rf-reward --no-hidden --exec "tee seen | $J right" in >b
	cmp a b
	sed 1d seen | jq -se 'length == 2 and
		all(.body.rollout | has("tokens") and (has("h_pred") or has("h_gt") | not))' >/dev/null
}

@test "rf-reward --exec: the command's first line is the head, with k, n and the tokenizer's path" {
	edited 'if .type == "head" then .body += {seed: 7, model: {arch: "0123456789abcdef",
		weights: "0123456789abcdee", step: 3}, history: [{tool: "rf-rollout", version: "9",
		options: {length: 5, rollouts: 2}}]} else . end' <(records make 3 2 0) >in
	rf-reward --exec "tee seen | $J right" --kind-name mine -m 'a "b"' -o out in
	rf-dump --json out | sed -n 1p >head.json
	head -n 1 seen | jq -e --slurpfile out head.json '.body == $out[0].body and
		del(.body) == {type: "head", k: 5, n: 2, tokenizer: "a \"b\""}' >/dev/null
	records make 3 2 0 >in
	rf-reward --exec "tee seen | $J right" -o out in
	[ "$(head -n 1 seen | jq -c 'del(.body)')" = '{"type":"head","k":null,"n":null,"tokenizer":null}' ]
	# a stream without rollouts has a head for the command, too, but the command need not read it
	rf-reward --exec 'cat >seen' -o out "$G/stream/tokens.rf"
	[ "$(jq -c .type seen)" = '"head"' ]
	rf-reward --exec true -o out "$G/stream/tokens.rf"
}

@test "rf-reward --exec --text: prefix and truth are the text, with any tokenizer and at any position" {
	for kind in bytes gpt2 llama2 ${RF_ALL:+llama3} model; do
		tokenized_by $kind
		edited 'if .type == "seq" then .body.positions = (.body.tokens.shape[0] - 5 |
			{dtype: "<i4", shape: [.], data: [range(1; . + 1)]}) else . end' doc.rf >all.rf
		echoes all.rf 3 >echo.rf
		rf-reward --exec "tee seen | $J right" --text -m $kind -o out echo.rf
		sed 1d seen | jq -e --arg text "$text" --arg kind $kind '
			.text as $at | ($at | length) == .body.positions.shape[0] and
			($at | all((.prefix + (.truth | gsub("\ufffd+$"; ""))) as $known |
				$text | startswith($known))) and
			($at | all(.truth == .rollouts[0] and (.rollouts | length) == 2)) and
			($at[-1].prefix | length > 40)' >/dev/null ||
			{ echo $kind; sed 1d seen | jq -c .text; return 1; }
		# --text changes no value of the stream
		rf-reward --exec "$J right" -o plain echo.rf
		cmp plain out
	done
	rf-reward --exec "tee seen | $J right" --text --no-hidden --tokenizer model/tokenizer.model \
		-o out echo.rf
	sed 1d seen | jq -e '(.text | length > 9) and (.body.rollout | has("h_pred") | not)' >/dev/null
}

@test "rf-reward --exec --text: special tokens have no text, and bytes that are not UTF-8 become U+FFFD" {
	jq -nc '{text: "abcdefghijklmnopqrst"}' | rf-tokenize --bytes --no-eos 2>/dev/null >doc.rf
	rf-select --mode uniform --chunks 1 -k 5 --margin 5 doc.rf -o at.rf
	echoes at.rf 5 | edited 'if .type == "head" then .body.vocab = 500
		elif .type == "seq" then .body.rollout.tokens.data =
			[1, 100, 0, 499, 198, 100, 198, 3, 198, 172] else . end' >in
	rf-reward --exec "tee seen | $J right" --text -o out in
	[ "$(sed 1d seen | jq -c '.text[0].rollouts')" = '["a�","a��é"]' ]
}

@test "rf-reward --exec --text: the text of a rollout ends where the rollout ends" {
	jq -nc '{text: "abcdefghijklmnopqrst"}' | rf-tokenize --bytes --no-eos 2>/dev/null >doc.rf
	rf-select --mode uniform --chunks 2 -k 5 --margin 6 doc.rf -o at.rf
	echoes at.rf 5 >all
	texts() {
		rf-reward --exec "tee seen | $J right" --text -o out "$1"
		sed 1d seen | jq -c '.text[].rollouts'
	}
	texts all | jq -c '[.[0][:1], .[1][:2]], [.[0][:3], .[1][:4]]' >want
	ends all >in
	texts in >have
	[ "$(sed -n 1p have)" = "$(sed -n 1p want)" ]
	[ "$(sed -n 2p have)" = "$(sed -n 4p want)" ]
}

@test "rf-reward --exec --text: a tokenizer that is unknown or differs from the stream's one is an error" {
	records make 3 2 0 >in
	run -64 --separate-stderr rf-reward --exec cat --text -o out in
	[[ "$stderr" == "rf-reward: --text: the stream names no tokenizer: name one with -m or "* ]]
	[ ! -e out ]
	rf-reward --exec "tee seen | $J right" --text --tokenizer bytes -o out in
	sed 1d seen | jq -se 'length == 2 and all(.text | length == 2)' >/dev/null
	mkdir m
	echo '{"text": "x"}' >doc.jsonl
	zstd -dcq "$G/tokenizer/gpt2.json.zst" >m/tokenizer.json
	hash=$(rf-tokenize --tokenizer m doc.jsonl 2>/dev/null | rf-dump --json | sed -n 1p |
		jq -r .body.tokenizer.hash)
	for kind in '"bpe", hash: "0123456789abcdef"' '"\u001b[1m", hash: "'"$hash"'"'; do
		edited 'if .type == "head" then .body.tokenizer = {kind: '"$kind"'} else . end' in >named
		run -64 --separate-stderr rf-reward --exec cat --text -o out named
		[[ "$stderr" == "rf-reward: --text: the stream's tokenizer is '"*"': name it with -m or "* ]]
	done
	rf-reward --exec "$J right" --text -m m -o out named
	edited 'if .type == "head" then .body.tokenizer = {kind: "bpe", hash: "0123456789abcdef"}
		else . end' in >named
	run -65 --separate-stderr rf-reward --exec cat --text -m m -o out named
	[[ "$stderr" == *"with the tokenizer 'bpe' 0123456789abcdef, not with 'bpe' $hash" ]]
	run -66 rf-reward --exec cat --text -m nothing -o out in
	run -64 rf-reward --text in
	run -64 rf-reward --exec cat --text -m m --tokenizer bytes in
}

@test "rf-reward --exec: a tokenizer given as an option is opened and compared, also for a stream of bytes" {
	mkdir tk none
	zstd -dcq "$G/tokenizer/gpt2.json.zst" >tk/tokenizer.json
	hash=$(rf-tokenize --bytes - <<<'{"text": "a"}' 2>/dev/null | rf-dump --head --json | head -n 1 |
		jq -r .body.tokenizer.hash)
	for hash in ", hash: \"$hash\"" ''; do
		edited 'if .type == "head" then .body += {vocab: 384, tokenizer: {kind: "bytes"'"$hash"'}}
			else . end' "$G/stream/rewarded.rf" >in
		for text in --text ''; do
			# otherwise with both or with neither
			[ -n "${RF_ALL:-}" ] || [ "${hash:+x}" = "${text:+x}" ] || continue
			run -65 --separate-stderr rf-reward --exec cat $text --tokenizer tk -o out in
			[[ "$stderr" == *"was made with the tokenizer 'bytes'"*", not with 'bpe' "* ]]
			run -66 --separate-stderr rf-reward --exec cat $text --tokenizer nope -o out in
			[[ "$stderr" == "rf-reward: --t"*": nope: No such file or directory" ]]
			run -78 rf-reward --exec cat $text --tokenizer none -o out in
			[ ! -e out ]
			rf-reward --exec "$J right" $text --tokenizer bytes -o out in
			rf-reward --exec "$J right" $text -m none -o out in
			rm out
		done
		run -65 rf-reward --exec cat --text -m tk -o out in
		run -66 rf-reward --exec cat --text -m nope -o out in
		# rf-dump has the same rule
		says 65 "rf-dump: in: the stream was made with the tokenizer 'bytes'..." rf-dump -m tk in
		run -65 rf-dump --tokenizer tk in
		run -78 rf-dump --tokenizer none in
		run -66 rf-dump -m nope in
		rf-dump in >plain
		rf-dump -m none in | cmp - plain
	done
	run -78 rf-dump -m none "$G/stream/rewarded.rf"
	run -78 rf-reward --exec cat --text -m none -o out "$G/stream/rewarded.rf"
}

@test "rf-reward --exec: a malformed answer is an error that names the command and the record" {
	records make 4 4 0 >in
	wrong() {
		run -65 --separate-stderr rf-reward --exec ": $1; $J $1" -o out in
		echo "$1: $stderr"
		[ "$(wc -l <<<"$stderr")" -eq 1 ]
		[[ "$stderr" == "rf-reward: --exec ': $1; python3 "*"': $2" ]]
		[ ! -e out ]
	}
	while IFS='|' read -r mode what; do
		wrong "$mode" "$what"
	done <<-'END'
		id|the answer to record id 1: it has the id 2
		no-id|the answer to record id 1: the key 'id' is missing
		few|the answer to record id 1: total[1] is not a list of 2 numbers, one per rollout
		rows|the answer to record id 1: total has 1 lists, but the record has 2 positions
		flat|the answer to record id 1: total has 4 lists, but the record has 2 positions
		big|the answer to record id 1: total[0][1] is not a finite number
		text|the answer to record id 1: total[0][1] is not a finite number
		list|the answer to record id 1: '[1, 2]' is not a JSON object
		blank|the answer to record id 1: '' is not a JSON object: '[' or '{' expected near end of file
		nul|the answer to record id 1: '{"id": 1\x00}' is not a JSON object: it has a NUL
		twice|the answer to record id 3: it has the id 1
		skip|the answer to record id 1: it has the id 3
		endless|the command printed a line of more than 16 MiB
		parts-list|the answer to record id 1: 'parts' is not an object of lists
		parts-null|the answer to record id 1: 'parts' is not an object of lists
		parts-computed|the answer to record id 1: parts: 'edit' is a built-in part: use another name
		parts-many|the answer to record id 1: parts: reward has more than 32 parts
		parts-number|the answer to record id 1: parts.bad is not a list
		parts-map|the answer to record id 1: parts.bad is not a list
		parts-rows|the answer to record id 1: parts.bad has 1 lists, but the record has 2 positions
		parts-flat|the answer to record id 1: parts.bad has 4 lists, but the record has 2 positions
		parts-few|the answer to record id 1: parts.bad[1] is not a list of 2 numbers, one per rollout
		parts-strings|the answer to record id 1: parts.bad[0][1] is not a finite number
		parts-nulls|the answer to record id 1: parts.bad[0][0] is not a finite number
		parts-deep|the answer to record id 1: parts.bad[0][0] is not a finite number
		parts-true|the answer to record id 1: parts.bad[0][1] is not a finite number
		parts-big|the answer to record id 1: parts.bad[0][1] is not a finite number
	END
	what="'{\"id\": 1, \"total\": [[1.0, NaN], [2.0, 2.25]]}' has a number that is not finite"
	wrong nan "the answer to record id 1: $what, which JSON does not allow"
	what="'reward: \x1b[31m0.5' is not a JSON object: '[' or '{' expected near 'reward'"
	wrong garbage "the answer to record id 1: $what"
}

@test "rf-reward --exec: a command that exits early, fails or prints too much is an error" {
	records make 4 4 0 >in
	first=" (the command's first line is the stream's head, which needs no answer)"
	while IFS='|' read -r command what; do
		run -65 --separate-stderr rf-reward --exec "$command" -o out in
		echo "$command: $stderr"
		[[ "$stderr" == "rf-reward: --exec '"*"': $what" ]]
		[ ! -e out ]
	done <<-END
		true|the command exited with status 0 before it answered record id 0$first
		exit 7|the command exited with status 7 before it answered record id 0$first
		kill -9 \$\$|the command was killed by signal 9 before it answered record id 0$first
		cat >/dev/null|the command exited with status 0 before it answered record id 0$first
		$J head|the answer to record id 0: it has the id null$first
		$J die|the command exited with status 3 before it answered record id 1
		$J last|the command exited with status 1 after its last answer
		$J one-more|the command printed more lines than it got records: '{"id": 99, "total": []}'
		exec $J close|the command closed its output but did not exit before it answered record id 1
	END
	run -65 --separate-stderr rf-reward -o out --exec ./nothing-here in
	[[ "${stderr_lines[-1]}" == \
		"rf-reward: --exec './nothing-here': the command exited with status 127 before it"* ]]
}

@test "rf-reward --exec: an error of the first answer names the head only if the head may have caused it" {
	records make 4 4 0 >in
	first=" (the command's first line is the stream's head, which needs no answer)"
	# answer LINE: runs a command that answers the first record with this line
	answer() {
		run -65 --separate-stderr rf-reward -o out in --exec "read -r head; cat >/dev/null; echo '$1'"
	}
	for line in oops 17 '[0.5]' '{}' '{"total":[[1,1],[1,1]]}' '{"id":null,"total":[[1,1],[1,1]]}'; do
		answer "$line"
		[[ $stderr == *"the answer to record id 0: "*"$first" ]] || { echo "$line: $stderr"; false; }
	done
	for line in '{"id":0,"total":[[NaN,1],[1,1]]}' '{"id":0,"total":[[1,1]]}' '{"id":0}' '{"id":3}' \
		'{"id":0,"total":[[1,1],[1,1]],"parts":{"edit":[[1,1],[1,1]]}}' \
		'{"id":0,"total":[[1,1],[1,1]],"parts":{"a":[[1,1],[1,1]],"a":[[1,1],[1,1]]}}'; do
		answer "$line"
		[[ $stderr == *"the answer to record id 0: "* && $stderr != *"$first"* ]] ||
			{ echo "$line: $stderr"; false; }
	done
}

@test "rf-reward --exec: a command that hangs is ended after --timeout, together with its children" {
	records make 4 4 0 >in
	SECONDS=0
	run -65 --separate-stderr rf-reward -o out --timeout .3 --exec 'echo $$ >pid; sleep 61 & sleep 62' in
	said=': the command neither read nor wrote a byte for 0.3 s (--timeout)'
	[[ "$stderr" == "rf-reward: --exec 'echo \$\$ >pid; sleep 61 & sleep 62'$said" ]]
	gone
	run -65 --separate-stderr rf-reward -o out --timeout .5 --exec "$J hang" in
	[[ "$stderr" == *": the command neither read nor wrote a byte for 0.5 s (--timeout)" ]]
	# the command closed its input and does nothing
	says 65 "...: the command closed its input and prints nothing more" rf-reward -o out \
		--exec 'echo $$ >pid; exec <&-; sleep 63; :' <(records make 4 3000 0)
	gone
	[ $SECONDS -lt 50 ]
}

@test "rf-reward --exec: processes that outlive the command are ended" {
	records make 4 4 0 >in
	rf-reward --exec 'echo $$ >pid; sleep 61 >&2 & exec '"$J right" -o out in 2>err
	[ "$(records show out | grep -c ' judge ')" -eq 3 ]
	run ! running "$(cat pid)"
}

@test "rf-reward --exec: a signal that ends rf-reward also ends the command" {
	records make 4 4 0 >in
	for signal in TERM INT HUP; do
		# a shell starts background processes with SIGINT ignored: rf-reward sets its own handlers
		rf-reward --exec 'echo $$ >pid; sleep 71; :' -o out in 2>/dev/null 3>&- &
		for ((i = 0; i < 1000; i++)); do [ -s pid ] && break; sleep .01; done
		kill -$signal $!
		run wait $!
		gone
		[ ! -e out ]
		rm pid
	done
}

@test "rf-reward --exec: rf-reward ends by SIGPIPE and ends the command if the reader of its output leaves" {
	records make 400 300 0 >in
	run bash -c "rf-reward --exec 'echo \$\$ >pid; $J right' in | head -c 1 >/dev/null
		echo \${PIPESTATUS[0]}"
	[ "$output" = 141 ]
	gone
}

@test "rf-reward --exec: lines of a megabyte reach the command and come back, however it buffers" {
	records make 5 8000 0 >in     # 96000 numbers per record
	judged 5 >want
	for mode in ${RF_ALL:+right} late ahead; do
		rf-reward --exec "$J $mode" in >out
		diff want <(records show out)
	done
	# the command answers each record with a megabyte before it has read the record
	cat >wide.py <<-'END'
		import json, sys
		sys.stdin.readline()
		while True:
		    head = sys.stdin.read(200)
		    if not head:
		        break
		    i = int(head.split('"id":')[1].split(",")[0])
		    answer = {"pad": "x" * (1 << 20), "id": i, "total": [[1, 2], [3, 4]]}
		    print(json.dumps(answer), flush=True)
		    sys.stdin.readline()
	END
	rf-reward --exec 'python3 wide.py' in >out
	[ "$(records show out | grep -c ' wide 1 2 3 4$')" -eq 4 ]
}

@test "rf-reward --exec: a record is passed on before the next one arrives" {
	records make 1 4 0 >in
	mkfifo pipe
	# the stream has no end record yet, and the pipe stays open for a while
	end=$(grep -abo -P '\x28\xb5\x2f\xfd' in | tail -n 1 | cut -d: -f1)
	{ head -c "$end" in; exec sleep 20; } >pipe 3>&- &
	rf-reward --exec "$J slow-start" pipe 2>/dev/null 3>&- >out &
	for ((i = 0; i < 1000; i++)); do [ "$(stat -c %s out)" -gt 400 ] && break; sleep .01; done
	size=$(stat -c %s out)
	kill %1 %2
	wait
	[ "$size" -gt 400 ]
}

@test "rf-reward --exec: more than --queue-limit bytes of records without a first answer are an error" {
	records make 12 2000 0 >in
	run -65 --separate-stderr rf-reward -o out --queue-limit 1M --exec "$J late" in
	said=': the command has not answered yet, and more than 1048576 bytes of records wait for it'
	[[ "$stderr" == *"$said: make it answer and flush earlier, or raise --queue-limit" ]]
	rf-reward --queue-limit 1M --exec "$J ahead" in | cmp - <(rf-reward --exec "$J right" in)
}

# The test adds a part to a copy of the sources: the share of a rollout's distinct tokens that are in the
# text.
@test "rf-reward: a new reward part takes one function and one row in one source file" {
	[ -n "${RF_ALL:-}" ] || [ -e "$ROOT/build/librf.a" ] || skip "minutes: make check-all"
	load ../model
	export RF_DEVICE=cpu # the copy is built without the others
	mkdir -p copy/build/t
	cp -a "$ROOT"/{Makefile,lib,kernels,tools,t} copy
	# saves most of the compilation; a link would make the copy write to its target
	[ ! -e "$ROOT/build/librf.a" ] ||
		cp -a "$ROOT"/build/{commit,flags,librf.a,lib,kernels,tools} copy/build
	[ ! -e "$ROOT/build/t/check" ] || cp -a "$ROOT/build/t/check" copy/build/t
	cat >function <<-'END'
		static double planted(const struct pair *p)
		{
			int different = 0, common = 0;

			for (int j = 0; j < p->k; j++) {
				int i = 0, there = 0;

				while (p->rollout[i] != p->rollout[j])
					i++;
				for (int x = 0; x < p->k; x++)
					there |= p->text[x] == p->rollout[j];
				different += i == j;
				common += i == j && there;
			}
			return (double)common / different;
		}

	END
	echo '	{ "planted", NULL, planted, NULL },' >row
	sed -i -e '/^.\* The parts, in the order/{e cat function
		}' -e '/^	{ "edit", /r row' copy/lib/refine/reward.c
	run diff -rq "$ROOT/lib" copy/lib
	[ "${#lines[@]}" -eq 1 ]
	[ "$(diff "$ROOT/lib/refine/reward.c" copy/lib/refine/reward.c | grep -c '^[<>]')" -eq 18 ]
	make -s -C copy CUDA=no SANITIZE= FUZZER= CROSS= bin/rf-reward bin/rf-dump bin/rf-grpo

	# rollouts of few different tokens, so that tokens repeat
	texts 40 1:60 2:70 | rf-entropy -m "$M" | rf-select --chunks 2 -k 6 --margin 6 >selected
	rf-rollout -m "$M" -k 6 -n 3 --top-k 3 selected | rf-reward -o in
	new() { "copy/bin/$1" "${@:2}"; }
	new rf-reward --kind planted -o out in
	# jq computes the same part
	json in | jq -c '.tokens.data as $text | .positions.data as $at | .rollout.tokens |
		.shape as [$c, $n, $k] | .data as $t | [range($c * $n) as $g |
			($t[$g * $k:][:$k] | unique) as $a | $text[$at[$g / $n | floor]:][:$k] as $b |
			([$a[] | select(IN($b[]))] | length) / ($a | length)]' >want
	json out | jq -c .reward.parts.planted >part
	jq -n --slurpfile a want --slurpfile b part -e '[$a, [$b[].data]] | map(flatten) | transpose |
		map(.[0] - .[1] | fabs < 1e-6) | length == 12 and all' >/dev/null
	jq -se 'flatten | unique | length > 1' want >/dev/null
	# the part is the total, next to the other parts
	json out | jq -se 'map(.reward) | all(.kind == "planted" and .total == .parts.planted and
		(keys_unsorted | join(" ")) == "kind total cosine binary edit parts")' >/dev/null
	[[ "$(rf-dump --head out)" == *"rf-reward --kind planted --shift"* ]]
	[[ "$(new rf-reward --help)" == *"--kind cosine|binary|edit|planted|"*"hybrid|random"* ]]
	run -65 new rf-reward --exec "$J parts-planted" in
	# programs built with the part and without it show and log it
	for rf in new command; do
		$rf rf-dump --tsv --rows rollout out | head -n 1 | grep -q $'\tedit\tplanted\t'
		[ "$($rf rf-dump --tsv --columns reward,planted out | awk '$1 == $2' | wc -l)" -eq 12 ]
		$rf rf-dump -n 1 out | grep -qE '^    rollout 0 .* edit [0-9.]+  planted [0-9.]+  '
		[ "$($rf rf-dump --json --where 'planted>=0' out | wc -l)" -eq 4 ]
		rm -rf run
		runs run
		$rf rf-grpo -m run --log $rf.log out
		jq -e '.["reward/mean"] as $mean | .["reward/planted_mean"] == $mean and
			.["reward/edit_reward_mean"] != $mean' $rf.log >/dev/null
	done
}

@test "rf-reward: the examples of the man page run, and one of them is pipelines/examples/my_reward.py" {
	edited 'if .type == "head" then .body += {vocab: 384, tokenizer: {kind: "bytes",
		hash: "'"$(rf-tokenize --bytes - <<<'{"text": "a"}' 2>/dev/null | rf-dump --json | sed -n 1p |
		jq -r .body.tokenizer.hash)"'"}} else . end' "$G/stream/rewarded.rf" >rollouts.rf
	mkdir pipelines
	cp -r "$ROOT/pipelines/examples" pipelines
	mkdir ckpt # a model without a tokenizer fits a stream that was tokenized as bytes
	listing rf-reward.1 1 | diff pipelines/examples/my_reward.py -
	[ "$(wc -l <pipelines/examples/my_reward.py)" -le 15 ]
	listing rf-reward.1 2 >distinct.py
	[ -s distinct.py ]
	eval "$(sed ':a; /\\$/ { N; s/\\\n//; ba }' "$ROOT/man/rf-reward.1" |
		sed -n 's/^\.Dl \$ \(rf-reward .*\)/\1/p')"
	[ "$(records show judged.rf | grep -c ' distinct ')" -eq 3 ]
	[ "$(records show similar.rf | grep -c ' my_reward ')" -eq 3 ]
	# awk computes the same rewards
	edited 'del(.body.tokenizer)' judged.rf >numbers.rf
	rf-dump --tsv --columns generated,reward,binary,distinct --rows rollout numbers.rf | awk -F '\t' '
		NR > 1 {
			k = split($1, word, " ")
			split("", seen)
			for (i in word) seen[word[i]]
			n = length(seen) / k - $4
			total = $3 + $4 - $2
			if (n * n + total * total > 1e-10) bad = 1
		}
		END { exit bad || NR != 37 }'
}
