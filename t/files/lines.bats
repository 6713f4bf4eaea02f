#!/usr/bin/env bats
# Files of lines, which several programs read in the same way: JSON that Python wrote, blank and bad lines,
# files compressed by several tools, logs that are appended to.

setup() {
	load ../helper
}

# refused TEXT COMMAND...: the command ends with 65 and one line that ends with the text, before any hint
refused() {
	run -65 --separate-stderr "${@:2}"
	stderr=${stderr% (*--skip-bad *)}
	[[ $stderr == *"$1" ]] && [ "${#stderr_lines[@]}" -eq 1 ] && return
	echo "$stderr"
	return 1
}

@test "lines: a NaN or an unpaired surrogate in a key that no option names changes nothing" {
	rest=',"x":NaN,"y":[Infinity,{"z":-Infinity}],"w":"\ud800","\udfff":1'
	printf '{"text":"ab"}\n' | rf-tokenize --bytes -o want.rf 2>err
	printf '{"text":"ab"%s}\n' "$rest" | rf-tokenize --bytes -o have.rf 2>err
	cmp want.rf have.rf
	printf '{"tokens":[1,2]}\n' | rf-tokenize --format ids --vocab 9 -o want.rf 2>err
	printf '{"tokens":[1,2]%s}\n' "$rest" | rf-tokenize --format ids --vocab 9 -o have.rf 2>err
	cmp want.rf have.rf
	printf '{"pred":"x","answers":["x"],"task":"qa_1"%s}\n' "$rest" >in.jsonl
	[ "$(rf-score --each in.jsonl)" = '{"task":"qa_1","id":0,"score":1.0}' ]
	printf '{"question":"q?","answers":["x"],"context":"c x."%s}\n' "$rest" >q.jsonl
	rf-needle --task qa_1 --length 1k -n 1 --tokenizer bytes --qa q.jsonl | grep -q '"task":"qa_1"'
	printf '{"text":"a b c."%s}\n' "$rest" >h.jsonl
	rf-needle --task niah_single_2 --length 1k -n 1 --tokenizer bytes --haystack h.jsonl | grep -q niah
}

@test "lines: a NaN or an unpaired surrogate in a key that a program reads is an error that names the key" {
	bytes="rf-tokenize --bytes -o never"
	broken='a broken string (an unpaired surrogate)'
	printf '{"text":"a"}\n{"text":NaN,"x":{"y":-Infinity},"z":["\\udc00"]}\n' >a.jsonl
	refused "a.jsonl: line 2: 'text' is NaN, not a string" $bytes a.jsonl
	printf '{"text":"a","x":{"y":-Infinity},"z":["\\udc00"],"k":{"\\ud800":1}}\n' >a.jsonl
	refused "line 1: 'x': -Infinity cannot be kept in a record" $bytes --meta-key x a.jsonl
	refused "line 1: 'z': $broken cannot be kept in a record" $bytes --meta-key z a.jsonl
	refused "line 1: 'k': $broken cannot be kept in a record" $bytes --meta-key k a.jsonl
	refused "line 1: 'z' has $broken at index 0, not a string" \
		$bytes --prompt-key text --answers-key z a.jsonl
	printf '{"text":"a \\ud83d b"}\n' >a.jsonl
	refused "line 1: 'text' is $broken, not a string" $bytes a.jsonl
	printf '{"tokens":[1,NaN]}\n' >a.ids
	refused "line 1: 'tokens' has 'NaN' at index 1, not a token id" rf-tokenize --vocab 9 -o never a.ids
	printf '{"pred":"\\ud800","answers":["x"],"task":"qa_1","n":NaN}\n' >a.jsonl
	refused "a.jsonl: line 1: 'pred' is $broken, not a text" rf-score --partial a.jsonl
	said='(it is or has NaN, an infinity, an unpaired surrogate, a number out of range or a NUL in a key)'
	refused "$said" rf-score --by task,n a.jsonl
	printf '{"pred":"x","answers":["\\ud800"],"task":"qa_1"}\n' >a.jsonl
	refused "line 1: 'answers' has an element that is $broken, not a text" rf-score a.jsonl
	printf '{"question":"q?","answers":["\\ud800"],"context":"c"}\n' >q.jsonl
	refused "q.jsonl: line 1: 'answers' is $broken, not a string" \
		rf-needle --task qa_1 --length 1k -n 1 --tokenizer bytes --qa q.jsonl
	echo '{"text":"a"}' | rf-tokenize --bytes 2>err | rf-dump --json | sed 's/"id":0/"id":NaN/' >a.json
	refused "a.json: line 2: not JSON: byte 36 is 'N', where a value was expected" rf-cat --json a.json
	[ ! -e never ]
}

