/* gemm.c -- matrix products: the only file that calls oneDNN (2.6 and 3.x).
 *
 * A product is cut into tiles of at most TM rows and TN columns, whatever the number of threads.  Each tile
 * is one single-threaded primitive.  Primitives are created once per shape and thread and kept.  Creating one
 * compiles code; and one primitive must not be executed by two threads at once: they would share its
 * scratchpad and silently compute wrong numbers.
 *
 * The number of rows differs from sequence to sequence.  To keep the number of shapes small, the rows beyond
 * whole tiles are taken in powers of two.
 *
 * oneDNN packs both operands anew for every tile.  So an operand that many tiles share is first copied to the
 * form that is packed fastest: a weight that is stored as (n, k) is transposed, and rows do not lie a power
 * of two apart.  This saves a fifth of a step's time.
 *
 * In bf16, weights are packed as oneDNN prefers them, and kept.  Where the processor has no instructions for
 * bf16, operands are rounded all the same and multiplied as float32.  Weights are then kept as bf16, as
 * (k, n) of a tile's columns, and each thread widens them where it needs them.  The tiles of one column come
 * one after the other, so that a thread widens few of them.
 *
 * Where a few rows are decoded again and again, packing would take as long as multiplying, so weights are
 * kept as (k, n): a step of 16 rows at d 512 takes 0.6 to 0.75 of the time, for twice the memory. */
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/device_cpu.h"

extern void omp_set_num_threads(int); /* Debian's oneDNN is built with OpenMP; its header wants -fopenmp */

enum { TM = 256, TN = CPU_WIDE, SLOTS = 1 << 10 };

struct shape { int m, n, k, lda, ldb, ldc; uint8_t ta, tb, add, bf16, packed, pad[3]; };

struct primitive {
	struct shape shape;
	dnnl_primitive_t p;
	dnnl_memory_t a, b, c;
	struct primitive *next;
};

/* A weight that is kept in another form: bf16, packed as `like` takes it; bf16 as (k, n), to be widened;
 * float32 as (k, n), with rows cpu_row_stride(n) from each other. */
enum form { PACKED, NARROWED, LAID };
struct packed {
	const float *b;
	int n, k, ldb;
	bool tb;
	enum form form;
	void *data;
	struct primitive *like;  /* the primitive whose weights have the layout of PACKED data; else NULL */
	struct packed *next;
};

struct thread {
	dnnl_stream_t stream;
	struct primitive *slot[SLOTS];
	/* memory for a part of a weight: the one it widened last, or one that it transposes before narrowing
	 * it */
	float *wide;
	size_t wide_size;
	const uint16_t *of;      /* the part of a weight that is widened there; NULL: none */
};

struct gemm {
	dnnl_engine_t engine;
	struct thread *thread;   /* one per thread of the device */
	pthread_mutex_t lock;    /* of packed */
	struct packed *packed[SLOTS];
};

/* ---- the level of the instruction set ------------------------------------------------------ */

bool rf_cpu_gemm_isa(const char *level)
{
	static const struct { const char *level; dnnl_cpu_isa_t most; } limits[] = {
		{ "x86_64", dnnl_cpu_isa_sse41 },
		{ "x86_64_v3", dnnl_cpu_isa_avx2 },
		{ "x86_64_v4", dnnl_cpu_isa_avx512_core },
	};

	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
		if (!strcmp(level, limits[i].level))
			return dnnl_set_max_cpu_isa(limits[i].most) == dnnl_success;
	return true;
}

/* A level of oneDNN is a set of bits, one for each feature that it has. */
static bool has(dnnl_cpu_isa_t isa)
{
	return (dnnl_get_effective_cpu_isa() & isa) == isa;
}

const char *rf_cpu_gemm_beyond(void)
{
	return has(dnnl_cpu_isa_avx512_core_amx) ? "+amx" : has(dnnl_cpu_isa_avx512_core_bf16) ? "+bf16" : "";
}

/* ---- what is kept -------------------------------------------------------------------------- */

static bool failed(struct rf_dev *d, dnnl_status_t s, const char *what)
{
	if (s != dnnl_success)
		rf_dev_fail(d, s == dnnl_out_of_memory ? RF_ENOMEM : RF_EDEVICE,
		            "oneDNN failed: %s: status %d", what, (int)s);
	return s != dnnl_success;
}

static struct gemm *gemm_of(struct rf_dev *d)
{
	static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
	struct rf_cpu *c = cpu_of(d);
	struct gemm *g;

	pthread_mutex_lock(&once);
	if (!c->gemm && (g = calloc(1, sizeof *g))) {
		g->thread = calloc((size_t)d->threads, sizeof *g->thread);
		pthread_mutex_init(&g->lock, NULL);
		if (!g->thread || failed(d, dnnl_engine_create(&g->engine, dnnl_cpu, 0), "engine")) {
			free(g->thread);
			free(g);
		} else {
			c->gemm = g;
		}
	}
	pthread_mutex_unlock(&once);
	if (!c->gemm)
		rf_dev_fail(d, RF_ENOMEM, "out of memory (matrix products)");
	return c->gemm;
}

