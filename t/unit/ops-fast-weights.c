/* ops-fast-weights -- the operations of fast weights against double precision.  Arguments: the devices,
 * instead of cpu with 1, 2, 3 threads and check. */
#include "unit/ops.h"

/* Returns a / (b + eps). */
static num over(num a, num b, double eps)
{
	double s = 1 / (val[b] + eps);
	num y = put(val[a] * s);

	depends(a, s);
	depends(b, -val[a] * s * s);
	return y;
}

static num length_of(int n, const num *x)
{
	num s = dot(n, x, 1, x, 1);

	return un(s, sqrt(val[s]), val[s] > 0 ? 0.5 / sqrt(val[s]) : 0);
}

static num silu_slope(num x)
{
	double s = 1 / (1 + exp(-val[x]));

	return un(x, s * (1 + val[x] * (1 - s)), s * (1 - s) * (2 + val[x] * (1 - 2 * s)));
}

/* ---- features ------------------------------------------------------------------------------ */

static num *feature_ref(struct rf_feature_fwd a, const num *x, const num *pairs)
{
	int d = a.H * a.D;
	num *y = room((size_t)(a.rows * d));

	for (int i = 0; i < a.rows * d; i++) {
		y[i] = pairs ? fused(pairs[2 * (i % d) + 1], x[i], pairs[2 * (i % d)]) : x[i];
		if (a.silu)
			y[i] = silu(y[i]);
	}
	for (int i = 0; a.unit && i < a.rows * a.H; i++) {
		num n = length_of(a.D, y + i * a.D);
		for (int j = 0; j < a.D; j++)
			y[i * a.D + j] = over(y[i * a.D + j], n, (double)a.eps);
	}
	return y;
}

static void feature(int rows, int H, int D, bool silu_too, bool unit, bool with_pairs)
{
	struct rf_feature_fwd f = {
		.rows = rows, .H = H, .D = D, .silu = silu_too, .unit = unit, .eps = 1e-5f
	};
	size_t n = (size_t)rows * (size_t)(H * D), d = (size_t)(H * D);

	snprintf(label, sizeof label, "rows %d H %d D %d silu %d unit %d pairs %d", rows, H, D, silu_too,
	         unit, with_pairs);
	for (EACH_DEVICE) {
		struct buf x = in(n, -2, 2), pairs = in(2 * d, -1, 2), y = out(n), dy = in(n, -1, 1),
			   dx = in(n, -1, 1), dpairs = in(2 * d, -1, 1);

		if (with_pairs) {
			f.scale = pairs.m;
			f.offset = rf_at(pairs.m, 1);
		}
		f.x = x.m;
		f.y = y.m;
		dev->ops->feature_fwd(dev, &f);
		RF_RUN(dev, feature_bwd, .rows = rows, .H = H, .D = D, .silu = silu_too, .unit = unit,
		       .eps = f.eps, .x = x.m, .scale = f.scale, .offset = f.offset, .dy = dy.m, .dx = dx.m,
		       .dscale = with_pairs ? dpairs.m : NULL,
		       .doffset = with_pairs ? rf_at(dpairs.m, 1) : NULL);
		num *X = NULL, *P = NULL, *Y = NULL;
		if (first) {
			X = nums(x), P = nums(pairs);
			Y = feature_ref(f, X, with_pairs ? P : NULL);
			seed_back(Y, dy);
			back_propagate();
		}
		values("feature_fwd", y, first ? values_of(Y, n) : NULL, VALUE);
		values("feature_bwd dx", dx, first ? gradients(X, n, dx.h) : NULL, GRADIENT);
		values("feature_bwd dscale, doffset", dpairs, first ? gradients(P, 2 * d, dpairs.h) : NULL,
		       GRADIENT);
	}
}

/* Checks that a head of zeros has the feature 0 and only the gradient dy / eps, since its length has no slope
 * there. */
