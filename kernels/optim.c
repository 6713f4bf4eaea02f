/* optim.c -- the optimizer's operations on flat buffers: dot products, AdamW, sums, exact sums. */
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/vec.h"

/* elements of a tile */
enum { SPAN = RF_DOT_TILE };

struct job {
	size_t n;
	const float *x, *y;
	double *part; /* one sum per tile */
	struct rf_adamw opt;
	float *w, *m, *v, *out;
	int64_t *sum;
	uint32_t *largest; /* one maximum per tile */
	float scale;
	bool add;
};

static void dot_tile(void *arg, int tile, int thread)
{
	const struct job *a = arg;
	size_t i = (size_t)tile * SPAN, last = i + SPAN < a->n ? i + SPAN : a->n;
	double s[8] = { 0 };

	(void)thread;
	for (; i + 8 <= last; i += 8)
		for (int j = 0; j < 8; j++)
			s[j] += (double)a->x[i + (size_t)j] * (double)a->y[i + (size_t)j];
	for (; i < last; i++)
		s[0] += (double)a->x[i] * (double)a->y[i];
	a->part[tile] = ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7]));
}

void KERNEL(dot)(struct rf_dev *d, const struct rf_dot *x)
{
	struct job a = {
		.n = x->n, .x = cpu_f32(d, x->x), .y = cpu_f32(d, x->y), .part = cpu_f64(d, x->out)
	};

	cpu_tiles(d, (int)((a.n + SPAN - 1) / SPAN), dot_tile, &a);
}

static void adamw_tile(void *arg, int tile, int thread)
{
	const struct job *a = arg;
	const struct rf_adamw *o = &a->opt;
	size_t i = (size_t)tile * SPAN, last = i + SPAN < a->n ? i + SPAN : a->n;
	/* 1 - b2 and the like are formed in double: in float 1 - 0.999 is off by 1e-5 */
	float scale = (float)o->scale, b1 = (float)o->b1, a1 = (float)(1 - o->b1), b2 = (float)o->b2,
	      a2 = (float)(1 - o->b2);
	float r1 = (float)(1 / o->c1), r2 = (float)(1 / o->c2), eps = (float)o->eps, lr = (float)o->lr,
	      decay = (float)o->decay;

	(void)thread;
	for (; i < last; i++) {
		float g = a->x[i] * scale;

		a->m[i] = b1 * a->m[i] + a1 * g;
		a->v[i] = b2 * a->v[i] + a2 * g * g;
		a->w[i] -= lr * (decay * a->w[i] + a->m[i] * r1 / (sqrtf(a->v[i] * r2) + eps));
	}
}

void KERNEL(adamw)(struct rf_dev *d, const struct rf_adamw *x)
{
	/* clang-format off */
	struct job a = { .n = x->n, .x = cpu_f32(d, x->g), .opt = *x, .w = cpu_f32(d, x->w),
	                 .m = cpu_f32(d, x->m), .v = cpu_f32(d, x->v) };
	/* clang-format on */

	cpu_tiles(d, (int)((a.n + SPAN - 1) / SPAN), adamw_tile, &a);
	rf_cpu_gemm_forget(d, a.w, a.n * 4);
}

static void axpy_tile(void *arg, int tile, int thread)
{
	const struct job *a = arg;
	size_t i = (size_t)tile * SPAN, last = i + SPAN < a->n ? i + SPAN : a->n;

	(void)thread;
	for (; i < last; i++)
		a->out[i] = a->add ? a->out[i] + a->scale * a->x[i] : a->scale * a->x[i];
}

void KERNEL(axpy)(struct rf_dev *d, const struct rf_axpy *x)
{
	struct job a = {
		.n = x->n, .x = cpu_f32(d, x->x), .out = cpu_f32(d, x->y), .scale = x->scale, .add = x->add
	};

	cpu_tiles(d, (int)((a.n + SPAN - 1) / SPAN), axpy_tile, &a);
}

/* Returns the bits of |x|.  As integers, bits have the order of the numbers, and NaN is above all numbers. */
static uint32_t size_bits(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof bits);
	return bits & 0x7fffffff;
}

static const uint32_t infinite = 0x7f800000;

/* Returns y rounded to an integer, for |y| < 2^51: near 2^52 + 2^51 every double is an integer. */
static double to_integer(double y)
{
	const double magic = 6755399441055744.; /* 2^52 + 2^51 */

	return (y + magic) - magic;
}

/* Adds a tile.  No level below AVX-512 converts floats to 64-bit integers, so the number of units is split
 * into a multiple of 2^26 and a rest, each of which fits into 32 bits. */
static void sum_add_tile(void *arg, int tile, int thread)
{
	const struct job *a = arg;
	const size_t first = (size_t)tile * SPAN, last = first + SPAN < a->n ? first + SPAN : a->n;
	const double units = 1 / (double)a->scale;
	const float most = a->scale * (float)RF_SUM_MOST;
	float *restrict x = a->out;
	uint64_t *restrict sum = (uint64_t *)a->sum; /* unsigned, because a sum that is too large wraps; it is
	                                                not used */
	uint32_t largest = 0;

	(void)thread;
	for (size_t i = first; i < last; i++) {
		const uint32_t bits = size_bits(x[i]);
		const double y = fabsf(x[i]) <= most ? (double)x[i] * units : 0;
		const double high = to_integer(y * 0x1p-26), low = to_integer(y - high * 0x1p26);

		sum[i] += (uint64_t)((int64_t)(int32_t)high * (1 << 26) + (int32_t)low);
		x[i] = 0;
		largest = bits > largest ? bits : largest;
	}
	a->largest[tile] = largest;
}

void KERNEL(sum_add)(struct rf_dev *d, const struct rf_sum_add *x)
{
	const int tiles = (int)((x->n + SPAN - 1) / SPAN);
	struct job a = { .n = x->n, .out = cpu_f32(d, x->x), .sum = cpu_i64(d, x->sum), .scale = x->unit };
	float *out = cpu_f32(d, x->largest);
	uint32_t largest = size_bits(*out);

	if (!(a.largest = rf_cpu_scratch(d, -1, (size_t)(tiles ? tiles : 1) * sizeof *a.largest)))
		return;
	cpu_tiles(d, tiles, sum_add_tile, &a);
	for (int i = 0; i < tiles; i++)
		largest = a.largest[i] > largest ? a.largest[i] : largest;
	largest = largest > infinite ? infinite : largest;
	memcpy(out, &largest, sizeof largest);
}

static void sum_take_tile(void *arg, int tile, int thread)
{
	const struct job *a = arg;
	size_t i = (size_t)tile * SPAN, last = i + SPAN < a->n ? i + SPAN : a->n;

	(void)thread;
	for (; i < last; i++)
		a->out[i] = (float)a->sum[i] * a->scale;
}

void KERNEL(sum_take)(struct rf_dev *d, const struct rf_sum_take *x)
{
	struct job a = { .n = x->n, .sum = cpu_i64(d, x->sum), .out = cpu_f32(d, x->y), .scale = x->unit };

	cpu_tiles(d, (int)((a.n + SPAN - 1) / SPAN), sum_take_tile, &a);
}
