/* file.c -- file operations that handle EINTR, short reads and writes, and syncing.  Files are read with
 * pread(2) and not through a mapping, so that a file which another program cuts short causes an error and not
 * a SIGBUS. */
#define _GNU_SOURCE /* memrchr */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <xxhash.h>

#include "io/file.h"
#include "io/jscan.h"

enum { BLOCK = 1 << 20 };

/* Returns a noun phrase for a file of this mode, such as "a FIFO". */
static const char *kind_of(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFDIR: return "a folder";
	case S_IFIFO: return "a FIFO";
	case S_IFSOCK: return "a socket";
	case S_IFCHR:
	case S_IFBLK: return "a device";
	default: return "a special file";
	}
}

static enum rf_code not_regular(const char *path, mode_t mode, struct rf_err *e)
{
	return rf_fail(e, RF_EMODEL, "%s: %s, not a regular file", path, kind_of(mode));
}

/* Names the reason why an entry cannot be opened or inspected; error: errno of the attempt. */
static enum rf_code no_entry(const char *path, int error, struct rf_err *e)
{
	struct stat st;

	if (error == ELOOP)
		return rf_fail(e, RF_EMODEL, "%s: a symbolic link that leads to itself", path);
	if (error == ENOENT && !lstat(path, &st) && S_ISLNK(st.st_mode))
		return rf_fail(e, RF_EMODEL,
		               "%s: a symbolic link to a file that does not exist (remove the "
		               "link or restore the file)",
		               path);
	if (error == ENOENT || error == ENOTDIR)
		return rf_fail(e, RF_ENOINPUT, "%s: %s", path, strerror(error));
	/* a socket and some devices cannot be opened */
	if (!stat(path, &st) && !S_ISREG(st.st_mode))
		return not_regular(path, st.st_mode, e);
	return rf_fail(e, RF_EIO, "%s: open: %s", path, strerror(error));
}

enum rf_code rf_file_open(const char *path, int *fd, uint64_t *size, struct rf_err *e)
{
	enum rf_code rc = RF_OK;
	struct stat st;

	/* O_NONBLOCK: opening a FIFO must not block before fstat() recognizes it */
	*fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (*fd < 0)
		return no_entry(path, errno, e);
	if (fstat(*fd, &st) < 0)
		rc = rf_fail(e, RF_EIO, "%s: open: %s", path, strerror(errno));
	else if (!S_ISREG(st.st_mode))
		rc = not_regular(path, st.st_mode, e);
	if (rc == RF_OK) {
		*size = (uint64_t)st.st_size;
	} else {
		close(*fd);
		*fd = -1;
	}
	return rc;
}

static enum rf_code too_long(const char *path, uint64_t size, uint64_t limit, struct rf_err *e)
{
	return rf_fail(e, RF_EMODEL, "%s: the file has %llu bytes, more than the limit of %llu", path,
	               (unsigned long long)size, (unsigned long long)limit);
}

enum rf_code rf_file_check(const char *path, uint64_t limit, struct rf_err *e)
{
	uint64_t size;
	int fd;
	enum rf_code rc = rf_file_open(path, &fd, &size, e);

	if (rc != RF_OK)
		return rc;
	close(fd);
	return size > limit ? too_long(path, size, limit, e) : RF_OK;
}

enum rf_code rf_file_optional(const char *path, bool *exists, struct rf_err *e)
{
	enum rf_code rc;
	struct stat st;

	*exists = lstat(path, &st) == 0;
	if (!*exists)
		return errno == ENOENT || errno == ENOTDIR
		               ? RF_OK
		               : rf_fail(e, RF_EIO, "%s: %s", path, strerror(errno));
	if (stat(path, &st) == 0)
		return S_ISREG(st.st_mode) ? RF_OK : not_regular(path, st.st_mode, e);
	if ((rc = no_entry(path, errno, e)) == RF_EMODEL || !e)
		return RF_EMODEL;
	return e->code = RF_EMODEL;
}

enum rf_code rf_file_read_optional(const char *path, size_t limit, char **text, size_t *n, struct rf_err *e)
{
	enum rf_code rc;
	bool exists;

	*text = NULL;
	*n = 0;
	if ((rc = rf_file_optional(path, &exists, e)) != RF_OK || !exists)
		return rc;
	if ((rc = rf_file_read(path, limit, text, n, e)) == RF_OK || rc == RF_ENOMEM)
		return rc;
	if (e)
		e->code = RF_EMODEL;
	return RF_EMODEL;
}

ssize_t rf_file_read_some(int fd, void *to, size_t n)
{
	ssize_t r;

	while ((r = read(fd, to, n)) < 0)
		if (errno == EAGAIN || errno == EWOULDBLOCK)
			poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, -1);
		else if (errno != EINTR)
			break;
	return r;
}

