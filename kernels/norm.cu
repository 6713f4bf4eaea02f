/* norm.cu -- RMSNorm with an optional gate, forward and backward.
 *
 * Both are bound by memory.  Forward moves 8 bytes per number (12 with a gate); backward moves 12, 16 if it
 * adds to dx, 24 with a gate; each rounded copy of a result takes 2 more.  At T 16384 and d 2048 (134 MB a
 * matrix) that is 0.09 ms and 0.18 ms.  A row is read twice, the second time from the first level cache: a
 * warp has a row of up to 256 numbers (16 heads of 128 are a row of the model), a block has a longer row,
 * with 8 numbers per thread.  The gradient of w, a sum over all rows, is computed in the same pass, in shared
 * memory, where each thread adds to the columns that it computes anyway; a separate pass would read x and dy
 * again, 8 bytes more.  The result is one sum for each of 1024 strips of rows, 8 MB to write and to add.
 *
 * A gradient is a difference of nearly equal numbers, and the narrower a row is, the smaller is the
 * difference: for a row of one number only eps / x^2.  So short rows whose width is no multiple of four are
 * computed in double; no large tensor has such rows. */
#include <type_traits>

#include "cuda/sweep.h"

struct norm {
	int rows, d, per; /* per: rows of a strip */
	size_t ldx;
	float eps, one; /* one: the number that is added to w */
	bool add, row_gate;
	const float *x, *w, *gate, *dy;
	float *y, *dx, *dgate, *part; /* part (strips, d): each strip's share of dw */
	bf16 *half, *gate_half;       /* half: y or dx rounded; gate_half: dgate rounded; rows of d; NULL:
	                                  not wanted */
};

enum { WARP_ROW = 256, WARPS = 8, MOST = 1024 };

/* Returns the number of this thread within its row, which belongs to a warp or, with BLOCK, to a block. */
template <bool BLOCK> static __device__ __forceinline__ int lane_of_row()
{
	return BLOCK ? threadIdx.x : threadIdx.x & 31;
}
template <bool BLOCK> static __device__ __forceinline__ int lanes_of_row() { return BLOCK ? blockDim.x : 32; }

/* Returns the gate's numbers from j on of row i. */
template <bool WIDE> static __device__ __forceinline__ numbers<4> gate_at(const struct norm &a, int i, int j)
{
	if (a.row_gate) {
		const float z = a.gate[i];
		return { { z, z, z, z } };
	}
	return load_four<WIDE>(a.gate + (size_t)i * a.d + j, (size_t)(a.d - j));
}

template <bool BLOCK, bool WIDE> static __global__ void __launch_bounds__(MOST) norm_fwd(struct norm a)
{
	SHARED(s);
	float *scratch = s.take<float>(32);
	const int i = BLOCK ? blockIdx.x : blockIdx.x * WARPS + threadIdx.x / 32,
		  step = 4 * lanes_of_row<BLOCK>();

	if (i >= a.rows)
		return;
	const float *x = a.x + (size_t)i * a.ldx;
	float *y = a.y + (size_t)i * a.d, sum[1] = { 0 }, r;

	for (int j = 4 * lane_of_row<BLOCK>(); j < a.d; j += step) {
		const numbers<4> v = load_four<WIDE>(x + j, (size_t)(a.d - j));

		for (int k = 0; k < 4; k++)
			sum[0] += v[k] * v[k];
	}
	row_sums<BLOCK>(sum, scratch);
	/* squares that overflow must not pass as numbers */
	r = 1.f / sqrtf(sum[0] / (float)a.d + a.eps) + (sum[0] - sum[0]);
	for (int j = 4 * lane_of_row<BLOCK>(); j < a.d; j += step) {
		const size_t left = (size_t)(a.d - j);
		const numbers<4> w = load_four<WIDE>(a.w + j, left);
		numbers<4> v = load_four<WIDE>(x + j, left);

		for (int k = 0; k < 4; k++)
			v[k] *= r * (w[k] + a.one);
		if (a.gate) {
			const numbers<4> z = gate_at<WIDE>(a, i, j);

			for (int k = 0; k < 4; k++)
				v[k] *= z[k] * sigmoid(z[k]);
		}
		store_four<WIDE>(y + j, left, v);
		if (a.half)
			store_four_bf16<WIDE>(a.half + (size_t)i * a.d + j, left, v);
	}
}

/* Computes the gradients of a row.  With n = x r, r = 1 / rms, g = dy silu(gate):
 *
 *     dx = r (g w - n mean(g w n)),  dw = sum over rows of g n,  dgate = dy n w silu'(gate)
 *
 * where dgate is summed over the row if the row has a single gate. */
