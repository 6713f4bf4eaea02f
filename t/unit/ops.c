/* ops -- every operation of the table but the mixers', against double precision: products, rows,
 * elementwise, the head, the optimizer; and vec.h's exp.  Arguments: the devices, instead of cpu with 1, 2, 3
 * threads and check. */
#pragma GCC diagnostic ignored "-Wpsabi"
#include "base/half.h"
#include "unit/ops.h"
#include "vec.h"

static const int rows_of[] = { 1, 3, 64, 65, 300 }, widths[] = { 1, 7, 16, 17, 40, 512 },
		 vocabs[] = { 40, 384, 1000 };

static void full_table(void)
{
	static const struct { const char *name; size_t at; } entry[] = {
#define X(op) { #op, offsetof(struct rf_ops, op) },
		X(open) X(close) X(alloc) X(release) X(upload) X(download) X(zero) X(sync)
		RF_OPS(X)
#undef X
	};

	for (int i = 0; i < devices; i++)
		for (int j = 0; j < COUNT(entry); j++) {
			void *p;
			memcpy(&p, (const char *)device[i].d.ops + entry[j].at, sizeof p);
			snprintf(label, sizeof label, "%s: entry %s", device[i].title, entry[j].name);
			judge("the table is full", p ? 0 : 1, 0);
		}
}

/* Compares without any device. */
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

/* ---- products ------------------------------------------------------------------------------ */

static bool bf16;

/* A number as products take it; once it was rounded, the product is as exact as of others. */
static double operand(float x) { return bf16 ? rf_bf16_f32(rf_f32_bf16(x)) : x; }

static double *gemm_ref(struct rf_gemm g, struct buf a, struct buf b, struct buf c, struct buf bias)
{
	double *ref = keep(c.n, sizeof *ref);

	for (size_t i = 0; i < c.n; i++)
		ref[i] = c.h[i];
	for (int i = 0; i < g.m; i++)
		for (int j = 0; j < g.n; j++) {
			double s = g.add ? c.h[i * g.ldc + j] : 0;
			for (int l = 0; l < g.k; l++)
				s += operand(a.h[g.ta ? l * g.lda + i : i * g.lda + l]) *
				     operand(b.h[g.tb ? j * g.ldb + l : l * g.ldb + j]);
			ref[i * g.ldc + j] = s + (bias.n ? bias.h[j] : 0);
		}
	return ref;
}

/* What lies between the rows of C stays: it is finite, and compared. */
static void gemm(int m, int n, int k, bool ta, bool tb, bool add, bool with_bias, bool weight, int gap)
{
	snprintf(label, sizeof label, "m %d n %d k %d ta %d tb %d add %d bias %d weight %d gap %d", m, n, k,
	         ta, tb, add, with_bias, weight, gap);
	for (EACH_DEVICE) {
		struct rf_gemm g = { .m = m, .n = n, .k = k, .ta = ta, .tb = tb, .add = add, .weight = weight,
			.lda = (ta ? m : k) + gap, .ldb = (tb ? k : n) + 2 * gap, .ldc = n + gap };
		struct buf a = in((size_t)(ta ? k : m) * (size_t)g.lda, -1, 1);
		struct buf b = in((size_t)(tb ? n : k) * (size_t)g.ldb, -1, 1);
		struct buf c = in((size_t)m * (size_t)g.ldc, -1, 1), bias = { 0, NULL, NULL };

		if (with_bias)
			bias = in((size_t)n, -1, 1);
		g.a = a.m;
		g.b = b.m;
		g.c = c.m;
		g.bias = bias.m;
		dev->ops->gemm(dev, &g);
		values(bf16 ? "gemm in bf16" : "gemm", c, first ? gemm_ref(g, a, b, c, bias) : NULL,
		       limit_of_product(bf16));
	}
}

static void gemms(void)
{
	int flags = 0;

	for (int i = 0; i < COUNT(rows_of); i++)
		for (int j = 0; j < COUNT(widths); j++)
			for (int l = 0; l < COUNT(widths); l++, flags += 11)
				gemm(rows_of[i], widths[j], widths[l], flags & 1, flags & 2, flags & 4,
				     flags & 8, flags & 16, flags & 32 ? 3 : 0);
	for (flags = 0; flags < 64; flags++)
		gemm(65, 40, 17, flags & 1, flags & 2, flags & 4, flags & 8, flags & 16, flags & 32 ? 3 : 0);
	gemm(1000, 384, 300, false, true, false, true, true, 0);
	/* operands that are copied before they are multiplied, part by part */
	gemm(520, 800, 16, false, true, true, true, true, 496);
	gemm(520, 800, 16, false, false, false, false, true, 496);
	gemm(4200, 300, 20, true, false, true, false, false, 0);
	gemm(70, 20, 4100, false, true, true, false, true, 2); /* more than is widened of a weight at once */
	gemm(70, 20, 4100, false, false, false, false, true, 0);
	/* rows a power of two apart, of which parts are copied */
	gemm(70, 512, 2100, false, false, true, false, true, 0);
}

