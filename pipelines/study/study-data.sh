#!/bin/bash
# study-data.sh DATA [SEED] -- makes the training and test data of make study.  In the folder DATA:
#
#     list, valid/list, test/list
#                         names of texts (corpus.sh): four, one and one of every six texts
#     words               128 words of one token each, from which facts are made (recall.awk)
#     tokenizer/          2048 pieces by sentencepiece's spm_train, so that five tokens are words
#     valid/, tune/       questions on facts in validation texts, and these texts: valid/ for the temperature
#                         of a model, tune/ for its settings
#
# DATA.sum gets the hash of texts, words and tokenizer.  If it exists, they must have this hash, so that no
# two versions of the texts get into one study.
#
# With SEED, the folder DATA/seed-SEED gets the data of a seed.  No two uses draw the same documents.
#
#     first.rf, lessons.rf
#                         teach the model to look up earlier tokens
#     early.rf, plateau.rf
#                         two lengths of pre-training: text, documents of facts, needles with their answers
#     mid.rf              mid-training: others of this mixture, with texts that are in neither of the two
#     post.rf, asked.rf   questions on facts with their answers: to train on, and to answer at test time, in
#                         test texts, or in validation texts for the seeds TUNE
#     test/               questions on facts in test texts, and test texts
#
# A folder of questions has facts-8.rf, facts-16.rf and facts-32.rf, each with as many documents as ASK says
# and with this number of facts in each document; rf-logp reads them.  Each document has eight questions.
# text.rf has TEXT pieces of text.
#
# From the environment: LESSONS, SHORT, EARLY, PLATEAU, MID, POST, TTT: numbers of documents; ASK: documents
# of each load in tune/ and test/, of which valid/ has a quarter; TEXT: pieces of text; LEN: tokens; TUNE: the
# seeds of tuning.
set -euo pipefail
export LC_ALL=C

