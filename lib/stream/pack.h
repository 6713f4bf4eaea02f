/* pack.h -- msgpack at the level of bytes: a cursor that trusts nothing, and packing into a buffer.
 *
 * The cursor allocates nothing and knows where every value begins and ends, so that what a program does not
 * know can pass through it byte for byte.  Writing is msgpack-c's own packer. */
#ifndef RF_PACK_H
#define RF_PACK_H

#include <msgpack/pack.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* ---- reading ------------------------------------------------------------------------------- */

enum rf_mp_type { RF_MP_NIL, RF_MP_BOOL, RF_MP_UINT, RF_MP_INT, RF_MP_REAL, RF_MP_STR, RF_MP_BIN, RF_MP_ARRAY,
                  RF_MP_MAP };

struct rf_mp { const unsigned char *p, *end; };

struct rf_mp_item {
	enum rf_mp_type type;
	bool b;
	uint64_t u;                /* UINT */
	int64_t i;                 /* INT: always negative */
	double f;                  /* REAL */
	uint32_t n;                /* STR, BIN: bytes; ARRAY: elements; MAP: pairs */
	const unsigned char *data; /* STR, BIN */
};

/* Reads one item; of an array or map only its head, the elements are the next items.  NULL, or what is wrong
 * with the bytes; the cursor then stays. */
const char *rf_mp_next(struct rf_mp *m, struct rf_mp_item *it);
/* Passes over one whole object of at most so many items; NULL, or what is wrong with it. */
const char *rf_mp_skip_some(struct rf_mp *m, uint64_t most);
/* Passes over one whole object that rf_msg_check() has seen (or what is left, if it is cut short). */
void rf_mp_skip(struct rf_mp *m);
/* A map's next key, as an item of type STR, and its value's bytes, of an object that rf_msg_check()
 * has seen. */
void rf_mp_pair(struct rf_mp *m, struct rf_mp_item *key, struct rf_mp *value);
bool rf_mp_is(const struct rf_mp_item *str, const char *word);
/* The value of a map's key; p NULL: there is none, or this is no map. */
struct rf_mp rf_mp_get(struct rf_mp map, const char *word);

/* ---- writing ------------------------------------------------------------------------------- */

void rf_pack_init(msgpack_packer *pk, struct rf_buf *b);
void rf_pack_str(msgpack_packer *pk, const void *s, size_t n);
void rf_pack_text(msgpack_packer *pk, const char *s);
void rf_pack_bin(msgpack_packer *pk, const void *data, size_t n);
/* The map {dtype, shape, data} that an array is. */
void rf_pack_array(msgpack_packer *pk, const char *dtype, int ndim, const int *shape, const void *data,
                   size_t bytes);

#endif
