/* loss.c -- one record's gradient over its tree.
 *
 *     1. The segments of the sequence run forward.  The head computes their rows' next-token loss and, since
 *        the loss's coefficients are known before the pass, its gradient.  The gradient of the rows is kept.
 *     2. The rollouts that branch off the sequence run forward, and the head computes the log-probabilities
 *        that the policy loss needs.  With the loss's derivatives these give the rollouts' first gradients.
 *     3. The rollouts run backward.
 *     4. The segments of the sequence run backward, from the last to the first.
 *
 * Logits are never stored whole: the head works on blocks of rows.  The rollouts
 * may be drawn between 1 and 2, from the same pass. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/loss.h"

static int ntp_first(const struct rf_train *t, const struct rf_record *r)  /* first token that L_NTP counts */
{
	return t->loss == RF_LOSS_RESPONSE && r->prompt_len > 1 ? r->prompt_len : 1;
}

uint64_t rf_train_position_count(const struct rf_train *t, const struct rf_record *r)
{
	return r->positions ? (uint64_t)r->c * (uint64_t)t->k : 0;
}

uint64_t rf_train_ntp_count(const struct rf_train *t, const struct rf_record *r)
{
	const int n = r->T - ntp_first(t, r);

	if (t->loss == RF_LOSS_POSITIONS)
		return rf_train_position_count(t, r);
	return n > 0 ? (uint64_t)n : 0;
}

/* Copies the hidden states of rows s-1 out of segment i, or adds their gradient to the segment's. */
static void at_positions(struct rf_train_job *j, int i, rf_f32 rows, bool back)
{
	struct rf_engine *g = j->t->engine;
	const struct rf_tree *t = j->t->work->tree;
	const struct rf_train_place *at = &j->t->at;
	int first = rf_tree_first(t, i), last = first + rf_tree_rows(t, i), n = 0;
	const rf_i32 row = at->from;
	rf_i32 position;

	/* rows and then positions go up together, since the GPU may have to wait for each upload */
	for (int s = 0; s < j->c; s++)
		if (j->r->positions[s] - 1 >= first && j->r->positions[s] - 1 < last) {
			j->list[j->c + n] = s;
			j->list[n++] = j->r->positions[s] - 1 - first;
		}
	if (!n)
		return;
	memmove(j->list + n, j->list + j->c, (size_t)n * sizeof *j->list);
	g->dev.ops->upload(&g->dev, row, j->list, 2 * (size_t)n * 4);
	position = rf_at_i32(row, (size_t)n);
	if (back)
		RF_RUN(&g->dev, rows, .n = n, .d = g->ckpt->cfg.d, .add = true, .from = at->dfirst,
		       .fi = position, .to = rows, .ti = row);
	else
		RF_RUN(&g->dev, rows, .n = n, .d = g->ckpt->cfg.d, .from = rows, .fi = row,
		       .to = at->first, .ti = position);
}

__attribute__((format(printf, 3, 4))) static enum rf_code not_finite(struct rf_train_job *j, struct rf_err *e,
                                                                     const char *fmt, ...)
{
	char what[80], why[100];
	bool known = rf_tree_blame(j->t->work->tree, NULL, why);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	return rf_fail(e, RF_ENUMERIC, "%s is not finite%s%s", what, known ? ": " : "", known ? why : "");
}

/* Returns the advantage of token i of rollout b. */
static double advantage(const struct rf_record *r, size_t b, size_t i)
{
	return (double)(r->advantage ? r->advantage[b]
	                             : r->advantage_per_token[b * (size_t)r->rollout.k + i]);
}

/* Adds a token's policy loss and its figures to the record's. */
static void add_token(struct rf_share *s, const struct rf_policy_token *p, double abs_diff)
{
	s->loss_rl += p->loss;
	s->kl -= p->log_ratio;
	s->kl3 += p->ratio - 1 - log(p->ratio);
	s->abs_diff += abs_diff;
	s->clipped += p->clipped;
	s->dual += p->dual;
	s->clamped += p->clamped;
	s->ratio_max = p->ratio > s->ratio_max ? p->ratio : s->ratio_max;
}

