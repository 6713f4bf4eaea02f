#!/usr/bin/env bats
# rf-ntp: training on next tokens, and evaluation.  t/exact/train.bats tests what both trainers do.
setup() {
	load ../helper
	load ../model
}

# prompted ID:T...: prints texts with a prompt of 20 tokens, or of the whole text if it is shorter
prompted() {
	rf-dump --json <(texts 40 "$@") | jq -c \
		'if .type == "seq" then (.body.prompt_len = ([20, .body.tokens.shape[0]] | min)) else . end' |
		rf-cat --json
}

@test "rf-ntp: keeps the promises of a trainer" {
	load ../promises
	texts 40 1:30 2:31 3:32 >in
	PROMISE_MIB=128 PROMISE_RESET=reset PROMISE_STATE=state promises trainer "$PWD/in" rf-ntp -m run
}

@test "rf-ntp: keeps the promises of a trainer with --weights-out, whose output folder is the state" {
	load ../promises
	texts 40 1:30 2:31 3:32 >in
	rf-ntp -m "$M" --weights-out was in
	fresh() { rm -rf out && cp -a was out; }
	written() { (cd out && find . -type f -exec cksum {} + && cd .. && ls -A | grep tmp || true); }
	PROMISE_MIB=128 PROMISE_RESET=fresh PROMISE_STATE=written promises trainer "$PWD/in" \
		rf-ntp -m "$M" --lr 1e-2 --weights-out out
}

@test "rf-ntp: --eval keeps the promises of a sink" {
	load ../promises
	texts 40 1:30 2:31 3:32 >in
	PROMISE_MIB=128 promise \
		'whole nothing foreign cuts after order killed claims usage help terminal_in full' sink \
		"$PWD/in" rf-ntp --eval -m "$M"
}

@test "rf-ntp: a step after --total-steps changes no weight, and a warning says so" {
	texts 40 1:50 >in
	runs run
	falls='--lr 1e-2 --lr-schedule linear --total-steps 1'
	quiet rf-ntp -m run $falls in
	sum=$(cksum <run/latest/model.safetensors)
	run -0 --separate-stderr rf-ntp -m run $falls in
	said='the run is at step 1, and the learning rate is 0 after --total-steps 1: no weight changes'
	[ "$stderr" = "rf-ntp: warning: $said" ]
	[ "$(cksum <run/latest/model.safetensors)" = "$sum" ]
}

@test "rf-ntp: makes one optimizer step per stream, or one per mini-batch with --mini-batch" {
	texts 40 1:50 2:60 3:9 >in
	runs a b c
	silent rf-ntp -m a in
	[ "$(readlink a/latest)" = step-000001 ]
	rf-ntp -m b --mini-batch 2 --log log in
	[ "$(readlink b/latest)" = step-000002 ]
	[ "$(jq -c '[.step, .records, .tokens]' log | paste -sd' ')" = '[0,2,110] [1,1,9]' ]
	jq -se 'all(has("loss/ntp") and (has("loss/rl") | not))' log >/dev/null
	for i in 0:2 2:3; do
		rf-cat --range $i in | rf-ntp -m c
	done
	same_step b c
}

@test "rf-ntp: threads, record order, --recompute and the check device do not change the weights" {
	local how=(--segment 128)
	for m in delta-hybrid lact-muon qwen ${RF_ALL:+delta gated lact} 'delta --mean sequences'; do
		read -ra words <<<"$m"
		M=$G/${words[0]} how+=("${words[@]:1}")
		texts 40 1:200 2:70 3:9 4:1 >in
		rm -rf ?
		runs a b c d e
		rf-ntp --device cpu -m a "${how[@]}" --threads 1 in
		rf-ntp --device cpu -m b "${how[@]}" --threads 2 in
		"$RF_UNITS/helper/records" reverse in | rf-ntp --device cpu -m c "${how[@]}" --threads 3
		rf-ntp --device check -m d "${how[@]}" in
		rf-ntp --device $like_cpu -m e "${how[@]}" --recompute segment in
		for run in b c d e; do
			same_step a $run
		done
	done
	# the last model was trained with --mean sequences: the default gives other weights
	runs f
	rf-ntp --device cpu -m f --segment 128 in
	run ! same_step a f
}

