/* delta_back.cu -- the gradients of the gated delta rule, in chunks of 64 rows; delta.c has the mathematics.
 *
 * With T = (I + A)^-1, all contributions of a chunk to dR and to the gradient of its first state can be
 * computed before the gradients of states are known, except for two products.  With the gradient dS of the
 * chunk's last state:
 *
 *     dR = (P T)' dO + (T' diag(f) K) dS = own + R dS
 *     dS <- e_m dS + Q' diag(e) dO - K' diag(e beta) dR = e_m dS + N + B' dR
 *
 * A capture in the chunk adds only to `own` and to N.  So there are three kernels:
 *
 *     ready   a block per chunk and head: T; own (into dv), R, B and N to memory (delta_back_ready.cu)
 *     scan    chunk after chunk, backward: the two products, dR and dS to memory;
 *             in other blocks, forward: S += K' diag(f) U (delta_back_scan.cu)
 *     back    a block per chunk and head of q and k: dq, dk, dv, db, dg from S, dS and dR
 *
 * Estimate for an H100 with bf16 operands, per chunk and head of width 128.  Products: 22 million
 * multiplications and additions, at 400 TFLOP/s (mma.sync) 55 ns of the whole GPU.  Memory: q, k, u, dO, dR,
 * dq, dk and dv in float32, some of them twice, 0.35 MB; R, B, N, S and dS, which one kernel writes and
 * another reads, 128 KB each way: 0.6 MB in all, at 3 TB/s 200 ns.  So back is bound by memory, and ready by
 * instructions as prepare is (make cuda-reckon).  They hold products in registers, so that an SM can have two
 * blocks: 0.55 and 0.5 ms at 16384 rows and 16 heads.
 *
 * scan is bound by latency and divided like the forward pass (delta.cu): a warp has 16 columns of V and holds
 * dS' (16, K) in its registers, where an accumulator is the next product's operand.  That is 128 matrix
 * instructions a chunk, and 0.5 ms for 256 chunks.  The states at the chunks' first rows need no inverse,
 * only K and U; their squares of 64 by 64 are computed at the same time on the remaining SMs.  In float32
 * scan multiplies from shared memory, with 16 columns of V a block.
 *
 * Long passes are computed in pieces of 2048 chunks and heads, from the last to the first, so that they take
 * a quarter of a gigabyte (float32: half a gigabyte) for any length.  The states between pieces are computed
 * first.
 *
 * A block of scan computes the sequences of a group one after the other, and a block of back the heads that
 * share q and k.  So all terms of a sum are added in order. */
#include "delta_back.h"

/* ---- the gradients ------------------------------------------------------------------------- */

/* With two blocks on a multiprocessor, a thread has 128 registers.  For sm_90 the compiler then keeps 16
 * numbers in memory, for sm_100 it would keep 110; so sm_100 has one block. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
enum { BACK_BLOCKS = 1 };
#else
enum { BACK_BLOCKS = 2 };
#endif

template <class X> static size_t back_bytes()
{
	return shared_size(2 * CHUNK * tile_ld<X>(), sizeof(X)) +
	       3 * shared_size(CHUNK * tile_ld<X>(), sizeof(X)) + shared_size(GATES, 4) +
	       shared_size(4 * CHUNK, 4) + shared_size(CHUNK, 8) + shared_size(33, 4);
}

/* A block's shared memory. */
template <class X> struct shared_arrays {
	X *x, *y, *z; /* operands, (64, 64) at most; y follows x */
	X *XD, *ZD;   /* D * X and - (D * Z + (D * Z)') */
	gates t;
	float *sums;    /* (4, 64) */
	double *dc;     /* (64): the gradient of c */
	float *scratch; /* for block_sum */
};
enum { LE = CHUNK + 1 }; /* floats from row to row of the square that shares the memory of x and y */

/* 64 columns of dR, U and dO, between their loads and their stores. */
struct rows_of_V {
	fetched dR, U, dO;
};

