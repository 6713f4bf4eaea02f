/* exec.c -- a child process that answers lines with lines.
 *
 * Two programs that are joined by two pipes deadlock as soon as both pipes are full: each would sleep in its
 * write().  So the writing end here does not block, and one poll() watches both pipes.  After a command has
 * closed its input, its output is still read to the end, because its last lines or its exit status may
 * explain why. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "proc/exec.h"

struct rf_exec {
	pid_t pid;    /* the command's process and process group; 0: not started */
	int to, from; /* this end of each pipe; -1: closed */
	double timeout;
	bool deaf; /* the command closed its input */
	char *out; /* the line that is being sent, with its newline; NULL: none */
	size_t out_size, sent;
	/* bytes read: [used, filled) are not yet returned, and no byte before `scanned` is a newline */
	char *in;
	size_t used, scanned, filled, size;
	bool closed; /* the command closed its output */
	char fate[80];
};

extern char **environ;

/* ---- signals ------------------------------------------------------------------------------- */

static const int deadly[] = { SIGTERM, SIGINT, SIGHUP, SIGPIPE };
enum { DEADLY = sizeof deadly / sizeof *deadly };
static volatile pid_t group;
static struct sigaction before[DEADLY];

/* Kills the command, then lets the signal have its default effect on this process. */
static void on_signal(int sig)
{
	if (group)
		kill(-group, SIGKILL);
	for (int i = 0; i < DEADLY; i++)
		if (deadly[i] == sig)
			sigaction(sig, &before[i], NULL);
	raise(sig);
}

static void guard_command(pid_t pid)
{
	struct sigaction sa = { .sa_handler = on_signal };

	group = pid;
	for (int i = 0; i < DEADLY; i++) {
		sigaction(deadly[i], NULL, &before[i]);
		if (before[i].sa_handler != SIG_IGN)
			sigaction(deadly[i], &sa, NULL);
	}
}

static void unguard_command(void)
{
	group = 0;
	for (int i = 0; i < DEADLY; i++)
		sigaction(deadly[i], &before[i], NULL);
}

/* ---- start and end ------------------------------------------------------------------------- */

/* Makes a pipe whose ends are above the three standard descriptors, so that the child can copy them there in
 * any order.  The ends are closed in the child. */
static int pipe_above(int fd[2])
{
	int raw[2];

	if (pipe(raw))
		return -1;
	for (int i = 0; i < 2; i++)
		fd[i] = fcntl(raw[i], F_DUPFD_CLOEXEC, 3);
	close(raw[0]);
	close(raw[1]);
	return fd[0] < 0 || fd[1] < 0 ? -1 : 0;
}

static int spawn_shell(pid_t *pid, const char *command, int in, int out)
{
	char *const argv[] = { (char *)"sh", (char *)"-c", (char *)command, NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none, defaults;
	int rc;

	if ((rc = posix_spawn_file_actions_init(&files)))
		return rc;
	if ((rc = posix_spawnattr_init(&attr))) {
		posix_spawn_file_actions_destroy(&files);
		return rc;
	}
	sigemptyset(&none);
	sigemptyset(&defaults);
	sigaddset(&defaults, SIGPIPE);
	sigaddset(&defaults, SIGXFSZ);
	sigaddset(&defaults, SIGCHLD);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &defaults);
	posix_spawnattr_setpgroup(&attr, 0);
	posix_spawnattr_setflags(&attr,
	                         POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	if (!(rc = posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO)) &&
	    !(rc = posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO)))
		rc = posix_spawn(pid, "/bin/sh", &files, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	return rc;
}

enum rf_code rf_exec_start(struct rf_exec **xp, const char *command, double timeout, struct rf_err *e)
{
	struct rf_exec *x = calloc(1, sizeof *x);
	int to[2] = { -1, -1 }, from[2] = { -1, -1 }, rc = 0;
	sigset_t hold, old;

