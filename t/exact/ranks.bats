#!/usr/bin/env bats
# Tests of --ranks: several processes train one run.  The run has the same bits for any number of ranks, and
# after a failure on one rank all exit with the same status.
setup() {
	load ../helper
	load ../model
	load ../ranks
	have_mpi || skip 'MPI was left out'
	RF_DEVICE=$like_cpu
}

# The pipeline of one batch of ReFINE, on RUN.  BATCH is the range of records; SHARE and RANKS are the options
# of several ranks.
line='rf-cat $SHARE --range $BATCH in | rf-entropy -m RUN | rf-select --chunks 2 -k 3 --margin 3 |
	rf-rollout -m RUN -k 3 -n 3 | rf-reward --kind hybrid |
	rf-grpo -m RUN --mini-batch 4 --lr 1e-3 --threads 1 --log RUN.log $RANKS'
# batch_of I:J RUN: trains RUN on the records I:J in one process; batch_by N I:J RUN: the same on N ranks
batch_of() { BATCH=$1 bash -o pipefail -c "${line//RUN/$2}"; }
batch_by() {
	BATCH=$2 SHARE='--shard auto --mini-batch 4' RANKS='--ranks mpi --rank-timeout 60' \
		in_line "$1" "${line//RUN/$3}"
}
# many: prints thirteen texts; six: prints fewer, for models whose steps take long
many() { texts "${1:-40}" 1:50 2:60 3:9 4:33 5:41 6:70 7:80 8:12 9:30 10:22 11:51 12:17 13:44; }
six() { texts 40 1:50 2:60 3:9 4:33 5:41 6:30; }

@test "ranks: a run has the same steps and log for any number of ranks, also if the number changes" {
	many >in
	runs one
	batch_of 0:7 one
	batch_of 7:13 one
	for n in 1 3 ${RF_ALL:+2 4 8}; do
		runs some
		batch_by $n 0:7 some
		batch_by $((9 - n)) 7:13 some
		if [ $n -le 4 ]; then
			[[ "$(cat said)" == "rf-grpo: there are $((9 - n)) ranks, but a mini-batch has 4 "* ]]
		else
			[ ! -s said ]
		fi
		diff -r -x manifest.json one some
		diff <(figures one.log) <(figures some.log)
		[ "$(jq .world some.log | sort -un | paste -sd' ')" = \
			"$(printf '%s\n' $n $((9 - n)) | sort -n | paste -sd' ')" ]
		rm -r some some.log
	done
}

@test "ranks: models of each family train to the same bits on one rank and on two, three or eight" {
	many >in
	local numbers=(2 3 8) i=0
	for M in "$G"/{delta-hybrid,gated,lact,qwen} ${RF_ALL:+"$G/lact-muon"}; do
		rm -rf one* some*
		runs one
		batch_of 0:9 one
		[ -n "${RF_ALL:-}" ] && by=(2 3 8) || by=("${numbers[i++ % 3]}") # each number in turn
		for n in "${by[@]}"; do
			runs some
			batch_by $n 0:9 some
			diff -r -x manifest.json one some
			rm -r some
		done
	done
}

@test "ranks: --mean, --steps, --recompute, --outer and --log-gradients give the same bits on several ranks" {
	many >in
	rf-dump --json in | jq -c 'if .type == "seq" then
		.body.prompt_len = ([20, .body.tokens.shape[0]] | min) else . end' |
		rf-cat --json | rf-cat --split-response >split
	for how in '--mini-batch 0' '--mini-batch 5 --mean sequences' '--mini-batch 5 --recompute segment' \
		'--steps 3 --records 13' '--steps 17 --records 13' '--mini-batch 5 --outer response'; do
		of=in share=${how%% --[mor]*}
		[[ "$how" != *--steps* ]] || share=$how
		[[ "$how" != *--outer* ]] || of="split"
		rm -rf one some
		runs one some
		rf-ntp -m one --lr 1e-3 $how $of
		in_line 3 "rf-cat --shard auto $share $of | rf-ntp -m some --lr 1e-3 $how --ranks mpi"
		[ ! -s said ]
		diff -r -x manifest.json one some
	done
	batch 1:50 2:40 3:33 4:9 >rolled
	rm -rf one some
	runs one some
	rf-grpo -m one --log-gradients --stale any --log one.log rolled
	in_line 2 'rf-cat --shard auto rolled | rf-grpo -m some --log-gradients --log some.log --ranks mpi'
	diff -r -x manifest.json one some
	diff <(figures one.log) <(figures some.log)
}

