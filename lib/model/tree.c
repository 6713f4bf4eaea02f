/* tree.c -- the shared prefix: where its memory lies, and which rows a pass works on (idea: tree.h).
 *
 * All device memory of a tree is one block.  place_tree() walks through it twice: once without a base
 * address, to count, and once to hand out the pieces.  Whatever a layer or pass does not have to keep while
 * others run shares its place with theirs. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/tree_pass.h"

static rf_i32 list_on_device(const struct rf_pass *p, const int *on_host)
{
	return rf_at_i32(p->lists, (size_t)(on_host - p->host.past_len));
}

/* What a pass keeps: per layer where there will be a backward pass or another step, else one place for
 * all. */
static void place_kept(struct rf_pass *p, struct rf_arena *a)
{
	const struct rf_model *m = p->tree->model;
	size_t R = rf_pass_rows(p), d = (size_t)m->cfg->d, F = (size_t)m->cfg->ffn;
	size_t first, most = 0;
	int L = m->cfg->layers;

	p->tokens = rf_arena_i32(a, R);
	p->lists = rf_arena_i32(a, rf_pass_list_numbers(p));
	p->past_len = list_on_device(p, p->host.past_len);
	p->start = list_on_device(p, p->host.start);
	p->open_rows = list_on_device(p, p->host.open_rows);
	p->cap_row = list_on_device(p, p->host.cap_row);
	p->cap_slot = list_on_device(p, p->host.cap_slot);
	p->cache_len = list_on_device(p, p->host.cache_len);
	p->cache_start = p->branch && p->tree->plan.apart ? list_on_device(p, p->host.cache_start) : NULL;
	for (int l = 0; l <= L; l++) {
		p->h[l] = p->train || !l ? rf_arena_f32(a, R * d) : p->h[0];
		if (l == L)
			break;
		p->mid[l] = p->train ? rf_arena_f32(a, R * d) : p->h[0];
		p->mlp[l] = p->train || !l ? rf_arena_f32(a, R * 2 * F) : p->mlp[0];
	}
	first = a->used;
	for (int l = 0; l < L; l++) {
		if (!p->train && !p->decode)
			a->used = first;
		m->layer[l].mixer->save(p, l, a, p->save[l]);
		most = a->used > most ? a->used : most;
	}
	a->used = most;
}

/* What a pass needs only while it runs: the same place for all passes and layers. */
static void place_work(struct rf_pass *p, struct rf_arena *a)
{
	const struct rf_model *m = p->tree->model;
	size_t R = rf_pass_rows(p), d = (size_t)m->cfg->d, first, most;

	p->x = rf_arena_f32(a, R * d);
	p->act = rf_arena_f32(a, R * (size_t)m->cfg->ffn);
	p->hidden = rf_arena_f32(a, R * d);
	p->dh = p->train ? rf_arena_f32(a, R * d) : NULL;
	p->dx = p->train ? rf_arena_f32(a, R * d) : NULL;
	first = most = a->used;
	for (int l = 0; l < m->cfg->layers; l++) {
		a->used = first;
		m->layer[l].mixer->work(p, l, a, p->work[l]);
		most = a->used > most ? a->used : most;
	}
	a->used = most;
}

static size_t place_tree(struct rf_tree *t, char *base)
{
	struct rf_pass *const rollouts[2] = { &t->draw, &t->branch };
	struct rf_arena a = { base, 0 };
	size_t first, most;

	for (int l = 0; l < t->model->cfg->layers; l++)
		t->model->layer[l].mixer->state(t, l, &a, t->state[l]);
	t->state_bytes = a.used;
	t->tokens = rf_arena_i32(&a, (size_t)t->plan.max_len);
	for (int i = 0; i < t->passes; i++)
		place_kept(&t->sequence[i], &a);
	/* rollouts are drawn before they are trained on: both passes have the same place */
	first = most = a.used;
	for (int i = 0; i < 2; i++) {
		a.used = first;
		if (rollouts[i]->max_nb)
			place_kept(rollouts[i], &a);
		most = a.used > most ? a.used : most;
	}
	first = most;
	for (int i = 0; i < t->passes; i++) {
		a.used = first;
		place_work(&t->sequence[i], &a);
		most = a.used > most ? a.used : most;
	}
	for (int i = 0; i < 2; i++) {
		a.used = first;
		if (rollouts[i]->max_nb)
			place_work(rollouts[i], &a);
		most = a.used > most ? a.used : most;
	}
	return most;
}

