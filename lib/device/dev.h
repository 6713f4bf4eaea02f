/* dev.h -- a device behind one table of operations.
 *
 * Models and losses are written once, on this table.  Device memory is a handle of an incomplete
 * type: host code that indexes it does not compile.  Operations return nothing: like ferror(3), the
 * first failure sticks to the device, and rf_dev_sync() reports it.  Operations run in the order of
 * the calls; their arguments are copied, so host memory is read only by upload, which is done with
 * it when it returns, and written only by download.
 *
 * Rows.  A pass works on nb sequences side by side, `steps` rows each: row (j, b), step j of sequence b, is
 * row j nb + b of every matrix.  The text itself is nb = 1; rollouts that hang below it are nb > 1, and
 * appending a step appends rows at the end.  Everything is row-major float32.  R = steps nb rows, D model
 * width, F MLP width, H heads, K and V head widths, N vocabulary.
 *
 * What an operation writes overlaps nothing else that it reads or writes, but where it says so.
 *
 * Equal inputs give equal bits for any number of threads: work is cut into tiles of fixed size, reductions
 * run in a fixed order. */
#ifndef RF_DEV_H
#define RF_DEV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "device/act.h"

typedef struct rf_f32_mem *rf_f32;
typedef struct rf_f64_mem *rf_f64;
typedef struct rf_i32_mem *rf_i32;

/* Element i of an array; of NULL it is NULL, so that an absent array stays absent. */
static inline rf_f32 rf_at(rf_f32 p, size_t i) { return p ? (rf_f32)(void *)((char *)p + i * 4) : NULL; }
static inline rf_i32 rf_at_i32(rf_i32 p, size_t i) { return p ? (rf_i32)(void *)((char *)p + i * 4) : NULL; }

struct rf_dev;

/* ---- products ------------------------------------------------------------------------------ */

/* C (m, n) = A (m, k) B (k, n), + C with `add`, + bias (n) if given.  ta: A is stored (k, m); tb: B is stored
 * (n, k).  lda, ldb, ldc: floats from one stored row to the next.  weight: b is a weight, which changes only
 * in adamw or an upload, so a device may keep it in another form.  f32: operands stay float32 where the
 * device rounds those of other products (RF_MATH_BF16), since what is made of the result makes its error
 * larger.  batch: so many products (0: one), whose operands lie sa, sb, sc floats apart; without bias. */
struct rf_gemm {
	int m, n, k;
	bool ta, tb, add, weight, f32;
	rf_f32 a, b, c, bias;
	int lda, ldb, ldc;
	int batch;
	size_t sa, sb, sc;
};

/* y (d) += sum over rows of x (rows, d), ldx floats apart (0: d): the gradient of a bias. */
struct rf_colsum { int rows, d, ldx; rf_f32 x, y; };

/* ---- rows ---------------------------------------------------------------------------------- */

/* y (rows, d) = w[tokens];  bwd: dw[tokens] += dy, in the order of the rows. */
struct rf_embed_fwd { int rows, d; rf_i32 tokens; rf_f32 w, y; };
struct rf_embed_bwd { int rows, d; rf_i32 tokens; rf_f32 dy, dw; };

/* to[ti] = (or +=) from[fi] for n rows of width d in order; an index array that is NULL counts 0, 1, ...
 * With add the same ti may come again.  lf, lt: floats from one row to the next in from and to (0: d). */
struct rf_rows { int n, d, lf, lt; bool add; rf_f32 from, to; rf_i32 fi, ti; };

/* The w rows that stand before a sequence's first, kept in slots of (w, d).  x ((w + steps) nb, d): w steps
 * of earlier rows, then the sequences' own.  load: sequence b takes slot[b / per] (slot NULL: slot 0 for
 * all).  keep (nb = 1): the w rows up to own row `row[i]` go to slot[i], n of them.
 * back: the gradients go the other way and are added: load's from x to the slots, keep's from the
 * slots to x. */
struct rf_tail_load { int nb, per, w, d; bool back; rf_f32 x, slots; rf_i32 slot; };
struct rf_tail_keep { int n, w, d; bool back; rf_f32 x, slots; rf_i32 row, slot; };

/* ---- elementwise --------------------------------------------------------------------------- */

/* y = x / sqrt(mean(x^2) + eps) * w, rows of width d; plus_one: times 1 + w; with gate times silu(gate),
 * which is of y's shape or, row_gate, one number per row.  ldx: floats from one row of x (and dx) to the next
 * (0: d).  bwd: dx = (with add: +=); dw += ; dgate =. */