/* Starts to load them, from v0 on; from a.VP on, nothing. */
template <class X>
static __device__ __forceinline__ rows_of_V fetch_rows_of_V(const job<X> &a, const rows<X> &c, int v0)
{
	return { fetch_V(a, c, v0, c.dv), fetch_V(a, c, v0, c.u), fetch_V(a, c, v0, c.d_o) };
}

/* For vw columns of V from v0 on, writes dO to x, U to y, and W = diag(beta) dR over dR in dv and to z.  Adds
 * dR . u of each row, the gradient of its beta, to sums. */
template <class X>
static __device__ __forceinline__ void store_rows_of_V(const job<X> &a, const rows<X> &c,
                                                       const shared_arrays<X> &s, int v0, int vw,
                                                       const rows_of_V &x)
{
	constexpr int L = tile_ld<X>();
	const bool wide = sizeof(X) == 2 || a.wide;

	store_scaled(s.x, L, c.mp, vw, x.dO, NULL);
	store_scaled(s.y, L, c.mp, vw, x.U, NULL);
	each_four(c.mp, vw, [&](int i, int j, int r) {
		const float4 dr = x.dR.x[r], u = x.U.x[r];
		const float beta = s.t.beta[i], w[4] = { beta * dr.x, beta * dr.y, beta * dr.z, beta * dr.w };
		float dot = dr.x * u.x + dr.y * u.y + dr.z * u.z + dr.w * u.w;

		round_two(s.z + i * L + j, w[0], w[1]);
		round_two(s.z + i * L + j + 2, w[2], w[3]);
		if (wide && i < c.m && v0 + j < a.V)
			*(float4 *)(c.dv + i * c.sv + v0 + j) = make_float4(w[0], w[1], w[2], w[3]);
		for (int l = 0; l < 4 && !wide && i < c.m && v0 + j + l < a.V; l++)
			c.dv[i * c.sv + v0 + j + l] = w[l];
		/* the lanes of a row are neighbours */
		for (int o = 1; o < vw / 4; o *= 2)
			dot += __shfl_xor_sync(~0u, dot, o);
		if (j == 0)
			s.sums[i] += dot;
	});
}

/* Computes from this warp's tiles of X and Z (Z below the diagonal): D * X to XD, - (D * Z + (D * Z)') to ZD,
 * and, in the memory of x and y, the contribution of each pair of rows to the gradient of its D. */
template <class X>
static __device__ __forceinline__ void store_squares(const job<X> &a, const rows<X> &c,
                                                     const shared_arrays<X> &s, const warp_part &w,
                                                     warp_tile<X> &xs, warp_tile<X> &zs)
{
	constexpr int L = tile_ld<X>();
	const float *qk = a.g ? a.qk + c.i * CHUNK * CHUNK : NULL,
		    *kk = a.g ? a.kk + c.i * CHUNK * CHUNK : NULL;
	float *E = (float *)(void *)s.x;

	xs.each([&](int i, int j, float n) {
		i += w.i0, j += w.j0;
		round_to(s.XD + i * L + j, j <= i ? (a.g ? decay_between(s.t, i, j) : 1.f) * n : 0.f);
		if (a.g)
			E[i * LE + j] = j < i ? n * qk[i * CHUNK + j] : 0.f;
	});
	zs.each([&](int i, int j, float n) {
		i += w.i0, j += w.j0;
		if (a.g && j < i)
			E[i * LE + j] -= n * kk[i * CHUNK + j];
		n = j < i ? -(a.g ? decay_between(s.t, i, j) : 1.f) * n : 0.f;
		if (j <= i) {
			round_to(s.ZD + i * L + j, n);
			round_to(s.ZD + j * L + i, n);
		}
	});
}

/* Computes X = dO U' and Z = W U', and from them XD, ZD, db, and D's contribution to dc, which is added for
 * the later row and subtracted for the earlier row.  dR in dv becomes W. */
