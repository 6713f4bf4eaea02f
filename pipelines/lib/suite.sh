#!/bin/bash
# suite.sh -- the program of evaluate.mk, with its words in the environment: questions, answers by rf-loop,
# scores, report.  A file under its final name in RUN is complete, so it is not made again.
#
# suite.sh accept -- the last command of rf-loop's line
set -euo pipefail
export LC_ALL=C
lib=$(cd -- "$(dirname -- "$0")" >/dev/null && pwd)
# shellcheck source=pipelines/lib/files.sh
. "$lib/files.sh"
# shellcheck source=pipelines/lib/shown.sh
. "$lib/shown.sh"

say() { printf '%s: %s\n' "$PHASE" "$*" >&2; }
die() {
	local status=$1
	shift
	say "$*"
	exit "$status"
}

# Tasks that rf-needle makes without files, of an essay, of questions.
alone=niah_single_1,niah_multikey_2,niah_multikey_3,vt,cwe,fwe
essay=niah_single_2,niah_single_3,niah_multikey_1,niah_multivalue,niah_multiquery
documents=qa_1,qa_2

# ---- which questions -----------------------------------------------------------------------

# needle_tasks: prints the tasks of TASK, or if it is empty those whose files were given
needle_tasks() {
	local tasks=$TASK task left=
	if [ -z "$tasks" ]; then
		tasks=$alone${HAYSTACK:+,$essay}${QA:+,$documents}
		[ -n "$HAYSTACK" ] || left+=" $essay (HAYSTACK=file)"
		[ -n "$QA" ] || left+=" $documents (QA=file)"
		[ -z "$left" ] || say "left out, for lack of a file:$left"
	elif [ "$tasks" = all ]; then
		tasks=$alone,$essay,$documents
	fi
	for task in ${tasks//,/ }; do
		[ -n "$HAYSTACK" ] || [[ ,$essay, != *",$task,"* ]] ||
			die 64 "$task needs a text to hide needles in: HAYSTACK=file"
		[ -n "$QA" ] || [[ ,$documents, != *",$task,"* ]] || die 64 "$task needs questions: QA=file"
	done
	printf '%s\n' "$tasks"
}

# run_noted NAME COMMAND WORD...: runs the command with these words, and keeps its messages in $RUN/NAME
run_noted() {
	local status=0
	bash -eu -o pipefail -c "$2"' "$@"' "$1" "${@:3}" 2>"$RUN/$1" || status=$?
	in_words <"$RUN/$1" >&2
	return "$status"
}

# make_needles TASKS: makes the questions of SUITE=needle
make_needles() {
	local options=(--task "$1" --length "${LENGTH:-4k}" -n "$SAMPLES" --seed "$SEED" --tokenizer "$MODEL")
	local file
	for file in ${haystack[@]+"${haystack[@]}"}; do options+=(--haystack "$file"); done
	for file in ${qa[@]+"${qa[@]}"}; do options+=(--qa "$file"); done
	# tasks of TASK must fit; otherwise those that do not fit are skipped
	[ -n "$TASK" ] && [ "$TASK" != all ] || options+=(--skip-short)
	run_noted made "$NEEDLE" "${options[@]}" -o "$RUN/questions.jsonl.zst"
}

# ruler_task FILE, ruler_length FILE: print the task and the length that the last fitting part of its path
# names
ruler_task() {
	local part task
	[ -z "$TASK" ] || { printf '%s\n' "$TASK"; return; }
	while read -r part; do
		for task in ${alone//,/ } ${essay//,/ } ${documents//,/ }; do
			[[ $part =~ ^$task([-_.]|$) ]] || continue
			printf '%s\n' "$task"
			return
		done
	done < <(tr / '\n' <<<"$1" | tac)
	die 64 "$(shown "$1"): neither file nor folder has the name of one of RULER's tasks: TASK=name"
}
ruler_length() {
	local length=$LENGTH part
	while [ -z "$length" ] && read -r part; do
		part=${part%.zst}
		part=${part%.jsonl}
		[[ ! $part =~ (^|[-_.])([0-9]+[kM]|[0-9]{3,})$ ]] || length=${BASH_REMATCH[2]}
	done < <(tr / '\n' <<<"$1" | tac)
	[[ $length =~ ^[1-9][0-9]{0,11}[kM]?$ ]] ||
		die 64 "$(shown "$1"): no folder has the length as its name: LENGTH=4k"
	case $length in
	*k) length=$((${length%k} * 1024)) ;;
	*M) length=$((${length%M} * 1048576)) ;;
	esac
	printf '%s\n' "$length"
}

# convert_lines FILE...: prints the lines of the files as suite.jq makes them
convert_lines() {
	local file task length n
	for file; do
		task=$TASK length=
		if [ "$SUITE" = ruler ]; then
			task=$(ruler_task "$file")
			length=$(ruler_length "$file")
		fi
		# jq would replace the characters
		n=$({ zstd -dcqf -- "$file" || true; } 2>/dev/null |
			{ LC_ALL=C.UTF-8 grep -naxvm 1 '.*' || true; } | cut -d : -f 1)
		[ -z "$n" ] || die 65 "$(shown "$file"): line $n: this is no UTF-8"
		zstd -dcqf -- "$file" | jq -cnR -L "$lib" --arg suite "$SUITE" --arg file "$file" \
			--arg task "$task" --arg length "$length" --arg max_new "$MAX_NEW" \
			-f "$lib/suite.jq"
	done
}

