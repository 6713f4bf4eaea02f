/* attention.c -- rotary embedding, and softmax attention in blocks, so that the scores are never stored whole.
 *
 * Forward: online softmax, Dao et al. 2022, arXiv:2205.14135.  Backward: with D_i = o_i . do_i and
 * p_ij = exp(s_ij - lse_i),  ds_ij = p_ij (do_i . v_j - D_i),  dq_i = sum_j ds_ij k_j,  dk_j = sum_i ds_ij q_i,
 * dv_j = sum_i p_ij do_i.  The backward pass forms p twice, once by blocks of queries (dq) and once by blocks of keys
 * (dk, dv): so every sum belongs to one tile, and its order does not depend on the threads.
 *
 * A tile owns a block of 64 rows, the lanes, and goes through blocks of 64 rows of the other side, the partners.  Lanes
 * lie transposed, (width, 64); partners lie as they are, (64, width).  Then every product is one of
 *     scores (64, n) = partners (64, width) lanes (width, n),  sums (width, n) += partners' (width, 64) scores (64, n):
 * the right operand is read by whole vectors, the left one by single numbers, and a maximum or sum over the partners is
 * one of vectors.
 *
 * The queries of one key head are counted sequence by sequence, then step by step, then head by head, so that a block
 * holds the rollouts that hang below one text, whose keys (the cache) it then reads once for all of them. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "cpu.h"
#include "vec.h"

/* The native vector, and a block of MR x NV of them that fits the registers. */
#if defined __AVX512F__
enum { W = 16, MR = 8, NV = 2 };
#elif defined __AVX__
enum { W = 8, MR = 4, NV = 2 };
#else
enum { W = 4, MR = 4, NV = 2 };
#endif
enum { BR = 64, PAD = 8 };  /* rows of a block; widths are padded to a multiple of PAD */
typedef float vn __attribute__((vector_size(W * 4), aligned(4), may_alias));

#define NEVER (-1e30f)      /* a score below all others, and finite, so that NEVER - NEVER is 0 */

/* ---- products of blocks ----------------------------------------------------------------------------------------- */

/* MR rows and nv vectors of C = A B or C += A B; A is (m, n), or with trans stored (n, m). */
INLINE void product_tile(bool trans, bool add, int nv, int n, const float *a, int lda, const float *b, float *c)
{
	vn acc[MR][NV];

	for (int r = 0; r < MR; r++)
		for (int v = 0; v < nv; v++)
			acc[r][v] = add ? *(const vn *)(c + r * BR + v * W) : (vn){ 0 };
	for (int l = 0; l < n; l++) {
		vn x[NV];
		for (int v = 0; v < nv; v++)
			x[v] = *(const vn *)(b + l * BR + v * W);
		for (int r = 0; r < MR; r++)
			for (int v = 0; v < nv; v++)
				acc[r][v] += (trans ? a[l * lda + r] : a[r * lda + l]) * x[v];
	}
	for (int r = 0; r < MR; r++)
		for (int v = 0; v < nv; v++)
			*(vn *)(c + r * BR + v * W) = acc[r][v];
}

INLINE void product(bool trans, bool add, int m, int n, int lanes, const float *a, int lda, const float *b, float *c)
{
	int step = trans ? 1 : lda;

	for (int v = 0; v < lanes; v += NV * W)
		for (int i = 0; i < m; i += MR)
			if (lanes - v >= NV * W)
				product_tile(trans, add, NV, n, a + i * step, lda, b + v, c + i * BR + v);
			else
				product_tile(trans, add, 1, n, a + i * step, lda, b + v, c + i * BR + v);
}

/* s (partners, lanes) = partners' rows times lanes' rows; partners is rounded up to PAD. */
static void scores(int width, int pad, int partners, int lanes, const float *rows, const float *x, float *s)
{
	product(false, false, (partners + PAD - 1) / PAD * PAD, width, lanes, rows, pad, x, s);
}

/* y (width, lanes) += sum over the partners of their rows times s */
static void gather(int pad, int partners, int lanes, const float *rows, const float *s, float *y)
{
	product(true, true, pad, partners, lanes, rows, pad, s, y);
}

/* ---- rows of a block -------------------------------------------------------------------------------------------- */

