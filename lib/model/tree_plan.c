/* tree_plan.c -- the memory of a tree: how large it is, and where each array lies.
 *
 * All device memory of a tree is one block.  place_tree() walks through it twice: once without a base
 * address, to count, and once to hand out the pieces.  Arrays that layers or passes need only while they run
 * share one place. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "model/tree_pass.h"

/* Returns where a list of the host is on the device. */
static rf_i32 list_on_device(const struct rf_pass *p, const int *on_host)
{
	return rf_at_i32(p->list.all, (size_t)(on_host - p->host.past_len));
}

/* Places the arrays that a pass keeps.  Each layer has its own if a backward pass or another step follows,
 * else all layers share one place. */
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

/* Places the arrays that a pass needs only while it runs.  All passes and layers share one place. */
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

/* Places all arrays of the tree from `base` on.  Returns their bytes. */
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
	/* rollouts are drawn before they are trained on, so both passes share one place */
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

/* Returns the size at offset `at` of a mixer's table, rounded up to 16 bytes. */
static size_t mixer_size(const struct rf_mixer *x, size_t at)
{
	size_t size;

	memcpy(&size, (const char *)x + at, sizeof size);
	return (size + 15) / 16 * 16;
}

/* Allocates one zeroed struct per layer.  at: the offset in struct rf_mixer of the size of that struct.
 * Returns pointers to the structs, or NULL without memory. */
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

/* Allocates the index of each layer.  Returns false without memory. */
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

/* Makes a pass without its device memory.  Returns false without memory; free_pass() frees the rest. */
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

/* Sets the number of rows in the cache of mixers that read rows: those of the whole sequence or, with a
 * window and without a backward pass, of a segment and of the window before it.  Returns whether any mixer
 * reads rows. */
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
	if (window <= len) /* rounded up to whole chunks, so that many rows move in one copy */
		t->cache.before_max = rf_segment(window - 1) < len ? rf_segment(window - 1) : len;
	if (t->cache.before_max + t->plan.segment < len)
		t->cache.rows_max = t->cache.before_max + t->plan.segment;
	t->cache.transient = !t->plan.positions;
	return true;
}

/* Returns the most rows of a rollout that runs in one pass.  For training on rollouts that were drawn, the
 * last token needs no row. */
static int most_branch_rows(const struct rf_plan *plan)
{
	return !plan->decode ? plan->k : plan->train ? plan->k - 1 : 0;
}

/* Makes a tree without its device memory.  Returns NULL without memory, or if the plan is too large to
 * count. */
static struct rf_tree *new_without_memory(struct rf_model *m, const struct rf_plan *plan)
{
	struct rf_tree *t = calloc(1, sizeof *t);
	int segment = rf_segment(plan->segment < plan->max_len ? plan->segment : plan->max_len);
	int nb, rows, kept;
	bool ok;

	/* rows are counted in int */
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
	if (__builtin_mul_overflow(plan->positions, t->cache.stride, &kept)) { /* rows of all sequences */
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
