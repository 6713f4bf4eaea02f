#!/usr/bin/env bats
# The first minutes on a GPU, rehearsed on the emulated one.
bats_require_minimum_version 1.5.0
setup() {
	load helper
	[ -e "$RF_UNITS/../rf-cuda-host.so" ] || skip "CUDA was left out: no toolkit"
	first=$ROOT/pipelines/gpu-first.sh
	jq '.hidden_size = 64 | .num_hidden_layers = 2 | .num_heads = 2' \
		"$ROOT/pipelines/demo-delta_net.json" >tiny.json
	jq '.hidden_size = 64 | .num_hidden_layers = 2 | .num_attn_heads = 2 | .num_lact_heads = 2' \
		"$ROOT/pipelines/demo-lact_swiglu.json" >fast.json
	export RF_PLUGIN=$RF_UNITS/../rf-cuda-host.so RF_BENCH=$RF_UNITS/helper/bench
	export RF_CUBLAS=$RF_UNITS/emu/cublas
	export MODEL=$PWD/tiny.json FAMILIES=$PWD/fast.json T=128 SEGMENTS='64 128' ROWS=64 SIZES='64 96 128'
	export DELTAS=64 HEADS='2 32' WIDE='1 16x32' RF_EVERY=2000 SLOWER=5
	# a machine has them or not
	mkdir none
	for program in nvidia-smi compute-sanitizer ncu python3; do
		printf '#!/bin/sh\necho "%s $*"; exit 3\n' $program >none/$program
	done
	chmod +x none/*
	PATH=$PWD/none:$PATH
}

@test "gpu-first.sh: every part runs on an emulated GPU, writes its table and its launches, and is compared" {
	"$first" out >said 2>err
	# all but the programs above
	awk -F '\t' '$2 && !($2 == 3 && $1 ~ /^(nvidia-smi|memcheck|racecheck|initcheck|counters|delta-.*-f)/)
		END { exit NR < 24 }' out/parts.tsv >bad
	[ ! -s bad ] || { cat bad; head -50 out/right-*; false; }
	for name in $(cut -f 1 out/parts.tsv); do [ -s "out/$name.txt" ]; done
	grep -q '^forward + backward .* % of the product' out/pass-128.txt
	grep -q '^gate, up back .* [01]\.[0-9]*$' out/cublas.txt
	grep -q '^step .* forward passes' out/step-n8.txt
	grep -qE '^walk.* [0-9]+x[0-9]+x1\*[0-9]+ +[0-9]+ +[0-9.]+ ' out/pass-64-launches.profile
	grep -qE '^product, n 64, k 64, bf16.* [0-9.]+$' out/pass-64-launches.profile
	grep -q '^all ' out/fast-launches.profile
	# each line of what is predicted, and shares that are all of the time
	[ "$(grep -c -E ' [0-9.]+ (us|ms|%|TB/s|TFLOP/s|forward|of) +[-0-9]' said)" -eq \
		"$(grep -vc '^#' "$ROOT/pipelines/gpu-predicted.tsv")" ]
	awk '/^pass-64-launches: / { on = 1; next } !NF { on = 0 } on && $2 == "%" { all += $1 }
		END { exit !(all > 99.9 && all < 100.1) }' said
	run ! grep 'NOT RIGHT' said
	cmp said out/compared.txt
}

@test "gpu-first.sh: what hangs, fails or is wrong takes its own time alone, and is said" {
	cat >bench <<-'END'
		#!/bin/sh
		case $* in
		*products*) exec sleep 100 ;;
		*' pass '*) echo 'forward  1 GFLOP/s 51.0 % of it' ;;
		*) exit 1 ;;
		esac
	END
	mkdir -p units/unit
	printf '#!/bin/sh\necho "not ok 1"; exit 1\n' >units/unit/ops-rows
	chmod +x bench units/unit/*
	ONLY='ceilings right passes delta' RF_BENCH=bench RF_UNITS=units SLOWER=1 DELTAS=16384 \
		timeout 60 bash -c '
			sed "s/part 30 products/part 1 products/; s|^here=.*|here=$1|" "$0" >here.sh
			bash here.sh out >said 2>err' "$first" "$ROOT/pipelines"
	grep -q '^did not end well: products (out of time)$' said
	grep -q '^did not end well: right-rows (status 1)$' said
	grep -q '^did not end well: right-head (no such program)$' said
	grep -q '^did not end well: delta-16384 (status 1)$' said
	grep -q '^NOT RIGHT: ' said
	[ "$(awk -F '\t' '/^pass-/ && $2 == 0' out/parts.tsv | wc -l)" -eq 4 ]
}

@test "gpu-compare.sh: a figure within what was reckoned is as reckoned; beyond it, it says what follows" {
	mkdir out
	printf '%s\t0\t1.0\n' delta-16384 pass-2048 pass-8192 >out/parts.tsv
	printf 'delta rule              0.900 ms\ndelta rule and back     9.000 ms\n' >out/delta-16384.txt
	echo 'forward               1.0 GFLOP/s   50.0 % of the product' >out/pass-8192.txt
	{
		echo head
		printf '%-64s %22s %8s %10s %9s\n' 'walk<X>' 1x1x1 1 1.0 500 'walk<X>' 64x1x1 9 8.0 20 \
			all '' 10 9.0 ''
	} >out/pass-2048-launches.profile
	run -0 "$ROOT/pipelines/gpu-compare.sh" out
	[[ "$output" =~ 'delta rule, 16384 x 16 '+'0.85 ms'\ +'0.90'\ +'1.06  as reckoned' ]]
	[[ "$output" =~ 'delta rule and back '+'2.5 ms'\ +'9.00'\ +'3.60  more: see ready' ]]
	[[ "$output" =~ 'walk '+'31 us'\ +'20.00'\ +'0.65  less: latencies' ]]
	[[ "$output" =~ 'forward, segments of 8192 '+'55 %'\ +'50.00'\ +'0.91  as reckoned' ]]
	[[ "$output" == *'100.00 %  delta rule: '* ]]
	run -64 "$ROOT/pipelines/gpu-compare.sh" nowhere
	run -64 "$first"
}

@test "gpu-bundle.sh: unpacked elsewhere it needs none of our libraries, and it has a limit" {
	[ -e "$ROOT/build/rf-cuda.so" ] || skip 'the plugin is elsewhere'
	MOST=500 "$ROOT/pipelines/gpu-bundle.sh" b.tar.gz
	tar xzf b.tar.gz
	unset RF_BENCH RF_UNITS RF_CUBLAS
	ONLY=ceilings RF_BIN='' gpu-bundle/pipelines/gpu-first.sh out
	grep -q '^square ' out/products.txt
	# what it loads is its own
	LD_LIBRARY_PATH=gpu-bundle/lib/bundled ldd gpu-bundle/bin/rf-entropy |
		awk '$3 ~ /^\// && $3 !~ /bundled/ && $1 !~ /^lib(c|m|dl|rt|pthread)\.so/ { print; bad = 1 }
			END { exit bad }'
	run -1 env MOST=1 "$ROOT/pipelines/gpu-bundle.sh" c.tar.gz
	[[ "$output" == *'more than 1: build for one architecture '* ]]
	[ ! -e c.tar.gz ] && [ ! -e c.tar.gz.part ]
}
