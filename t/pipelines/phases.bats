#!/usr/bin/env bats
# Tests of post-training and test-time training, with a tiny model over bytes and questions made by a rule.

setup_file() {
	load ../helper
	export P=$BATS_FILE_TMPDIR
	tiny_model
	awk 'BEGIN {
		srand(1)
		split("red blue green tea sun moon", word, " ")
		for (i = 0; i < 18; i++) {
			prompt = "Words:"
			for (j = 0; j < 8 + i % 7; j++)
				prompt = prompt " " word[int(1 + 6 * rand())]
			print "{\"prompt\": \"" prompt ". Which?\", \"answer\": \" " word[1 + i % 6] \
				"\", \"answers\": [\"" word[1 + i % 6] "\", \"none\"], \"task\": \"words\"}"
		}
	}' >"$P/data.jsonl"
	local began=${EPOCHREALTIME/./}
	posttrain RUN="$P/post" COMPUTE='--threads 1' 2>"$P/said" || { cat "$P/said"; return 1; }
	testtime RUN="$P/carry" COMPUTE='--threads 1'
	export TOOK=$(((${EPOCHREALTIME/./} - began) / 2)) # microseconds of a phase
	testtime RUN="$P/reset" RESET=batch
	testtime RUN="$P/none" METHOD=none
}

setup() {
	load ../helper
}

# posttrain WORD..., testtime WORD...: run a phase with the tiny model, for three batches; the last is smaller
posttrain() {
	RF_BIN=$RF_BIN make -s -f "$ROOT/pipelines/posttrain.mk" MODEL="$P/ckpt" DATA="$P/data.jsonl" \
		BATCH=8 MINI_BATCH=2 LR=1e-3 META_KEY=task "$@"
}
testtime() {
	RF_BIN=$RF_BIN make -s -f "$ROOT/pipelines/testtime.mk" MODEL="$P/ckpt" DATA="$P/data.jsonl" \
		LR=1e-2 MAX_NEW=5 "$@"
}
export -f posttrain testtime
export ROOT RF_BIN