static unsigned hash(const void *p, size_t n)
{
	const unsigned char *s = p;
	unsigned h = 2166136261u;

	for (size_t i = 0; i < n; i++)
		h = (h ^ s[i]) * 16777619u;
	return (h ^ h >> 15) % SLOTS;
}

/* ---- the two generations of oneDNN's interface --------------------------------------------- */

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t desc;
static dnnl_status_t strided(desc *md, int rows, int cols, dnnl_data_type_t t, int ld, bool transposed)
{
	const dnnl_dims_t along_columns = { 1, ld }, along_rows = { ld, 1 };

	return dnnl_memory_desc_create_with_strides(md, 2, (dnnl_dims_t){ rows, cols }, t,
	                                            transposed ? along_columns : along_rows);
}
static dnnl_status_t any_form(desc *md, int rows, int cols, dnnl_data_type_t t)
{
	return dnnl_memory_desc_create_with_tag(md, 2, (dnnl_dims_t){ rows, cols }, t, dnnl_format_tag_any);
}
static void drop(desc *md) { dnnl_memory_desc_destroy(*md); }
static dnnl_status_t matmul(dnnl_primitive_desc_t *pd, dnnl_engine_t e, desc *a, desc *b, desc *c,
                            dnnl_primitive_attr_t attr)
{
	return dnnl_matmul_primitive_desc_create(pd, e, *a, *b, NULL, *c, attr);
}
static dnnl_status_t memory(dnnl_memory_t *m, const_dnnl_memory_desc_t md, dnnl_engine_t e)
{
	return dnnl_memory_create(m, md, e, DNNL_MEMORY_NONE);
}
static const_dnnl_memory_desc_t desc_of(dnnl_memory_t m)
{
	const_dnnl_memory_desc_t md = NULL;
	dnnl_memory_get_memory_desc(m, &md);
	return md;
}
static dnnl_status_t point(dnnl_memory_t m, void *p, dnnl_stream_t s)
{
	(void)s;
	return dnnl_memory_set_data_handle(m, p);
}
static dnnl_status_t sum_post_op(dnnl_post_ops_t po)
{
	return dnnl_post_ops_append_sum(po, 1, 0, dnnl_data_type_undef);
}
#define REF(md) (md)
#else
typedef dnnl_memory_desc_t desc;
typedef const dnnl_memory_desc_t *const_desc;
static dnnl_status_t strided(desc *md, int rows, int cols, dnnl_data_type_t t, int ld, bool transposed)
{
	return dnnl_memory_desc_init_by_strides(md, 2, (dnnl_dims_t){ rows, cols }, t,
	                                        transposed ? (dnnl_dims_t){ 1, ld } : (dnnl_dims_t){ ld, 1 });
}
static dnnl_status_t any_form(desc *md, int rows, int cols, dnnl_data_type_t t)
{
	return dnnl_memory_desc_init_by_tag(md, 2, (dnnl_dims_t){ rows, cols }, t, dnnl_format_tag_any);
}
static void drop(desc *md) { (void)md; }
static dnnl_status_t matmul(dnnl_primitive_desc_t *pd, dnnl_engine_t e, desc *a, desc *b, desc *c,
                            dnnl_primitive_attr_t attr)
{
	dnnl_matmul_desc_t md;
	dnnl_status_t s = dnnl_matmul_desc_init(&md, a, b, NULL, c);

	return s == dnnl_success ? dnnl_primitive_desc_create(pd, &md, attr, e, NULL) : s;
}
static dnnl_status_t memory(dnnl_memory_t *m, const_desc md, dnnl_engine_t e)
{
	return dnnl_memory_create(m, md, e, DNNL_MEMORY_NONE);
}
static const_desc desc_of(dnnl_memory_t m)
{
	const_desc md = NULL;
	dnnl_memory_get_memory_desc(m, &md);
	return md;
}
static dnnl_status_t point(dnnl_memory_t m, void *p, dnnl_stream_t s)
{
	return dnnl_memory_set_data_handle_v2(m, p, s);
}
static dnnl_status_t sum_post_op(dnnl_post_ops_t po) { return dnnl_post_ops_append_sum(po, 1); }
#define REF(md) (&(md))
#endif

/* ---- primitives ---------------------------------------------------------------------------- */

/* Frees a primitive that may be incomplete. */
static void free_primitive(struct primitive *p)
{
	if (p->p)
		dnnl_primitive_destroy(p->p);
	if (p->a)
		dnnl_memory_destroy(p->a);
	if (p->b)
		dnnl_memory_destroy(p->b);
	if (p->c)
		dnnl_memory_destroy(p->c);
	free(p);
}

