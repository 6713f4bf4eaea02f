#!/usr/bin/env bats
# The programs in examples/.  examples/my_reward.py has its tests in rf-reward.bats.
setup() {
	load helper
	chat="python3 $ROOT/examples/chat.py"
	template='{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}'
	template+='{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}'
}

# stub EXPRESSION: a package that is named as transformers, whose tokenizer has this template
stub() {
	mkdir -p transformers
	cat >transformers/__init__.py <<-END
		class AutoTokenizer:
		    eos_token = "<end>"

		    @classmethod
		    def from_pretrained(cls, path):
		        assert path == "folder"
		        return cls()

		    def apply_chat_template(self, messages, tokenize, add_generation_prompt=False):
		        text = "".join(f"{m['role']}: {m['content']}<end>\n" for m in messages)
		        return $1
	END
	export PYTHONPATH=$PWD
}

@test "chat.py: a chat becomes a prompt and an answer by the tokenizer's template" {
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

@test "chat.py: a template that changes the prompt when an answer follows is an error that names the line" {
	stub '"thinking " * add_generation_prompt + text'
	run -1 --separate-stderr $chat folder \
		<<<'{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}'
	[ "$stderr" = "chat.py: line 1: the template changes the prompt when an answer follows" ]
	[ -z "$output" ]
}

@test "chat.py: examples/chats.jsonl becomes the tokens of the whole chats, with the installed transformers" {
	python3 -c 'import transformers, jinja2' 2>/dev/null || skip "Python's transformers is not installed"
	mkdir m
	zstd -dcq "$G/tokenizer/qwen2.json.zst" >m/tokenizer.json
	jq -n --arg template "$(printf '%b' "$template")" '{tokenizer_class: "PreTrainedTokenizerFast",
		eos_token: "<|im_end|>", chat_template: $template}' >m/tokenizer_config.json
	$chat m <"$ROOT/examples/chats.jsonl" >questions.jsonl 2>err || { cat err; return 1; }
	rf-tokenize -m m --prompt-key prompt --answer-key answer -o questions.rf questions.jsonl
	python3 - >want 2>err <<-END || { cat err; return 1; }
		import json
		from transformers import AutoTokenizer
		t = AutoTokenizer.from_pretrained("m")
		for line in open("$ROOT/examples/chats.jsonl"):
		    text = t.apply_chat_template(json.loads(line)["messages"], tokenize=False)
		    ids = t(text.rstrip("\n"), add_special_tokens=False).input_ids
		    print(json.dumps(ids, separators=(",", ":")))
	END
	rf-dump --json questions.rf | jq -c 'select(.type == "seq").body.tokens.data' | diff want -
	rf-dump --json questions.rf | jq -c 'select(.type == "seq").body.answers' |
		diff - <(printf '["%s"]\n' Blue Limmat)
}
