#!/bin/bash
# report.sh -- functions that the reports share; scripts read it with `.` and set lib, the folder of this
# file, and run, the folder of the report.

# shellcheck source=pipelines/lib/shown.sh disable=SC2154
. "$lib/shown.sh"

# make_folder NAME: makes tmp, a folder in the run that is removed when the script ends
make_folder() {
	# shellcheck disable=SC2154  # set by the script
	tmp=$run/$1.tmp
	rm -rf "$tmp"
	mkdir -p "$tmp"
	trap 'rm -rf "$tmp"' EXIT
}

# draw FILE...: draws figures by these files of gnuplot, with and from the files in tmp
draw() { (cd -- "$tmp" && gnuplot "$lib/style.gp" "$@"); }

# smooth WIDTH COLUMN...: prints the first column, and running means and deviations of others over WIDTH lines
smooth() { awk -F '\t' -v width="$1" -v columns="${*:2}" -f "$lib/running.awk"; }

# batch_seconds RUN: prints the seconds of all batches of a run, each counted once, however often it was begun
batch_seconds() {
	awk '{ t[$1] = $3 } END { for (b in t) sum += t[b]; printf "%.0f\n", sum / 1e6 }' \
		<"$1/data/times.tsv"
}

# last_step RUN: prints the number of its last step
last_step() { rf-dump --tsv --rows step --columns step --no-header "$1" | tail -n 1; }

processor() { sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1; }

# made_by PROGRAM: prints the version of the programs, the system and the processor
made_by() { echo "$("$1" --version | sed -n 1p), $(uname -sr), $(processor)"; }
