/* logp.c -- choices as branches of the tree (rf-design(7), The tree).
 *
 * One pass over the sequence leaves the state after its last token, and the hidden state of this token, which
 * predicts the first token of every choice.  The choices then run as branches from this state, several of
 * about equal length together.  A choice that is shorter than the longest of them is padded with tokens whose
 * rows are not used.  Only rows that predict a token that counts go to the head.
 *
 * A choice with more than LONG rows runs after the tokens as one sequence.  So memory depends on the longest
 * sequence, but not on the length of choices. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "decode/logp.h"
#include "device/arena.h"

/* The most choices together, the most rows of each, and the most rows of a pass that may be padding: one more
 * pass reads the weights again, which takes about as long as this many rows. */
enum { SIDE = 16, LONG = 256, PADDING = 16 };

static int larger(int a, int b) { return a > b ? a : b; }
static int smaller(int a, int b) { return a < b ? a : b; }

/* ---- memory -------------------------------------------------------------------------------- */

/* Returns how many values a shape needs: T tokens of a sequence, or n choices together with k rows each. */
static size_t count_values(const struct rf_shape *z)
{
	size_t side = (size_t)z->n * ((size_t)z->k + 1);

	return side > (size_t)z->T ? side : (size_t)z->T;
}

static void place_memory(void *stage, const struct rf_shape *z, struct rf_arena *a)
{
	struct rf_logp *s = stage;
	struct rf_logp_place *p = &s->at;
	size_t d = (size_t)s->work->engine->ckpt->cfg.d, n = count_values(z),
	       side = (size_t)z->n * ((size_t)z->k + 1);

	p->last = rf_arena_f32(a, d);
	p->h = rf_arena_f32(a, side * d);
	p->from = rf_arena_i32(a, side);
	p->target = rf_arena_i32(a, n);
	p->top = rf_arena_i32(a, n);
	p->logp = rf_arena_f32(a, n);
}

static void decide_shape(const void *stage, struct rf_shape *shape)
{
	(void)stage;
	*shape = (struct rf_shape){ shape->T, 1, SIDE, smaller(LONG, larger(shape->T - 1, 1)) };
}

struct rf_use rf_logp_use(struct rf_logp *s)
{
	return (struct rf_use){ .stage = s, .decide = decide_shape, .place = place_memory };
}

/* ---- a record ------------------------------------------------------------------------------ */

/* Returns the first token of choice i that counts. */
static int first_counted(const struct rf_choice *c, int i) { return c->from ? c->from[i] : 0; }

/* Returns the number of rows of choice i: one for each token but the last. */
static int rows_of(const struct rf_choice *c, int i) { return c->length[i] - 1; }

static const int32_t *tokens_of(const struct rf_choice *c, int i)
{
	return c->tokens + (size_t)i * (size_t)c->m;
}

static struct rf_shape shape_of(const struct rf_record *r)
{
	const struct rf_choice *c = &r->choice;
	struct rf_shape z = { r->T, 0, 1, 0 };
	int n = 0;

	for (int i = 0; i < c->n; i++) {
		if (rows_of(c, i) > LONG) {
			z.T = larger(z.T, r->T + rows_of(c, i));
		} else {
			z.k = larger(z.k, rows_of(c, i));
			n++;
		}
	}
	z.c = z.k > 0;
	z.n = smaller(larger(n, 1), SIDE);
	return z;
}

/* The record in hand. */
struct job {
	struct rf_logp *s;
	const struct rf_record *r;
	struct rf_logp_place at;
	int *order, branches; /* (n): the choices that are branches, the longest first */
	int32_t *list, *top;  /* host memory: lists to upload; the most likely tokens */
	float *value;         /* host memory: log-probabilities of tokens */
	float *logp;          /* (n): the results */
	int32_t *greedy;      /* (n): the results */
};

/* Sets job->order.  Lengths are small, so this tries each length. */
static void sort_branches(struct job *job)
{
	const struct rf_choice *c = &job->r->choice;

	for (int rows = LONG; rows >= 0; rows--)
		for (int i = 0; i < c->n; i++)
			if (rows_of(c, i) == rows)
				job->order[job->branches++] = i;
}

