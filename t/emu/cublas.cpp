/* cublas.cpp -- the calls of cuBLAS that the plugin and t/helper/cublas.cpp make, by their definition, with
 * the checks of their arguments. */
#include <cstring>
#include <vector>
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_bf16.h>

#include "emu_rt.h"

namespace {

/* One operand of a batch: rows that a sum runs along. */
struct operand { const void *p; cudaDataType type; bool transposed; int rows, cols, ld; long long apart; };

size_t size_of(cudaDataType t) { return t == CUDA_R_32F ? 4 : 2; }

/* Whether all of it is memory of the device. */
bool there(const void *p, cudaDataType type, long long stored_rows, long long stored_cols, int ld,
           long long apart, int batch)
{
	const long long n = (batch - 1) * apart + (stored_rows - 1) * ld + stored_cols;

	if (emu::in_allocation(p, (size_t)n * size_of(type)))
		return true;
	emu::illegal("a product's matrix at %p passes the memory of the device", p);
	return false;
}

/* Its i-th matrix in float32, row after row. */
void fetch(std::vector<float> &to, const struct operand &o, long long i)
{
	to.resize((size_t)o.rows * (size_t)o.cols);
	for (long long r = 0; r < o.rows; r++)
		for (long long c = 0; c < o.cols; c++) {
			const long long at = i * o.apart + (o.transposed ? c + r * o.ld : r + c * o.ld);

			to[(size_t)(r * o.cols + c)] = o.type == CUDA_R_32F ? ((const float *)o.p)[at] :
				__bfloat162float(((const __nv_bfloat16 *)o.p)[at]);
		}
}

int most(int a, int b) { return a > b ? a : b; }

struct result { void *p; cudaDataType type; int ld; long long apart; };

cublasStatus_t multiply(const struct operand &a, const struct operand &b, float by, float keep,
                        const struct result &c, int batch)
{
	const int m = a.rows, n = b.rows, k = a.cols;
	std::vector<float> x, y;

	if ((a.type != CUDA_R_32F && a.type != CUDA_R_16BF) || a.type != b.type ||
	    (c.type != CUDA_R_32F && (c.type != CUDA_R_16BF || a.type != CUDA_R_16BF)))
		return CUBLAS_STATUS_NOT_SUPPORTED;
	if (m < 0 || n < 0 || k < 0 || batch < 0 || a.ld < most(1, a.transposed ? k : m) ||
	    b.ld < most(1, b.transposed ? k : n) || c.ld < most(1, m))
		return CUBLAS_STATUS_INVALID_VALUE;
	if (!m || !n || !batch || emu::only_noted())
		return CUBLAS_STATUS_SUCCESS;
	if (emu::reckon_product) {
		emu::reckon_product(m, n, k, batch, size_of(a.type), keep != 0);
		return CUBLAS_STATUS_SUCCESS;
	}
	if (emu::fault(false) ||
	    (k && !there(a.p, a.type, a.transposed ? m : k, a.transposed ? k : m, a.ld, a.apart, batch)) ||
	    (k && !there(b.p, b.type, b.transposed ? n : k, b.transposed ? k : n, b.ld, b.apart, batch)) ||
	    !there(c.p, c.type, n, m, c.ld, c.apart, batch))
		return CUBLAS_STATUS_EXECUTION_FAILED;
	emu::settle();
	for (long long i = 0; i < batch; i++) {
		fetch(x, a, i);
		fetch(y, b, i);
		for (long long r = 0; r < m; r++)
			for (long long j = 0; j < n; j++) {
				const long long at = i * c.apart + r + j * c.ld;
				float sum = 0;

				for (long long l = 0; l < k; l++)
					sum += x[(size_t)(r * k + l)] * y[(size_t)(j * k + l)];
				/* where beta is 0 C is not read: it may hold NaN */
				if (c.type == CUDA_R_32F) {
					float *to = (float *)c.p + at;

					*to = by * sum + (keep != 0 ? keep * *to : 0);
				} else {
					__nv_bfloat16 *to = (__nv_bfloat16 *)c.p + at;
					const float was = keep != 0 ? __bfloat162float(*to) : 0;

					*to = __float2bfloat16(by * sum + keep * was);
				}
			}
	}
	return CUBLAS_STATUS_SUCCESS;
}

}

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t *h)
{
	*h = (cublasHandle_t)h;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasSetStream_v2(cublasHandle_t, cudaStream_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void *, size_t) { return CUBLAS_STATUS_SUCCESS; }

const char *cublasGetStatusString(cublasStatus_t s)
{
	return s == CUBLAS_STATUS_INVALID_VALUE      ? "invalid value"
	       : s == CUBLAS_STATUS_EXECUTION_FAILED ? cudaGetErrorString(emu::fault(false))
	                                             : "an error";
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m,
                                          int n, int k, const void *alpha, const void *A, cudaDataType at,
                                          int lda, long long sa, const void *B, cudaDataType bt, int ldb,
                                          long long sb, const void *beta, void *C, cudaDataType ct, int ldc,
                                          long long sc, int batch, cublasComputeType_t, cublasGemmAlgo_t)
{
	const struct operand a = { A, at, ta == CUBLAS_OP_T, m, k, lda, sa }, b = { B, bt, tb != CUBLAS_OP_T,
	                                                                            n, k, ldb, sb };

	return h ? multiply(a, b, *(const float *)alpha, *(const float *)beta, { C, ct, ldc, sc }, batch)
	         : CUBLAS_STATUS_NOT_INITIALIZED;
}

cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n,
                            int k, const void *alpha, const void *A, cudaDataType at, int lda, const void *B,
                            cudaDataType bt, int ldb, const void *beta, void *C, cudaDataType ct, int ldc,
                            cublasComputeType_t type, cublasGemmAlgo_t algo)
{
	return cublasGemmStridedBatchedEx(h, ta, tb, m, n, k, alpha, A, at, lda, 0, B, bt, ldb, 0, beta, C,
	                                  ct, ldc, 0, 1, type, algo);
}

