# inner-steps.awk -- prints the table of inner-steps.mk, whose rows are differences of two methods:
# awk -f tables.awk -f compare.awk -f inner-steps.awk <FIGURES.tsv
END {
	r = split("sft=sft-published=SFT - SFT as published;" \
		"refine-n8=sft-published=ReFINE n 8 - SFT as published;" \
		"refine-n8=sft=ReFINE n 8 - SFT in as many steps;" \
		"refine=sft-published=ReFINE n 1 - SFT as published;" \
		"refine=sft=ReFINE n 1 - SFT in as many steps;" \
		"forced=sft=teacher-forced at the same positions - SFT in as many steps;" \
		"forced=refine-n8=teacher-forced at the same positions - ReFINE n 8", row, ";")
	c = split("nll accuracy.points ntp_accuracy.points", column, " ")
	print "| held-out text | NLL, nats | arg max, points | NTP accuracy (drawn), points |"
	print "|---|---|---|---|"
	for (i = 1; i <= r; i++) {
		split(row[i], part, "=")
		line = "| " part[3] " |"
		for (j = 1; j <= c; j++) {
			if (!describe("mid", "all", part[1], "mid", part[2], column[j]))
				break
			line = line " " signed(mean, column[j]) (n > 1 ? " ± " show(half, column[j]) : "") \
				(beyond() ? " *" : "") " |"
		}
		if (j > c)
			print line
	}
}
