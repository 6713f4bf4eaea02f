#!/usr/bin/env bats
# Tests of references: all files and names in rf-design(7), t/README and the source exist, and their lists are
# complete.
setup() {
	load ../helper
	page=$ROOT/man/rf-design.7
}

# arguments MACRO: prints the arguments of a macro of the page, one per line; the macro may also follow
# another one in its line
arguments() {
	awk -v macro="$1" '
		/^\.[A-Z]/ {
			sub(/^\./, "")
			on = 0
			for (i = 1; i <= NF; i++)
				if ($i ~ /^[A-Z][a-z]$/)
					on = $i == macro
				else if (on && $i !~ /^[.,:;()]+$/)
					print $i
		}' "$page"
}

# all_are COMMAND...: runs the command with each line of the input, in the root of the source; fails if one
# fails
all_are() {
	cd "$ROOT"
	while read -r name; do
		"$@" "$name" >/dev/null || { echo "$name is not there"; return 1; }
	done
}

# In running text, a word that begins with one of these folders is a file.  NAME and TYPE stand for names that
# the reader chooses.
folders='completion|kernels|lib|man|pipelines|t|tools'

@test "rf-design(7): every file that the page names exists" {
	arguments Pa >names
	[ "$(wc -l <names)" -ge 50 ]
	sed "s,build/[^ ]*,," "$page" | grep -oE "\b($folders)/[A-Za-z0-9_./*-]*[A-Za-z0-9_*]" >>names
	grep -vE 'NAME|TYPE' names | sort -u | all_are compgen -G
}

@test "rf-design(7): every function, type and variable that the page names is defined or used in the source" {
	for macro in Fn Vt Va Dv; do
		arguments $macro
	done | grep -vxE 'struct|enum' >names
	[ "$(wc -l <names)" -ge 10 ]
	sort -u names | all_are grep -rqw lib kernels pipelines -e
}

@test "rf-design(7): the page names each room of lib, in the order that make lint enforces" {
	sed -n '/^\.Sh ROOMS/,/^\.El/s/^\.It Li \([a-z]*\) Ta .*/\1/p' "$page" >rooms
	sed -n '/floors = /,/[^\\]$/p' "$ROOT/t/lint/rooms.awk" | grep -o '"[^"]*"' | tr -d '"\n' |
		tr -s ', ' '\n\n' | diff <(sed '$a\' rooms) <(sed '$a\' -)
	sort rooms | diff <(cd "$ROOT/lib" && ls -d -- */ | tr -d / | sort) -
}

@test "rf-design(7): the page has a checklist for adding a reward, mixer, tokenizer, device, stage or phase" {
	for what in reward mixer tokenizer device stage phase; do
		awk -v what="$what" '/^\.S[hs] / { on = $0 == ".Ss How to add a " what } on' "$page" >list
		grep -q '^\.It Pa ' list
		grep -q '^Checks that find a mistake:' list
		grep -q '^No check finds ' list
	done
}

@test "rf-design(7): the glossary is in alphabetical order" {
	sed -n '/^\.Sh GLOSSARY/,/^\.El/s/^\.It \([^T].*\|T[^a].*\) Ta .*/\1/p' "$page" >words
	[ "$(wc -l <words)" -ge 30 ]
	sort -fuc words
}

@test "source: every file that says \"paper\" names the paper, itself or in its header" {
	cd "$ROOT"
	for file in README.md man/rf-tools.7 $(grep -rlw paper lib kernels tools); do
		cat "$file" "${file%.*}.h" 2>/dev/null | grep -q '2602\.16704' ||
			{ echo "$file: which paper?"; return 1; }
	done
}

@test "source: nothing refers to a document that is not in the repository" {
	cd "$ROOT"
	tree=(README.md CONTRIBUTING.md Makefile .ci completion kernels lib man pipelines t tools)
	run ! grep -rInE '(^|[^A-Z-])DESIG[N]([^A-Z]|$)' "${tree[@]}"
	grep -rIohE '\b[A-Z]+\.md\b' "${tree[@]}" | sort -u >"$BATS_TEST_TMPDIR/names"
	for name in $(cat "$BATS_TEST_TMPDIR/names"); do
		[ -n "$(find "${tree[@]}" -name "$name")" ] || { echo "$name is not there"; return 1; }
	done
}

# in_t NAME: succeeds if a file of this name is in t/ or in one of its folders
in_t() { compgen -G "t/$1" || compgen -G "t/*/$1"; }

@test "t/README: every file that it names exists, every test file is named, and each room of lib has tests" {
	sed -n 's/^    lib\/\([a-z]*\) .*/\1/p' "$ROOT/t/README" | sort |
		diff - <(cd "$ROOT/lib" && ls -d -- */ | tr -d / | sort)
	grep -oE '\b[a-z-]+/?[a-z0-9*-]+\.(c|bats|py|bash|md)\b' "$ROOT/t/README" | grep -vx "tools/x.bats" |
		sort -u | all_are in_t
	for file in $(cd "$ROOT" && make -s tests && ls t/unit/*.c); do
		name=${file#t/}
		[[ $name == unit/* ]] || name=${name##*/}
		[[ $name == rf-* || $name == unit/ops-* ]] || grep -qF "$name" "$ROOT/t/README" ||
			{ echo "t/README does not name $name"; return 1; }
	done
}
