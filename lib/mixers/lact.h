/* lact.h -- what the files of the LaCT mixer share: lact.c is the layer, lact_rows.c takes rows through the
 * chunks, lact_slots.c chooses the slots of the chunks' marks and sums. */
#ifndef RF_LACT_H
#define RF_LACT_H

#include "mixers/fast_weights.h"
#include "mixers/kv_cache.h"

struct rf_lact_weights {
	/* w, left and right: [i] belongs to w0, w1, w2 */
	struct rf_weight qkv, qkv_bias, norm[2], scale, offset, w[3], left[3], right[3];
	struct rf_weight lr, lr_bias, momentum, momentum_bias, ttt_scale, ttt_scale_bias, ttt_norm, o;
};

struct rf_lact_state {
	struct rf_kv_state attend;
	rf_f32 z, p, m, dz, dp;        /* (rf_lact_marks(), ...), (rf_lact_dmarks(), ...) */
	rf_f32 sum, msum, dsum, dmsum; /* (rf_lact_sums(), ...), (rf_lact_dsums(), ...) */
	rf_f32 length, dlength;
};

struct rf_lact_save {
	struct rf_kv_save attend;
	/* q, k as projected; y before its norm; lr (R, H, 3), m (R, H), gate (R, H) */
	rf_f32 q, k, y, lr, m, gate;
	struct rf_fast_rows kept; /* rollouts that are decoded: k, v, lr and m of all steps */
};

struct rf_lact_work {
	struct rf_kv_work attend;
	struct rf_fast_work fast;
	rf_f32 norm[2], n, dgate;          /* norm: q, k after their norm; n: the input of o_proj */
	struct rf_fast_rows x, dx;         /* in the order of the pass ... */
	struct rf_fast_rows group, dgroup; /* ... and in that of the fast weights */
	rf_f32 w[2], dw[2];                /* weights of the sequence's chunk, of a rollout's own */
	struct rf_fast_sum sum, dsum;      /* of one rollout */
	rf_f32 z, p, m, dz, dp;            /* marks of a rollout's own chunks; gradients of two marks */
};

static inline const struct rf_lact_config *rf_lact_config(const struct rf_tree *t)
{
	return &t->model->cfg->lact;
}

/* lact_slots.c: the slots of chunks in a layer's state. */

/* Return the numbers of slots for marks, for sums, and for the gradients of each. */
int rf_lact_marks(const struct rf_tree *t);
int rf_lact_dmarks(const struct rf_tree *t);
int rf_lact_sums(const struct rf_tree *t);
int rf_lact_dsums(const struct rf_tree *t);

/* The mixer's hooks index_size and set_index (mixer.h). */
size_t rf_lact_index_size(const struct rf_tree *t);
void rf_lact_set_index(const struct rf_tree *t, int *index);

struct rf_lact_slots {
	int *mark, *dmark;  /* (chunks): mark of each chunk of the sequence, and its gradient */
	int *branched;      /* (chunks): number of the chunk among those with a position; -1: none */
	int *sum;           /* (segments + 1): sums of the open chunk where each segment begins, and
	                                where the last one ends */
	int *position_mark; /* (positions): mark of the chunk that is open at each position */
	int position_sum;   /* the first position's sums; those of the others follow */
	int rollout_mark;   /* plan.apart: the first rollout's mark; those of the others follow */
};
/* Returns the slots of the sequence that runs. */
struct rf_lact_slots rf_lact_slots(const struct rf_tree *t, int layer);

/* lact_rows.c: the rows of a pass, chunk by chunk. */

/* _fwd: compute x->y from the other features, which are in the order of the fast weights.  _bwd: compute
 * dx->q, k, v, lr and m from dx->y, and add to the gradients of weights and state. */
void rf_lact_sequence_fwd(struct rf_pass *p, int layer, const struct rf_fast_rows *x);
void rf_lact_sequence_bwd(struct rf_pass *p, int layer, const struct rf_fast_rows *x,
                          const struct rf_fast_rows *dx);
/* For the pass of a segment that has run: returns whether sums are kept at its positions.  Marks need no
 * second pass, because training keeps them anyway. */
bool rf_lact_captures(const struct rf_pass *p);
/* Keeps these sums, as rf_lact_sequence_fwd() would have. */
void rf_lact_capture(struct rf_pass *p, int layer, const struct rf_fast_rows *x);
void rf_lact_branch_fwd(struct rf_pass *p, int layer, const struct rf_fast_rows *x);
void rf_lact_branch_bwd(struct rf_pass *p, int layer, const struct rf_fast_rows *x,
                        const struct rf_fast_rows *dx);

/* Copies the rows of a rollout pass, of `width` numbers, from the order of the pass to the order of the fast
 * weights; back: the other way.  Does nothing if `pass` is NULL.  The order of the fast weights is by
 * position, step, rollout: rows that read the same weights are adjacent, and the rows of one rollout are
 * evenly spaced.  For a segment the two orders are the same. */
void rf_lact_regroup(const struct rf_pass *p, int width, rf_f32 pass, rf_f32 group, bool back);

#endif
