#!/usr/bin/env bats
# Tests of how slurm.sbatch ends, without Slurm: its scontrol and srun only write their arguments to a file.

setup() {
	load ../helper
	mkdir fake pipelines
	printf '#!/bin/sh\necho "$@" >>"%s/asked"\n' "$PWD" | tee fake/srun >fake/scontrol
	chmod +x fake/*
	: >asked
	# a phase that writes STATUS, if it is given, to data/status like the loop, points latest to STEP, and
	# fails with status 2
	cat >pipelines/phase.mk <<-'END'
		.RECIPEPREFIX = >
		note = mkdir -p $(RUN)/data && printf '$(STATUS)\tthe reason\n' >$(RUN)/data/new && \
		       mv $(RUN)/data/new $(RUN)/data/status
		all:
		>@$(if $(STATUS),$(note))
		>@$(if $(STEP),ln -sfn step-$(STEP) $(RUN)/latest)
		>@$(or $(DO),exit 1)
	END
	PATH=$PWD/fake:$PATH
	export SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=1 RF_PIPELINES=$PWD/pipelines
}

# job WORD...: runs slurm.sbatch
job() { bash "$ROOT/pipelines/slurm.sbatch" phase RUN=a "$@" 2>err; }

@test "slurm.sbatch: a failure before the loop begins ends the job with make's status, without a requeue" {
	RF_PIPELINES=$ROOT/pipelines run -2 bash "$ROOT/pipelines/slurm.sbatch" midtrain RUN=a WRONG=1
	[[ "$output" == *'unknown variable WRONG'* ]]
	run -2 job
	run -2 bash "$ROOT/pipelines/slurm.sbatch" no-phase RUN=a
	# the data/status that an earlier job left does not count for this job
	run -75 job STATUS=75
	[ "$(cat asked)" = 'requeue 7' ]
	run -2 job
	[ "$(cat asked)" = 'requeue 7' ]
	# a loop that was killed leaves no data/status
	run -2 job DO='rm a/data/status; exit 2'
	[ -z "$(grep -v '^make' err)" ]
	run -64 bash "$ROOT/pipelines/slurm.sbatch" phase
	[ -z "$(ls -A . | grep -vxE 'a|asked|err|fake|pipelines')" ]
}

@test "slurm.sbatch: a failed loop ends the job with the loop's status, and status 75 requeues the job" {
	run -0 job DO=true
	run -65 job STATUS=65
	run -65 job STATUS=65
	run -137 job STATUS=137
	[ ! -s asked ]
	run -75 job STATUS=75 STEP=000004
	[ -z "$(grep -v '^make' err)" ]
	[ "$(cat asked)" = 'requeue 7' ]
	[ ! -e a/data/vain ]
}

@test "slurm.sbatch: a lock that another loop holds requeues the job" {
	mkdir -p a/data
	run -75 flock a/data/.lock bash "$ROOT/pipelines/slurm.sbatch" phase RUN=a
	[ "$(cat asked)" = 'requeue 7' ]
	run -2 job
	[ "$(cat asked)" = 'requeue 7' ]
}

@test "slurm.sbatch: a warning signal before the run exists ends the job without a requeue, with a message" {
	run -75 job DO="kill -USR1 \$\$(ps -o ppid= \$\$PPID); exec sleep 60"
	[[ "$(cat err)" == *'a: warned of its end before the run began: not queued again (--time)'* ]]
	[ ! -s asked ]
}

@test "slurm.sbatch: a RUN/stop that the job did not make ends the job without a requeue" {
	note='75\tasked: the same command continues from here'
	run -75 job DO="mkdir -p a/data; printf '$note' >a/data/status; exit 2"
	[ "$(grep -v '^make' err)" = 'slurm.sbatch: a: stopped by RUN/stop: not queued again' ]
	[ ! -s asked ]
	stops="touch begun; until [ -e a/stop ]; do sleep .02; done; printf '$note ' >a/data/status; exit 2"
	bash "$ROOT/pipelines/slurm.sbatch" phase RUN=a DO="$stops" 2>err 3>&- &
	for _ in $(seq 500); do [ -e begun ] || sleep .02; done
	kill -USR1 $!
	status=0
	wait $! || status=$?
	[ "$status" -eq 75 ]
	[ "$(cat asked)" = 'requeue 7' ]
}

@test "slurm.sbatch: three attempts without a commit end the job, not counting those before a commit" {
	run -75 job STATUS=75
	[ -z "$(grep -v '^make' err)" ]
	run -75 job STATUS=75
	run -75 job STATUS=75 STEP=000004
	[ "$(cat a/data/vain)" = $'step-000000\nstep-000000' ]
	run -75 job STATUS=75
	run -75 job STATUS=75
	[ "$(grep -c . asked)" -eq 5 ]
	run -75 job STATUS=75
	[ "$(grep -v '^make' err)" = \
		'slurm.sbatch: a: three times nothing was committed: not queued again; a/data/status' ]
	[ "$(grep -c . asked)" -eq 5 ]
	[ ! -e a/data/vain ]
}

@test "slurm.sbatch: a signal makes RUN/stop, and the job ends with the status that make then returns" {
	mkdir a
	bash "$ROOT/pipelines/slurm.sbatch" phase RUN=a \
		DO='touch begun; until [ -e a/stop ]; do sleep .02; done; exit 3' 2>err 3>&- &
	for _ in $(seq 500); do [ -e begun ] || sleep .02; done
	[ -e begun ]
	kill -USR1 $!
	status=0
	wait $! || status=$?
	[ "$status" -eq 2 ]
	[ -e a/stop ]
}
