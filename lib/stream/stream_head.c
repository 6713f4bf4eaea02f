/* stream_head.c -- the head of a stream: facts about its records, and the history of the stages that made
 * them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/utf8.h"
#include "stream/msg.h"
#include "stream/wire.h"

/* The parts of a head that its users do not see. */
struct history {
	struct rf_buf done;             /* packed stages that have ended */
	uint32_t stages;                /* number of them */
	bool open;                      /* whether the newest stage may still get options: */
	struct rf_buf stage, options;   /* its packed pairs before `options`, and the pairs of `options` */
	uint32_t pairs, option_count;   /* number of these pairs */
	struct rf_buf tokenizer, model; /* packed pairs of these maps whose keys are unknown */
	int tokenizer_unknowns, model_unknowns;
	char arch[17], weights[17]; /* the model that the unknown keys belong to */
	int64_t step;
};

static const char *const head_keys[] = {
	"format", "vocab", "seed", "tokenizer", "model", "shard", "history"
};
enum { FORMAT, VOCAB, SEED, TOKENIZER, MODEL, SHARD, HISTORY, HEAD_KEYS };

void rf_head_init(struct rf_head *h)
{
	memset(h, 0, sizeof *h);
	h->step = -1;
}

void rf_head_free(struct rf_head *h)
{
	struct history *y = h->history;

	if (y) {
		rf_buf_free(&y->done);
		rf_buf_free(&y->stage);
		rf_buf_free(&y->options);
		rf_buf_free(&y->tokenizer);
		rf_buf_free(&y->model);
		free(y);
	}
	free((void *)h->unknown.data);
	rf_head_init(h);
}

static enum rf_code no_memory(struct rf_err *e) { return rf_fail(e, RF_ENOMEM, "out of memory (head)"); }

/* Returns the history, which is made if the head has none; NULL if memory ran out. */
static struct history *get_history(struct rf_head *h)
{
	if (!h->history)
		h->history = calloc(1, sizeof(struct history));
	return h->history;
}

static bool buf_copy(struct rf_buf *to, const struct rf_buf *from)
{
	memset(to, 0, sizeof *to);
	rf_buf_add(to, from->p, from->n);
	return !to->failed;
}

enum rf_code rf_head_copy(struct rf_head *to, const struct rf_head *from, struct rf_err *e)
{
	const struct history *y = from->history;
	struct rf_buf unknown = { 0 };

	*to = *from;
	to->history = NULL;
	rf_buf_add(&unknown, from->unknown.data, from->unknown.size);
	to->unknown.data = unknown.p;
	if (unknown.failed)
		return no_memory(e);
	if (y) {
		struct history *z = get_history(to);
		if (!z)
			return no_memory(e);
		*z = *y;
		bool ok = buf_copy(&z->done, &y->done);
		ok = buf_copy(&z->stage, &y->stage) && ok;
		ok = buf_copy(&z->options, &y->options) && ok;
		ok = buf_copy(&z->tokenizer, &y->tokenizer) && ok;
		ok = buf_copy(&z->model, &y->model) && ok;
		if (!ok)
			return no_memory(e);
	}
	return RF_OK;
}

/* ---- history ------------------------------------------------------------------------------- */

/* Appends the open stage. */
static void pack_stage(struct rf_buf *to, const struct history *y)
{
	msgpack_packer pk;

	rf_pack_init(&pk, to);
	msgpack_pack_map(&pk, y->pairs + 1);
	rf_buf_add(to, y->stage.p, y->stage.n);
	rf_pack_text(&pk, "options");
	msgpack_pack_map(&pk, y->option_count);
	rf_buf_add(to, y->options.p, y->options.n);
}

static void pack_pair(msgpack_packer *pk, const char *key, const char *value)
{
	rf_pack_text(pk, key);
	rf_pack_text(pk, value);
}

enum rf_code rf_head_stage(struct rf_head *h, const char *tool, const char *version, struct rf_err *e)
{
	struct history *y = get_history(h);
	msgpack_packer pk;