static void feature_of_nothing(void)
{
	snprintf(label, sizeof label, "zeros");
	for (EACH_DEVICE) {
		struct buf x = in(5, 0, 0), y = out(5), dy = in(5, 1, 1), dx = in(5, 0, 0);
		const double none[5] = { 0 }, steep[5] = { 1e5, 1e5, 1e5, 1e5, 1e5 };

		RF_RUN(dev, feature_fwd, .rows = 1, .H = 1, .D = 5, .unit = true, .eps = 1e-5f, .x = x.m,
		       .y = y.m);
		RF_RUN(dev, feature_bwd, .rows = 1, .H = 1, .D = 5, .unit = true, .eps = 1e-5f, .x = x.m,
		       .dy = dy.m, .dx = dx.m);
		values("feature_fwd", y, none, VALUE);
		values("feature_bwd dx", dx, steep, GRADIENT);
	}
}

/* ---- rates --------------------------------------------------------------------------------- */

static void rates(int rows, int H, bool momentum)
{
	size_t n = (size_t)(rows * H);

	snprintf(label, sizeof label, "rows %d H %d m %d", rows, H, momentum);
	for (EACH_DEVICE) {
		struct buf lr = in(3 * n, -8, 40), m = in(n, -5, 5), dlr = in(3 * n, -1, 1),
			   dm = in(n, -1, 1);
		num *L = NULL, *M = NULL, *Y = NULL, *S = NULL;

		if (first) {
			L = nums(lr), M = nums(m), Y = room(3 * n), S = room(n);
			for (size_t i = 0; i < 3 * n; i++) {
				num z = lin(1, L[i], 0, 0, -6.9);
				Y[i] = un(z, val[z] > 0 ? val[z] + log1p(exp(-val[z])) : log1p(exp(val[z])),
				          1 / (1 + exp(-val[z])));
			}
			for (size_t i = 0; i < n; i++)
				S[i] = momentum ? sigmoid(M[i]) : M[i];
			seed_back(Y, dlr);
			seed_back(S, dm);
			back_propagate();
		}
		RF_RUN(dev, rates_fwd, .rows = rows, .H = H, .shift = -6.9f, .lr = lr.m,
		       .m = momentum ? m.m : NULL);
		RF_RUN(dev, rates_bwd, .rows = rows, .H = H, .lr = lr.m, .m = momentum ? m.m : NULL,
		       .dlr = dlr.m, .dm = momentum ? dm.m : NULL);
		values("rates_fwd lr", lr, first ? values_of(Y, 3 * n) : NULL, VALUE);
		values("rates_fwd m", m, first ? values_of(S, n) : NULL, VALUE);
		values("rates_bwd dlr", dlr, first ? gradients(L, 3 * n, NULL) : NULL, GRADIENT);
		values("rates_bwd dm", dm, first ? gradients(M, n, NULL) : NULL, GRADIENT);
	}
}

/* ---- the operands of an update ------------------------------------------------------------- */

/* Computes the forward operation's results over gu and e. */
static void learn_ref(int rows, int H, int E, int every, const num *gu, const num *e, const num *lr,
                      num *out_gu, num *out_e)
{
	for (int i = 0; i < rows * H; i++)
		for (int j = 0; j < E; j++) {
			const num *r = lr + 3 * (i / H * every * H + i % H);
			num g = gu[i * 2 * E + j], u = gu[i * 2 * E + E + j], v = e[i * E + j];

			out_gu[i * 2 * E + j] = mul(mul(mul(v, u), silu_slope(g)), r[0]);
			out_gu[i * 2 * E + E + j] = mul(mul(v, silu(g)), r[2]);
			out_e[i * E + j] = mul(mul(silu(g), u), r[1]);
		}
}

