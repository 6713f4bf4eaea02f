/* ops-written -- checks that a product multiplies the newest numbers.  A device may have rounded an operand
 * earlier, or an operation may write its own rounded copy; the device must notice each change.  Arguments:
 * the devices, instead of cpu with 1, 2, 3 threads and check. */
#include "unit/ops.h"

enum { N = 24, PIECES = 5 };

/* The matrices of a case: x (rows, width), which the operation writes and products multiply, others of x's
 * shape, and room of four times their size for other outputs. */
struct hands {
	int rows, width, half;
	size_t n;
	rf_f32 x, y, z, w, room;
	rf_i32 index, target, slot;
};

#define WRITER(name, ...) \
	static void name(const struct hands *h) { __VA_ARGS__; }
#define ROWS    .rows = h->rows
#define SECOND  rf_at(h->x, (size_t)h->width) /* row of x at which products begin */
#define ROOM(i) rf_at(h->room, (size_t)(i)*h->n)

WRITER(rows, RF_RUN(dev, rows, .n = h->rows, .d = h->width, .from = h->y, .to = h->x))
WRITER(some_rows,
       RF_RUN(dev, rows, .n = h->rows, .d = h->width, .add = true, .from = h->y, .to = h->x, .ti = h->index))
WRITER(upload, float one[8] = { 1 }; dev->ops->upload(dev, rf_at(h->x, h->n - 8), one, sizeof one))
WRITER(zero, dev->ops->zero(dev, rf_at(h->x, h->n / 2), h->n / 2 * sizeof(float)))
WRITER(embed, RF_RUN(dev, embed_fwd, ROWS, .d = h->width, .tokens = h->index, .w = h->y, .y = h->x))
WRITER(tail_load, RF_RUN(dev, tail_load, .nb = 1, .w = 3, .d = h->width, .x = h->x, .slots = h->y))
WRITER(tail_keep_back, RF_RUN(dev, tail_keep, .n = 1, .w = 3, .d = h->width, .back = true, .x = h->x,
                              .slots = h->y, .row = h->target, .slot = h->slot))
WRITER(colsum, RF_RUN(dev, colsum, ROWS, .d = h->width, .x = h->y, .y = SECOND))
WRITER(axpy, RF_RUN(dev, axpy, .n = h->n, .scale = 2, .x = h->y, .y = h->x))
WRITER(axpy_operand,
       RF_RUN(dev, axpy, .n = h->n, .scale = 2, .add = true, .operand = true, .x = h->y, .y = h->x))
WRITER(axpy_row,
       RF_RUN(dev, axpy, .n = (size_t)h->width, .scale = 2, .operand = true, .x = h->y, .y = SECOND))
WRITER(product, RF_RUN(dev, gemm, .m = h->rows, .n = 3, .k = h->width, .tb = true, .a = h->y, .b = h->z,
                       .c = rf_at(h->x, 1), .lda = h->width, .ldb = h->width, .ldc = h->width))

WRITER(norm, RF_RUN(dev, rmsnorm_fwd, ROWS, .d = h->width, .x = h->y, .w = h->w, .y = h->x))
WRITER(norm_operand,
       RF_RUN(dev, rmsnorm_fwd, ROWS, .d = h->width, .operand = true, .x = h->y, .w = h->w, .y = h->x))
WRITER(norm_of_heads, RF_RUN(dev, rmsnorm_fwd, .rows = 2 * h->rows, .d = h->half, .operand = true, .x = h->y,
                             .w = h->w, .y = h->x))
WRITER(norm_back, RF_RUN(dev, rmsnorm_bwd, ROWS, .d = h->width, .x = h->y, .w = h->w, .dy = h->z, .dx = h->x,
                         .dw = ROOM(0)))
WRITER(norm_back_operand, RF_RUN(dev, rmsnorm_bwd, ROWS, .d = h->width, .add = true, .operand = true,
                                 .x = h->y, .w = h->w, .dy = h->z, .dx = h->x, .dw = ROOM(0)))
WRITER(norm_back_gate, RF_RUN(dev, rmsnorm_bwd, ROWS, .d = h->width, .operand = true, .x = h->y, .w = h->w,
                              .gate = h->z, .dy = h->z, .dx = h->y, .dw = ROOM(0), .dgate = h->x))

