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
 * multiplies, the next keys or values are loaded into registers (in bf16).
 * Backward takes 14 D operations per pair (the scores and do v twice, three sums).
 *
 * A step of rollouts has only nb H queries in all, but a long cache: 8 D bytes per key and key head, which
 * takes 0.3 ms for 10^5 keys and 8 heads of 128, if all multiprocessors read.  So if there are fewer blocks
 * than the multiprocessors can hold, the keys are split into parts, whose sums are merged in order
 * (attn_merge).  The parts take at most 130 KiB per multiprocessor.
 *
 * In float32 the same kernels multiply without matrix units, on smaller blocks that need at most 99 KB. */
#include "cuda/cuda.h"
#include "attention_tile.h"

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

/* ---- launches ------------------------------------------------------------------------------ */

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
