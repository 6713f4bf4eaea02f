/* launches -- calls every operation at the shapes of real models, for the occupancy table of `make
 * cuda-report`.
 *
 * The program runs on the emulated GPU with EMU_LAUNCHES=FILE, which records launches and runs no kernel, so
 * all arrays may be the same page.  The shapes are those of the configs in pipelines/configs, with a segment
 * of 8192 rows, as programs have on a large GPU, and with 40 rollouts of 8 tokens that branch from a
 * sequence of 16384. */
#include <stdio.h>
#include <stdlib.h>

#include "device/dev.h"

enum { T = 16384, SEGMENT = 8192, ROLLOUTS = 40, STEPS = 8 };
static const struct model {
	int D, F, N;
	int H, K;                                 /* the delta rule */
	int heads, groups, width, rotary, window; /* softmax attention */
	int fast, chunk;                          /* heads and rows of fast weights */
} models[] = {
	{ .D = 2048, .F = 5632, .N = 32000, .H = 16, .K = 128 },
	/* clang-format off */
	{ .D = 1536, .F = 4096, .N = 32000, .heads = 24, .groups = 24, .width = 64, .rotary = 64,
	  .window = 2048, .fast = 4, .chunk = 2048 },
	{ .D = 1024, .F = 3584, .N = 248320, .H = 16, .K = 128, .heads = 8, .groups = 2, .width = 256,
	  /* clang-format on */
	  .rotary = 64 },
};

static struct rf_dev device, *const d = &device;
static rf_f32 x;
static rf_f64 reals;
static rf_i32 ints;

static void both_math(void (*f)(const struct model *, int, int), const struct model *m, int nb, int steps)
{
	for (d->math = RF_MATH_F32; d->math <= RF_MATH_BF16; d->math++) {
		f(m, nb, steps);
		if (d->math == RF_MATH_F32) /* some GPUs have too little shared memory for float32 */
			d->err.code = RF_OK;
	}
}

static void launch_rows(const struct model *m, int R)
{
	const size_t n = (size_t)R * (size_t)m->F;

	RF_RUN(d, embed_fwd, .rows = R, .d = m->D, .tokens = ints, .w = x, .y = x);
	RF_RUN(d, embed_bwd, .rows = R, .d = m->D, .tokens = ints, .dy = x, .dw = x);
	RF_RUN(d, rows, .n = R, .d = m->D, .from = x, .to = x, .fi = ints);
	RF_RUN(d, rows, .n = R, .d = m->D, .add = true, .from = x, .to = x, .ti = ints);
	RF_RUN(d, colsum, .rows = R, .d = m->D, .x = x, .y = x);
	RF_RUN(d, rmsnorm_fwd, .rows = R, .d = m->D, .eps = 1e-6f, .x = x, .w = x, .y = x);
	RF_RUN(d, rmsnorm_bwd, .rows = R, .d = m->D, .eps = 1e-6f, .add = true, .x = x, .w = x, .dy = x,
	       .dx = x, .dw = x);
	RF_RUN(d, rmsnorm_fwd, .rows = R * 16, .d = 128, .eps = 1e-6f, .x = x, .w = x, .gate = x, .y = x);
	RF_RUN(d, rmsnorm_bwd, .rows = R * 16, .d = 128, .eps = 1e-6f, .x = x, .w = x, .gate = x, .dy = x,
	       .dx = x, .dw = x, .dgate = x);
	RF_RUN(d, swiglu_fwd, .n = n, .d = m->F, .ld = 2 * m->F, .gate = x, .up = x, .y = x);
	RF_RUN(d, swiglu_bwd, .n = n, .d = m->F, .ld = 2 * m->F, .gate = x, .up = x, .dy = x, .dgate = x,
	       .dup = x, .y = x);
	RF_RUN(d, gate_fwd, .rows = R, .d = m->D, .x = x, .gate = x, .y = x);
	RF_RUN(d, gate_bwd, .rows = R, .d = m->D, .x = x, .gate = x, .dy = x, .dx = x, .dgate = x);
	for (d->math = RF_MATH_F32; d->math <= RF_MATH_BF16; d->math++) {
		RF_RUN(d, gemm, .m = R, .n = m->D, .k = m->D, .tb = true, .bias = x, .a = x, .b = x, .c = x,
		       .lda = m->D, .ldb = m->D, .ldc = m->D);
		RF_RUN(d, gemm, .m = R, .n = m->D, .k = 0, .a = x, .b = x, .c = x, .lda = 1, .ldb = m->D,
		       .ldc = m->D);
		RF_RUN(d, head_fwd, .rows = R, .d = m->D, .N = m->N, .inv_temp = 1, .h = x, .w = x,
		       .target = ints, .entropy = x, .logp = x, .top = ints);
	}
	RF_RUN(d, head_bwd, .rows = R, .d = m->D, .N = m->N, .inv_temp = 1, .h = x, .w = x, .target = ints,
	       .coef = x, .entropy = x, .logp = x, .z = x, .dh = x, .dw = x);
	RF_RUN(d, head_bwd, .rows = R, .d = m->D, .N = m->N, .inv_temp = 1, .h = x, .w = x, .target = ints,
	       .coef = x, .entropy_coef = x, .z = x, .dh = x, .dw = x);
	RF_RUN(d, sample, .rows = ROLLOUTS, .n = 1, .N = m->N, .banned = 2, .inv_temp = 1, .top_p = 1, .z = x,
	       .banned_ids = ints, .u = reals, .token = ints, .logp = x);
	RF_RUN(d, sample, .rows = ROLLOUTS, .n = 1, .N = m->N, .inv_temp = 1, .top_k = 50, .top_p = 0.9,
	       .z = x, .u = reals, .token = ints, .logp = x, .kept = x);
	RF_RUN(d, dot, .n = n, .x = x, .y = x, .out = reals);
	RF_RUN(d, adamw, .n = n, .scale = 1, .lr = 1e-5, .b1 = 0.9, .b2 = 0.99, .eps = 1e-8, .c1 = 0.1,
	       .c2 = 0.01, .w = x, .m = x, .v = x, .g = x);
	RF_RUN(d, axpy, .n = n, .scale = 1, .add = true, .x = x, .y = x);
}

