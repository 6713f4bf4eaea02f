#!/bin/bash
# picture.sh -- checks before a figure is drawn, for curves.sh and entropy.sh, which read it with `.` and set
# lib, the folder of this file, and tool, their name in messages.

# shellcheck source=pipelines/lib/shown.sh disable=SC2154
. "$lib/shown.sh"

# say WORDS...: prints the words as a message
say() {
	# shellcheck disable=SC2154  # set by the script
	shown "$tool: $*" >&2
}

# die STATUS WORDS...: prints the words as a message and ends the script
die() {
	local status=$1
	shift
	say "$*"
	exit "$status"
}

# plain NAME: prints the name in a form that no program takes for an option
plain() { case $1 in -*) printf './%s\n' "$1" ;; *) printf '%s\n' "$1" ;; esac }

# check_gnuplot: ends the script if gnuplot is missing or cannot draw in the form that FORMAT names
check_gnuplot() {
	command -v gnuplot >/dev/null || die 69 'gnuplot is not installed (install gnuplot-nox)'
	case $FORMAT in
	png | svg | pdf) ;;
	*) die 64 "FORMAT='$FORMAT' is not one of png|svg|pdf" ;;
	esac
}