template <bool BLOCK, bool WIDE, class real>
static __device__ __forceinline__ void norm_bwd_row(const struct norm &a, int i, real *scratch, float *dw)
{
	const int first = 4 * lane_of_row<BLOCK>(), step = 4 * lanes_of_row<BLOCK>();
	const float *x = a.x + (size_t)i * a.ldx, *dy = a.dy + (size_t)i * a.d;
	float *dx = a.dx + (size_t)i * a.ldx;
	real sum[2] = { 0, 0 }, r, m;
	const bool gates = a.gate && !a.row_gate;

	for (int j = first; j < a.d; j += step) {
		const size_t left = (size_t)(a.d - j);
		const numbers<4> v = load_four<WIDE>(x + j, left), g = load_four<WIDE>(dy + j, left),
				 w = load_four<WIDE>(a.w + j, left);
		numbers<4> open = { { 1, 1, 1, 1 } }; /* silu(gate) */

		if (gates) {
			open = gate_at<WIDE>(a, i, j);
			for (int k = 0; k < 4; k++)
				open[k] *= sigmoid(open[k]);
		}
		for (int k = 0; k < 4; k++) {
			sum[0] += (real)v[k] * v[k];
			sum[1] += (real)g[k] * open[k] * (w[k] + a.one) * v[k];
		}
	}
	row_sums<BLOCK>(sum, scratch);
	r = 1 / sqrt(sum[0] / a.d + a.eps) + (sum[0] - sum[0]);
	m = sum[1] * r;
	if (a.row_gate && a.gate) {
		const float z = a.gate[i], s = sigmoid(z);

		if (first == 0)
			a.dgate[i] = (float)m * silu_slope(z, s);
		m *= z * s;
	}
	m /= a.d;
	for (int j = first; j < a.d; j += step) {
		const size_t left = (size_t)(a.d - j);
		const numbers<4> v = load_four<WIDE>(x + j, left), w = load_four<WIDE>(a.w + j, left);
		const numbers<4> g = load_four<WIDE>(dy + j, left);
		numbers<4> open = { { 1, 1, 1, 1 } }, to = { { 0, 0, 0, 0 } };

		if (a.gate) {
			const numbers<4> z = gate_at<WIDE>(a, i, j);
			numbers<4> dz;

			for (int k = 0; k < 4; k++) {
				const float s = sigmoid(z[k]);

				dz[k] = g[k] * v[k] * (float)r * (w[k] + a.one) * silu_slope(z[k], s);
				open[k] = z[k] * s;
			}
			if (gates)
				store_four<WIDE>(a.dgate + (size_t)i * a.d + j, left, dz);
			if (a.gate_half)
				store_four_bf16<WIDE>(a.gate_half + (size_t)i * a.d + j, left, dz);
		}
		if (a.add)
			to = load_four<WIDE>(dx + j, left);
		for (int k = 0; k < 4; k++) {
			const real n = v[k] * r, t = (real)g[k] * open[k];

			to[k] += (float)(r * (t * (w[k] + a.one) - n * m));
			if (WIDE || (size_t)k < left)
				dw[j + k] += (float)(t * n);
		}
		store_four<WIDE>(dx + j, left, to);
		if (a.half)
			store_four_bf16<WIDE>(a.half + (size_t)i * a.d + j, left, to);
	}
}

/* Computes the gradients.  A block has a strip of rows, which it computes one after the other, or with one
 * warp per row. */
template <bool BLOCK, bool WIDE> static __global__ void __launch_bounds__(MOST) norm_bwd(struct norm a)
{
	using real = typename std::conditional<BLOCK || WIDE, float, double>::type;
	SHARED(s);
	real *scratch = s.take<real>(64);
	float *dw = s.take<float>((BLOCK ? 1 : WARPS) * a.d);
	const int warp = threadIdx.x / 32, first = blockIdx.x * a.per,
		  last = first + a.per < a.rows ? first + a.per : a.rows;

	if (!BLOCK)
		dw += warp * a.d;
	/* a thread has the same columns in all loops below */
	for (int j = 4 * lane_of_row<BLOCK>(); j < a.d; j += 4 * lanes_of_row<BLOCK>())
		for (int k = j; k < j + 4 && k < a.d; k++)
			dw[k] = 0;
	for (int i = BLOCK ? first : first + warp; i < last; i += BLOCK ? 1 : WARPS)
		norm_bwd_row<BLOCK, WIDE, real>(a, i, scratch, dw);
	float *part = a.part + (size_t)blockIdx.x * a.d;

	if (BLOCK) {
		for (int j = 4 * threadIdx.x; j < a.d; j += 4 * blockDim.x)
			for (int k = j; k < j + 4 && k < a.d; k++)
				part[k] = dw[k];
		return;
	}
	dw -= warp * a.d;
	__syncthreads();
	for (int j = threadIdx.x; j < a.d; j += blockDim.x) {
		float sum = dw[j];

		for (int k = 1; k < WARPS; k++)
			sum += dw[k * a.d + j];
		part[j] = sum;
	}
}

