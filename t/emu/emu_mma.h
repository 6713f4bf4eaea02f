// emu_mma.h: matrix units.  nvcuda::wmma 16x16x16 bf16 -> float, and mma.sync m16n8k16 / ldmatrix
// as functions: PTX under nvcc, the definition (PTX ISA fragment layouts) on the host.
#pragma once
#include "emu.h"
#ifdef __CUDACC__
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], const float (&c)[4]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&r)[4], const void* row) {
    uint32_t s = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(s) : "memory");
}
__device__ __forceinline__ void ldmatrix_x2_trans(uint32_t (&r)[2], const void* row) {
    uint32_t s = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(s) : "memory");
}
#else
namespace nvcuda { namespace wmma {
struct matrix_a {}; struct matrix_b {}; struct accumulator {}; struct row_major {}; struct col_major {};
enum layout_t { mem_row_major, mem_col_major };
template <class Use, int M, int N, int K, class T, class L = void> struct fragment {
    static_assert(M == 16 && N == 16 && K == 16, "the host twin knows 16x16x16 only");
    enum { num_elements = 8 };
    T x[8];
};
// Element i of lane l is element e = 32*i + l of the row-major 16x16 tile: on purpose NOT the device's
// (unspecified) mapping, so that a kernel relying on one fails here.
template <class F, class T> void fill_fragment(F& f, T v) { for (auto& e : f.x) e = v; }
struct Where { const void* p; unsigned ld; };
inline void uniform(const void* p, unsigned ld, int esize, const char* f, int l) {
    if ((uintptr_t)p % 32 || ld * esize % 16) emu::fail("wmma: pointer %p or leading dimension %u misaligned at %s:%d", p, ld, f, l);
    Where w{p, ld};
    emu::warp_op(~0u, &w, [](void* const* a, unsigned m) EMU_NOTSAN {
        const Where* x = nullptr;
        if (m != ~0u) emu::fail("wmma: only lanes %08x take part", m);
        for (int i = 0; i < 32; i++) if (m >> i & 1) { auto* y = static_cast<Where*>(a[i]); if (!x) x = y; else if (x->p != y->p || x->ld != y->ld) emu::fail("wmma: lanes disagree on the pointer"); }
    }, false, f, l);
}
template <class Use, class T, class L> void load_matrix_sync(fragment<Use, 16, 16, 16, T, L>& f, const T* p, unsigned ld, EMU_AT) {
    for (int i = 0, l = emu::lane_id(); i < 8; i++) { int e = 32 * i + l, r = e / 16, c = e % 16; f.x[i] = std::is_same<L, row_major>::value ? p[r * ld + c] : p[c * ld + r]; }
    uniform(p, ld, sizeof(T), f_, l_);            // after the loads: a missing barrier before them must show
}
template <class T> void load_matrix_sync(fragment<accumulator, 16, 16, 16, T>& f, const T* p, unsigned ld, layout_t y, EMU_AT) {
    for (int i = 0, l = emu::lane_id(); i < 8; i++) { int e = 32 * i + l, r = e / 16, c = e % 16; f.x[i] = y == mem_row_major ? p[r * ld + c] : p[c * ld + r]; }
    uniform(p, ld, sizeof(T), f_, l_);
}
template <class T> void store_matrix_sync(T* p, const fragment<accumulator, 16, 16, 16, T>& f, unsigned ld, layout_t y, EMU_AT) {
    uniform(p, ld, sizeof(T), f_, l_);            // before the stores
    for (int i = 0, l = emu::lane_id(); i < 8; i++) { int e = 32 * i + l, r = e / 16, c = e % 16; (y == mem_row_major ? p[r * ld + c] : p[c * ld + r]) = f.x[i]; }
}
template <class LA, class LB> struct MmaArg {
    fragment<accumulator, 16, 16, 16, float>* d; const fragment<matrix_a, 16, 16, 16, __nv_bfloat16, LA>* a;
    const fragment<matrix_b, 16, 16, 16, __nv_bfloat16, LB>* b; const fragment<accumulator, 16, 16, 16, float>* c;
};
template <class LA, class LB>
void mma_sync(fragment<accumulator, 16, 16, 16, float>& d, const fragment<matrix_a, 16, 16, 16, __nv_bfloat16, LA>& a,
              const fragment<matrix_b, 16, 16, 16, __nv_bfloat16, LB>& b, const fragment<accumulator, 16, 16, 16, float>& c, EMU_AT) {
    using Arg = MmaArg<LA, LB>;
    Arg g{&d, &a, &b, &c};
    emu::warp_op(~0u, &g, [](void* const* p, unsigned m) EMU_NOTSAN {
        if (m != ~0u) { emu::fail("mma_sync: only lanes %08x take part", m); return; }
        float A[256], B[256], D[256];
        for (int e = 0; e < 256; e++) {
            auto* x = static_cast<Arg*>(p[e % 32]);
            A[e] = __bfloat162float(x->a->x[e / 32]); B[e] = __bfloat162float(x->b->x[e / 32]); D[e] = x->c->x[e / 32];
        }
        for (int i = 0; i < 16; i++) for (int k = 0; k < 16; k++) for (int j = 0; j < 16; j++) D[i * 16 + j] += A[i * 16 + k] * B[k * 16 + j];
        for (int e = 0; e < 256; e++) static_cast<Arg*>(p[e % 32])->d->x[e / 32] = D[e];
    }, false, f_, l_);
}
} }  // namespace nvcuda::wmma
namespace emu {
EMU_NOTSAN inline float half_of(uint32_t w, int i) { uint32_t u = (i ? w & 0xFFFF0000u : w << 16); float f; std::memcpy(&f, &u, 4); return f; }
struct Mma { float* d; const uint32_t *a, *b; const float* c; };
struct Ldm { uint16_t own[8]; uint32_t* r; int n; bool trans; };
inline void ldmatrix(uint32_t* r, const void* row, int n, bool trans, const char* f, int l) {
    Ldm g{{}, r, n, trans};
    if (lane_id() < 8 * n) {                              // each lane reads the row it names, before the exchange
        if ((uintptr_t)row % 16) fail("ldmatrix: row address %p not 16-byte aligned at %s:%d", row, f, l);
        for (int i = 0; i < 8; i++) g.own[i] = static_cast<const uint16_t*>(row)[i];
    }
    warp_op(~0u, &g, [](void* const* p, unsigned m) EMU_NOTSAN {
        if (m != ~0u) { fail("ldmatrix: only lanes %08x take part", m); return; }
        for (int L = 0; L < 32; L++) { auto* x = static_cast<Ldm*>(p[L]);
            for (int q = 0; q < x->n; q++) {
                uint32_t w = 0;
                for (int h = 0; h < 2; h++) {
                    int rr = x->trans ? L % 4 * 2 + h : L / 4, cc = x->trans ? L / 4 : L % 4 * 2 + h;
                    w |= uint32_t(static_cast<Ldm*>(p[q * 8 + rr])->own[cc]) << 16 * h;
                }
                x->r[q] = w;
            } }
    }, false, f, l);
}
}
inline void ldmatrix_x4(uint32_t (&r)[4], const void* row, EMU_AT) { emu::ldmatrix(r, row, 4, false, f_, l_); }
inline void ldmatrix_x4_trans(uint32_t (&r)[4], const void* row, EMU_AT) { emu::ldmatrix(r, row, 4, true, f_, l_); }
inline void ldmatrix_x2_trans(uint32_t (&r)[2], const void* row, EMU_AT) { emu::ldmatrix(r, row, 2, true, f_, l_); }
inline void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], const float (&c)[4], EMU_AT) {
    emu::Mma g{d, a, b, c};
    emu::warp_op(~0u, &g, [](void* const* p, unsigned m) EMU_NOTSAN {
        if (m != ~0u) { emu::fail("mma.sync: only lanes %08x take part", m); return; }
        float A[16][16], B[16][8], D[16][8];
        for (int L = 0; L < 32; L++) { auto* x = static_cast<emu::Mma*>(p[L]); int gr = L / 4, t = L % 4;
            for (int i = 0; i < 8; i++) A[gr + (i / 2 % 2) * 8][t * 2 + i % 2 + i / 4 * 8] = emu::half_of(x->a[i / 2], i % 2);
            for (int i = 0; i < 4; i++) B[t * 2 + i % 2 + i / 2 * 8][gr] = emu::half_of(x->b[i / 2], i % 2);
            for (int i = 0; i < 4; i++) D[gr + i / 2 * 8][t * 2 + i % 2] = x->c[i]; }
        for (int i = 0; i < 16; i++) for (int k = 0; k < 16; k++) for (int j = 0; j < 8; j++) D[i][j] += A[i][k] * B[k][j];
        for (int L = 0; L < 32; L++) for (int i = 0; i < 4; i++) static_cast<emu::Mma*>(p[L])->d[i] = D[L / 4 + i / 2 * 8][L % 4 * 2 + i % 2];
    }, false, f_, l_);
}
#endif
