/* delta_tile.h -- functions that the kernels of the delta rule share, forward (delta.cu) and backward
 * (delta_back*.cu), on a chunk of 64 rows of one head in shared memory: loading, decays, and the inverse of a
 * unit lower triangle.
 *
 * All threads of a block must call these functions.  Rows and widths are padded with zeros to multiples of
 * 32. */
#ifndef RF_DELTA_TILE_H
#define RF_DELTA_TILE_H

#include "cuda/tile.h"

enum { CHUNK = 64, ON_WAY = 8 };

static inline __host__ __device__ int up32(int n) { return (n + 31) / 32 * 32; }
/* Returns the width to which keys are padded; rounds: for the kernels in bf16, which exist for three
 * widths. */
static inline int padded_keys(int K, bool rounds)
{
	return !rounds ? up32(K) : K <= 64 ? 64 : K <= 128 ? 128 : WIDEST_HEAD;
}
/* Tells whether a warp that computes chunk after chunk, in bf16, has registers for the input of the next
 * chunk.  KP: the padded width of keys. */
template <int KP> static __device__ constexpr bool loads_early() { return KP < 256; }
/* Returns the head of q and k that head h of v reads. */
static inline __host__ __device__ int key_head(int h, int G, int H) { return h * G / H; }
/* Returns where row j of head h of sequence b begins in an array (rows, H, w). */
static inline __host__ __device__ size_t row_offset(int w, int H, int h, int nb, int b, int j)
{
	return (((size_t)j * (size_t)nb + (size_t)b) * (size_t)H + (size_t)h) * (size_t)w;
}
/* Returns the distance from one row of such an array to the next. */
static inline __host__ __device__ size_t row_stride(int w, int H, int nb)
{
	return (size_t)nb * (size_t)H * (size_t)w;
}

/* Copies m rows of w numbers, `stride` floats from one to the next, into `to` (mp, wp), ld numbers from row
 * to row, and pads with zeros.  A thread starts the loads of ON_WAY times four numbers before it stores the
 * first, because the compiler does not move a load before a store. */
template <class X>
static __device__ void load_tile(X *to, int ld, int mp, int wp, const float *from, size_t stride, int m,
                                 int w)
{
	if (w % 4 == 0 && stride % 4 == 0 && (size_t)from % 16 == 0) {
		const int w4 = wp / 4, rows = blockDim.x / w4, cols = blockDim.x % w4;
		int i = threadIdx.x / w4, j = threadIdx.x % w4, to_i = i, to_j = j;
		const auto next = [&](int &row, int &col) {
			const bool over = col + cols >= w4;

			row += rows + over;
			col += cols - (over ? w4 : 0);
		};

		while (to_i < mp) {
			float4 x[ON_WAY];

#pragma unroll
			for (int r = 0; r < ON_WAY; r++, next(i, j))
				x[r] = i < m && j * 4 < w
				               ? *(const float4 *)(from + (size_t)i * stride + j * 4)
				               : make_float4(0, 0, 0, 0);
#pragma unroll
			for (int r = 0; r < ON_WAY; r++, next(to_i, to_j))
				if (to_i < mp) {
					round_two(to + to_i * ld + to_j * 4, x[r].x, x[r].y);
					round_two(to + to_i * ld + to_j * 4 + 2, x[r].z, x[r].w);
				}
		}
		return;
	}
	for (int t = threadIdx.x; t < mp * wp; t += blockDim.x) {
		const int i = t / wp, j = t % wp;

		round_to(to + i * ld + j, i < m && j < w ? from[(size_t)i * stride + j] : 0.f);
	}
}

/* ---- decays -------------------------------------------------------------------------------- */

/* Returns e^x, but 0 for x < -70. */
static __device__ __forceinline__ float fade(float x) { return x < -70.f ? 0.f : expf(x); }

/* Computes the running sums c_t of g, up to and including row t, as hi + lo, which keeps differences of large
 * sums exact.  It writes 64 rows; rows from m on equal row m - 1.  g: g of row 0, `stride` floats from row to
 * row; NULL: no decay, all sums are 0.  The first warp computes, in double; the caller needs a barrier
 * after. */
