/* ops-attention -- softmax attention, with windows, caches and step by step, against double precision.
 * Arguments: the devices, instead of cpu with 1, 2, 3 threads and check. */
#include "unit/ops.h"

struct attn {
	int nb, steps, H, G, D, window, longest;
};

/* Computes o and lse from q (R, H, D) and the keys and values of the cache, where sequence b begins at
 * start[b] (NULL: 0), and of the rows. */
static void attn_ref(const struct attn *c, const int32_t *start, const int32_t *past, const num *q,
                     const num *k, const num *v, const num *ck, const num *cv, num *o, num *lse)
{
	size_t most = (size_t)(c->longest + c->steps);
	num *s = room(most), *column = room(most);
	const num **kr = keep(most, sizeof *kr), **vr = keep(most, sizeof *vr);

	for (int row = 0; row < c->nb * c->steps; row++)
		for (int h = 0; h < c->H; h++) {
			int b = row % c->nb, end = past[b] + row / c->nb + 1,
			    begin = c->window && end > c->window ? end - c->window : 0;
			int g = h * c->G / c->H, n = end - begin, at = (row * c->H + h);

			for (int i = 0; i < n; i++) {
				bool cached = begin + i < past[b];
				int at_cache = (start ? start[b] : 0) + begin + i;
				int key = (cached ? at_cache : (begin + i - past[b]) * c->nb + b) * c->G + g;
				kr[i] = (cached ? ck : k) + key * c->D;
				vr[i] = (cached ? cv : v) + key * c->D;
				s[i] = exponential(
					scaled(dot(c->D, q + at * c->D, 1, kr[i], 1), 1 / sqrt(c->D)));
			}
			num total = sum(n, s, 1), part = inverse(total);
			lse[at] = logarithm(total);
			for (int l = 0; l < c->D; l++) {
				for (int i = 0; i < n; i++)
					column[i] = vr[i][l];
				o[at * c->D + l] = mul(dot(n, s, 1, column, 1), part);
			}
		}
}

/* Checks that a row that reads a single key has no slope, not even a rounding error. */
static void no_slope(struct buf dq)
{
	float *h = get(dq);
	bool found = false;

	for (size_t i = 0; i < dq.n; i++)
		found |= h[i] < 0 || h[i] > 0;
	judge("attn_bwd dq is 0 where one key is read", found, 0);
	free(h);
}

static void attn(int nb, int steps, int H, int G, int D, int window, int longest)
{
	struct attn c = { nb, steps, H, G, D, window, longest };
	size_t nq = (size_t)(nb * steps * H) * (size_t)D, nk = (size_t)(nb * steps * G) * (size_t)D,
	       row = (size_t)(G * D);
	size_t begin = steps & 1; /* where keys begin: not always at whole vectors */

	snprintf(label, sizeof label, "nb %d steps %d H %d G %d D %d window %d longest %d", nb, steps, H, G,
	         D, window, longest);
	for (EACH_DEVICE) {
		struct buf q = in(nq, -2, 2), k = in(nk + begin, -1, 1), v = in(nk, -1, 1), o = out(nq),
			   lse = out(nq / (size_t)D);
		struct buf ck = in((size_t)longest * row, -1, 1), cv = in(ck.n, -1, 1), d_o = in(nq, -1, 1);
		struct buf dq = out(nq), dk = out(nk), dv = out(nk), dck = in(ck.n, -1, 1),
			   dcv = in(ck.n, -1, 1), o1 = out(nq);
		int32_t past[8];
		rf_i32 pasts;
		num *Q = NULL, *K = NULL, *V = NULL, *CK = NULL, *CV = NULL, *O = NULL, *L = NULL;

		for (int b = 0; b < 8; b++) /* from none to all of the cache, unordered */
			past[b] = b == nb - 1 ? longest : longest * (b * 3 % 8) / 8;
		pasts = in_i32(past, 8);
		/* clang-format off */
		struct rf_attn_fwd f = { .nb = nb, .steps = steps, .H = H, .G = G, .D = D, .window = window,
		                         .longest = longest, .cache_len = longest ? pasts : NULL,
		                         .cache_k = longest ? ck.m : NULL, .cache_v = longest ? cv.m : NULL,
		                         .q = q.m, .k = rf_at(k.m, begin), .v = v.m, .o = o.m,
		                         .lse = lse.m };
		/* clang-format on */
		dev->ops->attn_fwd(dev, &f);
		if (first) {
			Q = nums(q), K = nums(k), V = nums(v), CK = nums(ck), CV = nums(cv), O = room(nq),
			L = room(lse.n);
			attn_ref(&c, NULL, past, Q, K + begin, V, CK, CV, O, L);
		}
		product_values("attn_fwd o", o, first ? values_of(O, nq) : NULL, VALUE);
		product_values("attn_fwd lse", lse, first ? values_of(L, lse.n) : NULL, VALUE);

		/* step by step, and without lse */
		f.lse = NULL;
		f.steps = 1;
		for (f.decoded = 0; f.decoded < steps; f.decoded++) {
			f.q = rf_at(q.m, (size_t)f.decoded * nq / (size_t)steps);
			f.o = rf_at(o1.m, (size_t)f.decoded * nq / (size_t)steps);
			dev->ops->attn_fwd(dev, &f);
		}
		product_values("attn_fwd o, step by step", o1, first ? values_of(O, nq) : NULL, VALUE);
		RF_RUN(dev, attn_bwd, .nb = nb, .steps = steps, .H = H, .G = G, .D = D, .window = window,
		       .longest = longest, .cache_len = f.cache_len, .q = q.m, .k = f.k, .v = v.m,
		       .cache_k = f.cache_k, .cache_v = f.cache_v, .o = o.m, .lse = lse.m, .d_o = d_o.m,
		       .dq = dq.m, .dk = dk.m, .dv = dv.m, .dcache_k = longest ? dck.m : NULL,
		       .dcache_v = longest ? dcv.m : NULL);
		if (first) {
			seed_back(O, d_o);
			back_propagate();
		}
		product_values("attn_bwd dq", dq, first ? gradients(Q, nq, NULL) : NULL, GRADIENT);
		if (window == 1)
			no_slope(dq);
		product_values("attn_bwd dk", dk, first ? gradients(K + begin, nk, NULL) : NULL, GRADIENT);
		product_values("attn_bwd dv", dv, first ? gradients(V, nk, NULL) : NULL, GRADIENT);
		product_values("attn_bwd dcache_k", dck, first ? gradients(CK, ck.n, dck.h) : NULL, GRADIENT);
		product_values("attn_bwd dcache_v", dcv, first ? gradients(CV, cv.n, dcv.h) : NULL, GRADIENT);
	}
}

