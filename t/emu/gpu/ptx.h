/* ptx.h -- the functions of kernels/gpu/ptx.h as the emulator has them. */
#ifndef EMU_GPU_PTX_H
#define EMU_GPU_PTX_H

#include "emu_mma.h"

inline void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, EMU_AT)
{
	const uint32_t b[2] = { b0, b1 };

	emu::mma(c, a, b, c, file_, line_);
}

template <bool TRANSPOSE> inline void load_four(uint32_t (&x)[4], const __nv_bfloat16 *row, EMU_AT)
{
	emu::ldmatrix(x, row, 4, TRANSPOSE, file_, line_);
}

inline void copy_16(void *to, const void *from) { emu::copy_16(to, from); }
inline void copies_close() { emu::copies_close(); }
template <int n> inline void copies_wait() { emu::copies_wait(n); }

inline float exp2_ftz(float x) { return exp2f(x); }
inline float quotient(float a, float b) { return a / b; }

#endif
