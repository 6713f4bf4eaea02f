/* record.c -- a record's memory: made, copied, emptied, checked. */
#include <limits.h>
#include <math.h>
#include <string.h>

#include <xxhash.h>

#include "base/memory.h"
#include "base/opt.h"
#include "base/utf8.h"
#include "stream/fields.h"
#include "stream/msg.h"

/* ---- memory -------------------------------------------------------------------------------- */

void *rf_record_alloc(struct rf_record *r, size_t n, size_t size)
{
	return rf_region_alloc(&r->region, n, size);
}

size_t rf_record_bytes(const struct rf_record *r)
{
	return rf_region_used(&r->region);
}

uint64_t rf_record_hash(const struct rf_record *r)
{
	const struct rf_rollout *o = &r->rollout;
	const size_t c = (size_t)r->c, groups = o->tokens ? c * (size_t)o->n : 0;
	const size_t k = o->tokens ? (size_t)o->k : 0;
	const uint64_t sizes[] = { r->id, (uint64_t)r->T, (uint64_t)(int64_t)r->prompt_len,
	                           (uint64_t)r->response_len, c, groups, k, o->logp != NULL,
	                           r->advantage != NULL };
	const struct { const void *p; size_t n; } parts[] = {
		{ sizes, sizeof sizes }, { r->tokens, (size_t)r->T * 4 },
		{ r->response, (size_t)r->response_len * 4 }, { r->positions, c * 4 },
		{ o->tokens, groups * k * 4 },
		{ o->logp, o->logp ? groups * k * 4 : 0 }, { r->advantage, r->advantage ? groups * 4 : 0 },
		{ &o->temperature, groups ? sizeof o->temperature : 0 },
		{ o->length, o->length ? groups * 4 : 0 },
		{ r->advantage_per_token, r->advantage_per_token ? groups * k * 4 : 0 },
	};
	uint64_t hash = 0;

	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		if (parts[i].n)
			hash = XXH64(parts[i].p, parts[i].n, hash);
	return hash;
}

int rf_rollout_length(const struct rf_rollout *o, size_t b)
{
	return o->length ? o->length[b] : o->k;
}

uint64_t rf_rollout_tokens(const struct rf_record *r)
{
	const size_t rollouts = r->rollout.tokens ? (size_t)r->c * (size_t)r->rollout.n : 0;
	uint64_t tokens = 0;

	for (size_t b = 0; b < rollouts; b++)
		tokens += (uint64_t)rf_rollout_length(&r->rollout, b);
	return tokens;
}

float *rf_part_add(struct rf_record *r, const char *name, struct rf_err *e)
{
	struct rf_reward *w = &r->reward;
	size_t n = strlen(name);
	float *value;
	char *copy;

	if (!rf_part_named(name, n))
		rf_part_bad_name(name, n, e);
	else if (rf_part(w, name))
		rf_fail(e, RF_EDATA, "reward already has a part '%s'", name);
	else if (w->parts == RF_PARTS)
		rf_part_too_many(e);
	else if (!(copy = rf_region_text(&r->region, name, n)) ||
	         !(value = rf_record_alloc(r, (size_t)r->c * (size_t)w->n, sizeof *value)))
		rf_fail(e, RF_ENOMEM, "out of memory");
	else {
		w->part[w->parts++] = (struct rf_part){ copy, value };
		return value;
	}
	return NULL;
}

void rf_record_init(struct rf_record *r)
{
	memset(r, 0, sizeof *r);
	r->prompt_len = r->answers = -1;
}

void rf_record_clear(struct rf_record *r)
{
	struct rf_region region = r->region;

	rf_region_clear(&region);
	rf_record_init(r);
	r->region = region;
}

void rf_record_free(struct rf_record *r)
{
	rf_record_clear(r);
	rf_region_free(&r->region);
}

void rf_record_drop_advantage(struct rf_record *r)
{
	r->advantage = r->advantage_per_token = NULL;
}

void rf_record_drop_reward(struct rf_record *r)
{
	memset(&r->reward, 0, sizeof r->reward);
	rf_record_drop_advantage(r);
}

void rf_record_drop_generation(struct rf_record *r)
{
	memset(&r->generation, 0, sizeof r->generation);
}

void rf_record_hide(struct rf_record *r)
{
	r->hidden = r->logits = r->rollout.h_pred = r->rollout.h_gt = NULL;
	r->d = r->N = r->rollout.d = 0;
}

void rf_record_drop_rollout(struct rf_record *r)
{
	memset(&r->rollout, 0, sizeof r->rollout);
	rf_record_drop_reward(r);
}

