/* cudart.cpp -- the functions of the CUDA runtime that the plugin calls, on the host.  The device's memory is
 * host memory, filled with bytes that make numbers NaN; copies that pass the end of an allocation are faults.
 * Environment variables select properties and failures of other machines:
 *
 *     EMU_DRIVER=12020   the driver's version; 0: there is none       EMU_DEVICES=0    no GPU
 *     EMU_SM=70          a GPU that there is no code for              EMU_MEMORY=n     n bytes of memory
 *     EMU_SMS=132        multiprocessors, by which some kernels choose their grid; 4 of them else
 *     EMU_UUID=1         which GPU it is; else each process has one of its own
 *     EMU_SHARED=99      KiB of shared memory that a block may have: 227 on sm_90, 163 on sm_80, 99 on sm_86
 *                        and sm_89
 *     EMU_FAULT=n        the n-th launch is an illegal access: the next wait, and all calls after it
 *                        fail */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <map>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <cuda_runtime_api.h>

#include "emu_rt.h"

namespace
{

std::map<const char *, size_t> blocks;
size_t used;
struct copy {
	void *to;
	const void *from;
	size_t n;
};
std::deque<struct copy> late;
unsigned long long settled; /* number of completed copies; late.front() is the next */

/* When an event was recorded: the clock, and the number of copies begun before; ever: whether it was
 * recorded. */
struct event {
	double clock;
	unsigned long long copies;
	bool ever;
};
struct event *of(cudaEvent_t e) { return (struct event *)e; }

const char *found, *found_end; /* the block that was found last */

emu::stream *of(cudaStream_t s) { return (emu::stream *)(void *)s; }

/* Allocates zeros.  If numbers are not computed, a program may allocate a terabyte and touch little of it. */
void *alloc_zeros(size_t n)
{
	void *p;

	if (emu::computes())
		return posix_memalign(&p, 256, n ? n : 1) ? nullptr : p;
	p = mmap(nullptr, n + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return p == MAP_FAILED ? nullptr : p;
}

void give(void *p, size_t n)
{
	if (emu::computes())
		free(p);
	else
		munmap(p, n + 1);
}

size_t all() { return (size_t)emu::setting("EMU_MEMORY", 1LL << 40); }

const size_t LIST = 2 << 20; /* bytes: largest copy that may be a list */

/* Copies lists, by which blocks choose their memory; the host reads zeros, which no check refuses. */
void reckoned_copy(void *to, const void *from, size_t n, cudaMemcpyKind kind)
{
	const bool of_host = kind != cudaMemcpyDeviceToDevice;

	emu::reckon_bytes(of_host ? n : 2 * n, of_host);
	if (kind == cudaMemcpyDeviceToHost)
		memset(to, 0, n);
	else if (of_host && n <= LIST)
		memcpy(to, from, n);
}

} // namespace

static void settle_until(unsigned long long copies)
{
	for (; settled < copies && !late.empty(); settled++, late.pop_front())
		memcpy(late.front().to, late.front().from, late.front().n);
}

void emu::settle() { settle_until(~0ull); }

bool emu::on_stream(cudaStream_t s, const char *what)
{
	if (!s)
		emu::illegal("%s on stream 0, which does not wait for the plugin's own stream", what);
	return s;
}

bool emu::in_allocation(const void *p, size_t n)
{
	const char *const at = (const char *)p;

	if (at < found || at >= found_end) {
		auto next = blocks.upper_bound(at);

		if (next == blocks.begin())
			return false;
		--next;
		found = next->first;
		found_end = found + next->second;
	}
	return at + n <= found_end;
}

extern "C" {

cudaError_t cudaMalloc(void **p, size_t n)
{
	if (emu::fault(false))
		return emu::fault(false);
	if (used + n > all() || !(*p = alloc_zeros(n)))
		return emu::refuse(cudaErrorMemoryAllocation, "out of memory");
	if (emu::computes())
		memset(*p, 0xFF, n);
	blocks[(char *)*p] = n;
	used += n;
	return cudaSuccess;
}

cudaError_t cudaFree(void *p)
{
	auto one = blocks.find((char *)p);

	if (emu::fault(false) || !p)
		return emu::fault(false);
	if (one == blocks.end())
		return emu::refuse(cudaErrorInvalidValue, "release of %p, which is not allocated", p);
	emu::settle();
	used -= one->second;
	give(p, one->second);
	blocks.erase(one);
	found = found_end = nullptr;
	return cudaSuccess;
}

cudaError_t cudaMallocHost(void **p, size_t n)
{
	return (*p = malloc(n)) ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFreeHost(void *p)
{
	emu::settle();
	free(p);
	return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
	*total = all();
	*free = *total - used;
	return emu::fault(false);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, cudaMemcpyKind kind, cudaStream_t s)
{
	if (emu::fault(false) || emu::only_noted() || !emu::on_stream(s, "a copy"))
		return emu::fault(false);
	if (kind != cudaMemcpyHostToDevice && !emu::in_allocation(from, n))
		emu::illegal("a copy of %zu bytes from %p, which is no memory of the device", n, from);
	else if (kind != cudaMemcpyDeviceToHost && !emu::in_allocation(to, n))
		emu::illegal("a copy of %zu bytes to %p, which is no memory of the device", n, to);
	else if (emu::computes())
		late.push_back({ to, from, n });
	else
		reckoned_copy(to, from, n, kind);
	return emu::fault(false);
}

cudaError_t cudaMemsetAsync(void *p, int v, size_t n, cudaStream_t s)
{
	if (emu::fault(false) || emu::only_noted() || !emu::on_stream(s, "memset"))
		return emu::fault(false);
	if (!emu::in_allocation(p, n))
		emu::illegal("%zu bytes to be set at %p, which is no memory of the device", n, p);
	else {
		emu::settle();
		if (emu::reckon_bytes)
			emu::reckon_bytes(n, false);
		if (emu::computes() || n <= LIST)
			memset(p, v, n);
	}
	return emu::fault(false);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned)
{
	*s = (cudaStream_t)(void *)new emu::stream{ { 0 }, emu::in_allocation, emu::settle };
	return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
	delete of(s);
	return emu::fault(false);
}

cudaError_t cudaStreamQuery(cudaStream_t s)
{
	emu::settle();
	return of(s)->busy ? cudaErrorNotReady : emu::fault(true);
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
	while (of(s)->busy)
		usleep(50);
	if (emu::reckon_sync)
		emu::reckon_sync();
	emu::settle();
	return emu::fault(true);
}

/* Creates an event.  An event has the host's clock at the time of recording, since all work except copies is
 * done immediately. */
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned)
{
	*e = (cudaEvent_t) new event{ 0, 0, false };
	return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *e) { return cudaEventCreateWithFlags(e, 0); }

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
	delete of(e);
	return emu::fault(false);
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
	timespec now;

	if (!emu::on_stream(s, "an event"))
		return emu::fault(false);
	clock_gettime(CLOCK_MONOTONIC, &now);
	*of(e) = { (double)now.tv_sec + (double)now.tv_nsec / 1e9, settled + late.size(), true };
	if (emu::reckon_clock)
		of(e)->clock = emu::reckon_clock();
	return emu::fault(false);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
	if (!of(from)->ever || !of(to)->ever)
		return emu::refuse(cudaErrorInvalidResourceHandle, "an event that was never recorded");
	*ms = (float)(1e3 * (of(to)->clock - of(from)->clock));
	return emu::fault(true);
}

/* Waits only for the copies before the event: copies after the event may be done later.  Does not wait for an
 * event that was never recorded. */
cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
	settle_until(of(e)->copies);
	return emu::fault(true);
}

