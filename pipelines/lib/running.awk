# running.awk -- running means: awk -F '\t' -v width=9 -v columns='2 3' -f running.awk
#
# Prints the first column, and for each of `columns` its mean and standard deviation over the `width` lines
# around; over fewer at both ends.
BEGIN {
	n = split(columns, column, " ")
	half = int(width / 2)
}

{
	x[NR] = $1
	for (c = 1; c <= n; c++)
		y[NR, c] = $column[c]
}

END {
	for (i = 1; i <= NR; i++) {
		line = x[i]
		from = i > half ? i - half : 1
		to = i + half < NR ? i + half : NR
		for (c = 1; c <= n; c++) {
			sum = squares = 0
			for (j = from; j <= to; j++)
				sum += y[j, c]
			mean = sum / (to - from + 1)
			for (j = from; j <= to; j++)
				squares += (y[j, c] - mean) ^ 2
			line = line "\t" mean "\t" (to > from ? sqrt(squares / (to - from)) : 0)
		}
		print line
	}
}
