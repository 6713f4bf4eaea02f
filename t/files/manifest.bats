#!/usr/bin/env bats
# RUN/manifest.json, the record of a run's model, data, programs and settings, and the model card of an
# export.
setup() {
	load ../helper
	load ../model
	J=run/manifest.json
}

# line N [JQ]: prints this line of the manifest without the keys that depend on the machine, or the values of
# a program of jq
line() {
	sed -n "$1p" "$J" | jq -cS "${2:-del(.time, .host, .libraries, .device.threads, .device.isa)}"
}

@test "manifest: a trainer started by hand writes one line, and another when something changes" {
	runs run
	texts 40 1:20 2:20 >in
	rf-ntp -m run --dtype f32 --threads 1 in
	rf-ntp -m run --dtype f32 --threads 1 in
	[ "$(wc -l <$J)" -eq 1 ]
	[ "$(line 1 '[.event, .step, .data.records, .program.name, .program.options.lr]')" = \
		'["begin",1,2,"rf-ntp","1e-06"]' ]
	[ "$(line 1 .start.weights)" = "$(rf-dump --json "$M" | jq 'select(.type == "checkpoint").weights')" ]
	[ "$(line 1 '.device | [.name, .dtype, .ranks]')" = '["cpu","f32",1]' ] || [ -n "${RF_DEVICE:-}" ]
	[ "$(line 1 .program.version)" = "\"$(version)\"" ]
	[ "rf-ntp $(version) ($(line 1 .program.commit | tr -d '"'))" = "$(rf-ntp --version | sed -n 1p)" ]
	[ "$(line 1 '.libraries | has("oneDNN") and has("glibc") and has("zstd")')" = true ]
	[[ "$(line 1 .time)" =~ ^\"20[0-9-]{8}T[0-9:]{8}Z\"$ ]]
	rf-ntp -m run --dtype f32 --threads 1 --lr 1e-3 in
	[ "$(line 2)" = "$(jq -cn --argjson p "$(line 1 .program)" \
		'{event: "change", program: ($p | .options.lr = "0.001"), step: 3}' | jq -cS .)" ]
	rf-ntp -m run --dtype bf16 --threads 1 --lr 1e-3 in
	[ "$(line 3 .device.dtype)" = '"bf16"' ]
	[ "$(wc -l <$J)" -eq 3 ]
}

@test "manifest: the hash of the first weights stays after any number of commits" {
	runs run
	texts 40 1:3 >in
	start=$(rf-dump --json run | jq -r 'select(.type == "checkpoint").weights')
	for n in $(seq 18); do rf-ntp -m run --threads 1 in; done
	[ "$(jq -r 'select(.event == "begin").start.weights' $J)" = "$start" ]
	rf-dump run | grep -q "^start .*weights $start"
	# a run without a manifest gets one later, without the hash if the history no longer has it
	rm $J
	rf-ntp -m run --threads 1 in
	[ "$(line 1 '[.event, .step, .start.weights]')" = '["begin",19,null]' ]
}

@test "manifest: --isa and --dtype of the stages and of the trainer are recorded" {
	[ "$(levels | wc -l)" -gt 1 ] && [ -z "${RF_DEVICE:-}" ] || skip "there is only one level"
	low=$(levels | tail -n 1)
	runs run
	texts 40 1:30 2:30 | rf-entropy -m run --dtype bf16 --isa "$low" >in
	rf-ntp -m run --isa "$low" --dtype f32 in
	[ "$(line 1 '[.device.isa, .stages[-1].options.dtype]')" = "[\"$low\",\"bf16\"]" ]
}

@test "manifest: stages are recorded without those of rf-cat, unless a stream was changed outside" {
	runs run
	texts 40 1:20 2:20 3:20 >in
	rf-cat --range 0:1 in | rf-ntp -m run --threads 1
	rf-cat --range 1:2 in | rf-ntp -m run --threads 1
	[ "$(wc -l <$J)" -eq 1 ]
	rf-cat --range 2:3 in | edited . | rf-ntp -m run --threads 1
	[ "$(line 2 '[.event, .stages[-1].options.note]')" = '["change","changed outside"]' ]
}

@test "manifest: a line without a newline is completed, and a malformed line is named and stops the trainer" {
	runs run
	texts 40 1:20 >in
	rf-ntp -m run --threads 1 in
	# the temporary files of a killed trainer are removed, and a last line without a newline is kept
	touch run/.manifest.json.tmp-123
	truncate -s -1 $J
	rf-ntp -m run --threads 1 --lr 1e-3 in
	[ "$(wc -l <$J)" -eq 2 ]
	[ "$(jq -c .event $J | paste -sd' ')" = '"begin" "change"' ]
	[ ! -e run/.manifest.json.tmp-123 ]
	echo '{"event":' >>$J
	state >before
	run -78 --separate-stderr rf-ntp -m run --threads 1 in
	[[ "$stderr" == "rf-ntp: run/manifest.json: line 3 (move the file away to begin another one): "* ]]
	state | cmp - before
	run -78 rf-dump run
	run -78 rf-init --from run --dtype f32 out
	[ ! -e out ]
}

@test "manifest: a NUL byte makes a line malformed, and the file stays unchanged" {
	runs run
	texts 40 1:20 2:20 >in
	rf-ntp -m run --threads 1 in
	printf '\0\0\0{"event":"change","step":2}\n' >>$J
	cp $J before
	for command in "rf-ntp -m run --threads 1 --lr 1e-3 in" "rf-init --from run --dtype f32 new"; do
		run -78 --separate-stderr bash -c "$command"
		[[ "$stderr" == *"manifest.json: line 2 (move the file away to begin "*"NUL byte"* ]]
		cmp $J before
	done
	# NUL bytes at the end, or as the only bytes of a line
	for bytes in '\0\0' '\0\n' '\n\0'; do
		head -n 1 before >$J
		printf "$bytes" >>$J
		cp $J cut
		run -78 rf-ntp -m run --threads 1 --lr 1e-3 in
		cmp $J cut
	done
}

@test "manifest: a malformed manifest stops the trainer before it trains, and blank lines are skipped" {
	runs run
	texts 40 1:20 >in
	printf '\n{"event":"begin","host":"x","step":1}\n \r\n' >$J
	rf-ntp -m run --threads 1 in
	[ "$(sed '/^\s*$/d' $J | jq -c .event | paste -sd' ')" = '"begin" "change"' ]
	[ "$(sed -n 2p $J)" = '{"event":"begin","host":"x","step":1}' ]
	[ "$(tail -n 1 $J | jq -c 'keys')" = \
		'["device","event","host","libraries","program","stages","step","time"]' ]
	rf-dump run | grep -c '^manifest' | grep -qx 2
	# the stream never ends, so the error must come before the trainer reads it
	echo '{"event":' >>$J
	mkfifo never
	sleep 60 >never &
	says 78 "rf-ntp: run/manifest.json: line 5 ..." timeout 20 rf-ntp -m run --threads 1 never
	rm $J
	mkdir run/data
	echo none >run/data/words
	run -65 timeout 20 rf-ntp -m run --threads 1 never
	[ "$output" = "rf-ntp: run/data/words: the line 'none' is not NAME=VALUE" ]
	kill %sleep
}

@test "manifest: lines NAME=VALUE of RF_WORDS are recorded, and a line without = is an error" {
	runs run
	texts 40 1:20 >in
	long=$(printf 'L%.0s' {1..200})
	RF_WORDS=$(printf 'A\xff=b\xfe\n\nB==\n  x\n%s=y\n\xc3\xa9=' "$long") rf-ntp -m run --threads 1 in
	[ "$(line 1 .words)" = "$(jq -cnS --arg l "$long" \
		'{"A\\xff": "b\\xfe", "B": "=\n x", ($l): "y", "é": ""}')" ]
	run -64 env RF_WORDS=$'A=1\nB' rf-ntp -m run --threads 1 in
	[ "$output" = "rf-ntp: RF_WORDS: the line 'B' is not NAME=VALUE" ]
	[ "$(wc -l <$J)" -eq 1 ]
}

@test "manifest: a stage with a NUL in an option is recorded" {
	runs run
	texts 40 1:20 | rf-entropy -m "$M" |
		edited 'if .type == "head" then .body.history[-1].options.x = "a\u0000b" else . end' >in
	rf-ntp -m run --threads 1 in
	[ "$(line 1 '.stages[0] | [.tool, .options.x]')" = '["rf-entropy","a\u0000b"]' ]
	rf-ntp -m run --threads 1 --lr 1e-3 in
	rf-dump --json run | jq -c 'select(.type == "manifest") | del(.type)' | cmp - $J
}

@test "manifest: a trainer that fails or commits nothing writes no line" {
	runs run
	texts 40 1:20 >in
	run -65 rf-ntp -m run --threads 1 <(head -c 100 in)
	rf-ntp -m run --threads 1 --weights-out adapted in
	rf-ntp -m run --dry-run in >/dev/null
	rf-ntp -m run --eval in >/dev/null
	[ ! -e $J ]
	[ ! -e adapted/manifest.json ]
}

@test "manifest: rf-dump shows the manifest as text and as JSON" {
	runs run
	texts 40 1:20 >in
	RF_WORDS=$'A=1\nB=two\n lines\nC=' rf-ntp -m run --threads 1 in
	rf-ntp -m run --threads 1 --lr 1e-3 in
	rf-dump run >text
	[ "$(grep -c '^manifest   ' text)" -eq 2 ]
	grep -q '^manifest   begin, step 1, 20.*, host ' text
	grep -qF 'words        A=1  B=two\nlines  C=' text
	[ "$(sed -n '/^manifest   change/{n;p}' text)" = 'program      lr 0.001' ]
	rf-dump --json run | jq -c 'select(.type == "manifest") | del(.type)' | cmp - $J
	rf-dump --json run/latest | grep -c '"type":"manifest"' | grep -qx 2
	[ "$(line 1 .words)" = '{"A":"1","B":"two\nlines","C":""}' ]
	run ! grep -q manifest <(rf-dump "$M")
}

@test "rf-dump: shows a manifest of another program, with dashes for missing values" {
	cp -r "$M" ckpt
	rf-init --from ckpt run
	echo '{"event":"begin"}' >$J
	[ "$(rf-dump run | grep ^manifest)" = 'manifest   begin, step -, -, host -' ]
	{
		printf '{"event":7,"scripts":[{"file":5},{"file":"a.py"},6],"stages":'
		printf '[{"tool":[]},{"tool":"x"}]}\n'
		printf '%s\n' '{"step":0.1,"time":null,"some\u001b[1m":{"a":0.30000000000000004,"b":[0.7]},'`
			`'"words":[],"begun":3}'
	} >$J
	rf-dump run | sed -n '/^manifest/,/^tensors/{/^tensors/!p}' | diff - <(cat <<-'END'
		manifest   7, step -, -, host -
		scripts      {"file":5}  a.py xxh64 -  6
		stages       {"tool":[]}
		             x
		manifest   -, step 0.1, null, host -
		some\x1b[1m  a 0.30000000000000004  b [0.7]
	END
	)
	# numbers of config.json are shown with all their digits, too
	jq '.norm_eps = 1.23456789012e-06' ckpt/config.json >config.json
	cp config.json ckpt/config.json
	rf-dump ckpt | grep -o 'norm_eps [^ ]*' | grep -qx 'norm_eps 1.23456789012e-06'
}

@test "rf-dump: shows the stages of a run with their options, and no empty values of its beginning" {
	rf-init --from "$M" run
	cat >$J <<-'END'
		{"event":"begin","step":1,"words":{"ENTROPY":""},
		"begun":{"make":"","from":"ckpt","words":""},
		"stages":[{"tool":"rf-tokenize","options":{"bytes":true,"source":false,"max-len":512,
		"text-key":"","truncate":"split"}},
		{"tool":"rf-reward","options":{"kind":"a\u001b b","shift":0}}]}
		{"event":"change","step":2,"begun":{"from":"","words":"x"},
		"stages":[{"tool":"rf-tokenize","options":{"bytes":false,"max-len":256,"truncate":"split"}},
		{"tool":"rf-x","options":{"kind":"b"}}]}
	END
	jq -c . $J >lines
	mv lines $J
	rf-dump run | sed -n '/^manifest/,/^tensors/{/^tensors/!p}' | diff - <(cat <<-'END'
		manifest   begin, step 1, -, host -
		words        ENTROPY=
		begun        from=ckpt
		stages       rf-tokenize  --bytes  --max-len 512  --truncate split
		             rf-reward  --kind a\x1b b  --shift 0
		manifest   change, step 2, -, host -
		begun        from=  words=x
		stages       rf-tokenize  --bytes false  --max-len 256
		             rf-x  --kind b
	END
	)
}

@test "manifest: only rank 0 of several ranks writes the manifest, with the number of ranks" {
	load ../ranks
	have_mpi || skip "there is no mpirun"
	runs run
	texts 40 1:20 2:30 3:25 4:22 >in
	in_line 2 "rf-cat --shard auto --mini-batch 4 in |
		rf-ntp -m run --dtype f32 --mini-batch 4 --threads 1 --ranks mpi"
	[ "$(wc -l <$J)" -eq 1 ]
	[ "$(line 1 '[.event, .device.ranks, .data.records, (.libraries | has("MPI"))]')" = \
		'["begin",2,4,true]' ]
}

# small: makes a checkpoint, a corpus and a script of rewards for pipelines
small() {
	sed 's/"vocab_size": 40/"vocab_size": 384/; s/"eos_token_id": 2/"eos_token_id": 1/' \
		"$G/delta/config.json" >config.json
	rf-init --config config.json ckpt
	for n in 1 2 3 4 5 6 7 8; do
		text="Text number $n, long enough that its rollouts have room: $n, $n, and $n."
		echo "{\"text\": \"$text\"}"
	done >corpus.jsonl
	cat >'my reward.py' <<-'END'
		import json, sys
		for line in sys.stdin:
		    body = json.loads(line)["body"]
		    if "rollout" not in body:  # the head
		        continue
		    c, n, k = body["rollout"]["tokens"]["shape"]
		    print(json.dumps({"id": body["id"], "total": [[0.5] * n for _ in range(c)]}), flush=True)
	END
}
# midtrain WORD...: runs midtrain.mk with batches of two and that script
midtrain() {
	make -f "$ROOT/pipelines/midtrain.mk" RF_BIN="$RF_BIN" RUN=run MODEL=ckpt CORPUS=corpus.jsonl \
		BATCH=2 MINI_BATCH=2 LEN=96 REWARD="python3 'my reward.py'" "$@"
}

@test "manifest: a pipeline records its settings, and the hashes of data and own scripts" {
	small
	midtrain BATCHES=1 COMPUTE='--threads 1 --dtype bf16' 2>/dev/null
	[ "$(line 1 .words)" = "$(jq -cnS '{PIPELINE: "midtrain.mk", RUN: "run", MODEL: "ckpt", BATCH: "2",
		CORPUS: "corpus.jsonl", MINI_BATCH: "2", LEN: "96", REWARD: "python3 '\''my reward.py'\''",
		BATCHES: "1", COMPUTE: "--threads 1 --dtype bf16"}')" ]
	[ "$(line 1 '[.begun.from, .begun.hash != null, .device.dtype]')" = '["ckpt",true,"bf16"]' ] ||
		[ -n "${RF_DEVICE:-}" ]
	[[ "$(line 1 .begun.words)" == *"$(sha256sum <corpus.jsonl | cut -d' ' -f 1): corpus.jsonl"* ]]
	[ "$(line 1 '.scripts[0] | [.file, .bytes]')" = "[\"my reward.py\",$(stat -c %s 'my reward.py')]" ]
	[ "$(line 1 .start.tokenizer)" = "\"$(rf-dump --json ckpt | jq -r 'select(.tokenizer).tokenizer')\"" ]
	# the same settings add no line; other settings add a line with the difference
	midtrain BATCHES=1 COMPUTE='--threads 1 --dtype bf16' 2>/dev/null
	[ "$(wc -l <$J)" -eq 1 ]
	midtrain BATCHES=2 COMPUTE='--threads 1 --dtype f32' 2>/dev/null
	[ "$(line 2 '[.event, .step, .words.COMPUTE, .device.dtype]')" = \
		'["change",2,"--threads 1 --dtype f32","f32"]' ]
}

@test "manifest: a pipeline refuses a script that changed between two calls or between two batches" {
	small
	midtrain BATCHES=1 2>/dev/null
	cp 'my reward.py' before.py
	echo '# changed' >>'my reward.py'
	mentions 2 '< script=...: my reward.py...> script=' midtrain BATCHES=2
	[[ "$output" == *"run with this one's weights (--from run, MODEL=run; "* ]]
	cp before.py 'my reward.py'
	run -2 midtrain BATCHES=3 AFTER='echo >>"my reward.py"'
	[[ "$output" == *"my reward.py: the script has changed since the run was begun: put it"*MODEL=run* ]]
	[ "$(rf-dump --json run | jq 'select(.type == "checkpoint").commits')" -lt 3 ]
	cp before.py 'my reward.py'
	midtrain BATCHES=3 2>/dev/null
	# before the first batch is done a script may change
	rm -r run
	run -2 midtrain BATCHES=1 TRAIN=false
	echo '# changed' >>'my reward.py'
	midtrain BATCHES=1 2>/dev/null
}

@test "scripts.sh: lists own scripts, programs and settings of commands, and nothing else" {
	mkdir run bin
	printf '#!/bin/sh\n' >prog
	cp prog bin/mine
	chmod +x prog bin/mine
	touch 'a b.py' x.py x.json plain out.json run/in.py data.jsonl 'it'\''s=$1.py' -- -x.py
	while IFS='%' read -r command want; do
		found=$(RUN=run HOME=$PWD PATH=$PWD/bin:$PATH \
			"$ROOT/pipelines/lib/scripts.sh" STAGE="$command" | sed "s,^$PWD/,," | paste -sd,)
		[ "$found" = "$want" ] || { echo "$command: $found"; return 1; }
	done <<-'END'
		%
		rf-reward --kind cosine%
		python3 x.py --config x.json <data.jsonl >out.json%x.py,x.json
		python3 -u plain data.jsonl%plain
		rf-reward --exec 'python3 "a b.py"'%a b.py
		rf-reward --exec='./prog x'%./prog
		./prog --settings=x.json -o out.json --log out.json%./prog,x.json
		rf-cat | mine data.jsonl | python3 run/in.py%bin/mine
		A=x.py ./prog && perl x.py; ./prog%./prog,x.py
		python3 "it's=\$1.py"%it's=$1.py
		python3 ./-x.py%./-x.py
		rf-tokenize --tokenizer x.json%x.json
		jq -f plain%plain
		python3 ~/x.py ~%x.py
		python3 "$HOME/a b.py" $HOME%a b.py
		python3 "${HOME}"/plain%plain
		python3 '$HOME/x.py' a~/plain $HOMES/x.py%
		nice -n 10 python3 plain%plain
		env A=1 -i python3 plain%plain
		timeout -k 5 10m nice ~/prog data.jsonl%prog
		OMP_NUM_THREADS=1 taskset -c 0,1 /usr/bin/env python3 -u plain | nice plain%plain
	END
}

@test "manifest: an export of a run has a model card without times, and keeps the earlier card" {
	small
	printf -- '---\nlicense: apache-2.0\nlanguage:\n- en\ntags:\n- old\n---\n# Base\n' >ckpt/README.md
	jq '._name_or_path = "owner/Base-1.0"' ckpt/config.json >t
	mv t ckpt/config.json
	midtrain BATCHES=2 2>/dev/null
	rf-init --from run --dtype bf16 out 2>/dev/null
	cmp out/README.base.md ckpt/README.md
	[ "$(sed '/^$/q' out/README.md)" = "$(printf '%s\n' --- 'library_name: fla' \
		'pipeline_tag: text-generation' 'base_model: owner/Base-1.0' 'license: apache-2.0' \
		'language:' '- en' 'tags:' '- rf-tools' '- delta_net' '- refine' '- arxiv:2602.16704' ---)" ]
	for row in "| REWARD | python3 'my reward.py' |" '| lr | 1e-06 |' '## Hashes' '## Last step' \
		"| weights at the start | $(line 1 .start.weights | tr -d '"') |" '| matrix products |' \
		"| my reward.py | $(line 1 '.scripts[0].xxh64' | tr -d '"') |" '| reward/mean | 0.5 |'; do
		grep -qF "$row" out/README.md || { echo "$row"; cat out/README.md; return 1; }
	done
	run ! grep -qE "$(hostname)|20[0-9]{2}-[0-9]{2}-[0-9]{2}|timing_s" out/README.md
	rf-init --from run/latest --dtype bf16 again 2>/dev/null
	diff -r out again
	# a checkpoint, and a run that was not trained, get no card
	rf-init --from ckpt --dtype bf16 bare 2>/dev/null
	cmp bare/README.md ckpt/README.md
	rf-init --from "$M" fresh
	rf-init --from fresh --dtype bf16 f
	[ ! -e f/README.md ]
	# the card of an older step leaves out later lines
	rf-ntp -m run --threads 1 --lr 0.5 run/data/corpus.rf
	rf-init --from run/step-000002 --dtype bf16 older 2>/dev/null
	grep -qF '| lr | 1e-06 |' older/README.md
	rf-init --from run --dtype bf16 newer 2>/dev/null
	grep -qF '| lr | 0.5 |' newer/README.md
}

@test "manifest: a card of an older step, or of the best one, has the figures of that step" {
	small
	head -n 4 corpus.jsonl | rf-tokenize --bytes --max-len 96 --truncate right -o valid.rf 2>err
	midtrain BATCHES=3 EVAL=valid.rf KEEP_STEPS=3 KEEP_BEST=nll 2>err || { cat err; return 1; }
	for from in run/step-000001 run/step-000003 run/best run; do
		rf-init --from $from --dtype bf16 out 2>err
		step=$(readlink $from || basename $from)
		[ $from != run ] || step=$(readlink run/latest)
		step=$((10#${step##*-}))
		for row in "## Last step" "## Held-out text" "# A delta_net model, step $step" \
			"| nll | $(jq "select(.step == $step).nll" run/eval.jsonl) |" \
			"| loss/ntp | $(jq "select(.step == $step - 1).\"loss/ntp\"" run/log.jsonl) |"; do
			grep -qF "$row" out/README.md || { echo "$from: $row"; cat out/README.md; return 1; }
		done
		rm -r out
	done
	# the last of several lines of a step counts; a truncated line does not
	jq -c 'select(.step == 1) | .nll = 7' run/eval.jsonl >>run/eval.jsonl
	printf '{"step":1,"nll":8' >>run/eval.jsonl
	rf-init --from run/step-000001 --dtype bf16 out 2>err
	grep -qFx '| nll | 7 |' out/README.md
}

@test "manifest: a card has no shell expansions and no absolute path, and names the model's library" {
	small
	midtrain BATCHES=1 CORPUS="$PWD/corpus.jsonl" REWARD="python3 '$PWD/my reward.py'" 2>err ||
		{ cat err; return 1; }
	rf-init --from run --dtype bf16 out 2>err
	run ! grep -nE '\$\{|'"$PWD" out/README.md
	grep -qF ', 1 commit after its start.' out/README.md
	grep -qF '`import fla`' out/README.md
	grep -qF '| CORPUS | corpus.jsonl |' out/README.md
	grep -qE '^`rf-cat --range \$FROM:\$TO .* \| rf-grpo .*`$' out/README.md
	[[ "$(sed -n '/^`rf-cat/p' out/README.md)" == *' -m "$STEP" '* ]]
	jq '.auto_map = {"AutoModelForCausalLM": "code.Model"}' config.json >own.json
	rf-init --config own.json mine
	rf-init --from mine own
	texts 40 1:20 >in
	rf-ntp -m own --threads 1 in 2>err
	rf-init --from own --dtype bf16 out2 2>err
	grep -qx 'library_name: transformers' out2/README.md
	run ! grep -q 'import fla' out2/README.md
}

# card README [NAME]: prints the lines that a card takes from this README.md and from this _name_or_path of
# config.json
card() {
	rm -rf base exported run
	cp -r "$M" base
	printf -- "$1" >base/README.md
	jq --arg name "${2:-}" '._name_or_path = $name' "$M/config.json" >base/config.json
	rf-init --from base run
	rf-ntp -m run --threads 1 in
	rf-init --from run --dtype f32 exported 2>/dev/null
	sed '1,3d; /^tags:/Q' exported/README.md | paste -sd'|'
}

@test "manifest: a card shortens absolute paths of the line, and omits a line that becomes empty" {
	runs run
	texts 40 1:20 >in
	rf-ntp -m run --threads 1 in
	cp $J first
	while IFS='|' read -r line shown; do
		jq -c --arg line "${line//!/|}" '.begun.line = $line' first >$J
		rm -rf out
		rf-init --from run --dtype f32 out
		[ "$(sed -n '/^`/p' out/README.md)" = "${shown:+\`$shown\`}" ]
		grep -q 'Each batch was trained on by' out/README.md || [ -z "$shown" ]
	done <<-'END'
		rf-x -m "$RUN"/. --log "$RUN"/log.jsonl|rf-x -m "$RUN"/. --log "$RUN"/log.jsonl
		rf-x "$A"'/b' $A'/b'/c --log="$RUN"/l|rf-x "$A"'/b' $A'/b'/c --log="$RUN"/l
		rf-x 'a '\''/h/me/b c'\''' ""/h/me/d|rf-x 'a '\''b c'\''' ""d
		rf-x a\ /b "a\"/b" "it's"/c|rf-x a\ /b "a\"/b" "it's"/c
		rf-x /h/me/a "/h/me/b" '/h/me/c' --log=/h/d|rf-x a "b" 'c' --log=d
		rf-x "python3 '/h/me/a b.py'" --x="/h/me/"|rf-x "python3 'a b.py'" --x="me/"
		rf-x --x '["/h/a", "/h/b"]' >/h/c|rf-x --x '["a", "b"]' >c
		${BODY:+eval "$BODY"}|
		 ${A:+ b} |
	END
}

@test "manifest: a card copies the licence from any README.md that has one" {
	texts 40 1:20 >in
	[ "$(card '---\nlicense: mit\n---\n')" = 'license: mit' ]
	[ "$(card '---\r\nlicense: mit\r\nlanguage:\r\n- en\r\ntags: x\r\n---\r\ntext')" = \
		'license: mit|language:|- en' ]
	[ "$(card '---\nlicense: mit\n---')" = 'license: mit' ]
	[ "$(card '---\n\nlicense: mit\n\n - x\n---\nlicense: no\n')" = 'license: mit' ]
	# without both lines of dashes there is no licence
	[ "$(card '---\nlicense: mit')" = '' ]
	[ "$(card '---\nlicense: mit\n----\n')" = '' ]
	[ "$(card 'license: mit\n---\n')" = '' ]
}

@test "manifest: a card names the base model of a run, and no path" {
	texts 40 1:20 >in
	[ "$(card '' owner/name-1.0)" = 'base_model: owner/name-1.0' ]
	mkdir -p models/mine
	[ "$(card '' models/mine)" = '' ]
	[ "$(card '' /home/me/.cache/huggingface/hub/models--Owner--A-b.1/snapshots/0123)" = \
		'base_model: Owner/A-b.1' ]
	[ "$(card '' hub/models--gpt2/x--y)" = '' ]
	[ "$(card '' ./a)" = '' ]
	[ "$(card '' a/b/c)" = '' ]
	[ "$(card '' '')" = '' ]
}

@test "manifest: a pipeline accepts another learning rate in the middle of a run, and records it" {
	small
	midtrain BATCHES=2 LR=1e-3 2>/dev/null
	mentions 0 "the learning rate changes from 1e-3 to 1e-4 after 2 batches" midtrain BATCHES=3 LR=1e-4
	[ "$(line 2 '[.event, .step, .program.options.lr, .words.LR]')" = '["change",3,"0.0001","1e-4"]' ]
	[ "$(jq -s 'map(."actor/lr")' -c run/log.jsonl)" = '[0.001,0.001,0.0001]' ]
	run -0 midtrain BATCHES=4 LR=1e-4
	[[ "$output" != *'learning rate'* ]]
	[ "$(wc -l <$J)" -eq 3 ]
	# a change of any other setting is refused
	mentions 2 '< seed=1' midtrain BATCHES=5 LR=1e-5 SEED=7
	run -2 midtrain BATCHES=5 OPTIM='--mini-batch 2 --lr 1e-4 --lr-schedule linear --total-steps 9'
	midtrain BATCHES=5 LR=1e-4 2>/dev/null
}
