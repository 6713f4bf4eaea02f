/* attend.c -- softmax attention of rows that are projected already.  See attend.h. */
#include "attend.h"

static size_t kv(const struct rf_attn_config *c) { return (size_t)c->kv_heads * (size_t)c->D; }
static size_t wide(const struct rf_attn_config *c) { return (size_t)c->heads * (size_t)c->D; }

void rf_attend_state(const struct rf_tree *t, const struct rf_attn_config *c, struct rf_arena *a, struct rf_attend_state *s)
{
	size_t n = (size_t)t->kept_max * kv(c), last = (size_t)t->last_max * kv(c);

	s->k = rf_arena_f32(a, n);
	s->v = rf_arena_f32(a, n);
	if (t->plan.train) {
		s->dk = rf_arena_f32(a, n);
		s->dv = rf_arena_f32(a, n);
	}
	for (int i = 0; i < 2 && t->last_max; i++) {
		s->last_k[i] = rf_arena_f32(a, last);
		s->last_v[i] = rf_arena_f32(a, last);
	}
}

/* Whether the pass's keys and values are made where they are kept. */
static bool in_place(const struct rf_pass *p) { return !p->branch && !p->tree->last_max; }

void rf_attend_save(const struct rf_pass *p, const struct rf_attn_config *c, struct rf_arena *a, struct rf_attend_save *s)
{
	size_t R = rf_pass_rows(p);

	s->q = rf_arena_f32(a, R * wide(c));
	s->k = in_place(p) ? NULL : rf_arena_f32(a, R * kv(c));
	s->v = in_place(p) ? NULL : rf_arena_f32(a, R * kv(c));
	s->o = rf_arena_f32(a, R * wide(c));
	s->lse = rf_arena_f32(a, R * (size_t)c->heads);
}

void rf_attend_work(const struct rf_pass *p, const struct rf_attn_config *c, struct rf_arena *a, struct rf_attend_work *w)
{
	size_t R = rf_pass_rows(p);

	if (!p->train)
		return;
	w->dq = rf_arena_f32(a, R * wide(c));
	w->dk = rf_arena_f32(a, R * kv(c));
	w->dv = rf_arena_f32(a, R * kv(c));
	w->d_o = rf_arena_f32(a, R * wide(c));
}

double rf_attend_flops(const struct rf_attn_config *c, int T)
{
	double w = c->window && c->window < T ? c->window : T, seen = w * (w + 1) / 2 + (T - w) * w;

	return 2 * seen * 2 * c->heads * c->D;
}

/* The first step's keys or values. */
static rf_f32 first(const struct rf_pass *p, const struct rf_attn_config *c, rf_f32 kept, rf_f32 saved)
{
	return in_place(p) ? rf_at(kept, (size_t)p->pos * kv(c)) : saved;
}

static size_t before(const struct rf_pass *p, const struct rf_attn_config *c)
{
	return (size_t)p->given * (size_t)p->nb * kv(c);
}

rf_f32 rf_attend_k(const struct rf_pass *p, const struct rf_attn_config *c, const struct rf_attend_state *s, const struct rf_attend_save *k)
{
	return rf_at(first(p, c, s->k, k->k), before(p, c));
}

rf_f32 rf_attend_v(const struct rf_pass *p, const struct rf_attn_config *c, const struct rf_attend_state *s, const struct rf_attend_save *k)
{
	return rf_at(first(p, c, s->v, k->v), before(p, c));
}

void rf_attend_turn(const struct rf_pass *p, const struct rf_attn_config *c, int heads, bool inverse, rf_f32 x, rf_f32 y)
{
	if (!c->rotary)
		return;
	RF(p->tree->model->dev, rope, .nb = p->nb, .steps = p->steps, .heads = heads, .D = c->D, .rotary = c->rotary, .from = p->given,
	   .inverse = inverse, .theta = c->theta, .past = p->past, .x = x, .y = y);
}

static void copy(const struct rf_pass *p, const struct rf_attn_config *c, int n, rf_f32 from, int first, rf_f32 to, int at)
{
	if (n > 0)
		RF(p->tree->model->dev, rows, .n = n, .d = (int)kv(c), .from = rf_at(from, (size_t)first * kv(c)), .to = rf_at(to, (size_t)at * kv(c)));
}

