/* stream_in.c -- reads a stream.
 *
 * The reader follows the block headers of a frame as its bytes arrive, and so finds the frame's end.  It
 * accepts the size that the frame claims only if the blocks can contain that much and --max-record allows
 * it.  Then the frame is decompressed in one piece, and libzstd verifies its checksum.  So memory is bounded
 * by the bytes that arrived and by the limit, and a frame can be skipped without decompressing it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include "io/file.h"
#include "io/magic.h"
#include "stream/msg.h"
#include "stream/sniff.h"
#include "stream/wire.h"

enum { READ_SIZE = 256 << 10 };

enum state { HEAD_READ, RECORDS, ENDED, FAILED };

struct rf_in {
	int fd;                 /* -1: the whole stream is in memory */
	char name[200];         /* name for messages, safe to show on a terminal */
	uint64_t max_record;
	off_t file_size;        /* -1: not a regular file */

	unsigned char *buf;     /* compressed bytes [at, have) */
	size_t at, have, cap;
	uint64_t offset;        /* offset of buf[at] in the stream */
	bool eof;

	size_t frame;           /* length of the frame read last, which ends at buf[at] */
	uint64_t frame_offset;
	ZSTD_DCtx *zstd;
	unsigned char *msg;     /* the message in it */
	size_t msg_n, msg_cap;

	enum state state;
	enum rf_code failure;
	uint64_t seq;           /* number of the next message */
	bool hashed;            /* whether all messages so far are in the hash: none was skipped */
	XXH64_state_t *hash;
	uint64_t claimed;       /* the hash that the end record states */
	struct rf_head head;
	struct rf_record rec;
};

/* ---- bytes --------------------------------------------------------------------------------- */

static enum rf_code read_some(struct rf_in *in, struct rf_err *e)
{
	ssize_t n;

	if ((n = rf_file_read_some(in->fd, in->buf + in->have, in->cap - in->have)) < 0)
		return rf_fail(e, RF_EIO, "%s: read: %s", in->name, strerror(errno));
	in->have += (size_t)n;
	in->eof = !n;
	return RF_OK;
}

/* Reads until n bytes are available at buf[at], or the input has ended. */
static enum rf_code fill_buffer(struct rf_in *in, size_t n, struct rf_err *e)
{
	enum rf_code rc = RF_OK;

	while (in->have - in->at < n && !in->eof && rc == RF_OK) {
		if (in->at && (in->cap - in->at < n || in->cap - in->have < READ_SIZE / 4)) {
			memmove(in->buf, in->buf + in->at, in->have - in->at);
			in->have -= in->at;
			in->at = 0;
		}
		if (in->cap - in->at < n || in->have == in->cap) {
			size_t cap = in->cap ? 2 * in->cap : READ_SIZE;
			unsigned char *p = realloc(in->buf, cap);
			if (!p)
				return rf_fail(e, RF_ENOMEM,
				               "%s: out of memory (a frame of more than %zu bytes)",
				               in->name, in->cap);
			in->buf = p;
			in->cap = cap;
		} else {
			rc = read_some(in, e);
		}
	}
	return rc;
}

/* Moves past n bytes. */
static void take_bytes(struct rf_in *in, size_t n)
{
	in->at += n;
	in->offset += n;
}

/* Returns whether fewer than n bytes are available. */
static bool has_fewer(const struct rf_in *in, size_t n)
{
	return in->have - in->at < n;
}

static enum rf_code frame_truncated(struct rf_err *e)
{
	return rf_fail(e, RF_EDATA, "the frame is truncated (the stream was cut, or its writer died)");
}

/* Moves past skippable frames, which hold no message.  Other tools put them before, between and after the
 * frames of a stream. */
static enum rf_code pass_skippable(struct rf_in *in, struct rf_err *e)
{
	enum { HEADER = 8 };
	enum rf_code rc = RF_OK;

	/* waits only for as many bytes as each frame of a stream has */
	while ((rc = fill_buffer(in, 1, e)) == RF_OK && !has_fewer(in, 1) && in->buf[in->at] >> 4 == 5 &&
	       (rc = fill_buffer(in, HEADER, e)) == RF_OK && !has_fewer(in, 4) &&
	       rf_magic_skippable(in->buf + in->at)) {
		const unsigned char *p = in->buf + in->at + 4;
		size_t left;

		if (has_fewer(in, HEADER))
			return frame_truncated(e);
		left = (size_t)p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
		take_bytes(in, HEADER);
		while (left && (rc = fill_buffer(in, 1, e)) == RF_OK && !has_fewer(in, 1)) {
			size_t n = in->have - in->at < left ? in->have - in->at : left;

			take_bytes(in, n);
			left -= n;
		}
		if (rc != RF_OK || left)
			return rc != RF_OK ? rc : frame_truncated(e);
	}
	return rc;
}

