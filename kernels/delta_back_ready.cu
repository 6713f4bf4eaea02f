/* delta_back_ready.cu -- the part of the gated delta rule's gradients that needs no gradient of a state
 * (delta_back.cu has the plan): T of each chunk, and R, B, N and `own`. */
#include "delta_back.h"

template <class X> static size_t ready_bytes()
{
	return 2 * shared_size(CHUNK * LC, 4) + shared_size(1024, 4) + shared_size(GATES, 4) +
	       (sizeof(X) == 4 ? 2 : 3) * shared_size(CHUNK * tile_ld<X>(), sizeof(X));
}

/* A block's shared memory. */
template <class X> struct shared_arrays {
	float *inv, *P; /* inv: A, then T; P: P, then P T as operands */
	float *scratch; /* for invert_lower */
	X *x, *y;       /* operands, (64, 64) at most */
	X *PT, *T;
	gates t;
};

/* Computes A and P, and writes B to memory; if rows decay, also D * K K' and D * Q K', which `back` needs. */
template <class X>
static __device__ __forceinline__ void compute_pairs(const job<X> &a, const rows<X> &c,
                                                     const shared_arrays<X> &s, const warp_part &w, X *B)
{
	constexpr int L = tile_ld<X>();
	warp_tile<X> kk, qk;

	kk.zero();
	qk.zero();
	fetched k = fetch_keys(a, c, 0, c.k), q = fetch_keys(a, c, 0, c.q);
	for (int k0 = 0; k0 < a.KP; k0 += W) {
		const int kw = min((int)W, a.KP - k0);

		store_scaled(s.x, L, c.mp, kw, k, NULL);
		store_scaled(s.y, L, c.mp, kw, q, NULL);
		store_scaled(B + k0, a.KP, c.mp, kw, k, s.t.minus);
		__syncthreads();
		k = fetch_keys(a, c, k0 + W, c.k);
		q = fetch_keys(a, c, k0 + W, c.q);
		if (w.i0 < c.mp && w.j0 < w.i0 + 16) {
			kk.template add<false, true>(kw, s.x + w.i0 * L, L, s.x + w.j0 * L, L);
			qk.template add<false, true>(kw, s.y + w.i0 * L, L, s.x + w.j0 * L, L);
		}
		__syncthreads();
	}
	if (w.i0 < c.mp && w.j0 < c.mp) {
		kk.each([&](int i, int j, float z) {
			i += w.i0, j += w.j0;
			z = j < i ? (a.g ? decay_between(s.t, i, j) : 1.f) * z : 0.f;
			if (a.g)
				a.kk[c.i * CHUNK * CHUNK + i * CHUNK + j] = z;
			s.inv[i * LC + j] = s.t.beta[i] * z;
		});
		qk.each([&](int i, int j, float z) {
			i += w.i0, j += w.j0;
			z = j <= i ? (a.g ? decay_between(s.t, i, j) : 1.f) * z : 0.f;
			if (a.g)
				a.qk[c.i * CHUNK * CHUNK + i * CHUNK + j] = z;
			s.P[i * LC + j] = z;
		});
	}
}

/* Turns A into T, and P into P T, both stored as operands. */
template <class X>
static __device__ __forceinline__ void invert(const rows<X> &c, const shared_arrays<X> &s, const warp_part &w)
{
	constexpr int L = tile_ld<X>();
	const int i0 = w.i0, j0 = w.j0;
	warp_tile<float> sum;

	invert_lower(s.inv, LC, c.mp, s.scratch);
	sum.zero();
	if (i0 < c.mp && j0 < i0 + 16)
		sum.template add<false, false>(i0 + 16 - j0, s.P + i0 * LC + j0, LC, s.inv + j0 * LC + j0,
		                               LC);
	__syncthreads();
	if (i0 < c.mp && j0 < c.mp)
		sum.each([&](int i, int j, float z) { round_to(s.PT + (i0 + i) * L + j0 + j, z); });
	if (sizeof(X) != 4)
		tile_each(c.mp, c.mp, [&](int i, int j) { round_to(s.T + i * L + j, s.inv[i * LC + j]); });
}

/* Writes R = T' diag(f) K to memory. */
template <class X>
static __device__ __forceinline__ void store_R(const job<X> &a, const rows<X> &c, const shared_arrays<X> &s,
                                               const warp_part &w, X *R)
{
	constexpr int L = tile_ld<X>();

	fetched k = fetch_keys(a, c, 0, c.k);
	for (int k0 = 0; k0 < a.KP; k0 += W) {
		const int kw = min((int)W, a.KP - k0);

		store_scaled(s.x, L, c.mp, kw, k, s.t.f);
		__syncthreads();
		k = fetch_keys(a, c, k0 + W, c.k);
		if (w.i0 < c.mp && w.j0 < kw) {
			warp_tile<X> sum;

			sum.zero();
			sum.template add<true, false>(c.mp - w.i0, s.T + w.i0 * L + w.i0, L,
			                              s.x + w.i0 * L + w.j0, L);
			sum.pairs([&](int i, int j, float y, float z) {
				round_two(R + (size_t)(w.i0 + i) * a.KP + k0 + w.j0 + j, y, z);
			});
		}
		__syncthreads();
	}
}

/* Computes own += T' diag(f) K dS for vw columns from v0 on, where dS is the gradient of the state of capture
 * e. */
