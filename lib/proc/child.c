/* child.c -- one command at a time as a process group, and the guard; and functions that may hang.
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
#include <poll.h>
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

/* ---- a function that may hang --------------------------------------------------------------- */

enum { MOST_FILES = 256, MOST_ASIDES = 64, MOST_TEXT = 1 << 20 };

static noreturn void run_aside(void (*work)(int fd, void *arg), void *arg, int fd, pid_t parent)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (null < 0 || getppid() != parent)
		_exit(EXIT_FAILURE);
	for (int i = 0; i <= 2; i++)
		dup2(null, i);
	for (int i = 3; i < MOST_FILES; i++) /* a pipe's reader would otherwise wait for this process */
		if (i != fd)
			close(i);
	for (const int *sig = rf_ending; *sig; sig++)
		signal(*sig, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	work(fd, arg);
	_exit(EXIT_SUCCESS);
}

enum rf_code rf_aside_begin(struct rf_aside *a, void (*work)(int fd, void *arg), void *arg, struct rf_err *e)
{
	const pid_t self = getpid();
	int fd[2];

	*a = (struct rf_aside){ .fd = -1, .status = -1 };
	signal(SIGCHLD, SIG_DFL); /* if it were ignored, there would be no exit status */
	if (pipe2(fd, O_CLOEXEC) < 0)
		return rf_fail(e, RF_ENOMEM, "pipe: %s", strerror(errno));
	if ((a->pid = fork()) < 0) {
		a->pid = 0;
		close(fd[0]);
		close(fd[1]);
		return rf_fail(e, RF_ENOMEM, "fork: %s", strerror(errno));
	}
	if (!a->pid) {
		close(fd[0]);
		run_aside(work, arg, fd[1], self);
	}
	setpgid(a->pid, a->pid); /* the child calls it too: either may run first */
	close(fd[1]);
	a->fd = fd[0];
	return RF_OK;
}

static void run_program(int fd, void *arg)
{
	char *const *argv = arg;

	dup2(fd, STDOUT_FILENO);
	dup2(fd, STDERR_FILENO);
	execv(argv[0], argv);
	_exit(errno == ENOENT ? 127 : 126);
}

enum rf_code rf_aside_program(struct rf_aside *a, char *const argv[], struct rf_err *e)
{
	return rf_aside_begin(a, run_program, (void *)argv, e);
}

static void take_status(struct rf_aside *a, double until)
{
	int how;
	pid_t pid;

	while ((pid = waitpid(a->pid, &how, WNOHANG)) == 0 && rf_now() < until)
		nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
	if (pid <= 0)
		return;
	a->pid = 0;
	a->status = WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
}

/* Reads what has come.  At the end of the text it takes the exit status, which comes soon after it. */
static void read_aside(struct rf_aside *a, double until)
{
	char text[4096];
	const ssize_t n = rf_file_read_some(a->fd, text, sizeof text);

	if (n > 0)
		rf_buf_add(&a->text, text, (size_t)n);
	if (n > 0 && a->text.n < MOST_TEXT)
		return;
	close(a->fd);
	a->fd = -1;
	take_status(a, until);
}

void rf_aside_wait(struct rf_aside *a, int n, double until)
{
	for (;;) {
		struct pollfd open_ones[MOST_ASIDES];
		const double left = fmax(until - rf_now(), 0);
		int owner[MOST_ASIDES], m = 0, ready;

		for (int i = 0; i < n && m < MOST_ASIDES; i++)
			if (a[i].fd >= 0) {
				owner[m] = i;
				open_ones[m++] = (struct pollfd){ .fd = a[i].fd, .events = POLLIN };
			}
		if (!m)
			return;
		ready = poll(open_ones, (nfds_t)m, (int)ceil(left * 1e3));
		if (ready < 0 ? errno != EINTR : !ready && left == 0)
			return;
		for (int i = 0; i < m && ready > 0; i++)
			if (open_ones[i].revents)
				read_aside(&a[owner[i]], until);
	}
}

void rf_aside_end(struct rf_aside *a)
{
	if (a->fd >= 0)
		close(a->fd);
	a->fd = -1;
	if (a->pid) {
		kill(-a->pid, SIGKILL);
		waitpid(a->pid, NULL, WNOHANG);
	}
	a->pid = 0;
	rf_buf_free(&a->text);
}
