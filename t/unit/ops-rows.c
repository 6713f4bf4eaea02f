/* ops-rows -- the operations that work on rows, against double precision: sums of columns, embedding, rows
 * moved, norms, gates, convolution, rotary embedding; and vec.h's exp.  Arguments: the devices, instead of
 * cpu with 1, 2, 3 threads and check. */
#pragma GCC diagnostic ignored "-Wpsabi"
#include <float.h>

#include "unit/ops.h"
#include "cpu/vec.h"

enum { SLOTS = 5 }; /* slots of tails */

/* Checks vec.h's exp, without a device. */
static void exponentials(void)
{
	double worst = 0, x = -87;

	for (; x < 88; x += VL * 1e-4) {
		float from[VL], to[VL];
		for (int i = 0; i < VL; i++)
			from[i] = (float)(x + i * 1e-4 < 88 ? x + i * 1e-4 : 88);
		vstore(to, vexp(vload(from)));
		for (int i = 0; i < VL; i++) {
			double e = fabs(to[i] / exp(from[i]) - 1);
			worst = e > worst ? e : worst;
		}
	}
	judge("vexp", worst, 2e-7);
	const float ends_of[16] = { 0, -0.f, 1000, -1000, INFINITY, -INFINITY, NAN, 88, -87 };
	float special[16];

	for (int i = 0; i < 16; i += VL)
		vstore(special + i, vexp(vload(ends_of + i)));
	bool ends = special[0] == 1 && special[1] == 1 && isnan(special[6]) && special[8] > 0 &&
	            special[8] < 2e-38f && special[2] == special[7] && special[4] == special[7] &&
	            special[3] == special[8] && special[5] == special[8];
	judge("vexp: the ends", !ends, 0);
}

/* ---- rows -------------------------------------------------------------------------------------- */

/* gap: numbers between the rows of x */
static void colsum(int rows, int d, int gap)
{
	const int ld = d + gap;

	snprintf(label, sizeof label, "rows %d d %d gap %d", rows, d, gap);
	for (EACH_DEVICE) {
		struct buf x = in((size_t)rows * (size_t)ld, -1, 1), y = in((size_t)d, -1, 1);
		double *ref = keep((size_t)d, sizeof *ref);

		RF_RUN(dev, colsum, .rows = rows, .d = d, .ldx = gap ? ld : 0, .x = x.m, .y = y.m);
		for (int i = 0; i < d; i++) {
			ref[i] = y.h[i];
			for (int j = 0; j < rows; j++)
				ref[i] += x.h[j * ld + i];
		}
		values("colsum", y, ref, VALUE);
	}
}

static void embed(int rows, int d, int vocab)
{
	size_t n = (size_t)rows * (size_t)d, nw = (size_t)vocab * (size_t)d;

	snprintf(label, sizeof label, "rows %d d %d vocab %d", rows, d, vocab);
	for (EACH_DEVICE) {
		struct buf w = in(nw, -1, 1), y = out(n), dy = in(n, -1, 1), dw = in(nw, -1, 1);
		int32_t *token = keep((size_t)rows, sizeof *token);
		rf_i32 tokens = some_indices(token, rows, vocab);
		double *ref = keep(n, sizeof *ref), *dref = keep(nw, sizeof *dref);

		RF_RUN(dev, embed_fwd, .rows = rows, .d = d, .tokens = tokens, .w = w.m, .y = y.m);
		RF_RUN(dev, embed_bwd, .rows = rows, .d = d, .tokens = tokens, .dy = dy.m, .dw = dw.m);
		for (size_t i = 0; i < nw; i++)
			dref[i] = dw.h[i];
		for (int i = 0; i < rows; i++)
			for (int j = 0; j < d; j++) {
				ref[i * d + j] = w.h[token[i] * d + j];
				dref[token[i] * d + j] += dy.h[i * d + j];
			}
		values("embed_fwd", y, ref, 0);
		values("embed_bwd dw", dw, dref, GRADIENT);
	}
}

/* Checks rows that are copied or added.  gf, gt: numbers between the rows of `from` and of `to` */
static void rows(int n, int d, int gf, int gt, bool add, bool from_index, bool to_index)
{
	const int many = n + 5, lf = d + gf, lt = d + gt;

	snprintf(label, sizeof label, "n %d d %d gaps %d %d add %d fi %d ti %d", n, d, gf, gt, add,
	         from_index, to_index);
	for (EACH_DEVICE) {
		struct buf from = in((size_t)many * (size_t)lf, -1, 1),
			   to = in((size_t)many * (size_t)lt, -1, 1);
		int32_t *fi = keep((size_t)n, sizeof *fi), *ti = keep((size_t)n, sizeof *ti);
		rf_i32 from_i = some_indices(fi, n, many), to_i;
		double *ref = keep(to.n, sizeof *ref);

		for (int i = 0; i < n; i++) /* with add some indices occur twice, without add none does */
			ti[i] = add ? i / 3 : many - 1 - i;
		to_i = in_i32(ti, n);
		for (size_t i = 0; i < to.n; i++)
			ref[i] = to.h[i];
		for (int i = 0; i < n; i++)
			for (int j = 0; j < d; j++) {
				double *t = &ref[(to_index ? ti[i] : i) * lt + j];
				*t = (add ? *t : 0) + from.h[(from_index ? fi[i] : i) * lf + j];
			}
		RF_RUN(dev, rows, .n = n, .d = d, .lf = gf ? lf : 0, .lt = gt ? lt : 0, .add = add,
		       .from = from.m, .to = to.m, .fi = from_index ? from_i : NULL,
		       .ti = to_index ? to_i : NULL);
		values("rows", to, ref, VALUE);
	}
}

