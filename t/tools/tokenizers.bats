#!/usr/bin/env bats
# Tokenizers of Hugging Face and SentencePiece: ids, texts and the files next to tokenizer.json.

setup() {
	load ../helper
	load ../promises
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

@test "tokenizers: any ids have the text of the two libraries, and bytes reported as final never change" {
	for kind in gpt2 qwen2 qwen3_5 llama3 llama2 mistral; do
		unit tokenizer "$G/tokenizer/$kind.json.zst" "$G/tokenizer/$kind.text.jsonl.zst"
	done
	unit tokenizer "$G/tokenizer/tokenizer.model" "$G/tokenizer/text.jsonl.zst"
}

@test "patterns: Oniguruma's constructs have the matches that the Rust library finds" {
	run -0 "$RF_UNITS/helper/patterns" "$G/tokenizer/patterns.jsonl"
	diff "$G/tokenizer/patterns.expected" <(echo "$output")
}

@test "patterns: random patterns divide and replace 20 texts each as the Rust library does" {
	python3 -c 'import tokenizers' 2>/dev/null || skip "Python's tokenizers is not installed"
	[ -n "${RF_ALL:-}" ] && n=5000 || n=1000
	python3 "$ROOT/t/helper/patterns.py" make 2 $n cases.jsonl
	timeout 120 python3 "$ROOT/t/helper/patterns.py" check cases.jsonl >theirs
	"$RF_UNITS/helper/patterns" cases.jsonl >ours
	[ "$(grep -vc refused ours)" -gt $((10 * n)) ]
	# one of the two may reach its limit of retries earlier
	paste -d '|' ours theirs |
		awk -F '|' '$1 != $2 && !/fails/ { print NR ": " $0; bad = 1 } END { exit bad }'
}

@test "tokenizers: the end token is the one that tokenizer_config.json or special_tokens_map.json names" {
	mkdir m
	echo ab >a.txt
	zstd -dcq "$G/tokenizer/qwen2.json.zst" >m/tokenizer.json
	last() {
		rf-tokenize --tokenizer m a.txt 2>/dev/null | rf-dump --json |
			jq 'select(.type == "seq") | .body.tokens.data[-1]'
	}
	[ "$(last)" -eq 198 ]
	echo '{"eos_token": "<|endoftext|>"}' >m/special_tokens_map.json
	[ "$(last)" -eq 4000 ]
	echo '{"tokenizer_class": "X", "eos_token": {"content": "<|im_end|>"}, "added_tokens_decoder": {}}' \
		>m/tokenizer_config.json
	[ "$(last)" -eq 4002 ]
}

@test "tokenizers: an unsupported part is refused by name with 78, and a malformed file with 65" {
	local n=0 bad
	zstd -dcq "$G/tokenizer/qwen2.json.zst" >good.json
	echo ab >a.txt
	# STATUS|PROGRAM OF JQ|WORDS
	cat >table <<-'END'
		78|.normalizer = {type: "BertNormalizer"}|the normalizer 'BertNormalizer' is not supported
		78|.pre_tokenizer = {type: "UnicodeScripts"}|the pre-tokenizer 'UnicodeScripts' is not
		78|.decoder = {type: "WordPiece"}|the decoder 'WordPiece' is not supported
		78|.model.dropout = 0.1|'dropout' of the model is not supported
		78|.model.type = "WordPiece"|of the kind 'WordPiece'
		78|.pre_tokenizer.pretokenizers[0].pattern.Regex = "a[[:punct:]]"|'[:punct:]' in a pattern is
		78|.pre_tokenizer.pretokenizers[0].pattern.Regex = "\\R+"|'\R' in a pattern is not
		78|.pre_tokenizer.pretokenizers[0].pattern.Regex = "\\P{ W_ord}"|'\p{word}' in a pattern is
		65|.pre_tokenizer.pretokenizers[0].pattern.Regex = "(a"|pattern does not compile: end pattern
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
		78|.added_tokens[1] = {content: "a", id: 3}|the added token 'a' has the id 3, but 64, too
		65|.added_tokens = 5|'added_tokens' is a number
		78|.post_processor = {type: "Other"}|the post-processor 'Other' is not supported
		65|.post_processor = 5|a post-processor is a number
	END
	cut -d '|' -f 2 table | tr '!' '|' | variants good.json bad.
	bad=(bad.*)
	while IFS='|' read -r status program said; do
		mv "${bad[n++]}" bad.json
		run -$status --separate-stderr rf-tokenize --tokenizer bad.json a.txt
		[ "${#stderr_lines[@]}" -eq 1 ]
		[[ "$stderr" == "rf-tokenize: bad.json: "*"$said"* ]] ||
			{ echo "$program: $stderr"; return 1; }
	done <table
	[ "$n" -eq 24 ]
	sed 's/"added_tokens"/"normalizer":null,&/' good.json >bad.json
	run -65 --separate-stderr rf-tokenize --tokenizer bad.json a.txt
	[ "$stderr" = "rf-tokenize: bad.json: the key 'normalizer' occurs twice" ]
	head -c 5000 good.json >bad.json
	run -65 --separate-stderr rf-tokenize --tokenizer bad.json a.txt
	[ "${#stderr_lines[@]}" -eq 1 ]
	# a pattern that backtracks too often
	jq '.pre_tokenizer.pretokenizers[0].pattern.Regex = "(a+a+)+[xy]"' good.json >slow.json
	printf 'a%.0s' $(seq 3000) >a.txt
	run -65 --separate-stderr timeout 60 rf-tokenize --tokenizer slow.json a.txt
	[[ "$stderr" == *"a pattern of the tokenizer fails on the text: retry-limit-in-match over"* ]]
}

# small DIR: makes the folder of a byte-level tokenizer with five tokens and the end token <e>, id 5
small() {
	mkdir -p "$1"
	cat >"$1/tokenizer.json" <<-'END'
		{"added_tokens": [{"id": 5, "content": "<e>", "special": true, "single_word": false,
		  "lstrip": false, "rstrip": false, "normalized": false}],
		 "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
		 "decoder": {"type": "ByteLevel"},
		 "model": {"type": "BPE", "vocab": {"a": 0, "<": 1, "n": 2, ">": 3, "b": 4}, "merges": []}}
	END
}

@test "tokenizers: a member of tokenizer.json with a wrong type is refused, as by the Rust library" {
	local n=0 file wrongs
	small m
	echo a >a.txt
	# MEMBER OBJECT WORDS: the object, in which V stands for a value, is this member of tokenizer.json
	cat >table <<-'END'
		decoder {"type":"Strip","content":"a","start":V,"stop":0} 1.0 -1 "1" null
		decoder {"type":"Strip","content":"a","start":0,"stop":V} 1.0 -1 "1" null
		decoder {"type":"Strip","content":V,"start":0,"stop":1} 5 null "" "ab"
		decoder {"type":"Metaspace","replacement":V} 5 null "" "ab"
		decoder {"type":"Metaspace","replacement":"_","prepend_scheme":V} 5 null true
		decoder {"type":"Metaspace","replacement":"_","add_prefix_space":V} 5
		decoder {"type":"Metaspace","replacement":"_","split":V} 5
		decoder {"type":"ByteLevel","add_prefix_space":V,"trim_offsets":true} "x" null
		decoder {"type":"ByteLevel","add_prefix_space":true,"trim_offsets":V} "x" null
		decoder {"type":"Replace","pattern":{"String":"a"},"content":V} 5 null
		decoder {"type":"Replace","pattern":{"String":V},"content":"a"} 5 null
		normalizer {"type":"Strip","strip_left":V,"strip_right":true} "x" null
		normalizer {"type":"Strip","strip_left":true,"strip_right":V} "x" null
		normalizer {"type":"Prepend","prepend":V} 5 null
		pre_tokenizer {"type":"Metaspace","replacement":V} 5 null "" "ab"
		pre_tokenizer {"type":"Metaspace","replacement":"_","prepend_scheme":V} 5 null true
		pre_tokenizer {"type":"Metaspace","replacement":"_","add_prefix_space":V} 5
		pre_tokenizer {"type":"Metaspace","replacement":"_","split":V} 5
		pre_tokenizer {"type":"ByteLevel","add_prefix_space":V,"trim_offsets":true} "x" null
		pre_tokenizer {"type":"ByteLevel","add_prefix_space":true,"use_regex":V} "x" null
		pre_tokenizer {"type":"Digits","individual_digits":V} "x" null
		pre_tokenizer {"type":"Split","pattern":{"String":"a"},"invert":V} "x" null
		pre_tokenizer {"type":"Split","pattern":{"String":"a"},"behavior":V,"invert":true} 5 null
		post_processor {"type":"Sequence","processors":V} 5 null "x"
		post_processor {"type":"TemplateProcessing","single":V,"pair":[]} 5 null "x"
		post_processor {"type":"TemplateProcessing","single":[{"SpecialToken":V}],"pair":[]} 5 null
		post_processor {"type":"TemplateProcessing","single":[{"SpecialToken":{"id":V}}]} 5 null
		model.fuse_unk V 5
		model.byte_fallback V 5
		model.ignore_merges V 5
		added_tokens[0].special V "x" null
		added_tokens[0].single_word V "x" null
		added_tokens[0].lstrip V "x" null
		added_tokens[0].rstrip V "x" null
		added_tokens[0].normalized V "x" null
		added_tokens[0].id V -1 1.0 "5" null 4294967301 -4294967291
	END
	# jq would change some of the numbers
	sed 's/^\([^ ]*\) \([^ ]*\).*/.\1 = \2/; s/V/"@"/' table | variants m/tokenizer.json wrong.
	wrongs=(wrong.*)
	while read -r member object wrong; do
		file=$(<"${wrongs[n++]}")
		for value in $wrong; do
			echo "${file//\"@\"/$value}" >bad.json
			run -65 --separate-stderr rf-tokenize --tokenizer bad.json a.txt
			[[ "$stderr" == "rf-tokenize: bad.json: "*"'"*"' is "* ]] || {
				echo "$object $value: $stderr"
				return 1
			}
		done
	done <table
	[ "$n" -eq 36 ]
	# values that the Rust library takes, too
	jq -c '.decoder = {type: "Metaspace", replacement: "é", prepend_scheme: "never", split: null,
		add_prefix_space: null} |
		.model += {fuse_unk: null, byte_fallback: null, ignore_merges: null}' \
		m/tokenizer.json >good.json
	rf-tokenize --tokenizer good.json a.txt >/dev/null 2>err || { cat err; return 1; }
	jq -c '.decoder = {type: "Strip", content: "a", start: 4000000000, stop: 0}' \
		m/tokenizer.json >good.json
	rf-tokenize --tokenizer good.json a.txt >/dev/null 2>err || { cat err; return 1; }
}