/* Computes the policy loss of the record's rollouts: reads their log-probabilities, writes -dL/dlogp per row,
 * 0 after a rollout's end. */
static enum rf_code policy(struct rf_train_job *j, struct rf_err *e)
{
	struct rf_engine *g = j->t->engine;
	const struct rf_rollout *o = &j->r->rollout;
	size_t nb = (size_t)(j->c * j->n), R = nb * (size_t)j->k;
	enum rf_code rc;

	g->dev.ops->download(&g->dev, j->f32, j->t->at.rl_logp, R * 4);
	if ((rc = rf_dev_sync(&g->dev, e)) != RF_OK)
		return rc;
	for (size_t b = 0; b < nb; b++)
		for (size_t i = 0; i < (size_t)j->k; i++) {
			float *x = &j->f32[i * nb + b];
			double logp = (double)*x, old = (double)o->logp[b * (size_t)j->k + i];
			struct rf_policy_token p;

			if (i >= (size_t)rf_rollout_length(o, b)) {
				*x = 0;
				continue;
			}
			p = rf_policy_token(&j->t->policy, logp, old, advantage(j->r, b, i));
			if (!isfinite(logp))
				return not_finite(j, e,
				                  "the log-probability of token %zu of rollout %zu", i, b);
			*x = (float)(-j->w.rl * p.dlogp);
			add_token(j->share, &p, fabs(logp - old));
		}
	g->dev.ops->upload(&g->dev, j->t->at.rl_coef, j->f32, R * 4);
	return RF_OK;
}

/* Rollouts forward, loss, backward; leaves the gradient of rows s-1 in dfirst. */
static enum rf_code rollouts(struct rf_train_job *j, struct rf_err *e)
{
	struct rf_engine *g = j->t->engine;
	struct rf_tree *t = j->t->work->tree;
	const struct rf_train_place *at = &j->t->at;
	struct rf_model *m = &g->model;
	const struct rf_rollout *o = &j->r->rollout;
	const float inv_temp = (float)(1 / o->temperature);
	size_t nb = (size_t)(j->c * j->n), d = (size_t)m->cfg->d, R = nb * (size_t)j->k;
	enum rf_code rc;

	for (size_t b = 0; b < nb; b++)
		for (size_t i = 0; i < (size_t)j->k; i++)
			j->list[i * nb + b] = o->tokens[b * (size_t)j->k + i];
	g->dev.ops->upload(&g->dev, at->rl_target, j->list, R * 4);
	if (j->k > 1) /* the last token's row predicts nothing that the loss needs */
		RF_RUN(m->dev, rows, .n = (int)(R - nb), .d = m->cfg->d,
		       .from = rf_tree_branch(t, j->n, j->k - 1, j->list),
		       .to = rf_at(at->rows, nb * d));
	for (size_t b = 0; b < nb; b++)
		j->list[b] = (int32_t)b / j->n;
	g->dev.ops->upload(&g->dev, at->from, j->list, nb * 4);
	RF_RUN(m->dev, rows, .n = (int)nb, .d = m->cfg->d, .from = at->first, .fi = at->from,
	       .to = at->rows);
	RF_RUN(m->dev, head_fwd, .rows = (int)R, .d = m->cfg->d, .N = m->cfg->vocab, .inv_temp = inv_temp,
	       .h = at->rows, .w = rf_w(m, m->head), .target = at->rl_target, .logp = at->rl_logp);
	if ((rc = policy(j, e)) != RF_OK)
		return rc;
	RF_RUN(m->dev, head_bwd, .rows = (int)R, .d = m->cfg->d, .N = m->cfg->vocab, .inv_temp = inv_temp,
	       .h = at->rows, .w = rf_w(m, m->head), .target = at->rl_target, .coef = at->rl_coef,
	       .z = at->z, .dh = at->drows, .dw = rf_dw(m, m->head));
	g->dev.ops->zero(&g->dev, at->dfirst, (size_t)j->c * d * 4);
	RF_RUN(m->dev, rows, .n = (int)nb, .d = m->cfg->d, .add = true, .from = at->drows,
	       .to = at->dfirst, .ti = at->from);
	if (j->k > 1)
		rf_tree_backward_branch(t, rf_at(at->drows, nb * d));
	return RF_OK;
}

