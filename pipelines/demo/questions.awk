# questions.awk -- makes questions of texts by a rule: awk -v each=4 -v test=0 -f questions.awk PAGE.txt ...
#
# Every third text is for tests (test=1), the others are for training.
#
# Each text gives `each` passages of whole paragraphs, 300 to 500 bytes, evenly over its length.  The question
# is which word follows two others that stand once in the passage.  So only the prompt has the answer, at one
# place.  The two words are drawn by a generator that is the same on every machine.
#
#     {"prompt": "PASSAGE\n\nWhich word follows \"the whole\"?", "answer": " program\n",
#      "answers": ["program"], "page": "perlfoo"}
function draw(n) { # [0, n)
	state = (state * 1103 + 12345) % 1048576
	return int(state / 1048576 * n)
}

function json(s) {
	gsub(/["\\]/, "\\\\&", s)
	gsub(/\n/, "\\n", s)
	gsub(/\t/, " ", s)
	return s
}

function ask(passage,    words, word, i, n, tries, pair, count, rest) {
	words = split(passage, word, /[ \n]+/)
	for (tries = 0; tries < 40; tries++) {
		i = 1 + draw(words - 2)
		if (word[i] !~ /^[A-Za-z]+$/ || word[i + 1] !~ /^[A-Za-z]+$/ ||
		    word[i + 2] !~ /^[a-z][a-z][a-z]+$/)
			continue
		pair = word[i] " " word[i + 1]
		count = 0
		for (n = 1; n < words; n++)
			count += word[n] " " word[n + 1] == pair
		if (count > 1)
			continue
		printf "{\"prompt\": \"%s\\n\\nWhich word follows \\\"%s\\\"?\", \"answer\": \" %s\\n\", ", \
			json(passage), pair, word[i + 2]
		printf "\"answers\": [\"%s\"], \"page\": \"%s\"}\n", word[i + 2], page
		return 1
	}
	return 0
}

# Prints the questions about `each` passages of a text, evenly over its length.
function finish(    i) {
	for (i = 0; i < each && passages && (texts % 3 == 0) == test; i++)
		ask(passage[int((i + .5) * passages / each)])
	passages = 0
	open = ""
}

BEGIN { RS = ""; state = 1 }
FNR == 1 {
	finish()
	texts++
	page = FILENAME
	sub(/^.*\//, "", page)
	sub(/\.txt$/, "", page)
}
/[^ -~\n\t]/ { open = ""; next }        # only what JSON and a terminal show as it is
{
	open = open == "" ? $0 : open "\n\n" $0
	if (length(open) > 500)
		open = ""
	else if (length(open) >= 300) {
		passage[passages++] = open
		open = ""
	}
}
END { finish() }
