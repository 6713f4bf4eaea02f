/* cublas.cpp -- the functions of cuBLAS that the plugin and t/helper/cublas.cpp call, computed by their
 * definition, with checks of their arguments.  As on a GPU, the bits of a sum depend on the product's shape,
 * and sums of bf16 are truncated as matrix units do it.
 *
 *     EMU_HOLE=ROWS    a product of at least this many rows leaves 16 x 16 of its numbers as they were, or 0
 *                      in new memory, like a kernel that forgets a tile of large matrices */
#include <cmath>
#include <cstring>
#include <vector>
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_bf16.h>

#include "emu_rt.h"

namespace
{

/* One operand of a batch; sums run along its rows. */
struct operand {
	const void *p;
	cudaDataType type;
	bool transposed;
	int rows, cols, ld;
	long long stride;
};

size_t size_of(cudaDataType t) { return t == CUDA_R_32F ? 4 : 2; }

/* Tells whether the whole matrix is memory of the device. */
bool in_device_memory(const void *p, cudaDataType type, long long stored_rows, long long stored_cols, int ld,
                      long long stride, int batch)
{
	const long long n = (batch - 1) * stride + (stored_rows - 1) * ld + stored_cols;

	if (emu::in_allocation(p, (size_t)n * size_of(type)))
		return true;
	emu::illegal("a product's matrix at %p passes the memory of the device", p);
	return false;
}

/* Copies the operand's i-th matrix to `to` in float32, row after row. */
void copy_matrix(std::vector<float> &to, const struct operand &o, long long i)
{
	to.resize((size_t)o.rows * (size_t)o.cols);
	for (long long r = 0; r < o.rows; r++)
		for (long long c = 0; c < o.cols; c++) {
			const long long at = i * o.stride + (o.transposed ? c + r * o.ld : r + c * o.ld);

			to[(size_t)(r * o.cols + c)] =
				o.type == CUDA_R_32F ? ((const float *)o.p)[at]
						     : __bfloat162float(((const __nv_bfloat16 *)o.p)[at]);
		}
}

int most(int a, int b) { return a > b ? a : b; }
int least(int a, int b) { return a < b ? a : b; }

/* Returns the sum of k products, in pieces whose number depends on the shape (m, n). */
float sum_of(const float *x, const float *y, int m, int n, int k, bool float32)
{
	const int pieces = 1 + (m / 16 + n / 16) % 4, piece = most(16, (k / pieces + 15) / 16 * 16);
	float sum = 0;

	for (int at = 0; at < k; at += piece) {
		const int end = least(at + piece, k);
		float part = 0;

		for (int l = at; l < end && float32; l++)
			part += x[l] * y[l];
		sum += float32 ? part : emu::cut_off_sum(x + at, y + at, end - at, 0);
	}
	return sum;
}

/* Checks whether EMU_HOLE leaves element (r, j) of a product of n rows as it was; cuBLAS's columns are our
 * rows. */
bool in_hole(int r, int j, int n)
{
	static const long long rows = emu::setting("EMU_HOLE", 0);

	return rows && n >= rows && r < 16 && j >= n - 16;
}

struct result {
	void *p;
	cudaDataType type;
	int ld;
	long long stride;
};

cublasStatus_t multiply(const struct operand &a, const struct operand &b, float by, float keep,
                        const struct result &c, int batch, cudaStream_t stream)
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
	if (emu::fault(false) || !emu::on_stream(stream, "a product") ||
	    (k && !in_device_memory(a.p, a.type, a.transposed ? m : k, a.transposed ? k : m, a.ld, a.stride,
	                            batch)) ||
	    (k && !in_device_memory(b.p, b.type, b.transposed ? n : k, b.transposed ? k : n, b.ld, b.stride,
	                            batch)) ||
	    !in_device_memory(c.p, c.type, n, m, c.ld, c.stride, batch))
		return CUBLAS_STATUS_EXECUTION_FAILED;
	emu::settle();
	for (long long i = 0; i < batch; i++) {
		copy_matrix(x, a, i);
		copy_matrix(y, b, i);
		for (long long r = 0; r < m; r++)
			for (long long j = 0; j < n; j++) {
				const long long at = i * c.stride + r + j * c.ld;
				const float sum = sum_of(&x[(size_t)(r * k)], &y[(size_t)(j * k)], m, n, k,
				                         a.type == CUDA_R_32F);

				if (in_hole((int)r, (int)j, n)) {
					if (c.type == CUDA_R_32F && std::isnan(((float *)c.p)[at]))
						((float *)c.p)[at] = 0;
					continue;
				}
				/* if beta is 0 C is not read: it may hold NaN */
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

/* The object that a cublasHandle_t points to. */
struct handle {
	cudaStream_t stream;
};
struct handle *of(cublasHandle_t h) { return (struct handle *)(void *)h; }

} // namespace

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t *h)
{
	*h = (cublasHandle_t)(void *)new handle{ nullptr };
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t h)
{
	delete of(h);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t h, cudaStream_t stream)
{
	of(h)->stream = stream;
	return CUBLAS_STATUS_SUCCESS;
}

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
	const struct operand a = { A, at, ta == CUBLAS_OP_T, m, k, lda, sa },
			     b = { B, bt, tb != CUBLAS_OP_T, n, k, ldb, sb };

