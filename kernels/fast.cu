/* fast.cu -- LaCT's element-wise operations (its products use gemm), forward and backward: features of q, k
 * and v, rates, the operands of a chunk's update, and the row-wise parts of the update.
 *
 * All kernels are bound by memory.  Features: a warp has one head of a row.  Forward it keeps up to 512 of
 * the head's activations until their sum is known; backward it reads them twice, the second time from the
 * first level cache: 8 bytes per number forward, 16 backward, and 2 for a rounded copy; at T 16384 and d 1536
 * (101 MB a matrix) 0.09 and 0.15 ms.  Operands of an update: 30 bytes per number forward, 60 backward, a
 * fifth of them rounded copies; a warp computes the sums over a head's width.  Updates: 12 to 14 bytes per
 * number of a fast weight, of which there are few, 4 heads of 3 x 384 x 768, 14 MB: 0.02 ms.  Their rows are
 * long, and there may be as few as 12.  So rows of more than 1024 numbers are cut into tiles, whose sums are
 * computed by one kernel and used by the next; one block per row would take ten times as long. */
#include "cuda/sweep.h"

enum { WARPS = 8, KEPT = 4 }; /* KEPT: how many times four of a head's numbers a lane holds */

/* ---- features ------------------------------------------------------------------------------ */

struct feature {
	int rows, H, D, per; /* per: rows of a strip */
	bool silu, unit;
	float eps;
	const float *x, *scale, *offset, *dy;
	float *y, *dx, *part; /* part (strips, 2, H D): each strip's share of dscale and doffset */
	bf16 *half;           /* y or dx rounded; NULL: not wanted */
};

/* Computes four numbers of a row from j on: v = x, s = scale, z = x scale + offset, y = the activation of
 * z. */
template <bool WIDE>
static __device__ __forceinline__ void act(const struct feature &a, const float *x, int h, int j,
                                           numbers<4> &v, numbers<4> &s, numbers<4> &z, numbers<4> &y)
{
	const size_t column = (size_t)h * a.D + j;

	v = load_four<WIDE>(x + j, (size_t)(a.D - j));
	for (int k = 0; k < 4; k++) {
		const bool is = WIDE || j + k < a.D;
		const float offset = a.offset && is ? a.offset[2 * (column + k)] : 0.f;

		s[k] = !is ? 0.f : a.scale ? a.scale[2 * (column + k)] : 1.f;
		z[k] = v[k] * s[k] + offset;
		y[k] = a.silu ? z[k] * sigmoid(z[k]) : z[k];
	}
}

template <bool WIDE> static __global__ void __launch_bounds__(32 * WARPS) feature_fwd(struct feature a)
{
	const size_t i = (size_t)blockIdx.x * WARPS + threadIdx.x / 32;
	const int lane = threadIdx.x & 31;

	if (i >= (size_t)a.rows * a.H)
		return;
	const float *x = a.x + i * a.D;
	const int h = (int)(i % a.H);
	float sum[1] = { 0 }, r = 1;
	numbers<4> v, s, z, y, kept[KEPT];
	const auto sum_of = [&](const numbers<4> &of) {
		for (int k = 0; k < 4; k++)
			sum[0] += of[k] * of[k];
	};
	const auto put = [&](int j, numbers<4> &of) {
		for (int k = 0; k < 4; k++)
			of[k] *= r;
		store_four<WIDE>(a.y + i * a.D + j, (size_t)(a.D - j), of);
		if (a.half)
			store_four_bf16<WIDE>(a.half + i * a.D + j, (size_t)(a.D - j), of);
	};

#pragma unroll
	for (int t = 0; t < KEPT; t++)
		if (4 * lane + 128 * t < a.D) {
			act<WIDE>(a, x, h, 4 * lane + 128 * t, v, s, z, kept[t]);
			sum_of(kept[t]);
		}
	for (int j = 4 * lane + 128 * KEPT; a.unit && j < a.D; j += 128) {
		act<WIDE>(a, x, h, j, v, s, z, y);
		sum_of(y);
	}
	if (a.unit) {
		row_sums<false>(sum, (float *)NULL);
		r = 1.f / (sqrtf(sum[0]) + a.eps);
	}
#pragma unroll
	for (int t = 0; t < KEPT; t++)
		if (4 * lane + 128 * t < a.D)
			put(4 * lane + 128 * t, kept[t]);
	for (int j = 4 * lane + 128 * KEPT; j < a.D; j += 128) {
		act<WIDE>(a, x, h, j, v, s, z, y);
		put(j, y);
	}
}

