#!/usr/bin/env bats
# Limits on files from elsewhere that make a short text long or a program slow.

setup() {
	load ../helper
	echo '{"text":"ab!a!a"}' >a.jsonl
}

# bomb FILTER: makes bomb.json, a tokenizer of the letters a to e and !, changed by a program of jq
bomb() {
	jq -nc '{model: {type: "BPE", vocab: {a: 0, b: 1, c: 2, d: 3, e: 4, "!": 5}, merges: []}}
		| def replace($a; $b): {type: "Replace", pattern: {String: $a}, content: $b};
		def all($l): {type: "Sequence", normalizers: $l};
		def prepend: .normalizer = {type: "Prepend", prepend: ("a" * 40000)};
		def many: .added_tokens = [range(6; 5000) | {id: ., content: "<\(.)>", normalized: true}];
		'"$1" >bomb.json
}

# bounded STATUS WORDS COMMAND...: succeeds if the command, in little time and memory, exits with this status
# and a last line that has the words
bounded() {
	run "-$1" bash -c 'ulimit -v 600000; timeout 20 "$@"' x "${@:3}" 2>&1
	[[ "${lines[-1]}" == *"$2"* ]] || { echo "${*:3}: $output"; return 1; }
}

@test "bounds: a tokenizer.json that makes a short text long is refused before it takes memory" {
	grew='the normalizer: it makes more of the text than 16 times its bytes and 65536 bytes'
	# STATUS@FILTER@WORDS
	while IFS='@' read -r status filter said; do
		bomb "$filter"
		bounded "$status" "${said:-$grew}" rf-tokenize --tokenizer bomb.json -o out a.jsonl
		[ ! -e out ]
	done <<-'END'
		65@.normalizer = all([range(40) | replace("a"; "aa")])
		65@.normalizer = all([replace("a"; "b" * 1000000), replace("b"; "c" * 1000000)])
		65@.normalizer = all([range(600) | {type: "Prepend", prepend: ("a" * 200)}])
		65@.normalizer = all([replace("a"; "\ufdfa" * 6000), {type: "NFKC"}])
		65@.normalizer = all([replace("a"; "\u023a" * 14000), {type: "Lowercase"}])
		65@prepend | .added_tokens = [{id: 5, content: "!"}]
		65@prepend | many@the normalizer makes more than 67108864
		78@.normalizer = all([range(1001) | {type: "NFC"}])@more than 1000 normalizers are not
	END
}

@test "bounds: a pre-tokenizer that makes more tokens than a text may have is refused with 65" {
	bomb '.pre_tokenizer = {type: "Sequence", pretokenizers: [("ABCDEFGH" / "")[] |
			{type: "Split", pattern: {Regex: "."}, behavior: "Isolated", invert: false},
			{type: "Metaspace", replacement: ., prepend_scheme: "always", split: false}]}
		| .model.vocab += ("ABCDEFGH" / "" | to_entries | map({key: .value, value: (.key + 6)})
			| from_entries)'
	jq -nc '{text: ("ab!" * 1000)}' >long.jsonl
	bounded 65 'the pre-tokenizer makes more than 113536 tokens of the text' \
		rf-tokenize --tokenizer bomb.json -o out long.jsonl
	rf-tokenize --tokenizer bomb.json -o out a.jsonl
}

@test "bounds: a normalizer may make a short text 65536 bytes longer, and a long one 16 times as long" {
	bomb '.normalizer = {type: "Prepend", prepend: ("b" * 65000)}'
	rf-tokenize --tokenizer bomb.json --no-eos a.jsonl | rf-dump --json |
		jq -se '.[1].body.tokens.data | length == 65006'
	bomb '.normalizer = replace("a"; "b" * 16)'
	jq -nc '{text: ("a" * 100000)}' >long.jsonl
	rf-tokenize --tokenizer bomb.json --no-eos long.jsonl | rf-dump --json |
		jq -se '.[1].body.tokens.data | length == 1600000'
}

