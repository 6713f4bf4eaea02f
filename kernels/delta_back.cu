/* delta_back.cu -- the gradients of the gated delta rule, in chunks of C = 64 rows; delta.c has the mathematics.
 *
 * With T = (I + A)^-1 all that a chunk gives its own dR and the gradient of its first state is known before the states' gradients
 * are, but for two products with the gradient dS of its last state:
 *
 *     dR = T' (P' dO) + (T' diag(f) K) dS                                   "own part" + R dS
 *     dS <- e_m dS + Q' diag(e) dO - K' diag(e beta) dR                     e_m dS + N + B' dR
 *
 * A capture after n rows of the chunk adds to both own parts, and to nothing else of these.  So there are three kernels:
 *
 *     ready   all chunks at once: T; the own part of dR (into dv), R, B, N, diag(f) K
 *     scan    from chunk to chunk, forward the states S += (diag(f) K)' U, at the same time backward dS: two products a chunk
 *     back    all chunks at once: dq, dk, dv, db, dg from S, dS, dR
 *
 * Rollouts are chunks of few rows: rows are counted in sixteens.  A block of the scan takes the sequences of a group one after
 * the other, so that what they add to their slot has an order; heads that share q and k follow each other in a block of back.
 *
 * All tiles in shared memory are at most 64 x 64 (float32: 64 x 32), whatever K and V are, but in the scan, whose dS is K by a
 * slice of V.  The reckoning, at K = V = 128 in bf16, for one head's chunk (T = 16384 and 16 heads: 4096 of them):
 *
 *     ready   reads q, k, dO: 96 KiB, writes dR, R, B, N, fK: 112 KiB; 11 Mflop            0.28 ms by memory, 0.06 by products
 *     scan    48 KiB a step and slice, two products of 1 Mflop that wait for one another:  256 steps of about 1 us, 128 blocks
 *     back    reads q, k, u, dO, dR, S, dS: 224 KiB, writes dq, dk, dv: 96 KiB; 12 Mflop   0.44 ms by memory, 0.06 by products
 *
 * Each of the parallel kernels has two blocks on a multiprocessor, one of which loads while the other multiplies.  The states
 * could be kept in float32 for twice the memory; in bf16 they are operands of products and nothing else.  In float32 the two
 * parallel kernels take 23 Mflop a chunk of a head, 1.6 ms of multiply-adds at best. */
#include "tile.h"

enum {
	C = 64,
	THREADS = 256,
	WARPS = THREADS / 32,
	OWN = C / WARPS, /* rows of a tile that a warp loads */
	LC = C + 4       /* floats from row to row of a square of C by C */
};

/* W: the widest slice of K or V that is worked on at once, L: numbers from row to row of such an operand, LQ: of one of C by C,
 * LF: of a float32 result; VS: the scan's slice of V, LS and LO: the same for it; PAD: what an operand's rows have more. */
template <class T> struct side;
template <> struct side<bf16> { enum { W = 64, PAD = 8, L = W + PAD, LQ = C + PAD, LF = W + 4, VS = 32, LS = VS + 4, LO = VS + PAD }; };
template <> struct side<float> { enum { W = 32, PAD = 4, L = W + PAD, LQ = LC, LF = W + 4, VS = 16, LS = VS + 4, LO = VS + PAD }; };

static const size_t SCRATCH = (size_t)2 << 30; /* bytes at most, if that is enough for one head of q and k */

template <class T> struct job {
	int nb, steps, per, chunks, rows, H, G, K, V, KP, VP, captures; /* rows: of a chunk, at most, in sixteens */
	int h0, heads;                                                /* of v, in this launch */
	float beta_scale;
	const float *q, *k, *b, *g, *u, *d_o, *S;
	float *dq, *dk, *dv, *db, *dg, *dS;
	const int32_t *start, *cap_row, *cap_slot;
	/* scratch: of every chunk B, N (then the gradient of its first state), e_m and with a decay D * K K', D * Q K';
	 * of every chunk but the last of a sequence R, diag(f) K, and the state behind it */
	T *B, *N, *R, *fk, *behind;
	float *left, *kk, *qk;
	unsigned states; /* blocks of the scan that sum up states */
};

static __device__ __forceinline__ float number(float x) { return x; }
static __device__ __forceinline__ float number(bf16 x) { return __bfloat162float(x); }

/* The place among scratch of chunk i of sequence b; and of what lies between it and the next. */
template <class T> static __device__ __forceinline__ size_t at(const job<T> &a, int b, int i, int h)
{
	return ((size_t)b * a.chunks + i) * a.heads + (h - a.h0);
}

template <class T> static __device__ __forceinline__ size_t between(const job<T> &a, int b, int i, int h)
{
	return ((size_t)b * (a.chunks - 1) + i) * a.heads + (h - a.h0);
}

/* The first number of row j of sequence b in an array (rows, H, w). */
template <class T> static __device__ __forceinline__ size_t place(const job<T> &a, int b, int j, int H, int h, int w)
{
	return (((size_t)j * a.nb + b) * H + h) * w;
}

template <class T> static __device__ __forceinline__ size_t slot(const job<T> &a, int s, int h)
{
	return ((size_t)s * a.H + h) * a.K * a.V;
}

template <class T> static __device__ __forceinline__ int start_of(const job<T> &a, int b)
{
	return a.start ? a.start[b / a.per] : 0;
}

