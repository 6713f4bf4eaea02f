/* rollout.c -- continuations below rows of a text (paper, eq. 6-7; DESIGN, the shared prefix).
 *
 * One pass goes over the text and keeps the hidden states of rows s-1 .. s+k-1 of every position s: the first is what
 * token 0 is drawn from, the others are h_gt.  Then all rollouts of a record grow side by side, a row each per step; or,
 * where they are only scored, all their rows are one more pass. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "rng.h"
#include "rollout.h"

void rf_rollout_options(struct rf_rollouts *s, struct rf_opt opts[RF_ROLLOUT_OPTS])
{
	const struct rf_opt table[] = {
		{ "length", 'k', RF_OPT_INT, &s->k, 1, 65536, "tokens", "tokens per rollout, always exactly so many", true },
		{ "rollouts", 'n', RF_OPT_INT, &s->n, 1, 65536, "n", "rollouts per position", true },
		{ "temperature", 0, RF_OPT_REAL, &s->temperature, 1e-3, 1e3, "t", "of drawing and of the log-probabilities", true },
		{ "top-p", 0, RF_OPT_REAL, &s->top_p, 1e-6, 1, "p", "draw from the fewest tokens that reach p", true },
		{ "top-k", 0, RF_OPT_INT, &s->top_k, 0, RF_MAX_VOCAB, "k", "draw from the k most likely; 0: all", true },
		{ "eos", 0, RF_OPT_FLAG, &s->eos, 0, 0, NULL, "the end-of-sequence token may be drawn", true },
		{ "score", 0, RF_OPT_FLAG, &s->score, 0, 0, NULL, "draw nothing: values of rollout tokens that are there", true },
		{ "seed", 0, RF_OPT_U64, &s->seed, 0, 0, "n", "of the random numbers", true },
		{ "draw-step", 0, RF_OPT_INT, &s->draw_step, -1, INT_MAX, "n", "step for the random numbers; -1: the model's", true },
		{ .name = NULL },
	};

	RF_OPT_FILL(opts, table, RF_ROLLOUT_OPTS);
}

/* Device memory of the stage.  `kept`: hidden states of rows s-1 .. s+k-1 of every position, (c, k+1, d). */
struct place {
	rf_f32 kept, first, z, logp, h_pred;   /* first (c, d): rows s-1;  z (c n, N);  logp (k, c n);  h_pred (k, c n, d) */
	rf_i32 token, from, to, banned;
	rf_f64 u;
};

static size_t place(const struct rf_rollouts *s, int c, int n, int k, void *base, struct place *p)
{
	struct rf_arena a = { base, 0 };
	const struct rf_config *cfg = &s->engine->ckpt->cfg;
	size_t nb = (size_t)c * (size_t)n, d = (size_t)cfg->d, kk = (size_t)k;

	p->kept = rf_arena_f32(&a, (size_t)c * (kk + 1) * d);
	p->first = rf_arena_f32(&a, (s->score ? nb * (kk + 1) : (size_t)c) * d);
	p->h_pred = rf_arena_f32(&a, nb * kk * d);
	p->logp = rf_arena_f32(&a, nb * kk);
	p->token = rf_arena_i32(&a, nb * kk);
	p->from = rf_arena_i32(&a, (size_t)c * (kk + 1) + nb);
	p->to = rf_arena_i32(&a, (size_t)c * (kk + 1));
	p->banned = rf_arena_i32(&a, RF_MAX_EOS);
	p->u = rf_arena_f64(&a, nb);
	p->z = s->score ? NULL : rf_arena_f32(&a, nb * (size_t)cfg->vocab);
	return a.used;
}

static void plan(const struct rf_rollouts *s, int T, int c, int n, int k, struct rf_plan *p, size_t *extra)
{
	struct place unused;

	*p = (struct rf_plan){ .max_len = T, .sites = c, .per = n, .steps = k, .grow = !s->score };
	*extra = place(s, c, n, k, NULL, &unused);
}