# blank FILE: prints the lines of the file with blank lines before, between and after them
blank() { awk 'BEGIN { print "" } { print; print " \t\r" } END { printf "\r\n\f\v\n  " }' "$1"; }

@test "lines: blank lines are skipped by every program that reads JSON lines" {
	printf '{"text":"ab"}\n{"text":"c"}\n' >a.jsonl
	printf '{"tokens":[1,2]}\n{"tokens":[3]}\n' >a.ids
	printf '{"pred":"x","answers":["x"],"task":"qa_1"}\n' >p.jsonl
	printf '{"question":"q?","answers":["x"],"context":"c x."}\n' >q.jsonl
	rf-tokenize --bytes a.jsonl 2>err | rf-dump --json >s.jsonl
	printf 'red\nblue\n' >w.jsonl
	seq -f 'noun%.0f' 100 | tr 0-9 a-j >>w.jsonl
	mkdir with
	for f in a.jsonl a.ids p.jsonl q.jsonl s.jsonl w.jsonl; do blank $f >with/$f; done
	for at in . with; do
		rf-tokenize --bytes -o $at/out.rf $at/a.jsonl 2>err
		rf-tokenize --vocab 9 -o $at/ids.rf $at/a.ids 2>err
		rf-score --each $at/p.jsonl >$at/scores
		rf-needle --task qa_1 --length 1k -n 1 --tokenizer bytes --qa $at/q.jsonl -o $at/qa
		rf-needle --task niah_single_2 --length 1k -n 1 --tokenizer bytes --haystack $at/a.jsonl \
			-o $at/hay
		rf-needle --task niah_single_1 --length 1k -n 1 --tokenizer bytes --nouns $at/w.jsonl \
			-o $at/words
		rf-cat --json -o $at/json.rf $at/s.jsonl
	done
	for f in out.rf ids.rf scores qa hay words json.rf; do cmp $f with/$f; done
}

@test "lines: blank lines count in the line numbers of messages and sources" {
	printf '\n{"text":"a"}\n \r\n{"text":1}\n' >a.jsonl
	refused "a.jsonl: line 4: 'text' is a number, not a string" rf-tokenize --bytes -o never a.jsonl
	sed 4d a.jsonl | rf-tokenize --bytes --source 2>err | rf-dump --json | grep -q '"source":"<stdin>:2"'
	printf '\n\n{"pred":1}\n' >a.jsonl
	refused "a.jsonl: line 3: the question has no 'depth' that is a text or a number" \
		rf-score --by depth a.jsonl
	printf '\t\n{}\n' >a.jsonl
	refused 'a.jsonl: line 2: the line is not {"seq":..,"type":..,"body":{..}}' rf-cat --json a.jsonl
	refused "a.jsonl: line 2: the key 'question' is missing" \
		rf-needle --task qa_1 --length 1k -n 1 --tokenizer bytes --qa a.jsonl
}

# records: prints the records of a stream as lines of JSON, without the head and the end
records() { rf-dump --json | grep '"type":"seq"'; }

# bad_lines: prints 9 lines, each bad in another way, for --prompt-key p --choices-key c --max-len 40
# --max-record 64k
bad_lines() {
	printf '{"p":"a"\n[]\n{"c":["x"]}\n{"p":1,"c":["x"]}\n'
	printf '{"p":"\\ud800","c":["x"]}\n{"p":"a\377","c":["x"]}\n'
	printf '{"p":"a","c":[""]}\n{"p":"%050d","c":["%050d"]}\n{"p":"a","c":["x"],"y":"%070000d"}\n' 0 0 0
}

