#!/bin/bash
# answer.sh -m MODEL [OPTION...] -o FILE <PROMPTS.rf -- writes a model's answers, as rf-generate does, until
# the end of the line, and the nll of the right responses, which follow the prompts, by the same weights.
set -euo pipefail

model='' out='' options=()
while [ $# -gt 0 ]; do
	case $1 in
	-m) model=$2 && shift ;;
	-o) out=$2 && shift ;;
	*) options+=("$1") ;;
	esac
	shift
done
[[ -n $model && -n $out ]] || { echo 'usage: answer.sh -m MODEL [OPTION...] -o FILE' >&2; exit 64; }
mkdir -p "$(dirname "$out")"
scored=$(dirname "$out")/.$(basename "$out").tmp-$$
trap 'rm -f "$scored"' EXIT

# the remaining options are for rf-generate, with those of the machine
machine=()
for ((i = 0; i < ${#options[@]}; i++)); do
	case ${options[i]} in
	--max-new) ((++i)) ;;
	*) machine+=("${options[i]}") ;;
	esac
done
rf-ntp --eval --loss response -m "$model" ${machine[@]+"${machine[@]}"} -o "$scored" >/dev/null
rf-generate -m "$model" --stop $'\n' ${options[@]+"${options[@]}"} -o "$out" "$scored"
