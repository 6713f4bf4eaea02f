#!/usr/bin/env bats
# rf-dump: shows streams and checkpoints as text, tables and JSON, and checks them.

setup() {
	load ../helper
	load ../promises
}

# ---- streams made for the purpose --------------------------------------------------------------

# ids TEXT: prints the tokens that the byte tokenizer makes of TEXT, whose escapes printf %b expands
ids() {
	printf '%b' "$1" | od -An -v -tu1 |
		awk '{ for (i = 1; i <= NF; i++) printf "%s%d", n++ ? "," : "", $i + 3 }'
}

# array DTYPE SHAPE NUMBERS: prints an array as JSON
array() {
	printf '{"dtype":"%s","shape":[%s],"data":[%s]}' "$1" "$2" "$3"
}

# head_line BODY: prints the head of a stream with the byte tokenizer
head_line() {
	printf '{"seq":0,"type":"head","body":{"format":1,%s"vocab":384,' "$1"
	printf '"tokenizer":{"kind":"bytes","hash":"2d83aaba506794c4"}}}\n'
}

# end_line RECORDS: prints the end record of a stream
end_line() {
	echo '{"seq":'$(($1 + 1))',"type":"end","body":{"count":'"$1"',"xxh64":0}}'
}

# example FILE: makes a stream of three records: one with rewarded rollouts, one with entropies, one with
# only tokens; its strings have characters that need an escape
example() {
	local text='The quick brown fox jumps over the lazy dog.\n' entropy logp history
	history='"history":[{"tool":"rf-tokenize","version":"0.1",'
	history+='"options":{"bytes":true,"max-len":2048,"strict":false}},'
	history+='{"tool":"rf-select","version":"0.2",'
	history+='"options":{"k":5,"tau":0.1,"lr":1e-6,"mode":"it'"'"'s \u001b[31mred"}}],'
	entropy=$(seq -s, 0.5 0.25 11.5)
	logp=-0.5,-1.25,-0.125,-3,-2,-1,-2,-3,-4,-5,-0.1,-0.2,-0.3,-0.4,-0.5,-6,-7,-8,-9,-10
	{
		head_line "$history"
		printf '%s' '{"seq":1,"type":"seq","body":{"id":17,"tokens":' \
			"$(array '<i4' 45 "$(ids "$text")")" \
			',"prompt_len":20,"answers":["a \"dog\""],"source":"doc"' \
			',"meta":{"n":1,"s":"\u0007x"}' \
			',"entropy":' "$(array '<f4' 45 "$entropy")" \
			',"nll":' "$(array '<f4' 44 "${entropy%,*}")" \
			',"positions":' "$(array '<i4' 2 10,35)" \
			',"rollout":{"temperature":1.0,"tokens":' \
			"$(array '<i4' 2,2,5 "$(ids 'brownblacklazy tall\n')")" \
			',"logp":' "$(array '<f4' 2,2,5 "$logp")" \
			'},"reward":{"kind":"hybrid","total":' "$(array '<f4' 2,2 2,0.75,1.9,0.05)" \
			',"cosine":' "$(array '<f4' 2,2 1,0.55,0.9,0.05)" \
			',"binary":' "$(array '<f4' 2,2 1,0.2,1,0)" \
			',"edit":' "$(array '<f4' 2,2 1,0.2,1,0.4)" \
			'},"advantage":' "$(array '<f4' 2,2 0.70710677,-0.70710677,0.5,-0.5)" '}}'
		echo
		printf '%s' '{"seq":2,"type":"seq","body":{"id":3,"tokens":' \
			"$(array '<i4' 45 "$(ids "$text")")" \
			',"source":"a\u001b]0;x\u0007b\u009b31mc\td\ne\u202ef","entropy":' \
			"$(array '<f4' 45 "$entropy")" '}}'
		echo
		printf '%s' '{"seq":3,"type":"seq","body":{"id":4,"tokens":' \
			"$(array '<i4' 15 "$(ids 'a\tb\\\\c\n\033[31m\xff\xc3\xb6')")" '}}'
		echo
		end_line 3
	} | rf-cat --json -o "$1"
}

# entropies FILE: makes a stream of 40 records with entropies
entropies() {
	{
		head_line ''
		awk 'BEGIN {
			for (r = 1; r <= 40; r++) {
				printf "{\"seq\":%d,\"type\":\"seq\",\"body\":{\"id\":%d,", r, 7 * r
				printf "\"tokens\":{\"dtype\":\"<i4\",\"shape\":[50],\"data\":["
				for (t = 0; t < 50; t++) printf "%s%d", t ? "," : "", 100 + (r * t) % 26
				printf "]},\"entropy\":{\"dtype\":\"<f4\",\"shape\":[50],\"data\":["
				for (t = 0; t < 50; t++)
					printf "%s%s", t ? "," : "", (r * 7919 + t * 104729) % 10007 / 4096
				printf "]}}}\n"
			}
		}'
		end_line 40
	} | rf-cat --json -o "$1"
}

# safetensors FILE HEADER: makes a file of tensors, whose data it reads from standard input
safetensors() {
	local n=${#2}
	{
		printf '%b' "\\0$(printf %o $((n & 255)))\\0$(printf %o $((n >> 8)))\\0\\0\\0\\0\\0\\0"
		printf '%s' "$2"
		cat
	} >"$1"
}

# only_text FILE: succeeds if the file has no character that controls a terminal
only_text() {
	! LC_ALL=C grep -qP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xaa-\xae]' "$1"
}

# column NAME FILE: prints the values of a column of a table
column() {
	awk -F '\t' -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) c = i }
		NR > 1 { print $c }' "$2"
}

# ---- the promises ------------------------------------------------------------------------------

@test "rf-dump: keeps the promises of a sink" {
	PROMISE_CUTS=${RF_ALL:+5050} promises sink "$G/stream/tokens.rf" rf-dump
	promises sink "$G/stream/rewarded.rf" rf-dump --tsv
}

@test "rf-dump: keeps the promises of a sink with --json, with --check and with --sort" {
	promises sink "$G/stream/rewarded.rf" rf-dump --json
	names='whole empty nothing foreign cuts after order killed claims'
	promise "$names" sink "$G/stream/tokens.rf" rf-dump --check
	promise "$names" sink "$G/stream/tokens.rf" rf-dump --tsv --sort id
}

@test "rf-dump: safe text, columns, conditions and sampling of rows agree with second implementations" {
	unit table
}

# ---- text --------------------------------------------------------------------------------------

@test "rf-dump: text shows prefix, truth, and each rollout with its rewards, advantage and logp" {
	example x.rf
	rf-dump -n 2 x.rf >got
	cat >want <<'X'
record 1  id 17  "doc"  T 45  prompt_len 20  entropy mean 6.000 max 11.500  nll 5.875  c 2
  n 2  k 5  temperature 1  reward "hybrid"  mean 1.175 min 0.050 max 2.000  answer "a \"dog\""
  meta {"n": 1, "s": "\x07x"}
  position 0  s 10  entropy 2.750  nll 2.750
    prefix     "The quick "
    truth      "brown"
    rollout 0  reward 2.000  cosine 1.000  binary 1.000  edit 1.000  advantage +0.707  logp -1.375
               "brown"
               "b"= -0.50  "r"= -1.25  "o"= -0.12  "w"= -3.00  "n"= -2.00
    rollout 1  reward 0.750  cosine 0.550  binary 0.200  edit 0.200  advantage -0.707  logp -3.000
               "black"
               "b"= -1.00  "l" -2.00  "a" -3.00  "c" -4.00  "k" -5.00
X
	diff want got
}

