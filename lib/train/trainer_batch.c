/* trainer_batch.c -- from a stream to the optimizer steps of a run (rf-design(7), The commit).
 *
 * Records are collected into mini-batches, each of which is one optimizer step in memory.  Nothing outside
 * changes before the commit (commit.c). */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/clock.h"
#include "train/adamw.h"
#include "train/grad_file.h"
#include "train/made.h"
#include "train/train_log.h"
#include "train/trainer_internal.h"

void rf_trainer_drop(struct rf_waiting *w)
{
	for (int i = 0; i < w->count; i++) {
		rf_record_free(w->r[i]);
		free(w->r[i]);
	}
	w->count = 0;
}

/* Clears the counts and the records of the previous batch. */
static void reset_batch(struct rf_trainer *t)
{
	struct rf_trainer_batch *b = &t->current;

	t->open.facts.beginning = rf_trainer_hash_beginning(t);
	if (!t->open.unsaved.batches)
		t->open.unsaved.lines.n = 0;
	rf_trainer_drop(&b->joined);
	b->part = 0;
	b->records = b->all_records = b->all_joined = b->all_rollouts = b->all_positions = 0;
	b->trained_on = 0;
	b->mini_batches = b->skipped = b->taught_nothing = 0;
	b->rewards = 0;
	b->rewarded = 0;
}

enum rf_code rf_trainer_begin(struct rf_trainer *t, const struct rf_head *h, struct rf_err *e)
{
	const struct rf_shard *own = &t->open.shard, *its = &h->shard;

	reset_batch(t);

	if (own->ranks == 1 && its->ranks)
		return rf_fail(e, RF_EDATA,
		               "the stream is the share of rank %d of %d (rf-cat --shard): train all shares "
		               "together (--ranks mpi), or the whole stream",
		               its->rank, its->ranks);
	if (own->ranks > 1 && !its->ranks)
		return rf_fail(e, RF_EDATA,
		               "there are %d ranks, but the stream is not a share for one of them (rf-cat "
		               "--shard auto makes it)",
		               own->ranks);
	if (own->ranks > 1 && (its->rank != own->rank || its->ranks != own->ranks))
		return rf_fail(e, RF_EDATA,
		               "the stream is the share of rank %d of %d, but this is rank %d of %d",
		               its->rank, its->ranks, own->rank, own->ranks);
	if (own->ranks > 1 &&
	    (its->mini_batch != own->mini_batch || its->steps != own->steps || its->records != own->records))
		return rf_fail(e, RF_EDATA,
		               "the stream was divided by other mini-batches than are trained on (rf-cat and "
		               "the trainer must have the same --mini-batch, --steps and --records)");
	return t->open.start ? rf_made_stages(t, h, e) : RF_OK;
}

enum rf_code rf_trainer_check_weights(struct rf_trainer *t, const struct rf_head *h, struct rf_err *e)
{
	const struct rf_ckpt *at = &t->open.run.at;

	if (t->open.stale_commits == INT64_MAX || at->config_only)
		return RF_OK;
	if (!h->weights[0])
		return rf_fail(e, RF_EDATA,
		               "the stream does not say which weights made its rollouts (--stale any "
		               "accepts them)");
	for (int i = 0; i < at->past_count && i <= t->open.stale_commits; i++)
		if (!strcmp(at->past[i], h->weights)) {
			t->current.older = i > t->current.older ? i : t->current.older;
			return RF_OK;
		}
	return rf_fail(e, RF_EDATA,
	               "the rollouts were made by weights %.12s, but the run is at %.12s (make them again, "
	               "or raise --stale, which is %lld)",
	               h->weights, at->weights, (long long)t->open.stale_commits);
}

/* ---- mini-batches -------------------------------------------------------------------------- */

/* The counts of a mini-batch.  All members have the same type, so a vote can add them up. */
struct batch_counts {
	struct rf_totals totals;
	uint64_t records, joined;     /* records of the stream so far; those of them with a response */
	uint64_t groups, spread_free; /* as in struct rf_group_stats */
};
_Static_assert(sizeof(struct batch_counts) == 12 * sizeof(uint64_t), "only numbers of 8 bytes");

/* Counts the records of all ranks that wait for the same optimizer step. */
static enum rf_code count_batch(struct rf_trainer *t, const struct rf_train *train,
                                const struct rf_waiting *w, bool outer, struct batch_counts *all,
                                struct rf_err *e)
{
	const struct rf_vote v = rf_trainer_vote(t, outer ? RF_AT_OUTER : RF_AT_BATCH, t->open.met++,
	                                         outer ? "the outer step, number" : "mini-batch");
	const struct rf_trainer_batch *own = &t->current;

