#!/usr/bin/env bats
# rf-logp: log-probabilities of choices after one pass over their context; lm_eval_adapter: lm-eval with the
# programs.
setup() {
	load ../helper
	load ../model
}

# families: prints the models of t/golden that have mixers of their own; with RF_ALL=1 also others
# some_families: prints those whose mixers the function `wide` does not make; with RF_ALL=1 all of them
families() {
	printf '%s\n' "$G"/{delta-hybrid,gated,lact-muon,qwen}
	[ -z "${RF_ALL:-}" ] || printf '%s\n' "$G"/{delta,delta-gate-neg,lact}
}
some_families() {
	if [ -n "${RF_ALL:-}" ]; then families; else printf '%s\n' "$G"/{delta-hybrid,lact-muon}; fi
}

# split SPEC TEXTS: makes the stream `questions` from texts, with a line of SPEC for each text.  The first
# number of a line is the number of tokens of the prompt; the others are the lengths of choices, which follow
# each other in the text.  "l-f" is a choice of l tokens of which the first f are context.
split() {
	json "$2" | jq -c --arg spec "$1" '($spec | split("\n") | map(split(" "))) as $spec
		| .tokens.data as $t | ($spec[input_line_number - 1] // $spec[-1]) | (.[0] | tonumber) as $T
		| reduce .[1:][] as $w ({at: $T, q: []}; ($w | split("-") | map(tonumber)) as $l
			| .q += [{from: ($l[1] // 0), ids: $t[.at:.at + $l[0]]}] | .at += $l[0])
		| {context: $t[:$T], q}' >pieces
	jq -c '{tokens: .context | {dtype: "<i4", shape: [length], data: .},
		choice: (.q | (map(.ids | length) | max) as $m | length as $n | {
			tokens: {dtype: "<i4", shape: [$n, $m],
				data: map(.ids + [range($m - (.ids | length)) | 0]) | add},
			length: {dtype: "<i4", shape: [$n], data: map(.ids | length)},
			from: {dtype: "<i4", shape: [$n], data: map(.from)}}
			| if .from.data | any(. > 0) then . else del(.from) end)}' pieces | stream >questions
}
# apart: makes the stream `apart`, in which each choice of the last `split` is a sequence with its prompt
apart() {
	jq -c '(.context | length) as $T | .q[] | [$T + .from, $T + (.ids | length)]' pieces >ranges
	jq -c '.context as $c | .q[] | ($c + .ids) | {tokens: {dtype: "<i4", shape: [length], data: .}}' \
		pieces | stream >apart
}
# stream: makes a stream of bodies without ids, one a line
stream() {
	jq -c --slurp 'to_entries | ([{seq: 0, type: "head", body: {format: 1, vocab: 40}}]
		+ map({seq: (.key + 1), type: "seq", body: ({id: .key} + .value)})
		+ [{seq: (length + 1), type: "end", body: {count: length, xxh64: 0}}])[]' | rf-cat --json
}
# logps FILE: prints log-probability and greediness of every choice, one a line
logps() { json "$1" | jq -r '.choice | [.logp.data, .greedy.data] | transpose[] | @tsv'; }
# want MODEL OPTION...: prints the same for `apart`, from the values that rf-entropy gives each token
want() {
	rf-entropy -m "$1" --nll "${@:2}" apart | json - | jq -c '[.nll.data, .correct.data]' |
		paste -d'\n' ranges - | jq -nr 'inputs as $r | input | map(.[$r[0] - 1:$r[1] - 1])
			| [- (.[0] | add), (if .[1] | all(. == 1) then 1 else 0 end)] | @tsv'
}
# near FILE FILE: succeeds if the log-probabilities differ by at most 1e-5 of their size, or of 1 if they are
# smaller, and the greediness is the same
near() {
	paste "$1" "$2" | awk '{ d = $1 - $3; d = d < 0 ? -d : d; s = $3 < 0 ? -$3 : $3; s = s > 1 ? s : 1 }
		NF != 4 || d > 1e-5 * s || $2 != $4 { print NR ": " $0; bad = 1 }
		END { exit bad || !NR }'
}

SPEC='80 30 28 35 5
600 10 11 9 10
1 1 1 1
64 1 3 64 70
129 300 257 258 2
200 17 17 17 17 17 17 17 17 17 17 17 17 17 17 17 17 17 17 17 17
5 2-1 40-7 1 100-99
70 5-4 270-3 6'
some() { split "$SPEC" <(texts 40 1:180 2:640 3:4 4:202 5:946 6:540 7:148 8:351); }

@test "rf-logp: keeps the promises of a filter" {
	load ../promises
	split '20 3 4' <(texts 40 1:27 2:27 3:27 4:27)
	PROMISE_MIB=128 promises filter questions rf-logp -m "$M"
}

@test "rf-logp: choices have the log-probabilities of one sequence per choice to 1e-5, in every family" {
	some
	apart
	for m in $(families); do
		rf-logp -m "$m" questions >out
		near <(logps out) <(want "$m") || { echo "$m"; return 1; }
	done
	[ "$(logps out | wc -l)" = 46 ]
}

@test "rf-logp: a choice that the model would generate is greedy, and with another last token it is not" {
	for m in delta ${RF_ALL:+gated} lact qwen; do
		texts 40 1:30 2:64 3:100 | rf-generate -m "$G/$m" --max-new 20 --ignore-eos >out
		json out | jq -c '.generation.tokens.data as $g | ($g[:19] + [39 - $g[19]]) as $other
			| {tokens, choice: {tokens: {dtype: "<i4", shape: [3, 20], data: ($g + $other + $g)},
				length: {dtype: "<i4", shape: [3], data: [20, 20, 1]}}}' | stream >questions
		rf-logp -m "$G/$m" questions >out
		[ "$(json out | jq -c .choice.greedy.data | sort -u)" = '[1,0,1]' ]
	done
}

@test "rf-logp: the bits do not depend on threads, --max-len, other records or the order of records" {
	some
	wide ${RF_ALL:+delta_net gated_deltanet} lact_swiglu qwen3_5_text
	local all=('--threads 1' '--threads 3 --max-len 946' '--max-len 3000' '--device check') i=0
	for m in $(some_families) wide-*; do
		rf-logp -m "$m" --device "$like_cpu" questions >one
		# one of the four for each model, in turn
		[ -n "${RF_ALL:-}" ] && hows=("${all[@]}") || hows=("${all[i % 4]}")
		i=$((i + 1))
		for how in "${hows[@]}"; do
			rf-logp -m "$m" --device "$like_cpu" $how questions | cmp - one ||
				{ echo "$m $how"; return 1; }
		done
		"$RF_UNITS/helper/records" reverse questions | rf-logp -m "$m" --device "$like_cpu" >back
		"$RF_UNITS/helper/records" reverse back | cmp - one || { echo "$m, reversed"; return 1; }
	done
	for m in wide-lact_swiglu ${RF_ALL:+wide-delta_net wide-gated_deltanet wide-qwen3_5_text}; do
		rf-logp -m "$m" --device "$like_cpu" questions >one
		alone questions one rf-logp -m "$m" --device "$like_cpu" 2>err || { echo "$m"; return 1; }
	done
}

@test "rf-logp: the size of the segments changes values only by rounding" {
	some
	wide ${RF_ALL:+delta_net gated_deltanet} lact_swiglu qwen3_5_text
	for m in $(some_families) wide-*; do
		rf-logp -m "$m" questions >one
		for segment in 64 ${RF_ALL:+128}; do
			rf-logp -m "$m" --segment $segment questions >other
			near <(logps other) <(logps one) || { echo "$m $segment"; return 1; }
		done
	done
}

@test "rf-logp: computes the context once, each choice without its last token once, and little more" {
	# shapes of hellaswag, of arc with five examples, of single tokens, and of choices of different
	# lengths
	while read -r shape rows alone times; do
		split "${shape//,/ }" <(texts 40 1:2000)
		rf-logp -m "$M" questions 2>err >out
		[[ "$(cat err)" == *": $rows rows, where one pass per choice has $alone" ]] ||
			{ cat err; return 1; }
		awk -v r="$rows" -v a="$alone" -v t="$times" 'BEGIN { exit !(a / r >= t) }'
	done <<-'END'
		80,30,30,30,30 196 436 2.2
		600,10,10,10,10 636 2436 3.8
		50,1,1,1,1 50 200 4
		80,40,35,30,25 221 446 2
		9,100,80 187 196 1
	END
	# the rows are the tokens and at most the padding of a pass
	split '100 1 20 3 40 5 60 7 80 9 30 11 50 13 70 15 90' <(texts 40 1:2000)
	rf-logp -m "$M" questions 2>err >out
	awk '{ exit !($7 >= 100 + 487 && $7 <= 100 + 487 + 16 * 16 && $7 < $15 / 3) }' err
}

@test "rf-logp: the choice of an empty prompt has the log-probability that rf-ntp --eval gives the text" {
	printf '{"q":"","c":"A whole text."}\n' >a.jsonl
	rf-tokenize --bytes --prompt-key q --choices-key c a.jsonl >questions
	printf '{"tokens":[1,%s]}\n' "$(printf 'A whole text.' | od -An -tu1 -v | tr -s ' ' '\n' |
		sed '/^$/d' | awk '{ print $1 + 3 }' | paste -sd,)" >a.ids
	jq '.vocab_size = 384' "$G/delta/config.json" >config.json
	rf-init --config config.json m
	rf-tokenize --vocab 384 a.ids | rf-ntp --eval -m m >eval
	[ "$(jq .tokens eval)" = 13 ]
	rf-logp -m m questions | logps - >out
	near out <(jq -r '[-.nll * .tokens, 0] | @tsv' eval)
}

@test "rf-logp: replaces old values, keeps other keys, and passes records without choices unchanged" {
	split '20 3 4' <(texts 40 1:27 2:27)
	rf-logp -m "$M" questions >want
	edited 'if .type == "seq" then .body.choice += {greedy: {dtype: "<i4", shape: [2], data: [1, 1]},
		later: 7} | .body.entropy = {dtype: "<f4", shape: [20], data: [range(20) | 1]}
		else . end' questions | rf-logp -m "$M" >have
	[ "$(logps have)" = "$(logps want)" ]
	[ "$(json have | jq -c '[.choice.later, .entropy.data[0]]' | sort -u)" = '[7,1]' ]
	run --separate-stderr -0 bash -c 'rf-logp -m "$0" "$1" >out' "$M" "$G/stream/tokens.rf"
	[ "$stderr" = "rf-logp: none of 4 records has choices (rf-tokenize --choices-key writes them)" ]
	diff <(json out) <(json "$G/stream/tokens.rf")
}

@test "rf-logp: errors about a token, a length or an overflow name the record and the choice" {
	split '20 3 4' <(texts 40 1:27 2:27 3:27)
	edited 'if .type == "head" then del(.body.vocab) elif .body.id == 1
		then .body.choice.tokens.data[5] = 40 else . end' questions >in
	run -65 bash -c 'rf-logp -m "$0" in >out' "$M"
	[[ "$output" == 'rf-logp: in: record 2 (byte '*'): token 1 of choice 1 is 40, outside the model'* ]]
	run -65 bash -c 'rf-logp -m "$0" --max-len 23 questions >out' "$M"
	said='): the sequence of 20 tokens and choice 1 of 4 tokens are together longer than --max-len '
	[[ "$output" == 'rf-logp: questions: record 1 (byte '*"$said"* ]]
	rf-logp -m "$M" --max-len 24 questions >out
	copy_model "$M" m
	"$RF_UNITS/helper/model" poke m model.embeddings.weight $((12 * 16)) 3e38
	edited 'if .type == "seq" then .body.tokens.data |= map(if . == 12 then 13 else . end)
		| .body.choice.tokens.data |= map(if . == 12 then 13 else . end) else . end' questions >in
	rf-logp -m m in >out
	edited 'if .body.id == 1 then .body.choice.tokens.data[4:6] = [5, 12] else . end' in >bad
	run -70 --separate-stderr bash -c 'rf-logp -m m bad >out'
	said='): the log-probability of choice 1 is not finite: layer 0 overflows in choice 1 at position 2'
	[[ "$stderr" == 'rf-logp: bad: record 2 (byte '*"$said"[0-9] ]]
	edited 'if .body.id == 2 then .body.tokens.data[7] = 12 else . end' in >bad
	says 70 'rf-logp: bad: record 3 (byte ... overflows at position ...' bash -c 'rf-logp -m m bad >out'
	run -65 rf-cat out
}

@test "rf-logp(1): acc.jq counts right answers by log-probability, and by log-probability per character" {
	sed -n '/^\.Bd/,/^\.Ed/p' "$ROOT/man/rf-logp.1" | sed -n '/^def/,/^}/p' >acc.jq
	while read -r logp gold choices; do
		jq -nc --argjson l "$logp" --argjson g "$gold" --argjson c "$choices" \
			'{body: {meta: {gold: $g, choices: $c}, choice: {logp: {data: $l}}}}'
	done >out <<-'END'
		[-3,-4] 1 ["a","bb"]
		[-3,-2.4] 0 ["aaa","éé"]
		[-3,-3,-9] 0 ["aa","bb","c"]
		[-5,-3] 0 ["aaa","bbb"]
	END
	[ "$(jq -csf acc.jq out)" = '{"questions":4,"acc":0.25,"acc_norm":0.75}' ]
}

# lm_eval SCRIPT|-m MODULE OPTION...: runs lm-eval, by the adapter or by its own module, on the tasks here
lm_eval() {
	HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1 HF_HOME=$PWD/cache TOKENIZERS_PARALLELISM=false python3 "$@" \
		--include_path tasks --tasks rf_mc,rf_ll,rf_ro,rf_ge --log_samples >log 2>&1 ||
		{ tail -n 30 log; return 1; }
}

@test "lm_eval_adapter: log-likelihoods, whole texts and answers are those of lm-eval with transformers" {
	python3 -c 'import lm_eval, torch, transformers, accelerate' 2>/dev/null ||
		skip "Python's lm-eval, torch, transformers or accelerate is not installed"
	jq '.vocab_size = 4008 | .eos_token_id = 4000 | .bos_token_id = null' "$G/qwen/config.json" \
		>config.json
	rf-init --config config.json ckpt
	zstd -qdc "$G/tokenizer/qwen3_5.json.zst" >ckpt/tokenizer.json
	echo '{"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"}' \
		>ckpt/tokenizer_config.json
	python3 - <<-'END'
		import json, os, random
		random.seed(3)
		words = "the cat sat on a mat and then it went away to see what was there before".split()
		def say(n): return " ".join(random.choice(words) for _ in range(n))
		def some(low, high): return say(random.randint(low, high))
		def write(name, rows):
		    with open(name, "w") as f:
		        f.writelines(json.dumps(row) + "\n" for row in rows)
		mc = [{"text": some(3, 30), "choices": [some(1, 6) for _ in range(2 + i % 4)], "gold": i % 2}
		      for i in range(12)]
		mc[3]["text"] += "  \n"
		mc[4]["choices"][1] = "ü x"
		mc[5]["text"] = "é " + mc[5]["text"] + " "
		data = {"mc": mc, "ro": [{"text": say(n)} for n in (1, 5, 31, 32, 33, 64, 100)],
		        "ll": [{"text": some(0, 12), "last": " " + random.choice(words)} for _ in range(8)],
		        "ge": [{"text": some(2, 40), "last": "x"} for _ in range(5)]}
		data["ll"].append({"text": "", "last": "the cat"})
		choose = "doc_to_choice: '{{choices}}'\ndoc_to_target: '{{gold}}'\n"
		last = "doc_to_target: '{{last}}'\ntarget_delimiter: ''\n"
		say_until = "generation_kwargs: {until: [' cat', '\\n'], max_gen_toks: 12}\n"
		how = {"mc": ("multiple_choice", "{{text}}", choose, "acc}, {metric: acc_norm"),
		       "ll": ("loglikelihood", "{{text}}", last, "perplexity}, {metric: acc"),
		       "ro": ("loglikelihood_rolling", "", "doc_to_target: '{{text}}'\n", "word_perplexity"),
		       "ge": ("generate_until", "{{text}}", last + say_until, "exact_match")}
		os.mkdir("tasks")
		for name, rows in data.items():
		    write(name + ".jsonl", rows)
		    with open(f"tasks/{name}.yaml", "w") as f:
		        kind, text, target, metric = how[name]
		        f.write(f"task: rf_{name}\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: "
		                f"{os.getcwd()}/{name}.jsonl}}}}\ntest_split: test\noutput_type: {kind}\n"
		                f"doc_to_text: '{text}'\n{target}metric_list: [{{metric: {metric}}}]\n")
		write("train.jsonl", [{"text": say(60)} for _ in range(64)])
	END
	# a trained model, whose probabilities are no longer equal
	rf-init --from ckpt run
	rf-tokenize --tokenizer ckpt --max-len 64 --truncate split train.jsonl >train.rf
	for _ in 1 2 3 4; do rf-ntp -m run --mini-batch 8 --lr 1e-2 train.rf; done
	cat >same.py <<-'END'
		import glob, json, sys
		def load(folder, task):
		    with open(glob.glob(f"{folder}/**/samples_{task}_*.jsonl", recursive=True)[0]) as f:
		        return {s["doc_id"]: [r[0] for r in s["resps"]] for s in map(json.loads, f)}
		def pair(x): return x if isinstance(x, (list, tuple)) else (x,)
		n = 0
		for task in ("rf_mc", "rf_ll", "rf_ro", "rf_ge"):
		    a, b = (load(folder, task) for folder in sys.argv[1:])
		    assert a.keys() == b.keys()
		    for x, y in ((pair(x), pair(y)) for i in a for x, y in zip(a[i], b[i], strict=True)):
		        n += 1
		        if task == "rf_ge":
		            assert x == y, (task, x, y)
		        else:
		            assert abs(float(x[0]) - float(y[0])) < 1e-4, (task, x, y)
		            assert list(map(str, x[1:])) == list(map(str, y[1:])), (task, x, y)
		assert n == 42 + 9 + 7 + 5, n
	END
	# max_length 32 cuts contexts and divides texts
	for most in 4096 32; do
		lm_eval "$ROOT/pipelines/examples/lm_eval_adapter.py" --model rf --output_path "ours-$most" \
			--model_args "model=run,bin=$RF_BIN,max_length=$most"
		lm_eval -m lm_eval --model hf --output_path "theirs-$most" --device cpu --batch_size 1 \
			--model_args "pretrained=run/latest/,dtype=float32,max_length=$most"
		python3 same.py "ours-$most" "theirs-$most"
	done
	# no limit gives the same as a large limit
	lm_eval "$ROOT/pipelines/examples/lm_eval_adapter.py" --model rf --output_path ours \
		--model_args "model=run,bin=$RF_BIN,options=--threads 1"
	python3 same.py ours ours-4096
}

# adapter PYTHON: runs lines of Python, which may call the adapter A(), make a request I(text, how), and get
# an error message with said(function); with the parts of lm-eval that the adapter needs, and a tiny model
# over bytes
adapter() {
	mkdir -p lm_eval/api
	: >lm_eval/__init__.py
	: >lm_eval/api/__init__.py
	cat >lm_eval/api/model.py <<-'END'
		class LM:
		    def __init__(self):
		        self.cache_hook = self
		    def add_partial(self, *of): pass
	END
	echo 'def register_model(name): return lambda of: of' >lm_eval/api/registry.py
	echo 'def get_rolling_token_windows(*of): yield of' >lm_eval/utils.py
	echo 'def make_disjoint_window(pair): return pair' >>lm_eval/utils.py
	echo '{ "model_type": "delta_net", "hidden_size": 16, "num_hidden_layers": 1, "num_heads": 1,
		"vocab_size": 384, "eos_token_id": 1 }' >config.json
	[ -e ckpt ] || rf-init --config config.json ckpt
	cat >ask.py <<-END
		import sys
		sys.path[:0] = ["$PWD", "$ROOT/pipelines/examples"]
		sys.dont_write_bytecode = True
		import types, lm_eval_adapter
		def A(**how):
		    return lm_eval_adapter.RfTools("ckpt", bin="$RF_BIN", options="--threads 1", **how)
		def I(*args): return types.SimpleNamespace(args=args)
		def said(f):
		    try: return f()
		    except ValueError as e: return str(e)
		$1
	END
	python3 ask.py 2>err || { cat err; return 1; }
}

