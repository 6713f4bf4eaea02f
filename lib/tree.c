/* tree.c -- the shared prefix.  See tree.h for the idea; here: where memory lies, and which rows a pass works on.
 *
 * All device memory of a tree is one block.  place() walks through it twice: once with no base, to count, and once to
 * hand out.  What one layer or pass does not keep for another shares its place with what the others do not. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tree.h"

enum { ALIGN = 64 };

static void *take(struct rf_arena *a, size_t n, size_t size)
{
	char *p = a->base ? a->base + a->used : NULL;

	a->used += (n * size + ALIGN - 1) / ALIGN * ALIGN;
	return p;
}

rf_f32 rf_arena_f32(struct rf_arena *a, size_t n) { return take(a, n, 4); }
rf_i32 rf_arena_i32(struct rf_arena *a, size_t n) { return take(a, n, 4); }
rf_f64 rf_arena_f64(struct rf_arena *a, size_t n) { return take(a, n, 8); }

static int round_up(int n)
{
	return (n + RF_CHUNK - 1) / RF_CHUNK * RF_CHUNK;
}

/* What a pass keeps: per layer where there will be a backward pass or another step, else one place for all. */
static void place_pass(struct rf_pass *p, struct rf_arena *a)
{
	const struct rf_model *m = p->tree->model;
	size_t R = (size_t)p->max_nb * (size_t)p->max_steps, d = (size_t)m->cfg->d, F = (size_t)m->cfg->ffn;
	size_t captures = (size_t)p->tree->plan.sites + 1, w = (size_t)p->tree->w;
	size_t first, most = 0;
	int L = m->cfg->layers;

	p->tokens = rf_arena_i32(a, R);
	p->past = rf_arena_i32(a, (size_t)p->max_nb);
	p->start = rf_arena_i32(a, captures);
	p->cap_row = rf_arena_i32(a, captures);
	p->cap_slot = rf_arena_i32(a, captures);
	p->tail_in = rf_arena_i32(a, (size_t)p->max_nb * w);
	p->tail_out = rf_arena_i32(a, captures * w);
	p->cap_in = rf_arena_i32(a, captures * w);
	for (int l = 0; l <= L; l++) {
		p->h[l] = p->train || !l ? rf_arena_f32(a, R * d) : p->h[0];
		if (l == L)
			break;
		p->mid[l] = p->train ? rf_arena_f32(a, R * d) : p->h[0];
		p->gate[l] = p->train || !l ? rf_arena_f32(a, R * F) : p->gate[0];
		p->up[l] = p->train || !l ? rf_arena_f32(a, R * F) : p->up[0];
	}
	first = a->used;
	for (int l = 0; l < L; l++) {
		if (!p->train && !p->grow)
			a->used = first;
		m->layer[l].mixer->save(p, l, a, &p->save[l]);
		most = a->used > most ? a->used : most;
	}
	a->used = most;
}

/* What a pass needs only while it runs: the same place for all passes and layers. */
static void place_work(struct rf_pass *p, struct rf_arena *a)
{
	const struct rf_model *m = p->tree->model;
	size_t R = (size_t)p->max_nb * (size_t)p->max_steps, d = (size_t)m->cfg->d, first, most;

	p->x = rf_arena_f32(a, R * d);
	p->act = rf_arena_f32(a, R * (size_t)m->cfg->ffn);
	p->hidden = rf_arena_f32(a, R * d);
	p->dh = p->train ? rf_arena_f32(a, R * d) : NULL;
	p->dx = p->train ? rf_arena_f32(a, R * d) : NULL;
	first = most = a->used;
	for (int l = 0; l < m->cfg->layers; l++) {
		a->used = first;
		m->layer[l].mixer->work(p, l, a, &p->work[l]);
		most = a->used > most ? a->used : most;
	}
	a->used = most;
}

