#!/usr/bin/env bats
# Long-lived pipelines: programs that are started once for many batches, and hand on weights in memory.

# A make of a test is nobody's child: the words of make check are none of the pipelines'.
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES
export RF_DEVICE=cpu RF_DTYPE=f32

setup_file() {
	load helper
	load ranks
	export P=$BATS_FILE_TMPDIR
	tiny_model_and_text
	rf-cat --range 0:22 -o "$P/some.rf" "$P/text.rf"
	rf-cat --repeat ${RF_ALL:+9}10 -o "$P/many.rf" "$P/some.rf"
}
setup() {
	load helper
	load ranks
	LIVE=$BATS_TEST_TMPDIR/live
}
# Removes the folders in memory that a test made.
teardown() { [ -z "${name:-}" ] || rm -rf "$name" "$name"-*; }
runs() { for run; do rf-init --from "$P/ckpt" "$run"; done; }

optimizer='--mini-batch 3 --lr 1e-3'
# each RUN A:B SIZE [OPTION...]: a line for each batch of so many records of these
each() {
	local from=${2%:*} to=${2#*:} step at
	mkdir -p "$1/streams"
	for ((; from < to; from += $3)); do
		step=$(readlink "$1/latest")
		at=$((10#${step#step-}))
		rf-cat --range "$from:$((from + $3 < to ? from + $3 : to))" "$P/some.rf" |
			rf-entropy -m "$1" | rf-select --chunks 2 | rf-rollout -m "$1" -n 2 | rf-reward |
			rf-grpo -m "$1" $optimizer --at $at --log "$1/log" -o "$1/streams/$step.rf" "${@:4}"
	done
}
# long RUN A:B SIZE [OPTION...]: one line for all of them.  FOLLOW, FIRST, TRAIN, THROUGH: other words of it
long() {
	mkdir -p "$1/streams"
	local commits follow=${FOLLOW:---follow --follow-timeout 30}
	commits=$(jq .commits "$1/latest/state.json")
	rf-cat --range "$2" --batch "$3" --first-batch "${FIRST:-$commits}" "$P/some.rf" |
		rf-entropy -m "$LIVE" $follow | through rf-select --chunks 2 --follow |
		rf-rollout -m "$LIVE" -n 2 $follow | rf-reward --follow |
		rf-grpo -m "$1" $optimizer --live "$LIVE" --follow-timeout 30 --log "$1/log" \
			-o "$1/streams" "${@:4}"
}
same_logs() { diff <(figures "$1/log") <(figures "$2/log"); }
# through COMMAND...: what it writes goes through THROUGH, if there is one
through() { if [ "${THROUGH:-}" ]; then "$@" | $THROUGH; else exec "$@"; fi; }
# mark I TYPE KEY NUMBER: one of a long stream
mark() {
	local text
	printf -v text '\\x93\\x%02x\\xa%d%s\\x81\\xa%d%s\\x%02x' "$1" ${#2} "$2" ${#3} "$3" "$4"
	printf '%b' "$text" >mark
	zstd -q --stream-size="$(stat -c %s mark)" <mark
}

@test "live: one line for many batches ends at the bytes of a line for each: run, log and streams" {
	runs a b c
	each a 0:22 5 --keep 9
	for every in 1 2 10m; do
		rm -rf b
		runs b
		long b 0:22 5 --commit-every $every --keep 9
		diff -r a/latest/ b/latest/
		diff -r a/streams b/streams
		same_logs a b
		[ ! -e "$LIVE" ]
		case $every in
		1)
			diff -r <(cd a && ls) <(cd b && ls)
			diff -r a/step-000006 b/step-000006
			;;
		2)
			[ "$(cd b && echo step-*)" = "step-000000 step-000004 step-000008 step-000009" ]
			diff -r a/step-000004 b/step-000004
			;;
		*) [ "$(cd b && echo step-*)" = 'step-000000 step-000009' ] ;;
		esac
	done
	# in pieces, and one of them by a line for each
	long c 0:10 5 --commit-every 9
	each c 10:15 5
	long c 15:22 5 --commit-every 9
	diff -r a/latest/ c/latest/
	same_logs a c
}

@test "live: next tokens too, with other models, by a trainer alone" {
	for type in gated_deltanet lact_swiglu; do
		rf-init --seed 2 --config "$ROOT/pipelines/demo-$type.json" --tokenizer bytes ckpt
		rm -rf a b
		for run in a b; do rf-init --from ckpt "$run"; done
		for at in 0 2; do
			rf-cat --range $((at * 2)):$((at * 2 + 4)) "$P/some.rf" |
				rf-ntp -m a --mini-batch 2 --at $at --log a/log
		done
		rf-cat --range 0:8 --batch 4 "$P/some.rf" |
			rf-ntp -m b --mini-batch 2 --live "$LIVE" --log b/log
		diff -r a/latest/ b/latest/
		same_logs a b
		rm -r ckpt
	done
}

@test "live: rewards by a command of your own, which is started for each batch" {
	runs a b
	way() { rf-cat --range "$@" "$P/some.rf"; }
	reward='sed -u 1d | jq -c --unbuffered "{id: .body.id, total: (.body.rollout.tokens.data as \$t
		| .body.rollout.tokens.shape as \$s | [range(\$s[0]) as \$i | [range(\$s[1]) as \$j
		| \$t[(\$i * \$s[1] + \$j) * \$s[2]]]])}"'
	for k in 0 1 2; do
		way $((k * 4)):$((k * 4 + 4)) | rf-entropy -m a | rf-select --chunks 2 |
			rf-rollout -m a -n 2 | rf-reward --exec "$reward" | rf-grpo -m a $optimizer
	done
	way 0:12 --batch 4 | rf-entropy -m "$LIVE" --follow | rf-select --chunks 2 --follow |
		rf-rollout -m "$LIVE" -n 2 --follow | rf-reward --follow --exec "echo x >>started; $reward" |
		rf-grpo -m b $optimizer --live "$LIVE"
	diff -r a/latest/ b/latest/
	[ "$(wc -l <started)" -eq 3 ]
}

