/* cpu.c -- the CPU's memory and its table of operations, one per level of the instruction set. */
#include <stdlib.h>
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/device_cpu.h"

void KERNEL(gemm)(struct rf_dev *d, const struct rf_gemm *a) { rf_cpu_gemm(d, a, &KERNEL(forms)); }

/* Computes one product after the other: the product by one weight does not depend on the others. */
void KERNEL(gemms)(struct rf_dev *d, const struct rf_gemms *x)
{
	size_t at = 0;

	for (int i = 0; i < x->parts; at += x->stride ? x->stride : (size_t)x->n[i], i++)
		if (x->back)
			RF_RUN(d, gemm, .m = x->m, .n = x->k, .k = x->n[i], .add = x->add || i,
			       .weight = true, .a = rf_at(x->a, at), .lda = x->lda, .b = x->b[i], .ldb = x->k,
			       .c = x->c, .ldc = x->ldc);
		else
			RF_RUN(d, gemm, .m = x->m, .n = x->n[i], .k = x->k, .tb = true, .weight = true,
			       .a = x->a, .lda = x->lda, .b = x->b[i], .ldb = x->k, .c = rf_at(x->c, at),
			       .ldc = x->ldc);
}

/* clang-format off */
const struct rf_ops KERNEL(ops) = {
	.name = "cpu",
	.open = rf_cpu_open, .close = rf_cpu_close, .alloc = rf_cpu_alloc, .release = rf_cpu_release,
	.upload = rf_cpu_upload, .download = rf_cpu_download, .zero = rf_cpu_zero, .sync = rf_cpu_sync,
	.workspace = rf_cpu_workspace, .prepare = rf_cpu_prepare,
	.logit_rows = rf_cpu_logit_rows,
/* clang-format on */
#define X(op) .op = KERNEL(op),
	                            RF_OPS(X)
#undef X
};
