/* lines.c -- reads a text file through one buffer that slides over it.  Bytes before `begin` have been
 * returned to the caller, bytes from `begin` to `seen` contain no newline, bytes from `seen` to `end` have
 * not been searched yet.  The buffer grows to the longest line, but not beyond the caller's limit. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include "io/file.h"
#include "io/lines.h"
#include "io/magic.h"

enum { FIRST = 1 << 16 };

struct rf_lines {
	char name[200]; /* for messages, fit for a terminal */
	int fd;
	size_t max;
	uint64_t number, bytes;
	bool ended;          /* the end of the file was reached */
	bool broken;         /* a read failed, so no further line can be read */
	bool overlong;       /* at `begin` is the rest of a line that was too long */
	const char *advice;  /* the end of a sentence about a line that is too long */
	XXH64_state_t *hash; /* hash of the file's bytes; NULL: not wanted */
	char *buf;
	size_t cap, begin, seen, end;

	ZSTD_DCtx *zstd;       /* NULL: plain text */
	unsigned char *packed; /* bytes that were read and not yet decompressed */
	ZSTD_inBuffer in;
	bool packed_ended, frame_open;
};

static enum rf_code no_memory(const struct rf_lines *l, size_t n, struct rf_err *e)
{
	return rf_fail(e, RF_ENOMEM, "%s: out of memory (wanted %zu bytes)", l->name, n);
}

static enum rf_code read_some(struct rf_lines *l, void *p, size_t n, size_t *got, struct rf_err *e)
{
	ssize_t r = rf_file_read_some(l->fd, p, n);

	if (r < 0)
		return rf_fail(e, RF_EIO, "%s: read: %s", l->name, strerror(errno));
	*got = (size_t)r;
	l->bytes += *got;
	if (l->hash)
		XXH64_update(l->hash, p, *got);
	return RF_OK;
}

static enum rf_code unpack_some(struct rf_lines *l, void *p, size_t n, size_t *got, struct rf_err *e)
{
	ZSTD_outBuffer out = { p, n, 0 };
	enum rf_code rc;

	while (out.pos == 0) {
		size_t left;

		if (l->in.pos == l->in.size && !l->packed_ended) {
			if ((rc = read_some(l, l->packed, ZSTD_DStreamInSize(), &l->in.size, e)) != RF_OK)
				return rc;
			l->in.pos = 0;
			l->packed_ended = l->in.size == 0;
		}
		/* At the end of the file the decompressor may still hold text, but only while a frame is
		 * open: a call without input between two frames would begin another frame. */
		if (l->in.pos == l->in.size && !l->frame_open)
			break;
		left = ZSTD_decompressStream(l->zstd, &out, &l->in);
		if (ZSTD_isError(left))
			return rf_fail(e, RF_EDATA, "%s: zstd: %s", l->name, ZSTD_getErrorName(left));
		l->frame_open = left != 0;
		if (l->packed_ended && l->in.pos == l->in.size && l->frame_open && out.pos == 0)
			return rf_fail(e, RF_EDATA, "%s: truncated: it ends inside a zstd frame", l->name);
	}
	*got = out.pos;
	return RF_OK;
}

static enum rf_code fill_buffer(struct rf_lines *l, struct rf_err *e)
{
	size_t got = 0;
	enum rf_code rc;

	if (l->begin > 0) {
		memmove(l->buf, l->buf + l->begin, l->end - l->begin);
		l->seen -= l->begin;
		l->end -= l->begin;
		l->begin = 0;
	}
	if (l->end == l->cap) {
		/* one byte above the limit, for the newline or to notice that the limit is exceeded */
		size_t cap = l->cap > l->max / 2 ? l->max + 1 : l->cap * 2;
		char *buf = realloc(l->buf, cap + 1);
		if (!buf)
			return no_memory(l, cap, e);
		l->buf = buf;
		l->cap = cap;
	}
	if (l->zstd)
		rc = unpack_some(l, l->buf + l->end, l->cap - l->end, &got, e);
	else
		rc = read_some(l, l->buf + l->end, l->cap - l->end, &got, e);
	l->end += got;
	l->ended = rc == RF_OK && got == 0;
	return rc;
}