# ids TEXT [OPTION...]: prints the ids of a text by the tokenizer in m, with the end token, and writes err
ids() {
	printf %s "$1" >text.txt
	rf-tokenize --tokenizer m "${@:2}" text.txt 2>err | rf-dump --json |
		jq -c 'select(.type == "seq") | .body.tokens.data'
}

# hash: prints the hash of the tokenizer in m; standard error is in err
hash() {
	echo a >a.txt
	rf-tokenize --tokenizer m a.txt 2>err | rf-dump --json |
		jq -r 'select(.type == "head") | .body.tokenizer.hash'
}

@test "tokenizers: a malformed file next to the tokenizer is refused with status 78" {
	small m
	echo '{"eos_token": "<e>"}' >m/tokenizer_config.json
	[ "$(ids a)" = '[0,5]' ]
	echo a >a.txt
	# FILE CONTENT WORDS
	while read -r file content said; do
		rm -f m/tokenizer_config.json m/*_map.json m/added_tokens.json
		echo "${content//_/ }" >"m/$file"
		run -78 --separate-stderr rf-tokenize --tokenizer m -o never a.txt
		[ ! -e never ]
		[ "${#stderr_lines[@]}" -eq 1 ]
		[[ "$stderr" == "rf-tokenize: m/$file: "*"$said"* ]] ||
			{ echo "$file $content: $stderr"; return 1; }
		run -78 rf-needle --task niah_single_1 --length 1k -n 1 --tokenizer m
		run -78 rf-dump -m m /dev/null
	done <<-'END'
		tokenizer_config.json {"eos_token":"<e>" at byte
		tokenizer_config.json {"eos\u005ftoken":"<f>"} the eos_token '<f>' is no token of tokenizer
		tokenizer_config.json {"bos\u005ftoken":{"content":"<f>"}} the bos_token '<f>' is no token
		tokenizer_config.json {"eos\u005ftoken":5} 'eos_token' is a number, not a token
		tokenizer_config.json [] the file is a list, not an object
		tokenizer_config.json {"added\u005ftokens\u005fdecoder":{"x":{"content":"y"}}} not an id with
		tokenizer_config.json {"pad\u005ftoken":"<x>","extra\u005fspecial\u005ftokens":"x"} a list
		tokenizer_config.json {"added\u005ftokens\u005fdecoder":{"7":{"content":"y","lstrip":5}}} not
		tokenizer_config.json {"pad\u005ftoken":{"content":"y","normalized":1}} 'normalized' is
		special_tokens_map.json {"unk\u005ftoken":{"content":"y","special":null}} is null, not true
		tokenizer_config.json {"model\u005fspecific\u005fspecial\u005ftokens":[]} is a list, not
		special_tokens_map.json {"eos\u005ftoken":"<e>" at byte
		special_tokens_map.json {"eos\u005ftoken":"<f>"} the eos_token '<f>' is no token
		added_tokens.json {"<n>":"five"} a string instead of an id
	END
}

@test "tokenizers: tokens of the files next to tokenizer.json have the ids that transformers gives" {
	small m
	d='"single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true'
	echo "{\"added_tokens_decoder\": {\"6\": {\"content\": \"<n>\", $d}}, \"eos_token\": \"<e>\"}" \
		>m/tokenizer_config.json
	[ "$(ids 'a<n>b')" = '[0,6,4,5]' ]
	grep -qv warning err
	# as in transformers, the id of a file does not count, but a warning names it
	sed -i 's/"6"/"9"/' m/tokenizer_config.json
	[ "$(ids 'a<n>b')" = '[0,6,4,5]' ]
	said="the token '<n>' has the id 9 in tokenizer_config.json, but 6 by tokenizer.json"
	grep -q "m: warning: $said" err
	# with added_tokens_decoder, the other two files do not count
	echo '{"<b>": 7}' >m/added_tokens.json
	[ "$(ids 'a<b>' --no-eos)" = '[0,1,4,3]' ]
	# added_tokens.json comes first, then single tokens, then lists
	echo '{"pad_token": "[P]", "x_token": "[X]"}' >m/tokenizer_config.json
	echo '{"pad_token": "[Q]",
		"additional_special_tokens": ["<n>", {"content": "<m>", "rstrip": true}]}' \
		>m/special_tokens_map.json
	[ "$(ids 'a<b>[Q][X]<n><m>  a')" = '[0,6,7,8,9,10,0]' ]
	rm m/special_tokens_map.json
	# tokenizer_config.json gives a token of tokenizer.json other flags
	echo '{"added_tokens_decoder": {"5": {"content": "<e>", "lstrip": true, "special": true}}}' \
		>m/tokenizer_config.json
	rm m/added_tokens.json
	[ "$(ids 'a   <e>a')" = '[0,5,0]' ]
	grep -q "tokenizer.json and tokenizer_config.json describe the token '<e>' differently" err
}

@test "tokenizers: files next to tokenizer.json give the ids that transformers gives" {
	jq -sr '.[0].tokenizer as $base | .[1:] | to_entries[] | .key as $i | .value |
		(["tokenizer.json", $base + (.tokenizer // {})], (.files | to_entries[] | [.key, .value]),
		 (.texts[] | ["texts.jsonl", {text: .}])) |
		"\($i)\t\(.[0])\t\(.[1] | tojson)"' "$G/tokenizer/sidecars.jsonl" >files
	cut -f 1 files | sort -u | xargs mkdir
	awk -F '\t' '{ print $3 >>($1 "/" $2); close($1 "/" $2) }' files
	cut -f 1 "$G/tokenizer/sidecars.expected" >names
	for ((i = 0; i < $(wc -l <names); i++)); do
		rf-tokenize --tokenizer "$i" "$i/texts.jsonl" 2>>err | rf-dump --json >"$i.dump"
	done
	jq -c 'select(.type == "seq") | [input_filename, .body.tokens.data]' *.dump |
		jq -sc 'group_by(.[0]) | sort_by(.[0][0] | rtrimstr(".dump") | tonumber)[] | map(.[1])' >ids
	diff "$G/tokenizer/sidecars.expected" <(paste names ids)
}

@test "tokenizers: the expected ids of files next to tokenizer.json are those of transformers" {
	status=0
	timeout 120 python3 "$ROOT/t/helper/sidecars.py" "$G/tokenizer/sidecars.jsonl" >theirs 2>err ||
		status=$?
	[ "$status" -ne 69 ] || skip "Python's transformers 5 is not installed"
	[ "$status" -eq 0 ]
	diff "$G/tokenizer/sidecars.expected" theirs
}

@test "tokenizers: an ignored list of tokens causes a warning if it names a token that is not added" {
	small m
	own='{"eos_token": "<e>", "additional_special_tokens": ["<x>"]}'
	echo "$own" >m/tokenizer_config.json
	echo '{"additional_special_tokens": ["<x>", "<t>"]}' >m/special_tokens_map.json
	ids a
	said="m: warning: additional_special_tokens of special_tokens_map.json does not count next to "
	said+="additional_special_tokens of tokenizer_config.json, as in transformers, so '<t>' is not a "
	said+="special token"
	grep -q "$said" err
	echo '{"additional_special_tokens": ["<x>", "<e>"]}' >m/special_tokens_map.json
	ids a
	[ "$(grep -c warning err)" -eq 0 ]
	echo "${own%\}}, \"extra_special_tokens\": [\"<y>\"]}" >m/tokenizer_config.json
	rm m/special_tokens_map.json
	ids a
	said="additional_special_tokens of tokenizer_config.json does not count next to extra_special_tokens"
	grep -q "$said of tokenizer_config" err
	echo '{"eos_token": "<e>", "added_tokens_decoder": {}}' >m/tokenizer_config.json
	echo '{"extra_special_tokens": ["<x>"]}' >m/special_tokens_map.json
	ids a
	said='extra_special_tokens of special_tokens_map.json does not count next to added_tokens_decoder'
	grep -q "$said" err
}

@test "tokenizers: a warning about several contradictions is not cut off" {
	small m
	jq -nc '("x" * 50) as $long | {eos_token: "<e>", bos_token: $long, add_prefix_space: true,
		additional_special_tokens: [$long + "y"]}' >m/tokenizer_config.json
	jq -nc '{eos_token: "a", bos_token: "<e>", additional_special_tokens: ["z" * 50]}' \
		>m/special_tokens_map.json
	jq -nc '{("y" * 50): 99, ("w" * 50): 7}' >m/added_tokens.json
	ids a
	[ "$(wc -c <err)" -gt 600 ]
	grep -q 'warning: .*in all; bos_token .*; eos_token .*; additional_special.*transformers differ)$' err
}

@test "tokenizers: flags of the token at pad_token change neither ids nor hash, and cause no warning" {
	small m
	echo '{"eos_token": "<e>"}' >m/tokenizer_config.json
	plain=$(hash)
	echo '{"eos_token": "<e>", "pad_token": {"__type": "AddedToken", "content": "<e>", "lstrip": true}}' \
		>m/tokenizer_config.json
	[ "$(ids 'a  <e>b' | jq -c '[.[0], .[-3:][]]')" = '[0,5,4,5]' ]
	[ "$(hash)" = "$plain" ]
	[ "$(grep -c warning err)" -eq 0 ]
}

@test "tokenizers: split_special_tokens is in the hash, and anything but true and false is refused" {
	small m
	echo '{"eos_token": "<e>"}' >m/tokenizer_config.json
	plain=$(hash)
	echo '{"eos_token": "<e>", "split_special_tokens": true}' >m/tokenizer_config.json
	[ "$(ids '<n>')" = '[1,2,3,5]' ]
	split=$(hash)
	[ "$split" != "$plain" ]
	model 7 5
	rf-init --config c.json --tokenizer m ckpt 2>err
	[ "$(rf-dump ckpt | sed -n 's/^tokenizer *//p')" = "$split" ]
	echo '{"eos_token": "<e>", "split_special_tokens": false}' >m/tokenizer_config.json
	[ "$(hash)" = "$plain" ]
	echo '{"eos_token": "<e>", "split_special_tokens": "yes"}' >m/tokenizer_config.json
	run -78 --separate-stderr rf-tokenize --tokenizer m text.txt
	said="'split_special_tokens' is a string, not true or false"
	[ "$stderr" = "rf-tokenize: m/tokenizer_config.json: $said" ]
}