/* Computes the gradients of features.  With z the activation, n = |z|, y = z / (n + eps):
 *
 *     dz = dy / (n + eps) - z (dy . z) / (n (n + eps)^2)
 *
 * A block has one head of a strip of rows, and a warp one row at a time.  Sums over rows are in shared
 * memory, where each lane has its own columns. */
template <bool WIDE> static __global__ void __launch_bounds__(32 * WARPS) feature_bwd(struct feature a)
{
	SHARED(shared);
	const int warps = blockDim.x / 32, warp = threadIdx.x / 32, lane = threadIdx.x & 31, h = blockIdx.y;
	const int first = blockIdx.x * a.per, last = first + a.per < a.rows ? first + a.per : a.rows;
	float *all = shared.take<float>(warps * 2 * a.D), *ds = all + warp * 2 * a.D, *db = ds + a.D;
	numbers<4> v, s, z, y;

	for (int j = 4 * lane; j < a.D; j += 128)
		for (int k = j; k < j + 4 && k < a.D; k++)
			ds[k] = db[k] = 0;
	for (int row = first + warp; row < last; row += warps) {
		const size_t at = ((size_t)row * a.H + h) * a.D;
		float sum[2] = { 0, 0 }, r = 1, c = 0; /* |z|^2, dy . z */

		for (int j = 4 * lane; a.unit && j < a.D; j += 128) {
			const numbers<4> dy = load_four<WIDE>(a.dy + at + j, (size_t)(a.D - j));

			act<WIDE>(a, a.x + at, h, j, v, s, z, y);
			for (int k = 0; k < 4; k++) {
				sum[0] += y[k] * y[k];
				sum[1] += y[k] * dy[k];
			}
		}
		if (a.unit) {
			row_sums<false>(sum, (float *)NULL);
			const float n = sqrtf(sum[0]);

			r = 1.f / (n + a.eps);
			c = n > 0 ? sum[1] * r * r / n : 0;
		}
		for (int j = 4 * lane; j < a.D; j += 128) {
			const size_t left = (size_t)(a.D - j);
			const numbers<4> dy = load_four<WIDE>(a.dy + at + j, left);
			numbers<4> dx = load_four<WIDE>(a.dx + at + j, left);

			act<WIDE>(a, a.x + at, h, j, v, s, z, y);
			for (int k = 0; k < 4; k++) {
				float g = dy[k] * r - y[k] * c;

				if (a.silu)
					g *= silu_slope(z[k], sigmoid(z[k]));
				dx[k] += g * s[k];
				if (a.part && (WIDE || (size_t)k < left)) {
					ds[j + k] += g * v[k];
					db[j + k] += g;
				}
			}
			store_four<WIDE>(a.dx + at + j, left, dx);
			if (a.half)
				store_four_bf16<WIDE>(a.half + at + j, left, dx);
		}
	}
	if (!a.part)
		return;
	__syncthreads();
	for (int j = threadIdx.x; j < 2 * a.D; j += blockDim.x) {
		float sum = all[j];

		for (int k = 1; k < warps; k++)
			sum += all[k * 2 * a.D + j];
		a.part[((size_t)blockIdx.x * 2 + j / a.D) * a.H * a.D + (size_t)h * a.D + j % a.D] = sum;
	}
}

void rf_cuda_feature_fwd(struct rf_dev *d, const struct rf_feature_fwd *p)
{
	struct feature a = {};
	const size_t heads = (size_t)p->rows * p->H;

	a.rows = p->rows, a.H = p->H, a.D = p->D, a.silu = p->silu, a.unit = p->unit, a.eps = p->eps,
	a.x = f32(p->x), a.scale = f32(p->scale);
	a.offset = f32(p->offset), a.y = f32(p->y);
	if (!heads || !a.D)
		return;
	const unsigned blocks = (unsigned)((heads + WARPS - 1) / WARPS);

	const size_t width = (size_t)a.H * a.D;

	a.half = rf_cuda_rounded_copy(d, a.y, (size_t)a.rows, width, width, p->operand);
	if (aligned(a.x, a.y) && a.D % 4 == 0)
		LAUNCH(d, feature_fwd<true>, blocks, 32 * WARPS, 0, a);
	else
		LAUNCH(d, feature_fwd<false>, blocks, 32 * WARPS, 0, a);
}

