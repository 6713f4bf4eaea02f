/* rollout.h -- short continuations of a sequence at chosen positions (ReFINE, arXiv:2602.16704, eq. 7-8), in
 * one pass over the sequence.
 *
 * A rollout at position s continues the prefix x[0..s-1]; its tokens have the positions s, s+1, ...  The
 * first token is drawn from row s-1 of the pass over the sequence.  The same pass gives h_gt, the hidden
 * states of the sequence at s .. s+k-1. */
#ifndef RF_ROLLOUT_H
#define RF_ROLLOUT_H

#include "engine/work.h"
#include "stream/record.h"

/* Device memory of the stage.
 *
 *     kept          (c, k+1, d): hidden states of rows s-1 .. s+k-1 of every position
 *     token, logp   (k, c' n) for each group of c' positions, one group after the other
 *     share         likewise, probability of all tokens that could be drawn
 *     h_pred        (k, c' n, d) for each group, likewise
 *     first         (c', d): rows s-1 of the group's positions; if rollouts are scored (k+1, c' n, d): rows
 *                   s-1, and after them the rows of the rollouts
 *     z             (c' n, N): logits
 *
 * share is NULL unless top_p or top_k leaves out tokens, h_pred with RF_AS_REF, and z if rollouts are
 * scored. */
struct rf_rollout_place {
	rf_f32 kept, first, z, logp, share, h_pred;
	rf_i32 token, from, to, banned;
	rf_f64 u;
};

/* The model that scores existing rollouts. */
enum rf_score_as {
	RF_AS_POLICY, /* the model that is trained: writes logp and hidden states */
	RF_AS_REF,    /* a reference model: writes only logp_ref */
};
#define RF_AS_WORDS "policy|ref"

struct rf_rollout_settings {
	struct rf_work *work;
	struct rf_rollout_place at;
	int k, n; /* tokens per rollout, rollouts per position */
	double temperature, top_p;
	int top_k;           /* 0: all */
	bool eos;            /* whether end tokens may be drawn, which end a rollout */
	bool score;          /* whether existing rollouts get values, and none are drawn */
	enum rf_score_as as; /* with score */
	uint64_t seed;
	int draw_step; /* training step for the random numbers; -1: the step of the model */
};
#define RF_ROLLOUT_DEFAULTS \
	{ \
		.k = 5, .n = 1, .temperature = 1, .top_p = 1, .draw_step = -1 \
	}

/* -k (--length), -n (--rollouts), --temperature, --top-p, --top-k, --eos, --score, --seed, --draw-step */
void rf_rollout_options(struct rf_rollout_settings *s, struct rf_opts *opts);
/* --as, which only rf-rollout has */
void rf_rollout_score_options(struct rf_rollout_settings *s, struct rf_opts *opts);

/* Returns how the stage uses memory, for rf_work_init(). */
struct rf_use rf_rollout_use(struct rf_rollout_settings *s);

/* Checks that the stage accepts the record.  Errors: RF_EDATA: the k tokens at a position do not fit into the
 * sequence. */
enum rf_code rf_rollout_check(const struct rf_rollout_settings *s, const struct rf_record *r,
                              struct rf_err *e);
/* Writes r->rollout and removes reward and advantage.  A record without positions (with s->score: without
 * rollout tokens) passes unchanged.  With s->eos a rollout ends with the first end token that is drawn, and
 * the record gets lengths; s->score keeps existing lengths, and also logp_ref and kept, which belong to the
 * tokens.  The draw writes kept if s->top_p or s->top_k leaves out tokens.  After the end of a rollout its
 * row of tokens has end tokens, logp and h_pred have 0, and kept has 1.
 *
 * With s->score and RF_AS_REF it writes only r->rollout.logp_ref, which has 0 after the end of a rollout.
 * The rest of the record stays as it is, and its hidden states may have another width than the model.
 *
 * Errors: those of rf_rollout_check(); RF_ENUMERIC: NaN or Inf. */
enum rf_code rf_rollout_record(struct rf_rollout_settings *s, struct rf_record *r, struct rf_err *e);
/* Does the same where the tree has just run the record's sequence without positions, for training (tree.h,
 * rf_tree_branch_off()).  The values are the same. */
enum rf_code rf_rollout_go_on(struct rf_rollout_settings *s, struct rf_record *r, struct rf_err *e);

#endif
