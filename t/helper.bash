# Functions for every test file.  Each test runs in a folder of its own.  $ROOT is the project, $RF_BIN its
# programs, $RF_UNITS the programs of t/unit, t/helper, t/fuzz and t/emu, $G the reference cases.
bats_require_minimum_version 1.5.0
ROOT=${BATS_TEST_DIRNAME%/*/*} # each test file is in a folder of t
RF_BIN=${RF_BIN:-$ROOT/bin}
RF_UNITS=${RF_UNITS:-$ROOT/build/t}
G=$ROOT/t/golden
# A shim of pyenv takes 60 ms of processor time to find Python: the first test looks, for all tests.
if builtin hash python3 2>/dev/null && [[ ${BASH_CMDS[python3]} = */shims/* ]]; then
	python=$BATS_RUN_TMPDIR/python
	[ -e "$python" ] || {
		python3 -c 'import sys; print(sys.executable)' >"$python.$$" || type -P python3 >"$python.$$"
		mv "$python.$$" "$python"
	}
	read -r python <"$python"
	PATH=${python%/*}:$PATH
	unset python
fi
PATH=$RF_BIN:$PATH
export LC_ALL=C
# A make that a test starts must not see the settings of make check.
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES
cd "$BATS_TEST_TMPDIR" || exit
# For the report of a failure, bats notes the place of each command before the command runs.  Without this
# trap it spends most of the time of `run` on its own commands, whose places it then drops.
# shellcheck disable=SC2016  # the trap expands it
if declare -F bats_debug_trap >/dev/null; then
	trap '[[ $BASH_SOURCE = @("$BATS_ROOT/lib"*|"$ROOT/t/helper.bash") ]] ||
		bats_debug_trap "$BASH_SOURCE"' DEBUG
fi

# unit NAME..., helper NAME..., replay NAME FILE...: run a program of t/unit, one of t/helper, a fuzz target
unit() { shown "unit/$1" "${@:2}"; }
helper() { shown "helper/$1" "${@:2}"; }
replay() { shown "fuzz/$1" "${@:2}"; }

# shown ROOM/NAME...: runs the program, and shows its output if it fails, or always with RF_SHOW=1
shown() {
	run "$RF_UNITS/$1" "${@:2}"
	[ -z "${RF_SHOW:-}" ] || sed 's/^/# /' <<<"$output" >&3
	[ "$status" -eq 0 ] || { echo "$output"; return 1; }
}

# like TEXT WANT: succeeds if the text is WANT, in which three dots stand for any characters
like() {
	local want=$2 c
	for c in '\' '*' '?' '[' '('; do
		want=${want//"$c"/"\\$c"}
	done
	# shellcheck disable=SC2053  # a pattern
	[[ $1 == ${want//.../*} ]] || { echo "not '$2': $1"; return 1; }
}

# says STATUS WANT COMMAND...: the command ends with this status, and its one line on standard error is like
# WANT
says() {
	run "-$1" --separate-stderr "${@:3}" || { echo "${*:3}: status $status: $stderr"; return 1; }
	like "$stderr" "$2" || { echo "${*:3}"; return 1; }
	[ "${#stderr_lines[@]}" -eq 1 ] || { echo "${*:3}: more than a line"; return 1; }
}

# quiet COMMAND...: the command succeeds and writes nothing to standard error; silent: it prints nothing at
# all
quiet() {
	run -0 --separate-stderr "$@" && [ -z "$stderr" ] || { echo "$*: status $status: $stderr"; return 1; }
}
silent() {
	quiet "$@" && [ -z "$output" ] || { echo "$*: $output"; return 1; }
}

# mentions STATUS WANT COMMAND...: the command ends with this status, and somewhere in what it prints is WANT
mentions() {
	run "-$1" "${@:3}" || { echo "${*:3}: status $status: $output"; return 1; }
	like "$output" "...$2..." || { echo "${*:3}"; return 1; }
}

# edited FILTER [FILE]: prints the stream with its messages changed by a program of jq
edited() { rf-dump --json "${2:--}" | jq -c "$1" | rf-cat --json; }

# variants FILE NAME [DEFINITIONS]: changes a JSON document by each program of jq on standard input, one a
# line, and writes the results to NAME000, NAME001, ...; a start of jq for each would take most of a test's
# time
variants() {
	{ echo "${3:-}"; sed 's/.*/(&)/' | paste -sd,; } | jq -c -f /dev/stdin "$1" |
		command split -l 1 -d -a 3 - "$2"
}