void rf_cuda_feature_bwd(struct rf_dev *d, const struct rf_feature_bwd *p)
{
	struct feature a = {};
	/* mine: bytes of shared memory of a warp */
	const size_t width = (size_t)p->H * p->D, mine = 2 * (size_t)p->D * sizeof(float);
	const int warps = mine * WARPS <= (48 << 10) ? WARPS : mine * 2 <= (48 << 10) ? 2 : 1;

	a.rows = p->rows, a.H = p->H, a.D = p->D, a.silu = p->silu, a.unit = p->unit, a.eps = p->eps,
	a.x = f32(p->x), a.scale = f32(p->scale);
	a.offset = f32(p->offset), a.dy = f32(p->dy), a.dx = f32(p->dx);
	if (!a.rows || !width)
		return;
	a.per = strip_rows(a.rows, 4 * WARPS);
	const int strips = (a.rows + a.per - 1) / a.per;
	const size_t shared = shared_size((size_t)warps * 2 * a.D, sizeof(float));
	const dim3 grid((unsigned)strips, (unsigned)a.H);

	if (p->dscale && !(a.part = (float *)rf_cuda_scratch(d, (size_t)strips * 2 * width * sizeof *a.part)))
		return;
	a.half = rf_cuda_rounded_copy(d, a.dx, (size_t)a.rows, width, width, p->operand);
	if (aligned(a.x, a.dy, a.dx) && a.D % 4 == 0)
		LAUNCH(d, feature_bwd<true>, grid, 32 * warps, shared, a);
	else
		LAUNCH(d, feature_bwd<false>, grid, 32 * warps, shared, a);
	if (!a.part)
		return;
	rf_cuda_add_strips(d, a.part, strips, width, 2 * width, f32(p->dscale), 2);
	rf_cuda_add_strips(d, a.part + width, strips, width, 2 * width, f32(p->doffset), 2);
}

/* ---- rates --------------------------------------------------------------------------------- */

/* Rates are computed in double: they are few, and softplus approaches 0, where its logarithm loses digits. */
struct rates_forward {
	double shift;
	float *lr, *m;

	template <int W> __device__ void at(size_t, size_t i) const
	{
		for (size_t j = 3 * i; j < 3 * i + 3; j++)
			lr[j] = (float)softplus((double)lr[j] + shift);
		if (m)
			m[i] = (float)(1 / (1 + exp(-(double)m[i])));
	}
};

/* The rates' gradients.  Where softplus has the value y, its slope is 1 - e^-y. */
struct rates_backward {
	const float *lr, *m;
	float *dlr, *dm;

	template <int W> __device__ void at(size_t, size_t i) const
	{
		for (size_t j = 3 * i; j < 3 * i + 3; j++)
			dlr[j] = (float)(-(double)dlr[j] * expm1(-(double)lr[j]));
		if (m)
			dm[i] *= m[i] * (1 - m[i]);
	}
};

void rf_cuda_rates_fwd(struct rf_dev *d, const struct rf_rates_fwd *a)
{
	const struct rates_forward f = { (double)a->shift, f32(a->lr), f32(a->m) };

	rf_cuda_rounded_wrote(d, f.lr, (size_t)a->rows * a->H * 3);
	rf_cuda_rounded_wrote(d, f.m, (size_t)a->rows * a->H);
	sweep_by<1>(d, "rates_fwd", 1, (size_t)a->rows * a->H, f);
}

void rf_cuda_rates_bwd(struct rf_dev *d, const struct rf_rates_bwd *a)
{
	const struct rates_backward f = { f32(a->lr), f32(a->m), f32(a->dlr), f32(a->dm) };

	rf_cuda_rounded_wrote(d, f.dlr, (size_t)a->rows * a->H * 3);
	rf_cuda_rounded_wrote(d, f.dm, (size_t)a->rows * a->H);
	sweep_by<1>(d, "rates_bwd", 1, (size_t)a->rows * a->H, f);
}

/* ---- the operands of an update ------------------------------------------------------------- */

struct learn {
	int rows, H, E, every;
	float *gu, *e;
	const float *lr, *dsum;
	float *dgu, *de, *dlr, *dm;
	bf16 *gu_half, *e_half, *dgu_half, *de_half; /* gu, e, dgu, de rounded; NULL: not wanted */

