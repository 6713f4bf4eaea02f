# suite-report.awk -- the table of an evaluation:
#
#     HEAD=... awk -F '\t' -v keys=N -f suite-report.awk
#
# A line has the keys of BY, n, score, low, high; with AGAINST also score, difference, low, high, better and
# worse.  HEAD in the environment is the head of the table.
function interval(low, high, form) {
	return low == "" ? "" : sprintf(form " to " form, low, high)
}

BEGIN {
	head = ENVIRON["HEAD"]
	print head
	gsub(/\\\|/, "", head)
	gsub(/[^|]/, "-", head)
	print head
}

{
	line = "|"
	for (i = 1; i <= keys; i++)
		line = line " " $i " |"
	line = line sprintf(" %d | %.2f | %s |", $i, $(i + 1), interval($(i + 2), $(i + 3), "%.2f"))
	if (NF > keys + 4) {
		i += 4
		beyond = $(i + 2) != "" && ($(i + 2) > 0 || $(i + 3) < 0)
		line = line sprintf(" %.2f | %+.2f%s | %s | %s | %s |", $i, $(i + 1), beyond ? " *" : "",
			interval($(i + 2), $(i + 3), "%+.2f"), $(i + 4), $(i + 5))
	}
	print line
}
