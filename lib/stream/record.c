/* record.c -- the memory of a record: allocates, copies and removes its values. */
#include <limits.h>
#include <string.h>

#include <xxhash.h>

#include "base/memory.h"
#include "stream/fields.h"

/* ---- memory -------------------------------------------------------------------------------- */

void *rf_record_alloc(struct rf_record *r, size_t n, size_t size)
{
	return rf_region_alloc(&r->region, n, size);
}

size_t rf_record_bytes(const struct rf_record *r) { return rf_region_used(&r->region); }

uint64_t rf_record_hash(const struct rf_record *r)
{
	const struct rf_rollout *o = &r->rollout;
	const size_t c = (size_t)r->c, groups = o->tokens ? c * (size_t)o->n : 0;
	const size_t k = o->tokens ? (size_t)o->k : 0;
	const uint64_t sizes[] = { r->id,
		                   (uint64_t)r->T,
		                   (uint64_t)(int64_t)r->prompt_len,
		                   (uint64_t)r->response_len,
		                   c,
		                   groups,
		                   k,
		                   o->logp != NULL,
		                   r->advantage != NULL };
	const struct {
		const void *p;
		size_t n;
	} parts[] = {
		{ sizes, sizeof sizes },
		{ r->tokens, (size_t)r->T * 4 },
		{ r->response, (size_t)r->response_len * 4 },
		{ r->positions, c * 4 },
		{ o->tokens, groups * k * 4 },
		{ o->logp, o->logp ? groups * k * 4 : 0 },
		{ r->advantage, r->advantage ? groups * 4 : 0 },
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

int rf_rollout_length(const struct rf_rollout *o, size_t b) { return o->length ? o->length[b] : o->k; }

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

void rf_record_drop_advantage(struct rf_record *r) { r->advantage = r->advantage_per_token = NULL; }

void rf_record_drop_reward(struct rf_record *r)
{
	memset(&r->reward, 0, sizeof r->reward);
	rf_record_drop_advantage(r);
}

void rf_record_drop_generation(struct rf_record *r) { memset(&r->generation, 0, sizeof r->generation); }

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

/* Returns a copy of n bytes that belongs to the record.  Clears *ok if memory ran out. */
static void *copy_bytes(struct rf_record *r, const void *data, size_t n, bool *ok)
{
	void *p = rf_record_alloc(r, n, 1);

	if (p && n)
		memcpy(p, data, n);
	*ok = *ok && p;
	return p;
}

/* Copies the parts that have no key of their own.  The list of parts is already a copy, but its entries still
 * point into the old record. */
static void copy_parts(struct rf_record *to, size_t count, bool *ok)
{
	for (int i = 0; i < to->reward.parts && *ok; i++) {
		struct rf_part *p = &to->reward.part[i];

		if (rf_part_has_key(p->name))
			continue;
		p->name = copy_bytes(to, p->name, strlen(p->name) + 1, ok);
		p->value = copy_bytes(to, p->value, count * sizeof *p->value, ok);
	}
}

/* Returns a copy of n texts that belongs to the record.  Clears *ok if memory ran out. */
static const char **copy_texts(struct rf_record *to, const char *const *from, size_t n, bool *ok)
{
	const char **copy = rf_record_alloc(to, n, sizeof *copy);

	for (size_t i = 0; i < n && (*ok = *ok && copy); i++)
		copy[i] = copy_bytes(to, from[i], strlen(from[i]) + 1, ok);
	*ok = *ok && copy;
	return copy;
}

/* Copies what the members of a map point to.  The members themselves are already copies. */
static void copy_fields(struct rf_record *to, const struct rf_record *from, const struct rf_field_group *g,
                        bool *ok)
{
	struct rf_unknown *unknown = rf_field_unknown(to, g);
	struct rf_value v;

	for (const struct rf_field *f = g->fields; f->key && *ok; f++) {
		if (!rf_field_value(from, f, &v))
			continue;
		switch (f->type) {
		case RF_OF_TEXT: rf_field_set(to, f, copy_bytes(to, v.p, strlen(v.p) + 1, ok)); break;
		case RF_OF_TEXTS: rf_field_set(to, f, copy_texts(to, v.p, v.count, ok)); break;
		case RF_OF_MAP: to->meta.data = copy_bytes(to, from->meta.data, from->meta.size, ok); break;
		case RF_OF_I4:
		case RF_OF_F4:
		case RF_OF_PART:
			if ((*ok = v.count != SIZE_MAX))
				rf_field_set(to, f, copy_bytes(to, v.p, 4 * v.count, ok));
			break;
		case RF_OF_GROUP: copy_fields(to, from, f->group, ok); break;
		case RF_OF_PARTS:
			if ((*ok = v.count != SIZE_MAX))
				copy_parts(to, v.count, ok);
			break;
		case RF_OF_ID:
		case RF_OF_LENGTH:
		case RF_OF_REAL: break;
		}
	}
	if (unknown->n && *ok)
		unknown->pairs.data = copy_bytes(to, unknown->pairs.data, unknown->pairs.size, ok);
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
