#!/usr/bin/env bats
# Memory and settings that are known before the first record: --max-len and --dry-run of the programs that
# load a model.
setup() {
	load ../helper
	load ../model
}

# programs: prints the command of each program with a model; trainers train `run`
programs() {
	printf '%s\n' "rf-entropy -m $M" "rf-rollout -m $M -k 3" "rf-generate -m $M" "rf-logp -m $M" \
		"rf-rollout -m $M --score" "rf-rollout -m $M --score --as ref" "rf-ntp --eval -m $M" \
		'rf-ntp -m run' 'rf-grpo -m run'
}
# size PID: prints the address space of a process in MiB
size() { awk '/^VmSize/ { print int($2 / 1024) }' "/proc/$1/status" 2>/dev/null || echo 0; }
# memory: prints the figures of the line `memory` in MiB: all, weights, pass, workspace
# threads: prints the number of threads
# plain: succeeds on the CPU without a sanitizer
memory() { awk '/^memory/ { gsub(/[^0-9 ]/, ""); $1 = $1; print }' <<<"$output"; }
threads() { sed -n 's/^device .*, \([0-9]*\) threads, .*/\1/p' <<<"$output"; }
plain() { ! ldd "$(command -v rf-grpo)" | grep -q libasan && [ "${RF_DEVICE:-cpu}" = cpu ]; }

@test "plan: every program with a model refuses a record longer than --max-len and names the record" {
	batch 1:50 2:61 3:40 >in
	runs run
	while read -r command; do
		name=${command%% *}
		run -65 bash -c "$command --max-len 60 in >out"
		said='): the sequence has 61 tokens, more than --max-len 60 '
		said+='(raise it, or cut with rf-tokenize --max-len and --truncate)'
		[[ "$output" =~ ^"$name: in: record 2 (byte "[0-9]+"$said"$ ]] || { echo "$output"; false; }
		run -0 bash -c "$command --max-len 61 in >out"
		rm -rf run
		runs run
	done < <(programs)
}

@test "plan: with --max-len every program allocates its memory before the first record is read" {
	batch 1:50 >in
	"$RF_UNITS/helper/lab" pick in 0 >head
	runs run
	mkfifo fifo
	while read -r command; do
		for planned in '' '--max-len 400000 --segment 100032'; do
			exec 9<>fifo
			cat head >&9
			$command $planned fifo >out 2>err 9>&- &
			pid=$!
			most=0
			# waits until the process has 100 MiB more than without --max-len
			for ((i = 0; i < ${planned:+20}10 && most < ${planned:+$base + }100; i++)); do
				sleep .03
				now=$(size $pid)
				[ "${now:-0}" -le "$most" ] || most=$now
			done
			kill -9 $pid && wait $pid 2>/dev/null || true
			exec 9>&-
			[ -n "$planned" ] || base=$most
		done
		[ $((most - base)) -ge 100 ] ||
			{ echo "$command: $base MiB, $most MiB with --max-len"; cat err; false; }
	done < <(programs)
}