@test "tokenizers: add_prefix_space that tokenizer.json contradicts causes a warning" {
	# PROGRAM OF JQ|VALUE IN TOKENIZER.JSON
	while IFS='|' read -r program has; do
		small m
		jq -c "${program//!/|}" m/tokenizer.json >t.json
		mv t.json m/tokenizer.json
		for value in true false; do
			echo "{\"tokenizer_class\": \"LlamaTokenizer\", \"eos_token\": \"<e>\",
				\"add_prefix_space\": $value}" >m/tokenizer_config.json
			ids a
			said="add_prefix_space is $value in tokenizer_config.json, but $has in tokenizer.json"
			if [ "$value" = "$has" ]; then
				[ "$(grep -c warning err)" -eq 0 ]
			else
				grep -q "$said, which counts" err
			fi
		done
	done <<-'END'
		.|false
		.normalizer = {type: "Prepend", prepend: "n"} ! .pre_tokenizer = null|true
		.pre_tokenizer = {type: "Metaspace", replacement: "n"}|true
		.pre_tokenizer = {type: "Metaspace", replacement: "n", prepend_scheme: "never"}|false
		.normalizer = {type: "NFC"} ! .pre_tokenizer = null|false
	END
}

@test "tokenizers: two files that name different end tokens cause a warning that names both" {
	small m
	echo '{"eos_token": "a"}' >m/tokenizer_config.json
	echo '{"eos_token": "<e>"}' >m/special_tokens_map.json
	[ "$(ids b)" = '[4,5]' ]
	grep -q "eos_token of tokenizer_config.json is 'a', that of special_tokens_map.json is '<e>'" err
	echo '{"eos_token": "a", "added_tokens_decoder": {}}' >m/tokenizer_config.json
	[ "$(ids b)" = '[4,0]' ]
	grep -q "'<e>': tokenizer_config.json counts" err
	echo '{"eos_token": null}' >m/special_tokens_map.json
	echo '{"eos_token": "a"}' >m/tokenizer_config.json
	[ "$(ids b)" = '[4]' ]
	said="eos_token of tokenizer_config.json is 'a', that of special_tokens_map.json is 'null'"
	grep -q "$said: special_tokens_map.json counts" err
	rm m/special_tokens_map.json
	echo '{"eos_token": "<e>", "add_prefix_space": true}' >m/tokenizer_config.json
	[ "$(ids b)" = '[4,5]' ]
	grep -q 'add_prefix_space is true in tokenizer_config.json, but false in tokenizer.json' err
}