steps() { rf-dump --tsv --rows step --columns step,commits --no-header "$1" | tail -n 1; }
# answered RUN: prints ids and generations of its answers, sorted
answered() {
	for file in "$1"/answers/*.rf; do
		rf-dump --json "$file"
	done | jq -c 'select(.type == "seq").body | [.id, .generation]' | sort
}

@test "testtime.mk, posttrain.mk: TRUNCATE=drop leaves out the prompts that are longer than MAX_PROMPT" {
	most=$(jq '.prompt | length' "$P/data.jsonl" | sort -n | sed -n 9p)
	jq -c "select(.prompt | length <= $most)" "$P/data.jsonl" >short.jsonl
	n=$(wc -l <short.jsonl)
	said="rf-tokenize: $((18 - n)) prompts longer than $most tokens were left out (--truncate drop)"
	testtime RUN=t METHOD=ntp MAX_PROMPT=$most TRUNCATE=drop 2>err
	grep -qxF -- "$said" err
	testtime RUN=short METHOD=ntp DATA=short.jsonl
	[ "$(answered t | wc -l)" -eq "$n" ]
	[ "$(answered t)" = "$(answered short)" ]
	posttrain RUN=p METHOD=sft MAX_PROMPT=$most TRUNCATE=drop 2>err
	grep -qxF -- "$said" err
	mentions 2 ' has 0 sequences, fewer than a batch of 8 (--batch): ' testtime RUN=none METHOD=ntp \
		MAX_PROMPT=9 TRUNCATE=drop
	[[ "$output" == *'a larger MAX_PROMPT with TRUNCATE=drop)'* ]]
	rf-dump --tsv --rows record --columns T,prompt_len --no-header p/data/corpus.rf |
		diff - <(jq -r '[(.prompt + .answer | length), (.prompt | length)] | @tsv' short.jsonl)
}

@test "posttrain.mk: each batch makes steps on the prompts, one step on the responses, and one commit" {
	[ "$(steps "$P/post")" = $'12\t3' ]
	num='[0-9.e+-]*'
	[ "$(grep -c "batch [123] of 3, step [0-9]*, loss $num, reward $num, loss of responses $num" \
		"$P/said")" = 3 ]
	[ "$(jq -c 'has("actor/sft_loss")' "$P/post/log.jsonl" | uniq -c | paste -sd' ' | tr -s ' ')" = \
		' 4 false 1 true 4 false 1 true 1 false 1 true' ]
	# the same by the single programs
	rf-init --from "$P/ckpt" hand
	for from in 0 8 16; do
		rf-cat --range $from:$((from + 8 > 18 ? 18 : from + 8)) -o batch "$P/post/data/epoch-0.rf"
		at=$(basename "$(readlink hand/latest)")
		rf-cat --split-response batch | rf-entropy -m hand | rf-select | rf-rollout -m hand |
			rf-reward --kind hybrid |
			rf-grpo -m hand --mini-batch 2 --lr 1e-3 --outer response --at $((10#${at#step-}))
	done
	cmp hand/latest/model.safetensors "$P/post/latest/model.safetensors"
	cmp hand/latest/optim.safetensors "$P/post/latest/optim.safetensors"
	rf-dump --json "$P/post/data/corpus.rf" | jq -se '[.[] | select(.type == "seq").body]
		| all(.meta.task == "words" and .prompt_len < (.tokens.data | length))' >/dev/null
}

@test "posttrain.mk: METHOD and INNER_STEPS choose the tokens to train on and the number of steps" {
	# two batches, of eight and of two questions
	head -n 10 "$P/data.jsonl" >ten.jsonl
	for how in 'ntp published 4' 'sft published 2' ${RF_ALL:+'ntp matched 7' 'sft matched 7'}; do
		read -r method inner want <<<"$how"
		posttrain RUN=$method-$inner DATA=ten.jsonl METHOD=$method INNER_STEPS=$inner
		[ "$(steps $method-$inner)" = "$want"$'\t2' ]
	done
	# METHOD=sft trains on responses only, METHOD=ntp on prompts and on responses
	[ "$(jq -c 'has("actor/sft_loss")' ntp-published/log.jsonl | paste -sd' ')" = \
		'false true false true' ]
	rf-init --from "$P/ckpt" hand
	rf-cat --range 0:8 sft-published/data/epoch-0.rf | rf-ntp -m hand --lr 1e-3 --loss response
	posttrain RUN=one DATA=ten.jsonl METHOD=sft INNER_STEPS=published BATCHES=1
	same_run hand one
	posttrain RUN=random DATA=ten.jsonl REWARD='rf-reward --kind random' EPOCHS=2
	[ "$(steps random)" = $'14\t4' ]
	# without INNER_STEPS both methods make as many steps as ReFINE
	for method in ntp sft; do
		posttrain RUN=$method DATA=ten.jsonl METHOD=$method
		[ "$(steps $method)" = $'7\t2' ]
		[ -z "${RF_ALL:-}" ] || same_run $method $method-matched
	done
	mentions 2 "INNER_STEPS has no effect here: TRAIN='rf-ntp'" posttrain RUN=no METHOD=ntp TRAIN=rf-ntp \
		INNER_STEPS=published
	for bad in METHOD=none METHOD= INNER_STEPS=some MAX_ANSWER=x EPOCHS=-1; do
		run -2 posttrain RUN=no $bad
	done
}

@test "posttrain.mk: ANSWER_BLANK puts a blank before trained answers, but not before references" {
	echo '{"prompt": "Q:", "answer": "tea"}' >q.jsonl
	for blank in '' 1; do
		posttrain RUN=q$blank DATA=q.jsonl META_KEY= BATCH=1 METHOD=sft ANSWER_BLANK=$blank
		rf-dump --json q$blank/data/corpus.rf | jq -c 'select(.type == "seq").body
			| [(.tokens.data[.prompt_len:] | map(. - 3) | implode), .answers[]]'
	done >said
	[ "$(paste -sd' ' said)" = '["tea","tea"] [" tea","tea"]' ]
}

@test "posttrain.mk: EOS=yes ends each answer with the end token, and EOS=no leaves the end token out" {
	posttrain RUN=no METHOD=sft BATCHES=1
	posttrain RUN=yes METHOD=sft BATCHES=1 EOS=yes
	tokens() { rf-dump --json "$1/data/corpus.rf" | jq -c 'select(.type == "seq").body.tokens.data'; }
	diff <(tokens no | jq -c '. + [1]') <(tokens yes)
	mentions 2 "EOS='1' is not one of no|yes" posttrain RUN=other EOS=1
}

@test "posttrain.mk, testtime.mk: runs have the same bytes with one thread and with three" {
	# the first runs have one thread
	answered "$P/carry" >want
	for threads in 3 ${RF_ALL:+1 2 4}; do
		posttrain RUN=p$threads COMPUTE="--threads $threads"
		same_run p$threads "$P/post"
		testtime RUN=t$threads COMPUTE="--threads $threads"
		same_run t$threads "$P/carry"
		answered t$threads | diff want -
	done
}

@test "posttrain.mk, testtime.mk: a run killed at random moments and started again ends with the same bytes" {
	# fused.bats kills testtime.mk with RESET=batch
	local phases=('posttrain post' 'testtime carry') times=2
	[ -z "${RF_ALL:-}" ] || { times=200 phases+=('testtime reset RESET=batch'); }
	for phase in "${phases[@]}"; do
		read -r phase name words <<<"$phase"
		run python3 "$ROOT/t/helper/kill-phase.py" $times "$RANDOM" "$P/$name" \
			"$phase" $words
		[ "$output" = "$times kills" ] || { echo "$output"; false; }
	done
}

@test "testtime.mk: each batch is answered by the weights after its own training, in the order of the file" {
	[ "$(steps "$P/carry")" = $'5\t3' ]
	[ "$(ls "$P/carry/answers" | paste -sd' ')" = 'batch-000000.rf batch-000001.rf batch-000002.rf' ]
	rf-init --from "$P/ckpt" hand
	for batch in 0 1 2; do
		from=$((8 * batch)) to=$((8 * batch + 8 > 18 ? 18 : 8 * batch + 8))
		rf-cat --range $from:$to -o batch "$P/carry/data/corpus.rf"
		rf-entropy -m hand batch | rf-select | rf-rollout -m hand | rf-reward --kind binary |
			rf-grpo -m hand --mini-batch 4 --lr 1e-2 --rl-coef 0.4
		rf-generate -m hand --max-new 5 batch | rf-dump --json | jq -c .body.generation >want
		rf-dump --json "$P/carry/answers/batch-00000$batch.rf" | jq -c .body.generation | diff - want
	done
	cmp hand/latest/model.safetensors "$P/carry/latest/model.safetensors"
	# with RESET=batch only the first batch has the same answers
	generations() { rf-dump --json "$P/$1/answers/batch-00000$2.rf" | jq -c .body.generation; }
	[ "$(generations carry 0)" = "$(generations reset 0)" ]
	[ "$(generations carry 2)" != "$(generations reset 2)" ]
	# the answers' records keep the references
	rf-dump --json "$P/carry/answers/batch-000000.rf" | jq -se '[.[] | select(.type == "seq").body]
		| all((.answers | length) == 2 and .prompt_len == (.tokens.data | length))' >/dev/null
}

@test "testtime.mk: missing answers of the newest batch are computed again, with the same bytes" {
	cp -r "$P/carry" again
	rm again/answers/batch-000002.rf
	testtime RUN=again
	cmp again/answers/batch-000002.rf "$P/carry/answers/batch-000002.rf"
	same_run again "$P/carry"
}

@test "testtime.mk, posttrain.mk: variables that would have no effect are refused" {
	mentions 2 'LONG is not possible here: ' posttrain RUN=none LONG=1
	for words in 'RESET=batch KEEP=1' 'LONG=1' 'METHOD=none KEEP=1' 'RESET=batch AFTER=true' \
		'BATCHES=1 EPOCHS=2' 'CORPUS=x.jsonl' 'DATA='; do
		run ! testtime RUN=none $words
		[ ! -e none ]
	done
	# ANSWER_KEY may be empty: then there are no references
	testtime RUN=bare METHOD=none ANSWER_KEY= 2>err
	run ! grep 'tokens on average' err
	grep -q 'rf-tokenize .*--max-prompt 16352' err
	[ "$(rf-dump --json bare/data/corpus.rf | grep -c '"answers"')" -eq 0 ]
}

@test "testtime.mk: with RESET=batch a batch is answered by MODEL after training on that batch only" {
	cp -a "$P/reset" refine
	testtime RUN=ntp METHOD=ntp RESET=batch 2>said
	said='ntp: batch 3: loss of the prompts \(.*\) before adapting, \(.*\) after'
	[ "$(sed -n "s/^$said\$/[\1,\2]/p" said | jq -c .)" = \
		"$(tail -n 1 ntp/adapted.jsonl | jq -c '[.before.nll, .after.nll]')" ]
	for method in refine ntp; do
		for batch in ${RF_ALL:+0 1} 2; do
			from=$((8 * batch)) to=$((8 * batch + 8 > 18 ? 18 : 8 * batch + 8))
			rf-cat --range $from:$to -o batch $method/data/corpus.rf
			case $method in
			refine)
				rf-entropy -m "$P/ckpt" batch | rf-select | rf-rollout -m "$P/ckpt" |
					rf-reward --kind binary | rf-grpo -m "$P/ckpt" --mini-batch 4 \
					--lr 1e-2 --rl-coef 0.4 --weights-out hand
				;;
			ntp) rf-ntp -m "$P/ckpt" --mini-batch 4 --lr 1e-2 --weights-out hand batch ;;
			esac
			rf-generate -m hand --max-new 5 batch | rf-dump --json | jq -c .body.generation >want
			rf-dump --json $method/answers/batch-00000$batch.rf | jq -c .body.generation |
				diff - want
		done
		cmp hand/model.safetensors $method/adapted/model.safetensors
		# the log has the loss on the last batch's prompts before and after
		[ "$(jq -c .batch $method/adapted.jsonl | paste -sd' ')" = '0 1 2' ]
		rf-ntp --eval -m hand <(rf-cat --part prompt batch) >after
		tail -n 1 $method/adapted.jsonl | jq -c .after | diff - <(jq -c . after)
		[ "$(answered $method)" != "$(answered "$P/none")" ]
	done
}

@test "testtime.mk: other answers in the data change no weight and no generation" {
	sed 's/"answers": \[[^]]*\]/"answers": ["something else", "entirely"]/
		s/"answer": "[^"]*"/"answer": " a response that is longer"/' "$P/data.jsonl" >other.jsonl
	testtime RUN=reset DATA=other.jsonl RESET=batch
	cmp reset/adapted/model.safetensors "$P/reset/adapted/model.safetensors"
	[ "$(answered reset)" = "$(answered "$P/reset")" ]
	testtime RUN=other DATA=other.jsonl
	cmp other/latest/model.safetensors "$P/carry/latest/model.safetensors"
	cmp other/latest/optim.safetensors "$P/carry/latest/optim.safetensors"
	answered "$P/carry" >want
	answered other | diff want -
	[ "$(rf-dump --tsv --rows record --columns answer --no-header other/answers/*.rf | sort -u)" = \
		'something else' ]
	# responses in a stream do not change them, either
	for file in other.jsonl ${RF_ALL:+"$P/data.jsonl"}; do
		rf-tokenize --tokenizer "$P/ckpt" --prompt-key prompt --answer-key answer --no-eos \
			-o data.rf "$file" 2>/dev/null
		testtime RUN=run DATA=data.rf
		answered run | diff want -
		rm -rf run
	done
}

@test "testtime.mk: with RESET=batch the order of batches changes nothing, without it changes the answers" {
	[ -n "${RF_ALL:-}" ] && n=18 || n=3
	head -n $n "$P/data.jsonl" >data.jsonl
	for order in 'file 1' 'shuffle 1' ${RF_ALL:+'shuffle 2'}; do
		read -r order seed <<<"$order"
		testtime RUN=carry-$order-$seed DATA=data.jsonl BATCH=1 MINI_BATCH=1 ORDER=$order SEED=$seed
		testtime RUN=reset-$order-$seed DATA=data.jsonl RESET=batch BATCH=1 ORDER=$order SEED=$seed
		answered carry-$order-$seed >carry-$order-$seed.answers
		answered reset-$order-$seed >reset-$order-$seed.answers
		cmp reset-$order-$seed.answers reset-file-1.answers
	done
	run ! cmp -s carry-shuffle-1.answers carry-file-1.answers
	[ -z "${RF_ALL:-}" ] || run ! cmp -s carry-shuffle-1.answers carry-shuffle-2.answers
	# adapted weights give other answers than MODEL
	testtime RUN=none DATA=data.jsonl METHOD=none
	run ! cmp -s reset-file-1.answers <(answered none)
	# with RESET=batch nothing is committed, and only weights are kept
	[ "$(steps reset-file-1)" = $'0\t0' ]
	[ ! -e reset-file-1/adapted/optim.safetensors ]
	[ "$(wc -l <reset-file-1.answers)" -eq $n ]
}

@test "testtime.mk: METHOD=none answers without training, METHOD=ntp after training on next tokens" {
	cp -a "$P/none" .
	rf-generate -m "$P/ckpt" --max-new 5 none/data/corpus.rf |
		rf-dump --json | jq -c 'select(.type == "seq").body | [.id, .generation]' | sort >want
	answered none | diff - want
	testtime RUN=none-reset METHOD=none RESET=batch
	answered none-reset | diff - want
	for how in 'published 3' ${RF_ALL:+'matched 5'}; do
		read -r inner want <<<"$how"
		testtime RUN=ntp-$inner METHOD=ntp INNER_STEPS=$inner
		[ "$(steps ntp-$inner)" = "$want"$'\t3' ]
	done
	testtime RUN=ntp METHOD=ntp
	[ "$(steps ntp)" = $'5\t3' ]
	[ -z "${RF_ALL:-}" ] || same_run ntp ntp-matched
	# a run refuses another GENERATE
	testtime RUN=part BATCHES=1
	run ! testtime RUN=part GENERATE='rf-generate --max-new 6'
	[[ "$output" == *'the run was started with other settings'* ]]
	testtime RUN=part
	[ "$(answered part)" = "$(answered "$P/carry")" ]
}

@test "answer.sh: exits 64 with its usage if the model or the output is missing" {
	rf-cat -o in.rf "$P/post/data/epoch-0.rf"
	for how in "-m $P/ckpt" '-o out.rf' ''; do
		# shellcheck disable=SC2086  # words
		run -64 env PATH="$RF_BIN:$PATH" "$ROOT/pipelines/lib/answer.sh" $how <in.rf
		[[ "$output" == 'usage: answer.sh '* ]]
	done
	PATH="$RF_BIN:$PATH" "$ROOT/pipelines/lib/answer.sh" -m "$P/ckpt" -o out.rf <in.rf
	[ "$(rf-dump --tsv --rows sample --no-header out.rf | wc -l)" -eq 18 ]
}

@test "make posttrain, make testtime: go from texts to reports, and a second call repeats nothing" {
	command -v gnuplot >/dev/null || skip "gnuplot is not installed (make deps)"
	mkdir -p base/corpus
	for page in rf-cat rf-loop rf-dump rf-grpo rf-init rf-ntp; do
		sed 's/^\.Pp$//' "$ROOT/man/$page.1" >"base/corpus/$page.txt"
	done
	demo() {
		RF_BIN=$RF_BIN make -s -f "$ROOT/pipelines/demo/demo-phases.mk" BASE=base MODEL="$P/ckpt" \
			RUN=demo EACH=2 TESTS=4 BATCH=4 MINI=2 TEST_BATCH=3 TEST_MINI=2 MAX_NEW=2 "$@"
	}
	run -0 --separate-stderr demo posttrain testtime
	[ "$(grep -c '^| ' <<<"$output")" -eq 16 ]
	for method in start sft sft-published ntp ntp-published refine random; do
		grep -q "^| $method | [0-9]* | [0-9]* | [0-9.]* ± [0-9.]* | " demo/posttrain.md
	done
	grep -q '^| sft .* | |$' demo/posttrain.md
	for method in none t-ntp t-ntp-published t-refine t-random t-ntp-reset t-reset; do
		grep -q "^| $method | [0-9]* | " demo/testtime.md
	done
	# all methods of a phase make the same number of steps, except INNER_STEPS=published
	for names in 'posttrain sft ntp refine random' 'testtime t-ntp t-refine t-random'; do
		read -r phase names <<<"$names"
		for name in $names; do sed -n "s/^| $name | \([0-9]*\) | .*/\1/p" demo/$phase.md; done |
			sort -u >steps
		[ "$(wc -l <steps)" -eq 1 ]
	done
	[ "$(sed -n 's/^| t-ntp-published | \([0-9]*\) | .*/\1/p' demo/testtime.md)" -lt "$(cat steps)" ]
	number='[+-][0-9.]* ± [0-9.]*[*]\?'
	grep -qx -e "- t-reset against t-ntp-reset: nll $number, right $number\." demo/testtime.md
	run ! grep -q 't-ntp-reset: nll' demo/posttrain.md
	for phase in posttrain testtime; do
		[ "$(head -c 4 demo/$phase.png | tail -c 3)" = PNG ]
		grep -q "]($phase.png)" demo/$phase.md
		[ "$(grep -c '^| [0-9]* | Which word follows' demo/$phase.md)" -ge 3 ]
	done
	# in each question, the answer follows the two words in the passage
	rf-dump --json demo/train.rf | jq -se '[.[] | select(.type == "seq").body
		| (.answers[0] | rtrimstr("\n")) as $a
		| (.tokens.data[:.prompt_len] | map(. - 3) | implode) as $p
		| ($p | capture("follows \"(?<two>[^\"]*)\"").two) as $two
		| $p | split("\n\nWhich")[0] | gsub("[ \n]+"; " ") | contains($two + $a)]
		| length >= 6 and all' >/dev/null
	cp -a demo before
	run -0 --separate-stderr demo posttrain testtime
	diff -r before demo
}

