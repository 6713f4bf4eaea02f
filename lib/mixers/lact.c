/* lact.c -- the LaCT mixer (Zhang et al. 2025, arXiv:2505.23884): sliding-window attention and fast weights
 * read the same q, k and v, and their outputs are added.
 *
 * The sequence is divided into chunks of lact_chunk_size rows, independently of its segments.  All rows of a
 * chunk read the weights with which the chunk began.  When a row follows a full chunk, the next weights are
 * made from sums over all rows of that chunk.  The sums are linear in the rows, so the state after any row
 * has a fixed size: the mark of its chunk (weights and momentum, one mark per chunk), and the sums so far.
 *
 * A rollout that stays in its chunk needs only the mark.  A rollout that crosses the end of its chunk also
 * needs the sums at its position, which are therefore kept: it adds its own rows to them and makes weights of
 * its own.  This is done again for each rollout and, when rollouts are decoded, for each step, in memory that
 * all layers share. */
#include <math.h>
#include <stdio.h>

#include "mixers/lact.h"

/* ---- weights and memory -------------------------------------------------------------------- */

static void declare_fast(struct rf_params *t, const struct rf_config *cfg, int layer,
                         struct rf_lact_weights *w)
{
	const struct rf_lact_config *c = &cfg->lact;
	const char *root = cfg->names.root;
	int H = c->heads, D = c->D, E = c->E;

	for (int i = 0; i < 3; i += 2)
		if (c->rank) {
			w->left[i] = rf_params_weight(t, RF_NORMAL(c->gain / sqrt(c->rank)),
			                              (int[4]){ H, E, c->rank },
			                              "%slayers.%d.attn.w%d.w_left", root, layer, i);
			w->right[i] =
				rf_params_weight(t, RF_NORMAL(c->gain / sqrt(D)), (int[4]){ H, c->rank, D },
			                         "%slayers.%d.attn.w%d.w_right", root, layer, i);
		} else {
			w->w[i] = rf_params_weight(t, RF_NORMAL(1 / sqrt(D)), (int[4]){ H, E, D },
			                           "%slayers.%d.attn.w%d", root, layer, i);
		}
	w->w[1] = rf_params_weight(t, RF_NORMAL(1 / sqrt(E)), (int[4]){ H, D, E }, "%slayers.%d.attn.w1",
	                           root, layer);
}

static void declare(struct rf_params *t, const struct rf_config *cfg, int layer, void *weights)
{
	struct rf_lact_weights *w = weights;
	const struct rf_lact_config *c = &cfg->lact;
	const struct rf_initializer matrix = RF_MATRIX(cfg->initializer_range);
	const char *root = cfg->names.root;
	int d = cfg->d, H = c->heads;

	w->qkv =
		rf_params_weight(t, matrix, (int[4]){ 3 * d, d }, "%slayers.%d.attn.qkv.weight", root, layer);
	if (cfg->attn.qkv_bias)
		w->qkv_bias = rf_params_weight(t, RF_ZERO, (int[4]){ 3 * d }, "%slayers.%d.attn.qkv.bias",
		                               root, layer);
	for (int i = 0; i < 2 && c->qk_norm; i++)
		w->norm[i] = rf_params_weight(t, RF_ONE, (int[4]){ d }, "%slayers.%d.attn.%c_norm.weight",
		                              root, layer, "qk"[i]);
	w->scale = rf_params_weight(t, RF_ONE, (int[4]){ d, 2 }, "%slayers.%d.attn.qk_scale", root, layer);
	w->offset = rf_params_weight(t, RF_ZERO, (int[4]){ d, 2 }, "%slayers.%d.attn.qk_offset", root, layer);
	declare_fast(t, cfg, layer, w);
	w->lr = rf_params_weight(t, matrix, (int[4]){ 3 * H, d }, "%slayers.%d.attn.lr_proj.weight", root,
	                         layer);
	w->lr_bias =
		rf_params_weight(t, RF_ZERO, (int[4]){ 3 * H }, "%slayers.%d.attn.lr_proj.bias", root, layer);
	if (c->momentum) {
		w->momentum = rf_params_weight(t, matrix, (int[4]){ H, d },
		                               "%slayers.%d.attn.momentum_proj.0.weight", root, layer);
		w->momentum_bias = rf_params_weight(t, RF_ZERO, (int[4]){ H },
		                                    "%slayers.%d.attn.momentum_proj.0.bias", root, layer);
	}
	if (c->scale) {
		w->ttt_scale = rf_params_weight(t, matrix, (int[4]){ H, d },
		                                "%slayers.%d.attn.ttt_scale_proj.weight", root, layer);
		w->ttt_scale_bias = rf_params_weight(t, RF_ZERO, (int[4]){ H },
		                                     "%slayers.%d.attn.ttt_scale_proj.bias", root, layer);
	}
	w->ttt_norm = rf_params_weight(t, RF_ONE, (int[4]){ c->D }, "%slayers.%d.attn.ttt_norm.weight", root,
	                               layer);
	w->o = rf_params_weight(t, matrix, (int[4]){ d, d }, "%slayers.%d.attn.o_proj.weight", root, layer);
}

