#!/bin/bash
# phase.sh DIR NAME COMMAND -- runs a command, which then stands in DIR/NAME.sh, and the seconds it took in DIR/NAME.seconds.
set -euo pipefail

dir=$1 name=$2 command=$3
mkdir -p "$dir"
printf '%s: %s\n' "$name" "$command" >&2
printf '%s\n' "$command" >"$dir/$name.sh"
SECONDS=0
bash -eu -o pipefail -c "$command"
printf '%s\n' "$SECONDS" >"$dir/$name.seconds"
