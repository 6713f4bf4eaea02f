/* optim.cu -- the optimizer's operations on flat buffers.
 *
 * They are bound by memory.  AdamW reads w, m, v, g and writes w, m, v: 28 bytes per parameter, 12 ms for
 * 1.3e9 parameters.  dot reads 4 or 8 bytes, 2 to 4 ms, with three operations in double per number, a fifth
 * of what an H100 can do in that time. */
#include "sweep.h"

/* Elements of a tile: sums are formed per tile and added in the order of the tiles. */
enum { SPAN = 1 << 14, THREADS = 256, ADDERS = 1024 };

/* A thread has the same numbers whether they are aligned or not. */
template <bool WIDE>
static __global__ void __launch_bounds__(THREADS)
	dot_tiles(size_t n, const float *x, const float *y, double *part)
{
	SHARED(s);
	double *room = s.take<double>(33), sum[4] = { 0, 0, 0, 0 }, all;
	const size_t first = (size_t)blockIdx.x * SPAN, last = first + SPAN < n ? first + SPAN : n;

	for (size_t i = first + 4 * threadIdx.x; i < last; i += 4 * THREADS) {
		some<4> a, b;

		if (last - i >= 4) {
			a = take<WIDE>(x + i, 4);
			b = take<WIDE>(y + i, 4);
		} else {
			a = take<false>(x + i, last - i);
			b = take<false>(y + i, last - i);
		}
		for (int k = 0; k < 4; k++)
			sum[k] += (double)a[k] * (double)b[k];
	}
	all = block_sum((sum[0] + sum[1]) + (sum[2] + sum[3]), room);
	if (threadIdx.x == 0)
		part[blockIdx.x] = all;
}

static __global__ void __launch_bounds__(ADDERS) add_tiles(size_t tiles, const double *part, double *out)
{
	SHARED(s);
	double *room = s.take<double>(33), sum = 0;

	for (size_t i = threadIdx.x; i < tiles; i += ADDERS)
		sum += part[i];
	sum = block_sum(sum, room);
	if (threadIdx.x == 0)
		*out = sum;
}

void rf_cuda_dot(struct rf_dev *d, const struct rf_dot *a)
{
	const size_t tiles = (a->n + SPAN - 1) / SPAN, shared = shared_size(33, sizeof(double));
	double *part = (double *)rf_cuda_scratch(d, (tiles + !tiles) * sizeof *part);

	if (!part)
		return;
	if (tiles && aligned(f32(a->x), f32(a->y)))
		LAUNCH(d, dot_tiles<true>, (unsigned)tiles, THREADS, shared, a->n, f32(a->x),
		       f32(a->y), part);
	else if (tiles)
		LAUNCH(d, dot_tiles<false>, (unsigned)tiles, THREADS, shared, a->n, f32(a->x),
		       f32(a->y), part);
	LAUNCH(d, add_tiles, 1, ADDERS, shared, tiles, part, f64(a->out));
}

struct adamw {
	float scale, b1, a1, b2, a2, r1, r2, eps, lr, decay;
	float *w, *m, *v;
	const float *g;

	template <int W> __device__ void at(size_t, size_t i) const
	{
		const some<W> by = get<W>(g + i);
		some<W> m1 = get<W>(m + i), m2 = get<W>(v + i), p = get<W>(w + i);

		for (int k = 0; k < W; k++) {
			const float t = by[k] * scale;

			m1[k] = b1 * m1[k] + a1 * t;
			m2[k] = b2 * m2[k] + a2 * t * t;
			p[k] -= lr * (decay * p[k] + m1[k] * r1 / (sqrtf(m2[k] * r2) + eps));
		}
		put<W>(m + i, m1);
		put<W>(v + i, m2);
		put<W>(w + i, p);
	}
};

void rf_cuda_adamw(struct rf_dev *d, const struct rf_adamw *a)
{
	/* 1 - b2 and the like are formed in double: in float 1 - 0.999 is off by 1e-5 */
	const struct adamw f = { (float)a->scale,    (float)a->b1,       (float)(1 - a->b1), (float)a->b2,
	                        (float)(1 - a->b2), (float)(1 / a->c1), (float)(1 / a->c2), (float)a->eps,
	                        (float)a->lr,       (float)a->decay,    f32(a->w),          f32(a->m),
	                        f32(a->v),          f32(a->g) };

	rf_cuda_gemm_changed(d, f.w, a->n * 4);
	sweep(d, "adamw", 1, a->n, aligned(f.w, f.m, f.v, f.g) && a->n % 4 == 0, f);
}

struct axpy {
	float scale;
	bool add;
	const float *x;
	float *y;

	template <int W> __device__ void at(size_t, size_t i) const
	{
		some<W> v = get<W>(x + i);

		if (add) {
			const some<W> to = get<W>(y + i);

			for (int k = 0; k < W; k++)
				v[k] = to[k] + scale * v[k];
		} else {
			for (int k = 0; k < W; k++)
				v[k] *= scale;
		}
		put<W>(y + i, v);
	}
};

void rf_cuda_axpy(struct rf_dev *d, const struct rf_axpy *a)
{
	const struct axpy f = { a->scale, a->add, f32(a->x), f32(a->y) };

	sweep(d, "axpy", 1, a->n, aligned(f.x, f.y) && a->n % 4 == 0, f);
}
