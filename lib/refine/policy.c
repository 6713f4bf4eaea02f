/* policy.c -- the loss of one rollout token, and its derivative.
 *
 * The outer maximum is the pessimistic bound of PPO (Schulman et al. 2017, eq. 7).  The dual clip bounds the
 * loss of a rollout with a negative advantage when its ratio is large (Ye et al. 2020, arXiv:1912.09729, eq.
 * 4).  The comparisons are written so that a NaN stays NaN. */
#include <math.h>

#include "refine/policy.h"

struct rf_policy_token rf_policy_token(const struct rf_policy *p, double logp, double logp_old, double A)
{
	double log_ratio = logp - logp_old, plain, bound, r;
	struct rf_policy_token t = { .clamped = fabs(log_ratio) > 20 };

	if (t.clamped)
		log_ratio = log_ratio > 0 ? 20 : -20;
	t.log_ratio = log_ratio;
	t.ratio = r = exp(log_ratio);
	plain = -A * r;
	bound = -A * (r < 1 - p->clip ? 1 - p->clip : r > 1 + p->clip ? 1 + p->clip : r);
	t.clipped = bound > plain;
	t.loss = t.clipped ? bound : plain;
	t.dual = A < 0 && t.loss > -A * p->dual_clip;
	if (t.dual)
		t.loss = -A * p->dual_clip;
	t.dlogp = t.clipped || t.dual || t.clamped ? 0 : plain;
	return t;
}
