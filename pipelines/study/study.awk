# study.awk -- prints parts of the report of make study:
# awk -v table=NAME -f tables.awk -f compare.awk -f study.awk <FIGURES.tsv
#
# A cell is the mean over seeds, followed by the difference from the method that the table compares with, seed
# by seed: its mean, and ± half of its 95 % interval by Student's distribution over the seeds.  * marks an
# interval without 0.  The interval measures the variation of models, data, questions and draws between seeds;
# a single seed has no interval.
#
#     sentences    the conclusion in sentences
#     drawing      the contrasts of exact answers with their intervals
#     contrasts    the primary contrasts, with p and Holm's correction, and the power that the study had
#     secondary    the same contrasts in the nats of later words
#     mid          the methods of mid-training: exact answers at each load, and the secondary figures
#     tune         the settings that were tried, with exact answers on validation data; post-tune and
#                  testtime-tune are the learning rates of adaptation
#     post, testtime, ablation

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
	return signed(effect[i], figure) " ± " show(width[i], figure)
}

# Returns "more", "fewer" or "neither more nor fewer" for a tested contrast, by Holm's p.
function direction(i, more, fewer, neither) {
	return holm[i] < 0.05 ? (effect[i] > 0 ? more : fewer) : neither
}

# Prints sentences about the primary contrasts at a point.
function primary_sentences(g,    i, part) {
	if (test_primary(g, EXACT) < contrasts)
		return
	for (i = 1; i <= contrasts; i++) {
		split(contrast[i], part, "=")
		printf "- %s, ReFINE with eight rollouts gives %s exact answers %s %s: %s points%s, " \
			"p %s after Holm's correction.\n", where[g], direction(i, "more", "fewer",
			"no detectable difference in"), holm[i] < 0.05 ? "than" : "from",
			part[4], interval(i, "points"), " (95 % interval over " count " seeds)",
			p_text(holm[i])
	}
}

# Prints a sentence about the difference of two methods in a figure, by its uncorrected interval.
function sentence(g, a, b, figures, before, after, digits) {
	if (describe("mid", g, a, "mid", b, figures) < 2)
		return
	print "- " where[g] ", " before " " signed(mean, digits) " ± " show(half, digits) after \
		(beyond() ? "" : ", an interval that contains 0") "."
}

function sentences(    i, g) {
	for (i = 1; i <= groups; i++)
		primary_sentences(group[i])
	for (i = 1; i <= groups; i++) {
		g = group[i]
		sentence(g, "refine-n8", "sft", LATER, "the nats per word of the answer's words 2 to 4, " \
			"each model at its best temperature, differ between ReFINE n 8 and SFT by", "", "nll")
		sentence(g, "refine-n8", "sft", "text.nll", "the nats per token of text differ by", "", "nll")
	}
	for (i = 1; i <= groups; i++) {
		g = group[i]
		sentence(g, "sft", "sft-published", EXACT, "SFT in as many steps as ReFINE differs from " \
			"SFT in a quarter of the steps, as published, by", " points of exact answers",
			"points")
		sentence(g, "refine-n8", "sft-published", EXACT,
			"ReFINE n 8 differs from SFT as published by", " points", "points")
	}
}