WRITER(norm_back_row_gate,
       RF_RUN(dev, rmsnorm_bwd, ROWS, .d = h->width, .row_gate = true, .x = h->y, .w = h->w, .gate = h->z,
              .dy = h->z, .dx = h->y, .dw = ROOM(0), .dgate = h->x))

WRITER(swiglu,
       RF_RUN(dev, swiglu_fwd, .n = h->n, .d = h->width, .ld = h->width, .gate = h->y, .up = h->z, .y = h->x))
WRITER(swiglu_sides, RF_RUN(dev, swiglu_fwd, .n = h->n / 2, .d = h->half, .ld = h->width, .gate = h->y,
                            .up = rf_at(h->y, (size_t)h->half), .y = h->x))
WRITER(swiglu_back_sides, RF_RUN(dev, swiglu_bwd, .n = h->n / 2, .d = h->half, .ld = h->width, .gate = h->x,
                                 .up = rf_at(h->x, (size_t)h->half), .dy = h->y, .dgate = h->x,
                                 .dup = rf_at(h->x, (size_t)h->half), .y = h->z))
WRITER(swiglu_back_again, RF_RUN(dev, swiglu_bwd, .n = h->n, .d = h->width, .ld = h->width, .gate = h->z,
                                 .up = h->y, .dy = h->x, .dgate = h->z, .dup = h->y, .y = h->x))
WRITER(swiglu_back, RF_RUN(dev, swiglu_bwd, .n = h->n, .d = h->width, .ld = h->width, .gate = h->x,
                           .up = h->y, .dy = h->z, .dgate = h->x, .dup = h->y))
WRITER(swiglu_back_dup, RF_RUN(dev, swiglu_bwd, .n = h->n, .d = h->width, .ld = h->width, .gate = h->y,
                               .up = h->z, .dy = h->z, .dgate = h->y, .dup = h->x))
WRITER(gate, RF_RUN(dev, gate_fwd, ROWS, .d = h->width, .x = h->y, .gate = h->z, .y = h->x))
WRITER(gate_back, RF_RUN(dev, gate_bwd, ROWS, .d = h->width, .x = h->y, .gate = h->z, .dy = h->z, .dx = h->y,
                         .dgate = h->z, .y = h->x))
WRITER(gate_back_dx, RF_RUN(dev, gate_bwd, ROWS, .d = h->width, .x = h->y, .gate = h->z, .dy = h->z,
                            .dx = h->x, .dgate = h->y))
WRITER(gate_back_dgate, RF_RUN(dev, gate_bwd, ROWS, .d = h->width, .x = h->y, .gate = h->z, .dy = h->z,
                               .dx = h->y, .dgate = h->x))
WRITER(decay,
       RF_RUN(dev, decay_fwd, ROWS, .H = h->width, .a = h->y, .A_log = h->w, .dt_bias = h->w, .g = h->x))
WRITER(decay_back, RF_RUN(dev, decay_bwd, ROWS, .H = h->width, .a = h->y, .A_log = h->w, .dt_bias = h->w,
                          .dg = h->z, .da = h->x, .dA_log = ROOM(0), .ddt_bias = ROOM(1)))

#define TURN .nb = 1, .steps = h->rows, .theta = 1e4
WRITER(rope, RF_RUN(dev, rope, TURN, .heads = 1, .D = h->width, .x = h->y, .y = h->x))
WRITER(rope_operand,
       RF_RUN(dev, rope, TURN, .heads = 1, .D = h->width, .operand = true, .x = h->x, .y = h->x))
WRITER(rope_a_part,
       RF_RUN(dev, rope, TURN, .heads = 1, .D = h->width, .rotary = 2, .operand = true, .x = h->x, .y = h->x))

#define CONV .nb = 1, .steps = h->rows, .w = 1, .parts = 1
WRITER(conv, RF_RUN(dev, conv_fwd, CONV, .x = h->y,
                    .part = { { .d = h->width, .act = RF_ACT_SILU, .scale = 1, .y = h->x } }))
WRITER(conv_back, RF_RUN(dev, conv_bwd, CONV, .x = h->y, .dx = h->x,
                         .part = { { .d = h->width, .act = RF_ACT_SILU, .scale = 1, .dy = h->z } }))

