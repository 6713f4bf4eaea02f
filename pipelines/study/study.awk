# study.awk -- prints tables of make study: awk -v table=NAME -f tables.awk -f study.awk <FIGURES.tsv
#
# The table ideas has the rows that IDEA_ROWS in the environment names.
#
# A line of FIGURES.tsv is: phase, family, method, seed, figure, value.  A cell is the mean over seeds,
# followed by the difference from the method that the table compares with, seed by seed: its mean, and ± half
# of its 95 % interval by Student's distribution over the seeds.  * marks an interval without 0.  The interval
# measures the variation of models, orders and draws between seeds; a single seed has no interval.
#
#     mid          pre-trained, SFT, ReFINE and its controls: figures of questions and text
#     sharp        the same: entropy, and rewards of greedy and of sampled rollouts
#     ablations    rewards, positions, tokens of a rollout, chunks: differences from ReFINE n 1
#     post, testtime, ideas
#     grid         the nll of answers on validation data, by learning rate and coefficient
#     answer       whether the answers of ReFINE are better than those of SFT and of random rewards
#     verdicts     a sentence for each comparison
#     steps        SFT as published, SFT and ReFINE, of inner-steps.mk
#     forest       differences from SFT in the nll of answers, as a drawing

# Sets mean, half and n of a figure over seeds, minus that of the method `base` unless that is "".  The figure
# may be a mean of several ("facts-1.nll facts-2.nll").  Returns n.
function describe(phase, family, method, base_phase, base, figures,    i, j, k, f, x, d, s) {
	n = 0
	k = split(figures, f, " ")
	for (i = 1; i <= seeds; i++) {
		s = seed[i]
		x = 0
		for (j = 1; j <= k; j++) {
			if (!((phase, family, method, s, f[j]) in value))
				break
			x += value[phase, family, method, s, f[j]] / k
			if (base == "")
				continue
			if (!((base_phase, family, base, s, f[j]) in value))
				break
			x -= value[base_phase, family, base, s, f[j]] / k
		}
		if (j > k)
			d[++n] = x
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

# Prints the table of inner-steps.mk, whose rows are differences of two methods.
function steps(family,    i, j, r, c, row, column, part, line) {
	r = split(PAIRS, row, ";")
	c = split("nll accuracy.points ntp_accuracy.points", column, " ")
	print "| held-out text | NLL, nats | arg max, points | NTP accuracy (drawn), points |"
	print "|---|---|---|---|"
	for (i = 1; i <= r; i++) {
		split(row[i], part, "=")
		line = "| " part[3] " |"
		for (j = 1; j <= c; j++) {
			if (!describe("mid", family, part[1], "mid", part[2], column[j]))
				break
			line = line " " signed(mean, column[j]) (n > 1 ? " ± " show(half, column[j]) : "") \
				(beyond() ? " *" : "") " |"
		}
		if (j > c)
			print line
	}
}

function show(x, figure) {
	return sprintf(figure ~ /score/ ? "%.1f" : figure ~ /points/ ? "%.2f" : "%.4f", x)
}

function signed(x, figure) {
	return (x < 0 ? "" : "+") show(x, figure)
}

function cell(phase, family, method, base_phase, base, figure,    s) {
	if (!describe(phase, family, method, "", "", figure))
		return " |"
	s = " " show(mean, figure)
	if (base == "" || (base == method && base_phase == phase) ||
	    !describe(phase, family, method, base_phase, base, figure))
		return s " |"
	s = s " (" signed(mean, figure)
	if (n > 1)
		s = s " ± " show(half, figure)
	return s (beyond() ? " *" : "") ") |"
}

# Prints a table.  rows: "phase:method=title;..."; columns: "a b=title;...", one figure or the mean of
# several.
function print_table(family, rows, base_phase, base, columns,    r, c, i, j, row, column, part, of, head,
                     line) {
	r = split(rows, row, ";")
	c = split(columns, column, ";")
	head = "| " name[family] " |"
	for (j = 1; j <= c; j++) {
		split(column[j], part, "=")
		head = head " " part[2] " |"
	}
	print head "\n" rule(head)
	for (i = 1; i <= r; i++) {
		split(row[i], of, /[:=]/)
		if (!((of[1], family, of[2]) in there))
			continue
		line = "| " of[3] " |"
		for (j = 1; j <= c; j++) {
			split(column[j], part, "=")
			line = line cell(of[1], family, of[2], base_phase, base, part[1])
		}
		print line
	}
	print ""
}

# Prints a sentence that names the figures in which method a differs from method b.
function verdict(family, title, phase, a, base_phase, b, judged,    i, k, f, part, what, better, worse,
                 same) {
	if (!((phase, family, a) in there) || !((base_phase, family, b) in there))
		return
	k = split(judged, f, ";")
	for (i = 1; i <= k; i++) {
		split(f[i], part, "=")
		if (!describe(phase, family, a, base_phase, b, part[1]))
			continue
		what = part[2] " (" signed(mean, part[1]) ")"
		if (!beyond())
			same = same (same == "" ? "" : ", ") part[2]
		else if ((part[1] ~ /nll/ ? -mean : mean) > 0)
			better = better (better == "" ? "" : ", ") what
		else
			worse = worse (worse == "" ? "" : ", ") what
	}
	if (better != "")
		better = "better in " better (worse same == "" ? "" : "; ")
	if (worse != "")
		worse = "worse in " worse (same == "" ? "" : "; ")
	if (same != "")
		same = "no difference beyond that of seeds in " same
	print "- " name[family] ", " title ": " better worse same "."
}

function verdicts(family,    i, k, c, part) {
	if (seeds < 2) {
		print "- " name[family] ": of one seed nothing can be said."
		return
	}
	k = split(comparisons, c, ";")
	for (i = 1; i <= k; i++) {
		split(c[i], part, /[:=]/) # title, phase of a, a, phase of b, b
		verdict(family, part[1], part[2], part[3], part[4], part[5],
			part[2] == "testtime" ? JUDGED_ANSWERS : JUDGED)
	}
}

# Returns in words how much better the answers of ReFINE are than those of another method; "" if they are not
# better by more than seeds differ.
function gain(family, method, other,    s) {
	if (describe("mid", family, method, "mid", other, nll) && beyond() && mean < 0)
		s = sprintf("nll %+.4f", mean)
	if (describe("mid", family, method, "mid", other, scores) && beyond() && mean > 0)
		s = s (s == "" ? "" : ", ") sprintf("scores %+.1f", mean)
	return s
}

# Prints whether a method is better than SFT and than random rewards with as many rollouts.
function answer_of(family, title, method, control,    sft, random) {
	if (!(("mid", family, method) in there))
		return
	sft = gain(family, method, "sft")
	random = gain(family, method, control)
	print "- " name[family] ", " title ": " (sft != "" && random != "" ? "yes" : "no") "; " \
		(sft == "" ? "not better" : "better (" sft ")") " than SFT, " \
		(random == "" ? "not better" : "better (" random ")") " than random rewards."
}

function answer(family) {
	if (seeds < 2)
		return
	answer_of(family, "one rollout", "refine", "random")
	answer_of(family, "eight rollouts", "refine-n8", "random-n8")
}

# Draws for each method the interval of its difference from SFT, between -width and width.
function forest(family, methods, figures,    i, k, c, m, part, width, at, left, right, line) {
	k = split(methods, m, ";")
	for (i = 1; i <= k; i++) {
		split(m[i], part, "=")
		if (describe("mid", family, part[1], "mid", "sft", figures) && size(mean) + half > width)
			width = size(mean) + half
	}
	if (!width)
		return
	printf "%-16s %-8.4f%22s0%22s%8.4f\n", name[family], -width, "", "", width
	for (i = 1; i <= k; i++) {
		split(m[i], part, "=")
		if (!describe("mid", family, part[1], "mid", "sft", figures))
			continue
		at = 30 + int(30 * mean / width)
		left = 30 + int(30 * (mean - half) / width)
		right = 30 + int(30 * (mean + half) / width)
		line = ""
		for (c = 0; c <= 60; c++)
			line = line (c == at ? "O" : c == 30 ? "|" : c >= left && c <= right ? "-" : " ")
		sub(/ +$/, "", line)
		printf "%-16s %s\n", part[2], line
	}
	print ""
}

function settings(family,    key, part, s) {
	print "| " name[family] " | learning rate | coefficient | nll of answers |\n|---|---|---|---|"
	for (key in grid) {
		split(key, part, SUBSEP)
		if (part[1] != family)
			continue
		split(part[2], s, "_")
		printf "| %s | %s | %s | %.4f |\n", s[1], s[2], s[1] == "sft" ? "" : s[3],
			grid[key] / grids[key] | "LC_ALL=C sort"
	}
	close("LC_ALL=C sort")
	print ""
	ends(family)
}

# Prints the number of methods whose best learning rate is the largest or the smallest of the grid.
function ends(family,    key, part, s, x, least, at, low, high, method, list) {
	for (key in grid) {
		split(key, part, SUBSEP)
		if (part[1] != family)
			continue
		split(part[2], s, "_")
		x = grid[key] / grids[key]
		if (!(s[1] in least) || x < least[s[1]]) {
			least[s[1]] = x
			at[s[1]] = s[2] + 0
		}
		if (low == "" || s[2] + 0 < low)
			low = s[2] + 0
		if (s[2] + 0 > high)
			high = s[2] + 0
	}
	for (method in at)
		if (low < high && (at[method] == low || at[method] == high))
			list++
	if (list)
		print name[family] ": " list " of " length(at) " methods do best at an end of the grid, " \
			"so a rate beyond it may be better.\n"
}

BEGIN {
	FS = "\t"
	name["delta_net"] = "DeltaNet"
	name["gated_deltanet"] = "Gated DeltaNet"
	name["lact_swiglu"] = "LaCT"
	name["qwen3_5_text"] = "Qwen3.5"

	nll = "facts-1.nll facts-2.nll facts-4.nll needle-1.nll needle-2.nll needle-4.nll"
	scores = nll
	gsub(/nll/, "score", scores)
	KNOWN = nll "=nll of answers;text.nll=nll of text;text.accuracy=accuracy"
	ALL = scores "=all greedy scores, %"
	LENGTHS = "needle-1.score=needles, %;needle-2.score=twice the length;needle-4.score=four times;" \
		"facts-1.score=facts, %;facts-2.score=twice;facts-4.score=four times"
	SHARP = "text.entropy=entropy of text;greedy.cosine=greedy cosine;sampled.cosine=sampled cosine;" \
		"greedy.binary=greedy binary;sampled.binary=sampled binary"
	JUDGED_ANSWERS = "answers.nll=nll of answers;answers.score=greedy scores"
	JUDGED = nll "=nll of answers;" scores "=greedy scores;text.nll=nll of text;" SHARP
	sub(/text.entropy=entropy of text;/, "", JUDGED)

	METHODS = "mid:sft=SFT;mid:sft-published=SFT as published;mid:refine=ReFINE, n 1;" \
		"mid:refine-n8=ReFINE, n 8;mid:random=random rewards;" \
		"mid:random-n8=random rewards, n 8"
	ABLATIONS = "mid:refine=cosine, entropy, k 5, c 8;mid:binary=binary;mid:hybrid=hybrid;" \
		"mid:edit=edit;" \
		"mid:random=random rewards;mid:uniform=uniform positions;" \
		"mid:max=positions of most entropy;mid:min=positions of least entropy;" \
		"mid:k3=k 3;mid:k7=k 7;mid:c2=2 chunks;mid:c4=4 chunks"
	POSTS = "mid:refine=before;post:sft=SFT, not nested;post:ntp=nested NTP;" \
		"post:refine=nested ReFINE;post:random=random rewards"
	TESTS = "testtime:none=none;testtime:ntp=NTP;testtime:refine=ReFINE;testtime:random=random rewards;" \
		"testtime:ntp-reset=NTP, reset;testtime:refine-reset=ReFINE, reset"
	PAIRS = "sft=sft-published=SFT - SFT as published;" \
		"refine-n8=sft-published=ReFINE n 8 - SFT as published;" \
		"refine-n8=sft=ReFINE n 8 - SFT in as many steps;" \
		"refine=sft-published=ReFINE n 1 - SFT as published;" \
		"refine=sft=ReFINE n 1 - SFT in as many steps;" \
		"forced=sft=teacher-forced at the same positions - SFT in as many steps;" \
		"forced=refine-n8=teacher-forced at the same positions - ReFINE n 8"
	DRAWN = "sft-published=SFT as published;refine=ReFINE, n 1;" \
		"refine-n8=ReFINE, n 8;random=random rewards;" \
		"random-n8=the same, n 8;uniform=uniform;" \
		"max=most entropy;min=least entropy;k3=k 3;k7=k 7;c2=2 chunks;" \
		"c4=4 chunks;binary=binary;hybrid=hybrid;edit=edit"
	comparisons = "SFT against the start:mid:sft:base:model;" \
		"SFT as published against SFT:mid:sft-published:mid:sft;" \
		"ReFINE, n 1, against SFT:mid:refine:mid:sft;" \
		"ReFINE, n 8, against SFT:mid:refine-n8:mid:sft;" \
		"ReFINE, n 1, against SFT as published:mid:refine:mid:sft-published;" \
		"ReFINE, n 8, against SFT as published:mid:refine-n8:mid:sft-published;" \
		"random rewards against SFT:mid:random:mid:sft;" \
		"ReFINE, n 1, against random rewards:mid:refine:mid:random;" \
		"ReFINE, n 8, against random rewards, n 8:mid:refine-n8:mid:random-n8;" \
		"ReFINE, n 8, against ReFINE, n 1:mid:refine-n8:mid:refine;" \
		"nested NTP against SFT, not nested:post:ntp:post:sft;" \
		"nested ReFINE against SFT, not nested:post:refine:post:sft;" \
		"nested ReFINE against nested NTP:post:refine:post:ntp;" \
		"nested ReFINE against random rewards:post:refine:post:random;" \
		"test-time ReFINE against none:testtime:refine:testtime:none;" \
		"test-time ReFINE against NTP:testtime:refine:testtime:ntp;" \
		"test-time ReFINE against random rewards:testtime:refine:testtime:random;" \
		"test-time ReFINE, carried on against reset:testtime:refine:testtime:refine-reset"
}

$1 == "grid" { # all figures of a part of the grid are nll of answers
	grid[$2, $3] += $6
	grids[$2, $3]++
}
{
	value[$1, $2, $3, $4, $5] = $6
	there[$1, $2, $3]
	if (!($4 in seen)) {
		seen[$4]
		seed[++seeds] = $4
	}
	if (!($2 in listed)) {
		listed[$2]
		family[++families] = $2
	}
}

END {
	for (i = 1; i <= families; i++) {
		f = family[i]
		if (table == "mid") {
			print_table(f, "base:model=start;" METHODS, "mid", "sft", LENGTHS)
			print_table(f, "base:model=start;" METHODS, "mid", "sft", KNOWN)
		} else if (table == "sharp")
			print_table(f, "base:model=start;" METHODS, "mid", "sft", SHARP)
		else if (table == "ablations")
			print_table(f, ABLATIONS, "mid", "refine", KNOWN ";" ALL \
				";greedy.binary=greedy binary")
		else if (table == "post")
			print_table(f, POSTS, "post", "ntp", KNOWN ";needle-1.score=needles, %;" \
				"facts-1.score=facts, %;" ALL)
		else if (table == "testtime")
			print_table(f, TESTS, "testtime", "ntp", JUDGED_ANSWERS)
		else if (table == "ideas")
			print_table(f, ENVIRON["IDEA_ROWS"], "ideas", "sft", KNOWN ";" ALL)
		else if (table == "grid")
			settings(f)
		else if (table == "steps")
			steps(f)
		else if (table == "answer")
			answer(f)
		else if (table == "verdicts")
			verdicts(f)
		else if (table == "forest")
			forest(f, DRAWN, nll)
	}
}