/* Returns whether marks have p: the momentum, or without momentum the step that Muon made orthogonal, which
 * its gradient needs. */
static bool keeps_p(const struct rf_lact_config *c, bool train) { return c->momentum || (c->muon && train); }

static void state(const struct rf_tree *t, int layer, struct rf_arena *a, void *state)
{
	const struct rf_lact_config *c = rf_lact_config(t);
	struct rf_lact_state *s = state;
	bool train = t->plan.train, p = keeps_p(c, train);
	size_t W = rf_fast_size(c), H = (size_t)c->heads, marks = (size_t)rf_lact_marks(t),
	       sums = (size_t)rf_lact_sums(t);
	size_t dmarks = (size_t)rf_lact_dmarks(t), dsums = (size_t)rf_lact_dsums(t);

	(void)layer;
	rf_kv_state(t, &t->model->cfg->attn, a, &s->attend);
	s->z = rf_arena_f32(a, marks * W);
	s->p = p ? rf_arena_f32(a, marks * W) : NULL;
	s->m = c->momentum ? rf_arena_f32(a, marks * H) : NULL;
	s->sum = rf_arena_f32(a, sums * W);
	s->msum = c->momentum ? rf_arena_f32(a, sums * H) : NULL;
	s->length = rf_arena_f32(a, rf_fast_lengths(c));
	if (!train)
		return;
	s->dz = rf_arena_f32(a, dmarks * W);
	s->dp = p ? rf_arena_f32(a, dmarks * W) : NULL;
	s->dsum = rf_arena_f32(a, dsums * W);
	s->dmsum = c->momentum ? rf_arena_f32(a, dsums * H) : NULL;
	s->dlength = rf_arena_f32(a, rf_fast_lengths(c));
}

static void save(const struct rf_pass *p, int layer, struct rf_arena *a, void *save)
{
	const struct rf_config *cfg = p->tree->model->cfg;
	const struct rf_lact_config *c = &cfg->lact;
	size_t R = rf_pass_rows(p), d = (size_t)cfg->d, H = (size_t)c->heads;
	struct rf_lact_save *s = save;

	(void)layer;
	rf_kv_save(p, &cfg->attn, a, &s->attend);
	s->q = rf_arena_f32(a, R * d);
	s->k = rf_arena_f32(a, R * d);
	s->y = rf_arena_f32(a, R * d);
	s->lr = rf_arena_f32(a, R * H * 3);
	s->m = c->momentum ? rf_arena_f32(a, R * H) : NULL;
	s->gate = c->scale ? rf_arena_f32(a, R * H) : NULL;
	if (p->decode)
		s->kept = (struct rf_fast_rows){ .k = rf_arena_f32(a, R * d),
			                         .v = rf_arena_f32(a, R * d),
			                         .lr = rf_arena_f32(a, R * H * 3),
			                         .m = c->momentum ? rf_arena_f32(a, R * H) : NULL };
}

