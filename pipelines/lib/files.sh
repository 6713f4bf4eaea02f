#!/bin/bash
# files.sh NAME=VALUE -- prints the files of a word such as CORPUS='data/*.jsonl more.txt' as words for a
# shell: VALUE itself, with quotes or backslashes where the shell would otherwise act on a character.  Nothing
# in VALUE can be run.
#
# Blanks separate the files.  If all parts between blanks, or VALUE as a whole, are names of files that exist,
# these are the files, whatever characters they have.  Otherwise quotes, backslashes, *, ?, [...], {a,b} and ~
# at the beginning of a name mean what they mean to a shell; $ ` ; & | < > ( ) and # mean themselves.
#
# files.sh --stream NAME=VALUE -- prints the name of the file if VALUE names one file, which ends in .rf;
# otherwise nothing.
#
# An error is printed on standard output, with status 64.  Scripts read this file with `.` for files_of.
if [ "${BASH_SOURCE[0]}" = "$0" ]; then
	set -euo pipefail
fi

# as_word TEXT: prints it, in quotes unless a shell takes it for one word
as_word() {
	case $1 in
	'' | '~'* | *[=:]'~'* | '#'* | *[\'\"\\\`\$\&\;\(\)\<\>\|\*\?\[\{[:space:]]*)
		printf "'%s'" "${1//\'/\'\\\'\'}"
		;;
	*) printf '%s' "$1" ;;
	esac
}

# all_exist NAME...: succeeds if there are names, and each of them exists
all_exist() {
	[ $# -gt 0 ] || return 1
	local name
	for name; do [ -e "$name" ] || return 1; done
}

# shell_words NAME VALUE: prints the value as words for a shell, or an error, and fails
shell_words() {
	local value=$2 text='' quote='' begun='' c next i part parts=()
	[[ $value == *$'\n'* ]] || read -ra parts <<<"$value" || :
	if ! all_exist ${parts[@]+"${parts[@]}"}; then
		parts=()
		[ ! -e "$value" ] || parts=("$value")
	fi
	if [ ${#parts[@]} -gt 0 ]; then
		for part in "${parts[@]}"; do text+="${text:+ }$(as_word "$part")"; done
		[ "$text" != "${parts[*]}" ] || [ ${#parts[@]} -eq 1 ] || text=$value
		printf '%s' "$text"
		return
	fi
	if [[ $value == *$'\n'* ]]; then
		printf '%s=%q: a newline does not separate files, and no file has this name\n' "$1" "$value"
		return 64
	fi
	for ((i = 0; i < ${#value}; i++)); do
		if [[ ${value:i} =~ ^[A-Za-z0-9_./,:=+@%-]+ ]]; then # at once, for long lists
			text+=${BASH_REMATCH[0]} begun=1 i=$((i + ${#BASH_REMATCH[0]} - 1))
			continue
		fi
		c=${value:i:1} next=${value:i+1:1}
		if [ "$quote" = "'" ]; then
			[ "$c" != "'" ] || quote=''
		elif [ "$c" = \\ ]; then
			[ -n "$next" ] || break
			if [ -z "$quote" ] || [[ $next == [\$\`\"\\] ]]; then
				c+=$next i=$((i + 1))
			fi
		elif [ -n "$quote" ]; then
			case $c in
			'"') quote='' ;;
			[\$\`]) c="\\$c" ;;
			esac
		else
			case $c in
			[\'\"]) quote=$c ;;
			[\$\`\;\&\|\<\>\(\)]) c="\\$c" ;;
			'#') [ -n "$begun" ] || c="\\$c" ;;
			'~')
				[ "$begun" ] || [[ $next == ['/ '] || -z $next ]] || c="\\$c"
				[[ $text != *[=:] ]] || c="\\$c"
				;;
			esac
		fi
		begun=1
		[ -n "$quote" ] || [ "$c" != ' ' ] || begun=''
		text+=$c
	done
	if [ -n "$quote" ] || [ "$i" -lt ${#value} ]; then
		printf "%s='%s': a quote is not closed, or a backslash ends it, and no file has this name\n" \
			"$1" "$value"
		return 64
	fi
	printf '%s' "$text"
}

# files_of NAME VALUE: makes the array `files` of the files that the value names.  A pattern without a match
# stays as it is.  Otherwise prints an error, and fails with 64.
files_of() {
	local text
	files=()
	text=$(shell_words "$1" "$2") || {
		printf '%s\n' "$text" >&2
		return 64
	}
	# shell_words leaves nothing in it that a shell would run; in files=($text) it would compute the
	# subscript of a name such as [x]=y
	eval "set -- $text"
	files=("$@")
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
	case ${1:-} in
	--stream)
		shell_words "${2%%=*}" "${2#*=}" >/dev/null || exit 0
		files_of "${2%%=*}" "${2#*=}"
		[ ${#files[@]} -ne 1 ] || [[ ${files[0]} != *.rf ]] || printf '%s\n' "${files[0]}"
		;;
	[A-Z]*=*) shell_words "${1%%=*}" "${1#*=}" ;;
	*)
		echo 'usage: files.sh [--stream] NAME=VALUE' >&2
		exit 64
		;;
	esac
fi
