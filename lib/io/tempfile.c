/* tempfile.c -- files that appear whole or not at all.  A table lists the temporary files that a signal
 * handler must remove.  The handler may interrupt us anywhere, so an entry is armed by a single store after
 * its path is complete, and disarmed by a single store before its path changes. */
#define _GNU_SOURCE /* renameat2 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <xxhash.h>

#include "io/file.h"
#include "io/tempfile.h"

/* Bytes of the file's own name in a temporary name, so that the parts around it fit for a long name, too. */
enum { NAME_PART = 200, TRIES = 1000, BLOCK = 1 << 20 };

const int rf_ending[] = {
	SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGXCPU, 0
};

static struct {
	char path[4096];
	volatile sig_atomic_t armed;
} places[RF_TEMPFILES];

/* Puts path into the table.  Returns its index; -1: the table is full. */
static int list_path(const char *path)
{
	for (int i = 0; i < RF_TEMPFILES; i++)
		if (!places[i].armed) {
			strcpy(places[i].path, path);
			atomic_signal_fence(memory_order_release);
			places[i].armed = 1;
			return i;
		}
	return -1;
}

static void unlist(struct rf_tempfile *f)
{
	if (f->place >= 0)
		places[f->place].armed = 0;
	f->place = -1;
	*f->at = 0;
	XXH64_freeState(f->hash);
	f->hash = NULL;
}

void rf_tempfile_unlink(void)
{
	for (int i = 0; i < RF_TEMPFILES; i++)
		if (places[i].armed)
			unlink(places[i].path);
}

static enum rf_code io_error(const struct rf_tempfile *f, const char *what, struct rf_err *e)
{
	return rf_fail(e, RF_EIO, "%s: %s: %s", f->name, what, strerror(errno));
}

static enum rf_code check_stop(const volatile sig_atomic_t *stop, const char *name, struct rf_err *e)
{
	return stop && *stop ? rf_fail(e, RF_EIO, "%s: interrupted", name) : RF_OK;
}

/* ---- opening ------------------------------------------------------------------------------- */

/* Creates a file that must not exist. */
static int open_new(const char *path)
{
	int fd;

	do
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
	while (fd < 0 && errno == EINTR);
	return fd;
}

/* Blocks the signals that end a program, while a temporary file exists that is not in the table yet. */
static void hold_signals(sigset_t *old)
{
	sigset_t set;

	sigemptyset(&set);
	for (const int *sig = rf_ending; *sig; sig++)
		sigaddset(&set, *sig);
	sigprocmask(SIG_BLOCK, &set, old);
}

static enum rf_code open_temporary(struct rf_tempfile *f, const char *path, struct rf_err *e)
{
	enum rf_code rc;
	sigset_t old;

	strcpy(f->to, path);
	do {
		if ((rc = rf_tempfile_name(f->at, path, e)) != RF_OK)
			break;
		hold_signals(&old);
		if ((f->fd = open_new(f->at)) >= 0)
			f->place = list_path(f->at);
		sigprocmask(SIG_SETMASK, &old, NULL);
		if (f->fd >= 0)
			return RF_OK;
	} while (errno == EEXIST);
	*f->at = 0;
	return rc == RF_OK ? io_error(f, "cannot create a temporary file beside it", e) : rc;
}

/* Returns whether path names one of the process's own descriptors. */
static bool is_descriptor(const char *path)
{
	return !strcmp(path, "/dev/stdout") || !strcmp(path, "/dev/stderr") ||
	       !strncmp(path, "/dev/fd/", 8) || !strncmp(path, "/proc/self/fd/", 14);
}

enum rf_code rf_tempfile_open(struct rf_tempfile *f, const char *path, const volatile sig_atomic_t *stop,
                              struct rf_err *e)
{
	struct stat st;
	bool there;

