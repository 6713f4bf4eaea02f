#!/bin/bash
# start.sh FOLDER -- starts a Slurm of one node, as root, which claims to have 8 cores: munged, slurmctld and
# slurmd, whose files are all in FOLDER.  With SLURM_CONF=FOLDER/slurm.conf, commands use this Slurm.
#
# Partition low is the default.  Jobs of partition high preempt the jobs of low, which are requeued.
set -eu
dir=$1
host=$(hostname -s)
mkdir -p "$dir"/{state,spool,run}
head -c 1024 /dev/urandom >"$dir/key"
chmod 400 "$dir/key"
# random ports, which are probably free
port=$((20000 + RANDOM % 10000))
# A requeued job waits until its old credentials have expired; by default this takes two minutes.
cat >"$dir/slurm.conf" <<-END
	ClusterName=check
	SlurmctldHost=$host(127.0.0.1)
	SlurmctldPort=$port
	SlurmdPort=$((port + 1))
	SlurmUser=root
	AuthType=auth/munge
	AuthInfo=socket=$dir/run/munge,cred_expire=5
	StateSaveLocation=$dir/state
	SlurmdSpoolDir=$dir/spool
	SlurmctldPidFile=$dir/run/slurmctld.pid
	SlurmdPidFile=$dir/run/slurmd.pid
	SlurmctldLogFile=$dir/slurmctld.log
	SlurmdLogFile=$dir/slurmd.log
	ProctrackType=proctrack/linuxproc
	TaskPlugin=task/none
	JobAcctGatherType=jobacct_gather/none
	AccountingStorageType=accounting_storage/none
	SelectType=select/cons_tres
	SelectTypeParameters=CR_CPU
	SchedulerParameters=bf_interval=1,sched_interval=1
	PreemptType=preempt/partition_prio
	PreemptMode=REQUEUE
	JobRequeue=1
	ReturnToService=2
	MpiDefault=none
	KillWait=5
	SlurmdParameters=config_overrides
	NodeName=$host NodeAddr=127.0.0.1 CPUs=8 RealMemory=2000 State=UNKNOWN
	PartitionName=low Nodes=$host Default=YES PriorityTier=1 MaxTime=INFINITE State=UP
	PartitionName=high Nodes=$host PriorityTier=10 MaxTime=INFINITE State=UP
END
munged --force --key-file="$dir/key" --socket="$dir/run/munge" --pid-file="$dir/run/munged.pid" \
	--log-file="$dir/munged.log" --seed-file="$dir/run/seed"
export SLURM_CONF=$dir/slurm.conf
slurmctld
slurmd
for _ in $(seq 100); do
	[ "$(sinfo -h -p low -o %t 2>/dev/null)" != idle ] || exit 0
	sleep .1
done
echo 'slurm did not start' >&2
tail -n 3 "$dir"/*.log >&2
exit 70