/* Checks that the w rows before each sequence are copied from slots and to slots. */
static void tails(int nb, int per, int steps, int w, int d, bool one_slot)
{
	static const int32_t slot[] = { 3, 0, 4, 1 }, row[] = { 0, 2, 2, 6 };
	size_t D = (size_t)d, front = (size_t)(w * nb) * D;
	int keeps = 0;

	while (keeps < 4 && row[keeps] < steps)
		keeps++;
	snprintf(label, sizeof label, "nb %d per %d steps %d w %d d %d one slot %d", nb, per, steps, w, d,
	         one_slot);
	for (EACH_DEVICE) {
		struct buf x = in((size_t)((w + steps) * nb) * D, -1, 1),
			   slots = in((size_t)(SLOTS * w) * D, -1, 1);
		struct buf dx = in(x.n, -1, 1), dslots = in(slots.n, -1, 1);
		double *X = keep(x.n, sizeof *X), *S = keep(slots.n, sizeof *S), *dX = keep(x.n, sizeof *dX),
		       *dS = keep(slots.n, sizeof *dS);
		rf_i32 where = in_i32(slot, 4), rows_i = in_i32(row, 4);

		for (size_t i = 0; i < x.n; i++)
			X[i] = (double)x.h[i], dX[i] = (double)dx.h[i];
		for (size_t i = 0; i < slots.n; i++)
			S[i] = (double)slots.h[i], dS[i] = (double)dslots.h[i];
		for (size_t i = 0; i < front; i++) {
			size_t b = i / D % (size_t)nb,
			       at = ((size_t)(one_slot ? 0 : slot[b / (size_t)per]) * (size_t)w +
			             i / D / (size_t)nb) *
			                    D +
			            i % D;
			X[i] = S[at];
			dS[at] += dX[i];
		}
		RF_RUN(dev, tail_load, .nb = nb, .n = per, .w = w, .d = d, .x = x.m, .slots = slots.m,
		       .slot = one_slot ? NULL : where);
		RF_RUN(dev, tail_load, .back = true, .nb = nb, .n = per, .w = w, .d = d, .x = dx.m,
		       .slots = dslots.m, .slot = one_slot ? NULL : where);
		values("tail_load", x, X, VALUE);
		values("tail_load back", dslots, dS, VALUE);
		if (nb > 1)
			continue;
		for (int i = 0; i < keeps; i++)
			for (size_t j = 0; j < (size_t)w * D; j++) {
				size_t at = (size_t)slot[i] * (size_t)w * D + j,
				       from = (size_t)(row[i] + 1) * D + j;
				S[at] = X[from];
				dX[from] += dS[at];
			}
		RF_RUN(dev, tail_keep, .n = keeps, .w = w, .d = d, .x = x.m, .slots = slots.m, .row = rows_i,
		       .slot = where);
		RF_RUN(dev, tail_keep, .back = true, .n = keeps, .w = w, .d = d, .x = dx.m, .slots = dslots.m,
		       .row = rows_i, .slot = where);
		values("tail_keep", slots, S, VALUE);
		values("tail_keep back", dx, dX, VALUE);
	}
}

/* ---- norms and gates --------------------------------------------------------------------------- */

/* Checks norms.  gated: 0: no gate, 1: a gate of y's shape, 2: one number per row */
static void rmsnorm(int rows, int d, int gap, bool plus_one, int gated, bool add)
{
	int ldx = d + gap;
	size_t n = (size_t)rows * (size_t)d, nx = (size_t)rows * (size_t)ldx,
	       ng = gated == 2 ? (size_t)rows : n;
	float eps = 1e-4f;

	snprintf(label, sizeof label, "rows %d d %d gap %d plus one %d gate %d add %d", rows, d, gap,
	         plus_one, gated, add);
	for (EACH_DEVICE) {
		const float low = plus_one ? -0.5f : 0.5f;
		struct buf x = in(nx, -1, 1), w = in((size_t)d, low, low + 1), g = in(ng, -3, 3), y = out(n),
			   dy = in(n, -1, 1);
		struct buf dx = add || gap ? in(nx, -1, 1) : out(nx), dw = in((size_t)d, -1, 1), dg = out(ng);
		num *X = NULL, *W = NULL, *G = NULL, *Y = NULL;
		double *want = NULL;

		RF_RUN(dev, rmsnorm_fwd, .rows = rows, .d = d, .ldx = gap ? ldx : 0, .eps = eps,
		       .plus_one = plus_one, .row_gate = gated == 2, .x = x.m, .w = w.m,
		       .gate = gated ? g.m : NULL, .y = y.m);
		RF_RUN(dev, rmsnorm_bwd, .rows = rows, .d = d, .ldx = gap ? ldx : 0, .eps = eps,
		       .plus_one = plus_one, .row_gate = gated == 2, .add = add, .x = x.m, .w = w.m,
		       .gate = gated ? g.m : NULL, .dy = dy.m, .dx = dx.m, .dw = dw.m,
		       .dgate = gated ? dg.m : NULL);
		if (first) {
			X = nums(x), W = nums(w), G = nums(g), Y = room(n);
			for (int i = 0; i < rows; i++) {
				num r = scaled(dot(d, X + i * ldx, 1, X + i * ldx, 1), 1. / d);
				double mean = val[r] + (double)eps;

				r = un(r, 1 / sqrt(mean), -0.5 / (mean * sqrt(mean)));
				for (int j = 0; j < d; j++) {
					num z = mul(mul(X[i * ldx + j], r), lin(1, W[j], 0, W[j], plus_one));
					Y[i * d + j] =
						gated ? mul(z, silu(G[gated == 2 ? i : i * d + j])) : z;
				}
			}
			seed_back(Y, dy);
			back_propagate();
			want = gradients(X, nx, add ? dx.h : NULL);
			for (size_t i = 0; i < nx; i++)
				want[i] = i % (size_t)ldx < (size_t)d ? want[i] : (double)dx.h[i];
		}
		values("rmsnorm_fwd", y, first ? values_of(Y, n) : NULL, VALUE);
		values("rmsnorm_bwd dx", dx, want, GRADIENT);
		values("rmsnorm_bwd dw", dw, first ? gradients(W, (size_t)d, dw.h) : NULL, GRADIENT);
		if (gated)
			values("rmsnorm_bwd dgate", dg, first ? gradients(G, ng, NULL) : NULL, GRADIENT);
	}
}