/* The first capture at row `from` or later. */
static __device__ int capture_from(const int32_t *row, int n, int from)
{
	int low = 0;

	while (low < n) {
		const int mid = (low + n) / 2;

		if (row[mid] < from)
			low = mid + 1;
		else
			n = mid;
	}
	return low;
}

static __device__ __forceinline__ int padded(int n) { return (n + 15) / 16 * 16; }

/* ---- tiles ------------------------------------------------------------------------------------------------------ */

/* to (rows, cols) = value(row, col), of which a thread has all in hand before it stores the first. */
template <class T, class F> static __device__ __forceinline__ void fill(T *to, int rows, int cols, F value)
{
	constexpr int W = side<T>::W, L = side<T>::L;
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	float x[OWN][W / 32];

#pragma unroll
	for (int r = 0; r < OWN; r++)
#pragma unroll
		for (int c = 0; c < W / 32; c++)
			x[r][c] = warp + WARPS * r < rows && lane + 32 * c < cols ? value(warp + WARPS * r, lane + 32 * c) : 0.f;
#pragma unroll
	for (int r = 0; r < OWN; r++)
#pragma unroll
		for (int c = 0; c < W / 32; c++)
			if (warp + WARPS * r < rows && lane + 32 * c < cols)
				round_to(to + (warp + WARPS * r) * L + lane + 32 * c, x[r][c]);
}

/* do(row, col) for all of a tile, the same ones by the same thread every time. */
template <class F> static __device__ __forceinline__ void each(int rows, int cols, F f)
{
	for (int i = threadIdx.x / 32; i < rows; i += WARPS)
		for (int j = threadIdx.x % 32; j < cols; j += 32)
			f(i, j);
}

/* 16 bytes that are on their way until all_here(). */
static __device__ __forceinline__ void copy16(void *to, const void *from)
{
#ifdef __CUDACC__
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory");
#else
	*(uint4 *)to = *(const uint4 *)from;
#endif
}

