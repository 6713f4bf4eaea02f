/* sweep.h -- passes over memory, which all that is not a product comes down to: four numbers at a time where
 * they are aligned, enough threads to hide the way to memory, sums in a fixed order.
 *
 * An H100 wants 3 TB/s times 0.7 us = 2 MB under way: 16 bytes of each of 132 x 2048 threads are 4 MB.  So
 * one load of four numbers per thread and operand is enough, if all threads that fit are there; single
 * numbers, 1 MB per operand, come near. */
#ifndef RF_SWEEP_H
#define RF_SWEEP_H

#include "cuda.h"

/* ---- four numbers -------------------------------------------------------------------------- */

template <int N> struct some {
	float v[N];
	__device__ __forceinline__ float &operator[](int i) { return v[i]; }
	__device__ __forceinline__ float operator[](int i) const { return v[i]; }
};

template <int N> static __device__ __forceinline__ some<N> get(const float *p)
{
	some<N> x;

	if constexpr (N == 4) {
		const float4 q = *(const float4 *)p;
		x.v[0] = q.x, x.v[1] = q.y, x.v[2] = q.z, x.v[3] = q.w;
	} else {
		for (int i = 0; i < N; i++)
			x.v[i] = p[i];
	}
	return x;
}

template <int N> static __device__ __forceinline__ void put(float *p, const some<N> &x)
{
	if constexpr (N == 4) {
		*(float4 *)p = make_float4(x.v[0], x.v[1], x.v[2], x.v[3]);
	} else {
		for (int i = 0; i < N; i++)
			p[i] = x.v[i];
	}
}

/* The same of a row's last `left` numbers, which may be fewer than four: the others read as 0.
 * WIDE: they never are, and the address is aligned.  A thread has the same numbers either way, so
 * sums do not depend on it. */
template <bool WIDE> static __device__ __forceinline__ some<4> take(const float *p, size_t left)
{
	some<4> x;

	if constexpr (WIDE)
		x = get<4>(p);
	else
		for (int i = 0; i < 4; i++)
			x.v[i] = (size_t)i < left ? p[i] : 0.f;
	return x;
}

template <bool WIDE> static __device__ __forceinline__ void give(float *p, size_t left, const some<4> &x)
{
	if constexpr (WIDE) {
		put<4>(p, x);
	} else {
		for (int i = 0; i < 4; i++)
			if ((size_t)i < left)
				p[i] = x.v[i];
	}
}

/* Whether addresses (NULL: there is none) allow loads of four numbers; rows must also lie a
 * multiple of four apart. */
template <class... P> static inline bool aligned(const P *...p)
{
	return ((uintptr_t)0 | ... | (uintptr_t)p) % 16 == 0;
}

static __device__ __forceinline__ float sigmoid(float x) { return 1.f / (1.f + expf(-x)); }
/* d silu(x) / dx, where s is x's sigmoid */
static __device__ __forceinline__ float silu_slope(float x, float s) { return s * (1.f + x * (1.f - s)); }
static __device__ __forceinline__ double softplus(double x) { return x > 30 ? x : log1p(exp(x)); }

/* ---- element by element -------------------------------------------------------------------- */

enum { SWEEP = 256 };  /* threads of a block */

/* f.at<W>(i, j) for elements j .. j + W - 1 of row i. */
template <int W, class F> static __global__ void __launch_bounds__(SWEEP) each(size_t rows, size_t cols, F f)
{
	for (size_t i = blockIdx.y * (size_t)blockDim.y + threadIdx.y; i < rows;
	     i += (size_t)gridDim.y * blockDim.y)
		for (size_t j = blockIdx.x * (size_t)blockDim.x + threadIdx.x; j < cols;
		     j += (size_t)gridDim.x * blockDim.x)
			f.template at<W>(i, j * W);
}

/* Of `cols` times W elements of each of `rows` rows, where nothing is written that products know of.  name:
 * for failures. */
template <int W, class F>
static void sweep_scratch(struct rf_dev *d, const char *name, size_t rows, size_t cols, const F &f)
{
	const size_t most = 16 * (size_t)cuda_of(d)->sms;
	unsigned x = 1;
	size_t across, down;

	if (!rows || !cols || d->err.code != RF_OK)
		return;
	while (x < SWEEP && x < cols)
		x *= 2;
	across = (cols + x - 1) / x;
	across = across < most ? across : most;
	down = (rows + SWEEP / x - 1) / (SWEEP / x);
	down = down < most / across + 1 ? down : most / across + 1;
	RF_LAUNCH((each<W, F>), dim3((unsigned)across, (unsigned)down), dim3(x, SWEEP / x), 0,
	          cuda_of(d)->stream, rows, cols, f);
	rf_cuda_launched(d, name);
}

template <int W, class F>
static void sweep_by(struct rf_dev *d, const char *name, size_t rows, size_t cols, const F &f)
{
	rf_cuda_gemm_stale(d);
	sweep_scratch<W>(d, name, rows, cols, f);
}

/* All elements of `rows` rows of `width`; wide: four at a time. */
template <class F>
static void sweep(struct rf_dev *d, const char *name, size_t rows, size_t width, bool wide, const F &f)
{
	if (wide)
		sweep_by<4>(d, name, rows, width / 4, f);
	else
		sweep_by<1>(d, name, rows, width, f);
}

/* ---- sums of rows -------------------------------------------------------------------------- */

/* N sums at once over those that share a row: a warp, or (BLOCK) a block.  room: of a block, 32 N numbers. */
template <bool BLOCK, int N, class T> static __device__ __forceinline__ void row_sums(T (&x)[N], T *room)
{
	for (int k = 0; k < N; k++)
		x[k] = warp_sum(x[k]);
	if constexpr (BLOCK) {
		const int lane = threadIdx.x & 31, warps = blockDim.x >> 5;

		if (lane == 0)
			for (int k = 0; k < N; k++)
				room[(threadIdx.x >> 5) * N + k] = x[k];
		__syncthreads();
		for (int k = 0; k < N; k++)
			x[k] = warp_sum(lane < warps ? room[lane * N + k] : T(0));
		__syncthreads(); /* room may be used again */
	}
}

/* ---- sums of columns ----------------------------------------------------------------------- */

/* Rows are cut into strips, one block each, which sums columns of theirs: at least `least` rows a strip, and
 * at most STRIPS. */
enum { STRIPS = 1024 };
static inline int strip_rows(int rows, int least)
{
	const int most = (rows + STRIPS - 1) / STRIPS;

	return most > least ? most : least;
}

/* y[c step] += the sum of the strips' x[., c] (strips, cols), ldx apart; in double, in a fixed order. */
void rf_cuda_add_strips(struct rf_dev *d, const float *x, int strips, size_t cols, size_t ldx, float *y,
                        size_t step);
void rf_cuda_add_strips(struct rf_dev *d, const double *x, int strips, size_t cols, size_t ldx, float *y,
                        size_t step);

#endif
