/* rollout.c -- continuations of a sequence at chosen positions (paper, eq. 7-8; rf-design(7), The tree).
 *
 * One pass over the sequence keeps the hidden states of rows s-1 .. s+k-1 of every position s.  Token 0 is
 * drawn from the first of these rows; the others are h_gt.  A group is the positions that the tree has ready
 * together (tree.h): all positions, after the whole sequence, unless the sequence slides.  The rollouts of a
 * group are decoded side by side, one row each per step.  If they are only scored, their rows are one more
 * pass.  In device memory the values of rollouts lie group by group, and within a group step by step. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "device/arena.h"
#include "refine/rollout.h"

void rf_rollout_options(struct rf_rollout_settings *s, struct rf_opts *opts)
{
	const struct rf_opt table[] = {
		OPT_INT("length", &s->k, 1, 65536, "tokens",
		        "tokens per rollout; with --eos it may end before", .letter = 'k',
		        .noted = RF_OPT_RESULT),
		OPT_INT("rollouts", &s->n, 1, 65536, "n", "rollouts per position", .letter = 'n',
		        .noted = RF_OPT_RESULT),
		OPT_REAL("temperature", &s->temperature, 1e-3, 1e3, "t",
		         "sampling temperature, also used for the log-probabilities", .noted = RF_OPT_RESULT),
		OPT_REAL("top-p", &s->top_p, 1e-6, 1, "p",
		         "sample from the most likely tokens, the fewest that sum up to p",
		         .noted = RF_OPT_RESULT),
		OPT_INT("top-k", &s->top_k, 0, RF_MAX_VOCAB, "k",
		        "sample from the k most likely tokens; 0: all", .noted = RF_OPT_RESULT),
		OPT_FLAG("eos", &s->eos, "allow end tokens to be sampled; a rollout ends with the first one",
		         .noted = RF_OPT_RESULT),
		OPT_FLAG("score", &s->score,
		         "sample nothing; score the rollouts of the input with this model",
		         .noted = RF_OPT_RESULT),
		OPT_U64("seed", &s->seed, "n", "random seed", .noted = RF_OPT_RESULT),
		OPT_INT("draw-step", &s->draw_step, -1, INT_MAX, "n",
		        "training step for the random numbers; -1: the step of the model",
		        .noted = RF_OPT_RESULT),
		OPT_END,
	};

	rf_opts_add(opts, table);
}

void rf_rollout_score_options(struct rf_rollout_settings *s, struct rf_opts *opts)
{
	const struct rf_opt table[] = {
		OPT_ENUM("as", &s->as, RF_AS_WORDS,
		         "write all values, or only the log-probabilities of a reference model",
		         .noted = RF_OPT_RESULT),
		OPT_END,
	};

	rf_opts_add(opts, table);
}

/* Returns whether only log-probabilities of a reference model are computed. */
static bool for_reference(const struct rf_rollout_settings *s) { return s->score && s->as == RF_AS_REF; }

/* Returns whether the draw may leave out tokens that are not likely. */
static bool leaves_out(const struct rf_rollout_settings *s)
{
	return !s->score && (s->top_p < 1 || s->top_k);
}

static void place_memory(void *stage, const struct rf_shape *shape, struct rf_arena *a)
{
	struct rf_rollout_settings *s = stage;
	struct rf_rollout_place *p = &s->at;
	const struct rf_config *cfg = &s->work->engine->ckpt->cfg;
	size_t c = (size_t)shape->c, nb = c * (size_t)shape->n, d = (size_t)cfg->d, k = (size_t)shape->k;

	p->kept = rf_arena_f32(a, c * (k + 1) * d);
	p->first = rf_arena_f32(a, (s->score ? nb * (k + 1) : c) * d);
	p->h_pred = for_reference(s) ? NULL : rf_arena_f32(a, nb * k * d);
	p->logp = rf_arena_f32(a, nb * k);
	p->share = leaves_out(s) ? rf_arena_f32(a, nb * k) : NULL;
	p->token = rf_arena_i32(a, nb * k);
	p->from = rf_arena_i32(a, c * (k + 1) + nb);
	p->to = rf_arena_i32(a, c * (k + 1));
	p->banned = rf_arena_i32(a, RF_MAX_EOS);
	p->u = rf_arena_f64(a, nb);
	p->z = s->score ? NULL : rf_arena_f32(a, nb * (size_t)cfg->vocab);
}

