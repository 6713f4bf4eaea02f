/* msg_json.c -- converts a message to a line of JSON and back: rf-stream(5), "JSON form".
 *
 * The conversion works on the msgpack values, not on records, so the order of keys, unknown keys and the
 * difference between integers and floats survive.  A value that JSON lacks is written as an object with one
 * key: {"base64": ..} is binary, {"literal": ..} is a string or map that would otherwise be taken for
 * another value. */
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/print.h"
#include "base/utf8.h"
#include "io/jscan.h"
#include "stream/msg.h"
#include "stream/wire.h"

/* The largest integer that is written as a number.  Readers of JSON that have only doubles would change a
 * larger one, so it is written as a string. */
static const int64_t EXACT = INT64_C(1) << 53;

static const struct dtype {
	const char *name;
	size_t size;
} dtypes[] = {
	{ "<f4", 4 }, { "<i4", 4 }, { "<f2", 2 }, { "<i8", 8 }, { "|u1", 1 },
};
enum { F4, I4, F2, I8, U1, DTYPES };

/* ---- to JSON ------------------------------------------------------------------------------- */

static void put_uint(struct rf_buf *b, uint64_t v)
{
	rf_print(b, v > (uint64_t)EXACT ? "\"%" PRIu64 "\"" : "%" PRIu64, v);
}

static void put_int(struct rf_buf *b, int64_t v)
{
	rf_print(b, v < -EXACT ? "\"%" PRId64 "\"" : "%" PRId64, v);
}

static void put_base64(struct rf_buf *b, const unsigned char *p, size_t n)
{
	static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	rf_print_text(b, "{\"base64\":\"");
	for (size_t i = 0; i < n; i += 3) {
		uint32_t v = (uint32_t)p[i] << 16 | (i + 1 < n ? (uint32_t)p[i + 1] << 8 : 0) |
		             (i + 2 < n ? p[i + 2] : 0u);
		char four[4] = { digit[v >> 18], digit[v >> 12 & 63], i + 1 < n ? digit[v >> 6 & 63] : '=',
			         i + 2 < n ? digit[v & 63] : '=' };
		rf_buf_add(b, four, 4);
	}
	rf_print_text(b, "\"}");
}

/* Returns whether a string would be read as an integer beyond EXACT: then *v is its absolute value. */
static bool is_big_integer(const char *s, size_t n, bool *negative, uint64_t *v)
{
	size_t sign = n && *s == '-';

	*negative = sign;
	*v = 0;
	return n > sign && s[sign] != '0' && rf_number(s + sign, n - sign, v) && *v > (uint64_t)EXACT &&
	       (!*negative || *v <= UINT64_C(1) << 63);
}

/* Returns whether a map is an array whose numbers JSON can hold, and its parts. */
static bool is_array(struct rf_mp m, const struct dtype **type, struct rf_mp *shape, struct rf_mp_item *data)
{
	struct rf_mp_item it, key;
	struct rf_mp v;
	uint64_t need = 1;

	rf_mp_next(&m, &it);
	if (it.type != RF_MP_MAP || it.n != 3)
		return false;
	rf_mp_pair(&m, &key, &v);
	rf_mp_next(&v, &it);
	*type = NULL;
	for (int i = 0; i < DTYPES; i++)
		if (rf_mp_is(&it, dtypes[i].name))
			*type = &dtypes[i];
	if (!rf_mp_is(&key, "dtype") || !*type)
		return false;
	rf_mp_pair(&m, &key, shape);
	v = *shape;
	rf_mp_next(&v, &it);
	if (!rf_mp_is(&key, "shape") || it.type != RF_MP_ARRAY)
		return false;
	for (uint32_t n = it.n; n; n--) {
		rf_mp_next(&v, &it);
		if (it.type != RF_MP_UINT || __builtin_mul_overflow(need, it.u, &need))
			return false;
	}
	rf_mp_pair(&m, &key, &v);
	rf_mp_next(&v, data);
	if (!rf_mp_is(&key, "data") || data->type != RF_MP_BIN ||
	    __builtin_mul_overflow(need, (*type)->size, &need) || need != data->n)
		return false;
	for (size_t i = 0; *type == &dtypes[F4] && i < data->n; i += 4) {
		float f;
		memcpy(&f, data->data + i, 4);
		if (!isfinite(f))
			return false;
	}
	for (size_t i = 0; *type == &dtypes[F2] && i < data->n; i += 2) {
		uint16_t h;
		memcpy(&h, data->data + i, 2);
		if (!isfinite(rf_f16_f32(h)))
			return false;
	}
	return true;
}