static inline __device__ void sum_decays(const float *g, size_t stride, int m, float *hi, float *lo)
{
	const int lane = threadIdx.x;

	if (lane < 32) {
		const double x = g && 2 * lane < m ? (double)g[(size_t)(2 * lane) * stride] : 0;
		const double y = g && 2 * lane + 1 < m ? (double)g[(size_t)(2 * lane + 1) * stride] : 0;
		double sum = x + y;

		for (int o = 1; o < 32; o *= 2) {
			const double before = __shfl_up_sync(~0u, sum, o);

			if (lane >= o)
				sum += before;
		}
		sum = __shfl_up_sync(~0u, sum, 1);
		sum = (lane ? sum : 0) + x;
		hi[2 * lane] = (float)sum;
		lo[2 * lane] = (float)(sum - (double)(float)sum);
		sum += y;
		hi[2 * lane + 1] = (float)sum;
		lo[2 * lane + 1] = (float)(sum - (double)(float)sum);
	}
}

/* decay_between: returns exp(c_t - c_s) for t >= s.  decay_to: returns exp(c_t), the decay from the chunk's
 * start. */
static __device__ __forceinline__ float decay_between(const float *hi, const float *lo, int t, int s)
{
	return fade(hi[t] - hi[s] + (lo[t] - lo[s]));
}
static __device__ __forceinline__ float decay_to(const float *hi, const float *lo, int t)
{
	return fade(hi[t] + lo[t]);
}

/* ---- the triangle -------------------------------------------------------------------------- */

/* Computes a (n, n) <- (I + a)^-1 in float32, for a strictly lower a with zeros above; n is 32 or 64;
 * scratch: 1024 floats.  First the blocks of 16 on the diagonal are inverted, one column per thread.  Then
 * neighbours are joined in pairs, up to two times: the inverse of [L1 0; A L2] is [T1 0; -T2 A T1 T2], where
 * T1 and T2 are the inverses of L1 and L2.  The caller needs a barrier before; there is one at the end. */
static inline __device__ void invert_lower(float *a, int la, int n, float *scratch)
{
	const int t = threadIdx.x, c = t % 16;
	float *block = a + t / 16 * 16 * (la + 1), x[16];

	if (t < n) {
#pragma unroll
		for (int i = 0; i < 16; i++) {
			x[i] = i == c ? 1.f : 0.f;
#pragma unroll
			for (int p = 0; p < i; p++)
				x[i] -= block[i * la + p] * x[p];
		}
	}
	__syncthreads();
	if (t < n) {
#pragma unroll
		for (int i = 0; i < 16; i++)
			block[i * la + c] = x[i];
	}
	__syncthreads();
	for (int s = 16; s < n; s *= 2) {
		for (int e = t; e < n / 2 * s; e += blockDim.x) {
			const int p = e / (s * s), i = e / s % s, j = e % s;
			const float *T1 = a + 2 * s * p * (la + 1), *A = T1 + s * la;
			float sum = 0;

			for (int l = 0; l < s; l++)
				sum += A[i * la + l] * T1[l * la + j];
			scratch[e] = sum;
		}
		__syncthreads();
		for (int e = t; e < n / 2 * s; e += blockDim.x) {
			const int p = e / (s * s), i = e / s % s, j = e % s;
			float *A = a + 2 * s * p * (la + 1) + s * la;
			const float *T2 = A + s;
			float sum = 0;

			for (int l = 0; l < s; l++)
				sum += T2[i * la + l] * scratch[p * s * s + l * s + j];
			A[i * la + j] = -sum;
		}
		__syncthreads();
	}
}

/* Returns the number of the first capture whose row is at least j. */
static inline __device__ int capture_from(const int32_t *row, int captures, int j)
{
	int lo = 0, hi = captures;

	while (lo < hi) {
		const int mid = (lo + hi) / 2;

		if (row[mid] < j)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

#endif
