/* gemm.c -- matrix products on the CPU; oneDNN multiplies (cpu/gemm_dnnl.c).
 *
 * A product is divided into tiles of at most TM rows and TN columns, for any number of threads.  Each tile is
 * one or a few single-threaded products of oneDNN.  The number of rows differs from sequence to sequence.  To
 * keep the number of shapes small, the rows beyond whole tiles are multiplied in powers of two.
 *
 * A product is computed in one of five ways:
 *
 *     path           operands            a weight is kept as     for
 *     SMALL          float32                                     products so small that oneDNN would take
 *                                                                longer to compile its code (cpu/small.c)
 *     PLAIN          float32 or bf16                             products without a weight; float32 weights
 *     PACKED_BF16    bf16                bf16, in the layout     bf16 weights
 *                                        that oneDNN prefers
 *     WIDENED_BF16   float32, rounded    bf16, as (k, n) of a    bf16 weights, on a processor without
 *                    to bf16             tile's columns          instructions for bf16
 *     TRANSPOSED     float32             float32, as (k, n)      weights stored as (n, k), in the decoding of
 *                                                                a few rows again and again
 *
 * Kept weights save packing.  In WIDENED_BF16 each thread widens a part of the weight to float32 when it
 * needs the part; the tiles of one column come one after the other, so a thread widens few parts.  In
 * TRANSPOSED, packing would take as long as multiplying: a step of 16 rows at d 512 takes 0.6 to 0.75 of the
 * time, for twice the memory.
 *
 * For every tile, oneDNN packs both operands again.  So an operand that many tiles of a float32 product share
 * is copied once, to the form that oneDNN packs fastest: a weight that is stored as (n, k) is transposed, and
 * the distance between rows is not a power of two.  This saves a fifth of a step's time. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/device_cpu.h"
#include "cpu/gemm_dnnl.h"

enum { TM = 256, TN = CPU_WIDE, SLOTS = 1 << 10 };

/* A weight that is kept in another form: bf16 in the layout that `like` takes; bf16 as (k, n), to be widened;
 * float32 as (k, n), with a distance of rows of cpu_row_stride(n). */
enum form { FORM_PACKED, FORM_BF16, FORM_TRANSPOSED };
struct kept {
	const float *b;
	int n, k, ldb;
	bool tb;
	enum form form;
	void *data;
	struct rf_dnnl_primitive *like; /* FORM_PACKED: a primitive with the layout of data; else NULL */
	struct kept *next;
};

struct thread {
	/* memory for a part of a weight: the part that was widened last, or one that is transposed before it
	 * is rounded */
	float *wide;
	size_t wide_size;
	const uint16_t *widened; /* the part of a weight that is widened there; NULL: none */
};

struct gemm {
	struct rf_dnnl *dnnl;
	struct thread *thread; /* one per thread of the device */
	pthread_mutex_t lock;  /* of kept */
	struct kept *kept[SLOTS];
};

static struct gemm *gemm_of(struct rf_dev *d)
{
	static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
	struct rf_cpu *c = cpu_of(d);
	struct gemm *g;

