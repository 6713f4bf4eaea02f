/* delta.cu -- the gated delta rule forward, in chunks of 64 rows (delta.c has the formulas; backward:
 * delta_back.cu).
 *
 * Passes of several rows.  With T = (I + A)^-1 of a chunk, W = T diag(beta e) K and U0 = T diag(beta) V do
 * not depend on a state, so there are three kernels:
 *
 *     prepare   a block per chunk and head: A, its inverse, -W, U0 and K diag(f) to memory
 *     walk      chunk after chunk: U = U0 - W S, S <- e_m S + K' diag(f) U;
 *               S of each chunk's first row to memory
 *     read_out  a block per chunk and head: O = diag(e) Q S + P U
 *
 * Estimate for an H100 with bf16 operands, per chunk and head of width 128.  Products: 6 million
 * multiplications and additions, at 400 TFLOP/s (mma.sync) 30 ns of the whole GPU.  Memory: 64 rows of q, k,
 * v, u and o in float32, 160 KB; k and u again, and U0, 100 KB; -W, K and S, which one kernel writes and
 * another reads, 64 KB each way: 0.4 MB in all, at 3 TB/s 130 ns.  So read_out is bound by memory, and
 * prepare by instructions: each of a block's 8 warps executes some 6,000, of which 124 multiply matrices.
 * They take 100 ns, its bytes 48 (make cuda-reckon).  A third of the instructions compute the inverse, in
 * float32 (90,000 operations).  T is stored as the sum of two bf16, the rounded number and the rounding
 * error, which is necessary because T multiplies rows that nearly cancel.  Matrices that one kernel passes to
 * another are bf16 if operands are.  A long pass is computed in pieces of 1024 chunks and heads, so that
 * these matrices take 64 MB for any length, and much of that stays in the 50 MB of L2.
 *
 * walk is bound by latency.  At 16384 rows, 256 chunks follow each other; 16 heads are 16 states of 64 KB,
 * each of which must be spread over several SMs.  The columns of V are independent, so a warp works on 16 of
 * them.  Its S' (16, K) stays in registers as the accumulators of U' K, which have the layout that the
 * operand of S' W' needs (like P V in attention).  So a chunk takes 128 matrix instructions without any
 * exchange between warps.  16 heads make 128 such warps.  Two of them form a block, so that W and K are read
 * four times from L2 (0.5 GB, 0.1 ms) and not eight times; the other warps of the block only load W and K of
 * the next chunk.  An H100 takes 2.2 us for a chunk, where the instructions alone would take 0.7 us, and
 * 0.56 ms for 256 chunks; prepare and read_out of 16 heads take 0.43 and 0.30 ms (results/gpu.md).
 *
 * In float32, which is for comparison, the products are computed from shared memory, 32 columns of V at a
 * time.  Heads narrower than 32 are always computed this way: for them bf16 would only add errors.  Shared
 * memory: up to width 128, 95 KB; at width 256, 86 KB in bf16 (walk: 68, or twice that if available), 161 KB
 * in float32, which sm_86 and sm_89 do not have.
 *
 * Rollouts of several steps are computed the same way, each sequence from the state at its first row.  They
 * do not need the rows that a capture leaves in the log, since where chunks begin changes only the rounding.
 * One step after the decoded rows (grow) is a sum
 *
 *     S' k = e S0' k + sum over rows of f_s (k . k_s) u_s
 *
 * which never forms a state.  It reads S0 (64 KB, shared by the rollouts of a position) and up to 64 rows of
 * k and u (64 KB); a running state would have to be read and written (128 KB).  With `open`, the state S0 is
 * moved forward every 64 steps. */
#include "delta_tile.h"
#include "cuda/warp.h"

enum { THREADS = 256, LT = CHUNK + 4, PIECE = 1024, NARROW = 32 };

struct delta {
	int nb, steps, decoded, n, H, G, K, V;
	float beta_scale;
	const float *q, *k, *v, *b, *g;
	float *u, *o, *S, *open;
	const int32_t *start, *cap_row, *cap_slot;
	int captures, log_from;
	struct {
		float *S, *k, *u, *g;
	} log;
	/* the piece: chunks first .. first + chunks - 1 of all sequences; padded widths */
	int first, chunks, KP, VP;
	void *W, *kf, *states; /* (nb, H, chunks) of (64, KP), (64, KP), (VP, KP): S transposed */
	float *ends, *carry;   /* (nb, H, chunks): e_m; (nb, H, K, V): the state before the first chunk, if
	                          first, and after the last */
};

/* One chunk of one head of one sequence. */
struct cell {
	int b, h, kh, j0, m, mp;
	size_t i;
};

static __device__ __forceinline__ struct cell cell_of(const struct delta &a, int c, int bh)
{
	struct cell x;

	x.b = bh / a.H;
	x.h = bh % a.H;
	x.kh = key_head(x.h, a.G, a.H);
	x.j0 = (a.first + c) * CHUNK;
	x.m = min(a.steps - x.j0, (int)CHUNK);
	x.mp = up32(x.m);
	x.i = (size_t)bh * a.chunks + c;
	return x;
}

static __device__ __forceinline__ size_t slot_at(const struct delta &a, int slot, int h)
{
	return ((size_t)slot * a.H + h) * a.K * a.V;
}

static __device__ __forceinline__ const float *first_state(const struct delta &a, int b, int h)
{
	return a.S + slot_at(a, a.start ? a.start[b / a.n] : 0, h);
}

