/* vote.c -- votes.  All ballots have the same size, so a rank that fails can cast its ballot in any vote that
 * the other ranks come to. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ranks/ranks.h"

enum { BALLOT_MESSAGE = 400 };

struct ballot {
	int32_t code, moment;
	int64_t number;
	uint64_t same[RF_VOTE_SAME];
	char what[60], message[BALLOT_MESSAGE];
	unsigned char mine[RF_VOTE_BYTES];
};

/* Finds the first rank that failed, that is at another place than rank 0, or that has other facts, and stores
 * the reason in e. */
static enum rf_code count_ballots(struct rf_ranks *r, const struct rf_vote *v, const struct ballot *b,
                                  struct rf_err *e)
{
	for (int i = 0; i < r->ranks; i++)
		r->left |= b[i].moment < 0;
	for (int i = 0; i < r->ranks; i++)
		if (b[i].code != RF_OK) {
			r->failed = i;
			rf_fail(e, (enum rf_code)b[i].code, "%s", b[i].message);
			return r->ranks > 1 ? rf_blame(e, "rank %d", i) : e->code;
		}
	for (int i = 1; i < r->ranks; i++) {
		r->failed = i;
		if (b[i].moment != b->moment || b[i].number != b->number)
			return rf_fail(e, RF_EDATA,
			               "rank %d is at %s %lld, rank 0 at %s %lld: their streams are not "
			               "shares of one (rf-cat --shard)",
			               i, b[i].what, (long long)b[i].number, b->what, (long long)b->number);
		for (int k = 0; k < v->sames; k++)
			if (b[i].same[k] != b->same[k])
				return rf_fail(e, RF_EDATA, "rank %d differs from rank 0 in its %s", i,
				               v->same[k].name);
	}
	r->failed = -1;
	return RF_OK;
}

enum rf_code rf_ranks_vote(struct rf_ranks *r, const struct rf_vote *v, enum rf_code code, const void *mine,
                           size_t size, void *all, struct rf_err *e)
{
	struct ballot own = { .code = (int32_t)code, .moment = v->moment, .number = v->number }, *b;
	enum rf_code rc;

	if (!r->ops) {
		if (code == RF_OK && size)
			memcpy(all, mine, size);
		return code;
	}
	if (r->parted)
		return code != RF_OK ? code : rf_fail(e, RF_EBUSY, "the ranks have parted");
	if (!(b = malloc((size_t)r->ranks * sizeof *b)))
		return rf_fail(e, RF_ENOMEM, "out of memory (%d ranks)", r->ranks);
	snprintf(own.what, sizeof own.what, "%s", v->what);
	if (code != RF_OK)
		snprintf(own.message, sizeof own.message, "%.*s", BALLOT_MESSAGE - 1, e->msg);
	for (int k = 0; k < v->sames; k++)
		own.same[k] = v->same[k].hash;
	if (size)
		memcpy(own.mine, mine, size);
	rc = rf_ranks_gather(r, &own, sizeof own, b, e);
	if (rc == RF_OK && (rc = count_ballots(r, v, b, e)) != RF_OK) {
		r->parted = true;
		r->why = *e;
	}
	for (int i = 0; i < r->ranks && rc == RF_OK && size; i++)
		memcpy((char *)all + (size_t)i * size, b[i].mine, size);
	free(b);
	return rc;
}

/* Votes with `size` bytes of each rank; *all: those of all ranks, malloc'd. */
static enum rf_code vote_all(struct rf_ranks *r, const struct rf_vote *v, enum rf_code code, const void *mine,
                             size_t size, void **all, struct rf_err *e)
{
	if (!(*all = calloc((size_t)r->ranks, size)))
		return rf_fail(e, RF_ENOMEM, "out of memory (%d ranks)", r->ranks);
	return rf_ranks_vote(r, v, code, mine, size, *all, e);
}

enum rf_code rf_ranks_vote_sum(struct rf_ranks *r, const struct rf_vote *v, enum rf_code code, uint64_t *x,
                               int n, struct rf_err *e)
{
	void *all;
	const enum rf_code rc = vote_all(r, v, code, x, (size_t)n * sizeof *x, &all, e);

	for (int k = 0; rc == RF_OK && k < n; k++) {
		x[k] = 0;
		for (int i = 0; i < r->ranks; i++)
			x[k] += ((const uint64_t *)all)[i * n + k];
	}
	free(all);
	return rc;
}

enum rf_code rf_ranks_vote_first(struct rf_ranks *r, const struct rf_vote *v, enum rf_code code, void *x,
                                 size_t size, struct rf_err *e)
{
	void *all;
	const enum rf_code rc = vote_all(r, v, code, x, size, &all, e);

	if (rc == RF_OK)
		memcpy(x, all, size);
	free(all);
	return rc;
}
