#!/usr/bin/env bats
# Tests of the default corpus (corpus.sh) and of parquet.py.  The package file is made by the tests, which
# check only which files are copied, not their text.

setup() {
	load ../helper
	load ../pipelines
	corpus=$ROOT/pipelines/demo/corpus.sh
	script=$ROOT/pipelines/examples/parquet.py
}

# package NAME: makes NAME.deb, version 1, with manuals of 20000, 16384 and 16383 bytes, and with files that
# corpus.sh never copies
package() {
	local pod=root/usr/share/perl/5/pod
	mkdir -p root/DEBIAN "$pod"
	printf 'Package: %s\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: d\n' \
		"$1" >root/DEBIAN/control
	head -c 20000 /dev/zero | tr '\0' 'b' >"$pod/perlb.pod"
	head -c 16384 /dev/zero | tr '\0' 'a' >"$pod/perla.pod"
	head -c 16383 /dev/zero | tr '\0' 'c' >"$pod/perlc.pod"
	cp "$pod/perlb.pod" "$pod/perltoc.pod"
	cp "$pod/perlb.pod" "$pod/perluniprops.pod"
	cp "$pod/perlb.pod" "$pod/perldelta.pod"
	cp "$pod/perlb.pod" "$pod/other.txt"
	dpkg-deb --root-owner-group -b root "$1.deb" >/dev/null
}

@test "corpus: the long manuals of a package file are copied unchanged, with their version and licence" {
	package perl-doc
	"$corpus" deep/out perl-doc.deb
	[ "$(cd deep/out && echo *)" = "SOURCE perla.txt perlb.txt" ]
	cmp deep/out/perla.txt root/usr/share/perl/5/pod/perla.pod
	cmp deep/out/perlb.txt root/usr/share/perl/5/pod/perlb.pod
	[ "$(sed -n 's/^version: //p' deep/out/SOURCE)" = 1 ]
	grep -q '^licence: GPL-1+ or Artistic' deep/out/SOURCE
	[ "$(echo deep/*)" = deep/out ]
	"$corpus" again perl-doc.deb
	diff -r deep/out again
}

@test "corpus: an output folder that exists already is refused and left as it was" {
	package perl-doc
	mkdir out
	run -65 "$corpus" out perl-doc.deb
	[ "$output" = "corpus.sh: out: exists already" ]
	[ -z "$(ls out)" ]
}

@test "corpus: corpus.sh removes the leftover folder of a killed start, but not a locked or other folder" {
	package perl-doc
	mkdir stubs
	printf '#!/bin/sh\nkill -9 $PPID\n' >stubs/tar
	chmod +x stubs/tar
	run -137 env PATH="$PWD/stubs:$PATH" "$corpus" out perl-doc.deb
	[ "$(echo out.tmp.*)" != 'out.tmp.*' ]
	mkdir out.tmp.mine00 out.tmp.mine-too
	flock out.tmp.mine00 "$corpus" out perl-doc.deb
	[ "$(echo out*)" = "out out.tmp.mine-too out.tmp.mine00" ]
}

@test "corpus: a wrong package, a text file or a missing file is an error and leaves no file" {
	package bash-doc
	run -65 "$corpus" out bash-doc.deb
	[ "$output" = "corpus.sh: bash-doc.deb: this is the package bash-doc, not perl-doc" ]
	echo text >text.deb
	run -65 "$corpus" out text.deb
	run -66 "$corpus" out missing.deb
	[ "$output" = "corpus.sh: missing.deb: the file does not exist or cannot be read" ]
	run -64 "$corpus"
	[ "$(echo ./*)" = "./bash-doc.deb ./root ./text.deb" ]
}

