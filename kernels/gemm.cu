/* gemm.cu -- matrix products, by cuBLAS.
 *
 * In bf16, operands are rounded before a product.  That moves 6 bytes per number, for which the product
 * itself has 2 n operations: at n = 2048, 1000 TFLOP/s and 3 TB/s it takes half as long as the product.  So a
 * weight stays rounded until it changes.  The rounded operands of recent products are kept too, such as x,
 * which q, k and v share: until something writes to them, or a kernel runs of which nobody said what it
 * writes.  And a kernel whose result products read writes it rounded besides, a third of the bytes. */
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "sweep.h"

#include <cublas_v2.h>

/* A matrix in memory: `rows` rows of `cols` numbers, ld apart; `batch` of such, `apart` floats apart. */
struct stored { const float *p; int rows, cols, ld, batch; size_t apart; };
struct rounded { struct stored of; bf16 *to; };
/* A weight, or several one below the other: rows of as many numbers, without gaps. */
struct side { int parts, cols; const float *p[RF_SIDE]; int rows[RF_SIDE]; };
struct kept { struct side of; bf16 *to; struct kept *next; bool stale, own; };

enum { RECENT = 4, SLOTS = 1 << 10, WORKSPACE = 32 << 20 };
struct blas {
	cublasHandle_t handle;
	void *workspace;
	struct kept *weight[SLOTS];     /* hashed by address; stale: has changed since; own: not in `kept` */
	bf16 *kept;                     /* memory for weights, taken in advance */
	size_t kept_size, kept_used;    /* its size, and what is used, in numbers */
	struct rounded recent[RECENT];  /* operands of the last products, each in memory of its own */
	size_t room[RECENT];            /* numbers */
	int next;
};

static struct blas *blas_of(struct rf_dev *d) { return (struct blas *)cuda_of(d)->blas; }

static bool done(struct rf_dev *d, cublasStatus_t s, const char *what)
{
	if (s != CUBLAS_STATUS_SUCCESS)
		rf_dev_fail(d, s == CUBLAS_STATUS_ALLOC_FAILED ? RF_ENOMEM : RF_EDEVICE,
		            "cuBLAS failed in %s: %s", what, cublasGetStatusString(s));
	return s == CUBLAS_STATUS_SUCCESS;
}

/* The workspace is allocated here: with cuBLAS's own, equal bits from run to run are not guaranteed. */
enum rf_code rf_cuda_gemm_open(struct rf_dev *d, struct rf_err *e)
{
	struct blas *b = (struct blas *)calloc(1, sizeof *b);
	cublasStatus_t s = CUBLAS_STATUS_ALLOC_FAILED;

	cuda_of(d)->blas = b;
	if (!b || (s = cublasCreate(&b->handle)) != CUBLAS_STATUS_SUCCESS ||
	    (s = cublasSetStream(b->handle, cuda_of(d)->stream)) != CUBLAS_STATUS_SUCCESS)
		return rf_fail(e, RF_EDEVICE, "cuBLAS cannot be opened: %s", cublasGetStatusString(s));
	if (!(b->workspace = rf_cuda_take(d, WORKSPACE, " for cuBLAS")) ||
	    (s = cublasSetWorkspace(b->handle, b->workspace, WORKSPACE)) != CUBLAS_STATUS_SUCCESS)
		return rf_fail(e, RF_ENOMEM, "the GPU has no memory for cuBLAS: %d MiB", WORKSPACE >> 20);
	return RF_OK;
}

/* Whether a weight has numbers in [p, p + bytes). */
static bool touches(const struct kept *w, const void *p, size_t bytes)
{
	bool any = false;

	for (int i = 0; i < w->of.parts; i++) {
		const char *first = (const char *)w->of.p[i],
		           *end = first + (size_t)w->of.rows[i] * (size_t)w->of.cols * 4;

		any |= end > (const char *)p && first < (const char *)p + bytes;
	}
	return any;
}

/* Drops the weights with numbers in [p, p + bytes), or all.  Memory of their own is released; places in
 * `kept` are released together with it. */
static void forget(struct rf_dev *d, struct blas *b, const void *p, size_t bytes, bool all)
{
	for (int i = 0; i < SLOTS; i++)
		for (struct kept **at = &b->weight[i]; *at;) {
			struct kept *w = *at;

			if (!all && !touches(w, p, bytes)) {
				at = &w->next;
				continue;
			}
			*at = w->next;
			if (w->own)
				rf_cuda_give(d, w->to);
			free(w);
		}
}

