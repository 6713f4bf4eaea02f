#!/bin/bash
# plan.sh NAME=COMMAND... -- the program of `make -f pipelines/midtrain.mk plan`: prints the memory of each
# program of a phase, and that of the programs that work at the same time; whether the memory fits, and which
# words make it fit; and an estimate of the time.  Nothing is loaded or written.
#
# $MODEL: a config, a checkpoint or a run; $LEN: tokens of the longest sequence; $COMPUTE: options of programs
# with a model; $BATCH: sequences of a batch; $BATCHES: batches, or empty if their number is not known;
# $MEMORY: the memory to fit into, such as 24G, or empty for that of this machine; $FUSED_TRAIN: the trainer
# whose options FUSED=COMMAND has, or empty.
#
# Each program states its memory and time under --dry-run.  The time is an estimate: the operations that the
# model needs for a sequence of LEN tokens, divided by the speed of a matrix product now.
set -eu -o pipefail
export LC_ALL=C
model=${MODEL?}
for config in "$model/config.json" "$model/latest/config.json"; do
	[ ! -e "$config" ] || { model=$config; break; }
done
stages=("$@")
export FROM=0 TO=$BATCH # the batch that a command may name
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# An empty stream that fits any model.  Programs read the number and length of rollouts from its head, which
# plan() adds after rf-rollout.
rf-tokenize --bytes </dev/null 2>"$dir/said" | rf-dump --json |
	jq -c 'if .type == "head" then .body |= (del(.vocab, .tokenizer) | .history = []) else . end' |
	rf-cat --json -o "$dir/0"

if [ -n "${MEMORY-}" ]; then
	most=$(numfmt --from=iec -- "$MEMORY" 2>/dev/null) || most=0
	if [ "$most" -lt $((1 << 20)) ]; then
		printf "MEMORY='%s': it must be a size from 1M on, such as 24G\n" "$MEMORY" >&2
		exit 64
	fi
	most=$((most >> 20))
else
	most=$(awk '$1 == "MemTotal:" { print int($2 / 1024) }' /proc/meminfo)
	limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null) || limit=max
	[[ ! $limit =~ ^[0-9]+$ ]] || [ $((limit >> 20)) -ge "$most" ] || most=$((limit >> 20))
fi

# plan LEN COMPUTE TRAIN: prints each line of each program's --dry-run after the program's name.
# COMPUTE and TRAIN are options in addition to those of $COMPUTE and of the trainer.
plan() {
	local stage name program command stream=$dir/0 more
	for stage in "${stages[@]}"; do
		name=${stage%%=*} command=${stage#*=} more=$2
		read -r program _ <<<"$command" || continue
		case ${program##*/} in
		rf-grpo | rf-ntp | rf-step)
			more+=" $3"
			# the schedule takes no memory
			command=${command//--total-steps[ =]auto/--total-steps 1}
			;;
		rf-entropy | rf-rollout | rf-generate | rf-logp) ;;
		rf-select)
			bash -c "$command" <"$stream" >"$dir/$name"
			stream=$dir/$name
			continue
			;;
		*) continue ;;
		esac
		bash -c "$command -m \"\$0\" $COMPUTE $more --max-len $1 --dry-run" "$model" <"$stream" \
			>"$dir/$name.plan"
		sed "s/^/$name /" "$dir/$name.plan"
		[ "${program##*/}" = rf-rollout ] || continue
		awk '$1 == "--rollouts" || $1 == "--length" { printf "{\"%s\": %d}\n", substr($1, 3), $2 }' \
			"$dir/$name.plan" >"$dir/options"
		rf-dump --json "$stream" | jq -c --slurpfile option "$dir/options" '
			if .type == "head" then
				.body.history += [{tool: "rf-rollout", version: "", options: ($option | add)}]
			else . end' | rf-cat --json -o "$dir/$name"
		stream=$dir/$name
	done
}

