/* attention.c -- softmax attention in blocks, so that the complete matrix of scores is never stored.
 *
 * Forward: online softmax, Dao et al. 2022, arXiv:2205.14135.  Backward, with D_i = o_i . do_i and
 * p_ij = exp(s_ij - lse_i):
 *
 *     ds_ij = p_ij (do_i . v_j - D_i)
 *     dq_i = sum_j ds_ij k_j,  dk_j = sum_i ds_ij q_i,  dv_j = sum_i p_ij do_i
 *
 * That takes five products of blocks, since s and p are computed only once.
 *
 * A tile belongs to one key head and owns some blocks of 64 rows, the lanes: queries forward, keys backward.
 * It iterates over blocks of 64 rows of the other side, the partners, and multiplies each block by all of its
 * own blocks, so each block of partners is packed only once.  Lanes are stored transposed, (width, 64),
 * partners row by row, (64, width).  Then the products are
 *
 *     scores (64, n) = partners (64, width) lanes (width, n)
 *     sums (width, n) += partners' (width, 64) scores (64, n)
 *
 * and, for dq, scores times the lanes' rows.  The right operand is read in whole vectors, the left operand
 * number by number, and a maximum or sum over the partners is computed on vectors.
 *
 * Backward, a tile owns its dk and dv, but dq is a sum over all keys.  The groups of keys are divided among a
 * fixed number of shares.  Each share has its own sums for all queries, which are added in order afterwards,
 * so no sum depends on the number of threads.
 *
 * The queries of one key head are numbered by sequence, then by step, then by head.  So a block of them holds
 * rollouts that share a prefix, and reads the keys of that prefix (the cache) once for all of them. */
#include <assert.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/product.h"

enum { BR = 64, PAD = ROWS_PAD }; /* BR: rows of a block; PAD: widths are padded to a multiple of PAD */

#define NEVER (-1e30f) /* a score below all others, and finite, so that NEVER - NEVER is 0 */

static int round_up(int n, int of) { return (n + of - 1) / of * of; }

/* ---- products of blocks -------------------------------------------------------------------- */

/* Computes s (partners, lanes) = partners' rows times lanes' rows; partners is rounded up to PAD. */
static void compute_scores(int width, int pad, int partners, int lanes, const float *rows, const float *x,
                           float *s)
{
	prod(false, round_up(partners, PAD), lanes, width, rows, pad, x, BR, s, BR, SET);
}

/* Adds to y (width, lanes) the sum over the partners of partner row times s. */
static void sum_over_partners(int pad, int partners, int lanes, const float *rows, const float *s, float *y)
{
	prod(true, pad, lanes, partners, rows, pad, s, BR, y, BR, ADD);
}

/* Adds to y (partners, wide) s (partners, lanes) times lanes' rows (lanes, wide); partners is rounded up to
 * PAD. */
static void sum_over_lanes(int wide, int partners, int lanes, const float *s, const float *rows, float *y)
{
	prod(false, round_up(partners, PAD), wide, lanes, s, BR, rows, wide, y, wide, ADD);
}

/* ---- rows of a block ----------------------------------------------------------------------- */

/* Packs rows as lanes, one row per column: to (pad, 64). */
static void pack_lanes(const float *const row[BR], int n, int width, int pad, float scale, float *to)
{
	memset(to, 0, (size_t)pad * BR * sizeof *to);
	for (int i = 0; i < n; i++)
		for (int l = 0; l < width; l++)
			to[l * BR + i] = row[i][l] * scale;
}

/* Packs rows as rows: to (n rounded up to PAD, pad). */
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

/* ---- which keys a query reads -------------------------------------------------------------- */