/* Rows side by side as lanes: to (pad, 64). */
static void pack_lanes(const float *const row[BR], int n, int width, int pad, float scale, float *to)
{
	memset(to, 0, (size_t)pad * BR * sizeof *to);
	for (int i = 0; i < n; i++)
		for (int l = 0; l < width; l++)
			to[l * BR + i] = row[i][l] * scale;
}

/* Rows below each other: to (n rounded up to PAD, pad). */
static void pack_rows(const float *const row[BR], int n, int width, int pad, float scale, float *to)
{
	for (int i = 0; i < n; i++, to += pad) {
		for (int l = 0; l < width; l++)
			to[l] = row[i][l] * scale;
		for (int l = width; l < pad; l++)
			to[l] = 0;
	}
	for (; n % PAD; n++, to += pad)
		memset(to, 0, (size_t)pad * sizeof *to);
}

static void unpack_lane(const float *from, int width, float scale, bool add, float *row)
{
	for (int l = 0; l < width; l++)
		row[l] = (add ? row[l] : 0) + from[l * BR] * scale;
}

/* ---- who reads whom --------------------------------------------------------------------------------------------- */

struct attn {
	struct rf_dev *d;
	int nb, steps, given, H, G, D, window, longest;
	int pad, rep, queries;   /* padded width, query heads per key head, queries per key head: nb steps rep */
	float scale;
	const int32_t *past;
	const float *q, *k, *v, *cache_k, *cache_v, *d_o;
	float *o, *lse, *dot;    /* dot (G, queries): D_i */
	float *dq, *dk, *dv, *dcache_k, *dcache_v;
};

/* What one thread works in. */
struct work {
	float *x, *y, *gx, *gy;  /* (pad, 64): lanes and what is summed for them */
	float *px, *py;          /* (64, pad): partners */
	float *s, *t;            /* (64, 64): partners x lanes */
	const float *row[BR];
	int32_t lo[BR], hi[BR];  /* of a block of queries: each reads the keys lo..hi-1 of a source */
	float top[BR], sum[BR];  /* forward: the softmax so far; backward: lse and D_i */
};

static struct work *work_of(const struct attn *a, int thread)
{
	size_t block = (size_t)a->pad * BR, head = (sizeof(struct work) + 63) / 64 * 64;
	struct work *w = rf_cpu_scratch(a->d, thread, head + (6 * block + 2 * BR * BR) * sizeof(float));
	float *f = (float *)(void *)((char *)w + head);

	if (!w)
		return NULL;
	w->x = f;
	w->y = f + block;
	w->gx = f + 2 * block;
	w->gy = f + 3 * block;
	w->px = f + 4 * block;
	w->py = f + 5 * block;
	w->s = f + 6 * block;
	w->t = w->s + BR * BR;
	return w;
}

/* A source of keys for key head g: the rows of sequence b, or (CACHE) those before all sequences. */
enum { CACHE = -1 };
struct source { int b; size_t at, ld; const float *k, *v; };

static struct source source_of(const struct attn *a, int g, int b)
{
	size_t row = (size_t)a->G * (size_t)a->D;

	if (b == CACHE)
		return (struct source){ b, (size_t)g * (size_t)a->D, row, a->cache_k, a->cache_v };
	return (struct source){ b, (size_t)b * row + (size_t)g * (size_t)a->D, (size_t)a->nb * row, a->k, a->v };
}

static void key_rows(const struct source *s, const float *base, int first, int n, const float *row[BR])
{
	for (int i = 0; i < n; i++)
		row[i] = base + s->at + (size_t)(first + i) * s->ld;
}

/* Query i of key head g is this row of q (R H, D). */
static size_t query(const struct attn *a, int g, int i)
{
	int b = i / (a->steps * a->rep), j = i / a->rep % a->steps;

	return ((size_t)j * (size_t)a->nb + (size_t)b) * (size_t)a->H + (size_t)(g * a->rep + i % a->rep);
}

static void query_rows(const struct attn *a, const float *base, int g, int first, int n, const float *row[BR])
{
	for (int i = 0; i < n; i++)
		row[i] = base + query(a, g, first + i) * (size_t)a->D;
}

