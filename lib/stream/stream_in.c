/* stream_in.c -- reads the messages of a stream, and the records in them. */
#include <stdlib.h>
#include <xxhash.h>

#include "io/magic.h"
#include "stream/frame_in.h"
#include "stream/msg.h"
#include "stream/sniff.h"
#include "stream/wire.h"

enum state { HEAD_READ, RECORDS, ENDED, FAILED };

struct rf_in {
	struct rf_frame_in frames;
	enum state state;
	enum rf_code failure;
	uint64_t seq; /* number of the next message */
	bool hashed;  /* whether all messages so far are in the hash: none was skipped */
	XXH64_state_t *hash;
	uint64_t claimed; /* the hash that the end record states */
	struct rf_head head;
	struct rf_record rec;
};

/* ---- where --------------------------------------------------------------------------------- */

/* Puts the place of a message before e's sentence: the message that begins at `offset` and has the number
 * seq. */
static enum rf_code blame_message(const struct rf_in *in, uint64_t seq, uint64_t offset, struct rf_err *e)
{
	if (!seq)
		return rf_blame(e, "%s: head (byte %llu)", rf_in_name(in), (unsigned long long)offset);
	return rf_blame(e, "%s: record %llu (byte %llu)", rf_in_name(in), (unsigned long long)seq,
	                (unsigned long long)offset);
}

struct rf_place rf_in_place(const struct rf_in *in)
{
	return (struct rf_place){ in->seq ? in->seq - 1 : 0, in->frames.offset };
}

enum rf_code rf_in_blame_at(const struct rf_in *in, struct rf_place place, struct rf_err *e)
{
	return blame_message(in, place.record, place.byte, e);
}

enum rf_code rf_in_blame(const struct rf_in *in, struct rf_err *e)
{
	return rf_in_blame_at(in, rf_in_place(in), e);
}

/* ---- messages ------------------------------------------------------------------------------ */

/* Checks that nothing follows the end record but skippable frames. */
static enum rf_code check_nothing_follows(struct rf_in *in, struct rf_err *e)
{
	struct rf_bytes *from = &in->frames.from;
	enum rf_code rc = rf_frame_in_pass_skippable(&in->frames, e);

	if (rc != RF_OK || (rc = rf_bytes_fill(from, 4, e)) != RF_OK)
		return rc;
	if (!rf_bytes_fewer(from, 4) && rf_magic_zstd(rf_bytes_next(from)))
		return rf_fail(e, RF_EDATA, "another frame follows it (join streams with rf-cat)");
	if (!rf_bytes_fewer(from, 1))
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
	enum rf_code rc = rf_frame_in_next(&in->frames, !in->seq, e);

	if (rc == RF_OK)
		rc = rf_msg_check(in->frames.msg, in->frames.msg_n, e);
	if (rc == RF_OK)
		rc = rf_msg_open(m, in->frames.msg, in->frames.msg_n, e);
	if (rc != RF_OK)
		return rc;
	if ((rc = rf_msg_expect(m, in->seq, e)) != RF_OK)
		return rc;
	if (m->type == RF_MSG_END)
		rc = check_end(in, m, e);
	else
		XXH64_update(in->hash, in->frames.msg, in->frames.msg_n);
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
		return rf_fail(e, in->failure, "%s: reading continued after a failure", rf_in_name(in));
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
		rf_blame(e, "%s: end record (byte %llu)", rf_in_name(in),
		         (unsigned long long)in->frames.offset);
	else
		blame_message(in, seq, in->frames.offset, e);
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
	*msg = in->frames.msg;
	*n = in->frames.msg_n;
	return RF_OK;
}

void rf_in_frame(const struct rf_in *in, const void **frame, size_t *n)
{
	*frame = rf_bytes_next(&in->frames.from) - in->frames.size;
	*n = in->frames.size;
}

enum rf_code rf_in_reread(struct rf_in *in, const void *frame, size_t n, struct rf_record **rec,
                          struct rf_err *e)
{
	struct rf_frame f;
	struct rf_msg m;
	enum rf_code rc = rf_frame_header(&f, frame, e);

	if (rc == RF_OK)
		rc = rf_frame_in_decompress(&in->frames, frame, n, f.content, e);
	if (rc == RF_OK)
		rc = rf_msg_open(&m, in->frames.msg, in->frames.msg_n, e);
	if (rc == RF_OK)
		rc = rf_record_decode(&in->rec, m.body.p, (size_t)(m.body.end - m.body.p), in->head.vocab, e);
	*rec = &in->rec;
	return rc;
}

/* ---- skipping ------------------------------------------------------------------------------ */

/* Skips the next frame of a regular file.  The last frame of the file must be the end record, which the
 * caller reads: the position then stays before it, and *skipped becomes false. */
static enum rf_code skip_frame(struct rf_in *in, bool *skipped, struct rf_err *e)
{
	struct rf_bytes *from = &in->frames.from;
	const uint64_t start = from->offset;
	enum rf_code rc = rf_frame_in_pass_skippable(&in->frames, e);

	in->frames.offset = start;
	if (rc == RF_OK && !rf_bytes_fewer(from, 1))
		rc = rf_frame_in_pass(&in->frames, e);
	if (rc == RF_OK)
		rc = rf_frame_in_pass_skippable(&in->frames, e);
	if (rc != RF_OK)
		return rc == RF_EIO ? rc : blame_message(in, in->seq, start, e);
	*skipped = (uint64_t)from->file_size > from->offset;
	return *skipped ? RF_OK : rf_bytes_rewind(from, start, e);
}

