# lengths.awk -- functions that are too long, which make lint refuses: awk -f t/lint/lengths.awk FILE...
#
# A function may have 120 lines, from the brace that opens it to the one that closes it, which both stand at
# the beginning of a line.
BEGIN { most = 120 }

FNR == 1 { start = 0 }

/^\{/ { start = FNR }

/^\}/ && start {
	lines = FNR - start + 1
	if (lines > most) {
		print "lint: " FILENAME ":" start ": a function of " lines " lines, more than " most
		bad = 1
	}
	start = 0
}

END { exit bad }
