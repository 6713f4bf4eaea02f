#!/usr/bin/env bats
# rf-cat: joins, cuts, shuffles and repeats streams, and makes streams from JSON.

setup() {
	load ../helper
	load ../promises
	S=$G/stream
	P=prompts.rf
}

# ids FILE: prints ID:T of each record, T its number of tokens
ids() {
	rf-dump --json "${1:--}" | jq -r 'select(.type == "seq") | .body | "\(.id):\(.tokens.shape[0])"' |
		paste -sd' '
}

# prompts: makes a stream of three records with prompts and entropies; the last record is all prompt
prompts() {
	{
		printf '%s' '{"seq":0,"type":"head","body":{"format":1,"vocab":40,' \
			'"model":{"arch":"00000000000000aa","weights":"00000000000000bb","step":4},' \
			'"history":[]}}'
		for i in 0 1 2; do
			printf '\n{"seq":%d,"type":"seq","body":{"id":%d,' $((i + 1)) $((i + 7))
			printf '"tokens":{"dtype":"<i4","shape":[4],"data":[1,2,3,%d]},' $i
			printf '"prompt_len":%d,"source":"s%d",' $((i + 2)) $i
			printf '"entropy":{"dtype":"<f4","shape":[4],"data":[1,1,1,1]},"label":%d}}' $i
		done
		echo
		echo '{"seq":4,"type":"end","body":{"count":3,"xxh64":0}}'
	} | rf-cat --json -o $P
}

@test "rf-cat: keeps the promises of a filter" {
	PROMISE_CUTS=${RF_ALL:+5050} promises filter "$S/tokens.rf" rf-cat
}

@test "rf-cat: keeps the promises of a filter with --renumber, and with --shuffle, which gathers its input" {
	promises filter "$S/rewarded.rf" rf-cat --renumber
	PROMISE_GATHERS=1 promises filter "$S/tokens.rf" rf-cat --shuffle --repeat 2
}

@test "rf-cat: a copy has the same records and no entry in the history; a copy of a copy is the same bytes" {
	rf-cat "$S/rewarded.rf" >a.rf
	rf-cat a.rf | rf-cat - | cmp - a.rf
	[ "$(rf-dump --json a.rf | jq -c 'select(.type == "head").body.history')" = '[]' ]
	# a copy of a stream that another program wrote may differ in the order of the keys of the head
	diff <(rf-dump --json a.rf | sed '1d;$d') <(rf-dump --json "$S/rewarded.rf" | sed '1d;$d')
}

@test "rf-cat: joins streams in the order given, keeps the first head and refuses an id that occurs twice" {
	rf-cat --range 0:2 "$S/tokens.rf" >a.rf
	rf-cat --range 2: "$S/tokens.rf" >b.rf
	[ "$(rf-cat a.rf b.rf | ids)" = "0:61 1:47 2:9 3:80" ]
	[ "$(rf-cat b.rf "$S/empty.rf" a.rf | ids)" = "2:9 3:80 0:61 1:47" ]
	[ "$(rf-cat b.rf - <a.rf | ids)" = "2:9 3:80 0:61 1:47" ]
	[ "$(rf-cat a.rf b.rf | rf-dump --json |
		jq -r 'select(.type == "head").body.history[].options.range')" = $'0:2\nnull' ]
	run -65 rf-cat -o c.rf a.rf b.rf a.rf
	[ "$output" = "rf-cat: a.rf: record 1 (byte $(start a.rf \
		1)): id 0 occurs twice (--renumber assigns new ids)" ]
	[ ! -e c.rf ]
	[ "$(rf-cat --renumber a.rf b.rf a.rf | ids)" = "0:61 1:47 2:9 3:80 4:61 5:47" ]
}

# start FILE N: prints the byte at which frame N begins
start() {
	"$RF_UNITS/helper/lab" frames "$1" | awk -v n="$2" 'NR == n + 1 { print $1 }'
}

