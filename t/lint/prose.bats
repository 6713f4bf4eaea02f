#!/usr/bin/env bats
# Tests of the rules of make lint for prose, commit subjects and names: t/lint/*.awk.
setup() { load ../helper; }

prose() { awk "${@:2}" -f "$ROOT/t/lint/prose.awk" $1; }
subjects() { sed 's/^/1234567 /' | awk -f "$ROOT/t/lint/subject.awk"; }
unique() { awk -f "$ROOT/t/lint/unique.awk" "$@"; }

# sentences: prints lines PATTERN: SENTENCE.  The tests put each sentence after another one.
sentences() {
	cat <<-'END'
		headless: What a record adds.
		headless: It works: who wants it gets it.
		headless: Whose rows are read is written there.
		possessive: The folder is the run's.
		possessive: These options are its own, like all of them.
		possessive: The rank waits for the others'.
		word: A program that nobody reads.
		word: The file is written anew.
		word: It tries for ever.
		word: The rows lie behind the others.
		word: The sums are reckoned.
		word: Positions that are apart.
		none: A name that is none.
		none: The value stands in the place of the id.
		none: The new tokens come on top.
		so many: At most so many tokens are kept.
		of: Of the ranks only one writes.
		said: The cause is said.
		there: The program uses what is there.
	END
}

# plain: prints sentences without any pattern
plain() {
	cat <<-'END'
		Returns the bytes that the record adds.
		What does a record add?
		The run's folder has so many files that listing takes long.
		The rows lie ld floats apart from others, and `what is there` is not read.
		Of course the message "nobody" is quoted.
		It's as long as the model's context, and the state of the others.
	END
}

