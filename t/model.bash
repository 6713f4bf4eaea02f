# What the tests of the programs with a model share.  After helper.

M=$G/delta
# The device of this run where its bits are the CPU's, else the CPU.
like_cpu=${RF_DEVICE:-cpu}
[ "$like_cpu" != cuda ] || like_cpu=cpu

# texts VOCAB ID:T...: a stream of random texts
texts() { "$RF_UNITS/helper/model" texts "$@"; }
# The bodies of a stream's records, one a line.
json() { rf-dump --json "$1" | jq -c 'select(.type == "seq").body'; }
drawn() { json "$1" | jq -c .rollout.tokens; }
# wrote FILE: the samples' tokens as far as they go, a line per record
wrote() {
	json "$1" | jq -c '.generation | [range(0; .length.data | length) as $i
		| .tokens.data[$i * .tokens.shape[1]:][:.length.data[$i]]]'
}
# chosen C K ID:T...: texts with what later checks need, and C positions for K tokens each
chosen() {
	texts 40 "${@:3}" | rf-entropy -m "$M" --keep hidden,logits |
		rf-select --chunks "$1" -k "$2" --margin 2
}
# batch ID:T...: texts with rewarded rollouts by the weights of $M, two positions with three
# rollouts of three tokens
batch() {
	texts 40 "$@" | rf-entropy -m "$M" | rf-select --chunks 2 -k 3 --margin 3 |
		rf-rollout -m "$M" -k 3 -n 3 | rf-reward --kind hybrid
}
# runs NAME...: runs that begin with $M
runs() {
	local run
	for run in "$@"; do
		rf-init --from "$M" "$run"
	done
}
# All that makes a run what it is: steps, files, where latest points.
state() {
	(cd "${1:-run}" && find . ! -name .lock | sort && readlink latest &&
		find . -type f ! -name .lock -exec cksum {} + | sort)
}
# same_step A B: the newest steps of two runs are the same weights and moments
same_step() {
	cmp "$1/latest/model.safetensors" "$2/latest/model.safetensors" &&
		cmp "$1/latest/optim.safetensors" "$2/latest/optim.safetensors"
}
# The optimizer where small differences stay small: AdamW divides by |gradient| + eps, so that with the
# default of 1e-8 a gradient near 0 becomes a step of any size.
smooth() { "$@" --adam-eps 1e-2 --lr 1; }
# For promises of a trainer of the run `run`.
reset() { rm -rf run && rf-init --from "$G/delta" run; }
