/* vec.h -- 16 floats at a time, in GCC's vector language, so that one source serves every instruction set.
 *
 * exp is a polynomial (relative error below 2e-7, tested): the C library has a vector one only under -ffast-math. */
#ifndef RF_VEC_H
#define RF_VEC_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined __SSE2__
#include <immintrin.h>
#endif

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

/* Comparisons.  GCC 12 compares vectors that are wider than a register number by number, so they are taken apart here. */
#if defined __AVX512F__
typedef __m512 vpart;
#define VPART(op) _mm512_##op
#define VPART_LESS(a, b) _mm512_castsi512_ps(_mm512_movm_epi32(_mm512_cmp_ps_mask((a), (b), _CMP_LT_OQ)))
#elif defined __AVX__
typedef __m256 vpart;
#define VPART(op) _mm256_##op
#define VPART_LESS(a, b) _mm256_cmp_ps((a), (b), _CMP_LT_OQ)
#elif defined __SSE2__
typedef __m128 vpart;
#define VPART(op) _mm_##op
#define VPART_LESS(a, b) _mm_cmplt_ps((a), (b))
#endif
#ifdef VPART
enum { VPARTS = sizeof(vf) / sizeof(vpart) };
/* x op y of all parts; of a NaN in either the processor's minimum and maximum give the second */
#define VPARTS_OF(a, b, op) do { \
		vpart x_[VPARTS], y_[VPARTS]; \
		memcpy(x_, &(a), sizeof x_); \
		memcpy(y_, &(b), sizeof y_); \
		for (int i_ = 0; i_ < VPARTS; i_++) \
			x_[i_] = op(x_[i_], y_[i_]); \
		memcpy(&(a), x_, sizeof x_); \
	} while (0)
/* The larger one; a NaN in a stays, so data comes first. */
INLINE vf vmax(vf a, vf b) { VPARTS_OF(b, a, VPART(max_ps)); return b; }
INLINE vf vmin(vf a, vf b) { VPARTS_OF(b, a, VPART(min_ps)); return b; }
INLINE vi vless(vf a, vf b) { VPARTS_OF(a, b, VPART_LESS); return (vi)a; }
#else
INLINE vi vless(vf a, vf b) { return a < b; }
INLINE vf vmax(vf a, vf b) { return vpick(a < b, b, a); }
INLINE vf vmin(vf a, vf b) { return vpick(b < a, b, a); }
#endif
/* Whether lo <= i < hi, of counts. */
INLINE vi vwithin(vi lo, int i, vi hi) { return ((lo - (i + 1)) & (i - hi)) >> 31; }

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

/* e^x: x = n ln 2 + r, a polynomial of degree 7 in r, 2^n by its exponent's bits.  Below -87 about 1e-38 is returned
 * (never 0), above 88 about 1.6e38 (never Inf); NaN stays NaN. */
INLINE vf vexp(vf x)
{
	vf c = vmax(vmin(x, vset(88.f)), vset(-87.f));
	vf n = c * 1.44269504f + 12583039.f;  /* 1.5 2^23 + 127: the sum's low bits are round(c / ln 2) + 127 */
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
