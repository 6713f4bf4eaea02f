/* batch.c -- the gradient of a mini-batch.
 *
 *     rf_train_gradient()    one mini-batch, and its figures
 *     minibatch_pass()       the gradient of all ranks' records for some weights of the losses; with
 *                            --log-gradients there are two passes
 *     add_gradients()        this rank's records, one after the other (loss.h), added up exactly
 *
 * The first mini-batch after the weights have changed can be computed ahead, as its records come. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "device/arena.h"
#include "train/adamw.h"
#include "train/batch.h"
#include "train/loss.h"

/* ---- memory -------------------------------------------------------------------------------- */

static void place_memory(void *train, const struct rf_shape *shape, struct rf_arena *a)
{
	struct rf_train *t = train;
	const struct rf_config *cfg = &t->engine->ckpt->cfg;
	struct rf_train_place *p = &t->at;
	size_t d = (size_t)cfg->d, T = (size_t)shape->T, C = (size_t)shape->c,
	       R = C * (size_t)shape->n * (size_t)shape->k;

	p->z = rf_arena_f32(a, (size_t)t->engine->dev.ops->logit_rows(cfg->vocab) * (size_t)cfg->vocab);
	p->dh = rf_arena_f32(a, T * d);
	p->coef = rf_arena_f32(a, T);
	p->logp = rf_arena_f32(a, T);
	p->target = rf_arena_i32(a, T);
	p->first = rf_arena_f32(a, C * d);
	p->dfirst = rf_arena_f32(a, C * d);
	p->rows = rf_arena_f32(a, R * d);
	p->drows = rf_arena_f32(a, R * d);
	p->rl_coef = rf_arena_f32(a, R);
	p->rl_logp = rf_arena_f32(a, R);
	p->rl_entropy = t->policy.entropy_coef != 0 ? rf_arena_f32(a, R) : NULL;
	p->rl_entropy_coef = t->policy.entropy_coef != 0 ? rf_arena_f32(a, R) : NULL;
	p->rl_target = rf_arena_i32(a, R);
	p->from = rf_arena_i32(a, R + 2 * C);
}

static void decide_shape(const void *train, struct rf_shape *shape)
{
	const struct rf_train *t = train;

	if (t->rl_coef == 0)
		*shape = (struct rf_shape){ .T = shape->T };
}

struct rf_use rf_train_use(struct rf_train *t)
{
	return (struct rf_use){
		.stage = t,
		.decide = decide_shape,
		.place = place_memory,
		.tree = { .train = true, .recompute = t->recompute == RF_RECOMPUTE_SEGMENT },
		.per_weight = (t->log_gradients ? 4u : 0u) + (t->sum == RF_SUM_EXACT ? 8u : 0u),
	};
}

/* Reserves memory for the largest numbers of the records. */
static enum rf_code reserve_memory(struct rf_train *t, struct rf_record *const *mini, int n, struct rf_err *e)
{
	struct rf_shape shape = { .T = 0 };

	for (int i = 0; i < n; i++) {
		const struct rf_record *r = mini[i];

		shape.T = r->T > shape.T ? r->T : shape.T;
		if (!r->rollout.tokens || t->rl_coef == 0)
			continue;
		shape.c = r->c > shape.c ? r->c : shape.c;
		shape.n = r->rollout.n > shape.n ? r->rollout.n : shape.n;
		shape.k = r->rollout.k > shape.k ? r->rollout.k : shape.k;
	}
	return rf_work_reserve(t->work, &shape, e);
}

/* ---- a mini-batch -------------------------------------------------------------------------- */

/* This rank's records of a mini-batch, in the order of their ids. */
struct minibatch {
	struct rf_train *t;
	struct rf_record **r;   /* (n) */
	struct rf_share *share; /* (n): their shares of the figures */
	int n;
	struct rf_loss loss; /* the losses of one record after the other */
};

/* The result of the passes over a mini-batch. */
struct result {
	struct rf_share *all; /* (total): shares of all ranks' records, after the last pass */
	int total;
	double compute, reduce; /* seconds of this rank in all passes: computing, exchanging */
	double spread;          /* of the last pass: the slowest rank's time over the mean */
};

static int by_id(const void *a, const void *b)
{
	const struct rf_record *const *x = a, *const *y = b;

	return ((*x)->id > (*y)->id) - ((*x)->id < (*y)->id);
}