/* One of the sizes in a mixer's table, the one at offset `at`, rounded up to 16 bytes. */
static size_t mixer_size(const struct rf_mixer *x, size_t at)
{
	size_t size;

	memcpy(&size, (const char *)x + at, sizeof size);
	return (size + 15) / 16 * 16;
}

/* Pointers to one block of zeroed memory per layer, of the size that its mixer wants; free() the first and
 * the array.  at: the offset of that size in struct rf_mixer. */
static void **new_layers(const struct rf_model *m, size_t at)
{
	size_t L = (size_t)m->cfg->layers, bytes = 0;
	void **p = calloc(L, sizeof *p);
	char *block;

	for (size_t l = 0; l < L; l++)
		bytes += mixer_size(m->layer[l].mixer, at);
	if (!p || !(block = calloc(1, bytes + 1))) {
		free(p);
		return NULL;
	}
	for (size_t l = 0; l < L; l++) {
		p[l] = block;
		block += mixer_size(m->layer[l].mixer, at);
	}
	return p;
}

static void free_layers(void **p)
{
	if (p)
		free(p[0]);
	free(p);
}

static bool new_pass(struct rf_pass *p, struct rf_tree *t, int nb, int steps, bool train)
{
	size_t L = (size_t)t->model->cfg->layers, slots = (size_t)t->plan.positions + 1, n = (size_t)nb;

	*p = (struct rf_pass){ .tree = t, .max_nb = nb, .max_steps = steps, .train = train };
	p->h = calloc(L + 1 + 2 * L, sizeof *p->h);
	p->mid = p->h + L + 1;
	p->mlp = p->mid + L;
	p->save = new_layers(t->model, offsetof(struct rf_mixer, save_size));
	p->work = new_layers(t->model, offsetof(struct rf_mixer, work_size));
	if (!(p->host.past_len = calloc(rf_pass_list_numbers(p) + n, sizeof *p->host.past_len)))
		return false;
	p->host.start = p->host.past_len + n;
	p->host.open_rows = p->host.start + slots;
	p->host.cap_row = p->host.open_rows + slots;
	p->host.cap_slot = p->host.cap_row + slots;
	p->host.cache_len = p->host.cap_slot + slots;
	p->host.cache_start = p->host.cache_len + n;
	p->bad_chunk = p->host.cache_start + n;
	return p->h && p->save && p->work;
}

/* How many rows of the sequence mixers keep that read rows.  With a window, and without a backward pass,
 * those of a segment and those before it that it sees.  Returns whether any does. */
static bool plan_cache(struct rf_tree *t)
{
	const struct rf_config *c = t->model->cfg;
	int len = t->plan.max_len, window = 0;

	for (int l = 0; l < c->layers; l++) {
		int reads = c->mixer[l]->reads ? c->mixer[l]->reads(c) : 0;

		window = reads > window ? reads : window;
	}
	t->before_max = t->kept_max = len;
	if (!window || window == RF_ALL_ROWS || t->plan.train)
		return window;
	if (window <= len) /* in whole segments, if these divide it: so many rows then move at once */
		t->before_max = rf_segment(window - 1) < len ? rf_segment(window - 1) : len;
	if (t->before_max + t->plan.segment < len)
		t->kept_max = t->before_max + t->plan.segment;
	t->passing = !t->plan.positions;
	return true;
}

/* The most rows of a rollout that is run at once.  The last token of one that was drawn needs no row to be
 * trained on. */
