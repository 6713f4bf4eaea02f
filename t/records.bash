# Functions for tests of rf-select and rf-reward: streams with positions, rollouts and rewards, and checks
# whether a command of --exec still runs.

# records make N D STEP, records reverse FILE: print a stream that t/helper/records.c makes
# records show FILE: prints a line per record: id, positions, kind and total of the reward, and whether it has
# advantages
# records same FILE FILE: succeeds if the rewards of both streams and their parts differ by at most 1e-6;
# other keys may differ
# show and same fail for a stream without its end.
records() {
	local whole='def seqs: if .[-1].type == "end" then map(select(.type == "seq").body)
		else error("no end") end;'

	case $1 in
	show)
		rf-dump --json --no-hidden "$2" | jq -rs "$whole"' seqs[]
			| "\(.id):\([.positions.data[]?, (.reward | .kind // empty, .total.data[]?),
				(select(.advantage) | "advantage")] | map(" \(.)") | add // "")"'
		;;
	same)
		jq -en --slurpfile a <(rf-dump --json --no-hidden "$2") \
			--slurpfile b <(rf-dump --json --no-hidden "$3") "$whole"'
			def near: transpose | all(.[0] - .[1] | fabs <= 1e-6);
			def parts: (. + .parts | del(.kind, .parts)) // {};
			[$a, $b | seqs]
			| (.[0] | length) == (.[1] | length) and (transpose | all(
				(map([.id, (.positions.data | length), .reward.kind]) | .[0] == .[1])
				and (map(.reward | parts) as [$x, $y] | $x | to_entries
					| all([.value.data, $y[.key].data] | near))))' >/dev/null
		;;
	*) "$RF_UNITS/helper/records" "$@" ;;
	esac
}

# running GROUP: succeeds if a process of this group runs (one that waits to be reaped does not)
running() {
	cat /proc/[0-9]*/stat 2>/dev/null |
		awk -v g="$1" '{ sub(/^.*\) /, "") } $3 == g && $1 != "Z" { n++ } END { exit !n }'
}
# gone: waits until no process of the group whose number is in the file pid runs
gone() {
	for ((i = 0; i < 1000; i++)); do
		running "$(cat pid)" || return 0
		sleep .01
	done
	return 1
}

# tokenized_by KIND: makes doc.rf, a stream of $text by the tokenizer of this kind.  The tokenizer is in the
# folder KIND.
text=' one two  three été 🙂🙂 naïve <b>x</b> "q" \n\t ÿ 日本語 the end of it, and more text'
tokenized_by() {
	mkdir "$1"
	case $1 in
	model) cp "$G/tokenizer/tokenizer.model" model ;;
	bytes) set -- bytes --bytes ;;
	*) zstd -dcq "$G/tokenizer/$1.json.zst" >"$1/tokenizer.json" ;;
	esac
	[ $# -eq 2 ] || set -- "$1" --tokenizer "$1"
	jq -nc --arg text "$text" '{text: $text}' | rf-tokenize "${@:2}" --format jsonl - >doc.rf 2>/dev/null
}