/* Lays out the memory for one rollout that leaves its chunk. */
static void rollout_work(const struct rf_pass *p, struct rf_arena *a, struct rf_lact_work *w)
{
	const struct rf_lact_config *c = rf_lact_config(p->tree);
	size_t W = rf_fast_size(c), H = (size_t)c->heads,
	       chunks = p->train ? (size_t)((p->max_steps - 1) / c->chunk + 1) : 1;
	bool keeps = keeps_p(c, p->train);

	w->w[1] = rf_arena_f32(a, W);
	w->sum = (struct rf_fast_sum){ rf_arena_f32(a, W), c->momentum ? rf_arena_f32(a, H) : NULL };
	w->z = rf_arena_f32(a, chunks * W);
	w->p = keeps ? rf_arena_f32(a, chunks * W) : NULL;
	w->m = c->momentum ? rf_arena_f32(a, chunks * H) : NULL;
	if (!p->train)
		return;
	w->dw[1] = rf_arena_f32(a, W);
	w->dsum = (struct rf_fast_sum){ rf_arena_f32(a, W), c->momentum ? rf_arena_f32(a, H) : NULL };
	w->dz = rf_arena_f32(a, 2 * W);
	w->dp = keeps ? rf_arena_f32(a, 2 * W) : NULL;
}

static void work(const struct rf_pass *p, int layer, struct rf_arena *a, void *work)
{
	const struct rf_config *cfg = p->tree->model->cfg;
	const struct rf_lact_config *c = &cfg->lact;
	size_t R = rf_pass_rows(p), d = (size_t)cfg->d, H = (size_t)c->heads;
	const struct rf_lact_save *s = p->save[layer];
	struct rf_lact_work *w = work;

	rf_kv_work(p, &cfg->attn, a, &w->attend);
	rf_fast_work(c, a, R, p->train, &w->fast);
	for (int i = 0; i < 2 && c->qk_norm; i++)
		w->norm[i] = rf_arena_f32(a, R * d);
	w->n = rf_arena_f32(a, R * d);
	w->x = (struct rf_fast_rows){ rf_arena_f32(a, R * d),
		                      rf_arena_f32(a, R * d),
		                      c->v_silu ? rf_arena_f32(a, R * d) : NULL,
		                      s->y,
		                      s->lr,
		                      s->m };
	w->w[0] = rf_arena_f32(a, rf_fast_size(c));
	if (p->branch) {
		w->group = s->kept;
		w->group.q = rf_arena_f32(a, R * d);
		w->group.y = rf_arena_f32(a, R * d);
		if (!p->decode) {
			w->group.k = rf_arena_f32(a, R * d);
			w->group.v = rf_arena_f32(a, R * d);
			w->group.lr = rf_arena_f32(a, R * H * 3);
			w->group.m = c->momentum ? rf_arena_f32(a, R * H) : NULL;
		}
		rollout_work(p, a, w);
	}
	if (!p->train)
		return;
	w->dx = (struct rf_fast_rows){
		rf_arena_f32(a, R * d),     rf_arena_f32(a, R * d),
		rf_arena_f32(a, R * d),     w->n,
		rf_arena_f32(a, R * H * 3), c->momentum ? rf_arena_f32(a, R * H) : NULL
	};
	w->dgate = c->scale ? rf_arena_f32(a, R * H) : NULL;
	w->dw[0] = rf_arena_f32(a, rf_fast_size(c));
	if (p->branch)
		w->dgroup = (struct rf_fast_rows){
			rf_arena_f32(a, R * d),     rf_arena_f32(a, R * d),
			rf_arena_f32(a, R * d),     rf_arena_f32(a, R * d),
			rf_arena_f32(a, R * H * 3), c->momentum ? rf_arena_f32(a, R * H) : NULL
		};
}