/* Which keys of a source the queries first..first+n-1 read: w->lo, w->hi, and of all of them the least and the end;
 * false if none reads any.  Queries of other sequences and lanes behind the block read nothing. */
static bool reach(const struct attn *a, struct work *w, int first, int n, int b, int *least, int *end)
{
	int per = a->steps * a->rep;
	int i = b == CACHE || b * per < first ? 0 : b * per - first;
	int to = b == CACHE || (b + 1) * per - first > n ? n : (b + 1) * per - first;

	memset(w->lo, 0, sizeof w->lo);
	memset(w->hi, 0, sizeof w->hi);
	*least = *end = 0;
	for (; i < to; i++) {
		int past = a->past ? a->past[(first + i) / per] : 0;
		int j = a->given + (first + i) / a->rep % a->steps;  /* own keys before it */
		int hi = b == CACHE ? past : j + 1, pos = b == CACHE ? past + j : j;
		int lo = a->window && pos + 1 > a->window ? pos + 1 - a->window : 0;

		if (lo >= hi)
			continue;
		w->lo[i] = lo;
		w->hi[i] = hi;
		*least = *end && *least < lo ? *least : lo;
		*end = hi > *end ? hi : *end;
	}
	return *end > 0;
}

/* How many of the pairs (query in l0..l1-1, key in k0..k1-1) are read. */
enum cover { NONE, SOME, ALL };
static enum cover cover(const int32_t lo[BR], const int32_t hi[BR], int l0, int l1, int k0, int k1)
{
	bool some = false, all = true;

	for (int i = l0; i < l1; i++) {
		some |= lo[i] < k1 && hi[i] > k0;
		all &= lo[i] <= k0 && hi[i] >= k1;
	}
	return all ? ALL : some ? SOME : NONE;
}

INLINE vi vload_i(const int32_t *p)
{
	vi x;
	memcpy(&x, p, sizeof x);
	return x;
}

/* Lanes as queries: goes through all keys that a block of queries reads, source by source, and calls fn with the
 * scores in w->s, keys in w->px and values in w->py, for the lanes l0..l1-1 (multiples of 16). */
typedef void visit(const struct attn *a, struct work *w, int key, int keys, int l0, int l1, bool masked);

static void visit_keys(const struct attn *a, struct work *w, int g, int first, int n, visit *fn)
{
	int per = a->steps * a->rep, b0 = first / per, b1 = (first + n - 1) / per;

	for (int b = a->longest ? CACHE : b0; b <= b1; b = b == CACHE ? b0 : b + 1) {
		struct source src = source_of(a, g, b);
		int l0 = b == CACHE || b * per < first ? 0 : (b * per - first) / VL * VL;
		int l1 = b == CACHE || (b + 1) * per - first > n ? n : (b + 1) * per - first;
		int end1 = (l1 + VL - 1) / VL * VL, least, end;

		if (!reach(a, w, first, n, b, &least, &end))
			continue;
		for (int key = least; key < end; key += BR) {
			int keys = end - key < BR ? end - key : BR;
			enum cover c = cover(w->lo, w->hi, l0, end1 < n ? end1 : n, key, key + keys);

			if (c == NONE)
				continue;
			key_rows(&src, src.k, key, keys, w->row);
			pack_rows(w->row, keys, a->D, a->pad, 1, w->px);
			key_rows(&src, src.v, key, keys, w->row);
			pack_rows(w->row, keys, a->D, a->pad, 1, w->py);
			scores(a->D, a->pad, keys, end1 - l0, w->px, w->x + l0, w->s + l0);
			fn(a, w, key, keys, l0, end1, c != ALL);
		}
	}
}

/* ---- forward ---------------------------------------------------------------------------------------------------- */

/* Takes a block of scores into the softmax so far: p in place of the scores; what was summed under a lower maximum
 * shrinks. */
