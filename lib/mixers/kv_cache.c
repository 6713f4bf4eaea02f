/* kv_cache.c -- where the keys and values of the sequence and of its rollouts are, and the operations that
 * rotate and attend (kv_cache.h). */
#include "mixers/kv_cache.h"

static size_t kv_width(const struct rf_attn_config *c) { return (size_t)c->kv_heads * (size_t)c->D; }
static size_t q_width(const struct rf_attn_config *c) { return (size_t)c->heads * (size_t)c->D; }

void rf_kv_state(const struct rf_tree *t, const struct rf_attn_config *c, struct rf_arena *a,
                 struct rf_kv_state *s)
{
	int last = rf_tree_first(t, t->segments_max - 1),
	    before = last < t->cache.before_max ? last : t->cache.before_max;
	size_t rows = t->plan.apart ? (size_t)t->plan.positions * (size_t)t->cache.stride
	                            : (size_t)(t->cache.transient ? before : t->cache.rows_max);
	size_t n = rows * kv_width(c);

	s->k = rf_arena_f32(a, n);
	s->v = rf_arena_f32(a, n);
	if (t->plan.train) {
		s->dk = rf_arena_f32(a, n);
		s->dv = rf_arena_f32(a, n);
	}
}

void rf_kv_save(const struct rf_pass *p, const struct rf_attn_config *c, struct rf_arena *a,
                struct rf_kv_save *s)
{
	const struct rf_tree *t = p->tree;
	size_t R = rf_pass_rows(p), own = p->branch ? R : t->cache.transient ? (size_t)t->cache.rows_max : 0;

	s->q = rf_arena_f32(a, R * q_width(c));
	s->k = own ? rf_arena_f32(a, own * kv_width(c)) : NULL;
	s->v = own ? rf_arena_f32(a, own * kv_width(c)) : NULL;
	s->o = rf_arena_f32(a, R * q_width(c));
	s->lse = rf_arena_f32(a, R * (size_t)c->heads);
}

void rf_kv_work(const struct rf_pass *p, const struct rf_attn_config *c, struct rf_arena *a,
                struct rf_kv_work *w)
{
	size_t R = rf_pass_rows(p);

	if (!p->train)
		return;
	w->dq = rf_arena_f32(a, R * q_width(c));
	w->dk = rf_arena_f32(a, R * kv_width(c));
	w->dv = rf_arena_f32(a, R * kv_width(c));
	w->d_o = rf_arena_f32(a, R * q_width(c));
}

double rf_kv_flops(const struct rf_attn_config *c, int T)
{
	double w = c->window && c->window < T ? c->window : T, seen = w * (w + 1) / 2 + (T - w) * w;

	return 2 * seen * 2 * c->heads * c->D;
}

void rf_kv_workspace(const struct rf_attn_config *c, struct rf_workspace *need)
{
	need->heads = c->heads;
	need->kv_heads = c->kv_heads;
	need->D = c->D;
}

int rf_kv_reads(const struct rf_attn_config *c) { return c->window ? c->window : RF_ALL_ROWS; }

/* Returns the keys or values of the sequence that runs, of those that are kept. */
static rf_f32 sequence_rows(const struct rf_tree *t, const struct rf_attn_config *c, rf_f32 kept)
{
	return rf_at(kept, (size_t)t->first_position * (size_t)t->cache.stride * kv_width(c));
}

/* Returns the keys or values that the pass reads; for rollouts those of all sequences. */
static rf_f32 cached_rows(const struct rf_pass *p, const struct rf_attn_config *c, rf_f32 kept, rf_f32 saved)
{
	return p->branch ? kept : saved ? saved : sequence_rows(p->tree, c, kept);
}

/* Returns where the keys or values of the first step are.  A segment writes them after those that it
 * reads. */
static rf_f32 first_step(const struct rf_pass *p, const struct rf_attn_config *c, rf_f32 kept, rf_f32 saved)
{
	return p->branch ? saved : rf_at(cached_rows(p, c, kept, saved), (size_t)p->cached * kv_width(c));
}

static size_t decoded_size(const struct rf_pass *p, const struct rf_attn_config *c)
{
	return (size_t)p->decoded * (size_t)p->nb * kv_width(c);
}

rf_f32 rf_kv_k(const struct rf_pass *p, const struct rf_attn_config *c, const struct rf_kv_state *s,
               const struct rf_kv_save *k)
{
	return rf_at(first_step(p, c, s->k, k->k), decoded_size(p, c));
}

rf_f32 rf_kv_v(const struct rf_pass *p, const struct rf_attn_config *c, const struct rf_kv_state *s,
               const struct rf_kv_save *k)
{
	return rf_at(first_step(p, c, s->v, k->v), decoded_size(p, c));
}

void rf_kv_rotate(const struct rf_pass *p, const struct rf_attn_config *c, int heads, enum rf_kv_turn how,
                  rf_f32 x, rf_f32 y)
{
	if (!c->rotary)
		return;
	RF_RUN(p->tree->model->dev, rope, .nb = p->nb, .steps = p->steps, .heads = heads, .D = c->D,
	       .rotary = c->rotary, .from = p->decoded, .inverse = how == RF_KV_BACK,
	       .operand = how == RF_KV_OPERAND, .theta = c->theta, .past_len = p->list.past_len, .x = x,
	       .y = y);
}