@test "tokenizers: tokens that tokenizer.model lacks are refused, and the config names its end token" {
	mkdir m
	cp "$G/tokenizer/tokenizer.model" m/
	echo a >a.txt
	echo '{"<|im_start|>": 32000}' >m/added_tokens.json
	run -78 --separate-stderr rf-tokenize --tokenizer m a.txt
	said="the token '<|im_start|>' is not one of tokenizer.model, which would cut it to pieces"
	[ "$stderr" = "rf-tokenize: m/added_tokens.json: $said (use the model's tokenizer.json)" ]
	rm m/added_tokens.json
	echo '{"eos_token": "<|im_end|>"}' >m/tokenizer_config.json
	run -78 --separate-stderr rf-tokenize --tokenizer m a.txt
	said="the eos_token '<|im_end|>' is not one of tokenizer.model"
	[[ "$stderr" == *"m/tokenizer_config.json: $said"* ]]
	echo '{"eos_token": "<s>", "bos_token": {"content": "</s>"}, "unk_token": "<unk>",
		"added_tokens_decoder": {"1": {"content": "<s>"}}}' >m/tokenizer_config.json
	[ "$(ids a | jq -c '.[-1]')" = 1 ]
	# null says that there is no such token
	echo '{"eos_token": "<s>"}' >m/tokenizer_config.json
	with=$(ids a)
	echo '{"eos_token": null, "bos_token": null}' >m/tokenizer_config.json
	[ "$(ids a)" = "$(jq -c '.[:-1]' <<<"$with")" ]
	run -64 rf-tokenize --tokenizer m --bos yes a.txt
	echo '{"add_prefix_space": true}' >m/tokenizer_config.json
	[ "$(ids a | jq -c '.[-1]')" = 2 ]
	echo '{"add_prefix_space": false}' >m/tokenizer_config.json
	run -78 --separate-stderr rf-tokenize --tokenizer m a.txt
	said='add_prefix_space is false, but tokenizer.model puts a blank before a text'
	[ "$stderr" = "rf-tokenize: m/tokenizer_config.json: $said (use the model's tokenizer.json)" ]
}

