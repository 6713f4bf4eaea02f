# study.awk -- prints parts of the report of make study:
# awk -v table=NAME -f tables.awk -f compare.awk -f study.awk <FIGURES.tsv
#
# A cell is the mean over seeds, followed by the difference from the method that the table compares with, seed
# by seed: its mean, and ± half of its 95 % interval by Student's distribution over the seeds.  * marks an
# interval without 0.  The interval measures the variation of models, data, questions and draws between seeds;
# a single seed has no interval.
#
#     sentences    the conclusions, and the differences that a reader may quote
#     drawing      the contrasts of exact answers with their intervals
#     contrasts    the primary contrasts, with p and Holm's correction, and the power that the study had
#     secondary    the same contrasts in the nats of later words
#     mid          the methods of mid-training: exact answers at each load, and the secondary figures
#     tune         the settings that were tried, with exact answers on validation data; post-tune and
#                  testtime-tune are the learning rates of adaptation
#     post, testtime, ablation
#     rate         SFT and ReFINE n 8 at the same learning rate
#     titles       phase, method, and its name in the tables
#
# From the environment: QUESTIONS, the number of questions of a seed; TUNE, the seeds of tuning: settings that
# not all of them have tried are not printed; POINTS: the order of the points of pre-training, if it is set.

# Fills p[], effect[], width[] and holm[] for the primary contrasts of a group in a figure.
function test_primary(g, figures,    i, j, part, least, next_one, done, adjusted) {
	tested = 0
	for (i = 1; i <= contrasts; i++) {
		split(contrast[i], part, "=")
		p[i] = holm[i] = ""
		if (describe("mid", g, part[1], "mid", part[2], figures) < 2)
			continue
		tested++
		effect[i] = mean
		width[i] = half
		deviation[i] = se * sqrt(n)
		count = n
		p[i] = se > 0 ? p_value(mean / se, n - 1) : mean == 0
	}
	# Holm: the k-th smallest p times the number of contrasts that are not smaller, and never decreasing
	split("", done)
	adjusted = 0
	for (j = tested; j > 0; j--) {
		next_one = 0
		for (i = 1; i <= contrasts; i++)
			if (p[i] != "" && !(i in done) && (!next_one || p[i] < p[next_one]))
				next_one = i
		done[next_one]
		if (p[next_one] * j > adjusted)
			adjusted = p[next_one] * j
		holm[next_one] = adjusted < 1 ? adjusted : 1
	}
	return tested
}

function p_text(x) { return x < 0.001 ? "below 0.001" : sprintf("%.3f", x) }

function interval(i, figure) {
	return signed(effect[i], figure, width[i]) " ± " show(width[i], figure, width[i])
}

# Returns whether a contrast of test_primary is positive, after Holm's correction.
function above(i) { return p[i] != "" && holm[i] < 0.05 && effect[i] > 0 }

# Returns in words the direction of a tested contrast, and the method that n 8 is compared with.
function direction(i,    part) {
	split(contrast[i], part, "=")
	if (holm[i] >= 0.05)
		return "does not differ detectably from " part[4]
	return (effect[i] > 0 ? "gives more exact answers than " : "gives fewer exact answers than ") part[4]
}

# Sets mean, half and n for the difference of two methods.  The method "start" is the model before.
function differ(g, a, b, figures) {
	return describe(a == "start" ? "base" : "mid", g, a, b == "start" ? "base" : "mid", b, figures)
}

# Returns whether method a is above method b in exact answers, by an interval without a correction.
function better(g, a, b) { return differ(g, a, b, EXACT) && beyond() && mean > 0 }

# Returns the conclusion of PLAN.md's table for a group whose contrasts test_primary has tested.
function conclusion(g,    s) {
	if (holm[1] < 0.05 && effect[1] < 0)
		return "ReFINE makes the model return less than SFT"
	if (above(1)) {
		if (above(2) && above(3))
			return "ReFINE's reward makes the model store and return more than SFT"
		if (above(2) && better(g, "forced", "sft"))
			return "training at uncertain positions helps, and the reward does not show"
		if (above(3) && better(g, "random-n8", "sft"))
			return "rollouts help as noise does, and the reward does not show"
		return "ReFINE is better than SFT, and the study cannot tell why"
	}
	if (effect[1] + width[1] < 1) {
		s = "no benefit of one point or more at this scale"
		if (differ(g, "refine-n8", "sft", LATER) && beyond() && mean < 0)
			s = s ", and the fewer nats are a different distribution of probability, not " \
				"better recall"
		return s
	}
	if (effect[1] > width[1])
		return "open: ReFINE is above SFT before Holm's correction, and not after it"
	return "open: the interval contains both 0 and a benefit of one point"
}