# messages FILE: prints the messages of a stream as JSON, without the stages with which rf-cat --json records
# that the stream was changed outside, and without the hash that depends on these
messages() {
	rf-dump --json "$1" | jq -c 'if .type == "head" then
			.body.history |= map(select(.options.note != "changed outside"))
			| if .body.history == [] then del(.body.history) else . end
		else del(.body.xxh64) end'
}
# same_messages FILE: succeeds if standard input is a stream with the messages of FILE
same_messages() { messages - | cmp - <(messages "$1"); }

# version: prints the version of rf-tools
version() { sed -n 's/^#define RF_VERSION "\(.*\)"$/\1/p' "$ROOT/lib/base/version.h"; }

# tiny_model: makes $P/config.json of a model over bytes that trains within seconds, and $P/ckpt from it
tiny_model() {
	cat >"$P/config.json" <<-'END'
		{ "model_type": "delta_net", "hidden_size": 16, "num_hidden_layers": 2, "num_heads": 2,
		  "intermediate_size": 24, "vocab_size": 384, "eos_token_id": 1 }
	END
	rf-init --config "$P/config.json" --seed 1 "$P/ckpt"
}
# copy_model MODEL NAME: makes NAME, a writable copy of a model
copy_model() {
	rm -rf "$2"
	cp -r "$1" "$2"
	chmod -R u+w "$2"
}
# same_run A B: succeeds if the newest steps of two runs are the same bytes, with the moments of the optimizer
same_run() { diff -r "$1/latest/" "$2/latest/"; }
# figures LOG: prints a log without times and without the number of ranks
figures() { jq -c 'del(.[keys[] | select(test("^timing_s|^perf|^world$"))])' "$1"; }

# without_figures: from then on gnuplot draws empty figures, in a test that does not look at them
without_figures() {
	[ -z "${RF_ALL:-}" ] || return 0
	mkdir stubs
	printf '#!/bin/sh\n: >scores.png\n: >heat.png\n: >curves.png\n' >stubs/gnuplot
	chmod +x stubs/gnuplot
	PATH=$PWD/stubs:$PATH
}

# listing PAGE N: prints the Nth file that the section EXAMPLES of a page of the manual shows
listing() {
	awk -v n="$2" '/^\.Sh EXAMPLES/ { on = 1 } !on { next }
		/^\.Bd/ { i++; next } /^\.Ed/ { i += i == n } i == n' "$ROOT/man/$1"
}

# bound COMMAND...: runs the command without the power of root to ignore the permissions of files
bound() {
	if [ "$(id -u)" -eq 0 ]; then
		setpriv --inh-caps=-all --bounding-set=-all -- "$@"
	else
		"$@"
	fi
}

# can_trace: skips the test if strace(1) cannot work here
can_trace() {
	! ldd "$(command -v rf-cat)" | grep -q libasan || skip "a sanitizer does not work under strace"
	strace -qq -f -o /dev/null true 2>/dev/null || skip "strace does not work here"
}

# ended_by SIGNAL PID: waits for a process, and succeeds if this signal ended it
ended_by() {
	local status=0
	wait "$2" 2>/dev/null || status=$?
	[ "$status" -eq $((128 + $(kill -l "$1"))) ] || { echo "$1: status $status"; return 1; }
}

# levels: prints the levels of the instruction set that this processor has, as --isa takes them, highest first
levels() { "$RF_UNITS/helper/bench" levels; }

# taken FILE: waits until some process holds the lock of FILE, without taking the lock, which would keep that
# process away
taken() {
	local n
	for ((n = 0; n < 1000; n++)); do
		[ ! -e "$1" ] || ! grep -q ":$(stat -c %i "$1") " /proc/locks || return 0
		sleep .02
	done
	echo "nobody takes the lock of $1"
	return 1
}

# with_page TEXT: prints the text if a report is also written for a browser
with_page() { ! command -v cmark-gfm >/dev/null || printf '%s' "$1"; }