int rf_file_sync(int fd)
{
	int r;

	while ((r = fsync(fd)) < 0 && errno == EINTR)
		;
	return r;
}

enum rf_code rf_file_pread(int fd, void *to, size_t n, uint64_t at, struct rf_err *e)
{
	char *p = to;

	while (n) {
		ssize_t r = pread(fd, p, n < 1 << 30 ? n : 1 << 30, (off_t)at);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return rf_fail(e, RF_EIO, "read: %s", strerror(errno));
		if (r == 0)
			return rf_fail(e, RF_EIO, "read: the file was shortened after it was opened");
		p += r;
		n -= (size_t)r;
		at += (uint64_t)r;
	}
	return RF_OK;
}

enum rf_code rf_file_pwrite(int fd, const void *from, size_t n, uint64_t at, struct rf_err *e)
{
	const char *p = from;

	while (n) {
		ssize_t r = pwrite(fd, p, n < 1 << 30 ? n : 1 << 30, (off_t)at);
		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return rf_fail(e, RF_EIO, "write: %s", strerror(r < 0 ? errno : ENOSPC));
		p += r;
		n -= (size_t)r;
		at += (uint64_t)r;
	}
	return RF_OK;
}

enum rf_code rf_file_read(const char *path, size_t limit, char **text, size_t *n, struct rf_err *e)
{
	enum rf_code rc;
	uint64_t size;
	int fd;

	*text = NULL;
	if ((rc = rf_file_open(path, &fd, &size, e)) != RF_OK)
		return rc;
	if (size > limit)
		rc = too_long(path, size, limit, e);
	else if (!(*text = malloc((size_t)size + 1)))
		rc = rf_fail(e, RF_ENOMEM, "%s: out of memory", path);
	else if ((rc = rf_file_pread(fd, *text, (size_t)size, 0, e)) != RF_OK)
		rf_blame(e, "%s", path);
	close(fd);
	if (rc != RF_OK) {
		free(*text);
		*text = NULL;
		return rc;
	}
	(*text)[size] = 0;
	*n = (size_t)size;
	return RF_OK;
}

void rf_file_hash(const void *p, size_t n, char hex[17])
{
	snprintf(hex, 17, "%016llx", (unsigned long long)XXH64(p, n, 0));
}

enum rf_code rf_file_hash_file(const char *path, uint64_t limit, char hex[17], struct rf_err *e)
{
	XXH64_state_t *h = XXH64_createState();
	unsigned char *buf = malloc(BLOCK);
	enum rf_code rc = RF_OK;
	uint64_t size = 0;
	int fd = -1;

	if (!h || !buf)
		rc = rf_fail(e, RF_ENOMEM, "%s: out of memory", path);
	else
		rc = rf_file_open(path, &fd, &size, e);
	if (rc == RF_OK && size > limit)
		rc = too_long(path, size, limit, e);
	if (rc == RF_OK)
		XXH64_reset(h, 0);
	for (uint64_t at = 0; rc == RF_OK && at < size; at += BLOCK) {
		size_t n = size - at < BLOCK ? (size_t)(size - at) : BLOCK;
		if ((rc = rf_file_pread(fd, buf, n, at, e)) == RF_OK)
			XXH64_update(h, buf, n);
		else
			rf_blame(e, "%s", path);
	}
	if (rc == RF_OK)
		snprintf(hex, 17, "%016llx", (unsigned long long)XXH64_digest(h));
	if (fd >= 0)
		close(fd);
	free(buf);
	XXH64_freeState(h);
	return rc;
}

enum rf_code rf_file_sync_dir(const char *path, struct rf_err *e)
{
	enum rf_code rc = RF_OK;
	int fd;

