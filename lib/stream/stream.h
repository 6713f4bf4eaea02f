/* stream.h -- reads and writes a stream of sequence records, in a pipe or a file: rf-stream(5).
 *
 *     stream := frame(head) frame(record)* frame(end)
 *
 * Each message is one zstd frame, with content size and checksum, that contains one msgpack object [seq,
 * type, body].  A stream without its end record is truncated, whatever else it contains.  Every number in a
 * stream is checked before it decides an allocation. */
#ifndef RF_STREAM_H
#define RF_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/opt.h"
#include "ranks/shard.h"
#include "stream/record.h"

/* The number of the format.  A version that reads a new number also reads the old ones: rf-stream(5),
 * VERSIONS. */
#define RF_FORMAT     1
#define RF_MAX_RECORD (UINT64_C(256) << 20)

/* ---- head ---------------------------------------------------------------------------------- */

struct rf_head {
	int vocab; /* 0: not given */
	bool has_seed;
	uint64_t seed;
	char tokenizer_kind[32];    /* "": not given */
	char tokenizer_hash[17];    /* 16 hex digits; "": not given */
	char arch[17], weights[17]; /* hashes of the model that computed the records' values; "": not given */
	int64_t step;               /* that model's optimizer step; -1: not given */
	struct rf_shard shard;      /* the share of a rank that the records are */
	void *history;              /* list of stages, in a form private to stream_head.c */
	struct rf_raw unknown;      /* unknown keys with their values */
	int unknowns;               /* number of unknown keys */
};

void rf_head_init(struct rf_head *h);
/* Makes *to a copy of *from with memory of its own; what *to held before is overwritten, not freed.  Errors:
 * RF_ENOMEM. */
enum rf_code rf_head_copy(struct rf_head *to, const struct rf_head *from, struct rf_err *e);
void rf_head_free(struct rf_head *h);
/* Sets *hash to a hash of the head without its shard, which is equal for all shares of one stream.  Errors:
 * RF_ENOMEM. */
enum rf_code rf_head_hash(const struct rf_head *h, uint64_t *hash, struct rf_err *e);
/* rf_head_stage() appends a stage to the history.  rf_head_option() then adds its options, in order.  A flag
 * is written as a boolean, a number as a number, a list as a list of texts, and any other value as its
 * text.  An option without a value is left out.  Errors: RF_ENOMEM; RF_EUSAGE: a text is not UTF-8. */
enum rf_code rf_head_stage(struct rf_head *h, const char *tool, const char *version, struct rf_err *e);
enum rf_code rf_head_option(struct rf_head *h, const struct rf_opt *o, struct rf_err *e);
/* Records that another model than that of the head computed the values of the stage that was appended last:
 * hashes of the model, and its optimizer step.  Errors: RF_ENOMEM. */
enum rf_code rf_head_stage_model(struct rf_head *h, const char *arch, const char *weights, int64_t step,
                                 struct rf_err *e);

/* Sets *value to the whole number that the history records for an option of a tool, in the newest stage that
 * has one.  It lets a program expect sizes before the first record arrives.  The stage that is being appended
 * is not searched.  Returns false if no stage has such an option, or its value is not a whole number of 0 or
 * more. */
bool rf_head_asked(const struct rf_head *h, const char *tool, const char *option, int64_t *value);

/* ---- reading ------------------------------------------------------------------------------- */

struct rf_in;

/* Opens a stream and reads its head.  path NULL or "-": standard input, which must not be a terminal.
 * max_record: bytes that one decompressed message may have (0: RF_MAX_RECORD).  Errors: RF_ENOINPUT: the
 * input cannot be opened; RF_EUSAGE: standard input is a terminal; RF_EDATA: the input is not a stream (the
 * sentence says what it looks like), or its head is invalid; RF_EIO, RF_ENOMEM. */
enum rf_code rf_in_open(struct rf_in **in, const char *path, uint64_t max_record, struct rf_err *e);
const struct rf_head *rf_in_head(const struct rf_in *in);
const char *rf_in_name(const struct rf_in *in); /* "<stdin>" or the path */
/* Reads the next record, valid until the next call.  Returns RF_EOF after the end record, if its count and
 * hash are right and nothing follows it.  On failure the sentence says what is wrong and where ("<stdin>:
 * record 17 (byte 5678): ..."), and every later call fails too.  Errors: RF_EDATA, RF_EIO, RF_ENOMEM. */
