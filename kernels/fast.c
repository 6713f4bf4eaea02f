/* fast.c -- LaCT's element-wise operations (its products use gemm), forward and backward: features of q, k
 * and v, rates, the operands of a chunk's update, and the row-wise parts of the update. */
#include <math.h>

#include "cpu/cpu.h"
#include "cpu/vec.h"

/* ---- features ------------------------------------------------------------------------------ */

struct feature {
	int rows, H, D;
	bool silu, unit;
	float eps;
	const float *x, *scale, *offset, *dy; /* scale, offset: one number per column */
	/* part (tiles, 2, H D): each tile's share of dscale and doffset */
	float *y, *dx, *part;
};

INLINE vf act(const struct feature *a, vf z) { return a->silu ? vsilu(z) : z; }

static void feature_fwd_tile(void *arg, int tile, int thread)
{
	const struct feature *a = arg;
	int last = (tile + 1) * ROWS_TILE < a->rows ? (tile + 1) * ROWS_TILE : a->rows;

	(void)thread;
	for (int i = tile * ROWS_TILE * a->H; i < last * a->H; i++) {
		const float *x = a->x + (size_t)i * (size_t)a->D,
			    *s = a->scale + (size_t)(i % a->H) * (size_t)a->D;
		const float *b = a->offset + (size_t)(i % a->H) * (size_t)a->D;
		float *y = a->y + (size_t)i * (size_t)a->D, r;
		vf sum = vset(0);

		for (int j = 0; j < a->D; j += VL) {
			/* beyond the last column scale and offset read as 0, so the feature does too */
			vf z = act(a, vget(x, j, a->D) * vget(s, j, a->D) + vget(b, j, a->D));
			sum += z * z;
			vput(y, j, a->D, z);
		}
		if (!a->unit)
			continue;
		/* rounded only once, since this error goes into every number of the head */
		r = (float)(1 / (sqrt((double)vsum(sum)) + (double)a->eps));
		for (int j = 0; j < a->D; j += VL)
			vput(y, j, a->D, vget(y, j, a->D) * r);
	}
}

/* Computes the gradients of features.  With z the activation, n = |z|, y = z / (n + eps):
 *
 *     dz = dy / (n + eps) - z (dy . z) / (n (n + eps)^2) */
static void feature_bwd_tile(void *arg, int tile, int thread)
{
	const struct feature *a = arg;
	int last = (tile + 1) * ROWS_TILE < a->rows ? (tile + 1) * ROWS_TILE : a->rows;
	size_t d = (size_t)a->H * (size_t)a->D;
	float *ds = a->part + (size_t)tile * 2 * d, *db = ds + d;

	(void)thread;
	memset(ds, 0, 2 * d * sizeof *ds);
	for (int i = tile * ROWS_TILE * a->H; i < last * a->H; i++) {
		const float *x = a->x + (size_t)i * (size_t)a->D, *dy = a->dy + (size_t)i * (size_t)a->D;
		size_t h = (size_t)(i % a->H) * (size_t)a->D;
		float *dx = a->dx + (size_t)i * (size_t)a->D, r = 1, c = 0;
		vf sum = vset(0), along = vset(0);

		for (int j = 0; a->unit && j < a->D; j += VL) {
			vf z = act(a, vget(x, j, a->D) * vget(a->scale + h, j, a->D) +
			                      vget(a->offset + h, j, a->D));
			sum += z * z;
			along += z * vget(dy, j, a->D);
		}
		if (a->unit) {
			double n = sqrt((double)vsum(sum)), s = 1 / (n + (double)a->eps);
			r = (float)s;
			c = n > 0 ? (float)((double)vsum(along) * s * s / n) : 0;
		}
		for (int j = 0; j < a->D; j += VL) {
			vf v = vget(x, j, a->D), s = vget(a->scale + h, j, a->D),
			   z = v * s + vget(a->offset + h, j, a->D), g;

			g = vget(dy, j, a->D) * r - act(a, z) * c;
			if (a->silu)
				g *= vsilu_d(z);
			vput(dx, j, a->D, vget(dx, j, a->D) + g * s);
			vput(ds + h, j, a->D, vget(ds + h, j, a->D) + g * v);
			vput(db + h, j, a->D, vget(db + h, j, a->D) + g);
		}
	}
}

