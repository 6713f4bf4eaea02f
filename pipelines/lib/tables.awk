# tables.awk -- functions of the reports' tables: awk -f tables.awk -f REPORT.awk ...

function size(x) { return x < 0 ? -x : x }

# Sets mean and se, the mean of x[1] to x[n] and its standard error.
function summarize(x, n,    i, sum, squares) {
	sum = squares = 0
	for (i = 1; i <= n; i++)
		sum += x[i]
	mean = sum / n
	for (i = 1; i <= n; i++)
		squares += (x[i] - mean) ^ 2
	se = n > 1 ? sqrt(squares / (n - 1) / n) : 0
}

# Returns the star of a difference beyond two standard errors.
function star() { return size(mean) > 2 * se ? "*" : "" }

# Returns half the width of a 95 % interval in standard errors, by Student's distribution; from ten degrees of
# freedom on by the expansion of Abramowitz and Stegun, 26.7.5, which is off by less than 0.001 there.
function t95(df,    few, z) {
	if (split("12.706 4.303 3.182 2.776 2.571 2.447 2.365 2.306 2.262", few, " ") >= df)
		return few[df]
	z = 1.959964
	return z + (z ^ 3 + z) / (4 * df) + (5 * z ^ 5 + 16 * z ^ 3 + 3 * z) / (96 * df ^ 2)
}

# Returns the line below the head of a table.
function rule(head) {
	gsub(/[^|]+/, "---", head)
	return head
}
