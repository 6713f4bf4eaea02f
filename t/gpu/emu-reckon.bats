#!/usr/bin/env bats
# Tests of make cuda-reckon: the emulated GPU estimates the times of launches on a real one
# (t/emu/reckon.cpp).

setup() {
	load ../helper
	[ -e "$RF_UNITS/../rf-cuda-reckon.so" ] || skip "CUDA was left out, or sanitizers are in"
	export RF_PLUGIN=$RF_UNITS/../rf-cuda-reckon.so RF_DEVICE=cuda BENCH_FRESH=zeros BENCH_DTYPE=bf16
	demo=$ROOT/pipelines/demo/demo-delta_net.json
}

# estimated TABLE ARGUMENTS...: runs bench with estimated times, and writes the table of launches
estimated() { EMU_RECKON=$1 LD_PRELOAD=$RF_PLUGIN "$RF_UNITS/helper/bench" "${@:2}"; }

@test "cuda-reckon: estimated times of products are within 25 % of those measured on an H100" {
	estimated table - products 2048 5632 32000 2048 >products
	checked=0
	while IFS=$'\t' read -r what part line unit measured _; do
		# the measured square product has another size, and the measured copy fits into L2
		[ "$part" = products ] && [ "$line" != square ] && [ "$line" != copy ] || continue
		grep -F "$line" products | head -n 1 | awk -v us="$measured" -v what="$what" '
			{ for (i = 1; i <= NF; i++) if ($i == "us") got = $(i - 1) }
			END { if (!got || got < us * .75 || got > us * 1.25) { print what, got; exit 1 } }'
		checked=$((checked + 1))
	done <"$ROOT/pipelines/bench/gpu-predicted.tsv"
	[ $checked -eq 5 ]
	# a copy takes as long as memory allows; a product's bytes are its operands in bf16 and its results
	awk '$1 == "copy" { if ($2 < 2.7 || $2 > 2.9) exit 1; n++ } END { exit n != 1 }' products
	mb=$(awk 'BEGIN { printf "%.2f", (2 * (2048 * 2048 + 6144 * 2048) + 4 * 2048 * 6144) / 1e6 }')
	grep -qE "^product 2048 x 6144 x 2048 +0 +50 +$mb " table || { cat table; return 1; }
}

@test "cuda-reckon: the table of a pass has the sums of all launches, and is the same in every run" {
	estimated table "$demo" both 200 >said
	estimated again "$demo" both 200
	cmp table again
	# the columns before the limiting resource: calls, MB, instructions, us each, ms
	awk 'NR == 1 { next }
		$1 == "all" { good = calls == $2 && (ms - $3) ^ 2 < (.0006 * NR) ^ 2; next }
		{ n = NF - (/the longest warp$/ ? 3 : 1); calls += $(n - 4); ms += $n }
		END { exit !(good && ms > 0) }' table || { cat table; return 1; }
	# the time that the program shows is that of the launches and of the gaps between them
	awk 'FNR == NR { if ($1 == "all") { n = $2; ms = $3 } next }
		/^forward \+ backward/ { got = 1e3 * $(NF - 1) }
		END { exit !(got > ms && got < 1.5 * (ms + n * 4.6e-3)) }' table said ||
		{ cat said; tail -n 1 table; return 1; }
}

@test "cuda-reckon: longer segments take fewer launches and less time, and twice the text takes about twice" {
	# the speed, since the time has few digits
	speed() { sed -n 's,^forward .* \([0-9.]*\) GFLOP/s.*,\1,p' "$1"; }
	BENCH_SEGMENT=64 estimated short "$demo" forward 512 >a
	BENCH_SEGMENT=512 estimated long "$demo" forward 512 >b
	BENCH_SEGMENT=512 estimated two "$demo" forward 1024 >c
	awk -v a="$(speed a)" -v b="$(speed b)" -v c="$(speed c)" \
		'BEGIN { exit !(a > 0 && b > 2 * a && c > .9 * b && c < 1.1 * b) }' ||
		{ cat a b c; return 1; }
	[ "$(awk '$1 == "all" { print $2 }' short)" -gt "$(awk '$1 == "all" { print 4 * $2 }' long)" ]
}

@test "cuda-reckon: prints a table for each pass and a line for each model, from data of the machine code" {
	mkdir -p b/t/helper b/cuda
	ln -s "$(realpath "$RF_PLUGIN")" b/rf-cuda-reckon.so
	ln -s "$RF_UNITS/helper/bench" b/t/helper/bench
	# output of ptxas and cuobjdump for one kernel: ten instructions, five of them in a loop; one of the
	# ten reads memory
	symbol=$(nm b/rf-cuda-reckon.so | sed -n 's/.* \(_ZL*[0-9]*norm_fwdILb1ELb1E.*\)/\1/p' | head -n 1)
	plain=${symbol/#_ZL/_Z}
	printf "ptxas info : Compiling entry function '%s' for 'sm_90'\n" "$plain" >b/cuda/norm.ptxas
	echo 'ptxas info : Used 40 registers, used 1 barriers' >>b/cuda/norm.ptxas
	mkdir bin
	cat >bin/cuobjdump <<-END
		#!/bin/sh
		echo "		Function : $plain"
		for at in 0000 0010 0020 0030 0040 0050 0060 0070; do
			echo "        /*\$at*/                   FADD R1, R2, R3 ;"
		done
		echo "        /*0080*/                   LDG.E R1, [R2] ;"
		echo "        /*0090*/              @P0  BRA 0x50 ;"
	END
	chmod +x bin/cuobjdump
	T=128 SEGMENT=64 LINES=3 PATH=$PWD/bin:$PATH bash "$ROOT/t/emu/reckon.sh" b "$demo" >out
	# five instructions count once, five twice, and of these one reads memory: 15 / 2
	grep -qE '^[0-9a-f]+ 40 7\.5 norm_fwd<true, true>$' b/kernels.txt || { cat b/kernels.txt; return 1; }
	[ "$(grep -c '^kernel  ' out)" -eq 3 ]
	[ "$(grep -c '^all  ' out)" -eq 3 ]
	share='[0-9]+ ms \| [0-9]+ %' steps='[0-9.]+ \| [0-9.]+'
	grep -qE "^\| demo-delta_net \| [0-9]+ \| $share \| $share \| [0-9]+ ms \| $steps \|\$" out ||
		{ tail -n 1 out; return 1; }
	# with STEP=no there is no table of a step, and known kernels are kept
	printf '#!/bin/sh\nexit 1\n' >bin/cuobjdump
	T=128 SEGMENT=64 STEP=no PATH=$PWD/bin:$PATH bash "$ROOT/t/emu/reckon.sh" b "$demo" >out
	[ "$(grep -c '^kernel  ' out)" -eq 2 ]
	grep -q ' 40 7.5 ' b/kernels.txt
}
