/* cpu.h -- what the CPU's kernels share: how an operation is named, its threads, and its scratch memory.
 *
 * Every file of kernels/ is compiled once per level of the instruction set (RF_ISA); KERNEL(name) is a symbol
 * of that level.  kernels/cpu.c puts them into one table per level. */
#ifndef RF_CPU_H
#define RF_CPU_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "device/dev.h"
#include "pool.h"

#define RF_PASTE2(a, b) a##_##b
#define RF_PASTE(a, b) RF_PASTE2(a, b)
#define KERNEL(name) RF_PASTE(rf_cpu_##name, RF_ISA)

#define X(op) void KERNEL(op)(struct rf_dev *d, const struct rf_##op *a);
RF_OPS(X)
#undef X

/* Rows of a tile: what one thread takes at a time in row-wise operations.  Fixed, so that partial sums over
 * tiles do not depend on the number of threads. */
enum { ROWS_TILE = 64 };

struct rf_cpu {
	struct rf_pool *pool;
	uintptr_t skew;              /* handle - skew = address; not 0 on the device `check` */
	/* bytes of an operand that was rounded to bf16: 2, or 4 where no instruction takes bf16 */
	int rounded;
	/* one per thread, and one more for the caller */
	struct cpu_scratch { void *p; size_t size; } *scratch;
	void *gemm;                  /* gemm.c: primitives and packed weights */
};

static inline struct rf_cpu *cpu_of(struct rf_dev *d) { return d->impl; }

/* The address behind a handle; NULL stays NULL. */
static inline float *cpu_f32(struct rf_dev *d, rf_f32 h)
{
	return h ? (float *)((uintptr_t)h - cpu_of(d)->skew) : NULL;
}
static inline double *cpu_f64(struct rf_dev *d, rf_f64 h)
{
	return h ? (double *)((uintptr_t)h - cpu_of(d)->skew) : NULL;
}
static inline int32_t *cpu_i32(struct rf_dev *d, rf_i32 h)
{
	return h ? (int32_t *)((uintptr_t)h - cpu_of(d)->skew) : NULL;
}

/* Runs tiles on the device's threads (rf_pool_run).  After a failure nothing is done any more: what the
 * operation that failed left unwritten may be an index. */
static inline void cpu_tiles(struct rf_dev *d, int tiles, void (*fn)(void *, int, int), void *arg)
{
	if (d->err.code == RF_OK)
		rf_pool_run(cpu_of(d)->pool, tiles, fn, arg);
}

/* Going back through attention with G key heads, in how many shares the gradient of the queries is summed: 16
 * tiles or more, whatever the number of threads; and the numbers that all of it takes: the shares of queries,
 * whose heads end in ROWS_PAD rows for nothing and whose rows are whole vectors, and one number for each row
 * of a head. */
enum { ROWS_PAD = 8 };
static inline int cpu_attn_shares(int G) { return G < 16 ? (16 + G - 1) / G : 1; }
static inline size_t cpu_attn_part(int shares, size_t rows, int H, int G, int D)
{
	return (size_t)shares * (rows * (size_t)H + (size_t)(G * ROWS_PAD)) * (size_t)((D + 15) / 16 * 16) +
	       rows * (size_t)H;
}

static inline double cpu_softplus(double x) { return x > 30 ? x : log1p(exp(x)); }

/* At least `bytes`, 64-byte aligned, kept for the next operation; thread -1 is the caller's own, shared by
 * all tiles of one operation.  NULL: no memory, and the device says so. */
void *rf_cpu_scratch(struct rf_dev *d, int thread, size_t bytes);

/* From a row of n float32s to the next in copies made for products: where rows begin a power of two behind
 * each other, a column's numbers fall into the same few places of the nearest cache, and to pack them costs
 * up to a third of the product. */
static inline int cpu_apart(int n) { return (n + 31) / 32 * 32 + 16; }

/* gemm.c, the one file that calls oneDNN; compiled once, since oneDNN looks at the processor itself.
 *
 * The forms in which it gives operands to oneDNN, made by operands.c:
 * round   rows x cols floats, ld apart, to bf16, the nearest or the even one, in rows that touch, of
 *         cpu_of(d)->rounded bytes a number; in 4 bytes the lower half is 0
 * turn    b (n, k), rows ldb apart, to (k, n)
 * narrow  n floats to bf16, and widen back */
struct cpu_forms {
	/* to: cpu_rounded_ld() apart */
	void (*round)(struct rf_dev *d, const float *from, int rows, int cols, int ld, void *to);
	void (*turn)(const float *b, int n, int k, int ldb, float *to, int ldt); /* (n, k) to (k, n) */
	void (*narrow)(const float *from, size_t n, uint16_t *to);
	void (*widen)(const uint16_t *from, size_t n, float *to);
};
void KERNEL(round)(struct rf_dev *d, const float *from, int rows, int cols, int ld, void *to);
void KERNEL(turn)(const float *b, int n, int k, int ldb, float *to, int ldt);
void KERNEL(narrow)(const float *from, size_t n, uint16_t *to);
void KERNEL(widen)(const uint16_t *from, size_t n, float *to);
extern const struct cpu_forms KERNEL(forms);

/* From a row of rounded operands to the next. */
static inline int cpu_rounded_ld(struct rf_dev *d, int cols)
{
	return cpu_of(d)->rounded == 4 ? cpu_apart(cols) : cols;
}

/* One product on the calling thread: C (m, n) = A (m, k) B (k, n) [+ C], as struct rf_gemm has it, on
 * addresses.  rounded: 0, or A was rounded to bf16, to so many bytes a number, and so was B unless it is a
 * weight: that is rounded here, and kept as bf16. */
struct cpu_product {
	int m, n, k;
	bool ta, tb, add, weight;
	int rounded;
	const struct cpu_forms *forms;
	const void *a;
	const float *b;
	float *c;
	int lda, ldb, ldc;
};
void rf_cpu_product(struct rf_dev *d, int thread, const struct cpu_product *p);
/* A weight that is kept as bf16 and multiplied as float32 is widened so many rows of (k, n) and
 * columns at a time; so many columns of a turned A are copied at a time; and from so many rows of a
 * product on B is copied. */
enum { CPU_DEEP = 2048, CPU_WIDE = 256, CPU_SLAB = 4096, CPU_MANY = 512 };
void rf_cpu_gemm(struct rf_dev *d, const struct rf_gemm *a, const struct cpu_forms *forms);
void rf_cpu_gemm_free(struct rf_dev *d);
/* Before the first product: limits oneDNN to a level of x86-64, to what the kernels of that level are
 * compiled for; false: it does not let itself.  A level of another architecture leaves it as it is. */
bool rf_cpu_gemm_isa(const char *level);
/* What its products have beyond the levels: "+amx", "+bf16" or nothing. */
const char *rf_cpu_gemm_beyond(void);
/* [p, p + bytes) changed or is gone: forms kept of weights there are stale. */
void rf_cpu_gemm_forget(struct rf_dev *d, const void *p, size_t bytes);

#endif
