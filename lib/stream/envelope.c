/* envelope.c -- the form of a message, [seq, type, body], and the body of the end record. */
#include <string.h>

#include "stream/wire.h"

const char *const rf_msg_types[] = { "head", "seq", "end" };

enum rf_code rf_msg_open(struct rf_msg *m, const void *msg, size_t n, struct rf_err *e)
{
	struct rf_mp p = { msg, (const unsigned char *)msg + n };
	struct rf_mp_item it;
	char quoted[60];

	rf_mp_next(&p, &it);
	if (it.type != RF_MP_ARRAY || it.n != 3)
		return rf_fail(e, RF_EDATA, "the message is not [seq, type, body]");
	rf_mp_next(&p, &it);
	if (it.type != RF_MP_UINT)
		return rf_fail(e, RF_EDATA,
		               "the message is not [seq, type, body]: seq is not a whole number");
	m->seq = it.u;
	rf_mp_next(&p, &it);
	if (it.type != RF_MP_STR)
		return rf_fail(e, RF_EDATA, "the message is not [seq, type, body]: type is not a string");
	for (m->type = RF_MSG_HEAD; m->type <= RF_MSG_END && !rf_mp_is(&it, rf_msg_types[m->type]);)
		m->type++;
	if (m->type > RF_MSG_END)
		return rf_fail(e, RF_EDATA, "the message has the type '%s', which format %d does not define",
		               rf_quote(quoted, sizeof quoted, it.data, it.n), RF_FORMAT);
	m->body = p;
	rf_mp_next(&p, &it);
	if (it.type != RF_MP_MAP)
		return rf_fail(e, RF_EDATA, "the message is not [seq, type, body]: body is not a map");
	return RF_OK;
}

enum rf_code rf_msg_expect(const struct rf_msg *m, uint64_t seq, struct rf_err *e)
{
	if (m->seq != seq)
		return rf_fail(e, RF_EDATA, "found record %llu where record %llu was expected",
		               (unsigned long long)m->seq, (unsigned long long)seq);
	if (!m->seq != (m->type == RF_MSG_HEAD))
		return rf_fail(e, RF_EDATA,
		               m->seq ? "this is a second head" : "the first message is not a head");
	return RF_OK;
}

enum rf_code rf_end_decode(struct rf_end *end, struct rf_mp body, struct rf_err *e)
{
	static const char *const keys[] = { "count", "xxh64" };
	struct rf_buf unknown = { 0 };
	struct rf_mp_item count, hash;
	struct rf_mp v[2];
	int unknowns = 0;
	enum rf_code rc = rf_map_sort(body, "end", keys, 2, v, &unknown, &unknowns, e);

	rf_buf_free(&unknown);
	if (rc != RF_OK)
		return rc;
	if (!v[0].p || rf_mp_next(&v[0], &count) || count.type != RF_MP_UINT)
		return rf_fail(e, RF_EDATA, "the end record has no 'count'");
	if (!v[1].p || rf_mp_next(&v[1], &hash) || hash.type != RF_MP_UINT)
		return rf_fail(e, RF_EDATA, "the end record has no 'xxh64'");
	*end = (struct rf_end){ count.u, hash.u };
	return RF_OK;
}

void rf_end_encode(struct rf_buf *b, uint64_t seq, const struct rf_end *end)
{
	msgpack_packer pk;

	rf_pack_init(&pk, b);
	msgpack_pack_array(&pk, 3);
	msgpack_pack_uint64(&pk, seq);
	rf_pack_text(&pk, "end");
	msgpack_pack_map(&pk, 2);
	rf_pack_text(&pk, "count");
	msgpack_pack_uint64(&pk, end->count);
	rf_pack_text(&pk, "xxh64");
	msgpack_pack_uint64(&pk, end->xxh64);
}