static void put_numbers(struct rf_buf *b, const struct dtype *type, const unsigned char *p, size_t n)
{
	rf_print_text(b, "[");
	for (size_t i = 0; i < n; i += type->size, p += type->size) {
		uint16_t half;
		int32_t i4;
		int64_t i8;
		float f4;

		if (i)
			rf_print_text(b, ",");
		switch (type - dtypes) {
		case I4:
			memcpy(&i4, p, 4);
			put_int(b, i4);
			continue;
		case I8:
			memcpy(&i8, p, 8);
			if (i8 < 0)
				put_int(b, i8);
			else
				put_uint(b, (uint64_t)i8);
			continue;
		case U1: put_uint(b, *p); continue;
		case F2:
			memcpy(&half, p, 2);
			f4 = rf_f16_f32(half);
			break;
		default: memcpy(&f4, p, 4);
		}
		rf_print_single(b, f4);
	}
	rf_print_text(b, "]");
}

/* Returns whether a map that is written as an object would be read as another value. */
static bool is_ambiguous(struct rf_mp m)
{
	struct rf_mp_item it, key;
	struct rf_mp v;
	int found = 0;
	uint32_t n;

	rf_mp_next(&m, &it);
	n = it.n;
	if (n != 1 && n != 3)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		rf_mp_pair(&m, &key, &v);
		rf_mp_next(&v, &it);
		if (n == 1)
			return rf_mp_is(&key, "base64") || rf_mp_is(&key, "literal");
		found += rf_mp_is(&key, "dtype") || rf_mp_is(&key, "shape") ||
		         (rf_mp_is(&key, "data") && it.type == RF_MP_ARRAY);
	}
	return found == 3;
}

static void put_value(struct rf_buf *b, struct rf_mp *m);

static void put_map(struct rf_buf *b, struct rf_mp *m)
{
	struct rf_mp_item it;

	rf_mp_next(m, &it);
	rf_print_text(b, "{");
	for (uint32_t n = it.n; n; n--) {
		rf_mp_next(m, &it);
		rf_print_string(b, it.data, it.n);
		rf_print_text(b, ":");
		put_value(b, m);
		if (n > 1)
			rf_print_text(b, ",");
	}
	rf_print_text(b, "}");
}

static void put_array(struct rf_buf *b, const struct dtype *type, struct rf_mp shape,
                      const struct rf_mp_item *data)
{
	rf_print(b, "{\"dtype\":\"%s\",\"shape\":", type->name);
	put_value(b, &shape);
	rf_print_text(b, ",\"data\":");
	put_numbers(b, type, data->data, data->n);
	rf_print_text(b, "}");
}

static void put_value(struct rf_buf *b, struct rf_mp *m)
{
	const struct dtype *type;
	struct rf_mp start = *m, shape;
	struct rf_mp_item it, data;
	bool negative;
	uint64_t u;

	if (rf_mp_next(m, &it)) {
		m->p = m->end;
		return;
	}
	switch (it.type) {
	case RF_MP_NIL: rf_print_text(b, "null"); break;
	case RF_MP_BOOL: rf_print_text(b, it.b ? "true" : "false"); break;
	case RF_MP_UINT: put_uint(b, it.u); break;
	case RF_MP_INT: put_int(b, it.i); break;
	case RF_MP_REAL: rf_print_float(b, it.f); break;
	case RF_MP_BIN: put_base64(b, it.data, it.n); break;
	case RF_MP_STR:
		if (is_big_integer((const char *)it.data, it.n, &negative, &u)) {
			rf_print_text(b, "{\"literal\":");
			rf_print_string(b, it.data, it.n);
			rf_print_text(b, "}");
		} else {
			rf_print_string(b, it.data, it.n);
		}
		break;
	case RF_MP_ARRAY:
		rf_print_text(b, "[");
		for (uint32_t n = it.n; n; n--) {
			put_value(b, m);
			if (n > 1)
				rf_print_text(b, ",");
		}
		rf_print_text(b, "]");
		break;
	case RF_MP_MAP:
		*m = start;
		if (is_array(start, &type, &shape, &data)) {
			put_array(b, type, shape, &data);
			rf_mp_skip(m);
		} else if (is_ambiguous(start)) {
			rf_print_text(b, "{\"literal\":");
			put_map(b, m);
			rf_print_text(b, "}");
		} else {
			put_map(b, m);
		}
	}
}

