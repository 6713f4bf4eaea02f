#!/bin/bash
# fused.sh METHOD=refine ENTROPY=... SELECT=... ROLLOUT=... REWARD=... REWARD_OPTIONS=... TRAIN=... KEEP=...
# -- prints the options with which rf-step(1) replaces these commands of a pipeline (FUSED=1), as words of the
# shell.  If rf-step cannot replace them, prints a sentence that names the word, with status 64.
#
# Commands are split into words as the shell does it, and nothing in them is run or expanded: a command must
# be a program of rf-tools with plain options.  --help of the program and of rf-step names the options.
# Options of several programs, such as -k, must have the same value in all commands, since rf-step has them
# once.  --shift of rf-select is --select-shift of rf-step.
set -euo pipefail
export LC_ALL=C

refuse() {
	printf 'FUSED=1: %s: leave out FUSED or this word\n' "$*"
	exit 64
}

declare -A word=([METHOD]='' [ENTROPY]='' [SELECT]='' [ROLLOUT]='' [REWARD]='' [REWARD_OPTIONS]='' [TRAIN]=''
	[KEEP]='')
for given; do
	word[${given%%=*}]=${given#*=}
done
stages=(ENTROPY SELECT ROLLOUT REWARD)

# split NAME TEXT: puts the words of the text into `typed`, and their values for the shell into `meant`
split() {
	local name=$1 rest=$2 raw='' value='' part
	local single="^'([^']*)'" double='^"(([^"\\$`]|\\.)*)"' escaped='^\\(.)'
	local plain='^[-A-Za-z0-9_.,:=+/@%^!~]+'
	typed=() meant=()
	while [ -n "$rest" ]; do
		if [[ $rest =~ ^[\ $'\t']+ ]]; then
			part=${BASH_REMATCH[0]}
			[ -z "$raw" ] || typed+=("$raw") meant+=("$value")
			raw='' value=''
		elif [[ $rest =~ $plain && $raw${rest:0:1} != '~' ]]; then
			part=${BASH_REMATCH[0]} raw+=$part value+=$part
		elif [[ $rest =~ $single || $rest =~ $escaped ]]; then
			part=${BASH_REMATCH[0]} raw+=$part value+=${BASH_REMATCH[1]}
		elif [[ $rest =~ $double ]]; then
			part=${BASH_REMATCH[0]} raw+=$part
			# shellcheck disable=SC2001  # a group
			value+=$(sed 's/\\\([\\"$`]\)/\1/g' <<<"${BASH_REMATCH[1]}")
		else
			refuse "$name is '$2', and rf-step takes a program with plain options, without" \
				"'${rest:0:1}' as the shell has it"
		fi
		rest=${rest:${#part}}
	done
	[ -z "$raw" ] || typed+=("$raw") meant+=("$value")
}

# options PROGRAM: prints a line for each name of its options: the long name, and 1 if it takes a value
options() {
	"$1" --help | awk '/^  (-.,|   ) --/ {
		rest = substr($0, index($0, "--"))
		match(rest, /^--[a-z-]+/)
		name = substr(rest, 1, RLENGTH)
		takes = substr(rest, RLENGTH + 1) ~ /^ [^ ]/
		print name, name, takes + 0
		if (/^  -/)
			print substr($0, 3, 2), name, takes + 0
	}'
}

# not_of_stage NAME:OPTION: succeeds if the option means something else for rf-step, or the pipeline gives it
not_of_stage() {
	case $1 in
	*:--model | *:--output | *:--dry-run | *:--help | *:--version | *:--stale | ENTROPY:--keep | \
		SELECT:--exec | SELECT:--text | SELECT:--tokenizer | SELECT:--no-hidden | SELECT:--timeout | \
		SELECT:--queue-limit | TRAIN:--at | TRAIN:--log | TRAIN:--ranks | TRAIN:--weights-out) ;;
	*) return 1 ;;
	esac
}