/* A weight that changed is a new weight, however it changed. */
static void weights(void)
{
	enum { M = 65, N = 48, K = 40 };

	const char *name = bf16 ? "gemm by a weight that changed, in bf16" : "gemm by a weight that changed";

	for (int how = 0; how < 4; how++) {
		static const char *const ways[] = { "upload", "upload of a part", "adamw", "release, alloc" };
		snprintf(label, sizeof label, "weight, then %s", ways[how]);
		for (EACH_DEVICE) {
			struct buf a = in(M * K, -1, 1), w = in(N * K, -1, 1), other = in(N * K, -1, 1),
				   c = out(M * N);
			struct buf m = in(N * K, 0, 0), v = in(N * K, 0, 0), none = { 0, NULL, NULL };
			struct rf_gemm g = { .m = M, .n = N, .k = K, .tb = true, .weight = true, .a = a.m,
			                     .b = w.m, .c = c.m,
				.lda = K, .ldb = K, .ldc = N };

			dev->ops->gemm(dev, &g);
			if (how == 0)
				dev->ops->upload(dev, w.m, other.h, N * K * sizeof(float));
			if (how == 1)
				dev->ops->upload(dev, rf_at(w.m, 7 * K), other.h + 7 * K, K * sizeof(float));
			if (how == 2)
				RF_RUN(dev, adamw, .n = N * K, .scale = 1, .lr = 0.5, .b1 = 0.9, .b2 = 0.9,
				       .eps = 1e-8, .c1 = 0.1, .c2 = 0.1, .w = w.m, .m = m.m, .v = v.m,
				       .g = other.m);
			if (how == 3) {
				dev->ops->release(dev, w.m);
				w.m = dev->ops->alloc(dev, (N * K + FENCE) * sizeof(float));
				dev->ops->upload(dev, w.m, other.h, (N * K + FENCE) * sizeof(float));
				g.b = bufs[1].m = w.m;
			}
			dev->ops->gemm(dev, &g);
			struct buf now = { w.n, get(w), NULL };
			values(name, c, first ? gemm_ref(g, a, now, c, none) : NULL, limit_of_product(bf16));
			free(now.h);
		}
	}
}

/* An operand in bf16 is the number next to it, of two the even one: exactly what a product with 1 leaves. */
static void rounds(bool weight)
{
	enum { M = 33, K = 40 };

	snprintf(label, sizeof label, "weight %d", weight);
	for (EACH_DEVICE) {
		struct buf a = in(M * K, -1, 1), one = in(K * K, 0, 0), c = out(M * K);
		double *ref = keep(c.n, sizeof *ref);

		for (int i = 0; i < M * K; i++) {
			if (i % 3 == 0) /* in the middle between two */
				a.h[i] = rf_bits_f32((rf_f32_bits(a.h[i]) & 0xffff0000) | 0x8000);
			ref[i] = rf_bf16_f32(rf_f32_bf16(a.h[i]));
		}
		for (int i = 0; i < K; i++)
			one.h[i * K + i] = 1;
		dev->ops->upload(dev, a.m, a.h, sizeof *a.h * M * K);
		dev->ops->upload(dev, one.m, one.h, sizeof *one.h * K * K);
		RF_RUN(dev, gemm, .m = M, .n = K, .k = K, .weight = weight, .a = a.m, .lda = K, .b = one.m,
		       .ldb = K, .c = c.m, .ldc = K);
		values("gemm rounds to the nearest bf16", c, ref, 0);
	}
}

static void colsum(int rows, int d)
{
	snprintf(label, sizeof label, "rows %d d %d", rows, d);
	for (EACH_DEVICE) {
		struct buf x = in((size_t)rows * (size_t)d, -1, 1), y = in((size_t)d, -1, 1);
		double *ref = keep((size_t)d, sizeof *ref);

		RF_RUN(dev, colsum, .rows = rows, .d = d, .x = x.m, .y = y.m);
		for (int i = 0; i < d; i++) {
			ref[i] = y.h[i];
			for (int j = 0; j < rows; j++)
				ref[i] += x.h[j * d + i];
		}
		values("colsum", y, ref, VALUE);
	}
}

/* ---- rows ---------------------------------------------------------------------------------- */

