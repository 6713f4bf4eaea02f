# The promises that every program that reads a stream keeps.  The tests of each program call them.
#
#     load helper
#     load promises
#
#     @test "rf-select: keeps the promises of a filter" {
#             promises filter "$G/stream/tokens.rf" rf-select --chunks 2 -k 2 --margin 2
#     }
#
# promises KIND GOOD COMMAND...: checks all promises of the kind; `promise NAME KIND GOOD COMMAND...` checks
# one.
#
#     KIND     filter   reads a stream on standard input, writes one on standard output, has -o
#              sink     reads a stream, writes text
#              trainer  reads a stream, changes a state
#     GOOD     a stream that the program takes, with two records or more
#     COMMAND  the program and its options; it reads standard input
#
# PROMISE_GATHERS=1: a filter that must see all of its input before it writes a record.
# PROMISE_MIB is how many MiB the program may hold while it refuses a stream that claims too much [64].
# PROMISE_CUTS is how many cuts of the input are tried [12, with RF_ALL=1 40].
#
# For a trainer, PROMISE_RESET names a function that makes a fresh state, and PROMISE_STATE one that prints
# the state, which must be the same before and after every run that fails.
#
# Every failure is checked for its exit status and for one line on stderr that begins with the program's name.

PROMISES_ALL="whole empty nothing foreign cuts after order killed claims usage help terminal_in"
PROMISES_FILTER="at_once full reader output whole_or_not direct term terminal_out"

promises() {
	local list="$PROMISES_ALL"
	[ "$1" = filter ] && list+=" $PROMISES_FILTER"
	[ "$1" = sink ] && list+=" full reader"
	promise "$list" "$@"
}

# Runs in a separate shell, since bats traces every command of a test.
promise() {
	local f
	for f in ${PROMISE_RESET:-} ${PROMISE_STATE:-}; do
		export -f "${f?}"
	done
	export RF_UNITS G PATH PROMISE_RESET PROMISE_STATE PROMISE_GATHERS PROMISE_MIB PROMISE_CUTS
	bash "$ROOT/t/promises.bash" "$@"
}

# p_keep NAMES KIND GOOD COMMAND...: checks the promises in that shell
p_keep() {
	local name list=$1
	P_KIND=$2 P_GOOD=$3
	shift 3
	P_CMD=("$@")
	P_NAME=$(basename "$1")
	for name in $list; do
		"promise_$name" || { echo "broken promise: $name (${P_CMD[*]})"; return 1; }
	done
}

# p_reset: makes a fresh state, unless the state is still fresh; sets p_before to what the state prints
p_reset() {
	[ -n "${PROMISE_RESET:-}" ] && [ -z "${p_fresh:-}" ] || return 0
	"$PROMISE_RESET"
	p_before=$("$PROMISE_STATE") p_fresh=1
}

# p_same: succeeds if a program that failed has left the state as it was
p_same() {
	[ -z "${PROMISE_RESET:-}" ] || [ "$p_before" = "$("$PROMISE_STATE")" ] ||
		p_say "it failed, and changed its state" || return
	p_fresh=1
}

# p_run [OPTION...] <INPUT: runs the program; sets p_status to its exit status, and writes p.out and p.err
p_run() {
	p_reset
	p_status=0 p_fresh=''
	"${P_CMD[@]}" "$@" >p.out 2>p.err || p_status=$?
}

p_say() {
	echo "$1"
	head -c 2000 p.err | sed 's/^/  stderr: /'
	return 1
}

# p_line PATTERN: stderr is one line that begins with the program's name and matches
p_line() {
	local line=''
	IFS= read -r -d '' line <p.err || true
	[[ $line == *$'\n' && ${line%$'\n'} != *$'\n'* ]] || p_say "not one line on stderr" || return
	[[ $line == "$P_NAME: "* ]] || p_say "the line does not begin with '$P_NAME: '" || return
	[[ $line =~ $1 ]] || p_say "the line does not say '$1'" || return
}

# p_fails STATUS PATTERN [OPTION...] <INPUT: the program fails with this status and line, and changes nothing
p_fails() {
	local status=$1 pattern=$2
	shift 2
	p_run "$@"
	p_same || return
	[ "$p_status" -eq "$status" ] || p_say "exit status $p_status, not $status" || return
	p_line "$pattern" || return
	[ "$P_KIND" != filter ] || [ "$status" -ne 65 ] || [ ! -s p.out ] ||
		! rf-cat <p.out >p.out2 2>/dev/null ||
		p_say "it failed, and its output is a whole stream"
}