struct attn {
	struct rf_dev *d;
	int nb, steps, decoded, H, G, D, window, longest;
	int pad, wide;    /* D padded to PAD, and to whole vectors */
	int rep, queries; /* query heads per key head, queries per key head: nb steps rep */
	int blocks;       /* largest number of blocks that a tile owns */
	int shares;       /* backward: shares among which the groups of keys are divided */
	float scale;
	const int32_t *cache_start, *cache_len;
	const float *q, *k, *v, *cache_k, *cache_v, *d_o;
	float *o, *lse;
	float *dot, *part; /* dot (rows, H): D_i;  part (shares, G, queries + PAD, wide): of dq */
	float *dq, *dk, *dv, *dcache_k, *dcache_v;
};

enum { MOST_BLOCKS = 4 }; /* largest number of blocks of a tile, small enough to stay in a near cache */
static int blocks_of(int pad) { return pad <= 64 ? MOST_BLOCKS : pad <= 128 ? 2 : 1; }
/* Returns the number of tiles that `rows` rows make. */
static int groups_of(const struct attn *a, int rows)
{
	return (rows + a->blocks * BR - 1) / (a->blocks * BR);
}

/* A block of queries, each of which reads the keys lo..hi-1 of a source. */
struct queries {
	int first, n;
	int32_t lo[BR], hi[BR];
	float top[BR], sum[BR]; /* forward: the softmax so far; backward: lse and D_i */
};

/* A block that the tile owns: (pad, 64) each; for keys also the untransposed rows, (64, wide). */
struct lanes {
	float *x, *y, *gx, *gy, *rows;
};

/* The scratch memory of one thread. */
struct scratch {
	struct queries q[MOST_BLOCKS];
	struct lanes lane[MOST_BLOCKS];
	float *px, *py; /* (64, pad): partners */
	float *s, *t;   /* (64, 64): partners x lanes */
	const float *row[BR];
};

static struct scratch *scratch_of(const struct attn *a, int thread)
{
	size_t block = (size_t)a->pad * BR, rows = (size_t)a->wide * BR, own = 4 * block + rows,
	       head = (sizeof(struct scratch) + 63) / 64 * 64;
	struct scratch *w =
		rf_cpu_scratch(a->d, thread,
	                       head + ((size_t)a->blocks * own + 2 * block + 2 * BR * BR) * sizeof(float));
	float *f;

	if (!w)
		return NULL;
	f = (float *)(void *)((char *)w + head);
	for (int i = 0; i < a->blocks; i++, f += own)
		w->lane[i] = (struct lanes){ f, f + block, f + 2 * block, f + 3 * block, f + 4 * block };
	w->px = f;
	w->py = f + block;
	w->s = f + 2 * block;
	w->t = w->s + BR * BR;
	return w;
}

/* A source of keys for key head g: the rows of sequence b, or, with b CACHE, the rows before all
 * sequences. */
enum { CACHE = -1 };
struct source {
	int b;
	size_t at, ld;
	const float *k, *v;
};

static struct source source_of(const struct attn *a, int g, int b)
{
	size_t row = (size_t)a->G * (size_t)a->D;

	if (b == CACHE)
		return (struct source){ b, (size_t)g * (size_t)a->D, row, a->cache_k, a->cache_v };
	return (struct source){ b, (size_t)b * row + (size_t)g * (size_t)a->D, (size_t)a->nb * row, a->k,
		                a->v };
}

static void key_rows(const struct source *s, const float *base, int first, int n, const float *row[BR])
{
	for (int i = 0; i < n; i++)
		row[i] = base + s->at + (size_t)(first + i) * s->ld;
}

/* Returns the row of q (R H, D) that is query i of key head g. */
static size_t query_row(const struct attn *a, int g, int i)
{
	int b = i / (a->steps * a->rep), j = i / a->rep % a->steps;

	return ((size_t)j * (size_t)a->nb + (size_t)b) * (size_t)a->H + (size_t)(g * a->rep + i % a->rep);
}

static void query_rows(const struct attn *a, const float *base, int g, int first, int n, const float *row[BR])
{
	for (int i = 0; i < n; i++)
		row[i] = base + query_row(a, g, first + i) * (size_t)a->D;
}

