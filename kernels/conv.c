/* conv.c -- short convolution, activation and head norm in one pass over the rows, forward and backward.
 *
 * Step j of sequence b is row j nb + b of y; its tap i reads row (j + i) nb + b of x, where the w-1 earlier steps stand
 * in front: no row needs a case of its own. */
#include "cpu.h"
#include "vec.h"

struct conv {
	struct rf_dev *dev;
	int nb, rows, d, ldx, w, head;
	enum rf_act act;
	enum rf_norm norm;
	float scale;
	const float *x, *taps, *dy;    /* taps (w, d); NULL without convolution */
	float *y, *dx, *dz, *part;     /* part (tiles, w, d): each tile's share of dweight */
	size_t ldz;
};

/* z at columns j .. j+15 of row r, before the activation */
INLINE vf convolve(const struct conv *a, size_t r, int j)
{
	const float *x = a->x + r * (size_t)a->ldx;
	vf z = vset(0);

	if (!a->taps)
		return vget(x, j, a->d);
	for (int i = 0; i < a->w; i++)
		z += vget(a->taps + i * a->d, j, a->d) * vget(x + (size_t)i * (size_t)a->nb * (size_t)a->ldx, j, a->d);
	return z;
}

INLINE vf act(enum rf_act kind, vf z)
{
	switch (kind) {
	case RF_ACT_SILU: return vsilu(z);
	case RF_ACT_RELU: return vmax(z, vset(0));
	case RF_ACT_ELU:  return vpick(vless(vset(0), z), z + 1.f, vexp(z));
	default:          return z;
	}
}

INLINE vf act_d(enum rf_act kind, vf z)
{
	switch (kind) {
	case RF_ACT_SILU: return vsilu_d(z);
	case RF_ACT_RELU: return vpick(vless(vset(0), z), vset(1), vset(0));
	case RF_ACT_ELU:  return vpick(vless(vset(0), z), vset(1), vexp(z));
	default:          return vset(1);
	}
}

/* What y = scale x / norm(x) multiplies x with, over n columns of p. */
static float norm_factor(const struct conv *a, const float *p, int n)
{
	vf s = vset(0);

	if (a->norm == RF_NORM_NONE)
		return a->scale;
	for (int j = 0; j < n; j += VL) {
		vf x = vget(p, j, n);
		s += a->norm == RF_NORM_L2 ? x * x : x;
	}
	return a->norm == RF_NORM_L2 ? a->scale / sqrtf(vsum(s) + 1e-6f) : a->scale / vsum(s);
}

static void fwd_tile(void *arg, int tile, int thread)
{
	const struct conv *a = arg;
	int last = (tile + 1) * ROWS_TILE < a->rows ? (tile + 1) * ROWS_TILE : a->rows;

	(void)thread;
	for (int r = tile * ROWS_TILE; r < last; r++) {
		float *y = a->y + (size_t)r * (size_t)a->d;

		for (int j = 0; j < a->d; j += VL)
			vput(y, j, a->d, act(a->act, convolve(a, (size_t)r, j)));
		if (a->norm == RF_NORM_NONE && a->scale == 1)
			continue;
		for (int h = 0; h < a->d; h += a->head) {
			float f = norm_factor(a, y + h, a->head);
			for (int j = 0; j < a->head; j += VL)
				vput(y + h, j, a->head, f * vget(y + h, j, a->head));
		}
	}
}

/* weight (d, w) -> taps (w, d), in the caller's scratch at `to` */
static const float *turn(const float *weight, int d, int w, float *to)
{
	if (!weight)
		return NULL;
	for (int c = 0; c < d; c++)
		for (int i = 0; i < w; i++)
			to[i * d + c] = weight[c * w + i];
	return to;
}

void KERNEL(conv_fwd)(struct rf_dev *d, const struct rf_conv_fwd *x)
{
	struct conv a = { .nb = x->nb, .rows = x->steps * x->nb, .d = x->d, .ldx = x->ldx ? x->ldx : x->d, .w = x->w, .head = x->head ? x->head : x->d,
	                  .act = x->act, .norm = x->norm, .scale = x->scale, .x = cpu_f32(d, x->x), .y = cpu_f32(d, x->y) };
	float *taps = rf_cpu_scratch(d, -1, (size_t)x->d * (size_t)x->w * 4);

	if (!taps)
		return;
	a.taps = turn(cpu_f32(d, x->weight), a.d, a.w, taps);
	cpu_tiles(d, (a.rows + ROWS_TILE - 1) / ROWS_TILE, fwd_tile, &a);
}

/* dz and the tile's share of dweight.  With n = x r:  dx = scale r (dy - n (n . dy)) for the L2 norm; for the sum,
 * y = scale x / s:  dx = (scale / s) (dy - (x . dy) / s). */
