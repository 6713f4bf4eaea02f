#!/usr/bin/env bats
# Tests of page.sh, which makes one file for a browser of a report, and of the pages that pipelines write.

setup() {
	load ../helper
	command -v cmark-gfm >/dev/null || skip 'cmark-gfm is not installed (install it)'
	# a picture of one pixel
	base64 -d >dot.png <<-'END'
		iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABc3UBGAAAAABJRU5ErkJggg==
	END
	cat >report.md <<-'END'
		# Loss & <b>reward</b> of a|b

		| run | nll |
		|---|---|
		| <script>alert(1)</script> | 1.5 |

		![a dot](dot.png) ![elsewhere](../dot.png)

		    code & <blanks>
	END
}

page() { "$ROOT/pipelines/lib/page.sh" "$@"; }

@test "page.sh: writes one file with the report's title, tables and figures, and no HTML of the report" {
	mkdir 'a "b'
	mv report.md dot.png 'a "b'
	page 'a "b/report.md' 'a "b/report.html'
	[ "$(ls 'a "b' | paste -sd' ')" = 'dot.png report.html report.md' ]
	mv 'a "b/report.html' page.html
	grep -qF '<title>Loss &amp; reward of a|b</title>' page.html
	grep -qF "src=\"data:image/png;base64,$(base64 -w 0 'a "b/dot.png')\" alt=\"a dot\"" page.html
	grep -qF '<td>1.5</td>' page.html
	grep -qF 'code &amp; &lt;blanks&gt;' page.html
	run ! grep -q '<script>alert' page.html
	# a picture elsewhere is left out
	run ! grep -E '(src|href)="[^d]' page.html
}

@test "page.sh: the records of a page of rf-dump follow the report" {
	P=$PWD
	tiny_model
	head -c 400 "$ROOT/README.md" |
		rf-tokenize --bytes --format text --max-len 100 --truncate split - 2>/dev/null |
		rf-entropy -m "$P/ckpt" | rf-select | rf-rollout -m "$P/ckpt" -n 4 |
		rf-dump --html --rows rollout --sample 5 >rollouts.html
	page report.md page.html rollouts.html
	[ "$(grep -c '<section' page.html)" -eq 5 ]
	run ! grep -qF '<title>rf-dump' page.html
	# a second call writes the same bytes
	cp page.html first.html
	page report.md page.html rollouts.html
	cmp first.html page.html
	command -v chromium >/dev/null || return 0
	python3 "$ROOT/t/helper/browser.py" page.html console eval '
		[document.querySelector("img").naturalWidth, document.querySelectorAll("section").length] + ""
		' >said
	[ "$(tail -n 1 said)" = '"1,5"' ]
	[ "$(wc -l <said)" -eq 1 ]
}

@test "page.sh: without cmark-gfm a message says so, and an older page is removed" {
	touch page.html
	mkdir few
	ln -s "$(command -v rm)" few/
	run -0 env PATH="$PWD/few" "$ROOT/pipelines/lib/page.sh" report.md page.html
	[[ "$output" == 'page.sh: cmark-gfm is not installed (install it), so page.html is left out' ]]
	[ ! -e page.html ]
	run -64 page report.md
}

@test "page.sh: a figure that is missing is an error, and leaves an older page as it is" {
	page report.md page.html
	cp page.html first.html
	# shellcheck disable=SC2016  # Markdown
	printf '\n![another](missing.png)\n' >>report.md
	run -66 page report.md page.html
	[[ "$output" == *missing.png* ]]
	cmp page.html first.html
	[ "$(ls -d page.html*)" = page.html ]
}

@test "sample-page.sh: shows 20 rollouts, and numbers if neither the stream nor the model has a tokenizer" {
	load ../model
	P=$PWD
	tiny_model
	page_of() { PATH=$RF_BIN:$PATH "$ROOT/pipelines/lib/sample-page.sh" rollout "$@"; }
	head -c 400 "$ROOT/README.md" >text
	rf-tokenize --bytes --format text --max-len 200 --truncate split text 2>/dev/null |
		rf-entropy -m ckpt | rf-select | rf-rollout -m ckpt -n 4 -o in
	page_of ckpt page.html in
	[ "$(grep -c '<section ' page.html)" -eq 20 ]
	# without its tokenizer, a model of the same vocabulary continues ids
	mkdir bare
	cp ckpt/config.json ckpt/*.safetensors bare
	edited 'if .type == "head" then del(.body.tokenizer) else . end' in >ids
	page_of bare ids.html - <ids 2>said
	[ "$(grep -c '<section ' ids.html)" -eq 20 ]
	grep -qE '<p[^>]*> [0-9]+' ids.html
	page_of ckpt text.html - <ids
	run ! grep -qE '<p[^>]*> [0-9]+' text.html
}