# p_works [OPTION...] <INPUT: the program succeeds; a filter's output is a whole stream
p_works() {
	p_run "$@"
	[ "$p_status" -eq 0 ] || p_say "exit status $p_status" || return
	[ "$P_KIND" != filter ] || rf-cat <p.out >p.out2 2>>p.err || p_say "its output is no stream"
}

p_lab() {
	"$RF_UNITS/helper/lab" "$@"
}

p_frames() {
	p_lab frames "$P_GOOD" | wc -l
}

promise_whole() {
	p_works <"$P_GOOD"
}

promise_empty() {
	p_lab pick "$P_GOOD" 0 >p.head
	p_lab end p.head >p.in
	if [ "$P_KIND" = trainer ]; then
		p_fails 65 'empty|no records' <p.in
	else
		p_works <p.in
	fi
}

promise_nothing() {
	p_fails 65 '<stdin>: the stream is empty \(the program that writes it produced nothing\)' </dev/null
}

promise_foreign() {
	printf 'hello, world\n' >p.in
	p_fails 65 "looks like text: 'hello, world" <p.in || return
	printf '{"seq":0,"type":"head","body":{}}\n' >p.in
	p_fails 65 "looks like JSON: '\{\"seq\"" <p.in || return
	printf '\x1b[31mred\x07' >p.in
	p_fails 65 'not an rf stream' <p.in || return
	! grep -q $'\x1b' p.err || p_say "it prints what a terminal obeys" || return
	gzip -c "$P_GOOD" >p.in
	p_fails 65 'it begins with 1f 8b, like gzip' <p.in || return
	zstd -qdc "$P_GOOD" >p.in
	p_fails 65 'msgpack' <p.in || return
	printf 'hello, world\n' | zstd -qc --check --stream-size=13 >p.in
	p_fails 65 "looks like text: 'hello, world" <p.in || return
	printf 'hello, world\n' | zstd -qc >p.in
	p_fails 65 "zstd frame with other contents: it looks like text: 'hello, world" <p.in || return
	head -c 300 /dev/zero >p.in
	p_fails 65 'not an rf stream' <p.in
}

# A stream cut anywhere, even at the end of a frame, is an error: truncated.
promise_cuts() {
	local cuts=${PROMISE_CUTS:-$((${RF_ALL:+1} + 0 ? 40 : 12))}
	p_reset
	p_lab cuts "$cuts" "$P_GOOD" "${P_CMD[@]}" 2>p.err || { tail -n 1 p.err; return 1; }
	p_same
}

promise_after() {
	cp "$P_GOOD" p.in && chmod u+w p.in
	printf 'x' >>p.in
	p_fails 65 'end record \(byte [0-9]+\): bytes follow it' <p.in || return
	cat "$P_GOOD" "$P_GOOD" >p.in
	p_fails 65 'end record \(byte [0-9]+\): another frame follows it' <p.in
}

# Frames are missing, repeated or swapped, the head comes twice, or the end too early.
promise_order() {
	local last=$(($(p_frames) - 1)) middle p_order
	p_order='found record [0-9]+ where record [0-9]+ was expected'
	middle=$(seq 1 $((last - 1)))
	p_lab pick "$P_GOOD" $middle "$last" >p.in
	p_fails 65 "$p_order" <p.in || return
	p_lab pick "$P_GOOD" 0 $(seq 2 "$last") >p.in
	p_fails 65 "$p_order" <p.in || return
	p_lab pick "$P_GOOD" 0 1 1 $(seq 2 "$last") >p.in
	p_fails 65 "$p_order" <p.in || return
	p_lab pick "$P_GOOD" 0 2 1 $(seq 3 "$last") >p.in
	p_fails 65 "$p_order" <p.in || return
	p_lab pick "$P_GOOD" 0 0 $middle "$last" >p.in
	p_fails 65 "$p_order" <p.in || return
	p_lab pick "$P_GOOD" 0 $(seq 1 $((last - 2))) "$last" >p.in
	p_fails 65 "$p_order" <p.in || return
	p_lab pick "$P_GOOD" 0 0 >p.in2 && p_lab seq p.in2 >p.in
	p_fails 65 'this is a second head' <p.in
}

promise_killed() {
	rm -f p.fifo && mkfifo p.fifo
	bash -c 'exec 3>p.fifo; "$0" pick "$1" 0 1 >&3; kill -9 $$' \
		"$RF_UNITS/helper/lab" "$P_GOOD" 2>/dev/null &
	p_fails 65 'the end record is missing \(the stream is truncated, or its writer died\)' <p.fifo
	local rc=$?
	wait $! 2>/dev/null || true
	rm p.fifo
	return "$rc"
}

