/* shard.c -- the division of mini-batches among ranks. */
#include "ranks/shard.h"

/* Returns the number of records before the i-th step. */
static int64_t records_before(const struct rf_shard *s, int64_t i)
{
	return (i * s->records + s->steps - 1) / s->steps;
}

int64_t rf_shard_size(const struct rf_shard *s, int64_t i)
{
	if (s->steps)
		return records_before(s, i + 1) - records_before(s, i);
	return s->mini_batch ? s->mini_batch : INT64_MAX;
}

int rf_shard_rank(const struct rf_shard *s, int64_t place)
{
	const int at = (int)(place % s->ranks);

	return place / s->ranks % 2 ? s->ranks - 1 - at : at;
}

int64_t rf_shard_count(const struct rf_shard *s, int64_t n)
{
	const int64_t rounds = n / s->ranks, left = n % s->ranks;
	const int at = rounds % 2 ? s->ranks - 1 - s->rank : s->rank;

	return rounds + (at < left);
}