/* ---- sequences in different places of a cache ---------------------------------------------- */

/* MOST: largest number of sequences.  UNREAD: the contents of rows that no query reads: large, so that a
 * mistake shows, and finite, so that 0 times it is 0. */
enum { MOST = 16 };
#define UNREAD 1e30f

/* Chooses where each sequence's cache begins: unordered, samples of one prompt at the same row, and at least
 * one unread row between the rows of two prompts.  Returns the number of all rows. */
static int place_caches(const struct attn *c, int samples, int32_t *start, int32_t *len)
{
	int prompts = (c->nb + samples - 1) / samples, rows = 64; /* the first sequence is not at 0 */

	for (int i = 0; i < prompts; i++) {
		int at = (i * 7 + 1) % prompts,
		    n = at == 1 % prompts ? c->longest : c->longest * at / prompts;

		for (int b = at * samples; b < c->nb && b < (at + 1) * samples; b++) {
			start[b] = rows;
			len[b] = n;
		}
		rows += n / 64 * 64 + 64;
	}
	return rows;
}

/* Returns only the rows of sequence b of x (steps, nb, row). */
static struct buf sequence_of(struct buf x, const struct attn *c, int b, size_t row)
{
	float *h = need((size_t)c->steps * row + FENCE, sizeof *h);

	for (int j = 0; j < c->steps; j++)
		memcpy(h + (size_t)j * row, x.h + (size_t)(j * c->nb + b) * row, row * sizeof *h);
	return of(h, (size_t)c->steps * row);
}

/* Returns the rows of the cache that sequence b reads, moved to row 128. */
static struct buf moved_cache(struct buf x, int start, int len, size_t row)
{
	size_t n = (size_t)(128 + len) * row;
	float *h = need(n + FENCE, sizeof *h);

	for (size_t i = 0; i < 128 * row; i++)
		h[i] = UNREAD;
	memcpy(h + 128 * row, x.h + (size_t)start * row, (size_t)len * row * sizeof *h);
	return of(h, n);
}

/* Runs all rows in one call, or one after the other. */
static void run_attention(struct rf_attn_fwd f, size_t row, bool stepwise)
{
	int steps = f.steps;
	rf_f32 q = f.q, o = f.o;

	if (!stepwise) {
		dev->ops->attn_fwd(dev, &f);
		return;
	}
	f.steps = 1;
	for (f.decoded = 0; f.decoded < steps; f.decoded++) {
		f.q = rf_at(q, (size_t)(f.decoded * f.nb) * row);
		f.o = rf_at(o, (size_t)(f.decoded * f.nb) * row);
		dev->ops->attn_fwd(dev, &f);
	}
}

/* Checks that sequence b by itself, at another place of another cache, gives the same o as among the others:
 * exactly on the CPU, where no result may depend on other sequences. */
