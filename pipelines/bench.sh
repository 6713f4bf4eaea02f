#!/bin/bash
# bench.sh [FOLDER] -- speed and memory in one run, each figure also as a ratio: `make bench`.
#
# The model is a fresh DeltaNet (d 512, 8 layers, 4 heads, vocabulary 32000); the text is that of corpus.sh as bytes.
# Only ratios mean something from one machine to another.  $RF_BIN: the programs; $RF_BENCH: t/bench.c's program;
# $DEMO: a run of the demonstration whose entropies are compared in bf16 (left out where there is none).
set -eu -o pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:-build/bench}
bench=$(realpath "${RF_BENCH:-$here/../build/t/bench}")
PATH=$(realpath "${RF_BIN:-$here/../bin}"):$PATH
demo=${DEMO:+$(realpath "$DEMO")}
export LC_ALL=C
mkdir -p "$dir"
cd "$dir"

say() { printf '%s\n' "$*" >&2; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.3f", a / b }'; }
seconds() { "$bench" run "${2:-1}" bash -c "$1" | cut -d' ' -f1; }
peak() { "$bench" run 1 bash -c "exec $1" | cut -d' ' -f2; }
row() { printf '%-58s %12s %10s %s\n' "$@"; }

if [ ! -d model ]; then
	say "model and text"
	cat >config.json <<-END
	{"model_type":"delta_net","hidden_size":512,"num_hidden_layers":8,"num_heads":4,"vocab_size":32000,
	 "intermediate_size":null,"hidden_ratio":4,"conv_size":4,"norm_eps":1e-6,"tie_word_embeddings":false,"eos_token_id":2}
	END
	rf-init --config config.json --seed 1 model
fi
if [ ! -f text/SOURCE ]; then
	bash "$here/corpus.sh" text >/dev/null
fi
for len in 4096 8192 32768 131072; do
	[ -f $len.rf ] || rf-tokenize --bytes --max-len $len --min-len $len --truncate split text/*.txt 2>/dev/null | rf-cat --range 0:8 -o $len.rf
done

printf '%s, %s cores, %s\n\n' "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" "$(uname -sr)"

say "passes at 4096"
"$bench" model pass 4096 4 | tee pass
echo
say "one step of 8 x 4096, stage by stage"
"$bench" model step 4096 8 | tee step
say "the same at 32768"
"$bench" model step 32768 1 >long
tail -n 2 long
echo
say "bf16"
# shellcheck disable=SC2094  # a type and a file of the same name
BENCH_DTYPE=bf16 "$bench" model pass 4096 3 >bf16

pick() { awk -v name="$1" -v field="$2" 'index($0, name) == 1 { for (i = 1; i < NF; i++) if ($(i + 1) ~ field) { print $i; exit } }' "$3"; }
row 'what' 'measured' 'must reach' ''
row 'forward / product' "$(pick 'forward  ' '^%' pass) %" '70 %'
row 'forward + backward / product' "$(pick 'forward +' '^%' pass) %" '60 %'
row 'one step, forward passes over the same tokens' "$(pick 'step ' '^forward' step)" 5.5
row 'seconds per token, T = 32768 over T = 4096, step' "$(ratio "$(pick 'step ' '^us' long)" "$(pick 'step ' '^us' step)")" 1.1
row 'rf-entropy --dtype bf16: forward over float32' "$(ratio "$(pick 'forward  ' '^tokens' bf16)" "$(pick 'forward  ' '^tokens' pass)")" 3
if [ -n "$demo" ]; then
	for t in f32 bf16; do
		rf-entropy --dtype $t -m "$demo/start" "$demo/valid.rf" | rf-dump --tsv --rows record | awk -F'\t' 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "entropy") c = i; next } { s += $c; n++ } END { printf "%.6f\n", s / n }' >entropy.$t
	done
	row 'mean entropy of the demonstration, bf16 - float32, nats' "$(awk '{ x[NR] = $1 } END { printf "%.1e", x[2] - x[1] }' entropy.f32 entropy.bf16)" '1e-2'
fi

say "memory"
for t in 8192 131072; do
	rf-cat --range 0:1 -o one-$t.rf $t.rf
	rf-entropy -m model -o e-$t.rf one-$t.rf
	rf-select -o s-$t.rf e-$t.rf
	echo "$(peak "rf-entropy -m model one-$t.rf") $(peak "rf-rollout -m model s-$t.rf")" >peak-$t
done
read -r e8 r8 <peak-8192
read -r e128 r128 <peak-131072
row 'peak memory of rf-entropy, T = 131072 over T = 8192' "$(ratio "$e128" "$e8")" 1.1 "$e8 -> $e128 MiB"
row 'peak memory of rf-rollout, T = 131072 over T = 8192' "$(ratio "$r128" "$r8")" 1.1 "$r8 -> $r128 MiB"

say "the pipe against its stages"
rm -rf run
rf-init --from model run
step='rf-grpo -m run --stale any --mini-batch 8 --keep 1'
rf-entropy -m run 4096.rf -o warm.rf # the page cache holds the weights from here on
apart=0
for s in 'rf-entropy -m run -o e.rf 4096.rf' 'rf-select -o s.rf e.rf' 'rf-rollout -m run -o r.rf s.rf' 'rf-reward -o w.rf r.rf' "$step w.rf"; do
	t=$(seconds "$s")
	printf '    %-40s %s s\n' "$s" "$t"
	apart=$(awk -v a="$apart" -v b="$t" 'BEGIN { print a + b }')
done
pipe=$(seconds "set -o pipefail; rf-entropy -m run 4096.rf | rf-select | rf-rollout -m run | rf-reward | $step")
row 'all stages at once over one after the other, 8 records' "$(ratio "$pipe" "$apart")" 1.05 "$pipe s, $apart s"
rf-cat --range 0:0 -o none.rf 4096.rf
rf-tokenize --bytes --max-len 8 --min-len 8 --truncate split text/*.txt 2>/dev/null | rf-cat --range 0:1 -o tiny.rf
row '  start and load of rf-entropy, s' "$(seconds 'rf-entropy -m run none.rf' 3)" ''
row '  start, load and commit of rf-ntp (8 tokens), s' "$(seconds 'rf-ntp -m run --keep 1 tiny.rf')" ''

say "streams"
rf-cat --repeat 16 --renumber w.rf -o many.rf
bytes=$(zstd -dc many.rf | wc -c)
for c in 'rf-select' 'rf-reward' 'rf-dump --check'; do
	row "$c, MB/s of records" "$(awk -v b="$bytes" -v t="$(seconds "$c many.rf" 3)" 'BEGIN { printf "%.0f", b / t / 1e6 }')" '' "peak $(peak "$c many.rf") MiB"
done
for c in 'rf-dump --check' rf-select rf-reward; do
	# shellcheck disable=SC2086  # words
	row "start of $c, ms" "$("$bench" run 20 $c none.rf | awk '{ printf "%.1f", 1000 * $1 }')" 10
done
row 'peak memory of rf-grpo, 8 x 4096, MiB' "$(peak "$step w.rf")" ''
