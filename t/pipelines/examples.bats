#!/usr/bin/env bats
# Tests of the programs in pipelines/examples.  The tests of my_reward.py are in rf-reward.bats.
setup() {
	load ../helper
	chat="python3 $ROOT/pipelines/examples/chat.py"
	template='{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}'
	template+='{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}'
}

# stub EXPRESSION: makes a package with the name transformers, whose tokenizer has this template
stub() {
	mkdir -p transformers
	cat >transformers/__init__.py <<-END
		import os, sys
		if os.environ.get("TRANSFORMERS_VERBOSITY") != "error":
		    print("[transformers] PyTorch was not found.", file=sys.stderr)

		class AutoTokenizer:
		    eos_token = "<end>"
		    chat_template = "..."

		    @classmethod
		    def from_pretrained(cls, path):
		        assert path in ("folder", "run/latest"), "no\\n tokenizer"
		        return cls()

		    def apply_chat_template(self, messages, tokenize, add_generation_prompt=False):
		        text = "".join(f"{m['role']}: {m['content']}<end>\n" for m in messages)
		        return $1
	END
	export PYTHONPATH=$PWD
	mkdir -p folder run/step-000003 bare
	ln -sfn step-000003 run/latest
}

@test "chat.py: turns a chat into a prompt and an answer by the tokenizer's template" {
	stub 'text + "assistant: " * add_generation_prompt'
	$chat folder >out <<-'END'
		{"messages": [{"role": "user", "content": "é?"}, {"role": "assistant", "content": "a \"b\""}]}
		{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]}
	END
	diff out - <<-'END'
		{"prompt": "user: é?<end>\nassistant: ", "answer": "a \"b\""}
		{"prompt": "system: s<end>\nuser: q<end>\nassistant: "}
	END
}

@test "chat.py: exits 65 and names the line if the template changes the prompt when an answer follows" {
	stub '"thinking " * add_generation_prompt + text'
	says 65 "chat.py: line 1: the template changes the prompt when an answer follows" $chat folder \
		<<<'{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}'
	[ -z "$output" ]
}

@test "chat.py: takes the tokenizer of a run, skips blank lines, and is silent if its reader exits" {
	stub 'text + "assistant: " * add_generation_prompt'
	printf '\n{"messages": [{"role": "user", "content": "q"}]}\n \r\n' >in
	for tokenizer in folder run; do
		run -0 --separate-stderr $chat $tokenizer <in
		[ "$output" = '{"prompt": "user: q<end>\nassistant: "}' ]
		[ -z "$stderr" ]
	done
	yes '{"messages": [{"role": "user", "content": "q"}]}' | head -n 20000 >many
	{ $chat folder <many 2>err || echo $?; } | sed 1q >first
	[ ! -s err ]
}

@test "chat.py: each failure is one line that names the line or the argument" {
	stub 'text + "assistant: " * add_generation_prompt if text != "user: no<end>\n" else 1 / 0'
	fails() { # fails STATUS TEXT ARGUMENT...: checks status and message, with standard input
		run -"$1" --separate-stderr $chat "${@:3}"
		[ -z "$output" ] && [ "$stderr" = "chat.py: $2" ] || { echo "$stderr"; return 1; }
	}
	fails 64 'usage: chat.py TOKENIZER <chats.jsonl >questions.jsonl' </dev/null
	fails 64 'usage: chat.py TOKENIZER <chats.jsonl >questions.jsonl' a b </dev/null
	fails 66 'nowhere: there is no such folder' nowhere </dev/null
	fails 78 'bare: transformers cannot read the tokenizer: no tokenizer' bare </dev/null
	while IFS='|' read -r line what; do
		fails 65 "line 3: $what" folder < <(printf '\n\n%b\n' "$line")
	done <<-'END'
		{"messages":|not JSON: Expecting value at column 13
		[]|there is no list 'messages' with a message
		{"messages": []}|there is no list 'messages' with a message
		{"messages": "q"}|there is no list 'messages' with a message
		{"messages": [{"content": "q"}]}|a message is not an object with a 'role' that is a text
		{"messages": [{"role": "assistant"}]}|the assistant's message answers no message
		{"messages": [{"role": "user"}]}|the chat template fails: 'content'
		{"messages": [{"role": "user", "content": "no"}]}|the chat template fails: division by zero
		\xff|'utf-8' codec can't decode byte 0xff in position 0: invalid start byte
	END
	says 74 'chat.py: [Errno 28] No space left on device' bash -c "$chat folder >/dev/full" \
		<<<'{"messages": [{"role": "user", "content": "q"}]}'
	echo 'raise ImportError("No module named x")' >transformers/__init__.py
	fails 69 "Python's transformers cannot be loaded: No module named x" folder </dev/null
}

@test "chat.py: with transformers installed, chats.jsonl becomes the same tokens as whole chats" {
	python3 -c 'import transformers, jinja2' 2>/dev/null || skip "Python's transformers is not installed"
	mkdir m
	zstd -dcq "$G/tokenizer/qwen2.json.zst" >m/tokenizer.json
	jq -n --arg template "$(printf '%b' "$template")" '{tokenizer_class: "PreTrainedTokenizerFast",
		eos_token: "<|im_end|>", chat_template: $template}' >m/tokenizer_config.json
	$chat m <"$ROOT/pipelines/examples/chats.jsonl" >questions.jsonl 2>err || { cat err; return 1; }
	[ ! -s err ]
	rf-tokenize --tokenizer m --prompt-key prompt --answer-key answer -o questions.rf questions.jsonl
	python3 - >want 2>err <<-END || { cat err; return 1; }
		import json
		from transformers import AutoTokenizer
		t = AutoTokenizer.from_pretrained("m")
		for line in open("$ROOT/pipelines/examples/chats.jsonl"):
		    text = t.apply_chat_template(json.loads(line)["messages"], tokenize=False)
		    ids = t(text.rstrip("\n"), add_special_tokens=False).input_ids
		    print(json.dumps(ids, separators=(",", ":")))
	END
	rf-dump --json questions.rf | jq -c 'select(.type == "seq").body.tokens.data' | diff want -
	rf-dump --json questions.rf | jq -c 'select(.type == "seq").body.answers' |
		diff - <(printf '["%s"]\n' Blue Limmat)
}