INLINE void soften(const struct attn *a, struct work *w, int key, int keys, int l0, int l1, bool masked)
{
	for (int l = l0; l < l1; l += VL) {
		vf was = vload(w->top + l), top = was, sum = vset(0), shrink;
		vi lo = vload_i(w->lo + l), hi = vload_i(w->hi + l), moved;
		int any = 0;

		for (int i = 0; i < keys; i++) {
			vf s = vload(w->s + i * BR + l);
			if (masked) {
				s = vpick((lo <= key + i) & (hi > key + i), s, vset(NEVER));
				vstore(w->s + i * BR + l, s);
			}
			top = vmax(s, top);
		}
		for (int i = 0; i < keys; i++) {
			vf p = vexp(vload(w->s + i * BR + l) - top);
			if (masked)
				p = vpick((lo <= key + i) & (hi > key + i), p, vset(0));
			vstore(w->s + i * BR + l, p);
			sum += p;
		}
		shrink = vexp(was - top);
		vstore(w->sum + l, vload(w->sum + l) * shrink + sum);
		vstore(w->top + l, top);
		moved = was != top;
		for (int i = 0; i < VL; i++)
			any |= moved[i];
		for (int i = 0; any && i < a->D; i++)
			vstore(w->gy + i * BR + l, vload(w->gy + i * BR + l) * shrink);
	}
}

static void fwd_visit(const struct attn *a, struct work *w, int key, int keys, int l0, int l1, bool masked)
{
	if (masked)
		soften(a, w, key, keys, l0, l1, true);
	else
		soften(a, w, key, keys, l0, l1, false);
	gather(a->pad, keys, l1 - l0, w->py, w->s + l0, w->gy + l0);
}

static void fwd_tile(void *arg, int tile, int thread)
{
	const struct attn *a = arg;
	struct work *w = work_of(a, thread);
	int blocks = (a->queries + BR - 1) / BR, g = tile % a->G;
	int first = (blocks - 1 - tile / a->G) * BR;  /* the long ones first */
	int n = a->queries - first < BR ? a->queries - first : BR;

	if (!w)
		return;
	query_rows(a, a->q, g, first, n, w->row);
	pack_lanes(w->row, n, a->D, a->pad, a->scale, w->x);
	memset(w->gy, 0, (size_t)a->pad * BR * sizeof *w->gy);
	for (int i = 0; i < BR; i++) {
		w->top[i] = NEVER;
		w->sum[i] = 0;
	}
	visit_keys(a, w, g, first, n, fwd_visit);
	for (int i = 0; i < n; i++) {
		size_t row = query(a, g, first + i);

		unpack_lane(w->gy + i, a->D, 1 / w->sum[i], false, a->o + row * (size_t)a->D);
		if (a->lse)
			a->lse[row] = w->top[i] + logf(w->sum[i]);
	}
}

void KERNEL(attn_fwd)(struct rf_dev *d, const struct rf_attn_fwd *p)
{
	struct attn a = {
		.d = d, .nb = p->nb, .steps = p->steps, .given = p->given, .H = p->H, .G = p->G, .D = p->D,
		.window = p->window, .longest = p->longest, .pad = (p->D + PAD - 1) / PAD * PAD, .rep = p->H / p->G,
		.queries = p->nb * p->steps * (p->H / p->G), .scale = 1 / sqrtf((float)p->D),
		.past = cpu_i32(d, p->past), .q = cpu_f32(d, p->q), .k = cpu_f32(d, p->k), .v = cpu_f32(d, p->v),
		.cache_k = cpu_f32(d, p->cache_k), .cache_v = cpu_f32(d, p->cache_v), .o = cpu_f32(d, p->o),
		.lse = cpu_f32(d, p->lse),
	};

	assert(a.H == a.rep * a.G);
	cpu_tiles(d, (a.queries + BR - 1) / BR * a.G, fwd_tile, &a);
}

/* ---- backward --------------------------------------------------------------------------------------------------- */

/* By blocks of queries: ds = p (do . v - D).  Where p is 1 it is 0: a row that reads one key alone has no slope, and what
 * is left of do . v and D, which are summed in different orders, is not one either. */
INLINE void slope(struct work *w, int key, int keys, int l0, int l1, bool masked)
{
	for (int l = l0; l < l1; l += VL) {
		vf lse = vload(w->top + l), dot = vload(w->sum + l);
		vi lo = vload_i(w->lo + l), hi = vload_i(w->hi + l);

		for (int i = 0; i < keys; i++) {
			float *s = w->s + i * BR + l;
			vf p = vexp(vload(s) - lse), ds = vpick(p == 1, vset(0), p * (vload(w->t + i * BR + l) - dot));
			vstore(s, masked ? vpick((lo <= key + i) & (hi > key + i), ds, vset(0)) : ds);
		}
	}
}