template <class X>
static __device__ __forceinline__ void add_capture(const job<X> &a, const rows<X> &c,
                                                   const shared_arrays<X> &s, const warp_part &w, int v0,
                                                   int vw, int e, warp_tile<X> &own)
{
	constexpr int L = tile_ld<X>();
	const bool computes = w.i0 < c.mp && w.j0 < vw;
	const float *dS = a.dS + slot_at(a, a.cap_slot[e], c.h) + v0;
	warp_tile<X> sum;

	sum.zero();
	set_decays_to(s.t, a.g, a.cap_row[e] - c.j0 + 1);
	__syncthreads();
	for (int k0 = 0; k0 < a.KP; k0 += W) {
		const int kw = min((int)W, a.KP - k0);

		load_scaled(a, s.x, L, kw, vw, dS + (size_t)k0 * a.V, a.V, a.K - k0, a.V - v0, NULL);
		load_scaled(a, s.y, L, c.mp, kw, c.k + k0, c.sk, c.m, a.K - k0, s.t.f);
		__syncthreads();
		if (computes)
			sum.template add<false, false>(kw, s.y + w.i0 * L, L, s.x + w.j0, L);
		__syncthreads();
	}
	if (computes)
		sum.each([&](int i, int j, float z) { round_to(s.y + (w.i0 + i) * L + w.j0 + j, z); });
	__syncthreads();
	if (computes)
		own.template add<true, false>(c.mp - w.i0, s.T + w.i0 * L + w.i0, L, s.y + w.i0 * L + w.j0,
		                              L);
	__syncthreads();
}

/* Writes vw rows of N from v0 on, which are columns of V, to memory: N = Q' diag(e) dO plus the captures'
 * contributions.  Leaves dO at x. */
template <class X>
static __device__ __forceinline__ void store_N(const job<X> &a, const rows<X> &c, const shared_arrays<X> &s,
                                               const warp_part &w, int v0, int vw, X *N)
{
	constexpr int L = tile_ld<X>();

	const fetched d_o = fetch_V(a, c, v0, c.d_o);
	fetched q = fetch_keys(a, c, 0, c.q);
	store_scaled(s.x, L, c.mp, vw, d_o, NULL);
	for (int k0 = 0; k0 < a.KP; k0 += W) {
		const int kw = min((int)W, a.KP - k0);

		store_scaled(s.y, L, c.mp, kw, q, s.t.e);
		__syncthreads();
		q = fetch_keys(a, c, k0 + W, c.q);
		if (w.i0 < vw && w.j0 < kw) {
			warp_tile<X> sum;

			sum.zero();
			sum.template add<true, false>(c.mp, s.x + w.i0, L, s.y + w.j0, L);
			for (int e = c.cap0; e < c.cap1; e++) {
				const float *dS = a.dS + slot_at(a, a.cap_slot[e], c.h),
					    decay = s.t.e[a.cap_row[e] - c.j0];

				sum.each([&](int i, int j, float &z) {
					const int v = v0 + w.i0 + i, k = k0 + w.j0 + j;

					z += v < a.V && k < a.K ? decay * dS[(size_t)k * a.V + v] : 0.f;
				});
			}
			sum.pairs([&](int i, int j, float y, float z) {
				round_two(N + (size_t)(v0 + w.i0 + i) * a.KP + k0 + w.j0 + j, y, z);
			});
		}
		__syncthreads();
	}
}

template <class X> static __global__ void __launch_bounds__(THREADS, 2) ready(const job<X> a)
{
	SHARED(shared);
	constexpr int L = tile_ld<X>();
	shared_arrays<X> s;
	s.inv = shared.template take<float>(CHUNK * LC);
	s.P = shared.template take<float>(CHUNK * LC);
	s.scratch = shared.template take<float>(1024);
	s.x = shared.template take<X>(CHUNK * L);
	s.y = shared.template take<X>(CHUNK * L);
	s.PT = (X *)(void *)s.P;
	s.T = sizeof(X) == 4 ? (X *)(void *)s.inv : shared.template take<X>(CHUNK * L);
	s.t = place_gates(shared.template take<float>(GATES));
	const warp_part w = part_of_warp();
	const int bh = blockIdx.x / a.count, b = bh / a.H, h = bh % a.H;
	const rows<X> c = rows_of(a, blockIdx.x % a.count, b, h, key_head(h, a.G, a.H));

	X *B = a.B + c.i * a.rows * a.KP, *R = a.R + c.i * a.rows * a.KP, *N = a.N + c.i * a.VP * a.KP;

	load_gates(a, s.t, c);
	compute_pairs(a, c, s, w, B);
	if (threadIdx.x == 0)
		a.ends[c.i] = s.t.e[c.m - 1];
	__syncthreads();
	invert(c, s, w);
	if (a.first + c.c + 1 < a.chunks) /* the state after the chunk is used */
		store_R(a, c, s, w, R);
	for (int v0 = 0; v0 < a.VP; v0 += W) {
		const int vw = min((int)W, a.VP - v0);
		warp_tile<X> own;

		own.zero();
		for (int e = c.cap0; e < c.cap1; e++)
			add_capture(a, c, s, w, v0, vw, e, own);
		store_N(a, c, s, w, v0, vw, N);
		if (w.i0 < c.mp && w.j0 < vw) {
			own.template add<true, false>(c.mp - w.i0, s.PT + w.i0 * L + w.i0, L,
			                              s.x + w.i0 * L + w.j0, L);
			own.each([&](int i, int j, float z) {
				if (w.i0 + i < c.m && v0 + w.j0 + j < a.V)
					c.dv[(w.i0 + i) * c.sv + v0 + w.j0 + j] = z;
			});
		}
		__syncthreads();
	}
}

template <class X> static void launch(struct rf_dev *d, const job<X> &a)
{
	LAUNCH(d, ready<X>, (unsigned)(a.nb * a.H * a.count), THREADS, ready_bytes<X>(), a);
}

void rf_cuda_delta_ready(struct rf_dev *d, const job<bf16> &a) { launch(d, a); }
void rf_cuda_delta_ready(struct rf_dev *d, const job<float> &a) { launch(d, a); }
