#!/bin/bash
# same-words.sh FILE NAME... [-- DATA...] -- notes in FILE the values of these environment variables, and size
# and hash of these files; where FILE is there, they must be what it says.  So a folder never mixes what two
# different commands, or two states of the data, made.  Of what is no regular file only the name counts.
set -euo pipefail
export LC_ALL=C

here=$(cd -- "$(dirname -- "$0")" >/dev/null && pwd)
# shellcheck source=pipelines/shown.sh
. "$here/shown.sh"

[ $# -ge 1 ] || { echo 'usage: same-words.sh FILE NAME... [-- DATA...]' >&2; exit 64; }
file=$1
shift

die() {
	local status=$1
	shift
	printf '%s\n' "$*" >&2
	exit "$status"
}

names=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
	names+=("$1")
	shift
done
shift || true
words=$(for name in "${names[@]}"; do printf '%s=%s\n' "$name" "${!name}"; done)
hashes=$("$here/hashes.sh" "$@")
words+=${hashes:+$'\n'$hashes}

if [ ! -e "$file" ]; then
	mkdir -p -- "$(dirname -- "$file")"
	printf '%s\n' "$words" >"$file.tmp"
	mv -- "$file.tmp" "$file"
elif ! other=$(diff -- "$file" <(printf '%s\n' "$words")); then
	other=$(grep '^[<>]' <<<"$other" | shown_lines)
	die 65 "$(shown "$file"): the run was started with other settings or data (<) than now (>):" \
		"use the same, or another RUN, or remove this one"$'\n'"$other"
fi
