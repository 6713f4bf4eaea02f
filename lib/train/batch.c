/* batch.c -- the gradient of a mini-batch.
 *
 * The first mini-batch after the weights have changed can be computed as its records come.  If they are not
 * those that were announced, it is computed again. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "device/arena.h"
#include "train/adamw.h"
#include "train/batch.h"
#include "train/loss.h"

/* ---- memory -------------------------------------------------------------------------------- */

static void place(void *train, const struct rf_shape *shape, struct rf_arena *a)
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
	p->rl_target = rf_arena_i32(a, R);
	p->from = rf_arena_i32(a, R + 2 * C);
}

static void decide(const void *train, struct rf_shape *shape)
{
	const struct rf_train *t = train;

	if (t->rl_coef == 0)
		*shape = (struct rf_shape){ .T = shape->T };
}

static void needs(const void *train, const struct rf_shape *s, struct rf_demand *need)
{
	const struct rf_train *t = train;

	need->plan = (struct rf_plan){ .max_len = s->T, .positions = s->c, .n = s->n,
	                               .k = s->k > 1 ? s->k - 1 : 0, .train = true,
	                               .recompute = t->recompute == RF_RECOMPUTE_SEGMENT };
	need->own = t->engine->ckpt->params.total *
	            ((t->log_gradients ? 4u : 0u) + (t->sum == RF_SUM_EXACT ? 8u : 0u));
}

struct rf_use rf_train_use(struct rf_train *t)
{
	return (struct rf_use){ t, decide, needs, place, false };
}

static enum rf_code reserve(struct rf_train *t, struct rf_record *const *mini, int n, struct rf_err *e)
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

/* A mini-batch at work. */
struct job {
	struct rf_train *t;
	struct rf_train_job one;     /* of its records in turn */
	struct rf_share *share;      /* (n): of this rank's records */
	double began;                /* when the pass did */
	/* after a pass: the shares of all ranks' records, by id; and this rank's seconds of computing, with
	   the slowest rank's by the mean's */
	struct rf_share *all;
	int total;
	double compute, reduce, spread;
	struct rf_meter *meter;      /* NULL: this pass does not count */
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

static bool teaches(const struct rf_train *t, const struct rf_record *r)
{
	if ((t->ntp_coef != 0 && rf_train_ntp_count(t, r)) ||
	    (t->position_coef != 0 && rf_train_position_count(t, r)))
		return true;
	return t->rl_coef != 0 && r->rollout.tokens && any_advantage(r);
}

/* The shares of records that were not computed yet. */
static void shares_of(const struct rf_train *t, struct rf_record *const *mini, int n, struct rf_share *s)
{
	for (int i = 0; i < n; i++) {
		const struct rf_record *r = mini[i];
		const struct rf_counts count = {
			.ntp = t->ntp_coef != 0 ? rf_train_ntp_count(t, r) : 0,
			.positions = t->position_coef != 0 ? rf_train_position_count(t, r) : 0,
			.rl = t->rl_coef != 0 ? rf_rollout_tokens(r) : 0,
		};

		rf_share_of(&s[i], r, &t->advantage, &count);
	}
}

void rf_train_totals(const struct rf_train *t, struct rf_record *const *mini, int n, struct rf_totals *own)
{
	struct rf_share s;

	*own = (struct rf_totals){ .records = (uint64_t)n };
	for (int i = 0; i < n; i++) {
		shares_of(t, &mini[i], 1, &s);
		own->ntp_tokens += s.ntp_tokens;
		own->ntp_sequences += s.ntp_tokens > 0;
		own->position_tokens += s.position_tokens;
		own->rl_tokens += s.rl_tokens;
		own->teaches |= teaches(t, mini[i]);
	}
}

/* How many terms the mean L_NTP has. */
static double ntp_weight(const struct rf_train *t, const struct rf_totals *all)
{
	return (double)(t->mean == RF_MEAN_SEQUENCES ? all->ntp_sequences : all->ntp_tokens);
}

enum { AT_FIGURES = 100 }; /* the moment of a vote */

/* The shares of all ranks' records, by id, in j->all.  code: how this rank's computing went. */
static enum rf_code gather_shares(struct job *j, int n, enum rf_code code, struct rf_err *e)
{
	struct rf_ranks *r = j->t->ranks;
	const struct rf_vote v = { .moment = AT_FIGURES, .what = "the figures of exchange",
	                           .number = (int64_t)r->calls };
	struct { uint64_t records; double compute; } own = { (uint64_t)n, rf_now() - j->began }, *each;
	double mean = 0, slowest = 0;
	size_t *bytes = malloc((size_t)r->ranks * sizeof *bytes), total = 0;
	enum rf_code rc;

