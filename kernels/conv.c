/* conv.c -- short convolution, activation and head norm in one pass over the rows, forward and backward.
 *
 * Step j of sequence b is row j nb + b of y.  Its tap i reads row (j + i) nb + b of x, where the w-1 earlier
 * steps come first, so no row needs special treatment. */
#include "cpu/cpu.h"
#include "cpu/vec.h"

struct conv {
	struct rf_dev *dev;
	int nb, rows, d, ldx, w, head;
	enum rf_act act;
	enum rf_norm norm;
	float scale;
	const float *x, *taps, *dy; /* taps (w, d); NULL: no convolution */
	float *y, *dx, *dz, *part;  /* part (tiles, w, d): each tile's share of dweight */
	size_t ldz;
};

/* Returns z, the value before the activation, for n columns of row r from column j on.  Here and below,
 * callers pass constants as n and w where speed depends on it: n is VL for a whole vector. */
INLINE vf convolve(const struct conv *a, size_t r, int w, int j, int n)
{
	const float *x = a->x + r * (size_t)a->ldx + j;
	vf z = vset(0);

	if (!a->taps)
		return vget(x, 0, n);
	for (int i = 0; i < w; i++)
		z += vget(a->taps + i * a->d + j, 0, n) *
		     vget(x + (size_t)i * (size_t)a->nb * (size_t)a->ldx, 0, n);
	return z;
}

/* Returns the activation and sets its slope. */
INLINE vf activate(enum rf_act kind, vf z, vf *slope)
{
	vf y;

	switch (kind) {
	case RF_ACT_SILU:
		y = vsigmoid(z);
		*slope = y * (1.f + z * (1.f - y));
		return z * y;
	case RF_ACT_RELU: *slope = vpick(vless(vset(0), z), vset(1), vset(0)); return vmax(z, vset(0));
	case RF_ACT_ELU:
		y = vexp(z);
		*slope = vpick(vless(vset(0), z), vset(1), y);
		return vpick(vless(vset(0), z), z + 1.f, y);
	default: *slope = vset(1); return z;
	}
}

/* Returns the term of the norm's sum for x. */
INLINE vf norm_of(enum rf_norm norm, vf x) { return norm == RF_NORM_L2 ? x * x : x; }

/* Returns the factor by which y = scale x / norm(x) multiplies x; sum: the norm's sum. */
static float norm_factor(const struct conv *a, float sum)
{
	return a->norm == RF_NORM_L2    ? a->scale / sqrtf(sum + 1e-6f)
	       : a->norm == RF_NORM_SUM ? a->scale / sum
	                                : a->scale;
}

INLINE vf fwd_part(const struct conv *a, size_t r, int w, enum rf_act kind, int j, int n, float *y)
{
	vf slope, z = activate(kind, convolve(a, r, w, j, n), &slope);

	vput(y + j, 0, n, z);
	z = norm_of(a->norm, z);
	return n < VL ? vload_n((float *)&z, n, 0) : z; /* act(0) need not be 0 */
}

INLINE void fwd_row(const struct conv *a, size_t r, int w, enum rf_act kind)
{
	float *y = a->y + r * (size_t)a->d, f;

	for (int h = 0, last; h < a->d; h = last) {
		vf s = vset(0);
		int j = h;

		last = h + a->head;
		for (; j + VL <= last; j += VL)
			s += fwd_part(a, r, w, kind, j, VL, y);
		if (j < last)
			s += fwd_part(a, r, w, kind, j, last - j, y);
		if (a->norm == RF_NORM_NONE && a->scale == 1)
			continue;
		f = norm_factor(a, vsum(s));
		for (j = h; j < last; j += VL)
			vput(y, j, last, f * vget(y, j, last));
	}
}

static void fwd_tile(void *arg, int tile, int thread)
{
	const struct conv *a = arg;
	int last = (tile + 1) * ROWS_TILE < a->rows ? (tile + 1) * ROWS_TILE : a->rows;

	(void)thread;
	for (int r = tile * ROWS_TILE; r < last; r++)
		/* the case of real models: with both known at compile time it takes a fifth less time */
		if (a->w == 4 && a->act == RF_ACT_SILU)
			fwd_row(a, (size_t)r, 4, RF_ACT_SILU);
		else
			fwd_row(a, (size_t)r, a->w, a->act);
}