@test "ranks: --shard optimizer makes the same steps on any number of ranks, and a run can go on without it" {
	six >in
	larger one
	rf-ntp -m one --mini-batch 4 --lr 1e-3 --log one.log in
	rf-ntp -m one --mini-batch 5 --lr 1e-3 --log one.log in
	train() { # N MINI_BATCH OPTION...
		in_line "$1" "rf-cat --shard auto --mini-batch $2 in | rf-ntp -m some --mini-batch $2 \
			--lr 1e-3 --log some.log --threads 1 --ranks mpi ${*:3}"
	}
	for n in 3 4 ${RF_ALL:+1 2 8 16}; do # the last of 16 ranks have no moments
		larger some
		train $n 4 --shard optimizer
		train 2 5 "$([ $n -eq 3 ] || echo --shard optimizer)"
		diff -r -x manifest.json one some
		diff <(figures one.log) <(figures some.log)
		rf-dump --check some
		rm -r some some.log
	done
	# a model so small that one rank has all its moments
	rm -rf one one.log
	runs one some
	rf-ntp -m one --mini-batch 4 --lr 1e-3 in
	train 3 4 --shard optimizer
	diff -r -x manifest.json one some
	# also with --log-gradients, and with --weights-out
	rm -rf some some.log
	batch 1:50 2:40 3:33 4:9 >rolled
	rm -rf one
	larger one some
	rf-grpo -m one --log-gradients --stale any --log one.log rolled
	in_line 3 'rf-cat --shard auto rolled |
		rf-grpo -m some --log-gradients --stale any --log some.log --ranks mpi --shard optimizer'
	diff -r -x manifest.json one some
	diff <(figures one.log) <(figures some.log)
	rf-ntp -m one --weights-out w1 in
	in_line 3 'rf-cat --shard auto --mini-batch 0 in |
		rf-ntp -m one --weights-out w3 --ranks mpi --shard optimizer'
	diff -r w1 w3
	# in a single process the option changes nothing
	rf-ntp -m one in
	rf-ntp -m some --shard optimizer in
	diff -r -x manifest.json one some
}

@test "ranks: a rank that cannot write its moments ends all with 74; --shard optimizer on one rank exits 65" {
	six >in
	larger run other
	rf-ntp -m other in
	state >before
	for rank in ${RF_ALL:+0 1} 2; do
		run -74 in_line 3 "rf-cat --shard auto --mini-batch 0 in |
			{ [ \$OMPI_COMM_WORLD_RANK != $rank ] || ulimit -f 2200
			rf-ntp -m run --ranks mpi --shard optimizer; }"
		[ "$(codes)" = '74 74 74' ]
		[ "$(wc -l <said)" -eq 1 ]
		state | cmp - before
		[ -z "$(find run -name '*tmp*')" ]
	done
	run -65 in_line 2 'rf-cat --shard auto --mini-batch 0 in |
		rf-ntp -m run --ranks mpi $([ $OMPI_COMM_WORLD_RANK = 0 ] || echo --shard optimizer)'
	[[ "$(cat said)" == *'rank 1 differs from rank 0 in its options'* ]]
	in_line 3 'rf-cat --shard auto --mini-batch 0 in | rf-ntp -m run --ranks mpi --shard optimizer'
	diff -r -x manifest.json other run
}

