/* bugs -- kernels with deliberate bugs, each with a corrected twin: the emulator must report the first and
 * accept the second.  Never compiled for a GPU.  Each kernel runs in its own process, since nothing runs on a
 * GPU after a fault.  A table says which build finds which bug: the plain build, the build that finds races,
 * and the build with ASan and UBSan. */
#include <cstdio>
#include <cstdlib>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/cuda.h"
#include <gpu/ptx.h>
#include "unit/tap.h"

enum { PLAIN = 1, RACE = 2, SANITIZED = 4, ALL = 7 };
#if defined(__SANITIZE_THREAD__)
static const int build = RACE;
#elif defined(__SANITIZE_ADDRESS__)
static const int build = SANITIZED;
#else
static const int build = PLAIN;
#endif

enum { N = 64 }; /* threads, unless stated otherwise */

static cudaStream_t stream;

#define RUN(kernel, grid, block, bytes, ...) \
	(wrong ? RF_LAUNCH(kernel<true>, grid, block, bytes, stream, __VA_ARGS__) \
	       : RF_LAUNCH(kernel<false>, grid, block, bytes, stream, __VA_ARGS__))

static float *numbers(size_t n)
{
	float *p = NULL;

	if (cudaMalloc((void **)&p, n * sizeof *p) != cudaSuccess)
		exit(1);
	cudaMemsetAsync(p, 0, n * sizeof *p, stream);
	return p;
}

/* ---- barriers ------------------------------------------------------------------------------ */

template <bool wrong> static __global__ void no_barrier_after_write(float *o)
{
	__shared__ float s[N];
	const int i = threadIdx.x;

	s[i] = i;
	if (!wrong)
		__syncthreads();
	o[i] = s[N - 1 - i];
}

template <bool wrong> static __global__ void no_barrier_before_write(float *o)
{
	__shared__ float s[N];
	const int i = threadIdx.x;

	for (int turn = 0; turn < 2; turn++) {
		s[i] = i + turn;
		__syncthreads();
		o[i] = s[N - 1 - i];
		if (!wrong)
			__syncthreads();
	}
}

template <bool wrong> static __global__ void no_syncwarp(float *o)
{
	SHARED(shared);
	float *s = shared.take<float>(N);
	const int i = threadIdx.x;

	s[i] = i;
	if (!wrong)
		__syncwarp();
	o[i] = s[i ^ 1];
}

/* A shuffle's result is defined; memory that was written before the shuffle need not be visible. */
template <bool wrong> static __global__ void shuffle_as_barrier(float *o)
{
	__shared__ float s[N];
	const int i = threadIdx.x;

	s[i] = i;
	o[i] = __shfl_xor_sync(~0u, 1.f, 1);
	if (!wrong)
		__syncwarp();
	o[i] += s[i ^ 1];
}

template <bool wrong> static __global__ void warp_for_block(float *o)
{
	__shared__ float s[N];
	const int i = threadIdx.x;

	s[i] = i;
	if (wrong)
		__syncwarp();
	else
		__syncthreads();
	o[i] = s[i ^ 32];
}

template <bool wrong> static __global__ void matrix_too_early(float *o)
{
	using namespace nvcuda;
	SHARED(shared);
	bf16 *a = shared.take<bf16>(256);
	float *c = shared.take<float>(256);
	wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> fa;
	wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::col_major> fb;
	wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;

	for (int i = threadIdx.x; i < 256; i += 32)
		a[i] = __float2bfloat16(i % 5);
	if (!wrong)
		__syncwarp();
	wmma::fill_fragment(sum, 0.f);
	wmma::load_matrix_sync(fa, a, 16);
	wmma::load_matrix_sync(fb, a, 16);
	wmma::mma_sync(sum, fa, fb, sum);
	wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
	__syncwarp();
	o[threadIdx.x] = c[threadIdx.x];
}

template <bool wrong> static __global__ void divergent_barrier(float *o)
{
	if (threadIdx.x < 32 && wrong) {
		o[threadIdx.x] = 1;
		__syncthreads();
	} else {
		o[threadIdx.x] = 2;
		__syncthreads();
	}
}