@test "tokenizers: a version among the merges and a dropout of 0 are read as by the Rust library" {
	small m
	jq '.model |= (.vocab.ab = 5 | .merges = ["#version: 0.2", "a b"] | .dropout = 0.0) |
		.added_tokens[0].id = 6' m/tokenizer.json >t.json
	mv t.json m/tokenizer.json
	[ "$(ids ab)" = '[5]' ]
}

# added TOKEN...: gives the tokenizer in m these added tokens: JSON objects with the flags that are not false
added() {
	local IFS=,

	jq -c --argjson tokens "[$*]" '.added_tokens = [$tokens[] | {special: true, single_word: false,
		lstrip: false, rstrip: false, normalized: false} + .]' m/tokenizer.json >t.json
	mv t.json m/tokenizer.json
}

@test "tokenizers: an added token causes a warning if the libraries give it another id" {
	small m
	added '{"id": 5, "content": "<s>"}' '{"id": 2, "content": "n"}' '{"id": 6, "content": "<e>"}'
	[ "$(ids '<s>n<e>')" = '[5,2,6]' ]
	added '{"id": 5, "content": "<s>"}' '{"id": 6, "content": ""}' '{"id": 6, "content": "<e>"}'
	[ "$(ids 'a<e>')" = '[0,6]' ]
	give='tokenizers and transformers give it'
	# TOKEN FILE LIBRARY ADDED; tokenizers 0.23 and transformers 5.24 give the ids of LIBRARY
	while IFS='|' read -r token file library tokens; do
		eval "added $tokens"
		echo "$token" >a.txt
		run -0 --separate-stderr rf-tokenize --tokenizer m --no-eos -o out a.txt
		said="the added token '$token' has the id $file in tokenizer.json, which counts, but $give"
		[[ "${stderr_lines[0]}" == "rf-tokenize: m: warning: $said $library, the next free id"* ]] ||
			{ echo "$stderr"; return 1; }
		[ "$(rf-dump --json out | jq 'select(.type == "seq").body.tokens.data[0]')" = "$file" ]
	done <<-'END'
		</s>|7|6|'{"id": 5, "content": "<s>"}' '{"id": 7, "content": "</s>"}'
		</s>|6|5|'{"id": 6, "content": "</s>"}' '{"id": 5, "content": "<s>"}'
		<s>|8|5|'{"id": 8, "content": "<s>"}'
	END
	# an id in a hole of the vocabulary
	cp m/tokenizer.json whole.json
	jq -c '.model.vocab.b = 5' whole.json >m/tokenizer.json
	added '{"id": 4, "content": "<s>"}'
	echo '<s>' >a.txt
	run -0 --separate-stderr rf-tokenize --tokenizer m -o out a.txt
	[[ "$stderr" == *"'<s>' has the id 4 in tokenizer.json, which counts, but $give 5, the next"* ]]
	# two ids of one token, or two tokens with one id, are errors
	two="the added token '<s>' has the id 6, but 5, too"
	other="the id 4 of the added token '<s>' is another token's; $give 5, the next free id"
	while IFS='|' read -r tokens said; do
		cp whole.json m/tokenizer.json
		eval "added $tokens"
		says 78 "rf-tokenize: m/tokenizer.json: $said" rf-tokenize --tokenizer m -o never a.txt
	done <<-END
		'{"id": 5, "content": "a"}'|the added token 'a' has the id 5, but 0, too
		'{"id": 5, "content": "<s>"}' '{"id": 6, "content": "<s>"}'|$two
		'{"id": 4, "content": "<s>"}'|$other
	END
	[ ! -e never ]
}