@test "ranks: --dry-run under a launcher plans less memory for each rank with --shard optimizer" {
	larger run
	memory() { # OPTION...
		rf-ntp -m run --dry-run --max-len 64 --ranks mpi "$@" |
			sed -n 's/.* moments \([0-9]*\),.*/\1/p'
	}
	# 841728 weights: each takes 4 bytes, its gradient 4, the gradient's exact sum 8, its moments 8
	[ "$(memory)" -eq $((841728 * 24 / 1048576)) ]
	[ "$(memory --shard optimizer)" -eq "$(memory)" ]
	export OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4
	[ "$(memory)" -eq $((841728 * 24 / 1048576)) ]
	[ "$(memory --shard optimizer)" -eq $((841728 * 18 / 1048576)) ]
}

@test "rf-cat: --shard divides the records of a stream, and of each mini-batch, evenly among the ranks" {
	texts 40 $(seq 1 50 | awk '{ print $1 ":" ($1 * 37) % 90 + 1 }') >in
	for n in 1 2 3 7; do
		for m in 0 4 6 50 64; do
			for r in $(seq 0 $((n - 1))); do
				rf-cat --shard $r/$n --mini-batch $m in >share.$r
				rf-dump --tsv --rows record --columns id,T share.$r >tsv.$r
			done
			cat tsv.? | grep -v '^id' | sort -n |
				diff - <(rf-dump --tsv --rows record --columns id,T in | tail -n +2)
			[ "$m" -ne 4 ] || for r in $(seq 0 $((n - 1))); do
				awk -v n=$n 'NR > 1 { count[int(($1 - 1) / 4)]++ }
					END {
						for (i in count)
							if (i < 12 && count[i] > int((4 + n - 1) / n))
								exit 1
					}' tsv.$r
			done
			rm share.? tsv.?
		done
	done
	# 50 records of 1 to 90 tokens: each share has a third of the tokens, within 5 %
	for r in 0 1 2; do
		rf-cat --shard $r/3 --mini-batch 0 in | rf-dump --tsv --rows record --columns T --no-header |
			awk '{ n += $1 } END { print NR, n }'
	done | awk '{ r += $1; n[NR] = $2; all += $2 }
		END { for (i in n) if (n[i] < .95 * all / 3 || n[i] > 1.05 * all / 3) exit 1; exit r != 50 }'
	OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=3 rf-cat --shard auto in | cmp - <(rf-cat --shard 1/3 in)
	SLURM_PROCID=2 SLURM_NTASKS=3 rf-cat --shard auto in | cmp - <(rf-cat --shard 2/3 in)
	run -64 rf-cat --shard auto in
	[ "$output" = "rf-cat: --shard auto: no launcher says which rank this is (start it by mpirun or \
srun, or say --shard 0/2)" ]
	for bad in 3/3 -1/2 x 1 1/2x; do
		run -64 rf-cat --shard "$bad" in
	done
	says 64 'rf-cat: --mini-batch requires --shard (try --help)' rf-cat --mini-batch 4 in
}

@test "ranks: all ranks exit 65 if a stream is not the rank's share, or if the options of ranks differ" {
	many >in
	runs run
	state >before
	refused() { # CODE TEXT LINE
		run "-$1" in_line 2 "$3"
		[ "$(codes)" = "$1 $1" ]
		[[ "$(cat said)" == "rf-ntp: "*"$2"* ]]
		[ "$(wc -l <said)" -eq 1 ]
		state | cmp - before
	}
	refused 65 'there are 2 ranks, but the stream is not a share' 'rf-ntp -m run --ranks mpi in'
	refused 65 'divided by other mini-batches' 'rf-cat --shard auto in | rf-ntp -m run --ranks mpi'
	refused 65 'the share of rank 0 of 2, but this is rank 1' \
		'rf-cat --shard 0/2 --mini-batch 0 in | rf-ntp -m run --ranks mpi'
	refused 65 'rank 1 differs from rank 0 in its options' 'rf-cat --shard auto --mini-batch 0 in |
		rf-ntp -m run --ranks mpi --lr 1e-$((OMPI_COMM_WORLD_RANK + 3))'
	refused 65 "rank 1 differs from rank 0 in its stream's head" "rf-cat --shard auto --mini-batch 0 \
		--range 0:\$((OMPI_COMM_WORLD_RANK + 3)) in | rf-ntp -m run --ranks mpi"
	[ "$(levels | wc -l)" -eq 1 ] || refused 65 'rank 1 differs from rank 0 in its device or level' \
		"rf-cat --shard auto --mini-batch 0 in |
		RF_ISA=\$([ \$OMPI_COMM_WORLD_RANK = 0 ] || levels) rf-ntp -m run --ranks mpi \
		--isa \$(sed -n \$((OMPI_COMM_WORLD_RANK + 1))p <<<'$(levels)')"
	rf-cat --shard 1/2 --mini-batch 0 in >share
	mentions 65 "the stream is the share of rank 1 of 2 (rf-cat --shard): train all shares together" \
		rf-ntp -m run share
	# a part of a share no longer counts as a share
	rf-cat --range 0:2 share | rf-ntp -m run
}