/* No thread waits for a thread that has returned; threads do wait for a lane that waits elsewhere. */
template <bool wrong> static __global__ void lanes_missing(float *o)
{
	const int i = threadIdx.x;

	if (i < 17 || !wrong)
		o[i] = __shfl_xor_sync(~0u, 1.f, 1);
	__syncthreads();
}

template <bool wrong> static __global__ void not_in_own_mask(float *o)
{
	o[threadIdx.x] = __shfl_sync(wrong ? 0xFFFFu : ~0u, 1.f, 0);
}

/* ---- memory -------------------------------------------------------------------------------- */

template <bool wrong> static __global__ void blocks_overlap(float *o)
{
	o[blockIdx.x * (blockDim.x - wrong) + threadIdx.x] = 1;
}

template <bool wrong> static __global__ void sum_without_atomics(float *o)
{
	if (wrong)
		o[0] += 1;
	else
		atomicAdd(o, 1);
}

template <bool wrong> static __global__ void read_beyond(const float *a, float *o, int n)
{
	const int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n + wrong)
		o[i < n ? i : 0] = a[i];
}

template <bool wrong> static __global__ void write_beyond(float *o, int n)
{
	const int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n + wrong)
		o[i] = 1;
}

template <bool wrong> static __global__ void beyond_a_row(float *o, int column)
{
	__shared__ float s[4][33];

	s[threadIdx.x % 4][column + wrong] = threadIdx.x;
	__syncthreads();
	o[threadIdx.x] = s[threadIdx.x % 4][32];
}

template <bool wrong> static __global__ void beyond_a_piece(float *o)
{
	SHARED(shared);
	float *a = shared.take<float>(N), *b = shared.take<float>(N);
	const int i = threadIdx.x;

	b[i] = 0;
	__syncthreads();
	a[i + wrong] = 1;
	__syncthreads();
	o[i] = b[i] + a[N - 1];
}

template <bool wrong> static __global__ void never_written(float *o)
{
	__shared__ float s[N];
	const int i = threadIdx.x;

	if (i < N - wrong)
		s[i] = i;
	__syncthreads();
	o[blockIdx.x * N + i] = s[N - 1 - i];
}

template <bool wrong> static __global__ void misaligned(const float *a, float *o)
{
	const float4 v = *reinterpret_cast<const float4 *>(a + wrong + 4 * threadIdx.x);

	o[threadIdx.x] = v.x + v.w;
}

template <bool wrong> static __global__ void misaligned_matrix(float *o)
{
	using namespace nvcuda;
	SHARED(shared);
	float *c = shared.take<float>(256 + 4);
	wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;

	wmma::fill_fragment(sum, 1.f);
	wmma::store_matrix_sync(c + 4 * wrong, sum, 16, wmma::mem_row_major);
	__syncwarp();
	o[threadIdx.x] = c[4 + threadIdx.x];
}

/* A thread sees its own copies after waiting; it sees other threads' copies only after a barrier. */
template <bool wrong> static __global__ void copies_of_others(const float *a, float *o)
{
	SHARED(shared);
	float *s = shared.take<float>(4 * 32);
	const int i = threadIdx.x;

	copy_16(s + 4 * i, a + 4 * i);
	copies_close();
	copies_wait<0>();
	if (!wrong)
		__syncwarp();
	o[i] = s[4 * (31 - i)];
}

template <bool wrong> static __global__ void copy_too_early(const float *a, float *o)
{
	SHARED(shared);
	float *s = shared.take<float>(4 * 32);
	const int i = threadIdx.x;

	s[i] = i;
	__syncwarp();
	o[i] = s[31 - i];
	if (!wrong)
		__syncwarp();
	copy_16(s + 4 * i, a + 4 * i);
	copies_close();
	copies_wait<0>();
}

template <bool wrong> static __global__ void not_waited_for(const float *a, float *o)
{
	SHARED(shared);
	float *s = shared.take<float>(4 * 32);
	const int i = threadIdx.x;

	copy_16(s + 4 * i, a + 4 * i);
	copies_close();
	if (wrong)
		copies_wait<1>();
	else
		copies_wait<0>();
	o[i] = s[4 * i];
}

