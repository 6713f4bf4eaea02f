/* record_wire.c -- reads a record from the bytes of its message, and appends its message to a buffer.  Each
 * is one walk over the table of fields. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "stream/fields.h"
#include "stream/wire.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "the arrays of a stream are little endian, and copied as they are");

/* ---- reading ------------------------------------------------------------------------------- */

static enum rf_code no_memory(const char *key, struct rf_err *e)
{
	return rf_fail(e, RF_ENOMEM, "out of memory (%s)", key);
}

/* Writes a shape as messages show it: "(4, 3)". */
static const char *shape_text(char *buf, size_t size, const int *shape, int n)
{
	int w = snprintf(buf, size, "(");

	for (int i = 0; i < n && (size_t)w < size; i++)
		w += snprintf(buf + w, size - (size_t)w, "%s%d", i ? ", " : "", shape[i]);
	if ((size_t)w < size)
		snprintf(buf + w, size - (size_t)w, ")");
	return buf;
}

/* Reads the shape and the data of {dtype, shape, data}.  Returns NULL, or what is wrong with it.  The caller
 * must compare the length of the data with the shape. */
static const char *open_array(struct rf_mp v, const char *dtype, int *shape, int ndim,
                              struct rf_mp_item *data)
{
	struct rf_mp_item it;

	rf_mp_next(&v, &it);
	if (it.type != RF_MP_MAP || it.n != 3)
		return "is not an array {dtype, shape, data}";
	rf_mp_next(&v, &it);
	if (!rf_mp_is(&it, "dtype"))
		return "is not an array {dtype, shape, data}, in this order";
	rf_mp_next(&v, &it);
	if (!rf_mp_is(&it, dtype))
		return *dtype == '<' && dtype[1] == 'i' ? "does not have the dtype <i4"
		                                        : "does not have the dtype <f4";
	rf_mp_next(&v, &it);
	if (!rf_mp_is(&it, "shape"))
		return "is not an array {dtype, shape, data}, in this order";
	rf_mp_next(&v, &it);
	if (it.type != RF_MP_ARRAY || it.n != (uint32_t)ndim)
		return ndim == 1   ? "does not have 1 dimension"
		       : ndim == 2 ? "does not have 2 dimensions"
		       : ndim == 3 ? "does not have 3 dimensions"
		                   : "does not have 4 dimensions";
	for (int i = 0; i < ndim; i++) {
		rf_mp_next(&v, &it);
		if (it.type != RF_MP_UINT || it.u > INT32_MAX)
			return "has a size that is not a whole number below 2^31";
		shape[i] = (int)it.u;
	}
	rf_mp_next(&v, &it);
	if (!rf_mp_is(&it, "data"))
		return "is not an array {dtype, shape, data}, in this order";
	rf_mp_next(&v, data);
	return data->type == RF_MP_BIN ? NULL : "has data that are not binary";
}

/* Reads an array into memory that belongs to the record.  key: the name for messages, which for a part of the
 * reward is not the field's key. */
static enum rf_code read_array(struct rf_record *r, const struct rf_field *f, const char *pre,
                               const char *key, struct rf_mp v, void **to, struct rf_err *e)
{
	const int ndim = (int)strlen(f->shape);
	struct rf_mp_item data;
	struct rf_value want;
	int shape[4];
	const char *why = open_array(v, f->type == RF_OF_I4 ? "<i4" : "<f4", shape, ndim, &data);
	char a[80], b[80];

	if (why)
		return rf_fail(e, RF_EDATA, "%s%s %s", pre, key, why);
	for (int i = 0; i < ndim; i++) {
		int *size = rf_field_size(r, f->shape[i]);
		/* an empty array says nothing, and a size of 0 is one that is not yet known */
		if (size && !shape[i])
			return rf_fail(e, RF_EDATA, "%s%s is empty", pre, key);
		if (size && !*size)
			*size = shape[i];
	}
	rf_field_value(r, f, &want);
	if (memcmp(shape, want.shape, (size_t)ndim * sizeof *shape))
		return rf_fail(e, RF_EDATA, "%s%s has the shape %s where %s was expected", pre, key,
		               shape_text(a, sizeof a, shape, ndim),
		               shape_text(b, sizeof b, want.shape, ndim));
	if (want.count == SIZE_MAX || 4 * want.count != data.n)
		return rf_fail(e, RF_EDATA, "%s%s has %lu bytes of data, which does not match its shape %s",
		               pre, key, (unsigned long)data.n, shape_text(a, sizeof a, shape, ndim));
	if (!(*to = rf_record_alloc(r, want.count, 4)))
		return no_memory(key, e);
	if (want.count)
		memcpy(*to, data.data, data.n);
	return RF_OK;
}