@test "ranks: --ranks excludes --sum plain, --grad-out and --eval, and a missing MPI plugin exits 69" {
	many >in
	runs run
	run -64 rf-ntp -m run --ranks mpi --sum plain in
	[ "$output" = 'rf-ntp: --ranks requires --sum exact: only so the number of ranks changes nothing' ]
	run -64 rf-grpo -m run --ranks mpi --grad-out g in
	[[ "$output" == 'rf-grpo: --ranks cannot be combined with --grad-out and --grad-in'* ]]
	run -64 rf-ntp --eval -m run --ranks mpi in
	in_line 2 'rf-cat --shard auto --mini-batch 0 in | taskset -c 0 rf-ntp -m run --ranks mpi --threads 2'
	[[ "$(cat said)" == 'rf-ntp: --threads is 2, but this process may use 1 of the cores: a launcher '* ]]
	[ "$(wc -l <said)" -eq 1 ]
	RF_MPI=/nowhere run -69 rf-ntp -m run --ranks mpi in
	[[ "$output" == 'rf-ntp: the MPI plugin cannot be loaded: '* ]]
}

@test "ranks: three ranks under MPICH make the same step as one process" {
	command -v mpicc.mpich mpirun.mpich >/dev/null || skip 'there is no MPICH'
	many >in
	mpicc.mpich -D_DEFAULT_SOURCE -I"$ROOT/lib" -fPIC -fvisibility=hidden -shared -o rf-mpi.so \
		"$ROOT/lib/ranks/plugin/mpi.c"
	runs one some
	rf-ntp -m one --mini-batch 4 --lr 1e-3 in
	RF_MPI=$PWD/rf-mpi.so mpirun.mpich -n 3 bash -o pipefail -c 'rf-cat --shard auto --mini-batch 4 in |
		rf-ntp -m some --mini-batch 4 --lr 1e-3 --threads 1 --ranks mpi --shard optimizer' </dev/null
	diff -r -x manifest.json one some
}

@test "gpu-of-rank.sh: each rank of a machine gets its own GPU, out of CUDA_VISIBLE_DEVICES if that is set" {
	of() { # RANK LIST
		env OMPI_COMM_WORLD_LOCAL_RANK="$1" ${2:+CUDA_VISIBLE_DEVICES="$2"} \
			sh "$ROOT/pipelines/lib/gpu-of-rank.sh" \
			sh -c 'echo "$CUDA_VISIBLE_DEVICES $1"' sh 'a  b'
	}
	unset CUDA_VISIBLE_DEVICES "${!OMPI_@}" "${!SLURM_@}"
	[ "$(of 3)" = '3 a  b' ]
	[ "$(of 0 7)" = '7 a  b' ]
	[ "$(of 1 4,GPU-a1b2,6)" = 'GPU-a1b2 a  b' ]
	run -69 of 3 4,5,6
	[ "$output" = 'gpu-of-rank.sh: rank 3 of this machine has no GPU in CUDA_VISIBLE_DEVICES=4,5,6' ]
	[ "$(SLURM_LOCALID=2 sh "$ROOT/pipelines/lib/gpu-of-rank.sh" printenv CUDA_VISIBLE_DEVICES)" = 2 ]
	run -64 sh "$ROOT/pipelines/lib/gpu-of-rank.sh" true
}

