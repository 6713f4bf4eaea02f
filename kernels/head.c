/* head.c -- the language model's head: entropies and log-probabilities without storing all logits, their
 * gradient, and drawing of tokens.
 *
 * Forward, logits are computed in tiles of TILE_ROWS x TILE_COLS, and each row of a tile is folded into three
 * numbers.  With m the largest logit so far:
 *
 *     s = sum e^(z-m),  t = sum e^(z-m) (z-m),  entropy = log s - t / s
 *
 * Backward, log p + entropy = z - m - t / s, in which log s cancels. */
#include <stdlib.h>

#include "cpu/cpu.h"
#include "cpu/vec.h"

/* the threads compute the vocabulary in parts */
enum { TILE_ROWS = 256, TILE_COLS = 256, PART = 5 * TILE_COLS };

struct stat {
	double s, t;
	float m, top_z, target_z;
	int32_t top;
};

struct head {
	struct rf_dev *dev;
	int rows, d, N, parts, group; /* group: rows that one call multiplies by a part */
	bool small;                   /* whether the logits are a small product, in float32 */
	bool transpose;               /* whether tiles of w are transposed */
	float inv_temp;
	const float *h;
	char *half; /* h rounded to bf16, if products are in bf16; else NULL */
	const float *w;
	const int32_t *target;
	struct stat *stat; /* (rows, parts); at the end, a row's first part holds the merged
	                                numbers */
	float *entropy, *logp;
	int32_t *top;
	/* for the gradient: all logits, which become their gradient; else NULL */
	float *z;
	const float *coef, *entropy_coef;
};

/* Folds the n logits of columns j, j+1, ... into a row's numbers. */
static void fold(struct stat *a, const float *z, int j, int n, float inv_temp, int target)
{
	vf m0 = vset(-INFINITY), s = vset(0), t = vset(0);
	float top, m;

	for (int i = 0; i + VL <= n; i += VL)
		m0 = vmax(vload(z + i), m0);
	if (n % VL)
		m0 = vmax(vload_n(z + n / VL * VL, n % VL, -INFINITY), m0);
	top = vtop(m0);
	if (top > a->top_z) {
		int i = 0;
		while (z[i] != top)
			i++;
		a->top_z = top;
		a->top = j + i;
	}
	m = top * inv_temp;
	if (m > a->m) {
		double f = exp((double)a->m - (double)m);
		a->t = a->s > 0 ? f * (a->t + ((double)a->m - (double)m) * a->s) : 0;
		a->s *= f;
		a->m = m;
	}
	for (int i = 0; i + VL <= n; i += VL) {
		vf x = vmax(vload(z + i) * inv_temp - a->m, vset(-87)), p = vexp(x);
		s += p;
		t += p * x;
	}
	if (n % VL) { /* the padding counts as e^-87, which is negligible */
		vf x = vmax(vload_n(z + n / VL * VL, n % VL, -INFINITY) * inv_temp - a->m, vset(-87)),
		   p = vexp(x);
		s += p;
		t += p * x;
	}
	a->s += (double)vsum(s);
	a->t += (double)vsum(t);
	if (target >= j && target < j + n)
		a->target_z = z[target - j] * inv_temp;
}

/* Computes one part of the vocabulary for one group of rows. */
static void head_tile(void *arg, int tile, int thread)
{
	const struct head *a = arg;
	int part = tile % a->parts, last = (part + 1) * PART < a->N ? (part + 1) * PART : a->N;
	int first = tile / a->parts * a->group, end = first + a->group < a->rows ? first + a->group : a->rows;
	size_t bytes = (size_t)cpu_of(a->dev)->rounded;
	const int ldt = cpu_row_stride(TILE_COLS);
	float *z =
		rf_cpu_scratch(a->dev, thread,
	                       (TILE_ROWS * TILE_COLS + (a->transpose ? (size_t)ldt * (size_t)a->d : 0)) * 4);
	float *transposed = z + TILE_ROWS * TILE_COLS;

	if (!z)
		return;
	for (int r = first; r < end; r++)
		a->stat[r * a->parts + part] = (struct stat){ 0, 0, -INFINITY, -INFINITY, 0, part * PART };
	for (int j = part * PART; j < last; j += TILE_COLS) {
		int w = last - j < TILE_COLS ? last - j : TILE_COLS;
		const float *b = a->w + (size_t)j * (size_t)a->d;

		if (a->transpose)
			KERNEL(transpose)(b, w, a->d, a->d, transposed, ldt);
		for (int r0 = first; r0 < end; r0 += TILE_ROWS) {
			int n = end - r0 < TILE_ROWS ? end - r0 : TILE_ROWS;
			int lda = a->half ? cpu_rounded_ld(a->dev, a->d) : a->d;
			size_t at = (size_t)r0 * (size_t)lda;
			/* clang-format off */
			struct cpu_product p = {
				.m = n, .n = w, .k = a->d, .tb = !a->transpose, .weight = true,
				.forms = &KERNEL(forms), .rounded = cpu_of(a->dev)->rounded,
				.a = a->half ? (const void *)(a->half + at * bytes) : a->h + at, .lda = lda,
				.b = a->transpose ? transposed : b, .ldb = a->transpose ? ldt : a->d,
				.c = z, .ldc = w
			};
			/* clang-format on */

			/* ldc is w even if the caller wants z: for another ldc oneDNN may sum in another
			 * order */
			if (a->small)
				KERNEL(multiply_small)(&p, NULL);
			else
				rf_cpu_product(a->dev, thread, &p);
			for (int r = 0; r < n; r++) {
				const float *row = z + (size_t)r * (size_t)w;

				fold(&a->stat[(r0 + r) * a->parts + part], row, j, w, a->inv_temp,
				     a->target ? a->target[r0 + r] : -1);
				if (a->z)
					memcpy(a->z + (size_t)(r0 + r) * (size_t)a->N + j, row,
					       (size_t)w * 4);
			}
		}
	}
}

