/* train.h -- the settings and the memory of training: loss.h, batch.h and adamw.h make an optimizer step with
 * them.
 *
 *     L = rl_coef L_RL + ntp_coef L_NTP + position_coef L_positions
 *
 *     L_RL         mean over all rollout tokens, or another mean over them (policy.h)
 *     L_NTP        mean of -log p(x[t+1] | x[0..t])
 *     L_positions  the same mean over the k tokens x[s] .. x[s+k-1] of the text at each position s; a token
 *                  counts once for each of its positions.  Its gradient is that of L_RL for rollouts that
 *                  are the text, with advantage 1: the teacher-forced control of ReFINE
 *
 * All means are over the tokens of the whole mini-batch; L_NTP may also be the mean of the sequences' means.
 * So all records of a mini-batch are read before the first is computed.  They are computed in the order of
 * their ids, so the result does not depend on the order of the stream. */
#ifndef RF_TRAIN_H
#define RF_TRAIN_H

#include "base/meter.h"
#include "engine/work.h"
#include "ranks/exchange.h"
#include "ranks/ranks.h"
#include "refine/policy.h"
#include "stream/record.h"
#include "stream/stream.h"
#include "train/figures.h"

enum rf_schedule { RF_CONSTANT, RF_COSINE, RF_LINEAR };
#define RF_SCHEDULE_WORDS "constant|cosine|linear"
/* The tokens that count in L_NTP: all tokens, the response (t >= prompt_len), or the tokens of
 * L_positions. */
enum rf_loss_tokens { RF_LOSS_ALL, RF_LOSS_RESPONSE, RF_LOSS_POSITIONS };
#define RF_LOSS_WORDS           "all|response"
#define RF_LOSS_WORDS_POSITIONS "all|response|positions" /* rf-ntp */
/* The mean of L_NTP: over all tokens that count, or over the means of the sequences, which then have the same
 * weight whatever their length. */
enum rf_loss_mean { RF_MEAN_TOKENS, RF_MEAN_SEQUENCES };
#define RF_MEAN_WORDS "tokens|sequences"
/* The activations that are not kept, but computed again for the backward pass. */
enum rf_recompute { RF_RECOMPUTE_NONE, RF_RECOMPUTE_SEGMENT };
#define RF_RECOMPUTE_WORDS "none|segment"
/* How the gradients of the records of a mini-batch are added up.  EXACT: as whole numbers (sum_add in dev.h).
 * The sum has the same bits for any order and any division of the records, and takes 8 bytes for each weight.
 * PLAIN: in float32, in the order of the ids. */
enum rf_sum { RF_SUM_EXACT, RF_SUM_PLAIN };
#define RF_SUM_WORDS "exact|plain"

/* The share of the optimizer on each rank: all moments, or a part of them, with which the rank steps the same
 * part of the weights.  The bits are the same. */
enum rf_sharded { RF_SHARD_NONE, RF_SHARD_OPTIMIZER };
#define RF_SHARD_WORDS "none|optimizer"

/* The weights of the losses of one token: the coefficients, divided by the number of terms of the means. */
struct rf_weights {
	double rl, ntp, positions;
};

/* Device memory for a record, next to its tree.  The rows of the policy loss are step-major: row (j, b)
 * predicts token j of rollout b.  So rows (0, b) are rows s-1 of the sequence, and rows (j, b) are rows j-1
 * of the rollouts. */
struct rf_train_place {
	rf_f32 z;                /* logits of a block of rows */
	rf_f32 dh;               /* (T, d): gradient of the hidden states */
	rf_f32 coef, logp;       /* (T) */
	rf_i32 target;           /* (T) */
	rf_f32 first, dfirst;    /* (c, d): rows s-1 and their gradient */
	rf_f32 rows, drows;      /* (k c n, d) */
	rf_f32 rl_coef, rl_logp; /* (k c n) */
	/* (k c n): entropies of the rows, and the coefficients of their gradient; NULL: no entropy bonus */
	rf_f32 rl_entropy, rl_entropy_coef;
	rf_i32 rl_target, from; /* (k c n), (k c n + 2 c): lists of rows */
};

/* Returns the number of partial sums in a dot product of n numbers. */
static inline size_t rf_train_tiles(size_t n) { return (n + RF_DOT_TILE - 1) / RF_DOT_TILE; }