WRITER(conv_back_dweight, RF_RUN(dev, conv_bwd, CONV, .x = h->y, .dx = h->y,
                                 /* clang-format off */
                                 .part = { { .d = h->width, .act = RF_ACT_SILU, .scale = 1, .weight = h->w,
                                             .dy = h->z, .dweight = SECOND } }))
/* clang-format on */

#define HEADS .nb = 1, .steps = h->rows, .H = h->half, .G = h->half
WRITER(delta, RF_RUN(dev, delta_fwd, HEADS, .K = 2, .V = 2, .beta_scale = 1, .q = h->y, .k = h->z, .v = h->y,
                     .b = h->z, .u = ROOM(0), .o = h->x, .S = h->w))
WRITER(delta_u, RF_RUN(dev, delta_fwd, HEADS, .K = 2, .V = 2, .beta_scale = 1, .q = h->y, .k = h->z,
                       .v = h->y, .b = h->z, .u = h->x, .o = ROOM(0), .S = h->w))
#define DELTA_BACK \
	HEADS, .K = 2, .V = 2, .beta_scale = 1, .q = h->y, .k = h->z, .v = h->y, .b = h->z, .u = h->z, \
	       .d_o = h->y, .S = h->w, .dS = ROOM(3)
WRITER(delta_back_q,
       RF_RUN(dev, delta_bwd, DELTA_BACK, .dq = h->x, .dk = ROOM(0), .dv = ROOM(1), .db = ROOM(2)))
WRITER(delta_back_k,
       RF_RUN(dev, delta_bwd, DELTA_BACK, .dq = ROOM(0), .dk = h->x, .dv = ROOM(1), .db = ROOM(2)))
WRITER(delta_back_v,
       RF_RUN(dev, delta_bwd, DELTA_BACK, .dq = ROOM(0), .dk = ROOM(1), .dv = h->x, .db = ROOM(2)))
WRITER(delta_back_b,
       RF_RUN(dev, delta_bwd, DELTA_BACK, .dq = ROOM(0), .dk = ROOM(1), .dv = ROOM(2), .db = h->x))
WRITER(attention,
       RF_RUN(dev, attn_fwd, HEADS, .D = 2, .q = h->y, .k = h->z, .v = h->y, .o = h->x, .lse = ROOM(0)))
WRITER(attention_lse,
       RF_RUN(dev, attn_fwd, HEADS, .D = 2, .q = h->y, .k = h->z, .v = h->y, .o = ROOM(0), .lse = h->x))
#define ATTENTION_BACK HEADS, .D = 2, .q = h->y, .k = h->z, .v = h->y, .o = h->y, .lse = h->z, .d_o = h->z
WRITER(attention_back_q, RF_RUN(dev, attn_bwd, ATTENTION_BACK, .dq = h->x, .dk = ROOM(0), .dv = ROOM(1)))
WRITER(attention_back_k, RF_RUN(dev, attn_bwd, ATTENTION_BACK, .dq = ROOM(0), .dk = h->x, .dv = ROOM(1)))
WRITER(attention_back_v, RF_RUN(dev, attn_bwd, ATTENTION_BACK, .dq = ROOM(0), .dk = ROOM(1), .dv = h->x))

#define FEATURE ROWS, .H = 2, .D = h->half, .silu = true, .unit = true, .eps = 1e-5f
WRITER(feature, RF_RUN(dev, feature_fwd, FEATURE, .x = h->y, .y = h->x))
WRITER(feature_operand, RF_RUN(dev, feature_fwd, FEATURE, .operand = true, .x = h->y, .y = h->x))
WRITER(feature_back, RF_RUN(dev, feature_bwd, FEATURE, .x = h->y, .dy = h->z, .dx = h->x))
WRITER(feature_back_operand,
       RF_RUN(dev, feature_bwd, FEATURE, .operand = true, .x = h->y, .dy = h->z, .dx = h->x))
WRITER(rates, RF_RUN(dev, rates_fwd, .rows = (int)(h->n / 3), .H = 1, .lr = h->x))
WRITER(rates_back, RF_RUN(dev, rates_bwd, .rows = (int)(h->n / 3), .H = 1, .lr = h->y, .dlr = h->x))
WRITER(rates_m, RF_RUN(dev, rates_fwd, .rows = (int)h->n, .H = 1, .lr = ROOM(0), .m = h->x))
WRITER(rates_back_m, RF_RUN(dev, rates_bwd, .rows = (int)(h->n / 3), .H = 1, .lr = h->y, .m = h->z,
                            .dlr = ROOM(0), .dm = h->x))
