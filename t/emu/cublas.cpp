/* cublas.cpp -- the calls of cuBLAS that the plugin makes, by their definition, with the checks of their
 * arguments. */
#include <cstring>
#include <vector>
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
	const float by = *(const float *)alpha, keep = *(const float *)beta;
	const struct operand a = { A, at, ta == CUBLAS_OP_T, m, k, lda, sa }, b = { B, bt, tb != CUBLAS_OP_T,
	                                                                            n, k, ldb, sb };
	std::vector<float> x, y;

	if (!h)
		return CUBLAS_STATUS_NOT_INITIALIZED;
	if ((at != CUDA_R_32F && at != CUDA_R_16BF) || at != bt || ct != CUDA_R_32F)
		return CUBLAS_STATUS_NOT_SUPPORTED;
	if (m < 0 || n < 0 || k < 0 || batch < 0 || lda < most(1, a.transposed ? k : m) ||
	    ldb < most(1, b.transposed ? k : n) || ldc < most(1, m))
		return CUBLAS_STATUS_INVALID_VALUE;
	if (!m || !n || !batch || emu::only_noted())
		return CUBLAS_STATUS_SUCCESS;
	if (emu::reckon_product) {
		emu::reckon_product(m, n, k, batch, size_of(at), keep != 0);
		return CUBLAS_STATUS_SUCCESS;
	}
	if (emu::fault(false) ||
	    (k && !there(A, at, a.transposed ? m : k, a.transposed ? k : m, lda, sa, batch)) ||
	    (k && !there(B, bt, b.transposed ? n : k, b.transposed ? k : n, ldb, sb, batch)) ||
	    !there(C, ct, n, m, ldc, sc, batch))
		return CUBLAS_STATUS_EXECUTION_FAILED;
	emu::settle();
	for (long long i = 0; i < batch; i++) {
		fetch(x, a, i);
		fetch(y, b, i);
		for (long long r = 0; r < m; r++)
			for (long long j = 0; j < n; j++) {
				float sum = 0, *c = (float *)C + i * sc + r + j * ldc;

				for (long long l = 0; l < k; l++)
					sum += x[(size_t)(r * k + l)] * y[(size_t)(j * k + l)];
				/* where beta is 0 C is not read: it may hold NaN */
				*c = by * sum + (keep != 0 ? keep * *c : 0);
			}
	}
	return CUBLAS_STATUS_SUCCESS;
}

}