/* Transposes weight (d, w) to taps (w, d), in the caller's scratch memory at `to`. */
static const float *transpose(const float *weight, int d, int w, float *to)
{
	if (!weight)
		return NULL;
	for (int c = 0; c < d; c++)
		for (int i = 0; i < w; i++)
			to[i * d + c] = weight[c * w + i];
	return to;
}

static int columns(const struct rf_conv_part *part, int parts)
{
	int n = 0;

	for (int i = 0; i < parts; i++)
		n += part[i].d;
	return n;
}

static struct conv conv_of(const struct rf_conv_part *p)
{
	return (struct conv){
		.d = p->d, .head = p->head ? p->head : p->d, .act = p->act, .norm = p->norm, .scale = p->scale
	};
}

void KERNEL(conv_fwd)(struct rf_dev *d, const struct rf_conv_fwd *x)
{
	const float *from = cpu_f32(d, x->x);

	for (int i = 0; i < x->parts; from += x->part[i++].d) {
		const struct rf_conv_part *p = &x->part[i];
		float *taps = rf_cpu_scratch(d, -1, (size_t)p->d * (size_t)x->w * 4);
		struct conv a = conv_of(p);

		if (!taps)
			return;
		a.nb = x->nb;
		a.rows = x->steps * x->nb;
		a.w = x->w;
		a.ldx = x->ldx ? x->ldx : columns(x->part, x->parts);
		a.x = from;
		a.y = cpu_f32(d, p->y);
		a.taps = transpose(cpu_f32(d, p->weight), a.d, a.w, taps);
		cpu_tiles(d, (a.rows + ROWS_TILE - 1) / ROWS_TILE, fwd_tile, &a);
	}
}

/* Stores the activation and its slope, for n columns of row r from j on, in y and slope.  Adds the terms of
 * the norm's sum to *sum, and of the sum of y dy to *along. */
INLINE void bwd_part(const struct conv *a, size_t r, int w, enum rf_act kind, int j, int n, float *y,
                     float *slope, vf *sum, vf *along)
{
	vf d, x = activate(kind, convolve(a, r, w, j, n), &d);

	vput(slope + j, 0, n, d);
	vput(y + j, 0, n, x);
	if (n < VL) /* act(0) need not be 0 */
		x = vload_n((float *)&x, n, 0);
	*sum += norm_of(a->norm, x);
	*along += x * vget(a->dy + r * (size_t)a->d + j, 0, n);
}

/* Computes dz of a row.  With n = x r for the L2 norm, and y = scale x / s for the sum:
 *
 *     L2:   dx = scale r (dy - n (n . dy))
 *     sum:  dx = (scale / s) (dy - (x . dy) / s) */
INLINE void dz_row(const struct conv *a, size_t r, int w, enum rf_act kind, float *y, float *slope)
{
	const float *dy = a->dy + r * (size_t)a->d;
	float *dz = a->dz + r * a->ldz;

	for (int h = 0, last; h < a->d; h = last) {
		vf sum = vset(0), along = vset(0);
		float f, m = 0;
		int j = h;

		last = h + a->head;
		for (; j + VL <= last; j += VL)
			bwd_part(a, r, w, kind, j, VL, y, slope, &sum, &along);
		if (j < last)
			bwd_part(a, r, w, kind, j, last - j, y, slope, &sum, &along);
		f = norm_factor(a, vsum(sum));
		if (a->norm != RF_NORM_NONE)
			m = vsum(along) / (a->norm == RF_NORM_L2 ? vsum(sum) + 1e-6f : vsum(sum));
		for (j = h; j < last; j += VL) {
			vf g = vget(dy, j, last);

			if (a->norm != RF_NORM_NONE)
				g -= a->norm == RF_NORM_L2 ? m * vget(y, j, last) : vset(m);
			vput(dz, j, last, f * g * vget(slope, j, last));
		}
	}
}

