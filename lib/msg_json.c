/* json.c -- a message as a line of JSON, and back: rf-stream(5), "JSON form".
 *
 * It works on the msgpack tree, not on records, so that order, unknown keys and the difference between integers and
 * floats survive.  What JSON lacks is written as an object of one key: {"base64": ..} is binary, {"literal": ..} a
 * string or map that would be taken for something else. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "msg.h"
#include "wire.h"

/* Integers beyond this are strings: readers of JSON that have only doubles would change them. */
static const int64_t EXACT = INT64_C(1) << 53;

static const struct dtype { const char *name; size_t size; } dtypes[] = {
	{ "<f4", 4 }, { "<i4", 4 }, { "<f2", 2 }, { "<i8", 8 }, { "|u1", 1 },
};
enum { F4, I4, F2, I8, U1, DTYPES };

/* ---- half precision --------------------------------------------------------------------------------------------- */

static double from_half(uint16_t h)
{
	int e = h >> 10 & 31;
	double m = h & 1023;
	double v = e == 31 ? (m > 0 ? (double)NAN : (double)INFINITY) : e ? ldexp(m + 1024, e - 25) : ldexp(m, -24);

	return h >> 15 ? -v : v;
}

static bool to_half(double v, uint16_t *h)
{
	double a = fabs(v), bits;
	int e;

	frexp(a, &e);
	/* the mantissa's carry moves into the exponent, as it should */
	bits = a < 0x1p-14 ? rint(ldexp(a, 24)) : (e + 13) * 1024 + rint(ldexp(a, 11 - e));
	if (!(bits < 0x7c00))
		return false;
	*h = (uint16_t)((unsigned)bits | (signbit(v) ? 0x8000u : 0));
	return true;
}

/* ---- to JSON ---------------------------------------------------------------------------------------------------- */

static void put(struct rf_buf *b, const char *s)
{
	rf_buf_add(b, s, strlen(s));
}

static void put_string(struct rf_buf *b, const unsigned char *s, size_t n)
{
	size_t from = 0;
	char esc[8];

	put(b, "\"");
	for (size_t i = 0; i < n; i++) {
		unsigned c = s[i];
		size_t len = 1;

		/* control characters, those of Latin-1 too: terminals obey them */
		if (c == 0xc2 && s[i + 1] < 0xa0) {
			c = s[i + 1];
			len = 2;
		} else if (c >= 32 && c != '"' && c != '\\' && c != 127) {
			continue;
		}
		rf_buf_add(b, s + from, i - from);
		if (c == '"' || c == '\\')
			snprintf(esc, sizeof esc, "\\%c", (int)c);
		else if (c == '\n')
			snprintf(esc, sizeof esc, "\\n");
		else
			snprintf(esc, sizeof esc, "\\u%04x", c);
		put(b, esc);
		i += len - 1;
		from = i + 1;
	}
	rf_buf_add(b, s + from, n - from);
	put(b, "\"");
}

/* The shortest form that reads back the same, and is seen to be a float. */
static void put_real(struct rf_buf *b, double v)
{
	char s[40];

	for (int digits = 15; digits <= 17; digits++) {
		snprintf(s, sizeof s, "%.*g", digits, v);
		if (strtod(s, NULL) == v)
			break;
	}
	put(b, s);
	if (!strpbrk(s, ".e"))
		put(b, ".0");
}

static void put_uint(struct rf_buf *b, uint64_t v)
{
	char s[32];

	snprintf(s, sizeof s, v > (uint64_t)EXACT ? "\"%" PRIu64 "\"" : "%" PRIu64, v);
	put(b, s);
}

static void put_int(struct rf_buf *b, int64_t v)
{
	char s[32];

	snprintf(s, sizeof s, v < -EXACT ? "\"%" PRId64 "\"" : "%" PRId64, v);
	put(b, s);
}

