# report.awk -- tables of the results of evaluate.sh: awk -f tables.awk -f report.awk EVAL/*.documents.tsv
#
# Every figure is a mean over documents, with its standard error over documents after ±.  Two models saw the
# same documents, positions and random numbers, so they are compared by the differences per document, whose
# standard error is much smaller than that of either mean.  A model without a file has no row.
BEGIN {
	FS = "\t"
	metrics = split("nll accuracy ntp_accuracy cosine binary elsewhere", metric, " ")
	better["nll"] = -1
	better["accuracy"] = better["ntp_accuracy"] = better["cosine"] = better["binary"] = 1
	label["nll"] = "nll"
	label["accuracy"] = "accuracy (arg max)"
	label["ntp_accuracy"] = "NTP accuracy (drawn)"
	label["cosine"] = "cosine"
	label["binary"] = "binary"
	label["elsewhere"] = "cosine elsewhere"
	models = split("start sft sft-published refine refine-n8 random", model, " ")
	pairs = split("sft start sft-published sft refine sft refine-n8 sft random sft " \
		"refine sft-published refine-n8 sft-published refine random refine-n8 random", pair, " ")
	title["start"] = "start"
	title["sft"] = "SFT"
	title["sft-published"] = "SFT as published"
	title["refine"] = "ReFINE, n 1"
	title["refine-n8"] = "ReFINE, n 8"
	title["random"] = "random rewards"
}

FNR == 1 {
	name = FILENAME
	sub(/^.*\//, "", name)
	sub(/\.documents\.tsv$/, "", name)
	evaluated[name]
	next
}
{
	if (!($1 in seen)) {
		seen[$1] = 1
		id[++documents] = $1
	}
	for (m = 1; m <= metrics; m++)
		value[name, metric[m], $1] = $(m + 1)
}

# Describes a metric of a over the documents, minus that of b unless b is "": in mean and se.
function describe(a, b, name,    i, x) {
	for (i = 1; i <= documents; i++)
		x[i] = value[a, name, id[i]] - (b == "" ? 0 : value[b, name, id[i]])
	summarize(x, documents)
}

function row(first, a, b,    i, line) {
	line = "| " first " |"
	for (i = 1; i <= metrics; i++) {
		describe(a, b, metric[i])
		line = line sprintf(b == "" ? " %.4f ± %.4f |" : " %+.4f ± %.4f%s |", mean, se,
			b == "" || star() == "" ? "" : " *")
	}
	print line
}

# Prints one sentence: which metrics differ beyond two standard errors, and which do not.
function compare(a, b,    m, name, differs, same) {
	differs = same = ""
	for (m = 1; m <= metrics; m++) {
		name = metric[m]
		if (!(name in better))
			continue
		describe(a, b, name)
		if (star() == "")
			same = same (same == "" ? "" : ", ") label[name]
		else
			differs = differs sprintf("%s %s by %.4f (%s); ", label[name],
				mean * better[name] > 0 ? "better" : "worse", size(mean),
				se > 0 ? sprintf("%.1f standard errors", size(mean) / se) \
				: "in every document")
	}
	if (same != "")
		differs = differs same ": no difference beyond two standard errors; "
	sub(/; $/, ".", differs)
	print "- " title[a] " against " title[b] ": " differs
}

END {
	if (!documents)
		exit 1
	heads = " | nll, nats |"
	for (m = 2; m <= metrics; m++)
		heads = heads " " label[metric[m]] " |"
	print "| held-out documents: " documents heads "\n" rule("|" heads)
	for (m = 1; m <= models; m++)
		if (model[m] in evaluated)
			row(title[model[m]], model[m], "")
	for (p = 1; p <= pairs; p += 2)
		if (pair[p] in evaluated && pair[p + 1] in evaluated)
			of[++compared] = p
	print ""
	print "| difference, by document" heads "\n" rule("|" heads)
	for (p = 1; p <= compared; p++)
		row(title[pair[of[p]]] " - " title[pair[of[p] + 1]], pair[of[p]], pair[of[p] + 1])
	print ""
	for (p = 1; p <= compared; p++)
		compare(pair[of[p]], pair[of[p] + 1])
}
