/* sweep.h -- passes over memory, which all operations except products consist of: four numbers at a time
 * where they are aligned, enough threads to hide the latency of memory, sums in a fixed order.
 *
 * To keep an H100's memory busy, 3 TB/s times 0.7 us = 2 MB must be in flight.  132 x 2048 threads with 16
 * bytes each make 4 MB.  So one load of four numbers per thread and operand is enough, if all threads that
 * fit are running; loads of single numbers, 1 MB per operand, are almost enough. */
#ifndef RF_SWEEP_H
#define RF_SWEEP_H

#include "cuda/cuda.h"

#include <gpu/ptx.h>

/* ---- four numbers -------------------------------------------------------------------------- */

template <int N> struct numbers {
	float v[N];
	__device__ __forceinline__ float &operator[](int i) { return v[i]; }
	__device__ __forceinline__ float operator[](int i) const { return v[i]; }
};

template <int N> static __device__ __forceinline__ numbers<N> load_numbers(const float *p)
{
	numbers<N> x;

	if constexpr (N == 4) {
		const float4 q = *(const float4 *)p;
		x.v[0] = q.x, x.v[1] = q.y, x.v[2] = q.z, x.v[3] = q.w;
	} else {
		for (int i = 0; i < N; i++)
			x.v[i] = p[i];
	}
	return x;
}

template <int N> static __device__ __forceinline__ void store_numbers(float *p, const numbers<N> &x)
{
	if constexpr (N == 4) {
		*(float4 *)p = make_float4(x.v[0], x.v[1], x.v[2], x.v[3]);
	} else {
		for (int i = 0; i < N; i++)
			p[i] = x.v[i];
	}
}

/* load_four and store_four do the same at the end of a row, where only `left` numbers remain: missing numbers
 * read as 0 and are not written.  WIDE: none is missing, and the address is aligned.  A thread has the same
 * numbers either way, so sums do not depend on WIDE. */
template <bool WIDE> static __device__ __forceinline__ numbers<4> load_four(const float *p, size_t left)
{
	numbers<4> x;

	if constexpr (WIDE)
		x = load_numbers<4>(p);
	else
		for (int i = 0; i < 4; i++)
			x.v[i] = (size_t)i < left ? p[i] : 0.f;
	return x;
}

template <bool WIDE>
static __device__ __forceinline__ void store_four(float *p, size_t left, const numbers<4> &x)
{
	if constexpr (WIDE) {
		store_numbers<4>(p, x);
	} else {
		for (int i = 0; i < 4; i++)
			if ((size_t)i < left)
				p[i] = x.v[i];
	}
}

/* Stores numbers rounded to bf16. */
template <int N> static __device__ __forceinline__ void store_numbers_bf16(bf16 *p, const numbers<N> &x)
{
	if constexpr (N == 4)
		*(uint2 *)p = { two_bf16(x[0], x[1]), two_bf16(x[2], x[3]) };
	else
		for (int i = 0; i < N; i++)
			p[i] = __float2bfloat16(x[i]);
}

template <bool WIDE>
static __device__ __forceinline__ void store_four_bf16(bf16 *p, size_t left, const numbers<4> &x)
{
	if constexpr (WIDE) {
		store_numbers_bf16<4>(p, x);
	} else {
		for (int i = 0; i < 4; i++)
			if ((size_t)i < left)
				p[i] = __float2bfloat16(x[i]);
	}
}

/* Tells whether these addresses (NULL: unused) allow loads of four numbers; the distance of rows must also be
 * a multiple of four. */
template <class... P> static inline bool aligned(const P *...p)
{
	return ((uintptr_t)0 | ... | (uintptr_t)p) % 16 == 0;
}

/* Returns sigmoid(x), computed by the units for exp2 and 1 / x, with a relative error of 3e-7 for small x.
 * An IEEE division takes a dozen instructions and a branch per number, which could limit these kernels. */