template <class X>
static __device__ __forceinline__ void compute_squares(const job<X> &a, const rows<X> &c,
                                                       const shared_arrays<X> &s, const warp_part &w)
{
	constexpr int L = tile_ld<X>();
	const int row = threadIdx.x;
	const bool square = w.i0 < c.mp && w.j0 < c.mp;
	warp_tile<X> xs, zs;

	xs.zero();
	zs.zero();
	rows_of_V x = fetch_rows_of_V(a, c, 0);
	for (int v0 = 0; v0 < a.VP; v0 += W) {
		const int vw = min((int)W, a.VP - v0);

		store_rows_of_V(a, c, s, v0, vw, x);
		__syncthreads();
		x = fetch_rows_of_V(a, c, v0 + W);
		if (square && w.j0 < w.i0 + 16) {
			xs.template add<false, true>(vw, s.x + w.i0 * L, L, s.y + w.j0 * L, L);
			zs.template add<false, true>(vw, s.z + w.i0 * L, L, s.y + w.j0 * L, L);
		}
		__syncthreads();
	}
	if (a.db && row < c.m) /* dbeta / db = beta (1 - sigmoid(b)) */
		a.db[row_offset(1, a.H, c.h, a.nb, c.b, c.j0 + row)] = s.sums[row] * s.t.slope[row];
	if (square)
		store_squares(a, c, s, w, xs, zs);
	__syncthreads();
	if (a.g && row < c.mp) {
		const float *E = (const float *)(const void *)s.x;
		float later = 0, earlier = 0;

		for (int i = 0; i < c.mp; i++) {
			later += E[row * LE + i];
			earlier += E[i * LE + row];
		}
		s.dc[row] += (double)later - (double)earlier;
	}
	__syncthreads();
}

/* Returns a function f(i, j): the number of q or k (x) at (i, j) of the warp's tile, for the columns
 * from k0 on. */
template <class X>
static __device__ __forceinline__ auto numbers_of(const job<X> &a, const rows<X> &c, const warp_part &w,
                                                  int k0, const float *x)
{
	const int m = c.m - w.i0, left = a.K - k0 - w.j0;
	const size_t stride = c.sk;

	x += w.i0 * stride + k0 + w.j0;
	return [=](int i, int j) { return i < m && j < left ? x[i * stride + j] : 0.f; };
}

/* Returns this thread's row of the row sums that two halves of warps have written, for kw columns in all. */
static __device__ __forceinline__ float both_halves(const float *from, int kw)
{
	return from[threadIdx.x] + (kw > 32 ? from[CHUNK + threadIdx.x] : 0.f);
}

/* Computes dk += diag(f) U dS' for kw columns from k0 on.  dS is the gradient of the state after n of the
 * chunk's rows: the state of capture `end`, or, if end < c.cap0, the state after the chunk.  Returns this
 * thread's part of the sum of S * dS. */
