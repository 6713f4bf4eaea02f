/* delta_net.c -- the DeltaNet mixer (Yang et al. 2024): projections, short convolution, delta rule, output norm.
 *
 * What later rows need of earlier ones: the last w-1 rows of q, k, v before the convolution, and the state S. */
#include <math.h>

#include "mixer.h"
#include "tree.h"

static const struct rf_weight none;

static int width(const struct rf_config *c, int i)  /* of q, k, v */
{
	return c->heads * (i == 2 ? c->V : c->K);
}

static void bind(struct rf_model *m, int layer)
{
	struct rf_layer *l = &m->layer[layer];

	for (int i = 0; i < 3; i++) {
		l->w.delta.proj[i] = rf_model_weight(m, "model.layers.%d.attn.%c_proj.weight", layer, "qkv"[i]);
		l->w.delta.conv[i] = rf_model_weight(m, "model.layers.%d.attn.%c_conv1d.weight", layer, "qkv"[i]);
	}
	l->w.delta.b = rf_model_weight(m, "model.layers.%d.attn.b_proj.weight", layer);
	l->w.delta.g = rf_model_weight(m, "model.layers.%d.attn.g_proj.weight", layer);
	l->w.delta.norm = rf_model_weight(m, "model.layers.%d.attn.o_norm.weight", layer);
	l->w.delta.o = rf_model_weight(m, "model.layers.%d.attn.o_proj.weight", layer);
}

static void state(const struct rf_tree *t, int layer, struct rf_arena *a, union rf_mixer_state *s)
{
	const struct rf_config *c = t->model->cfg;
	size_t slots = (size_t)t->slots, tail = slots * (size_t)(t->w - 1);

	(void)layer;
	s->delta.S = rf_arena_f32(a, slots * (size_t)(c->heads * c->K * c->V));
	for (int i = 0; i < 3; i++)
		s->delta.tail[i] = rf_arena_f32(a, tail * (size_t)width(c, i));
	if (!t->plan.train)
		return;
	s->delta.dS = rf_arena_f32(a, slots * (size_t)(c->heads * c->K * c->V));
	for (int i = 0; i < 3; i++)
		s->delta.dtail[i] = rf_arena_f32(a, tail * (size_t)width(c, i));
}

static void save(const struct rf_pass *p, int layer, struct rf_arena *a, union rf_mixer_save *s)
{
	const struct rf_config *c = p->tree->model->cfg;
	size_t R = (size_t)p->max_nb * (size_t)p->max_steps, front = (size_t)p->max_nb * (size_t)(p->tree->w - 1);

	(void)layer;
	for (int i = 0; i < 3; i++)
		s->delta.x[i] = rf_arena_f32(a, (front + R) * (size_t)width(c, i));
	s->delta.k = p->grow ? rf_arena_f32(a, R * (size_t)width(c, 1)) : NULL;
	s->delta.b = c->use_beta ? rf_arena_f32(a, R * (size_t)c->heads) : NULL;
	s->delta.u = rf_arena_f32(a, R * (size_t)width(c, 2));
	s->delta.o = rf_arena_f32(a, R * (size_t)width(c, 2));
	s->delta.gate = c->use_gate ? rf_arena_f32(a, R * (size_t)width(c, 2)) : NULL;
}

static void work(const struct rf_pass *p, int layer, struct rf_arena *a, union rf_mixer_work *w)
{
	const struct rf_config *c = p->tree->model->cfg;
	size_t R = (size_t)p->max_nb * (size_t)p->max_steps, front = (size_t)p->max_nb * (size_t)(p->tree->w - 1);

	(void)layer;
	for (int i = 0; i < 3; i++)
		w->delta.y[i] = rf_arena_f32(a, R * (size_t)width(c, i));
	w->delta.n = rf_arena_f32(a, R * (size_t)width(c, 2));
	if (!p->train)
		return;
	for (int i = 0; i < 3; i++) {
		w->delta.dy[i] = rf_arena_f32(a, R * (size_t)width(c, i));
		w->delta.dx[i] = rf_arena_f32(a, (front + R) * (size_t)width(c, i));
	}
	w->delta.dn = rf_arena_f32(a, R * (size_t)width(c, 2));
	w->delta.d_o = rf_arena_f32(a, R * (size_t)width(c, 2));
	w->delta.dgate = c->use_gate ? rf_arena_f32(a, R * (size_t)width(c, 2)) : NULL;
	w->delta.db = c->use_beta ? rf_arena_f32(a, R * (size_t)c->heads) : NULL;
}