# Returns mean and half, if they are of two seeds or more, and marks an interval with 0.
function described(digits, unit) {
	if (n < 2)
		return "unknown"
	return signed(mean, digits, half) " ± " show(half, digits, half) unit \
		(size(mean) > half ? "" : " (contains 0)")
}

# Returns the difference of two methods with its interval.
function difference(g, a, b, figures, digits, unit) {
	differ(g, a, b, figures)
	return described(digits, unit)
}

# Returns the difference of two methods at all points, as "ReFINE n 8 - SFT: X at the plateau, Y early".
function differences(title, a, b, figures, digits, unit,    i, s) {
	for (i = 1; i <= groups; i++)
		s = s (i > 1 ? ", " : ": ") difference(group[i], a, b, figures, digits, unit) " " at[group[i]]
	return title s
}

# Prints the primary contrasts of a group as one sentence.
function primary_sentence(g,    i, s) {
	for (i = 1; i <= contrasts; i++)
		s = s (i > 1 ? "; it " : " ") direction(i) " (" interval(i, "points") " points, " \
			"Holm's p " p_text(holm[i]) ")"
	print "- " where[g] ", ReFINE with eight rollouts" s "."
}

# Sets mean, half and n for ReFINE n 8 minus SFT, both at the rate that this method chose.
function at_rate(g, method) {
	if (method == "sft")
		return describe("rate", g, "refine-n8", "mid", "sft", EXACT)
	return describe("mid", g, "refine-n8", "rate", "sft", EXACT)
}

# Prints the differences that only a rate makes, and those at the same rate, if the group has them.
function rate_sentence(g,    s) {
	if (!(("rate", g, "sft") in there))
		return
	describe("mid", g, "sft", "rate", "sft", EXACT)
	s = "SFT at its own learning rate - SFT at the rate of n 8: " described("points", POINTS)
	at_rate(g, "refine-n8")
	s = s "; ReFINE n 8 - SFT, both at the rate of n 8: " described("points", POINTS)
	at_rate(g, "sft")
	print "- Exploratory, " at[g] ", where SFT had a larger choice of rates: " s \
		", both at the rate of SFT: " described("points", POINTS) "."
}

# Returns the largest difference in right answers between two methods that a seed has.
function most_answers(g, a, b,    i, j, k, f, d, most) {
	k = split(EXACT, f, " ")
	for (i = 1; i <= seeds; i++) {
		d = 0
		for (j = 1; j <= k; j++)
			d += value["mid", g, a, seed[i], f[j]] - value["mid", g, b, seed[i], f[j]]
		d = size(d) / k / 100 * ENVIRON["QUESTIONS"]
		most = d > most ? d : most
	}
	return sprintf("%.0f", most)
}

# Prints the conclusion for a group.  That for the first group is the confirmatory one.
function conclusion_sentence(g) {
	test_primary(g, EXACT)
	print "- " (g == group[1] ? "Confirmatory" : "Other") " conclusion of the plan, " at[g] ": " \
		conclusion(g) ". The total of right answers of ReFINE n 8 differs from that of SFT by at " \
		"most " most_answers(g, "refine-n8", "sft") " of " ENVIRON["QUESTIONS"] " in any seed, and " \
		"SFT - before is " difference(g, "sft", "start", EXACT, "points", POINTS) ". A true " \
		"difference of " show(detectable(0.8, count, 0.05 / contrasts) * deviation[1], "points") \
		" points would be found in 80 % of such studies."
}

function sentences(    i) {
	for (i = 1; i <= groups; i++)
		if (test_primary(group[i], EXACT) < contrasts)
			return
	for (i = 1; i <= groups; i++)
		conclusion_sentence(group[i])
	for (i = 1; i <= groups; i++)
		rate_sentence(group[i])
	for (i = 1; i <= groups; i++) {
		test_primary(group[i], EXACT)
		primary_sentence(group[i])
	}
	print "- " differences("Mid-training itself: SFT - before", "sft", "start", EXACT, "points", POINTS) \
		differences("; ReFINE n 8 - before", "refine-n8", "start", EXACT, "points", POINTS) "."
	print "- " differences("Rollouts: ReFINE n 1 - SFT", "refine", "sft", EXACT, "points", POINTS) \
		differences("; n 16 - n 8", "refine-n16", "refine-n8", EXACT, "points", POINTS) "."
	print "- " differences("Controls: random rewards - SFT", "random-n8", "sft", EXACT, "points", \
		POINTS) differences("; teacher-forced - SFT", "forced", "sft", EXACT, "points", POINTS) "."
	print "- Nats, of which fewer are better, ReFINE n 8 - SFT: for each of the words 2 to 4 of a " \
		"right answer, " \
		differences("each model at its best temperature", "refine-n8", "sft", LATER, "nll", NATS) \
		differences("; the same for validation questions, at temperature 1", "refine-n8", "sft", \
		"plain", "nll", NATS) \
		differences("; for each token of text", "refine-n8", "sft", "text.nll", "nll", NATS) "."
	print "- The published baseline takes a quarter of the optimizer steps, " \
		differences("SFT as published - SFT", "sft-published", "sft", EXACT, "points", POINTS) \
		differences("; ReFINE n 8 - SFT as published", "refine-n8", "sft-published", EXACT, \
		"points", POINTS) "."
}

