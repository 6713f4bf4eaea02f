/* product.h -- small products of matrices that are in the nearest caches, for the delta rule's chunks and for
 * attention's blocks.
 *
 * A block of C, PROD_ROWS rows of a few vectors, is summed in registers.  Every element of C is one sum over
 * kd in ascending order, which starts with the element's old value (ADD, SUB).  So the division of m, n and
 * kd into blocks changes no bit. */
#ifndef RF_PRODUCT_H
#define RF_PRODUCT_H

#include <stdbool.h>

#include "cpu/vec.h"

/* With 16 registers, a block of C is 4 x 3 vectors, with 32 it is 8 x 3; the other registers hold a row of B
 * and the number of A by which it is multiplied.  With fewer sums than the latency of the multipliers
 * requires, these would idle. */
enum { PROD_ROWS = 4, PROD_TALL = VREGS == 32 ? 8 : 4, PROD_VECS = 3 };
enum prod_mode { SET, ADD, SUB };

/* Computes C (rows, VL nv) =, += or -= A (rows, kd) B (kd, VL nv); trans: A is stored (kd, rows).  Callers
 * pass constants as rows and nv, so that s stays in registers. */
INLINE void prod_block(int rows, int nv, bool trans, int kd, const float *a, int lda, const float *b, int ldb,
                       float *c, int ldc, enum prod_mode mode)
{
	vf s[PROD_TALL][PROD_VECS];

#pragma GCC unroll 8
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
		for (int j = 0; j < nv; j++)
			s[i][j] = mode == SET   ? vset(0)
			          : mode == ADD ? vload(c + i * ldc + VL * j)
			                        : -vload(c + i * ldc + VL * j);
	for (int p = 0; p < kd; p++, b += ldb) {
		vf x[PROD_VECS];

#pragma GCC unroll 8
		for (int j = 0; j < nv; j++)
			x[j] = vload(b + VL * j);
#pragma GCC unroll 8
		for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
			for (int j = 0; j < nv; j++)
				s[i][j] += (trans ? a[p * lda + i] : a[i * lda + p]) * x[j];
	}
#pragma GCC unroll 8
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
		for (int j = 0; j < nv; j++)
			vstore(c + i * ldc + VL * j, mode == SUB ? -s[i][j] : s[i][j]);
}

/* Computes VL nv columns of C and all m rows. */
INLINE void prod_columns(int nv, bool trans, int m, int kd, const float *a, int lda, const float *b, int ldb,
                         float *c, int ldc, enum prod_mode mode)
{
	int i = 0, step = trans ? 1 : lda;

	for (; PROD_TALL > PROD_ROWS && i + PROD_TALL <= m; i += PROD_TALL)
		prod_block(PROD_TALL, nv, trans, kd, a + i * step, lda, b, ldb, c + i * ldc, ldc, mode);
	for (; i < m; i += PROD_ROWS)
		prod_block(PROD_ROWS, nv, trans, kd, a + i * step, lda, b, ldb, c + i * ldc, ldc, mode);
}

/* Computes C (m, n) =, += or -= A (m, kd) B (kd, n); m is a multiple of PROD_ROWS, n of VL; trans: A is
 * stored (kd, m). */
INLINE void prod(bool trans, int m, int n, int kd, const float *a, int lda, const float *b, int ldb, float *c,
                 int ldc, enum prod_mode mode)
{
	for (int left = n / VL, nv; left; left -= nv, b += VL * nv, c += VL * nv) {
		nv = left == 4 ? 2 : left < 3 ? left : 3; /* not 3 and 1: one vector has too few sums */
		if (nv == 3)
			prod_columns(3, trans, m, kd, a, lda, b, ldb, c, ldc, mode);
		else if (nv == 2)
			prod_columns(2, trans, m, kd, a, lda, b, ldb, c, ldc, mode);
		else
			prod_columns(1, trans, m, kd, a, lda, b, ldb, c, ldc, mode);
	}
}

#endif