template <class X>
static __device__ __forceinline__ float add_end(const job<X> &a, const rows<X> &c, const shared_arrays<X> &s,
                                                const warp_part &w, int k0, int kw, int end, int n,
                                                warp_tile<X> &dk)
{
	constexpr int L = tile_ld<X>();
	const bool own = end < c.cap0, transposed = own && c.c + 1 < a.count, /* (VP, KP) */
		computes = w.i0 < c.mp && w.j0 < kw;
	const float *dS = transposed ? NULL
	                  : own      ? a.after + slot_at(a, c.b, c.h)
	                             : a.dS + slot_at(a, a.cap_slot[end], c.h);
	float sum = 0;

	set_decays_to(s.t, a.g, n);
	__syncthreads();
	fetched u = fetch_V(a, c, 0, c.u);
	for (int v0 = 0; v0 < a.VP; v0 += W) {
		const int vw = min((int)W, a.VP - v0);

		if (transposed)
			load_async(s.z, L, vw, kw, a.N + ((c.i + 1) * a.VP + v0) * a.KP + k0, a.KP);
		else
			load_scaled(a, s.z, L, kw, vw, dS + (size_t)k0 * a.V + v0, a.V, a.K - k0, a.V - v0,
			            NULL);
		store_scaled(s.y, L, c.mp, vw, u, s.t.f);
		copies_wait<0>();
		__syncthreads();
		u = fetch_V(a, c, v0 + W, c.u);
		if (computes && transposed)
			dk.template add<false, false>(vw, s.y + w.i0 * L, L, s.z + w.j0, L);
		else if (computes)
			dk.template add<false, true>(vw, s.y + w.i0 * L, L, s.z + w.j0 * L, L);
		if (a.g)
			tile_each(transposed ? vw : kw, transposed ? kw : vw, [&](int i, int j) {
				const int k1 = k0 + (transposed ? j : i), v1 = v0 + (transposed ? i : j);

				sum += (float)s.z[i * L + j] * (c.S ? (float)c.S[(size_t)v1 * a.KP + k1]
				                                : k1 < a.K && v1 < a.V
				                                        ? c.S0[(size_t)k1 * a.V + v1]
				                                        : 0.f);
			});
		__syncthreads();
	}
	return sum;
}

/* Does that for all captures and the state after the chunk, and adds their contribution to dc.  Returns the
 * part of k . dk of this thread's row that is already in dc. */
template <class X>
static __device__ __forceinline__ float add_ends(const job<X> &a, const rows<X> &c, const shared_arrays<X> &s,
                                                 const warp_part &w, int k0, int kw, warp_tile<X> &dk)
{
	const int row = threadIdx.x;
	float counted = 0;

	for (int end = a.first + c.c + 1 < a.chunks ? c.cap0 - 1 : c.cap0; end < c.cap1; end++) {
		const int n = end < c.cap0 ? c.m : a.cap_row[end] - c.j0 + 1;
		float sum = add_end(a, c, s, w, k0, kw, end, n, dk);

		if (!a.g)
			continue;
		if (w.i0 < c.mp && w.j0 < kw)
			tile_row_sums(dk, numbers_of(a, c, w, k0, c.k),
			              [&](int i, float x) { s.sums[w.half * CHUNK + w.i0 + i] = x; });
		__syncthreads();
		sum *= s.t.e[n - 1];
		if (row < c.mp) {
			const float sum_now = both_halves(s.sums, kw);

			s.dc[row] -= (double)(sum_now - counted);
			sum += sum_now - counted;
			counted = sum_now;
		}
		sum = block_sum(sum, s.scratch);
		if (row == n - 1)
			s.dc[row] += (double)sum;
	}
	return counted;
}

/* Computes dq += diag(e) dO S' and dk -= diag(e) W S' for kw columns from k0 on, and adds the contribution of
 * dq and dk so far to dc.  counted: the result of add_ends. */
