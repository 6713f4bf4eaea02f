#!/usr/bin/env bats
# What make lint enforces of lines.
setup() { load helper; }

@test "source: make lint refuses a line of more than 110 columns, with tab stops of 8, and names the line" {
	width() { LC_ALL=C awk -f "$ROOT/lib/width.awk" "$@"; }
	line=$(printf '%0110d' 0)
	printf '%s\n' "$line" $'\t'"${line:8}" $'\t1234567\t'"${line:16}" $'1234567\t'"${line:8}" >good
	printf '%s\n' "${line//0/ü}" >>good
	width good
	printf '%s\n' 'a line' "${line}0" >one.c
	printf '%s\n' $'\t\t'"${line:15}" $'1\t'"${line:7}" "${line//0/ü}ü" >two.sh
	run width good one.c two.sh
	[ "$status" -eq 1 ]
	[ "$(grep -o '^lint: [^ ]*' <<<"$output" | paste -sd' ')" = \
		'lint: one.c:2: lint: two.sh:1: lint: two.sh:2: lint: two.sh:3:' ]
}