WRITER(learn_gu,
       RF_RUN(dev, learn_fwd, ROWS, .H = 1, .E = h->half, .every = 1, .gu = h->x, .e = h->z, .lr = h->y))
WRITER(learn_e, RF_RUN(dev, learn_fwd, .rows = 2 * h->rows, .H = 1, .E = h->half, .every = 1, .gu = ROOM(0),
                       .e = h->x, .lr = ROOM(2)))
#define LEARN_BACK(to_gu, to_e, to_dgu, to_de) \
	RF_RUN(dev, learn_bwd, ROWS, .H = 1, .E = h->half, .every = 1, .gu = to_gu, .e = to_e, .lr = h->y, \
	       .dgu = to_dgu, .de = to_de, .dlr = ROOM(2), .dsum = h->w, .dm = ROOM(3))
WRITER(learn_back_gu, LEARN_BACK(h->x, h->z, ROOM(0), ROOM(1)))
WRITER(learn_back_dgu, LEARN_BACK(ROOM(0), h->z, h->x, ROOM(1)))
WRITER(learn_back_e, LEARN_BACK(ROOM(0), h->x, ROOM(1), h->z))
WRITER(learn_back_de, LEARN_BACK(ROOM(0), h->z, ROOM(1), h->x))

WRITER(learn_back_dlr, RF_RUN(dev, learn_bwd, ROWS, .H = 1, .E = h->half, .every = 1, .gu = ROOM(0),
                              .e = h->z, .lr = h->y, .dgu = ROOM(1), .de = ROOM(2), .dlr = SECOND))
WRITER(learn_back_dm,
       RF_RUN(dev, learn_bwd, ROWS, .H = 1, .E = h->half, .every = 1, .gu = ROOM(0), .e = h->z, .lr = h->y,
              .dgu = ROOM(1), .de = ROOM(2), .dlr = ROOM(3), .dsum = h->w, .dm = SECOND))

#define LENGTH ROWS, .n = (size_t)h->width
WRITER(length_back, RF_RUN(dev, length_bwd, LENGTH, .x = h->y, .y = h->w, .dy = h->z, .dx = h->x))
WRITER(renorm, RF_RUN(dev, renorm_fwd, LENGTH, .eps = 1e-5f, .x = h->y, .y = h->x))
WRITER(renorm_operand, RF_RUN(dev, renorm_fwd, LENGTH, .eps = 1e-5f, .operand = true, .x = h->y, .y = h->x))
WRITER(renorm_back, RF_RUN(dev, renorm_bwd, LENGTH, .eps = 1e-5f, .x = h->y, .dy = h->z, .dx = h->x))
WRITER(renorm_back_dlength, RF_RUN(dev, renorm_bwd, LENGTH, .eps = 1e-5f, .x = h->y, .length = h->w,
                                   .dy = h->z, .dx = ROOM(0), .dlength = SECOND))
WRITER(length, RF_RUN(dev, length_fwd, LENGTH, .x = h->y, .y = SECOND))
WRITER(momentum, RF_RUN(dev, momentum_fwd, .H = 1, .n = h->n, .factor = .5f, .x = h->y, .p = h->z, .m = h->w,
                        .y = h->x))
WRITER(momentum_back, RF_RUN(dev, momentum_bwd, .H = 1, .n = h->n, .factor = .5f, .p = h->y, .m = h->w,
                             .dy = h->z, .dp = h->x, .dm = ROOM(0)))
WRITER(momentum_back_dm, RF_RUN(dev, momentum_bwd, .H = 1, .n = h->n, .factor = .5f, .p = h->y, .m = h->w,
                                .dy = h->z, .dp = ROOM(0), .dm = SECOND))
WRITER(diagonal,
       RF_RUN(dev, diagonal, .mats = 1, ROWS, .cols = h->width, .stride = h->n, .value = 1, .y = h->x))
WRITER(adamw, RF_RUN(dev, adamw, .n = h->n, .scale = 1, .lr = .5, .b1 = .9, .b2 = .9, .eps = 1e-8, .c1 = .1,
                     .c2 = .1, .w = h->x, .m = ROOM(0), .v = ROOM(1), .g = h->y))
