/* aside.c -- functions and programs that may hang, in processes that this process waits for a limited time. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <stdnoreturn.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "io/file.h"
#include "io/tempfile.h"
#include "proc/aside.h"

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
