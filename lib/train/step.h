/* step.h -- ReFINE's step where one process has the weights (arXiv:2602.16704): entropies, positions,
 * rollouts, rewards, advantages and the gradient of a record from one pass over its sequence.
 *
 * For the records of the first mini-batch after the weights have changed, the pass that computes the
 * entropies is the forward pass of the gradient: the head computes logits once, for the entropies and for
 * the next-token loss.  Rollouts continue from states that are made again from what the pass has kept
 * (tree.h, rf_tree_branch_off()).  For the other records, whose gradient is computed by other weights, the
 * pass serves only the entropies and the rollouts.
 *
 *     rf_step_begin()       before the first record of a batch
 *     for each record:      rf_step_entropy(), rf_step_select(), rf_step_rollout(), rf_step_reward(),
 *                           rf_step_advantage(), rf_step_gradient(), in this order
 *
 * The values are those of the separate stages (entropy.h, select.h, rollout.h, reward.h, advantage.h), bit
 * by bit, and rf_train_gradient() takes over what rf_step_gradient() has computed. */
#ifndef RF_STEP_H
#define RF_STEP_H

#include "refine/advantage.h"
#include "refine/entropy.h"
#include "refine/reference.h"
#include "refine/reward.h"
#include "refine/reward_exec.h"
#include "refine/rollout.h"
#include "refine/select.h"
#include "train/batch.h"

struct rf_step {
	/* settings */
	struct rf_train *train;
	int draw_step; /* training step for all random numbers; -1: the step of the batch */
	struct rf_select select;
	struct rf_rollout_settings rollouts;
	struct rf_reward_settings reward;
	struct rf_reference *reference; /* scores the rollouts, too; NULL: there is no reference model */
	/* now */
	struct rf_use base;
	struct rf_entropy entropy;
	bool ahead;                   /* the current record belongs to the first mini-batch */
	struct rf_group_stats groups; /* of the current record */
	/* counts of records that were too short, and that have no other position for --shift */
	uint64_t missed, alone;
};
#define RF_STEP_DEFAULTS \
	{ \
		.draw_step = -1, .select = RF_SELECT_DEFAULTS, .rollouts = RF_ROLLOUT_DEFAULTS, \
		.reward = RF_REWARD_DEFAULTS \
	}

/* The options of the stages.  An option that several stages have is there once: --length for positions and
 * rollouts, --seed and --draw-step for positions, rollouts and rewards.  --shift of rf-select is called
 * --select-shift, because rf-reward has an option of the same name.  Call rf_step_settle() when they have
 * been read.  Errors: RF_EUSAGE: options contradict each other. */
/* --advantage: the stream's advantages belong to older rollouts. */
#define RF_STEP_FROM_WORDS "reward|token"
void rf_step_options(struct rf_step *s, struct rf_opts *opts);
enum rf_code rf_step_settle(struct rf_step *s, struct rf_reward_exec_settings *command, struct rf_err *e);

/* Returns how all stages together use memory, and gives the stages their work area.  base: the use of
 * training. */
struct rf_use rf_step_use(struct rf_step *s, struct rf_work *w, struct rf_use base);

/* Computes the totals that rf_train_totals() will return when the records have their rollouts.  Drops those
 * that they have now. */
void rf_step_totals(const struct rf_step *s, struct rf_record *const *r, int n, struct rf_totals *own);
/* Begins a batch at this step of the run.  all: the totals of the first mini-batch over all ranks; NULL: no
 * gradient is computed ahead. */
enum rf_code rf_step_begin(struct rf_step *s, int64_t step, const struct rf_totals *all, struct rf_err *e);

/* Each function writes the same fields as its stage, and has the same errors.  first: the record belongs to
 * the first mini-batch. */
enum rf_code rf_step_entropy(struct rf_step *s, struct rf_record *r, bool first, struct rf_err *e);
enum rf_code rf_step_select(struct rf_step *s, struct rf_record *r, struct rf_err *e);
enum rf_code rf_step_rollout(struct rf_step *s, struct rf_record *r, struct rf_err *e);
enum rf_code rf_step_reward(struct rf_step *s, struct rf_record *r, struct rf_err *e);
enum rf_code rf_step_advantage(struct rf_step *s, struct rf_record *r, struct rf_err *e);
enum rf_code rf_step_gradient(struct rf_step *s, struct rf_record *r, struct rf_err *e);

/* Reports how many of `records` records got no positions, and how many lost their rollouts, a line each. */
void rf_step_remark(const struct rf_step *s, uint64_t records, void (*say)(const char *fmt, ...));

#endif
