#!/usr/bin/env bats
# The stream: damage, broken rules, the readers of rf-stream(5), and faults during a write.

setup() {
	load ../helper
	S=$G/stream
}

@test "stream: a stream that is damaged anywhere is refused, or is still the same stream" {
	unit stream $(( ${RF_ALL:+1} + 0 ? 1 : 23)) "$S/tokens.rf" "$S/rewarded.rf"
}

@test "stream: a message, head or record that breaks any one rule is refused with a message" {
	unit rules
}

@test "stream: a message converted to JSON and back has the same bytes" {
	unit json
}

@test "stream: every file of the stream's fuzzing corpus passes the fuzz target" {
	[ -x "$RF_UNITS/fuzz/stream" ] || skip "the fuzz targets are not built"
	replay stream "$ROOT"/t/fuzz/corpus/stream/*
}

# reader: compiles the reader in C from the manual page
reader() {
	sed -n '/^\.\\" reader\.c$/,/^\.Ed$/p' "$ROOT/man/rf-stream.5" | sed '1,2d;$d;s/\\e/\\/g' >reader.c
	${CC:-cc} -std=gnu11 -Wall -Wextra -o reader reader.c -lzstd -lmsgpackc -lxxhash
}

@test "rf-stream(5): the C reader on the page compiles without a warning and agrees with rf-dump" {
	run reader
	[ "$status" -eq 0 ]
	[ -z "$output" ]
	for f in "$S"/*.rf; do
		./reader <"$f" >theirs
		rf-dump --json "$f" | jq -r 'select(.type == "seq") | .body
			| "\(.id): \(.tokens.data | map(tostring) | join(" "))"
			+ " \(keys_unsorted | join(" "))"' >ours
		cmp ours theirs
	done
	head -c -1 "$S/tokens.rf" >cut
	run -65 ./reader <cut
	cat "$S/tokens.rf" "$S/tokens.rf" >twice
	run -65 ./reader <twice
	run -65 ./reader </dev/null
}

# python_reader: copies the reader in Python from the manual page
python_reader() {
	sed -n '/^import sys, msgpack/,/^\.Ed$/p' "$ROOT/man/rf-stream.5" | sed '$d;s/\\e/\\/g' >reader.py
}

@test "rf-stream(5): the Python reader on the page reads a record above msgpack's own limit" {
	python_reader
	python3 -c 'import msgpack, numpy, zstandard' 2>/dev/null ||
		skip "Python's msgpack, numpy or zstandard is not installed"
	head -c 30000000 /dev/zero | tr '\0' a | rf-tokenize --bytes --format text -o big.rf
	run -0 python3 reader.py <big.rf
	[ "$output" = '0 [100 100 100 ... 100 100   1]' ]
	head -c -20 big.rf >cut
	mentions 1 "AssertionError: truncated" python3 reader.py <cut
	cat "$S/tokens.rf" "$S/tokens.rf" >twice
	mentions 1 "AssertionError: out of order" python3 reader.py <twice
}

@test "rf-stream(5): the Python reader on the page sets both limits of msgpack and reports an empty input" {
	# stand-ins replace the modules, since there is no stream to read
	echo 'def Unpacker(source, raw, max_buffer_size, max_bin_len): return []' >msgpack.py
	printf 'class ZstdDecompressor:\n    def stream_reader(self, source, **how): return source\n' \
		>zstandard.py
	: >numpy.py
	python_reader
	mentions 1 "AssertionError: truncated" env PYTHONPATH=. python3 reader.py </dev/null
}

@test "rf-stream(5): the page lists the keys of a record and of a rollout in the order of the writer" {
	rf-dump --json "$S/rewarded.rf" | jq -c 'if .seq == 1 then .body.generation = {"temperature": 0,
		"tokens": {"dtype": "<i4", "shape": [1, 1], "data": [1]},
		"length": {"dtype": "<i4", "shape": [1], "data": [1]}, "stop": ["eos"]}
		| .body.choice = {"tokens": {"dtype": "<i4", "shape": [1, 1], "data": [1]},
		"length": {"dtype": "<i4", "shape": [1], "data": [1]}} else . end' |
		rf-cat --json | rf-dump --json | jq -r 'select(.seq == 1).body | keys_unsorted[]' >written
	sed -n '/^\.Sh RECORDS/,/^\.Ss/p' "$ROOT/man/rf-stream.5" |
		sed -n 's/^\.It Li \([a-z_]*\) Ta.*/\1/p' | grep -v key >page
	[ "$(wc -l <page)" -eq 19 ]
	[ "$(grep -Fxf written page)" = "$(cat written)" ]
	rf-dump --json "$S/rewarded.rf" | jq -c 'if .seq == 1 then .body.rollout |= (
		.kept = (.logp | .data[] = 0.5) | .logp_ref = .logp
		| .length = (.tokens | .shape |= .[:2] | .data = [range(.shape[0] * .shape[1]) | 1]))
		else . end' | rf-cat --json | rf-cat | rf-dump --json |
		jq -r 'select(.seq == 1).body.rollout | keys_unsorted[]' >written
	sed -n '/^\.It Li rollout Ta/,/^\.It Li/s/^\.It "  " Ns Li \([a-z_]*\) Ta.*/\1/p' \
		"$ROOT/man/rf-stream.5" | cmp - written
}

