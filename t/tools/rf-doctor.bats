#!/usr/bin/env bats
# Tests of rf-doctor: each kind of problem is found and explained, other machines cause none, and the report
# is whole, also if something hangs.  $D is a folder with only rf-doctor, so a test does
# not start all programs.

setup_file() {
	load ../helper
	load ../fakes
	export P=$BATS_FILE_TMPDIR D=$BATS_FILE_TMPDIR/one/bin
	mkdir -p "$D" "$P/root/proc/self" "$P/healthy/proc/self"
	printf 'MemTotal: 8000000 kB\nMemAvailable: 7000000 kB\n' >"$P/healthy/proc/meminfo"
	: >"$P/healthy/proc/locks"
	cp "$RF_BIN/rf-doctor" "$D"
	cd "$P"
	fake_plugin good.so
	fake_driver driver
	mkdir -p root/proc/driver/nvidia
	printf 'NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\nGCC\n' \
		>root/proc/driver/nvidia/version
	rf-init --from "$G/delta" run
}

setup() {
	load ../helper
	load ../fakes
	unset RF_PLUGIN RF_ISA RF_MPI CUDA_VISIBLE_DEVICES ONEDNN_MAX_CPU_ISA TMPDIR LD_LIBRARY_PATH
	cp -a "$P/run" run
}

teardown() { ! mountpoint -q small 2>/dev/null || umount small; }

# The functions below run rf-doctor with PATH=$SEARCH and the files of /proc, /sys and /etc in the folder $R:
# by default those of a healthy machine without limits, since this machine may have problems.
doctor() {
	(ulimit -S -n 1024
	RF_DOCTOR_ROOT=${R-$P/healthy} PATH=${SEARCH:-/usr/bin:/bin} exec "$D/rf-doctor" "$@")
}

# well [ARGUMENT...]: rf-doctor finds nothing wrong
well() {
	run --separate-stderr doctor "$@"
	[ "$status $stderr" = '0 ' ] || { echo "$output$stderr"; return 1; }
	[[ $output == *$'\nwrong\n  nothing wrong was found' ]] || { echo "$output"; return 1; }
}

# ill WANT [ARGUMENT...]: rf-doctor exits with 69, and finds only this problem
ill() {
	run --separate-stderr doctor "${@:2}"
	[ "$status $stderr" = '69 ' ] || { echo "$status: $output$stderr"; return 1; }
	like "$(sed '1,/^wrong$/d' <<<"$output")" "  $1" || { echo "$output"; return 1; }
	[ "$(sed '1,/^wrong$/d' <<<"$output" | wc -l)" -eq 1 ] || { echo "$output"; return 1; }
}

# began, soon: note the time; succeed if the report came soon after it, with time for a busy machine
began() { start=${EPOCHREALTIME/./}; }
soon() { [ $((${EPOCHREALTIME/./} - start)) -lt 6000000 ]; }

# fact NAME: prints the values of this name in the last report
fact() { sed -n "s/^  $1  *//p" <<<"$output"; }

# on_gpu COMMAND...: runs a function above on a machine with a driver, a GPU and a plugin
on_gpu() { R=$P/root RF_PLUGIN=${RF_PLUGIN:-$P/good.so} LD_LIBRARY_PATH=$P/driver "$@"; }

@test "rf-doctor: the report of a healthy machine and run has each section, and exits 0" {
	well run
	for part in programs libraries system processor memory 'limits and environment' GPU ranks \
		'programs for pipelines' run wrong; do
		grep -qx "$part" <<<"$output" || [ "$part" = libraries ]
	done
	[[ ${lines[0]} =~ ^rf-doctor\ [0-9.]+\ \(.*\)$ ]]
	[ "$(fact folder)" = "$D" ]
	[ "$(fact kernel)" = "$(uname -srm)" ]
	like "$(fact cores)" "$(nproc) of ... online may be used"
	like "$(fact memory)" "... of ... available"
	[ "$(fact kind)" = "a run with 1 step, the newest 0" ]
	[ "$(fact latest)" = "points to step-000000" ]
	[ "$(fact locks)" = work ]
	[ "$(fact writable)" = yes ]
	[ "$(fact 'trained by')" = 'no program that this process can see' ]
}

