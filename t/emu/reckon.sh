#!/bin/bash
# reckon.sh BUILD CONFIG... -- estimates the time of models' passes and of a step on an H100, kernel by
# kernel, for make cuda-reckon.  Nothing is measured: t/emu/reckon.cpp describes the estimate.  BUILD has the
# plugin, the records of ptxas, the emulated plugin with a clock, and t/helper/bench.
#
# T: tokens (16384).  SEGMENT: rows (8192).  LINES: lines of each table, the longest first (20).  STEP=no:
# only passes.
#
# cuobjdump, if installed, tells how many instructions a kernel has for each instruction that moves data or
# waits; otherwise the number is 10 for all kernels, and a message says so.
set -euo pipefail
build=$1
shift
plugin=$(realpath "$build/rf-cuda-reckon.so")
bench=$build/t/helper/bench
kernels=$build/kernels.txt
T=${T:-16384}
export RF_DEVICE=cuda RF_PLUGIN=$plugin EMU_KERNELS=$kernels BENCH_FRESH=zeros BENCH_DTYPE=bf16
export BENCH_SEGMENT=${SEGMENT:-8192} BENCH_SUM=plain

# known: lists each kernel of the emulated plugin: address, registers, instructions for each that moves data
# or waits, name
known() {
	{
		nm "$plugin" | awk '{ print "symbol", $1, $NF }'
		sed 's/^/ptxas /' "$build"/cuda/*.ptxas
		! command -v cuobjdump >/dev/null ||
			cuobjdump -arch sm_90 -sass "$build/rf-cuda.so" 2>/dev/null
	} | awk '
	# a loop counts twice for each level of nesting
	function ratio(  i, all, some) {
		for (i = 0; i < n; i++)
			if (!matrix[i]) {
				all += 2 ^ depth[i]
				some += 2 ^ depth[i] * moves[i]
			}
		if (n && some)
			each[kernel] = all / some
		n = 0
		delete depth
		delete at
	}
	$1 == "symbol" { sub(/^0+/, "", $2); sub(/^_ZL/, "_Z", $3); address[$3] = $2; next }
	/Compiling entry function/ {
		split($0, part, "\047")
		entry = part[2]
		right = part[4] == "sm_90"
		next
	}
	/Used [0-9]+ registers/ { if (right) registers[entry] = $6; next }
	/Function :/ { ratio(); kernel = $NF; next }
	/^ +\/\*[0-9a-f]+\*\// {
		here = substr($1, 3, length($1) - 4)
		at[here] = n
		depth[n] = 0
		matrix[n] = /[ \t](HMMA|LDSM)[.; ]/
		moves[n] = /[ \t](LDG|STG|LDS|STS|LDGSTS|RED|ATOM|ATOMS|ATOMG|SHFL|BAR|VOTE|WARPSYNC)[.; ]/
		if (/[ \t]BRA/ && match($0, /0x[0-9a-f]+/)) {
			to = substr($0, RSTART + 2, RLENGTH - 2)
			while (length(to) < length(here))
				to = "0" to
			if (to in at)
				for (i = at[to]; i <= n; i++)
					depth[i]++
		}
		n++
	}
	END {
		ratio()
		for (k in registers)
			if (k in address)
				print address[k], registers[k], each[k] + 0, k
	}' | c++filt | sed 's/^\([^ ]* [^ ]* [^ ]* \)void /\1/; s/([^()]*)$//'
}

# of TITLE COMMAND...: prints the output of the command, and its table
of() {
	echo "$1"
	EMU_RECKON=$build/reckoned.txt LD_PRELOAD=$plugin "$bench" "${@:2}" >"$build/reckoned.out"
	grep -v -e '^peak' -e '^first' "$build/reckoned.out"
	sed -n "\$!{1,$((${LINES:-20} + 1))p}" "$build/reckoned.txt"
	tail -n 1 "$build/reckoned.txt"
	echo
}
# figures NAME: prints the GFLOP/s and seconds of a pass
figures() { sed -n "s,^$1  *\([0-9.]*\) GFLOP/s  *\([0-9.]*\) s.*,\1 \2,p" "$build/reckoned.out"; }

if ! command -v cuobjdump >/dev/null; then
	echo 'reckon.sh: no cuobjdump: 10 instructions are counted for each that moves something or waits' >&2
	rm -f "$kernels"
fi
if [ ! "$kernels" -nt "$plugin" ]; then
	known >"$kernels.new"
	[ -s "$kernels.new" ] || { echo "reckon.sh: $build/cuda/*.ptxas: no code for sm_90" >&2; exit 69; }
	mv "$kernels.new" "$kernels"
fi
rows=()
for config in "$@"; do
	name=$(basename "$config" .json)
	read -r d f vocab < <(jq -r '"\(.hidden_size) \(.intermediate_size) \(.vocab_size)"' "$config")
	product=$(LD_PRELOAD=$plugin "$bench" - products "$d" "$f" "$vocab" "$T" |
		sed -n 's,^q .* \([0-9.]*\) TFLOP/s$,\1,p')
	of "$name: forward" "$config" forward "$T"
	read -r forward seconds < <(figures forward)
	of "$name: forward + backward" "$config" both "$T"
	read -r both more < <(figures 'forward + backward')
	: >"$build/reckoned.out"
	[ "${STEP:-yes}" = no ] || of "$name: a step" "$config" step "$T" 1
	rows+=("$(awk -v name="$name" -v p="$product" -v a="$forward" -v b="$both" \
		-v s="$seconds" -v t="$more" '
		$1 == "rollout" { rollouts = sprintf("%.0f ms", 1e3 * $2) }
		/^step  / { step = $4 }
		/^step in one program / { once = $7 }
		END {
			printf "| %s | %.0f | %.0f ms | %.0f %% | %.0f ms | %.0f %% | %s | %s | %s |\n",
				name, p, 1e3 * s, a / p / 10, 1e3 * t, b / p / 10, rollouts, step, once
		}' "$build/reckoned.out")")
done
echo "| T $T, segments of $BENCH_SEGMENT | product, TFLOP/s | forward | of it |" \
	"forward + backward | of it | rollouts | step, in forward passes | in one program |"
echo '|---|---|---|---|---|---|---|---|---|'
printf '%s\n' "${rows[@]}"
