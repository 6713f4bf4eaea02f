/* act.cu -- gates: SwiGLU, a sigmoid, and the decay of Gated DeltaNet, forward and backward.
 *
 * These operations are bound by memory.  SwiGLU moves 14 bytes per number forward and 30 backward, including
 * 2 and 6 bytes of rounded copies for products: 0.45 and 0.95 ms at T 16384 and F 5632 (369 MB a matrix).  A
 * sigmoid, 30 instructions per 14 bytes, needs a third of what the multiprocessors can do in that time.
 * Decays are one number per row and head, in double: 0.26 M numbers at T 16384, which take negligible
 * time. */
#include "cuda/sweep.h"

/* ---- SwiGLU -------------------------------------------------------------------------------- */

struct swiglu {
	size_t d, ld; /* d: width of a row; ld: distance of rows of gate and up */
	const float *gate, *up, *dy;
	float *dgate, *dup, *y;
	bf16 *half, *dhalf; /* half: y rounded; dhalf: dgate and dup rounded, adjacent; NULL: not wanted */
};

struct swiglu_forward : swiglu {
	template <int W> __device__ void at(size_t i, size_t j) const
	{
		const numbers<W> g = load_numbers<W>(gate + i * ld + j), u = load_numbers<W>(up + i * ld + j);
		numbers<W> out;

		for (int k = 0; k < W; k++)
			out[k] = g[k] * sigmoid(g[k]) * u[k];
		store_numbers<W>(y + i * d + j, out);
		if (half)
			store_numbers_bf16<W>(half + i * d + j, out);
	}
};

struct swiglu_backward : swiglu {
	template <int W> __device__ void at(size_t i, size_t j) const
	{
		const numbers<W> g = load_numbers<W>(gate + i * ld + j), u = load_numbers<W>(up + i * ld + j),
				 by = load_numbers<W>(dy + i * d + j);
		numbers<W> dg, du, out;

		for (int k = 0; k < W; k++) {
			const float s = sigmoid(g[k]);

			dg[k] = by[k] * u[k] * silu_slope(g[k], s);
			du[k] = by[k] * g[k] * s;
			out[k] = g[k] * s * u[k];
		}
		store_numbers<W>(dgate + i * ld + j, dg);
		store_numbers<W>(dup + i * ld + j, du);
		if (dhalf) {
			store_numbers_bf16<W>(dhalf + i * 2 * d + j, dg);
			store_numbers_bf16<W>(dhalf + i * 2 * d + d + j, du);
		}
		if (y)
			store_numbers<W>(y + i * d + j, out);
		if (half)
			store_numbers_bf16<W>(half + i * d + j, out);
	}
};

/* Rows without a gap between them are treated as one row. */
template <class F>
static void run_swiglu(struct rf_dev *d, const char *name, size_t n, int width, int ld, F f)
{
	const bool rows = width && ld != width;

	f.d = rows ? (size_t)width : n;
	f.ld = rows ? (size_t)ld : n;
	if (!n)
		return;
	const size_t R = rows ? n / f.d : 1;

	if (f.dgate && f.dup == f.dgate + f.d && f.ld == 2 * f.d) {
		f.dhalf = rf_cuda_rounded_copy(d, f.dgate, R, 2 * f.d, f.ld, true);
	} else if (f.dgate) {
		rf_cuda_all_wrote(d, (R - 1) * f.ld + f.d, f.dgate, f.dup);
	}
	if (f.y)
		f.half = rf_cuda_rounded_copy(d, f.y, R, f.d, f.d, true);
	sweep(d, name, R, f.d,
	      aligned(f.gate, f.up, f.dy, f.dgate, f.dup, f.y) && f.d % 4 == 0 && f.ld % 4 == 0, f);
}

void rf_cuda_swiglu_fwd(struct rf_dev *d, const struct rf_swiglu_fwd *a)
{
	struct swiglu_forward f = {};

	f.gate = f32(a->gate), f.up = f32(a->up), f.y = f32(a->y);
	run_swiglu(d, "swiglu_fwd", a->n, a->d, a->ld, f);
}

void rf_cuda_swiglu_bwd(struct rf_dev *d, const struct rf_swiglu_bwd *a)
{
	struct swiglu_backward f = {};

	f.gate = f32(a->gate), f.up = f32(a->up), f.dy = f32(a->dy), f.dgate = f32(a->dgate),
	f.dup = f32(a->dup), f.y = f32(a->y);
	run_swiglu(d, "swiglu_bwd", a->n, a->d, a->ld, f);
}

/* ---- a sigmoid ----------------------------------------------------------------------------- */

struct gate {
	size_t d, ldg;
	const float *x, *gates, *dy;
	float *y, *dx, *dgate;
	bf16 *half; /* y rounded; NULL: not wanted */
};

struct gate_forward : gate {
	template <int W> __device__ void at(size_t i, size_t j) const
	{
		const numbers<W> g = load_numbers<W>(gates + i * ldg + j);
		numbers<W> v = load_numbers<W>(x + i * d + j);

		for (int k = 0; k < W; k++)
			v[k] *= sigmoid(g[k]);
		store_numbers<W>(y + i * d + j, v);
		if (half)
			store_numbers_bf16<W>(half + i * d + j, v);
	}
};

struct gate_backward : gate {
	template <int W> __device__ void at(size_t i, size_t j) const
	{
		const numbers<W> g = load_numbers<W>(gates + i * ldg + j), v = load_numbers<W>(x + i * d + j),
				 t = load_numbers<W>(dy + i * d + j);
		numbers<W> dv, dg, out;

		for (int k = 0; k < W; k++) {
			const float s = sigmoid(g[k]);

			dv[k] = t[k] * s;
			dg[k] = t[k] * v[k] * s * (1.f - s);
			out[k] = v[k] * s;
		}
		store_numbers<W>(dx + i * d + j, dv);
		store_numbers<W>(dgate + i * ldg + j, dg);
		if (y)
			store_numbers<W>(y + i * d + j, out);
		if (half)
			store_numbers_bf16<W>(half + i * d + j, out);
	}
};

