#!/usr/bin/env bats
# rf-loop: trains a run on a corpus, with one line and one commit per batch, and resumes after any kill.

setup_file() {
	load ../helper
	export P=$BATS_FILE_TMPDIR
	cat >"$P/config.json" <<-'END'
		{ "model_type": "delta_net", "hidden_size": 16, "num_hidden_layers": 1, "num_heads": 2,
		  "intermediate_size": 24, "vocab_size": 384, "eos_token_id": 1 }
	END
	rf-init --config "$P/config.json" --seed 1 "$P/ckpt"
	rf-tokenize --bytes --max-len 64 --min-len 32 --truncate split --format text \
		-o "$P/corpus.rf" "$ROOT/README.md" 2>/dev/null
	train='rf-ntp -m "$RUN" --at $AT --mini-batch 2 --log "$RUN/log.jsonl"'
	export LINE='rf-cat --range $FROM:$TO "$ORDER" | '"$train"
	cd "$P"
	rf-loop -m want --from ckpt --data corpus.rf --batches 3 --batch 4 -- "$LINE" 2>/dev/null
}

setup() {
	load ../helper
	cp -r "$P/ckpt" "$P/corpus.rf" .
}

# Kills all processes of the session that a failed test started.
teardown() {
	[ -z "${shell:-}" ] || pkill -9 -s "$shell" || true
}

# loop RUN WORD...: runs rf-loop as setup_file does, with more options; the variable L replaces the line
loop() {
	local run=$1
	shift
	rf-loop -m "$run" --from ckpt --data corpus.rf --batches 3 --batch 4 "$@" -- "${L:-$LINE}"
}
export -f loop

# begin RUN WORD...: runs loop in the background, in a new session whose first process is $shell; writes its
# standard error to the file err
begin() {
	rm -f err
	setsid bash -c 'exec 2>err
		rf-loop -m "$0" --from ckpt --data corpus.rf --batches 3 --batch 4 "$@" -- "${L:-$LINE}"
		exit $?' "$@" >/dev/null 3>&- &
	shell=$!
}

steps() { rf-dump --tsv --rows step --columns step,commits --no-header "$1" | tail -n 1; }
same_as_want() { same_run "$1" "$P/want"; }

# until_true COMMAND...: waits up to a minute until the command succeeds
until_true() {
	local n
	for ((n = 0; n < 1200; n++)); do
		! "$@" 2>/dev/null || return 0
		sleep .05
	done
	echo "never: $*"
	return 1
}

# ends_with STATUS: waits for the loop that `begin` started, which must exit with this status
ends_with() {
	local status=0
	wait "$shell" || status=$?
	[ "$status" -eq "$1" ] || { echo "status $status, not $1"; cat err; return 1; }
}

# stat_field PID N: prints field N of /proc/PID/stat, counted from 1; field 3 is the state
# in_state PID STATE, err_has TEXT: check the state of a process and the text in err
stat_field() { sed 's/^.*) //' "/proc/$1/stat" | cut -d ' ' -f $(($2 - 2)); }
in_state() { [ "$(stat_field "$1" 3)" = "$2" ]; }
err_has() { grep -qF -- "$1" err; }
# holder RUN, guard RUN: print the pid of the loop that holds the lock of a run, and that of its guard
# session ID: prints the pids that live in a session; none_of ID: succeeds if there is none
holder() { cut -d ' ' -f 1 "$1/data/.lock"; }
guard() { pgrep -P "$(holder "$1")" -x rf-loop; }
session() {
	cat /proc/[0-9]*/stat 2>/dev/null |
		awk -v s="$1" '{ pid = $1; sub(/^.*\) /, "") } $4 == s && $1 != "Z" { print pid }'
}
none_of() { [ -z "$(session "$1")" ]; }
# waiting: prints a line that first makes the file `here`, and then waits for the file `go`
waiting() { echo 'touch here; until [ -e go ]; do sleep .02; done; '"$LINE"; }

@test "rf-loop: each batch runs the line once and makes one commit, the same bytes as a line run by hand" {
	run -0 --separate-stderr loop run
	[ -z "$output" ]
	[ "$(steps run)" = $'6\t3' ]
	same_as_want run
	rf-init --from ckpt hand
	rf-cat --shuffle --seed 0 --epoch 0 -o order.rf corpus.rf
	for batch in 0 1 2; do
		rf-cat --range $((4 * batch)):$((4 * batch + 4)) order.rf |
			rf-ntp -m hand --at $((2 * batch)) --mini-batch 2
	done
	same_run run hand
	[ "$(cut -f 1,2 run/data/times.tsv | paste -sd' ')" = $'1\t2 2\t4 3\t6' ]
	[ "$(cat run/data/status)" = 0 ]
	[ "$(grep -c '^rf-loop: run: batch [123] of 3, step [246], loss [0-9.]*, [0-9]* s left$' \
		<<<"$stderr")" -eq 3 ]
}