	*xp = NULL;
	if (!x)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	x->timeout = timeout;
	signal(SIGCHLD, SIG_DFL); /* if it were ignored, there would be no exit status */
	if (pipe_above(to) || pipe_above(from) || fcntl(to[1], F_SETFL, O_NONBLOCK))
		rc = errno;
	sigemptyset(&hold);
	for (int i = 0; i < DEADLY; i++)
		sigaddset(&hold, deadly[i]);
	sigprocmask(SIG_BLOCK, &hold, &old); /* until the command is guarded */
	if (!rc && !(rc = spawn_shell(&x->pid, command, to[0], from[1])))
		guard_command(x->pid);
	sigprocmask(SIG_SETMASK, &old, NULL);
	if (to[0] >= 0)
		close(to[0]);
	if (from[1] >= 0)
		close(from[1]);
	x->to = to[1];
	x->from = from[0];
	if (rc) {
		x->pid = 0;
		rf_exec_stop(x);
		return rf_fail(e, rc == ENOMEM || rc == EAGAIN ? RF_ENOMEM : RF_EIO, "/bin/sh: %s",
		               strerror(rc));
	}
	*xp = x;
	return RF_OK;
}

void rf_exec_close_input(struct rf_exec *x)
{
	if (x->to >= 0)
		close(x->to);
	x->to = -1;
}

const char *rf_exec_fate(struct rf_exec *x, double patience, bool *well)
{
	double start = rf_now();
	siginfo_t end = { .si_pid = 0 };
	int rc;

	*well = false;
	rf_exec_close_input(x);
	/* the command is not reaped here, so that its number stays valid for rf_exec_stop() */
	while ((rc = waitid(P_PID, (id_t)x->pid, &end, WEXITED | WNOHANG | WNOWAIT)) ? errno == EINTR
	                                                                             : !end.si_pid) {
		if (patience > 0 && rf_now() - start > patience)
			return strcpy(x->fate, "closed its output but did not exit");
		nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
	}
	*well = !rc && end.si_code == CLD_EXITED && !end.si_status;
	if (rc)
		snprintf(x->fate, sizeof x->fate, "cannot be waited for (%s)", strerror(errno));
	else
		snprintf(x->fate, sizeof x->fate, "%s %d",
		         end.si_code == CLD_EXITED ? "exited with status" : "was killed by signal",
		         end.si_status);
	return x->fate;
}

void rf_exec_stop(struct rf_exec *x)
{
	if (!x)
		return;
	if (x->pid) {
		kill(-x->pid, SIGKILL);
		while (waitpid(x->pid, NULL, 0) < 0 && errno == EINTR)
			continue;
		unguard_command();
	}
	rf_exec_close_input(x);
	if (x->from >= 0)
		close(x->from);
	free(x->out);
	free(x->in);
	free(x);
}

/* ---- lines --------------------------------------------------------------------------------- */

void rf_exec_send(struct rf_exec *x, char *line, size_t len)
{
	free(x->out);
	x->out = line;
	x->out[len] = '\n'; /* replaces the NUL that ends the string */
	x->out_size = len + 1;
	x->sent = 0;
}

bool rf_exec_sending(const struct rf_exec *x) { return x->out && !x->closed; }

static void finish_sending(struct rf_exec *x)
{
	free(x->out);
	x->out = NULL;
}

/* Writes as much as the pipe takes.  Returns whether any byte was written. */
static bool write_some(struct rf_exec *x)
{
	void (*old)(int) = signal(SIGPIPE, SIG_IGN); /* survive a command that has ended */
	ssize_t n = write(x->to, x->out + x->sent, x->out_size - x->sent);
	int error = errno;

	signal(SIGPIPE, old);
	if (n < 0) {
		if (error == EAGAIN || error == EINTR)
			return false;
		x->deaf = true;
		finish_sending(x);
		return true;
	}
	x->sent += (size_t)n;
	if (x->sent == x->out_size)
		finish_sending(x);
	return n > 0;
}