	/* Computes W numbers from j on, forward; i: row and head. */
	template <int W> __device__ void at(size_t i, size_t j) const
	{
		const float *rates = lr + 3 * lr_row(i);
		float *g = gu + i * 2 * E + j, *u = g + E, *v = e + i * E + j;
		numbers<W> x = load_numbers<W>(g), y = load_numbers<W>(u), z = load_numbers<W>(v);

		for (int k = 0; k < W; k++) {
			const float s = sigmoid(x[k]), a = x[k] * s, slope = silu_slope(x[k], s), b = y[k],
				    c = z[k];

			x[k] = c * b * slope * rates[0];
			z[k] = a * b * rates[1];
			y[k] = c * a * rates[2];
		}
		store_numbers<W>(g, x);
		store_numbers<W>(u, y);
		store_numbers<W>(v, z);
		if (!gu_half)
			return;
		store_numbers_bf16<W>(gu_half + i * 2 * E + j, x);
		store_numbers_bf16<W>(gu_half + i * 2 * E + E + j, y);
		store_numbers_bf16<W>(e_half + i * E + j, z);
	}
	__device__ size_t lr_row(size_t i) const
	{
		return (size_t)((unsigned)i / (unsigned)H) * every * H + (unsigned)i % (unsigned)H;
	}
};

/* Sets where rounded copies of the results are written: all or none. */
static void find_rounded_copies(struct rf_dev *d, const struct learn &a, float *gu, float *e, bf16 **gu_half,
                                bf16 **e_half)
{
	const size_t rows = (size_t)a.rows, width = (size_t)a.H * a.E;

	*gu_half = rf_cuda_rounded_copy(d, gu, rows, 2 * width, 2 * width, true);
	*e_half = rf_cuda_rounded_copy(d, e, rows, width, width, *gu_half != NULL);
}

void rf_cuda_learn_fwd(struct rf_dev *d, const struct rf_learn_fwd *p)
{
	struct learn a = {};

	a.rows = p->rows, a.H = p->H, a.E = p->E, a.every = p->every, a.gu = f32(p->gu), a.e = f32(p->e),
	a.lr = f32(p->lr);
	find_rounded_copies(d, a, a.gu, a.e, &a.gu_half, &a.e_half);
	sweep(d, "learn_fwd", (size_t)a.rows * a.H, (size_t)a.E, aligned(a.gu, a.e) && a.E % 4 == 0, a);
}

/* Computes the gradients of an update's operands.  With s = sigmoid(g): silu' = s (1 + g (1 - s)), silu'' = s
 * (1 - s) (2 + g (1 - 2 s)). */
template <bool WIDE> static __global__ void __launch_bounds__(32 * WARPS) learn_bwd(struct learn a)
{
	const size_t i = (size_t)blockIdx.x * WARPS + threadIdx.x / 32;
	const int lane = threadIdx.x & 31;

	if (i >= (size_t)a.rows * a.H)
		return;
	const size_t out = a.lr_row(i);
	const float r0 = a.lr[3 * out], r1 = a.lr[3 * out + 1], r2 = a.lr[3 * out + 2];
	float *g = a.gu + i * 2 * a.E, *u = g + a.E, *e = a.e + i * a.E, *dg = a.dgu + i * 2 * a.E,
	      *du = dg + a.E, *de = a.de + i * a.E;
	float sum[3] = { 0, 0, 0 };

	for (int j = 4 * lane; j < a.E; j += 128) {
		const size_t left = (size_t)(a.E - j);
		numbers<4> G = load_four<WIDE>(g + j, left), U = load_four<WIDE>(u + j, left),
			   V = load_four<WIDE>(e + j, left);
		numbers<4> t0 = load_four<WIDE>(dg + j, left), t1 = load_four<WIDE>(de + j, left),
			   t2 = load_four<WIDE>(du + j, left);

		for (int k = 0; k < 4; k++) {
			const float x = G[k], y = U[k], z = V[k], s = sigmoid(x), f = x * s,
				    f1 = silu_slope(x, s);
			const float f2 = s * (1.f - s) * (2.f + x * (1.f - 2.f * s)), a0 = t0[k], a1 = t1[k],
				    a2 = t2[k];

			sum[0] += a0 * z * y * f1;
			sum[1] += a1 * f * y;
			sum[2] += a2 * z * f;
			t0[k] = a0 * z * y * f2 * r0 + (a1 * y * r1 + a2 * z * r2) * f1;
			t2[k] = a0 * z * f1 * r0 + a1 * f * r1;
			t1[k] = a0 * y * f1 * r0 + a2 * f * r2;
			G[k] = z * y * f1 * r0;
			V[k] = f * y * r1;
			U[k] = z * f * r2;
		}
		store_four<WIDE>(dg + j, left, t0);
		store_four<WIDE>(du + j, left, t2);
		store_four<WIDE>(de + j, left, t1);
		store_four<WIDE>(g + j, left, G);
		store_four<WIDE>(e + j, left, V);
		store_four<WIDE>(u + j, left, U);
		if (!a.gu_half)
			continue;
		bf16 *gh = a.gu_half + i * 2 * a.E + j, *dgh = a.dgu_half + i * 2 * a.E + j;

		store_four_bf16<WIDE>(gh, left, G);
		store_four_bf16<WIDE>(gh + a.E, left, U);
		store_four_bf16<WIDE>(a.e_half + i * a.E + j, left, V);
		store_four_bf16<WIDE>(dgh, left, t0);
		store_four_bf16<WIDE>(dgh + a.E, left, t2);
		store_four_bf16<WIDE>(a.de_half + i * a.E + j, left, t1);
	}
	row_sums<false>(sum, (float *)NULL);
	if (lane == 0) {
		for (int k = 0; k < 3; k++)
			a.dlr[3 * out + k] = sum[k];
		if (a.dsum)
			a.dm[out] = a.dsum[(unsigned)i % (unsigned)a.H];
	}
}