	pthread_mutex_lock(&once);
	if (!c->gemm && (g = calloc(1, sizeof *g))) {
		g->thread = calloc((size_t)d->threads, sizeof *g->thread);
		pthread_mutex_init(&g->lock, NULL);
		if (!g->thread || !(g->dnnl = rf_dnnl_new(d))) {
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

/* ---- operands ------------------------------------------------------------------------------ */

/* Returns the address of row i and column l of A (m, k). */
static const void *a_at(const struct cpu_product *p, int i, int l)
{
	size_t at = p->ta ? (size_t)l * (size_t)p->lda + (size_t)i : (size_t)i * (size_t)p->lda + (size_t)l;

	return (const char *)p->a + at * (p->rounded == 2 ? 2 : 4);
}

/* Returns B's address moved by n numbers, which have 2 bytes if B was rounded to bf16, else 4. */
static const float *b_moved(const struct cpu_product *p, size_t n)
{
	return p->rounded == 2 && !p->weight
	               ? (const float *)(const void *)((const uint16_t *)(const void *)p->b + n)
	               : p->b + n;
}

/* Returns the address of row l and column j of B (k, n). */
static const float *b_at(const struct cpu_product *p, int l, int j)
{
	return b_moved(p, p->tb ? (size_t)j * (size_t)p->ldb + (size_t)l
	                        : (size_t)l * (size_t)p->ldb + (size_t)j);
}

/* ---- kept weights ------------------------------------------------------------------------- */

static unsigned hash(const void *p, size_t n)
{
	const unsigned char *s = p;
	unsigned h = 2166136261u;

	for (size_t i = 0; i < n; i++)
		h = (h ^ s[i]) * 16777619u;
	return (h ^ h >> 15) % SLOTS;
}

/* Returns the thread's memory, with room for n numbers. */
static float *thread_memory(struct rf_dev *d, struct thread *t, size_t n)
{
	size_t size = (n * 4 + 63) / 64 * 64;

	t->widened = NULL;
	if (size > t->wide_size) {
		free(t->wide);
		t->wide_size = (t->wide = rf_cpu_memory(size)) ? size : 0;
		if (!t->wide)
			rf_dev_fail(d, RF_ENOMEM, "out of memory: wanted %zu KiB for a weight in bf16",
			            size >> 10);
	}
	return t->wide;
}

/* Rounds the weight B to bf16, as (k, n). */
static bool round_weight(struct rf_dev *d, struct thread *t, const struct cpu_product *p, uint16_t *to)
{
	const size_t n = (size_t)p->n;

	for (int l = 0, step; l < p->k; l += step) {
		const float *rows = b_at(p, l, 0);
		float *transposed;

		step = 1;
		if (p->tb) {
			step = p->k - l < CPU_DEEP ? p->k - l : CPU_DEEP;
			if (!(transposed = thread_memory(d, t, (size_t)step * n)))
				return false;
			p->forms->transpose(rows, p->n, step, p->ldb, transposed, p->n);
			rows = transposed;
		}
		p->forms->narrow(rows, (size_t)step * n, to + (size_t)l * n);
	}
	return true;
}

/* Makes the form w of the weight B. */
static bool make_form(struct rf_dev *d, struct gemm *g, int thread, const struct cpu_product *p,
                      const struct kept *w)
{
	switch (w->form) {
	case FORM_PACKED: return rf_dnnl_pack(d, g->dnnl, thread, p, w->like, w->data);
	case FORM_BF16: return round_weight(d, &g->thread[thread], p, w->data);
	case FORM_TRANSPOSED:
		p->forms->transpose(p->b, p->n, p->k, p->ldb, w->data, cpu_row_stride(p->n));
		return true;
	}
	return false;
}

/* Finds the weight B of a product in this form, and makes the form the first time.  like: see struct kept.
 * Returns NULL if the device has failed. */
static const void *find_form(struct rf_dev *d, struct gemm *g, int thread, const struct cpu_product *p,
                             enum form form, struct rf_dnnl_primitive *like)
{
	struct {
		const float *b;
		int n, k, ldb, tb;
	} key = { p->b, p->n, p->k, p->ldb, p->tb };
	struct kept **at = &g->kept[hash(&key, sizeof key)], *w;
	size_t bytes = form == FORM_PACKED       ? rf_dnnl_packed_size(like)
	               : form == FORM_TRANSPOSED ? (size_t)cpu_row_stride(p->n) * (size_t)p->k * 4
	                                         : (size_t)p->n * (size_t)p->k * 2;
	size_t size = (bytes + 63) / 64 * 64;

	pthread_mutex_lock(&g->lock);
	for (w = *at; w; w = w->next)
		if (w->b == p->b && w->n == p->n && w->k == p->k && w->ldb == p->ldb && w->tb == p->tb &&
		    w->form == form && (!like || rf_dnnl_same_packing(w->like, like)))
			break;
	if (!w && (w = calloc(1, sizeof *w))) {
		*w =
			(struct kept){ p->b, p->n, p->k, p->ldb, p->tb, form, aligned_alloc(64, size),
			               like, *at };
		if (w->data && make_form(d, g, thread, p, w)) {
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

/* Returns `rows` rows of n numbers of a kept weight as float32. */
static const float *widen(struct rf_dev *d, struct thread *t, const struct cpu_forms *forms,
                          const uint16_t *kept, int rows, int n)
{
	size_t ld = (size_t)cpu_row_stride(n);

	if (t->widened == kept)
		return t->wide;
	if (!thread_memory(d, t, (size_t)rows * ld))
		return NULL;
	for (int i = 0; i < rows; i++)
		forms->widen(kept + (size_t)i * (size_t)n, (size_t)n, t->wide + (size_t)i * ld);
	t->widened = kept;
	return t->wide;
}

void rf_cpu_gemm_forget(struct rf_dev *d, const void *p, size_t bytes)
{
	struct gemm *g = cpu_of(d)->gemm;
	const char *first = p;

	if (!g)
		return;
	for (int t = 0; t < d->threads; t++)
		g->thread[t].widened = NULL;
	for (int i = 0; i < SLOTS; i++)
		for (struct kept **at = &g->kept[i], *w; (w = *at);) {
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
		for (struct kept *w = g->kept[i], *next; w; w = next) {
			next = w->next;
			free(w->data);
			free(w);
		}
	for (int t = 0; t < d->threads; t++)
		free(g->thread[t].wide);
	rf_dnnl_free(d, g->dnnl);
	pthread_mutex_destroy(&g->lock);
	free(g->thread);
	free(g);
	cpu_of(d)->gemm = NULL;
}

/* ---- products ------------------------------------------------------------------------------ */

/* Returns how many of `left` rows come next: a whole tile, or the largest power of two. */
static int rows_of_piece(int left, int tile)
{
	int n = 1;

	if (left >= tile)
		return tile;
	while (2 * n <= left)
		n *= 2;
	return n;
}

/* Multiplies by one primitive.  packed: B is a weight, of which the packed form is used. */
static void multiply_piece(struct rf_dev *d, struct gemm *g, int thread, const struct cpu_product *p,
                           bool packed)
{
	/* clang-format off */
	struct dnnl_shape s = { .m = p->m, .n = p->n, .k = p->k, .lda = p->lda, .ldb = packed ? 0 : p->ldb,
	                        .ldc = p->ldc, .ta = p->ta, .tb = !packed && p->tb, .add = p->add,
	                        .bf16 = p->rounded == 2, .packed = packed };
	/* clang-format on */
	struct rf_dnnl_primitive *prim = rf_dnnl_find(d, g->dnnl, thread, &s);
	const void *b = prim && packed ? find_form(d, g, thread, p, FORM_PACKED, prim) : p->b;

	if (prim && b)
		rf_dnnl_execute(d, g->dnnl, thread, prim, p->a, b, p->c);
}

/* Multiplies few rows.  If their sum is long, such as over a vocabulary, they are too few for a copy of B
 * that all tiles share.  But if the distance of B's rows is a power of two, oneDNN takes half as long again
 * on AVX2; so each tile copies its part of B, in pieces that stay in a cache. */
static void multiply_rows(struct rf_dev *d, struct gemm *g, int thread, const struct cpu_product *p,
                          bool packed)
{
	enum { STEP = 512 };
	const bool copies = !p->rounded && !p->tb && p->k > CPU_DEEP && p->ldb % 512 == 0;
	const int ld = cpu_row_stride(p->n);
	float *to = copies ? thread_memory(d, &g->thread[thread], (size_t)STEP * (size_t)ld) : NULL;

	if (!copies)
		multiply_piece(d, g, thread, p, packed);
	for (int l = 0; to && l < p->k; l += STEP) {
		struct cpu_product q = *p;

		q.k = p->k - l < STEP ? p->k - l : STEP;
		q.a = a_at(p, 0, l);
		q.b = to;
		q.ldb = ld;
		q.add = p->add || l;
		for (int r = 0; r < q.k; r++)
			memcpy(to + (size_t)r * (size_t)ld, b_at(p, l + r, 0), (size_t)p->n * sizeof *to);
		multiply_piece(d, g, thread, &q, packed);
	}
}

/* Multiplies in pieces whose number of rows (or of k, if A is transposed) is one of few. */
static void multiply(struct rf_dev *d, struct gemm *g, int thread, const struct cpu_product *p, bool packed)
{
	int step;

	if (p->ta) /* k counts rows */
		for (int l = 0; l < p->k; l += step) {
			struct cpu_product q = *p;
			step = p->k - l >= 64 ? (p->k - l) / 64 * 64 : rows_of_piece(p->k - l, 64);
			q.k = step;
			q.a = a_at(p, 0, l);
			q.b = b_at(p, l, 0);
			q.add = p->add || l;
			multiply_piece(d, g, thread, &q, packed);
		}
	else
		for (int i = 0; i < p->m; i += step) {
			struct cpu_product q = *p;
			step = rows_of_piece(p->m - i, TM);
			q.m = step;
			q.a = a_at(p, i, 0);
			q.c = p->c + (size_t)i * (size_t)p->ldc;
			multiply_rows(d, g, thread, &q, packed);
		}
}

/* Multiplies by a weight that is kept as bf16, in float32. */
static void multiply_widened(struct rf_dev *d, struct gemm *g, int thread, const struct cpu_product *p)
{
	const uint16_t *w = find_form(d, g, thread, p, FORM_BF16, NULL);

	for (int l = 0; w && l < p->k; l += CPU_DEEP) {
		struct cpu_product q = *p;

		q.k = p->k - l < CPU_DEEP ? p->k - l : CPU_DEEP;
		q.a = a_at(p, 0, l);
		q.b = widen(d, &g->thread[thread], p->forms, w + (size_t)l * (size_t)p->n, q.k, p->n);
		q.ldb = cpu_row_stride(p->n);
		q.tb = q.weight = false;
		q.add = p->add || l;
		if (q.b)
			multiply(d, g, thread, &q, false);
	}
}

/* Multiplies by a weight that is kept as (k, n). */
static void multiply_transposed(struct rf_dev *d, struct gemm *g, int thread, const struct cpu_product *p)
{
	struct cpu_product q = *p;

	q.b = find_form(d, g, thread, p, FORM_TRANSPOSED, NULL);
	q.ldb = cpu_row_stride(p->n);
	q.tb = q.weight = false;
	if (q.b)
		multiply(d, g, thread, &q, false);
}

/* The ways to compute a product that is not SMALL: see above. */
enum path { PLAIN, PACKED_BF16, WIDENED_BF16, TRANSPOSED };

/* Tells whether a product is SMALL: a product with a small weight, the gradient of a small weight, or a
 * product of at most 2^15 multiplications. */
static bool is_small(const struct cpu_product *p)
{
	if (p->rounded)
		return false;
	if (p->weight)
		return cpu_is_small_weight(p->n, p->k);
	if (p->ta && !p->tb)
		return cpu_is_small_weight(p->n, p->m);
	return (double)p->m * p->n * p->k <= 1 << 15;
}

/* Chooses the path of a product that is not SMALL, or of a tile. */
static enum path choose_path(struct rf_dev *d, const struct cpu_product *p)
{
	if (!p->weight)
		return PLAIN;
	if (p->rounded)
		return p->rounded == 2 ? PACKED_BF16 : WIDENED_BF16;
	return p->tb && p->m <= CPU_FEW && cpu_of(d)->keeps_transposed ? TRANSPOSED : PLAIN;
}

void rf_cpu_product(struct rf_dev *d, int thread, const struct cpu_product *p)
{
	struct gemm *g = gemm_of(d);

	if (!g)
		return;
	switch (choose_path(d, p)) {
	case PACKED_BF16: multiply(d, g, thread, p, true); return;
	case WIDENED_BF16: multiply_widened(d, g, thread, p); return;
	case TRANSPOSED: multiply_transposed(d, g, thread, p); return;
	case PLAIN: multiply(d, g, thread, p, false); return;
	}
}

/* ---- tiles --------------------------------------------------------------------------------- */

/* A copy of an operand that several tiles share, with a distance of rows of cpu_row_stride().  For B, and for
 * a transposed A, the columns of a tile are a matrix; for an A that is not transposed, whole rows are. */
enum { COPY_ROWS = 512 };
struct operand_copy {
	float *to; /* NULL: the operand is not copied */
	const float *from;
	const struct cpu_forms *forms;
	int rows, columns, tile, ld;
	bool transpose; /* the operand is stored as (columns, rows) */
	size_t stride;  /* floats from one product to the next */
};

struct tiles {
	struct rf_dev *d;
	struct cpu_product p;
	const float *bias;
	int rows;                        /* rows of a tile */
	int across, down, each;          /* tiles in a row, in a column, and in one product of a batch */
	size_t sa, sb, sc;               /* elements from one product to the next */
	struct operand_copy left, right; /* A and B */
};

static int copy_tiles(const struct operand_copy *x) { return (x->columns + x->tile - 1) / x->tile; }

/* Returns the distance of rows in the tile that begins at a column; the last tile may be narrower. */
static int copy_ld(const struct operand_copy *x, int column)
{
	return cpu_row_stride(x->columns - column < x->tile ? x->columns - column : x->tile);
}

static size_t copy_size(const struct operand_copy *x)
{
	int last = (copy_tiles(x) - 1) * x->tile;

	return (size_t)x->rows *
	       ((size_t)(copy_tiles(x) - 1) * (size_t)cpu_row_stride(x->tile) + (size_t)copy_ld(x, last));
}

static float *copy_at(const struct operand_copy *x, size_t one, int row, int column)
{
	return x->to + one * copy_size(x) +
	       (size_t)(column / x->tile) * (size_t)x->rows * (size_t)cpu_row_stride(x->tile) +
	       (size_t)row * (size_t)copy_ld(x, column);
}

/* Copies COPY_ROWS rows of a tile of an operand. */
static void copy_part(void *arg, int t, int thread)
{
	const struct operand_copy *x = arg;
	int parts = (x->rows + COPY_ROWS - 1) / COPY_ROWS, i = t % parts * COPY_ROWS,
	    m = x->rows - i < COPY_ROWS ? x->rows - i : COPY_ROWS;
	int j = t / parts % copy_tiles(x) * x->tile, n = x->columns - j < x->tile ? x->columns - j : x->tile;
	size_t one = (size_t)(t / parts / copy_tiles(x)), ld = (size_t)x->ld, ldt = (size_t)copy_ld(x, j);
	const float *from = x->from + one * x->stride +
	                    (x->transpose ? (size_t)j * ld + (size_t)i : (size_t)i * ld + (size_t)j);
	float *to = copy_at(x, one, i, j);

	(void)thread;
	if (x->transpose)
		x->forms->transpose(from, n, m, x->ld, to, (int)ldt);
	else
		for (size_t r = 0; r < (size_t)m; r++)
			memcpy(to + r * ldt, from + r * ld, (size_t)n * sizeof *to);
}

static void copy_operand(struct rf_dev *d, struct operand_copy *x, float *to, int batch)
{
	x->to = to;
	cpu_tiles(d, batch * copy_tiles(x) * ((x->rows + COPY_ROWS - 1) / COPY_ROWS), copy_part, x);
}

static void gemm_tile(void *arg, int t, int thread)
{
	const struct tiles *a = arg;
	struct cpu_product all = a->p, q;
	size_t one = (size_t)(t / a->each);
	const bool downwards = all.rounded == 4 && all.weight; /* the next tile then has the same columns */
	int i = (downwards ? t % a->down : t % a->each / a->across) * a->rows,
	    j = (downwards ? t % a->each / a->down : t % a->across) * TN;

	all.a = (const char *)all.a + one * a->sa * (all.rounded == 2 ? 2 : 4);
	all.b = b_moved(&all, one * a->sb);
	all.c += one * a->sc;
	q = all;
	q.m = q.m - i < a->rows ? q.m - i : a->rows;
	q.n = q.n - j < TN ? q.n - j : TN;
	q.a = a_at(&all, i, 0);
	q.b = b_at(&all, 0, j);
	q.c = all.c + (size_t)i * (size_t)a->p.ldc + (size_t)j;
	if (a->left.to) {
		q.a = q.ta ? copy_at(&a->left, one, 0, i) : copy_at(&a->left, one, i, 0);
		q.lda = copy_ld(&a->left, q.ta ? i : 0);
	}
	if (a->right.to) {
		q.b = copy_at(&a->right, one, 0, j);
		q.ldb = copy_ld(&a->right, j);
		q.tb = false;
	}
	rf_cpu_product(a->d, thread, &q);
	if (a->bias)
		for (int r = 0; r < q.m; r++)
			for (int c = 0; c < q.n; c++)
				q.c[(size_t)r * (size_t)q.ldc + (size_t)c] += a->bias[j + c];
}

/* Rounds the operands of a batch to bf16, with a distance of rows of cpu_rounded_ld(). */
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

/* Copies the operands for which a copy saves time.  An A that is not transposed is packed faster as it is, so
 * it is copied only for several tiles. */
static bool copy_operands(struct tiles *a, int batch)
{
	const struct cpu_product *p = &a->p;
	bool left = p->ta ? a->across > 1 : a->across >= 4 && p->m >= CPU_MANY && p->lda % 512 == 0,
	     right = p->m >= CPU_MANY;
	float *to;

	a->left = (struct operand_copy){
		NULL,   p->a,  p->forms, p->ta ? p->k : p->m, p->ta ? p->m : p->k, p->ta ? a->rows : p->k,
		p->lda, false, a->sa
	};
	a->right = (struct operand_copy){ NULL,   p->b,  p->forms, p->k, p->n, p->n < TN ? p->n : TN,
		                          p->ldb, p->tb, a->sb };
	if (!left && !right)
		return true;
	to = rf_cpu_scratch(a->d, -1,
	                    ((left ? copy_size(&a->left) : 0) + (right ? copy_size(&a->right) : 0)) *
	                            (size_t)batch * sizeof *to);
	if (!to)
		return false;
	if (right)
		copy_operand(a->d, &a->right, to, batch);
	if (left)
		copy_operand(a->d, &a->left, to + (right ? copy_size(&a->right) * (size_t)batch : 0), batch);
	return true;
}

/* Computes some rows of a SMALL product. */
static void small_tile(void *arg, int t, int thread)
{
	const struct tiles *a = arg;
	struct cpu_product p = a->p;
	size_t one = (size_t)(t / a->down);
	int first = t % a->down * a->rows;

	p.m = p.m - first < a->rows ? p.m - first : a->rows;
	p.a = (const float *)a_at(&p, first, 0) + one * a->sa;
	p.b += one * a->sb;
	p.c += one * a->sc + (size_t)first * (size_t)p.ldc;
	if (p.tb) {
		float *to = rf_cpu_scratch(a->d, thread, (size_t)p.k * (size_t)p.n * sizeof *to);

		if (!to)
			return;
		p.forms->transpose(p.b, p.n, p.k, p.ldb, to, p.n);
		p.b = to;
		p.ldb = p.n;
	}
	p.forms->multiply_small(&p, a->bias);
}

/* Returns the rows of a tile: TM; but about half of TM, divided evenly, for gradients of weights that have
 * few tiles, since their sums are long. */
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
		/* clang-format off */
		.d = d, .bias = cpu_f32(d, x->bias), .across = (x->n + TN - 1) / TN,
		.sa = x->sa, .sb = x->sb, .sc = x->sc,
		.p = { .m = x->m, .n = x->n, .k = x->k, .ta = x->ta, .tb = x->tb, .add = x->add,
		       .weight = x->weight, .rounded = x->f32 ? 0 : cpu_of(d)->rounded, .forms = forms,
		       .a = cpu_f32(d, x->a), .b = cpu_f32(d, x->b), .c = cpu_f32(d, x->c), .lda = x->lda,
		       .ldb = x->ldb, .ldc = x->ldc },
		/* clang-format on */
	};
	int batch = x->batch ? x->batch : 1;

	if (is_small(&a.p)) {
		a.rows = x->ta ? 8 : 64; /* a gradient has few rows, whose sums are long */
		a.down = (x->m + a.rows - 1) / a.rows;
		cpu_tiles(d, a.down * batch, small_tile, &a);
		return;
	}
	a.rows = tile_rows(x, a.across * batch);
	a.down = (x->m + a.rows - 1) / a.rows;
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
		if (!a.p.rounded && !copy_operands(&slab, batch))
			return;
		cpu_tiles(d, slab.each * batch, gemm_tile, &slab);
	}
}