@test "rf-loop: the loss reported for a batch is the mean over its mini-batches, without earlier attempts" {
	run -0 --separate-stderr loop run
	shown() { sed -n "s/^rf-loop: run: batch $1 of 3, .*, loss \([0-9.]*\), .*/\1/p" <<<"$stderr"; }
	for batch in 1 2 3; do
		mean=$(jq -s --argjson b $batch '
			map(select(.step >= 2 * $b - 2 and .step < 2 * $b)."loss/ntp")
			| add / length' run/log.jsonl)
		[ "$(printf '%.4g' "$mean")" = "$(printf '%.4g' "$(shown $batch)")" ]
	done
	# the log has lines of an earlier attempt at the last batch
	cp run/log.jsonl log
	rm -r run
	run -0 --separate-stderr loop run --batches 2
	jq -c 'select(.step >= 4) | ."loss/ntp" = 99' log >>run/log.jsonl
	run -0 --separate-stderr loop run
	[ "$(printf '%.4g' "$mean")" = "$(printf '%.4g' "$(shown 3)")" ]
}

@test "rf-loop: the line gets its batch in environment variables, and an empty standard input" {
	L='cat; printf "%s " "$RUN" "$STEP" "$AT" "$FROM" "$TO" "$ORDER" "$STREAM" "$BATCH" "$DATA" >>line'
	export L="$L; echo >>line; $LINE"
	after='printf "%s " "$RUN" "$STEP" "$AT" "$BATCH" "$DATA" "$FROM" "$TO" "$ORDER" >>after
		echo "$STREAM$OUTPUT" >>after'
	loop run --batches 2 --after "$after" </dev/zero
	[ "$(head -n 1 line)" = "run run/step-000000 0 0 4 run/data/epoch-0.rf  0 corpus.rf " ]
	[ "$(tail -n 1 line)" = "run run/step-000002 2 4 8 run/data/epoch-0.rf  1 corpus.rf " ]
	[ "$(head -n 1 after)" = 'run run/step-000002 2 0 corpus.rf 0 4 run/data/epoch-0.rf ' ]
	[ "$(tail -n 1 after)" = 'run run/step-000004 4 1 corpus.rf 4 8 run/data/epoch-0.rf ' ]
	loop run --batches 3 --after "$after" --keep-streams
	[ "$(tail -n 1 line | cut -d ' ' -f 7)" = run/streams/step-000004.rf ]
	[ -d run/streams ]
}

@test "rf-loop: in a finished run, a start points latest to the newest step if a kill left it at an old one" {
	loop run
	ln -sfn step-000004 run/latest
	loop run
	[ "$(readlink run/latest)" = step-000006 ]
}

@test "rf-loop: --order file, --rest and --epochs take every sequence, in the order of the data file" {
	rf-cat --range 0:7 -o seven.rf corpus.rf
	export L='rf-cat --range $FROM:$TO "$ORDER" | tee batch-$BATCH.rf | rf-ntp -m "$RUN" --at $AT'
	rf-loop -m run --from ckpt --data seven.rf --batch 3 --rest --order file --epochs 2 -- "$L"
	[ "$(steps run)" = $'6\t6' ]
	for epoch in '0 1 2' '3 4 5'; do
		for b in $epoch; do rf-dump --json batch-$b.rf; done | jq -c 'select(.type == "seq").body' |
			cmp - <(rf-dump --json seven.rf | jq -c 'select(.type == "seq").body')
	done
	[ ! -e run/data/epoch-0.rf ]
	rf-loop -m run --data seven.rf --batch 3 --rest --order file --epochs 3 -- "$L"
	[ "$(steps run)" = $'9\t9' ]
	# with shuffled data, the rest is a batch, too
	rf-loop -m other --from ckpt --data seven.rf --batch 3 --rest --epochs 1 -- "$L"
	[ "$(for b in 0 1 2; do rf-dump --tsv --rows record --columns id --no-header batch-$b.rf; done |
		sort -u | wc -l)" -eq 7 ]
	# the options are part of the run's settings
	run -65 rf-loop -m run --data seven.rf --batch 3 --rest --epochs 3 -- "$L"
	[[ "$output" == *'< order=file'* ]]
	run -65 rf-loop -m run --data seven.rf --batch 3 --order file --epochs 3 -- "$L"
	run -64 rf-loop -m run --data seven.rf --epochs 3 --batches 3 -- "$L"
}

@test "rf-loop: --outputs names one output file per batch for the line and for --after" {
	export L='rf-cat --range $FROM:$TO "$ORDER" | tee "$OUTPUT" | rf-ntp -m "$RUN" --at $AT'
	loop run --outputs answers --after '[ -s "$OUTPUT" ] && echo "$OUTPUT" >>after'
	[ "$(ls run/answers | paste -sd' ')" = 'batch-000000.rf batch-000001.rf batch-000002.rf' ]
	diff after <(ls run/answers/batch-00000[012].rf)
	run -64 loop other --outputs a/b
}

@test "rf-loop: a start removes the temporary files that a killed program left" {
	export L='rf-cat --range $FROM:$TO -o "$OUTPUT" "$ORDER"'
	loop run --count outputs --outputs answers --batches 1
	touch run/answers/.batch-000000.rf.tmp-1234 run/answers/mine
	touch run/data/.{status,epoch-0.rf,times.tsv}.tmp-1
	loop run --count outputs --outputs answers --batches 2
	[ "$(ls -A run/answers | paste -sd' ')" = 'batch-000000.rf batch-000001.rf mine' ]
	[ -z "$(find run/data -name '*.tmp-*')" ]
}

@test "rf-loop: with --count outputs a batch is done when its file exists, and nothing is committed" {
	export L='echo $BATCH $STEP >>line; rf-cat --range $FROM:$TO -o "$OUTPUT" "$ORDER"'
	loop run --count outputs --outputs answers --rest --order file
	[ "$(cat line)" = $'0 run/step-000000\n1 run/step-000000\n2 run/step-000000' ]
	[ "$(steps run)" = $'0\t0' ]
	loop run --count outputs --outputs answers --rest --order file
	[ "$(wc -l <line)" -eq 3 ]
	rm run/answers/batch-000001.rf
	loop run --count outputs --outputs answers --rest --order file --batches 4
	[ "$(tail -n 2 line)" = $'1 run/step-000000\n3 run/step-000000' ]
	L="rf-ntp -m \"\$RUN\" corpus.rf" run -65 loop other --count outputs --outputs answers
	L=true run -70 loop third --count outputs --outputs answers
	[[ "$output" == *'the line did not write $OUTPUT'* ]]
	run -64 loop fourth --count outputs
	run -64 loop fourth --count outputs --outputs answers --after true
	# a run that counts commits cannot count outputs
	cp -r "$P/want" want2
	run -65 loop want2 --count outputs --outputs answers
}

@test "rf-loop: with --count outputs a run without --from has no steps, and a missing output is made again" {
	outputs() {
		rf-loop -m "$@" --data corpus.rf --batch 4 --batches 3 --count outputs --outputs answers -- \
			'echo $BATCH-$STEP$AT >>line; rf-cat --range $FROM:$TO -o "$OUTPUT" "$ORDER"'
	}
	mkdir folder
	touch folder/words
	outputs folder 2>said
	sed -i '1s/: echo.*//' said
	diff said - <<-'END'
		rf-loop: folder: batches 1 to 3 of 4 sequences each
		rf-loop: folder: batch 1 of 3, 0 s left
		rf-loop: folder: batch 2 of 3, 0 s left
		rf-loop: folder: batch 3 of 3, 0 s left
	END
	[ "$(ls folder | paste -sd' ')" = 'answers data words' ]
	[ "$(paste -sd' ' line)" = '0- 1- 2-' ]
	# each batch has its own time, also if later outputs exist
	rm folder/answers/batch-000001.rf
	outputs folder 2>/dev/null
	[ "$(tail -n 1 line)" = 1- ]
	[ "$(cut -f 1,2 folder/data/times.tsv | paste -sd' ')" = $'1\t0 2\t0 3\t0 2\t0' ]
	[ "$(awk '$3 <= 0' folder/data/times.tsv)" = '' ]
	# an output whose time was not recorded before a kill has a line, too
	rm folder/data/status
	sed -i '2,$d' folder/data/times.tsv
	rm folder/answers/batch-000002.rf
	outputs folder 2>/dev/null
	[ "$(sed -n 2p folder/data/times.tsv)" = $'2\t0\t0' ]
	run -65 outputs folder --seed 3
	[[ $output == *'(<) than now (>): use the same, or another run, or remove folder completely' ]]
	# without --count outputs the weights are needed
	says 64 'rf-loop: new: missing option: --from...' rf-loop -m new --data corpus.rf -- "$LINE"
}

@test "rf-loop: an epoch has every sequence at most once, and the next epoch has another order" {
	rf-cat --range 0:7 -o seven.rf corpus.rf
	export L='rf-cat --range $FROM:$TO "$ORDER" | tee batch-$BATCH.rf | rf-ntp -m "$RUN" --at $AT'
	export L="echo \$BATCHES >>said; $L"
	loop run --data seven.rf --batch 3 --batches 4 --seed 5
	[ "$(paste -sd' ' said)" = '4 4 4 4' ]
	ids() { for b in "$@"; do rf-dump --tsv --rows record --columns id --no-header batch-$b.rf; done; }
	[ "$(ids 0 1 | sort -u | wc -l)" -eq 6 ]
	[ "$(ids 2 3 | sort -u | wc -l)" -eq 6 ]
	[ "$(ids 0 1)" != "$(ids 2 3)" ]
	cmp run/data/epoch-1.rf <(rf-cat --shuffle --seed 5 --epoch 1 seven.rf)
	[ ! -e run/data/epoch-0.rf ]
	run -65 loop other --data seven.rf --batch 8
	[[ "$output" == *"seven.rf has 7 sequences, fewer than a batch of 8"* ]]
}

@test "rf-loop: more --batches continue the run; the same number or fewer change nothing and are reported" {
	loop run --batches 1
	loop run --batches 3
	same_as_want run
	cp -a run before
	run -0 loop run
	[ "$output" = "rf-loop: run: 3 of 3 batches are done" ]
	run -0 loop run --batches 2 --phase name
	[ "$output" = "rf-loop: name: 3 batches are done, more than the 2 asked for" ]
	diff -r before run
}

@test "rf-loop: a run may have any name, with blanks, wildcards, backslashes or a dash in front" {
	loop w1 --batches 1
	for name in 'w[1]' "-r7 it's \$HOME\\" deep/er/run ${RF_ALL:+'a b' 'w\' -r7}; do
		loop "$name" --batches 1
		loop "$name" --batches 3 --keep-streams
		same_as_want "./$name"
		[ "$(wc -l <"./$name/data/times.tsv")" -eq 3 ]
	done
	run -65 loop 'w[1]' --batches 4 --seed 5
	[ "$(steps 'w[1]')" = $'6\t3' ]
	[ "$(steps w1)" = $'2\t1' ]
}

@test "rf-loop: missing or wrong arguments are named in the error, and no run is made" {
	rf-init --from ckpt old
	while IFS='|' read -r status message words; do
		eval "run -$status rf-loop $words"
		[[ "$output" == "rf-loop: "*"$message"* ]] || { echo "$words: $output"; return 1; }
	done <<-'END'
		64|missing option: -m run|--data corpus.rf -- line
		64|missing option: --data file|-m run -- line
		64|missing argument: the line to run, after --|-m run --data corpus.rf
		64|unexpected argument after the line: quote the line|-m run --data corpus.rf -- rf-ntp -m x
		64|missing option: --from model|-m run --data corpus.rf -- line
		64|'0' is not a whole number from 1|-m run --data corpus.rf --batch 0 -- line
		66|nothing: |-m run --data corpus.rf --from nothing -- line
		66|nothing.rf: No such file or directory|-m run --data nothing.rf --from ckpt -- line
		65|ckpt: it exists but is not a run|-m ckpt --data corpus.rf --from ckpt -- line
		64|and the run itself is what is trained: -m old|-m old/latest --data corpus.rf -- line
	END
	[ ! -e run ]
	[ ! -e ckpt/data ]
}

@test "rf-loop: the loop exits with the status of a failed stage and writes it to data/status" {
	L='exit 3' run -3 loop run
	[[ "$output" == *"rf-loop: run: batch 1: a stage failed with status 3" ]]
	[ "$(cat run/data/status)" = $'3\tbatch 1: a stage failed with status 3' ]
	L='bash -c "kill -9 \$\$" | cat' run -137 loop other
	L='no-such-program' run -127 loop third
	[[ "$output" == *"batch 1: a stage failed with status 127: a command was not found"* ]]
	# there is no data/status while a loop works, nor after it was killed
	L=$(waiting) begin run
	until_true test -e here
	[ ! -e run/data/status ]
	kill -9 "$(holder run)"
	wait "$shell" || true
	[ ! -e run/data/status ]
}

@test "rf-loop: a line that commits nothing or twice, or an --after that commits or removes, is an error" {
	L='rf-cat "$ORDER" >/dev/null' run -70 loop run
	[[ "$output" == *"batch 1: no stage failed, but the line did not train the run"* ]]
	L='rf-cat --range 0:2 "$ORDER" | rf-ntp -m "$RUN"; rf-cat --range 0:2 "$ORDER" | rf-ntp -m "$RUN"' \
		run -70 loop twice
	[[ "$output" == *"batch 1: more than one commit was made"* ]]
	run -70 loop after --after 'rf-cat --range 0:2 corpus.rf | rf-ntp -m "$RUN"'
	[[ "$output" == *"batch 1 is done, but the command after it (--after) committed to the run,"* ]]
	for command in 'rm -r "$STEP"' 'rm -r "$RUN"' 'mv "$RUN" "$RUN.moved"'; do
		rm -rf gone
		run -65 loop gone --after "$command"
		what='the command after it (--after) removed what it had made: gone is'
		[[ "$output" == *"batch 1 was done, but $what"* ]]
	done
}

@test "rf-loop: --after runs once after each commit, and again at the next start if it did not succeed" {
	run -5 loop run --after 'echo $AT >>seen; exit 5'
	[[ "$output" == *"(--after, EVAL or AFTER of a pipeline) failed with status 5"* ]]
	[ "$(steps run)" = $'2\t1' ]
	loop run --after 'echo $AT >>seen'
	[ "$(paste -sd' ' seen)" = "2 2 4 6" ]
	[ "$(cut -f 1 run/data/after)" -eq 3 ]
	loop run --after 'echo $AT >>seen'
	[ "$(wc -l <seen)" -eq 4 ]
	# the loop is killed while --after of the last batch runs
	begin other --batches 1 --after 'echo $AT >>killed; until [ -e go ]; do sleep .02; done'
	until_true test -s killed
	kill -9 "$(holder other)"
	wait "$shell" || true
	touch go
	loop other --batches 1 --after 'echo $AT >>killed'
	[ "$(paste -sd' ' killed)" = "2 2" ]
}

@test "rf-loop: a start removes a file stop that is older than the start, reports it and goes on" {
	loop run --batches 1
	touch run/stop
	run -0 loop run --batches 2
	said="rf-loop: run: the run's file 'stop' is older than this start and was removed: the loop goes on"
	[ "${lines[0]}" = "$said" ]
	[[ "$output" == *'batch 2 of 2, '* ]]
	[ ! -e run/stop ]
}

@test "rf-loop: a file stop that appears while --make runs ends the loop before its first batch" {
	run -75 loop run --data run/data/own.rf --make 'touch "$RUN/stop"; rf-cat -o "$DATA" corpus.rf'
	[[ "$output" == *"0 of 3 batches are done: stopped, as the run's file 'stop' asked"* ]]
	[ ! -e run/stop ]
	loop run --data run/data/own.rf --make 'touch "$RUN/stop"; rf-cat -o "$DATA" corpus.rf'
	[ "$(wc -l <run/data/times.tsv)" -eq 3 ]
}

@test "rf-loop: data that do not fit the model are refused before the first batch" {
	jq '.vocab_size = 200' "$P/config.json" >small.json
	rf-init --config small.json --seed 1 small
	run -65 loop run --from small
	[ "$output" = "rf-loop: run: corpus.rf does not fit small: the stream has a vocabulary of 384, but \
the model only of 200" ]
	[ ! -e run ]
	# data that --make makes are checked when they are made
	run -65 loop run --from small --data run/data/own.rf --make 'rf-cat -o "$DATA" corpus.rf'
	[[ "$output" == *'own.rf does not fit small: '* ]]
	rm -r run
	loop run --data run/data/own.rf --make 'rf-cat -o "$DATA" corpus.rf'
	same_as_want run
}

@test "rf-loop: SIGTERM, SIGINT or SIGHUP ends the whole pipeline once and leaves the run's steps unchanged" {
	for signal in TERM INT HUP; do
		rm -rf run here
		L='trap "echo end >>ends" TERM; touch here; sleep 1000 & wait; wait; sleep .2; exit 9' begin \
			run
		until_true test -e here
		kill -$signal "$(holder run)"
		ends_with $((128 + $(kill -l $signal)))
		[ "$(tail -n 1 err)" = "rf-loop: run: interrupted: the same command continues from here" ]
		[ "$(steps run)" = $'0\t0' ]
		[ "$(cut -f 1 run/data/status)" -eq $((128 + $(kill -l $signal))) ]
		[ "$(cat ends)" = end ]
		until_true none_of "$shell"
		rm ends
	done
}

@test "rf-loop: a second SIGTERM kills processes that ignore the first" {
	L='trap "" TERM; touch here; sleep 1000; sleep 1000' begin run
	until_true test -e here
	loop=$(holder run)
	kill -TERM "$loop"
	sleep 1.1
	[ -e "/proc/$loop" ]
	kill -TERM "$loop"
	ends_with 143
	until_true none_of "$shell"
}

@test "rf-loop: goes on after SIGHUP if it was started under nohup" {
	L=$(waiting)
	export L
	(
		trap '' HUP
		exec setsid rf-loop -m run --from ckpt --data corpus.rf --batches 1 --batch 4 \
			-- "$L" 2>err 3>&-
	) &
	shell=$!
	until_true test -e here
	kill -HUP "$(holder run)"
	touch go
	ends_with 0
}

@test "rf-loop: stopping and continuing the loop stops and continues its pipeline" {
	L=$(waiting) begin run
	until_true test -e here
	loop=$(holder run)
	stage=$(pgrep -P "$loop" -x bash)
	for signal in TSTP TSTP; do
		kill -$signal "$loop"
		until_true in_state "$loop" T
		until_true in_state "$stage" T
		kill -CONT "$loop"
		until_true in_state "$stage" S
	done
	# a loop that is stopped obeys SIGTERM once it continues
	kill -TSTP "$loop"
	until_true in_state "$stage" T
	kill -TERM "$loop"
	kill -CONT "$loop"
	ends_with 143
	until_true none_of "$shell"
	touch go
	loop run
	same_as_want run
}

@test "rf-loop: killing the loop, running or stopped, ends its pipeline" {
	for how in KILL 'TSTP KILL'; do
		rm -f here
		L=$(waiting) begin run
		until_true test -e here
		loop=$(holder run)
		stage=$(pgrep -P "$loop" -x bash)
		for signal in $how; do
			kill -$signal "$loop"
			[ $signal = KILL ] || until_true in_state "$stage" T
		done
		wait "$shell" || true
		until_true none_of "$shell"
	done
	touch go
	loop run
	same_as_want run
}

@test "rf-loop: a start waits for processes that outlived a killed loop, and counts their commits" {
	for end in true false; do
		rm -rf run here go
		export L='touch here; until [ -e go ]; do sleep .02; done; '$end' && '$LINE
		begin run
		until_true test -e here
		loop=$(holder run)
		kill -9 "$(guard run)"
		kill -9 "$loop"
		wait "$shell" || true
		# a start with other settings waits, too
		begin run --seed 1
		until_true err_has \
			'rf-loop: run: a loop that has ended left processes behind: waiting until they end'
		touch go
		ends_with 65
		err_has 'run/data/words: the run was started with other settings'
		if $end; then
			[ "$(steps run)" = $'2\t1' ]
			loop run
			same_as_want run
		fi
	done
}

@test "rf-loop: a second loop on a run exits 75 and names the first, or with --wait waits for its end" {
	L=$(waiting) begin run
	until_true test -e here
	loop=$(holder run)
	run -75 loop run
	said="another loop, process $loop, is working on the run"
	[ "$output" = "rf-loop: run: $said: try again when it has ended (rf-loop --wait waits)" ]
	[ ! -e run/data/status ]
	[ "$(holder run)" -eq "$loop" ]
	first=$shell
	cp err err.first
	L=$(waiting) begin run --wait
	until_true err_has "rf-loop: run: $said: waiting until it ends"
	touch go
	ends_with 0
	wait "$first"
	[ "$(tail -n 1 err)" = "rf-loop: run: 3 of 3 batches are done" ]
	same_as_want run
}

@test "rf-loop: exits 75 while a trainer started by hand works on the run, and then refuses its commit" {
	L=false run -1 loop run
	rf-cat --range 0:4 corpus.rf >four.rf
	{ until [ -e go ]; do sleep .05; done; cat four.rf; } | rf-ntp -m run --at 0 3>&- &
	taken run/.lock
	run -75 loop run
	[[ "$output" == *"batch 1: a stage failed with status 75"* ]]
	touch go
	wait $!
	[ "$(steps run | cut -f 2)" -eq 1 ]
	run -65 loop run
	[[ "$output" == *"the run: it has 1 commits, and the loop made only the first 0"* ]]
}

@test "rf-loop: --len warns if the sequences of the first batch are short, and changes nothing else" {
	rf-tokenize --bytes --format text -o data.rf <(head -c 39 "$ROOT/README.md") \
		<(head -c 60 "$ROOT/README.md") 2>/dev/null
	# the sequences have 40 and 61 tokens with their end tokens: the mean is 50.5
	said='the sequences of the first batch have 50 tokens on average, less than half of'
	run -0 loop a --data data.rf --batch 2 --len 102 --len-advice 'do this'
	[ "$(grep -cxF "rf-loop: a: $said 102 (do this)" <<<"$output")" = 1 ]
	[ "$(grep -nF "$said" <<<"$output" | cut -d: -f1)" -lt \
		"$(grep -n 'batch 1 of 3' <<<"$output" | cut -d: -f1)" ]
	run -0 loop b --data data.rf --batch 2 --batches 1
	for words in '' '--len 102'; do
		run -0 loop b --data data.rf --batch 2 $words
		[[ "$output" != *'on average'* ]]
	done
	same_run a b
	run -0 loop c --data data.rf --batch 2 --batches 1 --len 101
	[[ "$output" != *'on average'* ]]
	run -0 loop d --data data.rf --batch 2 --batches 1 --len 2000
	[ "$(grep -cxF "rf-loop: d: $said 2000" <<<"$output")" = 1 ]
	run -64 loop e --len-advice x
	[[ "$output" == *'--len-advice requires --len'* ]]
}

@test "rf-loop: a start with other settings is refused, and the message shows what differs" {
	loop run --batches 1
	while IFS='|' read -r shown words; do
		eval "run -65 loop run --batches 2 $words"
		[[ "$output" == *"> $shown"* ]] || { echo "$words: $output"; return 1; }
		[[ "$output" == \
			*"run/data/words: the run was started with other settings or data (<) than now"* ]]
	done <<-'END'
		seed=7|--seed 7
		batch=5|--batch 5
		from=run|--from run
		make=true|--make true
		words=text|--words text
		data=./corpus.rf|--data ./corpus.rf
	END
	L="$LINE;" run -65 loop run --batches 2
	[[ "$output" == *"> line=$LINE;"* ]]
	rf-cat --range 0:9 -o short.rf corpus.rf
	mv short.rf corpus.rf
	run -65 loop run --batches 2
	[[ "$output" == *"> sequences=9"*"> hash="* ]]
	[ "$(steps run)" = $'2\t1' ]
	cp "$P/corpus.rf" .
	# these options are not part of the run's settings
	loop run --batches 2 --keep-streams --after true --phase x --wait --len 99
	# the settings are compared even if the trained steps were removed
	rm -r run/step-00000[1-9]
	ln -sfn step-000000 run/latest
	run -65 loop run --seed 7
}

@test "rf-loop: if a setting has several lines, the message shows only the lines that differ" {
	loop run --batches 1 --words $'one\ntwo\nthree'
	run -65 loop run --words $'one\n2\nthree'
	[ "$(grep -c '^rf-loop: run: [<>] ' <<<"$output")" -eq 2 ]
	[[ "$output" == *'run: <  two'*'run: >  2'* ]]
}

@test "rf-loop: settings may change before the first batch if nothing was prepared with the old settings" {
	mv corpus.rf source.rf
	run -7 loop run --seed 7 --make 'exit 7'
	L=false run -1 loop run --make 'rf-cat -o "$DATA" source.rf'
	cp -a run before
	for words in '--seed 7' '--from run' '--order file' '--data source.rf' '--make true'; do
		L=false run -65 loop run --make 'rf-cat -o "$DATA" source.rf' $words
		[[ "$output" == *"run/data/words: the run was started with other settings"* ]]
	done
	rm before/data/status run/data/status
	diff -r before run
	cmp corpus.rf source.rf
	loop run --make 'rf-cat -o "$DATA" source.rf' --words other
	same_as_want run
}

@test "rf-loop: --from is not needed for a run that exists" {
	again() { rf-loop -m run --data corpus.rf --batches 3 --batch 4 "$@" -- "$L"; }
	export L="[ -e go ] && { $LINE; }"
	run -64 again
	run -1 loop run
	run -1 again
	touch go
	again
	same_as_want run
	run -65 again --seed 7
}

@test "rf-loop: refuses another program's commit after its own, but counts a commit made before its first" {
	loop run --batches 2
	rf-cat --range 0:4 corpus.rf >four.rf
	rf-ntp -m run four.rf
	run -65 loop run --batches 4
	said='run: another program has committed to the run: it has 3 commits, '
	said+='and the loop made only the first 2, up to step 4'
	[[ "$output" == *"$said: remove the steps after that one"* ]]
	rm -r run/step-000005
	loop run --batches 3
	same_as_want run
	# a second trainer runs after the line's trainer, as --after
	run -70 loop two --after 'rf-ntp -m "$RUN" four.rf'
	run -65 loop two
	[[ "$output" == *"it has 2 commits, and the loop made only the first 1, up to step 2"* ]]
	# a run that was trained before is continued, and a message says so
	rf-init --from ckpt hand
	rf-ntp -m hand four.rf
	run -0 loop hand --batches 2
	[[ "$output" == *"hand: the run has 1 commit that no loop made: it counts as a batch"* ]]
}

@test "rf-loop: --data must be a regular file, and not a file that the loop itself writes" {
	mkdir -p run/data
	cp corpus.rf run/data/epoch-0.rf
	run -64 loop run --data run/data/epoch-0.rf
	said="run/data/epoch-0.rf: data of this name are the loop's own in RUN/data: give them another"
	[[ "$output" == *"$said"* ]]
	cmp corpus.rf run/data/epoch-0.rf
	run -64 loop other --data <(cat corpus.rf)
	[[ "$output" == *"--data must be a regular file"* ]]
	[ ! -e other ]
	run -64 rf-loop -m other --from ckpt --data corpus.rf -- ''
	[ "$output" = "rf-loop: the line after -- is empty (try --help)" ]
}

@test "rf-loop: a file made by --make that is not a stream is refused; if it is removed, it is made again" {
	mv corpus.rf source.rf
	run -65 loop run --make 'echo hello >"$DATA"'
	[[ "$output" == *"corpus.rf: not an rf stream"* ]]
	rm corpus.rf
	loop run --make 'rf-cat -o "$DATA" source.rf'
	same_as_want run
}

@test "rf-loop: refuses to continue if the data change while the loop works" {
	rf-cat --range 0:8 corpus.rf >eight.rf
	rf-cat --range 8:16 corpus.rf >others.rf
	cp eight.rf data.rf
	L="[ \$BATCH != 1 ] || cp others.rf data.rf; $LINE" run -65 loop run --data data.rf --batches 4
	[[ "$output" == *"data.rf: the data has changed since the run was started"* ]]
	[ "$(steps run)" = $'4\t2' ]
}

@test "rf-loop: refuses extra commits at every start, but a batch counts if its line fails after committing" {
	loop run --batches 1
	rf-cat --range 0:4 corpus.rf >four.rf
	rf-ntp -m run four.rf
	for _ in 1 2 3; do run -65 loop run; done
	twice='n=1; [ -e flag ] || { touch flag; n=2; }
		for i in $(seq $n); do rf-cat --range $FROM:$TO "$ORDER" | rf-ntp -m "$RUN"; done'
	L=$twice run -70 loop two
	for _ in 1 2; do
		L=$twice run -65 loop two
		[[ "$output" == *"it has 2 commits, and the loop made only the first 0"* ]]
	done
	# but if a line fails after its commit, the batch is done
	L="$LINE; exit 9" run -9 loop late
	L="$LINE; exit 9" run -9 loop late
	L="$LINE; exit 9" run -9 loop late
	same_as_want late
}

@test "rf-loop: refuses an epoch file in RUN/data without data/words, and leaves other files unchanged" {
	rf-init --from ckpt run
	mkdir run/data
	cp corpus.rf run/data/epoch-0.rf
	run -65 loop run
	said='RUN/data/words, which says to which data this file belongs, is missing: move the file away'
	[[ "$output" == *"run/data/epoch-0.rf: $said"* ]]
	mv run/data/epoch-0.rf run/data/epoch-valid.rf
	loop run
	cmp corpus.rf run/data/epoch-valid.rf
}

@test "rf-loop: --words with the same lines in another order or number are other settings" {
	loop run --words $'a\nb\nc' --batches 1
	for words in $'a\nc\nb' $'a\nb\nc\nc'; do
		run -65 loop run --words "$words"
		[[ "$output" == *"run: > the same lines, in another order or number"* ]]
	done
	loop run --words $'a\nb\nc'
	same_as_want run
}

# on_terminal LINE: runs rf-loop with this line on a terminal, and prints its output and status; script(1)
# starts commands with the shell that SHELL names
on_terminal() {
	L=$1 SHELL=/bin/bash timeout 60 script -qec 'stty tostop
		timeout --foreground 20 rf-loop -m run --from ckpt --data corpus.rf --batches 3 --batch 4 \
			-- "$L"
		echo status $?' /dev/null </dev/null
}

@test "rf-loop: a command that reads the terminal is ended with a message, but commands may write to it" {
	command -v script >/dev/null || skip "no script(1)"
	run -0 on_terminal 'read -r word </dev/tty; true'
	said='tried to read from the terminal, which no command may: give it its input in a file or in'
	[[ "$output" == *"$said"*'status 143'* ]]
	run -0 on_terminal 'echo said by a stage >/dev/tty; false'
	[[ "$output" == *'said by a stage'*'status 1'* ]]
}

@test "rf-loop: only the current epoch's order of the data is kept; files of other names stay" {
	loop run --batches 1
	touch run/data/epoch-{7,12}.rf run/data/epoch-notes
	loop run
	[ "$(cd run/data && echo epoch-*)" = 'epoch-0.rf epoch-notes' ]
}

@test "rf-loop: --make runs only if the data are missing, and must make the same data again" {
	mv corpus.rf source.rf
	make='echo made >>made; rf-cat -o "$DATA" source.rf'
	loop run --make "$make" --batches 1
	loop run --make "$make"
	[ "$(cat made)" = made ]
	same_as_want run
	# data that are made again must be the same as before
	rm corpus.rf
	loop run --make "$make" --batches 4
	[ "$(wc -l <made)" -eq 2 ]
	rf-cat --range 0:9 -o source.rf corpus.rf
	rm corpus.rf
	run -65 loop run --make "$make" --batches 5
	[[ "$output" == *"> sequences=9"* ]]
	rm corpus.rf
	run -7 loop other --make 'exit 7'
	[[ "$output" == *"making the data (--make, TOKENIZE of a pipeline) failed with status 7"* ]]
	run -66 loop other --make true
	[[ "$output" == *"corpus.rf: the command of --make succeeded but did not create this file"* ]]
}

@test "rf-loop: refuses data that are damaged or not a stream" {
	head -c -1 corpus.rf >cut.rf
	run -65 loop run --data cut.rf
	[[ "$output" == *"cut.rf: "*truncated* ]]
	echo text >text.rf
	run -65 loop run --data text.rf
	[[ "$output" == *"text.rf: not an rf stream"* ]]
}

@test "rf-loop: if the newest step was removed, the loop goes on from the newest remaining step" {
	loop run
	rm -r run/step-000006
	run -0 loop run
	[[ "$output" == *"the newest step is step-000004"* ]]
	same_as_want run
}

@test "rf-loop: while a line runs, neither the loop nor its guard uses processor time" {
	L=$(waiting) begin run
	until_true test -e here
	loop=$(holder run) guard=$(guard run)
	until_true in_state "$loop" S
	switches() { awk '/ctxt/ { n += $2 } END { print n }' "/proc/$1/status"; }
	before=$(switches "$loop"),$(switches "$guard")
	sleep 2
	[ "$(switches "$loop"),$(switches "$guard")" = "$before" ]
	touch go
	ends_with 0
}

@test "rf-loop: the time left is estimated from the last batches, also of earlier loops, without outliers" {
	export L='[ $BATCH -lt $MAX ] && '$LINE
	MAX=1 run -1 loop run --batches 22
	for s in 60 60 60 100000 60 60 60 60; do printf '1\t2\t%d000000\n' $s >>run/data/times.tsv; done
	MAX=2 run -1 loop run --batches 22
	[[ "$output" == *"rf-loop: run: batch 2 of 22, step 4, loss "*", 20 min left"* ]]
	printf '2\t60000000\n' >run/data/after
	MAX=3 run -1 loop run --batches 22 --after 'true'
	[[ "$output" == *"rf-loop: run: batch 3 of 22, step 6, loss "*", 38 min left"* ]]
	for s in 1 2 3 4 5; do printf '1\t2\t720000000\n' >>run/data/times.tsv; done
	MAX=4 run -1 loop run --batches 22
	[[ "$output" == *"batch 4 of 22, step 8, loss "*", 3 h 36 min left"* ]]
}

@test "rf-loop: a batch waits for background processes of its line, except those in another session" {
	L="$LINE; { sleep .3; echo late >>late; } & setsid sleep 1000 3>&- & echo \$! >>own" loop \
		run --batches 2
	[ "$(wc -l <late)" -eq 2 ]
	kill $(cat own)
}

# traced OPTION... -- RUN WORD...: runs the loop under strace, which does not follow its child processes
traced() {
	local options=()
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	timeout 60 strace -qq -o trace "${options[@]}" \
		rf-loop -m "$2" --from ckpt --data corpus.rf --batches 2 --batch 4 "${@:3}" -- "$LINE"
}

# at_each_call SIGNAL WORD...: sends the signal to a loop with these options at each of its system calls in
# turn, or at some of them.  The function `prepare` makes the run that each loop starts from.  After the
# signal the same command must continue the run to the bytes of `want`.
at_each_call() {
	local n status calls signal=$1 every=96
	[ -z "${RF_ALL:-}" ] || every=1
	shift
	prepare
	traced -- run "$@" 2>/dev/null || { head -n 1 trace; skip "strace is not allowed here"; }
	calls=$(wc -l <trace)
	[ "$calls" -gt 200 ]
	for ((n = 1 + RANDOM % every; n <= calls; n += every)); do
		prepare
		status=0
		traced -e inject=all:signal=$signal:when=$n -- run "$@" 2>err || status=$?
		case $signal-$status in
		*-0 | TERM-143 | KILL-137) ;;
		*) echo "call $n of $calls: status $status"; cat err; return 1 ;;
		esac
		timeout 20 bash -c 'loop "$@"' _ run "$@" 2>err ||
			{ echo "call $n of $calls"; cat err; return 1; }
		same_as_want run || { echo "call $n of $calls"; return 1; }
	done
}

