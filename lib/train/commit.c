/* commit.c -- commits a batch: appends the lines to the log, adds a line to the manifest if a part has
 * changed, and writes the step.  In this order a step that a killed program computed may be in the log twice,
 * but every step has its lines there.
 *
 * The step is written from the device one block at a time, so no large memory is needed after all the work
 * has been done. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "ckpt/writer.h"
#include "io/file.h"
#include "train/adamw.h"
#include "train/grad_file.h"
#include "train/made.h"
#include "train/trainer_internal.h"

static enum rf_code write_log(struct rf_trainer *t, struct rf_err *e)
{
	const struct rf_buf *lines = &t->open.unsaved.lines;

	return t->log && lines->n ? rf_file_append(t->log, lines->p, lines->n, e) : RF_OK;
}

/* Checks that all weights are finite, before they are committed. */
static enum rf_code check_weights(struct rf_trainer *t, struct rf_err *e)
{
	double square;
	const struct rf_model *m = &t->engine.model;
	enum rf_code rc = rf_train_square(&t->train, m->w, m->params->total, &square, e);

	return rc != RF_OK || isfinite(square) ? rc
	                                       : rf_fail(e, RF_ENUMERIC,
	                                                 "a weight is not finite after the step: the batch "
	                                                 "is not committed (try a smaller --lr)");
}

/* Returns whether each rank has a part of the moments (--shard optimizer). */
static bool is_parted(const struct rf_trainer *t) { return t->engine.parts > 1; }

/* Tells the other ranks in which folder of the run the file of moments is.  name: on rank 0, the name of the
 * folder; on the other ranks it becomes that name. */
static enum rf_code tell_folder(struct rf_trainer *t, char name[RF_VOTE_BYTES], struct rf_err *e)
{
	const struct rf_vote v =
		rf_trainer_vote(t, RF_AT_MOMENTS, t->open.run.at.commits, "the file of moments of batch");

	return rf_ranks_vote_first(&t->ranks, &v, RF_OK, name, RF_VOTE_BYTES, e);
}

/* Waits until all ranks have written their spans of the moments.  code: the result of this rank. */
static enum rf_code wait_for_spans(struct rf_trainer *t, enum rf_code code, struct rf_err *e)
{
	const struct rf_vote v =
		rf_trainer_vote(t, RF_AT_WRITTEN, t->open.run.at.commits, "its moments of batch");

	return rf_ranks_vote(&t->ranks, &v, code, NULL, 0, NULL, e);
}

static enum rf_code put_own_span(struct rf_trainer *t, const char *path, struct rf_err *e)
{
	const struct rf_model *m = &t->engine.model;

	return rf_ckpt_put_span(path, m->params, &m->own, (void *)m->m, (void *)m->v, &t->engine.transfer, e);
}

/* Writes this rank's span of the moments into the file that rank 0 has made in the run's folder. */
static enum rf_code put_span_for_rank_0(struct rf_trainer *t, struct rf_err *e)
{
	char name[RF_VOTE_BYTES] = "", dir[4096], path[4096];
	enum rf_code rc = tell_folder(t, name, e);

	if (rc != RF_OK)
		return rc;
	if ((rc = rf_file_join(dir, t->open.run.path, name, e)) == RF_OK &&
	    (rc = rf_file_join(path, dir, "optim.safetensors", e)) == RF_OK)
		rc = put_own_span(t, path, e);
	return wait_for_spans(t, rc, e);
}

/* Makes the file of moments, writes rank 0's span, and waits until the other ranks have written theirs. */
static enum rf_code put_spans(struct rf_trainer *t, struct rf_ckpt_writer *w, struct rf_err *e)
{
	char path[4096], name[RF_VOTE_BYTES] = "";
	enum rf_code rc = rf_ckpt_share_moments(w, path, e);

	if (rc != RF_OK)
		return rc;
	if ((rc = put_own_span(t, path, e)) == RF_OK &&
	    snprintf(name, sizeof name, "%s", rf_file_name(w->dir)) >= (int)sizeof name)
		rc = rf_fail(e, RF_EIO, "%s: the name is too long", w->dir);
	if (rc != RF_OK || (rc = tell_folder(t, name, e)) != RF_OK ||
	    (rc = wait_for_spans(t, RF_OK, e)) != RF_OK)
		rf_ckpt_abandon(w);
	return rc;
}

/* Describes the step that is committed.  hash: room for the hash of its records. */
static struct rf_commit describe_commit(const struct rf_trainer *t, char hash[17])
{
	const struct rf_trainer_unsaved *unsaved = &t->open.unsaved;
	const uint64_t records = unsaved->batches ? unsaved->records : t->current.all_records;

