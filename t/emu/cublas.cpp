/* cublas.cpp -- the calls of cuBLAS that the plugin makes, by their definition, with the checks of their arguments. */
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cstring>

namespace {
bool known(cudaDataType t) { return t == CUDA_R_32F || t == CUDA_R_16BF; }

float get(const void *p, cudaDataType t, long long i)
{
	return t == CUDA_R_32F ? ((const float *)p)[i] : __bfloat162float(((const __nv_bfloat16 *)p)[i]);
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
const char *cublasGetStatusString(cublasStatus_t s) { return s == CUBLAS_STATUS_INVALID_VALUE ? "invalid value" : "an error"; }

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const void *alpha,
                                          const void *A, cudaDataType at, int lda, long long sa, const void *B, cudaDataType bt, int ldb,
                                          long long sb, const void *beta, void *C, cudaDataType ct, int ldc, long long sc, int batch,
                                          cublasComputeType_t, cublasGemmAlgo_t)
{
	const float x = *(const float *)alpha, y = *(const float *)beta;
	const bool turned_a = ta == CUBLAS_OP_T, turned_b = tb == CUBLAS_OP_T;

	if (!h)
		return CUBLAS_STATUS_NOT_INITIALIZED;
	if (!known(at) || at != bt || ct != CUDA_R_32F)
		return CUBLAS_STATUS_NOT_SUPPORTED;
	if (m < 0 || n < 0 || k < 0 || batch < 0 || lda < most(1, turned_a ? k : m) || ldb < most(1, turned_b ? n : k) || ldc < most(1, m))
		return CUBLAS_STATUS_INVALID_VALUE;
	float *a = new float[(size_t)k + 1];
	for (long long i = 0; i < batch; i++)
		for (long long r = 0; r < m; r++) {
			for (long long l = 0; l < k; l++)
				a[l] = get(A, at, i * sa + (turned_a ? l + r * lda : r + l * lda));
			for (long long j = 0; j < n; j++) {
				float sum = 0, *c = (float *)C + i * sc + r + j * ldc;

				for (long long l = 0; l < k; l++)
					sum += a[l] * get(B, bt, i * sb + (turned_b ? j + l * ldb : l + j * ldb));
				*c = x * sum + (y != 0 ? y * *c : 0); /* with beta 0 C is not read: it may hold NaN */
			}
		}
	delete[] a;
	return CUBLAS_STATUS_SUCCESS;
}
}
