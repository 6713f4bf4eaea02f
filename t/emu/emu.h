/* emu.h -- CUDA's keywords and functions for the CPU, for kernels that a C++ compiler compiles instead of
 * nvcc.
 *
 * Blocks run one after the other, the threads of a block as fibres (emu.cpp), each until it waits for others.
 * So the keywords for kinds of memory mean little: there is one block's shared memory.  EMU_ORDER sets the
 * order of blocks, warps and threads: fwd, rev or rand:SEED; no kernel's result may depend on it.
 *
 * An error that would fail on a GPU also fails here: see emu_rt.h. */
#ifndef EMU_H
#define EMU_H

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <cuda_runtime_api.h> /* before the keywords for where a function runs become empty */

#undef __host__
#undef __device__
#undef __global__
#undef __constant__
#undef __shared__
#undef __launch_bounds__
#undef __grid_constant__
#define __host__
#define __device__
#define __global__
#define __constant__
#ifdef __clang__
#define __shared__ static
#else
#define __shared__ static __constinit /* without __constinit g++ guards arrays of bf16 by a flag */
#endif
#define __launch_bounds__(...)
#define __grid_constant__
#include <cuda_bf16.h> /* its types, conversions and operators work; __hfma, hexp and shuffles do not */

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
static constexpr int warpSize = 32;

namespace emu
{

/* Lets the lanes of mask meet at a line; the last lane to arrive runs fn on the arguments of all, arg[lane],
 * unless fn is NULL.  orders: writes before the meeting are visible after it, unlike with shuffles and
 * votes. */
typedef void (*warp_fn)(void *const *arg, unsigned mask);
void warp_op(unsigned mask, void *arg, warp_fn fn, bool orders, const char *file, int line);
/* Lets all threads of the block meet.  Returns how many passed yes. */
int block_barrier(bool yes, const char *file, int line);

/* Copies lane src's `in`, of size bytes, to this lane's `out`; bytes that make NaN if src is not in mask. */
void shuffle(unsigned mask, const void *in, void *out, size_t size, int src, const char *file, int line);
/* Returns the lanes of mask that passed yes. */
unsigned vote(unsigned mask, bool yes, const char *file, int line);
/* Compares `size` bytes at p with those at expected.  If equal, stores desired at p; else copies p to
 * expected. */
bool cas(void *p, void *expected, const void *desired, size_t size);

/* Hands out pieces of the block's dynamic shared memory, with inaccessible strips between them.  A second
 * carver begins with the same memory, as on a GPU. */
struct carver {
	size_t at = 0, taken = 0;
	void *piece(size_t bytes);
	template <class T> T *take(int n) { return static_cast<T *>(piece(size_t(n) * sizeof(T))); }
};
/* cp.async: starts to copy 16 bytes to shared memory.  The bytes arrive when the thread waits for their
 * group; until then there is NaN. */
void copy_16(void *to, const void *from);
void copies_close();
void copies_wait(int all_but);
bool computes(); /* emu_rt.h */
/* Lets the kernel fn have more than 48 KB of shared memory. */
void allow_smem(const void *fn, size_t bytes);

/* Fails the operation. */
void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

struct call {
	const void *kernel;
	const char *name;
	void (*run)(void *args);
	void *args;
	size_t args_size;
	cudaStream_t stream;
	const char *file;
	int line;
};
void launch_call(const struct call *c, dim3 grid, dim3 block, size_t bytes);

/* Converts and copies the arguments once, as the driver does. */
template <class... P, class... A>
void launch(const char *name, const char *file, int line, void (*kernel)(P...), dim3 grid, dim3 block,
            size_t bytes, cudaStream_t stream, A &&...a)
{
	struct {
		void (*kernel)(P...);
		std::tuple<std::decay_t<P>...> args;
	} all{ kernel, { std::forward<A>(a)... } };
	auto run = [](void *p) {
		auto *to = static_cast<decltype(all) *>(p);
		std::apply(to->kernel, to->args);
	};
	const struct call c = {
		reinterpret_cast<const void *>(kernel), name, run, &all, sizeof all, stream, file, line
	};

	launch_call(&c, grid, block, bytes);
}

inline int lane() { return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) & 31; }

template <class T> T shuffled(unsigned mask, T v, int src, const char *file, int line)
{
	T out = v;

	shuffle(mask, &v, &out, sizeof v, src, file, line);
	return out;
}

template <class T, class F> T changed(T *p, F f)
{
	T was{}, is; /* a first guess; cas() returns the contents */

	do
		is = f(was);
	while (!cas(p, &was, &is, sizeof is));
	return was;
}

