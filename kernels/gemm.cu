/* gemm.cu -- matrix products with cuBLAS.  In bf16 it multiplies rounded copies of the operands
 * (rounded.cu). */
#include <cstdio>
#include <cstdlib>

#include "cuda/rounded.h"
#include "cuda/sweep.h"

#include <cublas_v2.h>

enum { WORKSPACE = 32 << 20 };
struct blas {
	cublasHandle_t handle;
	void *workspace;
};

static struct blas *blas_of(struct rf_dev *d) { return (struct blas *)cuda_of(d)->blas; }

/* Checks the status that cuBLAS returned.  After a fault of a kernel the driver answers no more calls, so the
 * device is dead. */
static bool succeeded(struct rf_dev *d, cublasStatus_t s, const char *what)
{
	cuda_of(d)->dead |= s == CUBLAS_STATUS_EXECUTION_FAILED;
	if (s != CUBLAS_STATUS_SUCCESS)
		rf_dev_fail(d, s == CUBLAS_STATUS_ALLOC_FAILED ? RF_ENOMEM : RF_EDEVICE,
		            "cuBLAS failed in %s: %s", what, cublasGetStatusString(s));
	return s == CUBLAS_STATUS_SUCCESS;
}

/* Opens cuBLAS.  The workspace is allocated here: with a workspace of cuBLAS, equal bits from run to run are
 * not guaranteed. */
enum rf_code rf_cuda_gemm_open(struct rf_dev *d, struct rf_err *e)
{
	struct blas *b = (struct blas *)calloc(1, sizeof *b);
	cublasStatus_t s = CUBLAS_STATUS_ALLOC_FAILED;

	cuda_of(d)->blas = b;
	if (!b || (s = cublasCreate(&b->handle)) != CUBLAS_STATUS_SUCCESS ||
	    (s = cublasSetStream(b->handle, cuda_of(d)->stream)) != CUBLAS_STATUS_SUCCESS)
		return rf_fail(e, RF_EDEVICE, "cuBLAS cannot be opened: %s", cublasGetStatusString(s));
	if (!(b->workspace = rf_cuda_alloc(d, WORKSPACE, " for cuBLAS")) ||
	    (s = cublasSetWorkspace(b->handle, b->workspace, WORKSPACE)) != CUBLAS_STATUS_SUCCESS)
		return rf_fail(e, RF_ENOMEM, "the GPU has no memory for cuBLAS: %d MiB", WORKSPACE >> 20);
	return RF_OK;
}

void rf_cuda_gemm_close(struct rf_dev *d)
{
	struct blas *b = blas_of(d);

	rf_cuda_rounded_close(d);
	if (!b)
		return;
	if (b->handle)
		cublasDestroy(b->handle);
	rf_cuda_free(d, b->workspace);
	free(b);
	cuda_of(d)->blas = NULL;
}

size_t rf_cuda_gemm_workspace(struct rf_dev *d, const struct rf_workspace *need)
{
	return WORKSPACE + (d->math == RF_MATH_BF16 ? rf_cuda_rounded_workspace(need) : 0);
}

void rf_cuda_gemm_prepare(struct rf_dev *d, const struct rf_workspace *need)
{
	if (d->math == RF_MATH_BF16)
		rf_cuda_rounded_prepare(d, need);
}

/* Drops the rounded copies of numbers that a product overwrites. */
static void drop_copies(struct rf_dev *d, const struct rf_gemm *g)
{
	rf_cuda_rounded_wrote(d, f32(g->c),
	                      (size_t)(g->batch ? g->batch - 1 : 0) * g->sc + (size_t)(g->m - 1) * g->ldc +
	                              g->n);
}

/* ---- products ------------------------------------------------------------------------------ */

/* Begins a product's entry in a profile, named like "product, n 64, k 96, bf16, b', added".  The rows and the
 * batch are the grid. */
static void begin_profile(struct rf_dev *d, const struct rf_gemm *g, cudaDataType type, bool add)
{
	char name[60];

	snprintf(name, sizeof name, "product, n %d, k %d, %s%s%s%s", g->n, g->k,
	         type == CUDA_R_16BF ? "bf16" : "f32", g->ta ? ", a'" : "", g->tb ? ", b'" : "",
	         add ? ", added" : "");
	rf_cuda_profile_begin(d, name, dim3(g->m, g->batch ? g->batch : 1), 1,
	                      2. * g->m * g->n * g->k * (g->batch ? g->batch : 1));
}