static void decide_shape(const void *stage, struct rf_shape *shape)
{
	const struct rf_rollout_settings *s = stage;

	if (!s->score) {
		shape->n = s->n;
		shape->k = s->k;
	}
}

struct rf_use rf_rollout_use(struct rf_rollout_settings *s)
{
	return (struct rf_use){
		.stage = s, .decide = decide_shape, .place = place_memory, .tree = { .decode = !s->score }
	};
}

/* The record in hand.  Value j of rollout i at position p is at spot[p].at + j spot[p].step + i of token and
 * logp, and of the rows of h_pred. */
struct job {
	const struct rf_rollout_settings *s;
	const struct rf_record *r;
	int n, k;
	bool ran; /* whether the tree has run the sequence already */
	struct rf_rollout_place at;
	struct spot {
		size_t at, step;
	} * spot;      /* (c) */
	int32_t *list; /* host memory for lists that are uploaded */
	double *u;     /* (c n): random numbers, likewise */
	int *row;      /* (c): s-1 */
};

/* Positions whose rollouts are run together; first: where their values begin. */
struct group {
	const int *position;
	int positions;
	size_t nb, first;
};

/* Copies the hidden states of segment i that the positions need: row s-1+j of position p goes to
 * kept[p (k+1) + j]. */
static void keep_rows(const struct job *job, int i, rf_f32 hidden)
{
	struct rf_engine *g = job->s->work->engine;
	const struct rf_tree *t = job->s->work->tree;
	int first = rf_tree_first(t, i), rows = rf_tree_rows(t, i), k = job->k, n = 0;
	int32_t *from = job->list, *to = job->list + job->r->c * (k + 1);

	for (int p = 0; p < job->r->c; p++)
		for (int j = 0; j <= k; j++) {
			int row = job->row[p] + j - first;
			if (row >= 0 && row < rows) {
				from[n] = row;
				to[n++] = p * (k + 1) + j;
			}
		}
	if (!n)
		return;
	g->dev.ops->upload(&g->dev, job->at.from, from, (size_t)n * 4);
	g->dev.ops->upload(&g->dev, job->at.to, to, (size_t)n * 4);
	RF_RUN(&g->dev, rows, .n = n, .d = g->ckpt->cfg.d, .from = hidden, .fi = job->at.from,
	       .to = job->at.kept, .ti = job->at.to);
}

/* Copies rows s-1 of the group's positions, each `n` times, to first (positions n, d). */
static void gather_first_rows(const struct job *job, const struct group *x, int n)
{
	struct rf_engine *g = job->s->work->engine;
	int rows = x->positions * n;

	for (int b = 0; b < rows; b++)
		job->list[b] = x->position[b / n] * (job->k + 1);
	g->dev.ops->upload(&g->dev, job->at.from, job->list, (size_t)rows * 4);
	RF_RUN(&g->dev, rows, .n = rows, .d = g->ckpt->cfg.d, .from = job->at.kept, .fi = job->at.from,
	       .to = job->at.first);
}

/* Uploads the end tokens, which are not drawn without --eos. */
static void upload_banned(const struct job *job)
{
	struct rf_engine *g = job->s->work->engine;
	const struct rf_config *c = &g->ckpt->cfg;

	if (!c->eos_count)
		return;
	for (int i = 0; i < c->eos_count; i++)
		job->list[i] = c->eos[i];
	g->dev.ops->upload(&g->dev, job->at.banned, job->list, (size_t)c->eos_count * 4);
}