template <class X>
static __device__ __forceinline__ void add_state(const job<X> &a, const rows<X> &c, const shared_arrays<X> &s,
                                                 const warp_part &w, int k0, int kw, warp_tile<X> &dq,
                                                 warp_tile<X> &dk, float counted)
{
	constexpr int L = tile_ld<X>();
	const int row = threadIdx.x;
	const bool computes = w.i0 < c.mp && w.j0 < kw;

	fetched d_o = fetch_V(a, c, 0, c.d_o), w_rows = fetch_V(a, c, 0, c.dv);
	for (int v0 = 0; v0 < a.VP; v0 += W) {
		const int vw = min((int)W, a.VP - v0);

		if (c.S)
			load_async(s.z, L, vw, kw, c.S + (size_t)v0 * a.KP + k0, a.KP);
		else
			load_scaled(a, s.z, L, kw, vw, c.S0 + (size_t)k0 * a.V + v0, a.V, a.K - k0, a.V - v0,
			            NULL);
		store_scaled(s.x, L, c.mp, vw, d_o, s.t.e);
		store_scaled(s.y, L, c.mp, vw, w_rows, s.t.e);
		copies_wait<0>();
		__syncthreads();
		d_o = fetch_V(a, c, v0 + W, c.d_o);
		w_rows = fetch_V(a, c, v0 + W, c.dv);
		if (computes) {
			/* the product is subtracted */
			dk.each([](int, int, float &n) { n = -n; });
			if (c.S) {
				dq.template add<false, false>(vw, s.x + w.i0 * L, L, s.z + w.j0, L);
				dk.template add<false, false>(vw, s.y + w.i0 * L, L, s.z + w.j0, L);
			} else {
				dq.template add<false, true>(vw, s.x + w.i0 * L, L, s.z + w.j0 * L, L);
				dk.template add<false, true>(vw, s.y + w.i0 * L, L, s.z + w.j0 * L, L);
			}
			dk.each([](int, int, float &n) { n = -n; });
		}
		__syncthreads();
	}
	if (!a.g)
		return;
	if (computes) {
		tile_row_sums(dq, numbers_of(a, c, w, k0, c.q),
		              [&](int i, float x) { s.sums[(2 + w.half) * CHUNK + w.i0 + i] = x; });
		tile_row_sums(dk, numbers_of(a, c, w, k0, c.k),
		              [&](int i, float x) { s.sums[w.half * CHUNK + w.i0 + i] = x; });
	}
	__syncthreads();
	if (row < c.mp)
		s.dc[row] += (double)both_halves(s.sums + 2 * CHUNK, kw) +
		             (double)(both_halves(s.sums, kw) - counted);
}

/* Computes dq += X K and dk += X' Q + Z K for kw columns from k0 on.  The first of the heads that share q and
 * k writes dq and dk; the others add to them. */
template <class X>
static __device__ __forceinline__ void add_rows(const job<X> &a, const rows<X> &c, const shared_arrays<X> &s,
                                                const warp_part &w, int k0, int kw, warp_tile<X> &dq,
                                                warp_tile<X> &dk, bool first)
{
	constexpr int L = tile_ld<X>();

	const fetched k = fetch_keys(a, c, k0, c.k), q = fetch_keys(a, c, k0, c.q);
	store_scaled(s.x, L, c.mp, kw, k, NULL);
	store_scaled(s.y, L, c.mp, kw, q, NULL);
	__syncthreads();
	if (w.i0 < c.mp && w.j0 < kw) {
		const auto adder = [&](float *to) {
			return [&, to](int i, int j, float n) {
				float *at = to + c.key + (w.i0 + i) * c.sk + k0 + w.j0 + j;

				if (w.i0 + i < c.m && k0 + w.j0 + j < a.K)
					*at = first ? n : *at + n;
			};
		};

		dq.template add<false, false>(w.i0 + 16, s.XD + w.i0 * L, L, s.x + w.j0, L);
		dk.template add<true, false>(c.mp - w.i0, s.XD + w.i0 * L + w.i0, L, s.y + w.i0 * L + w.j0,
		                             L);
		dk.template add<false, false>(c.mp, s.ZD + w.i0 * L, L, s.x + w.j0, L);
		dq.each(adder(a.dq));
		dk.each(adder(a.dk));
	}
	__syncthreads();
}

/* Computes the gradients.  A block has one chunk, and computes the heads that share q and k one after the
 * other. */
