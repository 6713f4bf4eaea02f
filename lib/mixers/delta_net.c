/* delta_net.c -- the mixer of DeltaNet (Yang et al. 2024), of Gated DeltaNet (Yang et al. 2025) and of
 * Qwen3.5's linear attention: projections, short convolution, delta rule, output norm.
 *
 * q, k and v lie side by side in one matrix until they are convolved; `joint` models project and convolve all
 * three with one weight.  Later rows need two things of earlier ones: the last w-1 rows of that matrix, and
 * the state S. */
#include <math.h>

#include "model/mixer.h"
#include "model/tree.h"

struct weights {
	struct rf_weight proj[3], conv[3], b, g, a, A_log, dt_bias, norm, o;
};

/* The names of the weights: three for q, k and v, or one for a joint weight. */
struct names {
	const char *mixer, *proj[3], *conv[3], *b, *g, *a, *norm, *o;
};
static const struct names separate = { "attn",
	                               { "q_proj", "k_proj", "v_proj" },
	                               { "q_conv1d", "k_conv1d", "v_conv1d" },
	                               "b_proj",
	                               "g_proj",
	                               "a_proj",
	                               "o_norm",
	                               "o_proj" };
static const struct names joint = { "linear_attn", { "in_proj_qkv" }, { "conv1d" }, "in_proj_b",
	                            "in_proj_z",   "in_proj_a",       "norm",       "out_proj" };

/* Slots hold the state at the start of each segment, and at each position (tree.h). */
struct state {
	rf_f32 S, dS, tail, dtail; /* (slots, H, K, V), (slots, w-1, C) */
	struct rf_delta_log log;   /* the chunk that is open at each position, (positions, ...) */
};

struct save {
	/* q, k, v before the convolution, ((w-1 + steps) nb, C): earlier rows in front */
	rf_f32 x;
	/* rollouts that are decoded: k after the convolution, (R, G, K), and u, (R, H, V); else the
	   backward pass computes them again */
	rf_f32 k, u;
	rf_f32 b, gate; /* (R, H), (R, H, V) */
	rf_f32 open;    /* (nb, H, K, V): state at the start of the open chunk, for rollouts that
	                                are decoded over more than a chunk */
	rf_f32 a, g;    /* (R, H): the decay's logarithm, and what it is made of */
};

struct work {
	/* q, k, v after the convolution; the delta rule's u and o; o after its norm */
	rf_f32 y[3], u, o, n;
	rf_f32 dy[3], dx, dn, d_o, dgate, db, dg, da;
};

/* Returns the columns of q, k or v. */
static int width(const struct rf_delta_config *c, int i)
{
	return i == 2 ? c->heads * c->V : c->qk_heads * c->K;
}

/* Returns the column at which q, k or v begins; i = 3: C, the number of columns. */
static int first_column(const struct rf_delta_config *c, int i)
{
	return i == 3 ? 2 * width(c, 0) + width(c, 2) : i * width(c, 0);
}

/* Returns the part of a joint weight that belongs to q, k or v. */
static struct rf_weight part_of_weight(const struct rf_delta_config *c, struct rf_weight whole, int i, int in)
{
	whole.at += (size_t)first_column(c, i) * (size_t)in;
	whole.out = width(c, i);
	return whole;
}