void rf_cuda_gemm_close(struct rf_dev *d)
{
	struct blas *b = blas_of(d);

	if (!b)
		return;
	forget(d, b, NULL, 0, true);
	for (int i = 0; i < RECENT; i++)
		rf_cuda_give(d, b->recent[i].to);
	rf_cuda_give(d, b->kept);
	if (b->handle)
		cublasDestroy(b->handle);
	rf_cuda_give(d, b->workspace);
	free(b);
	cuda_of(d)->blas = NULL;
}

void rf_cuda_gemm_stale(struct rf_dev *d)
{
	struct blas *b = blas_of(d);

	for (int i = 0; b && i < RECENT; i++)
		b->recent[i].of.p = NULL;
}

void rf_cuda_gemm_changed(struct rf_dev *d, const void *p, size_t bytes)
{
	struct blas *b = blas_of(d);

	rf_cuda_gemm_stale(d);
	if (b && d->math == RF_MATH_BF16)
		for (int i = 0; i < SLOTS; i++)
			for (struct kept *w = b->weight[i]; w; w = w->next)
				w->stale |= touches(w, p, bytes);
}

void rf_cuda_gemm_forget(struct rf_dev *d, const void *p, size_t bytes)
{
	rf_cuda_gemm_stale(d);
	if (blas_of(d) && d->math == RF_MATH_BF16 && !cuda_of(d)->dead)
		forget(d, blas_of(d), p, bytes, false);
}

/* ---- rounding ------------------------------------------------------------------------------ */

/* Rounds row i, counted over all of a batch.  The one division by `rows` serves W numbers, so that memory
 * stays the limit. */
struct rounding {
	const float *from;
	bf16 *to;
	unsigned rows;
	size_t cols, ld, apart;

	template <int W> __device__ void at(size_t i, size_t j) const
	{
		put_bf16<W>(to + i * cols + j,
		            get<W>(from + (unsigned)i / rows * apart + (unsigned)i % rows * ld + j));
	}
};

static size_t numbers(const struct stored *s) { return (size_t)s->rows * s->cols * s->batch; }

/* Rows that follow each other without gaps. */
static bool is_whole(const struct stored *s)
{
	return s->ld == s->cols && (s->batch == 1 || s->apart == (size_t)s->rows * s->cols);
}

static void round_now(struct rf_dev *d, const struct stored *s, bf16 *to)
{
	const bool whole = is_whole(s);
	const size_t rows = whole ? 1 : (size_t)s->rows * s->batch,
		     cols = whole ? numbers(s) : (size_t)s->cols;
	const struct rounding f = { s->p, to, whole ? 1 : (unsigned)s->rows, cols, (size_t)s->ld, s->apart };

	if (aligned(s->p, to) && cols % 4 == 0 && (whole || (s->ld % 4 == 0 && s->apart % 4 == 0)))
		sweep_scratch<4>(d, "rounding", rows, cols / 4, f);
	else
		sweep_scratch<1>(d, "rounding", rows, cols, f);
}

static const char operands[] = " for operands in bf16";

/* Memory for a weight's n numbers, from what was taken in advance if enough is left. */
static bool weight_room(struct rf_dev *d, struct kept *w, size_t n)
{
	struct blas *b = blas_of(d);

	n = (n + 127) / 128 * 128; /* aligned like an allocation */
	w->own = n > b->kept_size - b->kept_used;
	if (w->own)
		return (w->to = (bf16 *)rf_cuda_take(d, n * 2, operands));
	w->to = b->kept + b->kept_used;
	b->kept_used += n;
	return true;
}

static bool same(const struct side *a, const struct side *b)
{
	bool all = a->parts == b->parts && a->cols == b->cols;

	for (int i = 0; i < a->parts && all; i++)
		all = a->p[i] == b->p[i] && a->rows[i] == b->rows[i];
	return all;
}

static const bf16 *weight(struct rf_dev *d, const struct side *s)
{
	struct kept **at = &blas_of(d)->weight[(uintptr_t)s->p[0] / 256 % SLOTS], *w;
	size_t n = 0;

	for (w = *at; w && !same(&w->of, s);)
		w = w->next;
	for (int i = 0; i < s->parts; i++)
		n += (size_t)s->rows[i] * s->cols;
	if (!w) {
		if (!(w = (struct kept *)calloc(1, sizeof *w)) || !weight_room(d, w, n)) {
			free(w);
			return NULL;
		}
		*w = { *s, w->to, *at, true, w->own };
		*at = w;
	}
	n = 0;
	for (int i = 0; i < s->parts && w->stale; i++) {
		const struct stored part = { s->p[i], s->rows[i], s->cols, s->cols, 1, 0 };

		round_now(d, &part, w->to + n);
		n += numbers(&part);
	}
	w->stale = false;
	return w->to;
}