/* Reads more bytes after `end`.  Sets l->ended at the end of the file. */
static enum rf_code fill_more(struct rf_lines *l, struct rf_err *e)
{
	enum rf_code rc = fill_buffer(l, e);

	l->broken = rc != RF_OK;
	return rc;
}

/* Reads the first bytes, and sets up a decompressor if they begin a zstd file. */
static enum rf_code sniff_format(struct rf_lines *l, const char *path, struct rf_err *e)
{
	enum { MAGIC = 4 };
	bool named = rf_file_ends(path, strlen(path), ".zst");
	const char *packed;
	enum rf_code rc;

	while (l->end < MAGIC && !l->ended)
		if ((rc = fill_more(l, e)) != RF_OK)
			return rc;
	if ((packed = rf_magic_packed(l->buf, l->end)))
		return rf_fail(e, RF_EDATA, "%s: compressed with %s: decompress it, or compress it with zstd",
		               l->name, packed);
	if (!named && (l->end < MAGIC || !rf_magic_zstd(l->buf)))
		return RF_OK;
	if (!l->end)
		return rf_fail(e, RF_EDATA, "%s: not zstd: the file is empty", l->name);

	l->zstd = ZSTD_createDCtx();
	l->packed = malloc(ZSTD_DStreamInSize() > FIRST ? ZSTD_DStreamInSize() : FIRST);
	if (!l->zstd || !l->packed)
		return no_memory(l, ZSTD_DStreamInSize(), e);
	memcpy(l->packed, l->buf, l->end);
	l->in = (ZSTD_inBuffer){ l->packed, l->end, 0 };
	l->packed_ended = l->ended;
	l->end = 0;
	l->ended = false;
	return RF_OK;
}

/* Allocates a reader for a file, which is opened later. */
static enum rf_code make_reader(struct rf_lines **out, const char *path, size_t max, struct rf_err *e)
{
	struct rf_lines *l = calloc(1, sizeof *l);

	*out = l;
	if (!l)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	rf_quote(l->name, sizeof l->name, path, strlen(path));
	l->fd = -1;
	l->advice = "";
	l->max = max > FIRST ? max : FIRST;
	l->cap = FIRST;
	return (l->buf = malloc(FIRST + 1)) ? RF_OK : no_memory(l, FIRST, e);
}

enum rf_code rf_lines_open(struct rf_lines **out, const char *path, size_t max, struct rf_err *e)
{
	const bool standard = !path || !strcmp(path, "-");
	enum rf_code rc = make_reader(out, standard ? "<stdin>" : path, max, e);
	struct rf_lines *l = *out;
	struct stat st;

	if (rc == RF_OK && (l->fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)) < 0)
		rc = rf_fail(e, RF_ENOINPUT, "%s: %s", l->name, strerror(errno));
	else if (rc == RF_OK && !fstat(l->fd, &st) && S_ISDIR(st.st_mode))
		rc = rf_fail(e, RF_ENOINPUT, "%s: %s", l->name, strerror(EISDIR));
	else if (rc == RF_OK)
		rc = sniff_format(l, standard ? l->name : path, e);
	if (rc == RF_OK)
		return RF_OK;
	rf_lines_close(l);
	*out = NULL;
	return rc;
}

enum rf_code rf_lines_open_file(struct rf_lines **out, const char *path, size_t max, struct rf_err *e)
{
	enum rf_code rc = make_reader(out, path, max, e);
	struct rf_lines *l = *out;
	uint64_t size;

	if (rc == RF_OK && (rc = rf_file_open(path, &l->fd, &size, e)) == RF_OK && size > l->max)
		rc = rf_fail(e, RF_EMODEL, "%s: the file has %llu bytes, more than the limit of %zu", l->name,
		             (unsigned long long)size, l->max);
	if (rc == RF_OK && !(l->hash = XXH64_createState()))
		rc = rf_fail(e, RF_ENOMEM, "out of memory");
	if (rc == RF_OK) {
		XXH64_reset(l->hash, 0);
		rc = sniff_format(l, path, e);
	}
	if (rc == RF_OK)
		return RF_OK;
	rf_lines_close(l);
	*out = NULL;
	return rc;
}

void rf_lines_advise(struct rf_lines *l) { l->advice = " (raise --max-record)"; }

