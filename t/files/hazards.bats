#!/usr/bin/env bats
# Mistakes and mishaps of users: no program may overwrite a file by accident, or lose data without a message.
setup() {
	load ../helper
	load ../model
}

at() { readlink "${1:-run}/latest"; }

@test "hazards: --grad-out writes only a regular file outside the run, and refuses any other path" {
	batch 1:50 >in
	runs run
	mkfifo fifo
	ln -s fifo link
	state >before
	for name in - fifo link . /dev/null run/grad run/latest/model.safetensors run/../run/x; do
		says 64 "rf-grpo: --grad-out: ..." rf-grpo -m run --grad-out "$name" in
	done
	[ -p fifo ]
	state | cmp - before
	run -74 rf-grpo -m run --grad-out nowhere/g in
	rf-grpo -m run --grad-out g in
	rf-ntp -m run --grad-in g in
}

# flip FILE OFFSET: inverts one bit
flip() {
	local byte
	byte=$(($(od -An -tu1 -j "$2" -N 1 "$1") ^ 64))
	# shellcheck disable=SC2059  # a format
	printf "\\x$(printf %02x $byte)" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

@test "hazards: a flipped bit in the optimizer's state is found before the first step" {
	batch 1:50 >in
	runs run
	rf-ntp -m run in
	size=$(stat -L -c %s run/latest/optim.safetensors)
	cp -a run whole
	for ((k = 1; k < 9; k++)); do
		flip run/latest/optim.safetensors $((size - size * k / 12))
		state >before
		for trainer in rf-ntp rf-grpo; do
			stale=
			[ $trainer = rf-ntp ] || stale='--stale any'
			mentions 78 "optim.safetensors: " $trainer -m run $stale in
		done
		state | cmp - before
		rm -rf run
		cp -a whole run
	done
	rf-ntp -m run in
}

@test "hazards: an altered state.json is detected by every program that reads the step" {
	batch 1:50 >in
	runs run
	rf-ntp -m run in
	for change in .updates=12 .commits=7 .step=0 '.past=[]' 'del(.xxh64)' .parent=-1; do
		cp -a run bad
		step=bad/$(at bad)
		jq "$change" "$step/state.json" >changed
		cp changed "$step/state.json"
		for command in rf-ntp 'rf-ntp --eval' rf-entropy 'rf-dump --check'; do
			case $command in
			rf-dump*) run -78 $command bad ;;
			*) run -78 $command -m bad in ;;
			esac
		done
		rm -rf bad
	done
}

@test "hazards: a closed stdin, stdout or stderr never lets data or messages get into another file" {
	batch 1:50 >in
	(cat in; sleep .1) | rf-cat --progress -o out 2>&-
	rf-dump --check -q out
	runs run
	for command in 'rf-grpo -m run -o - in' 'rf-entropy -m run in' 'rf-select in' 'rf-cat in' \
		'rf-dump in'; do
		run -74 bash -c "$command >&-"
		[ ! -s run/.lock ]
	done
	rf-grpo -m run --at 9 in 2>&- || [ $? -eq 65 ]
	[ ! -s run/.lock ]
	run -66 bash -c 'rf-cat <&-'
}

@test "hazards: a broken step does not stop readers, and a trainer's error says to remove the step" {
	batch 1:50 >in
	for make in 'touch run/step-000050' 'mkdir run/step-000050' \
		'cp -a run/step-000001 run/step-000003'; do
		runs run
		rf-ntp -m run in
		eval "$make"
		for how in '' --dry-run; do
			run -78 rf-ntp -m run $how in
			said='(remove the step to continue from the one before)'
			[[ "$output" == "rf-ntp: run/step-0000"*"$said" ]]
		done
		[ "$(at)" = step-000001 ]
		rf-entropy -m run in >/dev/null
		rm -rf run/step-000050 run/step-000003
		rf-ntp -m run in
		rm -rf run
	done
}

@test "hazards: rf-init refuses broken links and links out of the checkpoint, but reads a cache of links" {
	cp -a "$M" d
	ln -s /nowhere d/tokenizer_config.json
	run -78 rf-init --from d run
	[[ "$output" == *"d/tokenizer_config.json: a symbolic link to a file that does not exist"* ]]
	[ ! -e run ]
	rm d/tokenizer_config.json
	ln -s /nowhere d/README.md
	run -78 rf-init --from d run
	[[ "$output" == *"d/README.md: this symbolic link is broken or leads out of the checkpoint"* ]]
	[ ! -e run ]
	rm d/README.md
	echo secret >outside
	ln -s "$PWD/outside" d/notes.txt
	run -78 rf-init --from d run
	[ ! -e run ]
	rm d/notes.txt
	# the files of a cache of models are links
	mkdir -p cache/blobs cache/snapshots
	echo notes >cache/blobs/1234
	mv d cache/snapshots/abcd
	ln -s ../../blobs/1234 cache/snapshots/abcd/notes.txt
	ln -s notes.txt cache/snapshots/abcd/other.txt
	rf-init --from cache/snapshots/abcd run
	[ "$(cat run/latest/notes.txt run/latest/other.txt)" = $'notes\nnotes' ]
	[ ! -L run/latest/notes.txt ]
}