@test "corpus: the installed perl-doc package gives at least 60 documents of 4 to 12 MB in all" {
	[ -n "$(dpkg-query -W -f '${Version}' perl-doc 2>/dev/null)" ] ||
		skip "perl-doc is not installed (make deps)"
	"$corpus" out
	set -- out/*.txt
	[ $# -ge 60 ]
	size=$(cat out/*.txt | wc -c)
	[ "$size" -gt 4000000 ]
	[ "$size" -lt 12000000 ]
}

# parquet ARGUMENT...: runs the converter
parquet() { python3 "$script" "$@"; }
has_pyarrow() {
	python3 -c 'import pyarrow.parquet' 2>/dev/null || skip "Python's pyarrow is not installed"
}
# questions: makes a.parquet and b.parquet in the form of published questions, with several row groups
questions() {
	python3 - <<-'END'
		import pyarrow as pa, pyarrow.parquet as pq
		rows = [{"prompt": f"Question {i}: é\n\u2028\"why\"?\nAnswer:",
		         "answer": [f"a{i}", "b"][:1 + i % 2], "task": "qa" if i % 2 else "hotpot",
		         "max_gen_tokens": 32 << i % 2, "index": i, "score": i / 4, "none": None}
		        for i in range(150)]
		pq.write_table(pa.Table.from_pylist(rows[:140]), "a.parquet", row_group_size=50)
		pq.write_table(pa.Table.from_pylist(rows[140:]), "b.parquet")
	END
}

@test "corpus: parquet.py turns rows into lines that rf-tokenize reads, in the order of files and rows" {
	has_pyarrow
	questions
	parquet -o all.jsonl a.parquet b.parquet
	[ "$(wc -l <all.jsonl)" -eq 150 ]
	[ "$(jq -c .index all.jsonl | paste -sd,)" = "$(seq -s, 0 149)" ]
	line='{"prompt":"Question 1: é\n'$'\xe2\x80\xa8''\"why\"?\nAnswer:","answer":["a1","b"],"task":"qa",'
	line+='"max_gen_tokens":64,"index":1,"score":0.25,"none":null}'
	[ "$(sed -n 2p all.jsonl)" = "$line" ]
	parquet a.parquet b.parquet | cmp - all.jsonl
	parquet a.parquet b.parquet --output=all.jsonl.zst
	zstd -dc all.jsonl.zst | cmp - all.jsonl
	[ "$(stat -c %a all.jsonl)" = "$(touch new && stat -c %a new)" ]
	parquet a.parquet b.parquet |
		rf-tokenize --bytes --prompt-key prompt --answers-key answer --meta-key task,max_gen_tokens \
			-o q.rf 2>err
	rf-dump --check q.rf
	rf-dump --json q.rf | jq -c '.body | select(.id == 149) | .answers, .meta' | paste -sd' ' >got
	[ "$(cat got)" = '["a149","b"] {"task":"qa","max_gen_tokens":64}' ]
	rf-tokenize --bytes --prompt-key prompt --answers-key answer --meta-key task,max_gen_tokens \
		-o z.rf all.jsonl.zst 2>err
	cmp q.rf z.rf
	[ "$(parquet --columns index,task b.parquet | head -n 1)" = '{"index":140,"task":"hotpot"}' ]
}

@test "corpus: parquet.py fails without output if a file is damaged or missing, or a value has no JSON form" {
	has_pyarrow
	questions
	python3 - <<-'END'
		import datetime, pyarrow as pa, pyarrow.parquet as pq
		pq.write_table(pa.table({"a": [b"x"]}), "bytes.parquet")
		pq.write_table(pa.table({"b": [1.0, float("nan")]}), "nan.parquet")
		pq.write_table(pa.table({"c": [datetime.date(2020, 1, 1)]}), "date.parquet")
	END
	head -c 3000 a.parquet >cut.parquet
	echo text >text.parquet
	mkdir folder.parquet
	# fails STATUS LINE ARGUMENT...: checks status and message, and that no output file appears
	fails() {
		run --separate-stderr parquet -o out.zst "${@:3}"
		[ "$status" -eq "$1" ] && [ "${#stderr_lines[@]}" -eq 1 ] &&
			[ -z "$(find . -name '*out*')" ] && [[ "$stderr" == "parquet.py: "$2 ]] ||
			{ echo "$status $stderr"; ls -A; return 1; }
	}
	fails 65 "cut.parquet: *" cut.parquet
	fails 65 "text.parquet: *" a.parquet text.parquet
	fails 66 "missing.parquet: No such file or directory" a.parquet missing.parquet
	fails 66 "folder.parquet: *" folder.parquet
	fails 65 "bytes.parquet: row 1: column 'a': *bytes*" bytes.parquet
	fails 65 "nan.parquet: row 2: column 'b': *" a.parquet nan.parquet
	fails 65 "date.parquet: row 1: column 'c': *" date.parquet
	fails 65 "a.parquet: there is no column 'x' *" --columns task,x a.parquet
	fails 64 "* (try --help)"
	fails 64 "* (try --help)" --nothing a.parquet
	fails 64 "* (try --help)" --col task a.parquet
	echo old >out.jsonl
	run -65 parquet -o out.jsonl a.parquet bytes.parquet
	[ "$(cat out.jsonl)" = old ]
	says 64 "parquet.py: a.parquet is an input, so it cannot be the output" parquet -o a.parquet a.parquet
	says 74 "parquet.py: nowhere/out: No such file or directory" parquet -o nowhere/out a.parquet
	run -74 --separate-stderr bash -c 'python3 "$1" a.parquet >/dev/full' - "$script"
	[[ "$stderr" == "parquet.py: "*"No space left on device" ]]
	yes a.parquet | head -n 50 >many
	run -0 bash -c 'python3 "$1" $(<many) | head -n 1; [ ${PIPESTATUS[0]} -eq 141 ]' \
		- "$script"
	run -69 --separate-stderr env PATH="$(dirname "$(command -v python3)")/none" "$(command -v python3)" \
		"$script" -o out.zst a.parquet
	[ "$stderr" = "parquet.py: the program zstd is missing: install it, or name a file without .zst" ]
}

# stand_in: makes a replacement of pyarrow, and its files: in.parquet, slow.parquet, and want, which has the
# lines of in.parquet
stand_in() {
	pyarrow_stand_in
	echo '{"a":"x\u009b31m\u202e\u007f"}' >in.parquet
	# files and pipes get the characters unescaped
	python3 -c 'print("{\"a\":\"x\\u009b31m\\u202e\\u007f\"}".encode().decode("unicode_escape"))' >want
	echo '{"a":1,"wait":1}' | sed 'p;p;p' >slow.parquet
}

@test "corpus: parquet.py -o replaces a file or a link, and writes devices, FIFOs and descriptors directly" {
	stand_in
	parquet -o new in.parquet
	cmp want new
	echo old >target
	ln -s target link
	ln -s nowhere broken
	for name in link broken; do
		parquet -o $name in.parquet
		[ ! -L $name ]
		cmp want $name
	done
	[ "$(cat target)" = old ]
	[ ! -e nowhere ]
	parquet -o - in.parquet | cmp want -
	[ ! -e ./- ]
	parquet -o ./- in.parquet
	cmp want ./-
	parquet -o /dev/fd/7 in.parquet 7>seven
	cmp want seven
	mkfifo fifo
	cat fifo >got &
	parquet -o fifo in.parquet
	wait
	cmp want got
	[ -p fifo ]
	cat fifo | zstd -dc >got &
	ln -s fifo fifo.zst
	parquet -o fifo.zst in.parquet
	wait
	cmp want got
	[ -L fifo.zst ]
	mkdir folder
	ln -s folder to-folder
	for name in '' . .. / folder folder/ to-folder new/ nowhere/; do
		run -64 --separate-stderr parquet -o "$name" in.parquet
		[ ${#stderr_lines[@]} -eq 1 ]
		[ -z "$output" ]
	done
	[ -z "$(find . -name '.*tmp*')" ]
	# root could replace the system's devices: they are tested only if a device of the test is not
	# replaced
	mknod null c 1 3 2>/dev/null || [ "$(id -u)" != 0 ] || return 0
	if [ -c null ]; then
		parquet -o null in.parquet || true
		[ -c null ]
	fi
	for name in /dev/stdout /dev/fd/1 /proc/self/fd/1; do parquet -o $name in.parquet | cmp want -; done
	says 74 'parquet.py: /dev/full: write: No space left on device' parquet -o /dev/full in.parquet
}

@test "corpus: parquet.py that is killed by a signal ends by that signal and leaves no partial file" {
	stand_in
	echo old >out
	for name in out out.zst; do
		for signal in TERM INT HUP USR1; do
			python3 "$script" -o $name slow.parquet &
			until [ -n "$(find . -name ".$name.tmp-*")" ]; do sleep .02; done
			kill -$signal $!
			ended_by $signal $!
			[ -z "$(find . -name '.*tmp*')" ]
			[ "$(cat out)" = old ]
			[ ! -e out.zst ]
		done
	done
	# the reader of its output exits
	yes in.parquet | head -n 9000 >many
	run -0 bash -c 'python3 "$1" $(<many) | head -n 1 >/dev/null; echo ${PIPESTATUS[0]}' - \
		"$script"
	[ "$output" = 141 ]
}

@test "corpus: parquet.py writes no message into the data if a standard descriptor is closed or full" {
	stand_in
	echo no >bad.parquet
	# ends STATUS ARGUMENTS REDIRECTIONS: runs the converter and checks its status; `out` and `err` have
	# the output
	ends() {
		local status=0
		: >out
		: >err
		eval "python3 \"\$script\" $2 $3" || status=$?
		! grep -q Traceback out err && [ "$status" -eq "$1" ] ||
			{ echo "$*: $status"; cat out err; return 1; }
	}
	for closed in '<&- 2>&-' '2>/dev/full'; do
		ends 0 in.parquet ">out $closed"
		cmp want out
		ends 65 bad.parquet ">out $closed"
		[ ! -s out ]
		ends 66 none.parquet ">out $closed"
		[ ! -s out ]
		ends 64 '--nothing in.parquet' ">out $closed"
		[ ! -s out ]
		ends 0 '-o file in.parquet' ">out $closed"
		cmp want file
		[ ! -s out ]
		ends 65 '-o file.zst bad.parquet' ">out $closed"
		[ ! -e file.zst ]
		ends 0 '-o file.zst in.parquet' ">out $closed"
		zstd -dc file.zst | cmp want -
		rm file.zst
		ends 74 in.parquet ">&- $closed"
		ends 74 in.parquet ">/dev/full $closed"
		ends 74 --help ">&- $closed"
		ends 74 --help ">/dev/full $closed"
		ends 0 '-o file in.parquet' ">&- $closed"
		cmp want file
	done
	ends 74 in.parquet '>&- 2>err'
	[ "$(cat err)" = 'parquet.py: <stdout>: write: Bad file descriptor' ]
	ends 74 in.parquet '>/dev/full 2>err'
	[ "$(cat err)" = 'parquet.py: <stdout>: write: No space left on device' ]
	ends 0 in.parquet '>&- <&- 2>&-' || ends 74 in.parquet '>&- <&- 2>&-'
}

@test "corpus: parquet.py escapes control characters in its messages, and in data on a terminal" {
	stand_in
	name=$'a\e]0;x\a\xc2\x9b31m\nparquet.py: b\xe2\x80\xae\x7f\xff'
	shown='a\x1b]0;x\x07\u009b31m\nparquet.py: b\u202e\x7f\xff'
	says 66 "parquet.py: $shown: No such file or directory" parquet "$name"
	cp in.parquet "$name"
	parquet -o "$name.out" "$name"
	cmp want "$name.out"
	says 74 "parquet.py: none/$shown: No such file or directory" parquet -o "none/$name" in.parquet
	says 64 "...${shown// /}..." parquet "--${name// /}" in.parquet
	run -65 --separate-stderr parquet --columns "$name" in.parquet
	[ "$stderr" = "parquet.py: in.parquet: there is no column '$shown' (there are: a)" ]
	jq -nc --arg o "${name%?}" '{($o): 5}' >odd.parquet
	run -65 --separate-stderr parquet --columns x odd.parquet
	[ "$stderr" = "parquet.py: odd.parquet: there is no column 'x' (there are: ${shown%????})" ]
	command -v script >/dev/null || return 0
	script -qefc "python3 '$script' in.parquet" /dev/null </dev/null | tr -d '\r' >tty
	[ "$(cat tty)" = '{"a":"x\u009b31m\u202e\u007f"}' ]
}

@test "corpus: parquet.py without pyarrow exits 69 and names the missing package" {
	mkdir stubs
	echo 'raise ImportError' >stubs/pyarrow.py
	run -69 --separate-stderr env PYTHONPATH=stubs python3 "$script" a.parquet
	[ "$stderr" = "parquet.py: pyarrow is missing: pip install pyarrow" ]
}
