#!/bin/bash
# timed.sh DIR NAME COMMAND -- runs the command, and writes it to DIR/NAME.sh and its seconds to
# DIR/NAME.seconds.
set -euo pipefail

[ $# -eq 3 ] || { echo 'usage: timed.sh DIR NAME COMMAND' >&2; exit 64; }
dir=$1 name=$2 command=$3
mkdir -p "$dir"
printf '%s: %s\n' "$name" "$command" >&2
note() {
	printf '%s\n' "$2" >"$dir/$name.$1.tmp"
	mv "$dir/$name.$1.tmp" "$dir/$name.$1"
}
note sh "$command"
SECONDS=0
bash -eu -o pipefail -c "$command"
note seconds "$SECONDS"