static void learn(int rows, int H, int E, int every, bool momentum)
{
	size_t n = (size_t)(rows * H * E), all = (size_t)(rows * every * H);

	snprintf(label, sizeof label, "rows %d H %d E %d every %d m %d", rows, H, E, every, momentum);
	for (EACH_DEVICE) {
		struct buf gu = in(2 * n, -3, 3), e = in(n, -2, 2), lr = in(3 * all, 0, 1),
			   dsum = in((size_t)H, -1, 1);
		struct buf gu2 = of(memcpy(need(gu.n + FENCE, 4), gu.h, gu.n * 4), gu.n),
			   e2 = of(memcpy(need(e.n + FENCE, 4), e.h, e.n * 4), e.n);
		struct buf dgu = in(2 * n, -1, 1), de = in(n, -1, 1), dlr = in(3 * all, 9, 9),
			   dm = in(all, 9, 9);
		num *G = NULL, *V = NULL, *L = NULL, *Yg = NULL, *Yv = NULL;
		double *want_lr = NULL, *want_m = NULL;

		RF_RUN(dev, learn_fwd, .rows = rows, .H = H, .E = E, .every = every, .gu = gu.m, .e = e.m,
		       .lr = lr.m);
		RF_RUN(dev, learn_bwd, .rows = rows, .H = H, .E = E, .every = every, .gu = gu2.m, .e = e2.m,
		       .lr = lr.m, .dgu = dgu.m, .de = de.m, .dlr = dlr.m, .dm = momentum ? dm.m : NULL,
		       .dsum = momentum ? dsum.m : NULL);
		if (first) {
			G = nums(gu), V = nums(e), L = nums(lr), Yg = room(2 * n), Yv = room(n);
			learn_ref(rows, H, E, every, G, V, L, Yg, Yv);
			seed_back(Yg, dgu);
			seed_back(Yv, de);
			back_propagate();
			want_lr = gradients(L, 3 * all, NULL);
			want_m = keep(all, sizeof *want_m);
			for (size_t i = 0; i < all; i++) { /* numbers between the rows do not change */
				bool ours = i / (size_t)H % (size_t)every == 0;
				want_m[i] = ours && momentum ? dsum.h[i % (size_t)H] : 9;
				for (int k = 0; k < 3; k++)
					want_lr[3 * i + (size_t)k] = ours ? want_lr[3 * i + (size_t)k] : 9;
			}
		}
		values("learn_fwd gu", gu, first ? values_of(Yg, 2 * n) : NULL, VALUE);
		values("learn_fwd e", e, first ? values_of(Yv, n) : NULL, VALUE);
		values("learn_bwd gu again", gu2, first ? values_of(Yg, 2 * n) : NULL, VALUE);
		values("learn_bwd e again", e2, first ? values_of(Yv, n) : NULL, VALUE);
		values("learn_bwd dgu", dgu, first ? gradients(G, 2 * n, NULL) : NULL, GRADIENT);
		values("learn_bwd de", de, first ? gradients(V, n, NULL) : NULL, GRADIENT);
		values("learn_bwd dlr", dlr, want_lr, GRADIENT);
		values("learn_bwd dm", dm, want_m, GRADIENT);
	}
}

/* ---- the update ---------------------------------------------------------------------------- */

