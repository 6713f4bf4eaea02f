#!/usr/bin/env bats
# Programs write characters that control a terminal as escapes: in names of files, keys, values, tokens,
# configs and streams.

export RF_DEVICE=cpu RF_DTYPE=f32

setup_file() {
	load ../helper
	load ../ranks
	export P=$BATS_FILE_TMPDIR
	tiny_model_and_text
}
setup() {
	load ../helper
	# odd: a title, a colour by a C1 control, a line that looks like a message, overrides of direction,
	# DEL; name: also a byte that is not UTF-8
	odd=$'a\e]0;x\a\xc2\x9b31m\nrf-cat: b\xe2\x80\xae\xe2\x81\xa6\x7f\t'
	name=$odd$'\xff'
	json=$(jq -nc --arg odd "$odd" '$odd')
	export odd name json
}

# harmless FILE...: succeeds if the files are UTF-8 with only printable characters, tabs and newlines
harmless() {
	local directions='\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]'

	iconv -f UTF-8 -t UTF-8 "$@" >/dev/null 2>&1 &&
		! grep -qP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|'"$directions" "$@"
}

# tame: runs each line "STATUS PROGRAM..." of standard input.  The output must be harmless, and each line of
# standard error must begin with the program's name
tame() {
	local status words said program
	while read -r status words; do
		program=${words%% *}
		said=0
		eval "$words" >out 2>err </dev/null || said=$?
		[ "$said" = "$status" ] || { echo "$words: status $said" && cat -v err && return 1; }
		harmless err out || { echo "$words:" && cat -v out err | head -n 9 && return 1; }
		! grep -qv "^$program: " err || { echo "$words:" && cat -v err && return 1; }
	done
}

@test "terminal: messages of every program escape names of files, options and words" {
	mkdir "$name"
	: >"$name/empty"
	echo '{"model_type": 5}' >"$name/config.json"
	echo '{' >"$name/bad.jsonl"
	jq -nc '{tokenizer_class: $ENV.odd}' >"$name/kind.json"
	cp -r "$P/ckpt" odd && jq '.model_type = $ENV.odd' "$P/ckpt/config.json" >odd/config.json
	for program in rf-cat rf-dump rf-reward rf-select rf-score; do
		echo "65 $program \"\$name/empty\""
		echo "66 $program \"\$name/none\""
	done >table
	for program in rf-entropy rf-logp rf-generate rf-rollout rf-ntp rf-grpo; do
		echo "66 $program -m \"\$name/none\" \"\$P/text.rf\""
		echo "64 $program -m \"\$P/ckpt\" --threads \"\$name\" \"\$P/text.rf\""
	done >>table
	for program in "$RF_BIN"/rf-*; do
		[ -x "$program" ] && [ ! -d "$program" ] || continue
		echo "64 ${program##*/} \"--\$name\""
		echo "64 ${program##*/} \"-\$name\""
	done >>table
	[ "$(wc -l <table)" -ge 50 ]
	tame <table
	tame <<-'END'
		66 rf-cat "$name"
		66 rf-score "$name"
		78 rf-dump "$name"
		78 rf-dump odd
		78 rf-entropy -m "$name" "$P/text.rf"
		78 rf-entropy -m odd "$P/text.rf"
		64 rf-ntp -m "$name" "$P/text.rf"
		64 rf-ntp -m "$P/ckpt" --loss "$name" "$P/text.rf"
		66 rf-tokenize --bytes --format text "$name/none"
		64 rf-tokenize --bytes "$name/none"
		65 rf-tokenize --bytes -o bad.rf "$name/bad.jsonl"
		78 rf-tokenize --tokenizer "$name/kind.json"
		78 rf-init --config "$name/config.json" new
		66 rf-init --from "$name/none" new
		74 rf-cat -o "$name/none/x" "$P/text.rf"
		78 rf-loop -m "$name/r" --data "$P/text.rf" --from "$name" -- "$name"
		65 rf-loop -m r --phase "$name" --data "$P/text.rf" --batch 9999 --from "$P/ckpt" -- "$name"
		65 rf-loop -m r --phase "$name" --data "$P/text.rf" --batch 2 -- ": '$name'; exit 65"
		65 rf-reward --exec "echo '$name'" -o out.rf "$P/text.rf"
		64 rf-needle --tokenizer bytes --task "$name"
		78 rf-needle --tokenizer "$name" --task niah_single_1
	END
}