@test "rf-dump: shows tokens as numbers if the stream has no tokenizer" {
	rf-dump --rows position -n 2 "$G/stream/rewarded.rf" >got
	cat >want <<'X'
record 1  id 0  "doc 0"  T 61  c 4  n 3  k 3  temperature 0.8  reward "hybrid"
  mean 0.497 min 0.078 max 2.000
  meta {"note": "ü", "n": 0, "x": 0.5}
  position 0  s 1
    prefix     33
    truth      9 31 17
  position 1  s 20
    prefix     33 9 31 17 17 9 6 4 38 37 17 36 5 11 7 19 3 4 21 13
    truth      19 9 31
X
	diff want got
	rf-dump -n 4 "$G/stream/rewarded.rf" | tail -n 3 >got
	cat >want <<'X'
    truth      19 9 31
    rollout 0  reward 2.000  cosine 1.000  binary 1.000  edit 1.000  logp -5.415
               19= -4.01  9= -5.35  31= -6.88
X
	diff want got
}

@test "rf-dump: a rollout that is longer than the rest of the text is compared with that rest only" {
	# 15, the position, is drawn as a token too: it must not match if positions lie after tokens in memory
	{
		head_line ''
		printf '%s' '{"seq":1,"type":"seq","body":{"id":0,"tokens":' \
			"$(array '<i4' 16 "$(seq -s, 100 115)")" ',"positions":' "$(array '<i4' 1 15)" \
			',"rollout":{"temperature":1.0,"tokens":' "$(array '<i4' 1,1,4 115,15,15,104)" '}}}'
		echo
		end_line 1
	} | rf-cat --json -o x.rf
	rf-dump x.rf | tail -n 5 |
		diff - <(printf '%s\n' '    prefix     "abcdefghijklmno"' '    truth      "p"' \
		'    rollout 0' '               "p\x0c\x0ce"' '               "p"=  "\x0c"  "\x0c"  "e"')
}

@test "rf-dump: shows a record as soon as it has arrived" {
	mkfifo fifo
	rf-dump --tsv --rows record <fifo >got 3>&- &
	exec 9>fifo
	"$RF_UNITS/helper/lab" pick "$G/stream/tokens.rf" 0 1 2 >&9
	for _ in $(seq 200); do
		[ "$(wc -l <got)" -lt 3 ] || break
		sleep 0.02
	done
	[ "$(wc -l <got)" -eq 3 ]
	exec 9>&-
	run ! wait $!
}

@test "rf-dump: without positions text shows the most uncertain tokens, without entropies the first tokens" {
	example x.rf
	rf-dump x.rf | sed -n '/id 3/,$p' >got
	[ "$(grep -c '^  t ' got)" -eq 8 ]
	grep -qF '  t 44      entropy 11.500  "uick brown fox jumps over the lazy dog.\n" | ""' got
	grep -qF '  t 39      entropy 10.250  "The quick brown fox jumps over the lazy " | "dog.\n"' got
	[ "$(tail -n 1 got)" = '  text         "a\tb\\\\c\n\x1b[31m'$'\xef\xbf\xbd\xc3\xb6"' ]
}

@test "rf-dump: text fits the width of the terminal, and the prefix is cut at its beginning" {
	example x.rf
	COLUMNS=60 rf-dump --context 30 x.rf >got
	[ "$(LC_ALL=C.UTF-8 awk '{ if (length > n) n = length } END { print n }' got)" -le 60 ]
	grep -qF '    prefix     "uick brown fox jumps over the "' got
	COLUMNS=40 rf-dump x.rf >got
	grep -qF '    prefix     "... fox jumps over the "' got
	rf-tokenize --bytes --format text <(printf 'x%.0s' {1..3000}) 2>/dev/null | rf-dump | tail -n 1 |
		grep -qF 'xxx..."'
}

@test "rf-dump: on a terminal, or if asked to, marks in colour the rollout tokens that agree with the text" {
	example x.rf
	rf-dump --color always x.rf | grep -qF $'\e[32m"b"= -1.00\e[m  \e[33m"l" -2.00\e[m'
	rf-dump --color always x.rf | sed 's/\x1b\[[0-9]*m//g' | cmp - <(rf-dump x.rf)
	rf-dump x.rf >plain
	only_text plain
	command -v script >/dev/null || skip "no script(1)"
	export TERM=xterm COLUMNS=100
	script -qec "rf-dump x.rf" /dev/null </dev/null | grep -q $'\e\[1m'
	! script -qec "NO_COLOR=1 rf-dump x.rf" /dev/null </dev/null | grep -q $'\e' || false
	! script -qec "TERM=dumb rf-dump x.rf" /dev/null </dev/null | grep -q $'\e' || false
	! script -qec "rf-dump --color never x.rf" /dev/null </dev/null | grep -q $'\e' || false
}

@test "rf-dump: refuses another tokenizer than the stream's one; without a tokenizer, tokens are numbers" {
	head_line '' | sed 's/"bytes"/"odd"/' >lines
	{
		cat lines
		echo '{"seq":1,"type":"seq","body":{"id":0,"tokens":'"$(array '<i4' 2 100,101)"'}}'
		end_line 1
	} | rf-cat --json -o odd.rf
	run --separate-stderr rf-dump odd.rf
	[ "$status" -eq 0 ]
	[[ $output == *"  text         100 101" ]]
	said="tokens are shown as numbers: its tokenizer is 'odd'"
	[[ $stderr == "rf-dump: odd.rf: $said, give it with --tokenizer, -m or RF_TOKENIZER" ]]
	# the message appears only if tokens are shown
	run -0 --separate-stderr rf-dump --tsv --rows record --columns id,T odd.rf
	[ "$output:$stderr" = $'id\tT\n0\t2:' ]
	mentions 0 '  text         "ab"' rf-dump --tokenizer bytes odd.rf
	sed 's/2d83aaba506794c4/0000000000000001/' lines >other
	{ cat other; end_line 0; } | rf-cat --json -o odd.rf
	mentions 65 "was made with the tokenizer 'odd' 0000000000000001, not with 'bytes' 2d83aaba506794c4" \
		rf-dump --tokenizer bytes odd.rf
	run -78 rf-dump -m "$G/delta" odd.rf
	{
		echo '{"seq":0,"type":"head","body":{"format":1}}'
		echo '{"seq":1,"type":"seq","body":{"id":0,"tokens":'"$(array '<i4' 2 100,4000)"'}}'
		end_line 1
	} | rf-cat --json -o odd.rf
	mentions 0 '  text         "a<4000>"' rf-dump --tokenizer bytes odd.rf
}

# ---- rows --------------------------------------------------------------------------------------

@test "rf-dump --tsv: prints a row per rollout, and NaN for missing values" {
	example x.rf
	rf-dump --tsv x.rf >got
	texts='source prefix generated truth' missing='NaN NaN NaN NaN NaN NaN NaN NaN NaN NaN NaN'
	printf '%s\n' \
		"id position s entropy rollout k reward cosine binary edit advantage logp $texts" \
		'17 0 10 2.75 0 5 2 1 1 1 0.70710677 -1.375 doc The_quick_ brown brown' \
		'17 0 10 2.75 1 5 0.75 0.55 0.2 0.2 -0.70710677 -3 doc The_quick_ black brown' \
		'17 1 35 9 0 5 1.9 0.9 1 1 0.5 -0.3 doc The_quick_brown_fox_jumps_over_the_ lazy_ lazy_' \
		'17 1 35 9 1 5 0.05 0.05 0 0.4 -0.5 -8 doc The_quick_brown_fox_jumps_over_the_ tall\n lazy_' \
		"3 $missing "'a\x1b]0;x\x07b\u009b31mc\td\ne\u202ef NaN NaN NaN' \
		"4 $missing NaN NaN NaN NaN" | tr ' _' '\t ' >want
	diff want got
	rf-dump --tsv --no-header x.rf | diff <(tail -n +2 want) -
}

