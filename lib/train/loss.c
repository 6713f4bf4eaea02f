/* loss.c -- the gradient of one record over its tree.
 *
 *     1. The segments of the sequence run forward.  The head computes the next-token loss of their rows.  The
 *        weights of the losses are known before the pass, so the head also computes the gradient of the rows,
 *        which is kept.
 *     2. The rollouts that branch off the sequence run forward, and the head computes the log-probabilities
 *        that the policy loss needs.  The derivatives of the loss give the gradient of the rollouts' rows.
 *     3. The rollouts run backward.
 *     4. The segments of the sequence run backward, from the last to the first.
 *
 * Logits are never stored whole: the head works on blocks of rows.  The rollouts may be drawn between steps 1
 * and 2, from the same pass. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/loss.h"

/* Returns the first token that counts in L_NTP, unless L_NTP counts only tokens of L_positions. */
static int first_ntp_token(const struct rf_train *t, const struct rf_record *r)
{
	return t->loss == RF_LOSS_RESPONSE && r->prompt_len > 1 ? r->prompt_len : 1;
}

/* Returns how many tokens count in L_positions. */
static uint64_t position_tokens(const struct rf_train *t, const struct rf_record *r)
{
	return r->positions ? (uint64_t)r->c * (uint64_t)t->k : 0;
}

/* Returns how many tokens count in L_NTP. */
static uint64_t ntp_tokens(const struct rf_train *t, const struct rf_record *r)
{
	const int n = r->T - first_ntp_token(t, r);

	if (t->loss == RF_LOSS_POSITIONS)
		return position_tokens(t, r);
	return n > 0 ? (uint64_t)n : 0;
}

struct rf_counts rf_loss_counts(const struct rf_train *t, const struct rf_record *r)
{
	struct rf_counts n = { .ntp = ntp_tokens(t, r), .positions = position_tokens(t, r) };
	const size_t all = r->rollout.tokens ? (size_t)r->c * (size_t)r->rollout.n : 0;
	uint64_t rollouts = 0;

	for (size_t b = 0; b < all; b++)
		if (rf_advantage_counts(&t->advantage, r, b)) {
			rollouts++;
			n.rl += (uint64_t)rf_rollout_length(&r->rollout, b);
		}
	n.rl_terms = rf_policy_terms(&t->policy, rollouts, n.rl, r->rollout.k);
	return n;
}

/* Copies the hidden states of rows s-1 out of segment i; back: adds their gradient to that of the segment. */
static void copy_position_rows(struct rf_loss *job, int i, rf_f32 rows, bool back)
{
	struct rf_engine *g = job->t->engine;
	const struct rf_tree *t = job->t->work->tree;
	const struct rf_train_place *at = &job->t->at;
	int first = rf_tree_first(t, i), last = first + rf_tree_rows(t, i), n = 0;
	const rf_i32 row = at->from;
	rf_i32 position;

	/* one upload for both lists, rows and then positions: a GPU may have to wait for each upload */
	for (int s = 0; s < job->c; s++)
		if (job->r->positions[s] - 1 >= first && job->r->positions[s] - 1 < last) {
			job->list[job->c + n] = s;
			job->list[n++] = job->r->positions[s] - 1 - first;
		}
	if (!n)
		return;
	memmove(job->list + n, job->list + job->c, (size_t)n * sizeof *job->list);
	g->dev.ops->upload(&g->dev, row, job->list, 2 * (size_t)n * 4);
	position = rf_at_i32(row, (size_t)n);
	if (back)
		RF_RUN(&g->dev, rows, .n = n, .d = g->ckpt->cfg.d, .add = true, .from = at->dfirst,
		       .fi = position, .to = rows, .ti = row);
	else
		RF_RUN(&g->dev, rows, .n = n, .d = g->ckpt->cfg.d, .from = rows, .fi = row, .to = at->first,
		       .ti = position);
}

/* Fails, and says which layer is the first whose output is not finite, if that can be found. */
__attribute__((format(printf, 3, 4))) static enum rf_code not_finite(struct rf_loss *job, struct rf_err *e,
                                                                     const char *fmt, ...)
{
	char what[80], why[100];
	bool known = rf_tree_blame(job->t->work->tree, NULL, why);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	return rf_fail(e, RF_ENUMERIC, "%s is not finite%s%s", what, known ? ": " : "", known ? why : "");
}

