/* trainer_open.c -- opens and closes a trainer.  The memory for all of its work is taken at the start,
 * because the end of an hour's work is too late to find that there is too little. */
#include <stdlib.h>

#include "base/clock.h"
#include "train/adamw.h"
#include "train/grad_file.h"
#include "train/made.h"
#include "train/trainer_internal.h"

/* Opens the model.  With --weights-out the model is only read, without a lock, so the run may be trained, or
 * adapted by other programs, at the same time. */
static enum rf_code open_model(struct rf_trainer *t, struct rf_err *e)
{
	const char *path = t->engine.path;
	const bool dry = t->engine.dry_run;

	if (t->weights_out)
		return (dry && rf_is_config(path) ? rf_ckpt_of_config : rf_ckpt_open)(&t->open.run.at, path,
		                                                                      e);
	/* a dry run, and every rank except rank 0, takes no lock */
	return (dry || t->ranks.rank ? rf_run_look : rf_run_open)(&t->open.run, path, e);
}

static enum rf_code open_run(struct rf_trainer *t, struct rf_err *e)
{
	const struct rf_ckpt *at = &t->open.run.at;
	enum rf_code rc;

	if ((rc = open_model(t, e)) != RF_OK)
		return rc;
	t->open.step = at->step;
	t->open.updates = at->updates;
	if (at->has_reward_mean && t->train.advantage.baseline == RF_BASELINE_RUNNING)
		t->train.advantage.running = at->reward_mean;
	if (t->at > at->parent && at->step > t->at)
		return rf_fail(e, RF_EDATA,
		               "%s went from step %lld to step %lld: --at %d is not one of its steps, so "
		               "nothing was trained",
		               t->engine.path, (long long)at->parent, (long long)at->step, t->at);
	if (t->at >= 0 && at->step > t->at) {
		t->open.done_before = true;
		return RF_OK;
	}
	if (t->at >= 0 && at->step < t->at)
		return rf_fail(e, RF_EDATA, "%s is only at step %lld, but --at is %d", t->engine.path,
		               (long long)at->step, t->at);
	t->engine.ckpt = at;
	if ((rc = rf_train_check_only(&t->train, e)) != RF_OK)
		return rc;
	if (!t->weights_out && !t->engine.dry_run && (rc = rf_made_begin(t, e)) != RF_OK)
		return rc;
	if ((rc = rf_trainer_check_places(t, e)) != RF_OK)
		return rc;
	if (t->grad_in && (rc = rf_grad_file_check(&t->train, t->grad_in, at->weights, e)) != RF_OK)
		return rc;
	if ((rc = rf_engine_open(&t->engine, at, true, e)) != RF_OK || t->engine.dry_run)
		return rc;
	return rf_train_open(&t->train, e);
}

/* Chooses this rank's part of the optimizer.  A dry run does not join the other ranks; it takes the number of
 * ranks from the launcher's environment, if that has one. */
static void choose_part(struct rf_trainer *t)
{
	int rank, ranks;

	t->engine.part = t->ranks.rank;
	t->engine.parts = t->ranks.ranks;
	if (t->engine.dry_run && t->ranks.launch && rf_ranks_launched(&rank, &ranks, NULL) == RF_OK) {
		t->engine.part = rank;
		t->engine.parts = ranks;
	}
}

enum rf_code rf_trainer_open(struct rf_trainer *t, struct rf_err *e)
{
	struct rf_vote vote;
	enum rf_code rc;

	t->open.unsaved.since = rf_now();
	t->train.engine = &t->engine;
	t->train.ranks = &t->ranks;
	t->train.work = &t->work;
	if (!t->engine.work)
		rf_work_init(&t->work, &t->engine, rf_train_use(&t->train));
	t->engine.response = t->outer == RF_OUTER_RESPONSE;
	if (!t->mini_batch)
		t->mini_batch = t->batch;
	if ((rc = rf_trainer_check_options(t, e)) != RF_OK)
		return rc;
	if (!t->engine.dry_run && (rc = rf_ranks_open(&t->ranks, t->engine.path, e)) != RF_OK)
		return rc;
	if (t->train.shard == RF_SHARD_OPTIMIZER)
		choose_part(t);
	if (t->ranks.rank)
		t->log = NULL;
	t->open.shard = (struct rf_shard){
		.rank = t->ranks.rank, .ranks = t->ranks.ranks, .steps = t->steps, .records = t->expected
	};
	if (!t->steps && !t->grad_out && !t->grad_in)
		t->open.shard.mini_batch = t->mini_batch;
	rc = open_run(t, e);
	if (t->engine.dry_run)
		return rc;
	t->open.facts.beginning = rf_trainer_hash_beginning(t);
	t->open.facts.settings = rf_trainer_hash_settings(t);
	vote = rf_trainer_vote(t, RF_AT_OPENING, 0, "the beginning");
	if ((rc = rf_ranks_vote(&t->ranks, &vote, rc, NULL, 0, NULL, e)) != RF_OK || t->open.done_before)
		return rc;
	return rf_train_join(&t->train, e);
}

void rf_trainer_close(struct rf_trainer *t)
{
	rf_trainer_drop(&t->current.mini);
	rf_trainer_drop(&t->current.joined);
	free(t->current.mini.r);
	free(t->current.joined.r);
	rf_buf_free(&t->open.unsaved.lines);
	rf_made_free(t);
	rf_train_close(&t->train);
	rf_engine_close(&t->engine);
	rf_run_close(&t->open.run);
	rf_ranks_close(&t->ranks);
}