@test "ranks: without --ranks and --shard the variables of a launcher have no effect" {
	many >in
	runs one two
	rf-ntp -m one in
	rf-cat in | OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 PMIX_RANK=1 PMI_RANK=1 PMI_SIZE=2 \
		SLURM_PROCID=1 SLURM_NTASKS=2 rf-ntp -m two
	same_step one two
	OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 rf-cat in | cmp - <(rf-cat in)
}

@test "ranks: if a stage dies or cuts the stream on one rank, all exit 65 and nothing is committed" {
	many >in
	runs run whole
	batch_of 0:13 whole
	state >before
	cut='rf-cat --shard auto --mini-batch 4 in |
		if [ $OMPI_COMM_WORLD_RANK = 1 ]; then BAD; else cat; fi |
		rf-ntp -m run --ranks mpi --mini-batch 4'
	for bad in 'head -c 300' 'head -c 500' 'cat >/dev/null; kill -9 $BASHPID' 'true'; do
		run -65 in_line 3 "${cut/BAD/$bad}"
		cat said; head -3 code.*
		[ "$(codes)" = '65 65 65' ]
		[[ "$(cat said)" == 'rf-ntp: rank 1: <stdin>: '* ]]
		state | cmp - before
	done
	batch_by 3 0:13 run
	diff -r -x manifest.json whole run
}

# mpirun may report the lost rank by its own exit status 1: the test checks the statuses of the others.
@test "ranks: if a rank is killed or stops, the others name it after --rank-timeout and exit 75" {
	many >in
	runs run
	state >before
	local GRACE=1
	for signal in KILL STOP; do
		rm -rf run/.ranks
		run ! in_line 3 'rf-cat --shard auto --mini-batch 0 in |
			if [ $OMPI_COMM_WORLD_RANK = 2 ]; then
				sleep 9 | rf-ntp -m run --ranks mpi --rank-timeout 2 &
				this=$BASHPID
				until grep -qs "waits\\|reads" run/.ranks/2; do sleep .05; done
				kill -'$signal' $(pgrep -P "$(pgrep -P $this -x rf-ntp)")
				until [ -e code.0 ] && [ -e code.1 ]; do sleep .05; done
			else
				rf-ntp -m run --ranks mpi --rank-timeout 2
			fi'
		cat said said.all
		[ "$(cat code.0 code.1 | paste -sd' ')" = '75 75' ]
		grep -q '^rf-ntp: 1 of 3 ranks did not come within 2 s (--rank-timeout): rank 2 (host .*, '\
'process [0-9]*, last seen [0-9]* s ago): nothing was committed$' said
		state | cmp - before
	done
}

@test "ranks: if a rank does not start, the others name it, even if it left a file earlier" {
	many >in
	runs run
	state >before
	for seen in 'never seen' 'host old, process 7, last seen [0-9]* s ago'; do
		run ! in_line 3 'rf-cat --shard auto --mini-batch 0 in |
			if [ $OMPI_COMM_WORLD_RANK = 2 ]; then
				until [ -e code.0 ] && [ -e code.1 ]; do sleep .05; done
			else
				rf-ntp -m run --ranks mpi --rank-timeout 2
			fi'
		[ "$(codes)" = '75 75 0' ]
		grep -q "^rf-ntp: 1 of 3 ranks did not come within 2 s (--rank-timeout): rank 2 ($seen)" said
		state | cmp - before
		mkdir -p run/.ranks
		printf '%-199s\n' $'99\told\t7\tcomputes' >run/.ranks/2
	done
}

@test "ranks: a gradient that is not finite on one rank ends all with 70, or --on-nan skips its mini-batch" {
	batch 1:50 2:40 3:30 4:33 5:21 6:9 >in
	rf-dump --json in | jq -c 'if .body.id == 2 then .body.rollout.temperature = 1e-38 else . end' |
		rf-cat --json >bad
	runs run other
	state >before
	run -70 in_line 2 'rf-cat --shard auto --mini-batch 3 bad | rf-grpo -m run --mini-batch 3 --ranks mpi'
	[ "$(codes)" = '70 70' ]
	[[ "$(cat said)" == 'rf-grpo: rank '?': id 2: the log-probability of token '* ]]
	state | cmp - before
	rf-grpo -m other --mini-batch 3 --on-nan skip bad 2>alone
	in_line 2 'rf-cat --shard auto --mini-batch 3 bad |
		rf-grpo -m run --mini-batch 3 --on-nan skip --ranks mpi'
	diff alone said
	diff -r -x manifest.json other run
}

