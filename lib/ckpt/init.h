/* init.h -- fresh weights.
 *
 * As the published code begins: linear maps, embeddings and convolutions normal with the config's
 * initializer_range, norms 1 (0 where 1 + w counts), biases 0 (flash-linear-attention's and transformers'
 * _init_weights); of the decay A_log the logarithm of numbers up to 16, and dt_bias such that steps are from
 * 0.001 to 0.1, in Qwen3.5 1.  Drawn by Philox (rng.h) for RF_DRAW_WEIGHTS: the key's i is the weight's place
 * in the table, r the high word and the counter j the low word of the element's number; elements 2m and 2m+1
 * of a normal weight are the two numbers that Box-Muller makes of draws 2m and 2m+1:
 *
 *     w[2m] = s sqrt(-2 ln(1 - u)) cos(2 pi v),  w[2m+1] = s sqrt(-2 ln(1 - u)) sin(2 pi v)      in double
 *
 * and element j of the others is made of draw j. */
#ifndef RF_INIT_H
#define RF_INIT_H

#include <signal.h>
#include <stdint.h>

#include "base/err.h"
#include "model/config.h"
#include "model/params.h"

/* flat holds t->total floats; the padding is zeroed. */
void rf_init_weights(const struct rf_params *t, uint64_t seed, float *flat);

/* The tokenizer that fresh weights go with: *tokenizer, which NULL leaves to the vocabulary: that of bytes
 * has them.  RF_EMODEL: bytes, and the vocabulary has less room. */
enum rf_code rf_init_tokenizer(const struct rf_config *cfg, const char **tokenizer, struct rf_err *e);

/* Makes the checkpoint: rf_ckpt_create() with these weights. */
enum rf_code rf_init_fresh(const struct rf_config *cfg, const struct rf_params *t, uint64_t seed,
                           const char *tokenizer, const char *dir, const volatile sig_atomic_t *stop,
                           struct rf_err *e);

#endif