/* Returns the address of row j of head h of sequence b in an array (rows, H, w). */
static __device__ __forceinline__ const float *row_at(const struct delta &a, const float *x, int w, int H,
                                                      int h, int b, int j)
{
	return x ? x + row_offset(w, H, h, a.nb, b, j) : NULL;
}

static __device__ __forceinline__ float beta_of(const struct delta &a, int h, int b, int j)
{
	return a.b ? a.beta_scale / (1.f + expf(-a.b[row_offset(1, a.H, h, a.nb, b, j)])) : a.beta_scale;
}

/* ---- matrices that need no state ----------------------------------------------------------- */

template <class X> static size_t prepare_bytes(const struct delta *a)
{
	const int ld = a->KP + tile_pad<X>();

	return shared_size(CHUNK * ld, sizeof(X)) + shared_size(CHUNK * LT, 4) +
	       4 / sizeof(X) * shared_size(CHUNK * (CHUNK + tile_pad<X>()), sizeof(X)) +
	       shared_size(1024, 4) + 4 * shared_size(CHUNK, 4);
}

/* Sets to (mp, mp) to t diag(factors), times sign, and residual to the rounding error of `to`, unless
 * residual is `to`. */
template <class X>
static __device__ void scale_columns(X *to, X *residual, int lt, const float *t, const float *factors, int mp,
                                     float sign)
{
	for (int e = threadIdx.x; e < mp * mp; e += THREADS) {
		const int i = e / mp, j = e % mp;
		const float x = sign * t[i * LT + j] * factors[j];

		round_to(to + i * lt + j, x);
		if (residual != to)
			round_to(residual + i * lt + j, x - (float)to[i * lt + j]);
	}
}

/* Sets to (mp, wp) to the rows of x, each times its factor, 16 bytes at a time. */
template <class X>
static __device__ void scale_rows(X *to, const X *x, int ld, const float *factors, int mp, int wp)
{
	constexpr int N = 16 / sizeof(X);

	for (int e = threadIdx.x; e < mp * (wp / N); e += THREADS) {
		const int i = e / (wp / N), j = e % (wp / N) * N;
		alignas(16) X part[N];

		*(uint4 *)part = *(const uint4 *)(x + i * ld + j);
#pragma unroll
		for (int l = 0; l < N; l++)
			round_to(part + l, factors[i] * (float)part[l]);
		*(uint4 *)(to + (size_t)i * wp + j) = *(const uint4 *)part;
	}
}

template <class X> static __global__ void __launch_bounds__(THREADS, 3) prepare(const struct delta a)
{
	SHARED(s);
	constexpr int pad = tile_pad<X>(), lt = CHUNK + pad;
	const int ld = a.KP + pad, t = threadIdx.x;
	X *x = s.template take<X>(CHUNK * ld), *tx = s.template take<X>(CHUNK * lt),
	  *residual = sizeof(X) == 2 ? s.template take<X>(CHUNK * lt) : tx;
	float *A = s.template take<float>(CHUNK * LT), *scratch = s.template take<float>(1024),
	      *hi = s.template take<float>(CHUNK);
	float *lo = s.template take<float>(CHUNK), *beta = s.template take<float>(CHUNK),
	      *factors = s.template take<float>(CHUNK);
	const struct cell c = cell_of(a, blockIdx.x % a.chunks, blockIdx.x / a.chunks);
	X *W = (X *)a.W + c.i * CHUNK * a.KP, *kf = (X *)a.kf + c.i * CHUNK * a.KP;
	float *u = a.u + row_offset(a.V, a.H, c.h, a.nb, c.b, c.j0);
	const size_t stride = row_stride(a.V, a.H, a.nb);

	load_tile(x, ld, c.mp, a.KP, row_at(a, a.k, a.K, a.G, c.kh, c.b, c.j0), row_stride(a.K, a.G, a.nb),
	          c.m, a.K);
	sum_decays(row_at(a, a.g, 1, a.H, c.h, c.b, c.j0), row_stride(1, a.H, a.nb), c.m, hi, lo);
	if (t < CHUNK)
		beta[t] = t < c.m ? beta_of(a, c.h, c.b, c.j0 + t) : 0.f;
	__syncthreads();
	if (t < CHUNK)
		factors[t] = t < c.m ? decay_between(hi, lo, c.m - 1, t) : 0.f;
	if (t == 0)
		a.ends[c.i] = decay_to(hi, lo, c.m - 1);
	warp_tiles(c.mp, c.mp, [&](int i0, int j0) {
		warp_tile<X> sum;

		sum.zero();
		if (j0 < i0 + 16)
			sum.template add<false, true>(a.KP, x + i0 * ld, ld, x + j0 * ld, ld);
		sum.each([&](int i, int j, float y) {
			i += i0, j += j0;
			A[i * LT + j] = j < i ? beta[i] * (a.g ? decay_between(hi, lo, i, j) : 1.f) * y : 0.f;
		});
	});
	__syncthreads();
	scale_rows(kf, x, ld, factors, c.mp, a.KP);
	invert_lower(A, LT, c.mp, scratch);
	if (t < CHUNK)
		factors[t] = beta[t] * decay_to(hi, lo, t);
	__syncthreads();
	scale_columns(tx, residual, lt, A, factors, c.mp, -1);
	__syncthreads();
	warp_tiles(c.mp, a.KP, [&](int i0, int j0) {
		warp_tile<X> sum;

		sum.zero();
		sum.template add<false, false>(i0 + 16, tx + i0 * lt, lt, x + j0, ld);
		if (residual != tx)
			sum.template add<false, false>(i0 + 16, residual + i0 * lt, lt, x + j0, ld);
		sum.pairs([&](int i, int j, float y, float z) {
			round_two(W + (size_t)(i0 + i) * a.KP + j0 + j, y, z);
		});
	});
	for (int v0 = 0; v0 < a.VP; v0 += a.KP) {
		const int width = min(a.KP, a.VP - v0);

		__syncthreads(); /* x and tx are no longer read */
		load_tile(x, ld, c.mp, width, row_at(a, a.v, a.V, a.H, c.h, c.b, c.j0) + v0, stride, c.m,
		          min(width, a.V - v0));
		if (v0 == 0)
			scale_columns(tx, residual, lt, A, beta, c.mp, 1);
		__syncthreads();
		warp_tiles(c.mp, width, [&](int i0, int j0) {
			warp_tile<X> sum;

			sum.zero();
			sum.template add<false, false>(i0 + 16, tx + i0 * lt, lt, x + j0, ld);
			if (residual != tx)
				sum.template add<false, false>(i0 + 16, residual + i0 * lt, lt, x + j0, ld);
			sum.each([&](int i, int j, float y) {
				if (i0 + i < c.m && v0 + j0 + j < a.V)
					u[(size_t)(i0 + i) * stride + v0 + j0 + j] = y;
			});
		});
	}
}