@test "live: rf-cat among the programs that follow does to each batch what it does to a stream" {
	rf-tokenize --bytes --prompt-key a --answer-key b -o asked.rf <<-'END'
		{"a": "one and two", "b": "three"}
		{"a": "four and five", "b": "six"}
		{"a": "seven and eight", "b": "nine"}
	END
	rf-cat --range 0:3 --batch 2 --first-batch 5 asked.rf | rf-cat --part prompt --follow >got.rf
	{
		mark 0 batch number 5
		rf-cat --range 0:2 asked.rf | rf-cat --part prompt
		mark 1 batch number 6
		rf-cat --range 2:3 asked.rf | rf-cat --part prompt
		mark 2 close count 2
	} >want.rf
	cmp <(zstd -dc want.rf) <(zstd -dc got.rf)
	run -64 rf-cat --follow --shuffle got.rf
	run -65 rf-cat --follow asked.rf
}

@test "live: a long stream whose marks, counts or batches are not what they must be is refused with 65" {
	for k in 0 1; do rf-cat --range $k:$((k + 1)) -o $k.rf "$P/some.rf"; done
	selects() { rf-select --follow --mode uniform --chunks 1 -o out.rf in.rf; }
	{ mark 0 batch number 7; cat 0.rf; mark 1 batch number 8; cat 1.rf; mark 2 close count 2; } >in.rf
	selects
	while IFS='|' read -r made said; do
		eval "$made" >in.rf
		run -65 selects
		[[ "$output" == "rf-select: in.rf: $said"* ]] || { echo "$made: $output"; return 1; }
	done <<-'END'
		cat 0.rf|mark (byte 0): this is not a long stream, which begins with the mark of a batch
		mark 0 close count 0|the long stream has no batch
		mark 1 batch number 7|mark (byte 0): found mark 1 where mark 0 was expected
		mark 0 batch count 7|mark (byte 0): the mark has no 'number'
		{ mark 0 batch number 7; cat 0.rf; }|mark (byte
		{ mark 0 batch number 7; cat 0.rf; mark 1 batch number 9; cat 1.rf; }|mark (byte
		{ mark 0 batch number 7; cat 0.rf; mark 1 batch number 7; cat 1.rf; }|mark (byte
		{ mark 0 batch number 7; cat 0.rf; mark 2 batch number 8; cat 1.rf; }|mark (byte
		{ mark 0 batch number 7; cat 0.rf 1.rf; mark 1 close count 1; }|mark (byte
		{ mark 0 batch number 7; cat 0.rf; mark 1 close count 2; }|mark (byte
		{ mark 0 batch number 7; cat 0.rf; mark 1 close count 1; cat 1.rf; }|mark (byte
		{ mark 0 batch number 7; mark 1 batch number 8; cat 0.rf; }|batch 7, head (byte
		{ mark 0 batch number 7; head -c 200 0.rf; mark 1 close count 1; }|batch 7, 
		{ mark 0 batch number 7; head -c 200 0.rf; }|batch 7, 
	END
	[ ! -e out.rf ] || rm out.rf
	{ mark 0 batch number 0; cat 0.rf; mark 1 close count 1; } >in.rf
	for program in rf-dump rf-cat rf-select 'rf-ntp -m run'; do
		runs run
		run -65 $program in.rf
		[[ "$output" == *'this is a long stream, of many batches'* ]]
		rm -r run
	done
}

@test "live: a line that is broken anywhere commits whole batches alone, and goes on to the same bytes" {
	runs a
	each a 0:22 5
	long=$(rf-cat --range 0:22 --batch 5 "$P/some.rf" | wc -c)
	for cut in 300 2000 $((long / 2)) $((long - 40)); do
		runs b
		THROUGH="stdbuf -o0 head -c $cut" run -65 long b 0:22 5
		[ ! -e "$LIVE" ]
		n=$(jq .commits b/latest/state.json)
		long b $((n * 5)):22 5
		diff -r a/latest/ b/latest/
		rm -r b
	done
	runs b
	FIRST=1 run -65 long b 0:10 5
	[[ "$output" == *'the stream has batch 1, but b has 0 commits, so batch 0 is next'* ]]
}

# ends: `line`, with the statuses of its programs in `codes` and what they say in `said`; within 30 seconds
ends() {
	declare -f line trainer >functions
	export LIVE P optimizer
	timeout -s KILL 30 bash -c '. ./functions; echo $$ >shell; line' 2>said
}
line() {
	rf-cat --range 0:220 --batch 2 "$P/many.rf" | rf-entropy -m "$LIVE" --follow --follow-timeout 2 |
		rf-select --chunks 2 --follow --follow-timeout 2 |
		rf-rollout -m "$LIVE" -n 2 --follow --follow-timeout 2 |
		rf-reward --follow --follow-timeout 2 | trainer
	echo "${PIPESTATUS[*]}" >codes
}

@test "live: when a program dies or stands still, those that wait end in time, and say what is missing" {
	runs run
	trainer() { cat >out; }
	ends || { cat said; false; }
	cat codes said
	grep -qE '^(0|141) 75( (75|65)){3} 0$' codes
	grep -q "rf-entropy: $LIVE: no trainer has published weights there, after 0 commits, within 2 s" said
	# it dies, and something still reads
	trainer() {
		rf-ntp -m run --live "$LIVE" < <(sleep 20) &
		until [ -e "$LIVE/trainer" ]; do sleep .01; done
		sleep .5 # so that they have seen it
		kill -9 $!
		cat >out
	}
	ends
	grep -q 'the trainer that published weights there is gone' said
	[ -d "$LIVE" ]
	# a program before it, or it itself, stands still at some moment
	trainer() { exec rf-grpo -m run --mini-batch 2 --live "$LIVE" --follow-timeout 2; }
	for name in rf-select rf-grpo ${RF_ALL:+rf-entropy rf-rollout rf-reward}; do
		(
			until [ "$(readlink run/latest)" != step-000000 ]; do :; done
			victim=$(pgrep -x -P "$(cat shell)" $name)
			kill -STOP "$victim"
			sleep 4
			kill -9 "$victim"
		) 2>/dev/null 3>&- &
		ends
		wait
		echo "$name:"
		cat codes said
		grep -qE '(stands still|is gone|missing|truncated)' said
		[[ "$(cat codes)" == *137* && "$(cat codes)" == *75* ]]
		[ "$(jq .commits run/latest/state.json)" -lt 110 ]
		rm -rf run "$LIVE"
		runs run
	done
}

@test "live: the folder of weights is one trainer's, and no other's" {
	runs run other third
	mkdir -m 700 "$LIVE"
	echo mine >"$LIVE/notes"
	run -64 long run 0:5 5
	[[ "$output" == *"it holds 'notes', which no trainer has published"* ]]
	rm "$LIVE/notes"
	(flock 7 && exec sleep 2) 7>"$LIVE/.lock" &
	taken "$LIVE/.lock"
	run -75 long run 0:5 5
	[[ "$output" == *'another trainer publishes its weights there'* ]]
	wait
	# what a dead one left there is nobody's
	cp -r other/step-000000 "$LIVE/step-000007"
	ln -s step-000007 "$LIVE/latest"
	echo "1 1 nowhere" >"$LIVE/trainer"
	long run 0:5 5
	[ ! -e "$LIVE" ]
	# another run's weights
	other_folder() {
		rf-cat --range 0:5 --batch 5 "$P/some.rf" | rf-entropy -m there --follow |
			rf-select --chunks 2 --follow | rf-rollout -m there --follow | rf-reward --follow |
			rf-grpo -m third --live here
	}
	rf-init --config "$P/config.json" --seed 2 ckpt
	rf-init --from ckpt else
	(sleep 5 | rf-ntp -m else --live there) 2>/dev/null &
	until [ -e there/trainer ]; do sleep .05; done
	LIVE=there run -75 long run 0:5 5
	[[ "$output" == *'another trainer publishes its weights there'* ]]
	# or those of a folder that is not the trainer's
	run -65 other_folder
	wait
	[[ "$output" == *'the rollouts were made by weights'* ]] || { echo "$output"; false; }
}

# tree DIR: all that is in it
tree() {
	{ find "$1" -printf '%y %m %p %l\n' | sort && find "$1" -type f -exec cat {} +; } | md5sum
}
# left DIR: a folder as a trainer leaves it that is killed
left() {
	rf-init --from "$P/ckpt" left
	mkdir -m 700 "$1"
	mv left/step-000000 left/latest "$1"
	rmdir left 2>/dev/null || rm -r left
	: >"$1/.lock"
	echo '1 1 00000000-0000-4000-8000-000000000000,pid:[4026531836]' >"$1/trainer"
}

@test "live: --live takes only an empty folder, or one that --live made; any other keeps all that it has" {
	runs run trained fresh
	rf-cat --range 0:4 "$P/some.rf" | rf-ntp -m trained --lr 1e-3 --keep 9
	rf-cat --range 0:8 --batch 4 -o many.rf "$P/some.rf"
	cp -r trained noted && echo '1 1 nowhere' >noted/trainer
	cp -r trained/step-000000 ckpt
	mkdir empty-mark && : >empty-mark/trainer && cp -r ckpt empty-mark/step-000000
	cp -r empty-mark long-mark && { echo 1 1 nowhere; seq 99; } >long-mark/trainer
	cp -r empty-mark folder-mark && rm folder-mark/trainer && mkdir folder-mark/trainer
	cp -r empty-mark link-mark && ln -sf ../noted/trainer link-mark/trainer
	left notes && echo mine >notes/notes
	left inside && echo mine >inside/step-000000/notes
	left deeper && mkdir deeper/step-000000/notes
	left stateless && rm stateless/step-000000/state.json
	left temporary && mkdir temporary/.step-000003.tmp-1 &&
		echo >temporary/.step-000003.tmp-1/optim.safetensors
	left other-lock && echo mine >other-lock/.lock
	left other-latest && rm other-latest/latest && echo mine >other-latest/latest
	left other-step && echo mine >other-step/step-000009
	mkdir only-lock && echo mine >only-lock/.lock
	left good && ln -s good link
	echo mine >file
	for folder in trained fresh noted ckpt empty-mark long-mark folder-mark link-mark notes inside \
		deeper stateless temporary other-lock other-latest other-step only-lock link link/ file; do
		before=$(tree ${folder%/})
		run -64 rf-ntp -m run --live $folder many.rf
		[[ "$output" == *"rf-ntp: ${folder%/}: "*--live* ]] || { echo "$folder: $output"; return 1; }
		[ "$before" = "$(tree ${folder%/})" ] || { echo $folder; return 1; }
	done
	[ -e good/latest/state.json ]
	rf-ntp -m run --live good many.rf
	[ ! -e good ]
	[ -L link ]
	[ "$(jq .commits run/latest/state.json)" -eq 2 ]
	mkdir empty
	: >empty/.lock # killed before it had written more
	runs other
	rf-ntp -m other --live empty many.rf
	[ ! -e empty ]
}

@test "live: a folder keeps what it has until a long stream begins that is the run's next batch" {
	runs run
	rf-cat --range 0:8 --batch 4 -o many.rf "$P/some.rf"
	rf-cat --range 0:8 --batch 4 --first-batch 3 -o other.rf "$P/some.rf"
	echo text >text
	: >nothing
	mkdir folder
	left leftover
	mkdir empty
	before=$(tree leftover)
	for input in missing nothing text folder "$P/some.rf" other.rf; do
		for live in leftover empty absent; do
			run rf-ntp -m run --live $live $input
			[[ $status -ge 64 && $status -le 66 ]] || { echo "$input: $output"; return 1; }
			[ "$before" = "$(tree leftover)" ]
			rmdir empty && mkdir empty
			[ ! -e absent ]
		done
	done
	rf-ntp -m run --live leftover many.rf
	[ ! -e leftover ]
}

@test "live: entries that came from elsewhere while the trainer worked stay in the folder" {
	runs run
	rf-cat --range 0:8 --batch 4 -o many.rf "$P/some.rf"
	{
		until [ -e "$LIVE/trainer" ]; do sleep .01; done
		echo mine >"$LIVE/notes"
		cat many.rf
	} | rf-ntp -m run --live "$LIVE"
	[ "$(ls -A "$LIVE")" = notes ]
	[ "$(cat "$LIVE/notes")" = mine ]
}

@test "live: a killed trainer counts as dead immediately, also after the next boot and in another container" {
	runs a b
	each a 0:10 5
	here=$(sh -c 'echo "$(cat /proc/sys/kernel/random/boot_id),$(readlink /proc/$$/ns/pid)"')
	for space in "00000000${here:8}" "${here%:*}:[1]" "$here"; do
		rm -rf b "$LIVE"
		runs b
		left "$LIVE" # its weights are not b's
		rf-init --config "$P/config.json" --seed 2 strange
		rf-init --from strange stranger
		rm -r "$LIVE/step-000000"
		mv stranger/step-000000 "$LIVE/step-000000"
		rm -r strange stranger
		echo "$$ 1 $space" >"$LIVE/trainer"
		long b 0:10 5
		diff -r a/latest/ b/latest/
	done
}

@test "live: RUN/stop commits after the batch and ends with 75; the same words go on to the same bytes" {
	runs a b
	each a 0:22 5
	touch b/stop
	run -75 long b 0:22 5 --commit-every 9
	[[ "$output" == *"rf-grpo: b: stopped after 1 batches, as the run's file 'stop' asked"* ]]
	rm b/stop
	[ "$(jq .commits b/latest/state.json)" -eq 1 ]
	long b 5:22 5 --commit-every 9
	diff -r a/latest/ b/latest/
	same_logs a b
}

@test "live: a trainer that is killed at any call leaves the old step or the new one, and whole weights" {
	runs want
	rf-cat --range 0:9 --batch 3 -o many.rf "$P/some.rf"
	rf-cat --range 3:9 --batch 3 --first-batch 1 -o rest.rf "$P/some.rf"
	rf-cat --range 6:9 --batch 3 --first-batch 2 -o last.rf "$P/some.rf"
	trainer() { rf-ntp -m "$1" $optimizer --live "$LIVE" --commit-every 2 "$2"; }
	trainer want many.rf
	runs run
	RF_FAULT_LOG=$PWD/calls LD_PRELOAD=$RF_UNITS/helper/fault.so trainer run many.rf
	diff -r want/latest/ run/latest/
	n=$(wc -l <calls)
	for ((k = 1; k <= n; k += ${RF_ALL:+1} + 0 ? 1 : 29)); do
		rm -rf run
		runs run
		RF_FAULT=kill:$k LD_PRELOAD=$RF_UNITS/helper/fault.so run -137 trainer run many.rf
		newest=$(printf '%s\n' run/step-* | tail -n 1) # latest may lag
		case $(jq .commits "$newest/state.json") in
		0) trainer run many.rf ;;
		2) trainer run last.rf ;;
		3) ;;
		esac
		diff -r want/latest/ run/latest/
		[ ! -e "$LIVE" ] || rm -r "$LIVE"
	done
}

@test "live: where weights cannot be published the batch is committed, and that is 74" {
	rf-cat --range 0:9 --batch 3 -o many.rf "$P/some.rf"
	runs a run
	rf-cat --range 0:3 "$P/some.rf" | rf-ntp -m a $optimizer
	# the place of the second step is taken
	mkdir -m 700 "$LIVE"
	(until [ -e "$LIVE/trainer" ]; do sleep .01; done
		mkdir "$LIVE/step-000001"
		touch "$LIVE/step-000001/x"
		cat many.rf) | {
		run -74 rf-ntp -m run $optimizer --live "$LIVE" --commit-every 9
		[[ "$output" == *'step 1 was committed, but its weights could not be published: '* ]] ||
			{ echo "$output" && false; }
	}
	diff -r a/latest/ run/latest/
}

@test "live: --stale 1 makes rollouts by weights one commit older, which the log says, and always the same" {
	runs a b c
	each a 0:22 5
	for run in b c; do FOLLOW='--follow --stale 1' long $run 0:22 5 --stale 1; done
	diff -r b/latest/ c/latest/
	run -1 cmp -s a/latest/model.safetensors b/latest/model.safetensors
	[ "$(jq '."rollouts/stale" // 0' b/log | uniq | paste -sd' ')" = '0 1' ]
	FOLLOW='--follow --stale 1' run -65 long c 0:10 5
	[[ "$output" == *'the rollouts were made by weights'* || "$output" == *'so batch 5 is next'* ]]
}

@test "live: memory and descriptors do not grow from batch to batch" {
	batches=${RF_ALL:+9}110
	batches=$((batches < 1000 ? batches : 1000))
	runs run
	{
		rf-cat --range 0:$((batches * 2)) --batch 2 "$P/many.rf" |
			rf-entropy -m "$LIVE" --follow | rf-select --chunks 2 --follow |
			rf-rollout -m "$LIVE" --follow | rf-reward --follow |
			rf-grpo -m run --mini-batch 2 --live "$LIVE" --log log --commit-every 50
	} &
	pid=$!
	look() {
		for name in rf-entropy rf-select rf-rollout rf-reward rf-grpo; do
			this=$(pgrep -x -P $pid $name) || return
			echo "$name $(ls /proc/$this/fd | wc -l)" \
				"$(awk '/^VmData/ { print int($2 / 512) }' /proc/$this/status)"
		done
	}
	at() { until [ "$(wc -l 2>/dev/null <log || echo 0)" -ge "$1" ]; do sleep .02; done; }
	at 50 # when all that a long record takes has been taken once
	kill -STOP $(pgrep -x -P $pid rf-grpo)
	sleep .3
	look >early
	kill -CONT $(pgrep -x -P $pid rf-grpo)
	at $((batches - 10))
	kill -STOP $(pgrep -x -P $pid rf-grpo)
	sleep .3
	look >late
	kill -CONT $(pgrep -x -P $pid rf-grpo)
	wait $pid
	[ "$(wc -l <early)" -eq 5 ]
	# a few files may be open at one moment and not at another; half a MiB of memory is a unit
	paste early late | awk '$5 > $2 + 4 || $6 > $3 + 1 { print; bad = 1 } END { exit bad }'
	[ "$(jq .commits run/latest/state.json)" -eq "$batches" ]
}

@test "live: whichever program is killed at whatever moment, nothing is lost and the same words go on" {
	runs a
	each a 0:22 5
	for ((i = 0; i < ${RF_ALL:+20}6; i++)); do
		runs b
		for ((tries = 0; tries < 9; tries++)); do
			n=$(jq .commits b/latest/state.json)
			{ long b $((n * 5)):22 5 --commit-every $((i % 3 + 1)) >/dev/null 2>&1; } &
			pid=$!
			if [ "$tries" -lt 2 ]; then
				sleep .$((RANDOM % 40 + 10))
				names=(rf-cat rf-entropy rf-select rf-rollout rf-reward rf-grpo)
				pkill -9 -x -P $pid "${names[RANDOM % 6]}" || true
			fi
			! wait $pid || break
		done
		diff -r a/latest/ b/latest/
		rm -rf b
	done
}

@test "LIVE: a phase that hands weights on in memory ends at the same bytes, and may do so or not each time" {
	phase() {
		RF_BIN=$RF_BIN timeout 200 make -s -f "$ROOT/pipelines/$1.mk" MODEL="$P/ckpt" BATCH=6 \
			MINI_BATCH=3 LR=1e-3 COMPUTE='--threads 1' "${@:2}"
	}
	mid() { phase midtrain DATA="$P/some.rf" BATCHES=7 KEEP=1 "$@"; }
	mid RUN=a # three batches an epoch
	mid RUN=b LIVE=1 COMMIT_EVERY=9
	mid RUN=c LIVE=1 BATCHES=2
	mid RUN=c BATCHES=4
	mid RUN=c LIVE="$LIVE" COMMIT_EVERY=1h
	for run in b c; do
		diff -r a/latest/ $run/latest/
		diff -r a/streams $run/streams
		diff <(figures a/log.jsonl) <(figures $run/log.jsonl)
		[ "$(cat $run/data/status)" = 0 ]
	done
	ls -d /dev/shm/rf-* 2>/dev/null && return 1
	# what follows each commit
	mid RUN=d LIVE=1 COMMIT_EVERY=2 AFTER='echo "$$AT" >>d/after'
	[ "$(paste -sd' ' d/after)" = '4 6 8 12 14' ]
	diff -r a/latest/ d/latest/
	for i in $(seq 13); do
		jq -nc --arg i "$i" '{prompt: ("Words: red blue and \($i) more. " * 2), answer: " \($i)"}'
	done >asked.jsonl
	for how in refine ntp sft; do
		rm -rf a b
		phase posttrain RUN=a DATA=asked.jsonl METHOD=$how
		phase posttrain RUN=b DATA=asked.jsonl METHOD=$how LIVE=1 COMMIT_EVERY=2
		diff -r a/latest/ b/latest/
	done
	run -2 phase testtime RUN=t DATA=asked.jsonl LIVE=1
	[[ "$output" == *'LIVE is not possible here'* ]]
	run -2 phase posttrain RUN=p DATA=asked.jsonl METHOD=sft INNER_STEPS=matched LIVE=1
	[[ "$output" == *'LIVE is not possible here'* ]]
	run -2 phase midtrain DATA="$P/some.rf" BATCHES=2 RUN=m LIVE=1 COMMIT_EVERY=0
	[[ "$output" == *"--commit-every: '0' is neither"* ]]
}

@test "LIVE: the loop keeps a foreign folder with its name in memory, and uses another name" {
	line='echo "$LIVE" >>names; rf-cat --range $FROM:$TO --batch $SIZE --first-batch $BATCH "$ORDER" |
		rf-ntp -m "$RUN" --at $AT --live "$LIVE"'
	phase() {
		timeout 100 rf-loop -m run --from "$P/ckpt" --data "$P/some.rf" --live auto --batch 6 "$@" \
			-- "$line" 2>said || { cat said; return 1; }
	}
	phase --batches 1
	name=$(cat names)
	[[ "$name" == */rf-"$(id -u)"-???????????????? ]]
	mkdir victim
	echo mine >victim/step-000000
	batches=1
	for place in 'mkdir -p "$name/a"; echo mine >"$name/a/mine"' 'ln -s "$PWD/victim" "$name"' \
		'ln -s nowhere "$name"' 'echo mine >"$name"' 'mkfifo "$name"' \
		'cp -r run "$name"' 'left "$name"; chown -hR 65534 "$name"' 'mkdir "$name"'; do
		[ "$(id -u)" = 0 ] || [[ "$place" != *chown* ]] || continue
		teardown
		eval "$place"
		before=$(ls -lR "$name" victim 2>&1)
		phase --batches $((++batches)) || { echo "$place"; return 1; }
		[ "$before" = "$(ls -lR "$name" victim 2>&1)" ] || { echo "$place"; return 1; }
		[ "$(tail -n 1 names)" != "$name" ]
		run ls -d "$name"-*
		[ "$status" -ne 0 ]
	done
	# but a killed trainer's is removed, whatever name it has
	teardown
	left "$name"
	left "$name-abcdef"
	phase --batches $((++batches))
	[ "$(tail -n 1 names)" = "$name" ]
	[ ! -e "$name" ]
	[ ! -e "$name-abcdef" ]
}

@test "LIVE: a loop whose programs are killed, or which is killed itself, goes on to the same bytes" {
	phase() {
		RF_BIN=$RF_BIN timeout 200 make -s -f "$ROOT/pipelines/midtrain.mk" MODEL="$P/ckpt" BATCH=4 \
			MINI_BATCH=2 LR=1e-3 COMPUTE='--threads 1' DATA="$P/many.rf" BATCHES=190 "$@"
	}
	phase RUN=a LIVE=1 COMMIT_EVERY=30 2>/dev/null
	cut=0
	for name in rf-grpo rf-loop rf-select rf-grpo; do
		phase RUN=b LIVE=1 COMMIT_EVERY=7 2>said &
		sleep 1
		for ((i = 0; i < 200; i++)); do
			loop=$(cut -d' ' -f1 b/data/.lock)
			line=$(pgrep -x -P "${loop:-none}" bash 2>/dev/null) || line=none
			[ "$name" = rf-loop ] && [ "$line" != none ] && kill -9 "$loop" && break
			! pkill -9 -x -P "$line" $name 2>/dev/null || break
			sleep .02
		done
		wait $! || true
		[ "$(jq .commits b/latest/state.json)" -lt 190 ] || break
		cut=$((cut + 1))
	done
	[ "$cut" -ge 2 ]
	phase RUN=b LIVE=1 COMMIT_EVERY=7 2>/dev/null
	diff -r a/latest/ b/latest/
	[ "$(cat b/data/status)" = 0 ]
	[ ! -e b/data/line ]
}

@test "LIVE: by several ranks, and stopped by RUN/stop" {
	have_mpi || skip 'MPI was left out'
	phase() {
		RF_BIN=$RF_BIN timeout 200 make -s -f "$ROOT/pipelines/midtrain.mk" MODEL="$P/ckpt" BATCH=6 \
			MINI_BATCH=3 LR=1e-3 COMPUTE='--threads 1' DATA="$P/some.rf" BATCHES=6 "$@"
	}
	phase RUN=a
	phase RUN=b LIVE=1 COMMIT_EVERY=2 LAUNCH='mpirun --bind-to none -n 3'
	diff -r a/latest/ b/latest/
	phase RUN=c LIVE=1 BATCHES=1 LAUNCH='mpirun --bind-to none -n 2'
	phase RUN=c LIVE=1 COMMIT_EVERY=9 LAUNCH='mpirun --bind-to none -n 2' >/dev/null 2>&1 &
	for ((i = 0; i < 500; i++)); do
		touch c/stop
		[ "$(cat c/data/status 2>/dev/null | cut -f1)" != 75 ] || break
		sleep .02
	done
	wait || true
	[ "$(cut -f1 c/data/status)" = 75 ]
	[ "$(jq .commits c/latest/state.json)" -lt 6 ]
	phase RUN=c LIVE=1 LAUNCH='mpirun --bind-to none -n 2'
	diff -r a/latest/ c/latest/
}