/* Sets the range of a source's keys that each query of a block reads, q->lo and q->hi, and the first key
 * (*least) and the end (*end) of all these ranges together.  Queries of other sequences and lanes beyond the
 * block read no key.  Returns false if no query reads a key. */
static bool set_ranges(const struct attn *a, struct queries *q, int b, int *least, int *end)
{
	int per = a->steps * a->rep, first = q->first;
	int i = b == CACHE || b * per < first ? 0 : b * per - first, low = INT_MAX;
	int to = b == CACHE || (b + 1) * per - first > q->n ? q->n : (b + 1) * per - first;

	memset(q->lo, 0, sizeof q->lo);
	memset(q->hi, 0, sizeof q->hi);
	*least = *end = 0;
	for (; i < to; i++) {
		int cache_len = a->cache_len ? a->cache_len[(first + i) / per] : 0,
		    from = b == CACHE && a->cache_start ? a->cache_start[(first + i) / per] : 0;
		int j = a->decoded + (first + i) / a->rep % a->steps; /* own keys before the query */
		int hi = b == CACHE ? cache_len : j + 1, pos = b == CACHE ? cache_len + j : j;
		int lo = a->window && pos + 1 > a->window ? pos + 1 - a->window : 0;

		if (lo >= hi)
			continue;
		q->lo[i] = from + lo;
		q->hi[i] = from + hi;
		low = q->lo[i] < low ? q->lo[i] : low;
		*end = q->hi[i] > *end ? q->hi[i] : *end;
	}
	/* only whole blocks: otherwise a query's sums would depend on what other queries of its tile read */
	*least = *end ? low / BR * BR : 0;
	return *end > 0;
}

/* Finds the lanes l0..l1-1, whole vectors, that hold all queries that read one of the keys k0..k1-1.  If the
 * sequences' keys are in different places, only a few queries read the same key. */
static void find_readers(const struct queries *q, int k0, int k1, int *l0, int *l1)
{
	int first = q->n, end = 0;

	for (int i = 0; i < q->n; i++)
		if (q->lo[i] < k1 && q->hi[i] > k0) {
			first = i < first ? i : first;
			end = i + 1;
		}
	*l0 = first / VL * VL;
	*l1 = round_up(end, VL);
}

/* Tells whether none, some or all of the pairs (query in l0..l1-1, key in k0..k1-1) are read. */
enum coverage { NONE, SOME, ALL };
static enum coverage coverage_of(const struct queries *q, int l0, int l1, int k0, int k1)
{
	bool some = false, all = true;

	for (int i = l0; i < l1; i++) {
		some |= q->lo[i] < k1 && q->hi[i] > k0;
		all &= q->lo[i] <= k0 && q->hi[i] >= k1;
	}
	return all ? ALL : some ? SOME : NONE;
}

/* ---- forward ------------------------------------------------------------------------------- */

/* Adds a block of scores to the running softmax, for the lanes l0..l1-1 (multiples of 16).  The scores become
 * p; y and the sums, which were computed with a lower maximum, are scaled down. */
INLINE void update_softmax(const struct attn *a, struct queries *q, float *scores, float *y, int key,
                           int keys, int l0, int l1, bool masked)
{
	for (int l = l0; l < l1; l += VL) {
		vf old = vload(q->top + l), top = old, sum = vset(0), shrink;
		vi lo = vload_i(q->lo + l), hi = vload_i(q->hi + l), i0 = lo - lo + key, moved;
		int any = 0;

		for (int i = 0; i < keys; i++) {
			vf s = vload(scores + i * BR + l);
			if (masked) {
				s = vpick(vwithin(lo, i0 + i, hi), s, vset(NEVER));
				vstore(scores + i * BR + l, s);
			}
			top = vmax(s, top);
		}
		for (int i = 0; i < keys; i++) {
			vf p = vexp(vload(scores + i * BR + l) - top);
			if (masked)
				p = vpick(vwithin(lo, i0 + i, hi), p, vset(0));
			vstore(scores + i * BR + l, p);
			sum += p;
		}
		shrink = vexp(old - top);
		vstore(q->sum + l, vload(q->sum + l) * shrink + sum);
		vstore(q->top + l, top);
		moved = old != top;
		for (int i = 0; i < VL; i++)
			any |= moved[i];
		for (int i = 0; any && i < a->D; i++)
			vstore(y + i * BR + l, vload(y + i * BR + l) * shrink);
	}
}