	each = malloc((size_t)r->ranks * sizeof *each);
	if (code == RF_OK && (!bytes || !each))
		code = rf_fail(e, RF_ENOMEM, "out of memory (%d ranks)", r->ranks);
	rc = rf_ranks_vote(r, &v, code, &own, sizeof own, each, e);
	for (int i = 0; rc == RF_OK && i < r->ranks; i++) {
		bytes[i] = each[i].records * sizeof *j->all;
		total += each[i].records;
		mean += each[i].compute / r->ranks;
		slowest = each[i].compute > slowest ? each[i].compute : slowest;
	}
	free(j->all);
	j->all = NULL;
	if (rc == RF_OK && !(j->all = malloc((total + 1) * sizeof *j->all)))
		rc = rf_fail(e, RF_ENOMEM, "out of memory (%zu records)", total);
	if (rc == RF_OK)
		rc = rf_ranks_gather_parts(r, j->share, bytes, j->all, e);
	j->total = (int)total;
	j->compute += own.compute;
	j->spread = mean > 0 ? slowest / mean : 1;
	free(bytes);
	free(each);
	return rc;
}

enum rf_code rf_train_describe(const struct rf_train *t, struct rf_record *const *mini, int n,
                               struct rf_train_stats *st, struct rf_err *e)
{
	struct job j = { .t = (struct rf_train *)t, .share = malloc(((size_t)n + !n) * sizeof *j.share),
	                 .began = rf_now() };
	enum rf_code rc = RF_OK;

	if (!j.share)
		rc = rf_fail(e, RF_ENOMEM, "out of memory (a mini-batch)");
	else
		shares_of(t, mini, n, j.share);
	if ((rc = gather_shares(&j, n, rc, e)) == RF_OK)
		rf_figures(st, j.all, j.total, 0);
	free(j.share);
	free(j.all);
	return rc;
}

/* The sum of a mini-batch counts in units of 2^-48 at first.  So an error is at most 4e-7 of what AdamW's
 * epsilon of 1e-8 does, and numbers up to 2^8 can be added.  Where one is larger, the mini-batch is computed
 * again in units 2^20 times as large, and so on: which unit suffices depends on the records alone, not on
 * their order. */
static const float first_unit = 0x1p-48f, next_unit = 0x1p20f;

/* Adds the record's gradient to the exact sum, and clears it. */
static enum rf_code add_exactly(struct rf_train *t, float unit, struct rf_share *s, struct rf_err *e)
{
	struct rf_engine *g = t->engine;
	float largest = NAN;
	enum rf_code rc;

	g->dev.ops->zero(&g->dev, t->largest, sizeof largest);
	RF_RUN(&g->dev, sum_add, .n = g->ckpt->params.total, .unit = unit, .x = g->model.g,
	       .largest = t->largest, .sum = t->exact);
	g->dev.ops->download(&g->dev, &largest, t->largest, sizeof largest);
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

/* Whether the unit suffices for these records together. */
static bool fits(const struct rf_share *s, int n, float unit)
{
	double all = 0;

	for (int i = 0; i < n; i++) {
		if (too_large(s[i].largest, unit))
			return false;
		all += s[i].largest;
	}
	return all < RF_SUM_RANGE * (double)unit;
}

/* Clears the sum, or with --sum plain `to`, and what records' gradients are computed into. */
static void clear(struct rf_train *t, rf_f32 to)
{
	struct rf_engine *g = t->engine;
	const size_t total = g->ckpt->params.total;

	if (t->sum == RF_SUM_EXACT)
		g->dev.ops->zero(&g->dev, t->exact, total * 8);
	else
		g->model.g = to;
	g->dev.ops->zero(&g->dev, g->model.g, total * 4);
}

/* What computing a record has added to its share. */
static void add_computed(struct rf_share *s, const struct rf_share *from)
{
	s->loss_ntp = from->loss_ntp;
	s->loss_positions = from->loss_positions;
	s->loss_rl = from->loss_rl;
	s->kl = from->kl;
	s->kl3 = from->kl3;
	s->abs_diff = from->abs_diff;
	s->ratio_max = from->ratio_max;
	s->clipped = from->clipped;
	s->dual = from->dual;
	s->clamped = from->clamped;
	s->largest = from->largest;
}

/* Takes over the records that were computed ahead, if they are these, with these weights of the losses. */
static bool taken_over(struct rf_train *t, struct rf_record *const *mini, int n, const struct rf_weights *w,
                       struct rf_share *shares, struct job *j)
{
	struct rf_share *own = t->ahead.share;
	const struct rf_weights *v = &t->ahead.w;
	bool same = t->ahead.open && t->ahead.n == n && v->rl == w->rl && v->ntp == w->ntp &&
	            v->positions == w->positions;