/* Computes the tile's share of dweight: sums over its rows first .. last-1. */
static void dweight_of(const struct conv *a, int first, int last, float *part)
{
	for (int i = 0; i < a->w; i++)
		for (int j = 0; j < a->d; j += VL) {
			const float *dz = a->dz + (size_t)first * a->ldz,
				    *x = a->x + ((size_t)first + (size_t)i * (size_t)a->nb) * (size_t)a->ldx;
			vf s = vset(0);

			for (int r = first; r < last; r++, dz += a->ldz, x += a->ldx)
				s += vget(dz, j, a->d) * vget(x, j, a->d);
			vput(part + i * a->d, j, a->d, s);
		}
}

static void dz_tile(void *arg, int tile, int thread)
{
	const struct conv *a = arg;
	int first = tile * ROWS_TILE, last = first + ROWS_TILE < a->rows ? first + ROWS_TILE : a->rows;
	float *y = rf_cpu_scratch(a->dev, thread, 2 * (size_t)a->d * 4);

	if (!y)
		return;
	for (int r = first; r < last; r++)
		if (a->w == 4 && a->act == RF_ACT_SILU)
			dz_row(a, (size_t)r, 4, RF_ACT_SILU, y, y + a->d);
		else
			dz_row(a, (size_t)r, a->w, a->act, y, y + a->d);
	if (a->taps)
		dweight_of(a, first, last, a->part + (size_t)tile * (size_t)(a->w * a->d));
}

/* Computes dx.  Row e of x was read by tap i of row e - i nb. */
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
					s += vget(a->taps + i * a->d, j, a->d) *
					     vget(a->dz + (size_t)r * a->ldz, j, a->d);
			}
			vput(a->dx + (size_t)e * (size_t)a->ldx, j, a->d, s);
		}
}

static void back(struct rf_dev *d, struct conv *a, const float *weight, float *dweight)
{
	int tiles = (a->rows + ROWS_TILE - 1) / ROWS_TILE;
	size_t taps = (size_t)a->d * (size_t)a->w;
	float *mem;

	if (!weight) {
		a->dz = a->dx;
		a->ldz = (size_t)a->ldx;
		cpu_tiles(d, tiles, dz_tile, a);
		return;
	}
	if (!(mem = rf_cpu_scratch(d, -1, (taps * (size_t)(tiles + 1) + (size_t)a->rows * (size_t)a->d) * 4)))
		return;
	a->part = mem + taps;
	a->dz = a->part + taps * (size_t)tiles;
	a->ldz = (size_t)a->d;
	a->taps = transpose(weight, a->d, a->w, mem);
	cpu_tiles(d, tiles, dz_tile, a);
	cpu_tiles(d, (a->rows + (a->w - 1) * a->nb + ROWS_TILE - 1) / ROWS_TILE, dx_tile, a);
	for (int c = 0; c < a->d; c++)
		for (int i = 0; i < a->w; i++) {
			float s = 0;
			for (int t = 0; t < tiles; t++)
				s += a->part[(size_t)t * taps + (size_t)(i * a->d + c)];
			dweight[c * a->w + i] += s;
		}
}

void KERNEL(conv_bwd)(struct rf_dev *d, const struct rf_conv_bwd *x)
{
	const float *from = cpu_f32(d, x->x);
	float *to = cpu_f32(d, x->dx);

	for (int i = 0; i < x->parts; from += x->part[i].d, to += x->part[i].d, i++) {
		const struct rf_conv_part *p = &x->part[i];
		struct conv a = conv_of(p);

		a.dev = d;
		a.nb = x->nb;
		a.rows = x->steps * x->nb;
		a.w = x->w;
		a.ldx = x->ldx ? x->ldx : columns(x->part, x->parts);
		a.x = from;
		a.dx = to;
		a.dy = cpu_f32(d, p->dy);
		back(d, &a, cpu_f32(d, p->weight), cpu_f32(d, p->dweight));
	}
}
