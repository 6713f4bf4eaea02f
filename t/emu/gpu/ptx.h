/* ptx.h -- the emulator's version of kernels/cuda/gpu/ptx.h. */
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

/* Returns y, off by the largest error that NVIDIA's manuals allow the functions below: 2^-22 of it, up or
 * down by bits of the operand x. */
inline float off_by_most(float y, float x)
{
	const unsigned bits = __float_as_uint(x);

	return y * ((bits ^ bits >> 9) & 1 ? 1 + 0x1p-22f : 1 - 0x1p-22f);
}

inline float exp2_ftz(float x)
{
	const float y = exp2f(x);

	return fabsf(x) < 0x1p-126f ? 1 : y < 0x1p-126f ? 0 : off_by_most(y, x);
}

inline float quotient(float a, float b) { return fabsf(b) > 0x1p126f ? a * 0 : off_by_most(a / b, a + b); }

#endif
