#!/usr/bin/env bats
# Runs: commits under injected faults, two writers, the order of syncs, readers of a run in training.
# RF_ALL=1 tries every system call, otherwise one in nine or seventeen, and every other one of rare calls.
setup_file() {
	load ../helper
	export PATH R=$BATS_FILE_TMPDIR
	rf-init --from "$G/delta" "$R/old"
	"$RF_UNITS/helper/run" commit "$R/old" 1
	"$RF_UNITS/helper/run" commit "$R/old" 5
	cp -a "$R/old" "$R/new"
	"$RF_UNITS/helper/run" commit "$R/new" 9
	"$RF_UNITS/helper/run" check "$R/old" >"$R/whole"
	"$RF_UNITS/helper/run" check "$R/new" >>"$R/whole"
	cp -a "$R/old" "$R/traced"
	ASAN_OPTIONS=detect_leaks=0 strace -f -y \
		-o "$R/trace" "$RF_UNITS/helper/run" commit "$R/traced" 9 2>/dev/null || rm -f "$R/trace"
}
setup() {
	load ../helper
	R=$BATS_FILE_TMPDIR
	export ASAN_OPTIONS=detect_leaks=0 # which cannot work under strace
	EVERY=${RF_ALL:+1} OTHER=${RF_ALL:+1}
	EVERY=${EVERY:-9} OTHER=${OTHER:-2}
}

need_strace() {
	[ -e "$R/trace" ] || skip "strace is not here, or may not trace"
}

# calls REGEX: prints "NAME K" for each system call with such a name after the run is locked; K counts the
# calls of this name of the process
calls() {
	awk -v want="^($1)\$" '{ sub(/^[0-9]+ +/, ""); name = $0; sub(/\(.*/, "", name) }
		name !~ /^[a-z0-9_]+$/ { next }
		{ k[name]++ }
		/\/\.lock"/ { on = 1 }
		on && name ~ want { print name, k[name] }' "$R/trace"
}

# commit_under STRACE-OPTION...: commits step 9 to a copy of the old run under this fault; sets $status
commit_under() {
	rm -rf r
	cp -a "$R/old" r
	status=0
	{ strace -f -o /dev/null "$@" "$RF_UNITS/helper/run" commit r 9 2>message || status=$?; } 2>/dev/null
}

# in_order: succeeds if every step is whole, the newest is the old or the new one, and the next trainer can
# continue the run
in_order() {
	for step in r/step-*; do
		[ "$(cd "$step" && echo *)" = \
			"config.json model.safetensors optim.safetensors state.json" ] || return 1
	done
	"$RF_UNITS/helper/run" check r >now || return 1
	grep -qxFf now "$R/whole" || return 1
	"$RF_UNITS/helper/run" tidy r || return 1
	[ -z "$(find . -name '.*.tmp-*')" ] || return 1
	[ "$(readlink r/latest)" = "$(cd r && printf '%s\n' step-* | tail -n 1)" ] || return 1
	"$RF_UNITS/helper/run" check r >now && grep -qxFf now "$R/whole"
}

@test "run: opening, exporting, committing and closing a run work without a fault" {
	unset ASAN_OPTIONS
	unit run "$G"
}

