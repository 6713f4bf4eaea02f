/* wire.h -- what the files of the stream share among themselves: bodies to and from msgpack, frames, and an
 * input that lies in memory. */
#ifndef RF_WIRE_H
#define RF_WIRE_H

#include "base/err.h"
#include "stream/pack.h"
#include "stream/stream.h"

/* ---- messages ------------------------------------------------------------------------------ */

enum rf_msg_type { RF_MSG_HEAD, RF_MSG_SEQ, RF_MSG_END };

struct rf_msg { uint64_t seq; enum rf_msg_type type; struct rf_mp body; };

/* Takes [seq, type, body] apart; the bytes have passed rf_msg_check().  RF_EDATA. */
enum rf_code rf_msg_open(struct rf_msg *m, const void *msg, size_t n, struct rf_err *e);

struct rf_end { uint64_t count, xxh64; };
enum rf_code rf_end_decode(struct rf_end *end, struct rf_mp body, struct rf_err *e);

/* Whole messages; b->failed says that memory ran out. */
void rf_head_encode(struct rf_buf *b, const struct rf_head *h);
void rf_record_encode(struct rf_buf *b, uint64_t seq, const struct rf_record *r);
void rf_end_encode(struct rf_buf *b, uint64_t seq, const struct rf_end *end);

/* The body of a head, of bytes that have passed rf_msg_check(). */
enum rf_code rf_head_decode(struct rf_head *h, struct rf_mp body, struct rf_err *e);

/* A map's {key: value} in the known order: value[i] is the span of words[i] (p NULL: absent), the rest goes
 * to unknown.  A nil is RF_EDATA. */
enum rf_code rf_map_sort(struct rf_mp map, const char *what, const char *const *words, int n,
                         struct rf_mp *value, struct rf_buf *unknown, int *unknowns, struct rf_err *e);

/* ---- frames -------------------------------------------------------------------------------- */

enum { RF_FRAME_HEADER_MAX = 18, RF_BLOCK_MAX = 128 << 10 };
#define RF_WINDOW_MAX (UINT64_C(8) << 20)

struct rf_frame {
	size_t header;      /* bytes of the header, magic number included */
	uint64_t content;   /* what it claims to hold */
	uint64_t window;    /* how far back a decoder must remember */
	uint64_t block_max; /* how much one block can hold at most */
};

/* How long a frame's header is, from its first 5 bytes. */
size_t rf_frame_header_size(const unsigned char p[5]);
/* Reads a whole header and refuses what a stream may not have. */
enum rf_code rf_frame_header(struct rf_frame *f, const unsigned char *p, struct rf_err *e);

/* bytes that follow the 3 of its header; bytes they may become */
struct rf_block { bool last; size_t wire, most; };
enum rf_code rf_block_header(struct rf_block *b, const struct rf_frame *f, const unsigned char p[3],
                             struct rf_err *e);

/* ---- inputs -------------------------------------------------------------------------------- */

/* A stream that lies in memory (which stays the caller's, until rf_in_close). */
enum rf_code rf_in_open_bytes(struct rf_in **in, const void *data, size_t n, const char *name,
                              uint64_t max_record, struct rf_err *e);

/* The compressed frame of the message read last, until the next call; and such a frame read again. */
void rf_in_frame(const struct rf_in *in, const void **frame, size_t *n);
enum rf_code rf_in_reread(struct rf_in *in, const void *frame, size_t n, struct rf_record **rec,
                          struct rf_err *e);

#endif