static void declare(struct rf_params *t, const struct rf_config *cfg, int layer, void *weights)
{
	struct weights *w = weights;
	const struct rf_delta_config *c = &cfg->delta;
	const struct names *n = c->joint ? &joint : &separate;
	const struct rf_initializer matrix = RF_MATRIX(cfg->initializer_range),
				    normal = RF_NORMAL(cfg->initializer_range);
	struct rf_initializer A_log = c->joint ? RF_LOG(0.01, 16) : RF_LOG(0, 16), one = RF_ONE;
	const char *root = cfg->names.root;
	int d = cfg->d;
#define WEIGHT(name, init, ...) \
	rf_params_weight(t, init, (int[4]){ __VA_ARGS__ }, "%slayers.%d.%s.%s", root, layer, n->mixer, name)
#define NORMAL(init, name, ...) \
	rf_params_weight(t, init, (int[4]){ __VA_ARGS__ }, "%slayers.%d.%s.%s.weight", root, layer, \
	                 n->mixer, name)
#define MATRIX(name, ...) NORMAL(matrix, name, __VA_ARGS__)

	A_log.f32 = one.f32 = c->f32;
	for (int i = 0; i < (c->joint ? 1 : 3); i++) {
		int out = c->joint ? first_column(c, 3) : width(c, i);

		w->proj[i] = MATRIX(n->proj[i], out, d);
		if (c->conv)
			w->conv[i] = NORMAL(normal, n->conv[i], out, 1, c->conv_size);
	}
	if (c->joint) /* the weight of the convolution is used in parts, that of the projection as a whole */
		for (int i = 3; i-- > 0;)
			w->conv[i] = part_of_weight(c, w->conv[0], i, c->conv_size);
	if (c->beta)
		w->b = MATRIX(n->b, c->heads, d);
	if (c->gate)
		w->g = MATRIX(n->g, width(c, 2), d);
	if (c->decay) {
		w->a = MATRIX(n->a, c->heads, d);
		w->A_log = WEIGHT("A_log", A_log, c->heads);
		w->dt_bias = WEIGHT("dt_bias", c->joint ? RF_FREE_ONE : RF_RATE(1e-3, 1e-1), c->heads);
	}
	w->norm = rf_params_weight(t, one, (int[4]){ c->V }, "%slayers.%d.%s.%s.weight", root, layer,
	                           n->mixer, n->norm);
	w->o = MATRIX(n->o, d, width(c, 2));
#undef WEIGHT
#undef MATRIX
#undef NORMAL
}

static void state(const struct rf_tree *t, int layer, struct rf_arena *a, void *state)
{
	const struct rf_delta_config *c = &t->model->cfg->delta;
	struct state *s = state;
	size_t S = (size_t)t->slots * (size_t)c->heads * (size_t)c->K * (size_t)c->V;
	size_t tail = (size_t)t->slots * (size_t)(c->conv_size - 1) * (size_t)first_column(c, 3);

	(void)layer;
	s->S = rf_arena_f32(a, S);
	s->tail = rf_arena_f32(a, tail);
	if (t->plan.positions) {
		size_t n = (size_t)t->plan.positions;

		s->log.S = rf_arena_f32(a, n * (size_t)(c->heads * c->K) * (size_t)c->V);
		s->log.k = rf_arena_f32(a, n * RF_CHUNK * (size_t)width(c, 1));
		s->log.u = rf_arena_f32(a, n * RF_CHUNK * (size_t)width(c, 2));
		s->log.g = c->decay ? rf_arena_f32(a, n * RF_CHUNK * (size_t)c->heads) : NULL;
	}
	s->dS = t->plan.train ? rf_arena_f32(a, S) : NULL;
	s->dtail = t->plan.train ? rf_arena_f32(a, tail) : NULL;
}

/* Returns how many rows before those of the pass the convolution reads. */
static size_t front_of(const struct rf_pass *p, const struct rf_delta_config *c)
{
	return (size_t)p->max_nb * (size_t)(c->conv_size - 1);
}

static void save(const struct rf_pass *p, int layer, struct rf_arena *a, void *save)
{
	const struct rf_delta_config *c = &p->tree->model->cfg->delta;
	struct save *s = save;
	size_t R = rf_pass_rows(p);

	(void)layer;
	s->x = rf_arena_f32(a, (front_of(p, c) + R) * (size_t)first_column(c, 3));
	s->k = p->decode ? rf_arena_f32(a, R * (size_t)width(c, 1)) : NULL;
	s->b = c->beta ? rf_arena_f32(a, R * (size_t)c->heads) : NULL;
	s->u = p->decode ? rf_arena_f32(a, R * (size_t)width(c, 2)) : NULL;
	s->gate = c->gate ? rf_arena_f32(a, R * (size_t)width(c, 2)) : NULL;
	s->open = p->decode && p->max_steps > RF_CHUNK
	                  ? rf_arena_f32(a, (size_t)p->max_nb * (size_t)(c->heads * c->K) * (size_t)c->V)
	                  : NULL;
	s->a = c->decay ? rf_arena_f32(a, R * (size_t)c->heads) : NULL;
	s->g = c->decay ? rf_arena_f32(a, R * (size_t)c->heads) : NULL;
}

