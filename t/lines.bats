#!/usr/bin/env bats
# Files of lines, as every program that takes them reads them: JSON that Python wrote, blank and bad lines,
# compressed files of several tools, logs that are appended to.

setup() {
	load helper
}

# refused TEXT COMMAND...: the command ends with 65 and one line that ends with the text
refused() {
	run -65 --separate-stderr "${@:2}"
	[[ $stderr == *"$1" ]] && [ "${#stderr_lines[@]}" -eq 1 ] && return
	echo "$stderr"
	return 1
}

@test "lines: a NaN or a half surrogate pair in a key that no option names changes nothing" {
	rest=',"x":NaN,"y":[Infinity,{"z":-Infinity}],"w":"\ud800","\udfff":1'
	printf '{"text":"ab"}\n' | rf-tokenize --bytes -o want.rf 2>err
	printf '{"text":"ab"%s}\n' "$rest" | rf-tokenize --bytes -o have.rf 2>err
	cmp want.rf have.rf
	printf '{"tokens":[1,2]}\n' | rf-tokenize --format ids --vocab 9 -o want.rf 2>err
	printf '{"tokens":[1,2]%s}\n' "$rest" | rf-tokenize --format ids --vocab 9 -o have.rf 2>err
	cmp want.rf have.rf
	printf '{"pred":"x","answers":["x"],"task":"qa_1"%s}\n' "$rest" >in.jsonl
	[ "$(rf-score --each in.jsonl)" = '{"task":"qa_1","id":0,"score":1.0}' ]
	printf '{"question":"q?","answers":["x"],"context":"c x."%s}\n' "$rest" >q.jsonl
	rf-needle --task qa_1 --length 1k -n 1 --tokenizer bytes --qa q.jsonl | grep -q '"task":"qa_1"'
	printf '{"text":"a b c."%s}\n' "$rest" >h.jsonl
	rf-needle --task niah_single_2 --length 1k -n 1 --tokenizer bytes --haystack h.jsonl | grep -q niah
}

@test "lines: a NaN or a half surrogate pair in a key that a program reads is an error that names the key" {
	bytes="rf-tokenize --bytes -o never"
	broken='a broken string (an unpaired surrogate)'
	printf '{"text":"a"}\n{"text":NaN,"x":{"y":-Infinity},"z":["\\udc00"]}\n' >a.jsonl
	refused "a.jsonl: line 2: 'text' is NaN, not a string" $bytes a.jsonl
	printf '{"text":"a","x":{"y":-Infinity},"z":["\\udc00"],"k":{"\\ud800":1}}\n' >a.jsonl
	refused "line 1: 'x': -Infinity cannot be kept in a record" $bytes --meta-key x a.jsonl
	refused "line 1: 'z': $broken cannot be kept in a record" $bytes --meta-key z a.jsonl
	refused "line 1: 'k': $broken cannot be kept in a record" $bytes --meta-key k a.jsonl
	refused "line 1: 'z' has $broken at index 0, not a string" \
		$bytes --prompt-key text --answers-key z a.jsonl
	printf '{"text":"a \\ud83d b"}\n' >a.jsonl
	refused "line 1: 'text' is $broken, not a string" $bytes a.jsonl
	printf '{"tokens":[1,NaN]}\n' >a.ids
	refused "line 1: 'tokens' has 'NaN' at index 1, not a token id" rf-tokenize --vocab 9 -o never a.ids
	printf '{"pred":"\\ud800","answers":["x"],"task":"qa_1","n":NaN}\n' >a.jsonl
	refused "a.jsonl: line 1: 'pred' is $broken, not a text" rf-score --partial a.jsonl
	refused "(it is or has NaN, an infinity, an unpaired surrogate or a number out of range)" \
		rf-score --by task,n a.jsonl
	printf '{"pred":"x","answers":["\\ud800"],"task":"qa_1"}\n' >a.jsonl
	refused "line 1: 'answers' has an element that is $broken, not a text" rf-score a.jsonl
	printf '{"question":"q?","answers":["\\ud800"],"context":"c"}\n' >q.jsonl
	refused "q.jsonl: line 1: 'answers' is $broken, not a string" \
		rf-needle --task qa_1 --length 1k -n 1 --tokenizer bytes --qa q.jsonl
	echo '{"text":"a"}' | rf-tokenize --bytes 2>err | rf-dump --json | sed 's/"id":0/"id":NaN/' >a.json
	refused "a.json: line 2: not JSON: byte 36 is 'N', where a value was expected" rf-cat --json a.json
	[ ! -e never ]
}