/* Returns whether a token has an advantage other than 0. */
static bool any_advantage(const struct rf_record *r)
{
	const size_t rollouts = (size_t)r->c * (size_t)r->rollout.n, k = (size_t)r->rollout.k;

	for (size_t b = 0; b < rollouts; b++) {
		if (r->advantage && r->advantage[b] != 0)
			return true;
		for (int j = 0; r->advantage_per_token && j < rf_rollout_length(&r->rollout, b); j++)
			if (r->advantage_per_token[b * k + (size_t)j] != 0)
				return true;
	}
	return false;
}

/* Returns whether the gradient of the record may be other than 0. */
static bool teaches(const struct rf_train *t, const struct rf_record *r)
{
	const struct rf_counts n = rf_loss_counts(t, r);

	if ((t->ntp_coef != 0 && n.ntp) || (t->position_coef != 0 && n.positions))
		return true;
	if (t->rl_coef == 0 || !n.rl)
		return false;
	return t->policy.kl_coef != 0 || t->policy.entropy_coef != 0 || any_advantage(r);
}

/* Writes the shares of records whose losses have not been computed yet. */
static void init_shares(const struct rf_train *t, struct rf_record *const *mini, int records,
                        struct rf_share *s)
{
	for (int i = 0; i < records; i++) {
		const struct rf_record *r = mini[i];
		const struct rf_counts n = rf_loss_counts(t, r), count = {
			.ntp = t->ntp_coef != 0 ? n.ntp : 0,
			.positions = t->position_coef != 0 ? n.positions : 0,
			.rl = t->rl_coef != 0 ? n.rl : 0,
			.rl_terms = t->rl_coef != 0 ? n.rl_terms : 0,
		};

		rf_share_of(&s[i], r, &t->advantage, &count);
	}
}

void rf_train_totals(const struct rf_train *t, struct rf_record *const *mini, int n, struct rf_totals *own)
{
	struct rf_share s;

	*own = (struct rf_totals){ .records = (uint64_t)n };
	for (int i = 0; i < n; i++) {
		init_shares(t, &mini[i], 1, &s);
		own->ntp_tokens += s.ntp_tokens;
		own->ntp_sequences += s.ntp_tokens > 0;
		own->position_tokens += s.position_tokens;
		own->rollout_tokens += t->rl_coef != 0 ? rf_rollout_tokens(mini[i]) : 0;
		own->rl_tokens += s.rl_tokens;
		own->rl_terms += s.rl_terms;
		own->teaches |= teaches(t, mini[i]);
	}
}

/* Returns the number of terms of the mean L_NTP. */
static double ntp_terms(const struct rf_train *t, const struct rf_totals *all)
{
	return (double)(t->mean == RF_MEAN_SEQUENCES ? all->ntp_sequences : all->ntp_tokens);
}

enum { AT_FIGURES = 100 }; /* the moment of the vote, unlike those of the trainer */

/* Gathers the shares of all ranks' records in res->all.  n: the number of this rank's records; code: the
 * result of this rank's computing, which took this many seconds.  If one rank failed, all ranks fail. */
static enum rf_code gather_shares(const struct minibatch *b, int n, double seconds, enum rf_code code,
                                  struct result *res, struct rf_err *e)
{
	struct rf_ranks *r = b->t->ranks;
	/* clang-format off */
	const struct rf_vote v = { .moment = AT_FIGURES, .what = "the figures of exchange",
	                           .number = (int64_t)r->calls };
	struct { uint64_t records; double compute; } own = { (uint64_t)n, seconds }, *each;
	/* clang-format on */
	double mean = 0, slowest = 0;
	size_t *bytes = malloc((size_t)r->ranks * sizeof *bytes), total = 0;
	enum rf_code rc;

	each = malloc((size_t)r->ranks * sizeof *each);
	if (code == RF_OK && (!bytes || !each))
		code = rf_fail(e, RF_ENOMEM, "out of memory (%d ranks)", r->ranks);
	rc = rf_ranks_vote(r, &v, code, &own, sizeof own, each, e);
	for (int i = 0; rc == RF_OK && i < r->ranks; i++) {
		bytes[i] = each[i].records * sizeof *res->all;
		total += each[i].records;
		mean += each[i].compute / r->ranks;
		slowest = each[i].compute > slowest ? each[i].compute : slowest;
	}
	free(res->all);
	res->all = NULL;
	if (rc == RF_OK && !(res->all = malloc((total + 1) * sizeof *res->all)))
		rc = rf_fail(e, RF_ENOMEM, "out of memory (%zu records)", total);
	if (rc == RF_OK)
		rc = rf_ranks_gather_parts(r, b->share, bytes, res->all, e);
	res->total = (int)total;
	res->compute += own.compute;
	res->spread = mean > 0 ? slowest / mean : 1;
	free(bytes);
	free(each);
	return rc;
}