/* ---- the layer ----------------------------------------------------------------------------- */

/* Returns the part of the weight or bias of qkv that makes q, k or v (i = 0, 1, 2). */
static struct rf_weight qkv_part(struct rf_weight w, int d, int i)
{
	w.at += w.there ? (size_t)i * (size_t)d * (size_t)w.in : 0;
	w.out = d;
	return w;
}

static rf_f32 normed_qk(const struct rf_lact_save *k, const struct rf_lact_work *w, int i)
{
	return w->norm[i] ? w->norm[i] : i ? k->k : k->q;
}

/* Computes q and k after their norm. */
static void norm_qk(struct rf_pass *p, int layer)
{
	const struct rf_model *m = p->tree->model;
	const struct rf_lact_weights *l = m->layer[layer].w;
	const struct rf_lact_save *k = p->save[layer];
	struct rf_lact_work *w = p->work[layer];

	for (int i = 0; i < 2 && w->norm[i]; i++)
		RF_RUN(m->dev, rmsnorm_fwd, .rows = p->nb * p->steps, .d = m->cfg->d, .eps = 1e-5f,
		       .x = i ? k->k : k->q, .w = rf_w(m, l->norm[i]), .y = w->norm[i]);
}

/* The settings that make the features of q, k or v (i = 0, 1, 2), for the forward and the backward pass. */
#define FEATURE(p, c, l, i) \
	.rows = (p)->nb * (p)->steps, .H = (c)->heads, .D = (c)->D, \
	.silu = (i) < 2 ? (c)->silu : (c)->v_silu, .unit = (i) < 2, .eps = 1e-5f, \
	.scale = (i) < 2 ? rf_at(rf_w((p)->tree->model, (l)->scale), (size_t)(i)) : NULL, \
	.offset = (i) < 2 ? rf_at(rf_w((p)->tree->model, (l)->offset), (size_t)(i)) : NULL

/* Computes the features that the fast weights read.  Returns them in the order of the fast weights. */
static struct rf_fast_rows make_features(struct rf_pass *p, int layer)
{
	const struct rf_model *m = p->tree->model;
	const struct rf_config *cfg = m->cfg;
	const struct rf_lact_config *c = &cfg->lact;
	const struct rf_lact_weights *l = m->layer[layer].w;
	const struct rf_lact_state *s = p->tree->state[layer];
	const struct rf_lact_save *k = p->save[layer];
	struct rf_lact_work *w = p->work[layer];
	const bool turned = c->rotated && cfg->attn.rotary, now = !p->branch; /* else regrouped first */
	const enum rf_kv_turn turn = now ? RF_KV_OPERAND : RF_KV_TURN;
	struct rf_fast_rows x = w->x;

	for (int i = 0; i < 2; i++)
		RF_RUN(m->dev, feature_fwd, FEATURE(p, c, l, i), .operand = now && !turned,
		       .x = normed_qk(k, w, i), .y = i ? x.k : x.q);
	if (c->v_silu)
		RF_RUN(m->dev, feature_fwd, FEATURE(p, c, l, 2), .operand = now,
		       .x = rf_kv_v(p, &cfg->attn, &s->attend, &k->attend), .y = x.v);
	else
		x.v = rf_kv_v(p, &cfg->attn, &s->attend, &k->attend);
	if (c->rotated) {
		rf_kv_rotate(p, &cfg->attn, cfg->attn.heads, turn, x.q, x.q);
		rf_kv_rotate(p, &cfg->attn, cfg->attn.heads, turn, x.k, x.k);
	}
	if (!p->branch)
		return x;
	rf_lact_regroup(p, cfg->d, x.q, w->group.q, false);
	rf_lact_regroup(p, cfg->d, x.k, w->group.k, false);
	rf_lact_regroup(p, cfg->d, x.v, w->group.v, false);
	rf_lact_regroup(p, 3 * c->heads, x.lr, w->group.lr, false);
	rf_lact_regroup(p, c->heads, x.m, w->group.m, false);
	return w->group;
}