# parts FILE: makes the example with two more reward parts in the first record, of which one has the name of
# another column
parts() {
	example whole.rf
	rf-dump --json whole.rf | jq -c 'if .seq == 1 then .body.reward |= (.edit as $x | .parts = {
		brevity: ($x | .data = [0.125, 3, -1, 0.5]),
		nll: ($x | .data = [7, 8, 9, 10])}) else . end' | rf-cat --json -o "$1"
}

@test "rf-dump: shows reward parts that only the stream names and selects by them, as text, TSV and JSON" {
	parts p.rf
	rf-dump -n 1 p.rf | grep '^    rollout 0' >got
	diff - got <<-'X'
		    rollout 0  reward 2.000  cosine 1.000  binary 1.000  edit 1.000  brevity 0.125  nll 7.000
	X
	rf-dump --tsv p.rf | cut -f 4,7-13 >got
	diff - got <<-'X'
		entropy	reward	cosine	binary	edit	brevity	reward.nll	advantage
		2.75	2	1	1	1	0.125	7	0.70710677
		2.75	0.75	0.55	0.2	0.2	3	8	-0.70710677
		9	1.9	0.9	1	1	-1	9	0.5
		9	0.05	0.05	0	0.4	0.5	10	-0.5
		NaN	NaN	NaN	NaN	NaN	NaN	NaN	NaN
		NaN	NaN	NaN	NaN	NaN	NaN	NaN	NaN
	X
	rf-dump --json p.rf | rf-cat --json | same_messages p.rf
	rf-cat p.rf | rf-dump --json | jq -c .body.reward | diff - <(rf-dump --json p.rf | jq -c .body.reward)
	rf-dump --check -q p.rf
	# each form of output selects and sorts by the parts
	rf-dump --tsv --columns brevity,nll,reward.nll --where 'brevity>0,reward.nll<9.5' --sort -brevity \
		p.rf | diff <(printf 'brevity\tnll\treward.nll\n3\t2.75\t8\n0.125\t2.75\t7\n') -
	rf-dump --where 'brevity<0' p.rf | grep -c '^    rollout' | grep -qx 1
	rf-dump --json --where 'reward.brevity<0' p.rf | jq -c '[.seq, .type]' | paste -sd' ' |
		grep -qxF '[0,"head"] [1,"seq"] [4,"end"]'
	# the first row decides the columns of a table: in late.rf only a later record has rewards
	rf-dump --json p.rf | awk 'NR == 2 { late = $0; next } NR == 4 { $0 = $0 "\n" late } { print }' |
		rf-cat --json --renumber >late.rf
	run ! grep -q brevity <(rf-dump --tsv late.rf)
	rf-dump --tsv --rows rollout late.rf | grep -q $'^id\t.*\tedit\tbrevity\treward.nll\tadvantage'
	rf-dump --tsv --columns id,brevity late.rf | head -n 4 |
		diff <(printf 'id\tbrevity\n3\tNaN\n4\tNaN\n17\t0.125\n') -
}