@test "ranks: if rank 0 cannot write the commit, all exit 74, and the same command succeeds afterwards" {
	many >in
	runs run other
	rf-ntp -m other in
	state >before
	run -74 in_line 2 "rf-cat --shard auto --mini-batch 0 in |
		{ [ \$OMPI_COMM_WORLD_RANK = 1 ] || ulimit -f 8; rf-ntp -m run --ranks mpi; }"
	[ "$(codes)" = '74 74' ]
	state | cmp - before
	in_line 2 'rf-cat --shard auto --mini-batch 0 in | rf-ntp -m run --ranks mpi'
	diff -r -x manifest.json other run
}

@test "ranks: all ranks leave a run unchanged that is past --at, and all exit 75 if the run is locked" {
	many >in
	runs run
	rf-ntp -m run in
	state >before
	in_line 3 'rf-cat --shard auto --mini-batch 0 in | rf-ntp -m run --ranks mpi --at 0'
	[ "$(cat said)" = 'rf-ntp: already at step 1' ]
	flock run/.lock sleep 5 &
	taken run/.lock
	run -75 in_line 3 'rf-cat --shard auto --mini-batch 0 in | rf-ntp -m run --ranks mpi'
	cat said.all; head -3 code.*
	[ "$(codes)" = '75 75 75' ]
	kill %1
	state | cmp - before
}

@test "rf-grpo: the -o files of all ranks together have the same records as the -o file of one process" {
	batch 1:50 2:40 3:30 4:33 5:21 >in
	runs one some
	rf-grpo -m one -o all in
	in_line 3 'rf-cat --shard auto in | rf-grpo -m some --ranks mpi -o parts'
	rf-cat --shuffle parts parts.1 parts.2 | rf-dump --json | jq -c '.body | select(.id)' | sort >have
	rf-dump --json all | jq -c '.body | select(.id)' | sort | diff - have
}

@test "rf-dump: --rows rank shows the processes that train a run, and what each process does" {
	many >in
	runs run
	[ "$(rf-dump --tsv --rows rank run)" = \
		$'rank\thost\tprocess\texchanges\tdoing\tage' ]
	in_line 2 '{ rf-cat --shard auto --mini-batch 0 in; sleep 3; } | rf-ntp -m run --ranks mpi' &
	until [ "$(rf-dump --tsv --rows rank --no-header run | wc -l)" -eq 2 ]; do sleep .1; done
	sleep .5
	rf-dump --tsv --rows rank --no-header run >rows
	[ "$(cut -f 1 rows | paste -sd' ')" = '0 1' ]
	[ "$(cut -f 2 rows | uniq)" = "$(hostname)" ]
	[ "$(ps -o comm= -p "$(cut -f 3 rows | paste -sd,)" | uniq)" = rf-ntp ]
	[ "$(awk -F '\t' '$6 < 0 || $6 > 4' rows)" = '' ]
	[ "$(rf-dump --json --rows rank run | jq -rs 'map("\(.type) \(.rank)") | join(" ")')" = \
		'rank 0 rank 1' ]
	[ "$(rf-dump --rows rank run | grep -c '^rank [01]  .* process [0-9]*  exchange [0-9]* ')" -eq 2 ]
	wait
	[ "$(rf-dump --tsv --rows rank --no-header run | wc -l)" -eq 0 ]
	run -64 rf-dump --tsv --rows rank in
}

