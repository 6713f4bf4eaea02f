#!/usr/bin/env bats
# Tests of programs on a GPU: a missing part is reported, failures are detected, and results agree with the
# CPU.  The GPU is emulated (t/emu); DEVICE=cuda runs all other tests of programs with a model on a real GPU.

setup() {
	load ../helper
	load ../model
	[ -e "$RF_UNITS/../rf-cuda-host.so" ] || skip "CUDA was left out: no toolkit"
	export RF_PLUGIN=$RF_UNITS/../rf-cuda-host.so
	unset RF_DEVICE
}

@test "cuda, emulated: a missing or unsuitable plugin, driver or GPU exits 69 with one line that names it" {
	# missing MESSAGE ENVIRONMENT...: checks that rf-entropy exits 69 with one line that begins so
	missing() {
		run -69 env "${@:2}" rf-entropy -m "$M" --device cuda "$G/stream/tokens.rf"
		[ "${#lines[@]}" -eq 1 ] || { echo "$output"; return 1; }
		[[ "$output" == "rf-entropy: $1"* ]] || { echo "$output"; return 1; }
	}
	missing "the CUDA plugin cannot be loaded: $PWD/none.so: " RF_PLUGIN="$PWD/none.so"
	echo text >text.so
	missing "the CUDA plugin cannot be loaded: $PWD/text.so: " RF_PLUGIN="$PWD/text.so"
	missing 'the CUDA plugin ' RF_PLUGIN="$RF_UNITS/helper/fault.so"
	missing 'there is no NVIDIA driver (use --device cpu)' EMU_DRIVER=0
	missing 'the NVIDIA driver is too old: it supports CUDA 12.2, but 13.0 is needed ' EMU_DRIVER=12020
	missing 'the NVIDIA driver finds no GPU ' EMU_DEVICES=0
	missing 'the GPU is of type sm_70, but rf-cuda.so was built for sm_' EMU_SM=70
	# a copy of a program, without the plugin in the folders next to it
	mkdir -p lone
	cp "$(command -v rf-entropy)" lone
	run -69 env -u RF_PLUGIN lone/rf-entropy -m "$M" --device cuda "$G/stream/tokens.rf"
	want='rf-entropy: no CUDA plugin: rf-cuda.so is neither in ../lib/rf-tools nor in ../build'
	[[ "$output" == "$want, relative to the programs "* ]]
}

@test "cuda, emulated: --device auto takes the GPU, or else the CPU with one line that gives the reason" {
	run -0 --separate-stderr rf-entropy -m "$M" --device auto --dry-run </dev/null
	[[ "$stderr" == "rf-entropy: device cuda: emulated, sm_90, "* ]]
	[[ "$output" == *"device     cuda, emulated, sm_90, "*", products in bf16"* ]]
	run -0 --separate-stderr env EMU_DEVICES=0 rf-entropy -m "$M" --device auto --dry-run </dev/null
	[[ "$stderr" == "rf-entropy: device cpu: the NVIDIA driver finds no GPU "* ]]
	[[ "$output" == *"device     cpu, "*", products in f32"* ]]
	quiet rf-entropy -m "$M" --dry-run </dev/null
	[[ "$output" == *"device     cuda, "* ]]
	# with a driver and a plugin but without a usable GPU, the line comes without --device auto, too
	run -0 --separate-stderr env EMU_SM=70 rf-entropy -m "$M" --dry-run </dev/null
	[[ "$stderr" == "rf-entropy: device cpu: the GPU is of type sm_70, but rf-cuda.so was built for "* ]]
}

@test "cuda, emulated: too little GPU memory exits 71 and says the needed and the free MiB, and what to do" {
	runs run
	run -71 --separate-stderr env EMU_MEMORY=$((48 << 20)) \
		rf-ntp -m run --device cuda --max-len 200000 "$G/stream/tokens.rf"
	[ "${#stderr_lines[@]}" -eq 1 ]
	output=$stderr
	said='the GPU is out of memory: '
	[[ "$output" =~ "$said"[0-9]+" MiB more are needed".*", "[0-9]+" of its 48 MiB are free".*--segment ]]
}