# One frame claims 4 GiB and has as many zeros; another one claims more than its blocks hold.
promise_claims() {
	local P_CMD=("$RF_UNITS/helper/lab" peak "${PROMISE_MIB:-64}" "${P_CMD[@]}")
	p_lab pick "$P_GOOD" 0 >p.in
	{ printf '\x28\xb5\x2f\xfd\xc4\x38\0\0\0\0\1\0\0\0'; printf '\2\0\20\0%.0s' $(seq 32768); } >>p.in
	p_fails 65 'the record claims 4294967296 bytes, more than the limit of 268435456 \(raise --max-' \
		<p.in || return
	p_lab pick "$P_GOOD" 0 >p.in
	printf '\x28\xb5\x2f\xfd\x84\x38\0\0\0\x0f\3\0\20\0\0\0\0\0' >>p.in
	p_fails 65 'the record claims 251658240 bytes, but its blocks hold at most 131072' <p.in
}

promise_usage() {
	p_fails 64 "unknown option '--no-such-option' \(try --help\)" --no-such-option </dev/null || return
	p_fails 64 'needs a value' --max-record </dev/null || return
	p_fails 64 'is not a whole number' --max-record x </dev/null
}

promise_help() {
	local p_rc=0
	"${P_CMD[0]}" --help >p.out 2>p.err </dev/null || p_rc=$?
	[ "$p_rc" -eq 0 ] && [ ! -s p.err ] && grep -q "^usage: $P_NAME " p.out ||
		p_say "--help: no usage with exit status 0" || return
	"${P_CMD[0]}" --version >p.out 2>p.err </dev/null || p_rc=$?
	[ "$p_rc" -eq 0 ] && [ ! -s p.err ] &&
		grep -qE "^$P_NAME [0-9]+\.[0-9]+ \(([0-9a-f]{7,}(-changed)?|unknown)\)$" p.out ||
		p_say "--version: no version with exit status 0" || return
	"${P_CMD[0]}" --help >/dev/full 2>p.err </dev/null || p_rc=$?
	[ "$p_rc" -eq 74 ] || p_say "--help to a full device: exit status $p_rc, not 74"
}

# p_tty COMMAND...: runs the command on a new terminal
p_tty() {
	local quoted
	printf -v quoted '%q ' "$@"
	script -qefc "$quoted" /dev/null </dev/null
}

promise_terminal_in() {
	command -v script >/dev/null || return 0
	p_status=0
	p_tty bash -c '"$@" >p.out 2>p.err' _ "${P_CMD[@]}" >p.tty || p_status=$?
	[ "$p_status" -eq 64 ] || p_say "a terminal as input: exit status $p_status, not 64" || return
	p_line '<stdin>: is a terminal'
}

promise_terminal_out() {
	command -v script >/dev/null || return 0
	p_status=0
	p_tty bash -c '"$@" <"$0" 2>p.err' "$P_GOOD" "${P_CMD[@]}" >p.tty || p_status=$?
	[ "$p_status" -eq 64 ] || p_say "a terminal as output: exit status $p_status, not 64" || return
	p_line '<stdout>: is a terminal' || return
	[ ! -s p.tty ] || p_say "it wrote to the terminal"
}

# The program passes on the head, and then each record, before the next one arrives.
promise_at_once() {
	local pid n
	[ -z "${PROMISE_GATHERS:-}" ] || return 0
	rm -f p.fifo && mkfifo p.fifo
	"${P_CMD[@]}" <p.fifo >p.out 2>p.err &
	pid=$!
	exec 9>p.fifo
	for n in 1 2 3; do
		p_lab pick "$P_GOOD" $((n - 1)) >&9
		for _ in $(seq 300); do
			[ "$(p_lab frames p.out 2>/dev/null | wc -l)" -lt "$n" ] || break
			sleep 0.02
		done
		[ "$(p_lab frames p.out 2>/dev/null | wc -l)" -eq "$n" ] || { exec 9>&-; kill "$pid"; p_say \
			"message $n is not passed on before more comes"; return 1; }
	done
	exec 9>&-
	wait "$pid"
	[ $? -eq 65 ] || p_say "its input was cut, and it does not fail"
}

promise_full() {
	p_status=0
	"${P_CMD[@]}" <"$P_GOOD" >/dev/full 2>p.err || p_status=$?
	[ "$p_status" -eq 74 ] || p_say "a full device: exit status $p_status, not 74" || return
	p_line '<stdout>: .*No space left on device'
}