static rf_i32 some_indices(int32_t *x, int n, int below)
{
	for (int i = 0; i < n; i++)
		x[i] = (int32_t)uniform(0, (float)below);
	return in_i32(x, n);
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

static void rows(int n, int d, bool add, bool from_index, bool to_index)
{
	int many = n + 5;

	snprintf(label, sizeof label, "n %d d %d add %d fi %d ti %d", n, d, add, from_index, to_index);
	for (EACH_DEVICE) {
		struct buf from = in((size_t)many * (size_t)d, -1, 1),
			   to = in((size_t)many * (size_t)d, -1, 1);
		int32_t *fi = keep((size_t)n, sizeof *fi), *ti = keep((size_t)n, sizeof *ti);
		rf_i32 from_i = some_indices(fi, n, many), to_i;
		double *ref = keep(to.n, sizeof *ref);

		for (int i = 0; i < n; i++)     /* with add some come again, without none does */
			ti[i] = add ? i / 3 : many - 1 - i;
		to_i = in_i32(ti, n);
		for (size_t i = 0; i < to.n; i++)
			ref[i] = to.h[i];
		for (int i = 0; i < n; i++)
			for (int j = 0; j < d; j++) {
				double *t = &ref[(to_index ? ti[i] : i) * d + j];
				*t = (add ? *t : 0) + from.h[(from_index ? fi[i] : i) * d + j];
			}
		RF_RUN(dev, rows, .n = n, .d = d, .add = add, .from = from.m, .to = to.m,
		       .fi = from_index ? from_i : NULL, .ti = to_index ? to_i : NULL);
		values("rows", to, ref, VALUE);
	}
}

/* ---- elementwise --------------------------------------------------------------------------- */

static void rmsnorm(int nrows, int d, bool gated, bool add)
{
	size_t n = (size_t)nrows * (size_t)d;
	float eps = 1e-5f;

	snprintf(label, sizeof label, "rows %d d %d gate %d add %d", nrows, d, gated, add);
	for (EACH_DEVICE) {
		struct buf x = in(n, -1, 1), w = in((size_t)d, 0.5f, 1.5f), gate = in(n, -3, 3), y = out(n),
			   dy = in(n, -1, 1);
		struct buf dx = add ? in(n, -1, 1) : out(n), dw = in((size_t)d, -1, 1), dgate = out(n);

		RF_RUN(dev, rmsnorm_fwd, .rows = nrows, .d = d, .eps = eps, .x = x.m, .w = w.m,
		       .gate = gated ? gate.m : NULL, .y = y.m);
		RF_RUN(dev, rmsnorm_bwd, .rows = nrows, .d = d, .eps = eps, .add = add, .x = x.m, .w = w.m,
		       .gate = gated ? gate.m : NULL, .dy = dy.m, .dx = dx.m, .dw = dw.m,
		       .dgate = gated ? dgate.m : NULL);
		num *X = NULL, *Wt = NULL, *Gt = NULL, *Y = NULL;
		if (first) {
			X = nums(x), Wt = nums(w), Gt = nums(gate), Y = room(n);
			for (int i = 0; i < nrows; i++) {
				double mean;
				num r = scaled(dot(d, X + i * d, 1, X + i * d, 1), 1. / d);
				mean = val[r] + (double)eps;
				r = un(r, 1 / sqrt(mean), -0.5 / (mean * sqrt(mean)));
				for (int j = 0; j < d; j++) {
					num z = mul(mul(X[i * d + j], r), Wt[j]);
					Y[i * d + j] = gated ? mul(z, silu(Gt[i * d + j])) : z;
				}
			}
			seed_back(Y, dy);
			go_back();
		}
		values("rmsnorm_fwd", y, first ? values_of(Y, n) : NULL, VALUE);
		values("rmsnorm_bwd dx", dx, first ? gradients(X, n, add ? dx.h : NULL) : NULL, GRADIENT);
		values("rmsnorm_bwd dw", dw, first ? gradients(Wt, (size_t)d, dw.h) : NULL, GRADIENT);
		if (gated)
			values("rmsnorm_bwd dgate", dgate, first ? gradients(Gt, n, NULL) : NULL, GRADIENT);
	}
}

/* d, gap: gate and up in rows of d numbers, so many beside them; 0: all lie together */
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
			go_back();
			dG = gradients(G, all, NULL), dU = gradients(U, all, NULL);
			for (size_t i = 0; i < all; i++)
				if (i % ld >= row)
					dG[i] = dU[i] = 9; /* left alone */
		}
		values("swiglu_fwd", y, first ? values_of(Y, n) : NULL, VALUE);
		values("swiglu_bwd dgate", dgate, dG, GRADIENT);
		values("swiglu_bwd dup", dup, dU, GRADIENT);
		if (again)
			values("swiglu_bwd y", y2, first ? values_of(Y, n) : NULL, VALUE);
	}
}

/* ---- the head ------------------------------------------------------------------------------ */

/* log sum_j e^{z_j t} over n numbers. */
static double log_sum(const double *z, int n, double t)
{
	double top = z[0], s = 0;

	for (int i = 1; i < n; i++)
		top = z[i] > top ? z[i] : top;
	for (int i = 0; i < n; i++)
		s += exp((z[i] - top) * t);
	return top * t + log(s);
}