/* Checks SwiGLU.  d, gap: gate and up have rows of d numbers, with gap numbers between them; d 0: no gaps */
static void swiglu(size_t n, int d, int gap, bool again)
{
	size_t row = d ? (size_t)d : n, ld = row + (size_t)gap, all = n / row * ld;

	snprintf(label, sizeof label, "n %zu d %d gap %d again %d", n, d, gap, again);
	for (EACH_DEVICE) {
		struct buf gate = in(all, -9, 9), up = in(all, -1, 1), y = out(n), dy = in(n, -1, 1);
		struct buf dgate = in(all, 9, 9), dup = in(all, 9, 9), y2 = out(n);

		RF_RUN(dev, swiglu_fwd, .n = n, .d = d, .ld = (int)ld, .gate = gate.m, .up = up.m, .y = y.m);
		RF_RUN(dev, swiglu_bwd, .n = n, .d = d, .ld = (int)ld, .gate = gate.m, .up = up.m, .dy = dy.m,
		       .dgate = dgate.m, .dup = dup.m, .y = again ? y2.m : NULL);
		num *G = NULL, *U = NULL, *Y = NULL;
		double *dG = NULL, *dU = NULL;
		if (first) {
			G = nums(gate), U = nums(up), Y = room(n);
			for (size_t i = 0; i < n; i++)
				Y[i] = mul(silu(G[i / row * ld + i % row]), U[i / row * ld + i % row]);
			seed_back(Y, dy);
			back_propagate();
			dG = gradients(G, all, NULL), dU = gradients(U, all, NULL);
			for (size_t i = 0; i < all; i++)
				if (i % ld >= row)
					dG[i] = dU[i] = 9; /* must not change */
		}
		values("swiglu_fwd", y, first ? values_of(Y, n) : NULL, VALUE);
		values("swiglu_bwd dgate", dgate, dG, GRADIENT);
		values("swiglu_bwd dup", dup, dU, GRADIENT);
		if (again)
			values("swiglu_bwd y", y2, first ? values_of(Y, n) : NULL, VALUE);
	}
}

static void gate(int rows, int d, int gap, bool again)
{
	int ldg = d + gap;
	size_t n = (size_t)rows * (size_t)d, ng = (size_t)rows * (size_t)ldg;

	snprintf(label, sizeof label, "rows %d d %d gap %d again %d", rows, d, gap, again);
	for (EACH_DEVICE) {
		struct buf x = in(n, -1, 1), g = in(ng, -5, 5), y = out(n), dy = in(n, -1, 1), dx = out(n),
			   dg = in(ng, -1, 1), y2 = out(n);
		num *X = NULL, *G = NULL, *Y = NULL;
		double *want = NULL;

		RF_RUN(dev, gate_fwd, .rows = rows, .d = d, .ldg = gap ? ldg : 0, .x = x.m, .gate = g.m,
		       .y = y.m);
		RF_RUN(dev, gate_bwd, .rows = rows, .d = d, .ldg = gap ? ldg : 0, .x = x.m, .gate = g.m,
		       .dy = dy.m, .dx = dx.m, .dgate = dg.m, .y = again ? y2.m : NULL);
		if (first) {
			X = nums(x), G = nums(g), Y = room(n);
			for (size_t i = 0; i < n; i++)
				Y[i] = mul(X[i], sigmoid(G[i / (size_t)d * (size_t)ldg + i % (size_t)d]));
			seed_back(Y, dy);
			back_propagate();
			want = gradients(G, ng, NULL);
			for (size_t i = 0; i < ng; i++) /* numbers between the rows do not change */
				want[i] = i % (size_t)ldg < (size_t)d ? want[i] : (double)dg.h[i];
		}
		values("gate_fwd", y, first ? values_of(Y, n) : NULL, VALUE);
		values("gate_bwd dx", dx, first ? gradients(X, n, NULL) : NULL, GRADIENT);
		values("gate_bwd dgate", dg, want, GRADIENT);
		if (again)
			values("gate_bwd y", y2, first ? values_of(Y, n) : NULL, VALUE);
	}
}