void rf_lines_hash(const struct rf_lines *l, char hex[17])
{
	snprintf(hex, 17, "%016llx", (unsigned long long)XXH64_digest(l->hash));
}

void rf_lines_close(struct rf_lines *l)
{
	if (!l)
		return;
	if (l->fd > STDERR_FILENO)
		close(l->fd);
	XXH64_freeState(l->hash);
	ZSTD_freeDCtx(l->zstd);
	free(l->packed);
	free(l->buf);
	free(l);
}

const char *rf_lines_name(const struct rf_lines *l) { return l->name; }

uint64_t rf_lines_number(const struct rf_lines *l) { return l->number; }

uint64_t rf_lines_bytes(const struct rf_lines *l) { return l->bytes; }

/* Skips the rest of a line that was too long. */
static enum rf_code skip_rest(struct rf_lines *l, struct rf_err *e)
{
	enum rf_code rc;
	char *newline;

	while (!(newline = memchr(l->buf + l->seen, '\n', l->end - l->seen)) && !l->ended) {
		l->begin = l->seen = l->end;
		if ((rc = fill_more(l, e)) != RF_OK)
			return rc;
	}
	l->begin = l->seen = newline ? (size_t)(newline - l->buf) + 1 : l->end;
	l->overlong = false;
	return RF_OK;
}

enum rf_code rf_lines_next(struct rf_lines *l, char **line, size_t *n, struct rf_err *e)
{
	enum rf_code rc;
	char *newline;

	if (l->overlong && (rc = skip_rest(l, e)) != RF_OK)
		return rc;
	while (!(newline = memchr(l->buf + l->seen, '\n', l->end - l->seen))) {
		l->seen = l->end;
		if (l->seen - l->begin > l->max) {
			l->overlong = true;
			return rf_fail(e, RF_EDATA, "%s: line %llu is longer than %zu bytes%s", l->name,
			               (unsigned long long)++l->number, l->max, l->advice);
		}
		if (l->ended)
			break;
		if ((rc = fill_more(l, e)) != RF_OK)
			return rc;
	}
	if (!newline && l->begin == l->end)
		return RF_EOF;
	*line = l->buf + l->begin;
	*n = (newline ? (size_t)(newline - l->buf) : l->end) - l->begin;
	l->begin = l->seen = newline ? (size_t)(newline - l->buf) + 1 : l->end;
	l->number++;
	return RF_OK;
}

enum rf_code rf_lines_next_written(struct rf_lines *l, char **line, size_t *n, struct rf_err *e)
{
	enum rf_code rc;
	size_t blank = 0;

	while ((rc = rf_lines_next(l, line, n, e)) == RF_OK) {
		for (blank = 0; blank < *n && memchr(" \t\r\v\f", (*line)[blank], 5);)
			blank++;
		if (blank < *n)
			break;
	}
	return rc;
}

enum rf_code rf_lines_next_object(struct rf_lines *l, struct rf_jvalue *object, struct rf_err *e)
{
	char *line;
	size_t n;
	enum rf_code rc = rf_lines_next_written(l, &line, &n, e);

	if (rc != RF_OK)
		return rc;
	if ((rc = rf_jscan_check(line, n, object, e)) == RF_OK && !rf_jscan_is_object(object))
		rc = rf_fail(e, RF_EDATA, "the line is %s, not an object", rf_jscan_kind(object));
	if (rc != RF_OK)
		rf_lines_blame(l, e);
	return rc;
}

bool rf_lines_goes_on(const struct rf_lines *l) { return !l->broken; }

enum rf_code rf_lines_blame(const struct rf_lines *l, struct rf_err *e)
{
	return rf_blame(e, "%s: line %llu", l->name, (unsigned long long)l->number);
}

enum rf_code rf_lines_rest(struct rf_lines *l, char **text, size_t *n, struct rf_err *e)
{
	enum rf_code rc;

	while (!l->ended && l->end - l->begin <= l->max)
		if ((rc = fill_more(l, e)) != RF_OK)
			return rc;
	if (l->end - l->begin > l->max)
		return rf_fail(e, RF_EDATA, "%s: the text is longer than %zu bytes%s", l->name, l->max,
		               l->advice);
	*text = l->buf + l->begin;
	*n = l->end - l->begin;
	l->begin = l->seen = l->end;
	return RF_OK;
}
