# Functions that use the files of a release as a later build would: t/files/releases.bats compares the results
# with those that the release itself computed, and t/helper/release.sh stored.  Load it after helper.
# The four functions of RESULTS work in a copy of the folder of the release, and write to the folder got.
RESULTS=(read_streams run_stages look_at_runs continue_runs)
RUNS=(run run-gated run-lact run-qwen)

# The streams of a release are the files *.rf.  The run `run` was made by rf-loop; run-gated, run-lact and
# run-qwen were made by trainers that were started by hand, and `adapted` by a trainer with --weights-out.

# tables STREAM: writes the tables of a stream that have rows, with all columns that stand for keys of records
tables() {
	local name=${1%.rf} rows
	local -A columns=(
		[record]='id,T,prompt_len,positions,n,k,temperature,source'
		[token]='id,t,token,text,entropy,nll,correct,chosen'
		[rollout]='id,s,rollout,reward,cosine,binary,edit,advantage,logp,logp_ref,kept'
		[sample]='id,sample,temperature,length,stop,score,answer,written'
		[choice]='id,choice,length,from,logp,greedy,text'
	)
	columns[rollout]+=,length,generated
	for rows in "${!columns[@]}"; do
		rf-dump --tsv --rows "$rows" --columns "${columns[$rows]}" "$1" >"got/$name.$rows.tsv"
		[ "$(wc -l <"got/$name.$rows.tsv")" -gt 1 ] || rm "got/$name.$rows.tsv"
	done
}

# read_streams: writes the messages of each stream and its tables
read_streams() {
	local file
	for file in *.rf; do
		rf-cat "$file" | rf-dump --json >"got/${file%.rf}.jsonl"
		tables "$file"
	done
}

# tensors FILE...: prints statistics of tensors
tensors() {
	local file
	for file; do
		rf-dump --tsv --rows tensor --columns name,shape,max,mean,norm "$file"
	done
}

# run_stages: writes what the next programs make of the streams
run_stages() {
	rf-dump --check -q *.rf
	rf-reward --kind hybrid --per-token trained.rf | rf-dump --json |
		jq -c '.body.reward // empty' >got/reward.jsonl
	rf-select --mode max --chunks 2 -k 3 --margin 3 trained.rf | rf-dump --json |
		jq -c '.body.positions // empty' >got/select.jsonl
	rf-rollout -m run-gated --score trained.rf | rf-dump --json |
		jq -c '.body.rollout // empty' >got/rollout.jsonl
	rf-entropy -m run-gated --nll trained.rf | rf-dump --json |
		jq -c 'select(.type == "seq").body | {entropy, nll, correct}' >got/entropy.jsonl
	rf-grpo -m run-gated --advantage stream --grad-out got/grad per-token.rf
	tensors got/grad >got/grad.tsv
	rm got/grad
	rf-score --each answers.rf >got/score.tsv
	rf-generate -m run --max-new 6 --stop . answers.rf | rf-dump --json |
		jq -c '.body.generation // empty' >got/generate.jsonl
	rf-logp -m run choices.rf | rf-dump --json | jq -c '.body.choice // empty' >got/logp.jsonl
	rf-cat --join-response response.rf | rf-dump --json |
		jq -c 'select(.type == "seq").body' >got/joined.jsonl
	# shellcheck disable=SC2016  # a program of jq
	rf-reward --text --exec 'tee got/exec.jsonl | jq --unbuffered -c "select(.type == \"seq\")
		| {id: .body.id, total: .text | map(.rollouts | map(length))}"' text.rf |
		rf-dump --json | jq -c '.body.reward // empty' >got/answered.jsonl
}

# look_at_runs: writes what rf-dump shows of the runs, how well they predict the streams, and what rf-init
# exports of them
look_at_runs() {
	local run data
	for run in "${RUNS[@]}"; do
		data=tokens.rf
		[ "$run" != run ] || data=corpus.rf
		rf-dump --check -q "$run"
		rf-dump --json "$run" |
			jq -c 'select(.type == "checkpoint" or .type == "manifest")' >"got/$run.jsonl"
		rf-dump --tsv --rows step --columns step,commits,weights "$run" >"got/$run.tsv"
		rf-ntp --eval -m "$run" "$data" >>got/eval.jsonl
		rf-init --from "$run" exported
		rf-dump --json exported |
			jq -c 'select(.type == "checkpoint") | {arch, weights}' >>got/exports.jsonl
		rm -r exported
	done
	rf-ntp --eval -m adapted tokens.rf >>got/eval.jsonl
	rf-ntp -m run-lact --weights-out adapted "${OPTIM[@]}" tokens.rf # replaces what the release wrote
	rf-ntp --eval -m adapted tokens.rf >>got/eval.jsonl
}

# gated, lact, qwen: train the runs of this name with these options
gated() {
	rf-grpo -m run-gated "$@" --kl-coef 0.1 --baseline running --mini-batch 1 "${OPTIM[@]}" --keep 1 \
		trained.rf
}
lact() { rf-ntp -m run-lact "$@" --mini-batch 1 "${OPTIM[@]}" --keep 1 tokens.rf; }
qwen() {
	rf-step -m run-qwen "$@" --chunks 2 -k 3 -n 2 --margin 3 --mini-batch 1 --batch 0 "${OPTIM[@]}" \
		--keep 1 tokens.rf
}
# Steps that keep small differences small (smooth in model.bash).
OPTIM=(--lr 0.01 --adam-eps 1e-2)

# word NAME: prints a word with which the run was begun; a line that begins with a blank continues a word
word() {
	awk -v name="$1=" '/^[^ ]/ { on = !index($0, name) ? 0 : 1 }
		on { print substr($0, on++ == 1 ? length(name) + 1 : 2) }' run/data/words
}

# loop N: trains the run up to N batches, with the words that the run has
loop() {
	rf-loop -m run --data "$(word data)" --batches "$1" --batch "$(word batch)" \
		--seed "$(word seed)" --keep-streams -- "$(word line)"
}

# continue_runs: makes one more commit to each run
continue_runs() {
	local run
	loop $(($(jq .commits run/latest/state.json) + 1))
	for run in gated lact qwen; do
		$run --at "$(jq .step run-$run/latest/state.json)" --log "run-$run/log.jsonl"
	done
	for run in "${RUNS[@]}"; do
		tensors "$run/latest/model.safetensors" "$run/latest/optim.safetensors" >"got/$run.next.tsv"
		tail -n 1 "$run/log.jsonl" >last.jsonl
		figures last.jsonl >"got/$run.next.jsonl"
		jq -c '{step, parent, commits, updates, reward_mean}' "$run/latest/state.json" \
			>"got/$run.state.jsonl"
	done
}
