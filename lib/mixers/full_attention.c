/* full_attention.c -- the softmax attention mixer of hybrid models: projections around kv_cache.c.
 *
 * Qwen3.5's attention is gated: for each head q_proj yields the query and, next to it, a gate; q and k are
 * normed per head before rotation; and the output of attention is multiplied by the gate's sigmoid before
 * o_proj. */
#include "mixers/kv_cache.h"

struct weights {
	struct rf_weight proj[3], bias[3], norm[2], o;
};

struct save {
	struct rf_kv_save a;
	/* gated: q and gate side by side, (R, H, 2 D), and k, (R, G, D), before their norms */
	rf_f32 raw[2];
};

struct work {
	struct rf_kv_work a;
	rf_f32 n, dn; /* o after the gate, (R, H, D) */
	rf_f32 draw[2];
};

/* Returns the heads of q, k or v (i = 0, 1, 2). */
static int heads(const struct rf_attn_config *c, int i) { return i ? c->kv_heads : c->heads; }
/* Returns the columns from one head to the next in the projection of q, k or v. */
static int stride(const struct rf_attn_config *c, int i) { return i == 0 && c->gated ? 2 * c->D : c->D; }
/* Returns whether the projection is kept before its norm. */
static bool is_raw(const struct rf_attn_config *c, int i) { return i < 2 && c->gated; }

static void declare(struct rf_params *t, const struct rf_config *c, int layer, void *weights)
{
	struct weights *w = weights;
	const struct rf_attn_config *a = &c->attn;
	const struct rf_initializer matrix = RF_MATRIX(c->initializer_range);
	const char *root = c->names.root, *attn = c->names.attn;

	for (int i = 0; i < 3; i++) {
		int width = heads(a, i) * stride(a, i);

		w->proj[i] = rf_params_weight(t, matrix, (int[4]){ width, c->d },
		                              "%slayers.%d.%s.%c_proj.weight", root, layer, attn, "qkv"[i]);
		if (a->qkv_bias)
			w->bias[i] =
				rf_params_weight(t, RF_ZERO, (int[4]){ width }, "%slayers.%d.%s.%c_proj.bias",
			                         root, layer, attn, "qkv"[i]);
		if (is_raw(a, i))
			w->norm[i] = rf_params_weight(t, RF_ZERO, (int[4]){ a->D },
			                              "%slayers.%d.%s.%c_norm.weight", root, layer, attn,
			                              "qkv"[i]);
	}
	w->o = rf_params_weight(t, matrix, (int[4]){ c->d, a->heads * a->D }, "%slayers.%d.%s.o_proj.weight",
	                        root, layer, attn);
}

static void state(const struct rf_tree *t, int layer, struct rf_arena *a, void *s)
{
	(void)layer;
	rf_kv_state(t, &t->model->cfg->attn, a, s);
}

static void save(const struct rf_pass *p, int layer, struct rf_arena *a, void *save)
{
	const struct rf_attn_config *c = &p->tree->model->cfg->attn;
	struct save *s = save;

	(void)layer;
	rf_kv_save(p, c, a, &s->a);
	for (int i = 0; i < 2; i++)
		s->raw[i] = is_raw(c, i)
		                    ? rf_arena_f32(a, rf_pass_rows(p) * (size_t)(heads(c, i) * stride(c, i)))
		                    : NULL;
}

static void work(const struct rf_pass *p, int layer, struct rf_arena *a, void *work)
{
	const struct rf_attn_config *c = &p->tree->model->cfg->attn;
	struct work *w = work;
	size_t n = rf_pass_rows(p) * (size_t)(c->heads * c->D);

	(void)layer;
	rf_kv_work(p, c, a, &w->a);
	w->n = c->gated ? rf_arena_f32(a, n) : NULL;
	if (!p->train)
		return;
	w->dn = c->gated ? rf_arena_f32(a, n) : NULL;
	for (int i = 0; i < 2; i++)
		w->draw[i] = is_raw(c, i)
		                     ? rf_arena_f32(a, rf_pass_rows(p) * (size_t)(heads(c, i) * stride(c, i)))
		                     : NULL;
}