@test "hazards: temporary files of a killed process with the same pid do not stop rf-init and rf-grpo" {
	bash -c 'mkdir ".run.tmp-$$" && exec rf-init --from "$1" run' _ "$M"
	rf-dump --check -q run
	batch 1:50 >in
	bash -c 'touch ".g.tmp-$$" && exec rf-grpo -m run --grad-out g in'
	[ -s g ]
}

@test "hazards: a path that would make the commit fail is reported before the first record is read" {
	runs run
	for how in 'rf-ntp --log nowhere/log' 'rf-grpo --log .' 'rf-grpo --grad-out nowhere/g'; do
		run -74 $how -m run </dev/null
		[[ "$output" == "${how%% *}: ${how##* }: "* ]]
	done
	chmod -w run
	run -74 bound rf-ntp -m run </dev/null
	chmod +w run
	[[ "$output" == *"Permission denied"* ]]
	cp "$G/stream/tokens.rf" stream
	says 64 "rf-ntp: --log: stream exists and is not a log, which begins with '{': use another name" \
		rf-ntp -m run --log stream </dev/null
	cmp stream "$G/stream/tokens.rf"
}

@test "hazards: after a failed write the log is continued so that it still has whole lines of JSON" {
	batch 1:50 >in
	runs run
	for ((i = 0; i < 6; i++)); do
		bash -c 'ulimit -f 1; rf-ntp -m run --log log in' 2>>err || [ $? -eq 74 ]
	done
	grep -q 'rf-ntp: log: write: File too large' err
	rf-ntp -m run --log log in
	jq -e .step log >/dev/null
}

@test "hazards: rf-init refuses a checkpoint whose state.json would be too large to be read" {
	cp -a "$M" many
	# names of 255 bytes, most of which JSON writes as six: few files fill it
	many=$(printf 'many/'; printf '\001%.0s' {1..245})
	printf "$many%06d.txt\0" $(seq 800) | xargs -0 touch
	run -78 rf-init --from many run
	[[ "$output" == *"its state.json, which lists them, would have more than 1048576 bytes"* ]]
	[ ! -e run ]
}

@test "hazards: the history that rf-dump --head prints runs no hidden code when pasted into a shell" {
	for x in '["$(touch pwn)"]' '{"a":"`touch pwn`"}' '"$(touch pwn)"' '["'"'"'; touch pwn; '"'"'"]'; do
		rf-dump --json "$G/stream/tokens.rf" |
			jq -c --argjson x "$x" 'if .type == "head" then
				.body.history = [{tool: "rf-entropy", options: {x: $x, "$(touch pwn)": 1}}]
			else . end' | rf-cat --json -o odd.rf
		rf-dump --head odd.rf | tail -n 2 | bash 2>/dev/null || true
		[ ! -e pwn ]
	done
}

@test "hazards: rf-ntp --eval prints valid JSON if the perplexity is not a number" {
	batch 1:50 >in
	runs run
	rf-ntp -m run --lr 1 --mini-batch 1 --grad-clip 1e12 in
	rf-ntp -m run --lr 100 --mini-batch 1 --grad-clip 1e12 in
	run rf-ntp --eval -m run in
	[ "$status" -eq 70 ] || jq -e '.perplexity == null or .perplexity > 1' <<<"$output" >/dev/null
}

@test "hazards: numbers must be decimal and in range, and a decaying --lr-schedule needs --total-steps" {
	batch 1:50 >in
	runs run
	for lr in 0x10 0X1p-3 1e-400 1e400 nan; do
		run -64 rf-ntp -m run --lr $lr in
	done
	run -64 rf-ntp -m run --lr-schedule cosine in
	want='rf-ntp: --lr-schedule cosine and linear require --total-steps to be more than'
	[[ "$output" == "$want --warmup (0)" ]]
	rf-ntp -m run --lr-schedule cosine --total-steps 10 in
}