void rf_rollout_needs(const void *stage, struct rf_shape *shape, struct rf_need *need)
{
	const struct rf_rollouts *s = stage;
	size_t c, n, k, d = (size_t)s->engine->ckpt->cfg.d;

	if (!s->score) {
		shape->n = s->n;
		shape->k = s->k;
	}
	c = (size_t)shape->c;
	n = (size_t)shape->n;
	k = (size_t)shape->k;
	plan(s, shape->T, shape->c, shape->n, shape->k, &need->plan, &need->extra);
	/* as fetched, in the record, packed, compressed */
	need->host = 4 * (c * n * k * (2 + d) * 4 + c * k * d * 4 + (size_t)shape->T * 8);
}

/* Hidden states of the rows of segment i that are wanted: row s-1+j of position p goes to kept[p (k+1) + j]. */
static void collect(struct rf_engine *g, const struct rf_record *r, int k, int i, rf_f32 hidden, const struct place *at, int32_t *list)
{
	int first = rf_tree_first(g->tree, i), rows = rf_tree_rows(g->tree, i), n = 0;
	int32_t *from = list, *to = list + r->c * (k + 1);

	for (int p = 0; p < r->c; p++)
		for (int j = 0; j <= k; j++) {
			int row = r->positions[p] - 1 + j - first;
			if (row >= 0 && row < rows) {
				from[n] = row;
				to[n++] = p * (k + 1) + j;
			}
		}
	if (!n)
		return;
	g->dev.ops->upload(&g->dev, at->from, from, (size_t)n * 4);
	g->dev.ops->upload(&g->dev, at->to, to, (size_t)n * 4);
	RF(&g->dev, rows, .n = n, .d = g->ckpt->cfg.d, .from = hidden, .fi = at->from, .to = at->kept, .ti = at->to);
}

/* to (c n or c, d) = rows s-1 of the positions, each `per` times */
static void first_rows(struct rf_engine *g, const struct rf_record *r, int k, int per, const struct place *at, int32_t *list)
{
	for (int b = 0; b < r->c * per; b++)
		list[b] = b / per * (k + 1);
	g->dev.ops->upload(&g->dev, at->from, list, (size_t)(r->c * per) * 4);
	RF(&g->dev, rows, .n = r->c * per, .d = g->ckpt->cfg.d, .from = at->kept, .fi = at->from, .to = at->first);
}

/* Draws k tokens below every position, one step of all rollouts after the other. */
static void draw(const struct rf_rollouts *s, const struct rf_record *r, const struct place *at, int32_t *list, double *u)
{
	struct rf_engine *g = s->engine;
	const struct rf_config *c = &g->ckpt->cfg;
	size_t nb = (size_t)(r->c * s->n), d = (size_t)c->d;
	uint64_t step = rf_draw_step(s->draw_step, g->ckpt->step);
	rf_f32 h;

	if (c->eos_count) {
		for (int i = 0; i < c->eos_count; i++)
			list[i] = c->eos[i];
		g->dev.ops->upload(&g->dev, at->banned, list, (size_t)c->eos_count * 4);
	}
	first_rows(g, r, s->k, 1, at, list);
	rf_tree_grow_begin(g->tree, s->n);
	h = at->first;
	for (int j = 0; j < s->k; j++) {
		rf_i32 token = rf_at_i32(at->token, (size_t)j * nb);

		for (size_t b = 0; b < nb; b++) {
			uint64_t i = b / (uint64_t)s->n, n = b % (uint64_t)s->n;
			u[b] = rf_draw(rf_draw_key(s->seed, RF_DRAW_ROLLOUT, step, r->id, i, n), (uint32_t)j);
		}
		g->dev.ops->upload(&g->dev, at->u, u, nb * sizeof *u);
		rf_linear_fwd(&g->model, g->model.head, RF_NO_WEIGHT, j ? (int)nb : r->c, h, at->z, 0, false);
		RF(&g->dev, sample, .rows = (int)nb, .per = j ? 1 : s->n, .N = c->vocab, .top_k = s->top_k, .top_p = s->top_p,
		   .banned = s->eos ? 0 : c->eos_count, .banned_ids = at->banned, .inv_temp = (float)(1 / s->temperature), .z = at->z,
		   .u = at->u, .token = token, .logp = rf_at(at->logp, (size_t)j * nb));
		h = rf_tree_grow(g->tree, token);
		RF(&g->dev, rows, .n = (int)nb, .d = c->d, .from = h, .to = rf_at(at->h_pred, (size_t)j * nb * d));
	}
}

