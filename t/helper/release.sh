#!/bin/bash
# release.sh -- makes the folder of a release in t/golden: streams and runs that its programs write, and the
# results that its programs compute from them.  t/golden/README.md describes the folder.
#
#     t/helper/release.sh      makes t/golden/release-VERSION, which must not exist
#
# Run it once, when the version in lib/base/version.h is that of the release and the programs in bin/ are
# built.  The folder is never made again, because it stands for the files that users have.
set -eEuo pipefail
export LC_ALL=C
ROOT=$(cd "${0%/*}/../.." && pwd)
export PATH=$ROOT/bin:$PATH RF_DEVICE=cpu
. "$ROOT/t/release.bash"
figures() { jq -c 'del(.[keys[] | select(test("^timing_s|^perf|^world$"))])' "$1"; } # as in helper.bash
folder=$ROOT/t/golden/release-$(sed -n 's/^#define RF_VERSION "\(.*\)"/\1/p' "$ROOT/lib/base/version.h")
[ ! -e "$folder" ] || { echo "release.sh: $folder exists, and is never made again" >&2; exit 1; }
mkdir "$folder"
cd "$folder"
trap 'rm -rf "$folder"' ERR

# ---- models: one of each family -----------------------------------------------------------------
small='.hidden_size = 8 | .num_hidden_layers = 1 | .intermediate_size = 8 | .vocab_size = 40'
config() { jq -c "$small | $2" "$ROOT/pipelines/demo/demo-$1.json" >config.json; }
config delta_net '.hidden_size = 4 | .num_heads = 1 | .vocab_size = 384 | .tie_word_embeddings = true'
rf-init --config config.json --tokenizer bytes --seed 1 start
config gated_deltanet '.hidden_size = 4 | .num_heads = 1 | .head_dim = 4'
rf-init --config config.json --seed 2 gated
config lact_swiglu '.hidden_size = 4 | .num_attn_heads = 1 | .num_lact_heads = 1 | .lact_chunk_size = 8
	| .window_size = 8 | .w0_w2_low_rank = 2'
rf-init --config config.json --seed 3 lact
config qwen3_5_text '.num_hidden_layers = 2 | .layer_types = ["linear_attention", "full_attention"]
	| .linear_num_key_heads = 1 | .linear_num_value_heads = 1 | .linear_key_head_dim = 4
	| .linear_value_head_dim = 4 | .num_attention_heads = 1 | .num_key_value_heads = 1 | .head_dim = 8'
rf-init --config config.json --seed 4 qwen
rm config.json

# ---- texts --------------------------------------------------------------------------------------
jq -nc '("Fast weights", "read a text", "into a state", "of a fixed size", "and then they", "predict it")
	| {text: ., from: "made", n: length}' >texts.jsonl
rf-tokenize --bytes --source --meta-key from,n -o corpus.rf texts.jsonl 2>/dev/null
jq -nc '{prompt: "Who reads the text? ", answers: ["the state", "a state"], task: "qa_1"},
	{prompt: "How large is it? ", answers: ["fixed, été"], task: "qa_1"}' >questions.jsonl
asked=(--bytes --prompt-key prompt --meta-key task)
jq -nc '{q: "The state is ", c: ["small", "as large as the text"]}' >choices.jsonl
jq -nc '[1, 2, 3, 5, 8, 13, 21, 34, 15, 9, 24, 33],
	[4, 5, 6, 7, 9, 12, 16, 21, 27, 34, 2] | {tokens: .}' >tokens.jsonl
rf-tokenize --vocab 40 --format ids -o tokens.rf tokens.jsonl

# ---- runs ---------------------------------------------------------------------------------------
# rolled MODEL STREAM [OPTION...]: prints the stream with rollouts, log-probabilities of a reference model and
# rewards; the options are those of rf-entropy
rolled() {
	rf-entropy -m "$1" --nll "${@:3}" "$2" | rf-select --chunks 2 -k 3 --margin 3 |
		rf-rollout -m "$1" -k 3 -n 2 --top-k 20 --eos | rf-rollout -m gated --score --as ref |
		rf-reward --kind hybrid
}
# shellcheck disable=SC2016  # rf-loop's shell expands it
line='rf-cat --range $FROM:$TO "$ORDER" | rf-entropy -m "$STEP" | rf-select --chunks 2 -k 3 --margin 3 |
	rf-rollout -m "$STEP" -k 3 -n 2 | rf-reward --kind hybrid | rf-grpo -m "$RUN" --at $AT \
	--mini-batch 1 --baseline running --keep 1 '"${OPTIM[*]}"' --log "$RUN/log.jsonl" -o "$STREAM"'
