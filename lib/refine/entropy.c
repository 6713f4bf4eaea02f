/* entropy.c -- H_t at every position in one forward pass (paper, eq. 5).
 *
 * The sequence runs through the tree segment by segment.  The head reads the hidden states of each segment
 * block by block, and leaves only a few numbers per row.  So logits are never stored whole (except for --keep
 * logits), and the memory of the stage grows with the sequence only by these numbers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/arena.h"
#include "refine/entropy.h"

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

static void place_memory(void *stage, const struct rf_shape *shape, struct rf_arena *a)
{
	struct rf_entropy *s = stage;
	struct rf_entropy_place *p = &s->at;
	size_t n = (size_t)shape->T;

	p->entropy = rf_arena_f32(a, n);
	p->logp = rf_arena_f32(a, n);
	p->target = rf_arena_i32(a, n);
	p->top = rf_arena_i32(a, n);
	p->z = s->logits ? rf_arena_f32(a, (size_t)LOGIT_ROWS * (size_t)s->work->engine->ckpt->cfg.vocab)
	                 : NULL;
}

static void decide_shape(const void *stage, struct rf_shape *shape)
{
	(void)stage;
	*shape = (struct rf_shape){ .T = shape->T };
}

struct rf_use rf_entropy_use(struct rf_entropy *s)
{
	return (struct rf_use){ .stage = s, .decide = decide_shape, .place = place_memory };
}

/* Downloads the hidden states of a segment, and its logits, if the settings ask for them. */
static void download_rows(struct rf_entropy *s, struct rf_record *r, rf_f32 hidden, int first, int rows,
                          rf_f32 z)
{
	struct rf_model *m = &s->work->engine->model;
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

static enum rf_code not_finite(struct rf_work *w, int position, struct rf_err *e)
{
	char why[100];

	return rf_fail(e, RF_ENUMERIC, "the logits at position %d are not finite: %s", position,
	               rf_tree_blame(w->tree, NULL, why) ? why : "the head overflows there");
}

/* Downloads the results of a pass; logp and top may be NULL. */
static enum rf_code download_results(struct rf_entropy *s, const struct rf_record *r, float *entropy,
                                     float *logp, int32_t *top, struct rf_err *e)
{
	struct rf_dev *d = &s->work->engine->dev;
	enum rf_code rc;

	d->ops->download(d, entropy, s->at.entropy, (size_t)r->T * 4);
	if (logp)
		d->ops->download(d, logp, s->at.logp, (size_t)r->T * 4);
	if (top)
		d->ops->download(d, top, s->at.top, (size_t)r->T * 4);
	if ((rc = rf_dev_sync(d, e)) != RF_OK)
		return rc;
	for (int i = 0; i < r->T; i++)
		if (!isfinite(entropy[i]) || (logp && !isfinite(logp[i])))
			return not_finite(s->work, i, e);
	return RF_OK;
}

/* Runs the sequence: writes its entropies, the log-probabilities of the next tokens and the most likely next
 * tokens, each (T).  logp and top may be NULL. */
static enum rf_code run_pass(struct rf_entropy *s, struct rf_record *r, float *entropy, float *logp,
                             int32_t *top, struct rf_err *e)
{
	struct rf_engine *g = s->work->engine;
	struct rf_model *m = &g->model;
	const struct rf_ops *ops = g->dev.ops;
	const struct rf_entropy_place *at = &s->at;
	struct rf_tree *t;
	enum rf_code rc;

	if ((rc = rf_engine_check_record(g, r, e)) != RF_OK ||
	    (rc = rf_work_reserve(s->work, &(struct rf_shape){ .T = r->T }, e)) != RF_OK)
		return rc;
	t = s->work->tree;
	rf_tree_begin(t, r->tokens, r->T, NULL, 0);
	if (logp) {
		int32_t none = -1;
		if (r->T > 1)
			ops->upload(&g->dev, at->target, r->tokens + 1, (size_t)(r->T - 1) * 4);
		ops->upload(&g->dev, rf_at_i32(at->target, (size_t)(r->T - 1)), &none, 4);
	}
	for (int i = 0; i < t->segments; i++) {
		size_t first = (size_t)rf_tree_first(t, i);
		int rows = rf_tree_rows(t, i);
		rf_f32 hidden = rf_tree_forward(t, i);

		RF_RUN(m->dev, head_fwd, .rows = rows, .d = m->cfg->d, .N = m->cfg->vocab, .inv_temp = 1,
		       .h = hidden, .w = rf_w(m, m->head), .half = m->head.half,
		       .target = logp ? rf_at_i32(at->target, first) : NULL,
		       .entropy = rf_at(at->entropy, first), .logp = logp ? rf_at(at->logp, first) : NULL,
		       .top = top ? rf_at_i32(at->top, first) : NULL);
		download_rows(s, r, hidden, (int)first, rows, at->z);
	}
	return download_results(s, r, entropy, logp, top, e);
}

/* Allocates n numbers of 4 bytes, which live as long as the record.  Returns NULL, with RF_ENOMEM in *e, if
 * memory is short. */
static void *alloc_array(struct rf_record *r, size_t n, struct rf_err *e)
{
	void *p = rf_record_alloc(r, n ? n : 1, 4);

	if (!p)
		rf_fail(e, RF_ENOMEM, "out of memory (a record of %d tokens)", r->T);
	return p;
}

enum rf_code rf_entropy_fetch(struct rf_entropy *s, struct rf_record *r, struct rf_err *e)
{
	float *entropy = alloc_array(r, (size_t)r->T, e);
	enum rf_code rc;

	if (!entropy)
		return RF_ENOMEM;
	if ((rc = download_results(s, r, entropy, NULL, NULL, e)) == RF_OK)
		r->entropy = entropy;
	return rc;
}

enum rf_code rf_entropy_record(struct rf_entropy *s, struct rf_record *r, struct rf_err *e)
{
	const struct rf_config *c = &s->work->engine->ckpt->cfg;
	size_t T = (size_t)r->T;
	float *entropy = alloc_array(r, T, e), *logp = NULL, *nll = NULL, *correct = NULL;
	int32_t *top = NULL;
	enum rf_code rc;

	if (!entropy || (s->nll && (!(logp = alloc_array(r, T, e)) || !(nll = alloc_array(r, T, e)) ||
	                            !(correct = alloc_array(r, T, e)) || !(top = alloc_array(r, T, e)))))
		return RF_ENOMEM;
	if (s->hidden && !(r->hidden = alloc_array(r, T * (size_t)c->d, e)))
		return RF_ENOMEM;
	if (s->logits && !(r->logits = alloc_array(r, T * (size_t)c->vocab, e)))
		return RF_ENOMEM;
	r->d = r->hidden ? (s->hidden ? c->d : r->d) : 0;
	r->N = r->logits ? (s->logits ? c->vocab : r->N) : 0;
	if ((rc = run_pass(s, r, entropy, logp, top, e)) != RF_OK)
		return rc;
	r->entropy = entropy;
	if (s->nll) {
		for (int t = 0; t + 1 < r->T; t++) {
			nll[t] = -logp[t];
			correct[t] = top[t] == r->tokens[t + 1];
		}
		r->nll = nll;
		r->correct = correct;
	}
	return RF_OK;
}