static void by_itself(const struct attn *c, int b, int32_t start, int32_t len, struct rf_attn_fwd f,
                      const struct buf in[5], const num *O, const float *o)
{
	size_t wide = (size_t)(c->H * c->D), row = (size_t)(c->G * c->D), n = (size_t)c->steps * wide;
	num *mine = room(n);
	struct buf y = out(n);
	int32_t there = 128;
	bool differ = false;
	float *h;

	f.nb = 1;
	f.longest = len;
	f.cache_start = in_i32(&there, 1);
	f.cache_len = in_i32(&len, 1);
	f.q = sequence_of(in[0], c, b, wide).m;
	f.k = sequence_of(in[1], c, b, row).m;
	f.v = sequence_of(in[2], c, b, row).m;
	f.cache_k = moved_cache(in[3], start, len, row).m;
	f.cache_v = moved_cache(in[4], start, len, row).m;
	f.o = y.m;
	run_attention(f, wide, true);
	for (int j = 0; j < c->steps && first; j++)
		memcpy(mine + (size_t)j * wide, O + (size_t)(j * c->nb + b) * wide, wide * sizeof *mine);
	product_values("attn_fwd o, separate, by itself", y, first ? values_of(mine, n) : NULL, VALUE);
	h = get(y);
	for (int j = 0; j < c->steps; j++)
		differ |= memcmp(h + (size_t)j * wide, o + (size_t)(j * c->nb + b) * wide,
		                 wide * sizeof *h) != 0;
	if (strcmp(dev->ops->name, "cuda"))
		judge("attn_fwd o, separate: bits as by itself", differ, 0);
	free(h);
}

static void separate(int nb, int samples, int steps, int H, int G, int D, int window, int longest)
{
	struct attn c = { nb, steps, H, G, D, window, longest };
	size_t wide = (size_t)(H * D), row = (size_t)(G * D), nq = (size_t)(nb * steps) * wide,
	       nk = (size_t)(nb * steps) * row;
	int32_t start[MOST], len[MOST];
	int rows = place_caches(&c, samples, start, len);

	snprintf(label, sizeof label, "nb %d in %ds steps %d H %d G %d D %d window %d longest %d", nb,
	         samples, steps, H, G, D, window, longest);
	for (EACH_DEVICE) {
		struct buf q = in(nq, -2, 2), k = in(nk, -1, 1), v = in(nk, -1, 1),
			   ck = in((size_t)rows * row, -1, 1), cv = in(ck.n, -1, 1);
		struct buf o = out(nq), lse = out((size_t)(nb * steps * H)), o1 = out(nq);
		bool *read = keep((size_t)rows, sizeof *read);
		num *O = NULL, *L = NULL;
		float *have;

		for (int b = 0; b < nb; b++)
			memset(read + start[b], 1, (size_t)len[b]);
		for (size_t i = 0; i < ck.n; i++)
			if (!read[i / row])
				ck.h[i] = cv.h[i] = UNREAD;
		dev->ops->upload(dev, ck.m, ck.h, ck.n * sizeof *ck.h);
		dev->ops->upload(dev, cv.m, cv.h, cv.n * sizeof *cv.h);
		/* clang-format off */
		struct rf_attn_fwd f = { .nb = nb, .steps = steps, .H = H, .G = G, .D = D, .window = window,
		                         .longest = longest, .cache_start = in_i32(start, nb),
		                         .cache_len = in_i32(len, nb), .cache_k = ck.m, .cache_v = cv.m,
		                         .q = q.m, .k = k.m, .v = v.m, .o = o.m, .lse = lse.m };
		/* clang-format on */
		run_attention(f, wide, false);
		if (first) {
			num *Q = nums(q), *K = nums(k), *V = nums(v), *CK = nums(ck), *CV = nums(cv);

			O = room(nq), L = room(lse.n);
			attn_ref(&c, start, len, Q, K, V, CK, CV, O, L);
		}
		product_values("attn_fwd o, separate", o, first ? values_of(O, nq) : NULL, VALUE);
		product_values("attn_fwd lse, separate", lse, first ? values_of(L, lse.n) : NULL, VALUE);
		f.lse = NULL;
		f.o = o1.m;
		run_attention(f, wide, true);
		product_values("attn_fwd o, separate, step by step", o1, first ? values_of(O, nq) : NULL,
		               VALUE);
		have = get(o1);
		for (int b = 0; b < nb; b += nb < 4 ? 1 : nb / 4)
			by_itself(&c, b, start[b], len[b], f, (struct buf[]){ q, k, v, ck, cv }, O, have);
		free(have);
	}
}

/* Checks prompts that end at a block or not, no prompt, and windows that end in the cache, after it and
 * before it. */