/* Returns the threads of a block that computes one row at a time. */
static int block_of(int d)
{
	const int warps = (d + 8 * 32 - 1) / (8 * 32);

	return 32 * (warps < 2 ? 2 : warps > MOST / 32 ? MOST / 32 : warps);
}

void rf_cuda_rmsnorm_fwd(struct rf_dev *d, const struct rf_rmsnorm_fwd *p)
{
	struct norm a = {};
	bool wide;

	if (!p->rows || !p->d)
		return;
	a.rows = p->rows, a.d = p->d, a.ldx = (size_t)(p->ldx ? p->ldx : p->d), a.eps = p->eps,
	a.one = p->plus_one, a.row_gate = p->row_gate;
	a.x = f32(p->x), a.w = f32(p->w), a.gate = f32(p->gate), a.y = f32(p->y);
	wide = aligned(a.x, a.w, a.row_gate ? NULL : a.gate, a.y) && a.d % 4 == 0 && a.ldx % 4 == 0;
	a.half = rf_cuda_rounded_copy(d, a.y, (size_t)a.rows, (size_t)a.d, (size_t)a.d, p->operand);
	const int blocks = (a.rows + WARPS - 1) / WARPS;
	const size_t shared = shared_size(32, 4);

	if (a.d > WARP_ROW && wide)
		LAUNCH(d, (norm_fwd<true, true>), a.rows, block_of(a.d), shared, a);
	else if (a.d > WARP_ROW)
		LAUNCH(d, (norm_fwd<true, false>), a.rows, block_of(a.d), shared, a);
	else if (wide)
		LAUNCH(d, (norm_fwd<false, true>), blocks, 32 * WARPS, shared, a);
	else
		LAUNCH(d, (norm_fwd<false, false>), blocks, 32 * WARPS, shared, a);
}

void rf_cuda_rmsnorm_bwd(struct rf_dev *d, const struct rf_rmsnorm_bwd *p)
{
	const bool block = p->d > WARP_ROW;
	struct norm a = {};
	size_t size = 0;
	double *sums;
	void *scratch;
	int strips;
	bool wide;

	if (!p->rows || !p->d)
		return;
	a.rows = p->rows, a.d = p->d, a.ldx = (size_t)(p->ldx ? p->ldx : p->d), a.eps = p->eps,
	a.one = p->plus_one, a.row_gate = p->row_gate;
	a.add = p->add, a.x = f32(p->x), a.w = f32(p->w), a.gate = f32(p->gate), a.dy = f32(p->dy),
	a.dx = f32(p->dx), a.dgate = f32(p->dgate);
	wide = aligned(a.x, a.w, a.row_gate ? NULL : a.gate, a.dy, a.dx, a.row_gate ? NULL : a.dgate) &&
	       a.d % 4 == 0 && a.ldx % 4 == 0;
	a.per = strip_rows(a.rows, block ? 4 : 4 * WARPS);
	strips = (a.rows + a.per - 1) / a.per;
	const size_t parts = (size_t)strips * a.d, many = rf_cuda_many_room(strips, (size_t)a.d);

	rf_cuda_piece<float>(NULL, &size, parts);
	rf_cuda_piece<double>(NULL, &size, many);
	if (!(scratch = rf_cuda_scratch(d, size)))
		return;
	size = 0;
	a.part = rf_cuda_piece<float>(scratch, &size, parts);
	sums = rf_cuda_piece<double>(scratch, &size, many);
	a.half = rf_cuda_rounded_copy(d, a.dx, (size_t)a.rows, (size_t)a.d, a.ldx, p->operand);
	if (a.gate) {
		const size_t width = a.row_gate ? 1 : (size_t)a.d;

		a.gate_half = rf_cuda_rounded_copy(d, a.dgate, (size_t)a.rows, width, width, !a.row_gate);
	}
	const size_t shared =
		shared_size(64, sizeof(double)) + shared_size((size_t)(block ? 1 : WARPS) * a.d, 4);

	if (block && wide)
		LAUNCH(d, (norm_bwd<true, true>), strips, block_of(a.d), shared, a);
	else if (block)
		LAUNCH(d, (norm_bwd<true, false>), strips, block_of(a.d), shared, a);
	else if (wide)
		LAUNCH(d, (norm_bwd<false, true>), strips, 32 * WARPS, shared, a);
	else
		LAUNCH(d, (norm_bwd<false, false>), strips, 32 * WARPS, shared, a);
	rf_cuda_add_many(d, a.part, strips, (size_t)a.d, sums, f32(p->dw));
}
