"""kills.py COUNT SEED: runs rf-loop, and kills, interrupts or stops it COUNT times at random moments.  With
RF_ALL=1 two other processes are busy half of the time.  The folder has ckpt and corpus.rf.  Each time all
processes must end within 10 seconds, and the same command must continue the run.  Each finished run must have
the same bytes as a run that was never disturbed."""

import atexit, os, random, shutil, signal, subprocess, sys, time

COUNT, SEED = int(sys.argv[1]), int(sys.argv[2])
BATCHES, LIMIT = 5, 10
LINE = 'rf-cat --range $FROM:$TO "$ORDER" | rf-ntp -m "$RUN" --at $AT --mini-batch 2 --log "$RUN/log.jsonl"'
HOW = ["KILL", "KILL", "TERM", "INT", "HUP", "TSTP CONT", "TSTP KILL", "TSTP TERM CONT", "STOP CONT INT"]


def start(run):
	words = ["rf-loop", "-m", run, "--from", "ckpt", "--data", "corpus.rf", "--batches", str(BATCHES),
	         "--batch", "4", "--wait", "--after", "cat $STEP/state.json >$RUN/seen", "--", LINE]
	return subprocess.Popen(words, stderr=open("err", "w"), start_new_session=True)


def living(session):
	"""Returns the processes of a session that are not dead."""
	found = []
	for pid in filter(str.isdigit, os.listdir("/proc")):
		try:
			with open(f"/proc/{pid}/stat") as f:
				state, _, _, sid = f.read().rpartition(")")[2].split()[:4]
		except (FileNotFoundError, ProcessLookupError):
			continue
		if int(sid) == session and state not in "ZX":
			found.append(int(pid))
	return found


def gone(session):
	"""Waits until all processes of a session have ended."""
	until = time.monotonic() + LIMIT
	while living(session):
		if time.monotonic() > until:
			fail(f"{living(session)} live on")
		time.sleep(0.005)


def fail(what):
	sys.exit(f"kill {kills} of {COUNT}, seed {SEED}: {what}\n" + open("err").read())


def wait(loop):
	try:
		return loop.wait(LIMIT)
	except subprocess.TimeoutExpired:
		subprocess.run(["ps", "-eo", "pid,ppid,pgid,sid,stat,wchan:20,args"])
		fail("no end")


def commits(run):
	rows = subprocess.run(["rf-dump", "--tsv", "--rows", "step", "--columns", "commits", "--no-header",
	                       run], capture_output=True, text=True)
	return int(rows.stdout.split()[-1]) if rows.stdout else 0


def strike(loop, how):
	"""Sends the signals one after the other; returns the exit statuses that are right then."""
	for name in how.split():
		if name == "CONT":
			time.sleep(rng.uniform(0, 0.4))
		loop.send_signal(getattr(signal, "SIG" + name))
	last = [n for n in how.split() if n not in ("STOP", "TSTP", "CONT")]
	number = getattr(signal, "SIG" + last[-1]) if last else 0
	return (0, -number, 128 + number) # -number: SIGKILL, or a signal before the loop was ready for it


rng, kills, busy = random.Random(SEED), 0, []
atexit.register(lambda: [process.kill() for process in busy])
loop = start("want")
if wait(loop):
	fail("it fails by itself")
began = time.monotonic()
shutil.rmtree("want")
wait(start("want"))
took = time.monotonic() - began
while kills < COUNT:
	shutil.rmtree("run", ignore_errors=True)
	done = 0
	while True:
		if os.environ.get("RF_ALL") and kills >= COUNT // 2 and not busy:
			busy = [subprocess.Popen("yes", stdout=subprocess.DEVNULL) for _ in range(2)]
		loop = start("run")
		time.sleep(rng.uniform(0, took * (2 if busy else 1)))
		right, over = (0,), loop.poll() is not None
		if not over and kills < COUNT:
			right = strike(loop, rng.choice(HOW))
			kills += 1
		status = wait(loop)
		if status not in right:
			fail(f"exit status {status}, not one of {right}")
		if rng.random() < 0.5: # otherwise the next loop starts while processes are left
			gone(loop.pid)
		if status == 0:
			break
		if (now := commits("run")) < done:
			fail(f"{now} commits, where there were {done}")
		done = now
	gone(loop.pid)
	if commits("run") != BATCHES:
		fail(f"{commits('run')} commits")
	for name in ["latest/" + n for n in os.listdir("want/latest")] + ["data/words"]:
		if open(f"want/{name}", "rb").read() != open(f"run/{name}", "rb").read():
			fail(f"{name} differs")
	if open("run/seen").read() != open("run/latest/state.json").read():
		fail("--after was not run after the last batch")
print(f"{kills} kills")