/* Separates scale and offset, which are stored in pairs. */
static void separate_pairs(size_t d, const float *scale, const float *offset, float *to)
{
	for (size_t j = 0; j < d; j++) {
		to[j] = scale ? scale[2 * j] : 1;
		to[d + j] = offset ? offset[2 * j] : 0;
	}
}

void KERNEL(feature_fwd)(struct rf_dev *d, const struct rf_feature_fwd *x)
{
	/* clang-format off */
	struct feature a = { .rows = x->rows, .H = x->H, .D = x->D, .silu = x->silu, .unit = x->unit,
	                     .eps = x->eps, .x = cpu_f32(d, x->x),
	                     .y = cpu_f32(d, x->y) };
	/* clang-format on */
	size_t width = (size_t)a.H * (size_t)a.D;
	float *pairs = rf_cpu_scratch(d, -1, 2 * width * sizeof *pairs);

	if (!pairs)
		return;
	separate_pairs(width, cpu_f32(d, x->scale), cpu_f32(d, x->offset), pairs);
	a.scale = pairs;
	a.offset = pairs + width;
	cpu_tiles(d, (a.rows + ROWS_TILE - 1) / ROWS_TILE, feature_fwd_tile, &a);
}

void KERNEL(feature_bwd)(struct rf_dev *d, const struct rf_feature_bwd *x)
{
	/* clang-format off */
	struct feature a = { .rows = x->rows, .H = x->H, .D = x->D, .silu = x->silu, .unit = x->unit,
	                     .eps = x->eps, .x = cpu_f32(d, x->x),
	                     .dy = cpu_f32(d, x->dy), .dx = cpu_f32(d, x->dx) };
	/* clang-format on */
	size_t width = (size_t)a.H * (size_t)a.D, tiles = ((size_t)a.rows + ROWS_TILE - 1) / ROWS_TILE;
	float *pairs = rf_cpu_scratch(d, -1, (2 + 2 * tiles) * width * sizeof *pairs),
	      *ds = cpu_f32(d, x->dscale), *db = cpu_f32(d, x->doffset);

	if (!pairs)
		return;
	separate_pairs(width, cpu_f32(d, x->scale), cpu_f32(d, x->offset), pairs);
	a.scale = pairs;
	a.offset = pairs + width;
	a.part = pairs + 2 * width;
	cpu_tiles(d, (int)tiles, feature_bwd_tile, &a);
	for (size_t t = 0; ds && t < tiles; t++)
		for (size_t j = 0; j < width; j++) {
			ds[2 * j] += a.part[t * 2 * width + j];
			db[2 * j] += a.part[(t * 2 + 1) * width + j];
		}
}

/* ---- rates --------------------------------------------------------------------------------- */

/* Rates are computed in double: they are few, and softplus approaches 0, where its logarithm loses digits. */
struct rates {
	int rows, H;
	double shift;
	float *lr, *m, *dlr, *dm;
};

static void rates_fwd_tile(void *arg, int tile, int thread)
{
	const struct rates *a = arg;
	int last = (tile + 1) * ROWS_TILE < a->rows ? (tile + 1) * ROWS_TILE : a->rows;

	(void)thread;
	for (size_t i = (size_t)(tile * ROWS_TILE) * (size_t)a->H; i < (size_t)last * (size_t)a->H; i++) {
		for (size_t j = 3 * i; j < 3 * i + 3; j++)
			a->lr[j] = (float)cpu_softplus((double)a->lr[j] + a->shift);
		if (a->m)
			a->m[i] = (float)(1 / (1 + exp(-(double)a->m[i])));
	}
}

void KERNEL(rates_fwd)(struct rf_dev *d, const struct rf_rates_fwd *x)
{
	struct rates a = { .rows = x->rows,
		           .H = x->H,
		           .shift = (double)x->shift,
		           .lr = cpu_f32(d, x->lr),
		           .m = cpu_f32(d, x->m) };

	cpu_tiles(d, (a.rows + ROWS_TILE - 1) / ROWS_TILE, rates_fwd_tile, &a);
}