@test "run: a commit syncs its files before the rename, and the directories before and after it" {
	need_strace
	awk 'function path(s) { sub(/^[^<]*</, "", s); sub(/>.*/, "", s); return s }
	     { sub(/^[0-9]+ +/, "") }
	     /^(openat|creat).*O_CREAT/ && /\.step-/ {
	                                split($0, q, " = "); dirty[path(q[2])] = 1; dir = path(q[2])
	                                sub(/\/[^\/]*$/, "", dir); entries[dir] = 1; files++ }
	     /^write\(/ && /\.step-/  { dirty[path($0)] = 1 }
	     /^fsync\(/               { delete dirty[path($0)]; delete entries[path($0)]
	                                if (renamed == 1 && path($0) ~ /traced$/) renamed = 2
	                                if (swapped == 1 && path($0) ~ /traced$/) swapped = 2 }
	     /^rename.*\.step-000009\.tmp/ { for (f in dirty) { print "not synced: " f; bad = 1 }
	                                     for (d in entries) { print "not synced: " d; bad = 1 }
	                                     renamed = 1 }
	     /^rename.*\.latest\.tmp/ { if (renamed != 2) { print "latest before the step is safe"; bad = 1 }
	                                swapped = 1 }
	     /^rename.*step-000001"/  { if (swapped != 2) { print "pruned before latest is safe"; bad = 1 }
	                                pruned = 1 }
	     END { if (files != 4 || !pruned) { print files " files, pruned " pruned; bad = 1 }
	           exit bad }' "$R/trace"
}

@test "run: a trainer killed at any system call leaves the old step or the new one" {
	need_strace
	calls '.*' | grep -Ev '^(exit_group|execve|rt_sigreturn)' |
		awk -v every="$((EVERY * 2 - 1))" 'NR % every == 0' >list
	[ "$(wc -l <list)" -ge 10 ]
	while read -r name k; do
		commit_under -e trace="$name" -e inject="$name:signal=KILL:when=$k"
		[ "$status" -eq 137 ] || { echo "$name $k: status $status"; return 1; }
		in_order || { echo "killed at $name $k"; ls -AR r; return 1; }
	done <list
}

@test "run: a commit in which a system call fails either succeeds or exits 74, and the run stays whole" {
	need_strace
	calls 'write|fsync|mkdir|symlink|rename|openat' |
		awk -v many="$EVERY" -v few="$OTHER" '
			n[$1]++ % ($1 == "write" || $1 == "openat" ? many : few) == 0' >list
	[ "$(wc -l <list)" -ge 15 ]
	n=0
	while read -r name k; do
		faults=("ENOSPC $k" "EIO $k+" "EIO $k" "ENOSPC $k+")
		[ "$EVERY" -eq 1 ] || faults=("${faults[n++ % 4]}")
		for fault in "${faults[@]}"; do
			commit_under -e trace="$name" -e inject="$name:error=${fault% *}:when=${fault#* }"
			where="$name $fault: status $status, $(cat message)"
			[ -z "$(find . -name '.*.tmp-*')" ] || [ "$name" = openat ] ||
				{ echo "$where: leftovers"; return 1; }
			# status 0: the failed call read an optional file, or synced or removed an old one
			if [ "$status" -eq 0 ]; then
				[ -d r/step-000009 ] || { echo "$where"; return 1; }
			else
				[ "$status" -eq 74 ] || { echo "$where"; return 1; }
				[ "$name" = write ] && [[ "$fault" == *+ ]] ||
					[ "$(wc -l <message)" -eq 1 ] || { echo "$where"; return 1; }
			fi
			in_order || { echo "$where"; ls -AR r; return 1; }
		done
	done <list
}

@test "run: a write, sync or rename that fails before the commit always exits 74 and keeps the old step" {
	need_strace
	calls 'write|fsync|mkdir|rename' | awk '$1 == "rename" { print; exit } { print }' |
		awk -v every="$EVERY" '$1 != "write" || n++ % every == 0' >list
	[ "$(wc -l <list)" -ge 12 ]
	while read -r name k; do
		commit_under -e trace="$name" -e inject="$name:error=EDQUOT:when=$k"
		[ "$status" -eq 74 ] && [ ! -e r/step-000009 ] ||
			{ echo "$name $k: status $status"; return 1; }
		[ "$("$RF_UNITS/helper/run" check r)" = "$(head -n 1 "$R/whole")" ]
		[ "$name" = rename ] || grep -q ': Disk quota exceeded$' message
	done <list
}

@test "run: system calls that a signal interrupts (EINTR) do not harm a commit" {
	need_strace
	calls 'write|fsync|flock' |
		awk -v many="$EVERY" -v few="$OTHER" 'n[$1]++ % ($1 == "write" ? many : few) == 0' >list
	[ "$(wc -l <list)" -ge 8 ]
	while read -r name k; do
		commit_under -e trace="$name" -e inject="$name:error=EINTR:when=$k"
		[ "$status" -eq 0 ] || { echo "$name $k: status $status, $(cat message)"; return 1; }
		in_order
	done <list
}

@test "run: SIGTERM before the commit changes nothing, and after it the new step is complete" {
	need_strace
	calls 'write|fsync|rename|unlink|unlinkat' |
		awk -v many="$((EVERY * 2 - 1))" -v few="$OTHER" '$1 == "rename" { late = 1 }
			n[late, $1]++ % ($1 == "write" ? many : few) == 0 { print late + 0, $0 }' >list
	[ "$(grep -c ^0 list)" -ge 5 ]
	[ "$(grep -c ^1 list)" -ge 3 ]
	while read -r late name k; do
		commit_under -e trace="$name" -e inject="$name:signal=TERM:when=$k"
		[ "$status" -eq $((late ? 0 : 143)) ] || { echo "$name $k: status $status"; return 1; }
		[ -z "$(find . -name '.*.tmp-*')" ]
		if [ "$late" -eq 1 ]; then
			[ "$(readlink r/latest)" = step-000009 ]
			[ ! -e r/step-000001 ]
		else
			[ ! -e r/step-000009 ]
		fi
		in_order
	done <list
}

@test "run: a commit to a disk that is too small exits 74, and names the bytes needed and free" {
	need_strace
	cp -a "$R/old" r
	run -74 --separate-stderr strace -f -o /dev/null -e trace=statfs \
		-e inject=statfs:retval=0:poke_exit=@arg2="$(printf %032d01%0206d 0 0)" \
		"$RF_UNITS/helper/run" commit r 9
	temporary='run: r/.step-000009.tmp-' free=' bytes, but only [0-9]+ are free'
	[[ "$stderr" =~ ^"$temporary"[0-9]+": a checkpoint needs "[0-9]+$free$ ]]
	in_order
}

@test "run: a commit over the file size limit exits 74 and leaves the run whole" {
	cp -a "$R/old" r
	run -74 bash -c "trap '' XFSZ; ulimit -f 40; exec '$RF_UNITS/helper/run' commit r 9"
	[[ "$output" == *": write: File too large" ]]
	in_order
}

@test "run: one of two writers of a run wins, and the other exits 75 without waiting" {
	cp -a "$R/old" r
	mkfifo gate
	for _ in $(seq $(( ${RF_ALL:+1} + 0 ? 100 : 10))); do
		for w in a b; do
			{
				s=0
				"$RF_UNITS/helper/run" hold r <gate >out.$w 2>&1 || s=$?
				echo $s >status.$w
			} &
		done
		exec 9>gate
		for _ in $(seq 500); do
			[ ! -s status.a ] && [ ! -s status.b ] || break
			sleep .01
		done
		exec 9>&-
		wait
		[ "$(sort -n status.a status.b | tr '\n' ' ')" = "0 75 " ]
		grep -qx held out.a out.b
		grep -q 'another program is training this run; try again' out.a out.b
		rm status.?
	done
	"$RF_UNITS/helper/run" commit r 9
}

# overtaken OLD WHAT COMMAND...: runs COMMAND, which reads the run r, a copy of OLD, once for each of its
# calls on a path of r that has WHAT in it.  The call is delayed until the step was removed for a newer one. 
# Then `fine` must accept the output, in the file `out`.
overtaken() {
	local old=$1 what=$2 name k look looks=0
	shift 2
	rm -rf r
	cp -a "$old" r
	strace -f -e trace=%file -o trace "$@" >out 2>message
	fine
	sed 's/^[0-9]* *//' trace | awk -F '(' -v what="$what" '$1 ~ /^[a-z0-9_]+$/ { k[$1]++
		if ($0 ~ /"r[\/"]/ && $0 ~ what) print $1, k[$1], $0 }' >looks
	while read -r name k look; do
		rm -rf r
		cp -a "$old" r
		strace -f -o /dev/null -e trace="$name" -e inject="$name:delay_enter=100000:when=$k" "$@" \
			>out 2>message &
		sleep .05
		"$RF_UNITS/helper/run" commit r 9 1
		wait $! && fine || { echo "before $look: $(cat message)"; return 1; }
		looks=$((looks + 1))
	done <looks
	[ "$looks" -ge 5 ]
}