static struct primitive *create(struct rf_dev *d, struct gemm *g, const struct shape *s)
{
	dnnl_data_type_t t = s->bf16 ? dnnl_bf16 : dnnl_f32;
	struct primitive *p = calloc(1, sizeof *p);
	dnnl_primitive_attr_t attr = NULL;
	dnnl_post_ops_t po = NULL;
	dnnl_primitive_desc_t pd = NULL;
	desc a = { 0 }, b = { 0 }, c = { 0 };
	bool bad;

	if (!p) {
		rf_dev_fail(d, RF_ENOMEM, "out of memory (a matrix product)");
		return NULL;
	}
	p->shape = *s;
	bad = failed(d, strided(&a, s->m, s->k, t, s->lda, s->ta), "operand A") ||
	      failed(d, s->packed ? any_form(&b, s->k, s->n, t) : strided(&b, s->k, s->n, t, s->ldb, s->tb),
	             "operand B") ||
	      failed(d, strided(&c, s->m, s->n, dnnl_f32, s->ldc, false), "result") ||
	      failed(d, dnnl_primitive_attr_create(&attr), "attributes");
	if (!bad && s->add)
		bad = failed(d, dnnl_post_ops_create(&po), "post-operations") ||
		      failed(d, sum_post_op(po), "sum") ||
		      failed(d, dnnl_primitive_attr_set_post_ops(attr, po), "post-operations");
	bad = bad || failed(d, matmul(&pd, g->engine, &a, &b, &c, attr), "product") ||
	      failed(d, dnnl_primitive_create(&p->p, pd), "primitive") ||
	      failed(d, memory(&p->a, REF(a), g->engine), "memory") ||
	      failed(d, memory(&p->b, dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0), g->engine),
	             "memory") ||
	      failed(d, memory(&p->c, REF(c), g->engine), "memory");
	if (po)
		dnnl_post_ops_destroy(po);
	if (attr)
		dnnl_primitive_attr_destroy(attr);
	if (pd)
		dnnl_primitive_desc_destroy(pd);
	drop(&a);
	drop(&b);
	drop(&c);
	if (!bad)
		return p;
	free_primitive(p);
	return NULL;
}

static struct primitive *find(struct rf_dev *d, struct gemm *g, int thread, const struct shape *s)
{
	struct thread *t = &g->thread[thread];
	struct primitive **at = &t->slot[hash(s, sizeof *s)], *p;

	if (!t->stream) {
		omp_set_num_threads(1); /* for this thread: its primitives run on it alone */
		if (failed(d, dnnl_stream_create(&t->stream, g->engine, dnnl_stream_default_flags), "stream"))
			return NULL;
	}
	for (p = *at; p; p = p->next)
		if (!memcmp(&p->shape, s, sizeof *s))
			return p;
	if ((p = create(d, g, s))) {
		p->next = *at;
		*at = p;
	}
	return p;
}

static void execute(struct rf_dev *d, struct gemm *g, int thread, struct primitive *p, const void *a,
                    const void *b, float *c)
{
	dnnl_stream_t s = g->thread[thread].stream;
	dnnl_exec_arg_t args[3] = { { DNNL_ARG_SRC, p->a }, { DNNL_ARG_WEIGHTS, p->b },
	                            { DNNL_ARG_DST, p->c } };

	/* oneDNN only reads a and b, but its interface has no const */
	if (!failed(d, point(p->a, (void *)(uintptr_t)a, s), "operand A") &&
	    !failed(d, point(p->b, (void *)(uintptr_t)b, s), "operand B") &&
	    !failed(d, point(p->c, c, s), "result") &&
	    !failed(d, dnnl_primitive_execute(p->p, s, 3, args), "product"))
		failed(d, dnnl_stream_wait(s), "product");
}

/* ---- operands ------------------------------------------------------------------------------ */

/* The address of row i and column l of A, in the product's own (m, k). */
static const void *a_at(const struct cpu_product *p, int i, int l)
{
	size_t at = p->ta ? (size_t)l * (size_t)p->lda + (size_t)i : (size_t)i * (size_t)p->lda + (size_t)l;

	return (const char *)p->a + at * (p->rounded == 2 ? 2 : 4);
}

/* B's address moved by n numbers, which have 2 bytes if it was rounded to bf16, else 4. */
static const float *b_by(const struct cpu_product *p, size_t n)
{
	return p->rounded == 2 && !p->weight
	               ? (const float *)(const void *)((const uint16_t *)(const void *)p->b + n)
	               : p->b + n;
}

static const float *b_at(const struct cpu_product *p, int l, int j)
{
	return b_by(p,
	            p->tb ? (size_t)j * (size_t)p->ldb + (size_t)l : (size_t)l * (size_t)p->ldb + (size_t)j);
}

/* ---- packing ------------------------------------------------------------------------------- */

