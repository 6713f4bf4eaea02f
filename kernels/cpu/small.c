/* small.c -- multiplies small matrices.
 *
 * oneDNN compiles code for each shape, which takes up to a millisecond.  Sums are in double: the product of
 * two floats is exact there, so every instruction set, with or without fused multiply-add, computes the same
 * bits. */
#include "cpu/cpu.h"
#include "cpu/vec.h"

/* A register of doubles, and as many floats. */
enum { LANES = VL / 2 };
typedef double vd __attribute__((vector_size(LANES * 8)));
typedef float vhalf __attribute__((vector_size(LANES * 4)));

INLINE vd load_doubles(const float *p)
{
	vhalf x;

	memcpy(&x, p, sizeof x);
	return __builtin_convertvector(x, vd);
}

/* Computes `rows` rows of `vectors` registers of columns of C, from row i and column j.  rows and vectors are
 * constants where this is called. */
INLINE void multiply_block(const struct cpu_product *p, const float *bias, int i, int j, const int rows,
                           const int vectors)
{
	const size_t down = p->ta ? 1 : (size_t)p->lda, along = p->ta ? (size_t)p->lda : 1;
	const float *a = (const float *)p->a + (size_t)i * down, *b = p->b + j;
	vd sum[4][2] = { 0 };

	for (int l = 0; l < p->k; l++, a += along, b += p->ldb)
		for (int v = 0; v < vectors; v++) {
			vd x = load_doubles(b + v * LANES);

			for (int r = 0; r < rows; r++)
				sum[r][v] += (double)a[(size_t)r * down] * x;
		}
	for (int r = 0; r < rows; r++)
		for (int v = 0; v < vectors; v++) {
			float *c = p->c + (size_t)(i + r) * (size_t)p->ldc + (size_t)(j + v * LANES);
			vhalf y;

			if (p->add)
				sum[r][v] += load_doubles(c);
			if (bias)
				sum[r][v] += load_doubles(bias + j + v * LANES);
			y = __builtin_convertvector(sum[r][v], vhalf);
			memcpy(c, &y, sizeof y);
		}
}

/* Computes `rows` rows of one column of C. */
INLINE void multiply_column(const struct cpu_product *p, const float *bias, int i, int j, const int rows)
{
	const size_t down = p->ta ? 1 : (size_t)p->lda, along = p->ta ? (size_t)p->lda : 1;
	const float *a = (const float *)p->a + (size_t)i * down, *b = p->b + j;
	double sum[4] = { 0 };

	for (int l = 0; l < p->k; l++, a += along, b += p->ldb)
		for (int r = 0; r < rows; r++)
			sum[r] += (double)a[(size_t)r * down] * (double)*b;
	for (int r = 0; r < rows; r++) {
		float *c = p->c + (size_t)(i + r) * (size_t)p->ldc + (size_t)j;

		*c = (float)(sum[r] + (p->add ? (double)*c : 0) + (bias ? (double)bias[j] : 0));
	}
}

INLINE void multiply_rows(const struct cpu_product *p, const float *bias, int i, const int rows)
{
	int j = 0;

	for (; j + 2 * LANES <= p->n; j += 2 * LANES)
		multiply_block(p, bias, i, j, rows, 2);
	for (; j + LANES <= p->n; j += LANES)
		multiply_block(p, bias, i, j, rows, 1);
	for (; j < p->n; j++)
		multiply_column(p, bias, i, j, rows);
}

void KERNEL(multiply_small)(const struct cpu_product *p, const float *bias)
{
	int i = 0;

	for (; i + 4 <= p->m; i += 4)
		multiply_rows(p, bias, i, 4);
	for (; i < p->m; i++)
		multiply_rows(p, bias, i, 1);
}
