/* running_mean.h -- a mixer that no model has: the example of rf-design(7), "How to add a mixer".
 *
 *     m_t = L m_{t-1} + (1 - L) x_t,    h_t += W m_t,    L = 3/4, m_{-1} = 0
 *
 * The rows are computed one step after the other, so segments of any size give the same bits. */
#ifndef RUNNING_MEAN_H
#define RUNNING_MEAN_H

#include "model/mixer.h"
#include "model/tree.h"

#define KEEPS 0.75f

struct mean_weights {
	struct rf_weight o;
};
/* slots of the tree: m after a row, and its gradient; (slots, d) */
struct mean_state {
	rf_f32 m, dm;
};
/* m before the pass, and after each of its steps; ((1 + steps) nb, d) */
struct mean_save {
	rf_f32 m;
};
struct mean_work {
	rf_f32 dm;
};

static void mean_declare(struct rf_params *t, const struct rf_config *c, int layer, void *weights)
{
	struct mean_weights *w = weights;

	w->o = rf_params_weight(t, RF_NORMAL(c->initializer_range), (int[4]){ c->d, c->d },
	                        "%slayers.%d.mean.o_proj.weight", c->names.root, layer);
}

static void mean_state(const struct rf_tree *t, int layer, struct rf_arena *a, void *state)
{
	size_t n = (size_t)t->slots * (size_t)t->model->cfg->d;
	struct mean_state *s = state;

	(void)layer;
	s->m = rf_arena_f32(a, n);
	s->dm = t->plan.train ? rf_arena_f32(a, n) : NULL;
}

static size_t mean_rows(const struct rf_pass *p)
{
	return (rf_pass_rows(p) + (size_t)p->max_nb) * (size_t)p->tree->model->cfg->d;
}

static void mean_save(const struct rf_pass *p, int layer, struct rf_arena *a, void *save)
{
	(void)layer;
	((struct mean_save *)save)->m = rf_arena_f32(a, mean_rows(p));
}

static void mean_work(const struct rf_pass *p, int layer, struct rf_arena *a, void *work)
{
	(void)layer;
	((struct mean_work *)work)->dm = p->train ? rf_arena_f32(a, mean_rows(p)) : NULL;
}

static void mean_capture(struct rf_pass *p, int layer)
{
	const struct mean_state *s = p->tree->state[layer];
	const struct mean_save *k = p->save[layer];

	RF_RUN(p->tree->model->dev, tail_keep, .n = p->captures, .w = 1, .d = p->tree->model->cfg->d,
	       .x = k->m, .slots = s->m, .row = p->list.cap_row, .slot = p->list.cap_slot);
}

static void mean_fwd(struct rf_pass *p, int layer, rf_f32 x, rf_f32 h)
{
	const struct rf_model *m = p->tree->model;
	const struct mean_weights *w = m->layer[layer].w;
	const struct mean_state *s = p->tree->state[layer];
	const struct mean_save *k = p->save[layer];
	size_t step = (size_t)p->nb * (size_t)m->cfg->d;
	rf_f32 before = rf_at(k->m, (size_t)p->decoded * step), now = rf_at(before, step);

	if (!p->decoded)
		RF_RUN(m->dev, tail_load, .nb = p->nb, .n = p->n, .w = 1, .d = m->cfg->d, .x = k->m,
		       .slots = s->m, .slot = p->list.start);
	for (size_t j = 0; j < (size_t)p->steps; j++) {
		RF_RUN(m->dev, axpy, .n = step, .scale = KEEPS, .x = rf_at(before, j * step),
		       .y = rf_at(now, j * step));
		RF_RUN(m->dev, axpy, .n = step, .scale = 1 - KEEPS, .add = true, .x = rf_at(x, j * step),
		       .y = rf_at(now, j * step));
	}
	mean_capture(p, layer);
	rf_linear_fwd(m, w->o, RF_NO_WEIGHT, p->nb * p->steps, now, h, 0, true);
}

static void mean_bwd(struct rf_pass *p, int layer, rf_f32 x, rf_f32 dh, rf_f32 dx)
{
	const struct rf_model *m = p->tree->model;
	const struct mean_weights *w = m->layer[layer].w;
	const struct mean_state *s = p->tree->state[layer];
	const struct mean_save *k = p->save[layer];
	rf_f32 dm = ((struct mean_work *)p->work[layer])->dm;
	size_t step = (size_t)p->nb * (size_t)m->cfg->d;

	(void)x;
	m->dev->ops->zero(m->dev, dm, step * 4);
	rf_linear_bwd(m, w->o, RF_NO_WEIGHT, p->nb * p->steps, rf_at(k->m, step), dh, 0, rf_at(dm, step),
	              false);
	RF_RUN(m->dev, tail_keep, .back = true, .n = p->captures, .w = 1, .d = m->cfg->d, .x = dm,
	       .slots = s->dm, .row = p->list.cap_row, .slot = p->list.cap_slot);
	for (size_t j = (size_t)p->steps; j-- > 0;) {
		RF_RUN(m->dev, axpy, .n = step, .scale = 1 - KEEPS, .x = rf_at(dm, (j + 1) * step),
		       .y = rf_at(dx, j * step));
		RF_RUN(m->dev, axpy, .n = step, .scale = KEEPS, .add = true, .x = rf_at(dm, (j + 1) * step),
		       .y = rf_at(dm, j * step));
	}
	RF_RUN(m->dev, tail_load, .back = true, .nb = p->nb, .n = p->n, .w = 1, .d = m->cfg->d, .x = dm,
	       .slots = s->dm, .slot = p->list.start);
}

static double mean_flops(const struct rf_config *c, int T) { return 3. * T * c->d; }

/* clang-format off */
static const struct rf_mixer running_mean = {
	.name = "running_mean", .weights_size = sizeof(struct mean_weights),
	.state_size = sizeof(struct mean_state), .save_size = sizeof(struct mean_save),
	.work_size = sizeof(struct mean_work), .declare = mean_declare, .state = mean_state,
	.save = mean_save, .work = mean_work, .fwd = mean_fwd, .capture = mean_capture, .bwd = mean_bwd,
	.flops = mean_flops
};
/* clang-format on */

#undef KEEPS
#endif
