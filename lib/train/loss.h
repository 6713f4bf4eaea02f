/* loss.h -- the losses of one record, and their gradient, over the tree of its sequence and rollouts.
 *
 *     rf_loss_alloc()         once, for the longest record
 *     for each record:        rf_loss_begin(), then rf_loss_run()
 *     rf_loss_free()
 *
 * rf_loss_run() may also be made of parts, between which the record's rollouts are drawn: rf_loss_forward();
 * rf_loss_begin() again, when the record has advantages; rf_loss_set_states(), if the record has rollouts;
 * rf_loss_backward(). */
#ifndef RF_LOSS_H
#define RF_LOSS_H

#include "train/train.h"

struct rf_loss {
	struct rf_train *t;
	const struct rf_record *r; /* the record in hand */
	int c, n, k;               /* its positions, rollouts at each, tokens of each; 0 without rollouts */
	struct rf_weights w;       /* of the losses of its tokens */
	double ntp_share;          /* weight of the record in L_NTP, up to a factor of the mini-batch */
	struct rf_share *share;    /* the record's share of the figures */
	/* host memory for what is uploaded, and for what is downloaded */
	int32_t *list;
	float *f32, *values;
};

/* Counts the tokens of a record that count in each loss, whatever its coefficient, and the terms of L_RL. */
struct rf_counts rf_loss_counts(const struct rf_train *t, const struct rf_record *r);

/* Allocates host memory for the largest of these records.  rf_loss_free() frees it, also after an error. */
enum rf_code rf_loss_alloc(struct rf_loss *job, const struct rf_record *const *mini, int n, struct rf_err *e);
void rf_loss_free(struct rf_loss *job);

/* Takes up a record, with these weights of the losses.  Its figures go to *share. */
void rf_loss_begin(struct rf_loss *job, const struct rf_record *r, struct rf_share *share,
                   const struct rf_weights *w);
/* Returns whether a token of the record counts in a loss. */
bool rf_loss_any(const struct rf_loss *job);

/* Adds the gradient of the record to the model's gradient.  Errors: RF_ENUMERIC: a log-probability is not
 * finite. */
enum rf_code rf_loss_run(struct rf_loss *job, struct rf_err *e);

/* Runs the sequence forward, with the next-token losses.  entropy (T): NULL, or where the entropy at each
 * position is written. */
void rf_loss_forward(struct rf_loss *job, rf_f32 entropy);
/* Copies the hidden states of rows s-1 from `states`, where they stand `apart` rows apart. */
void rf_loss_set_states(struct rf_loss *job, rf_f32 states, int apart);
/* Computes the policy loss and runs everything backward.  Errors: those of rf_loss_run(). */
enum rf_code rf_loss_backward(struct rf_loss *job, struct rf_err *e);

#endif