printed=()
declare -A said
# add_options NAME PROGRAM: adds the options in `typed` and `meant`, which follow the program, to `printed`
add_options() {
	local name=$1 program=$2 i text value option long takes joined
	for ((i = 0; i < ${#typed[@]}; i++)); do
		option=${meant[i]%%=*} text=${typed[i]} value=
		[[ ${meant[i]} == --* ]] || option=${meant[i]:0:2}
		[[ ${meant[i]} == -?* ]] || refuse "$name has '${meant[i]}', which is not an option"
		long=$(options "$program" | awk -v name="$option" '$1 == name { print $2, $3 }')
		takes=${long#* } long=${long% *}
		[ -n "$long" ] || refuse "$name has $option, which $program does not have"
		joined=$long
		[ "$name:$long" != SELECT:--shift ] || joined=--select-shift
		if not_of_stage "$name:$long" ||
			! options rf-step | awk -v name="$joined" '$1 == name { n++ } END { exit !n }'; then
			refuse "$name has $option, which rf-step cannot have from $name"
		fi
		if [ "$takes" = 1 ]; then
			if [[ ${meant[i]} == --*=* ]]; then
				value=${meant[i]#*=}
			elif [[ ${meant[i]} != --* && ${#meant[i]} -gt 2 ]]; then
				value=${meant[i]:2}
			elif ((++i < ${#typed[@]})); then
				text+=" ${typed[i]}" value=${meant[i]}
			else
				refuse "$name has $option without a value"
			fi
		fi
		[ "$joined" = "$long" ] || text="$joined $(printf %q "$value")"
		[ "$long" != --rl-coef ] || [[ ! $value =~ ^[+-]?0*\.?0*([eE].*)?$ ]] ||
			refuse "$name has --rl-coef $value, with which rf-step makes no rollouts"
		[ "$name:$long:$value" != TRAIN:--advantage:stream ] ||
			refuse "$name has --advantage stream, and rf-step computes the advantages"
		[ "${said[*:$long=$value]-}" ] || printed+=("$text")
		said[$name:$long]=${value:-yes}
		shared "$long" || continue
		said[*:$long=$value]=yes
	done
}

# shared OPTION: succeeds if more than one stage has the option
shared() {
	case $1 in
	--length | --seed | --draw-step | --device | --threads | --isa | --segment | --max-len | --dtype | \
		--max-record) ;;
	*) return 1 ;;
	esac
}

# require_same OPTION DEFAULT NAME...: refuses different values of the option
require_same() {
	local option=$1 default=$2 first=$3 name
	shift 2
	for name; do
		[ "${said[$name:$option]-$default}" = "${said[$first:$option]-$default}" ] ||
			refuse "$option is ${said[$first:$option]-$default} in $first and" \
				"${said[$name:$option]-$default} in $name, and rf-step has it once"
	done
}

command -v rf-step >/dev/null || refuse 'rf-step is not installed'
[ "${word[METHOD]}" != none ] || refuse 'METHOD=none trains nothing'
for name in "${!word[@]}"; do
	[[ ${word[$name]} != *$'\n'* ]] || refuse "$name has more than one line"
done
split TRAIN "${word[TRAIN]}"
trainer=${meant[0]-}
train_typed=("${typed[@]:1}") train_meant=("${meant[@]:1}")

if [ "$trainer" = rf-ntp ]; then
	for name in "${stages[@]}"; do
		[[ -z ${word[$name]// } ]] ||
			refuse "TRAIN is '${word[TRAIN]}', and $name is not empty: rf-step trains by" \
				"rollouts like rf-grpo, or without ENTROPY to REWARD like rf-ntp"
	done
	[ -z "${word[KEEP]}" ] || refuse "KEEP needs rf-grpo in TRAIN, whose records have advantages"
	typed=("${train_typed[@]}") meant=("${train_meant[@]}")
	add_options TRAIN rf-ntp
	printf '%s\n' "--rl-coef 0 --mini-batch 0 ${printed[*]}"
	exit
fi
[ "$trainer" = rf-grpo ] || refuse "TRAIN is '${word[TRAIN]}', which is not rf-grpo or rf-ntp"

for name in "${stages[@]}"; do
	program=rf-${name,,}
	text=${word[$name]}
	read -r first _ <<<"$text" || true
	[ -n "$first" ] || refuse "$name is empty, and rf-step does what $program does"
	if [ "$name" = REWARD ] && [[ ${first##*/} != rf-* ]]; then
		printed+=("--exec '${text//\'/\'\\\'\'}'")
		split REWARD_OPTIONS "${word[REWARD_OPTIONS]}"
		add_options REWARD_OPTIONS "$program"
		continue
	fi
	split "$name" "$text"
	[ "${meant[0]}" = "$program" ] || refuse "$name is '$text', which is not $program"
	typed=("${typed[@]:1}") meant=("${meant[@]:1}")
	add_options "$name" "$program"
done
typed=("${train_typed[@]}") meant=("${train_meant[@]}")
add_options TRAIN rf-grpo

require_same --length 5 SELECT ROLLOUT
require_same --seed 0 SELECT ROLLOUT
require_same --draw-step -1 SELECT ROLLOUT
if [ "${said[REWARD:--kind]-}" = random ] || [ "${said[REWARD:--seed]-}${said[REWARD:--draw-step]-}" ]; then
	require_same --seed 0 SELECT REWARD
	require_same --draw-step -1 SELECT REWARD
fi
for option in --device --threads --isa --segment --max-len --dtype; do
	require_same $option 'not given' ENTROPY ROLLOUT TRAIN
done
require_same --max-record 'not given' ENTROPY SELECT ROLLOUT REWARD TRAIN
printf '%s\n' "${printed[*]-}"
