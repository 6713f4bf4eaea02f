#!/bin/bash
# evaluate.sh MODEL POSITIONS.rf OUT -- measures how well a model predicts documents, and continues them.
#
# POSITIONS.rf are sequences with positions: one sequence per document.  Rollouts are drawn at the positions
# with random numbers that do not depend on the model (--draw-step 0), so that two models differ by what they
# learned more than by chance.
#
#     OUT.documents.tsv   one line per document: the nll of next tokens (nats), the accuracy by arg max, and
#                         the NTP accuracy, which is the expected share of drawn tokens that are right; the
#                         mean cosine and binary reward of its rollouts, and their cosine against the text of
#                         the document's next position.  A document that is too short for two different
#                         positions is left out
#     OUT.rollouts.tsv    one line per rollout: these three rewards
#     OUT.html            a page with 20 of the rollouts
#
# From the environment: K tokens (5) and N rollouts (1) per position, COMPUTE, KEEP (not empty: OUT.rf stays),
# and RF_BIN, the folder of the programs.
set -euo pipefail
export LC_ALL=C

if [ $# -ne 3 ]; then
	echo "usage: evaluate.sh MODEL POSITIONS.rf OUT" >&2
	exit 64
fi
lib=$(cd -- "$(dirname -- "$0")" >/dev/null && pwd)
for bin in "${RF_BIN:-}" "$lib/../../bin" "$lib/../../../bin"; do # in the tree, and where it is installed
	[ ! -x "$bin/rf-entropy" ] || break
done
PATH=$bin:$PATH
model=$1 positions=$2 out=$3
case $out in /*) ;; *) out=./$out ;; esac # else awk could take the name of a file for an assignment
mkdir -p "$(dirname "$out")"
trap 'rm -f "$out".*.tmp' EXIT

# shellcheck disable=SC2086  # COMPUTE is options
rf-entropy --nll -m "$model" ${COMPUTE:-} "$positions" |
	rf-rollout -m "$model" ${COMPUTE:-} -k "${K:-5}" -n "${N:-1}" --draw-step 0 -o "$out.rf"

rf-dump --tsv --rows record --columns id,nll_mean,accuracy,ntp_accuracy,source "$out.rf" >"$out.records.tmp"
# drops rollouts of documents with one position, so both tables have the same lines
rf-reward --shift 1 "$out.rf" >"$out.shifted.tmp"
rf-reward -o "$out.rewarded.tmp" "$out.shifted.tmp"
rf-dump --tsv --rows rollout --columns id,cosine,binary "$out.rewarded.tmp" >"$out.own.tmp"
"$lib/sample-page.sh" rollout "$model" "$out.page.tmp" "$out.rewarded.tmp"
rf-dump --tsv --rows rollout --columns cosine "$out.shifted.tmp" | sed 1s/cosine/elsewhere/ >"$out.other.tmp"
paste "$out.own.tmp" "$out.other.tmp" >"$out.rollouts.tmp"
[ -n "${KEEP:-}" ] || rm "$out.rf"

awk -F '\t' -v OFS='\t' '
	FNR == 1 { file++; next }
	file == 1 { n[$1]++; cosine[$1] += $2; binary[$1] += $3; elsewhere[$1] += $4; next }
	FNR == 2 {
		print "id", "nll", "accuracy", "ntp_accuracy", "cosine", "binary", "elsewhere", "document"
	}
	n[$1] { print $1, $2, $3, $4, cosine[$1] / n[$1], binary[$1] / n[$1], elsewhere[$1] / n[$1], $5 }
' "$out.rollouts.tmp" "$out.records.tmp" >"$out.documents.tmp"

if [ "$(wc -l <"$out.documents.tmp")" -lt 2 ]; then
	echo "evaluate.sh: $positions: no sequence has two different positions to evaluate" \
		"(rf-select chooses them)" >&2
	exit 65
fi
mv "$out.page.tmp" "$out.html"
mv "$out.rollouts.tmp" "$out.rollouts.tsv"
mv "$out.documents.tmp" "$out.documents.tsv"
