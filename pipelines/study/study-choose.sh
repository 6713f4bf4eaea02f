#!/bin/bash
# study-choose.sh FILE.tsv ... -- prints the setting with the most exact answers, which is the name of a
# folder, such as refine_1e-4_0.2.  A folder has a file of study-measure.sh or study-answers.sh for each seed.
# Exact answers are the mean over seeds and loads.  If settings are equal, the one with the fewest nats is
# printed.
set -euo pipefail
export LC_ALL=C
[ $# -ge 1 ] || { echo 'usage: study-choose.sh FILE.tsv ...' >&2; exit 64; }
for file; do
	folder=$(dirname -- "$file")
	NAME=${folder##*/} FILE=$file awk -F '\t' '
		$1 ~ /^(exact-|later-|answers)/ && $2 !~ /^-?[0-9]/ {
			print ENVIRON["FILE"] ": line " FNR ": no number" >"/dev/stderr"
			exit bad = 65
		}
		$1 ~ /^exact-|^answers.score/ { exact += $2; n++ }
		$1 ~ /^later-|^answers.nll/ { nats += $2 }
		END {
			if (!bad && !n) {
				print ENVIRON["FILE"] ": has no exact answers" >"/dev/stderr"
				bad = 65
			}
			if (bad)
				exit bad
			print ENVIRON["NAME"] "\t" exact / n "\t" nats / n
		}' <"$file"
done | awk -F '\t' '
	{ n[$1]++; exact[$1] += $2; nats[$1] += $3 }
	END { for (s in n) printf "%.6f\t%.6f\t%s\n", exact[s] / n[s], nats[s] / n[s], s }' |
	sort -k1,1gr -k2,2g -k3 | sed -n '1s/.*\t//p'