static size_t place(struct rf_tree *t, char *base)
{
	struct rf_arena a = { base, 0 };
	size_t first, most;

	for (int l = 0; l < t->model->cfg->layers; l++)
		t->model->layer[l].mixer->state(t, l, &a, &t->state[l]);
	t->state_bytes = a.used;
	t->tokens = rf_arena_i32(&a, (size_t)t->plan.max_len);
	for (int i = 0; i < t->passes; i++)
		place_pass(&t->text[i], &a);
	if (t->branch.max_nb)
		place_pass(&t->branch, &a);
	first = most = a.used;
	for (int i = 0; i < t->passes; i++) {
		a.used = first;
		place_work(&t->text[i], &a);
		most = a.used > most ? a.used : most;
	}
	if (t->branch.max_nb) {
		a.used = first;
		place_work(&t->branch, &a);
		most = a.used > most ? a.used : most;
	}
	return most;
}

static bool new_pass(struct rf_pass *p, struct rf_tree *t, int nb, int steps)
{
	size_t L = (size_t)t->model->cfg->layers;

	*p = (struct rf_pass){ .tree = t, .max_nb = nb, .max_steps = steps, .train = t->plan.train };
	p->h = calloc(2 * L + 1 + 2 * L, sizeof *p->h);
	p->mid = p->h + L + 1;
	p->gate = p->mid + L;
	p->up = p->gate + L;
	p->save = calloc(L, sizeof *p->save);
	p->work = calloc(L, sizeof *p->work);
	return p->h && p->save && p->work;
}

/* A tree without its device memory. */
static struct rf_tree *describe(struct rf_model *m, const struct rf_plan *plan)
{
	struct rf_tree *t = calloc(1, sizeof *t);
	int segment = round_up(plan->segment < plan->max_len ? plan->segment : plan->max_len);
	int nb, rows;
	size_t lists;
	bool ok;

	/* a stream's positions times an option's rollouts: rows are counted in int */
	if (!t || __builtin_mul_overflow(plan->sites, plan->per, &nb) || __builtin_mul_overflow(nb, plan->steps + 1, &rows)) {
		free(t);
		return NULL;
	}
	t->model = m;
	t->plan = *plan;
	t->plan.segment = segment;
	t->w = m->cfg->use_short_conv ? m->cfg->conv_size : 1;
	t->segments_max = (plan->max_len + segment - 1) / segment;
	t->text_slots = plan->train ? t->segments_max + 1 : 1;
	t->slots = t->text_slots + plan->sites;
	t->passes = plan->train && !plan->recompute ? t->segments_max : 1;
	t->state = calloc((size_t)m->cfg->layers, sizeof *t->state);
	t->text = calloc((size_t)t->passes, sizeof *t->text);
	t->site_row = calloc((size_t)plan->sites * 2 + 1, sizeof *t->site_row);
	lists = ((size_t)plan->sites * (size_t)plan->per + (size_t)plan->sites + 2) * (size_t)t->w + 16;
	t->list = calloc(2 * lists, sizeof *t->list);
	ok = t->state && t->text && t->site_row && t->list;
	for (int i = 0; ok && i < t->passes; i++)
		ok = new_pass(&t->text[i], t, 1, segment < plan->max_len ? segment : plan->max_len);
	if (ok && plan->sites && plan->steps) {
		ok = new_pass(&t->branch, t, nb, plan->steps);
		t->branch.branch = true;
		t->branch.grow = plan->grow;
	}
	if (!ok) {
		rf_tree_free(t);
		return NULL;
	}
	t->order = t->site_row + plan->sites;
	t->bytes = place(t, NULL);
	return t;
}

size_t rf_tree_bytes(struct rf_model *m, const struct rf_plan *plan)
{
	struct rf_tree *t = describe(m, plan);
	size_t bytes = t ? t->bytes : 0;

	rf_tree_free(t);
	return bytes;
}

enum rf_code rf_tree_new(struct rf_tree **out, struct rf_model *m, const struct rf_plan *plan, struct rf_err *e)
{
	struct rf_tree *t = describe(m, plan);

	*out = NULL;
	if (!t)
		return rf_fail(e, RF_ENOMEM, "no memory for the plan of a sequence of %d tokens", plan->max_len);
	if (!(t->memory = m->dev->ops->alloc(m->dev, t->bytes))) {
		rf_tree_free(t);
		return rf_dev_sync(m->dev, e);
	}
	place(t, t->memory);
	*out = t;
	return RF_OK;
}

static void free_pass(struct rf_pass *p)
{
	free(p->h);
	free(p->save);
	free(p->work);
}

