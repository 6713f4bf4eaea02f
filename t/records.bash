# What the tests of rf-select and rf-reward load: streams with positions, rollouts and rewards.

# records make N D STEP, records reverse FILE: a stream that t/helper/records.c makes
# records show FILE: id, positions, the reward's kind and total, whether there is an advantage: one line per
# record
# records same FILE FILE: fails unless the rewards of the first, with their parts, are those of the second to
# 1e-6, whatever else differs
# A stream without its end fails.
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
