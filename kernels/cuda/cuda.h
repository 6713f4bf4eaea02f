/* cuda.h -- declarations that the CUDA kernels share: launching, scratch memory, rounded copies, sums over a
 * block.
 *
 * Each kernels/NAME.cu is compiled twice: by nvcc for the plugin rf-cuda.so, and for tests by a C++ compiler
 * with an emulator, which runs blocks one after the other and their threads as fibres.  Only <gpu/launch.h>
 * and <gpu/ptx.h> differ between the two; the emulator has its own headers of these names.  A kernel
 * therefore uses only what both offer: LAUNCH and SHARED instead of <<<>>> and extern __shared__, PTX as the
 * functions of ptx.h, no globals, no block that waits for another, and no reliance on the order of elements
 * in a wmma fragment.
 *
 * All work runs on one stream, in the order of the calls.  Sums are taken in a fixed order, without atomic
 * additions of floats, so equal inputs give equal bits from run to run.  After a failure nothing is
 * launched. */
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
	struct rf_cuda_block *blocks;    /* list of allocations */
	struct rf_cuda_link *link;       /* link.cu: NCCL; NULL: not used yet */
	struct rf_cuda_profile *profile; /* profile.cu; NULL: no profile */
	void *blas;                      /* gemm.cu: cuBLAS */
	struct rf_cuda_rounded *rounded; /* rounded.cu: bf16 copies of products' operands */
	void *scratch;
	size_t scratch_size;
	struct rf_cuda_staging *up, *down; /* device_cuda.cu: pinned memory of the host for copies */
	int sms;                           /* multiprocessors */
	size_t most_shared;                /* largest shared memory of a block, in bytes */
	bool eager; /* RF_SYNC=1: wait after each launch, so that a fault names its kernel */
	bool dead;  /* the driver has failed: no more calls */
};

static inline struct rf_cuda *cuda_of(struct rf_dev *d) { return (struct rf_cuda *)d->impl; }

/* Return the address that a handle stands for. */
static inline float *f32(rf_f32 p) { return (float *)p; }
static inline double *f64(rf_f64 p) { return (double *)p; }
static inline int32_t *i32(rf_i32 p) { return (int32_t *)p; }
static inline int64_t *i64(rf_i64 p) { return (int64_t *)p; }

/* rf_cuda_alloc: allocates device memory, which d->used counts; what: its purpose for the message of a
 * failure, " for ..." or "".  NULL: there is too little memory, and the device has failed.  rf_cuda_free
 * releases the memory; returns false on failure. */
void *rf_cuda_alloc(struct rf_dev *d, size_t bytes, const char *what);
bool rf_cuda_free(struct rf_dev *d, void *p);

/* Returns at least `bytes` of device memory, 256-byte aligned.  An operation may call it once, and the next
 * operation may get the same memory.  NULL: there is too little memory, and the device has failed. */
void *rf_cuda_scratch(struct rf_dev *d, size_t bytes);
/* Returns n numbers of scratch memory from byte *at on, and moves *at past them.  scratch NULL: only
 * counts. */
template <class X> static X *rf_cuda_piece(void *scratch, size_t *at, size_t n)
{
	const size_t from = *at;

	*at += (n * sizeof(X) + 255) / 256 * 256;
	return scratch ? (X *)(void *)((char *)scratch + from) : NULL;
}

/* Return the scratch memory that the delta rule needs for nb sequences of `steps` rows each: delta.cu,
 * delta_back.cu. */
size_t rf_cuda_delta_scratch(const struct rf_dev *d, const struct rf_workspace *need, int nb, int steps);
size_t rf_cuda_delta_back_scratch(const struct rf_dev *d, const struct rf_workspace *need, int nb, int steps);

/* rounded.cu: drops the rounded copies of operands; called before a kernel that may write to these operands.
 * _restart: a pass begins, and its copies must not depend on earlier copies: a product whose operand is part
 * of a larger copy may have other bits than a product of a separate copy.  _wrote: drops only the copies of
 * operands with numbers in [p, p + n), for a kernel that writes there; p may be NULL.  all_wrote: n numbers
 * at each p.  _copy: the same for a matrix (rows, cols) with distance ld, of which the kernel also writes a
 * rounded copy if the copy is wanted and the device rounds.  Returns where, in rows without gaps; else NULL.
 * A kernel that writes several copies asks for the largest first, and for at most three times as many numbers
 * in all. */
void rf_cuda_rounded_stale(struct rf_dev *d);
void rf_cuda_rounded_restart(struct rf_dev *d);
void rf_cuda_rounded_wrote(struct rf_dev *d, const float *p, size_t n);
template <class... P> static inline void rf_cuda_all_wrote(struct rf_dev *d, size_t n, P... p)
{
	(rf_cuda_rounded_wrote(d, p, n), ...);
}
bf16 *rf_cuda_rounded_copy(struct rf_dev *d, const float *p, size_t rows, size_t cols, size_t ld,
                           bool wanted);
/* Like _wrote, and for weights with numbers in [p, p + bytes): _changed makes the next product round them
 * again, _forget drops their copies, since their memory is released. */
void rf_cuda_rounded_changed(struct rf_dev *d, const void *p, size_t bytes);
void rf_cuda_rounded_forget(struct rf_dev *d, const void *p, size_t bytes);
/* Returns a weight (rows, cols) in bf16: the copy that products of rf_gemm also use, valid until the weight
 * changes.  NULL: there is too little memory, and the device has failed. */