static int most_branch_rows(const struct rf_plan *plan)
{
	return !plan->decode ? plan->k : plan->train ? plan->k - 1 : 0;
}

/* A tree without its device memory. */
static struct rf_tree *new_without_memory(struct rf_model *m, const struct rf_plan *plan)
{
	struct rf_tree *t = calloc(1, sizeof *t);
	int segment = rf_segment(plan->segment < plan->max_len ? plan->segment : plan->max_len);
	int nb, rows, kept;
	bool ok;

	/* a stream's positions times an option's rollouts: rows are counted in int */
	if (!t || __builtin_mul_overflow(plan->positions, plan->n, &nb) ||
	    __builtin_mul_overflow(nb, plan->k + 1, &rows)) {
		free(t);
		return NULL;
	}
	t->model = m;
	t->plan = *plan;
	t->plan.segment = segment;
	t->segments_max = (plan->max_len + segment - 1) / segment;
	t->sequence_slots = plan->train ? t->segments_max + 1 : 2;
	t->slots = t->sequence_slots + plan->positions;
	t->passes = plan->train && !plan->recompute ? t->segments_max : 1;
	t->apart = plan_cache(t) && plan->apart ? rf_segment(t->kept_max) : 0;
	if (__builtin_mul_overflow(plan->positions, t->apart, &kept)) { /* as those of all sequences */
		free(t);
		return NULL;
	}
	t->state = new_layers(m, offsetof(struct rf_mixer, state_size));
	t->sequence = calloc((size_t)t->passes, sizeof *t->sequence);
	t->position_row = calloc((size_t)plan->positions * 4 + 1, sizeof *t->position_row);
	ok = t->state && t->sequence && t->position_row;
	for (int i = 0; ok && i < t->passes; i++)
		ok = new_pass(&t->sequence[i], t, 1, segment < plan->max_len ? segment : plan->max_len,
		              plan->train);
	if (ok && plan->positions && plan->k && plan->decode) {
		ok = new_pass(&t->draw, t, nb, plan->k, false);
		t->draw.branch = t->draw.decode = true;
	}
	if (ok && plan->positions && most_branch_rows(plan)) {
		ok = new_pass(&t->branch, t, nb, most_branch_rows(plan), plan->train);
		t->branch.branch = true;
	}
	if (!ok) {
		rf_tree_free(t);
		return NULL;
	}
	t->order = t->position_row + plan->positions;
	t->all = t->order + plan->positions;
	t->position_gone = t->all + plan->positions;
	for (int i = 0; i < plan->positions; i++)
		t->all[i] = i;
	t->bytes = place_tree(t, NULL);
	return t;
}

size_t rf_tree_bytes(struct rf_model *m, const struct rf_plan *plan)
{
	struct rf_tree *t = new_without_memory(m, plan);
	size_t bytes = t ? t->bytes : 0;

	rf_tree_free(t);
	return bytes;
}

enum rf_code rf_tree_new(struct rf_tree **out, struct rf_model *m, const struct rf_plan *plan,
                         struct rf_err *e)
{
	struct rf_tree *t = new_without_memory(m, plan);

	*out = NULL;
	if (!t)
		return rf_fail(e, RF_ENOMEM, "out of memory (the plan of a sequence of %d tokens)",
		               plan->max_len);
	if (!(t->memory = m->dev->ops->alloc(m->dev, t->bytes))) {
		rf_tree_free(t);
		return rf_dev_sync(m->dev, e);
	}
	place_tree(t, t->memory);
	*out = t;
	return RF_OK;
}

static void free_pass(struct rf_pass *p)
{
	free(p->h);
	free_layers(p->save);
	free_layers(p->work);
	free(p->host.past_len);
}

void rf_tree_free(struct rf_tree *t)
{
	if (!t)
		return;
	t->model->dev->ops->release(t->model->dev, t->memory);
	for (int i = 0; t->sequence && i < t->passes; i++)
		free_pass(&t->sequence[i]);
	free_pass(&t->branch);
	free_pass(&t->draw);
	free_layers(t->state);
	free(t->sequence);
	free(t->position_row);
	free(t);
}

