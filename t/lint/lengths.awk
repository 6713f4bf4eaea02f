# lengths.awk -- finds functions of more than 120 lines, which make lint refuses:
#
#     awk -f t/lint/lengths.awk FILE...
#
# The lines of a function are counted from its opening brace to its closing brace.  Both braces stand at the
# beginning of a line.
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
