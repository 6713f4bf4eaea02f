/* cuda.h -- what the CUDA kernels share: how one is launched, its scratch memory, sums over a block.
 *
 * Each kernels/NAME.cu is compiled twice: by nvcc for the plugin rf-cuda.so, and for tests by a C++ compiler
 * with an emulator that runs blocks one after the other and their threads as fibres.  What differs between
 * the two is in <gpu/launch.h> and <gpu/ptx.h> alone, of which the emulator has its own.  So a kernel keeps
 * to what both know: LAUNCH and SHARED instead of <<<>>> and extern __shared__, PTX as the functions of
 * ptx.h, no globals, no waiting of one block for another, no reliance on the order in which a matrix fragment
 * holds its elements.
 *
 * All runs on one stream, in the order of the calls.  Sums are taken in a fixed order, without atomics on
 * floats, so equal inputs give equal bits from run to run.  After a failure nothing is launched any more. */
#ifndef RF_CUDA_H
#define RF_CUDA_H

#include <cstdint>
#include <cstring>

#include <gpu/launch.h>

extern "C" {
#include "device/dev.h"
}

typedef __nv_bfloat16 bf16;

struct rf_cuda {
	cudaStream_t stream;
	struct rf_cuda_block *blocks; /* what is allocated */
	void *blas;                  /* gemm.cu: cuBLAS and what is kept of operands */
	void *scratch;
	size_t scratch_size;
	void *staging;               /* pinned, for uploads and downloads */
	int sms;                     /* multiprocessors */
	size_t most_shared;          /* bytes of shared memory that a block may have */
	bool eager;                  /* RF_SYNC=1: wait after each launch, so that a fault names its kernel */
	bool dead;                   /* a fault after which the driver answers nothing: no more calls */
};

static inline struct rf_cuda *cuda_of(struct rf_dev *d) { return (struct rf_cuda *)d->impl; }

/* The addresses behind handles. */
static inline float *f32(rf_f32 p) { return (float *)p; }
static inline double *f64(rf_f64 p) { return (double *)p; }
static inline int32_t *i32(rf_i32 p) { return (int32_t *)p; }

/* Device memory, which d->used counts; NULL: there is not so much, and the device says so.  what: of what,
 * for that; begins with a space or is empty.  Given back: whether the device still works. */
void *rf_cuda_take(struct rf_dev *d, size_t bytes, const char *what);
bool rf_cuda_give(struct rf_dev *d, void *p);

/* At least `bytes` of device memory, 256-byte aligned, for the operation that asks, once; the next operation
 * may get the same.  NULL: no memory, and the device says so. */
void *rf_cuda_scratch(struct rf_dev *d, size_t bytes);
/* n numbers of it, from byte *at on, which goes behind them; scratch NULL: they are counted. */
template <class X> static X *rf_cuda_piece(void *scratch, size_t *at, size_t n)
{
	const size_t from = *at;

	*at += (n * sizeof(X) + 255) / 256 * 256;
	return scratch ? (X *)(void *)((char *)scratch + from) : NULL;
}

/* What the delta rule takes of it for so many rows of each of nb sequences: delta.cu, delta_back.cu. */
size_t rf_cuda_delta_scratch(const struct rf_dev *d, const struct rf_workspace *b, int nb, int steps);
size_t rf_cuda_delta_back_scratch(const struct rf_dev *d, const struct rf_workspace *b, int nb, int steps);

/* gemm.cu: what was rounded of operands for the products before is forgotten, where another kernel may have
 * written there. */
void rf_cuda_gemm_stale(struct rf_dev *d);
/* The same for weights between p and p + bytes, too, which change; or are there no more. */
void rf_cuda_gemm_changed(struct rf_dev *d, const void *p, size_t bytes);
void rf_cuda_gemm_forget(struct rf_dev *d, const void *p, size_t bytes);
enum rf_code rf_cuda_gemm_open(struct rf_dev *d, struct rf_err *e);
void rf_cuda_gemm_close(struct rf_dev *d);
/* What of struct rf_workspace products take; and takes at once the room for operands and weights that
 * are rounded. */