/* ---- chunk after chunk --------------------------------------------------------------------- */

/* The threads that load: `count` threads from `first` on. */
struct loaders {
	int first, count;
};

/* Starts to load -W and K of a chunk, rows of KP. */
template <int KP>
static __device__ __forceinline__ void load_async(const struct delta &a, const struct loaders &loaders,
                                                  const struct cell &c, bf16 *W, bf16 *kf)
{
	const int t = (int)threadIdx.x - loaders.first;
	const size_t at = c.i * CHUNK * KP;

	if (t < 0)
		return;
	copy_rows<KP>(W, KP + 8, c.mp, (const bf16 *)a.W + at, KP, t, loaders.count);
	copy_rows<KP>(kf, KP + 8, c.mp, (const bf16 *)a.kf + at, KP, t, loaders.count);
	copies_close();
}

/* The next capture of a sequence and its row; NO_ROW: no further capture. */
enum { NO_ROW = 0x7fffffff };
struct upcoming {
	int next, row;
};

static __device__ __forceinline__ upcoming capture_at(const struct delta &a, int next)
{
	return { next, next < a.captures ? a.cap_row[next] : NO_ROW };
}

/* U0 of a chunk, transposed (16, 64) like S', and e_m. */
struct walk_input {
	float u[CHUNK / 8][4], e;
};

static __device__ __forceinline__ float *u_of(const struct delta &a, const struct cell &c, const lane_rows &r)
{
	return a.u + row_offset(a.V, a.H, c.h, a.nb, c.b, c.j0) + r.first;
}

static __device__ __forceinline__ void load_input(const struct delta &a, const struct cell &c,
                                                  const lane_rows &r, walk_input &x)
{
	transposed_in(x.u, r, u_of(a, c, r), row_stride(a.V, a.H, a.nb), c.m);
	x.e = a.ends[c.i];
}

/* Computes a chunk: U = U0 - W S, written over U0, and S <- e_m S + K' diag(f) U.  First, S is written to
 * `states` and to the slots of the chunk's captures.  All matrices are transposed, S' (16, KP) and U' (16,
 * 64), and a lane has the same rows of both.  x: the input of the chunk, if it was loaded early; after the
 * call, the input of the next chunk.  These loads take as long as several products.  full: the chunk has 64
 * rows.  As a constant this leaves no branch between the loads and the matrix instructions of a product: the
 * loads of one step then overlap with the products of the step before. */
template <int KP, bool full>
static __device__ __forceinline__ void walk_chunk(const struct delta &a, int chunk, float (&S)[KP / 8][4],
                                                  walk_input &x, const lane_rows &r, upcoming &capture,
                                                  const bf16 *W, const bf16 *kf)
{
	constexpr int ld = KP + 8;
	const struct cell c = cell_of(a, chunk, blockIdx.x);
	const int m = full ? (int)CHUNK : c.m, mp = full ? (int)CHUNK : c.mp;
	float U[CHUNK / 8][4];

	zero(U);
	rounded_out((bf16 *)a.states + (c.i * a.VP + r.first) * KP + r.col, KP, S);
	for (; capture.row < c.j0 + c.m; capture = capture_at(a, capture.next + 1))
		transposed_out(a.S + slot_at(a, a.cap_slot[capture.next], c.h) + r.first, a.V, a.K, S, r);
	sum_product<true>(U, mp / 8, S, KP / 8, W, ld);
	if (!loads_early<KP>())
		load_input(a, c, r, x);
#pragma unroll
	for (int n = 0; n < CHUNK / 8; n++)
#pragma unroll
		for (int i = 0; i < 4; i++)
			U[n][i] += x.u[n][i];
	const float e = x.e;
	if (loads_early<KP>() && chunk + 1 < a.chunks)
		load_input(a, cell_of(a, chunk + 1, blockIdx.x), r, x);
	transposed_out(u_of(a, c, r), row_stride(a.V, a.H, a.nb), m, U, r);
#pragma unroll
	for (int n = 0; n < KP / 8; n++)
#pragma unroll
		for (int i = 0; i < 4; i++)
			S[n][i] *= e;
	sum_product<false>(S, KP / 8, U, mp / 8, kf, ld);
}

