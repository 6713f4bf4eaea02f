# prose.awk -- finds syntax that makes prose hard to read: awk -f t/lint/prose.awk FILE...
#
# Reads comments, strings of C, names of @tests, manual pages and markdown, but not code in quotes or
# backticks.  CONTRIBUTING.md says what to write instead.  Without variables each sentence found is an error.
#     -v counts=1        prints a line COUNT FILE for each file with such sentences
#     -v allowed=FILE    reads lines COUNT FILE: more or fewer sentences in FILE than COUNT are an error
#     both               prints the counts, but no count above the allowed one
function found(pattern, text) {
	hits[FILENAME_] = hits[FILENAME_] + 1
	if (!counts)
		list[FILENAME_] = list[FILENAME_] FILENAME_ ":" at ": " pattern ": " text "\n"
}

# Checks one clause: a sentence, or the part of a sentence up to a colon or semicolon.  The patterns see
# spaces around punctuation, and at both ends of the clause.
function clause(s, question,    t, l) {
	t = s
	s = " " s " "
	gsub(/(^| |\()'[^' ]*'/, " CODE ", s)
	gsub(/[][,.;:()?!]/, " & ", s)
	gsub(/ +/, " ", s)
	l = tolower(s)
	gsub(/^ +| +$/, "", t)
	if (!question && l ~ /^ [-(]* ?(what|who|whoever|whose|whom) [a-z]/ && !trailing)
		found("headless", t)
	if (l ~ /[a-z0-9_)>]('s|s') ([,.;:)]|(and|or|but|than|is|are|was|were|has|have|does|do) |$)/ ||
	    l ~ / (is|are|be|was|were|as|than|not) (theirs|ours|((its|their|his|your) own)) ([,.;:)]|$)/)
		found("possessive", t)
	if (l ~ / (nobody|somebody|whoever|anew|for ever|in vain|to and fro)('s)? /)
		found("word", t)
	if (l ~ /[a-z] (that|which|who) (is|are|was|were) none / || l ~ / (is|are) none of / ||
	    l ~ / no [a-z-]+ of (ours|theirs) / || l ~ / in (the|whose|its|their) place / ||
	    (l ~ / on top ([^o]|$)/))
		found("none", t)
	if (l ~ / so (many|much|few) [a-z]/ && l !~ / so (many|much|few) .*(as|that) /)
		found("so many", t)
	if (s ~ /^ Of [a-z]/ && l !~ /^ of course /)
		found("of", t)
	if (l ~ / (is|are|was|were|be) said ([^t]|to[^ ]|t[^o]|$)/)
		found("said", t)
	if (l ~ / (that|what|which|who) (is|are|was|were) there /)
		found("there", t)
	# "lie n floats apart" is plain English, so only "lie apart" is an error
	gsub(/ (left|leaves?) behind /, " ", l)
	if (l ~ / (behind|besides?|reckon[a-z]*) / ||
	    l ~ / (is|are|be|lies?|lay|stands?|counted|taken|takes?|kept|keeps?|held|sequences) apart /)
		found("word", t)
}

# Divides the text that add() collected into clauses, and checks each of them.
function flush(    s, sentence, end, question) {
	s = text
	text = ""
	at = from
	gsub(/`[^`]*`|"[^"]*"/, "CODE", s)
	gsub(/(e\.g|i\.e|cf|vs|etc)\./, "eg", s)
	while (s ~ /[a-z]/) {
		end = match(s, /[.?!;:][.)"']* /) ? RSTART + RLENGTH - 1 : length(s)
		sentence = substr(s, 1, end)
		s = substr(s, end + 1)
		question = sentence ~ /\?/
		while (match(sentence, /^ *\001[0-9]+\002/)) {
			at = substr(sentence, 1, RLENGTH)
			gsub(/[^0-9]/, "", at)
			sentence = substr(sentence, RLENGTH + 1)
		}
		end = ""
		if (match(sentence, /.*\001/))
			end = substr(sentence, RLENGTH + 1) + 0
		gsub(/ *\001[0-9]+\002 */, " ", sentence)
		clause(sentence, question)
		trailing = 0
		if (end != "")
			at = end
	}
}

# Adds a line of prose to the text.  A line without words, or a heading between dashes, ends a paragraph.
function add(line) {
	if (line !~ /[^ \t*#\/-]/ || line ~ /^ *----/) {
		flush()
		return
	}
	if (text == "")
		from = FNR
	text = text " \001" FNR "\002 " line " "
}

# Reads a line of C.  inside: the line begins within a comment.  A string that follows another one continues
# the text, also in the next line.
function c_line(s,    word, between, end) {
	if (inside) {
		sub(/^[ \t]*\*? ?/, "", s)
		if (!(end = index(s, "*/"))) {
			add(s)
			return
		}
		add(substr(s, 1, end - 1))
		flush()
		inside = 0
		s = substr(s, end + 2)
	}
	while (match(s, /"([^"\\]|\\.)*"|'([^'\\]|\\.)*'|\/\*|\/\//)) {
		word = substr(s, RSTART, RLENGTH)
		between = substr(s, 1, RSTART - 1)
		s = substr(s, RSTART + RLENGTH)
		if (kind != "" && (kind != substr(word, 1, 1) || between ~ /[^ \tA-Z0-9_]/))
			flush()
		if (text == "")
			trailing = word ~ /^"/ ? word ~ /^"[a-z]/ : s ~ /^ ?[a-z]/ && between ~ /[^ \t]/
		kind = substr(word, 1, 1)
		if (word == "//") {
			add(s)
			return
		}
		if (word == "/*") {
			kind = ""
			if (!(end = index(s, "*/"))) {
				inside = 1
				add(s)
				return
			}
			add(substr(s, 1, end - 1))
			flush()
			s = substr(s, end + 2)
		} else if (kind == "\"") {
			word = substr(word, 2, length(word) - 2)
			gsub(/\\["n]/, " ", word)
			if (text == "")
				from = FNR
			text = text (text == "" ? " \001" FNR "\002 " : "") word
		}
	}
	if (kind != "" && s ~ /[^ \tA-Z0-9_]/) {
		flush()
		kind = ""
	}
}

# Reads a line of a language whose comments begin with #.  The name of a @test is a paragraph.
function hash_line(s,    name) {
	if (match(s, /^@test "([^"\\]|\\.)*"/)) {
		name = substr(s, 8, RLENGTH - 8)
		flush()
		gsub(/\\"/, " ", name)
		add(name)
		flush()
	} else if (s ~ /^[ \t]*#/ && s !~ /^#!/) {
		sub(/^[ \t]*#+ ?/, "", s)
		add(s)
	} else {
		flush()
		if (match(s, /[ \t]# /)) {
			name = substr(s, RSTART + 3)
			s = substr(s, 1, RSTART)
			if (gsub(/"/, "", s) % 2 == 0 && gsub(/'/, "", s) % 2 == 0)
				add(name)
		}
	}
}

# Reads a line of a manual page (mdoc).
function man_line(s) {
	if (s ~ /^\.(Bd|EX)/)
		literal = 1
	if (s ~ /^\.(Ed|EE)/)
		literal = 0
	if (literal || s ~ /^\.\\"/)
		return
	if (s ~ /^\.It/ || s ~ /^\.(Sh|Ss|Pp|Bl|El|Bd|Ed|Nd|D1|Dl|Bro?|Op)/) {
		flush()
		return
	}
	if (s ~ /^\./) {
		s = substr(s, 2)
		gsub(/ Ns /, "\003", s)
		gsub(/(^| |\003)(Nm|Xr|Fl|Ar|Pa|Dv|Em|Sy|Li|Ql|Dq|Ev|Cm|Sq|Va|Vt|Fn|Aq|Pq|No|Ic)( |$)/, \
		     " ", s)
		gsub(/\003/, "", s)
		gsub(/ [,.;:)]/, "&\004", s)
		gsub(/ [,.;:)]\004/, "\005&", s)
		gsub(/\005 /, "", s)
		gsub(/\004/, "", s)
	}
	gsub(/\\&|\\f[BIRP]/, "", s)
	add(s)
}

# Reads a line of markdown.  Each item of a list, heading or row of a table is a paragraph.
function md_line(s) {
	if (s ~ /^ *```/) {
		flush()
		literal = !literal
	} else if (!literal) {
		if (s ~ /^ *([-*|#>]|[0-9]+\.)/ || s ~ /^    /)
			flush()
		gsub(/\|/, ". ", s)
		if (s !~ /^    /)
			add(s)
		if (s ~ /^#/)
			flush()
	}
}

FNR == 1 {
	flush()
	files[++n] = FILENAME_ = FILENAME
	literal = inside = trailing = 0
	kind = ""
	language = "hash"
	if (FILENAME ~ /\.(c|h|cc|cu|cuh|cpp)$/)
		language = "c"
	if (FILENAME ~ /\.md$|(^|\/)(README|NEWS)$/)
		language = "md"
	if (FILENAME ~ /\.[157]$/)
		language = "man"
}
language == "c" { c_line($0) }
language == "hash" { hash_line($0) }
language == "man" { man_line($0) }
language == "md" { md_line($0) }

END {
	flush()
	while (allowed != "" && (getline line < allowed) > 0) {
		split(line, word, " ")
		most[word[2]] = word[1]
	}
	for (i = 1; i <= n; i++) {
		f = files[i]
		total += hits[f]
		if (counts) {
			if (hits[f] && (allowed == "" || most[f]))
				print (allowed != "" && most[f] < hits[f] ? most[f] : hits[f]) " " f
		} else if (allowed == "" || hits[f] + 0 > most[f] + 0) {
			printf "%s", list[f]
			if (allowed != "")
				print "lint: " f ": " hits[f] " sentences to write again, more than the " \
				      most[f] + 0 " of " allowed
			bad = bad || hits[f] > 0
		} else if (hits[f] + 0 < most[f] + 0)
			fewer = fewer "lint: " f ": " hits[f] + 0 " sentences to write again, and " allowed \
			        " allows " most[f] "\n"
		delete most[f]
	}
	for (f in most)
		fewer = fewer "lint: " f ": named in " allowed ", but not a file\n"
	if (fewer != "" && !counts) {
		printf "%s", fewer
		print "lint: lower the allowance: make prose-allowed"
		bad = 1
	}
	exit bad
}
