#!/bin/bash
# same-words.sh FILE NAME... -- notes the values of these environment variables in FILE; where FILE is there, they must be
# what it says.  So a folder never mixes what two different commands made.
set -euo pipefail
export LC_ALL=C

file=$1
shift
words=$(for name; do printf '%s=%s\n' "$name" "${!name}"; done)

if [ ! -e "$file" ]; then
	mkdir -p "$(dirname "$file")"
	printf '%s\n' "$words" >"$file.tmp"
	mv "$file.tmp" "$file"
elif ! other=$(diff "$file" <(printf '%s\n' "$words")); then
	echo "$file: this was begun with other words (<) than now (>): say the same, or take another RUN" >&2
	grep '^[<>]' <<<"$other" >&2
	exit 65
fi