/* Reads a string into memory that belongs to the record, and moves v past it. */
static enum rf_code read_string(struct rf_record *r, const char *pre, const char *key, struct rf_mp *v,
                                const char **to, struct rf_err *e)
{
	struct rf_mp_item it;

	rf_mp_next(v, &it);
	if (it.type != RF_MP_STR)
		return rf_fail(e, RF_EDATA, "%s%s is not a string", pre, key);
	if (memchr(it.data, 0, it.n))
		return rf_fail(e, RF_EDATA, "%s%s contains a NUL", pre, key);
	return (*to = rf_region_text(&r->region, it.data, it.n)) ? RF_OK : no_memory(key, e);
}

/* Reads a list of strings, as many as the field's size says if that is known. */
static enum rf_code read_texts(struct rf_record *r, const struct rf_field *f, const char *pre, struct rf_mp v,
                               struct rf_err *e)
{
	int *size = rf_field_size(r, *f->shape);
	struct rf_mp_item it;
	enum rf_code rc = RF_OK;
	const char **text;
	char of[40];

	rf_mp_next(&v, &it);
	if (it.type != RF_MP_ARRAY)
		return rf_fail(e, RF_EDATA, "%s%s is not a list", pre, f->key);
	if (*size > 0 && it.n != (uint32_t)*size)
		return rf_fail(e, RF_EDATA, "%s%s has %lu elements where %d were expected", pre, f->key,
		               (unsigned long)it.n, *size);
	if (!(text = rf_record_alloc(r, it.n, sizeof *text)))
		return no_memory(f->key, e);
	*size = (int)it.n;
	snprintf(of, sizeof of, "an element of %s", pre);
	for (uint32_t i = 0; i < it.n && rc == RF_OK; i++)
		rc = read_string(r, of, f->key, &v, &text[i], e);
	rf_field_set(r, f, text);
	return rc;
}

/* Reads the map of the parts that have no key of their own. */
static enum rf_code read_parts(struct rf_record *r, const struct rf_field *f, struct rf_mp map,
                               struct rf_err *e)
{
	struct rf_reward *w = &r->reward;
	struct rf_mp_item it, key;
	struct rf_mp v;
	enum rf_code rc = RF_OK;

	rf_mp_next(&map, &it);
	if (it.type != RF_MP_MAP)
		return rf_fail(e, RF_EDATA, "reward.parts is not a map");
	if (!it.n)
		return rf_fail(e, RF_EDATA, "reward.parts is empty");
	for (uint32_t left = it.n; left && rc == RF_OK; left--) {
		char *name;
		void *p;

		rf_mp_pair(&map, &key, &v);
		if (!rf_part_named((const char *)key.data, key.n)) {
			rf_part_bad_name((const char *)key.data, key.n, e);
			return rf_blame(e, "reward.parts");
		}
		if (w->parts == RF_PARTS)
			return rf_part_too_many(e);
		if (!(name = rf_region_text(&r->region, key.data, key.n)))
			return no_memory("parts", e);
		if (rf_part_has_key(name))
			return rf_fail(e, RF_EDATA, "reward.parts has '%s', which is a key of reward itself",
			               name);
		if ((rc = read_array(r, f, "reward.parts.", name, v, &p, e)) == RF_OK)
			w->part[w->parts++] = (struct rf_part){ name, p };
	}
	return rc;
}

