# Bash completion for the programs of rf-tools.  It reads the options of a program, and the words that an
# option accepts, from the program's --help, so this file needs no change when a program changes.

# _rf_options COMMAND: prints a line for each name of an option: the name, a tab, and the values that the
# option accepts.
_rf_options() {
	"$1" --help 2>/dev/null | awk '/^  (-.,|   ) --/ {
		rest = substr($0, index($0, "--"))
		match(rest, /^--[a-z-]+/)
		name = substr(rest, 1, RLENGTH)
		takes = substr(rest, RLENGTH + 1) ~ /^ [^ ]/ ? substr(rest, RLENGTH + 2) : ""
		sub(/ .*/, "", takes)
		print name "\t" takes
		if (/^  -/)
			print substr($0, 3, 2) "\t" takes
	}'
}

_rf_files() {
	mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen "$1" -- "$2")
	compopt -o filenames 2>/dev/null
}

_rf_tools() {
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} options takes part words=()
	COMPREPLY=()
	options=$(_rf_options "$1")

	# bash divides --option=value into three words
	if [ "$word" = = ]; then
		word=
	elif [ "$before" = = ] && [ "$COMP_CWORD" -gt 1 ]; then
		before=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	takes=$(awk -F '\t' -v name="$before" '$1 == name { print $2 }' <<<"$options")

	if [ -n "$takes" ]; then
		[ "$takes" != hidden,logits ] || takes='hidden|logits|hidden,logits'
		IFS='|' read -ra words <<<"$takes"
		for part in "${words[@]}"; do
			case $part in
			file | FILE) _rf_files -f "$word" ;;
			path | model | run | dir | DIR) _rf_files -d "$word" ;;
			*) [ "${#words[@]}" -eq 1 ] || [ ${#part} -eq 1 ] ||
				mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY \
					< <(compgen -W "$part" -- "$word") ;;
			esac
		done
	elif [[ $word == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$(cut -f 1 <<<"$options")" -- "$word")
	else
		_rf_files -f "$word"
	fi
}

complete -F _rf_tools rf-cat rf-doctor rf-dump rf-entropy rf-generate rf-grpo rf-init rf-logp rf-loop \
	rf-needle rf-ntp rf-reward rf-rollout rf-score rf-select rf-step rf-tokenize