# table: prints the rows, and at the end a line of numbers: the MiB that must fit, the MiB of the GPU or 0,
# the seconds of a sequence.  For each program on a GPU the driver keeps memory as well.
table() {
	awk '
	function row(name, text, mib) { printf "%-10s %-58s %9s MiB%s\n", name, text, mib, later }
	$2 == "device" && !seen++ {
		sub(/^[^ ]+ device +/, "")
		print "device     " $0
		gpu = /^cuda/ && match($0, /[0-9]+ MiB/) ? substr($0, RSTART) + 0 : 0
	}
	$2 == "plan" {
		name = $1
		later = name == "GENERATE" ? ", when the others have ended" : ""
		text = "sequences up to " $6 ", segments of " $(NF - 1)
	}
	$2 == "time" { seconds += $4 }
	name && $3 == "positions," { text = text ", " $2 " x " $4 " x " $7 }
	name && $2 == "memory" && later { row(name, text, $3); if ($3 > last) last = $3; name = later = "" }
	name && $2 == "memory" { row(name, text, $3); all += $3; host += gpu ? $8 : 0; n++; name = "" }
	END {
		if (gpu) {
			row("driver", n " programs, about", 512 * n)
			all += 512 * n
			row("together", "of the GPU", all)
			row("", "of the host", host)
		} else
			row("together", "", all + 0)
		print " " (all > last ? all : last), gpu, seconds + 0
	}'
}

plan "$LEN" '' '' >"$dir/said"
table <"$dir/said" >"$dir/table"
sed '$d' "$dir/table"
read -r need gpu seconds <<<"$(tail -n 1 "$dir/table")"
[ -n "${MEMORY-}" ] || [ "$gpu" -eq 0 ] || most=$gpu

# fits LEN COMPUTE TRAIN WORDS: if the phase fits, prints the memory that is left and the words; else fails.
fits() {
	local mib
	mib=$(plan "$1" "$2" "$3" | table | awk 'END { print $1 }')
	[ "$mib" -le "$most" ] && printf 'fits       %s MiB with %s\n' "$mib" "$4"
}

# word NAME VALUE: prints the word as it is typed after make, which takes $$ for $
word() {
	local value=${2//\$/\$\$}
	printf "%s='%s'" "$1" "${value//\'/\'\\\'\'}"
}

# cure: prints the first words that make it fit: a trainer that computes activations again, then also shorter
# segments, then also shorter sequences
cure() {
	local stage train='' recompute words='' segment='--segment 512' len
	[ "$gpu" -eq 0 ] || segment='--segment 2048'
	for stage in "${stages[@]}"; do
		[[ $stage != @(TRAIN|FUSED)=* || $stage == *--recompute* ]] ||
			train="${FUSED_TRAIN:-${stage#*=}} --recompute segment"
	done
	recompute=${train:+--recompute segment}
	if [ -n "$train" ]; then
		words=$(word TRAIN "$train")
		! fits "$LEN" '' "$recompute" "$words" || return 0
	fi
	words+="${words:+ }$(word COMPUTE "${COMPUTE:+$COMPUTE }$segment")"
	! fits "$LEN" "$segment" "$recompute" "$words" || return 0
	for ((len = LEN / 2; len >= 64; len /= 2)); do
		! fits $len "$segment" "$recompute" "$words LEN=$len" || return 0
	done
	echo 'fits       not, whatever the words: the model itself needs more memory'
}

if [ "$need" -le "$most" ]; then
	printf 'memory     %s MiB: it fits\n' "$most"
else
	printf 'memory     %s MiB: it DOES NOT FIT\n' "$most"
	cure
fi

awk -v seconds="$seconds" -v batch="$BATCH" -v len="$LEN" -v batches="${BATCHES-}" '
function span(s) {
	if (s < 7200)
		return s < 120 ? sprintf("%.3g s", s) : sprintf("%.0f min", s / 60)
	return s < 172800 ? sprintf("%.1f h", s / 3600) : sprintf("%.0f days", s / 86400)
}
BEGIN {
	printf "time       about %s for a batch of %d sequences of %d tokens",
		span(seconds * batch), batch, len
	if (batches != "")
		printf ", %s for %d batches", span(seconds * batch * batches), batches
	print "\n           (an estimate: operations of the model, at the speed of a matrix product now)"
}'
