#!/usr/bin/env bats
# Formats: this build reads the streams and runs of every release since 0.2 (t/golden/release-*), and refuses
# those of a newer format.
setup() {
	load ../helper
	load ../release
	newest=$(printf '%s\n' "$G"/release-* | sort -V | tail -n 1)
	reads='but this version of rf-tools reads format' advice='use a newer version'
}

# each_release FUNCTION [COMPARE]: calls the function in a copy of each release, and compares the files that
# it writes to got with those of the release
each_release() {
	local release file
	for release in "$G"/release-*; do
		rm -rf work
		cp -a "$release" work
		chmod -R u+w work
		cd work
		mkdir got
		"$1"
		# only read_by_python compares by itself
		[ "$1" = read_by_python ] ||
			diff <(ls got) <(ls "expected/$1" | sed 's/\.zst$//')
		for file in $(cd "expected/$1" 2>/dev/null && echo *); do
			unpack "expected/$1/$file" want
			"${2:-near}" "got/${file%.zst}" want || {
				echo "${release##*/}: $1: $file"
				return 1
			}
		done
		cd ..
	done
}
unpack() { if [ "$1" = "${1%.zst}" ]; then cp "$1" "$2"; else zstd -dcq "$1" >"$2"; fi; }

# near GOT WANT: succeeds if two tables, or lists of JSON objects, differ by at most 1e-6 + 1e-4 of the wanted
# value in each number.  Objects in GOT may have more keys.
near() {
	case $1 in
	*.tsv) paste -d '\n' "$1" "$2" | awk -F '\t' '
		function abs(x) { return x < 0 ? -x : x }
		function differ(x, y) {
			return x y ~ /^[-+.e0-9]+$/ ? abs(x - y) > 1e-6 + 1e-4 * abs(y) : x != y
		}
		NR % 2 { n = split($0, got); next }
		n != NF { bad = 1 }
		{
			for (i = 1; i <= NF; i++)
				if (differ(got[i], $i)) {
					print "line " NR / 2 ": " got[i] " instead of " $i
					bad = 1
				}
		}
		END { exit bad || NR % 2 }' ;;
	*) jq -en --slurpfile got "$1" --slurpfile want "$2" '
		def differences($w; $at):
			if ($w | type) == "number" and type == "number" then
				select((. - $w | fabs) > 1e-6 + 1e-4 * ($w | fabs)) | [$at, ., $w]
			elif ($w | type) == "object" and type == "object" then
				. as $g | $w | keys[] as $k | $g[$k] | differences($w[$k]; $at + [$k])
			elif ($w | type) == "array" and type == "array" and ($w | length) == length then
				. as $g | range(0; length) as $i | $g[$i] | differences($w[$i]; $at + [$i])
			else select(. != $w) | [$at, ., $w] end;
		[$got | differences($want; [])]
		| if . == [] then true else .[:3] | tojson | error end' >/dev/null ;;
	esac
}

@test "formats: rf-cat and rf-dump read the streams of every release as the same text and tables" {
	each_release read_streams cmp
}

# read_by_python: compares the values of every stream that Python reads with those that rf-dump shows
read_by_python() {
	local file
	for file in *.rf; do
		rf-dump --json "$file" | python3 -c '
import json, sys, numpy, rftools
from rftools.record import FIELDS

def plain(x):
    if isinstance(x, numpy.ndarray):
        return {"dtype": x.dtype.str, "shape": list(x.shape), "data": x.ravel().tolist()}
    return {k: plain(v) for k, v in x.items()} if isinstance(x, dict) else x

def same(x, y, known=None):
    if isinstance(x, dict):
        assert list(x) == list(y), (list(x), list(y))
        assert known is None or set(x) <= {field[0] for field in FIELDS[known]}, list(x)
        for key in x:
            same(x[key], y[key], key if known and key in FIELDS else None)
    elif isinstance(x, list) and x and isinstance(x[0], float):
        assert numpy.array_equal(numpy.float32(x), numpy.float32(y)), (x, y)
    else:
        assert x == y, (x, y)

stream = rftools.read(sys.argv[1])
lines = [json.loads(line)["body"] for line in sys.stdin]
same(plain(stream.head), lines[0])
for record, line in zip(list(stream), lines[1:-1], strict=True):
    same(plain(record), line, "record")' "$file" || { echo "$file"; return 1; }
	done
}
@test "formats: the Python package reads the streams of every release" {
	export PYTHONPATH=$ROOT/python PYTHONDONTWRITEBYTECODE=1
	python3 -c 'import msgpack, numpy, xxhash, zstandard' 2>/dev/null ||
		skip "its dependencies are missing"
	each_release read_by_python
}

