/* wire.h -- the interface inside lib/stream: messages to and from msgpack, zstd frames, streams in memory. */
#ifndef RF_WIRE_H
#define RF_WIRE_H

#include "base/err.h"
#include "stream/pack.h"
#include "stream/stream.h"

/* ---- messages ------------------------------------------------------------------------------ */

enum rf_msg_type { RF_MSG_HEAD, RF_MSG_SEQ, RF_MSG_END };
extern const char *const rf_msg_types[RF_MSG_END + 1];

struct rf_msg {
	uint64_t seq;
	enum rf_msg_type type;
	struct rf_mp body;
};

/* Splits a message [seq, type, body] that has passed rf_msg_check().  Errors: RF_EDATA: the message does not
 * have this form. */
enum rf_code rf_msg_open(struct rf_msg *m, const void *msg, size_t n, struct rf_err *e);
/* Checks that a message may be number seq of a stream.  Errors: RF_EDATA. */
enum rf_code rf_msg_expect(const struct rf_msg *m, uint64_t seq, struct rf_err *e);

/* An end record: the number of records, and the XXH64 of all messages before the end record. */
struct rf_end {
	uint64_t count, xxh64;
};
/* Reads the body of an end record.  Errors: RF_EDATA, RF_ENOMEM. */
enum rf_code rf_end_decode(struct rf_end *end, struct rf_mp body, struct rf_err *e);

/* Append a whole message to b.  b->failed is set if memory ran out. */
void rf_head_encode(struct rf_buf *b, const struct rf_head *h);
void rf_record_encode(struct rf_buf *b, uint64_t seq, const struct rf_record *r);
void rf_end_encode(struct rf_buf *b, uint64_t seq, const struct rf_end *end);

/* Reads the body of a head that has passed rf_msg_check() into h, which must be initialised. */
enum rf_code rf_head_decode(struct rf_head *h, struct rf_mp body, struct rf_err *e);

/* Sorts the pairs of a map by known keys: value[i] becomes the bytes of the value of words[i] (p NULL:
 * absent).  Appends pairs with other keys to `unknown` and adds their number to *unknowns.  what: the map's
 * name for messages.  Errors: RF_EDATA: the object is not a map, or a value is nil; RF_ENOMEM. */
enum rf_code rf_map_sort(struct rf_mp map, const char *what, const char *const *words, int n,
                         struct rf_mp *value, struct rf_buf *unknown, int *unknowns, struct rf_err *e);

/* ---- frames -------------------------------------------------------------------------------- */

enum { RF_FRAME_HEADER_MAX = 18, RF_BLOCK_MAX = 128 << 10 };
#define RF_WINDOW_MAX (UINT64_C(8) << 20)

struct rf_frame {
	size_t header;      /* bytes of the header, including the magic number */
	uint64_t content;   /* decompressed bytes that the frame claims to have */
	uint64_t window;    /* bytes that a decoder must keep */
	uint64_t block_max; /* largest number of decompressed bytes in one block */
};

/* Returns the length of a frame's header, which its first 5 bytes determine. */
size_t rf_frame_header_size(const unsigned char p[5]);
/* Reads a whole header.  Errors: RF_EDATA: no frame begins here, or a frame of a kind that a stream must not
 * have. */
enum rf_code rf_frame_header(struct rf_frame *f, const unsigned char *p, struct rf_err *e);

/* wire: bytes that follow the block's 3-byte header; most: number of bytes that they can decompress to */
struct rf_block {
	bool last;
	size_t wire, most;
};
/* Reads the header of a block of the frame f.  Errors: RF_EDATA: no valid block begins like this. */
enum rf_code rf_block_header(struct rf_block *b, const struct rf_frame *f, const unsigned char p[3],
                             struct rf_err *e);

/* ---- inputs -------------------------------------------------------------------------------- */

/* Opens a stream of n bytes in memory, which the caller keeps valid until rf_in_close().  name: the stream's
 * name for messages.  Errors: as rf_in_open(). */
enum rf_code rf_in_open_bytes(struct rf_in **in, const void *data, size_t n, const char *name,
                              uint64_t max_record, struct rf_err *e);

/* rf_in_frame() sets *frame to the compressed frame of the message read last, valid until the next call.
 * rf_in_reread() decodes the record in a copy of such a frame; *rec is valid until the next call. */
void rf_in_frame(const struct rf_in *in, const void **frame, size_t *n);
enum rf_code rf_in_reread(struct rf_in *in, const void *frame, size_t n, struct rf_record **rec,
                          struct rf_err *e);

#endif
