/* gemm_dnnl.c -- single-threaded matrix products by oneDNN: the only file that calls it (2.6 and 3.x).
 *
 * A primitive is a product of one shape.  Primitives are created once per shape and thread and kept, for two
 * reasons: creating a primitive compiles code; and two threads must not execute the same primitive together:
 * they would share its scratchpad and silently compute wrong numbers. */
#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/gemm_dnnl.h"

extern void omp_set_num_threads(int); /* Debian's oneDNN is built with OpenMP; its header wants -fopenmp */

enum { SLOTS = 1 << 10 };

struct rf_dnnl_primitive {
	struct dnnl_shape shape;
	dnnl_primitive_t p;
	dnnl_memory_t a, b, c;
	struct rf_dnnl_primitive *next;
};

struct rf_dnnl {
	dnnl_engine_t engine;
	struct dnnl_thread {
		dnnl_stream_t stream;
		struct rf_dnnl_primitive *slot[SLOTS];
	} * thread; /* one per thread of the device */
};

/* ---- the level of the instruction set ------------------------------------------------------ */

bool rf_cpu_gemm_isa(const char *level)
{
	static const struct {
		const char *level;
		dnnl_cpu_isa_t most;
	} limits[] = {
		{ "x86_64", dnnl_cpu_isa_sse41 },
		{ "x86_64_v3", dnnl_cpu_isa_avx2 },
		{ "x86_64_v4", dnnl_cpu_isa_avx512_core },
	};

	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
		if (!strcmp(level, limits[i].level))
			return dnnl_set_max_cpu_isa(limits[i].most) == dnnl_success;
	return true;
}

/* Tells whether oneDNN uses a level, which is a set of bits, one for each feature. */
static bool has(dnnl_cpu_isa_t isa) { return (dnnl_get_effective_cpu_isa() & isa) == isa; }

const char *rf_cpu_gemm_beyond(void)
{
	return has(dnnl_cpu_isa_avx512_core_amx) ? "+amx" : has(dnnl_cpu_isa_avx512_core_bf16) ? "+bf16" : "";
}

/* ---- the engine ---------------------------------------------------------------------------- */

static bool failed(struct rf_dev *d, dnnl_status_t s, const char *what)
{
	if (s != dnnl_success)
		rf_dev_fail(d, s == dnnl_out_of_memory ? RF_ENOMEM : RF_EDEVICE,
		            "oneDNN failed: %s: status %d", what, (int)s);
	return s != dnnl_success;
}

struct rf_dnnl *rf_dnnl_new(struct rf_dev *d)
{
	struct rf_dnnl *g = calloc(1, sizeof *g);