@test "rf-cat: refuses to join streams whose heads name different vocabularies, tokenizers or models" {
	rf-dump --json "$S/empty.rf" >head.json
	head() { # head FILE JSON: an empty stream whose head has this more
		jq -c 'if .type == "head" then .body += '"$2"' else . end' head.json | rf-cat --json -o "$1"
	}
	head a.rf '{tokenizer: {kind: "bytes", hash: "00000000000000aa"},
		model: {arch: "00000000000000aa", weights: "11111111111111bb", step: 3}}'
	head vocab.rf '{vocab: 41}'
	head kind.rf '{tokenizer: {kind: "unigram"}}'
	head hash.rf '{tokenizer: {hash: "00000000000000ab"}}'
	head arch.rf '{model: {arch: "00000000000000ab"}}'
	head weights.rf '{model: {weights: "22222222222222bb"}}'
	head step.rf '{model: {step: 4}}'
	for what in vocab kind hash arch weights step; do
		run -65 rf-cat a.rf $what.rf
		[[ "${lines[*]}" == *"$what.rf: "*"that of 'a.rf' is "*": the streams cannot be joined" ]]
	done
	run -65 rf-cat -o c.rf a.rf weights.rf
	at='rf-cat: weights.rf:'
	differ() { [ "$output" = "$at its model weights is $1, that of 'a.rf' is $2: $said" ]; }
	said='the streams cannot be joined'
	differ 22222222222222bb 11111111111111bb || differ 222222222222 111111111111
	rf-cat a.rf "$S/empty.rf" | rf-dump --check -q
	# the token 40 breaks a rule of the first head only
	printf '%s\n' '{"seq":0,"type":"head","body":{"format":1}}' \
		'{"seq":1,"type":"seq","body":{"id":0,"tokens":{"dtype":"<i4","shape":[1],"data":[40]}}}' \
		'{"seq":2,"type":"end","body":{"count":1,"xxh64":0}}' | rf-cat --json -o any.rf
	run -65 rf-cat -o c.rf a.rf any.rf
	[[ "$output" == *"any.rf: record 1 (byte "*"tokens: number 0 is 40, outside 0 to 39" ]]
}

@test "rf-cat --range: passes records i to j-1 of the joined inputs, the same from a file and from a pipe" {
	rf-cat --renumber "$S/tokens.rf" "$S/tokens.rf" >all.rf
	for range in 0:8 0:0 3:5 7: :1 5:100 8: 100:200 :; do
		rf-cat --range $range all.rf >file.rf
		rf-cat --range $range <all.rf >stdin.rf
		cat all.rf | rf-cat --range $range >pipe.rf
		cmp file.rf pipe.rf
		cmp file.rf stdin.rf
	done
	[ "$(rf-cat --range 3:5 all.rf | ids)" = "3:80 4:61" ]
	[ "$(rf-cat --range 3:6 --renumber "$S/tokens.rf" "$S/empty.rf" "$S/tokens.rf" | ids)" = \
		"0:80 1:61 2:47" ]
	[ "$(rf-cat --range 100: all.rf | ids)" = "" ]
	for range in 2:1 x 1 -1:2 1:x 1:2:3 '' ' 1:2' 99999999999999999999:; do
		run -64 rf-cat --range "$range" all.rf
	done
}

@test "rf-cat --range: missing and truncated records are errors even outside the range" {
	rf-cat --renumber "$S/tokens.rf" "$S/tokens.rf" >all.rf
	"$RF_UNITS/helper/lab" pick all.rf 0 1 2 3 4 5 6 8 9 >dropped.rf
	mentions 65 "found record 9 where record 8 was expected" rf-cat --range 0:2 -o c.rf dropped.rf
	head -c -1 all.rf >cut.rf
	mentions 65 "the frame is truncated" rf-cat --range 0:2 -o c.rf cut.rf
	"$RF_UNITS/helper/lab" pick all.rf 0 1 2 3 >cut.rf
	mentions 65 "the end record is missing" rf-cat --range 0:1 -o c.rf cut.rf
	[ ! -e c.rf ]
}

