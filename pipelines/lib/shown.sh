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
markdown() { jq -nr -L "$lib" --arg text "$1" 'include "shown"; $text | markdown'; }

# shown_lines: copies lines for a terminal; tabs stay
shown_lines() { jq -rR -L "$lib" 'include "shown"; split("\t") | map(shown) | join("\t")'; }
