/* cpu.h -- declarations that the CPU's kernels share: names of operations, threads, scratch memory, and
 * products.
 *
 * Every file of kernels/ is compiled once per level of the instruction set (RF_ISA); KERNEL(name) is a symbol
 * of that level.  kernels/cpu/cpu.c puts the operations of each level into one table. */
#ifndef RF_CPU_H
#define RF_CPU_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "device/dev.h"
#include "cpu/pool.h"

#define RF_PASTE2(a, b) a##_##b
#define RF_PASTE(a, b)  RF_PASTE2(a, b)
#define KERNEL(name)    RF_PASTE(rf_cpu_##name, RF_ISA)

#define X(op) void KERNEL(op)(struct rf_dev * d, const struct rf_##op *a);
RF_OPS(X)
#undef X

/* Rows of a tile in row-wise operations; a thread computes one tile at a time.  The number is fixed, so
 * partial sums over tiles do not depend on the number of threads. */
enum { ROWS_TILE = 64 };

struct rf_cpu {
	struct rf_pool *pool;
	uintptr_t skew; /* address = handle - skew; 0 except on the device `check` */
	/* bytes of an operand that was rounded to bf16: 2, or 4 if the processor has no instructions for
	 * bf16; 0: products are float32 */
	int rounded;
	bool keeps_transposed; /* float32 weights are kept as (k, n) for products of few rows */
	/* one element per thread, then one for the caller */
	struct cpu_scratch {
		void *p;
		size_t size;
	} * scratch;
	void *gemm; /* gemm.c: primitives and kept weights */
};

static inline struct rf_cpu *cpu_of(struct rf_dev *d) { return d->impl; }

/* Return the address that a handle stands for; NULL stays NULL. */
static inline float *cpu_f32(struct rf_dev *d, rf_f32 h)
{
	return h ? (float *)((uintptr_t)h - cpu_of(d)->skew) : NULL;
}
static inline double *cpu_f64(struct rf_dev *d, rf_f64 h)
{
	return h ? (double *)((uintptr_t)h - cpu_of(d)->skew) : NULL;
}
static inline int64_t *cpu_i64(struct rf_dev *d, rf_i64 h)
{
	return h ? (int64_t *)((uintptr_t)h - cpu_of(d)->skew) : NULL;
}
static inline int32_t *cpu_i32(struct rf_dev *d, rf_i32 h)
{
	return h ? (int32_t *)((uintptr_t)h - cpu_of(d)->skew) : NULL;
}

/* Runs tiles on the device's threads (rf_pool_run).  Does nothing if the device has failed: the failed
 * operation may have left memory unwritten that later operations would use as indices. */
static inline void cpu_tiles(struct rf_dev *d, int tiles, void (*fn)(void *, int, int), void *arg)
{
	if (d->err.code == RF_OK)
		rf_pool_run(cpu_of(d)->pool, tiles, fn, arg);
}

/* Attention's backward pass, with G key heads.  cpu_attn_shares: returns the number of shares in which the
 * gradient of the queries is summed.  It makes at least 16 tiles, for any number of threads.  cpu_attn_part:
 * returns the floats of scratch memory that this pass needs.  They hold the shares of the queries' gradient
 * and one number per row and head.  In a share each key head ends in ROWS_PAD unused rows, and a row is
 * padded to whole vectors. */
enum { ROWS_PAD = 8 };
static inline int cpu_attn_shares(int G) { return G < 16 ? (16 + G - 1) / G : 1; }
static inline size_t cpu_attn_part(int shares, size_t rows, int H, int G, int D)
{
	return (size_t)shares * (rows * (size_t)H + (size_t)(G * ROWS_PAD)) * (size_t)((D + 15) / 16 * 16) +
	       rows * (size_t)H;
}

static inline double cpu_softplus(double x) { return x > 30 ? x : log1p(exp(x)); }

/* Returns scratch memory of at least `bytes`, 64-byte aligned, which the thread's next operation uses again.
 * thread -1: the caller's scratch memory, shared by all tiles of one operation.  NULL: there is too little
 * memory, and the device has failed. */
void *rf_cpu_scratch(struct rf_dev *d, int thread, size_t bytes);

/* Returns the distance in floats of rows of n floats in copies that are made for products.  If the distance
 * is a power of two, the numbers of a column share a few sets of the nearest cache, and packing them takes up
 * to a third of the product's time. */
