/* rng.h -- counter-based random numbers: what is drawn depends on what it is drawn for, never on order,
 * batch, threads or device.
 *
 * Philox 4x32-10: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3". */
#ifndef RF_RNG_H
#define RF_RNG_H

#include <stdint.h>

enum rf_purpose { RF_DRAW_SELECT = 1, RF_DRAW_ROLLOUT, RF_DRAW_SHUFFLE, RF_DRAW_WEIGHTS, RF_DRAW_REWARD };

void rf_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* XXH64 (seed 0) over the little-endian u64s {seed, purpose, step, id, i, r}. */
uint64_t rf_draw_key(uint64_t seed, enum rf_purpose purpose, uint64_t step, uint64_t id, uint64_t i,
                     uint64_t r);

/* Uniform in [0, 1): key's low word first, counter (j, 0, 0, 0), u = (out0 * 2^21 + (out1 >> 11)) / 2^53. */
double rf_draw(uint64_t key, uint32_t j);

/* The step that random numbers are drawn for: the one that was given (--draw-step), else (-1) the model's,
 * which is 0 where it has none. */
uint64_t rf_draw_step(int given, int64_t model);

#endif
