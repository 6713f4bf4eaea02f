#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "train/meet.h"

enum moment { LEAVING = -1, OPENING, MORE, AHEAD, BATCH, OUTER, ENDED, MOMENTS, WRITTEN, COMMITTED };

static uint64_t hash_text(const char *s) { return XXH64(s, strlen(s), 0); }

/* What decides the new weights, besides records and weights. */
static uint64_t settings(const struct rf_trainer *t)
{
	const struct rf_train *n = &t->train;
	const double v[] = {
		t->mini_batch, t->expected, t->steps, t->at, (double)t->stale_commits, t->outer, t->on_nan,
		t->allow_empty, t->need_rollouts, n->rl_coef, n->ntp_coef, n->loss, n->mean, n->policy.clip,
		n->policy.dual_clip, n->recompute, n->sum, n->shard, n->log_gradients, n->lr, n->betas[0],
		n->betas[1], n->adam_eps, n->weight_decay, n->grad_clip, n->schedule, n->warmup,
		n->total_steps, t->engine.segment, t->weights_out != NULL, t->batch, n->position_coef, n->k,
		n->advantage.group, n->advantage.from,
	};

	return XXH64(v, sizeof v, n->only ? hash_text(n->only) : 0);
}

static uint64_t device(const struct rf_trainer *t)
{
	const struct rf_dev *d = &t->engine.dev;
	char text[200];

	snprintf(text, sizeof text, "%s %d", !d->ops ? "" : *d->model ? d->model : rf_cpu_level(),
	         (int)d->math);
	return hash_text(text);
}

static enum rf_code vote(struct rf_trainer *t, enum moment moment, int64_t number, const char *what,
                         enum rf_code code, const void *mine, size_t size, void *all, struct rf_err *e)
{
	const struct rf_vote v = {
		.moment = moment, .number = number, .what = what,
		.same = {
			{ "weights (-m)", t->began },
			{ "options", settings(t) },
			{ "device or level of the instruction set (--device, --isa, --dtype)", device(t) },
			{ "stream's head: this program or those before it have other options, or another "
			  "model", t->head },
			{ "last step", t->last_step },
		},
		.sames = 5,
	};

	return rf_ranks_vote(&t->ranks, &v, code, mine, size, all, e);
}

uint64_t rf_meet_began(const struct rf_trainer *t)
{
	return hash_text(t->run.at.weights) ^ (uint64_t)t->step ^ (uint64_t)t->updates << 32;
}

enum rf_code rf_meet_open(struct rf_trainer *t, enum rf_code code, struct rf_err *e)
{
	t->began = rf_meet_began(t);
	return vote(t, OPENING, 0, "the beginning", code, NULL, 0, NULL, e);
}

static void add_totals(struct rf_totals *all, const struct rf_totals *own)
{
	all->records += own->records;
	all->ntp_tokens += own->ntp_tokens;
	all->ntp_sequences += own->ntp_sequences;
	all->position_tokens += own->position_tokens;
	all->rl_tokens += own->rl_tokens;
	all->teaches |= own->teaches;
}

enum rf_code rf_meet_batch(struct rf_trainer *t, const struct rf_train *train, const struct rf_waiting *w,
                           bool outer, struct rf_meeting *all, struct rf_err *e)
{
	struct rf_meeting own = { .records = t->records, .joined = (uint64_t)t->joined.count,
	                          .groups = t->groups }, *each;
	const int ranks = t->ranks.ranks;
	enum rf_code rc;

	if (!(each = malloc((size_t)ranks * sizeof *each)))
		return rf_fail(e, RF_ENOMEM, "out of memory (%d ranks)", ranks);
	rf_train_totals(train, w->r, w->count, &own.totals);
	rc = vote(t, outer ? OUTER : BATCH, t->met++, outer ? "the outer step, number" : "mini-batch", RF_OK,
	          &own, sizeof own, each, e);
	*all = (struct rf_meeting){ .records = 0 };
	for (int i = 0; rc == RF_OK && i < ranks; i++) {
		add_totals(&all->totals, &each[i].totals);
		all->records += each[i].records;
		all->joined += each[i].joined;
		all->groups.groups += each[i].groups.groups;
		all->groups.spread_free += each[i].groups.spread_free;
	}
	free(each);
	return rc;
}

