# width.awk -- make lint refuses lines wider than 110 columns: LC_ALL=C awk -f t/lint/width.awk FILE...
#
# A tab ends at the next multiple of 8 columns.  A character of several bytes counts as one column.
{
	line = $0
	gsub(/[\200-\277]/, "", line)
	while ((at = index(line, "\t")) > 0)
		line = substr(line, 1, at - 1) substr("        ", 1, 8 - (at - 1) % 8) substr(line, at + 1)
	if (length(line) > 110) {
		print "lint: " FILENAME ":" FNR ": " length(line) " columns, more than 110"
		bad = 1
	}
}

END { exit bad }
