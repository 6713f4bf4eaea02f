/* record.c -- the memory of a record: allocates and removes its values, counts and hashes them. */
#include <limits.h>
#include <string.h>

#include <xxhash.h>

#include "stream/record.h"

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
		/* a part that a record lacks does not change the hash */
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
		{ "logp_ref", o->logp_ref ? 8 : 0 }, /* otherwise it could be advantages per token */
		{ o->logp_ref, o->logp_ref ? groups * k * 4 : 0 },
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