	if (g && (g->thread = calloc((size_t)d->threads, sizeof *g->thread)) &&
	    !failed(d, dnnl_engine_create(&g->engine, dnnl_cpu, 0), "engine"))
		return g;
	if (g)
		free(g->thread);
	free(g);
	return NULL;
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
static dnnl_status_t describe(desc *md, int rows, int cols, dnnl_data_type_t t, int ld, bool transposed)
{
	const dnnl_dims_t along_columns = { 1, ld }, along_rows = { ld, 1 };

	return dnnl_memory_desc_create_with_strides(md, 2, (dnnl_dims_t){ rows, cols }, t,
	                                            transposed ? along_columns : along_rows);
}
static dnnl_status_t describe_any(desc *md, int rows, int cols, dnnl_data_type_t t)
{
	return dnnl_memory_desc_create_with_tag(md, 2, (dnnl_dims_t){ rows, cols }, t, dnnl_format_tag_any);
}
static void destroy(desc *md) { dnnl_memory_desc_destroy(*md); }
static dnnl_status_t describe_matmul(dnnl_primitive_desc_t *pd, dnnl_engine_t e, desc *a, desc *b, desc *c,
                                     dnnl_primitive_attr_t attr)
{
	return dnnl_matmul_primitive_desc_create(pd, e, *a, *b, NULL, *c, attr);
}
static dnnl_status_t create_memory(dnnl_memory_t *m, const_dnnl_memory_desc_t md, dnnl_engine_t e)
{
	return dnnl_memory_create(m, md, e, DNNL_MEMORY_NONE);
}
static const_dnnl_memory_desc_t desc_of(dnnl_memory_t m)
{
	const_dnnl_memory_desc_t md = NULL;
	dnnl_memory_get_memory_desc(m, &md);
	return md;
}
static dnnl_status_t set_address(dnnl_memory_t m, void *p, dnnl_stream_t s)
{
	(void)s;
	return dnnl_memory_set_data_handle(m, p);
}
static dnnl_status_t append_sum(dnnl_post_ops_t po)
{
	return dnnl_post_ops_append_sum(po, 1, 0, dnnl_data_type_undef);
}
#define DESC(md) (md)
#else
typedef dnnl_memory_desc_t desc;
typedef const dnnl_memory_desc_t *const_desc;
static dnnl_status_t describe(desc *md, int rows, int cols, dnnl_data_type_t t, int ld, bool transposed)
{
	return dnnl_memory_desc_init_by_strides(md, 2, (dnnl_dims_t){ rows, cols }, t,
	                                        transposed ? (dnnl_dims_t){ 1, ld } : (dnnl_dims_t){ ld, 1 });
}
static dnnl_status_t describe_any(desc *md, int rows, int cols, dnnl_data_type_t t)
{
	return dnnl_memory_desc_init_by_tag(md, 2, (dnnl_dims_t){ rows, cols }, t, dnnl_format_tag_any);
}
static void destroy(desc *md) { (void)md; }
static dnnl_status_t describe_matmul(dnnl_primitive_desc_t *pd, dnnl_engine_t e, desc *a, desc *b, desc *c,
                                     dnnl_primitive_attr_t attr)
{
	dnnl_matmul_desc_t md;
	dnnl_status_t s = dnnl_matmul_desc_init(&md, a, b, NULL, c);

	return s == dnnl_success ? dnnl_primitive_desc_create(pd, &md, attr, e, NULL) : s;
}
static dnnl_status_t create_memory(dnnl_memory_t *m, const_desc md, dnnl_engine_t e)
{
	return dnnl_memory_create(m, md, e, DNNL_MEMORY_NONE);
}
static const_desc desc_of(dnnl_memory_t m)
{
	const_desc md = NULL;
	dnnl_memory_get_memory_desc(m, &md);
	return md;
}
static dnnl_status_t set_address(dnnl_memory_t m, void *p, dnnl_stream_t s)
{
	return dnnl_memory_set_data_handle_v2(m, p, s);
}
static dnnl_status_t append_sum(dnnl_post_ops_t po) { return dnnl_post_ops_append_sum(po, 1); }
#define DESC(md) (&(md))
#endif

/* ---- primitives ---------------------------------------------------------------------------- */

/* Frees a primitive that may be incomplete. */
static void free_primitive(struct rf_dnnl_primitive *p)
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

void rf_dnnl_free(struct rf_dev *d, struct rf_dnnl *g)
{
	for (int t = 0; t < d->threads; t++) {
		for (int i = 0; i < SLOTS; i++)
			for (struct rf_dnnl_primitive *p = g->thread[t].slot[i], *next; p; p = next) {
				next = p->next;
				free_primitive(p);
			}
		if (g->thread[t].stream)
			dnnl_stream_destroy(g->thread[t].stream);
	}
	dnnl_engine_destroy(g->engine);
	free(g->thread);
	free(g);
}

static struct rf_dnnl_primitive *create_primitive(struct rf_dev *d, struct rf_dnnl *g,
                                                  const struct dnnl_shape *s)
{
	dnnl_data_type_t t = s->bf16 ? dnnl_bf16 : dnnl_f32;
	struct rf_dnnl_primitive *p = calloc(1, sizeof *p);
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
	bad = failed(d, describe(&a, s->m, s->k, t, s->lda, s->ta), "operand A") ||
	      failed(d,
	             s->packed ? describe_any(&b, s->k, s->n, t) : describe(&b, s->k, s->n, t, s->ldb, s->tb),
	             "operand B") ||
	      failed(d, describe(&c, s->m, s->n, dnnl_f32, s->ldc, false), "result") ||
	      failed(d, dnnl_primitive_attr_create(&attr), "attributes");
	if (!bad && s->add)
		bad = failed(d, dnnl_post_ops_create(&po), "post-operations") ||
		      failed(d, append_sum(po), "sum") ||
		      failed(d, dnnl_primitive_attr_set_post_ops(attr, po), "post-operations");
	bad = bad || failed(d, describe_matmul(&pd, g->engine, &a, &b, &c, attr), "product") ||
	      failed(d, dnnl_primitive_create(&p->p, pd), "primitive") ||
	      failed(d, create_memory(&p->a, DESC(a), g->engine), "memory") ||
	      failed(d,
	             create_memory(&p->b, dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0),
	                           g->engine),
	             "memory") ||
	      failed(d, create_memory(&p->c, DESC(c), g->engine), "memory");
	if (po)
		dnnl_post_ops_destroy(po);
	if (attr)
		dnnl_primitive_attr_destroy(attr);
	if (pd)
		dnnl_primitive_desc_destroy(pd);
	destroy(&a);
	destroy(&b);
	destroy(&c);
	if (!bad)
		return p;
	free_primitive(p);
	return NULL;
}

