#!/usr/bin/env bats
# Lines of progress: with --progress, and on a terminal, which script(1) makes.
setup() {
	load ../helper
	load ../model
	T=$G/stream/tokens.rf
}

# last FILE: prints the last line
last() { tail -n 1 "$1"; }

@test "progress: --progress ends with a line that has the program's name, its counts and the time it took" {
	for command in "rf-cat" "rf-select --mode uniform --chunks 2 -k 2 --margin 2" "rf-reward" \
		"rf-dump --tsv" "rf-dump --check" \
		"rf-entropy -m $M" "rf-rollout -m $M" "rf-ntp --eval -m $M" "rf-cat --shuffle"; do
		$command --progress "$T" 2>err >out
		[[ "$(grep -v ': none of 4 records' err | tail -n 1)" =~ \
			^"${command%% *}: 4 records, 197 tokens, "[0-9]+" tokens/s, "[0-9.]+" s, ended"$ ]] ||
			{ echo "$command"; cat err; return 1; }
		$command "$T" 2>err >out
		run ! grep -q records, err
	done
	rf-dump --json "$T" >json
	rf-cat --json --progress json 2>err | same_messages "$T"
	[[ "$(last err)" == "rf-cat: 4 records, 197 tokens, "* ]]
	rf-dump --json --progress "$T" 2>err | cmp - json
	[[ "$(last err)" == "rf-dump: 4 records, "*" s, ended" ]]
	printf '{"text":"ab"}\n{"text":"c"}\n' >a.jsonl
	rf-tokenize --bytes --progress a.jsonl 2>err >out
	[[ "$(head -n 1 err)" == "rf-tokenize: 2 records, 5 tokens, "*" s, ended" ]]
	rf-reward --progress --exec 'cat >/dev/null' "$T" 2>err >out
	grep -q "^rf-reward: 4 records, " err
}

@test "progress: a trainer reports the records, tokens and steps of its training with any --mini-batch" {
	batch 1:50 2:40 3:30 >in
	while IFS='|' read -r how losses; do
		rm -rf run
		runs run
		$how -m run --progress in 2>err
		grep -qE "^${how%% *}: 3 records$losses, 120 tokens, [0-9]+ tokens/s, [0-9.]+ s, ended$" \
			err || { echo "$how"; cat err; return 1; }
	done <<-'END'
		rf-ntp|, 1 step, loss/ntp [0-9.]+
		rf-ntp --mini-batch 2|, 2 steps, loss/ntp [0-9.]+ \(first [0-9.]+\)
		rf-grpo|, 1 step, loss/ntp [0-9.]+, loss/rl [-+e0-9.]+
		rf-grpo --mini-batch 1|, 3 steps, loss/ntp [0-9.]+ \(first [0-9.]+\), loss/rl [-+e0-9.]+
		rf-grpo --log-gradients --log log|, 1 step, loss/ntp [0-9.]+, loss/rl [-+e0-9.]+
		rf-grpo --ntp-coef 0|, 1 step, loss/rl [-+e0-9.]+
		rf-grpo --rl-coef 0 --ntp-coef 0|
	END
	# the line has the losses of the log
	rm -rf run
	runs run
	rf-ntp -m run --progress --log new in 2>err
	[[ "$(last err)" == *"loss/ntp $(printf %.5g "$(jq '.["loss/ntp"]' new)"), "* ]]
	rf-ntp -m run --mini-batch 1 --progress --log three in 2>err
	mapfile -t losses < <(jq '.["loss/ntp"]' three)
	[ ${#losses[@]} -eq 3 ]
	[[ "$(last err)" == *"$(printf 'loss/ntp %.5g (first %.5g), ' "${losses[2]}" "${losses[0]}")"* ]]
}

@test "progress: a trainer that computes shows how many records are done and the time left" {
	texts 40 {1..12}:20000 >in
	runs run
	rf-ntp -m run --threads 1 --progress in 2>err
	cat err
	grep -qE '^rf-ntp: [0-9]+ of 12 records, [0-9]+ tokens, [0-9]+ tokens/s, [0-9]+ s left, computing$' \
		err
}

@test "progress: a program that waits shows what it waits for" {
	mkfifo in out
	rf-cat --progress <in 2>err >out &
	exec 8<>out 9>in
	"$RF_UNITS/helper/lab" pick "$T" 0 1 >&9
	for _ in $(seq 100); do
		grep -q 'rf-cat: 1 records, .*, waiting for input$' err && break
		sleep .05
	done
	grep -q 'waiting for input' err
	run ! grep -q 'ended' err
	exec 9>&-
	wait $! || true
	# after a failure, the error is the last line
	[[ "$(last err)" == "rf-cat: <stdin>: record 2 (byte "*"the end record is missing"* ]]
	# the command of --exec takes a while
	rf-cat "$G/stream/rewarded.rf" |
		rf-reward --progress --exec 'sleep .7; cat >/dev/null; exit 1' 2>err >/dev/null || true
	grep -q 'of 4 records.*, waiting for the command$\|^rf-reward: 0 .*waiting for the command$' err
}

@test "progress: on a terminal a program that works for seconds writes whole lines and one at the end" {
	command -v script >/dev/null || skip "script is not here"
	mkfifo gate{1,2}
	for gate in gate1 gate2; do
		(
			until grep -q 'waiting for input' tty 2>/dev/null; do sleep .05; done
			cat "$T" >$gate
		) 3>&- &
	done
	# a program in the background and a program that ends soon write no lines
	TERM=dumb script -qefc "bash -mc 'rf-select --mode uniform --chunks 2 -k 2 --margin 2 gate1 >chosen &
		rf-cat gate2 | rf-dump --check && wait && rf-cat $T >out'" /dev/null </dev/null >tty
	rf-cat "$T" | cmp - out
	rf-dump --check -q chosen
	tr -d '\r' <tty >lines
	[ "$(grep '^rf-cat: ' lines | head -n 1)" = 'rf-cat: 0 records, waiting for input' ]
	grep -qx 'rf-cat: 4 records, 197 tokens, [0-9]* tokens/s, [0-9.]* s, ended' lines
	[ "$(grep -c '^rf-cat: .*, ended$' lines)" -eq 1 ]
	run ! grep -q "^rf-select: " lines
	run ! grep -q $'\e' lines
}