static inline int cpu_row_stride(int n) { return (n + 31) / 32 * 32 + 16; }

/* Products (gemm.c).  gemm.c is compiled only once, since oneDNN itself adapts to the processor.
 *
 * operands.c makes the forms in which gemm.c passes operands to oneDNN:
 *
 *     round      rounds rows x cols floats to bf16 (to nearest, ties to even); ld: distance of rows.  A
 *                rounded number has cpu_of(d)->rounded bytes; of 4 bytes the lower half is 0
 *     transpose  transposes b (n, k) to (k, n); ldb and ldt: distances of rows
 *     narrow     rounds n floats to bf16
 *     widen      converts n numbers of bf16 to floats
 *
 * small.c multiplies small matrices:
 *
 *     multiply_small  computes a product in float32 whose B is (k, n).  Sums are in double, in the order of
 *                     k.  bias: n numbers to add to each row, or NULL */
struct cpu_product;
struct cpu_forms {
	/* cpu_rounded_ld(): distance of rows in `to` */
	void (*round)(struct rf_dev *d, const float *from, int rows, int cols, int ld, void *to);
	void (*transpose)(const float *b, int n, int k, int ldb, float *to, int ldt); /* (n, k) to (k, n) */
	void (*narrow)(const float *from, size_t n, uint16_t *to);
	void (*widen)(const uint16_t *from, size_t n, float *to);
	void (*multiply_small)(const struct cpu_product *p, const float *bias);
};
void KERNEL(round)(struct rf_dev *d, const float *from, int rows, int cols, int ld, void *to);
void KERNEL(transpose)(const float *b, int n, int k, int ldb, float *to, int ldt);
void KERNEL(narrow)(const float *from, size_t n, uint16_t *to);
void KERNEL(widen)(const uint16_t *from, size_t n, float *to);
void KERNEL(multiply_small)(const struct cpu_product *p, const float *bias);
extern const struct cpu_forms KERNEL(forms);

/* Returns the numbers from one row of a rounded operand to the next. */
static inline int cpu_rounded_ld(struct rf_dev *d, int cols)
{
	return cpu_of(d)->rounded == 4 ? cpu_row_stride(cols) : cols;
}

/* One product on the calling thread: C (m, n) = A (m, k) B (k, n) [+ C], like struct rf_gemm, but on
 * addresses.  rounded: 0, or the bytes per number of operands that the caller has rounded to bf16: A, and B
 * unless B is a weight.  A weight is passed as float32; the product rounds the weight and keeps it as
 * bf16. */
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
/* Tells whether a weight of n x k numbers is multiplied by small.c.  Only the weight's size decides, so that
 * the number of rows does not change how each row is computed.  A gate of the smallest published models has
 * 8 x 1024 numbers and is not small. */
static inline bool cpu_is_small_weight(int n, int k) { return (long)n * k < 8 << 10; }
/* A weight that is kept as bf16 and multiplied as float32 is widened CPU_DEEP rows of (k, n) and CPU_WIDE
 * columns at a time.  A transposed A is copied CPU_SLAB columns at a time.  B is copied for products of at
 * least CPU_MANY rows.  Weights that are kept as (k, n) are used by products of up to CPU_FEW rows. */
enum { CPU_DEEP = 2048, CPU_WIDE = 256, CPU_SLAB = 4096, CPU_MANY = 512, CPU_FEW = 32 };
void rf_cpu_gemm(struct rf_dev *d, const struct rf_gemm *a, const struct cpu_forms *forms);
void rf_cpu_gemm_free(struct rf_dev *d);
/* Limits oneDNN to a level of x86-64: to the instructions that the kernels of that level are compiled for.
 * Levels of other architectures do not limit oneDNN.  Call it before the first product.  Returns false if
 * oneDNN does not accept the limit. */
bool rf_cpu_gemm_isa(const char *level);
/* Returns what oneDNN's products use beyond the levels: "+amx", "+bf16" or "". */
const char *rf_cpu_gemm_beyond(void);
/* Drops the kept forms of weights in [p, p + bytes), which has changed or is released. */
void rf_cpu_gemm_forget(struct rf_dev *d, const void *p, size_t bytes);

#endif
