#!/usr/bin/env bats
# Tests of slurm.sbatch with a Slurm on this machine: make check-slurm.

have_slurm() { have_mpi && command -v slurmctld >/dev/null; }
setup_file() {
	load ../helper
	load ../ranks
	export P=$BATS_FILE_TMPDIR
	have_slurm || return 0
	rm -rf /tmp/spmix_appdir_0_* # jobs are counted from 1 again
	"$BATS_TEST_DIRNAME/start.sh" "$P/slurm"
	export SLURM_CONF=$P/slurm/slurm.conf
	tiny_model_and_text
	set_words
	make -s -f "$ROOT/pipelines/midtrain.mk" RUN="$P/want" "${words[@]}"
}
teardown_file() {
	for daemon in slurmd slurmctld munged; do
		[ -e "$P/slurm/run/$daemon.pid" ] || continue
		pid=$(cat "$P/slurm/run/$daemon.pid")
		kill "$pid" && while kill -0 "$pid" 2>/dev/null; do sleep .1; done
	done
}
setup() {
	load ../helper
	load ../ranks
	have_slurm || skip 'Slurm or MPI is not installed (make deps-slurm)'
	export SLURM_CONF=$P/slurm/slurm.conf
	set_words
}
set_words() {
	words=(MODEL="$P/ckpt" DATA="$P/text.rf" BATCH=6 MINI_BATCH=3 LR=1e-3 BATCHES=12
		COMPUTE='--threads 1')
}
# job OPTION... -- WORD...: queues mid-training with the tiny model, in RUN=a, and sets `id` to the job's
# number
job() {
	local options=()
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	id=$(sbatch --parsable -o out "${options[@]}" "$ROOT/pipelines/slurm.sbatch" \
		midtrain RUN=a "${words[@]}" "${@:2}")
}
# until_is STATE: waits until the job has this state; until_batches N: waits until N batches are done
until_is() {
	for _ in $(seq 600); do
		state=$(scontrol show job -o "$id" | grep -o 'JobState=[A-Z_]*')
		[ "$state" != "JobState=$1" ] || return 0
		sleep .1
	done
	echo "job $id has $state, not $1"
	cat out
	return 1
}
until_batches() {
	until [ -e a/data/times.tsv ] && [ "$(wc -l <a/data/times.tsv)" -ge "$1" ]; do sleep .05; done
}

@test "slurm.sbatch: four tasks under srun --mpi=pmix end with the same bytes as one process" {
	job -n 4 --
	until_is COMPLETED
	same_run "$P/want" a
	[ "$(jq .world a/log.jsonl | sort -u)" = 4 ]
	[ "$(cat a/data/status)" = 0 ]
}

@test "slurm.sbatch: a job that is preempted and requeued ends with the same bytes" {
	job -n 3 --
	until_batches 2
	srun -Q -p high -n 8 --exclusive sleep 1
	until_is COMPLETED
	same_run "$P/want" a
	[[ "$(cat out)" == *'CANCELLED'*'PREEMPTION'* ]]
}

@test "slurm.sbatch: a job warned of its end stops after a commit, is requeued and ends with the same bytes" {
	job -n 2 --
	until_batches 2
	printf 'step-000000\nstep-000000\n' >a/data/vain # two earlier attempts without a commit
	scancel --batch --signal=USR1 "$id"
	until_is PENDING
	[ "$(wc -l <a/data/vain)" -eq 2 ]
	[[ "$(cat a/data/status)" == $'75\t'* ]]
	[ "$(wc -l <a/data/times.tsv)" -lt 12 ]
	until_is COMPLETED
	same_run "$P/want" a
}

@test "slurm.sbatch: a stage killed on one rank, or a wrong variable, ends the job without a requeue" {
	job -n 3 -- SELECT="bash -c '[ \$\$SLURM_PROCID != 1 ] || kill -9 \$\$\$\$; exec rf-select -k 5'"
	until_is FAILED
	[ "$(cut -f 1 a/data/status)" = 65 ]
	[ ! -e a/step-000002 ]
	[ "$(grep -c 'rank 1: <stdin>' out)" -eq 1 ]
	mv a failed
	job -n 2 -- BATCHES=3
	until_is FAILED
	[[ "$(cat out)" == *'unknown variable BATCHES'* ]]
}

@test "slurm.sbatch: a job that commits nothing in three attempts is not requeued again" {
	job -n 2 -- TRAIN="bash -c 'cat >/dev/null; exit 75'"
	until_is FAILED
	[ "$(grep -c 'three times nothing was committed: not queued again' out)" -eq 1 ]
	[ "$(scontrol show job -o "$id" | grep -o 'Restarts=[0-9]*')" = Restarts=2 ]
	[ ! -e a/data/vain ]
}

@test "slurm.sbatch: with RF_IMAGE the ranks run in the image and end with the same bytes" {
	mkdir fake
	# an image that is this system; the variables of the job would make mpirun look for srun
	cat >fake/apptainer <<-END
		#!/bin/sh
		echo "\$*" >>"$PWD/asked"
		env | grep -q '^SLURM_' && exit 1
		shift 3
		exec "\$@"
	END
	chmod +x fake/apptainer
	export PATH=$PWD/fake:$PATH RF_IMAGE=rf-tools.sif RF_PIPELINES=$ROOT/pipelines
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
	job -n 3 --
	until_batches 2
	scancel --batch --signal=USR1 "$id"
	until_is PENDING
	until_is COMPLETED
	same_run "$P/want" a
	[ "$(jq .world a/log.jsonl | sort -u)" = 3 ]
	[ "$(wc -l <asked)" -eq 2 ]
	[ "$(cut -d ' ' -f 1-6 asked | uniq)" = \
		"exec --nv rf-tools.sif make -f $ROOT/pipelines/midtrain.mk" ]
	[[ "$(cat asked)" != *PE=* ]]
	rm -r a
	words+=(BATCHES=6)
	job -n 2 --cpus-per-task=1 --
	until_is COMPLETED
	[[ "$(tail -n 1 asked)" == *'LAUNCH=mpirun -n 2 --map-by slot:PE=1' ]]
	RF_SRUN=--exclusive job -n 2 --
	until_is FAILED
	[[ "$(cat out)" == *'RF_SRUN cannot be combined with RF_IMAGE'* ]]
	rm fake/apptainer
	job -n 2 --
	until_is FAILED
	[[ "$(cat out)" == *'RF_IMAGE: the program apptainer is missing'* ]]
}

@test "slurm: mpirun in an allocation trains the same bytes; Slurm's variables have no effect by themselves" {
	salloc -Q -n 3 make -s -f "$ROOT/pipelines/midtrain.mk" RUN=a "${words[@]}" \
		LAUNCH='mpirun --bind-to none'
	same_run "$P/want" a
	[ "$(jq .world a/log.jsonl | sort -u)" = 3 ]
	salloc -Q -n 3 make -s -f "$ROOT/pipelines/midtrain.mk" RUN=b "${words[@]}"
	same_run "$P/want" b
}
