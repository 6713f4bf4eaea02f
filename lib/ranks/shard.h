/* shard.h -- divides the records of a stream among ranks, each of which trains on its share.
 *
 * Each mini-batch is divided separately, so that all ranks have the same work before each optimizer step.
 * Its records are dealt out, the longest first, forwards and backwards (0 1 2 2 1 0 0 1 ...).  So the ranks'
 * numbers of records differ by at most one, and their numbers of tokens are nearly equal.  The program that
 * divides the stream (rf-cat --shard) and the trainer (--ranks) compute the same division without a
 * message. */
#ifndef RF_SHARD_H
#define RF_SHARD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct rf_shard {
	int rank, ranks; /* ranks 0: the stream is not a share */
	/* the mini-batches: `mini_batch` records each; or `records` records, divided into `steps`
	   mini-batches; all 0: the whole stream is one mini-batch */
	int mini_batch, records, steps;
};

/* Returns the number of records of the i-th mini-batch, i from 0.  It may be 0 if there are more steps than
 * records; INT64_MAX: the whole stream. */
int64_t rf_shard_size(const struct rf_shard *s, int64_t i);
/* Returns the rank that gets a record.  place: the record's number within its mini-batch, from 0, the longest
 * first. */
int rf_shard_rank(const struct rf_shard *s, int64_t place);
/* Returns how many of the first n records of a mini-batch this rank gets. */
int64_t rf_shard_count(const struct rf_shard *s, int64_t n);

#endif
