/* delta_back.h -- declarations that the kernels of delta_back.cu, delta_back_ready.cu and delta_back_scan.cu
 * share: arguments, loading tiles of 64 by 64 into shared memory, and a chunk's decays. */
#ifndef RF_DELTA_BACK_H
#define RF_DELTA_BACK_H

#include "delta_tile.h"

enum {
	THREADS = 256,
	W = 64,         /* columns of K or V that are computed at a time */
	LC = CHUNK + 4, /* floats from row to row of a square in float32 */
	COLS = 16,      /* columns of V in a block of the float32 scan */
	LV = COLS + 4,
	PIECE = 2048
};

/* Returns the numbers from row to row of a tile of operands in shared memory, which is at most 64 x 64. */
template <class X> static __host__ __device__ constexpr int tile_ld() { return W + tile_pad<X>(); }

template <class X> struct job {
	int nb, steps, n, chunks, H, G, K, V, captures;
	float beta_scale;
	bool wide; /* rows of all arrays but b and g can be read four numbers at a time, as always in bf16 */
	const float *q, *k, *b, *g, *u, *d_o, *S;
	float *dq, *dk, *dv, *db, *dg, *dS;
	const int32_t *start, *cap_row, *cap_slot;
	/* the piece: chunks first .. first + count - 1; piece: chunks of a whole piece; padded widths, and
	 * padded rows of a chunk */
	int first, count, piece, KP, VP, rows;
	unsigned states; /* blocks of scan that compute states instead */
	/* for each chunk of the piece, (nb, H, count): R and B (rows, KP); N (VP, KP), which becomes the
	 * gradient of the chunk's first state; states_after (VP, KP), the state after the chunk; ends, e_m;
	 * kk and qk, with a decay, D * K K' and D * Q K' below the diagonal */
	X *R, *B, *N, *states_after;
	float *ends, *kk, *qk;
	/* (pieces - 1, nb, H, K, V): the first states of all pieces but the first */
	float *carry;
	/* (nb, H, K, V): the gradient of the state after the piece; NULL: that state has no gradient */
	const float *after;
	float *before; /* (nb, H, K, V): the gradient of the state before the piece;
	                                        NULL: it is added to a slot */
};

/* Launch the kernels of a piece: ready; scan, for `groups` groups of sequences.  between is launched before
 * all pieces: it computes the states between them, in one block for each of `squares` squares of 64 by 64. */
void rf_cuda_delta_ready(struct rf_dev *d, const job<bf16> &a);
void rf_cuda_delta_ready(struct rf_dev *d, const job<float> &a);
void rf_cuda_delta_scan(struct rf_dev *d, const job<bf16> &a, int groups);
void rf_cuda_delta_scan(struct rf_dev *d, const job<float> &a, int groups);
void rf_cuda_delta_between(struct rf_dev *d, const job<bf16> &a, unsigned squares);
void rf_cuda_delta_between(struct rf_dev *d, const job<float> &a, unsigned squares);

/* A chunk of a head of a sequence; c: its number in the piece. */
struct cell {
	int c, b, h, kh, j0, m, mp;
	size_t i;
};

template <class X> static __device__ __forceinline__ struct cell cell_of(const job<X> &a, int c, int b, int h)
{
	struct cell x;

	x.c = c;
	x.b = b;
	x.h = h;
	x.kh = key_head(h, a.G, a.H);
	x.j0 = (a.first + c) * CHUNK;
	x.m = min(a.steps - x.j0, (int)CHUNK);
	x.mp = up32(x.m);
	x.i = ((size_t)b * a.H + h) * a.count + c;
	return x;
}

template <class X> static __device__ __forceinline__ size_t slot_at(const job<X> &a, int slot, int h)
{
	return ((size_t)slot * a.H + h) * a.K * a.V;
}

template <class X> static __device__ __forceinline__ size_t start_at(const job<X> &a, int b, int h)
{
	return slot_at(a, a.start ? a.start[b / a.n] : 0, h);
}

/* Returns the state at the first row of the piece, (K, V). */
template <class X> static __device__ __forceinline__ const float *first_state(const job<X> &a, int b, int h)
{
	return a.first ? a.carry + slot_at(a, (a.first / a.piece - 1) * a.nb + b, h)
	               : a.S + start_at(a, b, h);
}

/* ---- tiles --------------------------------------------------------------------------------- */

/* Returns four numbers of a row that has `left` more, padded with zeros; wide: all four exist and are
 * aligned. */
static __device__ __forceinline__ float4 load_four(const float *x, int left, bool wide)
{
	float4 four = make_float4(0, 0, 0, 0);

	if (wide) {
		if (left > 0)
			four = *(const float4 *)x;
		return four;
	}
	four.x = left > 0 ? x[0] : 0.f;
	four.y = left > 1 ? x[1] : 0.f;
	four.z = left > 2 ? x[2] : 0.f;
	four.w = left > 3 ? x[3] : 0.f;
	return four;
}

