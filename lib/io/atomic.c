/* atomic.c -- one file that a program writes, as git writes its own: a temporary in the same directory,
 * fsync, rename, fsync of the directory.  A checkpoint's files and directories go their way by disk.c, with
 * the same steps. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "io/atomic.h"
#include "io/disk.h"
#include "io/doomed.h"

/* A temporary's name: at most this much of the file's own name, so that a long one has room for the rest. */
enum { NAME_PART = 200, TRIES = 100 };

static enum rf_code io_error(const struct rf_atomic *a, const char *what, struct rf_err *e)
{
	return rf_fail(e, RF_EIO, "%s: %s: %s", a->name, what, strerror(errno));
}

/* The signals that end a program wait while a file exists that is not yet doomed. */
static void hold_signals(sigset_t *old)
{
	sigset_t set;

	sigemptyset(&set);
	for (const int *sig = rf_ending; *sig; sig++)
		sigaddset(&set, *sig);
	sigprocmask(SIG_BLOCK, &set, old);
}

static enum rf_code open_temporary(struct rf_atomic *a, struct rf_err *e)
{
	const char *name = rf_disk_name(a->path);
	size_t size = strlen(a->path) + 64;
	sigset_t old;

	if (!(a->tmp = malloc(size)))
		return rf_fail(e, RF_ENOMEM, "%s: out of memory", a->name);
	for (int i = 0; i < TRIES; i++) {
		/* another name if a killed process of our number left its file */
		snprintf(a->tmp, size, "%.*s.%.*s.tmp-%ld-%d", (int)(name - a->path), a->path, NAME_PART,
		         name, (long)getpid(), i);
		hold_signals(&old);
		a->fd = open(a->tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
		if (a->fd >= 0)
			a->doomed = rf_doomed_add(a->tmp);
		sigprocmask(SIG_SETMASK, &old, NULL);
		if (a->fd >= 0)
			return RF_OK;
		if (errno != EEXIST && errno != EINTR)
			break;
	}
	return io_error(a, "cannot create a file beside it", e);
}

/* A name of one of the process's own descriptors, whatever that is open on. */
static bool is_descriptor(const char *path)
{
	return !strcmp(path, "/dev/stdout") || !strcmp(path, "/dev/stderr") ||
	       !strncmp(path, "/dev/fd/", 8) || !strncmp(path, "/proc/self/fd/", 14);
}

enum rf_code rf_atomic_open(struct rf_atomic *a, const char *path, struct rf_err *e)
{
	bool standard = !path || !strcmp(path, "-"), there;
	struct stat st;
	enum rf_code rc = RF_OK;

	*a = (struct rf_atomic){ .fd = -1, .name = "<stdout>", .doomed = -1 };
	if (standard) {
		a->fd = STDOUT_FILENO;
		return fcntl(a->fd, F_GETFD) < 0 ? io_error(a, "not open", e) : RF_OK;
	}
	rf_quote(a->name, sizeof a->name, path, strlen(path));
	if (!(a->path = strdup(path)))
		return rf_fail(e, RF_ENOMEM, "%s: out of memory", a->name);
	there = !stat(path, &st);
	if (is_descriptor(path) || (there && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))) {
		while ((a->fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC)) < 0 && errno == EINTR)
			;
		if (a->fd < 0)
			rc = io_error(a, "open", e);
	} else if (!*path || path[strlen(path) - 1] == '/' || (there && S_ISDIR(st.st_mode))) {
		rc = rf_fail(e, RF_EUSAGE, "%s: is a directory, not a file", a->name);
	} else {
		rc = open_temporary(a, e);
	}
	if (rc != RF_OK)
		rf_atomic_abandon(a);
	return rc;
}

enum rf_code rf_atomic_write(struct rf_atomic *a, const void *data, size_t n, struct rf_err *e)
{
	const char *p = data;
	struct statvfs fs;

	while (n) {
		ssize_t w = write(a->fd, p, n < 1 << 30 ? n : 1 << 30);
		if (w >= 0) {
			p += w;
			n -= (size_t)w;
		} else if (errno == EAGAIN || errno == EWOULDBLOCK) {
			poll(&(struct pollfd){ .fd = a->fd, .events = POLLOUT }, 1, -1);
		} else if ((errno == ENOSPC || errno == EDQUOT) && a->tmp && !fstatvfs(a->fd, &fs)) {
			return rf_fail(e, RF_EIO, "%s: write of %zu bytes: %s (%llu bytes free)", a->name, n,
			               strerror(errno), (unsigned long long)fs.f_bavail * fs.f_frsize);
		} else if (errno != EINTR) {
			return io_error(a, "write", e);
		}
	}
	return RF_OK;
}

enum rf_code rf_atomic_commit(struct rf_atomic *a, struct rf_err *e)
{
	enum rf_code rc = RF_OK;
	int fd = a->fd;

	if (a->tmp && rf_disk_sync(fd))
		rc = io_error(a, "fsync", e);
	a->fd = -1;
	if (close(fd) && errno != EINTR && rc == RF_OK)
		rc = io_error(a, "close", e);
	if (fd == STDOUT_FILENO)
		/* so that no later file becomes standard output */
		(void)!open("/dev/null", O_WRONLY);
	if (a->tmp && rc == RF_OK) {
		if (rename(a->tmp, a->path)) {
			rc = io_error(a, "rename", e);
		} else {
			rf_doomed_drop(a->doomed);
			free(a->tmp);
			a->tmp = NULL;
			rc = rf_disk_sync_parent(a->path, e);
		}
	}
	rf_atomic_abandon(a);
	return rc;
}

void rf_atomic_abandon(struct rf_atomic *a)
{
	if (a->fd >= 0 && a->fd != STDOUT_FILENO)
		close(a->fd);
	if (a->tmp) {
		unlink(a->tmp);
		rf_doomed_drop(a->doomed);
	}
	free(a->tmp);
	free(a->path);
	a->fd = -1;
	a->path = a->tmp = NULL;
}