	t->ahead.open = false;
	if (same && n > 1)
		qsort(own, (size_t)n, sizeof *own, rf_share_by_id);
	for (int i = 0; i < n && same; i++)
		same = own[i].id == mini[i]->id;
	for (int i = 0; i < n && same; i++) {
		add_computed(&shares[i], &own[i]);
		rf_meter_done(j->meter, mini[i]->T);
	}
	j->began -= same ? t->ahead.seconds : 0;
	return same;
}

/* One pass over the mini-batch with these weights of the losses: into the exact sum, or with --sum plain
 * into `to`. */
static enum rf_code compute(struct rf_train *t, struct rf_record *const *mini, int n,
                            const struct rf_weights *w, rf_f32 to, float unit, struct job *j,
                            struct rf_err *e)
{
	struct rf_engine *g = t->engine;
	const bool exact = t->sum == RF_SUM_EXACT;
	const rf_f32 own = g->model.g;
	struct rf_share *shares = j->share;
	enum rf_code rc = RF_OK;

	if (taken_over(t, mini, n, w, shares, j))
		return RF_OK;
	clear(t, to);
	for (int i = 0; i < n && rc == RF_OK; i++) {
		const struct rf_record *r = mini[i];

		rf_train_job_take(&j->one, r, &shares[i], w);
		if (rf_train_job_counts(&j->one)) {
			if ((rc = rf_train_job_run(&j->one, e)) == RF_OK && exact)
				rc = add_exactly(t, unit, &shares[i], e);
			if (rc != RF_OK)
				rf_blame(e, "id %llu", (unsigned long long)r->id);
		}
		rf_ranks_sign(t->ranks, "computes");
		if (rc == RF_OK)
			rf_meter_done(j->meter, r->T);
		if (rc == RF_OK && exact && too_large(shares[i].largest, unit))
			break; /* all of it comes again in a larger unit */
	}
	g->model.g = own;
	return rc == RF_OK ? rf_dev_sync(&g->dev, e) : rc;
}

/* What a pass with these weights adds to shares is not in them yet. */
static void begin_shares(struct rf_share *s, int n, const struct rf_weights *w)
{
	for (int i = 0; i < n; i++) {
		s[i].largest = 0;
		if (w->ntp != 0)
			s[i].loss_ntp = 0;
		if (w->positions != 0)
			s[i].loss_positions = 0;
		if (w->rl != 0) {
			s[i].loss_rl = s[i].kl = s[i].kl3 = s[i].abs_diff = s[i].ratio_max = 0;
			s[i].clipped = s[i].dual = s[i].clamped = 0;
		}
	}
}

/* `to` becomes the gradient of all ranks' records with these weights of the losses, by the first unit that
 * suffices; of several ranks that share the optimizer, the own part of it. */
static enum rf_code pass(struct rf_train *t, struct rf_record *const *mini, int n, const struct rf_weights *w,
                         rf_f32 to, struct job *j, struct rf_err *e)
{
	struct rf_meter *meter = j->meter;
	struct rf_engine *g = t->engine;
	const struct rf_span *own = &g->model.own;
	float unit = first_unit;
	enum rf_code rc;

	for (;; unit *= next_unit) {
		begin_shares(j->share, n, w);
		j->began = rf_now();
		rc = compute(t, mini, n, w, to, unit, j, e);
		rc = gather_shares(j, n, rc, e);
		j->meter = NULL; /* records count once */
		if (rc != RF_OK || t->sum != RF_SUM_EXACT || fits(j->all, j->total, unit))
			break;
	}
	j->meter = meter;
	if (rc != RF_OK)
		return rc;
	if (t->sum != RF_SUM_EXACT) {
		rf_train_clear_untrained(t, to);
		return rf_dev_sync(&g->dev, e);
	}
	j->began = rf_now();
	if ((rc = rf_exchange_sum(&t->exchange, t->exact, e)) != RF_OK)
		return rc;
	if (own->n)
		RF_RUN(&g->dev, sum_take, .n = own->n, .unit = unit, .sum = rf_at_i64(t->exact, own->first),
		       .y = rf_at(to, own->first));
	rf_train_clear_untrained(t, to);
	rc = rf_dev_sync(&g->dev, e);
	j->reduce += rf_now() - j->began;
	return rc;
}

/* The gradients of the policy loss and of the next-token losses one after the other, to measure them apart;
 * then their sum. */
static enum rf_code apart(struct rf_train *t, struct rf_record *const *mini, int n,
                          const struct rf_weights *w, struct job *j, struct rf_train_stats *st,
                          struct rf_err *e)
{
	const struct rf_weights policy = { .rl = w->rl },
	                        next = { .ntp = w->ntp, .positions = w->positions };
	struct rf_engine *g = t->engine;
	const struct rf_span *own = &g->model.own;
	rf_f32 grad = g->model.g, grad_rl = t->grad_rl;
	enum rf_code rc;