@test "rf-tokenize: --skip-bad skips bad lines of all kinds, with any number of threads" {
	tokenize='rf-tokenize --bytes --prompt-key p --choices-key c --max-len 40 --truncate left'
	tokenize+=' --max-record 64k'
	bad_lines >bad
	for ((i = 0; i < 40; i++)); do
		printf '{"p":"prompt %d","c":["a","b%d"]}\n' $i $i >>good.jsonl
		sed -n "$((i + 1))p" good.jsonl
		((i % 4 != 3)) || sed -n "$((i / 4 + 1))p" bad
	done >all.jsonl
	[ "$(wc -l <all.jsonl)" -eq 49 ]
	$tokenize -o want.rf good.jsonl 2>want.err
	records <want.rf >want
	for threads in 1 2 3; do
		run -0 --separate-stderr $tokenize --skip-bad 9 --threads $threads -o have.rf all.jsonl
		records <have.rf | cmp - want
		rf-dump --head have.rf | grep -q -e '--skip-bad 9'
		said="all.jsonl: line 5: not JSON: it ends at byte 9, where ',' or '}' was expected"
		[ "${stderr_lines[0]}" = \
			"rf-tokenize: warning: $said; lines like this one are skipped (--skip-bad)" ]
		[ "${stderr_lines[1]}" = "$(cat want.err)" ]
		[ "${stderr_lines[2]}" = "rf-tokenize: 9 bad lines were skipped" ]
		run -65 --separate-stderr $tokenize --skip-bad 8 --threads $threads -o never all.jsonl
		[ "${#stderr_lines[@]}" -eq 2 ]
		[[ ${stderr_lines[1]} == "rf-tokenize: all.jsonl: line 45 is longer than 65536 bytes"* ]]
		[ ! -e never ]
	done
	says 0 "$(cat want.err)" $tokenize --skip-bad 5 -o have.rf good.jsonl
}