template <class T> struct as {
	using type = T;
};
template <class T> using same = typename as<T>::type;

} // namespace emu

#define EMU_AT const char *file_ = __builtin_FILE(), int line_ = __builtin_LINE()

/* ---- barriers, shuffles, votes ------------------------------------------------------------- */

inline void __syncthreads(EMU_AT) { emu::block_barrier(false, file_, line_); }
inline int __syncthreads_count(int p, EMU_AT) { return emu::block_barrier(p, file_, line_); }
inline int __syncthreads_or(int p, EMU_AT) { return emu::block_barrier(p, file_, line_) != 0; }
inline int __syncthreads_and(int p, EMU_AT) { return emu::block_barrier(!p, file_, line_) == 0; }
inline void __syncwarp(unsigned mask = ~0u, EMU_AT)
{
	emu::warp_op(mask, nullptr, nullptr, true, file_, line_);
}

template <class T> T __shfl_sync(unsigned mask, T v, int src, int w = 32, EMU_AT)
{
	return emu::shuffled(mask, v, (emu::lane() & ~(w - 1)) | (src & (w - 1)), file_, line_);
}

template <class T> T __shfl_xor_sync(unsigned mask, T v, int x, int w = 32, EMU_AT)
{
	const int l = emu::lane(), src = l ^ x;

	return emu::shuffled(mask, v, src >= (l & ~(w - 1)) + w ? l : src, file_, line_);
}

template <class T> T __shfl_down_sync(unsigned mask, T v, unsigned by, int w = 32, EMU_AT)
{
	const int l = emu::lane();

	return emu::shuffled(mask, v, (l & (w - 1)) + (int)by >= w ? l : l + (int)by, file_, line_);
}

template <class T> T __shfl_up_sync(unsigned mask, T v, unsigned by, int w = 32, EMU_AT)
{
	const int l = emu::lane();

	return emu::shuffled(mask, v, (l & (w - 1)) < (int)by ? l : l - (int)by, file_, line_);
}

inline unsigned __ballot_sync(unsigned mask, int p, EMU_AT) { return emu::vote(mask, p, file_, line_); }
inline int __any_sync(unsigned mask, int p, EMU_AT) { return emu::vote(mask, p, file_, line_) != 0; }
inline int __all_sync(unsigned mask, int p, EMU_AT) { return emu::vote(mask, !p, file_, line_) == 0; }

/* ---- atomics ------------------------------------------------------------------------------- */

template <class T> T atomicAdd(T *p, emu::same<T> v)
{
	return emu::changed(p, [=](T old) { return T(old + v); });
}
template <class T> T atomicMin(T *p, emu::same<T> v)
{
	return emu::changed(p, [=](T old) { return v < old ? v : old; });
}
template <class T> T atomicMax(T *p, emu::same<T> v)
{
	return emu::changed(p, [=](T old) { return old < v ? v : old; });
}
template <class T> T atomicExch(T *p, emu::same<T> v)
{
	return emu::changed(p, [=](T) { return v; });
}
template <class T> T atomicCAS(T *p, emu::same<T> c, emu::same<T> v)
{
	return emu::changed(p, [=](T old) { return old == c ? v : old; });
}

inline void __threadfence() {}
inline void __threadfence_block() {}

/* ---- loads, numbers ------------------------------------------------------------------------ */

template <class T> T __ldg(const T *p) { return *p; }
template <class T> T __ldcs(const T *p) { return *p; }
template <class T> T __ldcg(const T *p) { return *p; }
template <class T> void __stcs(T *p, T v) { *p = v; }
template <class T> void __stcg(T *p, T v) { *p = v; }

inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }

inline float __int_as_float(int i)
{
	float f;

	memcpy(&f, &i, sizeof f);
	return f;
}

inline int __float_as_int(float f)
{
	int i;

	memcpy(&i, &f, sizeof i);
	return i;
}

inline float __uint_as_float(unsigned i) { return __int_as_float((int)i); }
inline unsigned __float_as_uint(float f) { return (unsigned)__float_as_int(f); }
inline long long __float2ll_rn(float x) { return llrintf(x); }
inline float __ll2float_rn(long long x) { return (float)x; }

/* glibc declares these itself: only a macro can replace them. */
#define __expf(x)  expf(x)
#define __logf(x)  logf(x)
#define __log2f(x) log2f(x)
#define __sinf(x)  sinf(x)
#define __cosf(x)  cosf(x)

template <class A, class B> constexpr std::common_type_t<A, B> min(A a, B b) { return b < a ? b : a; }
template <class A, class B> constexpr std::common_type_t<A, B> max(A a, B b) { return a < b ? b : a; }

#endif