const bf16 *rf_cuda_gemm_weight(struct rf_dev *d, rf_f32 w, int rows, int cols)
{
	const struct side s = { 1, cols, { f32(w) }, { rows } };

	return d->err.code == RF_OK ? weight(d, &s) : NULL;
}

/* The numbers of the largest operand that is not a weight: rows of an MLP, a block of logits, or the operand
 * of a batch. */
static size_t largest(const struct rf_workspace *need)
{
	const size_t z = need->train ? (size_t)rf_cuda_logit_rows(need->vocab) * need->vocab : 0;
	size_t n = (size_t)need->rows * need->widest;

	n = n > z ? n : z;
	return n > need->operands ? n : need->operands;
}

/* The numbers of all weights, each of which begins where an allocation could. */
static size_t kept_for(const struct rf_workspace *need)
{
	return need->matrices + 128 * (size_t)need->weights;
}

size_t rf_cuda_gemm_workspace(struct rf_dev *d, const struct rf_workspace *need)
{
	return WORKSPACE + (d->math == RF_MATH_BF16 ? (kept_for(need) + RECENT * largest(need)) * 2 : 0);
}

/* Memory for n numbers at a place of `recent`; if it grows, its contents are lost. */
static bool make_room(struct rf_dev *d, struct blas *b, int place, size_t n)
{
	struct rounded *r = &b->recent[place];

	if (n <= b->room[place])
		return true;
	r->of.p = NULL;
	b->room[place] = 0;
	/* queued kernels may still read the old memory */
	if (!rf_cuda_ok(d, cudaStreamSynchronize(cuda_of(d)->stream), "a kernel before") ||
	    !rf_cuda_give(d, r->to) || !(r->to = (bf16 *)rf_cuda_take(d, n * 2, operands)))
		return false;
	b->room[place] = n;
	return true;
}

void rf_cuda_gemm_prepare(struct rf_dev *d, const struct rf_workspace *need)
{
	struct blas *b = blas_of(d);

	if (d->math != RF_MATH_BF16 || d->err.code != RF_OK)
		return;
	if (!b->kept && (b->kept = (bf16 *)rf_cuda_take(d, kept_for(need) * 2, operands)))
		b->kept_size = kept_for(need);
	for (int i = 0; i < RECENT && d->err.code == RF_OK; i++)
		make_room(d, b, i, largest(need));
}

/* Where a matrix lies in one that is rounded, such as columns of it, or the same numbers in rows of another
 * width; NULL: it does not.  *ld: numbers from row to row there. */
static const bf16 *inside(const struct rounded *r, const struct stored *s, int *ld)
{
	const size_t at = (size_t)(s->p - r->of.p);

	if (!r->of.p || s->p < r->of.p)
		return NULL;
	if (is_whole(s) && is_whole(&r->of)) {
		*ld = s->cols;
		return at + numbers(s) <= numbers(&r->of) ? r->to + at : NULL;
	}
	*ld = r->of.cols;
	return s->rows == r->of.rows && s->ld == r->of.ld &&
	                       at + (size_t)s->cols <= (size_t)r->of.cols && s->batch == r->of.batch &&
	                       (s->batch == 1 || s->apart == r->of.apart)
	               ? r->to + at
	               : NULL;
}

/* For the emulator, which sees the device's memory: a copy that its original has left behind is a kernel that
 * did not say what it writes. */
static bool is_current(const struct rounded *r)
{
	for (size_t i = 0; RF_HOST_SEES && i < numbers(&r->of); i++) {
		const size_t row = i / r->of.cols;
		const float x = r->of.p[row / r->of.rows * r->of.apart + row % r->of.rows * r->of.ld +
		                        i % r->of.cols];
		const bf16 as = __float2bfloat16(x);

		if (memcmp(&as, r->to + i, sizeof as))
			return false;
	}
	return true;
}

/* The next place of `recent`, for a matrix.  NULL: there is too little memory, and the device has failed. */
static struct rounded *take_place(struct rf_dev *d, struct blas *b, const struct stored *s, int *place)
{
	struct rounded *r = &b->recent[*place = b->next];

	b->next = (b->next + 1) % RECENT;
	r->of.p = NULL;
	if (!make_room(d, b, *place, numbers(s)))
		return NULL;
	r->of = *s;
	return r;
}

/* The rounded form of an operand, and how many numbers lie from row to row.  keep: the place of the product's
 * other operand, which must stay; -1: none.  *place: the place that it has. */