struct rf_rmsnorm_fwd { int rows, d, ldx; float eps; bool plus_one, row_gate; rf_f32 x, w, gate, y; };
struct rf_rmsnorm_bwd { int rows, d, ldx; float eps; bool plus_one, row_gate, add;
                        rf_f32 x, w, gate, dy, dx, dw, dgate; };

/* y = silu(gate) * up, n elements each; those of gate and up (and dgate, dup) in rows of d, ld floats apart
 * (0: as one).  bwd: dgate, dup =, and y again (NULL: not wanted); gate, up and dy may be the places of
 * dgate, dup and y. */
struct rf_swiglu_fwd { size_t n; int d, ld; rf_f32 gate, up, y; };
struct rf_swiglu_bwd { size_t n; int d, ld; rf_f32 gate, up, dy, dgate, dup, y; };

/* y = scale * norm(act(conv(x))): the causal depthwise convolution of width w over the steps, the activation,
 * and the norm of every head (width `head`), each optional (weight NULL, and then w = 1; RF_ACT_IDENTITY;
 * norm 0).  x ((w-1 + steps) nb, d): w-1 steps of earlier rows (zeros before the start), then the R new ones;
 * y (R, d).  weight (d, w), last tap = current row.  ldx: floats from one row of x (and dx) to the next (0:
 * d).  bwd: dx, of x's shape, is written whole; dweight +=. */
struct rf_conv_fwd { int nb, steps, d, ldx, w, head; enum rf_act act; enum rf_norm norm; float scale;
                     rf_f32 x, weight, y; };
struct rf_conv_bwd {
	int nb, steps, d, ldx, w, head;
	enum rf_act act;
	enum rf_norm norm;
	float scale;
	rf_f32 x, weight, dy, dx, dweight;
};

/* Rotary embedding: y (R, heads, D) = x turned, which may be the same place; the first `rotary` columns of
 * each head (0: all D), halves of them rotated together, the rest as they are.  Position of row (j, b) =
 * past[b] + from + j, frequency i = theta^(-2i/rotary); inverse turns back (the backward pass).  ldx, ldy:
 * floats from one row to the next (0: heads D). */
struct rf_rope { int nb, steps, heads, D, rotary, ldx, ldy, from; bool inverse; double theta; rf_i32 past;
                 rf_f32 x, y; };

/* y = x sigmoid(gate), rows of width d; ldg: floats from one row of gate (and dgate) to the next (0: d).
 * bwd: dx =, dgate =, y again (NULL: not wanted). */
struct rf_gate_fwd { int rows, d, ldg; rf_f32 x, gate, y; };
struct rf_gate_bwd { int rows, d, ldg; rf_f32 x, gate, dy, dx, dgate, y; };

/* ---- the delta rule ------------------------------------------------------------------------ */

/*     u_t = beta_t (v_t - a_t S_{t-1}' k_t),  S_t = a_t S_{t-1} + k_t u_t',  o_t = S_t' q_t
 *
 * Yang et al. 2024, arXiv:2406.06484; in chunks of 64 rows, section 3.2; the decay a_t: Gated DeltaNet,
 * arXiv:2412.06464.
 * q comes scaled by 1 / sqrt(K).  beta = beta_scale sigmoid(b), beta_scale where b is NULL; a = exp(g), 1
 * where g is NULL.  H heads of v, G of q and k: head h reads head h G / H of them.
 *
 * States live in slots of (H, K, V).  Sequence b begins from slot start[b / per] of S; start NULL: slot 0.
 * `given`: so many steps are there already (a rollout that grows): k, u and g hold them, and the new row goes
 * behind them; q, v, b, o hold the new rows only.  The start state is still the one before step 0.  given > 0
 * wants steps = 1.
 * Captures (nb = 1 only): the state after row cap_row[i] goes to slot cap_slot[i]; rows ascend.
 *
 * The chunks of a sequence that begins inside one are those of the text: so that it gives the bits that it
 * would give as a text of its own, prefix and all.  For this a capture leaves, besides S, the open chunk in
 * slot - log_from of log: the state S at the chunk's first row, and k, u and g of its rows so far (64 of
 * each).  Sequence b reads lead[b / per] rows of it and begins with the next; lead NULL: sequences begin with
 * a chunk, from S.
 * open (nb, H, K, V): with `given`, where the state at the first row of the open chunk is kept from one step
 * to the next, once a rollout has filled a chunk; NULL: it is summed up from k and u at every step, which is
 * well for short ones. */
