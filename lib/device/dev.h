/* dev.h -- devices, each of which is one table of operations.
 *
 * Models and losses are written once, on this table.  Device memory is a handle of an incomplete type: host
 * code that indexes it does not compile.  Operations return nothing: the first failure stays with the device,
 * as with ferror(3), and rf_dev_sync() reports it.  Operations run in the order of the calls, and copy their
 * arguments.  Only upload reads host memory, before it returns, and only download writes host memory.
 *
 * Rows.  A pass computes nb sequences together, each of `steps` rows: step j of sequence b is row j nb + b of
 * every matrix.  A record's sequence has nb = 1, its rollouts have nb > 1.  One more step of every sequence
 * appends nb rows at the end:
 *
 *     nb = 3:   row      0    1    2    3    4    5   ...
 *               (j, b)  0,0  0,1  0,2  1,0  1,1  1,2  ...
 *
 * Matrices are row-major float32.  R = steps nb rows, D model width, F MLP width, H heads, K and V head
 * widths, N vocabulary.
 *
 * The output of an operation must not overlap its other operands, unless its comment allows this.
 *
 * Equal inputs give equal bits for any number of threads: an operation is divided into tiles of fixed size,
 * and its reductions run in a fixed order. */
#ifndef RF_DEV_H
#define RF_DEV_H
/* clang-format off */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "device/act.h"

typedef struct rf_f32_mem *rf_f32;
typedef struct rf_f64_mem *rf_f64;
typedef struct rf_i32_mem *rf_i32;
typedef struct rf_i64_mem *rf_i64;

/* Returns the address of element i.  NULL stays NULL, so an absent array stays absent. */
static inline rf_f32 rf_at(rf_f32 p, size_t i) { return p ? (rf_f32)(void *)((char *)p + i * 4) : NULL; }
static inline rf_i32 rf_at_i32(rf_i32 p, size_t i) { return p ? (rf_i32)(void *)((char *)p + i * 4) : NULL; }
static inline rf_i64 rf_at_i64(rf_i64 p, size_t i) { return p ? (rf_i64)(void *)((char *)p + i * 8) : NULL; }

struct rf_dev;

/* ---- products ------------------------------------------------------------------------------ */

/* C (m, n) = A (m, k) B (k, n), + C with `add`, + bias (n) unless bias is NULL.  ta: A is stored (k, m); tb:
 * B is stored (n, k).  lda, ldb, ldc: floats from one stored row to the next.  weight: b is a weight; only
 * adamw or an upload changes b, so a device may keep a copy of b in another form.  half: b is bf16 in memory,
 * without gaps, on a device that has such weights (rf_ops.halves).  f32: the operands stay float32 on a
 * device that rounds the operands of other products (RF_MATH_BF16), because the next operation amplifies the
 * error of this result.  batch: the number of products (0: one); sa, sb, sc: floats from one product's
 * operands to the next; a batch has no bias. */
struct rf_gemm {
	int m, n, k;
	bool ta, tb, add, weight, half, f32;
	rf_f32 a, b, c, bias;
	int lda, ldb, ldc;
	int batch;
	size_t sa, sb, sc;
};

/* Product with up to RF_SIDE weights that share A.  W (N, k) is the weights b[i] (n[i], k), stacked: N is the
 * sum of n[i].  Either all weights are half or none is.  C (m, N) = A (m, k) W'; or, with `back`, C (m, k) =
 * A (m, N) W, + C with `add`.  stride: if not 0, the matrix of N columns is divided into one matrix (m, n[i])
 * for each weight, `stride` floats from one to the next. */
enum { RF_SIDE = 3 };
struct rf_gemms { int m, k, parts; bool back, add, half; rf_f32 a, b[RF_SIDE], c; int n[RF_SIDE], lda, ldc;
                  size_t stride; };

/* y (d) += sum over rows of x (rows, d): the gradient of a bias.  ldx: floats from one row of x to the next
 * (0: d). */
struct rf_colsum { int rows, d, ldx; rf_f32 x, y; };