/* Adds the contribution of a source's keys to `blocks` blocks of queries. */
static void read_source(const struct attn *a, struct scratch *w, int g, int blocks, int b)
{
	struct source src = source_of(a, g, b);
	int least = 0, end = 0;

	for (int i = 0; i < blocks; i++) {
		int from, to;

		if (!set_ranges(a, &w->q[i], b, &from, &to))
			continue;
		least = end && least < from ? least : from;
		end = to > end ? to : end;
	}
	for (int key = least; key < end; key += BR) {
		int keys = end - key < BR ? end - key : BR;
		bool packed = false;

		for (int i = 0; i < blocks; i++) {
			struct queries *q = &w->q[i];
			int l0, l1;

			find_readers(q, key, key + keys, &l0, &l1);
			if (l0 >= l1)
				continue;
			if (!packed) {
				key_rows(&src, src.k, key, keys, w->row);
				pack_rows(w->row, keys, a->D, a->pad, 1, w->px);
				key_rows(&src, src.v, key, keys, w->row);
				pack_rows(w->row, keys, a->D, a->pad, 1, w->py);
				packed = true;
			}
			compute_scores(a->D, a->pad, keys, l1 - l0, w->px, w->lane[i].x + l0, w->s + l0);
			if (coverage_of(q, l0, l1 < q->n ? l1 : q->n, key, key + keys) == ALL)
				update_softmax(a, q, w->s, w->lane[i].gy, key, keys, l0, l1, false);
			else
				update_softmax(a, q, w->s, w->lane[i].gy, key, keys, l0, l1, true);
			sum_over_partners(a->pad, keys, l1 - l0, w->py, w->s + l0, w->lane[i].gy + l0);
		}
	}
}

static void fwd_tile(void *arg, int tile, int thread)
{
	const struct attn *a = arg;
	struct scratch *w = scratch_of(a, thread);
	int g = tile % a->G, per = a->steps * a->rep, blocks = 0;
	/* the blocks that read most keys come first */
	int first = (groups_of(a, a->queries) - 1 - tile / a->G) * a->blocks * BR, end = first;

	if (!w)
		return;
	for (; blocks < a->blocks && end < a->queries; blocks++) {
		struct queries *q = &w->q[blocks];

		q->first = end;
		q->n = a->queries - end < BR ? a->queries - end : BR;
		end += q->n;
		query_rows(a, a->q, g, q->first, q->n, w->row);
		pack_lanes(w->row, q->n, a->D, a->pad, a->scale, w->lane[blocks].x);
		memset(w->lane[blocks].gy, 0, (size_t)a->pad * BR * sizeof *w->lane[blocks].gy);
		for (int i = 0; i < BR; i++) {
			q->top[i] = NEVER;
			q->sum[i] = 0;
		}
	}
	if (a->longest)
		read_source(a, w, g, blocks, CACHE);
	for (int b = first / per; b <= (end - 1) / per; b++)
		read_source(a, w, g, blocks, b);
	for (int i = 0; i < end - first; i++) {
		const struct queries *q = &w->q[i / BR];
		size_t row = query_row(a, g, first + i);

		unpack_lane(w->lane[i / BR].gy + i % BR, a->D, 1 / q->sum[i % BR], false,
		            a->o + row * (size_t)a->D);
		if (a->lse)
			a->lse[row] = q->top[i % BR] + logf(q->sum[i % BR]);
	}
}