@test "rf-cat --shuffle: passes every record once, in an order that depends on seed, epoch and records" {
	rf-cat --repeat 25 "$S/tokens.rf" >all.rf
	rf-cat --shuffle --seed 3 all.rf >a.rf
	[ "$(ids a.rf | tr ' ' '\n' | sort -n)" = "$(ids all.rf | tr ' ' '\n' | sort -n)" ]
	[ "$(ids a.rf)" != "$(ids all.rf)" ]
	[ "$(rf-cat --shuffle --seed 4 all.rf | ids)" != "$(ids a.rf)" ]
	rf-cat --range 50: all.rf >second.rf
	rf-cat --range :50 all.rf >first.rf
	[ "$(rf-cat --shuffle --seed 3 second.rf first.rf | ids)" = "$(ids a.rf)" ]
	# seed and epoch are separate: no epoch of a seed has the order of an epoch of another seed
	for seed in 3 4 5; do
		for epoch in 0 1 2; do rf-cat --shuffle --seed $seed --epoch $epoch all.rf | ids; done
	done >orders
	[ "$(sort -u orders | wc -l)" -eq 9 ]
	[ "$(sed -n 1p orders)" = "$(ids a.rf)" ]
	# records that were given twice do not stay together
	[ "$(rf-cat --shuffle --renumber "$S/tokens.rf" "$S/tokens.rf" | ids | tr ' ' '\n' | cut -d: -f2 |
		uniq -d | wc -l)" -lt 4 ]
}

@test "rf-cat --repeat: passes its input N times with new ids, with --shuffle in a new order each time" {
	[ "$(rf-cat --repeat 2 "$S/tokens.rf" | ids)" = "0:61 1:47 2:9 3:80 4:61 5:47 6:9 7:80" ]
	[ "$(rf-cat --repeat 3 "$S/empty.rf" | ids)" = "" ]
	rf-cat --repeat 3 --shuffle --repeat 4 "$S/tokens.rf" | ids >a
	for n in 0 1 2 3; do
		cut -d' ' -f$((4 * n + 1))-$((4 * n + 4)) a | tr ' ' '\n' | cut -d: -f2 |
			paste -sd' ' >order.$n
		[ "$(tr ' ' '\n' <order.$n | sort -n | paste -sd' ')" = "9 47 61 80" ]
	done
	[ "$(sort -u order.? | wc -l)" -gt 1 ]
	rf-cat --repeat 2 --shuffle --epoch 2 "$S/tokens.rf" | ids | tr ' ' '\n' | cut -d: -f2 |
		paste -sd' ' >later
	[ "$(cat later)" = "$(paste -d' ' order.2 order.3)" ]
}

