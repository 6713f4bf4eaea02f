# bench-lines.awk -- what bench-lines.sh's line and stages took, in their own turns only:
#
#     awk -f bench-lines.awk turns.out stages.out one.out published.out
BEGIN { file = 0 }

FNR == 1 { file++ }

file == 1 { at[turns] = $1; who[turns++] = $2 }

file == 2 {
	t = mine("apart", $4) - 2 * mine("apart", $3) + mine("apart", $2)
	printf "    %-60s %10.4f s\n", $1 ", 8 records more", t
	sum[$1] += t
	times[$1]++
}

file == 3 { one[FNR] = mine("line", $1) }

file == 4 {
	step[steps] = $1
	came[steps++] = mine("line", $2)
}

END {
	# the first batch does not count, unless its step is the only one that was seen to come
	first = steps > 2 && step[1] == 1
	for (i = first + 1; i < steps; i++)
		printf "    %-60s %10.4f s\n", "batch " step[i] " of the line for many",
			(came[i] - came[i - 1]) / (step[i] - step[i - 1])
	if (steps < 2)
		exit 1
	for (s in sum)
		computing += sum[s] / times[s]
	printf "computing %.4f s\nline %.4f s\nbatch %.4f s\n", computing, one[2] - one[1],
		(came[steps - 1] - came[first]) / (step[steps - 1] - step[first])
}

# The seconds in which w ran until t.
function mine(w, t,    i, s, end)
{
	s = 0
	for (i = 0; i < turns && at[i] < t; i++) {
		end = i + 1 < turns && at[i + 1] < t ? at[i + 1] : t
		if (who[i] == w)
			s += end - at[i]
	}
	return s
}
