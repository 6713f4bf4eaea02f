/* rows.c -- whole rows: embeddings, gathering and scattering, sums of columns. */
#include "cpu.h"
#include "vec.h"

/* Work on columns [tile COLS, ...) of all rows: then rows that fall on the same target are added in their order,
 * whatever the number of threads. */
enum { COLS = 64 };

struct job {
	int n, d;
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
		const float *x = a->from + (size_t)(a->fi ? a->fi[i] : i) * (size_t)a->d + j0;
		float *y = a->to + (size_t)(a->ti ? a->ti[i] : i) * (size_t)a->d + j0;

		if (a->add)
			for (int j = 0; j < w; j++)
				y[j] += x[j];
		else
			memmove(y, x, (size_t)w * 4);
	}
}

static void run(struct rf_dev *d, struct job a)
{
	cpu_tiles(d, (a.d + COLS - 1) / COLS, tile_cols, &a);
}

void KERNEL(rows)(struct rf_dev *d, const struct rf_rows *a)
{
	run(d, (struct job){ a->n, a->d, a->add, cpu_f32(d, a->from), cpu_f32(d, a->to), cpu_i32(d, a->fi), cpu_i32(d, a->ti) });
}

void KERNEL(embed_fwd)(struct rf_dev *d, const struct rf_embed_fwd *a)
{
	run(d, (struct job){ a->rows, a->d, false, cpu_f32(d, a->w), cpu_f32(d, a->y), cpu_i32(d, a->tokens), NULL });
}

void KERNEL(embed_bwd)(struct rf_dev *d, const struct rf_embed_bwd *a)
{
	run(d, (struct job){ a->rows, a->d, true, cpu_f32(d, a->dy), cpu_f32(d, a->dw), NULL, cpu_i32(d, a->tokens) });
}

struct colsum { int rows, d; const float *x; float *y; };

static void tile_colsum(void *arg, int tile, int thread)
{
	const struct colsum *a = arg;
	int j0 = tile * COLS, w = a->d - j0 < COLS ? a->d - j0 : COLS;
	float s[COLS] = { 0 };

	(void)thread;
	for (int i = 0; i < a->rows; i++)
		for (int j = 0; j < w; j++)
			s[j] += a->x[(size_t)i * (size_t)a->d + (size_t)(j0 + j)];
	for (int j = 0; j < w; j++)
		a->y[j0 + j] += s[j];
}

void KERNEL(colsum)(struct rf_dev *d, const struct rf_colsum *x)
{
	struct colsum a = { x->rows, x->d, cpu_f32(d, x->x), cpu_f32(d, x->y) };

	cpu_tiles(d, (a.d + COLS - 1) / COLS, tile_colsum, &a);
}
