/* ops-args -- the operations that not all models use, and arguments of the others: gates, decays, norms of
 * other kinds, what stands before a sequence, products in a batch, rows that do not touch.  Arguments: the
 * devices, instead of cpu with 1, 2, 3 threads and check. */
#include "base/half.h"
#include "unit/ops.h"

/* ---- gates and decays ---------------------------------------------------------------------- */

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
			go_back();
			want = gradients(G, ng, NULL);
			for (size_t i = 0; i < ng; i++) /* what lies between is left alone */
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
				                  softplus(lin(1, a_[i], 1, dt_[i % heads], 0))), -1);
			seed_back(G, dg);
			go_back();
		}
		values("decay_fwd", g, first ? values_of(G, n) : NULL, VALUE);
		values("decay_bwd da", da, first ? gradients(a_, n, NULL) : NULL, GRADIENT);
		values("decay_bwd dA_log", dA, first ? gradients(A_, heads, dA.h) : NULL, GRADIENT);
		values("decay_bwd ddt_bias", ddt, first ? gradients(dt_, heads, ddt.h) : NULL, GRADIENT);
	}
}

/* ---- norms --------------------------------------------------------------------------------- */

/* gate: 0 none, 1 of y's shape, 2 one number per row */
static void rmsnorm(int rows, int d, int gap, bool plus_one, int gated, bool add)
{
	int ldx = d + gap;
	size_t n = (size_t)rows * (size_t)d, nx = (size_t)rows * (size_t)ldx,
	       ng = gated == 2 ? (size_t)rows : n;
	float eps = 1e-4f;

	snprintf(label, sizeof label, "rows %d d %d gap %d plus one %d gate %d add %d", rows, d, gap,
	         plus_one, gated, add);
	for (EACH_DEVICE) {
		struct buf x = in(nx, -1, 1), w = in((size_t)d, -0.5f, 0.5f), g = in(ng, -3, 3), y = out(n),
			   dy = in(n, -1, 1);
		struct buf dx = in(nx, -1, 1), dw = in((size_t)d, -1, 1), dg = out(ng);
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
					Y[i * d + j] = gated ? mul(z, silu(G[gated == 2 ? i : i * d + j]))
					                     : z;
				}
			}
			seed_back(Y, dy);
			go_back();
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

/* ---- rows ---------------------------------------------------------------------------------- */

static void rows(int n, int d, int lf, int lt, bool add)
{
	snprintf(label, sizeof label, "n %d d %d lf %d lt %d add %d", n, d, lf, lt, add);
	for (EACH_DEVICE) {
		struct buf from = in((size_t)(n * lf), -1, 1), to = in((size_t)(n * lt), -1, 1);
		double *want = keep(to.n, sizeof *want);
		int32_t *fi = keep((size_t)n, sizeof *fi);

		for (int i = 0; i < n; i++)
			fi[i] = (i * 7 + 3) % n;
		for (size_t i = 0; i < to.n; i++) {
			size_t r = i / (size_t)lt, c = i % (size_t)lt;
			want[i] = c >= (size_t)d ? (double)to.h[i]
			                         : (add ? (double)to.h[i] : 0) +
			                                   (double)from.h[(size_t)fi[r] * (size_t)lf + c];
		}
		RF_RUN(dev, rows, .n = n, .d = d, .lf = lf, .lt = lt, .add = add, .from = from.m, .to = to.m,
		       .fi = in_i32(fi, n));
		values("rows that do not touch", to, want, VALUE);
	}
}

static void colsum(int n, int d, int gap)
{
	snprintf(label, sizeof label, "rows %d d %d gap %d", n, d, gap);
	for (EACH_DEVICE) {
		struct buf x = in((size_t)(n * (d + gap)), -1, 1), y = in((size_t)d, -1, 1);
		double *want = keep(y.n, sizeof *want);

		for (int j = 0; j < d; j++) {
			want[j] = (double)y.h[j];
			for (int i = 0; i < n; i++)
				want[j] += (double)x.h[i * (d + gap) + j];
		}
		RF_RUN(dev, colsum, .rows = n, .d = d, .ldx = d + gap, .x = x.m, .y = y.m);
		values("colsum of rows that do not touch", y, want, VALUE);
	}
}