/* Packs B into the layout that `like` takes. */
static bool pack(struct rf_dev *d, struct gemm *g, int thread, const struct cpu_product *p,
                 struct primitive *like, void *to)
{
	dnnl_stream_t s = g->thread[thread].stream;
	dnnl_primitive_desc_t rd = NULL;
	dnnl_primitive_t r = NULL;
	dnnl_memory_t from = NULL, into = NULL;
	bool bad = true;
	desc plain;

	if (failed(d, strided(&plain, p->k, p->n, dnnl_f32, p->ldb, p->tb), "weights"))
		return false;
	if (!failed(d, memory(&from, REF(plain), g->engine), "weights") &&
	    !failed(d, memory(&into, desc_of(like->b), g->engine), "weights") &&
	    !failed(d, point(from, (void *)(uintptr_t)p->b, s), "weights") &&
	    !failed(d, point(into, to, s), "weights") &&
	    !failed(d,
	            dnnl_reorder_primitive_desc_create(&rd, desc_of(from), g->engine, desc_of(into),
	                                               g->engine, NULL),
	            "reorder") &&
	    !failed(d, dnnl_primitive_create(&r, rd), "reorder")) {
		dnnl_exec_arg_t args[2] = { { DNNL_ARG_FROM, from }, { DNNL_ARG_TO, into } };

		bad = failed(d, dnnl_primitive_execute(r, s, 2, args), "reorder") ||
		      failed(d, dnnl_stream_wait(s), "reorder");
	}
	if (r)
		dnnl_primitive_destroy(r);
	if (rd)
		dnnl_primitive_desc_destroy(rd);
	if (from)
		dnnl_memory_destroy(from);
	if (into)
		dnnl_memory_destroy(into);
	drop(&plain);
	return !bad;
}

/* Memory for n numbers of the thread's own. */
static float *wide(struct rf_dev *d, struct thread *t, size_t n)
{
	size_t size = (n * 4 + 63) / 64 * 64;

	t->of = NULL;
	if (size > t->wide_size) {
		free(t->wide);
		t->wide_size = (t->wide = rf_cpu_memory(size)) ? size : 0;
		if (!t->wide)
			rf_dev_fail(d, RF_ENOMEM, "out of memory: wanted %zu KiB for a weight in bf16",
			            size >> 10);
	}
	return t->wide;
}

/* Rounds B to bf16, (k, n). */
static bool narrow(struct rf_dev *d, struct thread *t, const struct cpu_product *p, uint16_t *to)
{
	const size_t n = (size_t)p->n;

	for (int l = 0, step; l < p->k; l += step) {
		const float *rows = b_at(p, l, 0);
		float *transposed;

		step = 1;
		if (p->tb) {
			step = p->k - l < CPU_DEEP ? p->k - l : CPU_DEEP;
			if (!(transposed = wide(d, t, (size_t)step * n)))
				return false;
			p->forms->transpose(rows, p->n, step, p->ldb, transposed, p->n);
			rows = transposed;
		}
		p->forms->narrow(rows, (size_t)step * n, to + (size_t)l * n);
	}
	return true;
}

static bool make(struct rf_dev *d, struct gemm *g, int thread, const struct cpu_product *p,
                 const struct packed *w)
{
	switch (w->form) {
	case PACKED: return pack(d, g, thread, p, w->like, w->data);
	case NARROWED: return narrow(d, &g->thread[thread], p, w->data);
	case LAID: p->forms->transpose(p->b, p->n, p->k, p->ldb, w->data, cpu_row_stride(p->n)); return true;
	}
	return false;
}

/* The weight B of a product in this form, made the first time it is asked for; like: of PACKED. */
static const void *kept(struct rf_dev *d, struct gemm *g, int thread, const struct cpu_product *p,
                        enum form form, struct primitive *like)
{
	struct { const float *b; int n, k, ldb, tb; } key = { p->b, p->n, p->k, p->ldb, p->tb };
	struct packed **at = &g->packed[hash(&key, sizeof key)], *w;
	size_t bytes = form == PACKED ? dnnl_memory_desc_get_size(desc_of(like->b))
	               : form == LAID ? (size_t)cpu_row_stride(p->n) * (size_t)p->k * 4
	                              : (size_t)p->n * (size_t)p->k * 2;
	size_t size = (bytes + 63) / 64 * 64;

	pthread_mutex_lock(&g->lock);
	for (w = *at; w; w = w->next)
		if (w->b == p->b && w->n == p->n && w->k == p->k && w->ldb == p->ldb && w->tb == p->tb &&
		    w->form == form &&
		    (!like || dnnl_memory_desc_equal(desc_of(w->like->b), desc_of(like->b))))
			break;
	if (!w && (w = calloc(1, sizeof *w))) {
		*w = (struct packed){ p->b, p->n, p->k, p->ldb, p->tb, form, aligned_alloc(64, size), like,
		                      *at };
		if (w->data && make(d, g, thread, p, w)) {
			*at = w;
		} else {
			free(w->data);
			free(w);
			w = NULL;
		}
	}
	pthread_mutex_unlock(&g->lock);
	if (!w)
		rf_dev_fail(d, RF_ENOMEM, "out of memory: wanted %zu KiB for weights in another form",
		            size >> 10);
	return w ? w->data : NULL;
}