static void work(const struct rf_pass *p, int layer, struct rf_arena *a, void *work)
{
	const struct rf_delta_config *c = &p->tree->model->cfg->delta;
	struct work *w = work;
	size_t R = rf_pass_rows(p);

	(void)layer;
	for (int i = 0; i < 3; i++)
		w->y[i] = rf_arena_f32(a, R * (size_t)width(c, i));
	w->u = p->decode ? NULL : rf_arena_f32(a, R * (size_t)width(c, 2));
	w->o = rf_arena_f32(a, R * (size_t)width(c, 2));
	w->n = rf_arena_f32(a, R * (size_t)width(c, 2));
	if (!p->train)
		return;
	for (int i = 0; i < 3; i++)
		w->dy[i] = rf_arena_f32(a, R * (size_t)width(c, i));
	w->dx = rf_arena_f32(a, (front_of(p, c) + R) * (size_t)first_column(c, 3));
	w->dn = rf_arena_f32(a, R * (size_t)width(c, 2));
	w->d_o = rf_arena_f32(a, R * (size_t)width(c, 2));
	w->dgate = c->gate ? rf_arena_f32(a, R * (size_t)width(c, 2)) : NULL;
	w->db = c->beta ? rf_arena_f32(a, R * (size_t)c->heads) : NULL;
	w->dg = c->decay ? rf_arena_f32(a, R * (size_t)c->heads) : NULL;
	w->da = c->decay ? rf_arena_f32(a, R * (size_t)c->heads) : NULL;
}

/* Returns the convolution, activation and head norm of q, k or v, for the forward and the backward pass. */
static struct rf_conv_part conv_of(const struct rf_model *m, const struct weights *l, int i)
{
	const struct rf_delta_config *c = &m->cfg->delta;

	return (struct rf_conv_part){ .d = width(c, i),
		                      .head = i == 2 ? c->V : c->K,
		                      .act = i == 2 ? RF_ACT_SILU : c->qk_act,
		                      .norm = i == 2 ? RF_NORM_NONE : c->qk_norm,
		                      .scale = i == 0 ? 1 / sqrtf((float)c->K) : 1,
		                      .weight = rf_w(m, l->conv[i]) };
}

/* Computes q, k and v after the convolution, for the new steps, which follow the `decoded` earlier ones. */
static void convolve(const struct rf_pass *p, int layer, const rf_f32 y[3])
{
	const struct rf_model *m = p->tree->model;
	const struct rf_delta_config *c = &m->cfg->delta;
	const struct weights *l = m->layer[layer].w;
	const struct save *k = p->save[layer];
	size_t before = (size_t)p->decoded * (size_t)p->nb;
	/* clang-format off */
	struct rf_conv_fwd a = { .nb = p->nb, .steps = p->steps, .ldx = first_column(c, 3), .w = c->conv_size,
	                         .parts = 3, .x = rf_at(k->x, before * (size_t)first_column(c, 3)) };
	/* clang-format on */

	for (int i = 0; i < 3; i++) {
		a.part[i] = conv_of(m, l, i);
		a.part[i].y = rf_at(y[i], i == 1 && p->decode ? before * (size_t)width(c, i) : 0);
	}
	m->dev->ops->conv_fwd(m->dev, &a);
}

/* Keeps the rows that the convolution reads, for the captures. */
static void keep_tails(const struct rf_pass *p, int layer)
{
	const struct rf_model *m = p->tree->model;
	const struct rf_delta_config *c = &m->cfg->delta;
	const struct state *s = p->tree->state[layer];
	const struct save *k = p->save[layer];

	RF_RUN(m->dev, tail_keep, .n = p->captures, .w = c->conv_size - 1, .d = first_column(c, 3), .x = k->x,
	       .slots = s->tail, .row = p->list.cap_row, .slot = p->list.cap_slot);
}

/* Computes u and o from q, k and v by the delta rule, and captures the state. */
static void run_delta_rule(const struct rf_pass *p, int layer, const rf_f32 y[3], int captures)
{
	const struct rf_tree *t = p->tree;
	const struct rf_model *m = t->model;
	const struct rf_delta_config *c = &m->cfg->delta;
	const struct state *s = t->state[layer];
	const struct save *k = p->save[layer];
	const struct work *w = p->work[layer];

	RF_RUN(m->dev, delta_fwd, .nb = p->nb, .steps = p->steps, .decoded = p->decoded, .n = p->n,
	       .H = c->heads, .G = c->qk_heads, .K = c->K, .V = c->V, .beta_scale = c->neg_eigval ? 2 : 1,
	       .q = y[0], .k = y[1], .v = y[2], .b = k->b, .g = k->g, .u = p->decode ? k->u : w->u, .o = w->o,
	       .S = s->S, .open = k->open, .start = p->list.start,
	       .open_rows = p->branch ? p->list.open_rows : NULL, .captures = captures,
	       .log_from = t->sequence_slots, .cap_row = p->list.cap_row, .cap_slot = p->list.cap_slot,
	       .log = s->log);
}