static const bf16 *operand(struct rf_dev *d, const struct stored *s, int keep, int *place, int *ld)
{
	struct blas *b = blas_of(d);
	struct rounded *r;

	for (int i = 0; i < RECENT; i++) {
		const bf16 *to = inside(&b->recent[i], s, ld);

		if (!to)
			continue;
		if (!is_current(&b->recent[i])) {
			if (rf_cuda_ok(d, cudaStreamSynchronize(cuda_of(d)->stream), "a kernel before"))
				rf_dev_fail(d, RF_EDEVICE, "a rounded operand is not what it was made of");
			return NULL;
		}
		*place = i;
		return to;
	}
	*ld = s->cols;
	if (b->next == keep)
		b->next = (b->next + 1) % RECENT;
	if (!(r = take_place(d, b, s, place)))
		return NULL;
	round_now(d, s, r->to);
	return r->to;
}

bf16 *rf_cuda_gemm_beside(struct rf_dev *d, const float *p, size_t rows, size_t cols, size_t ld)
{
	const struct stored s = { p, (int)rows, (int)cols, (int)ld, 1, 0 };
	const struct rounded *r;
	int place;

	if (d->err.code != RF_OK || !rows || !cols)
		return NULL;
	rf_cuda_gemm_wrote(d, p, (rows - 1) * ld + cols);
	if (d->math != RF_MATH_BF16 || rows > INT_MAX || cols > INT_MAX)
		return NULL;
	return (r = take_place(d, blas_of(d), &s, &place)) ? r->to : NULL;
}

void rf_cuda_gemm_wrote(struct rf_dev *d, const float *p, size_t n)
{
	for (int i = 0; i < RECENT; i++) {
		struct stored *s = &blas_of(d)->recent[i].of;

		if (s->p && s->p < p + n &&
		    s->p + (size_t)(s->batch - 1) * s->apart + (size_t)s->rows * s->ld > p)
			s->p = NULL;
	}
}

/* Drops the rounded operands that a product has written over. */
static void written(struct rf_dev *d, const struct rf_gemm *g)
{
	rf_cuda_gemm_wrote(d, f32(g->c), (size_t)(g->batch ? g->batch - 1 : 0) * g->sc +
	                                         (size_t)(g->m - 1) * g->ldc + g->n);
}

/* ---- products ------------------------------------------------------------------------------ */

/* For profiles: "product, n 64, k 96, bf16, b', added".  The rows and the batch are the grid. */
static void begin_profile(struct rf_dev *d, const struct rf_gemm *g, cudaDataType type, bool add)
{
	char name[60];

	snprintf(name, sizeof name, "product, n %d, k %d, %s%s%s%s", g->n, g->k,
	         type == CUDA_R_16BF ? "bf16" : "f32", g->ta ? ", a'" : "", g->tb ? ", b'" : "",
	         add ? ", added" : "");
	rf_cuda_profile_begin(d, name, dim3(g->m, g->batch ? g->batch : 1), 1,
	                      2. * g->m * g->n * g->k * (g->batch ? g->batch : 1));
}

/* cuBLAS takes matrices by columns, so it sees all of them transposed: C' = B' A'. */
static void product(struct rf_dev *d, const struct rf_gemm *g, cudaDataType type, const void *a, int lda,
                    size_t sa, const void *b, int ldb, size_t sb, float *c, bool add)
{
	const float one = 1, beta = add;
	const cublasOperation_t ta = g->ta ? CUBLAS_OP_T : CUBLAS_OP_N,
				tb = g->tb ? CUBLAS_OP_T : CUBLAS_OP_N;

	if (cuda_of(d)->profile)
		begin_profile(d, g, type, add);
	done(d,
	     cublasGemmStridedBatchedEx(blas_of(d)->handle, tb, ta, g->n, g->m, g->k, &one, b, type, ldb,
	                                (long long)sb, a, type, lda, (long long)sa, &beta, c, CUDA_R_32F,
	                                g->ldc, (long long)g->sc, g->batch ? g->batch : 1, CUBLAS_COMPUTE_32F,
	                                CUBLAS_GEMM_DEFAULT),
	     "a product");
	if (cuda_of(d)->profile)
		rf_cuda_profile_end(d);
}

static __global__ void bias_rows(const float *bias, float *c, int n, int ldc, bool add)
{
	float *y = c + (size_t)blockIdx.x * ldc;

	for (int j = threadIdx.x; j < n; j += blockDim.x)
		y[j] = add ? y[j] + bias[j] : bias[j];
}

static __global__ void zero_rows(float *c, int n, int ldc, size_t apart)
{
	float *y = c + blockIdx.y * apart + (size_t)blockIdx.x * ldc;

	for (int j = threadIdx.x; j < n; j += blockDim.x)
		y[j] = 0;
}

