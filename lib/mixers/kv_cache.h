/* kv_cache.h -- softmax attention of rows that are projected already: rotary embedding, the sequence's keys
 * and values, the products.  What the attention mixer and LaCT share.
 *
 * What later rows need of earlier ones: the sequence's keys and values.  A sequence that slides (tree.h)
 * keeps those of its segment and of the rows before it that the window holds, so that memory does not grow
 * with the sequence; any other keeps all. */
#ifndef RF_KV_CACHE_H
#define RF_KV_CACHE_H

#include "model/mixer.h"
#include "model/tree.h"

struct rf_kv_state {
	/* (kept rows, G, D) of the sequence; rf_tree.passing: only those before the next segment */
	rf_f32 k, v, dk, dv;
};
struct rf_kv_save {
	rf_f32 q, k, v, o, lse;      /* k, v: all steps of rollouts that are decoded; of the sequence NULL, or
	                                (rf_tree.passing) the kept rows */
	/* the new rows before they are turned, where they stay as they are; NULL: they lie in q, k */
	rf_f32 from_q, from_k;
};
struct rf_kv_work { rf_f32 dq, dk, dv, d_o; };

void rf_kv_state(const struct rf_tree *t, const struct rf_attn_config *c, struct rf_arena *a,
                     struct rf_kv_state *s);
void rf_kv_save(const struct rf_pass *p, const struct rf_attn_config *c, struct rf_arena *a,
                    struct rf_kv_save *s);
void rf_kv_work(const struct rf_pass *p, const struct rf_attn_config *c, struct rf_arena *a,
                    struct rf_kv_work *w);

/* Multiplications and additions of a sequence of T rows: each sees those before it and itself, or
 * its window. */
double rf_kv_flops(const struct rf_attn_config *c, int T);
/* The mixer's hooks of these names (mixer.h). */
void rf_kv_workspace(const struct rf_attn_config *c, struct rf_workspace *need);
int rf_kv_reads(const struct rf_attn_config *c);

/* Makes room for the new rows' k and v: a sequence that slides loses the rows that they do not see.  Comes
 * before all else. */
void rf_kv_slide(const struct rf_pass *p, const struct rf_attn_config *c, const struct rf_kv_state *s,
                     const struct rf_kv_save *k);
/* y = x (new rows, heads, D) turned by their positions, or back.  Models without rotary embedding keep x and
 * y in one place, and nothing is done. */
void rf_kv_rotate(const struct rf_pass *p, const struct rf_attn_config *c, int heads, bool inverse,
                    rf_f32 x, rf_f32 y);
/* Where the new rows' k, v go; q goes to its beginning in save. */
rf_f32 rf_kv_k(const struct rf_pass *p, const struct rf_attn_config *c, const struct rf_kv_state *s,
                   const struct rf_kv_save *k);
rf_f32 rf_kv_v(const struct rf_pass *p, const struct rf_attn_config *c, const struct rf_kv_state *s,
                   const struct rf_kv_save *k);
/* Turns q and k of the new rows, attends: save->o (rows, H, D). */
void rf_kv_attend_fwd(struct rf_pass *p, const struct rf_attn_config *c, struct rf_kv_state *s,
                   struct rf_kv_save *k);
/* From work->d_o the gradients of q, k, v before they were turned: work->dq, dk, dv. */
void rf_kv_attend_bwd(struct rf_pass *p, const struct rf_attn_config *c, struct rf_kv_state *s,
                   struct rf_kv_save *k, struct rf_kv_work *w);

#endif