/* Calls f(i, j, r) for each group of four numbers of a tile (mp, wp) that belongs to this thread; wp is 32 or
 * 64; r counts the groups, at most four. */
template <class F> static __device__ __forceinline__ void each_four(int mp, int wp, F f)
{
	const int shift = wp == 64 ? 4 : 3;

#pragma unroll
	for (int r = 0; r < 4; r++) {
		const int t = threadIdx.x + r * THREADS, i = t >> shift;

		if (i < mp)
			f(i, (t & ((1 << shift) - 1)) * 4, r);
	}
}

/* A thread's numbers of a tile of at most 64 x 64, between their loads and their stores.  Fetching several
 * tiles before the first is stored overlaps their loads; the compiler does not move a load before a store. */
struct fetched {
	float4 x[4];
};

/* Starts to load a tile like load_tile: m rows of w numbers, padded with zeros to 64 rows of wp. */
template <class X>
static __device__ __forceinline__ fetched fetch(const job<X> &a, int wp, const float *from, size_t stride,
                                                int m, int w)
{
	const int shift = wp == 64 ? 4 : 3, i = (int)threadIdx.x >> shift,
		  j = ((int)threadIdx.x & ((1 << shift) - 1)) * 4, rows = THREADS >> shift;
	fetched tile;

	from += i * stride + j;
#pragma unroll
	for (int r = 0; r < 4; r++)
		tile.x[r] = load_four(from + r * rows * stride, i + r * rows < m ? w - j : 0,
		                      sizeof(X) == 2 || a.wide);
	return tile;
}

/* Stores such a tile with each row multiplied by its factor (factors NULL: 1), ld numbers from row to row. */
template <class X>
static __device__ __forceinline__ void store_scaled(X *to, int ld, int mp, int wp, const fetched &tile,
                                                    const float *factors)
{
	each_four(mp, wp, [&](int i, int j, int r) {
		const float f = factors ? factors[i] : 1.f;
		const float4 x = tile.x[r];

		round_two(to + (size_t)i * ld + j, f * x.x, f * x.y);
		round_two(to + (size_t)i * ld + j + 2, f * x.z, f * x.w);
	});
}

/* Does both. */
template <class X>
static __device__ __forceinline__ void load_scaled(const job<X> &a, X *to, int ld, int mp, int wp,
                                                   const float *from, size_t stride, int m, int w,
                                                   const float *factors)
{
	store_scaled(to, ld, mp, wp, fetch(a, wp, from, stride, m, w), factors);
}

/* Starts to copy a tile that an earlier kernel has written, `lf` numbers from row to row; the copy is
 * complete after copies_wait<0>() and a barrier. */
template <class X>
static __device__ __forceinline__ void load_async(X *to, int ld, int mp, int wp, const X *from, int lf)
{
	constexpr int N = 16 / (int)sizeof(X);
	const int n = wp / N;

	for (int t = (int)threadIdx.x; t < mp * n; t += THREADS)
		copy_16(to + t / n * ld + t % n * N, from + (size_t)(t / n) * lf + t % n * N);
	copies_close();
}

/* Calls f(row, col) for all elements of a tile. */
template <class F> static __device__ __forceinline__ void tile_each(int rows, int cols, F f)
{
	for (int i = threadIdx.x / 32; i < rows; i += THREADS / 32)
		for (int j = threadIdx.x % 32; j < cols; j += 32)
			f(i, j);
}

/* Calls f(row, sum) for each row of a warp's tile; sum: the sum of the row's numbers times factor(row,
 * col). */
template <class B, class F>
static __device__ __forceinline__ void tile_row_sums(const warp_tile<bf16> &x, B factor, F f)
{
	const int lane = threadIdx.x & 31, row = lane / 4, col = lane % 4 * 2;

#pragma unroll
	for (int r = 0; r < 2; r++) {
		float sum = 0;

#pragma unroll
		for (int n = 0; n < 4; n++)
			sum += x.x[n][2 * r] * factor(row + 8 * r, 8 * n + col) +
			       x.x[n][2 * r + 1] * factor(row + 8 * r, 8 * n + col + 1);
		sum += __shfl_xor_sync(~0u, sum, 1);
		sum += __shfl_xor_sync(~0u, sum, 2);
		if (lane % 4 == 0)
			f(row + 8 * r, sum);
	}
}

template <class B, class F>
static __device__ __forceinline__ void tile_row_sums(const warp_tile<float> &x, B factor, F f)
{
	const int lane = threadIdx.x & 31, row = lane / 8, col = lane % 8 * 2;

#pragma unroll
	for (int r = 0; r < 4; r++) {
		float sum = 0;

#pragma unroll
		for (int s = 0; s < 4; s++)
			sum += x.x[r][s] * factor(row + 4 * r, col + s / 2 * 16 + s % 2);
		for (int o = 1; o < 8; o *= 2)
			sum += __shfl_xor_sync(~0u, sum, o);
		if (lane % 8 == 0)
			f(row + 4 * r, sum);
	}
}