@test "prose.awk: finds each pattern in comments, strings, names of tests, pages and markdown" {
	sentences >list
	while IFS= read -r line; do
		s=${line#*: }
		printf '/* Begins here.  %s\n */\nint x;\n' "$s" >a.c
		printf 'int x;\n// Begins here.  %s\n' "$s" >a.cu
		printf 'const char *s = "Begins here.  "\n\t"%s";\n' "$s" >b.c
		printf '# Begins here.  %s\n' "$s" | tee a.sh a.py a.awk >a.mk
		printf '@test "%s" {\n' "$s" >a.bats
		printf '.Sh X\nBegins here.\n%s\n' "$s" >a.1
		printf '# A\n\n- Begins here.  %s\n' "$s" >a.md
		for file in a.c a.cu b.c a.sh a.py a.awk a.mk a.bats a.1 a.md; do
			run prose "$file"
			[ "$status" -eq 1 ] || { echo "$file: $line"; return 1; }
			like "$output" "$file:...: ${line%%: *}: ..." || { echo "$file: $line"; return 1; }
		done
	done <list
}

@test "prose.awk: finds a sentence that goes over lines, and names its first line" {
	printf '/* Begins.\n * The program writes\n * the file\n * anew, for the state\n' >a.c
	printf ' * is the run%ss.  Ends. */\n' "'" >>a.c
	run prose a.c
	[ "${#lines[@]}" -eq 2 ]
	[[ "${lines[0]}" == 'a.c:2: '* ]]
	[[ "${lines[1]}" == 'a.c:2: '* ]]
}

@test "prose.awk: accepts plain sentences, code and blocks of code" {
	{ plain | sed 's,^,// ,'; echo "int what_is_there = 'a' + nobody(anew);"; } >a.c
	{ plain | sed 's/^/# /'; echo 'echo nobody "in vain"'; } >a.sh
	{ plain; printf '.Bd -literal\nwhat is there\n.Ed\n.Fl -anew\n'; } >a.1
	{ plain; printf '\n```sh\nwhat is there is kept anew\n```\n'; } >a.md
	run prose 'a.c a.sh a.1 a.md'
	[ "$status" -eq 0 ] || { echo "$output"; return 1; }
	[ -z "$output" ]
}

@test "prose.awk: refuses a file with more sentences than its allowance, and an allowance that is too high" {
	printf '# Nobody reads.\n# It is written anew.\n' | tee two.sh >other.sh
	prose 'two.sh other.sh' -v counts=1 >allowed
	diff allowed - <<<$'2 two.sh\n2 other.sh'
	prose 'two.sh other.sh' -v allowed=allowed
	echo '# The file is the run'"'s." >>two.sh
	run prose 'two.sh other.sh' -v allowed=allowed
	[ "$status" -eq 1 ]
	[ "${#lines[@]}" -eq 4 ]
	like "${lines[2]}" "two.sh:3: possessive: The file is the run's."
	like "${lines[3]}" 'lint: two.sh: 3 sentences ..., more than the 2 of allowed'
	# make prose-allowed, which lowers allowances, raises none of them
	prose 'two.sh other.sh' -v counts=1 -v allowed=allowed | diff allowed -
	echo '# Nobody reads.' >two.sh
	run prose two.sh -v allowed=allowed
	[ "$status" -eq 1 ]
	[ "${#lines[@]}" -eq 3 ]
	like "${lines[0]}" 'lint: two.sh: 1 ... allows 2'
	like "${lines[1]}" 'lint: other.sh: ...'
	like "${lines[2]}" 'lint: ...: make prose-allowed'
	prose two.sh -v counts=1 -v allowed=allowed | diff - <(echo '1 two.sh')
	# a file that is not listed is allowed no such sentence
	: >none
	run ! prose two.sh -v allowed=none
}

@test "prose.awk: the allowances name existing files, each once" {
	[ -z "$(cut -d ' ' -f 2 "$ROOT/t/lint/prose.allowed" | sort | uniq -d)" ]
	while read -r count file; do
		[ "$count" -gt 0 ]
		[ -e "$ROOT/$file" ] || { echo "$file does not exist"; return 1; }
	done <"$ROOT/t/lint/prose.allowed"
}

@test "subject.awk: accepts 'area: imperative' and refuses other subjects" {
	subjects <<-'END'
		rf-cat: refuse two shards of one rank
		README, man: describe the new options
		t/ranks: bring back the order of lines
		lib/io: pass errors of close
		Revert "rf-cat: refuse two shards of one rank"
	END
	while IFS= read -r subject; do
		run subjects <<<"$subject"
		[ "$status" -eq 1 ] || { echo "accepted: $subject"; return 1; }
		[[ "$output" == "lint: commit 1234567: "*": $subject" ]]
	done <<-'END'
		What a review found: shared blocks, and jobs
		rf-cat: what is read twice
		rf-cat: the order of records
		rf-cat: refused two shards
		rf-cat: refusing two shards
		rf-cat: refuses two shards
		rf-cat: records of two ranks
		rf-cat: refuse two shards of one rank.
		rf-cat refuse two shards
		rf-cat: refuse two shards of one rank, and say which of them is meant
	END
	run subjects <<<'What: the first of several mistakes, all of which are to be reported.'
	[ "${#lines[@]}" -eq 3 ]
}

@test "unique.awk: refuses a second guard, tag or file name, and a file without a first comment" {
	mkdir -p lib/base lib/io kernels
	printf '/* a */\n#ifndef RF_A_H\nstruct rf_a {\n' | tee lib/base/a.h >kernels/a.h
	printf '/* a */\nstruct rf_b {\n' | tee kernels/a.c >kernels/a.cu
	printf '/* a */\n#include "a.h"\nstruct local {\n' >lib/base/a.c
	printf '#!/bin/sh\n# a\n' >kernels/a.sh
	unique lib/base/a.h lib/base/a.c kernels/a.c kernels/a.cu kernels/a.sh
	run unique lib/base/a.h kernels/a.h
	[ "$status" -eq 1 ]
	[ "${#lines[@]}" -eq 2 ]
	like "${lines[0]}" 'lint: kernels/a.h:2: the guard RF_A_H is also in lib/base/a.h'
	like "${lines[1]}" 'lint: kernels/a.h:3: the tag rf_a is also in lib/base/a.h'
	printf '/* a */\nenum rf_b {\n' | tee lib/io/a.c >lib/io/b.c
	run unique lib/base/a.c kernels/a.c lib/io/a.c lib/io/b.c
	[ "${#lines[@]}" -eq 3 ]
	like "${lines[0]}" 'lint: lib/io/a.c:1: a file called a.c is also in lib/base/a.c'
	like "${lines[2]}" 'lint: lib/io/b.c:2: the tag rf_b is also in ...'
	printf '#include <stdio.h>\n' >lib/io/c.c
	printf '#!/bin/sh\necho\n' >kernels/c.sh
	run unique lib/io/c.c kernels/c.sh
	[ "$status" -eq 1 ]
	[ "${#lines[@]}" -eq 2 ]
	like "${lines[1]}" 'lint: kernels/c.sh:2: no comment ...'
}
