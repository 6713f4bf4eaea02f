#!/usr/bin/env bats
# rf-generate: continuations of prompts, and where they stop.
setup() {
	load ../helper
	load ../model
}

# greedy MODEL OPTION...: succeeds if the first samples for the prompts in MODEL.prompts are the tokens in
# MODEL.ids
greedy() {
	rf-tokenize --format ids --vocab 40 "$1.prompts" |
		rf-generate -m "$G/$1" --max-new 24 "${@:2}" >greedy.rf
	json greedy.rf | jq -c '.generation | .tokens.data[:.length.data[0]]' | diff "$1.ids" -
}
# spliced SAMPLE FILE: prints each record with its prompt followed by the tokens of this sample
spliced() {
	rf-dump --json "$2" | jq -c --argjson i "$1" 'if .type == "seq" then .body |= (.generation as $g
		| (.prompt_len // (.tokens.data | length)) as $p | .prompt_len = $p
		| .tokens.data = .tokens.data[:$p]
			+ $g.tokens.data[$i * $g.tokens.shape[1]:][:$g.length.data[$i]]
		| .tokens.shape = [.tokens.data | length] | del(.generation)) else . end' | rf-cat --json
}
stops() { json "$1" | jq -c .generation.stop; }
# texts_of FILE: prints the samples' texts
texts_of() { json "$1" | jq -c .generation.text; }
# answers FILE: prints the tokens, the reasons to stop and the texts of each record's samples, without
# repeated lines; one start of jq for all three
answers() {
	json "$1" | jq -r '.generation | [[range(.length.data | length) as $i
			| .tokens.data[$i * .tokens.shape[1]:][:.length.data[$i]]], .stop, .text]
		| map(tojson) | join(" ")' | sort -u
}
# speaker TOKEN...: makes the model m, which repeats these tokens after any prompt; VOCAB is the size of its
# vocabulary [384]
speaker() {
	jq --argjson v "${VOCAB:-384}" '.vocab_size = $v | .hidden_size = 32
		| .num_hidden_layers = 1 | .eos_token_id = 1
		| .tie_word_embeddings = false' "$G/delta/config.json" >config.json
	rm -rf m
	rf-init --config config.json m
	python3 "$ROOT/t/helper/speaker.py" m "$@"
}

@test "rf-generate: keeps the promises of a filter" {
	load ../promises
	PROMISE_MIB=128 promises filter "$G/stream/tokens.rf" rf-generate -m "$M" --max-new 3 --batch 1
	PROMISE_GATHERS=1 PROMISE_MIB=128 promises filter "$G/stream/tokens.rf" \
		rf-generate -m "$M" --max-new 3 -n 2 --temperature 1
}

@test "rf-generate: continues the reference prompts of all models with the tokens of the reference" {
	local hows=('' '--batch 1 --threads 1' '--batch 3 --segment 64 -n 2') each i=0
	[ -n "${RF_DEVICE:-}" ] || hows+=('--device check --batch 7 --segment 64')
	zstd -dc "$G/generate.jsonl.zst" | jq -r '[.model, ({tokens: .prompt}, .ids | tojson)] | @tsv' |
		awk -F '\t' '{ print $2 >$1 ".prompts"; print $3 >$1 ".ids" }'
	for m in *.ids; do
		m=${m%.ids}
		# one of the ways for a model, each in turn
		[ -n "${RF_ALL:-}" ] && each=("${hows[@]}") || each=("${hows[i++ % ${#hows[@]}]}")
		for how in "${each[@]}"; do
			greedy "$m" $how
		done
	done
}

@test "rf-generate: writes the most probable token each time, across chunks, windows and segments" {
	for m in ${RF_ALL:+delta gated lact} delta-hybrid lact-long lact-muon qwen; do
		texts 40 1:1 2:37 3:129 4:64 5:200 | rf-generate -m "$G/$m" --max-new 150 --ignore-eos >out
		[ "$(json out | jq -c .generation.length.data[0] | sort -u)" = 150 ]
		spliced 0 out | rf-ntp --eval --loss response -m "$G/$m" >eval
		[ "$(jq .accuracy eval)" = 1 ]
		texts 40 1:1 2:37 3:129 4:64 5:200 |
			rf-generate -m "$G/$m" --max-new 150 --ignore-eos --segment 64 --batch 2 >other
		[ "$(wrote other)" = "$(wrote out)" ]
	done
}