/* `rows` rows of n numbers of a kept weight as float32. */
static const float *widened(struct rf_dev *d, struct thread *t, const struct cpu_forms *forms,
                            const uint16_t *kept, int rows, int n)
{
	size_t ld = (size_t)cpu_row_stride(n);

	if (t->of == kept)
		return t->wide;
	if (!wide(d, t, (size_t)rows * ld))
		return NULL;
	for (int i = 0; i < rows; i++)
		forms->widen(kept + (size_t)i * (size_t)n, (size_t)n, t->wide + (size_t)i * ld);
	t->of = kept;
	return t->wide;
}

void rf_cpu_gemm_forget(struct rf_dev *d, const void *p, size_t bytes)
{
	struct gemm *g = cpu_of(d)->gemm;
	const char *first = p;

	if (!g)
		return;
	for (int t = 0; t < d->threads; t++)
		g->thread[t].of = NULL;
	for (int i = 0; i < SLOTS; i++)
		for (struct packed **at = &g->packed[i], *w; (w = *at);) {
			const size_t size = (size_t)(w->tb ? w->n : w->k) * (size_t)w->ldb * sizeof *w->b;
			const char *b = (const char *)w->b, *end = b + size;

			if (end <= first || b >= first + bytes) {
				at = &w->next;
				continue;
			}
			*at = w->next;
			free(w->data);
			free(w);
		}
}

void rf_cpu_gemm_free(struct rf_dev *d)
{
	struct gemm *g = cpu_of(d)->gemm;

	if (!g)
		return;
	for (int i = 0; i < SLOTS; i++)
		for (struct packed *w = g->packed[i], *next; w; w = next) {
			next = w->next;
			free(w->data);
			free(w);
		}
	for (int t = 0; t < d->threads; t++) {
		for (int i = 0; i < SLOTS; i++)
			for (struct primitive *p = g->thread[t].slot[i], *next; p; p = next) {
				next = p->next;
				free_primitive(p);
			}
		free(g->thread[t].wide);
		if (g->thread[t].stream)
			dnnl_stream_destroy(g->thread[t].stream);
	}
	dnnl_engine_destroy(g->engine);
	pthread_mutex_destroy(&g->lock);
	free(g->thread);
	free(g);
	cpu_of(d)->gemm = NULL;
}

/* ---- products ------------------------------------------------------------------------------ */

/* How many of `left` rows to take next: a whole tile, or the largest power of two. */
static int next_rows(int left, int tile)
{
	int n = 1;

	if (left >= tile)
		return tile;
	while (2 * n <= left)
		n *= 2;
	return n;
}

static void piece(struct rf_dev *d, struct gemm *g, int thread, const struct cpu_product *p)
{
	bool packed = p->rounded == 2 && p->weight;
	struct shape s = { .m = p->m, .n = p->n, .k = p->k, .lda = p->lda, .ldb = packed ? 0 : p->ldb,
	                   .ldc = p->ldc, .ta = p->ta,
	                   .tb = !packed && p->tb, .add = p->add, .bf16 = p->rounded == 2, .packed = packed };
	struct primitive *prim = find(d, g, thread, &s);
	const void *b = prim && packed ? kept(d, g, thread, p, PACKED, prim) : p->b;

	if (prim && b)
		execute(d, g, thread, prim, p->a, b, p->c);
}

/* A product of few rows whose sum is long, such as over a vocabulary.  It has too few rows for B to have been
 * copied for all tiles.  But if B's rows lie a power of two apart, oneDNN takes half as long again on AVX2;
 * so each tile copies its part of B, as much as stays in a cache at a time. */
static void in_depths(struct rf_dev *d, struct gemm *g, int thread, const struct cpu_product *p)
{
	enum { STEP = 512 };
	const bool copies = !p->rounded && !p->tb && p->k > CPU_DEEP && p->ldb % 512 == 0;
	const int ld = cpu_row_stride(p->n);
	float *to = copies ? wide(d, &g->thread[thread], (size_t)STEP * (size_t)ld) : NULL;

	if (!copies)
		piece(d, g, thread, p);
	for (int l = 0; to && l < p->k; l += STEP) {
		struct cpu_product q = *p;

		q.k = p->k - l < STEP ? p->k - l : STEP;
		q.a = a_at(p, 0, l);
		q.b = to;
		q.ldb = ld;
		q.add = p->add || l;
		for (int r = 0; r < q.k; r++)
			memcpy(to + (size_t)r * (size_t)ld, b_at(p, l + r, 0), (size_t)p->n * sizeof *to);
		piece(d, g, thread, &q);
	}
}