# in_words: replaces options of the programs in messages by words of evaluate.mk
in_words() {
	sed -E "s/name (one|a metric) with --metric/METRIC= names one, such as METRIC=f1/
		s/the key '(task)' is missing.*/& (TASK=name gives all questions a task)/"
}

# can_score: stops if rf-score cannot score the tasks of these lines of JSON
can_score() {
	local said status=0
	said=$(score --format jsonl --check 2>&1 >/dev/null) || status=$?
	[ "$status" -eq 0 ] ||
		die "$status" "$(sed -E '1s/^rf-score: (<stdin>: line [0-9]+: )?//' <<<"$said" | in_words)"
}

# list_tasks FILE...: prints a line of JSON for each task that lines of these files name, with its classes
list_tasks() {
	local file
	for file; do zstd -dcqf -- "$file"; done | jq -cnR '
		reduce (inputs | try fromjson catch empty | objects
		| {task: (.task // .dataset // .data_source), all_classes, answers: ["x"]}
		| select(.task | type == "string")) as $line ({}; .[$line.task] //= $line) | .[]'
}

make_questions() {
	local lines=("$RUN/questions.jsonl.zst")
	case $SUITE in
	needle) [ -e "${lines[0]}" ] || make_needles "$tasks" ;;
	files) lines=("${data[@]}") ;;
	*)
		if [ ! -e "${lines[0]}" ]; then
			convert_lines "${data[@]}" | zstd -1qc >"${lines[0]}.tmp"
			mv -- "${lines[0]}.tmp" "${lines[0]}"
		fi
		;;
	esac
	if [[ $SUITE = files && ${lines[-1]} = *.rf ]]; then
		rf-cat -o "$RUN/questions.rf" -- "${lines[@]}"
	else
		case $SUITE in
		files) [ -n "$TASK" ] || list_tasks "${lines[@]}" | can_score ;;
		longbench) list_tasks "${lines[@]}" | can_score ;;
		esac
		run_noted tokenized "$TOKENIZE" -o "$RUN/questions.rf" -- "${lines[@]}"
	fi
}

# ---- answers -------------------------------------------------------------------------------

# model_of FILE: prints the weights that made its answers
model_of() { rf-dump --head "$1" | grep '^model' || echo none; }

# accept: renames a batch's answers from NEW to OUTPUT, if the weights that made them also made the others
accept() {
	local other
	for other in "$RUN"/answers/batch-*.rf; do
		[ ! -e "$other" ] || [ "$(model_of "$NEW")" = "$(model_of "$other")" ] ||
			die 65 "$(shown "$(<"$RUN/step")") has other weights than when the first questions" \
				'were answered: use the same, or another RUN'
		break
	done
	mv "$NEW" "$OUTPUT"
}

# link_weights: links the files of the run's step into RUN/weights until all questions are answered, because
# the run may remove the step meanwhile.  If the file system has no hard links, the step itself is read.
link_weights() {
	local new=$RUN/.weights.tmp-$$
	if [ ! -e "$MODEL/latest" ] || [ -e "$RUN/weights" ]; then return 0; fi
	cp -al -- "$step" "$new" 2>/dev/null && [ -e "$new/config.json" ] && mv -- "$new" "$RUN/weights"
	rm -rf -- "$new"
}

# find_weights: sets weights, the folder of the weights
find_weights() {
	[ ! -e "$step/config.json" ] || link_weights
	weights=$RUN/weights
	[ -e "$weights" ] || weights=$step
	[ -e "$weights/config.json" ] ||
		die 66 "$(shown "$step") is gone, by which the first questions were answered:" \
			"name another RUN for the newest step, or restore this one"
}

# answer_questions: answers the batches that have no answers yet.  The name of the file NEW tells rf-loop that
# the file is incomplete
answer_questions() {
	local n batches left weights='' line
	n=$(rf-dump --tsv --rows record --columns record --no-header "$RUN/questions.rf" | wc -l)
	[ "$n" -gt 0 ] || die 65 "there are no questions"
	batches=$(((n + BATCH - 1) / BATCH))
	mkdir -p "$RUN/answers"
	left=$((batches - $(find "$RUN/answers" -name 'batch-*.rf' | wc -l)))
	if [ "$left" -gt 0 ]; then
		score --check "$RUN/questions.rf" >/dev/null
		find_weights
	fi
	# shellcheck disable=SC2016  # the line's own variables
	local answer=$GENERATE' -m "$WEIGHTS" $COMPUTE -o "$NEW"'
	# shellcheck disable=SC2016
	line='rf-cat --range "$FROM:$TO" "$ORDER" | '$answer' && "$SUITE_SH" accept'
	WEIGHTS=$weights NEW=$RUN/answers/.batch-new.tmp-0 SUITE_SH=$lib/suite.sh \
		rf-loop -m "$RUN" --data "$RUN/questions.rf" --order file --epochs 1 --batch "$BATCH" --rest \
		--outputs answers --count outputs --stop-status 0 --phase "$PHASE" -- "$line"
	# the file stop in RUN has ended the loop
	[ "$(cut -f 1 "$RUN/data/status")" -ne 75 ] || exit 0
	rm -rf "$RUN/weights"
}

