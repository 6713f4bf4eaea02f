#!/bin/bash
# study-choose.sh FILE.tsv ... -- prints the settings that make the right answers on validation data most
# probable.  These are the name of a folder, such as refine_1e-4_0.2, whose file has the least mean figure.
set -euo pipefail
[ $# -ge 1 ] || { echo 'usage: study-choose.sh FILE.tsv ...' >&2; exit 64; }
for file; do
	folder=$(dirname -- "$file")
	NAME=${folder##*/} FILE=$file awk '
		$2 !~ /^-?[0-9]/ {
			print ENVIRON["FILE"] ": line " FNR ": no number" >"/dev/stderr"
			bad = 1
			exit
		}
		{ s += $2 }
		END { if (bad || !NR) exit 65; print s / NR "\t" ENVIRON["NAME"] }' <"$file"
done | LC_ALL=C sort -g | head -n 1 | cut -f 2