@test "plan: --dry-run takes numbers of positions and rollouts from the history or the first record" {
	texts 40 1:50 | rf-entropy -m "$M" | rf-select --chunks 3 -k 4 --margin 3 |
		rf-rollout -m "$M" -k 4 -n 6 | rf-reward >in
	runs run
	"$RF_UNITS/helper/lab" pick in 0 >head
	"$RF_UNITS/helper/lab" end head >empty
	run -0 rf-grpo -m run --dry-run empty
	[[ "$output" == *" 3 positions, 6 rollouts of 4 tokens at each (from the stream's history)"* ]]
	mentions 0 " 3 positions, 6 rollouts of 4 tokens at each" rf-rollout -m "$M" --score --dry-run empty
	mentions 0 " 3 positions, 7 rollouts of 2 tokens at each" rf-rollout -m "$M" -n 7 -k 2 --dry-run empty
	# a history with impossible numbers is ignored
	edited '(.body.history[]? | select(.tool == "rf-rollout").options)
		|= (.rollouts = 60000 | .length = 60000)' empty >liar
	mentions 0 " 8 positions, 1 rollouts of 5 tokens at each (assumed)" rf-grpo -m run --dry-run liar
	# the first record is read only from a file, which may be standard input
	mentions 0 "up to 2048 tokens (assumed)... at each (assumed)" rf-grpo -m run --dry-run <(cat in)
	run -0 bash -c 'rf-grpo -m run --dry-run <in && rf-grpo -m run --dry-run - <in >again && {
		rf-grpo -m run --dry-run >first
		rf-dump --check
	} <in'
	first='up to 50 tokens (from the first record)'
	[[ "$output" == *"$first"*" at each (from the first record)"*"<stdin>: ok, 1 record, "* ]]
	run -0 rf-grpo -m run --dry-run <(cat in)
	# a record without positions does not tell how many positions others have
	texts 40 1:50 >plain
	run -0 rf-grpo -m run --dry-run plain
	[[ "$output" == *"$first"*" 8 positions, 1 rollouts of 5 tokens at each (assumed)"* ]]
	rf-dump --json in | jq -c 'if .seq == 0 then del(.body.history) else . end' | rf-cat --json >bare
	mentions 0 "$first... 3 positions, 6 rollouts of 4 tokens at each (from the first record)" \
		rf-grpo -m run --dry-run bare
}

# check PROGRAM...: succeeds if the program, on `in`, has a peak memory within 15 percent of the figure of
# --dry-run and the host memory of programs (rf-tools(7), Memory and time)
check() {
	run -0 "$@" --dry-run in
	set -- $(($(memory | cut -d' ' -f1) + 12 + $(threads))) "$@"
	[ "$1" -gt 30 ] # otherwise a few MiB per thread would decide
	"$RF_UNITS/helper/lab" peak $(($1 * 85 / 100))-$(($1 * 115 / 100)) "${@:2}" in >out
}
# begins CASE [FILTER]: makes the model m and the run `run`, of the family of a golden case but larger, and
# the file in: rewarded rollouts of texts, of which the first has $longest tokens
longest=300 second=50 layers=2
[ -z "${RF_ALL:-}" ] || longest=1024 second=824 layers=4
begins() {
	# embeddings that no token reads are not in memory, so the vocabulary is small
	jq ".hidden_size = 384 | .num_hidden_layers = $layers | .intermediate_size = 704 | .vocab_size = 1000
		| if .layer_types then .layer_types |= .[-$layers:] else . end
		| ${2:-.}" "$G/$1/config.json" >config.json
	rf-init --config config.json m
	rf-init --from m run
	texts 1000 1:$longest 2:$second | rf-entropy -m m | rf-select | rf-rollout -m m -n 4 |
		rf-reward >in
}

@test "plan: --dry-run states the peak memory with a DeltaNet model to within 15 percent" {
	plain || skip "the device's own bookkeeping is not counted"
	begins delta
	for dtype in f32 bf16; do
		check rf-entropy -m m --dtype $dtype
		[ $dtype = bf16 ] || [ -n "${RF_ALL:-}" ] || continue
		check rf-rollout -m m -n 4 --dtype $dtype
		check rf-generate -m m --batch 2 -n 3 --dtype $dtype
		check rf-grpo -m run --stale any --dtype $dtype
		check rf-ntp -m run --dtype $dtype --recompute segment --segment 256
	done
	check rf-grpo -m run --stale any --log-gradients --log log
	[ -z "${RF_ALL:-}" ] || check rf-grpo -m run --stale any --grad-out g
	# prompts are short, but --dry-run plans for prompts with their responses
	texts 1000 1:$longest 2:$second | edited 'if .type == "seq"
		then .body.prompt_len = 50 else . end' | rf-cat --split-response -o in
	check rf-ntp -m run --outer response
	run -0 rf-ntp -m run --outer response --dry-run in
	[[ "$output" == *" sequences up to $longest tokens (from the first record) "* ]]
}

