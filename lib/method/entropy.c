/* entropy.c -- H_t at every position in one forward pass (paper, eq. 4).
 *
 * The sequence goes through the tree segment by segment.  The head reads each segment's hidden states block
 * by block and leaves only a few numbers per row.  So logits are never stored whole (except for --keep
 * logits), and the stage's memory grows with the sequence only by these numbers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/arena.h"
#include "method/entropy.h"

enum { LOGIT_ROWS = 256 };

bool rf_entropy_keep(struct rf_entropy *s, const char *words)
{
	while (words) {
		size_t n = strcspn(words, ",");

		if (n == 6 && !memcmp(words, "hidden", n))
			s->hidden = true;
		else if (n == 6 && !memcmp(words, "logits", n))
			s->logits = true;
		else
			return false;
		words = words[n] ? words + n + 1 : NULL;
	}
	return true;
}

/* Device memory of the stage: one number per token each. */
struct place { rf_f32 entropy, logp, z; rf_i32 target, top; };

static size_t place(const struct rf_entropy *s, int T, void *base, struct place *p)
{
	struct rf_arena a = { base, 0 };
	size_t n = (size_t)T;

	p->entropy = rf_arena_f32(&a, n);
	p->logp = rf_arena_f32(&a, n);
	p->target = rf_arena_i32(&a, n);
	p->top = rf_arena_i32(&a, n);
	p->z = s->logits ? rf_arena_f32(&a, (size_t)LOGIT_ROWS * (size_t)s->engine->ckpt->cfg.vocab) : NULL;
	return a.used;
}

void rf_entropy_needs(const void *stage, struct rf_shape *shape, struct rf_demand *need)
{
	const struct rf_entropy *s = stage;
	const struct rf_config *c = &s->engine->ckpt->cfg;
	size_t row = 3 + (s->hidden ? (size_t)c->d : 0) + (s->logits ? (size_t)c->vocab : 0);
	struct place unused;

	*shape = (struct rf_shape){ .T = shape->T };
	*need = (struct rf_demand){ .plan = { .max_len = shape->T },
	                          .extra = place(s, shape->T, NULL, &unused) };
	need->host = 3 * (size_t)shape->T * row * 4; /* in the record, packed, compressed */
}

static enum rf_code reserve(struct rf_entropy *s, int T, struct rf_err *e)
{
	struct rf_shape shape = { .T = T > s->engine->max_len ? T : s->engine->max_len };
	struct rf_demand need = { .grows = NULL };

	rf_entropy_needs(s, &shape, &need);
	return rf_engine_reserve(s->engine, &need.plan, need.extra, e);
}

static void keep(struct rf_entropy *s, struct rf_record *r, rf_f32 hidden, int first, int rows, rf_f32 z)
{
	struct rf_model *m = &s->engine->model;
	int d = m->cfg->d, N = m->cfg->vocab;

	if (s->hidden)
		m->dev->ops->download(m->dev, r->hidden + (size_t)first * (size_t)d, hidden,
		                      (size_t)rows * (size_t)d * 4);
	for (int i = 0; s->logits && i < rows; i += LOGIT_ROWS) {
		int n = rows - i < LOGIT_ROWS ? rows - i : LOGIT_ROWS;

		rf_linear_fwd(m, m->head, RF_NO_WEIGHT, n, rf_at(hidden, (size_t)i * (size_t)d), z, 0, false);
		m->dev->ops->download(m->dev, r->logits + (size_t)(first + i) * (size_t)N, z,
		                      (size_t)n * (size_t)N * 4);
	}
}

static enum rf_code not_finite(struct rf_engine *g, int position, struct rf_err *e)
{
	char why[100];

	return rf_fail(e, RF_ENUMERIC, "the logits at position %d are not finite: %s", position,
	               rf_tree_blame(g->tree, NULL, why) ? why : "the head overflows there");
}