/* Computes the chunks of a piece one after the other.  A block has one sequence and head, and each of its
 * first `workers` warps has 16 columns of V.  stages: the number of chunks in shared memory, 2 or 1; the
 * remaining warps, if any, load them.  A warp's S' (16, KP) stays in its registers. */
template <int KP>
static __global__ void __launch_bounds__(128) walk_bf16(const struct delta a, int workers, int stages)
{
	SHARED(s);
	constexpr int tile = CHUNK * (KP + 8);
	bf16 *W = s.template take<bf16>(stages * tile), *kf = s.template take<bf16>(stages * tile);
	const int v0 = ((int)blockIdx.y * workers + (int)threadIdx.x / 32) * 16;
	const bool computes = (int)threadIdx.x / 32 < workers && v0 < a.VP;
	const int working = workers * 32 < (int)blockDim.x ? workers * 32 : 0;
	const struct loaders loaders = { working, (int)blockDim.x - working };
	const lane_rows r = lane_rows_of(v0, a.V);
	const float *from = a.first ? a.carry + (size_t)blockIdx.x * a.K * a.V
	                            : first_state(a, blockIdx.x / a.H, blockIdx.x % a.H);
	upcoming capture = { 0, NO_ROW };
	float S[KP / 8][4];
	walk_input x;

	if (a.captures)
		capture = capture_at(a, capture_from(a.cap_row, a.captures, a.first * CHUNK));
	transposed_in(S, r, from + r.first, a.V, computes ? a.K : 0);
	if (loads_early<KP>() && computes)
		load_input(a, cell_of(a, 0, blockIdx.x), r, x);
	load_async<KP>(a, loaders, cell_of(a, 0, blockIdx.x), W, kf);
	for (int chunk = 0; chunk < a.chunks; chunk++) {
		const bool more = chunk + 1 < a.chunks, full = cell_of(a, chunk, blockIdx.x).m == CHUNK;
		const int at = stages == 2 ? (chunk & 1) * tile : 0;

		copies_wait<0>();
		__syncthreads(); /* the chunk is loaded, and the other stage is no longer read */
		if (stages == 2 && more)
			load_async<KP>(a, loaders, cell_of(a, chunk + 1, blockIdx.x), W + (tile - at),
			               kf + (tile - at));
		if (computes && full)
			walk_chunk<KP, true>(a, chunk, S, x, r, capture, W + at, kf + at);
		else if (computes)
			walk_chunk<KP, false>(a, chunk, S, x, r, capture, W + at, kf + at);
		if (stages == 1 && more) {
			__syncthreads();
			load_async<KP>(a, loaders, cell_of(a, chunk + 1, blockIdx.x), W, kf);
		}
	}
	if (computes && (a.first + a.chunks) * CHUNK < a.steps)
		transposed_out(a.carry + (size_t)blockIdx.x * a.K * a.V + r.first, a.V, a.K, S, r);
}

enum { COLS = 32, LU = COLS + 4 };

static size_t walk_f32_bytes(const struct delta *a)
{
	return shared_size(CHUNK * (a->KP + 4), 4) + shared_size(COLS * (a->KP + 4), 4) +
	       shared_size(CHUNK * LU, 4);
}

/* Copy between S' (32, KP) in shared memory and a state (K, V), from column v0 on. */
static __device__ void load_state(const struct delta &a, const float *from, float *s, int v0)
{
	for (int e = threadIdx.x; e < a.KP * COLS; e += THREADS) {
		const int k = e / COLS, j = e % COLS;

		s[j * (a.KP + 4) + k] = k < a.K && v0 + j < a.V ? from[(size_t)k * a.V + v0 + j] : 0.f;
	}
}

static __device__ void store_state(const struct delta &a, float *to, const float *s, int v0)
{
	for (int e = threadIdx.x; e < a.K * COLS; e += THREADS) {
		const int k = e / COLS, j = e % COLS;

		if (v0 + j < a.V)
			to[(size_t)k * a.V + v0 + j] = s[j * (a.KP + 4) + k];
	}
}

static __device__ __forceinline__ void load_rows(const float *from, float *to, int mp, int KP)
{
	for (int e = threadIdx.x; e < mp * (KP / 4); e += THREADS) {
		const int i = e / (KP / 4), j = e % (KP / 4) * 4;

		*(float4 *)(to + i * (KP + 4) + j) = *(const float4 *)(from + (size_t)i * KP + j);
	}
}

/* Computes the chunks of a piece one after the other.  A block has one sequence and head, and 32 columns of
 * V. */
