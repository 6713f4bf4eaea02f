/* figures.h -- the figures of a mini-batch, for the log (rf-grpo(1) lists them).
 *
 * Each record has a share of its own in them, which holds counts and sums.  The shares are added up in the
 * order of the records' ids, so that the figures are the same bits in whatever order, and wherever, the
 * records were computed. */
#ifndef RF_FIGURES_H
#define RF_FIGURES_H

#include <stdbool.h>
#include <stdint.h>

#include "refine/advantage.h"
#include "stream/record.h"

/* Numbers of rollouts: how many, their sum, and the sum of their squared distances from their mean. */
struct rf_spread { uint64_t n; double sum, square; };

/* The rollouts that have this part of the reward. */
struct rf_part_spread { char name[RF_PART_NAME + 1]; struct rf_spread of; };

/* How much of the variance of a sequence's rewards is a difference between its positions, which no rollout
 * can change: the sums of squares of a one-way analysis of variance, and their degrees of freedom.  per: n
 * times the degrees of freedom between positions. */
struct rf_variance { double within, between; uint64_t within_df, between_df, per; };

enum { RF_KIND_NAME = 64 }; /* bytes of the name of a reward's kind; the rest of a longer name is left out */

struct rf_share {
	uint64_t id, tokens;
	uint64_t hash;                     /* rf_record_hash() */
	uint64_t ntp_tokens;               /* that count in L_NTP */
	uint64_t position_tokens;          /* that count in L_positions */
	uint64_t rl_tokens;                /* of rollouts that are trained on */
	uint64_t uncertain;                /* positions with an entropy */
	double entropy;                    /* their sum */
	struct rf_spread reward;           /* of the rollouts' totals */
	char kind[RF_KIND_NAME + 1];       /* of the reward; "": the record has none */
	int parts;
	struct rf_part_spread part[RF_PARTS];
	struct rf_variance variance;
	double group_std;                  /* the sum of the groups' standard deviations; */
	uint64_t groups;                   /* of as many */
	/* of the losses: the record's part of the mean L_NTP, up to a factor of the mini-batch; sums over the
	   rollouts' tokens (policy.h): the loss, -log r, r - 1 - log r, |log r| */
	double loss_ntp, loss_positions, loss_rl, kl, kl3, abs_diff, ratio_max;
	uint64_t clipped, dual, clamped;
	double largest;                    /* of the absolute values of its gradient; for the exact sum */
};

/* How many tokens of a record count in each loss. */
struct rf_counts { uint64_t ntp, positions, rl; };

/* Writes what a record adds to the figures before it is computed.  a: how its advantages were computed. */
void rf_share_of(struct rf_share *s, const struct rf_record *r, const struct rf_advantage *a,
                 const struct rf_counts *count);
/* Compares two shares by id, for qsort(). */
int rf_share_by_id(const void *a, const void *b);

enum { RF_PART_MEANS = 2 * RF_PARTS };

struct rf_train_stats {
	int records;
	uint64_t records_hash;             /* of their hashes */
	uint64_t tokens, ntp_tokens, position_tokens, rl_tokens;
	int ntp_sequences;                 /* records with a token that counts in L_NTP */
	double loss_ntp, loss_positions, loss_rl; /* without coefficients */
	/* over rollouts: mean and standard deviation of the totals; NaN: there are too few */
	double reward, reward_std;
	/* mean of the groups' standard deviations, of the rewards that the advantages come from; NaN: there
	   is none */
	double group_std;
	/* share of the variance of a sequence's rewards that is the position's own: s_b / (s_b + s_w), the
	   variance components between positions and within them; NaN: there is one rollout per position */
	double position_share;
	char kind[RF_KIND_NAME + 1];       /* of the rewards; "mixed": several kinds; "": no rewards */
	uint64_t rollouts;
	int parts;                         /* how many names; those beyond RF_PART_MEANS are left out */
	struct rf_part_spread part[RF_PART_MEANS];
	/* mean of the records' entropies, in nats; NaN: they have none */
	double entropy;
	/* over rollout tokens (policy.h): fractions that were clipped; two estimates of the divergence from
	   the weights that drew them, the means of -log r and of r - 1 - log r (Schulman 2020, k1 and k3);
	   largest r; abs_diff: mean of |logp - logp_old| */
	double clip_fraction, dual_fraction, kl, kl3, ratio_max, abs_diff;
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

/* Returns the mean of the numbers, and their sample deviation (divisor n - 1); NaN: there are too few. */
double rf_spread_mean(const struct rf_spread *s);
double rf_spread_std(const struct rf_spread *s);

/* Sorts n shares by id and adds them up; the figures of the step are 0 or NaN.  ntp_weight: what loss_ntp is
 * divided by; 0: by nothing. */
void rf_figures(struct rf_train_stats *st, struct rf_share *s, int n, double ntp_weight);

#endif
