# report.awk -- tables out of what evaluate.sh counted: awk -f report.awk NAME.documents.tsv...
#
# Every figure is a mean over documents, and behind +- stands its standard error over documents.  Two models saw the same
# documents, positions and random numbers, so that they are compared by the differences per document, whose standard error
# is much smaller than that of either mean.
BEGIN {
	FS = "\t"
	metrics = split("nll accuracy cosine binary elsewhere", metric, " ")
	format["nll"] = "%.4f"
	better["nll"] = -1
	better["accuracy"] = better["cosine"] = better["binary"] = 1
	title["start"] = "start (before)"
	title["sft"] = "SFT (next tokens alone)"
	title["refine"] = "ReFINE, n 1"
	title["refine-n8"] = "ReFINE, n 8"
	title["random"] = "ReFINE, random rewards"
}

FNR == 1 {
	model = FILENAME
	sub(/^.*\//, "", model)
	sub(/\.documents\.tsv$/, "", model)
	models++
	next
}
{
	if (!($1 in seen)) {
		seen[$1] = 1
		id[++documents] = $1
	}
	for (m = 1; m <= metrics; m++)
		value[model, metric[m], $1] = $(m + 1)
}

# Mean and standard error over documents of a metric of a, minus that of b where b is not "": in mean and se.
function describe(a, b, name,    i, x, sum, squares) {
	sum = squares = 0
	for (i = 1; i <= documents; i++)
		sum += value[a, name, id[i]] - (b == "" ? 0 : value[b, name, id[i]])
	mean = sum / documents
	for (i = 1; i <= documents; i++) {
		x = value[a, name, id[i]] - (b == "" ? 0 : value[b, name, id[i]]) - mean
		squares += x * x
	}
	se = documents > 1 ? sqrt(squares / (documents - 1) / documents) : 0
}

function row(label, a, b,    m, line) {
	line = "| " label " |"
	for (m = 1; m <= metrics; m++) {
		describe(a, b, metric[m])
		line = line sprintf(b == "" ? " %.4f ± %.4f |" : " %+.4f ± %.4f%s |", mean, se, b == "" ? "" : star())
	}
	print line
}

# Beyond two standard errors
function star() {
	return (mean > 2 * se || -mean > 2 * se) ? " *" : ""
}

function compare(a, b,    m, name, words) {
	for (m = 1; m <= metrics; m++) {
		name = metric[m]
		if (!(name in better))
			continue
		describe(a, b, name)
		if (star() == "")
			words = "no difference beyond two standard errors"
		else
			words = mean * better[name] > 0 ? "better" : "worse"
		if (star() != "" && se > 0)
			words = words sprintf(" (%.1f standard errors)", (mean < 0 ? -mean : mean) / se)
		text = text (m > 1 ? "; " : "") name " " words
	}
	print "- " title[a] " against " title[b] ": " text "."
	text = ""
}

END {
	if (!documents)
		exit 1
	print "| held-out documents: " documents " | nll, nats | accuracy | cosine | binary | cosine elsewhere |"
	print "|---|---|---|---|---|---|"
	row(title["start"], "start", "")
	row(title["sft"], "sft", "")
	row(title["refine"], "refine", "")
	row(title["refine-n8"], "refine-n8", "")
	row(title["random"], "random", "")
	print ""
	print "| difference, by document | nll, nats | accuracy | cosine | binary | cosine elsewhere |"
	print "|---|---|---|---|---|---|"
	row("SFT - start", "sft", "start")
	row("ReFINE, n 1 - SFT", "refine", "sft")
	row("ReFINE, n 8 - SFT", "refine-n8", "sft")
	row("random - SFT", "random", "sft")
	row("ReFINE, n 1 - random", "refine", "random")
	row("ReFINE, n 8 - random", "refine-n8", "random")
	print ""
	compare("refine", "sft")
	compare("refine-n8", "sft")
	compare("random", "sft")
	compare("refine", "random")
	compare("refine-n8", "random")
}
