#!/usr/bin/env bats
# rf-tokenize: documents, prompts, answers, choices and ids become streams.

setup() {
	load ../helper
	load ../promises
}

# bodies [options] [file ...]: prints the sequences that rf-tokenize --bytes writes, as JSON, one a line
bodies() {
	rf-tokenize --bytes "$@" 2>err | rf-dump --json >out.json || return
	sed -n 's/^{"seq":[0-9]*,"type":"seq","body"://; T; s/}$//p' out.json
}

# tokens ID TEXT [JSON]: prints the body of a sequence of these bytes, with these keys; '.' is the end token
tokens() {
	local i data=
	for ((i = 0; i < ${#2}; i++)); do
		if [ "${2:i:1}" = . ]; then
			data+=,1
		else
			printf -v data '%s,%d' "$data" $(($(printf '%d' "'${2:i:1}") + 3))
		fi
	done
	printf '{"id":%d,"tokens":{"dtype":"<i4","shape":[%d],"data":[%s]}%s}\n' "$1" "${#2}" \
		"${data:1}" "${3-}"
}

# counted TEXT: succeeds if the first line that `bodies` left in err is this line of counts
counted() { [ "$(head -n 1 err)" = "rf-tokenize: $1" ]; }

# bad LINE [OPTION...]: rf-tokenize must exit 65 for a file of this line; prints its one line of standard
# error, without the hint
skips=' (--skip-bad N passes over N such lines)'
bad() {
	printf '%s\n' "$1" >bad.jsonl
	# chained, since a command substitution does not end at the first command that fails
	run -65 --separate-stderr rf-tokenize --bytes -o never "${@:2}" bad.jsonl &&
		[ ! -e never ] && [ "${#stderr_lines[@]}" -eq 1 ] && echo "${stderr%"$skips"}"
}

# bad_lines: reads rows "LINE|OPTION...|MESSAGE"; each line must be refused with these options and this
# message
bad_lines() {
	local line options said
	while IFS='|' read -r line options said; do
		# shellcheck disable=SC2086  # words
		[ "$(bad "$line" $options)" = "rf-tokenize: bad.jsonl: line 1: $said" ] ||
			{ echo "$line: $(bad "$line" $options)"; return 1; }
	done
}

@test "text: tokenizer, JSON scanner, line reader, decompression and cutting pass their unit tests" {
	unit text
}

@test "text: every file of the fuzzing corpus of documents passes the fuzz target" {
	[ -x "$RF_UNITS/fuzz/text" ] || skip "the fuzz targets are not built"
	replay text "$ROOT"/t/fuzz/corpus/text/*
}

@test "rf-tokenize: writes the stream that rf-stream(5) describes, byte for byte" {
	printf 'A\377' >a.txt
	rf-tokenize --bytes a.txt 2>err >a.rf
	hex=$(zstd -dc <a.rf | od -An -v -tx1 | tr -d ' \n')
	# [1, "seq", {"id": 0, "tokens": {"dtype": "<i4", "shape": [3],
	record=9301a373657182a2696400a6746f6b656e7383a56474797065a33c6934a573686170659103
	# "data": 44 00 00 00  02 01 00 00  01 00 00 00}}]
	record+=a464617461c40c440000000201000001000000
	# [0, "head", {"format": 1, "vocab": 384, "tokenizer": {"kind": "bytes", "hash": ...
	head=9300a46865616484a6666f726d617401a5766f636162cd0180
	head+=a9746f6b656e697a657282a46b696e64a56279746573a468617368b0
	# [2, "end", {"count": 1, ...
	[[ $hex == "$head"*"$record"9302a3656e6482a5636f756e7401* ]]
	counted "1 document: 1 kept (0 of them cut), 0 dropped; 1 sequence of 3 tokens, 0 left out"
}

@test "rf-tokenize: the head has the vocabulary, the tokenizer and the options, but no path" {
	mkdir secret
	echo '{"text":"a"}' >secret/a.jsonl
	rf-tokenize --bytes --max-len 4k --truncate left -o secret/a.rf secret/a.jsonl 2>err
	rf-dump --json secret/a.rf | sed 1q >head
	grep -q '"vocab":384,"tokenizer":{"kind":"bytes","hash":"2d83aaba506794c4"}' head
	grep -q '"history":\[{"tool":"rf-tokenize","version":"[0-9.]*","options":{"bytes":true,' head
	grep -q '"max-len":4096,"min-len":1,"truncate":"left"' head
	run ! grep -q 'secret\|output' head
}

@test "rf-tokenize: the suffix of a file decides its format, also with .zst; standard input is jsonl" {
	tokens 0 ab. >want
	printf 'ab' >a.txt
	printf '{"text":"ab"}\n' >a.jsonl
	printf '{"text":"ab"}' >a.ndjson
	printf '{"tokens":[100,101,1]}\n' >a.ids
	for f in a.txt a.jsonl a.ndjson a.ids; do
		bodies $f | cmp - want
		zstd -q $f
		bodies $f.zst | cmp - want
	done
	bodies <a.jsonl | cmp - want
	bodies - <a.jsonl.zst | cmp - want
	bodies --format text <a.txt.zst | cmp - want
	cp a.txt name
	bodies --format text name | cmp - want
	run -64 --separate-stderr rf-tokenize --bytes name
	said='unknown suffix (known: .jsonl, .txt, .ids, each also .zst): use --format'
	[ "$stderr" = "rf-tokenize: 'name': $said" ]
}

@test "rf-tokenize: takes files in the order of the command line and continues the ids across files" {
	printf '{"text":"b"}\n{"text":""}\n' >b.jsonl
	printf 'a' >a.txt
	{ tokens 0 b.; tokens 1 .; tokens 2 a.; tokens 3 b.; tokens 4 .; } >want
	bodies b.jsonl a.txt b.jsonl | cmp - want
}

@test "rf-tokenize: a text file is taken byte for byte, with NULs, byte order mark and line ends" {
	printf '\357\273\277a\r\n\0b' >a.txt
	bodies a.txt >out
	grep -q '"data":\[242,190,194,100,16,13,3,101,1\]' out
	: >empty.txt
	bodies empty.txt | cmp - <(tokens 0 .)
}

@test "rf-tokenize: texts in jsonl may have escapes, NULs and CRLF, and --text-key names their key" {
	printf '{"text":"\\u0041\\u00e9\\u0000\\n","b":"x"}\r\n' >a.jsonl
	bodies a.jsonl >out
	grep -q '"data":\[68,198,172,3,13,1\]' out
	bodies --text-key b a.jsonl | cmp - <(tokens 0 x.)
}

@test "rf-tokenize: --no-eos leaves out the end token and drops a text that is then empty" {
	printf '{"text":"ab"}\n{"text":""}\n' >a.jsonl
	bodies --no-eos a.jsonl | cmp - <(tokens 0 ab)
	counted "2 documents: 1 kept (0 of them cut), 1 dropped; 1 sequence of 2 tokens, 0 left out"
}

@test "rf-tokenize: input without documents gives an empty stream" {
	bodies </dev/null >out
	[ ! -s out ]
	counted "0 documents: 0 kept (0 of them cut), 0 dropped; 0 sequences of 0 tokens, 0 left out"
}

@test "rf-tokenize: --prompt-key and --answer-key make one sequence with prompt_len and answers" {
	printf '{"q":"ab","a":"c"}\n{"q":"","a":["d","e\\n"]}\n' >a.jsonl
	{
		tokens 0 abc. ',"prompt_len":2,"answers":["c"]'
		tokens 1 d. ',"prompt_len":0,"answers":["d","e\n"]'
	} >want
	bodies --prompt-key q --answer-key a a.jsonl | cmp - want
	# a prompt without an answer has no end token
	printf '{"q":"ab"}\n' >a.jsonl
	bodies --prompt-key q a.jsonl | cmp - <(tokens 0 ab ',"prompt_len":2')
}

@test "rf-tokenize: prompt_len counts the prompt tokens in each piece of a cut document" {
	printf '{"q":"abcd","a":"ef"}\n' >a.jsonl
	{
		tokens 0 abc ',"prompt_len":3,"answers":["ef"]'
		tokens 1 def ',"prompt_len":1,"answers":["ef"]'
		tokens 2 . ',"prompt_len":0,"answers":["ef"]'
	} >want
	bodies --prompt-key q --answer-key a --max-len 3 --truncate split a.jsonl | cmp - want
	bodies --prompt-key q --answer-key a --max-len 4 --truncate left a.jsonl |
		cmp - <(tokens 0 def. ',"prompt_len":1,"answers":["ef"]')
	bodies --prompt-key q --answer-key a --max-len 2 --truncate right a.jsonl |
		cmp - <(tokens 0 ab ',"prompt_len":2,"answers":["ef"]')
	# answers that were cut off completely are counted
	for how in 'right|1 kept (1 of them cut, 1 of these without their answer)' \
		'left|1 kept (1 of them cut)'; do
		rf-tokenize --bytes --prompt-key q --answer-key a --max-len 2 \
			--truncate "${how%%|*}" a.jsonl 2>err >out
		[[ "$(cat err)" == "rf-tokenize: 1 document: ${how#*|}, 0 dropped; "* ]]
	done
}

@test "rf-tokenize: a separate message counts the answers that --max-answer cut" {
	jq -nc '{p: "a", a: ("12", "123", "1234", "12345")}' >q.jsonl
	run -0 rf-tokenize --bytes --prompt-key p --answer-key a --max-answer 3 -o q.rf q.jsonl
	said='rf-tokenize: 2 of the answers had more than 3 tokens: they were cut and have no end token'
	[ "${lines[1]}" = "$said (raise --max-answer, or MAX_ANSWER of posttrain.mk)" ]
	run -0 rf-tokenize --bytes --prompt-key p --answer-key a --max-answer 5 -o q.rf q.jsonl
	[ "${#lines[@]}" -eq 1 ]
}

@test "rf-tokenize: --max-prompt keeps a prompt's end, --max-answer an answer's beginning" {
	printf '{"q":"abcde","a":"fghi"}\n' >a.jsonl
	parts() { bodies --prompt-key q --answer-key a "$@" a.jsonl; }
	as() { tokens 0 "$1" ",\"prompt_len\":$2,\"answers\":[\"fghi\"]"; }
	parts --max-prompt 3 --max-answer 2 | cmp - <(as cdefg 3)
	counted "1 document: 1 kept (1 of them cut), 0 dropped; 1 sequence of 5 tokens, 5 left out"
	parts --max-prompt 3 | cmp - <(as cdefghi. 3)
	parts --max-answer 3 | cmp - <(as abcdefgh 5)
	# prompts and answers of exactly this length are not cut; the end token is not counted
	parts --max-prompt 5 --max-answer 4 | cmp - <(as abcdefghi. 5)
	counted "1 document: 1 kept (0 of them cut), 0 dropped; 1 sequence of 10 tokens, 0 left out"
	parts --max-prompt 5 --max-answer 4 --no-eos | cmp - <(as abcdefghi 5)
	parts --max-answer 2 --max-len 4 --truncate left | cmp - <(as defg 2)
	parts --max-prompt 2 --min-len 8 | cmp - /dev/null
	counted "1 document: 0 kept (1 of them cut), 1 dropped; 0 sequences of 0 tokens, 10 left out"
}

@test "rf-tokenize: --truncate keeps the end, the beginning or both of a prompt over --max-prompt, or fails" {
	printf '{"q":"abcdefg"}\n' >a.jsonl
	while read -r how most want; do
		bodies --prompt-key q --max-prompt "$most" --truncate "$how" a.jsonl |
			cmp - <(tokens 0 "$want" ",\"prompt_len\":$most")
	done <<-'END'
		left 3 efg
		right 3 abc
		middle 4 abfg
		middle 5 abcfg
		middle 1 a
		middle 6 abcefg
		error 7 abcdefg
	END
	run -65 --separate-stderr rf-tokenize --bytes --prompt-key q --max-prompt 6 --truncate error a.jsonl
	said="the prompt has 7 tokens, more than --max-prompt 6 (--truncate left, right or middle cuts it)"
	[ "$stderr" = "rf-tokenize: a.jsonl: line 1: $said" ]
	# the history has the default of --truncate
	bodies --prompt-key q --max-prompt 3 a.jsonl >out
	grep -q '"max-prompt":3,.*"truncate":"left"' out.json
}

@test "rf-tokenize: --truncate drop leaves out documents and prompts that are too long, and counts them" {
	left_out() { tail -n 1 err | diff - <(echo "rf-tokenize: $1 left out (--truncate drop)"); }
	printf '{"text":"%s"}\n' abc abcd abcde >a.jsonl
	bodies --max-len 5 --truncate drop a.jsonl | cmp - <(tokens 0 abc. && tokens 1 abcd.)
	counted "3 documents: 2 kept (0 of them cut), 1 dropped; 2 sequences of 9 tokens, 6 left out"
	left_out '1 document longer than 5 tokens was'
	bodies --max-len 5 --truncate drop --min-len 5 --threads 3 a.jsonl | cmp - <(tokens 0 abcd.)
	counted "3 documents: 1 kept (0 of them cut), 2 dropped; 1 sequence of 5 tokens, 10 left out"
	bodies --max-len 5 --truncate drop --no-eos a.jsonl >/dev/null
	[ "$(wc -l <err)" -eq 1 ]
	# --max-len counts a prompt with its answer, after --max-answer has cut the answer
	printf '{"q":"%s","a":"%s"}\n' ab c abc cd abcd c a cdef >a.jsonl
	with() { bodies --prompt-key q --answer-key a --truncate drop "$@" a.jsonl; }
	as() { tokens "$1" "$2" ",\"prompt_len\":$3,\"answers\":[\"$4\"]"; }
	with --max-len 5 | cmp - <(as 0 abc. 2 c)
	left_out '3 documents longer than 5 tokens were'
	with --max-len 5 --max-answer 2 | cmp - <(as 0 abc. 2 c && as 1 acd 1 cdef)
	counted "4 documents: 2 kept (1 of them cut), 2 dropped; 2 sequences of 7 tokens, 15 left out"
	sed -n '2,$p' err | diff - <(
		echo 'rf-tokenize: 2 documents longer than 5 tokens were left out (--truncate drop)'
		printf 'rf-tokenize: 1 of the answers had more than 2 tokens: they were cut and have no end '
		echo 'token (raise --max-answer, or MAX_ANSWER of posttrain.mk)'
	)
	# --max-prompt counts only the prompt
	with --max-prompt 3 | cmp - <(as 0 abc. 2 c && as 1 abccd. 3 cd && as 2 acdef. 1 cdef)
	left_out '1 prompt longer than 3 tokens was'
	# a question is dropped if its prompt leaves no room for the longest choice
	printf '{"context":"%s","choice":["g","hij"]}\n' abcdef abc >a.jsonl
	pairs --bytes --max-len 8 --truncate drop a.jsonl >out
	diff out - <<<$'[[100,101,102],[106]]\n[[100,101,102],[107,108,109]]'
	grep -q '^rf-tokenize: 1 document longer than 8 tokens was left out' err
	# dropped documents still count for --valid-every
	printf '{"text":"%s"}\n' abcde a b c >a.jsonl
	bodies --max-len 5 --truncate drop --valid-every 2 --split valid a.jsonl | cmp - <(tokens 0 b.)
}

@test "rf-tokenize: --answer-prefix begins the tokens of the answer, but is not in the record's answers" {
	printf '{"q":"a","a":["b","c"]}\n' >a.jsonl
	as() { tokens 0 "$1" ',"prompt_len":1,"answers":["b","c"]'; }
	bodies --prompt-key q --answer-key a --answer-prefix '::' a.jsonl | cmp - <(as a::b.)
	bodies --prompt-key q --answer-key a --answer-prefix '::' --max-answer 2 a.jsonl | cmp - <(as a::)
}

@test "rf-tokenize: with --answers-key the answers are in the record, but do not change its tokens" {
	printf '{"q":"ab","a":["x","y"]}\n{"q":"c","a":"z"}\n' >a.jsonl
	printf '{"q":"ab","a":["another","one"]}\n{"q":"c","a":["d","e","f"]}\n' >b.jsonl
	bodies --prompt-key q --answers-key a a.jsonl >out
	{
		tokens 0 ab ',"prompt_len":2,"answers":["x","y"]'
		tokens 1 c ',"prompt_len":1,"answers":["z"]'
	} | cmp - out
	for cut in "" "--max-prompt 1" "--max-len 1 --truncate split" "--max-len 1 --truncate right"; do
		for f in a b; do
			# shellcheck disable=SC2086  # words
			bodies --prompt-key q --answers-key a $cut $f.jsonl | jq -c 'del(.answers)' >$f.tokens
		done
		[ -s a.tokens ]
		cmp a.tokens b.tokens
	done
}

# pairs OPTION...: prints for each choice the ids of its context and its own ids, as [[...],[...]]
pairs() {
	rf-tokenize --prompt-key context --choices-key choice "$@" 2>err | rf-dump --json |
		jq -c 'select(.type == "seq").body | .tokens.data as $t | .choice as $c
			| range($c.length.data | length) as $i | ($c.from.data[$i] // 0) as $f
			| $c.tokens.data[$i * $c.tokens.shape[1]:][:$c.length.data[$i]]
			| [$t + .[:$f], .[$f:]]'
}

@test "rf-tokenize: choices have the ids that lm-eval's rule gives with the original tokenizers" {
	for kind in gpt2 qwen2 qwen3_5 llama3 llama2 mistral; do
		mkdir $kind
		zstd -qdc "$G/tokenizer/$kind.json.zst" >$kind/tokenizer.json
		zstd -qdc "$G/tokenizer/pairs.jsonl.zst" | jq -c "select(.kind == \"$kind\")" >cases
		[ "$(wc -l <cases)" = 90 ]
		pairs --tokenizer $kind --bos auto <cases | diff - <(jq -c .ids cases)
		[ -n "${RF_ALL:-}" ] || [[ $kind = @(gpt2|llama2) ]] || continue
		# many choices of one context, or one context per choice, give the same pairs
		jq -c --slurp 'map(.context = "Hello, world " | .choice = "x" + .choice)' cases >all
		jq -c '{context: .[0].context, choice: map(.choice)}' all | pairs --tokenizer $kind >have
		jq -c '.[]' all | pairs --tokenizer $kind | diff - have
		jq -c '{context: map(.context), choice: map(.choice)}' all |
			pairs --tokenizer $kind | diff - have
		jq -c 'map(.context = "So, " + .choice)
			| {context: map(.context), choice: map(.choice)}' all |
			pairs --tokenizer $kind --threads 3 >have
		jq -c '.[] | .context = "So, " + .choice' all | pairs --tokenizer $kind | diff - have
	done
}

@test "rf-tokenize: context tokens that differ between choices are stored, and counted, with each choice" {
	printf '{"context":["The cat Anna","The cat Bo "],"choice":[" sat","sat"],"gold":1}\n' >a.jsonl
	rf-tokenize --bytes --prompt-key context --choices-key choice --meta-key gold a.jsonl |
		rf-dump --json | jq -c 'select(.type == "seq").body | [.prompt_len, .meta.gold,
			.choice.length.data, .choice.from.data, (.tokens.data, .choice.tokens.data
			| map(. - 3 | [., 46] | max) | implode)]' >out
	[ "$(cat out)" = '[8,1,[8,6],[4,2],"The.cat.","Anna.satBo.sat.."]' ]
	printf '{"context":"","choice":["a","b"]}\n{"context":" ","choice":"a"}\n' | pairs --bytes >out
	diff out - <<<$'[[1],[100]]\n[[1],[101]]\n[[1],[35,100]]'
	printf '{"context":"Q","choice":["a","b"]}\n' | pairs --bytes --answer-prefix '::' >out
	diff out - <<<$'[[84],[61,61,100]]\n[[84],[61,61,101]]'
}

@test "rf-tokenize: --max-len cuts the prompt's left side, so that the longest choice fits" {
	printf '{"context":"abcdef","choice":["g","hij"]}\n' >a.jsonl
	pairs --bytes --max-len 9 a.jsonl | diff - <(pairs --bytes a.jsonl)
	pairs --bytes --max-len 5 --truncate left a.jsonl >out
	diff out - <<<$'[[104,105],[106]]\n[[104,105],[107,108,109]]'
	grep -q '1 kept (1 of them cut), 0 dropped; 1 sequence of 2 tokens, 4 left out' err
	pairs --bytes --max-prompt 2 a.jsonl | diff - out
	bad='{"context":"abcdef","choice":["g","hij"]}'
	key=(--prompt-key context --choices-key choice)
	at='rf-tokenize: bad.jsonl: line 1:'
	[ "$(bad "$bad" "${key[@]}" --max-len 8)" = "$at the prompt of 6 tokens and its longest choice of \
3 are more than --max-len 8 (--truncate left cuts the prompt)" ]
	[ "$(bad "$bad" "${key[@]}" --max-len 3 --truncate left)" = "$at a choice has 3 tokens, so that \
--max-len 3 leaves nothing of the prompt" ]
}

@test "rf-tokenize: choices that are not texts or add no token are errors that name the line" {
	key=(--prompt-key p --choices-key c)
	bad_lines <<-END
		{"p":"a","c":["b",1]}|${key[*]}|'c' has a number at index 1, not a string
		{"p":"a","c":[]}|${key[*]}|'c' is an empty list, not a string or a list of strings
		{"p":"a","c":["b",""]}|${key[*]}|choice 1 has no token of its own after the prompt
		{"p":"a","c":["\u0000"]}|${key[*]}|'c' contains a NUL, which only a text or prompt may contain
		{"p":"a"}|${key[*]}|the key 'c' is missing; the line has "p"
		{"p":1,"c":["b"]}|${key[*]}|'p' is a number, not a string or a list of strings
		{"p":["a"],"c":["b","c"]}|${key[*]}|'p' has 1 contexts, but there are 2 choices
	END
	[ "$(bad '{"p":["a","b"],"c":["b","c"]}' "${key[@]}")" = "rf-tokenize: bad.jsonl: line 1: the \
contexts begin with different tokens: nothing can be shared (--bos yes, or a line for each)" ]
	mkdir m
	zstd -qdc "$G/tokenizer/qwen2.json.zst" >m/tokenizer.json
	printf '{"p":"","c":"a"}\n' >a.jsonl
	run -65 rf-tokenize --tokenizer m "${key[@]}" a.jsonl
	said='line 1: the prompt is empty, and the tokenizer has neither a bos nor an end token'
	[[ "$output" == *"$said"* ]]
}

@test "rf-tokenize: a file of RULER gives prompts that end with the answer prefix, and references" {
	cat >a.jsonl <<-'END'
		{"index":0,"input":"Who?\u0000","outputs":["A","B"],"length":9,"answer_prefix":" It is"}
		{"index":0,"input":"","outputs":["C"],"length":9,"answer_prefix":""}
		{"index":1,"input":"Why?","outputs":["C"],"length":9,"answer_prefix":":"}
	END
	ruler=(--prompt-key input --prompt-suffix-key answer_prefix --answers-key outputs --meta-key index)
	bodies "${ruler[@]}" a.jsonl | jq -c '[.id, .prompt_len, .answers, .meta.index,
		([.tokens.data[] | . - 3] | implode)]' >out
	diff out - <<-'END'
		[0,11,["A","B"],0,"Who?\u0000 It is"]
		[1,5,["C"],1,"Why?:"]
	END
	counted "3 documents: 2 kept (0 of them cut), 1 dropped; 2 sequences of 16 tokens, 0 left out"
	bodies "${ruler[@]}" --max-prompt 3 a.jsonl | jq -c '[.tokens.data[] | . - 3] | implode' >out
	diff out <(printf '"%s"\n' ' is' 'y?:')
	# prompt and suffix are tokenized as one text
	zstd -dcq "$G/tokenizer/gpt2.json.zst" >tokenizer.json
	jq -c '{text: (.input + .answer_prefix)}' a.jsonl >text.jsonl
	ids() {
		rf-tokenize --tokenizer tokenizer.json "$@" 2>err | rf-dump --json |
			jq -c 'select(.type == "seq") | .body.tokens.data'
	}
	ids "${ruler[@]}" a.jsonl >out
	[ -s out ]
	cmp out <(ids text.jsonl)
}

@test "rf-tokenize: --source, --source-key and --meta-key keep a document's origin and meta data" {
	mkdir d
	cat >d/a.jsonl <<-'END'
		{"text":"a","from":"x/y","n":18446744073709551615,"list":[1.5,null,{"t":true}]}
		{"text":"b","from":"z","n":-2,"list":"\u00e9"}
	END
	printf 'c' >d/c.txt
	printf '{"tokens":[5]}\n' >d/i.ids
	{
		tokens 0 a. ',"source":"a.jsonl:1"'
		tokens 1 b. ',"source":"a.jsonl:2"'
		tokens 2 c. ',"source":"c.txt"'
	} >want
	bodies --source d/a.jsonl d/c.txt | cmp - want
	bodies --source d/i.ids | grep -q '"source":"i.ids:1"'
	{
		tokens 0 a. ',"source":"x/y","meta":{"list":[1.5,null,{"t":true}],"n":"18446744073709551615"}'
		tokens 1 b. ',"source":"z","meta":{"list":"é","n":-2}'
	} >want
	bodies --source-key from --meta-key list,n d/a.jsonl | cmp - want
}

@test "rf-tokenize: meta data may be nested five levels deep, and a sixth level is an error" {
	printf '{"text":"a","m":[[[[[1]]]]]}\n' >a.jsonl
	bodies --meta-key m a.jsonl | grep -q '"meta":{"m":\[\[\[\[\[1\]\]\]\]\]}'
	[ "$(bad '{"text":"a","m":[[[[[[1]]]]]]}' --meta-key m)" = \
		"rf-tokenize: bad.jsonl: line 1: 'm': lists and objects are nested more than 5 levels deep" ]
}

@test "rf-tokenize: a line that is not a valid document is an error that names the file and the line" {
	printf '{"text":"a"}\n{"text":"a"\n' >a.jsonl
	run -65 --separate-stderr rf-tokenize --bytes a.jsonl
	said="line 2: not JSON: it ends at byte 12, where ',' or '}' was expected$skips"
	[ "$stderr" = "rf-tokenize: a.jsonl: $said" ]
	says 65 "rf-tokenize: <stdin>: $said" rf-tokenize --bytes <a.jsonl
	bad_lines <<-'END'
		hello||not JSON: byte 1 is 'h', where a value was expected
		["a"]||the line is a list, not an object
		{"a":1}||the key 'text' is missing; the line has "a"
		{"text":1}||'text' is a number, not a string
		{"text":null}||'text' is null, not a string
		{"text":"a","text":"b"}||the key 'text' occurs twice
		{"text":"a"}|--meta-key m|the key 'm' is missing; the line has "text"
		{"text":"a","m":1e999}|--meta-key m|'m': a number does not fit into 64 bits
		{"p":"a"}|--prompt-key p --answer-key a|the key 'a' is missing; the line has "p"
		{"p":"a","a":["b",2]}|--prompt-key p --answer-key a|'a' has a number at index 1, not a string
		{"p":"a"}|--prompt-key p --answers-key a|the key 'a' is missing; the line has "p"
		{"p":"a"}|--prompt-key p --prompt-suffix-key s|the key 's' is missing; the line has "p"
		{"p":"a","s":["b"]}|--prompt-key p --prompt-suffix-key s|'s' is a list, not a string
	END
	nul='contains a NUL, which only a text or prompt may contain'
	strings='not a string or a list of strings'
	bad_lines <<-END
		{"text":"a","s":"\u0000"}|--source-key s|'s' $nul
		{"p":"a","a":[]}|--prompt-key p --answer-key a|'a' is an empty list, $strings
		{"p":"a","a":7}|--prompt-key p --answer-key a|'a' is a number, $strings
		{"p":"a","a":[]}|--prompt-key p --answers-key a|'a' is an empty list, $strings
		{"p":"a","a":"\u0000"}|--prompt-key p --answers-key a|'a' $nul
	END
	at="rf-tokenize: bad.jsonl: line 1:"
	[ "$(bad $'{"text":"\xff"}')" = "$at not JSON: byte 10 is '\\xff', where UTF-8 was expected" ]
	[ "$(bad '{"messages":[]}' --prompt-key prompt)" = "$at the key 'prompt' is missing; the line has `
		`\"messages\" (examples/chat.py makes prompts and answers of chats)" ]
	[ "$(bad '{"text":"a","m":{"b":1,"b":2}}' --meta-key m | grep -c 'line 1: meta data: ')" = 1 ]
}

@test "rf-tokenize: token ids are taken as they are and must be below the size of the vocabulary" {
	printf '{"tokens":[0,31999]}\n{"tokens":[7,7,7]}\n' >a.ids
	rf-tokenize --vocab 32000 a.ids 2>err | rf-dump --json >out
	grep -q '"vocab":32000,"history"' out
	grep -q '"body":{"id":0,"tokens":{"dtype":"<i4","shape":\[2\],"data":\[0,31999\]}}' out
	grep -q '"body":{"id":1,"tokens":{"dtype":"<i4","shape":\[3\],"data":\[7,7,7\]}}' out
	run -65 --separate-stderr rf-tokenize --vocab 31999 a.ids
	said="'tokens' has 31999 at index 1, outside the vocabulary of 31999"
	[ "$stderr" = "rf-tokenize: a.ids: line 1: $said$skips" ]
	bad_lines <<-'END'
		{"tokens":[1,384]}|--format ids|'tokens' has 384 at index 1, outside the vocabulary of 384
		{"tokens":[-1]}|--format ids|'tokens' has '-1' at index 0, not a token id
		{"tokens":[1.5]}|--format ids|'tokens' has '1.5' at index 0, not a token id
		{"tokens":[2147483648]}|--format ids|'tokens' has '2147483648' at index 0, not a token id
		{"tokens":["1"]}|--format ids|'tokens' has '"1"' at index 0, not a token id
		{"tokens":"1"}|--format ids|'tokens' is a string, not a list of token ids
		{"ids":[1]}|--format ids|the key 'tokens' is missing; the line has "ids"
	END
}

@test "rf-tokenize: a document over --max-len is an error that names it, unless --truncate cuts it" {
	printf '{"text":"abc"}\n{"text":"abcd"}\n' >a.jsonl
	run -65 --separate-stderr rf-tokenize --bytes --max-len 4 a.jsonl
	said='the document has 5 tokens, more than --max-len 4 (--truncate left, right or split cuts it)'
	[ "$stderr" = "rf-tokenize: a.jsonl: line 2: $said" ]
	bodies --max-len 4 --truncate left a.jsonl | cmp - <(tokens 0 abc. && tokens 1 bcd.)
	counted "2 documents: 2 kept (1 of them cut), 0 dropped; 2 sequences of 8 tokens, 1 left out"
	bodies --max-len 4 --truncate right a.jsonl | cmp - <(tokens 0 abc. && tokens 1 abcd)
	bodies --max-len 4 --truncate split a.jsonl | cmp - <(tokens 0 abc. && tokens 1 abcd && tokens 2 .)
	counted "2 documents: 2 kept (1 of them split), 0 dropped; 3 sequences of 9 tokens, 0 left out"
	bodies --max-len 4 --min-len 2 --truncate split a.jsonl | cmp - <(tokens 0 abc. && tokens 1 abcd)
	said="2 kept (0 of them split, 1 of them cut), 0 dropped"
	counted "2 documents: $said; 2 sequences of 8 tokens, 1 left out"
	bodies --min-len 5 a.jsonl | cmp - <(tokens 0 abcd.)
	counted "2 documents: 1 kept (0 of them cut), 1 dropped; 1 sequence of 5 tokens, 4 left out"
}

@test "rf-tokenize: --truncate split counts documents in pieces as split, and those that lost tokens as cut" {
	printf '{"q":"abcde","a":"fghi"}\n{"q":"a","a":"b"}\n' >a.jsonl
	pieces() {
		bodies --prompt-key q --answer-key a --max-len 4 --truncate split "$@" a.jsonl >/dev/null
	}
	pieces
	counted "2 documents: 2 kept (1 of them split), 0 dropped; 4 sequences of 13 tokens, 0 left out"
	pieces --max-answer 2
	said="2 kept (1 of them split, 1 of them cut), 0 dropped"
	counted "2 documents: $said; 3 sequences of 10 tokens, 3 left out"
	pieces --max-answer 2 --min-len 4
	said="1 kept (0 of them split, 1 of them cut, 1 of these without their answer), 1 dropped"
	counted "2 documents: $said; 1 sequence of 4 tokens, 9 left out"
}

@test "rf-tokenize: --valid-every and --split divide whole documents, whatever their length" {
	for t in a bbbb c d eeee; do echo "{\"text\":\"$t\"}"; done >a.jsonl
	cut="--max-len 3 --truncate split --min-len 2"
	# shellcheck disable=SC2086
	bodies $cut --valid-every 4 a.jsonl |
		cmp - <(tokens 0 bbb && tokens 1 b. && tokens 2 c. && tokens 3 d.)
	said='3 kept (1 of them split), 0 dropped; 4 sequences of 9 tokens, 0 left out'
	counted "5 documents, 2 of them for validation: $said"
	# shellcheck disable=SC2086
	bodies $cut --valid-every 4 --split valid a.jsonl |
		cmp - <(tokens 0 a. && tokens 1 eee && tokens 2 e.)
	said='2 kept (1 of them split), 0 dropped; 3 sequences of 7 tokens, 0 left out'
	counted "5 documents, 3 of them for training: $said"
}

@test "rf-tokenize: takes the tokenizer of a checkpoint, run or file, and names an unsupported kind" {
	mkdir -p m run/step-000001 other sp empty
	echo '{"tokenizer_class":"ByT5Tokenizer","extra_ids":125}' >m/tokenizer_config.json
	cp m/tokenizer_config.json run/step-000001
	ln -s step-000001 run/latest
	printf 'ab' >a.txt
	rf-tokenize --bytes a.txt 2>err | rf-dump --json | sed 1d >want
	for path in m m/tokenizer_config.json run run/step-000001; do
		rf-tokenize --tokenizer "$path" a.txt 2>err >out.rf
		rf-dump --json out.rf | sed 1d | sed 's/"xxh64":.*//' | cmp - <(sed 's/"xxh64":.*//' want)
		rf-dump --json out.rf | sed 1q |
			grep -q '"tokenizer":{"kind":"bytes","hash":"2d83aaba506794c4"}'
	done
	echo '{"tokenizer_class":"LlamaTokenizer"}' >other/tokenizer_config.json
	run -78 --separate-stderr rf-tokenize --tokenizer other a.txt
	said="it names the kind 'LlamaTokenizer', but there is no tokenizer.json or tokenizer.model"
	said+=' next to it'
	[ "$stderr" = "rf-tokenize: other/tokenizer_config.json: $said" ]
	echo '{"model":{"type":"Unigram"}}' >other/tokenizer.json
	run -78 --separate-stderr rf-tokenize --tokenizer other/tokenizer.json a.txt
	said="tokenizers of the kind 'Unigram' are not supported, only BPE and SentencePiece;"
	said+=' rf-tokenize --format ids --vocab N takes ids made with another program'
	[ "$stderr" = "rf-tokenize: other/tokenizer.json: $said" ]
	# a file of ids needs only the tokenizer's name, hash and size of vocabulary
	echo '{"tokens":[1,39]}' >x.ids
	cp "$G/delta/config.json" other
	rf-tokenize --tokenizer other -o out.rf x.ids 2>err
	hash=$(rf-dump --json out.rf | head -n 1 | jq -r .body.tokenizer.hash)
	[ "$(rf-dump --json out.rf | head -n 1 | jq -c '.body | .vocab, .tokenizer')" = \
		$'40\n{"kind":"Unigram","hash":"'"$hash"'"}' ]
	[ "$(rf-dump --json out.rf | head -n 1 | jq -r '.body.tokenizer.hash | length')" -eq 16 ]
	rf-tokenize --tokenizer other --format ids <x.ids 2>err | rf-dump --json | sed '1d;$d' |
		diff - <(rf-dump --json out.rf | sed '1d;$d')
	rm other/config.json
	mentions 64 "token ids need a vocabulary size: use --vocab, or " rf-tokenize --tokenizer other x.ids
	rf-tokenize --tokenizer other --vocab 50 x.ids 2>err | rf-dump --json | head -n 1 |
		grep -q '"vocab":50'
	: >sp/tokenizer.model
	run -65 --separate-stderr rf-tokenize --tokenizer sp a.txt
	[[ "$stderr" == "rf-tokenize: sp/tokenizer.model: not a SentencePiece model: "* ]]
	run -78 rf-tokenize --tokenizer empty a.txt
	[[ "$output" == *"; the byte tokenizer needs no files (rf-tokenize --bytes, rf-dump --tokenizer "* ]]
	echo '{' >empty/tokenizer.json
	run -65 rf-tokenize --tokenizer empty a.txt
	run -66 rf-tokenize --tokenizer missing a.txt
}

@test "rf-tokenize: token ids may use the whole vocabulary of the model, with a smaller tokenizer or none" {
	head_of() { rf-dump --json "$1" | head -n 1 | jq -c '.body | .vocab, .tokenizer'; }
	jq '.vocab_size = 400' "$G/delta/config.json" >config.json
	rf-init --config config.json ckpt
	rf-init --from ckpt run
	echo '{"tokens":[1,399]}' >x.ids
	echo '{"tokens":[1,400]}' >y.ids
	for path in ckpt run run/step-000000; do
		rf-tokenize --tokenizer $path -o out.rf x.ids
		[ "$(head_of out.rf)" = $'400\nnull' ]
		rf-entropy -m ckpt out.rf | rf-dump --check
		run -65 --separate-stderr rf-tokenize --tokenizer $path -o no y.ids
		said="'tokens' has 400 at index 1, outside the vocabulary of 400"
		[ "$stderr" = "rf-tokenize: y.ids: line 1: $said$skips" ]
	done
	rf-tokenize --tokenizer ckpt --format ids <x.ids | rf-dump --check
	# the vocabulary is padded: 384 tokens have a name, 16 have none
	echo '{"tokenizer_class":"ByT5Tokenizer","extra_ids":125}' >ckpt/tokenizer_config.json
	echo ab >a.txt
	bytes=$'\n{"kind":"bytes","hash":"2d83aaba506794c4"}'
	for path in ckpt ckpt/tokenizer_config.json; do
		rf-tokenize --tokenizer $path -o out.rf x.ids a.txt
		[ "$(head_of out.rf)" = "400$bytes" ]
		rf-entropy -m ckpt out.rf | rf-dump --check
		run -65 rf-tokenize --tokenizer $path -o no y.ids
		rf-tokenize --tokenizer $path -o out.rf a.txt
		[ "$(head_of out.rf)" = "384$bytes" ]
	done
	# a config.json of another kind of model is refused
	rm ckpt/tokenizer_config.json
	jq '.model_type = "other"' config.json >ckpt/config.json
	run -78 --separate-stderr rf-tokenize --tokenizer ckpt x.ids
	[[ "$stderr" == "rf-tokenize: ckpt/config.json: "*model_type* ]]
	rf-tokenize --vocab 400 x.ids | rf-dump --check
	says 78 "rf-tokenize: run: there is no tokenizer here ..." rf-tokenize --tokenizer run -o no a.txt
}

@test "rf-tokenize: wrong options exit 64, and the message says which option is missing or excluded" {
	printf 'ab' >a.txt
	printf '{"tokens":[1]}\n' >a.ids
	usage() {
		says 64 "rf-tokenize: $1" rf-tokenize "${@:2}"
		[ -z "$output" ]
	}
	usage "text needs a tokenizer: use --bytes or --tokenizer" a.txt
	usage "text needs a tokenizer: use --bytes or --tokenizer" --vocab 4 a.txt
	usage "token ids need a vocabulary size: use --vocab, or --tokenizer of a model" a.ids
	usage "--vocab cannot be combined with a tokenizer" --bytes --vocab 5 a.ids
	usage "--bytes cannot be combined with --tokenizer (try --help)" --bytes --tokenizer m a.txt
	usage "--text-key cannot be combined with --prompt-key (try --help)" --bytes \
		--text-key a --prompt-key b a.jsonl
	usage "--truncate requires --max-len or --max-prompt" --bytes --truncate left a.txt
	usage "--truncate middle requires --max-prompt" --bytes --max-len 3 --truncate middle a.txt
	usage "--truncate split cannot be combined with --max-prompt" --bytes --prompt-key p \
		--max-prompt 3 --truncate split
	usage "--max-prompt cannot be combined with --max-len" --bytes --prompt-key p --max-prompt 3 \
		--max-len 4
	usage "--max-prompt requires --prompt-key (try --help)" --bytes --max-prompt 3 a.txt
	usage "--max-answer requires --answer-key (try --help)" --bytes --prompt-key p --answers-key a \
		--max-answer 3
	usage "--min-len 5 is more than --max-len 4" --bytes --min-len 5 --max-len 4 a.txt
	usage "--split valid requires --valid-every" --bytes --split valid a.txt
	usage "--answer-key requires --prompt-key" --bytes --answer-key a
	usage "--answers-key requires --prompt-key" --bytes --answers-key a
	usage "--prompt-suffix-key requires --prompt-key" --bytes --prompt-suffix-key a
	usage "--choices-key requires --prompt-key" --bytes --choices-key a
	usage "--choices-key cannot be combined with --answer-key" --bytes --prompt-key p --answer-key a \
		--choices-key b
	usage "--choices-key: the choices follow the end of the prompt, of which --max-len can only cut \
the left side" --bytes --prompt-key p --choices-key c --max-len 3 --truncate split
	usage "--answers-key cannot be combined with --answer-key" --bytes --prompt-key p --answer-key a \
		--answers-key b
	usage "--answer-prefix requires --answer-key or --choices-key" --bytes --prompt-key p \
		--answers-key a --answer-prefix :
	usage "two options name the same key 'q'" --bytes --prompt-key q --prompt-suffix-key q
	usage "two options name the same key 'a'" --bytes --prompt-key q --answers-key a --source-key a
	usage "--source cannot be combined with --source-key" --bytes --source --source-key a
	usage "two options name the same key 'q'" --bytes --prompt-key q --answer-key q
	usage "--meta-key: a key is empty or longer than 255 bytes" --bytes --meta-key a,
	usage "'a.txt': a text file has no keys: --prompt-key, --meta-key and --source-key are for jsonl" \
		--bytes --meta-key a a.txt
	usage "'a.ids': --prompt-key is for jsonl, not for ids" --bytes --prompt-key a a.ids
	run -64 rf-tokenize --bytes --max-len 0x a.txt
	run -64 rf-tokenize --bytes --truncate centre a.txt
}

@test "rf-tokenize: a missing file exits 66 before anything is written" {
	printf 'ab' >a.txt
	says 66 "rf-tokenize: missing.txt: No such file or directory" rf-tokenize --bytes a.txt missing.txt
	mkdir 'a folder'
	run -66 --separate-stderr rf-tokenize --bytes 'a folder'
	[ "$stderr" = "rf-tokenize: a folder: a folder: name its files, such as a folder/*.txt" ]
	[ -z "$output" ]
	run -66 rf-tokenize --bytes --format text .
}

@test "rf-tokenize: damaged and truncated .zst files are errors" {
	printf '{"text":"abcdefgh"}\n' | zstd -q >a.jsonl.zst
	head -c 20 a.jsonl.zst >b.jsonl.zst
	run -65 --separate-stderr rf-tokenize --bytes b.jsonl.zst
	[ "$stderr" = "rf-tokenize: b.jsonl.zst: truncated: it ends inside a zstd frame" ]
	{ head -c 20 a.jsonl.zst; printf 'x'; tail -c +22 a.jsonl.zst; } >c.jsonl.zst
	says 65 "rf-tokenize: c.jsonl.zst: zstd: ..." rf-tokenize --bytes c.jsonl.zst
}

@test "rf-tokenize: a line, a text or a record over --max-record is an error that names the limit" {
	head -c 70000 /dev/zero | tr '\0' 'a' >a.txt
	{ printf '{"text":"a"}\n{"text":"'; cat a.txt; printf '"}\n'; } >a.jsonl
	run -65 --separate-stderr rf-tokenize --bytes --max-record 64k a.jsonl
	[ "$stderr" = "rf-tokenize: a.jsonl: line 2 is longer than 65536 bytes (raise --max-record)" ]
	run -65 --separate-stderr rf-tokenize --bytes --max-record 64k a.txt
	[ "$stderr" = "rf-tokenize: a.txt: the text is longer than 65536 bytes (raise --max-record)" ]
	run -65 --separate-stderr rf-tokenize --bytes --max-record 100k a.txt
	said='a record of 70001 tokens would be longer than 102400 bytes (raise --max-record, or cut the '
	[[ "$stderr" == "rf-tokenize: a.txt: $said"* ]]
	rf-tokenize --bytes --max-record 100k --max-len 20000 --truncate split a.txt 2>err |
		rf-dump --json --max-record 100k >/dev/null
}

@test "rf-tokenize: a line of millions of JSON objects needs less than 150 MB of memory" {
	[[ $RF_BIN != *sanitize* ]] || skip "address space is no measure here"
	# parsed into a tree, the line would take 2 GB
	{ printf '{"text":"a","x":['; yes '{}' | head -n 8000000 | tr '\n' ','; printf '0]}\n'; } >a.jsonl
	run -0 bash -c 'ulimit -v 150000 && rf-tokenize --bytes -o a.rf a.jsonl'
	run -65 bash -c 'ulimit -v 150000 && rf-tokenize --bytes --meta-key x -o b.rf a.jsonl'
}

@test "rf-tokenize: the file of -o is replaced by a whole stream or not at all" {
	printf '{"text":"a"}\n' >a.jsonl
	rf-tokenize --bytes a.jsonl 2>err >want
	rf-tokenize --bytes -o out.rf a.jsonl 2>err
	cmp out.rf want
	echo '{' >>a.jsonl
	run -65 rf-tokenize --bytes -o out.rf a.jsonl
	cmp out.rf want
	run -65 rf-tokenize --bytes -o new.rf a.jsonl
	[ "$(echo ./*)" = "./a.jsonl ./err ./out.rf ./want" ]
}

@test "rf-tokenize: after an error the stream on standard output has no end record" {
	printf '{"text":"a"}\n{\n' >a.jsonl
	run -65 bash -c 'rf-tokenize --bytes a.jsonl >out.rf'
	says 65 "...the end record is missing..." rf-dump --json out.rf
}

@test "rf-tokenize: keeps the promises of a filter that concern usage, output and signals" {
	printf '{"text":"abc"}\n{"text":"d"}\n' >a.jsonl
	for name in help usage full reader output direct terminal_out term; do
		promise "$name" filter a.jsonl rf-tokenize --bytes
	done
}

@test "rf-tokenize: waits for input if standard input is non-blocking" {
	cat >unblocked.py <<-'END'
		import fcntl, os, sys
		fcntl.fcntl(0, fcntl.F_SETFL, os.O_NONBLOCK)
		os.execvp(sys.argv[1], sys.argv[1:])
	END
	{ sleep 0.3; echo '{"text":"a"}'; sleep 0.3; echo '{"text":"b"}'; } |
		python3 unblocked.py rf-tokenize --bytes -o out.rf
	[ "$(rf-dump --check out.rf)" = "out.rf: ok, 2 records, $(stat -c %s out.rf) bytes" ]
}

@test "rf-tokenize: tokenizer.json and tokenizer.model take precedence over a config that names another" {
	jq '.vocab_size = 33000' "$G/delta/config.json" >config.json
	rf-init --config config.json m
	hash() { rf-dump m | sed -n 's/^tokenizer  *//p'; }
	ids() { rf-tokenize "$@" a.txt | rf-dump --json | jq -c 'select(.seq == 1) | .body.tokens.data'; }
	echo a >a.txt
	[ -z "$(hash)" ]
	echo '{"tokenizer_class":"LlamaTokenizer"}' >m/tokenizer_config.json
	[ -z "$(hash)" ]
	echo '{"tokenizer_class":"ByT5Tokenizer"}' >m/tokenizer_config.json
	[ "$(hash)" = 2d83aaba506794c4 ]
	rf-tokenize --tokenizer m -o out.rf a.txt
	cp "$G/tokenizer/tokenizer.model" m
	model=$(hash)
	[ "$model" != 2d83aaba506794c4 ]
	[ "$(ids --tokenizer m)" = "[264,13,2]" ]
	zstd -dcq "$G/tokenizer/gpt2.json.zst" >m/tokenizer.json
	[ "$(hash)" != "$model" ]
	[ "$(ids --tokenizer m)" = "[64,198]" ]
	[ "$(ids --tokenizer m/tokenizer.model)" = "[264,13,2]" ]
}

@test "rf-tokenize: --bos begins each document with the token that the tokenizer names" {
	mkdir m
	printf '{"text":"ab ab ab"}\n{"text":"b"}\n' >a.jsonl
	zstd -dcq "$G/tokenizer/llama2.json.zst" >m/tokenizer.json
	firsts() {
		rf-tokenize "$@" a.jsonl 2>/dev/null | rf-dump --json |
			jq -c 'select(.type == "seq") | .body.tokens.data[0]' | paste -sd' '
	}
	[ "$(firsts --tokenizer m)" = "$(firsts --tokenizer m --bos no)" ]
	[ "$(firsts --tokenizer m --bos auto)" = "1 1" ]
	[ "$(firsts --tokenizer m --bos yes)" = "1 1" ]
	# the token begins the document, not each of its pieces
	[[ "$(firsts --tokenizer m --bos yes --max-len 2 --truncate split)" =~ ^1\ [^1]* ]]
	jq '.post_processor = null' m/tokenizer.json >m/none.json
	mv m/none.json m/tokenizer.json
	[ "$(firsts --tokenizer m --bos auto)" = "$(firsts --tokenizer m)" ]
	says 64 "rf-tokenize: --bos yes: the tokenizer has no bos token" \
		rf-tokenize --tokenizer m --bos yes a.jsonl
	echo '{"bos_token": "<s>"}' >m/tokenizer_config.json
	[ "$(firsts --tokenizer m --bos yes)" = "1 1" ]
	[ "$(firsts --tokenizer "$G/tokenizer/tokenizer.model" --bos yes)" = "1 1" ]
	run -64 rf-tokenize --bytes --bos yes a.jsonl
}

@test "rf-tokenize: --bos auto puts the tokens of the post-processor before a text" {
	local n=0 files
	mkdir m
	echo '{"p":"a"}' >a.jsonl
	zstd -dcq "$G/tokenizer/gpt2.json.zst" | jq -c '.model |=
		(.vocab |= with_entries(select(.value < 256 or .value == 50256)) | .merges = [])' >good.json
	special='def s: {SpecialToken: {id: ., type_id: 0}}; def a: {Sequence: {id: "A", type_id: 0}};
		def b: {Sequence: {id: "B", type_id: 0}};
		def t(l): {type: "TemplateProcessing", single: l, pair: [a, b],
			special_tokens: {g: {id: "g", ids: [7], tokens: ["g"]},
				s: {id: "s", ids: [8], tokens: ["s"]},
				two: {id: "two", ids: [5, 6], tokens: ["x", "y"]}}};
		def around(n): {type: n, cls: ["<s>", 7], sep: ["</s>", 9]};
		def q(l): {type: "Sequence", processors: l}; def bl: {type: "ByteLevel"};'
	# processors NAME: makes good.json with each post-processor of the table on standard input
	processors() { tr '!' '|' | sed 's/.*/.post_processor = (&)/' | variants good.json "$1" "$special"; }
	# PROCESSOR|IDS; tokenizers 0.23 puts these ids before a text
	cat >table <<-'END'
		t(["g", "s" ! s] + [a])|7,8
		t(["two" ! s] + [a])|5,6
		t([a] + ["s" ! s])|
		around("BertProcessing")|7
		around("RobertaProcessing")|7
		bl|
		q([bl, q([t(["g", "s" ! s] + [a]), bl])])|7,8
		q([t(["g" ! s] + [a]), (t(["s" ! s] + [a]) ! .pair = .single + [b])])|8,7
		q([t(["g" ! s] + [a]), t(["s" ! s] + [a])])|7
		q([t(["g" ! s] + [a]), around("RobertaProcessing")])|7,7,9,9
		q([t(["g" ! s] + [a]), around("BertProcessing")])|7,7,9
		q([around("BertProcessing"), t(["s" ! s] + [a])])|8,7
	END
	cut -d '|' -f 1 table | processors right.
	files=(right.*)
	while IFS='|' read -r processor want; do
		mv "${files[n++]}" m/tokenizer.json
		have=$(rf-tokenize --tokenizer m --bos auto --prompt-key p a.jsonl 2>err | rf-dump --json |
			sed -n 's/.*"type":"seq".*"tokens":{[^}]*"data":\(\[[^]]*\]\).*/\1/p')
		[ "$have" = "[${want:+$want,}64]" ] || { echo "$processor: $have"; return 1; }
	done <table
	[ "$n" -eq 12 ]
	# STATUS|PROCESSOR|WORDS
	cat >table <<-'END'
		78|t([])|a post-processor that puts the text nowhere is not supported
		78|t([a, a])|a post-processor that puts the text several times is not supported
		78|q([t(["g", "s" ! s] + [a]), t([a])])|TemplateProcessing after another post-processor
		65|t(["h" ! s] + [a])|the template's token 'h' has no list of ids among the special_tokens
		65|t([b])|the template has a Sequence that it is not given
		65|t([a]) ! del(.single)|the key 'single' is missing
		65|around("BertProcessing") ! .cls = 5|'cls' is not a list of a name and an id
		65|around("BertProcessing") ! .cls[1] = 99999|the post-processor puts the id 99999 before
	END
	cut -d '|' -f 2 table | processors wrong.
	files=(wrong.*) n=0
	while IFS='|' read -r status processor said; do
		mv "${files[n++]}" m/tokenizer.json
		run -$status --separate-stderr \
			rf-tokenize --tokenizer m --bos auto -o never --prompt-key p a.jsonl
		[[ "$stderr" == "rf-tokenize: m/tokenizer.json: "*"$said"* ]] || { echo "$stderr"; return 1; }
	done <table
	[ "$n" -eq 8 ]
}

@test "rf-tokenize: --threads changes neither the stream nor which of two bad documents is named" {
	zstd -dcq "$G/tokenizer/gpt2.json.zst" >tokenizer.json
	awk 'BEGIN {
		srand(2)
		for (i = 0; i < 2500; i++) {
			text = ""
			for (n = rand() * rand() * 300; n > 0; n--)
				text = text (rand() < 0.3 ? "\\n" : " word") int(1000 * rand())
			printf "{\"q\":\"%s?\",\"a\":[\"%d\",\"b\"],\"n\":[%d],\"s\":\"%d\"}\n", text, i, i, i
		}
	}' >a.jsonl
	[ "$(stat -c %s a.jsonl)" -gt 1200000 ] # more than one batch
	awk 'BEGIN { for (i = 0; i < 3000; i++) print "{\"tokens\":[" i ",2,3]}" }' >b.ids
	head -c 100000 a.jsonl >c.txt
	encode() { rf-tokenize --tokenizer tokenizer.json --threads "$@"; }
	same() {
		encode 1 "$@" 2>err >want
		for n in 3 ${RF_ALL:+2}; do
			encode $n "$@" 2>err.$n | cmp want
			cmp err err.$n
		done
	}
	same --prompt-key q --answer-key a --meta-key n --source-key s --max-answer 1 --valid-every 3 a.jsonl
	[ "$(rf-dump --tsv --rows record --columns id --no-header want | wc -l)" = 1666 ]
	same --text-key q --max-len 50 --truncate split --source a.jsonl b.ids c.txt
	# a document is too long, and a later line is not JSON
	long=$(printf 'word %.0s' $(seq 2000))
	sed "2010s/.*/{/; 2000s/\"q\":\"/&$long/" a.jsonl >bad.jsonl
	for n in 1 2; do
		run -65 --separate-stderr encode $n --text-key q --max-len 1900 -o no bad.jsonl
		[[ "$stderr" == "rf-tokenize: bad.jsonl: line 2000: the document has "* ]]
	done
	says 65 "rf-tokenize: bad.jsonl: line 2010: not JSON: ..." encode 2 --text-key q -o no bad.jsonl
	sed '40s/,3/,99999/; 44s/,3/,x/' b.ids >bad.ids
	run -65 --separate-stderr encode 2 -o no bad.ids
	[[ "$stderr" == "rf-tokenize: bad.ids: line 40: 'tokens' has 99999 at index 2, outside "* ]]
}

@test "rf-tokenize: writes a record as soon as its line has arrived" {
	mkfifo in
	rf-tokenize --bytes <in >out.rf 2>err &
	exec 9>in
	echo '{"text":"a"}' >&9
	for _ in $(seq 100); do
		[ "$(zstd -dc 2>/dev/null <out.rf | grep -ac '"*seq')" = 0 ] || break
		sleep 0.05
	done
	zstd -dc 2>/dev/null <out.rf | grep -aq 'seq'
	exec 9>&-
	wait $!
}

@test "rf-tokenize: the examples of the man page run" {
	mkdir corpus
	for i in 1 2 3 4 5 6 7 8 9 10 11; do head -c 3000 /dev/zero | tr '\0' 'm' >corpus/$i.txt; done
	printf '{"prompt":"q","answers":["a","b"],"task":"t"}\n' | zstd -q >qa.jsonl.zst
	printf '{"input":"q","answer_prefix":":","outputs":["a","b"]}\n' >ruler.jsonl
	printf '{"question":"q","choices":["a","b"],"gold":1}\n' >arc.jsonl
	jq -nc '(16384, 16385) as $n | {prompt: ("a" * $n), answers: ["b"]}' >longbench.jsonl
	printf 'a "line"\nand one\n' >lines
	printf '{"tokens":[31999]}\n' | zstd -q >corpus.ids.zst
	man=$ROOT/man/rf-tokenize.1
	sed -n '/^\.Sh EXAMPLES/,/^\.Sh SEE/p' "$man" |
		sed -n '/^\.Bd/,/^\.Ed/{/^\./!{s/\\e$/\\/;p}}' >examples
	[ "$(grep -c rf-tokenize examples)" = 11 ]
	# without the commands for data that are not here; examples.bats runs chat.py
	sed -e ':next' -e '/\\$/{N;b next' -e '}' -e '/parquet/d; /test.jsonl.zst/d; /chats/d' examples >typed
	command -v jq >/dev/null || sed -i '/jq/d' typed
	bash -eu -o pipefail typed >out 2>err
	[ "$(grep -c ' 0 dropped; ' err)" -ge 6 ]
	[ "$(rf-dump --json questions.rf | grep -c '"prompt_len":1,"answers":\["a","b"\]')" = 1 ]
	[ "$(rf-dump --json train.rf | grep -c '"type":"seq"')" = 18 ]
	[ "$(rf-dump --json valid.rf | grep -c '"type":"seq"')" = 4 ]
	[ "$(rf-dump --tsv --rows record --columns T --no-header short.rf)" = 16384 ]
}
