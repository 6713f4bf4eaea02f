# unique.awk -- checks unique names and first comments: awk -f t/lint/unique.awk FILE...
#
# No two headers have the same guard.  No two files define the same tag rf_... of a struct, union or enum.  No
# two sources and no two headers of lib/ and tools/ have the same name, and no two of kernels/; but x.c and
# x.cu of kernels/ are one operation on two devices.  A file begins with a comment, which may follow a line
# that names an interpreter.

function twice(what, name, seen) {
	if (name in seen && seen[name] != FILENAME) {
		print "lint: " FILENAME ":" FNR ": " what " " name " is also in " seen[name]
		bad = 1
	} else
		seen[name] = FILENAME
}

FNR == 1 {
	guard = ""
	first = /^#!/ ? 2 : 1
	base = FILENAME
	sub(/.*\//, "", base)
	if (FILENAME ~ /^(lib|tools)\/.*\.[ch]$/)
		twice("a file called", base, in_lib)
	if (FILENAME ~ /^kernels\/.*\.[ch]$/)
		twice("a file called", base, in_kernels)
}

FNR == first && (FILENAME ~ /\.(sh|awk)$/ ? !/^# ?[^ ]/ : !/^\/[*\/] ?[^ ]/) {
	print "lint: " FILENAME ":" FNR ": no comment says what the file is for"
	bad = 1
}

FILENAME ~ /\.h$/ && guard == "" && /^#ifndef / {
	guard = $2
	twice("the guard", guard, guards)
}

# A .cu file defines the same tags as the .c file of its operation.
FILENAME !~ /\.cu$/ && /^(struct|union|enum) rf_[a-z0-9_]+ \{/ { twice("the tag", $2, tags) }

END { exit bad }
