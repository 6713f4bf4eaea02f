#!/usr/bin/env bats
# rftools, the package in python/: reads, writes and tabulates streams.  Its reader is compared with the
# reader in C, and its tables with those of rf-dump.

setup_file() {
	load ../helper
	export PYTHONPATH=$ROOT/python PYTHONDONTWRITEBYTECODE=1 P=$BATS_FILE_TMPDIR
	has msgpack numpy xxhash zstandard || return 0
	cd "$P"
	tiny_model
	head -c 1500 "$ROOT/README.md" >a.txt
	printf 'été 日本 \\ \t "q" ' >>a.txt
	printf x >b.txt
	printf 'é日%.0s' {1..48} >c.txt # a prefix of 40 tokens may begin inside a character
	printf '%s\n' '{"q": "Is it?", "c": ["yes indeed", "no\n"], "a": ["yes", "\\"]}' \
		'{"q": "A \"b\"", "c": ["one", "two"], "a": ["one"]}' >q.jsonl
	{
		rf-tokenize --tokenizer ckpt --max-len 256 --truncate split -o tokens.rf {a,b,c}.txt
		rf-entropy -m ckpt tokens.rf | rf-select -o positions.rf
		rf-rollout -m ckpt -n 3 positions.rf -o rollouts.rf
		rf-reward --kind hybrid --per-token rollouts.rf -o rewards.rf
		rf-tokenize --bytes --prompt-key q --choices-key c --answer-prefix ' ' q.jsonl |
			rf-logp -m ckpt -o choices.rf
		rf-tokenize --bytes --prompt-key q --answers-key a q.jsonl |
			rf-generate -m ckpt -n 2 --max-new 12 | rf-score --task q --metric f1 -o answers.rf
	} >log 2>&1 || { cat log; return 1; }
}

setup() {
	load ../helper
	has msgpack numpy xxhash zstandard ||
		skip "Python's msgpack, numpy, xxhash or zstandard is not installed"
}

# has MODULE...: succeeds if Python has these modules
has() {
	python3 -c 'import importlib.util, sys
sys.exit(not all(map(importlib.util.find_spec, sys.argv[1:])))' "$@"
}

