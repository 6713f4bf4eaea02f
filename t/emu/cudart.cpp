/* cudart.cpp -- the few calls of the CUDA runtime that the plugin makes, on the host.  Memory of the device is the host's,
 * filled with bytes that make numbers NaN.  What goes wrong on other machines can be asked for:
 *
 *     EMU_DRIVER=12020   the driver's version; 0: there is none       EMU_DEVICES=0    no GPU
 *     EMU_SM=70          a GPU that there is no code for              EMU_MEMORY=n     n bytes of memory
 *     EMU_FAULT=n        the n-th launch is an illegal access, and all calls after it fail */
#include <cuda_runtime_api.h>
#include <cstdlib>
#include <cstring>
#include <map>

#include "emu_rt.h"

namespace emu {
cudaError_t take_error();
}

namespace {
std::map<void *, size_t> blocks;
size_t used;

long long setting(const char *name, long long otherwise)
{
	const char *s = getenv(name);

	return s ? atoll(s) : otherwise;
}

size_t all() { return (size_t)setting("EMU_MEMORY", 1LL << 40); }
}

extern "C" {
cudaError_t cudaMalloc(void **p, size_t n)
{
	if (used + n > all() || posix_memalign(p, 256, n ? n : 1))
		return cudaErrorMemoryAllocation;
	memset(*p, 0xFF, n);
	blocks[*p] = n;
	used += n;
	return cudaSuccess;
}

cudaError_t cudaFree(void *p)
{
	used -= blocks[p];
	blocks.erase(p);
	free(p);
	return cudaSuccess;
}

cudaError_t cudaMallocHost(void **p, size_t n) { return (*p = malloc(n)) ? cudaSuccess : cudaErrorMemoryAllocation; }
cudaError_t cudaFreeHost(void *p)
{
	free(p);
	return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
	*total = all();
	*free = *total - used;
	return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, cudaMemcpyKind, cudaStream_t)
{
	memcpy(to, from, n);
	return emu::take_error();
}

cudaError_t cudaMemsetAsync(void *p, int v, size_t n, cudaStream_t)
{
	memset(p, v, n);
	return emu::take_error();
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned)
{
	*s = (cudaStream_t)1;
	return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return emu::take_error(); }
cudaError_t cudaDeviceSynchronize() { return emu::take_error(); }
cudaError_t cudaGetLastError() { return emu::take_error(); }
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
const char *cudaGetErrorString(cudaError_t e) { return e == cudaErrorIllegalAddress ? "an illegal memory access was encountered" : "an error"; }

cudaError_t cudaDriverGetVersion(int *v)
{
	*v = (int)setting("EMU_DRIVER", CUDART_VERSION);
	return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *n)
{
	*n = (int)setting("EMU_DEVICES", 1);
	return *n ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int)
{
	int sm = (int)setting("EMU_SM", 90);

	memset(p, 0, sizeof *p);
	strcpy(p->name, "emulated");
	p->totalGlobalMem = all();
	p->major = sm / 10;
	p->minor = sm % 10;
	p->multiProcessorCount = 4;
	p->sharedMemPerBlockOptin = 227 << 10;
	return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *a, const void *)
{
	memset(a, 0, sizeof *a);
	return setting("EMU_SM", 90) < 80 ? cudaErrorNoKernelImageForDevice : cudaSuccess;
}
}