void rf_cuda_learn_bwd(struct rf_dev *d, const struct rf_learn_bwd *p)
{
	struct learn a = {};
	const size_t heads = (size_t)p->rows * p->H;

	a.rows = p->rows, a.H = p->H, a.E = p->E, a.every = p->every, a.gu = f32(p->gu), a.e = f32(p->e),
	a.lr = f32(p->lr);
	a.dgu = f32(p->dgu), a.de = f32(p->de), a.dlr = f32(p->dlr), a.dm = f32(p->dm), a.dsum = f32(p->dsum);
	if (!heads)
		return;
	const unsigned blocks = (unsigned)((heads + WARPS - 1) / WARPS);

	find_rounded_copies(d, a, a.gu, a.e, &a.gu_half, &a.e_half);
	find_rounded_copies(d, a, a.dgu, a.de, &a.dgu_half, &a.de_half);
	const size_t rates = ((size_t)(a.rows - 1) * a.every + 1) * a.H;
	rf_cuda_rounded_wrote(d, a.dlr, rates * 3);
	rf_cuda_rounded_wrote(d, a.dm, rates);
	if (aligned(a.gu, a.e, a.dgu, a.de) && a.E % 4 == 0)
		LAUNCH(d, learn_bwd<true>, blocks, 32 * WARPS, 0, a);
	else
		LAUNCH(d, learn_bwd<false>, blocks, 32 * WARPS, 0, a);
}

/* ---- the update: long rows ----------------------------------------------------------------- */

/* Sums over rows of n numbers are taken in tiles of SPAN: part (rows, tiles, 2), in double. */
enum { SPAN = 1 << 12, THREADS = 256, SHORT = 1024, DOWN = 65535 };

static size_t tiles_of(size_t n) { return (n + SPAN - 1) / SPAN; }

/* Rows of n numbers: `sum_row` sums over a row, and `compute_row` then computes the row.  A thread has the
 * four numbers at i, at i + step, ... */
struct length {
	int rows;
	size_t n;
	float eps;
	const float *x, *length, *dy;
	float *y, *dx, *dlength;
	bf16 *half; /* y rounded; NULL: not wanted */
};

/* Adds this thread's x . x and (if there is dy) dy . x of the numbers from .. to - 1 of a row. */
template <bool WIDE>
static __device__ __forceinline__ void sum_row(const struct length &a, size_t row, size_t from, size_t to,
                                               int step, float (&sum)[2])
{
	for (size_t i = from; i < to; i += step) {
		const numbers<4> x = load_four<WIDE>(a.x + row * a.n + i, to - i);

		for (int k = 0; k < 4; k++)
			sum[0] += x[k] * x[k];
		if (a.dy) {
			const numbers<4> dy = load_four<WIDE>(a.dy + row * a.n + i, to - i);

			for (int k = 0; k < 4; k++)
				sum[1] += x[k] * dy[k];
		}
	}
}

