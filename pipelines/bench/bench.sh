#!/bin/bash
# bench.sh [FOLDER] -- measures speed and memory in one run, each figure also as a ratio: `make bench`.
#
# The model is fresh, of the family $ARCH, by default delta_net (d 512, 8 layers, vocabulary 32000).  The text
# is that of corpus.sh as bytes.  Only ratios can be compared between machines.  A row that misses its limit
# is marked FALLS SHORT.  A measurement that fails has a row that is marked FAILED; the other measurements
# continue, and the exit status is 1.  Passes and a step are measured at the level of the processor's
# instruction set, or at $RF_ISA, and at every lower level, each with oneDNN's product at that level.
#
# From the environment:
#
#     TOKENIZERS           a Python that has the package `tokenizers`, with which rf-tokenize is compared
#     TEXTS                the texts of that comparison (.jsonl or .txt), by default the corpus
#     ONLY                 groups of rows to measure, such as "passes steps"; the end of this file lists them
#     RF_BIN, RF_BENCH     the programs, and the program of t/helper/bench.c
#     DEMO                 a run of the demonstration.  On its model and held-out documents, entropies in bf16
#                          are compared with float32.  By default such a model is trained, with a quarter of
#                          the warm-up
set -eu -o pipefail
here=$(cd -- "$(dirname -- "$0")" >/dev/null && pwd)
dir=${1:-build/bench}
bench=$(realpath "${RF_BENCH:-$here/../../build/t/helper/bench}")
RF_BIN=$(realpath "${RF_BIN:-$here/../../bin}")
PATH=$RF_BIN:$PATH
demo=${DEMO:+$(realpath "$DEMO")}
# shellcheck disable=SC2086  # words
texts=${TEXTS:+$(realpath $TEXTS)}
export LC_ALL=C RF_BIN
mkdir -p "$dir"
cd "$dir"

# shellcheck source=pipelines/bench/bench-rows.sh
. "$here/bench-rows.sh"
seconds() { "$bench" run "${2:-1}" bash -c "$1" | cut -d' ' -f1; }
peak() { "$bench" run 1 bash -c "exec $1" | cut -d' ' -f2; }

# The limits depend on the family, whose matrices have the sizes of DeltaNet.  The time of softmax attention
# for a token grows with the text, or in a window until the window is full.
arch=${ARCH:-delta_net}
less=10 flat='<= 1.1' near=1024
case $arch in
delta_net) less=0 ;;
gated_deltanet) ;;
lact_swiglu) near=2048 ;;
qwen3_5_text) flat='' ;;
*) say "bench: ARCH is delta_net, gated_deltanet, lact_swiglu or qwen3_5_text, not '$arch'" && exit 64 ;;
esac
levels=$("$bench" levels)
case ${RF_ISA:-auto} in
auto) ;;
*) levels=$(sed -n "/^$RF_ISA\$/,\$p" <<<"$levels") ;;
esac
[ -n "$levels" ] ||
	{ say "bench: RF_ISA is '$RF_ISA', which this processor lacks (bench levels)" && exit 69; }

# least LEVEL: prints limits in percent of the product: forward, forward + backward, and the same two for the
# small model
least() {
	case $1 in
	x86_64_v3) echo 75 65 60 50 ;;
	x86_64 | base) echo 70 60 55 45 ;;
	*) echo 84 78 65 58 ;;
	esac | awk -v less="$less" '{ print $1 - less, $2 - less, $3 - less, $4 - less }'
}
config() {
	local own
	case $arch in
	delta_net) own='"num_heads":4,"conv_size":4' ;;
	gated_deltanet) own='"num_heads":4,"head_dim":64,"expand_v":2,"use_gate":true,"conv_size":4' ;;
	lact_swiglu) own='"num_attn_heads":8,"num_lact_heads":4,"inter_multi":1,"lact_chunk_size":2048,
	 "window_size":2048,"w0_w2_low_rank":32,"use_momentum":true,"learnable_ttt_scale":true,
	 "qkv_silu":true,"rope_theta":1000000' ;;
	qwen3_5_text) own='"linear_num_key_heads":4,"linear_num_value_heads":4,"linear_key_head_dim":64,
	 "linear_value_head_dim":128,"num_attention_heads":8,"num_key_value_heads":2,"head_dim":64' ;;
	esac
	[ "$arch" = qwen3_5_text ] || own+=',"norm_eps":1e-6'
	printf '{"model_type":"%s","hidden_size":512,"num_hidden_layers":8,"intermediate_size":1536,' "$arch"
	printf '"vocab_size":32000,"eos_token_id":2,\n %s}\n' "$own"
}

