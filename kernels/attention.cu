/* attention.cu -- softmax attention in blocks, so that the complete matrix of scores is never stored.
 *
 * The method is the same as in attention.c: online softmax forward.  Backward, p is computed again from lse,
 * once by blocks of queries (for dq) and once by blocks of keys (for dk, dv, dcache_k and dcache_v), so that
 * every sum has one owner and one order.  The queries of one key head are numbered by sequence, then by step,
 * then by head.  So rollouts that share a prefix are in one block, which reads the cache once for all of
 * them.
 *
 * Keys come from two sources: the cache, and the rows of the pass, which are also numbered by sequence.  A
 * query thus reads one range of each source, and a block of keys may hold the keys of many short rollouts.
 * Blocks of keys that no query reads are skipped.  The ends of the ranges exclude most of them; if a block of
 * queries mixes sequences, each block of keys is checked.
 *
 * Estimate for an H100.  Forward, a pair of a query and a key takes 4 D operations and one exp.  64 keys and
 * values are 512 D bytes of float32 from the L2 cache, for 128 queries: that is 64 operations per byte, or
 * 320 TFLOP/s at 5 TB/s.  The products are mma.sync on operands in shared memory, with sums in registers.
 * Every 16 rows of a warp load a right operand again, 256 bytes per 4096 operations, so shared memory (128
 * bytes a cycle) limits the products to 450 TFLOP/s.  At D = 64, exp (16 a cycle) takes 512 cycles for 128 x
 * 64 pairs, in addition to 800 cycles for the products.  So a third of the matrix units' speed in dense
 * products is possible: 1 ms for T = 16384, a window of 2048 and 32 heads of 64 (270 GFLOP).  While a block
 * multiplies, the next keys or values are loaded into registers, if there are enough registers (D <= 128).
 * Backward takes 14 D operations per pair (the scores and do v twice, three sums).
 *
 * A step of rollouts has only nb H queries in all, but a long cache: 8 D bytes per key and key head, which
 * takes 0.3 ms for 10^5 keys and 8 heads of 128, if all multiprocessors read.  So if there are fewer blocks
 * than the multiprocessors can hold, the keys are split into parts, whose sums are merged in order
 * (attn_merge).  The parts take at most 130 KiB per multiprocessor.
 *
 * In float32 the same kernels multiply without matrix units, on smaller blocks that need at most 99 KB. */
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
struct key_range { int lo, hi; };

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
		EARLY = sizeof(T) == 2 && N <= 8,
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
struct query_block { int g, first, n, warp_row, up, low, col; };

template <int ROWS> static __device__ __forceinline__ query_block query_block_of(const attn &a)
{
	const int first = ((int)(gridDim.x - 1 - blockIdx.x) / a.G) * ROWS, warp_row = threadIdx.x / 32 * 16,
		  up = warp_row + (threadIdx.x & 31) / 4;

	return { (int)blockIdx.x % a.G, first, a.queries - first < ROWS ? a.queries - first : ROWS, warp_row,
		 up, up + 8, ((int)threadIdx.x & 3) * 2 };
}