static void head(int nrows, int d, int N, float inv_temp)
{
	const char *const entropy_name = bf16 ? "head_fwd entropy in bf16" : "head_fwd entropy";
	const char *const logp_name = bf16 ? "head_fwd logp in bf16" : "head_fwd logp";
	const char *const top_name = bf16 ? "head_fwd top in bf16" : "head_fwd top";
	size_t n = (size_t)nrows;

	snprintf(label, sizeof label, "rows %d d %d N %d inv_temp %g", nrows, d, N, (double)inv_temp);
	for (EACH_DEVICE) {
		float width = 4 / sqrtf((float)d);
		struct buf h = in(n * (size_t)d, -width, width), w = in((size_t)N * (size_t)d, -1, 1);
		struct buf entropy = out(n), logp = out(n);
		int32_t *target = keep(n, sizeof *target), *top = keep(n, sizeof *top);
		double *z = keep((size_t)N, sizeof *z), *ent = keep(n, sizeof *ent),
		       *lp = keep(n, sizeof *lp);
		rf_i32 targets, tops;

		for (int i = 0; i < nrows; i++)
			target[i] = i % 5 == 4 ? -1 : (int32_t)uniform(0, (float)N);
		targets = in_i32(target, nrows);
		tops = in_i32(top, nrows);
		RF_RUN(dev, head_fwd, .rows = nrows, .d = d, .N = N, .inv_temp = inv_temp, .h = h.m, .w = w.m,
		       .target = targets, .entropy = entropy.m, .logp = logp.m, .top = tops);
		dev->ops->download(dev, top, tops, n * sizeof *top);
		for (int i = 0; first && i < nrows; i++) {
			double most = -INFINITY, ls, mean = 0;
			for (int j = 0; j < N; j++) {
				z[j] = 0;
				for (int l = 0; l < d; l++)
					z[j] += operand(h.h[i * d + l]) * operand(w.h[j * d + l]);
				most = z[j] > most ? z[j] : most;
			}
			ls = log_sum(z, N, inv_temp);
			for (int j = 0; j < N; j++)
				mean += exp(z[j] * inv_temp - ls) * z[j] * inv_temp;
			ent[i] = ls - mean;
			lp[i] = target[i] < 0 ? 0 : z[target[i]] * inv_temp - ls;
			judge(top_name,
			      top[i] < 0 || top[i] >= N ? INFINITY : (most - z[top[i]]) / fmax(fabs(most), 1),
			      limit_of_product(bf16));
		}
		values(entropy_name, entropy, ent, limit_of_product(bf16));
		values(logp_name, logp, lp, limit_of_product(bf16));
		int32_t *copy = need(n, sizeof *copy);
		memcpy(copy, top, n * sizeof *copy);
		same_bits(top_name, copy, n * sizeof *copy);

		/* each output may be absent, and the others are what they were */
		struct buf only = out(n);
		RF_RUN(dev, head_fwd, .rows = nrows, .d = d, .N = N, .inv_temp = inv_temp, .h = h.m, .w = w.m,
		       .entropy = only.m);
		values(entropy_name, only, ent, limit_of_product(bf16));
		only = out(n);
		RF_RUN(dev, head_fwd, .rows = nrows, .d = d, .N = N, .inv_temp = inv_temp, .h = h.m, .w = w.m,
		       .target = targets, .logp = only.m);
		values(logp_name, only, lp, limit_of_product(bf16));
	}
}

static void heads(void)
{
	for (int i = 0; i < COUNT(rows_of); i++)
		for (int j = 0; j < COUNT(widths); j++)
			head(rows_of[i], widths[j], vocabs[(i + j) % COUNT(vocabs)], (i + j) & 1 ? 0.7f : 1);
	head(2, 5, 40000, 1);
	head(2100, 3, 300, 0.8f); /* more rows, and more logits, than are held at once */
	head(2000, 2, 4500, 1);
}

/* Small whole numbers, so that equal logits are equal: the lowest of them is the arg max. */
static void head_ties(int R, int D, int N)
{
	const size_t n = (size_t)R;

	snprintf(label, sizeof label, "ties: rows %d d %d N %d", R, D, N);
	for (EACH_DEVICE) {
		struct buf h = in(n * (size_t)D, -2, 2), w = in((size_t)(N * D), -1, 1), logp = out(n);
		int32_t *top = keep(n, sizeof *top), *target = keep(n, sizeof *target);
		rf_i32 tops = in_i32(top, R), targets;

		for (int i = 0; i < R * D; i++)
			h.h[i] = roundf(h.h[i]);
		for (int i = 0; i < N * D; i++)
			w.h[i] = roundf(w.h[i % (N / 7 * D)]);   /* every row seven times */
		for (int i = 0; i < R; i++)
			target[i] = i;
		targets = in_i32(target, R);
		dev->ops->upload(dev, h.m, h.h, h.n * sizeof(float));
		dev->ops->upload(dev, w.m, w.h, w.n * sizeof(float));
		RF_RUN(dev, head_fwd, .rows = R, .d = D, .N = N, .inv_temp = 1, .h = h.m, .w = w.m,
		       .target = targets, .logp = logp.m, .top = tops);
		dev->ops->download(dev, top, tops, n * sizeof *top);
		for (int i = 0; i < R; i++) {
			int best = 0;
			float most = -INFINITY;
			for (int j = 0; j < N; j++) {
				float z = 0;
				for (int l = 0; l < D; l++)
					z += h.h[i * D + l] * w.h[j * D + l];
				if (z > most)
					best = j, most = z;
			}
			judge("head_fwd top: the lowest of equals", top[i] != best, 0);
		}
	}
}

static void ce_grad(int nrows, int N, float inv_temp, bool with_logp)
{
	size_t n = (size_t)nrows * (size_t)N;

	snprintf(label, sizeof label, "rows %d N %d inv_temp %g logp %d", nrows, N,
	         (double)inv_temp, with_logp);
	for (EACH_DEVICE) {
		struct buf z = in(n, -5, 5), coef = in((size_t)nrows, -1, 1), logp = out((size_t)nrows);
		int32_t *target = keep((size_t)nrows, sizeof *target);
		rf_i32 targets = some_indices(target, nrows, N);

		for (int i = 0; i < nrows; i += 4)
			coef.h[i] = 0;
		dev->ops->upload(dev, coef.m, coef.h, (size_t)nrows * sizeof(float));
		RF_RUN(dev, ce_grad, .rows = nrows, .N = N, .inv_temp = inv_temp, .z = z.m, .target = targets,
		       .coef = coef.m, .logp = with_logp ? logp.m : NULL);
		num *Z = NULL, *L = NULL;
		double *dz = NULL;
		if (first) {
			Z = nums(z), L = room((size_t)nrows);
			num *e = room((size_t)N);
			for (int i = 0; i < nrows; i++) {
				for (int j = 0; j < N; j++)
					e[j] = exponential(scaled(Z[i * N + j], inv_temp));
				L[i] = lin(inv_temp, Z[i * N + target[i]], -1, logarithm(sum(N, e, 1)), 0);
			}
			for (int i = 0; i < nrows; i++)
				coef.h[i] = -coef.h[i];
			seed_back(L, coef);
			go_back();
			dz = gradients(Z, n, NULL);
		}
		values("ce_grad z", z, dz, GRADIENT);
		if (with_logp)
			values("ce_grad logp", logp, first ? values_of(L, (size_t)nrows) : NULL, VALUE);
		if (first) {
			float *h = get(z);
			for (int j = 0; j < N; j++)
				judge("ce_grad: coef 0 gives zeros", h[j] != 0, 0);
			free(h);
		}
	}
}