template <bool wrong> static __global__ void takes_more_than_given(float *o)
{
	SHARED(shared);
	float *s = shared.take<float>(wrong ? N + 1 : N);
	const int i = threadIdx.x;

	s[i] = 1;
	o[i] = s[i];
}

template <bool wrong> static __global__ void fine(float *o) { o[threadIdx.x] = 1; }

/* ---- running them -------------------------------------------------------------------------- */

static float *o, *a;
static const float zeros[250] = {};

/* Uploads a number and changes it after an event, which was recorded after the copy or, wrongly, before
 * it. */
static void changed_too_early(bool wrong)
{
	float x = 1, y = 0;
	cudaEvent_t done;

	cudaEventCreate(&done);
	if (wrong)
		cudaEventRecord(done, stream);
	cudaMemcpyAsync(o, &x, sizeof x, cudaMemcpyHostToDevice, stream);
	if (!wrong)
		cudaEventRecord(done, stream);
	cudaEventSynchronize(done);
	x = 2;
	cudaMemcpyAsync(&y, o, sizeof y, cudaMemcpyDeviceToHost, stream);
	cudaStreamSynchronize(stream);
	if (y != 1)
		printf("%g came where 1 was\n", y);
}

static const struct bug {
	const char *name, *says;
	int found_by;
	void (*run)(bool wrong);
} bugs[] = {
#define BUG(name, found_by, says, ...) \
	{ \
		name, says, found_by, [](bool wrong) { __VA_ARGS__; } \
	}
	BUG("no __syncthreads between a write and a read", RACE, "shared memory",
	    RUN(no_barrier_after_write, 1, N, 0, o)),
	BUG("no __syncthreads between a read and a write", RACE, "shared memory",
	    RUN(no_barrier_before_write, 1, N, 0, o)),
	BUG("no __syncwarp", RACE, "shared memory", RUN(no_syncwarp, 1, N, N * 4, o)),
	BUG("a shuffle taken for a barrier", RACE, "shared memory", RUN(shuffle_as_barrier, 1, N, 0, o)),
	BUG("__syncwarp taken for __syncthreads", RACE, "shared memory", RUN(warp_for_block, 1, N, 0, o)),
	BUG("a matrix loaded before it is written", RACE, "shared memory",
	    RUN(matrix_too_early, 1, 32, 512 + 1024, o)),
	BUG("a divergent barrier", ALL, "divergent barrier", RUN(divergent_barrier, 1, N, 0, o)),
	BUG("lanes that never come", ALL, "deadlock", RUN(lanes_missing, 1, N, 0, o)),
	BUG("a lane that does not name itself", ALL, "not in its own mask", RUN(not_in_own_mask, 1, N, 0, o)),
	BUG("blocks that write the same place", RACE, "race in global", RUN(blocks_overlap, 3, N, 0, o)),
	BUG("a sum by many threads without atomics", RACE, "race in global",
	    RUN(sum_without_atomics, 3, N, 0, o)),
	BUG("a read beyond an allocation", RACE, "illegal memory access",
	    RUN(read_beyond, 4, N, 0, a, o, 250)),
	BUG("a read beyond an allocation", SANITIZED, "heap-buffer-overflow",
	    RUN(read_beyond, 4, N, 0, a, o, 250)),
	BUG("a write beyond an allocation", RACE, "illegal memory access",
	    RUN(write_beyond, 4, N, 0, a, 250)),
	BUG("a write beyond an allocation", SANITIZED, "heap-buffer-overflow",
	    RUN(write_beyond, 4, N, 0, a, 250)),
	BUG("an index beyond an array's row", ALL, "out of bounds", RUN(beyond_a_row, 1, 4, 0, o, 32)),
	BUG("a write beyond a piece of shared memory", RACE, "out of bounds in dynamic",
	    RUN(beyond_a_piece, 1, N, 2 * N * 4, o)),
	BUG("a write beyond a piece of shared memory", SANITIZED, "use-after-poison",
	    RUN(beyond_a_piece, 1, N, 2 * N * 4, o)),
	BUG("shared memory read and never written", RACE, "no thread has written",
	    RUN(never_written, 2, N, 0, o)),
	BUG("a float4 at a float's address", ALL, "misaligned", RUN(misaligned, 1, N - 2, 0, a, o)),
	BUG("a matrix that does not begin at 32 bytes", ALL, "misaligned",
	    RUN(misaligned_matrix, 1, 32, 1280, o)),
	BUG("a copy by another thread", RACE, "shared memory", RUN(copies_of_others, 1, 32, 512, a, o)),
	BUG("a copy to what others still read", RACE, "race in shared",
	    RUN(copy_too_early, 1, 32, 512, a, o)),
	BUG("a copy without a wait", ALL, "before 1 copies have come", RUN(not_waited_for, 1, 32, 512, a, o)),
	BUG("more shared memory taken than given", ALL, "are taken",
	    RUN(takes_more_than_given, 1, N, N * 4, o)),
	BUG("more than 48 KB of shared memory without permission", ALL, "of dynamic shared memory",
	    RUN(fine, 1, N, (48 << 10) + wrong, o)),
	BUG("more shared memory than there is", ALL, "of which a block may have",
	    RF_ALLOW(fine<true>, (227 << 10) + wrong)),
	BUG("an empty grid", ALL, "a grid of 0x1x1", RUN(fine, wrong ? 0 : 1, N, 0, o)),
	BUG("a grid too high", ALL, "a grid of 1x65536x1", RUN(fine, dim3(1, wrong ? 65536 : 1), N, 0, o)),
	BUG("a block of more than 1024 threads", ALL, "a block of 1025x1x1",
	    RUN(fine, 1, 1024 + wrong, 0, o)),
	BUG("an empty block", ALL, "a block of 0x1x1", RUN(fine, 1, wrong ? 0 : 1, 0, o)),
	BUG("an upload beyond an allocation", ALL, "no memory of the device",
	    cudaMemcpyAsync(a + wrong, zeros, 250 * sizeof *a, cudaMemcpyHostToDevice, stream)),
	BUG("an event that was recorded before a copy", ALL, "2 came where 1 was", changed_too_early(wrong)),
	BUG("a launch on stream 0", ALL, "a launch on stream 0",
	    RF_LAUNCH(fine<false>, 1, N, 0, wrong ? 0 : stream, o)),
	BUG("a copy on stream 0", ALL, "a copy on stream 0",
	    cudaMemcpyAsync(a, zeros, 4, cudaMemcpyHostToDevice, wrong ? 0 : stream)),
	BUG("a release of what is not allocated", ALL, "not allocated", cudaFree(wrong ? a + 1 : a)),
};