static __global__ void __launch_bounds__(THREADS) walk_f32(const struct delta a)
{
	SHARED(sm);
	const int ld = a.KP + 4, v0 = blockIdx.y * COLS, h = blockIdx.x % a.H;
	float *x = sm.take<float>(CHUNK * ld), *s = sm.take<float>(COLS * ld),
	      *us = sm.take<float>(CHUNK * LU);
	const size_t stride = row_stride(a.V, a.H, a.nb);
	int next = a.captures ? capture_from(a.cap_row, a.captures, a.first * CHUNK) : 0;

	load_state(a,
	           a.first ? a.carry + (size_t)blockIdx.x * a.K * a.V : first_state(a, blockIdx.x / a.H, h),
	           s, v0);
	for (int chunk = 0; chunk < a.chunks; chunk++) {
		const struct cell c = cell_of(a, chunk, blockIdx.x);
		float *u = a.u + row_offset(a.V, a.H, c.h, a.nb, c.b, c.j0) + v0,
		      *to = (float *)a.states + (c.i * a.VP + v0) * a.KP;
		const float e = a.ends[c.i];

		load_rows((const float *)a.W + c.i * CHUNK * a.KP, x, c.mp, a.KP);
		load_tile(us, LU, c.mp, COLS, u, stride, c.m, min(COLS, a.V - v0));
		__syncthreads();
		for (int i = threadIdx.x; i < COLS * a.KP; i += THREADS)
			to[i] = s[i / a.KP * ld + i % a.KP];
		for (; next < a.captures && a.cap_row[next] < c.j0 + c.m; next++)
			store_state(a, a.S + slot_at(a, a.cap_slot[next], h), s, v0);
		warp_tiles(c.mp, COLS, [&](int i0, int j0) {
			warp_tile<float> sum;

			sum.zero();
			sum.add<false, true>(a.KP, x + i0 * ld, ld, s + j0 * ld, ld);
			sum.each([&](int i, int j, float y) {
				i += i0, j += j0;
				y += us[i * LU + j];
				us[i * LU + j] = y;
				if (i < c.m && v0 + j < a.V)
					u[(size_t)i * stride + j] = y;
			});
		});
		__syncthreads();
		load_rows((const float *)a.kf + c.i * CHUNK * a.KP, x, c.mp, a.KP);
		__syncthreads();
		warp_tiles(COLS, a.KP, [&](int i0, int j0) {
			warp_tile<float> sum;

			sum.zero();
			sum.add<true, false>(c.mp, us + i0, LU, x + j0, ld);
			sum.each([&](int i, int j, float y) {
				float *at = s + (i0 + i) * ld + j0 + j;

				*at = e * *at + y;
			});
		});
		__syncthreads();
	}
	if ((a.first + a.chunks) * CHUNK < a.steps)
		store_state(a, a.carry + (size_t)blockIdx.x * a.K * a.V, s, v0);
}

/* ---- the output ---------------------------------------------------------------------------- */

/* Returns the columns of V that are computed at a time. */
template <class X> static __host__ __device__ constexpr int out_cols() { return sizeof(X) == 2 ? 64 : 32; }

template <class X> static size_t read_out_bytes(const struct delta *a)
{
	return 2 * shared_size(CHUNK * (a->KP + tile_pad<X>()), sizeof(X)) +
	       shared_size(CHUNK * (out_cols<X>() + tile_pad<X>()), sizeof(X)) +
	       shared_size(CHUNK * (CHUNK + tile_pad<X>()), sizeof(X)) + 2 * shared_size(CHUNK, 4);
}

template <class X> static __global__ void __launch_bounds__(THREADS, 3) read_out(const struct delta a)
{
	SHARED(s);
	constexpr int pad = tile_pad<X>(), lp = CHUNK + pad, COL = out_cols<X>(), lu = COL + pad,
		      N = 16 / sizeof(X);
	const int ld = a.KP + pad;
	X *q = s.template take<X>(CHUNK * ld), *k = s.template take<X>(CHUNK * ld),
	  *us = s.template take<X>(CHUNK * lu);
	X *P = s.template take<X>(CHUNK * lp);
	float *hi = s.template take<float>(CHUNK), *lo = s.template take<float>(CHUNK);
	const struct cell c = cell_of(a, blockIdx.x % a.chunks, blockIdx.x / a.chunks);
	const X *states = (const X *)a.states + c.i * a.VP * a.KP;
	float *o = a.o + row_offset(a.V, a.H, c.h, a.nb, c.b, c.j0);
	const size_t stride = row_stride(a.V, a.H, a.nb), key_stride = row_stride(a.K, a.G, a.nb);

	load_tile(q, ld, c.mp, a.KP, row_at(a, a.q, a.K, a.G, c.kh, c.b, c.j0), key_stride, c.m, a.K);
	load_tile(k, ld, c.mp, a.KP, row_at(a, a.k, a.K, a.G, c.kh, c.b, c.j0), key_stride, c.m, a.K);
	sum_decays(row_at(a, a.g, 1, a.H, c.h, c.b, c.j0), row_stride(1, a.H, a.nb), c.m, hi, lo);
	__syncthreads();
	warp_tiles(c.mp, c.mp, [&](int i0, int j0) {
		warp_tile<X> sum;

		sum.zero();
		if (j0 < i0 + 16)
			sum.template add<false, true>(a.KP, q + i0 * ld, ld, k + j0 * ld, ld);
		sum.each([&](int i, int j, float y) {
			i += i0, j += j0;
			round_to(P + i * lp + j,
			         j <= i ? (a.g ? decay_between(hi, lo, i, j) : 1.f) * y : 0.f);
		});
	});
	for (int v0 = 0; v0 < a.VP; v0 += COL) {
		const int w = min(COL, a.VP - v0);
		X *S = k; /* k is no longer needed */

		__syncthreads();
		for (int e = threadIdx.x; e < w * (a.KP / N); e += THREADS) {
			const int i = e / (a.KP / N), j = e % (a.KP / N) * N;

			copy_16(S + i * ld + j, states + (size_t)(v0 + i) * a.KP + j);
		}
		copies_close();
		load_tile(us, lu, c.mp, w, row_at(a, a.u, a.V, a.H, c.h, c.b, c.j0) + v0, stride, c.m,
		          min(w, a.V - v0));
		copies_wait<0>();
		__syncthreads();
		warp_tiles(c.mp, w, [&](int i0, int j0) {
			warp_tile<X> sum;

			sum.zero();
			sum.template add<false, true>(a.KP, q + i0 * ld, ld, S + j0 * ld, ld);
			if (a.g)
				sum.each([&](int i, int, float &y) { y *= decay_to(hi, lo, i0 + i); });
			sum.template add<false, false>(i0 + 16, P + i0 * lp, lp, us + j0, lu);
			sum.each([&](int i, int j, float y) {
				if (i0 + i < c.m && v0 + j0 + j < a.V)
					o[(size_t)(i0 + i) * stride + v0 + j0 + j] = y;
			});
		});
	}
}

