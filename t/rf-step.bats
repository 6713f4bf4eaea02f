#!/usr/bin/env bats
# rf-step: the bytes of the pipeline of five programs, commits, memory.  With ranks and on the GPU, too.
setup() {
	load helper
	load model
	load ranks
}

# What most tests train with: short texts have several segments, and two positions each.
ways=(--chunks 2 --margin 3 -k 3 --lr 1e-3 --segment 64)

# Sixteen texts of tokens below VOCAB whose ids do not ascend; one has one token, one is too short for positions.
sixteen() {
	texts "${1:-40}" 9:50 2:90 7:9 4:33 15:41 6:70 17:4 8:12 3:30 10:22 1:51 12:1 13:44 5:20 11:25 16:66
}
# count FILE: prints the number of its records
count() { rf-dump --tsv --rows record --columns id --no-header "$1" | wc -l; }

# share_out OPTION...: gives each option of rf-step to those programs of the pipeline that have the option, by
# the arrays choose, rollout, reward, trainer and model; batch is the value of --batch
share_out() {
	local drawn=() words command=''
	choose=() rollout=() reward=() trainer=() model=() batch=128
	while [ $# -gt 0 ]; do
		words=("$1" "${2:-}")
		case $1 in
		--strict | --eos | --text | --no-hidden | --no-std | --allow-single | --log-gradients)
			words=("$1")
			;;
		esac
		shift ${#words[@]}
		case ${words[0]} in
		--batch) batch=${words[1]} ;;
		--commit-every) ;;
		--chunks | --smooth | --tau | --mode | --margin | --strict) choose+=("${words[@]}") ;;
		-k) choose+=("${words[@]}") rollout+=("${words[@]}") ;;
		-n | --temperature | --top-[pk] | --eos) rollout+=("${words[@]}") ;;
		--seed | --draw-step)
			choose+=("${words[@]}") rollout+=("${words[@]}") drawn+=("${words[@]}")
			;;
		--exec | --text | --no-hidden | --kind-name) command=1 reward+=("${words[@]}") ;;
		--kind | --shift) reward+=("${words[@]}") ;;
		--device | --threads | --segment | --dtype) model+=("${words[@]}") ;;
		*) trainer+=("${words[@]}") ;;
		esac
	done
	[ -n "$command" ] || reward+=("${drawn[@]}")
}
# step_by_hand RUN FILE I J [OPTION...]: a batch by the five programs, of the records I to J, by the arrays
step_by_hand() {
	local tokenizer=()
	[[ " ${reward[*]} " != *' --exec '* ]] || tokenizer=(-m "$1")
	rf-cat --range "$3:$4" "$2" | rf-entropy -m "$1" "${model[@]}" | rf-select "${choose[@]}" |
		rf-rollout -m "$1" "${model[@]}" "${rollout[@]}" | rf-reward "${tokenizer[@]}" "${reward[@]}" |
		rf-grpo -m "$1" "${model[@]}" "${trainer[@]}" "${@:5}"
}
# pipeline RUN FILE OPTION...: trains the run batch by batch with the five programs, with the options of rf-step;
# RUN.log is the log, and the folder RUN.rf has the records of each batch
pipeline() {
	local i n
	share_out "${@:3}"
	n=$(count "$2")
	[ "$batch" -gt 0 ] || batch=$n
	mkdir -p "$1.rf"
	for ((i = 0; i < n; i += batch)); do
		step_by_hand "$1" "$2" $i $((i + batch < n ? i + batch : n)) --log "$1.log" \
			-o "$1.rf/$(readlink "$1/latest").rf" 2>>said
	done
}
# fused RUN FILE OPTION...: the same by rf-step
fused() {
	mkdir -p "$1.rf"
	rf-step -m "$1" --log "$1.log" -o "$1.rf" "${@:3}" "$2" 2>>said
}
# records FILE...: the messages of streams without what the history changes
records() {
	local file
	for file; do rf-dump --json "$file"; done |
		jq -c 'if .type == "head" then del(.body.history) else del(.body.xxh64) end'
}
same_records() { cmp <(records "$1") <(records "$2"); }
# same_all A B: the runs, their logs but for times, and their records but for the history are the same
same_all() {
	local file
	diff -r -x manifest.json "$1" "$2" || return
	diff <(figures "$1.log") <(figures "$2.log") || return
	[ "$(ls "$1.rf")" = "$(ls "$2.rf")" ] || { ls "$1.rf" "$2.rf"; return 1; }
	for file in "$1.rf"/*; do
		same_records "$file" "$2.rf/${file##*/}" || return
	done
}
# as_pipeline FILE OPTION...: rf-step writes the bytes of the pipeline with these options, beginning with $M
as_pipeline() {
	rm -rf a a.log a.rf b b.log b.rf
	runs a b
	{ pipeline a "$@" && fused b "$@" && same_all a b; } ||
		{ echo "${M##*/}: ${*:2}"; cat said; return 1; }
}

@test "rf-step: keeps the promises of a trainer" {
	load promises
	texts 40 1:30 2:31 3:32 >in
	PROMISE_MIB=128 PROMISE_RESET=reset PROMISE_STATE=state promises trainer "$PWD/in" \
		rf-step -m run --chunks 2 -k 3 --margin 3 --batch 0 --mini-batch 2
}

@test "rf-step: is silent when all is well" {
	runs run
	run -0 rf-step -m run "${ways[@]}" <(texts 40 1:30 2:40)
	[ -z "$output" ]
	[ "$(readlink run/latest)" = step-000001 ]
}

@test "rf-step: writes the bytes of the pipeline, in each family, with one and eight rollouts, any mini-batch" {
	sixteen >in
	for m in delta gated lact qwen ${RF_ALL:+delta-hybrid lact-muon lact-prenorm gated-gva-neg qwen-tied}; do
		M=$G/$m
		as_pipeline in "${ways[@]}" -n 8 --group position --batch 16 --mini-batch 16
		as_pipeline in "${ways[@]}" -n 8 --group sequence --batch 6 --mini-batch 4 --recompute segment
		as_pipeline in "${ways[@]}" -n 1 --kind hybrid --batch 0 --mini-batch 4
		as_pipeline in "${ways[@]}" -n 1 --batch 6 --mini-batch 0 --recompute segment --keep 9
	done
	# the cases are those that their names say
	[ "$(jq -c '[.step, .commits]' b/latest/state.json)" = '[3,3]' ]
	[ "$(ls b.rf)" = $'step-000000.rf\nstep-000001.rf\nstep-000002.rf' ]
	grep -q '2 of 6 sequences were too short' said
}