@test "rf-ntp: --eval prints the means of rf-entropy --nll, over all tokens or those of the response" {
	prompted 1:50 2:300 3:20 4:1 5:21 >in
	rf-entropy -m "$M" --nll in >nll
	rf-ntp --eval -m "$M" in >all
	rf-ntp --eval -m "$M" --loss response --segment 64 in >response
	for what in all:0 response:19; do
		jq -n --slurpfile have "${what%:*}" --slurpfile nll <(json nll) \
			--argjson from "${what#*:}" -e '[$nll[] | .nll.data[$from:][]] as $n
			| [$nll[] | .correct.data[$from:][]] as $c | $have[0]
			| ([.nll - ($n | add / length), .accuracy - ($c | add / length),
				.ntp_accuracy - ($n | map(- . | exp) | add / length),
				(.nll | exp) - .perplexity] | all(fabs < 1e-5))
			and .tokens == ($n | length) and .sequences == 5' >/dev/null
	done
	[ "$(wc -l <all)" -eq 1 ]
	jq -e '.tokens == 387' all >/dev/null
	# the column ntp_accuracy of records
	rf-dump --tsv --rows record --columns ntp_accuracy --no-header nll >columns
	json nll | jq -r '[.nll.data // [] | .[] | -. | exp] | if . == [] then "NaN" else add / length end' |
		paste columns - | awk '$1 == "NaN" || $2 == "NaN" { wrong += $1 != $2; next }
			{ d = $1 - $2; wrong += d * d > 1e-10 } END { exit wrong || NR != 5 }'
	jq -e '.tokens == 311' response >/dev/null
}