static __device__ __forceinline__ float sigmoid(float x)
{
	return quotient(1, 1 + exp2_ftz(-1.4426950408889634f * x));
}
/* Returns d silu(x) / dx, where s = sigmoid(x). */
static __device__ __forceinline__ float silu_slope(float x, float s) { return s * (1.f + x * (1.f - s)); }
static __device__ __forceinline__ double softplus(double x) { return x > 30 ? x : log1p(exp(x)); }

/* ---- element by element -------------------------------------------------------------------- */

enum { SWEEP = 256 }; /* threads of a block */

/* Calls f.at<W>(i, j), which computes elements j .. j + W - 1 of row i, for all elements. */
template <int W, class F> static __global__ void __launch_bounds__(SWEEP) each(size_t rows, size_t cols, F f)
{
	for (size_t i = blockIdx.y * (size_t)blockDim.y + threadIdx.y; i < rows;
	     i += (size_t)gridDim.y * blockDim.y)
		for (size_t j = blockIdx.x * (size_t)blockDim.x + threadIdx.x; j < cols;
		     j += (size_t)gridDim.x * blockDim.x)
			f.template at<W>(i, j * W);
}

/* Sweeps over `rows` rows of `cols` times W elements.  As with LAUNCH, rf_cuda_rounded_wrote or _copy
 * must know what f writes.  name: for the message of a failure. */
template <int W, class F>
static void sweep_by(struct rf_dev *d, const char *name, size_t rows, size_t cols, const F &f)
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
	RF_CUDA_LAUNCH(d, name, (each<W, F>), dim3((unsigned)across, (unsigned)down), dim3(x, SWEEP / x), 0,
	               rows, cols, f);
}

/* Sweeps over all elements of `rows` rows of `width`; wide: four at a time. */
template <class F>
static void sweep(struct rf_dev *d, const char *name, size_t rows, size_t width, bool wide, const F &f)
{
	if (wide)
		sweep_by<4>(d, name, rows, width / 4, f);
	else
		sweep_by<1>(d, name, rows, width, f);
}

/* ---- sums of rows -------------------------------------------------------------------------- */

/* Computes N sums together over the threads that share a row: a warp, or, with BLOCK, a block.  scratch: for
 * BLOCK, 32 N numbers of shared memory. */
template <bool BLOCK, int N, class T> static __device__ __forceinline__ void row_sums(T (&x)[N], T *scratch)
{
	for (int k = 0; k < N; k++)
		x[k] = warp_sum(x[k]);
	if constexpr (BLOCK) {
		const int lane = threadIdx.x & 31, warps = blockDim.x >> 5;

		if (lane == 0)
			for (int k = 0; k < N; k++)
				scratch[(threadIdx.x >> 5) * N + k] = x[k];
		__syncthreads();
		for (int k = 0; k < N; k++)
			x[k] = warp_sum(lane < warps ? scratch[lane * N + k] : T(0));
		__syncthreads(); /* scratch may be used again */
	}
}

/* ---- sums of columns ----------------------------------------------------------------------- */

/* Rows are divided into strips; one block sums the columns of one strip.  strip_rows(): returns the rows of a
 * strip, at least `least`, and enough that there are at most STRIPS strips. */
enum { STRIPS = 1024 };
static inline int strip_rows(int rows, int least)
{
	const int most = (rows + STRIPS - 1) / STRIPS;

	return most > least ? most : least;
}

/* Adds to y[c step] the sum over strips of x[., c] for x (strips, cols), in double and in a fixed order.
 * ldx: distance of rows of x. */
void rf_cuda_add_strips(struct rf_dev *d, const float *x, int strips, size_t cols, size_t ldx, float *y,
                        size_t step);
void rf_cuda_add_strips(struct rf_dev *d, const double *x, int strips, size_t cols, size_t ldx, float *y,
                        size_t step);
/* Does the same for x (strips, cols) in two levels, because with a few columns a few blocks would be busy for
 * long.  scratch: rf_cuda_many_room() numbers. */
void rf_cuda_add_many(struct rf_dev *d, const float *x, int strips, size_t cols, double *scratch, float *y);
static inline size_t rf_cuda_many_room(int strips, size_t cols) { return ((size_t)strips + 31) / 32 * cols; }

#endif