static num softplus(num a)
{
	double x = val[a];

	return un(a, x > 30 ? x : log1p(exp(x)), 1 / (1 + exp(-x)));
}

static void decay(int rows, int H, float wide)
{
	size_t n = (size_t)rows * (size_t)H, heads = (size_t)H;

	snprintf(label, sizeof label, "rows %d H %d wide %g", rows, H, (double)wide);
	for (EACH_DEVICE) {
		struct buf a = in(n, -wide, wide), A = in(heads, -4, 3), dt = in(heads, -7, 2), g = out(n),
			   dg = in(n, -1, 1), da = out(n);
		struct buf dA = in(heads, -1, 1), ddt = in(heads, -1, 1);
		num *a_ = NULL, *A_ = NULL, *dt_ = NULL, *G = NULL;

		RF_RUN(dev, decay_fwd, .rows = rows, .H = H, .a = a.m, .A_log = A.m, .dt_bias = dt.m,
		       .g = g.m);
		RF_RUN(dev, decay_bwd, .rows = rows, .H = H, .a = a.m, .A_log = A.m, .dt_bias = dt.m,
		       .dg = dg.m, .da = da.m, .dA_log = dA.m, .ddt_bias = ddt.m);
		if (first) {
			a_ = nums(a), A_ = nums(A), dt_ = nums(dt), G = room(n);
			for (size_t i = 0; i < n; i++)
				G[i] = scaled(mul(exponential(A_[i % heads]),
				                  softplus(lin(1, a_[i], 1, dt_[i % heads], 0))),
				              -1);
			seed_back(G, dg);
			back_propagate();
		}
		values("decay_fwd", g, first ? values_of(G, n) : NULL, VALUE);
		values("decay_bwd da", da, first ? gradients(a_, n, NULL) : NULL, GRADIENT);
		values("decay_bwd dA_log", dA, first ? gradients(A_, heads, dA.h) : NULL, GRADIENT);
		values("decay_bwd ddt_bias", ddt, first ? gradients(dt_, heads, ddt.h) : NULL, GRADIENT);
	}
}

/* ---- convolution ------------------------------------------------------------------------------- */

static num activation(num x, enum rf_act act)
{
	switch (act) {
	case RF_ACT_SILU: return silu(x);
	case RF_ACT_RELU: return un(x, val[x] > 0 ? val[x] : 0, val[x] > 0);
	/* clang-format off */
	case RF_ACT_ELU:  return un(x, val[x] > 0 ? val[x] + 1 : exp(val[x]), val[x] > 0 ? 1 : exp(val[x]));
	default:          return x;
		/* clang-format on */
	}
}

static num *conv_ref(struct rf_conv_fwd a, const num *x, const num *weight)
{
	const struct rf_conv_part c = a.part[0];
	size_t n = (size_t)a.nb * (size_t)a.steps * (size_t)c.d;
	num *y = room(n), *window = room((size_t)a.w);

	for (int row = 0; row < a.nb * a.steps; row++)
		for (int i = 0; i < c.d; i++) {
			for (int t = 0; t < a.w; t++)
				window[t] = x[(row + t * a.nb) * c.d + i];
			y[row * c.d + i] = activation(weight ? dot(a.w, window, 1, weight + i * a.w, 1)
			                                     : window[a.w - 1],
			                              c.act);
		}
	for (num *h = y; h < y + n; h += c.head) {
		num r = 0;
		if (c.norm == 1) {
			r = lin(1, dot(c.head, h, 1, h, 1), 0, 0, 1e-6);
			r = un(r, 1 / sqrt(val[r]), -0.5 / (val[r] * sqrt(val[r])));
		} else if (c.norm == 2)
			r = inverse(sum(c.head, h, 1));
		for (int i = 0; i < c.head; i++)
			h[i] = scaled(c.norm ? mul(h[i], r) : h[i], (double)c.scale);
	}
	return y;
}