	*all = (struct batch_counts){ .records = own->records,
		                      .joined = (uint64_t)own->joined.count,
		                      .groups = (uint64_t)own->groups.groups,
		                      .spread_free = (uint64_t)own->groups.spread_free };
	rf_train_totals(train, w->r, w->count, &all->totals);
	return rf_ranks_vote_sum(&t->ranks, &v, RF_OK, (uint64_t *)all, sizeof *all / sizeof(uint64_t), e);
}

static enum rf_code hold_record(struct rf_waiting *w, const struct rf_record *r, struct rf_err *e)
{
	struct rf_record *copy;
	enum rf_code rc;

	if (w->count == w->cap) {
		int n = w->cap ? 2 * w->cap : 64;
		struct rf_record **more = realloc(w->r, (size_t)n * sizeof *more);

		if (!more)
			return rf_fail(e, RF_ENOMEM, "out of memory (a mini-batch)");
		w->r = more;
		w->cap = n;
	}
	if (!(copy = malloc(sizeof *copy)))
		return rf_fail(e, RF_ENOMEM, "out of memory (a mini-batch)");
	rf_record_init(copy);
	if ((rc = rf_record_copy(copy, r, e)) != RF_OK) {
		rf_record_free(copy);
		free(copy);
		return rc;
	}
	w->r[w->count++] = copy;
	return RF_OK;
}

/* Keeps the tokens of a record for the step on the responses: it comes when the stream, which may be a pipe,
 * has ended. */
static enum rf_code hold_joined(struct rf_trainer *t, const struct rf_record *r, struct rf_err *e)
{
	struct rf_record part, whole;
	enum rf_code rc;

	rf_record_init(&part);
	rf_record_init(&whole);
	part.id = r->id;
	part.T = r->T;
	part.tokens = r->tokens;
	part.response = r->response;
	part.response_len = r->response_len;
	if ((rc = rf_record_copy(&whole, &part, e)) == RF_OK && (rc = rf_record_join(&whole, e)) == RF_OK)
		rc = hold_record(&t->current.joined, &whole, e);
	rf_record_free(&whole);
	return rc;
}

/* Computes the figures of a mini-batch that makes no step; they have no losses. */
static enum rf_code describe_only(const struct rf_train *train, const struct rf_waiting *w,
                                  struct rf_train_stats *st, struct rf_err *e)
{
	enum rf_code rc = rf_train_describe(train, w->r, w->count, st, e);

	st->rl_tokens = st->ntp_tokens = st->position_tokens = 0;
	return rc;
}

/* Returns whether a gradient that is not finite only skips its mini-batch (--on-nan skip).  All ranks know of
 * the failure and continue, unless a rank has left. */
static bool is_skipped(struct rf_trainer *t, enum rf_code rc)
{
	if (rc != RF_ENUMERIC || t->on_nan != RF_ON_NAN_SKIP || t->grad_out ||
	    t->engine.dev.err.code != RF_OK || t->ranks.left)
		return false;
	t->ranks.parted = false;
	t->ranks.failed = -1;
	return true;
}

static enum rf_code compute_step(struct rf_trainer *t, struct rf_train *train, const struct rf_waiting *w,
                                 const struct rf_totals *all, const char *grad_in, struct rf_train_stats *st,
                                 struct rf_err *e)
{
	enum rf_code rc = rf_train_gradient(train, w->r, w->count, all, st, e);
	double from = rf_now();

	if (rc == RF_OK && grad_in)
		rc = rf_grad_file_add(train, grad_in, t->open.run.at.weights, e);
	if (rc == RF_OK && !t->grad_out) {
		const double reduced = st->reduce;

		rc = rf_train_step(train, t->open.step, t->open.updates, st, e);
		st->optimizer = rf_now() - from - (st->reduce - reduced);
	}
	return rc;
}

/* Updates the hash of all records that were trained on.  The records of a mini-batch count in the order of
 * their ids, no matter which ranks had them. */
static void hash_records(struct rf_trainer *t, const struct rf_train_stats *st)
{
	const uint64_t both[] = { t->current.trained_on, st->records_hash };

	t->current.trained_on = XXH64(both, sizeof both, 0);
}

/* Makes one optimizer step on the records in w, with the settings of `train`.  outer: the step is the one on
 * the responses.  *records: the number of records of all ranks; 0: there was no step. */