/* Initialises b with n records.  free_minibatch() frees it, also after an error. */
static enum rf_code alloc_minibatch(struct minibatch *b, struct rf_train *t, struct rf_record *const *mini,
                                    int n, struct rf_err *e)
{
	*b = (struct minibatch){ .t = t, .n = n, .loss = { .t = t } };
	b->r = malloc(((size_t)n + !n) * sizeof *b->r);
	b->share = malloc(((size_t)n + !n) * sizeof *b->share);
	if (!b->r || !b->share)
		return rf_fail(e, RF_ENOMEM, "out of memory (a mini-batch)");
	if (n)
		memcpy(b->r, mini, (size_t)n * sizeof *b->r);
	qsort(b->r, (size_t)n, sizeof *b->r, by_id);
	init_shares(t, b->r, n, b->share);
	return rf_loss_alloc(&b->loss, (const struct rf_record *const *)b->r, n, e);
}

static void free_minibatch(struct minibatch *b)
{
	rf_loss_free(&b->loss);
	free(b->r);
	free(b->share);
}

enum rf_code rf_train_describe(const struct rf_train *t, struct rf_record *const *mini, int n,
                               struct rf_train_stats *st, struct rf_err *e)
{
	struct minibatch b;
	struct result res = { .all = NULL };
	enum rf_code rc = alloc_minibatch(&b, (struct rf_train *)t, mini, n, e);

	if ((rc = gather_shares(&b, n, 0, rc, &res, e)) == RF_OK)
		rf_figures(st, res.all, res.total, 0);
	free_minibatch(&b);
	free(res.all);
	return rc;
}

/* ---- the exact sum -------------------------------------------------------------------------- */

/* The first unit of the exact sum is 2^-48.  Its rounding error is at most 4e-7 of the default epsilon of
 * AdamW, 1e-8, and numbers up to 2^8 can be added.  If a number is larger, the mini-batch is computed again
 * with a unit 2^20 times as large, and so on.  The unit that suffices depends only on the records, not on
 * their order. */
static const float first_unit = 0x1p-48f, next_unit = 0x1p20f;

/* Adds the record's gradient to the exact sum, and clears it. */
static enum rf_code add_exactly(struct rf_train *t, float unit, struct rf_share *s, struct rf_err *e)
{
	struct rf_engine *g = t->engine;
	float largest = NAN;
	enum rf_code rc;

	g->dev.ops->zero(&g->dev, t->mem.largest, sizeof largest);
	RF_RUN(&g->dev, sum_add, .n = g->ckpt->params.total, .unit = unit, .x = g->model.g,
	       .largest = t->mem.largest, .sum = t->mem.exact);
	g->dev.ops->download(&g->dev, &largest, t->mem.largest, sizeof largest);
	if ((rc = rf_dev_sync(&g->dev, e)) != RF_OK)
		return rc;
	if (!isfinite(largest))
		return rf_fail(e, RF_ENUMERIC,
		               "the gradient is not finite: the batch is not committed (try a smaller --lr, "
		               "or --on-nan skip)");
	s->largest = (double)largest;
	return RF_OK;
}

static bool too_large(double largest, float unit) { return largest > RF_SUM_MOST * (double)unit; }

/* Returns whether the unit suffices for these records together. */
static bool unit_suffices(const struct rf_share *s, int n, float unit)
{
	double all = 0;

	for (int i = 0; i < n; i++) {
		if (too_large(s[i].largest, unit))
			return false;
		all += s[i].largest;
	}
	return all < RF_SUM_RANGE * (double)unit;
}

/* Clears the exact sum and the model's gradient.  With --sum plain, makes `to` the model's gradient, in which
 * the gradients of records add up, and clears it. */
static void clear_sum(struct rf_train *t, rf_f32 to)
{
	struct rf_engine *g = t->engine;
	const size_t total = g->ckpt->params.total;

	if (t->sum == RF_SUM_EXACT)
		g->dev.ops->zero(&g->dev, t->mem.exact, total * 8);
	else
		g->model.g = to;
	g->dev.ops->zero(&g->dev, g->model.g, total * 4);
}

/* ---- a pass --------------------------------------------------------------------------------- */

