/* pack.c -- reads msgpack one item at a time.  Each item begins with its type and length.  The cursor
 * compares every length with the bytes left, so nothing is allocated or skipped because of an unchecked
 * length.  A table says how many bytes follow each of the 32 first bytes 0xc0 to 0xdf. */
#include <stdlib.h>
#include <string.h>

#include "stream/pack.h"

/* Returns the unsigned number in n bytes, most significant first. */
static uint64_t big_endian(const unsigned char *p, int n)
{
	uint64_t v = 0;

	for (int i = 0; i < n; i++)
		v = v << 8 | p[i];
	return v;
}

static void signed_item(struct rf_mp_item *it, int64_t v)
{
	it->type = v < 0 ? RF_MP_INT : RF_MP_UINT;
	it->i = v;
	it->u = (uint64_t)v;
}

static void real_item(struct rf_mp_item *it, uint64_t bits, bool single)
{
	uint32_t half = (uint32_t)bits;
	float f;

	it->type = RF_MP_REAL;
	if (single) {
		memcpy(&f, &half, sizeof f);
		it->f = (double)f;
	} else {
		memcpy(&it->f, &bits, sizeof it->f);
	}
}

/* Makes the item that begins with the byte tag.  v: the number in the bytes that follow the tag, if any
 * do. */
static void make_item(struct rf_mp_item *it, unsigned tag, uint64_t v)
{
	if (tag < 0x80) {
		it->type = RF_MP_UINT;
		it->u = tag;
	} else if (tag >= 0xe0) {
		signed_item(it, (int64_t)tag - 256);
	} else if (tag < 0x90 || tag >= 0xde) {
		it->type = RF_MP_MAP;
		it->n = tag < 0x90 ? tag & 15 : (uint32_t)v;
	} else if (tag < 0xa0 || tag >= 0xdc) {
		it->type = RF_MP_ARRAY;
		it->n = tag < 0xa0 ? tag & 15 : (uint32_t)v;
	} else if (tag < 0xc0 || tag >= 0xd9) {
		it->type = RF_MP_STR;
		it->n = tag < 0xc0 ? tag & 31 : (uint32_t)v;
	} else
		switch (tag) {
		case 0xc0: it->type = RF_MP_NIL; break;
		case 0xc2:
		case 0xc3: it->type = RF_MP_BOOL, it->b = tag & 1; break;
		case 0xc4:
		case 0xc5:
		case 0xc6: it->type = RF_MP_BIN, it->n = (uint32_t)v; break;
		case 0xca: real_item(it, v, true); break;
		case 0xcb: real_item(it, v, false); break;
		case 0xd0: signed_item(it, (int8_t)v); break;
		case 0xd1: signed_item(it, (int16_t)v); break;
		case 0xd2: signed_item(it, (int32_t)v); break;
		case 0xd3: signed_item(it, (int64_t)v); break;
		default: it->type = RF_MP_UINT, it->u = v;
		}
}

const char *rf_mp_next(struct rf_mp *m, struct rf_mp_item *it)
{
	/* bytes of a length or a number that follow the first bytes 0xc0 .. 0xdf */
	static const signed char follow[32] = {
		0, -1, 0, 0, 1,  2,  4,  -2, -2, -2, 4, 8, 1, 2, 4, 8,
		1, 2,  4, 8, -2, -2, -2, -2, -2, 1,  2, 4, 2, 4, 2, 4,
	};
	const unsigned char *p = m->p;
	unsigned tag;
	uint64_t v = 0;

	if (p == m->end)
		return "the message is cut short";
	tag = *p++;
	if (tag >= 0xc0 && tag < 0xe0) {
		int n = follow[tag - 0xc0];
		if (n < 0)
			return n == -1 ? "byte c1 does not begin a msgpack object" : "an extension type";
		if (m->end - p < n)
			return "the message is cut short";
		v = big_endian(p, n);
		p += n;
	}
	memset(it, 0, sizeof *it);
	make_item(it, tag, v);
	if (it->type == RF_MP_STR || it->type == RF_MP_BIN) {
		if ((size_t)(m->end - p) < it->n)
			return "a string claims more bytes than there are";
		it->data = p;
		p += it->n;
	} else if (it->type == RF_MP_ARRAY || it->type == RF_MP_MAP) {
		uint64_t objects = (uint64_t)it->n * (it->type == RF_MP_MAP ? 2 : 1);
		if ((size_t)(m->end - p) < objects)
			return "a list or map claims more elements than there are bytes";
	}
	m->p = p;
	return NULL;
}

const char *rf_mp_skip_some(struct rf_mp *m, uint64_t most)
{
	struct rf_mp_item it;
	const char *why;

	for (uint64_t left = 1; left; left--) {
		if (!most--)
			return "more than 100000 values in one message";
		if ((why = rf_mp_next(m, &it)))
			return why;
		left += it.type == RF_MP_MAP ? 2 * (uint64_t)it.n : it.type == RF_MP_ARRAY ? it.n : 0;
	}
	return NULL;
}

void rf_mp_skip(struct rf_mp *m)
{
	if (rf_mp_skip_some(m, UINT64_MAX))
		m->p = m->end;
}

void rf_mp_pair(struct rf_mp *m, struct rf_mp_item *key, struct rf_mp *value)
{
	if (rf_mp_next(m, key))
		m->p = m->end;
	value->p = m->p;
	rf_mp_skip(m);
	value->end = m->p;
}

bool rf_mp_is(const struct rf_mp_item *str, const char *word)
{
	return str->type == RF_MP_STR && strlen(word) == str->n && !memcmp(word, str->data, str->n);
}

struct rf_mp rf_mp_get(struct rf_mp map, const char *word)
{
	struct rf_mp_item it, key;
	struct rf_mp value;

	if (map.p && !rf_mp_next(&map, &it) && it.type == RF_MP_MAP)
		for (uint32_t i = 0; i < it.n; i++) {
			rf_mp_pair(&map, &key, &value);
			if (rf_mp_is(&key, word))
				return value;
		}
	return (struct rf_mp){ NULL, NULL };
}

static int add_bytes(void *b, const char *data, size_t n)
{
	rf_buf_add(b, data, n);
	return 0;
}

void rf_pack_init(msgpack_packer *pk, struct rf_buf *b) { msgpack_packer_init(pk, b, add_bytes); }

void rf_pack_str(msgpack_packer *pk, const void *s, size_t n)
{
	msgpack_pack_str(pk, n);
	msgpack_pack_str_body(pk, s, n);
}

void rf_pack_text(msgpack_packer *pk, const char *s) { rf_pack_str(pk, s, strlen(s)); }

void rf_pack_bin(msgpack_packer *pk, const void *data, size_t n)
{
	msgpack_pack_bin(pk, n);
	msgpack_pack_bin_body(pk, data, n);
}

void rf_pack_array(msgpack_packer *pk, const char *dtype, int ndim, const int *shape, const void *data,
                   size_t bytes)
{
	msgpack_pack_map(pk, 3);
	rf_pack_text(pk, "dtype");
	rf_pack_text(pk, dtype);
	rf_pack_text(pk, "shape");
	msgpack_pack_array(pk, (size_t)ndim);
	for (int i = 0; i < ndim; i++)
		msgpack_pack_uint64(pk, (uint64_t)shape[i]);
	rf_pack_text(pk, "data");
	rf_pack_bin(pk, data, bytes);
}