const bf16 *rf_cuda_rounded_weight(struct rf_dev *d, rf_f32 w, int rows, int cols);

/* gemm.cu.  _workspace: returns the bytes that products need for struct rf_workspace.  _prepare: allocates
 * the memory for copies. */
enum rf_code rf_cuda_gemm_open(struct rf_dev *d, struct rf_err *e);
void rf_cuda_gemm_close(struct rf_dev *d);
size_t rf_cuda_gemm_workspace(struct rf_dev *d, const struct rf_workspace *need);
void rf_cuda_gemm_prepare(struct rf_dev *d, const struct rf_workspace *need);
/* One product, or a batch, of the shape of rf_gemm, with operands that are bf16 in device memory (strides and
 * leading dimensions in elements) and a float32 c. */
void rf_cuda_gemm_bf16(struct rf_dev *d, const struct rf_gemm *shape, const bf16 *a, const bf16 *b, float *c);

/* Returns the rows of logits that training computes together: device_cuda.cu. */
int rf_cuda_logit_rows(int vocab);

/* Returns the device memory that operations need in addition to allocations: device_cuda.cu. */
size_t rf_cuda_workspace(struct rf_dev *d, const struct rf_workspace *need);

/* link.cu: ranks, joined by NCCL; _leave leaves them if they were joined. */
extern const struct rf_link rf_cuda_link;
void rf_cuda_link_leave(struct rf_dev *d);

/* Checks the code that a call has returned.  On a failure the device fails with a message that names `what`,
 * and the result is false. */
bool rf_cuda_ok(struct rf_dev *d, cudaError_t code, const char *what);
/* Checks whether a block may have this many bytes of shared memory; if not, the device fails with a message
 * that names the kernel. */
bool rf_cuda_has_shared(struct rf_dev *d, size_t bytes, const char *kernel);
/* Checks whether the kernels can handle heads of this width: they hold rows of a head in registers and shared
 * memory.  If not, the device fails. */
enum { WIDEST_HEAD = 256 };
bool rf_cuda_has_width(struct rf_dev *d, int width, const char *what);
/* Checks a launch, and with RF_SYNC=1 waits for the kernel.  Call it after each launch. */
void rf_cuda_launched(struct rf_dev *d, const char *kernel);

/* profile.cu, with RF_PROFILE=1 or the name of a file: _begin and _end around each launch, unless
 * cuda_of(d)->profile is NULL; _close writes the table.  flops: the operations of a product; otherwise 0. */
void rf_cuda_profile_open(struct rf_dev *d);
void rf_cuda_profile_begin(struct rf_dev *d, const char *name, dim3 grid, dim3 block, double flops);
void rf_cuda_profile_end(struct rf_dev *d);
void rf_cuda_profile_close(struct rf_dev *d);

/* The functions of all operations. */
#define X(op) extern "C" void rf_cuda_##op(struct rf_dev *d, const struct rf_##op *a);
RF_OPS(X)
#undef X

/* Checks that a launch of `kernel` may use `bytes` of shared memory, and asks the driver for them unless an
 * earlier launch has: device_cuda.cu.  Returns false if the device has failed. */
enum { RF_SHARED_UNASKED = 48 << 10 }; /* bytes that every kernel may use */
bool rf_cuda_allowed(struct rf_dev *d, const void *kernel, size_t bytes, const char *name);

/* Launches a kernel, with a name for messages; does not touch rounded operands. */
#define RF_CUDA_LAUNCH(d, name, kernel, grid, block, bytes, ...) \
	do { \
		if (cuda_of(d)->profile) \
			rf_cuda_profile_begin((d), (name), (grid), (block), 0); \
		RF_LAUNCH(kernel, grid, block, bytes, cuda_of(d)->stream, ##__VA_ARGS__); \
		if (cuda_of(d)->profile) \
			rf_cuda_profile_end(d); \
		rf_cuda_launched((d), (name)); \
	} while (0)

/* LAUNCH(d, kernel, grid, block, bytes of dynamic shared memory, arguments...).  The caller has announced the
 * kernel's output, if products may multiply it, by rf_cuda_rounded_wrote, _copy or _stale. */
#define LAUNCH(d, kernel, grid, block, bytes, ...) \
	do { \
		if ((d)->err.code != RF_OK) \
			break; \
		if ((bytes) > RF_SHARED_UNASKED && \
		    !rf_cuda_allowed((d), (const void *)(kernel), (bytes), #kernel)) \
			break; \
		RF_CUDA_LAUNCH(d, #kernel, kernel, grid, block, bytes, ##__VA_ARGS__); \
	} while (0)

/* Returns the bytes that SHARED takes for n numbers. */
static inline constexpr size_t shared_size(size_t n, size_t size) { return (n * size + 127) / 128 * 128; }

/* ---- in kernels ---------------------------------------------------------------------------- */

/* Returns two bf16 in a word, the first one in the lower half. */
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

/* Returns the sum over all threads of a block to every thread.  The number of threads is a multiple of 32.
 * scratch: 33 numbers of shared memory. */
template <class T> static __device__ __forceinline__ T block_sum(T x, T *scratch)
{
	const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;

	x = warp_sum(x);
	if (lane == 0)
		scratch[warp] = x;
	__syncthreads();
	if (warp == 0) {
		x = warp_sum(lane < warps ? scratch[lane] : T(0));
		if (lane == 0)
			scratch[32] = x;
	}
	__syncthreads();
	x = scratch[32];
	__syncthreads(); /* scratch may be used again */
	return x;
}

#endif
