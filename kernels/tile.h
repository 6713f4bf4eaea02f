/* tile.h -- products of tiles in shared memory, by all threads of a block: on matrix units where operands are bf16, else in
 * float32.  Sides are multiples of 16; what lies beyond a ragged end is zero. */
#ifndef RF_TILE_H
#define RF_TILE_H

#include "cuda.h"

/* c (m, n) = (or +=) a (m, k) b (k, n), row-major with la, lb, lc elements from row to row; TA: a is stored (k, m), TB: b is
 * stored (n, k).  Rows begin at multiples of 16 bytes, tiles at 32.  Who calls has had a barrier before and has one after. */
template <bool TA, bool TB>
static __device__ void tile_product(int m, int n, int k, const bf16 *a, int la, const bf16 *b, int lb, float *c, int lc, bool add)
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

/* The same in float32: squares of four by four, one thread each. */
template <bool TA, bool TB>
static __device__ void tile_product(int m, int n, int k, const float *a, int la, const float *b, int lb, float *c, int lc, bool add)
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

static __device__ __forceinline__ void round_to(bf16 *to, float x) { *to = __float2bfloat16(x); }
static __device__ __forceinline__ void round_to(float *to, float x) { *to = x; }

#endif
