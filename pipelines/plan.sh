#!/bin/bash
# plan.sh NAME=COMMAND... -- what the programs of a phase that have a model will hold, each, and together
# those that work at the same time: for `make -f pipelines/midtrain.mk plan`.  Nothing is loaded or written.
#
# $MODEL: a config, a checkpoint or a run; $LEN: tokens of the longest sequence; $COMPUTE: options of programs
# with a model.
set -eu -o pipefail
export LC_ALL=C
model=${MODEL?}
for config in "$model/config.json" "$model/latest/config.json"; do
	[ ! -e "$config" ] || { model=$config; break; }
done
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# What the programs before one say of themselves in its stream: how many positions and rollouts there will be.
stream=$dir/0
rf-tokenize --bytes </dev/null 2>"$dir/said" | rf-dump --json |
	jq -c 'if .type == "head" then .body |= (del(.vocab, .tokenizer) | .history = []) else . end' |
	rf-cat --json -o "$stream"

plans=()
for stage; do
	name=${stage%%=*} command=${stage#*=}
	read -r program _ <<<"$command" || continue
	case ${program##*/} in
	rf-entropy | rf-rollout | rf-grpo | rf-ntp | rf-generate | rf-logp) ;;
	rf-select)
		bash -c "$command" <"$stream" >"$dir/$name"
		stream=$dir/$name
		continue
		;;
	*) continue ;;
	esac
	plans+=("$name")
	bash -c "$command -m \"\$0\" $COMPUTE --max-len $LEN --dry-run" "$model" <"$stream" >"$dir/$name.plan"
	[ "${program##*/}" = rf-rollout ] || continue
	awk '$1 == "--rollouts" || $1 == "--length" { printf "{\"%s\": %d}\n", substr($1, 3), $2 }' \
		"$dir/$name.plan" >"$dir/options"
	rf-dump --json "$stream" | jq -c --slurpfile option "$dir/options" '
		if .type == "head" then
			.body.history += [{tool: "rf-rollout", version: "", options: ($option | add)}]
		else . end' | rf-cat --json -o "$dir/$name"
	stream=$dir/$name
done

# Of a GPU each program also has what the driver keeps for it.
for name in "${plans[@]}"; do
	sed "s/^/$name /" "$dir/$name.plan"
done | awk '
function row(name, text, mib) { printf "%-10s %-58s %9s MiB%s\n", name, text, mib, later }
$2 == "device" && !seen++ { sub(/^[^ ]+ device +/, ""); print "device     " $0; gpu = /^cuda/ }
$2 == "plan" {
	name = $1
	later = name == "GENERATE" ? ", when the others have ended" : ""
	text = "sequences up to " $6 ", segments of " $(NF - 1)
}
name && $3 == "positions," { text = text ", " $2 " x " $4 " x " $7 }
name && $2 == "memory" && later { row(name, text, $3); name = later = "" }
name && $2 == "memory" { row(name, text, $3); all += $3; host += gpu ? $8 : 0; n++; name = "" }
END {
	if (!gpu) { row("together", "", all); exit }
	row("driver", n " programs, about", 512 * n)
	row("together", "of the GPU", all + 512 * n)
	row("", "of the host", host)
}'