/* Computes the rates' gradients.  Where softplus has the value y, its slope is 1 - e^-y. */
static void rates_bwd_tile(void *arg, int tile, int thread)
{
	const struct rates *a = arg;
	int last = (tile + 1) * ROWS_TILE < a->rows ? (tile + 1) * ROWS_TILE : a->rows;

	(void)thread;
	for (size_t i = (size_t)(tile * ROWS_TILE) * (size_t)a->H; i < (size_t)last * (size_t)a->H; i++) {
		for (size_t j = 3 * i; j < 3 * i + 3; j++)
			a->dlr[j] = (float)(-(double)a->dlr[j] * expm1(-(double)a->lr[j]));
		if (a->m)
			a->dm[i] *= a->m[i] * (1 - a->m[i]);
	}
}

void KERNEL(rates_bwd)(struct rf_dev *d, const struct rf_rates_bwd *x)
{
	struct rates a = { .rows = x->rows,
		           .H = x->H,
		           .lr = cpu_f32(d, x->lr),
		           .m = cpu_f32(d, x->m),
		           .dlr = cpu_f32(d, x->dlr),
		           .dm = cpu_f32(d, x->dm) };

	cpu_tiles(d, (a.rows + ROWS_TILE - 1) / ROWS_TILE, rates_bwd_tile, &a);
}

/* ---- the operands of an update ------------------------------------------------------------- */

struct learn {
	int rows, H, E;
	size_t every;
	const float *lr, *dsum;
	float *gu, *e, *dgu, *de, *dlr, *dm;
};
enum { LEARN_TILE = 16 };

static void learn_fwd_tile(void *arg, int tile, int thread)
{
	const struct learn *a = arg;
	int last = (tile + 1) * LEARN_TILE < a->rows ? (tile + 1) * LEARN_TILE : a->rows;

	(void)thread;
	for (int i = tile * LEARN_TILE; i < last; i++)
		for (int h = 0; h < a->H; h++) {
			size_t at = (size_t)i * (size_t)a->H + (size_t)h;
			const float *lr = a->lr + 3 * ((size_t)i * a->every * (size_t)a->H + (size_t)h);
			float *G = a->gu + at * 2 * (size_t)a->E, *U = G + a->E,
			      *V = a->e + at * (size_t)a->E;

			for (int j = 0; j < a->E; j += VL) {
				vf g = vget(G, j, a->E), u = vget(U, j, a->E), e = vget(V, j, a->E),
				   s = vsigmoid(g), y = g * s;

				vput(G, j, a->E, e * u * (s * (1.f + g * (1.f - s))) * lr[0]);
				vput(V, j, a->E, y * u * lr[1]);
				vput(U, j, a->E, e * y * lr[2]);
			}
		}
}

void KERNEL(learn_fwd)(struct rf_dev *d, const struct rf_learn_fwd *x)
{
	/* clang-format off */
	struct learn a = { .rows = x->rows, .H = x->H, .E = x->E, .every = (size_t)x->every,
	                   .lr = cpu_f32(d, x->lr), .gu = cpu_f32(d, x->gu),
	                   .e = cpu_f32(d, x->e) };
	/* clang-format on */

	cpu_tiles(d, (a.rows + LEARN_TILE - 1) / LEARN_TILE, learn_fwd_tile, &a);
}

/* Computes the gradients of an update's operands.  With s = sigmoid(g): silu' = s (1 + g (1 - s)), silu'' = s
 * (1 - s) (2 + g (1 - 2 s)). */