static void put_base64(struct rf_buf *b, const unsigned char *p, size_t n)
{
	static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	put(b, "{\"base64\":\"");
	for (size_t i = 0; i < n; i += 3) {
		uint32_t v = (uint32_t)p[i] << 16 | (i + 1 < n ? (uint32_t)p[i + 1] << 8 : 0) | (i + 2 < n ? p[i + 2] : 0u);
		char four[4] = { digit[v >> 18], digit[v >> 12 & 63], i + 1 < n ? digit[v >> 6 & 63] : '=', i + 2 < n ? digit[v & 63] : '=' };
		rf_buf_add(b, four, 4);
	}
	put(b, "\"}");
}

/* The integer beyond EXACT that this string would be taken for. */
static bool big_integer(const char *s, size_t n, bool *negative, uint64_t *v)
{
	size_t i;

	*negative = n && *s == '-';
	*v = 0;
	for (i = *negative; i < n && s[i] >= '0' && s[i] <= '9' && i < 21; i++)
		if (__builtin_mul_overflow(*v, 10, v) || __builtin_add_overflow(*v, (uint64_t)(s[i] - '0'), v))
			return false;
	return i == n && n > *negative && s[*negative] != '0' && *v > (uint64_t)EXACT && (!*negative || *v <= UINT64_C(1) << 63);
}

/* Whether a map is an array whose numbers JSON can hold; its numbers then. */
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
	if (!rf_mp_is(&key, "data") || data->type != RF_MP_BIN || __builtin_mul_overflow(need, (*type)->size, &need) || need != data->n)
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
		if (!isfinite(from_half(h)))
			return false;
	}
	return true;
}

static void put_numbers(struct rf_buf *b, const struct dtype *type, const unsigned char *p, size_t n)
{
	put(b, "[");
	for (size_t i = 0; i < n; i += type->size, p += type->size) {
		char s[32];
		uint16_t half;
		int32_t i4;
		int64_t i8;
		float f4;
		double v;

		if (i)
			put(b, ",");
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
		case U1:
			put_uint(b, *p);
			continue;
		case F2:
			memcpy(&half, p, 2);
			v = from_half(half);
			break;
		default:
			memcpy(&f4, p, 4);
			v = (double)f4;
		}
		/* "-0" would be read as the integer, which has no sign */
		snprintf(s, sizeof s, v == 0 && signbit(v) ? "-0.0" : "%.9g", v);
		put(b, s);
	}
	put(b, "]");
}

/* A map that, written plainly, would be taken for another thing. */
static bool ambiguous(struct rf_mp m)
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
		found += rf_mp_is(&key, "dtype") || rf_mp_is(&key, "shape") || (rf_mp_is(&key, "data") && it.type == RF_MP_ARRAY);
	}
	return found == 3;
}

static void put_value(struct rf_buf *b, struct rf_mp *m);

static void put_map(struct rf_buf *b, struct rf_mp *m)
{
	struct rf_mp_item it;

	rf_mp_next(m, &it);
	put(b, "{");
	for (uint32_t n = it.n; n; n--) {
		rf_mp_next(m, &it);
		put_string(b, it.data, it.n);
		put(b, ":");
		put_value(b, m);
		if (n > 1)
			put(b, ",");
	}
	put(b, "}");
}

static void put_array(struct rf_buf *b, const struct dtype *type, struct rf_mp shape, const struct rf_mp_item *data)
{
	put(b, "{\"dtype\":\"");
	put(b, type->name);
	put(b, "\",\"shape\":");
	put_value(b, &shape);
	put(b, ",\"data\":");
	put_numbers(b, type, data->data, data->n);
	put(b, "}");
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
	case RF_MP_NIL:  put(b, "null"); break;
	case RF_MP_BOOL: put(b, it.b ? "true" : "false"); break;
	case RF_MP_UINT: put_uint(b, it.u); break;
	case RF_MP_INT:  put_int(b, it.i); break;
	case RF_MP_REAL: put_real(b, it.f); break;
	case RF_MP_BIN:  put_base64(b, it.data, it.n); break;
	case RF_MP_STR:
		if (big_integer((const char *)it.data, it.n, &negative, &u)) {
			put(b, "{\"literal\":");
			put_string(b, it.data, it.n);
			put(b, "}");
		} else {
			put_string(b, it.data, it.n);
		}
		break;
	case RF_MP_ARRAY:
		put(b, "[");
		for (uint32_t n = it.n; n; n--) {
			put_value(b, m);
			if (n > 1)
				put(b, ",");
		}
		put(b, "]");
		break;
	case RF_MP_MAP:
		*m = start;
		if (is_array(start, &type, &shape, &data)) {
			put_array(b, type, shape, &data);
			rf_mp_skip(m);
		} else if (ambiguous(start)) {
			put(b, "{\"literal\":");
			put_map(b, m);
			put(b, "}");
		} else {
			put_map(b, m);
		}
	}
}