static void conv(int nb, int steps, int d, int head, int w, enum rf_act act, enum rf_norm norm, bool weighted)
{
	/* clang-format off */
	struct rf_conv_fwd c = { .nb = nb, .steps = steps, .w = w, .parts = 1,
	                         .part = { { .d = d, .head = head, .act = act, .norm = norm,
	                                     .scale = 0.7f } } };
	/* clang-format on */
	size_t R = (size_t)nb * (size_t)steps, n = R * (size_t)d, nx = n + (size_t)((w - 1) * nb) * (size_t)d;

	snprintf(label, sizeof label, "nb %d steps %d d %d head %d w %d act %d norm %d weight %d", nb, steps,
	         d, head, w, act, norm, weighted);
	for (EACH_DEVICE) {
		/* x / sum x is tested on positive numbers, as it is used; among many short heads some would
		 * be almost 0, where x / |x| amplifies any rounding */
		float lo = norm == 2 || n / (size_t)head > 2000 ? 0.5f : -1;
		struct buf x = in(nx, lo, 1.5f), weight = in((size_t)(d * w), lo, 1), y = out(n),
			   dy = in(n, -1, 1);
		struct buf dx = out(nx), dweight = in((size_t)(d * w), -1, 1);

		c.x = x.m;
		c.part[0].weight = weighted ? weight.m : NULL;
		c.part[0].y = y.m;
		c.part[0].dy = dy.m;
		c.part[0].dweight = weighted ? dweight.m : NULL;
		dev->ops->conv_fwd(dev, &c);
		RF_RUN(dev, conv_bwd, .nb = nb, .steps = steps, .w = w, .parts = 1, .x = x.m, .dx = dx.m,
		       .part = { c.part[0] });
		num *X = NULL, *Wt = NULL, *Y = NULL;
		if (first) {
			X = nums(x), Wt = nums(weight);
			Y = conv_ref(c, X, weighted ? Wt : NULL);
			seed_back(Y, dy);
			back_propagate();
		}
		values("conv_fwd", y, first ? values_of(Y, n) : NULL, VALUE);
		values("conv_bwd dx", dx, first ? gradients(X, nx, NULL) : NULL, GRADIENT);
		values("conv_bwd dweight", dweight, first ? gradients(Wt, weight.n, dweight.h) : NULL,
		       GRADIENT);
	}
}

static void convs(void)
{
	static const int nbs[] = { 1, 3, 8 };

	for (int w = 1; w <= 4; w++)
		for (enum rf_act act = 0; act < 4; act++)
			for (enum rf_norm norm = 0; norm < 3; norm++) {
				conv(nbs[(w + (int)act) % 3], 7, 40, 8, w, act, norm, true);
				conv(1, 65, 34, 17, w, act, norm, w > 1);
				conv(3, 1, 32, 16, w, act, norm, true);
			}
	for (enum rf_act act = 0; act < 4; act++)
		for (enum rf_norm norm = 0; norm < 3; norm++) {
			conv(1, 3, 7, 1, 1, act, norm, false); /* no convolution */
			conv(8, 64, 14, 7, 1, act, norm, false);
		}
	conv(1, 300, 512, 128, 4, RF_ACT_SILU, 1, true);
	conv(1, 1, 1, 1, 4, RF_ACT_SILU, 1, true);
	conv(1, 40, 512, 256, 4, RF_ACT_ELU, 1, true);
	for (enum rf_norm norm = 0; norm < 3; norm++) {
		/* heads wider than a warp's registers */
		conv(2, 70, 600, 300, 4, RF_ACT_SILU, norm, true);
		conv(3, 2, 257, 257, 1, RF_ACT_SILU, norm, norm == 1);
		conv(1, 300, 70, 35, 9, RF_ACT_SILU, norm, true); /* long convolutions */
		conv(2, 90, 10, 5, 64, RF_ACT_SILU, norm, true);
		/* more sequences than parts of a sum */
		conv(601, 2, 16, 8, 4, RF_ACT_SILU, norm, true);
	}
}

/* Checks that rows with gaps give the same bits as rows without, and that numbers in the gaps do not
 * change. */
static void conv_gaps(int nb, int steps, int d, int w, int gap, bool weighted, enum rf_norm norm)
{
	size_t D = (size_t)d, ld = (size_t)(d + gap), rows_n = (size_t)((w - 1 + steps) * nb),
	       n = (size_t)(nb * steps) * D;

	snprintf(label, sizeof label, "nb %d steps %d d %d w %d gap %d weight %d norm %d", nb, steps, d, w,
	         gap, weighted, norm);
	for (EACH_DEVICE) {
		struct buf x = in(rows_n * D, 0.5f, 1.5f), wide = in(rows_n * ld, -1, 1),
			   weight = in((size_t)(d * w), 0.1f, 1);
		struct buf y[2] = { out(n), out(n) }, dy = in(n, -1, 1), dx = out(x.n),
			   dwide = in(wide.n, -1, 1);
		struct buf dw[2] = { in(weight.n, 0, 0), in(weight.n, 0, 0) };
		float *a, *b;
		bool same;

		for (size_t i = 0; i < rows_n; i++)
			memcpy(wide.h + i * ld, x.h + i * D, D * sizeof *x.h);
		dev->ops->upload(dev, wide.m, wide.h, wide.n * sizeof *wide.h);
		for (int i = 0; i < 2; i++) {
			/* clang-format off */
			const struct rf_conv_part part = { .d = d, .head = d / 2, .act = RF_ACT_SILU,
				.norm = norm, .scale = 0.5f, .weight = weighted ? weight.m : NULL,
				.y = y[i].m, .dy = dy.m, .dweight = weighted ? dw[i].m : NULL };
			/* clang-format on */

			RF_RUN(dev, conv_fwd, .nb = nb, .steps = steps, .ldx = i ? (int)ld : 0, .w = w,
			       .parts = 1, .x = i ? wide.m : x.m, .part = { part });
			RF_RUN(dev, conv_bwd, .nb = nb, .steps = steps, .ldx = i ? (int)ld : 0, .w = w,
			       .parts = 1, .x = i ? wide.m : x.m, .dx = i ? dwide.m : dx.m, .part = { part });
		}
		a = get(y[0]), b = get(y[1]);
		same = !memcmp(a, b, n * sizeof *a);
		free(a), free(b);
		a = get(dw[0]), b = get(dw[1]);
		same &= !memcmp(a, b, weight.n * sizeof *a);
		free(a), free(b);
		a = get(dx), b = get(dwide);
		for (size_t i = 0; i < rows_n; i++)
			same &= !memcmp(a + i * D, b + i * ld, D * sizeof *a) &&
			        !memcmp(b + i * ld + D, dwide.h + i * ld + D, (ld - D) * sizeof *b);
		free(a), free(b);
		judge("conv of rows that do not touch", !same, 0);
	}
}

