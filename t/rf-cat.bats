load helper
load promises

@test "rf-cat: keeps the promises of a filter" {
	promises filter "$G/stream/tokens.rf" rf-cat
	promises filter "$G/stream/rewarded.rf" rf-cat --shuffle --repeat 2
}
