/* tree_run.c -- the model: its layers over the rows of a pass, forward and backward.
 *
 *     h[0]   = embedding of the tokens
 *     mid[i] = h[i] + mixer(norm(h[i]))
 *     h[i+1] = mid[i] + down(silu(gate(x)) * up(x)),  x = norm(mid[i])
 *     hidden = norm(h[layers])
 *
 * The head is not part of the model here, because each stage needs it for other rows (kernels/head.c).  The
 * gradient of x is dx.  The mixers are in lib/mixers. */
#include <math.h>

#include "model/tree_pass.h"

/* ---- checks during rf_tree_blame() --------------------------------------------------------- */

/* Returns the index of the first of n numbers on the device that is not finite; n: all are finite. */
static size_t first_not_finite(struct rf_tree *t, rf_f32 from, size_t n)
{
	enum { PIECE = 1024 };
	float x[PIECE];

	for (size_t i = 0, m; i < n; i += m) {
		m = n - i < PIECE ? n - i : PIECE;
		t->model->dev->ops->download(t->model->dev, x, rf_at(from, i), m * 4);
		for (size_t j = 0; j < m; j++)
			if (!isfinite(x[j]))
				return i + j;
	}
	return n;
}

void rf_tree_found(struct rf_pass *p, int b, int chunk, rf_f32 x, size_t n)
{
	struct rf_tree *t = p->tree;

	if (t->blame.on && t->blame.layer < 0 && p->bad_chunk[b] < 0 && first_not_finite(t, x, n) < n)
		p->bad_chunk[b] = chunk;
}

/* Prepares the check of the next layer. */
static void begin_layer(struct rf_pass *p)
{
	for (int b = 0; p->tree->blame.on && b < p->nb; b++)
		p->bad_chunk[b] = -1;
}

/* Checks the output h of a layer, and notes the first row of it that is not finite. */
static void check_output(struct rf_pass *p, int layer, rf_f32 h)
{
	struct rf_tree *t = p->tree;
	size_t d = (size_t)t->model->cfg->d, n = (size_t)p->nb * (size_t)p->steps * d;
	size_t i = t->blame.on && t->blame.layer < 0 ? first_not_finite(t, h, n) : n;
	int row, b;

	if (i == n)
		return;
	row = (int)(i / d);
	b = row % p->nb;
	t->blame.layer = layer;
	t->blame.rollout = p->branch ? p->position[b / p->n] * p->n + b % p->n : -1;
	t->blame.row = p->host.past_len[b] + p->decoded + row / p->nb;
	t->blame.chunk = p->bad_chunk[b];
}

/* ---- passes -------------------------------------------------------------------------------- */

/* Copies hidden states.  Without a backward pass all layers share one array, and nothing is copied. */
static void copy_rows(const struct rf_model *m, int rows, rf_f32 from, rf_f32 to)
{
	if (from != to)
		RF_RUN(m->dev, rows, .n = rows, .d = m->cfg->d, .from = from, .to = to);
}

/* Computes y = the norm of the hidden states x, with the weight w. */
static void norm_fwd(const struct rf_pass *p, struct rf_weight w, rf_f32 x, rf_f32 y)
{
	const struct rf_model *m = p->tree->model;

	RF_RUN(m->dev, rmsnorm_fwd, .rows = p->nb * p->steps, .d = m->cfg->d, .eps = (float)m->cfg->norm_eps,
	       .plus_one = m->cfg->norm_plus_one, .operand = true, .x = x, .w = rf_w(m, w), .y = y);
}

/* Computes dx = (add: +=) the gradient from dy, and adds the gradient of w. */
static void norm_bwd(const struct rf_pass *p, struct rf_weight w, rf_f32 x, rf_f32 dy, rf_f32 dx, bool add)
{
	const struct rf_model *m = p->tree->model;

	RF_RUN(m->dev, rmsnorm_bwd, .rows = p->nb * p->steps, .d = m->cfg->d, .eps = (float)m->cfg->norm_eps,
	       .plus_one = m->cfg->norm_plus_one, .add = add, .operand = true, .x = x, .w = rf_w(m, w),
	       .dy = dy, .dx = dx, .dw = rf_dw(m, w));
}

static rf_f32 final_norm(struct rf_pass *p)
{
	const struct rf_model *m = p->tree->model;

	norm_fwd(p, m->norm, p->values.h[m->cfg->layers], p->values.hidden);
	return p->values.hidden;
}

/* The layout of gate and up in values.mlp[i]: side by side if the device multiplies by both weights
 * together, else two matrices.  up: where up begins; ld: numbers from row to row; stride: the argument of
 * rf_linears_fwd(). */
struct mlp {
	size_t up, stride;
	int ld;
};
static struct mlp mlp_of(const struct rf_pass *p)
{
	const int F = p->tree->model->cfg->ffn;
	const size_t one = rf_pass_rows(p) * (size_t)F;

	return p->tree->model->dev->ops->side ? (struct mlp){ (size_t)F, 0, 2 * F }
	                                      : (struct mlp){ one, one, F };
}

