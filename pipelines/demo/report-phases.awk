# report-phases.awk -- a table of methods, or a sentence about two of them, from the answers to questions:
#
#     awk -v base=NAME -f tables.awk -f report-phases.awk RUNS NAME.tsv ...
#     awk -v a=NAME -v b=NAME -f tables.awk -f report-phases.awk RUNS NAME.tsv ...
#
# RUNS has a line for each method in the order of the table: name, steps, seconds.  NAME.tsv has a line for
# each question: id, nll of the right answer per byte, whether the answer is right.

# Describes a figure of a over the questions, minus that of b unless b is "": in mean and se.
function describe(a, b, figure,    i, x) {
	for (i = 1; i <= questions; i++)
		x[i] = value[a, figure, i] - (b == "" ? 0 : value[b, figure, i])
	summarize(x, questions)
}

# Returns a difference with its standard error.
function difference(a, b, figure) {
	describe(a, b, figure)
	return sprintf("%+.4f ± %.4f%s", mean, se, star())
}

function row(name,    figure, line) {
	line = "| " name " | " steps[name] " | " seconds[name] " |"
	for (figure = 1; figure <= 2; figure++) {
		describe(name, "", figure)
		line = line sprintf(" %.4f ± %.4f |", mean, se)
	}
	for (figure = 1; figure <= 2; figure++)
		line = line (name == base ? "" : " " difference(name, base, figure)) " |"
	print line
}

FILENAME == ARGV[1] {
	method[++methods] = $1
	steps[$1] = $2
	seconds[$1] = $3
	next
}
FNR == 1 {
	name = FILENAME
	sub(/^.*\//, "", name)
	sub(/\.tsv$/, "", name)
}
{
	questions = FNR
	value[name, 1, FNR] = $2
	value[name, 2, FNR] = $3
}

END {
	if (a != "") {
		print "- " a " against " b ": nll " difference(a, b, 1) ", right " difference(a, b, 2) "."
		exit
	}
	head = "| method | steps | s | nll of the right answer | right | nll against " base " |" \
		" right against " base " |"
	print head "\n" rule(head)
	for (i = 1; i <= methods; i++)
		row(method[i])
}
