#!/bin/bash
# curves.sh -- the program of curves.mk, with its words in the environment.
set -euo pipefail
export LC_ALL=C
lib=$(cd -- "$(dirname -- "$0")" >/dev/null && pwd)
tool=curves
# shellcheck source=pipelines/lib/picture.sh
. "$lib/picture.sh"
# shellcheck source=pipelines/lib/files.sh
. "$lib/files.sh"

# ---- words ---------------------------------------------------------------------------------

# parts_of_runs: sets `part_of` to the number of the name or pattern in RUNS for each run; to nothing if
# blanks do not separate them, as in a name in quotes
parts_of_runs() {
	local words i number=() all=()
	# shellcheck disable=SC2153  # a word of curves.mk
	read -ra words <<<"$RUNS" || :
	for i in "${!words[@]}"; do
		files_of RUNS "${words[i]}" 2>/dev/null || return 0
		all+=("${files[@]}")
		number+=("${files[@]/*/$i}")
	done
	[ "${all[*]@Q}" != "${runs[*]@Q}" ] || part_of=("${number[@]}")
}

# items WORD: splits a word at its semicolons into `list`, one name for each run, without blanks around it.
# The word has a name for each run, or GROUP a name for each part of RUNS.
items() {
	local rest=${!1}\; part i named=()
	list=()
	while [ -n "$rest" ]; do
		part=${rest%%;*}
		rest=${rest#*;}
		part=${part#"${part%%[! ]*}"}
		part=${part%"${part##*[! ]}"}
		[ -n "$part" ] || die 64 "$1='${!1}': a name between its semicolons is empty"
		[[ $part != *[[:cntrl:]]* ]] || die 64 "$1='${!1}': a name has a control character"
		list+=("$part")
	done
	[ ${#list[@]} -ne ${#runs[@]} ] || return 0
	part_of=()
	[ "$1" != GROUP ] || parts_of_runs
	if [ ${#part_of[@]} -eq 0 ] || [ $((part_of[-1] + 1)) -ne ${#list[@]} ]; then
		die 64 "$1='${!1}' has ${#list[@]} names, but RUNS has ${#runs[@]} runs: one for each," \
			"with semicolons between$([ "$1" != GROUP ] ||
				echo ', or one for each pattern in RUNS')"
	fi
	for i in "${part_of[@]}"; do named+=("${list[i]}"); done
	list=("${named[@]}")
}

check_gnuplot
# shellcheck disable=SC2153  # a word of curves.mk
files_of RUNS "$RUNS"
runs=("${files[@]}")
for run in "${runs[@]}"; do
	[[ $run != *[[:cntrl:]]* ]] ||
		die 64 "RUNS: the name of the run $run has a control character: rename it"
done
[ -z "$LABELS" ] || [ -z "$GROUP" ] || die 64 'LABELS and GROUP cannot be combined: a group is named by GROUP'
names=("${runs[@]}")
if [ -n "$LABELS$GROUP" ]; then
	if [ -n "$GROUP" ]; then items GROUP; else items LABELS; fi
	names=("${list[@]}")
fi
# the names of the curves, and for each run the number of its curve
curves=() curve=() base=0
for i in "${!runs[@]}"; do
	for ((s = 0; s < ${#curves[@]}; s++)); do
		[ "${curves[s]}" != "${names[i]}" ] || break
	done
	if [ "$s" -lt ${#curves[@]} ] && [ -z "$GROUP" ]; then
		die 64 "'${names[i]}' names two curves${LABELS:+ of LABELS}: GROUP= draws several runs as one"
	fi
	curves[s]=${names[i]}
	curve+=($((s + 1)))
	[ "$BASELINE" != "${names[i]}" ] && [ "$BASELINE" != "${runs[i]}" ] || base=$((s + 1))
done
[ -z "$BASELINE" ] || [ "$base" -gt 0 ] ||
	die 64 "BASELINE='$BASELINE' is not one of RUNS, LABELS or GROUP"

# ---- numbers -------------------------------------------------------------------------------

# numbers FILE: prints step, figure and value for each figure of a line; the name of a reward has its kind.  A
# log may have lines twice, if a batch was trained again after a kill; the last line counts.
# shellcheck disable=SC2094  # the name of the file is for messages
numbers() {
	jq -nrR -L "$lib" --arg file "$1" 'include "shown";
		def stop($n; $what): ("curves: \($file): line \($n): \($what)" | shown) + "\n"
			| halt_error(65);
		foreach inputs as $text (0; . + 1; . as $n | select($text | test("^[ \t\r]*$") | not)
		| $text | (try if test("\u0000") then error else fromjson end catch stop($n;
			"not a line of JSON, as after a kill while it was written: remove it"))
		| if type != "object" or (.step | type) != "number" then
			stop($n; "there is no number \"step\"") else . end
		| .step as $step | (."reward/kind" // "" | tostring | gsub("[^-A-Za-z0-9_.+]"; "_")) as $kind
		| if $file | endswith("/eval.jsonl") then
			["1 nll", .nll], ["2 accuracy", .accuracy],
			["3 ntp_accuracy", .ntp_accuracy // .probability],
			["4 held-out reward " + $kind, ."reward/mean"]
		else
			["5 loss", ."loss/ntp"], ["6 reward " + $kind, ."reward/mean"]
		end
		| select(.[1] | type == "number")
		| if .[1] | isnan or isinfinite then .[0] = "0" else . end
		| [$step, .[0], .[1]] | map(tostring) | join("\t"))' <"$1"
}

# about RUN: prints the command that made its lines, and size and hash of the held-out file
about() { sed -n '/^EVALUATE=/p; s/^\([0-9]* bytes, sha256 [0-9a-f]*\).*/\1/p' <"$1/eval.words"; }

# rollouts RUN: prints how the rollouts of the rewards in its lines were drawn
rollouts() { sed -n 's/^eval_line=//; s/ | rf-reward .*//; 1p' <"$1/eval-reward.words"; }

# rollout_words RUN: prints the two stages that drew the rollouts of the rewards in its lines
# shellcheck disable=SC2016  # the variables of the line stay as they are
rollout_words() { rollouts "$1" | sed 's/^rf-cat [^|]*| //; s/ -m "$1".*//'; }

first='' drawn='' left_out=''
for i in "${!runs[@]}"; do
	run=$(plain "${runs[i]}")
	[ -e "$run/latest" ] ||
		die 66 "${runs[i]} is not a run (blanks in RUNS separate runs; a name with a blank stands" \
			"in quotes)"
	for file in "$run"/{eval.jsonl,log.jsonl,eval.words,eval-reward.words}; do
		[ ! -e "$file" ] || [ -f "$file" ] || die 66 "$(shown "$file") is not a regular file"
	done
	if [ -n "$EVAL" ]; then
		RUN=$run "$lib/eval-step.sh" check
		for step in "$run"/step-*; do
			[[ ${step##*/} =~ ^step-[0-9]+$ ]] || continue
			at=$((10#${step##*-}))
			RUN=$run STEP=$step AT=$at "$lib/eval-step.sh" only
		done
	fi
	[ -e "$run/eval.jsonl" ] || [ -e "$run/log.jsonl" ] ||
		die 66 "$run has neither eval.jsonl nor log.jsonl: EVAL=valid.rf writes the first"
	[ -e "$run/eval.words" ] || continue
	first=${first:-$run}
	[ "$(about "$run")" = "$(about "$first")" ] ||
		die 65 "$first and $run were evaluated on different texts, or by another EVALUATE," \
			"so they cannot be compared"
	[ -e "$run/eval-reward.words" ] || continue
	drawn=${drawn:-$run}
	if [ -n "$left_out" ] || [ "$(rollouts "$run")" = "$(rollouts "$drawn")" ]; then continue; fi
	left_out=1
	say "$drawn and $run have held-out rewards of rollouts that were drawn in other ways" \
		"($(rollout_words "$drawn"); $(rollout_words "$run")):" \
		'these rewards are left out of the figure' \
		'(runs with another N or K need the same EVAL_SELECT and EVAL_ROLLOUT)'
done

out=$(plain "$OUT")
mkdir -p -- "$out"
out=$(CDPATH='' cd -- "$out" && pwd)
tmp=$out/curves.tmp
rm -rf "$tmp"
mkdir "$tmp"
trap 'rm -rf "$tmp"' EXIT

# run, figure, step, value
for i in "${!runs[@]}"; do
	run=$(plain "${runs[i]}")
	for file in "$run/eval.jsonl" "$run/log.jsonl"; do
		[ -e "$file" ] || continue
		numbers "$file" >"$tmp/file"
		awk -F '\t' '$2 != "0"' <"$tmp/file"
		lost=$(awk -F '\t' '$2 == "0" { n++ } END { print n + 0 }' <"$tmp/file")
		[ "$lost" -eq 0 ] ||
			say "$file: $lost of its values are NaN or infinite and are left out"
	done >"$tmp/run"
	[ -s "$tmp/run" ] || die 66 "$run has no numbers to draw: its eval.jsonl and log.jsonl have no" \
		"loss, accuracy or reward yet (train it, or EVAL=valid.rf)"
	awk -F '\t' -v OFS='\t' -v i=$((i + 1)) '{ value[$2 OFS $1] = $3 }
		END { for (key in value) print i, key, value[key] }' <"$tmp/run" >>"$tmp/numbers"
done

# the files used from here on have fixed names, so no program takes a name for an option
here=$PWD
cd "$tmp"
printf '%s\n' "${runs[@]}" >runs
printf '%s\n' "${curves[@]}" | captions 40 >names
printf '%s\n' "${curve[@]}" >groups
{
	printf 'run\tstep\tnll\taccuracy\tntp_accuracy\tloss\treward\tkind\theld_out_reward\theld_out_kind\n'
	awk -F '\t' -v OFS='\t' '
		function cell(column) { return OFS ((key, column) in value ? value[key, column] : "NaN") }
		{
			split($2, figure, " ")
			kind = $2
			sub(/^[0-9] (held-out )?reward ?/, "", kind)
			seen[$1 OFS $3]
			value[$1 OFS $3, figure[1]] = $4
			if (kind != $2 && kind != "")
				value[$1 OFS $3, figure[1] "kind"] = kind
		}
		END {
			for (key in seen)
				print key cell(1) cell(2) cell(3) cell(5) cell(6) cell("6kind") cell(4) \
					cell("4kind")
		}' numbers | sort -t $'\t' -k 1,1n -k 2,2n | awk -F '\t' -v OFS='\t' '
		FNR == NR { run[FNR] = $0; next }
		{ $1 = run[$1]; print }' runs -
} >curves.tsv

# a panel for each figure, in the order of their names
cut -f 2 numbers | sort -u | sed "${left_out:+/^4 /d}" >figures
[ -s figures ] || die 65 'nothing is left to draw'
kinds=$(sed -n 's/^4 held-out reward //p' figures | paste -sd' ')
[[ $kinds != *' '* ]] ||
	say "held-out rewards are of several kinds ($kinds), each with its own panel:" \
		"EVAL_REWARD='rf-reward --kind cosine' gives all runs the same kind"
sed -E 's/^1 .*/held-out loss, nats/; s/^2 .*/held-out accuracy (arg max)/
	s/^3 .*/held-out NTP accuracy (drawn)/; s/^4 held-out reward /held-out reward: /
	s/^5 .*/training loss, nats/; s/^6 reward /training reward: /; s/: $//' figures | captions 60 >panels
[ "$base" -eq 0 ] || sed -i "s/\$/, difference/" panels
training=$(grep -nm 1 '^[56]' figures | cut -d : -f 1 || :)
awk -F '\t' -v OFS='\t' 'FNR == NR { panel[$0] = FNR; next }
	$2 in panel { $2 = panel[$2]; print }' figures numbers |
	sort -t $'\t' -k 2,2n -k 1,1n -k 3,3n |
	awk -v panels="$(wc -l <panels)" -v training="${training:-99}" -v smooth="$SMOOTH" -v base="$base" \
		-v band="$BAND" -f "$lib/curves.awk"
# gnuplot warns of a constant curve
BASE=$base gnuplot "$lib/style.gp" "$lib/curves.gp" 2>said || {
	cat said >&2
	exit 70
}

# ---- the page ------------------------------------------------------------------------------

# newest: prints the last line of each run that has a value, as rows of a table
newest() {
	awk -F '\t' '
		NR == 1 { next }
		{
			if (!($1 in step))
				runs[++n] = $1
			step[$1] = $2
			for (i = 3; i <= 9; i++)
				if ($i != "NaN" && $i != "")
					value[$1, i] = $i
		}
		END {
			for (r = 1; r <= n; r++) {
				printf "%s\t%s", runs[r], step[runs[r]]
				for (i = 3; i <= 9; i++)
					if (i != 8)
						printf "\t%s", (runs[r], i) in value ? value[runs[r], i] : ""
				print ""
			}
		}' curves.tsv | while IFS=$'\t' read -r name rest; do
		printf '| %s | %s |\n' "$(markdown "$name")" "${rest//$'\t'/ | }"
	done
}

# with_rollouts: prints the newest kept stream of the first run that has one
with_rollouts() {
	local run file
	for run in "${runs[@]}"; do
		run=$(cd -- "$here" && cd -- "$run" && pwd)
		file=$(find "$run/streams" -maxdepth 1 -name 'step-*.rf' 2>/dev/null | sort | tail -n 1)
		[ -z "$file" ] || {
			printf '%s\n' "$file"
			return
		}
	done
}

[ "$FORMAT" = png ] || FORMAT=png BASE=$base gnuplot "$lib/style.gp" "$lib/curves.gp" 2>said || {
	cat said >&2
	exit 70
}
{
	printf '# Curves of %d runs\n\n![curves](curves.png)\n\nThe newest value of each figure:\n\n' \
		${#runs[@]}
	echo '| run | step | nll | accuracy | ntp_accuracy | loss | reward | held_out_reward |'
	echo '|---|---|---|---|---|---|---|---|'
	newest
} >report.md
stream=$(with_rollouts)
if [ -n "$stream" ]; then
	"$lib/sample-page.sh" rollout "${stream%/streams/*}" rollouts.html "$stream"
fi
"$lib/page.sh" report.md report.html ${stream:+rollouts.html}
mv curves.tsv "$out/curves.tsv"
mv "curves.$FORMAT" "$out/curves.$FORMAT"
rm -f "$out/curves.html"
[ ! -e report.html ] || mv report.html "$out/curves.html"
say "$OUT/curves.$FORMAT, $OUT/curves.tsv$([ ! -e "$out/curves.html" ] || echo ", $OUT/curves.html")"
