/* guard.c -- starts a rank as a child, and waits for its end. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "io/tempfile.h"
#include "ranks/guard.h"

enum { OURS = 64 }; /* the smallest exit status of our programs, apart from 0 */

/* Blocks SIGCHLD and the signals that end a program, except those that the program ignores, as it does under
 * nohup(1). */
static void block_signals(sigset_t *set, sigset_t *before)
{
	struct sigaction is;

	signal(SIGCHLD, SIG_DFL); /* if SIGCHLD is ignored, waitpid() returns no exit status */
	sigemptyset(set);
	sigaddset(set, SIGCHLD);
	for (const int *sig = rf_ending; *sig; sig++)
		if (*sig == SIGINT || *sig == SIGTERM ||
		    (!sigaction(*sig, NULL, &is) && is.sa_handler != SIG_IGN))
			sigaddset(set, *sig);
	sigprocmask(SIG_BLOCK, set, before);
}

/* Closes the standard streams in the parent, so that other programs see their end when the child ends. */
static void close_streams(void)
{
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return;
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	if (null > STDERR_FILENO)
		close(null);
}

static int wait_for_child(pid_t child, const sigset_t *set)
{
	int how = 0, sig;

	for (;;) {
		if ((sig = sigwaitinfo(set, NULL)) > 0 && sig != SIGCHLD)
			kill(child, sig);
		if (waitpid(child, &how, WNOHANG) == child)
			return WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
	}
}

enum rf_code rf_ranks_guard(const struct rf_ranks *r, int *status, struct rf_err *e)
{
	const pid_t self = getpid();
	sigset_t set, before;
	pid_t child;

	*status = -1;
	if (r->launch == RF_LAUNCH_NONE)
		return RF_OK;
	block_signals(&set, &before);
	if ((child = fork()) < 0)
		return rf_fail(e, RF_ENOMEM, "fork: %s", strerror(errno));
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != self) /* the parent died before prctl() */
			raise(SIGKILL);
		sigprocmask(SIG_SETMASK, &before, NULL);
		return RF_OK;
	}
	close_streams();
	*status = wait_for_child(child, &set);
	if (*status && *status < OURS)
		return rf_fail(e, RF_EBUSY,
		               "MPI has ended this rank, with status %d: another one is gone, or MPI says "
		               "above what it lacks",
		               *status);
	if (*status == 128 + SIGTERM)
		*status = EX_TEMPFAIL;
	return RF_OK;
}