@test "bounds: a decoder that makes a short text long is refused with 65 before it takes memory" {
	bomb '.decoder = {type: "Sequence", decoders: [range(8) | replace("a"; "a" * 60000)]}'
	mkdir tok
	mv bomb.json tok/tokenizer.json
	echo '{"model_type":"delta_net","hidden_size":32,"num_hidden_layers":1,"num_heads":2,"hidden_ratio":2,
		"vocab_size":6,"eos_token_id":5,"conv_size":4}' >t.json
	rf-init --config t.json --tokenizer tok ckpt
	echo '{"prompt":"a"}' >p.jsonl
	rf-tokenize --tokenizer ckpt --prompt-key prompt --no-eos -o p.rf p.jsonl
	bounded 65 'the decoder: it makes more of the text than 16 times its bytes and 65536 bytes' \
		rf-generate -m ckpt --temperature 1 -n 50 --max-new 3 -o out p.rf
}

@test "bounds: an id that two tokens would share is refused, in whatever order the file names them" {
	while IFS='@' read -r filter said; do
		bomb "$filter"
		bounded 78 "$said" rf-tokenize --tokenizer bomb.json -o out a.jsonl
	done <<-'END'
		.added_tokens = [{id: 0, content: "qq"}]@the id 0 of the added token 'qq' is
		.model.vocab += {"!": 6, x: 7} | .added_tokens = [{id: 7, content: "qq"}]@the id 7 of
		.added_tokens = [{id: 9, content: "a"}]@the added token 'a' has the id 9, but 0, too
	END
	bomb '.model.vocab.e = 6'
	mkdir tok
	mv bomb.json tok/tokenizer.json
	echo '{"eos_token":"qq","added_tokens_decoder":{"9":{"content":"qq"}}}' >tok/tokenizer_config.json
	bounded 78 "the id 6, which the token 'qq' would get as the next one, is another token's" \
		rf-tokenize --tokenizer tok -o out a.jsonl
}

# models MODEL: makes copies of MODEL, each with a charsmap or with symbols added
models() {
	python3 - "$@" <<-'END'
		import struct, sys
		def number(n):
		    out = b""
		    while n > 127:
		        out, n = out + bytes([n & 127 | 128]), n >> 7
		    return out + bytes([n])
		def field(i, b): return bytes([i << 3 | 2]) + number(len(b)) + b
		def piece(text, kind): return field(1, field(1, text) + b"\x15\0\0\0\0\x18" + bytes([kind]))
		# a trie of one key of n bytes, whose prefixes of at least `first` bytes are keys, too
		def path(n, first, text):
		    units, at, label = [1 << 31] * (256 * (n + 2)), 0, 0
		    for k in range(n + 1):
		        base = 256 * (k + 1)
		        units[at] = (at ^ base) << 10 | (k and k >= first) << 8 | label
		        label = k + 1 & 255
		        at = base ^ label
		    trie = struct.pack("<%dI" % len(units), *units)
		    return struct.pack("<I", len(trie)) + trie + text + b"\0"
		def changed(m, at, unit):
		    return m[:4 + 4 * at] + struct.pack("<I", unit) + m[8 + 4 * at:]
		maps = {
		    "good": path(32, 1, b"x" * 64), "long": path(250, 250, b"x"), "rules": path(33, 1, b"x"),
		    "text": path(2, 1, b"x" * 65), "key": path(257, 257, b"x"), "short": b"\0\0\0",
		    "size": struct.pack("<I", 1022) + b"\0" * 2000,
		    "beyond": struct.pack("<I", 4096) + b"\0" * 99,
		    "none": struct.pack("<I", 0) + b"\0", "open": path(2, 1, b"x")[:-1],
		    "outside": changed(path(2, 1, b"x"), 0, 1 << 30),
		    "far": changed(path(2, 1, b"x"), 0, (256 * 4) << 10),
		    "value": changed(path(2, 1, b"x"), 512, 1 << 31 | 2),
		    "circle": changed(path(2, 2, b"x"), 256 ^ 1, 1 | 1 << 10),
		    "random": struct.pack("<I", 1024) + b"ABCD" * 256 + b"zz",
		}
		good = open(sys.argv[1], "rb").read()
		for name, m in maps.items():
		    for which, i in ("normalizer", 3), ("denormalizer", 5):
		        open(f"{which}-{name}.model", "wb").write(good + field(i, field(2, m)))
		for n in 64, 65:
		    more = b"".join(piece(b"\x01" * k, 4) for k in range(2, n + 2))
		    open(f"symbols-{n}.model", "wb").write(good + more)
	END
}