void rf_tree_free(struct rf_tree *t)
{
	if (!t)
		return;
	t->model->dev->ops->release(t->model->dev, t->memory);
	for (int i = 0; t->text && i < t->passes; i++)
		free_pass(&t->text[i]);
	free_pass(&t->branch);
	free(t->state);
	free(t->text);
	free(t->site_row);
	free(t->list);
	free(t);
}

/* ---- which rows ------------------------------------------------------------------------------------------------- */

int rf_tree_first(const struct rf_tree *t, int i)
{
	return i * t->plan.segment;
}

int rf_tree_rows(const struct rf_tree *t, int i)
{
	int first = rf_tree_first(t, i);

	return t->T - first < t->plan.segment ? t->T - first : t->plan.segment;
}

static void upload(struct rf_tree *t, rf_i32 to, const int32_t *from, int n)
{
	if (n)
		t->model->dev->ops->upload(t->model->dev, to, from, (size_t)n * sizeof *from);
}

void rf_tree_begin(struct rf_tree *t, const int32_t *tokens, int T, const int *row, int sites)
{
	t->T = T;
	t->segments = (T + t->plan.segment - 1) / t->plan.segment;
	t->sites = sites;
	t->held = -1;
	upload(t, t->tokens, tokens, T);
	t->model->dev->ops->zero(t->model->dev, t->memory, t->state_bytes);
	for (int i = 0; i < sites; i++) {
		int j = i;

		t->site_row[i] = row[i];
		for (; j && row[t->order[j - 1]] > row[i]; j--) /* few, and mostly in order */
			t->order[j] = t->order[j - 1];
		t->order[j] = i;
	}
}

/* Makes pass p work on segment i: the state it begins from, and the states to keep of its rows. */
static void aim(struct rf_tree *t, struct rf_pass *p, int i)
{
	int first = rf_tree_first(t, i), rows = rf_tree_rows(t, i), w1 = t->w - 1, n = 0;
	int32_t slot = t->plan.train ? i : 0, pos = first, *cap_row = t->list, *cap_slot = cap_row + t->sites + 1;
	int32_t *cap_in = cap_slot + t->sites + 1, *tail_out = cap_in + (t->sites + 1) * t->w;

	p->nb = p->per = 1;
	p->steps = rows;
	p->given = 0;
	p->pos = p->longest = first;
	upload(t, p->past, &pos, 1);
	upload(t, p->start, &slot, 1);
	for (int j = 0; j < t->sites; j++) {
		int s = t->order[j];
		if (t->site_row[s] >= first && t->site_row[s] < first + rows) {
			cap_row[n] = t->site_row[s] - first;
			cap_slot[n++] = t->text_slots + s;
		}
	}
	if (i + 1 < t->segments) {
		cap_row[n] = rows - 1;
		cap_slot[n++] = t->plan.train ? i + 1 : 0;
	}
	for (int j = 0; j < n; j++)
		for (int l = 0; l < w1; l++) {
			cap_in[j * w1 + l] = cap_row[j] + 1 + l;
			tail_out[j * w1 + l] = cap_slot[j] * w1 + l;
		}
	p->captures = n;
	p->cap_tails = n * w1;
	upload(t, p->cap_row, cap_row, n);
	upload(t, p->cap_slot, cap_slot, n);
	upload(t, p->cap_in, cap_in, n * w1);
	upload(t, p->tail_out, tail_out, n * w1);
	p->tails = w1;
	for (int l = 0; l < w1; l++)
		cap_in[l] = slot * w1 + l;
	upload(t, p->tail_in, cap_in, w1);
}

/* Makes the rollouts' pass begin: `per` below each site. */
static void aim_branch(struct rf_tree *t, int per)
{
	struct rf_pass *p = &t->branch;
	int w1 = t->w - 1, nb = t->sites * per;

	p->nb = nb;
	p->per = per;
	p->given = 0;
	p->captures = p->cap_tails = 0;
	p->longest = 0;
	for (int b = 0; b < nb; b++) {
		t->list[b] = t->site_row[b / per] + 1;
		p->longest = t->list[b] > p->longest ? t->list[b] : p->longest;
	}
	upload(t, p->past, t->list, nb);
	for (int s = 0; s < t->sites; s++)
		t->list[s] = t->text_slots + s;
	upload(t, p->start, t->list, t->sites);
	for (int l = 0; l < w1; l++)
		for (int b = 0; b < nb; b++)
			t->list[l * nb + b] = (t->text_slots + b / per) * w1 + l;
	p->tails = nb * w1;
	upload(t, p->tail_in, t->list, p->tails);
}