@test "lm_eval_adapter: a max_length without room for a prompt or a continuation is refused in one sentence" {
	adapter 'for n in (0, 4, 5, 12):
    print(said(lambda: A(max_length=n).generate_until([I("abcdefgh", {"max_gen_toks": 4, "until": []})])))
for n in (1, 2, 3):
    print(said(lambda: A(max_length=n).loglikelihood([I("abc", "de")])))' >out
	{
		echo 'max_length=0: a model must be able to read at least 1 token'
		echo 'max_gen_toks=4 tokens are to be written, which must be 0 or more and fewer than' \
			'max_length=4, so that the model can read a prompt'
	} >want
	head -n 2 out | diff want -
	[ "$(sed -n 5p out)" = 'a continuation has 2 tokens, more than max_length=1' ]
	# rf-generate gets one token of the prompt, or the whole prompt
	for text in h abcdefgh; do
		echo "{\"prompt\":\"$text\"}" | rf-tokenize --tokenizer ckpt --bos auto --prompt-key prompt |
			rf-generate -m ckpt --max-new 4 | rf-dump --json |
			jq -c 'select(.type == "seq").body.generation.text'
	done 2>/dev/null >want
	sed -n 3,4p out | python3 -c 'import ast, json, sys
for line in sys.stdin: print(json.dumps(ast.literal_eval(line)))' | diff <(jq -c . want) <(jq -c . -)
	# the model reads one token of a continuation of two
	[ "$(sed -n 6p out)" != "$(sed -n 7p out)" ]
}

