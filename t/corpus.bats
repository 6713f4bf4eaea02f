#!/usr/bin/env bats
# The default corpus, and data that comes as parquet.  The package file that stands in here is made on the
# spot: what is tested is which files are taken, never what they say.

setup() {
	load helper
	corpus=$ROOT/pipelines/corpus.sh
}

# package NAME: NAME.deb, version 1, with manuals of 20000, 16384 and 16383 bytes, and those that
# are never taken
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

@test "corpus: a start removes the leftovers of a killed one, but no locked folder and no other name" {
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

@test "corpus: a wrong package, a text file or a missing file is an error and leaves nothing behind" {
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

# parquet ARGUMENT...: the converter, by the python3 that has pyarrow
parquet() { python3 "$ROOT/pipelines/parquet.py" "$@"; }
has_pyarrow() {
	python3 -c 'import pyarrow.parquet' 2>/dev/null || skip "Python's pyarrow is not installed"
}
# questions: a.parquet and b.parquet, as questions are published, with several row groups
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

@test "corpus: rows of parquet files become records with answers and meta, in the order of the files" {
	has_pyarrow
	questions
	parquet -o all.jsonl a.parquet b.parquet
	[ "$(wc -l <all.jsonl)" -eq 150 ]
	[ "$(jq -c .index all.jsonl | paste -sd,)" = "$(seq -s, 0 149)" ]
	line='{"prompt":"Question 1: é\n'$'\u2028''\"why\"?\nAnswer:","answer":["a1","b"],"task":"qa",'
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

@test "corpus: parquet that is damaged, missing or has no form in JSON is one line, and no file appears" {
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
	# fails STATUS LINE ARGUMENT...
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
	run -64 --separate-stderr parquet -o a.parquet a.parquet
	[ "$stderr" = "parquet.py: a.parquet is an input, so it cannot be the output" ]
	run -74 --separate-stderr parquet -o nowhere/out a.parquet
	[ "$stderr" = "parquet.py: nowhere/out: No such file or directory" ]
	run -74 --separate-stderr bash -c 'python3 "$1" a.parquet >/dev/full' - "$ROOT/pipelines/parquet.py"
	[[ "$stderr" == "parquet.py: "*"No space left on device" ]]
	yes a.parquet | head -n 50 >many
	run -0 bash -c 'python3 "$1" $(<many) | head -n 1; [ ${PIPESTATUS[0]} -eq 141 ]' \
		- "$ROOT/pipelines/parquet.py"
	run -69 --separate-stderr env PATH="$(dirname "$(command -v python3)")/none" "$(command -v python3)" \
		"$ROOT/pipelines/parquet.py" -o out.zst a.parquet
	[ "$stderr" = "parquet.py: the program zstd is missing: install it, or name a file without .zst" ]
}

@test "corpus: parquet.py without pyarrow says what is missing" {
	mkdir stubs
	echo 'raise ImportError' >stubs/pyarrow.py
	run -69 --separate-stderr env PYTHONPATH=stubs python3 "$ROOT/pipelines/parquet.py" a.parquet
	[ "$stderr" = "parquet.py: pyarrow is missing: pip install pyarrow" ]
}
