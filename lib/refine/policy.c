/* policy.c -- the loss of one rollout token, and its derivative.
 *
 * The outer maximum is the pessimistic bound of PPO (Schulman et al. 2017, eq. 7).  The dual clip bounds the
 * loss of a rollout with a negative advantage when its ratio is large (Ye et al. 2020, arXiv:1912.09729, eq.
 * 4).  The comparisons are written so that a NaN stays NaN. */
#include <math.h>

#include "refine/policy.h"

static const double most_log_ratio = 20;

void rf_policy_options(struct rf_policy *p, struct rf_opts *opts)
{
	const struct rf_opt table[] = {
		OPT_ENUM("objective", &p->objective, RF_OBJECTIVE_WORDS,
		         "grpo: clipped loss; cispo: clipped weights of log-probabilities",
		         .noted = RF_OPT_RESULT),
		OPT_ENUM("ratio", &p->ratio, RF_RATIO_WORDS,
		         "probability ratio of each token, or one of the whole rollout (GSPO)",
		         .noted = RF_OPT_RESULT),
		OPT_ENUM("rl-mean", &p->mean, RF_RL_MEAN_WORDS,
		         "policy loss: mean of all tokens, of the rollouts' means, or over n k tokens",
		         .noted = RF_OPT_RESULT),
		OPT_REAL("clip", &p->clip, 0, 1, "eps", "clip the probability ratio to [1 - eps, 1 + eps]",
		         .noted = RF_OPT_RESULT),
		OPT_REAL("clip-high", &p->clip_high, 0, 1e6, "eps",
		         "upper bound 1 + eps of the ratio, if it is not that of --clip",
		         .noted = RF_OPT_RESULT),
		OPT_REAL("dual-clip", &p->dual_clip, 1, 1e6, "c",
		         "where the advantage A is negative, the loss is at most -A c",
		         .noted = RF_OPT_RESULT),
		OPT_REAL("kl-coef", &p->kl_coef, 0, 1e6, "c",
		         "weight of the divergence from a reference model in the policy loss",
		         .noted = RF_OPT_RESULT),
		OPT_ENUM("kl", &p->kl, RF_KL_WORDS, "estimate of this divergence", .noted = RF_OPT_RESULT),
		OPT_REAL("entropy-coef", &p->entropy_coef, 0, 1e6, "c",
		         "weight of an entropy bonus in the policy loss", .noted = RF_OPT_RESULT),
		OPT_END,
	};

	rf_opts_add(opts, table);
}

double rf_policy_mean_log_ratio(const float *logp, size_t stride, const float *logp_old, int length)
{
	double sum = 0;

	for (size_t i = 0; i < (size_t)length; i++)
		sum += (double)logp[i * stride] - (double)logp_old[i];
	return sum / length;
}

/* Completes the loss of GRPO from the ratio and its bounds. */
static void bound_loss(const struct rf_policy *p, struct rf_policy_token *t, double A, double low,
                       double high)
{
	const double r = t->ratio, plain = -A * r, bound = -A * (r < low ? low : r > high ? high : r);

	t->clipped = bound > plain;
	t->high = t->clipped && r > high;
	t->loss = t->clipped ? bound : plain;
	t->dual = A < 0 && t->loss > -A * p->dual_clip;
	if (t->dual)
		t->loss = -A * p->dual_clip;
	t->dlogp = t->clipped || t->dual || t->clamped ? 0 : plain;
}

/* Completes the loss of CISPO.  The gradient does not pass through the ratio, so a clip does not stop it. */
static void weight_logp(struct rf_policy_token *t, double logp, double A, double low, double high)
{
	const double r = t->ratio, weight = r < low ? low : r > high ? high : r;

	t->high = r > high;
	t->clipped = t->high || r < low;
	t->loss = -weight * A * logp;
	t->dlogp = -weight * A;
}

struct rf_policy_token rf_policy_token(const struct rf_policy *p, double logp, double log_ratio, double A)
{
	const double low = 1 - p->clip, high = 1 + (isnan(p->clip_high) ? p->clip : p->clip_high);
	struct rf_policy_token t = { .clamped = fabs(log_ratio) > most_log_ratio };

	if (t.clamped)
		log_ratio = log_ratio > 0 ? most_log_ratio : -most_log_ratio;
	t.log_ratio = log_ratio;
	t.ratio = exp(log_ratio);
	if (p->objective == RF_OBJECTIVE_CISPO)
		weight_logp(&t, logp, A, low, high);
	else
		bound_loss(p, &t, A, low, high);
	return t;
}

struct rf_policy_kl rf_policy_kl(enum rf_kl kind, double logp, double logp_ref)
{
	double d = logp_ref - logp;
	const bool clamped = fabs(d) > most_log_ratio;
	struct rf_policy_kl x;

	if (clamped)
		d = d > 0 ? most_log_ratio : -most_log_ratio;
	switch (kind) {
	case RF_KL_K1: x = (struct rf_policy_kl){ -d, 1 }; break;
	case RF_KL_K2: x = (struct rf_policy_kl){ d * d / 2, -d }; break;
	default: x = (struct rf_policy_kl){ expm1(d) - d, -expm1(d) };
	}
	if (clamped)
		x.dlogp = 0;
	return x;
}

double rf_policy_weight(const struct rf_policy *p, int length)
{
	return p->mean == RF_RL_MEAN_ROLLOUTS ? 1.0 / length : 1;
}

uint64_t rf_policy_terms(const struct rf_policy *p, uint64_t rollouts, uint64_t tokens, int k)
{
	return p->mean == RF_RL_MEAN_TOKENS     ? tokens
	       : p->mean == RF_RL_MEAN_ROLLOUTS ? rollouts
	                                        : rollouts * (uint64_t)k;
}