static enum rf_code give(struct rf_buf *b, char **line, size_t *len, struct rf_err *e)
{
	rf_buf_add(b, "", 1);
	if (b->failed) {
		rf_buf_free(b);
		return rf_fail(e, RF_ENOMEM, "out of memory (a line of JSON)");
	}
	*line = (char *)b->p;
	*len = b->n - 1;
	return RF_OK;
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
	put(&b, "{\"seq\":");
	put_value(&b, &m);
	put(&b, ",\"type\":");
	put_value(&b, &m);
	put(&b, ",\"body\":");
	put_map(&b, &m);
	put(&b, "}");
	return give(&b, line, len, e);
}

enum rf_code rf_record_to_json(const struct rf_record *r, char **line, size_t *len, struct rf_err *e)
{
	struct rf_buf msg = { 0 }, b = { 0 };
	struct rf_msg parts;
	enum rf_code rc;

	rf_record_encode(&msg, 0, r);
	if (msg.failed) {
		rf_buf_free(&msg);
		return rf_fail(e, RF_ENOMEM, "out of memory (a line of JSON)");
	}
	if ((rc = rf_msg_check(msg.p, msg.n, e)) == RF_OK && (rc = rf_msg_open(&parts, msg.p, msg.n, e)) == RF_OK) {
		put(&b, "{\"type\":\"seq\",\"body\":");
		put_map(&b, &parts.body);
		put(&b, "}");
		rc = give(&b, line, len, e);
	}
	rf_buf_free(&msg);
	return rc;
}

/* ---- from JSON -------------------------------------------------------------------------------------------------- */

static enum rf_code pack_base64(msgpack_packer *pk, const json_t *v, struct rf_err *e)
{
	const char *s = json_string_value(v);
	size_t n = json_string_length(v), w = 0;
	unsigned char *out;
	uint32_t bits = 0;

	if (!s || n % 4)
		return rf_fail(e, RF_EDATA, "\"base64\" wants a string of base64, padded with =");
	if (!(out = malloc(n / 4 * 3 + 1)))
		return rf_fail(e, RF_ENOMEM, "out of memory (base64)");
	for (size_t i = 0; i < n; i++) {
		char c = s[i];
		bool pad = c == '=' && i + 2 >= n && (i + 1 == n || s[i + 1] == '=');
		int d = c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : c >= '0' && c <= '9' ? c - '0' + 52
		      : c == '+' ? 62 : c == '/' ? 63 : pad ? 0 : -1;

		if (d < 0) {
			free(out);
			return rf_fail(e, RF_EDATA, "\"base64\": byte %zu is no digit of base64", i);
		}
		bits = bits << 6 | (uint32_t)d;
		if (i % 4 == 3) {
			size_t pads = s[i] == '=' ? s[i - 1] == '=' ? 2 : 1 : 0;
			for (size_t j = 0; j < 3 - pads; j++)
				out[w++] = (unsigned char)(bits >> (16 - 8 * j));
		}
	}
	rf_pack_bin(pk, out, w);
	free(out);
	return RF_OK;
}

