// cuda_emu_rt.cpp: the scheduler of the host emulation.  Variants, by macro:
//   (none) fibres, switched in assembly (x86-64)   -DEMU_UCONTEXT fibres by swapcontext   -DEMU_THREADS pthreads
#include "emu.h"
#include "emu_rt.h"
#include <sys/mman.h>
#include <chrono>
#include <condition_variable>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define ASAN(x) x
#else
#define ASAN(x)
#endif
#ifdef EMU_NO_ANNOTATION          // for the experiment only
#define ASANSW(x)
#else
#define ASANSW(x) ASAN(x)
#endif
#if defined(EMU_TSANFIBRE)      // ThreadSanitizer over fibres
extern "C" { void* __tsan_get_current_fiber(); void* __tsan_create_fiber(unsigned); void __tsan_destroy_fiber(void*);
             void __tsan_switch_to_fiber(void*, unsigned); void __tsan_acquire(void*); void __tsan_release(void*); }
#define TSANF(x) x
#else
#define TSANF(x)
#endif
#if !defined(EMU_THREADS) && (defined(EMU_UCONTEXT) || !defined(__x86_64__))
#define USE_UCONTEXT 1
#include <ucontext.h>
#endif
#ifdef EMU_THREADS
#define LOCK(m) std::unique_lock<std::mutex> lk(m)
#else
#define LOCK(m) ((void)0)
#endif
#ifdef __clang__
#define EMU_NOIPA __attribute__((noinline))
#else
#define EMU_NOIPA __attribute__((noipa))
#endif
EMU_TLS uint3 threadIdx, blockIdx;
EMU_TLS dim3 blockDim, gridDim;
namespace emu {
State S;
namespace {
constexpr size_t kStack = 256 << 10, kGuard = 4096, kRed = 128, kMaxSmem = 227 << 10, kArena = kMaxSmem + 64 * kRed;
struct Lane {
    int lin = 0; uint3 idx{};
    bool at_warp = false, at_block = false, done = true;
    unsigned mask = 0; void* arg = nullptr; WarpFn fn = nullptr; bool orders = false;    // the warp operation waited for
    const char* file = ""; int line = 0, count = 0;
    size_t off = 0, taken = 0;                                                            // dynamic shared memory
#ifdef EMU_THREADS
    std::condition_variable cv;
#else
    char* stack = nullptr; size_t stack_size = kStack; void *sp = nullptr, *fake = nullptr, *tf = nullptr; bool fresh = true;
#ifdef USE_UCONTEXT
    ucontext_t uc;
#endif
#endif
};
Lane* lanes = nullptr; int nlanes, alive, waiting, preds;
Lane main_lane; EMU_TLS Lane* cur;
void (*g_call)(void*); void* g_clo; size_t g_smem; std::map<const void*, size_t> allowed;
alignas(128) char arena[kArena]; const int fill_byte = getenv("EMU_ZERO") ? 0 : 0xFF;   // 0 for the experiment only
unsigned arrived_in[32], live_in[32];                     // per warp: lanes in a warp operation, lanes not yet returned
int n_err; std::string last_msg; cudaError_t last_err = cudaSuccess;
int mode = -1; std::mt19937 rng; bool lockstep = getenv("EMU_LOCKSTEP");
#ifdef EMU_THREADS
std::mutex mu_warp[32], mu_block, mu_turn; std::condition_variable cv_turn; int turn_n; unsigned turn_gen;
#endif
TSANF(char t_blk[2]; char t_warp[32][2]; char t_start; char t_end; int p_blk; int p_warp[32];)

#ifndef EMU_THREADS
#ifndef USE_UCONTEXT
extern "C" void emu_switch(void** save, void* to);
asm(R"(.text
.globl emu_switch
.type emu_switch,@function
emu_switch:
  pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
  movq %rsp,(%rdi); movq %rsi,%rsp
  popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
  ret
.size emu_switch,.-emu_switch)");
#endif
void arrived(Lane& me) {                      // first thing on the new stack: ASan learns where we came from
    ASANSW(const void* lo; size_t sz; __sanitizer_finish_switch_fiber(me.fake, &lo, &sz);
         if (&me != &main_lane) { main_lane.stack = (char*)lo; main_lane.stack_size = sz; })
    (void)me;
}
EMU_NOIPA void switch_to(Lane& from, Lane& to) {
    ASANSW(__sanitizer_start_switch_fiber(&from.fake, to.stack, to.stack_size);)
    TSANF(__tsan_switch_to_fiber(to.tf, 1 /* no synchronisation implied */);)
#ifdef USE_UCONTEXT
    swapcontext(&from.uc, &to.uc);
#else
    emu_switch(&from.sp, to.sp);
#endif
    arrived(from);
}
#endif
bool try_warp(int w, unsigned mask) {         // have all live lanes named in mask arrived at the same operation?
    if (mask & live_in[w] & ~arrived_in[w]) return false;
    Lane *ws = lanes + 32 * w, *first = nullptr; int n = min(32, nlanes - 32 * w);
    unsigned live = 0, all = 0; void* args[32] = {};
    for (int l = 0; l < n; l++) {
        if (ws[l].done) continue;
        all |= 1u << l;
        if (!(mask >> l & 1)) continue;
        if (!ws[l].at_warp || ws[l].mask != mask) return false;
        if (!first) first = &ws[l]; else if (ws[l].fn != first->fn || ws[l].line != first->line) return false;
        live |= 1u << l; args[l] = ws[l].arg;
    }
    if (!first) return false;
    if (first->fn) first->fn(args, live);
    if (first->orders && live == all) S.warp_epoch[w]++;       // a partial __syncwarp is not modelled as ordering
    arrived_in[w] &= ~live;
    for (int l = 0; l < n; l++) if (live >> l & 1) { ws[l].at_warp = false;
#ifdef EMU_THREADS
        ws[l].cv.notify_one();
#endif
    }
    TSANF(if (first->orders) p_warp[w] ^= 1;)
    return true;
}
bool try_block() {
    if (!waiting || waiting < alive) return false;
    const Lane *a = nullptr, *b = nullptr;
    for (int i = 0; i < nlanes; i++) if (lanes[i].at_block) { if (!a) a = &lanes[i]; else if (lanes[i].line != a->line) b = &lanes[i]; }
    if (b) fail("divergent barrier: thread %d at %s:%d but thread %d at %s:%d", a->lin, a->file, a->line, b->lin, b->file, b->line);
    S.block_epoch++;
    for (int i = 0; i < nlanes; i++) if (lanes[i].at_block) { lanes[i].count = preds; lanes[i].at_block = false;
#ifdef EMU_THREADS
        lanes[i].cv.notify_one();
#endif
    }
    waiting = preds = 0;
    TSANF(p_blk ^= 1;)
    return true;
}
void report_stuck() {
    std::string s; int shown = 0; const Lane* prev = nullptr;
    for (int i = 0; i < nlanes && shown < 6; i++) {
        Lane& x = lanes[i];
        if (x.done || (prev && prev->line == x.line && prev->mask == x.mask)) continue;
        char t[300]; snprintf(t, sizeof t, "; thread %d waits at %s:%d (%s", i, x.file, x.line, x.at_block ? "block barrier)" : "warp operation, mask ");
        s += t; if (x.at_warp) { snprintf(t, sizeof t, "%08x)", x.mask); s += t; }
        prev = &x; shown++;
    }
    fail("deadlock: %d of %d threads live, none can go on%s", alive, nlanes, s.c_str());
}
void leave(Lane& me) {                        // the thread has returned from the kernel
    { LOCK(mu_warp[me.lin / 32]);
      me.done = true; live_in[me.lin / 32] &= ~(1u << me.lin % 32);
      for (int l = me.lin & ~31; l < min((me.lin & ~31) + 32, nlanes); l++) if (lanes[l].at_warp && try_warp(me.lin / 32, lanes[l].mask)) break; }
    { LOCK(mu_block); alive--; try_block(); }
}
void begin_block(dim3 g, size_t b) {
    for (int i = 0; i < nlanes; i++) { Lane& x = lanes[i]; x.done = x.at_warp = x.at_block = false; x.taken = 0; x.off = kRed; }
    for (int w = 0; w < 32; w++) { int n = nlanes - 32 * w; arrived_in[w] = 0; live_in[w] = n >= 32 ? ~0u : n > 0 ? (1u << n) - 1 : 0; }
    alive = nlanes; waiting = preds = 0; S.block = b; S.block_epoch = 0; std::fill(S.warp_epoch, S.warp_epoch + 32, 0u);
    ASAN(__asan_unpoison_memory_region(arena, kArena);)
    memset(arena, fill_byte, g_smem + 64 * kRed < kArena ? g_smem + 64 * kRed : kArena);      // starts as NaN, never as 0
    ASAN(__asan_poison_memory_region(arena, kArena);)
    (void)g;
}
void set_block(dim3 g, size_t b) { blockIdx = {unsigned(b % g.x), unsigned(b / g.x % g.y), unsigned(b / g.x / g.y)}; }
void order(std::vector<int>& o, int n) {
    o.resize(n); for (int i = 0; i < n; i++) o[i] = mode == 1 ? n - 1 - i : i;
    if (mode == 2) std::shuffle(o.begin(), o.end(), rng);
}
#ifdef EMU_THREADS
void turn(int n, const std::function<void()>& last) {
    std::unique_lock<std::mutex> lk(mu_turn); unsigned g = turn_gen;
    if (++turn_n == n) { turn_n = 0; turn_gen++; last(); cv_turn.notify_all(); } else cv_turn.wait(lk, [&] { return turn_gen != g; });
}
void run_blocks(dim3 g, dim3 b, const std::vector<int>& blocks) {
    std::vector<std::thread> pool;
    for (int t = 0; t < nlanes; t++) pool.emplace_back([&, t] {
        cur = &lanes[t]; threadIdx = cur->idx; blockDim = b; gridDim = g;
        for (int k : blocks) { turn(nlanes, [&] { begin_block(g, k); }); set_block(g, k); g_call(g_clo); leave(*cur); }
    });
    for (auto& t : pool) t.join();
}
template <class L> void wait(bool& flag, L& lk) {
    Lane& me = *cur;
    while (flag) if (me.cv.wait_for(lk, std::chrono::seconds(20)) == std::cv_status::timeout && flag) { report_stuck(); abort(); }
}
#else
void fibre_main() {
    for (arrived(*cur);;) {
        TSANF(__tsan_acquire(&t_start);)
        g_call(g_clo);
        TSANF(__tsan_release(&t_end);)
        leave(*cur);
        switch_to(*cur, main_lane);
    }
}
void prepare(Lane& x) {
    if (!x.fresh) return;
    x.fresh = false; x.fake = nullptr;
    ASAN(__asan_unpoison_memory_region(x.stack, kStack);)
    TSANF(if (x.tf) __tsan_destroy_fiber(x.tf); x.tf = __tsan_create_fiber(0);)
#ifdef USE_UCONTEXT
    getcontext(&x.uc); x.uc.uc_stack.ss_sp = x.stack; x.uc.uc_stack.ss_size = kStack; x.uc.uc_link = nullptr; makecontext(&x.uc, fibre_main, 0);
#else
    void** t = (void**)(x.stack + kStack - x.lin * 208 % 8192) - 1;   // 8 modulo 16 as after a call; staggered, or the stacks share cache sets
    *t = nullptr; *--t = (void*)fibre_main; for (int i = 0; i < 6; i++) *--t = nullptr; x.sp = t;
#endif
}
void run_blocks(dim3 g, dim3 b, const std::vector<int>& blocks) {
    std::vector<int> o; blockDim = b; gridDim = g;
    TSANF(main_lane.tf = __tsan_get_current_fiber();)
    for (int k : blocks) {
        begin_block(g, k); set_block(g, k);
        for (int i = 0; i < nlanes; i++) prepare(lanes[i]);
        TSANF(__tsan_release(&t_start);)
        const int nw = (nlanes + 31) / 32;
        while (alive > 0) {
            bool progress = false;
            order(o, lockstep ? 1 : nw);                    // warp by warp: each runs until all its threads wait for the block
            for (int w : o) {
                std::vector<int> in; order(in, lockstep ? nlanes : min(32, nlanes - 32 * w));
                for (bool again = true; again; again = again && !lockstep) {
                    again = false;
                    for (int i : in) { Lane& x = lanes[32 * w + i];
                        if (x.done || x.at_warp || x.at_block) continue;
                        progress = again = true; cur = &x; threadIdx = x.idx; S.cur = x.lin;
                        switch_to(main_lane, x);
                        S.cur = -1; }
                }
            }
            if (!progress) {                                // abandon the fibres where they stand
                report_stuck(); last_err = cudaErrorLaunchFailure;
                for (int i = 0; i < nlanes; i++) lanes[i].fresh = true;
                return;
            }
        }
        TSANF(__tsan_acquire(&t_end);)
    }
}
template <class L> void wait(bool& flag, L&) { while (flag) switch_to(*cur, main_lane); asm volatile("" ::: "memory"); }
#endif
}  // namespace
EMU_NOIPA void warp_op(unsigned mask, void* arg, WarpFn fn, bool orders, const char* file, int line) {
    Lane& me = *cur; int w = me.lin / 32;
    if (!(mask >> (me.lin & 31) & 1)) fail("thread %d is not in its own mask %08x at %s:%d", me.lin, mask, file, line);
    TSANF(char* t = &t_warp[w][p_warp[w]]; if (orders) __tsan_release(t);)
#ifdef EMU_THREADS
    LOCK(mu_warp[w]);
#else
    int lk = 0;
#endif
    me.mask = mask; me.arg = arg; me.fn = fn; me.orders = orders; me.file = file; me.line = line; me.at_warp = true; arrived_in[w] |= 1u << me.lin % 32;
    if (!try_warp(w, mask)) wait(me.at_warp, lk);
    TSANF(if (orders) __tsan_acquire(t);)
}
EMU_NOIPA int block_barrier(int pred, const char* file, int line) {
    Lane& me = *cur;
    TSANF(char* t = &t_blk[p_blk]; __tsan_release(t);)
#ifdef EMU_THREADS
    LOCK(mu_block);
#else
    int lk = 0;
#endif
    me.file = file; me.line = line; me.at_block = true; waiting++; preds += pred != 0;
    if (!try_block()) wait(me.at_block, lk);
    TSANF(__tsan_acquire(t);)
    return me.count;
}
void* dyn_take(size_t bytes) {                // the n-th piece is the same for every thread; red zones lie between
    Lane& me = *cur; size_t need = (bytes + 127) / 128 * 128; char* p = arena + me.off;
    me.taken += need; me.off += need + kRed;
    if (me.taken > g_smem && me.lin == 0) fail("dynamic shared memory: pieces of %zu bytes taken, launch gave %zu", me.taken, g_smem);
    if (me.off > kArena) { fail("dynamic shared memory: arena exhausted"); abort(); }
    ASAN(__asan_unpoison_memory_region(p, bytes);)
    return p;
}
cudaError_t launch_raw(dim3 g, dim3 b, size_t smem, void (*call)(void*), void* clo, const void* fn, const char* file, int line) {
    snprintf(S.where, sizeof S.where, "launch at %s:%d", file, line); S.block = 0;
    size_t n = size_t(b.x) * b.y * b.z, nb = size_t(g.x) * g.y * g.z, lim = allowed.count(fn) ? allowed[fn] : 48 << 10;
    if (!n || n > 1024 || b.z > 64) { fail("block of %ux%ux%u threads", b.x, b.y, b.z); return last_err = cudaErrorInvalidConfiguration; }
    if (!nb || g.x > 0x7fffffffu || g.y > 65535 || g.z > 65535) { fail("grid of %ux%ux%u blocks", g.x, g.y, g.z); return last_err = cudaErrorInvalidConfiguration; }
    if (smem > lim) { fail("%zu bytes of dynamic shared memory, allowed %zu (ALLOW_SMEM)", smem, lim); return last_err = cudaErrorInvalidValue; }
    if (mode < 0) set_order(getenv("EMU_ORDER") ? getenv("EMU_ORDER") : "fwd");
    if (!lanes) {
        lanes = new Lane[1024];
#ifndef EMU_THREADS
        size_t step = kStack + kGuard;
        char* m = (char*)mmap(nullptr, 1024 * step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        for (int i = 0; i < 1024; i++) { mprotect(m + i * step, kGuard, PROT_NONE); lanes[i].stack = m + i * step + kGuard; }
        S.stack_lo = m; S.stack_hi = m + 1024 * step;
#endif
    }
    nlanes = int(n); g_call = call; g_clo = clo; g_smem = smem; S.launch++; S.dyn_lo = arena; S.dyn_hi = arena + kArena;
    for (int i = 0; i < nlanes; i++) { lanes[i].lin = i; lanes[i].idx = {i % b.x, i / b.x % b.y, i / b.x / b.y}; }
    std::vector<int> blocks; order(blocks, int(nb));
    run_blocks(g, b, blocks);
    return last_err;
}
void fail(const char* fmt, ...) {
    char b[1500]; va_list a; va_start(a, fmt); vsnprintf(b, sizeof b, fmt, a); va_end(a);
    char at[240]; snprintf(at, sizeof at, " [%s, block %zu]", S.where, S.block); last_msg = std::string(b) + at;
    if (n_err++ < 5 && !getenv("EMU_QUIET")) fprintf(stderr, "EMU: %s\n", last_msg.c_str());
    if (getenv("EMU_ABORT")) abort();
}
int errors() { return n_err; }
void clear() { n_err = 0; last_msg.clear(); last_err = cudaSuccess; }
const char* last_message() { return last_msg.c_str(); }
cudaError_t take_error() { cudaError_t e = last_err; last_err = cudaSuccess; return e; }
void set_order(const char* h) { mode = !strncmp(h, "rand", 4) ? 2 : !strcmp(h, "rev") ? 1 : 0; if (mode == 2) rng.seed(h[4] ? atoi(h + 5) : 1); }
void allow_smem(const void* fn, size_t n) { if (n > kMaxSmem) { fail("ALLOW_SMEM(%zu): more than any GPU has", n); last_err = cudaErrorInvalidValue; } else allowed[fn] = n; }
void note_atomic(void* p, int n) { if (emu_race_access && S.cur >= 0) emu_race_access(p, n, 2, __builtin_return_address(0)); }
bool cas(void* p, void* e, const void* d, int n) {
#define CAS(T) { T t; memcpy(&t, d, sizeof t); return __atomic_compare_exchange_n((T*)p, (T*)e, t, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED); }
    if (n == 2) CAS(uint16_t)
    if (n == 4) CAS(uint32_t)
    CAS(uint64_t)
}
}  // namespace emu
