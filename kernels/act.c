/* act.c -- gates: SwiGLU, a sigmoid, and the decay of Gated DeltaNet, forward and backward. */
#include <math.h>

#include "cpu/cpu.h"
#include "cpu/vec.h"

struct swiglu {
	size_t n, d, ld;
	const float *gate, *up, *dy;
	float *dgate, *dup, *y;
};
enum { SPAN = 1 << 14 };

/* Returns where element i of gate and up is.  *n: the number of adjacent elements from there on, at most one
 * vector. */
INLINE size_t swiglu_at(const struct swiglu *a, size_t i, size_t last, int *n)
{
	size_t row = i / a->d, left = (row + 1) * a->d;

	left = (left < last ? left : last) - i;
	*n = left < VL ? (int)left : VL;
	return i + row * (a->ld - a->d);
}

static void swiglu_fwd_tile(void *arg, int tile, int thread)
{
	const struct swiglu *a = arg;
	size_t i = (size_t)tile * SPAN, last = i + SPAN < a->n ? i + SPAN : a->n;

	(void)thread;
	for (int n; i < last; i += (size_t)n) {
		size_t at = swiglu_at(a, i, last, &n);
		vput(a->y + i, 0, n, vsilu(vget(a->gate + at, 0, n)) * vget(a->up + at, 0, n));
	}
}

static void run_swiglu(struct rf_dev *d, struct swiglu a, int width, int ld, void (*tile)(void *, int, int))
{
	a.d = width ? (size_t)width : a.n + !a.n;
	a.ld = width ? (size_t)ld : a.d;
	cpu_tiles(d, (int)((a.n + SPAN - 1) / SPAN), tile, &a);
}

void KERNEL(swiglu_fwd)(struct rf_dev *d, const struct rf_swiglu_fwd *x)
{
	run_swiglu(d,
	           (struct swiglu){ .n = x->n,
	                            .gate = cpu_f32(d, x->gate),
	                            .up = cpu_f32(d, x->up),
	                            .y = cpu_f32(d, x->y) },
	           x->d, x->ld, swiglu_fwd_tile);
}

static void swiglu_bwd_tile(void *arg, int tile, int thread)
{
	const struct swiglu *a = arg;
	size_t i = (size_t)tile * SPAN, last = i + SPAN < a->n ? i + SPAN : a->n;

	(void)thread;
	for (int n; i < last; i += (size_t)n) {
		size_t at = swiglu_at(a, i, last, &n);
		vf g = vget(a->gate + at, 0, n), u = vget(a->up + at, 0, n), dy = vget(a->dy + i, 0, n),
		   s = vsigmoid(g), y = g * s;

		vput(a->dgate + at, 0, n, dy * u * (s * (1.f + g * (1.f - s))));
		vput(a->dup + at, 0, n, dy * y);
		if (a->y)
			vput(a->y + i, 0, n, y * u);
	}
}

void KERNEL(swiglu_bwd)(struct rf_dev *d, const struct rf_swiglu_bwd *x)
{
	/* clang-format off */
	run_swiglu(d, (struct swiglu){ .n = x->n, .gate = cpu_f32(d, x->gate), .up = cpu_f32(d, x->up),
	                               .dy = cpu_f32(d, x->dy),
	                               .dgate = cpu_f32(d, x->dgate), .dup = cpu_f32(d, x->dup),
	                               .y = cpu_f32(d, x->y) },
	           /* clang-format on */
	           x->d, x->ld, swiglu_bwd_tile);
}

struct gate {
	int rows, d;
	size_t ldg;
	const float *x, *gate, *dy;
	float *y, *dx, *dgate;
};

static void gate_fwd_tile(void *arg, int tile, int thread)
{
	const struct gate *a = arg;
	int last = (tile + 1) * ROWS_TILE < a->rows ? (tile + 1) * ROWS_TILE : a->rows;

	(void)thread;
	for (int i = tile * ROWS_TILE; i < last; i++)
		for (int j = 0; j < a->d; j += VL)
			vput(a->y + (size_t)i * (size_t)a->d, j, a->d,
			     vget(a->x + (size_t)i * (size_t)a->d, j, a->d) *
			             vsigmoid(vget(a->gate + (size_t)i * a->ldg, j, a->d)));
}

void KERNEL(gate_fwd)(struct rf_dev *d, const struct rf_gate_fwd *x)
{
	struct gate a = { .rows = x->rows,
		          .d = x->d,
		          .ldg = (size_t)(x->ldg ? x->ldg : x->d),
		          .x = cpu_f32(d, x->x),
		          .gate = cpu_f32(d, x->gate),
		          .y = cpu_f32(d, x->y) };

	cpu_tiles(d, (a.rows + ROWS_TILE - 1) / ROWS_TILE, gate_fwd_tile, &a);
}