/* One number of an array into p. */
static bool number(const struct dtype *type, const json_t *v, unsigned char *p)
{
	double x = json_number_value(v);
	int64_t i = json_integer_value(v);
	bool negative;
	uint64_t u;
	uint16_t h;

	if (type == &dtypes[I8] && json_is_string(v) && big_integer(json_string_value(v), json_string_length(v), &negative, &u)) {
		if (!negative && u > INT64_MAX)
			return false;
		u = negative ? 0 - u : u;
		memcpy(p, &u, 8);
		return true;
	}
	if (type == &dtypes[F4] || type == &dtypes[F2]) {
		float f = (float)x;
		if (!json_is_number(v) || !isfinite(f) || (type == &dtypes[F2] && !to_half(x, &h)))
			return false;
		memcpy(p, type == &dtypes[F4] ? (const void *)&f : (const void *)&h, type->size);
		return true;
	}
	if (!json_is_integer(v) || (type == &dtypes[I4] && (i < INT32_MIN || i > INT32_MAX)) || (type == &dtypes[U1] && (i < 0 || i > 255)))
		return false;
	memcpy(p, &i, type->size);
	return true;
}

static enum rf_code pack_array(struct rf_buf *b, msgpack_packer *pk, const json_t *o, struct rf_err *e)
{
	const json_t *name = json_object_get(o, "dtype"), *shape = json_object_get(o, "shape"), *data = json_object_get(o, "data");
	const struct dtype *type = NULL;
	size_t n = json_array_size(data), bytes;
	uint64_t need = 1;
	unsigned char *out;

	for (int i = 0; i < DTYPES; i++)
		if (json_is_string(name) && !strcmp(json_string_value(name), dtypes[i].name))
			type = &dtypes[i];
	if (!type)
		return rf_fail(e, RF_EDATA, "an array's dtype is none of <f4 <i4 <f2 <i8 |u1");
	if (!json_is_array(shape))
		return rf_fail(e, RF_EDATA, "an array's shape is not a list");
	for (size_t i = 0; i < json_array_size(shape); i++) {
		const json_t *s = json_array_get(shape, i);
		if (!json_is_integer(s) || json_integer_value(s) < 0 || __builtin_mul_overflow(need, (uint64_t)json_integer_value(s), &need))
			return rf_fail(e, RF_EDATA, "an array's shape is not a list of sizes");
	}
	if (need != n)
		return rf_fail(e, RF_EDATA, "an array has %zu numbers, its shape needs %llu", n, (unsigned long long)need);
	if (__builtin_mul_overflow(n, type->size, &bytes) || bytes > UINT32_MAX)
		return rf_fail(e, RF_EDATA, "an array of 4 GiB or more");
	if (!(out = malloc(bytes + 1)))
		return rf_fail(e, RF_ENOMEM, "out of memory (an array)");
	for (size_t i = 0; i < n; i++)
		if (!number(type, json_array_get(data, i), out + i * type->size)) {
			free(out);
			return rf_fail(e, RF_EDATA, "number %zu of an array does not fit its dtype %s", i, type->name);
		}
	msgpack_pack_map(pk, 3);
	rf_pack_text(pk, "dtype");
	rf_pack_text(pk, type->name);
	rf_pack_text(pk, "shape");
	msgpack_pack_array(pk, json_array_size(shape));
	for (size_t i = 0; i < json_array_size(shape); i++)
		msgpack_pack_int64(pk, json_integer_value(json_array_get(shape, i)));
	rf_pack_text(pk, "data");
	rf_pack_bin(pk, out, bytes);
	free(out);
	return b->failed ? rf_fail(e, RF_ENOMEM, "out of memory (an array)") : RF_OK;
}

static enum rf_code pack_value(struct rf_buf *b, const json_t *v, int depth, struct rf_err *e);

static enum rf_code pack_map(struct rf_buf *b, const json_t *o, int depth, struct rf_err *e)
{
	enum rf_code rc = RF_OK;
	msgpack_packer pk;
	const char *key;
	json_t *v;

	rf_pack_init(&pk, b);
	msgpack_pack_map(&pk, json_object_size(o));
	json_object_foreach((json_t *)o, key, v) {
		rf_pack_text(&pk, key);
		if ((rc = pack_value(b, v, depth + 1, e)) != RF_OK)
			return rc;
	}
	return rc;
}

static enum rf_code pack_object(struct rf_buf *b, const json_t *o, int depth, struct rf_err *e)
{
	size_t n = json_object_size(o);
	msgpack_packer pk;
	json_t *v;