@test "rf-ntp: --eval --mean sequences prints means over sequences of each sequence's mean" {
	prompted 1:50 2:300 3:20 4:1 5:21 >in
	rf-entropy -m "$M" --nll in >nll
	for what in all:0:4 response:19:3; do
		IFS=: read -r loss from count <<<"$what"
		rf-ntp --eval -m "$M" --loss $loss --mean sequences in >have
		# the fourth sequence has nothing to predict, nor has the response of the third
		jq -n --slurpfile have have --slurpfile nll <(json nll) --argjson from "$from" \
			--argjson n "$count" -e 'def mean: add / length;
			[$nll[] | {n: (.nll.data // [])[$from:], c: (.correct.data // [])[$from:]}
				| select(.n | length > 0)] as $s | $have[0]
			| ([.nll - ($s | map(.n | mean) | mean), .accuracy - ($s | map(.c | mean) | mean),
				.ntp_accuracy - ($s | map(.n | map(- . | exp) | mean) | mean),
				(.nll | exp) - .perplexity] | all(fabs < 1e-5))
			and ($s | length) == $n and .tokens == ([$s[].n | length] | add)
			and .sequences == 5' >/dev/null
	done
	[ "$(rf-ntp --eval -m "$M" --mean tokens in)" = "$(rf-ntp --eval -m "$M" in)" ]
	rf-ntp --eval -m "$M" --mean sequences -o out in >/dev/null
	rf-dump --json out | jq -se '.[0].body.history[-1].options.mean == "sequences"' >/dev/null
}

@test "rf-ntp: --eval changes nothing in a run or a checkpoint" {
	prompted 1:50 >in
	runs run
	chmod -R a-w run
	state >before
	[ "$(rf-ntp --eval -m run in)" = "$(rf-ntp --eval -m "$M" in)" ]
	[ "$(rf-ntp --eval -m run --device check in)" = \
		"$(rf-ntp --eval -m "$M" --device $like_cpu --threads 1 in)" ]
	[ "$(flock run/step-000000/state.json rf-ntp --eval -m run in)" = "$(rf-ntp --eval -m "$M" in)" ]
	state | cmp - before
	[ ! -e run/.lock ]
	chmod -R u+w run
}

@test "rf-ntp: --eval -o writes each record's nll" {
	prompted 1:50 2:30 >in
	rf-ntp --eval -m "$M" -o out in >line
	[ "$(wc -l <line)" -eq 1 ]
	rf-entropy -m "$M" --nll in >want
	[ "$(json out)" = "$(json want)" ]
	rf-dump --json out |
		jq -se '.[0].body | .history[-1].tool == "rf-ntp" and .model.step == 0' >/dev/null
	# with -o - the records replace the line on standard output
	rf-ntp --eval -m "$M" -o - in | cmp - out
}

@test "rf-ntp: --eval without tokens to evaluate is an error, unless --allow-empty is given" {
	for in in "$G/stream/empty.rf" <(texts 40 1:1); do
		mentions 65 "no tokens to evaluate" rf-ntp --eval -m "$M" "$in"
	done
	run -0 rf-ntp --eval -m "$M" --allow-empty "$G/stream/empty.rf"
	jq -e '.tokens == 0' <<<"$output" >/dev/null
	mentions 65 "prompt_len" rf-ntp --eval -m "$M" --loss response <(texts 40 1:9)
}

@test "rf-ntp: --eval --loss response reports how many records have no tokens after the prompt" {
	# two texts of 30 tokens, with prompts of 30 and 9 tokens
	texts 40 1:30 2:30 | edited 'if .seq == 1 then .body.prompt_len = 30
		elif .seq == 2 then .body.prompt_len = 9
		else . end' >mixed
	run -0 --separate-stderr rf-ntp --eval -m "$M" --loss response mixed
	said='1 of 2 records have no tokens after the prompt and were not counted'
	[ "$stderr" = "rf-ntp: $said (rf-tokenize --truncate left keeps answers)" ]
	jq -e '.tokens == 21' <<<"$output" >/dev/null
	run -65 rf-ntp --eval -m "$M" --loss response <(rf-cat --range 0:1 mixed)
	said='no record has tokens after the prompt'
	[[ "$output" == *": $said (rf-tokenize --truncate left keeps answers; --allow-empty accepts it)" ]]
	quiet rf-ntp --eval -m "$M" mixed
}

@test "rf-ntp: options that would have no effect exit 64" {
	texts 40 1:30 >in
	runs run
	for how in "--log f" "--lr 3" "--mini-batch 2" "--at 0" "--ntp-coef 1" "--recompute none" \
		"--grad-in g"; do
		# shellcheck disable=SC2086
		run -64 rf-ntp --eval -m run $how in
		[ "$output" = "rf-ntp: ${how% *} cannot be combined with --eval (try --help)" ]
	done
	says 64 "rf-ntp: --output requires --eval (try --help)" rf-ntp -m run -o out in
	says 64 "rf-ntp: --log: '-' is not a file: ..." rf-ntp -m run --log - in
	[ ! -e ./- ]
}

@test "rf-ntp: --loss response trains only on the response" {
	prompted 1:50 2:15 3:21 >in
	runs a b
	rf-ntp -m a --loss response --lr 0 --log log in
	rf-entropy -m "$M" --nll in >nll
	jq -n --slurpfile log log --slurpfile nll <(json nll) -e '[$nll[] | .nll.data[19:][]]
		| length == 31 and (add / 31 - $log[0]["loss/ntp"] | fabs < 1e-5)' >/dev/null
	# the weights differ from those of a loss on all tokens
	rf-ntp -m a --loss response --lr 1e-3 in
	rf-ntp -m b --lr 1e-3 in
	run ! same_step a b
	run -65 rf-ntp -m a --loss response <(texts 40 1:50)
	[[ "$output" =~ ^'rf-ntp: '.*': record 1 (byte '[0-9]+'): --loss response needs prompt_len' ]]
	# the record has only a prompt
	run -0 rf-ntp -m b --loss response <(prompted 1:20)
	[[ "$output" == "rf-ntp: 1 of 1 mini-batches had nothing to learn from"* ]]
}

@test "rf-ntp: trains on the texts of any stream, with or without rollouts" {
	runs a b
	rf-ntp -m a "$G/stream/tokens.rf"
	rf-ntp -m b "$G/stream/rewarded.rf"
	same_step a b
	rf-ntp -m a <(batch 1:30)
}

@test "rf-ntp: --ntp-coef scales the gradient and not the logged loss" {
	texts 40 1:50 >in
	runs a b
	rf-ntp -m a --lr 0 --log log in
	rf-ntp -m b --lr 0 --log log --ntp-coef 0.25 in
	jq -se '.[0]["loss/ntp"] == .[1]["loss/ntp"]
		and (.[0]["actor/grad_norm_ttt"] / .[1]["actor/grad_norm_ttt"] - 4 | fabs < 1e-5)
		and (.[1]["actor/sft_loss_ttt"] * 4 - .[1]["loss/ntp"] | fabs < 1e-6)' log >/dev/null
}

@test "rf-ntp: --sum exact gives the gradient of plain, also if it is too large for the smallest unit" {
	texts 40 1:50 2:9 3:70 4:33 >in
	runs a b c
	rf-ntp -m a --lr 0 --log log in
	rf-ntp -m b --lr 0 --log log --sum plain in
	rf-ntp -m c --lr 0 --log log --ntp-coef 524288 in
	jq -se 'map(.["actor/grad_norm_ttt"]) as [$exact, $plain, $large]
		| ($exact / $plain - 1 | fabs < 1e-6) and ($large / 524288 / $exact - 1 | fabs < 1e-6)' \
		log >/dev/null
	rf-ntp -m "$M" --mini-batch 2 --lr 1e-2 --weights-out exact in
	rf-ntp -m "$M" --mini-batch 2 --lr 1e-2 --weights-out plain --sum plain in
	run ! cmp -s {exact,plain}/model.safetensors
}

# mean_of WEIGHT:FILE...: succeeds if the gradient in the file `g` is the weighted mean of those in the files
mean_of() {
	python3 -S - "$@" <<-'END'
		import array, json, struct, sys
		def read(path):
		    data = open(path, "rb").read()
		    size = struct.unpack("<Q", data[:8])[0]
		    return {name: array.array("f", data[8 + size:][slice(*t["data_offsets"])])
		            for name, t in json.loads(data[8:8 + size]).items() if name != "__metadata__"}
		have, parts = read("g"), [a.split(":") for a in sys.argv[1:]]
		total = sum(float(w) for w, _ in parts)
		parts = [(float(w) / total, read(path)) for w, path in parts]
		top = max(abs(x) for t in have.values() for x in t)
		worst = max(abs(x - sum(w * p[name][i] for w, p in parts))
		            for name, t in have.items() for i, x in enumerate(t))
		print(worst / top)
		sys.exit(not (top > 0 and worst <= 1e-5 * top))
	END
}

@test "rf-ntp: --mean weighs the losses and gradients of records by their tokens, or equally" {
	prompted 1:150 2:30 3:21 4:1 5:20 >in
	runs run
	# the fourth record has nothing to predict, nor has the response of the fifth
	for what in all:1:4 response:20:3; do
		IFS=: read -r loss from count <<<"$what"
		tokens=() sequences=()
		for i in 0 1 2 3 4; do
			rf-cat --range $i:$((i + 1)) in >one
			n=$(json one | jq --argjson from $from '[.tokens.shape[0] - $from, 0] | max')
			[ "$n" -gt 0 ] || continue
			rf-grpo -m run --loss $loss --grad-out g$i one 2>/dev/null
			rf-ntp --eval -m run --loss $loss one | jq --argjson n "$n" '{n: $n, nll}' >nll$i
			tokens+=("$n:g$i") sequences+=("1:g$i")
		done
		[ "${#tokens[@]}" -eq "$count" ]
		rf-grpo -m run --loss $loss --mean tokens --grad-out g in 2>/dev/null
		mean_of "${tokens[@]}"
		run ! mean_of "${sequences[@]}"
		rf-grpo -m run --loss $loss --mean sequences --grad-out g in 2>/dev/null
		mean_of "${sequences[@]}"
		rm -f log
		for mean in tokens sequences; do
			rf-ntp -m run --loss $loss --mean $mean --lr 0 --log log in
		done
		jq -n --slurpfile log log --slurpfile s <(cat nll?) -e '
			[$log[0]["loss/ntp"] - ([$s[] | .n * .nll] | add) / ([$s[].n] | add),
				$log[1]["loss/ntp"] - ([$s[].nll] | add / length),
				$log[1]["actor/sft_loss_ttt"] - $log[1]["loss/ntp"]]
			| all(fabs < 1e-6)' >/dev/null
		rm nll?
	done
}

# forced FILE: prints the stream with one rollout at each position, which equals the text, and advantages of 1
forced() {
	local ones='.body.advantage = {dtype: "<f4", shape: [3, 1], data: [1, 1, 1]}'
	edited 'if .type == "seq" then .body |= (.tokens.data as $x | .positions.data as $s
		| .rollout |= (.tokens.data = [$s[] as $p | range(4) | $x[$p + .]] | {temperature, tokens}))
		else . end' "$1" | rf-rollout -m "$M" --score |
		edited "if .type == \"seq\" then $ones else . end"
}

@test "rf-ntp: --loss positions trains like rf-grpo with rollouts that equal the text and advantages of 1" {
	chosen 3 4 1:60 2:70 | rf-rollout -m "$M" -k 4 >in
	forced in >forced
	runs a b c d
	rf-ntp -m a --loss positions --log a.log in
	# the loss is the mean of the nll of these tokens
	rf-entropy -m "$M" --nll in >nll
	jq -n --slurpfile in <(json nll) --slurpfile log a.log -e '[$in[] | .nll.data as $x
		| .positions.data[] as $s | range(4) | $x[$s + . - 1]]
		| length == 24 and ((add / 24) - $log[0]["loss/ntp"] | fabs < 1e-5)' >/dev/null
	rf-ntp --eval --loss positions -m "$M" in | jq --slurpfile log a.log -e '.tokens == 24
		and .sequences == 2 and (.nll - $log[0]["loss/ntp"] | fabs < 1e-5)' >/dev/null
	rf-grpo -m b --advantage stream --rl-coef 1 --ntp-coef 0 --log b.log forced
	helper golden change b/latest a/latest "$M"
	# in addition to the loss of all tokens
	rf-ntp -m c --position-coef 0.2 --log c.log in
	rf-grpo -m d --advantage stream --rl-coef 0.2 --log d.log forced
	helper golden change d/latest c/latest "$M"
	jq -se '(.[0]["loss/positions"] - .[1]["loss/ntp"] | fabs < 1e-5) and
		(.[0]["loss/ntp"] - .[2]["loss/ntp"] | fabs < 1e-5)' c.log a.log d.log >/dev/null
	# a token that follows two positions counts twice
	edited 'if .type == "seq" then .body |= (.positions.data |= [.[0], .[0], .[2]]) else . end' in >twice
	forced twice >forced
	rm -rf a b
	runs a b
	rf-ntp -m a --loss positions twice
	rf-grpo -m b --advantage stream --rl-coef 1 --ntp-coef 0 forced
	helper golden change b/latest a/latest "$M"
}