cudaError_t cudaDeviceSynchronize() { return emu::fault(true); }
cudaError_t cudaGetLastError() { return emu::last_error(); }
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
const char *cudaGetErrorString(cudaError_t code) { return emu::sentence(code); }

cudaError_t cudaDriverGetVersion(int *v)
{
	*v = (int)emu::setting("EMU_DRIVER", CUDART_VERSION);
	return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *n)
{
	*n = (int)emu::setting("EMU_DEVICES", 1);
	return *n ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int)
{
	const int sm = (int)emu::setting("EMU_SM", 90);

	memset(p, 0, sizeof *p);
	strcpy(p->name, "emulated");
	/* each process has a different GPU, unless EMU_UUID says which */
	snprintf(p->uuid.bytes, sizeof p->uuid.bytes, "%lld", emu::setting("EMU_UUID", getpid()));
	p->totalGlobalMem = all();
	p->major = sm / 10;
	p->minor = sm % 10;
	p->multiProcessorCount = (int)emu::setting("EMU_SMS", emu::reckon_clock ? emu::RECKONED_SMS : 4);
	p->sharedMemPerBlockOptin = emu::most_shared();
	return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *a, const void *)
{
	memset(a, 0, sizeof *a);
	return emu::setting("EMU_SM", 90) < 80 ? cudaErrorNoKernelImageForDevice : cudaSuccess;
}
}
