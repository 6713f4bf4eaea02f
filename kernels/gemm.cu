/* gemm.cu -- matrix products, by cuBLAS.
 *
 * In bf16 operands are rounded before a product: 6 bytes of traffic per number, where the product itself takes 2 n operations
 * for it: at n = 2048, 1000 TFLOP/s and 3 TB/s half of the product's own time.  So a weight stays rounded until it changes,
 * and what was rounded for one product serves the next ones, as x does for q, k and v: until a kernel runs that is none of
 * ours, or a product writes there. */
#include <cstdlib>
#include <cstring>

#include "cuda.h"

#include <cublas_v2.h>

/* A matrix as it is stored: `rows` rows of `cols` numbers, ld apart; `batch` of them, `apart` floats apart. */
struct stored { const float *p; int rows, cols, ld, batch; size_t apart; };
struct rounded { struct stored of; bf16 *to; struct rounded *next; };

enum { RECENT = 4, SLOTS = 1 << 10, WORKSPACE = 32 << 20 };
struct blas {
	cublasHandle_t handle;
	void *workspace;
	struct rounded *weight[SLOTS];  /* by address */
	struct rounded recent[RECENT];  /* operands of the last products, each with room of its own */
	size_t room[RECENT];            /* numbers */
	int next;
};

static struct blas *blas_of(struct rf_dev *d) { return (struct blas *)cuda_of(d)->blas; }

static bool done(struct rf_dev *d, cublasStatus_t s, const char *what)
{
	if (s != CUBLAS_STATUS_SUCCESS)
		rf_dev_fail(d, s == CUBLAS_STATUS_ALLOC_FAILED ? RF_ENOMEM : RF_EDEVICE, "cuBLAS failed in %s: %s", what, cublasGetStatusString(s));
	return s == CUBLAS_STATUS_SUCCESS;
}

/* The workspace is ours: with one that cuBLAS takes itself, equal bits from run to run are not promised. */
enum rf_code rf_cuda_gemm_open(struct rf_dev *d, struct rf_err *e)
{
	struct blas *b = (struct blas *)calloc(1, sizeof *b);
	cublasStatus_t s = CUBLAS_STATUS_ALLOC_FAILED;

	cuda_of(d)->blas = b;
	if (!b || (s = cublasCreate(&b->handle)) != CUBLAS_STATUS_SUCCESS || (s = cublasSetStream(b->handle, cuda_of(d)->stream)) != CUBLAS_STATUS_SUCCESS)
		return rf_fail(e, RF_EDEVICE, "cuBLAS cannot be opened: %s", cublasGetStatusString(s));
	if (cudaMalloc(&b->workspace, WORKSPACE) != cudaSuccess ||
	    (s = cublasSetWorkspace(b->handle, b->workspace, WORKSPACE)) != CUBLAS_STATUS_SUCCESS)
		return rf_fail(e, RF_ENOMEM, "the GPU has no memory for cuBLAS: %d MiB", WORKSPACE >> 20);
	return RF_OK;
}

static void forget_all(struct blas *b, const char *first, size_t bytes)
{
	for (int i = 0; i < SLOTS; i++)
		for (struct rounded **at = &b->weight[i]; *at;) {
			struct rounded *w = *at;
			const char *p = (const char *)w->of.p, *end = p + (size_t)w->of.rows * (size_t)w->of.ld * 4;

			if (first && (end <= first || p >= first + bytes)) {
				at = &w->next;
				continue;
			}
			*at = w->next;
			cudaFree(w->to);
			free(w);
		}
}

void rf_cuda_gemm_close(struct rf_dev *d)
{
	struct blas *b = blas_of(d);

	if (!b)
		return;
	forget_all(b, NULL, 0);
	for (int i = 0; i < RECENT; i++)
		cudaFree(b->recent[i].to);
	if (b->handle)
		cublasDestroy(b->handle);
	cudaFree(b->workspace);
	free(b);
	cuda_of(d)->blas = NULL;
}

void rf_cuda_gemm_stale(struct rf_dev *d)
{
	struct blas *b = blas_of(d);

	for (int i = 0; b && i < RECENT; i++)
		b->recent[i].of.p = NULL;
}

