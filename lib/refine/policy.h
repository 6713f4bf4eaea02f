/* policy.h -- the clipped policy loss of GRPO with a dual clip, one rollout token at a time.
 *
 *     r = exp(clamp(logp - logp_old, -20, 20))
 *     l = max(-A r, -A clip(r, 1-eps, 1+eps)),  and where A < 0  min(l, -A c_dual)
 *
 * L_RL is the mean of l over all rollout tokens of a mini-batch. */
#ifndef RF_POLICY_H
#define RF_POLICY_H

#include <stdbool.h>
#include <stdint.h>

struct rf_policy {
	double clip, dual_clip;
}; /* eps, c_dual */
#define RF_POLICY_DEFAULTS \
	{ \
		0.2, 3 \
	}

struct rf_policy_token {
	double loss;      /* l */
	double dlogp;     /* dl / dlogp; 0 if a clip or the clamp is in effect */
	double ratio;     /* r */
	double log_ratio; /* log r, clamped */
	bool clipped;     /* whether the clipped term was the larger one */
	bool dual;        /* whether the dual clip was in effect */
	bool clamped;     /* whether the log-ratio left [-20, 20] */
};
/* Returns the loss of a token with advantage A.  logp_old: its log-probability when it was drawn. */
struct rf_policy_token rf_policy_token(const struct rf_policy *p, double logp, double logp_old, double A);

#endif
