#!/bin/bash
# adapted.sh <PROMPTS.rf -- with the variables of rf-loop, in a batch of testtime.mk with RESET=batch:
# evaluates the model and the weights in RUN/adapted on the prompts, writes both losses as the batch's line of
# RUN/adapted.jsonl, and reports them.  A batch has one line, however often it is repeated.
set -euo pipefail
export LC_ALL=C

log=$RUN/adapted.jsonl
trap 'rm -f "$log.prompts" "$log.tmp"' EXIT
cat >"$log.prompts"
# shellcheck disable=SC2086  # options
before=$(rf-ntp --eval -m "$STEP" ${COMPUTE:-} "$log.prompts")
# shellcheck disable=SC2086
after=$(rf-ntp --eval -m "$RUN/adapted" ${COMPUTE:-} "$log.prompts")
{
	# leaves out a line that a crash cut
	[ ! -e "$log" ] || sed -n "/^{\"batch\":$BATCH,/d; /}\$/p" "$log"
	printf '{"batch":%d,"before":%s,"after":%s}\n' "$BATCH" "$before" "$after"
} | sort -t : -k 2n >"$log.tmp"
mv "$log.tmp" "$log"
jq -nr --arg phase "${PHASE:-$RUN}" --argjson batch "$BATCH" --argjson before "$before" \
	--argjson after "$after" '"\($phase): batch \($batch + 1): loss of the prompts \($before.nll) " +
		"before adapting, \($after.nll) after"' >&2