/* Draws the rollouts of a group, k tokens each, step by step (paper, eq. 7). */
static void draw_rollouts(const struct job *job, const struct group *x)
{
	const struct rf_rollout_settings *s = job->s;
	const struct rf_rollout_place *at = &job->at;
	struct rf_engine *g = s->work->engine;
	const struct rf_config *c = &g->ckpt->cfg;
	size_t nb = x->nb, d = (size_t)c->d;
	uint64_t step = rf_draw_step(s->draw_step, g->ckpt->step);
	rf_f32 h;

	gather_first_rows(job, x, 1);
	rf_work_decodes(s->work, job->r->c * s->n, s->k);
	rf_tree_decode_begin(s->work->tree, s->n);
	h = at->first;
	for (int j = 0; j < s->k; j++) {
		size_t to = x->first + (size_t)j * nb;
		rf_i32 token = rf_at_i32(at->token, to);

		for (size_t b = 0; b < nb; b++) {
			uint64_t i = (uint64_t)x->position[b / (size_t)s->n], n = b % (uint64_t)s->n;
			job->u[b] = rf_draw(rf_draw_key(s->seed, RF_DRAW_ROLLOUT, step, job->r->id, i, n),
			                    (uint32_t)j);
		}
		g->dev.ops->upload(&g->dev, at->u, job->u, nb * sizeof *job->u);
		rf_linear_fwd(&g->model, g->model.head, RF_NO_WEIGHT, j ? (int)nb : x->positions, h, at->z, 0,
		              false);
		RF_RUN(&g->dev, sample, .rows = (int)nb, .n = j ? 1 : s->n, .N = c->vocab, .top_k = s->top_k,
		       .top_p = s->top_p, .banned = s->eos ? 0 : c->eos_count, .banned_ids = at->banned,
		       .inv_temp = (float)(1 / s->temperature), .z = at->z, .u = at->u, .token = token,
		       .logp = rf_at(at->logp, to), .kept = rf_at(at->share, to));
		h = rf_tree_decode(s->work->tree, token);
		RF_RUN(&g->dev, rows, .n = (int)nb, .d = c->d, .from = h, .to = rf_at(at->h_pred, to * d));
	}
	rf_work_decodes(s->work, 0, 0);
}

/* Computes the values of existing tokens, for all rollouts of a group together. */
static void score_rollouts(const struct job *job, const struct group *x)
{
	const struct rf_rollout_place *at = &job->at;
	const struct rf_rollout *o = &job->r->rollout;
	struct rf_engine *g = job->s->work->engine;
	const struct rf_config *c = &g->ckpt->cfg;
	size_t nb = x->nb, d = (size_t)c->d, n = (size_t)job->n, k = (size_t)job->k;
	rf_i32 token = rf_at_i32(at->token, x->first);
	rf_f32 h;

	gather_first_rows(job, x, job->n);
	for (size_t b = 0; b < nb; b++)
		for (size_t j = 0; j < k; j++)
			job->list[j * nb + b] = o->tokens[((size_t)x->position[b / n] * n + b % n) * k + j];
	g->dev.ops->upload(&g->dev, token, job->list, nb * k * 4);
	h = rf_tree_branch(job->s->work->tree, job->n, job->k, job->list);
	if (at->h_pred)
		RF_RUN(&g->dev, rows, .n = (int)(nb * k), .d = c->d, .from = h,
		       .to = rf_at(at->h_pred, x->first * d));
	/* token j is predicted by the row of token j-1, token 0 by row s-1: one list of rows, shifted by
	   one step */
	RF_RUN(&g->dev, rows, .n = (int)(nb * k), .d = c->d, .from = h, .to = rf_at(at->first, nb * d));
	RF_RUN(&g->dev, head_fwd, .rows = (int)(nb * k), .d = c->d, .N = c->vocab,
	       .inv_temp = (float)(1 / o->temperature), .h = at->first, .w = rf_w(&g->model, g->model.head),
	       .half = g->model.head.half, .target = token, .logp = rf_at(at->logp, x->first));
}

