#!/usr/bin/env bats
# Tests of FUSED=1: in each phase rf-step trains, instead of five programs.

export RF_DEVICE=cpu RF_DTYPE=f32

setup_file() {
	load ../helper
	load ../ranks
	export P=$BATS_FILE_TMPDIR
	tiny_model_and_text
	rf-cat --range 0:22 -o "$P/some.rf" "$P/text.rf"
	seq 13 | jq -c '{prompt: ("Words: red blue and \(.) more. " * 2), answer: " \(.)",
		answers: [" \(.)"]}' >"$P/asked.jsonl"
	local began=${EPOCHREALTIME/./}
	midtrain RUN="$P/want" KEEP=1
	posttrain RUN="$P/post"
	testtime RUN="$P/carry"
	testtime RUN="$P/reset" RESET=batch
	export TOOK=$(((${EPOCHREALTIME/./} - began) / 4)) # microseconds of a phase
}
setup() {
	load ../helper
	load ../ranks
}

# phase NAME WORD..., midtrain WORD..., posttrain WORD..., testtime WORD...: run a phase with the tiny model.
# midtrain takes five batches, three in an epoch.
phase() {
	RF_BIN=$RF_BIN timeout 200 make -s -f "$ROOT/pipelines/$1.mk" MODEL="$P/ckpt" BATCH=6 MINI_BATCH=3 \
		LR=1e-3 COMPUTE='--threads 1' "${@:2}"
}
midtrain() { phase midtrain DATA="$P/some.rf" BATCHES=5 "$@"; }
posttrain() { phase posttrain DATA="$P/asked.jsonl" "$@"; }
testtime() { phase testtime DATA="$P/asked.jsonl" MAX_NEW=4 "$@"; }
export -f phase midtrain posttrain testtime
export ROOT RF_BIN

same_run_and_log() { same_run "$1" "$2" && diff <(figures "$1/log.jsonl") <(figures "$2/log.jsonl"); }
# same_step A B: compares the newest steps, without the hashes of earlier steps: a run with fewer commits has
# fewer of them
same_step() { diff -r -x state.json "$1/latest/" "$2/latest/" && diff <(state "$1") <(state "$2"); }
state() { jq -c 'del(.xxh64, .past, .parent)' "$1/latest/state.json"; }
# records RUN: prints the records of a run's streams, without the history of stages in their heads
records() {
	for file in "$1"/streams/*.rf; do
		echo "\"${file##*/}\""
		rf-dump --json "$file"
	done | jq -c 'if type == "string" then . else del(.body.history, .body.xxh64) end'
}

@test "FUSED: mid-training ends with the same bytes as five programs, for any number of batches per commit" {
	midtrain RUN=a FUSED=1 KEEP=1
	same_run_and_log a "$P/want"
	diff <(records a) <(records "$P/want")
	[ "$(cat a/data/status)" = 0 ]
	[ ! -e a/data/line ]
	# in several calls
	midtrain RUN=b FUSED=1 BATCHES=2
	midtrain RUN=b FUSED=1 BATCHES=4 COMMIT_EVERY=9
	midtrain RUN=b FUSED=1 COMMIT_EVERY=1h
	same_step b "$P/want"
	# AFTER and EVAL follow each commit
	rf-cat --range 0:2 -o two.rf "$P/some.rf"
	midtrain RUN=c FUSED=1 COMMIT_EVERY=2 AFTER='echo "$$AT" >>c/after' EVAL=two.rf EVAL_REWARD=
	[ "$(paste -sd' ' c/after)" = '4 6 8 10' ]
	[ "$(jq -c .step c/eval.jsonl | paste -sd' ')" = '0 4 6 8 10' ]
	same_step c "$P/want"
}

