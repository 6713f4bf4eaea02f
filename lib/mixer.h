/* mixer.h -- what a layer's sequence mixer is to the model: the only part of a layer that knows of earlier rows.
 *
 * One table per kind (delta_net.c, attention.c, ...); model.c and tree.c call nothing else of them. */
#ifndef RF_MIXER_H
#define RF_MIXER_H

#include "model.h"

/* Device memory that is laid out once: take() hands out pieces in order.  With no base it only counts, so that one
 * layout function both plans and places. */
struct rf_arena { char *base; size_t used; };
rf_f32 rf_arena_f32(struct rf_arena *a, size_t n);
rf_i32 rf_arena_i32(struct rf_arena *a, size_t n);
rf_f64 rf_arena_f64(struct rf_arena *a, size_t n);

/* Where a mixer keeps what it needs.  Slots hold the state after some row: of the text at the start of each segment, and
 * of every row below which rollouts hang. */
union rf_mixer_state {
	struct {
		rf_f32 S, tail[3];           /* (slots, H, K, V); q, k, v: (slots, w-1, width), rows before the convolution */
		rf_f32 dS, dtail[3];
	} delta;
	struct {
		rf_f32 k, v, dk, dv;         /* the text's keys and values, (max_len, G, D) */
	} attn;
};

/* What a pass keeps of a layer until its backward pass (or, where rollouts grow, until their next step). */
union rf_mixer_save {
	struct {
		rf_f32 x[3];                 /* q, k, v before the convolution, ((w-1 + steps) nb, width): earlier rows in front */
		rf_f32 k;                    /* k after it, (R, H, K), where rollouts grow; else it is made again */
		rf_f32 b, u, o, gate;        /* (R, H), (R, H, V), (R, H, V), (R, H, V) */
	} delta;
	struct {
		rf_f32 q, k, v, o, lse;
	} attn;
};

/* Memory of a pass that no layer keeps. */
union rf_mixer_work {
	struct {
		rf_f32 y[3], n;              /* q, k, v after the convolution; o after its norm */
		rf_f32 dy[3], dx[3], dn, d_o, dgate, db;
	} delta;
	struct { rf_f32 dq, dk, dv, d_o; } attn;
};

struct rf_mixer {
	const char *name;
	/* Finds the layer's weights in the table. */
	void (*bind)(struct rf_model *m, int layer);
	/* Layouts: of a layer's state (slots), of what a pass keeps of a layer, of what a pass needs meanwhile. */
	void (*state)(const struct rf_tree *t, int layer, struct rf_arena *a, union rf_mixer_state *s);
	void (*save)(const struct rf_pass *p, int layer, struct rf_arena *a, union rf_mixer_save *s);
	void (*work)(const struct rf_pass *p, int layer, struct rf_arena *a, union rf_mixer_work *w);
	/* h += mixer(x) for the rows of the pass that are new; x, h (rows, d). */
	void (*fwd)(struct rf_pass *p, int layer, rf_f32 x, rf_f32 h);
	/* Given the gradient dh of the mixer's output and its input x: dx, the weights' gradients (added), the state's. */
	void (*bwd)(struct rf_pass *p, int layer, rf_f32 x, rf_f32 dh, rf_f32 dx);
};

extern const struct rf_mixer rf_mixer_delta_net, rf_mixer_attention;

#endif