@test "rf-loop: after SIGTERM or SIGKILL at any system call, the same command makes the same bytes" {
	loop first --batches 1
	prepare() { rm -rf run; cp -a first run; }
	at_each_call TERM
	at_each_call KILL
}

@test "rf-loop: a loop that is killed, interrupted or stopped at random loses no batch and repeats none" {
	[ -n "${RF_ALL:-}" ] && times=1000 || times=5
	run -0 python3 "$ROOT/t/helper/kills.py" $times "$RANDOM"
	[ "$output" = "$times kills" ]
}

@test "rf-loop: --epochs and --batches refuse data with fewer sequences than a batch" {
	rf-cat --range 0:3 -o few.rf corpus.rf
	for how in '--epochs 1' '--batches 1'; do
		run -65 --separate-stderr rf-loop -m few --from ckpt --data few.rf $how --batch 10 -- false
		[[ $stderr == *"few.rf has 3 sequences, fewer than a batch of 10 (--batch): give "* ]]
	done
}

# A line that divides its range into batches and commits each; it obeys RUN/stop as rf-step does.
many='for ((i = FROM; i < TO; i += SIZE)); do
	rf-cat --range $i:$((i + SIZE < TO ? i + SIZE : TO)) "$ORDER" |
		rf-ntp -m "$RUN" --mini-batch 2 --log "$RUN/log.jsonl" </dev/stdin || exit
	[ ! -e "$RUN/stop" ] || exit 75
