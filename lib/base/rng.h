/* rng.h -- counter-based random numbers: a number depends only on what it is drawn for, never on the order
 * of draws, the batch, the threads or the device.
 *
 * Philox 4x32-10: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3". */
#ifndef RF_RNG_H
#define RF_RNG_H

#include <stdint.h>

/* The purpose of a random number. */
enum rf_purpose {
	RF_DRAW_SELECT = 1,
	RF_DRAW_ROLLOUT,
	RF_DRAW_SHUFFLE,
	RF_DRAW_WEIGHTS,
	RF_DRAW_REWARD,
	RF_DRAW_GENERATE,
	RF_DRAW_NEEDLE
};

void rf_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* Returns XXH64 (seed 0) over the little-endian u64s {seed, purpose, step, id, i, r}.  The meaning of the
 * last four depends on the purpose; for RF_DRAW_ROLLOUT they are step, record id, position and rollout. */
uint64_t rf_draw_key(uint64_t seed, enum rf_purpose purpose, uint64_t step, uint64_t id, uint64_t i,
                     uint64_t r);

/* Returns the j-th number of a key, uniform in [0, 1).  Philox gets the key's low word first and the counter
 * (j, 0, 0, 0); the number is (out0 * 2^21 + (out1 >> 11)) / 2^53. */
double rf_draw(uint64_t key, uint32_t j);

/* Returns the training step that random numbers are drawn for: `given` (--draw-step) unless it is -1, else
 * the model's step, or 0 if the model has no step (model < 0). */
uint64_t rf_draw_step(int given, int64_t model);

#endif
