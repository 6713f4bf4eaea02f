/* optim.cu -- the optimizer's operations on flat buffers.
 *
 * They are bound by memory.  AdamW reads w, m, v, g and writes w, m, v: 28 bytes per parameter, 12 ms for
 * 1.3e9 parameters.  dot reads 4 or 8 bytes, 2 to 4 ms, with three operations in double per number, a fifth
 * of what an H100 can do in that time. */
#include "cuda/sweep.h"

enum { SPAN = RF_DOT_TILE, THREADS = 256, ADDERS = 1024 };

/* Sums x y over a tile.  A thread has the same numbers whether they are aligned or not. */
template <bool WIDE>
static __global__ void __launch_bounds__(THREADS)
	dot_tiles(size_t n, const float *x, const float *y, double *part)
{
	SHARED(s);
	double *scratch = s.take<double>(33), sum[4] = { 0, 0, 0, 0 }, all;
	const size_t first = (size_t)blockIdx.x * SPAN, last = first + SPAN < n ? first + SPAN : n;

	for (size_t i = first + 4 * threadIdx.x; i < last; i += 4 * THREADS) {
		numbers<4> a, b;

		if (last - i >= 4) {
			a = load_four<WIDE>(x + i, 4);
			b = load_four<WIDE>(y + i, 4);
		} else {
			a = load_four<false>(x + i, last - i);
			b = load_four<false>(y + i, last - i);
		}
		for (int k = 0; k < 4; k++)
			sum[k] += (double)a[k] * (double)b[k];
	}
	all = block_sum((sum[0] + sum[1]) + (sum[2] + sum[3]), scratch);
	if (threadIdx.x == 0)
		part[blockIdx.x] = all;
}

void rf_cuda_dot(struct rf_dev *d, const struct rf_dot *a)
{
	const size_t tiles = (a->n + SPAN - 1) / SPAN, shared = shared_size(33, sizeof(double));

	rf_cuda_rounded_wrote(d, (const float *)f64(a->out), 2 * tiles);
	if (tiles && aligned(f32(a->x), f32(a->y)))
		LAUNCH(d, dot_tiles<true>, (unsigned)tiles, THREADS, shared, a->n, f32(a->x), f32(a->y),
		       f64(a->out));
	else if (tiles)
		LAUNCH(d, dot_tiles<false>, (unsigned)tiles, THREADS, shared, a->n, f32(a->x), f32(a->y),
		       f64(a->out));
}

struct adamw {
	float scale, b1, a1, b2, a2, r1, r2, eps, lr, decay;
	float *w, *m, *v;
	const float *g;

	template <int W> __device__ void at(size_t, size_t i) const
	{
		const numbers<W> by = load_numbers<W>(g + i);
		numbers<W> m1 = load_numbers<W>(m + i), m2 = load_numbers<W>(v + i),
			   p = load_numbers<W>(w + i);

		for (int k = 0; k < W; k++) {
			const float t = by[k] * scale;

			m1[k] = b1 * m1[k] + a1 * t;
			m2[k] = b2 * m2[k] + a2 * t * t;
			p[k] -= lr * (decay * p[k] + m1[k] * r1 / (sqrtf(m2[k] * r2) + eps));
		}
		store_numbers<W>(m + i, m1);
		store_numbers<W>(v + i, m2);
		store_numbers<W>(w + i, p);
	}
};

void rf_cuda_adamw(struct rf_dev *d, const struct rf_adamw *a)
{
	/* 1 - b2 and the like are formed in double: in float 1 - 0.999 is off by 1e-5 */
	/* clang-format off */
	const struct adamw f = { (float)a->scale,    (float)a->b1,       (float)(1 - a->b1), (float)a->b2,
	                        (float)(1 - a->b2), (float)(1 / a->c1), (float)(1 / a->c2), (float)a->eps,
	                        (float)a->lr,       (float)a->decay,    f32(a->w),          f32(a->m),
	                        f32(a->v),          f32(a->g) };
	/* clang-format on */

	rf_cuda_rounded_changed(d, f.w, a->n * 4);
	rf_cuda_all_wrote(d, a->n, f.m, f.v);
	sweep(d, "adamw", 1, a->n, aligned(f.w, f.m, f.v, f.g) && a->n % 4 == 0, f);
}

struct axpy {
	float scale;
	bool add;
	const float *x;
	float *y;
	bf16 *half; /* y rounded; NULL: not wanted */

	template <int W> __device__ void at(size_t, size_t i) const
	{
		numbers<W> v = load_numbers<W>(x + i);

		if (add) {
			const numbers<W> to = load_numbers<W>(y + i);

			for (int k = 0; k < W; k++)
				v[k] = to[k] + scale * v[k];
		} else {
			for (int k = 0; k < W; k++)
				v[k] *= scale;
		}
		store_numbers<W>(y + i, v);
		if (half)
			store_numbers_bf16<W>(half + i, v);
	}
};