void rf_record_drop_computed(struct rf_record *r)
{
	r->entropy = r->nll = r->correct = NULL;
	r->positions = NULL;
	r->c = 0;
	rf_record_hide(r);
	rf_record_drop_rollout(r);
	rf_record_drop_generation(r);
	r->choice.logp = NULL;
	r->choice.greedy = NULL;
}

enum rf_code rf_record_join(struct rf_record *r, struct rf_err *e)
{
	const size_t T = (size_t)r->T, m = (size_t)r->response_len;
	int32_t *all;

	if (T + m > INT_MAX)
		return rf_fail(e, RF_EDATA, "tokens and response are %zu tokens together, more than %d",
		               T + m, INT_MAX);
	if (m) {
		if (!(all = rf_record_alloc(r, T + m, sizeof *all)))
			return rf_fail(e, RF_ENOMEM, "out of memory (a record of %zu tokens)", T + m);
		memcpy(all, r->tokens, T * sizeof *all);
		memcpy(all + T, r->response, m * sizeof *all);
		r->tokens = all;
	}
	r->prompt_len = (int)T;
	r->T = (int)(T + m);
	r->response = NULL;
	r->response_len = 0;
	return RF_OK;
}

/* ---- copying ------------------------------------------------------------------------------- */

static void *dup(struct rf_record *r, const void *data, size_t n, bool *ok)
{
	void *p = rf_record_alloc(r, n, 1);

	if (p && n)
		memcpy(p, data, n);
	*ok = *ok && p;
	return p;
}

/* The parts in the map; the list is a copy already and points into the old record. */
static void copy_parts(struct rf_record *to, const struct rf_field *f, bool *ok)
{
	size_t size;

	if (!rf_field_count(to, f, &size)) {
		*ok = false;
		return;
	}
	for (int i = 0; i < to->reward.parts; i++) {
		struct rf_part *p = &to->reward.part[i];

		if (rf_part_has_key(p->name))
			continue;
		p->name = dup(to, p->name, strlen(p->name) + 1, ok);
		p->value = dup(to, p->value, 4 * size, ok);
		if (!*ok)
			return;
	}
}

static const char **copy_texts(struct rf_record *to, const char *const *from, int n, bool *ok)
{
	const char **copy = rf_record_alloc(to, (size_t)n, sizeof *copy);

	for (int i = 0; i < n && (*ok = *ok && copy); i++)
		copy[i] = dup(to, from[i], strlen(from[i]) + 1, ok);
	*ok = *ok && copy;
	return copy;
}

static void copy_fields(struct rf_record *to, const struct rf_record *from, const struct rf_group *g,
                        bool *ok)
{
	struct rf_raw *raw;
	int *n;
	size_t size;

	for (const struct rf_field *f = g->fields; f->key; f++) {
		if (!rf_field_there(from, f))
			continue;
		switch (f->kind) {
		case RF_OF_TEXT:
			rf_field_set(to, f,
			             dup(to, rf_field_get(from, f), strlen(rf_field_get(from, f)) + 1, ok));
			break;
		case RF_OF_TEXTS:
			rf_field_set(to, f, copy_texts(to, rf_field_get(from, f),
			                               rf_field_size_now(from, *f->dims), ok));
			break;
		case RF_OF_MAP:
			to->meta.data = dup(to, from->meta.data, from->meta.size, ok);
			break;
		case RF_OF_I4:
		case RF_OF_F4:
		case RF_OF_PART:
			if (rf_field_count(from, f, &size))
				rf_field_set(to, f, dup(to, rf_field_get(from, f), 4 * size, ok));
			else
				*ok = false;
			break;
		case RF_OF_GROUP:
			copy_fields(to, from, f->group, ok);
			break;
		case RF_OF_PARTS:
			copy_parts(to, f, ok);
			break;
		default:
			break;
		}
	}
	raw = rf_group_unknown(to, g, &n);
	if (*n)
		raw->data = dup(to, raw->data, raw->size, ok);
}

enum rf_code rf_record_copy(struct rf_record *to, const struct rf_record *from, struct rf_err *e)
{
	struct rf_region region;
	bool ok = true;

	rf_record_clear(to);
	region = to->region;
	*to = *from;
	to->region = region;
	copy_fields(to, from, &rf_record_group, &ok);
	if (!ok) {
		rf_record_clear(to);
		return rf_fail(e, RF_ENOMEM, "out of memory (a copy of record id %llu)",
		               (unsigned long long)from->id);
	}
	return RF_OK;
}

/* ---- checking ------------------------------------------------------------------------------ */

