#!/usr/bin/env bats
# Tests of rf-dump --html: the contents of the page, and its looks and behaviour in a browser.

setup() {
	load ../helper
	load ../model
}

# page FILE [OPTION...]: makes FILE.html of a stream
page() { rf-dump --html "${@:2}" "$1" >"$1.html"; }
# browser FILE COMMAND...: opens FILE.html in a browser (helper/browser.py)
browser() { python3 "$ROOT/t/helper/browser.py" "$1.html" "${@:2}"; }
have_browser() { command -v chromium >/dev/null || skip 'chromium is not installed'; }
# rewarded: makes the stream `in` with rollouts of a model over bytes
rewarded() {
	P=$PWD
	tiny_model
	head -c 900 "$ROOT/README.md" | rf-tokenize --bytes --format text --max-len 300 --min-len 100 \
		--truncate split - 2>err | rf-entropy --nll -m ckpt | rf-select --chunks 4 |
		rf-rollout -m ckpt -n 3 | rf-reward --kind hybrid -o in
}

@test "rf-dump --html: shows head, history, means, every token, position and rollout, and is the same again" {
	rewarded
	page in
	cp in.html first.html
	page in
	cmp first.html in.html
	for said in '<title>rf-dump</title>' 'rf-select --chunks 4' \
		'<span>3 records</span><span>900 tokens</span>' '<span>36 rollouts</span>'; do
		grep -qF -- "$said" in.html
	done
	mean=$(rf-dump --tsv --rows rollout --columns reward --no-header in |
		awk '{ s += $1 } END { printf "%.4f", s / NR }')
	grep -qF "mean reward $mean<" in.html
	[ "$(grep -o '<p[ a-z]*\( z=[0-9]*\)\? i=' in.html | wc -l)" -eq 900 ]
	[ "$(grep -o ' z=[0-9]* ' in.html | sort | uniq -c | tr -s ' ' | paste -sd,)" = \
		' 3 z=0 , 3 z=1 , 3 z=2 , 3 z=3 ' ]
	[ "$(grep -c '<tr><td>[0-9]' in.html)" -ge 12 ]
	# the best rollout is first
	best=$(rf-dump --tsv --columns reward,position,record --no-header in |
		awk '$2 == 0 && $3 == 1' |
		sort -rg | head -n 1 | cut -f 1)
	grep -o '<tr><td>[0-9]<td>[0-9.]*' in.html | head -n 1 | grep -qF "<td>$(printf %.3f "$best")"
	# a token has its numbers
	rf-dump --tsv --rows token --columns id,token,entropy,nll --no-header in | head -n 1 >numbers
	read -r _ token entropy nll <numbers
	grep -qE "<p( [a-z])? i=$token h=$(printf %.2f "$entropy" | sed 's/0*$//')[0-9]* n=" in.html
}

@test "rf-dump --html: --where, --sample and -n choose records, and the means are over all that match" {
	rewarded
	page in -n 1
	[ "$(grep -c '<section ' in.html)" -eq 1 ]
	page in --sample 2
	[ "$(grep -c '<section ' in.html)" -eq 2 ]
	grep -q '<span>3 records</span>' in.html
	grep -q '<span>shown: 2 of 3</span>' in.html
	page in --rows rollout --sample 20
	[ "$(grep -c '<section ' in.html)" -eq 20 ]
	grep -q '<span>shown: 20 of 36</span>' in.html
	page in --where 'id=1'
	[ "$(grep -o '<h2>record [0-9]*' in.html)" = '<h2>record 2' ]
	grep -q '<span>1 record</span>' in.html
	says 64 "rf-dump: ..." rf-dump --html "$M"
	says 64 'rf-dump: --tsv cannot be combined with --html ...' rf-dump --html --tsv in
}

@test "rf-dump --html: a text changes nothing but its own letters" {
	printf '%s' '<script>alert(1)</script></div></section>&lt;"'\''<!-- ' >evil
	printf '\xe2\x80\xae\xd7\x90 \e[31m \x00 \x07 \xff\xe2\x82 a  b \t\r\n x' >>evil
	rf-tokenize --bytes --format text evil 2>err |
		edited 'if .type == "seq" then .body.source = "<b>\u202e\u001b[31m" else . end' >in
	page in
	run ! grep -qE '<script>alert|</div></section>&lt;' in.html
	for shown in '&lt;script' 'U+202E' '␛' '␀' '␇' '<i>FF</i>' '⇥' '␍' '↵'; do
		tr -d '\n' <in.html | sed 's/<p[^>]*>//g' | grep -qF -- "$shown" || echo "no $shown"
	done >missing
	cat missing
	[ ! -s missing ]
	run ! grep -qP '[\x00-\x08\x0b-\x1f]' in.html
}

