/* bytes.c -- reads the bytes of an input into a buffer that grows to the largest number of bytes asked
 * for. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/file.h"
#include "stream/bytes.h"

enum { READ_SIZE = 256 << 10 };

static int open_file(const char *path)
{
	int fd;

	while ((fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY)) < 0 && errno == EINTR)
		;
	return fd;
}

enum rf_code rf_bytes_open(struct rf_bytes *b, const char *path, struct rf_err *e)
{
	const bool standard = !path || !strcmp(path, "-");
	const char *name = standard ? "<stdin>" : path;
	struct stat st = { 0 };

	*b = (struct rf_bytes){ .fd = -1, .file_size = -1 };
	rf_quote(b->name, sizeof b->name, name, strlen(name));
	if (standard && isatty(STDIN_FILENO))
		return rf_fail(e, RF_EUSAGE, "<stdin>: is a terminal: name a file, or pipe a stream into it");
	b->fd = standard ? STDIN_FILENO : open_file(path);
	/* a standard input that was closed is replaced by a descriptor that can only be written to */
	if (standard && (fcntl(STDIN_FILENO, F_GETFL) & O_ACCMODE) == O_WRONLY)
		return rf_fail(e, RF_ENOINPUT, "<stdin>: %s", strerror(EBADF));
	if (b->fd < 0 || fstat(b->fd, &st) || S_ISDIR(st.st_mode))
		return rf_fail(e, RF_ENOINPUT, "%s: %s", b->name,
		               b->fd >= 0 && S_ISDIR(st.st_mode) ? "is a directory" : strerror(errno));
	if (S_ISREG(st.st_mode) && !lseek(b->fd, 0, SEEK_CUR))
		b->file_size = st.st_size;
	return RF_OK;
}

void rf_bytes_open_memory(struct rf_bytes *b, const void *data, size_t n, const char *name)
{
	*b = (struct rf_bytes){
		.fd = -1, .file_size = -1, .buf = (unsigned char *)data, .have = n, .cap = n, .eof = true
	};
	rf_quote(b->name, sizeof b->name, name, strlen(name));
}

void rf_bytes_close(struct rf_bytes *b)
{
	if (b->fd > STDIN_FILENO)
		close(b->fd);
	if (b->fd >= 0)
		free(b->buf);
}

static enum rf_code read_some(struct rf_bytes *b, struct rf_err *e)
{
	ssize_t n;

	if ((n = rf_file_read_some(b->fd, b->buf + b->have, b->cap - b->have)) < 0)
		return rf_fail(e, RF_EIO, "%s: read: %s", b->name, strerror(errno));
	b->have += (size_t)n;
	b->eof = !n;
	return RF_OK;
}

enum rf_code rf_bytes_fill(struct rf_bytes *b, size_t n, struct rf_err *e)
{
	enum rf_code rc = RF_OK;

	while (b->have - b->at < n && !b->eof && rc == RF_OK) {
		if (b->at && (b->cap - b->at < n || b->cap - b->have < READ_SIZE / 4)) {
			memmove(b->buf, b->buf + b->at, b->have - b->at);
			b->have -= b->at;
			b->at = 0;
		}
		if (b->cap - b->at < n || b->have == b->cap) {
			size_t cap = b->cap ? 2 * b->cap : READ_SIZE;
			unsigned char *p = realloc(b->buf, cap);
			if (!p)
				return rf_fail(e, RF_ENOMEM,
				               "%s: out of memory (a frame of more than %zu bytes)", b->name,
				               b->cap);
			b->buf = p;
			b->cap = cap;
		} else {
			rc = read_some(b, e);
		}
	}
	return rc;
}

const unsigned char *rf_bytes_next(const struct rf_bytes *b) { return b->buf + b->at; }

size_t rf_bytes_left(const struct rf_bytes *b) { return b->have - b->at; }

void rf_bytes_take(struct rf_bytes *b, size_t n)
{
	b->at += n;
	b->offset += n;
}

bool rf_bytes_fewer(const struct rf_bytes *b, size_t n) { return b->have - b->at < n; }

enum rf_code rf_bytes_pass(struct rf_bytes *b, uint64_t n, bool *cut, struct rf_err *e)
{
	size_t have = b->have - b->at;

	if (n <= have) {
		rf_bytes_take(b, (size_t)n);
		return RF_OK;
	}
	*cut = *cut || n > (uint64_t)b->file_size - b->offset;
	b->at = b->have = 0;
	b->offset += n;
	if (lseek(b->fd, (off_t)(n - have), SEEK_CUR) < 0)
		return rf_fail(e, RF_EIO, "%s: seek: %s", b->name, strerror(errno));
	return RF_OK;
}

enum rf_code rf_bytes_rewind(struct rf_bytes *b, uint64_t offset, struct rf_err *e)
{
	b->at = b->have = 0;
	b->eof = false;
	b->offset = offset;
	if (lseek(b->fd, (off_t)offset, SEEK_SET) < 0)
		return rf_fail(e, RF_EIO, "%s: seek: %s", b->name, strerror(errno));
	return RF_OK;
}
