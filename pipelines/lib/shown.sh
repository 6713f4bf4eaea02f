#!/bin/bash
# shown.sh -- shows texts from other users' files, with the functions of shown.jq; scripts read it with `.`
# and set lib, the folder of this file.

# shown TEXT: prints the text for a terminal
shown() {
	case $1 in
	*[!\ -~]*)
		# shellcheck disable=SC2154  # set by the script
		jq -nr -L "$lib" --arg text "$1" 'include "shown"; $text | shown'
		;;
	*) printf '%s\n' "$1" ;;
	esac
}

# markdown TEXT: prints the text for a line of Markdown
markdown() {
	case $1 in
	*[!\ -~]* | *['&<>$*@[\]`|~_']* | '#'* | *://* | *[Ww][Ww][Ww].*)
		jq -nr -L "$lib" --arg text "$1" 'include "shown"; $text | markdown'
		;;
	*) printf '%s\n' "$1" ;;
	esac
}

# captions N: copies lines for a figure, each cut to N characters
captions() {
	local line
	while IFS= read -r line; do
		if [[ ${#line} -le $1 && $line != *[!\ -~]* ]]; then
			printf '%s\n' "$line"
		else
			jq -nr -L "$lib" --arg text "$line" --argjson n "$1" \
				'include "shown"; $text | caption($n)'
		fi
	done
}

# shown_lines: copies lines for a terminal; tabs stay
shown_lines() {
	local text
	text=$(cat)
	case $text in
	*[!\ -~$'\t\n']*)
		jq -rR -L "$lib" 'include "shown"; split("\t") | map(shown) | join("\t")' <<<"$text"
		;;
	?*) printf '%s\n' "$text" ;;
	esac
}