@test "rf-doctor: this machine gets a whole report, with all programs and a run" {
	began
	PATH=$RF_BIN:/usr/bin:/bin run --separate-stderr rf-doctor run
	[ -z "$stderr" ]
	[ "$status" -eq 0 ] || [ "$status" -eq 69 ]
	soon
	[ "$(fact kernel)" = "$(uname -srm)" ]
	like "$(fact distribution)" "$(. /etc/os-release && echo "$PRETTY_NAME")"
	like "$(fact memory)" "... of ... available"
	like "$(fact version)" "...: $(ls "$RF_BIN" | wc -l) programs"
	[ -n "$(fact oneDNN)" ]
	[ -n "$(fact zstd)" ]
	like "$(fact levels)" "$(levels | head -n 1)... in force; ..."
}

@test "rf-doctor: a driver that hangs is a note, and the report is whole" {
	began
	FAKE_INIT=hang on_gpu well run
	soon
	like "$(fact 'no answer')" "the NVIDIA driver did not answer within 1 s (start persistence mode ...)"
	[ "$(fact 'NVIDIA driver')" = 580.95.05 ]
	[ "$(fact architectures)" = "sm_80, sm_90, and newer ones; built with CUDA 13.0" ]
	[ "$(fact kind)" = "a run with 1 step, the newest 0" ]
}

@test "rf-doctor: a driver or plugin that hangs or crashes holds neither the output nor a process" {
	fake_plugin sleeps.so '#include <unistd.h>
		__attribute__((constructor)) static void begin(void) { pause(); }'
	fake_plugin crashes.so '#include <stdlib.h>
		__attribute__((constructor)) static void begin(void) { abort(); }'
	RF_PLUGIN=$PWD/sleeps.so well
	like "$(fact 'no answer')" "the CUDA plugin did not answer within 1 s (...)"
	RF_PLUGIN=$PWD/crashes.so ill "the CUDA plugin ended with status 134 (...)"
	FAKE_INIT=crash on_gpu ill "the NVIDIA driver ended with status 134 (...)"
	FAKE_INIT=hang RF_PLUGIN=$P/good.so LD_LIBRARY_PATH=$P/driver timeout 5 "$D/rf-doctor" | cat >out
	grep -q '^wrong$' out
	sleep .1
	run ! pgrep -f "$D/rf-doctor"
}

@test "rf-doctor: the process that asks the driver has no file open that a reader could wait for" {
	FAKE_INIT=list FAKE_LIST=$PWD/list on_gpu well 5>held | cat >out
	sed -n 's/.* -> //p' list | grep -v '^pipe:' | sort -u >open
	grep -qx /dev/null open
	run ! grep -vE '^(/dev/null|/proc/[0-9]+/fd)$' open
	[ "$(sed -n 's/.* -> pipe:/pipe:/p' list | sort -u | wc -l)" -eq 1 ]
}