	j->meter = NULL; /* the second pass counts */
	rc = pass(t, mini, n, &policy, grad_rl, j, e);
	j->meter = t->meter;
	if (rc == RF_OK)
		rc = pass(t, mini, n, &next, grad, j, e);
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
static double each(double coef, double count) { return count > 0 ? coef / count : 0; }

/* The weights of the losses of a token. */
static struct rf_weights weights_of(const struct rf_train *t, const struct rf_totals *all)
{
	return (struct rf_weights){ .rl = each(t->rl_coef, (double)all->rl_tokens),
	                            .ntp = each(t->ntp_coef, ntp_weight(t, all)),
	                            .positions = each(t->position_coef, (double)all->position_tokens) };
}

/* With the place of everything known: the gradient, and from the shares the figures. */
static enum rf_code gradient(struct job *j, struct rf_record *const *sorted, int n,
                             const struct rf_totals *all, struct rf_train_stats *st, struct rf_err *e)
{
	struct rf_train *t = j->t;
	struct rf_engine *g = t->engine;
	struct rf_train_stats apart_only = { .norm_rl = NAN, .norm_ntp = NAN, .grad_cosine = NAN };
	const struct rf_weights w = weights_of(t, all);
	enum rf_code rc;

	shares_of(t, sorted, n, j->share);
	rc = t->log_gradients ? apart(t, sorted, n, &w, j, &apart_only, e)
	                      : pass(t, sorted, n, &w, g->model.g, j, e);
	if (rc != RF_OK)
		return rc;
	rf_figures(st, j->all, j->total, ntp_weight(t, all));
	st->norm_rl = apart_only.norm_rl;
	st->norm_ntp = apart_only.norm_ntp;
	st->grad_cosine = apart_only.grad_cosine;
	st->compute = j->compute;
	st->reduce = j->reduce;
	st->spread = j->spread;
	return RF_OK;
}

enum rf_code rf_train_gradient(struct rf_train *t, struct rf_record *const *mini, int n,
                               const struct rf_totals *all, struct rf_train_stats *st, struct rf_err *e)
{
	struct job j = { .t = t, .one = { .t = t }, .meter = t->meter };
	struct rf_record **sorted = malloc(((size_t)n + !n) * sizeof *sorted);
	struct rf_totals own;
	enum rf_code rc = rf_train_open(t, e);

	if (rc == RF_OK && !sorted)
		rc = rf_fail(e, RF_ENOMEM, "out of memory (a mini-batch)");
	if (rc == RF_OK) {
		if (n)
			memcpy(sorted, mini, (size_t)n * sizeof *sorted);
		qsort(sorted, (size_t)n, sizeof *sorted, by_id);
		rc = rf_train_job_room(&j.one, (const struct rf_record *const *)sorted, n, e);
		j.share = malloc(((size_t)n + !n) * sizeof *j.share);
		if (rc == RF_OK && !j.share)
			rc = rf_fail(e, RF_ENOMEM, "out of memory (a mini-batch)");
	}
	if (rc == RF_OK && n)
		rc = reserve(t, sorted, n, e);
	if (!all) {
		rf_train_totals(t, mini, n, &own);
		all = &own;
	}
	/* a rank that failed tells the others, which wait for its figures */
	rc = rc == RF_OK ? gradient(&j, sorted, n, all, st, e) : gather_shares(&j, 0, rc, e);
	free(sorted);
	rf_train_job_free(&j.one);
	free(j.share);
	free(j.all);
	return rc;
}

/* ---- a mini-batch whose records come one by one ---------------------------------------------- */

enum rf_code rf_train_ahead(struct rf_train *t, const struct rf_totals *all, struct rf_err *e)
{
	enum rf_code rc = t->log_gradients ? RF_OK : rf_train_open(t, e);