/* Values of the tokens that are there: all rollouts at once. */
static void score(const struct rf_rollouts *s, const struct rf_record *r, const struct place *at, int32_t *list)
{
	struct rf_engine *g = s->engine;
	const struct rf_config *c = &g->ckpt->cfg;
	int n = r->rollout.n, k = r->rollout.k;
	size_t nb = (size_t)(r->c * n), d = (size_t)c->d;
	rf_f32 h;

	first_rows(g, r, k, n, at, list);
	for (size_t b = 0; b < nb; b++)
		for (int j = 0; j < k; j++)
			list[(size_t)j * nb + b] = r->rollout.tokens[b * (size_t)k + (size_t)j];
	g->dev.ops->upload(&g->dev, at->token, list, nb * (size_t)k * 4);
	h = rf_tree_branch(g->tree, n, k, list);
	RF(&g->dev, rows, .n = (int)nb * k, .d = c->d, .from = h, .to = at->h_pred);
	/* token j comes from the row of token j-1, token 0 from row s-1: one list of rows, shifted by a step */
	RF(&g->dev, rows, .n = (int)nb * k, .d = c->d, .from = h, .to = rf_at(at->first, nb * d));
	RF(&g->dev, head_fwd, .rows = (int)nb * k, .d = c->d, .N = c->vocab, .inv_temp = (float)(1 / r->rollout.temperature),
	   .h = at->first, .w = rf_w(&g->model, g->model.head), .target = at->token, .logp = at->logp);
}

static const char *blame(const struct rf_rollouts *s, const struct place *at, char why[100])
{
	return rf_tree_blame(s->engine->tree, s->score ? NULL : at->token, why) ? why : "the model overflows there";
}

/* The device's results, step-major, into the record's (c, n, k). */
static enum rf_code fetch(struct rf_rollouts *s, struct rf_record *r, const struct place *at, int n, int k, struct rf_err *e)
{
	struct rf_engine *g = s->engine;
	size_t nb = (size_t)(r->c * n), d = (size_t)g->ckpt->cfg.d, kk = (size_t)k;
	struct rf_rollout out = { .temperature = s->score ? r->rollout.temperature : s->temperature, .n = n, .k = k, .d = (int)d };
	float *logp = malloc(nb * kk * 4), *h = malloc(nb * kk * d * 4), *kept = malloc((size_t)r->c * (kk + 1) * d * 4);
	int32_t *token = malloc(nb * kk * 4);
	enum rf_code rc = RF_ENOMEM;
	char why[100];