/* Runs the sequence, unless the tree has run it, and the rollouts of the positions as soon as these are
 * ready. */
static void run_pass(const struct job *job)
{
	struct rf_tree *t = job->s->work->tree;
	struct group x = { .first = 0 };

	if (job->ran)
		rf_tree_branch_off(t, job->row, job->r->c);
	else
		rf_tree_begin(t, job->r->tokens, job->r->T, job->row, job->r->c);
	upload_banned(job);
	for (int i = 0; i < t->segments; i++) {
		keep_rows(job, i, job->ran ? rf_tree_capture(t, i) : rf_tree_forward(t, i));
		if (!(x.positions = rf_tree_ready(t, &x.position)))
			continue;
		x.nb = (size_t)(x.positions * job->n);
		for (int j = 0; j < x.positions; j++)
			job->spot[x.position[j]] = (struct spot){ x.first + (size_t)(j * job->n), x.nb };
		(job->s->score ? score_rollouts : draw_rollouts)(job, &x);
		x.first += x.nb * (size_t)job->k;
	}
}

/* Returns which layer overflows, and where; the caller provides room for the text. */
static const char *find_cause(const struct job *job, char why[100])
{
	return rf_tree_blame(job->s->work->tree, job->at.token, why) ? why : "the model overflows there";
}

/* Writes the number of tokens of each rollout to out->length, unless all have k: the tokens up to the end
 * token that was drawn, or the lengths that the record has. */
static enum rf_code find_lengths(const struct job *job, struct rf_record *r, struct rf_rollout *out,
                                 struct rf_err *e)
{
	const struct rf_rollout_settings *s = job->s;
	const struct rf_config *c = &s->work->engine->ckpt->cfg;
	const size_t nb = (size_t)r->c * (size_t)job->n, k = (size_t)job->k;

	if (s->score ? !r->rollout.length : !s->eos)
		return RF_OK;
	if (!(out->length = rf_record_alloc(r, nb, sizeof *out->length)))
		return rf_fail(e, RF_ENOMEM, "out of memory (the rollouts of a record)");
	if (s->score)
		memcpy(out->length, r->rollout.length, nb * sizeof *out->length);
	for (size_t b = 0; b < nb && !s->score; b++) {
		size_t n = 1;

		while (n < k && !rf_config_ends(c, out->tokens[b * k + n - 1]))
			n++;
		out->length[b] = (int32_t)n;
	}
	return RF_OK;
}

/* Fills the values after the end of each rollout. */
static void clear_tails(const struct job *job, const struct rf_record *r, struct rf_rollout *out)
{
	const struct rf_rollout_settings *s = job->s;
	const size_t nb = (size_t)r->c * (size_t)job->n, k = (size_t)job->k, d = (size_t)out->d;

	for (size_t b = 0; b < nb; b++)
		for (size_t j = (size_t)rf_rollout_length(out, b); j < k; j++) {
			if (!s->score)
				out->tokens[b * k + j] = out->tokens[b * k + j - 1];
			out->logp[b * k + j] = 0;
			if (!s->score && out->kept)
				out->kept[b * k + j] = 1;
			memset(out->h_pred + (b * k + j) * d, 0, d * sizeof *out->h_pred);
		}
}

/* Returns where the value of token j of rollout b is in device memory. */
static size_t value_at(const struct job *job, size_t b, size_t j)
{
	const struct spot *x = &job->spot[b / (size_t)job->n];

	return x->at + j * x->step + b % (size_t)job->n;
}

/* Checks the log-probabilities (c, n, k) of a record. */
static enum rf_code check_logp(const struct job *job, const float *logp, struct rf_err *e)
{
	const size_t n = (size_t)job->n, k = (size_t)job->k, count = (size_t)job->r->c * n * k;
	char why[100];

	for (size_t i = 0; i < count; i++)
		if (!isfinite(logp[i]))
			return rf_fail(e, RF_ENUMERIC,
			               "the log-probability of rollout %zu at position %d is not finite: %s",
			               i / k, job->r->positions[i / k / n], find_cause(job, why));
	return RF_OK;
}

