/* emu_mma.h -- matrix units: nvcuda::wmma of 16 x 16 x 16, bf16 to float, and what gpu/ptx.h calls for
 * mma.sync m16n8k16 and ldmatrix. */
#ifndef EMU_MMA_H
#define EMU_MMA_H

#include "emu.h"
#include "emu_rt.h"

namespace emu
{

/* Checks that all lanes name the same matrix, and the alignment of loads: 32 bytes, and 16 for rows. */
void wmma_place(const void *p, unsigned ld, size_t size, const char *file, int line);
void wmma_multiply(float *d, const __nv_bfloat16 *a, const __nv_bfloat16 *b, const float *c, const char *file,
                   int line);
void mma(float *d, const uint32_t *a, const uint32_t *b, const float *c, const char *file, int line);
void ldmatrix(uint32_t *r, const void *row, int n, bool transposed, const char *file, int line);

} // namespace emu

namespace nvcuda
{
namespace wmma
{

struct matrix_a {
};
struct matrix_b {
};
struct accumulator {
};
struct row_major {
};
struct col_major {
};
enum layout_t { mem_row_major, mem_col_major };

/* A tile.  Element i of lane l is element 32 i + l of the tile.  No GPU has this order, so a kernel that
 * relies on the order of the elements fails. */
template <class Use, int M, int N, int K, class T, class Layout = void> struct fragment {
	static_assert(M == 16 && N == 16 && K == 16, "16 x 16 x 16 is what there is here");
	enum { num_elements = 8 };
	T x[8];
};

template <class F, class T> void fill_fragment(F &f, T v)
{
	for (auto &e : f.x)
		e = v;
}

inline size_t place(int i, unsigned ld, bool by_rows)
{
	const unsigned e = 32 * (unsigned)i + (unsigned)emu::lane(), r = e / 16, c = e % 16;

	return by_rows ? (size_t)r * ld + c : (size_t)c * ld + r;
}

/* Lanes meet after they have loaded and before they store, so that a missing barrier before or after
 * shows. */
template <class Use, class T, class Layout>
void load_matrix_sync(fragment<Use, 16, 16, 16, T, Layout> &f, const T *p, unsigned ld, EMU_AT)
{
	for (int i = 0; i < 8; i++)
		f.x[i] = p[place(i, ld, std::is_same<Layout, row_major>::value)];
	emu::wmma_place(p, ld, sizeof(T), file_, line_);
}

template <class T>
void load_matrix_sync(fragment<accumulator, 16, 16, 16, T> &f, const T *p, unsigned ld, layout_t layout,
                      EMU_AT)
{
	for (int i = 0; i < 8; i++)
		f.x[i] = p[place(i, ld, layout == mem_row_major)];
	emu::wmma_place(p, ld, sizeof(T), file_, line_);
}

template <class T>
void store_matrix_sync(T *p, const fragment<accumulator, 16, 16, 16, T> &f, unsigned ld, layout_t layout,
                       EMU_AT)
{
	emu::wmma_place(p, ld, sizeof(T), file_, line_);
	for (int i = 0; i < 8; i++)
		p[place(i, ld, layout == mem_row_major)] = f.x[i];
}

template <class LA, class LB>
void mma_sync(fragment<accumulator, 16, 16, 16, float> &d,
              const fragment<matrix_a, 16, 16, 16, __nv_bfloat16, LA> &a,
              const fragment<matrix_b, 16, 16, 16, __nv_bfloat16, LB> &b,
              const fragment<accumulator, 16, 16, 16, float> &c, EMU_AT)
{
	emu::wmma_multiply(d.x, a.x, b.x, c.x, file_, line_);
}

} // namespace wmma
} // namespace nvcuda

#endif
