/* lact.h -- what LaCT's mixer (lact.c) and its way through chunks (lact_rows.c) share. */
#ifndef RF_LACT_H
#define RF_LACT_H

#include "mixers/fast_weights.h"
#include "mixers/kv_cache.h"

struct rf_lact_weights {
	struct rf_weight qkv, qkv_bias, norm[2], scale, offset, w[3], left[3], right[3]; /* of w0, w1, w2 */
	struct rf_weight lr, lr_bias, momentum, momentum_bias, ttt_scale, ttt_scale_bias, ttt_norm, o;
};

struct rf_lact_state {
	struct rf_kv_state attend;
	rf_f32 z, p, m, dz, dp;              /* (rf_lact_marks(), ...), (rf_lact_dmarks(), ...) */
	rf_f32 sum, msum, dsum, dmsum;       /* (rf_lact_sums(), ...), (rf_lact_dsums(), ...) */
	rf_f32 length, dlength;
};

struct rf_lact_save {
	struct rf_kv_save attend;
	/* q, k as projected; y before its norm; (R, H, 3), (R, H), (R, H) */
	rf_f32 q, k, y, lr, m, gate;
	struct rf_fast_rows decoded;         /* of rollouts that are decoded: k, v, lr and m of all steps */
};

struct rf_lact_work {
	struct rf_kv_work attend;
	struct rf_fast_work fast;
	rf_f32 norm[2], n, dgate;            /* q, k after their norm */
	struct rf_fast_rows x, dx;           /* in the order of the pass ... */
	struct rf_fast_rows group, dgroup;   /* ... and in that of the fast weights */
	rf_f32 w[2], dw[2];
	struct rf_fast_sum sum, dsum;        /* of one rollout */
	rf_f32 z, p, m, dz, dp;              /* its chunks' marks; the gradients of two */
};

static inline const struct rf_lact_config *rf_lact_config(const struct rf_tree *t)
{
	return &t->model->cfg->lact;
}

/* How many marks of chunks and sums a layer keeps, and gradients of them.  All chunks' marks only where they
 * are read going back; with --recompute segment those that are open when a segment begins, and one
 * segment's. */
int rf_lact_marks(const struct rf_tree *t);
int rf_lact_dmarks(const struct rf_tree *t);
int rf_lact_sums(const struct rf_tree *t);
int rf_lact_dsums(const struct rf_tree *t);

/* From x in the fast weights' order: x->y.  Back, from dx->y: dx->q, k, v, lr, m and the gradients of weights
 * and state. */
void rf_lact_sequence_fwd(struct rf_pass *p, int layer, const struct rf_fast_rows *x);
void rf_lact_sequence_bwd(struct rf_pass *p, int layer, const struct rf_fast_rows *x,
                      const struct rf_fast_rows *dx);
void rf_lact_branch_fwd(struct rf_pass *p, int layer, const struct rf_fast_rows *x);
void rf_lact_branch_bwd(struct rf_pass *p, int layer, const struct rf_fast_rows *x,
                        const struct rf_fast_rows *dx);

/* The fast weights' order is the pass's for the sequence.  Rollouts' rows are put in order of position, step,
 * rollout: so rows that read the same weights lie together, and those of one rollout evenly apart.  Rows of
 * `width` numbers from the pass's order to that one, or back. */
void rf_lact_regroup(const struct rf_pass *p, int width, rf_f32 pass, rf_f32 group, bool back);

#endif