/* With r = |x|, y = x L / (r + eps):
 *
 *     dx = L (dy / (r + eps) - x (dy . x) / (r (r + eps)^2)),  dL = dy . x / (r + eps)
 *
 * LENGTH: only y = r. */
enum row_op { LENGTH, RENORM, BACK };
template <enum row_op WHAT, bool WIDE>
static __device__ __forceinline__ void compute_row(const struct length &a, size_t row, size_t from, size_t to,
                                                   int step, double xx, double xy, bool leader)
{
	const double r = sqrt(xx), s = 1 / (r + (double)a.eps), L = a.length ? (double)a.length[row] : 1;
	const float factor = (float)(L * s), back = r > 0 ? (float)(L * xy * s * s / r) : 0;

	if (WHAT == LENGTH) {
		if (leader)
			a.y[row] = (float)r;
		return;
	}
	if (WHAT == BACK && leader && a.dlength)
		a.dlength[row] += (float)(xy * s);
	for (size_t i = from; i < to; i += step) {
		const size_t left = to - i;
		numbers<4> x = load_four<WIDE>(a.x + row * a.n + i, left);

		if (WHAT == RENORM) {
			for (int k = 0; k < 4; k++)
				x[k] *= factor;
			store_four<WIDE>(a.y + row * a.n + i, left, x);
			if (a.half)
				store_four_bf16<WIDE>(a.half + row * a.n + i, left, x);
		} else {
			const numbers<4> dy = load_four<WIDE>(a.dy + row * a.n + i, left);
			numbers<4> dx = load_four<WIDE>(a.dx + row * a.n + i, left);

			for (int k = 0; k < 4; k++)
				dx[k] += factor * dy[k] - back * x[k];
			store_four<WIDE>(a.dx + row * a.n + i, left, dx);
		}
	}
}

/* Computes short rows: a warp has one row. */
template <enum row_op WHAT, bool WIDE>
static __global__ void __launch_bounds__(32 * WARPS) short_rows(struct length a)
{
	const size_t row = (size_t)blockIdx.x * WARPS + threadIdx.x / 32;
	const int lane = threadIdx.x & 31;
	float sum[2] = { 0, 0 };

	if (row >= (size_t)a.rows)
		return;
	sum_row<WIDE>(a, row, 4 * (size_t)lane, a.n, 128, sum);
	row_sums<false>(sum, (float *)NULL);
	compute_row<WHAT, WIDE>(a, row, 4 * (size_t)lane, a.n, 128, (double)sum[0], (double)sum[1],
	                        lane == 0);
}

/* Computes the sums of long rows, which the next kernel uses: a block has a tile of a row. */
template <bool WIDE>
static __global__ void __launch_bounds__(THREADS) long_sums(struct length a, double *part)
{
	SHARED(s);
	float *scratch = s.take<float>(64);
	const size_t first = (size_t)blockIdx.x * SPAN, last = first + SPAN < a.n ? first + SPAN : a.n;

	for (size_t row = blockIdx.y; row < (size_t)a.rows; row += gridDim.y) {
		float sum[2] = { 0, 0 };

		sum_row<WIDE>(a, row, first + 4 * threadIdx.x, last, 4 * THREADS, sum);
		row_sums<true>(sum, scratch);
		if (threadIdx.x == 0)
			for (int k = 0; k < 2; k++)
				part[(row * gridDim.x + blockIdx.x) * 2 + k] = (double)sum[k];
	}
}

/* Returns the sum over a row's tiles to every thread. */
static __device__ double sum_tiles(const double *part, size_t tiles, size_t stride, double *scratch)
{
	double sum = 0;

	for (size_t i = threadIdx.x; i < tiles; i += THREADS)
		sum += part[i * stride];
	return block_sum(sum, scratch);
}

template <enum row_op WHAT, bool WIDE>
static __global__ void __launch_bounds__(THREADS) long_rows(struct length a, size_t tiles, const double *part)
{
	SHARED(s);
	double *scratch = s.take<double>(33);
	const size_t first = (size_t)blockIdx.x * SPAN, last = first + SPAN < a.n ? first + SPAN : a.n;

	for (size_t row = blockIdx.y; row < (size_t)a.rows; row += gridDim.y) {
		const double xx = sum_tiles(part + row * tiles * 2, tiles, 2, scratch),
			     xy = a.dy ? sum_tiles(part + row * tiles * 2 + 1, tiles, 2, scratch) : 0;

		compute_row<WHAT, WIDE>(a, row, first + 4 * threadIdx.x, last, 4 * THREADS, xx, xy,
		                        blockIdx.x == 0 && threadIdx.x == 0);
	}
}