@test "rf-generate: seed, step, record id, sample and position determine every token that is drawn" {
	texts 40 5:90 6:1 7:64 >in
	for how in '1 0 1' '0.7 5 1' '1.5 0 0.6' '1 12 0.9'; do
		read -r temperature k p <<<"$how"
		rf-generate -m "$M" -n 3 --max-new 40 --ignore-eos --seed 12345678901 --draw-step 9 \
			--temperature "$temperature" --top-k "$k" --top-p "$p" in >out
		for sample in 0 2; do
			spliced $sample out | rf-entropy -m "$M" --keep logits >logits
			helper model written 12345678901 9 $sample "$temperature" "$k" "$p" logits
		done
	done
	run ! "$RF_UNITS/helper/model" written 12345678901 8 2 1 12 0.9 logits
	[ "$(json out | jq .generation.temperature | sort -u)" = 1 ]
}

@test "rf-generate: a sample depends neither on other samples and records nor on threads and segments" {
	local hows=('--batch 1 --threads 3' '--batch 2 --segment 64 --threads 1')
	for m in ${RF_ALL:+delta gated} delta-hybrid lact qwen; do
		M=$G/$m
		texts 40 5:90 6:1 7:64 8:33 9:130 >in
		rf-generate -m "$M" -n 8 --max-new 20 --temperature 1 --device "$like_cpu" in >eight
		for how in "${hows[@]}" ${RF_ALL:+'--batch 1' '--threads 3'}; do
			rf-generate -m "$M" -n 8 --max-new 20 --temperature 1 --device "$like_cpu" \
				$how in >other
			cmp eight other
		done
		[ -n "${RF_DEVICE:-}" ] ||
			rf-generate -m "$M" -n 8 --max-new 20 --temperature 1 --device check in | cmp - eight
		rf-generate -m "$M" -n 1 --max-new 20 --temperature 1 in >one
		[ "$(wrote one)" = "$(wrote eight | jq -c .[:1])" ]
		"$RF_UNITS/helper/records" reverse in | rf-generate -m "$M" --max-new 20 --temperature 1 >back
		"$RF_UNITS/helper/records" reverse back >other
		[ "$(wrote other)" = "$(wrote one)" ]
	done
}

@test "rf-generate: tokens after the prompt do not change the continuation" {
	texts 40 1:70 2:70 | edited 'if .type == "seq" then .body.prompt_len = 30 else . end' >in
	edited 'if .type == "seq" then .body.tokens.data[30:] |= map(39 - .) else . end' in >other
	for options in '' '--temperature 1 -n 2'; do
		rf-generate -m "$M" $options in >have
		rf-generate -m "$M" $options other >want
		[ "$(json have | jq -c .generation)" = "$(json want | jq -c .generation)" ]
	done
	rf-cat --split-response in | rf-generate -m "$M" >have
	rf-generate -m "$M" in >want
	[ "$(json have | jq -c .generation)" = "$(json want | jq -c .generation)" ]
}

