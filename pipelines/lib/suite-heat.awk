# suite-heat.awk -- prints how much was found in each tenth of the depth, by task in the order of the input
# and by length.  The input is lines of task, length, depth from 0 to 1, and found, from 0 to 1, with tabs
# between.  For suite-heat.gp it writes the files tasks and lengths, a line for each, and cells, the same
# table with their numbers instead of their names.
BEGIN {
	FS = OFS = "\t"
	print "task", "length", "from", "to", "n", "score"
}

{
	tenth = int($3 * 10)
	tenth = tenth > 9 ? 9 : tenth < 0 ? 0 : tenth
	if (!($1 in seen)) {
		seen[$1]
		task[++tasks] = $1
	}
	if (!($2 in known)) { # into its place
		known[$2]
		for (i = ++lengths; i > 1 && size[i - 1] + 0 > $2 + 0; i--)
			size[i] = size[i - 1]
		size[i] = $2
	}
	n[$1, $2, tenth]++
	sum[$1, $2, tenth] += $4
}

END {
	for (l = 1; l <= lengths; l++)
		print size[l] >"lengths"
	for (t = 1; t <= tasks; t++)
		print task[t] >"tasks"
	for (t = 1; t <= tasks; t++)
		for (l = 1; l <= lengths; l++)
			for (tenth = 0; tenth < 10; tenth++)
				if (n[task[t], size[l], tenth])
					cell(t, l, tenth)
}

function cell(t, l, tenth,    count, numbers)
{
	count = n[task[t], size[l], tenth]
	numbers = sprintf("%.1f\t%.1f\t%d\t%.2f", tenth / 10, (tenth + 1) / 10, count,
		100 * sum[task[t], size[l], tenth] / count)
	print task[t], size[l], numbers
	print t, l, numbers >"cells"
}