template <enum row_op WHAT, bool WIDE> static void run_rows(struct rf_dev *d, const struct length &a)
{
	const size_t tiles = tiles_of(a.n),
		     shared = shared_size(64, sizeof(float)) + shared_size(33, sizeof(double));
	const dim3 grid((unsigned)tiles, (unsigned)(a.rows < DOWN ? a.rows : DOWN));
	double *part;

	if (a.n <= SHORT) {
		LAUNCH(d, (short_rows<WHAT, WIDE>), (unsigned)(((size_t)a.rows + WARPS - 1) / WARPS),
		       32 * WARPS, 0, a);
		return;
	}
	if (!(part = (double *)rf_cuda_scratch(d, (size_t)a.rows * tiles * 2 * sizeof *part)))
		return;
	LAUNCH(d, long_sums<WIDE>, grid, THREADS, shared, a, part);
	LAUNCH(d, (long_rows<WHAT, WIDE>), WHAT == LENGTH ? dim3(1, grid.y) : grid, THREADS, shared, a, tiles,
	       part);
}

template <enum row_op WHAT> static void run_length(struct rf_dev *d, struct length a, bool operand)
{
	const size_t rows = (size_t)a.rows;

	if (!a.rows || (!a.n && WHAT != LENGTH))
		return;
	if (WHAT == LENGTH)
		rf_cuda_rounded_wrote(d, a.y, rows);
	if (WHAT == RENORM)
		a.half = rf_cuda_rounded_copy(d, a.y, rows, a.n, a.n, operand);
	rf_cuda_rounded_wrote(d, a.dx, rows * a.n);
	rf_cuda_rounded_wrote(d, a.dlength, rows);
	if (aligned(a.x, a.dy, WHAT == LENGTH ? NULL : a.y, a.dx) && a.n % 4 == 0)
		run_rows<WHAT, true>(d, a);
	else
		run_rows<WHAT, false>(d, a);
}

void rf_cuda_length_fwd(struct rf_dev *d, const struct rf_length_fwd *p)
{
	run_length<LENGTH>(d, { p->rows, p->n, 0, f32(p->x), NULL, NULL, f32(p->y), NULL, NULL, NULL },
	                   false);
}

void rf_cuda_renorm_fwd(struct rf_dev *d, const struct rf_renorm_fwd *p)
{
	run_length<RENORM>(d,
	                   { p->rows, p->n, p->eps, f32(p->x), f32(p->length), NULL, f32(p->y), NULL, NULL,
	                     NULL },
	                   p->operand);
}

void rf_cuda_renorm_bwd(struct rf_dev *d, const struct rf_renorm_bwd *p)
{
	run_length<BACK>(d,
	                 { p->rows, p->n, p->eps, f32(p->x), f32(p->length), f32(p->dy), NULL, f32(p->dx),
	                   f32(p->dlength), NULL },
	                 false);
}

struct length_back {
	size_t n;
	const float *x, *length, *dlength;
	float *dx;

	template <int W> __device__ void at(size_t row, size_t i) const
	{
		const float factor = length[row] > 0 ? dlength[row] / length[row] : 0;
		const numbers<W> v = load_numbers<W>(x + row * n + i);
		numbers<W> to = load_numbers<W>(dx + row * n + i);

		for (int k = 0; k < W; k++)
			to[k] += factor * v[k];
		store_numbers<W>(dx + row * n + i, to);
	}
};

void rf_cuda_length_bwd(struct rf_dev *d, const struct rf_length_bwd *p)
{
	const struct length_back f = { p->n, f32(p->x), f32(p->y), f32(p->dy), f32(p->dx) };

	rf_cuda_rounded_wrote(d, f.dx, (size_t)p->rows * p->n);
	sweep(d, "length_bwd", (size_t)p->rows, p->n, aligned(f.x, f.dx) && p->n % 4 == 0, f);
}

/* ---- the update: momentum, the diagonal ---------------------------------------------------- */

struct momentum {
	size_t n;
	float factor;
	const float *x, *p, *m;
	float *y;