/* Returns the largest difference of two arrays of equal length, divided by the largest number: 0 only if they
 * have the same bits, and infinity if a number is NaN. */
static double difference(struct buf x, struct buf y)
{
	float *a = get(x), *b = get(y);
	double diff = memcmp(a, b, x.n * sizeof *a) ? DBL_MIN : 0, most = 1e-2;

	for (size_t i = 0; i < x.n && diff > 0; i++) {
		const double d = fabs((double)a[i] - (double)b[i]);

		diff = d <= diff ? diff : d;
		most = fmax(most, fabs((double)b[i]));
	}
	free(a), free(b);
	return isnan(diff) ? INFINITY : diff / most;
}

/* Checks that adjacent parts give the same numbers as single parts, and the same bits except on a GPU. */
static void conv_side(int nb, int steps, int w, const struct rf_conv_part *part, int parts)
{
	size_t D = 0, rows_n = (size_t)((w - 1 + steps) * nb), R = (size_t)(nb * steps), at = 0;

	for (int i = 0; i < parts; i++)
		D += (size_t)part[i].d;
	snprintf(label, sizeof label, "nb %d steps %d w %d parts %d of %zu", nb, steps, w, parts, D);
	for (EACH_DEVICE) {
		struct buf x = in(rows_n * D, 0.5f, 1.5f), dx[2] = { out(x.n), out(x.n) };
		struct rf_conv_fwd a = { .nb = nb, .steps = steps, .w = w, .parts = parts, .x = x.m };
		struct rf_conv_bwd b = {
			.nb = nb, .steps = steps, .w = w, .parts = parts, .x = x.m, .dx = dx[0].m
		};
		struct buf y[2][RF_SIDE], dw[2][RF_SIDE];
		double differ = 0;

		at = 0;
		for (int i = 0; i < parts; i++) {
			struct buf dy = in(R * (size_t)part[i].d, -1, 1),
				   weight = in((size_t)(part[i].d * w), 0.1f, 1);

			a.part[i] = part[i];
			a.part[i].weight = weight.m;
			a.part[i].dy = dy.m;
			for (int k = 0; k < 2; k++) {
				struct rf_conv_part one = a.part[i];

				y[k][i] = out(dy.n);
				dw[k][i] = in(weight.n, 0, 0);
				one.y = y[k][i].m;
				one.dweight = dw[k][i].m;
				if (!k) {
					a.part[i] = one;
					continue;
				}
				RF_RUN(dev, conv_fwd, .nb = nb, .steps = steps, .ldx = (int)D, .w = w,
				       .parts = 1, .x = rf_at(x.m, at), .part = { one });
				RF_RUN(dev, conv_bwd, .nb = nb, .steps = steps, .ldx = (int)D, .w = w,
				       .parts = 1, .x = rf_at(x.m, at), .dx = rf_at(dx[1].m, at),
				       .part = { one });
			}
			at += (size_t)part[i].d;
		}
		memcpy(b.part, a.part, sizeof a.part);
		dev->ops->conv_fwd(dev, &a);
		dev->ops->conv_bwd(dev, &b);
		for (int i = 0; i < parts; i++) {
			differ = fmax(differ, difference(y[0][i], y[1][i]));
			differ = fmax(differ, difference(dw[0][i], dw[1][i]));
		}
		differ = fmax(differ, difference(dx[0], dx[1]));
		/* a GPU's compiler may contract the instances of a kernel in different ways */
		judge("convs side by side", differ, strcmp(dev->ops->name, "cuda") ? 0 : 1e-6);
	}
}

static void convs_side(void)
{
	const struct rf_conv_part
		q = { .d = 64, .head = 32, .act = RF_ACT_SILU, .norm = RF_NORM_L2, .scale = 0.3f },
		k = { .d = 32, .head = 16, .act = RF_ACT_ELU, .norm = RF_NORM_SUM, .scale = 1 },
		v = { .d = 200, .head = 100, .act = RF_ACT_SILU, .scale = 1 },
		wide = { .d = 600, .head = 300, .act = RF_ACT_SILU, .norm = RF_NORM_L2, .scale = 1 };

	conv_side(1, 70, 4, (struct rf_conv_part[]){ q, k, v }, 3);
	conv_side(3, 5, 4, (struct rf_conv_part[]){ v, q }, 2);
	conv_side(2, 40, 4, (struct rf_conv_part[]){ q, wide, v }, 3); /* one part has its own factors */
	conv_side(1, 40, 9, (struct rf_conv_part[]){ wide, wide, k }, 3);
}

/* ---- rotary embedding -------------------------------------------------------------------------- */