/* ---- rows ---------------------------------------------------------------------------------- */

/* y (rows, d) = w[tokens];  bwd: dw[tokens] += dy, in the order of the rows. */
struct rf_embed_fwd { int rows, d; rf_i32 tokens; rf_f32 w, y; };
struct rf_embed_bwd { int rows, d; rf_i32 tokens; rf_f32 dy, dw; };

/* to[ti] = (add: +=) from[fi] for n rows of width d, in order.  fi, ti: row indices in from and to (NULL: 0,
 * 1, ...); with `add` an index may occur in ti several times.  lf, lt: floats from one row to the next in
 * from and in to (0: d). */
struct rf_rows { int n, d, lf, lt; bool add; rf_f32 from, to; rf_i32 fi, ti; };

/* The w rows before a sequence's first row (a convolution's tail), which are kept in slots of (w, d).  x ((w
 * + steps) nb, d): w steps of earlier rows, then the rows of the sequences.  load: copies the earlier rows of
 * sequence b from slot[b / n] (n 0: 1; slot NULL: slot 0 for all).  keep (nb = 1): for each of n captures,
 * copies the w rows that end at row row[i] of the sequence to slot[i].  back: x and slots hold gradients,
 * which move in the other direction and are added.  load adds the earlier rows of x to the slots; keep adds
 * the slots to the rows of x. */
struct rf_tail_load { int nb, n, w, d; bool back; rf_f32 x, slots; rf_i32 slot; };
struct rf_tail_keep { int n, w, d; bool back; rf_f32 x, slots; rf_i32 row, slot; };

/* ---- elementwise --------------------------------------------------------------------------- */

/* operand, here and below: products read y (backward: dx) next.  A device that rounds product operands may
 * then also store a rounded copy of y.  Without this flag the device may do so for the outputs of gates, for
 * the outputs of rf_learn and for the gradients of logits. */

/* y = x / sqrt(mean(x^2) + eps) * w for rows of width d; plus_one: 1 + w instead of w.  If gate is not NULL,
 * y is multiplied by silu(gate): gate has y's shape or, with row_gate, one number per row.  ldx: floats from
 * one row of x (and dx) to the next (0: d).  bwd: dx = (add: +=), dw +=, dgate =. */
struct rf_rmsnorm_fwd { int rows, d, ldx; float eps; bool plus_one, row_gate, operand;
                        rf_f32 x, w, gate, y; };
struct rf_rmsnorm_bwd { int rows, d, ldx; float eps; bool plus_one, row_gate, add, operand;
                        rf_f32 x, w, gate, dy, dx, dw, dgate; };

/* y = silu(gate) * up, n elements each; gate and up (and dgate, dup) consist of rows of d elements, ld floats
 * from one row to the next (d 0: one row of n).  bwd: dgate =, dup =, and y again unless y is NULL; dgate,
 * dup and y may overwrite gate, up and dy. */
struct rf_swiglu_fwd { size_t n; int d, ld; rf_f32 gate, up, y; };
struct rf_swiglu_bwd { size_t n; int d, ld; rf_f32 gate, up, dy, dgate, dup, y; };

/* y = scale * norm(act(conv(x))): a causal depthwise convolution of width w over the steps, an activation,
 * and a norm of every head (of width `head`).  Each of the three may be absent: weight NULL with w = 1,
 * RF_ACT_IDENTITY, norm 0.  x ((w-1 + steps) nb, d): w-1 steps of earlier rows (zeros before a sequence's
 * start), then the R new rows; y (R, d).  weight (d, w); the last tap belongs to the current row.  x's
 * columns are `parts` adjacent blocks, and each block is computed this way; either all blocks have a weight
 * or none has.  ldx: floats from one row of x (and dx) to the next (0: the sum of the blocks' columns).  bwd:
 * dx =, in x's shape with the earlier rows; dweight +=.  fwd reads weight and writes y of each part; bwd
 * reads weight and dy, and adds to dweight. */
struct rf_conv_part { int d, head; enum rf_act act; enum rf_norm norm; float scale;
                      rf_f32 weight, y, dy, dweight; };