@test "rf-generate: stops at an end token, a stop string, or the length, whichever comes first" {
	# h, e, l, l, o, the two bytes of ü, the end
	speaker 107 104 111 198 191 1
	printf '{"tokens": [%s]}\n' 5 5,6 5,6,7 | rf-tokenize --format ids --vocab 384 - >in
	rf-generate -m m --tokenizer bytes in >out
	[ "$(answers out)" = '[[107,104,111,198,191,1]] ["eos"] ["helü"]' ]
	rf-generate -m m --tokenizer bytes --max-new 4 in >out
	[ "$(answers out)" = '[[107,104,111,198]] ["length"] ["hel�"]' ]
	rf-generate -m m --tokenizer bytes --max-new 1 in >out
	[ "$(answers out)" = '[[107]] ["length"] ["h"]' ]
	# all tokens of the stop string are kept, but the text ends before it
	rf-generate -m m --tokenizer bytes --stop ü --stop nothing in >out
	[ "$(answers out)" = '[[107,104,111,198,191]] ["stop"] ["hel"]' ]
	rf-generate -m m --tokenizer bytes --stop üx --stop el in >out
	[ "$(answers out)" = '[[107,104,111]] ["stop"] ["h"]' ]
	# bytes of an incomplete character do not match a stop string
	rf-generate -m m --tokenizer bytes --stop � in >out
	[ "$(stops out | sort -u)" = '["eos"]' ]
	rf-generate -m m --tokenizer bytes --ignore-eos --max-new 8 --stop hh in >out
	[ "$(wrote out | sort -u)" = '[[107,104,111,198,191,1,107,104]]' ]
	# a stop string that the last allowed token completes still counts
	rf-generate -m m --tokenizer bytes --max-new 3 --stop l in >out
	[ "$(answers out)" = '[[107,104,111]] ["stop"] ["he"]' ]
	rf-dump --json out | jq -se '.[0].body.history[-1].options.stop == ["l"]' >/dev/null
	rf-dump --head out | grep -q -- '--stop l'
	# there are several end tokens, and the first token is one of them
	jq '.eos_token_id = [9, 107]' m/config.json >config.json
	cp config.json m
	rf-generate -m m --tokenizer bytes in >out
	[ "$(answers out)" = '[[107]] ["eos"] [""]' ]
}

@test "rf-generate: a NUL in a text becomes U+FFFD and does not end the text" {
	speaker 100 3 101
	echo '{"text":"x"}' | rf-tokenize --bytes --no-eos 2>err | rf-generate -m m --max-new 6 >out
	found=$(texts_of out)
	[[ $found == *'a\ufffdb'* || $found == *a$'\xef\xbf\xbd'b* ]]
	[ "$(texts_of out | jq -r '.[0] | length')" = 6 ]
}

# json_tokenizer: adds to m a tokenizer.json with a, b, the bytes of ü, and two added tokens, of which only
# the first is special
json_tokenizer() {
	jq -n '{added_tokens: [{id: 3, content: "<|im_end|>", special: true},
				{id: 4, content: "<tool>", special: false}
			| . + {single_word: false, lstrip: false, rstrip: false, normalized: false}],
		pre_tokenizer: {type: "ByteLevel", add_prefix_space: false, use_regex: true,
			trim_offsets: false},
		decoder: {type: "ByteLevel", add_prefix_space: true, trim_offsets: true, use_regex: true},
		model: {type: "BPE", vocab: {"a": 0, "b": 2, "<|im_end|>": 3, "<tool>": 4, "Ã": 5, "¼": 6},
			merges: []}}' >m/tokenizer.json
	rm -f m/tokenizer_config.json
}
# ends OPTION...: prints why the samples of m end, their text and their last token
ends() {
	rf-generate -m m "$@" in >out
	json out | jq -c '.generation | [.stop[0], .text[0], .tokens.data[.length.data[0] - 1]]' | sort -u
}

