# man.awk -- compares the options and defaults of a program's --help with those of its page: awk -f man.awk
# HELP rf-tools.7 rf-train.7 PAGE.1
#
# In a page an option's item begins with ".It Fl" and ends where the next item begins.  Its default is in a
# sentence "The default is X", or is the item of an inner list whose text has "the default".  An option
# without a default in --help needs none in the page.
#
# An item whose text begins "See GLOBAL OPTIONS in", or MODEL, names options of that section in rf-tools(7),
# which has their defaults; rf-train(7) has those of TRAINER OPTIONS.

function fail(text) {
	print page ": " text
	bad = 1
}

# Returns a number in awk's form, so that 1e-6 and 1e-06 are equal
function plain(x,    pair) {
	sub(/[.:;,]$/, "", x)
	if (split(x, pair, ",") == 2)
		return plain(pair[1]) "," plain(pair[2])
	return x ~ /^-?[0-9.]+(e-?[0-9]+)?$/ ? x + 0 "" : x
}

FNR == NR && /^  (-.,|   ) --/ {
	rest = substr($0, index($0, "--") + 2)
	match(rest, /^[a-z-]+/)
	name = substr(rest, 1, RLENGTH)
	help[name] = ""
	short[name] = /^  -/ ? substr($0, 4, 1) : ""
}
FNR == NR && name != "" && /\[[^ ]*\]$/ {
	x = $NF
	gsub(/^\[|\]$/, "", x)
	help[name] = x
}
FNR == NR && /^$/ { name = "" }
FNR == NR { next }

FNR == 1 {
	page = FILENAME
	tools = page ~ /rf-(tools|train)\.7$/
	where = ""
}
tools && /^\.Sh / { where = /^\.Sh (GLOBAL|MODEL|TRAINER) OPTIONS$/ ? $2 SUBSEP : "" }
tools && where == "" { next }

# ".It Fl o , -output Ar file , Fl -x" names o, output and x
/^\.It Fl / {
	names = sentence = ""
	n = split($0, word, " ")
	for (i = 2; i <= n; i++)
		if (word[i - 1] == "Fl" || (word[i - 1] == "," && word[i] ~ /^-/)) {
			sub(/^-/, "", word[i])
			names = names " " word[i]
			listed[where word[i]] = 1
		}
	next
}
!tools && /^See (GLOBAL|MODEL|TRAINER) OPTIONS in$/ {
	m = split(names, own, " ")
	for (i = 1; i <= m; i++) {
		if (!(($2, own[i]) in listed))
			fail("-" (length(own[i]) > 1 ? "-" : "") own[i] " is not among the " $2 " OPTIONS")
		if (($2, own[i]) in def)
			def[own[i]] = def[$2, own[i]]
	}
}
/^\.(Sh|Ss) / { names = "" }
names == "" { next }
/^\.It (Cm|Li) / {
	item = $3
	sentence = ""
	next
}
{
	line = $0
	sub(/^\.(Cm|Ar|Ql|Pa|Li|Fl|Va) /, "", line)
	if (sentence ~ /[.:]$/)
		sentence = ""
	gsub(/\\-/, "-", line)
	gsub(/ *Ns */, "", line)
	sentence = sentence " " line
	m = split(names, own, " ")
	if (match(sentence, /[Tt]he default is [^ ]+/)) {
		x = substr(sentence, RSTART + 15, RLENGTH - 15)
		for (i = 1; i <= m; i++)
			def[where own[i]] = plain(x)
	} else if (sentence ~ /, the default[;,.]|This is the default/) {
		x = item
		if (match(sentence, /With [^ ]+ ?, the default/))
			x = substr(sentence, RSTART + 5, RLENGTH - 18)
		sub(/ .*/, "", x)
		for (i = 1; i <= m; i++)
			def[where own[i]] = x
	}
}

END {
	for (o in help) {
		if (!(o in listed))
			fail("--" o " is not in the page")
		if (short[o] != "" && !(short[o] in listed))
			fail("-" short[o] " is not in the page")
		shorts[short[o]] = 1
		x = o in def ? def[o] : short[o] in def ? def[short[o]] : ""
		if (help[o] != "" && plain(help[o]) != x)
			fail("--" o ": the page's default is '" x "', that of --help '" help[o] "'")
	}
	for (o in listed)
		if (index(o, SUBSEP) == 0 && !(o in help) && !(o in shorts))
			fail("-" (length(o) > 1 ? "-" : "") o " is in the page and not in --help")
	exit bad
}