struct rf_conv_fwd { int nb, steps, ldx, w, parts; rf_f32 x; struct rf_conv_part part[RF_SIDE]; };
struct rf_conv_bwd { int nb, steps, ldx, w, parts; rf_f32 x, dx; struct rf_conv_part part[RF_SIDE]; };

/* Rotary embedding: y (R, heads, D) = x rotated; y may be x.  The first `rotary` columns of each head (0: all
 * D) are rotated, column i with column i + rotary / 2; the other columns are copied.  Row (j, b) is at
 * position past_len[b] + from + j (past_len NULL: from + j); frequency i is theta^(-2i/rotary).  inverse:
 * rotates by the negative angle, which is the backward pass.  ldx, ldy: floats from one row to the next (0:
 * heads D). */
struct rf_rope { int nb, steps, heads, D, rotary, ldx, ldy, from; bool inverse, operand; double theta;
                 rf_i32 past_len; rf_f32 x, y; };

/* y = x sigmoid(gate), rows of width d; ldg: floats from one row of gate (and dgate) to the next (0: d).
 * bwd: dx =, dgate =, and y again unless y is NULL. */
struct rf_gate_fwd { int rows, d, ldg; rf_f32 x, gate, y; };
struct rf_gate_bwd { int rows, d, ldg; rf_f32 x, gate, dy, dx, dgate, y; };

/* ---- the delta rule ------------------------------------------------------------------------ */

/* The part of an open chunk that captures keep, see below.  S (slots, H, K, V), k (slots, 64, G, K), u
 * (slots, 64, H, V), g (slots, 64, H). */
struct rf_delta_log { rf_f32 S, k, u, g; };

/*     u_t = beta_t (v_t - a_t S_{t-1}' k_t),  S_t = a_t S_{t-1} + k_t u_t',  o_t = S_t' q_t
 *
 * Yang et al. 2024, arXiv:2406.06484; in chunks of 64 rows, section 3.2; the decay a_t: Gated DeltaNet,
 * arXiv:2412.06464.  The caller scales q by 1 / sqrt(K).  beta = beta_scale sigmoid(b), or beta_scale if b is
 * NULL; a = exp(g), or 1 if g is NULL.  v has H heads, q and k have G: head h reads head h G / H of q and k.
 *
 * States lie in slots of (H, K, V).  Sequence b begins with the state in slot start[b / n] of S (start NULL:
 * slot 0): n rollouts of one position share a slot.  Captures (nb = 1 only): the state after row cap_row[i]
 * is copied to slot cap_slot[i]; cap_row ascends.
 *
 * Decoding appends one step to sequences that have `decoded` steps already: k, u and g hold the rows of those
 * steps, followed by the new rows; q, v, b and o hold only the new rows.  The start state is still the state
 * before step 0, and steps is 1 if decoded > 0.
 *
 * A sequence that begins in the middle of a chunk is computed in the chunks of the sequence that it branches
 * from.  So it gives the bits that prefix and branch would give as one sequence.  For this purpose a capture
 * keeps, in addition to S, the open chunk in slot - log_from of log: the state at the chunk's first row, and
 * k, u and g of the chunk's rows so far (room for 64 of each).  Sequence b reads open_rows[b / n] rows of the
 * open chunk and begins with the next row; open_rows NULL: every sequence begins with a chunk, from S.  open
 * (nb, H, K, V): while decoding, holds the state at the first row of the open chunk from one step to the
 * next, once a sequence has filled a chunk.  NULL: every step computes that state again from k and u, which
 * is cheaper for short rollouts. */
struct rf_delta_fwd {
	int nb, steps, decoded, n, H, G, K, V;
	float beta_scale;
	rf_f32 q, k, v, b, g;     /* (R, G, K), (R, G, K), (R, H, V), (R, H), (R, H) */
	rf_f32 u, o;              /* out (R, H, V) each */
	rf_f32 S, open;
	rf_i32 start, open_rows;
	int captures, log_from;
	rf_i32 cap_row, cap_slot;
	struct rf_delta_log log;  /* NULLs: captures keep only S */
};
/* dq, dk, dv, db, dg =.  Reads dS of the captured slots and adds to dS of the start slots.  No two groups of
 * n sequences may start from the same slot. */