	if (rc != RF_OK || t->log_gradients)
		return rc;
	clear(t, t->engine->model.g);
	t->ahead.open = true;
	t->ahead.w = weights_of(t, all);
	t->ahead.n = 0;
	t->ahead.seconds = 0;
	return RF_OK;
}

enum rf_code rf_train_ahead_pass(struct rf_train *t, const struct rf_record *r, rf_f32 entropy,
                                 struct rf_err *e)
{
	const double from = rf_now();
	struct rf_train_job j = { .t = t };
	enum rf_code rc = rf_train_job_room(&j, &r, 1, e);

	if (rc == RF_OK) {
		rf_train_job_take(&j, r, NULL, &(struct rf_weights){ .ntp = t->ahead.w.ntp });
		rf_train_job_pass(&j, entropy);
		rc = rf_dev_sync(&t->engine->dev, e);
	}
	rf_train_job_free(&j);
	t->ahead.seconds += rf_now() - from;
	return rc;
}

/* Room for one more share. */
static enum rf_code more_shares(struct rf_train *t, struct rf_err *e)
{
	const int room = t->ahead.room ? 2 * t->ahead.room : 64;
	struct rf_share *more;

	if (t->ahead.n < t->ahead.room)
		return RF_OK;
	if (!(more = realloc(t->ahead.share, (size_t)room * sizeof *more)))
		return rf_fail(e, RF_ENOMEM, "out of memory (a mini-batch)");
	t->ahead.share = more;
	t->ahead.room = room;
	return RF_OK;
}

enum rf_code rf_train_ahead_rest(struct rf_train *t, const struct rf_record *r, rf_f32 states, int apart,
                                 struct rf_err *e)
{
	const double from = rf_now();
	const bool plain = t->sum == RF_SUM_PLAIN;
	struct rf_share *share;
	struct rf_train_job j = { .t = t };
	enum rf_code rc = rf_train_job_room(&j, &r, 1, e);

	/* in float32 the order of the sum counts */
	if (plain && t->ahead.n && t->ahead.share[t->ahead.n - 1].id >= r->id)
		t->ahead.open = false;
	if (rc == RF_OK && t->ahead.open && (rc = more_shares(t, e)) == RF_OK) {
		share = &t->ahead.share[t->ahead.n++];
		*share = (struct rf_share){ .id = r->id };
		rf_train_job_take(&j, r, share, &t->ahead.w);
		if (j.c)
			rf_train_job_states(&j, states, apart);
		if (rf_train_job_counts(&j)) {
			if ((rc = rf_train_job_rest(&j, e)) == RF_OK && !plain)
				rc = add_exactly(t, first_unit, share, e);
		}
		if (rc == RF_ENUMERIC || (!plain && too_large(share->largest, first_unit)))
			t->ahead.open = false;
		rc = rc == RF_ENUMERIC ? RF_OK : rc;
	}
	rf_train_job_free(&j);
	rf_ranks_sign(t->ranks, "computes");
	t->ahead.seconds += rf_now() - from;
	return rc;
}