/* Computes the delta rule and the norm of o.  The backward pass repeats both, without captures.  That takes a
 * fiftieth of the time of both passes, and keeping u and o would take a sixth of the saved memory. */
static void run_rule_and_norm(const struct rf_pass *p, int layer, const rf_f32 y[3], int captures)
{
	const struct rf_model *m = p->tree->model;
	const struct rf_delta_config *c = &m->cfg->delta;
	const struct weights *l = m->layer[layer].w;
	const struct save *k = p->save[layer];
	const struct work *w = p->work[layer];

	run_delta_rule(p, layer, y, captures);
	RF_RUN(m->dev, rmsnorm_fwd, .rows = p->nb * p->steps * c->heads, .d = c->V,
	       .eps = (float)m->cfg->norm_eps, .operand = true, .x = w->o, .w = rf_w(m, l->norm),
	       .gate = k->gate, .y = w->n);
}

static void fwd(struct rf_pass *p, int layer, rf_f32 x, rf_f32 h)
{
	struct rf_tree *t = p->tree;
	const struct rf_model *m = t->model;
	const struct rf_delta_config *c = &m->cfg->delta;
	const struct weights *l = m->layer[layer].w;
	struct state *s = t->state[layer];
	struct save *k = p->save[layer];
	struct work *w = p->work[layer];
	int rows = p->nb * p->steps, C = first_column(c, 3), w1 = c->conv_size - 1;
	rf_f32 here = rf_at(k->x, ((size_t)w1 + (size_t)p->decoded) * (size_t)p->nb * (size_t)C);
	rf_f32 y[3] = { w->y[0], p->decode ? k->k : w->y[1], w->y[2] };

	if (!p->decoded)
		RF_RUN(m->dev, tail_load, .nb = p->nb, .n = p->n, .w = w1, .d = C, .x = k->x,
		       .slots = s->tail, .slot = p->list.start);
	/* keep the products with x adjacent: the device may cache a rounded x */
	rf_linears_fwd(m, l->proj, c->joint ? 1 : 3, rows, x, here, C, 0);
	if (c->beta)
		rf_linear_fwd(m, l->b, RF_NO_WEIGHT, rows, x, k->b, 0, false);
	if (c->gate)
		rf_linear_fwd(m, l->g, RF_NO_WEIGHT, rows, x, k->gate, 0, false);
	if (c->decay)
		rf_linear_fwd(m, l->a, RF_NO_WEIGHT, rows, x, k->a, 0, false);
	keep_tails(p, layer);
	convolve(p, layer, y);
	if (c->decay)
		RF_RUN(m->dev, decay_fwd, .rows = rows, .H = c->heads, .a = k->a, .A_log = rf_w(m, l->A_log),
		       .dt_bias = rf_w(m, l->dt_bias),
		       .g = rf_at(k->g, (size_t)p->decoded * (size_t)p->nb * (size_t)c->heads));
	run_rule_and_norm(p, layer, y, p->captures);
	rf_linear_fwd(m, l->o, RF_NO_WEIGHT, rows, w->n, h, 0, true);
}

static void capture(struct rf_pass *p, int layer)
{
	const struct work *w = p->work[layer];

	keep_tails(p, layer);
	convolve(p, layer, w->y);
	run_delta_rule(p, layer, w->y, p->captures);
}