struct rf_delta_bwd {
	int nb, steps, n, H, G, K, V;
	float beta_scale;
	rf_f32 q, k, v, b, g, u, d_o;
	rf_f32 dq, dk, dv, db, dg;
	rf_f32 S, dS;
	rf_i32 start;
	int captures;
	rf_i32 cap_row, cap_slot;
};

/* The decay's logarithm: g = -exp(A_log) softplus(a + dt_bias), a and g (rows, H).  bwd: da =, dA_log +=,
 * ddt_bias +=. */
struct rf_decay_fwd { int rows, H; rf_f32 a, A_log, dt_bias, g; };
struct rf_decay_bwd { int rows, H; rf_f32 a, A_log, dt_bias, dg, da, dA_log, ddt_bias; };

/* ---- fast weights -------------------------------------------------------------------------- */

/* LaCT's element-wise operations (Zhang et al. 2025, arXiv:2505.23884; mixers/lact.c); LaCT's products use
 * gemm.  There are H heads of width D, whose fast weights have a hidden width of E. */

/* y = unit(act(x scale + offset)) for rows of H heads.  silu: act is silu, else the identity.  unit: each
 * head is divided by its length + eps, else left as it is.  scale and offset of column j are at index 2 j;
 * NULL: 1 and 0.  bwd: dx +=, dscale +=, doffset +=. */
struct rf_feature_fwd { int rows, H, D; bool silu, unit, operand; float eps; rf_f32 x, scale, offset, y; };
struct rf_feature_bwd { int rows, H, D; bool silu, unit, operand; float eps;
                        rf_f32 x, scale, offset, dy, dx, dscale, doffset; };

/* In place: lr (rows, H, 3) = softplus(lr + shift), m (rows, H) = sigmoid(m); m may be NULL.  bwd: dlr and dm
 * hold the gradients of the results and become, in place, the gradients of the inputs; lr and m hold the
 * results. */
struct rf_rates_fwd { int rows, H; float shift; rf_f32 lr, m; };
struct rf_rates_bwd { int rows, H; rf_f32 lr, m, dlr, dm; };

/* The operands of the products that update a chunk's fast weights, computed in place.  gu (rows, H, 2 E)
 * holds g and u of each head, e (rows, H, E):
 *     g <- e u silu'(g) lr0,  u <- e silu(g) lr2,  e <- silu(g) u lr1
 * every: rows of lr (and dlr, dm) from one row that is used to the next.  bwd: gu and e become the results,
 * as in fwd; dgu and de hold the gradients of the results and become those of the inputs; dlr =; and, unless
 * dsum is NULL, dm[row, h] = dsum[h], the gradient of a sum over rows. */
struct rf_learn_fwd { int rows, H, E, every; rf_f32 gu, e, lr; };
struct rf_learn_bwd { int rows, H, E, every; rf_f32 gu, e, lr, dgu, de, dlr, dm, dsum; };

/* y = x + factor m[h] p for each of H blocks of n numbers; y may be p.  bwd: dp += factor m[h] dy, dm[h] +=
 * factor sum of dy p. */
struct rf_momentum_fwd { int H; size_t n; float factor; rf_f32 x, p, m, y; };
struct rf_momentum_bwd { int H; size_t n; float factor; rf_f32 p, m, dy, dp, dm; };

/* y (rows) = |x|, rows of n numbers.  bwd: dx += . */
struct rf_length_fwd { int rows; size_t n; rf_f32 x, y; };
struct rf_length_bwd { int rows; size_t n; rf_f32 x, y, dy, dx; };

/* y = x length[row] / (|x| + eps), rows of n numbers; length NULL: 1.  bwd: dx +=, dlength +=. */
struct rf_renorm_fwd { int rows; size_t n; float eps; bool operand; rf_f32 x, length, y; };
struct rf_renorm_bwd { int rows; size_t n; float eps; rf_f32 x, length, dy, dx, dlength; };

