#!/bin/bash
# study-parts.sh VERB RUN FILE -- keeps the figures of all parts of make study in one file, so that another
# machine can go on:
#
#     unpack    writes the figures in FILE to the parts of the folder RUN, except those that RUN has.  If FILE
#               has the figures of other words than RUN, a message reports this, and nothing is written
#     pack      writes the figures of all parts of RUN to FILE
#     same      checks that the model RUN is the one that the figures in FILE were measured with, if FILE
#               exists.  If another machine made another model, its parts cannot be compared with the others
#
# A line of FILE is: phase, point, method, seed, figure, value.  Lines with the seed "-" are about the study:
# "words" has its words, as in RUN/words, and "texts" the hash of its texts, as in RUN/data.sum.
set -euo pipefail
export LC_ALL=C

[ $# -eq 3 ] || { echo 'usage: study-parts.sh unpack|pack|same RUN FILE' >&2; exit 64; }
run=$2 file=$3

words() { awk -F = '{ print "words\t-\t-\t-\t" $1 "\t" substr($0, length($1) + 2) }' <"$run/words"; }

case $1 in
unpack)
	[ -e "$file" ] || exit 0
	grep '^words' "$file" | cmp -s - <(words) || {
		echo "study: $file has the figures of other words than $run/words, so all parts are made" >&2
		exit 0
	}
	[ -e "$run/data.sum" ] || sed -n 's/^texts\t.*\t//p' "$file" | grep . >"$run/data.sum" ||
		rm "$run/data.sum"
	while IFS=$'\t' read -r part; do
		[ ! -e "$run/$part.tsv" ] || continue
		mkdir -p "$run/${part%/*}"
		PART=$part awk -F '\t' '$1 "/" $2 "/" $3 "/" $4 == ENVIRON["PART"] { print $5 "\t" $6 }' \
			<"$file" >"$run/$part.tmp"
		mv "$run/$part.tmp" "$run/$part.tsv"
	done < <(awk -F '\t' '$4 != "-" { print $1 "/" $2 "/" $3 "/" $4 }' <"$file" | sort -u)
	;;
pack)
	{
		words
		[ ! -e "$run/data.sum" ] || printf 'texts\t-\t-\t-\tsha256\t%s\n' "$(<"$run/data.sum")"
		for phase in base tune mid rate post-tune post testtime-tune testtime ablation; do
			[ ! -d "$run/$phase" ] || (cd -- "$run" &&
				find "$phase" -mindepth 3 -maxdepth 3 -name '*.tsv' | sort -V)
		done | while IFS= read -r part; do
			PART=${part%.tsv} awk 'BEGIN { path = ENVIRON["PART"]; gsub("/", "\t", path) }
				{ print path "\t" $0 }' <"$run/$part"
		done
	} >"$file.tmp"
	if cmp -s "$file.tmp" "$file"; then rm "$file.tmp"; else mv "$file.tmp" "$file"; fi
	;;
same)
	weights=$(jq -r .weights "$run/latest/state.json")
	[ ! -e "$file" ] || [ "$(sed -n 's/^weights\t//p' "$file")" = "$weights" ] || {
		echo "$run: is not the model of $file: this processor computes other bits" >&2
		exit 65
	}
	;;
*) echo 'usage: study-parts.sh unpack|pack|same RUN FILE' >&2; exit 64 ;;
esac