/* q, k, v after convolution, activation and norm, for `steps` new steps after `given`. */
static void convolve(const struct rf_pass *p, int layer, const rf_f32 y[3])
{
	const struct rf_model *m = p->tree->model;
	const struct rf_config *c = m->cfg;
	const struct rf_layer *l = &m->layer[layer];
	size_t before = (size_t)p->given * (size_t)p->nb;

	for (int i = 0; i < 3; i++)
		RF(m->dev, conv_fwd, .nb = p->nb, .steps = p->steps, .d = width(c, i), .w = p->tree->w, .head = i == 2 ? c->V : c->K,
		   .act = i == 2 ? RF_ACT_SILU : (int)c->qk_act, .norm = i == 2 ? 0 : c->qk_norm == RF_NORM_L2 ? 1 : 2,
		   .scale = i == 0 ? 1 / sqrtf((float)c->K) : 1,
		   .x = rf_at(p->save[layer].delta.x[i], before * (size_t)width(c, i)), .weight = rf_w(m, l->w.delta.conv[i]),
		   .y = rf_at(y[i], i == 1 && p->grow ? before * (size_t)width(c, i) : 0));
}

static void fwd(struct rf_pass *p, int layer, rf_f32 x, rf_f32 h)
{
	struct rf_tree *t = p->tree;
	const struct rf_model *m = t->model;
	const struct rf_config *c = m->cfg;
	const struct rf_layer *l = &m->layer[layer];
	union rf_mixer_state *s = &t->state[layer];
	union rf_mixer_save *k = &p->save[layer];
	union rf_mixer_work *w = &p->work[layer];
	int rows = p->nb * p->steps, H = c->heads, front = (t->w - 1) * p->nb;
	size_t before = (size_t)p->given * (size_t)p->nb;
	rf_f32 y[3] = { w->delta.y[0], p->grow ? k->delta.k : w->delta.y[1], w->delta.y[2] };

	for (int i = 0; i < 3; i++) {
		if (!p->given)
			RF(m->dev, rows, .n = p->tails, .d = width(c, i), .from = s->delta.tail[i], .fi = p->tail_in, .to = k->delta.x[i]);
		rf_linear_fwd(m, l->w.delta.proj[i], none, rows, x, rf_at(k->delta.x[i], ((size_t)front + before) * (size_t)width(c, i)), false);
		RF(m->dev, rows, .n = p->cap_tails, .d = width(c, i), .from = k->delta.x[i], .fi = p->cap_in, .to = s->delta.tail[i], .ti = p->tail_out);
	}
	convolve(p, layer, y);
	if (c->use_beta)
		rf_linear_fwd(m, l->w.delta.b, none, rows, x, k->delta.b, false);
	if (c->use_gate)
		rf_linear_fwd(m, l->w.delta.g, none, rows, x, k->delta.gate, false);
	RF(m->dev, delta_fwd, .nb = p->nb, .steps = p->steps, .given = p->given, .per = p->per, .H = H, .K = c->K, .V = c->V,
	   .beta_scale = c->allow_neg_eigval ? 2 : 1, .q = y[0], .k = y[1], .v = y[2], .b = k->delta.b, .u = k->delta.u,
	   .o = k->delta.o, .S = s->delta.S, .start = p->start, .captures = p->captures, .cap_row = p->cap_row, .cap_slot = p->cap_slot);
	RF(m->dev, rmsnorm_fwd, .rows = rows * H, .d = c->V, .eps = (float)c->norm_eps, .x = k->delta.o, .w = rf_w(m, l->w.delta.norm),
	   .gate = k->delta.gate, .y = w->delta.n);
	rf_linear_fwd(m, l->w.delta.o, none, rows, w->delta.n, h, true);
}