/* Gives the buffer's text to the caller. */
static enum rf_code give_line(struct rf_buf *b, char **line, size_t *len, struct rf_err *e)
{
	return rf_buf_give(b, line, len) ? RF_OK : rf_fail(e, RF_ENOMEM, "out of memory (a line of JSON)");
}

enum rf_code rf_msg_to_json(const void *msg, size_t n, char **line, size_t *len, struct rf_err *e)
{
	struct rf_mp m = { msg, (const unsigned char *)msg + n };
	struct rf_buf b = { 0 };
	struct rf_mp_item it;
	struct rf_msg parts;
	enum rf_code rc = rf_msg_check(msg, n, e);

	if (rc == RF_OK)
		rc = rf_msg_open(&parts, msg, n, e);
	if (rc != RF_OK)
		return rc;
	rf_mp_next(&m, &it);
	rf_print_text(&b, "{\"seq\":");
	put_value(&b, &m);
	rf_print_text(&b, ",\"type\":");
	put_value(&b, &m);
	rf_print_text(&b, ",\"body\":");
	put_map(&b, &m);
	rf_print_text(&b, "}");
	return give_line(&b, line, len, e);
}

/* Writes an encoded message as JSON without its number, and frees the message. */
static enum rf_code write_unnumbered(struct rf_buf *msg, char **line, size_t *len, struct rf_err *e)
{
	struct rf_buf b = { 0 };
	struct rf_msg parts;
	enum rf_code rc;

	if (msg->failed) {
		rf_buf_free(msg);
		return rf_fail(e, RF_ENOMEM, "out of memory (a line of JSON)");
	}
	if ((rc = rf_msg_check(msg->p, msg->n, e)) == RF_OK &&
	    (rc = rf_msg_open(&parts, msg->p, msg->n, e)) == RF_OK) {
		rf_print(&b, "{\"type\":\"%s\",\"body\":", rf_msg_types[parts.type]);
		put_map(&b, &parts.body);
		rf_print_text(&b, "}");
		rc = give_line(&b, line, len, e);
	}
	rf_buf_free(msg);
	return rc;
}

enum rf_code rf_record_to_json(const struct rf_record *r, char **line, size_t *len, struct rf_err *e)
{
	struct rf_buf msg = { 0 };

	rf_record_encode(&msg, 0, r);
	return write_unnumbered(&msg, line, len, e);
}

enum rf_code rf_head_to_json(const struct rf_head *h, char **line, size_t *len, struct rf_err *e)
{
	struct rf_buf msg = { 0 };

	rf_head_encode(&msg, h);
	return write_unnumbered(&msg, line, len, e);
}

/* ---- from JSON ----------------------------------------------------------------------------- */

/* Returns how many elements a list or an object has. */
static size_t count_elements(const struct rf_jvalue *of)
{
	struct rf_jvalue key, v = { NULL, 0 };
	size_t n = 0;

	while (rf_jscan_next(of, rf_jscan_is_object(of) ? &key : NULL, &v))
		n++;
	return n;
}

static int base64_digit(char c)
{
	return c >= 'A' && c <= 'Z'   ? c - 'A'
	       : c >= 'a' && c <= 'z' ? c - 'a' + 26
	       : c >= '0' && c <= '9' ? c - '0' + 52
	       : c == '+'             ? 62
	       : c == '/'             ? 63
	                              : -1;
}