/* Merges the parts of a row, in order, and writes its results. */
static void finish_row(const struct head *a, int r)
{
	struct stat *p = a->stat + r * a->parts;
	struct stat x = p[0];

	for (int i = 1; i < a->parts; i++) {
		float m = p[i].m > x.m ? p[i].m : x.m;
		double f = exp((double)x.m - (double)m), g = exp((double)p[i].m - (double)m);

		x.t = f * (x.t + ((double)x.m - (double)m) * x.s) +
		      g * (p[i].t + ((double)p[i].m - (double)m) * p[i].s);
		x.s = f * x.s + g * p[i].s;
		x.m = m;
		if (p[i].top_z > x.top_z) {
			x.top_z = p[i].top_z;
			x.top = p[i].top;
		}
		if (a->target && a->target[r] >= i * PART && a->target[r] < (i + 1) * PART)
			x.target_z = p[i].target_z;
	}
	if (a->entropy) {
		double H = log(x.s) - x.t / x.s;
		/* rounding may leave -1e-8 where the entropy is 0; NaN stays */
		a->entropy[r] = H < 0 ? 0 : (float)H;
	}
	if (a->logp)
		a->logp[r] = a->target && a->target[r] >= 0
		                     ? (float)((double)x.target_z - (double)x.m - log(x.s))
		                     : 0;
	if (a->top)
		a->top[r] = x.top;
	*p = x;
}

static void finish_tile(void *arg, int tile, int thread)
{
	const struct head *a = arg;
	int last = (tile + 1) * ROWS_TILE < a->rows ? (tile + 1) * ROWS_TILE : a->rows;

	(void)thread;
	for (int r = tile * ROWS_TILE; r < last; r++)
		finish_row(a, r);
}

/* Computes the numbers of all rows of a->h. */
static void fold_rows(struct head *a)
{
	struct rf_dev *d = a->dev;
	size_t stats = (size_t)a->rows * (size_t)a->parts * sizeof *a->stat,
	       half = (size_t)a->rows * (size_t)cpu_rounded_ld(d, a->d) * (size_t)cpu_of(d)->rounded;
	char *mem = rf_cpu_scratch(d, -1, stats + half);

	if (!mem)
		return;
	a->stat = (struct stat *)(void *)mem;
	a->small = !half && cpu_is_small_weight(a->N, a->d);
	a->transpose = a->transpose || a->small;
	if (half) {
		a->half = mem + stats;
		KERNEL(round)(d, a->h, a->rows, a->d, a->d, a->half);
	}
	/* a small vocabulary has too few parts for all threads, so its rows are divided too, and each group
	 * transposes w again */
	a->group = a->parts < 16 ? 2 * TILE_ROWS : a->rows;
	cpu_tiles(d, a->parts * ((a->rows + a->group - 1) / a->group), head_tile, a);
	cpu_tiles(d, (a->rows + ROWS_TILE - 1) / ROWS_TILE, finish_tile, a);
}

static bool is_transposed(struct rf_dev *d, int rows) { return !cpu_of(d)->rounded && rows >= 2 * TILE_ROWS; }

void KERNEL(head_fwd)(struct rf_dev *d, const struct rf_head_fwd *x)
{
	/* clang-format off */
	struct head a = { .dev = d, .rows = x->rows, .d = x->d, .N = x->N, .parts = (x->N + PART - 1) / PART,
	                  .transpose = is_transposed(d, x->rows), .inv_temp = x->inv_temp,
	                  .h = cpu_f32(d, x->h), .w = cpu_f32(d, x->w), .target = cpu_i32(d, x->target),
	                  .entropy = cpu_f32(d, x->entropy), .logp = cpu_f32(d, x->logp),
	                  .top = cpu_i32(d, x->top) };
	/* clang-format on */

	fold_rows(&a);
}

