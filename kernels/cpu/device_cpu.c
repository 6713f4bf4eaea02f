/* device_cpu.c -- the CPU as a device: threads, memory, and the choice of this processor's table of
 * kernels. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cpu/cpu.h"
#include "cpu/device_cpu.h"
#include "device/dev_about.h"

#if defined(__x86_64__)
extern const struct rf_ops rf_cpu_ops_x86_64, rf_cpu_ops_x86_64_v3, rf_cpu_ops_x86_64_v4;
#define LEVEL_NAMES "auto, x86_64, x86_64_v3, x86_64_v4"
#else
extern const struct rf_ops rf_cpu_ops_base;
#define LEVEL_NAMES "auto, base"
#endif

/* the levels that the kernels are compiled for, in ascending order */
static const struct level {
	const char *name;
	const struct rf_ops *ops;
} levels[] = {
#if defined(__x86_64__)
	{ "x86_64", &rf_cpu_ops_x86_64 },
	{ "x86_64_v3", &rf_cpu_ops_x86_64_v3 },
	{ "x86_64_v4", &rf_cpu_ops_x86_64_v4 },
#else
	{ "base", &rf_cpu_ops_base },
#endif
};
enum { LEVELS = sizeof levels / sizeof *levels };

/* the level that was chosen for the whole process, since oneDNN has one level per process */
static const struct level *chosen;
static bool limited; /* the level was chosen by name, not by `auto` */

static bool supported(int level)
{
#if defined(__x86_64__)
	__builtin_cpu_init();
	if (level == 2)
		return supported(1) && __builtin_cpu_supports("avx512f") &&
		       __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
		       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
	if (level == 1)
		return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
		       __builtin_cpu_supports("bmi2");
#endif
	return level == 0;
}

static int highest(void)
{
	int level = LEVELS - 1;

	while (!supported(level))
		level--;
	return level;
}

static enum rf_code choose_level(const struct level *level, bool by_name, struct rf_err *e)
{
	if (chosen && (chosen != level || limited != by_name))
		return rf_fail(e, RF_EUSAGE,
		               "one process computes at one level, and this one does at %s already",
		               rf_cpu_level());
	if (!chosen && by_name && !rf_cpu_gemm_isa(level->name))
		return rf_fail(e, RF_EDEVICE, "oneDNN cannot be limited to %s (--isa, RF_ISA)", level->name);
	chosen = level;
	limited = by_name;
	return RF_OK;
}

enum rf_code rf_cpu_isa(const char *name, struct rf_err *e)
{
	int level = 0;

	if (!name && chosen)
		return RF_OK;
	name = name ? name : getenv("RF_ISA");
	if (!name || !*name || !strcmp(name, "auto"))
		return choose_level(&levels[highest()], false, e);
	while (level < LEVELS && strcmp(name, levels[level].name))
		level++;
	if (level == LEVELS)
		return rf_fail(e, RF_EUSAGE,
		               "unknown instruction set level '%.40s' (--isa and RF_ISA take " LEVEL_NAMES
		               ")",
		               name);
	if (!supported(level))
		return rf_fail(e, RF_EDEVICE,
		               "this processor lacks %s and supports at most %s (--isa, RF_ISA)", name,
		               levels[highest()].name);
	return choose_level(&levels[level], true, e);
}

const char *rf_cpu_level(void)
{
	static char name[40];

	snprintf(name, sizeof name, "%s%s", chosen->name, rf_cpu_gemm_beyond());
	return name;
}

const char *rf_cpu_has(int i) { return i >= 0 && i <= highest() ? levels[highest() - i].name : NULL; }

const char *rf_cpu_built(int i) { return i >= 0 && i < LEVELS ? levels[i].name : NULL; }

const struct rf_ops *rf_cpu_ops(void) { return chosen->ops; }

enum rf_code rf_cpu_open(struct rf_dev *d, struct rf_err *e)
{
	struct rf_cpu *c = calloc(1, sizeof *c);