/* Device memory that lasts as long as the program. */
struct rf_train_mem {
	rf_f32 grad_rl; /* log_gradients: the gradient of L_RL, while the model's own buffer
	                                holds that of the next-token losses */
	rf_f64 product; /* the partial sums of a dot product, one for each tile */
	rf_i64 exact;   /* RF_SUM_EXACT: the sum of the records so far */
	rf_f32 largest; /* the largest number of a record's gradient */
};

/* The records whose gradients were computed as they came: rf_train_ahead() in batch.h. */
struct rf_train_ahead {
	bool open; /* whether rf_train_gradient() may use them */
	struct rf_weights w;
	struct rf_share *share; /* (n): the id of each record, and what its losses add to the figures */
	int n, room;
	double seconds; /* the time spent on them since the last step */
};

/* The settings of the optimizer. */
struct rf_adamw_settings {
	double lr, betas[2], eps, weight_decay, grad_clip;
	const char *only; /* patterns of the names of the tensors to train; NULL: all tensors */
	enum rf_schedule schedule;
	int warmup, total_steps;
};
#define RF_ADAMW_DEFAULTS \
	{ \
		.lr = 1e-6, .betas = { 0.9, 0.999 }, .eps = 1e-8, .weight_decay = 0.01, .grad_clip = 0.2 \
	}

struct rf_train {
	struct rf_engine *engine;
	struct rf_work *work;   /* memory for sequences, on this engine */
	struct rf_ranks *ranks; /* processes that share the records of a mini-batch */
	struct rf_meter *meter; /* the meter of finished records; may be NULL */
	/* settings: the losses */
	double rl_coef, ntp_coef, position_coef;
	int k;        /* tokens of L_positions at each position; 0: not known yet */
	bool k_found; /* whether k comes from the history */
	enum rf_loss_tokens loss;
	enum rf_loss_mean mean;
	struct rf_policy policy;
	struct rf_advantage advantage; /* how advantages are computed */
	bool log_gradients;
	/* settings: memory and ranks */
	enum rf_recompute recompute;
	enum rf_sum sum;
	enum rf_sharded shard; /* the part of this rank is in the engine (engine.h) */
	struct rf_adamw_settings adamw;
	/* open */
	struct rf_exchange exchange; /* the carrier is a setting; rf_train_join() opens it */
	struct rf_train_place at;
	struct rf_train_mem mem;
	struct rf_train_ahead ahead;
};
#define RF_TRAIN_DEFAULTS \
	{ \
		.ranks = &rf_ranks_alone, .rl_coef = 0.2, .ntp_coef = 1, .policy = RF_POLICY_DEFAULTS, \
		.advantage = RF_ADVANTAGE_DEFAULTS, .adamw = RF_ADAMW_DEFAULTS \
	}

/* --lr --betas --adam-eps --weight-decay --grad-clip --train --lr-schedule --warmup --total-steps
 * --recompute --sum --shard --exchange */
void rf_train_options(struct rf_train *t, struct rf_opts *opts);

/* Returns whether the loss has tokens at positions: L_positions, or L_NTP over its tokens. */
bool rf_train_needs_positions(const struct rf_train *t);
/* Finds t->k, if the loss needs it and the record has positions: the length that the history of the stream
 * has for rf-select or rf-step.  r: the unchanged record of the stream.  Errors: RF_EDATA: the history has no
 * length, or the record's rollouts have another length. */
enum rf_code rf_train_find_k(struct rf_train *t, const struct rf_head *h, const struct rf_record *r,
                             struct rf_err *e);
/* Checks that a record can be trained on.  If rl_coef is not 0, rollouts need logp and advantage; --loss
 * response needs prompt_len; positions need room for k tokens.  Errors: RF_EDATA. */
enum rf_code rf_train_check(const struct rf_train *t, const struct rf_record *r, struct rf_err *e);

/* Allocates the device memory of training that lasts as long as the program.  The functions of batch.h and
 * adamw.h call it, too; a call at the start reports at the start that memory is short. */
enum rf_code rf_train_open(struct rf_train *t, struct rf_err *e);

/* Connects the devices of the ranks, after rf_train_open() on each of them.  Collective.  Errors: those of
 * rf_exchange_open(). */
enum rf_code rf_train_join(struct rf_train *t, struct rf_err *e);

/* Releases what rf_train_open() allocated. */
void rf_train_close(struct rf_train *t);

#endif