/* Finds the sentence that the emulator, or a sanitizer, prints for a bug; "" if it prints none. */
static void sentence(const struct bug *b, bool wrong, char *said, size_t size)
{
	int fd[2];
	size_t n = 0;
	ssize_t got;
	pid_t child;

	fflush(stdout);
	if (pipe(fd) || (child = fork()) < 0)
		exit(1);
	if (child == 0) {
		cudaError_t code;

		dup2(fd[1], 1);
		dup2(fd[1], 2);
		close(fd[0]);
		cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
		o = numbers(1024);
		a = numbers(250);
		b->run(wrong);
		if ((code = cudaGetLastError()) != cudaSuccess)
			puts(cudaGetErrorString(code));
		fflush(stdout);
		_exit(0);
	}
	close(fd[1]);
	while ((got = read(fd[0], said + n, size - 1 - n)) > 0)
		n += (size_t)got;
	said[n] = 0;
	close(fd[0]);
	waitpid(child, NULL, 0);
}

int main()
{
	static char said[1 << 20];

	for (const struct bug &b : bugs) {
		if (!(b.found_by & build))
			continue;
		sentence(&b, true, said, sizeof said);
		if (!ok(strstr(said, b.says), "%s is found", b.name))
			printf("# said: %s\n", said);
		sentence(&b, false, said, sizeof said);
		if (!ok(!*said, "%s: mended, it is well", b.name))
			printf("# said: %s\n", said);
	}
	return tap_end();
}
