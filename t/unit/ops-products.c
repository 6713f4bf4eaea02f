/* ops-products -- the table of operations, memory, and products, against double precision.  Arguments: the
 * devices, instead of cpu with 1, 2, 3 threads and check. */
#include "unit/ops.h"

static void full_table(void)
{
	static const struct {
		const char *name;
		size_t at;
	} entry[] = {
#define X(op) { #op, offsetof(struct rf_ops, op) },
		X(open) X(close) X(alloc) X(release) X(upload) X(download) X(zero) X(sync) RF_OPS(X)
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

/* Checks that download returns uploaded numbers, parts of them, and zeros. */
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

/* ---- products ---------------------------------------------------------------------------------- */

/* Checks a product.  Numbers between the rows of C must not change: they are finite, and compared. */
static void gemm(int m, int n, int k, bool ta, bool tb, bool add, bool with_bias, bool weight, int gap)
{
	snprintf(label, sizeof label, "m %d n %d k %d ta %d tb %d add %d bias %d weight %d gap %d", m, n, k,
	         ta, tb, add, with_bias, weight, gap);
	for (EACH_DEVICE) {
		/* clang-format off */
		struct rf_gemm g = { .m = m, .n = n, .k = k, .ta = ta, .tb = tb, .add = add, .weight = weight,
			.lda = (ta ? m : k) + gap, .ldb = (tb ? k : n) + 2 * gap, .ldc = n + gap };
		/* clang-format on */
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
		values(bf16 ? "gemm in bf16" : "gemm", c, first ? gemm_ref(&g, a.h, b.h, c, bias.h) : NULL,
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
		gemm(65, 45, 17, flags & 1, flags & 2, flags & 4, flags & 8, flags & 16, flags & 32 ? 3 : 0);
	gemm(1000, 384, 300, false, true, false, true, true, 0);
	/* operands that are copied in parts before the product */
	gemm(520, 800, 16, false, true, true, true, true, 496);
	gemm(520, 800, 16, false, false, false, false, true, 496);
	gemm(4200, 300, 20, true, false, true, false, false, 0);
	gemm(70, 20, 4100, false, true, true, false, true, 2); /* more rows of a weight than are widened
	                                                          together */
	gemm(70, 20, 4100, false, false, false, false, true, 0);
	/* the distance of rows is a power of two: parts are copied */
	gemm(70, 512, 2100, false, false, true, false, true, 0);
}

/* Adds the products by several weights, or with `back` by their rows, to ref. */
static void add_side(double *ref, const struct rf_gemms *g, const float *a, const struct buf *w)
{
	const int ldn = g->back ? g->lda : g->ldc, ldk = g->back ? g->ldc : g->lda;
	size_t at = 0;

	for (int i = 0; i < g->parts; at += g->stride ? g->stride : (size_t)g->n[i], i++)
		for (int r = 0; r < g->m; r++)
			for (int j = 0; j < g->n[i]; j++)
				for (int l = 0; l < g->k; l++) {
					const size_t here = at + (size_t)(r * ldn + j);
					const size_t there = (size_t)(r * ldk + l);
					const double b = operand(w[i].h[j * g->k + l], bf16);

					if (g->back)
						ref[there] += operand(a[here], bf16) * b;
					else
						ref[here] += operand(a[there], bf16) * b;
				}
}

/* Clears the numbers of ref that the result overwrites. */
static void clear_side(double *ref, const struct rf_gemms *g)
{
	size_t at = 0;

	for (int i = 0; i < (g->back ? 1 : g->parts); at += g->stride ? g->stride : (size_t)g->n[i], i++)
		for (int r = 0; r < g->m; r++)
			for (int j = 0; j < (g->back ? g->k : g->n[i]); j++)
				ref[at + (size_t)(r * g->ldc + j)] = 0;
}

/* Checks products with several weights, with adjacent or separate results; then with only the columns of the
 * last weight, which a device may have rounded before; then again after one of the weights has changed. */
static void sides(int m, int k, int parts, bool back, bool add, bool separate)
{
	static const int outs[RF_SIDE] = { 24, 40, 7 };
	const int out = outs[parts - 1];
	int N = 0;

	snprintf(label, sizeof label, "m %d k %d parts %d back %d add %d separate %d", m, k, parts, back, add,
	         separate);
	for (int i = 0; i < parts; i++)
		N += outs[i];
	for (EACH_DEVICE) {
		const int ldn = separate ? 43 : N + 3, ldk = k + 2;
		struct rf_gemms g = { .m = m,
			              .k = k,
			              .parts = parts,
			              .back = back,
			              .add = back && add,
			              .stride = separate ? (size_t)m * 48 : 0,
			              .lda = back ? ldn : ldk,
			              .ldc = back ? ldk : ldn };
		struct buf n = in((size_t)(m * (separate ? parts * 48 : ldn)), -1, 1),
			   x = in((size_t)(m * ldk), -1, 1), y = in((size_t)(m * k), -1, 1),
			   dw = in((size_t)(out * k), -1, 1), w[RF_SIDE];
		const struct buf a = back ? n : x, c = back ? x : n;
		size_t last = 0;

		for (int i = 0; i < parts; i++) {
			w[i] = in((size_t)(outs[i] * k), -1, 1);
			g.b[i] = w[i].m;
			g.n[i] = outs[i];
			last += i + 1 == parts ? 0 : separate ? g.stride : (size_t)outs[i];
		}
		g.a = a.m;
		g.c = c.m;
		for (int again = 0; again < 2; again++) {
			double *ref = first ? keep(c.n, sizeof *ref) : NULL;
			double *dref = first ? keep(dw.n, sizeof *dref) : NULL;

			for (size_t i = 0; first && i < c.n; i++)
				ref[i] = c.h[i];
			if (first && !g.add)
				clear_side(ref, &g);
			if (first)
				add_side(ref, &g, a.h, w);
			dev->ops->gemms(dev, &g);
			if (back) { /* before any other operation */
				RF_RUN(dev, gemm, .m = out, .n = k, .k = m, .ta = true, .add = true,
				       .a = rf_at(n.m, last), .lda = ldn, .b = y.m, .ldb = k, .c = dw.m,
				       .ldc = k);
				for (int i = 0; first && i < out * k; i++) {
					dref[i] = dw.h[i];
					for (int r = 0; r < m; r++)
						dref[i] +=
							operand(y.h[r * k + i % k], bf16) *
							operand(n.h[last + (size_t)(r * ldn + i / k)], bf16);
				}
				values("columns of what was multiplied", dw, dref, limit_of_product(bf16));
				dev->ops->upload(dev, dw.m, dw.h, dw.n * sizeof *dw.h);
			}
			values(bf16 ? "gemms in bf16" : "gemms", c, ref, limit_of_product(bf16));
			dev->ops->upload(dev, c.m, c.h, c.n * sizeof *c.h);
			for (size_t i = 0; i < w[parts - 1].n; i++)
				w[parts - 1].h[i] = 0.5f - w[parts - 1].h[i];
			dev->ops->upload(dev, w[parts - 1].m, w[parts - 1].h, w[parts - 1].n * sizeof(float));
		}
	}
}

static void all_sides(void)
{
	static const int rows[] = { 1, 3, 70 };

	for (int flags = 0; flags < 8; flags++)
		for (int parts = 1; parts <= RF_SIDE; parts++)
			for (int i = 0; i < COUNT(rows); i++)
				sides(rows[i], 33, parts, flags & 2, flags & 1, flags & 4);
}

/* Checks that products use a weight's new numbers after any kind of change. */
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
			struct buf m = in(N * K, 0, 0), v = in(N * K, 0, 0);
			/* clang-format off */
			struct rf_gemm g = { .m = M, .n = N, .k = K, .tb = true, .weight = true, .a = a.m,
			                     .b = w.m, .c = c.m,
				.lda = K, .ldb = K, .ldc = N };
			/* clang-format on */

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
			values(name, c, first ? gemm_ref(&g, a.h, now.h, c, NULL) : NULL,
			       limit_of_product(bf16));
			free(now.h);
		}
	}
}

/* Checks that an operand in bf16 is rounded to the nearest number, ties to even: a product with 1 shows it
 * exactly. */
static void rounds(bool weight)
{
	enum { M = 33, K = 40 };

	snprintf(label, sizeof label, "weight %d", weight);
	for (EACH_DEVICE) {
		struct buf a = in(M * K, -1, 1), one = in(K * K, 0, 0), c = out(M * K);
		double *ref = keep(c.n, sizeof *ref);

		for (int i = 0; i < M * K; i++) {
			if (i % 3 == 0) /* halfway between two numbers */
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

/* ---- products in a batch ----------------------------------------------------------------------- */

static void batch(int n_batch, int m, int n, int k, bool ta, bool tb, bool add, int gap, bool f32)
{
	bool rounded = bf16 && !f32;

	snprintf(label, sizeof label, "batch %d m %d n %d k %d ta %d tb %d add %d gap %d f32 %d", n_batch, m,
	         n, k, ta, tb, add, gap, f32);
	for (EACH_DEVICE) {
		/* clang-format off */
		struct rf_gemm g = { .m = m, .n = n, .k = k, .ta = ta, .tb = tb, .add = add, .f32 = f32,
		                     .lda = (ta ? m : k) + gap, .ldb = (tb ? k : n) + gap,
		                     .ldc = n + gap, .batch = n_batch };
		/* clang-format on */
		g.sa = (size_t)((ta ? k : m) * g.lda + gap);
		g.sb = (size_t)((tb ? n : k) * g.ldb);
		g.sc = (size_t)(m * g.ldc + 2 * gap);
		struct buf a = in(g.sa * (size_t)n_batch, -1, 1), b = in(g.sb * (size_t)n_batch, -1, 1),
			   c = in(g.sc * (size_t)n_batch, -1, 1);

		g.a = a.m, g.b = b.m, g.c = c.m;
		dev->ops->gemm(dev, &g);
		values(rounded ? "gemm in a batch, in bf16"
		       : bf16  ? "gemm in a batch, float32 among bf16"
		               : "gemm in a batch",
		       c, first ? gemm_ref(&g, a.h, b.h, c, NULL) : NULL, limit_of_product(rounded));
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

/* Checks that a NaN of any operand shows in the output. */
static void nans(void)
{
	enum { R = 3, D = 20, N = 50 };

	for (int which = 0; which < 2; which++)
		for (EACH_DEVICE) {
			struct buf x = in(R * D, -1, 1), w = in(N * D, -1, 1), c = in(R * N, 0, 0);
			float nan = NAN;

			dev->ops->upload(dev, which ? rf_at(w.m, 7) : rf_at(x.m, D + 7), &nan, sizeof nan);
			RF_RUN(dev, gemm, .m = R, .n = N, .k = D, .tb = true, .a = x.m, .b = w.m, .c = c.m,
			       .lda = D, .ldb = D, .ldc = N);
			keeps_nan("gemm", c);
		}
}

static void in_bf16_too(void)
{
	gemms();
	all_sides();
	weights();
	rounds(false);
	rounds(true);
	batches(false);
	batches(true);
}

int main(int argc, char *argv[])
{
	in_bf16(argc, argv, in_bf16_too);
	open_devices(argc, argv, RF_MATH_F32);
	full_table();
	memory();
	nans();
	gemms();
	all_sides();
	weights();
	batches(false);
	return finish();
}
