# recall.awk -- makes documents whose end can be predicted only from their beginning, for make study:
#
#     awk -v kind=facts -v seed=1 -v n=100 -v bytes=1500 -f recall.awk WORDS TEXT ...
#
# Facts of random words, such as "gate loop means join last hash term.", stand at random places among
# paragraphs of texts, about `bytes` in all.  Each of the FACTS=8 facts of a document has a key of KEY=2 words
# and a meaning of MEANING=4 words.  If each word is a token, a rollout of five tokens can be a meaning.
#
#     kind=facts    {"text": ...}: after the text and the line "Again:" all facts are repeated in another
#                   order.  Without this line, the first repeated fact would look like one more new fact
#          ask      {"prompt": ..., "answer": ..., "answers": [...], "depth": ...}: one fact is repeated in
#                   the prompt, up to the word "means"
#          choices  {"prompt": [...], "choices": [...]} for rf-logp: ASKED=8 of the facts are asked for, each
#                   after the same document.  Choice 2i is the meaning of fact i after its key, and choice
#                   2i + 1 is the rest of the meaning after its first word
#          chunks   {"text": ...}: no text and no sentences, but four groups of 4 of the first POOL words,
#                   and then the same groups in 6 other orders
#          numbers  {"text": ...}: four sentences "word is 1234.", and then the same in 2 other orders
#
# On chunks and numbers a small model learns within minutes to look up earlier tokens.  On the other kinds it
# does not learn this within an hour.
#
# WORDS has a word on each line.  Document i depends only on the seed and i.
function draw(k) { # [0, k); Park and Miller's generator, whose products a double holds exactly
	state = state * 16807 % 2147483647
	return int(state / 2147483647 * k)
}

function json(s) {
	gsub(/["\\]/, "\\\\&", s)
	gsub(/\n/, "\\n", s)
	gsub(/[\001-\037]/, " ", s)
	return "\"" s "\""
}

# Puts a random order of 0..k-1 into order[].
function shuffle(k,    i, j, x) {
	for (i = 0; i < k; i++)
		order[i] = i
	for (i = k - 1; i > 0; i--) {
		j = draw(i + 1)
		x = order[i]
		order[i] = order[j]
		order[j] = x
	}
}

# Returns k of the first n words.
function some(k, n,    s) {
	for (s = ""; k > 0; k--)
		s = s (s == "" ? "" : " ") word[draw(n)]
	return s
}

function number(k,    s) {
	for (s = ""; k > 0; k--)
		s = s draw(10)
	return s
}

# Returns four items, followed by the same items in `orders` other orders.
function again(orders,    i, r, s) {
	for (i = 0; i < 4; i++)
		part[i] = kind == "chunks" ? some(4, POOL) : some(1, words) " is " number(DIGITS) "."
	for (r = 0; r <= orders; r++) {
		shuffle(4)
		for (i = 0; i < 4; i++)
			s = s (s == "" ? "" : " ") part[order[i]]
	}
	print "{\"text\":" json(s) "}"
}

# Prints two questions on each of ASKED facts, whose contexts have the document s as their common beginning:
# the whole meaning after the key, and the meaning without its first word after the key and this word.
function choices(s,    i, j, f, first, contexts, answers) {
	for (i = 0; i < ASKED; i++) {
		f = order[i]
		first = meaning[f]
		sub(/ .*/, "", first)
		j = i ? "," : ""
		contexts = contexts j json(s key[f] " means") "," json(s key[f] " means " first)
		answers = answers j json(" " meaning[f]) "," json(substr(meaning[f], length(first) + 1))
	}
	print "{\"prompt\":[" contexts "],\"choices\":[" answers "]}"
}

function fact(i) {
	return key[i] " means " meaning[i] ".\n"
}

function facts(    i, p, first, last, left, at, s, asked) {
	for (i = 0; i < FACTS; i++) {
		key[i] = some(KEY, words)
		meaning[i] = some(MEANING, words)
	}
	first = draw(paragraphs)
	left = bytes - FACTS * 50
	for (last = first; (left -= length(paragraph[last % paragraphs]) + 2) > 0; last++)
		;
	for (i = 0; i < FACTS; i++)
		at[i] = first + draw(last - first + 1)
	s = ""
	for (p = first; p <= last; p++) {
		for (i = 0; i < FACTS; i++)
			if (at[i] == p)
				s = s fact(i) "\n"
		if (p < last)
			s = s paragraph[p % paragraphs] "\n\n"
	}
	s = s "Again:\n"
	shuffle(FACTS)
	if (kind == "facts") {
		for (i = 0; i < FACTS; i++)
			s = s fact(order[i])
		print "{\"text\":" json(s) "}"
		return
	}
	if (kind == "choices") {
		choices(s)
		return
	}
	asked = order[0]
	printf "{\"prompt\":%s,\"answer\":%s,\"answers\":[%s],\"depth\":%.3f}\n", \
		json(s key[asked] " means"), json(meaning[asked] ".\n"), json(meaning[asked]), \
		(at[asked] - first) / (last - first + 1)
}

BEGIN {
	FACTS = FACTS ? FACTS : 8
	ASKED = ASKED ? ASKED : 8
	KEY = KEY ? KEY : 2
	MEANING = MEANING ? MEANING : 4
	POOL = POOL ? POOL : 64
	DIGITS = 4
}

FILENAME == ARGV[1] {
	word[words++] = $1
	next
}
FNR == 1 || $0 == "" {
	# skips verbatim code, whose lines are indented, and paragraphs of more than half a document
	if (length(text) >= 60 && length(text) <= 500 && text !~ /^[ \t]/)
		paragraph[paragraphs++] = text
	text = ""
}
{ text = text (text == "" ? "" : "\n") $0 }

END {
	for (document = 0; document < n; document++) {
		state = (seed * 1000003 + document) % 2147483646 + 1
		for (burn = 0; burn < 4; burn++)
			draw(2)
		if (kind == "chunks")
			again(6)
		else if (kind == "numbers")
			again(2)
		else
			facts()
	}
}
