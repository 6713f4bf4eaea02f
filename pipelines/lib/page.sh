#!/bin/bash
# page.sh REPORT PAGE [ROLLOUTS] -- writes a report in Markdown as one file for a browser, which can be sent
# by mail: its figures, PNG files in the folder of the report, are inside.  ROLLOUTS is a page of
# rf-dump --html (sample-page.sh), whose records follow the report.
#
# Without cmark-gfm, which makes HTML of Markdown, a message says what is missing, and no page is written.
# Then an older page is removed.
set -euo pipefail
export LC_ALL=C

if [ $# -lt 2 ] || [ $# -gt 3 ]; then
	echo 'usage: page.sh REPORT PAGE [ROLLOUTS]' >&2
	exit 64
fi
report=$1 page=$2 rollouts=${3:-}
case $page in /*) ;; *) page=./$page ;; esac
command -v cmark-gfm >/dev/null || {
	rm -f "$page"
	echo "page.sh: cmark-gfm is not installed (install it), so ${page#./} is left out" >&2
	exit 0
}
tmp=$page.tmp
rm -rf "$tmp" # a killed script left it
mkdir "$tmp"
trap 'rm -rf "$tmp"' EXIT

# body: prints the report as HTML.  cmark-gfm leaves out HTML that the report contains.  awk puts the figures
# into the page, and leaves out all other pictures.
body() {
	# shellcheck disable=SC2094  # only the folder of the report is used
	cmark-gfm -e table <"$report" | (cd -- "$(dirname -- "$report")" && awk '
		function no_others(text) { gsub(/<img [^>]*>/, "", text); return text }
		{
			while (match($0, /<img src="[A-Za-z0-9_][A-Za-z0-9_.-]*\.png"/)) {
				name = substr($0, RSTART + 10, RLENGTH - 11)
				before = no_others(substr($0, 1, RSTART - 1))
				command = "base64 -w 0 ./" name
				data = ""
				command | getline data
				if (close(command) != 0)
					exit 66
				printf "%s<img src=\"data:image/png;base64,%s\"", before, data
				$0 = substr($0, RSTART + RLENGTH)
			}
			print no_others($0)
		}')
}

# style: prints the part of a page of rf-dump before its records
style() {
	if [ -n "$rollouts" ]; then
		cat -- "$rollouts"
	else
		printf '' | rf-tokenize --bytes --format text - 2>/dev/null | rf-dump --html
	fi | sed '/^<body>$/,$d'
}

body >"$tmp/body"
style >"$tmp/style"
{
	# an ampersand stands for the matched text in a replacement
	title=$(sed -n 's/<[^>]*>//g; /./{s/[\&|]/\\&/g; p; q}' "$tmp/body")
	sed "s|<title>rf-dump</title>|<title>$title</title>|" "$tmp/style"
	cat <<-'END'
		<style>
		main{order:-3}main h2{margin:1.8rem 0 .4rem}
		main img{max-width:min(100%,44rem);background:#fff}
		main table{display:block;overflow-x:auto;margin:.6rem 0}
		main td,main th{padding:.15rem .9rem .15rem 0;border-bottom:1px solid var(--line)}
		main td{white-space:nowrap;font-size:.9rem}
		main td:last-child,main th:last-child{width:auto;min-width:0}
		main td:first-child,main th:first-child,main td:nth-child(2):last-child{text-align:left}
		</style>
		<body>
		<main>
	END
	cat "$tmp/body"
	echo '</main>'
	[ -z "$rollouts" ] || sed '1,/^<body>$/d' -- "$rollouts"
} >"$tmp/page"
mv "$tmp/page" "$page"