	*f = (struct rf_tempfile){ .fd = -1, .name = "<stdout>", .place = -1, .stop = stop };
	if (!path || !strcmp(path, "-")) {
		f->fd = STDOUT_FILENO;
		return fcntl(f->fd, F_GETFD) < 0 ? io_error(f, "not open", e) : RF_OK;
	}
	rf_quote(f->name, 200, path, strlen(path));
	if (strlen(path) >= sizeof f->to)
		return rf_fail(e, RF_EIO, "%s: the path is too long", f->name);
	there = !stat(path, &st);
	if (is_descriptor(path) || (there && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))) {
		while ((f->fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC)) < 0 && errno == EINTR)
			;
		return f->fd < 0 ? io_error(f, "open", e) : RF_OK;
	}
	if (!*path || path[strlen(path) - 1] == '/' || (there && S_ISDIR(st.st_mode)))
		return rf_fail(e, RF_EUSAGE, "%s: is a directory, not a file", f->name);
	return open_temporary(f, path, e);
}

enum rf_code rf_tempfile_create(struct rf_tempfile *f, const char *path, const volatile sig_atomic_t *stop,
                                struct rf_err *e)
{
	*f = (struct rf_tempfile){ .fd = -1, .place = -1, .stop = stop };
	if (strlen(path) >= sizeof f->at)
		return rf_fail(e, RF_EIO, "%s: the path is too long", path);
	strcpy(f->name, path);
	if (!(f->hash = XXH64_createState()))
		return rf_fail(e, RF_ENOMEM, "%s: out of memory", path);
	XXH64_reset(f->hash, 0);
	if ((f->fd = open_new(path)) < 0) {
		io_error(f, "create", e);
		unlist(f);
		return RF_EIO;
	}
	strcpy(f->at, path);
	return RF_OK;
}

/* ---- writing ------------------------------------------------------------------------------- */

enum rf_code rf_tempfile_write(struct rf_tempfile *f, const void *data, size_t n, struct rf_err *e)
{
	const size_t most = f->stop || f->hash ? BLOCK : 1 << 30;
	const char *p = data;
	struct statvfs fs;
	enum rf_code rc;

	while (n) {
		if ((rc = check_stop(f->stop, f->name, e)) != RF_OK)
			return rc;
		ssize_t w = write(f->fd, p, n < most ? n : most);
		if (w >= 0) {
			if (f->hash)
				XXH64_update(f->hash, p, (size_t)w);
			p += w;
			n -= (size_t)w;
			f->size += (uint64_t)w;
		} else if (errno == EAGAIN || errno == EWOULDBLOCK) {
			poll(&(struct pollfd){ .fd = f->fd, .events = POLLOUT }, 1, -1);
		} else if ((errno == ENOSPC || errno == EDQUOT) && *f->to && !fstatvfs(f->fd, &fs)) {
			return rf_fail(e, RF_EIO, "%s: write of %zu bytes: %s (%llu bytes free)", f->name, n,
			               strerror(errno), (unsigned long long)fs.f_bavail * fs.f_frsize);
		} else if (errno != EINTR) {
			return io_error(f, "write", e);
		}
	}
	return RF_OK;
}

enum rf_code rf_tempfile_commit(struct rf_tempfile *f, char hex[17], struct rf_err *e)
{
	enum rf_code rc = RF_OK;
	int fd = f->fd;

	if (*f->at && rf_file_sync(fd))
		rc = io_error(f, "sync", e);
	f->fd = -1;
	if (close(fd) && errno != EINTR && rc == RF_OK)
		rc = io_error(f, "close", e);
	if (fd == STDOUT_FILENO)
		/* keep descriptor 1 in use, so that no file opened later becomes standard output */
		(void)!open("/dev/null", O_WRONLY);
	if (rc != RF_OK) {
		rf_tempfile_abandon(f);
		return rc;
	}
	if (*f->to && *f->at)
		rc = rf_tempfile_publish(f->at, f->to, f->stop, e);
	if (hex)
		snprintf(hex, 17, "%016llx", (unsigned long long)XXH64_digest(f->hash));
	unlist(f);
	return rc;
}

void rf_tempfile_abandon(struct rf_tempfile *f)
{
	if (f->fd >= 0 && f->fd != STDOUT_FILENO)
		close(f->fd);
	f->fd = -1;
	if (*f->at)
		unlink(f->at);
	unlist(f);
}

enum rf_code rf_tempfile_save(const struct rf_buf *text, const char *path, struct rf_err *e)
{
	struct rf_tempfile f;
	enum rf_code rc;

