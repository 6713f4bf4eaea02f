/* attend.h -- softmax attention of rows that are projected already: rotary embedding, the text's keys and values, the
 * products.  What the attention mixer and LaCT share.
 *
 * What later rows need of earlier ones: the text's keys and values.  All of them are kept where there is no window or
 * there will be a backward pass; else only those that the next segment and the rollouts can see (rf_tree.kept), so that
 * memory does not grow with the text. */
#ifndef RF_ATTEND_H
#define RF_ATTEND_H

#include "mixer.h"
#include "tree.h"

struct rf_attend_state {
	rf_f32 k, v, dk, dv;         /* (kept rows, G, D) of the text */
	rf_f32 last_k[2], last_v[2]; /* (window - 1, G, D): the rows before a segment, in turns; NULL where all are kept */
};
struct rf_attend_save {
	rf_f32 q, k, v, o, lse;      /* k, v: all steps of rollouts that grow; NULL: the text's, where the state keeps all rows */
	rf_f32 from_q, from_k;       /* the new rows before they are turned, where they stay as they are; NULL: they lie in q, k */
};
struct rf_attend_work { rf_f32 dq, dk, dv, d_o; };

void rf_attend_state(const struct rf_tree *t, const struct rf_attn_config *c, struct rf_arena *a, struct rf_attend_state *s);
void rf_attend_save(const struct rf_pass *p, const struct rf_attn_config *c, struct rf_arena *a, struct rf_attend_save *s);
void rf_attend_work(const struct rf_pass *p, const struct rf_attn_config *c, struct rf_arena *a, struct rf_attend_work *w);

/* Multiplications and additions of a text of T rows: each sees those before it and itself, or its window. */
double rf_attend_flops(const struct rf_attn_config *c, int T);

/* y = x (new rows, heads, D) turned by their positions, or back.  Models without rotary embedding keep x and y in one
 * place, and nothing is done. */
void rf_attend_turn(const struct rf_pass *p, const struct rf_attn_config *c, int heads, bool inverse, rf_f32 x, rf_f32 y);
/* Where the new rows' k, v go; q goes to its beginning in save. */
rf_f32 rf_attend_k(const struct rf_pass *p, const struct rf_attn_config *c, const struct rf_attend_state *s, const struct rf_attend_save *k);
rf_f32 rf_attend_v(const struct rf_pass *p, const struct rf_attn_config *c, const struct rf_attend_state *s, const struct rf_attend_save *k);
/* Turns q and k of the new rows, attends: save->o (rows, H, D). */
void rf_attend_fwd(struct rf_pass *p, const struct rf_attn_config *c, struct rf_attend_state *s, struct rf_attend_save *k);
/* From work->d_o the gradients of q, k, v before they were turned: work->dq, dk, dv. */
void rf_attend_bwd(struct rf_pass *p, const struct rf_attn_config *c, struct rf_attend_state *s, struct rf_attend_save *k,
                   struct rf_attend_work *w);

#endif
