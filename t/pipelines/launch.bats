#!/usr/bin/env bats
# Tests of training phases on several ranks: LAUNCH, RUN/stop, and kills.

setup_file() {
	load ../helper
	load ../ranks
	have_mpi || return 0
	export P=$BATS_FILE_TMPDIR
	tiny_model_and_text
	# two batches
	seq 12 | jq -c '{prompt: ("Words: red blue and \(.) more. " * 2), answer: " \(.)"}' >"$P/asked.jsonl"
	phase midtrain RUN="$P/want" DATA="$P/text.rf"
}
setup() {
	load ../helper
	load ../ranks
	have_mpi || skip 'MPI was left out'
}
# phase NAME WORD...: runs a phase with the tiny model, for three batches
phase() {
	RF_BIN=$RF_BIN timeout 200 make -s -f "$ROOT/pipelines/$1.mk" MODEL="$P/ckpt" BATCH=6 MINI_BATCH=3 \
		LR=1e-3 COMPUTE='--threads 1' $([ "$1" = midtrain ] && echo BATCHES=3) "${@:2}"
}
by() { echo "mpirun --bind-to none -n $1"; }

@test "LAUNCH: mid-training ends with the same bytes for any number of ranks, also if the number changes" {
	for n in 2 ${RF_ALL:+3}; do
		phase midtrain RUN=a DATA="$P/text.rf" BATCHES=1
		phase midtrain RUN=a DATA="$P/text.rf" BATCHES=2 LAUNCH="$(by $n)" KEEP=1
		[ "$(jq -sc 'map(.world)' a/log.jsonl)" = "[1,1,$n,$n]" ]
		[ "$(ls a/streams | wc -l)" -eq "$n" ]
		phase midtrain RUN=a DATA="$P/text.rf" BATCHES=3 LAUNCH="$(by $((5 - n)))"
		same_run "$P/want" a
		diff <(figures "$P/want/log.jsonl") <(figures a/log.jsonl)
		[ ! -e a/.ranks ]
		rm -r a
	done
	[ -z "${RF_ALL:-}" ] || {
		phase midtrain RUN=a DATA="$P/text.rf" BATCHES=1
		phase midtrain RUN=a DATA="$P/text.rf" LAUNCH="$(by 2)"
		same_run "$P/want" a
	}
}

@test "LAUNCH: a launcher that starts ranks with an empty environment trains the same bytes" {
	local words=(DATA="$P/text.rf" BATCHES=2 KEEP_STEPS=9)
	words+=(OPTIM='--mini-batch 3 --lr 1e-3 --lr-schedule linear --total-steps auto')
	elsewhere="env -i HOME=$HOME PATH=/usr/bin:/bin ${RF_ISA:+RF_ISA=$RF_ISA} RF_MPI=$RF_MPI"
	elsewhere+=' OMPI_ALLOW_RUN_AS_ROOT=1'
	phase midtrain RUN=a "${words[@]}"
	phase midtrain RUN=b "${words[@]}" \
		LAUNCH="$elsewhere OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_pml=ob1 $(by 1)"
	same_run a b
	diff <(ls a) <(ls b)
}

@test "LAUNCH: phases, methods and INNER_STEPS end with the same bytes on two ranks as in one process" {
	for steps in published ${RF_ALL:+matched}; do
		rm -rf a b
		phase midtrain RUN=a DATA="$P/text.rf" BATCHES=2 METHOD=ntp INNER_STEPS=$steps
		phase midtrain RUN=b DATA="$P/text.rf" BATCHES=2 METHOD=ntp INNER_STEPS=$steps \
			LAUNCH="$(by 2)"
		same_run a b
	done
	local posttrain=(refine 'sft INNER_STEPS=published') testtime=('ntp INNER_STEPS=published')
	[ -z "${RF_ALL:-}" ] || {
		posttrain+=(ntp 'ntp INNER_STEPS=published' sft)
		testtime+=(refine ntp)
	}
	for how in "${posttrain[@]}"; do
		rm -rf a b
		phase posttrain RUN=a DATA="$P/asked.jsonl" METHOD=$how
		phase posttrain RUN=b DATA="$P/asked.jsonl" METHOD=$how LAUNCH="$(by 2)"
		same_run a b
	done
	for how in "${testtime[@]}"; do
		rm -rf a b
		phase testtime RUN=a DATA="$P/asked.jsonl" ANSWER_KEY= MAX_NEW=3 METHOD=$how
		phase testtime RUN=b DATA="$P/asked.jsonl" ANSWER_KEY= MAX_NEW=3 METHOD=$how LAUNCH="$(by 2)"
		same_run a b
		diff -r a/answers b/answers
	done
}

@test "LAUNCH: RESET=batch, and KEEP with rf-ntp, are refused; a failed rank's status is the loop's status" {
	run -2 phase testtime RUN=a DATA="$P/asked.jsonl" ANSWER_KEY= RESET=batch LAUNCH="$(by 2)"
	[[ "$output" == *'LAUNCH is not possible here'* ]]
	run -2 phase midtrain RUN=a DATA="$P/text.rf" KEEP=1 LAUNCH="$(by 2)" TRAIN='rf-ntp --mini-batch 3' \
		ENTROPY= SELECT= ROLLOUT= REWARD=
	[[ "$output" == *'KEEP and LAUNCH need rf-grpo'* ]]
	run -2 phase midtrain RUN=a DATA="$P/text.rf" LAUNCH="$(by 2)" SHARES='--mini-batch 4'
	[[ "$output" == *'divided by other mini-batches'* ]]
	[[ "$(cat a/data/status)" == $'65\tbatch 1: a stage failed'* ]]
	run -2 phase midtrain RUN=b DATA="$P/text.rf" LAUNCH='/nowhere/mpirun'
	[[ "$(cat b/data/status)" == $'127\tbatch 1: a stage failed'* ]]
}