# odd_stream FILE: prints the stream with $odd in every free text
odd_stream() {
	edited '. as $m | $ENV.odd as $o | if .type == "head" then
			.body.history += [{tool: "rf-cat", options: {($o): $o}}]
		elif .type == "seq" then .body.meta = {task: $o, ($o): $o, list: [$o, {($o): $o}]}
			| .body.text = $o | .body.source = $o
		else . end' "$1"
}

@test "terminal: rf-dump and rf-score escape texts of streams, runs and answers" {
	jq -nc '{question: $ENV.odd, answers: [$ENV.odd], task: $ENV.odd, ($ENV.odd): $ENV.odd}' >asked.jsonl
	rf-tokenize --tokenizer "$P/ckpt" --prompt-key question --answers-key answers --meta-key "task,$odd" \
		-o asked.rf asked.jsonl
	rf-generate -m "$P/ckpt" --max-new 30 -n 2 --temperature 1 -o said.rf asked.rf
	rf-cat --range 0:2 "$P/text.rf" | rf-entropy -m "$P/ckpt" | rf-select --chunks 1 --margin 4 |
		rf-rollout -m "$P/ckpt" -n 2 | rf-reward >rewarded.rf
	odd_stream rewarded.rf >odd.rf
	edited 'if .type == "head" then .body.tokenizer.kind = $ENV.odd[:20] else . end' odd.rf >kind.rf
	cp odd.rf "$name.rf"
	cp -r "$P/ckpt" model
	jq '.[$ENV.odd] = $ENV.odd | .list = [$ENV.odd]' "$P/ckpt/config.json" >model/config.json
	RF_WORDS="BATCH=$odd" rf-init --from model run
	mkdir run/data
	printf '65\t%s\n' "$name" >run/data/status
	for one in odd.rf asked.rf said.rf rewarded.rf; do
		for how in '' --head --json --tsv --csv --check '--tsv --rows token' '--rows token' \
			'--rows record'; do
			echo "0 rf-dump --tokenizer bytes $how $one"
		done
	done >table
	printf '0 rf-dump %s\n' model run run/latest '--json model' '--tsv run' >>table
	tame <table
	[ "$(rf-dump --json model | jq -r 'first(.. | objects | .[$ENV.odd]? // empty)')" = "$odd" ]
	jq -nc '{pred: $ENV.odd, answers: [$ENV.odd], task: $ENV.odd, id: $ENV.odd, ($ENV.odd): 5}' \
		>pred.jsonl
	tame <<-'END'
		0 rf-dump --pred said.rf
		0 rf-score --metric part --by task said.rf
		0 rf-score --metric part --by task --each said.rf
		0 rf-score --metric part --by task pred.jsonl
		0 rf-score --metric part --by "task,$odd" pred.jsonl
		0 rf-score --metric part --each pred.jsonl
		64 rf-score --rules "$odd" pred.jsonl
		0 rf-dump --tsv --rows record --columns file,source odd.rf "$name.rf"
		0 rf-dump --check "$name.rf"
		0 rf-dump kind.rf
		64 rf-dump --rows tensor "$name.rf"
		64 rf-dump --tsv --columns "$odd" odd.rf
		64 rf-dump --where "$odd" odd.rf
		0 rf-init --config model/config.json --dry-run x
		0 rf-entropy -m model --dry-run odd.rf
	END
}

@test "terminal: rf-loop escapes names in its lines of progress" {
	rf-loop -m run --from "$P/ckpt" --data "$P/text.rf" --batch 4 --batches 1 --phase "$name" -- \
		'rf-cat --range $FROM:$TO "$ORDER" | rf-ntp -m "$RUN" --at $AT' 2>err
	grep -q '^rf-loop: a\\x1b\]0;x\\x07\\u009b31m\\nrf-cat: b\\u202e.*: batch 1 of 1' err
	harmless err
}

@test "terminal: the programs in Python escape the same characters as those in C" {
	ranges() { grep -oE '0x[0-9A-F]+, 0x[0-9A-F]+' | tr -d ' ' | paste -sd' '; }
	sed -n '/unsafe\[\] = {/,/};/p' "$ROOT/lib/base/utf8.c" | ranges >c
	sed -n '/^UNSAFE = /,/\]$/p' "$ROOT/pipelines/lib/program.py" | ranges >python
	[ "$(wc -w <c)" -ge 12 ]
	cmp c python
}