@test "lm_eval_adapter: max_gen_toks 0 writes nothing, and a value of None is the default" {
	adapter 'ask = lambda how, **k: A(**k).generate_until([I("abc", how)])
assert ask({"max_gen_toks": 0}) == [""]
assert ask({"max_new_tokens": 0}) == [""]
assert ask({}, max_gen_toks=0) == [""]
assert ask({"max_gen_toks": 0}, max_length=1) == [""]
want = ask({"max_gen_toks": 3})
for key in "temperature", "do_sample", "top_k", "top_p", "until", "max_new_tokens":
    assert ask({"max_gen_toks": 3, key: None}) == want, key
assert ask({"max_gen_toks": None}, max_gen_toks=3) == want
assert ask({"max_gen_toks": 3, "do_sample": True, "temperature": None}) \
    == ask({"max_gen_toks": 3, "do_sample": True, "temperature": 1.0})
assert A(max_gen_toks=None).max_gen_toks == 256
drawn = {"max_gen_toks": 3, "do_sample": True}
for none in {"top_k": 0}, {"top_k": -1}, {"top_p": 1.0}:
    assert ask(drawn | none) == ask(drawn), none
assert ask(drawn | {"top_k": 2.0}) == ask(drawn | {"top_k": 2})
print(said(lambda: ask({"max_gen_toks": -1})))
print(said(lambda: ask({"max_gen_toks": 1, "until": ["a\0b"]})))' >out
	[ "$(sed -n 1p out)" = 'max_gen_toks=-1 tokens are to be written, which must be 0 or more' ]
	[[ "$(sed -n 2p out)" == until=*': a text that is written has no NUL, so none can end it' ]]
}