enum rf_code rf_entropy_pass(struct rf_entropy *s, struct rf_record *r, float *entropy, float *logp,
                             int32_t *top, struct rf_err *e)
{
	struct rf_engine *g = s->engine;
	struct rf_model *m = &g->model;
	const struct rf_ops *ops = g->dev.ops;
	struct place at;
	enum rf_code rc;

	if ((rc = rf_engine_check_record(g, r, e)) != RF_OK || (rc = reserve(s, r->T, e)) != RF_OK)
		return rc;
	place(s, g->plan.max_len, g->extra, &at);
	rf_tree_begin(g->tree, r->tokens, r->T, NULL, 0);
	if (logp) {
		int32_t none = -1;
		if (r->T > 1)
			ops->upload(&g->dev, at.target, r->tokens + 1, (size_t)(r->T - 1) * 4);
		ops->upload(&g->dev, rf_at_i32(at.target, (size_t)(r->T - 1)), &none, 4);
	}
	for (int i = 0; i < g->tree->segments; i++) {
		size_t first = (size_t)rf_tree_first(g->tree, i);
		int rows = rf_tree_rows(g->tree, i);
		rf_f32 hidden = rf_tree_forward(g->tree, i);

		RF_RUN(m->dev, head_fwd, .rows = rows, .d = m->cfg->d, .N = m->cfg->vocab, .inv_temp = 1,
		       .h = hidden, .w = rf_w(m, m->head), .half = m->head.half,
		       .target = logp ? rf_at_i32(at.target, first) : NULL,
		       .entropy = rf_at(at.entropy, first), .logp = logp ? rf_at(at.logp, first) : NULL,
		       .top = top ? rf_at_i32(at.top, first) : NULL);
		keep(s, r, hidden, (int)first, rows, at.z);
	}
	ops->download(&g->dev, entropy, at.entropy, (size_t)r->T * 4);
	if (logp)
		ops->download(&g->dev, logp, at.logp, (size_t)r->T * 4);
	if (top)
		ops->download(&g->dev, top, at.top, (size_t)r->T * 4);
	if ((rc = rf_dev_sync(&g->dev, e)) != RF_OK)
		return rc;
	for (int t = 0; t < r->T; t++)
		if (!isfinite(entropy[t]) || (logp && !isfinite(logp[t])))
			return not_finite(g, t, e);
	return RF_OK;
}

void *rf_entropy_array(struct rf_record *r, size_t n, struct rf_err *e)
{
	void *p = rf_record_alloc(r, n ? n : 1, 4);

	if (!p)
		rf_fail(e, RF_ENOMEM, "out of memory (a record of %d tokens)", r->T);
	return p;
}

void rf_entropy_nll(struct rf_record *r, const float *logp, const int32_t *top, float *nll, float *correct)
{
	for (int t = 0; t + 1 < r->T; t++) {
		nll[t] = -logp[t];
		correct[t] = top[t] == r->tokens[t + 1];
	}
	r->nll = nll;
	r->correct = correct;
}

enum rf_code rf_entropy_record(struct rf_entropy *s, struct rf_record *r, struct rf_err *e)
{
	const struct rf_config *c = &s->engine->ckpt->cfg;
	size_t T = (size_t)r->T;
	float *entropy = rf_entropy_array(r, T, e), *logp = NULL, *nll = NULL, *correct = NULL;
	int32_t *top = NULL;
	enum rf_code rc;

	if (!entropy ||
	    (s->nll && (!(logp = rf_entropy_array(r, T, e)) || !(nll = rf_entropy_array(r, T, e)) ||
	                !(correct = rf_entropy_array(r, T, e)) || !(top = rf_entropy_array(r, T, e)))))
		return RF_ENOMEM;
	if (s->hidden && !(r->hidden = rf_entropy_array(r, T * (size_t)c->d, e)))
		return RF_ENOMEM;
	if (s->logits && !(r->logits = rf_entropy_array(r, T * (size_t)c->vocab, e)))
		return RF_ENOMEM;
	r->d = r->hidden ? (s->hidden ? c->d : r->d) : 0;
	r->N = r->logits ? (s->logits ? c->vocab : r->N) : 0;
	if ((rc = rf_entropy_pass(s, r, entropy, logp, top, e)) != RF_OK)
		return rc;
	r->entropy = entropy;
	if (s->nll)
		rf_entropy_nll(r, logp, top, nll, correct);
	return RF_OK;
}