template <class X> static __global__ void __launch_bounds__(THREADS, BACK_BLOCKS) back(const job<X> a)
{
	SHARED(shared);
	shared_arrays<X> s;
	s.x = shared.template take<X>(2 * CHUNK * tile_ld<X>());
	s.y = s.x + CHUNK * tile_ld<X>();
	s.z = shared.template take<X>(CHUNK * tile_ld<X>());
	s.XD = shared.template take<X>(CHUNK * tile_ld<X>());
	s.ZD = shared.template take<X>(CHUNK * tile_ld<X>());
	s.t = place_gates(shared.template take<float>(GATES));
	s.sums = shared.template take<float>(4 * CHUNK);
	s.dc = shared.template take<double>(CHUNK);
	s.scratch = shared.template take<float>(33);
	const warp_part w = part_of_warp();
	const int row = threadIdx.x, share = a.H / a.G;
	const int b = (int)(blockIdx.x / a.count) / a.G, kh = (int)(blockIdx.x / a.count) % a.G;

	for (int h = kh * share; h < (kh + 1) * share; h++) {
		const rows<X> c = rows_of(a, blockIdx.x % a.count, b, h, kh);

		load_gates(a, s.t, c);
		if (row < CHUNK) {
			s.dc[row] = 0;
			s.sums[row] = 0;
		}
		__syncthreads();
		compute_squares(a, c, s, w);
		for (int k0 = 0; k0 < a.KP; k0 += W) {
			const int kw = min((int)W, a.KP - k0);
			warp_tile<X> dq, dk;

			dq.zero();
			dk.zero();
			const float counted = add_ends(a, c, s, w, k0, kw, dk);
			add_state(a, c, s, w, k0, kw, dq, dk, counted);
			add_rows(a, c, s, w, k0, kw, dq, dk, h == kh * share);
		}
		if (a.g && row < c.m) {
			double sum = 0;

			for (int i = c.m - 1; i >= row; i--)
				sum += s.dc[i];
			a.dg[row_offset(1, a.H, h, a.nb, b, c.j0 + row)] = (float)sum;
		}
		__syncthreads();
	}
}

/* ---- the operation ------------------------------------------------------------------------- */

/* Sets the padded widths and the length of a piece in chunks, and places the matrices that pass between the
 * kernels in `scratch` (NULL: only counts).  Returns their bytes.  dS: two arrays that hold the gradients of
 * the states between pieces in turn. */
template <class X> static size_t place_buffers(job<X> *a, float *dS[2], bool decays, void *scratch)
{
	const int heads = a->nb * a->H, most = PIECE / heads > 1 ? PIECE / heads : 1;
	size_t at = 0;

	a->chunks = (a->steps + CHUNK - 1) / CHUNK;
	a->piece = a->chunks < most ? a->chunks : most;
	a->KP = padded_keys(a->K, sizeof(X) == 2);
	a->VP = up32(a->V);
	a->rows = up32(a->steps < CHUNK ? a->steps : (int)CHUNK);

	const int pieces = (a->chunks + a->piece - 1) / a->piece;
	const size_t cells = (size_t)heads * a->piece, square = decays ? cells * CHUNK * CHUNK : 0,
		     states = (size_t)heads * a->K * a->V;
	const size_t row = (size_t)a->rows * a->KP, state = (size_t)a->VP * a->KP;

	a->B = rf_cuda_piece<X>(scratch, &at, cells * row);
	a->N = rf_cuda_piece<X>(scratch, &at, cells * state);
	a->R = rf_cuda_piece<X>(scratch, &at, a->chunks > 1 ? cells * row : 0);
	a->states_after = rf_cuda_piece<X>(scratch, &at, a->piece > 1 ? cells * state : 0);
	a->ends = rf_cuda_piece<float>(scratch, &at, cells);
	a->kk = rf_cuda_piece<float>(scratch, &at, square);
	a->qk = rf_cuda_piece<float>(scratch, &at, square);
	a->carry = rf_cuda_piece<float>(scratch, &at, (pieces - 1) * states);
	dS[1] = rf_cuda_piece<float>(scratch, &at, pieces > 1 ? states : 0);
	dS[0] = rf_cuda_piece<float>(scratch, &at, pieces > 2 ? states : 0);
	return at;
}