/* (slots, H, K, V), (slots, 64, G, K), (slots, 64, H, V), (slots, 64, H) */
struct rf_delta_log { rf_f32 S, k, u, g; };
struct rf_delta_fwd {
	int nb, steps, given, per, H, G, K, V;
	float beta_scale;
	rf_f32 q, k, v, b, g;     /* (R, G, K), (R, G, K), (R, H, V), (R, H), (R, H) */
	rf_f32 u, o;              /* out (R, H, V) each */
	rf_f32 S, open;
	rf_i32 start, lead;
	int captures, log_from;
	rf_i32 cap_row, cap_slot;
	struct rf_delta_log log;  /* NULLs: captures leave S alone */
};
/* Gradients of q, k, v, b, g are written; dS of the captured slots is read; to dS of the start slots, which
 * differ from group to group, is added. */
struct rf_delta_bwd {
	int nb, steps, per, H, G, K, V;
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

/* What of LaCT (Zhang et al. 2025, arXiv:2505.23884; lact.c) is not a product.  H heads of width D, whose
 * fast weights have a hidden width of E. */

/* y = unit(act(x scale + offset)), rows of H heads: act is silu or nothing; unit divides each head by its
 * length + eps, or nothing.  scale and offset of column j lie at [2 j]; NULL: 1 and 0.  bwd: dx +=, dscale
 * +=, doffset +=. */
struct rf_feature_fwd { int rows, H, D; bool silu, unit; float eps; rf_f32 x, scale, offset, y; };
struct rf_feature_bwd { int rows, H, D; bool silu, unit; float eps;
                        rf_f32 x, scale, offset, dy, dx, dscale, doffset; };

/* In place: lr (rows, H, 3) = softplus(lr + shift), m (rows, H) = sigmoid(m); m may be NULL.
 * bwd: from these results, in place, dlr and dm of what went in. */
struct rf_rates_fwd { int rows, H; float shift; rf_f32 lr, m; };
struct rf_rates_bwd { int rows, H; rf_f32 lr, m, dlr, dm; };

/* What a chunk's products learn from, in place.  gu (rows, H, 2 E) holds g and u of each head, e
 * (rows, H, E):
 *     g <- e u silu'(g) lr0,  u <- e silu(g) lr2,  e <- silu(g) u lr1
 * Rows of lr (and of dlr, dm) lie `every` rows apart.
 * bwd: the same in gu and e; dgu and de hold the gradients of these results and become those of what went in;
 * dlr =; and dm[row, h] = dsum[h] (NULL: there is none), the gradient of a sum over rows. */
struct rf_learn_fwd { int rows, H, E, every; rf_f32 gu, e, lr; };
struct rf_learn_bwd { int rows, H, E, every; rf_f32 gu, e, lr, dgu, de, dlr, dm, dsum; };

/* y = x + by m[h] p for each of H parts of n numbers; y may be p.  bwd: dp += by m[h] dy, dm[h] +=
 * by sum of dy p. */
struct rf_momentum_fwd { int H; size_t n; float by; rf_f32 x, p, m, y; };
struct rf_momentum_bwd { int H; size_t n; float by; rf_f32 p, m, dy, dp, dm; };

/* y (rows) = |x|, rows of n numbers.  bwd: dx += . */
struct rf_length_fwd { int rows; size_t n; rf_f32 x, y; };
struct rf_length_bwd { int rows; size_t n; rf_f32 x, y, dy, dx; };

/* y = x length[row] / (|x| + eps), rows of n numbers; length NULL: 1.  bwd: dx +=, dlength +=. */
struct rf_renorm_fwd { int rows; size_t n; float eps; rf_f32 x, length, y; };
struct rf_renorm_bwd { int rows; size_t n; float eps; rf_f32 x, length, dy, dx, dlength; };

/* y[i, i] += by, of `mats` matrices (rows, cols) that lie `apart` floats apart. */
struct rf_diagonal { int mats, rows, cols; size_t apart; float by; rf_f32 y; };

/* ---- softmax attention --------------------------------------------------------------------- */

/* Row (j, b) of q (R, H, D) reads the first past[b] rows of the cache (., G, D) and rows (0..j, b) of k, v
 * (R, G, D); of these only the last `window` with itself (0: all): the cache may hold less than all earlier
 * rows, if it holds those.  Scores times 1 / sqrt(D).  Head h reads key head h G / H.  o (R, H, D); lse (R,
 * H) is kept for the backward pass.  `given` as above: q and o hold the new rows only, k and v all of them.
 * longest: the largest past[b]. */
struct rf_attn_fwd {
	int nb, steps, given, H, G, D, window, longest;
	rf_i32 past;
	rf_f32 q, k, v, cache_k, cache_v, o, lse;
};
/* dq, dk, dv are written, to dcache_k, dcache_v is added. */
struct rf_attn_bwd {
	int nb, steps, H, G, D, window, longest;
	rf_i32 past;
	rf_f32 q, k, v, cache_k, cache_v, o, lse, d_o;
	rf_f32 dq, dk, dv, dcache_k, dcache_v;
};

/* ---- the head ------------------------------------------------------------------------------ */

/* z = h w', never stored whole: h (rows, d), w (N, d).  Each output may be NULL (rows): entropy of
 * softmax(z inv_temp), nats; logp = log softmax(z inv_temp)[target] (target < 0: 0); top = arg max,
 * the lowest of equals. */
struct rf_head_fwd { int rows, d, N; float inv_temp; rf_f32 h, w; rf_i32 target; rf_f32 entropy, logp;
                     rf_i32 top; };

/* z (rows, N) becomes coef * inv_temp * (softmax(z inv_temp) - [target]), the gradient of -coef logp; logp
 * (rows) is written unless NULL.  coef 0: zeros. */
struct rf_ce_grad { int rows, N; float inv_temp; rf_f32 z; rf_i32 target; rf_f32 coef, logp; };

/* Draws for each row from row / per of z (., N): p = softmax(z inv_temp) without the banned ids; of it the
 * top_k most likely (0: all; of equals the lowest ids), of these the fewest, most likely first, whose sum
 * reaches top_p of theirs (1: all); then the first id in ascending order whose cumulative sum exceeds u *
 * total, both in double.  logp = log softmax(z inv_temp)[token], over the full vocabulary, nothing masked.
 *
 * Sums are exact, so that equal probabilities give equal draws in whatever order a device adds them up: p
 * over the largest that is not banned counts in whole 1 / RF_DRAW_WHOLE, rounded to the nearest; vocabularies
 * have at most 2^24 ids (config.h).  Nothing to draw from: token 0, and the device fails or logp is NaN. */
#define RF_DRAW_WHOLE 549755813888.f /* 2^39 */
struct rf_sample {
	int rows, per, N, top_k, banned;
	float inv_temp;
	double top_p;
	rf_f32 z;
	rf_i32 banned_ids;
	rf_f64 u;
	rf_i32 token;
	rf_f32 logp;
};

/* ---- optimizer ----------------------------------------------------------------------------- */

/* out[0] = sum of x y in double, in blocks of fixed size. */
struct rf_dot { size_t n; rf_f32 x, y; rf_f64 out; };

/* g <- g scale;  m <- b1 m + (1-b1) g;  v <- b2 v + (1-b2) g^2;
 * w <- w - lr (decay w + (m / c1) / (sqrt(v / c2) + eps)),  c1, c2: bias corrections.  g itself stays. */
struct rf_adamw { size_t n; double scale, lr, b1, b2, eps, decay, c1, c2; rf_f32 w, m, v, g; };

/* y = scale x [+ y]; y may be x. */
struct rf_axpy { size_t n; float scale; bool add; rf_f32 x, y; };

/* ---- the table ----------------------------------------------------------------------------- */

#define RF_OPS(X) \
	X(gemm) X(colsum) X(embed_fwd) X(embed_bwd) X(rows) X(tail_load) X(tail_keep) \
	X(rmsnorm_fwd) X(rmsnorm_bwd) X(swiglu_fwd) X(swiglu_bwd) X(conv_fwd) X(conv_bwd) X(rope) \
	X(gate_fwd) X(gate_bwd) X(delta_fwd) X(delta_bwd) X(decay_fwd) X(decay_bwd) \
	X(feature_fwd) X(feature_bwd) X(rates_fwd) X(rates_bwd) X(learn_fwd) X(learn_bwd) \
	X(momentum_fwd) X(momentum_bwd) X(length_fwd) X(length_bwd) X(renorm_fwd) X(renorm_bwd) \
	X(diagonal) X(attn_fwd) X(attn_bwd) X(head_fwd) X(ce_grad) X(sample) X(dot) X(adamw) X(axpy)

/* What a program will ask of a device: for the memory that the device takes beside what is allocated on it,
 * such as forms that it keeps of weights and what its threads work in. */
struct rf_beside {
	int rows;                /* most that are worked on at once: of the text, or of rollouts */
	int text;                /* of the text */
	int widest;              /* numbers in a row of theirs */
	int d, vocab;            /* of the head */
	int weights;             /* matrices among the weights, */
	size_t matrices, largest; /* elements of them all, and of the largest that rows are multiplied by */
	/* elements of both operands of the largest product of a batch that may be rounded */
	size_t operands;
	size_t states;           /* train: elements of all chunks' states of one head */
	int sequences, steps;    /* rollouts side by side, and the rows of each */
	int H, K, V;             /* of the delta rule */
	int heads, kv_heads, D;  /* of attention */
	bool train;
};

struct rf_ops {
	const char *name;
	enum rf_code (*open)(struct rf_dev *d, struct rf_err *e);
	void (*close)(struct rf_dev *d);
	/* NULL: no memory, and the device says so */
	void *(*alloc)(struct rf_dev *d, size_t bytes);
	void (*release)(struct rf_dev *d, void *p);
	void (*upload)(struct rf_dev *d, void *to, const void *from, size_t bytes);
	void (*download)(struct rf_dev *d, void *to, const void *from, size_t bytes);  /* waits for it */
	void (*zero)(struct rf_dev *d, void *to, size_t bytes);
	void (*sync)(struct rf_dev *d);
	size_t (*beside)(struct rf_dev *d, const struct rf_beside *b);
	void (*prepare)(struct rf_dev *d, const struct rf_beside *b); /* takes at once what it can of that */
#define X(op) void (*op)(struct rf_dev *d, const struct rf_##op *a);
	RF_OPS(X)
#undef X
};

/* What the shared object of a device exports as `rf_plugin`: it fits the programs that have the
 * same number. */
struct rf_plugin { uint64_t abi; const struct rf_ops *ops; };

/* RF_RUN(d, gemm, .m = R, ...): one operation, its arguments by name. */
#define RF_RUN(d, op, ...) (d)->ops->op((d), &(struct rf_##op){ __VA_ARGS__ })

/* Operands of products, unless a product says f32; everything else is float32.  AUTO: bf16 on a
 * GPU, else float32. */
enum rf_math { RF_MATH_AUTO, RF_MATH_F32, RF_MATH_BF16 };

struct rf_dev {
	const struct rf_ops *ops;
	struct rf_err err;      /* the first failure, or RF_OK */
	int threads;
	enum rf_math math;      /* of an open device not AUTO */
	size_t used, peak;      /* bytes of device memory */
	char model[100];        /* of a GPU: what it is */
	void *impl;
};

/* Another version of the table, or of what it is made of, is another number. */
#define RF_PLUGIN_ABI \
	((uint64_t)2 << 32 | (uint64_t)sizeof(struct rf_beside) << 40 | sizeof(struct rf_ops) << 16 | \
	 sizeof(struct rf_dev))

/* name: "cpu", "check", "cuda" or "auto": then *note says in one sentence what was taken, and why it is no
 * GPU.  NULL is auto for who asked for nothing: *note is NULL unless there is a plugin and a driver and yet
 * no GPU.  threads 0: as many as this process may use.  RF_EDEVICE says what is missing; another name is
 * RF_EUSAGE. */
enum rf_code rf_dev_open(struct rf_dev *d, const char *name, int threads, enum rf_math math,
                         const char **note, struct rf_err *e);
void rf_dev_close(struct rf_dev *d);
/* Waits for all operations; the device's first failure, if there was one. */
enum rf_code rf_dev_sync(struct rf_dev *d, struct rf_err *e);
/* For a backend: keeps the first failure. */
void rf_dev_fail(struct rf_dev *d, enum rf_code code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* ---- the CPU -------------------------------------------------------------------------------- */

/* The level of the instruction set that kernels and oneDNN compute at, for the whole process: `auto`, which
 * is the highest of the processor's with all that oneDNN knows beyond it, or a level's name, which limits
 * both.  NULL: the one that was taken already, else that of $RF_ISA, else auto.  RF_EUSAGE: there is no such
 * level, or another one was taken; RF_EDEVICE: the processor lacks it. */
enum rf_code rf_cpu_isa(const char *name, struct rf_err *e);
/* After that: its name, and "+bf16" or "+amx" where products have such instructions. */
const char *rf_cpu_level(void);
/* After that: its table; and that of the checking device (kernels/device_check.c), which works by it. */
const struct rf_ops *rf_cpu_ops(void);
extern const struct rf_ops rf_ops_check;
/* The i-th level of this processor by name, from its highest down; NULL: there are no more. */
const char *rf_cpu_has(int i);

#endif
