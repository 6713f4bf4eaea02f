/* child.c -- one command at a time as a process group, and the guard.
 *
 * While a command runs, every event that we wait for is a signal, and all these signals are blocked until
 * sigtimedwait() takes them.  So none is lost, and none interrupts code that is not prepared for it.
 * Processes of the command that lose their parent become our children (PR_SET_CHILD_SUBREAPER), so that we
 * see when the whole group has ended.
 *
 * We may be killed at any instruction, also between starting a command and noting its process group for the
 * guard.  Therefore the command's own first process writes the group where the guard reads it, and continues
 * only if we are still alive after that. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdnoreturn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "io/file.h"
#include "proc/child.h"

static const struct timespec look = { .tv_nsec = 200000000 }; /* how often the guard does */

bool rf_child_seen(pid_t pid, char *state, unsigned long long *began)
{
	char path[40], text[1000], *p;
	ssize_t n;
	int fd;

	snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
	if ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
		return false;
	n = rf_file_read_some(fd, text, sizeof text - 1);
	close(fd);
	text[n < 0 ? 0 : n] = 0;
	/* its name may hold anything, but comes before */
	if (!(p = strrchr(text, ')')) || sscanf(p, ") %c", state) != 1)
		return false;
	for (int field = 2; field < 22; field++)
		if (!(p = strchr(p + 1, ' ')))
			return false;
	*began = strtoull(p, NULL, 10);
	return true;
}

static void tell(const struct rf_child *c, int sig)
{
	pid_t group = *c->group; /* once: it may become 0 meanwhile, which would mean our own */

	if (group)
		kill(-group, sig);
}

/* What is stopped cannot end, so it is continued behind the signal. */
static void end(const struct rf_child *c, int sig)
{
	tell(c, sig);
	tell(c, SIGCONT);
}

/* ---- the guard ----------------------------------------------------------------------------- */

static bool stopped(pid_t pid)
{
	unsigned long long began;
	char state;

	return rf_child_seen(pid, &state, &began) && state == 'T';
}

/* SIGUSR1 says that our parent has died; that it has is seen by getppid(). */
static noreturn void guard(const struct rf_child *c)
{
	static const int deaf[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU, SIGPIPE };
	bool held = false;
	sigset_t death;

	for (size_t i = 0; i < sizeof deaf / sizeof *deaf; i++)
		signal(deaf[i], SIG_IGN);
	setpgid(0, 0);
	sigemptyset(&death);
	sigaddset(&death, SIGUSR1);
	sigprocmask(SIG_SETMASK, &death, NULL);
	prctl(PR_SET_PDEATHSIG, SIGUSR1);
	while (getppid() == c->self) {
		bool hold = stopped(c->self);

		if (hold) /* again each time: a command may just have begun */
			tell(c, SIGSTOP);
		else if (held)
			tell(c, SIGCONT);
		held = hold;
		sigtimedwait(&death, NULL, &look);
	}
	end(c, SIGTERM);
	_exit(0);
}

/* ---- begin and end ------------------------------------------------------------------------- */

static void block_signals(struct rf_child *c)
{
	struct sigaction hup;

	signal(SIGCHLD, SIG_DFL); /* where a parent ignored it, there would be no exit status */
	sigemptyset(&c->ends);
	sigaddset(&c->ends, SIGINT);
	sigaddset(&c->ends, SIGTERM);
	if (!sigaction(SIGHUP, NULL, &hup) && hup.sa_handler != SIG_IGN)
		sigaddset(&c->ends, SIGHUP);
	c->all = c->ends;
	sigaddset(&c->all, SIGCHLD);
	sigprocmask(SIG_BLOCK, &c->all, &c->before);
}

