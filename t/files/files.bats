#!/usr/bin/env bats
# Files of a folder from elsewhere, which may be of any kind and size.  One function of lib/io/file.h opens
# them all.

setup() {
	load ../helper
	echo '{"text":"ab"}' >a.jsonl
}

# entry KIND NAME: makes an entry of this kind that is not a regular file
entry() {
	rm -rf "$2"
	case $1 in
	'a FIFO') mkfifo "$2" ;;
	'a device') ln -s /dev/zero "$2" ;;
	'a folder') mkdir "$2" ;;
	'a socket')
		python3 -S -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$2" ;;
	'that leads to itself') ln -s "$(basename "$2")" "$2" ;;
	'to a file that does not exist') ln -s nowhere "$2" ;;
	esac
}

kinds=('a FIFO' 'a device' 'a folder' 'a socket' 'that leads to itself' 'to a file that does not exist')

# other: makes `these` three of the kinds, and then the other three, in turns; with RF_ALL=1 all of them
turn=0
other() {
	[ -n "${RF_ALL:-}" ] && these=("${kinds[@]}") ||
		these=("${kinds[turn]}" "${kinds[turn + 2]}" "${kinds[turn + 4]}")
	turn=$((1 - turn))
}

# refuses STATUS WORDS COMMAND...: succeeds if the command exits in time with this status and one line that
# has the words
refuses() {
	says "$1" "...$2..." timeout 10 "${@:3}" </dev/null || return 1
	[ -z "$output" ] || { echo "$output"; return 1; }
}

config() {
	echo '{"model_type":"delta_net","hidden_size":32,"num_hidden_layers":1,"num_heads":2,"hidden_ratio":2,
		"vocab_size":384,"eos_token_id":1,"conv_size":4}'
}

tiny() {
	config >t.json
	rf-init --config t.json --tokenizer bytes ckpt
	rf-tokenize --bytes -o c.rf a.jsonl
}

@test "files: rf-tokenize names the kind of each entry of a tokenizer that is not a regular file" {
	mkdir tok
	zstd -dcq "$G/tokenizer/qwen2.json.zst" >tokenizer.json
	for name in tokenizer.json tokenizer.model tokenizer_config.json special_tokens_map.json \
		added_tokens.json config.json generation_config.json; do
		other
		for kind in "${these[@]}"; do
			rm -rf tok
			mkdir tok
			[ "$name" = tokenizer.model ] || cp tokenizer.json tok/
			[ "$name" != generation_config.json ] || config >tok/config.json
			# a tokenizer that cannot be read is not replaced by another one
			[ "$name" != tokenizer.json ] || cp "$G/tokenizer/tokenizer.model" tok/
			entry "$kind" "tok/$name"
			refuses 78 "tok/$name: ...$kind" rf-tokenize --tokenizer tok -o out a.jsonl
			[ ! -e out ]
		done
	done
	for kind in "${kinds[@]}"; do
		entry "$kind" x.json
		[ "$kind" = 'a folder' ] || refuses 78 "$kind" rf-tokenize --tokenizer x.json -o out a.jsonl
	done
}

@test "files: an error names the entry of a checkpoint that is not a regular file" {
	tiny
	mv ckpt good
	for name in config.json generation_config.json model.safetensors model.safetensors.index.json \
		tokenizer_config.json tokenizer.json tokenizer.model; do
		other
		for kind in "${these[@]}"; do
			rm -rf ckpt
			cp -a good ckpt
			rm -f "ckpt/state.json"
			[ "$name" != model.safetensors.index.json ] || rm -f ckpt/model.safetensors
			entry "$kind" "ckpt/$name"
			for words in 'rf-entropy -m ckpt c.rf' 'rf-generate -m ckpt --max-new 1 c.rf' \
				'rf-init --from ckpt run' 'rf-dump --check ckpt'; do
				[[ "$name" != token* || "$words" == rf-dump* || "$words" == rf-init* ]] ||
					continue
				read -ra tool <<<"$words"
				run timeout 10 "${tool[@]}" 2>&1 </dev/null
				[ "$status" -eq 78 ] ||
					{ echo "$words, $name, $kind: $status: $output"; return 1; }
				[[ "$output" == *"$name"*"$kind"* ]] ||
					{ echo "$words, $name, $kind: $output"; return 1; }
				[ ! -e run ]
			done
		done
	done
}

@test "files: a tokenizer's file that is larger than the limit is refused with 78 before it is read" {
	for name in tokenizer.json tokenizer.model tokenizer_config.json special_tokens_map.json \
		added_tokens.json; do
		rm -rf tok
		mkdir tok
		[ "$name" = tokenizer.model ] || zstd -dcq "$G/tokenizer/qwen2.json.zst" >tok/tokenizer.json
		truncate -s 20G "tok/$name"
		refuses 78 "tok/$name: the file has 21474836480 bytes, more than the limit of 67108864" \
			rf-tokenize --tokenizer tok -o out a.jsonl
	done
	truncate -s 20G x.model
	refuses 78 'x.model: the file has 21474836480 bytes, more than the limit of 67108864' \
		rf-tokenize --tokenizer x.model -o out a.jsonl
}

@test "files: a file of a checkpoint above its limit is refused with 78 before its bytes are read" {
	tiny
	mv ckpt good
	for name in config.json generation_config.json model.safetensors.index.json; do
		rm -rf ckpt
		cp -a good ckpt
		rm -f ckpt/state.json
		[ "$name" != model.safetensors.index.json ] || rm ckpt/model.safetensors
		truncate -s 20G "ckpt/$name"
		refuses 78 "$name: the file has 21474836480 bytes, more than the limit of " \
			rf-generate -m ckpt --max-new 1 c.rf
	done
}

@test "files: a packed tokenizer.json that grows beyond the limit is refused" {
	head -c 70000000 /dev/zero | zstd -q >tokenizer.json
	run -65 rf-tokenize --tokenizer tokenizer.json -o out a.jsonl
	[ "$output" = 'rf-tokenize: tokenizer.json: the text is longer than 67108864 bytes' ]
}
