#!/usr/bin/env bats
# Tests of the rules of make lint for the source: the order of rooms, the length of functions and lines,
# words, and checks of tests.
setup() { load ../helper; }

rooms() { awk -f "$ROOT/t/lint/rooms.awk" "$@"; }

@test "rooms: make lint refuses an include of a room that is not below, and names the line" {
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

@test "rooms: make lint refuses a folder that is not a room, and headers of such a folder or of no folder" {
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

@test "rooms: make lint refuses modules that include each other, and names the modules" {
	mkdir -p lib/io lib/base
	echo '#include "io/c.h"' | tee lib/io/b.c >lib/io/user.c
	echo '#include "io/a.h"' >lib/io/c.h
	printf '%s\n' '#include "io/a.h"' '#include "base/low.h"' '#include "io/b.h"' >lib/io/a.c
	echo '#include "base/low.h"' | tee lib/io/c.c >lib/base/low.c
	echo '#include "base/one.h"' >lib/base/two.h
	echo '#include "base/two.h"' >lib/base/one.c
	run rooms lib/*/*
	[ "$status" -eq 1 ]
	[ "${#lines[@]}" -eq 2 ]
	[[ "$output" == *'lib/base/two.h:1: includes "base/one.h", and base/one, base/two, base/one is '* ]]
	[[ "$output" == *'lib/io/c.h:1: includes "io/a.h", and io/a, io/b, io/c, io/a is a circle'* ]]
	rm lib/io/b.c lib/base/two.h
	rooms lib/*/*
}

@test "rooms: the README names each room of lib" {
	for room in "$ROOT"/lib/*/; do
		grep -q "\`$(basename "$room")\`" "$ROOT/README.md" || { echo "$room"; return 1; }
	done
}

@test "source: make lint refuses a function of more than 120 lines, and names the line" {
	# of LINES: prints a function of this many lines, after a table and a macro, which are not functions
	of() {
		printf 'static const int table[] = {\n%s\n};\n\n' "$(yes 1, | head -n 130)"
		printf '#define X \\\n\tx\n\nint f(int a,\n      int b)\n{\n'
		yes $'\ta += b;' | head -n $(($1 - 2))
		printf '}\n'
	}
	of 120 | tee fits.c fits.cu >fits.h
	of 121 | tee long.c >long.cu
	awk -f "$ROOT/t/lint/lengths.awk" fits.*
	run awk -f "$ROOT/t/lint/lengths.awk" fits.c long.c fits.h long.cu
	[ "$status" -eq 1 ]
	[ "${#lines[@]}" -eq 2 ]
	[ "${lines[0]}" = "lint: long.c:139: a function of 121 lines, more than 120" ]
	[[ "${lines[1]}" == "lint: long.cu:139: "* ]]
}

@test "source: make lint refuses a line of more than 110 columns, with tab stops of 8, and names the line" {
	width() { LC_ALL=C awk -f "$ROOT/t/lint/width.awk" "$@"; }
	line=$(printf '%0110d' 0)
	printf '%s\n' "$line" $'\t'"${line:8}" $'\t1234567\t'"${line:16}" $'1234567\t'"${line:8}" >good
	printf '%s\n' "${line//0/ü}" >>good
	width good
	printf '%s\n' 'a line' "${line}0" >one.c
	printf '%s\n' $'\t\t'"${line:15}" $'1\t'"${line:7}" "${line//0/ü}ü" >two.sh
	run width good one.c two.sh
	[ "$status" -eq 1 ]
	[ "$(grep -o '^lint: [^ ]*' <<<"$output" | paste -sd' ')" = \
		'lint: one.c:2: lint: two.sh:1: lint: two.sh:2: lint: two.sh:3:' ]
}

@test "source: make lint refuses a word that was replaced, and names the replacement" {
	printf '%s\n' 'every site of it' 'a website, a_site, besides' "The SITES" >one.c
	run awk -f "$ROOT/t/lint/words.awk" one.c
	[ "$status" -eq 1 ]
	[ "${#lines[@]}" -eq 2 ]
	[ "${lines[0]}" = "lint: one.c:1: 'site' gave way to 'position'" ]
	[[ "${lines[1]}" == "lint: one.c:3: 'sites' "* ]]
}

@test "source: make lint refuses a check whose failure is ignored, and names the line" {
	{
		printf '\t%s\n' '[ a ] || [ b ] && c' '[[ a && b ]]' '[ -s pid ] && break' \
			'if [ a ] && [ b ]; then' 'cmp a <(cd b && ls)' '[ "$(cd "$b" && ls)" = "a && b" ]'
		printf '\t%s\n' '[ a ] &&' '[ b ] ||' 'return' 'first && second | \' 'cmp - third'
	} >good.bats
	awk -f "$ROOT/t/lint/tests.awk" good.bats
	printf '\t%s\n' 'x=1' '[ a ] && [ b ]' '[[ "$output" == *a ]] && [ ! -e b ]' 'cmp 1 2 && cmp 1 3' \
		'[ a ] &&' '[ b ]' 'same_step a b \' '&& same_step a c' >bad.bats
	run awk -f "$ROOT/t/lint/tests.awk" bad.bats
	[ "$status" -eq 1 ]
	[ "$(grep -o '^lint: [^ ]*' <<<"$output" | paste -sd' ')" = \
		'lint: bad.bats:2: lint: bad.bats:3: lint: bad.bats:4: lint: bad.bats:5: lint: bad.bats:7:' ]
}

@test "source: make lint refuses two files of tests with the same name" {
	mkdir a b
	echo ':' | tee a/x.bats b/y.bats b/x.bats >/dev/null
	awk -f "$ROOT/t/lint/tests.awk" a/x.bats b/y.bats
	mentions 1 "lint: b/x.bats: a/x.bats has the same name" \
		awk -f "$ROOT/t/lint/tests.awk" a/x.bats b/y.bats b/x.bats
}

@test "programs: rf-dump, rf-reward and rf-select are not linked with oneDNN, OpenMP or CUDA" {
	for program in rf-dump rf-reward rf-select; do
		run -0 ldd "$RF_BIN/$program"
		[[ $output != *dnnl* && $output != *gomp* && $output != *cuda* ]]
	done
}