/* ---- which rows ---------------------------------------------------------------------------- */

int rf_tree_first(const struct rf_tree *t, int i)
{
	return i * t->plan.segment;
}

int rf_tree_rows(const struct rf_tree *t, int i)
{
	int first = rf_tree_first(t, i);

	return t->T - first < t->plan.segment ? t->T - first : t->plan.segment;
}

void rf_tree_upload(struct rf_tree *t, rf_i32 to, const int *from, int n)
{
	if (n)
		t->model->dev->ops->upload(t->model->dev, to, from, (size_t)n * sizeof *from);
}

static void begin_sequence(struct rf_tree *t, const int32_t *tokens, int T)
{
	t->T = T;
	t->segments = (T + t->plan.segment - 1) / t->plan.segment;
	t->slides = t->passing || T > t->kept_max;
	t->held = -1;
	t->ready = 0;
	t->rollouts = NULL;
	t->branch.steps = 0;
	rf_tree_upload(t, t->tokens, tokens, T);
}

/* Rows that are no longer kept when segment i is run: the places of the others are counted from there. */
static int dropped_rows(const struct rf_tree *t, int i)
{
	int first = rf_tree_first(t, i);

	return t->slides && first > t->before_max ? first - t->before_max : 0;
}

static void set_positions(struct rf_tree *t, const int *row, int positions)
{
	t->positions = positions;
	for (int i = 0; i < positions; i++) {
		int j = i;

		t->position_row[i] = row[i];
		t->position_gone[i] = dropped_rows(t, row[i] / t->plan.segment);
		for (; j && row[t->order[j - 1]] > row[i]; j--) /* few, and mostly in order */
			t->order[j] = t->order[j - 1];
		t->order[j] = i;
	}
}

void rf_tree_begin(struct rf_tree *t, const int32_t *tokens, int T, const int *row, int positions)
{
	begin_sequence(t, tokens, T);
	t->model->dev->ops->zero(t->model->dev, t->memory, t->state_bytes);
	set_positions(t, row, positions);
}

void rf_tree_clear(struct rf_tree *t)
{
	t->positions = 0;
	t->model->dev->ops->zero(t->model->dev, t->memory, t->state_bytes);
}

void rf_tree_add(struct rf_tree *t, const int32_t *tokens, int T)
{
	int i = t->positions++;

	begin_sequence(t, tokens, T);
	t->own = t->order[i] = i;
	t->position_row[i] = T - 1;
	t->position_gone[i] = dropped_rows(t, t->segments - 1);
}

/* Which positions' rollouts are ready after segment i. */
static void set_ready(struct rf_tree *t, int i)
{
	int first = rf_tree_first(t, i), end = first + rf_tree_rows(t, i), from = 0, to = 0;

	if (!t->slides || t->plan.apart) {
		t->ready = i + 1 == t->segments ? t->positions : 0;
		t->ready_list = t->all;
		t->ready_by_row = t->order;
		return;
	}
	for (int j = 0; j < t->positions; j++) {
		from += t->position_row[t->order[j]] < first;
		to += t->position_row[t->order[j]] < end;
	}
	t->ready = to - from;
	t->ready_list = t->order + from;
	t->ready_by_row = t->all;
}

int rf_tree_ready(const struct rf_tree *t, const int **position)
{
	if (position)
		*position = t->ready_list;
	return t->ready;
}

static void upload_lists(struct rf_pass *p)
{
	rf_tree_upload(p->tree, p->lists, p->host.past_len, (int)rf_pass_list_numbers(p));
}

/* The slot of the state at a segment's start. */
static int start_slot(const struct rf_tree *t, int segment)
{
	return t->plan.train || !segment ? segment : 1;
}