/* ---- where --------------------------------------------------------------------------------- */

/* Puts the place of a message before e's sentence: the message that begins at `offset` and has the number
 * seq. */
static enum rf_code blame_message(const struct rf_in *in, uint64_t seq, uint64_t offset, struct rf_err *e)
{
	if (!seq)
		return rf_blame(e, "%s: head (byte %llu)", in->name, (unsigned long long)offset);
	return rf_blame(e, "%s: record %llu (byte %llu)", in->name, (unsigned long long)seq,
	                (unsigned long long)offset);
}

struct rf_place rf_in_place(const struct rf_in *in)
{
	return (struct rf_place){ in->seq ? in->seq - 1 : 0, in->frame_offset };
}

enum rf_code rf_in_blame_at(const struct rf_in *in, struct rf_place place, struct rf_err *e)
{
	return blame_message(in, place.record, place.byte, e);
}

enum rf_code rf_in_blame(const struct rf_in *in, struct rf_err *e)
{
	return rf_in_blame_at(in, rf_in_place(in), e);
}

/* ---- frames -------------------------------------------------------------------------------- */

/* Reads the header of the next frame, and checks it against the limits. */
static enum rf_code read_frame_header(struct rf_in *in, struct rf_frame *f, struct rf_err *e)
{
	enum rf_code rc = fill_buffer(in, 5, e);
	size_t n;

	if (rc != RF_OK)
		return rc;
	if (has_fewer(in, 5))
		return frame_truncated(e);
	n = rf_frame_header_size(in->buf + in->at);
	if ((rc = fill_buffer(in, n, e)) != RF_OK)
		return rc;
	if (has_fewer(in, n))
		return frame_truncated(e);
	if ((rc = rf_frame_header(f, in->buf + in->at, e)) != RF_OK)
		return rc;
	if (f->content > in->max_record)
		return rf_fail(e, RF_EDATA,
		               "the record claims %llu bytes, more than the limit of %llu (raise "
		               "--max-record)",
		               (unsigned long long)f->content, (unsigned long long)in->max_record);
	if (f->window > RF_WINDOW_MAX)
		return rf_fail(e, RF_EDATA, "the frame has a window of %llu bytes, more than 8 MiB",
		               (unsigned long long)f->window);
	return RF_OK;
}

/* Reads a whole frame of *n bytes to buf[at]. */
static enum rf_code read_frame(struct rf_in *in, struct rf_frame *f, size_t *n, struct rf_err *e)
{
	enum rf_code rc = read_frame_header(in, f, e);
	uint64_t most = 0;
	struct rf_block b = { 0 };

	*n = f->header;
	while (rc == RF_OK && !b.last) {
		if ((rc = fill_buffer(in, *n + 3, e)) != RF_OK)
			return rc;
		if (has_fewer(in, *n + 3))
			return frame_truncated(e);
		if ((rc = rf_block_header(&b, f, in->buf + in->at + *n, e)) != RF_OK)
			return rc;
		*n += 3 + b.wire + (b.last ? 4 : 0);
		most += b.most;
		if (*n > ZSTD_COMPRESSBOUND(in->max_record))
			return rf_fail(e, RF_EDATA,
			               "the frame has more bytes than --max-record allows for a record");
		if ((rc = fill_buffer(in, *n, e)) != RF_OK)
			return rc;
		if (has_fewer(in, *n))
			return frame_truncated(e);
	}
	if (rc == RF_OK && f->content > most)
		return rf_fail(e, RF_EDATA, "the record claims %llu bytes, but its blocks hold at most %llu",
		               (unsigned long long)f->content, (unsigned long long)most);
	return rc;
}

/* Decompresses a frame of n bytes to in->msg. */
static enum rf_code decompress_frame(struct rf_in *in, const void *frame, size_t n, uint64_t content,
                                     struct rf_err *e)
{
	size_t got;