@test "bounds: a tokenizer.model whose charsmap or symbols lead outside themselves is refused with 65" {
	models "$G/tokenizer/tokenizer.model"
	jq -nc '{text: (([range(1; 256)] | implode) + "\u0001" * 300)}' >b.jsonl
	while read -r name said; do
		for which in normalizer denormalizer; do
			bounded 65 "not a SentencePiece model: the precompiled_charsmap of its $which $said" \
				rf-tokenize --tokenizer "$which-$name.model" -o out b.jsonl
			[ ! -e out ]
		done
	done <<-'END'
		rules has more than 32 rules of which each begins the next
		text has a text of more than 64 bytes
		size gives a wrong size of its trie
		beyond gives a wrong size of its trie
		none gives a wrong size of its trie
		open does not end its last text
		short is cut
		key has a key that is too long, or a circle
		far leads outside its trie
		outside leads outside its trie
		value leads outside its texts
		circle has a key that is too long, or a circle
		random does not end its last text
	END
	bounded 65 'more than 64 of its user-defined symbols begin one another' \
		rf-tokenize --tokenizer symbols-65.model -o out b.jsonl
	for name in normalizer-good denormalizer-good normalizer-long denormalizer-long symbols-64; do
		rf-tokenize --tokenizer "$name.model" b.jsonl | rf-dump --tokenizer "$name.model" >/dev/null
	done
}

@test "bounds: rf-needle's error for a long line does not name --max-record, an option that it lacks" {
	head -c 70000 /dev/zero | tr '\0' x >line
	bounded 65 'line: line 1 is longer than 65536 bytes' rf-needle --task niah_single_1 --length 1k -n 1 \
		--tokenizer bytes --adjectives line
	[[ "$output" != *--max-record* ]]
}

# texts PRED REFERENCE [MORE]: prints a line of a file of predictions; the values are expressions of jq
texts() { jq -nc "{task: \"x\", pred: ($1), answers: [$2]${3:+, $3}}"; }

@test "bounds: rf-score refuses a question that takes too long with 65, and names line, metric and lengths" {
	words='[range(150000) | . % 977 | tostring] | join(" ")'
	texts '"ab" * 150000' '"ba" * 150000 + "c"' >chars.jsonl
	texts "$words" "\"w \" + ($words)" >words.jsonl
	# METRIC FILE LENGTHS
	while read -r metric file said; do
		texts '"a"' '"a"' | cat - "$file.jsonl" >in.jsonl
		bounded 65 "in.jsonl: line 2: the metric $metric takes too long for a prediction of $said" \
			rf-score --metric "$metric" in.jsonl
	done <<-'END'
		levenshtein chars 300000 characters and reference 1, which has 300001
		rouge words 583059 characters and reference 1, which has 583061
	END
	for metric in f1 all part; do
		for file in chars words; do
			run -0 bash -c 'ulimit -v 600000; timeout 20 "$@"' x \
				rf-score --metric $metric $file.jsonl
		done
	done
}

@test "bounds: rf-score --metric rouge compares two texts of 20,000 words in little memory" {
	texts '[range(20000) | . % 977 | tostring] | join(" ")' \
		'[range(20000) | . * 7 % 983 | tostring] | join(" ")' >words.jsonl
	run -0 bash -c 'ulimit -v 600000; rf-score --metric rouge words.jsonl'
	[ "$(jq .score <<<"$output")" = 21.326530112249596 ]
}

@test "bounds: the fuzzing corpora of readers of tokenizers, scores and needles pass their fuzz targets" {
	for target in sentencepiece sidecars score needle; do
		[ -x "$RF_UNITS/fuzz/$target" ] || skip "the fuzz targets are not built"
		replay "$target" "$ROOT/t/fuzz/corpus/$target"/*
	done
}
