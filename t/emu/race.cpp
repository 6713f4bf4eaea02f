// cuda_emu_race.cpp: an exact race and initialisation checker for the fibre emulation.
// Compile the .cu files with -fsanitize=thread, but link THIS instead of libtsan: the compiler's calls
// __tsan_read4(p) ... arrive here. Two accesses of one byte by different threads of a launch, one of them a
// write, are a race unless a barrier lies between them: __syncthreads for any two threads of the block,
// __syncwarp (full mask) within a warp, nothing between blocks. Shuffles and votes order no memory.
// Values do not matter, so one run in any order finds what that run's accesses contain.
#include "emu.h"
#include "emu_rt.h"
#include <link.h>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <unistd.h>
#include <unordered_map>
namespace {
using emu::S;
struct Ev { uint32_t pc = 0, launch = 0, block = 0; uint16_t be = 0, we = 0, tid = 0; uint8_t kind = 0; };
struct Cell { Ev w, r1, r2; };
struct Page { uintptr_t no; Cell c[4096]; };
std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages; Page* cache[256];
uintptr_t data_lo, data_hi, base; std::set<std::string> seen;
Page* page(uintptr_t no) {
    Page*& q = cache[no % 256];
    if (!q || q->no != no) { auto& u = pages[no]; if (!u) { u = std::make_unique<Page>(); u->no = no; } q = u.get(); }
    return q;
}
void find_module() {                                   // the writable segment of the module the kernels are in
    dl_iterate_phdr([](dl_phdr_info* i, size_t, void*) {
        bool mine = false; uintptr_t lo = 0, hi = 0;
        for (int k = 0; k < i->dlpi_phnum; k++) { auto& h = i->dlpi_phdr[k]; uintptr_t a = i->dlpi_addr + h.p_vaddr;
            if (h.p_type == PT_LOAD && (uintptr_t)&find_module - a < h.p_memsz) mine = true;
            if (h.p_type == PT_LOAD && (h.p_flags & PF_W)) { lo = a; hi = a + h.p_memsz; } }
        if (mine) { base = i->dlpi_addr; data_lo = lo; data_hi = hi; }
        return int(mine); }, nullptr);
}
std::string line_of(uint32_t pc) {
    char cmd[300], out[300] = "?", exe[200] = {}; if (readlink("/proc/self/exe", exe, sizeof exe - 1) < 0) return out;
    snprintf(cmd, sizeof cmd, "addr2line -s -i -e %s %x", exe, pc - 1);
    if (FILE* f = popen(cmd, "r")) { std::string r; while (fgets(out, sizeof out, f)) { char* c = strpbrk(out, " \n"); if (c) *c = 0; if (!strncmp(out, "cuda_bf16", 9)) continue; r += (r.empty() ? "" : " < ") + std::string(out); } pclose(f); return r; }
    return out;
}
const char* name(int k) { return k == 0 ? "read" : k == 1 ? "write" : "atomic"; }
void report(const Ev& a, const Ev& b, const void* p, bool sh) {
    char key[64]; snprintf(key, sizeof key, "%x/%x/%d", a.pc, b.pc, b.kind);
    if (!seen.insert(key).second) return;
    bool slow = seen.size() <= 6;
    emu::fail("race in %s memory at %p: %s by thread %d of block %u at %s, %s by thread %d of block %u at %s, no barrier between", sh ? "shared" : "global", p,
              name(a.kind), a.tid, a.block, slow ? line_of(a.pc).c_str() : "?", name(b.kind), b.tid, b.block, slow ? line_of(b.pc).c_str() : "?");
}
inline bool ordered(const Ev& a, const Ev& c, bool sh) {
    if (a.launch != c.launch) return true;
    if (a.block != c.block) return sh;                   // shared: another block's copy. Global: blocks are never ordered
    return a.tid == c.tid || a.be != c.be || (a.tid / 32 == c.tid / 32 && a.we != c.we);
}
inline bool stale(const Ev& a, const Ev& c, bool sh) {   // may the newer reader take this slot?
    return a.launch != c.launch || (a.block == c.block ? a.tid == c.tid || a.be != c.be || (a.tid / 32 == c.tid / 32 && a.we != c.we) : sh);
}
}  // namespace
extern "C" void emu_race_access(const void* ptr, int n, int kind, void* pc) {
    const char* q = (const char*)ptr;
    if (q >= S.stack_lo && q < S.stack_hi) return;
    if (!data_hi) find_module();
    const uintptr_t p = (uintptr_t)ptr; bool sh = q >= S.dyn_lo && q < S.dyn_hi;
    if (!sh && p - data_lo < data_hi - data_lo) {
        if (p - (uintptr_t)&threadIdx < sizeof threadIdx || p - (uintptr_t)&blockIdx < sizeof blockIdx || p - (uintptr_t)&blockDim < sizeof blockDim || p - (uintptr_t)&gridDim < sizeof gridDim) return;
        sh = true;                                       // a __shared__ (static) variable
    }
    Ev c; c.pc = uint32_t((uintptr_t)pc - base); c.launch = S.launch; c.block = uint32_t(S.block); c.be = S.block_epoch; c.tid = S.cur; c.we = S.warp_epoch[S.cur / 32]; c.kind = kind;
    for (int i = 0; i < n; i++) {
        Cell& x = page((p + i) >> 12)->c[(p + i) & 4095];
        if (!ordered(x.w, c, sh) && !(kind == 2 && x.w.kind == 2)) report(x.w, c, ptr, sh);
        if (kind) {
            if (!ordered(x.r1, c, sh)) report(x.r1, c, ptr, sh);
            if (!ordered(x.r2, c, sh)) report(x.r2, c, ptr, sh);
            x.w = c;
        } else {
            if (sh && (x.w.launch != c.launch || x.w.block != c.block)) {
                char key[32]; snprintf(key, sizeof key, "u%x", c.pc);
                if (seen.insert(key).second) emu::fail("shared memory at %p (+%ld) read before it was written, by thread %d of block %u at %s", ptr, (long)(q - S.dyn_lo), c.tid, c.block, line_of(c.pc).c_str());
            }
            if (stale(x.r1, c, sh)) x.r1 = c;
            else if (stale(x.r2, c, sh) || (x.r1.block == x.r2.block && x.r1.tid / 32 == x.r2.tid / 32)) x.r2 = c;
        }
    }
}
#define IN(n, k) if (S.cur >= 0) emu_race_access(p, n, k, __builtin_return_address(0))
#define RW(n) \
    extern "C" void __tsan_read##n(void* p) { IN(n, 0); } \
    extern "C" void __tsan_write##n(void* p) { IN(n, 1); } \
    extern "C" void __tsan_unaligned_read##n(void* p) { IN(n, 0); } \
    extern "C" void __tsan_unaligned_write##n(void* p) { IN(n, 1); }
RW(1) RW(2) RW(4) RW(8) RW(16)
extern "C" void __tsan_read_range(void* p, size_t n) { IN((int)n, 0); }
extern "C" void __tsan_write_range(void* p, size_t n) { IN((int)n, 1); }
extern "C" void __tsan_init() {}
extern "C" void __tsan_func_entry(void*) {}
extern "C" void __tsan_func_exit() {}
extern "C" void __tsan_vptr_update(void**, void*) {}
extern "C" void __tsan_vptr_read(void**) {}