	if (!y)
		return no_memory(e);
	if (y->open) {
		pack_stage(&y->done, y);
		y->stages++;
	}
	y->stage.n = y->options.n = y->option_count = 0;
	y->open = true;
	rf_pack_init(&pk, &y->stage);
	pack_pair(&pk, "tool", tool);
	pack_pair(&pk, "version", version);
	y->pairs = 2;
	return y->done.failed || y->stage.failed ? no_memory(e) : RF_OK;
}

enum rf_code rf_head_stage_model(struct rf_head *h, const char *arch, const char *weights, int64_t step,
                                 struct rf_err *e)
{
	struct history *y = h->history;
	msgpack_packer pk;

	rf_pack_init(&pk, &y->stage);
	rf_pack_text(&pk, "model");
	msgpack_pack_map(&pk, 3);
	pack_pair(&pk, "arch", arch);
	pack_pair(&pk, "weights", weights);
	rf_pack_text(&pk, "step");
	msgpack_pack_int64(&pk, step);
	y->pairs++;
	return y->stage.failed ? no_memory(e) : RF_OK;
}

static enum rf_code not_text(const char *name, struct rf_err *e)
{
	return rf_fail(e, RF_EUSAGE, "--%s: the value is not UTF-8, which the stream's history needs", name);
}

enum rf_code rf_head_option(struct rf_head *h, const struct rf_opt *o, struct rf_err *e)
{
	static const struct rf_opt_list none;
	const struct rf_opt_list *list = o->kind == RF_OPT_LIST ? o->to : &none;
	struct history *y = h->history;
	char buf[RF_OPT_VALUE];
	size_t n = 0;
	const char *text = rf_opt_value(o, 17, buf, &n);
	msgpack_packer pk;

	for (int i = 0; i < list->n; i++)
		if (!rf_utf8(list->s[i], strlen(list->s[i])))
			return not_text(o->name, e);
	if (!text && !list->n)
		return RF_OK;
	if (text && !rf_utf8(text, n))
		return not_text(o->name, e);
	rf_pack_init(&pk, &y->options);
	rf_pack_text(&pk, o->name);
	y->option_count++;
	switch (o->kind) {
	case RF_OPT_FLAG: *text == 'y' ? msgpack_pack_true(&pk) : msgpack_pack_false(&pk); break;
	case RF_OPT_INT: msgpack_pack_int(&pk, *(const int *)o->to); break;
	case RF_OPT_U64:
	case RF_OPT_SIZE: msgpack_pack_uint64(&pk, *(const uint64_t *)o->to); break;
	case RF_OPT_REAL: msgpack_pack_double(&pk, *(const double *)o->to); break;
	case RF_OPT_LIST:
		msgpack_pack_array(&pk, (size_t)list->n);
		for (int i = 0; i < list->n; i++)
			rf_pack_text(&pk, list->s[i]);
		break;
	default: rf_pack_str(&pk, text, n);
	}
	return y->options.failed ? no_memory(e) : RF_OK;
}

bool rf_head_asked(const struct rf_head *h, const char *tool, const char *option, int64_t *value)
{
	const struct history *y = h->history;
	struct rf_mp at = { y ? y->done.p : NULL, y ? y->done.p + y->done.n : NULL };
	bool found = false;

	for (uint32_t i = 0; y && i < y->stages; i++) {
		struct rf_mp name = rf_mp_get(at, "tool"), v = rf_mp_get(rf_mp_get(at, "options"), option);
		struct rf_mp_item it;

		if (name.p && v.p && !rf_mp_next(&name, &it) && it.type == RF_MP_STR && rf_mp_is(&it, tool) &&
		    !rf_mp_next(&v, &it) && it.type == RF_MP_UINT && it.u <= INT64_MAX) {
			*value = (int64_t)it.u;
			found = true;
		}
		rf_mp_skip(&at);
	}
	return found;
}

/* ---- writing ------------------------------------------------------------------------------- */

/* Returns whether the head still names the model that the unknown keys belong to. */
static bool same_model(const struct rf_head *h, const struct history *y)
{
	return !strcmp(h->arch, y->arch) && !strcmp(h->weights, y->weights) && h->step == y->step;
}

static const char *const shard_keys[] = { "rank", "ranks", "mini_batch", "records", "steps" };
enum { RANK, RANKS, MINI_BATCH, RECORDS, STEPS, SHARD_KEYS };