	snprintf(hash, 17, "%016llx", (unsigned long long)t->current.trained_on);
	return (struct rf_commit){
		/* clang-format off */
		.step = t->open.step, .updates = t->open.updates, .batches = unsaved->batches,
		.data_hash = hash, .data_next = t->open.run.at.data_next + (int64_t)records,
		.has_reward_mean = !isnan(t->train.advantage.running),
		.reward_mean = t->train.advantage.running,
		.keep = t->keep, .keep_every = t->keep_every,
		/* clang-format on */
	};
}

static enum rf_code write_step(struct rf_trainer *t, struct rf_ckpt_writer *w, struct rf_err *e)
{
	const struct rf_model *m = &t->engine.model;
	char hash[17];
	const struct rf_commit c = describe_commit(t, hash);
	enum rf_code rc;

	w->with_moments = true;
	if ((rc = rf_commit_begin(&t->open.run, &c, w, e)) != RF_OK ||
	    (rc = rf_ckpt_put_weights(w, (void *)m->w, e)) != RF_OK)
		return rc;
	rc = is_parted(t) ? put_spans(t, w, e) : rf_ckpt_put_moments(w, (void *)m->m, (void *)m->v, e);
	return rc == RF_OK ? rf_commit_finish(&t->open.run, &c, w, e) : rc;
}

static enum rf_code write_commit(struct rf_trainer *t, struct rf_err *e)
{
	struct rf_ckpt_writer w = RF_CKPT_WRITER(&t->open.run.at);
	enum rf_code rc;

	if (t->ranks.rank)
		return is_parted(t) && !t->weights_out ? put_span_for_rank_0(t, e) : RF_OK;
	if ((rc = check_weights(t, e)) == RF_OK)
		rc = write_log(t, e);
	if (rc == RF_OK && !t->weights_out)
		rc = rf_made_note(t, e);
	if (rc != RF_OK)
		return rc;
	w.transfer = &t->engine.transfer;
	w.stop = t->stop;
	w.replace = t->weights_out != NULL;
	return t->weights_out ? rf_ckpt_write(&w, t->weights_out, (void *)t->engine.model.w, e)
	                      : write_step(t, &w, e);
}

enum rf_code rf_trainer_commit(struct rf_trainer *t, struct rf_err *e)
{
	const bool any = t->current.all_records || t->open.unsaved.batches;
	const struct rf_vote v = rf_trainer_vote(t, RF_AT_COMMIT, t->open.batches, "the commit of batch");
	char weights[17], hash[17];
	struct rf_commit c;
	enum rf_code rc = RF_OK;

	if (any)
		rc = t->grad_out
		             ? rf_grad_file_write(&t->train, t->grad_out, t->open.run.at.weights, t->stop, e)
		             : write_commit(t, e);
	strcpy(weights, t->open.run.at.weights);
	rc = rf_ranks_vote_first(&t->ranks, &v, rc, weights, sizeof weights, e);
	if (rc != RF_OK || !any || !t->ranks.rank)
		return rc;
	c = describe_commit(t, hash);
	rf_run_follow(&t->open.run, &c, weights);
	return RF_OK;
}

static bool asked_to_stop(const struct rf_trainer *t)
{
	char path[4096];

	return !t->weights_out && rf_file_join(path, t->open.run.path, "stop", NULL) == RF_OK &&
	       access(path, F_OK) == 0;
}

enum rf_code rf_trainer_end(struct rf_trainer *t, bool last, bool *stopped, struct rf_err *e)
{
	const struct rf_vote v = rf_trainer_vote(t, RF_AT_END, t->open.batches, "the end of batch");
	struct rf_trainer_unsaved *unsaved = &t->open.unsaved;
	struct {
		bool save, stop;
	} end = { .stop = asked_to_stop(t) };
	enum rf_code rc;

	if (t->current.all_records) {
		unsaved->batches++;
		unsaved->records += t->current.all_records;
	}
	end.save = last || end.stop ||
	           (t->open.every ? unsaved->batches >= t->open.every
	                          : rf_now() - unsaved->since >= t->open.every_seconds);
	rc = !end.save && !t->ranks.rank ? check_weights(t, e) : RF_OK;
	rc = rf_ranks_vote_first(&t->ranks, &v, rc, &end, sizeof end, e);
	*stopped = end.stop;
	t->open.batches++;
	if (rc != RF_OK || !end.save)
		return rc;
	rc = rf_trainer_commit(t, e);
	unsaved->batches = 0;
	unsaved->records = 0;
	unsaved->since = rf_now();
	return rc;
}
