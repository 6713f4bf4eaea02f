#!/bin/bash
# bench-rows.sh -- functions that print the rows of a benchmark's table.  bench.sh and bench-cuda.sh read this
# file with `.`.

say() { printf '%s\n' "$*" >&2; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.3f", a / b }'; }

# pick FILE LINE UNIT: prints the figure before the unit in the line that begins with LINE
pick() {
	awk -v name="$2" -v unit="$3" '
		index($0, name) == 1 {
			for (i = 1; i < NF; i++)
				if (index($(i + 1), unit) == 1) { print $i; found = 1; exit }
		}
		END { exit !found }' "$1"
}

# row WHAT FIGURE LIMIT NOTE: prints a row.  The limit is ">= n", "<= n" or nothing
row() {
	local short
	short=$(awk -v v="$2" -v limit="$3" 'BEGIN {
		if (v !~ /^[-+]?[0-9.]/) exit 1
		n = substr(limit, 4) + 0; v += 0
		if (limit ~ /^>/ && v < n || limit ~ /^</ && v > n) print "FALLS SHORT " }')
	printf '%-62s %10s  %-8s %s%s\n' "$1" "$2" "$3" "$short" "$4"
}

# measure NAME [WORD...]: runs a function that prints rows.  If the function fails, prints a row FAILED, and
# the bench continues
failed=()
measure() {
	say "$*"
	("$@") &
	wait $! || {
		failed+=("$*")
		printf '%-62s %10s\n' "$*" FAILED
	}
}

# finish: exits with status 1 if a measurement failed
finish() {
	[ ${#failed[@]} -eq 0 ] || {
		say "bench: failed: ${failed[*]}"
		exit 1
	}
}