/* Adds the outputs of both readers: y of the fast weights, normed and times its gate, and o of the
 * attention. */
static void add_readers(struct rf_pass *p, int layer)
{
	const struct rf_model *m = p->tree->model;
	const struct rf_lact_config *c = &m->cfg->lact;
	const struct rf_lact_weights *l = m->layer[layer].w;
	const struct rf_lact_save *k = p->save[layer];
	const struct rf_lact_work *w = p->work[layer];
	int rows = p->nb * p->steps;

	RF_RUN(m->dev, rmsnorm_fwd, .rows = rows * c->heads, .d = c->D, .eps = 1e-5f, .row_gate = true,
	       .x = k->y, .w = rf_w(m, l->ttt_norm), .gate = k->gate, .y = w->n);
	RF_RUN(m->dev, axpy, .n = (size_t)rows * (size_t)m->cfg->d, .scale = 1, .add = true, .operand = true,
	       .x = k->attend.o, .y = w->n);
}

static void fwd(struct rf_pass *p, int layer, rf_f32 x, rf_f32 h)
{
	const struct rf_model *m = p->tree->model;
	const struct rf_config *cfg = m->cfg;
	const struct rf_lact_config *c = &cfg->lact;
	const struct rf_lact_weights *l = m->layer[layer].w;
	struct rf_lact_state *s = p->tree->state[layer];
	struct rf_lact_save *k = p->save[layer];
	struct rf_lact_work *w = p->work[layer];
	int rows = p->nb * p->steps;
	rf_f32 y[3] = { k->q, k->k, rf_kv_v(p, &cfg->attn, &s->attend, &k->attend) };
	struct rf_fast_rows group;

	rf_kv_slide(p, &cfg->attn, &s->attend, &k->attend);
	for (int i = 0; i < 3; i++)
		rf_linear_fwd(m, qkv_part(l->qkv, cfg->d, i), qkv_part(l->qkv_bias, cfg->d, i), rows, x, y[i],
		              0, false);
	rf_linear_fwd(m, l->lr, l->lr_bias, rows, x, k->lr, 0, false);
	if (c->momentum)
		rf_linear_fwd(m, l->momentum, l->momentum_bias, rows, x, k->m, 0, false);
	if (c->scale)
		rf_linear_fwd(m, l->ttt_scale, l->ttt_scale_bias, rows, x, k->gate, 0, false);
	RF_RUN(m->dev, rates_fwd, .rows = rows, .H = c->heads, .shift = (float)(0.001 + log(-expm1(-0.001))),
	       .lr = k->lr, .m = k->m);
	norm_qk(p, layer);
	k->attend.from_q = normed_qk(k, w, 0);
	k->attend.from_k = normed_qk(k, w, 1);
	rf_kv_attend_fwd(p, &cfg->attn, &s->attend, &k->attend);
	group = make_features(p, layer);
	if (p->branch) {
		rf_lact_branch_fwd(p, layer, &group);
		rf_lact_regroup(p, cfg->d, k->y, group.y, true);
	} else {
		rf_lact_sequence_fwd(p, layer, &group);
	}
	add_readers(p, layer);
	rf_linear_fwd(m, l->o, RF_NO_WEIGHT, rows, w->n, h, 0, true);
}

static void capture(struct rf_pass *p, int layer)
{
	struct rf_fast_rows x;

	if (!rf_lact_captures(p))
		return;
	norm_qk(p, layer);
	x = make_features(p, layer);
	rf_lact_capture(p, layer, &x);
}

