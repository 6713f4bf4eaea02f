# tests.awk -- no check whose failure is ignored, as make lint enforces: awk -f t/lint/tests.awk FILE.bats...
#
# The shell ends a test if a statement fails, but goes on if the first half of `A && B` fails.  A statement
# that begins with a check therefore has no `&&`, unless `||` follows, or a word that leaves the loop or the
# function.
{
	if (text == "")
		line = FNR
	text = text $0
	if (sub(/\\$/, "", text) || text ~ /(&&|\|)$/)
		next
	gsub(/'[^']*'|"[^"]*"/, "_", text)
	while (gsub(/\([^()]*\)/, "_", text))
		;
	if (text ~ /^[ \t]*((\[|cmp|diff|grep|same_[a-z]+|only_[a-z]+)[ \t].*|\[\[[ \t].*\]\])[ \t]&&[ \t]/ &&
	    text !~ /[ \t]\|\|[ \t]/ && text !~ /&&[ \t]+(break|continue|return)/) {
		print "lint: " FILENAME ":" line ": a failure before && is ignored: make it two statements"
		bad = 1
	}
	text = ""
}

END { exit bad }
