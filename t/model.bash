# Functions for tests of programs with a model.  Load it after helper.

M=$G/delta
# The device of this test run if it computes the same bits as the CPU, else the CPU.
like_cpu=${RF_DEVICE:-cpu}
[ "$like_cpu" != cuda ] || like_cpu=cpu

# texts VOCAB ID:T...: prints a stream of random texts
texts() { "$RF_UNITS/helper/model" texts "$@"; }
# json FILE: prints the bodies of a stream's records, one a line; drawn FILE: the tokens of their rollouts
json() { rf-dump --json "$1" | sed -n 's/^{"seq":[0-9]*,"type":"seq","body"://; T; s/}$//p'; }
drawn() { json "$1" | jq -c .rollout.tokens; }
# wrote FILE: prints the tokens of the samples up to their ends, one record a line
wrote() {
	json "$1" | jq -c '.generation | [range(0; .length.data | length) as $i
		| .tokens.data[$i * .tokens.shape[1]:][:.length.data[$i]]]'
}
# chosen C K ID:T...: prints texts with hidden states and logits, and C positions for K tokens each
chosen() {
	texts 40 "${@:3}" | rf-entropy -m "$M" --keep hidden,logits |
		rf-select --chunks "$1" -k "$2" --margin 2
}
# batch ID:T...: prints texts with rewarded rollouts by the weights of $M, two positions with three rollouts
# of three tokens
batch() {
	texts 40 "$@" | rf-entropy -m "$M" | rf-select --chunks 2 -k 3 --margin 3 |
		rf-rollout -m "$M" -k 3 -n 3 | rf-reward --kind hybrid
}
# wide TYPE...: makes models wide-TYPE with weights so large that oneDNN multiplies by them; the weights of
# t/golden are too small (kernels/cpu/small.c)
wide() {
	local type
	for type in "$@"; do
		jq '.vocab_size = 40 | .num_hidden_layers = 2
			| if .layer_types then .layer_types |= .[-2:] else . end' \
			"$ROOT/pipelines/demo/demo-$type.json" >wide.json
		rf-init --seed 3 --config wide.json "wide-$type"
	done
}
# alone FILE OUTPUT COMMAND...: succeeds if the command, given one record of FILE at a time, prints the
# records of OUTPUT
alone() {
	local n=0 record only='/"type":"seq"/!d; s/"seq":[0-9]*//'
	rf-dump --json "$2" | sed "$only" | command split -l 1 -d - among.
	for record in among.*; do
		rf-cat --range $n:$((n + 1)) "$1" | "${@:3}" | rf-dump --json | sed "$only" |
			cmp - "$record" || return 1
		n=$((n + 1))
	done
	rm among.*
}
# runs NAME...: makes runs that begin with $M
runs() {
	local run
	for run in "$@"; do
		rf-init --from "$M" "$run"
	done
}
# state [RUN]: prints the files of a run with their checksums and the target of latest, without the manifest,
# which has the time
state() {
	(cd "${1:-run}" && find . ! -name .lock ! -path './.ranks*' ! -name manifest.json | sort &&
		readlink latest && find . -type f ! -name .lock ! -path './.ranks*' ! -name manifest.json \
			-exec cksum {} + | sort)
}
# same_step A B: succeeds if the newest steps of two runs have the same weights and moments
same_step() {
	cmp "$1/latest/model.safetensors" "$2/latest/model.safetensors" &&
		cmp "$1/latest/optim.safetensors" "$2/latest/optim.safetensors"
}
# smooth COMMAND...: runs a trainer with an optimizer that keeps small differences small.  AdamW divides by
# |gradient| + eps; with the default of 1e-8, a gradient near 0 becomes a step of any size.
smooth() { "$@" --adam-eps 1e-2 --lr 1; }
# reset: makes the run `run` again, for PROMISE_RESET
reset() { rm -rf run && rf-init --from "$G/delta" run; }
