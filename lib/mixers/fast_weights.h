/* fast_weights.h -- the fast weights of LaCT (Zhang et al. 2025, arXiv:2505.23884): what rows read of them,
 * what they learn from rows, and how a chunk's sums make the next chunk's weights; forward and backward.
 * Which rows these are, and which weights, is lact_rows.c's.
 *
 * The three matrices of all heads are one block of rf_fast_size() numbers: for each head w0 (E, D) and w2 (E,
 * D), then for each head w1 (D, E).  So one product makes w0 x and w2 x, and lengths, momentum and
 * Newton-Schulz see two stacks of equal matrices.
 *
 *     y = w1 (silu(w0 q) * (w2 q))
 *     sums += what the rows say of w0, w2, w1, and of m
 *     z' = (w or, with prenorm, z) + update(sums, p)
 *
 * w = z where z is the first one, else its rows rescaled to their first lengths. */
#ifndef RF_FAST_WEIGHTS_H
#define RF_FAST_WEIGHTS_H

#include "model/mixer.h"

/* Numbers of one block of weights, and of their rows' lengths. */
size_t rf_fast_size(const struct rf_lact_config *c);
size_t rf_fast_lengths(const struct rf_lact_config *c);

/* Numbers in both operands of the largest product with so many rows. */
size_t rf_fast_operands(const struct rf_lact_config *c, size_t rows);

/* Features of rows, or their gradients: q, k, v, y (., H, D), rates lr (., H, 3) and m (., H).  m
 * may be NULL. */
struct rf_fast_rows { rf_f32 q, k, v, y, lr, m; };
/* Some of them: n rows, from row `first` on every `every`th. */
struct rf_fast_piece { size_t first; int n, every; };

/* A chunk's weights z and momentum p before it, and m: the sum of m that made p; `first`: it is the
 * sequence's first chunk.  Or their gradients. */
struct rf_fast_mark { rf_f32 z, p, m; bool first; };
/* What rows of a chunk add up to: a block, and m (H). */
struct rf_fast_sum { rf_f32 w, m; };

/* Memory that is needed meanwhile, for pieces of so many rows. */
struct rf_fast_work {
	rf_f32 gu, e, dgu, de;       /* (rows, H, 2 E), (rows, H, E), their gradients */
	rf_f32 x[7], gram[4];        /* Newton-Schulz: blocks; squares of their shorter sides */
};
void rf_fast_work(const struct rf_lact_config *c, struct rf_arena *a, size_t rows, bool train,
                  struct rf_fast_work *w);

struct rf_fast {
	struct rf_dev *dev;
	const struct rf_lact_config *c;
	struct rf_fast_work *work;
	rf_f32 length, dlength;      /* of the first weights' rows */
};

/* x->y of the rows = what they read of w. */
void rf_fast_apply(const struct rf_fast *f, struct rf_fast_piece p, const struct rf_fast_rows *x, rf_f32 w);
/* dx->q =, dw = (with add: +=). */
void rf_fast_apply_bwd(const struct rf_fast *f, struct rf_fast_piece p, const struct rf_fast_rows *x,
                       const struct rf_fast_rows *dx, rf_f32 w, rf_f32 dw, bool add);
/* sum = (with add: +=) what the rows say. */
void rf_fast_learn(const struct rf_fast *f, struct rf_fast_piece p, const struct rf_fast_rows *x, rf_f32 w,
                   struct rf_fast_sum sum, bool add);
/* dx->k, v, lr, m =, dw +=. */
void rf_fast_learn_bwd(const struct rf_fast *f, struct rf_fast_piece p, const struct rf_fast_rows *x,
                       const struct rf_fast_rows *dx, rf_f32 w, struct rf_fast_sum dsum, rf_f32 dw);

/* The weights of a chunk: its z, or what it makes in `room`. */
rf_f32 rf_fast_weights(const struct rf_fast *f, const struct rf_fast_mark *mark, rf_f32 room);
/* dmark->z += , and the lengths' gradient. */
void rf_fast_weights_bwd(const struct rf_fast *f, const struct rf_fast_mark *mark, rf_f32 dw,
                         const struct rf_fast_mark *dmark);

/* The next chunk's mark, from a full chunk's sums and the weights w that it had; `to` may be `from`. */
void rf_fast_update(const struct rf_fast *f, const struct rf_fast_mark *from, rf_f32 w,
                    struct rf_fast_sum sum, const struct rf_fast_mark *to);
/* dfrom += , dsum =; dto is used up. */
void rf_fast_update_bwd(const struct rf_fast *f, const struct rf_fast_mark *from,
                        const struct rf_fast_mark *dfrom, struct rf_fast_sum dsum,
                        const struct rf_fast_mark *to, const struct rf_fast_mark *dto);

/* to = from, or to += from, n numbers. */
void rf_fast_copy(const struct rf_fast *f, size_t n, rf_f32 from, rf_f32 to, bool add);

#endif