@test "--skip-bad: the error of a bad line names the option, unless the error names another one" {
	printf '{"text":"a"}\n{"text":1}\n{"question":"q","answers":["x"],"context":1}\n["a"]\n' >in.jsonl
	sed 's/^{"text".*/{"pred":"x","answers":["x"],"task":"qa_1"}/; 3s/.*/[]/' in.jsonl >scores.jsonl
	sed -n 3p in.jsonl >qa.jsonl
	hay='--haystack in.jsonl' hint=' (--skip-bad N passes over N such lines)'
	while IFS='|' read -r where command; do
		run -65 --separate-stderr $command
		[[ $stderr == rf-*": $where: "*"$hint" && ${#stderr_lines[@]} -eq 1 ]] ||
			{ echo "$command: $stderr"; return 1; }
	done <<-END
		in.jsonl: line 2|rf-tokenize --bytes -o never in.jsonl
		scores.jsonl: line 3|rf-score scores.jsonl
		in.jsonl: line 2|rf-needle --task niah_single_2 --length 1k -n 1 --tokenizer bytes $hay
		qa.jsonl: line 1|rf-needle --task qa_1 --length 1k -n 1 --tokenizer bytes --qa qa.jsonl
	END
	run -65 --separate-stderr rf-tokenize --bytes --skip-bad 1 -o never in.jsonl
	[[ ${stderr_lines[1]} == "rf-tokenize: in.jsonl: line 3: "*' (more bad lines than --skip-bad 1)' ]]
	run -65 --separate-stderr rf-tokenize --bytes --max-len 1 -o never in.jsonl
	[[ $stderr == *'(--truncate left, right or split cuts it)' ]]
}

@test "--skip-bad: rf-tokenize, rf-score and rf-needle fail if they read only bad lines" {
	printf '{"text":\n[]\n\n' >bad.jsonl
	run -65 --separate-stderr rf-tokenize --bytes --skip-bad 9 -o never bad.jsonl
	[ "${stderr_lines[-1]}" = "rf-tokenize: the input has nothing but bad lines: 2 (--skip-bad)" ]
	run -65 --separate-stderr rf-tokenize --bytes --skip-bad 9 --valid-every 3 --split valid -o never \
		bad.jsonl
	[ ! -e never ]
	run -65 --separate-stderr rf-score --skip-bad 9 bad.jsonl
	[ "${stderr_lines[-1]}" = "rf-score: the input has nothing but bad lines: 2 (--skip-bad)" ]
	run -65 --separate-stderr rf-score --check --skip-bad 9 bad.jsonl
	run -65 --separate-stderr rf-needle --tokenizer bytes --task qa_1 --length 600 --qa bad.jsonl \
		--skip-bad 9 -o never
	run -65 --separate-stderr rf-needle --tokenizer bytes --task niah_single_2 --length 600 \
		--haystack bad.jsonl --skip-bad 9 -o never
	# one good line is enough, even if its document is not written
	echo '{"text":"a"}' >>bad.jsonl
	rf-tokenize --bytes --skip-bad 9 --valid-every 3 --split train -o some.rf bad.jsonl 2>err
	# an input without lines is not an error
	rf-tokenize --bytes --skip-bad 9 -o none.rf --format jsonl /dev/null 2>err
}

@test "lines: a file compressed by another program than zstd is an error that names the program" {
	echo '{"text":"a","pred":"x","answers":["x"],"task":"t"}' >in.jsonl
	gzip <in.jsonl >gzip.jsonl
	printf '\xfd7zXZ\0 rest' >xz.jsonl
	printf 'BZh91AY&SY rest' >bzip2.txt
	printf '\x04\x22\x4d\x18 rest' >lz4.jsonl.zst
	for file in *[z24].*; do
		said="$file: compressed with ${file%%.*}: decompress it, or compress it with zstd"
		for program in 'rf-tokenize --bytes --skip-bad 9 -o never' 'rf-score --skip-bad 9'; do
			[[ $file != *.txt || $program != rf-score* ]] || continue
			says 65 "${program%% *}: $said" $program "$file"
		done
	done
	says 65 "...<stdin>: compressed with gzip: ..." rf-score --format jsonl - <gzip.jsonl
	printf 'BZh is a word\n' | rf-tokenize --bytes --format text -o text.rf 2>err
}

@test "rf-tokenize: a file with the suffix of another compressor than zstd is an error that names it" {
	echo '{"text":"a"}' >good.jsonl
	while read -r suffix program; do
		gzip <good.jsonl >"in.$suffix"
		run -65 --separate-stderr rf-tokenize --bytes -o never good.jsonl "in.$suffix"
		said="compressed with $program, by its suffix: decompress it, or compress it with zstd"
		[ "$stderr" = "rf-tokenize: in.$suffix: $said" ] || { echo "$stderr"; return 1; }
		run -66 --separate-stderr rf-tokenize --bytes -o never "nowhere.$suffix"
	done <<-'END'
		jsonl.gz gzip
		txt.bz2 bzip2
		xz xz
		ids.lz4 lz4
	END
	[ ! -e never ]
	# --format counts instead of the suffix
	cp good.jsonl plain.gz
	rf-tokenize --bytes --format jsonl -o plain.rf plain.gz 2>err
}

@test "rf-tokenize: --skip-bad skips no damaged or missing file, and no text file that is too long" {
	printf '{"text":"a"}\n' | zstd -q >cut.jsonl.zst
	truncate -s -3 cut.jsonl.zst
	run -65 --separate-stderr rf-tokenize --bytes --skip-bad 9 -o never cut.jsonl.zst
	printf 'a long text' >a.txt
	run -65 --separate-stderr rf-tokenize --bytes --skip-bad 9 --max-len 4 -o never a.txt
	[[ $stderr == "rf-tokenize: a.txt: the document has 12 tokens, more than --max-len 4"* ]]
	run -66 --separate-stderr rf-tokenize --bytes --skip-bad 9 -o never nowhere.jsonl
	[ ! -e never ]
}

@test "rf-tokenize: --skip-bad divides the documents of --valid-every as if bad lines did not exist" {
	for ((i = 0; i < 12; i++)); do
		echo "{\"text\":\"$i\"}" >>good.jsonl
		echo "{\"text\":\"$i\"}"
		((i % 5)) || echo '{"text":'
	done >all.jsonl
	for split in train valid; do
		rf-tokenize --bytes --valid-every 3 --split $split good.jsonl 2>err | records >want
		rf-tokenize --bytes --valid-every 3 --split $split --skip-bad 3 all.jsonl 2>err |
			records | cmp - want
	done
}

@test "rf-score: --skip-bad scores the good lines as if bad lines did not exist" {
	good='{"pred":"x","answers":["x","y"],"task":"qa_1"}'
	{
		echo "$good"
		printf '%s\n' '{"pred":"x"' '{"pred":"x","answers":["x"],"task":"other"}' \
			'{"pred":"x","task":"vt"}'
		echo "$good" | sed 's/"x"/"z"/'
		printf '%s\n' '{"answers":["x"],"task":"vt"}' '{"pred":"x","answers":[1],"task":"qa_1"}'
	} >in.jsonl
	grep '"y"' in.jsonl | rf-score --format jsonl >want
	run -0 --separate-stderr rf-score --skip-bad 5 in.jsonl
	[ "$output" = "$(cat want)" ]
	[[ ${stderr_lines[0]} == "rf-score: warning: in.jsonl: line 2: not JSON: "*" skipped (--skip-bad)" ]]
	[ "${stderr_lines[1]}" = "rf-score: 5 bad lines were skipped" ]
	[ "$(rf-score --check --skip-bad 9 in.jsonl 2>err)" = "$(rf-score --check <(sed '2,4d;7d' in.jsonl) \
		--format jsonl)" ]
	refused "in.jsonl: line 7: 'answers' has an element that is a number, not a text" \
		bash -c 'rf-score --skip-bad 4 in.jsonl 2>err ||
			{ code=$? && tail -n 1 err >&2 && exit $code; }'
	run -64 --separate-stderr rf-score --skip-bad 1 --against in.jsonl in.jsonl
	[[ $stderr == "rf-score: --skip-bad cannot be combined with --against, which pairs lines"* ]]
	says 64 "rf-score: --skip-bad is for JSON lines: in.rf is a stream..." rf-score --skip-bad 1 in.rf
}

@test "rf-needle: --skip-bad uses no part of a bad line in the prompts" {
	question='{"question":"q%d?","answers":["x%d"],"paragraphs":["c%d x.","d%d y."],"title":"t"}\n'
	for i in 1 2 3; do printf "$question" $i $i $i $i; done >good.jsonl
	{
		sed -n 1p good.jsonl
		echo '{"question":"bad","answers":["b"],"paragraphs":["wrong",1],"title":"t"}'
		sed -n 2,3p good.jsonl
		echo '{"question":"bad","answers":[],"context":"wrong"}'
	} >all.jsonl
	needle="rf-needle --task qa_1 --length 600 -n 3 --tokenizer bytes"
	$needle --qa good.jsonl >want
	run -65 $needle --skip-bad 1 --qa all.jsonl
	$needle --skip-bad 2 --qa all.jsonl 2>err | cmp - want
	grep -qx 'rf-needle: 2 bad lines were skipped' err
	printf '{"text":"one two."}\n{"text":"three four."}\n' >good.jsonl
	sed '1a {"text":NaN}' good.jsonl >all.jsonl
	needle="rf-needle --task niah_single_2 --length 600 -n 3 --tokenizer bytes"
	$needle --haystack good.jsonl >want
	$needle --skip-bad 1 --haystack all.jsonl 2>err | cmp - want
	grep -qx 'rf-needle: 1 bad line was skipped' err
}

# table: prints a skippable frame like that at the end of the seekable format: a table of 1 frame
table() { printf '\136\052\115\030\021\0\0\0\01\02\03\04\05\06\07\010\01\0\0\0\0\261\352\222\217'; }

@test "lines: files with skippable zstd frames are decompressed under any name and from standard input" {
	printf '{"text":"ab"}\n{"text":"c"}\n' >a.jsonl
	rf-tokenize --bytes -o want.rf a.jsonl 2>err
	{ table; head -n 1 a.jsonl | zstd -q; table; table; tail -n 1 a.jsonl | zstd -q; table; } \
		>p.jsonl
	cp p.jsonl p.jsonl.zst
	for how in p.jsonl p.jsonl.zst '<p.jsonl'; do
		eval "rf-tokenize --bytes -o have.rf $how" 2>err
		cmp have.rf want.rf
	done
	printf 'plain text' >b.txt
	{ table; zstd -qc b.txt; } >c.txt
	rf-tokenize --bytes b.txt 2>err | cmp - <(rf-tokenize --bytes c.txt 2>err)
	if type pzstd; then
		pzstd -qc b.txt >d.txt
		rf-tokenize --bytes b.txt 2>err | cmp - <(rf-tokenize --bytes d.txt 2>err)
	fi
	printf '{"pred":"x","answers":["x"],"task":"qa_1"}\n' >s.jsonl
	{ table && zstd -qc s.jsonl; } | rf-score --format jsonl --each | grep -q '"score":1.0'
	printf '{"text":"a b c."}\n' >h.jsonl
	{ table; zstd -qc h.jsonl; table; } >i.jsonl
	needle="rf-needle --task niah_single_2 --length 1k -n 1 --tokenizer bytes --haystack"
	$needle h.jsonl | cmp - <($needle i.jsonl)
	table | head -c 20 >cut.jsonl
	refused "cut.jsonl: truncated: it ends inside a zstd frame" rf-tokenize --bytes -o never cut.jsonl
}

@test "lines: a stream with skippable frames reads the same, whole, in ranges and through a pipe" {
	printf '{"text":"ab"}\n{"text":"c"}\n{"text":"d"}\n' | rf-tokenize --bytes -o a.rf 2>err
	{ table; table; cat a.rf; table; } >b.rf
	rf-dump --json a.rf >want
	rf-dump --json b.rf | cmp - want
	rf-dump --json <b.rf | cmp - want
	cat b.rf | rf-dump --json | cmp - want
	rf-dump --check b.rf
	rf-cat b.rf | cmp - a.rf
	for range in 0:2 1: 2:3 3: :0; do
		rf-cat --range $range b.rf | cmp - <(rf-cat --range $range a.rf)
	done
	rf-cat --json <({ table && rf-dump --json a.rf | zstd -q; }) | same_messages a.rf
	head -c -1 b.rf >cut.rf
	refused "(the stream was cut, or its writer died)" rf-dump --check cut.rf
	{ cat b.rf; printf x; } >more.rf
	refused "bytes follow it" rf-dump --check more.rf
}

@test "lines: a truncated last line of a log is removed, and a whole one gets its newline" {
	load ../model
	cp -a "$M" start
	rf-init --from start run
	printf '{"tokens":[1,2,3]}\n' | rf-tokenize --vocab 40 --format ids -o t.rf 2>err
	printf '{"step":0,"loss/ntp":5.9' >log
	rf-ntp -m run --threads 1 --log log t.rf
	[ "$(jq -c .records log)" = 1 ]
	printf '{"step":9}' >log
	rf-ntp -m run --threads 1 --log log t.rf
	[ "$(jq -c .step log | paste -sd' ')" = '9 1' ]
	printf '{"step":9}\n{"st' >log
	rf-ntp -m run --threads 1 --log log t.rf
	[ "$(jq -c .step log | paste -sd' ')" = '9 2' ]
	# a power loss may leave NULs
	for cut in '' '{"step":8' '{"step":8}'; do
		printf '{"step":9}\n%s\0\0\0' "$cut" >log
		rf-ntp -m run --threads 1 --log log t.rf
		[ "$(jq -c .step log | paste -sd' ')" = "9 $((++steps + 2))" ]
	done
	# lines longer than the block size of the reader, truncated and whole
	for before in '' '{"step":8}'; do
		: >big
		old=$(jq -c .step <<<"$before")${before:+ }
		[ -z "$before" ] || echo "$before" >big
		printf '{"step":7,"text":"' >>big
		head -c 2198900 /dev/zero | tr '\0' 0 >>big
		cp big log
		rf-ntp -m run --threads 1 --log log t.rf
		[ "$(jq -c .step log | paste -sd' ')" = "$old$((++steps + 2))" ]
		cp big log
		echo -n '"}' >>log
		rf-ntp -m run --threads 1 --log log t.rf
		[ "$(jq -c .step log | paste -sd' ')" = "${old}7 $((++steps + 2))" ]
	done
	printf '{"step":9}\n{"step":2}\n' >log
	# no newline is added to a complete line, an empty file or a file that cannot be read
	rf-ntp -m run --threads 1 --log log t.rf
	[ "$(wc -l <log)" -eq 3 ]
	: >empty
	rf-ntp -m run --threads 1 --log empty t.rf
	[ "$(wc -l <empty)" -eq 1 ]
	mkfifo fifo
	cat fifo >got &
	rf-ntp -m run --threads 1 --log fifo t.rf
	wait
	[ "$(wc -l <got)" -eq 1 ]
}

@test "lines: eval-step.sh drops a truncated line, and evaluates its step again" {
	mkdir -p run/step-000004
	echo data >valid.rf
	printf '{"step":0,"nll":3}\n{"step":2,"nll":2}\n{"step":4,"nl' >run/eval.jsonl
	RUN=run EVAL=valid.rf EVALUATE='echo "{\"nll\":1}"; :' MODEL=run STEP=run/step-000004 AT=4 \
		BATCH=1 EVERY=1 "$ROOT/pipelines/lib/eval-step.sh"
	diff run/eval.jsonl <(printf '{"step":%d,"nll":%d}\n' 0 3 2 2 4 1)
}
