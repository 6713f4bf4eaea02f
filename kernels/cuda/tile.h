/* tile.h -- products of tiles in shared memory, by all threads of a block: on matrix units if operands are
 * bf16, else in float32.  Sides are multiples of 16; where a matrix ends inside a tile, the rest of the tile
 * is zero. */
#ifndef RF_TILE_H
#define RF_TILE_H

#include "cuda/cuda.h"
#include <gpu/ptx.h>

/* Computes c (m, n) = (add: +=) a (m, k) b (k, n), row-major, la, lb, lc elements from row to row; TA: a is
 * stored (k, m), TB: b is stored (n, k).  Rows begin at multiples of 16 bytes, tiles at multiples of 32.  The
 * caller needs a barrier before and after. */
template <bool TA, bool TB>
static __device__ void tile_product(int m, int n, int k, const bf16 *a, int la, const bf16 *b, int lb,
                                    float *c, int lc, bool add)
{
	using namespace nvcuda;
	using LA = typename std::conditional<TA, wmma::col_major, wmma::row_major>::type;
	using LB = typename std::conditional<TB, wmma::col_major, wmma::row_major>::type;

	for (int t = threadIdx.x / 32; t < m / 16 * (n / 16); t += blockDim.x / 32) {
		const int i = t / (n / 16) * 16, j = t % (n / 16) * 16;
		wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;

		if (add)
			wmma::load_matrix_sync(sum, c + i * lc + j, lc, wmma::mem_row_major);
		else
			wmma::fill_fragment(sum, 0.f);
		for (int l = 0; l < k; l += 16) {
			wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, LA> fa;
			wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, LB> fb;

			wmma::load_matrix_sync(fa, a + (TA ? l * la + i : i * la + l), la);
			wmma::load_matrix_sync(fb, b + (TB ? j * lb + l : l * lb + j), lb);
			wmma::mma_sync(sum, fa, fb, sum);
		}
		wmma::store_matrix_sync(c + i * lc + j, sum, lc, wmma::mem_row_major);
	}
}

/* Does the same in float32: each thread computes squares of four by four. */
template <bool TA, bool TB>
static __device__ void tile_product(int m, int n, int k, const float *a, int la, const float *b, int lb,
                                    float *c, int lc, bool add)
{
	for (int t = threadIdx.x; t < m / 4 * (n / 4); t += blockDim.x) {
		const int i = t / (n / 4) * 4, j = t % (n / 4) * 4;
		float sum[4][4];

		for (int r = 0; r < 4; r++)
			for (int s = 0; s < 4; s++)
				sum[r][s] = add ? c[(i + r) * lc + j + s] : 0.f;
		for (int l = 0; l < k; l++) {
			float x[4], y[4];

			for (int r = 0; r < 4; r++) {
				x[r] = a[TA ? l * la + i + r : (i + r) * la + l];
				y[r] = b[TB ? (j + r) * lb + l : l * lb + j + r];
			}
			for (int r = 0; r < 4; r++)
				for (int s = 0; s < 4; s++)
					sum[r][s] += x[r] * y[s];
		}
		for (int r = 0; r < 4; r++)
			for (int s = 0; s < 4; s++)
				c[(i + r) * lc + j + s] = sum[r][s];
	}
}

/* ---- in registers -------------------------------------------------------------------------- */

/* Returns the numbers by which a row of a tile in shared memory is longer than its contents: 16 bytes, so
 * that eight rows are in different banks. */
template <class X> static __host__ __device__ constexpr int tile_pad() { return 16 / (int)sizeof(X); }

/* 16 x 32 numbers of a product in the registers of a warp, where they can be changed before they are stored.
 * add: += a product.  a, b: the tile's corners; TA, TB, k, la, lb: as above; rows at multiples of 16 bytes.
 * each: calls f(row, column, number) for each number, in the lane that holds it.  pairs: calls f(row, column,
 * number, next column's number); the column is even. */
template <class X> struct warp_tile;

