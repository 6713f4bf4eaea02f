/* vec.h -- vectors of floats as wide as the processor's registers, in GCC's vector language, so that one
 * source serves every instruction set: VL is 16, 8 or 4.
 *
 * Vectors are never wider than a register, because GCC 12 keeps wider vectors in memory and compares them
 * number by number: a product written with 16 floats took 29 times as long on AVX2, whose registers hold 8.
 *
 * exp is a polynomial (relative error below 2e-7, tested), since the C library has a vector version only
 * under -ffast-math. */
#ifndef RF_VEC_H
#define RF_VEC_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined __SSE2__
#include <immintrin.h>
#endif

#if defined __AVX512F__
enum { VL = 16 };
#elif defined __AVX__
enum { VL = 8 };
#else
enum { VL = 4 };
#endif
/* The number of vector registers. */
enum { VREGS = VL == 16 ? 32 : 16 };
typedef float vf __attribute__((vector_size(VL * 4)));
typedef float vfu __attribute__((vector_size(VL * 4), aligned(4), may_alias));
typedef int32_t vi __attribute__((vector_size(VL * 4)));
#define INLINE static inline __attribute__((always_inline, unused))

INLINE vf vload(const float *p) { return *(const vfu *)p; }
INLINE void vstore(float *p, vf x) { *(vfu *)p = x; }
INLINE vf vset(float x) { return (vf){ 0 } + x; }
INLINE vi vload_i(const int32_t *p)
{
	vi x;
	memcpy(&x, p, sizeof x);
	return x;
}
/* Returns 0, 1, 2, ... */
INLINE vi vcount(void)
{
	static const int32_t lane[16] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
	return vload_i(lane);
}

/* Loads the first n numbers of a vector; the others become `fill`. */
INLINE vf vload_n(const float *p, int n, float fill)
{
	vf x = vset(fill);
	memcpy(&x, p, (size_t)n * 4);
	return x;
}
INLINE void vstore_n(float *p, vf x, int n) { memcpy(p, &x, (size_t)n * 4); }
INLINE vf vpick(vi mask, vf yes, vf no) { return (vf)(((vi)yes & mask) | ((vi)no & ~mask)); }
INLINE vi vless(vf a, vf b) { return a < b; }
/* Compares integers: lo <= i < hi. */
INLINE vi vwithin(vi lo, vi i, vi hi) { return (lo <= i) & (i < hi); }
/* Return the larger and the smaller number.  If an operand is NaN the result is a (x86 returns its second
 * operand), so pass the data as a. */
#if defined __AVX512F__
INLINE vf vmax(vf a, vf b) { return (vf)_mm512_max_ps((__m512)b, (__m512)a); }
INLINE vf vmin(vf a, vf b) { return (vf)_mm512_min_ps((__m512)b, (__m512)a); }
#elif defined __AVX__
INLINE vf vmax(vf a, vf b) { return (vf)_mm256_max_ps((__m256)b, (__m256)a); }
INLINE vf vmin(vf a, vf b) { return (vf)_mm256_min_ps((__m256)b, (__m256)a); }
#elif defined __SSE2__
INLINE vf vmax(vf a, vf b) { return (vf)_mm_max_ps((__m128)b, (__m128)a); }
INLINE vf vmin(vf a, vf b) { return (vf)_mm_min_ps((__m128)b, (__m128)a); }
#else
INLINE vf vmax(vf a, vf b) { return vpick(a < b, b, a); }
INLINE vf vmin(vf a, vf b) { return vpick(b < a, b, a); }
#endif

/* Returns e^x: with x = n ln 2 + r, a polynomial of degree 7 in r times 2^n, which is built from its exponent
 * bits.  Below -87 the result is about 1e-38 (never 0), above 88 about 1.6e38 (never Inf); NaN stays NaN. */
INLINE vf vexp(vf x)
{
	vf c = vmax(vmin(x, vset(88.f)), vset(-87.f));
	/* 1.5 2^23 + 127: the sum's low bits are round(c / ln 2) + 127 */
	vf n = c * 1.44269504f + 12583039.f;
	vi two_n = (vi)n << 23;
	vf r, p;

	n = n - 12583039.f;
	r = c - n * 0.693359375f;
	r = r + n * 2.12194440e-4f;
	p = r * 1.9875691500e-4f + 1.3981999507e-3f;
	p = p * r + 8.3334519073e-3f;
	p = p * r + 4.1665795894e-2f;
	p = p * r + 1.6666665459e-1f;
	p = p * r + 0.5f;
	p = p * (r * r) + r + 1.f;
	return p * (vf)two_n;
}

/* vsum: returns the sum of all numbers, in a fixed tree of halves.  vtop: returns the largest number. */
INLINE float vsum(vf x)
{
	float a[VL];
	memcpy(a, &x, sizeof a);
	for (int w = VL / 2; w; w /= 2)
		for (int i = 0; i < w; i++)
			a[i] += a[i + w];
	return a[0];
}
INLINE float vtop(vf x)
{
	float m = x[0];
	for (int i = 1; i < VL; i++)
		m = x[i] > m ? x[i] : m;
	return m;
}

INLINE vf vsigmoid(vf x) { return 1.f / (1.f + vexp(-x)); }
INLINE vf vsilu(vf x) { return x * vsigmoid(x); }
/* Returns d silu(x) / dx. */
INLINE vf vsilu_d(vf x)
{
	vf s = vsigmoid(x);
	return s * (1.f + x * (1.f - s));
}

/* Loops over a row of n numbers go vector by vector: for (j = 0; j < n; j += VL).  LEFT(j, n): the numbers of
 * the vector at j that are inside the row. */
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