rf-loop -m run --from start --data corpus.rf --batches 2 --batch 2 --seed 1 --keep-streams -- \
	"$line" 2>/dev/null
for run in gated lact qwen; do
	rf-init --from $run run-$run
done
for at in 0 2; do
	rolled run-gated tokens.rf >trained.rf
	gated --at $at --log run-gated/log.jsonl
	lact --at $at --log run-lact/log.jsonl
	qwen --at $at --log run-qwen/log.jsonl
done

# ---- streams ------------------------------------------------------------------------------------
# shellcheck disable=SC2016  # a program of jq
parts='jq --unbuffered -c "select(.type == \"seq\").body | {id, total: [[1, 0.5], [0.25, 0]],
	parts: {brevity: [[0, 1], [0.5, 0.125]]}}"'
rolled run-gated tokens.rf --keep hidden,logits | rf-reward --exec "$parts" --kind-name mine -o rewarded.rf
rf-grpo -m run-gated --advantage reward --grad-out grad -o trained.rf rewarded.rf
rolled run-gated tokens.rf | rf-cat --range 1:2 | rf-reward --kind binary --per-token -o rewarded.rf
rf-grpo -m run-gated --advantage token --grad-out grad2 -o per-token.rf rewarded.rf
rf-cat --shard 1/2 --mini-batch 2 -o share.rf tokens.rf
rf-cat --range 0:1 corpus.rf | rf-entropy -m run | rf-select --chunks 1 -k 3 --margin 3 |
	rf-rollout -m run -k 3 -n 2 -o text.rf
rf-tokenize "${asked[@]}" --answer-key answers questions.jsonl | rf-cat --split-response -o response.rf
rf-tokenize "${asked[@]}" --answers-key answers questions.jsonl |
	rf-generate -m run --max-new 4 -n 2 --temperature 1 | rf-score -o answers.rf >/dev/null
rf-tokenize --bytes --prompt-key q --choices-key c choices.jsonl 2>/dev/null | rf-dump --json |
	jq -c 'if .type == "head" then .body.seed = 7
		elif .type == "seq" then .body.choice.from = {dtype: "<i4", shape: [2], data: [1, 2]}
		else . end' |
	rf-cat --json | rf-logp -m run -o choices.rf
rf-ntp -m run-lact --weights-out adapted tokens.rf
rm -r ./*.jsonl rewarded.rf grad grad2 start gated lact qwen

# ---- nothing that identifies a machine ----------------------------------------------------------
find . -name '.lock' -delete
find . -name '.ranks*' -delete
for file in run*/manifest.json; do
	jq -c '.host = "host" | .time = "2026-11-28T00:00:00Z" | .program.commit = "unknown"' "$file" >new
	mv new "$file"
done
for file in run*/log.jsonl; do
	jq -c 'with_entries(if .key | test("^timing_s|^perf") then .value = 1 else . end)' "$file" >new
	mv new "$file"
done
sed -i 's/\t[0-9]*$/\t1000000/' run/data/times.tsv

# ---- results ------------------------------------------------------------------------------------
cp -a "$folder" "$folder.copy"
trap 'rm -rf "$folder" "$folder.copy"' ERR
cd "$folder.copy"
mkdir "$folder/expected"
for name in "${RESULTS[@]}"; do
	mkdir got
	"$name"
	for file in got/*; do
		[ "$(stat -c %s "$file")" -lt 2000 ] || zstd -19 -q --rm "$file"
	done
	mv got "$folder/expected/$name"
done
rm -r "$folder.copy"
find "$folder" -type f -printf '%s\n' | awk '{ n += $1 } END { print n " bytes" }'