/* Appends the bytes that base64 stands for.  They are decoded in place, since they are shorter than the
 * text. */
static enum rf_code pack_base64(msgpack_packer *pk, struct rf_jvalue *v, struct rf_err *e)
{
	size_t n, pads, w = 0;
	uint32_t bits = 0;
	char *s;

	if (!rf_jscan_is_string(v))
		return rf_fail(e, RF_EDATA, "\"base64\" must be a string, not %s", rf_jscan_kind(v));
	s = rf_jscan_text(v, &n);
	if (n % 4)
		return rf_fail(e, RF_EDATA, "\"base64\" must have a multiple of 4 digits, padded with '='");
	pads = n && s[n - 1] == '=' ? s[n - 2] == '=' ? 2 : 1 : 0;
	for (size_t i = 0; i < n; i++) {
		int d = i < n - pads ? base64_digit(s[i]) : 0;
		if (d < 0)
			return rf_fail(e, RF_EDATA, "\"base64\": byte %zu is not a base64 digit", i + 1);
		bits = bits << 6 | (uint32_t)d;
		if (i % 4 == 3)
			for (int shift = 16; shift >= 0; shift -= 8)
				s[w++] = (char)(bits >> shift);
	}
	rf_pack_bin(pk, s, w - pads);
	return RF_OK;
}

/* Stores one number of an array at p.  Returns false if it does not fit the type. */
static bool store_number(const struct dtype *type, struct rf_jvalue *v, unsigned char *p)
{
	bool big = false, negative = false;
	uint64_t u = 0;
	int64_t i = 0;
	uint16_t h;
	double x;
	float f;
	size_t n;

	if (type == &dtypes[F4] || type == &dtypes[F2]) {
		if (!rf_jscan_real(v, &x) || !isfinite(f = (float)x))
			return false;
		h = rf_f32_f16(f);
		if (type == &dtypes[F2] && !isfinite(rf_f16_f32(h)))
			return false;
		memcpy(p, type == &dtypes[F4] ? (const void *)&f : (const void *)&h, type->size);
		return true;
	}
	if (type == &dtypes[I8] && rf_jscan_is_string(v)) {
		const char *s = rf_jscan_text(v, &n);
		big = is_big_integer(s, n, &negative, &u) && (negative || u <= INT64_MAX);
		i = (int64_t)(negative ? 0 - u : u);
	}
	if (!big && !rf_jscan_int(v, &i))
		return false;
	if ((type == &dtypes[I4] && (i < INT32_MIN || i > INT32_MAX)) ||
	    (type == &dtypes[U1] && (i < 0 || i > 255)))
		return false;
	memcpy(p, &i, type->size);
	return true;
}

static enum rf_code pack_numbers(msgpack_packer *pk, const struct dtype *type, const struct rf_jvalue *data,
                                 size_t n, struct rf_err *e)
{
	struct rf_jvalue v = { NULL, 0 };
	unsigned char *out;
	size_t i = 0;

	/* a number takes at least one byte of text, so this is at most 8 times the line */
	if (n > UINT32_MAX / type->size)
		return rf_fail(e, RF_EDATA, "an array has 4 GiB or more, which no message can hold");
	if (!(out = malloc(n * type->size + 1)))
		return rf_fail(e, RF_ENOMEM, "out of memory (an array of %zu numbers)", n);
	for (; rf_jscan_next(data, NULL, &v); i++) {
		struct rf_jvalue each = v;
		if (!store_number(type, &each, out + i * type->size))
			break;
	}
	if (i == n)
		rf_pack_bin(pk, out, n * type->size);
	free(out);
	return i == n ? RF_OK
	              : rf_fail(e, RF_EDATA, "number %zu of an array does not fit its dtype %s", i,
	                        type->name);
}