@test "plan: --dry-run counts the form of the weights that a later record with few rollouts may need" {
	plain || skip "the device's own bookkeeping is not counted"
	jq '.hidden_size = 512 | .num_hidden_layers = 3 | .intermediate_size = 1408 | .vocab_size = 4000' \
		"$G/delta/config.json" >config.json
	rf-init --config config.json m
	texts 4000 1:128 2:100 | rf-entropy -m m | rf-select -k 16 | edited 'if .body.id == 2
		then .body.positions |= {dtype, shape: [1], data: .data[:1]} else . end' >in
	check rf-rollout -m m -k 16 -n 5
}

# family CASE FILTER: checks the programs with a model of another family, in less detail
family() {
	plain || skip "the device's own bookkeeping is not counted"
	begins "$@"
	for dtype in bf16 ${RF_ALL:+f32}; do
		check rf-entropy -m m --dtype $dtype
		check rf-grpo -m run --stale any --dtype $dtype
	done
	[ -z "${RF_ALL:-}" ] || check rf-rollout -m m -n 4
	check rf-generate -m m --batch 2 -n 2 --max-new 20
	[[ -z "${RF_ALL:-}" && $1 = @(gated|lact-muon) ]] ||
		check rf-ntp -m run --recompute segment --segment 64
}

@test "plan: --dry-run states the peak memory with a Qwen3.5 model to within 15 percent" {
	family qwen '.linear_key_head_dim = 64 | .linear_value_head_dim = 128 | .head_dim = 128'
}

@test "plan: --dry-run states the peak memory with a Gated DeltaNet model to within 15 percent" {
	family gated '.head_dim = 96'
}

@test "plan: --dry-run states the peak memory with a LaCT model to within 15 percent" {
	family lact '.w0_w2_low_rank = 32 | .lact_chunk_size = 256 | .window_size = 256'
	# with segments shorter than the window
	check rf-entropy -m m --segment 128
	check rf-rollout -m m -n 4 --segment 128
	check rf-rollout -m m --score --segment 128
	check rf-rollout -m m --score --as ref --segment 128
}

@test "plan: rf-generate holds at most 64 MiB of records, whatever else they have in them" {
	plain || skip "the device's own bookkeeping is not counted"
	texts 40 1:20000 | edited 'if .type == "seq" then .body.prompt_len = 50 else . end' |
		rf-entropy -m "$M" --keep logits | rf-cat --repeat 40 -o in
	for batch in 0 40 ${RF_ALL:+1}; do
		# all 40 of them are 122 MiB
		"$RF_UNITS/helper/lab" peak 1-120 rf-generate -m "$M" --max-new 2 --batch $batch in \
			>out.$batch
		cmp out.0 out.$batch
	done
}

@test "plan: with windows, the memory without a backward pass grows by a few bytes per token of text" {
	# pass COMMAND...: prints the MiB that --dry-run gives for a pass
	pass() {
		"$@" --dry-run </dev/null |
			awk '/^memory/ { for (i = 1; i <= NF; i++) if ($i == "pass") print int($(i + 1)) }'
	}
	cp "$ROOT/pipelines/configs/lact-760m.json" lact.json
	jq '.attn = {layers: [3, 7], num_heads: 16, window_size: 1000}' \
		"$ROOT/pipelines/configs/delta_net-1.3b.json" >hybrid.json
	for config in lact hybrid; do
		for command in rf-entropy rf-rollout 'rf-rollout --score'; do
			short=$(pass $command -m $config.json --max-len 8192)
			long=$(pass $command -m $config.json --max-len 262144)
			echo "$config, $command: $short MiB, $long MiB"
			[ "$short" -gt 100 ]
			# 4 bytes per token, and 16 with rf-entropy
			[ $((long - short)) -le 6 ]
		done
	done
}

@test "plan: --dry-run states the peak memory with a LaCT model and Muon to within 15 percent" {
	family lact-muon '.vocab_size = 2000 | .w0_w2_low_rank = 32 | .lact_chunk_size = 256
		| .window_size = 256'
}

