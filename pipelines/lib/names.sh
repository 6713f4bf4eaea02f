#!/bin/bash
# names.sh NAME=VALUE... -- prints a sentence if a word of a pipeline, as it was typed after make, has a
# character that no pipeline takes; otherwise nothing.  words.mk calls it before make expands any of these
# words.
#
#     any word        a control character: of ASCII, of U+0080 to U+009F, or one that turns the direction of
#                     text.  A dollar sign that is not written twice, because make would expand a variable
#     names of files  a ~ at the beginning, which make does not expand
#     RUN, BASE       a blank, because make splits names at blanks
set -euo pipefail
export LC_ALL=C

for word; do
	name=${word%%=*} value=${word#*=}
	case $value in
	*[$'\001'-$'\037'$'\177']* | *$'\302'[$'\200'-$'\237']* | *$'\330\234'* | \
		*$'\342\200'[$'\216\217'$'\250'-$'\256']* | *$'\342\201'[$'\246'-$'\251']*)
		printf '%s=%q: a word of a pipeline must not have a control character\n' "$name" "$value"
		exit
		;;
	esac
	if [[ ${value//'$$'/} == *'$'* ]]; then
		printf "%s='%s': make takes a dollar sign for the beginning of a variable: %s\n" \
			"$name" "$value" 'write two for one'
		exit
	fi
	case $name in
	RUN | MODEL | OUT | AGAINST | BASE | EVAL | STREAM)
		if [[ $value == '~'* ]]; then
			# shellcheck disable=SC2016  # the name, not its value
			printf '%s='\''%s'\'': make does not expand ~: write $HOME\n' "$name" "$value"
			exit
		fi
		;;
	esac
	if [[ $name =~ ^(RUN|BASE)$ && $value == *' '* ]]; then
		printf "%s contains a space, and make would split it there: '%s'\n" "$name" "$value"
		exit
	fi
done