/* Computes the gradients of the features from dx->y, all in the order of the pass. */
static void fast_bwd(struct rf_pass *p, int layer)
{
	const struct rf_config *cfg = p->tree->model->cfg;
	const struct rf_fast_rows x = make_features(p, layer);
	struct rf_lact_work *w = p->work[layer];
	const struct rf_fast_rows *dx = &w->dx, *dg = &w->dgroup;
	int H = cfg->lact.heads;

	if (!p->branch) {
		rf_lact_sequence_bwd(p, layer, &x, dx);
		return;
	}
	rf_lact_regroup(p, cfg->d, dx->y, dg->y, false);
	rf_lact_branch_bwd(p, layer, &x, dg);
	rf_lact_regroup(p, cfg->d, dx->q, dg->q, true);
	rf_lact_regroup(p, cfg->d, dx->k, dg->k, true);
	rf_lact_regroup(p, cfg->d, dx->v, dg->v, true);
	rf_lact_regroup(p, 3 * H, dx->lr, dg->lr, true);
	rf_lact_regroup(p, H, dx->m, dg->m, true);
}

/* Adds the gradients of q, k and v that come from the features to those that come from the attention. */
static void features_bwd(struct rf_pass *p, int layer)
{
	const struct rf_model *m = p->tree->model;
	const struct rf_config *cfg = m->cfg;
	const struct rf_lact_config *c = &cfg->lact;
	const struct rf_lact_weights *l = m->layer[layer].w;
	const struct rf_lact_state *s = p->tree->state[layer];
	const struct rf_lact_save *k = p->save[layer];
	struct rf_lact_work *w = p->work[layer];
	rf_f32 df[2] = { w->dx.q, w->dx.k }, dx[2] = { w->attend.dq, w->attend.dk };

	for (int i = 0; i < 2; i++) {
		if (c->rotated)
			rf_kv_rotate(p, &cfg->attn, cfg->attn.heads, RF_KV_BACK, df[i], df[i]);
		RF_RUN(m->dev, feature_bwd, FEATURE(p, c, l, i), .operand = !c->qk_norm,
		       .x = normed_qk(k, w, i), .dy = df[i], .dx = dx[i],
		       .dscale = rf_at(rf_dw(m, l->scale), (size_t)i),
		       .doffset = rf_at(rf_dw(m, l->offset), (size_t)i));
	}
	if (c->v_silu)
		RF_RUN(m->dev, feature_bwd, FEATURE(p, c, l, 2), .operand = true,
		       .x = rf_kv_v(p, &cfg->attn, &s->attend, &k->attend), .dy = w->dx.v,
		       .dx = w->attend.dv);
	else
		RF_RUN(m->dev, axpy, .n = (size_t)(p->nb * p->steps) * (size_t)cfg->d, .scale = 1,
		       .add = true, .operand = true, .x = w->dx.v, .y = w->attend.dv);
}