static void pieces(struct rf_dev *d, struct gemm *g, int thread, const struct cpu_product *p)
{
	int step;

	if (p->ta) /* k counts rows */
		for (int l = 0; l < p->k; l += step) {
			struct cpu_product q = *p;
			step = p->k - l >= 64 ? (p->k - l) / 64 * 64 : next_rows(p->k - l, 64);
			q.k = step;
			q.a = a_at(p, 0, l);
			q.b = b_at(p, l, 0);
			q.add = p->add || l;
			piece(d, g, thread, &q);
		}
	else
		for (int i = 0; i < p->m; i += step) {
			struct cpu_product q = *p;
			step = next_rows(p->m - i, TM);
			q.m = step;
			q.a = a_at(p, i, 0);
			q.c = p->c + (size_t)i * (size_t)p->ldc;
			in_depths(d, g, thread, &q);
		}
}

/* A product with a weight that is kept as bf16 and multiplied as float32. */
static void by_widened(struct rf_dev *d, struct gemm *g, int thread, const struct cpu_product *p)
{
	const uint16_t *w = kept(d, g, thread, p, NARROWED, NULL);

	for (int l = 0; w && l < p->k; l += CPU_DEEP) {
		struct cpu_product q = *p;

		q.k = p->k - l < CPU_DEEP ? p->k - l : CPU_DEEP;
		q.a = a_at(p, 0, l);
		q.b = widened(d, &g->thread[thread], p->forms, w + (size_t)l * (size_t)p->n, q.k, p->n);
		q.ldb = cpu_row_stride(p->n);
		q.tb = q.weight = false;
		q.add = p->add || l;
		if (q.b)
			pieces(d, g, thread, &q);
	}
}

/* A product with a weight that is kept as (k, n). */
static void by_laid(struct rf_dev *d, struct gemm *g, int thread, const struct cpu_product *p)
{
	struct cpu_product q = *p;

	q.b = kept(d, g, thread, p, LAID, NULL);
	q.ldb = cpu_row_stride(p->n);
	q.tb = q.weight = false;
	if (q.b)
		pieces(d, g, thread, &q);
}

void rf_cpu_product(struct rf_dev *d, int thread, const struct cpu_product *p)
{
	const bool widens = p->weight && p->rounded == 4;
	const bool laid = p->weight && !p->rounded && p->tb && p->m <= CPU_FEW && cpu_of(d)->keeps_transposed;
	struct gemm *g = gemm_of(d);

	if (g)
		(widens ? by_widened : laid ? by_laid : pieces)(d, g, thread, p);
}

/* A copy of an operand that several tiles share, with rows cpu_row_stride() from each other.  Of B, and of a
 * transposed A, a tile's columns lie together; of an A that is not transposed, whole rows do. */
enum { LAID_ROWS = 512 };
struct laid {
	float *to;               /* NULL: the operand is not copied */
	const float *from;
	const struct cpu_forms *forms;
	int rows, columns, tile, ld;
	bool transpose;          /* the operand is stored as (columns, rows) */
	size_t apart;            /* from one product to the next, floats */
};

struct tiles {
	struct rf_dev *d;
	struct cpu_product p;
	const float *bias;
	int rows;                /* rows of a tile */
	int across, down, each;  /* tiles side by side, one below the other, and in one product of a batch */
	size_t sa, sb, sc;       /* from one product to the next, elements */
	struct laid left, right; /* A and B */
};

static int laid_tiles(const struct laid *x) { return (x->columns + x->tile - 1) / x->tile; }

/* The distance of rows in the tile that begins at a column; the last tile may be narrower. */
static int laid_ld(const struct laid *x, int column)
{
	return cpu_row_stride(x->columns - column < x->tile ? x->columns - column : x->tile);
}

static size_t laid_size(const struct laid *x)
{
	int last = (laid_tiles(x) - 1) * x->tile;

	return (size_t)x->rows *
	       ((size_t)(laid_tiles(x) - 1) * (size_t)cpu_row_stride(x->tile) + (size_t)laid_ld(x, last));
}

static float *laid_at(const struct laid *x, size_t one, int row, int column)
{
	return x->to + one * laid_size(x) +
	       (size_t)(column / x->tile) * (size_t)x->rows * (size_t)cpu_row_stride(x->tile) +
	       (size_t)row * (size_t)laid_ld(x, column);
}

