/* rng.c -- Philox 4x32-10 (Salmon et al. 2011, table 2 and section 4).  Each of its ten rounds computes two
 * 32 x 32 -> 64 bit products and mixes their high halves with the key, which advances by a Weyl sequence. */
#include <xxhash.h>

#include "base/rng.h"

void rf_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
	uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];

	for (int round = 0; round < 10; round++) {
		uint64_t a = UINT64_C(0xd2511f53) * c0, b = UINT64_C(0xcd9e8d57) * c2;

		c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
		c1 = (uint32_t)b;
		c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
		c3 = (uint32_t)a;
		k0 += 0x9e3779b9; /* the golden ratio */
		k1 += 0xbb67ae85; /* sqrt(3) - 1 */
	}
	out[0] = c0;
	out[1] = c1;
	out[2] = c2;
	out[3] = c3;
}

uint64_t rf_draw_key(uint64_t seed, enum rf_purpose purpose, uint64_t step, uint64_t id, uint64_t i,
                     uint64_t r)
{
	const uint64_t word[6] = { seed, (uint64_t)purpose, step, id, i, r };
	unsigned char bytes[sizeof word];

	for (int w = 0; w < 6; w++)
		for (int b = 0; b < 8; b++)
			bytes[8 * w + b] = (unsigned char)(word[w] >> 8 * b);
	return XXH64(bytes, sizeof bytes, 0);
}

double rf_draw(uint64_t key, uint32_t j)
{
	const uint32_t counter[4] = { j }, k[2] = { (uint32_t)key, (uint32_t)(key >> 32) };
	uint32_t out[4];

	rf_philox4x32(counter, k, out);
	return (double)((uint64_t)out[0] << 21 | out[1] >> 11) * 0x1p-53;
}

uint64_t rf_draw_step(int given, int64_t model)
{
	return given >= 0 ? (uint64_t)given : model > 0 ? (uint64_t)model : 0;
}