/* Reads the available bytes.  *moved: whether there were any. */
static enum rf_code read_some(struct rf_exec *x, bool *moved, struct rf_err *e)
{
	ssize_t n;

	if (x->used) {
		memmove(x->in, x->in + x->used, x->filled - x->used);
		x->filled -= x->used;
		x->scanned -= x->used;
		x->used = 0;
	}
	if (x->filled >= RF_EXEC_MAX_LINE)
		return rf_fail(e, RF_EDATA, "the command printed a line of more than %d MiB",
		               RF_EXEC_MAX_LINE >> 20);
	if (x->size - x->filled < 4096) { /* one byte stays free, for the NUL after a last line */
		size_t size = x->size ? 2 * x->size : 65536;
		char *in = realloc(x->in, size);

		if (!in)
			return rf_fail(e, RF_ENOMEM, "out of memory");
		x->in = in;
		x->size = size;
	}
	n = read(x->from, x->in + x->filled, x->size - x->filled - 1);
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		return rf_fail(e, RF_EIO, "read: %s", strerror(errno));
	*moved |= n >= 0;
	x->closed = n == 0;
	if (n > 0)
		x->filled += (size_t)n;
	return RF_OK;
}

/* Takes the next whole line of the bytes read.  After the end of the output, a last line without a newline
 * counts as whole. */
static bool take_line(struct rf_exec *x, const char **line, size_t *len)
{
	char *end = x->filled > x->scanned ? memchr(x->in + x->scanned, '\n', x->filled - x->scanned) : NULL;

	x->scanned = x->filled;
	if (!end && !(x->closed && x->filled > x->used))
		return false;
	if (!end)
		end = x->in + x->filled;
	*end = 0;
	*line = x->in + x->used;
	*len = (size_t)(end - *line);
	x->used += *len + (x->used + *len < x->filled);
	x->scanned = x->used;
	return true;
}

enum rf_code rf_exec_receive(struct rf_exec *x, int other, const char **line, size_t *len, struct rf_err *e)
{
	double last = rf_now(); /* time of the last byte sent or received */

	*line = NULL;
	for (;;) {
		double patience = x->deaf ? RF_EXEC_LAST_WORDS : x->timeout,
		       left = last + patience - rf_now();
		bool moved = false, alone;
		enum rf_code rc;
		int n, ms;

		if (take_line(x, line, len))
			return RF_OK;
		if (x->closed)
			return RF_EOF;
		if (x->deaf)
			finish_sending(x);
		alone = x->out || other == RF_EXEC_ALONE;
		if (alone)
			ms = patience <= 0 ? -1
			     : left <= 0   ? 0
			     : left > 3600 ? 3600000
			                   : (int)(left * 1000) + 1;
		else
			ms = other == RF_EXEC_NOW ? 0 : -1;

		struct pollfd p[3] = {
			{ .fd = x->from, .events = POLLIN },
			{ .fd = x->out ? x->to : -1, .events = POLLOUT },
			{ .fd = alone ? -1 : other, .events = POLLIN },
		};
		if ((n = poll(p, 3, ms)) < 0) {
			if (errno == EINTR)
				continue;
			return rf_fail(e, RF_EIO, "poll: %s", strerror(errno));
		}
		if (p[0].revents && (rc = read_some(x, &moved, e)) != RF_OK)
			return rc;
		if (p[1].revents)
			moved |= write_some(x);
		if (moved)
			last = rf_now();
		else if (!alone)
			return RF_OK;
		else if (n == 0 && patience > 0 && rf_now() - last >= patience)
			return x->deaf ? rf_fail(e, RF_EDATA,
			                         "the command closed its input and prints nothing more")
			               : rf_fail(e, RF_EDATA,
			                         "the command neither read nor wrote a byte for %g s "
			                         "(--timeout)",
			                         x->timeout);
	}
}