WRITER(adamw_moment, RF_RUN(dev, adamw, .n = h->n, .scale = 1, .lr = .5, .b1 = .9, .b2 = .9, .eps = 1e-8,
                            .c1 = .1, .c2 = .1, .w = ROOM(0), .m = h->x, .v = ROOM(1), .g = h->y))
WRITER(head_back,
       RF_RUN(dev, head_bwd, ROWS, .d = h->width, .N = h->rows, .inv_temp = 1, .h = h->y, .w = h->z,
              .target = h->target, .coef = h->w, .z = ROOM(0), .dh = h->x, .dw = ROOM(2)))
WRITER(head_back_entropies, RF_RUN(dev, head_bwd, ROWS, .d = h->width, .N = h->rows, .inv_temp = 1, .h = h->y,
                                   .w = h->z, .target = h->target, .coef = h->w, .entropy_coef = h->w,
                                   .z = h->x, .dh = ROOM(0), .dw = ROOM(2)))
WRITER(sample_kept, RF_RUN(dev, sample, .rows = h->width, .n = h->width, .N = (int)h->n, .inv_temp = 1,
                           .top_p = .5, .z = h->y, .u = (rf_f64)(void *)ROOM(0),
                           .token = (rf_i32)(void *)ROOM(1), .logp = ROOM(2), .kept = SECOND))

static const struct {
	const char *name;
	void (*run)(const struct hands *);
} writers[] = {
#define W(name) { #name, name },
	/* clang-format off */
	W(rows) W(some_rows) W(upload) W(zero) W(embed) W(tail_load) W(tail_keep_back) W(colsum)
	W(axpy) W(axpy_operand) W(axpy_row) W(product) W(norm) W(norm_operand) W(norm_of_heads)
	W(norm_back) W(norm_back_operand) W(norm_back_gate) W(swiglu) W(swiglu_sides)
	W(swiglu_back_sides) W(swiglu_back_again) W(swiglu_back) W(gate) W(gate_back)
	W(gate_back_dx) W(gate_back_dgate) W(decay) W(decay_back) W(rope) W(rope_operand)
	W(rope_a_part) W(conv) W(conv_back) W(delta) W(delta_back_q) W(delta_back_k)
	W(delta_back_v) W(delta_back_b) W(attention) W(attention_back_q) W(attention_back_k)
	W(attention_back_v) W(feature) W(feature_operand) W(feature_back) W(feature_back_operand)
	W(rates) W(rates_back) W(learn_gu) W(learn_e) W(learn_back_gu) W(learn_back_dgu)
	W(learn_back_e) W(learn_back_de) W(length_back) W(renorm) W(renorm_operand) W(renorm_back) W(momentum)
	W(momentum_back) W(diagonal) W(adamw) W(head_back) W(swiglu_back_dup)
	W(norm_back_row_gate) W(conv_back_dweight) W(delta_u) W(attention_lse) W(rates_m)
	W(rates_back_m) W(learn_back_dlr) W(learn_back_dm) W(renorm_back_dlength) W(length)
	W(momentum_back_dm) W(adamw_moment) W(head_back_entropies) W(sample_kept)
/* clang-format on */
#undef W
};

/* A product c (batch, m, N) of x's rows from the second on, each `every`-th row, for `batch` heads that share
 * its width, times b (N, width), of which each head has its columns.  99: one row, beyond the size for which
 * copies were prepared. */
struct piece {
	int every, batch;
};
static struct rf_gemm product_of(const struct hands *h, struct piece p, rf_f32 b, rf_f32 c)
{
	const int cols = h->width / p.batch;

	/* clang-format off */
	return (struct rf_gemm){ .m = (h->rows - 1 + p.every - 1) / p.every, .n = N, .k = cols, .tb = true,
		.a = rf_at(h->x, (size_t)h->width), .lda = p.every * h->width, .b = b, .ldb = h->width,
		.c = c, .ldc = N, .batch = p.batch, .sa = (size_t)cols, .sb = (size_t)cols,
		.sc = (size_t)(h->rows * N) };
	/* clang-format on */
}