static bool has_ntp(const struct rf_train_job *j)
{
	return (j->w.ntp != 0 && rf_train_ntp_count(j->t, j->r)) ||
	       (j->w.positions != 0 && rf_train_position_count(j->t, j->r));
}

/* Uploads targets and weights of the next-token losses: row i predicts token i+1. */
static void upload_targets(struct rf_train_job *j)
{
	struct rf_engine *g = j->t->engine;
	const struct rf_record *r = j->r;
	const int T = r->T, from = j->t->loss == RF_LOSS_POSITIONS ? T : ntp_first(j->t, r);
	const double at_position = j->w.positions + (j->t->loss == RF_LOSS_POSITIONS ? j->w.ntp : 0);

	for (int i = 0; i < T; i++) {
		j->list[i] = i + 1 < T ? r->tokens[i + 1] : 0;
		j->f32[i] = i + 1 < T && i + 1 >= from ? (float)j->w.ntp : 0;
	}
	for (int s = 0; at_position != 0 && s < (r->positions ? r->c : 0); s++)
		for (int i = 0; i < j->t->k; i++)
			j->f32[r->positions[s] + i - 1] += (float)at_position;
	g->dev.ops->upload(&g->dev, j->t->at.target, j->list, (size_t)T * 4);
	g->dev.ops->upload(&g->dev, j->t->at.coef, j->f32, (size_t)T * 4);
}

/* Segment i forward, and the head for its rows: the next-token loss's gradient of them, and of the head; and
 * their entropies, unless that is NULL. */