	template <int W> __device__ void at(size_t h, size_t i) const
	{
		const float c = factor * m[h];
		const numbers<W> was = load_numbers<W>(p + h * n + i);
		numbers<W> v = load_numbers<W>(x + h * n + i);

		for (int k = 0; k < W; k++)
			v[k] += c * was[k];
		store_numbers<W>(y + h * n + i, v);
	}
};

void rf_cuda_momentum_fwd(struct rf_dev *d, const struct rf_momentum_fwd *a)
{
	const struct momentum f = { a->n, a->factor, f32(a->x), f32(a->p), f32(a->m), f32(a->y) };

	rf_cuda_rounded_wrote(d, f.y, (size_t)a->H * a->n);
	sweep(d, "momentum_fwd", (size_t)a->H, a->n, aligned(f.x, f.p, f.y) && a->n % 4 == 0, f);
}

template <bool WIDE>
static __global__ void __launch_bounds__(THREADS)
	momentum_bwd(int H, size_t n, float factor, const float *p, const float *m, const float *dy,
                     float *dp, double *part)
{
	SHARED(s);
	float *scratch = s.take<float>(32);
	const size_t first = (size_t)blockIdx.x * SPAN, last = first + SPAN < n ? first + SPAN : n;

	for (size_t h = blockIdx.y; h < (size_t)H; h += gridDim.y) {
		const float c = factor * m[h];
		float sum[1] = { 0 };

		for (size_t i = first + 4 * threadIdx.x; i < last; i += 4 * THREADS) {
			const size_t at = h * n + i, left = last - i;
			const numbers<4> t = load_four<WIDE>(dy + at, left),
					 was = load_four<WIDE>(p + at, left);
			numbers<4> to = load_four<WIDE>(dp + at, left);

			for (int k = 0; k < 4; k++) {
				sum[0] += t[k] * was[k];
				to[k] += c * t[k];
			}
			store_four<WIDE>(dp + at, left, to);
		}
		row_sums<true>(sum, scratch);
		if (threadIdx.x == 0)
			part[h * gridDim.x + blockIdx.x] = (double)sum[0];
	}
}

static __global__ void __launch_bounds__(THREADS)
	momentum_sums(float factor, size_t tiles, const double *part, float *dm)
{
	SHARED(s);
	const double sum = sum_tiles(part + blockIdx.x * tiles, tiles, 1, s.take<double>(33));

	if (threadIdx.x == 0)
		dm[blockIdx.x] += (float)(sum * (double)factor);
}

void rf_cuda_momentum_bwd(struct rf_dev *d, const struct rf_momentum_bwd *a)
{
	const size_t tiles = tiles_of(a->n);
	const dim3 grid((unsigned)tiles, (unsigned)(a->H < DOWN ? a->H : DOWN));
	double *part =
		a->H && tiles ? (double *)rf_cuda_scratch(d, (size_t)a->H * tiles * sizeof *part) : NULL;

	if (!part)
		return;
	rf_cuda_rounded_wrote(d, f32(a->dp), (size_t)a->H * a->n);
	rf_cuda_rounded_wrote(d, f32(a->dm), (size_t)a->H);
	if (aligned(f32(a->p), f32(a->dy), f32(a->dp)) && a->n % 4 == 0)
		LAUNCH(d, momentum_bwd<true>, grid, THREADS, shared_size(32, sizeof(float)), a->H, a->n,
		       a->factor, f32(a->p), f32(a->m), f32(a->dy), f32(a->dp), part);
	else
		LAUNCH(d, momentum_bwd<false>, grid, THREADS, shared_size(32, sizeof(float)), a->H, a->n,
		       a->factor, f32(a->p), f32(a->m), f32(a->dy), f32(a->dp), part);
	LAUNCH(d, momentum_sums, (unsigned)a->H, THREADS, shared_size(33, sizeof(double)), a->factor, tiles,
	       part, f32(a->dm));
}

struct diagonal {
	size_t stride, step;
	float value, *y;

	template <int W> __device__ void at(size_t matrix, size_t i) const
	{
		y[matrix * stride + i * step] += value;
	}
};

void rf_cuda_diagonal(struct rf_dev *d, const struct rf_diagonal *a)
{
	const struct diagonal f = { a->stride, (size_t)a->cols + 1, a->value, f32(a->y) };

	rf_cuda_rounded_wrote(d, f.y, (size_t)a->mats * a->stride);
	sweep_by<1>(d, "diagonal", (size_t)a->mats, (size_t)(a->rows < a->cols ? a->rows : a->cols), f);
}