/* y[i, i] += value for each of `mats` matrices (rows, cols).  stride: floats from one matrix to the next. */
struct rf_diagonal { int mats, rows, cols; size_t stride; float value; rf_f32 y; };

/* ---- softmax attention --------------------------------------------------------------------- */

/* Row (j, b) of q (R, H, D) reads cache_len[b] rows of the cache (., G, D), from row cache_start[b] on (NULL:
 * 0; a multiple of 64, so that on the CPU the results do not depend on cache_start), and rows (0..j, b) of k,
 * v (R, G, D).  window: a row reads only the last `window` of these rows, itself included (0: all rows); the
 * cache then needs to hold only these.  Cache rows between the rows that are read must be finite: they are
 * multiplied by 0.  Scores are multiplied by 1 / sqrt(D).  Head h reads key head h G / H.  o (R, H, D); lse
 * (R, H) is kept for the backward pass.  decoded: as for the delta rule, q and o hold only the new rows, k
 * and v hold all rows.  longest: the largest cache_len[b]. */
struct rf_attn_fwd {
	int nb, steps, decoded, H, G, D, window, longest;
	rf_i32 cache_start, cache_len;
	rf_f32 q, k, v, cache_k, cache_v, o, lse;
};
/* dq, dk, dv =; dcache_k, dcache_v +=. */
struct rf_attn_bwd {
	int nb, steps, H, G, D, window, longest;
	rf_i32 cache_len;
	rf_f32 q, k, v, cache_k, cache_v, o, lse, d_o;
	rf_f32 dq, dk, dv, dcache_k, dcache_v;
};

/* ---- the head ------------------------------------------------------------------------------ */

/* z = h w', which is never stored completely: h (rows, d), w (N, d).  Each output (rows) may be NULL: entropy
 * of softmax(z inv_temp) in nats; logp = log softmax(z inv_temp)[target], 0 where target < 0; top = arg max,
 * the lowest id of equal maxima.  half: w is bf16 in memory, as in gemm. */
struct rf_head_fwd { int rows, d, N; bool half; float inv_temp; rf_f32 h, w; rf_i32 target;
                     rf_f32 entropy, logp; rf_i32 top; };

/* The gradient of the sum of -coef logp - entropy_coef H over rows, where H is the entropy of p = softmax(z
 * inv_temp) in nats: dh (rows, d) =, dw (N, d) +=, through
 *
 *     dz_j = inv_temp (coef (p_j - [j = target]) + entropy_coef p_j (log p_j + H)),  0 log 0 = 0
 *
 * entropy_coef (rows) may be NULL: 0; a row of 0 has the bits that it has with NULL.  A row whose coef and
 * entropy_coef are 0 adds nothing, whatever its logits are; target is not read for the gradient where coef is
 * 0.  entropy, logp and top may each be NULL, and have the bits that head_fwd gives for the same rows.  z has
 * room for the logits of min(rows, logit_rows()) rows. */
struct rf_head_bwd { int rows, d, N; float inv_temp; rf_f32 h, w; rf_i32 target;
                     rf_f32 coef, entropy_coef, entropy, logp; rf_i32 top; rf_f32 z, dh, dw; };

/* Draws a token for each row, from the logits z[row / n] (., N).  p = softmax(z inv_temp) without the banned
 * ids.  top_k keeps the top_k most likely ids (0: all; of equally likely ids the lowest).  top_p then keeps
 * the most likely ids, as few as possible, whose sum reaches top_p of the sum of all that top_k kept (1:
 * all).  The token is the first id in ascending order whose cumulative sum exceeds u times the total, both in
 * double.  logp = log softmax(z inv_temp)[token], over the full vocabulary with nothing masked.  kept (rows;
 * NULL: not wanted): the probability that all ids that may be drawn have together, also over the full
 * vocabulary with nothing masked; at most 1, and exactly 1 without banned ids, top_k and top_p.
 *
 * Sums are exact, so equal probabilities give equal draws, in whatever order a device adds them: p divided by
 * the largest p is rounded to a multiple of 1 / RF_DRAW_WHOLE; vocabularies have at most 2^24 ids (config.h).
 * If nothing is left to draw from, token and kept are 0, and the device fails or logp is NaN.  A NaN among a
 * row's logits makes logp and kept NaN. */
