/* delta_back_scan.cu -- the gradients of the gated delta rule from chunk to chunk, and the states between
 * chunks (delta_back.cu has the plan). */
#include "delta_back.h"
#include "cuda/warp.h"

/* ---- states -------------------------------------------------------------------------------- */

template <class X> static size_t states_bytes()
{
	return 2 * shared_size(CHUNK * tile_ld<X>(), sizeof(X)) + 3 * shared_size(CHUNK, 4);
}

/* Computes a square, 64 columns of K by 64 of V, of the states after all chunks of the piece but the last;
 * or, with `pieces`, of the states between pieces. */
template <class X> static __device__ void sum_states(const job<X> &a, unsigned block, bool pieces)
{
	SHARED(s);
	constexpr int L = tile_ld<X>();
	X *x = s.template take<X>(CHUNK * L), *y = s.template take<X>(CHUNK * L);
	float *hi = s.template take<float>(CHUNK), *lo = s.template take<float>(CHUNK),
	      *f = s.template take<float>(CHUNK);
	const unsigned vs = (a.VP + W - 1) / W, ks = (a.KP + W - 1) / W, bh = block / vs / ks;
	const int v0 = (int)(block % vs) * W, k0 = (int)(block / vs % ks) * W, vw = min((int)W, a.VP - v0),
		  kw = min((int)W, a.KP - k0);
	const int h = (int)(bh % a.H), b = (int)(bh / a.H), kh = key_head(h, a.G, a.H),
		  i0 = threadIdx.x / 64 * 16, j0 = threadIdx.x / 32 % 2 * 32;
	const size_t sk = row_stride(a.K, a.G, a.nb), sv = row_stride(a.V, a.H, a.nb);
	const float *from = first_state(a, b, h);
	const bool computes = i0 < vw && j0 < kw;
	warp_tile<X> S;

	S.zero();
	if (computes)
		S.each([&](int i, int j, float &z) {
			if (v0 + i0 + i < a.V && k0 + j0 + j < a.K)
				z = from[(size_t)(k0 + j0 + j) * a.V + v0 + i0 + i];
		});
	fetched k, u;
	/* starts to load k and u of chunk c; the last chunk is not needed */
	const auto load_chunk = [&](int c) {
		const int row = (a.first + c) * CHUNK, m = c + 1 < a.count ? (int)CHUNK : 0;
		const float *keys = a.k + row_offset(a.K, a.G, kh, a.nb, b, row) + k0,
			    *rows = a.u + row_offset(a.V, a.H, h, a.nb, b, row) + v0;

		k = fetch(a, kw, keys, sk, m, a.K - k0);
		u = fetch(a, vw, rows, sv, m, a.V - v0);
	};

	load_chunk(0);
	for (int c = 0; c + 1 < a.count; c++) {
		const int row = (a.first + c) * CHUNK;

		if (a.g) {
			sum_decays(a.g + row_offset(1, a.H, h, a.nb, b, row), row_stride(1, a.H, a.nb), CHUNK,
			           hi, lo);
			__syncthreads();
			if (threadIdx.x < CHUNK)
				f[threadIdx.x] = decay_between(hi, lo, CHUNK - 1, threadIdx.x);
			__syncthreads();
		}
		store_scaled(x, L, CHUNK, kw, k, a.g ? f : NULL);
		store_scaled(y, L, CHUNK, vw, u, NULL);
		__syncthreads();
		load_chunk(c + 1);
		if (computes) {
			if (a.g) {
				const float e = decay_to(hi, lo, CHUNK - 1);

				S.each([&](int, int, float &z) { z *= e; });
			}
			S.template add<true, false>(CHUNK, y + i0, L, x + j0, L);
			if (!pieces) {
				X *to = a.states_after + ((size_t)bh * a.count + c) * a.VP * a.KP;

				S.pairs([&](int i, int j, float y, float z) {
					round_two(to + (size_t)(v0 + i0 + i) * a.KP + k0 + j0 + j, y, z);
				});
			} else if ((c + 1) % a.piece == 0) {
				float *to = a.carry + slot_at(a, c / a.piece * a.nb + b, h);

				S.each([&](int i, int j, float z) {
					if (v0 + i0 + i < a.V && k0 + j0 + j < a.K)
						to[(size_t)(k0 + j0 + j) * a.V + v0 + i0 + i] = z;
				});
			}
		}
		__syncthreads();
	}
}

