#!/bin/bash
# numbers.sh LEAST NAME... -- the values of these environment variables must be whole numbers, at
# least that one.
set -euo pipefail

[ $# -ge 1 ] || { echo 'usage: numbers.sh LEAST NAME...' >&2; exit 64; }
least=$1
shift
for name; do
	if ! [[ ${!name} =~ ^(0|[1-9][0-9]{0,17})$ ]] || [ "${!name}" -lt "$least" ]; then
		printf "%s='%s': it must be a whole number, %d or more, of at most 18 digits\n" "$name" \
			"${!name}" "$least" >&2
		exit 64
	fi
done