#define RF_DRAW_WHOLE 549755813888.f /* 2^39 */
struct rf_sample {
	int rows, n, N, top_k, banned;
	float inv_temp;
	double top_p;
	rf_f32 z;
	rf_i32 banned_ids;
	rf_f64 u;
	rf_i32 token;
	rf_f32 logp, kept;
};

/* ---- optimizer ----------------------------------------------------------------------------- */

/* out[i] = the sum of x y in double over the i-th tile of RF_DOT_TILE numbers; the last tile may have fewer.
 * Add the partial sums in order: the total then has the same bits no matter which rank computed which
 * tile. */
#define RF_DOT_TILE ((size_t)1 << 16)
struct rf_dot { size_t n; rf_f32 x, y; rf_f64 out; };

/* g <- g scale;  m <- b1 m + (1-b1) g;  v <- b2 v + (1-b2) g^2;
 * w <- w - lr (decay w + (m / c1) / (sqrt(v / c2) + eps)),  c1, c2: bias corrections.
 * g in memory is unchanged. */
struct rf_adamw { size_t n; double scale, lr, b1, b2, eps, decay, c1, c2; rf_f32 w, m, v, g; };

/* Sums whose terms may come in any order and from any number of ranks.  Each term is rounded to a multiple of
 * a unit, which is a power of two, and the multiples are added as 64-bit integers, whose sum is the same in
 * any order.
 *
 * sum_add: sum += x / unit, each number rounded to the nearest unit, ties to even; x = 0; largest[0] = the
 * maximum of largest[0] and all |x|; infinity if an x is NaN.  A number of more than RF_SUM_MOST units adds
 * nothing.  The caller reads `largest` and makes sure that the sum stays below RF_SUM_RANGE units.  sum_take:
 * y = sum unit, rounded to the nearest. */
#define RF_SUM_MOST 72057594037927936.    /* 2^56 */
#define RF_SUM_RANGE 9223372036854775808. /* 2^63 */
struct rf_sum_add { size_t n; float unit; rf_f32 x, largest; rf_i64 sum; };
struct rf_sum_take { size_t n; float unit; rf_i64 sum; rf_f32 y; };

/* y = scale x [+ y]; y may be x. */
struct rf_axpy { size_t n; float scale; bool add, operand; rf_f32 x, y; };

/* ---- the table ----------------------------------------------------------------------------- */

#define RF_OPS(X) \
	X(gemm) X(gemms) X(colsum) X(embed_fwd) X(embed_bwd) X(rows) X(tail_load) X(tail_keep) \
	X(rmsnorm_fwd) X(rmsnorm_bwd) X(swiglu_fwd) X(swiglu_bwd) X(conv_fwd) X(conv_bwd) X(rope) \
	X(gate_fwd) X(gate_bwd) X(delta_fwd) X(delta_bwd) X(decay_fwd) X(decay_bwd) \
	X(feature_fwd) X(feature_bwd) X(rates_fwd) X(rates_bwd) X(learn_fwd) X(learn_bwd) \
	X(momentum_fwd) X(momentum_bwd) X(length_fwd) X(length_bwd) X(renorm_fwd) X(renorm_bwd) \
	X(diagonal) X(attn_fwd) X(attn_bwd) X(head_fwd) X(head_bwd) X(sample) X(dot) X(adamw) X(axpy) \
	X(sum_add) X(sum_take)

/* The work that a program will give to a device.  From this the device computes the memory that it needs in
 * addition to the program's allocations: copies of weights in another form, and scratch memory for its
 * threads. */