	while ((fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 && errno == EINTR)
		;
	/* EACCES: a directory that may be written and not read; EINVAL: a file system that has
	   nothing to sync */
	if (fd < 0 && errno != EACCES)
		return rf_fail(e, RF_EIO, "%s: open: %s", path, strerror(errno));
	if (fd >= 0 && rf_file_sync(fd) < 0 && errno != EINVAL)
		rc = rf_fail(e, RF_EIO, "%s: sync: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return rc;
}

/* Removes name in the directory dir; levels bounds the recursion, and a checkpoint has two. */
static int remove_at(int dir, const char *name, int levels)
{
	const struct dirent *d;
	DIR *list;
	int fd, r = 0;

	if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		return 0;
	if ((errno != EISDIR && errno != EPERM) || levels == 0)
		return -1;
	if ((fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
		return -1;
	if (!(list = fdopendir(fd))) {
		close(fd);
		return -1;
	}
	while (r == 0 && (d = readdir(list)))
		if (strcmp(d->d_name, ".") && strcmp(d->d_name, ".."))
			r = remove_at(fd, d->d_name, levels - 1);
	closedir(list);
	return r < 0 ? r : unlinkat(dir, name, AT_REMOVEDIR);
}

enum rf_code rf_file_remove(const char *path, struct rf_err *e)
{
	return remove_at(AT_FDCWD, path, 4) == 0
	               ? RF_OK
	               : rf_fail(e, RF_EIO, "%s: remove: %s", path, strerror(errno));
}

size_t rf_file_split(const char *path, size_t *name)
{
	size_t n = strlen(path);

	while (n > 1 && path[n - 1] == '/')
		n--;
	for (*name = n; *name && path[*name - 1] != '/'; --*name)
		;
	return n;
}

const char *rf_file_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

enum rf_code rf_file_directory(char out[4096], const char *path, struct rf_err *e)
{
	size_t name;

	rf_file_split(path, &name);
	if (snprintf(out, 4096, "%.*s", name ? (int)name : 1, name ? path : ".") >= 4096)
		return rf_fail(e, RF_EIO, "%.100s...: the path is too long", path);
	return RF_OK;
}

enum rf_code rf_file_make_folders(const char *path, struct rf_err *e)
{
	char part[4096];

	for (size_t n = strcspn(path, "/");; n += strcspn(path + n, "/")) {
		snprintf(part, sizeof part, "%.*s", (int)n, path);
		if (*part && mkdir(part, 0777) < 0 && errno != EEXIST)
			return rf_fail(e, RF_EIO, "%s: create: %s", part, strerror(errno));
		if (!path[n])
			return RF_OK;
		n++;
	}
}

enum rf_code rf_file_sync_parent(const char *path, struct rf_err *e)
{
	char dir[4096];
	enum rf_code rc = rf_file_directory(dir, path, e);

	return rc == RF_OK ? rf_file_sync_dir(dir, e) : rc;
}

enum rf_code rf_file_space(const char *path, uint64_t *bytes, struct rf_err *e)
{
	struct statvfs s;

	if (statvfs(path, &s) < 0)
		return rf_fail(e, RF_EIO, "%s: statvfs: %s", path, strerror(errno));
	*bytes = s.f_blocks ? (uint64_t)s.f_bavail * s.f_frsize : UINT64_MAX;
	return RF_OK;
}

enum rf_code rf_file_can_write(const char *path, bool append, struct rf_err *e)
{
	char dir[4096];
	struct stat st;
	enum rf_code rc;

	if (!strcmp(path, "-"))
		return RF_OK;
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return rf_fail(e, RF_EIO, "%s: open: %s", path, strerror(EISDIR));
	if (stat(path, &st) == 0 && (append || !S_ISREG(st.st_mode)))
		return access(path, W_OK) ? rf_fail(e, RF_EIO, "%s: open: %s", path, strerror(errno)) : RF_OK;
	if ((rc = rf_file_directory(dir, path, e)) != RF_OK)
		return rc;
	return access(dir, W_OK | X_OK) ? rf_fail(e, RF_EIO, "%s: create: %s", path, strerror(errno)) : RF_OK;
}

/* Writes all bytes.  *left: the number of bytes that were not written. */
static int write_all(int fd, const char *p, size_t *left)
{
	while (*left) {
		ssize_t n = write(fd, p, *left);

		if (n < 0 && errno != EINTR)
			return errno;
		if (n == 0)
			return ENOSPC;
		p += n > 0 ? n : 0;
		*left -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static enum rf_code append_bytes(const char *path, int fd, const void *data, size_t n, struct rf_err *e)
{
	struct stat st;
	size_t left = n;
	int error;

	if ((error = write_all(fd, data, &left)) != 0) {
		rf_fail(e, RF_EIO, "%s: write: %s", path, strerror(error));
		/* these bytes are the last ones, unless another program appended meanwhile: its lines must
		   stay */
		if (left < n && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
		    (lseek(fd, 0, SEEK_CUR) != st.st_size ||
		     ftruncate(fd, st.st_size - (off_t)(n - left)) < 0))
			rf_blame(e, "an incomplete line was left in the file");
		return RF_EIO;
	}
	/* only a regular file can be synced */
	return fdatasync(fd) < 0 && errno == EIO ? rf_fail(e, RF_EIO, "%s: sync: %s", path, strerror(EIO))
	                                         : RF_OK;
}

/* Ends a last line that has no newline.  A line of JSON that was cut by a crash or a full disk is removed,
 * because no reader of the log could read past it.  A line that ends in the NUL bytes that a power loss
 * leaves is removed, too.  Any other line gets its newline. */
static enum rf_code end_last_line(const char *path, int fd, struct rf_err *e)
{
	char *line = NULL, *newline = NULL, last;
	size_t n = 1 << 16;
	enum rf_code rc;
	struct rf_jvalue v;
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !st.st_size ||
	    rf_file_pread(fd, &last, 1, (uint64_t)st.st_size - 1, NULL) != RF_OK || last == '\n')
		return RF_OK;
	/* read a larger and larger end of the file until it contains the whole last line */
	do {
		free(line);
		n = (uint64_t)st.st_size / 2 > n ? 2 * n : (size_t)st.st_size;
		if (!(line = malloc(n)))
			return rf_fail(e, RF_ENOMEM, "%s: out of memory", path);
		if ((rc = rf_file_pread(fd, line, n, (uint64_t)st.st_size - n, e)) != RF_OK) {
			rf_blame(e, "%s", path);
			break;
		}
	} while (!(newline = memrchr(line, '\n', n)) && n < (size_t)st.st_size);
	if (rc == RF_OK && newline) {
		n -= (size_t)(newline + 1 - line);
		memmove(line, newline + 1, n);
	}
	if (rc == RF_OK && (!last || (*line == '{' && rf_jscan_check(line, n, &v, NULL) != RF_OK))) {
		if (ftruncate(fd, st.st_size - (off_t)n) < 0)
			rc = rf_fail(e, RF_EIO, "%s: %s", path, strerror(errno));
	} else if (rc == RF_OK) {
		rc = append_bytes(path, fd, "\n", 1, e);
	}
	free(line);
	return rc;
}

enum rf_code rf_file_append(const char *path, const void *data, size_t n, struct rf_err *e)
{
	const int flags = O_CREAT | O_APPEND | O_CLOEXEC;
	struct stat st;
	/* O_WRONLY for a FIFO, so that the open waits for its reader, and for a file that cannot be read */
	const bool fifo = !stat(path, &st) && !S_ISREG(st.st_mode);
	int fd = fifo ? -1 : open(path, O_RDWR | flags, 0666);
	const bool readable = fd >= 0;
	enum rf_code rc = RF_OK;

	if (!readable && (fd = open(path, O_WRONLY | flags, 0666)) < 0)
		return rf_fail(e, RF_EIO, "%s: open: %s", path, strerror(errno));
	/* while this program holds the lock, no other program is in the middle of a line */
	if (!fifo && flock(fd, LOCK_EX) == 0 && readable)
		rc = end_last_line(path, fd, e);
	if (rc != RF_OK || (rc = append_bytes(path, fd, data, n, e)) != RF_OK) {
		close(fd);
		return rc;
	}
	return close(fd) ? rf_fail(e, RF_EIO, "%s: close: %s", path, strerror(errno)) : RF_OK;
}

enum rf_code rf_file_lock(int fd, const char *path, struct rf_err *e)
{
	int locked;

	do
		locked = flock(fd, LOCK_EX | LOCK_NB);
	while (locked < 0 && errno == EINTR);
	if (locked == 0)
		return RF_OK;
	return errno == EWOULDBLOCK ? rf_fail(e, RF_EBUSY, "%s: another process holds the lock", path)
	                            : rf_fail(e, RF_EIO, "%s: lock: %s", path, strerror(errno));
}

bool rf_file_same(const char *a, const char *b)
{
	struct stat x, y;

	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

bool rf_file_way(char out[4096], const char *path, const char *dir)
{
	char real[PATH_MAX], place[PATH_MAX];
	size_t n;

	if (!realpath(path, real) || !realpath(dir, place))
		return false;
	n = strcmp(place, "/") ? strlen(place) : 0; /* only the root ends in a slash */
	if (strncmp(real, place, n) || (real[n] && real[n] != '/'))
		return false;
	strcpy(out, real + n);
	return true;
}

bool rf_file_inside(const char *path, const char *dir)
{
	char way[4096];

	return rf_file_way(way, path, dir);
}

bool rf_file_ends(const char *path, size_t n, const char *end)
{
	const size_t m = strlen(end);

	return n >= m && !memcmp(path + n - m, end, m);
}

bool rf_file_plain(const char *name)
{
	return *name && *name != '.' && *name != '-' && strlen(name) < 256 && !strchr(name, '/');
}

enum rf_code rf_file_join(char out[4096], const char *dir, const char *name, struct rf_err *e)
{
	if (snprintf(out, 4096, "%s/%s", dir, name) >= 4096)
		return rf_fail(e, RF_EIO, "%s/%s: the path is too long", dir, name);
	return RF_OK;
}