/* Copies the fields of a share that the losses of a record have added. */
static void copy_losses(struct rf_share *s, const struct rf_share *from)
{
	s->loss_ntp = from->loss_ntp;
	s->loss_positions = from->loss_positions;
	s->loss_rl = from->loss_rl;
	s->kl_ref = from->kl_ref;
	s->rl_entropy = from->rl_entropy;
	s->kl = from->kl;
	s->kl3 = from->kl3;
	s->abs_diff = from->abs_diff;
	s->ratio_max = from->ratio_max;
	s->clipped = from->clipped;
	s->high = from->high;
	s->dual = from->dual;
	s->clamped = from->clamped;
	s->largest = from->largest;
}

/* Clears the fields of the shares in which a pass with these weights of the losses adds up. */
static void clear_losses(const struct minibatch *b, const struct rf_weights *w)
{
	for (int i = 0; i < b->n; i++) {
		struct rf_share *s = &b->share[i];

		s->largest = 0;
		if (w->ntp != 0)
			s->loss_ntp = 0;
		if (w->positions != 0)
			s->loss_positions = 0;
		if (w->rl != 0) {
			s->loss_rl = s->kl_ref = s->rl_entropy = s->kl = s->kl3 = s->abs_diff = s->ratio_max =
				0;
			s->clipped = s->high = s->dual = s->clamped = 0;
		}
	}
}

/* Uses the gradients and losses that were computed ahead.  Returns false if they belong to other records or
 * to other weights of the losses. */
static bool take_ahead(struct minibatch *b, const struct rf_weights *w, struct rf_meter *meter)
{
	struct rf_train_ahead *ahead = &b->t->ahead;
	const struct rf_weights *v = &ahead->w;
	const int n = b->n;
	bool same = ahead->open && ahead->n == n && v->rl == w->rl && v->ntp == w->ntp &&
	            v->positions == w->positions;

	ahead->open = false;
	if (same && n > 1)
		qsort(ahead->share, (size_t)n, sizeof *ahead->share, rf_share_by_id);
	for (int i = 0; i < n && same; i++)
		same = ahead->share[i].id == b->r[i]->id;
	for (int i = 0; i < n && same; i++) {
		copy_losses(&b->share[i], &ahead->share[i]);
		rf_meter_done(meter, b->r[i]->T);
	}
	return same;
}

/* Adds up the gradients of this rank's records with these weights of the losses, in the exact sum or, with
 * --sum plain, in `to`. */
static enum rf_code add_gradients(struct minibatch *b, const struct rf_weights *w, rf_f32 to, float unit,
                                  struct rf_meter *meter, struct rf_err *e)
{
	struct rf_train *t = b->t;
	struct rf_engine *g = t->engine;
	const bool exact = t->sum == RF_SUM_EXACT;
	const rf_f32 own = g->model.g;
	enum rf_code rc = RF_OK;

	clear_sum(t, to);
	for (int i = 0; i < b->n && rc == RF_OK; i++) {
		const struct rf_record *r = b->r[i];

		rf_loss_begin(&b->loss, r, &b->share[i], w);
		if (rf_loss_any(&b->loss)) {
			if ((rc = rf_loss_run(&b->loss, e)) == RF_OK && exact)
				rc = add_exactly(t, unit, &b->share[i], e);
			if (rc != RF_OK)
				rf_blame(e, "id %llu", (unsigned long long)r->id);
		}
		rf_ranks_sign(t->ranks, "computes");
		if (rc == RF_OK)
			rf_meter_done(meter, r->T);
		if (rc == RF_OK && exact && too_large(b->share[i].largest, unit))
			break; /* all records are computed again, in a larger unit */
	}
	g->model.g = own;
	return rc == RF_OK ? rf_dev_sync(&g->dev, e) : rc;
}

/* Computes the gradient of all ranks' records with these weights of the losses in `to`, with the first unit
 * that suffices.  Where ranks share the optimizer, `to` gets this rank's part of it. */
static enum rf_code minibatch_pass(struct minibatch *b, const struct rf_weights *w, rf_f32 to,
                                   struct rf_meter *meter, struct result *res, struct rf_err *e)
{
	struct rf_train *t = b->t;
	struct rf_engine *g = t->engine;
	const struct rf_span *own = &g->model.own;
	float unit = first_unit;
	double began;
	enum rf_code rc;