# Draws the interval of each contrast in exact answers, between -limit and limit.
function drawing(    i, j, k, c, part, drawn, limit, at, left, right, line) {
	k = split(DRAWN, drawn, ";")
	for (i = 1; i <= groups; i++)
		for (j = 1; j <= k; j++) {
			split(drawn[j], part, /[:=]/)
			if (describe(part[1], group[i], part[2], part[3], part[4], EXACT) &&
			    size(mean) + half > limit)
				limit = size(mean) + half
		}
	if (!limit)
		return
	for (i = 1; i <= groups; i++) {
		printf "%-34s %-8.1f%17s0%17s%8.1f\n", name[group[i]], -limit, "", "", limit
		for (j = 1; j <= k; j++) {
			split(drawn[j], part, /[:=]/)
			if (!describe(part[1], group[i], part[2], part[3], part[4], EXACT))
				continue
			at = 25 + int(25 * mean / limit + (mean < 0 ? -0.5 : 0.5))
			left = 25 + int(25 * (mean - half) / limit + (mean - half < 0 ? -0.5 : 0.5))
			right = 25 + int(25 * (mean + half) / limit + (mean + half < 0 ? -0.5 : 0.5))
			line = ""
			for (c = 0; c <= 50; c++)
				line = line (c == at ? "O" : c == 25 ? "|" : \
					c >= left && c <= right ? "-" : " ")
			sub(/ +$/, "", line)
			printf "%-34s %s\n", part[5], line
		}
		print ""
	}
}

function contrast_table(g, figures, digits,    i, part, s, d) {
	if (!test_primary(g, figures))
		return
	print "| " name[g] " | difference | sd over seeds | p | p, Holm | found in 80 % of studies |"
	print "|---|---|---|---|---|---|"
	d = detectable(0.8, count, 0.05 / contrasts)
	for (i = 1; i <= contrasts; i++) {
		split(contrast[i], part, "=")
		if (p[i] == "")
			continue
		printf "| %s | %s | %s | %s | %s | %s |\n", part[3], interval(i, digits),
			show(deviation[i], digits, deviation[i]), p_text(p[i]), p_text(holm[i]),
			show(d * deviation[i], digits, d * deviation[i])
	}
	print ""
}

# Sets title[] for each method of a phase that a list of rows names.
function set_titles(rows,    i, r, row, of) {
	r = split(rows, row, ";")
	for (i = 1; i <= r; i++) {
		split(row[i], of, /[:=]/)
		title[of[1], of[2]] = of[3]
	}
}

# Prints the settings of a phase in the order of their exact answers, method by method.
function settings(g, phase, figures,    key, part, s, wanted, lines, order, of) {
	of = phase == "tune" ? "mid" : substr(phase, 1, index(phase, "-") - 1)
	wanted = split(ENVIRON["TUNE"], part, " ")
	order = "LC_ALL=C sort -t '|' -k 2,2 -k 5,5nr"
	for (key in there) {
		split(key, part, SUBSEP)
		if (part[1] != phase || part[2] != g)
			continue
		if (!lines++) {
			print "| " name[g] " | learning rate | coefficient | " \
				(figures ~ /score/ ? "answers" : "exact answers") ", % |\n|---|---|---|---|"
			fflush() # before the lines of sort
		}
		split(part[3], s, "_")
		if (describe(phase, g, part[3], "", "", figures) >= wanted && n)
			printf "| %s | %s | %s | %.2f |\n", title[of, s[1]], s[2], s[3] == "0" ? "" : s[3],
				mean | order
	}
	if (lines) {
		close(order)
		print ""
	}
}