@test "rf-ntp: refuses positions without room for their tokens, and a stream without positions" {
	chosen 3 4 1:60 2:70 >in
	runs run
	cp -a run before
	mentions 65 "leave room for 40 tokens (--length) in the sequence of 60 tokens" \
		rf-ntp -m run --loss positions -k 40 in
	texts 40 3:60 >plain
	# the history does not tell how many tokens the positions are for
	edited 'if .type == "head" then del(.body.history) else . end' in >foreign
	mentions 65 "the stream does not say how many tokens count at each position: use --length" \
		rf-ntp -m run --loss positions foreign
	rf-rollout -m run -k 3 in >shorter
	mentions 65 "the rollouts have 3 tokens, but the positions were chosen for 4: say with --length how" \
		rf-ntp -m run --loss positions shorter
	mentions 64 "--length requires --loss positions or --position-coef" rf-ntp -m run -k 4 in
	mentions 64 "--loss positions cannot be combined with --ntp-coef 0, which leaves no loss" \
		rf-ntp -m run --loss positions --ntp-coef 0 in
	mentions 65 "none of the batch's 1 records has positions (rf-select writes them)" \
		rf-ntp -m run --position-coef 0.2 -k 4 plain
	mentions 65 "no record has positions (rf-select writes them; --allow-empty accepts it)" \
		rf-ntp --eval -m run --loss positions -k 4 plain
	mentions 64 "--position-coef cannot be combined with --loss positions, which counts the same tokens" \
		rf-ntp -m run --loss positions --position-coef 0.2 in
	mentions 64 "cannot be combined with --eval" rf-ntp --eval -m run --position-coef 0.2 in
	diff -r -x .lock before run
	rf-cat in plain >mixed
	run -0 --separate-stderr rf-ntp --eval -m run --loss positions mixed
	said='1 of 3 records have no positions and were not counted'
	[ "$stderr" = "rf-ntp: $said (rf-select writes them)" ]
	rf-ntp -m run --loss positions mixed
	# positions may repeat; make check-all shows that the number of tokens that count has 64 bits
	local n=$((${RF_ALL:+1} + 0 ? 1100000 : 1100))
	texts 40 1:3000 | rf-select --mode uniform --chunks 1 -k 2000 --margin 1 |
		edited 'if .type == "seq" then .body.positions = {dtype: "<i4", shape: ['$n'],
			data: [range('$n') | 1]} else . end' >many
	rf-ntp --eval -m run --loss positions many | jq -e '.tokens == '${n}000' * 2 and .nll > 0' >/dev/null
}