static void copy_rows(const struct rf_pass *p, const struct rf_attn_config *c, int n, rf_f32 from, int first,
                      rf_f32 to, int at)
{
	if (n > 0)
		RF_RUN(p->tree->model->dev, rows, .n = n, .d = (int)kv_width(c),
		       .from = rf_at(from, (size_t)first * kv_width(c)),
		       .to = rf_at(to, (size_t)at * kv_width(c)));
}

void rf_kv_slide(const struct rf_pass *p, const struct rf_attn_config *c, const struct rf_kv_state *s,
                 const struct rf_kv_save *k)
{
	const struct rf_tree *t = p->tree;
	int last = p->first_row - t->plan.segment, n = p->cached, by;

	if (p->branch || !t->slides || !p->first_row)
		return;
	if (t->cache.transient) {
		copy_rows(p, c, n, s->k, 0, k->k, 0);
		copy_rows(p, c, n, s->v, 0, k->v, 0);
		return;
	}
	/* by: rows that the last segment kept and this one drops; no copy reads what it writes */
	by = p->first_row - p->cached - (last > t->cache.before_max ? last - t->cache.before_max : 0);
	for (int at = 0; by && at < n; at += by) {
		rf_f32 k_rows = sequence_rows(t, c, s->k), v_rows = sequence_rows(t, c, s->v);

		copy_rows(p, c, n - at < by ? n - at : by, k_rows, at + by, k_rows, at);
		copy_rows(p, c, n - at < by ? n - at : by, v_rows, at + by, v_rows, at);
	}
}

/* cache.transient: copies the rows that the next segment will read. */
static void keep_for_next_segment(const struct rf_pass *p, const struct rf_attn_config *c,
                                  const struct rf_kv_state *s, const struct rf_kv_save *k)
{
	const struct rf_tree *t = p->tree;
	int end = p->cached + p->steps, n = end < t->cache.before_max ? end : t->cache.before_max;

	if (p->branch || !t->cache.transient || p->first_row + p->steps == t->T)
		return;
	copy_rows(p, c, n, k->k, end - n, s->k, 0);
	copy_rows(p, c, n, k->v, end - n, s->v, 0);
}

void rf_kv_attend_fwd(struct rf_pass *p, const struct rf_attn_config *c, struct rf_kv_state *s,
                      struct rf_kv_save *k)
{
	rf_f32 new_k = rf_kv_k(p, c, s, k);

	rf_kv_rotate(p, c, c->heads, RF_KV_TURN, k->from_q ? k->from_q : k->q, k->q);
	rf_kv_rotate(p, c, c->kv_heads, RF_KV_TURN, k->from_k ? k->from_k : new_k, new_k);
	RF_RUN(p->tree->model->dev, attn_fwd, .nb = p->nb, .steps = p->steps, .decoded = p->decoded,
	       .H = c->heads, .G = c->kv_heads, .D = c->D, .window = c->window, .longest = p->cached,
	       .cache_start = p->list.cache_start, .cache_len = p->list.cache_len,
	       .cache_k = cached_rows(p, c, s->k, k->k), .cache_v = cached_rows(p, c, s->v, k->v), .q = k->q,
	       .k = first_step(p, c, s->k, k->k), .v = first_step(p, c, s->v, k->v), .o = k->o,
	       .lse = k->lse);
	keep_for_next_segment(p, c, s, k);
}

void rf_kv_attend_bwd(struct rf_pass *p, const struct rf_attn_config *c, struct rf_kv_state *s,
                      struct rf_kv_save *k, struct rf_kv_work *w)
{
	struct rf_dev *d = p->tree->model->dev;
	int rows = p->nb * p->steps;

	RF_RUN(d, attn_bwd, .nb = p->nb, .steps = p->steps, .H = c->heads, .G = c->kv_heads, .D = c->D,
	       .window = c->window, .longest = p->cached, .cache_len = p->list.cache_len, .q = k->q,
	       .k = first_step(p, c, s->k, k->k), .v = first_step(p, c, s->v, k->v), .cache_k = s->k,
	       .cache_v = s->v, .o = k->o, .lse = k->lse, .d_o = w->d_o, .dq = w->dq, .dk = w->dk,
	       .dv = w->dv, .dcache_k = s->dk, .dcache_v = s->dv);
	/* the gradients from rollouts and later segments; the cache has all rows, because it does not
	 * slide */
	if (!p->branch) {
		RF_RUN(d, rows, .n = rows, .d = (int)kv_width(c), .add = true,
		       .from = rf_at(s->dk, (size_t)p->first_row * kv_width(c)), .to = w->dk);
		RF_RUN(d, rows, .n = rows, .d = (int)kv_width(c), .add = true,
		       .from = rf_at(s->dv, (size_t)p->first_row * kv_width(c)), .to = w->dv);
	}
	rf_kv_rotate(p, c, c->heads, RF_KV_BACK, w->dq, w->dq);
	rf_kv_rotate(p, c, c->kv_heads, RF_KV_BACK, w->dk, w->dk);
}