/* ---- states that stay ---------------------------------------------------------------------- */

enum { KEEP_K = 32, KEEP_V = 64 };
static size_t keep_bytes()
{
	return shared_size(CHUNK * (KEEP_K + 4), 4) + shared_size(CHUNK * (KEEP_V + 4), 4) +
	       2 * shared_size(CHUNK, 4);
}

/* Computes to = e from + K' diag(f) U for n rows from row j on, for a tile of the states from row k0 and
 * column v0 on; `from` and `to` may be the same.  copy: unless NULL, receives the numbers of `from`. */
static __device__ void advance_state(const struct delta &a, const float *from, float *to, float *copy, int b,
                                     int h, int j, int n, int k0, int v0)
{
	SHARED(s);
	constexpr int lk = KEEP_K + 4, lv = KEEP_V + 4;
	float *k = s.take<float>(CHUNK * lk), *u = s.take<float>(CHUNK * lv), *hi = s.take<float>(CHUNK),
	      *lo = s.take<float>(CHUNK);

	load_tile(k, lk, CHUNK, KEEP_K, row_at(a, a.k, a.K, a.G, key_head(h, a.G, a.H), b, j) + k0,
	          row_stride(a.K, a.G, a.nb), n, min(KEEP_K, a.K - k0));
	load_tile(u, lv, CHUNK, KEEP_V, row_at(a, a.u, a.V, a.H, h, b, j) + v0, row_stride(a.V, a.H, a.nb), n,
	          min(KEEP_V, a.V - v0));
	sum_decays(row_at(a, a.g, 1, a.H, h, b, j), row_stride(1, a.H, a.nb), n, hi, lo);
	__syncthreads();
	if (a.g) {
		for (int e = threadIdx.x; e < n * KEEP_K; e += blockDim.x)
			k[e / KEEP_K * lk + e % KEEP_K] *= decay_between(hi, lo, n - 1, e / KEEP_K);
		__syncthreads();
	}
	warp_tiles(KEEP_K, KEEP_V, [&](int i0, int j0) {
		warp_tile<float> sum;

		sum.zero();
		sum.add<true, false>(n, k + i0, lk, u + j0, lv);
		sum.each([&](int i, int jj, float y) {
			const size_t at = (size_t)(k0 + i0 + i) * a.V + v0 + j0 + jj;

			if (k0 + i0 + i < a.K && v0 + j0 + jj < a.V) {
				const float x = from[at];

				if (copy)
					copy[at] = x;
				to[at] = decay_to(hi, lo, n - 1) * x + y;
			}
		});
	});
}

/* Completes the captures, whose slots hold the state at the first row of the chunk, and writes the log. */
static __global__ void __launch_bounds__(128) keep_states(const struct delta a)
{
	const int row = a.cap_row[blockIdx.x], slot = a.cap_slot[blockIdx.x], ls = slot - a.log_from,
		  h = blockIdx.y;
	const int j0 = row / CHUNK * CHUNK, n = row + 1 - j0, cols = (a.V + KEEP_V - 1) / KEEP_V,
		  kh = key_head(h, a.G, a.H);
	const bool logs = a.log.S && ls >= 0 && n % CHUNK;
	float *S = a.S + slot_at(a, slot, h);

	advance_state(a, S, S, logs ? a.log.S + slot_at(a, ls, h) : NULL, 0, h, j0, n,
	              (int)blockIdx.z / cols * KEEP_K, (int)blockIdx.z % cols * KEEP_V);
	if (!logs || blockIdx.z)
		return;
	for (int e = threadIdx.x; e < n * a.V; e += blockDim.x)
		a.log.u[row_offset(a.V, a.H, h, 1, 0, ls * CHUNK + e / a.V) + e % a.V] =
			a.u[row_offset(a.V, a.H, h, 1, 0, j0 + e / a.V) + e % a.V];
	if (!h || key_head(h - 1, a.G, a.H) != kh) /* the first of its heads */
		for (int e = threadIdx.x; e < n * a.K; e += blockDim.x)
			a.log.k[row_offset(a.K, a.G, kh, 1, 0, ls * CHUNK + e / a.K) + e % a.K] =
				a.k[row_offset(a.K, a.G, kh, 1, 0, j0 + e / a.K) + e % a.K];
	for (int e = threadIdx.x; a.g && e < n; e += blockDim.x)
		a.log.g[row_offset(1, a.H, h, 1, 0, ls * CHUNK + e)] =
			a.g[row_offset(1, a.H, h, 1, 0, j0 + e)];
}