@test "rf-dump --html: --against shows the differences of two models, and refuses other records" {
	rewarded
	rf-init --config config.json --seed 2 other
	rf-entropy --nll -m other -o against in
	page in --against against
	d=$(paste <(rf-dump --tsv --rows token --columns nll --no-header in) \
		<(rf-dump --tsv --rows token --columns nll --no-header against) | head -n 1 |
		awk '{ printf "%.2f", $1 - $2 }' | sed 's/\.\?0*$//')
	grep -o ' d=[-0-9.]*' in.html | head -n 1 | grep -qxF " d=$d"
	rf-cat --range 1:3 against -o fewer
	says 65 'rf-dump: in: record 1...--against fewer has id 1' rf-dump --html --against fewer in
	rf-cat --range 0:2 against -o fewer
	says 65 'rf-dump: --against fewer: the stream has fewer records' rf-dump --html --against fewer in
	says 65 'rf-dump: --against against: the stream has more records' \
		rf-dump --html --against against fewer
	head -c 2000 against >cut
	says 65 'rf-dump: cut: record...truncated...' rf-dump --html --against cut in
	rf-cat --range 0:1 --part all in | edited 'del(.body.entropy, .body.nll)' >neither
	says 65 'rf-dump: neither: record 1...neither nll nor entropy...' \
		rf-dump --html --against <(rf-cat --range 0:1 against) neither
	# only equal rollouts have log-probabilities that can be compared
	rf-rollout --score -m other -o against in
	page in --against against
	[ "$(grep -c ', of the other model -' in.html)" -ge 12 ]
	rf-rollout -m other -n 3 --seed 5 -o against in
	page in --against against
	run ! grep -q ', of the other model -' in.html
	rf-entropy --nll -m other -o against in
	# the last token has no loss, and so no difference
	page in --against against
	[ "$(grep -o '<p[^>]* d=[-0-9.e+]*' in.html | wc -l)" -eq 897 ]
	says 64 'rf-dump: ...--against...' rf-dump --against in in
	says 64 'rf-dump: --against: it shows whole records...' \
		rf-dump --html --rows rollout --against against in
}

@test "rf-dump --html: shows numbers of any size, several streams, and rollouts past the end" {
	rewarded
	rf-cat --range 0:1 in | edited 'if .type == "seq" then
		.body.entropy.data[3:6] = [3.4e38, -3.4e38, 1e-45]
		| .body.reward.total.data[0:3] = [1e-20, -1, 3e38] else . end' >big
	page big
	run ! grep -qP '[\x00-\x08\x0b-\x1f]' big.html
	[ "$(grep -oE ' h=-?[0-9]{39} ' big.html | wc -l)" -eq 2 ]
	grep -o '<rect[^/]*: [0-9]*<' big.html | sed 's/.*: //; s/<//' |
		awk '{ s += $1 } END { exit s != 300 + 12 }'
	# each record has the name of its stream, and a number of its own
	cp in other
	rf-dump --html in other >two.html
	[ "$(grep -o '<section data-n=[0-9]*' two.html | sort -u | wc -l)" -eq 6 ]
	[ "$(grep -c '<h2>other, record' two.html)" -eq 3 ]
	says 64 'rf-dump: --html: a page has no rows for single tokens...' rf-dump --html --rows token in
	# a rollout that is longer than the rest of the text is compared with that rest
	rf-cat --range 0:1 in | edited 'if .type == "seq" then .body |= (.positions.data[3] = 297
		| .rollout.tokens.data[45:60] = [range(3) as $r | .tokens.data[297:300][], 5, 5])
		else . end' >end
	page end --rows rollout --where 'position=3'
	[ "$(grep -o "<p[^>]*><b>" end.html | wc -l)" -eq 9 ]
}

@test "rf-dump --html: a browser shows values, folds and sorts without a request or a message" {
	have_browser
	rewarded
	page in
	token=$(rf-dump --tsv --rows token --columns token --no-header in | sed -n 6p)
	browser in console >said
	[ ! -s said ]
	browser in hover '.x p:nth-of-type(6)' | grep -q "counter(t) \"   id $token   entropy "
	browser in click 'section summary' eval 'document.querySelector("section details").open' |
		grep -qx false
	browser in eval 'var s = document.getElementById("sort"); s.value = "r"; s.onchange();
		[...document.querySelectorAll("section")].sort((a, b) => a.style.order - b.style.order)
			.map(e => +e.dataset.r).every((r, i, all) => !i || r <= all[i - 1])' | grep -qx true
}
