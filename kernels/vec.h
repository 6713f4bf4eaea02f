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

/* ---- native vectors: W floats, one register ----
 *
 * GCC 12 keeps vectors that are wider than a register in memory, and compares them number by number.  So what takes many steps
 * on one vector, exp above all, takes them on native ones; and comparisons are the processor's own instructions. */
#if defined __AVX512F__
enum { W = 16 };
#elif defined __AVX__
enum { W = 8 };
#else
enum { W = 4 };
#endif
typedef float vn __attribute__((vector_size(W * 4)));
typedef float vnu __attribute__((vector_size(W * 4), aligned(4), may_alias));
typedef int32_t vni __attribute__((vector_size(W * 4)));

INLINE vn nload(const float *p) { return *(const vnu *)p; }
INLINE void nstore(float *p, vn x) { *(vnu *)p = x; }
INLINE vn nset(float x) { return (vn){ 0 } + x; }
INLINE vn npick(vni mask, vn yes, vn no) { return (vn)(((vni)yes & mask) | ((vni)no & ~mask)); }
/* The larger and the smaller one; a NaN in a stays, so data comes first: of a NaN the processor gives its second operand. */
#if defined __AVX512F__
INLINE vn nmax(vn a, vn b) { return (vn)_mm512_max_ps((__m512)b, (__m512)a); }
INLINE vn nmin(vn a, vn b) { return (vn)_mm512_min_ps((__m512)b, (__m512)a); }
#elif defined __AVX__
INLINE vn nmax(vn a, vn b) { return (vn)_mm256_max_ps((__m256)b, (__m256)a); }
INLINE vn nmin(vn a, vn b) { return (vn)_mm256_min_ps((__m256)b, (__m256)a); }
#elif defined __SSE2__
INLINE vn nmax(vn a, vn b) { return (vn)_mm_max_ps((__m128)b, (__m128)a); }
INLINE vn nmin(vn a, vn b) { return (vn)_mm_min_ps((__m128)b, (__m128)a); }
#else
INLINE vn nmax(vn a, vn b) { return npick(a < b, b, a); }
INLINE vn nmin(vn a, vn b) { return npick(b < a, b, a); }
#endif
/* Whether lo <= i < hi, of counts. */
INLINE vni nwithin(vni lo, vni i, vni hi) { return (lo <= i) & (i < hi); }

/* e^x: x = n ln 2 + r, a polynomial of degree 7 in r, 2^n by its exponent's bits.  Below -87 about 1e-38 is returned
 * (never 0), above 88 about 1.6e38 (never Inf); NaN stays NaN. */
INLINE vn nexp(vn x)
{
	vn c = nmax(nmin(x, nset(88.f)), nset(-87.f));
	vn n = c * 1.44269504f + 12583039.f;  /* 1.5 2^23 + 127: the sum's low bits are round(c / ln 2) + 127 */
	vni two_n = (vni)n << 23;
	vn r, p;

	n = n - 12583039.f;
	r = c - n * 0.693359375f;
	r = r + n * 2.12194440e-4f;
	p = r * 1.9875691500e-4f + 1.3981999507e-3f;
	p = p * r + 8.3334519073e-3f;
	p = p * r + 4.1665795894e-2f;
	p = p * r + 1.6666665459e-1f;
	p = p * r + 0.5f;
	p = p * (r * r) + r + 1.f;
	return p * (vn)two_n;
}

/* ---- 16 at a time, by native ones ---- */

/* y = f of x, part by part */
#define VEACH(y, f, ...) do { \
		for (int i_ = 0; i_ < VL; i_ += W) \
			nstore((float *)&(y) + i_, f(__VA_ARGS__)); \
	} while (0)
#define VPART(x) nload((const float *)&(x) + i_)
INLINE vf vexp(vf x) { VEACH(x, nexp, VPART(x)); return x; }
INLINE vf vmax(vf a, vf b) { VEACH(a, nmax, VPART(a), VPART(b)); return a; }
INLINE vn nless(vn a, vn b) { return (vn)(a < b); }
INLINE vi vless(vf a, vf b) { VEACH(a, nless, VPART(a), VPART(b)); return (vi)a; }
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