static void rope(int nb, int steps, int heads, int D, int from, bool with_past)
{
	size_t n = (size_t)(nb * steps * heads) * (size_t)D;

	snprintf(label, sizeof label, "nb %d steps %d heads %d D %d from %d past %d", nb, steps, heads, D,
	         from, with_past);
	for (EACH_DEVICE) {
		struct buf x = in(n, -1, 1),
			   y = of(memcpy(need(n + FENCE, sizeof(float)), x.h, n * sizeof(float)), n);
		double *ref = keep(n, sizeof *ref), *back = keep(n, sizeof *back);
		int32_t past[8];
		rf_i32 pasts;

		for (int b = 0; b < 8; b++)
			past[b] = with_past ? 1000 * b + b : 0;
		pasts = in_i32(past, 8);
		/* clang-format off */
		struct rf_rope r = { .nb = nb, .steps = steps, .heads = heads, .D = D, .from = from,
		                     .theta = 10000,
			.past_len = with_past ? pasts : NULL, .x = x.m, .y = x.m };
		/* clang-format on */
		dev->ops->rope(dev, &r);
		r.x = r.y = y.m;
		dev->ops->rope(dev, &r);
		r.inverse = true;
		dev->ops->rope(dev, &r);
		for (int row = 0; row < nb * steps; row++)
			for (int h = 0; h < heads; h++)
				for (int i = 0; i < D / 2; i++) {
					size_t at = ((size_t)row * (size_t)heads + (size_t)h) * (size_t)D +
					            (size_t)i,
					       pair = at + (size_t)D / 2;
					double turn =
						(past[row % nb] + from + row / nb) * pow(10000, -2.0 * i / D);
					ref[at] = x.h[at] * cos(turn) - x.h[pair] * sin(turn);
					ref[pair] = x.h[pair] * cos(turn) + x.h[at] * sin(turn);
				}
		for (size_t i = 0; i < n; i++)
			back[i] = x.h[i];
		values("rope", x, ref, VALUE);
		values("rope and back", y, back, GRADIENT);
	}
}

static void rope_gaps(int nb, int steps, int heads, int D, int rotary, int gx, int gy)
{
	int rows_n = nb * steps, ldx = heads * D + gx, ldy = heads * D + gy, half = rotary / 2;

	snprintf(label, sizeof label, "nb %d steps %d heads %d D %d rotary %d gaps %d %d", nb, steps, heads,
	         D, rotary, gx, gy);
	for (EACH_DEVICE) {
		struct buf x = in((size_t)(rows_n * ldx), -1, 1), y = in((size_t)(rows_n * ldy), -1, 1);
		double *want = keep(y.n, sizeof *want);
		static const int32_t past[] = { 5, 1000, 77, 0 };

		for (size_t i = 0; i < y.n; i++)
			want[i] = (double)y.h[i];
		for (int r = 0; r < rows_n; r++)
			for (int h = 0; h < heads; h++)
				for (int i = 0; i < D; i++) {
					const float *p = x.h + r * ldx + h * D;
					double turn =
						(past[r % nb] + 3 + r / nb) *
						pow(10000, -2.0 * (i % (half + !half)) / (rotary + !rotary));

					want[r * ldy + h * D + i] =
						i >= rotary ? (double)p[i]
						: i < half  ? (double)p[i] * cos(turn) -
								     (double)p[half + i] * sin(turn)
							   : (double)p[i] * cos(turn) +
								     (double)p[i - half] * sin(turn);
				}
		RF_RUN(dev, rope, .nb = nb, .steps = steps, .heads = heads, .D = D, .rotary = rotary,
		       .ldx = ldx, .ldy = ldy, .from = 3, .theta = 10000, .past_len = in_i32(past, 4),
		       .x = x.m, .y = y.m);
		values("rope of a part, rows that do not touch", y, want, VALUE);
	}
}

/* Checks that a NaN of any input shows in every output. */
static void nans(void)
{
	enum { R = 3, D = 24, HEAD = 8 };

	for (int which = 0; which < 2; which++)
		for (EACH_DEVICE) {
			struct buf x = in(R * D, -1, 1), w = in(R * D, -1, 1), y = in(R * D, 0, 0);
			float nan = NAN;

			dev->ops->upload(dev, which ? rf_at(w.m, 7) : rf_at(x.m, D + 7), &nan, sizeof nan);
			RF_RUN(dev, rmsnorm_fwd, .rows = R, .d = D, .eps = 1e-5f, .x = x.m, .w = w.m,
			       .y = y.m);
			keeps_nan("rmsnorm_fwd", y);
			RF_RUN(dev, swiglu_fwd, .n = R * D, .gate = x.m, .up = w.m, .y = y.m);
			keeps_nan("swiglu_fwd", y);
			RF_RUN(dev, swiglu_fwd, .n = R * D, .gate = w.m, .up = x.m, .y = y.m);
			keeps_nan("swiglu_fwd", y);
			for (enum rf_act act = 0; act < 4; act++)
				for (enum rf_norm norm = 0; norm < 3; norm++) {
					RF_RUN(dev, conv_fwd, .nb = 1, .steps = R, .w = 1, .parts = 1,
					       .x = which ? w.m : x.m,
					       /* clang-format off */
					       .part = { { .d = D, .head = HEAD, .act = act,
					                   .norm = norm, .scale = 1, .y = y.m } });
					/* clang-format on */
					keeps_nan("conv_fwd", y);
				}
		}
}