@test "lm_eval_adapter: options that rf-generate lacks and values that are not numbers are refused by name" {
	adapter 'ask = lambda how: A().generate_until([I("abc", {"max_gen_toks": 3} | how)])
want = ask({})
for none in {"num_beams": 1}, {"repetition_penalty": 1.0}, {"pad_token_id": 5}, {"temperature": "0"}:
    assert ask(none) == want, none
for how in {"num_beams": 4}, {"repetition_penalty": 1.2}, {"bad_words_ids": [[1]]}, {"temperature": "warm"}, \
        {"temperature": float("nan")}, {"top_k": [1]}, {"until": ["\ud800"]}:
    print(said(lambda: ask(how)))' >out
	diff - out <<-'END'
		num_beams=4: rf-generate cannot do that
		repetition_penalty=1.2: rf-generate cannot do that
		bad_words_ids=[[1]]: rf-generate cannot do that
		temperature='warm' is not a number
		temperature=nan is not a number
		top_k=[1] is not a number
		until=['\ud800']: half a character is no text
	END
}

@test "lm_eval_adapter: one step of a run answers all requests, even if the run is trained meanwhile" {
	adapter pass
	rf-init --from ckpt run
	echo '{"text": "a b c a b c a b c"}' | rf-tokenize --bytes -o c.rf
	adapter 'import subprocess
a = lm_eval_adapter.RfTools("run", bin="'"$RF_BIN"'", options="--threads 1")
before = a.loglikelihood([I("a b", " c")])
subprocess.run(["rf-ntp", "-m", "run", "--lr", "1e-2", "c.rf"], check=True)
assert a.loglikelihood([I("a b", " c")]) == before
b = lm_eval_adapter.RfTools("run", bin="'"$RF_BIN"'", options="--threads 1")
assert b.loglikelihood([I("a b", " c")]) != before'
}

