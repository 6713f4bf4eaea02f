/* rounded.h -- bf16 copies of products' operands: rounded.cu makes them, gemm.cu multiplies them.  cuda.h
 * says how kernels announce their output. */
#ifndef RF_ROUNDED_H
#define RF_ROUNDED_H

#include "cuda/cuda.h"

/* `batch` matrices in memory, `stride` floats from one to the next; each has `rows` rows of `cols` numbers,
 * ld floats from one row to the next. */
struct stored {
	const float *p;
	int rows, cols, ld, batch;
	size_t stride;
};
/* Stacked weights: all rows have `cols` numbers, without gaps. */
struct side {
	int parts, cols;
	const float *p[RF_SIDE];
	int rows[RF_SIDE];
};
/* A copy.  ld: numbers from row to row; stride: from one matrix of a batch to the next. */
struct copy {
	const bf16 *p;
	int ld;
	size_t stride;
};

static inline size_t rf_numbers(const struct stored *s) { return (size_t)s->rows * s->cols * s->batch; }

/* Makes room for the operands of a product, or for the copies that one kernel writes; n: numbers of the
 * largest.  Existing copies may be dropped.  Returns false if there is too little memory; the device has then
 * failed. */
bool rf_cuda_rounded_room(struct rf_dev *d, size_t n);
/* Finds or makes the copy of an operand, which is valid until room for others is made.  keep: the copy of the
 * product's other operand, which must stay; NULL: none yet.  Returns false if the device has failed. */
bool rf_cuda_rounded(struct rf_dev *d, const struct stored *s, const struct copy *keep, struct copy *to);
/* Returns the copy of stacked weights, which is valid until one of them changes.  NULL: the device has
 * failed. */
const bf16 *rf_cuda_rounded_side(struct rf_dev *d, const struct side *s);

/* _workspace: returns the bytes that copies need for struct rf_workspace.  _prepare: allocates them. */
size_t rf_cuda_rounded_workspace(const struct rf_workspace *need);
void rf_cuda_rounded_prepare(struct rf_dev *d, const struct rf_workspace *need);
void rf_cuda_rounded_close(struct rf_dev *d);

#endif
