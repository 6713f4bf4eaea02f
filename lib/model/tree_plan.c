/* tree_plan.c -- the memory of a tree: how large it is, and where each array lies.
 *
 * All device memory of a tree is one block.  place_tree() walks through it twice: once without a base
 * address, to count, and once to hand out the pieces.  Whatever a layer or pass does not have to keep while
 * others run shares its place with theirs. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "model/tree_pass.h"

static rf_i32 list_on_device(const struct rf_pass *p, const int *on_host)
{
	return rf_at_i32(p->list.all, (size_t)(on_host - p->host.past_len));
}

/* What a pass keeps: per layer where there will be a backward pass or another step, else one place for
 * all. */
static void place_kept(struct rf_pass *p, struct rf_arena *a)
{
	const struct rf_model *m = p->tree->model;
	struct rf_pass_values *v = &p->values;
	size_t R = rf_pass_rows(p), d = (size_t)m->cfg->d, F = (size_t)m->cfg->ffn;
	size_t first, most = 0;
	int L = m->cfg->layers;

	p->tokens = rf_arena_i32(a, R);
	p->list.all = rf_arena_i32(a, rf_pass_list_numbers(p));
	p->list.past_len = list_on_device(p, p->host.past_len);
	p->list.start = list_on_device(p, p->host.start);
	p->list.open_rows = list_on_device(p, p->host.open_rows);
	p->list.cap_row = list_on_device(p, p->host.cap_row);
	p->list.cap_slot = list_on_device(p, p->host.cap_slot);
	p->list.cache_len = list_on_device(p, p->host.cache_len);
	if (p->branch && p->tree->plan.apart)
		p->list.cache_start = list_on_device(p, p->host.cache_start);
	for (int l = 0; l <= L; l++) {
		v->h[l] = p->train || !l ? rf_arena_f32(a, R * d) : v->h[0];
		if (l == L)
			break;
		v->mid[l] = p->train ? rf_arena_f32(a, R * d) : v->h[0];
		v->mlp[l] = p->train || !l ? rf_arena_f32(a, R * 2 * F) : v->mlp[0];
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
	struct rf_pass_values *v = &p->values;
	size_t R = rf_pass_rows(p), d = (size_t)m->cfg->d, first, most;

	v->x = rf_arena_f32(a, R * d);
	v->act = rf_arena_f32(a, R * (size_t)m->cfg->ffn);
	v->hidden = rf_arena_f32(a, R * d);
	v->dh = p->train ? rf_arena_f32(a, R * d) : NULL;
	v->dx = p->train ? rf_arena_f32(a, R * d) : NULL;
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
	t->memory.state_bytes = a.used;
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

/* Allocates the indices of the layers' mixers.  Returns false without memory. */
static bool new_indices(struct rf_tree *t)
{
	const struct rf_model *m = t->model;

	if (!(t->index = calloc((size_t)m->cfg->layers, sizeof *t->index)))
		return false;
	for (int l = 0; l < m->cfg->layers; l++) {
		const struct rf_mixer *x = m->layer[l].mixer;

		if (x->index_size && !(t->index[l] = calloc(x->index_size(t), sizeof *t->index[l])))
			return false;
	}
	return true;
}

static void free_indices(struct rf_tree *t)
{
	for (int l = 0; t->index && l < t->model->cfg->layers; l++)
		free(t->index[l]);
	free(t->index);
}

static bool new_pass(struct rf_pass *p, struct rf_tree *t, int nb, int steps, bool train)
{
	size_t L = (size_t)t->model->cfg->layers, slots = (size_t)t->plan.positions + 1, n = (size_t)nb;

	*p = (struct rf_pass){ .tree = t, .max_nb = nb, .max_steps = steps, .train = train };
	p->values.h = calloc(L + 1 + 2 * L, sizeof *p->values.h);
	p->values.mid = p->values.h + L + 1;
	p->values.mlp = p->values.mid + L;
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
	return p->values.h && p->save && p->work;
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
	t->cache.before_max = t->cache.rows_max = len;
	if (!window || window == RF_ALL_ROWS || t->plan.train)
		return window;
	if (window <= len) /* in whole segments, if these divide it: so many rows then move at once */
		t->cache.before_max = rf_segment(window - 1) < len ? rf_segment(window - 1) : len;
	if (t->cache.before_max + t->plan.segment < len)
		t->cache.rows_max = t->cache.before_max + t->plan.segment;
	t->cache.transient = !t->plan.positions;
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
	t->cache.stride = plan_cache(t) && plan->apart ? rf_segment(t->cache.rows_max) : 0;
	if (__builtin_mul_overflow(plan->positions, t->cache.stride, &kept)) { /* as those of all sequences */
		free(t);
		return NULL;
	}
	t->state = new_layers(m, offsetof(struct rf_mixer, state_size));
	t->sequence = calloc((size_t)t->passes, sizeof *t->sequence);
	t->position.row = calloc((size_t)plan->positions * 4 + 1, sizeof *t->position.row);
	ok = t->state && t->sequence && t->position.row && new_indices(t);
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
	t->position.by_row = t->position.row + plan->positions;
	t->position.numbers = t->position.by_row + plan->positions;
	t->position.dropped = t->position.numbers + plan->positions;
	for (int i = 0; i < plan->positions; i++)
		t->position.numbers[i] = i;
	t->memory.bytes = place_tree(t, NULL);
	return t;
}

size_t rf_tree_bytes(struct rf_model *m, const struct rf_plan *plan)
{
	struct rf_tree *t = new_without_memory(m, plan);
	size_t bytes = t ? t->memory.bytes : 0;

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
	if (!(t->memory.base = m->dev->ops->alloc(m->dev, t->memory.bytes))) {
		rf_tree_free(t);
		return rf_dev_sync(m->dev, e);
	}
	place_tree(t, t->memory.base);
	*out = t;
	return RF_OK;
}

static void free_pass(struct rf_pass *p)
{
	free(p->values.h);
	free_layers(p->save);
	free_layers(p->work);
	free(p->host.past_len);
}

void rf_tree_free(struct rf_tree *t)
{
	if (!t)
		return;
	t->model->dev->ops->release(t->model->dev, t->memory.base);
	for (int i = 0; t->sequence && i < t->passes; i++)
		free_pass(&t->sequence[i]);
	free_pass(&t->branch);
	free_pass(&t->draw);
	free_layers(t->state);
	free_indices(t);
	free(t->sequence);
	free(t->position.row);
	free(t);
}