@test "formats: every stage reads the streams of every release, with the same figures" {
	each_release run_stages
}

@test "formats: rf-dump shows the runs of every release, rf-ntp evaluates them and rf-init exports them" {
	each_release look_at_runs
}

@test "formats: rf-loop and the trainers continue the runs of every release to the same weights" {
	each_release continue_runs
}

# newer STREAM: prints the stream with the next number of the format
newer() {
	local frames
	frames=$("$RF_UNITS/helper/lab" frames "$1" | wc -l)
	"$RF_UNITS/helper/lab" pick "$1" 0 | zstd -dcq | sed 's/\xa6format\x01/\xa6format\x02/' >head
	zstd -qc head
	# shellcheck disable=SC2046  # numbers
	"$RF_UNITS/helper/lab" pick "$1" $(seq 1 $((frames - 1)))
}
@test "formats: every program refuses a stream of a newer format with one line" {
	cp -a "$newest/run-gated" run
	newer "$newest/trained.rf" >new.rf
	zstd -tq new.rf
	for command in rf-cat rf-dump 'rf-dump --check' 'rf-dump --json' 'rf-dump --head' 'rf-dump --tsv' \
		'rf-dump --html' rf-select rf-reward 'rf-reward --exec cat' rf-score 'rf-entropy -m run' \
		'rf-rollout -m run' 'rf-rollout -m run --score' 'rf-generate -m run' 'rf-logp -m run' \
		'rf-grpo -m run' 'rf-ntp -m run' 'rf-ntp --eval -m run' 'rf-step -m run'; do
		program=${command%% *}
		says 65 "$program: new.rf: head (byte 0): the stream has format 2, $reads 1 ($advice)" \
			$command new.rf
	done
	says 65 "rf-loop: ...new.rf: ...the stream has format 2, ..." \
		rf-loop -m loop --from run --data new.rf -- true
	rf-dump --json "$newest/trained.rf" | sed '1s/"format":1/"format":2/' >lines
	says 65 "rf-cat: lines: line 1: the stream has format 2, ..." rf-cat --json lines
}

@test "formats: every program that reads a run refuses a newer format with one line, and changes nothing" {
	cp -a "$newest/run-gated" run
	cp -a run ok
	cp -a "$newest/run" loop
	cp -a "$newest"/*.rf .
	sed -i 's/"format": 2/"format": 3/' run/step-*/state.json loop/step-*/state.json
	rm -f run/.lock
	cp -a run before
	for command in 'rf-dump run' 'rf-dump --check run' 'rf-dump --json run' \
		'rf-dump --tsv --rows step run' 'rf-init --from run other' 'rf-entropy -m run tokens.rf' \
		'rf-rollout -m run trained.rf' 'rf-rollout -m run --score trained.rf' \
		'rf-generate -m run tokens.rf' 'rf-logp -m run choices.rf' 'rf-grpo -m run trained.rf' \
		'rf-ntp -m run tokens.rf' 'rf-ntp --eval -m run tokens.rf' 'rf-step -m run tokens.rf' \
		'rf-step -m run --dry-run tokens.rf' 'rf-ntp -m run --weights-out other tokens.rf' \
		'rf-step -m ok --kl-coef 1 --reference run tokens.rf' \
		'rf-loop -m new --from run --data corpus.rf -- true'; do
		says 78 "${command%% *}: ...state.json: the run has format 3, $reads 2 ($advice)" $command
	done
	rm -f run/.lock
	diff -r --no-dereference before run
	rm -r run
	mv loop run
	says 78 "rf-loop: ...state.json: the run has format 3, ..." loop 3
}

@test "formats: programs pass over keys of a manifest and of a log that they do not know" {
	cp -a "$newest"/{corpus.rf,run} .
	sed -i 's/^{/{"novel":{"x":[1]},/' run/manifest.json run/log.jsonl
	rf-dump run >shown
	rf-dump --tfevents events run
	loop 3
	jq -se '.[0].novel == {x: [1]}' run/manifest.json >/dev/null
}

@test "formats: rf-loop refuses a word of a run that it does not know, and shows it" {
	cp -a "$newest"/{corpus.rf,run} .
	sed -i 's/^seed=/novel=yes\n&/' run/data/words
	run -65 loop 3
	like "$output" "...< novel=yes...run/data/words: the run was started with other settings..."
}
