/* attention.c -- the softmax attention mixer of hybrid models: rotary, grouped heads, optional window.
 *
 * What later rows need of earlier ones: the text's keys and values, all of them. */
#include "mixer.h"
#include "tree.h"

static const struct rf_weight none;

static int head(const struct rf_config *c) { return c->d / c->attn.heads; }
static size_t kv(const struct rf_config *c) { return (size_t)(c->attn.kv_heads * head(c)); }

static void bind(struct rf_model *m, int layer)
{
	struct rf_layer *l = &m->layer[layer];

	for (int i = 0; i < 3; i++) {
		l->w.attn.proj[i] = rf_model_weight(m, "model.layers.%d.attn.%c_proj.weight", layer, "qkv"[i]);
		l->w.attn.bias[i] = rf_model_weight(m, "model.layers.%d.attn.%c_proj.bias", layer, "qkv"[i]);
	}
	l->w.attn.o = rf_model_weight(m, "model.layers.%d.attn.o_proj.weight", layer);
}

static void state(const struct rf_tree *t, int layer, struct rf_arena *a, union rf_mixer_state *s)
{
	size_t n = (size_t)t->plan.max_len * kv(t->model->cfg);

	(void)layer;
	s->attn.k = rf_arena_f32(a, n);
	s->attn.v = rf_arena_f32(a, n);
	if (t->plan.train) {
		s->attn.dk = rf_arena_f32(a, n);
		s->attn.dv = rf_arena_f32(a, n);
	}
}

static void save(const struct rf_pass *p, int layer, struct rf_arena *a, union rf_mixer_save *s)
{
	const struct rf_config *c = p->tree->model->cfg;
	size_t R = (size_t)p->max_nb * (size_t)p->max_steps;

	(void)layer;
	s->attn.q = rf_arena_f32(a, R * (size_t)c->d);
	s->attn.k = rf_arena_f32(a, R * kv(c));
	s->attn.v = rf_arena_f32(a, R * kv(c));
	s->attn.o = rf_arena_f32(a, R * (size_t)c->d);
	s->attn.lse = rf_arena_f32(a, R * (size_t)c->attn.heads);
}

static void work(const struct rf_pass *p, int layer, struct rf_arena *a, union rf_mixer_work *w)
{
	const struct rf_config *c = p->tree->model->cfg;
	size_t R = (size_t)p->max_nb * (size_t)p->max_steps;

	(void)layer;
	if (!p->train)
		return;
	w->attn.dq = rf_arena_f32(a, R * (size_t)c->d);
	w->attn.dk = rf_arena_f32(a, R * kv(c));
	w->attn.dv = rf_arena_f32(a, R * kv(c));
	w->attn.d_o = rf_arena_f32(a, R * (size_t)c->d);
}

static void turn(const struct rf_pass *p, int heads, int from, bool inverse, rf_f32 x)
{
	const struct rf_model *m = p->tree->model;

	RF(m->dev, rope, .nb = p->nb, .steps = p->steps, .heads = heads, .D = head(m->cfg), .from = from, .inverse = inverse,
	   .theta = m->cfg->attn.rope_theta, .past = p->past, .x = x);
}

static void fwd(struct rf_pass *p, int layer, rf_f32 x, rf_f32 h)
{
	struct rf_tree *t = p->tree;
	const struct rf_model *m = t->model;
	const struct rf_config *c = m->cfg;
	const struct rf_layer *l = &m->layer[layer];
	union rf_mixer_state *s = &t->state[layer];
	union rf_mixer_save *k = &p->save[layer];
	int rows = p->nb * p->steps;
	size_t before = (size_t)p->given * (size_t)p->nb * kv(c);
	rf_f32 y[3] = { k->attn.q, rf_at(k->attn.k, before), rf_at(k->attn.v, before) };

	for (int i = 0; i < 3; i++)
		rf_linear_fwd(m, l->w.attn.proj[i], l->w.attn.bias[i], rows, x, y[i], false);
	turn(p, c->attn.heads, p->given, false, y[0]);
	turn(p, c->attn.kv_heads, p->given, false, y[1]);
	RF(m->dev, attn_fwd, .nb = p->nb, .steps = p->steps, .given = p->given, .H = c->attn.heads, .G = c->attn.kv_heads,
	   .D = head(c), .window = c->attn.window, .longest = p->longest, .past = p->past, .q = k->attn.q, .k = k->attn.k,
	   .v = k->attn.v, .cache_k = s->attn.k, .cache_v = s->attn.v, .o = k->attn.o, .lse = k->attn.lse);
	if (!p->branch) {
		RF(m->dev, rows, .n = rows, .d = (int)kv(c), .from = y[1], .to = rf_at(s->attn.k, (size_t)p->pos * kv(c)));
		RF(m->dev, rows, .n = rows, .d = (int)kv(c), .from = y[2], .to = rf_at(s->attn.v, (size_t)p->pos * kv(c)));
	}
	rf_linear_fwd(m, l->w.attn.o, none, rows, k->attn.o, h, true);
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
	int rows = p->nb * p->steps;
	rf_f32 dy[3] = { w->attn.dq, w->attn.dk, w->attn.dv };

	rf_linear_bwd(m, l->w.attn.o, none, rows, k->attn.o, dh, w->attn.d_o, false);
	RF(m->dev, attn_bwd, .nb = p->nb, .steps = p->steps, .H = c->attn.heads, .G = c->attn.kv_heads, .D = head(c),
	   .window = c->attn.window, .longest = p->longest, .past = p->past, .q = k->attn.q, .k = k->attn.k, .v = k->attn.v,
	   .cache_k = s->attn.k, .cache_v = s->attn.v, .o = k->attn.o, .lse = k->attn.lse, .d_o = w->attn.d_o,
	   .dq = dy[0], .dk = dy[1], .dv = dy[2], .dcache_k = s->attn.dk, .dcache_v = s->attn.dv);
	if (!p->branch) { /* what rollouts and later segments read of these rows */
		RF(m->dev, rows, .n = rows, .d = (int)kv(c), .add = true, .from = rf_at(s->attn.dk, (size_t)p->pos * kv(c)), .to = dy[1]);
		RF(m->dev, rows, .n = rows, .d = (int)kv(c), .add = true, .from = rf_at(s->attn.dv, (size_t)p->pos * kv(c)), .to = dy[2]);
	}
	turn(p, c->attn.heads, 0, true, dy[0]);
	turn(p, c->attn.kv_heads, 0, true, dy[1]);
	for (int i = 0; i < 3; i++)
		rf_linear_bwd(m, l->w.attn.proj[i], l->w.attn.bias[i], rows, x, dy[i], dx, i > 0);
}

const struct rf_mixer rf_mixer_attention = { "attention", bind, state, save, work, fwd, bwd };
