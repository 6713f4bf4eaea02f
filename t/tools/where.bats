#!/usr/bin/env bats
# rf-dump --where: conditions on numbers, and columns that no table shows unless they are asked for.

setup() {
	load ../helper
	load ../model
}

# referred: prints a stream of one record with two rollouts of three tokens, the first of which has two tokens
referred() {
	texts 40 1:50 | rf-entropy -m "$M" --nll | rf-select --chunks 1 -k 3 --margin 3 |
		rf-rollout -m "$M" -k 3 -n 2 | rf-reward | edited 'if .type == "seq" then
			.body.rollout |= (.tokens.data = [5, 6, 7, 8, 9, 10]
			| .logp.data = [-1, -2, -3, -4, -5, -6]
			| .logp_ref = (.logp | .data = [-1.5, -2.25, -9, -0.5, -4, -6])
			| .kept = (.logp | .data = [0.75, 1, 0.125, 0.5, 0.25, 0.875])
			| .length = {dtype: "<i4", shape: [1, 2], data: [2, 3]}) else . end' | rf-cat
}

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

@test "rf-dump: shows logp_ref and kept as means of a rollout, of its tokens as text, and in conditions" {
	referred >in
	COLUMNS=140 rf-dump in >text
	for said in 'logp -1.500  logp_ref -1.875  kept 0.875  length 2' '5 -1.00 ref -1.50 kept 0.75' \
		'6 -2.00 ref -2.25 kept 1.00' 'logp -5.000  logp_ref -3.500  kept 0.542  length 3' \
		'10 -6.00 ref -6.00 kept 0.88'; do
		grep -qF -e "$said" text || { echo "no '$said'"; return 1; }
	done
	run ! grep -q -e '-9.00' text
	[ "$(rf-dump --csv --no-header --columns logp,logp_ref,kept in)" = \
		$'-1.5,-1.875,0.875\n-5,-3.5,0.5416667' ]
	[ "$(rf-dump --tsv --no-header --columns rollout --where 'kept<0.6,logp_ref<-3' in)" = 1 ]
	[ "$(rf-dump --tsv --no-header --columns rollout --sort -logp_ref in | paste -sd,)" = 0,1 ]
	# no table shows these columns unless they are asked for, and other rows do not have them
	for rows in record position rollout token; do
		rf-dump --tsv --rows $rows in | head -n 1 | tr '\t' '\n' >names
		run ! grep -qx -e logp_ref -e kept names
	done
	says 64 "rf-dump: --columns: unknown column 'kept'; ..." rf-dump --tsv --rows token --columns kept in
	# a record without the keys has neither
	edited 'del(.body.rollout.logp_ref, .body.rollout.kept)' in >plain
	rf-dump plain >text
	run ! grep -qE 'logp_ref| ref |kept' text
	[ "$(rf-dump --csv --no-header --columns logp,logp_ref,kept plain)" = $'-1.5,,\n-5,,' ]
	says 0 "rf-dump: --where 'kept<1': none of 1 record has 'kept'" \
		rf-dump --tsv --no-header --where 'kept<1' plain
}

@test "rf-dump --json: writes logp_ref and kept, and rf-cat --json reads them back" {
	referred >in
	json in | jq -e '.rollout | .logp_ref.data == [-1.5, -2.25, -9, -0.5, -4, -6]
		and .kept == {dtype: "<f4", shape: [1, 2, 3], data: [0.75, 1, 0.125, 0.5, 0.25, 0.875]}' \
		>/dev/null
	rf-dump --json in | rf-cat --json | same_messages in
	rf-cat in | same_messages in
	rf-dump --json --no-hidden in | sed -n 2p | jq -e '.body.rollout
		| keys == ["kept", "length", "logp", "logp_ref", "temperature", "tokens"]' >/dev/null
}

@test "rf-dump --html: the pointer on a token shows its values of logp_ref and kept" {
	referred >in
	rf-dump --html in >page
	said='title="id 5, log-probability -1.000, of the reference model -1.500, kept 0.750"'
	grep -qF "$said" page
	grep -qF 'title="id 8, log-probability -4.000, of the reference model -0.500, kept 0.500"' page
	run ! grep -qF -e '-9.000' page
	edited 'if .type == "seq" then .body.rollout.logp.data[0] = -3 else . end' in >other
	rf-dump --html --against other in >page
	said=', log-probability -1.000, of the other model -3.000, of the reference model -1.500, kept 0.750"'
	grep -qF "$said" page
}