# short RUN PHASE WORD...: runs a phase for two batches of four, with prompts that are too short for a
# position
short() {
	local line='{"text": "short &", "prompt": "short &", "answer": " x", "answers": ["x"]}'
	[ -e short.jsonl ] || seq 8 | sed "s/.*/$line/" >short.jsonl
	local words=(MODEL="$P/ckpt" BATCH=4 MINI_BATCH=2 MAX_NEW=1 DATA=short.jsonl)
	case $2 in
	midtrain)
		words=("${words[@]:0:3}" CORPUS=short.jsonl BATCHES=2
			"TOKENIZE=rf-tokenize --bytes --text-key text")
		;;
	posttrain) words=("${words[@]:0:3}" DATA=short.jsonl) ;;
	esac
	RF_BIN=$RF_BIN make -s -f "$ROOT/pipelines/$2.mk" RUN="$1" "${words[@]}" "${@:3}"
}

@test "phases: a batch of ReFINE without rollouts stops every phase, and the error names NO_ROLLOUTS" {
	for phase in midtrain posttrain testtime 'testtime RESET=batch'; do
		# shellcheck disable=SC2086
		run -2 short run $phase
		[ "$(grep -c 'NO_ROLLOUTS=train' <<<"$output")" -eq 1 ] || { echo "$output"; return 1; }
		[ "$(grep -c '^rf-grpo: none of the batch.s 4 records has rollouts' <<<"$output")" -eq 1 ]
		# the reason is given once, by the stage that found it
		[ "$(grep -cE '^rf-(entropy|select|rollout|reward): ' <<<"$output")" -eq 1 ]
		[ ! -e run/step-000002 ]
		[ ! -e run/log.jsonl ]
		rm -rf run
	done
}