/* Returns the advantage of token i of rollout b. */
static double advantage_of(const struct rf_record *r, size_t b, size_t i)
{
	return (double)(r->advantage ? r->advantage[b]
	                             : r->advantage_per_token[b * (size_t)r->rollout.k + i]);
}

/* Adds the figures of a token to the record's share. */
static void add_token_figures(struct rf_share *s, const struct rf_policy_token *p, double abs_diff)
{
	s->kl -= p->log_ratio;
	s->kl3 += p->ratio - 1 - log(p->ratio);
	s->abs_diff += abs_diff;
	s->clipped += p->clipped;
	s->high += p->high;
	s->dual += p->dual;
	s->clamped += p->clamped;
	s->ratio_max = p->ratio > s->ratio_max ? p->ratio : s->ratio_max;
}

/* Adds the policy loss of token i of rollout b to the record's share.  log_ratio: NULL, or the log-ratio of
 * the whole rollout.  Returns the derivative of the loss by the token's log-probability. */
static double add_token(struct rf_loss *job, size_t b, size_t i, double logp, const double *log_ratio)
{
	const struct rf_rollout *o = &job->r->rollout;
	const struct rf_policy *p = &job->t->policy;
	const size_t at = b * (size_t)job->k + i;
	const double weight = rf_policy_weight(p, rf_rollout_length(o, b)), own = logp - (double)o->logp[at];
	const struct rf_policy_token x =
		rf_policy_token(p, logp, log_ratio ? *log_ratio : own, advantage_of(job->r, b, i));
	struct rf_policy_kl kl = { 0, 0 };

	if (p->kl_coef != 0)
		kl = rf_policy_kl(p->kl, logp, (double)o->logp_ref[at]);
	job->share->loss_rl += weight * x.loss;
	job->share->kl_ref += weight * kl.value;
	add_token_figures(job->share, &x, fabs(own));
	return weight * (x.dlogp + p->kl_coef * kl.dlogp);
}

/* Adds the policy loss of rollout b, and writes -dL/dlogp of its tokens to job->f32. */
static enum rf_code add_rollout(struct rf_loss *job, size_t b, struct rf_err *e)
{
	const size_t nb = (size_t)(job->c * job->n), length = (size_t)rf_rollout_length(&job->r->rollout, b);
	const float *logp = job->values + b;
	const float *old = job->r->rollout.logp + b * (size_t)job->k;
	const bool sequence = job->t->policy.ratio == RF_RATIO_SEQUENCE;
	const double whole = sequence ? rf_policy_mean_log_ratio(logp, nb, old, (int)length) : 0;

	for (size_t i = 0; i < length; i++) {
		if (!isfinite(logp[i * nb]))
			return not_finite(job, e, "the log-probability of token %zu of rollout %zu", i, b);
		job->f32[i * nb + b] = (float)(-job->w.rl * add_token(job, b, i, (double)logp[i * nb],
		                                                      sequence ? &whole : NULL));
	}
	return RF_OK;
}

/* Computes the policy loss of the record's rollouts from their log-probabilities.  Uploads -dL/dlogp for each
 * row, and 0 for rows that do not count. */
static enum rf_code policy_loss(struct rf_loss *job, struct rf_err *e)
{
	struct rf_engine *g = job->t->engine;
	const size_t nb = (size_t)(job->c * job->n), R = nb * (size_t)job->k;
	enum rf_code rc;

	g->dev.ops->download(&g->dev, job->values, job->t->at.rl_logp, R * 4);
	rc = rf_dev_sync(&g->dev, e);
	memset(job->f32, 0, R * sizeof *job->f32);
	for (size_t b = 0; b < nb && rc == RF_OK; b++)
		if (rf_advantage_counts(&job->t->advantage, job->r, b))
			rc = add_rollout(job, b, e);
	if (rc == RF_OK)
		g->dev.ops->upload(&g->dev, job->t->at.rl_coef, job->f32, R * 4);
	return rc;
}

/* Adds the entropy of the rows that the rollouts' tokens are drawn from.  Uploads -dL/dH for each row, and 0
 * for rows that do not count. */
static enum rf_code entropy_bonus(struct rf_loss *job, struct rf_err *e)
{
	struct rf_engine *g = job->t->engine;
	const struct rf_policy *p = &job->t->policy;
	const size_t nb = (size_t)(job->c * job->n), R = nb * (size_t)job->k;
	enum rf_code rc;