	if (!c || !(c->pool = rf_pool_new(d->threads)) ||
	    !(c->scratch = calloc((size_t)d->threads + 1, sizeof *c->scratch))) {
		if (c)
			rf_pool_free(c->pool);
		free(c);
		return rf_fail(e, RF_ENOMEM,
		               "cannot start %d threads: memory or processes (ulimit -u) are exhausted; use "
		               "fewer with --threads",
		               d->threads);
	}
	c->rounded = d->math != RF_MATH_BF16 ? 0 : *rf_cpu_gemm_beyond() ? 2 : 4;
	d->impl = c;
	return RF_OK;
}

void rf_cpu_close(struct rf_dev *d)
{
	struct rf_cpu *c = d->impl;

	if (!c)
		return;
	rf_cpu_gemm_free(d);
	for (int i = 0; i <= d->threads; i++)
		free(c->scratch[i].p);
	free(c->scratch);
	rf_pool_free(c->pool);
	free(c);
	d->impl = NULL;
}

/* Allocates memory, large blocks in pages of 2 MiB if the system has them (Linux gives them on request).
 * That makes a pass over 4096 rows 2 to 5 % faster: with small pages, the processor cannot hold the addresses
 * of all pages that the pass uses. */
void *rf_cpu_memory(size_t size)
{
	enum { PAGE = 2 << 20 };
	char *p = aligned_alloc(64, size);
#ifdef MADV_HUGEPAGE
	char *first = (char *)(((uintptr_t)p + PAGE - 1) / PAGE * PAGE);

	if (p && size >= (size_t)2 * PAGE)
		madvise(first, (size_t)(p + size - first) / PAGE * PAGE, MADV_HUGEPAGE);
#endif
	return p;
}

/* bytes in front of a block, where its size is stored for rf_cpu_release() */
enum { HEADER = 64 };

void *rf_cpu_alloc(struct rf_dev *d, size_t bytes)
{
	size_t size = (bytes + HEADER + 63) / 64 * 64;
	char *p = size > bytes ? rf_cpu_memory(size) : NULL;

	if (!p) {
		rf_dev_fail(d, RF_ENOMEM,
		            "out of memory: wanted %zu MiB more, %zu MiB are in use (a smaller --segment or "
		            "--max-len needs less)",
		            bytes >> 20, d->used >> 20);
		return NULL;
	}
	memcpy(p, &size, sizeof size);
	d->used += size;
	d->peak = d->used > d->peak ? d->used : d->peak;
	return p + HEADER + cpu_of(d)->skew;
}

void rf_cpu_release(struct rf_dev *d, void *p)
{
	char *q = p;
	size_t size;

	if (!p)
		return;
	q -= HEADER + cpu_of(d)->skew;
	memcpy(&size, q, sizeof size);
	rf_cpu_gemm_forget(d, q, size);
	d->used -= size;
	free(q);
}

void rf_cpu_upload(struct rf_dev *d, void *to, const void *from, size_t bytes)
{
	char *p = (char *)to - cpu_of(d)->skew;

	memcpy(p, from, bytes);
	rf_cpu_gemm_forget(d, p, bytes);
}

void rf_cpu_download(struct rf_dev *d, void *to, const void *from, size_t bytes)
{
	memcpy(to, (const char *)from - cpu_of(d)->skew, bytes);
}

void rf_cpu_zero(struct rf_dev *d, void *to, size_t bytes)
{
	char *p = (char *)to - cpu_of(d)->skew;

	memset(p, 0, bytes);
	rf_cpu_gemm_forget(d, p, bytes);
}

void rf_cpu_sync(struct rf_dev *d) { (void)d; }

/* Tells whether float32 weights are kept as (k, n).  It is worth it if a step decodes a few rows, and if
 * there are enough steps to outweigh making the copies, which takes about one step. */
static bool keeps_transposed(struct rf_dev *d, bool decode, int rollouts, int steps)
{
	return !cpu_of(d)->rounded && decode && rollouts > 1 && rollouts <= CPU_FEW && steps >= 16;
}

/* Tells whether keeps_transposed() may hold for some record of a plan: a record may have fewer positions than
 * others. */
static bool may_keep_transposed(struct rf_dev *d, const struct rf_workspace *need)
{
	const int fewest = need->rollouts > 1 && need->group < 2 ? 2 : need->group;

	return keeps_transposed(d, need->decode, fewest, need->steps);
}