static void pack_shard(msgpack_packer *pk, const struct rf_shard *s)
{
	const int v[SHARD_KEYS] = { s->rank, s->ranks, s->mini_batch, s->records, s->steps };

	msgpack_pack_map(pk, SHARD_KEYS);
	for (int i = 0; i < SHARD_KEYS; i++) {
		rf_pack_text(pk, shard_keys[i]);
		msgpack_pack_int(pk, v[i]);
	}
}

void rf_head_encode(struct rf_buf *b, const struct rf_head *h)
{
	static const struct history none;
	const struct history *y = h->history ? h->history : &none;
	int tokenizer = !!*h->tokenizer_kind + !!*h->tokenizer_hash + y->tokenizer_unknowns;
	int unknowns = same_model(h, y) ? y->model_unknowns : 0; /* another model does not have these keys */
	int model = !!*h->arch + !!*h->weights + (h->step >= 0) + unknowns;
	msgpack_packer pk;

	rf_pack_init(&pk, b);
	msgpack_pack_array(&pk, 3);
	msgpack_pack_uint64(&pk, 0);
	rf_pack_text(&pk, "head");
	msgpack_pack_map(&pk, (size_t)(2 + !!h->vocab + h->has_seed + !!tokenizer + !!model +
	                               !!h->shard.ranks + h->unknowns));
	rf_pack_text(&pk, "format");
	msgpack_pack_int(&pk, RF_FORMAT);
	if (h->vocab) {
		rf_pack_text(&pk, "vocab");
		msgpack_pack_int(&pk, h->vocab);
	}
	if (h->has_seed) {
		rf_pack_text(&pk, "seed");
		msgpack_pack_uint64(&pk, h->seed);
	}
	if (tokenizer) {
		rf_pack_text(&pk, "tokenizer");
		msgpack_pack_map(&pk, (size_t)tokenizer);
		if (*h->tokenizer_kind)
			pack_pair(&pk, "kind", h->tokenizer_kind);
		if (*h->tokenizer_hash)
			pack_pair(&pk, "hash", h->tokenizer_hash);
		rf_buf_add(b, y->tokenizer.p, y->tokenizer.n);
	}
	if (model) {
		rf_pack_text(&pk, "model");
		msgpack_pack_map(&pk, (size_t)model);
		if (*h->arch)
			pack_pair(&pk, "arch", h->arch);
		if (*h->weights)
			pack_pair(&pk, "weights", h->weights);
		if (h->step >= 0) {
			rf_pack_text(&pk, "step");
			msgpack_pack_int64(&pk, h->step);
		}
		if (unknowns)
			rf_buf_add(b, y->model.p, y->model.n);
	}
	if (h->shard.ranks) {
		rf_pack_text(&pk, "shard");
		pack_shard(&pk, &h->shard);
	}
	rf_pack_text(&pk, "history");
	msgpack_pack_array(&pk, y->stages + y->open);
	rf_buf_add(b, y->done.p, y->done.n);
	if (y->open)
		pack_stage(b, y);
	rf_buf_add(b, h->unknown.data, h->unknown.size);
}

enum rf_code rf_head_hash(const struct rf_head *h, uint64_t *hash, struct rf_err *e)
{
	struct rf_head whole = *h;
	struct rf_buf b = { 0 };
	bool failed;

	whole.shard = (struct rf_shard){ 0 };
	rf_head_encode(&b, &whole);
	failed = b.failed;
	*hash = failed ? 0 : XXH64(b.p, b.n, 0);
	rf_buf_free(&b);
	return failed ? no_memory(e) : RF_OK;
}

/* ---- reading ------------------------------------------------------------------------------- */

enum rf_code rf_map_sort(struct rf_mp map, const char *what, const char *const *words, int n,
                         struct rf_mp *value, struct rf_buf *unknown, int *unknowns, struct rf_err *e)
{
	struct rf_mp_item it;