	g->dev.ops->download(&g->dev, job->values, job->t->at.rl_entropy, R * 4);
	if ((rc = rf_dev_sync(&g->dev, e)) != RF_OK)
		return rc;
	memset(job->f32, 0, R * sizeof *job->f32);
	for (size_t b = 0; b < nb; b++) {
		const int length = rf_rollout_length(&job->r->rollout, b);
		const double weight = rf_policy_weight(p, length);

		if (!rf_advantage_counts(&job->t->advantage, job->r, b))
			continue;
		for (size_t i = b; i < (size_t)length * nb; i += nb) {
			job->share->rl_entropy += weight * (double)job->values[i];
			job->f32[i] = (float)(job->w.rl * weight * p->entropy_coef);
		}
	}
	g->dev.ops->upload(&g->dev, job->t->at.rl_entropy_coef, job->f32, R * 4);
	return RF_OK;
}

/* Runs the rollouts forward, computes the policy loss, and runs them backward.  Leaves the gradient of rows
 * s-1 in dfirst. */
static enum rf_code rollout_loss(struct rf_loss *job, struct rf_err *e)
{
	struct rf_engine *g = job->t->engine;
	struct rf_tree *t = job->t->work->tree;
	const struct rf_train_place *at = &job->t->at;
	struct rf_model *m = &g->model;
	const struct rf_rollout *o = &job->r->rollout;
	const float inv_temp = (float)(1 / o->temperature);
	size_t nb = (size_t)(job->c * job->n), d = (size_t)m->cfg->d, R = nb * (size_t)job->k;
	enum rf_code rc;

	for (size_t b = 0; b < nb; b++)
		for (size_t i = 0; i < (size_t)job->k; i++)
			job->list[i * nb + b] = o->tokens[b * (size_t)job->k + i];
	g->dev.ops->upload(&g->dev, at->rl_target, job->list, R * 4);
	if (job->k > 1) /* no row for the last token: the loss needs no prediction of what follows it */
		RF_RUN(m->dev, rows, .n = (int)(R - nb), .d = m->cfg->d,
		       .from = rf_tree_branch(t, job->n, job->k - 1, job->list),
		       .to = rf_at(at->rows, nb * d));
	for (size_t b = 0; b < nb; b++)
		job->list[b] = (int32_t)b / job->n;
	g->dev.ops->upload(&g->dev, at->from, job->list, nb * 4);
	RF_RUN(m->dev, rows, .n = (int)nb, .d = m->cfg->d, .from = at->first, .fi = at->from, .to = at->rows);
	RF_RUN(m->dev, head_fwd, .rows = (int)R, .d = m->cfg->d, .N = m->cfg->vocab, .inv_temp = inv_temp,
	       .h = at->rows, .w = rf_w(m, m->head), .target = at->rl_target, .logp = at->rl_logp,
	       .entropy = at->rl_entropy);
	if ((rc = policy_loss(job, e)) != RF_OK)
		return rc;
	if (at->rl_entropy && (rc = entropy_bonus(job, e)) != RF_OK)
		return rc;
	RF_RUN(m->dev, head_bwd, .rows = (int)R, .d = m->cfg->d, .N = m->cfg->vocab, .inv_temp = inv_temp,
	       .h = at->rows, .w = rf_w(m, m->head), .target = at->rl_target, .coef = at->rl_coef,
	       .entropy_coef = at->rl_entropy_coef, .z = at->z, .dh = at->drows, .dw = rf_dw(m, m->head));
	g->dev.ops->zero(&g->dev, at->dfirst, (size_t)job->c * d * 4);
	RF_RUN(m->dev, rows, .n = (int)nb, .d = m->cfg->d, .add = true, .from = at->drows, .to = at->dfirst,
	       .ti = at->from);
	if (job->k > 1)
		rf_tree_backward_branch(t, rf_at(at->drows, nb * d));
	return RF_OK;
}

/* Returns whether a token of the record counts in a next-token loss. */
static bool has_ntp_loss(const struct rf_loss *job)
{
	return (job->w.ntp != 0 && ntp_tokens(job->t, job->r)) ||
	       (job->w.positions != 0 && position_tokens(job->t, job->r));
}