/* A row that is not wanted does not matter, whatever is in it. */
static void ce_grad_unwanted(void)
{
	enum { N = 1100 };

	snprintf(label, sizeof label, "a NaN in a row of coef 0");
	for (EACH_DEVICE) {
		struct buf z = in(N, -1, 1), coef = in(1, 0, 0);
		const float nan = NAN;
		const int32_t target = 2;
		double *zeros = keep(N, sizeof *zeros);

		dev->ops->upload(dev, rf_at(z.m, 1050), &nan, sizeof nan);
		RF_RUN(dev, ce_grad, .rows = 1, .N = N, .inv_temp = 1, .z = z.m, .target = in_i32(&target, 1),
		       .coef = coef.m);
		values("ce_grad: coef 0 gives zeros", z, zeros, 0);
	}
}

/* ---- sampling ------------------------------------------------------------------------------ */

struct likely { double z; int id; };
static int more_likely(const void *a, const void *b)
{
	const struct likely *x = a, *y = b;

	return x->z != y->z ? (x->z < y->z ? 1 : -1) : x->id - y->id;
}

/* p (N): what may be drawn, 0 elsewhere; their sum is returned. */
static double allowed(const double *z, int N, double inv_temp, int top_k, double top_p, const int32_t *banned,
                      int bans, double *p)
{
	struct likely *order = need((size_t)N, sizeof *order);
	double ls = log_sum(z, N, inv_temp), sum_k = 0, total = 0;
	int n = 0;

	for (int j = 0; j < N; j++) {
		bool out = false;
		for (int i = 0; i < bans; i++)
			out |= banned[i] == j;
		if (!out)
			order[n++] = (struct likely){ z[j], j };
		p[j] = 0;
	}
	qsort(order, (size_t)n, sizeof *order, more_likely);
	n = top_k && top_k < n ? top_k : n;
	for (int i = 0; i < n; i++)
		sum_k += exp(order[i].z * inv_temp - ls);
	for (int i = 0; i < n && (top_p >= 1 || total < top_p * sum_k); i++)
		total += p[order[i].id] = exp(order[i].z * inv_temp - ls);
	free(order);
	return total;
}

/* All rows have the same logits and u = (i + 1/2) / rows, so each id comes rows p times, up to one; in the
 * first two rows u is 0 and just below 1. */
static void sample(int nrows, int per, int N, float inv_temp, int top_k, double top_p, int bans)
{
	snprintf(label, sizeof label, "rows %d per %d N %d inv_temp %g top_k %d top_p %g banned %d", nrows,
	         per, N, (double)inv_temp, top_k, top_p, bans);
	for (EACH_DEVICE) {
		struct buf z = in((size_t)((nrows + per - 1) / per * N), -4, 4), logp = out((size_t)nrows);
		double *u = keep((size_t)nrows, sizeof *u), *lp = keep((size_t)nrows, sizeof *lp);
		double *p = keep((size_t)N, sizeof *p), *zd = keep((size_t)N, sizeof *zd), total, ls;
		int32_t banned[3] = { 0, (int32_t)(N - 1), 5 };
		int32_t *token = need((size_t)nrows, sizeof *token), *count = keep((size_t)N, sizeof *count);
		rf_i32 tokens = in_i32(token, nrows), banned_ids = in_i32(banned, 3);
		rf_f64 us;

		for (int i = 0; i < nrows; i++) {
			memcpy(z.h + i / per * N, z.h, (size_t)N * sizeof(float));
			u[i] = i == 0 ? 0 : i == 1 ? 1 - 0x1p-53 : (i - 2 + 0.5) / (nrows - 2);
		}
		us = in_f64(u, nrows);
		dev->ops->upload(dev, z.m, z.h, z.n * sizeof(float));
		RF_RUN(dev, sample, .rows = nrows, .n = per, .N = N, .top_k = top_k, .banned = bans,
		       .inv_temp = inv_temp, .top_p = top_p, .z = z.m, .banned_ids = bans ? banned_ids : NULL,
		       .u = us, .token = tokens, .logp = logp.m);
		dev->ops->download(dev, token, tokens, (size_t)nrows * sizeof *token);

		for (int j = 0; j < N; j++)
			zd[j] = z.h[j];
		total = allowed(zd, N, inv_temp, top_k, top_p, banned, bans, p);
		ls = log_sum(zd, N, inv_temp);
		for (int i = 0; i < nrows; i++) {
			double before = 0;
			if (token[i] < 0 || token[i] >= N || p[token[i]] == 0) {
				judge("sample: an id that may be drawn", 1, 0);
				lp[i] = NAN;
				continue;
			}
			judge("sample: an id that may be drawn", 0, 0);
			for (int j = 0; j < token[i]; j++)
				before += p[j];
			/* u total lies in [before, before + p), give or take float32's rounding of p */
			judge("sample: the id at u",
			      fmax(before - u[i] * total, u[i] * total - before - p[token[i]]), 1e-6);
			lp[i] = zd[token[i]] * inv_temp - ls;
			count[token[i]] += i > 1;
		}
		for (int j = 0; j < N && nrows > 2; j++)
			judge("sample: frequencies", fabs(count[j] - (nrows - 2) * p[j] / total), 1.01);
		values("sample logp", logp, lp, VALUE);
		same_bits("sample: the id at u", token, (size_t)nrows * sizeof *token);
	}
}