@test "hazards: evaluate.sh finds the programs with any CDPATH" {
	mkdir there
	cp -r "$ROOT/pipelines" there/
	ln -s "$RF_BIN" there/bin
	cd there
	run env -u RF_BIN CDPATH=.:/ PATH=/usr/bin:/bin bash pipelines/lib/evaluate.sh nowhere in out
	[[ "$output" == *"rf-entropy: nowhere: "* ]]
}

@test "hazards: readers and trainers refuse a run that was copied without its links, and name the cause" {
	batch 1:50 >in
	runs run
	rf-ntp -m run in
	cp -rL run copy
	for command in 'rf-ntp -m copy in' 'rf-entropy -m copy in'; do
		mentions 78 "copy/latest: not a symbolic link: the run was copied without its links" $command
	done
	rm -r copy/latest
	rf-ntp -m copy in
	[ "$(at copy)" = step-000002 ]
}

@test "hazards: messages that oneDNN prints when it is verbose never get into a stream" {
	wide delta_net
	for name in DNNL_VERBOSE ONEDNN_VERBOSE; do
		env $name=1 rf-entropy --device cpu -m wide-delta_net "$G/stream/tokens.rf" >out
		rf-dump --check -q out
		env $name=1 rf-entropy --device cpu -m wide-delta_net -o out "$G/stream/tokens.rf" >said
		grep -q 'verbose,exec,' said
	done
}

@test "hazards: rf-init refuses a file of 30 GB in a checkpoint by its size, within five seconds" {
	for name in tokenizer.json README.md; do
		cp -a "$M" large
		truncate -s 30G large/$name
		mentions 78 "large/$name: the file has 32212254720 bytes" timeout 5 rf-init --from large run
		[ ! -e run ]
		rm -r large
	done
}

@test "hazards: squares that overflow in a norm exit 70 instead of giving a row of zeros" {
	copy_model "$M" huge
	"$RF_UNITS/helper/model" scale huge model.embeddings.weight 1e25
	texts 40 1:50 >in
	run -70 rf-entropy -m huge in
}

@test "hazards: no program writes a record over --max-record, which its reader would refuse" {
	rf-entropy -m "$M" "$G/stream/tokens.rf" | rf-select -k 5 -o in
	run -65 rf-rollout -m "$M" -k 5 -n 64 --max-record 64k -o out in
	[[ "$output" == "rf-rollout: "*" record "*" would have "*" bytes, more than"* ]]
	[[ "$output" == *" the limit of 65536 (raise --max-record"* ]]
	[ ! -e out ]
	rf-rollout -m "$M" -k 5 -n 64 -o out in
	run -65 rf-cat --max-record 64k -o again out
	run -64 rf-cat --max-record 18446744073709551615 out
}

