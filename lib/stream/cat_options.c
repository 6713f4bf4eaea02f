#include <stdio.h>
#include <string.h>

#include "ranks/ranks.h"
#include "stream/cat.h"

void rf_cat_options(struct rf_cat_options *o, struct rf_opt opts[RF_CAT_OPTS],
                    struct rf_opt shares[RF_CAT_SHARE_OPTS])
{
	const struct rf_opt table[] = {
		{ "range", 0, RF_OPT_TEXT, &o->range, 0, 0, "I:J",
		  "only records I to J-1 of all inputs; the first is record 0", true },
		{ "part", 0, RF_OPT_ENUM, &o->part, 0, 0, RF_PART_WORDS, "part of each record to keep",
		  true },
		{ "split-response", 0, RF_OPT_FLAG, &o->split, 0, 0, NULL,
		  "put what follows each prompt into the key response", true },
		{ "join-response", 0, RF_OPT_FLAG, &o->join, 0, 0, NULL,
		  "append the key response to the tokens again", true },
		{ "shuffle", 0, RF_OPT_FLAG, &o->shuffle, 0, 0, NULL, "shuffle the records", true },
		{ "seed", 0, RF_OPT_U64, &o->seed, 0, 0, "N", "random seed of the shuffle", true },
		{ "epoch", 0, RF_OPT_INT, &o->epoch, 0, 1 << 30, "N",
		  "number of the epoch; each epoch of a seed has its own order", true },
		{ "repeat", 0, RF_OPT_INT, &o->repeat, 1, 1 << 30, "N",
		  "N epochs in one stream; implies --renumber", true },
		{ "shard", 0, RF_OPT_TEXT, &o->share, 0, 0, "r/R|auto",
		  "only the share of rank r of R, from 0; auto: of this process", false },
		{ .name = NULL },
	}, divides[] = {
		{ "mini-batch", 0, RF_OPT_INT, &o->shard.mini_batch, 0, 1 << 24, "n",
		  "sequences that are divided among the ranks; 0: the whole stream", false },
		{ "steps", 0, RF_OPT_INT, &o->shard.steps, 0, 1 << 24, "n",
		  "so many mini-batches of --records in all, instead of --mini-batch", false },
		{ "records", 0, RF_OPT_INT, &o->shard.records, 0, 1 << 24, "n",
		  "number of records, for --steps", false },
		{ .name = NULL },
	};

	RF_OPT_FILL(opts, table, RF_CAT_OPTS);
	RF_OPT_FILL(shares, divides, RF_CAT_SHARE_OPTS);
}

/* --shard, as the trainers of the ranks will see it. */
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