static void learn_bwd_tile(void *arg, int tile, int thread)
{
	const struct learn *a = arg;
	int last = (tile + 1) * LEARN_TILE < a->rows ? (tile + 1) * LEARN_TILE : a->rows;

	(void)thread;
	for (int i = tile * LEARN_TILE; i < last; i++)
		for (int h = 0; h < a->H; h++) {
			size_t at = (size_t)i * (size_t)a->H + (size_t)h,
			       out = (size_t)i * a->every * (size_t)a->H + (size_t)h;
			const float *lr = a->lr + 3 * out;
			float *G = a->gu + at * 2 * (size_t)a->E, *U = G + a->E,
			      *V = a->e + at * (size_t)a->E;
			float *dG = a->dgu + at * 2 * (size_t)a->E, *dU = dG + a->E,
			      *dV = a->de + at * (size_t)a->E;
			vf d0 = vset(0), d1 = vset(0), d2 = vset(0);

			for (int j = 0; j < a->E; j += VL) {
				vf g = vget(G, j, a->E), u = vget(U, j, a->E), e = vget(V, j, a->E),
				   s = vsigmoid(g), y = g * s;
				vf t0 = vget(dG, j, a->E), t1 = vget(dV, j, a->E), t2 = vget(dU, j, a->E);
				vf y1 = s * (1.f + g * (1.f - s)),
				   y2 = s * (1.f - s) * (2.f + g * (1.f - 2.f * s));

				d0 += t0 * e * u * y1;
				d1 += t1 * y * u;
				d2 += t2 * e * y;
				vput(dG, j, a->E,
				     t0 * e * u * y2 * lr[0] + (t1 * u * lr[1] + t2 * e * lr[2]) * y1);
				vput(dU, j, a->E, t0 * e * y1 * lr[0] + t1 * y * lr[1]);
				vput(dV, j, a->E, t0 * u * y1 * lr[0] + t2 * y * lr[2]);
				vput(G, j, a->E, e * u * y1 * lr[0]);
				vput(V, j, a->E, y * u * lr[1]);
				vput(U, j, a->E, e * y * lr[2]);
			}
			a->dlr[3 * out] = vsum(d0);
			a->dlr[3 * out + 1] = vsum(d1);
			a->dlr[3 * out + 2] = vsum(d2);
			if (a->dsum)
				a->dm[out] = a->dsum[h];
		}
}

void KERNEL(learn_bwd)(struct rf_dev *d, const struct rf_learn_bwd *x)
{
	/* clang-format off */
	struct learn a = { .rows = x->rows, .H = x->H, .E = x->E, .every = (size_t)x->every,
	                   .lr = cpu_f32(d, x->lr), .gu = cpu_f32(d, x->gu),
	                   .e = cpu_f32(d, x->e), .dgu = cpu_f32(d, x->dgu), .de = cpu_f32(d, x->de),
	                   .dlr = cpu_f32(d, x->dlr),
	                   .dm = cpu_f32(d, x->dm), .dsum = cpu_f32(d, x->dsum) };
	/* clang-format on */

	cpu_tiles(d, (a.rows + LEARN_TILE - 1) / LEARN_TILE, learn_bwd_tile, &a);
}

/* ---- the update ---------------------------------------------------------------------------- */

enum { SPAN = 1 << 14 };

/* Returns how many numbers of the vector at `at` are among the first n. */
#define LEFT_OF(n, at) ((n) - (at) < VL ? (int)((n) - (at)) : VL)

struct momentum {
	size_t n, tiles;
	float factor;
	const float *x, *p, *m, *dy;
	float *y, *dp;
	double *part;
};

static void momentum_fwd_tile(void *arg, int tile, int thread)
{
	const struct momentum *a = arg;
	size_t h = (size_t)tile / a->tiles, i = (size_t)tile % a->tiles * SPAN,
	       last = i + SPAN < a->n ? i + SPAN : a->n;
	float factor = a->factor * a->m[h];

	(void)thread;
	for (i += h * a->n, last += h * a->n; i < last; i += VL)
		vput(a->y + i, 0, LEFT_OF(last, i),
		     vget(a->x + i, 0, LEFT_OF(last, i)) + factor * vget(a->p + i, 0, LEFT_OF(last, i)));
}

void KERNEL(momentum_fwd)(struct rf_dev *d, const struct rf_momentum_fwd *x)
{
	struct momentum a = { .n = x->n,
		              .tiles = (x->n + SPAN - 1) / SPAN,
		              .factor = x->factor,
		              .x = cpu_f32(d, x->x),
		              .p = cpu_f32(d, x->p),
		              .m = cpu_f32(d, x->m),
		              .y = cpu_f32(d, x->y) };

	cpu_tiles(d, (int)((size_t)x->H * a.tiles), momentum_fwd_tile, &a);
}