/* Ids of equal logits have equal probabilities on every device, so what is drawn is known exactly:
 * in z's row q every third id from q on may be, the others are nothing beside them; what is banned
 * would be all but certain. */
static void sample_equals(int nrows, int per, int N, int top_k, double top_p, bool ban)
{
	const int32_t banned[4] = { 3, N - 1, 3, N / 2 };
	const int zrows = (nrows + per - 1) / per;

	snprintf(label, sizeof label, "equals: rows %d per %d N %d top_k %d top_p %g ban %d", nrows, per, N,
	         top_k, top_p, ban);
	for (EACH_DEVICE) {
		struct buf z = in((size_t)(zrows * N), -50, -40), logp = out((size_t)nrows);
		double *u = keep((size_t)nrows, sizeof *u), *lp = keep((size_t)nrows, sizeof *lp);
		int32_t *token = need((size_t)nrows, sizeof *token), *id = keep((size_t)N, sizeof *id);
		rf_i32 tokens = in_i32(token, nrows), banned_ids = in_i32(banned, 4);
		rf_f64 us;

		for (int q = 0; q < zrows; q++) {
			for (int j = q; j < N; j += 3)
				z.h[q * N + j] = 2;
			for (int i = 0; ban && i < 4; i++)
				z.h[q * N + banned[i]] = 60;
		}
		for (int i = 0; i < nrows; i++)
			u[i] = i == 0 ? 0 : i == 1 ? 1 : (double)(i % per) / per; /* 1: the last */
		us = in_f64(u, nrows);
		dev->ops->upload(dev, z.m, z.h, z.n * sizeof(float));
		RF_RUN(dev, sample, .rows = nrows, .n = per, .N = N, .top_k = top_k, .banned = ban ? 4 : 0,
		       .inv_temp = 1, .top_p = top_p, .z = z.m, .banned_ids = ban ? banned_ids : NULL,
		       .u = us,
		       .token = tokens, .logp = logp.m);
		dev->ops->download(dev, token, tokens, (size_t)nrows * sizeof *token);
		for (int i = 0; i < nrows; i++) {
			double all = 0;
			int n = 0, few = 0, at = 0;

			for (int j = 0; j < N; j++) {
				const float x = z.h[i / per * N + j];

				all += exp(x);
				if (x == 2)
					id[n++] = j;
			}
			n = top_k && top_k < n ? top_k : n;
			while (few < n && (!few || top_p >= 1 || few < top_p * n))
				few++;
			while (at < few - 1 && at + 1 <= u[i] * few)
				at++;
			judge("sample: equal probabilities, equal draws", token[i] != id[at], 0);
			lp[i] = 2 - log(all);
		}
		values("sample logp", logp, lp, VALUE);
		same_bits("sample: equal probabilities, equal draws", token, (size_t)nrows * sizeof *token);
	}
}

/* A row without anything to draw from says so. */
static void sample_nothing(void)
{
	enum { N = 40 };

	snprintf(label, sizeof label, "nothing");
	for (EACH_DEVICE) {
		struct buf z = in(2 * N, -1, 1), logp = out(2), none = out(1);
		const double u[2] = { 0.5, 0.5 };
		int32_t token[2];
		rf_i32 tokens = in_i32(token, 2);

		for (int i = 0; i < N; i++)
			z.h[i] = NAN;
		dev->ops->upload(dev, z.m, z.h, z.n * sizeof(float));
		for (int k = 0; k < 2; k++) {
			RF_RUN(dev, sample, .rows = 2, .N = N, .top_k = 3 * k, .inv_temp = 1,
			       .top_p = k ? 0.5 : 1, .z = z.m, .u = in_f64(u, 2), .token = tokens,
			       .logp = logp.m);
			dev->ops->download(dev, token, tokens, sizeof token);
			float *h = get(logp);
			judge("sample: nothing to draw from", !isnan(h[0]) || isnan(h[1]) || token[0] != 0 ||
			      token[1] < 0 || token[1] >= N, 0);
			free(h);
		}
		if (strcmp(dev->ops->name, "cuda")) /* others fail for good */
			continue;
		int32_t all[N];
		for (int i = 0; i < N; i++)
			all[i] = i;
		RF_RUN(dev, sample, .rows = 1, .N = N, .inv_temp = 1, .top_p = 1, .banned = N,
		       .banned_ids = in_i32(all, N), .z = rf_at(z.m, N), .u = in_f64(u, 2), .token = tokens,
		       .logp = none.m);
		float *h = get(none);
		judge("sample: nothing to draw from", !isnan(h[0]), 0);
		free(h);
	}
}

/* ---- the optimizer ------------------------------------------------------------------------- */