enum rf_code rf_child_open(struct rf_child *c, struct rf_err *e)
{
	*c = (struct rf_child){ .self = getpid() };
	block_signals(c);
	c->group = mmap(NULL, sizeof *c->group, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (c->group == MAP_FAILED)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if ((c->guard = fork()) < 0)
		return rf_fail(e, RF_ENOMEM, "fork: %s", strerror(errno));
	if (!c->guard)
		guard(c);
	return RF_OK;
}

void rf_child_close(struct rf_child *c)
{
	if (c->guard)
		kill(c->guard, SIGKILL);
	while (c->guard && waitpid(c->guard, NULL, 0) < 0 && errno == EINTR)
		;
	munmap(c->group, sizeof *c->group);
}

/* ---- a command ----------------------------------------------------------------------------- */

static noreturn void become(const struct rf_child *c, char *const argv[])
{
	static const int handled[] = { SIGINT, SIGTERM, SIGXFSZ, SIGPIPE };
	int null;

	setpgid(0, 0);
	*c->group = getpid();
	if (getppid() != c->self)
		_exit(EXIT_FAILURE); /* nobody is left to wait for it */
	for (size_t i = 0; i < sizeof handled / sizeof *handled; i++)
		signal(handled[i], SIG_DFL);
	/* its messages are written, though it is in the background of the terminal */
	signal(SIGTTOU, SIG_IGN);
	if (sigismember(&c->ends, SIGHUP))
		signal(SIGHUP, SIG_DFL);
	if ((null = open("/dev/null", O_RDONLY)) > STDIN_FILENO) {
		dup2(null, STDIN_FILENO);
		close(null);
	}
	sigprocmask(SIG_SETMASK, &c->before, NULL);
	execvp(argv[0], argv);
	_exit(errno == ENOENT ? 127 : 126);
}

/* Ends the group when the first signal comes; make(1) hands on one that we had already, so only a later one
 * kills. */
static void interrupt(struct rf_child *c, int sig)
{
	if (!c->signal) {
		c->signal = sig;
		c->since = rf_now();
		end(c, SIGTERM);
	} else if (rf_now() - c->since >= 1) {
		tell(c, SIGKILL);
	}
}

/* It wants to read the terminal and may not: so it would stay for ever. */
static void refuse(struct rf_child *c)
{
	if (!c->asked)
		end(c, SIGTERM);
	c->asked = true;
}

/* Takes the dead; whether the command's first process is among them.  Of the guard, if somebody killed it,
 * the number is forgotten, since another process may get it. */
static bool reap(struct rf_child *c, pid_t first, int *status)
{
	bool dead = false;
	pid_t pid;
	int how;

	while ((pid = waitpid(-1, &how, WNOHANG | WUNTRACED)) > 0 || (pid < 0 && errno == EINTR))
		if (WIFSTOPPED(how)) {
			if (WSTOPSIG(how) == SIGTTIN)
				refuse(c);
		} else if (pid == c->guard) {
			c->guard = 0;
		} else if (pid == first) {
			dead = true;
			*status = WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
		}
	return dead;
}

static bool alive(pid_t group)
{
	return !kill(-group, 0) || errno == EPERM;
}

/* A process that nobody tells us of, since its parent lives in another group, is asked for once a second. */
static void wait_for(struct rf_child *c, pid_t first, int *status)
{
	static const struct timespec second = { .tv_sec = 1 };
	double ticked = rf_now();
	bool dead = false;

	while (!dead || alive(first)) {
		int sig = sigtimedwait(&c->all, NULL, dead || c->tick ? &second : NULL);

		if (sig > 0 && sig != SIGCHLD)
			interrupt(c, sig);
		if (reap(c, first, status))
			dead = true;
		if (c->tick && rf_now() - ticked >= 1) {
			ticked = rf_now();
			c->tick(c->arg);
		}
	}
}

enum rf_code rf_child_run(struct rf_child *c, char *const argv[], int *status, struct rf_err *e)
{
	pid_t pid;

	*status = 0;
	c->asked = false;
	if (rf_child_pause(c, 0))
		return RF_OK;
	if ((pid = fork()) < 0)
		return rf_fail(e, RF_ENOMEM, "fork: %s", strerror(errno));
	if (!pid)
		become(c, argv);
	setpgid(pid, pid); /* as it does itself: whoever comes first */
	*c->group = pid;
	wait_for(c, pid, status);
	*c->group = 0;
	return RF_OK;
}

bool rf_child_pause(struct rf_child *c, double seconds)
{
	double whole = floor(seconds);
	struct timespec t = { .tv_sec = (time_t)whole, .tv_nsec = (long)((seconds - whole) * 1e9) };
	int sig = 0;

	while (!c->signal && (sig = sigtimedwait(&c->ends, NULL, &t)) < 0 && errno == EINTR)
		;
	if (!c->signal && sig > 0)
		interrupt(c, sig);
	return c->signal;
}
