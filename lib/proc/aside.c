/* aside.c -- functions and programs that may hang, in processes that are waited for a limited time. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <stdnoreturn.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "io/file.h"
#include "io/tempfile.h"
#include "proc/aside.h"

enum { MOST_FILES = 65536, MOST_ASIDES = 64, MOST_TEXT = 1 << 20 };

/* Whether this process is itself one of these processes.  Those that it starts then join its process group,
 * so that they end with it. */
static bool nested;
/* The process groups that a signal must end; 0: an unused place. */
static volatile sig_atomic_t groups[MOST_ASIDES];

static void change_groups(pid_t from, pid_t to)
{
	for (int i = 0; i < MOST_ASIDES; i++)
		if (groups[i] == from) {
			groups[i] = to;
			return;
		}
}

static void end_groups(int sig)
{
	for (int i = 0; i < MOST_ASIDES; i++)
		if (groups[i])
			kill(-(pid_t)groups[i], SIGKILL);
	signal(sig, SIG_DFL);
	raise(sig);
}

void rf_aside_catch(void)
{
	struct sigaction sa = { .sa_handler = end_groups }, old;

	for (const int *sig = rf_ending; *sig; sig++)
		if (sigaction(*sig, NULL, &old) == 0 && old.sa_handler != SIG_IGN) /* nohup(1) */
			sigaction(*sig, &sa, NULL);
}

/* Closes the files from first to last. */
static void close_files(unsigned first, unsigned last)
{
#ifdef SYS_close_range
	if (first > last || syscall(SYS_close_range, first, last, 0) == 0)
		return;
#endif
	for (unsigned i = first; i <= last && i < MOST_FILES; i++)
		close((int)i);
}

static noreturn void run_aside(void (*work)(int fd, void *arg), void *arg, int fd, pid_t parent)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;

	if (!nested)
		setpgid(0, 0);
	nested = true;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (null < 0 || getppid() != parent)
		_exit(EXIT_FAILURE);
	for (int i = 0; i <= 2; i++)
		dup2(null, i);
	/* the reader of a pipe would otherwise wait for this process */
	close_files(3, (unsigned)fd - 1);
	close_files((unsigned)fd + 1, ~0u);
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
	sigset_t all, before;
	int fd[2], error;

	*a = (struct rf_aside){ .fd = -1, .status = -1 };
	signal(SIGCHLD, SIG_DFL); /* if it were ignored, there would be no exit status */
	if (pipe2(fd, O_CLOEXEC) < 0)
		return rf_fail(e, RF_ENOMEM, "pipe: %s", strerror(errno));
	sigfillset(&all); /* until the group is listed */
	sigprocmask(SIG_BLOCK, &all, &before);
	if (!(a->pid = fork())) {
		close(fd[0]);
		run_aside(work, arg, fd[1], self);
	}
	error = errno;
	if (a->pid > 0 && !nested) {
		setpgid(a->pid, a->pid); /* the child calls it too: either may run first */
		change_groups(0, a->pid);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	close(fd[1]);
	if (a->pid < 0) {
		a->pid = 0;
		close(fd[0]);
		return rf_fail(e, RF_ENOMEM, "fork: %s", strerror(error));
	}
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

/* Notes the exit status.  The process stays a zombie until rf_aside_end(), so that no other process can get
 * the number of its group. */
static void take_status(struct rf_aside *a, double until)
{
	siginfo_t how = { 0 };
	int failed;

	while (!(failed = waitid(P_PID, (id_t)a->pid, &how, WEXITED | WNOHANG | WNOWAIT)) && !how.si_pid &&
	       rf_now() < until)
		nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
	if (!failed && how.si_pid)
		a->status = how.si_code == CLD_EXITED ? how.si_status : 128 + how.si_status;
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
		kill(nested ? a->pid : -a->pid, SIGKILL);
		if (!nested)
			change_groups(a->pid, 0);
		waitpid(a->pid, NULL, WNOHANG);
	}
	a->pid = 0;
	rf_buf_free(&a->text);
}