void rf_cuda_gemm_bf16(struct rf_dev *d, const struct rf_gemm *g, const bf16 *a, const bf16 *b, float *c)
{
	if (d->err.code == RF_OK)
		product(d, g, CUDA_R_16BF, a, g->lda, g->sa, b, g->ldb, g->sb, c, g->add);
}

void rf_cuda_gemm(struct rf_dev *d, const struct rf_gemm *g)
{
	const bool rounds = d->math == RF_MATH_BF16 && !g->f32;
	const int batch = g->batch ? g->batch : 1;
	const struct stored a = { f32(g->a), g->ta ? g->k : g->m, g->ta ? g->m : g->k, g->lda, batch, g->sa };
	const struct stored b = { f32(g->b), g->tb ? g->n : g->k, g->tb ? g->k : g->n, g->ldb, batch, g->sb };
	const bool by_weight = g->weight && b.ld == b.cols; /* one with gaps is no weight of a model */
	bool add = g->add;
	int place = -1, lda, ldb = b.cols;

	if (d->err.code != RF_OK || !g->m || !g->n || !batch)
		return;
	written(d, g);
	if (!g->k && !add) {
		RF_CUDA_LAUNCH(d, "zero_rows", zero_rows, dim3(g->m, batch), 256, 0, f32(g->c), g->n, g->ldc,
		               g->sc);
	}
	if (g->bias) {
		RF_CUDA_LAUNCH(d, "bias_rows", bias_rows, g->m, 256, 0, f32(g->bias), f32(g->c), g->n, g->ldc,
		               add);
		add = true;
	}
	if (!g->k || d->err.code != RF_OK)
		return;
	if (!rounds) {
		product(d, g, CUDA_R_32F, a.p, a.ld, a.apart, b.p, b.ld, b.apart, f32(g->c), add);
		return;
	}
	const struct side w = { 1, b.cols, { b.p }, { b.rows } };
	const bf16 *x = operand(d, &a, -1, &place, &lda),
		   *y = !x          ? NULL
	                : g->half   ? (const bf16 *)g->b
	                : by_weight ? weight(d, &w)
	                            : operand(d, &b, place, &place, &ldb);

	if (y)
		product(d, g, CUDA_R_16BF, x, lda, (size_t)a.rows * lda, y, ldb, (size_t)b.rows * ldb,
		        f32(g->c), add);
}

/* Whether weights in bf16 lie one below the other. */
static bool touch(const struct rf_gemms *x)
{
	bool all = true;

	for (int i = 0; i + 1 < x->parts; i++)
		all &= (const bf16 *)x->b[i + 1] == (const bf16 *)x->b[i] + (size_t)x->n[i] * x->k;
	return all;
}

/* The products by the weights apart, or by one that has them all. */
void rf_cuda_gemms(struct rf_dev *d, const struct rf_gemms *x)
{
	struct side w = { x->parts, x->k, {}, {} };
	struct rf_gemm all = {};
	struct stored a;
	const bool one = d->math == RF_MATH_BF16 && !x->apart && (!x->half || touch(x));
	size_t at = 0;
	int place, lda, N = 0;

	if (d->err.code != RF_OK || !x->m || !x->k)
		return;
	for (int i = 0; i < x->parts; N += x->n[i++]) {
		w.p[i] = f32(x->b[i]);
		w.rows[i] = x->n[i];
		if (one)
			continue;
		all.m = x->m, all.weight = true, all.half = x->half, all.lda = x->lda, all.ldc = x->ldc;
		all.b = x->b[i], all.ldb = x->k;
		all.n = x->back ? x->k : x->n[i], all.k = x->back ? x->n[i] : x->k;
		all.tb = !x->back, all.add = x->back && (x->add || i);
		all.a = rf_at(x->a, x->back ? at : 0), all.c = rf_at(x->c, x->back ? 0 : at);
		rf_cuda_gemm(d, &all);
		at += x->apart ? x->apart : (size_t)x->n[i];
	}
	if (!one || !N)
		return;
	all.m = x->m, all.n = x->back ? x->k : N, all.k = x->back ? N : x->k, all.tb = !x->back;
	all.c = x->c, all.ldc = x->ldc;
	a = { f32(x->a), x->m, all.k, x->lda, 1, 0 };
	written(d, &all);
	const bf16 *rows = operand(d, &a, -1, &place, &lda),
		   *b = !rows ? NULL : x->half ? (const bf16 *)x->b[0] : weight(d, &w);

	if (b)
		product(d, &all, CUDA_R_16BF, rows, lda, 0, b, x->k, 0, f32(x->c), x->back && x->add);
}
