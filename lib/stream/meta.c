/* meta.c -- converts the msgpack of a record's meta to JSON and to texts. */
#include <string.h>

#include "base/memory.h"
#include "stream/meta.h"
#include "stream/pack.h"

/* Returns the bytes of a key's value, or of all of meta if key is NULL. */
static struct rf_mp find_value(const struct rf_record *r, const char *key)
{
	const unsigned char *meta = r->meta.data;
	struct rf_mp all = { meta, meta ? meta + r->meta.size : NULL };

	return meta && key ? rf_mp_get(all, key) : all;
}

/* Converts the next value.  The depth is bounded because the message was checked.  Returns NULL if memory ran
 * out. */
static json_t *json_value(struct rf_mp *m)
{
	struct rf_mp_item it;
	json_t *v;

	if (rf_mp_next(m, &it))
		return json_null();
	switch (it.type) {
	case RF_MP_BOOL: return json_boolean(it.b);
	case RF_MP_UINT: return it.u > INT64_MAX ? json_real((double)it.u) : json_integer((json_int_t)it.u);
	case RF_MP_INT: return json_integer(it.i);
	case RF_MP_REAL: return json_real(it.f);
	case RF_MP_STR: return json_stringn((const char *)it.data, it.n);
	case RF_MP_ARRAY:
		v = json_array();
		for (uint32_t i = 0; i < it.n; i++)
			json_array_append_new(v, json_value(m));
		return v;
	case RF_MP_MAP:
		v = json_object();
		for (uint32_t i = 0; i < it.n; i++) {
			json_t *key = json_value(m);
			json_object_set_new(v, json_string_value(key), json_value(m));
			json_decref(key);
		}
		return v;
	default: return json_null();
	}
}

json_t *rf_meta_json(const struct rf_record *r, const char *key)
{
	struct rf_mp m = find_value(r, key);

	return m.p ? json_value(&m) : NULL;
}

enum rf_code rf_meta_texts(const struct rf_record *r, const char *key, struct rf_region *p,
                           struct rf_texts *to, struct rf_err *e)
{
	struct rf_mp m = find_value(r, key);
	struct rf_mp_item it;
	const char **list;
	uint32_t n = 1;

	*to = (struct rf_texts){ NULL, 0 };
	if (!m.p || rf_mp_next(&m, &it) || it.type == RF_MP_NIL)
		return RF_OK;
	if (it.type == RF_MP_ARRAY && !(n = it.n))
		return RF_OK;
	if (!(list = rf_region_alloc(p, n, sizeof *list)))
		return rf_fail(e, RF_ENOMEM, "out of memory (texts of meta)");
	for (bool in = it.type == RF_MP_ARRAY; (uint32_t)to->n < n; to->n++) {
		if ((in && rf_mp_next(&m, &it)) || it.type != RF_MP_STR || memchr(it.data, 0, it.n))
			return rf_fail(e, RF_EDATA, "meta's '%.40s' %s", key,
			               it.type == RF_MP_STR ? "has a text with a NUL"
			                                    : "is neither a text nor a list of texts");
		if (!(list[to->n] = rf_region_text(p, it.data, it.n)))
			return rf_fail(e, RF_ENOMEM, "out of memory (texts of meta)");
	}
	to->s = list;
	return RF_OK;
}
