/* attention_tile.h -- declarations that attention.cu and attention_back.cu share: sizes of blocks, the keys
 * that each query reads, loading rows into shared memory, and launches. */
#ifndef RF_ATTENTION_TILE_H
#define RF_ATTENTION_TILE_H

#include <climits>

#include "cuda/cuda.h"
#include "cuda/warp.h"

#define NEVER (-1e30f) /* below all scores, and finite, so that NEVER - NEVER is 0 */

/* The sizes of blocks, for heads of up to DP columns.
 *
 *     WARPS       forward and dq: warps of a block, each of which has 16 queries
 *     KEYS        forward: keys that these queries meet at a time; DQ_KEYS: the same for dq
 *     OWN         dk and dv: keys of a block
 *     READERS     dk and dv: queries that these keys meet at a time
 *     OWN_WARPS   dk and dv: warps of a block; several share 16 keys
 *     *_BLOCKS    blocks that fit into a multiprocessor by their shared memory; the compiler is told to use
 *                 few enough registers for that */
template <class T, int DP> struct sizes;
template <> struct sizes<bf16, 64> {
	enum { WARPS = 8, KEYS = 64, DQ_KEYS = 32, OWN = 64, READERS = 64, OWN_WARPS = 8 };
	enum { FWD_BLOCKS = 2, DQ_BLOCKS = 2, DKV_BLOCKS = 2 };
};
template <> struct sizes<bf16, 128> {
	enum { WARPS = 8, KEYS = 64, DQ_KEYS = 64, OWN = 64, READERS = 64, OWN_WARPS = 8 };
	enum { FWD_BLOCKS = 1, DQ_BLOCKS = 1, DKV_BLOCKS = 2 };
};
template <> struct sizes<bf16, 256> {
	enum { WARPS = 4, KEYS = 32, DQ_KEYS = 32, OWN = 32, READERS = 32, OWN_WARPS = 4 };
	enum { FWD_BLOCKS = 2, DQ_BLOCKS = 2, DKV_BLOCKS = 2 };
};
template <> struct sizes<float, 64> {
	enum { WARPS = 4, KEYS = 32, DQ_KEYS = 32, OWN = 32, READERS = 32, OWN_WARPS = 4 };
	enum { FWD_BLOCKS = 3, DQ_BLOCKS = 3, DKV_BLOCKS = 4 };
};
template <> struct sizes<float, 128> {
	enum { WARPS = 4, KEYS = 32, DQ_KEYS = 32, OWN = 32, READERS = 32, OWN_WARPS = 4 };
	enum { FWD_BLOCKS = 2, DQ_BLOCKS = 2, DKV_BLOCKS = 2 };
};
template <> struct sizes<float, 256> {
	enum { WARPS = 2, KEYS = 16, DQ_KEYS = 16, OWN = 16, READERS = 16, OWN_WARPS = 2 };
	enum { FWD_BLOCKS = 2, DQ_BLOCKS = 2, DKV_BLOCKS = 3 };
};

/* Returns the length of a row in shared memory: 16 bytes longer than needed, so that neighbours are in
 * different banks. */
template <class T> static __host__ __device__ constexpr int padded(int n) { return n + 16 / (int)sizeof(T); }
/* Returns the numbers of shared memory that are needed to turn a sum into a left operand: 0 in bf16. */
template <class T> static __host__ __device__ constexpr int scratch_size(int rows, int keys)
{
	return sizeof(T) == 4 ? rows * padded<T>(keys) : 0;
}

struct attn {
	/* len: own rows of a sequence; queries: of a key head */
	int nb, steps, len, decoded, H, G, rep, D, window, longest, queries;
	/* rows of q, k, v, do begin at multiples of 16 bytes */
	bool vec;
	float scale;
	const int32_t *cache_start, *cache_len;
	const float *q, *k, *v, *cache_k, *cache_v, *d_o;
	float *o, *lse, *dq, *dk, *dv, *dcache_k, *dcache_v;
	float *dot;                        /* (R, H): the sum of o do */
	float *part, *part_top, *part_sum; /* (splits, R, H, D) and (splits, R, H): NULL without splits */
};