@test "rf-cat --part: cuts each record to its prompt or response and drops values computed from the tokens" {
	prompts
	rf-cat --range 0:2 --part prompt $P >a.rf
	[ "$(rf-dump --json a.rf | jq -c 'select(.type == "seq") | .body
		| [.id, .tokens.data, .prompt_len, .source, .label, has("entropy")]')" = \
		'[7,[1,2],2,"s0",0,false]'$'\n''[8,[1,2,3],3,"s1",1,false]' ]
	rf-cat --range 0:2 --part response $P >b.rf
	[ "$(rf-dump --json b.rf | jq -c 'select(.type == "seq") | .body
		| [.id, .tokens.data, .prompt_len]')" = '[7,[3,0],0]'$'\n''[8,[1],0]' ]
	[ "$(rf-dump --json a.rf | jq -c 'select(.type == "head").body
		| [has("model"), .history[-1].options.part]')" = '[false,"prompt"]' ]
	rf-cat --part prompt $P | rf-cat --part prompt | rf-dump --check -q
	run -65 rf-cat --part response -o c.rf $P
	[ "$output" = "rf-cat: $P: record 3 (byte $(start $P 3)): id 9 has an empty response" ]
	run -65 rf-cat --part prompt -o c.rf "$S/tokens.rf"
	said='has no prompt_len, which --part needs (rf-tokenize --prompt-key writes it)'
	[[ "$output" == *"tokens.rf: record 1 (byte "*"): id 0 $said" ]]
	run -65 rf-cat --part prompt --shuffle -o c.rf "$S/tokens.rf"
	[[ "$output" == *"tokens.rf: id 2 $said" ]] || [[ "$output" == *"$said" ]]
}

@test "rf-cat: copies choices with their log-probabilities, and drops these where it changes the tokens" {
	printf '{"q":"ab","c":["c","de"]}\n{"q":["AB","AC"],"c":["x","y"]}\n' |
		rf-tokenize --bytes --prompt-key q --choices-key c >asked.rf
	rf-dump --json asked.rf | jq -c 'if .type == "seq" then .body.choice += {
		logp: {dtype: "<f4", shape: [2], data: [-3.25, -0.1]},
		greedy: {dtype: "<i4", shape: [2], data: [0, 1]}} else . end' |
		rf-cat --json >scored.rf
	choices() { rf-dump --json "$@" | jq -c 'select(.type == "seq").body.choice'; }
	rf-cat --shuffle --repeat 3 --seed 2 scored.rf | choices | sort >have
	for _ in 1 2 3; do choices scored.rf; done | sort | diff - have
	rf-cat --split-response scored.rf | choices | diff - <(choices asked.rf)
}

@test "rf-cat --split-response: moves the response out of the tokens; --join-response is the exact inverse" {
	prompts
	rf-cat --split-response $P >a.rf
	[ "$(rf-dump --json a.rf | jq -c 'select(.type == "seq") | .body
		| [.id, .tokens.data, .response.data, .prompt_len, .source, .label, has("entropy")]')" = \
		'[7,[1,2],[3,0],null,"s0",0,false]
[8,[1,2,3],[1],null,"s1",1,false]
[9,[1,2,3,2],null,null,"s2",2,false]' ]
	[ "$(rf-dump --json a.rf | jq -c 'select(.type == "head").body | has("model")')" = false ]
	seqs() { rf-dump --json | jq -c 'select(.type == "seq").body | del(.entropy)'; }
	rf-cat --join-response a.rf | seqs >joined
	seqs <$P | cmp - joined
	rf-cat --split-response --shuffle --repeat 2 --seed 3 $P | rf-cat --join-response | seqs >joined
	rf-cat --shuffle --repeat 2 --seed 3 $P | seqs | cmp - joined
	run -65 rf-cat --split-response -o c.rf a.rf
	said='has no prompt_len, which --split-response needs (rf-tokenize --prompt-key writes it)'
	[ "$output" = "rf-cat: a.rf: record 1 (byte $(start a.rf 1)): id 7 $said" ]
	run -65 rf-cat --join-response -o c.rf $P
	[[ "$output" == *"id 7 has prompt_len, so its response was not split off (rf-cat --split-response)" ]]
	for with in '--part prompt' --join-response; do
		run -64 rf-cat --split-response $with -o c.rf $P
		[[ "$output" == *"cannot be combined with --split-response"* ]]
	done
	[ ! -e c.rf ]
}

@test "rf-cat: the history has the options that change the result, and no file names" {
	rf-cat --range 1:3 --shuffle --seed 9 --repeat 2 "$S/tokens.rf" "$S/empty.rf" -o a.rf
	[ "$(rf-dump --json a.rf | jq -c 'select(.type == "head").body.history')" = \
		"$(jq -c . <<<'[{"tool": "rf-cat", "version": "'$(version)'", "options": {"range": "1:3",
			"part": "all", "split-response": false, "join-response": false, "shuffle": true,
			"seed": 9, "epoch": 0, "repeat": 2, "renumber": false}}]')" ]
}

@test "rf-cat: an input that is missing, a directory or not readable exits 66 and is named" {
	says 66 "rf-cat: nope.rf: No such file or directory" rf-cat nope.rf
	says 66 "rf-cat: .: is a directory" rf-cat .
	run -66 rf-cat "$S/tokens.rf" nope.rf -o out.rf
	[ ! -e out.rf ]
	cp "$S/tokens.rf" closed.rf
	chmod 0 closed.rf
	says 66 "rf-cat: closed.rf: Permission denied" bound rf-cat closed.rf
	cp "$S/tokens.rf" -- -x.rf
	rf-cat -- -x.rf | rf-dump --check -q
}

@test "rf-cat --max-record: refuses a message that claims to be larger" {
	run -65 rf-cat --max-record 100 -o out.rf "$S/tokens.rf"
	said="record 1 (byte 51): the record claims 329 bytes, more than the limit of 100 (raise --max-"
	[[ "${lines[*]}" == *"$said"* ]]
	rf-cat --max-record 1k "$S/tokens.rf" | rf-dump --check -q
}

@test "rf-cat: one file may be both input and output" {
	cp "$S/tokens.rf" a.rf
	chmod u+w a.rf
	rf-cat --renumber --range 1: -o a.rf a.rf
	[ "$(ids a.rf)" = "0:47 1:9 2:80" ]
}

# ---- JSON

@test "rf-cat --json: turns the output of rf-dump --json back into the same messages" {
	rf-cat --shuffle --repeat 2 "$S/rewarded.rf" >shuffled.rf
	prompts
	for f in "$S"/*.rf shuffled.rf $P; do
		rf-dump --json "$f" | rf-cat --json >back
		same_messages "$f" <back
		rf-dump --json "$f" | zstd -qc >lines.zst
		rf-cat --json lines.zst | cmp - back
	done
}

@test "rf-cat --json: the history records that the stream was changed outside" {
	rf-cat --range 1:3 "$S/tokens.rf" >in.rf
	rf-dump --json in.rf | jq -c 'if .seq == 1 then .body.source = "x" else . end' | rf-cat --json >a.rf
	[ "$(rf-dump --json a.rf | head -n 1 | jq -c '.body.history | [length, .[-1]]')" = \
		"$(jq -c . <<<'[2, {"tool": "rf-cat", "version": "'$(version)'", "options": {"json": true,
			"renumber": false, "note": "changed outside"}}]')" ]
	[ "$(rf-dump --head a.rf | tail -n 1)" = "  rf-cat --json  # $(version), changed outside" ]
	# a second change adds a second entry; a head without history gets one entry
	rf-dump --json a.rf | rf-cat --json --renumber | rf-dump --head >head
	[ "$(tail -n 1 head)" = "  rf-cat --json --renumber  # $(version), changed outside" ]
	[ "$(grep -c 'changed outside' head)" -eq 2 ]
	rf-dump --json in.rf | jq -c 'del(.body.history)' | rf-cat --json | rf-dump --head >head
	[ "$(grep -c 'changed outside' head)" -eq 1 ]
	# later stages follow it
	rf-cat --range 0:1 a.rf | rf-dump --head | tail -n 2 | grep -q changed
	run -65 bash -c 'rf-dump --json "$1" | sed "s/^{.seq.:0/{\"seq\":7/" | rf-cat --json' - in.rf
	[[ "$output" == *'line 1: found record 7 where record 0 was expected'* ]]
}

@test "rf-cat --json: takes lines that another program changed, and computes the hashes again" {
	rf-dump --json "$S/tokens.rf" | jq -c 'if .type == "seq" then .body.source = "changed" else . end' |
		rf-cat --json >a.rf
	[ "$(rf-dump --json a.rf | jq -r 'select(.type == "seq").body.source' | uniq -c | tr -s ' ')" = \
		" 4 changed" ]
	rf-dump --json "$S/rewarded.rf" | jq -Sc . | rf-cat --json | rf-dump --check -q
}

@test "rf-cat --json --renumber: accepts lines after records were left out, added or moved" {
	rf-dump --json "$S/tokens.rf" >all
	jq -c 'select(.type != "seq" or .body.id != 1)' all | rf-cat --json --renumber >a.rf
	rf-cat <(rf-cat --range 0:1 "$S/tokens.rf") <(rf-cat --range 2:4 "$S/tokens.rf") >b.rf
	diff <(rf-dump --json a.rf | jq -c 'select(.type == "seq")') \
		<(rf-dump --json b.rf | jq -c 'select(.type == "seq")')
	rf-dump --check -q a.rf
	[ "$(rf-dump --json a.rf | jq -c '[.seq, .body.count]' | tr -d '\n')" = \
		'[0,null][1,null][2,null][3,null][4,3]' ]
	# --renumber does not change the messages of a whole stream
	rf-cat --json --renumber all | same_messages "$S/tokens.rf"
	{ sed -n '1p;4p;2p' all; tail -n 1 all; } | rf-cat --json --renumber | rf-dump --check -q
	jq -c 'select(.type != "seq")' all | rf-cat --json --renumber | rf-dump --check -q
	# a selection that rf-dump printed is accepted, too
	rf-dump --json --where 'id>=2' "$S/tokens.rf" | rf-cat --json --renumber |
		rf-dump --tsv --rows record --columns id --no-header | diff <(printf '2\n3\n') -
	# lines without a head or an end, or with two of them or a repeated record, are still refused
	for how in '$d' '1d' '1p' '$p' '2p'; do
		run -65 bash -c 'sed "$0" all | rf-cat --json --renumber -o c.rf' "$how"
		[ ! -e c.rf ]
	done
	mentions 65 "(--renumber assigns new numbers)" bash -c 'sed 3d all | rf-cat --json >/dev/null'
}

@test "rf-cat --json: refuses a line that breaks a rule, and names its number" {
	rf-dump --json "$S/tokens.rf" >good
	bad() { # bad WORDS COMMAND...: the lines that the command makes of good ones are refused
		local words=$1
		shift
		"$@" <good >bad
		says 65 "rf-cat: bad: $words..." rf-cat --json -o out.rf bad
		[ ! -e out.rf ]
	}
	bad 'line 3: found record 3 where record 2 was expected' sed 3d
	bad 'the end record is missing (the input is truncated, or its writer died)' sed '$d'
	bad 'line 6: the end record counts 5 records, but there are 4' sed 's/"count":4/"count":5/'
	bad 'line 7: a message follows the end record' sed '$p'
	bad 'line 2: tokens: number 0 is 41, outside 0 to 39' sed '2s/"data":\[[0-9]*/"data":[41/'
	bad 'line 2: an array has 61 numbers, but its shape needs 62' sed '2s/"shape":\[61\]/"shape":[62]/'
	bad 'line 4: id 0 occurs twice' sed '4s/"id":2/"id":0/'
	bad 'line 2: not JSON: ' sed '2s/}$//'
	bad 'line 1: the first message is not a head' sed '1s/"head"/"seq"/
		1s/"body":{/"body":{"id":1,"tokens":{"dtype":"<i4","shape":[1],"data":[1]},/'
	bad "line 1: the head has no 'format'" sed '1s/"format":1,//'
	bad 'line 1: the stream has format 2, but this version of rf-tools reads format 1' \
		sed '1s/"format":1/"format":2/'
	bad 'line 3: not JSON: ' sed '1s/$/\n/;2s/}$//'
	mentions 65 "tokens.rf: line 1: " rf-cat --json -o out.rf "$S/tokens.rf"
	jq -c 'if .seq == 1 then .body.source = "x" * 200000 else . end' good >long
	run -65 rf-cat --json --max-record 1k -o out.rf long
	[[ "$output" == "rf-cat: long: line 2 is longer than "*"(raise --max-record)" ]]
	run -64 rf-cat --json good good
	run -64 rf-cat --json --shuffle good
	run -66 rf-cat --json nope
}

@test "rf-cat --json: rf-dump escapes characters that control a terminal, and rf-cat restores them" {
	rf-dump --json "$S/tokens.rf" >good
	# odd: a terminal title, a C1 control, characters that override, isolate and mark the direction of
	# text, a space of no width, a byte order mark, a line separator, a tag
	# seen: characters that are printed unchanged
	odd='a\u001b]0;x\u0007\u009b\u202e\u2066\u2069\u061c\u200b\ufeff\u2028\udb40\udc41'
	seen=$'\xc3\xa9\xd7\x90\xe4\xb8\xad\xf0\x9f\x98\x80'
	jq -c --argjson odd "\"$odd$seen\"" \
		'if .seq == 1 then .body.source = $odd | .body.meta = {($odd): $odd} else . end' good >raw
	run ! grep -qF '\u202e' raw
	rf-cat --json raw >a.rf
	rf-dump --json a.rf >b
	grep -qF "\"source\":\"$odd$seen\"" b
	grep -qF "\"meta\":{\"$odd$seen\":\"$odd$seen\"}" b
	rf-cat --json b | same_messages a.rf
}

@test "rf-cat --json: an empty input, a full disk and a terminal as output are errors" {
	run -65 rf-cat --json -o out.rf /dev/null
	[ ! -e out.rf ]
	rf-dump --json "$S/tokens.rf" >good
	run -74 rf-cat --json -o /dev/full good
	mentions 64 "<stdout>: is a terminal" script -qefc 'rf-cat --json good' /dev/null
}