@test "rf-dump: an unknown column is an error, but reward.NAME is accepted even if no record has this part" {
	parts p.rf
	while IFS='|' read -r options; do
		# shellcheck disable=SC2086
		run -64 --separate-stderr rf-dump $options p.rf
		[[ -z $output || $options == --json* && ${#lines[@]} -eq 1 ]]
		[[ $stderr == "rf-dump: --"*": unknown column 'brevty'; the columns are file, record, "* ]]
		[[ $stderr == *", edit, brevity, reward.nll, advantage, "* ]]
		[[ $stderr == *"; if only other records have this part, use reward.brevty" ]]
	done <<-'END'
		--where brevty<1
		--sort -brevty
		--tsv --columns id,brevty
		--tsv --columns id,brevty --rows rollout
		--json --where brevty<1
	END
	run -64 --separate-stderr rf-dump --where 'brevty<1' "$G/stream/tokens.rf"
	[[ $stderr == "rf-dump: --where: unknown column 'brevty'; the columns are "*", edit, advantage, "* ]]
	run -64 rf-dump --rows position --where 'brevity<1' p.rf
	# the prefix says that it is a reward part: any record may have this part, or none
	run -0 --separate-stderr rf-dump --where 'reward.brevty<1' p.rf
	[ "$stderr" = "rf-dump: --where 'reward.brevty<1': none of 3 records has 'brevty'" ]
	[ "$(rf-dump --tsv --columns reward.brevty p.rf | uniq | paste -sd' ')" = "brevty NaN" ]
	# a record that was not read may have the part
	example first.rf
	rf-dump --json first.rf | awk 'NR != 2' | rf-cat --json --renumber >none.rf
	run -0 rf-dump --tsv --columns id,brevity -n 1 none.rf p.rf
	[ "$output" = $'id\tbrevity\n3\tNaN' ]
	run -64 rf-dump --tsv --columns id,brevity none.rf
	[ "$(rf-dump --tsv --columns id,brevity none.rf p.rf | sed -n 4p)" = $'17\t0.125' ]
	# a table without rows has only its first line
	rf-dump --tsv --rows rollout --columns id,edit "$G/stream/tokens.rf" 2>err | grep -qx $'id\tedit'
}

@test "rf-dump --tsv: all rows of a table have the same number of columns" {
	example x.rf
	entropies e.rf
	rf-select --chunks 4 -k 2 --margin 2 --seed 1 e.rf -o s.rf 2>/dev/null
	for file in x.rf e.rf s.rf "$G"/stream/*.rf; do
		for rows in auto record position rollout token; do
			rf-dump --tsv --rows $rows "$file" >got
			awk -F '\t' 'NR == 1 { n = NF }
				NF != n || /(^|\t)($|\t)/ || / [a-z]+\t/ && NR == 1 { bad = 1 }
				END { exit bad || n < 8 }' got
		done
	done
	rf-dump --tsv --rows record x.rf | wc -l | grep -qx 4
	rf-dump --tsv --rows token x.rf | wc -l | grep -qx 106
	rf-dump --tsv --rows position s.rf | wc -l | grep -qx 161
	rf-dump --tsv --rows rollout "$G/stream/rewarded.rf" | wc -l | grep -qx 37
}

@test "rf-dump --tsv --rows token: shows each token's entropy and whether it was chosen as a position" {
	entropies e.rf
	rf-select --chunks 4 -k 2 --margin 2 --seed 1 e.rf -o s.rf 2>/dev/null
	rf-dump --tsv --rows token --where id=14 s.rf >tokens
	rf-dump --tsv --rows position --where id=14 s.rf >positions
	[ "$(wc -l <tokens)" -eq 51 ]
	[ "$(wc -l <positions)" -eq 5 ]
	column t tokens | diff <(seq 0 49) -
	# a position s was chosen at t = s - 1, and has the entropy of t
	awk -F '\t' '$7 == 1 { print $2 + 1 "\t" $4 }' tokens |
		diff - <(awk -F '\t' 'NR > 1 { print $3 "\t" $4 }' positions)
	rf-dump --tsv --rows token --columns t,text,token -n 3 e.rf |
		diff <(printf 't\ttext\ttoken\n0\ta\t100\n1\tb\t101\n2\tc\t102\n') -
}

@test "rf-dump: shows choices with their log-probabilities, as text, in rows and as JSON" {
	printf '{"q":"The capital is","c":["Rome.","one"]}\n{"q":["AB","AC"],"c":["x","x"]}\n' |
		rf-tokenize --bytes --prompt-key q --choices-key c --answer-prefix ' ' >asked.rf
	rf-dump asked.rf | sed 's/ *$//' | diff - <(cat <<-'END'
		record 1  id 0  T 14  prompt_len 14  choices 2
		  prompt       "The capital is"
		  choice 0     length 6
		               " Rome."
		  choice 1     length 4
		               " one"

		record 2  id 1  T 1  prompt_len 1  choices 2
		  prompt       "A"
		  choice 0     length 3  from 1
		               " x"
		  choice 1     length 3  from 1
		               " x"
	END
	)
	rf-dump --json asked.rf | jq -c 'if .seq == 1 then .body.choice += {logp: {dtype: "<f4", shape: [2],
		data: [-3.25, -0.1]}, greedy: {dtype: "<i4", shape: [2], data: [0, 1]}} else . end' |
		rf-cat --json >scored.rf
	rf-dump --json scored.rf | rf-cat --json | same_messages scored.rf
	rf-dump --rows choice --sort -logp -n 1 scored.rf |
		grep -q '^  choice 1     logp -0.100  greedy  length 4'
	rf-dump --tsv --rows choice scored.rf | diff - <(printf '%b' \
		'id\tT\tchoice\tlogp\tgreedy\tlength\tfrom\n0\t14\t0\t-3.25\t0\t6\t0\n' \
		'0\t14\t1\t-0.1\t1\t4\t0\n1\t1\t0\tNaN\tNaN\t3\t1\n1\t1\t1\tNaN\tNaN\t3\t1\n')
	[ "$(rf-dump --tsv --no-header --rows choice --columns text --where greedy=1 scored.rf)" = ' one' ]
	says 0 "...no row: none of 4 records has choices" rf-dump --tsv --rows choice "$G/stream/tokens.rf"
}

@test "rf-dump --where: shows the rows for which all conditions hold, and no others" {
	rf-dump --tsv "$G/stream/rewarded.rf" >all
	rf-dump --tsv --where 'reward<0.3' "$G/stream/rewarded.rf" |
		diff <(awk -F '\t' 'NR == 1 || $7 < 0.3' all) -
	rf-dump --tsv --where 'reward>=0.3,rollout!=1 and logp<-4' "$G/stream/rewarded.rf" |
		diff <(awk -F '\t' 'NR == 1 || $7 >= 0.3 && $5 != 1 && $12 < -4' all) -
	rf-dump --tsv --where 'advantage>-1000' "$G/stream/rewarded.rf" | diff <(head -n 1 all) -
	rf-dump --where 'reward<0.3' "$G/stream/rewarded.rf" | grep -c '^    rollout' |
		grep -qx "$(awk -F '\t' 'NR > 1 && $7 < 0.3' all | wc -l)"
	run -64 rf-dump --where 'reword<1' "$G/stream/rewarded.rf"
	[[ $output == "rf-dump: --where: unknown column 'reword'; the columns are file, record, id, T, "* ]]
	run -64 rf-dump --where 'reward' "$G/stream/rewarded.rf"
	run -64 rf-dump --where 'source=1' "$G/stream/rewarded.rf"
}

@test "rf-dump --sort: sorts up or down, puts missing values last and keeps the order of equal ones" {
	rows() { rf-dump --tsv --no-header --rows rollout "$@" "$G/stream/rewarded.rf"; }
	rows >all
	rows --sort reward | diff <(LC_ALL=C sort -s -t $'\t' -k 7,7g all) -
	rows --sort -reward | diff <(LC_ALL=C sort -s -t $'\t' -k 7,7gr all) -
	rows --sort -binary -n 5 | diff <(LC_ALL=C sort -s -t $'\t' -k 9,9gr all | head -n 5) -
	example x.rf
	for sort in s -s; do
		rf-dump --tsv --sort $sort --columns id,s x.rf | tail -n 2 |
			diff <(printf '3\tNaN\n4\tNaN\n') -
	done
	# in text each rollout follows its position
	printf '%s\n' '  position 1  s 35  entro' '    rollout 1  reward 0.0' \
		'  position 0  s 10  entro' '    rollout 1  reward 0.7' >want
	rf-dump --sort reward -n 2 x.rf | grep -E '^  position|^    rollout' | cut -c 1-25 | diff - want
	run -64 rf-dump --sort source x.rf
}

@test "rf-dump --sample: takes as many rows as asked for, each at most once, determined by the seed" {
	entropies e.rf
	rf-dump --tsv --no-header --rows token e.rf >all
	rf-dump --tsv --no-header --rows token --sample 100 --seed 1 e.rf >a
	[ "$(sort -u a | wc -l)" -eq 100 ]
	grep -Fxf a all | diff a - # in the order of the stream
	rf-dump --tsv --no-header --rows token --sample 100 --seed 1 e.rf | diff a -
	rf-dump --tsv --no-header --rows token --sample 100 --seed 2 e.rf | run ! diff -q a -
	# a smaller sample is part of a larger one, and the order of the records changes nothing
	rf-dump --tsv --no-header --rows token --sample 30 --seed 1 e.rf >b
	[ "$(grep -cFxf b a)" -eq 30 ]
	rf-cat --shuffle --seed 5 e.rf | rf-dump --tsv --no-header --rows token --sample 100 --seed 1 | sort |
		diff <(sort a) -
	rf-dump --tsv --no-header --rows token --sample 100 --seed 1 --sort -entropy -n 10 e.rf |
		diff <(LC_ALL=C sort -s -t $'\t' -k 4,4gr a | head -n 10) -
	# no row is preferred: each of 40 records is in about an eighth of the samples of 5 records
	[ -n "${RF_ALL:-}" ] && n=400 || n=200
	for i in $(seq $n); do
		rf-dump --tsv --no-header --rows record --columns id --sample 5 --seed "$i" e.rf
	done >many
	sort many | uniq -c |
		awk -v n=$n '$1 < n / 16 || $1 > n / 5 { bad = 1 } END { exit bad || NR != 40 }'
	[ "$(rf-dump --tsv --no-header --sample 1000 e.rf | wc -l)" -eq 40 ]
}

@test "rf-dump -n: shows the first rows, and still reads a pipe to its end unless --no-drain" {
	rf-dump --tsv "$G/stream/rewarded.rf" | head -n 6 |
		diff - <(rf-dump --tsv -n 5 "$G/stream/rewarded.rf")
	head -c 600000 /dev/urandom >noise
	rf-tokenize --bytes --format text --max-len 1000 --truncate split noise -o noise.rf 2>/dev/null
	for how in -n1 "--json -n 1" --head; do
		# shellcheck disable=SC2086
		bash -o pipefail -c "cat noise.rf | rf-dump $how >/dev/null"
		run bash -c "cat noise.rf | rf-dump --no-drain $how >/dev/null; echo \${PIPESTATUS[*]}"
		[ "$output" = "141 0" ]
		# bytes after the rows are verified in a pipe, which is read to its end, but not in a file
		run -65 bash -c "head -c 500000 noise.rf | rf-dump $how >/dev/null"
		head -c 500000 noise.rf >short.rf
		# shellcheck disable=SC2086
		rf-dump $how short.rf >/dev/null
	done
}

@test "rf-dump: shows several files as one table with their names in a column" {
	entropies e.rf
	rf-dump --tsv --rows record "$G/stream/tokens.rf" e.rf >got
	[ "$(wc -l <got)" -eq 45 ]
	head -n 1 got | grep -q $'^file\tid\t'
	[ "$(column file got | sort | uniq -c | tr -s ' ')" = \
		"$(printf ' 4 %s\n 40 e.rf' "$G/stream/tokens.rf")" ]
	[ "$(rf-dump --tsv --rows record --sort id -n 3 --columns file,id "$G/stream/tokens.rf" e.rf |
		tail -n 1)" = "$G/stream/tokens.rf"$'\t2' ]
	rf-dump --rows record -n 5 "$G/stream/tokens.rf" e.rf | tail -n 9 | head -n 1 |
		grep -q '^"e.rf"  record 1  id 7 '
	run -64 rf-dump --tsv e.rf "$G/delta/model.safetensors"
	run -66 rf-dump e.rf none.rf
	rf-dump --tsv e.rf >got
	rf-dump --tsv - <e.rf | cmp - got
}

# ---- JSON --------------------------------------------------------------------------------------

@test "rf-dump --json: rf-cat --json turns the output for a stream of any kind into the same messages" {
	records() { "$RF_UNITS/helper/lab" pick "$1" $(seq "$n") | zstd -dcq; }
	example x.rf
	entropies e.rf
	rf-select --chunks 4 -k 2 --margin 2 --seed 1 e.rf -o s.rf 2>/dev/null
	for file in "$G"/stream/*.rf x.rf e.rf s.rf; do
		rf-dump --json "$file" | rf-cat --json | same_messages "$file"
		# the frames of records are the same bytes
		n=$(rf-dump --json "$file" | grep -c '"type":"seq"') || continue
		rf-dump --json "$file" | rf-cat --json -o back
		cmp <(records back) <(records "$file")
	done
	rf-dump --json x.rf | awk 'END { exit NR != 5 }'
}

@test "rf-dump --json --no-hidden: leaves out hidden states and logits, and nothing else" {
	rf-dump --json "$G/stream/rewarded.rf" | jq -c 'if .type == "seq" then
			del(.body.hidden, .body.logits, .body.rollout.h_pred, .body.rollout.h_gt)
		else . end | del(.body.xxh64)' >want
	[ "$(rf-dump --json "$G/stream/rewarded.rf" | grep -c h_pred)" -gt 0 ]
	rf-dump --json --no-hidden "$G/stream/rewarded.rf" | jq -c 'del(.body.xxh64)' | diff want -
	rf-dump --json --no-hidden "$G/stream/rewarded.rf" | rf-cat --json | rf-dump --check -q
}

@test "rf-dump: reports why no row was found" {
	found() { # found SENTENCE OPTION...: rf-dump succeeds and reports this
		local said=$1
		shift
		run -0 --separate-stderr rf-dump "$@"
		[ "$stderr" = "${said:+rf-dump: }$said" ] || { echo "$stderr"; return 1; }
	}
	rf-cat --range 0:3 "$G/stream/tokens.rf" >t.rf
	found "no row: none of 3 records has rollouts" --rows rollout t.rf
	found "no row: none of 3 records has positions" --tsv --rows position t.rf
	found "--where 'T>0,reward>2': none of 3 records has 'reward'" --where 'T>0,reward>2' t.rf
	found "--where 'reward>2': none of 3 records has 'reward'" --json --where 'reward>2' t.rf
	found "--where 'T<0': no row matches (3 records)" --where 'T<0' t.rf
	found "--where 'T<0': no row matches (1 record)" --where 'T<0' <(rf-cat --range 0:1 t.rf)
	found "--where 'bytes<0': no row matches (31 rows)" --where 'bytes<0' "$G/delta"
	found $'--where \'source~"\\x1b"\': no row matches (3 records)' --rows record \
		--where $'source~"\e"' t.rf
	found "--where 'T<0': no row matches (6 records)" --tsv --where 'T<0' t.rf t.rf
	found "" --where 'T>0' t.rf
	found "" "$G/stream/empty.rf"
	found "" --rows rollout "$G/stream/rewarded.rf"
	run -64 rf-dump --where 'source=x' t.rf
	said="rf-dump: --where: column 'source' is text"
	[ "$output" = "$said: conditions on it are like source~\"word\" (~ !~ = !=)" ]
}

@test "rf-dump --json: a selection keeps the head, whole records, and the end record if it was read" {
	example x.rf
	rf-dump --json x.rf >all
	rf-dump --json -n 2 x.rf | diff <(head -n 3 all) -
	rf-dump --json --where 'reward<0.1' x.rf | diff <(sed -n '1,2p;$p' all) -
	rf-dump --json --where 'reward<0.01' x.rf 2>err | diff <(sed -n '1p;$p' all) -
	rf-dump --json --rows token --where 'entropy>11' x.rf | diff <(sed -n '1,3p;$p' all) -
	rf-dump --json --sort -id x.rf | diff <(sed -n '1,2p' all; sed -n 4p all; sed -n '3p;$p' all) -
	rf-dump --json --sort id -n 1 x.rf | diff <(sed -n '1p;3p;$p' all) -
	[ "$(rf-dump --json --sample 2 --seed 1 x.rf | wc -l)" -eq 4 ]
	# a record takes the place of the first of its rows
	for sort in reward -reward; do
		rf-dump --tsv --no-header --rows rollout --sort $sort --columns id "$G/stream/rewarded.rf" |
			awk '!seen[$1]++' >ids
		rf-dump --json --rows rollout --sort $sort "$G/stream/rewarded.rf" |
			sed -n 's/^.*"body":{"id":\([0-9]*\),.*$/\1/p' | diff ids -
	done
	run -65 bash -o pipefail -c 'rf-dump --json -n 2 x.rf | rf-cat --json >/dev/null'
}

# ---- head --------------------------------------------------------------------------------------

@test "rf-dump --head: prints what the head says, and the history as commands" {
	example x.rf
	rf-dump --head x.rf >got
	sed "s/VERSION/$(version)/" >want <<'X'
format     1
vocab      384
tokenizer  kind "bytes"  hash "2d83aaba506794c4"
history
  rf-tokenize --bytes --max-len 2048  # 0.1
  rf-select -k 5 --tau 0.1 --lr 1e-06 --mode 'it'\''s \x1b[31mred'  # 0.2
  rf-cat --json  # VERSION, changed outside
X
	diff <(grep -v ^seed want) got
	rf-dump --head "$G/stream/empty.rf" | diff <(printf 'format     1\nvocab      40\nseed       1\n') -
	rf-dump --head --json x.rf | diff <(rf-dump --json x.rf | head -n 1) -
	run -64 rf-dump --head --tsv x.rf
}

@test "rf-dump --head: a command of the history can be typed again and gives the same stream" {
	entropies e.rf
	rf-select --chunks 4 -k 2 --margin 2 --tau 0.7 --seed 3 e.rf -o s.rf 2>/dev/null
	command=$(rf-dump --head s.rf | grep '^  rf-select ')
	eval "$command" <e.rf >again.rf 2>/dev/null
	cmp s.rf again.rf
}

# ---- --check -----------------------------------------------------------------------------------

@test "rf-dump --check: prints a line per whole file, or none with -q, and ends at the first bad file" {
	example x.rf
	run -0 rf-dump --check x.rf "$G/stream/empty.rf"
	[ "$output" = "x.rf: ok, 3 records, $(stat -c %s x.rf) bytes
$G/stream/empty.rf: ok, 0 records, 93 bytes" ]
	silent rf-dump --check -q x.rf "$G/stream/empty.rf"
	head -c 500 x.rf >cut.rf
	run -65 --separate-stderr rf-dump --check x.rf cut.rf "$G/stream/empty.rf"
	[ "$output" = "x.rf: ok, 3 records, $(stat -c %s x.rf) bytes" ]
	[[ $stderr == "rf-dump: cut.rf: "*"the frame is truncated"* ]]
	run -66 rf-dump --check none.rf
	rf-dump --check -q <x.rf
}

@test "rf-dump --check: finds a flipped bit anywhere in a stream" {
	size=$(stat -c %s "$G/stream/tokens.rf")
	for ((i = 0; i < size; i += 37)); do
		cp "$G/stream/tokens.rf" bad.rf
		chmod u+w bad.rf
		byte=$(od -An -tu1 -j "$i" -N 1 bad.rf)
		printf '%b' "\\0$(printf %o $((byte ^ 1 << i % 8)))" |
			dd of=bad.rf bs=1 seek="$i" conv=notrunc status=none
		rf-dump --check -q bad.rf 2>/dev/null && { echo "bit $((i % 8)) of byte $i"; return 1; }
	done
	true
}

@test "rf-dump --check: refuses an id that occurs twice, which rf-dump without --check accepts" {
	"$RF_UNITS/helper/lab" pick "$G/stream/tokens.rf" 0 1 2 3 2 1 >frames
	"$RF_UNITS/helper/lab" seq frames >twice.rf
	rf-dump twice.rf >/dev/null
	mentions 65 "twice.rf: record 4 has the same id, 1, as record 2" rf-dump --check twice.rf
}

# ---- checkpoints -------------------------------------------------------------------------------

@test "rf-dump: shows the model, config and tensors of a checkpoint" {
	rf-dump "$G/delta" >got
	[ "$(head -n 1 got)" = "model      delta_net, 6176 parameters, with a head of its own" ]
	grep -q '^weights    [0-9a-f]\{16\}$' got
	grep -q '^config .*hidden_size 16' got
	grep -qx 'tensors    31, 24704 bytes' got
	grep -qx '  lm_head.weight                       F32   40,16                   2560 bytes' got
	[ "$(grep -c '^  [a-z].* F32 ' got)" -eq 31 ]
	rf-dump --tsv "$G/delta" | head -n 2 |
		diff <(printf 'name\tdtype\tshape\tcount\tbytes\nlm_head.weight\tF32\t40,16\t640\t2560\n') -
	[ "$(rf-dump --tsv --no-header --columns count "$G/delta" |
		awk '{ n += $1 } END { print n }')" -eq 6176 ]
	rf-dump --json "$G/delta" |
		awk '/^{"type":"(checkpoint|tensor)",.*}$/ { n++ } END { exit n != 32 || NR != 32 }'
}

@test "rf-dump: shows the steps of a run, and --check finds damage in the weights" {
	rf-init --from "$G/delta" run
	rf-dump run >got
	hash=$(sed -n 's/^weights *//p' got)
	grep -qx "steps      step 0  commits 0  weights $hash  [0-9]* bytes" got
	rf-dump --tsv --rows step --columns step,commits,weights run |
		diff <(printf 'step\tcommits\tweights\n0\t0\t%s\n' "$hash") -
	rf-dump --rows step run | grep -q '^step 0  commits 0  weights '"$hash"
	[ "$(rf-dump --json run | grep -c '^{"type":"step",')" -eq 1 ]
	run -64 rf-dump --tsv --rows record run
	run -64 rf-dump --tsv --rows tensor "$G/stream/tokens.rf"
	run -0 rf-dump --check run "$G/delta" "$G/delta/model.safetensors"
	[ "${lines[0]}" = "run: ok, 31 tensors, 24704 bytes" ]
	printf '\x01' | dd of=run/step-000000/model.safetensors bs=1 seek=20000 conv=notrunc status=none
	run -78 rf-dump --check run
	mkdir none
	run -66 rf-dump none
}

@test "rf-dump: omits a step that a trainer removes while it is listed, but fails on a damaged step" {
	rf-init --from "$G/delta" run
	rf-cat --repeat 7 "$G/stream/tokens.rf" | rf-ntp -m run --mini-batch 4
	ln -s gone run/step-000003 # read as a name, and nothing there when it is opened
	ln -s step-000007 run/step-7
	[ "$(rf-dump --tsv --rows step --columns step --no-header run | paste -sd' ')" = "0 7" ]
	rf-dump run | grep -q '^           step 7 '
	rm run/step-000007/model.safetensors
	says 78 "rf-dump: run/step-000007/state.json: 'model.safetensors': No such file or directory" \
		rf-dump run
}

@test "rf-dump --stats: prints minimum, maximum, mean, deviation and norm of each tensor" {
	# a: 1 2 3 4; b: -2 in bf16 and 0.5; c: two whole numbers
	printf '\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40\0\xc0\0\x3f\1\0\0\0\2\0\0\0' |
		safetensors x.bin '{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},
			"b":{"dtype":"BF16","shape":[2],"data_offsets":[16,20]},
			"c":{"dtype":"I32","shape":[2],"data_offsets":[20,28]}}'
	rf-dump --tsv --stats x.bin >got
	printf '%s\n' 'name dtype shape count bytes min max mean std norm nonfinite' \
		'a F32 2,2 4 16 1 4 2.5 1.11803399 5.47722558 0' \
		'b BF16 2 2 4 -2 0.5 -0.75 1.25 2.06155281 0' 'c I32 2 2 8 NaN NaN NaN NaN NaN 0' |
		tr ' ' '\t' | diff - got
	rf-dump --tsv --sort -norm --columns name x.bin | diff <(printf 'name\na\nb\nc\n') -
	rf-dump --tsv --where 'min<0' --columns name x.bin | diff <(printf 'name\nb\n') -
	row='"name":"b","dtype":"BF16","shape":[2],"count":2,"bytes":4,"min":-2.0,"max":0.5,"mean":-0.75'
	row+=',"std":1.25,"norm":2.0615528128088303,"nonfinite":0}'
	rf-dump --json --stats --where 'min<0' x.bin | tail -n 1 | grep -qF "$row"
	rf-dump --stats x.bin |
		grep -q '^  a  F32   2,2 *16 bytes  min 1 *max 4 *mean 2.5 *std 1.118 *norm 5.47723$'
	run -65 rf-dump --stats --sort nonsense x.bin || run -64 rf-dump --stats --sort nonsense x.bin
}

@test "rf-dump: non-finite tensor elements are counted, make JSON statistics null, and fail --check" {
	printf '\0\0\xc0\x7f\0\0\x80\x7f\0\0\x80\x3f' |
		safetensors x.safetensors '{"a\u001b[31m":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}}'
	rf-dump --stats x.safetensors >got
	only_text got
	grep -q 'NOT FINITE: 2' got
	rf-dump --tsv --stats x.safetensors | tail -n 1 |
		diff <(printf 'a\\x1b[31m\tF32\t3\t3\t12\t1\tInf\tNaN\tNaN\tNaN\t2\n') -
	rf-dump --json --stats x.safetensors | tail -n 1 |
		grep -qF '"min":1.0,"max":null,"mean":null,"std":null,"norm":null,"nonfinite":2}'
	run -65 rf-dump --check x.safetensors
	[[ $output == *"x.safetensors: 2 of 3 elements of 'a\\x1b[31m' are not finite" ]]
	printf 'xxxx' >short.safetensors
	run -78 rf-dump short.safetensors
}

# answers: prints a stream of two questions over bytes with one sample each
answers() {
	local made='"generation":{"temperature":0.0,"tokens":{"dtype":"<i4","shape":[1,2],"data":[100,104]},'
	made+='"length":{"dtype":"<i4","shape":[1],"data":[2]},"stop":["eos"],"text":["ae"]}'
	printf '{"p":"who %s?","a":["x"]}\n' 'is \"it\"' 'are you' |
		rf-tokenize --bytes --prompt-key p --answers-key a --source 2>err | rf-dump --json |
		sed '/"type":"seq"/s/}}$/,'"$made"'}}/' | rf-cat --json
}

@test "rf-dump: --rows sample and --rows record have the column prompt, without the answer" {
	answers >in.rf
	rf-dump --tsv --rows sample --columns id,prompt,written in.rf |
		diff - <(printf 'id\tprompt\twritten\n0\twho is "it"?\tae\n1\twho are you?\tae\n')
	rf-dump --csv --rows record --columns prompt in.rf |
		diff - <(printf 'prompt\n"who is ""it""?"\n"who are you?"\n')
	printf '{"text":"ab"}\n{"text":"c"}\n' | rf-tokenize --bytes 2>err |
		rf-dump --csv --rows record --columns id,prompt | diff - <(printf 'id,prompt\n0,\n1,\n')
}

@test "rf-dump: --where finds texts that contain, lack, equal or differ from a word" {
	answers >in.rf
	ids() { rf-dump --tsv --rows sample --columns id --no-header --where "$1" in.rf | paste -sd' '; }
	[ "$(ids 'prompt~"are"')" = 1 ]
	[ "$(ids 'prompt!~"are"')" = 0 ]
	[ "$(ids 'prompt~"who",id<1')" = 0 ]
	[ "$(ids 'prompt~"""it"""')" = 0 ]
	[ "$(ids 'id>=0 and stop="eos" and source~":2"')" = 1 ]
	[ "$(ids 'written != "ae"' 2>err)" = "" ]
	[ "$(rf-dump --json --rows sample --where 'prompt~"are"' in.rf |
		jq -c 'select(.type == "seq") | .body.id')" = 1 ]
	[ "$(rf-dump --rows sample --where 'prompt~", and"' in.rf 2>&1)" = \
		"rf-dump: --where 'prompt~\", and\"': no row matches (2 records)" ]
	run -64 rf-dump --where 'prompt~are' --rows sample in.rf
	said="rf-dump: --where: column 'prompt' is text"
	[ "$output" = "$said: conditions on it are like prompt~\"word\" (~ !~ = !=)" ]
	run -64 rf-dump --where 'id~"1"' in.rf
	[ "$output" = "rf-dump: --where: ~ and !~ are for columns of text: this one has numbers" ]
}

@test "rf-dump: RF_TOKENIZER names the tokenizer if no option does, and is read only if text is shown" {
	of=tok/tokenizer.json
	mkdir tok
	zstd -dcq "$G/tokenizer/gpt2.json.zst" >$of
	printf '{"text":"hello there"}\n' | rf-tokenize --tokenizer "$of" -o in.rf 2>err
	rf-dump --tokenizer "$of" in.rf >want
	RF_TOKENIZER=$of rf-dump in.rf | diff want -
	RF_TOKENIZER=nowhere rf-dump --tokenizer "$of" in.rf | diff want -
	[ "$(RF_TOKENIZER=$of rf-dump --rows token --json --where 'text~"h"' in.rf | wc -l)" = 3 ]
	# output without text needs no tokenizer and names none
	quiet env RF_TOKENIZER=nowhere rf-dump --tsv --rows token --columns t,token in.rf
	RF_TOKENIZER=nowhere rf-dump --json in.rf >out
	quiet rf-dump --tsv --rows token --columns t,token in.rf
	RF_TOKENIZER='' rf-dump in.rf >out 2>err
	says 66 "rf-dump: RF_TOKENIZER: nowhere..." env RF_TOKENIZER=nowhere rf-dump in.rf
}

@test "rf-dump: a stream made with another tokenizer than that of RF_TOKENIZER is shown, not refused" {
	mkdir tok
	zstd -dcq "$G/tokenizer/gpt2.json.zst" >tok/tokenizer.json
	printf '{"text":"hello there"}\n' >text.jsonl
	rf-tokenize --tokenizer tok/tokenizer.json -o gpt2.rf text.jsonl 2>err
	rf-tokenize --bytes -o bytes.rf text.jsonl 2>err
	# for a built-in tokenizer RF_TOKENIZER is not opened
	rf-dump bytes.rf >want
	RF_TOKENIZER=nowhere rf-dump bytes.rf | diff want -
	RF_TOKENIZER=tok rf-dump --rows token --json --where 'text~"h"' bytes.rf >have
	[ "$(grep -c '"type":"seq"' have)" = 1 ]
	# for any other tokenizer the message names it, and the tokens are shown as numbers
	rf-dump gpt2.rf 2>err >want
	run -0 --separate-stderr env RF_TOKENIZER=bytes rf-dump gpt2.rf
	diff want - <<<"$output"
	said="its tokenizer is 'bpe' $(rf-dump --json --head gpt2.rf | jq -r .body.tokenizer.hash)"
	said+=", not that of RF_TOKENIZER, give it with --tokenizer or -m"
	[ "$stderr" = "rf-dump: gpt2.rf: tokens are shown as numbers: $said" ]
	# a wrong tokenizer given as an option is still an error
	run -65 --separate-stderr rf-dump --tokenizer bytes gpt2.rf
	# each of several streams is shown with the tokenizer that it was made with
	RF_TOKENIZER=tok rf-dump gpt2.rf bytes.rf | grep -c '"hello there' | grep -qx 2
	# a condition on text compares numbers, and a message says so
	run -0 --separate-stderr rf-dump --json --rows token --where 'text~"hell"' gpt2.rf
	[[ "$stderr" == "rf-dump: gpt2.rf: tokens are compared as numbers: its tokenizer is "* ]]
	says 0 "rf-dump: gpt2.rf: tokens are compared as numbers: $said" \
		env RF_TOKENIZER=bytes rf-dump --json --rows token --where 'text~"hell"' gpt2.rf
}

@test "rf-dump: warns if the files of the tokenizer that RF_TOKENIZER names contradict each other" {
	mkdir tok
	zstd -dcq "$G/tokenizer/gpt2.json.zst" >tok/tokenizer.json
	printf '{"text":"hello there"}\n' | rf-tokenize --tokenizer tok -o in.rf 2>err
	echo '{"add_prefix_space":true}' >tok/tokenizer_config.json
	run -0 --separate-stderr rf-dump --tokenizer tok in.rf
	want=$stderr
	[[ "$want" == "rf-dump: tok: warning: "* ]]
	says 0 "$want" env RF_TOKENIZER=tok rf-dump in.rf
}

# awkward: prints a stream of records whose sources are texts that readers of tables may misread
awkward() {
	printf '{"text":"a","s":"%s"}\n' 'NaN' '' 'say \"hi\", you' '\"' ',' 'null' 'a\tb\nc\\' "it's" \
		'\u001b[1m' ' x ' |
		rf-tokenize --bytes --source-key s 2>err >named.rf
	echo '{"text":"\"a\",\"\""}' | rf-tokenize --bytes 2>err >bare.rf
	rf-cat --renumber named.rf bare.rf
}

@test "rf-dump --csv: texts are quoted, and an absent value is an empty cell" {
	awkward >in.rf
	rf-dump --csv --rows record --columns id,source,nll_mean in.rf >have
	cat >want <<-'END'
		id,source,nll_mean
		0,"NaN",
		1,"",
		2,"say ""hi"", you",
		3,"""",
		4,",",
		5,"null",
		6,"a\tb\nc\\",
		7,"it's",
		8,"\x1b[1m",
		9," x ",
		10,,
	END
	diff want have
	rf-dump --csv --no-header --rows token --columns text,t --where id=10 in.rf | head -n 3 |
		diff - <(printf '"""",0\n"a",1\n"""",2\n')
	rf-dump --csv --rows tensor "$G/delta" | sed -n 2p | grep -q '^"[^"]*","F32","[0-9,]*",[0-9]*,[0-9]*$'
	[ "$(rf-dump --tsv in.rf | tail -n +2 | wc -l)" = "$(rf-dump --csv in.rf | tail -n +2 | wc -l)" ]
}

@test "rf-dump --csv, --tsv: Python reads the same table with the calls that rf-dump(1) shows" {
	awkward >in.rf
	rf-dump --csv --rows record --columns id,source,nll_mean in.rf >t.csv
	rf-dump --tsv --rows record --columns id,source,nll_mean in.rf >t.tsv
	cat >check.py <<-'END'
		import csv, re, sys
		texts = ["NaN", "", 'say "hi", you', '"', ",", "null", "a\\tb\\nc\\\\", "it's", "\\x1b[1m",
		         " x ", None]
		def rows(frame):
		    return frame.rows() if hasattr(frame, "rows") else frame.values.tolist()
		calls = sys.stdin.read().replace("\\et", "\\t")
		for call in re.findall(r"(?:csv|pandas|polars)\.read.*\n(?: +.*\n)*", calls):
		    module = call.split(".")[0]
		    try:
		        __import__(module)
		    except ImportError:
		        continue
		    table = eval(call.strip(), {module: __import__(module), "csv": csv})
		    have = list(table)[1:] if module == "csv" else rows(table)
		    none = {"csv": "", "polars": None}.get(module)
		    lost = ["NaN"] if "tsv" in call else []
		    lost += [""] if (module, "t.csv" in call) in [("pandas", True), ("polars", False)] else []
		    assert [int(r[0]) for r in have] == list(range(11)), (call, have)
		    for row, text in zip(have, texts):
		        value = None if row[1] != row[1] or row[1] is None else row[1]
		        want = none if text is None or text in lost else text
		        assert value == want, (call, row, text)
		    print(module, "t.tsv" if "t.tsv" in call else "t.csv")
	END
	sed -n '/^csv.reader/,/^\.Ed/p' "$ROOT/man/rf-dump.1" | python3 check.py >read
	grep -qx 'csv t.csv' read
}

@test "rf-dump: options that exclude or require each other exit 64 and say so" {
	while IFS='|' read -r how why; do
		# shellcheck disable=SC2086
		says 64 "rf-dump: -...$why (try --help)" rf-dump $how "$G/stream/tokens.rf"
	done <<-'END'
		--json --tsv|json cannot be combined with --tsv
		--json --check|json cannot be combined with --check
		--tsv --check|tsv cannot be combined with --check
		--head --check|head cannot be combined with --check
		--head --tsv|head cannot be combined with --tsv
		--columns id|requires --tsv or --csv
		--json --no-header|requires --tsv or --csv
		--tsv --csv|tsv cannot be combined with --csv
		--csv --pred|csv cannot be combined with --pred
		--csv --json|json cannot be combined with --csv
		--csv --check|csv cannot be combined with --check
		-q|requires --check
		--no-hidden|requires --json
		--check -n 1|first cannot be combined with --check
		--head --where T>0|where cannot be combined with --head
	END
}

@test "rf-dump(1): the examples of the page run and print output" {
	entropies entropy.rf
	rf-select --chunks 4 -k 2 --margin 2 --seed 1 entropy.rf -o selected.rf 2>/dev/null
	cp "$G/stream/rewarded.rf" .
	cp "$G/stream/tokens.rf" a.rf
	cp "$G/delta/model.safetensors" gradient.safetensors
	sed -n 's/^\.Dl \$ //p' "$ROOT/man/rf-dump.1" >examples
	[ "$(wc -l <examples)" -ge 7 ]
	while read -r example; do
		echo "$example"
		[ -n "$(eval "$example" 3>&-; [ ! -e b.rf ] || rf-dump --check b.rf)" ]
	done <examples
	[ "$(rf-dump --tsv --rows record --columns source b.rf | sort -u)" = "$(printf 'elsewhere\nsource')" ]
}

@test "rf-dump: shows the best step of a run, as text and in JSON" {
	rf-init --from "$G/delta" run
	[ "$(rf-dump run | grep -c ^best)" = 0 ]
	[ "$(rf-dump --json run | jq -c 'select(.type == "checkpoint") | has("best")')" = false ]
	cp -r run/step-000000 run/best-step-000012
	ln -s best-step-000012 run/best
	[ "$(rf-dump run | grep -A1 ^steps | tail -n 1)" = 'best       step 12' ]
	[ "$(rf-dump --json run | jq 'select(.type == "checkpoint").best')" = 12 ]
	[ "$(rf-dump --tsv --rows step --columns step run | paste -sd' ')" = 'step 0' ]
	# a link of another kind is not a step
	for to in step-000012 best-step-x best- elsewhere; do
		ln -sfn $to run/best
		rf-dump run >text
		run ! grep ^best text
	done
}

@test "rf-dump: shows a rollout up to its end, with the rewards and advantages of its tokens" {
	load ../model
	texts 40 1:50 | rf-entropy -m "$M" | rf-select --chunks 1 -k 3 --margin 3 |
		rf-rollout -m "$M" -k 3 -n 2 |
		edited 'if .type == "seq" then .body.rollout |= (.tokens.data = [5, 6, 7, 8, 9, 10]
			| .logp.data = [-1, -2, -3, -4, -5, -6]
			| .length = {dtype: "<i4", shape: [1, 2], data: [2, 3]}) else . end' |
		rf-reward --per-token --kind random | edited 'if .type == "seq" then
			.body.reward.per_token.data = [0.5, 1.5, 9, 1, 2, 3]
			| .body.advantage_per_token = {dtype: "<f4", shape: [1, 2, 3],
				data: [1, -2, 9, 3, 4, 5]}
			else . end' >in
	run -0 rf-dump in
	[[ "$output" == *'logp -1.500  length 2'*'5 -1.00 reward 0.50 advantage +1.00'*'6 -2.00 reward'* ]]
	[[ "$output" != *'7 -3.00'* ]]
	[[ "$output" == *'10 -6.00 reward 3.00 advantage +5.00'* ]]
	[ "$(rf-dump --tsv --no-header --columns length,logp,advantage,generated in)" = \
		$'2\t-1.5\t-0.5\t5 6\n3\t-5\t4\t8 9 10' ]
	[ "$(rf-dump --tsv --no-header --rows rollout --where 'length < 3' --columns rollout in)" = 0 ]
}