/* A warp's part of a tile: 16 rows from i0 on and 32 columns from j0 on; half: the half of the columns, 0 or
 * 1. */
struct warp_part {
	int i0, j0, half;
};

static __device__ __forceinline__ warp_part part_of_warp()
{
	const int half = threadIdx.x / 32 % 2;

	return { (int)threadIdx.x / 64 * 16, half * 32, half };
}

/* ---- a chunk's rows ------------------------------------------------------------------------ */

/* A chunk's rows; the state at its first row, (K, V) at S0 or (VP, KP) at S; its captures, cap0 .. cap1 -
 * 1. */
template <class X> struct rows : cell {
	const float *q, *k, *d_o, *u, *S0;
	const X *S;
	float *dv;
	size_t key, sk, sv;
	int cap0, cap1;
};

template <class X>
static __device__ __forceinline__ rows<X> rows_of(const job<X> &a, int which, int b, int h, int kh)
{
	const struct cell c = cell_of(a, which, b, h);
	const size_t key = row_offset(a.K, a.G, kh, a.nb, b, c.j0),
		     value = row_offset(a.V, a.H, h, a.nb, b, c.j0);
	rows<X> x;

	static_cast<struct cell &>(x) = c;
	x.key = key, x.sk = row_stride(a.K, a.G, a.nb), x.sv = row_stride(a.V, a.H, a.nb);
	x.q = a.q + key, x.k = a.k + key, x.d_o = a.d_o + value, x.u = a.u + value, x.dv = a.dv + value;
	x.S0 = c.c ? NULL : first_state(a, b, h);
	x.S = c.c ? a.states_after + (c.i - 1) * a.VP * a.KP : NULL;
	x.cap0 = capture_from(a.cap_row, a.captures, c.j0);
	x.cap1 = capture_from(a.cap_row, a.captures, c.j0 + c.m);
	return x;
}

/* Start to load 64 columns of k or q (x) from k0 on, or of dR, U or dO (x) from v0 on; from the padded width
 * on, nothing. */
template <class X>
static __device__ __forceinline__ fetched fetch_keys(const job<X> &a, const rows<X> &c, int k0,
                                                     const float *x)
{
	return fetch(a, min((int)W, a.KP - k0), x + k0, c.sk, c.m, a.K - k0);
}
template <class X>
static __device__ __forceinline__ fetched fetch_V(const job<X> &a, const rows<X> &c, int v0, const float *x)
{
	return fetch(a, min((int)W, a.VP - v0), x + v0, c.sv, c.m, a.V - v0);
}

/* For each row: c = hi + lo; e = exp(c); beta; slope = 1 - sigmoid(b), so that dbeta/db = beta slope; f, the
 * decay from the row to a later row; minus = -e beta. */
struct gates {
	float *hi, *lo, *e, *beta, *slope, *f, *minus;
};
enum { GATES = 7 * CHUNK };

static __device__ __forceinline__ gates place_gates(float *p)
{
	return { p, p + CHUNK, p + 2 * CHUNK, p + 3 * CHUNK, p + 4 * CHUNK, p + 5 * CHUNK, p + 6 * CHUNK };
}

static __device__ __forceinline__ float decay_between(const gates &t, int later, int row)
{
	return decay_between(t.hi, t.lo, later, row);
}

/* Sets f of all rows, for the state after n rows. */
static __device__ __forceinline__ void set_decays_to(const gates &t, bool decay, int n)
{
	const int i = threadIdx.x;

	if (i < CHUNK)
		t.f[i] = i >= n ? 0.f : decay ? decay_between(t, n - 1, i) : 1.f;
}

/* Computes all gates, with f for the state after the chunk.  Contains barriers, one at the end. */
template <class X> static __device__ void load_gates(const job<X> &a, const gates &t, const struct cell &c)
{
	const int i = threadIdx.x - 32;
	const size_t row = row_offset(1, a.H, c.h, a.nb, c.b, c.j0), stride = row_stride(1, a.H, a.nb);

	sum_decays(a.g ? a.g + row : NULL, stride, c.m, t.hi, t.lo);
	if (i >= 0 && i < CHUNK) {
		const float z = a.b && i < c.m ? 1.f / (1.f + expf(-a.b[row + i * stride])) : 1.f;

		t.beta[i] = i < c.m ? a.beta_scale * z : 0.f;
		t.slope[i] = 1.f - z;
	}
	__syncthreads();
	set_decays_to(t, a.g, c.m);
	if (threadIdx.x < CHUNK) {
		const float e = a.g ? decay_to(t.hi, t.lo, threadIdx.x) : 1.f;

		t.e[threadIdx.x] = e;
		t.minus[threadIdx.x] = -e * t.beta[threadIdx.x];
	}
	__syncthreads();
}

#endif