@test "rf-generate: --stop ends an answer at the name of a special token, though answers do not show it" {
	printf '{"tokens": [9]}\n' | rf-tokenize --format ids --vocab 384 - >in
	speaker 0 2 3 # a, b, <|im_end|>
	json_tokenizer
	[ "$(ends --max-new 7)" = '["length","ababa",0]' ]
	[ "$(ends --stop '<|im_end|>')" = '["stop","ab",3]' ]
	# the stop string is a part of the name, the name with text before or after it, or several names
	[ "$(ends --stop im_e)" = '["stop","ab",3]' ]
	[ "$(ends --stop 'b<|im_end|>')" = '["stop","a",3]' ]
	[ "$(ends --stop '<|im_end|>a')" = '["stop","ab",0]' ]
	[ "$(ends --stop 'b<|im_end|>ab<|im_end|>a')" = '["stop","a",0]' ]
	[ "$(ends --stop 'ab<|im_end|>abc' --stop '<|im_end|>ab<|im_end|>')" = '["stop","ab",3]' ]
	# the stop string that comes first ends the text
	[ "$(ends --stop '<|im_end|>' --stop b)" = '["stop","a",2]' ]
	speaker 2 4 0 3 5 6 # b, <tool>, a, <|im_end|>, the bytes of ü
	json_tokenizer
	[ "$(ends --stop '<tool>')" = '["stop","b",4]' ]
	[ "$(ends --stop 'ü')" = '["stop","b<tool>a",6]' ]
	[ "$(ends --stop 'ol>a<|')" = '["stop","b<to",3]' ]
	# stop strings of each record, and one whose token is an end token, too
	printf '{"tokens": [9], "until": ["<|im_end|>"]}\n' |
		rf-tokenize --format ids --meta-key until --vocab 384 - >in
	[ "$(ends --stop-key until)" = '["stop","b<tool>a",3]' ]
	jq '.eos_token_id = 3' m/config.json >config.json
	cp config.json m
	[ "$(ends --stop-key until)" = '["eos","b<tool>a",3]' ]
	[ "$(ends --stop-key until --ignore-eos)" = '["stop","b<tool>a",3]' ]
}

@test "rf-generate: a stop string matches across a special token only if it has the name of that token" {
	printf '{"tokens": [9]}\n' | rf-tokenize --format ids --vocab 384 - >in
	speaker 0 2 3
	json_tokenizer
	[ "$(ends --max-new 9 --stop ba --stop bab)" = '["length","ababab",3]' ]
	speaker 107 104 2 111 1 # h, e, <unk>, l, the end
	jq '.eos_token_id = 9' m/config.json >config.json
	cp config.json m
	[ "$(ends --max-new 6 --stop el --stop lh)" = '["length","helh",107]' ]
	[ "$(ends --stop '<unk>')" = '["stop","he",2]' ]
	[ "$(ends --stop 'e<unk>l')" = '["stop","h",111]' ]
	# the byte tokenizer's end token has the name that tokenizer_config.json gives it
	[ "$(ends --stop '</s>')" = '["stop","hel",1]' ]
	[ "$(ends --stop 'l</s>h')" = '["stop","he",107]' ]
}

@test "rf-generate: --stop finds the names of the control tokens of a tokenizer.model" {
	printf '{"tokens": [5]}\n' | rf-tokenize --format ids --vocab 32000 - >in
	# ▁hel, lo, </s>, ▁w, the bytes of ö, r, the pieces of the published model
	VOCAB=32000 speaker 6312 28709 2 275 198 185 28712
	jq '.eos_token_id = 9' m/config.json >config.json
	cp config.json m
	rm -f m/tokenizer_config.json
	cp "$G/tokenizer/tokenizer.model" m
	rf-generate -m m --max-new 7 in >out
	text=$(json out | jq -r '.generation.text[0]')
	[ "$(ends --stop '</s>')" = '["stop","hello",2]' ]
	[ "$(ends --stop ö)" = "[\"stop\",\"${text%%ö*}\",185]" ]
	[ "$(ends --stop 'o</s>')" = '["stop","hell",2]' ]
	[ "$(ends --max-new 6 --stop �)" = "$(ends --max-new 6)" ]
	[ "$(ends --max-new 7 --stop ow)" = "$(ends --max-new 7)" ]
}