enum rf_code rf_next(struct rf_in *in, struct rf_record **rec, struct rf_err *e);
/* Puts the place of the record read last, "<stdin>: record 17 (byte 5678): ", before the sentence of a
 * failure that a stage found in the record.  Returns e's code. */
enum rf_code rf_in_blame(const struct rf_in *in, struct rf_err *e);
/* The place of a record.  rf_in_place() returns the place of the record read last; rf_in_blame_at() does as
 * rf_in_blame() with a place that was kept. */
struct rf_place {
	uint64_t record, byte;
};
struct rf_place rf_in_place(const struct rf_in *in);
enum rf_code rf_in_blame_at(const struct rf_in *in, struct rf_place place, struct rf_err *e);
uint64_t rf_in_count(const struct rf_in *in); /* records read or skipped so far */
uint64_t rf_in_bytes(const struct rf_in *in); /* compressed bytes read or skipped so far */
/* Returns the hash of all messages, as the end record states it; valid after RF_EOF. */
uint64_t rf_in_claimed(const struct rf_in *in);
/* Returns the descriptor that rf_next() would wait for; -1 if unread bytes are buffered or the input has
 * ended. */
int rf_in_fd(const struct rf_in *in);
void rf_in_close(struct rf_in *in); /* in may be NULL */

/* The message level, for programs that show or copy messages unchanged.  Reads the next message: *msg is its
 * msgpack object, valid until the next call.  The first message returned is the head, the last one the end
 * record; RF_EOF follows.  A message is checked by rf_msg_check() and for the rules of frames, seq and type,
 * but not for the rules of records.  Do not mix this with rf_next().  Errors: as rf_next(). */
enum rf_code rf_next_message(struct rf_in *in, const void **msg, size_t *n, struct rf_err *e);
/* Skips n records.  In a regular file they are not decompressed; the end of the stream then verifies the
 * count of records, but not the hash.  Returns RF_EOF if fewer records are left. */
enum rf_code rf_skip(struct rf_in *in, uint64_t n, struct rf_err *e);

/* ---- writing ------------------------------------------------------------------------------- */

struct rf_out;

/* Begins a stream and writes its head.  path NULL or "-": standard output.  A file at another path appears
 * complete at rf_out_finish(), or not at all.  A FIFO or a device is written directly.  Errors: RF_EUSAGE:
 * the output is a terminal, or path is a directory; RF_EIO, RF_ENOMEM. */
enum rf_code rf_out_open(struct rf_out **out, const char *path, const struct rf_head *head, struct rf_err *e);
/* Sets how many bytes a message may have, RF_MAX_RECORD by default.  rf_put() refuses a larger record with
 * RF_EDATA, because the readers of the stream have the same limit and would fail later. */
void rf_out_limit(struct rf_out *out, uint64_t max_record);
/* Writes one record, unbuffered.  Errors: RF_ENUMERIC: rf_record_check() found a mistake in the record,
 * which is a bug of the program; RF_EDATA: the record is larger than the limit; RF_EIO, RF_ENOMEM. */
enum rf_code rf_put(struct rf_out *out, const struct rf_record *rec, struct rf_err *e);
/* Writes the end record and closes the output; a file is synced and renamed.  out is freed in any case.  To
 * be called only if the stage succeeded, that is after RF_EOF.  After a failure call rf_out_abandon(), so
 * that a reader sees a truncated stream. */
enum rf_code rf_out_finish(struct rf_out *out, struct rf_err *e);
void rf_out_abandon(struct rf_out *out); /* out may be NULL */

/* The message level: the caller gives the head, the records and the end record as msgpack objects.  A message
 * is checked like a message that rf_next_message() reads.  The end record is written with the hash of the
 * messages before it.  rf_out_close_messages() closes the output and frees out; it fails with RF_EDATA if the
 * end record is missing. */
enum rf_code rf_out_open_messages(struct rf_out **out, const char *path, struct rf_err *e);
enum rf_code rf_put_message(struct rf_out *out, const void *msg, size_t n, struct rf_err *e);
enum rf_code rf_out_close_messages(struct rf_out *out, struct rf_err *e);

#endif
