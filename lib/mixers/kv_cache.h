/* kv_cache.h -- softmax attention of rows that are already projected: rotary embedding, the sequence's keys
 * and values, the products.  The attention mixer and LaCT share it.
 *
 * Later rows need the keys and values of earlier rows.  A sequence that slides (tree.h) keeps those of its
 * current segment and of the earlier rows that are inside the window, so memory does not grow with its
 * length.  Any other sequence keeps the keys and values of all rows. */
#ifndef RF_KV_CACHE_H
#define RF_KV_CACHE_H

#include "model/mixer.h"
#include "model/tree.h"

struct rf_kv_state {
	/* (kept rows, G, D) of the sequence; with rf_tree.cache.transient only the rows before the next
	   segment; with plan.apart those of each sequence, rf_tree.cache.stride rows from one to the next */
	rf_f32 k, v, dk, dv;
};
struct rf_kv_save {
	rf_f32 q, k, v, o, lse; /* k, v: rollouts: all their rows; the sequence: NULL or, with
	                                rf_tree.cache.transient, the kept rows */
	/* q and k of the new rows before rotation, if the caller keeps them; NULL: they are in q and k, and
	   are rotated in place */
	rf_f32 from_q, from_k;
};
struct rf_kv_work {
	rf_f32 dq, dk, dv, d_o;
};

/* Lay out the structs' arrays, like the mixer's hooks of these names (mixer.h). */
void rf_kv_state(const struct rf_tree *t, const struct rf_attn_config *c, struct rf_arena *a,
                 struct rf_kv_state *s);
void rf_kv_save(const struct rf_pass *p, const struct rf_attn_config *c, struct rf_arena *a,
                struct rf_kv_save *s);
void rf_kv_work(const struct rf_pass *p, const struct rf_attn_config *c, struct rf_arena *a,
                struct rf_kv_work *w);

/* Returns the multiplications and additions for a sequence of T rows, each of which attends to itself and to
 * the rows before it, within the window. */
double rf_kv_flops(const struct rf_attn_config *c, int T);
/* For the mixer's hooks of these names (mixer.h). */
void rf_kv_workspace(const struct rf_attn_config *c, struct rf_workspace *need);
int rf_kv_reads(const struct rf_attn_config *c);

/* Makes room for k and v of the new rows: if the sequence slides, drops the kept rows that the new ones do
 * not see.  Call it before k and v of the new rows are written. */
void rf_kv_slide(const struct rf_pass *p, const struct rf_attn_config *c, const struct rf_kv_state *s,
                 const struct rf_kv_save *k);
/* Computes y = x (new rows, heads, D), rotated by the positions of the rows; BACK: rotated back; OPERAND:
 * products read y next.  If the model has no rotary embedding, nothing is done, and x and y must be the
 * same. */
enum rf_kv_turn { RF_KV_TURN, RF_KV_BACK, RF_KV_OPERAND };
void rf_kv_rotate(const struct rf_pass *p, const struct rf_attn_config *c, int heads, enum rf_kv_turn how,
                  rf_f32 x, rf_f32 y);
/* Return where the caller must put k and v of the new rows.  Their q goes to the start of save's q. */
rf_f32 rf_kv_k(const struct rf_pass *p, const struct rf_attn_config *c, const struct rf_kv_state *s,
               const struct rf_kv_save *k);
rf_f32 rf_kv_v(const struct rf_pass *p, const struct rf_attn_config *c, const struct rf_kv_state *s,
               const struct rf_kv_save *k);
/* Rotates q and k of the new rows and computes attention: save's o (rows, H, D). */
void rf_kv_attend_fwd(struct rf_pass *p, const struct rf_attn_config *c, struct rf_kv_state *s,
                      struct rf_kv_save *k);
/* From work->d_o computes work->dq, dk and dv, the gradients of q, k and v before rotation. */
void rf_kv_attend_bwd(struct rf_pass *p, const struct rf_attn_config *c, struct rf_kv_state *s,
                      struct rf_kv_save *k, struct rf_kv_work *w);

#endif