@test "hazards: too small a stack or too little memory exits 71 with one line, without a crash" {
	[[ "$RF_UNITS" != */sanitize/* ]] || skip "a sanitizer's own memory is larger"
	batch 1:50 >in
	runs run
	for kib in 256 512; do
		says 71 "rf-entropy: the stack limit is $kib KiB, but 1024 KiB are needed (ulimit -s)" \
			bash -c "ulimit -s $kib; rf-entropy --device cpu -m run in"
	done
	bash -c 'ulimit -s 1024; rf-entropy --device cpu -m run --threads 3 in' >out
	rf-entropy --device cpu -m run in | cmp - out
	state >before
	for mib in $(seq 2 2 40); do
		for command in 'rf-ntp --eval' 'rf-grpo --grad-out g'; do
			run prlimit --data=$((mib << 20)) $command --device cpu --threads 1 -m run in
			[ "$status" -eq 0 ] || [ "$status" -eq 71 ] ||
				{ echo "$mib MiB, $command: $status $output"; false; }
			[ "$status" -eq 0 ] || [ "${#lines[@]}" -eq 1 ]
			[ "$status" -eq 0 ] || [[ "$output" == rf-* ]]
		done
	done
	[ "$status" -eq 0 ]
	state | cmp - before
}

@test "hazards: rf-rollout warns if the positions were chosen with other weights, and goes on" {
	rf-entropy -m "$M" "$G/stream/tokens.rf" | rf-select -k 5 -o in
	quiet rf-rollout -m "$M" -k 5 -n 1 -o same in
	rf-init --from "$M" run
	batch 1:50 | rf-ntp -m run
	run -0 --separate-stderr rf-rollout -m run -k 5 -n 1 -o other in
	said='rf-rollout: in: the positions were chosen with weights '
	[[ "$stderr" == "$said"*", but run has weights "*": for ReFINE run rf-entropy with the same model" ]]
	quiet rf-rollout -m run --score same
}

@test "hazards: an error names in one line the refused input and the cause or the remedy" {
	batch 1:50 >in
	runs run
	says 64 '...run/latest: a step of a run, and the run itself is what is trained: -m run...' \
		rf-ntp -m run/latest in
	says 64 '...run/step-000000/: a step of a run, and the run itself is what is trained: -m run' \
		rf-ntp -m run/step-000000/ in
	says 78 '...config.json: not a directory (a run is a directory)...' rf-ntp -m "$M/config.json" in
	says 78 '...config.json: not a directory (a checkpoint is a directory...' \
		rf-entropy -m "$M/config.json" in
	mkdir closed empty
	ln -s empty link
	says 64 '...link is a symbolic link: name its target...' rf-init --from "$M" link
	chmod 0 closed
	says 74 '...closed: Permission denied...' bound rf-entropy -m closed in
	says 74 '...closed: Permission denied...' bound rf-ntp -m closed in
	printf '\xef\xbb\xbf{"text":"a"}\n' >bom.jsonl
	says 65 '...line 1: not JSON: it begins with a byte order mark...' \
		rf-tokenize --bytes -o out bom.jsonl
	printf '{"text":"a"}\n\n' >empty.jsonl
	cp -a "$M" null
	echo '{"tokenizer_class": null}' >null/tokenizer_config.json
	says 78 '...names no kind of tokenizer...' rf-tokenize --tokenizer null -o out empty.jsonl
	printf '{"text":"a","id":123456789012345678901234567890}\n' >large.jsonl
	says 65 '...a number does not fit into 64 bits...' \
		rf-tokenize --bytes --meta-key id -o out large.jsonl
	zstd -dc <in | zstd -c >again
	says 65 '...the zstd frame does not state its content size, which every frame...' rf-cat again
	says 74 '...nowhere/x: create: No such file or directory' rf-init --from "$M" nowhere/x
	says 74 '...nowhere/x: create: No such file or directory' rf-init --from "$M" --dtype bf16 nowhere/x
	says 64 '...is not a pair of numbers from 0 to 0.9999999, like...' rf-ntp -m run --betas 1,1 in
	says 64 '...--seed requires --shuffle...' rf-cat --seed 3 in
	says 64 '...--epoch requires --shuffle...' rf-cat --epoch 3 in
	says 64 '...rf-select: --length: ...' rf-select -k x in
	rf-ntp -m run --at -1 in
	says 64 '...--at: ...' rf-ntp -m run --at -2 in
}

@test "hazards: rf-tokenize never replaces its input text with its output stream" {
	printf '{"text":"a text of some bytes"}\n' >a.jsonl
	cp a.jsonl before
	ln -s a.jsonl link
	for name in a.jsonl ./a.jsonl link; do
		says 64 "...$name is an input, so it cannot be the output..." \
			rf-tokenize --bytes -o "$name" a.jsonl
	done
	cmp a.jsonl before
}

@test "hazards: --at a step that the run skipped is an error and trains nothing" {
	batch 1:50 2:50 3:50 >in
	runs run
	rf-ntp -m run --mini-batch 1 in
	rf-ntp -m run --mini-batch 1 --at 3 in
	says 0 "rf-ntp: already at step 6" rf-ntp -m run --at 3 in
	says 65 "...run went from step 3 to step 6: --at 4 is not one of its steps, so nothing was trained" \
		rf-ntp -m run --at 4 in
	[ "$(at)" = step-000006 ]
}

@test "hazards: an export made while the run is being trained holds one whole step" {
	can_trace
	batch 1:50 >in
	runs run
	rf-ntp -m run --keep 1 in
	strace -f -o /dev/null -e inject=getdents64:delay_enter=500000 \
		rf-init --from run --dtype f32 copy 2>err &
	until pgrep -P $! >/dev/null; do sleep .02; done
	sleep .3
	rf-ntp -m run --keep 1 in
	rf-ntp -m run --keep 1 in
	wait $! || { cat err; false; }
	rf-dump --check -q copy
	rf-entropy -m copy "$G/stream/tokens.rf" >/dev/null
}

@test "hazards: a program that a signal ends leaves no temporary file" {
	mkfifo in
	for sig in TERM INT HUP QUIT USR1 USR2 ALRM VTALRM XCPU; do
		env --default-signal rf-cat -o out in 3>&- &
		{
			head -c 100 "$G/stream/tokens.rf"
			until ls .out.tmp* >/dev/null 2>&1; do sleep .02; done
			kill -$sig $!
			sleep .1
		} >in
		ended_by $sig $!
		[ -z "$(find . -name '.out*' -o -name out)" ] || { echo "$sig: $(ls -a)"; false; }
	done
}
