#!/usr/bin/env bats
# The order of lib's rooms, as make lint enforces it.
setup() { load helper; }

rooms() { awk -f "$ROOT/lib/rooms.awk" "$@"; }

@test "rooms: an include of a room that does not lie below is refused, with its place" {
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

@test "rooms: a folder and a header that are in no room are refused" {
	mkdir -p lib/attic lib/io
	echo 'int x;' >lib/attic/old.c
	echo '#include "attic/old.h"' >lib/io/new.c
	echo '#include "plain.h"' >lib/io/plain.c
	run rooms lib/*/*
	[ "$status" -eq 1 ]
	[ "${#lines[@]}" -eq 3 ]
}

@test "rooms: README names each" {
	for room in "$ROOT"/lib/*/; do
		grep -q "\`$(basename "$room")\`" "$ROOT/README.md" || { echo "$room"; return 1; }
	done
}
