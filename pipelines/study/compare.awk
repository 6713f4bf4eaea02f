# compare.awk -- functions that compare methods seed by seed, for the tables of make study and of
# inner-steps.mk: awk -f tables.awk -f compare.awk -f TABLE.awk <FIGURES.tsv
#
# A line of FIGURES.tsv is: phase, group, method, seed, figure, value.  A group is a point of pre-training, or
# any other set of models that is compared only within itself.

# Sets mean, se, half and n of a figure over seeds, minus that of the method `base` unless that is "".  The
# figure may be a mean of several ("exact-8 exact-16").  half is half of the 95 % interval by Student's
# distribution.  Returns n.
function describe(phase, group, method, base_phase, base, figures,    i, j, k, f, x, d, s) {
	n = 0
	k = split(figures, f, " ")
	for (i = 1; i <= seeds; i++) {
		s = seed[i]
		x = 0
		for (j = 1; j <= k; j++) {
			if (!((phase, group, method, s, f[j]) in value))
				break
			x += value[phase, group, method, s, f[j]]
			if (base == "")
				continue
			if (!((base_phase, group, base, s, f[j]) in value))
				break
			x -= value[base_phase, group, base, s, f[j]]
		}
		if (j > k)
			d[++n] = x / k
	}
	if (!n)
		return 0
	summarize(d, n)
	half = n > 1 ? t95(n - 1) * se : 0
	return n
}

# Returns whether the interval leaves out 0.  An interval of width 0 does not count: the seeds agree exactly.
function beyond() {
	return n > 1 && half > 0 && (mean > half || -mean > half)
}

# Returns a number with as many digits as its figure has in tables.  With `width`, half of an interval, it has
# enough digits for one digit of the width that is not 0, and at most six.
function show(x, figure, width,    digits) {
	digits = figure ~ /exact|score/ ? 1 : figure ~ /points|temperature/ ? 2 : 4
	while (width > 0 && width < 0.5 / 10 ^ digits && digits < 6)
		digits++
	return sprintf("%.*f", digits, x)
}

# Returns a number as show does, with its sign.  0 has none.
function signed(x, figure, width,    s) {
	s = show(x, figure, width)
	if (s + 0 == 0)
		return show(0, figure, width)
	return (x < 0 ? "" : "+") s
}

# Returns a cell of a table: the mean over seeds, and if there is a base, the difference from it.
function cell(phase, group, method, base_phase, base, figure,    s) {
	if (!describe(phase, group, method, "", "", figure))
		return " |"
	s = " " show(mean, figure)
	if (base == "" || (base == method && base_phase == phase) ||
	    !describe(phase, group, method, base_phase, base, figure))
		return s " |"
	s = s " (" signed(mean, figure, half)
	if (n > 1)
		s = s " ± " show(half, figure, half)
	return s (beyond() ? " *" : "") ") |"
}

# Prints a table, unless the group has no method but the base.  rows: "phase:method=title;..."; columns:
# "a b=title;...", one figure or the mean of several.
function print_table(group, rows, base_phase, base, columns,    r, c, i, j, row, column, part, of, head,
                     line, others) {
	r = split(rows, row, ";")
	for (i = 1; i <= r; i++) {
		split(row[i], of, /[:=]/)
		others += (of[1] != base_phase || of[2] != base) && (of[1], group, of[2]) in there
	}
	if (!others)
		return
	c = split(columns, column, ";")
	head = "| " name[group] " |"
	for (j = 1; j <= c; j++) {
		split(column[j], part, "=")
		head = head " " part[2] " |"
	}
	print head "\n" rule(head)
	for (i = 1; i <= r; i++) {
		split(row[i], of, /[:=]/)
		if (!((of[1], group, of[2]) in there))
			continue
		line = "| " of[3] " |"
		for (j = 1; j <= c; j++) {
			split(column[j], part, "=")
			line = line cell(of[1], group, of[2], base_phase, base, part[1])
		}
		print line
	}
	print ""
}

# Returns the probability that Student's t with df degrees of freedom is at least |t| from 0: Abramowitz and
# Stegun, 26.7.3 and 26.7.4.
function p_value(t, df,    angle, c, term, sum, k) {
	angle = atan2(size(t), sqrt(df))
	c = cos(angle) ^ 2
	if (df % 2) {
		term = cos(angle)
		for (k = 3; k <= df; k += 2) {
			sum += term
			term *= c * (k - 1) / k
		}
		return 1 - (angle + sin(angle) * sum) * 2 / atan2(0, -1)
	}
	term = 1
	for (k = 2; k <= df; k += 2) {
		sum += term
		term *= c * (k - 1) / k
	}
	return 1 - sin(angle) * sum
}

# Returns the t that p_value takes to p.
function t_of(p, df,    low, high, t) {
	high = 1000
	while (high - low > 1e-9) {
		t = (low + high) / 2
		if (p_value(t, df) > p)
			low = t
		else
			high = t
	}
	return t
}

# Returns the share of the normal distribution below x: Abramowitz and Stegun, 7.1.26, which is off by less
# than 1e-7.
function normal(x,    z, t, tail) {
	z = size(x) / sqrt(2)
	t = 1 / (1 + 0.3275911 * z)
	tail = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
	tail *= exp(-z * z) / 2
	return x > 0 ? 1 - tail : tail
}

# Returns the power of a paired t-test: the probability that n seeds find an effect of d standard deviations
# at the level p.  The sample's standard deviation is integrated over its distribution.
function power(d, n, p,    df, t, shift, s, weight, all, found) {
	df = n - 1
	t = t_of(p, df)
	shift = d * sqrt(n)
	for (s = 0.0025; s < 4; s += 0.005) {
		weight = exp((df - 1) * log(s) - df * (s * s - 1) / 2)
		all += weight
		found += weight * (normal(shift - t * s) + normal(-shift - t * s))
	}
	return found / all
}

# Returns the effect in standard deviations that n seeds find with this power at the level p.
function detectable(wanted, n, p,    low, high, d) {
	high = 100
	while (high - low > 1e-4) {
		d = (low + high) / 2
		if (power(d, n, p) < wanted)
			low = d
		else
			high = d
	}
	return d
}

BEGIN { FS = "\t" }

$4 == "-" { next } # no seed: a line about the study
{
	value[$1, $2, $3, $4, $5] = $6
	there[$1, $2, $3]
	if (!($4 in seen)) {
		seen[$4]
		seed[++seeds] = $4
	}
	if (!($2 in listed)) {
		listed[$2]
		group[++groups] = $2
	}
}