/* ---- which keys a query reads -------------------------------------------------------------- */

/* Returns the row of q (R H, D) that is query i of key head g. */
static __device__ __forceinline__ size_t query(const attn &a, int g, int i)
{
	const int head = g * a.rep + i % a.rep, at = i / a.rep;

	return ((size_t)(at % a.steps) * a.nb + at / a.steps) * a.H + head;
}

/* The keys lo..hi-1 of a source. */
struct key_range {
	int lo, hi;
};

/* Returns the keys of a source that query i reads. */
static __device__ __forceinline__ key_range range_of(const attn &a, int i, bool cache)
{
	const int b = i / a.rep / a.steps, j = a.decoded + i / a.rep % a.steps;
	const int cache_len = a.cache_len ? a.cache_len[b] : 0;
	const int hi = cache ? cache_len : j + 1, pos = cache ? cache_len + j : j,
		  lo = a.window && pos + 1 > a.window ? pos + 1 - a.window : 0;
	const int from = !cache ? b * a.len : a.cache_start ? a.cache_start[b] : 0;

	return lo < hi ? key_range{ from + lo, from + hi } : key_range{ 0, 0 };
}

static __device__ __forceinline__ bool overlaps(key_range r, int k0, int k1)
{
	return r.lo < k1 && r.hi > k0;
}
static __device__ __forceinline__ bool contains(key_range r, int k0, int k1)
{
	return r.lo <= k0 && r.hi >= k1;
}

/* Returns where row `key` of a source begins, in (., G, D). */
static __device__ __forceinline__ size_t key_row(const attn &a, bool cache, int g, int key)
{
	const size_t row = cache || a.nb == 1 ? key : (size_t)(key % a.len) * a.nb + key / a.len;

	return (row * a.G + g) * a.D;
}

/* The steps in which a block of ROWS queries reads keys, KEYS keys per step: first the cache, then the rows
 * of the pass.  A block computes part blockIdx.y of the steps, which ends before step `stop`. */
template <int ROWS, int KEYS> struct key_blocks {
	key_range *ranges; /* (2, ROWS) in shared memory */
	int cache_steps, from0, from1, end0, end1, stop;
	bool sparse; /* the queries belong to several sequences: no query may read some steps */

	__device__ __forceinline__ void find_ends(int source, int &least, int &end)
	{
		least = INT_MAX;
		end = 0;
		for (int r = threadIdx.x & 31; r < ROWS; r += 32) {
			const key_range s = ranges[source * ROWS + r];

			least = s.hi && s.lo < least ? s.lo : least;
			end = s.hi > end ? s.hi : end;
		}
		for (int o = 16; o; o >>= 1) {
			const int l = __shfl_xor_sync(~0u, least, o), e = __shfl_xor_sync(~0u, end, o);

			least = l < least ? l : least;
			end = e > end ? e : end;
		}
		least = end ? least / KEYS * KEYS : 0;
	}

	/* Returns the first step.  The ranges that it writes to shared memory are visible to all threads. */
	__device__ __forceinline__ int start(const attn &a, int first, int n)
	{
		const int i = threadIdx.x;

		if (i < ROWS)
			for (int source = 0; source < 2; source++)
				ranges[source * ROWS + i] =
					i < n ? range_of(a, first + i, !source) : key_range{ 0, 0 };
		__syncthreads();
		find_ends(0, from0, end0);
		find_ends(1, from1, end1);
		cache_steps = (end0 - from0 + KEYS - 1) / KEYS;
		sparse = first / a.rep / a.steps != (first + n - 1) / a.rep / a.steps;

		const int all = cache_steps + (end1 - from1 + KEYS - 1) / KEYS;

		stop = (int)((long long)all * (blockIdx.y + 1) / gridDim.y);
		return next_read((int)((long long)all * blockIdx.y / gridDim.y));
	}

	__device__ __forceinline__ bool in_cache(int t) const { return t < cache_steps; }
	__device__ __forceinline__ int first_key(int t) const
	{
		return in_cache(t) ? from0 + t * KEYS : from1 + (t - cache_steps) * KEYS;
	}
	__device__ __forceinline__ int end_key(int t) const { return in_cache(t) ? end0 : end1; }
	__device__ __forceinline__ key_range range(int t, int row) const
	{
		return ranges[(in_cache(t) ? 0 : ROWS) + row];
	}

	/* Returns the first step from t on that some query reads.  All threads must call it together. */
	__device__ __forceinline__ int next_read(int t) const
	{
		while (sparse && t < stop &&
		       !__syncthreads_or((int)threadIdx.x < ROWS &&
		                         overlaps(range(t, threadIdx.x), first_key(t), first_key(t) + KEYS)))
			t++;
		return t;
	}
};