/* Runs the head for `rows` rows at h: writes the log-probabilities of the targets in job->list, and the most
 * likely tokens, as values first, first+1, ... */
static void run_head(const struct job *job, rf_f32 h, size_t first, int rows)
{
	struct rf_engine *g = job->s->work->engine;
	const struct rf_config *c = &g->ckpt->cfg;

	g->dev.ops->upload(&g->dev, rf_at_i32(job->at.target, first), job->list, (size_t)rows * 4);
	RF_RUN(&g->dev, head_fwd, .rows = rows, .d = c->d, .N = c->vocab, .inv_temp = 1, .h = h,
	       .w = rf_w(&g->model, g->model.head), .half = g->model.head.half,
	       .target = rf_at_i32(job->at.target, first), .logp = rf_at(job->at.logp, first),
	       .top = rf_at_i32(job->at.top, first));
}

/* Downloads the values of n tokens. */
static enum rf_code download_values(const struct job *job, size_t n, struct rf_err *e)
{
	struct rf_engine *g = job->s->work->engine;

	g->dev.ops->download(&g->dev, job->value, job->at.logp, n * 4);
	g->dev.ops->download(&g->dev, job->top, job->at.top, n * 4);
	return rf_dev_sync(&g->dev, e);
}

/* The sum over the tokens of a choice. */
struct sum {
	double logp;
	bool greedy;
};

/* Adds the value at index `at` to the sum. */
static void add_token(const struct job *job, struct sum *x, size_t at, int32_t token)
{
	x->logp += (double)job->value[at];
	x->greedy &= job->top[at] == token;
}

/* Stores the result of choice i.  order: the branches that were run last; NULL: the choice was a sequence. */
static enum rf_code store_result(const struct job *job, int i, const struct sum *x, const int *order,
                                 struct rf_err *e)
{
	struct rf_tree *t = job->s->work->tree;
	char why[100] = "the head overflows there";

	job->logp[i] = (float)x->logp;
	job->greedy[i] = x->greedy;
	if (isfinite(job->logp[i]))
		return RF_OK;
	if (rf_tree_blame(t, NULL, why) && t->blame.rollout >= 0 && order)
		return rf_fail(e, RF_ENUMERIC,
		               "the log-probability of choice %d is not finite: layer %d overflows in choice "
		               "%d at position %d",
		               i, t->blame.layer, order[t->blame.rollout], t->blame.row);
	return rf_fail(e, RF_ENUMERIC, "the log-probability of choice %d is not finite: %s", i, why);
}

/* ---- branches ------------------------------------------------------------------------------ */

/* Runs the sequence, and keeps the hidden state of row T-1. */
static void run_trunk(const struct job *job)
{
	struct rf_engine *g = job->s->work->engine;
	struct rf_tree *t = job->s->work->tree;
	const int row = job->r->T - 1, d = g->ckpt->cfg.d;
	rf_f32 h = NULL;
	int last;

	rf_tree_begin(t, job->r->tokens, job->r->T, &row, job->s->work->plan.positions ? 1 : 0);
	for (int i = 0; i < t->segments; i++)
		h = rf_tree_forward(t, i);
	last = rf_tree_rows(t, t->segments - 1) - 1;
	RF_RUN(&g->dev, rows, .n = 1, .d = d, .from = rf_at(h, (size_t)last * (size_t)d), .to = job->at.last);
	job->s->rows += (uint64_t)job->r->T;
}

/* Copies the n rows that job->list names to at.h, as rows first, first+1, ... */
static void gather_rows(const struct job *job, rf_f32 from, int first, int n)
{
	struct rf_engine *g = job->s->work->engine;
	const int d = g->ckpt->cfg.d;

	if (!n)
		return;
	g->dev.ops->upload(&g->dev, job->at.from, job->list, (size_t)n * 4);
	RF_RUN(&g->dev, rows, .n = n, .d = d, .from = from, .fi = job->at.from,
	       .to = rf_at(job->at.h, (size_t)first * (size_t)d));
}