done'

@test "rf-loop: --many runs one line for all remaining batches of an epoch, and records each commit" {
	# an epoch has five batches
	rf-cat --range 0:22 -o few.rf corpus.rf
	mv few.rf corpus.rf
	loop want --batches 3 2>/dev/null
	export L='echo "$FROM $TO $SIZE $BATCH $COMMIT_EVERY" >>line
		cat "$RUN/data/line" >>line || true; '$many
	loop run --batches 3 --many --commit-every 10m 2>said
	[ "$(paste -sd' ' line)" = $'0 12 4 0 10m 0\t3' ]
	same_run run want
	[ ! -e run/data/line ]
	[ "$(tail -n 1 run/data/times.tsv | cut -f 1,2)" = $'3\t6' ]
	grep -q 'batch 3 of 3, step 6, loss ' said
	# without --many the loop continues a run made with --many, and the reverse
	loop run --batches 4
	loop run --batches 7 --many
	[ "$(tail -n +3 line | cut -d ' ' -f 1-3 | paste -sd' ')" = $'12 16 4 16 20 4 4\t5 0 8 4 5\t7' ]
	# with --after a line ends at each commit
	L='echo "$FROM $TO" >>ends; '$many loop b --batches 5 --many --commit-every 2 \
		--after 'echo "$AT" >>after'
	[ "$(paste -sd' ' <(cat ends after))" = '0 8 8 16 16 20 4 8 10' ]
	run -64 loop c --many --commit-every 10m --after true
	[[ "$output" == *'--after and --many require --commit-every to be a number of batches'* ]]
	run -64 loop c --commit-every 2
	[[ "$output" == *'--commit-every requires --many'* ]]
	run -64 loop c --many --count outputs --outputs o
	[[ "$output" == *'--many cannot be combined with --count outputs'* ]]
	[ ! -e c ]
}

