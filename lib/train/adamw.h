/* adamw.h -- AdamW: an optimizer step with the gradient of a mini-batch. */
#ifndef RF_ADAMW_H
#define RF_ADAMW_H

#include "train/train.h"

/* Checks that each pattern of t->adamw.only matches a tensor of the engine's model.  Errors: RF_EUSAGE. */
enum rf_code rf_train_check_only(const struct rf_train *t, struct rf_err *e);

/* Returns the learning rate of optimizer step `step`, counted from 0. */
double rf_train_lr(const struct rf_train *t, int64_t step);

/* Makes one AdamW step with the model's gradient.  step: for the learning rate; updates: the number of AdamW
 * steps before this one.  Writes the figures of the step to *st, and adds the time of exchanging weights to
 * st->reduce.  Errors: RF_ENUMERIC: the norm of the gradient is not finite; no weight has changed. */
enum rf_code rf_train_step(struct rf_train *t, int64_t step, int64_t updates, struct rf_train_stats *st,
                           struct rf_err *e);

/* Computes the sum of the squares of n weights, or of their gradients, from x on.  The sum is finite if each
 * of the numbers is. */
enum rf_code rf_train_square(struct rf_train *t, rf_f32 x, size_t n, double *sum, struct rf_err *e);

/* Returns the dot product of x and y over the parts of all ranks; NaN after an error, which is in *e.
 * Collective. */
double rf_train_dot(struct rf_train *t, rf_f32 x, rf_f32 y, struct rf_err *e);
/* Sets the gradient of tensors that are not trained to 0. */
void rf_train_clear_untrained(struct rf_train *t, rf_f32 grad);

#endif