template <class X> static size_t bytes_of(const struct rf_workspace *need, int nb, int steps)
{
	job<X> a = {};
	float *dS[2];

	a.nb = nb, a.steps = steps, a.H = need->H, a.K = need->K, a.V = need->V;
	return !nb || !steps || !need->H ? 0 : place_buffers<X>(&a, dS, true, NULL);
}

/* Tells whether operands are rounded to bf16, which needs rows that can be read four numbers at a time. */
static bool rounds(const struct rf_dev *d, int K, int V)
{
	return d->math == RF_MATH_BF16 && (K | V) % 4 == 0;
}

size_t rf_cuda_delta_back_scratch(const struct rf_dev *d, const struct rf_workspace *need, int nb, int steps)
{
	return rounds(d, need->K, need->V) ? bytes_of<bf16>(need, nb, steps)
	                                   : bytes_of<float>(need, nb, steps);
}

template <class X> static void launch_pieces(struct rf_dev *d, const struct rf_delta_bwd *x)
{
	const int n = x->n ? x->n : 1, groups = (x->nb + n - 1) / n, heads = x->nb * x->H;
	job<X> a = {};
	float *dS[2];

	a.nb = x->nb, a.steps = x->steps, a.n = n, a.H = x->H, a.G = x->G, a.K = x->K, a.V = x->V;
	a.captures = x->captures, a.beta_scale = x->beta_scale;
	a.q = f32(x->q), a.k = f32(x->k), a.b = f32(x->b), a.g = f32(x->g), a.u = f32(x->u),
	a.d_o = f32(x->d_o), a.S = f32(x->S);
	a.dq = f32(x->dq), a.dk = f32(x->dk), a.dv = f32(x->dv), a.db = f32(x->db), a.dg = f32(x->dg),
	a.dS = f32(x->dS);
	a.start = i32(x->start), a.cap_row = i32(x->cap_row), a.cap_slot = i32(x->cap_slot);
	a.wide = (a.K | a.V) % 4 == 0; /* arrays begin at multiples of 16 bytes */

	/* no product multiplies the gradients of states */
	const size_t rows = (size_t)a.nb * a.steps, keys = rows * a.G * a.K;
	rf_cuda_all_wrote(d, keys, a.dq, a.dk);
	rf_cuda_rounded_wrote(d, a.dv, rows * a.H * a.V);
	rf_cuda_all_wrote(d, rows * a.H, a.db, a.dg);

	void *scratch = rf_cuda_scratch(d, place_buffers(&a, dS, a.g != NULL, NULL));
	if (!scratch)
		return;
	place_buffers(&a, dS, a.g != NULL, scratch);

	const int chunks = a.chunks, piece = a.piece, pieces = (chunks + piece - 1) / piece;
	const unsigned squares = (unsigned)(heads * ((a.KP + W - 1) / W) * ((a.VP + W - 1) / W));

	if (pieces > 1) {
		a.count = (pieces - 1) * piece + 1;
		rf_cuda_delta_between(d, a, squares);
	}
	for (int p = pieces - 1; p >= 0; p--) {
		a.first = p * piece;
		a.count = chunks - a.first < piece ? chunks - a.first : piece;
		a.after = p + 1 < pieces ? dS[(p + 1) % 2] : NULL;
		a.before = p ? dS[p % 2] : NULL;
		a.states = a.count > 1 ? squares : 0;
		rf_cuda_delta_ready(d, a);
		rf_cuda_delta_scan(d, a, groups);
		LAUNCH(d, back<X>, (unsigned)(a.nb * a.G * a.count), THREADS, back_bytes<X>(), a);
	}
}

void rf_cuda_delta_bwd(struct rf_dev *d, const struct rf_delta_bwd *x)
{
	if (!x->nb || !x->steps || !x->H || !rf_cuda_has_width(d, x->K, "keys"))
		return;
	if (rounds(d, x->K, x->V))
		launch_pieces<bf16>(d, x);
	else
		launch_pieces<float>(d, x);
}