enum rf_code rf_skip(struct rf_in *in, uint64_t n, struct rf_err *e)
{
	struct rf_msg m;
	enum rf_code rc = may_continue(in, e);

	if (rc != RF_OK)
		return rc;
	while (n--) {
		bool skipped = false;

		if (in->frames.from.file_size >= 0 && (rc = skip_frame(in, &skipped, e)) != RF_OK)
			return keep_failure(in, rc);
		if (skipped) {
			in->seq++;
			in->hashed = false;
			continue;
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

/* Looks at the first bytes of the input, which may be anything.  A failure says what they look like. */
static enum rf_code look_at_start(struct rf_in *in, struct rf_err *e)
{
	struct rf_bytes *from = &in->frames.from;
	enum rf_code rc = rf_bytes_fill(from, 4, e);
	const char *looks;
	char buf[200];

	if (rc != RF_OK)
		return rc;
	if (rf_bytes_fewer(from, 1))
		return rf_fail(e, RF_EDATA,
		               "%s: the stream is empty (the program that writes it produced nothing)",
		               rf_in_name(in));
	/* reads more only if this is not a stream: a head may be shorter, and nothing may follow for a
	 * while */
	if (rf_sniff(buf, sizeof buf, rf_bytes_next(from), rf_bytes_left(from)) &&
	    (rc = rf_bytes_fill(from, RF_SNIFF, e)) != RF_OK)
		return rc;
	if ((looks = rf_sniff(buf, sizeof buf, rf_bytes_next(from), rf_bytes_left(from))))
		return rf_fail(e, RF_EDATA, "%s: not an rf stream: %s", rf_in_name(in), looks);
	return RF_OK;
}

/* Reads and checks the head. */
static enum rf_code read_head(struct rf_in *in, struct rf_err *e)
{
	struct rf_frame_in *f = &in->frames;
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
	if (rc == RF_EDATA && f->msg_n)
		looks = f->msg[0] != 0x93 ? rf_sniff(buf, sizeof buf, f->msg, f->msg_n) : NULL;
	else if (rc == RF_EDATA && !rf_bytes_fewer(&f->from, 5) &&
	         (n = rf_frame_in_peek(f, inside, sizeof inside)) && inside[0] != 0x93)
		looks = rf_sniff(buf, sizeof buf, inside, n);
	if (looks)
		return rf_fail(e, RF_EDATA, "%s: not an rf stream: a zstd frame with other contents: %s",
		               rf_in_name(in), looks);
	return rc == RF_EIO ? rc : blame_message(in, 0, f->offset, e);
}

/* Returns an input without bytes; NULL if memory ran out. */
static struct rf_in *new_input(uint64_t max_record, struct rf_err *e)
{
	struct rf_in *in = calloc(1, sizeof *in);

	if (!in) {
		rf_fail(e, RF_ENOMEM, "out of memory");
		return NULL;
	}
	in->frames.from.fd = -1;
	in->hashed = true;
	rf_head_init(&in->head);
	rf_record_init(&in->rec);
	if (rf_frame_in_init(&in->frames, max_record, e) == RF_OK && (in->hash = XXH64_createState())) {
		XXH64_reset(in->hash, 0);
		return in;
	}
	rf_in_close(in);
	rf_fail(e, RF_ENOMEM, "out of memory");
	return NULL;
}

/* Reads the head of a new input unless rc is a failure.  Closes the input if either failed. */
static enum rf_code begin_reading(struct rf_in **to, struct rf_in *in, enum rf_code rc, struct rf_err *e)
{
	if (rc == RF_OK && (rc = look_at_start(in, e)) == RF_OK && (rc = read_head(in, e)) == RF_OK)
		*to = in;
	else
		rf_in_close(in);
	return rc;
}

enum rf_code rf_in_open(struct rf_in **to, const char *path, uint64_t max_record, struct rf_err *e)
{
	struct rf_in *in = new_input(max_record, e);

	*to = NULL;
	return in ? begin_reading(to, in, rf_bytes_open(&in->frames.from, path, e), e) : RF_ENOMEM;
}

enum rf_code rf_in_open_bytes(struct rf_in **to, const void *data, size_t n, const char *name,
                              uint64_t max_record, struct rf_err *e)
{
	struct rf_in *in = new_input(max_record, e);

	*to = NULL;
	if (!in)
		return RF_ENOMEM;
	rf_bytes_open_memory(&in->frames.from, data, n, name);
	return begin_reading(to, in, RF_OK, e);
}

void rf_in_close(struct rf_in *in)
{
	if (!in)
		return;
	rf_frame_in_free(&in->frames);
	XXH64_freeState(in->hash);
	rf_head_free(&in->head);
	rf_record_free(&in->rec);
	free(in);
}

const struct rf_head *rf_in_head(const struct rf_in *in) { return &in->head; }

const char *rf_in_name(const struct rf_in *in) { return in->frames.from.name; }

uint64_t rf_in_claimed(const struct rf_in *in) { return in->claimed; }

uint64_t rf_in_count(const struct rf_in *in) { return in->seq - 1 - (in->state == ENDED); }

uint64_t rf_in_bytes(const struct rf_in *in) { return in->frames.from.offset; }

int rf_in_fd(const struct rf_in *in)
{
	const struct rf_bytes *from = &in->frames.from;

	return rf_bytes_left(from) || from->eof ? -1 : from->fd;
}