/* ---- forward ---------------------------------------------------------------------------------------------------- */

static void copy(const struct rf_model *m, int rows, rf_f32 from, rf_f32 to)
{
	if (from != to)
		RF(m->dev, rows, .n = rows, .d = m->cfg->d, .from = from, .to = to);
}

static rf_f32 final_norm(struct rf_pass *p)
{
	const struct rf_model *m = p->tree->model;

	RF(m->dev, rmsnorm_fwd, .rows = p->nb * p->steps, .d = m->cfg->d, .eps = (float)m->cfg->norm_eps, .x = p->h[m->cfg->layers],
	   .w = rf_w(m, m->norm), .y = p->hidden);
	return p->hidden;
}

/* Notes the first row of a layer's output that is not finite. */
static void look(struct rf_pass *p, int layer, rf_f32 h)
{
	struct rf_tree *t = p->tree;
	size_t d = (size_t)t->model->cfg->d, n = (size_t)p->nb * (size_t)p->steps * d;
	float *x = t->bad_layer < 0 ? malloc(n * 4) : NULL;

	if (!x)
		return;
	t->model->dev->ops->download(t->model->dev, x, h, n * 4);
	for (size_t i = 0; i < n && t->bad_layer < 0; i++)
		if (!isfinite(x[i])) {
			t->bad_layer = layer;
			t->bad_row = p->pos + (int)(i / d);
		}
	free(x);
}

bool rf_tree_blame(struct rf_tree *t, int *layer, int *position)
{
	t->model->dev->ops->zero(t->model->dev, t->memory, t->state_bytes);
	t->watch = true;
	t->bad_layer = -1;
	for (int i = 0; i < t->segments && t->bad_layer < 0; i++)
		rf_tree_forward(t, i);
	t->watch = false;
	*layer = t->bad_layer;
	*position = t->bad_row;
	return t->bad_layer >= 0;
}

static rf_f32 run(struct rf_pass *p, rf_i32 tokens)
{
	const struct rf_model *m = p->tree->model;
	const struct rf_config *c = m->cfg;
	int rows = p->nb * p->steps;
	static const struct rf_weight none;

	RF(m->dev, embed_fwd, .rows = rows, .d = c->d, .tokens = tokens, .w = rf_w(m, m->embed), .y = p->h[0]);
	for (int i = 0; i < c->layers; i++) {
		const struct rf_layer *l = &m->layer[i];

		RF(m->dev, rmsnorm_fwd, .rows = rows, .d = c->d, .eps = (float)c->norm_eps, .x = p->h[i], .w = rf_w(m, l->attn_norm), .y = p->x);
		copy(m, rows, p->h[i], p->mid[i]);
		l->mixer->fwd(p, i, p->x, p->mid[i]);
		RF(m->dev, rmsnorm_fwd, .rows = rows, .d = c->d, .eps = (float)c->norm_eps, .x = p->mid[i], .w = rf_w(m, l->mlp_norm), .y = p->x);
		rf_linear_fwd(m, l->gate, none, rows, p->x, p->gate[i], false);
		rf_linear_fwd(m, l->up, none, rows, p->x, p->up[i], false);
		RF(m->dev, swiglu_fwd, .n = (size_t)rows * (size_t)c->ffn, .gate = p->gate[i], .up = p->up[i], .y = p->act);
		copy(m, rows, p->mid[i], p->h[i + 1]);
		rf_linear_fwd(m, l->down, none, rows, p->act, p->h[i + 1], true);
		if (p->tree->watch)
			look(p, i, p->h[i + 1]);
	}
	return final_norm(p);
}

static struct rf_pass *pass_of(struct rf_tree *t, int i)
{
	return &t->text[t->passes > 1 ? i : 0];
}

rf_f32 rf_tree_forward(struct rf_tree *t, int i)
{
	struct rf_pass *p = pass_of(t, i);

	aim(t, p, i);
	t->held = i;
	return run(p, rf_at_i32(t->tokens, (size_t)p->pos));
}