static void gate_bwd_tile(void *arg, int tile, int thread)
{
	const struct gate *a = arg;
	int last = (tile + 1) * ROWS_TILE < a->rows ? (tile + 1) * ROWS_TILE : a->rows;

	(void)thread;
	for (int i = tile * ROWS_TILE; i < last; i++) {
		size_t at = (size_t)i * (size_t)a->d;

		for (int j = 0; j < a->d; j += VL) {
			vf x = vget(a->x + at, j, a->d), dy = vget(a->dy + at, j, a->d),
			   s = vsigmoid(vget(a->gate + (size_t)i * a->ldg, j, a->d));

			vput(a->dx + at, j, a->d, dy * s);
			vput(a->dgate + (size_t)i * a->ldg, j, a->d, dy * x * s * (1.f - s));
			if (a->y)
				vput(a->y + at, j, a->d, x * s);
		}
	}
}

void KERNEL(gate_bwd)(struct rf_dev *d, const struct rf_gate_bwd *x)
{
	/* clang-format off */
	struct gate a = { .rows = x->rows, .d = x->d, .ldg = (size_t)(x->ldg ? x->ldg : x->d),
	                  .x = cpu_f32(d, x->x),
	                  .gate = cpu_f32(d, x->gate), .dy = cpu_f32(d, x->dy), .dx = cpu_f32(d, x->dx),
	                  .dgate = cpu_f32(d, x->dgate), .y = cpu_f32(d, x->y) };
	/* clang-format on */

	cpu_tiles(d, (a.rows + ROWS_TILE - 1) / ROWS_TILE, gate_bwd_tile, &a);
}

/* Decays: one number per row and head, in double, since errors of the logarithm add up along a chunk. */
struct decay {
	int rows, H;
	const float *a, *A_log, *dt_bias, *dg;
	float *g, *da, *dA_log, *ddt_bias;
};

static void decay_fwd_tile(void *arg, int tile, int thread)
{
	const struct decay *a = arg;
	int last = (tile + 1) * ROWS_TILE < a->rows ? (tile + 1) * ROWS_TILE : a->rows;

	(void)thread;
	for (int i = tile * ROWS_TILE; i < last; i++)
		for (int h = 0; h < a->H; h++) {
			size_t at = (size_t)i * (size_t)a->H + (size_t)h;
			a->g[at] = (float)(-exp((double)a->A_log[h]) *
			                   cpu_softplus((double)a->a[at] + (double)a->dt_bias[h]));
		}
}

void KERNEL(decay_fwd)(struct rf_dev *d, const struct rf_decay_fwd *x)
{
	/* clang-format off */
	struct decay a = { .rows = x->rows, .H = x->H, .a = cpu_f32(d, x->a), .A_log = cpu_f32(d, x->A_log),
	                   .dt_bias = cpu_f32(d, x->dt_bias), .g = cpu_f32(d, x->g) };
	/* clang-format on */

	cpu_tiles(d, (a.rows + ROWS_TILE - 1) / ROWS_TILE, decay_fwd_tile, &a);
}

/* Computes one head; its sums run over the rows in order. */
static void decay_bwd_tile(void *arg, int h, int thread)
{
	const struct decay *a = arg;
	double A = exp((double)a->A_log[h]), dA = 0, dt = 0;

	(void)thread;
	for (int i = 0; i < a->rows; i++) {
		size_t at = (size_t)i * (size_t)a->H + (size_t)h;
		double z = (double)a->a[at] + (double)a->dt_bias[h], dg = (double)a->dg[at],
		       dz = -A * dg / (1 + exp(-z));

		a->da[at] = (float)dz;
		dt += dz;
		dA -= A * cpu_softplus(z) * dg;
	}
	a->dA_log[h] += (float)dA;
	a->ddt_bias[h] += (float)dt;
}

void KERNEL(decay_bwd)(struct rf_dev *d, const struct rf_decay_bwd *x)
{
	/* clang-format off */
	struct decay a = { .rows = x->rows, .H = x->H, .a = cpu_f32(d, x->a), .A_log = cpu_f32(d, x->A_log),
	                   .dt_bias = cpu_f32(d, x->dt_bias), .dg = cpu_f32(d, x->dg),
	                   .da = cpu_f32(d, x->da),
	                   .dA_log = cpu_f32(d, x->dA_log), .ddt_bias = cpu_f32(d, x->ddt_bias) };
	/* clang-format on */

	cpu_tiles(d, a.H, decay_bwd_tile, &a);
}
