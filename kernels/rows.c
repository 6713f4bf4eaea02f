/* rows.c -- operations on whole rows: embeddings, gathering and scattering, the rows before a sequence, sums
 * of columns. */
#include "cpu/cpu.h"
#include "cpu/vec.h"

/* A tile is COLS columns of all rows.  So rows that have the same target are added in order, for any number
 * of threads. */
enum { COLS = 64 };

struct job {
	int n, d;
	size_t lf, lt;
	bool add;
	const float *from;
	float *to;
	const int32_t *fi, *ti;
};

static void tile_cols(void *arg, int tile, int thread)
{
	const struct job *a = arg;
	int j0 = tile * COLS, w = a->d - j0 < COLS ? a->d - j0 : COLS;

	(void)thread;
	for (int i = 0; i < a->n; i++) {
		const float *x = a->from + (size_t)(a->fi ? a->fi[i] : i) * a->lf + j0;
		float *y = a->to + (size_t)(a->ti ? a->ti[i] : i) * a->lt + j0;

		if (a->add)
			for (int j = 0; j < w; j++)
				y[j] += x[j];
		else
			memmove(y, x, (size_t)w * 4);
	}
}

static void move_rows(struct rf_dev *d, struct job a)
{
	cpu_tiles(d, (a.d + COLS - 1) / COLS, tile_cols, &a);
}

void KERNEL(rows)(struct rf_dev *d, const struct rf_rows *a)
{
	move_rows(d, (struct job){ a->n, a->d, (size_t)(a->lf ? a->lf : a->d), (size_t)(a->lt ? a->lt : a->d),
	                           a->add, cpu_f32(d, a->from), cpu_f32(d, a->to), cpu_i32(d, a->fi),
	                           cpu_i32(d, a->ti) });
}

void KERNEL(embed_fwd)(struct rf_dev *d, const struct rf_embed_fwd *a)
{
	move_rows(d, (struct job){ a->rows, a->d, (size_t)a->d, (size_t)a->d, false, cpu_f32(d, a->w),
	                           cpu_f32(d, a->y), cpu_i32(d, a->tokens), NULL });
}

void KERNEL(embed_bwd)(struct rf_dev *d, const struct rf_embed_bwd *a)
{
	move_rows(d, (struct job){ a->rows, a->d, (size_t)a->d, (size_t)a->d, true, cpu_f32(d, a->dy),
	                           cpu_f32(d, a->dw), NULL, cpu_i32(d, a->tokens) });
}

struct tail {
	int nb, n, moved, w, d;
	bool keep, back;
	float *x, *slots;
	const int32_t *row, *slot;
};

/* Moves one row between x and a slot. */
static void move_row(const struct tail *a, int j0, int w, size_t xrow, size_t srow)
{
	float *x = a->x + xrow * (size_t)a->d + j0, *s = a->slots + srow * (size_t)a->d + j0;
	float *to = a->keep != a->back ? s : x, *from = a->keep != a->back ? x : s;

	if (!a->back)
		memcpy(to, from, (size_t)w * 4);
	else
		for (int j = 0; j < w; j++)
			to[j] += from[j];
}

static void tile_tail(void *arg, int tile, int thread)
{
	const struct tail *a = arg;
	int j0 = tile * COLS, w = a->d - j0 < COLS ? a->d - j0 : COLS;

	(void)thread;
	for (int i = 0; i < a->moved; i++) {
		int s = !a->slot ? 0 : a->slot[a->keep ? i : i / a->n];

		for (int j = 0; j < a->w; j++)
			move_row(a, j0, w,
			         a->keep ? (size_t)(a->row[i] + 1 + j)
			                 : (size_t)j * (size_t)a->nb + (size_t)i,
			         (size_t)s * (size_t)a->w + (size_t)j);
	}
}

void KERNEL(tail_load)(struct rf_dev *d, const struct rf_tail_load *x)
{
	/* clang-format off */
	struct tail a = { .nb = x->nb, .n = x->n ? x->n : 1, .moved = x->nb, .w = x->w,
	                  .d = x->d, .back = x->back, .x = cpu_f32(d, x->x),
	                  .slots = cpu_f32(d, x->slots), .slot = cpu_i32(d, x->slot) };
	/* clang-format on */

	cpu_tiles(d, (a.d + COLS - 1) / COLS, tile_tail, &a);
}

void KERNEL(tail_keep)(struct rf_dev *d, const struct rf_tail_keep *x)
{
	/* clang-format off */
	struct tail a = { .nb = 1, .n = 1, .moved = x->n, .w = x->w, .d = x->d, .keep = true, .back = x->back,
	                  .x = cpu_f32(d, x->x),
	                  .slots = cpu_f32(d, x->slots), .row = cpu_i32(d, x->row),
	                  .slot = cpu_i32(d, x->slot) };
	/* clang-format on */

	cpu_tiles(d, (a.d + COLS - 1) / COLS, tile_tail, &a);
}

struct colsum {
	int rows, d;
	size_t ldx;
	const float *x;
	float *y;
};

static void tile_colsum(void *arg, int tile, int thread)
{
	const struct colsum *a = arg;
	int j0 = tile * COLS, w = a->d - j0 < COLS ? a->d - j0 : COLS;
	double s[COLS] = { 0 }; /* double, since a sum over many rows may be far smaller than its terms */

	(void)thread;
	for (int i = 0; i < a->rows; i++)
		for (int j = 0; j < w; j++)
			s[j] += (double)a->x[(size_t)i * a->ldx + (size_t)(j0 + j)];
	for (int j = 0; j < w; j++)
		a->y[j0 + j] = (float)((double)a->y[j0 + j] + s[j]);
}

void KERNEL(colsum)(struct rf_dev *d, const struct rf_colsum *x)
{
	struct colsum a = { x->rows, x->d, (size_t)(x->ldx ? x->ldx : x->d), cpu_f32(d, x->x),
		            cpu_f32(d, x->y) };

	cpu_tiles(d, (a.d + COLS - 1) / COLS, tile_colsum, &a);
}