/* Checks rows without gaps. */
static void dense(void)
{
	static const size_t sizes[] = { 1, 7, 16, 17, 512, 4097, 100003 };

	for (int i = 0; i < COUNT(rows_of); i++)
		for (int j = 0; j < COUNT(widths); j++) {
			int r = rows_of[i], d = widths[j];
			colsum(r, d, 0);
			embed(r, d, vocabs[(i + j) % COUNT(vocabs)]);
			for (int f = 0; f < 8; f++)
				rows(r, d, 0, 0, f & 1, f & 2, f & 4);
			for (int f = 0; f < 4; f++)
				rmsnorm(r, d, 0, false, f & 1, f & 2);
		}
	/* arrays that begin anywhere, and rows wider than one access of a block */
	for (shift = 0; shift < 4; shift++) {
		colsum(1500 + (int)shift, 33, 0);
		embed(70, 600 + (int)shift, 40);
		for (int f = 0; f < 8; f++)
			rows(65, 40, 0, 0, f & 1, f & 2, f & 4);
		for (int f = 0; f < 4; f++) {
			rmsnorm(9, 40, 0, false, f & 1, f & 2);
			rmsnorm(5, 300, 0, false, f & 1, f & 2);
			rmsnorm(5, 2501 + (int)shift, 0, false, f & 1, f & 2);
		}
		swiglu(400, 0, 0, true);
		swiglu(400, 40, 4, true);
	}
	shift = 0;
	rmsnorm(33000, 1, 0, false, 1, true);
	for (int i = 0; i < COUNT(sizes); i++) {
		swiglu(sizes[i], 0, 0, false);
		swiglu(sizes[i], 0, 0, true);
		swiglu(sizes[i] * 5, 5, 5, true);
		swiglu(sizes[i] * 40, 40, 7, false);
	}
	convs();
	convs_side();
	for (int i = 0; i < 12; i++)
		rope((int[]){ 1, 3, 8 }[i % 3], (int[]){ 1, 3, 65, 130 }[i % 4], 1 + i % 2,
		     (int[]){ 2, 8, 34, 64, 128 }[i % 5], i % 2 * 50, i % 3);
	rope(1, 300, 4, 64, 100000, false);
	rope(1, 3, 9, 600, (1 << 20) - 3, false);
	rope(8, 130, 5, 66, 1000, true);
}

/* Checks rows with a gap between them. */
static void with_gaps(void)
{
	static const int heights[] = { 1, 63, 65, 130 }, columns[] = { 1, 7, 16, 40, 130 };

	for (int i = 0; i < COUNT(heights); i++)
		for (int j = 0; j < COUNT(columns); j++) {
			int n = heights[i], d = columns[j];

			gate(n, d, j % 2 * 3, i % 2);
			decay(n, j + 1, i % 2 ? 2 : 40);
			for (int k = 0; k < 3; k++)
				rmsnorm(n, d, (i + j + k) % 2 * 5, (i + k) % 2, k, (j + k) % 2);
			rmsnorm(n, d, 0, true, 2, true);
			rows(n, d, 3, i, j % 2, true, false);
			colsum(n, d, 4);
		}
	for (shift = 0; shift < 4; shift++) { /* arrays that begin anywhere */
		gate(9, 40, 4, true);
		for (int k = 0; k < 3; k++) {
			rmsnorm(9, 40, 4, true, k, true);
			rmsnorm(9, 300, 4, true, k, false);
		}
		rows(9, 40, 4, 8, true, true, false);
		rows(9, 40, 4, 2, true, true, false);
		rows(9, 40, 2, 4, false, true, false);
		tails(1, 1, 8, 3, 40, false);
		tails(7, 2, 3, 3, 600, false);
		rope_gaps(3, 9, 2, 16, 8, 4, 8);
	}
	shift = 0;
	tails(40, 40, 2, 3, 12, true);
	decay(3000, 35, 2);
	gate(2000, 1, 0, true);
	gate(2, 20000, 0, true);
	for (int w = 1; w <= 3; w++) {
		tails(1, 1, 8, w, 70, false);
		tails(1, 1, 1, w, 5, true);
		tails(4, 1, 2, w, 64, false);
		tails(7, 2, 3, w, 9, false);
	}
	decay(1100, 40, 2); /* more rows and heads than are summed together */
	for (int i = 0; i < 3; i++) {
		rope_gaps((int[]){ 1, 3, 4 }[i], 67, 2, 16, (int[]){ 2, 8, 16 }[i], i * 3, 5 - i);
		rope_gaps(1, 3, 3, 7, 4, i, 0);
	}
	for (int w = 1; w <= 4; w++)
		for (int norm = 0; norm < 3; norm++)
			conv_gaps((int[]){ 1, 3 }[w % 2], (int[]){ 1, 65, 9 }[norm], 34, w, 6, w > 1,
			          (enum rf_norm)norm);
}

int main(int argc, char *argv[])
{
	open_devices(argc, argv, RF_MATH_F32);
	exponentials();
	nans();
	dense();
	with_gaps();
	return finish();
}
