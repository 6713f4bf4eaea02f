# words.awk -- finds words that established terms replaced, for make lint: awk -f t/lint/words.awk FILE...
#
# One thing has one name: rf-design(7), GLOSSARY.  No file may contain a word on the left, in any case of
# letters; the word on the right replaces it.
BEGIN {
	instead["site"] = instead["sites"] = "position"
	instead["doomed"] = "tempfile"
	instead["rf_beside"] = "rf_workspace"
	instead["rf_reach"] = "rf_transfer"
	instead["rf_begin"] = "rf_initializer"
	instead["rf_need"] = "rf_demand"
	instead["rf_judge"] = "rf_reward_exec"
	instead["rf_attend"] = "rf_kv"
	instead["rf_disk"] = "rf_file"
	instead["rf_page"] = "rf_print"
	instead["hangs below"] = instead["hang below"] = "branches from"
	instead["who asks"] = "a program that asks"
	instead["what of"] = "which of, or a sentence with a subject"
	instead["one's own"] = "your own"
	instead["distrusts"] = "checks"
}

FILENAME !~ /^t\/lint\/(words\.awk|source\.bats)$/ {
	line = " " tolower($0) " "
	gsub(/[^a-z0-9_']+/, " ", line)
	for (word in instead)
		if (index(line, " " word " ")) {
			print "lint: " FILENAME ":" FNR ": '" word "' gave way to '" instead[word] "'"
			bad = 1
		}
}

END { exit bad }