static void momentum(int H, int n)
{
	size_t all = (size_t)H * (size_t)n;

	snprintf(label, sizeof label, "H %d n %d", H, n);
	for (EACH_DEVICE) {
		struct buf x = in(all, -1, 1), p = in(all, -1, 1), m = in((size_t)H, 0, 9), y = out(all),
			   dy = in(all, -1, 1);
		struct buf dp = in(all, -1, 1), dm = in((size_t)H, -1, 1);
		num *X = NULL, *P = NULL, *M = NULL, *Y = NULL;

		RF_RUN(dev, momentum_fwd, .H = H, .n = (size_t)n, .factor = 0.1f, .x = x.m, .p = p.m,
		       .m = m.m, .y = y.m);
		RF_RUN(dev, momentum_bwd, .H = H, .n = (size_t)n, .factor = 0.1f, .p = p.m, .m = m.m,
		       .dy = dy.m, .dp = dp.m, .dm = dm.m);
		if (first) {
			X = nums(x), P = nums(p), M = nums(m), Y = room(all);
			for (int i = 0; i < H * n; i++)
				Y[i] = fused(X[i], scaled(M[i / n], 0.1), P[i]);
			seed_back(Y, dy);
			back_propagate();
		}
		values("momentum_fwd", y, first ? values_of(Y, all) : NULL, VALUE);
		values("momentum_bwd dp", dp, first ? gradients(P, all, dp.h) : NULL, GRADIENT);
		values("momentum_bwd dm", dm, first ? gradients(M, (size_t)H, dm.h) : NULL, GRADIENT);
		/* y is p, as for consecutive chunks */
		RF_RUN(dev, momentum_fwd, .H = H, .n = (size_t)n, .factor = 0.1f, .x = x.m, .p = p.m,
		       .m = m.m, .y = p.m);
		values("momentum_fwd in place", p, first ? values_of(Y, all) : NULL, VALUE);
	}
}

static void lengths(int rows, int n, bool given)
{
	size_t all = (size_t)rows * (size_t)n, r = (size_t)rows;

	snprintf(label, sizeof label, "rows %d n %d length %d", rows, n, given);
	for (EACH_DEVICE) {
		struct buf x = in(all, -1, 1), l = in(r, 0.5f, 2), y = out(all), len = out(r),
			   dy = in(all, -1, 1), dlen = in(r, -1, 1);
		struct buf dx = in(all, -1, 1), dx2 = in(all, -1, 1), dl = in(r, -1, 1);
		num *X = NULL, *L = NULL, *Y = NULL, *N = NULL;
		double *back = NULL;

		RF_RUN(dev, renorm_fwd, .rows = rows, .n = (size_t)n, .eps = 1e-2f, .x = x.m,
		       .length = given ? l.m : NULL, .y = y.m);
		RF_RUN(dev, renorm_bwd, .rows = rows, .n = (size_t)n, .eps = 1e-2f, .x = x.m,
		       .length = given ? l.m : NULL, .dy = dy.m, .dx = dx.m, .dlength = given ? dl.m : NULL);
		RF_RUN(dev, length_fwd, .rows = rows, .n = (size_t)n, .x = x.m, .y = len.m);
		RF_RUN(dev, length_bwd, .rows = rows, .n = (size_t)n, .x = x.m, .y = len.m, .dy = dlen.m,
		       .dx = dx2.m);
		if (first) {
			X = nums(x), L = nums(l), Y = room(all), N = room(r);
			back = keep(all, sizeof *back);
			for (int i = 0; i < rows; i++) {
				N[i] = length_of(n, X + i * n);
				for (int j = 0; j < n; j++) {
					num z = over(X[i * n + j], N[i], (double)1e-2f);
					Y[i * n + j] = given ? mul(z, L[i]) : z;
					back[i * n + j] = dx2.h[i * n + j] +
					                  (double)dlen.h[i] * val[X[i * n + j]] / val[N[i]];
				}
			}
			seed_back(Y, dy);
			back_propagate();
		}
		values("renorm_fwd", y, first ? values_of(Y, all) : NULL, VALUE);
		values("renorm_bwd dx", dx, first ? gradients(X, all, dx.h) : NULL, GRADIENT);
		values("renorm_bwd dlength", dl, first ? gradients(L, r, dl.h) : NULL, GRADIENT);
		values("length_fwd", len, first ? values_of(N, r) : NULL, VALUE);
		values("length_bwd dx", dx2, back, GRADIENT);
	}
}

