/* warp.h -- products of one warp whose sums stay in registers: sixteen rows, on matrix units if operands are
 * bf16, else in float32.
 *
 * A sum of 16 rows and 8 N columns is c[N][4] in each lane.  With g = lane / 4 and t = lane % 4, c[n][0..3]
 * are the elements
 *
 *     (g, 8 n + 2 t), (g, 8 n + 2 t + 1), (g + 8, 8 n + 2 t), (g + 8, 8 n + 2 t + 1)
 *
 * This order is what mma.sync prescribes, so code may rely on it, unlike the order of wmma.  A row is in the
 * four lanes of one g.  A rounded sum is the left operand of the next product, without moving a number. */
#ifndef RF_WARP_H
#define RF_WARP_H

#include "cuda/tile.h"

/* ---- products ------------------------------------------------------------------------------ */

/* Returns where this lane's part of a right operand begins; TB: b is stored (n, k), else (k, n). */
template <bool TB> static __device__ __forceinline__ const bf16 *right_at(const bf16 *b, int lb)
{
	const int lane = threadIdx.x & 31;

	return b + (TB ? ((lane & 7) + (lane >> 4) * 8) * lb + (lane >> 3 & 1) * 8
	               : (lane & 15) * lb + (lane >> 4) * 8);
}

/* Computes c (16, nt 8) += a (16, 16) b[l..l+15]. */
template <bool TB, int N>
static __device__ __forceinline__ void product_step(float (&c)[N][4], int nt, const uint32_t (&a)[4], int l,
                                                    const bf16 *b, int lb)
{
	static_assert(N % 2 == 0, "columns are loaded by sixteens");
#pragma unroll
	for (int n = 0; n < N; n += 2) {
		uint32_t y[4];

		if (n >= nt)
			break;
		load_four<!TB>(y, b + (TB ? n * 8 * lb + l : l * lb + n * 8));
		mma(c[n], a, y[0], y[1]);
		mma(c[n + 1], a, y[2], y[3]);
	}
}

/* Computes c (16, nt 8) += a (16, k) b (k, nt 8); a and b are in shared memory, row-major with la and lb
 * elements from row to row; TB: b is stored (nt 8, k).  k is a multiple of 16; nt is at most N, and even in
 * bf16; rows begin at multiples of 16 bytes. */
template <bool TB, int N>
static __device__ __forceinline__ void warp_product(float (&c)[N][4], int nt, int k, const bf16 *a, int la,
                                                    const bf16 *b, int lb)
{
	const int lane = threadIdx.x & 31;

	a += (lane & 15) * la + (lane >> 4) * 8;
	b = right_at<TB>(b, lb);
#pragma unroll 4
	for (int l = 0; l < k; l += 16) {
		uint32_t x[4];

		load_four<false>(x, a + l);
		product_step<TB>(c, nt, x, l, b, lb);
	}
}

/* Does the same in float32, with four numbers along k at a time, which are one load. */
template <bool TB, int N>
static __device__ __forceinline__ void warp_product(float (&c)[N][4], int nt, int k, const float *a, int la,
                                                    const float *b, int lb)
{
	const int g = (threadIdx.x & 31) / 4, t = threadIdx.x & 3;

	a += g * la;
	b += TB ? 2 * t * lb : 2 * t;
#pragma unroll 1
	for (int l = 0; l < k; l += 4) {
		const float4 x = *(const float4 *)(a + l), z = *(const float4 *)(a + 8 * la + l);
		const float up[4] = { x.x, x.y, x.z, x.w }, low[4] = { z.x, z.y, z.z, z.w };

#pragma unroll
		for (int n = 0; n < N; n++)
			if (n < nt) {
				float y[4][2];

				if (TB) {
					const float4 p = *(const float4 *)(b + n * 8 * lb + l);
					const float4 q = *(const float4 *)(b + (n * 8 + 1) * lb + l);

					y[0][0] = p.x, y[1][0] = p.y, y[2][0] = p.z, y[3][0] = p.w;
					y[0][1] = q.x, y[1][1] = q.y, y[2][1] = q.z, y[3][1] = q.w;
				} else
					for (int i = 0; i < 4; i++) {
						const float2 p = *(const float2 *)(b + (l + i) * lb + n * 8);

						y[i][0] = p.x, y[i][1] = p.y;
					}
				for (int i = 0; i < 4; i++) {
					c[n][0] += up[i] * y[i][0];
					c[n][1] += up[i] * y[i][1];
					c[n][2] += low[i] * y[i][0];
					c[n][3] += low[i] * y[i][1];
				}
			}
	}
}

/* Computes c (16, nt 8) += p (16, kt 8) b (kt 8, nt 8), where p is a sum in registers, rounded for the
 * product; b is in shared memory, as above.  nt and kt are even. */