/* Reads the values of a map.  Its unknown keys are kept as bytes. */
static enum rf_code read_fields(struct rf_record *r, const struct rf_field_group *g, struct rf_mp map,
                                struct rf_err *e);

static enum rf_code read_field(struct rf_record *r, const struct rf_field *f, const char *pre, struct rf_mp v,
                               struct rf_err *e)
{
	const size_t size = (size_t)(v.end - v.p);
	struct rf_mp at = v;
	struct rf_mp_item it;
	struct rf_value value;
	enum rf_code rc;
	const char *text;
	void *p;

	rf_mp_next(&at, &it);
	switch (f->type) {
	case RF_OF_ID:
		if (it.type != RF_MP_UINT)
			return rf_fail(e, RF_EDATA, "id is not a whole number of 0 or more");
		r->id = it.u;
		return RF_OK;
	case RF_OF_LENGTH:
		if (it.type != RF_MP_UINT || it.u > INT32_MAX)
			return rf_fail(e, RF_EDATA, "prompt_len is not a whole number of 0 or more");
		r->prompt_len = (int)it.u;
		return RF_OK;
	case RF_OF_REAL:
		if (it.type != RF_MP_REAL && it.type != RF_MP_UINT)
			return rf_fail(e, RF_EDATA, "%s%s is not a number", pre, f->key);
		rf_field_value(r, f, &value);
		*(double *)value.p = it.type == RF_MP_REAL ? it.f : (double)it.u;
		return RF_OK;
	case RF_OF_TEXT:
		if ((rc = read_string(r, pre, f->key, &v, &text, e)) == RF_OK)
			rf_field_set(r, f, (void *)text);
		return rc;
	case RF_OF_TEXTS: return read_texts(r, f, pre, v, e);
	case RF_OF_MAP:
		if (!(p = rf_record_alloc(r, size, 1)))
			return no_memory(f->key, e);
		r->meta = (struct rf_raw){ memcpy(p, v.p, size), size };
		return RF_OK;
	case RF_OF_GROUP: return read_fields(r, f->group, v, e);
	case RF_OF_PARTS: return read_parts(r, f, v, e);
	case RF_OF_I4:
	case RF_OF_F4:
	case RF_OF_PART:
		if ((rc = read_array(r, f, pre, f->key, v, &p, e)) == RF_OK)
			rf_field_set(r, f, p);
		return rc;
	}
	return RF_OK;
}

static enum rf_code read_fields(struct rf_record *r, const struct rf_field_group *g, struct rf_mp map,
                                struct rf_err *e)
{
	const struct rf_field *fields = g->fields;
	struct rf_unknown *unknown = rf_field_unknown(r, g);
	const char *keys[RF_FIELDS_MAX];
	struct rf_mp v[RF_FIELDS_MAX];
	struct rf_buf pairs = { 0 };
	enum rf_code rc;
	void *copy;
	int n = 0;

	for (; fields[n].key; n++)
		keys[n] = fields[n].key;
	rc = rf_map_sort(map, g->name, keys, n, v, &pairs, &unknown->n, e);
	if (rc == RF_OK && pairs.n) {
		if ((copy = rf_record_alloc(r, pairs.n, 1)))
			unknown->pairs = (struct rf_raw){ memcpy(copy, pairs.p, pairs.n), pairs.n };
		else
			rc = no_memory("unknown keys", e);
	}
	rf_buf_free(&pairs);
	for (int i = 0; i < n && rc == RF_OK; i++)
		if (v[i].p)
			rc = read_field(r, &fields[i], g->prefix, v[i], e);
		else if (fields[i].needed)
			rc = rf_fail(e, RF_EDATA, "%s has no '%s'", g->name, keys[i]);
	return rc;
}