@test "cuda, emulated: RF_PROFILE writes a table of launches and products, and changes no result" {
	rf-entropy -m "$M" --device cuda "$G/stream/tokens.rf" >want
	RF_PROFILE=1 rf-entropy -m "$M" --device cuda "$G/stream/tokens.rf" 2>said | cmp - want
	head -n 1 said | grep -qE '^kernel +grid\*block +calls +ms +us each +% +TFLOP/s$'
	grep -qE '^product, n [0-9]+, k [0-9]+, bf16, b. +[0-9]+x1x1\*1 +[0-9]+( +[0-9.]+){4}$' said
	# the table is sorted by time, and the last line has the sums
	awk 'NR > 1 { n = split(substr($0, 65), w, " ") }
		/^all / { exit !(calls == w[1] && ms - w[2] < .05 && w[2] - ms < .05 && NR > 10) }
		NR > 1 && before != "" && w[3] + 0 > before { exit 1 }
		NR > 1 { before = w[3]; calls += w[2]; ms += w[3] }' said
	for i in 1 2; do
		RF_PROFILE=both rf-entropy -m "$M" --device cuda "$G/stream/tokens.rf" | cmp - want
	done
	[ "$(grep -c '^all ' both)" -eq 2 ]
}

@test "cuda, emulated: segments are as long as GPU memory allows, with room for a pipeline's other programs" {
	# rows MIB PROGRAM OPTION...: prints the program's length of segments on a GPU with this much memory
	rows() {
		EMU_SMS=132 EMU_MEMORY=$(($1 << 20)) \
			"${@:2}" --device cuda --max-len 16384 --dry-run </dev/null |
			sed -n 's/.* in segments of \([0-9]*\) rows$/\1/p'
	}
	jq '.hidden_size = 256 | .num_heads = 2 | .vocab_size = 2000 | .intermediate_size = 512' \
		"$ROOT/pipelines/configs/delta_net-1.3b.json" >c.json
	# the trainer needs 4.2, 1.6 and 0.2 GiB in these three cases, and the other programs 3.7 GiB
	[ "$(rows 9000 rf-grpo -m c.json)" -eq 8192 ]
	[ "$(rows 7940 rf-grpo -m c.json)" -eq 4096 ]
	[ "$(rows 5200 rf-grpo -m c.json --recompute segment)" -eq 2048 ]
	[ "$(rows 710 rf-entropy -m c.json)" -eq 2048 ]
	if [ -n "${RF_ALL:-}" ]; then
		[ "$(rows 7800 rf-grpo -m c.json)" -eq 2048 ]
		[ "$(rows 9000 rf-grpo -m c.json --recompute segment)" -eq 4096 ]
		[ "$(rows 9000 rf-entropy -m c.json)" -eq 4096 ]
	fi
	[ "$(rows 9000 rf-rollout -m c.json --segment 100)" -eq 128 ]
	mentions 0 ' in segments of 2048 rows' rf-entropy -m c.json --device cpu --dry-run </dev/null
}

@test "cuda, emulated: rf-grpo needs no more GPU memory than its --dry-run states" {
	for a in gated_deltanet lact_swiglu; do
		jq "if ${RF_ALL:-0} != 0 then . else .num_hidden_layers = 1 end" \
			"$ROOT/pipelines/demo/demo-$a.json" >$a.json
		rf-init --config $a.json --seed 1 $a
		rf-init --from $a run-$a
		head -c 300 "$ROOT/README.md" | rf-tokenize --bytes --format text --max-len 70 \
			--min-len 70 --truncate split 2>err | rf-cat --range 0:2 -o in
		rf-entropy -m $a --device cpu in | rf-select --chunks 3 |
			rf-rollout -m $a --device cpu -n 2 -k 4 | rf-reward -o rewarded
		for dtype in f32 bf16; do
			case ${RF_ALL:+all}$a-$dtype in # one type for each model
			gated_deltanet-f32 | lact_swiglu-bf16) continue ;;
			esac
			set -- rf-grpo -m run-$a --device cuda --dtype $dtype --max-len 70 --keep 1 \
				--stale any rewarded
			run -0 "$@" --dry-run
			[[ "$output" =~ "memory "+([0-9]+)" MiB of the GPU: " ]]
			EMU_MEMORY=$(((BASH_REMATCH[1] + 1) << 20)) "$@"
		done
	done
}