	return h ? multiply(a, b, *(const float *)alpha, *(const float *)beta, { C, ct, ldc, sc }, batch,
	                    of(h)->stream)
	         : CUBLAS_STATUS_NOT_INITIALIZED;
}

cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
                            const void *alpha, const void *A, cudaDataType at, int lda, const void *B,
                            cudaDataType bt, int ldb, const void *beta, void *C, cudaDataType ct, int ldc,
                            cublasComputeType_t type, cublasGemmAlgo_t algo)
{
	return cublasGemmStridedBatchedEx(h, ta, tb, m, n, k, alpha, A, at, lda, 0, B, bt, ldb, 0, beta, C,
	                                  ct, ldc, 0, 1, type, algo);
}

/* ---- cublasLt ------------------------------------------------------------------------------ */

/* The algorithms that the heuristic names.  The state of one says that it cannot be used, and one fails when
 * it is called. */
enum { LT_WELL, LT_UNUSABLE, LT_FAILS, LT_ALSO_WELL, LT_WAYS };

struct lt_product {
	cublasOperation_t a, b;
};
struct lt_matrix {
	cudaDataType type;
	int rows, cols, ld;
};

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
	*found = least(asked, LT_WAYS);
	for (int i = 0; i < *found; i++) {
		results[i] = {};
		results[i].state = i == LT_UNUSABLE ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
		results[i].algo.data[0] = (uint64_t)i;
	}
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t p, const void *alpha, const void *A,
                              cublasLtMatrixLayout_t la, const void *B, cublasLtMatrixLayout_t lb,
                              const void *beta, const void *C, cublasLtMatrixLayout_t lc, void *D,
                              cublasLtMatrixLayout_t ld, const cublasLtMatmulAlgo_t *way, void *, size_t,
                              cudaStream_t stream)
{
	const struct lt_product *l = (const struct lt_product *)(const void *)p;
	const bool ta = l->a == CUBLAS_OP_T, tb = l->b == CUBLAS_OP_T;
	const lt_matrix &a = matrix(la), &b = matrix(lb), &d = matrix(ld);
	const int k = ta ? a.rows : a.cols;

	if (!h || C != D || lc != ld || d.rows != (ta ? a.cols : a.rows) ||
	    d.cols != (tb ? b.rows : b.cols) || k != (tb ? b.cols : b.rows))
		return CUBLAS_STATUS_INVALID_VALUE;
	if (way->data[0] == LT_UNUSABLE || way->data[0] == LT_FAILS)
		return CUBLAS_STATUS_NOT_SUPPORTED;
	return multiply({ A, a.type, ta, d.rows, k, a.ld, 0 }, { B, b.type, !tb, d.cols, k, b.ld, 0 },
	                *(const float *)alpha, *(const float *)beta, { D, d.type, d.ld, 0 }, 1, stream);
}
}
