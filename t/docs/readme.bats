#!/usr/bin/env bats
# Tests of the README.  The commands of its blocks marked sh run with a tiny model and text.  Its blocks
# marked text show what the preceding commands print, with another model.

setup() {
	load ../helper
	cp -r "$ROOT/pipelines" .
	export RF_BIN
	# Replaces make: `make deps check` does nothing, and `make deps midtrain KEEP=1` trains a tiny model.
	make() {
		case "$*" in
		'deps check') ;;
		'deps midtrain KEEP=1') small ;;
		*/posttrain.mk* | */testtime.mk* | *speed*) command make "$@" BATCH=8 MINI_BATCH=4 ;;
		*) command make "$@" ;;
		esac
	}
	small() {
		local i
		mkdir -p runs/midtrain/corpus
		for i in $(seq 20); do
			# the words of all paragraphs are different
			awk -v text=$i 'BEGIN {
				for (n = 1; n <= 720; n++) {
					word = ""
					for (x = n * 20 + text; x; x = int(x / 20))
						word = word substr("bcdfghjklmnpqrstvwxy", x % 20 + 1, 1)
					printf "%s", word "a" (n % 60 ? n % 12 ? " " : "\n" : "\n\n")
				}
			}' >runs/midtrain/corpus/$i.txt
		done
		echo '{ "model_type": "delta_net", "hidden_size": 16, "num_hidden_layers": 1, "num_heads": 2,
			"vocab_size": 384, "eos_token_id": 1 }' >config.json
		rf-init --config config.json runs/midtrain/start
		command make -s -f pipelines/midtrain.mk RUN=runs/midtrain/refine MODEL=runs/midtrain/start \
			BATCHES=1 KEEP=1 CORPUS='runs/midtrain/corpus/*.txt' BATCH=16 MINI_BATCH=4 LEN=128
	}
	export -f make small
}

# blocks MARK: prints the lines of the README's blocks with this mark
blocks() { awk -v mark="^\`\`\`$1\$" '/^```$/ { on = 0 } on; $0 ~ mark { on = 1 }' "$ROOT/README.md"; }

# form: prints what does not depend on the model in a printed rollout, and in a figure, whose height may
# differ
form() {
	sed -E 's/^( {15})["<].* -[0-9.]+$/\1TOKENS/; s/^( {15})["<].*/\1TEXT/; s/".*"/TEXT/
		s/[-+]?[0-9]+(\.[0-9]+)?/N/g; s/^ *(N )?[|].*[|]$/ROW/; s/^ *(N )?\+-+\+$/EDGE/
		s/^ +entropy in/entropy in/; s/  +(chosen)/ \1/; s/^ +N( +N)+$/TICS/' | uniq
}

@test "README: all of its commands run" {
	blocks sh | sed 's/ 2k / 128 /; s/BATCHES=4 BATCH=16/BATCHES=2 BATCH=8/; s/each=4/each=2/
		s/4k,8k/4k/; s/LEN=2k/LEN=128/; s/SAMPLES=5/SAMPLES=1/' >commands
	[ "$(grep -c . commands)" -ge 20 ]
	bash -eu -o pipefail commands >out 2>err </dev/null || { cat err; return 1; }
	# no message says that the sequences are shorter than LEN
	run ! grep -q 'less than half of' err
	[ "$(rf-dump --tsv --rows step --columns step,commits --no-header RUN | tail -n 1)" = $'8\t3' ]
	[ "$(cut -f 1 runs/curves/curves.tsv | sort | uniq -c | tr -s ' ' | paste -sd,)" = \
		' 1 run, 5 runs/a, 5 runs/b, 5 runs/c, 5 runs/d, 5 runs/e' ]
	grep -q ' rf-select .*--exec .python3 pipelines/examples/my_selection.py.' runs/f/data/words
	[ "$(grep -c '^| niah_single_1 ' runs/q/report.md)" -eq 1 ]
	[ -e runs/q/heat.png ]
	grep -q ' rf-reward --exec .python3 pipelines/examples/my_reward.py. ' runs/c/data/words
	[ "$(rf-dump --json runs/a/streams/step-000000.rf | head -n 1 | jq '.body.history | length')" -ge 4 ]
	[ "$(rf-dump --tsv --rows sample --no-header runs/t/answers/*.rf | wc -l)" -ge 4 ]
	grep -q '^operations ' out
}

@test "README: the rollout and the figure that it shows have the form that its commands print" {
	blocks sh | sed '/^gnuplot/q' >commands
	blocks text >shown
	bash -eu -o pipefail commands 2>err | sed 's/\f//; s/ *$//; /^$/d' >printed
	diff <(form <shown) <(form <printed)
	[ "$(form <shown | paste -sd' ' | tr -s ' ')" = " position N s N entropy N prefix TEXT truth TEXT\
 rollout N reward N cosine N binary N edit N advantage N logp N TEXT TOKENS\
 entropy in nats, mean of N tokens ******* chosen position O EDGE ROW EDGE TICS" ]
	# the figure has one O in the key, and one in each of eight chunks
	[ "$(tr -dc O <shown | wc -c)" -eq 9 ]
}

@test "README: the table is that of the results without the last column, in the form of a report" {
	grep '^|' "$ROOT/README.md" >table
	[ "$(wc -l <table)" -eq 8 ]
	sed -n 's/^\(|.*|\)[^|]*|$/\1/p' "$ROOT/pipelines/bench/results/midtrain.md" >results
	while read -r line; do
		grep -qFx -e "$line" results || { echo "$line"; return 1; }
	done <table
	printf 'id\nd\t1.5\t0.5\t0.4\t0.4\t0.2\t0.2\n' |
		tee {start,sft,sft-published,refine,refine-n8,random}.documents.tsv
	awk -f "$ROOT/pipelines/lib/tables.awk" -f "$ROOT/pipelines/demo/report.awk" ./*.documents.tsv |
		sed '/^$/,$d; s/[^|]*|$//; s/ [0-9.]\+/ N/g' |
		diff - <(sed 's/ [0-9.]\+/ N/g' table)
}

@test "README: every file and manual page that it names exists" {
	n=0
	for name in $(grep -oE '`(man )?[a-z]+/[a-z0-9./-]*`' "$ROOT/README.md" | sed 's/`//g; s/man //') \
		$(grep -oE 'rf-[a-z]+\([157]\)' "$ROOT/README.md" | sed 's,\(.*\)(\(.\)),man/\1.\2,'); do
		[ -e "$ROOT/$name" ] || { echo "$name is not there"; return 1; }
		n=$((n + 1))
	done
	[ "$n" -ge 9 ]
}

@test "README: every make target that it names exists" {
	for target in deps check midtrain help; do
		grep -q "make.* $target" "$ROOT/README.md"
		grep -q "^$target:" "$ROOT/Makefile"
	done
}

@test "README: the loop that it shows is a copy of the loop in tools/rf-step.c" {
	blocks c | sed 's/^\t*//' >loop
	[ -s loop ]
	sed 's/^\t*//' "$ROOT/tools/rf-step.c" |
		grep -Fx -A "$(($(wc -l <loop) - 1))" -- "$(head -n 1 loop)" | tr '\n' '~' >source
	grep -qF "$(sed 's/^ *//' loop | tr '\n' '~')" <(sed 's/~ */~/g' source)
}
