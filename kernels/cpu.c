/* cpu.c -- the CPU's memory and its table of operations, one per level of the instruction set. */
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "device_cpu.h"

void KERNEL(gemm)(struct rf_dev *d, const struct rf_gemm *a)
{
	rf_cpu_gemm(d, a, &KERNEL(forms));
}

const struct rf_ops KERNEL(ops) = {
	.name = "cpu",
	.open = rf_cpu_open, .close = rf_cpu_close, .alloc = rf_cpu_alloc, .release = rf_cpu_release,
	.upload = rf_cpu_upload, .download = rf_cpu_download, .zero = rf_cpu_zero, .sync = rf_cpu_sync,
	.workspace = rf_cpu_workspace, .prepare = rf_cpu_prepare,
#define X(op) .op = KERNEL(op),
	RF_OPS(X)
#undef X
};