if [ ! -d model ]; then
	say "model and text"
	config >config.json
	rf-init --config config.json --seed 1 model
fi
[ -d small ] || rf-init --config "$here/../demo/demo-$arch.json" --seed 1 small # the demonstration's model
if [ ! -f text/SOURCE ]; then
	bash "$here/../demo/corpus.sh" text >/dev/null
fi
for len in 4096 8192 32768 131072; do
	[ -f $len.rf ] ||
		rf-tokenize --bytes --max-len $len --min-len $len --truncate split text/*.txt 2>/dev/null |
		rf-cat --range 0:8 -o $len.rf
done
[ -f prompts.rf ] ||
	rf-tokenize --bytes --max-len 1024 --min-len 1024 --truncate split text/*.txt 2>/dev/null |
	rf-cat --range 0:16 -o prompts.rf
rf-cat --range 0:1 -o one.rf 4096.rf
rf-cat --range 0:0 -o none.rf 4096.rf
rm -rf run ./*.peaks ./*.out
rf-init --from model run
weights=$(awk -v b="$(stat -L -c %s run/latest/model.safetensors)" 'BEGIN { printf "%.3g", b / 1048576 }')

# pass LEVEL MODEL T ROUNDS FILE NAME FORWARD BACK: prints the two rows of a model at a level
pass() {
	RF_ISA=$1 "$bench" "$2" pass "$3" "$4" >"$5"
	grep -v '^peak' "$5" # leaves out the peak of both passes together
	row "$1: $6forward / product, %" "$(pick "$5" 'forward  ' %)" ">= $7" ''
	row "$1: $6forward + backward / product, %" "$(pick "$5" 'forward +' %)" ">= $8" ''
}
passes() {
	local level file=pass.out f b df db
	for level in $levels; do
		read -r f b df db < <(least "$level")
		pass "$level" model 4096 4 $file '' "$f" "$b"
		# more rounds, because other programs may disturb such a short pass
		pass "$level" small 2048 16 small.out 'demonstration, ' "$df" "$db"
		file=lower.out
	done
}

steps() {
	local level short long sizes='4096 8 32768 1'
	for level in $levels; do
		# shellcheck disable=SC2086  # words
		RF_ISA=$level "$bench" model step $sizes >step.out
		grep -v '^peak' step.out # leaves out the peak of all engines; peaks() measures each program
		row "$level: one step, in forward passes over the same tokens" \
			"$(pick step.out 'step  ' forward)" '<= 5.3' ''
		row "$level: in one program, one mini-batch" "$(pick step.out 'step in' forward)" '<= 3.7' ''
		RF_ISA=$level BENCH_MINI=2 "$bench" model step 4096 8 >mini.out
		row "$level: in one program, four mini-batches" \
			"$(pick mini.out 'step in' forward)" '<= 4.5' ''
		[ "$sizes" = '4096 8' ] || {
			grep ' 32768 tokens' step.out >long.out
			short=$(pick step.out 'step  ' us)
			long=$(pick long.out 'step  ' us)
			row 'seconds per token, T = 32768 over T = 4096, step' "$(ratio "$long" "$short")" \
				"$flat" "$long us, $short us"
		}
		sizes='4096 8'
	done
}

# forward UNIT: prints the figure of a forward pass in float32 at the processor's level
forward() {
	[ -s pass.out ] || "$bench" model pass 4096 4 >pass.out
	pick pass.out 'forward  ' "$1"
}

bf16() {
	local forward plain product t must=''
	# there is a limit only for processors with matrix units
	case ${RF_ISA:-auto} in
	auto) ! grep -qw amx_bf16 /proc/cpuinfo || must='>= 3' ;;
	esac
	BENCH_DTYPE=bf16 "$bench" model pass 4096 3 >bf16.out
	grep '^forward  ' bf16.out
	forward=$(pick bf16.out 'forward  ' tokens)
	plain=$(forward tokens)
	product=$(pick bf16.out 'product, bf16' times) 2>/dev/null || product='none'
	row 'rf-entropy --dtype bf16: forward over float32' "$(ratio "$forward" "$plain")" "$must" \
		"oneDNN's own product, bf16 over float32: $product"
	if [ -z "$demo" ]; then
		MAKEFLAGS='' make -s -f "$here/../demo/demo.mk" ARCH="$arch" RUN=demo WARM_STEPS=160 \
			demo/start.step
		demo=demo
	fi
	for t in f32 bf16; do
		rf-entropy --dtype $t -m "$demo/start" "$demo/valid.rf" |
			rf-dump --tsv --rows record --columns T,entropy_mean --no-header |
			awk '{ n += $1; s += $1 * $2 }
			END { if (!(s > 0)) exit 1; printf "%.6f\n", s / n }' >entropy.$t
	done
	row 'mean entropy of the demonstration, |bf16 - float32|, nats' \
		"$(awk '{ x[NR] = $1 } END { d = x[2] - x[1]; printf "%.1e", d < 0 ? -d : d }' \
			entropy.f32 entropy.bf16)" '<= 1e-2' \
		"$(cat entropy.bf16), $(cat entropy.f32)"
}

lengths() {
	local t e8 r8 e128 r128
	for t in 8192 131072; do
		rf-cat --range 0:1 -o one-$t.rf $t.rf
		rf-entropy -m model -o e-$t.rf one-$t.rf
		rf-select -o s-$t.rf e-$t.rf
		peak "rf-entropy -m model one-$t.rf" >$t.peaks
		peak "rf-rollout -m model s-$t.rf" >>$t.peaks
	done
	{ read -r e8 && read -r r8; } <8192.peaks
	{ read -r e128 && read -r r128; } <131072.peaks
	row 'peak memory of rf-entropy, T = 131072 over T = 8192' "$(ratio "$e128" "$e8")" "$flat" \
		"$e128 MiB, $e8 MiB"
	row 'peak memory of rf-rollout, T = 131072 over T = 8192' "$(ratio "$r128" "$r8")" "$flat" \
		"$r128 MiB, $r8 MiB"
}

# A decoding step is timed in a process that has already read the prompts, because the time of reading them
# varies by more than the time of a step.
generate() {
	local batch one many long short
	for batch in 1 16; do
		seconds "rf-generate -m model --ignore-eos --max-new 64 --batch $batch \
			-o new-$batch.rf prompts.rf" 2 >$batch.out
	done
	cmp new-1.rf new-16.rf ||
		{ say 'bench: side by side rf-generate writes other tokens than one by one' && return 1; }
	"$bench" model token 128 1024 1 1024 16 >token.out
	one=$(pick token.out 'token, 1 x 1024' ms)
	many=$(pick token.out 'token, 16 x 1024' ms)
	row 'rf-generate, 16 records side by side over one by one, tokens/s' "$(ratio "$one" "$many")" \
		'>= 4' "$many ms, $one ms a token"
	row 'the same with the pass over their prompts of 1024' "$(ratio "$(cat 1.out)" "$(cat 16.out)")" '' \
		"$(cat 16.out) s, $(cat 1.out) s"
	# a question of RULER costs as much as 128 new tokens without an end token
	seconds "rf-generate -m model --ignore-eos --max-new 128 -o new.rf prompts.rf" 2 >asked.out
	seconds "rf-entropy -m model -o new.rf prompts.rf" 2 >read.out
	row 'prompts of 1024 with 128 new tokens, in forward passes over the prompts' \
		"$(ratio "$(cat asked.out)" "$(cat read.out)")" '' "$(cat asked.out) s, $(cat read.out) s"
	"$bench" model token 256 $near 1 65536 1 >token.out
	long=$(pick token.out 'token, 1 x 65536' ms)
	short=$(pick token.out "token, 1 x $near" ms)
	row "seconds per new token, prompt of 65536 over one of $near" "$(ratio "$long" "$short")" "$flat" \
		"$long ms, $short ms"
}

# Times rf-needle, which makes prompts from needles in the corpus and questions from its paragraphs.  Then
# times rf-logp on choices of the sizes of hellaswag, and of arc after five examples: all choices after one
# question, or each after a copy of the question.
evaluation() {
	local t behind each what rows alone
	awk 'BEGIN { RS = "" }
		length > 200 && length < 330 && n++ < 2000 { gsub(/\n/, " "); print }' text/*.txt |
		jq -cR '{question: "What is number \(input_line_number)?", context: ., answers: [.[:20]],
			title: "\(input_line_number / 4 | floor)"}' >squad.jsonl
	jq -cs 'map(.context) as $p | range(0; ($p | length) - 10; 10) as $i
		| {question: "What is behind \($i)?", answers: ["yes"], paragraphs: $p[$i:$i + 10]}' \
		squad.jsonl >hotpot.jsonl
	cat text/*.txt >essay.txt
	t=$(seconds 'rf-needle --task all --tokenizer bytes --haystack essay.txt --qa squad.jsonl \
		--qa hotpot.jsonl --length 4k,8k,16k -o needles.jsonl.zst 2>needles.err')
	row 'rf-needle, 13 tasks of 500 samples of 4k, 8k, 16k bytes, s' "$t" '<= 60' \
		"$(zstd -dcq needles.jsonl.zst | wc -l) prompts"
	while read -r behind each; do
		jq -nc --argjson behind "$behind" --argjson each "$each" 'limit(16; inputs)
			| .paragraphs | join(" ") | . as $text | {prompt: .[:$behind],
				choices: [range(4) * $each + $behind | . as $i | $text[$i:$i + $each]]}' \
			hotpot.jsonl >choices.jsonl
		jq -c '{prompt, choices: (.choices[] | [.])}' choices.jsonl >alone.jsonl
		for t in choices alone; do
			rf-tokenize --bytes --no-eos --prompt-key prompt --choices-key choices \
				-o $t.rf $t.jsonl 2>tokens.err
			seconds "rf-logp -m model -o logp.rf $t.rf 2>$t.err" 2 >$t.out
		done
		what="rf-logp, 4 choices of $each behind $behind"
		read -r rows alone < <(sed 's/.*: \([0-9]*\) rows, .* has \([0-9]*\).*/\1 \2/' choices.err)
		row "$what, rows apart over below" "$(ratio "$alone" "$rows")" '>= 2' "$alone, $rows"
		read -r t <choices.out
		read -r alone <alone.out
		row "$what, seconds apart over below" "$(ratio "$alone" "$t")" '' "$alone s, $t s"
	done <<-'END'
	80 30
	600 10
	END
}

