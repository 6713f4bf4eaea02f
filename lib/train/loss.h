/* loss.h -- the gradient of one record, for train.c. */
#ifndef RF_LOSS_H
#define RF_LOSS_H

#include "train/train.h"

struct rf_train_job {
	struct rf_train *t;
	const struct rf_record *r;
	int c, n, k;                 /* 0 without rollouts */
	struct rf_weights w;         /* of this record */
	double ntp_share;            /* what it weighs in the mean L_NTP, up to a factor of the mini-batch */
	int32_t *list;               /* host memory */
	float *f32;
	struct rf_share *share;      /* of the record in the figures */
};

/* Returns how many tokens of a record count in L_NTP, and in L_positions. */
uint64_t rf_train_ntp_count(const struct rf_train *t, const struct rf_record *r);
uint64_t rf_train_position_count(const struct rf_train *t, const struct rf_record *r);

/* Takes host memory for the largest of these records; rf_train_job_free() frees it. */
enum rf_code rf_train_job_room(struct rf_train_job *j, const struct rf_record *const *mini, int n,
                               struct rf_err *e);
void rf_train_job_free(struct rf_train_job *j);

/* Makes j work on a record, whose figures go to *share, with these weights of the losses. */
void rf_train_job_take(struct rf_train_job *j, const struct rf_record *r, struct rf_share *share,
                       const struct rf_weights *w);
/* Returns whether anything of the record counts in the losses. */
bool rf_train_job_counts(const struct rf_train_job *j);

/* Adds the record's gradient to the model's.  Errors: RF_ENUMERIC: a log-probability is not finite. */
enum rf_code rf_train_job_run(struct rf_train_job *j, struct rf_err *e);
/* The same in parts.  _pass: the sequence forward, and the next-token loss; entropy (T): NULL, or what
 * becomes the entropy at each position.  _states: the hidden states of rows s-1, `apart` rows apart.  _rest:
 * the policy loss, and all that runs backward. */
void rf_train_job_pass(struct rf_train_job *j, rf_f32 entropy);
void rf_train_job_states(struct rf_train_job *j, rf_f32 states, int apart);
enum rf_code rf_train_job_rest(struct rf_train_job *j, struct rf_err *e);

#endif