/* Copies a block's rows of x (R, H, D), times `factor`, to shared memory. */
template <class T, int DP, int ROWS, int THREADS>
static __device__ __forceinline__ void load_queries(const attn &a, const query_block &b, const float *x,
                                                    T *to, float factor)
{
	row_loader<T, DP, ROWS, THREADS> rows;
	const auto row = rows_at([&](int r) {
		return r < b.n ? x + query(a, b.g, b.first + r) * a.D : nullptr;
	});

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

/* ---- forward ------------------------------------------------------------------------------- */

/* Returns exp(x), but 0 if the result is below 1e-38. */
static __device__ __forceinline__ float expo(float x) { return exp2_ftz(x * 1.4426950408889634f); }

static __device__ __forceinline__ float row_max(float x)
{
	x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
	return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

static __device__ __forceinline__ float row_sum(float x)
{
	x += __shfl_xor_sync(~0u, x, 1);
	return x + __shfl_xor_sync(~0u, x, 2);
}

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

template <class T, int DP> static constexpr size_t fwd_shared()
{
	using C = sizes<T, DP>;

	return shared_size((16 * C::WARPS) * padded<T>(DP), sizeof(T)) +
	       2 * shared_size(C::KEYS * padded<T>(DP), sizeof(T)) +
	       shared_size(scratch_size<T>(16 * C::WARPS, C::KEYS), sizeof(T)) +
	       shared_size(2 * 16 * C::WARPS, sizeof(key_range));
}

/* Computes a step of the online softmax: the scores become e^(p - top), where top is each row's maximum so
 * far; o and sum, which were computed with a lower maximum, are scaled down. */
template <int N, int M>
static __device__ __forceinline__ void update_softmax(float (&p)[N][4], float (&o)[M][4], float (&top)[2],
                                                      float (&sum)[2])
{
	float most[2] = { top[0], top[1] }, all[2] = { 0, 0 };

	for (int i = 0; i < N; i++)
		for (int e = 0; e < 4; e++)
			most[e / 2] = fmaxf(most[e / 2], p[i][e]);
	/* a row that has not read a key yet sums up e^(NEVER - NEVER); its first key scales that sum down to
	 * 0 */
	for (int half = 0; half < 2; half++)
		most[half] = row_max(most[half]);
	for (int i = 0; i < N; i++)
		for (int e = 0; e < 4; e++)
			all[e / 2] += p[i][e] = expo(p[i][e] - most[e / 2]);
	if (__any_sync(~0u, most[0] != top[0] || most[1] != top[1])) {
		const float shrink[2] = { expo(top[0] - most[0]), expo(top[1] - most[1]) };

		for (int half = 0; half < 2; half++) {
			sum[half] *= shrink[half];
			top[half] = most[half];
		}
		for (int i = 0; i < M; i++)
			for (int e = 0; e < 4; e++)
				o[i][e] *= shrink[e / 2];
	}
	sum[0] += all[0];
	sum[1] += all[1];
}

/* Writes a lane's part of o and lse, or, if the keys are split, of the sums from which attn_merge computes o
 * and lse. */
template <int M>
static __device__ __forceinline__ void write_out(const attn &a, const query_block &b, const float (&o)[M][4],
                                                 const float (&top)[2], float (&sum)[2])
{
	const long long row0 = b.up < b.n ? (long long)query(a, b.g, b.first + b.up) : -1,
			row1 = b.low < b.n ? (long long)query(a, b.g, b.first + b.low) : -1;
	const size_t part = (size_t)blockIdx.y * a.queries * a.G;

	sum[0] = row_sum(sum[0]);
	sum[1] = row_sum(sum[1]);
	if (a.part)
		write_rows(a.part + part * a.D, row0 * a.D, row1 * a.D, a.D, o, 1, 1, false);
	else
		write_rows(a.o, row0 * a.D, row1 * a.D, a.D, o, 1 / sum[0], 1 / sum[1], false);
	if (b.col == 0)
		for (int half = 0; half < 2; half++) {
			const long long row = half ? row1 : row0;

			if (row >= 0 && a.part) {
				a.part_top[part + row] = top[half];
				a.part_sum[part + row] = sum[half];
			} else if (row >= 0 && a.lse)
				a.lse[row] = top[half] + logf(sum[half]);
		}
}

template <class T, int DP>
static __global__ void __launch_bounds__(sizes<T, DP>::WARPS * 32, sizes<T, DP>::FWD_BLOCKS)
	attn_forward(attn a)
{
	enum {
		KEYS = sizes<T, DP>::KEYS,
		ROWS = 16 * sizes<T, DP>::WARPS,
		THREADS = 2 * ROWS,
		LD = padded<T>(DP),
		LR = padded<T>(KEYS)
	};
	SHARED(s);
	T *q = s.take<T>(ROWS * LD), *k = s.take<T>(KEYS * LD), *v = s.take<T>(KEYS * LD);
	T *scratch =
		s.take<T>(scratch_size<T>(ROWS, KEYS)) + (sizeof(T) == 4 ? threadIdx.x / 32 * 16 * LR : 0);
	key_blocks<ROWS, KEYS> blocks;
	row_loader<T, DP, KEYS, THREADS> loader;
	const query_block b = query_block_of<ROWS>(a);
	const int width = (a.D + 15) / 16 * 16;
	float o[DP / 8][4], top[2] = { NEVER, NEVER }, sum[2] = { 0, 0 };

	blocks.ranges = s.take<key_range>(2 * ROWS);
	zero(o);

	int t = blocks.start(a, b.first, b.n);
	load_queries<T, DP, ROWS, THREADS>(a, b, a.q, q, a.scale);
	if (t < blocks.stop) {
		const auto row = step_rows(a, blocks, b.g, a.k, a.cache_k, t);

		loader.load(a, row);
		loader.store(a, row, k, 1);
	}
	__syncthreads();
	while (t < blocks.stop) {
		const int next = blocks.next_read(t + 1);
		const row_ranges<KEYS> read(blocks, b, t);
		const auto values = step_rows(a, blocks, b.g, a.v, a.cache_v, t);
		float p[KEYS / 8][4];

		loader.load(a, values);
		zero(p);
		if (read.any)
			warp_product<true>(p, KEYS / 8, width, q + b.warp_row * LD, LD, k, LD);
		loader.store(a, values, v, 1);
		__syncthreads(); /* v is complete, k is no longer needed */

		const auto keys = step_rows(a, blocks, b.g, a.k, a.cache_k, next < blocks.stop ? next : t);
		if (next < blocks.stop)
			loader.load(a, keys);
		if (read.any) {
			read.mask_unread(p, b.col, NEVER);
			update_softmax(p, o, top, sum);
			warp_product_of(o, width / 8, p, scratch, LR, v, LD);
		}
		if (next < blocks.stop)
			loader.store(a, keys, k, 1);
		__syncthreads(); /* k is complete, v is no longer needed */
		t = next;
	}
	write_out(a, b, o, top, sum);
}

/* Merges the parts of each row, in order; a warp computes one row. */
static __global__ void attn_merge(attn a, int splits)
{
	const size_t rows = (size_t)a.queries * a.G,
		     row = (size_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
	const int lane = threadIdx.x & 31;
	float top = NEVER, sum = 0;

	if (row >= rows)
		return;
	for (int s = 0; s < splits; s++)
		top = fmaxf(top, a.part_top[s * rows + row]);
	for (int s = 0; s < splits; s++)
		sum += a.part_sum[s * rows + row] * expo(a.part_top[s * rows + row] - top);
	for (int c = lane; c < a.D; c += 32) {
		float o = 0;

		for (int s = 0; s < splits; s++)
			o += a.part[(s * rows + row) * a.D + c] * expo(a.part_top[s * rows + row] - top);
		a.o[row * a.D + c] = o / sum;
	}
	if (lane == 0 && a.lse)
		a.lse[row] = top + logf(sum);
}

/* ---- backward: the queries ----------------------------------------------------------------- */

static __global__ void attn_dots(attn a)
{
	const size_t rows = (size_t)a.queries * a.G,
		     row = (size_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
	const int lane = threadIdx.x & 31;
	float sum = 0;

	if (row >= rows)
		return;
	for (int c = lane; c < a.D; c += 32)
		sum += a.o[row * a.D + c] * a.d_o[row * a.D + c];
	sum = warp_sum(sum);
	if (lane == 0)
		a.dot[row] = sum;
}

/* Returns ds = p (do . v - dot), but 0 if p is 1: a row that reads a single key has no slope.  The
 * difference between do . v and dot, which are summed in different orders and from differently rounded
 * numbers, would only be rounding error. */
static __device__ __forceinline__ float slope(float p, float dov, float dot)
{
	return p == 1 ? 0 : p * (dov - dot);
}

template <class T, int DP> static constexpr size_t dq_shared()
{
	using C = sizes<T, DP>;

	return 2 * shared_size((16 * C::WARPS) * padded<T>(DP), sizeof(T)) +
	       shared_size(C::DQ_KEYS * padded<T>(DP), sizeof(T)) +
	       shared_size(scratch_size<T>(16 * C::WARPS, C::DQ_KEYS), sizeof(T)) +
	       shared_size(2 * 16 * C::WARPS, sizeof(key_range));
}

/* Computes the gradient of a block of queries.  Values and keys use the same shared memory in turn. */
template <class T, int DP>
static __global__ void __launch_bounds__(sizes<T, DP>::WARPS * 32, sizes<T, DP>::DQ_BLOCKS) attn_dq(attn a)
{
	enum {
		KEYS = sizes<T, DP>::DQ_KEYS,
		ROWS = 16 * sizes<T, DP>::WARPS,
		THREADS = 2 * ROWS,
		LD = padded<T>(DP),
		LR = padded<T>(KEYS)
	};
	SHARED(s);
	T *q = s.take<T>(ROWS * LD), *d_o = s.take<T>(ROWS * LD), *kv = s.take<T>(KEYS * LD);
	T *scratch =
		s.take<T>(scratch_size<T>(ROWS, KEYS)) + (sizeof(T) == 4 ? threadIdx.x / 32 * 16 * LR : 0);
	key_blocks<ROWS, KEYS> blocks;
	row_loader<T, DP, KEYS, THREADS> loader;
	const query_block b = query_block_of<ROWS>(a);
	const int width = (a.D + 15) / 16 * 16;
	const long long row0 = b.up < b.n ? (long long)query(a, b.g, b.first + b.up) : -1,
			row1 = b.low < b.n ? (long long)query(a, b.g, b.first + b.low) : -1;
	const float lse[2] = { row0 < 0 ? 0 : a.lse[row0], row1 < 0 ? 0 : a.lse[row1] };
	const float dot[2] = { row0 < 0 ? 0 : a.dot[row0], row1 < 0 ? 0 : a.dot[row1] };
	float dq[DP / 8][4];

	blocks.ranges = s.take<key_range>(2 * ROWS);
	zero(dq);

	int t = blocks.start(a, b.first, b.n);
	load_queries<T, DP, ROWS, THREADS>(a, b, a.q, q, a.scale);
	load_queries<T, DP, ROWS, THREADS>(a, b, a.d_o, d_o, 1);
	if (t < blocks.stop)
		loader.load(a, step_rows(a, blocks, b.g, a.v, a.cache_v, t));
	while (t < blocks.stop) {
		const int next = blocks.next_read(t + 1);
		const row_ranges<KEYS> read(blocks, b, t);
		const auto values = step_rows(a, blocks, b.g, a.v, a.cache_v, t),
			   keys = step_rows(a, blocks, b.g, a.k, a.cache_k, t);
		float p[KEYS / 8][4], ds[KEYS / 8][4];

		loader.store(a, values, kv, 1);
		__syncthreads();
		loader.load(a, keys);
		zero(p);
		zero(ds);
		if (read.any)
			warp_product<true>(ds, KEYS / 8, width, d_o + b.warp_row * LD, LD, kv, LD);
		__syncthreads();
		loader.store(a, keys, kv, 1);
		__syncthreads();
		if (next < blocks.stop)
			loader.load(a, step_rows(a, blocks, b.g, a.v, a.cache_v, next));
		if (read.any) {
			warp_product<true>(p, KEYS / 8, width, q + b.warp_row * LD, LD, kv, LD);
			for (int i = 0; i < KEYS / 8; i++)
				for (int e = 0; e < 4; e++)
					ds[i][e] = slope(expo(p[i][e] - lse[e / 2]), ds[i][e], dot[e / 2]);
			read.mask_unread(ds, b.col, 0);
			warp_product_of(dq, width / 8, ds, scratch, LR, kv, LD);
		}
		__syncthreads();
		t = next;
	}
	if (a.part)
		write_rows(a.part + (size_t)blockIdx.y * a.queries * a.G * a.D, row0 * a.D, row1 * a.D, a.D,
		           dq, a.scale, a.scale, false);
	else
		write_rows(a.dq, row0 * a.D, row1 * a.D, a.D, dq, a.scale, a.scale, false);
}

static __global__ void attn_dq_sum(attn a, int splits)
{
	const size_t n = (size_t)a.queries * a.G * a.D;

	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
	     i += (size_t)gridDim.x * blockDim.x) {
		float sum = 0;

		for (int s = 0; s < splits; s++)
			sum += a.part[s * n + i];
		a.dq[i] = sum;
	}
}

/* ---- backward: the keys -------------------------------------------------------------------- */

/* The data of a query that dk and dv need. */
struct alignas(16) reader { float lse, dot; key_range range; };

template <class T, int DP> static constexpr size_t dkv_shared()
{
	using C = sizes<T, DP>;

	return 2 * shared_size(C::OWN * padded<T>(DP), sizeof(T)) +
	       2 * shared_size(C::READERS * padded<T>(DP), sizeof(T)) +
	       2 * shared_size(C::OWN * padded<T>(C::READERS), sizeof(T)) +
	       shared_size(C::READERS, sizeof(reader)) + shared_size(C::READERS, sizeof(size_t));
}

/* Looks up READERS queries from `first` on, which exist if they are below `end`, in readers and row.  Returns
 * whether one of them reads one of the keys key .. stop - 1. */
template <int READERS>
static __device__ __forceinline__ bool load_readers(const attn &a, int g, bool cache, int first, int end,
                                                    int key, int stop, reader *readers, size_t *row)
{
	bool any = false;

	if ((int)threadIdx.x < READERS) {
		const int i = first + (int)threadIdx.x;
		reader x = { 0, 0, { 0, 0 } };

		if (i < end) {
			row[threadIdx.x] = query(a, g, i);
			x = { a.lse[row[threadIdx.x]], a.dot[row[threadIdx.x]], range_of(a, i, cache) };
		}
		readers[threadIdx.x] = x;
		any = overlaps(x.range, key, stop);
	}
	return __syncthreads_or(any);
}

/* Computes p and ds of a warp's 16 keys and WARP_READERS queries, rounded; this lane's keys are `at` and at +
 * 8.  whole: all queries of the block read all of the block's keys. */
template <class T, int DP, int WARP_READERS>
static __device__ __forceinline__ void key_slopes(const T *k, const T *v, const T *q, const T *d_o, int width,
                                                  const reader *readers, bool whole, int at, T *p, T *ds,
                                                  int lr)
{
	enum { LD = padded<T>(DP) };
	const int col = (threadIdx.x & 3) * 2;
	float x[WARP_READERS / 8][4], y[WARP_READERS / 8][4];

	zero(x);
	zero(y);
	warp_product<true>(x, WARP_READERS / 8, width, k, LD, q, LD);
	warp_product<true>(y, WARP_READERS / 8, width, v, LD, d_o, LD);
#pragma unroll
	for (int i = 0; i < WARP_READERS / 8; i++)
		for (int c = 0; c < 2; c++) {
			const reader w = readers[i * 8 + col + c];

			for (int e = c; e < 4; e += 2) {
				const int key = at + e / 2 * 8;
				const bool read = whole || (key >= w.range.lo && key < w.range.hi);

				x[i][e] = read ? expo(x[i][e] - w.lse) : 0;
				y[i][e] = read ? slope(x[i][e], y[i][e], w.dot) : 0;
			}
		}
	put_sum(p, lr, x);
	put_sum(ds, lr, y);
}

/* Computes the gradients of OWN keys.  The warps that share 16 keys divide first the queries, then the
 * columns, among them. */
template <class T, int DP>
static __global__ void __launch_bounds__(sizes<T, DP>::OWN_WARPS * 32, sizes<T, DP>::DKV_BLOCKS)
	attn_dkv(attn a)
{
	enum {
		OWN = sizes<T, DP>::OWN,
		READERS = sizes<T, DP>::READERS,
		LD = padded<T>(DP),
		LR = padded<T>(READERS),
		WARPS = sizes<T, DP>::OWN_WARPS,
		THREADS = 32 * WARPS,
		SHARERS = WARPS / (OWN / 16),
		WARP_READERS = READERS / SHARERS,
		COLS = DP / SHARERS
	};
	SHARED(s);
	T *k = s.take<T>(OWN * LD), *v = s.take<T>(OWN * LD), *q = s.take<T>(READERS * LD),
	  *d_o = s.take<T>(READERS * LD);
	T *p = s.take<T>(OWN * LR), *ds = s.take<T>(OWN * LR);
	reader *readers = s.take<reader>(READERS);
	size_t *row = s.take<size_t>(READERS);
	const int cached = (a.longest + OWN - 1) / OWN, g = blockIdx.x % a.G, part = blockIdx.x / a.G;
	const bool cache = part < cached;
	const int key = (cache ? part : part - cached) * OWN, end = cache ? a.longest : a.nb * a.len;
	const int last = (key + OWN < end ? key + OWN : end) - 1;
	/* all queries may read the cache; a row of the pass is read by queries from its own row on, to the
	 * end of the last row's sequence or window */
	const int reach = a.window && a.len - last % a.len > a.window ? last % a.len + a.window : a.len;
	const int q0 = cache ? 0 : key * a.rep,
		  q1 = cache ? a.queries : (last / a.len * a.len + reach) * a.rep;
	const int warp = threadIdx.x / 32, group = warp / SHARERS * 16, share = warp % SHARERS;
	const int up = group + (threadIdx.x & 31) / 4;
	const int width = (a.D + 15) / 16 * 16,
		  cols = (width - share * COLS < COLS ? width - share * COLS : COLS) / 8;
	const auto key_at = [&](int r) {
		return key + r <= last ? (long long)key_row(a, cache, g, key + r) : -1;
	};
	const auto k_row = key_rows(a, cache ? a.cache_k : a.k, cache, g, key, last + 1);
	const auto v_row = key_rows(a, cache ? a.cache_v : a.v, cache, g, key, last + 1);
	float dk[COLS / 8][4], dv[COLS / 8][4];
	row_loader<T, DP, OWN, THREADS> keys;
	row_loader<T, DP, READERS, THREADS> queries;

	zero(dk);
	zero(dv);
	keys.load(a, k_row);
	keys.store(a, k_row, k, 1);
	keys.load(a, v_row);
	keys.store(a, v_row, v, 1);
	for (int first = q0; first < q1; first += READERS) {
		const auto q_row = rows_at([&](int r) {
			return first + r < q1 ? a.q + row[r] * a.D : nullptr;
		});
		const auto do_row = rows_at([&](int r) {
			return first + r < q1 ? a.d_o + row[r] * a.D : nullptr;
		});
		if (!load_readers<READERS>(a, g, cache, first, q1, key, last + 1, readers, row))
			continue;
		queries.load(a, q_row);
		queries.store(a, q_row, q, a.scale);
		queries.load(a, do_row);
		queries.store(a, do_row, d_o, 1);

		const bool whole = !__syncthreads_or((int)threadIdx.x < READERS &&
		                                     !contains(readers[threadIdx.x].range, key, key + OWN));

		key_slopes<T, DP, WARP_READERS>(k + group * LD, v + group * LD, q + share * WARP_READERS * LD,
		                                d_o + share * WARP_READERS * LD, width,
		                                readers + share * WARP_READERS, whole, key + up,
		                                p + group * LR + share * WARP_READERS,
		                                ds + group * LR + share * WARP_READERS, LR);
		__syncthreads();
		warp_product<false>(dv, cols, READERS, p + group * LR, LR, d_o + share * COLS, LD);
		warp_product<false>(dk, cols, READERS, ds + group * LR, LR, q + share * COLS, LD);
		/* q, do, p and ds are written again only after the next barrier; readers and row were read
		 * before the last barrier */
	}

	const long long to0 = key_at(up) < 0 ? -1 : key_at(up) + share * COLS;
	const long long to1 = key_at(up + 8) < 0 ? -1 : key_at(up + 8) + share * COLS;

	write_rows(cache ? a.dcache_k : a.dk, to0, to1, a.D - share * COLS, dk, 1, 1, cache);
	write_rows(cache ? a.dcache_v : a.dv, to0, to1, a.D - share * COLS, dv, 1, 1, cache);
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

template <class T, int DP> static void launch_forward(struct rf_dev *d, attn a)
{
	const int rows = 16 * sizes<T, DP>::WARPS, blocks = (a.queries + rows - 1) / rows * a.G;
	const int n = splits_of(d, a, blocks, rows, sizes<T, DP>::KEYS);
	const size_t all = (size_t)a.queries * a.G;
	const auto attn_forward_kernel = attn_forward<T, DP>;

	if (n > 1) {
		if (!(a.part = (float *)rf_cuda_scratch(d, n * all * (a.D + 2) * sizeof(float))))
			return;
		a.part_top = a.part + n * all * a.D;
		a.part_sum = a.part_top + n * all;
	}
	LAUNCH(d, attn_forward_kernel, dim3(blocks, n), 2 * rows, (fwd_shared<T, DP>()), a);
	if (n > 1)
		LAUNCH(d, attn_merge, warps_grid(all), 256, 0, a, n);
}

template <class T, int DP> static void launch_backward(struct rf_dev *d, attn a)
{
	const int rows = 16 * sizes<T, DP>::WARPS, blocks = (a.queries + rows - 1) / rows * a.G;
	const int own = sizes<T, DP>::OWN, threads = 32 * sizes<T, DP>::OWN_WARPS;
	const int n = splits_of(d, a, blocks, rows, sizes<T, DP>::DQ_KEYS);
	const int parts = (a.longest + own - 1) / own + (a.nb * a.len + own - 1) / own;
	const size_t all = (size_t)a.queries * a.G, numbers = all * a.D;
	const size_t most = 16 * (size_t)cuda_of(d)->sms, grid = (numbers + 255) / 256;
	const auto attn_dq_kernel = attn_dq<T, DP>;
	const auto attn_dkv_kernel = attn_dkv<T, DP>;

	if (!(a.dot = (float *)rf_cuda_scratch(d, (all + (n > 1 ? n * numbers : 0)) * sizeof(float))))
		return;
	a.part = n > 1 ? a.dot + all : NULL;
	LAUNCH(d, attn_dots, warps_grid(all), 256, 0, a);
	LAUNCH(d, attn_dq_kernel, dim3(blocks, n), 2 * rows, (dq_shared<T, DP>()), a);
	if (n > 1)
		LAUNCH(d, attn_dq_sum, (int)(grid < most ? grid : most), 256, 0, a, n);
	LAUNCH(d, attn_dkv_kernel, parts * a.G, threads, (dkv_shared<T, DP>()), a);
}

#define CALL_FOR_TYPE(launch, T, d, a)                                                                       \
	((a).D <= 64 ? launch<T, 64>(d, a) : (a).D <= 128 ? launch<T, 128>(d, a) : launch<T, 256>(d, a))
#define CALL_FOR_WIDTH(launch, d, a)                                                                         \
	((d)->math == RF_MATH_BF16 ? CALL_FOR_TYPE(launch, bf16, d, a) : CALL_FOR_TYPE(launch, float, d, a))

void rf_cuda_attn_fwd(struct rf_dev *d, const struct rf_attn_fwd *p)
{
	struct attn a = {};

	a.nb = p->nb, a.steps = p->steps, a.decoded = p->decoded, a.len = p->decoded + p->steps, a.H = p->H,
	a.G = p->G, a.D = p->D;
	a.window = p->window, a.longest = p->longest;
	if (!a.nb || !a.steps || !a.H || !rf_cuda_has_width(d, a.D, "heads"))
		return;
	a.rep = a.H / a.G;
	a.queries = a.nb * a.steps * a.rep;
	a.scale = 1 / sqrtf((float)a.D);
	a.cache_start = i32(p->cache_start), a.cache_len = i32(p->cache_len);
	a.q = f32(p->q), a.k = f32(p->k), a.v = f32(p->v), a.cache_k = f32(p->cache_k),
	a.cache_v = f32(p->cache_v);
	a.o = f32(p->o), a.lse = f32(p->lse);
	a.vec = rows_aligned(a);
	rf_cuda_rounded_wrote(d, a.o, (size_t)a.queries * a.G * a.D);
	rf_cuda_rounded_wrote(d, a.lse, (size_t)a.queries * a.G);
	CALL_FOR_WIDTH(launch_forward, d, a);
}

void rf_cuda_attn_bwd(struct rf_dev *d, const struct rf_attn_bwd *p)
{
	struct attn a = {};

	a.nb = p->nb, a.steps = a.len = p->steps, a.H = p->H, a.G = p->G, a.D = p->D, a.window = p->window,
	a.longest = p->longest;
	if (!a.nb || !a.steps || !a.H || !rf_cuda_has_width(d, a.D, "heads"))
		return;
	a.rep = a.H / a.G;
	a.queries = a.nb * a.steps * a.rep;
	a.scale = 1 / sqrtf((float)a.D);
	a.cache_len = i32(p->cache_len);
	a.q = f32(p->q), a.k = f32(p->k), a.v = f32(p->v), a.cache_k = f32(p->cache_k),
	a.cache_v = f32(p->cache_v), a.d_o = f32(p->d_o);
	a.o = f32(p->o), a.lse = f32(p->lse), a.dq = f32(p->dq), a.dk = f32(p->dk), a.dv = f32(p->dv);
	a.dcache_k = f32(p->dcache_k), a.dcache_v = f32(p->dcache_v);
	a.vec = rows_aligned(a);
	const size_t rows = (size_t)a.nb * a.steps * a.G * a.D, cached = (size_t)a.longest * a.G * a.D;
	rf_cuda_rounded_wrote(d, a.dq, rows * a.rep);
	rf_cuda_all_wrote(d, rows, a.dk, a.dv);
	rf_cuda_all_wrote(d, cached, a.dcache_k, a.dcache_v);
	CALL_FOR_WIDTH(launch_backward, d, a);
}
