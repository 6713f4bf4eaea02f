#!/bin/bash
# sample-page.sh rollout|sample MODEL PAGE FILE... -- writes a page with 20 rollouts or samples of streams
# (rf-dump --html), for page.sh.  A FILE may be -, standard input.
#
# MODEL is a run or checkpoint.  Tokens of a stream without a built-in tokenizer are shown as text by the
# tokenizer of MODEL, and as numbers if MODEL has none.
set -euo pipefail

rows=$1 model=$2 page=$3
shift 3
case $page in /*) ;; *) page=./$page ;; esac
trap 'rm -f "$page.tmp"' EXIT
dump=(rf-dump --html)
if printf '' | rf-tokenize --tokenizer "$model" --format text - &>/dev/null; then
	dump+=(-m "$model")
fi
"${dump[@]}" --rows "$rows" --sample 20 -- "$@" >"$page.tmp"
mv "$page.tmp" "$page"