@test "FUSED: options of the stages, and rewards by a command, give the same bytes as five programs" {
	cat >reward.sh <<-'END'
		sed -u 1d | jq -c --unbuffered '{id: .body.id, total: (.body.rollout.tokens.shape as $s
			| .body.rollout.tokens.data as $t
			| [range($s[0]) as $i | [range($s[1]) as $j | $t[($i * $s[1] + $j) * $s[2]]]])}'
	END
	one=(BATCHES=1 N=2 K=3 "SELECT=rf-select -k 3 --chunks 2 --mode uniform" "ENTROPY=rf-entropy")
	two=(BATCHES=1 REWARD='bash "reward.sh"' SELECT='rf-select --margin=10 --seed 7'
		ROLLOUT='rf-rollout -n2 --temperature 2 --seed 7' REWARD_OPTIONS=--no-hidden)
	three=(BATCHES=2 REWARD='rf-reward --kind "random" --seed 2' SELECT='rf-select --seed 2'
		ROLLOUT='rf-rollout --seed=2'
		OPTIM='--mini-batch 4 --lr-schedule linear --warmup 1 --total-steps auto')
	four=(BATCHES=1 ENTROPY= SELECT= ROLLOUT= REWARD= TRAIN='rf-ntp $(OPTIM) --mean sequences')
	five=(BATCHES=1 ENTROPY= SELECT= ROLLOUT= REWARD= TRAIN=rf-ntp)
	# both rf-select and rf-reward have --shift
	six=(BATCHES=1 SELECT='rf-select --chunks 2 --shift 1' REWARD='rf-reward --shift 1')
	seven=(BATCHES=1 SELECT="rf-select --shift='2'")
	for words in three four six ${RF_ALL:+one five seven} two; do
		declare -n these=$words
		rm -rf a b
		midtrain RUN=a "${these[@]}"
		midtrain RUN=b "${these[@]}" FUSED=1
		same_run_and_log a b || { echo "$words"; return 1; }
	done
	# the reward's script may not change within the run
	echo true >>reward.sh
	run -2 midtrain RUN=b "${two[@]}" FUSED=1 BATCHES=2
	[[ "$output" == *reward.sh* ]]
}

@test "FUSED: post-training by refine, ntp and sft ends with the same bytes as the separate programs" {
	posttrain RUN=a FUSED=1 COMMIT_EVERY=2
	same_step a "$P/post"
	for how in 'ntp INNER_STEPS=published' 'sft INNER_STEPS=published' ${RF_ALL:+ntp}; do
		rm -rf a b
		posttrain RUN=a METHOD=$how
		posttrain RUN=b METHOD=$how FUSED=1
		same_run_and_log a b || { echo "$how"; return 1; }
	done
}