	if (content > in->msg_cap || !in->msg) {
		size_t cap = content < 4096 ? 4096 : (size_t)content;
		free(in->msg);
		in->msg_cap = 0;
		if (!(in->msg = malloc(cap)))
			return rf_fail(e, RF_ENOMEM, "out of memory (a record of %llu bytes)",
			               (unsigned long long)content);
		in->msg_cap = cap;
	}
	got = ZSTD_decompressDCtx(in->zstd, in->msg, in->msg_cap, frame, n);
	if (ZSTD_isError(got))
		return rf_fail(e, RF_EDATA, "the frame is damaged (%s)", ZSTD_getErrorName(got));
	if (got != content)
		return rf_fail(e, RF_EDATA, "the frame is damaged (it holds %zu bytes, not %llu)", got,
		               (unsigned long long)content);
	in->msg_n = got;
	return RF_OK;
}

/* Reads and decompresses the next frame. */
static enum rf_code next_frame(struct rf_in *in, struct rf_err *e)
{
	struct rf_frame f;
	enum rf_code rc;
	size_t n;

	rc = pass_skippable(in, e);
	in->frame_offset = in->offset;
	if (rc != RF_OK || (rc = fill_buffer(in, 1, e)) != RF_OK)
		return rc;
	if (has_fewer(in, 1) && !in->seq)
		return rf_fail(e, RF_EDATA, "the stream is empty");
	if (has_fewer(in, 1))
		return rf_fail(e, RF_EDATA,
		               "the %s is missing (the stream is truncated, or its writer died)",
		               in->seq ? "end record" : "head");
	if ((rc = read_frame(in, &f, &n, e)) != RF_OK)
		return rc;
	if ((rc = decompress_frame(in, in->buf + in->at, n, f.content, e)) != RF_OK)
		return rc;
	take_bytes(in, n);
	in->frame = n;
	return RF_OK;
}

/* ---- messages ------------------------------------------------------------------------------ */

/* Checks that nothing follows the end record but skippable frames. */
static enum rf_code check_nothing_follows(struct rf_in *in, struct rf_err *e)
{
	enum rf_code rc = pass_skippable(in, e);

	if (rc != RF_OK || (rc = fill_buffer(in, 4, e)) != RF_OK)
		return rc;
	if (!has_fewer(in, 4) && !memcmp(in->buf + in->at, "\x28\xb5\x2f\xfd", 4))
		return rf_fail(e, RF_EDATA, "another frame follows it (join streams with rf-cat)");
	if (!has_fewer(in, 1))
		return rf_fail(e, RF_EDATA, "bytes follow it");
	return RF_OK;
}

/* Checks the end record m, and that the stream ends after it. */
static enum rf_code check_end(struct rf_in *in, const struct rf_msg *m, struct rf_err *e)
{
	struct rf_end end;
	enum rf_code rc = rf_end_decode(&end, m->body, e);

	if (rc != RF_OK)
		return rc;
	in->claimed = end.xxh64;
	if (end.count != in->seq - 1)
		return rf_fail(e, RF_EDATA, "it counts %llu records, but there are %llu",
		               (unsigned long long)end.count, (unsigned long long)in->seq - 1);
	if (in->hashed && end.xxh64 != XXH64_digest(in->hash))
		return rf_fail(e, RF_EDATA, "its hash does not match the records before it");
	return check_nothing_follows(in, e);
}

/* Reads the next message and checks it as a message. */
static enum rf_code parse_message(struct rf_in *in, struct rf_msg *m, struct rf_err *e)
{
	enum rf_code rc = next_frame(in, e);

	if (rc == RF_OK)
		rc = rf_msg_check(in->msg, in->msg_n, e);
	if (rc == RF_OK)
		rc = rf_msg_open(m, in->msg, in->msg_n, e);
	if (rc != RF_OK)
		return rc;
	if ((rc = rf_msg_expect(m, in->seq, e)) != RF_OK)
		return rc;
	if (m->type == RF_MSG_END)
		rc = check_end(in, m, e);
	else
		XXH64_update(in->hash, in->msg, in->msg_n);
	in->seq++;
	return rc;
}

/* Keeps a failure, so that every later call fails in the same way. */
static enum rf_code keep_failure(struct rf_in *in, enum rf_code rc)
{
	in->state = FAILED;
	in->failure = rc;
	return rc;
}

/* Begins reading a message.  Fails after a failure, and returns RF_EOF after the end. */
static enum rf_code may_continue(struct rf_in *in, struct rf_err *e)
{
	if (in->state == FAILED)
		return rf_fail(e, in->failure, "%s: reading continued after a failure", in->name);
	if (in->state == ENDED)
		return RF_EOF;
	in->state = RECORDS;
	return RF_OK;
}