@test "phases: NO_ROLLOUTS=train trains a batch without rollouts on next tokens, also within a run" {
	run -2 short run midtrain
	short run midtrain NO_ROLLOUTS=train BATCHES=1 2>err
	grep -q '^rf-grpo: none of 4 records has rollouts .*: this was training on next tokens alone' err
	run -2 short run midtrain
	short run midtrain NO_ROLLOUTS=train
	[ "$(readlink run/latest)" = step-000004 ]
	# METHOD=ntp needs no rollouts
	short ntp posttrain METHOD=ntp
	mentions 2 "NO_ROLLOUTS='x' is not one of stop|train" short no midtrain NO_ROLLOUTS=x
	[ ! -e no ]
}

@test "phases: the manifest records variables as they were typed, before make expands them" {
	words() { jq -sc '[.[].words // empty] | last' run/manifest.json; }
	posttrain RUN=run METHOD=ntp TRAIN='rf-ntp $(OPTIM)' BATCHES=9 2>err
	[ "$(words | jq -c '[.DATA, .TRAIN, .BATCHES]')" = "[\"$P/data.jsonl\",\"rf-ntp \$(OPTIM)\",\"9\"]" ]
	cp "$P/data.jsonl" other.jsonl
	run -2 posttrain RUN=run METHOD=ntp TRAIN='rf-ntp $(OPTIM)' DATA=other.jsonl BATCHES=9
	[[ "$output" == *"changed since the last batch: DATA $P/data.jsonl -> other.jsonl"$'\n'* ]]
	posttrain RUN=run METHOD=ntp TRAIN='rf-ntp $(OPTIM)' LR=3e-3 BATCHES=10 2>err
	[ "$(words | jq -c '[.TRAIN, .LR]')" = '["rf-ntp $(OPTIM)","3e-3"]' ]
}

