# curves.awk -- writes the points that curves.gp draws to files P.S of the current folder.  The input is lines
# of run, figure, step and value, with tabs between, sorted by figure, run and step.
#
# The file groups has a line for each run, the number of the run's curve.
#
#     panels     the number of figures; the number of a figure is that of its panel
#     training   the first figure of training; curves of training are smoothed
#     smooth     the width of a running mean, which is centred; at the ends of a curve it has fewer values
#     base       the curve from which differences are drawn; 0: none.  If another curve has as many runs as
#                this one, the runs of both are paired in their order; otherwise the mean of this one is
#                subtracted
#     band       of a curve with several runs: range, from the lowest of them to the highest; deviation, one
#                standard deviation to each side of their mean
#
# The value of a curve with several runs is their mean at the steps that all of them have.
BEGIN {
	FS = OFS = "\t"
	while ((getline line <"groups") > 0) {
		curve[++runs] = line + 0
		members[line + 0]++
		if (line + 0 > curves)
			curves = line + 0
	}
}

{
	n[$2, $1]++
	at[$2, $1, n[$2, $1]] = $3
	value[$2, $1, n[$2, $1]] = $4
}

END {
	for (p = 1; p <= panels; p++) {
		for (r = 1; r <= runs; r++)
			running_mean(p, r, p >= training ? smooth : 1)
		if (base)
			subtract(p)
		for (s = 1; s <= curves; s++)
			draw(p, s)
	}
}

function running_mean(p, r, width,    i, j, from, to, sum, mean)
{
	for (i = 1; i <= n[p, r]; i++) {
		from = i - int(width / 2)
		to = i + int((width - 1) / 2)
		from = from < 1 ? 1 : from
		to = to > n[p, r] ? n[p, r] : to
		sum = 0
		for (j = from; j <= to; j++)
			sum += value[p, r, j]
		mean[i] = sum / (to - from + 1)
	}
	for (i = 1; i <= n[p, r]; i++)
		value[p, r, i] = mean[i]
}

# Counts the runs of curve s that have the figure in `those`, and collects by step the sum of their values,
# their number, and the lowest and the highest value, in sum, count, low and high.
function collect(p, s,    r, i, step)
{
	split("", sum)
	split("", count)
	split("", squares)
	split("", low)
	split("", high)
	those = 0
	for (r = 1; r <= runs; r++) {
		if (curve[r] != s || !n[p, r])
			continue
		those++
		for (i = 1; i <= n[p, r]; i++) {
			step = at[p, r, i]
			sum[step] += value[p, r, i]
			if (!count[step]++ || value[p, r, i] < low[step])
				low[step] = value[p, r, i]
			if (count[step] == 1 || value[p, r, i] > high[step])
				high[step] = value[p, r, i]
		}
	}
}

# Makes the values of a panel differences from the base, at the steps that the base has.
function subtract(p,    r, i, m, j, step, pair, from, number)
{
	collect(p, base)
	for (step in count)
		if (count[step] == those)
			from[0, step] = sum[step] / those
	for (r = 1; r <= runs; r++) {
		number[r] = ++m[curve[r]]
		if (curve[r] == base)
			for (i = 1; i <= n[p, r]; i++)
				from[number[r], at[p, r, i]] = value[p, r, i]
	}
	for (r = 1; r <= runs; r++) {
		pair = members[curve[r]] == members[base] ? number[r] : 0
		j = 0
		for (i = 1; i <= n[p, r]; i++) {
			step = at[p, r, i]
			if (!((pair, step) in from))
				continue
			at[p, r, ++j] = step
			value[p, r, j] = value[p, r, i] - from[pair, step]
		}
		n[p, r] = j
	}
}

function draw(p, s,    r, i, step, mean, sd, last)
{
	collect(p, s)
	for (r = 1; r <= runs; r++)
		if (curve[r] == s)
			for (i = 1; i <= n[p, r]; i++)
				squares[at[p, r, i]] += \
					(value[p, r, i] - sum[at[p, r, i]] / count[at[p, r, i]]) ^ 2
	for (r = 1; r <= runs && !(curve[r] == s && n[p, r]); r++)
		;
	for (i = 1; r <= runs && i <= n[p, r]; i++) {
		step = at[p, r, i]
		if (count[step] != those)
			continue
		mean = sum[step] / those
		if (those == 1) {
			low[step] = high[step] = "NaN"
		} else if (band == "deviation") {
			sd = sqrt(squares[step] / (those - 1))
			low[step] = mean - sd
			high[step] = mean + sd
		}
		print step, mean, low[step], high[step] >(p "." s)
	}
}
