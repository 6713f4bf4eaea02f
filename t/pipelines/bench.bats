#!/usr/bin/env bats
# Tests of pipelines/bench/bench.sh and of the scripts that it reads.

setup_file() {
	load ../helper
	load ../pipelines
	text_model_and_run
}

setup() {
	load ../helper
	load ../pipelines
}

# model_and_text: makes a tiny model and text in dir, in place of the ones that bench.sh would make there
model_and_text() {
	mkdir -p dir/text
	touch dir/text/SOURCE
	cp "$P"/text/rf-c*.txt dir/text
	cp -r "$P/ckpt" dir/model
	for n in 4096 8192 32768 131072 prompts; do
		rf-cat --range 0:8 -o dir/$n.rf "$P/want/data/corpus.rf"
	done
}

@test "bench.sh: marks figures that fall short and stages that fail, and still measures the rest" {
	cat >bench <<-END
		#!/bin/sh
		case \$2 in
		pass)
			echo "product                 500.0 GFLOP/s, float32, 2 threads"
			[ -z "\$BENCH_DTYPE" ] ||
				echo "product, bf16          2000.0 GFLOP/s, 4.00 times float32"
			pass="80.0 % of the product      4000 tokens/s  1.000 s"
			echo "forward                 400.0 GFLOP/s   \$pass"
			pass="50.0 % of the product      1000 tokens/s  3.000 s"
			echo "forward + backward      250.0 GFLOP/s   \$pass"
			;;
		step) echo "bench: no step today" >&2; exit 1 ;;
		token)
			printf 'token, %s ms\n' '1 x 1024       9.000' '16 x 1024      2.000' \
				'1 x 65536     10.000'
			;;
		*) exec "$RF_UNITS/helper/bench" "\$@" ;;
		esac
	END
	chmod +x bench
	mkdir demo
	model_and_text
	# paragraphs of the length that questions need
	seq 1000 | awk '{ for (n = 0; n < 48; n++) printf "w%d ", $1 * (n + 7) % 997; print "\n" }' \
		>dir/text/paragraphs.txt
	cp -r "$P/want" demo/start
	rf-tokenize --bytes --max-len 1000 -o demo/valid.rf --truncate right "$P"/text/*.txt 2>/dev/null
	# one script for a processor without matrix units, and one for a processor that has them
	mkdir -p pipelines/bench pipelines/demo
	cp "$ROOT/pipelines/bench/bench-rows.sh" pipelines/bench
	cp "$ROOT/pipelines/demo/demo-delta_net.json" pipelines/demo
	sed 's,/proc/cpuinfo,/dev/null,' "$ROOT/pipelines/bench/bench.sh" >pipelines/bench/bench.sh
	echo 'flags : amx_bf16 amx_tile' >cpuinfo
	sed "s,/proc/cpuinfo,$PWD/cpuinfo," "$ROOT/pipelines/bench/bench.sh" >pipelines/bench/amx.sh
	# 5 samples of each task instead of 500
	mkdir bin
	ln -s "$RF_BIN"/* bin
	rm bin/rf-needle
	printf '#!/bin/sh\nexec "%s/rf-needle" "$@" -n 5\n' "$RF_BIN" >bin/rf-needle
	chmod +x bin/rf-needle
	bench() {
		run "$1" --separate-stderr env -u RF_ISA RF_BENCH="$PWD/bench" RF_BIN="$PWD/bin" DEMO=demo \
			"${@:2}" dir
	}
	bench -1 bash pipelines/bench/bench.sh
	[[ "$stderr" == *"bench: no step today"*"bench: failed: steps" ]]
	grep -qE '^steps +FAILED$' <<<"$output"
	# every level of the instruction set has its own rows and limits
	[ "$(sed -n 's,^\([^ ]*\): forward / product.*,\1,p' <<<"$output")" = "$(levels)" ]
	[ "$(sed -n 's,^\([^ ]*\): demonstration\, forward + backward / product.*,\1,p' <<<"$output")" = \
		"$(levels)" ]
	lowest=$(levels | tail -n 1)
	grep -qE "^$lowest: forward / product, % +80.0 +>= 70 *$" <<<"$output"
	grep -qE "^$lowest: forward \+ backward / product, % +50.0 +>= 60 +FALLS SHORT" <<<"$output"
	grep -qE "^$lowest: demonstration, forward \+ backward / product, % +50.0 +>= 45 *$" <<<"$output"
	[ "$(levels | grep -c .)" -eq 1 ] || grep -qE "^$(levels |
		head -n 1): forward / product, % +80.0 +>= (84 +FALLS SHORT|75) *$" <<<"$output"
	grep -qE '^peak memory of rf-rollout, T = 131072 over T = 8192 +[0-9.]+ +<= 1.1 ' <<<"$output"
	grep -qE '^rf-dump --check, speed over that of zstd -d +[0-9.]+ +[0-9]+ MB/s' <<<"$output"
	grep -qE '^rf-generate, 16 rec.*, tokens/s +4.500 +>= 4 +2.000 ms, 9.000 ms a token$' <<<"$output"
	grep -qE '^seconds per new token, .* 1.111 +<= 1.1 +FALLS SHORT 10.000 ms, 9.000 ms$' <<<"$output"
	grep -qE '^rf-needle, 13 tasks .*, s +[0-9.]+ +<= 60 +(FALLS SHORT )?195 prompts$' <<<"$output"
	grep -qE '^rf-logp, 4 choices of 30 behind 80, rows apart over below +2\.[0-9]+ +>= 2 ' <<<"$output"
	grep -qE '^rf-logp, 4 choices of 10 behind 600, rows apart over below +3\.[0-9]+ +>= 2 ' <<<"$output"
	[ "$(grep -c '^start of ' <<<"$output")" -eq 3 ]
	[ "$(grep -c "over the weights " <<<"$output")" -eq 4 ]
	mean=$(rf-entropy -m demo/start demo/valid.rf | rf-dump --json |
		jq -n '[inputs | select(.type == "seq").body.entropy.data[]] | add / length')
	shown=$(sed -n 's/^mean entropy of the demonstration.* <= 1e-2 .*, //p' <<<"$output")
	awk -v a="$mean" -v b="$shown" 'BEGIN { exit !(a > 1 && (a - b) ^ 2 < 1e-10) }'
	grep -qE "^rf-entropy --dtype bf16: forward over float32 +1.000 +oneDNN's own .*: 4.00$" <<<"$output"
	ONLY=bf16 bench -0 bash pipelines/bench/amx.sh
	grep -qE "^rf-entropy --dtype bf16: forward over float32 +1.000 +>= 3 +FALLS SHORT .*: 4.00$" \
		<<<"$output"
	# the entropy of an empty stream is an error, not 0
	rf-cat --range 0:0 demo/valid.rf -o demo/valid.rf
	ONLY=bf16 bench -1 bash pipelines/bench/bench.sh
	grep -qE '^bf16 +FAILED$' <<<"$output"
}

@test "bench.sh: fails if rf-generate writes other tokens with --batch 16 than record by record" {
	mkdir bin
	model_and_text
	ln -s "$RF_BIN"/* bin
	bench() {
		run "$1" --separate-stderr env RF_BENCH="$RF_UNITS/helper/bench" RF_BIN="$PWD/bin" \
			ONLY=generate bash "$ROOT/pipelines/bench/bench.sh" dir
	}
	bench -0
	grep -qE '^rf-generate, 16 records side by side .*, tokens/s +[0-9.]+ +>= 4 ' <<<"$output"
	grep -qE '^seconds per new token, prompt of 65536 over one of 1024 +[0-9.]+ +<= 1.1 ' <<<"$output"
	rm bin/rf-generate
	cat >bin/rf-generate <<-END
		#!/bin/sh
		case "\$*" in
		*'--batch 16 '*) exec "$RF_BIN/rf-generate" --temperature 1 "\$@" ;;
		*) exec "$RF_BIN/rf-generate" "\$@" ;;
		esac
	END
	chmod +x bin/rf-generate
	bench -1
	grep -qE '^generate +FAILED$' <<<"$output"
	[[ "$stderr" == *"bench: side by side rf-generate writes other tokens than one by one"* ]]
}

@test "bench.sh: TOKENIZERS compares rf-tokenize with another tokenizer, which must give as many tokens" {
	model_and_text
	zstd -dcq "$G/tokenizer/qwen2.json.zst" >qwen2.json
	count=$(rf-tokenize --no-eos --tokenizer qwen2.json -o x.rf dir/text/*.txt 2>&1 |
		sed 's/.* of \([0-9]*\) tokens.*/\1/')
	cat >python <<-END
		#!/bin/sh
		case \$2 in
		train) cp "$PWD/qwen2.json" "\$3" ;;
		encode) printf 'load   0.5 s\nencode 900 s\ntext   1000 bytes %d tokens 4004 ids\n' \$COUNT ;;
		esac
	END
	chmod +x python
	bench() {
		run "$1" --separate-stderr env -u RF_ISA RF_BENCH="$RF_UNITS/helper/bench" RF_BIN="$RF_BIN" \
			ONLY=tokens TOKENIZERS="$PWD/python" COUNT="$2" \
			bash "$ROOT/pipelines/bench/bench.sh" dir
	}
	bench -0 "$count"
	grep -qE "^start of rf-tokenize .*, s +0\.[0-9]+ +<= 0.5 +4004 ids; tokenizers loads it in 0.5 s$" \
		<<<"$output"
	grep -qE "^rf-tokenize, one thread, MB of .* >= 5 +(FALLS SHORT )?1000 bytes, $count tokens$" \
		<<<"$output"
	grep -qE "^rf-tokenize, one thread, speed over that of tokenizers .* >= 1 .* s, 900 s$" <<<"$output"
	bench -1 $((count + 1))
	grep -qE '^tokens +FAILED$' <<<"$output"
	[[ "$stderr" == *"bench: tokenizers does not give rf-tokenize's $count tokens: "* ]]
}
