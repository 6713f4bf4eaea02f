#!/bin/bash
# scripts.sh NAME=COMMAND... -- lists the user's own files that these commands run or read as settings, one on
# a line: scripts, other programs, and files of settings, such as my_reward.py and my_reward.json in
# REWARD='python3 my_reward.py --config my_reward.json'.  The list leaves out the files that a command writes,
# files in RUN, the system's programs, interpreters, the programs of rf-tools, and the modules that a script
# imports.  If an interpreter is to run a script that does not exist, that is an error.
set -euo pipefail
export LC_ALL=C

# words COMMAND: splits the command into the array `word`, without quotes and with the value of HOME; an
# operator between commands is a word, too
words() {
	# shellcheck disable=SC2016  # the name, not its value
	local s=$1 one='' quote='' begun='' home='^(\$HOME|\$\{HOME\})([^A-Za-z0-9_]|$)' c i
	word=()
	for ((i = 0; i < ${#s}; i++)); do
		if [[ ${s:i} =~ ^[A-Za-z0-9_./,:=+@%-]+ ]]; then # at once, for long commands
			one+=${BASH_REMATCH[0]} begun=1 i=$((i + ${#BASH_REMATCH[0]} - 1))
			continue
		fi
		c=${s:i:1}
		if [ "$c" = \\ ] && [ "$quote" != "'" ]; then
			i=$((i + 1)) begun=1
			one+=${s:i:1}
		elif [ "$c" = '$' ] && [ "$quote" != "'" ] && [[ ${s:i} =~ $home ]]; then
			i=$((i + ${#BASH_REMATCH[1]} - 1)) begun=1
			one+=${HOME:-}
		elif [ "$c" = '~' ] && [ -z "$begun" ] && [[ ${s:i+1:1} == [/[:space:]] ]]; then
			begun=1
			one+=${HOME:-}
		elif [ -n "$quote" ]; then
			if [ "$c" = "$quote" ]; then quote=''; else one+=$c; fi
		elif [ "$c" = "'" ] || [ "$c" = '"' ]; then
			quote=$c begun=1
		elif [[ $c == [[:space:]\|\;\&\(\)\<\>\`] ]]; then
			[ -z "$begun" ] || word+=("$one")
			one='' begun=''
			[[ $c == [[:space:]] ]] || word+=("$c")
		else
			one+=$c begun=1
		fi
	done
	[ -z "$begun" ] || word+=("$one")
}

bin='' run=''
# of_system FILE: succeeds if the file belongs to the system or to rf-tools, or is in the run
of_system() {
	local real
	real=$(readlink -f -- "$1") || return 0
	[ "$bin" ] || {
		bin=$(readlink -f -- "${RF_BIN:-.none}" || echo .none)
		run=$(readlink -f -- "${RUN:-.none}" || echo .none)
	}
	case $real in
	/bin/* | /sbin/* | /usr/bin/* | /usr/sbin/* | /usr/lib/* | "$bin"/* | "$run"/*) return 0 ;;
	esac
	return 1
}

declare -A listed
# list FILE: prints its name, once
list() {
	if [[ $1 == *$'\n'* ]]; then
		printf '%q: a newline in the name of a script cannot be noted: rename the file\n' "$1" >&2
		exit 64
	fi
	[ "${listed[$1]:-}" ] || printf '%s\n' "$1"
	listed[$1]=yes
}

# interpreter PROGRAM: succeeds if its first operand is a script, whatever the script's name
interpreter() {
	[[ ${1##*/} =~ ^(python[0-9.]*|perl|ruby|node|sh|bash|dash|Rscript|julia|lua)$ ]]
}

# wraps PROGRAM: succeeds if it runs the command that its operands are
wraps() {
	[[ ${1##*/} =~ ^(env|exec|command|time|nice|ionice|nohup|timeout|stdbuf|taskset|numactl|setsid)$ ]]
}

starts_as_script() {
	local start=''
	[ ! -f "$1" ] || IFS= read -r -n 2 start <"$1" 2>/dev/null || :
	[ "$start" = '#!' ]
}

# is_own FILE: succeeds if the file can be run, or has the name of a program or of settings
is_own() {
	[ ! -x "$1" ] || return 0
	case $1 in
	*.py | *.sh | *.bash | *.pl | *.rb | *.lua | *.js | *.jl | *.R) return 0 ;;
	*.awk | *.jq | *.sed | *.mk) return 0 ;;
	*.json | *.yaml | *.yml | *.toml | *.ini | *.cfg) return 0 ;;
	esac
	starts_as_script "$1"
}

# missing PROGRAM WORD: succeeds if an interpreter is to run this script, which does not exist
missing() {
	interpreter "$1" && [ ! -e "$2" ] || return 1
	case $2 in
	-* | *[!A-Za-z0-9_./+-]*) return 1 ;;
	*.py | *.sh | *.bash | *.pl | *.rb | *.lua | *.js | *.jl | *.R) return 0 ;;
	esac
	return 1
}

# list_files COMMAND DEPTH: prints its own files, also those of a command in quotes inside it
list_files() {
	local -a word
	# moved: the command changed the folder, or the next word is no script
	local w before='' command=1 wrapped='' program='' operand='' moved=${moved:-} file path i
	words "$1"
	for ((i = 0; i < ${#word[@]}; i++)); do
		w=${word[i]}
		if [[ $w == [\|\;\&\(\`] ]]; then
			command=1 wrapped=''
		elif [[ $w == *[[:space:]]* && ! -f $w ]]; then
			[ "$2" -eq 0 ] || list_files "${w#--*=}" $(($2 - 1))
		elif [ -n "$command" ] && [[ $w == *=* && $w != -* ]]; then
			: # a variable of the command
		elif [ -n "$command" ] && wraps "$w"; then
			wrapped=1
		elif [ -n "$command" ] && [ -n "$wrapped" ] && [[ $w == [-0-9]* ]]; then
			: # an option of the wrapper, or a number that belongs to one
		else
			file=$w
			[ -f "$file" ] || [[ $w != -*=* ]] || file=${w#*=}
			if [ -n "$command" ] && [[ $w != */* ]]; then
				path=$(type -P -- "$w") || path=''
				file=''
				interpreter "$w" || ! starts_as_script "$path" || file=$path
			fi
			if [ -f "$file" ] && [ -r "$file" ] && ! of_system "$file"; then
				case $before in
				'>' | -o | --out* | --log* | --save* | --write*) ;;
				-f) list "$file" ;;
				*)
					if [ -z "$operand" ] && interpreter "$program" || is_own "$file"; then
						list "$file"
					fi
					;;
				esac
			fi
			if [ -z "$command$operand$moved" ] && missing "$program" "$w"; then
				printf '%s: %s: the script does not exist\n' "$name" "$w" >&2
				exit 66
			fi
			if [ -n "$command" ]; then
				program=$w operand=''
				case $w in cd | pushd) moved=1 ;; esac
			elif [ "$w" = -c ] || [ "$w" = -e ]; then
				moved=1
			elif [[ $w != -* ]]; then
				operand=$w
			fi
			command=''
		fi
		before=$w
	done
}

for stage; do
	name=${stage%%=*}
	list_files "${stage#*=}" 2
done