/* ---- cublasLt ------------------------------------------------------------------------------ */

struct lt_product { cublasOperation_t a, b; };
struct lt_matrix { cudaDataType type; int rows, cols, ld; };

static const lt_matrix &matrix(cublasLtMatrixLayout_t l) { return *(const lt_matrix *)(const void *)l; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t *h)
{
	*h = (cublasLtHandle_t)h;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *p, cublasComputeType_t, cudaDataType)
{
	*p = (cublasLtMatmulDesc_t)(void *)new lt_product{ CUBLAS_OP_N, CUBLAS_OP_N };
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t p, cublasLtMatmulDescAttributes_t what,
                                              const void *value, size_t size)
{
	struct lt_product *l = (struct lt_product *)(void *)p;

	if (size != sizeof l->a ||
	    (what != CUBLASLT_MATMUL_DESC_TRANSA && what != CUBLASLT_MATMUL_DESC_TRANSB))
		return CUBLAS_STATUS_INVALID_VALUE;
	memcpy(what == CUBLASLT_MATMUL_DESC_TRANSA ? &l->a : &l->b, value, size);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t p)
{
	delete (struct lt_product *)(void *)p;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *l, cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t ld)
{
	*l = (cublasLtMatrixLayout_t)(void *)new lt_matrix{ type, (int)rows, (int)cols, (int)ld };
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
	delete (struct lt_matrix *)(void *)l;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *p)
{
	*p = (cublasLtMatmulPreference_t)p;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t, const void *,
                                                    size_t)
{
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t) { return CUBLAS_STATUS_SUCCESS; }

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int asked,
                                              cublasLtMatmulHeuristicResult_t results[], int *found)
{
	*found = asked < 2 ? asked : 2;
	for (int i = 0; i < *found; i++)
		results[i] = {};
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t p, const void *alpha, const void *A,
                              cublasLtMatrixLayout_t la, const void *B, cublasLtMatrixLayout_t lb,
                              const void *beta, const void *C, cublasLtMatrixLayout_t lc, void *D,
                              cublasLtMatrixLayout_t ld, const cublasLtMatmulAlgo_t *, void *, size_t,
                              cudaStream_t)
{
	const struct lt_product *l = (const struct lt_product *)(const void *)p;
	const bool ta = l->a == CUBLAS_OP_T, tb = l->b == CUBLAS_OP_T;
	const lt_matrix &a = matrix(la), &b = matrix(lb), &d = matrix(ld);
	const int k = ta ? a.rows : a.cols;

	if (!h || C != D || lc != ld || d.rows != (ta ? a.cols : a.rows) ||
	    d.cols != (tb ? b.rows : b.cols) || k != (tb ? b.cols : b.rows))
		return CUBLAS_STATUS_INVALID_VALUE;
	return multiply({ A, a.type, ta, d.rows, k, a.ld, 0 }, { B, b.type, !tb, d.cols, k, b.ld, 0 },
	                *(const float *)alpha, *(const float *)beta, { D, d.type, d.ld, 0 }, 1);
}

}