/* Reads the next message.  On failure e says where. */
static enum rf_code read_message(struct rf_in *in, struct rf_msg *m, struct rf_err *e)
{
	uint64_t seq = in->seq;
	enum rf_code rc = may_continue(in, e);

	if (rc != RF_OK)
		return rc;
	m->type = RF_MSG_SEQ;
	if ((rc = parse_message(in, m, e)) == RF_OK)
		return RF_OK;
	if (rc == RF_EIO)
		return keep_failure(in, rc);
	if (m->type == RF_MSG_END)
		rf_blame(e, "%s: end record (byte %llu)", in->name, (unsigned long long)in->frame_offset);
	else
		blame_message(in, seq, in->frame_offset, e);
	return keep_failure(in, rc);
}

enum rf_code rf_next(struct rf_in *in, struct rf_record **rec, struct rf_err *e)
{
	struct rf_msg m;
	enum rf_code rc = read_message(in, &m, e);

	if (rc != RF_OK)
		return rc;
	if (m.type == RF_MSG_END) {
		in->state = ENDED;
		return RF_EOF;
	}
	if ((rc = rf_record_decode(&in->rec, m.body.p, (size_t)(m.body.end - m.body.p), in->head.vocab, e)) !=
	    RF_OK) {
		rf_in_blame(in, e);
		return keep_failure(in, rc);
	}
	*rec = &in->rec;
	return RF_OK;
}

enum rf_code rf_next_message(struct rf_in *in, const void **msg, size_t *n, struct rf_err *e)
{
	struct rf_msg m;
	enum rf_code rc;

	if (in->state == HEAD_READ) {
		in->state = RECORDS;
	} else {
		if ((rc = read_message(in, &m, e)) != RF_OK)
			return rc;
		if (m.type == RF_MSG_END)
			in->state = ENDED;
	}
	*msg = in->msg;
	*n = in->msg_n;
	return RF_OK;
}

void rf_in_frame(const struct rf_in *in, const void **frame, size_t *n)
{
	*frame = in->buf + in->at - in->frame;
	*n = in->frame;
}

enum rf_code rf_in_reread(struct rf_in *in, const void *frame, size_t n, struct rf_record **rec,
                          struct rf_err *e)
{
	struct rf_frame f;
	struct rf_msg m;
	enum rf_code rc = rf_frame_header(&f, frame, e);

	if (rc == RF_OK)
		rc = decompress_frame(in, frame, n, f.content, e);
	if (rc == RF_OK)
		rc = rf_msg_open(&m, in->msg, in->msg_n, e);
	if (rc == RF_OK)
		rc = rf_record_decode(&in->rec, m.body.p, (size_t)(m.body.end - m.body.p), in->head.vocab, e);
	*rec = &in->rec;
	return rc;
}

/* ---- skipping ------------------------------------------------------------------------------ */

/* Moves past n bytes of a regular file.  Sets *cut if the file ends before. */
static enum rf_code pass_bytes(struct rf_in *in, uint64_t n, bool *cut, struct rf_err *e)
{
	size_t have = in->have - in->at;

	if (n <= have) {
		take_bytes(in, (size_t)n);
		return RF_OK;
	}
	*cut = *cut || n > (uint64_t)in->file_size - in->offset;
	in->at = in->have = 0;
	in->offset += n;
	if (lseek(in->fd, (off_t)(n - have), SEEK_CUR) < 0)
		return rf_fail(e, RF_EIO, "%s: seek: %s", in->name, strerror(errno));
	return RF_OK;
}

/* Moves past one frame without decompressing it. */
static enum rf_code pass_frame(struct rf_in *in, struct rf_err *e)
{
	struct rf_block b = { 0 };
	struct rf_frame f;
	bool cut = false;
	enum rf_code rc = read_frame_header(in, &f, e);

	if (rc == RF_OK)
		rc = pass_bytes(in, f.header, &cut, e);
	while (rc == RF_OK && !b.last) {
		if ((rc = fill_buffer(in, 3, e)) != RF_OK)
			return rc;
		if (cut || has_fewer(in, 3))
			return frame_truncated(e);
		if ((rc = rf_block_header(&b, &f, in->buf + in->at, e)) == RF_OK)
			rc = pass_bytes(in, 3 + b.wire + (b.last ? 4 : 0), &cut, e);
	}
	return rc == RF_OK && cut ? frame_truncated(e) : rc;
}

enum rf_code rf_skip(struct rf_in *in, uint64_t n, struct rf_err *e)
{
	struct rf_msg m;
	enum rf_code rc = may_continue(in, e);