	for (;; unit *= next_unit) {
		began = rf_now();
		clear_losses(b, w);
		if (take_ahead(b, w, meter)) {
			began -= t->ahead.seconds;
			rc = RF_OK;
		} else {
			rc = add_gradients(b, w, to, unit, meter, e);
		}
		rc = gather_shares(b, b->n, rf_now() - began, rc, res, e);
		meter = NULL; /* count each record once */
		if (rc != RF_OK || t->sum != RF_SUM_EXACT || unit_suffices(res->all, res->total, unit))
			break;
	}
	if (rc != RF_OK)
		return rc;
	if (t->sum != RF_SUM_EXACT) {
		rf_train_clear_untrained(t, to);
		return rf_dev_sync(&g->dev, e);
	}
	began = rf_now();
	if ((rc = rf_exchange_sum(&t->exchange, t->mem.exact, e)) != RF_OK)
		return rc;
	if (own->n)
		RF_RUN(&g->dev, sum_take, .n = own->n, .unit = unit,
		       .sum = rf_at_i64(t->mem.exact, own->first), .y = rf_at(to, own->first));
	rf_train_clear_untrained(t, to);
	rc = rf_dev_sync(&g->dev, e);
	res->reduce += rf_now() - began;
	return rc;
}

/* Computes the gradients of the policy loss and of the next-token losses in two passes, measures both, and
 * adds them up. */
static enum rf_code two_passes(struct minibatch *b, const struct rf_weights *w, struct result *res,
                               struct rf_train_stats *st, struct rf_err *e)
{
	const struct rf_weights policy = { .rl = w->rl }, next = { .ntp = w->ntp, .positions = w->positions };
	struct rf_train *t = b->t;
	struct rf_engine *g = t->engine;
	const struct rf_span *own = &g->model.own;
	rf_f32 grad = g->model.g, grad_rl = t->mem.grad_rl;
	enum rf_code rc;

	rc = minibatch_pass(b, &policy, grad_rl, NULL, res, e);
	if (rc == RF_OK)
		rc = minibatch_pass(b, &next, grad, t->meter, res, e);
	if (rc != RF_OK)
		return rc;
	st->norm_rl = sqrt(rf_train_dot(t, grad_rl, grad_rl, e));
	st->norm_ntp = sqrt(rf_train_dot(t, grad, grad, e));
	st->grad_cosine = st->norm_rl > 0 && st->norm_ntp > 0
	                          ? rf_train_dot(t, grad_rl, grad, e) / (st->norm_rl * st->norm_ntp)
	                          : 0;
	if (own->n)
		RF_RUN(&g->dev, axpy, .n = own->n, .scale = 1, .add = true, .x = rf_at(grad_rl, own->first),
		       .y = rf_at(grad, own->first));
	return rf_dev_sync(&g->dev, e);
}

/* Divides the coefficient of a mean by the number of its terms; returns 0 without terms. */
static double per_term(double coef, double count) { return count > 0 ? coef / count : 0; }

/* Returns the weights of the losses of a token. */
static struct rf_weights weights_of(const struct rf_train *t, const struct rf_totals *all)
{
	return (struct rf_weights){ .rl = per_term(t->rl_coef, (double)all->rl_terms),
		                    .ntp = per_term(t->ntp_coef, ntp_terms(t, all)),
		                    .positions = per_term(t->position_coef, (double)all->position_tokens) };
}

/* Computes the gradient, and the figures from the shares of all ranks. */
static enum rf_code compute_gradient(struct minibatch *b, const struct rf_totals *all, struct result *res,
                                     struct rf_train_stats *st, struct rf_err *e)
{
	struct rf_train *t = b->t;
	struct rf_train_stats measured = { .norm_rl = NAN, .norm_ntp = NAN, .grad_cosine = NAN };
	const struct rf_weights w = weights_of(t, all);
	enum rf_code rc;

	rc = t->log_gradients ? two_passes(b, &w, res, &measured, e)
	                      : minibatch_pass(b, &w, t->engine->model.g, t->meter, res, e);
	if (rc != RF_OK)
		return rc;
	rf_figures(st, res->all, res->total, ntp_terms(t, all));
	st->norm_rl = measured.norm_rl;
	st->norm_ntp = measured.norm_ntp;
	st->grad_cosine = measured.grad_cosine;
	st->compute = res->compute;
	st->reduce = res->reduce;
	st->spread = res->spread;
	return RF_OK;
}

