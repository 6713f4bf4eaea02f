# tests.awk -- finds files of tests with the same name, because .ci/run keeps results by name, and checks
# whose failure is ignored, for make lint: awk -f t/lint/tests.awk FILE.bats...
#
# The shell ends a test if a statement fails, but goes on if the first half of `A && B` fails.  So a statement
# that begins with a check may have no `&&`, unless it also has `||`, or `&&` comes before break, continue or
# return.
FNR == 1 {
	name = FILENAME
	sub(/.*\//, "", name)
	if (name in file) {
		print "lint: " FILENAME ": " file[name] " has the same name"
		bad = 1
	}
	file[name] = FILENAME
}
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
