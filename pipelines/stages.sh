#!/bin/bash
# stages.sh NAME=COMMAND... -- each must be a command or empty; only TRAIN must not be empty.  Words of the
# shell's grammar, such as (cd or X=1, are left to the shell to judge.
set -euo pipefail

for stage; do
	name=${stage%%=*}
	read -r word _ <<<"${stage#*=}" || true
	if [[ -n $word && $word != *[^[:alnum:]_./+-]* ]] && ! command -v -- "$word" >/dev/null; then
		printf '%s: %s: command not found\n' "$name" "$word" >&2
		exit 64
	fi
	if [ "$name$word" = TRAIN ]; then
		echo 'TRAIN is empty: a batch needs a trainer' >&2
		exit 64
	fi
done