@test "cuda, emulated: 99 KiB of shared memory are enough for bf16 but not f32; heads over 256 are refused" {
	for a in gated_deltanet lact_swiglu qwen3_5_text; do
		jq '.hidden_size = 64 | .num_hidden_layers = 1 | .intermediate_size = 64
			| if .linear_key_head_dim then
				.num_hidden_layers = 2 | .linear_num_key_heads = 1
				| .linear_num_value_heads = 1 | .num_attention_heads = 1
				| .linear_key_head_dim = 256 | .linear_value_head_dim = 256 | .head_dim = 256
			elif .num_attn_heads then .num_attn_heads = 2 | .num_lact_heads = 2
			elif .head_dim then .head_dim = 256 | .num_heads = 1
			else . end
			| if .layer_types then .layer_types = ["linear_attention", "full_attention"]
			else . end' \
			"$ROOT/pipelines/demo/demo-$a.json" >$a.json
		rf-init --config $a.json --seed 1 $a
		rf-init --from $a run-$a
		head -c 300 "$ROOT/README.md" | rf-tokenize --bytes --format text --max-len 66 \
			--min-len 66 --truncate split 2>err | rf-cat --range 0:1 -o in
		EMU_SHARED=99 rf-entropy -m $a --device cuda in | rf-select --chunks 1 |
			EMU_SHARED=99 rf-rollout -m $a --device cuda -n 2 -k 2 | rf-reward |
			EMU_SHARED=99 rf-grpo -m run-$a --device cuda
	done
	run -69 env EMU_SHARED=99 rf-entropy -m gated_deltanet --device cuda --dtype f32 -o out in
	said='the GPU has 99 KiB of shared memory per block, but '
	[[ "$output" == 'rf-entropy: '*"$said"*' needs '*'--dtype bf16'* ]]
	for a in gated_deltanet qwen3_5_text; do
		jq 'if .linear_key_head_dim then .layer_types = ["full_attention", "full_attention"]
			else . end | .head_dim = 264' $a.json >wide.json
		rf-init --config wide.json --seed 1 wide-$a
		says 69 "rf-entropy: ... of 264: the GPU's kernels support heads of at most 256 ..." \
			rf-entropy -m wide-$a --device cuda -o out in
	done
}

@test "cuda, emulated: a GPU fault ends rf-grpo with 69 and no commit, and RF_SYNC=1 names the right kernel" {
	batch 1:50 >in
	runs run
	state >before
	for n in 1 8 55 199 ${RF_ALL:+2 3 5 13 21 34 89 144}; do
		says 69 "rf-grpo: ...the GPU failed in ...illegal memory access..." \
			env EMU_FAULT=$n rf-grpo -m run --device cuda in
		state | cmp - before
	done
	run -69 env EMU_FAULT=34 RF_SYNC=1 rf-grpo -m run --device cuda in
	[[ "$output" != *"earlier kernel"* ]]
	run -69 env EMU_FAULT=13 rf-entropy -m "$M" --device cuda -o out in
	[ ! -e out ]
}

@test "cuda, emulated: rf-entropy keeps weights of products only in bf16, and still checks their hash" {
	wide delta_net qwen3_5_text
	texts 40 1:50 >in
	weights() {
		rf-entropy -m "$@" --device cuda --dry-run | sed -n 's/.*GPU: weights \([0-9]*\),.*/\1/p'
	}
	for a in delta_net qwen3_5_text; do
		[ $((10 * $(weights wide-$a))) -le $((6 * $(weights wide-$a --dtype f32))) ]
	done
	runs run
	rf-entropy -m run --device cuda -o want in
	rf-entropy -m run/latest --device cuda in | cmp - want
	"$RF_UNITS/helper/model" poke run/latest model.layers.1.attn.o_proj.weight 3 .5
	mentions 78 'the weights do not match state.json' rf-entropy -m run --device cuda in
}

@test "cuda, emulated: a NaN on the GPU gives the same message as on the CPU" {
	copy_model "$M" m
	"$RF_UNITS/helper/model" poke m model.layers.1.attn.o_proj.weight 3 3e38
	texts 40 1:50 >in
	run -70 rf-entropy -m m --device cuda --dtype f32 in
	gpu=$output
	run -70 rf-entropy -m m --device cpu in
	[ "$gpu" = "$output" ]
}

@test "cuda, emulated: two runs of rf-grpo write the same bits" {
	batch 1:70 2:40 >in
	runs a b
	for run in a b; do
		rf-grpo -m $run --device cuda in
	done
	same_step a b
}