void KERNEL(attn_fwd)(struct rf_dev *d, const struct rf_attn_fwd *p)
{
	struct attn a = {
		/* clang-format off */
		.d = d, .nb = p->nb, .steps = p->steps, .decoded = p->decoded, .H = p->H, .G = p->G,
		.D = p->D, .window = p->window, .longest = p->longest, .pad = round_up(p->D, PAD),
		.wide = round_up(p->D, VL), .rep = p->H / p->G,
		.queries = p->nb * p->steps * (p->H / p->G), .blocks = blocks_of(round_up(p->D, PAD)),
		.scale = 1 / sqrtf((float)p->D), .cache_start = cpu_i32(d, p->cache_start),
		.cache_len = cpu_i32(d, p->cache_len), .q = cpu_f32(d, p->q), .k = cpu_f32(d, p->k),
		/* clang-format on */
		.v = cpu_f32(d, p->v),
		.cache_k = cpu_f32(d, p->cache_k),
		.cache_v = cpu_f32(d, p->cache_v),
		.o = cpu_f32(d, p->o),
		.lse = cpu_f32(d, p->lse),
	};

	assert(a.H == a.rep * a.G);
	cpu_tiles(d, groups_of(&a, a.queries) * a.G, fwd_tile, &a);
}

/* ---- backward ------------------------------------------------------------------------------ */

/* Turns pt into p, and ps into ds = p (do . v - D); row i is a query, lane l is key `key` + l.  ds is 0
 * where p is 1: a row that reads a single key has no slope.  The difference between do . v and D, which are
 * summed in different orders, would only be rounding error. */
INLINE void compute_slopes(const struct queries *q, float *ps, float *pt, int key, int lanes, bool masked)
{
	for (int i = 0; i < q->n; i++)
		for (int l = 0; l < lanes; l += VL) {
			float *s = ps + i * BR + l, *t = pt + i * BR + l;
			vf p = vexp(vload(s) - q->top[i]);

			if (masked) {
				vi at = vcount() + (key + l);
				p = vpick((at >= q->lo[i]) & (at < q->hi[i]), p, vset(0));
			}
			vstore(s, vpick(p != 1, p * (vload(t) - q->sum[i]), vset(0)));
			vstore(t, p);
		}
}

/* A group of keys of one source: the blocks of one tile. */
struct group {
	int b, key, end;
};

static int groups(const struct attn *a) { return groups_of(a, a->longest) + a->nb * groups_of(a, a->steps); }

static struct group group_of(const struct attn *a, int i)
{
	int cached = groups_of(a, a->longest), own = groups_of(a, a->steps),
	    all = i < cached ? a->longest : a->steps;
	struct group x = { i < cached ? CACHE : (i - cached) / own,
		           (i < cached ? i : (i - cached) % own) * a->blocks * BR, 0 };

	x.end = all - x.key < a->blocks * BR ? all : x.key + a->blocks * BR;
	return x;
}

/* Checks whether some row reads one of these keys of the cache.  With a window, most keys of a long cache are
 * not read. */
static bool is_read(const struct attn *a, const struct group *x)
{
	for (int b = 0; b < a->nb; b++)
		if (x->key < a->cache_len[b] && (!a->window || x->end > a->cache_len[b] + 1 - a->window))
			return true;
	return false;
}

/* Adds the contribution of a block of queries to dk and dv of a group's keys, and the keys' contribution to
 * dq. */
