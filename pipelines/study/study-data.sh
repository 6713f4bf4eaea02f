#!/bin/bash
# study-data.sh DATA [SEED] -- makes the training and test data of make study.  In the folder DATA:
#
#     list, valid/list, test/list
#                         names of texts (corpus.sh): four, one and one of every six texts
#     words               128 words of one token each, from which facts are made (recall.awk)
#     tokenizer/          2048 pieces by sentencepiece's spm_train, so that five tokens are words
#     valid/, test/       text.rf, places.rf (text and facts with positions for rollouts), and questions:
#                         facts-1.rf, facts-2.rf, facts-4.rf, needle-1.rf, ... at 1, 2 and 4 times the length
#                         of training.  *.ask.rf has the same questions followed by their answers
#     test/asked.rf       TTT questions of the length of training, in random order
#
# With SEED, the folder DATA/seed-SEED gets the training data of a seed, in the order of their use: first.rf
# and lessons.rf teach the model to look up earlier tokens; pre.rf and mid.rf have text, documents of facts,
# and needles with their answers; post.rf has questions with answers.
#
# From the environment: LESSONS, SHORT, PRE, MID, POST: numbers of documents; ASK: number of questions of each
# kind and length; TTT: number of questions at test time; LEN: tokens.
set -euo pipefail
export LC_ALL=C

[ $# -eq 1 ] || [ $# -eq 2 ] || { echo 'usage: study-data.sh DATA [SEED]' >&2; exit 64; }
here=$(cd -- "$(dirname -- "$0")" >/dev/null && pwd)
data=$1 seed=${2:-}
case $data in /*) ;; *) data=./$data ;; esac # else awk could take the name of a file for an assignment
to=$data${2:+/seed-$2}
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

# mixture SEED N FROM OUT: writes N documents: two in five text, two in five facts, one in five needles.  All
# mixtures of a seed take texts in the same order; this one leaves out the texts of the first FROM documents.
mixture() {
	local draw=$1 n=$2 from=$3 to=$4
	tokenize --max-len "$LEN" --truncate split --min-len 64 "${texts[@]}" |
		rf-cat --shuffle --seed "$seed" |
		rf-cat --range "$((from * 2 / 5)):$(((from + n) * 2 / 5))" -o "$to.text"
	recall facts "$draw" $((n * 2 / 5)) 1500 "$of/words" "${texts[@]}" |
		tokenize --max-len $((2 * LEN)) --truncate right -o "$to.facts"
	needles "$draw" $((n / 20)) "$LEN" "${texts[@]}" | jq -c '{text: (.prompt + " " + .answer)}' |
		tokenize -o "$to.needles"
	rf-cat --renumber "$to.text" "$to.facts" "$to.needles" | rf-cat --shuffle --seed "$draw" -o "$to"
	rm "$to.text" "$to.facts" "$to.needles"
}

# questions SEED N TIMES TEXT...: prints questions about facts and needles, at TIMES the length of training
questions() {
	local seed=$1 n=$2 times=$3
	shift 3
	recall ask "$seed" "$n" $((1500 * times)) "$of/words" "$@" |
		jq -c --argjson times "$times" '. + {task: "facts", length: $times}'
	needles "$seed" $((n / 4)) $((LEN * times)) "$@" | jq -c --argjson times "$times" '.length = $times'
}
ask() { tokenize --prompt-key prompt --answer-key answer --meta-key task,length --no-eos "$@"; }

# ---- training data of a seed

if [ "$seed" ]; then
	of=$data
	mapfile -t texts <"$data/list"
	POOL=64 recall chunks $((5 * seed)) "$LESSONS" 0 "$data/words" | tokenize --no-eos -o "$tmp/first.rf"
	{
		POOL=128 recall chunks $((5 * seed + 1)) "$SHORT" 0 "$data/words"
		recall numbers $((5 * seed + 2)) $((SHORT / 2)) 0 "$data/words"
		FACTS=4 recall facts $((5 * seed + 3)) $((SHORT * 3 / 2)) 0 "$data/words"
		recall facts $((5 * seed + 4)) $((SHORT * 2)) 500 "$data/words" "${texts[@]}"
	} | tokenize --max-len $((2 * LEN)) --truncate right --no-eos -o "$tmp/lessons.rf"
	mixture $((3 * seed)) "$PRE" 0 "$tmp/pre.rf"
	mixture $((3 * seed + 1)) "$MID" "$PRE" "$tmp/mid.rf"
	questions $((3 * seed + 2)) $((POST / 2)) 1 "${texts[@]}" >"$tmp/post.jsonl"
	ask "$tmp/post.jsonl" | rf-cat --shuffle --seed "$seed" -o "$tmp/post.rf"
	rm "$tmp/post.jsonl"
	tokens=$(rf-dump --tsv --rows record --columns T --no-header "$tmp/pre.rf" 2>/dev/null |
		awk '{ t += $1 } END { print t }')
	say "seed $seed: $tokens tokens to pre-train on"
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
spm_train --input="$tmp/all.txt,$tmp/facts.txt" --model_prefix="$tmp/tokenizer/tokenizer" --model_type=bpe \
	--vocab_size=2048 --byte_fallback=true --character_coverage=1 --split_digits=true \
	--normalization_rule_name=identity --remove_extra_whitespaces=false --num_threads=1 \
	--minloglevel=2 2>"$tmp/log" || { cat "$tmp/log" >&2; exit 70; }
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

# ---- validation and test

for part in valid test; do
	mapfile -t held <"$tmp/$part/list"
	seed=$([ $part = valid ] && echo 1000001 || echo 1000002)
	tokenize --max-len "$LEN" --truncate split --min-len "$LEN" "${held[@]}" | rf-cat --shuffle --seed 1 |
		rf-cat --range "0:$ASK" -o "$tmp/$part/text.rf"
	recall facts "$seed" "$ASK" 1500 "$tmp/words" "${held[@]}" |
		tokenize --max-len $((2 * LEN)) --truncate right -o "$tmp/places"
	rf-cat --renumber "$tmp/$part/text.rf" "$tmp/places" |
		rf-select --mode uniform --draw-step 0 -o "$tmp/$part/places.rf" 2>>"$tmp/log"
	for times in 1 2 4; do
		questions "$seed" "$ASK" "$times" "${held[@]}" >"$tmp/asked"
		for task in facts niah; do
			name=$tmp/$part/${task/niah/needle}-$times
			grep "\"task\":\"$task" "$tmp/asked" >"$name.jsonl"
			ask -o "$name.ask.rf" "$name.jsonl"
			tokenize --prompt-key prompt --answers-key answers --meta-key task,length,depth \
				--no-eos -o "$name.rf" "$name.jsonl"
		done
	done
done
rf-cat --renumber "$tmp/test/facts-1.ask.rf" "$tmp/test/needle-1.ask.rf" | rf-cat --shuffle --seed 1 |
	rf-cat --range "0:$TTT" -o "$tmp/test/asked.rf"
rm -f "$tmp/places" "$tmp/asked" "$tmp/post.jsonl"
# the names are relative to the folder
sed -i "s|^$tmp/|$data/|" "$tmp/list" "$tmp/valid/list" "$tmp/test/list"
mv "$tmp" "$to"
