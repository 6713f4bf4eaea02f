/* child.c -- one command at a time as a process group, and the guard.
 *
 * While a command runs, this process waits only for signals.  They are blocked until sigtimedwait() takes
 * them, so no signal is lost and none interrupts code that is not prepared for it.  Processes of the command
 * that lose their parent become children of this process (PR_SET_CHILD_SUBREAPER), so that it notices when
 * the whole group has ended.
 *
 * This process may be killed at any instruction, also after starting a command and before recording its
 * process group for the guard.  Therefore the command's first process writes the group to the memory that
 * the guard reads, and continues only if this process is still alive after that. */
#define _GNU_SOURCE
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
#include "io/tempfile.h"
#include "proc/child.h"

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
	/* the process's name may contain any byte; the fields that are read come after its last ')' */
	if (!(p = strrchr(text, ')')) || sscanf(p, ") %c", state) != 1)
		return false;
	for (int field = 2; field < 22; field++)
		if (!(p = strchr(p + 1, ' ')))
			return false;
	*began = strtoull(p, NULL, 10);
	return true;
}

static void send_signal(const struct rf_child *c, int sig)
{
	pid_t group = *c->group; /* read once: it may become 0 meanwhile, and kill(0) is for our own group */

	if (group)
		kill(-group, sig);
}

/* Sends the group a signal that ends it, and continues it: a stopped process cannot end. */
static void end_group(const struct rf_child *c, int sig)
{
	send_signal(c, sig);
	send_signal(c, SIGCONT);
}

/* ---- the guard ----------------------------------------------------------------------------- */

/* Runs the guard.  SIGUSR1 arrives when the parent has died; getppid() confirms the death. */
static noreturn void run_guard(const struct rf_child *c)
{
	static const int deaf[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU, SIGPIPE };
	sigset_t death;

	for (size_t i = 0; i < sizeof deaf / sizeof *deaf; i++)
		signal(deaf[i], SIG_IGN);
	setpgid(0, 0);
	sigemptyset(&death);
	sigaddset(&death, SIGUSR1);
	sigprocmask(SIG_SETMASK, &death, NULL);
	prctl(PR_SET_PDEATHSIG, SIGUSR1);
	while (getppid() == c->self)
		sigwaitinfo(&death, NULL);
	end_group(c, SIGTERM);
	_exit(0);
}

/* ---- begin and end ------------------------------------------------------------------------- */

static void block_signals(struct rf_child *c)
{
	struct sigaction old;

	signal(SIGCHLD, SIG_DFL); /* if it were ignored, there would be no exit status */
	sigemptyset(&c->ends);
	sigaddset(&c->ends, SIGINT);
	sigaddset(&c->ends, SIGTERM);
	if (!sigaction(SIGHUP, NULL, &old) && old.sa_handler != SIG_IGN)
		sigaddset(&c->ends, SIGHUP);
	c->users = c->ends;
	if (!sigaction(SIGTSTP, NULL, &old) && old.sa_handler != SIG_IGN)
		sigaddset(&c->users, SIGTSTP);
	c->all = c->users;
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
		run_guard(c);
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

static noreturn void run_command(const struct rf_child *c, char *const argv[])
{
	static const int handled[] = { SIGINT, SIGTERM, SIGXFSZ, SIGPIPE };
	int null;

	setpgid(0, 0);
	*c->group = getpid();
	if (getppid() != c->self)
		_exit(EXIT_FAILURE); /* the parent is gone */
	for (size_t i = 0; i < sizeof handled / sizeof *handled; i++)
		signal(handled[i], SIG_DFL);
	/* let the command write messages although it is in the terminal's background */
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

/* Ends the group by SIGTERM at the first signal, and kills it at a second one.  make(1) sends a second copy
 * of the first signal at almost the same time, so a signal counts as a second one only after a second. */
static void end_on_signal(struct rf_child *c, int sig)
{
	if (!c->signal) {
		c->signal = sig;
		c->since = rf_now();
		end_group(c, SIGTERM);
	} else if (rf_now() - c->since >= 1) {
		send_signal(c, SIGKILL);
	}
}

/* Stops the group and this process.  Continues the group when this process is continued. */
static void stop_with_group(const struct rf_child *c)
{
	send_signal(c, SIGSTOP);
	kill(c->self, SIGSTOP);
	send_signal(c, SIGCONT);
}

/* Acts on a signal that a user or a program sent. */
static void obey_signal(struct rf_child *c, int sig)
{
	if (sig == SIGTSTP)
		stop_with_group(c);
	else
		end_on_signal(c, sig);
}

/* Ends a command that wants to read the terminal: it may not, and would stay stopped forever. */
static void refuse_terminal(struct rf_child *c)
{
	if (!c->asked)
		end_group(c, SIGTERM);
	c->asked = true;
}

/* Reaps children that have ended.  Returns whether the command's first process is among them.  If the guard
 * was killed, its process number is forgotten, since another process may get it. */
static bool reap_children(struct rf_child *c, pid_t first, int *status)
{
	bool dead = false;
	pid_t pid;
	int how;

	while ((pid = waitpid(-1, &how, WNOHANG | WUNTRACED)) > 0 || (pid < 0 && errno == EINTR))
		if (WIFSTOPPED(how)) {
			if (WSTOPSIG(how) == SIGTTIN)
				refuse_terminal(c);
		} else if (pid == c->guard) {
			c->guard = 0;
		} else if (pid == first) {
			dead = true;
			*status = WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
		}
	return dead;
}

static bool group_is_alive(pid_t group) { return !kill(-group, 0) || errno == EPERM; }

/* Waits until the whole group has ended.  No signal arrives for a process whose parent lives in another
 * group, so the group is checked once a second, too. */
static void wait_for_group(struct rf_child *c, pid_t first, int *status)
{
	static const struct timespec second = { .tv_sec = 1 };
	double ticked = rf_now();
	bool dead = false;

	while (!dead || group_is_alive(first)) {
		int sig = sigtimedwait(&c->all, NULL, dead || c->tick ? &second : NULL);

		if (sig > 0 && sig != SIGCHLD)
			obey_signal(c, sig);
		if (reap_children(c, first, status))
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
		run_command(c, argv);
	setpgid(pid, pid); /* the child calls it too: either may run first */
	*c->group = pid;
	wait_for_group(c, pid, status);
	*c->group = 0;
	return RF_OK;
}

bool rf_child_pause(struct rf_child *c, double seconds)
{
	double whole = floor(seconds);
	struct timespec t = { .tv_sec = (time_t)whole, .tv_nsec = (long)((seconds - whole) * 1e9) };
	int sig;

	while (!c->signal && ((sig = sigtimedwait(&c->users, NULL, &t)) > 0 || errno == EINTR))
		if (sig > 0)
			obey_signal(c, sig);
	return c->signal;
}
