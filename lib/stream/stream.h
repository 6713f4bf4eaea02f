/* stream.h -- a stream of sequence records, through a pipe or a file: rf-stream(5).
 *
 *     stream := frame(head) frame(record)* frame(end)
 *
 * One zstd frame per message with content size and checksum; one msgpack object [seq, type, body] per frame.
 * A stream without its end record is truncated, whatever it holds.  Nothing that a stream claims decides an
 * allocation before it was checked. */
#ifndef RF_STREAM_H
#define RF_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "stream/record.h"

#define RF_VERSION "0.1"
#define RF_FORMAT 1
#define RF_MAX_RECORD (UINT64_C(256) << 20)

/* ---- head ---------------------------------------------------------------------------------- */

struct rf_head {
	int vocab;                 /* 0: not said */
	bool has_seed;
	uint64_t seed;
	char tokenizer_kind[32];   /* "": not said */
	char tokenizer_hash[17];   /* 16 hex digits */
	char arch[17], weights[17];/* of the model whose values the records hold; "": not said */
	int64_t step;              /* -1: not said */
	void *history;             /* the list of stages, held by head.c */
	struct rf_raw unknown;     /* keys we do not know, as read */
	int unknowns;
};

void rf_head_init(struct rf_head *h);
enum rf_code rf_head_copy(struct rf_head *to, const struct rf_head *from, struct rf_err *e);
void rf_head_free(struct rf_head *h);
/* Appends a stage to the history, then its options in order.  Text is UTF-8 of n bytes. */
enum rf_code rf_head_stage(struct rf_head *h, const char *tool, const char *version, struct rf_err *e);
enum rf_code rf_head_option_bool(struct rf_head *h, const char *name, bool v, struct rf_err *e);
enum rf_code rf_head_option_int(struct rf_head *h, const char *name, int64_t v, struct rf_err *e);
enum rf_code rf_head_option_uint(struct rf_head *h, const char *name, uint64_t v, struct rf_err *e);
enum rf_code rf_head_option_real(struct rf_head *h, const char *name, double v, struct rf_err *e);
enum rf_code rf_head_option_text(struct rf_head *h, const char *name, const char *s, size_t n,
                                 struct rf_err *e);

/* A whole number that the newest stage of this name was run with: what the records are likely to be like,
 * before the first is there.  False: there is no such stage, option or number. */
bool rf_head_asked(const struct rf_head *h, const char *tool, const char *option, int64_t *value);

/* ---- reading ------------------------------------------------------------------------------- */

struct rf_in;

/* path NULL or "-": standard input (which may not be a terminal).  Reads the head.  max_record bounds the
 * decompressed size of one message (0: RF_MAX_RECORD). */
enum rf_code rf_in_open(struct rf_in **in, const char *path, uint64_t max_record, struct rf_err *e);
const struct rf_head *rf_in_head(const struct rf_in *in);
const char *rf_in_name(const struct rf_in *in);          /* "<stdin>" or the path */
/* The next record, valid until the next call.  RF_EOF: the end record was read, its count and hash hold, and
 * nothing follows.  Anything else: e says what, where ("<stdin>: record 17 (byte 5678): ..."). */
enum rf_code rf_next(struct rf_in *in, struct rf_record **rec, struct rf_err *e);
/* Puts "<stdin>: record 17 (byte 5678): " of the record read last in front of a failure that a
 * stage found in it. */
enum rf_code rf_in_blame(const struct rf_in *in, struct rf_err *e);
uint64_t rf_in_count(const struct rf_in *in);            /* records read so far */
uint64_t rf_in_bytes(const struct rf_in *in);            /* compressed bytes read so far */
/* of the messages read so far, the end record not among them */
uint64_t rf_in_hash(const struct rf_in *in);
/* after RF_EOF: what the end record says that hash is */
uint64_t rf_in_claimed(const struct rf_in *in);
/* The descriptor that rf_next() would wait for; -1 where bytes are at hand, so that it would not. */
int rf_in_fd(const struct rf_in *in);
void rf_in_close(struct rf_in *in);                      /* NULL is fine */

/* The message level, for programs that show or copy messages as they are.  *msg is the msgpack object of the
 * next frame, checked (rf_msg_check, frame rules, seq and type; not the record's rules), until the next call;
 * the head is the first, the end record the last one that is returned.  RF_EOF after it.  Not to be mixed
 * with rf_next(). */
enum rf_code rf_next_message(struct rf_in *in, const void **msg, size_t *n, struct rf_err *e);
/* Skips n records without decompressing them where the input is a regular file; RF_EOF: there were fewer.
 * The stream's hash is then not verified, its count is. */
enum rf_code rf_skip(struct rf_in *in, uint64_t n, struct rf_err *e);

/* ---- writing ------------------------------------------------------------------------------- */

struct rf_out;

/* path NULL or "-": standard output (never a terminal: RF_EUSAGE).  Another path appears whole at
 * rf_out_finish() or not at all (a FIFO or device is written directly).  Writes the head. */
enum rf_code rf_out_open(struct rf_out **out, const char *path, const struct rf_head *head, struct rf_err *e);
/* Records of more bytes are refused, RF_EDATA: whoever reads them has such a limit, and would find out later.
 * RF_MAX_RECORD before. */
void rf_out_limit(struct rf_out *out, uint64_t max_record);
/* Writes one record and flushes it.  Refuses a record that rf_record_check() refuses (RF_ENUMERIC:
 * our own bug). */
enum rf_code rf_put(struct rf_out *out, const struct rf_record *rec, struct rf_err *e);
/* Writes the end record, syncs and renames a file, closes.  Call it only after RF_EOF: a stage that failed
 * leaves a stream that its reader sees as truncated.  out is freed in any case. */
enum rf_code rf_out_finish(struct rf_out *out, struct rf_err *e);
void rf_out_abandon(struct rf_out *out);                 /* NULL is fine */

/* The message level: begins with no head; the caller gives head, records and end as msgpack objects. */
enum rf_code rf_out_open_messages(struct rf_out **out, const char *path, struct rf_err *e);
enum rf_code rf_put_message(struct rf_out *out, const void *msg, size_t n, struct rf_err *e);
enum rf_code rf_out_close_messages(struct rf_out *out, struct rf_err *e);

#endif
