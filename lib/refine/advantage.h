/* advantage.h -- rewards relative to their group, as in GRPO (Shao et al. 2024, arXiv:2402.03300).
 *
 * From the rewards of rollouts:  A = (R - mean) / (std + 1e-6), the same for each token of a rollout (section
 * 4.1.2).  From the rewards of tokens:  r~ = (r - mean) / (std + 1e-6) over all tokens of the group, and the
 * advantage of a token is the sum of r~ from this token to the end of its rollout (section 4.1.3).
 * Advantages that a program has written into the stream are used unchanged.
 *
 * Other baselines, which are not divided by a deviation:
 *
 *     LOO      A = R - the mean reward of the other rollouts of the group (RLOO, Ahmadian et al. 2024,
 *              arXiv:2402.14740)
 *     RUNNING  A = R - b, where b is a mean over earlier batches (Williams 1992; Sutton and Barto 2018,
 *              section 2.8).  b is known before a batch begins, so it does not depend on the batch's
 *              rollouts.  The first batch, which has no b, uses LOO */
#ifndef RF_ADVANTAGE_H
#define RF_ADVANTAGE_H

#include <math.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/opt.h"
#include "stream/record.h"

enum rf_advantage_group { RF_GROUP_AUTO, RF_GROUP_SEQUENCE, RF_GROUP_POSITION };
#define RF_GROUP_WORDS "auto|sequence|position"

enum rf_advantage_from { RF_FROM_REWARD, RF_FROM_TOKEN, RF_FROM_STREAM };
#define RF_FROM_WORDS "reward|token|stream"

enum rf_baseline { RF_BASELINE_GROUP, RF_BASELINE_LOO, RF_BASELINE_RUNNING };
#define RF_BASELINE_WORDS "group|loo|running"

/* Groups of two or more equal rewards, whose advantages are 0.  DROP: their rollouts do not count in the
 * policy loss, nor in its means (Yu et al. 2025, arXiv:2503.14476, section 3.2, without drawing others
 * instead). */
enum rf_zero_spread { RF_ZERO_SPREAD_KEEP, RF_ZERO_SPREAD_DROP };
#define RF_ZERO_SPREAD_WORDS "keep|drop"

struct rf_advantage {
	enum rf_advantage_from from;
	enum rf_advantage_group group; /* AUTO: SEQUENCE when n = 1, else POSITION */
	enum rf_baseline baseline;
	enum rf_zero_spread zero_spread;
	bool no_std;       /* no division by the standard deviation */
	bool allow_single; /* A = R for a group of one rollout, instead of an error */
	double decay;      /* RUNNING: weight of the old mean in the new one */
	double running;    /* RUNNING: b; NaN: there is no earlier batch */
};
#define RF_ADVANTAGE_DEFAULTS \
	{ \
		.decay = 0.9, .running = NAN \
	}

/* --advantage --group --baseline --baseline-decay --no-std --allow-single --zero-spread */
void rf_advantage_options(struct rf_advantage *a, struct rf_opts *opts);

/* Computes the advantages A (G) of one group of G rewards, in double.  std is the sample deviation (divisor
 * G-1).  Two or more equal rewards give exactly 0, except with a running baseline.  Errors: RF_EDATA: G = 1,
 * unless allow_single, or the baseline is a running one that exists. */
enum rf_code rf_advantage_group(const struct rf_advantage *a, const float *R, int G, double *A,
                                struct rf_err *e);

/* Computes the advantages of all tokens of one group: rollouts from .. from + G - 1 of o, with the rewards r
 * (c, n, k).  Writes the rewards of their tokens, one rollout after the other, each with its own length, to
 * own, and the advantages to A; both have room for (G, k).  Errors: those of rf_advantage_group(). */
enum rf_code rf_advantage_tokens(const struct rf_advantage *a, const struct rf_rollout *o, const float *r,
                                 size_t from, int G, float *own, double *A, struct rf_err *e);

/* Returns the number of rollouts in each group of the record. */
int rf_advantage_size(enum rf_advantage_group group, const struct rf_record *r);

/* Returns the running baseline after a batch with this mean reward. */
double rf_advantage_next(const struct rf_advantage *a, double mean);

/* Returns whether rollout b counts in the policy loss: with RF_ZERO_SPREAD_DROP, whether the rewards of its
 * group differ.  The record has rollouts, and rewards unless its advantages come from the stream. */
bool rf_advantage_counts(const struct rf_advantage *a, const struct rf_record *r, size_t b);

/* spread_free: the number of groups of two or more equal rewards, which teach nothing. */
struct rf_group_stats {
	int groups, spread_free;
};

/* Writes r->advantage or r->advantage_per_token, and adds the record's groups to *st (may be NULL).  With
 * RF_FROM_STREAM it only checks that the record has one of them.  A record without rollouts passes unchanged.
 * Errors: RF_EDATA: rollouts without reward, without rewards of tokens, without advantages, or a group of
 * one; RF_ENUMERIC: float32 cannot hold an advantage. */
enum rf_code rf_advantage_record(const struct rf_advantage *a, struct rf_record *r, struct rf_group_stats *st,
                                 struct rf_err *e);

#endif