/* Copies LAID_ROWS rows of a tile. */
static void lay_part(void *arg, int t, int thread)
{
	const struct laid *x = arg;
	int parts = (x->rows + LAID_ROWS - 1) / LAID_ROWS, i = t % parts * LAID_ROWS,
	    m = x->rows - i < LAID_ROWS ? x->rows - i : LAID_ROWS;
	int j = t / parts % laid_tiles(x) * x->tile, n = x->columns - j < x->tile ? x->columns - j : x->tile;
	size_t one = (size_t)(t / parts / laid_tiles(x)), ld = (size_t)x->ld, ldt = (size_t)laid_ld(x, j);
	const float *from = x->from + one * x->apart +
	                    (x->transpose ? (size_t)j * ld + (size_t)i : (size_t)i * ld + (size_t)j);
	float *to = laid_at(x, one, i, j);

	(void)thread;
	if (x->transpose)
		x->forms->transpose(from, n, m, x->ld, to, (int)ldt);
	else
		for (size_t r = 0; r < (size_t)m; r++)
			memcpy(to + r * ldt, from + r * ld, (size_t)n * sizeof *to);
}

static void lay(struct rf_dev *d, struct laid *x, float *to, int batch)
{
	x->to = to;
	cpu_tiles(d, batch * laid_tiles(x) * ((x->rows + LAID_ROWS - 1) / LAID_ROWS), lay_part, x);
}

static void tile(void *arg, int t, int thread)
{
	const struct tiles *a = arg;
	struct cpu_product all = a->p, q;
	size_t one = (size_t)(t / a->each);
	const bool downwards = all.rounded == 4 && all.weight; /* then the next tile has the same columns */
	int i = (downwards ? t % a->down : t % a->each / a->across) * a->rows,
	    j = (downwards ? t % a->each / a->down : t % a->across) * TN;

	all.a = (const char *)all.a + one * a->sa * (all.rounded == 2 ? 2 : 4);
	all.b = b_by(&all, one * a->sb);
	all.c += one * a->sc;
	q = all;
	q.m = q.m - i < a->rows ? q.m - i : a->rows;
	q.n = q.n - j < TN ? q.n - j : TN;
	q.a = a_at(&all, i, 0);
	q.b = b_at(&all, 0, j);
	q.c = all.c + (size_t)i * (size_t)a->p.ldc + (size_t)j;
	if (a->left.to) {
		q.a = q.ta ? laid_at(&a->left, one, 0, i) : laid_at(&a->left, one, i, 0);
		q.lda = laid_ld(&a->left, q.ta ? i : 0);
	}
	if (a->right.to) {
		q.b = laid_at(&a->right, one, 0, j);
		q.ldb = laid_ld(&a->right, j);
		q.tb = false;
	}
	rf_cpu_product(a->d, thread, &q);
	if (a->bias)
		for (int r = 0; r < q.m; r++)
			for (int c = 0; c < q.n; c++)
				q.c[(size_t)r * (size_t)q.ldc + (size_t)c] += a->bias[j + c];
}

/* Rounds the operands of a batch to bf16; rows of each product's operands lie cpu_rounded_ld() apart. */
static bool round_operands(struct tiles *a, const struct rf_gemm *x, int batch)
{
	int ra = x->ta ? x->k : x->m, ca = x->ta ? x->m : x->k, rb = x->tb ? x->n : x->k,
	    cb = x->tb ? x->k : x->n;
	int lda = cpu_rounded_ld(a->d, ca), ldb = cpu_rounded_ld(a->d, cb);
	size_t na = ((size_t)ra * (size_t)lda + 31) / 32 * 32,
	       nb = x->weight ? 0 : ((size_t)rb * (size_t)ldb + 31) / 32 * 32;
	size_t bytes = (size_t)a->p.rounded;
	char *mem = rf_cpu_scratch(a->d, -1, (na + nb) * (size_t)batch * bytes), *to_b;
	const float *from_a = a->p.a, *from_b = a->p.b;

	if (!mem)
		return false;
	to_b = mem + na * (size_t)batch * bytes;
	for (size_t i = 0; i < (size_t)batch; i++) {
		a->p.forms->round(a->d, from_a + i * x->sa, ra, ca, x->lda, mem + i * na * bytes);
		if (!x->weight)
			a->p.forms->round(a->d, from_b + i * x->sb, rb, cb, x->ldb, to_b + i * nb * bytes);
	}
	a->p.a = mem;
	a->p.lda = lda;
	a->sa = na;
	if (!x->weight) {
		a->p.b = (const float *)(const void *)to_b;
		a->p.ldb = ldb;
		a->sb = nb;
	}
	return true;
}

/* Makes copies of operands that are worth it.  An A that is not transposed is packed faster as it is, so it
 * is copied only for several tiles. */
static bool lay_operands(struct tiles *a, int batch)
{
	const struct cpu_product *p = &a->p;
	bool left = p->ta ? a->across > 1 : a->across >= 4 && p->m >= CPU_MANY && p->lda % 512 == 0,
	     right = p->m >= CPU_MANY;
	float *to;

	a->left = (struct laid){ NULL, p->a, p->forms, p->ta ? p->k : p->m, p->ta ? p->m : p->k,
	                         p->ta ? a->rows : p->k, p->lda, false, a->sa };
	a->right = (struct laid){ NULL, p->b, p->forms, p->k, p->n, p->n < TN ? p->n : TN, p->ldb, p->tb,
	                          a->sb };
	if (!left && !right)
		return true;
	to = rf_cpu_scratch(a->d, -1,
	                    ((left ? laid_size(&a->left) : 0) + (right ? laid_size(&a->right) : 0)) *
	                            (size_t)batch * sizeof *to);
	if (!to)
		return false;
	if (right)
		lay(a->d, &a->right, to, batch);
	if (left)
		lay(a->d, &a->left, to + (right ? laid_size(&a->right) * (size_t)batch : 0), batch);
	return true;
}