/* Makes pass p work on a segment: the state it begins from, and the states to keep of its rows. */
static void set_segment_rows(struct rf_tree *t, struct rf_pass *p, int segment)
{
	int first = rf_tree_first(t, segment), rows = rf_tree_rows(t, segment), n = 0;

	p->nb = p->n = 1;
	p->steps = rows;
	p->decoded = 0;
	p->first_row = first;
	p->cached = first - dropped_rows(t, segment);
	p->host.past_len[0] = first;
	p->host.start[0] = start_slot(t, segment);
	p->host.cache_len[0] = p->cached;
	for (int j = t->own; j < t->positions; j++) {
		int i = t->order[j], row = t->position_row[i];

		if (row >= first && row < first + rows) {
			p->host.cap_row[n] = row - first;
			p->host.cap_slot[n++] = t->sequence_slots + i;
		}
	}
	if (segment + 1 < t->segments) {
		p->host.cap_row[n] = rows - 1;
		p->host.cap_slot[n++] = start_slot(t, segment + 1);
	}
	p->captures = n;
	upload_lists(p);
}

struct rf_pass *rf_tree_pass(struct rf_tree *t, int i)
{
	return &t->sequence[t->passes > 1 ? i : 0];
}

struct rf_pass *rf_tree_set_segment(struct rf_tree *t, int i)
{
	struct rf_pass *p = rf_tree_pass(t, i);

	set_segment_rows(t, p, i);
	set_ready(t, i);
	return p;
}

/* Makes a pass over rollouts begin: n at each position that is ready. */
void rf_pass_set_branches(struct rf_tree *t, struct rf_pass *p, int n)
{
	t->rollouts = p;
	p->positions = t->ready;
	p->position = t->ready_list;
	p->by_row = t->ready_by_row;
	p->nb = p->positions * n;
	p->n = n;
	p->decoded = 0;
	p->steps = 0;
	p->captures = 0;
	p->cached = 0;
	for (int b = 0; b < p->nb; b++) {
		int i = p->position[b / n], past = t->position_row[i] + 1, end = past - t->position_gone[i];

		p->host.past_len[b] = past;
		p->host.cache_len[b] = end;
		p->host.cache_start[b] = i * t->apart;
		p->cached = end > p->cached ? end : p->cached;
	}
	for (int i = 0; i < p->positions; i++) {
		p->host.start[i] = t->sequence_slots + p->position[i];
		p->host.open_rows[i] = (t->position_row[p->position[i]] + 1) % RF_CHUNK;
	}
	upload_lists(p);
}

/* ---- forward ------------------------------------------------------------------------------- */

static void copy_rows(const struct rf_model *m, int rows, rf_f32 from, rf_f32 to)
{
	if (from != to)
		RF_RUN(m->dev, rows, .n = rows, .d = m->cfg->d, .from = from, .to = to);
}

/* y = the norm of x, one of those of hidden states; and its gradient, added to dx where that is said. */
static void norm_fwd(const struct rf_pass *p, struct rf_weight w, rf_f32 x, rf_f32 y)
{
	const struct rf_model *m = p->tree->model;

	RF_RUN(m->dev, rmsnorm_fwd, .rows = p->nb * p->steps, .d = m->cfg->d, .eps = (float)m->cfg->norm_eps,
	       .plus_one = m->cfg->norm_plus_one, .operand = true, .x = x, .w = rf_w(m, w), .y = y);
}

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

	norm_fwd(p, m->norm, p->h[m->cfg->layers], p->hidden);
	return p->hidden;
}

/* The first of n numbers that is not finite, n if none is; they are fetched a piece at a time. */
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

	if (t->watch && t->bad.layer < 0 && p->bad_chunk[b] < 0 && first_not_finite(t, x, n) < n)
		p->bad_chunk[b] = chunk;
}

/* Before a layer is run whose output is looked at. */
void rf_blame_layer(struct rf_pass *p)
{
	for (int b = 0; p->tree->watch && b < p->nb; b++)
		p->bad_chunk[b] = -1;
}

