/* vec.h -- 16 floats at a time, in GCC's vector language, so that one source serves every instruction set.
 *
 * exp is a polynomial (relative error below 2e-7, tested): the C library has a vector one only under -ffast-math. */
#ifndef RF_VEC_H
#define RF_VEC_H

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { VL = 16 };
typedef float vf __attribute__((vector_size(64)));
typedef float vfu __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t vi __attribute__((vector_size(64)));
#define INLINE static inline __attribute__((always_inline, unused))

INLINE vf vload(const float *p) { return *(const vfu *)p; }
INLINE void vstore(float *p, vf x) { *(vfu *)p = x; }
INLINE vf vset(float x) { return (vf){ 0 } + x; }
/* The first n of 16; the others read as fill. */
INLINE vf vload_n(const float *p, int n, float fill)
{
	vf x = vset(fill);
	memcpy(&x, p, (size_t)n * 4);
	return x;
}
INLINE void vstore_n(float *p, vf x, int n) { memcpy(p, &x, (size_t)n * 4); }
INLINE vf vpick(vi mask, vf yes, vf no) { return (vf)(((vi)yes & mask) | ((vi)no & ~mask)); }
/* The larger one; a NaN in a stays, so data comes first. */
INLINE vf vmax(vf a, vf b) { return vpick(a < b, b, a); }

/* A fixed tree: ((0+8)+(4+12))+... the same on every instruction set. */
INLINE float vsum(vf x)
{
	float a[16];
	memcpy(a, &x, sizeof a);
	for (int w = 8; w; w /= 2)
		for (int i = 0; i < w; i++)
			a[i] += a[i + w];
	return a[0];
}
INLINE float vtop(vf x)
{
	float m = x[0];
	for (int i = 1; i < 16; i++)
		m = x[i] > m ? x[i] : m;
	return m;
}

/* e^x: x = n ln 2 + r, a polynomial of degree 7 in r, 2^n by the exponent's bits.  Below -87 about 1e-38 is returned
 * (never 0), above 88 about 1.6e38 (never Inf); NaN stays NaN. */
INLINE vf vexp(vf x)
{
	vf c = vpick(x < vset(-87.f), vset(-87.f), vpick(x > vset(88.f), vset(88.f), x));
	vf n = c * 1.44269504f + 12582912.f;  /* 1.5 2^23: the sum's low bits are round(c / ln 2) */
	vi e = (vi)n << 23;
	vf r, p;

	n = n - 12582912.f;
	r = c - n * 0.693359375f;
	r = r + n * 2.12194440e-4f;
	p = r * 1.9875691500e-4f + 1.3981999507e-3f;
	p = p * r + 8.3334519073e-3f;
	p = p * r + 4.1665795894e-2f;
	p = p * r + 1.6666665459e-1f;
	p = p * r + 0.5f;
	p = p * (r * r) + r + 1.f;
	return vpick(x == x, (vf)((vi)p + e), x);
}
INLINE vf vsigmoid(vf x) { return 1.f / (1.f + vexp(-x)); }
INLINE vf vsilu(vf x) { return x * vsigmoid(x); }
/* d silu(x) / dx */
INLINE vf vsilu_d(vf x)
{
	vf s = vsigmoid(x);
	return s * (1.f + x * (1.f - s));
}

/* for (VEC(i, n)): i = 0, 16, ... ; LEFT(i, n): how many of the 16 are inside */
#define LEFT(i, n) ((n) - (i) < VL ? (n) - (i) : VL)
INLINE vf vget(const float *p, int i, int n) { return n - i >= VL ? vload(p + i) : vload_n(p + i, n - i, 0); }
INLINE void vput(float *p, int i, int n, vf x)
{
	if (n - i >= VL)
		vstore(p + i, x);
	else
		vstore_n(p + i, x, n - i);
}

#endif
