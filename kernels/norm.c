/* norm.c -- RMSNorm with an optional gate, forward and backward. */
#include <float.h>
#include <math.h>

#include "cpu/cpu.h"
#include "cpu/vec.h"

struct norm {
	int rows, d;
	size_t ldx;
	float eps, one; /* one: the number that is added to w */
	bool add, row_gate;
	const float *x, *w, *gate, *dy;
	float *y, *dx, *dgate, *part; /* part (tiles, d): each tile's share of dw */
};

static float inverse_rms(const float *x, int d, float eps)
{
	enum { SUMS = 8 };
	double s[SUMS] = { 0 }, mean = 0;
	int j = 0;

	/* in double and rounded only once: this error goes into every number of the row, and shows in
	 * gradients that cancel */
	for (; j + SUMS <= d; j += SUMS)
		for (int i = 0; i < SUMS; i++)
			s[i] += (double)x[j + i] * (double)x[j + i];
	for (; j < d; j++)
		s[0] += (double)x[j] * (double)x[j];
	for (int i = 0; i < SUMS; i++)
		mean += s[i];
	mean = mean / d + (double)eps;
	if (mean > (double)FLT_MAX) /* squares that overflow must not pass as numbers */
		return NAN;
	return (float)(1 / sqrt(mean));
}

/* Returns the gate's columns from j on of row i. */
INLINE vf gate_at(const struct norm *a, int i, int j)
{
	return a->row_gate ? vset(a->gate[i]) : vget(a->gate + (size_t)i * (size_t)a->d, j, a->d);
}

static void fwd_tile(void *arg, int tile, int thread)
{
	const struct norm *a = arg;
	int last = (tile + 1) * ROWS_TILE < a->rows ? (tile + 1) * ROWS_TILE : a->rows;

	(void)thread;
	for (int i = tile * ROWS_TILE; i < last; i++) {
		const float *x = a->x + (size_t)i * a->ldx;
		float *y = a->y + (size_t)i * (size_t)a->d, r = inverse_rms(x, a->d, a->eps);

		for (int j = 0; j < a->d; j += VL) {
			vf z = vget(x, j, a->d) * r * (vget(a->w, j, a->d) + a->one);
			if (a->gate)
				z *= vsilu(gate_at(a, i, j));
			vput(y, j, a->d, z);
		}
	}
}

void KERNEL(rmsnorm_fwd)(struct rf_dev *d, const struct rf_rmsnorm_fwd *x)
{
	/* clang-format off */
	struct norm a = { .rows = x->rows, .d = x->d, .ldx = (size_t)(x->ldx ? x->ldx : x->d), .eps = x->eps,
	                  .one = x->plus_one,
	                  .row_gate = x->row_gate, .x = cpu_f32(d, x->x), .w = cpu_f32(d, x->w),
	                  .gate = cpu_f32(d, x->gate),
	                  .y = cpu_f32(d, x->y) };
	/* clang-format on */

	cpu_tiles(d, (a.rows + ROWS_TILE - 1) / ROWS_TILE, fwd_tile, &a);
}

/* Computes the gradients.  With n = x r, r = 1 / rms: dn = dy w, dx = r (dn - n mean(dn n)), dw = sum over
 * rows of dy n. */
static void bwd_tile(void *arg, int tile, int thread)
{
	const struct norm *a = arg;
	int last = (tile + 1) * ROWS_TILE < a->rows ? (tile + 1) * ROWS_TILE : a->rows;
	float *dw = a->part + (size_t)tile * (size_t)a->d;

	(void)thread;
	memset(dw, 0, (size_t)a->d * 4);
	for (int i = tile * ROWS_TILE; i < last; i++) {
		const float *x = a->x + (size_t)i * a->ldx, *dy = a->dy + (size_t)i * (size_t)a->d;
		float *dx = a->dx + (size_t)i * a->ldx, r = inverse_rms(x, a->d, a->eps), m;
		vf s = vset(0), dg = vset(0);

		for (int j = 0; j < a->d; j += VL) {
			vf n = vget(x, j, a->d) * r, g = vget(dy, j, a->d), w = vget(a->w, j, a->d) + a->one;
			if (a->gate && a->row_gate) {
				dg += g * n * w;
				g *= vsilu(gate_at(a, i, j));
			} else if (a->gate) {
				vf z = gate_at(a, i, j);
				vput(a->dgate + (size_t)i * (size_t)a->d, j, a->d, g * n * w * vsilu_d(z));
				g *= vsilu(z);
			}
			s += g * w * n;
			vput(dw, j, a->d, vget(dw, j, a->d) + g * n);
		}
		if (a->gate && a->row_gate) {
			vf slope = vsilu_d(gate_at(a, i, 0));
			a->dgate[i] = vsum(dg) * slope[0];
		}
		m = vsum(s) / (float)a->d;
		for (int j = 0; j < a->d; j += VL) {
			vf n = vget(x, j, a->d) * r, g = vget(dy, j, a->d), z;
			if (a->gate)
				g *= vsilu(gate_at(a, i, j));
			z = r * (g * (vget(a->w, j, a->d) + a->one) - n * m);
			vput(dx, j, a->d, a->add ? vget(dx, j, a->d) + z : z);
		}
	}
}

void KERNEL(rmsnorm_bwd)(struct rf_dev *d, const struct rf_rmsnorm_bwd *x)
{
	int tiles = (x->rows + ROWS_TILE - 1) / ROWS_TILE;
	/* clang-format off */
	struct norm a = { .rows = x->rows, .d = x->d, .ldx = (size_t)(x->ldx ? x->ldx : x->d), .eps = x->eps,
	                  .one = x->plus_one,
	                  .add = x->add, .row_gate = x->row_gate, .x = cpu_f32(d, x->x),
	                  .w = cpu_f32(d, x->w),
	                  .gate = cpu_f32(d, x->gate), .dy = cpu_f32(d, x->dy), .dx = cpu_f32(d, x->dx),
	                  .dgate = cpu_f32(d, x->dgate) };
	/* clang-format on */
	float *dw = cpu_f32(d, x->dw);

	if (!(a.part = rf_cpu_scratch(d, -1, (size_t)tiles * (size_t)a.d * 4)))
		return;
	cpu_tiles(d, tiles, bwd_tile, &a);
	for (int t = 0; t < tiles; t++)
		for (int j = 0; j < a.d; j++)
			dw[j] += a.part[(size_t)t * (size_t)a.d + (size_t)j];
}