@test "LAUNCH: a run that is killed and continued with another number of ranks ends with the same bytes" {
	local n=${RF_ALL:+40}
	for i in $(seq "${n:-2}"); do
		rm -rf a
		[ -n "${RF_ALL:-}" ] && by=(2 3 1) || by=($((1 + i % 3)) $((1 + (i + 1) % 3)))
		for ranks in "${by[@]}"; do
			setsid make -s -f "$ROOT/pipelines/midtrain.mk" MODEL="$P/ckpt" BATCH=6 MINI_BATCH=3 \
				LR=1e-3 COMPUTE='--threads 1' RUN=a DATA="$P/text.rf" BATCHES=3 \
				LAUNCH="$(by $ranks)" 2>/dev/null &
			sleep "$(awk -v s=$i$ranks 'BEGIN { srand(s); print .2 + 1.3 * rand() }')"
			case $((i % 3)) in
			0) pkill -KILL -s $! . || true ;;
			1) pkill -TERM -s $! -x rf-loop || true ;;
			2) pkill -KILL -s $! -x rf-loop || true ;;
			esac
			wait $! || true
		done
		phase midtrain RUN=a DATA="$P/text.rf" LAUNCH="$(by 2)" 2>/dev/null
		same_run "$P/want" a
	done
}

@test "RUN/stop: the loop ends with status 75 after the batch, and the next start continues the run" {
	phase midtrain RUN=a DATA="$P/text.rf" BATCHES=1
	touch a/stop
	run -2 phase midtrain RUN=a DATA="$P/text.rf" \
		AFTER='[ "$$BATCH" != 1 ] || touch "$$RUN/stop"'
	[[ "$output" == *"2 of 3 batches are done: stopped, as the run's file 'stop' asked: the same "* ]]
	[[ "$(cat a/data/status)" == $'75\t2 of 3 batches'* ]]
	# make's last line repeats this sentence, without an error number of its own
	said="a: 2 of 3 batches are done: stopped, as the run's file 'stop' asked: "
	[[ "${lines[-1]}" == *"$said"*"(status 75)"* ]]
	[[ "$output" != *'Error 75'* ]]
	[ ! -e a/stop ]
	phase midtrain RUN=a DATA="$P/text.rf"
	same_run "$P/want" a
	[ "$(cat a/data/status)" = 0 ]
}

@test "scaling.sh: estimates follow from the variables, and more GPUs than records give no gain" {
	export ONLY=reckoned SIZES=gated_deltanet-400m SUSTAINED=1e14 MEMORY=1e12 NODE=1e11 NETWORK=5e10
	export DISK=1e9
	"$ROOT/pipelines/bench/scaling.sh" >table
	for program in rf-entropy rf-rollout 'rf-grpo --recompute segment'; do
		$program -m "$ROOT/pipelines/configs/$SIZES.json" --max-len 16384 --device cpu \
			--dry-run </dev/null
	done | awk '
		/^operations/ { flop += $2 * 1e9 }
		# rf-step computes the entropies in the forward pass of the first mini-batch of four
		!one { one = flop }
		/ parameters$/ { p = $(NF - 1) }
		END {
			record = (flop - one / 4) / 1e14 + 24 * p / 1e12
			step = 40 * p / 1e12
			ends = 12 * p / 1e9 / 10 / 4
			printf "%.2f\n", 32 * record + step + ends
			printf "%.2f\n", 4 * record + step + 12 * p * 7 / 8 / 1e11 + 3 * 20e-6 + ends
			printf "%.2f\n", record + step + 12 * p * 31 / 32 / 5e10 + 5 * 20e-6 + ends
		}' >want
	for gpus in 1 8 32; do awk -v n=$gpus '$2 == n { print $4 }' table; done | diff want -
	awk '$2 == 32 { few = $4 } $2 == 64 { many = $4 } END { exit !(few > 0 && many >= few) }' table
}

@test "LAUNCH: with KEEP each rank keeps its share of a batch, and all shares together are the batch" {
	run -0 --separate-stderr phase midtrain RUN=a DATA="$P/text.rf" BATCHES=1 KEEP=1 LAUNCH="$(by 2)"
	[[ "$stderr" == *'a: every rank keeps its share of a batch: a/streams/step-*.rf*'* ]]
	[ "$(ls a/streams | paste -sd' ')" = 'step-000000.rf step-000000.rf.1' ]
	phase midtrain RUN=b DATA="$P/text.rf" BATCHES=1 KEEP=1
	ids() { rf-dump --tsv --rows rollout --columns id,i,reward,advantage --no-header "$@" | sort; }
	diff <(ids a/streams/step-000000.rf*) <(ids b/streams/step-000000.rf)
}