# Draws the interval of each contrast in exact answers, between -limit and limit.
function drawing(    i, j, k, c, part, drawn, limit, at, left, right, line) {
	k = split(DRAWN, drawn, ";")
	for (i = 1; i <= groups; i++)
		for (j = 1; j <= k; j++) {
			split(drawn[j], part, "=")
			if (describe("mid", group[i], part[1], "mid", part[2], EXACT) &&
			    size(mean) + half > limit)
				limit = size(mean) + half
		}
	if (!limit)
		return
	for (i = 1; i <= groups; i++) {
		printf "%-34s %-8.1f%17s0%17s%8.1f\n", name[group[i]], -limit, "", "", limit
		for (j = 1; j <= k; j++) {
			split(drawn[j], part, "=")
			if (!describe("mid", group[i], part[1], "mid", part[2], EXACT))
				continue
			at = 25 + int(25 * mean / limit + (mean < 0 ? -0.5 : 0.5))
			left = 25 + int(25 * (mean - half) / limit + (mean - half < 0 ? -0.5 : 0.5))
			right = 25 + int(25 * (mean + half) / limit + (mean + half < 0 ? -0.5 : 0.5))
			line = ""
			for (c = 0; c <= 50; c++)
				line = line (c == at ? "O" : c == 25 ? "|" : \
					c >= left && c <= right ? "-" : " ")
			sub(/ +$/, "", line)
			printf "%-34s %s\n", part[3], line
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
			show(deviation[i], digits), p_text(p[i]), p_text(holm[i]),
			show(d * deviation[i], digits)
	}
	print ""
}

# Prints the settings of a phase in the order of their exact answers, method by method.
function settings(g, phase, figures,    key, part, s, title) {
	title = figures ~ /score/ ? "answers, %" : "exact answers, %"
	print "| " name[g] " | learning rate | coefficient | " title " |\n|---|---|---|---|"
	for (key in there) {
		split(key, part, SUBSEP)
		if (part[1] != phase || part[2] != g)
			continue
		split(part[3], s, "_")
		if (describe(phase, g, part[3], "", "", figures))
			printf "| %s | %s | %s | %.2f |\n", s[1], s[2], s[3] == "0" ? "" : s[3],
				mean | "LC_ALL=C sort -t '|' -k 2,2 -k 5,5nr"
	}
	close("LC_ALL=C sort -t '|' -k 2,2 -k 5,5nr")
	print ""
}

BEGIN {
	name["early"] = "early"
	name["plateau"] = "plateau"
	where["early"] = "After a short pre-training"
	where["plateau"] = "At the plateau of pre-training"

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
	DRAWN = "refine-n8=sft=n 8 - SFT;refine-n8=random-n8=n 8 - random rewards;" \
		"refine-n8=forced=n 8 - teacher-forced;refine=sft=n 1 - SFT;refine-n16=sft=n 16 - SFT;" \
		"forced=sft=teacher-forced - SFT;random-n8=sft=random rewards - SFT;" \
		"sft-published=sft=SFT as published - SFT"
	METHODS = "base:start=before;mid:sft=SFT;mid:sft-published=SFT as published;mid:refine=ReFINE, n 1;" \
		"mid:refine-n8=ReFINE, n 8;mid:refine-n16=ReFINE, n 16;mid:random-n8=random rewards, n 8;" \
		"mid:forced=teacher-forced"
	ABLATIONS = "mid:refine-n8=cosine, entropy, k 5, c 8;ablation:binary=binary;ablation:hybrid=hybrid;" \
		"ablation:edit=edit;ablation:uniform=uniform positions;" \
		"ablation:max=positions of most entropy;" \
		"ablation:min=positions of least entropy;ablation:k3=k 3;ablation:k7=k 7;" \
		"ablation:c2=2 chunks;ablation:c4=4 chunks"
	POSTS = "mid:refine-n8=before;post:sft=SFT, not nested;post:ntp=nested NTP;" \
		"post:refine=nested ReFINE, n 8;post:random=random rewards, n 8"
	TESTS = "testtime:none=none;testtime:ntp=NTP;testtime:refine=ReFINE, n 8;" \
		"testtime:random=random rewards, n 8"
	ANSWERS = "answers.score=answers, %;answers.nll=answers, nats"
}

END {
	if (table == "sentences")
		sentences()
	if (table == "drawing")
		drawing()
	for (i = 1; i <= groups; i++) {
		g = group[i]
		if (table == "contrasts") {
			contrast_table(g, EXACT, "points")
		} else if (table == "secondary") {
			contrast_table(g, LATER, "nll")
		} else if (table == "mid") {
			print_table(g, METHODS, "mid", "sft", LOADS)
			print_table(g, METHODS, "mid", "sft", OTHERS)
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