/* What of the segment's rows later ones will read: to the rows that are kept, and to those before the next segment. */
static void keep(const struct rf_pass *p, const struct rf_attn_config *c, const struct rf_attend_state *s, rf_f32 k, rf_f32 v)
{
	const struct rf_tree *t = p->tree;
	int end = p->pos + p->steps, window1 = t->last_max, turn_of = p->pos / t->plan.segment & 1, old = p->cached;

	for (int i = 0; i < t->keeps; i++) {
		const struct rf_keep *x = &t->keep[i];
		int from = x->from > p->pos ? x->from : p->pos, to = x->to < end ? x->to : end;

		copy(p, c, to - from, k, from - p->pos, s->k, x->at + from - x->from);
		copy(p, c, to - from, v, from - p->pos, s->v, x->at + from - x->from);
	}
	if (p->steps < window1) {
		int stay = old + p->steps > window1 ? window1 - p->steps : old;

		copy(p, c, stay, s->last_k[turn_of], old - stay, s->last_k[!turn_of], 0);
		copy(p, c, stay, s->last_v[turn_of], old - stay, s->last_v[!turn_of], 0);
		copy(p, c, p->steps, k, 0, s->last_k[!turn_of], stay);
		copy(p, c, p->steps, v, 0, s->last_v[!turn_of], stay);
	} else {
		copy(p, c, window1, k, p->steps - window1, s->last_k[!turn_of], 0);
		copy(p, c, window1, v, p->steps - window1, s->last_v[!turn_of], 0);
	}
}

void rf_attend_fwd(struct rf_pass *p, const struct rf_attn_config *c, struct rf_attend_state *s, struct rf_attend_save *k)
{
	const struct rf_tree *t = p->tree;
	bool last = !p->branch && t->last_max;
	int turn_of = last ? p->pos / t->plan.segment & 1 : 0;
	rf_f32 new_k = rf_attend_k(p, c, s, k);

	rf_attend_turn(p, c, c->heads, false, k->from_q ? k->from_q : k->q, k->q);
	rf_attend_turn(p, c, c->kv_heads, false, k->from_k ? k->from_k : new_k, new_k);
	RF(t->model->dev, attn_fwd, .nb = p->nb, .steps = p->steps, .given = p->given, .H = c->heads, .G = c->kv_heads, .D = c->D,
	   .window = c->window, .longest = p->cached, .past = p->cache_past, .q = k->q, .k = first(p, c, s->k, k->k), .v = first(p, c, s->v, k->v),
	   .cache_k = last ? s->last_k[turn_of] : s->k, .cache_v = last ? s->last_v[turn_of] : s->v, .o = k->o, .lse = k->lse);
	if (last)
		keep(p, c, s, k->k, k->v);
}

void rf_attend_bwd(struct rf_pass *p, const struct rf_attn_config *c, struct rf_attend_state *s, struct rf_attend_save *k,
                   struct rf_attend_work *w)
{
	struct rf_dev *d = p->tree->model->dev;
	int rows = p->nb * p->steps;

	RF(d, attn_bwd, .nb = p->nb, .steps = p->steps, .H = c->heads, .G = c->kv_heads, .D = c->D, .window = c->window,
	   .longest = p->cached, .past = p->cache_past, .q = k->q, .k = first(p, c, s->k, k->k), .v = first(p, c, s->v, k->v), .cache_k = s->k,
	   .cache_v = s->v, .o = k->o,
	   .lse = k->lse, .d_o = w->d_o, .dq = w->dq, .dk = w->dk, .dv = w->dv, .dcache_k = s->dk, .dcache_v = s->dv);
	if (!p->branch) { /* what rollouts and later segments read of these rows; all are kept, in their places */
		RF(d, rows, .n = rows, .d = (int)kv(c), .add = true, .from = rf_at(s->dk, (size_t)p->pos * kv(c)), .to = w->dk);
		RF(d, rows, .n = rows, .d = (int)kv(c), .add = true, .from = rf_at(s->dv, (size_t)p->pos * kv(c)), .to = w->dv);
	}
	rf_attend_turn(p, c, c->heads, true, w->dq, w->dq);
	rf_attend_turn(p, c, c->kv_heads, true, w->dk, w->dk);
}