/* Calls cuBLAS.  It reads matrices column by column, so all matrices are transposed there: C' = B' A'. */
static void product(struct rf_dev *d, const struct rf_gemm *g, cudaDataType type, const void *a, int lda,
                    size_t sa, const void *b, int ldb, size_t sb, float *c, bool add)
{
	const float one = 1, beta = add;
	const cublasOperation_t ta = g->ta ? CUBLAS_OP_T : CUBLAS_OP_N,
				tb = g->tb ? CUBLAS_OP_T : CUBLAS_OP_N;

	if (cuda_of(d)->profile)
		begin_profile(d, g, type, add);
	succeeded(d,
	          cublasGemmStridedBatchedEx(blas_of(d)->handle, tb, ta, g->n, g->m, g->k, &one, b, type, ldb,
	                                     (long long)sb, a, type, lda, (long long)sa, &beta, c, CUDA_R_32F,
	                                     g->ldc, (long long)g->sc, g->batch ? g->batch : 1,
	                                     CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
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

static __global__ void zero_rows(float *c, int n, int ldc, size_t stride)
{
	float *y = c + blockIdx.y * stride + (size_t)blockIdx.x * ldc;

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
	const bool by_weight = g->weight && b.ld == b.cols; /* a matrix with gaps is not a weight of a
	                                                       model */
	bool add = g->add;

	if (d->err.code != RF_OK || !g->m || !g->n || !batch)
		return;
	drop_copies(d, g);
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
		product(d, g, CUDA_R_32F, a.p, a.ld, a.stride, b.p, b.ld, b.stride, f32(g->c), add);
		return;
	}
	const size_t left = rf_numbers(&a), right = g->half || by_weight ? 0 : rf_numbers(&b);
	struct copy x, y = { (const bf16 *)g->b, b.cols, (size_t)b.rows * b.cols };

	if (!rf_cuda_rounded_room(d, left > right ? left : right) || !rf_cuda_rounded(d, &a, NULL, &x))
		return;
	if (by_weight && !g->half)
		y.p = rf_cuda_rounded_weight(d, g->b, b.rows, b.cols);
	else if (!g->half && !rf_cuda_rounded(d, &b, &x, &y))
		return;
	if (y.p)
		product(d, g, CUDA_R_16BF, x.p, x.ld, x.stride, y.p, y.ld, y.stride, f32(g->c), add);
}

/* Tells whether the weights in bf16 are stacked without gaps. */
static bool are_stacked(const struct rf_gemms *x)
{
	bool all = true;

	for (int i = 0; i + 1 < x->parts; i++)
		all &= (const bf16 *)x->b[i + 1] == (const bf16 *)x->b[i] + (size_t)x->n[i] * x->k;
	return all;
}

/* Computes one product for each weight, or a single product with a stack of all weights. */
void rf_cuda_gemms(struct rf_dev *d, const struct rf_gemms *x)
{
	struct side w = { x->parts, x->k, {}, {} };
	struct rf_gemm all = {};
	struct stored a;
	struct copy rows;
	const bool one = d->math == RF_MATH_BF16 && !x->stride && (!x->half || are_stacked(x));
	size_t at = 0;
	int N = 0;

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
		at += x->stride ? x->stride : (size_t)x->n[i];
	}
	if (!one || !N)
		return;
	all.m = x->m, all.n = x->back ? x->k : N, all.k = x->back ? N : x->k, all.tb = !x->back;
	all.c = x->c, all.ldc = x->ldc;
	a = { f32(x->a), x->m, all.k, x->lda, 1, 0 };
	drop_copies(d, &all);
	if (!rf_cuda_rounded_room(d, rf_numbers(&a)) || !rf_cuda_rounded(d, &a, NULL, &rows))
		return;
	const bf16 *b = x->half ? (const bf16 *)x->b[0] : rf_cuda_rounded_side(d, &w);

	if (b)
		product(d, &all, CUDA_R_16BF, rows.p, rows.ld, 0, b, x->k, 0, f32(x->c), x->back && x->add);
}
