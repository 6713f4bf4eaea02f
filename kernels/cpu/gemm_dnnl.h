/* gemm_dnnl.h -- single-threaded matrix products by oneDNN, for kernels/gemm.c. */
#ifndef RF_GEMM_DNNL_H
#define RF_GEMM_DNNL_H

#include "cpu/cpu.h"

/* C (m, n) = A (m, k) B (k, n) [+ C].  ta: A is stored (k, m); tb: B is stored (n, k).  bf16: A and B are
 * bf16, else float32.  packed: B has the layout that oneDNN prefers; ldb and tb are then 0. */
struct dnnl_shape {
	int m, n, k, lda, ldb, ldc;
	uint8_t ta, tb, add, bf16, packed, pad[3];
};

/* The engine of a device, and the primitives of each of its threads. */
struct rf_dnnl;
/* A product of one shape, which one thread may execute. */
struct rf_dnnl_primitive;

/* Creates an engine.  Returns NULL on failure; the device may have failed with a reason. */
struct rf_dnnl *rf_dnnl_new(struct rf_dev *d);
void rf_dnnl_free(struct rf_dev *d, struct rf_dnnl *g);

/* Finds or creates the thread's primitive for a shape.  Returns NULL if the device has failed. */
struct rf_dnnl_primitive *rf_dnnl_find(struct rf_dev *d, struct rf_dnnl *g, int thread,
                                       const struct dnnl_shape *s);
void rf_dnnl_execute(struct rf_dev *d, struct rf_dnnl *g, int thread, struct rf_dnnl_primitive *p,
                     const void *a, const void *b, float *c);

/* Returns the bytes of B in the layout that p takes. */
size_t rf_dnnl_packed_size(const struct rf_dnnl_primitive *p);
/* Tells whether p and q take the same layout of B. */
bool rf_dnnl_same_packing(const struct rf_dnnl_primitive *p, const struct rf_dnnl_primitive *q);
/* Packs the B of a product, in float32, into the layout that `like` takes.  Returns false if the device has
 * failed. */
bool rf_dnnl_pack(struct rf_dev *d, struct rf_dnnl *g, int thread, const struct cpu_product *p,
                  const struct rf_dnnl_primitive *like, void *to);

#endif