/* Downloads the log-probabilities of a reference model and stores them in the record. */
static enum rf_code download_reference(const struct job *job, struct rf_record *r, struct rf_err *e)
{
	struct rf_engine *g = job->s->work->engine;
	const size_t k = (size_t)job->k, nb = (size_t)r->c * (size_t)job->n;
	float *logp = malloc(nb * k * sizeof *logp), *to = rf_record_alloc(r, nb * k, sizeof *to);
	enum rf_code rc;

	if (!logp || !to) {
		free(logp);
		return rf_fail(e, RF_ENOMEM, "out of memory (the rollouts of a record)");
	}
	g->dev.ops->download(&g->dev, logp, job->at.logp, nb * k * sizeof *logp);
	if ((rc = rf_dev_sync(&g->dev, e)) == RF_OK) {
		for (size_t b = 0; b < nb; b++)
			for (size_t j = 0, n = (size_t)rf_rollout_length(&r->rollout, b); j < k; j++)
				to[b * k + j] = j < n ? logp[value_at(job, b, j)] : 0;
		rc = check_logp(job, to, e);
	}
	if (rc == RF_OK)
		r->rollout.logp_ref = to;
	free(logp);
	return rc;
}

/* Downloads the results and stores them in the record, in the order (c, n, k). */
static enum rf_code download_rollouts(const struct job *job, struct rf_record *r, struct rf_err *e)
{
	const struct rf_rollout_settings *s = job->s;
	const struct rf_rollout_place *at = &job->at;
	struct rf_engine *g = s->work->engine;
	size_t kk = (size_t)job->k, nb = (size_t)r->c * (size_t)job->n, d = (size_t)g->ckpt->cfg.d;
	struct rf_rollout out = { .temperature = s->score ? r->rollout.temperature : s->temperature,
		                  .n = job->n,
		                  .k = job->k,
		                  .d = (int)d,
		                  .logp_ref = s->score ? r->rollout.logp_ref : NULL,
		                  .kept = s->score ? r->rollout.kept : NULL };
	float *logp = malloc(nb * kk * 4), *h = malloc(nb * kk * d * 4),
	      *kept = malloc((size_t)r->c * (kk + 1) * d * 4), *share = malloc(nb * kk * 4);
	int32_t *token = malloc(nb * kk * 4);
	enum rf_code rc = RF_ENOMEM;
	char why[100];

	out.tokens = rf_record_alloc(r, nb * kk, 4);
	out.logp = rf_record_alloc(r, nb * kk, 4);
	out.h_pred = rf_record_alloc(r, nb * kk * d, 4);
	out.h_gt = rf_record_alloc(r, (size_t)r->c * kk * d, 4);
	if (at->share)
		out.kept = rf_record_alloc(r, nb * kk, 4);
	if (!logp || !h || !kept || !share || !token || !out.tokens || !out.logp || !out.h_pred ||
	    !out.h_gt || (at->share && !out.kept)) {
		rf_fail(e, RF_ENOMEM, "out of memory (the rollouts of a record)");
		goto done;
	}
	g->dev.ops->download(&g->dev, logp, at->logp, nb * kk * 4);
	g->dev.ops->download(&g->dev, token, at->token, nb * kk * 4);
	g->dev.ops->download(&g->dev, h, at->h_pred, nb * kk * d * 4);
	g->dev.ops->download(&g->dev, kept, at->kept, (size_t)r->c * (kk + 1) * d * 4);
	if (at->share)
		g->dev.ops->download(&g->dev, share, at->share, nb * kk * 4);
	if ((rc = rf_dev_sync(&g->dev, e)) != RF_OK)
		goto done;
	for (size_t b = 0; b < nb; b++)
		for (size_t j = 0; j < kk; j++) {
			size_t from = value_at(job, b, j);

			out.tokens[b * kk + j] = token[from];
			out.logp[b * kk + j] = logp[from];
			if (at->share)
				out.kept[b * kk + j] = share[from];
			for (size_t i = 0; i < d; i++)
				out.h_pred[(b * kk + j) * d + i] = h[from * d + i];
		}
	for (size_t p = 0; p < (size_t)r->c; p++)
		for (size_t i = 0; i < kk * d; i++)
			out.h_gt[p * kk * d + i] = kept[(p * (kk + 1) + 1) * d + i];
	if ((rc = find_lengths(job, r, &out, e)) != RF_OK)
		goto done;
	clear_tails(job, r, &out);
	if ((rc = check_logp(job, out.logp, e)) != RF_OK)
		goto done;
	for (size_t i = 0; i < nb * kk * d; i++)
		if (!isfinite(out.h_pred[i])) {
			rc = rf_fail(e, RF_ENUMERIC, "a hidden state of rollout %zu is not finite: %s",
			             i / kk / d, find_cause(job, why));
			goto done;
		}
	rf_record_drop_rollout(r);
	r->rollout = out;
done:
	free(logp);
	free(h);
	free(kept);
	free(share);
	free(token);
	return rc;
}

