/* shard.h -- how the records of a stream are divided among ranks, each of which trains on its share.
 *
 * Every mini-batch is divided by itself, so that all ranks have the same part of the work to do before each
 * optimizer step: its records are dealt, the longest first, to and fro (0 1 2 2 1 0 0 1 ...), so that a rank
 * has as many as any other, or one less, and of the same length in all.  What divides (rf-cat --shard) and
 * who trains (--ranks) thus know the same without asking each other. */
#ifndef RF_SHARD_H
#define RF_SHARD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct rf_shard {
	int rank, ranks;             /* ranks 0: the stream is no share */
	/* which records are a mini-batch: so many; or `records` in all, in so many steps; all 0: the whole
	   stream */
	int mini_batch, records, steps;
};

/* How many records the i-th mini-batch has, i from 0; it may have none if there are more steps than records.
 * INT64_MAX: all. */
int64_t rf_shard_size(const struct rf_shard *s, int64_t i);
/* Which rank has the record that is number `place`, from 0, of its mini-batch's, the longest first. */
int rf_shard_rank(const struct rf_shard *s, int64_t place);
/* How many of the first n places are this rank's. */
int64_t rf_shard_count(const struct rf_shard *s, int64_t n);

#endif