static void all_separate(void)
{
	separate(3, 1, 1, 2, 1, 16, 0, 192);
	separate(3, 1, 1, 2, 1, 16, 0, 191);
	separate(16, 1, 3, 4, 2, 17, 0, 130);
	separate(5, 1, 2, 4, 4, 40, 0, 64);
	separate(8, 2, 5, 6, 2, 12, 33, 150);
	separate(12, 4, 2, 8, 1, 64, 0, 63);
	separate(16, 8, 9, 8, 2, 8, 7, 200);
	separate(4, 1, 70, 1, 1, 8, 40, 100);
	separate(2, 2, 4, 3, 1, 72, 0, 129);
	separate(6, 3, 1, 4, 2, 136, 100, 300);
	separate(2, 1, 1, 2, 1, 64, 0, 1);
	separate(2, 1, 2, 1, 1, 8, 0, 900); /* few rows, and many keys, which a GPU splits into parts */
}

static void attns(void)
{
	static const int lengths[] = { 1, 3, 16, 63, 64, 65, 130 };

	for (int i = 0; i < COUNT(lengths); i++) {
		attn(1, lengths[i], 2, 2, 8, 0, 0);
		attn(1, lengths[i], 4, 1, 7, 20, 0);
		attn(1, lengths[i], 2, 1, 40, 0, 70);
		attn(3, lengths[i], 4, 2, 5, 33, 20);
	}
	attn(1, 130, 1, 1, 64, 64, 130);
	attn(1, 66, 1, 1, 128, 0, 3);
	attn(1, 40, 3, 1, 80, 1, 0); /* each row reads only itself */
	attn(8, 5, 4, 2, 16, 0, 200);
	attn(8, 5, 4, 4, 8, 7, 200); /* windows that begin inside the branch, and in the cache */
	attn(8, 1, 2, 1, 17, 0, 65);
	attn(3, 9, 6, 2, 17, 66, 130);
	attn(1, 300, 1, 1, 12, 100, 0);
	/* groups of heads, and windows that leave holes in the cache between the sequences */
	attn(8, 20, 8, 2, 12, 30, 300);
	attn(2, 21, 3, 1, 136, 25, 90);
	attn(1, 50, 1, 1, 256, 0, 40);
	attn(1, 8, 2, 1, 16, 0, 703); /* few rows and many keys, one less than fills a block */
	attn(1, 2, 1, 1, 64, 0, 63);
	attn(2, 300, 4, 2, 12, 65, 0); /* blocks of keys that most later rows do not reach */
	attn(2, 70, 2, 1, 8, INT32_MAX, 40);
	attn(1, 300, 16, 16, 4, 90, 20); /* many key heads, so the CPU needs one share per head */
	/* sixteen rows, only one of which does not read the first of 64 keys */
	attn(1, 150, 1, 1, 8, 79, 0);
	all_separate();
}

static void attns_bf16(void)
{
	static const int head_widths[] = { 8, 40, 64, 72, 128, 136, 256 };

	for (int i = 0; i < COUNT(head_widths); i++) {
		attn(1, 130, 2, 1, head_widths[i], i % 3 * 40, i % 2 * 70);
		attn(3, 7, 4, 2, head_widths[i], i % 2 * 33, 100);
	}
	attn(1, 1, 1, 1, 64, 0, 0);
	attn(1, 70, 3, 1, 80, 1, 0);
	attn(8, 5, 4, 4, 8, 7, 200);
	attn(8, 1, 2, 1, 17, 0, 300);
	attn(8, 20, 8, 2, 12, 30, 300);
	attn(1, 8, 2, 1, 16, 0, 703);
	attn(1, 2, 1, 1, 64, 0, 63);
	attn(1, 150, 1, 1, 8, 79, 0);
	all_separate();
}

/* Checks that a NaN of any operand shows in the output of its row. */
static void nans(void)
{
	enum { T = 70, H = 2, K = 8, D = H * K };

	for (int which = 0; which < 3; which++)
		for (EACH_DEVICE) {
			struct buf q = in(T * D, -1, 1), k = in(T * D, -0.3f, 0.3f), v = in(T * D, -1, 1);
			struct buf o = in(T * D, 0, 0), lse = in(T * H, 0, 0);
			struct buf *hit = which == 0 ? &q : which == 1 ? &k : &v;
			float nan = NAN;

			dev->ops->upload(dev, rf_at(hit->m, 66 * D + 3), &nan, sizeof nan);
			RF_RUN(dev, attn_fwd, .nb = 1, .steps = T, .H = H, .G = H, .D = K, .q = q.m, .k = k.m,
			       .v = v.m, .o = o.m, .lse = lse.m);
			keeps_nan("attn_fwd o", o);
		}
}

int main(int argc, char *argv[])
{
	in_bf16(argc, argv, attns_bf16);
	open_devices(argc, argv, RF_MATH_F32);
	nans();
	attns();
	return finish();
}
