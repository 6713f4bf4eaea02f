/* rounded.h -- bf16 copies of what products multiply: rounded.cu has them, gemm.cu multiplies them.  What
 * kernels must say of what they write is in cuda.h. */
#ifndef RF_ROUNDED_H
#define RF_ROUNDED_H

#include "cuda/cuda.h"

/* A matrix in memory: `rows` rows of `cols` numbers, ld apart; `batch` of such, `apart` floats apart. */
struct stored { const float *p; int rows, cols, ld, batch; size_t apart; };
/* Weights one below the other: rows of as many numbers each, without gaps. */
struct side { int parts, cols; const float *p[RF_SIDE]; int rows[RF_SIDE]; };
/* A copy: numbers from row to row, and from one matrix of a batch to the next. */
struct copy { const bf16 *p; int ld; size_t apart; };

static inline size_t rf_numbers(const struct stored *s) { return (size_t)s->rows * s->cols * s->batch; }

/* Makes room for operands of a product, or for the copies that one kernel writes: n is the numbers of the
 * largest.  Copies that were there may be lost.  false: there is too little memory, and the device failed. */
bool rf_cuda_rounded_room(struct rf_dev *d, size_t n);
/* The copy of an operand, made now unless there is one: valid until room for others is taken.  keep: the
 * product's other operand, which stays; NULL: there is none yet.  false: the device has failed. */
bool rf_cuda_rounded(struct rf_dev *d, const struct stored *s, const struct copy *keep, struct copy *to);
/* That of weights: valid until one of them changes.  NULL: the device has failed. */
const bf16 *rf_cuda_rounded_side(struct rf_dev *d, const struct side *s);

/* _workspace: the bytes that copies need for struct rf_workspace.  _prepare: takes them now. */
size_t rf_cuda_rounded_workspace(const struct rf_workspace *need);
void rf_cuda_rounded_prepare(struct rf_dev *d, const struct rf_workspace *need);
void rf_cuda_rounded_close(struct rf_dev *d);

#endif
