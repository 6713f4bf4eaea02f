/* init.h -- makes checkpoints of fresh weights, and exports checkpoints.
 *
 * Their values are those of the published code (_init_weights of flash-linear-attention and transformers):
 *     linear maps, embeddings, convolutions   normal, with the config's initializer_range
 *     norms                                   1, or 0 where the norm multiplies by 1 + w
 *     biases                                  0
 *     LaCT's initial fast weights             normal, with standard deviations of their own (lact.c)
 *     the decay's A_log                       the logarithm of a number up to 16
 *     the decay's dt_bias                     such that the step softplus(dt_bias) is from 0.001 to 0.1; in
 *                                             Qwen3.5, 1
 *
 * Philox (rng.h) draws the random numbers, for the purpose RF_DRAW_WEIGHTS.  The key's i is the weight's
 * place in the table.  The high word of the element's number within the weight is the key's r, and the low
 * word is the counter j.  Box-Muller makes elements 2m and 2m+1 of a normal weight from draws 2m (u) and 2m+1
 * (v):
 *
 *     w[2m] = s sqrt(-2 ln(1 - u)) cos(2 pi v),  w[2m+1] = s sqrt(-2 ln(1 - u)) sin(2 pi v)      in double
 *
 * Element j of the other weights is made from draw j. */
#ifndef RF_INIT_H
#define RF_INIT_H

#include <signal.h>
#include <stdint.h>

#include "base/err.h"
#include "ckpt/ckpt.h"
#include "model/config.h"
#include "model/params.h"
#include "tokenizer/tokenizer.h"

/* Writes fresh weights to flat, t->total floats; the padding is zeroed. */
void rf_init_weights(const struct rf_params *t, uint64_t seed, float *flat);

/* Decides which tokenizer the fresh weights get, and compares it with the config whose path is `config`.  If
 * *tokenizer is NULL and the vocabulary is exactly that of the byte tokenizer, *tokenizer becomes "bytes".
 * The warning is that of rf_tokenizer_fit_copy().  Errors: RF_EMODEL: the tokenizer has more tokens than the
 * vocabulary; those of rf_tokenizer_fit_copy(). */
enum rf_code rf_init_tokenizer(const struct rf_config *cfg, const char *config, const char **tokenizer,
                               char warning[RF_TOKENIZER_WARNING], struct rf_err *e);

/* Writes a bare checkpoint of fresh float32 weights to dir, which must not exist.  tokenizer: "bytes", a
 * directory whose tokenizer files are copied, or NULL for none. */
enum rf_code rf_init_fresh(const struct rf_config *cfg, const struct rf_params *t, uint64_t seed,
                           const char *tokenizer, const char *dir, const volatile sig_atomic_t *stop,
                           struct rf_err *e);

/* Writes a bare checkpoint with the weights of `from` to dir, which must not exist.  dtype: float32, bf16 or
 * f16.  Errors: RF_ENUMERIC: the type cannot hold a weight. */
enum rf_code rf_init_export(const struct rf_ckpt *from, enum rf_dtype dtype, const char *dir,
                            const volatile sig_atomic_t *stop, struct rf_err *e);

#endif