struct rf_dnnl_primitive *rf_dnnl_find(struct rf_dev *d, struct rf_dnnl *g, int thread,
                                       const struct dnnl_shape *s)
{
	struct dnnl_thread *t = &g->thread[thread];
	struct rf_dnnl_primitive **at = &t->slot[hash(s, sizeof *s)], *p;

	if (!t->stream) {
		omp_set_num_threads(1); /* for this thread: its primitives run on it alone */
		if (failed(d, dnnl_stream_create(&t->stream, g->engine, dnnl_stream_default_flags), "stream"))
			return NULL;
	}
	for (p = *at; p; p = p->next)
		if (!memcmp(&p->shape, s, sizeof *s))
			return p;
	if ((p = create_primitive(d, g, s))) {
		p->next = *at;
		*at = p;
	}
	return p;
}

void rf_dnnl_execute(struct rf_dev *d, struct rf_dnnl *g, int thread, struct rf_dnnl_primitive *p,
                     const void *a, const void *b, float *c)
{
	dnnl_stream_t s = g->thread[thread].stream;
	dnnl_exec_arg_t args[3] = { { DNNL_ARG_SRC, p->a },
		                    { DNNL_ARG_WEIGHTS, p->b },
		                    { DNNL_ARG_DST, p->c } };

	/* oneDNN only reads a and b, but its interface has no const */
	if (!failed(d, set_address(p->a, (void *)(uintptr_t)a, s), "operand A") &&
	    !failed(d, set_address(p->b, (void *)(uintptr_t)b, s), "operand B") &&
	    !failed(d, set_address(p->c, c, s), "result") &&
	    !failed(d, dnnl_primitive_execute(p->p, s, 3, args), "product"))
		failed(d, dnnl_stream_wait(s), "product");
}

/* ---- packing ------------------------------------------------------------------------------- */

size_t rf_dnnl_packed_size(const struct rf_dnnl_primitive *p)
{
	return dnnl_memory_desc_get_size(desc_of(p->b));
}

bool rf_dnnl_same_packing(const struct rf_dnnl_primitive *p, const struct rf_dnnl_primitive *q)
{
	return dnnl_memory_desc_equal(desc_of(p->b), desc_of(q->b));
}

bool rf_dnnl_pack(struct rf_dev *d, struct rf_dnnl *g, int thread, const struct cpu_product *p,
                  const struct rf_dnnl_primitive *like, void *to)
{
	dnnl_stream_t s = g->thread[thread].stream;
	dnnl_primitive_desc_t rd = NULL;
	dnnl_primitive_t r = NULL;
	dnnl_memory_t from = NULL, into = NULL;
	bool bad = true;
	desc plain;

	if (failed(d, describe(&plain, p->k, p->n, dnnl_f32, p->ldb, p->tb), "weights"))
		return false;
	if (!failed(d, create_memory(&from, DESC(plain), g->engine), "weights") &&
	    !failed(d, create_memory(&into, desc_of(like->b), g->engine), "weights") &&
	    !failed(d, set_address(from, (void *)(uintptr_t)p->b, s), "weights") &&
	    !failed(d, set_address(into, to, s), "weights") &&
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
	destroy(&plain);
	return !bad;
}
