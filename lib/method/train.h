/* train.h -- one optimizer step: the loss of a mini-batch, its gradient, AdamW.
 *
 *     L = rl_coef L_RL + ntp_coef L_NTP        L_RL:  mean over all rollout tokens (policy.h)
 *                                              L_NTP: mean of -log p(x[t+1] | x[0..t])
 *
 * Both means are over the tokens of the whole mini-batch, so its records are read before the first is
 * computed.  They are then taken in the order of their ids: the result does not depend on the order in which
 * they came. */
#ifndef RF_TRAIN_H
#define RF_TRAIN_H

#include "base/meter.h"
#include "engine/engine.h"
#include "method/policy.h"
#include "stream/record.h"

enum rf_schedule { RF_CONSTANT, RF_COSINE, RF_LINEAR };
#define RF_SCHEDULE_WORDS "constant|cosine|linear"
/* The tokens that count in L_NTP: all, or those of the response (t >= prompt_len). */
enum rf_loss_tokens { RF_LOSS_ALL, RF_LOSS_RESPONSE };
#define RF_LOSS_WORDS "all|response"
/* Which activations the backward pass computes again, in the place of keeping them. */
enum rf_recompute { RF_RECOMPUTE_NONE, RF_RECOMPUTE_SEGMENT };
#define RF_RECOMPUTE_WORDS "none|segment"

struct rf_train {
	struct rf_engine *engine;
	/* losses */
	double rl_coef, ntp_coef;
	enum rf_loss_tokens loss;
	struct rf_policy policy;
	enum rf_recompute recompute;
	struct rf_meter *meter;      /* counts the records that are through; may be NULL */
	bool log_gradients;
	/* optimizer */
	double lr, betas[2], adam_eps, weight_decay, grad_clip;
	enum rf_schedule schedule;
	int warmup, total_steps;
	/* memory */
	/* log_gradients: the gradient of L_NTP, beside that of L_RL in the model's */
	rf_f32 grad_ntp;
	rf_f64 sum;
};
#define RF_TRAIN_DEFAULTS { .rl_coef = 0.2, .ntp_coef = 1, .policy = RF_POLICY_DEFAULTS, .lr = 1e-6, \
                            .betas = { 0.9, 0.999 }, .adam_eps = 1e-8, .weight_decay = 0.01, \
                            .grad_clip = 0.2 }

/* --lr --betas --adam-eps --weight-decay --grad-clip --lr-schedule --warmup --total-steps --recompute */
enum { RF_TRAIN_OPTS = 10 };
void rf_train_options(struct rf_train *t, struct rf_opt opts[RF_TRAIN_OPTS]);

/* A part of the rewards: its name lies in the records; over the rollouts that have it. */
struct rf_part_mean { const char *name; double mean; uint64_t rollouts; };
enum { RF_PART_MEANS = 2 * RF_PARTS };

/* What a mini-batch was like; the log's figures (rf-grpo(1) lists them). */
struct rf_train_stats {
	int records, sequences_rl;         /* with rollouts */
	uint64_t tokens, ntp_tokens, rl_tokens;
	double loss_ntp, loss_rl;          /* without coefficients */
	double reward;                     /* mean over rollouts */
	uint64_t rollouts;
	int parts;                         /* different names; those beyond RF_PART_MEANS are left out */
	struct rf_part_mean part[RF_PART_MEANS];
	/* mean of the records' entropies, nats; NaN where they have none */
	double entropy;
	/* kl: mean of r - 1 - log r; abs_diff: of |logp - old| */
	double clip_fraction, dual_fraction, kl, ratio_max, abs_diff;
	uint64_t clamped;
	double grad_norm, lr;
	double norm_rl, norm_ntp, grad_cosine; /* of --log-gradients; NaN where not computed */
	bool stepped;
};

/* RF_EDATA: a record that cannot be trained on.  With rl_coef, rollouts need logp and advantage; --loss
 * response needs prompt_len. */
enum rf_code rf_train_check(const struct rf_train *t, const struct rf_record *r, struct rf_err *e);

/* Allocates on the device what the functions below need beside the engine's memory (they call it, too). */
enum rf_code rf_train_open(struct rf_train *t, struct rf_err *e);

/* The gradient of a mini-batch, into the model's, which is cleared first.  Its records must have passed
 * rf_train_check().  RF_ENUMERIC: a loss or log-probability that is not finite. */
enum rf_code rf_train_gradient(struct rf_train *t, struct rf_record *const *batch, int n,
                               struct rf_train_stats *st, struct rf_err *e);

/* What needs no model: counts and rewards; the rest is 0 or NaN. */
void rf_train_describe(const struct rf_train *t, struct rf_record *const *batch, int n,
                       struct rf_train_stats *st);

/* Whether the mini-batch can teach anything: an NTP token with ntp_coef, or an advantage other than
 * 0 with rl_coef. */
bool rf_train_teaches(const struct rf_train *t, struct rf_record *const *batch, int n);

/* Learning rate of optimizer step `step` (from 0). */
double rf_train_lr(const struct rf_train *t, int64_t step);

/* One AdamW step on the model's gradient; `updates`: how many there were before.  RF_ENUMERIC: the norm is
 * not finite; nothing has changed then. */
enum rf_code rf_train_step(struct rf_train *t, int64_t step, int64_t updates, struct rf_train_stats *st,
                           struct rf_err *e);

/* Gives back what the others allocated on the device. */
void rf_train_close(struct rf_train *t);

/* Memory for such sequences; with rl_coef 0 rollouts count for nothing. */
void rf_train_needs(const struct rf_train *t, struct rf_shape *s, struct rf_demand *need);

#endif