@test "tokenizers: white space that one added token takes is not matched as another added token" {
	small m
	first='{"id": 5, "content": "<s>", "rstrip": true}'
	text=$'<s>\na'
	# as in tokenizers 0.23: a token that takes white space on its left is lost if it is only that white
	# space
	added "$first" '{"id": 6, "content": "\n", "lstrip": true}'
	[ "$(ids "$text")" = '[5,0]' ]
	[ "$(ids $'\n\na')" = '[6,6,0]' ]
	added "$first" '{"id": 6, "content": "\n", "lstrip": true, "rstrip": true}'
	[ "$(ids "$text")" = '[5,0]' ]
	[ "$(ids $'<s> \n \na<s>')" = '[5,0,5]' ]
	added "$first" '{"id": 6, "content": "\n"}'
	[ "$(ids "$text")" = '[5,6,0]' ]
	[ "$(ids $'<s>\n\na')" = '[5,6,6,0]' ]
}

@test "tokenizers: the four Unicode normalization forms order any number of marks, in linear time" {
	small m
	python3 - <<-'END'
		import random
		random.seed(1)
		# combining marks of old versions of Unicode, and characters that decompose into such marks
		marks = [*range(0x300, 0x34f), *range(0x591, 0x5be), 0xf71, 0xf72, 0xf74, 0x302a, 0x3099]
		first = list("aeou\xe9\u01d6\u1e69\u0f73\u0f81\u0344\u1f82")
		first += list("\uac00\u1100\u1161\u30ab\ufb2c\u0958")
		lines = ["".join(random.choice(first) if random.random() < .2 else chr(random.choice(marks))
		                 for _ in range(random.choice([2, 5, 20, 400]))) for _ in range(400)]
		long = ["a" + "\u0301" * 40000 + "\u0327" * 40000, "\u0f73" * 40000]
		import json
		open("in.jsonl", "w").write("".join(json.dumps({"text": t}) + "\n" for t in lines))
		open("long.jsonl", "w").write("".join(json.dumps({"text": t}) + "\n" for t in long))
	END
	for form in NFC NFD NFKC NFKD; do
		# each byte is a token whose id is the byte
		python3 - $form >m/tokenizer.json <<-'END'
			import json, sys
			plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
			rest = [b for b in range(256) if b not in plain]
			vocab = {chr(256 + rest.index(b) if b in rest else b): b for b in range(256)}
			json.dump({"added_tokens": [], "normalizer": {"type": sys.argv[1]},
			           "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False,
			                             "use_regex": False},
			           "decoder": {"type": "ByteLevel"},
			           "model": {"type": "BPE", "vocab": vocab, "merges": []}}, sys.stdout)
		END
		timeout 20 rf-tokenize --tokenizer m in.jsonl long.jsonl 2>err | rf-dump --json >out
		python3 - $form <<-'END'
			import json, sys, unicodedata
			form = sys.argv[1]
			seqs = [json.loads(l)["body"] for l in open("out") if '"type":"seq"' in l]
			ids = [seq["tokens"]["data"] for seq in seqs]
			want = [unicodedata.normalize(form, json.loads(l)["text"]) for l in open("in.jsonl")]
			# Python's time would grow with the square of the number of marks
			c = form in ("NFC", "NFKC")
			want.append(("\xe1" if c else "a") + "\u0327" * 40000 + "\u0301" * (40000 - c))
			want.append("\u0f71" * 40000 + "\u0f72" * 40000)
			sys.exit(ids != [list(t.encode()) for t in want])
		END
	done
}