@test "lm_eval_adapter: a program that fails ends lm-eval with its status, without a traceback" {
	adapter 'how = {"max_gen_toks": 1, "do_sample": True, "temperature": 1e-5}
try: A().generate_until([I("abc", how)])
except SystemExit as e: print(e.code)' >out
	[ "$(cat out)" = 64 ]
	grep -q '^rf-generate: --temperature: 1e-05 is neither 0 nor a number' err
}

@test "lm_eval_adapter: the script exits with one sentence and a status, also with closed files" {
	adapter 'pass'
	cat >lm_eval/__main__.py <<-'END'
		import os, sys, types
		def cli_evaluate():
		    import __main__
		    kind, said = sys.argv[1:3]
		    how = {"bin": os.environ["RF_BIN"], "options": "--threads 1"}
		    asked = lambda new: [types.SimpleNamespace(args=("abc", new))]
		    ask = lambda new, **k: __main__.RfTools(
		        **{"model": "ckpt", **how, **k}).generate_until(asked(new))
		    print("text", file=sys.stderr)
		    if kind == "refuse": ask({"until": [said + "\0"]})
		    elif kind == "fail": ask({}, model="none" + said)
		    elif kind == "late": ask({"do_sample": True, "temperature": 1e-5})
		    elif kind == "lack": ask({}, bin="none" + said)
		    elif kind == "usage": sys.exit(2)
		    elif kind == "raise": raise KeyError(said)
		    elif kind == "print": print("x" * int(said))
		    else: ask({"max_gen_toks": 3}), print("data")
	END
	export PYTHONPATH=$PWD RF_BIN
	adapter=$ROOT/pipelines/examples/lm_eval_adapter.py
	# ends STATUS SENTENCE ARGUMENT ARGUMENT [REDIRECTION...]: the script exits so, also with each
	# redirection
	ends() {
		local status closed
		for closed in '' "${@:5}"; do
			status=0
			: >out && : >err
			eval "python3 \"\$adapter\" \"\${@:3:2}\" >out 2>err $closed" || status=$?
			if [[ "$1" = 0 && "$closed" = *'>&- 2'* || "$1" = 0 && "$closed" = '>'* ]]; then
				[ "$status" -eq 74 ]
			else
				[ "$status" -eq "$1" ]
			fi || { echo "$* $closed: $status"; cat -v err; return 1; }
			! grep -q 'Traceback\|Exception ignored\|adapter' out || { cat out; return 1; }
			! grep -q 'Traceback\|Exception ignored' err || { cat err; return 1; }
			[ -n "$closed" ] || [[ "$(<err)" == *$2 ]] || { cat -v err; return 1; }
		done
	}
	odd=$'\e]0;x\a\xc2\x9b\n\xe2\x80\xae'
	shown='\\x1b]0;x\\x07\\u009b\\n\\u202e'
	closed=('<&- 2>&-' '<&- >&- 2>&-' '>/dev/full 2>/dev/full')
	# an answer is given with each redirection, an error with some
	[ -n "${RF_ALL:-}" ] && refused=("${closed[@]}") failed=("${closed[@]}") ||
		refused=("${closed[1]}") failed=("${closed[2]}")
	ends 0 'rf-tokenize: *' answer x "${closed[@]}" '<&-' '2>/dev/full'
	ends 64 'lm_eval_adapter.py: until=*: a text that is written has no NUL, so none can end it' \
		refuse "$odd" "${refused[@]}"
	ends 66 $'\nrf-tokenize: none\\\\x1b]0;x*: No such file or directory*' fail "$odd"
	ends 64 $'\nrf-generate: --temperature: *' late x
	ends 69 "lm_eval_adapter.py: none$shown/rf-tokenize: No such file or directory *" lack "$odd"
	ends 64 text usage x
	ends 70 'lm_eval_adapter.py: internal error: KeyError: *' raise "$odd" "${failed[@]}"
	run -0 bash -c 'python3 "$1" print 300000 2>/dev/null | head -c 1 >/dev/null
		echo ${PIPESTATUS[0]}' - "$adapter"
	[ "$output" = 141 ]
	rm -r lm_eval
	echo 'raise ImportError("none")' >lm_eval.py
	run -69 python3 "$adapter"
	[ "$output" = 'lm_eval_adapter.py: lm-eval is missing: pip install lm-eval (none)' ]
}

@test "lm_eval_adapter: an empty prompt is answered after the end token, and changes no other answer" {
	adapter 'how = {"max_gen_toks": 6, "until": []}
texts = A().generate_until([I("", how), I("ab", how), I("", how), I("c", how)])
assert texts[0] == texts[2]
assert texts[1::2] == A().generate_until([I("ab", how), I("c", how)])
print(__import__("json").dumps([texts[0]]))' >have
	rf-tokenize --bytes --format text <<<a | rf-dump --json | jq -c 'if .type == "seq" then
		.body.tokens = {dtype: "<i4", shape: [1], data: [1]} else . end' | rf-cat --json |
		rf-generate -m ckpt --max-new 6 2>/dev/null | rf-dump --json |
		jq -c 'select(.type == "seq").body.generation.text' >want
	diff <(jq -c . want) <(jq -c . have)
}