@test "run: a reader whose step is removed at any moment reads the newer step" {
	need_strace
	fine() { grep -qxFf out "$R/whole"; }
	overtaken "$R/old" r "$RF_UNITS/helper/run" check r
}

@test "run: a reader of a tokenizer whose step is removed at any moment reads the newer step's tokenizer" {
	need_strace
	load ../model
	jq '.vocab_size = 4008' "$G/delta/config.json" >config.json
	rf-init --config config.json ckpt
	zstd -qdc "$G/tokenizer/qwen3_5.json.zst" >ckpt/tokenizer.json
	echo '{"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"}' \
		>ckpt/tokenizer_config.json
	rf-init --from ckpt old
	echo '{"text": "the cat sat on a mat"}' >text.jsonl
	rf-tokenize --tokenizer old text.jsonl >in.rf
	fine() { json out | grep -q '"text":\["'; }
	overtaken old tokenizer rf-generate -m r --max-new 2 in.rf
	rf-dump --tokenizer old in.rf >want
	fine() { cmp out want; }
	overtaken old tokenizer rf-dump --tokenizer r in.rf
	[ -n "${RF_ALL:-}" ] || return 0
	cp in.rf want
	overtaken old tokenizer rf-tokenize --tokenizer r text.jsonl
}

@test "run: a reader can read the run at any time while it is being trained" {
	cp -a "$R/old" r
	[ -n "${RF_ALL:-}" ] && last=60 || last=30
	{ for i in $(seq 10 $last); do "$RF_UNITS/helper/run" commit r "$i" || break; done; touch ended; } &
	n=0
	until [ -e ended ]; do
		"$RF_UNITS/helper/run" check r >/dev/null
		n=$((n + 1))
	done
	wait
	[ "$n" -ge 3 ]
	[ "$("$RF_UNITS/helper/run" check r | cut -d ' ' -f 1)" -eq $last ]
}