static void momentum_bwd_tile(void *arg, int tile, int thread)
{
	const struct momentum *a = arg;
	size_t h = (size_t)tile / a->tiles, i = (size_t)tile % a->tiles * SPAN,
	       last = i + SPAN < a->n ? i + SPAN : a->n;
	float factor = a->factor * a->m[h];
	vf sum = vset(0);

	(void)thread;
	for (i += h * a->n, last += h * a->n; i < last; i += VL) {
		vf dy = vget(a->dy + i, 0, LEFT_OF(last, i));
		sum += dy * vget(a->p + i, 0, LEFT_OF(last, i));
		vput(a->dp + i, 0, LEFT_OF(last, i), vget(a->dp + i, 0, LEFT_OF(last, i)) + factor * dy);
	}
	a->part[tile] = (double)vsum(sum);
}

void KERNEL(momentum_bwd)(struct rf_dev *d, const struct rf_momentum_bwd *x)
{
	struct momentum a = { .n = x->n,
		              .tiles = (x->n + SPAN - 1) / SPAN,
		              .factor = x->factor,
		              .p = cpu_f32(d, x->p),
		              .m = cpu_f32(d, x->m),
		              .dy = cpu_f32(d, x->dy),
		              .dp = cpu_f32(d, x->dp) };
	float *dm = cpu_f32(d, x->dm);

	if (!(a.part = rf_cpu_scratch(d, -1, (size_t)x->H * a.tiles * sizeof *a.part)))
		return;
	cpu_tiles(d, (int)((size_t)x->H * a.tiles), momentum_bwd_tile, &a);
	for (int h = 0; h < x->H; h++) {
		double sum = 0;
		for (size_t t = 0; t < a.tiles; t++)
			sum += a.part[(size_t)h * a.tiles + t];
		dm[h] += (float)(sum * (double)x->factor);
	}
}

/* Rows that may be as long as a matrix.  A tile has one row, or several rows that make about SPAN numbers. */
struct length {
	int rows, tile;
	size_t n;
	float eps;
	const float *x, *length, *dy, *dlength;
	float *y, *dx, *dn;
};

static void run_length(struct rf_dev *d, struct length a, void (*tile)(void *, int, int))
{
	a.tile = a.n < SPAN ? (int)(SPAN / a.n) : 1;
	cpu_tiles(d, (a.rows + a.tile - 1) / a.tile, tile, &a);
}

/* Returns x . y; the sums of short runs are added in double. */
static double long_dot(const float *x, const float *y, size_t n)
{
	enum { RUN = 1 << 10 };
	double all = 0;

	for (size_t from = 0; from < n; from += RUN) {
		size_t last = from + RUN < n ? from + RUN : n;
		vf sum = vset(0);

		for (size_t i = from; i < last; i += VL)
			sum += vget(x + i, 0, LEFT_OF(last, i)) * vget(y + i, 0, LEFT_OF(last, i));
		all += (double)vsum(sum);
	}
	return all;
}

static void length_fwd_tile(void *arg, int tile, int thread)
{
	const struct length *a = arg;

	(void)thread;
	for (int i = tile * a->tile; i < a->rows && i < (tile + 1) * a->tile; i++) {
		const float *x = a->x + (size_t)i * a->n;
		a->y[i] = (float)sqrt(long_dot(x, x, a->n));
	}
}

void KERNEL(length_fwd)(struct rf_dev *d, const struct rf_length_fwd *x)
{
	run_length(d,
	           (struct length){
			   .rows = x->rows, .n = x->n, .x = cpu_f32(d, x->x), .y = cpu_f32(d, x->y) },
	           length_fwd_tile);
}

static void length_bwd_tile(void *arg, int tile, int thread)
{
	const struct length *a = arg;

	(void)thread;
	for (int i = tile * a->tile; i < a->rows && i < (tile + 1) * a->tile; i++) {
		float factor = a->length[i] > 0 ? a->dlength[i] / a->length[i] : 0;
		const float *x = a->x + (size_t)i * a->n;
		float *dx = a->dx + (size_t)i * a->n;

		for (size_t j = 0; j < a->n; j += VL)
			vput(dx + j, 0, LEFT_OF(a->n, j),
			     vget(dx + j, 0, LEFT_OF(a->n, j)) + factor * vget(x + j, 0, LEFT_OF(a->n, j)));
	}
}