void rf_cuda_gemm_forget(struct rf_dev *d, const void *p, size_t bytes)
{
	struct blas *b = blas_of(d);

	rf_cuda_gemm_stale(d);
	if (b && d->math == RF_MATH_BF16 && !cuda_of(d)->dead)
		forget_all(b, (const char *)p, bytes);
}

/* ---- rounding --------------------------------------------------------------------------------------------------- */

static __global__ void round_rows(const float *from, bf16 *to, int rows, int cols, int ld, size_t apart)
{
	const size_t n = (size_t)rows * cols, first = blockIdx.y * n;

	from += blockIdx.y * apart;
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
		to[first + i] = __float2bfloat16(from[i / cols * ld + i % cols]);
}

static size_t numbers(const struct stored *s) { return (size_t)s->rows * s->cols * s->batch; }

static void round_now(struct rf_dev *d, const struct stored *s, bf16 *to)
{
	const size_t blocks = ((size_t)s->rows * s->cols + 1023) / 1024;
	const int most = 16 * cuda_of(d)->sms;

	RF_LAUNCH(round_rows, dim3(blocks < (size_t)most ? (unsigned)blocks : most, s->batch), 256, 0, cuda_of(d)->stream, s->p, to, s->rows, s->cols,
	          s->ld, s->apart);
	rf_cuda_launched(d, "round_rows");
}

static bool same(const struct stored *a, const struct stored *b)
{
	return a->p == b->p && a->rows == b->rows && a->cols == b->cols && a->ld == b->ld && a->batch == b->batch && (a->batch == 1 || a->apart == b->apart);
}

static void *memory(struct rf_dev *d, size_t bytes)
{
	void *p = NULL;

	if (cudaMalloc(&p, bytes) != cudaSuccess) {
		cudaGetLastError();
		rf_dev_fail(d, RF_ENOMEM, "the GPU is out of memory: wanted %zu MiB more for operands in bf16, %zu MiB are in use here"
		            " (--recompute segment, then a smaller --segment or --max-len needs less)", bytes >> 20, d->used >> 20);
		return NULL;
	}
	return p;
}

static const bf16 *weight(struct rf_dev *d, const struct stored *s)
{
	struct rounded **at = &blas_of(d)->weight[(uintptr_t)s->p / 256 % SLOTS], *w;

	for (w = *at; w; w = w->next)
		if (same(&w->of, s))
			return w->to;
	if (!(w = (struct rounded *)calloc(1, sizeof *w)) || !(w->to = (bf16 *)memory(d, numbers(s) * 2))) {
		free(w);
		return NULL;
	}
	w->of = *s;
	w->next = *at;
	*at = w;
	round_now(d, s, w->to);
	return w->to;
}

const bf16 *rf_cuda_gemm_weight(struct rf_dev *d, rf_f32 w, int rows, int cols)
{
	const struct stored s = { f32(w), rows, cols, cols, 1, 0 };

	return d->err.code == RF_OK ? weight(d, &s) : NULL;
}

/* Numbers of the largest operand that is not a weight: rows of an MLP, a block of logits, one of a batch's. */
static size_t largest(const struct rf_beside *b)
{
	enum { LOGITS = 256 };
	size_t n = (size_t)b->rows * b->widest, z = b->train ? LOGITS * (size_t)b->vocab : 0;

	n = n > z ? n : z;
	return n > b->operands ? n : b->operands;
}

size_t rf_cuda_gemm_beside(struct rf_dev *d, const struct rf_beside *b)
{
	return WORKSPACE + (d->math == RF_MATH_BF16 ? (b->matrices + RECENT * largest(b)) * 2 : 0);
}

/* Room for n numbers at a place, whose contents are lost where it grows. */
static bool make_room(struct rf_dev *d, struct blas *b, int place, size_t n)
{
	struct rounded *r = &b->recent[place];

	if (n <= b->room[place])
		return true;
	r->of.p = NULL;
	b->room[place] = 0;
	/* what is queued may still read the old one */
	if (!rf_cuda_ok(d, cudaStreamSynchronize(cuda_of(d)->stream), "a kernel before") || !rf_cuda_ok(d, cudaFree(r->to), "release"))
		return false;
	if (!(r->to = (bf16 *)memory(d, n * 2)))
		return false;
	b->room[place] = n;
	return true;
}