size_t rf_cuda_gemm_workspace(struct rf_dev *d, const struct rf_workspace *b);
void rf_cuda_gemm_prepare(struct rf_dev *d, const struct rf_workspace *b);
/* One product, or a batch, of rf_gemm's shape whose operands are bf16 in memory of the device (strides and
 * leading dimensions in elements); c is float32. */
void rf_cuda_gemm_bf16(struct rf_dev *d, const struct rf_gemm *shape, const bf16 *a, const bf16 *b, float *c);

/* The form in bf16 of a weight (rows, cols), which products of rf_gemm take too; kept until it changes.
 * NULL: no memory, and the device says so. */
const bf16 *rf_cuda_gemm_weight(struct rf_dev *d, rf_f32 w, int rows, int cols);

/* The device memory that operations take beside what is allocated: device_cuda.cu. */
size_t rf_cuda_workspace(struct rf_dev *d, const struct rf_workspace *b);

/* Whether the device still works; looks at what the last call left, names `what` in the failure. */
bool rf_cuda_ok(struct rf_dev *d, cudaError_t code, const char *what);
/* Whether a block may have so many bytes of shared memory; if not, the device says which kernel
 * wanted them. */
bool rf_cuda_has_shared(struct rf_dev *d, size_t bytes, const char *kernel);
/* Whether kernels are made for heads of this width: they hold rows of one in registers and shared memory.  If
 * not, the device says so. */
enum { WIDEST_HEAD = 256 };
bool rf_cuda_has_width(struct rf_dev *d, int width, const char *what);
/* After a launch. */
void rf_cuda_launched(struct rf_dev *d, const char *kernel);

/* Every operation has a function of this name. */
#define X(op) extern "C" void rf_cuda_##op(struct rf_dev *d, const struct rf_##op *a);
RF_OPS(X)
#undef X

/* LAUNCH(d, kernel, grid, block, bytes of dynamic shared memory, arguments...) */
#define LAUNCH(d, kernel, grid, block, bytes, ...) \
	do { \
		if ((d)->err.code != RF_OK) \
			break; \
		if ((bytes) > (48 << 10) && \
		    (!rf_cuda_has_shared((d), (bytes), #kernel) || \
		     !rf_cuda_ok((d), RF_ALLOW(kernel, bytes), #kernel))) \
			break; \
		rf_cuda_gemm_stale(d); \
		RF_LAUNCH(kernel, grid, block, bytes, cuda_of(d)->stream, ##__VA_ARGS__); \
		rf_cuda_launched((d), #kernel); \
	} while (0)

/* What n numbers take of SHARED, in bytes. */
static inline constexpr size_t shared_size(size_t n, size_t size) { return (n * size + 127) / 128 * 128; }

/* ---- in kernels ---------------------------------------------------------------------------- */

/* Two bf16 in a word, the first one low. */
static __device__ __forceinline__ uint32_t two_bf16(float first, float second)
{
	const __nv_bfloat162 both = __floats2bfloat162_rn(first, second);
	uint32_t x;

	memcpy(&x, &both, sizeof x);
	return x;
}

static __device__ __forceinline__ float warp_sum(float x)
{
	for (int o = 16; o; o >>= 1)
		x += __shfl_xor_sync(~0u, x, o);
	return x;
}

static __device__ __forceinline__ double warp_sum(double x)
{
	for (int o = 16; o; o >>= 1)
		x += __shfl_xor_sync(~0u, x, o);
	return x;
}

/* The sum over all threads of a block, whose number is a multiple of 32, in every thread.  room: 33 numbers
 * of shared memory. */
template <class T> static __device__ __forceinline__ T block_sum(T x, T *room)
{
	const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;

	x = warp_sum(x);
	if (lane == 0)
		room[warp] = x;
	__syncthreads();
	if (warp == 0) {
		x = warp_sum(lane < warps ? room[lane] : T(0));
		if (lane == 0)
			room[32] = x;
	}
	__syncthreads();
	x = room[32];
	__syncthreads(); /* room may be used again */
	return x;
}

#endif
