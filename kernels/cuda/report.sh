#!/bin/bash
# report.sh RECORDS PLUGIN LAUNCHES LAUNCHES-99 -- a table of the CUDA kernels, for make cuda-report.
#
# RECORDS is a folder with the output of ptxas -v for each file.  LAUNCHES lists how each kernel is launched
# where a block may have 227 KiB of shared memory, and LAUNCHES-99 the same for cards with 99 KiB: an address
# in PLUGIN (the kernels on the host), threads, bytes of dynamic shared memory, blocks.  If a kernel is
# launched in several ways, the one with the fewest threads on a multiprocessor is shown.  "warps" is the
# number of warps that each of 132 multiprocessors has from the first launch, that of a segment; fewer than
# fit may run there.  The script fails if a kernel spills: if it moves more than SPILLS bytes (0 unless set)
# between registers and memory.
set -euo pipefail

{
	nm "$2" | awk '{ print "symbol", $1, $NF }'
	sed 's/^/launch /' "$3"
	sed 's/^/launch99 /' "$4"
	find "$1" -name '*.ptxas' | sort | xargs sed 's/^/ptxas /'
} | awk '
function least(a, b) { return a < b ? a : b }
function up(n, by) { return int((n + by - 1) / by) * by }
function number(before) { return match($0, "[0-9]+ " before) ? substr($0, RSTART, RLENGTH) + 0 : 0 }
# the threads that fit on a multiprocessor, and how many blocks of that many threads fit: CUDA C Programming
# Guide, table "Technical Specifications"
function small(arch) { return arch == 86 || arch == 89 || arch == 120 }
function most(arch) { return small(arch) ? 1536 : 2048 }
function blocks(arch, threads, registers, shared,   warps, fit, kilobytes) {
	warps = up(threads, 32) / 32
	fit = least(int(int(65536 / up(registers * 32, 256) / 4) * 4 / warps), int(most(arch) / 32 / warps))
	fit = least(fit, arch == 86 ? 16 : small(arch) ? 24 : 32)
	kilobytes = arch == 80 ? 164 : small(arch) ? 100 : 228
	return least(fit, int(kilobytes * 1024 / up(shared + 1024, 128)))
}
$1 == "symbol" { sub(/^0+/, "", $2); name[$2] = $3; next }
$1 ~ /^launch/ {
	key = name[$2]
	sub(/^_ZL/, "_Z", key) # nvcc makes no difference
	ways[$1, key] = ways[$1, key] $3 " " $4 " " $5 "\n"
	next
}
/Compiling entry function/ { split($0, part, "\047"); kernel = part[2]; arch = substr(part[4], 4) }
/Function properties/ { other = $NF != kernel }
/spill stores/ && !other {
	stack = number("bytes stack")
	spills = number("bytes spill stores") + number("bytes spill loads")
}
/Used [0-9]+ registers/ {
	registers = $6
	static = number("bytes smem")
	n = split(ways[small(arch) ? "launch99" : "launch", kernel], way, "\n")
	best = -1
	for (i = 1; i < n; i++) {
		split(way[i], w, " ")
		fit = blocks(arch, w[1], registers, static + w[2])
		if (best < 0 || fit * w[1] < best * threads) {
			best = fit
			threads = w[1]
			dynamic = w[2]
		}
		if (i == 1)
			warps = least(fit, w[3] / 132) * up(w[1], 32) / 32
	}
	row = sprintf("sm_%s %4d %6d %6d %6d", arch, registers, spills, stack, static)
	full = 100 * best * threads / most(arch)
	print kernel, row, best < 0 ? "      -      -      -    -     -" \
		: sprintf("%7d %6d %6d %3d%% %5.1f", dynamic, threads, best, full, warps)
}' | {
	printf '%-6s %4s %6s %6s %6s %7s %6s %6s %4s %5s  %s\n' \
		arch regs spills stack static dynamic block blocks full warps kernel
	c++filt | awk -v limit="${SPILLS:-0}" '{
		match($0, / sm_[0-9]+ /)
		row = substr($0, RSTART + 1)
		kernel = substr($0, 1, RSTART - 1)
		sub(/^void /, "", kernel)
		sub(/\([^()]*(\([^()]*\)[^()]*)*\)$/, "", kernel)
		print row "  " kernel
		split(row, number)
		if (number[8] == "0") {
			print "report.sh: no block of " kernel " fits on " number[1] >"/dev/stderr"
			bad = 1
		}
		if (number[3] > limit) {
			print "report.sh: " kernel " spills " number[3] " bytes on " number[1] \
				", more than " limit >"/dev/stderr"
			bad = 1
		}
	} END { exit bad }' | sort -k11 -k1,1
}