static rf_f32 segment(struct rf_train_job *j, int i, rf_f32 entropy)
{
	struct rf_engine *g = j->t->engine;
	struct rf_model *m = &g->model;
	struct rf_tree *t = j->t->work->tree;
	const struct rf_train_place *at = &j->t->at;
	const size_t first = (size_t)rf_tree_first(t, i), d = (size_t)m->cfg->d;
	const int rows = rf_tree_rows(t, i);
	const rf_f32 hidden = rf_tree_forward(t, i), dh = rf_at(at->dh, first * d);

	if (has_ntp(j)) {
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

/* Adds token i's loss, of which row i-1 has the log-probability, to *sum. */
static enum rf_code add_loss(struct rf_train_job *j, int i, double weight, double *sum, struct rf_err *e)
{
	const float logp = j->f32[i - 1];

	if (!isfinite(logp))
		return not_finite(j, e, "the log-probability of token %d", i);
	*sum -= weight * (double)logp;
	return RF_OK;
}

/* Adds the next-token losses of the record to its figures. */
static enum rf_code next_token_losses(struct rf_train_job *j, struct rf_err *e)
{
	const struct rf_train *t = j->t;
	struct rf_engine *g = t->engine;
	const struct rf_record *r = j->r;
	const bool positions = t->loss == RF_LOSS_POSITIONS;
	struct rf_share *s = j->share;
	enum rf_code rc;

	g->dev.ops->download(&g->dev, j->f32, t->at.logp, (size_t)r->T * 4);
	rc = rf_dev_sync(&g->dev, e);
	for (int i = ntp_first(t, r); rc == RF_OK && !positions && j->w.ntp != 0 && i < r->T; i++)
		rc = add_loss(j, i, j->ntp_share, &s->loss_ntp, e);
	for (int p = 0; rc == RF_OK && p < (r->positions ? r->c : 0); p++)
		for (int i = r->positions[p]; rc == RF_OK && i < r->positions[p] + t->k; i++) {
			if (positions && j->w.ntp != 0)
				rc = add_loss(j, i, j->ntp_share, &s->loss_ntp, e);
			if (rc == RF_OK && j->w.positions != 0)
				rc = add_loss(j, i, 1, &s->loss_positions, e);
		}
	return rc;
}

enum rf_code rf_train_job_rest(struct rf_train_job *j, struct rf_err *e)
{
	struct rf_train *t = j->t;
	struct rf_engine *g = t->engine;
	struct rf_tree *tree = t->work->tree;
	const size_t d = (size_t)g->ckpt->cfg.d;
	enum rf_code rc;

	if (j->c && (rc = rollouts(j, e)) != RF_OK)
		return rc;
	for (int i = tree->segments - 1; i >= 0; i--) {
		const rf_f32 dh = rf_at(t->at.dh, (size_t)rf_tree_first(tree, i) * d);

		at_positions(j, i, dh, true);
		rf_tree_backward(tree, i, dh);
	}
	rc = has_ntp(j) ? next_token_losses(j, e) : RF_OK;
	return rc == RF_OK ? rf_dev_sync(&g->dev, e) : rc;
}

enum rf_code rf_train_job_run(struct rf_train_job *j, struct rf_err *e)
{
	struct rf_tree *t = j->t->work->tree;

	for (int s = 0; s < j->c; s++)
		j->list[s] = j->r->positions[s] - 1;
	rf_tree_begin(t, j->r->tokens, j->r->T, j->list, j->c);
	if (has_ntp(j))
		upload_targets(j);
	for (int i = 0; i < t->segments; i++)
		at_positions(j, i, segment(j, i, NULL), false);
	return rf_train_job_rest(j, e);
}

void rf_train_job_take(struct rf_train_job *j, const struct rf_record *r, struct rf_share *share,
                       const struct rf_weights *w)
{
	const struct rf_train *t = j->t;
	const bool with = r->rollout.tokens && w->rl != 0;

	j->r = r;
	j->share = share;
	j->c = with ? r->c : 0;
	j->n = with ? r->rollout.n : 0;
	j->k = with ? r->rollout.k : 0;
	j->w = *w;
	j->ntp_share = t->mean == RF_MEAN_SEQUENCES && rf_train_ntp_count(t, r)
	                       ? 1.0 / (double)rf_train_ntp_count(t, r)
	                       : 1;
	j->w.ntp *= j->ntp_share;
}

void rf_train_job_states(struct rf_train_job *j, rf_f32 states, int apart)
{
	struct rf_engine *g = j->t->engine;

	for (int s = 0; s < j->c; s++)
		j->list[s] = s * apart;
	g->dev.ops->upload(&g->dev, j->t->at.from, j->list, (size_t)j->c * 4);
	RF_RUN(&g->dev, rows, .n = j->c, .d = g->ckpt->cfg.d, .from = states, .fi = j->t->at.from,
	       .to = j->t->at.first);
}

enum rf_code rf_train_job_room(struct rf_train_job *j, const struct rf_record *const *mini, int n,
                               struct rf_err *e)
{
	size_t host = 64;

	for (int i = 0; i < n; i++) {
		const struct rf_record *r = mini[i];
		size_t c = (size_t)r->c,
		       R = r->rollout.tokens ? c * (size_t)r->rollout.n * (size_t)r->rollout.k : 0;

		host = host > R + 2 * c ? host : R + 2 * c;
		host = host > (size_t)r->T ? host : (size_t)r->T;
	}
	j->list = malloc(host * sizeof *j->list);
	j->f32 = malloc(host * sizeof *j->f32);
	return j->list && j->f32 ? RF_OK : rf_fail(e, RF_ENOMEM, "out of memory (a mini-batch)");
}

void rf_train_job_free(struct rf_train_job *j)
{
	free(j->list);
	free(j->f32);
}

bool rf_train_job_counts(const struct rf_train_job *j) { return j->c || has_ntp(j); }

void rf_train_job_pass(struct rf_train_job *j, rf_f32 entropy)
{
	struct rf_tree *t = j->t->work->tree;

	rf_tree_begin(t, j->r->tokens, j->r->T, NULL, 0);
	if (has_ntp(j))
		upload_targets(j);
	for (int i = 0; i < t->segments; i++)
		segment(j, i, entropy);
}
