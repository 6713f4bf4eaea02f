/* attention_back.cu -- the gradients of softmax attention; attention.cu has the plan and the estimate. */
#include "attention_tile.h"

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
struct alignas(16) reader {
	float lse, dot;
	key_range range;
};

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

/* Computes p and ds of a warp's 16 keys and WARP_READERS queries, and rounds both to T.  The keys of this
 * lane are `at` and at + 8.  whole: all queries of the block read all of the block's keys. */
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
	row_loader<T, DP, READERS, THREADS> queries, gradients;
	constexpr bool ahead = gradients.N <= 4; /* there are registers to load both during products */

	zero(dk);
	zero(dv);
	keys.load(a, k_row);
	keys.store(a, k_row, k, 1);
	keys.load(a, v_row);
	keys.store(a, v_row, v, 1);
	const auto rows_of = [&](const float *x, int first) {
		return rows_at([=](int r) { return first + r < q1 ? x + row[r] * a.D : nullptr; });
	};
	/* Returns the first block of queries from `first` on that reads these keys. */
	const auto find = [&](int first) {
		while (first < q1 &&
		       !load_readers<READERS>(a, g, cache, first, q1, key, last + 1, readers, row))
			first += READERS;
		if (ahead && first < q1) {
			queries.load(a, rows_of(a.q, first));
			gradients.load(a, rows_of(a.d_o, first));
		}
		return first;
	};

	for (int first = find(q0); first < q1;) {
		if (!ahead)
			queries.load(a, rows_of(a.q, first));
		queries.store(a, rows_of(a.q, first), q, a.scale);
		if (!ahead)
			gradients.load(a, rows_of(a.d_o, first));
		gradients.store(a, rows_of(a.d_o, first), d_o, 1);

		const bool whole = !__syncthreads_or((int)threadIdx.x < READERS &&
		                                     !contains(readers[threadIdx.x].range, key, key + OWN));

		key_slopes<T, DP, WARP_READERS>(k + group * LD, v + group * LD, q + share * WARP_READERS * LD,
		                                d_o + share * WARP_READERS * LD, width,
		                                readers + share * WARP_READERS, whole, key + up,
		                                p + group * LR + share * WARP_READERS,
		                                ds + group * LR + share * WARP_READERS, LR);
		__syncthreads(); /* readers and row are no longer read; p and ds are complete */
		first = find(first + READERS);
		warp_product<false>(dv, cols, READERS, p + group * LR, LR, d_o + share * COLS, LD);
		warp_product<false>(dk, cols, READERS, ds + group * LR, LR, q + share * COLS, LD);
		__syncthreads(); /* q, do, p and ds are no longer read */
	}

	const long long to0 = key_at(up) < 0 ? -1 : key_at(up) + share * COLS;
	const long long to1 = key_at(up + 8) < 0 ? -1 : key_at(up + 8) + share * COLS;

	write_rows(cache ? a.dcache_k : a.dk, to0, to1, a.D - share * COLS, dk, 1, 1, cache);
	write_rows(cache ? a.dcache_v : a.dv, to0, to1, a.D - share * COLS, dv, 1, 1, cache);
}

/* ---- launches ------------------------------------------------------------------------------ */

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
