#!/bin/bash
# study-answers.sh ANSWERS TOKENIZER OUT -- writes two figures of the answers of a test-time training
# (answer.sh), as lines "figure<TAB>value":
#
#     answers.nll      the nll of the right answer's tokens under the weights that answered
#     answers.score    the percentage of the references that the answers contain
set -euo pipefail
export LC_ALL=C
[ $# -eq 3 ] || { echo 'usage: study-answers.sh ANSWERS TOKENIZER OUT' >&2; exit 64; }
{
	rf-dump --tsv --rows token --columns id,t,nll,prompt_len --no-header --tokenizer "$2" "$1"/*.rf |
		awk -F '\t' '$2 >= $4 - 1 && $3 != "NaN" { n++; s += $3 }
			END { printf "answers.nll\t%.6f\n", s / n }'
	rf-dump --tsv --rows sample --columns answer,written --no-header --tokenizer "$2" "$1"/*.rf |
		awk -F '\t' '
			{
				sub(/\.(\\n)?$/, "", $1)
				n = split($1, right, ", ")
				for (i = 1; i <= n; i++)
					found += (index($2, right[i]) > 0) / n
			}
			END { printf "answers.score\t%.4f\n", 100 * found / NR }'
} >"$3.tmp"
mv "$3.tmp" "$3"