/* Notes the first row of a layer's output that is not finite. */
void rf_blame_output(struct rf_pass *p, int layer, rf_f32 h)
{
	struct rf_tree *t = p->tree;
	size_t d = (size_t)t->model->cfg->d, n = (size_t)p->nb * (size_t)p->steps * d;
	size_t i = t->watch && t->bad.layer < 0 ? first_not_finite(t, h, n) : n;
	int row, b;

	if (i == n)
		return;
	row = (int)(i / d);
	b = row % p->nb;
	t->bad.layer = layer;
	t->bad.rollout = p->branch ? p->position[b / p->n] * p->n + b % p->n : -1;
	t->bad.row = p->host.past_len[b] + p->decoded + row / p->nb;
	t->bad.chunk = p->bad_chunk[b];
}

/* How gate and up lie in p->mlp[i]: side by side where a device multiplies by both weights at once, else one
 * matrix behind the other.  up: where it begins; ld: numbers from row to row; apart: of rf_linears_fwd(). */
struct mlp { size_t up, apart; int ld; };
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
	const struct mlp mlp = mlp_of(p);
	int rows = p->nb * p->steps;

	RF_RUN(m->dev, embed_fwd, .rows = rows, .d = c->d, .tokens = tokens, .w = rf_w(m, m->embed),
	       .y = p->h[0]);
	for (int i = 0; i < c->layers; i++) {
		const struct rf_layer *l = &m->layer[i];

		rf_blame_layer(p);
		/* a norm right before the products by it: a device may write x in another form besides */
		copy_rows(m, rows, p->h[i], p->mid[i]);
		norm_fwd(p, l->mixer_norm, p->h[i], p->x);
		l->mixer->fwd(p, i, p->x, p->mid[i]);
		copy_rows(m, rows, p->mid[i], p->h[i + 1]);
		norm_fwd(p, l->mlp_norm, p->mid[i], p->x);
		rf_linears_fwd(m, l->gate_up, 2, rows, p->x, p->mlp[i], mlp.ld, mlp.apart);
		RF_RUN(m->dev, swiglu_fwd, .n = (size_t)rows * (size_t)c->ffn, .d = c->ffn, .ld = mlp.ld,
		       .gate = p->mlp[i], .up = rf_at(p->mlp[i], mlp.up), .y = p->act);
		rf_linear_fwd(m, l->down, RF_NO_WEIGHT, rows, p->act, p->h[i + 1], 0, true);
		rf_blame_output(p, i, p->h[i + 1]);
	}
	return final_norm(p);
}

rf_f32 rf_tree_forward(struct rf_tree *t, int i)
{
	struct rf_pass *p = rf_tree_set_segment(t, i);

	t->held = i;
	return rf_pass_fwd(p, rf_at_i32(t->tokens, (size_t)p->first_row));
}

static bool holds_activations(const struct rf_tree *t, int i) { return t->passes > 1 || t->held == i; }

void rf_tree_branch_off(struct rf_tree *t, const int *row, int positions)
{
	t->ready = 0;
	set_positions(t, row, positions);
}