struct rf_workspace {
	int rows;                /* largest number of rows of a pass over a sequence or over rollouts */
	int segment;             /* largest number of rows of a segment */
	int widest;              /* numbers in the widest row */
	int d, vocab;            /* of the head */
	int weights;             /* the number of matrices among the weights */
	size_t matrices;         /* elements of these matrices together */
	size_t largest;          /* elements of the largest matrix that rows are multiplied by */
	/* elements of both operands of the largest batch of products that may be rounded */
	size_t operands;
	size_t states;           /* train: elements of the states of one head at all chunks */
	int rollouts, steps;     /* largest number of rollouts in one pass, and of rows of each */
	int group;               /* smallest number of rollouts in one pass: those of one position */
	bool decode;             /* a pass computes one step of all rollouts */
	/* decode: rollouts in one pass and rows of each for the current record; only these numbers may decide
	   how the record is computed.  Not decode: 0 */
	struct { int rollouts, steps; } now;
	int H, K, V;             /* of the delta rule */
	int heads, kv_heads, D;  /* of attention */
	bool train;
};

/* A link carries numbers between the memory of this device and the memory of other processes' devices: NCCL
 * between GPUs.  join(), sum(), sum_parts() and share() are collective: all processes call the same function
 * with the same sizes.  Each begins one transfer; only one may be in progress.  done() tells whether the
 * transfer and all operations before it have ended.  All functions return false on failure, with a sentence
 * in `why`, which has room for RF_LINK_WHY bytes. */
enum { RF_LINK_WHY = 200, RF_LINK_NAME = 128, RF_LINK_PLACE = 16 };
struct rf_link {
	/* Checks whether this device can join.  place: bytes that identify this device: two processes cannot
	   join with the same device. */
	bool (*can)(struct rf_dev *d, unsigned char place[RF_LINK_PLACE], char *why);
	/* Makes the name of a group, which one process passes to all others before they join. */
	bool (*name)(struct rf_dev *d, unsigned char name[RF_LINK_NAME], char *why);
	bool (*join)(struct rf_dev *d, const unsigned char name[RF_LINK_NAME], int rank, int ranks,
	             char *why);
	/* x becomes the sum of all processes' x */
	bool (*sum)(struct rf_dev *d, rf_i64 x, size_t n, char *why);
	/* For each rank i, about the numbers of x from at[i] to at[i] + n[i] - 1.  sum_parts: they become the
	   sum over all ranks in rank i's memory, and undefined in the others' memory.  share: rank i's
	   numbers are copied to all other ranks. */
	bool (*sum_parts)(struct rf_dev *d, rf_i64 x, const size_t *at, const size_t *n, char *why);
	bool (*share)(struct rf_dev *d, rf_f32 x, const size_t *at, const size_t *n, char *why);
	bool (*done)(struct rf_dev *d, bool *done, char *why);
	/* Leaves the group; a transfer that has not ended never will.  Closing the device does the same. */
	void (*leave)(struct rf_dev *d);
};

struct rf_ops {
	const char *name;
	enum rf_code (*open)(struct rf_dev *d, struct rf_err *e);
	void (*close)(struct rf_dev *d);
	/* Returns NULL if there is too little memory; the device has then failed. */
	void *(*alloc)(struct rf_dev *d, size_t bytes);
	void (*release)(struct rf_dev *d, void *p);
	void (*upload)(struct rf_dev *d, void *to, const void *from, size_t bytes);
	/* Waits for all earlier operations; when it returns, the copy is complete. */
	void (*download)(struct rf_dev *d, void *to, const void *from, size_t bytes);
	void (*zero)(struct rf_dev *d, void *to, size_t bytes);
	void (*sync)(struct rf_dev *d);
	/* workspace: returns the bytes that the device needs for *need.  prepare: allocates the part of them
	   that can be allocated in advance. */
	size_t (*workspace)(struct rf_dev *d, const struct rf_workspace *need);
	void (*prepare)(struct rf_dev *d, const struct rf_workspace *need);
	const struct rf_link *link; /* NULL: this device has no link */
	/* Returns the number of rows whose logits, and whose gradients, training computes together.  On a
	   device that adds a weight's gradient up in memory, more rows mean fewer passes over the
	   gradient. */
	int (*logit_rows)(int vocab);
	/* gemms computes one product if its results are adjacent */
	bool side;
	/* if the device rounds operands, weights that only products read may exist only as bf16 */
	bool halves;
#define X(op) void (*op)(struct rf_dev *d, const struct rf_##op *a);
	RF_OPS(X)
#undef X
};