static void bwd(struct rf_pass *p, int layer, rf_f32 x, rf_f32 dh, rf_f32 dx)
{
	const struct rf_model *m = p->tree->model;
	const struct rf_config *cfg = m->cfg;
	const struct rf_lact_config *c = &cfg->lact;
	const struct rf_lact_weights *l = m->layer[layer].w;
	struct rf_lact_state *s = p->tree->state[layer];
	struct rf_lact_save *k = p->save[layer];
	struct rf_lact_work *w = p->work[layer];
	int rows = p->nb * p->steps;
	rf_f32 dy[3] = { w->attend.dq, w->attend.dk, w->attend.dv };

	add_readers(p, layer);
	rf_linear_bwd(m, l->o, RF_NO_WEIGHT, rows, w->n, dh, 0, w->attend.d_o, false);
	RF_RUN(m->dev, rmsnorm_bwd, .rows = rows * c->heads, .d = c->D, .eps = 1e-5f, .row_gate = true,
	       .operand = !p->branch, .x = k->y, .w = rf_w(m, l->ttt_norm), .gate = k->gate,
	       .dy = w->attend.d_o, .dx = w->dx.y, .dw = rf_dw(m, l->ttt_norm), .dgate = w->dgate);
	rf_kv_attend_bwd(p, &cfg->attn, &s->attend, &k->attend, &w->attend);
	norm_qk(p, layer);
	fast_bwd(p, layer);
	features_bwd(p, layer);
	/* the gradients of the features are no longer needed, so their memory is used again */
	for (int i = 0; i < 2 && c->qk_norm; i++) {
		rf_f32 to = i ? w->dx.k : w->dx.q;

		RF_RUN(m->dev, rmsnorm_bwd, .rows = rows, .d = cfg->d, .eps = 1e-5f, .operand = true,
		       .x = i ? k->k : k->q, .w = rf_w(m, l->norm[i]), .dy = dy[i], .dx = to,
		       .dw = rf_dw(m, l->norm[i]));
		dy[i] = to;
	}
	for (int i = 0; i < 3; i++)
		rf_linear_bwd(m, qkv_part(l->qkv, cfg->d, i), qkv_part(l->qkv_bias, cfg->d, i), rows, x,
		              dy[i], 0, dx, i > 0);
	RF_RUN(m->dev, rates_bwd, .rows = rows, .H = c->heads, .lr = k->lr, .m = k->m, .dlr = w->dx.lr,
	       .dm = w->dx.m);
	rf_linear_bwd(m, l->lr, l->lr_bias, rows, x, w->dx.lr, 0, dx, true);
	if (c->momentum)
		rf_linear_bwd(m, l->momentum, l->momentum_bias, rows, x, w->dx.m, 0, dx, true);
	if (c->scale)
		rf_linear_bwd(m, l->ttt_scale, l->ttt_scale_bias, rows, x, w->dgate, 0, dx, true);
}

/* Beyond the attention, in products with matrices of D E: three to apply, three for the gradients and
 * three of outer products in every chunk that a row follows, and what makes these orthogonal. */
static double flops(const struct rf_config *cfg, int T)
{
	const struct rf_lact_config *c = &cfg->lact;
	double D = c->D, E = c->E, least = D < E ? D : E, most = D < E ? E : D, updates = (T - 1) / c->chunk;
	double all = 3 * T * D * E + 6 * updates * c->chunk * D * E;

	if (c->muon)
		all += updates * 3 * 5 * (2 * least * least * most + least * least * least);
	return rf_kv_flops(&cfg->attn, T) + 2 * c->heads * all;
}

static void workspace(const struct rf_config *cfg, struct rf_workspace *need)
{
	const struct rf_lact_config *c = &cfg->lact;
	size_t rows = (size_t)(need->segment < c->chunk ? need->segment : c->chunk), size = rf_fast_size(c);

	rf_kv_workspace(&cfg->attn, need);
	/* fast weights are operands too, those of all heads together */
	need->operands = rf_fast_operands(c, rows);
	need->largest = size > need->largest ? size : need->largest;
}

static int reads(const struct rf_config *cfg) { return rf_kv_reads(&cfg->attn); }

/* Writes to `why` the chunk after whose update the row reads the weights.  Writes nothing if the row is in
 * that chunk or before it: then the overflow of the rows came first. */
static void describe_overflow(const struct rf_config *cfg, int row, int chunk, char *why, size_t size)
{
	if (row / cfg->lact.chunk > chunk)
		snprintf(why, size, " (chunk %d of its fast weights)", chunk);
}

/* clang-format off */
const struct rf_mixer rf_mixer_lact = {
	.name = "lact", .weights_size = sizeof(struct rf_lact_weights),
	.state_size = sizeof(struct rf_lact_state), .save_size = sizeof(struct rf_lact_save),
	.work_size = sizeof(struct rf_lact_work), .declare = declare, .state = state, .save = save,
	.work = work, .fwd = fwd, .capture = capture, .bwd = bwd, .flops = flops, .workspace = workspace,
	.reads = reads, .index_size = rf_lact_index_size, .set_index = rf_lact_set_index,
	.describe_overflow = describe_overflow
};
/* clang-format on */