void rf_cuda_axpy(struct rf_dev *d, const struct rf_axpy *a)
{
	const struct axpy f = { a->scale, a->add, f32(a->x), f32(a->y),
		                rf_cuda_rounded_copy(d, f32(a->y), 1, a->n, a->n, a->operand) };

	sweep(d, "axpy", 1, a->n, aligned(f.x, f.y) && a->n % 4 == 0, f);
}

/* ---- exact sums (dev.h) --------------------------------------------------------------------- */

/* Returns the bits of |x|.  As integers, bits have the order of the numbers, and NaN is above all numbers. */
static __device__ __forceinline__ unsigned size_bits(float x) { return __float_as_uint(x) & 0x7fffffffu; }

/* Returns the largest x of all threads of a block; scratch: 32 numbers of shared memory. */
static __device__ unsigned block_largest(unsigned x, unsigned *scratch)
{
	const int lane = threadIdx.x & 31, warps = blockDim.x >> 5;

	for (int o = 16; o; o >>= 1)
		x = max(x, __shfl_xor_sync(~0u, x, o));
	if (lane == 0)
		scratch[threadIdx.x >> 5] = x;
	__syncthreads();
	x = lane < warps ? scratch[lane] : 0;
	for (int o = 16; o; o >>= 1)
		x = max(x, __shfl_xor_sync(~0u, x, o));
	return x;
}

template <bool WIDE>
static __global__ void __launch_bounds__(THREADS)
	sum_add_tiles(size_t n, float units, float beyond, float *x, long long *sum, unsigned *largest)
{
	SHARED(s);
	unsigned *scratch = s.take<unsigned>(32), most = 0;
	const size_t first = (size_t)blockIdx.x * SPAN, last = first + SPAN < n ? first + SPAN : n;

	for (size_t i = first + 4 * threadIdx.x; i < last; i += 4 * THREADS) {
		const size_t left = last - i;
		numbers<4> a = WIDE && left >= 4 ? load_four<true>(x + i, 4) : load_four<false>(x + i, left);

		for (int k = 0; k < 4; k++) {
			most = max(most, size_bits(a[k]));
			/* multiplying by a power of two changes no digit of a float */
			if ((size_t)k < left && fabsf(a[k]) <= beyond)
				sum[i + k] += __float2ll_rn(a[k] * units);
			a[k] = 0;
		}
		if (WIDE && left >= 4)
			store_four<true>(x + i, 4, a);
		else
			store_four<false>(x + i, left, a);
	}
	most = block_largest(most, scratch);
	if (threadIdx.x == 0)
		largest[blockIdx.x] = most;
}

static __global__ void __launch_bounds__(ADDERS) largest_of(size_t tiles, const unsigned *part, float *out)
{
	SHARED(s);
	unsigned *scratch = s.take<unsigned>(32), most = size_bits(*out);

	for (size_t i = threadIdx.x; i < tiles; i += ADDERS)
		most = max(most, part[i]);
	most = min(block_largest(most, scratch), 0x7f800000u); /* infinity */
	if (threadIdx.x == 0)
		*out = __uint_as_float(most);
}

void rf_cuda_sum_add(struct rf_dev *d, const struct rf_sum_add *a)
{
	const size_t tiles = (a->n + SPAN - 1) / SPAN, shared = shared_size(32, sizeof(unsigned));
	const float units = 1 / a->unit, beyond = a->unit * (float)RF_SUM_MOST;
	unsigned *part = (unsigned *)rf_cuda_scratch(d, (tiles + !tiles) * sizeof *part);
	long long *sum = (long long *)i64(a->sum);

	if (!part)
		return;
	rf_cuda_rounded_wrote(d, (const float *)sum, 2 * a->n);
	rf_cuda_rounded_wrote(d, f32(a->largest), 1);
	if (tiles && aligned(f32(a->x)))
		LAUNCH(d, sum_add_tiles<true>, (unsigned)tiles, THREADS, shared, a->n, units, beyond,
		       f32(a->x), sum, part);
	else if (tiles)
		LAUNCH(d, sum_add_tiles<false>, (unsigned)tiles, THREADS, shared, a->n, units, beyond,
		       f32(a->x), sum, part);
	LAUNCH(d, largest_of, 1, ADDERS, shared, tiles, part, f32(a->largest));
}

static __global__ void __launch_bounds__(SWEEP)
	sum_take_each(size_t n, float unit, const long long *sum, float *y)
{
	for (size_t i = blockIdx.x * (size_t)SWEEP + threadIdx.x; i < n; i += (size_t)gridDim.x * SWEEP)
		y[i] = __ll2float_rn(sum[i]) * unit;
}

void rf_cuda_sum_take(struct rf_dev *d, const struct rf_sum_take *a)
{
	const size_t most = 16 * (size_t)cuda_of(d)->sms, blocks = (a->n + SWEEP - 1) / SWEEP;

	rf_cuda_rounded_wrote(d, f32(a->y), a->n);
	if (a->n)
		LAUNCH(d, sum_take_each, (unsigned)(blocks < most ? blocks : most), SWEEP, 0, a->n, a->unit,
		       (const long long *)i64(a->sum), f32(a->y));
}