static __device__ __forceinline__ void all_here()
{
#ifdef __CUDACC__
	asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

/* A tile out of scratch, where rows are of sixteens: lt, lf numbers from row to row. */
template <class T> static __device__ __forceinline__ void copy(T *to, int lt, const T *from, int lf, int rows, int cols)
{
	constexpr int N = 16 / (int)sizeof(T);
	const int n = cols / N;

	for (int t = threadIdx.x; t < rows * n; t += THREADS)
		copy16(to + t / n * lt + t % n * N, from + (size_t)(t / n) * lf + t % n * N);
}

/* A square (n, n) of C by C as an operand, for which there may be room of its own. */
static __device__ __forceinline__ const float *operand(const float *x, float *, int) { return x; }
static __device__ __forceinline__ const bf16 *operand(const float *x, bf16 *to, int n)
{
	each(n, n, [&](int i, int j) { round_to(to + i * side<bf16>::LQ + j, x[i * LC + j]); });
	return to;
}

/* ---- the decay -------------------------------------------------------------------------------------------------- */

/* Of a chunk's rows: c = hi + lo, the sum of g, which keeps differences of large sums exact; e = exp(c); beta and what of it is
 * its slope, 1 - sigmoid(b); f: what is left of a row at a later one. */
struct gates { float *hi, *lo, *e, *beta, *slope, *f; };
enum { GATES = 6 * C };

static __device__ __forceinline__ gates carve(float *p) { return { p, p + C, p + 2 * C, p + 3 * C, p + 4 * C, p + 5 * C }; }
static __device__ __forceinline__ float fade(float x) { return x < -70.f ? 0.f : expf(x); }

static __device__ __forceinline__ float since(const gates &s, int later, int row)
{
	return fade((s.hi[later] - s.hi[row]) + (s.lo[later] - s.lo[row]));
}

template <class T> static __device__ void load_gates(const job<T> &a, const gates &s, int b, int h, int j0, int m)
{
	const int lane = threadIdx.x % 32;

	if (threadIdx.x < 32) {
		double x[2] = { 0, 0 }, sum, before;

		for (int i = 0; a.g && i < 2; i++)
			if (2 * lane + i < m)
				x[i] = (double)a.g[place(a, b, j0 + 2 * lane + i, a.H, h, 1)];
		sum = x[0] + x[1];
		for (int o = 1; o < 32; o *= 2) {
			const double y = __shfl_up_sync(~0u, sum, o);

			sum += lane >= o ? y : 0.;
		}
		before = __shfl_up_sync(~0u, sum, 1);
		x[0] += lane ? before : 0.;
		x[1] = sum;
		for (int i = 0; i < 2; i++) {
			const float hi = (float)x[i], lo = (float)(x[i] - (double)hi);

			s.hi[2 * lane + i] = hi;
			s.lo[2 * lane + i] = lo;
			s.e[2 * lane + i] = a.g ? fade(hi + lo) : 1.f;
		}
	} else if (threadIdx.x < 32 + C) {
		const int i = threadIdx.x - 32;
		const float z = a.b && i < m ? 1.f / (1.f + expf(-a.b[place(a, b, j0 + i, a.H, h, 1)])) : 1.f;

		s.beta[i] = i < m ? a.beta_scale * z : 0.f;
		s.slope[i] = 1.f - z;
	}
}

/* f of all rows for a state after n of them. */
template <class T> static __device__ __forceinline__ void left_over(const job<T> &a, const gates &s, int n)
{
	const int i = threadIdx.x;

	if (i < C)
		s.f[i] = i >= n ? 0.f : a.g ? since(s, n - 1, i) : 1.f;
}

/* ---- all chunks: what does not wait for the states' gradients ------------------------------------------------------- */

/* inv (n, n) = (I - x)^-1 for x strictly lower: the squares of 16 at the diagonal, one column a thread; then the rows of squares,
 * one after the other.  inv is zero before.  room: 16 rows of LC. */
static __device__ void invert(const float *x, float *inv, int n, float *room)
{
	const int first = threadIdx.x / 16 * 16, column = threadIdx.x % 16;

	if (first < n) {
		float y[16];

#pragma unroll
		for (int i = 0; i < 16; i++) {
			y[i] = i == column ? 1.f : 0.f;
#pragma unroll
			for (int l = 0; l < i; l++)
				y[i] += x[(first + i) * LC + first + l] * y[l];
			inv[(first + i) * LC + first + column] = y[i];
		}
	}
	for (int r = 16; r < n; r += 16) {
		__syncthreads();
		tile_product<false, false>(16, r, r, x + r * LC, LC, inv, LC, room, LC, false);
		__syncthreads();
		tile_product<false, false>(16, r, 16, inv + r * LC + r, LC, room, LC, inv + r * LC, LC, false);
	}
}

template <class T> static size_t ready_shared()
{
	const size_t square = sizeof(T) == 4 ? 0 : 2 * shared_size(C * side<T>::LQ, sizeof(T));

	return 3 * shared_size(C * LC, 4) + shared_size(16 * LC, 4) + 2 * shared_size(C * side<T>::L, sizeof(T)) + square + shared_size(GATES, 4);
}

template <class T> static __global__ void __launch_bounds__(THREADS, 2) ready(const job<T> a)
{
	constexpr int W = side<T>::W, L = side<T>::L, LQ = side<T>::LQ;
	SHARED(s);
	float *out = s.template take<float>(C * LC), *inv = s.template take<float>(C * LC), *P = s.template take<float>(C * LC);
	float *room = s.template take<float>(16 * LC);
	T *x = s.template take<T>(C * L), *y = s.template take<T>(C * L);
	T *room_inv = sizeof(T) == 4 ? NULL : s.template take<T>(C * LQ), *room_P = sizeof(T) == 4 ? NULL : s.template take<T>(C * LQ);
	const gates t = carve(s.template take<float>(GATES));
	const int b = blockIdx.x / a.chunks, i = blockIdx.x % a.chunks, h = a.h0 + blockIdx.y, kh = h * a.G / a.H;
	const int j0 = i * C, m = min(C, a.steps - j0), mp = padded(m);
	const size_t sk = (size_t)a.nb * a.G * a.K, sv = (size_t)a.nb * a.H * a.V;
	const float *q = a.q + place(a, b, j0, a.G, kh, a.K), *k = a.k + place(a, b, j0, a.G, kh, a.K);
	const float *d_o = a.d_o + place(a, b, j0, a.H, h, a.V);
	float *dv = a.dv + place(a, b, j0, a.H, h, a.V);
	const bool last = i + 1 == a.chunks;
	const int cap0 = capture_from(a.cap_row, a.captures, j0), cap1 = capture_from(a.cap_row, a.captures, j0 + m);
	T *N = a.N + at(a, b, i, h) * a.KP * a.VP, *B = a.B + at(a, b, i, h) * a.rows * a.KP;
	T *R = NULL, *fk = NULL;

	if (!last) {
		R = a.R + between(a, b, i, h) * a.rows * a.KP;
		fk = a.fk + between(a, b, i, h) * a.rows * a.KP;
	}
	load_gates(a, t, b, h, j0, m);
	for (int k0 = 0; k0 < a.KP; k0 += W) {
		const int kw = min(W, a.KP - k0);

		fill(x, mp, kw, [&](int r, int c) { return r < m && k0 + c < a.K ? k[r * sk + k0 + c] : 0.f; });
		fill(y, mp, kw, [&](int r, int c) { return r < m && k0 + c < a.K ? q[r * sk + k0 + c] : 0.f; });
		__syncthreads();
		tile_product<false, true>(mp, mp, kw, x, L, x, L, out, LC, k0 > 0);
		tile_product<false, true>(mp, mp, kw, y, L, x, L, P, LC, k0 > 0);
		__syncthreads();
	}
	each(mp, mp, [&](int r, int c) {
		const float D = c > r ? 0.f : a.g ? since(t, r, c) : 1.f;
		const float kk = c < r ? D * out[r * LC + c] : 0.f, qk = c <= r ? D * P[r * LC + c] : 0.f;

		if (a.g) {
			a.kk[(at(a, b, i, h) * a.rows + r) * a.rows + c] = kk;
			a.qk[(at(a, b, i, h) * a.rows + r) * a.rows + c] = qk;
		}
		out[r * LC + c] = -t.beta[r] * kk;
		P[r * LC + c] = qk;
		inv[r * LC + c] = 0;
	});
	left_over(a, t, m);
	if (threadIdx.x == 0)
		a.left[at(a, b, i, h)] = t.e[m - 1];
	__syncthreads();
	invert(out, inv, mp, room);
	__syncthreads();
	const T *To = operand(inv, room_inv, mp), *Po = operand(P, room_P, mp);

	for (int k0 = 0; k0 < a.KP; k0 += W) {
		const int kw = min(W, a.KP - k0);

		fill(x, mp, kw, [&](int r, int c) {
			const float y = r < m && k0 + c < a.K ? k[r * sk + k0 + c] : 0.f, fy = t.f[r] * y;

			round_to(B + (size_t)r * a.KP + k0 + c, -t.e[r] * t.beta[r] * y);
			if (!last)
				round_to(fk + (size_t)r * a.KP + k0 + c, fy);
			return fy;
		});
		__syncthreads();
		if (last)
			continue;
		tile_product<true, false>(mp, kw, mp, To, LQ, x, L, out, LC, false);
		__syncthreads();
		each(mp, kw, [&](int r, int c) { round_to(R + (size_t)r * a.KP + k0 + c, out[r * LC + c]); });
		__syncthreads();
	}
	for (int v0 = 0; v0 < a.VP; v0 += W) {
		const int vw = min(W, a.VP - v0);

		fill(x, mp, vw, [&](int r, int c) { return r < m && v0 + c < a.V ? d_o[r * sv + v0 + c] : 0.f; });
		for (int k0 = 0; k0 < a.KP; k0 += W) {
			const int kw = min(W, a.KP - k0);

			fill(y, mp, kw, [&](int r, int c) { return r < m && k0 + c < a.K ? t.e[r] * q[r * sk + k0 + c] : 0.f; });
			__syncthreads();
			tile_product<true, false>(kw, vw, mp, y, L, x, L, out, LC, false);
			__syncthreads();
			each(kw, vw, [&](int r, int c) {
				float sum = out[r * LC + c];

				for (int e = cap0; e < cap1 && k0 + r < a.K && v0 + c < a.V; e++)
					sum += t.e[a.cap_row[e] - j0] * a.dS[slot(a, a.cap_slot[e], h) + (size_t)(k0 + r) * a.V + v0 + c];
				round_to(N + (size_t)(k0 + r) * a.VP + v0 + c, sum);
			});
			__syncthreads();
		}
		tile_product<true, false>(mp, vw, mp, Po, LQ, x, L, out, LC, false);
		__syncthreads();
		for (int e = cap0; e < cap1; e++) {
			const float *dS = a.dS + slot(a, a.cap_slot[e], h);

			left_over(a, t, a.cap_row[e] - j0 + 1);
			__syncthreads();
			for (int k0 = 0; k0 < a.KP; k0 += W) {
				const int kw = min(W, a.KP - k0);

				fill(x, kw, vw, [&](int r, int c) {
					return k0 + r < a.K && v0 + c < a.V ? dS[(size_t)(k0 + r) * a.V + v0 + c] : 0.f;
				});
				fill(y, mp, kw, [&](int r, int c) { return r < m && k0 + c < a.K ? t.f[r] * k[r * sk + k0 + c] : 0.f; });
				__syncthreads();
				tile_product<false, false>(mp, vw, kw, y, L, x, L, out, LC, true);
				__syncthreads();
			}
		}
		fill(y, mp, vw, [&](int r, int c) { return out[r * LC + c]; });
		__syncthreads();
		tile_product<true, false>(mp, vw, mp, To, LQ, y, L, out, LC, false);
		__syncthreads();
		each(m, min(vw, a.V - v0), [&](int r, int c) { dv[r * sv + v0 + c] = out[r * LC + c]; });
		__syncthreads();
	}
}

/* ---- from chunk to chunk ---------------------------------------------------------------------------------------- */

template <class T> static size_t scan_shared(int rows, int KP)
{
	const size_t n = sizeof(T), LS = side<T>::LS, LO = side<T>::LO;
	const size_t back = shared_size(KP * LS, 4) + shared_size(C * LS, 4) + (n == 4 ? 0 : shared_size(KP * LO, n) + shared_size(C * LO, n)) +
	                    shared_size(KP * LO, n) + 2 * shared_size((size_t)rows * (KP + side<T>::PAD), n);
	const size_t states = shared_size(side<T>::W * side<T>::LF, 4) + 2 * shared_size(C * side<T>::L, n);

	return back > states ? back : states;
}

/* A slice of K by one of V of the states behind the chunks of a sequence. */
template <class T> static __device__ void sum_states(const job<T> &a, unsigned block)
{
	constexpr int W = side<T>::W, L = side<T>::L, LF = side<T>::LF;
	SHARED(s);
	float *S = s.template take<float>(W * LF);
	T *x = s.template take<T>(C * L), *y = s.template take<T>(C * L);
	const unsigned ns = (a.VP + W - 1) / W, ks = (a.KP + W - 1) / W;
	const int v0 = (int)(block % ns) * W, k0 = (int)(block / ns % ks) * W, vw = min(W, a.VP - v0), kw = min(W, a.KP - k0);
	const int h = a.h0 + (int)(block / ns / ks % a.heads), b = (int)(block / ns / ks / a.heads);
	const size_t sv = (size_t)a.nb * a.H * a.V;
	const float *S0 = a.S + slot(a, start_of(a, b), h);

	each(kw, vw, [&](int r, int c) {
		S[r * LF + c] = k0 + r < a.K && v0 + c < a.V ? a.left[at(a, b, 0, h)] * S0[(size_t)(k0 + r) * a.V + v0 + c] : 0.f;
	});
	for (int i = 0; i + 1 < a.chunks; i++) {
		const float *u = a.u + place(a, b, i * C, a.H, h, a.V), e = i + 2 < a.chunks ? a.left[at(a, b, i + 1, h)] : 1.f;
		T *to = a.behind + between(a, b, i, h) * a.KP * a.VP;

		copy(x, L, a.fk + between(a, b, i, h) * a.rows * a.KP + k0, a.KP, C, kw);
		fill(y, C, vw, [&](int r, int c) { return v0 + c < a.V ? u[r * sv + v0 + c] : 0.f; });
		all_here();
		__syncthreads();
		tile_product<true, false>(kw, vw, C, x, L, y, L, S, LF, true);
		__syncthreads();
		each(kw, vw, [&](int r, int c) {
			round_to(to + (size_t)(k0 + r) * a.VP + v0 + c, S[r * LF + c]);
			S[r * LF + c] *= e;
		});
	}
}

/* A slice of V of the gradients of all chunks' first states, for the sequences of one group.  What a step reads is on its way
 * while the one before it multiplies. */
template <class T> static __device__ void scan_back(const job<T> &a, unsigned block)
{
	constexpr int VS = side<T>::VS, LS = side<T>::LS, LO = side<T>::LO;
	SHARED(s);
	const int LK = a.KP + side<T>::PAD, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	float *dS = s.template take<float>(a.KP * LS), *dR = s.template take<float>(C * LS);
	T *dSo = sizeof(T) == 4 ? (T *)(void *)dS : s.template take<T>(a.KP * LO), *dRo = sizeof(T) == 4 ? (T *)(void *)dR : s.template take<T>(C * LO);
	T *N = s.template take<T>(a.KP * LO), *R = s.template take<T>(a.rows * LK), *B = s.template take<T>(a.rows * LK);
	const unsigned ns = (a.VP + VS - 1) / VS;
	const int v0 = (int)(block % ns) * VS, vw = min(VS, a.VP - v0), h = a.h0 + (int)(block / ns % a.heads), group = (int)(block / ns / a.heads);
	const size_t sv = (size_t)a.nb * a.H * a.V, row = (size_t)a.rows * a.KP, state = (size_t)a.KP * a.VP;
	float *to = a.dS + slot(a, start_of(a, group * a.per), h);
	float next[OWN];

	for (int b = group * a.per; b < min((group + 1) * a.per, a.nb); b++) {
		float *dv = a.dv + place(a, b, 0, a.H, h, a.V) + v0 + lane;
		const bool mine = v0 + lane < a.V && lane < VS;
		int i = a.chunks - 1;

		each(a.KP, vw, [&](int r, int c) {
			dS[r * LS + c] = 0;
			round_to(dSo + r * LO + c, 0);
		});
#pragma unroll
		for (int r = 0; r < OWN; r++)
			next[r] = mine && i * C + warp + WARPS * r < a.steps ? dv[(i * C + warp + WARPS * r) * sv] : 0.f;
		copy(B, LK, a.B + at(a, b, i, h) * row, a.KP, padded(a.steps - i * C), a.KP);
		copy(N, LO, a.N + at(a, b, i, h) * state + v0, a.VP, a.KP, vw);
		for (; i >= 0; i--) {
			const int m = min(C, a.steps - i * C), mp = padded(m);
			const bool more = i + 1 < a.chunks; /* the chunk's last state has a gradient */
			const float e = a.left[at(a, b, i, h)];

#pragma unroll
			for (int r = 0; r < OWN; r++)
				if (lane < vw)
					dR[(warp + WARPS * r) * LS + lane] = next[r];
			all_here();
			__syncthreads();
			if (more) {
				tile_product<false, false>(mp, vw, a.KP, R, LK, dSo, LO, dR, LS, true);
				__syncthreads();
			}
			if (i)
				copy(R, LK, a.R + between(a, b, i - 1, h) * row, a.KP, C, a.KP);
			each(mp, vw, [&](int r, int c) {
				const float x = dR[r * LS + c];

				if (more && r < m && v0 + c < a.V)
					dv[(size_t)(i * C + r) * sv + c - lane] = x;
				if (sizeof(T) != 4)
					round_to(dRo + r * LO + c, x);
			});
			each(a.KP, vw, [&](int r, int c) { dS[r * LS + c] = e * dS[r * LS + c] + number(N[r * LO + c]); });
			__syncthreads();
			if (i) {
				copy(N, LO, a.N + at(a, b, i - 1, h) * state + v0, a.VP, a.KP, vw);
#pragma unroll
				for (int r = 0; r < OWN; r++)
					next[r] = mine ? dv[((size_t)(i - 1) * C + warp + WARPS * r) * sv] : 0.f;
			}
			tile_product<true, false>(a.KP, vw, mp, B, LK, dRo, LO, dS, LS, true);
			__syncthreads();
			if (i) {
				T *keep = a.N + at(a, b, i, h) * state + v0;

				copy(B, LK, a.B + at(a, b, i - 1, h) * row, a.KP, C, a.KP);
				each(a.KP, vw, [&](int r, int c) {
					round_to(keep + (size_t)r * a.VP + c, dS[r * LS + c]);
					if (sizeof(T) != 4)
						round_to(dSo + r * LO + c, dS[r * LS + c]);
				});
			} else {
				each(a.K, min(vw, a.V - v0), [&](int r, int c) { to[(size_t)r * a.V + v0 + c] += dS[r * LS + c]; });
			}
		}
	}
}

template <class T> static __global__ void __launch_bounds__(THREADS) scan(const job<T> a)
{
	if (blockIdx.x < a.states)
		sum_states(a, blockIdx.x);
	else
		scan_back(a, blockIdx.x - a.states);
}

/* ---- all chunks: the gradients ---------------------------------------------------------------------------------- */

template <class T> static size_t back_shared()
{
	return 2 * shared_size(C * LC, 4) + 2 * shared_size(C * side<T>::LF, 4) + 3 * shared_size(C * side<T>::L, sizeof(T)) + shared_size(GATES, 4) +
	       shared_size(C, 8) + shared_size(C, 4) + shared_size(33, 4);
}

template <class T> static __global__ void __launch_bounds__(THREADS, 2) back(const job<T> a)
{
	constexpr int W = side<T>::W, L = side<T>::L, LQ = side<T>::LQ, LF = side<T>::LF;
	SHARED(s);
	float *X = s.template take<float>(C * LC), *Z = s.template take<float>(C * LC);
	float *dq = s.template take<float>(C * LF), *dk = s.template take<float>(C * LF);
	T *x = s.template take<T>(C * L), *y = s.template take<T>(C * L), *z = s.template take<T>(C * L);
	const gates t = carve(s.template take<float>(GATES));
	double *dc = s.template take<double>(C); /* the gradient of c */
	float *was = s.template take<float>(C), *room = s.template take<float>(33);
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, share = a.H / a.G;
	const int b = blockIdx.x / a.chunks, i = blockIdx.x % a.chunks, kh = a.h0 / share + blockIdx.y;
	const int j0 = i * C, m = min(C, a.steps - j0), mp = padded(m);
	const size_t sk = (size_t)a.nb * a.G * a.K, sv = (size_t)a.nb * a.H * a.V, state = (size_t)a.KP * a.VP;
	const size_t key = place(a, b, j0, a.G, kh, a.K);
	const float *q = a.q + key, *k = a.k + key;
	const int cap0 = capture_from(a.cap_row, a.captures, j0), cap1 = capture_from(a.cap_row, a.captures, j0 + m);

	for (int h = kh * share; h < (kh + 1) * share; h++) {
		const size_t value = place(a, b, j0, a.H, h, a.V);
		const float *d_o = a.d_o + value, *u = a.u + value, *S0 = a.S + slot(a, start_of(a, b), h);
		const T *S = i ? a.behind + between(a, b, i - 1, h) * state : NULL;
		const float *qk = a.g ? a.qk + at(a, b, i, h) * a.rows * a.rows : NULL, *kk = a.g ? a.kk + at(a, b, i, h) * a.rows * a.rows : NULL;
		float *dv = a.dv + value, dot[OWN] = { 0 };
		const auto S_at = [&](int r, int c) { return S ? number(S[(size_t)r * a.VP + c]) : r < a.K && c < a.V ? S0[(size_t)r * a.V + c] : 0.f; };

		__syncthreads();
		load_gates(a, t, b, h, j0, m);
		if (threadIdx.x < C)
			dc[threadIdx.x] = 0;
		__syncthreads();

		/* X = dO U', Z = W U'; dR becomes dv */
		for (int v0 = 0; v0 < a.VP; v0 += W) {
			const int vw = min(W, a.VP - v0);

			fill(x, mp, vw, [&](int r, int c) { return r < m && v0 + c < a.V ? d_o[r * sv + v0 + c] : 0.f; });
			fill(y, mp, vw, [&](int r, int c) { return r < m && v0 + c < a.V ? u[r * sv + v0 + c] : 0.f; });
#pragma unroll
			for (int r = 0; r < OWN; r++)
#pragma unroll
				for (int c = 0; c < W / 32; c++) {
					const int row = warp + WARPS * r, col = lane + 32 * c;
					const bool is = row < m && v0 + col < a.V;
					const float dR = is ? dv[row * sv + v0 + col] : 0.f, w = t.beta[row] * dR;

					if (is) {
						dot[r] += dR * u[row * sv + v0 + col];
						dv[row * sv + v0 + col] = w;
					}
					if (row < mp && col < vw)
						round_to(z + row * L + col, w);
				}
			__syncthreads();
			tile_product<false, true>(mp, mp, vw, x, L, y, L, X, LC, v0 > 0);
			tile_product<false, true>(mp, mp, vw, z, L, y, L, Z, LC, v0 > 0);
			__syncthreads();
		}
		for (int r = 0; a.db && r < OWN; r++) {
			const float sum = warp_sum(dot[r]);

			if (lane == 0 && warp + WARPS * r < m) /* dbeta / db = beta (1 - sigmoid(b)) */
				a.db[place(a, b, j0 + warp + WARPS * r, a.H, h, 1)] = sum * t.slope[warp + WARPS * r];
		}

		/* X <- lower D * X;  Z <- -(D * Z + (D * Z)') of the strictly lower Z; and what D gives dc */
		float *part = (float *)(void *)x, col[2] = { 0, 0 };
		for (int r = warp; r < mp; r += WARPS) {
			float sum = 0;

#pragma unroll
			for (int n = 0; n < 2; n++) {
				const int c = lane + 32 * n, e = r * LC + c;
				const float D = c > r || c >= mp ? 0.f : a.g ? since(t, r, c) : 1.f;

				if (c >= mp)
					continue;
				if (a.g && c < r) {
					const float d = X[e] * qk[r * a.rows + c] - Z[e] * kk[r * a.rows + c];

					sum += d;
					col[n] += d;
				}
				X[e] = c <= r ? D * X[e] : 0.f;
				Z[e] = c < r ? -D * Z[e] : 0.f;
			}
			sum = warp_sum(sum);
			if (lane == 0)
				dc[r] += (double)sum;
		}
		for (int n = 0; n < 2; n++)
			part[warp * C + lane + 32 * n] = col[n];
		__syncthreads();
		if (threadIdx.x < C) {
			float sum = 0;

			for (int w = 0; w < WARPS; w++)
				sum += part[w * C + threadIdx.x];
			dc[threadIdx.x] -= (double)sum;
		}
		each(mp, mp, [&](int r, int c) {
			if (c > r)
				Z[r * LC + c] = Z[c * LC + r];
		});
		__syncthreads();

		for (int k0 = 0; k0 < a.KP; k0 += W) {
			const int kw = min(W, a.KP - k0);
			bool add = false;
			/* a row of a tile times that of an array */
			const auto along = [&](const float *tile, const float *with, int r) {
				float sum = 0;

				for (int c = lane; c < kw; c += 32)
					sum += r < m && k0 + c < a.K ? tile[r * LF + c] * with[r * sk + k0 + c] : 0.f;
				return warp_sum(sum);
			};

			if (threadIdx.x < C)
				was[threadIdx.x] = 0;
			/* the gradients of states in the chunk and at its end: dk += diag(f) U dS' */
			for (int end = i + 1 < a.chunks ? cap0 - 1 : cap0; end < cap1; end++) {
				const bool own = end < cap0;
				const int n = own ? m : a.cap_row[end] - j0 + 1;
				const T *dS = own ? a.N + at(a, b, i + 1, h) * state + (size_t)k0 * a.VP : NULL;
				const float *kept = own ? NULL : a.dS + slot(a, a.cap_slot[end], h);
				float sum = 0;

				left_over(a, t, n);
				__syncthreads();
				for (int v0 = 0; v0 < a.VP; v0 += W) {
					const int vw = min(W, a.VP - v0);

					if (own)
						copy(z, L, dS + v0, a.VP, kw, vw);
					else
						fill(z, kw, vw, [&](int r, int c) {
							return k0 + r < a.K && v0 + c < a.V ? kept[(size_t)(k0 + r) * a.V + v0 + c] : 0.f;
						});
					fill(y, mp, vw, [&](int r, int c) { return r < m && v0 + c < a.V ? t.f[r] * u[r * sv + v0 + c] : 0.f; });
					all_here();
					__syncthreads();
					tile_product<false, true>(mp, kw, vw, y, L, z, L, dk, LF, add || v0);
					if (a.g)
						each(kw, vw, [&](int r, int c) { sum += number(z[r * L + c]) * S_at(k0 + r, v0 + c); });
					__syncthreads();
				}
				add = true;
				if (!a.g)
					continue;
				sum *= t.e[n - 1];
				for (int r = warp; r < mp; r += WARPS) {
					const float now = along(dk, k, r);

					if (lane == 0) {
						dc[r] -= (double)(now - was[r]);
						sum += now - was[r];
						was[r] = now;
					}
				}
				sum = block_sum(sum, room);
				if (threadIdx.x == 0)
					dc[n - 1] += (double)sum;
			}
			for (int v0 = 0; v0 < a.VP; v0 += W) {
				const int vw = min(W, a.VP - v0);

				if (S)
					copy(z, L, S + (size_t)k0 * a.VP + v0, a.VP, kw, vw);
				else
					fill(z, kw, vw, [&](int r, int c) { return S_at(k0 + r, v0 + c); });
				fill(x, mp, vw, [&](int r, int c) { return r < m && v0 + c < a.V ? t.e[r] * d_o[r * sv + v0 + c] : 0.f; });
				fill(y, mp, vw, [&](int r, int c) { return r < m && v0 + c < a.V ? -t.e[r] * dv[r * sv + v0 + c] : 0.f; });
				all_here();
				__syncthreads();
				tile_product<false, true>(mp, kw, vw, x, L, z, L, dq, LF, v0 > 0);
				tile_product<false, true>(mp, kw, vw, y, L, z, L, dk, LF, add || v0);
				__syncthreads();
			}
			for (int r = warp; a.g && r < mp; r += WARPS) {
				const float by_q = along(dq, q, r), now = along(dk, k, r);

				if (lane == 0)
					dc[r] += (double)by_q + (double)(now - was[r]);
			}

			/* dq += X K, dk += X' Q + Z K */
			fill(x, mp, kw, [&](int r, int c) { return r < m && k0 + c < a.K ? k[r * sk + k0 + c] : 0.f; });
			fill(z, mp, kw, [&](int r, int c) { return r < m && k0 + c < a.K ? q[r * sk + k0 + c] : 0.f; });
			const T *Xo = operand(X, y, mp);
			__syncthreads();
			tile_product<false, false>(mp, kw, mp, Xo, LQ, x, L, dq, LF, true);
			tile_product<true, false>(mp, kw, mp, Xo, LQ, z, L, dk, LF, true);
			__syncthreads();
			const T *Zo = operand(Z, y, mp);
			__syncthreads();
			tile_product<false, false>(mp, kw, mp, Zo, LQ, x, L, dk, LF, true);
			__syncthreads();
			each(m, min(kw, a.K - k0), [&](int r, int c) {
				const size_t e = key + r * sk + k0 + c;

				a.dq[e] = h > kh * share ? a.dq[e] + dq[r * LF + c] : dq[r * LF + c];
				a.dk[e] = h > kh * share ? a.dk[e] + dk[r * LF + c] : dk[r * LF + c];
			});
		}
		__syncthreads();
		if (a.g && (int)threadIdx.x < m) {
			double sum = 0;

			for (int r = m - 1; r >= (int)threadIdx.x; r--)
				sum += dc[r];
			a.dg[place(a, b, j0 + threadIdx.x, a.H, h, 1)] = (float)sum;
		}
	}
}

/* ---- the operation ---------------------------------------------------------------------------------------------- */

static size_t round256(size_t n) { return (n + 255) / 256 * 256; }

template <class T> static T *take(char **at, size_t n)
{
	char *p = *at;

	*at += round256(n * sizeof(T));
	return (T *)(void *)p;
}

/* Lays the scratch of `heads` heads out from p on; returns its end. */
template <class T> static char *lay_out(job<T> *a, int heads, char *p)
{
	const size_t all = (size_t)a->nb * a->chunks * heads, inner = (size_t)a->nb * (a->chunks - 1) * heads;
	const size_t row = (size_t)a->rows * a->KP, state = (size_t)a->KP * a->VP, square = a->g ? all * a->rows * a->rows : 0;

	a->B = take<T>(&p, all * row);
	a->N = take<T>(&p, all * state);
	a->R = take<T>(&p, inner * row);
	a->fk = take<T>(&p, inner * row);
	a->behind = take<T>(&p, inner * state);
	a->left = take<float>(&p, all);
	a->kk = take<float>(&p, square);
	a->qk = take<float>(&p, square);
	return p;
}

template <class T> static void run(struct rf_dev *d, const struct rf_delta_bwd *x)
{
	constexpr int W = side<T>::W, VS = side<T>::VS;
	const int per = x->per ? x->per : 1, share = x->H / x->G, groups = (x->nb + per - 1) / per, chunks = (x->steps + C - 1) / C;
	job<T> a = {};

	a.nb = x->nb, a.steps = x->steps, a.per = per, a.chunks = chunks, a.H = x->H, a.G = x->G, a.K = x->K, a.V = x->V;
	a.rows = x->steps < C ? (x->steps + 15) / 16 * 16 : C;
	a.KP = (x->K + 15) / 16 * 16, a.VP = (x->V + 15) / 16 * 16;
	a.captures = x->captures, a.beta_scale = x->beta_scale;
	a.q = f32(x->q), a.k = f32(x->k), a.b = f32(x->b), a.g = f32(x->g), a.u = f32(x->u), a.d_o = f32(x->d_o), a.S = f32(x->S);
	a.dq = f32(x->dq), a.dk = f32(x->dk), a.dv = f32(x->dv), a.db = f32(x->db), a.dg = f32(x->dg), a.dS = f32(x->dS);
	a.start = i32(x->start), a.cap_row = i32(x->cap_row), a.cap_slot = i32(x->cap_slot);

	const size_t each = (size_t)(lay_out(&a, share, NULL) - (char *)NULL);
	const int most = each >= SCRATCH ? 1 : SCRATCH / each < (size_t)x->G ? (int)(SCRATCH / each) : x->G;
	char *scratch = (char *)rf_cuda_scratch(d, (size_t)(lay_out(&a, share * most, NULL) - (char *)NULL));

	if (!scratch)
		return;
	for (int kh = 0; kh < x->G; kh += most) {
		const int keys = x->G - kh < most ? x->G - kh : most;
		const unsigned ns = (a.VP + W - 1) / W, ks = (a.KP + W - 1) / W, slices = (a.VP + VS - 1) / VS;

		a.h0 = kh * share;
		a.heads = keys * share;
		lay_out(&a, a.heads, scratch);
		a.states = chunks > 1 ? (unsigned)a.nb * a.heads * ns * ks : 0;
		LAUNCH(d, ready<T>, dim3(a.nb * chunks, a.heads), THREADS, ready_shared<T>(), a);
		LAUNCH(d, scan<T>, a.states + (unsigned)groups * a.heads * slices, THREADS, scan_shared<T>(a.rows, a.KP), a);
		LAUNCH(d, back<T>, dim3(a.nb * chunks, keys), THREADS, back_shared<T>(), a);
	}
}

void rf_cuda_delta_bwd(struct rf_dev *d, const struct rf_delta_bwd *x)
{
	if (!x->nb || !x->steps)
		return;
	if (d->math == RF_MATH_BF16)
		run<bf16>(d, x);
	else
		run<float>(d, x);
}
