#!/bin/bash
# numbers.sh LEAST NAME=VALUE... -- checks that these are whole numbers, at least that one.
# numbers.sh any NAME=VALUE... -- checks that these are numbers, such as 1e-6.
set -euo pipefail

[ $# -ge 1 ] || { echo 'usage: numbers.sh LEAST NAME=VALUE...' >&2; exit 64; }
least=$1
shift
for word; do
	value=${word#*=}
	if [ "$least" = any ]; then
		[[ ! $value =~ ^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$ ]] || continue
		printf "%s='%s': it must be a number, such as 1e-6\n" "${word%%=*}" "$value" >&2
		exit 64
	fi
	if ! [[ $value =~ ^(0|[1-9][0-9]{0,17})$ ]] || [ "$value" -lt "$least" ]; then
		printf "%s='%s': it must be a whole number, %d or more, of at most 18 digits\n" \
			"${word%%=*}" "$value" "$least" >&2
		exit 64
	fi
done