@test "phases: LR may change within a run, but not an option --lr of another program than the trainer" {
	phase=(make -s -f "$ROOT/pipelines/midtrain.mk" MODEL="$P/ckpt" RUN=run DATA="$P/post/data/corpus.rf"
		BATCH=8 MINI_BATCH=4 ENTROPY= SELECT= ROLLOUT=)
	changes() { "${phase[@]}" REWARD="rf-cat | sh -c cat --lr $1" TRAIN="rf-ntp --lr $2" "${@:3}"; }
	RF_BIN=$RF_BIN changes 1 1e-3 BATCHES=1 2>err
	run -2 changes 2 1e-3 BATCHES=2
	mentions 0 'the learning rate changes from 1e-3 to 2e-3 after 1 batch' changes 1 2e-3 BATCHES=2
}

@test "phases: a start shows the variables that were typed, and a refusal shows those that differ" {
	phase=(make -s -f "$ROOT/pipelines/midtrain.mk" MODEL="$P/ckpt" RUN=run DATA="$P/post/data/corpus.rf"
		BATCH=8 MINI_BATCH=4)
	RF_BIN=$RF_BIN "${phase[@]}" BATCHES=1 2>err
	said='rf-loop: run: batches 1 to 1 of 8 sequences each: midtrain.mk BATCH=8 BATCHES=1 DATA=.* RUN=run'
	grep -q "$said\$" err
	run ! grep -q 'rf-rollout' err
	grep -q '^line=.*rf-rollout' run/data/words
	run -2 "${phase[@]}" BATCHES=2 N=3
	[ "${lines[0]}" = 'rf-loop: run: changed since the last batch: N (not given) -> 3' ]
	[[ "${lines[1]}" == *"begin another run with this one's weights (--from run, MODEL=run; "* ]]
	run -2 "${phase[@]}" MINI_BATCH=2 SEED=3
	said='rf-loop: run: changed since the last batch: MINI_BATCH 4 -> 2, SEED (not given) -> 3'
	[ "${lines[0]}" = "$said" ]
	# if the manifest lacks the first call's variables, the stage that differs is shown
	sed -i 's/"words":{[^}]*},*//' run/manifest.json
	run -2 "${phase[@]}" BATCHES=2 N=3
	[[ "$output" == *'< line=... | rf-rollout -k 5 -n 1 '*'> line=... | rf-rollout -k 5 -n 3 '* ]]
	run ! grep -q 'rf-select\|rf-grpo' <<<"$output"
}