template <> struct warp_tile<bf16> {
	float x[4][4];

	__device__ __forceinline__ void zero()
	{
		for (int i = 0; i < 4; i++)
			for (int j = 0; j < 4; j++)
				x[i][j] = 0;
	}

	template <bool TA, bool TB>
	__device__ __forceinline__ void add(int k, const bf16 *a, int la, const bf16 *b, int lb)
	{
		const int lane = threadIdx.x & 31, r = lane & 7, q = lane >> 3;

		a += TA ? (q / 2 * 8 + r) * la + q % 2 * 8 : (q % 2 * 8 + r) * la + q / 2 * 8;
		b += TB ? (q / 2 * 8 + r) * lb + q % 2 * 8 : (q % 2 * 8 + r) * lb + q / 2 * 8;
		for (int l = 0; l < k; l += 16) {
			uint32_t fa[4], fb[4];

			load_four<TA>(fa, TA ? a + l * la : a + l);
#pragma unroll
			for (int n = 0; n < 2; n++) {
				load_four<!TB>(fb, TB ? b + n * 16 * lb + l : b + n * 16 + l * lb);
				mma(x[2 * n], fa, fb[0], fb[1]);
				mma(x[2 * n + 1], fa, fb[2], fb[3]);
			}
		}
	}

	template <class F> __device__ __forceinline__ void each(F f)
	{
		const int lane = threadIdx.x & 31;

#pragma unroll
		for (int n = 0; n < 4; n++)
#pragma unroll
			for (int i = 0; i < 4; i++)
				f(lane / 4 + i / 2 * 8, n * 8 + lane % 4 * 2 + i % 2, x[n][i]);
	}

	template <class F> __device__ __forceinline__ void pairs(F f)
	{
		const int lane = threadIdx.x & 31;

#pragma unroll
		for (int n = 0; n < 4; n++)
#pragma unroll
			for (int i = 0; i < 2; i++)
				f(lane / 4 + i * 8, n * 8 + lane % 4 * 2, x[n][2 * i], x[n][2 * i + 1]);
	}
};

/* In float32 a lane has four rows, at distances of four, and two pairs of columns, at a distance of
 * sixteen. */
template <> struct warp_tile<float> {
	float x[4][4];

	__device__ __forceinline__ void zero()
	{
		for (int i = 0; i < 4; i++)
			for (int j = 0; j < 4; j++)
				x[i][j] = 0;
	}

	template <bool TA, bool TB>
	__device__ __forceinline__ void add(int k, const float *a, int la, const float *b, int lb)
	{
		const int lane = threadIdx.x & 31, i = lane / 8, j = lane % 8 * 2;

		for (int l = 0; l < k; l++) {
			float y[4], z[4];

#pragma unroll
			for (int r = 0; r < 4; r++) {
				y[r] = a[TA ? l * la + i + 4 * r : (i + 4 * r) * la + l];
				z[r] = b[TB ? (j + r / 2 * 16 + r % 2) * lb + l
				            : l * lb + j + r / 2 * 16 + r % 2];
			}
#pragma unroll
			for (int r = 0; r < 4; r++)
#pragma unroll
				for (int s = 0; s < 4; s++)
					x[r][s] += y[r] * z[s];
		}
	}

	template <class F> __device__ __forceinline__ void each(F f)
	{
		const int lane = threadIdx.x & 31;

#pragma unroll
		for (int r = 0; r < 4; r++)
#pragma unroll
			for (int s = 0; s < 4; s++)
				f(lane / 8 + 4 * r, lane % 8 * 2 + s / 2 * 16 + s % 2, x[r][s]);
	}

	template <class F> __device__ __forceinline__ void pairs(F f)
	{
		const int lane = threadIdx.x & 31;

#pragma unroll
		for (int r = 0; r < 4; r++)
#pragma unroll
			for (int s = 0; s < 4; s += 2)
				f(lane / 8 + 4 * r, lane % 8 * 2 + s * 8, x[r][s], x[r][s + 1]);
	}
};

/* Calls f(i, j) for the corners of the tiles of an (m, n) product that belong to this warp; m is a multiple
 * of 16, n of 32. */
template <class F> static __device__ __forceinline__ void warp_tiles(int m, int n, F f)
{
	for (int t = threadIdx.x / 32; t < m / 16 * (n / 32); t += blockDim.x / 32)
		f(t / (n / 32) * 16, t % (n / 32) * 32);
}

/* Starts to copy n rows of W numbers to shared memory; rows begin lf numbers apart in `from` and ld in `to`.
 * `count` threads do it, as many as a row has pieces of 16 bytes, or a multiple; t: this thread's number
 * among them.  The caller closes the group of copies. */
template <int W, class X>
static __device__ __forceinline__ void copy_rows(X *to, int ld, int n, const X *from, int lf, int t,
                                                 int count)
{
	constexpr int N = 16 / (int)sizeof(X), PARTS = W / N;
	const int step = count / PARTS, first = t / PARTS;

	to += first * ld + t % PARTS * N;
	from += first * lf + t % PARTS * N;
#pragma unroll 4
	for (int i = first; i < n; i += step, to += step * ld, from += step * lf)
		copy_16(to, from);
}

static __device__ __forceinline__ void round_to(bf16 *to, float x) { *to = __float2bfloat16(x); }
static __device__ __forceinline__ void round_to(float *to, float x) { *to = x; }

/* Rounds two neighbouring numbers and stores them with one access; `to` must be aligned for it. */
static __device__ __forceinline__ void round_two(bf16 *to, float x, float y)
{
	*(uint32_t *)to = two_bf16(x, y);
}
static __device__ __forceinline__ void round_two(float *to, float x, float y)
{
	*(float2 *)to = make_float2(x, y);
}

#endif