@test "plan: --dry-run counts the operations of a sequence" {
	texts 40 1:500 2:7 >in
	runs run
	# operations COMMAND...: prints the GFLOP of a sequence
	operations() {
		run -0 "$@" --dry-run in
		sed -n 's/^operations \([0-9.]*\) GFLOP for such a sequence$/\1/p' <<<"$output"
	}
	forward=$(operations rf-entropy -m "$M")
	train=$(operations rf-ntp -m run)
	again=$(operations rf-ntp -m run --recompute segment)
	awk -v f="$forward" -v t="$train" \
		-v a="$again" 'BEGIN { exit !(t / f > 2.9 && t / f < 3.1 && a / f > 3.9 && a / f < 4.1) }'
	# a row takes 2 (weights + 3 K V H a layer) operations, counted by hand; the embedding is not one of
	# the matrices of the 6176 parameters
	awk -v f="$forward" 'BEGIN { exit !(f > 500 * 2 * 4800 / 1e9 && f < 500 * 2 * 6200 / 1e9) }'
}

@test "plan: --dry-run of rf-generate uses the limit of the first record and prints options with effect" {
	texts 40 1:20 2:30 | edited 'if .type == "seq" then .body.meta.most = .body.id * 70 else . end' >in
	run -0 rf-generate -m "$M" --max-new-key most --batch 2 --dry-run in
	[[ "$output" == *" 2 positions, 1 rollouts of 70 tokens at each "* ]]
	grep -qE '^ +--max-new-key +most$' <<<"$output"
	run ! grep -E '^ +--max-new ' <<<"$output"
	run -0 rf-generate -m "$M" --max-new 70 --batch 2 --dry-run in
	[[ "$output" == *" 2 positions, 1 rollouts of 70 tokens at each "* ]]
	grep -qE '^ +--max-new +70$' <<<"$output"
	# running out of memory is reported for the record that causes it
	texts 40 1:20 2:30 | edited 'if .type == "seq" then .body.meta.most = 1 + (.body.id - 1) * 1048575
		else . end' >in
	run -71 bash -c 'rf-generate -m "$0" -n 65536 --max-new-key most --max-len 30 in >out' "$M"
	[[ "$output" == 'rf-generate: in: record 2 (byte '*'): '* ]] || { echo "$output"; false; }
}

@test "plan: --dry-run prints every setting with the value that the run would use" {
	runs run
	run -0 rf-grpo -m run --dry-run --lr 3e-5 --clip 0.1 --mini-batch 7 --group position --betas 0.8,0.9
	for line in 'lr 3e-05' 'clip 0.1' 'dual-clip 3' 'mini-batch 7' 'group position' 'betas 0.8,0.9' \
		'rl-coef 0.2' 'ntp-coef 1' 'no-std no' 'stale 0' 'segment [1-9][0-9]*'; do
		grep -qE "^ +--${line% *} +${line#* }$" <<<"$output" || { echo "no $line"; false; }
	done
	run -0 rf-rollout -m "$M" --dry-run -n 64 --temperature 0.5 --eos
	for line in 'rollouts 64' 'length 5' 'temperature 0.5' 'eos yes' 'top-p 1' 'seed 0'; do
		grep -qE "^ +--${line% *} +${line#* }$" <<<"$output" || { echo "no $line"; false; }
	done
	[[ "$output" == *"device     "*", products in f32"* ]]
	mentions 0 " in segments of 128 rows" rf-entropy -m "$M" --dry-run --segment 100
}