	rf_pack_init(&pk, b);
	if (n == 1 && (v = json_object_get(o, "base64")))
		return pack_base64(&pk, v, e);
	if (n == 1 && (v = json_object_get(o, "literal"))) {
		if (json_is_object(v))
			return pack_map(b, v, depth, e);
		if (!json_is_string(v))
			return rf_fail(e, RF_EDATA, "\"literal\" wants a string or an object");
		rf_pack_str(&pk, json_string_value(v), json_string_length(v));
		return RF_OK;
	}
	if (n == 3 && json_object_get(o, "dtype") && json_object_get(o, "shape") && json_is_array(json_object_get(o, "data")))
		return pack_array(b, &pk, o, e);
	return pack_map(b, o, depth, e);
}

static enum rf_code pack_value(struct rf_buf *b, const json_t *v, int depth, struct rf_err *e)
{
	enum rf_code rc = RF_OK;
	msgpack_packer pk;
	bool negative;
	uint64_t u;

	if (depth > RF_MSG_DEPTH)
		return rf_fail(e, RF_EDATA, "nested more than %d deep", RF_MSG_DEPTH);
	rf_pack_init(&pk, b);
	switch (json_typeof(v)) {
	case JSON_NULL:    msgpack_pack_nil(&pk); break;
	case JSON_TRUE:    msgpack_pack_true(&pk); break;
	case JSON_FALSE:   msgpack_pack_false(&pk); break;
	case JSON_INTEGER: msgpack_pack_int64(&pk, json_integer_value(v)); break;
	case JSON_REAL:    msgpack_pack_double(&pk, json_real_value(v)); break;
	case JSON_OBJECT:  rc = pack_object(b, v, depth, e); break;
	case JSON_ARRAY:
		msgpack_pack_array(&pk, json_array_size(v));
		for (size_t i = 0; i < json_array_size(v) && rc == RF_OK; i++)
			rc = pack_value(b, json_array_get(v, i), depth + 1, e);
		break;
	case JSON_STRING:
		if (!big_integer(json_string_value(v), json_string_length(v), &negative, &u))
			rf_pack_str(&pk, json_string_value(v), json_string_length(v));
		else if (negative)
			msgpack_pack_int64(&pk, (int64_t)(0 - u));
		else
			msgpack_pack_uint64(&pk, u);
	}
	return rc;
}

static enum rf_code pack_line(struct rf_buf *b, const json_t *line, struct rf_err *e)
{
	const json_t *seq = json_object_get(line, "seq"), *type = json_object_get(line, "type"), *body = json_object_get(line, "body");
	msgpack_packer pk;
	enum rf_code rc;

	if (!seq || !json_is_string(type) || !json_is_object(body) || json_object_size(line) != 3)
		return rf_fail(e, RF_EDATA, "a line is not {\"seq\":..,\"type\":\"..\",\"body\":{..}}");
	rf_pack_init(&pk, b);
	msgpack_pack_array(&pk, 3);
	if ((rc = pack_value(b, seq, 1, e)) != RF_OK)
		return rc;
	rf_pack_str(&pk, json_string_value(type), json_string_length(type));
	if ((rc = pack_map(b, body, 1, e)) != RF_OK)
		return rc;
	return b->failed ? rf_fail(e, RF_ENOMEM, "out of memory (a message)") : rf_msg_check(b->p, b->n, e);
}

enum rf_code rf_msg_from_json(const char *line, size_t len, void **msg, size_t *n, struct rf_err *e)
{
	struct rf_buf b = { 0 };
	json_error_t why;
	json_t *root = json_loadb(line, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &why);
	char quoted[120];
	enum rf_code rc;

	if (!root)
		return rf_fail(e, RF_EDATA, "bad JSON at byte %d: %s", why.position, rf_quote(quoted, sizeof quoted, why.text, strlen(why.text)));
	rc = pack_line(&b, root, e);
	json_decref(root);
	if (rc != RF_OK) {
		rf_buf_free(&b);
		return rc;
	}
	*msg = b.p;
	*n = b.n;
	return RF_OK;
}