BEGIN {
	groups = split(ENVIRON["POINTS"], group, " ")
	for (i = 1; i <= groups; i++)
		listed[group[i]]
	name["early"] = "early"
	name["plateau"] = "plateau"
	at["early"] = "early"
	at["plateau"] = "at the plateau"
	where["early"] = "After a short pre-training"
	where["plateau"] = "At the plateau of pre-training"

	POINTS = " points"
	NATS = " nats"
	EXACT = "exact-8 exact-16 exact-32"
	LATER = "later-8 later-16 later-32"
	WHOLE = "whole-8 whole-16 whole-32"
	LOADS = EXACT "=exact answers, %;exact-8=8 facts;exact-16=16 facts;exact-32=32 facts"
	OTHERS = LATER "=later words, nats;" WHOLE "=all words, nats;" \
		"plain=later words, validation, at temperature 1, nats;" \
		"temperature=best temperature;text.nll=text, nats"

	contrasts = split("refine-n8=sft=n 8 - SFT=SFT;" \
		"refine-n8=random-n8=n 8 - random rewards=random rewards with as many rollouts;" \
		"refine-n8=forced=n 8 - teacher-forced=training on the text's own words at the same " \
		"positions", contrast, ";")
	DRAWN = "mid:refine-n8=mid:sft=n 8 - SFT;mid:refine-n8=mid:random-n8=n 8 - random rewards;" \
		"mid:refine-n8=mid:forced=n 8 - teacher-forced;mid:refine=mid:sft=n 1 - SFT;" \
		"mid:refine-n16=mid:sft=n 16 - SFT;mid:forced=mid:sft=teacher-forced - SFT;" \
		"mid:random-n8=mid:sft=random rewards - SFT;" \
		"mid:sft-published=mid:sft=SFT as published - SFT;" \
		"mid:refine-n8=rate:sft=n 8 - SFT, both rate of n 8 *;" \
		"rate:refine-n8=mid:sft=n 8 - SFT, both rate of SFT *"
	METHODS = "base:start=before;mid:sft=SFT;mid:sft-published=SFT as published;mid:refine=ReFINE, n 1;" \
		"mid:refine-n8=ReFINE, n 8;mid:refine-n16=ReFINE, n 16;mid:random-n8=random rewards, n 8;" \
		"mid:forced=teacher-forced"
	ABLATIONS = "mid:refine-n8=cosine, entropy, k 5, c 8;ablation:binary=binary;ablation:hybrid=hybrid;" \
		"ablation:edit=edit;ablation:uniform=uniform positions;" \
		"ablation:max=positions of most entropy;" \
		"ablation:min=positions of least entropy;ablation:k3=k 3;ablation:k7=k 7;" \
		"ablation:c2=2 chunks;ablation:c4=4 chunks"
	OF_N8 = "rate:sft=SFT, rate of n 8;mid:refine-n8=ReFINE, n 8"
	OF_SFT = "mid:sft=SFT;rate:refine-n8=ReFINE, n 8, rate of SFT"
	POSTS = "mid:refine-n8=before;post:sft=SFT, not nested;post:ntp=nested NTP;" \
		"post:refine=nested ReFINE, n 8;post:random=random rewards, n 8"
	TESTS = "testtime:none=none;testtime:ntp=NTP;testtime:refine=ReFINE, n 8;" \
		"testtime:random=random rewards, n 8"
	set_titles(POSTS ";" TESTS ";" METHODS) # in POSTS the model of ReFINE n 8 is called "before"
	ANSWERS = "answers.score=answers, %;answers.nll=answers, nats"
}

END {
	if (table == "sentences")
		sentences()
	if (table == "drawing")
		drawing()
	if (table == "titles")
		for (key in title) {
			split(key, part, SUBSEP)
			print part[1] "\t" part[2] "\t" title[key]
		}
	for (i = 1; i <= groups; i++) {
		g = group[i]
		if (table == "contrasts") {
			contrast_table(g, EXACT, "points")
		} else if (table == "secondary") {
			contrast_table(g, LATER, "nll")
		} else if (table == "mid") {
			print_table(g, METHODS, "mid", "sft", LOADS)
			print_table(g, METHODS, "mid", "sft", OTHERS)
		} else if (table == "rate" && ("rate", g, "sft") in there) {
			print_table(g, OF_N8, "rate", "sft", LOADS ";text.nll=text, nats")
			print_table(g, OF_SFT, "mid", "sft", LOADS ";text.nll=text, nats")
		} else if (table == "tune" || table == "post-tune")
			settings(g, table, EXACT)
		else if (table == "testtime-tune")
			settings(g, table, "answers.score")
		else if (table == "post")
			print_table(g, POSTS, "mid", "refine-n8", LOADS ";text.nll=text, nats")
		else if (table == "testtime")
			print_table(g, TESTS, "testtime", "none", ANSWERS)
		else if (table == "ablation")
			print_table(g, ABLATIONS, "mid", "refine-n8", LOADS ";" LATER "=later words, nats")
	}
}
