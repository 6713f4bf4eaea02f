#!/bin/bash
# gpu-programs.sh BIN CONFIG -- compares the programs of BIN on the GPU and on the CPU.  A model with random
# weights goes through rf-entropy, rf-rollout and rf-grpo --grad-out on both devices, in float32, and the
# script prints the largest differences.  The last column has the limits; if a difference is beyond its limit,
# the exit status is 1.  A step of rf-step on the GPU must write the same bytes as the five programs.
#
# Differences of entropies and log-probabilities are in nats, and those of gradients relative to the largest
# number of the gradient.  Rollouts with other tokens on one device also have other log-probabilities.
set -eu -o pipefail
here=$(cd -- "$(dirname -- "$0")" >/dev/null && pwd)
[ $# -eq 2 ] || { echo "usage: gpu-programs.sh BIN CONFIG" >&2; exit 64; }
PATH=$(realpath "$1"):$PATH
config=$(realpath "$2")
export LC_ALL=C
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
bad=0

# differ A B: prints the largest difference of two columns of numbers, and the largest number of B
differ() {
	paste "$1" "$2" | awk '
		function size(x) { return x < 0 ? -x : x }
		NF != 2 || $1 !~ /^-?[0-9]/ || $2 !~ /^-?[0-9]/ { bad = 1; next }
		size($1 - $2) > most { most = size($1 - $2) }
		size($2) > top { top = size($2) }
		END { print bad || !NR ? "nan" : most + 0, top + 0 }'
}
# show WHAT DIFFERENCE LIMIT: prints a line, and sets bad if the difference is beyond the limit
show() {
	awk -v what="$1" -v x="$2" -v limit="$3" 'BEGIN {
		good = x != "nan" && x <= limit
		printf "%-24s %9.1e of %.0e%s\n", what, x, limit, good ? "" : "  NOT RIGHT"
		exit !good }' || bad=1
}
column() { rf-dump --tsv --no-header "$@"; }
# numbers FILE: prints the numbers of a file of tensors, one on each line
numbers() {
	local head
	head=$(od -An -t u8 -N 8 "$1")
	tail -c +$((head + 9)) "$1" | od -An -v -t f4 -w4
}

rf-init --config "$config" --seed 1 model
rf-init --from model run
head -c 1500 "$here/gpu-programs.sh" >text.txt
rf-tokenize --bytes --format text --max-len 500 --min-len 500 --truncate split -o text text.txt 2>err
for device in cpu cuda; do
	rf-entropy -m model --device $device --dtype f32 -o entropy.$device text
	column --rows token --columns entropy entropy.$device >column.$device
done
read -r most _ < <(differ column.cuda column.cpu)
show entropy "$most" 1e-4
rf-entropy -m model --device cuda -o entropy.bf16 text
column --rows token --columns entropy entropy.bf16 >column.bf16
read -r most _ < <(differ column.bf16 column.cpu)
show 'entropy in bf16' "$most" 3e-2

rf-select --chunks 4 entropy.cpu >chosen
for device in cpu cuda; do
	rf-rollout -m model -n 4 --device $device --dtype f32 chosen >rolled.$device
	column --rows rollout --columns logp rolled.$device >column.$device
done
read -r most _ < <(differ column.cuda column.cpu)
show 'logp of rollouts' "$most" 1e-4

rf-reward rolled.cpu >rewarded
for device in cpu cuda; do
	rf-grpo -m run --device $device --dtype f32 --grad-out gradient.$device rewarded
	numbers gradient.$device >column.$device
done
read -r most top < <(differ column.cuda column.cpu)
show gradient "$(awk -v a="$most" -v b="$top" 'BEGIN { print a == "nan" || b == 0 ? "nan" : a / b }')" 1e-4

rf-entropy -m run --device cuda text | rf-select --chunks 4 | rf-rollout -m run -n 4 --device cuda |
	rf-reward | rf-grpo -m run --device cuda --lr 1e-3 --weights-out piped
rf-step -m run --device cuda --chunks 4 -n 4 --lr 1e-3 --weights-out stepped text
other=0
cmp -s {piped,stepped}/model.safetensors ||
	other=$({ cmp -l {piped,stepped}/model.safetensors 2>&1 || true; } | wc -l)
show 'rf-step, other bytes' "$other" 0
exit $bad