@test "rf-generate: --stop-key takes stop strings from each record, in addition to those of --stop" {
	speaker 107 104 111 198 191 1 # h, e, l, ü
	printf '{"tokens": [%s], "until": %s}\n' 5 '"l"' 5,6 '["ü","x"]' 5,6,7 '[]' 5,6,7 null \
		5,6 '["x","el"]' |
		rf-tokenize --format ids --meta-key until --vocab 384 - >in
	for batch in 1 3 0; do
		rf-generate -m m --tokenizer bytes --batch $batch --stop-key until in >out
		[ "$(texts_of out | paste -sd' ')" = '["he"] ["hel"] ["helü"] ["helü"] ["h"]' ]
		[ "$(stops out | paste -sd' ')" = '["stop"] ["stop"] ["eos"] ["eos"] ["stop"]' ]
		rf-generate -m m --tokenizer bytes --batch $batch --stop-key until --stop e -n 2 in >out
		[ "$(texts_of out | sort -u)" = '["h","h"]' ]
	done
	for bad in 'del(.body.meta)|meta has no '\''until'\'' (rf-tokenize --meta-key)' \
		'.body.meta.until = 3|meta'\''s '\''until'\'' is neither a text nor a list of texts' \
		'.body.meta.until = ["a", 3]|meta'\''s '\''until'\'' is neither a text nor a list of texts' \
		'.body.meta.until = ["a", ""]|meta'\''s '\''until'\'' has an empty text'; do
		edited "if .type == \"seq\" and .body.id == 2 then ${bad%|*} else . end" in >bad
		run -65 bash -c 'rf-generate -m m --tokenizer bytes --stop-key until bad >out'
		[[ "$output" == 'rf-generate: bad: record 3 (byte '*"): ${bad#*|}"* ]]
	done
	rm m/tokenizer_config.json
	run -64 bash -c 'rf-generate -m m --stop-key until in >out'
	[[ "$output" == 'rf-generate: --stop-key needs a tokenizer, which --tokenizer gives: neither the'* ]]
}

@test "rf-generate: rows of shorter samples are filled with the first end token" {
	texts 40 1:20 2:30 3:40 4:50 | rf-generate -m "$M" -n 12 --temperature 2 --max-new 60 >out
	json out | jq -se 'all(.[].generation; .tokens.shape[1] as $m | .tokens.data as $t
		| .length.data as $l | ($l | max) == $m
		and all(range(0; 12) as $i | $t[$i * $m + $l[$i]:($i + 1) * $m][]; . == 2)
		and all(range(0; 12) as $i | ($t[$i * $m:$i * $m + $l[$i] - 1] | index(2)) == null; .)
		and all(range(0; 12) as $i | .stop[$i] == if $t[$i * $m + $l[$i] - 1] == 2 then "eos"
			else "length" end; .))' >/dev/null
	[ "$(stops out | jq -r '.[]' | sort -u | tr '\n' ' ')" = 'eos length ' ]
}

@test "rf-generate: --max-new-key takes the number of new tokens from each record" {
	texts 40 1:20 2:30 3:40 |
		edited 'if .type == "seq" then .body.meta.most = .body.id * 3 else . end' >in
	rf-generate -m "$M" --ignore-eos --max-new-key most in >out
	[ "$(json out | jq -c .generation.length.data)" = $'[3]\n[6]\n[9]' ]
	rf-generate -m "$M" --ignore-eos --max-new 9 in >long
	[ "$(wrote out)" = "$(wrote long | awk '{ print NR * 3 }' | paste - <(wrote long) |
		while read -r n ids; do jq -c "[.[0][:$n]]" <<<"$ids"; done)" ]
	for bad in 'del(.body.meta)' '.body.meta.most = 0' '.body.meta.most = 1.5' \
		'.body.meta.most = "3"'; do
		edited "if .type == \"seq\" and .body.id == 2 then $bad else . end" in >bad
		run -65 bash -c 'rf-generate -m "$0" --max-new-key most bad >out' "$M"
		[[ "$output" == 'rf-generate: bad: record 2 (byte '*"): meta has no 'most' that"* ]]
	done
	run -64 rf-generate -m "$M" --max-new-key most --max-new 3 in
}