static void dq_visit(const struct attn *a, struct work *w, int key, int keys, int l0, int l1, bool masked)
{
	scores(a->D, a->pad, keys, l1 - l0, w->py, w->y + l0, w->t + l0);
	if (masked)
		slope(w, key, keys, l0, l1, true);
	else
		slope(w, key, keys, l0, l1, false);
	gather(a->pad, keys, l1 - l0, w->px, w->s + l0, w->gx + l0);
}

static void dq_tile(void *arg, int tile, int thread)
{
	const struct attn *a = arg;
	struct work *w = work_of(a, thread);
	int blocks = (a->queries + BR - 1) / BR, g = tile % a->G;
	int first = (blocks - 1 - tile / a->G) * BR;
	int n = a->queries - first < BR ? a->queries - first : BR;
	float *dot = a->dot + (size_t)g * (size_t)a->queries + first;

	if (!w)
		return;
	memset(w->top, 0, sizeof w->top);
	memset(w->sum, 0, sizeof w->sum);
	for (int i = 0; i < n; i++) {
		size_t row = query(a, g, first + i);
		const float *o = a->o + row * (size_t)a->D, *d_o = a->d_o + row * (size_t)a->D;
		vf sum = vset(0);

		for (int l = 0; l < a->D; l += VL)
			sum += vget(o, l, a->D) * vget(d_o, l, a->D);
		w->sum[i] = dot[i] = vsum(sum);
		w->top[i] = a->lse[row];
	}
	query_rows(a, a->d_o, g, first, n, w->row);
	pack_lanes(w->row, n, a->D, a->pad, 1, w->y);
	query_rows(a, a->q, g, first, n, w->row);
	pack_lanes(w->row, n, a->D, a->pad, a->scale, w->x);
	memset(w->gx, 0, (size_t)a->pad * BR * sizeof *w->gx);
	visit_keys(a, w, g, first, n, dq_visit);
	for (int i = 0; i < n; i++)
		unpack_lane(w->gx + i, a->D, a->scale, false, a->dq + query(a, g, first + i) * (size_t)a->D);
}

/* By blocks of keys: p in w->t's place, ds in w->s's; row i is a query, lane l key `key` + l. */
INLINE void slope_keys(struct work *w, int queries, int key, int lanes, bool masked)
{
	static const int32_t lane[VL] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };

	for (int i = 0; i < queries; i++)
		for (int l = 0; l < lanes; l += VL) {
			float *s = w->s + i * BR + l, *t = w->t + i * BR + l;
			vi at = vload_i(lane) + (key + l);
			vf p = vexp(vload(s) - w->top[i]);

			if (masked)
				p = vpick((at >= w->lo[i]) & (at < w->hi[i]), p, vset(0));
			vstore(s, vpick(p == 1, vset(0), p * (vload(t) - w->sum[i])));
			vstore(t, p);
		}
}

/* Whether some row reads one of these keys of the cache; of a long one with a window few are read. */
static bool is_read(const struct attn *a, int key, int keys)
{
	for (int b = 0; b < a->nb; b++)
		if (key < a->past[b] && (!a->window || key + keys > a->past[b] + 1 - a->window))
			return true;
	return false;
}

