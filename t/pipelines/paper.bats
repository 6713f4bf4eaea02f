#!/usr/bin/env bats
# Tests of pipelines/paper.md, which has the commands of the paper's runs.  Its blocks marked sh are run with
# a tiny model, and with tiny files instead of downloads.  Each make line is checked by make -n.  Nothing is
# trained.

setup() {
	load ../helper
	load ../pipelines
	cp -r "$ROOT/pipelines" .
	ln -s "$RF_BIN" bin
	export P=$PWD
	tiny_model
	pyarrow_stand_in
	line='{"prompt": "Who?", "answer": ["I"], "answers": ["I"], "task": "qasper", "max_gen_tokens": 32}'
	# one text of 689 tokens, and one text that is too long
	jq -nc '[range(200)], [range(9000)] | {text: join(" ")}' >booksum.jsonl
	echo essay >essays.txt
	# the stream of an answered batch
	echo "$line" |
		rf-tokenize --tokenizer ckpt --prompt-key prompt --answers-key answers --meta-key task - |
		rf-generate -m ckpt --max-new 2 -o answered
}

# Replacements of the programs that the page calls for data and results.
hf() {
	[ "$1" = download ]
	case $2 in
	*Slim*)
		mkdir -p slimpajama/data
		echo '{"text": "long"}' >slimpajama/data/train-00000-of-00048.parquet
		;;
	*lact*) mkdir -p models/lact_llm; cp -r ckpt models/lact_llm/760m ;;
	*) cp -r ckpt models/delta_net ;;
	esac
}
git() {
	[ "$1" = clone ] || return 0
	mkdir -p ReFINE/data/longbench ReFINE/data/ruler
	for task in qasper trec; do echo "$line" >ReFINE/data/longbench/${task}_16384.parquet; done
	for name in {squadqa,hotpotqa}_{lact,delta_net}_4096_{1600_train,200_test}; do
		echo "$line" >ReFINE/data/ruler/ruler_$name.parquet
	done
}
python3() {
	[[ $1 != pipelines/examples/lm_eval_adapter.py ]] || { [ -e "$1" ]; return; }
	command python3 "$@"
}
rf-score() {
	local options=()
	while [[ $1 != runs/* ]]; do options+=("$1"); shift; done
	command rf-score "${options[@]}" answered >/dev/null
	printf '%s\n' "$@" >>scored
}

# make WORD...: checks a make line, makes the model that it would train, and adds the line to `made`
make() {
	local word key='' run=''
	printf '%q ' "$@" >>made
	echo >>made
	for word; do
		case $word in
		RUN=*) run=${word#RUN=} ;;
		MODEL=* | DATA=* | EVAL=*) [ -e "${word#*=}" ] ;;
		*) key+=" $word" ;;
		esac
	done
	# lines that differ only in files and runs are checked once
	if ! grep -qFx -e "$2$key" checked 2>/dev/null; then
		command make -n "$@" >/dev/null
		echo "$2$key" >>checked
	fi
	[ -z "$run" ] || [ -e "$run" ] || { mkdir -p "${run%/*}"; cp -r ckpt "$run"; }
}

@test "paper.md: its commands run, and each make line is accepted, with tiny files instead of downloads" {
	awk '/^```$/ { on = 0 } on; /^```sh$/ { on = 1 }' "$ROOT/pipelines/paper.md" |
		sed 's/4096 8192 16384/4096/; s/{4096,8192,16384}/4096/
			s/narrativeqa qasper.*/qasper trec'\''/; /^    repobench-p.$/d
			s/--dry-run$/& >plan/' >commands
	mkdir models
	set -eu
	# shellcheck disable=SC1091  # made above
	. ./commands >rollouts
	for phase in midtrain posttrain testtime evaluate curves entropy; do
		grep -q "^-f pipelines/$phase\.mk " made
	done
	[ "$(grep -c 'midtrain\.mk.* LONG=1 .*METHOD=refine' made)" -ge 4 ]
	[ "$(grep -c 'posttrain\.mk' made)" -eq 12 ]
	[ "$(grep -c 'testtime\.mk' made)" -ge 36 ]
	# each run that is scored was made before
	sed 's,/answers/.*,,' scored | sort -u | while read -r run; do [ -e "$run" ]; done
	[ "$(rf-dump --tsv --rows record --columns T --no-header booksum-delta.rf)" -eq 689 ]
	# eight positions with four rollouts each
	[ "$(cut -f 1 rollouts | sort | uniq -c | tr -s ' ' | paste -sd,)" = \
		' 4 0, 4 1, 4 2, 4 3, 4 4, 4 5, 4 6, 4 7, 1 position' ]
}