@test "FUSED: test-time training gives the same answers as five programs, with and without RESET=batch" {
	testtime RUN=carry FUSED=1
	same_run_and_log carry "$P/carry"
	testtime RUN=reset FUSED=1 RESET=batch
	diff "$P/reset/adapted.jsonl" reset/adapted.jsonl
	for run in carry reset; do
		[ "$(find $run/answers -name 'batch-*.rf' | wc -l)" -eq 3 ]
		for file in $run/answers/*.rf; do
			cmp <(rf-dump --json "$file" | grep '"type":"seq"') \
				<(rf-dump --json "$P/$file" | grep '"type":"seq"')
		done
	done
	testtime RUN=a METHOD=ntp
	testtime RUN=b METHOD=ntp FUSED=1
	same_run_and_log a b
}

@test "FUSED: a stage or option that rf-step cannot replace is refused by name, and nothing runs" {
	# refused MESSAGE WORD...: checks that the phase fails with this message and makes no file
	refused() {
		mentions 2 "FUSED=1: $1" midtrain RUN=no FUSED=1 "${@:2}"
		[ ! -e no ]
		[ ! -e ran ]
	}
	# unfit MESSAGE WORD...: checks that fused.sh, which FUSED=1 calls, prints this message
	unfit() {
		[ -z "${RF_ALL:-}" ] || { refused "$@"; return; }
		mentions 64 "FUSED=1: $1" "$ROOT/pipelines/lib/fused.sh" METHOD=refine ENTROPY=rf-entropy \
			SELECT=rf-select ROLLOUT=rf-rollout REWARD=rf-reward TRAIN=rf-grpo "${@:2}"
	}
	refused "ENTROPY is 'touch ran', which is not rf-entropy: leave out FUSED" ENTROPY='touch ran'
	refused "SELECT is 'my-select -k 5', which is not rf-select" SELECT='my-select -k 5'
	unfit "ROLLOUT is './rf-rollout', which is not rf-rollout" ROLLOUT=./rf-rollout
	unfit "REWARD is 'rf-cat', which is not rf-reward" REWARD=rf-cat
	unfit "TRAIN is 'my-train', which is not rf-grpo or rf-ntp" TRAIN=my-train
	unfit "ENTROPY is empty" ENTROPY= SELECT='rf-select --mode uniform'
	unfit "TRAIN is 'rf-ntp', and ENTROPY is not empty" TRAIN=rf-ntp
	refused "SELECT is 'rf-select; touch ran'" SELECT='rf-select; touch ran'
	unfit "SELECT is 'rf-select | rf-cat'" SELECT='rf-select | rf-cat'
	refused "SELECT is 'rf-select \$(touch ran)'" SELECT='rf-select $$(touch ran)'
	refused "SELECT is 'rf-select \"\`touch ran\`\"'" SELECT='rf-select "`touch ran`"'
	unfit 'SELECT has --exec, which rf-step cannot have' SELECT='rf-select --exec "python3 x.py"'
	unfit 'SELECT has --text, which rf-step cannot have' SELECT='rf-select --text --exec "cat"' \
		REWARD=cat
	unfit "SELECT is 'python3 x.py', which is not rf-select" SELECT='python3 x.py'
	unfit 'SELECT has --select-shift' SELECT='rf-select --select-shift 1'
	unfit 'ENTROPY has --nll' ENTROPY='rf-entropy --nll'
	unfit 'ENTROPY has --keep' ENTROPY='rf-entropy --keep hidden'
	unfit 'ROLLOUT has --score' ROLLOUT='rf-rollout --score'
	unfit 'ROLLOUT has --shift' ROLLOUT='rf-rollout --shift 1'
	unfit 'TRAIN has --advantage stream, and rf-step computes the advantages: leave out FUSED' \
		TRAIN='rf-grpo --advantage=stream'
	unfit 'TRAIN has --advantage stream' TRAIN='rf-grpo --advantage stream'
	unfit 'TRAIN has --stale' TRAIN='rf-grpo --stale any'
	unfit 'TRAIN has --steps' TRAIN='rf-grpo --steps 2'
	unfit 'TRAIN has --grad-out' TRAIN='rf-grpo --grad-out ran'
	unfit 'TRAIN has --at' TRAIN='rf-grpo --at 3'
	unfit 'TRAIN has --rl-coef 0.0' TRAIN='rf-grpo --rl-coef 0.0'
	unfit "TRAIN has 'x'" TRAIN='rf-grpo x'
	unfit 'TRAIN has --lr without a value' TRAIN='rf-grpo --lr'
	unfit 'REWARD has -m' REWARD='rf-reward --exec cat --text -m x'
	unfit 'REWARD_OPTIONS has -m' REWARD='cat' REWARD_OPTIONS='--text -m x'
	unfit '--length is 6 in SELECT and 5 in ROLLOUT' SELECT='rf-select -k 6'
	unfit '--seed is 0 in SELECT and 4 in ROLLOUT' ROLLOUT='rf-rollout --seed 4'
	unfit '--seed is 3 in SELECT and 0 in REWARD' SELECT='rf-select --seed 3' \
		ROLLOUT='rf-rollout --seed 3' REWARD='rf-reward --kind random'
	unfit '--draw-step is 2 in SELECT and -1 in ROLLOUT' SELECT='rf-select --draw-step 2'
	unfit '--segment is 64 in ENTROPY' ENTROPY='rf-entropy --segment 64'
	unfit '--max-record is not given in ENTROPY and 1M in TRAIN' TRAIN='rf-grpo --max-record 1M'
	mentions 2 "FUSED='2': it must be 1 or empty" midtrain RUN=no FUSED=2
	mentions 2 'FUSED=1: METHOD=sft takes as many steps as ReFINE by options that rf-step does not have' \
		posttrain RUN=no FUSED=1 METHOD=sft
	mentions 2 'FUSED=1: KEEP needs rf-grpo in TRAIN' posttrain RUN=no FUSED=1 METHOD=ntp KEEP=1
	mentions 2 'FUSED=1: METHOD=none trains nothing' testtime RUN=no FUSED=1 METHOD=none
	run -2 testtime RUN=no FUSED=1 COMMIT_EVERY=2
	[[ "$output" == *'COMMIT_EVERY is not possible here: a batch is answered'* ]]
	mentions 2 'COMMIT_EVERY needs FUSED=1' midtrain RUN=no COMMIT_EVERY=2
	run -2 midtrain RUN=no FUSED=1 COMMIT_EVERY=0
	[[ "$output" == *"COMMIT_EVERY='0': it must be a number of batches or a time such as 10m"* ]]
	run -2 midtrain RUN=no FUSED=1 COMMIT_EVERY=10m AFTER=true
	[[ "$output" == *"COMMIT_EVERY='10m': it must be a number of batches, since EVAL and AFTER"* ]]
	[ ! -e no ]
}

@test "FUSED: RUN/stop ends the run after a batch, and the same command continues to the same bytes" {
	midtrain RUN=a FUSED=1 BATCHES=1
	midtrain RUN=a FUSED=1 COMMIT_EVERY=9 >/dev/null 2>&1 &
	for ((i = 0; i < 500; i++)); do
		touch a/stop
		[ "$(cut -f 1 a/data/status 2>/dev/null)" != 75 ] || break
		sleep .02
	done
	wait || true
	[ "$(cut -f 1 a/data/status)" = 75 ]
	midtrain RUN=a FUSED=1
	# the stop may have come after several batches, which are then one commit
	same_step a "$P/want"
	diff <(figures a/log.jsonl) <(figures "$P/want/log.jsonl")
}

@test "FUSED: a phase that is killed at random moments and started again ends with the same bytes" {
	local phases=('midtrain want' 'testtime reset RESET=batch') times=2
	[ -z "${RF_ALL:-}" ] || { times=200 phases+=('posttrain post' 'testtime carry'); }
	for phase in "${phases[@]}"; do
		read -r phase name words <<<"$phase"
		run python3 "$ROOT/t/helper/kill-phase.py" $times "$RANDOM" "$P/$name" \
			"$phase" FUSED=1 $words
		[ "$output" = "$times kills" ] || { echo "$output"; false; }
	done
}

@test "FUSED: with LAUNCH, two or three ranks end with the same bytes as one process" {
	have_mpi || skip 'MPI was left out'
	by() { echo "mpirun --bind-to none -n $1"; }
	midtrain RUN=a FUSED=1 BATCHES=2 COMMIT_EVERY=2 LAUNCH="$(by 3)"
	midtrain RUN=a FUSED=1 BATCHES=4
	midtrain RUN=a FUSED=1 LAUNCH="$(by 2)"
	same_step a "$P/want"
	diff <(figures a/log.jsonl) <(figures "$P/want/log.jsonl")
	testtime RUN=carry FUSED=1 LAUNCH="$(by 2)"
	same_run_and_log carry "$P/carry"
	for how in ${RF_ALL:+posttrain 'posttrain METHOD=ntp'}; do
		rm -rf a b
		read -r phase words <<<"$how"
		$phase RUN=a $words
		$phase RUN=b $words FUSED=1 LAUNCH="$(by 2)"
		same_run_and_log a b || { echo "$how"; return 1; }
	done
}

@test "FUSED: mid-training with other losses ends with the same bytes as five programs, with REFERENCE, too" {
	while read -r n words; do
		# shellcheck disable=SC2086
		set -- N=$n TRAIN="rf-grpo \$(OPTIM) ${words% REFERENCE}" BATCHES=2
		[[ $words != *REFERENCE ]] || set -- "$@" REFERENCE="$P/want"
		rm -rf a b
		midtrain RUN=a "$@" FUSED=1
		midtrain RUN=b "$@" KEEP=1
		same_run_and_log a b || { echo "$words"; false; }
	done <<-'END'
		4 --ratio sequence --rl-mean rollouts --clip-high 0.3 --baseline loo
		4 --objective cispo --rl-mean constant --entropy-coef 0.01 --zero-spread drop
		2 --baseline running --kl-coef 0.1 REFERENCE
	END
	[ "$(jq -s 'all(.[]; has("actor/kl_loss"))' a/log.jsonl)" = true ]
	rf-dump --head b/streams/step-000000.rf | grep -q 'rf-rollout.*ref'
	rf-dump --json b/streams/step-000000.rf | jq -se 'map(select(.type == "seq")) |
		length == 6 and all(.[]; .body.rollout | has("logp_ref"))'
	# without the reference, nothing is trained
	run ! midtrain RUN=c N=2 TRAIN='rf-grpo $(OPTIM) --kl-coef 0.1' BATCHES=1
	[[ "$output" == *'in a pipeline REFERENCE=CHECKPOINT'* ]]
	run ! midtrain RUN=a N=2 REFERENCE=a/latest TRAIN='rf-grpo $(OPTIM) --kl-coef 0.1'
	[[ "$output" == *'REFERENCE is a step of RUN, which changes or is removed'* ]]
	run ! midtrain RUN=d N=2 TRAIN='rf-grpo $(OPTIM) --kl-coef 0.1' BATCHES=1 FUSED=1
	[[ "$output" == *'--kl-coef requires --reference'* ]]
}
