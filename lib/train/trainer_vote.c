/* trainer_vote.c -- what the ranks of a trainer must agree on: the same step of the same run, the same
 * settings, and the place in the stream. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "train/trainer_internal.h"

static uint64_t hash_text(const char *s) { return XXH64(s, strlen(s), 0); }

uint64_t rf_trainer_hash_settings(const struct rf_trainer *t)
{
	/* clang-format off */
	const int of_batch[] = { t->at, t->expected, t->steps, (int)t->train.shard,
	                         (int)t->train.exchange.carrier, t->engine.segment };
	/* clang-format on */
	static const char *const of_machine[] = { "exec", "tokenizer", "timeout", "queue-limit" };
	json_t *options = json_copy(json_object_get(json_object_get(t->made, "program"), "options"));
	uint64_t hash;
	char *text;

	for (size_t i = 0; i < sizeof of_machine / sizeof *of_machine; i++)
		json_object_del(options, of_machine[i]);
	text = json_dumps(options, JSON_COMPACT | JSON_SORT_KEYS);
	hash = XXH64(of_batch, sizeof of_batch, text ? hash_text(text) : 0);
	free(text);
	json_decref(options);
	return hash;
}

static uint64_t hash_device(const struct rf_trainer *t)
{
	const struct rf_dev *d = &t->engine.dev;
	char text[200];

	snprintf(text, sizeof text, "%s %d",
	         !d->ops     ? ""
	         : *d->model ? d->model
	                     : rf_cpu_level(),
	         (int)d->math);
	return hash_text(text);
}

uint64_t rf_trainer_hash_beginning(const struct rf_trainer *t)
{
	return hash_text(t->open.run.at.weights) ^ (uint64_t)t->open.step ^ (uint64_t)t->open.updates << 32;
}

struct rf_vote rf_trainer_vote(const struct rf_trainer *t, enum rf_moment moment, int64_t number,
                               const char *what)
{
	return (struct rf_vote){
		.moment = moment, .number = number, .what = what,
		.same = {
			{ "weights (-m)", t->open.facts.beginning },
			{ "options", t->open.facts.settings },
			{ "device or level of the instruction set (--device, --isa, --dtype)",
			  hash_device(t) },
			{ "stream's head: this program or those before it have other options, or another "
			  "model", t->open.facts.head },
			{ "last step", t->open.facts.last_step },
		},
		.sames = 5,
	};
}

enum rf_code rf_trainer_more(struct rf_trainer *t, bool mine, bool *any, struct rf_err *e)
{
	const struct rf_vote v = rf_trainer_vote(t, RF_AT_MORE, t->open.batches, "the records of batch");
	uint64_t ranks = mine;
	const enum rf_code rc = rf_ranks_vote_sum(&t->ranks, &v, RF_OK, &ranks, 1, e);

	*any = rc == RF_OK && ranks;
	return rc;
}

enum rf_code rf_trainer_announce(struct rf_trainer *t, struct rf_totals *totals, struct rf_err *e)
{
	const struct rf_vote v =
		rf_trainer_vote(t, RF_AT_AHEAD, t->open.batches, "the first mini-batch of batch");

	return rf_ranks_vote_sum(&t->ranks, &v, RF_OK, (uint64_t *)totals, sizeof *totals / sizeof(uint64_t),
	                         e);
}

void rf_trainer_leave(struct rf_trainer *t, struct rf_err *e)
{
	const struct rf_vote v = rf_trainer_vote(t, RF_AT_LEAVING, 0, "its end");

	rf_ranks_vote(&t->ranks, &v, e->code, NULL, 0, NULL, e);
}
