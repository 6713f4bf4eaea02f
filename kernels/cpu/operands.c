/* operands.c -- makes the forms in which gemm.c passes operands to oneDNN: rounded to bf16, and
 * transposed. */
#include "base/half.h"
#include "cpu/cpu.h"
#include "cpu/vec.h"

typedef uint32_t vu __attribute__((vector_size(VL * 4)));
typedef uint16_t vh __attribute__((vector_size(VL * 2)));

/* Rounds like rf_f32_bf16().  The 16 bits are the upper half of the result; the lower half is 0. */
INLINE vu rounded(vf x)
{
	vu u = (vu)x, near = u + 0x7fff + (u >> 16 & 1), nan = u | 0x400000, is = (vu)(x == x);

	return ((near & is) | (nan & ~is)) & 0xffff0000;
}

void KERNEL(narrow)(const float *from, size_t n, uint16_t *to)
{
	size_t i = 0;

	for (; i + VL <= n; i += VL) {
		vh h = __builtin_convertvector(rounded(vload(from + i)) >> 16, vh);

		memcpy(to + i, &h, sizeof h);
	}
	for (; i < n; i++)
		to[i] = rf_f32_bf16(from[i]);
}

void KERNEL(widen)(const uint16_t *from, size_t n, float *to)
{
	size_t i = 0;

	for (; i + VL <= n; i += VL) {
		vh h;

		memcpy(&h, from + i, sizeof h);
		vstore(to + i, (vf)(__builtin_convertvector(h, vu) << 16));
	}
	for (; i < n; i++)
		to[i] = rf_bf16_f32(from[i]);
}

/* Rounds to bf16 but stores float32. */
static void round_to_float(const float *from, size_t n, float *to)
{
	size_t i = 0;

	for (; i + VL <= n; i += VL)
		vstore(to + i, (vf)rounded(vload(from + i)));
	for (; i < n; i++)
		to[i] = rf_bf16_f32(rf_f32_bf16(from[i]));
}

struct rounding {
	const float *from;
	void *to;
	int rows, cols, ld, ldt, bytes;
};

static void round_tile(void *arg, int t, int thread)
{
	const struct rounding *a = arg;
	int last = (t + 1) * ROWS_TILE < a->rows ? (t + 1) * ROWS_TILE : a->rows;

	(void)thread;
	for (int i = t * ROWS_TILE; i < last; i++) {
		const float *from = a->from + (size_t)i * (size_t)a->ld;
		size_t n = (size_t)a->cols, at = (size_t)i * (size_t)a->ldt;

		if (a->bytes == 2)
			KERNEL(narrow)(from, n, (uint16_t *)a->to + at);
		else
			round_to_float(from, n, (float *)a->to + at);
	}
}

void KERNEL(round)(struct rf_dev *d, const float *from, int rows, int cols, int ld, void *to)
{
	struct rounding a = { from, to, rows, cols, ld, cpu_rounded_ld(d, cols), cpu_of(d)->rounded };

	cpu_tiles(d, (rows + ROWS_TILE - 1) / ROWS_TILE, round_tile, &a);
}

void KERNEL(transpose)(const float *b, int n, int k, int ldb, float *to, int ldt)
{
	enum { SIDE = 16 };
	int j = 0;

	for (; j + SIDE <= n; j += SIDE) /* squares that stay in the nearest cache */
		for (int l = 0; l < k; l += SIDE)
			for (int r = 0; r < SIDE && l + r < k; r++)
				for (int c = 0; c < SIDE; c++)
					to[(size_t)(l + r) * (size_t)ldt + (size_t)(j + c)] =
						b[(size_t)(j + c) * (size_t)ldb + (size_t)(l + r)];
	for (; j < n; j++)
		for (int l = 0; l < k; l++)
			to[(size_t)l * (size_t)ldt + (size_t)j] = b[(size_t)j * (size_t)ldb + (size_t)l];
}

const struct cpu_forms KERNEL(forms) = { KERNEL(round), KERNEL(transpose), KERNEL(narrow), KERNEL(widen),
	                                 KERNEL(multiply_small) };
