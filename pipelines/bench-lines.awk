# bench-lines.awk -- what bench-lines.sh's lines took, and beside each the stages, in turns of their own:
#
#     awk -f bench-lines.awk turns.out single.out published.out stages.out
#
# Of a stage those times count that were measured while what they stand beside ran; if there are none, all.
BEGIN { file = turns = steps = 0 }

FNR == 1 { file++ }

file == 1 { at[turns] = $1; who[turns++] = $2 }

file == 2 { single[FNR] = $1 }

file == 3 {
	if (steps && step[steps - 1] == $1) # seen again; the first time it may have been in the making
		steps--
	step[steps] = $1
	came[steps++] = $2
}

file == 4 {
	n = ++times[$1]
	took[$1, n] = active("apart", $4) - 2 * active("apart", $3) + active("apart", $2)
	middle[$1, n] = ($2 + $4) / 2
	printf "    %-60s %10.4f s\n", $1 ", 8 records more", took[$1, n]
}

END {
	# the first batch does not count, unless only one other step was seen
	first = steps > 2 && step[0] == 0
	for (i = first + 1; i < steps; i++)
		printf "    %-60s %10.4f s\n", "batch " step[i] " of the line for many", between(i - 1, i)
	if (steps < 2)
		exit 1
	printf "for one %.4f s\nbeside one %.4f s\n", active("line", single[2]) - active("line", single[1]),
		computing(single[1], single[2])
	printf "for many %.4f s\nbeside many %.4f s\n", between(first, steps - 1),
		computing(came[first], came[steps - 1])
}

# A batch's seconds, of those from the step i to the step j.
function between(i, j)
{
	return (active("line", came[j]) - active("line", came[i])) / (step[j] - step[i])
}

# The sum of what each stage takes, on average of the times from a to b.
function computing(a, b,    s, i, n, all, sum, total)
{
	for (s in times) {
		n = sum = all = 0
		for (i = 1; i <= times[s]; i++) {
			all += took[s, i]
			if (middle[s, i] < a || middle[s, i] > b)
				continue
			sum += took[s, i]
			n++
		}
		total += n ? sum / n : all / times[s]
	}
	return total
}

# The seconds until t in which w ran.
function active(w, t,    i, s, end)
{
	s = 0
	for (i = 0; i < turns && at[i] < t; i++) {
		end = i + 1 < turns && at[i + 1] < t ? at[i + 1] : t
		if (who[i] == w)
			s += end - at[i]
	}
	return s
}
