/* launch.h -- how nvcc launches a kernel, and dynamic shared memory.  The emulator of the tests has its own
 * header of this name, t/emu/gpu/launch.h; the compiler's -I decides which of the two <gpu/launch.h> is. */
#ifndef RF_GPU_LAUNCH_H
#define RF_GPU_LAUNCH_H

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#define RF_HOST_SEES false /* whether the host can read the device's memory */

#define RF_LAUNCH(kernel, grid, block, bytes, stream, ...) \
	(kernel)<<<(grid), (block), (bytes), (stream)>>>(__VA_ARGS__)

/* Allows the kernel more than 48 KB of shared memory, and prefers shared memory over cache, so that as many
 * blocks as possible fit into a multiprocessor. */
static inline cudaError_t rf_allow(const void *kernel, size_t bytes)
{
	const cudaError_t code =
		cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);

	if (code != cudaSuccess)
		return code;
	return cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
	                            cudaSharedmemCarveoutMaxShared);
}
#define RF_ALLOW(kernel, bytes) rf_allow((const void *)(kernel), (bytes))

/* Dynamic shared memory, taken piece by piece: SHARED(s); float *a = s.take<float>(n); */
struct rf_shared {
	unsigned char *p;
	template <class T> __device__ __forceinline__ T *take(int n)
	{
		T *r = reinterpret_cast<T *>(p);
		p += (n * (int)sizeof(T) + 127) / 128 * 128;
		return r;
	}
};
#define SHARED(name) \
	extern __shared__ __align__(128) unsigned char rf_shared_memory[]; \
	rf_shared name { rf_shared_memory }

#endif
