/* batch.h -- the losses of a mini-batch, and their gradient, in the memory that training plans. */
#ifndef RF_BATCH_H
#define RF_BATCH_H

#include "train/train.h"

/* What a mini-batch has in all, whichever rank has it: the losses are means over these. */
struct rf_totals { uint64_t records, ntp_tokens, ntp_sequences, position_tokens, rl_tokens, teaches; };

/* Training's use of memory, for rf_work_init().  With rl_coef 0 sequences have no rollouts. */
struct rf_use rf_train_use(struct rf_train *t);

/* What these n records have.  teaches: whether anything can be learned from them: a token that counts in
 * L_NTP or L_positions, whose coefficient is not 0, or an advantage other than 0, and rl_coef is not 0. */
void rf_train_totals(const struct rf_train *t, struct rf_record *const *mini, int n, struct rf_totals *own);

/* Computes the gradient of a mini-batch into the model's gradient, which is cleared first; n: the records of
 * it that are this rank's; all: what all ranks' have (NULL: there are no others).  The records must have
 * passed rf_train_check().  Fills *st, except for the figures of the step.  Errors: RF_ENUMERIC: a
 * log-probability is not finite; of the exact sum also: a record's gradient is not.  Collective (ranks.h): a
 * rank's failure is all ranks'. */
enum rf_code rf_train_gradient(struct rf_train *t, struct rf_record *const *mini, int n,
                               const struct rf_totals *all, struct rf_train_stats *st, struct rf_err *e);

/* The first mini-batch after the weights have changed may be computed as its records come.  Then
 * rf_train_gradient() need not compute them:
 *
 *     rf_train_ahead()        begins; all: what the mini-batch will have
 *     rf_train_ahead_pass()   for each record, with tokens alone: the pass over its sequence, with the
 *                             next-token loss; entropy (T), in device memory, becomes H at each position
 *     rf_train_ahead_rest()   when the record has its advantages: the policy loss, and the gradient.
 *                             states: its rows s-1, `apart` rows apart; NULL: it has no rollouts.  In
 *                             between the tree may draw the rollouts, and nothing else
 *
 * Where the records are not those that were announced, or a gradient is too large for the first unit of the
 * exact sum, or not finite, rf_train_gradient() computes all of it again.  So the bits are the same.  With
 * log_gradients it always does, and rf_train_ahead() does nothing. */
enum rf_code rf_train_ahead(struct rf_train *t, const struct rf_totals *all, struct rf_err *e);
enum rf_code rf_train_ahead_pass(struct rf_train *t, const struct rf_record *r, rf_f32 entropy,
                                 struct rf_err *e);
enum rf_code rf_train_ahead_rest(struct rf_train *t, const struct rf_record *r, rf_f32 states, int apart,
                                 struct rf_err *e);

/* Fills *st with the figures that need no model: counts, rewards, the records' entropies.  The others become
 * 0 or NaN.  Collective. */
enum rf_code rf_train_describe(const struct rf_train *t, struct rf_record *const *mini, int n,
                               struct rf_train_stats *st, struct rf_err *e);

#endif