enum rf_code rf_rollout_check(const struct rf_rollout_settings *s, const struct rf_record *r,
                              struct rf_err *e)
{
	int k = s->score ? r->rollout.k : s->k;
	enum rf_code rc = rf_engine_check_record(s->work->engine, r, e);

	for (int p = 0; rc == RF_OK && r->positions && (!s->score || r->rollout.tokens) && p < r->c; p++)
		if (r->positions[p] < 1 || r->positions[p] > r->T - k)
			rc = rf_fail(e, RF_EDATA,
			             "position %d is %d, but it must be at least 1 and leave room for %d "
			             "rollout tokens in the sequence of %d tokens (rf-select -k %d)",
			             p, r->positions[p], k, r->T, k);
	return rc;
}

/* Runs the record in memory that is laid out for it. */
static enum rf_code run_job(struct job *job, struct rf_record *r, struct rf_err *e)
{
	size_t c = (size_t)r->c, nb = c * (size_t)job->n, k = (size_t)job->k;
	enum rf_code rc;

	job->list = malloc((2 * c * (k + 1) + nb * k + RF_MAX_EOS) * sizeof *job->list);
	job->u = malloc(nb * sizeof *job->u);
	job->row = malloc(c * sizeof *job->row);
	job->spot = malloc(c * sizeof *job->spot);
	if (job->list && job->u && job->row && job->spot) {
		for (int p = 0; p < r->c; p++)
			job->row[p] = r->positions[p] - 1;
		run_pass(job);
		rc = (for_reference(job->s) ? download_reference : download_rollouts)(job, r, e);
	} else {
		rc = rf_fail(e, RF_ENOMEM, "out of memory (the rollouts of a record)");
	}
	free(job->list);
	free(job->u);
	free(job->row);
	free(job->spot);
	return rc;
}

static enum rf_code run_record(struct rf_rollout_settings *s, struct rf_record *r, bool ran, struct rf_err *e)
{
	struct job job = { .s = s,
		           .r = r,
		           .n = s->score ? r->rollout.n : s->n,
		           .k = s->score ? r->rollout.k : s->k,
		           .ran = ran };
	const struct rf_shape shape = { r->T, r->c, job.n, job.k };
	enum rf_code rc;

	if ((rc = rf_rollout_check(s, r, e)) != RF_OK || !r->positions || (s->score && !r->rollout.tokens))
		return rc;
	if ((rc = rf_work_reserve(s->work, &shape, e)) != RF_OK)
		return rc;
	job.at = s->at;
	return run_job(&job, r, e);
}

enum rf_code rf_rollout_record(struct rf_rollout_settings *s, struct rf_record *r, struct rf_err *e)
{
	return run_record(s, r, false, e);
}

enum rf_code rf_rollout_go_on(struct rf_rollout_settings *s, struct rf_record *r, struct rf_err *e)
{
	return run_record(s, r, true, e);
}