static void bwd(struct rf_pass *p, int layer, rf_f32 x, rf_f32 dh, rf_f32 dx)
{
	struct rf_tree *t = p->tree;
	const struct rf_model *m = t->model;
	const struct rf_delta_config *c = &m->cfg->delta;
	const struct weights *l = m->layer[layer].w;
	struct state *s = t->state[layer];
	struct save *k = p->save[layer];
	struct work *w = p->work[layer];
	int rows = p->nb * p->steps, C = first_column(c, 3), w1 = c->conv_size - 1;
	size_t front = (size_t)w1 * (size_t)p->nb * (size_t)C;
	/* clang-format off */
	struct rf_conv_bwd conv = { .nb = p->nb, .steps = p->steps, .ldx = C, .w = c->conv_size, .parts = 3,
	                            .x = k->x, .dx = w->dx };
	/* clang-format on */

	convolve(p, layer, w->y);
	run_rule_and_norm(p, layer, w->y, 0);
	rf_linear_bwd(m, l->o, RF_NO_WEIGHT, rows, w->n, dh, 0, w->dn, false);
	RF_RUN(m->dev, rmsnorm_bwd, .rows = rows * c->heads, .d = c->V, .eps = (float)m->cfg->norm_eps,
	       .x = w->o, .w = rf_w(m, l->norm), .gate = k->gate, .dy = w->dn, .dx = w->d_o,
	       .dw = rf_dw(m, l->norm), .dgate = w->dgate);
	RF_RUN(m->dev, delta_bwd, .nb = p->nb, .steps = p->steps, .n = p->n, .H = c->heads, .G = c->qk_heads,
	       .K = c->K, .V = c->V, .beta_scale = c->neg_eigval ? 2 : 1, .q = w->y[0], .k = w->y[1],
	       .v = w->y[2], .b = k->b, .g = k->g, .u = w->u, .d_o = w->d_o, .dq = w->dy[0], .dk = w->dy[1],
	       .dv = w->dy[2], .db = w->db, .dg = w->dg, .S = s->S, .dS = s->dS, .start = p->list.start,
	       .captures = p->captures, .cap_row = p->list.cap_row, .cap_slot = p->list.cap_slot);
	for (int i = 0; i < 3; i++) {
		conv.part[i] = conv_of(m, l, i);
		conv.part[i].dy = w->dy[i];
		conv.part[i].dweight = rf_dw(m, l->conv[i]);
	}
	m->dev->ops->conv_bwd(m->dev, &conv);
	/* add the gradients from later rows, and pass on the gradients of earlier rows */
	RF_RUN(m->dev, tail_keep, .back = true, .n = p->captures, .w = w1, .d = C, .x = w->dx,
	       .slots = s->dtail, .row = p->list.cap_row, .slot = p->list.cap_slot);
	RF_RUN(m->dev, tail_load, .back = true, .nb = p->nb, .n = p->n, .w = w1, .d = C, .x = w->dx,
	       .slots = s->dtail, .slot = p->list.start);
	if (c->decay)
		RF_RUN(m->dev, decay_bwd, .rows = rows, .H = c->heads, .a = k->a, .A_log = rf_w(m, l->A_log),
		       .dt_bias = rf_w(m, l->dt_bias), .dg = w->dg, .da = w->da, .dA_log = rf_dw(m, l->A_log),
		       .ddt_bias = rf_dw(m, l->dt_bias));
	rf_linears_bwd(m, l->proj, c->joint ? 1 : 3, rows, x, rf_at(w->dx, front), C, 0, dx, false);
	if (c->beta)
		rf_linear_bwd(m, l->b, RF_NO_WEIGHT, rows, x, w->db, 0, dx, true);
	if (c->gate)
		rf_linear_bwd(m, l->g, RF_NO_WEIGHT, rows, x, w->dgate, 0, dx, true);
	if (c->decay)
		rf_linear_bwd(m, l->a, RF_NO_WEIGHT, rows, x, w->da, 0, dx, true);
}

/* Counts S' k, k u' and S' q of every row and head. */
static double flops(const struct rf_config *c, int T)
{
	return 2. * T * 3 * c->delta.heads * c->delta.K * c->delta.V;
}

static void workspace(const struct rf_config *c, struct rf_workspace *need)
{
	enum { PAD = 16 }; /* a head is padded to whole vectors */
	const size_t K = (size_t)(c->delta.K + PAD - 1) / PAD * PAD,
		     V = (size_t)(c->delta.V + PAD - 1) / PAD * PAD;

	need->widest = first_column(&c->delta, 3) > need->widest ? first_column(&c->delta, 3) : need->widest;
	need->H = c->delta.heads;
	need->K = c->delta.K;
	need->V = c->delta.V;
	need->states = ((size_t)need->segment / RF_CHUNK + 1) * K * V;
}

/* clang-format off */
const struct rf_mixer rf_mixer_delta_net = {
	.name = "delta_net", .weights_size = sizeof(struct weights), .state_size = sizeof(struct state),
	.save_size = sizeof(struct save), .work_size = sizeof(struct work), .declare = declare,
	.state = state, .save = save, .work = work, .fwd = fwd, .capture = capture, .bwd = bwd,
	.flops = flops,
	.workspace = workspace
};
/* clang-format on */