static void launch_delta(const struct model *m, int nb, int steps)
{
	const int H = m->H, K = m->K, captures = nb == 1 ? 8 : 0;
	const rf_i32 start = nb == 1 ? NULL : ints;
	/* clang-format off */
	struct rf_delta_fwd f = { .nb = nb, .steps = steps, .n = 5, .H = H, .G = H, .K = K, .V = K,
	                          .beta_scale = 1, .q = x, .k = x, .v = x, .b = x,
		.g = x, .u = x, .o = x, .S = x, .start = start, .captures = captures, .log_from = 1,
		.cap_row = ints, .cap_slot = ints };

	const struct rf_conv_part qk = { .d = H * K, .head = K, .act = RF_ACT_SILU, .norm = RF_NORM_L2,
	                                 .scale = 1, .weight = x, .y = x, .dy = x, .dweight = x };
	/* clang-format on */
	struct rf_conv_part v = qk;

	v.norm = RF_NORM_NONE;
	RF_RUN(d, conv_fwd, .nb = nb, .steps = steps, .w = 4, .parts = 3, .x = x, .part = { qk, qk, v });
	RF_RUN(d, conv_bwd, .nb = nb, .steps = steps, .w = 4, .parts = 3, .x = x, .dx = x,
	       .part = { qk, qk, v });
	RF_RUN(d, tail_load, .nb = nb, .n = 5, .w = 3, .d = H * K, .x = x, .slots = x, .slot = start);
	RF_RUN(d, tail_load, .back = true, .nb = nb, .n = 5, .w = 3, .d = H * K, .x = x, .slots = x,
	       .slot = start);
	if (captures) {
		RF_RUN(d, tail_keep, .n = captures, .w = 3, .d = H * K, .x = x, .slots = x, .row = ints,
		       .slot = ints);
		RF_RUN(d, tail_keep, .back = true, .n = captures, .w = 3, .d = H * K, .x = x, .slots = x,
		       .row = ints, .slot = ints);
	}
	RF_RUN(d, decay_fwd, .rows = nb * steps, .H = H, .a = x, .A_log = x, .dt_bias = x, .g = x);
	RF_RUN(d, decay_bwd, .rows = nb * steps, .H = H, .a = x, .A_log = x, .dt_bias = x, .dg = x, .da = x,
	       .dA_log = x, .ddt_bias = x);
	d->ops->delta_fwd(d, &f);
	RF_RUN(d, delta_bwd, .nb = nb, .steps = steps, .n = 5, .H = H, .G = H, .K = K, .V = K,
	       .beta_scale = 1, .q = x, .k = x, .v = x, .b = x, .g = x, .u = x, .d_o = x, .dq = x, .dk = x,
	       .dv = x, .db = x, .dg = x, .S = x, .dS = x, .start = start, .captures = captures,
	       .cap_row = ints, .cap_slot = ints);
	if (nb == 1) { /* a text with incomplete chunks that continue in rollouts */
		f.log = (struct rf_delta_log){ x, x, x, x };
		d->ops->delta_fwd(d, &f);
	} else { /* rollouts that are decoded */
		f.steps = 1;
		f.open_rows = ints;
		for (f.decoded = 0; f.decoded < 130; f.decoded += 65) {
			f.open = x;
			d->ops->delta_fwd(d, &f);
			f.open = NULL;
			d->ops->delta_fwd(d, &f);
		}
	}
}

