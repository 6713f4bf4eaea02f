/* figures.h -- the figures of a mini-batch, for the log (rf-grpo(1) lists them).
 *
 * Each record has a share of the figures, with counts and sums.  The shares are added up in the order of the
 * records' ids.  So the figures have the same bits whatever the order and the rank that computed the
 * records. */
#ifndef RF_FIGURES_H
#define RF_FIGURES_H

#include <stdbool.h>
#include <stdint.h>

#include "refine/advantage.h"
#include "stream/record.h"

/* The spread of some numbers: their count, their sum, and the sum of their squared distances from the
 * mean. */
struct rf_spread {
	uint64_t n;
	double sum, square;
};

/* The spread of a part of the reward over the rollouts that have it. */
struct rf_part_spread {
	char name[RF_PART_NAME + 1];
	struct rf_spread of;
};

/* The variance of a sequence's rewards within and between its positions: the sums of squares of a one-way
 * analysis of variance, and their degrees of freedom.  per: n times the degrees of freedom between
 * positions. */
struct rf_variance {
	double within, between;
	uint64_t within_df, between_df, per;
};

enum { RF_KIND_NAME = 64 }; /* the most bytes of the name of a kind of reward; longer names are cut */

struct rf_share {
	uint64_t id, tokens;
	uint64_t hash;               /* rf_record_hash() */
	uint64_t ntp_tokens;         /* tokens that count in L_NTP */
	uint64_t position_tokens;    /* tokens that count in L_positions */
	uint64_t rl_tokens;          /* tokens of rollouts that are trained on */
	uint64_t rl_terms;           /* terms of the mean L_RL: rf_policy_terms() */
	uint64_t uncertain;          /* number of positions with an entropy */
	double entropy;              /* sum of these entropies */
	struct rf_spread reward;     /* the total rewards of the rollouts */
	char kind[RF_KIND_NAME + 1]; /* kind of the reward; "": the record has no reward */
	int parts;
	struct rf_part_spread part[RF_PARTS];
	struct rf_variance variance;
	double group_std; /* sum of the standard deviations of groups */
	uint64_t groups;  /* number of these groups */
	/* losses: the record's part of the means L_NTP, L_RL, and of those of the divergence from the
	   reference and of the entropy, up to a factor of the mini-batch; sums over the tokens of rollouts
	   (policy.h) of -log r, r - 1 - log r, |logp - logp_old| */
	double loss_ntp, loss_positions, loss_rl, kl_ref, rl_entropy, kl, kl3, abs_diff, ratio_max;
	uint64_t clipped, high, dual, clamped;
	double largest; /* largest absolute value in its gradient, for the exact sum */
};

/* The number of tokens of a record that count in each loss, and of terms of L_RL. */
struct rf_counts {
	uint64_t ntp, positions, rl, rl_terms;
};

/* Writes the fields of a share that need no losses; the others become 0.  a: how the advantages were
 * computed. */
void rf_share_of(struct rf_share *s, const struct rf_record *r, const struct rf_advantage *a,
                 const struct rf_counts *count);
/* Compares two shares by id, for qsort(). */
int rf_share_by_id(const void *a, const void *b);

enum { RF_PART_MEANS = 2 * RF_PARTS };

struct rf_train_stats {
	int records;
	uint64_t records_hash; /* hash of the records' hashes */
	uint64_t tokens, ntp_tokens, position_tokens, rl_tokens;
	int ntp_sequences;                        /* number of records with a token that counts in L_NTP */
	double loss_ntp, loss_positions, loss_rl; /* without coefficients */
	double kl_ref, rl_entropy;                /* the means of D and H in the policy loss (policy.h) */
	/* mean and standard deviation of the rollouts' total rewards; NaN: too few rollouts */
	double reward, reward_std;
	/* mean over groups of the standard deviation of the rewards from which the advantages come; NaN: no
	   group */
	double group_std;
	/* fraction of the variance of a sequence's rewards that lies between positions, s_b / (s_b + s_w):
	   the variance components between positions and within them; NaN: one rollout per position */
	double position_share;
	char kind[RF_KIND_NAME + 1]; /* kind of the rewards; "mixed": several kinds; "": no rewards */
	uint64_t rollouts;
	int parts; /* number of part names; at most RF_PART_MEANS are counted */
	struct rf_part_spread part[RF_PART_MEANS];
	/* mean of the records' entropies, in nats; NaN: the records have no entropies */
	double entropy;
	/* over rollout tokens (policy.h): the fractions that were clipped, that were clipped at the upper
	   bound, and that had the dual clip; two estimates of the divergence from the weights that drew the
	   tokens, the means of -log r and of r - 1 - log r (Schulman 2020, k1 and k3); largest r; abs_diff:
	   mean of |logp - logp_old| */
	double clip_fraction, high_fraction, dual_fraction, kl, kl3, ratio_max, abs_diff;
	uint64_t clamped;                      /* number of tokens whose log-ratio was clamped */
	double grad_norm, lr;                  /* grad_norm: before clipping; NaN: not computed yet */
	double norm_rl, norm_ntp, grad_cosine; /* for --log-gradients; NaN: not computed */
	bool stepped;                          /* whether the weights were updated */
	double weights_square; /* where ranks share the optimizer: the sum of the squares of all
	                                      weights afterwards, which shows whether all have the same */
	/* seconds of this rank: computing gradients, waiting for other ranks, exchanging; the optimizer step;
	   spread: the computing time of the slowest rank over the mean */
	double compute, wait, reduce, optimizer, spread;
};

/* Return the mean of the numbers, and their sample deviation (divisor n - 1); NaN: too few numbers. */
double rf_spread_mean(const struct rf_spread *s);
double rf_spread_std(const struct rf_spread *s);

/* Sorts n shares by id and adds them up.  The figures of the step become 0 or NaN.  ntp_weight: the divisor
 * of loss_ntp; 0: no division. */
void rf_figures(struct rf_train_stats *st, struct rf_share *s, int n, double ntp_weight);

#endif