template <class F> static void run_gate(struct rf_dev *d, const char *name, int rows, int width, int ldg, F f)
{
	f.d = (size_t)width;
	f.ldg = (size_t)(ldg ? ldg : width);
	if (!rows || !width)
		return;
	rf_cuda_rounded_wrote(d, f.dx, (size_t)rows * f.d);
	rf_cuda_rounded_wrote(d, f.dgate, (size_t)(rows - 1) * f.ldg + f.d);
	if (f.y)
		f.half = rf_cuda_rounded_copy(d, f.y, (size_t)rows, f.d, f.d, true);
	sweep(d, name, (size_t)rows, f.d,
	      aligned(f.x, f.gates, f.dy, f.y, f.dx, f.dgate) && f.d % 4 == 0 && f.ldg % 4 == 0, f);
}

void rf_cuda_gate_fwd(struct rf_dev *d, const struct rf_gate_fwd *a)
{
	struct gate_forward f = {};

	f.x = f32(a->x), f.gates = f32(a->gate), f.y = f32(a->y);
	run_gate(d, "gate_fwd", a->rows, a->d, a->ldg, f);
}

void rf_cuda_gate_bwd(struct rf_dev *d, const struct rf_gate_bwd *a)
{
	struct gate_backward f = {};

	f.x = f32(a->x), f.gates = f32(a->gate), f.dy = f32(a->dy), f.dx = f32(a->dx),
	f.dgate = f32(a->dgate), f.y = f32(a->y);
	run_gate(d, "gate_bwd", a->rows, a->d, a->ldg, f);
}

/* ---- decays -------------------------------------------------------------------------------- */

/* Decays: one number per row and head, in double, since errors of the logarithm add up along a chunk. */
struct decay {
	int H;
	const float *a, *A_log, *dt_bias;
	float *g;

	template <int W> __device__ void at(size_t i, size_t h) const
	{
		const size_t j = i * H + h;

		g[j] = (float)(-exp((double)A_log[h]) * softplus((double)a[j] + (double)dt_bias[h]));
	}
};

void rf_cuda_decay_fwd(struct rf_dev *d, const struct rf_decay_fwd *a)
{
	const struct decay f = { a->H, f32(a->a), f32(a->A_log), f32(a->dt_bias), f32(a->g) };

	rf_cuda_rounded_wrote(d, f.g, (size_t)a->rows * a->H);
	sweep_by<1>(d, "decay_fwd", (size_t)a->rows, (size_t)a->H, f);
}

/* A block has 32 heads and `per` rows, and computes eight rows at a time.  part (strips, 2, H): the
 * contribution of each strip of rows to dA_log and ddt_bias. */
enum { HEADS = 32, SIDE = 8 };

static __global__ void __launch_bounds__(HEADS *SIDE)
	decay_bwd(int rows, int H, int per, const float *a, const float *A_log, const float *dt_bias,
                  const float *dg, float *da, double *part)
{
	SHARED(s);
	double *side = s.take<double>(2 * HEADS * SIDE), sum[2] = { 0, 0 }; /* sums of dA_log and ddt_bias */
	const int h = blockIdx.y * HEADS + threadIdx.x, first = blockIdx.x * per,
		  last = first + per < rows ? first + per : rows;

	if (h < H) {
		const double A = exp((double)A_log[h]), dt = (double)dt_bias[h];

		for (int i = first + threadIdx.y; i < last; i += SIDE) {
			const size_t at = (size_t)i * H + h;
			const double z = (double)a[at] + dt, t = -A * (double)dg[at], dz = t / (1 + exp(-z));

			da[at] = (float)dz;
			sum[0] += t * softplus(z);
			sum[1] += dz;
		}
	}
	for (int k = 0; k < 2; k++)
		side[(k * SIDE + threadIdx.y) * HEADS + threadIdx.x] = sum[k];
	__syncthreads();
	if (threadIdx.y >= 2 || h >= H)
		return;
	sum[0] = 0;
	for (int i = 0; i < SIDE; i++)
		sum[0] += side[(threadIdx.y * SIDE + i) * HEADS + threadIdx.x];
	part[((size_t)blockIdx.x * 2 + threadIdx.y) * H + h] = sum[0];
}

void rf_cuda_decay_bwd(struct rf_dev *d, const struct rf_decay_bwd *a)
{
	const int per = strip_rows(a->rows, 8 * SIDE), strips = (a->rows + per - 1) / per;
	const dim3 grid((unsigned)strips, (unsigned)((a->H + HEADS - 1) / HEADS)), block(HEADS, SIDE);
	const size_t H = (size_t)a->H;
	double *part;

	if (!a->rows || !H || !(part = (double *)rf_cuda_scratch(d, (size_t)strips * 2 * H * sizeof *part)))
		return;
	rf_cuda_rounded_wrote(d, f32(a->da), (size_t)a->rows * H);
	LAUNCH(d, decay_bwd, grid, block, shared_size(2 * HEADS * SIDE, sizeof(double)), a->rows, a->H, per,
	       f32(a->a), f32(a->A_log), f32(a->dt_bias), f32(a->dg), f32(a->da), part);
	rf_cuda_add_strips(d, part, strips, H, 2 * H, f32(a->dA_log), 1);
	rf_cuda_add_strips(d, part + H, strips, H, 2 * H, f32(a->ddt_bias), 1);
}