/* ---- rows into shared memory --------------------------------------------------------------- */

static __device__ __forceinline__ float4 read_four(const float *row, int c, int D, bool vec)
{
	float4 x = { 0, 0, 0, 0 };

	if (!row || c >= D)
		return x;
	if (vec)
		return *(const float4 *)(row + c);
	x.x = row[c];
	x.y = c + 1 < D ? row[c + 1] : 0;
	x.z = c + 2 < D ? row[c + 2] : 0;
	x.w = c + 3 < D ? row[c + 3] : 0;
	return x;
}

static __device__ __forceinline__ void store_four(float *to, float4 x, float factor)
{
	*(float4 *)to = { x.x * factor, x.y * factor, x.z * factor, x.w * factor };
}

static __device__ __forceinline__ void store_four(bf16 *to, float4 x, float factor)
{
	*(uint2 *)to = { two_bf16(x.x * factor, x.y * factor), two_bf16(x.z * factor, x.w * factor) };
}

/* n rows of keys or values of one source, from row `first` on.  If the distance between rows is constant
 * (even), computing a row's address takes one multiplication. */
struct key_rows {
	const attn &a;
	const float *base;
	bool cache, even;
	int g, first, n;

	__device__ __forceinline__ key_rows(const attn &all, const float *from, bool cached, int head, int at,
	                                    int end)
	    : a(all), base(from), cache(cached), even(cached || all.nb == 1), g(head), first(at), n(end - at)
	{
		if (even)
			base += key_row(a, true, g, first);
	}
	__device__ __forceinline__ const float *operator()(int r) const
	{
		return r >= n ? NULL : even ? at_stride(r) : base + key_row(a, cache, g, first + r);
	}
	__device__ __forceinline__ const float *at_stride(int r) const
	{
		return (const float *)((const char *)base + (size_t)(unsigned)r * (unsigned)(a.G * a.D * 4));
	}
	__device__ __forceinline__ bool all_at_stride(int rows) const { return even && n >= rows; }
};

/* Rows that may be anywhere. */
template <class F> struct any_rows {
	F at;

	__device__ __forceinline__ const float *operator()(int r) const { return at(r); }
	__device__ __forceinline__ const float *at_stride(int) const { return NULL; }
	__device__ __forceinline__ bool all_at_stride(int) const { return false; }
};
template <class F> static __device__ __forceinline__ any_rows<F> rows_at(F at) { return { at }; }

/* Copies ROWS rows of up to DP columns to shared memory, with zeros in columns that do not exist, up to a
 * multiple of 16.  row(r) is the address of row r; NULL: the row does not exist and becomes zeros.  If
 * registers allow it (EARLY), load() starts the loads, and store() stores the loaded numbers; else put() does
 * both. */