# Products in bf16 read parts of rounded arrays: one row, the columns of heads, every n-th row.
@test "cuda, emulated: in bf16 a segment of one row, and rollouts that cross chunks, train as on the CPU" {
	local m device models=(lact qwen ${RF_ALL:+delta lact-muon lact-prenorm lact-full-nope gated-gva-neg})
	near() { # near NAME: compares a figure of the two logs, to 2 %
		jq -es --arg name "$1" 'map(.[$name]) | .[1] / .[0] | . > 0.98 and . < 1.02' \
			cpu.log cuda.log >said || { echo "$m: $1"; cat cpu.log cuda.log; return 1; }
	}
	for m in "${models[@]}"; do
		M=$G/$m
		texts 40 1:65 >one
		texts 40 2:81 | rf-entropy -m "$M" | rf-select --chunks 3 -k 3 --margin 3 |
			rf-rollout -m "$M" -n 3 -k 3 --device cuda | rf-reward >rewarded
		for device in cpu cuda; do
			runs $m-ntp-$device
			rf-ntp -m $m-ntp-$device --device $device --dtype bf16 --segment 64 \
				--log $device.log one
		done
		near loss/ntp
		near actor/grad_norm_ttt
		rm cpu.log cuda.log
		for device in cpu cuda; do
			runs $m-$device
			rf-grpo -m $m-$device --stale any --device $device --dtype bf16 --segment 64 \
				--log $device.log rewarded
		done
		near actor/grad_norm_ttt
		rm cpu.log cuda.log
	done
}

@test "cuda, emulated: rf-rollout draws the same tokens as on the CPU, with nearly the same values" {
	texts 40 1:90 2:70 | rf-entropy -m "$M" | rf-select --chunks 4 -k 5 --margin 2 >in
	for device in cpu cuda; do
		rf-rollout -m "$M" -k 5 -n 4 --temperature 0.9 --seed 5 --device $device \
			--dtype f32 in >$device
		rf-rollout -m "$M" -k 5 -n 4 --top-p 0.9 --top-k 20 --seed 5 --device $device \
			--dtype f32 in >top.$device
		rf-rollout -m "$G/gated" --score --as ref --device $device --dtype f32 top.$device \
			>ref.$device
	done
	[ "$(drawn cpu)" = "$(drawn cuda)" ]
	[ "$(drawn top.cpu)" = "$(drawn top.cuda)" ]
	helper model near cuda cpu logp h_pred h_gt
	helper model near ref.cuda ref.cpu logp logp_ref kept h_pred
}

@test "cuda, emulated: rf-generate decodes several prompts together into the same tokens as on the CPU" {
	for m in delta-hybrid lact ${RF_ALL:+qwen delta gated}; do
		zstd -dc "$G/generate.jsonl.zst" | jq -c "select(.model == \"$m\")" >cases
		jq -c '{tokens: .prompt}' cases | rf-tokenize --format ids --vocab 40 - >in
		for device in cpu cuda; do
			rf-generate -m "$G/$m" -n 2 --max-new 10 --temperature 1 --seed 5 --ignore-eos \
				--device $device --dtype f32 in >$device
		done
		[ "$(wrote cuda)" = "$(wrote cpu)" ]
		rf-generate -m "$G/$m" --max-new 24 --device cuda --dtype f32 in >greedy
		[ "$(wrote greedy)" = "$(jq -c '[.ids]' cases)" ]
	done
}

# Products in bf16 on the CPU also move the entropy of a token of qwen by 0.037.
@test "cuda, emulated: entropies computed in bf16 differ little from those of the CPU" {
	texts 40 1:200 >in
	entropies() {
		rf-entropy -m "$G/$m" "$@" in | rf-dump --tsv --rows token --columns entropy --no-header
	}
	for m in delta gated lact qwen; do
		entropies --device cuda >cuda
		# each token against the CPU in bf16, and the mean against the CPU in float32
		paste cuda <(entropies --device cpu --dtype bf16) <(entropies --device cpu) |
			awk 'function size(x) { return x < 0 ? -x : x }
				size($1 - $2) > 1e-2 { bad = 1 }
				{ sum += size($1 - $3) }
				END { exit bad || !(sum / NR < 1e-2) }'
	done
}

