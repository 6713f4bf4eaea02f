#!/bin/bash
# check.sh VERB ... -- checks the words of a pipeline before it begins.  Prints an error and fails with 64 for
# a wrong word, 65 for a folder of other settings, 66 for a file that cannot be read.
#
#     numbers LEAST NAME=VALUE...   the values are whole numbers, at least LEAST, or with `any` for LEAST any
#                                   numbers, such as 1e-6.  Another LEAST and its words may follow
#     stages NAME=COMMAND...        each command exists or is empty; TRAIN is not empty
#     hashes FILE...                the files can be read; prints a line with size and hash for each
#     words FILE NAME... [-- DATA...]
#                                   FILE records the values of these environment variables and the hashes of
#                                   these files.  An existing FILE must have the same lines, so that no folder
#                                   mixes the results of two commands or of two states of the data
set -euo pipefail
export LC_ALL=C
lib=${BASH_SOURCE[0]%/*}
# shellcheck source=pipelines/lib/shown.sh
. "$lib/shown.sh"

# die STATUS WORDS...: prints the words and ends the script
die() {
	local status=$1
	shift
	printf '%s\n' "$*" >&2
	exit "$status"
}

check_numbers() {
	local least word name value
	for word; do
		if [[ $word != *=* ]]; then
			least=$word
			continue
		fi
		name=${word%%=*} value=${word#*=}
		if [ "$least" = any ]; then
			[[ $value =~ ^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$ ]] ||
				die 64 "$name='$value': it must be a number, such as 1e-6"
		elif ! [[ $value =~ ^(0|[1-9][0-9]{0,17})$ ]] || [ "$value" -lt "$least" ]; then
			die 64 "$name='$value': it must be a whole number, $least or more," \
				'of at most 18 digits'
		fi
	done
}

# The shell itself checks words of its grammar, such as (cd or X=1.
check_stages() {
	local stage name word
	for stage; do
		name=${stage%%=*}
		read -r word _ <<<"${stage#*=}" || true
		if [[ -n $word && $word != *[^[:alnum:]_./+-]* ]] && ! command -v -- "$word" >/dev/null; then
			die 64 "$name: $word: command not found"
		fi
		[ "$name$word" != TRAIN ] || die 64 'TRAIN is empty: a batch needs a trainer'
	done
}

# Prints one line with the hash of all lines if they would not fit on a command line.  A file that is not
# regular has no line.
print_hashes() {
	local file why i lines='' hash files=() sizes hashes
	for file; do
		if [ ! -r "$file" ]; then
			why='No such file or directory'
			[ ! -e "$file" ] || why='Permission denied'
			die 66 "$(shown "$file"): $why"
		fi
		[ ! -f "$file" ] || files+=("$file")
	done
	[ ${#files[@]} -gt 0 ] || return 0
	# -z keeps sha256sum from escaping characters of names
	mapfile -t sizes < <(printf '%s\0' "${files[@]}" | xargs -0 stat -L -c %s --)
	mapfile -d '' -t hashes < <(printf '%s\0' "${files[@]}" | xargs -0 sha256sum -z --)
	[ ${#sizes[@]} -eq ${#files[@]} ] && [ ${#hashes[@]} -eq ${#files[@]} ] || exit 74
	for i in "${!files[@]}"; do
		lines+="${lines:+$'\n'}${sizes[i]} bytes, sha256 ${hashes[i]%% *}: ${files[i]}"
	done
	if [ ${#lines} -gt 60000 ]; then
		hash=$(sha256sum <<<"$lines" | cut -d ' ' -f 1)
		lines="${#files[@]} files, sha256 $hash of their sizes and hashes"
	fi
	printf '%s\n' "$lines"
}

check_words() {
	local file=$1 name names=() words hashes other
	shift
	while [ $# -gt 0 ] && [ "$1" != -- ]; do
		names+=("$1")
		shift
	done
	shift || true
	words=$(for name in ${names[@]+"${names[@]}"}; do printf '%s=%s\n' "$name" "${!name}"; done)
	hashes=$(print_hashes "$@")
	words+=${hashes:+$'\n'$hashes}
	if [ ! -e "$file" ]; then
		mkdir -p -- "$(dirname -- "$file")"
		printf '%s\n' "$words" >"$file.tmp"
		mv -- "$file.tmp" "$file"
	elif ! other=$(diff -- "$file" <(printf '%s\n' "$words")); then
		other=$(grep '^[<>]' <<<"$other" | shown_lines)
		die 65 "$(shown "$file"): the run was started with other settings or data (<) than now (>):" \
			"use the same, or another RUN, or remove this one"$'\n'"$other"
	fi
}

case $#:${1:-} in
[2-9]*:numbers | 1?*:numbers) check_numbers "${@:2}" ;;
*:stages) check_stages "${@:2}" ;;
*:hashes) print_hashes "${@:2}" ;;
[2-9]*:words | 1?*:words) check_words "${@:2}" ;;
*)
	die 64 'usage: check.sh numbers LEAST NAME=VALUE... ... | stages NAME=COMMAND... | hashes FILE... |' \
		'words FILE NAME... [-- DATA...]'
	;;
esac