@test "rf-generate: the text is decoded by the tokenizer of the model, of the stream or of --tokenizer" {
	speaker 107 104 111 1
	printf 'some text\n' >a.txt
	rf-tokenize --bytes --no-eos a.txt >in
	rf-generate -m m in >out
	[ "$(texts_of out)" = '["hel"]' ]
	# ids without a tokenizer have no text
	rm m/tokenizer_config.json
	printf '{"tokens": [5]}\n' | rf-tokenize --format ids --vocab 384 - >ids
	quiet bash -c 'rf-generate -m m ids >out'
	[ "$(texts_of out)" = null ]
	rf-generate -m m --tokenizer bytes ids >out
	[ "$(texts_of out)" = '["hel"]' ]
	run -64 bash -c 'rf-generate -m m --stop x ids >out'
	[[ "$output" == 'rf-generate: --stop needs a tokenizer, which --tokenizer gives: neither the'* ]]
	# the model has a tokenizer of an unknown kind
	echo '{"tokenizer_class": "GPT2Tokenizer"}' >m/tokenizer_config.json
	echo '{"version": "1.0", "model": {"type": "Unigram"}}' >m/tokenizer.json
	run -0 --separate-stderr bash -c 'rf-generate -m m ids >out'
	[[ "$stderr" == 'rf-generate: no text was written: '*Unigram* ]]
	[ "$(wrote out) $(texts_of out)" = '[[107,104,111,1]] null' ]
	run -64 bash -c 'rf-generate -m m --stop x ids >out'
	[[ "$output" == *Unigram* ]]
	# --tokenizer must be the tokenizer of the stream
	rm m/tokenizer.json
	edited 'if .type == "head" then .body.tokenizer.hash = "0123456789abcdef" else . end' in >in2
	run -65 bash -c 'rf-generate -m m --tokenizer bytes in2 >out'
	[[ "$output" == 'rf-generate: in2: the stream was made with tokenizer 0123456789ab, but bytes is '* ]]
}

@test "rf-generate: --batch does not change the bytes, and samples that do not fit in memory exit 71" {
	texts 40 1:3000 2:20 3:3000 4:20 >in
	rf-generate -m "$M" in >want
	rf-generate -m "$M" --batch 1 --max-len 3000 in | cmp - want
	run -71 bash -c 'rf-generate -m "$0" -n 65536 --max-new 100000 in >out' "$M"
	[ "${#lines[@]}" -eq 1 ]
}

@test "rf-generate: a model that overflows exits 70 and names record, sample and layer" {
	copy_model "$M" m
	"$RF_UNITS/helper/model" poke m model.embeddings.weight $((12 * 16)) 3e38
	texts 40 1:20 2:20 3:20 | edited 'if .type == "seq" then .body.tokens.data |= map(if . == 12 then 13
		else . end) | if .body.id == 2 then .body.tokens.data[7] = 12 else . end else . end' >in
	for batch in 0 1; do
		run -70 --separate-stderr bash -c "rf-generate -m m -n 2 --max-new 1 --batch $batch in >out"
		# any row of the chunk may be named
		said='): the logits of token 0 of sample 0 are not finite: layer 0 overflows at position '
		[[ "$stderr" == 'rf-generate: in: record 2 (byte '*"$said"[0-7] ]]
		run -65 rf-cat out
	done
	# the overflow comes from a token that the model wrote itself
	speaker 107 104 111 1
	"$RF_UNITS/helper/model" poke m model.embeddings.weight $((104 * 32)) 3e38
	printf '{"tokens": [5]}\n' | rf-tokenize --format ids --vocab 384 - >in
	run -70 --separate-stderr bash -c "rf-generate -m m -n 2 in >out"
	said='): the logits of token 2 of sample 0 are not finite: layer 0 overflows in rollout 0'
	[[ "$stderr" == 'rf-generate: in: record 1 (byte '*"$said at position 2" ]]
}

@test "rf-generate: an empty prompt exits 65, and an option out of range exits 64" {
	texts 40 1:20 | edited 'if .type == "seq" then .body.prompt_len = 0 else . end' >in
	run -65 bash -c 'rf-generate -m "$0" in >out' "$M"
	[[ "$output" == 'rf-generate: in: record 1 (byte '*'): the prompt is empty'* ]]
	for bad in '-n 0' '--max-new 0' '--temperature -1' '--temperature 1e-4' '--top-p 0' '--top-k -1' \
		'--batch -1' '--draw-step -2' '--stop='; do
		run -64 rf-generate -m "$M" $bad in
	done
}