@test "rf-cat(1): the examples of the page make whole streams of the stated sizes" {
	rf-cat --repeat 100 "$S/tokens.rf" >corpus.rf
	rf-dump --json corpus.rf | jq -c 'if .type == "seq" then .body.prompt_len = 3 else . end' |
		rf-cat --json -o a.rf
	mandoc -T ascii -O width=200 "$ROOT/man/rf-cat.1" | sed 's/.\x08//g' |
		sed -n '/^EXAMPLES/,/^SEE/s/^ *\$ //p' | grep -v rf-entropy >examples
	[ "$(wc -l <examples)" -eq 5 ]
	bash -eu -o pipefail examples
	[ "$(rf-dump --check batch.rf)" = "batch.rf: ok, 128 records, $(stat -c %s batch.rf) bytes" ]
	[[ "$(rf-dump --check train.rf b.rf)" == "train.rf: ok, 1200 records"*"b.rf: ok, 400 records"* ]]
	[ "$(rf-dump --tsv --no-header --rows record --columns T long.rf | awk '$1 < 50' | wc -l)" -eq 0 ]
	rf-dump --check -q long.rf
}

@test "stream: rf-cat refuses a pipe into which two programs write at the same time" {
	rf-cat --repeat 50 "$S/tokens.rf" >a.rf
	mkfifo pipe
	{ cat a.rf >pipe & cat a.rf >pipe; wait; } &
	says 65 "rf-cat: pipe: ..." rf-cat -o out.rf pipe
	wait
}

@test "rf-cat -o: writes to a descriptor like /dev/stdout and never replaces it" {
	rf-cat "$S/tokens.rf" >want.rf
	rf-cat -o /dev/stdout "$S/tokens.rf" | cmp - want.rf
	rf-cat -o /dev/fd/5 "$S/tokens.rf" 5>got.rf
	cmp got.rf want.rf
	[ -L /dev/stdout ]
	rf-cat -o - "$S/tokens.rf" | cmp - want.rf
	mentions 74 "<stdout>: ...Bad file descriptor" bash -c 'rf-cat "$1" >&-' _ "$S/tokens.rf"
	# standard input is not open, and no other file is read instead
	says 66 "rf-cat: <stdin>: Bad file descriptor" bash -c 'rf-cat -o out.rf <&-'
	rf-cat -o out.rf "$S/tokens.rf" <&-
	cmp out.rf want.rf
}

# ---- faults of the system, injected one by one

# traced FAULT ARGUMENT...: runs rf-cat under strace, which injects the fault and notes it in `trace`
traced() {
	status=0
	strace -qq -o trace -e "$1" rf-cat "${@:2}" >stdout 2>stderr || status=$?
}