/* Uploads the targets of the next-token losses and their weights: row i predicts token i+1. */
static void upload_targets(struct rf_loss *job)
{
	struct rf_engine *g = job->t->engine;
	const struct rf_record *r = job->r;
	const int T = r->T, from = job->t->loss == RF_LOSS_POSITIONS ? T : first_ntp_token(job->t, r);
	const double at_position = job->w.positions + (job->t->loss == RF_LOSS_POSITIONS ? job->w.ntp : 0);

	for (int i = 0; i < T; i++) {
		job->list[i] = i + 1 < T ? r->tokens[i + 1] : 0;
		job->f32[i] = i + 1 < T && i + 1 >= from ? (float)job->w.ntp : 0;
	}
	for (int s = 0; at_position != 0 && s < (r->positions ? r->c : 0); s++)
		for (int i = 0; i < job->t->k; i++)
			job->f32[r->positions[s] + i - 1] += (float)at_position;
	g->dev.ops->upload(&g->dev, job->t->at.target, job->list, (size_t)T * 4);
	g->dev.ops->upload(&g->dev, job->t->at.coef, job->f32, (size_t)T * 4);
}

/* Runs segment i forward.  The head computes the next-token loss of its rows and the loss's gradient, for the
 * rows and for its own weight; and the entropies of the rows, unless `entropy` is NULL.  Returns the hidden
 * states. */
static rf_f32 run_segment(struct rf_loss *job, int i, rf_f32 entropy)
{
	struct rf_engine *g = job->t->engine;
	struct rf_model *m = &g->model;
	struct rf_tree *t = job->t->work->tree;
	const struct rf_train_place *at = &job->t->at;
	const size_t first = (size_t)rf_tree_first(t, i), d = (size_t)m->cfg->d;
	const int rows = rf_tree_rows(t, i);
	const rf_f32 hidden = rf_tree_forward(t, i), dh = rf_at(at->dh, first * d);

	if (has_ntp_loss(job)) {
		RF_RUN(m->dev, head_bwd, .rows = rows, .d = m->cfg->d, .N = m->cfg->vocab, .inv_temp = 1,
		       .h = hidden, .w = rf_w(m, m->head), .target = rf_at_i32(at->target, first),
		       .coef = rf_at(at->coef, first), .entropy = rf_at(entropy, first),
		       .logp = rf_at(at->logp, first), .z = at->z, .dh = dh, .dw = rf_dw(m, m->head));
		return hidden;
	}
	if (entropy)
		RF_RUN(m->dev, head_fwd, .rows = rows, .d = m->cfg->d, .N = m->cfg->vocab, .inv_temp = 1,
		       .h = hidden, .w = rf_w(m, m->head), .entropy = rf_at(entropy, first));
	g->dev.ops->zero(&g->dev, dh, (size_t)rows * d * 4);
	return hidden;
}

/* Adds the loss of token i to *sum.  Row i-1 has its log-probability. */
static enum rf_code add_token_loss(struct rf_loss *job, int i, double weight, double *sum, struct rf_err *e)
{
	const float logp = job->values[i - 1];

	if (!isfinite(logp))
		return not_finite(job, e, "the log-probability of token %d", i);
	*sum -= weight * (double)logp;
	return RF_OK;
}

/* Adds the next-token losses of the record to its share. */
static enum rf_code add_ntp_losses(struct rf_loss *job, struct rf_err *e)
{
	const struct rf_train *t = job->t;
	struct rf_engine *g = t->engine;
	const struct rf_record *r = job->r;
	const bool positions = t->loss == RF_LOSS_POSITIONS;
	struct rf_share *s = job->share;
	enum rf_code rc;

	g->dev.ops->download(&g->dev, job->values, t->at.logp, (size_t)r->T * 4);
	rc = rf_dev_sync(&g->dev, e);
	for (int i = first_ntp_token(t, r); rc == RF_OK && !positions && job->w.ntp != 0 && i < r->T; i++)
		rc = add_token_loss(job, i, job->ntp_share, &s->loss_ntp, e);
	for (int p = 0; rc == RF_OK && p < (r->positions ? r->c : 0); p++)
		for (int i = r->positions[p]; rc == RF_OK && i < r->positions[p] + t->k; i++) {
			if (positions && job->w.ntp != 0)
				rc = add_token_loss(job, i, job->ntp_share, &s->loss_ntp, e);
			if (rc == RF_OK && job->w.positions != 0)
				rc = add_token_loss(job, i, 1, &s->loss_positions, e);
		}
	return rc;
}