template <bool TB, int N, int K>
static __device__ __forceinline__ void sum_product(float (&c)[N][4], int nt, const float (&p)[K][4], int kt,
                                                   const bf16 *b, int lb)
{
	b = right_at<TB>(b, lb);
#pragma unroll
	for (int l = 0; l < K; l += 2) {
		if (l >= kt)
			break;

		const uint32_t x[4] = { two_bf16(p[l][0], p[l][1]), two_bf16(p[l][2], p[l][3]),
			                two_bf16(p[l + 1][0], p[l + 1][1]),
			                two_bf16(p[l + 1][2], p[l + 1][3]) };

		product_step<TB>(c, nt, x, l * 8, b, lb);
	}
}

/* Rounds a sum into shared memory, ld numbers from row to row. */
template <class T, int N>
static __device__ __forceinline__ void put_sum(T *to, int ld, const float (&c)[N][4])
{
	const int g = (threadIdx.x & 31) / 4, t = threadIdx.x & 3;

#pragma unroll
	for (int n = 0; n < N; n++)
		for (int e = 0; e < 4; e++)
			round_to(to + (g + e / 2 * 8) * ld + n * 8 + 2 * t + e % 2, c[n][e]);
}

/* Computes c (16, nt 8) += p (16, 8 K) b (8 K, nt 8), where p is a sum in registers.  scratch: (16, lr)
 * numbers of shared memory for each warp, lr a multiple of 4; not used in bf16. */
template <int N, int K>
static __device__ __forceinline__ void warp_product_of(float (&c)[N][4], int nt, const float (&p)[K][4],
                                                       bf16 *, int, const bf16 *b, int lb)
{
	sum_product<false>(c, nt, p, K, b, lb);
}

template <int N, int K>
static __device__ __forceinline__ void warp_product_of(float (&c)[N][4], int nt, const float (&p)[K][4],
                                                       float *scratch, int lr, const float *b, int lb)
{
	put_sum(scratch, lr, p);
	__syncwarp();
	warp_product<false>(c, nt, 8 * K, scratch, lr, b, lb);
	__syncwarp(); /* scratch may be written again */
}

/* ---- sums that lie transposed in memory ---------------------------------------------------- */

/* The part of a warp's sum that this lane holds: two rows, first and first + 8; has: whether each exists; and
 * two of every eight columns, from col on. */
struct lane_rows {
	int first, col;
	bool has[2];
};

/* Returns the lane's rows, if the warp's 16 rows begin at row `from` of `rows`. */
static __device__ __forceinline__ lane_rows lane_rows_of(int from, int rows)
{
	const int first = from + (threadIdx.x & 31) / 4;

	return { first, (int)(threadIdx.x & 3) * 2, { first < rows, first + 8 < rows } };
}

/* Loads a sum whose column k is row k in memory: n rows, `stride` numbers from one to the next.  from: this
 * lane's first row, in memory row 0.  Rows and columns that do not exist become zeros. */
template <int N>
static __device__ __forceinline__ void transposed_in(float (&c)[N][4], const lane_rows &r, const float *from,
                                                     size_t stride, int n)
{
#pragma unroll
	for (int i = 0; i < N; i++)
#pragma unroll
		for (int e = 0; e < 4; e++) {
			const int k = i * 8 + r.col + e % 2;

			c[i][e] = k < n && r.has[e / 2] ? from[(size_t)k * stride + e / 2 * 8] : 0.f;
		}
}

/* Stores such a sum. */
template <int N>
static __device__ __forceinline__ void transposed_out(float *to, size_t stride, int n, const float (&c)[N][4],
                                                      const lane_rows &r)
{
#pragma unroll
	for (int i = 0; i < N; i++)
#pragma unroll
		for (int e = 0; e < 4; e++) {
			const int k = i * 8 + r.col + e % 2;

			if (k < n && r.has[e / 2])
				to[(size_t)k * stride + e / 2 * 8] = c[i][e];
		}
}

/* Rounds a sum and stores it without transposing, ld numbers from row to row; to: this lane's first number of
 * its first row. */
template <int N> static __device__ __forceinline__ void rounded_out(bf16 *to, int ld, const float (&c)[N][4])
{
#pragma unroll
	for (int i = 0; i < N; i++) {
		round_two(to + i * 8, c[i][0], c[i][1]);
		round_two(to + 8 * ld + i * 8, c[i][2], c[i][3]);
	}
}

/* Sets c to 0. */
template <int N> static __device__ __forceinline__ void zero(float (&c)[N][4])
{
#pragma unroll
	for (int i = 0; i < N; i++)
#pragma unroll
		for (int e = 0; e < 4; e++)
			c[i][e] = 0;
}

#endif
