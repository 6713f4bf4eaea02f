/* batch.h -- the gradient of a mini-batch, over all ranks. */
#ifndef RF_BATCH_H
#define RF_BATCH_H

#include "train/train.h"

/* The counts of a mini-batch over all ranks: the losses are means over these numbers.  rollout_tokens: the
 * tokens of all rollouts, also of those that --zero-spread drop leaves out. */
struct rf_totals {
	uint64_t records, ntp_tokens, ntp_sequences, position_tokens, rollout_tokens, rl_tokens, rl_terms;
	uint64_t teaches;
};

/* Returns how training uses memory, for rf_work_init().  With rl_coef 0 it plans no rollouts. */
struct rf_use rf_train_use(struct rf_train *t);

/* Counts n records.  teaches: whether their gradient can be other than 0: a token counts in L_NTP or
 * L_positions, whose coefficient is not 0; or rl_coef is not 0, and an advantage is not 0, or rollouts count
 * in the divergence or the entropy of the policy loss. */
void rf_train_totals(const struct rf_train *t, struct rf_record *const *mini, int n, struct rf_totals *own);

/* Computes the gradient of a mini-batch in the model's gradient, which is cleared first.  mini: the n records
 * that this rank has of the mini-batch; all: the totals over all ranks (NULL: this is the only rank).  The
 * records must have passed rf_train_check().  Fills *st, except for the figures of the step.  Errors:
 * RF_ENUMERIC: a log-probability is not finite; with the exact sum also: the gradient of a record is not.
 * Collective (ranks.h): if one rank fails, all ranks fail. */
enum rf_code rf_train_gradient(struct rf_train *t, struct rf_record *const *mini, int n,
                               const struct rf_totals *all, struct rf_train_stats *st, struct rf_err *e);

/* The first mini-batch after the weights have changed may be computed ahead, as its records come.  Then
 * rf_train_gradient() does not compute them:
 *
 *     rf_train_ahead()        begins; all: the totals that the mini-batch will have
 *     rf_train_ahead_pass()   for each record, which only has tokens: the pass over its sequence, with the
 *                             next-token loss.  Writes H at each position to entropy (T), in device memory
 *     rf_train_ahead_rest()   when the record has its advantages: the policy loss, and the gradient.
 *                             states: its rows s-1, `apart` rows apart; NULL: it has no rollouts.  Between
 *                             the two calls the tree may only draw the rollouts of this record
 *
 * If the records differ from the announced totals, or a gradient is too large for the first unit of the exact
 * sum, or not finite, rf_train_gradient() computes the whole mini-batch again.  So the bits are the same.
 * With log_gradients it always does so, and rf_train_ahead() does nothing. */
enum rf_code rf_train_ahead(struct rf_train *t, const struct rf_totals *all, struct rf_err *e);
enum rf_code rf_train_ahead_pass(struct rf_train *t, const struct rf_record *r, rf_f32 entropy,
                                 struct rf_err *e);
enum rf_code rf_train_ahead_rest(struct rf_train *t, const struct rf_record *r, rf_f32 states, int apart,
                                 struct rf_err *e);

/* Fills *st with the figures that need no model: counts, rewards, the entropies of the records.  The other
 * figures become 0 or NaN.  Collective. */
enum rf_code rf_train_describe(const struct rf_train *t, struct rf_record *const *mini, int n,
                               struct rf_train_stats *st, struct rf_err *e);

#endif