rf_f32 rf_tree_capture(struct rf_tree *t, int i)
{
	const struct rf_model *m = t->model;
	struct rf_pass *p;

	/* where segments are run again, what mixers keep of one depends on the positions */
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

void rf_tree_decode_begin(struct rf_tree *t, int n)
{
	rf_pass_set_branches(t, &t->draw, n);
}

rf_f32 rf_tree_decode(struct rf_tree *t, rf_i32 tokens)
{
	struct rf_pass *p = &t->draw;

	p->decoded += p->steps;
	p->steps = 1;
	return rf_pass_fwd(p, tokens);
}

/* ---- what is not finite -------------------------------------------------------------------- */

/* Runs again the rollouts that are ready, by the pass p. */
static void run_branches_again(struct rf_tree *t, struct rf_pass *p, int n, int steps, rf_i32 tokens)
{
	rf_pass_set_branches(t, p, n);
	if (!p->decode) {
		p->steps = steps;
		rf_pass_fwd(p, tokens);
	}
	for (int j = 0; p->decode && j < steps && t->bad.layer < 0; j++)
		rf_tree_decode(t, rf_at_i32(tokens, (size_t)j * (size_t)p->nb));
}

/* Runs again what was run since rf_tree_begin(), until something is found. */
static void run_again(struct rf_tree *t, rf_i32 tokens)
{
	struct rf_pass *p = t->rollouts;
	int n = p ? p->n : 0, steps = p ? p->decoded + p->steps : 0;

	t->model->dev->ops->zero(t->model->dev, t->memory, t->state_bytes);
	for (int i = 0; i < t->segments && t->bad.layer < 0; i++) {
		rf_tree_forward(t, i);
		if (t->bad.layer >= 0 || !steps || !rf_tree_ready(t, NULL))
			continue;
		run_branches_again(t, p, n, steps, tokens);
		tokens = rf_at_i32(tokens, (size_t)p->nb * (size_t)steps);
	}
}

bool rf_tree_blame(struct rf_tree *t, rf_i32 tokens, char why[100])
{
	const struct rf_mixer *mixer;
	int n;

	t->watch = true;
	t->bad.layer = -1;
	run_again(t, tokens ? tokens : t->branch.tokens);
	t->watch = false;
	if (t->bad.layer < 0)
		return false;
	n = snprintf(why, 100, "layer %d overflows", t->bad.layer);
	if (t->bad.rollout >= 0)
		n += snprintf(why + n, 100 - (size_t)n, " in rollout %d", t->bad.rollout);
	n += snprintf(why + n, 100 - (size_t)n, " at position %d", t->bad.row);
	mixer = t->model->layer[t->bad.layer].mixer;
	if (t->bad.chunk >= 0 && mixer->describe_overflow)
		mixer->describe_overflow(t->model->cfg, t->bad.row, t->bad.chunk, why + n, 100 - (size_t)n);
	return true;
}

/* ---- backward ------------------------------------------------------------------------------ */

static void pass_bwd(struct rf_pass *p, rf_i32 tokens, rf_f32 dhidden)
{
	const struct rf_model *m = p->tree->model;
	const struct rf_config *c = m->cfg;
	const struct mlp mlp = mlp_of(p);
	int rows = p->nb * p->steps;

	norm_bwd(p, m->norm, p->h[c->layers], dhidden, p->dh, false);
	for (int i = c->layers - 1; i >= 0; i--) {
		const struct rf_layer *l = &m->layer[i];
		const rf_f32 gate = p->mlp[i], up = rf_at(gate, mlp.up);

		RF_RUN(m->dev, gemm, .m = rows, .n = c->ffn, .k = c->d, .weight = true, .a = p->dh,
		       .lda = c->d, .b = rf_w(m, l->down), .ldb = c->ffn, .c = p->act, .ldc = c->ffn);
		/* in place: gate and up become their gradients, act the activation again */
		RF_RUN(m->dev, swiglu_bwd, .n = (size_t)rows * (size_t)c->ffn, .d = c->ffn, .ld = mlp.ld,
		       .gate = gate, .up = up, .dy = p->act, .dgate = gate, .dup = up, .y = p->act);
		rf_linear_bwd(m, l->down, RF_NO_WEIGHT, rows, p->act, p->dh, 0, NULL, false);
		norm_fwd(p, l->mlp_norm, p->mid[i], p->x);
		rf_linears_bwd(m, l->gate_up, 2, rows, p->x, gate, mlp.ld, mlp.apart, p->dx, false);
		norm_bwd(p, l->mlp_norm, p->mid[i], p->dx, p->dh, true);

		norm_fwd(p, l->mixer_norm, p->h[i], p->x);
		l->mixer->bwd(p, i, p->x, p->dh, p->dx);
		norm_bwd(p, l->mixer_norm, p->h[i], p->dx, p->dh, true);
	}
	RF_RUN(m->dev, embed_bwd, .rows = rows, .d = c->d, .tokens = tokens, .dy = p->dh,
	       .dw = rf_dw(m, m->embed));
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
	t->held = -1;
}