/* Gathers `size` bytes of each rank, in *each, malloc'd. */
static enum rf_code gather(struct rf_trainer *t, enum moment moment, const char *what, enum rf_code code,
                           const void *mine, size_t size, void **each, struct rf_err *e)
{
	if (!(*each = calloc((size_t)t->ranks.ranks, size)))
		return rf_fail(e, RF_ENOMEM, "out of memory (%d ranks)", t->ranks.ranks);
	return vote(t, moment, t->batches, what, code, mine, size, *each, e);
}

enum rf_code rf_meet_more(struct rf_trainer *t, bool mine, bool *any, struct rf_err *e)
{
	void *each;
	enum rf_code rc = gather(t, MORE, "the records of batch", RF_OK, &mine, sizeof mine, &each, e);

	*any = false;
	for (int i = 0; rc == RF_OK && i < t->ranks.ranks; i++)
		*any |= ((bool *)each)[i];
	free(each);
	return rc;
}

enum rf_code rf_meet_ahead(struct rf_trainer *t, const struct rf_totals *mine, struct rf_totals *all,
                           struct rf_err *e)
{
	void *each;
	enum rf_code rc = gather(t, AHEAD, "the first mini-batch of batch", RF_OK, mine, sizeof *mine, &each,
	                         e);

	*all = (struct rf_totals){ .records = 0 };
	for (int i = 0; rc == RF_OK && i < t->ranks.ranks; i++)
		add_totals(all, &((struct rf_totals *)each)[i]);
	free(each);
	return rc;
}

enum rf_code rf_meet_end(struct rf_trainer *t, enum rf_code code, struct rf_meet_end *end, struct rf_err *e)
{
	void *each;
	enum rf_code rc = gather(t, ENDED, "the end of batch", code, end, sizeof *end, &each, e);

	if (rc == RF_OK)
		*end = *(struct rf_meet_end *)each;
	free(each);
	return rc;
}

enum rf_code rf_meet_commit(struct rf_trainer *t, enum rf_code code, char weights[17], struct rf_err *e)
{
	void *each;
	enum rf_code rc = gather(t, COMMITTED, "the commit of batch", code, t->run.at.weights, 17, &each, e);

	if (rc == RF_OK)
		memcpy(weights, each, 17);
	free(each);
	return rc;
}

enum rf_code rf_meet_moments(struct rf_trainer *t, enum rf_code code, const char *path,
                             char name[RF_VOTE_BYTES], struct rf_err *e)
{
	char mine[RF_VOTE_BYTES] = "", *all;
	enum rf_code rc;
	int n = 0;

	if (path) { /* the folder of a step, whose name is the last but one */
		const char *file = strrchr(path, '/');

		while (file - n > path && file[-n - 1] != '/')
			n++;
		if (n >= RF_VOTE_BYTES)
			code = rf_fail(e, RF_EIO, "%s: the name is too long", path);
		else
			snprintf(mine, sizeof mine, "%.*s", n, file - n);
	}
	if (!(all = calloc((size_t)t->ranks.ranks, sizeof mine)))
		return rf_fail(e, RF_ENOMEM, "out of memory (%d ranks)", t->ranks.ranks);
	rc = vote(t, MOMENTS, t->run.at.commits, "the file of moments of batch", code, mine, sizeof mine, all,
	          e);
	snprintf(name, RF_VOTE_BYTES, "%.*s", RF_VOTE_BYTES - 1, all);
	free(all);
	return rc;
}

enum rf_code rf_meet_written(struct rf_trainer *t, enum rf_code code, struct rf_err *e)
{
	return vote(t, WRITTEN, t->run.at.commits, "its moments of batch", code, NULL, 0, NULL, e);
}

enum rf_code rf_meet_leave(struct rf_trainer *t, enum rf_code code, struct rf_err *e)
{
	return vote(t, LEAVING, 0, "its end", code, NULL, 0, NULL, e);
}