static void diagonal(int mats, int rows, int cols, int stride)
{
	size_t all = (size_t)(mats * stride);

	snprintf(label, sizeof label, "mats %d (%d, %d)", mats, rows, cols);
	for (EACH_DEVICE) {
		struct buf y = in(all, -1, 1);
		double *ref = keep(all, sizeof *ref);

		for (size_t i = 0; i < all; i++)
			ref[i] = y.h[i];
		for (int i = 0; i < mats; i++)
			for (int j = 0; j < rows && j < cols; j++)
				ref[i * stride + j * cols + j] += 0.5;
		RF_RUN(dev, diagonal, .mats = mats, .rows = rows, .cols = cols, .stride = (size_t)stride,
		       .value = 0.5f, .y = y.m);
		values("diagonal", y, ref, VALUE);
	}
}

/* ---- NaN ----------------------------------------------------------------------------------- */

static void nans(void)
{
	for (EACH_DEVICE) {
		struct buf bad = in(40, NAN, NAN), good = in(40, 1, 1), y = out(40), z = in(40, 1, 1),
			   e = in(20, 1, 1), lr = in(60, NAN, NAN);

		RF_RUN(dev, feature_fwd, .rows = 1, .H = 2, .D = 20, .silu = true, .unit = true, .eps = 1e-5f,
		       .x = bad.m, .y = y.m);
		keeps_nan("feature_fwd", y);
		RF_RUN(dev, renorm_fwd, .rows = 1, .n = 40, .eps = 1e-5f, .x = bad.m, .y = y.m);
		keeps_nan("renorm_fwd", y);
		RF_RUN(dev, momentum_fwd, .H = 1, .n = 40, .factor = 1, .x = good.m, .p = bad.m, .m = good.m,
		       .y = y.m);
		keeps_nan("momentum_fwd", y);
		RF_RUN(dev, rates_fwd, .rows = 20, .H = 1, .shift = 0, .lr = lr.m);
		keeps_nan("rates_fwd", lr);
		RF_RUN(dev, learn_fwd, .rows = 1, .H = 1, .E = 20, .every = 1, .gu = z.m, .e = e.m,
		       .lr = lr.m);
		keeps_nan("learn_fwd", z);
	}
}

int main(int argc, char *argv[])
{
	static const int columns[] = { 1, 5, 16, 40, 100 };

	open_devices(argc, argv, RF_MATH_F32);
	for (int i = 0; i < COUNT(columns); i++)
		for (int flags = 0; flags < 8; flags++)
			feature(flags % 3 * 64 + 3, 1 + i % 3, columns[i], flags & 1, flags & 2, flags & 4);
	for (shift = 0; shift < 4; shift++) { /* arrays that begin anywhere, and rows wider than one access of
	                                         a warp */
		for (int flags = 1; flags < 8; flags += 2)
			feature(9, 2, 40, flags & 1, flags & 2, flags & 4);
		feature(35, 2, 300 + (int)shift, true, true, true);
		learn(9, 2, 40, 1, true);
		learn(9, 1, 300 + (int)shift, 2, true);
		momentum(2, 400);
		momentum(2, 9000 + (int)shift);
		lengths(9, 40, true);
		lengths(2, 2000 + (int)shift, true);
		lengths(2, 9000 + (int)shift, true);
	}
	shift = 0;
	feature(2100, 1, 3, true, true, true);
	feature(35, 1, 800, true, true, true);
	feature(5, 2, 3100, false, true, true);
	feature_of_nothing();
	rates(1, 1, true);
	rates(130, 3, true);
	rates(65, 2, false);
	for (int i = 0; i < COUNT(columns); i++) {
		learn(1, 2, columns[i], 1, true);
		learn(35, 1 + i % 3, columns[i], 1 + i % 2 * 2, i % 2);
		momentum(1 + i % 3, columns[i]);
		lengths(1 + 30 * i, columns[i], i % 2);
	}
	momentum(2, 40000);
	lengths(3, 40000, false);
	lengths(2000, 24, true);
	diagonal(3, 4, 4, 16);
	diagonal(2, 300, 301, 300 * 301);
	diagonal(2, 3, 5, 20);
	diagonal(2, 5, 3, 15);
	nans();
	return finish();
}