static enum rf_code pack_array(msgpack_packer *pk, const struct rf_jvalue *dtype,
                               const struct rf_jvalue *shape, const struct rf_jvalue *data, struct rf_err *e)
{
	const struct dtype *type = NULL;
	struct rf_jvalue v = { NULL, 0 };
	size_t n = count_elements(data);
	uint64_t need = 1, size;

	for (int i = 0; rf_jscan_is_string(dtype) && i < DTYPES; i++)
		if (rf_jscan_equals(dtype, dtypes[i].name))
			type = &dtypes[i];
	if (!type)
		return rf_fail(e, RF_EDATA, "an array's dtype is none of <f4 <i4 <f2 <i8 |u1");
	if (!rf_jscan_is_list(shape))
		return rf_fail(e, RF_EDATA, "an array's shape is %s, not a list", rf_jscan_kind(shape));
	msgpack_pack_map(pk, 3);
	rf_pack_text(pk, "dtype");
	rf_pack_text(pk, type->name);
	rf_pack_text(pk, "shape");
	msgpack_pack_array(pk, count_elements(shape));
	while (rf_jscan_next(shape, NULL, &v)) {
		if (!rf_jscan_uint(&v, &size) || __builtin_mul_overflow(need, size, &need))
			return rf_fail(e, RF_EDATA, "an array's shape is not a list of sizes");
		msgpack_pack_uint64(pk, size);
	}
	if (need != n)
		return rf_fail(e, RF_EDATA, "an array has %zu numbers, but its shape needs %llu", n,
		               (unsigned long long)need);
	rf_pack_text(pk, "data");
	return pack_numbers(pk, type, data, n, e);
}

static enum rf_code pack_value(struct rf_buf *b, struct rf_jvalue *v, int depth, struct rf_err *e);

static enum rf_code pack_map(struct rf_buf *b, const struct rf_jvalue *o, int depth, struct rf_err *e)
{
	struct rf_jvalue key, v = { NULL, 0 };
	enum rf_code rc = RF_OK;
	msgpack_packer pk;

	rf_pack_init(&pk, b);
	msgpack_pack_map(&pk, count_elements(o));
	while (rc == RF_OK && rf_jscan_next(o, &key, &v)) {
		struct rf_jvalue each = v; /* decoding writes over it; v is where the scan continues */
		size_t n;
		const char *s = rf_jscan_text(&key, &n);
		rf_pack_str(&pk, s, n);
		rc = pack_value(b, &each, depth + 1, e);
	}
	return rc;
}

/* Returns the value of a key.  s is NULL if the object lacks the key or has it twice, which rf_msg_check()
 * will refuse. */
static struct rf_jvalue find_member(const struct rf_jvalue *o, const char *key)
{
	struct rf_jvalue v;

	rf_jscan_get(o, key, &v, NULL);
	return v;
}

static enum rf_code pack_literal(struct rf_buf *b, struct rf_jvalue *v, int depth, struct rf_err *e)
{
	msgpack_packer pk;
	const char *s;
	size_t n;

	if (rf_jscan_is_object(v))
		return pack_map(b, v, depth, e);
	if (!rf_jscan_is_string(v))
		return rf_fail(e, RF_EDATA, "\"literal\" must be a string or an object, not %s",
		               rf_jscan_kind(v));
	rf_pack_init(&pk, b);
	s = rf_jscan_text(v, &n);
	rf_pack_str(&pk, s, n);
	return RF_OK;
}

static enum rf_code pack_object(struct rf_buf *b, const struct rf_jvalue *o, int depth, struct rf_err *e)
{
	struct rf_jvalue key, only = { NULL, 0 }, dtype, shape, data;
	size_t n = count_elements(o);
	msgpack_packer pk;

	rf_pack_init(&pk, b);
	if (n == 1) {
		rf_jscan_next(o, &key, &only);
		if (rf_jscan_equals(&key, "base64"))
			return pack_base64(&pk, &only, e);
		if (rf_jscan_equals(&key, "literal"))
			return pack_literal(b, &only, depth, e);
	} else if (n == 3) {
		dtype = find_member(o, "dtype");
		shape = find_member(o, "shape");
		data = find_member(o, "data");
		if (dtype.s && shape.s && data.s && rf_jscan_is_list(&data))
			return pack_array(&pk, &dtype, &shape, &data, e);
	}
	return pack_map(b, o, depth, e);
}

static enum rf_code pack_string(msgpack_packer *pk, struct rf_jvalue *v)
{
	bool negative;
	uint64_t u;
	size_t n;
	const char *s = rf_jscan_text(v, &n);