[ $# -eq 1 ] || [ $# -eq 2 ] || { echo 'usage: study-data.sh DATA [SEED]' >&2; exit 64; }
here=$(cd -- "$(dirname -- "$0")" >/dev/null && pwd)
data=$1 seed=${2:-}
case $data in /*) ;; *) data=./$data ;; esac # else awk could take the name of a file for an assignment
to=$data${2:+/seed-$2}
# Two lanes of study.mk may need the same data: the second one waits.
mkdir -p "$(dirname -- "$to")"
exec 9<"$(dirname -- "$to")"
flock 9
[ ! -e "$to" ] || exit 0
command -v spm_train >/dev/null || { echo 'spm_train is not installed: make deps' >&2; exit 69; }
tmp=$to.tmp
rm -rf "$tmp"
mkdir -p "$tmp"
trap 'rm -rf "$tmp"' EXIT

say() { printf 'study: %s\n' "$*" >&2; }

# ---- documents, made with words and tokenizer of the folder $of

# recall KIND SEED N BYTES WORDS TEXT...: prints documents of recall.awk
recall() {
	awk -v kind="$1" -v seed="$2" -v n="$3" -v bytes="$4" -v POOL="${POOL:-}" -v FACTS="${FACTS:-}" \
		-f "$here/recall.awk" "${@:5}"
}
tokenize() { rf-tokenize --tokenizer "$of/tokenizer" "$@" 2>>"$tmp/log"; }

# needles SEED N LENGTH TEXT...: prints N samples of each of four tasks, the same number in each text
needles() {
	local seed=$1 n=$2 length=$3 i=0 texts
	shift 3
	texts=$#
	for text in "$@"; do
		rf-needle --task niah_single_2,niah_multikey_1,niah_multivalue,niah_multiquery \
			--tokenizer "$of/tokenizer" --length "$length" --seed "$seed" -n "$n" --digits 4 \
			--range $((i * n / texts)):$(((i + 1) * n / texts)) --haystack "$text" \
			--adjectives "$of/adjectives" --nouns "$of/nouns" --template "$of/template"
		i=$((i + 1))
	done | jq -c '{prompt: (.input + .answer_prefix), answer: ((.outputs | join(", ")) + ".\n"),
		answers: .outputs, task, length, depth: .depth[0]}'
}

# The loads, each with the bytes of its documents.
loads=(8:1500 16:2250 32:3750)

# mixture USE N FROM OUT: writes N documents: two in five text, two in five facts, a third of
# them of each load, and one in five needles.  All mixtures of a seed take texts in the same order; this one
# begins at text FROM.
mixture() {
	local use=$1 n=$2 from=$3 to=$4 load i=0
	tokenize --max-len "$LEN" --truncate split --min-len 64 "${texts[@]}" |
		rf-cat --shuffle --seed "$seed" |
		rf-cat --range "$from:$((from + n * 2 / 5))" -o "$to.text"
	for load in "${loads[@]}"; do
		FACTS=${load%:*} recall facts $((use + i)) $(((n * 2 / 5 + i) / 3)) "${load#*:}" \
			"$of/words" "${texts[@]}"
		i=$((i + 1))
	done | tokenize --max-len $((4 * LEN)) --truncate right -o "$to.facts"
	needles "$use" $((n / 20)) "$LEN" "${texts[@]}" | jq -c '{text: (.prompt + " " + .answer)}' |
		tokenize -o "$to.needles"
	rf-cat --renumber "$to.text" "$to.facts" "$to.needles" | rf-cat --shuffle --seed "$use" -o "$to"
	rm "$to.text" "$to.facts" "$to.needles"
}

# questions USE N TO TEXT...: makes the folder TO of questions on N documents of each load
questions() {
	local use=$1 n=$2 to=$3 load i=0
	shift 3
	mkdir -p "$to"
	for load in "${loads[@]}"; do
		FACTS=${load%:*} recall choices $((use + i++)) "$n" "${load#*:}" "$of/words" "$@" |
			tokenize --prompt-key prompt --choices-key choices --no-eos \
				-o "$to/facts-${load%:*}.rf"
	done
	# shellcheck disable=SC2153  # TEXT comes from the environment
	tokenize --max-len "$LEN" --truncate split --min-len "$LEN" "$@" | rf-cat --shuffle --seed 1 |
		rf-cat --range "0:$TEXT" -o "$to/text.rf"
}

# tasks USE N OUT TEXT...: writes N questions with their answers, a third of them of each load
tasks() {
	local use=$1 n=$2 to=$3 load i=0
	shift 3
	for load in "${loads[@]}"; do
		FACTS=${load%:*} recall ask $((use + i++)) $(((n + 2) / 3)) "${load#*:}" "$of/words" "$@"
	done | tokenize --prompt-key prompt --answer-key answer --no-eos |
		rf-cat --shuffle --seed "$seed" | rf-cat --range "0:$n" -o "$to"
}

# ---- training data of a seed

if [ "$seed" ]; then
	of=$data
	use=$((100 * seed)) # the first of this seed's hundred sequences of random numbers
	mapfile -t texts <"$data/list"
	mapfile -t held <"$data/test/list"
	POOL=64 recall chunks $use "$LESSONS" 0 "$data/words" | tokenize --no-eos -o "$tmp/first.rf"
	{
		POOL=128 recall chunks $((use + 1)) "$SHORT" 0 "$data/words"
		recall numbers $((use + 2)) $((SHORT / 2)) 0 "$data/words"
		FACTS=4 recall facts $((use + 3)) $((SHORT * 3 / 2)) 0 "$data/words"
		recall facts $((use + 4)) $((SHORT * 2)) 500 "$data/words" "${texts[@]}"
	} | tokenize --max-len $((2 * LEN)) --truncate right --no-eos -o "$tmp/lessons.rf"
	mixture $((use + 10)) "$MID" 0 "$tmp/mid.rf"
	mixture $((use + 20)) "$EARLY" $((MID * 2 / 5)) "$tmp/early.rf"
	mixture $((use + 30)) "$PLATEAU" $((MID * 2 / 5)) "$tmp/plateau.rf"
	tasks $((use + 40)) "$POST" "$tmp/post.rf" "${texts[@]}"
	asked=("${held[@]}")
	[[ " ${TUNE:-} " != *" $seed "* ]] || mapfile -t asked <"$data/valid/list"
	tasks $((use + 50)) "$TTT" "$tmp/asked.rf" "${asked[@]}"
	questions $((use + 60)) "$ASK" "$tmp/test" "${held[@]}"
	for file in early plateau mid; do
		rf-dump --tsv --rows record --columns T --no-header "$tmp/$file.rf" |
			awk -v name="$seed, $file" '{ t += $1 }
				END { print "study: seed " name ": " t " tokens in " NR " documents" }' >&2
	done
	mv "$tmp" "$to"
	exit
fi

# ---- tokenizer and words

of=$tmp
mkdir "$tmp/tokenizer" "$tmp/valid" "$tmp/test"
"$here/../demo/corpus.sh" "$tmp/corpus"
i=0
for text in "$tmp"/corpus/*.txt; do
	case $((i++ % 6)) in
	2) echo "$text" >>"$tmp/valid/list" ;;
	5) echo "$text" >>"$tmp/test/list" ;;
	*) echo "$text" >>"$tmp/list" ;;
	esac
done
mapfile -t texts <"$tmp/list"

# Frequent words of 4 to 8 letters.  The tokenizer is also trained on facts of these words, and the words that
# become single pieces are kept.
cat "${texts[@]}" >"$tmp/all.txt"
tr -cs 'a-zA-Z' '\n' <"$tmp/all.txt" | grep -xE '[a-z]{4,8}' | sort | uniq -c | sort -k1,1rn -k2,2 |
	awk '$1 >= 60 { print $2 }' >"$tmp/frequent"
recall facts 0 3000 1500 "$tmp/frequent" "${texts[@]}" | jq -r .text >"$tmp/facts.txt"
# The names of files are relative, because the tokenizer contains them, and its hash must not depend on DATA.
(cd -- "$tmp" && spm_train --input=all.txt,facts.txt --model_prefix=tokenizer/tokenizer --model_type=bpe \
	--vocab_size=2048 --byte_fallback=true --character_coverage=1 --split_digits=true \
	--normalization_rule_name=identity --remove_extra_whitespaces=false --num_threads=1 \
	--minloglevel=2) 2>"$tmp/log" || { cat "$tmp/log" >&2; exit 70; }
sed -n 's/^▁\([a-z]\{4,8\}\)\t.*/\1/p' "$tmp/tokenizer/tokenizer.vocab" |
	awk 'NR == FNR { piece[$1]; next } $1 in piece && n++ < 128' - "$tmp/frequent" >"$tmp/words"
awk 'FNR % 2' "$tmp/words" >"$tmp/adjectives"
awk 'FNR % 2 == 0' "$tmp/words" >"$tmp/nouns"
say "$(wc -l <"$tmp/words") words, each of them a token; ${#texts[@]} texts to train on"
rm "$tmp/all.txt" "$tmp/facts.txt" "$tmp/frequent" "$tmp/tokenizer/tokenizer.vocab"

# A question repeats the words of its needle, as a question about a fact does.
cat >"$tmp/template" <<-'END'
	{ "niah": { "needle": "The {type_needle_v} of {key} is {value}.",
	  "input": "{context}\nWhat are the {type_needle_v} of {query}?",
	  "answer_prefix": " The {type_needle_v} of {query} are",
	  "input_one": "{context}\nWhat is the {type_needle_v} of {query}?",
	  "answer_prefix_one": " The {type_needle_v} of {query} is" } }
END

# ---- validation

mapfile -t held <"$tmp/valid/list"
questions 0 "$ASK" "$tmp/tune" "${held[@]}"
questions 10 $(((ASK + 3) / 4)) "$tmp/valid" "${held[@]}"
sum=$(cd -- "$tmp" && cat corpus/*.txt words tokenizer/tokenizer.model | sha256sum | cut -c 1-16)
[ "$(cat "$data.sum" 2>/dev/null || echo "$sum")" = "$sum" ] || {
	echo "study: ${data#./}: texts or tokenizer are not those of ${data#./}.sum:" \
		"is perl-doc another version?" >&2
	exit 65
}
echo "$sum" >"$data.sum"
# the names are relative to the folder
sed -i "s|^$tmp/|$data/|" "$tmp/list" "$tmp/valid/list" "$tmp/test/list"
mv "$tmp" "$to"