static void dkv_tile(void *arg, int tile, int thread)
{
	const struct attn *a = arg;
	struct work *w = work_of(a, thread);
	int cached = (a->longest + BR - 1) / BR, own = (a->steps + BR - 1) / BR, g = tile % a->G, part = tile / a->G;
	int b = part < cached ? CACHE : (part - cached) / own;
	int key = (part < cached ? part : (part - cached) % own) * BR, end = b == CACHE ? a->longest : a->steps;
	int keys = end - key < BR ? end - key : BR, lanes = (keys + VL - 1) / VL * VL;
	int per = a->steps * a->rep;
	/* the queries of the cache are all; those of a sequence's own rows begin with the block's first row, and end with the
	 * last one whose window has the block's last row */
	int last = key + keys - 1, until = a->window && a->steps - last > a->window ? last + a->window : a->steps;
	int q0 = b == CACHE ? 0 : b * per + key * a->rep, q1 = b == CACHE ? a->queries : b * per + until * a->rep;
	struct source src = source_of(a, g, b);

	if (!w || (b == CACHE && !is_read(a, key, keys)))
		return;
	key_rows(&src, src.k, key, keys, w->row);
	pack_lanes(w->row, keys, a->D, a->pad, 1, w->x);
	key_rows(&src, src.v, key, keys, w->row);
	pack_lanes(w->row, keys, a->D, a->pad, 1, w->y);
	memset(w->gx, 0, (size_t)a->pad * BR * sizeof *w->gx);
	memset(w->gy, 0, (size_t)a->pad * BR * sizeof *w->gy);
	for (int first = q0; first < q1; first += BR) {
		int n = q1 - first < BR ? q1 - first : BR, least, most;
		enum cover c;

		if (!reach(a, w, first, n, b, &least, &most) ||
		    (c = cover(w->lo, w->hi, 0, n, key, key + keys)) == NONE)
			continue;
		for (int i = 0; i < n; i++) {
			w->top[i] = a->lse[query(a, g, first + i)];
			w->sum[i] = a->dot[(size_t)g * (size_t)a->queries + (size_t)(first + i)];
		}
		query_rows(a, a->q, g, first, n, w->row);
		pack_rows(w->row, n, a->D, a->pad, a->scale, w->px);
		query_rows(a, a->d_o, g, first, n, w->row);
		pack_rows(w->row, n, a->D, a->pad, 1, w->py);
		scores(a->D, a->pad, n, lanes, w->px, w->x, w->s);
		scores(a->D, a->pad, n, lanes, w->py, w->y, w->t);
		if (c == ALL)
			slope_keys(w, n, key, lanes, false);
		else
			slope_keys(w, n, key, lanes, true);
		gather(a->pad, n, lanes, w->px, w->s, w->gx);
		gather(a->pad, n, lanes, w->py, w->t, w->gy);
	}
	for (int i = 0; i < keys; i++) {
		size_t at = src.at + (size_t)(key + i) * src.ld;

		unpack_lane(w->gx + i, a->D, 1, b == CACHE, (b == CACHE ? a->dcache_k : a->dk) + at);
		unpack_lane(w->gy + i, a->D, 1, b == CACHE, (b == CACHE ? a->dcache_v : a->dv) + at);
	}
}

void KERNEL(attn_bwd)(struct rf_dev *d, const struct rf_attn_bwd *p)
{
	struct attn a = {
		.d = d, .nb = p->nb, .steps = p->steps, .H = p->H, .G = p->G, .D = p->D,
		.window = p->window, .longest = p->longest, .pad = (p->D + PAD - 1) / PAD * PAD, .rep = p->H / p->G,
		.queries = p->nb * p->steps * (p->H / p->G), .scale = 1 / sqrtf((float)p->D),
		.past = cpu_i32(d, p->past), .q = cpu_f32(d, p->q), .k = cpu_f32(d, p->k), .v = cpu_f32(d, p->v),
		.cache_k = cpu_f32(d, p->cache_k), .cache_v = cpu_f32(d, p->cache_v), .o = cpu_f32(d, p->o),
		.lse = cpu_f32(d, p->lse), .d_o = cpu_f32(d, p->d_o),
		.dq = cpu_f32(d, p->dq), .dk = cpu_f32(d, p->dk), .dv = cpu_f32(d, p->dv),
		.dcache_k = cpu_f32(d, p->dcache_k), .dcache_v = cpu_f32(d, p->dcache_v),
	};

	assert(a.H == a.rep * a.G);
	if (!(a.dot = rf_cpu_scratch(d, -1, (size_t)a.queries * (size_t)a.G * sizeof *a.dot)))
		return;
	cpu_tiles(d, (a.queries + BR - 1) / BR * a.G, dq_tile, &a);
	cpu_tiles(d, ((a.longest + BR - 1) / BR + a.nb * ((a.steps + BR - 1) / BR)) * a.G, dkv_tile, &a);
}