/* Returns o times the gate, whose columns follow those of the query; without a gate o itself. */
static rf_f32 apply_gate(const struct rf_pass *p, int layer)
{
	const struct rf_model *m = p->tree->model;
	const struct rf_attn_config *c = &m->cfg->attn;
	const struct save *k = p->save[layer];
	const struct work *w = p->work[layer];

	if (!c->gated)
		return k->a.o;
	RF_RUN(m->dev, gate_fwd, .rows = p->nb * p->steps * c->heads, .d = c->D, .ldg = stride(c, 0),
	       .x = k->a.o, .gate = rf_at(k->raw[0], (size_t)c->D), .y = w->n);
	return w->n;
}

static void fwd(struct rf_pass *p, int layer, rf_f32 x, rf_f32 h)
{
	const struct rf_model *m = p->tree->model;
	const struct rf_attn_config *c = &m->cfg->attn;
	const struct weights *l = m->layer[layer].w;
	struct save *k = p->save[layer];
	int rows = p->nb * p->steps;
	struct rf_kv_state *s = p->tree->state[layer];
	rf_f32 y[3] = { k->a.q, rf_kv_k(p, c, s, &k->a), rf_kv_v(p, c, s, &k->a) };

	rf_kv_slide(p, c, s, &k->a);
	for (int i = 0; i < 3; i++) {
		rf_linear_fwd(m, l->proj[i], l->bias[i], rows, x, is_raw(c, i) ? k->raw[i] : y[i], 0, false);
		if (is_raw(c, i))
			RF_RUN(m->dev, rmsnorm_fwd, .rows = rows * heads(c, i), .d = c->D,
			       .ldx = stride(c, i), .eps = (float)m->cfg->norm_eps, .plus_one = true,
			       .x = k->raw[i], .w = rf_w(m, l->norm[i]), .y = y[i]);
	}
	rf_kv_attend_fwd(p, c, s, &k->a);
	rf_linear_fwd(m, l->o, RF_NO_WEIGHT, rows, apply_gate(p, layer), h, 0, true);
}

static void bwd(struct rf_pass *p, int layer, rf_f32 x, rf_f32 dh, rf_f32 dx)
{
	const struct rf_model *m = p->tree->model;
	const struct rf_attn_config *c = &m->cfg->attn;
	const struct weights *l = m->layer[layer].w;
	struct save *k = p->save[layer];
	struct work *w = p->work[layer];
	int rows = p->nb * p->steps;
	rf_f32 dy[3] = { w->a.dq, w->a.dk, w->a.dv };

	rf_linear_bwd(m, l->o, RF_NO_WEIGHT, rows, apply_gate(p, layer), dh, 0, c->gated ? w->dn : w->a.d_o,
	              false);
	if (c->gated)
		RF_RUN(m->dev, gate_bwd, .rows = rows * c->heads, .d = c->D, .ldg = stride(c, 0), .x = k->a.o,
		       .gate = rf_at(k->raw[0], (size_t)c->D), .dy = w->dn, .dx = w->a.d_o,
		       .dgate = rf_at(w->draw[0], (size_t)c->D));
	rf_kv_attend_bwd(p, c, p->tree->state[layer], &k->a, &w->a);
	for (int i = 0; i < 3; i++) {
		if (is_raw(c, i))
			RF_RUN(m->dev, rmsnorm_bwd, .rows = rows * heads(c, i), .d = c->D,
			       .ldx = stride(c, i), .eps = (float)m->cfg->norm_eps, .plus_one = true,
			       .x = k->raw[i], .w = rf_w(m, l->norm[i]), .dy = dy[i], .dx = w->draw[i],
			       .dw = rf_dw(m, l->norm[i]));
		rf_linear_bwd(m, l->proj[i], l->bias[i], rows, x, is_raw(c, i) ? w->draw[i] : dy[i], 0, dx,
		              i > 0);
	}
}

static double flops(const struct rf_config *c, int T) { return rf_kv_flops(&c->attn, T); }

static void workspace(const struct rf_config *c, struct rf_workspace *need)
{
	rf_kv_workspace(&c->attn, need);
}

static int reads(const struct rf_config *c) { return rf_kv_reads(&c->attn); }

/* clang-format off */
const struct rf_mixer rf_mixer_attention = {
	.name = "attention", .weights_size = sizeof(struct weights),
	.state_size = sizeof(struct rf_kv_state), .save_size = sizeof(struct save),
	.work_size = sizeof(struct work), .declare = declare, .state = state, .save = save, .work = work,
	.fwd = fwd, .bwd = bwd, .flops = flops, .workspace = workspace, .reads = reads
};
/* clang-format on */