/* ---- the gradient -------------------------------------------------------------------------- */

/* Turns a row's logits into the gradient without the target's part: p (coef + entropy_coef (log p + H)),
 * times inv_temp. */
static void entropy_gradient(const struct head *a, const struct stat *x, float *z, float coef,
                             float entropy_coef)
{
	const double scale = (double)a->inv_temp / x->s,
		     base = ((double)coef - (double)entropy_coef * (x->t / x->s)) * scale;
	const float c = (float)base, e = (float)((double)entropy_coef * scale);

	for (int j = 0; j < a->N; j += VL) {
		/* as in fold, a logit of -inf has a negligible p, and no infinite logarithm */
		vf v = vmax(vget(z, j, a->N) * a->inv_temp - x->m, vset(-87));
		vput(z, j, a->N, (c + e * v) * vexp(v));
	}
}

static void gradient_row(void *arg, int r, int thread)
{
	const struct head *a = arg;
	const struct stat *x = &a->stat[(size_t)r * (size_t)a->parts];
	const float coef = a->coef[r], entropy_coef = a->entropy_coef ? a->entropy_coef[r] : 0;
	float *z = a->z + (size_t)r * (size_t)a->N;

	(void)thread;
	if (coef == 0 && entropy_coef == 0) { /* not 0 times a NaN: such a row must have no effect */
		memset(z, 0, (size_t)a->N * 4);
		return;
	}
	if (entropy_coef != 0)
		entropy_gradient(a, x, z, coef, entropy_coef);
	else {
		const float f = (float)((double)coef * (double)a->inv_temp / x->s);

		for (int j = 0; j < a->N; j += VL)
			vput(z, j, a->N, f * vexp(vget(z, j, a->N) * a->inv_temp - x->m));
	}
	if (coef != 0)
		z[a->target[r]] -= coef * a->inv_temp;
}

/* The address of row `first` of x; NULL stays NULL. */
#define FROM(x, first) ((x) ? (x) + (first) : NULL)

/* Computes a number of rows at a time whose logits are still in a cache when they are turned into their
 * gradient. */
void KERNEL(head_bwd)(struct rf_dev *d, const struct rf_head_bwd *x)
{
	const int32_t *target = cpu_i32(d, x->target);
	const float *h = cpu_f32(d, x->h), *coef = cpu_f32(d, x->coef),
		    *entropy_coef = cpu_f32(d, x->entropy_coef);
	float *entropy = cpu_f32(d, x->entropy), *logp = cpu_f32(d, x->logp), *z = cpu_f32(d, x->z);
	int32_t *top = cpu_i32(d, x->top);

	for (int r = 0; r < x->rows; r += TILE_ROWS) {
		const int n = x->rows - r < TILE_ROWS ? x->rows - r : TILE_ROWS;
		const size_t at = (size_t)r * (size_t)x->d;
		/* clang-format off */
		struct head a = { .dev = d, .rows = n, .d = x->d, .N = x->N,
		                  .parts = (x->N + PART - 1) / PART,
		                  .transpose = is_transposed(d, x->rows), .inv_temp = x->inv_temp,
		                  .h = h + at, .w = cpu_f32(d, x->w), .target = target + r,
		                  .entropy = FROM(entropy, r), .logp = FROM(logp, r), .top = FROM(top, r),
		                  .z = z, .coef = coef + r, .entropy_coef = FROM(entropy_coef, r) };
		/* clang-format on */

		fold_rows(&a);
		if (!a.stat)
			return;
		cpu_tiles(d, n, gradient_row, &a);
		/* clang-format off */
		KERNEL(gemm)(d, &(struct rf_gemm){ .m = x->N, .n = x->d, .k = n, .ta = true, .add = true,
		                                   .a = x->z, .lda = x->N, .b = rf_at(x->h, at),
		                                   .ldb = x->d, .c = x->dw, .ldc = x->d });
		KERNEL(gemm)(d, &(struct rf_gemm){ .m = n, .n = x->d, .k = x->N, .weight = true, .a = x->z,
		                                   .lda = x->N, .b = x->w, .ldb = x->d,
		                                   .c = rf_at(x->dh, at), .ldc = x->d });
		/* clang-format on */
	}
}

/* ---- drawing ------------------------------------------------------------------------------- */

struct draw {
	const struct rf_sample *x;
	struct rf_dev *dev;
	const float *z;
	const int32_t *banned;
	const double *u;
	int32_t *token;
	float *logp, *kept;
};
struct ranked {
	float p;
	int32_t id;
};