static enum rf_code optimize_records(struct rf_trainer *t, struct rf_train *train, struct rf_waiting *w,
                                     bool outer, uint64_t *records, struct rf_err *e)
{
	const char *grad_in = outer ? NULL : t->grad_in;
	struct rf_trainer_batch *b = &t->current;
	uint64_t *last = &t->open.facts.last_step;
	struct rf_train_stats st;
	struct batch_counts all;
	/* the time of the step includes the work that was done as the records came */
	const double from = rf_now() - train->ahead.seconds, waited = t->ranks.waited;
	enum rf_code rc = count_batch(t, train, w, outer, &all, e);

	*records = rc == RF_OK ? all.totals.records : 0;
	if (rc != RF_OK)
		return rc;
	b->all_records = all.records;
	b->all_joined = all.joined;
	b->groups = (struct rf_group_stats){ (int)all.groups, (int)all.spread_free };
	b->all_rollouts += all.totals.rollout_tokens;
	b->all_positions +=
		t->train.loss == RF_LOSS_POSITIONS ? all.totals.ntp_tokens : all.totals.position_tokens;
	if (!*records)
		return RF_OK;
	if (!t->grad_out && !grad_in && !all.totals.teaches) {
		/* AdamW would still move the weights, by its momentum and decay.  So there is no step, but
		 * the step's number increases, because a loop may wait for it */
		rc = describe_only(train, w, &st, e);
		b->taught_nothing++;
		for (int i = 0; i < w->count; i++)
			rf_meter_done(train->meter, w->r[i]->T);
	} else {
		rc = compute_step(t, train, w, &all.totals, grad_in, &st, e);
		if (rc == RF_OK && t->grad_out) {
			rf_trainer_drop(w);
			return RF_OK;
		}
		if (is_skipped(t, rc)) {
			rc = describe_only(train, w, &st, e);
			b->skipped++;
		}
	}
	if (rc != RF_OK)
		return rc;
	t->open.updates += st.stepped;
	if (st.stepped)
		rf_meter_step(t->train.meter, st.ntp_tokens && !outer ? st.loss_ntp : NAN,
		              st.rl_tokens ? st.loss_rl : NAN);
	b->mini_batches++;
	if (!outer) {
		b->rewards += st.reward * (double)st.rollouts;
		b->rewarded += st.rollouts;
	}
	*last = XXH64(&st.grad_norm, sizeof st.grad_norm, *last);
	*last = XXH64(&st.weights_square, sizeof st.weights_square, *last);
	hash_records(t, &st);
	st.wait = t->ranks.waited - waited;
	rc = rf_train_log(t, &st, outer, rf_now() - from, e);
	train->ahead.seconds = 0;
	t->open.step++;
	b->groups = (struct rf_group_stats){ 0, 0 };
	rf_trainer_drop(w);
	return rc;
}

static enum rf_code optimize_mini_batch(struct rf_trainer *t, uint64_t *records, struct rf_err *e)
{
	do
		t->current.part++;
	while (!rf_shard_size(&t->open.shard, t->current.part));
	return optimize_records(t, &t->train, &t->current.mini, false, records, e);
}

/* Makes the step on the responses.  Its loss is that of rf-ntp --loss response; the coefficients, which weigh
 * the losses of the other steps against each other, do not apply.  The progress meter has counted the records
 * before. */
static enum rf_code optimize_responses(struct rf_trainer *t, struct rf_err *e)
{
	struct rf_train *train = &t->train;
	const struct rf_train inner = *train;
	uint64_t records;
	enum rf_code rc;

	train->rl_coef = train->position_coef = 0;
	train->ntp_coef = 1;
	train->loss = RF_LOSS_RESPONSE;
	train->log_gradients = false;
	train->meter = NULL;
	rc = optimize_records(t, train, &t->current.joined, true, &records, e);
	train->rl_coef = inner.rl_coef;
	train->position_coef = inner.position_coef;
	train->ntp_coef = inner.ntp_coef;
	train->loss = inner.loss;
	train->log_gradients = inner.log_gradients;
	train->meter = inner.meter;
	return rc;
}

/* Returns the number of records that this rank has of the current mini-batch. */
static int64_t share_size(const struct rf_trainer *t)
{
	return rf_shard_count(&t->open.shard, rf_shard_size(&t->open.shard, t->current.part));
}

enum rf_code rf_trainer_add(struct rf_trainer *t, const struct rf_record *r,
                            const struct rf_group_stats *groups, struct rf_err *e)
{
	struct rf_record lean = *r;
	uint64_t records;
	enum rf_code rc = rf_train_check(&t->train, r, e);

	rf_ranks_sign(&t->ranks, "reads");
	while (rc == RF_OK && !share_size(t)) /* only other ranks have records of it */
		rc = optimize_mini_batch(t, &records, e);
	if (rc == RF_OK && t->outer && r->response)
		rc = hold_joined(t, r, e);
	if (rc != RF_OK)
		return rc;
	/* a whole mini-batch waits in memory, without the fields that training does not read */
	rf_record_hide(&lean);
	rf_record_drop_generation(&lean);
	lean.choice = (struct rf_choice){ .tokens = NULL };
	lean.nll = lean.correct = lean.rollout.kept = NULL;
	if (t->train.policy.kl_coef == 0)
		lean.rollout.logp_ref = NULL;
	if (t->train.advantage.from != RF_FROM_TOKEN) /* otherwise the figures read the field */
		lean.reward.per_token = NULL;
	lean.response = NULL;
	lean.response_len = 0;
	if ((rc = hold_record(&t->current.mini, &lean, e)) != RF_OK)
		return rc;
	t->current.records++;
	if (groups) {
		t->current.groups.groups += groups->groups;
		t->current.groups.spread_free += groups->spread_free;
	}
	return t->current.mini.count == share_size(t) ? optimize_mini_batch(t, &records, e) : RF_OK;
}

