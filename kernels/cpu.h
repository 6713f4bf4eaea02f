/* cpu.h -- what the CPU's kernels share: how an operation is named, its threads, and its scratch memory.
 *
 * Every file of kernels/ is compiled once per level of the instruction set (RF_ISA); KERNEL(name) is a symbol of that
 * level.  kernels/cpu.c puts them into one table per level. */
#ifndef RF_CPU_H
#define RF_CPU_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "dev.h"
#include "pool.h"

#define RF_PASTE2(a, b) a##_##b
#define RF_PASTE(a, b) RF_PASTE2(a, b)
#define KERNEL(name) RF_PASTE(rf_cpu_##name, RF_ISA)

#define X(op) void KERNEL(op)(struct rf_dev *d, const struct rf_##op *a);
RF_OPS(X)
#undef X

/* Rows of a tile: what one thread takes at a time in row-wise operations.  Fixed, so that partial sums over tiles do
 * not depend on the number of threads. */
enum { ROWS_TILE = 64 };

struct rf_cpu {
	struct rf_pool *pool;
	uintptr_t skew;              /* handle - skew = address; not 0 on the device `check` */
	struct cpu_scratch { void *p; size_t size; } *scratch; /* one per thread, and one more for the caller */
	void *gemm;                  /* gemm.c: primitives and packed weights */
};

static inline struct rf_cpu *cpu_of(struct rf_dev *d) { return d->impl; }

/* The address behind a handle; NULL stays NULL. */
static inline float *cpu_f32(struct rf_dev *d, rf_f32 h) { return h ? (float *)((uintptr_t)h - cpu_of(d)->skew) : NULL; }
static inline double *cpu_f64(struct rf_dev *d, rf_f64 h) { return h ? (double *)((uintptr_t)h - cpu_of(d)->skew) : NULL; }
static inline int32_t *cpu_i32(struct rf_dev *d, rf_i32 h) { return h ? (int32_t *)((uintptr_t)h - cpu_of(d)->skew) : NULL; }

/* Runs tiles on the device's threads (rf_pool_run).  After a failure nothing is done any more: what the operation that
 * failed left unwritten may be an index. */
static inline void cpu_tiles(struct rf_dev *d, int tiles, void (*fn)(void *, int, int), void *arg)
{
	if (d->err.code == RF_OK)
		rf_pool_run(cpu_of(d)->pool, tiles, fn, arg);
}

/* Going back through attention with G key heads, in how many shares the gradient of the queries is summed: 16 tiles or more,
 * whatever the number of threads; and the numbers that all of it takes: the shares of queries, whose heads end in ROWS_PAD
 * rows for nothing and whose rows are whole vectors, and one number for each row of a head. */
enum { ROWS_PAD = 8 };
static inline int cpu_attn_shares(int G) { return G < 16 ? (16 + G - 1) / G : 1; }
static inline size_t cpu_attn_part(int shares, size_t rows, int H, int G, int D)
{
	return (size_t)shares * (rows * (size_t)H + (size_t)(G * ROWS_PAD)) * (size_t)((D + 15) / 16 * 16) + rows * (size_t)H;
}

static inline double cpu_softplus(double x) { return x > 30 ? x : log1p(exp(x)); }

/* At least `bytes`, 64-byte aligned, kept for the next operation; thread -1 is the caller's own, shared by all tiles
 * of one operation.  NULL: no memory, and the device says so. */
void *rf_cpu_scratch(struct rf_dev *d, int thread, size_t bytes);

/* gemm.c, the one file that calls oneDNN; compiled once, since oneDNN looks at the processor itself.
 *
 * One product on the calling thread: C (m, n) = A (m, k) B (k, n) [+ C], as struct rf_gemm has it, on addresses.
 * a16: A is bf16 already.  In bf16 devices B is rounded here, and kept rounded where it is a weight. */
struct cpu_product { int m, n, k; bool ta, tb, add, weight, a16; const void *a; const float *b; float *c; int lda, ldb, ldc; };
void rf_cpu_product(struct rf_dev *d, int thread, const struct cpu_product *p);
/* The forms in which it gives operands to oneDNN, made by operands.c: rows x cols floats, ld apart, as bf16 in rows that touch,
 * rounded to the nearest even; and to (k, n) = b' for b (n, k), rows ldb apart. */
struct cpu_forms {
	void (*round)(struct rf_dev *d, const float *from, int rows, int cols, int ld, uint16_t *to);
	void (*turn)(const float *b, int n, int k, int ldb, float *to);
};
void KERNEL(round)(struct rf_dev *d, const float *from, int rows, int cols, int ld, uint16_t *to);
void KERNEL(turn)(const float *b, int n, int k, int ldb, float *to);
void rf_cpu_gemm(struct rf_dev *d, const struct rf_gemm *a, const struct cpu_forms *forms);
void rf_cpu_gemm_free(struct rf_dev *d);
/* [p, p + bytes) changed or is gone: forms kept of weights there are stale. */
void rf_cpu_gemm_forget(struct rf_dev *d, const void *p, size_t bytes);

#endif