enum rf_code rf_train_gradient(struct rf_train *t, struct rf_record *const *mini, int n,
                               const struct rf_totals *all, struct rf_train_stats *st, struct rf_err *e)
{
	struct minibatch b;
	struct result res = { .all = NULL };
	struct rf_totals own;
	enum rf_code rc = alloc_minibatch(&b, t, mini, n, e);

	if (rc == RF_OK)
		rc = rf_train_open(t, e);
	if (rc == RF_OK && n)
		rc = reserve_memory(t, mini, n, e);
	if (!all) {
		rf_train_totals(t, mini, n, &own);
		all = &own;
	}
	/* a rank that failed tells the other ranks, which wait for its figures */
	rc = rc == RF_OK ? compute_gradient(&b, all, &res, st, e) : gather_shares(&b, 0, 0, rc, &res, e);
	free_minibatch(&b);
	free(res.all);
	return rc;
}

/* ---- a mini-batch whose records come one by one ---------------------------------------------- */

enum rf_code rf_train_ahead(struct rf_train *t, const struct rf_totals *all, struct rf_err *e)
{
	enum rf_code rc = t->log_gradients ? RF_OK : rf_train_open(t, e);

	if (rc != RF_OK || t->log_gradients)
		return rc;
	clear_sum(t, t->engine->model.g);
	t->ahead.open = true;
	t->ahead.w = weights_of(t, all);
	t->ahead.n = 0;
	t->ahead.seconds = 0;
	return RF_OK;
}

enum rf_code rf_train_ahead_pass(struct rf_train *t, const struct rf_record *r, rf_f32 entropy,
                                 struct rf_err *e)
{
	const double began = rf_now();
	struct rf_loss loss = { .t = t };
	enum rf_code rc = rf_loss_alloc(&loss, &r, 1, e);

	if (rc == RF_OK) {
		rf_loss_begin(&loss, r, NULL, &(struct rf_weights){ .ntp = t->ahead.w.ntp });
		rf_loss_forward(&loss, entropy);
		rc = rf_dev_sync(&t->engine->dev, e);
	}
	rf_loss_free(&loss);
	t->ahead.seconds += rf_now() - began;
	return rc;
}

/* Makes room for one more share. */
static enum rf_code grow_shares(struct rf_train_ahead *ahead, struct rf_err *e)
{
	const int room = ahead->room ? 2 * ahead->room : 64;
	struct rf_share *more;

	if (ahead->n < ahead->room)
		return RF_OK;
	if (!(more = realloc(ahead->share, (size_t)room * sizeof *more)))
		return rf_fail(e, RF_ENOMEM, "out of memory (a mini-batch)");
	ahead->share = more;
	ahead->room = room;
	return RF_OK;
}

/* Computes the losses of a record whose sequence has run forward, and adds its gradient to the sum.  Gives up
 * the mini-batch if the gradient does not fit into the sum. */
static enum rf_code backward_ahead(struct rf_train *t, struct rf_loss *loss, const struct rf_record *r,
                                   rf_f32 states, int apart, struct rf_err *e)
{
	struct rf_train_ahead *ahead = &t->ahead;
	const bool exact = t->sum == RF_SUM_EXACT;
	struct rf_share *share = &ahead->share[ahead->n++];
	enum rf_code rc = RF_OK;

	*share = (struct rf_share){ .id = r->id };
	rf_loss_begin(loss, r, share, &ahead->w);
	if (loss->c)
		rf_loss_set_states(loss, states, apart);
	if (rf_loss_any(loss)) {
		if ((rc = rf_loss_backward(loss, e)) == RF_OK && exact)
			rc = add_exactly(t, first_unit, share, e);
	}
	if (rc == RF_ENUMERIC || (exact && too_large(share->largest, first_unit)))
		ahead->open = false;
	return rc == RF_ENUMERIC ? RF_OK : rc;
}

enum rf_code rf_train_ahead_rest(struct rf_train *t, const struct rf_record *r, rf_f32 states, int apart,
                                 struct rf_err *e)
{
	struct rf_train_ahead *ahead = &t->ahead;
	const double began = rf_now();
	struct rf_loss loss = { .t = t };
	enum rf_code rc = rf_loss_alloc(&loss, &r, 1, e);

	/* a sum in float32 depends on the order of the records */
	if (t->sum == RF_SUM_PLAIN && ahead->n && ahead->share[ahead->n - 1].id >= r->id)
		ahead->open = false;
	if (rc == RF_OK && ahead->open && (rc = grow_shares(ahead, e)) == RF_OK)
		rc = backward_ahead(t, &loss, r, states, apart, e);
	rf_loss_free(&loss);
	rf_ranks_sign(t->ranks, "computes");
	ahead->seconds += rf_now() - began;
	return rc;
}
