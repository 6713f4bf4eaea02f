/* cat_options.c -- the options of rf-cat. */
#include <stdio.h>
#include <string.h>

#include "ranks/ranks.h"
#include "stream/cat.h"

void rf_cat_options(struct rf_cat_options *o, struct rf_opts *opts, struct rf_opts *shares)
{
	const struct rf_opt table[] = {
		OPT_TEXT("range", &o->range, "I:J",
			"only records I to J-1 of all inputs; the first is record 0",
			.noted = RF_OPT_RESULT),
		OPT_ENUM("part", &o->part, RF_PART_WORDS, "part of each record to keep",
			.noted = RF_OPT_RESULT),
		OPT_FLAG("split-response", &o->split,
			"put what follows each prompt into the key response", .noted = RF_OPT_RESULT),
		OPT_FLAG("join-response", &o->join, "append the key response to the tokens again",
			.noted = RF_OPT_RESULT),
		OPT_FLAG("shuffle", &o->shuffle, "shuffle the records", .noted = RF_OPT_RESULT),
		OPT_U64("seed", &o->seed, "N", "random seed of the shuffle", .noted = RF_OPT_RESULT),
		OPT_INT("epoch", &o->epoch, 0, 1 << 30, "N",
			"number of the epoch; each epoch of a seed has its own order",
			.noted = RF_OPT_RESULT),
		OPT_INT("repeat", &o->repeat, 1, 1 << 30, "N",
			"N epochs in one stream; implies --renumber", .noted = RF_OPT_RESULT),
		OPT_TEXT("shard", &o->share, "r/R|auto",
			"only the share of rank r of R, from 0; auto: of this process"),
		OPT_END,
	}, divides[] = {
		OPT_INT("mini-batch", &o->shard.mini_batch, 0, 1 << 24, "n",
			"sequences that the ranks divide among themselves; 0: the whole stream"),
		OPT_INT("steps", &o->shard.steps, 0, 1 << 24, "n",
			"split --records into n mini-batches, instead of --mini-batch"),
		OPT_INT("records", &o->shard.records, 0, 1 << 24, "n", "number of records, for --steps"),
		OPT_END,
	};

	rf_opts_add(opts, table);
	rf_opts_add(shares, divides);
}

/* Reads --shard, which must agree with the options of the trainers that read the shares. */
static enum rf_code settle_share(struct rf_cat_options *o, struct rf_err *e)
{
	struct rf_shard *s = &o->shard;
	int n = 0;

	if (!s->steps != !s->records)
		return rf_fail(e, RF_EUSAGE, "--steps and --records require each other");
	if (s->steps)
		s->mini_batch = 0;
	if (!strcmp(o->share, "auto"))
		return rf_ranks_launched(&s->rank, &s->ranks, e);
	if (sscanf(o->share, "%9d/%9d%n", &s->rank, &s->ranks, &n) != 2 || o->share[n] || s->rank < 0 ||
	    s->rank >= s->ranks)
		return rf_fail(e, RF_EUSAGE, "--shard: '%.40s' is neither r/R, where r is below R, nor auto",
		               o->share);
	return RF_OK;
}

enum rf_code rf_cat_settle(struct rf_cat_options *o, struct rf_err *e)
{
	o->response = o->split ? RF_RESPONSE_SPLIT : o->join ? RF_RESPONSE_JOIN : RF_RESPONSE_STAYS;
	return o->share ? settle_share(o, e) : RF_OK;
}