static void dots(size_t n)
{
	snprintf(label, sizeof label, "n %zu", n);
	for (EACH_DEVICE) {
		struct buf x = in(n, -1, 1), y = in(n, -1, 1);
		double xx = 0, xy = 0, *got = need(2, sizeof *got), zero[2] = { 0, 0 };
		rf_f64 sums = in_f64(zero, 2), second = (rf_f64)(void *)((char *)sums + sizeof(double));

		for (size_t i = 0; i < n; i++) {
			xx += (double)x.h[i] * x.h[i];
			xy += (double)x.h[i] * y.h[i];
		}
		RF_RUN(dev, dot, .n = n, .x = x.m, .y = x.m, .out = sums);
		RF_RUN(dev, dot, .n = n, .x = x.m, .y = y.m, .out = second);
		dev->ops->download(dev, got, sums, 2 * sizeof *got);
		judge("dot", fabs(got[0] - xx) / xx, 1e-12);
		judge("dot", fabs(got[1] - xy) / xx, 1e-12);
		same_bits("dot", got, 2 * sizeof *got);
	}
}

static void adamw(size_t n, double decay)
{
	double scale = 0.5, lr = 1e-2, b1 = 0.9, b2 = 0.999, eps = 1e-8, c1 = 0.19, c2 = 0.001999;

	snprintf(label, sizeof label, "n %zu decay %g", n, decay);
	for (EACH_DEVICE) {
		struct buf w = in(n, -1, 1), m = in(n, -1, 1), v = in(n, 0, 1), g = in(n, -1, 1);
		double *rw = keep(n, sizeof *rw), *rm = keep(n, sizeof *rm);
		double *rv = keep(n, sizeof *rv), *rg = keep(n, sizeof *rg);

		RF_RUN(dev, adamw, .n = n, .scale = scale, .lr = lr, .b1 = b1, .b2 = b2, .eps = eps,
		       .decay = decay, .c1 = c1, .c2 = c2, .w = w.m, .m = m.m, .v = v.m, .g = g.m);
		for (size_t i = 0; i < n; i++) {
			double gi = g.h[i] * scale;
			rg[i] = g.h[i];
			rm[i] = b1 * m.h[i] + (1 - b1) * gi;
			rv[i] = b2 * v.h[i] + (1 - b2) * gi * gi;
			rw[i] = w.h[i] - lr * (decay * w.h[i] + rm[i] / c1 / (sqrt(rv[i] / c2) + eps));
		}
		values("adamw w", w, rw, VALUE);
		values("adamw m", m, rm, VALUE);
		values("adamw v", v, rv, VALUE);
		values("adamw: the gradient stays", g, rg, 0);
	}
}

static void axpy(size_t n, bool add)
{
	snprintf(label, sizeof label, "n %zu add %d", n, add);
	for (EACH_DEVICE) {
		struct buf x = in(n, -1, 1), y = add ? in(n, -1, 1) : out(n);
		double *ref = keep(n, sizeof *ref);

		RF_RUN(dev, axpy, .n = n, .scale = 0.3f, .add = add, .x = x.m, .y = y.m);
		for (size_t i = 0; i < n; i++)
			ref[i] = (add ? y.h[i] : 0) + (double)0.3f * x.h[i];
		values("axpy", y, ref, VALUE);
	}
}

/* Memory: what was put comes back, also a part of it, and zeros. */
static void memory(void)
{
	snprintf(label, sizeof label, "upload, zero a part, download");
	for (EACH_DEVICE) {
		struct buf x = in(1000, -1, 1);
		double *ref = keep(x.n, sizeof *ref);

		dev->ops->zero(dev, rf_at(x.m, 17), 40 * sizeof(float));
		dev->ops->upload(dev, rf_at(x.m, 900), x.h, 10 * sizeof(float));
		for (size_t i = 0; i < x.n; i++)
			ref[i] = i >= 17 && i < 57 ? 0 : i >= 900 && i < 910 ? x.h[i - 900] : x.h[i];
		values("upload, zero, download", x, ref, 0);
	}
}