# Makes the streams of each stage, unless pipe() left them.
stages() {
	[ ! -s w.rf ] || return 0
	rf-entropy -m run 4096.rf | rf-select -o s.rf
	rf-rollout -m run s.rf | rf-reward -o w.rf
}

train='rf-grpo -m run --stale any --mini-batch 8 --keep 1'
pipe() {
	local s t all apart=0
	rf-entropy -m run 4096.rf -o warm.rf # the page cache holds the weights from here on
	for s in 'rf-entropy -m run -o e.rf 4096.rf' 'rf-select -o s.rf e.rf' \
		'rf-rollout -m run -o r.rf s.rf' 'rf-reward -o w.rf r.rf' "$train w.rf"; do
		t=$(seconds "$s")
		printf '    %-60s %10s s\n' "$s" "$t"
		apart=$(awk -v a="$apart" -v b="$t" 'BEGIN { print a + b }')
	done
	all=$(seconds "set -o pipefail
		rf-entropy -m run 4096.rf | rf-select | rf-rollout -m run | rf-reward | $train")
	row 'all stages at once over one after the other, 8 records' "$(ratio "$all" "$apart")" '<= 1.05' \
		"$all s, $apart s"
}

tiny() {
	rf-tokenize --bytes --max-len 8 --min-len 8 --truncate split text/*.txt 2>/dev/null |
		rf-cat --range 0:1 -o tiny.rf
}

# Times a step with the exact sum of gradients and with the sum in float32, in turns.  The shorter of the two
# times of each counts.
sums() {
	local how t
	stages
	for how in exact plain exact plain; do
		t=$(seconds "$train --sum $how w.rf")
		printf '    %-60s %10s s\n' "$train --sum $how" "$t"
		echo "$how $t" >>sums.out
	done
	row 'rf-grpo, 8 x 4096, --sum exact over --sum plain' "$(awk '
		!($1 in t) || $2 < t[$1] { t[$1] = $2 }
		END { printf "%.3f", t["exact"] / t["plain"] }' sums.out)" '<= 1.04' ''
}

# Times the gradient with each variant of the policy loss, for the model and for that of the demonstration.
# The last row is the pass of the reference model for --kl-coef.
losses() {
	local model options ratio more all t
	for model in model small; do
		while read -r ratio more all options; do
			row "$model: gradient with $options" "$ratio" '<= 1.01' "$more s more than $all s"
		done < <("${bench%/*}/policy-bench" $model 20)
	done
	rf-cat --range 0:4 prompts.rf | rf-entropy -m run | rf-select | rf-rollout -m run |
		rf-reward -o rewarded.rf
	t=$(seconds 'rf-rollout --score --as ref -m model -o scored.rf rewarded.rf' 3)
	row 'rf-rollout --score --as ref, over rf-grpo, 4 x 1024' \
		"$(ratio "$t" "$(seconds "$train rewarded.rf" 3)")" '' "$t s"
}

loads() {
	local forward t
	forward=$(forward s)
	tiny
	t=$(seconds 'rf-entropy -m run none.rf' 3)
	row 'start and load of rf-entropy, forward passes of 4096 tokens' "$(ratio "$t" "$forward")" '' "$t s"
	t=$(seconds 'rf-ntp -m run --keep 1 tiny.rf')
	row 'start, load and commit of rf-ntp (8 tokens), forward passes' "$(ratio "$t" "$forward")" '' "$t s"
}

# Measures the peak memory of each program that has a model, divided by the size of the weights in float32.
peaks() {
	local name command p
	stages
	while IFS=: read -r name command; do
		p=$(peak "$command")
		row "peak memory of $name, over the weights" "$(ratio "$p" "$weights")" '' \
			"$p MiB, $weights MiB"
	done <<-END
	rf-entropy (forward), T = 4096:rf-entropy -m model one.rf
	rf-ntp (forward + backward), T = 4096:rf-ntp -m run --keep 1 one.rf
	rf-rollout, T = 4096:rf-rollout -m run s.rf
	rf-grpo, 8 x 4096:$train w.rf
	END
}

streams() {
	local c t bytes plain mib speed
	stages
	rf-cat --repeat 16 --renumber w.rf -o many.rf
	bytes=$(zstd -dc many.rf | wc -c)
	plain=$(seconds 'zstd -dcq many.rf' 3)
	for c in rf-select rf-reward 'rf-dump --check'; do
		t=$(seconds "$c many.rf" 3)
		mib=$(peak "$c many.rf")
		speed=$(awk -v b="$bytes" -v t="$t" 'BEGIN { printf "%.0f", b / t / 1e6 }')
		row "$c, speed over that of zstd -d" "$(ratio "$plain" "$t")" '' \
			"$speed MB/s of records, peak $mib MiB"
	done
}

starts() {
	local c t plain
	plain=$("$bench" run 20 true | awk '{ print 1000 * $1 }')
	for c in 'rf-dump --check' rf-select rf-reward; do
		# shellcheck disable=SC2086  # words
		t=$("$bench" run 20 $c none.rf | awk '{ printf "%.1f", 1000 * $1 }')
		row "start of $c, ms" "$t" '<= 10' "$(ratio "$t" "$plain") times true"
	done
}

# Compares rf-tokenize with `tokenizers`.  The tokenizer is trained on the text, and is as large as that of
# Qwen.  Its folder has no model, which it would have to fit.
tokens() {
	local files peer start one two bytes mine encode
	# shellcheck disable=SC2206  # words
	files=(${texts:-text/*.txt})
	mkdir -p tokens
	"$TOKENIZERS" "$here/tokens-peer.py" train tokens/tokenizer.json "${files[@]}"
	"$TOKENIZERS" "$here/tokens-peer.py" encode tokens/tokenizer.json "${files[@]}" >tokens.out
	peer=$(pick tokens.out 'encode ' s)
	bytes=$(pick tokens.out 'text ' bytes)
	encode='rf-tokenize --no-eos --tokenizer tokens/tokenizer.json -o tokens.rf'
	start=$(seconds "$encode --format text /dev/null 2>start.err" 5)
	one=$(seconds "$encode ${files[*]} 2>tokens.err" 3)
	two=$(seconds "$encode --threads 2 ${files[*]} 2>tokens.err" 3)
	mine=$(sed 's/.* of \([0-9]*\) tokens.*/\1/' tokens.err)
	[ "$mine" = "$(pick tokens.out 'text ' tokens)" ] ||
		{ say "bench: tokenizers does not give rf-tokenize's $mine tokens: $(tail -n 1 tokens.out)" &&
			return 1; }
	row 'start of rf-tokenize with such a tokenizer.json, s' "$start" '<= 0.5' \
		"$(pick tokens.out 'text ' ids) ids; tokenizers loads it in $(pick tokens.out 'load ' s) s"
	# the time must not be 0 if the text is short
	one=$(awk -v a="$one" -v b="$start" 'BEGIN { print (a > b ? a - b : 1e-3) }')
	two=$(awk -v a="$two" -v b="$start" 'BEGIN { print (a > b ? a - b : 1e-3) }')
	row 'rf-tokenize, one thread, MB of text per second' "$(ratio "$bytes" "${one}e6")" '>= 5' \
		"$bytes bytes, $mine tokens"
	row 'rf-tokenize, one thread, speed over that of tokenizers' "$(ratio "$peer" "$one")" '>= 1' \
		"$one s, $peer s"
	row 'rf-tokenize, two threads over one' "$(ratio "$one" "$two")" '' "$two s"
}

printf '%s on %s, %s cores, %s\n\n' "$arch" "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" \
	"$(nproc)" "$(uname -sr)"
printf '%-62s %10s  %-8s\n' 'what' 'measured' 'must'
all="passes steps bf16 lengths generate evaluation pipe loads sums losses peaks streams starts"
all+="${TOKENIZERS:+ tokens}"
for group in ${ONLY:-$all}; do
	measure "$group"
done
finish