/* Returns the memory that operations need in addition to the program's allocations:
 *
 * - Shared by all threads: copies of a weight and of rows, and the operands of a batch (gemm.c); operands
 *   rounded to bf16 (gemm.c, head.c); the convolution's gradient (conv.c); the gradient of queries
 *   (attention.c).  The largest of these counts.
 * - Per thread: the states of a head (delta.c), the probabilities to draw from and a part of the vocabulary
 *   (head.c), and small buffers, which are larger in float32, where oneDNN packs parts of both operands.
 * - Weights that are kept for products of few rows (gemm.c).
 * - In bf16 also the weights in the form that products read, once for each way they are used, and per thread
 *   the part of a weight that is widened (gemm.c). */
size_t rf_cpu_workspace(struct rf_dev *d, const struct rf_workspace *need)
{
	const size_t half = (size_t)cpu_of(d)->rounded;
	const size_t rows = (size_t)need->rows, wide = (size_t)need->widest;
	const size_t deep = need->train || wide > CPU_DEEP ? CPU_DEEP : wide,
		     stride = (size_t)cpu_row_stride(CPU_WIDE);
	const size_t slab = wide < CPU_SLAB ? wide : CPU_SLAB, head = (size_t)need->vocab * (size_t)need->d;
	/* many rollouts multiply by the whole head in one product */
	const size_t largest = need->rollouts >= CPU_MANY && head > need->largest ? head : need->largest;
	size_t shared = half ? rows * wide * half * (need->train ? 2 : 1) : (largest + rows * wide) * 4,
	       batch = need->operands * (half ? half : 4);
	size_t queries = 0;
	size_t thread = (half == 2 ? 1 << 20 : (3 << 20) + stride * (size_t)need->d * 4) +
	                (half == 4 ? deep * stride * 4 : 0) +
	                (need->train ? need->states * 4 : (size_t)need->vocab * 12);

	if (need->train && need->kv_heads)
		queries = cpu_attn_part(cpu_attn_shares(need->kv_heads), rows, need->heads, need->kv_heads,
		                        need->D) *
		          4;
	if (!half && need->train && rows * (wide + slab) * 4 > shared)
		shared = rows * (wide + slab) * 4;
	if (batch > shared)
		shared = batch;
	if (half != 2) /* the padding of cpu_row_stride() in whole tiles and in the last one */
		shared += shared / 16 + (rows + wide) * 48 * 4;
	if (queries > shared)
		shared = queries;
	if (may_keep_transposed(d, need))
		shared += (need->matrices + need->matrices / 8) * 4;
	return shared + thread * (size_t)d->threads + (half ? need->matrices * 2 * (need->train ? 2 : 1) : 0);
}

/* Allocates nothing: each operation allocates its memory when it first needs it, since host memory takes no
 * space before it is written.  Only checks that there is enough address space, because oneDNN does not report
 * failed allocations. */
void rf_cpu_prepare(struct rf_dev *d, const struct rf_workspace *need)
{
	enum { CODE = 16 << 20 }; /* for the code that oneDNN generates */
	size_t bytes = rf_cpu_workspace(d, need) + CODE, held = 0;
	void *p;

	cpu_of(d)->keeps_transposed = keeps_transposed(d, need->decode, need->now.rollouts, need->now.steps);
	for (int i = 0; i <= d->threads; i++)
		held += cpu_of(d)->scratch[i].size;
	bytes = bytes > held + CODE ? bytes - held : CODE;
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		rf_dev_fail(d, RF_ENOMEM,
		            "out of memory: wanted %zu MiB more for operations, %zu MiB are in use",
		            bytes >> 20, d->used >> 20);
	else
		munmap(p, bytes);
}

/* Returns the rows that head_bwd computes together (head.c). */
int rf_cpu_logit_rows(int vocab)
{
	(void)vocab;
	return 256;
}

void *rf_cpu_scratch(struct rf_dev *d, int thread, size_t bytes)
{
	struct cpu_scratch *s = &cpu_of(d)->scratch[thread < 0 ? d->threads : thread];

	if (bytes > s->size) {
		free(s->p);
		s->size = (bytes + 63) / 64 * 64;
		if (!(s->p = rf_cpu_memory(s->size))) {
			s->size = 0;
			rf_dev_fail(d, RF_ENOMEM, "out of memory: wanted %zu MiB of scratch", bytes >> 20);
		}
	}
	return s->p;
}