/* Moves the open state to the end of a chunk that the decoded rows have filled. */
static __global__ void __launch_bounds__(128) move_open(const struct delta a)
{
	const int b = blockIdx.x / a.H, h = blockIdx.x % a.H, j0 = a.decoded - CHUNK,
		  cols = (a.V + KEEP_V - 1) / KEEP_V;
	float *open = a.open + slot_at(a, b, h);

	advance_state(a, j0 ? open : first_state(a, b, h), open, NULL, b, h, j0, CHUNK,
	              (int)blockIdx.y / cols * KEEP_K, (int)blockIdx.y % cols * KEEP_V);
}

/* ---- one row after the decoded rows -------------------------------------------------------- */

static size_t grow_bytes(const struct delta *a)
{
	return 2 * shared_size(a->K, 4) + 2 * shared_size(THREADS, 4) + 4 * shared_size(CHUNK, 4) +
	       shared_size(33, 4);
}

/* Computes one step.  A block has one sequence and head, and THREADS columns of V.  It adds the decoded rows
 * from `first` on to the state at row `first`, 64 rows at a time, beginning with the last rows. */
static __global__ void __launch_bounds__(THREADS) grow(const struct delta a, int first)
{
	SHARED(s);
	float *q = s.take<float>(a.K), *k = s.take<float>(a.K), *rs = s.take<float>(THREADS),
	      *os = s.take<float>(THREADS);
	float *hi = s.take<float>(CHUNK), *lo = s.take<float>(CHUNK), *kk = s.take<float>(CHUNK),
	      *qk = s.take<float>(CHUNK);
	float *scratch = s.take<float>(33);
	const int b = blockIdx.x / a.H, h = blockIdx.x % a.H, kh = key_head(h, a.G, a.H), t = threadIdx.x,
		  warp = t / 32, lane = t & 31;
	const int v0 = blockIdx.y * THREADS, width = min(THREADS, a.V - v0);
	const int cols = up32(width), groups = THREADS / cols, group = t / cols, col = v0 + t % cols;
	const bool computes = group < groups && col < a.V;
	const float *S = first ? a.open + slot_at(a, b, h) : first_state(a, b, h);
	const size_t stride = row_stride(a.V, a.H, a.nb), key_stride = row_stride(a.K, a.G, a.nb);
	/* the sum of g after the current 64 rows */
	double after = a.g ? (double)*row_at(a, a.g, 1, a.H, h, b, a.decoded) : 0;
	float r = 0, o = 0, e, k_dot_q = 0;

	for (int i = t; i < a.K; i += THREADS) {
		q[i] = row_at(a, a.q, a.K, a.G, kh, b, 0)[i];
		k[i] = row_at(a, a.k, a.K, a.G, kh, b, a.decoded)[i];
		k_dot_q += q[i] * k[i];
	}
	k_dot_q = block_sum(k_dot_q, scratch);
	for (int end = a.decoded; end > first; end = (end - 1) / CHUNK * CHUNK) {
		const int j = max((end - 1) / CHUNK * CHUNK, first), n = end - j;
		const float *ks = row_at(a, a.k, a.K, a.G, kh, b, j), *u = row_at(a, a.u, a.V, a.H, h, b, j);

		sum_decays(row_at(a, a.g, 1, a.H, h, b, j), row_stride(1, a.H, a.nb), n, hi, lo);
		__syncthreads();
		for (int i = warp; i < n; i += THREADS / 32) {
			float x = 0, y = 0;

			for (int l = lane; l < a.K; l += 32) {
				const float z = ks[(size_t)i * key_stride + l];

				x += z * k[l];
				y += z * q[l];
			}
			x = warp_sum(x);
			y = warp_sum(y);
			if (lane == 0) {
				const double decay_to_end = (double)hi[n - 1] - (double)hi[i] +
				                            ((double)lo[n - 1] - (double)lo[i]);
				const float f = fade((float)(after + decay_to_end));

				kk[i] = f * x;
				qk[i] = f * y;
			}
		}
		__syncthreads();
		for (int i = group; computes && i < n; i += groups) {
			const float x = u[(size_t)i * stride + col];

			r += kk[i] * x;
			o += qk[i] * x;
		}
		after += (double)hi[n - 1] + (double)lo[n - 1];
		__syncthreads();
	}
	e = fade((float)after);
	{
		float x = 0, y = 0;

		for (int i = group; computes && i < a.K; i += groups) {
			const float z = S[(size_t)i * a.V + col];

			x += k[i] * z;
			y += q[i] * z;
		}
		rs[t] = r + e * x;
		os[t] = o + e * y;
	}
	__syncthreads();
	if (t < width) {
		float u;

		r = o = 0;
		for (int i = 0; i < groups; i++) {
			r += rs[i * cols + t];
			o += os[i * cols + t];
		}
		u = beta_of(a, h, b, 0) * (row_at(a, a.v, a.V, a.H, h, b, 0)[v0 + t] - r);
		a.u[row_offset(a.V, a.H, h, a.nb, b, a.decoded) + v0 + t] = u;
		a.o[row_offset(a.V, a.H, h, a.nb, b, 0) + v0 + t] = o + k_dot_q * u;
	}
}

/* ---- the operation ------------------------------------------------------------------------- */

template <int KP> static void launch_walk(struct rf_dev *d, const struct delta *a)
{
	const size_t stage = 2 * shared_size(CHUNK * (KP + 8), 2);
	const int warps = a->VP / 16, heads = a->nb * a->H,
		  stages = 2 * stage <= cuda_of(d)->most_shared ? 2 : 1;
	int workers = 4;

	while (workers > 1 && (size_t)heads * warps / workers < (size_t)cuda_of(d)->sms / 3)
		workers /= 2;
	LAUNCH(d, walk_bf16<KP>, dim3(heads, (warps + workers - 1) / workers), 128, stages * stage, *a,
	       workers, stages);
}