	memset(value, 0, (size_t)n * sizeof *value);
	rf_mp_next(&map, &it);
	if (it.type != RF_MP_MAP)
		return rf_fail(e, RF_EDATA, "%s is not a map", what);
	for (uint32_t left = it.n; left; left--) {
		const unsigned char *from = map.p;
		struct rf_mp_item key;
		struct rf_mp v;
		int i = 0;

		rf_mp_pair(&map, &key, &v);
		if (*v.p == 0xc0) {
			char name[80];
			return rf_fail(e, RF_EDATA,
			               "%s: '%s' is nil: leave out a key whose value is not known", what,
			               rf_quote(name, sizeof name, key.data, key.n));
		}
		while (i < n && !rf_mp_is(&key, words[i]))
			i++;
		if (i < n) {
			value[i] = v;
		} else {
			rf_buf_add(unknown, from, (size_t)(map.p - from));
			++*unknowns;
		}
	}
	return unknown->failed ? rf_fail(e, RF_ENOMEM, "out of memory (unknown keys)") : RF_OK;
}

static enum rf_code read_uint(struct rf_mp v, const char *key, uint64_t min, uint64_t max, uint64_t *to,
                              struct rf_err *e)
{
	struct rf_mp_item it;

	rf_mp_next(&v, &it);
	if (it.type != RF_MP_UINT || it.u < min || it.u > max)
		return rf_fail(e, RF_EDATA, "%s is not a whole number from %llu to %llu", key,
		               (unsigned long long)min, (unsigned long long)max);
	*to = it.u;
	return RF_OK;
}

static enum rf_code read_text(struct rf_mp v, const char *key, char *to, size_t size, struct rf_err *e)
{
	struct rf_mp_item it;

	rf_mp_next(&v, &it);
	if (it.type != RF_MP_STR || !it.n || it.n >= size || memchr(it.data, 0, it.n))
		return rf_fail(e, RF_EDATA, "%s is not a string of 1 to %zu bytes", key, size - 1);
	memcpy(to, it.data, it.n);
	to[it.n] = 0;
	return RF_OK;
}

static enum rf_code read_hash(struct rf_mp v, const char *key, char to[17], struct rf_err *e)
{
	struct rf_mp_item it;

	rf_mp_next(&v, &it);
	if (it.type != RF_MP_STR || it.n != 16)
		return rf_fail(e, RF_EDATA, "%s is not a hash of 16 hex digits", key);
	memcpy(to, it.data, 16);
	to[16] = 0;
	if (strspn(to, "0123456789abcdef") != 16)
		return rf_fail(e, RF_EDATA, "%s is not a hash of 16 hex digits", key);
	return RF_OK;
}

static enum rf_code read_tokenizer(struct rf_head *h, struct rf_mp map, struct rf_err *e)
{
	static const char *const keys[] = { "kind", "hash" };
	struct history *y = h->history;
	struct rf_mp v[2];
	enum rf_code rc = rf_map_sort(map, "tokenizer", keys, 2, v, &y->tokenizer, &y->tokenizer_unknowns, e);

	if (rc == RF_OK && v[0].p)
		rc = read_text(v[0], "tokenizer.kind", h->tokenizer_kind, sizeof h->tokenizer_kind, e);
	if (rc == RF_OK && v[1].p)
		rc = read_hash(v[1], "tokenizer.hash", h->tokenizer_hash, e);
	return rc;
}

static enum rf_code read_model(struct rf_head *h, struct rf_mp map, struct rf_err *e)
{
	static const char *const keys[] = { "arch", "weights", "step" };
	struct history *y = h->history;
	struct rf_mp v[3];
	uint64_t step = 0;
	enum rf_code rc = rf_map_sort(map, "model", keys, 3, v, &y->model, &y->model_unknowns, e);

	if (rc == RF_OK && v[0].p)
		rc = read_hash(v[0], "model.arch", h->arch, e);
	if (rc == RF_OK && v[1].p)
		rc = read_hash(v[1], "model.weights", h->weights, e);
	if (rc == RF_OK && v[2].p && (rc = read_uint(v[2], "model.step", 0, INT64_MAX, &step, e)) == RF_OK)
		h->step = (int64_t)step;
	memcpy(y->arch, h->arch, sizeof y->arch);
	memcpy(y->weights, h->weights, sizeof y->weights);
	y->step = h->step;
	return rc;
}