/* In every output, whichever input it is in. */
static void nans(void)
{
	enum { R = 3, D = 20, N = 50 };

	for (int which = 0; which < 2; which++)
		for (EACH_DEVICE) {
			struct buf x = in(R * D, -1, 1), w = in(N * D, -1, 1), z = in(R * N, -1, 1),
				   y = in(N * D, 0, 0);
			struct buf c = in(R * N, 0, 0), a = in(R, 0, 0), b = in(R, 0, 0);
			int32_t target[R] = { 1, 2, 3 };
			double u[R] = { 0.1, 0.5, 0.9 }, sum = 0;
			rf_i32 targets = in_i32(target, R), tokens = in_i32(target, R);
			rf_f64 us = in_f64(u, R), out = in_f64(&sum, 1);
			float nan = NAN;

			dev->ops->upload(dev, which ? rf_at(w.m, 7) : rf_at(x.m, D + 7), &nan, sizeof nan);
			dev->ops->upload(dev, rf_at(z.m, N + 7), &nan, sizeof nan);
			RF_RUN(dev, gemm, .m = R, .n = N, .k = D, .tb = true, .a = x.m, .b = w.m, .c = c.m,
			       .lda = D, .ldb = D, .ldc = N);
			keeps_nan("gemm", c);
			RF_RUN(dev, rmsnorm_fwd, .rows = R, .d = D, .eps = 1e-5f, .x = x.m, .w = w.m,
			       .y = y.m);
			keeps_nan("rmsnorm_fwd", y);
			RF_RUN(dev, swiglu_fwd, .n = R * D, .gate = x.m, .up = w.m, .y = y.m);
			keeps_nan("swiglu_fwd", y);
			RF_RUN(dev, swiglu_fwd, .n = R * D, .gate = w.m, .up = x.m, .y = y.m);
			keeps_nan("swiglu_fwd", y);
			RF_RUN(dev, head_fwd, .rows = R, .d = D, .N = N, .inv_temp = 1, .h = x.m, .w = w.m,
			       .target = targets, .entropy = a.m, .logp = b.m);
			keeps_nan("head_fwd entropy", a);
			keeps_nan("head_fwd logp", b);
			RF_RUN(dev, sample, .rows = R, .N = N, .inv_temp = 1, .top_p = 1, .z = z.m, .u = us,
			       .token = tokens, .logp = b.m);
			keeps_nan("sample logp", b);
			RF_RUN(dev, ce_grad, .rows = R, .N = N, .inv_temp = 1, .z = z.m, .target = targets,
			       .coef = x.m, .logp = b.m);
			keeps_nan("ce_grad logp", b);
			keeps_nan("ce_grad z", z);
			RF_RUN(dev, dot, .n = R * D, .x = x.m, .y = w.m, .out = out);
			dev->ops->download(dev, &sum, out, sizeof sum);
			judge("a NaN that goes in comes out", !isnan(sum), 0);
			RF_RUN(dev, axpy, .n = R * D, .scale = 1, .add = true, .x = x.m, .y = w.m);
			keeps_nan("axpy", w);
		}
}

static void in_bf16_too(void)
{
	bf16 = true;
	gemms();
	weights();
	rounds(false);
	rounds(true);
	heads();
	bf16 = false;
}

int main(int argc, char *argv[])
{
	static const size_t sizes[] = { 1, 7, 16, 17, 512, 4097, 100003 };

	in_bf16(argc, argv, in_bf16_too);
	open_devices(argc, argv, RF_MATH_F32);
	full_table();
	exponentials();
	memory();
	nans();
	gemms();
	weights();
	for (int i = 0; i < COUNT(rows_of); i++)
		for (int j = 0; j < COUNT(widths); j++) {
			int r = rows_of[i], d = widths[j];
			colsum(r, d);
			embed(r, d, vocabs[(i + j) % COUNT(vocabs)]);
			for (int f = 0; f < 8; f++)
				rows(r, d, f & 1, f & 2, f & 4);
			for (int f = 0; f < 4; f++)
				rmsnorm(r, d, f & 1, f & 2);
		}
	/* wider than a block takes at once, from any place on */
	for (shift = 0; shift < 4; shift++) {
		colsum(1500 + (int)shift, 33);
		embed(70, 600 + (int)shift, 40);
		for (int f = 0; f < 8; f++)
			rows(65, 40, f & 1, f & 2, f & 4);
		for (int f = 0; f < 4; f++) {
			rmsnorm(9, 40, f & 1, f & 2);
			rmsnorm(5, 300, f & 1, f & 2);
			rmsnorm(5, 2501 + (int)shift, f & 1, f & 2);
		}
		swiglu(400, 0, 0, true);
		swiglu(400, 40, 4, true);
		dots(40004);
		adamw(400, 0.1);
		axpy(400, true);
	}
	shift = 0;
	rmsnorm(33000, 1, true, true);
	heads();
	head_ties(70, 24, 700);
	head_ties(20, 6, 7 * 320);
	head_ties(20, 3, 7 * 5888);
	for (int i = 0; i < COUNT(rows_of); i++)
		for (int j = 0; j < COUNT(vocabs); j++) {
			ce_grad(rows_of[i], vocabs[j], 1.3f, true);
			ce_grad(rows_of[i], vocabs[j], 1, false);
			sample(rows_of[i], 1 + j, vocabs[j], 1, 0, 1, 0);
		}
	for (int i = 0; i < COUNT(vocabs); i++) {
		sample(3000, 700, vocabs[i], 0.8f, 0, 1, 3);
		sample(3000, 700, vocabs[i], 1.2f, 10, 1, 1);
		sample(3000, 700, vocabs[i], 1, 0, 0.8, 0);
		sample(3000, 700, vocabs[i], 1, 30, 0.5, 2);
		sample(3000, 700, vocabs[i], 1, 1, 1, 0);
	}
	for (int i = 0; i < 8; i++) {
		const int top_k = i & 1 ? 25 + 300 * (i & 2) : 0;
		const double top_p = i & 4 ? 0.4 : 1;

		sample_equals(60, 20, 1000, top_k, top_p, i & 2);
		sample_equals(16, 8, 70001, top_k, top_p, !(i & 2));
	}
	sample_equals(9, 3, 100, 0, 0, true);
	sample_nothing();
	ce_grad(2, 40000, 1.1f, true);
	ce_grad_unwanted();
	for (int i = 0; i < COUNT(sizes); i++) {
		swiglu(sizes[i], 0, 0, false);
		swiglu(sizes[i], 0, 0, true);
		swiglu(sizes[i] * 5, 5, 5, true);
		swiglu(sizes[i] * 40, 40, 7, false);
		dots(sizes[i]);
		adamw(sizes[i], 0);
		adamw(sizes[i], 0.1);
		axpy(sizes[i], false);
		axpy(sizes[i], true);
	}
	return finish();
}
