#!/usr/bin/env bats
# rf-dump --where: conditions on numbers.

setup() { load ../helper; }

@test "rf-dump --where: compares whole numbers of 64 bits exactly" {
	# the ids are 2^53, 2^53 + 1, 2^64 - 2 and 2^64 - 1; each row is CONDITION RECORDS
	rf-dump --json "$G/stream/tokens.rf" |
		sed '2s/"id":0/"id":9007199254740992/; 3s/"id":1/"id":9007199254740993/
			4s/"id":2/"id":18446744073709551614/; 5s/"id":3/"id":18446744073709551615/' |
		rf-cat --json -o in
	while read -r condition records; do
		rf-dump --tsv --no-header --rows record --columns record --where "$condition" in >shown 2>err
		[ "$(xargs <shown)" = "$records" ] || { echo "$condition: $(xargs <shown)"; return 1; }
	done <<-'END'
		id=18446744073709551614 3
		id!=18446744073709551615 1 2 3
		id>18446744073709551614 4
		id=18446744073709551616
		id<18446744073709551616 1 2 3 4
		id<=9007199254740992 1
		id>9007199254740992.0 2 3 4
		id>-1 1 2 3 4
		id<1e16 1 2
		record>=2.5 3 4
		record<2.5 1 2
	END
}
