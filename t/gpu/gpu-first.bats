#!/usr/bin/env bats
# Tests of gpu-first.sh, which measures in the first minutes on a GPU, on the emulated GPU.
bats_require_minimum_version 1.5.0
setup() {
	load ../helper
	[ -e "$RF_UNITS/../rf-cuda-host.so" ] || skip "CUDA was left out: no toolkit"
	first=$ROOT/pipelines/bench/gpu-first.sh
	jq '.hidden_size = 64 | .num_hidden_layers = 1 | .num_heads = 2 | .initializer_range = 0.1' \
		"$ROOT/pipelines/demo/demo-delta_net.json" >tiny.json
	jq '.hidden_size = 64 | .num_hidden_layers = 1 | .num_attn_heads = 2 | .num_lact_heads = 2' \
		"$ROOT/pipelines/demo/demo-lact_swiglu.json" >fast.json
	jq '.num_hidden_layers = 5' fast.json >deep.json
	mkdir none
	jq '.hidden_size = 32 | .num_heads = 1' tiny.json >none/tiny.json # for tests of programs
	export RF_PLUGIN=$RF_UNITS/../rf-cuda-host.so RF_BENCH=$RF_UNITS/helper/bench RF_BIN
	export RF_CUBLAS=$RF_UNITS/emu/cublas
	export MODEL=$PWD/tiny.json FAMILIES=$PWD/fast.json SMALL=$PWD/none/tiny.json WINDOWED=$PWD/deep.json
	export T=128 SEGMENTS='64 128' ROWS=64 SIZES='64 96 128' DELTAS=64 HEADS='2 32' WIDE='1 16x32'
	export RF_EVERY=2000 SLOWER=5 BUDGET=900
	# replacements of programs that a machine may lack
	for program in nvidia-smi compute-sanitizer ncu python3; do
		printf '#!/bin/sh\necho "%s $*"; exit 3\n' $program >none/$program
	done
	chmod +x none/*
	PATH=$PWD/none:$PATH
}

# came_home DIR: unpacks the archive of a run into DIR, and checks that `out` has only few other files
came_home() {
	[ "$(find out -type f | wc -l)" -le 8 ]
	[ -z "$(find out -mindepth 1 -name '*[!A-Za-z0-9._-]*')" ]
	mkdir "$1"
	tar -xzf out/first.tgz -C "$1"
}
status_of() { awk -F '\t' -v name="$1" '$1 == name { s = $2 } END { print s }' out/parts.tsv; }
# stub FILE: makes a program of standard input
stub() {
	mkdir -p "$(dirname "$1")"
	{ echo '#!/bin/bash'; cat; } >"$1"
	chmod +x "$1"
}

@test "gpu-first.sh: the parts run on an emulated GPU, and one archive has the output of each part" {
	local parts=17 # the parts of these groups; the other groups take a minute of processor time
	if [ -n "${RF_ALL:-}" ]; then
		parts=45
	else
		export ONLY='ceilings passes families counters sanitizers peer'
	fi
	jq '.vocab_size = 100 | .intermediate_size = 64' tiny.json >none/model.json
	jq '.hidden_size = 32 | .num_attn_heads = 1 | .num_lact_heads = 1 | .vocab_size = 100
		| .intermediate_size = 32' fast.json >none/fast.json
	T=72 MODEL=$PWD/none/model.json FAMILIES=$PWD/none/fast.json SIZES='16 24 32' "$first" out >said 2>err
	[ ! -s err ] || { cat err; false; }
	came_home home
	# all parts succeed, except those that need the replaced programs
	awk -F '\t' -v least=$parts '
		$2 && !($2 == 3 && $1 ~ /^(nvidia-smi|counters|delta-.*-fla|(mem|race|init)check-)/)
		END { exit NR < least }' out/parts.tsv >bad
	[ ! -s bad ] || { cat bad; head -50 home/right-*; false; }
	for name in $(cut -f 1 out/parts.tsv); do [ -s "home/$name.txt" ]; done
	grep -q '^forward + backward .* % of the product' home/pass-128.txt
	grep -q '^gate, up back .* [01]\.[0-9]*$' home/cublas.txt
	grep -q '^# q, 64 rows, float32: cublasLtMatmul: ' home/cublas.txt
	[ -z "${RF_ALL:-}" ] || grep -q '^step .* forward passes' home/step-n8.txt
	grep -qE '^walk.* [0-9]+x[0-9]+x1\*[0-9]+ +[0-9]+ +[0-9.]+ ' home/pass-64-launches.profile
	grep -qE '^product, n 64, k 64, bf16.* [0-9.]+$' home/pass-64-launches.profile
	run ! grep -E "^product, n 64, k 64, bf16, b' +128x1x1" home/pass-64-launches.profile # by bench
	grep -q '^all ' home/fast-launches.profile
	grep -q '"num_hidden_layers": 1,' home/counters-attention.json
	# results agree, the shares of time add up to 100 %, and both are printed
	same='mean entropies differ by [0-9.e-]* (of 1e-3), '
	grep -q "^pass-64 and pass-128: $same" said
	grep -q "^pass-64 and pass-f32: $same" said
	[ -z "${RF_ALL:-}" ] || [ "$(grep -c '^programs-tiny: ' said)" -eq 5 ]
	grep -qE '^square product +783 TFLOP/s +[0-9.e-]+ ' said
	awk '/^pass-64-launches: / { on = 1; next } !NF { on = 0 } on && $2 == "%" { all += $1 }
		END { exit !(all > 99.9 && all < 100.1) }' out/compared.txt
	run ! grep 'NOT RIGHT' said
	cmp home/compared.txt out/compared.txt
	"$ROOT/pipelines/bench/gpu-compare.sh" home | cmp - out/compared.txt
	# each line is printed once, and the output fits a terminal's memory
	[ -z "$(grep -E ' and .*: mean|^programs-.*of' said | sort | uniq -d)" ]
	[ "$(wc -c <said)" -lt 12000 ]
}

@test "gpu-first.sh: prints within BUDGET seconds the comparison and the names of parts that did not begin" {
	stub bench <<-'END'
		sleep 2
		echo "square  64 x 64 x 64  1.0 us  5.0 TFLOP/s"
	END
	began=$EPOCHSECONDS
	BUDGET=20 RF_BENCH=bench RF_UNITS=units RF_CUBLAS=none/ncu SMALL='' timeout 20 "$first" out >said
	[ $((EPOCHSECONDS - began)) -lt 20 ]
	grep -q '^square product .* 783 TFLOP/s .* 5 ' said
	grep -q '^not begun, for too little time was left: .*pass-64.*step' said
	came_home home
	cmp home/compared.txt out/compared.txt
}

@test "gpu-first.sh: the archive of a killed or interrupted run has every part that had ended" {
	stub bench <<-'END'
		case $* in *products*) echo $$ >"$0.pid"; exec sleep 1000 ;; esac
		echo "$*"
	END
	for signal in KILL TERM; do
		rm -rf out home bench.pid
		RF_BENCH=bench RF_CUBLAS=none/ncu ONLY='open ceilings' "$first" out >said &
		script=$!
		until [ -s bench.pid ]; do sleep .1; done
		sleep .2
		kill -$signal $script
		wait $script || [ $? -ge 128 ]
		if [ $signal = KILL ]; then
			kill "$(cat bench.pid)"
		else
			run ! kill -0 "$(cat bench.pid)"
		fi
		came_home home
		[ "$(sed '/^products/d' out/parts.tsv | cut -f 1 | sort | xargs)" = 'loads nvidia-smi open' ]
		[ "$(cat home/open.txt)" = '- delta 64 2 32' ]
		cmp home/parts.tsv out/parts.tsv
	done
	grep -q '^failed with status 3: nvidia-smi$' said
	grep -q '^interrupted: products$' said
	# an existing run is not overwritten
	run -73 "$first" out
	[ "$output" = 'gpu-first.sh: out has a run already: name another folder' ]
	: >file
	run -73 "$first" file/out
}

@test "gpu-first.sh: stops with the reason if the plugin does not load or no kernel launches" {
	echo text >text.so
	began=$EPOCHSECONDS
	run -69 env RF_PLUGIN=text.so "$first" out3
	[[ "$output" == *'NOTHING RUNS: '*'    bench: the CUDA plugin cannot be loaded: '*text.so* ]]
	[[ "$output" == *'    nvidia-smi '* ]]
	mentions 69 'NOTHING RUNS: ...    bench: there is no NVIDIA driver ' env EMU_DRIVER=0 "$first" out2
	run -69 env EMU_FAULT=1 "$first" out
	[[ "$output" == *'NOTHING RUNS: '*'    bench: the GPU failed in '*illegal* ]]
	[ "$(cut -f 1 out/parts.tsv | sort | xargs)" = 'loads nvidia-smi open' ]
	[ $((EPOCHSECONDS - began)) -lt 20 ]
	came_home home
	grep -q 'the GPU failed in ' home/open.txt
}

@test "gpu-first.sh: names a part that hangs, fails or is wrong, and runs all other parts" {
	stub bench <<-'END'
		case $* in
		*products*) exec sleep 100 ;;
		*' pass '*) echo 'forward  1 GFLOP/s 51.0 % of it'
			echo "entropy  ${BENCH_DTYPE:+9}9.9 nats, ln N 10.4" ;;
		*) exit 1 ;;
		esac
	END
	stub units/unit/ops-rows <<<'[ -n "$RF_SYNC" ] || { echo "not ok 1 - norm"; exit 1; }'
	stub units/unit/ops-head <<<'echo "# bits of all outputs: $$"'
	stub units/unit/ops-delta <<<'kill -SEGV $$'
	stub units/unit/ops-attention <<<'echo "Bail out! (RF_NOT=x$RANDOM leaves this case out)"; exit 1'
	sed "s/patience \* expected + 15/1/; s|^here=.*|here=$ROOT/pipelines/bench|" "$first" >here.sh
	ONLY='ceilings right passes delta' RF_BENCH=bench RF_UNITS=units SLOWER=2 SMALL='' RF_CUBLAS=none \
		run -1 timeout 60 bash here.sh out
	echo "$output" >said
	grep -q '^out of time: products$' said
	grep -q '^failed with status 1: .*right-rows, right-rows-again$' said
	grep -q '^failed with status 139: right-delta, right-delta-again$' said
	grep -q '^right-rows: not ok 1 - norm$' said
	[ "$(grep '^right-attention-without-' out/parts.tsv | grep -vc -e '-sync	')" -eq 3 ]
	grep -q '^no such program: .*right-products, ' said
	grep -q '^failed with status 1: delta-64, ' said
	grep -q '^NOT RIGHT: right-\* or programs-\* failed' said
	grep -q '^NOT RIGHT: right-head: two runs gave different bits' said
	grep -q '^NOT RIGHT: pass-f32: the mean entropy is 99.9 nats, and ln N is 10.4$' said
	[ "$(awk -F '\t' '/^pass-/ && $2 == 0' out/parts.tsv | wc -l)" -eq 4 ]
}

@test "gpu-first.sh: names the kernel that fails in a unit program, and runs the other cases" {
	stub units/unit/ops-rows <<-END
		[ -n "\${RF_NOT:-}" ] || export EMU_FAULT=40
		exec "$RF_UNITS/unit/ops-rows" "\$@"
	END
	ONLY=right RF_UNITS=units SMALL='' run -1 "$first" out
	echo "$output" >said
	came_home home
	grep -q 'perhaps in an earlier kernel' home/right-rows.txt
	sync=$(grep '^right-rows-sync: Bail out! .* the GPU failed in ' said)
	[[ "$sync" != *'earlier kernel'* ]]
	without=$(sed -n 's/.*(RF_NOT=\(.*\) leaves this case out)$/\1/p' home/right-rows-sync.txt)
	grep -q '^ok 1 - ' "home/right-rows-without-$without.txt"
	run ! grep '^not ok' said
	[ "$(status_of "right-rows-without-$without")" -eq 0 ]
}

@test "gpu-first.sh: finds a missing tile of a large product by the mean entropies of passes" {
	jq '.vocab_size = 100 | .intermediate_size = 64' tiny.json >none/model.json
	MODEL=$PWD/none/model.json ONLY=passes EMU_HOLE=128 run -1 "$first" out
	echo "$output" >said
	grep -q '^NOT RIGHT: pass-64 and pass-128: mean entropies differ ' said
	grep -q '^pass-64 and pass-f32: mean entropies differ ' said
}

@test "gpu-first.sh: finds cuBLAS 13 in the folders of LIBRARIES if the loader does not know it" {
	mkdir -p libs/torch/lib
	: >libs/torch/lib/libcublas.so.13
	stub bench <<<'echo "$LD_LIBRARY_PATH"'
	stub none/ldconfig <<<'echo "	libcublas.so.12 => /x"'
	LIBRARIES=$PWD/libs ONLY=open RF_BENCH=bench LD_LIBRARY_PATH='' "$first" out >said
	came_home home
	[ "$(cat home/open.txt)" = "$PWD/libs/torch/lib" ]
	stub none/ldconfig <<<'echo "	libcublas.so.13 => /x"'
	rm -rf home out
	LIBRARIES=$PWD/libs ONLY=open RF_BENCH=bench LD_LIBRARY_PATH='' "$first" out >said
	came_home home
	[ -z "$(cat home/open.txt)" ]
}

@test "gpu-first.sh: the peer compiles only while nothing is measured, and the archive keeps its figures" {
	stub none/python3 <<-'END'
		if [ "$2" = --warm-up ]; then
			while sleep .1; do echo "$EPOCHREALTIME" >>"$0.warm"; done
		fi
		echo "delta rule   0.650 ms"
		exec sleep 100
	END
	stub bench <<<'echo "$EPOCHREALTIME"; sleep 1; echo "$EPOCHREALTIME"'
	sed "s/patience \* expected + 15/3/; s|^here=.*|here=$ROOT/pipelines/bench|" "$first" >here.sh
	stub units/unit/ops-rows <<<'sleep 1'
	stub none/compute-sanitizer <<-'END'
		case $* in *memcheck*rows*) echo "$EPOCHREALTIME" >"$0.at"; sleep 1 ;; esac
	END
	ONLY='right delta sanitizers peer' RF_BENCH=bench RF_UNITS=units SMALL='' SLOWER=1 \
		run -0 bash here.sh out
	came_home home
	grep -q '^delta rule ' home/delta-64-fla.txt
	[ -s none/python3.warm ]
	# the peer is not active during a measurement
	awk 'FNR == NR { if (NR % 2) from[++n] = $1; else to[n] = $1; next }
		{ for (i = 1; i <= n; i++) if ($1 > from[i] + .2 && $1 < to[i]) exit 1 }' \
		home/delta-64.txt none/python3.warm
	# the peer is active while sanitizers run
	awk 'FNR == NR { at = $1; next } $1 > at && $1 < at + 1 { n++ } END { exit n < 3 }' \
		none/compute-sanitizer.at none/python3.warm
	run ! pgrep -f "$PWD/none/python3"
}

@test "delta-peer.py: exits 69 and names the package if the package is not installed" {
	python=$(PATH=${PATH#*:} command -v python3)
	! "$python" -c 'import fla' 2>/dev/null || skip 'it is installed'
	run -69 "$python" "$ROOT/pipelines/bench/delta-peer.py" 64 2 32
	[ "$output" = 'delta-peer.py: no module named fla' ]
}

@test "gpu-first.sh: --plan expects less than 540 s for all parts, as pipelines/gpu-first.md tells" {
	unset MODEL FAMILIES SMALL WINDOWED T SEGMENTS ROWS SIZES DELTAS HEADS WIDE
	"$first" --plan >plan
	awk '/^all, / { all = $(NF - 1) } END { exit !(NR > 55 && all > 300 && all < 540) }' plan
	# gpu-first.md has the same times
	grep -q "$(awk '/^all, / { print $(NF - 1) }' plan) s: the seconds" \
		"$ROOT/pipelines/bench/gpu-first.md"
	for group in open right ceilings delta passes steps families lengths counters sanitizers peer; do
		seconds=$(ONLY=$group "$first" --plan | awk '/^all, / { print $(NF - 1) }')
		grep -q "^| $group | $seconds | " "$ROOT/pipelines/bench/gpu-first.md" ||
			{ echo $group; false; }
	done
	ONLY='open peer' "$first" --plan | tail -n 1 | grep -qx 'all, some side by side  *58 s'
	[ "$(ls)" = "$(printf '%s\n' deep.json fast.json none plan tiny.json)" ]
	for wrong in BUDGET=abc BUDGET=10 SLOWER=0 T=1k; do run -64 env "$wrong" "$first" out; done
	says 64 "gpu-first.sh: ONLY: there is no 'pear'" env ONLY='open pear' "$first" out
	run -64 "$first"
}

@test "gpu-programs.sh: marks results that are not numbers as NOT RIGHT" {
	for program in init tokenize entropy select rollout reward; do stub bin/rf-$program <<<'exit 0'; done
	stub bin/rf-dump <<<'case $* in *cpu*) echo 1 ;; *) echo nan ;; esac'
	stub bin/rf-grpo <<-'END'
		while [ $# -gt 2 ] && [ "$1" != --grad-out ]; do shift; done
		printf '\0\0\0\0\0\0\0\0\377\377\377\177' >"$2" # no header, a NaN
	END
	stub bin/rf-step <<<'exit 0'
	run -1 "$ROOT/pipelines/bench/gpu-programs.sh" bin tiny.json
	grep -q 'rf-step, other bytes .* NOT RIGHT$' <<<"$output"
	[ "$(grep -c ' nan of .* NOT RIGHT$' <<<"$output")" -eq 4 ]
}

@test "bench: a model of 1.3 billion random weights starts to compute within 2 s of one core" {
	[[ "$RF_UNITS" != */sanitize/* ]] || skip 'slow under sanitizers'
	TIMEFORMAT=%U
	{ time EMU_LAUNCHES=launches BENCH_FRESH=1 RF_DEVICE=cuda "$RF_BENCH" \
		"$ROOT/pipelines/configs/delta_net-1.3b.json" pass 16384 0 >said; } 2>seconds
	awk '{ exit !($1 > 0 && $1 < 2) }' seconds || { cat seconds; false; }
}

@test "gpu-compare.sh: prints for each figure that it is as predicted, or a conclusion if it is not" {
	mkdir out
	printf '%s\t0\t1.0\n' delta-16384 pass-2048 pass-8192 >out/parts.tsv
	printf 'delta rule              1.300 ms\ndelta rule and back     9.000 ms\n' >out/delta-16384.txt
	printf 'best in float32    -nan of strided\nbest in bf16       0.700 of strided\n' >out/cublas.txt
	echo 'forward               1.0 GFLOP/s   50.0 % of the product' >out/pass-8192.txt
	echo 'entropy                 9.96000 nats, ln N 10.37349' >out/pass-2048.txt
	{
		echo head
		printf '%-64s %22s %8s %10s %9s\n' 'walk<X>' 1x1x1 1 1.0 500 'walk<X>' 64x1x1 9 8.0 20 \
			all '' 10 9.0 ''
	} >out/pass-2048-launches.profile
	run -0 "$ROOT/pipelines/bench/gpu-compare.sh" out
	[[ "$output" =~ 'delta rule, 16384 x 16 '+'1.27 ms'\ +'1.3'\ +'1.02  as predicted' ]]
	[[ "$output" =~ 'delta rule and back '+'3.64 ms'\ +'9'\ +'2.47  more or less: see ready' ]]
	[[ "$output" =~ 'walk '+'72.8 us'\ +'20'\ +'0.27  a chunk takes' ]]
	[[ "$output" =~ 'forward, segments of 8192 '+'47.2 %'\ +'50'\ +'1.06  as predicted' ]]
	[[ "$output" =~ 'entropy, 16384 tokens '+'9.96407 nats'\ +'9.96'\ +'1.00  NOT RIGHT: a CPU ' ]]
	[[ "$output" =~ 'other ways, float32 '+'0.957 of'\ +'-nan'.*'NOT RIGHT: no number' ]]
	grep -q '^products into bf16 .* less: results in bf16 come first$' <<<"$output"
	[[ "$output" == *'100.00 %  delta rule'* ]]
	run -64 "$ROOT/pipelines/bench/gpu-compare.sh" nowhere
}

@test "gpu-bundle.sh: the bundle runs in another folder with its own libraries, and MOST limits its size" {
	[ -e "$ROOT/build/rf-cuda.so" ] || skip 'the plugin is elsewhere'
	[ -e "$ROOT/build/rf-cuda-host.so" ] || skip 'the emulated GPU is elsewhere'
	mkdir -p wheel/fla
	mkdir wheel/einops
	: >wheel/fla/__init__.py
	stub none/gzip <<<cat # the size does not matter here
	FLA=wheel MOST=900 "$ROOT/pipelines/bench/gpu-bundle.sh" b.tar.gz
	tar xzf b.tar.gz
	[ -e gpu-bundle/lib/python/fla/__init__.py ]
	[ -e gpu-bundle/lib/python/einops ]
	unset RF_BENCH RF_UNITS RF_CUBLAS RF_BIN SMALL
	RF_PLUGIN='' ONLY=right gpu-bundle/pipelines/bench/gpu-first.sh --plan >plan
	[ "$(grep -c '^programs-demo-' plan)" -eq 4 ]
	# the bundle's programs have no sanitizers
	export RF_EVERY=1000000 RF_PLUGIN=$ROOT/build/rf-cuda-host.so
	for unit in delta written products head; do # the other units show that such programs run
		[ -n "${RF_ALL:-}" ] || stub gpu-bundle/build/t/unit/ops-$unit <<<:
	done
	[ -n "${RF_ALL:-}" ] || sed -i 's/head -c 1500 /head -c 200 /; s/--m\(..\)-len 500/--m\1-len 100/g' \
		gpu-bundle/pipelines/bench/gpu-programs.sh
	ONLY='right ceilings' SIZES='32 48 64' SMALL=$PWD/none/tiny.json \
		gpu-bundle/pipelines/bench/gpu-first.sh out
	came_home home
	grep -q '^square ' home/products.txt
	for part in rows attention; do [ "$(status_of right-$part)" -eq 0 ]; done
	[ "$(status_of programs-tiny)" -eq 0 ]
	# programs find the bundle's libraries without LD_LIBRARY_PATH
	unset LD_LIBRARY_PATH
	ldd gpu-bundle/bin/rf-entropy gpu-bundle/build/rf-cuda.so |
		awk '$3 ~ /^\// && $3 !~ /bundled/ && $1 !~ /^lib(c|m|dl|rt|pthread|cublas|cublasLt)\.so/ {
			print; bad = 1 } END { exit bad }'
	for program in patchelf strip; do stub none/$program <<<:; done # the size alone matters
	stub none/gzip <<<'head -c 2000000; exec cat >/dev/null'
	run -1 env MOST=1 "$ROOT/pipelines/bench/gpu-bundle.sh" c.tar.gz
	[[ "$output" == *'more than 1: build for one architecture '* ]]
	[ ! -e c.tar.gz ]
	[ ! -e c.tar.gz.part ]
}