@test "plan: --dry-run prints the same for a config.json as for a model made from that config" {
	jq '.num_hidden_layers = 2 | .vocab_size = 384 | .hidden_size = 256' \
		"$ROOT/pipelines/configs/gated_deltanet-400m.json" >c.json
	rf-init --config c.json m
	rf-init --from m run
	texts 40 1:50 | rf-entropy -m "$M" | rf-select --chunks 2 -k 3 --margin 3 |
		rf-rollout -m "$M" -k 3 -n 2 | rf-reward >in
	while read -r model program; do
		# shellcheck disable=SC2086  # words
		diff <($program -m c.json --max-len 5000 --dry-run in) \
			<($program -m $model --max-len 5000 --dry-run in) >out || true
		[ "$(grep -c '^[<>]' out)" -eq 2 ] || { cat out; false; }
		grep -q '^< model      c.json, a config, without weights$' out
	done <<-END
		m rf-entropy
		m rf-rollout
		m rf-rollout --score
		run rf-grpo --stale any
		run rf-ntp
		m rf-ntp --eval
	END
	# without --dry-run a config.json is refused
	run -78 rf-entropy -m c.json in
	[ "$output" = "rf-entropy: c.json: not a directory (a checkpoint is a directory with config.json)" ]
	# a wrong config is refused with --dry-run, too
	sed 's/"num_heads": [0-9]*/"num_heads": 0/' c.json >odd.json
	for program in rf-entropy rf-grpo; do
		run -78 $program -m odd.json --dry-run in
		[[ "$output" == "$program: odd.json: "*num_heads* ]] || { echo "$output"; false; }
	done
}

