// cuda_emu.h: one .cu source for two compilers.
//   nvcc           -> real device code (this header adds only macros)
//   g++ -x c++     -> host emulation: blocks one after another, the threads of a block as
//                     fibres (default) or as OS threads (-DEMU_THREADS).  Link cuda_emu_rt.cpp.
// In a kernel use plain CUDA, except: DYN_SHARED instead of extern __shared__, LAUNCH instead of <<<>>>.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <cuda_runtime_api.h>          // before its words for where a function runs become empty
#undef __host__
#undef __device__
#undef __global__
#undef __constant__
#undef __shared__
#undef __launch_bounds__
#undef __grid_constant__
#define EMU_NOTSAN __attribute__((no_sanitize("thread")))
#define __host__
#define __device__
#define __global__
#define __constant__
#ifdef __clang__
#define __shared__ static          // one block at a time, so one copy is enough
#else
#define __shared__ static __constinit  // as above; without __constinit g++ guards static arrays of bf16 with a flag
#endif
#define __launch_bounds__(...)
#define __grid_constant__
#include <cuda_bf16.h>             // types and conversions work under g++; brings vector types, dim3, cudaStream_t
#ifdef EMU_THREADS
#define EMU_TLS __thread
#else
#define EMU_TLS
#endif
extern EMU_TLS uint3 threadIdx, blockIdx;
extern EMU_TLS dim3 blockDim, gridDim;
static constexpr int warpSize = 32;
namespace emu {
using WarpFn = void (*)(void* const* arg_of_lane, unsigned mask);  // run once, by the last lane to arrive
void warp_op(unsigned mask, void* arg, WarpFn fn, bool orders_memory, const char* file, int line);
int block_barrier(int pred, const char* file, int line);           // returns the number of threads with pred != 0
void* dyn_take(size_t bytes);                                      // pieces separated by red zones under ASan
void note_atomic(void* p, int bytes);
bool cas(void* p, void* expected, const void* desired, int bytes);
void fail(const char* fmt, ...) __attribute__((format(printf, 1, 2)));
int errors();                                                      // reports since the last clear()
void clear();
const char* last_message();
void set_order(const char* how);                                   // "fwd", "rev", "rand:SEED"
cudaError_t launch_raw(dim3 g, dim3 b, size_t smem, void (*call)(void*), void* clo, const void* fn, const char* file, int line);
void allow_smem(const void* fn, size_t bytes);
inline int lane_id() { return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) & 31; }
template <class T> struct Id { using type = T; };
template <class T> using Same = typename Id<T>::type;
struct Carver { template <class T> T* take(int n) { return static_cast<T*>(dyn_take(size_t(n) * sizeof(T))); } };
template <class... P, class... A>
void launch(const char* file, int line, void (*k)(P...), dim3 g, dim3 b, size_t smem, cudaStream_t, A&&... a) {
    std::tuple<std::decay_t<P>...> args(std::forward<A>(a)...);    // converted and copied once, as the driver does
    auto f = [&] { std::apply(k, args); };
    launch_raw(g, b, smem, [](void* p) { (*static_cast<decltype(f)*>(p))(); }, &f, (const void*)k, file, line);
}
template <class T> struct Shfl { T in, out; int src; };
template <class T> EMU_NOTSAN T shfl(unsigned mask, T v, int src, const char* file, int line) {
    Shfl<T> a{v, v, src};
    warp_op(mask, &a, [](void* const* p, unsigned m) EMU_NOTSAN {
        for (int l = 0; l < 32; l++) if (m >> l & 1) {
            auto& x = *static_cast<Shfl<T>*>(p[l]);
            if (m >> x.src & 1) x.out = static_cast<Shfl<T>*>(p[x.src])->in;
            else std::memset((void*)&x.out, 0xFF, sizeof(T));      // undefined on the device: poison (NaN)
        }
    }, false, file, line);
    return a.out;
}
struct Vote { int in; unsigned out; };
EMU_NOTSAN inline unsigned vote(unsigned mask, int pred, const char* file, int line) {
    Vote a{pred, 0};
    warp_op(mask, &a, [](void* const* p, unsigned m) EMU_NOTSAN {
        unsigned r = 0;
        for (int l = 0; l < 32; l++) if ((m >> l & 1) && static_cast<Vote*>(p[l])->in) r |= 1u << l;
        for (int l = 0; l < 32; l++) if (m >> l & 1) static_cast<Vote*>(p[l])->out = r;
    }, false, file, line);
    return a.out;
}
template <class T, class F> T rmw(T* p, F f) {
    note_atomic(p, sizeof(T));
    T o{}, n;                                                      // first guess; cas() writes the true value into o
    do n = f(o); while (!cas(p, &o, &n, sizeof(T)));
    return o;
}
}  // namespace emu
#define EMU_AT const char *f_ = __builtin_FILE(), int l_ = __builtin_LINE()
#define EMU_LAUNCH(kernel, grid, block, smem, stream, ...) \
    emu::launch(__FILE__, __LINE__, kernel, (grid), (block), (smem), (stream), ##__VA_ARGS__)
#define EMU_ALLOW_SMEM(kernel, bytes) (emu::allow_smem((const void*)(kernel), (bytes)), cudaSuccess)
#define DYN_SHARED(name) emu::Carver name
inline void __syncthreads(EMU_AT) { emu::block_barrier(0, f_, l_); }
inline int __syncthreads_count(int p, EMU_AT) { return emu::block_barrier(p, f_, l_); }
inline int __syncthreads_or(int p, EMU_AT) { return emu::block_barrier(p, f_, l_) != 0; }
inline void __syncwarp(unsigned m = ~0u, EMU_AT) { emu::warp_op(m, nullptr, nullptr, true, f_, l_); }
template <class T> T __shfl_sync(unsigned m, T v, int src, int w = 32, EMU_AT) {
    return emu::shfl(m, v, (emu::lane_id() & ~(w - 1)) | (src & (w - 1)), f_, l_); }
template <class T> T __shfl_xor_sync(unsigned m, T v, int x, int w = 32, EMU_AT) {
    int l = emu::lane_id(), s = l ^ x; return emu::shfl(m, v, s >= (l & ~(w - 1)) + w ? l : s, f_, l_); }
template <class T> T __shfl_down_sync(unsigned m, T v, unsigned d, int w = 32, EMU_AT) {
    int l = emu::lane_id(); return emu::shfl(m, v, (l & (w - 1)) + (int)d >= w ? l : l + (int)d, f_, l_); }
template <class T> T __shfl_up_sync(unsigned m, T v, unsigned d, int w = 32, EMU_AT) {
    int l = emu::lane_id(); return emu::shfl(m, v, (l & (w - 1)) < (int)d ? l : l - (int)d, f_, l_); }
inline unsigned __ballot_sync(unsigned m, int p, EMU_AT) { return emu::vote(m, p, f_, l_); }
inline int __any_sync(unsigned m, int p, EMU_AT) { return emu::vote(m, p, f_, l_) != 0; }
inline int __all_sync(unsigned m, int p, EMU_AT) { return emu::vote(m, !p, f_, l_) == 0; }
template <class T> T atomicAdd(T* p, emu::Same<T> v) { return emu::rmw(p, [=](T o) { return T(o + v); }); }
template <class T> T atomicMax(T* p, emu::Same<T> v) { return emu::rmw(p, [=](T o) { return o < v ? v : o; }); }
template <class T> T atomicExch(T* p, emu::Same<T> v) { return emu::rmw(p, [=](T) { return v; }); }
template <class T> T atomicCAS(T* p, emu::Same<T> c, emu::Same<T> v) { return emu::rmw(p, [=](T o) { return o == c ? v : o; }); }
inline void __threadfence() {}
inline void __threadfence_block() {}
template <class T> T __ldg(const T* p) { return *p; }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __int_as_float(int i) { float f; std::memcpy(&f, &i, 4); return f; }
inline int __float_as_int(float f) { int i; std::memcpy(&i, &f, 4); return i; }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
#define __expf(x) expf(x)          // glibc declares __expf and friends itself: only a macro can replace them
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
template <class A, class B> constexpr std::common_type_t<A, B> min(A a, B b) { return b < a ? b : a; }
template <class A, class B> constexpr std::common_type_t<A, B> max(A a, B b) { return a < b ? b : a; }
