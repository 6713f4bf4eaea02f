/* attention.c -- the softmax attention mixer of hybrid models: projections around attend.c. */
#include "attend.h"

struct weights { struct rf_weight proj[3], bias[3], o; };

static const struct rf_weight none;

static void declare(struct rf_params *t, const struct rf_config *c, int layer, void *weights)
{
	struct weights *w = weights;
	const struct rf_attn_config *a = &c->attn;
	const struct rf_begin normal = RF_NORMAL(c->initializer_range);

	for (int i = 0; i < 3; i++) {
		int width = (i ? a->kv_heads : a->heads) * a->D;

		w->proj[i] = rf_params_weight(t, normal, (int[4]){ width, c->d }, "%slayers.%d.attn.%c_proj.weight", c->names.root, layer, "qkv"[i]);
		if (a->qkv_bias)
			w->bias[i] = rf_params_weight(t, RF_ZERO, (int[4]){ width }, "%slayers.%d.attn.%c_proj.bias", c->names.root, layer, "qkv"[i]);
	}
	w->o = rf_params_weight(t, normal, (int[4]){ c->d, a->heads * a->D }, "%slayers.%d.attn.o_proj.weight", c->names.root, layer);
}

static void state(const struct rf_tree *t, int layer, struct rf_arena *a, void *s)
{
	(void)layer;
	rf_attend_state(t, &t->model->cfg->attn, a, s);
}

static void save(const struct rf_pass *p, int layer, struct rf_arena *a, void *s)
{
	(void)layer;
	rf_attend_save(p, &p->tree->model->cfg->attn, a, s);
}

static void work(const struct rf_pass *p, int layer, struct rf_arena *a, void *w)
{
	(void)layer;
	rf_attend_work(p, &p->tree->model->cfg->attn, a, w);
}

static void fwd(struct rf_pass *p, int layer, rf_f32 x, rf_f32 h)
{
	const struct rf_model *m = p->tree->model;
	const struct rf_attn_config *c = &m->cfg->attn;
	const struct weights *l = m->layer[layer].w;
	struct rf_attend_save *k = p->save[layer];
	int rows = p->nb * p->steps;
	rf_f32 y[3] = { k->q, rf_attend_k(p, c, k), rf_attend_v(p, c, k) };

	for (int i = 0; i < 3; i++)
		rf_linear_fwd(m, l->proj[i], l->bias[i], rows, x, y[i], 0, false);
	rf_attend_fwd(p, c, p->tree->state[layer], k);
	rf_linear_fwd(m, l->o, none, rows, k->o, h, 0, true);
}

static void bwd(struct rf_pass *p, int layer, rf_f32 x, rf_f32 dh, rf_f32 dx)
{
	const struct rf_model *m = p->tree->model;
	const struct weights *l = m->layer[layer].w;
	struct rf_attend_save *k = p->save[layer];
	struct rf_attend_work *w = p->work[layer];
	int rows = p->nb * p->steps;
	rf_f32 dy[3] = { w->dq, w->dk, w->dv };

	rf_linear_bwd(m, l->o, none, rows, k->o, dh, 0, w->d_o, false);
	rf_attend_bwd(p, &m->cfg->attn, p->tree->state[layer], k, w);
	for (int i = 0; i < 3; i++)
		rf_linear_bwd(m, l->proj[i], l->bias[i], rows, x, dy[i], 0, dx, i > 0);
}

const struct rf_mixer rf_mixer_attention = {
	"attention", sizeof(struct weights), sizeof(struct rf_attend_state), sizeof(struct rf_attend_save), sizeof(struct rf_attend_work),
	declare, state, save, work, fwd, bwd
};