	if (rc != RF_OK)
		return rc;
	while (n--) {
		uint64_t start = in->offset;

		in->frame_offset = start;
		if (in->file_size >= 0) {
			if ((rc = pass_skippable(in, e)) == RF_OK && !has_fewer(in, 1))
				rc = pass_frame(in, e);
			if (rc == RF_OK)
				rc = pass_skippable(in, e);
			if (rc == RF_OK && (uint64_t)in->file_size > in->offset) {
				in->seq++;
				in->hashed = false;
				continue;
			}
			if (rc != RF_OK) {
				if (rc != RF_EIO)
					blame_message(in, in->seq, start, e);
				return keep_failure(in, rc);
			}
			/* the last frame of the file must be the end record, which is read */
			in->at = in->have = 0;
			in->eof = false;
			in->offset = start;
			if (lseek(in->fd, (off_t)start, SEEK_SET) < 0)
				return keep_failure(in, rf_fail(e, RF_EIO, "%s: seek: %s", in->name,
				                                strerror(errno)));
		}
		if ((rc = read_message(in, &m, e)) != RF_OK)
			return rc;
		if (m.type == RF_MSG_END) {
			in->state = ENDED;
			return RF_EOF;
		}
	}
	return RF_OK;
}

/* ---- opening ------------------------------------------------------------------------------- */

/* Decompresses the start of a zstd frame that a stream cannot have, for rf_sniff().  Returns how many bytes
 * it has; 0 if it cannot be read.  The decoder needs neither a content size nor a checksum, and the window
 * that it may have bounds its memory. */
static size_t peek_foreign(struct rf_in *in, unsigned char *out, size_t size)
{
	ZSTD_DStream *zstd = ZSTD_createDStream();
	ZSTD_outBuffer to = { out, size, 0 };
	struct rf_err unused;

	if (zstd && fill_buffer(in, RF_FRAME_HEADER_MAX + 3 + RF_BLOCK_MAX, &unused) == RF_OK &&
	    !ZSTD_isError(ZSTD_DCtx_setParameter(zstd, ZSTD_d_windowLogMax, 23))) {
		ZSTD_inBuffer from = { in->buf + in->at, in->have - in->at, 0 };
		if (ZSTD_isError(ZSTD_decompressStream(zstd, &to, &from)))
			to.pos = 0;
	}
	ZSTD_freeDStream(zstd);
	return to.pos;
}

/* Looks at the first bytes of the input, which may be anything.  A failure says what they look like. */
static enum rf_code look_at_start(struct rf_in *in, struct rf_err *e)
{
	enum rf_code rc = fill_buffer(in, 4, e);
	const char *looks;
	char buf[200];

	if (rc != RF_OK)
		return rc;
	if (has_fewer(in, 1))
		return rf_fail(e, RF_EDATA,
		               "%s: the stream is empty (the program that writes it produced nothing)",
		               in->name);
	/* reads more only if this is not a stream: a head may be shorter, and nothing may follow for a
	 * while */
	if (rf_sniff(buf, sizeof buf, in->buf + in->at, in->have - in->at) &&
	    (rc = fill_buffer(in, RF_SNIFF, e)) != RF_OK)
		return rc;
	if ((looks = rf_sniff(buf, sizeof buf, in->buf + in->at, in->have - in->at)))
		return rf_fail(e, RF_EDATA, "%s: not an rf stream: %s", in->name, looks);
	return RF_OK;
}

/* Reads and checks the head. */
static enum rf_code read_head(struct rf_in *in, struct rf_err *e)
{
	unsigned char inside[RF_SNIFF];
	const char *looks = NULL;
	struct rf_msg m;
	enum rf_code rc;
	char buf[200];
	size_t n = 0;

	if ((rc = parse_message(in, &m, e)) == RF_OK) {
		if ((rc = rf_head_decode(&in->head, m.body, e)) == RF_OK)
			return RF_OK;
		return blame_message(in, 0, 0, e);
	}
	if (rc == RF_EDATA && in->msg_n)
		looks = in->msg[0] != 0x93 ? rf_sniff(buf, sizeof buf, in->msg, in->msg_n) : NULL;
	else if (rc == RF_EDATA && !has_fewer(in, 5) && (n = peek_foreign(in, inside, sizeof inside)) &&
	         inside[0] != 0x93)
		looks = rf_sniff(buf, sizeof buf, inside, n);
	if (looks)
		return rf_fail(e, RF_EDATA, "%s: not an rf stream: a zstd frame with other contents: %s",
		               in->name, looks);
	return rc == RF_EIO ? rc : blame_message(in, 0, in->frame_offset, e);
}

