#!/bin/bash
# numbers.sh LEAST NAME=VALUE... -- these must be whole numbers, at least that one.
set -euo pipefail

[ $# -ge 1 ] || { echo 'usage: numbers.sh LEAST NAME=VALUE...' >&2; exit 64; }
least=$1
shift
for word; do
	value=${word#*=}
	if ! [[ $value =~ ^(0|[1-9][0-9]{0,17})$ ]] || [ "$value" -lt "$least" ]; then
		printf "%s='%s': it must be a whole number, %d or more, of at most 18 digits\n" \
			"${word%%=*}" "$value" "$least" >&2
		exit 64
	fi
done
