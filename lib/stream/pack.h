/* pack.h -- msgpack at the level of bytes: a reading cursor that trusts no length, and packing into a buffer.
 *
 * The cursor allocates nothing.  It knows where every value begins and ends, so a program can pass on values
 * with unknown keys byte for byte.  Writing uses the packer of msgpack-c. */
#ifndef RF_PACK_H
#define RF_PACK_H

#include <msgpack/pack.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* ---- reading ------------------------------------------------------------------------------- */

enum rf_mp_type {
	RF_MP_NIL,
	RF_MP_BOOL,
	RF_MP_UINT,
	RF_MP_INT,
	RF_MP_REAL,
	RF_MP_STR,
	RF_MP_BIN,
	RF_MP_ARRAY,
	RF_MP_MAP
};

struct rf_mp {
	const unsigned char *p, *end;
}; /* a cursor: the bytes that are still to be read */

struct rf_mp_item {
	enum rf_mp_type type;
	bool b;
	uint64_t u;                /* UINT */
	int64_t i;                 /* INT: always negative */
	double f;                  /* REAL */
	uint32_t n;                /* STR, BIN: bytes; ARRAY: elements; MAP: pairs */
	const unsigned char *data; /* STR, BIN */
};

/* Reads one item.  For an array or a map that is only its head; the elements are the next items.  Returns
 * NULL, or what is wrong with the bytes; the cursor then does not move. */
const char *rf_mp_next(struct rf_mp *m, struct rf_mp_item *it);
/* Skips one whole object of at most `most` items.  Returns NULL, or what is wrong with it. */
const char *rf_mp_skip_some(struct rf_mp *m, uint64_t most);
/* Skips one whole object that has passed rf_msg_check().  If the object is malformed, skips to the end of the
 * bytes. */
void rf_mp_skip(struct rf_mp *m);
/* Reads the next pair of a map that has passed rf_msg_check() and whose head has been read: the key as an
 * item of type STR, the value as the bytes of one object. */
void rf_mp_pair(struct rf_mp *m, struct rf_mp_item *key, struct rf_mp *value);
/* Returns whether an item is a string equal to word. */
bool rf_mp_is(const struct rf_mp_item *str, const char *word);
/* Returns the bytes of the value of a map's key.  p is NULL if the map has no such key or the object is not a
 * map. */
struct rf_mp rf_mp_get(struct rf_mp map, const char *word);

/* ---- writing ------------------------------------------------------------------------------- */

void rf_pack_init(msgpack_packer *pk, struct rf_buf *b);
void rf_pack_str(msgpack_packer *pk, const void *s, size_t n);
void rf_pack_text(msgpack_packer *pk, const char *s);
void rf_pack_bin(msgpack_packer *pk, const void *data, size_t n);
/* Packs an array as the map {dtype, shape, data}. */
void rf_pack_array(msgpack_packer *pk, const char *dtype, int ndim, const int *shape, const void *data,
                   size_t bytes);

#endif