@test "rf-loop: --many reports each commit while its line runs, and keeps streams in a folder" {
	L='echo "$STREAM" >>line; '${many/rf-cat/sleep 1.2; rf-cat}
	loop run --many --keep-streams 2>said
	[ "$(cat line)" = run/streams ]
	[ "$(grep -c 'batch [123] of 3, step [246], loss ' said)" -eq 3 ]
	[ "$(cut -f 1,2 run/data/times.tsv | paste -sd' ')" = $'1\t2 2\t4 3\t6' ]
	same_as_want run
}

@test "rf-loop: --many exits 75 if its line obeyed RUN/stop, and fails if the line trained fewer batches" {
	L='[ "$BATCH" -gt 0 ] || touch "$RUN/stop"; '$many
	run -75 loop run --many
	[[ "$output" == *"1 of 3 batches are done: stopped, as the run's file 'stop' asked"* ]]
	[ ! -e run/stop ]
	loop run --many
	same_as_want run
	L="TO=8; $many" run -70 loop short --many
	[[ "$output" == *'had batches 1 to 3 (rf-step --batch $SIZE), trained 2 of them'* ]]
}

@test "rf-loop: --many counts the batches of a line that was killed, but not another program's commit" {
	export L=${many/done/'[ ! -e cut ] || [ "$i" -lt 4 ] ||
		kill -9 $(cut -d " " -f 1 "$RUN/data/.lock")'$'\ndone'}
	touch cut
	run -137 bash -c 'loop run --many'
	[ "$(cat run/data/line)" = $'0\t3' ]
	rm cut
	cp -r run other
	loop run --many --wait
	same_as_want run
	[ ! -e run/data/line ]
	# the commits of the recorded line begin after this commit
	printf '5\t9\n' >other/data/line
	rf-cat --range 0:4 corpus.rf | rf-ntp -m other --mini-batch 2
	run -65 loop other --many --wait
	[[ "$output" == *'another program has committed to the run'* ]]
}