template <class X> static __global__ void __launch_bounds__(THREADS) between_pieces(const job<X> a)
{
	sum_states(a, blockIdx.x, true);
}

void rf_cuda_delta_between(struct rf_dev *d, const job<bf16> &a, unsigned squares)
{
	LAUNCH(d, between_pieces<bf16>, squares, THREADS, states_bytes<bf16>(), a);
}

void rf_cuda_delta_between(struct rf_dev *d, const job<float> &a, unsigned squares)
{
	LAUNCH(d, between_pieces<float>, squares, THREADS, states_bytes<float>(), a);
}

/* ---- their gradients, chunk after chunk ---------------------------------------------------- */

/* Returns where the gradient of the piece's first state (K, V) is written; if that is a slot, it is added
 * there. */
template <class X> static __device__ __forceinline__ float *first_gradient(const job<X> &a, int b, int h)
{
	return a.before ? a.before + slot_at(a, b, h) : a.dS + start_at(a, b, h);
}

/* R and B of a chunk, and the rows of N for a block's columns of V, in shared memory.  The threads from
 * `idle` on, which do not compute, load them. */
struct stage {
	bf16 *R, *B, *N;
};

template <int KP>
static __device__ __forceinline__ void load_stage(const job<bf16> &a, const struct cell &c, const stage &to,
                                                  int v0, int columns, int idle)
{
	const int t = (int)threadIdx.x - idle, count = THREADS - idle;
	const size_t rows = c.i * a.rows * KP;

	if (t < 0)
		return;
	if (a.first + c.c + 1 < a.chunks)
		copy_rows<KP>(to.R, KP + 8, c.mp, a.R + rows, KP, t, count);
	copy_rows<KP>(to.B, KP + 8, c.mp, a.B + rows, KP, t, count);
	copy_rows<KP>(to.N, KP + 8, min(columns, a.VP - v0), a.N + (c.i * a.VP + v0) * KP, KP, t, count);
	copies_close();
}

/* Writes a warp's dS' (16, KP) as the gradient of the piece's first state (K, V), or adds it there.  to: this
 * lane's first column. */
template <int KP>
static __device__ __forceinline__ void store_first_gradient(const job<bf16> &a, float *to,
                                                            const float (&dS)[KP / 8][4], const lane_rows &r)
{
	constexpr int N = 8; /* eights of columns that are loaded before the first is stored */

#pragma unroll
	for (int n0 = 0; n0 < KP / 8; n0 += N) {
		const int k0 = n0 * 8;
		float sum[N][4];

		transposed_in(sum, r, to + (size_t)k0 * a.V, a.V, a.before ? 0 : a.K - k0);
#pragma unroll
		for (int n = 0; n < N; n++)
#pragma unroll
			for (int l = 0; l < 4; l++)
				sum[n][l] += dS[n0 + n][l];
		transposed_out(to + (size_t)k0 * a.V, a.V, a.K - k0, sum, r);
	}
}

/* `own` of a chunk, transposed (16, 64), and e_m. */
struct scan_input {
	float own[CHUNK / 8][4], e;
};

static __device__ __forceinline__ float *dv_of(const job<bf16> &a, const struct cell &c, const lane_rows &r)
{
	return a.dv + row_offset(a.V, a.H, c.h, a.nb, c.b, c.j0) + r.first;
}