static enum rf_code check_floats(const float *x, size_t n, const char *pre, const char *key, struct rf_err *e)
{
	for (size_t i = 0; i < n; i++)
		if (!isfinite(x[i]))
			return rf_fail(e, RF_EDATA, "%s%s is %s (number %zu)", pre, key,
			               isnan(x[i]) ? "NaN" : "infinite", i);
	return RF_OK;
}

static enum rf_code check_range(const int32_t *x, size_t n, int64_t min, int64_t end, const char *pre,
                               const char *key, struct rf_err *e)
{
	for (size_t i = 0; i < n; i++)
		if (x[i] < min || x[i] >= end)
			return rf_fail(e, RF_EDATA, "%s%s: number %zu is %ld, outside %lld to %lld", pre, key,
			               i, (long)x[i], (long long)min, (long long)end - 1);
	return RF_OK;
}

static enum rf_code check_raw(struct rf_raw raw, const char *key, struct rf_err *e)
{
	const unsigned char *p = raw.data;

	if (rf_msg_check(raw.data, raw.size, e) != RF_OK)
		return rf_blame(e, "%s", key);
	if (*p >> 4 != 8 && *p != 0xde && *p != 0xdf)
		return rf_fail(e, RF_EDATA, "%s is not a map", key);
	return RF_OK;
}

/* How many numbers the array has, which must be some and not too many. */
static enum rf_code check_size(const struct rf_record *r, const struct rf_field *f, const char *pre,
                               const char *key, size_t *n, struct rf_err *e)
{
	for (const char *l = f->dims; *l; l++)
		if (rf_field_size_now(r, *l) < (*l != 't'))
			return rf_fail(e, RF_EDATA, "%s%s is empty", pre, key);
	if (!rf_field_count(r, f, n) || *n > UINT32_MAX / 4)
		return rf_fail(e, RF_EIO,
		               "%s%s has 4 GiB or more, which no message can hold: use shorter sequences",
		               pre,
		               key);
	return RF_OK;
}

static enum rf_code check_parts(const struct rf_record *r, const struct rf_field *f, struct rf_err *e)
{
	const struct rf_reward *w = &r->reward;
	enum rf_code rc = RF_OK;
	size_t n;

	for (int i = 0; i < w->parts && rc == RF_OK; i++) {
		const struct rf_part *p = &w->part[i];

		if (!rf_part_named(p->name, strlen(p->name))) {
			rf_part_bad_name(p->name, strlen(p->name), e);
			return rf_blame(e, "reward.parts");
		}
		if (rf_part_find(w, p->name) < i)
			return rf_fail(e, RF_EDATA, "reward has the part '%s' twice", p->name);
		if (!rf_part_has_key(p->name) &&
		    (rc = check_size(r, f, "reward.parts.", p->name, &n, e)) == RF_OK)
			rc = check_floats(p->value, n, "reward.parts.", p->name, e);
	}
	return rc;
}

/* A choice has a token of its own. */
static enum rf_code check_from(const struct rf_choice *c, struct rf_err *e)
{
	for (int i = 0; i < c->n; i++)
		if (c->from[i] < 0 || c->from[i] >= c->length[i])
			return rf_fail(e, RF_EDATA, "choice.from: number %d is %ld, outside 0 to %ld", i,
			               (long)c->from[i], (long)c->length[i] - 1);
	return RF_OK;
}

/* Token ids, but for what has bounds of its own. */
static enum rf_code check_ints(const struct rf_record *r, const struct rf_field *f, size_t n, int vocab,
                               const char *pre, struct rf_err *e)
{
	if (f->at == RF_AT(positions))
		return check_range(r->positions, n, 1, r->T, pre, f->key, e);
	if (f->at == RF_AT(rollout.length))
		return check_range(r->rollout.length, n, 1, (int64_t)r->rollout.k + 1, pre, f->key, e);
	if (f->at == RF_AT(generation.length))
		return check_range(r->generation.length, n, 1, (int64_t)r->generation.m + 1, pre, f->key, e);
	if (f->at == RF_AT(choice.length))
		return check_range(r->choice.length, n, 1, (int64_t)r->choice.m + 1, pre, f->key, e);
	if (f->at == RF_AT(choice.from))
		return check_from(&r->choice, e);
	if (f->at == RF_AT(choice.greedy))
		return check_range(r->choice.greedy, n, 0, 2, pre, f->key, e);
	return check_range(rf_field_get(r, f), n, 0, vocab ? vocab : INT64_C(1) << 31, pre, f->key, e);
}

static enum rf_code check_texts(const struct rf_record *r, const struct rf_field *f, const char *pre,
                                struct rf_err *e)
{
	const char *const *text = rf_field_get(r, f);