static void dz_tile(void *arg, int tile, int thread)
{
	const struct conv *a = arg;
	int last = (tile + 1) * ROWS_TILE < a->rows ? (tile + 1) * ROWS_TILE : a->rows;
	float *z = rf_cpu_scratch(a->dev, thread, (size_t)a->d * 4), *part = a->part + (size_t)tile * (size_t)(a->w * a->d);

	if (!z)
		return;
	if (a->taps)
		memset(part, 0, (size_t)(a->w * a->d) * 4);
	for (int r = tile * ROWS_TILE; r < last; r++) {
		const float *dy = a->dy + (size_t)r * (size_t)a->d;
		float *dz = a->dz + (size_t)r * a->ldz;

		for (int j = 0; j < a->d; j += VL)
			vput(z, j, a->d, convolve(a, (size_t)r, j));
		for (int h = 0; h < a->d; h += a->head) {
			float f = a->scale, m = 0;

			if (a->norm != RF_NORM_NONE) {
				vf s = vset(0), t = vset(0);

				for (int j = 0; j < a->head; j += VL) {
					vf x = act(a->act, vget(z + h, j, a->head));
					if (LEFT(j, a->head) < VL) /* act(0) need not be 0 */
						x = vload_n((float *)&x, LEFT(j, a->head), 0);
					s += a->norm == RF_NORM_L2 ? x * x : x;
					t += x * vget(dy + h, j, a->head);
				}
				if (a->norm == RF_NORM_L2) {
					float q = vsum(s) + 1e-6f;
					f /= sqrtf(q);
					m = vsum(t) / q;
				} else {
					f /= vsum(s);
					m = vsum(t) / vsum(s);
				}
			}
			for (int j = 0; j < a->head; j += VL) {
				vf zj = vget(z + h, j, a->head), g = vget(dy + h, j, a->head);
				if (a->norm == RF_NORM_L2)
					g -= m * act(a->act, zj);
				else if (a->norm == RF_NORM_SUM)
					g -= m;
				vput(dz + h, j, a->head, f * g * act_d(a->act, zj));
			}
		}
		if (!a->taps)
			continue;
		for (int i = 0; i < a->w; i++) {
			const float *x = a->x + ((size_t)r + (size_t)i * (size_t)a->nb) * (size_t)a->ldx;
			for (int j = 0; j < a->d; j += VL)
				vput(part + i * a->d, j, a->d, vget(part + i * a->d, j, a->d) + vget(dz, j, a->d) * vget(x, j, a->d));
		}
	}
}

/* Row e of x was read by tap i of row e - i nb. */
static void dx_tile(void *arg, int tile, int thread)
{
	const struct conv *a = arg;
	int rows = a->rows + (a->w - 1) * a->nb;
	int last = (tile + 1) * ROWS_TILE < rows ? (tile + 1) * ROWS_TILE : rows;

	(void)thread;
	for (int e = tile * ROWS_TILE; e < last; e++)
		for (int j = 0; j < a->d; j += VL) {
			vf s = vset(0);
			for (int i = 0; i < a->w; i++) {
				int r = e - i * a->nb;
				if (r >= 0 && r < a->rows)
					s += vget(a->taps + i * a->d, j, a->d) * vget(a->dz + (size_t)r * a->ldz, j, a->d);
			}
			vput(a->dx + (size_t)e * (size_t)a->ldx, j, a->d, s);
		}
}

void KERNEL(conv_bwd)(struct rf_dev *d, const struct rf_conv_bwd *x)
{
	struct conv a = { .dev = d, .nb = x->nb, .rows = x->steps * x->nb, .d = x->d, .ldx = x->ldx ? x->ldx : x->d, .w = x->w, .head = x->head ? x->head : x->d,
	                  .act = x->act, .norm = x->norm, .scale = x->scale, .x = cpu_f32(d, x->x), .dy = cpu_f32(d, x->dy),
	                  .dx = cpu_f32(d, x->dx) };
	int tiles = (a.rows + ROWS_TILE - 1) / ROWS_TILE;
	size_t taps = (size_t)a.d * (size_t)a.w;
	float *dweight = cpu_f32(d, x->dweight), *mem;

	if (!x->weight) {
		a.dz = a.dx;
		a.ldz = (size_t)a.ldx;
		cpu_tiles(d, tiles, dz_tile, &a);
		return;
	}
	if (!(mem = rf_cpu_scratch(d, -1, (taps * (size_t)(tiles + 1) + (size_t)a.rows * (size_t)a.d) * 4)))
		return;
	a.part = mem + taps;
	a.dz = a.part + taps * (size_t)tiles;
	a.ldz = (size_t)a.d;
	a.taps = turn(cpu_f32(d, x->weight), a.d, a.w, mem);
	cpu_tiles(d, tiles, dz_tile, &a);
	cpu_tiles(d, (a.rows + (a.w - 1) * a.nb + ROWS_TILE - 1) / ROWS_TILE, dx_tile, &a);
	for (int c = 0; c < a.d; c++)
		for (int i = 0; i < a.w; i++) {
			float s = 0;
			for (int t = 0; t < tiles; t++)
				s += a.part[(size_t)t * taps + (size_t)(i * a.d + c)];
			dweight[c * a.w + i] += s;
		}
}