static __device__ __forceinline__ void load_input(const job<bf16> &a, const struct cell &c,
                                                  const lane_rows &r, scan_input &x)
{
	transposed_in(x.own, r, dv_of(a, c, r), row_stride(a.V, a.H, a.nb), c.m);
	x.e = a.ends[c.i];
}

/* Computes dR = own + R dS of chunk c, written over `own`; if the state after the chunk is not used, dR =
 * own.  Both are transposed, dS' (16, KP) and dR' (16, 64).  x: the chunk's input, if it is loaded early.
 * full: the chunk has 64 rows, which as a constant leaves no branch in the products (walk_chunk() in
 * delta.cu). */
template <int KP, bool full>
static __device__ __forceinline__ void scan_rows(const job<bf16> &a, const struct cell &c,
                                                 float (&dR)[CHUNK / 8][4], const float (&dS)[KP / 8][4],
                                                 scan_input &x, const lane_rows &r, const bf16 *R)
{
	const int m = full ? (int)CHUNK : c.m, mp = full ? (int)CHUNK : c.mp;
	const bool uses_state = a.first + c.c + 1 < a.chunks;

	zero(dR);
	if (uses_state)
		sum_product<true>(dR, mp / 8, dS, KP / 8, R, KP + 8);
	if (!loads_early<KP>())
		load_input(a, c, r, x);
#pragma unroll
	for (int n = 0; n < CHUNK / 8; n++)
#pragma unroll
		for (int l = 0; l < 4; l++)
			dR[n][l] += x.own[n][l];
	if (uses_state)
		transposed_out(dv_of(a, c, r), row_stride(a.V, a.H, a.nb), m, dR, r);
}

/* Computes dS <- e dS + N + B' dR, transposed; N: this lane's first number, in shared memory. */
template <int KP>
static __device__ __forceinline__ void scan_state(float (&dS)[KP / 8][4], float e, const bf16 *N,
                                                  const float (&dR)[CHUNK / 8][4], int mp, const bf16 *B)
{
	constexpr int ld = KP + 8;

#pragma unroll
	for (int n = 0; n < KP / 8; n++)
#pragma unroll
		for (int l = 0; l < 2; l++) {
			const bf16 *from = N + l * 8 * ld + n * 8;
			const float2 x = __bfloat1622float2(*(const __nv_bfloat162 *)from);

			dS[n][2 * l] = e * dS[n][2 * l] + x.x;
			dS[n][2 * l + 1] = e * dS[n][2 * l + 1] + x.y;
		}
	sum_product<false>(dS, KP / 8, dR, mp / 8, B, ld);
}

/* Computes dR and dS of the chunks of a piece, from the last to the first.  A block has a group of sequences
 * and a head, and each of its first `workers` warps has 16 columns of V.  stages: the number of chunks in
 * shared memory, 2 or 1.  A warp's dS' (16, KP) stays in its registers. */
