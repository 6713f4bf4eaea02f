#!/usr/bin/env bats
# Tests of rf-dump --tfevents, which writes the logs of runs as event files.

setup() {
	load ../helper
	mkdir -p runs/a
	echo '{"event":"begin","time":"2026-11-28T01:00:00Z"}' >runs/a/manifest.json
	for step in 0 1 2; do
		lines $step
	done >runs/a/log.jsonl
	printf '{"step":%d,"nll":%s}\n' 0 3.5 2 3.25 >runs/a/eval.jsonl
}

# lines STEP: prints a line of a log
lines() {
	printf '{"step":%d,"stepped":true,"loss/ntp":%d.5,"reward/kind":"edit","timing_s/step":2}\n' "$1" "$1"
}
# events DIR: prints the scalars of the event file in DIR (helper/tfevents.py)
events() { python3 "$ROOT/t/helper/tfevents.py" "$1"/*tfevents*; }
# steps: prints the steps of the events of training, once each
steps() { events tb/a/train | cut -f 2 | uniq | paste -sd' '; }
# comes WANT COMMAND...: waits until the command prints WANT
comes() {
	for _ in {1..200}; do
		[ "$("${@:2}")" != "$1" ] || return 0
		sleep .05
	done
	echo "no $1"
	return 1
}
# begun: waits for the first events of rf-dump --follow
begun() { comes events.out.tfevents.0.rf-tools ls tb/a/eval; }
# losses: prints step and loss of each event of training, and restarts
losses() { events tb/a/train | awk -F '\t' '$3 != "timing_s/step" { print $2, $4 }' | paste -sd,; }

@test "rf-dump --tfevents: each number of each line is a scalar with step and time, once" {
	rf-dump --tfevents tb runs/a
	events tb/a/train >train
	began=$(date -u -d 2026-11-28T01:00:00Z +%s)
	diff train - <<-END
		$((began + 2)).000	0	loss/ntp	0.5
		$((began + 2)).000	0	timing_s/step	2.0
		$((began + 4)).000	1	loss/ntp	1.5
		$((began + 4)).000	1	timing_s/step	2.0
		$((began + 6)).000	2	loss/ntp	2.5
		$((began + 6)).000	2	timing_s/step	2.0
	END
	diff <(events tb/a/eval) - <<-END
		$began.000	0	nll	3.5
		$((began + 4)).000	2	nll	3.25
	END
	# a second call writes the same bytes
	cp -r tb first
	rf-dump --tfevents tb runs/a/
	diff -r tb first
	# an incomplete last line waits
	printf '{"step":3,' >>runs/a/log.jsonl
	rf-dump --tfevents tb runs/a
	diff -r tb first
}

@test "rf-dump --tfevents: the last line of a step counts, and steps are in order" {
	lines 1 | sed 's/1\.5/9.5/' >>runs/a/log.jsonl
	printf '{"step":1,"nll":3}\n' >>runs/a/eval.jsonl
	rf-dump --tfevents tb runs/a
	[ "$(losses)" = '0 0.5,1 9.5,2 2.5' ]
	[ "$(events tb/a/eval | cut -f 2,4 | paste -sd,)" = '0	3.5,1	3.0,2	3.25' ]
	# a log without lines has no events
	: >runs/a/eval.jsonl
	rf-dump --tfevents tb runs/a
	[ "$(ls tb/a/eval)" = '' ]
	# a run without evaluations has no folder for them
	rm runs/a/eval.jsonl
	rf-dump --tfevents other runs/a
	[ "$(ls other/a)" = train ]
}

@test "rf-dump --tfevents: --follow repeats later steps after a restart if a run goes back" {
	rf-dump --tfevents tb --follow runs/a 3>&- &
	begun
	lines 1 | sed 's/1\.5/9.5/' >>runs/a/log.jsonl
	comes '0 0.5,1 1.5,2 2.5,1 restart,1 9.5,2 2.5' losses
	kill %1
	ended_by TERM $!
}

@test "rf-dump --tfevents: --follow appends new lines once, and replaces the events of another log" {
	rf-dump --tfevents tb --follow runs/a 3>&- &
	begun
	cp -r tb first
	lines 3 >>runs/a/log.jsonl
	comes '0 1 2 3' steps
	# the earlier events have not changed
	head -c "$(stat -c %s first/a/train/*)" tb/a/train/*tfevents* | cmp - first/a/train/*tfevents*
	lines 7 >other
	mv other runs/a/log.jsonl
	comes 7 steps
	# another log may be longer
	for step in 4 5 6 7; do lines $step; done >other
	mv other runs/a/log.jsonl
	comes '4 5 6 7' steps
	kill %1
	ended_by TERM $!
	events tb/a/train >/dev/null
}

@test "rf-dump --tfevents: a folder without a log, two runs of one name and a bad line are errors" {
	mkdir -p none other/a
	says 66 'rf-dump: none: log.jsonl and eval.jsonl are missing' rf-dump --tfevents tb none
	cp runs/a/log.jsonl other/a
	says 64 'rf-dump: runs/a and other/a have the same name...' rf-dump --tfevents tb runs/a other/a
	says 64 'rf-dump: --tfevents: no run is named...' rf-dump --tfevents tb
	for name in . .. runs/a/.. /; do
		says 64 "rf-dump: $name: the path has no name..." rf-dump --tfevents tb $name
	done
	says 64 'rf-dump: --tokenizer cannot be combined with --tfevents...' \
		rf-dump --tfevents tb --tokenizer bytes runs/a
	says 64 'rf-dump: --json cannot be combined with --tfevents...' rf-dump --tfevents tb --json runs/a
	says 64 'rf-dump: --follow requires --tfevents...' rf-dump --follow runs/a
	echo '{"step":"x"}' >>runs/a/eval.jsonl
	says 65 'rf-dump: runs/a/eval.jsonl: line 3: not a JSON object with a step...' \
		rf-dump --tfevents tb runs/a
	echo x >file
	says 74 'rf-dump: file...' rf-dump --tfevents file runs/a
}

@test "rf-dump --tfevents: tensorboard reads the file, also while it grows and goes back" {
	python3 -c 'import tensorboard' 2>/dev/null || skip "Python's tensorboard is not installed"
	rf-dump --tfevents tb --follow runs/a 3>&- &
	begun
	lines 1 | sed 's/1\.5/9.5/' >again
	python3 - >read <<-'END'
		import time
		from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
		log = EventAccumulator("tb/a/train")
		log.Reload()
		print([(e.step, e.value) for e in log.Scalars("loss/ntp")])
		open("runs/a/log.jsonl", "a").write(open("again").read())
		for i in range(100):
		    log.Reload()
		    values = [e.value for e in log.Scalars("loss/ntp")]
		    if 9.5 in values and len(values) == 3:
		        break
		    time.sleep(.1)
		print([(e.step, e.value) for e in log.Scalars("loss/ntp")])
	END
	kill %1
	ended_by TERM $!
	diff read - <<-END
		[(0, 0.5), (1, 1.5), (2, 2.5)]
		[(0, 0.5), (1, 9.5), (2, 2.5)]
	END
}