template <class T, int DP, int ROWS, int THREADS> struct row_loader {
	enum {
		N = ROWS * DP / 4 / THREADS,
		EARLY = sizeof(T) == 2 && N <= 16,
		PART = EARLY   ? N
		       : N % 4 ? 1
		               : 4
	};
	enum { STRIDE = THREADS / (DP / 4) };
	static_assert(THREADS % (DP / 4) == 0 && N * STRIDE == ROWS, "a thread keeps its columns");
	float4 x[PART];

	template <class R> __device__ __forceinline__ void load_part(const attn &a, int from, const R &row)
	{
		const int c = threadIdx.x % (DP / 4) * 4, first = threadIdx.x / (DP / 4) + from * STRIDE;

		if (row.all_at_stride(ROWS) && a.vec && a.D == DP) {
#pragma unroll
			for (int i = 0; i < PART; i++)
				x[i] = *(const float4 *)(row.at_stride(first + i * STRIDE) + c);
			return;
		}
#pragma unroll
		for (int i = 0; i < PART; i++)
			x[i] = read_four(row(first + i * STRIDE), c, a.D, a.vec);
	}

	template <class R> __device__ __forceinline__ void load(const attn &a, const R &row)
	{
		if (EARLY)
			load_part(a, 0, row);
	}

	template <class R>
	__device__ __forceinline__ void store(const attn &a, const R &row, T *to, float factor)
	{
		const int c = threadIdx.x % (DP / 4) * 4, first = threadIdx.x / (DP / 4);

#pragma unroll 1
		for (int from = 0; from < N; from += PART) {
			if (!EARLY)
				load_part(a, from, row);
			if (c < (a.D + 15) / 16 * 16) {
#pragma unroll
				for (int i = 0; i < PART; i++)
					store_four(to + (first + (from + i) * STRIDE) * padded<T>(DP) + c,
					           x[i], factor);
			}
		}
	}
};

/* ---- a block of queries -------------------------------------------------------------------- */

/* A block's queries: n from `first` on, of key head g; blocks whose queries read most keys come first.  A
 * warp has 16 rows from warp_row on.  This lane holds two of them, up and low, and two of every eight
 * columns, from col on. */
struct query_block {
	int g, first, n, warp_row, up, low, col;
};

template <int ROWS> static __device__ __forceinline__ query_block query_block_of(const attn &a)
{
	const int first = ((int)(gridDim.x - 1 - blockIdx.x) / a.G) * ROWS, warp_row = threadIdx.x / 32 * 16,
		  up = warp_row + (threadIdx.x & 31) / 4;

	return { (int)blockIdx.x % a.G,
		 first,
		 a.queries - first < ROWS ? a.queries - first : ROWS,
		 warp_row,
		 up,
		 up + 8,
		 ((int)threadIdx.x & 3) * 2 };
}

/* Copies a block's rows of x (R, H, D), times `factor`, to shared memory. */
template <class T, int DP, int ROWS, int THREADS>
static __device__ __forceinline__ void load_queries(const attn &a, const query_block &b, const float *x,
                                                    T *to, float factor)
{
	row_loader<T, DP, ROWS, THREADS> rows;
	const auto row =
		rows_at([&](int r) { return r < b.n ? x + query(a, b.g, b.first + r) * a.D : nullptr; });

	rows.load(a, row);
	rows.store(a, row, to, factor);
}

/* Returns the rows of keys (or values) of step t. */
template <int ROWS, int KEYS>
static __device__ __forceinline__ key_rows step_rows(const attn &a, const key_blocks<ROWS, KEYS> &blocks,
                                                     int g, const float *own, const float *cached, int t)
{
	const bool cache = blocks.in_cache(t);

	return key_rows(a, cache ? cached : own, cache, g, blocks.first_key(t), blocks.end_key(t));
}

/* The ranges of keys that a lane's two rows read, and the KEYS keys of step t.  any: some row of the warp
 * reads one of the keys; all: all rows of the warp read all of them. */