void KERNEL(length_bwd)(struct rf_dev *d, const struct rf_length_bwd *x)
{
	/* clang-format off */
	run_length(d, (struct length){ .rows = x->rows, .n = x->n, .x = cpu_f32(d, x->x),
	                               .length = cpu_f32(d, x->y),
	                               .dlength = cpu_f32(d, x->dy), .dx = cpu_f32(d, x->dx) },
	                               length_bwd_tile);
	/* clang-format on */
}

static void renorm_fwd_tile(void *arg, int tile, int thread)
{
	const struct length *a = arg;

	(void)thread;
	for (int i = tile * a->tile; i < a->rows && i < (tile + 1) * a->tile; i++) {
		const float *x = a->x + (size_t)i * a->n;
		float *y = a->y + (size_t)i * a->n,
		      factor = (float)((a->length ? (double)a->length[i] : 1) /
		                       (sqrt(long_dot(x, x, a->n)) + (double)a->eps));

		for (size_t j = 0; j < a->n; j += VL)
			vput(y + j, 0, LEFT_OF(a->n, j), factor * vget(x + j, 0, LEFT_OF(a->n, j)));
	}
}

void KERNEL(renorm_fwd)(struct rf_dev *d, const struct rf_renorm_fwd *x)
{
	/* clang-format off */
	run_length(d, (struct length){ .rows = x->rows, .n = x->n, .eps = x->eps, .x = cpu_f32(d, x->x),
	                               .length = cpu_f32(d, x->length),
	                               .y = cpu_f32(d, x->y) }, renorm_fwd_tile);
	/* clang-format on */
}

/* Computes the gradients of renorm.  With r = |x|, y = x L / (r + eps):
 *
 *     dx = L (dy / (r + eps) - x (dy . x) / (r (r + eps)^2)),  dL = dy . x / (r + eps) */
static void renorm_bwd_tile(void *arg, int tile, int thread)
{
	const struct length *a = arg;

	(void)thread;
	for (int i = tile * a->tile; i < a->rows && i < (tile + 1) * a->tile; i++) {
		const float *x = a->x + (size_t)i * a->n, *dy = a->dy + (size_t)i * a->n;
		double r = sqrt(long_dot(x, x, a->n)), s = 1 / (r + (double)a->eps),
		       dot = long_dot(dy, x, a->n), L = a->length ? (double)a->length[i] : 1;
		float *dx = a->dx + (size_t)i * a->n, factor = (float)(L * s),
		      back = r > 0 ? (float)(L * dot * s * s / r) : 0;

		for (size_t j = 0; j < a->n; j += VL)
			vput(dx + j, 0, LEFT_OF(a->n, j),
			     vget(dx + j, 0, LEFT_OF(a->n, j)) + factor * vget(dy + j, 0, LEFT_OF(a->n, j)) -
			             back * vget(x + j, 0, LEFT_OF(a->n, j)));
		if (a->dn)
			a->dn[i] += (float)(dot * s);
	}
}

void KERNEL(renorm_bwd)(struct rf_dev *d, const struct rf_renorm_bwd *x)
{
	/* clang-format off */
	run_length(d, (struct length){ .rows = x->rows, .n = x->n, .eps = x->eps, .x = cpu_f32(d, x->x),
	                               .length = cpu_f32(d, x->length),
	                               .dy = cpu_f32(d, x->dy), .dx = cpu_f32(d, x->dx),
	                               .dn = cpu_f32(d, x->dlength) }, renorm_bwd_tile);
	/* clang-format on */
}

struct diagonal {
	size_t stride, step;
	int n;
	float value, *y;
};

static void diagonal_tile(void *arg, int tile, int thread)
{
	const struct diagonal *a = arg;

	(void)thread;
	for (int i = 0; i < a->n; i++)
		a->y[(size_t)tile * a->stride + (size_t)i * a->step] += a->value;
}

void KERNEL(diagonal)(struct rf_dev *d, const struct rf_diagonal *x)
{
	struct diagonal a = { .stride = x->stride,
		              .step = (size_t)x->cols + 1,
		              .n = x->rows < x->cols ? x->rows : x->cols,
		              .value = x->value,
		              .y = cpu_f32(d, x->y) };

	cpu_tiles(d, x->mats, diagonal_tile, &a);
}