static void bwd(struct rf_pass *p, int layer, rf_f32 x, rf_f32 dh, rf_f32 dx)
{
	struct rf_tree *t = p->tree;
	const struct rf_model *m = t->model;
	const struct rf_config *c = m->cfg;
	const struct rf_layer *l = &m->layer[layer];
	union rf_mixer_state *s = &t->state[layer];
	union rf_mixer_save *k = &p->save[layer];
	union rf_mixer_work *w = &p->work[layer];
	int rows = p->nb * p->steps, H = c->heads, front = (t->w - 1) * p->nb;

	RF(m->dev, rmsnorm_fwd, .rows = rows * H, .d = c->V, .eps = (float)c->norm_eps, .x = k->delta.o, .w = rf_w(m, l->w.delta.norm),
	   .gate = k->delta.gate, .y = w->delta.n);
	rf_linear_bwd(m, l->w.delta.o, none, rows, w->delta.n, dh, w->delta.dn, false);
	RF(m->dev, rmsnorm_bwd, .rows = rows * H, .d = c->V, .eps = (float)c->norm_eps, .x = k->delta.o, .w = rf_w(m, l->w.delta.norm),
	   .gate = k->delta.gate, .dy = w->delta.dn, .dx = w->delta.d_o, .dw = rf_dw(m, l->w.delta.norm), .dgate = w->delta.dgate);
	convolve(p, layer, w->delta.y);
	RF(m->dev, delta_bwd, .nb = p->nb, .steps = p->steps, .per = p->per, .H = H, .K = c->K, .V = c->V,
	   .beta_scale = c->allow_neg_eigval ? 2 : 1, .q = w->delta.y[0], .k = w->delta.y[1], .v = w->delta.y[2], .b = k->delta.b,
	   .u = k->delta.u, .d_o = w->delta.d_o, .dq = w->delta.dy[0], .dk = w->delta.dy[1], .dv = w->delta.dy[2], .db = w->delta.db,
	   .S = s->delta.S, .dS = s->delta.dS, .start = p->start, .captures = p->captures, .cap_row = p->cap_row, .cap_slot = p->cap_slot);
	for (int i = 0; i < 3; i++) {
		int d = width(c, i);

		RF(m->dev, conv_bwd, .nb = p->nb, .steps = p->steps, .d = d, .w = t->w, .head = i == 2 ? c->V : c->K,
		   .act = i == 2 ? RF_ACT_SILU : (int)c->qk_act, .norm = i == 2 ? 0 : c->qk_norm == RF_NORM_L2 ? 1 : 2,
		   .scale = i == 0 ? 1 / sqrtf((float)c->K) : 1, .x = k->delta.x[i], .weight = rf_w(m, l->w.delta.conv[i]),
		   .dy = w->delta.dy[i], .dx = w->delta.dx[i], .dweight = rf_dw(m, l->w.delta.conv[i]));
		/* what later rows read of these comes back; what these read of earlier rows goes on */
		RF(m->dev, rows, .n = p->cap_tails, .d = d, .add = true, .from = s->delta.dtail[i], .fi = p->tail_out, .to = w->delta.dx[i], .ti = p->cap_in);
		RF(m->dev, rows, .n = p->tails, .d = d, .add = true, .from = w->delta.dx[i], .to = s->delta.dtail[i], .ti = p->tail_in);
		rf_linear_bwd(m, l->w.delta.proj[i], none, rows, x, rf_at(w->delta.dx[i], (size_t)front * (size_t)d), dx, i > 0);
	}
	if (c->use_beta)
		rf_linear_bwd(m, l->w.delta.b, none, rows, x, w->delta.db, dx, true);
	if (c->use_gate)
		rf_linear_bwd(m, l->w.delta.g, none, rows, x, w->delta.dgate, dx, true);
}

const struct rf_mixer rf_mixer_delta_net = { "delta_net", bind, state, save, work, fwd, bwd };