enum rf_code rf_record_decode(struct rf_record *r, const void *msg, size_t n, int vocab, struct rf_err *e)
{
	struct rf_mp body = { msg, (const unsigned char *)msg + n };
	enum rf_code rc;

	rf_record_clear(r);
	rc = read_fields(r, &rf_record_group, body, e);
	return rc == RF_OK ? rf_record_check(r, vocab, e) : rc;
}

/* ---- writing ------------------------------------------------------------------------------- */

static void pack_numbers(msgpack_packer *pk, const struct rf_field *f, const struct rf_value *v,
                         const void *p)
{
	rf_pack_array(pk, f->type == RF_OF_I4 ? "<i4" : "<f4", v->ndim, v->shape, p, 4 * v->count);
}

static void pack_parts(msgpack_packer *pk, const struct rf_reward *w, const struct rf_field *f,
                       const struct rf_value *v)
{
	msgpack_pack_map(pk, (size_t)rf_parts_in_map(w));
	for (int i = 0; i < w->parts; i++)
		if (!rf_part_has_key(w->part[i].name)) {
			rf_pack_text(pk, w->part[i].name);
			pack_numbers(pk, f, v, w->part[i].value);
		}
}

static void pack_texts(msgpack_packer *pk, const char *const *text, size_t n)
{
	msgpack_pack_array(pk, n);
	for (size_t i = 0; i < n; i++)
		rf_pack_text(pk, text[i]);
}

static void pack_fields(struct rf_buf *b, const struct rf_record *r, const struct rf_field_group *g);

/* Appends a value that exists. */
static void pack_field(struct rf_buf *b, msgpack_packer *pk, const struct rf_record *r,
                       const struct rf_field *f, const struct rf_value *v)
{
	switch (f->type) {
	case RF_OF_ID: msgpack_pack_uint64(pk, *(const uint64_t *)v->p); break;
	case RF_OF_LENGTH: msgpack_pack_int(pk, *(const int *)v->p); break;
	/* clang-format off */
	case RF_OF_REAL:   msgpack_pack_double(pk, *(const double *)v->p); break;
	case RF_OF_TEXT:   rf_pack_text(pk, v->p); break;
	case RF_OF_TEXTS:  pack_texts(pk, v->p, v->count); break;
	case RF_OF_MAP:    rf_buf_add(b, r->meta.data, r->meta.size); break;
	case RF_OF_GROUP:  pack_fields(b, r, f->group); break;
	case RF_OF_PARTS:  pack_parts(pk, &r->reward, f, v); break;
	/* clang-format on */
	case RF_OF_I4:
	case RF_OF_F4:
	case RF_OF_PART: pack_numbers(pk, f, v, v->p); break;
	}
}

static void pack_fields(struct rf_buf *b, const struct rf_record *r, const struct rf_field_group *g)
{
	const struct rf_unknown *unknown = rf_field_unknown(r, g);
	size_t keys = (size_t)unknown->n;
	struct rf_value v;
	msgpack_packer pk;

	for (const struct rf_field *f = g->fields; f->key; f++)
		keys += rf_field_value(r, f, &v);
	rf_pack_init(&pk, b);
	msgpack_pack_map(&pk, keys);
	for (const struct rf_field *f = g->fields; f->key; f++)
		if (rf_field_value(r, f, &v)) {
			rf_pack_text(&pk, f->key);
			pack_field(b, &pk, r, f, &v);
		}
	rf_buf_add(b, unknown->pairs.data, unknown->pairs.size);
}

void rf_record_encode(struct rf_buf *b, uint64_t seq, const struct rf_record *r)
{
	msgpack_packer pk;

	rf_pack_init(&pk, b);
	msgpack_pack_array(&pk, 3);
	msgpack_pack_uint64(&pk, seq);
	rf_pack_text(&pk, "seq");
	pack_fields(b, r, &rf_record_group);
}