/* Checks products of x before and after an operation writes x, first of the whole of x. */
static void written(int writer, int n_rows, int width)
{
	static const struct piece piece[PIECES] = { { 1, 1 }, { 1, 2 }, { 2, 2 }, { 99, 2 }, { 99, 2 } };
	int32_t index[2][300];

	snprintf(label, sizeof label, "rows %d width %d writer %s", n_rows, width, writers[writer].name);
	for (EACH_DEVICE) {
		struct hands h = {
			n_rows, width, width / 2, (size_t)(n_rows * width), 0, 0, 0, 0, 0, 0, 0, 0
		};
		struct buf x = in(h.n, -1, 1), y = in(h.n, .2f, 1), z = in(h.n, .2f, 1),
			   w = in(2 * (size_t)width, .5, 1), room = in(4 * h.n, .2f, 1),
			   b = in((size_t)(N * width), -1, 1), c[PIECES];

		h.x = x.m, h.y = y.m, h.z = z.m, h.w = w.m, h.room = room.m;
		h.index = some_indices(index[0], n_rows, n_rows);
		h.target = some_indices(index[1], n_rows, n_rows - 3 < width ? n_rows - 3 : width);
		h.slot = in_i32(&(int32_t){ 0 }, 1);
		for (int again = 0; again < 2; again++) {
			for (int i = 0; i < PIECES; i++) {
				c[i] = again ? c[i] : in((size_t)(2 * n_rows * N), 0, 0);
				const struct rf_gemm g = product_of(&h, piece[i], b.m, c[i].m);

				dev->ops->gemm(dev, &g);
			}
			if (!again)
				writers[writer].run(&h);
		}
		struct buf now = { h.n, get(x), NULL };
		for (int i = 0; i < PIECES; i++) {
			const struct rf_gemm g = product_of(&h, piece[i], b.m, c[i].m);

			values(bf16 ? "gemm of what was just written, in bf16"
			            : "gemm of what was just written",
			       c[i], first ? gemm_ref(&g, now.h + width, b.h, c[i], NULL) : NULL,
			       limit_of_product(bf16));
		}
		free(now.h);
	}
}

/* Checks more operands than the memory for copies holds: each product is right, whichever copy was dropped.
 * First the oldest of the operands that fill the memory is multiplied by a further one; then by many, of many
 * sizes. */
static void many_operands(void)
{
	enum { OPERANDS = 20, CHAIN = 4, PRODUCTS = CHAIN + 3 * OPERANDS, R = 66, D = 520 };
	static const int chain[CHAIN][2] = { { 0, 1 }, { 1, 2 }, { 2, 3 }, { 0, 4 } };
	const size_t each = (size_t)R * D, result = (size_t)R * R;

	snprintf(label, sizeof label, "%d operands in turns", OPERANDS);
	for (EACH_DEVICE) {
		struct buf x = in(OPERANDS * each, -1, 1), c = out(PRODUCTS * result);
		double *ref = keep(c.n, sizeof *ref);

		for (int i = 0; i < PRODUCTS; i++) {
			const int j = i - CHAIN, which = j < OPERANDS ? OPERANDS - 1 - j : j % OPERANDS,
				  k = j < 0 ? D : D - 12 * which;
			const size_t a = (size_t)(j < 0 ? chain[i][0] : which) * each,
				     at = (size_t)i * result,
				     b = (size_t)(j < 0 ? chain[i][1] : (which + 7) % OPERANDS) * each;

			RF_RUN(dev, gemm, .m = R, .n = R, .k = k, .tb = true, .a = rf_at(x.m, a), .lda = D,
			       .b = rf_at(x.m, b), .ldb = D, .c = rf_at(c.m, at), .ldc = R);
			for (size_t e = 0; first && e < result; e++)
				for (int l = 0; l < k; l++)
					ref[at + e] += operand(x.h[a + e / R * D + (size_t)l], bf16) *
					               operand(x.h[b + e % R * D + (size_t)l], bf16);
		}
		values(bf16 ? "gemm of operands in turns, in bf16" : "gemm of operands in turns", c, ref,
		       limit_of_product(bf16));
	}
}

static void all(void)
{
	for (int writer = 0; writer < COUNT(writers); writer++) {
		written(writer, 5, 40);
		written(writer, 34, 264);
		written(writer, 6, 14);
	}
	many_operands();
}

int main(int argc, char *argv[])
{
	in_bf16(argc, argv, all);
	open_devices(argc, argv, RF_MATH_F32);
	all();
	return finish();
}