@test "cuda, emulated: reference cases of every mixer in t/exact/golden.bats pass on the GPU in f32" {
	# a case of each mixer; make check-all runs all cases
	local cases='delta-hybrid gated lact-muon qwen'
	[ -z "${RF_ALL:-}" ] || cases=
	RF_CASES=$cases RF_DEVICE=cuda RF_DTYPE=f32 bats --tap "$ROOT/t/exact/golden.bats" >out 2>&1 ||
		{ grep -v '^ok' out; false; }
	[ "$(grep '^ok' out | grep -vc '# skip')" -ge 6 ]
}

@test "cuda, emulated: variants of the policy loss in t/exact/losses.bats pass on the GPU in f32" {
	# the entropy is the only one with operations of its own; make check-all runs all variants
	local words='entropy bonus'
	[ -z "${RF_ALL:-}" ] || words=.
	RF_DEVICE=cuda RF_DTYPE=f32 bats --tap -f "$words" "$ROOT/t/exact/losses.bats" >out 2>&1 ||
		{ grep -v '^ok' out; false; }
	[ "$(grep -c '^ok' out)" -ge 1 ]
}

@test "cuda, emulated: a text with rollouts gives the values and gradients of separate sequences" {
	[ -n "${RF_ALL:-}" ] || skip "minutes: make check-all"
	RF_DEVICE=cuda unit tree exact
}

@test "cuda, emulated: midtrain.mk completes a run of two batches on the GPU" {
	jq '.vocab_size = 384' "$M/config.json" >config.json
	rf-init --config config.json --seed 1 model
	seq 2000 >text.txt
	make -s -f "$ROOT/pipelines/midtrain.mk" RUN=run MODEL=model CORPUS=text.txt \
		BATCHES=2 LEN=64 BATCH=2 \
		MINI_BATCH=1 LR=1e-3 K=3 N=2 \
		SELECT='rf-select --chunks 2 -k 3 --margin 3' COMPUTE='--device cuda' RF_BIN="$RF_BIN"
	[ "$(jq .step run/log.jsonl | paste -sd' ')" = "0 1 2 3" ]
}

@test "cuda, emulated: bench-cuda.sh prints every row, marks low figures, and goes on after a failed one" {
	RF_DEVICE=cpu rf-init --config "$M/config.json" --seed 1 tiny
	cp tiny/config.json tiny.json
	# a python3 that has only one of the two peers
	mkdir bin
	cat >bin/python3 <<-'END'
		#!/bin/sh
		[ "$5" = fla ] || exit 69
		echo "delta rule 0.5 ms" | sed 's/rule /rule  /'
		echo "delta rule and back 1.5 ms"
	END
	chmod +x bin/python3
	bench() {
		run "$1" --separate-stderr env PATH="$PWD/bin:$PATH" RF_BENCH="$RF_UNITS/helper/bench" T=20 \
			CONFIGS="$3" DELTAS="$2" "$ROOT/pipelines/bench/bench-cuda.sh" dir
	}
	bench -0 '20,2,32x32 18,1,16x32' tiny.json
	for row in 'product ' 'forward ' 'forward + backward' 'tiny: forward / product' \
		'tiny: forward + backward / product' 'entropy (forward)' 'step ' \
		'tiny: one step, in forward passes' 'tiny: memory of a step, GiB' \
		'tiny: with --recompute segment, GiB' '    gemm ' '    delta_fwd ' \
		'delta rule, 20,2,32x32, ms' "delta rule and back, 18,1,16x32, speed over fla's"; do
		[[ "$output" == *$'\n'"$row"* ]] || { echo "no row $row"; echo "$output"; return 1; }
	done
	[ "$(grep -c '^delta rule' <<<"$output")" -eq 10 ]
	[ "$(grep -cE "speed over flash_qla's +not there" <<<"$output")" -eq 2 ]
	row="^delta rule, 18,1,16x32, speed over fla's +[0-9.]+ +>= 1.0 +(FALLS SHORT )?[0-9.]+ ms, 0.5 ms$"
	grep -qE "$row" <<<"$output"
	[[ "$output" == *'in forward passes over the same tokens '*' <= 5.5 '*'FALLS SHORT'* ]]
	sed -i 's/exit 69/exit 1/' bin/python3 # a peer that fails is not a missing peer
	bench -1 20,2,32x32 ' ' # without a model
	[[ "$stderr" == *'bench: flash_qla: status 1'*'bench: failed: delta' ]]
	bench -1 20,2,0 ' '
	[[ "$output" == *'delta '*FAILED* ]]
	[[ "$stderr" == *'bench: failed: delta' ]]
}