/* Sets the padded widths and the length of a piece in chunks, and places the matrices that pass between the
 * kernels in `scratch` (NULL: only counts).  Returns their bytes. */
template <class X> static size_t place_buffers(struct delta *a, int *piece, void *scratch)
{
	const int chunks = (a->steps + CHUNK - 1) / CHUNK, heads = a->nb * a->H,
		  most = PIECE / heads > 1 ? PIECE / heads : 1;
	size_t at = 0, cells;

	*piece = chunks < most ? chunks : most;
	cells = (size_t)heads * *piece;
	a->KP = padded_keys(a->K, sizeof(X) == 2);
	a->VP = up32(a->V);
	a->W = rf_cuda_piece<X>(scratch, &at, cells * CHUNK * a->KP);
	a->kf = rf_cuda_piece<X>(scratch, &at, cells * CHUNK * a->KP);
	a->states = rf_cuda_piece<X>(scratch, &at, cells * a->VP * a->KP);
	a->ends = rf_cuda_piece<float>(scratch, &at, cells);
	a->carry = rf_cuda_piece<float>(scratch, &at, chunks > *piece ? (size_t)heads * a->K * a->V : 0);
	return at;
}

/* Tells whether operands are rounded to bf16; operands of narrow heads never are. */
static bool rounds(const struct rf_dev *d, int K) { return d->math == RF_MATH_BF16 && K >= NARROW; }

size_t rf_cuda_delta_scratch(const struct rf_dev *d, const struct rf_workspace *need, int nb, int steps)
{
	struct delta a = {};
	int piece;

	a.nb = nb, a.steps = steps, a.H = need->H, a.K = need->K, a.V = need->V;
	return !nb || !need->H  ? 0
	       : rounds(d, a.K) ? place_buffers<bf16>(&a, &piece, NULL)
	                        : place_buffers<float>(&a, &piece, NULL);
}

template <class X> static void run_sequence(struct rf_dev *d, struct delta *a)
{
	const bool small = sizeof(X) == 2;
	const int chunks = (a->steps + CHUNK - 1) / CHUNK, heads = a->nb * a->H;
	int piece;
	void *scratch = rf_cuda_scratch(d, place_buffers<X>(a, &piece, NULL));

	if (!scratch)
		return;
	place_buffers<X>(a, &piece, scratch);
	for (a->first = 0; a->first < chunks; a->first += piece) {
		a->chunks = chunks - a->first < piece ? chunks - a->first : piece;
		LAUNCH(d, prepare<X>, heads * a->chunks, THREADS, prepare_bytes<X>(a), *a);
		if (!small)
			LAUNCH(d, walk_f32, dim3(heads, a->VP / COLS), THREADS, walk_f32_bytes(a), *a);
		else if (a->KP == 64)
			launch_walk<64>(d, a);
		else if (a->KP == 128)
			launch_walk<128>(d, a);
		else
			launch_walk<256>(d, a);
		LAUNCH(d, read_out<X>, heads * a->chunks, THREADS, read_out_bytes<X>(a), *a);
	}
}

void rf_cuda_delta_fwd(struct rf_dev *d, const struct rf_delta_fwd *x)
{
	struct delta a = {};
	const int tiles = (x->K + KEEP_K - 1) / KEEP_K * ((x->V + KEEP_V - 1) / KEEP_V);

	if (!x->nb || !x->steps || !x->H || !rf_cuda_has_width(d, x->K, "keys"))
		return;
	a.nb = x->nb, a.steps = x->steps, a.decoded = x->decoded, a.n = x->n ? x->n : 1;
	a.H = x->H, a.G = x->G, a.K = x->K, a.V = x->V, a.beta_scale = x->beta_scale;
	a.q = f32(x->q), a.k = f32(x->k), a.v = f32(x->v), a.b = f32(x->b), a.g = f32(x->g), a.u = f32(x->u),
	a.o = f32(x->o);
	a.S = f32(x->S), a.open = f32(x->open), a.start = i32(x->start), a.cap_row = i32(x->cap_row),
	a.cap_slot = i32(x->cap_slot);
	a.captures = x->captures, a.log_from = x->log_from;
	a.log.S = f32(x->log.S), a.log.k = f32(x->log.k), a.log.u = f32(x->log.u), a.log.g = f32(x->log.g);
	/* no product multiplies states or the numbers that captures keep */
	const size_t step = (size_t)a.nb * a.H * a.V;
	rf_cuda_all_wrote(d, a.steps * step, a.o, a.u + a.decoded * step);
	if (x->decoded || (x->steps == 1 && !x->captures)) {
		const int first = x->open && x->decoded ? (x->decoded - 1) / CHUNK * CHUNK : 0;

		LAUNCH(d, grow, dim3(a.nb * a.H, (a.V + THREADS - 1) / THREADS), THREADS, grow_bytes(&a), a,
		       first);
		if (x->open && x->decoded && x->decoded % CHUNK == 0)
			LAUNCH(d, move_open, dim3(a.nb * a.H, tiles), 128, keep_bytes(), a);
		return;
	}
	if (rounds(d, x->K))
		run_sequence<bf16>(d, &a);
	else
		run_sequence<float>(d, &a);
	if (a.captures)
		LAUNCH(d, keep_states, dim3(a.captures, a.H, tiles), 128, keep_bytes(), a);
}
