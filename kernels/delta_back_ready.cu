/* delta_back_ready.cu -- of the gradients of the gated delta rule what needs no gradient of a state
 * (delta_back.cu has the plan): T of each chunk, and R, B, N and `own`. */
#include "delta_back.h"

template <class X> static size_t ready_bytes()
{
	return 2 * shared_size(CHUNK * LC, 4) + shared_size(1024, 4) +
	       (sizeof(X) == 4 ? 2 : 3) * shared_size(CHUNK * row_of<X>(), sizeof(X)) + shared_size(GATES, 4);
}

template <class X> static __global__ void __launch_bounds__(THREADS, 2) ready(const job<X> a)
{
	SHARED(s);
	constexpr int L = row_of<X>();
	float *inv = s.template take<float>(CHUNK * LC), *P = s.template take<float>(CHUNK * LC),
	      *room = s.template take<float>(1024);
	X *x = s.template take<X>(CHUNK * L), *y = s.template take<X>(CHUNK * L), *PT = (X *)(void *)P;
	X *T = sizeof(X) == 4 ? (X *)(void *)inv : s.template take<X>(CHUNK * L);
	const gates t = carve(s.template take<float>(GATES));
	/* the warp's part of a tile */
	const int bh = blockIdx.x / a.count, i0 = threadIdx.x / 64 * 16, j0 = threadIdx.x / 32 % 2 * 32;
	const struct cell c = cell_of(a, blockIdx.x % a.count, bh / a.H, bh % a.H);
	const size_t sk = row_apart(a.K, a.G, a.nb), sv = row_apart(a.V, a.H, a.nb);
	const float *q = a.q + place(a.K, a.G, c.kh, a.nb, c.b, c.j0),
		    *k = a.k + place(a.K, a.G, c.kh, a.nb, c.b, c.j0);
	const float *d_o = a.d_o + place(a.V, a.H, c.h, a.nb, c.b, c.j0);
	float *dv = a.dv + place(a.V, a.H, c.h, a.nb, c.b, c.j0);
	const bool more = a.first + c.c + 1 < a.chunks; /* there is a state behind it that is used */
	const int cap0 = capture_from(a.cap_row, a.captures, c.j0),
		  cap1 = capture_from(a.cap_row, a.captures, c.j0 + c.m);
	X *N = a.N + c.i * a.VP * a.KP, *B = a.B + c.i * a.rows * a.KP,
	  *R = more ? a.R + c.i * a.rows * a.KP : NULL;

	load_gates(a, t, c);
	{
		warp_tile<X> kk, qk;

		kk.zero();
		qk.zero();
		for (int k0 = 0; k0 < a.KP; k0 += W) {
			const int kw = min((int)W, a.KP - k0);

			load(x, L, c.mp, kw, k + k0, sk, c.m, a.K - k0, NULL);
			load(y, L, c.mp, kw, q + k0, sk, c.m, a.K - k0, NULL);
			load(B + k0, a.KP, c.mp, kw, k + k0, sk, c.m, a.K - k0, t.minus);
			__syncthreads();
			if (i0 < c.mp && j0 < i0 + 16) {
				kk.template add<false, true>(kw, x + i0 * L, L, x + j0 * L, L);
				qk.template add<false, true>(kw, y + i0 * L, L, x + j0 * L, L);
			}
			__syncthreads();
		}
		if (i0 < c.mp && j0 < c.mp) {
			kk.each([&](int i, int j, float z) {
				i += i0, j += j0;
				z = j < i ? (a.g ? between(t, i, j) : 1.f) * z : 0.f;
				if (a.g)
					a.kk[c.i * CHUNK * CHUNK + i * CHUNK + j] = z;
				inv[i * LC + j] = t.beta[i] * z;
			});
			qk.each([&](int i, int j, float z) {
				i += i0, j += j0;
				z = j <= i ? (a.g ? between(t, i, j) : 1.f) * z : 0.f;
				if (a.g)
					a.qk[c.i * CHUNK * CHUNK + i * CHUNK + j] = z;
				P[i * LC + j] = z;
			});
		}
	}
	if (threadIdx.x == 0)
		a.ends[c.i] = t.e[c.m - 1];
	__syncthreads();
	invert_lower(inv, LC, c.mp, room);
	{
		warp_tile<float> sum;

		sum.zero();
		if (i0 < c.mp && j0 < i0 + 16)
			sum.template add<false, false>(i0 + 16 - j0, P + i0 * LC + j0, LC,
			                               inv + j0 * LC + j0, LC);
		__syncthreads();
		if (i0 < c.mp && j0 < c.mp)
			sum.each([&](int i, int j, float z) { round_to(PT + (i0 + i) * L + j0 + j, z); });
		if (sizeof(X) != 4)
			each(c.mp, c.mp, [&](int i, int j) { round_to(T + i * L + j, inv[i * LC + j]); });
	}
	for (int k0 = 0; more && k0 < a.KP; k0 += W) {
		const int kw = min((int)W, a.KP - k0);

		load(x, L, c.mp, kw, k + k0, sk, c.m, a.K - k0, t.f);
		__syncthreads();
		if (i0 < c.mp && j0 < kw) {
			warp_tile<X> sum;

			sum.zero();
			sum.template add<true, false>(c.mp - i0, T + i0 * L + i0, L, x + i0 * L + j0, L);
			sum.pairs([&](int i, int j, float y, float z) {
				round_two(R + (size_t)(i0 + i) * a.KP + k0 + j0 + j, y, z);
			});
		}
		__syncthreads();
	}
	for (int v0 = 0; v0 < a.VP; v0 += W) {
		const int vw = min((int)W, a.VP - v0);
		const bool works = i0 < c.mp && j0 < vw;
		warp_tile<X> own;

		own.zero();
		for (int e = cap0; e < cap1; e++) {
			const float *dS = a.dS + slot_at(a, a.cap_slot[e], c.h) + v0;
			warp_tile<X> sum;

			sum.zero();
			left_over(t, a.g, a.cap_row[e] - c.j0 + 1);
			__syncthreads();
			for (int k0 = 0; k0 < a.KP; k0 += W) {
				const int kw = min((int)W, a.KP - k0);

				load(x, L, kw, vw, dS + (size_t)k0 * a.V, a.V, a.K - k0, a.V - v0, NULL);
				load(y, L, c.mp, kw, k + k0, sk, c.m, a.K - k0, t.f);
				__syncthreads();
				if (works)
					sum.template add<false, false>(kw, y + i0 * L, L, x + j0, L);
				__syncthreads();
			}
			if (works)
				sum.each([&](int i, int j, float z) {
					round_to(y + (i0 + i) * L + j0 + j, z);
				});
			__syncthreads();
			if (works)
				own.template add<true, false>(c.mp - i0, T + i0 * L + i0, L,
				                              y + i0 * L + j0, L);
			__syncthreads();
		}
		load(x, L, c.mp, vw, d_o + v0, sv, c.m, a.V - v0, NULL);
		for (int k0 = 0; k0 < a.KP; k0 += W) {
			const int kw = min((int)W, a.KP - k0);

			load(y, L, c.mp, kw, q + k0, sk, c.m, a.K - k0, t.e);
			__syncthreads();
			if (i0 < vw && j0 < kw) {
				warp_tile<X> sum;

				sum.zero();
				sum.template add<true, false>(c.mp, x + i0, L, y + j0, L);
				for (int e = cap0; e < cap1; e++) {
					const float *dS = a.dS + slot_at(a, a.cap_slot[e], c.h),
						    by = t.e[a.cap_row[e] - c.j0];

					sum.each([&](int i, int j, float &z) {
						const int v = v0 + i0 + i, k = k0 + j0 + j;

						z += v < a.V && k < a.K ? by * dS[(size_t)k * a.V + v] : 0.f;
					});
				}
				sum.pairs([&](int i, int j, float y, float z) {
					round_two(N + (size_t)(v0 + i0 + i) * a.KP + k0 + j0 + j, y, z);
				});
			}
			__syncthreads();
		}
		if (works) {
			own.template add<true, false>(c.mp - i0, PT + i0 * L + i0, L, x + i0 * L + j0, L);
			own.each([&](int i, int j, float z) {
				if (i0 + i < c.m && v0 + j0 + j < a.V)
					dv[(i0 + i) * sv + v0 + j0 + j] = z;
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