	if (text->failed)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	if ((rc = rf_tempfile_open(&f, path, NULL, e)) != RF_OK)
		return rc;
	if ((rc = rf_tempfile_write(&f, text->p, text->n, e)) == RF_OK)
		return rf_tempfile_commit(&f, NULL, e);
	rf_tempfile_abandon(&f);
	return rc;
}

/* ---- names --------------------------------------------------------------------------------- */

enum rf_code rf_tempfile_name(char temp[4096], const char *path, struct rf_err *e)
{
	size_t name, n = rf_file_split(path, &name);
	int part = n - name < NAME_PART ? (int)(n - name) : NAME_PART;
	char again[16] = "";
	struct stat st;

	if (n == name || !strcmp(path + name, ".") || !strcmp(path + name, ".."))
		return rf_fail(e, RF_EUSAGE, "'%s' does not end in the name of something new", path);
	/* process numbers are reused, in a container soon, and a killed process leaves its file */
	for (int i = 1; i < TRIES; i++) {
		if (snprintf(temp, 4096, "%.*s.%.*s.tmp-%ld%s", (int)name, path, part, path + name,
		             (long)getpid(), again) >= 4096)
			return rf_fail(e, RF_EUSAGE, "%.100s...: the path is too long", path);
		if (lstat(temp, &st) < 0)
			return RF_OK;
		snprintf(again, sizeof again, "-%d", i);
	}
	return rf_fail(e, RF_EIO,
	               "%s: this and a thousand other temporary names exist already: remove these leftovers",
	               temp);
}

enum rf_code rf_tempfile_publish(const char *temp, const char *path, const volatile sig_atomic_t *stop,
                                 struct rf_err *e)
{
	enum rf_code rc = check_stop(stop, path, e);

	if (rc == RF_OK && rename(temp, path) < 0)
		rc = rf_fail(e, RF_EIO, "%s: rename: %s", path, strerror(errno));
	if (rc != RF_OK) {
		rf_file_remove(temp, NULL);
		return rc;
	}
	if ((rc = rf_file_sync_parent(path, e)) != RF_OK)
		rf_blame(e, "%s was written but may not survive a power loss", path);
	return rc;
}

/* Exchanges the entries at temp and path. */
static int exchange_names(const char *temp, const char *path)
{
	char aside[4096];
	int error;

	if (renameat2(AT_FDCWD, temp, AT_FDCWD, path, RENAME_EXCHANGE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS) /* the file system cannot exchange two entries */
		return -1;
	if (rf_tempfile_name(aside, path, NULL) != RF_OK) {
		errno = EEXIST;
		return -1;
	}
	if (rename(path, aside) < 0)
		return -1;
	if (rename(temp, path) == 0)
		return rename(aside, temp);
	error = errno;
	if (rename(aside, path) < 0)
		return -1;
	errno = error;
	return -1;
}

enum rf_code rf_tempfile_exchange(const char *temp, const char *path, const volatile sig_atomic_t *stop,
                                  struct rf_err *e)
{
	enum rf_code rc = check_stop(stop, path, e);

	if (rc == RF_OK && exchange_names(temp, path) < 0)
		rc = rf_fail(e, RF_EIO, "%s: rename: %s", path, strerror(errno));
	if (rc != RF_OK) {
		rf_file_remove(temp, NULL);
		return rc;
	}
	if ((rc = rf_file_sync_parent(path, e)) != RF_OK)
		rf_blame(e, "%s was written but may not survive a power loss", path);
	return rc;
}

static int by_temporary(const struct dirent *d) { return *d->d_name == '.' && strstr(d->d_name, ".tmp-"); }

enum rf_code rf_tempfile_sweep(const char *dir, bool (*ours)(const char *name), struct rf_err *e)
{
	char path[4096];
	struct dirent **list;
	enum rf_code rc = RF_OK;
	int n = scandir(dir, &list, by_temporary, alphasort);

	if (n < 0)
		return rf_fail(e, RF_EIO, "%s: %s", dir, strerror(errno));
	for (int i = 0; i < n; i++) {
		if (rc == RF_OK && (!ours || ours(list[i]->d_name + 1)) &&
		    (rc = rf_file_join(path, dir, list[i]->d_name, e)) == RF_OK)
			rc = rf_file_remove(path, e);
		free(list[i]);
	}
	free(list);
	return rc;
}
