/* cublas -- times the products of a layer, with operands in bf16, with each function of cuBLAS.  It shows
 * which function gemm.cu should call, and how much time results in bf16 would save.  It needs no plugin.  The
 * shapes are those of `bench - products`, which times the products of the plugin.
 *
 *     cublas D F ROWS...    width D, MLP F, for each number of rows: microseconds of
 *                           strided   cublasGemmStridedBatchedEx, a batch of one; gemm.cu calls this function
 *                           ex        cublasGemmEx
 *                           lt        cublasLtMatmul, the best of eight that its heuristic names; inf if none
 *                                     of them works
 *                           ex bf16, lt bf16   the same with results in bf16
 *                           and the best time of ex and lt divided by that of strided, for results in float32
 *                           and for results in bf16; at the end the same ratios of all products together
 *
 * All functions get the same operands, and their results are compared before they are timed.  A function that
 * fails or gives another result counts as infinitely slow, and a line reports it. */
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace
{

enum { WORKSPACE = 32 << 20, BEST_OF = 8, TIMES = 10, ROUNDS = 4, SAMPLE = 256 };

void check(bool well, const char *what, const char *why)
{
	if (well)
		return;
	fprintf(stderr, "cublas: %s: %s\n", what, why);
	exit(1);
}
void check(cudaError_t e, const char *what) { check(e == cudaSuccess, what, cudaGetErrorString(e)); }
void check(cublasStatus_t s, const char *what)
{
	check(s == CUBLAS_STATUS_SUCCESS, what, cublasGetStatusString(s));
}

/* C (m, n) = A (m, k) B (k, n), + C if it is added; ta, tb: A is stored (k, m), B (n, k). */
struct product {
	const char *name;
	int m, n, k;
	bool ta, tb, add;
};

cublasHandle_t handle;
cublasLtHandle_t lt;
cudaStream_t stream;
void *workspace;
const __nv_bfloat16 *a, *b;
void *c;
const float one = 1, zero = 0;

void copy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
	check(cudaMemcpyAsync(to, from, bytes, kind, stream), "cudaMemcpyAsync");
	check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

/* Return the distances between rows.  cuBLAS reads matrices column by column, so all matrices are transposed
 * for cuBLAS: C' = B' A'. */
int lda(const product &p) { return p.ta ? p.m : p.k; }
int ldb(const product &p) { return p.tb ? p.k : p.n; }
cublasOperation_t op(bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; }
const float *beta(const product &p) { return p.add ? &one : &zero; }

void strided(const product &p, cudaDataType type)
{
	check(cublasGemmStridedBatchedEx(handle, op(p.tb), op(p.ta), p.n, p.m, p.k, &one, b, CUDA_R_16BF,
	                                 ldb(p), 0, a, CUDA_R_16BF, lda(p), 0, beta(p), c, type, p.n, 0, 1,
	                                 CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
	      "cublasGemmStridedBatchedEx");
}

cublasStatus_t ex(const product &p, cudaDataType type)
{
	return cublasGemmEx(handle, op(p.tb), op(p.ta), p.n, p.m, p.k, &one, b, CUDA_R_16BF, ldb(p), a,
	                    CUDA_R_16BF, lda(p), beta(p), c, type, p.n, CUBLAS_COMPUTE_32F,
	                    CUBLAS_GEMM_DEFAULT);
}

/* The description of a product for cublasLtMatmul, and the algorithms that its heuristic names. */
struct plan {
	cublasLtMatmulDesc_t how;
	cublasLtMatrixLayout_t a, b, c;
	cublasLtMatmulHeuristicResult_t best[BEST_OF];
	int found;
};

cublasLtMatrixLayout_t layout(cudaDataType type, int rows, int cols)
{
	cublasLtMatrixLayout_t l;

	check(cublasLtMatrixLayoutCreate(&l, type, (uint64_t)rows, (uint64_t)cols, rows),
	      "cublasLtMatrixLayoutCreate");
	return l;
}

plan plan_of(const product &p, cudaDataType type)
{
	const cublasOperation_t first = op(p.tb), second = op(p.ta);
	const size_t room = WORKSPACE;
	cublasLtMatmulPreference_t most;
	plan l = {};

	check(cublasLtMatmulDescCreate(&l.how, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
	check(cublasLtMatmulDescSetAttribute(l.how, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first),
	      "cublasLtMatmulDescSetAttribute");
	check(cublasLtMatmulDescSetAttribute(l.how, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second),
	      "cublasLtMatmulDescSetAttribute");
	l.b = layout(CUDA_R_16BF, ldb(p), p.tb ? p.n : p.k);
	l.a = layout(CUDA_R_16BF, lda(p), p.ta ? p.k : p.m);
	l.c = layout(type, p.n, p.m);
	check(cublasLtMatmulPreferenceCreate(&most), "cublasLtMatmulPreferenceCreate");
	check(cublasLtMatmulPreferenceSetAttribute(most, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room,
	                                           sizeof room),
	      "cublasLtMatmulPreferenceSetAttribute");
	if (cublasLtMatmulAlgoGetHeuristic(lt, l.how, l.b, l.a, l.c, l.c, most, BEST_OF, l.best, &l.found) !=
	    CUBLAS_STATUS_SUCCESS)
		l.found = 0;
	cublasLtMatmulPreferenceDestroy(most);
	return l;
}

void done_with(plan &l)
{
	cublasLtMatrixLayoutDestroy(l.a);
	cublasLtMatrixLayoutDestroy(l.b);
	cublasLtMatrixLayoutDestroy(l.c);
	cublasLtMatmulDescDestroy(l.how);
}

cublasStatus_t by_lt(const product &p, const plan &l, int i)
{
	return cublasLtMatmul(lt, l.how, &one, b, l.b, a, l.a, beta(p), c, l.c, c, l.c, &l.best[i].algo,
	                      workspace, WORKSPACE, stream);
}

/* Returns the first numbers of C after one call, with C 0 before it. */
template <class F> std::vector<float> sample(const product &p, cudaDataType type, const F &f)
{
	const size_t most = SAMPLE, n = (size_t)p.m * p.n < most ? (size_t)p.m * p.n : most;
	std::vector<float> x(n);
	std::vector<__nv_bfloat16> half(n);

	check(cudaMemsetAsync(c, 0, (size_t)p.m * p.n * 4, stream), "cudaMemsetAsync");
	f();
	copy(type == CUDA_R_32F ? (void *)x.data() : half.data(), c, n * (type == CUDA_R_32F ? 4 : 2),
	     cudaMemcpyDeviceToHost);
	for (size_t i = 0; i < n && type != CUDA_R_32F; i++)
		x[i] = __bfloat162float(half[i]);
	return x;
}

/* Checks that x and y differ only by rounding. */
bool agree(const std::vector<float> &x, const std::vector<float> &y)
{
	float most = 0, off = 0;

	for (size_t i = 0; i < x.size(); i++) {
		most = std::fmax(most, std::fabs(x[i]));
		off = std::fmax(off, std::isnan(y[i]) ? INFINITY : std::fabs(x[i] - y[i]));
	}
	return most > 0 && off <= most / 100;
}

/* Returns the microseconds of a call, the minimum over some rounds. */
template <class F> double timed(const F &f)
{
	cudaEvent_t from, to;
	double best = 0;

	check(cudaEventCreate(&from), "cudaEventCreate");
	check(cudaEventCreate(&to), "cudaEventCreate");
	for (int i = 0; i <= ROUNDS; i++) { /* the first warms up */
		float ms = 0;

		check(cudaEventRecord(from, stream), "cudaEventRecord");
		for (int k = 0; k < TIMES; k++)
			f();
		check(cudaEventRecord(to, stream), "cudaEventRecord");
		check(cudaEventSynchronize(to), "cudaEventSynchronize");
		check(cudaEventElapsedTime(&ms, from, to), "cudaEventElapsedTime");
		if (i == 1 || (i && 1e3 * ms / TIMES < best))
			best = 1e3 * ms / TIMES;
	}
	cudaEventDestroy(from);
	cudaEventDestroy(to);
	return best;
}

/* Returns the microseconds of one function for a product whose result is `right`.  If the function fails or
 * gives another result, prints the reason and returns infinity. */
template <class F>
double time_of(const product &p, cudaDataType type, const std::vector<float> &right, const char *way,
               const F &f)
{
	cublasStatus_t s = CUBLAS_STATUS_SUCCESS;
	const std::vector<float> y = sample(p, type, [&] { s = f(); });
	const char *why = s != CUBLAS_STATUS_SUCCESS ? cublasGetStatusString(s)
	                  : !agree(right, y)         ? "another result than cublasGemmStridedBatchedEx"
	                                             : nullptr;

	if (!why)
		return timed(f);
	printf("# %s, %d rows, %s: %s: %s\n", p.name, p.m, type == CUDA_R_32F ? "float32" : "bf16", way, why);
	return INFINITY;
}

/* Microseconds of all products with strided, and with the best of ex and lt for results in float32 and in
 * bf16. */
double spent[3];

void show(const product &p)
{
	double us[2][3] = {}, best[2];
	std::vector<float> right;

	for (int half = 0; half < 2; half++) {
		const cudaDataType type = half ? CUDA_R_16BF : CUDA_R_32F;
		const auto in_ex = [&] { return ex(p, type); };
		plan l = plan_of(p, type);

		if (!half) {
			const auto as_now = [&] { strided(p, type); };

			right = sample(p, type, as_now);
			us[half][0] = timed(as_now);
		}
		us[half][1] = time_of(p, type, right, "cublasGemmEx", in_ex);
		us[half][2] = INFINITY;
		for (int i = 0; i < l.found; i++)
			if (l.best[i].state == CUBLAS_STATUS_SUCCESS)
				us[half][2] = std::fmin(us[half][2], time_of(p, type, right, "cublasLtMatmul",
				                                             [&] { return by_lt(p, l, i); }));
		best[half] = std::fmin(us[half][1], us[half][2]);
		done_with(l);
		spent[1 + half] += best[half];
	}
	spent[0] += us[0][0];
	printf("%-18s %6d x %6d x %6d %8.1f %8.1f %8.1f   %8.1f %8.1f   %5.3f %5.3f\n", p.name, p.m, p.n, p.k,
	       us[0][0], us[0][1], us[0][2], us[1][1], us[1][2], best[0] / us[0][0], best[1] / us[0][0]);
}

const __nv_bfloat16 *operands(size_t n, unsigned seed)
{
	std::vector<__nv_bfloat16> piece(n < (1 << 20) ? n : 1 << 20);
	__nv_bfloat16 *p;

	for (__nv_bfloat16 &x : piece) {
		seed = seed * 1664525u + 1013904223u;
		x = __float2bfloat16((float)(seed >> 8) / (1 << 23) - 1);
	}
	check(cudaMalloc((void **)&p, n * sizeof *p), "cudaMalloc");
	for (size_t at = 0, k; at < n; at += k) {
		k = n - at < piece.size() ? n - at : piece.size();
		copy(p + at, piece.data(), k * sizeof *p, cudaMemcpyHostToDevice);
	}
	return p;
}

} // namespace

int main(int argc, char *argv[])
{
	if (argc < 4) {
		fputs("usage: cublas D F ROWS...\n", stderr);
		return 64;
	}
	const int d = atoi(argv[1]), f = atoi(argv[2]);
	int last = 0;

	for (int i = 3; i < argc; i++)
		last = atoi(argv[i]) > last ? atoi(argv[i]) : last;
	const size_t widest = (size_t)(3 * d > 2 * f ? 3 * d : 2 * f),
		     most = (size_t)(last > d ? last : d) * widest;

	check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
	check(cublasCreate(&handle), "cublasCreate");
	check(cublasSetStream(handle, stream), "cublasSetStream");
	check(cublasLtCreate(&lt), "cublasLtCreate");
	check(cudaMalloc(&workspace, WORKSPACE), "cudaMalloc");
	check(cublasSetWorkspace(handle, workspace, WORKSPACE), "cublasSetWorkspace");
	a = operands(most, 1);
	b = operands(most, 2);
	check(cudaMalloc(&c, most * 4), "cudaMalloc");
	printf("%-18s %24s %8s %8s %8s   %8s %8s   %s\n", "us", "", "strided", "ex", "lt", "ex bf16",
	       "lt bf16", "best of strided: float32, bf16");
	for (int i = 3; i < argc; i++) {
		const int R = atoi(argv[i]);
		const product of[] = {
			{ "q", R, d, d, false, true, false },
			{ "q, k, v", R, 3 * d, d, false, true, false },
			{ "o, added", R, d, d, false, true, true },
			{ "gate, up", R, 2 * f, d, false, true, false },
			{ "down, added", R, d, f, false, true, true },
			{ "down back", R, f, d, false, false, false },
			{ "gate, up back", R, d, 2 * f, false, false, false },
			{ "q, k, v back", R, d, 3 * d, false, false, false },
			{ "gradient of q", d, d, R, true, false, true },
			{ "gradient of gate", f, d, R, true, false, true },
			{ "gradient of down", d, f, R, true, false, true },
		};

		for (const product &p : of)
			show(p);
		fflush(stdout);
	}
	printf("best in float32    %5.3f of strided\n", spent[1] / spent[0]);
	printf("best in bf16       %5.3f of strided\n", spent[2] / spent[0]);
	return 0;
}
