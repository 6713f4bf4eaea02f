#!/usr/bin/env bats
# The order of lib's rooms and the length of functions, as make lint enforces them.
setup() { load helper; }

rooms() { awk -f "$ROOT/lib/rooms.awk" "$@"; }

@test "rooms: make lint refuses an include from a room that is not below, and names the line" {
	mkdir -p lib/base lib/stream lib/model kernels
	echo '#include "base/err.h"' | tee lib/stream/good.c kernels/good.cu >lib/base/good.c
	printf '/* */\n#include "stream/record.h"\n' |
		tee lib/base/upward.h kernels/upward.c >lib/model/beside.c
	rooms lib/*/good.c kernels/good.cu
	run rooms lib/*/* kernels/*
	[ "$status" -eq 1 ]
	[ "${#lines[@]}" -eq 3 ]
	for file in lib/base/upward.h kernels/upward.c lib/model/beside.c; do
		[[ "$output" == *"lint: $file:2: "*'"stream/record.h"'* ]]
	done
}

@test "rooms: make lint refuses folders and included headers that are in no room" {
	mkdir -p lib/attic lib/io
	echo 'int x;' >lib/attic/old.c
	echo '#include "attic/old.h"' >lib/io/new.c
	echo '#include "plain.h"' >lib/io/plain.c
	run rooms lib/*/*
	[ "$status" -eq 1 ]
	[ "${#lines[@]}" -eq 3 ]
}

@test "rooms: make lint refuses an include that leads into t/" {
	mkdir -p kernels/gpu
	echo '#include "../t/emu/emu.h"' >kernels/quotes.h
	echo '#include <../t/emu/emu.h>' >kernels/angles.cu
	echo '#include "../../t/emu/emu.h"' >kernels/gpu/deeper.h
	echo '#include "t/emu/emu.h"' >kernels/plain.h
	echo '#include <gpu/ptx.h>' >kernels/good.cu
	run rooms kernels/*.* kernels/gpu/*
	[ "$status" -eq 1 ]
	[ "${#lines[@]}" -eq 4 ]
	[[ "$output" != *good.cu* ]]
}

@test "rooms: the README names each room of lib" {
	for room in "$ROOT"/lib/*/; do
		grep -q "\`$(basename "$room")\`" "$ROOT/README.md" || { echo "$room"; return 1; }
	done
}

@test "source: make lint refuses a function of more than 120 lines, and names the line" {
	# of LINES: a function of so many, after a table and a macro, which are none
	of() {
		printf 'static const int table[] = {\n%s\n};\n\n' "$(yes 1, | head -n 130)"
		printf '#define X \\\n\tx\n\nint f(int a,\n      int b)\n{\n'
		yes $'\ta += b;' | head -n $(($1 - 2))
		printf '}\n'
	}
	of 120 | tee fits.c fits.cu >fits.h
	of 121 | tee long.c >long.cu
	awk -f "$ROOT/lib/lengths.awk" fits.*
	run awk -f "$ROOT/lib/lengths.awk" fits.c long.c fits.h long.cu
	[ "$status" -eq 1 ]
	[ "${#lines[@]}" -eq 2 ]
	[ "${lines[0]}" = "lint: long.c:139: a function of 121 lines, more than 120" ]
	[[ "${lines[1]}" == "lint: long.cu:139: "* ]]
}