/* Runs nb choices together, the first of which is the longest.  The rows of the head are first copies of row
 * T-1, one for each choice whose first token counts, then the rows of the branches, choice by choice. */
static enum rf_code run_branches(const struct job *job, const int *order, int nb, struct rf_err *e)
{
	const struct rf_choice *c = &job->r->choice;
	struct rf_tree *t = job->s->work->tree;
	const int steps = rows_of(c, order[0]);
	struct sum sum[SIDE];
	int firsts = 0, n = 0;
	rf_f32 h = NULL;
	enum rf_code rc;

	if (steps) {
		for (int b = 0; b < nb; b++)
			for (int j = 0; j < steps; j++)
				job->list[j * nb + b] =
					j < rows_of(c, order[b]) ? tokens_of(c, order[b])[j] : 0;
		h = rf_tree_branch(t, nb, steps, job->list);
		job->s->rows += (uint64_t)nb * (uint64_t)steps;
	}
	for (int b = 0; b < nb; b++)
		if (!first_counted(c, order[b]))
			job->list[firsts++] = 0;
	gather_rows(job, job->at.last, 0, firsts);
	for (int b = 0; b < nb; b++)
		for (int j = larger(first_counted(c, order[b]), 1); j < c->length[order[b]]; j++)
			job->list[n++] = (j - 1) * nb + b;
	gather_rows(job, h, firsts, n);

	n = 0;
	for (int b = 0; b < nb; b++)
		if (!first_counted(c, order[b]))
			job->list[n++] = tokens_of(c, order[b])[0];
	for (int b = 0; b < nb; b++)
		for (int j = larger(first_counted(c, order[b]), 1); j < c->length[order[b]]; j++)
			job->list[n++] = tokens_of(c, order[b])[j];
	run_head(job, job->at.h, 0, n);
	if ((rc = download_values(job, (size_t)n, e)) != RF_OK)
		return rc;
	n = 0;
	for (int b = 0; b < nb; b++) {
		sum[b] = (struct sum){ 0, true };
		if (!first_counted(c, order[b]))
			add_token(job, &sum[b], (size_t)n++, tokens_of(c, order[b])[0]);
	}
	for (int b = 0; b < nb && rc == RF_OK; b++) {
		for (int j = larger(first_counted(c, order[b]), 1); j < c->length[order[b]]; j++)
			add_token(job, &sum[b], (size_t)n++, tokens_of(c, order[b])[j]);
		rc = store_result(job, order[b], &sum[b], order, e);
	}
	return rc;
}

static enum rf_code run_all_branches(const struct job *job, struct rf_err *e)
{
	const struct rf_choice *c = &job->r->choice;
	enum rf_code rc = RF_OK;

	if (job->branches)
		run_trunk(job);
	for (int i = 0, n; i < job->branches && rc == RF_OK; i += n) {
		int most = smaller(job->branches - i, SIDE), padding = 0;

		for (n = 1; n < most; n++)
			if ((padding += rows_of(c, job->order[i]) - rows_of(c, job->order[i + n])) > PADDING)
				break;
		rc = run_branches(job, job->order + i, n, e);
	}
	return rc;
}

/* ---- long choices -------------------------------------------------------------------------- */

/* Runs the tokens of the record, followed by those of choice i without its last, as one sequence.  Row T-1 +
 * j predicts token j of the choice. */
static enum rf_code run_long_choice(const struct job *job, int i, struct rf_err *e)
{
	const struct rf_choice *c = &job->r->choice;
	struct rf_engine *g = job->s->work->engine;
	struct rf_tree *t = job->s->work->tree;
	const int T = job->r->T, rows = T + rows_of(c, i), first = T - 1 + first_counted(c, i);
	const int32_t *own = tokens_of(c, i);
	struct sum sum = { 0, true };
	enum rf_code rc;