/* Returns p as a whole number of units (dev.h), whose sums are exact; a NaN counts as 0. */
static uint64_t weight_of(float p) { return p > 0 ? (uint64_t)rintf((p < 1 ? p : 1) * RF_DRAW_WHOLE) : 0; }

static int by_rank(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	return x->p != y->p ? (x->p < y->p) - (x->p > y->p) : (x->id > y->id) - (x->id < y->id);
}

/* Keeps the top_k most likely numbers of p (N), then the fewest of these whose sum reaches top_p; sets the
 * others to 0. */
static void keep_likely(float *p, int N, int top_k, double top_p, struct ranked *rank)
{
	uint64_t total = 0, sum = 0;
	int n = 0, keep = 0;

	for (int i = 0; i < N; i++)
		if (p[i] > 0)
			rank[n++] = (struct ranked){ p[i], i };
	qsort(rank, (size_t)n, sizeof *rank, by_rank);
	if (top_k && top_k < n)
		n = top_k;
	for (int i = 0; i < n; i++)
		total += weight_of(rank[i].p);
	while (keep < n && (keep == 0 || top_p >= 1 || (double)sum < top_p * (double)total))
		sum += weight_of(rank[keep++].p);
	memset(p, 0, (size_t)N * 4);
	for (int i = 0; i < keep; i++)
		p[rank[i].id] = rank[i].p;
}

/* Returns the probability of all ids that may be drawn: `total` units of the probability of the largest logit
 * `top` among them. */
static double kept_part(const struct rf_sample *x, const struct stat *all, float top, uint64_t total)
{
	double part = (double)total / (double)RF_DRAW_WHOLE *
	              exp((double)top * (double)x->inv_temp - (double)all->m) / all->s;

	if (!x->banned && !x->top_k && x->top_p >= 1 && part == part)
		return 1;
	return part > 1 ? 1 : part; /* NaN stays */
}

static void draw_row(void *arg, int r, int thread)
{
	const struct draw *a = arg;
	int N = a->x->N;
	const float *z = a->z + (size_t)(a->x->n > 1 ? r / a->x->n : r) * (size_t)N;
	float *p = rf_cpu_scratch(a->dev, thread, (size_t)N * (4 + sizeof(struct ranked)) + 64),
	      top = -INFINITY;
	uint64_t total = 0, sum = 0;
	struct stat x = { 0, 0, -INFINITY, -INFINITY, 0, 0 };
	int token = -1;

	if (!p)
		return;
	fold(&x, z, 0, N, a->x->inv_temp, -1);
	memcpy(p, z, (size_t)N * 4);
	for (int i = 0; i < a->x->banned; i++)
		if (a->banned[i] >= 0 && a->banned[i] < N)
			p[a->banned[i]] = -INFINITY;
	for (int i = 0; i < N; i++)
		top = p[i] > top ? p[i] : top;
	for (int j = 0; j < N; j += VL)
		vput(p, j, N, vexp((vget(p, j, N) - top) * a->x->inv_temp));
	for (int i = 0; i < a->x->banned; i++)
		if (a->banned[i] >= 0 && a->banned[i] < N)
			p[a->banned[i]] = 0;
	if (a->x->top_k || a->x->top_p < 1)
		keep_likely(p, N, a->x->top_k, a->x->top_p,
		            (struct ranked *)(void *)(p + (N + 15) / 16 * 16));
	for (int i = 0; i < N; i++)
		total += weight_of(p[i]);
	for (int i = 0; i < N; i++) {
		uint64_t w = weight_of(p[i]);

		if (!w)
			continue;
		token = i;
		if ((double)(sum += w) > a->u[r] * (double)total)
			break;
	}
	if (token < 0 && x.s == x.s) /* otherwise the logits are NaN, and logp is NaN */
		rf_dev_fail(a->dev, RF_ENUMERIC, "nothing to draw from in row %d: every token is forbidden",
		            r);
	token = token < 0 ? 0 : token;
	a->token[r] = token;
	if (a->logp)
		a->logp[r] = (float)((double)(z[token] * a->x->inv_temp) - (double)x.m - log(x.s));
	if (a->kept)
		a->kept[r] = (float)kept_part(a->x, &x, top, total);
}

void KERNEL(sample)(struct rf_dev *d, const struct rf_sample *x)
{
	struct draw a = { x,
		          d,
		          cpu_f32(d, x->z),
		          cpu_i32(d, x->banned_ids),
		          cpu_f64(d, x->u),
		          cpu_i32(d, x->token),
		          cpu_f32(d, x->logp),
		          cpu_f32(d, x->kept) };

	cpu_tiles(d, x->rows, draw_row, &a);
}
