/* half.h -- conversion between float32 and the 16-bit floats of checkpoints (bf16, f16), subnormals,
 * infinities and NaN included. */
#ifndef RF_HALF_H
#define RF_HALF_H

#include <stdint.h>
#include <string.h>

static inline float rf_bits_f32(uint32_t u)
{
	float x;

	memcpy(&x, &u, sizeof x);
	return x;
}

static inline uint32_t rf_f32_bits(float x)
{
	uint32_t u;

	memcpy(&u, &x, sizeof u);
	return u;
}

static inline float rf_bf16_f32(uint16_t h) { return rf_bits_f32((uint32_t)h << 16); }

/* Rounds to nearest, ties to even.  A value that is too large becomes an infinity; NaN stays NaN. */
static inline uint16_t rf_f32_bf16(float x)
{
	uint32_t u = rf_f32_bits(x);

	if (x != x)
		return (uint16_t)(u >> 16 | 0x40);
	return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static inline float rf_f16_f32(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3ff;

	if (exponent == 31)
		return rf_bits_f32(sign | 0x7f800000 | fraction << 13);
	if (exponent == 0) {
		float x = (float)fraction * 0x1p-24f;
		return sign ? -x : x;
	}
	return rf_bits_f32(sign | (exponent + 112) << 23 | fraction << 13);
}

/* Rounds to nearest, ties to even.  A value that is too large becomes an infinity; NaN stays NaN. */
static inline uint16_t rf_f32_f16(float x)
{
	uint32_t u = rf_f32_bits(x), sign = u >> 16 & 0x8000, magnitude = u & 0x7fffffff;

	if (magnitude > 0x7f800000)
		return (uint16_t)(sign | 0x7e00);
	if (magnitude >= 0x477ff000) /* 65520 and above round to infinity */
		return (uint16_t)(sign | 0x7c00);
	if (magnitude >= 0x38800000) /* normal: 2^-14 and above */
		return (uint16_t)(sign | (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13);
	/* subnormal: after 1/2 is added, the last bits count multiples of 2^-24; the addition itself has
	   rounded them */
	return (uint16_t)(sign | (rf_f32_bits(rf_bits_f32(magnitude) + 0.5f) - 0x3f000000));
}

#endif