	memcpy(job->list, job->r->tokens, (size_t)T * 4);
	memcpy(job->list + T, own, (size_t)rows_of(c, i) * 4);
	rf_tree_begin(t, job->list, rows, NULL, 0);
	for (int j = 0; j < t->segments; j++) {
		rf_f32 h = rf_tree_forward(t, j);
		int at = rf_tree_first(t, j), end = at + rf_tree_rows(t, j);
		int from = larger(at, first);

		if (from >= end)
			continue;
		memcpy(job->list, own + from - (T - 1), (size_t)(end - from) * 4);
		run_head(job, rf_at(h, (size_t)(from - at) * (size_t)g->ckpt->cfg.d), (size_t)(from - first),
		         end - from);
	}
	job->s->rows += (uint64_t)rows;
	if ((rc = download_values(job, (size_t)(rows - first), e)) != RF_OK)
		return rc;
	for (int j = first; j < rows; j++)
		add_token(job, &sum, (size_t)(j - first), own[j - (T - 1)]);
	return store_result(job, i, &sum, NULL, e);
}

/* ---- the stage ----------------------------------------------------------------------------- */

enum rf_code rf_logp_check(const struct rf_logp *s, const struct rf_record *r, struct rf_err *e)
{
	const struct rf_engine *g = s->work->engine;
	const struct rf_choice *c = &r->choice;
	enum rf_code rc = rf_engine_check_record(g, r, e);

	for (int i = 0; c->tokens && i < c->n && rc == RF_OK; i++) {
		const int32_t *token = tokens_of(c, i);

		for (int j = 0; j < c->length[i]; j++)
			if (token[j] < 0 || token[j] >= g->ckpt->cfg.vocab)
				return rf_fail(e, RF_EDATA,
				               "token %d of choice %d is %ld, outside the model's vocabulary "
				               "of %d",
				               j, i, (long)token[j], g->ckpt->cfg.vocab);
		if (c->length[i] > (g->max_len ? g->max_len : INT_MAX) - r->T)
			return rf_fail(e, RF_EDATA,
			               "the sequence of %d tokens and choice %d of %d tokens are together "
			               "longer than %s",
			               r->T, i, (int)c->length[i],
			               g->max_len ? "--max-len (raise it, or cut with rf-tokenize --max-len "
			                            "and --truncate left)"
			                          : "2^31 - 1 tokens");
	}
	return rc;
}

static enum rf_code run_job(struct job *job, struct rf_err *e)
{
	const struct rf_choice *c = &job->r->choice;
	enum rf_code rc;

	sort_branches(job);
	rc = run_all_branches(job, e);
	for (int i = 0; i < c->n && rc == RF_OK; i++)
		if (rows_of(c, i) > LONG)
			rc = run_long_choice(job, i, e);
	for (int i = 0; i < c->n; i++)
		job->s->alone += (uint64_t)job->r->T + (uint64_t)rows_of(c, i);
	job->s->choices += (uint64_t)c->n;
	return rc;
}

enum rf_code rf_logp_record(struct rf_logp *s, struct rf_record *r, struct rf_err *e)
{
	struct rf_choice *c = &r->choice;
	struct job job = { .s = s, .r = r };
	struct rf_shape z;
	size_t n;
	enum rf_code rc;

	if ((rc = rf_logp_check(s, r, e)) != RF_OK || !c->tokens)
		return rc;
	z = shape_of(r);
	if ((rc = rf_work_reserve(s->work, &z, e)) != RF_OK)
		return rc;
	job.at = s->at;
	n = count_values(&z);
	job.order = malloc((size_t)c->n * sizeof *job.order);
	job.list = malloc(n * sizeof *job.list);
	job.top = malloc(n * sizeof *job.top);
	job.value = malloc(n * sizeof *job.value);
	job.logp = rf_record_alloc(r, (size_t)c->n, sizeof *job.logp);
	job.greedy = rf_record_alloc(r, (size_t)c->n, sizeof *job.greedy);
	if (job.order && job.list && job.top && job.value && job.logp && job.greedy)
		rc = run_job(&job, e);
	else
		rc = rf_fail(e, RF_ENOMEM, "out of memory (the choices of a record)");
	free(job.order);
	free(job.list);
	free(job.top);
	free(job.value);
	if (rc == RF_OK) {
		c->logp = job.logp;
		c->greedy = job.greedy;
	}
	return rc;
}