/* The table that a device's shared object exports as `rf_plugin`.  A program accepts it if its abi is
 * RF_PLUGIN_ABI. */
struct rf_plugin { uint64_t abi; const struct rf_ops *ops; };

/* RF_RUN(d, gemm, .m = R, ...) runs one operation; its arguments are named, and those left out are 0. */
#define RF_RUN(d, op, ...) (d)->ops->op((d), &(struct rf_##op){ __VA_ARGS__ })

/* The type of a product's operands, unless the product says f32.  Everything else is float32, except weights
 * that are half (rf_gemm).  AUTO: bf16 on a GPU, else float32. */
enum rf_math { RF_MATH_AUTO, RF_MATH_F32, RF_MATH_BF16 };
#define RF_MATH_WORDS "auto|f32|bf16"

struct rf_dev {
	const struct rf_ops *ops;
	struct rf_err err;      /* the first failure, or RF_OK */
	int threads;
	enum rf_math math;      /* never AUTO once the device is open */
	size_t used, peak;      /* bytes of device memory */
	size_t memory;          /* total bytes of a GPU; 0: the device uses host memory */
	char model[100];        /* name of a GPU */
	void *impl;
};

/* The version of this table; the sizes of its structs are part of the number. */
#define RF_PLUGIN_ABI \
	((uint64_t)13 << 32 | (uint64_t)sizeof(struct rf_workspace) << 40 | sizeof(struct rf_ops) << 16 | \
	 sizeof(struct rf_dev))

/* Opens the device of that name: "cpu", "check", "cuda", or "auto", which opens a GPU if there is one, else
 * the CPU.  With "auto", *note becomes a sentence that says which device was opened and why; with other names
 * it becomes NULL.  name NULL (the user named no device): as "auto", but *note is set only if plugin and
 * driver exist and no GPU can be opened.  threads 0: as many as this process may use.  Errors: RF_EDEVICE
 * says what is missing; RF_EUSAGE: no such name. */
enum rf_code rf_dev_open(struct rf_dev *d, const char *name, int threads, enum rf_math math,
                         const char **note, struct rf_err *e);
void rf_dev_close(struct rf_dev *d);
/* Waits for all operations.  Returns the device's first failure, or RF_OK. */
enum rf_code rf_dev_sync(struct rf_dev *d, struct rf_err *e);
/* For backends: records a failure, unless an earlier one was recorded. */
void rf_dev_fail(struct rf_dev *d, enum rf_code code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* ---- the CPU ------------------------------------------------------------------------------- */

/* Chooses, for the whole process, the level of the instruction set that kernels and oneDNN use.  name: a
 * level's name, which limits both; or "auto": kernels use the highest level of this processor, and oneDNN any
 * instructions that the processor has.  NULL: the level that was chosen before, else $RF_ISA, else auto.
 * Errors: RF_EUSAGE: there is no such level, or another level was chosen before; RF_EDEVICE: the processor
 * lacks the level. */
enum rf_code rf_cpu_isa(const char *name, struct rf_err *e);
/* Returns the name of the chosen level, with "+bf16" or "+amx" if products use such instructions. */
const char *rf_cpu_level(void);
/* Returns the CPU's table.  rf_ops_check: the table of the checking device (t/check/device_check.c), which
 * computes with the CPU's kernels. */
const struct rf_ops *rf_cpu_ops(void);
extern const struct rf_ops rf_ops_check;
/* Returns the name of the i-th level of this processor, from the highest down; NULL if i is too large. */
const char *rf_cpu_has(int i);

/* clang-format on */
#endif