enum { SLOTS = 5 };

/* The w rows before each sequence come from slots and go to slots. */
static void tails(int nb, int per, int steps, int w, int d, bool one_slot)
{
	static const int32_t slot[] = { 3, 0, 4, 1 }, row[] = { 0, 2, 2, 6 };
	size_t D = (size_t)d, front = (size_t)(w * nb) * D;
	int keeps = 0;

	while (keeps < 4 && row[keeps] < steps)
		keeps++;
	snprintf(label, sizeof label, "nb %d per %d steps %d w %d d %d one slot %d", nb, per, steps, w,
	         d, one_slot);
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

/* ---- products ------------------------------------------------------------------------------ */

static bool bf16;

/* A number as products take it that round. */
static double operand(float x, bool rounded) { return rounded ? rf_bf16_f32(rf_f32_bf16(x)) : x; }

static void batch(int n_batch, int m, int n, int k, bool ta, bool tb, bool add, int gap, bool f32)
{
	bool rounded = bf16 && !f32;

	snprintf(label, sizeof label, "batch %d m %d n %d k %d ta %d tb %d add %d gap %d f32 %d", n_batch, m,
	         n, k, ta, tb, add, gap, f32);
	for (EACH_DEVICE) {
		struct rf_gemm g = { .m = m, .n = n, .k = k, .ta = ta, .tb = tb, .add = add, .f32 = f32,
		                     .lda = (ta ? m : k) + gap, .ldb = (tb ? k : n) + gap,
		                     .ldc = n + gap, .batch = n_batch };
		g.sa = (size_t)((ta ? k : m) * g.lda + gap);
		g.sb = (size_t)((tb ? n : k) * g.ldb);
		g.sc = (size_t)(m * g.ldc + 2 * gap);
		struct buf a = in(g.sa * (size_t)n_batch, -1, 1), b = in(g.sb * (size_t)n_batch, -1, 1),
			   c = in(g.sc * (size_t)n_batch, -1, 1);
		double *want = keep(c.n, sizeof *want);

		for (size_t i = 0; i < c.n; i++)
			want[i] = (double)c.h[i];
		for (int o = 0; o < n_batch; o++)
			for (int i = 0; i < m; i++)
				for (int j = 0; j < n; j++) {
					const float *A = a.h + (size_t)o * g.sa, *B = b.h + (size_t)o * g.sb;
					double *to = &want[(size_t)o * g.sc + (size_t)(i * g.ldc + j)];

					*to = add ? *to : 0;
					for (int l = 0; l < k; l++)
						*to += operand(A[ta ? l * g.lda + i : i * g.lda + l],
						               rounded) *
						       operand(B[tb ? j * g.ldb + l : l * g.ldb + j],
						               rounded);
				}
		g.a = a.m, g.b = b.m, g.c = c.m;
		dev->ops->gemm(dev, &g);
		values(rounded ? "gemm in a batch, in bf16"
		       : bf16  ? "gemm in a batch, float32 among bf16"
		               : "gemm in a batch",
		       c, want, limit_of_product(rounded));
	}
}

static void batches(bool f32)
{
	for (int flags = 0; flags < 8; flags++) {
		batch(3, 5, 7, 6, flags & 1, flags & 2, flags & 4, flags % 3, f32);
		batch(2, 65, 40, 130, flags & 1, flags & 2, flags & 4, 0, f32);
	}
	batch(2, 300, 270, 17, false, true, false, 1, f32);
}

static void bf16_batches(void)
{
	bf16 = true;
	batches(false);
	batches(true);
	bf16 = false;
}

/* ---- rotary embedding ---------------------------------------------------------------------- */

static void rope(int nb, int steps, int heads, int D, int rotary, int gx, int gy)
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
					double turn = (past[r % nb] + 3 + r / nb) *
					              pow(10000,
					                  -2.0 * (i % (half + !half)) / (rotary + !rotary));

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

/* ---- convolution --------------------------------------------------------------------------- */

/* Rows that do not touch give the same bits as those that do, and what lies between is left alone. */
static void conv(int nb, int steps, int d, int w, int gap, bool weighted, enum rf_norm norm)
{
	size_t D = (size_t)d, ld = (size_t)(d + gap), rows_n = (size_t)((w - 1 + steps) * nb),
	       n = (size_t)(nb * steps) * D;

	snprintf(label, sizeof label, "nb %d steps %d d %d w %d gap %d weight %d norm %d", nb, steps, d, w,
	         gap, weighted, norm);
	for (EACH_DEVICE) {
		struct buf x = in(rows_n * D, 0.5f, 1.5f), wide = in(rows_n * ld, -1, 1),
			   weight = in((size_t)(d * w), 0.1f, 1);
		struct buf y[2] = { out(n),
		                    out(n) }, dy = in(n, -1, 1), dx = out(x.n), dwide = in(wide.n, -1, 1);
		struct buf dw[2] = { in(weight.n, 0, 0), in(weight.n, 0, 0) };
		float *a, *b;
		bool same;

		for (size_t i = 0; i < rows_n; i++)
			memcpy(wide.h + i * ld, x.h + i * D, D * sizeof *x.h);
		dev->ops->upload(dev, wide.m, wide.h, wide.n * sizeof *wide.h);
		for (int i = 0; i < 2; i++) {
			RF_RUN(dev, conv_fwd, .nb = nb, .steps = steps, .d = d, .ldx = i ? (int)ld : 0,
			       .w = w, .head = d / 2, .act = RF_ACT_SILU, .norm = norm, .scale = 0.5f,
			       .x = i ? wide.m : x.m, .weight = weighted ? weight.m : NULL, .y = y[i].m);
			RF_RUN(dev, conv_bwd, .nb = nb, .steps = steps, .d = d, .ldx = i ? (int)ld : 0,
			       .w = w, .head = d / 2, .act = RF_ACT_SILU, .norm = norm, .scale = 0.5f,
			       .x = i ? wide.m : x.m, .weight = weighted ? weight.m : NULL, .dy = dy.m,
			       .dx = i ? dwide.m : dx.m, .dweight = weighted ? dw[i].m : NULL);
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

int main(int argc, char *argv[])
{
	static const int heights[] = { 1, 63, 65, 130 }, widths[] = { 1, 7, 16, 40, 130 };

	in_bf16(argc, argv, bf16_batches);
	open_devices(argc, argv, RF_MATH_F32);
	for (int i = 0; i < COUNT(heights); i++)
		for (int j = 0; j < COUNT(widths); j++) {
			int n = heights[i], d = widths[j];

			gate(n, d, j % 2 * 3, i % 2);
			decay(n, j + 1, i % 2 ? 2 : 40);
			for (int k = 0; k < 3; k++)
				rmsnorm(n, d, (i + j + k) % 2 * 5, (i + k) % 2, k, (j + k) % 2);
			rmsnorm(n, d, 0, true, 2, true);
			rows(n, d, d + 3, d + i, j % 2);
			colsum(n, d, 4);
		}
	for (shift = 0; shift < 4; shift++) { /* from any place on */
		gate(9, 40, 4, true);
		for (int k = 0; k < 3; k++) {
			rmsnorm(9, 40, 4, true, k, true);
			rmsnorm(9, 300, 4, true, k, false);
		}
		rows(9, 40, 44, 48, true);
		rows(9, 40, 44, 42, true);
		rows(9, 40, 42, 44, false);
		tails(1, 1, 8, 3, 40, false);
		tails(7, 2, 3, 3, 600, false);
		rope(3, 9, 2, 16, 8, 4, 8);
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
	decay(1100, 40, 2); /* more rows and heads than are summed at once */
	batches(false);
	for (int i = 0; i < 3; i++) {
		rope((int[]){ 1, 3, 4 }[i], 67, 2, 16, (int[]){ 2, 8, 16 }[i], i * 3, 5 - i);
		rope(1, 3, 3, 7, 4, i, 0);
	}
	for (int w = 1; w <= 4; w++)
		for (int norm = 0; norm < 3; norm++)
			conv((int[]){ 1, 3 }[w % 2], (int[]){ 1, 65, 9 }[norm], 34, w, 6, w > 1,
			     (enum rf_norm)norm);
	return finish();
}
