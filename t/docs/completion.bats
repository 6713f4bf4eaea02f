#!/usr/bin/env bats
# Tests of the completion for bash, called in the same way as by the shell.

setup() {
	load ../helper
	source "$ROOT/completion/rf-tools.bash"
}

# offers PROGRAM WORD...: prints the completions of the last word, sorted, on one line
offers() {
	COMP_WORDS=("$@")
	COMP_CWORD=$(($# - 1))
	"$(complete -p "$1" | sed 's/^complete -F \([^ ]*\) .*/\1/')" "$1"
	printf '%s\n' "${COMPREPLY[@]}" | sort | paste -sd' '
}

@test "completion: every program completes exactly the long options of its --help" {
	for program in "$RF_BIN"/rf-*; do
		name=${program##*/}
		complete -p "$name"
		want=$("$program" --help | grep -oE '^  (-.,|   ) --[a-z-]+' | grep -oE -- '--?[a-z][a-z-]*' |
			grep -E '^--' | sort | paste -sd' ')
		[ -n "$want" ]
		[ "$(offers "$name" --)" = "$want" ] || { echo "$name: $(offers "$name" --)"; return 1; }
	done
}

@test "completion: the beginning of an option is completed, and after a dash short options are offered, too" {
	[ "$(offers rf-grpo --lr)" = "--lr --lr-schedule" ]
	[[ " $(offers rf-entropy -) " == *" -m "* ]]
	[ -z "$(offers rf-select --no-such)" ]
}

@test "completion: the value of an option is completed with the words that the option takes" {
	[ "$(offers rf-grpo --lr-schedule '')" = "constant cosine linear" ]
	[ "$(offers rf-grpo --lr-schedule l)" = linear ]
	[ "$(offers rf-grpo --lr-schedule = '')" = "constant cosine linear" ]
	[ "$(offers rf-grpo --lr-schedule =)" = "constant cosine linear" ]
	[ "$(offers rf-reward --kind '')" = "binary cosine edit hybrid random" ]
	[ "$(offers rf-entropy --keep hidden)" = "hidden hidden,logits" ]
	[ "$(offers rf-grpo --stale '')" = any ]
	[ "$(offers rf-grpo --outer '')" = "none response" ]
	[ "$(offers rf-ntp --mean '')" = "sequences tokens" ]
	[ -z "$(offers rf-grpo --lr '')" ]
}

@test "completion: files and folders are offered where an option or argument names one" {
	mkdir run
	touch corpus.rf config.json
	[ "$(offers rf-entropy -m '')" = run ]
	[ "$(offers rf-ntp --weights-out '')" = run ]
	[ "$(offers rf-init --config c)" = "config.json corpus.rf" ]
	[ "$(offers rf-tokenize --tokenizer r)" = run ]
	[ "$(offers rf-init --tokenizer '')" = "bytes run" ]
	[ "$(offers rf-dump co)" = "config.json corpus.rf" ]
	[ "$(offers rf-entropy --nll c)" = "config.json corpus.rf" ]
}
