#!/bin/bash
# steps.sh SIZE COMMAND -- prints the number of optimizer steps that the trainer COMMAND takes for a batch of
# SIZE sequences, by its --mini-batch, --steps and --outer: for `--total-steps auto` of the pipelines.
set -euo pipefail

[ $# -eq 2 ] || { echo 'usage: steps.sh SIZE COMMAND' >&2; exit 64; }
size=$1 command=$2
[[ $size =~ ^[1-9][0-9]{0,8}$ ]] || { echo 0; exit; } # the caller refuses it

# value OPTION DEFAULT: prints the number that the command gives with the option, the last one if there are
# several; it may be $((...)) of the batch's FROM and TO
value() {
	local rest=" $command" found=$2 sum
	local number='^[ =](0|[1-9][0-9]{0,8})( .*|$)' sums='^[ =]\$\(\(([^;]*)\)\)( .*|$)'
	# shellcheck disable=SC2034 # names in a sum
	local FROM=0 TO=$size
	while [[ $rest =~ \ --$1(.*) ]]; do
		rest=${BASH_REMATCH[1]} sum=
		if [[ $rest =~ $number || $rest =~ $sums ]]; then
			sum=${BASH_REMATCH[1]}
		fi
		if [[ -z $sum || $sum =~ [^-+*/()\ 0-9A-Z] ]]; then
			printf "TRAIN: --total-steps auto: '%s' does not say a number with --%s\n" \
				"$command" "$1" >&2
			exit 64
		fi
		found=$((sum))
	done
	echo "$found"
}

read -r program _ <<<"$command"
default=0
[[ ${program##*/} != rf-@(grpo|step) ]] || default=32
steps=$(value steps 0)
mini=$(value mini-batch $default)
if [ "$steps" -eq 0 ]; then
	steps=1
	[ "$mini" -eq 0 ] || steps=$(((size + mini - 1) / mini))
elif [ "$steps" -gt "$size" ]; then
	steps=$size
fi
[[ ! " $command " =~ \ --outer[=\ ]response\  ]] || steps=$((steps + 1))
echo "$steps"