static void add_slopes(const struct attn *a, struct scratch *w, int g, const struct group *x, float *dq)
{
	struct queries *q = &w->q[0];
	bool packed = false;
	int first_key, end_key;

	if (!set_ranges(a, q, x->b, &first_key, &end_key))
		return;
	for (int key = x->key, i = 0; key < x->end; key += BR, i++) {
		int keys = x->end - key < BR ? x->end - key : BR, lanes = round_up(keys, VL);
		const struct lanes *k = &w->lane[i];
		enum coverage c = coverage_of(q, 0, q->n, key, key + keys);

		if (c == NONE)
			continue;
		for (int j = 0; j < q->n && !packed; j++) {
			size_t row = query_row(a, g, q->first + j);

			q->top[j] = a->lse[row];
			q->sum[j] = a->dot[row];
		}
		if (!packed) {
			query_rows(a, a->q, g, q->first, q->n, w->row);
			pack_rows(w->row, q->n, a->D, a->pad, a->scale, w->px);
			query_rows(a, a->d_o, g, q->first, q->n, w->row);
			pack_rows(w->row, q->n, a->D, a->pad, 1, w->py);
			packed = true;
		}
		compute_scores(a->D, a->pad, q->n, lanes, w->px, k->x, w->s);
		compute_scores(a->D, a->pad, q->n, lanes, w->py, k->y, w->t);
		if (c == ALL)
			compute_slopes(q, w->s, w->t, key, lanes, false);
		else
			compute_slopes(q, w->s, w->t, key, lanes, true);
		sum_over_partners(a->pad, q->n, lanes, w->px, w->s, k->gx);
		sum_over_partners(a->pad, q->n, lanes, w->py, w->t, k->gy);
		sum_over_lanes(a->wide, q->n, keys, w->s, k->rows, dq);
	}
}

static void bwd_group(const struct attn *a, struct scratch *w, int g, const struct group *x, float *dq)
{
	/* all queries may read the cache; a sequence's own keys are read by queries from the group's first
	 * row on, to the last one whose window includes the group's last row */
	int per = a->steps * a->rep, last = x->end - 1,
	    until = a->window && a->steps - last > a->window ? last + a->window : a->steps;
	int q0 = x->b == CACHE ? 0 : x->b * per + x->key * a->rep,
	    q1 = x->b == CACHE ? a->queries : x->b * per + until * a->rep;
	struct source src = source_of(a, g, x->b);

	for (int key = x->key, i = 0; key < x->end; key += BR, i++) {
		const struct lanes *k = &w->lane[i];
		int n = x->end - key < BR ? x->end - key : BR;

		key_rows(&src, src.k, key, n, w->row);
		pack_lanes(w->row, n, a->D, a->pad, 1, k->x);
		pack_rows(w->row, n, a->D, a->wide, 1, k->rows);
		key_rows(&src, src.v, key, n, w->row);
		pack_lanes(w->row, n, a->D, a->pad, 1, k->y);
		memset(k->gx, 0, (size_t)a->pad * BR * sizeof *k->gx);
		memset(k->gy, 0, (size_t)a->pad * BR * sizeof *k->gy);
	}
	for (int first = q0; first < q1; first += BR) {
		w->q[0].first = first;
		w->q[0].n = q1 - first < BR ? q1 - first : BR;
		add_slopes(a, w, g, x, dq + (size_t)first * (size_t)a->wide);
	}
	for (int i = 0; i < x->end - x->key; i++) {
		const struct lanes *k = &w->lane[i / BR];
		size_t at = src.at + (size_t)(x->key + i) * src.ld;

		unpack_lane(k->gx + i % BR, a->D, 1, x->b == CACHE,
		            (x->b == CACHE ? a->dcache_k : a->dk) + at);
		unpack_lane(k->gy + i % BR, a->D, 1, x->b == CACHE,
		            (x->b == CACHE ? a->dcache_v : a->dv) + at);
	}
}

/* head_size: returns the number of floats of a share's dq for one key head; the PAD rows at its end receive
 * the sums of rows that do not exist.  share_size: the same for all key heads. */
static size_t head_size(const struct attn *a) { return ((size_t)a->queries + PAD) * (size_t)a->wide; }
static size_t share_size(const struct attn *a) { return (size_t)a->G * head_size(a); }

/* Computes the gradients of one share of the keys of a head.  A share has every shares-th group, so each
 * share has some of the keys that many queries read. */
