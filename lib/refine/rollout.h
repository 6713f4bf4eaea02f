/* rollout.h -- short continuations of a sequence at chosen positions (ReFINE, arXiv:2602.16704, eq. 7-8), in
 * one pass over the sequence.
 *
 * A rollout at position s continues the prefix x[0..s-1]; its tokens stand at s, s+1, ...  The first is drawn
 * from row s-1 of the pass over the sequence.  The same pass gives h_gt, the sequence's own hidden states at
 * s .. s+k-1. */
#ifndef RF_ROLLOUT_H
#define RF_ROLLOUT_H

#include "engine/work.h"
#include "stream/record.h"

/* Device memory of the stage.
 *
 *     kept          (c, k+1, d): hidden states of rows s-1 .. s+k-1 of every position
 *     token, logp   (k, c' n) of each group, of c' positions; the groups lie one after the other
 *     h_pred        (k, c' n, d) of each group, likewise
 *     first         (c', d): rows s-1 of the group's positions; if rollouts are scored (k+1, c' n, d): rows
 *                   s-1, and behind them the rollouts' own rows
 *     z             (c' n, N): logits */
struct rf_rollout_place {
	rf_f32 kept, first, z, logp, h_pred;
	rf_i32 token, from, to, banned;
	rf_f64 u;
};

struct rf_rollout_settings {
	struct rf_work *work;
	struct rf_rollout_place at;
	int k, n;              /* tokens per rollout, rollouts per position */
	double temperature, top_p;
	int top_k;             /* 0: all */
	bool eos;              /* end-of-sequence tokens may be drawn, and end a rollout */
	/* draw nothing; compute the values of the record's own rollout tokens with this model */
	bool score;
	uint64_t seed;
	int draw_step;         /* training step for the random numbers; -1: the model's */
};
#define RF_ROLLOUT_DEFAULTS { .k = 5, .n = 1, .temperature = 1, .top_p = 1, .draw_step = -1 }

/* -k (--length), -n (--rollouts), --temperature, --top-p, --top-k, --eos, --score, --seed, --draw-step */
void rf_rollout_options(struct rf_rollout_settings *s, struct rf_opts *opts);

/* The stage's use of memory, for rf_work_init(). */
struct rf_use rf_rollout_use(struct rf_rollout_settings *s);

/* rf_rollout_record() writes r->rollout and removes reward and advantage.  A record without positions (with
 * --score: without rollout tokens) passes unchanged.  With s->eos a rollout ends with the first end token
 * that it draws, and the record gets lengths; --score keeps those that it has.  After a rollout's end its row
 * of tokens has end tokens, and logp and h_pred have 0.  rf_rollout_check() only checks the record.  Errors:
 * RF_EDATA: the k tokens at a position do not fit into the sequence; RF_ENUMERIC: NaN or Inf. */
enum rf_code rf_rollout_check(const struct rf_rollout_settings *s, const struct rf_record *r,
                              struct rf_err *e);
enum rf_code rf_rollout_record(struct rf_rollout_settings *s, struct rf_record *r, struct rf_err *e);
/* The same where the tree has just run the record's sequence without positions, for training (tree.h,
 * rf_tree_branch_off()).  The values are the same. */
enum rf_code rf_rollout_go_on(struct rf_rollout_settings *s, struct rf_record *r, struct rf_err *e);

#endif