	out.tokens = rf_record_alloc(r, nb * kk, 4);
	out.logp = rf_record_alloc(r, nb * kk, 4);
	out.h_pred = rf_record_alloc(r, nb * kk * d, 4);
	out.h_gt = rf_record_alloc(r, (size_t)r->c * kk * d, 4);
	if (!logp || !h || !kept || !token || !out.tokens || !out.logp || !out.h_pred || !out.h_gt) {
		rf_fail(e, RF_ENOMEM, "out of memory for the rollouts of a record");
		goto done;
	}
	g->dev.ops->download(&g->dev, logp, at->logp, nb * kk * 4);
	g->dev.ops->download(&g->dev, token, at->token, nb * kk * 4);
	g->dev.ops->download(&g->dev, h, at->h_pred, nb * kk * d * 4);
	g->dev.ops->download(&g->dev, kept, at->kept, (size_t)r->c * (kk + 1) * d * 4);
	if ((rc = rf_dev_sync(&g->dev, e)) != RF_OK)
		goto done;
	for (size_t b = 0; b < nb; b++)
		for (size_t j = 0; j < kk; j++) {
			out.tokens[b * kk + j] = token[j * nb + b];
			out.logp[b * kk + j] = logp[j * nb + b];
			for (size_t i = 0; i < d; i++)
				out.h_pred[(b * kk + j) * d + i] = h[(j * nb + b) * d + i];
		}
	for (size_t p = 0; p < (size_t)r->c; p++)
		for (size_t i = 0; i < kk * d; i++)
			out.h_gt[p * kk * d + i] = kept[(p * (kk + 1) + 1) * d + i];
	for (size_t i = 0; i < nb * kk; i++)
		if (!isfinite(out.logp[i])) {
			rc = rf_fail(e, RF_ENUMERIC, "the log-probability of rollout %zu at position %d is not finite: %s",
			             i / kk, r->positions[i / kk / (size_t)n], blame(s, at, why));
			goto done;
		}
	for (size_t i = 0; i < nb * kk * d; i++)
		if (!isfinite(out.h_pred[i])) {
			rc = rf_fail(e, RF_ENUMERIC, "a hidden state of rollout %zu is not finite: %s", i / kk / d, blame(s, at, why));
			goto done;
		}
	rf_record_drop_rollout(r);
	r->rollout = out;
done:
	free(logp);
	free(h);
	free(kept);
	free(token);
	return rc;
}

enum rf_code rf_rollout_check(const struct rf_rollouts *s, const struct rf_record *r, struct rf_err *e)
{
	int k = s->score ? r->rollout.k : s->k;
	enum rf_code rc = rf_engine_check_record(s->engine, r, e);

	for (int p = 0; rc == RF_OK && r->positions && (!s->score || r->rollout.tokens) && p < r->c; p++)
		if (r->positions[p] < 1 || r->positions[p] > r->T - k)
			rc = rf_fail(e, RF_EDATA, "position %d is %d, and %d rollout tokens must fit between 1 and the sequence's %d tokens (rf-select -k %d)",
			             p, r->positions[p], k, r->T, k);
	return rc;
}

enum rf_code rf_rollout_record(struct rf_rollouts *s, struct rf_record *r, struct rf_err *e)
{
	struct rf_engine *g = s->engine;
	int n = s->score ? r->rollout.n : s->n, k = s->score ? r->rollout.k : s->k;
	size_t nb, lists;
	struct rf_plan want;
	struct place at;
	size_t extra;
	int32_t *list;
	double *u;
	int *row;
	enum rf_code rc;

	if ((rc = rf_rollout_check(s, r, e)) != RF_OK || !r->positions || (s->score && !r->rollout.tokens))
		return rc;
	plan(s, r->T, r->c, n, k, &want, &extra);
	if ((rc = rf_engine_reserve(g, &want, extra, e)) != RF_OK)
		return rc;
	place(s, r->c, n, k, g->extra, &at);
	nb = (size_t)(r->c * n);
	lists = 2 * (size_t)r->c * (size_t)(k + 1) + nb * (size_t)k + RF_MAX_EOS;
	list = malloc(lists * sizeof *list);
	u = malloc(nb * sizeof *u);
	row = malloc((size_t)r->c * sizeof *row);
	if (list && u && row) {
		for (int p = 0; p < r->c; p++)
			row[p] = r->positions[p] - 1;
		rf_tree_begin(g->tree, r->tokens, r->T, row, r->c);
		for (int i = 0; i < g->tree->segments; i++)
			collect(g, r, k, i, rf_tree_forward(g->tree, i), &at, list);
		if (s->score)
			score(s, r, &at, list);
		else
			draw(s, r, &at, list, u);
		rc = fetch(s, r, &at, n, k, e);
	} else {
		rc = rf_fail(e, RF_ENOMEM, "out of memory for the rollouts of a record");
	}
	free(list);
	free(u);
	free(row);
	return rc;
}