@test "my_selection.py: chooses uncertain tokens that begin a word as positions, at least k tokens apart" {
	listing rf-select.1 1 | diff "$ROOT/pipelines/examples/my_selection.py" -
	[ "$(wc -l <"$ROOT/pipelines/examples/my_selection.py")" -le 25 ]
	# each token is more uncertain than the one before, and a token inside a word is the most uncertain
	rf-tokenize --bytes --no-eos - <<<'{"text": "some words of a text that goes on"}' 2>err |
		edited 'if .type == "seq" then .body |= (.tokens.shape as $T | .entropy = {dtype: "<f4",
			shape: $T, data: [range($T[0]) | if . == 6 then 9 else . / 100 end]}) else . end' >in
	quiet rf-select --exec "python3 '$ROOT/pipelines/examples/my_selection.py'" --text -k 5 -o out in
	rf-dump --json out | jq -r 'select(.type == "seq").body.positions.data | sort | map(tostring) |
		join(" ")' >have
	# no position begins the word "a", which is too near to "text", or "on", which ends before a rollout
	# does
	[ "$(cat have)" = "5 11 16 21 26" ]
}

@test "my_advantage.py: a rollout's advantage is its reward minus the mean of the others at its position" {
	P=$PWD tiny_model
	seq 400 | paste -sd' ' >text.txt
	echo short >short.txt
	rf-tokenize --tokenizer ckpt --max-len 200 --truncate split --min-len 5 -o texts.rf text.txt short.txt
	rf-entropy -m ckpt texts.rf | rf-select --chunks 2 | rf-rollout -m ckpt -n 3 |
		rf-reward -o rewarded.rf
	rf-dump --json rewarded.rf | python3 "$ROOT/pipelines/examples/my_advantage.py" |
		rf-cat --json -o own.rf
	rf-dump --check own.rf
	records() { rf-dump --json "$1" | jq -c 'select(.type == "seq").body'; }
	# one of the records is too short for positions
	[ "$(records own.rf | jq -c 'has("advantage")' | sort | uniq -c | wc -l)" -eq 2 ]
	diff <(records own.rf | jq -c 'del(.advantage)') <(records rewarded.rf)
	records own.rf | jq -se 'map(select(.advantage)) | length > 3 and all(
		.reward.total.data as $r | .advantage.data as $a | $a | length == 6 and all(range(6);
			($r[. / 3 | floor * 3:][:3] | add) as $sum
			| ($r[.] - ($sum - $r[.]) / 2 - $a[.]) | fabs < 1e-6))'
	# the trainer uses the advantages unchanged
	rf-init --from ckpt run
	quiet rf-grpo -m run --advantage stream -o trained.rf own.rf
	diff <(records trained.rf | jq -c .advantage) <(records own.rf | jq -c .advantage)
	# a single rollout per position has no others
	rf-rollout -m ckpt -n 1 rewarded.rf | rf-reward | rf-dump --json >one.json
	says 1 'my_advantage.py: n must be at least 2 (rf-rollout -n 4)' \
		python3 "$ROOT/pipelines/examples/my_advantage.py" <one.json
}