void rf_cuda_gemm_prepare(struct rf_dev *d, const struct rf_beside *b)
{
	for (int i = 0; i < RECENT && d->math == RF_MATH_BF16 && d->err.code == RF_OK; i++)
		make_room(d, blas_of(d), i, largest(b));
}

/* keep: a place that must stay as it is, of the product's other operand; -1: none.  Says which place it took. */
static const bf16 *operand(struct rf_dev *d, const struct stored *s, int keep, int *place)
{
	struct blas *b = blas_of(d);
	const size_t n = numbers(s);
	struct rounded *r;

	for (int i = 0; i < RECENT; i++)
		if (same(&b->recent[i].of, s)) {
			*place = i;
			return b->recent[i].to;
		}
	if (b->next == keep)
		b->next = (b->next + 1) % RECENT;
	*place = b->next;
	b->next = (b->next + 1) % RECENT;
	r = &b->recent[*place];
	r->of.p = NULL;
	if (!make_room(d, b, *place, n))
		return NULL;
	r->of = *s;
	round_now(d, s, r->to);
	return r->to;
}

/* What a product writes is no longer what was rounded of it. */
static void written(struct rf_dev *d, const struct rf_gemm *g)
{
	const float *p = f32(g->c), *end = p + (size_t)(g->batch ? g->batch - 1 : 0) * g->sc + (size_t)(g->m - 1) * g->ldc + g->n;

	for (int i = 0; i < RECENT; i++) {
		struct stored *s = &blas_of(d)->recent[i].of;

		if (s->p && s->p < end && s->p + (size_t)(s->batch - 1) * s->apart + (size_t)s->rows * s->ld > p)
			s->p = NULL;
	}
}

/* ---- products --------------------------------------------------------------------------------------------------- */

/* cuBLAS counts by columns, so it sees all matrices turned: C' = B' A'. */
static void product(struct rf_dev *d, const struct rf_gemm *g, cudaDataType type, const void *a, int lda, size_t sa, const void *b, int ldb, size_t sb,
                    float *c, bool add)
{
	const float one = 1, beta = add;
	const cublasOperation_t ta = g->ta ? CUBLAS_OP_T : CUBLAS_OP_N, tb = g->tb ? CUBLAS_OP_T : CUBLAS_OP_N;

	done(d, cublasGemmStridedBatchedEx(blas_of(d)->handle, tb, ta, g->n, g->m, g->k, &one, b, type, ldb, (long long)sb, a, type, lda,
	                                   (long long)sa, &beta, c, CUDA_R_32F, g->ldc, (long long)g->sc, g->batch ? g->batch : 1,
	                                   CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT), "a product");
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
	bool add = g->add;
	int place = -1;

	if (d->err.code != RF_OK || !g->m || !g->n || !batch)
		return;
	written(d, g);
	if (!g->k && !add) {
		RF_LAUNCH(zero_rows, dim3(g->m, batch), 256, 0, cuda_of(d)->stream, f32(g->c), g->n, g->ldc, g->sc);
		rf_cuda_launched(d, "zero_rows");
	}
	if (g->bias) {
		RF_LAUNCH(bias_rows, g->m, 256, 0, cuda_of(d)->stream, f32(g->bias), f32(g->c), g->n, g->ldc, add);
		rf_cuda_launched(d, "bias_rows");
		add = true;
	}
	if (!g->k || d->err.code != RF_OK)
		return;
	if (!rounds) {
		product(d, g, CUDA_R_32F, a.p, a.ld, a.apart, b.p, b.ld, b.apart, f32(g->c), add);
		return;
	}
	const bf16 *x = operand(d, &a, -1, &place), *y = x ? g->weight ? weight(d, &b) : operand(d, &b, place, &place) : NULL;

	if (y)
		product(d, g, CUDA_R_16BF, x, a.cols, (size_t)a.rows * a.cols, y, b.cols, (size_t)b.rows * b.cols, f32(g->c), add);
}
