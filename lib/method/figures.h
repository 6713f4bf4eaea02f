/* figures.h -- the figures of a mini-batch, for the log (rf-grpo(1) lists them).
 *
 * Each record has a share of its own in them, which holds counts and sums.  The shares are added up in the
 * order of the records' ids, so that the figures are the same bits in whatever order, and wherever, the
 * records were computed. */
#ifndef RF_FIGURES_H
#define RF_FIGURES_H

#include <stdbool.h>
#include <stdint.h>

#include "stream/record.h"

/* A sum over the rollouts that have this part of the reward; in struct rf_train_stats their mean. */
struct rf_part_sum { char name[RF_PART_NAME + 1]; double value; uint64_t rollouts; };

enum { RF_KIND_NAME = 64 }; /* bytes of the name of a reward's kind; the rest of a longer name is left out */

struct rf_share {
	uint64_t id, tokens;
	uint64_t hash;                     /* rf_record_hash() */
	uint64_t ntp_tokens;               /* that count in L_NTP */
	uint64_t rl_tokens;                /* of rollouts that are trained on */
	uint64_t rollouts;                 /* that have a reward */
	uint64_t uncertain;                /* positions with an entropy */
	double entropy, reward;            /* their sums */
	char kind[RF_KIND_NAME + 1];       /* of the reward; "": the record has none */
	int parts;
	struct rf_part_sum part[RF_PARTS];
	/* of the losses: the record's part of the mean L_NTP, up to a factor of the mini-batch; sums over the
	   rollouts' tokens (policy.h) */
	double loss_ntp, loss_rl, kl, abs_diff, ratio_max;
	uint64_t clipped, dual, clamped;
	double largest;                    /* of the absolute values of its gradient; for the exact sum */
};

/* What a record adds before it was computed.  ntp_tokens, rl_tokens: as above. */
void rf_share_of(struct rf_share *s, const struct rf_record *r, uint64_t ntp_tokens, uint64_t rl_tokens);
/* Compares two shares by id, for qsort(). */
int rf_share_by_id(const void *a, const void *b);

enum { RF_PART_MEANS = 2 * RF_PARTS };

struct rf_train_stats {
	int records;
	uint64_t records_hash;             /* of their hashes */
	uint64_t tokens, ntp_tokens, rl_tokens;
	int ntp_sequences;                 /* records with a token that counts in L_NTP */
	double loss_ntp, loss_rl;          /* without coefficients */
	double reward;                     /* mean of the totals over rollouts */
	char kind[RF_KIND_NAME + 1];       /* of the rewards; "mixed": several kinds; "": no rewards */
	uint64_t rollouts;
	int parts;                         /* how many names; those beyond RF_PART_MEANS are left out */
	struct rf_part_sum part[RF_PART_MEANS];
	/* mean of the records' entropies, in nats; NaN: they have none */
	double entropy;
	/* over rollout tokens (policy.h): fractions that were clipped; kl: mean of r - 1 - log r; largest r;
	   abs_diff: mean of |logp - logp_old| */
	double clip_fraction, dual_fraction, kl, ratio_max, abs_diff;
	uint64_t clamped;                  /* tokens whose log-ratio was clamped */
	double grad_norm, lr;              /* grad_norm: before clipping; NaN: there is none yet */
	double norm_rl, norm_ntp, grad_cosine; /* for --log-gradients; NaN: not computed */
	bool stepped;                      /* the weights were updated */
	double weights_square;             /* where ranks share the optimizer: the sum of the squares of all
	                                      weights afterwards, which shows whether all have the same */
	/* of this rank, in seconds: computing gradients, waiting for the others, adding up; and the slowest
	   rank's computing by the mean's */
	double compute, wait, reduce, optimizer, spread;
};

/* Sorts n shares by id and adds them up; the figures of the step are 0 or NaN.  ntp_weight: what loss_ntp is
 * divided by; 0: by nothing. */
void rf_figures(struct rf_train_stats *st, struct rf_share *s, int n, double ntp_weight);

#endif