template <int KP>
static __global__ void __launch_bounds__(THREADS) scan_bf16(const job<bf16> a, int workers, int stages)
{
	constexpr int ld = KP + 8;

	if (blockIdx.x < a.states) {
		sum_states(a, blockIdx.x, false);
		return;
	}
	SHARED(s);
	bf16 *R = s.template take<bf16>(stages * CHUNK * ld), *B = s.template take<bf16>(stages * CHUNK * ld);
	bf16 *N = s.template take<bf16>(stages * workers * 16 * ld);
	const unsigned parts = (a.VP / 16 + workers - 1) / workers, block = blockIdx.x - a.states;
	const int first = (int)(block % parts) * workers * 16, v0 = first + (int)threadIdx.x / 32 * 16;
	const int h = (int)(block / parts % a.H), group = (int)(block / parts / a.H);
	const bool computes = (int)threadIdx.x / 32 < workers && v0 < a.VP;
	const lane_rows r = lane_rows_of(v0, a.V);
	float dS[KP / 8][4], dR[CHUNK / 8][4];
	scan_input x;

	const auto tile = [&](int i) -> stage {
		return { R + i * CHUNK * ld, B + i * CHUNK * ld, N + i * workers * 16 * ld };
	};

	for (int b = group * a.n; b < min((group + 1) * a.n, a.nb); b++) {
		const float *from = a.after ? a.after + slot_at(a, b, h) + r.first : NULL;
		int current = 0;

		transposed_in(dS, r, from, a.V, from && computes ? a.K : 0);
		load_stage<KP>(a, cell_of(a, a.count - 1, b, h), tile(0), first, workers * 16, workers * 32);
		if (loads_early<KP>() && computes)
			load_input(a, cell_of(a, a.count - 1, b, h), r, x);
		for (int i = a.count - 1; i >= 0; i--) {
			const struct cell c = cell_of(a, i, b, h);
			const stage loaded = tile(stages == 2 ? current : 0);

			copies_wait<0>();
			__syncthreads();
			current ^= 1;
			if (stages == 2 && i)
				load_stage<KP>(a, cell_of(a, i - 1, b, h), tile(current), first, workers * 16,
				               workers * 32);
			if (computes) {
				const bf16 *own_N = loaded.N + (r.first - first) * ld + r.col;

				if (c.m == CHUNK)
					scan_rows<KP, true>(a, c, dR, dS, x, r, loaded.R);
				else
					scan_rows<KP, false>(a, c, dR, dS, x, r, loaded.R);
				const float e = x.e;
				/* these loads take as long as several products */
				if (loads_early<KP>() && i)
					load_input(a, cell_of(a, i - 1, b, h), r, x);
				if (c.m == CHUNK)
					scan_state<KP>(dS, e, own_N, dR, CHUNK, loaded.B);
				else
					scan_state<KP>(dS, e, own_N, dR, c.mp, loaded.B);
				if (i)
					rounded_out(a.N + (c.i * a.VP + r.first) * KP + r.col, KP, dS);
				else
					store_first_gradient<KP>(a, first_gradient(a, b, h) + r.first, dS, r);
			}
			if (stages == 1 || !i)
				__syncthreads(); /* with two stages, the next barrier has the same effect */
			if (stages == 1 && i)
				load_stage<KP>(a, cell_of(a, i - 1, b, h), tile(0), first, workers * 16,
				               workers * 32);
		}
	}
}

static size_t scan_f32_bytes(int rows, int KP)
{
	return shared_size(KP * LV, 4) + shared_size(CHUNK * LV, 4) +
	       2 * shared_size((size_t)rows * (KP + 4), 4);
}

/* Computes dR and dS of the chunks of a piece, from the last to the first.  A block has a group of sequences
 * and a head, and 16 columns of V. */