enum rf_code rf_loss_backward(struct rf_loss *job, struct rf_err *e)
{
	struct rf_train *t = job->t;
	struct rf_engine *g = t->engine;
	struct rf_tree *tree = t->work->tree;
	const size_t d = (size_t)g->ckpt->cfg.d;
	enum rf_code rc;

	if (job->c && (rc = rollout_loss(job, e)) != RF_OK)
		return rc;
	for (int i = tree->segments - 1; i >= 0; i--) {
		const rf_f32 dh = rf_at(t->at.dh, (size_t)rf_tree_first(tree, i) * d);

		copy_position_rows(job, i, dh, true);
		rf_tree_backward(tree, i, dh);
	}
	rc = has_ntp_loss(job) ? add_ntp_losses(job, e) : RF_OK;
	return rc == RF_OK ? rf_dev_sync(&g->dev, e) : rc;
}

enum rf_code rf_loss_run(struct rf_loss *job, struct rf_err *e)
{
	struct rf_tree *t = job->t->work->tree;

	for (int s = 0; s < job->c; s++)
		job->list[s] = job->r->positions[s] - 1;
	rf_tree_begin(t, job->r->tokens, job->r->T, job->list, job->c);
	if (has_ntp_loss(job))
		upload_targets(job);
	for (int i = 0; i < t->segments; i++)
		copy_position_rows(job, i, run_segment(job, i, NULL), false);
	return rf_loss_backward(job, e);
}

void rf_loss_begin(struct rf_loss *job, const struct rf_record *r, struct rf_share *share,
                   const struct rf_weights *w)
{
	const struct rf_train *t = job->t;
	const bool with = w->rl != 0 && rf_loss_counts(t, r).rl;

	job->r = r;
	job->share = share;
	job->c = with ? r->c : 0;
	job->n = with ? r->rollout.n : 0;
	job->k = with ? r->rollout.k : 0;
	job->w = *w;
	job->ntp_share =
		t->mean == RF_MEAN_SEQUENCES && ntp_tokens(t, r) ? 1.0 / (double)ntp_tokens(t, r) : 1;
	job->w.ntp *= job->ntp_share;
}

void rf_loss_set_states(struct rf_loss *job, rf_f32 states, int apart)
{
	struct rf_engine *g = job->t->engine;

	for (int s = 0; s < job->c; s++)
		job->list[s] = s * apart;
	g->dev.ops->upload(&g->dev, job->t->at.from, job->list, (size_t)job->c * 4);
	RF_RUN(&g->dev, rows, .n = job->c, .d = g->ckpt->cfg.d, .from = states, .fi = job->t->at.from,
	       .to = job->t->at.first);
}

enum rf_code rf_loss_alloc(struct rf_loss *job, const struct rf_record *const *mini, int n, struct rf_err *e)
{
	size_t host = 64;

	for (int i = 0; i < n; i++) {
		const struct rf_record *r = mini[i];
		size_t c = (size_t)r->c,
		       R = r->rollout.tokens ? c * (size_t)r->rollout.n * (size_t)r->rollout.k : 0;

		host = host > R + 2 * c ? host : R + 2 * c;
		host = host > (size_t)r->T ? host : (size_t)r->T;
	}
	job->list = malloc(host * sizeof *job->list);
	job->f32 = malloc(host * sizeof *job->f32);
	job->values = malloc(host * sizeof *job->values);
	return job->list && job->f32 && job->values ? RF_OK
	                                            : rf_fail(e, RF_ENOMEM, "out of memory (a mini-batch)");
}

void rf_loss_free(struct rf_loss *job)
{
	free(job->list);
	free(job->f32);
	free(job->values);
}

bool rf_loss_any(const struct rf_loss *job) { return job->c || has_ntp_loss(job); }

void rf_loss_forward(struct rf_loss *job, rf_f32 entropy)
{
	struct rf_tree *t = job->t->work->tree;

	rf_tree_begin(t, job->r->tokens, job->r->T, NULL, 0);
	if (has_ntp_loss(job))
		upload_targets(job);
	for (int i = 0; i < t->segments; i++)
		run_segment(job, i, entropy);
}