rf_f32 rf_pass_fwd(struct rf_pass *p, rf_i32 tokens)
{
	const struct rf_model *m = p->tree->model;
	const struct rf_config *c = m->cfg;
	const struct rf_pass_values *v = &p->values;
	const struct mlp mlp = mlp_of(p);
	int rows = p->nb * p->steps;

	RF_RUN(m->dev, embed_fwd, .rows = rows, .d = c->d, .tokens = tokens, .w = rf_w(m, m->embed),
	       .y = v->h[0]);
	for (int i = 0; i < c->layers; i++) {
		const struct rf_layer *l = &m->layer[i];

		begin_layer(p);
		/* the mixer; keep norm and product adjacent: the device may cache a rounded x */
		copy_rows(m, rows, v->h[i], v->mid[i]);
		norm_fwd(p, l->mixer_norm, v->h[i], v->x);
		l->mixer->fwd(p, i, v->x, v->mid[i]);
		/* the MLP */
		copy_rows(m, rows, v->mid[i], v->h[i + 1]);
		norm_fwd(p, l->mlp_norm, v->mid[i], v->x);
		rf_linears_fwd(m, l->gate_up, 2, rows, v->x, v->mlp[i], mlp.ld, mlp.stride);
		RF_RUN(m->dev, swiglu_fwd, .n = (size_t)rows * (size_t)c->ffn, .d = c->ffn, .ld = mlp.ld,
		       .gate = v->mlp[i], .up = rf_at(v->mlp[i], mlp.up), .y = v->act);
		rf_linear_fwd(m, l->down, RF_NO_WEIGHT, rows, v->act, v->h[i + 1], 0, true);
		check_output(p, i, v->h[i + 1]);
	}
	return final_norm(p);
}

/* Runs all layers backward.  dhidden: the gradient of the hidden states. */
static void pass_bwd(struct rf_pass *p, rf_i32 tokens, rf_f32 dhidden)
{
	const struct rf_model *m = p->tree->model;
	const struct rf_config *c = m->cfg;
	const struct rf_pass_values *v = &p->values;
	const struct mlp mlp = mlp_of(p);
	int rows = p->nb * p->steps;

	norm_bwd(p, m->norm, v->h[c->layers], dhidden, v->dh, false);
	for (int i = c->layers - 1; i >= 0; i--) {
		const struct rf_layer *l = &m->layer[i];
		const rf_f32 gate = v->mlp[i], up = rf_at(gate, mlp.up);

		/* the MLP; dh is the gradient of h[i + 1] before it, and of mid[i] after it */
		RF_RUN(m->dev, gemm, .m = rows, .n = c->ffn, .k = c->d, .weight = true, .a = v->dh,
		       .lda = c->d, .b = rf_w(m, l->down), .ldb = c->ffn, .c = v->act, .ldc = c->ffn);
		/* in place: gate and up become their gradients, and act the activation */
		RF_RUN(m->dev, swiglu_bwd, .n = (size_t)rows * (size_t)c->ffn, .d = c->ffn, .ld = mlp.ld,
		       .gate = gate, .up = up, .dy = v->act, .dgate = gate, .dup = up, .y = v->act);
		rf_linear_bwd(m, l->down, RF_NO_WEIGHT, rows, v->act, v->dh, 0, NULL, false);
		norm_fwd(p, l->mlp_norm, v->mid[i], v->x);
		rf_linears_bwd(m, l->gate_up, 2, rows, v->x, gate, mlp.ld, mlp.stride, v->dx, false);
		norm_bwd(p, l->mlp_norm, v->mid[i], v->dx, v->dh, true);

		/* the mixer; dh is the gradient of h[i] after it */
		norm_fwd(p, l->mixer_norm, v->h[i], v->x);
		l->mixer->bwd(p, i, v->x, v->dh, v->dx);
		norm_bwd(p, l->mixer_norm, v->h[i], v->dx, v->dh, true);
	}
	RF_RUN(m->dev, embed_bwd, .rows = rows, .d = c->d, .tokens = tokens, .dy = v->dh,
	       .dw = rf_dw(m, m->embed));
}

/* ---- segments, rollouts -------------------------------------------------------------------- */

rf_f32 rf_tree_forward(struct rf_tree *t, int i)
{
	struct rf_pass *p = rf_tree_set_segment(t, i);

	t->held_segment = i;
	return rf_pass_fwd(p, rf_at_i32(t->tokens, (size_t)p->first_row));
}

/* Returns whether the activations of segment i are in memory. */
static bool holds_activations(const struct rf_tree *t, int i)
{
	return t->passes > 1 || t->held_segment == i;
}

rf_f32 rf_tree_capture(struct rf_tree *t, int i)
{
	const struct rf_model *m = t->model;
	struct rf_pass *p;

	/* with plan.recompute, the slots that mixers use depend on the positions */
	if (t->plan.recompute || !holds_activations(t, i))
		return rf_tree_forward(t, i);
	p = rf_tree_set_segment(t, i);
	for (int l = 0; p->captures && l < m->cfg->layers; l++)
		if (m->layer[l].mixer->capture)
			m->layer[l].mixer->capture(p, l);
	return final_norm(p);
}

rf_f32 rf_tree_branch(struct rf_tree *t, int n, int steps, const int32_t *tokens)
{
	struct rf_pass *p = &t->branch;

	rf_pass_set_branches(t, p, n);
	p->steps = steps;
	rf_tree_upload(t, p->tokens, tokens, p->nb * steps);
	return rf_pass_fwd(p, p->tokens);
}

void rf_tree_decode_begin(struct rf_tree *t, int n) { rf_pass_set_branches(t, &t->draw, n); }

rf_f32 rf_tree_decode(struct rf_tree *t, rf_i32 tokens)
{
	struct rf_pass *p = &t->draw;

	p->decoded += p->steps;
	p->steps = 1;
	return rf_pass_fwd(p, tokens);
}

void rf_tree_backward_branch(struct rf_tree *t, rf_f32 dhidden)
{
	pass_bwd(&t->branch, t->branch.tokens, dhidden);
}

void rf_tree_backward(struct rf_tree *t, int i, rf_f32 dhidden)
{
	struct rf_pass *p = rf_tree_pass(t, i);

	if (!holds_activations(t, i))
		rf_tree_forward(t, i);
	pass_bwd(p, rf_at_i32(t->tokens, (size_t)p->first_row), dhidden);
	t->held_segment = -1;
}