	for (int i = 0; i < rf_field_size_now(r, *f->dims); i++) {
		if (!rf_utf8(text[i], strlen(text[i])))
			return rf_fail(e, RF_EDATA, "%s%s: number %d is not UTF-8", pre, f->key, i);
		if (f->at == RF_AT(generation.stop) && rf_opt_index(RF_STOP_WORDS, text[i]) < 0)
			return rf_fail(e, RF_EDATA, "%s%s: number %d is not one of %s", pre, f->key, i,
			               RF_STOP_WORDS);
	}
	return RF_OK;
}

static enum rf_code check_real(const struct rf_record *r, const struct rf_field *f, const char *pre,
                               struct rf_err *e)
{
	const double x = *rf_field_real(r, f);
	const bool greedy = f->at == RF_AT(generation.temperature);

	if (isfinite(x) && (x > 0 || (greedy && x == 0)))
		return RF_OK;
	return rf_fail(e, RF_EDATA, "%s%s is %g, not a number %s", pre, f->key, x,
	               greedy ? "of 0 or more" : "above 0");
}

static enum rf_code check_fields(const struct rf_record *r, const struct rf_group *g, int vocab,
                                 struct rf_err *e)
{
	const char *pre = g->prefix;
	enum rf_code rc = RF_OK;
	size_t n;

	for (const struct rf_field *f = g->fields; f->key && rc == RF_OK; f++) {
		if (!rf_field_there(r, f))
			continue;
		switch (f->kind) {
		case RF_OF_I4:
		case RF_OF_F4:
		case RF_OF_PART:
			if ((rc = check_size(r, f, pre, f->key, &n, e)) != RF_OK)
				return rc;
			rc = f->kind == RF_OF_I4 ? check_ints(r, f, n, vocab, pre, e)
			                      : check_floats(rf_field_get(r, f), n, pre, f->key, e);
			break;
		case RF_OF_TEXT:
			if (!rf_utf8(rf_field_get(r, f), strlen(rf_field_get(r, f))))
				rc = rf_fail(e, RF_EDATA, "%s%s is not UTF-8", pre, f->key);
			break;
		case RF_OF_TEXTS:
			rc = check_texts(r, f, pre, e);
			break;
		case RF_OF_LENGTH:
			if (r->prompt_len > r->T)
				rc = rf_fail(e, RF_EDATA,
				             "prompt_len is %d, but the sequence has only %d tokens",
				             r->prompt_len, r->T);
			break;
		case RF_OF_MAP:
			rc = check_raw(r->meta, f->key, e);
			break;
		case RF_OF_REAL:
			rc = check_real(r, f, pre, e);
			break;
		case RF_OF_GROUP:
			rc = check_fields(r, f->group, vocab, e);
			break;
		case RF_OF_PARTS:
			rc = check_parts(r, f, e);
			break;
		case RF_OF_ID:
			break;
		}
	}
	return rc;
}

enum rf_code rf_record_check(const struct rf_record *r, int vocab, struct rf_err *e)
{
	if (!r->tokens)
		return rf_fail(e, RF_EDATA, "the record has no 'tokens'");
	if (r->rollout.tokens && !r->positions)
		return rf_fail(e, RF_EDATA, "the record has a rollout but no positions");
	if (r->reward.kind && !r->rollout.tokens)
		return rf_fail(e, RF_EDATA, "the record has a reward but no rollout");
	if ((r->advantage || r->advantage_per_token) && !r->rollout.tokens)
		return rf_fail(e, RF_EDATA, "the record has an advantage but no rollout");
	if (r->advantage && r->advantage_per_token)
		return rf_fail(e, RF_EDATA,
		               "the record has advantage and advantage_per_token, but only one of them is "
		               "allowed");
	if (!r->rollout.h_pred != !r->rollout.h_gt)
		return rf_fail(e, RF_EDATA, "rollout has %s but no %s", r->rollout.h_pred ? "h_pred" : "h_gt",
		               r->rollout.h_pred ? "h_gt" : "h_pred");
	if (r->reward.kind && !r->reward.total)
		return rf_fail(e, RF_EDATA, "reward has no 'total'");
	if (r->reward.kind && r->reward.n != r->rollout.n)
		return rf_fail(e, RF_EDATA, "reward has %d numbers per position, but rollout has %d",
		               r->reward.n,
		               r->rollout.n);
	if (r->response && r->prompt_len >= 0)
		return rf_fail(e, RF_EDATA,
		               "the record has a response and prompt_len, but only one of them is "
		               "allowed");
	return check_fields(r, &rf_record_group, vocab, e);
}