/* ---- the end of a batch -------------------------------------------------------------------- */

/* Checks the number of records and responses of a whole batch. */
static enum rf_code check_records(const struct rf_trainer *t, struct rf_err *e)
{
	const unsigned long long n = t->current.all_records;

	if (!n)
		return t->allow_empty ? RF_OK
		                      : rf_fail(e, RF_EDATA,
		                                "the stream has no records, so there is nothing to learn "
		                                "from (--allow-empty accepts it)");
	if (t->expected && n != (unsigned long long)t->expected)
		return rf_fail(e, RF_EDATA, "the stream has %llu records, not %d (--records)", n,
		               t->expected);
	if (t->outer && !t->current.all_joined)
		return rf_fail(e, RF_EDATA,
		               "none of %llu record%s has a response, so there is nothing for --outer "
		               "response to learn from (rf-cat --split-response makes it)",
		               n, n == 1 ? "" : "s");
	return RF_OK;
}

/* Moves the running baseline past the batch. */
static void move_baseline(struct rf_trainer *t)
{
	struct rf_advantage *a = &t->train.advantage;

	if (a->baseline == RF_BASELINE_RUNNING && t->current.rewarded)
		a->running = rf_advantage_next(a, t->current.rewards / (double)t->current.rewarded);
}

enum rf_code rf_trainer_rest(struct rf_trainer *t, struct rf_err *e)
{
	const struct rf_trainer_batch *b = &t->current;
	uint64_t records = 1;
	enum rf_code rc = RF_OK;

	/* until no rank has records: the ranks' last shares may belong to different mini-batches */
	while (rc == RF_OK && records)
		rc = optimize_mini_batch(t, &records, e);
	if (rc == RF_OK)
		rc = check_records(t, e);
	if (rc == RF_OK && t->need_rollouts && t->train.rl_coef != 0 && b->all_records && !b->all_rollouts)
		rc = rf_fail(e, RF_EDATA,
		             "none of the batch's %llu records has rollouts, so the batch was not trained "
		             "(use longer records, or smaller --margin, --chunks and -k of rf-select, as in "
		             "the pipelines' SELECT='rf-select -k 5 --margin 4'; without --need-rollouts, as "
		             "with the pipelines' NO_ROLLOUTS=train, such a batch is trained on next tokens "
		             "alone)",
		             (unsigned long long)b->all_records);
	if (rc == RF_OK && rf_train_needs_positions(&t->train) && b->all_records && !b->all_positions)
		rc = rf_fail(e, RF_EDATA,
		             "none of the batch's %llu records has positions (rf-select writes them)",
		             (unsigned long long)b->all_records);
	if (rc == RF_OK)
		move_baseline(t);
	return rc == RF_OK && t->outer && b->all_records ? optimize_responses(t, e) : rc;
}

/* ---- several batches in one stream ----------------------------------------------------------- */

int rf_trainer_share(const struct rf_trainer *t)
{
	if (!t->batch)
		return INT_MAX;
	if (t->ranks.ranks == 1)
		return t->batch;
	return t->batch / t->mini_batch * (int)rf_shard_count(&t->open.shard, t->mini_batch);
}

int rf_trainer_first(const struct rf_trainer *t, int n)
{
	const int64_t first = rf_shard_count(&t->open.shard, rf_shard_size(&t->open.shard, 0));

	return first < n ? (int)first : n;
}

const char *rf_trainer_remark(const struct rf_trainer *t, char *buf, size_t size)
{
	const struct rf_trainer_batch *b = &t->current;
	char taught[120] = "", skipped[120] = "";

	if (b->taught_nothing)
		snprintf(taught, sizeof taught,
		         "%d of %d mini-batches had nothing to learn from (no token for the next-token "
		         "loss, every advantage 0)",
		         b->taught_nothing, b->mini_batches);
	if (b->skipped)
		snprintf(skipped, sizeof skipped,
		         "%d of %d mini-batches were skipped (their gradients were not finite)", b->skipped,
		         b->mini_batches);
	snprintf(buf, size, "%s%s%s", taught, *taught && *skipped ? ", " : "", skipped);
	return buf;
}