@test "rf-doctor: a GPU that the plugin can use, now or by compiling, is listed and not wrong" {
	on_gpu well
	[ "$(fact 'GPU 0')" = "Fake 0, sm_90, 990 MiB of 1000 MiB free" ]
	[ "$(fact "driver's CUDA")" = 13.0 ]
	like "$(fact 'plugin loads')" "in 0... s"
	FAKE_GPUS=2 FAKE_CC=86 on_gpu well
	[ "$(fact 'GPU 1')" = "Fake 1, sm_86, 990 MiB of 1000 MiB free" ]
	FAKE_CC=120 on_gpu well
}

@test "rf-doctor: a GPU without code or memory, and an old or failed driver, are wrong" {
	FAKE_CC=75 on_gpu ill "GPU 0 of type sm_75 is too old: sm_80 is needed (use --device cpu)"
	FAKE_FREE=50 on_gpu ill "GPU 0 has only 50.0 MiB of 1000 MiB free (end the programs ..."
	FAKE_VERSION=12080 on_gpu ill \
		"the NVIDIA driver supports CUDA 12.8, and the plugin needs 13.0 (update ..."
	FAKE_INIT=803 on_gpu ill "the NVIDIA driver cannot start: fake error, error 803 (restart ..."
	fake_plugin partly.so \
		'const struct rf_plugin_about rf_plugin_about = { 13000, "sm_89" };' -DNO_ABOUT
	RF_PLUGIN=$PWD/partly.so FAKE_CC=86 on_gpu ill \
		"...code for sm_89, which GPU 0 of type sm_86 cannot run..._ARCHS=86)"
	fake_plugin newer.so \
		'const struct rf_plugin_about rf_plugin_about = { 13010, "sm_90" };' -DNO_ABOUT
	RF_PLUGIN=$PWD/newer.so FAKE_CC=100 on_gpu ill \
		"GPU 0 is newer than the plugin, and its driver for CUDA 13.0 cannot compile ...13.1 ..."
}

@test "rf-doctor: GPUs that CUDA_VISIBLE_DEVICES hides are wrong, unless it hides all on purpose" {
	export FAKE_GPUS=0
	on_gpu well
	[ "$(fact GPUs)" = none ]
	CUDA_VISIBLE_DEVICES=7 on_gpu ill "CUDA_VISIBLE_DEVICES=7 leaves no GPU visible (unset it, ..."
	CUDA_VISIBLE_DEVICES=-1 on_gpu well
	CUDA_VISIBLE_DEVICES='' on_gpu well
}

@test "rf-doctor: a driver without its library is wrong, and so is a plugin that cannot be loaded" {
	[ -z "$(ldconfig -p | grep -F libcuda.so.1)" ] || skip 'there is a driver'
	R=$P/root ill "the NVIDIA driver is loaded, but its library libcuda.so.1 is not found (in a ..."
	echo text >text.so
	RF_PLUGIN=$PWD/text.so ill "--device cuda does not work: ...text.so: not a shared object"
	RF_PLUGIN=$PWD/none.so ill "--device cuda does not work: ...none.so: No such file or directory"
	fake_plugin other.so '' -DABI=7
	RF_PLUGIN=$PWD/other.so ill "--device cuda does not work: ...belongs to another version..."
	lacking_plugin lacks.so
	RF_PLUGIN=$PWD/lacks.so ill "--device cuda does not work: the CUDA plugin needs libnowhere.so.13: ..."
	[ "$(fact 'missing libraries')" = libnowhere.so.13 ]
	# without a driver, a plugin that no variable names is not used
	mkdir -p one/bin one/lib/rf-tools
	cp "$D/rf-doctor" one/bin
	cp lacks.so one/lib/rf-tools/rf-cuda.so
	D=$PWD/one/bin well
	[ "$(fact 'missing libraries')" = libnowhere.so.13 ]
	LD_LIBRARY_PATH=$P/driver D=$PWD/one/bin ill \
		"--device cuda does not work: ...needs libnowhere.so.13: ..."
}

@test "rf-doctor: an MPI plugin that cannot be loaded is wrong, and a missing one is not" {
	well
	like "$(fact plugin | tail -n 1)" "none: no MPI plugin: rf-mpi.so is neither in ..."
	echo text >text.so
	RF_MPI=$PWD/text.so ill "--ranks mpi does not work: the MPI plugin cannot be loaded: ..."
	[ -e "$RF_UNITS/../rf-mpi.so" ] || return 0
	export RF_MPI=$RF_UNITS/../rf-mpi.so
	well
	[ -n "$(fact MPI)" ]
}

@test "rf-doctor: a program of another version, or one that does not start, is wrong" {
	mkdir bin
	cp "$D/rf-doctor" bin
	D=$PWD/bin
	version=$("$D/rf-doctor" --version | sed -n '1s/rf-doctor //p')
	printf '#!/bin/sh\necho "rf-cat %s"\n' "$version" >bin/rf-cat
	printf '#!/bin/sh\necho "not a program of rf-tools"\n' >bin/rf-cat.old
	printf '#!/bin/sh\n: >%q\n' "$PWD/started" >bin/rf-scan
	chmod +x bin/rf-*
	well
	[ ! -e started ]
	[ "$(fact version)" = "$version: 2 programs" ]
	printf '#!/bin/sh\necho "rf-ntp 0.0 (1234567)"\n' >bin/rf-ntp
	chmod +x bin/rf-ntp
	ill \
		"$D/rf-ntp is of version 0.0 (1234567), and rf-doctor of $version (install all ..."
	printf '#!/bin/sh\necho "rf-ntp: libdnnl.so.2: cannot open"; exit 127\n' >bin/rf-ntp
	ill "$D/rf-ntp does not start (status 127): rf-ntp: libdnnl.so.2: cannot open (..."
	printf '#!/bin/sh\nsleep 9\n' >bin/rf-ntp
	began
	well
	like "$(fact rf-ntp)" "did not answer to --version within 1.4 s (..."
	soon
}

@test "rf-doctor: programs that it starts end with it, also those that they start" {
	mkdir bin
	cp "$D/rf-doctor" bin
	printf '#!/bin/sh\nsleep 77.%s\n' $$ >bin/rf-ntp
	chmod +x bin/rf-ntp
	D=$PWD/bin well
	run ! pgrep -f "^sleep 77[.]$$"
	for signal in TERM INT; do
		env --default-signal bin/rf-doctor >out 3>&- &
		for ((n = 0; n < 200; n++)); do
			! pgrep -f "^sleep 77[.]$$" >/dev/null || break
			sleep .02
		done
		kill -$signal $!
		wait $! || true
		sleep .1
		run ! pgrep -f "^sleep 77[.]$$"
	done
}

@test "rf-doctor: too few open files for its programs are wrong" {
	run -69 bash -c 'ulimit -n 16 && exec "$1"' - "$RF_BIN/rf-doctor"
	[[ $output == *"cannot be started: pipe: Too many open files (raise ulimit -n "* ]]
	[[ $output == *"ulimit -n allows at most 16 of open files: "*"(ulimit -n 1024)"* ]]
}

@test "rf-doctor: a name of any length is reported without a crash" {
	for n in 4000 4096 5000; do
		run -69 doctor "$(printf 'a%.0s' $(seq "$n"))"
		[[ $output == *"File name too long"* ]]
	done
}

@test "rf-doctor: a folder before this one on PATH with other programs is wrong, and one with links is not" {
	mkdir other links
	cp "$D/rf-doctor" other
	ln -s "$D/rf-doctor" links
	SEARCH=$PWD/links:/usr/bin:/bin well
	[ "$(fact PATH)" = 'has these programs' ]
	SEARCH=$D:$PWD/other:/usr/bin:/bin well
	SEARCH=$PWD/other:$D:/usr/bin:/bin ill \
		"PATH finds programs in $PWD/other before those in $D (put ... PATH=$D:\$PATH)"
	SEARCH=$PWD/other:/usr/bin:/bin well
	[ "$(fact PATH)" = "$PWD/other has 1 other program" ]
	SEARCH=/usr/bin:/bin well
	[ "$(fact PATH)" = 'does not have these programs' ]
}

@test "rf-doctor: libraries come from the programs, and a level that the processor lacks is wrong" {
	mkdir bin
	cp "$D/rf-doctor" bin
	cp "$RF_BIN/rf-ntp" bin
	D=$PWD/bin
	well
	[ "$(fact oneDNN)" = "$(rf-ntp --version | grep -o 'oneDNN [0-9.]*' | cut -d' ' -f2)" ]
	[ -z "$(fact note)" ]
	RF_ISA=wrong ill \
		"programs with a model cannot compute: none in force: unknown ... 'wrong' ..."
	[ "$(uname -m)" = x86_64 ] || return 0
	RF_ISA=x86_64 well
	like "$(fact levels)" 'x86_64 in force (RF_ISA=x86_64); ...'
	like "$(fact note)" 'a variable lowers the level...'
}

@test "rf-doctor: a control group with less time than threads, or with no memory left, is wrong" {
	mkdir -p r/proc/self r/sys/fs/cgroup/{job/step,cpu/job,memory/job}
	echo 'MemTotal: 8000000 kB
MemAvailable: 7000000 kB
SwapTotal: 1024 kB' >r/proc/meminfo
	echo 0::/job/step >r/proc/self/cgroup
	R=r well
	like "$(fact memory)" "6.7 GiB of 7.6 GiB available"
	[ "$(fact swap)" = "1.0 MiB" ]
	echo 'max 100000' >r/sys/fs/cgroup/job/step/cpu.max
	echo '50000 100000' >r/sys/fs/cgroup/job/cpu.max
	R=r ill "a control group gives 0.5 cores, but programs start $(nproc) threads, ... \
(use --threads 1, ..."
	rm r/sys/fs/cgroup/job/cpu.max
	echo 1073741824 >r/sys/fs/cgroup/job/memory.max
	echo 1073000000 >r/sys/fs/cgroup/job/memory.current
	R=r ill "only 724 KiB of memory are left (end other programs, ..."
	[ "$(fact limit)" = '1.0 GiB by a control group, 724 KiB left' ]
	printf 'anon 5\ninactive_file 100\nactive_file 900000000\nslab_reclaimable 100000000\n' \
		>r/sys/fs/cgroup/job/memory.stat
	R=r well
	sed -i.all /MemAvailable/d r/proc/meminfo
	rm r/sys/fs/cgroup/job/memory.max
	R=r well
	like "$(fact memory)" "unknown part of 7.6 GiB available"
	mv r/proc/meminfo.all r/proc/meminfo
	# version 1
	printf '4:memory:/job\n3:cpuset,cpu:/job\n1:name=systemd:/\n0::/\n' >r/proc/self/cgroup
	mv r/sys/fs/cgroup/cpu r/sys/fs/cgroup/cpuset,cpu
	echo 9223372036854771712 >r/sys/fs/cgroup/memory/memory.limit_in_bytes
	R=r well
	echo 1073741824 >r/sys/fs/cgroup/memory/job/memory.limit_in_bytes
	echo 1073741000 >r/sys/fs/cgroup/memory/job/memory.usage_in_bytes
	R=r ill "only 824 bytes of memory are left (..."
	rm r/sys/fs/cgroup/memory/job/*
	echo 25000 >r/sys/fs/cgroup/cpuset,cpu/job/cpu.cfs_quota_us
	echo 100000 >r/sys/fs/cgroup/cpuset,cpu/job/cpu.cfs_period_us
	R=r ill "a control group gives 0.25 cores, ..."
	echo -1 >r/sys/fs/cgroup/cpuset,cpu/job/cpu.cfs_quota_us
	R=r well
}

@test "rf-doctor: the report names the container, the variables that matter and the cores of taskset" {
	mkdir -p r/proc/self r/run
	echo 0::/kubepods/pod1 >r/proc/self/cgroup
	R=r RF_DEVICE=cpu OMP_NUM_THREADS=3 ONEDNN_VERBOSE=0 UNRELATED=1 well
	[ "$(fact container)" = kubepods ]
	[[ $output == *RF_DEVICE=cpu* && $output == *OMP_NUM_THREADS=3* && $output == *ONEDNN_VERBOSE=0* ]]
	[[ $output != *UNRELATED* ]]
	echo 0::/ >r/proc/self/cgroup
	container='' R=r well
	[ "$(fact container)" = 'none recognized' ]
	SINGULARITY_CONTAINER=/x.sif R=r well
	[ "$(fact container)" = apptainer ]
	touch r/run/.containerenv
	R=r well
	[ "$(fact container)" = podman ]
	RF_DOCTOR_ROOT=r run taskset -c 0 "$D/rf-doctor"
	like "$(fact cores)" "1 of ..."
	[ "$(fact threads)" = "1, unless --threads is given" ]
}

@test "rf-doctor: limits of ulimit are wrong if they can stop a program" {
	ulimit -S -n 1024
	well
	[ "$(fact 'open files')" = 'at most 1024 (ulimit -n)' ]
	doctor() { RF_DOCTOR_ROOT=$P/healthy "$D/rf-doctor" "$@"; }
	(ulimit -n 50 && ill "ulimit -n allows at most 50 of open files: ...")
	(ulimit -f 1024 && ill "ulimit -f allows at most 1.0 MiB of size of a file: a larger checkpoint ...")
	(ulimit -v 4000000 && ill "ulimit -v allows at most 3.8 GiB of address space: ...")
}

@test "rf-doctor: missing programs for pipelines are named and not wrong" {
	mkdir empty
	SEARCH=$PWD/empty well
	[ "$(fact missing | wc -l)" -eq 8 ]
	[[ $(fact missing) == *'gnuplot (for figures: '* ]]
}

@test "rf-doctor: a folder for temporary files that cannot be written or does not exist is wrong" {
	mkdir closed
	chmod a-w closed
	TMPDIR=$PWD/none ill "no temporary file can be made in $PWD/none: No such file ..."
	export TMPDIR=$PWD/closed
	[ "$(id -u)" -ne 0 ] || {
		run -69 bound "$D/rf-doctor"
		[[ $output == *"no temporary file can be made in $PWD/closed: Permission denied ("* ]]
	}
	[ -z "$(ls -A closed)" ]
}

@test "rf-doctor: a path that is no run is wrong: missing, a file, a FIFO, an empty folder, unreadable" {
	ill "no/where: No such file or directory (begin a run with: ..." no/where
	echo text >file
	ill "file is not a folder, and a run is one (name the run)" file
	mkfifo fifo
	ill "fifo is not a folder, ..." fifo
	mkdir empty
	ill "empty is neither a run nor a checkpoint: ..." empty
	ill "file/x: Not a directory (check its path and permissions)" file/x
	chmod 0 empty
	run -69 bound "$D/rf-doctor" empty
	[[ $output == *"empty cannot be read: Permission denied (ask its owner "* ]]
	chmod 700 empty
}

@test "rf-doctor: a checkpoint and a step of a run are recognized" {
	cp -r "$G/delta" ckpt
	chmod -R u+w ckpt
	well ckpt
	[ "$(fact kind)" = 'a checkpoint' ]
	well run/latest
	[ "$(fact kind)" = 'a step of a run' ]
}

@test "rf-doctor: a link latest that is missing, dangling or no link is wrong, and so is a damaged step" {
	ln -sfn step-000009 run/latest
	ill "run: latest points to step-000009, which does not exist: the newest step is step-000000 (..." run
	rm run/latest
	ill "run: the link latest is missing: the newest step is step-000000 (..." run
	ln -s ../.. run/latest
	ill "run/latest: the link points to '../..', which is not the name of a step" run
	rm run/latest
	cp -r run/step-000000 run/latest
	ill "run/latest: not a symbolic link: ..." run
	rm -r run/latest
	ln -s step-000000 run/latest
	rm run/step-000000/state.json
	ill "run/step-000000 is damaged: it has no state.json (..." run
}

@test "rf-doctor: the room is too small exactly if the trainer refuses to commit" {
	mkdir small
	mount -t tmpfs -o size=5m tmpfs small 2>/dev/null || skip 'mount(8) does not work here'
	cp -a run small
	well small/run
	like "$(fact 'next step')" "takes 1.1 MiB"
	head -c 3500k /dev/zero >small/run/fill
	well small/run
	head -c 4100k /dev/zero >small/run/fill
	ill "small/run has room for ..., and a step takes 1.1 MiB (free some room, or move the run)" small/run
}

@test "rf-doctor: a run that no trainer can open is wrong" {
	truncate -s 100 run/step-000000/model.safetensors
	ill "no program can train the run: ...model.safetensors' has 100 bytes, ..." run
}

@test "rf-doctor: a file system without enough inodes is wrong" {
	mkdir small
	mount -t tmpfs -o size=5m,nr_inodes=16 tmpfs small 2>/dev/null || skip 'mount(8) does not work here'
	cp -a run small
	mkdir -p r/proc/self
	cat /proc/self/mountinfo >r/proc/self/mountinfo
	R=r well small/run
	like "$(fact 'file system')" "tmpfs at $PWD/small, which is lost at a reboot"
	touch small/{1,2,3,4}
	ill "small/run has room for only ... files, and a step has ..." small/run
}

@test "rf-doctor: the file system is that of the nearest mount, and a network is noted" {
	mkdir -p r/proc/self 'with blank'
	mv run 'with blank'
	real=$(pwd -P)
	touch 'with blank/run/.lock'
	{
		echo '22 1 0:1 / / rw - ext4 /dev/x rw'
		echo "23 22 0:2 / $real rw - xfs /dev/y rw"
		echo "24 23 0:3 / $real/with\\040blank rw,relatime shared:1 - nfs4 server:/x rw"
		echo "25 23 0:4 / $real/with rw - tmpfs none rw"
	} >r/proc/self/mountinfo
	R=r well 'with blank/run'
	like "$(fact 'file system')" "nfs4 at $real/with blank, over a network: only one machine may train..."
	[ "$(fact 'trained by')" = 'unknown: /proc/locks cannot be read' ]
	: >r/proc/locks
	R=r well 'with blank/run'
	[ "$(fact 'trained by')" = 'no program of this machine that this process can see' ]
	mv 'with blank/run' .
	R=r well run
	[ "$(fact 'file system')" = "xfs at $real" ]
}

@test "rf-doctor: the program that holds the run's lock is named, and is not disturbed" {
	touch run/.lock
	flock run/.lock sleep 20 3>&- &
	taken run/.lock
	R='' doctor run >out || true
	output=$(cat out)
	like "$(fact 'trained by')" "flock, process $!"
	kill $!
	wait $! || true
}

@test "rf-doctor: a run is only read, and nothing is left in it" {
	find run -printf '%p %s %m %T@\n' | sed '/^run [0-9]/d' | sort >before
	well run
	find run -printf '%p %s %m %T@\n' | sed '/^run [0-9]/d' | sort | diff before -
	time=$(stat -c %y run/step-000000)
	well run/step-000000
	[ "$(stat -c %y run/step-000000)" = "$time" ]
	chmod a-w run
	run -69 bound "$D/rf-doctor" run
	[[ $output == *"run cannot be written: Permission denied (no step can be committed there)"* ]]
}

@test "rf-doctor: a file system without locks is wrong" {
	can_trace
	run -69 strace -qq -f -o /dev/null -e inject=flock:error=ENOLCK "$D/rf-doctor" run
	[[ $output == *"locks do not work on the file system of run: No locks available (mount it "* ]]
	run -69 strace -qq -f -o /dev/null -e inject=flock:retval=0 "$D/rf-doctor" run
	[[ $output == *"run: two programs get the same lock (mount it "* ]]
	[ -z "$(ls -A run | grep doctor)" ]
}

@test "rf-doctor: control characters in names and variables do not reach the terminal" {
	mv run $'r\e[31mun'
	RF_X=$'a\e[2J\nb' well $'r\e[31mun'
	[[ $output != *$'\e'* ]]
	[[ $output == *'r\x1b[31mun'* ]]
}

@test "rf-doctor: mistakes on the command line exit 64, and a full device exits 74" {
	says 64 "rf-doctor: unknown option '--nonsense' (try --help)" rf-doctor --nonsense
	says 64 "rf-doctor: unexpected argument 'b' (try --help)" rf-doctor a b
	run -74 bash -c "$D/rf-doctor >/dev/full"
}

@test "rf-doctor: a machine that cannot start processes exits 71 with one line" {
	can_trace
	says 71 "rf-doctor: fork: Resource temporarily unavailable" \
		strace -qq -o /dev/null -e inject=clone,clone3,fork:error=EAGAIN "$D/rf-doctor"
}

@test "rf-doctor: keeps the promise of --help and --version" {
	load ../promises
	promise help sink . rf-doctor
}
