/* fast_weights.h -- the fast weights of LaCT (Zhang et al. 2025, arXiv:2505.23884).
 *
 * Forward and backward: the reads and updates of rows, and the step that makes the weights of the next chunk
 * from the sums of a chunk.  lact_rows.c decides which rows read and update which weights.
 *
 * The three matrices of all heads are one block of rf_fast_size() numbers: w0 (E, D) and w2 (E, D) of each
 * head in turn, then w1 (D, E) of each head.  So one product computes both w0 x and w2 x, and lengths,
 * momentum and Newton-Schulz work on two stacks of equal matrices.
 *
 *     y = w1 (silu(w0 q) * (w2 q))
 *     sums += the rows' contributions to the update of w0, w2 and w1, and their m
 *     z' = (w or, with prenorm, z) + update(sums, p)
 *
 * For the first chunk w = z.  For later chunks w is z with each row rescaled to the length that it had in
 * the first z. */
#ifndef RF_FAST_WEIGHTS_H
#define RF_FAST_WEIGHTS_H

#include "model/mixer.h"
#include "model/model.h"

/* Return how many numbers one block of weights has, and the lengths of its rows. */
size_t rf_fast_size(const struct rf_lact_config *c);
size_t rf_fast_lengths(const struct rf_lact_config *c);

/* Returns how many numbers both operands of the largest batch of products have, for this many rows. */
size_t rf_fast_operands(const struct rf_lact_config *c, size_t rows);

/* Features of rows, or their gradients: q, k, v, y (., H, D), learning rates lr (., H, 3), momentum factors
 * m (., H).  m is NULL without momentum. */
struct rf_fast_rows {
	rf_f32 q, k, v, y, lr, m;
};
/* n of these rows: row `first`, and from it every `every`-th. */
struct rf_fast_piece {
	size_t first;
	int n, every;
};

/* The state at the start of a chunk, or its gradient: the weights z, the momentum p, and m, the sum of m
 * that made p.  first: the chunk is the first of its sequence. */
struct rf_fast_mark {
	rf_f32 z, p, m;
	bool first;
};
/* The sums over rows of a chunk: w, a block of updates of the weights, and m (H). */
struct rf_fast_sum {
	rf_f32 w, m;
};

/* Temporary memory, for pieces of at most `rows` rows. */
struct rf_fast_work {
	rf_f32 gu, e, dgu, de; /* (rows, H, 2 E), (rows, H, E), and their gradients */
	rf_f32 x[7], gram[4];  /* Newton-Schulz: blocks; square matrices of the shorter sides */
};
void rf_fast_work(const struct rf_lact_config *c, struct rf_arena *a, size_t rows, bool train,
                  struct rf_fast_work *w);

struct rf_fast {
	struct rf_dev *dev;
	const struct rf_lact_config *c;
	struct rf_fast_work *work;
	rf_f32 length, dlength; /* lengths of the rows of the first z, and their gradient */
};

/* Computes x->y, which q of the rows read from the weights w. */
void rf_fast_apply(const struct rf_fast *f, struct rf_fast_piece p, const struct rf_fast_rows *x, rf_f32 w);
/* From dx->y computes dx->q =, and dw = (add: +=). */
void rf_fast_apply_bwd(const struct rf_fast *f, struct rf_fast_piece p, const struct rf_fast_rows *x,
                       const struct rf_fast_rows *dx, rf_f32 w, rf_f32 dw, bool add);
/* Computes sum = (add: +=) the updates from k, v, lr and m of the rows, given the weights w. */
void rf_fast_learn(const struct rf_fast *f, struct rf_fast_piece p, const struct rf_fast_rows *x, rf_f32 w,
                   struct rf_fast_sum sum, bool add);
/* From dsum computes dx->k, v, lr and m =, and dw +=. */
void rf_fast_learn_bwd(const struct rf_fast *f, struct rf_fast_piece p, const struct rf_fast_rows *x,
                       const struct rf_fast_rows *dx, rf_f32 w, struct rf_fast_sum dsum, rf_f32 dw);

/* Returns the weights w that the rows of a chunk read: mark->z itself for the first chunk, else the rescaled
 * z, which is written to `room`. */
rf_f32 rf_fast_weights(const struct rf_fast *f, const struct rf_fast_mark *mark, rf_f32 room);
/* From dw computes dmark->z +=, and the gradient of the lengths +=. */
void rf_fast_weights_bwd(const struct rf_fast *f, const struct rf_fast_mark *mark, rf_f32 dw,
                         const struct rf_fast_mark *dmark);

/* Computes `to`, the mark of the next chunk, from the mark `from`, the weights w and the sums of a full
 * chunk.  `to` may be `from`. */
void rf_fast_update(const struct rf_fast *f, const struct rf_fast_mark *from, rf_f32 w,
                    struct rf_fast_sum sum, const struct rf_fast_mark *to);
/* From dto, whose contents are lost, computes dfrom += and dsum =. */
void rf_fast_update_bwd(const struct rf_fast *f, const struct rf_fast_mark *from,
                        const struct rf_fast_mark *dfrom, struct rf_fast_sum dsum,
                        const struct rf_fast_mark *to, const struct rf_fast_mark *dto);

/* Copies n numbers; add: adds them. */
void rf_fast_copy(const struct rf_fast *f, size_t n, rf_f32 from, rf_f32 to, bool add);

#endif