rf_f32 rf_tree_again(struct rf_tree *t, int i)
{
	if (t->passes > 1 || t->held == i)
		return final_norm(pass_of(t, i));
	return rf_tree_forward(t, i);
}

rf_f32 rf_tree_branch(struct rf_tree *t, int per, int steps, const int32_t *tokens)
{
	struct rf_pass *p = &t->branch;

	aim_branch(t, per);
	p->steps = steps;
	upload(t, p->tokens, tokens, p->nb * steps);
	return run(p, p->tokens);
}

void rf_tree_grow_begin(struct rf_tree *t, int per)
{
	aim_branch(t, per);
	t->branch.steps = 0;
}

rf_f32 rf_tree_grow(struct rf_tree *t, rf_i32 tokens)
{
	struct rf_pass *p = &t->branch;

	p->given += p->steps;
	p->steps = 1;
	return run(p, tokens);
}

/* ---- backward --------------------------------------------------------------------------------------------------- */

static void back(struct rf_pass *p, rf_i32 tokens, rf_f32 dhidden)
{
	const struct rf_model *m = p->tree->model;
	const struct rf_config *c = m->cfg;
	int rows = p->nb * p->steps;
	float eps = (float)c->norm_eps;
	static const struct rf_weight none;

	RF(m->dev, rmsnorm_bwd, .rows = rows, .d = c->d, .eps = eps, .x = p->h[c->layers], .w = rf_w(m, m->norm), .dy = dhidden,
	   .dx = p->dh, .dw = rf_dw(m, m->norm));
	for (int i = c->layers - 1; i >= 0; i--) {
		const struct rf_layer *l = &m->layer[i];

		RF(m->dev, gemm, .m = rows, .n = c->ffn, .k = c->d, .weight = true, .a = p->dh, .lda = c->d, .b = rf_w(m, l->down),
		   .ldb = c->ffn, .c = p->act, .ldc = c->ffn);
		/* in place: gate and up become their gradients, act the activation again */
		RF(m->dev, swiglu_bwd, .n = (size_t)rows * (size_t)c->ffn, .gate = p->gate[i], .up = p->up[i], .dy = p->act,
		   .dgate = p->gate[i], .dup = p->up[i], .y = p->act);
		rf_linear_bwd(m, l->down, none, rows, p->act, p->dh, NULL, false);
		RF(m->dev, rmsnorm_fwd, .rows = rows, .d = c->d, .eps = eps, .x = p->mid[i], .w = rf_w(m, l->mlp_norm), .y = p->x);
		rf_linear_bwd(m, l->gate, none, rows, p->x, p->gate[i], p->dx, false);
		rf_linear_bwd(m, l->up, none, rows, p->x, p->up[i], p->dx, true);
		RF(m->dev, rmsnorm_bwd, .rows = rows, .d = c->d, .eps = eps, .add = true, .x = p->mid[i], .w = rf_w(m, l->mlp_norm),
		   .dy = p->dx, .dx = p->dh, .dw = rf_dw(m, l->mlp_norm));

		RF(m->dev, rmsnorm_fwd, .rows = rows, .d = c->d, .eps = eps, .x = p->h[i], .w = rf_w(m, l->attn_norm), .y = p->x);
		l->mixer->bwd(p, i, p->x, p->dh, p->dx);
		RF(m->dev, rmsnorm_bwd, .rows = rows, .d = c->d, .eps = eps, .add = true, .x = p->h[i], .w = rf_w(m, l->attn_norm),
		   .dy = p->dx, .dx = p->dh, .dw = rf_dw(m, l->attn_norm));
	}
	RF(m->dev, embed_bwd, .rows = rows, .d = c->d, .tokens = tokens, .dy = p->dh, .dw = rf_dw(m, m->embed));
}

void rf_tree_backward_branch(struct rf_tree *t, rf_f32 dhidden)
{
	back(&t->branch, t->branch.tokens, dhidden);
}

void rf_tree_backward(struct rf_tree *t, int i, rf_f32 dhidden)
{
	struct rf_pass *p = pass_of(t, i);

	back(p, rf_at_i32(t->tokens, (size_t)p->pos), dhidden);
	t->held = -1;
}