# model VOCAB EOS: makes c.json of a small model
model() {
	jq -nc --argjson vocab "$1" --argjson eos "$2" '{model_type: "delta_net", hidden_size: 32,
		num_hidden_layers: 1, num_heads: 1, vocab_size: $vocab, eos_token_id: $eos}' >c.json
}

@test "tokenizers: a vocabulary too large for the model is an error before anything is tokenized" {
	small m
	model 5 4
	run -78 --separate-stderr rf-init --config c.json --tokenizer m ckpt
	[ "$stderr" = "rf-init: c.json: vocab_size is 5, but the tokenizer has 6 ids" ]
	[ ! -e ckpt ]
	cp c.json m/config.json
	echo a >a.txt
	run -78 --separate-stderr rf-tokenize --tokenizer m -o never a.txt
	[ "$stderr" = "rf-tokenize: m/config.json: vocab_size is 5, but the tokenizer has 6 ids" ]
	[ ! -e never ]
	# only tokenizer_config.json names the token [P]
	model 6 5
	cp c.json m/config.json
	echo '{"eos_token": "<e>", "pad_token": "[P]"}' >m/tokenizer_config.json
	jq '.added_tokens[0].id = 8 | .model.vocab |= . + {"[": 5, "P": 6, "]": 7}' m/tokenizer.json >t.json
	mv t.json m/tokenizer.json
	model 9 8
	cp c.json m/config.json
	[ "$(ids '[P]')" = '[5,6,7,8]' ]
	grep -q 'vocab_size is 9 in m/config.json, so tokens with the ids 9 to 9, which files next to the' err
	model 10 8
	cp c.json m/config.json
	[ "$(ids '[P]')" = '[9,8]' ]
	# a truncated config.json is an error, not a missing file
	echo '{"model_type": "delta_net"' >m/config.json
	says 78 "rf-tokenize: m/config.json: ..." rf-tokenize --tokenizer m -o never a.txt
	echo '{"model_type": "bert"}' >m/config.json
	[ "$(ids a)" = '[0,8]' ]
}