# here NAME [ORDER]: prints the processes of that name that work in this folder, and so belong to this test
here() {
	local pid
	for pid in $(pgrep -x "$1" | sort -${2:-n}); do
		[ ! "/proc/$pid/cwd" -ef . ] || echo "$pid"
	done
}
# hit SIGNAL RANK NAME [ORDER]: waits until that rank's program runs, and sends it the signal.  A trainer has
# two processes; ORDER rn takes the one that trains.  The file `over` means that the program will not start.
hit() {
	local pid
	for _ in $(seq 200); do
		[ ! -e over ] || return 0
		for pid in $(here "$3" "${4:-n}"); do
			{ tr '\0' '\n' <"/proc/$pid/environ"; } 2>/dev/null |
				grep -qx "OMPI_COMM_WORLD_RANK=$2" || continue
			kill "-$1" "$pid" 2>/dev/null && return
		done
		sleep .01
	done
}

@test "ranks: if a trainer or its parent process is killed while MPI connects the ranks, the others exit 75" {
	many >in
	runs run
	state >before
	export BATCH=0:13 SHARE='--shard auto --mini-batch 4' RANKS='--ranks mpi --rank-timeout 1.5'
	local told=0 tries=0 PATIENCE=8 GRACE=1
	for order in n rn n rn n rn n rn; do
		# twice, and again as long as MPI has told no rank of the kill
		[ $((tries++)) -lt 2 ] || [ $told -eq 0 ] || [ -n "${RF_ALL:-}" ] || break
		hit KILL 1 rf-grpo $order &
		run in_line 3 "${line//RUN/run}"
		touch over
		wait $!
		rm over
		told=$((told + $(grep -c 'rf-grpo: MPI has ended this rank, with status 1: ' said || true)))
		rm -f code.1 # missing if the launcher killed this rank before MPI told it
		[ "$(codes)" = '75 75' ] || { echo "$order: $(codes)"; cat said.all; return 1; }
		state | cmp - before
		[ -z "$(here rf-grpo)" ]
	done
	[ $told -gt 0 ]
}

@test "ranks: a kill or stop of any program on any rank loses nothing, and the other ranks exit alike" {
	many >in
	runs run whole
	batch_of 0:13 whole
	state >before
	state whole >after
	local n=${RF_ALL:+200} hits=0 ended PATIENCE=20 GRACE=1
	local stages=(rf-cat rf-entropy rf-select rf-rollout rf-reward rf-grpo)
	local pause='in | { sleep .4; cat; } |' slow
	slow=${line/in |/"$pause"}
	for i in $(seq "${n:-16}"); do
		# four times, and again as long as each signal came too late
		[ "$i" -le 4 ] || [ "$hits" -eq 0 ] || [ -n "$n" ] || break
		RANDOM=$i
		stage=${stages[RANDOM % 6]} rank=$((RANDOM % 3)) signal=KILL
		[ $((RANDOM % 3)) -ne 0 ] || signal=STOP
		export BATCH=0:13 SHARE='--shard auto --mini-batch 4' RANKS='--ranks mpi --rank-timeout 1.5'
		{ sleep .$((RANDOM % 9)); hit $signal $rank $stage rn; } &
		in_line 3 "${slow//RUN/run}" || true
		touch over
		wait $!
		rm over
		for pid in $(here "$stage"); do kill -CONT "$pid" || true; done
		# if the signal did not come too late, the other ranks committed nothing and ended alike
		if state | cmp -s - after; then
			rm -r run
			runs run
			continue
		fi
		state | cmp - before || { echo "$signal $rank $stage"; cat said.all; return 1; }
		hits=$((hits + 1))
		rm -f "code.$rank" # missing if the launcher killed this rank before MPI told it
		ended=$(codes)
		case $signal$stage$ended in
		*'65 65' | *'75 75') ;;
		*)
			echo "$signal $rank $stage: $ended"
			cat said.all
			return 1
			;;
		esac
		[ "$signal" != STOP ] || grep -q "rank $rank (host" said ||
			{ echo "$signal $rank $stage: not named"; cat said.all; return 1; }
	done
	echo "$hits of ${n:-some} were in time"
	[ "$hits" -gt 0 ]
	rm -rf run
	runs run
	batch_by 3 0:13 run
	diff -r -x manifest.json whole run
}