@test "plan: --dry-run works for every stage with every config in pipelines/configs" {
	for config in "$ROOT"/pipelines/configs/*.json; do
		for program in rf-rollout rf-grpo ${RF_ALL:+rf-entropy rf-ntp}; do
			quiet $program -m "$config" --max-len 16384 --dry-run </dev/null
			[[ "$output" == *" parameters"*"memory     "*": weights"*"operations "* ]]
		done
	done
}

@test "plan: --dry-run fails with the same status and the same line as the run would" {
	batch 1:50 >in
	texts 40 1:50 >texts
	runs run other
	rf-grpo -m run --grad-out g in
	state >before
	# same STATUS COMMAND...: succeeds if the command fails with the same line with --dry-run and without
	# it; the end of the test checks that none of them changed the run
	same() {
		local status=$1 said
		shift
		run -"$status" bash -c '"$@" --dry-run >out' _ "$@"
		said=$output
		run -"$status" bash -c '"$@" >out' _ "$@"
		# the cause of a failed write is not known before: compares only the name of the file
		[ "$status" -ne 74 ] ||
			{ said=$(cut -d: -f1,2 <<<"$said") output=$(cut -d: -f1,2 <<<"$output"); }
		[ "$said" = "$output" ] || { echo "$said"; echo "$output"; return 1; }
		[ -n "$said" ]
	}
	for trainer in rf-grpo rf-ntp; do
		same 64 $trainer -m "$M" in
		same 66 $trainer -m nowhere in
		same 65 $trainer -m run --at 3 in
		same 74 $trainer -m run --log none/log in
		same 64 $trainer -m run --device gpu in
		RF_PLUGIN=$PWD/none same 69 $trainer -m run --device cuda in
	done
	same 74 rf-grpo -m run -o none/out in
	same 64 rf-grpo -m run --outer response --grad-out g in
	same 66 rf-ntp -m run --grad-in nowhere in
	same 78 rf-ntp -m run --grad-in "$M/config.json" in
	texts 41 1:9 >wide
	for command in "rf-entropy -m $M" "rf-rollout -m $M" "rf-generate -m $M" "rf-logp -m $M" \
		"rf-ntp --eval -m $M" 'rf-ntp -m run' 'rf-grpo -m run'; do
		same 65 $command wide
		same 65 $command --max-len 49 in
		same 66 $command no.rf
		same 65 $command "$M/config.json"
	done
	for command in "rf-entropy -m $M" "rf-rollout -m $M" "rf-generate -m $M"; do
		same 74 $command -o none/out in
	done
	same 71 rf-rollout -m "$M" -n 65536 -k 65536 --max-len 100 texts
	copy_model "$M" m
	"$RF_UNITS/helper/model" poke m model.norm.weight 3 nan
	for command in rf-entropy rf-rollout 'rf-ntp --eval'; do
		same 70 $command -m m in
	done
	# the first record is refused
	rf-select --mode uniform --chunks 2 -k 3 --margin 3 texts | rf-rollout -m "$M" -k 3 >unrewarded
	same 65 rf-grpo -m run unrewarded
	same 65 rf-grpo -m run --loss response in
	same 65 rf-ntp -m run --loss response in
	same 65 rf-ntp --eval -m run --loss response in
	same 65 rf-rollout -m run -k 45 in
	"$RF_UNITS/helper/lab" pick in 0 >head
	rf-init --config "$M/config.json" --seed 9 foreign
	rf-rollout -m foreign -k 3 -n 3 in |
		rf-reward >stale
	same 65 rf-grpo -m run stale
	# a run that is past --at, and a gradient of another run
	rf-ntp -m other texts
	says 0 "rf-ntp: already at step 1" rf-ntp -m other --at 0 --dry-run texts
	mentions 65 "g: the gradient was computed with weights " rf-ntp -m other --grad-in g --dry-run texts
	flock run/.lock rf-ntp -m run --dry-run in
	state | cmp - before
}

@test "plan: an unknown --device exits 64, and only --device auto explains why it takes the CPU" {
	run -64 rf-entropy -m "$M" --device gpu "$G/stream/tokens.rf"
	[[ "$output" == "rf-entropy: unknown device 'gpu': use cpu, cuda or auto" ]]
	run -64 env RF_DEVICE=gpu rf-entropy -m "$M" "$G/stream/tokens.rf"
	for how in 'rf-entropy --device auto' 'env RF_DEVICE=auto rf-entropy'; do
		run -0 env RF_PLUGIN="$PWD/none" bash -c "$how -m $M $G/stream/tokens.rf >out"
		[[ "$output" =~ ^"rf-entropy: device cpu: the CUDA plugin cannot be loaded: " ]]
	done
	for how in 'env -u RF_DEVICE rf-entropy' 'env RF_DEVICE= rf-entropy' 'rf-entropy --device cpu'; do
		silent bash -c "$how -m $M $G/stream/tokens.rf >out"
	done
}

@test "plan: --isa sets the level of the instruction set, and a level that the processor lacks is an error" {
	at() { sed -n 's/^device     cpu, [0-9]* threads, \(.*\), products in .*/\1/p' <<<"$output"; }
	show() { run -0 "$@" rf-entropy --device cpu -m "$M" --dry-run; }
	show env -u RF_ISA
	most=$(at)
	[ -n "$most" ]
	for level in $(levels); do
		show env RF_ISA=$level
		[ "$(at)" = "${level/#auto/$most}" ]
		run -0 env RF_ISA=none rf-entropy --device cpu -m "$M" --dry-run --isa $level
		[ "$(at)" = "${level/#auto/$most}" ]
		# the history does not have the level
		rf-entropy --device cpu -m "$M" --isa $level "$G/stream/tokens.rf" | rf-dump --head |
			sed 1d >head.$level
		run ! grep isa head.$level
	done
	# oneDNN reports the level, too
	wide delta_net
	! grep -qx x86_64 <(levels) || ONEDNN_VERBOSE=1 \
		rf-entropy --device cpu -m wide-delta_net --isa x86_64 -o out "$G/stream/tokens.rf" |
		grep 'info,cpu,isa:Intel SSE4.1$'
	for how in auto ''; do
		show env RF_ISA=$how
		[ "$(at)" = "$most" ]
	done
	for how in '--isa 3' '--isa x86_64_v9'; do
		run -64 rf-entropy --device cpu -m "$M" $how "$G/stream/tokens.rf"
		said="unknown instruction set level '${how#* }' (--isa and RF_ISA take auto, "
		[[ "$output" == "rf-entropy: $said"*")" ]]
	done
	run -64 env RF_ISA=sse rf-entropy --device check -m "$M" "$G/stream/tokens.rf"
	# the highest level, if this processor lacks it
	if [ "$(uname -m)" = x86_64 ] && ! levels | grep -q x86_64_v4; then
		says 69 "rf-entropy: this processor lacks x86_64_v4 and supports at most $most (--isa,..." \
			rf-entropy --device cpu -m "$M" --isa x86_64_v4 "$G/stream/tokens.rf"
	fi
}