@test "tokenizers: end tokens of tokenizer and model that differ cause a warning with both ids" {
	small m
	echo '{"eos_token": "<e>"}' >m/tokenizer_config.json
	model 16 3
	said='the tokenizer ends a text with token 5, the model with 3'
	run -0 --separate-stderr rf-init --config c.json --tokenizer m ckpt
	[ "$stderr" = "rf-init: warning: $said (let eos_token_id in c.json and eos_token in \
tokenizer_config.json agree)" ]
	jq -nc '{text: ("ab" * 40), p: "ab"}' >a.jsonl
	run -0 --separate-stderr rf-tokenize --tokenizer ckpt -o t.rf a.jsonl
	said+=' (let eos_token_id in ckpt/config.json and '
	[[ "${stderr_lines[0]}" == "rf-tokenize: warning: $said"* ]]
	rf-entropy -m ckpt t.rf | rf-select -o s.rf
	says 0 "rf-rollout: warning: $said..." rf-rollout -m ckpt -o r.rf s.rf
	rf-tokenize --tokenizer ckpt --prompt-key p -o p.rf a.jsonl 2>err
	says 0 "rf-generate: warning: $said..." rf-generate -m ckpt -o g.rf p.rf
	# the file that counts is the one to edit
	echo '{"eos_token": "<e>"}' >m/special_tokens_map.json
	run -0 --separate-stderr rf-init --config c.json --tokenizer m named
	[[ "$stderr" == *' and eos_token in special_tokens_map.json agree)' ]]
	rm m/special_tokens_map.json m/tokenizer_config.json
	run -0 --separate-stderr rf-init --config c.json --tokenizer m endless
	[[ "$stderr" == "rf-init: warning: the tokenizer names no end token, so no text ends with "*3* ]]
	# generation_config.json may name more end tokens, and its other keys are not read
	echo '{"eos_token_id": [3, 5], "temperature": NaN}' >ckpt/generation_config.json
	for command in "rf-rollout -m ckpt -o r.rf s.rf" "rf-generate -m ckpt -o g.rf p.rf"; do
		quiet $command
	done
}

@test "tokenizers: a decoder that joins tokens may come before ByteLevel" {
	small m
	jq '.decoder = {type: "Sequence", decoders: [{type: "Fuse"}, {type: "ByteLevel"}]}' \
		m/tokenizer.json >t.json
	mv t.json m/tokenizer.json
	printf 'ab%.0s' $(seq 2000) >a.txt
	rf-tokenize --tokenizer m -o a.rf a.txt 2>err
	rf-dump --tokenizer m a.rf | grep -q '"ababab'
}

@test "tokenizers: an empty token is ignored, and tokens of files next to tokenizer.json are in the hash" {
	small m
	plain=$(hash)
	[ "${#plain}" -eq 16 ]
	echo '{"eos_token": "<e>", "pad_token": "", "bos_token": ""}' >m/tokenizer_config.json
	[ "$(ids a)" = '[0,5]' ]
	[ "$(hash)" = "$plain" ]
	echo '{"eos_token": "<e>", "pad_token": "", "sep_token": "<n>"}' >m/tokenizer_config.json
	[ "$(ids 'a<n>')" = '[0,6,5]' ]
	[ "$(hash)" != "$plain" ]
	# a model made with the tokenizer has the same hash
	model 7 5
	rf-init --config c.json --tokenizer m ckpt
	[ "$(rf-dump ckpt | sed -n 's/^tokenizer *//p')" = "$(hash)" ]
	# an end token that is only in the vocabulary is found whole in a text
	echo '{"eos_token": "n"}' >m/tokenizer_config.json
	[ "$(ids 'an')" = '[0,2,2]' ]
}

@test "tokenizers: rf-rollout finds an end token that only tokenizer_config.json has" {
	small m
	echo '{"eos_token": "<x>", "added_tokens_decoder": {"6": {"content": "<x>", "special": true}}}' \
		>m/tokenizer_config.json
	model 7 3
	rf-init --config c.json --tokenizer m ckpt 2>err
	jq -nc '{text: ("ab" * 40)}' | rf-tokenize --tokenizer ckpt 2>err | rf-entropy -m ckpt |
		rf-select -o s.rf
	run -0 --separate-stderr rf-rollout -m ckpt -o r.rf s.rf
	[[ "$stderr" == "rf-rollout: warning: the tokenizer ends a text with token 6, the model with 3 "* ]]
	# an id over 32 bits is also reported by a program that needs only the end token
	rf-dump --json s.rf | jq -c 'if .type == "head" then del(.body.tokenizer) else . end' |
		rf-cat --json -o bare.rf
	for edit in '.added_tokens[0].id = 4294967301' \
		'.model.vocab["<e>"] = 4294967301 | .added_tokens = []'; do
		cp m/tokenizer.json whole.json
		jq -c "$edit" whole.json >ckpt/tokenizer.json
		echo '{"eos_token": "<e>"}' >ckpt/tokenizer_config.json
		says 65 "rf-rollout: ckpt/tokenizer.json: ...'<e>'..." rf-rollout -m ckpt -o r.rf bare.rf
	done
	# the model has no row for the end token
	model 6 3
	run -78 --separate-stderr rf-init --config c.json --tokenizer m other
	said='vocab_size is 6, but a file next to the tokenizer gives its end token the id 6'
	[[ "$stderr" == "rf-init: c.json: $said" ]]
}
