#!/usr/bin/env bats

setup() {
	load helper
	load promises
}

@test "tokenizers: every file of the fuzzing corpus of tokenizer.json passes the fuzz target" {
	[ -x "$RF_UNITS/fuzz/tokenizer" ] || skip "the fuzz targets are not built"
	replay tokenizer "$ROOT"/t/fuzz/corpus/tokenizer/*
}

@test "tokenizers: ids and decoded texts equal those of the Rust library and of SentencePiece" {
	for kind in gpt2 qwen2 qwen3_5 llama3 llama2 mistral; do
		unit tokenizer "$G/tokenizer/$kind.json.zst" "$G/tokenizer/$kind.expected.jsonl.zst"
	done
	unit tokenizer "$G/tokenizer/tokenizer.model" "$G/tokenizer/expected.jsonl.zst"
}

@test "tokenizers: the text of any ids is that of the two libraries, and what is called final of it stays" {
	for kind in gpt2 qwen2 qwen3_5 llama3 llama2 mistral; do
		unit tokenizer "$G/tokenizer/$kind.json.zst" "$G/tokenizer/$kind.text.jsonl.zst"
	done
	unit tokenizer "$G/tokenizer/tokenizer.model" "$G/tokenizer/text.jsonl.zst"
}

@test "patterns: Oniguruma's constructs have the matches that the Rust library finds" {
	run -0 "$RF_UNITS/helper/patterns" "$G/tokenizer/patterns.jsonl"
	diff "$G/tokenizer/patterns.expected" <(echo "$output")
}

@test "patterns: 5,000 random ones divide and replace 20 texts each as the Rust library does" {
	python3 "$ROOT/t/helper/patterns.py" make 2 5000 cases.jsonl
	status=0
	timeout 120 python3 "$ROOT/t/helper/patterns.py" check cases.jsonl >theirs 2>err || status=$?
	[ "$status" -ne 69 ] || skip "Python's tokenizers is not installed"
	[ "$status" -eq 0 ]
	"$RF_UNITS/helper/patterns" cases.jsonl >ours
	[ "$(grep -vc refused ours)" -gt 50000 ]
	# a limit of retries may end one of them earlier
	paste -d '|' ours theirs | awk -F '|' '$1 != $2 && !/fails/ { print NR ": " $0; bad = 1 } END { exit bad }'
}

@test "tokenizers: the end token is the one that tokenizer_config.json or special_tokens_map.json names" {
	mkdir m
	echo ab >a.txt
	zstd -dcq "$G/tokenizer/qwen2.json.zst" >m/tokenizer.json
	last() {
		rf-tokenize -m m a.txt 2>/dev/null | rf-dump --json |
			jq 'select(.type == "seq") | .body.tokens.data[-1]'
	}
	[ "$(last)" -eq 198 ]
	echo '{"eos_token": "<|endoftext|>"}' >m/special_tokens_map.json
	[ "$(last)" -eq 4000 ]
	echo '{"tokenizer_class": "X", "eos_token": {"content": "<|im_end|>"}}' >m/tokenizer_config.json
	[ "$(last)" -eq 4002 ]
}

@test "tokenizers: what is not supported exits 78 by its name, and what is malformed 65 with one line" {
	zstd -dcq "$G/tokenizer/qwen2.json.zst" >good.json
	echo ab >a.txt
	# STATUS|PROGRAM OF JQ|WORDS
	while IFS='|' read -r status program said; do
		jq -c "${program//!/|}" good.json >bad.json
		run -$status --separate-stderr rf-tokenize --tokenizer bad.json a.txt
		[ "${#stderr_lines[@]}" -eq 1 ]
		[[ "$stderr" == "rf-tokenize: bad.json: "*"$said"* ]] ||
			{ echo "$program: $stderr"; return 1; }
	done <<-'END'
		78|.normalizer = {type: "BertNormalizer"}|the normalizer 'BertNormalizer' is not supported
		78|.pre_tokenizer = {type: "UnicodeScripts"}|the pre-tokenizer 'UnicodeScripts' is not
		78|.decoder = {type: "WordPiece"}|the decoder 'WordPiece' is not supported
		78|.model.dropout = 0.1|'dropout' of the model is not supported
		78|.model.type = "WordPiece"|of the kind 'WordPiece'
		78|.pre_tokenizer.pretokenizers[0].pattern.Regex = "a[[:punct:]]"|'[:punct:]' in a pattern is
		78|.pre_tokenizer.pretokenizers[0].pattern.Regex = "\\R+"|'\R' in a pattern is not
		78|.pre_tokenizer.pretokenizers[0].pattern.Regex = "\\P{ W_ord}"|'\p{word}' in a pattern is not
		65|.pre_tokenizer.pretokenizers[0].pattern.Regex = "(a"|a pattern does not compile: end pattern
		65|.pre_tokenizer.pretokenizers[0].pattern.Regex = "[a"|compile: premature end of char-class
		65|.model.merges[7] = ["q", "nothing"]|merge 7: 'q' and 'nothing': the second is no token
		65|.model.merges[3] = "one"|merge 3: 'one' is not two tokens
		65|.model.merges[3] = 5|merge 3: a merge is a number
		65|.model.vocab.again = 0|the id 0 occurs twice
		65|.model.vocab.far = 99999999|is outside 0 to
		65|.model.vocab = []|'vocab' is a list, not an object
		65|del(.model.vocab)|the key 'vocab' is missing
		65|.model.merges = {}|'merges' is an object, not a list
		78|.model.continuing_subword_prefix = "##"|'continuing_subword_prefix' of the model is not
		65|.added_tokens[1].id = 4000|the id 4000 of the added token
		65|.added_tokens[1] = {content: "a", id: 3}|has the id 3, but
		65|.added_tokens = 5|'added_tokens' is a number
	END
	sed 's/"added_tokens"/"normalizer":null,&/' good.json >bad.json
	run -65 --separate-stderr rf-tokenize --tokenizer bad.json a.txt
	[ "$stderr" = "rf-tokenize: bad.json: the key 'normalizer' occurs twice" ]
	head -c 5000 good.json >bad.json
	run -65 --separate-stderr rf-tokenize --tokenizer bad.json a.txt
	[ "${#stderr_lines[@]}" -eq 1 ]
	# a pattern that tries too much
	jq '.pre_tokenizer.pretokenizers[0].pattern.Regex = "(a+a+)+[xy]"' good.json >slow.json
	printf 'a%.0s' $(seq 3000) >a.txt
	run -65 --separate-stderr timeout 60 rf-tokenize --tokenizer slow.json a.txt
	[[ "$stderr" == *"a pattern of the tokenizer fails on the text: retry-limit-in-match over"* ]]
}