# The program ends by SIGPIPE without a message if its reader has left, even if its parent ignores SIGPIPE.
promise_reader() {
	local ignore
	for ignore in '' 'trap "" PIPE;'; do
		bash -c "$ignore"' { sleep 0.1; cat "$0"; } | "$@" 2>p.err | true; exit "${PIPESTATUS[1]}"' \
			"$P_GOOD" "${P_CMD[@]}" 2>/dev/null
		p_status=$?
		[ "$p_status" -eq 141 ] ||
			p_say "the reader left: exit status $p_status, not 141 ($ignore)" || return
		[ ! -s p.err ] || p_say "the reader left, and it is not silent" || return
	done
}

promise_output() {
	rm -rf p.dir && mkdir p.dir
	p_works <"$P_GOOD" || return
	mv p.out p.want
	p_run -o p.dir/out.rf <"$P_GOOD"
	[ "$p_status" -eq 0 ] || p_say "-o FILE: exit status $p_status" || return
	[ ! -s p.out ] || p_say "-o FILE, and it wrote to standard output" || return
	cmp p.want p.dir/out.rf || return
	[ "$(ls -A p.dir)" = out.rf ] || p_say "-o FILE leaves more than the file: $(ls -A p.dir)" || return
	# an existing file is replaced; a link is replaced, not followed
	echo precious >p.precious
	ln -sf ../p.precious p.dir/out.rf
	p_run -o p.dir/out.rf <"$P_GOOD"
	[ "$p_status" -eq 0 ] && [ ! -L p.dir/out.rf ] && cmp p.want p.dir/out.rf ||
		p_say "-o LINK does not replace the link" || return
	[ "$(cat p.precious)" = precious ] || p_say "-o LINK wrote through the link"
}

promise_whole_or_not() {
	rm -rf p.dir && mkdir p.dir && echo old >p.dir/out.rf
	head -c $(($(stat -Lc %s "$P_GOOD") - 1)) "$P_GOOD" >p.in
	p_fails 65 'truncated' -o p.dir/out.rf <p.in || return
	[ "$(cat p.dir/out.rf)" = old ] || p_say "-o FILE: it failed, and the file has changed" || return
	[ "$(ls -A p.dir)" = out.rf ] || p_say "-o FILE: it failed, and left $(ls -A p.dir)" || return
	p_fails 74 'p.dir/none/out.rf' -o p.dir/none/out.rf <"$P_GOOD" || return
	p_fails 64 'p.dir: is a directory' -o p.dir <"$P_GOOD" || return
	# a file that may not grow makes the write fail
	p_status=0
	(ulimit -f 0 && "${P_CMD[@]}" -o p.dir/out.rf <"$P_GOOD" 2>&1) | cat >p.err || true
	grep -q 'out.rf: write.*File too large' p.err ||
		p_say "a file-size limit is not a failed write" || return
	[ "$(cat p.dir/out.rf)$(ls -A p.dir)" = oldout.rf ] ||
		p_say "a file-size limit: it failed, and left something"
}

promise_direct() {
	rm -f p.fifo && mkfifo p.fifo
	timeout 10 cat p.fifo >p.got &
	p_run -o p.fifo <"$P_GOOD"
	[ "$p_status" -eq 0 ] || { kill $!; p_say "-o FIFO: exit status $p_status"; return 1; }
	wait $!
	[ -p p.fifo ] || p_say "-o FIFO replaced it" || return
	rf-cat <p.got >p.out2 || return
	p_fails 74 '/dev/full: write: No space' -o /dev/full <"$P_GOOD"
}

# SIGTERM, SIGINT and SIGHUP while the program waits for input leave no file and no temporary file.
promise_term() {
	local sig pid
	for sig in TERM INT HUP; do
		rm -rf p.dir p.fifo && mkdir p.dir && mkfifo p.fifo
		env --default-signal=HUP "${P_CMD[@]}" -o p.dir/out.rf <p.fifo 2>p.err &
		pid=$!
		exec 9>p.fifo
		if [[ $P_GOOD == *.rf ]]; then p_lab pick "$P_GOOD" 0 1; else head -n 1 "$P_GOOD"; fi >&9
		for _ in $(seq 200); do
			[ -z "$(ls -A p.dir)" ] || break
			sleep 0.02
		done
		[ -n "$(ls -A p.dir)" ] ||
			{ exec 9>&-; kill "$pid"; p_say "no temporary appears beside the file"; return 1; }
		kill -"$sig" "$pid"
		p_status=0
		wait "$pid" || p_status=$?
		exec 9>&-
		[ "$p_status" -eq $((128 + $(kill -l "$sig"))) ] ||
			p_say "SIG$sig: exit status $p_status" || return
		[ -z "$(ls -A p.dir)" ] || p_say "SIG$sig leaves $(ls -A p.dir)" || return
	done
}

[ "${BASH_SOURCE[0]}" != "$0" ] || p_keep "$@"