static enum rf_code read_shard(struct rf_shard *s, struct rf_mp map, struct rf_err *e)
{
	int *const to[SHARD_KEYS] = { &s->rank, &s->ranks, &s->mini_batch, &s->records, &s->steps };
	struct rf_mp v[SHARD_KEYS];
	struct rf_buf unknown = { 0 };
	char name[32];
	int unknowns = 0;
	enum rf_code rc = rf_map_sort(map, "shard", shard_keys, SHARD_KEYS, v, &unknown, &unknowns, e);

	rf_buf_free(&unknown);
	if (rc == RF_OK && unknowns)
		rc = rf_fail(e, RF_EDATA, "the head's shard has an unknown key");
	for (int i = 0; i < SHARD_KEYS && rc == RF_OK; i++) {
		uint64_t u = 0;

		snprintf(name, sizeof name, "shard.%s", shard_keys[i]);
		if (!v[i].p)
			return rf_fail(e, RF_EDATA, "the head has no %s", name);
		rc = read_uint(v[i], name, i == RANKS, INT32_MAX, &u, e);
		*to[i] = (int)u;
	}
	if (rc == RF_OK && (s->rank >= s->ranks || !s->records != !s->steps || (s->steps && s->mini_batch)))
		rc = rf_fail(e, RF_EDATA, "the head's shard contradicts itself");
	return rc;
}

static enum rf_code read_history(struct history *y, struct rf_mp list, struct rf_err *e)
{
	struct rf_mp_item it;
	const unsigned char *from;

	rf_mp_next(&list, &it);
	if (it.type != RF_MP_ARRAY)
		return rf_fail(e, RF_EDATA, "history is not a list");
	y->stages = it.n;
	from = list.p;
	rf_buf_add(&y->done, from, (size_t)(list.end - from));
	for (uint32_t i = 0; i < y->stages; i++) {
		struct rf_mp at = list;
		rf_mp_next(&at, &it);
		if (it.type != RF_MP_MAP)
			return rf_fail(e, RF_EDATA, "stage %lu of the history is not a map",
			               (unsigned long)i);
		rf_mp_skip(&list);
	}
	return y->done.failed ? no_memory(e) : RF_OK;
}

enum rf_code rf_head_decode(struct rf_head *h, struct rf_mp body, struct rf_err *e)
{
	struct rf_mp v[HEAD_KEYS];
	struct rf_buf unknown = { 0 };
	uint64_t u = 0;
	enum rf_code rc;

	if (!get_history(h))
		return no_memory(e);
	rc = rf_map_sort(body, "head", head_keys, HEAD_KEYS, v, &unknown, &h->unknowns, e);
	h->unknown = (struct rf_raw){ unknown.p, unknown.n };
	if (rc != RF_OK)
		return rc;
	if (!v[FORMAT].p)
		return rf_fail(e, RF_EDATA, "the head has no 'format'");
	if ((rc = read_uint(v[FORMAT], "format", 1, INT64_MAX, &u, e)) != RF_OK)
		return rc;
	if (u != RF_FORMAT)
		return rf_fail(e, RF_EDATA,
		               "the stream has format %llu, but this version of rf-tools reads format %d "
		               "(use a newer version)",
		               (unsigned long long)u, RF_FORMAT);
	if (v[VOCAB].p && (rc = read_uint(v[VOCAB], "vocab", 1, INT32_MAX, &u, e)) == RF_OK)
		h->vocab = (int)u;
	if (rc == RF_OK && v[SEED].p &&
	    (rc = read_uint(v[SEED], "seed", 0, UINT64_MAX, &h->seed, e)) == RF_OK)
		h->has_seed = true;
	if (rc == RF_OK && v[TOKENIZER].p)
		rc = read_tokenizer(h, v[TOKENIZER], e);
	if (rc == RF_OK && v[MODEL].p)
		rc = read_model(h, v[MODEL], e);
	if (rc == RF_OK && v[SHARD].p)
		rc = read_shard(&h->shard, v[SHARD], e);
	if (rc == RF_OK && v[HISTORY].p)
		rc = read_history(h->history, v[HISTORY], e);
	return rc;
}