template <int KEYS> struct row_ranges {
	key_range up, low;
	int k0;
	bool any, all;

	template <int ROWS>
	__device__ __forceinline__ row_ranges(const key_blocks<ROWS, KEYS> &blocks, const query_block &b,
	                                      int t)
	    : up(blocks.range(t, b.up)), low(blocks.range(t, b.low)), k0(blocks.first_key(t)),
	      any(__any_sync(~0u, overlaps(up, k0, k0 + KEYS) || overlaps(low, k0, k0 + KEYS))),
	      all(__all_sync(~0u, contains(up, k0, k0 + KEYS) && contains(low, k0, k0 + KEYS)))
	{
	}

	/* Sets x to `none` for keys that are not read. */
	__device__ __forceinline__ void mask_unread(float (&x)[KEYS / 8][4], int col, float none) const
	{
		if (all)
			return;
		for (int i = 0; i < KEYS / 8; i++)
			for (int e = 0; e < 4; e++) {
				const int key = k0 + i * 8 + col + e % 2;

				if (key < (e < 2 ? up : low).lo || key >= (e < 2 ? up : low).hi)
					x[i][e] = none;
			}
	}
};

/* Returns exp(x), but 0 if the result is below 1e-38. */
static __device__ __forceinline__ float expo(float x) { return exp2_ftz(x * 1.4426950408889634f); }

/* Writes a lane's part of 16 rows, times factor0 (row up) and factor1 (row low).  up, low: where these rows
 * begin in `to`; < 0: not written. */
template <int N>
static __device__ __forceinline__ void write_rows(float *to, long long up, long long low, int D,
                                                  const float (&c)[N][4], float factor0, float factor1,
                                                  bool add)
{
	const int col = (threadIdx.x & 3) * 2;

#pragma unroll
	for (int n = 0; n < N; n++)
		for (int e = 0; e < 4; e++) {
			const int l = n * 8 + col + e % 2;
			const long long row = e < 2 ? up : low;

			if (l < D && row >= 0) {
				const float y = c[n][e] * (e < 2 ? factor0 : factor1);

				to[row + l] = add ? to[row + l] + y : y;
			}
		}
}

/* ---- launches ------------------------------------------------------------------------------ */

static bool rows_aligned(const attn &a)
{
	const float *const all[] = { a.q, a.k, a.v, a.cache_k, a.cache_v, a.d_o };

	for (const float *p : all)
		if ((uintptr_t)p % 16)
			return false;
	return a.D % 4 == 0;
}

/* Returns the number of parts into which the keys are split, so that each multiprocessor has two blocks.  A
 * part has at least two steps; it may have fewer if sequences share a cache that is counted once for each.
 * The number depends on the number of sequences and on the longest, and so does the rounding of a row's
 * sum. */
static int splits_of(struct rf_dev *d, const attn &a, long long blocks, int rows, int keys)
{
	const long long together = rows / (a.steps * (long long)a.rep) + 2,
			sequences = together < a.nb ? together : a.nb;
	const long long all = (a.cache_start ? sequences : 1) * a.longest + sequences * a.len,
			seen = a.window ? sequences * (a.window + (long long)rows) : all;
	const long long want = 2ll * cuda_of(d)->sms / blocks, most = (seen < all ? seen : all) / keys / 2;
	const long long n = want < most ? want : most;

	return n < 1 ? 1 : n > 128 ? 128 : (int)n;
}

static int warps_grid(size_t rows) { return (int)((rows + 7) / 8); }

#define CALL_FOR_TYPE(launch, T, d, a) \
	((a).D <= 64 ? launch<T, 64>(d, a) : (a).D <= 128 ? launch<T, 128>(d, a) : launch<T, 256>(d, a))
#define CALL_FOR_WIDTH(launch, d, a) \
	((d)->math == RF_MATH_BF16 ? CALL_FOR_TYPE(launch, bf16, d, a) : CALL_FOR_TYPE(launch, float, d, a))

#endif
