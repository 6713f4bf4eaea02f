/* rope.cu -- rotary embedding (Su et al. 2021, arXiv:2104.09864); column i is rotated with column
 * i + rotary / 2.
 *
 * It is bound by memory: 8 bytes per number, 10 with a rounded copy for products, 0.09 ms at T 16384 and 2048
 * columns.  A thread has one frequency of one row, for all heads, so each angle is computed once: about 10
 * operations in double, for 1 M angles at 64 frequencies.  An H100 does 33 TFLOP/s in double; a card that has
 * a 64th of float32's rate does 1.  Frequencies are powers, which would cost ten times as much, so a block
 * computes its frequencies once for all of its rows. */
#include "cuda/sweep.h"

struct rope {
	int nb, rows, heads, D, half, rotary, from; /* rotary: columns that are rotated, 2 half */
	size_t ldx, ldy;
	float sign;
	double theta;
	const int32_t *past_len;
	const float *x; /* may be y */
	float *y;
	bf16 *to; /* y rounded, without gaps */
};

enum { THREADS = 256, AHEAD = 4 };

/* Sets c and s to cos and sin of a.  The angle is reduced to [-pi/4, pi/4] in double, since positions are
 * large; in that range the polynomials of Cephes' sinf and cosf are good to 1e-7. */
static __device__ __forceinline__ void angle(double a, float *c, float *s)
{
	const double half_pi = 1.57079632679489661923, k = rint(a * (1 / half_pi));
	const float x = (float)(a - k * half_pi), y = x * x;
	const float sine = x + x * y * (-1.6666654611e-1f + y * (8.3321608736e-3f + y * -1.9515295891e-4f));
	const float cosine =
		1 - 0.5f * y +
		y * y * (4.166664568298827e-2f + y * (-1.388731625493765e-3f + y * 2.443315711809948e-5f));
	const int quarter = (int)k;
	const float u = quarter & 1 ? sine : cosine, v = quarter & 1 ? cosine : sine;

	*c = (quarter + 1) & 2 ? -u : u;
	*s = quarter & 2 ? -v : v;
}

/* Rotates rows.  ROUNDED: also writes a rounded copy to a.to. */
template <bool ROUNDED> static __global__ void __launch_bounds__(THREADS) turn_rows(struct rope a)
{
	SHARED(shared);
	double *freq = shared.take<double>(THREADS);
	const int i = blockIdx.y * blockDim.x + threadIdx.x;

	if (threadIdx.y == 0)
		freq[threadIdx.x] = pow(a.theta, -2.0 * i / a.rotary);
	__syncthreads();
	for (int row = blockIdx.x * blockDim.y + threadIdx.y; row < a.rows; row += gridDim.x * blockDim.y) {
		const float *x = a.x + (size_t)row * a.ldx;
		float *y = a.y + (size_t)row * a.ldy, c, s;
		bf16 *r = ROUNDED ? a.to + (size_t)row * a.heads * a.D + i : NULL;

		if (i < a.half) {
			angle((double)((a.past_len ? a.past_len[row % a.nb] : 0) + a.from + row / a.nb) *
			              freq[threadIdx.x],
			      &c, &s);
			s *= a.sign;
			/* several heads are loaded at once: since y may be x, the compiler moves no load
			 * before a store */
			for (int h = 0; h < a.heads; h += AHEAD) {
				const float *p = x + (size_t)h * a.D + i;
				float *q = y + (size_t)h * a.D + i, x0[AHEAD], x1[AHEAD];

				for (int k = 0; k < AHEAD; k++)
					if (h + k < a.heads) {
						x0[k] = p[(size_t)k * a.D];
						x1[k] = p[(size_t)k * a.D + a.half];
					}
				for (int k = 0; k < AHEAD; k++)
					if (h + k < a.heads) {
						const float first = x0[k] * c - x1[k] * s,
							    second = x1[k] * c + x0[k] * s;

						q[(size_t)k * a.D] = first;
						q[(size_t)k * a.D + a.half] = second;
						if constexpr (ROUNDED) {
							bf16 *to = r + (size_t)(h + k) * a.D;

							to[0] = __float2bfloat16(first);
							to[a.half] = __float2bfloat16(second);
						}
					}
			}
		}
		for (int h = 0; x != y && blockIdx.y == 0 && h < a.heads; h++)
			for (int j = a.rotary + threadIdx.x; j < a.D; j += blockDim.x)
				y[(size_t)h * a.D + j] = x[(size_t)h * a.D + j];
	}
}

void rf_cuda_rope(struct rf_dev *d, const struct rf_rope *p)
{
	struct rope a = {};
	unsigned x = 32;
	size_t blocks;

	a.nb = p->nb, a.rows = p->nb * p->steps, a.heads = p->heads, a.D = p->D,
	a.rotary = p->rotary ? p->rotary : p->D, a.half = a.rotary / 2;
	a.from = p->from, a.ldx = (size_t)(p->ldx ? p->ldx : p->heads * p->D),
	a.ldy = (size_t)(p->ldy ? p->ldy : p->heads * p->D);
	a.sign = p->inverse ? -1.f : 1.f, a.theta = p->theta, a.past_len = i32(p->past_len), a.x = f32(p->x),
	a.y = f32(p->y);
	if (!a.rows || !a.heads || !a.half)
		return;
	while (x < THREADS && x < (unsigned)a.half)
		x *= 2;
	blocks = ((size_t)a.rows + THREADS / x - 1) / (THREADS / x);
	if (blocks > 8 * (size_t)cuda_of(d)->sms)
		blocks = 8 * (size_t)cuda_of(d)->sms;
	const dim3 grid((unsigned)blocks, (unsigned)((a.half + (int)x - 1) / (int)x)), block(x, THREADS / x);

	a.to = rf_cuda_rounded_copy(d, a.y, (size_t)a.rows, (size_t)a.heads * a.D, a.ldy,
	                            p->operand && 2 * a.half == a.D);
	if (a.to)
		LAUNCH(d, turn_rows<true>, grid, block, shared_size(THREADS, sizeof(double)), a);
	else
		LAUNCH(d, turn_rows<false>, grid, block, shared_size(THREADS, sizeof(double)), a);
}
