/* operands.c -- the forms in which gemm.c gives operands to oneDNN: rounded to bf16, and turned. */
#include "cpu.h"
#include "half.h"
#include "vec.h"

typedef uint32_t vu __attribute__((vector_size(64)));
typedef uint16_t vh __attribute__((vector_size(32)));

/* As rf_f32_bf16(), 16 at a time. */
static void round_row(uint16_t *to, const float *from, size_t n)
{
	size_t i = 0;

	for (; i + VL <= n; i += VL) {
		vf x = vload(from + i);
		vu u = (vu)x, near = (u + 0x7fff + (u >> 16 & 1)) >> 16, nan = u >> 16 | 0x40, is = (vu)(x == x);
		vh h = __builtin_convertvector((near & is) | (nan & ~is), vh);

		memcpy(to + i, &h, sizeof h);
	}
	for (; i < n; i++)
		to[i] = rf_f32_bf16(from[i]);
}

struct rounding { const float *from; uint16_t *to; int rows, cols, ld; };

static void round_tile(void *arg, int t, int thread)
{
	const struct rounding *a = arg;
	int last = (t + 1) * ROWS_TILE < a->rows ? (t + 1) * ROWS_TILE : a->rows;

	(void)thread;
	for (int i = t * ROWS_TILE; i < last; i++)
		round_row(a->to + (size_t)i * (size_t)a->cols, a->from + (size_t)i * (size_t)a->ld, (size_t)a->cols);
}

void KERNEL(round)(struct rf_dev *d, const float *from, int rows, int cols, int ld, uint16_t *to)
{
	struct rounding a = { from, to, rows, cols, ld };

	cpu_tiles(d, (rows + ROWS_TILE - 1) / ROWS_TILE, round_tile, &a);
}

void KERNEL(turn)(const float *b, int n, int k, int ldb, float *to)
{
	enum { SIDE = 16 };
	int j = 0;

	for (; j + SIDE <= n; j += SIDE) /* squares that stay in the nearest cache */
		for (int l = 0; l < k; l += SIDE)
			for (int r = 0; r < SIDE && l + r < k; r++)
				for (int c = 0; c < SIDE; c++)
					to[(size_t)(l + r) * (size_t)n + (size_t)(j + c)] = b[(size_t)(j + c) * (size_t)ldb + (size_t)(l + r)];
	for (; j < n; j++)
		for (int l = 0; l < k; l++)
			to[(size_t)l * (size_t)n + (size_t)j] = b[(size_t)j * (size_t)ldb + (size_t)l];
}