	if (!is_big_integer(s, n, &negative, &u))
		rf_pack_str(pk, s, n);
	else if (negative)
		msgpack_pack_int64(pk, (int64_t)(0 - u));
	else
		msgpack_pack_uint64(pk, u);
	return RF_OK;
}

static enum rf_code pack_value(struct rf_buf *b, struct rf_jvalue *v, int depth, struct rf_err *e)
{
	struct rf_jvalue each = { NULL, 0 };
	enum rf_code rc = RF_OK;
	msgpack_packer pk;
	int64_t i;
	uint64_t u;
	double x;

	if (depth > RF_MSG_DEPTH)
		return rf_fail(e, RF_EDATA, "the line is nested more than %d levels deep", RF_MSG_DEPTH);
	rf_pack_init(&pk, b);
	switch (*v->s) {
	case '{': return pack_object(b, v, depth, e);
	case '"': return pack_string(&pk, v);
	case 'n': msgpack_pack_nil(&pk); return RF_OK;
	case 't': msgpack_pack_true(&pk); return RF_OK;
	case 'f': msgpack_pack_false(&pk); return RF_OK;
	case '[':
		msgpack_pack_array(&pk, count_elements(v));
		while (rc == RF_OK && rf_jscan_next(v, NULL, &each)) {
			struct rf_jvalue copy = each;
			rc = pack_value(b, &copy, depth + 1, e);
		}
		return rc;
	default:
		if (rf_jscan_int(v, &i))
			msgpack_pack_int64(&pk, i);
		else if (rf_jscan_uint(v, &u))
			msgpack_pack_uint64(&pk, u);
		else if (rf_jscan_real(v, &x))
			msgpack_pack_double(&pk, x);
		else
			return rf_fail(e, RF_EDATA, "a number is too large or too long");
		return RF_OK;
	}
}

static enum rf_code pack_line(struct rf_buf *b, const struct rf_jvalue *line, struct rf_err *e)
{
	struct rf_jvalue seq, type, body;
	msgpack_packer pk;
	const char *s;
	enum rf_code rc;
	uint64_t u;
	size_t n;

	if (!rf_jscan_is_object(line))
		return rf_fail(e, RF_EDATA, "the line is %s, not {\"seq\":..,\"type\":..,\"body\":{..}}",
		               rf_jscan_kind(line));
	seq = find_member(line, "seq");
	type = find_member(line, "type");
	body = find_member(line, "body");
	if (count_elements(line) != 3 || !seq.s || !type.s || !body.s || !rf_jscan_uint(&seq, &u) ||
	    !rf_jscan_is_string(&type) || !rf_jscan_is_object(&body))
		return rf_fail(e, RF_EDATA, "the line is not {\"seq\":..,\"type\":..,\"body\":{..}}");
	rf_pack_init(&pk, b);
	msgpack_pack_array(&pk, 3);
	msgpack_pack_uint64(&pk, u);
	s = rf_jscan_text(&type, &n);
	rf_pack_str(&pk, s, n);
	rc = pack_map(b, &body, 1, e);
	if (rc == RF_OK && b->failed)
		rc = rf_fail(e, RF_ENOMEM, "out of memory (a message)");
	return rc == RF_OK ? rf_msg_check(b->p, b->n, e) : rc;
}

enum rf_code rf_msg_from_json(const char *line, size_t len, void **msg, size_t *n, struct rf_err *e)
{
	struct rf_buf b = { 0 };
	struct rf_jvalue root;
	char *copy = malloc(len + 1); /* strings are decoded in place */
	enum rf_code rc;

	if (!copy)
		return rf_fail(e, RF_ENOMEM, "out of memory (a line of JSON)");
	memcpy(copy, line, len);
	if ((rc = rf_jscan_check_strict(copy, len, &root, e)) == RF_OK)
		rc = pack_line(&b, &root, e);
	free(copy);
	if (rc != RF_OK) {
		rf_buf_free(&b);
		return rc;
	}
	*msg = b.p;
	*n = b.n;
	return RF_OK;
}
