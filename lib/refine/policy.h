/* policy.h -- the policy loss of a rollout, one token at a time, and its derivative.  rf-grpo(1) has a table
 * of the variants and their sources.
 *
 * The ratio r of a token, with log r clamped to [-20, 20]:
 *
 *     TOKEN      log r = logp - logp_old
 *     SEQUENCE   log r = the mean of logp - logp_old over the rollout, the same for all its tokens (GSPO,
 *                arXiv:2507.18071, eq. 7)
 *
 * The loss l of a token with advantage A:
 *
 *     GRPO       max(-A r, -A clip(r, 1 - eps, 1 + eps_high)),  and where A < 0  min(that, -A c_dual)
 *     CISPO      -clip(r, 1 - eps, 1 + eps_high) A logp,  where the gradient takes the first factor for a
 *                constant (MiniMax-M1, arXiv:2506.13585, eq. 4)
 *
 * A mini-batch's loss is a mean of l + kl_coef D - entropy_coef H over its rollout tokens, where D estimates
 * the divergence from a reference model, and H is the entropy of the distribution that a token is drawn from.
 * The weights of the tokens in the mean:
 *
 *     TOKENS     each token has the same weight
 *     ROLLOUTS   each rollout has the same weight, as the mean of its tokens
 *     CONSTANT   each token has the weight 1 / k, where a rollout has at most k tokens, and the mean is over
 *                rollouts (Dr. GRPO, arXiv:2503.20783); k is the same in all records of a mini-batch */
#ifndef RF_POLICY_H
#define RF_POLICY_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/opt.h"

enum rf_ratio { RF_RATIO_TOKEN, RF_RATIO_SEQUENCE };
#define RF_RATIO_WORDS "token|sequence"
enum rf_objective { RF_OBJECTIVE_GRPO, RF_OBJECTIVE_CISPO };
#define RF_OBJECTIVE_WORDS "grpo|cispo"
enum rf_rl_mean { RF_RL_MEAN_TOKENS, RF_RL_MEAN_ROLLOUTS, RF_RL_MEAN_CONSTANT };
#define RF_RL_MEAN_WORDS "tokens|rollouts|constant"
/* The estimates of Schulman 2020, "Approximating KL divergence". */
enum rf_kl { RF_KL_K1, RF_KL_K2, RF_KL_K3 };
#define RF_KL_WORDS "k1|k2|k3"

struct rf_policy {
	enum rf_objective objective;
	enum rf_ratio ratio;
	enum rf_rl_mean mean;
	double clip, clip_high; /* eps; eps_high, which is eps if it is NaN */
	double dual_clip;       /* c_dual */
	double kl_coef, entropy_coef;
	enum rf_kl kl;
};
#define RF_POLICY_DEFAULTS \
	{ \
		.clip = 0.2, .clip_high = NAN, .dual_clip = 3, .kl = RF_KL_K3 \
	}

/* --objective --ratio --rl-mean --clip --clip-high --dual-clip --kl-coef --kl --entropy-coef */
void rf_policy_options(struct rf_policy *p, struct rf_opts *opts);

/* Returns the mean log-ratio of a rollout of `length` tokens, not clamped.  stride: the distance in logp from
 * one token to the next. */
double rf_policy_mean_log_ratio(const float *logp, size_t stride, const float *logp_old, int length);

struct rf_policy_token {
	double loss;      /* l */
	double dlogp;     /* dl / dlogp; 0 if the loss no longer depends on the ratio */
	double ratio;     /* r */
	double log_ratio; /* log r, clamped */
	/* whether the ratio was clipped: GRPO: the clipped term was the larger one; CISPO: it was outside of
	   the range */
	bool clipped;
	bool high;    /* whether the ratio was clipped at the upper bound */
	bool dual;    /* whether the dual clip was in effect */
	bool clamped; /* whether the log-ratio left [-20, 20] */
};
/* Returns the loss of a token with advantage A.  With SEQUENCE, dlogp is the sum of the derivatives of the
 * losses of the rollout's tokens by this token's logp, if all of them have the same advantage; else it is the
 * derivative of GSPO-token (arXiv:2507.18071, eq. 13 and 14). */
struct rf_policy_token rf_policy_token(const struct rf_policy *p, double logp, double log_ratio, double A);

/* An estimate of the divergence from a reference model, and its derivative. */
struct rf_policy_kl {
	double value, dlogp;
};
/* Returns the estimate of one token, with d = logp_ref - logp, clamped to [-20, 20].  Over tokens that the
 * model draws, the mean of its gradient is
 *
 *     K1  -d            0
 *     K2  d^2 / 2       the gradient of KL(model, reference)
 *     K3  e^d - 1 - d   the gradient of KL(reference, model) */
struct rf_policy_kl rf_policy_kl(enum rf_kl kind, double logp, double logp_ref);

/* Returns the weight of each token of a rollout in the sum over a mini-batch.  The mean is this sum
 * divided by rf_policy_terms(). */
double rf_policy_weight(const struct rf_policy *p, int length);
/* Returns the number of terms of the mean over these rollouts, which have `tokens` tokens together and at
 * most k tokens each. */
uint64_t rf_policy_terms(const struct rf_policy *p, uint64_t rollouts, uint64_t tokens, int k);

#endif