/* Reads the head of a new input, which is closed if that fails. */
static enum rf_code begin_reading(struct rf_in **to, struct rf_in *in, struct rf_err *e)
{
	enum rf_code rc;

	in->zstd = ZSTD_createDCtx();
	in->hash = XXH64_createState();
	if (!in->zstd || !in->hash) {
		rf_in_close(in);
		return rf_fail(e, RF_ENOMEM, "out of memory");
	}
	XXH64_reset(in->hash, 0);
	in->hashed = true;
	if ((rc = look_at_start(in, e)) != RF_OK || (rc = read_head(in, e)) != RF_OK) {
		rf_in_close(in);
		return rc;
	}
	*to = in;
	return RF_OK;
}

/* Returns an input that nothing was read from; NULL if memory ran out. */
static struct rf_in *new_input(const char *name, uint64_t max_record)
{
	struct rf_in *in = calloc(1, sizeof *in);

	if (in) {
		in->fd = -1;
		in->file_size = -1;
		rf_quote(in->name, sizeof in->name, name, strlen(name));
		in->max_record = max_record ? max_record : RF_MAX_RECORD;
		rf_head_init(&in->head);
		rf_record_init(&in->rec);
	}
	return in;
}

static int open_file(const char *path)
{
	int fd;

	while ((fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY)) < 0 && errno == EINTR)
		;
	return fd;
}

enum rf_code rf_in_open(struct rf_in **to, const char *path, uint64_t max_record, struct rf_err *e)
{
	bool standard = !path || !strcmp(path, "-");
	struct rf_in *in = new_input(standard ? "<stdin>" : path, max_record);
	struct stat st = { 0 };

	*to = NULL;
	if (!in)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	if (standard && isatty(STDIN_FILENO)) {
		rf_in_close(in);
		return rf_fail(e, RF_EUSAGE, "<stdin>: is a terminal: name a file, or pipe a stream into it");
	}
	in->fd = standard ? STDIN_FILENO : open_file(path);
	/* a standard input that was closed is replaced by a descriptor that can only be written to */
	if (standard && (fcntl(STDIN_FILENO, F_GETFL) & O_ACCMODE) == O_WRONLY) {
		rf_in_close(in);
		return rf_fail(e, RF_ENOINPUT, "<stdin>: %s", strerror(EBADF));
	}
	if (in->fd < 0 || fstat(in->fd, &st) || S_ISDIR(st.st_mode)) {
		rf_fail(e, RF_ENOINPUT, "%s: %s", in->name,
		        in->fd >= 0 && S_ISDIR(st.st_mode) ? "is a directory" : strerror(errno));
		rf_in_close(in);
		return RF_ENOINPUT;
	}
	if (S_ISREG(st.st_mode) && !lseek(in->fd, 0, SEEK_CUR))
		in->file_size = st.st_size;
	return begin_reading(to, in, e);
}

enum rf_code rf_in_open_bytes(struct rf_in **to, const void *data, size_t n, const char *name,
                              uint64_t max_record, struct rf_err *e)
{
	struct rf_in *in = new_input(name, max_record);

	*to = NULL;
	if (!in)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	in->buf = (unsigned char *)data;
	in->have = in->cap = n;
	in->eof = true;
	return begin_reading(to, in, e);
}

void rf_in_close(struct rf_in *in)
{
	if (!in)
		return;
	if (in->fd > STDIN_FILENO)
		close(in->fd);
	if (in->fd >= 0)
		free(in->buf);
	free(in->msg);
	ZSTD_freeDCtx(in->zstd);
	XXH64_freeState(in->hash);
	rf_head_free(&in->head);
	rf_record_free(&in->rec);
	free(in);
}

const struct rf_head *rf_in_head(const struct rf_in *in)
{
	return &in->head;
}

const char *rf_in_name(const struct rf_in *in)
{
	return in->name;
}

uint64_t rf_in_claimed(const struct rf_in *in)
{
	return in->claimed;
}

uint64_t rf_in_count(const struct rf_in *in)
{
	return in->seq - 1 - (in->state == ENDED);
}

uint64_t rf_in_bytes(const struct rf_in *in)
{
	return in->offset;
}

int rf_in_fd(const struct rf_in *in)
{
	return in->have > in->at || in->eof ? -1 : in->fd;
}
