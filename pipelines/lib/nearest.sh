#!/bin/bash
# nearest.sh WORD NAME... -- prints the name that is most like the word.  A third of the word's letters may be
# missing, added, different, or exchanged with the letter next to them.  Prints nothing if no name is like it.
set -euo pipefail
export LC_ALL=C

[ $# -ge 1 ] || { echo 'usage: nearest.sh WORD NAME...' >&2; exit 64; }
awk '
function least(a, b) { return a < b ? a : b }
function distance(a, b,    i, j, d, same) {
	for (i = 0; i <= length(a); i++)
		d[i, 0] = i
	for (j = 0; j <= length(b); j++)
		d[0, j] = j
	for (i = 1; i <= length(a); i++)
		for (j = 1; j <= length(b); j++) {
			same = substr(a, i, 1) == substr(b, j, 1)
			d[i, j] = least(least(d[i - 1, j], d[i, j - 1]) + 1, d[i - 1, j - 1] + !same)
			if (i > 1 && j > 1 && substr(a, i, 1) == substr(b, j - 1, 1) &&
			    substr(a, i - 1, 1) == substr(b, j, 1))
				d[i, j] = least(d[i, j], d[i - 2, j - 2] + 1)
		}
	return d[length(a), length(b)]
}
BEGIN {
	word = toupper(ARGV[1])
	nearest = 1 + int(length(word) / 3)
	for (i = 2; i < ARGC; i++)
		if ((far = distance(word, ARGV[i])) < nearest) {
			nearest = far
			name = ARGV[i]
		}
	if (name != "")
		print name
}' "$@"