/* A product that is so small that calling oneDNN would take longer is computed number by number, and in
 * double, since that costs nothing.  For a product with a weight only the weight's size decides, so that the
 * number of rows does not change how each row is computed. */
enum { SMALL = 1 << 15, SMALL_WEIGHT = 1 << 10 };

/* x . y in four sums, which need not wait for each other; callers pass strides of 1 as constants. */
static inline double small_dot(const float *a, size_t sa, const float *b, size_t sb, int k)
{
	double s[4] = { 0 };
	int l = 0;

	for (; l + 4 <= k; l += 4, a += 4 * sa, b += 4 * sb)
		for (size_t i = 0; i < 4; i++)
			s[i] += (double)a[i * sa] * (double)b[i * sb];
	for (; l < k; l++, a += sa, b += sb)
		s[0] += (double)*a * (double)*b;
	return (s[0] + s[2]) + (s[1] + s[3]);
}

static void small_tile(void *arg, int t, int thread)
{
	const struct tiles *a = arg;
	const struct cpu_product *p = &a->p;
	size_t one = (size_t)(t / a->down), sa = p->ta ? (size_t)p->lda : 1, sb = p->tb ? 1 : (size_t)p->ldb;
	int first = t % a->down * a->rows, last = first + a->rows < p->m ? first + a->rows : p->m;

	(void)thread;
	for (int i = first; i < last; i++)
		for (int j = 0; j < p->n; j++) {
			float *c = p->c + one * a->sc + (size_t)i * (size_t)p->ldc + (size_t)j;
			const float *x = (const float *)a_at(p, i, 0) + one * a->sa,
				    *b = b_at(p, 0, j) + one * a->sb;
			double dot = sa == 1 && sb == 1 ? small_dot(x, 1, b, 1, p->k)
			                                : small_dot(x, sa, b, sb, p->k);

			*c = (float)(dot + (p->add ? (double)*c : 0) + (a->bias ? (double)a->bias[j] : 0));
		}
}

/* TM; but evenly about half of it for gradients of weights that have few tiles, since their sums are long. */
static int tile_rows(const struct rf_gemm *x, int across)
{
	int down = (x->m + TM - 1) / TM;

	if (!x->ta || down * across >= 8)
		return TM;
	down = (x->m + TM / 2 - 1) / (TM / 2);
	return (x->m + 16 * down - 1) / (16 * down) * 16;
}

void rf_cpu_gemm(struct rf_dev *d, const struct rf_gemm *x, const struct cpu_forms *forms)
{
	struct tiles a = {
		.d = d, .bias = cpu_f32(d, x->bias), .across = (x->n + TN - 1) / TN,
		.sa = x->sa, .sb = x->sb, .sc = x->sc,
		.p = { .m = x->m, .n = x->n, .k = x->k, .ta = x->ta, .tb = x->tb, .add = x->add,
		       .weight = x->weight, .rounded = x->f32 ? 0 : cpu_of(d)->rounded, .forms = forms,
		       .a = cpu_f32(d, x->a), .b = cpu_f32(d, x->b), .c = cpu_f32(d, x->c), .lda = x->lda,
		       .ldb = x->ldb, .ldc = x->ldc },
	};
	int batch = x->batch ? x->batch : 1;

	a.rows = tile_rows(x, a.across * batch);
	a.down = (x->m + a.rows - 1) / a.rows;
	if (!a.p.rounded &&
	    (x->weight ? (double)x->n * x->k <= SMALL_WEIGHT : (double)x->m * x->n * x->k <= SMALL)) {
		cpu_tiles(d, a.down * batch, small_tile, &a);
		return;
	}
	if (a.p.rounded && !round_operands(&a, x, batch))
		return;
	/* a transposed A is copied CPU_SLAB columns at a time */
	for (int i = 0, m; i < x->m; i += m) {
		struct tiles slab = a;

		m = x->ta && x->m - i > CPU_SLAB ? CPU_SLAB : x->m - i;
		slab.p.m = m;
		slab.p.a = a_at(&a.p, i, 0);
		slab.p.c += (size_t)i * (size_t)x->ldc;
		slab.down = (m + a.rows - 1) / a.rows;
		slab.each = slab.down * a.across;
		if (!a.p.rounded && !lay_operands(&slab, batch))
			return;
		cpu_tiles(d, slab.each * batch, tile, &slab);
	}
}