# copied FILE: prints the stream that rftools writes when it copies the records of FILE
copied() {
	python3 -c 'import rftools, sys
stream = rftools.read(sys.argv[1])
rftools.write("-", stream, like=stream, tool="copy", options={"n": 1})' "$1"
}
# as_copied FILE: prints the messages of a stream, with the stage that `copied` appends and without the hash
as_copied() {
	rf-dump --json "$1" | jq -c --argjson last "${2:-null}" 'if .type == "head" then
		.body.history += [$last // empty] else del(.body.xxh64) end' | jq -cS .
}
# odd: makes streams with parts of rewards, ends of rollouts, values per token, records without some keys,
# and strings that need an escape
odd() {
	cat >parts.py <<-'END'
		import json, sys
		next(sys.stdin)
		for line in sys.stdin:
		    body = json.loads(line)["body"]
		    c, n, k = body["rollout"]["tokens"]["shape"]
		    part = lambda x: [[x + i + j / 3 for j in range(n)] for i in range(c)]
		    name = "later" if body["id"] % 2 else "x"
		    parts = {"brevity": part(0.1), "count": part(7), name: part(3)}
		    print(json.dumps({"id": body["id"], "total": part(1), "parts": parts}), flush=True)
	END
	rf-reward --exec 'python3 parts.py' "$P/rollouts.rf" -o parts.rf
	rf-dump --json parts.rf | jq -c '(.body.rollout.tokens.shape[:2]) as $s | if .seq == 2 then
			.body.rollout.length = {dtype: "<i4", shape: $s,
				data: [range($s[0] * $s[1]) | . % 5 + 1]}
			| .body.source = "a\\b\tc\u202e\n" | .body.advantage_per_token = .body.rollout.logp
			| .body.rollout.logp_ref = .body.rollout.logp
			| .body.rollout.kept = (.body.rollout.logp | .data |= map(exp))
			| .body.mine = {x: [1.5, {dtype: "<f2", shape: [0], data: []}], y: {base64: "AAE="}}
		elif .seq == 3 then del(.body.reward) | .body.source = "" | .body.prompt_len = 3
		elif .seq == 4 then del(.body | .positions, .rollout, .reward, .entropy, .nll, .source)
		else . end' | rf-cat --json -o odd.rf
	# token 900 is not in the vocabulary of bytes
	rf-dump --json odd.rf | jq -c 'if .type == "head" then .body.vocab = 1000
		elif .type == "seq" then .body.tokens.data[0] = 900 else . end' | rf-cat --json -o high.rf
	rf-dump --json odd.rf | jq -c 'if .type == "head" then .body.tokenizer.kind = "other" else . end' |
		rf-cat --json -o numbers.rf
}

@test "rftools: a stream that Python reads and writes has the same messages, and rf-dump --check accepts it" {
	odd
	stage='{"tool": "copy", "version": "'$(version)'", "options": {"n": 1}}'
	for f in "$P"/*.rf "$G"/stream/*.rf *.rf; do
		copied "$f" >copy
		rf-dump --check -q copy
		cmp <(as_copied copy) <(as_copied "$f" "$stage")
	done
}

@test "rftools: a record whose keys are in another order is written in the order of the page" {
	rf-dump --json "$P/rewards.rf" | jq -c 'if .type == "seq" then .body |= (to_entries | reverse
		| from_entries) else . end' | rf-cat --json -o turned.rf
	copied turned.rf | rf-dump --json | jq -c 'select(.seq == 1).body | keys_unsorted' >order
	rf-cat "$P/rewards.rf" | rf-dump --json | jq -c 'select(.seq == 1).body | keys_unsorted' | cmp - order
}

@test "rftools: the programs accept a stream that Python wrote, with the same results" {
	copied "$P/rollouts.rf" >copy
	for f in copy "$P/rollouts.rf"; do
		rf-init --from "$P/ckpt" run 2>/dev/null
		rf-reward --kind cosine "$f" | rf-grpo -m run --at 0 --mini-batch 2 2>/dev/null
		cksum <run/latest/model.safetensors >>weights
		rm -r run
	done
	[ "$(sort -u weights | wc -l)" -eq 1 ]
}

@test "rftools: refuses the streams that the reader in C refuses, damaged or against a rule, in its words" {
	RF_KEEP=kept unit rules
	# all exchanges of frames, and one of 9973 damages of bytes
	RF_KEEP=kept unit stream $((${RF_ALL:+1} + 0 ? 97 : 9973)) "$G"/stream/{tokens,rewarded}.rf
	run -0 python3 "$ROOT/t/helper/refusals.py" kept
	[ "${output%% *}" -gt 3000 ]
}

@test "rftools: refuses frames and messages above the limits, as the programs do" {
	python3 - <<-'END'
		import msgpack, zstandard
		zstd = zstandard.ZstdCompressor(level=1, write_checksum=True)
		head = lambda body: msgpack.packb([0, "head", {"format": 1, **body}])
		frame = lambda descriptor, rest: b"\x28\xb5\x2f\xfd" + descriptor + rest
		cases = {"blocks": frame(b"\xa4", (8 << 20).to_bytes(4, "little") + b"\x09\0\0x1234"),
		         "many": frame(b"\x64", b"\0\0" + 9999 * b"\0\0\0" + b"\x01\0\0" b"1234"),
		         "values": zstd.compress(head({"x": [1] * 99990})) + zstd.compress(b"\x93\1\2"),
		         "toomany": zstd.compress(head({"x": [1] * 99993}))}
		for name, data in cases.items():
		    open(name + ".rf", "wb").write(data)
	END
	while IFS='|' read -r name want; do
		says 65 "rf-cat: $name.rf: $want" rf-cat --max-record 9M -o out $name.rf
		mentions 1 "StreamError: $name.rf: $want" \
			python3 -c "import rftools; list(rftools.read('$name.rf', max_record=9 << 20))"
	done <<-'END'
		blocks|head (byte 0): the record claims 8388608 bytes, but its blocks hold at most 1
		values|record 1 (byte ...): bad msgpack at byte 0 ...: a list or map claims ...
		toomany|head (byte 0): bad msgpack at byte ...: more than 100000 values in one message
	END
	says 65 "rf-cat: many.rf: ...the frame has more bytes than --max-record allows..." \
		rf-cat --max-record 4k -o out many.rf
	mentions 1 "many.rf: head (byte 0): the frame has more bytes than max_record allows" \
		python3 -c "import rftools; rftools.read('many.rf', max_record=4096)"
}

@test "rftools: an error names file, place and reason, and stays an error when reading continues" {
	head -c -20 "$P/tokens.rf" >$'cut\e.rf'
	python3 - >out <<-'END'
		import rftools
		stream = rftools.read("cut\x1b.rf")
		for again in range(2):
		    try:
		        print(sum(1 for _ in stream))
		    except rftools.StreamError as error:
		        print(error)
		        print(error.file == "cut\x1b.rf", error.record, error.place, error.reason[:22])
	END
	run -65 --separate-stderr rf-dump --check $'cut\e.rf'
	[ "$(sed -n 1p out)" = "${stderr#rf-dump: }" ]
	like "$(sed -n 2p out)" 'True 9 record 9 (byte ...) the frame is truncated'
	diff <(sed 1,2d out) <(sed 2q out)
	for input in 'some text' '' '{"seq":0}'; do
		printf %s "$input" >in
		mentions 1 'StreamError: in: ' python3 -c 'import rftools; rftools.read("in")'
	done
	mentions 1 "FileNotFoundError: ...'nowhere'" python3 -c 'import rftools; rftools.read("nowhere")'
	mentions 1 'more than the limit of 99 (raise max_record)' \
		python3 -c 'import rftools, sys; rftools.read(sys.argv[1], max_record=99)' "$P/tokens.rf"
}

@test "rftools: a frame has the columns and values of rf-dump for rows of each kind, with each engine" {
	has pandas || has polars || skip "neither pandas nor polars is installed"
	odd
	run -0 python3 "$ROOT/t/helper/tables.py" "$P"/*.rf *.rf "$G"/stream/*.rf
	echo "# $output" >&3
}

@test "rftools: a frame refuses unknown rows, columns and engines" {
	has pandas || has polars || skip "neither pandas nor polars is installed"
	f=$P/rewards.rf
	frame() { python3 -c "import rftools, sys; rftools.frame(sys.argv[1], $1)" "$f"; }
	mentions 1 "ValueError: rows: 'tensor' is not one of auto, record, " frame 'rows="tensor"'
	mentions 1 "ValueError: columns: unknown column 'rewrd'; the columns are " frame 'columns=["rewrd"]'
	mentions 1 "unknown column 'reward'; the columns are " frame 'rows="token", columns=["reward"]'
	mentions 1 "ValueError: engine: 'excel' is neither pandas nor polars" frame 'engine="excel"'
	f=$P/tokens.rf
	mentions 1 "ValueError: columns: unknown column 'brevity'" frame 'columns=["brevity"]'
	frame 'columns=["reward.brevity"]'
}

@test "rftools: to_parquet writes the rows of a frame, and a decoder shows tokens as text" {
	has pandas pyarrow || skip "pandas or pyarrow is not installed"
	python3 - "$P/rewards.rf" <<-'END'
		import sys
		import pandas
		import rftools
		frame = rftools.frame(sys.argv[1], rows="position", decode=lambda ids: f"<{len(ids)}>\n")
		assert set(frame.truth) == {"<5>\\n"}, frame.truth
		for batch in 1, 7, 10000:
		    n = rftools.to_parquet(sys.argv[1], "rows.parquet", rows="rollout", batch=batch)
		    want = rftools.frame(sys.argv[1], rows="rollout", engine="pandas")
		    assert n == len(want) > 7
		    found = pandas.read_parquet("rows.parquet")
		    assert (found.fillna("") == want.fillna("")).all(axis=None)
	END
	[ "$(ls -A)" = rows.parquet ]
}

@test "rftools: a record above 100 MiB is read, written and read again" {
	head -c 30000000 /dev/zero | tr '\0' a | rf-tokenize --bytes --format text -o big.rf
	copied big.rf >copy.rf
	rf-dump --check -q copy.rf
	run -0 python3 -c 'import rftools; print(*(r["tokens"].nbytes for r in rftools.read("copy.rf")))'
	[ "$output" = 120000004 ]
}

@test "rftools: a stage runs in a pipeline, appends itself to the history, and keeps a share" {
	cat >double.py <<-'END'
		import rftools
		def double(record):
		    print("seen", record["id"])
		    if "reward" in record:
		        reward = {**record["reward"], "total": 2 * record["reward"]["total"]}
		        rftools.replace(record, "reward", reward)
		    return record
		rftools.stage("double.py", double, {"factor": 2, "how": "each"})
	END
	rf-cat --shard 1/2 --mini-batch 2 "$P/rewards.rf" -o share.rf
	rf-cat share.rf | python3 double.py 2>err | rf-dump --json >out
	rf-dump --json share.rf >in
	[ "$(jq -c 'select(.seq == 0).body.history[-1]' out)" = \
		'{"tool":"double.py","version":"'$(version)'","options":{"factor":2,"how":"each"}}' ]
	[ "$(jq -c 'select(.seq == 0).body.shard' out)" = "$(jq -c 'select(.seq == 0).body.shard' in)" ]
	jq -en --slurpfile a out --slurpfile b in '[$a, $b | map(.body.reward.total.data // [] | .[])]
		| transpose | length > 9 and all(.[0] - 2 * .[1] | fabs < 1e-6)'
	grep -q '^seen ' err
}

@test "rftools: a stage whose input is damaged, or whose record is bad, writes no end record" {
	echo 'import rftools; rftools.stage("mine.py", lambda record: record)' >mine.py
	cat >bad.py <<-'END'
		import rftools, sys
		def bad(record):
		    record[sys.argv[1]] = eval(sys.argv[2])
		    return record
		rftools.stage("bad.py", bad)
	END
	head -c -1 "$P/tokens.rf" >cut
	says 65 'mine.py: <stdin>: record 9 (byte ...): the frame is truncated (...' \
		bash -c 'python3 mine.py <cut >out'
	mentions 65 'the end record is missing' rf-dump --check out
	says 65 'mine.py: <stdin>: the stream is empty ...' python3 mine.py </dev/null
	bad() { python3 bad.py "$1" "$2" <"$P/tokens.rf" 2>&1 >out; }
	while IFS='|' read -r key value want; do
		run -70 bad "$key" "$value"
		like "$output" "bad.py: <stdout>: record $want"
		mentions 65 'the end record is missing' rf-dump --check out
	done <<-'END'
		entropy|[1.0, 2.0]|1: entropy has the shape (2) where (256) was expected
		entropy|[float("nan")] * 256|1: entropy is NaN (number 0)
		tokens|[1.5] * 256|1: tokens does not have the dtype <i4, but <f8
		tokens|[2**31] * 256|1: tokens has a number that is not below 2^31
		tokens|[[1], [1, 2]]|1: tokens is not an array: its rows have different lengths
		source|None|1: record: 'source' is nil: leave out a key whose value is not known
		source|"\ud800"|1: 'utf-8' codec can't encode character '\ud800' in position 0: ...
		id|7|2: id 7 occurs twice
		meta|{"x": float("inf")}|1: bad msgpack at byte ...: a number is NaN or infinite
		meta|{"x": {1, 2}}|1: a value of the type set has no form in a stream
		meta|{"x": __import__("numpy").zeros(3)}|1: an array has the dtype <f8, not one of <f4, ...
		reward|{"kind": "x", "total": [[1]]}|1: the record has a reward but no rollout
	END
	says 70 'none.py: <stdout>: record 1: it is None (does the function return the record?)' bash -c \
		'python3 -c "import rftools; rftools.stage(\"none.py\", lambda record: None)" <"$1" >out' \
		_ "$P/tokens.rf"
	says 74 'mine.py: <stdout>: No space left on device' \
		bash -c 'python3 mine.py <"$1" >/dev/full' _ "$P/tokens.rf"
	python3 mine.py <"$P/rollouts.rf" 2>err | head -c 1 >/dev/null
	[ ! -s err ]
}

@test "rftools: a file that a failed write would replace stays as it was, and nothing else is left" {
	mkdir dir
	echo old >dir/out.rf
	for fail in 'raise KeyError' 'yield {"id": 1}' 'yield from rftools.read("cut")'; do
		head -c -1 "$P/tokens.rf" >cut
		run -1 python3 - "$P/tokens.rf" <<-END
			import rftools, sys
			def records():
			    yield from rftools.read(sys.argv[1])
			    $fail
			rftools.write("dir/out.rf", records(), like=sys.argv[1])
		END
		[ "$(ls -A dir)$(cat dir/out.rf)" = out.rfold ]
	done
	# a stream of which only the beginning is written must be whole
	run -1 python3 -c 'import rftools
stream = rftools.read("cut")
rftools.write("dir/out.rf", [next(stream)], like=stream)'
	[ "$(ls -A dir)$(cat dir/out.rf)" = out.rfold ]
	umask 027
	ln -s out.rf dir/link
	python3 -c 'import rftools; rftools.write("dir/link", [], head={"vocab": 7})'
	[ "$(stat -c '%a %F' dir/link) $(cat dir/out.rf)" = '640 regular file old' ]
	stage='{"tool":"rftools","version":"'$(version)'","options":{}}'
	[ "$(rf-dump --head --json dir/link | jq -c .body)" = \
		'{"format":1,"vocab":7,"history":['"$stage"']}' ]
	mkfifo pipe
	rf-dump --check pipe >checked &
	python3 -c 'import rftools; rftools.write("pipe", [{"id": 0, "tokens": [1, 2]}])'
	wait $!
	grep -q '1 record' checked
}

@test "overlap.py: rewards rollouts by tokens that the text has too, and rf-grpo trains on them" {
	python3 "$ROOT/python/examples/overlap.py" <"$P/rollouts.rf" >rewarded.rf
	rf-dump --json rewarded.rf | jq -c 'select(.body.rollout).body | .tokens.data as $t
		| .positions.data as $s | .rollout.tokens as $x | $x.shape as [$c, $n, $k]
		| [range($c) as $i | range($n) as $r
		| reduce $x.data[($i * $n + $r) * $k:][:$k][] as $token ({left: $t[$s[$i]:][:$k], n: 0};
			(.left | index($token)) as $at
			| if $at then .n += 1 | del(.left[$at]) else . end) | .n / $k]' >want
	rf-dump --json rewarded.rf | jq -c 'select(.body.reward).body.reward.total.data' >found
	near='[$a, $b | flatten] | transpose | length > 9 and all(.[0] - .[1] | fabs < 1e-6)'
	jq -en --slurpfile a found --slurpfile b want "$near"
	grep -q '0\.[2-8]' want
	rf-init --from "$P/ckpt" run 2>/dev/null
	rf-grpo -m run --at 0 --mini-batch 2 rewarded.rf 2>/dev/null
	[ -e run/step-000001 ] || [ "$(readlink run/latest)" != step-000000 ]
}

@test "leave_one_out.py: computes the advantages of my_advantage.py" {
	python3 "$ROOT/python/examples/leave_one_out.py" <"$P/rewards.rf" >ours.rf
	rf-dump --json "$P/rewards.rf" | python3 "$ROOT/pipelines/examples/my_advantage.py" |
		rf-cat --json >theirs.rf
	for f in ours theirs; do
		rf-dump --json $f.rf | jq -c '.body.advantage.data // empty' >$f
	done
	[ "$(wc -l <ours)" -gt 3 ]
	near='[$a, $b | flatten] | transpose | all(.[0] - .[1] | fabs < 1e-6)'
	jq -en --slurpfile a ours --slurpfile b theirs "$near"
	rf-rollout -m "$P/ckpt" -n 1 "$P/positions.rf" | rf-reward 2>/dev/null |
		says 1 'leave_one_out.py: n must be at least 2 (rf-rollout -n 4)' \
			python3 "$ROOT/python/examples/leave_one_out.py"
}

@test "kept.ipynb: runs from its first cell to the last one" {
	has nbclient nbformat ipykernel pandas || skip "jupyter or pandas is not installed"
	export KEPT=$P/rewards.rf
	python3 - "$ROOT/python/examples/kept.ipynb" 2>log <<-'END' || { cat log; return 1; }
		import sys
		import nbclient
		import nbformat
		nbclient.NotebookClient(nbformat.read(sys.argv[1], 4), timeout=100).execute()
	END
	rf-dump --check -q ranked.rf
}

@test "rftools: the examples of its README run" {
	has pandas pyarrow datasets || skip "pandas, pyarrow or datasets is not installed"
	cp "$P/rewards.rf" kept.rf
	sed -n '/^```python$/,/^```$/p' "$ROOT/python/README.md" | grep -v '^```' >readme.py
	HF_HOME=$PWD/hf HF_HUB_OFFLINE=1 python3 readme.py >out 2>log || { cat log; return 1; }
	rf-dump --check -q mine.rf
	# the rewards of the example are 1 for an equal first token
	rf-dump --json mine.rf | jq -es '[.[].body | select(.reward) | .reward.total.data == [
		.rollout.tokens as {data: $tokens, shape: [$c, $n, $k]}
		| range(0; $c * $n * $k; $k) as $j
		| if $tokens[$j] == .tokens.data[.positions.data[$j / ($n * $k) | floor]]
			then 1 else 0 end]] | all and length > 0' >equal
	[ -s kept.parquet ]
}

@test "rftools: pip installs the package, which then works without the folder of the sources" {
	has setuptools pip wheel || skip "Python's setuptools, pip or wheel is not installed"
	cp -r "$ROOT/python" source
	python3 -m pip install -q --no-index --no-deps --no-build-isolation -t there ./source >log 2>&1 ||
		{ cat log; return 1; }
	cd there
	[ "$(PYTHONPATH=$PWD python3 -c 'import rftools; print(rftools.__version__, rftools.__file__)')" = \
		"0.1 $PWD/rftools/__init__.py" ]
}