# ---- scores --------------------------------------------------------------------------------

# score OPTION...: runs rf-score with the words of the evaluation
score() {
	local options=(--rules "$RULES")
	[[ " $* " = *' --format jsonl '* ]] || options+=(--by "$BY")
	[ -z "$METRIC" ] || options+=(--metric "$METRIC")
	[ -z "$TASK" ] || [ "$SUITE" != files ] || options+=(--task "$TASK")
	rf-score "${options[@]}" "$@"
}

write_scores() {
	local against=()
	[ -z "$AGAINST" ] || against=(--against "$AGAINST/answers")
	score ${against[@]+"${against[@]}"} "$RUN"/answers/batch-*.rf >"$RUN/scores.jsonl.tmp"
	score --each --show depth "$RUN"/answers/batch-*.rf >"$RUN/each.jsonl.tmp"
	mv "$RUN/scores.jsonl.tmp" "$RUN/scores.jsonl"
	mv "$RUN/each.jsonl.tmp" "$RUN/each.jsonl"
}

if [ "${1:-}" = accept ]; then
	accept
	exit
fi

# ---- all of it -----------------------------------------------------------------------------

command -v gnuplot >/dev/null || die 69 'gnuplot is not installed (install gnuplot-nox)'
# shellcheck disable=SC2153  # a word of evaluate.mk
files_of DATA "$DATA"
data=(${files[@]+"${files[@]}"})
files_of HAYSTACK "$HAYSTACK"
haystack=(${files[@]+"${files[@]}"})
[ ${#haystack[@]} -le 1 ] || die 64 "HAYSTACK='$HAYSTACK': it must be one text"
files_of QA "$QA"
qa=(${files[@]+"${files[@]}"})
tasks=
[ "$SUITE" != needle ] || tasks=$(needle_tasks)
[ -e "$MODEL/latest" ] || [ -e "$MODEL/config.json" ] || die 66 "MODEL=$MODEL: no checkpoint or run"
[ -z "$AGAINST" ] || [ -f "$AGAINST/scores.jsonl" ] ||
	die 66 "AGAINST=$AGAINST: no scores of an evaluation"
# before anything is made: METRIC must exist, and TASK must have one
case $SUITE in
needle | ruler) can_score <<<'{"task": "vt", "answers": ["x"]}' ;;
*) [ -z "$TASK" ] || can_score <<<"$(jq -nc --arg task "$TASK" '{$task, answers: ["x"]}')" ;;
esac
[ ! -e "$RUN" ] || [ -e "$RUN/.evaluation" ] || [ -z "$(ls -A "$RUN")" ] ||
	die 65 "$RUN: it exists but is not an evaluation"
mkdir -p "$RUN"
exec 9>"$RUN/.evaluation" # locked by this script and by all programs that it starts
flock -n 9 || {
	say "waiting for another evaluation that works on $RUN"
	flock 9
}
rm -rf -- "$RUN"/.*.tmp-*
check_same() {
	# shellcheck disable=SC2086  # several names
	"$lib/check.sh" words "$RUN/words" MODEL $FIXED -- ${data[@]+"${data[@]}"} \
		${haystack[@]+"${haystack[@]}"} ${qa[@]+"${qa[@]}"}
}
answered=("$RUN"/answers/batch-*.rf)
if [ ! -e "${answered[0]}" ] && ! check_same 2>/dev/null; then
	# words may change until the first answer
	rm -rf "$RUN"/{words,step,made,tokenized,questions.rf,questions.jsonl.zst,data}
fi
check_same
# A run may train on and remove old steps while this links the newest one.
if [ ! -e "$RUN/step" ] || {
	[ ! -e "${answered[0]}" ] && [ ! -e "$RUN/weights" ] && [ ! -e "$(<"$RUN/step")/config.json" ]
}; then
	rm -rf "$RUN/weights"
	for _ in 1 2 3 4 5; do
		step=$MODEL
		[ ! -e "$MODEL/latest" ] || step=$MODEL/$(readlink -- "$MODEL/latest")
		link_weights
		if [ -e "$RUN/weights" ] || [ -e "$step/config.json" ]; then break; fi
	done
	printf '%s\n' "$step" >"$RUN/step.tmp"
	mv "$RUN/step.tmp" "$RUN/step"
fi
step=$(<"$RUN/step")

[ -e "$RUN/questions.rf" ] || make_questions
answer_questions
write_scores
"$lib/suite-report.sh" "$RUN"
sed -n '/^|/p' "$RUN/report.md"
say "the report is $RUN/report.md$([ ! -e "$RUN/report.html" ] ||
	echo ", and for a browser $RUN/report.html")"