static __global__ void __launch_bounds__(THREADS) scan_f32(const job<float> a)
{
	if (blockIdx.x < a.states) {
		sum_states(a, blockIdx.x, false);
		return;
	}
	SHARED(s);
	const int ld = a.KP + 4;
	float *dS = s.take<float>(a.KP * LV), *dR = s.take<float>(CHUNK * LV),
	      *R = s.take<float>(a.rows * ld), *B = s.take<float>(a.rows * ld);
	const unsigned parts = a.VP / COLS, block = blockIdx.x - a.states;
	const int v0 = (int)(block % parts) * COLS, h = (int)(block / parts % a.H),
		  group = (int)(block / parts / a.H);
	const size_t stride = row_stride(a.V, a.H, a.nb);

	for (int b = group * a.n; b < min((group + 1) * a.n, a.nb); b++) {
		float *to = first_gradient(a, b, h);

		tile_each(a.KP, COLS, [&](int k, int v) {
			dS[k * LV + v] = a.after && k < a.K && v0 + v < a.V
			                         ? a.after[slot_at(a, b, h) + (size_t)k * a.V + v0 + v]
			                         : 0.f;
		});
		for (int i = a.count - 1; i >= 0; i--) {
			const struct cell c = cell_of(a, i, b, h);
			float *dv = a.dv + row_offset(a.V, a.H, h, a.nb, b, c.j0) + v0,
			      *N = a.N + (c.i * a.VP + v0) * a.KP;
			const float e = a.ends[c.i];

			if (a.first + i + 1 < a.chunks) {
				load_async(R, ld, c.mp, a.KP, a.R + c.i * a.rows * a.KP, a.KP);
				tile_each(c.mp, COLS, [&](int j, int v) {
					dR[j * LV + v] = j < c.m && v0 + v < a.V ? dv[j * stride + v] : 0.f;
				});
				copies_wait<0>();
				__syncthreads();
				tile_product<false, false>(c.mp, COLS, a.KP, R, ld, dS, LV, dR, LV, true);
				__syncthreads();
				tile_each(c.m, min((int)COLS, a.V - v0),
				          [&](int j, int v) { dv[j * stride + v] = dR[j * LV + v]; });
			} else {
				tile_each(c.mp, COLS, [&](int j, int v) {
					dR[j * LV + v] = j < c.m && v0 + v < a.V ? dv[j * stride + v] : 0.f;
				});
				__syncthreads();
			}
			load_async(B, ld, c.mp, a.KP, a.B + c.i * a.rows * a.KP, a.KP);
			tile_each(COLS, a.KP, [&](int v, int k) {
				dS[k * LV + v] = e * dS[k * LV + v] + N[(size_t)v * a.KP + k];
			});
			copies_wait<0>();
			__syncthreads();
			tile_product<true, false>(a.KP, COLS, c.mp, B, ld, dR, LV, dS, LV, true);
			__syncthreads();
			if (i)
				tile_each(COLS, a.KP,
				          [&](int v, int k) { N[(size_t)v * a.KP + k] = dS[k * LV + v]; });
			else
				tile_each(a.K, min((int)COLS, a.V - v0), [&](int k, int v) {
					float *at = to + (size_t)k * a.V + v0 + v;

					*at = a.before ? dS[k * LV + v] : *at + dS[k * LV + v];
				});
		}
	}
}

template <int KP> static void launch_scan(struct rf_dev *d, const job<bf16> &a, int groups)
{
	const size_t states = states_bytes<bf16>();
	const int warps = a.VP / 16;
	const size_t sms = (size_t)cuda_of(d)->sms;
	int workers = 4;

	/* as many blocks as fit next to the blocks of the states: a multiprocessor holds one block */
	while (workers > 1 && a.states + (size_t)groups * a.H * (warps * 2 / workers) <= sms)
		workers /= 2;
	const size_t stage = 2 * shared_size(CHUNK * (KP + 8), 2) + shared_size(workers * 16 * (KP + 8), 2);
	const int stages = 2 * stage <= cuda_of(d)->most_shared ? 2 : 1;
	const size_t bytes = stages * stage > states ? stages * stage : states;
	LAUNCH(d, scan_bf16<KP>, a.states + (unsigned)groups * a.H * ((warps + workers - 1) / workers),
	       THREADS, bytes, a, workers, stages);
}

void rf_cuda_delta_scan(struct rf_dev *d, const job<bf16> &a, int groups)
{
	if (a.KP == 64)
		launch_scan<64>(d, a, groups);
	else if (a.KP == 128)
		launch_scan<128>(d, a, groups);
	else
		launch_scan<256>(d, a, groups);
}

void rf_cuda_delta_scan(struct rf_dev *d, const job<float> &a, int groups)
{
	const size_t back = scan_f32_bytes(a.rows, a.KP), states = states_bytes<float>();

	LAUNCH(d, scan_f32, a.states + (unsigned)groups * a.H * (a.VP / COLS), THREADS,
	       back > states ? back : states, a);
}