# sweep SYSCALL FAULT STATUS...: makes the k-th call fail, for every k; the status must be one of these
sweep() {
	local call=$1 fault=$2 k
	shift 2
	for k in $(seq 60); do
		rm -rf dir
		mkdir dir
		echo old >dir/out.rf
		traced "inject=$call:$fault:when=$k" -o dir/out.rf "$S/tokens.rf"
		grep -q -e INJECTED -e SIGKILL trace || break
		# before main() the loader may fail: 127
		[ "$status" -eq 127 ] || [[ " $* " == *" $status "* ]] ||
			{ echo "$call $fault $k: exit status $status"; cat stderr; return 1; }
		[ "$status" -eq 0 ] || [ "$status" -gt 100 ] || [ "$(wc -l <stderr)" -eq 1 ] ||
			{ cat stderr; return 1; }
		if [ "$status" -eq 0 ]; then
			cmp dir/out.rf want.rf
		elif ! cmp -s dir/out.rf want.rf; then # the fault came after the rename
			[ "$(cat dir/out.rf)" = old ]
		fi
		[ "$fault" = signal=KILL ] || [ "$(ls -A dir)" = out.rf ] ||
			{ echo "$call $fault $k leaves $(ls -A dir)"; return 1; }
	done
	[ "$k" -gt 1 ]
	[ "$k" -lt 60 ]
}

@test "rf-cat -o: if a system call fails, the file is the old or the new one, and nothing else is left" {
	can_trace
	rf-cat "$S/tokens.rf" >want.rf
	sweep write error=ENOSPC 74
	sweep write error=EIO 74
	sweep fsync error=EIO 74
	sweep rename error=EXDEV 74
	sweep close error=EIO 74 0
	sweep read error=EIO 74
	sweep openat error=EMFILE 66 74 0
	sweep lseek error=EIO 0
}

@test "rf-cat: a system call that a signal interrupts (EINTR) is called again" {
	can_trace
	rf-cat "$S/tokens.rf" >want.rf
	sweep read error=EINTR 0
	sweep write error=EINTR 0
	sweep openat error=EINTR 0
}

@test "rf-cat: running out of memory exits 71 with one line and leaves only the old file" {
	can_trace
	local n=0
	# large records make rf-cat allocate memory several times
	rf-dump --json "$S/tokens.rf" |
		jq -c 'if .type == "seq" then .body.meta.x = "abcdefgh" * (20000 * (.seq + 1)) else . end' |
		rf-cat --json -o big.rf
	strace -qq -o trace -e trace=mmap rf-cat --help >stdout
	for k in $(seq $(($(wc -l <trace) + 1)) 200); do # the loader made the calls before
		rm -rf dir
		mkdir dir
		echo old >dir/out.rf
		status=0
		strace -qq -o trace -e inject=brk:error=ENOMEM:when=2+ \
			-e "inject=mmap:error=ENOMEM:when=$k+" \
			rf-cat --shuffle -o dir/out.rf big.rf >stdout 2>stderr || status=$?
		grep -q 'mmap.*INJECTED' trace || break
		[ "$status" -eq 71 ] || { echo "$k: exit status $status"; cat stderr; return 1; }
		[ "$(cat dir/out.rf)$(ls -A dir)" = oldout.rf ]
		[ "$(wc -l <stderr)" -eq 1 ] && grep -q '^rf-cat: .*out of memory' stderr ||
			{ cat stderr; return 1; }
		n=$((n + 1))
	done
	[ "$n" -gt 5 ]
}

@test "rf-cat -o: if rf-cat is killed at any system call, the file is the old one or the new one" {
	can_trace
	rf-cat "$S/tokens.rf" >want.rf
	for call in openat write fsync rename close; do
		sweep $call signal=KILL 137
	done
}

@test "stream: the error for a zstd frame with other contents describes the contents" {
	seq 100000 >lines
	for how in --no-check '--no-check --stream-size=588895' --check; do
		# shellcheck disable=SC2086
		zstd -qc $how <lines >in
		run -65 rf-cat -o out in
		said="it looks like text: '1\n2\n3\n4\n5\n6\n7\n8\n9\n1...' (rf-tokenize reads text)"
		[ "$output" = "rf-cat: in: not an rf stream: a zstd frame with other contents: $said" ] ||
			{ echo "$how: $output"; return 1; }
	done
	# for a stream without checksums the error names the frame
	zstd -qdc "$G/stream/tokens.rf" | zstd -qc --no-check >in
	mentions 65 "which every frame of an rf stream" rf-cat -o out in
	zstd -qc --no-check <lines | head -c 20 >in
	mentions 65 "which every frame of an rf stream" rf-cat -o out in
}