static void bwd_tile(void *arg, int tile, int thread)
{
	const struct attn *a = arg;
	struct scratch *w = scratch_of(a, thread);
	int g = tile % a->G, share = tile / a->G;
	float *dq = a->part + (size_t)share * share_size(a) + (size_t)g * head_size(a);

	if (!w)
		return;
	memset(dq, 0, head_size(a) * sizeof *dq);
	for (int i = share; i < groups(a); i += a->shares) {
		struct group x = group_of(a, i);

		if (x.b != CACHE || is_read(a, &x))
			bwd_group(a, w, g, &x, dq);
	}
}

static void dot_tile(void *arg, int tile, int thread)
{
	const struct attn *a = arg;
	size_t D = (size_t)a->D, end = (size_t)a->nb * (size_t)a->steps * (size_t)a->H,
	       i = (size_t)tile * ROWS_TILE;

	(void)thread;
	for (size_t to = i + ROWS_TILE; i < to && i < end; i++) {
		vf sum = vset(0);

		for (int l = 0; l < a->D; l += VL)
			sum += vget(a->o + i * D, l, a->D) * vget(a->d_o + i * D, l, a->D);
		a->dot[i] = vsum(sum);
	}
}

/* Computes dq of a block of queries: the sum over the shares. */
static void dq_tile(void *arg, int tile, int thread)
{
	const struct attn *a = arg;
	int g = tile % a->G, first = tile / a->G * BR;

	(void)thread;
	for (int i = first; i < a->queries && i < first + BR; i++) {
		const float *part = a->part + (size_t)g * head_size(a) + (size_t)i * (size_t)a->wide;
		float *dq = a->dq + query_row(a, g, i) * (size_t)a->D;

		for (int l = 0; l < a->D; l += VL) {
			vf sum = vload(part + l);
			for (int share = 1; share < a->shares; share++)
				sum += vload(part + (size_t)share * share_size(a) + l);
			vput(dq, l, a->D, sum * a->scale);
		}
	}
}

void KERNEL(attn_bwd)(struct rf_dev *d, const struct rf_attn_bwd *p)
{
	struct attn a = {
		/* clang-format off */
		.d = d, .nb = p->nb, .steps = p->steps, .H = p->H, .G = p->G, .D = p->D,
		.window = p->window, .longest = p->longest, .pad = round_up(p->D, PAD),
		/* clang-format on */
		.wide = round_up(p->D, VL),
		.rep = p->H / p->G,
		.queries = p->nb * p->steps * (p->H / p->G),
		.blocks = blocks_of(round_up(p->D, PAD)),
		.shares = cpu_attn_shares(p->G),
		.scale = 1 / sqrtf((float)p->D),
		.cache_len = cpu_i32(d, p->cache_len),
		.q = cpu_f32(d, p->q),
		.k = cpu_f32(d, p->k),
		.v = cpu_f32(d, p->v),
		/* clang-format off */
		.cache_k = cpu_f32(d, p->cache_k), .cache_v = cpu_f32(d, p->cache_v), .o = cpu_f32(d, p->o),
		.lse = cpu_f32(d, p->lse), .d_o = cpu_f32(d, p->d_o),
		.dq = cpu_f32(d, p->dq), .dk = cpu_f32(d, p->dk), .dv = cpu_f32(d, p->dv),
		.dcache_k = cpu_f32(d, p->dcache_k), .dcache_v = cpu_f32(d, p->dcache_v),
		/* clang-format on */
	};
	const int rows = p->nb * p->steps;

	assert(a.H == a.rep * a.G);
	if (a.shares > groups(&a))
		a.shares = groups(&a);
	if (!(a.part = rf_cpu_scratch(
		      d, -1, cpu_attn_part(a.shares, (size_t)rows, p->H, p->G, p->D) * sizeof *a.part)))
		return;
	a.dot = a.part + (size_t)a.shares * share_size(&a);
	cpu_tiles(d, (rows * a.H + ROWS_TILE - 1) / ROWS_TILE, dot_tile, &a);
	cpu_tiles(d, a.shares * a.G, bwd_tile, &a);
	cpu_tiles(d, (a.queries + BR - 1) / BR * a.G, dq_tile, &a);
}
