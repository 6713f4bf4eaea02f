"""kill-phase.py COUNT SEED WANT FUNCTION WORD...: runs a phase, which is a function of the shell, and kills
it COUNT times at random moments.  Whenever the phase finishes, its steps and answers must equal those of
WANT, a run that was never killed; then the phase starts again from the beginning.
TOOK in the environment: about how many microseconds a run takes; a run that was not killed corrects it."""

import filecmp, os, random, shutil, signal, subprocess, sys, time

COUNT, SEED, WANT, FUNCTION = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]
LIMIT = 60


def start():
	line = " ".join(FUNCTION) + " RUN=killed"
	return subprocess.Popen(["bash", "-c", line], stdout=open("out", "w"), stderr=subprocess.STDOUT,
	                        start_new_session=True)


def fail(what):
	sys.exit(f"kill {kills} of {COUNT}, seed {SEED}: {what}\n" + open("out").read())


def session_of(process):
	try:
		return os.getsid(int(process))
	except OSError:
		return None


def gone(session):
	"""Waits until all processes of a session have ended."""
	until = time.monotonic() + LIMIT
	while any(session_of(entry) == session for entry in os.listdir("/proc") if entry.isdigit()):
		if time.monotonic() > until:
			fail("processes live on")
		time.sleep(0.01)


def end(child):
	how = ["all", "group", "term"][kills % 3]
	if how == "all":
		subprocess.run(["pkill", "-KILL", "-s", str(child.pid)])
	elif how == "group":
		os.killpg(child.pid, signal.SIGKILL)
	else:
		os.killpg(child.pid, signal.SIGTERM)


def compare():
	newest = [os.path.basename(os.readlink(f"{run}/latest")) for run in (WANT, "killed")]
	if newest[0] != newest[1]:
		fail(f"{newest[1]} in the place of {newest[0]}")
	for folder in ("latest", "answers"):
		if not os.path.isdir(f"{WANT}/{folder}"):
			continue
		names = sorted(os.listdir(f"{WANT}/{folder}"))
		if names != sorted(os.listdir(f"killed/{folder}")):
			fail(f"other files in {folder}: {os.listdir('killed/' + folder)}")
		_, differ, lost = filecmp.cmpfiles(f"{WANT}/{folder}", f"killed/{folder}", names,
		                                   shallow=False)
		if differ or lost:
			fail(f"{folder}: {differ + lost}")
	left = [name for name in os.listdir("killed") if ".tmp-" in name]
	if left:
		fail(f"left behind: {left}")


kills, rng = 0, random.Random(SEED)
took = int(os.environ["TOOK"]) / 1e6
shutil.rmtree("killed", ignore_errors=True)
while kills < COUNT:
	fresh, began = not os.path.exists("killed"), time.monotonic()
	child = start()
	try:
		status = child.wait(rng.uniform(0, took))
	except subprocess.TimeoutExpired:
		end(child)
		kills += 1
		child.wait()
		gone(child.pid)
		continue
	if status:
		fail(f"status {status}")
	if fresh:
		took = time.monotonic() - began
	compare()
	shutil.rmtree("killed")
if start().wait() != 0:
	fail("it does not go on")
compare()
print(f"{COUNT} kills")