static void launch_attention(const struct model *m, int nb, int steps)
{
	const int longest = nb == 1 ? 0 : m->window ? m->window : T;
	const rf_f32 cache = longest ? x : NULL;
	/* clang-format off */
	struct rf_attn_fwd f = { .nb = nb, .steps = steps, .H = m->heads, .G = m->groups, .D = m->width,
	                         .window = m->window, .longest = longest,
	                         .cache_len = longest ? ints : NULL, .q = x, .k = x, .v = x,
	                         .cache_k = cache, .cache_v = cache, .o = x, .lse = x };
	/* clang-format on */

	RF_RUN(d, rope, .nb = nb, .steps = steps, .heads = m->heads, .D = m->width, .rotary = m->rotary,
	       .theta = 1e6, .x = x, .y = x);
	RF_RUN(d, rope, .nb = nb, .steps = steps, .heads = m->heads, .D = m->width, .operand = true,
	       .theta = 1e6, .x = x, .y = x);
	d->ops->attn_fwd(d, &f);
	RF_RUN(d, attn_bwd, .nb = nb, .steps = steps, .H = m->heads, .G = m->groups, .D = m->width,
	       .window = m->window, .longest = longest, .cache_len = f.cache_len, .q = x, .k = x, .v = x,
	       .cache_k = cache, .cache_v = cache, .o = x, .lse = x, .d_o = x, .dq = x, .dk = x, .dv = x,
	       .dcache_k = cache, .dcache_v = cache);
	if (nb > 1) {
		f.decoded = steps - 1;
		f.steps = 1;
		f.lse = NULL;
		d->ops->attn_fwd(d, &f);
	}
}

static void launch_fast_weights(const struct model *m)
{
	const int H = m->fast, D = m->D / H, E = D, R = m->chunk;
	const size_t n = (size_t)D * (size_t)E;

	RF_RUN(d, feature_fwd, .rows = SEGMENT, .H = H, .D = D, .silu = true, .unit = true, .eps = 1e-5f,
	       .x = x, .scale = x, .offset = x, .y = x);
	RF_RUN(d, feature_bwd, .rows = SEGMENT, .H = H, .D = D, .silu = true, .unit = true, .eps = 1e-5f,
	       .x = x, .scale = x, .offset = x, .dy = x, .dx = x, .dscale = x, .doffset = x);
	RF_RUN(d, rates_fwd, .rows = SEGMENT, .H = H, .shift = -6, .lr = x, .m = x);
	RF_RUN(d, rates_bwd, .rows = SEGMENT, .H = H, .lr = x, .m = x, .dlr = x, .dm = x);
	RF_RUN(d, learn_fwd, .rows = R, .H = H, .E = E, .every = 1, .gu = x, .e = x, .lr = x);
	RF_RUN(d, learn_bwd, .rows = R, .H = H, .E = E, .every = 1, .gu = x, .e = x, .lr = x, .dgu = x,
	       .de = x, .dlr = x, .dm = x, .dsum = x);
	RF_RUN(d, momentum_fwd, .H = H, .n = n, .factor = 1, .x = x, .p = x, .m = x, .y = x);
	RF_RUN(d, momentum_bwd, .H = H, .n = n, .factor = 1, .p = x, .m = x, .dy = x, .dp = x, .dm = x);
	RF_RUN(d, length_fwd, .rows = H * E, .n = (size_t)D, .x = x, .y = x);
	RF_RUN(d, length_bwd, .rows = H * E, .n = (size_t)D, .x = x, .y = x, .dy = x, .dx = x);
	RF_RUN(d, renorm_fwd, .rows = H, .n = n, .eps = 1e-7f, .x = x, .y = x);
	RF_RUN(d, renorm_bwd, .rows = H, .n = n, .eps = 1e-7f, .x = x, .dy = x, .dx = x);
	RF_RUN(d, renorm_fwd, .rows = H * E, .n = (size_t)D, .eps = 1e-5f, .x = x, .length = x, .y = x);
	RF_RUN(d, renorm_bwd, .rows = H * E, .n = (size_t)D, .eps = 1e-5f, .x = x, .length = x, .dy = x,
	       .dx = x, .dlength = x);
	RF_RUN(d, diagonal, .mats = H, .rows = E, .cols = D, .stride = n, .value = 1, .y = x);
}

int main(void)
{
	struct rf_err e;

	if (rf_dev_open(d, "cuda", 1, RF_MATH_F32, NULL, &e) != RF_OK)
		goto failed;
	x = d->ops->alloc(d, 4096);
	reals = (rf_f64)(void *)x;
	ints = (rf_i32)(void *)x;
	for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
		const struct model *m = &models[i];

		launch_rows(m, SEGMENT);
		launch_rows(m, ROLLOUTS);
		for (int nb = 1; nb <= ROLLOUTS; nb += ROLLOUTS - 1) {
			if (m->H)
				both_math(launch_delta, m, nb, nb == 1 ? SEGMENT : STEPS);
			if (m->heads)
				both_math(launch_attention, m, nb, nb == 1 ? SEGMENT : STEPS);
		}
		if (m->fast)
			launch_fast_weights(m);
	}
	if (rf_dev_sync(d, &e) != RF_OK)
		goto failed;
	rf_dev_close(d);
	return 0;
failed:
	fprintf(stderr, "launches: %s\n", e.msg);
	return 1;
}
