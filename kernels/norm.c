/* norm.c -- RMSNorm (with a gate) and SwiGLU, forward and backward. */
#include "cpu.h"
#include "vec.h"

struct norm {
	int rows, d;
	float eps;
	bool add;
	const float *x, *w, *gate, *dy;
	float *y, *dx, *dgate, *part;  /* part (tiles, d): each tile's share of dw */
};

static float inverse_rms(const float *x, int d, float eps)
{
	vf s = vset(0), t = vset(0);
	int j = 0;

	for (; j + 2 * VL <= d; j += 2 * VL) {
		vf a = vload(x + j), b = vload(x + j + VL);
		s += a * a;
		t += b * b;
	}
	for (; j < d; j += VL) {
		vf a = vget(x, j, d);
		s += a * a;
	}
	return 1 / sqrtf(vsum(s + t) / (float)d + eps);
}

static void fwd_tile(void *arg, int tile, int thread)
{
	const struct norm *a = arg;
	int last = (tile + 1) * ROWS_TILE < a->rows ? (tile + 1) * ROWS_TILE : a->rows;

	(void)thread;
	for (int i = tile * ROWS_TILE; i < last; i++) {
		size_t at = (size_t)i * (size_t)a->d;
		float r = inverse_rms(a->x + at, a->d, a->eps);

		for (int j = 0; j < a->d; j += VL) {
			vf y = vget(a->x + at, j, a->d) * r * vget(a->w, j, a->d);
			if (a->gate)
				y *= vsilu(vget(a->gate + at, j, a->d));
			vput(a->y + at, j, a->d, y);
		}
	}
}

void KERNEL(rmsnorm_fwd)(struct rf_dev *d, const struct rf_rmsnorm_fwd *x)
{
	struct norm a = { .rows = x->rows, .d = x->d, .eps = x->eps, .x = cpu_f32(d, x->x), .w = cpu_f32(d, x->w),
	                  .gate = cpu_f32(d, x->gate), .y = cpu_f32(d, x->y) };

	cpu_tiles(d, (a.rows + ROWS_TILE - 1) / ROWS_TILE, fwd_tile, &a);
}

/* With n = x r, r = 1 / rms:  dn = dy w,  dx = r (dn - n mean(dn n)),  dw = sum over rows of dy n. */
static void bwd_tile(void *arg, int tile, int thread)
{
	const struct norm *a = arg;
	int last = (tile + 1) * ROWS_TILE < a->rows ? (tile + 1) * ROWS_TILE : a->rows;
	float *dw = a->part + (size_t)tile * (size_t)a->d;

	(void)thread;
	memset(dw, 0, (size_t)a->d * 4);
	for (int i = tile * ROWS_TILE; i < last; i++) {
		size_t at = (size_t)i * (size_t)a->d;
		float r = inverse_rms(a->x + at, a->d, a->eps), m;
		vf s = vset(0);

		for (int j = 0; j < a->d; j += VL) {
			vf n = vget(a->x + at, j, a->d) * r, dy = vget(a->dy + at, j, a->d), w = vget(a->w, j, a->d);
			if (a->gate) {
				vf g = vget(a->gate + at, j, a->d);
				vput(a->dgate + at, j, a->d, dy * n * w * vsilu_d(g));
				dy *= vsilu(g);
			}
			s += dy * w * n;
			vput(dw, j, a->d, vget(dw, j, a->d) + dy * n);
		}
		m = vsum(s) / (float)a->d;
		for (int j = 0; j < a->d; j += VL) {
			vf n = vget(a->x + at, j, a->d) * r, dy = vget(a->dy + at, j, a->d), dx;
			if (a->gate)
				dy *= vsilu(vget(a->gate + at, j, a->d));
			dx = r * (dy * vget(a->w, j, a->d) - n * m);
			vput(a->dx + at, j, a->d, a->add ? vget(a->dx + at, j, a->d) + dx : dx);
		}
	}
}

void KERNEL(rmsnorm_bwd)(struct rf_dev *d, const struct rf_rmsnorm_bwd *x)
{
	int tiles = (x->rows + ROWS_TILE - 1) / ROWS_TILE;
	struct norm a = { .rows = x->rows, .d = x->d, .eps = x->eps, .add = x->add, .x = cpu_f32(d, x->x), .w = cpu_f32(d, x->w),
	                  .gate = cpu_f32(d, x->gate), .dy = cpu_f32(d, x->dy), .dx = cpu_f32(d, x->dx), .dgate = cpu_f32(d, x->dgate) };
	float *dw = cpu_f32(d, x->dw);

	if (!(a.part = rf_cpu_scratch(d, -1, (size_t)tiles * (size_t)a.d * 4)))
		return;
	cpu_tiles(d, tiles, bwd_tile, &a);
	for (int t = 0; t < tiles; t++)
		for (int j = 0; j < a.d; j++)
			dw[j] += a.part[(size_t)t * (size_t)a.d + (size_t)j];
}

struct swiglu { size_t n; const float *gate, *up, *dy; float *dgate, *dup, *y; };
enum { SPAN = 1 << 14 };

static void swiglu_fwd_tile(void *arg, int tile, int thread)
{
	const struct swiglu *a = arg;
	size_t i = (size_t)tile * SPAN, last = i + SPAN < a->n ? i + SPAN : a->n;

	(void)thread;
	for (; i < last; i += VL) {
		int n = last - i < VL ? (int)(last - i) : VL;
		vput(a->y + i, 0, n, vsilu(vget(a->gate + i, 0, n)) * vget(a->up + i, 0, n));
	}
}

void KERNEL(swiglu_fwd)(struct rf_dev *d, const struct rf_swiglu_fwd *x)
{
	struct swiglu a = { .n = x->n, .gate = cpu_f32(d, x->gate), .up = cpu_f32(d, x->up), .y = cpu_f32(d, x->y) };

	cpu_tiles(d, (int)((a.n + SPAN - 1) / SPAN), swiglu_fwd_tile, &a);
}

static void swiglu_bwd_tile(void *arg, int tile, int thread)
{
	const struct swiglu *a = arg;
	size_t i = (size_t)tile * SPAN, last = i + SPAN < a->n ? i + SPAN : a->n;

	(void)thread;
	for (; i < last; i += VL) {
		int n = last - i < VL ? (int)(last - i) : VL;
		vf g = vget(a->gate + i, 0, n), u = vget(a->up + i, 0, n), dy = vget(a->dy + i, 0, n), s = vsigmoid(g), y = g * s;

		vput(a->dgate + i, 0, n, dy * u * (s * (1.f + g * (1.f - s))));
		vput(a->dup + i, 0, n, dy * y);
		if (a->y)
			vput(a->y + i, 0, n, y * u);
	}
}

void KERNEL(swiglu_bwd)(struct rf_dev *d, const struct rf_swiglu_bwd *x)
{
	struct swiglu a = { .n = x->n, .gate = cpu_f32(d, x->gate), .up = cpu_f32(d, x->up), .dy = cpu_f32(d, x->dy),
	                    .dgate = cpu_f32(d, x->dgate), .dup = cpu_f32(d, x->dup), .y = cpu_f32(d, x->y) };

	cpu_tiles(d, (int)((a.n + SPAN - 1) / SPAN), swiglu_bwd_tile, &a);
}
