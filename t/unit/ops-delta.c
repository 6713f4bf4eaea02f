/* ops-delta -- the delta rule, forward and backward, in segments and step by step, against double precision.
 * Arguments: the devices, instead of cpu with 1, 2, 3 threads and check. */
#include "unit/ops.h"

enum { SLOTS = 9 };
struct delta {
	int nb, steps, n, H, G, K, V; /* G: heads of q and k, 0: H */
	bool beta, forward_only;      /* beta: b exists */
	double beta_scale, decay;     /* decay: the smallest g; 0: no decay */
	int32_t start[8];             /* indexed by sequence / n; a single sequence from slot 0: NULL */
	int captures;
	int32_t cap_row[8], cap_slot[8];
};

/* Computes u and o from the arrays' numbers.  S: the numbers of all slots, which captures replace; start
 * states are the numbers before that. */
static void delta_ref(const struct delta *c, const num *q, const num *k, const num *v, const num *b,
                      const num *g, num *S, num *u, num *o)
{
	size_t kv = (size_t)c->K * (size_t)c->V;
	num *state = room(kv);

	for (int seq = 0; seq < c->nb; seq++)
		for (int h = 0; h < c->H; h++) {
			int slot = c->start[seq / c->n], cap = 0;
			memcpy(state, S + ((size_t)slot * (size_t)c->H + (size_t)h) * kv, kv * sizeof *state);
			for (int j = 0; j < c->steps; j++) {
				int row = (j * c->nb + seq) * c->H + h,
				    key = (j * c->nb + seq) * c->G + h * c->G / c->H;
				num beta = c->beta ? scaled(sigmoid(b[row]), c->beta_scale) : 0,
				    a = c->decay < 0 ? exponential(g[row]) : 0;

				for (size_t i = 0; c->decay < 0 && i < kv; i++)
					state[i] = mul(a, state[i]);
				for (int y = 0; y < c->V; y++) {
					num wrong = lin(1, v[row * c->V + y], -1,
					                dot(c->K, state + y, c->V, k + key * c->K, 1), 0);
					u[row * c->V + y] =
						c->beta ? mul(beta, wrong) : scaled(wrong, c->beta_scale);
				}
				for (int x = 0; x < c->K; x++)
					for (int y = 0; y < c->V; y++)
						state[x * c->V + y] =
							fused(state[x * c->V + y], k[key * c->K + x],
						              u[row * c->V + y]);
				for (int y = 0; y < c->V; y++)
					o[row * c->V + y] = dot(c->K, state + y, c->V, q + key * c->K, 1);
				for (; cap < c->captures && c->cap_row[cap] == j; cap++)
					memcpy(S + ((size_t)c->cap_slot[cap] * (size_t)c->H + (size_t)h) * kv,
					       state, kv * sizeof *state);
			}
		}
}

/* Returns rows of width K and length 1. */
static struct buf directions(size_t rows, int K)
{
	struct buf k = in(rows * (size_t)K, -1, 1);

	for (size_t i = 0; i < rows; i++) {
		double s = 0;
		for (int j = 0; j < K; j++)
			s += (double)k.h[i * (size_t)K + (size_t)j] * k.h[i * (size_t)K + (size_t)j];
		for (int j = 0; j < K; j++)
			k.h[i * (size_t)K + (size_t)j] /= (float)sqrt(s);
	}
	dev->ops->upload(dev, k.m, k.h, k.n * sizeof(float));
	return k;
}

static void delta(struct delta c)
{
	size_t R = (size_t)c.nb * (size_t)c.steps * (size_t)c.H,
	       slot = (size_t)c.H * (size_t)c.K * (size_t)c.V;

	if (!c.n)
		c.n = 1;
	if (c.beta_scale == 0)
		c.beta_scale = 1;
	if (!c.G)
		c.G = c.H;
	size_t keys = R / (size_t)c.H * (size_t)c.G, key = (size_t)c.K;
	snprintf(label, sizeof label,
	         "nb %d steps %d n %d H %d G %d K %d V %d b %d g %g start %d captures %d (row %d first)",
	         c.nb, c.steps, c.n, c.H, c.G, c.K, c.V, c.beta, c.decay, (int)c.start[0], c.captures,
	         (int)c.cap_row[0]);
	for (EACH_DEVICE) {
		float small = 1 / sqrtf((float)c.K);
		struct buf q = in(keys * key, -small, small), k = directions(keys, c.K),
			   v = in(R * (size_t)c.V, -1, 1);
		struct buf g = in(R, (float)c.decay, 0), dg = out(R);
		struct buf b = in(R, -3, 3), u = out(R * (size_t)c.V), o = out(R * (size_t)c.V);
		struct buf S = in(SLOTS * slot, -1, 1),
			   S2 = of(memcpy(need(S.n + FENCE, 4), S.h, S.n * 4), S.n);
		struct buf d_o = in(R * (size_t)c.V, -1, 1), dS = in(S.n, -1, 1);
		struct buf dq = out(q.n), dk = out(k.n), dv = out(v.n), db = out(R);
		rf_i32 start = c.nb > 1 || c.start[0] ? in_i32(c.start, 8) : NULL;
		rf_i32 cap_row = in_i32(c.cap_row, 8), cap_slot = in_i32(c.cap_slot, 8);
		/* clang-format off */
		struct rf_delta_fwd f = { .nb = c.nb, .steps = c.steps, .n = c.n, .H = c.H, .G = c.G,
		                          .K = c.K, .V = c.V,
			.beta_scale = (float)c.beta_scale, .q = q.m, .k = k.m, .v = v.m,
			.b = c.beta ? b.m : NULL,
			.g = c.decay < 0 ? g.m : NULL, .u = u.m,
			.o = o.m, .S = S.m, .start = start, .captures = c.captures, .cap_row = cap_row,
			.cap_slot = cap_slot };
		/* clang-format on */
		num *Q = NULL, *K = NULL, *V = NULL, *B = NULL, *Gs = NULL, *U = NULL, *O = NULL,
		    *before = NULL, *after = NULL;

		dev->ops->delta_fwd(dev, &f);
		if (first) {
			Q = nums(q), K = nums(k), V = nums(v), B = nums(b), Gs = nums(g), before = nums(S),
			U = room(u.n), O = room(o.n);
			after = memcpy(room(S.n), before, S.n * sizeof *after);
			delta_ref(&c, Q, K, V, B, Gs, after, U, O);
		}
		product_values("delta_fwd o", o, first ? values_of(O, o.n) : NULL, VALUE);
		product_values("delta_fwd u", u, first ? values_of(U, u.n) : NULL, VALUE);
		product_values("delta_fwd S", S, first ? values_of(after, S.n) : NULL, VALUE);

		if (!c.captures) { /* step by step gives the same as one call */
			struct buf u1 = out(u.n), o1 = out(o.n);
			f.u = u1.m;
			f.S = S2.m;
			f.steps = 1;
			for (f.decoded = 0; f.decoded < c.steps; f.decoded++) {
				size_t row = (size_t)f.decoded * R / (size_t)c.steps;
				f.q = rf_at(q.m, (size_t)f.decoded * keys / (size_t)c.steps * key);
				f.v = rf_at(v.m, row * (size_t)c.V);
				f.o = rf_at(o1.m, row * (size_t)c.V);
				f.b = c.beta ? rf_at(b.m, row) : NULL;
				dev->ops->delta_fwd(dev, &f);
			}
			product_values("delta_fwd o, step by step", o1, first ? values_of(O, o.n) : NULL,
			               VALUE);
			product_values("delta_fwd u, step by step", u1, first ? values_of(U, u.n) : NULL,
			               VALUE);
		}
		if (c.forward_only)
			continue;
		RF_RUN(dev, delta_bwd, .nb = c.nb, .steps = c.steps, .n = c.n, .H = c.H, .G = c.G, .K = c.K,
		       .V = c.V, .beta_scale = (float)c.beta_scale, .q = q.m, .k = k.m, .v = v.m,
		       .b = c.beta ? b.m : NULL, .g = c.decay < 0 ? g.m : NULL, .u = u.m, .d_o = d_o.m,
		       .dq = dq.m, .dk = dk.m, .dv = dv.m, .db = c.beta ? db.m : NULL,
		       .dg = c.decay < 0 ? dg.m : NULL, .S = S.m, .dS = dS.m, .start = start,
		       .captures = c.captures, .cap_row = cap_row, .cap_slot = cap_slot);
		double *more = NULL;
		if (first) {
			seed_back(O, d_o);
			for (int i = 0; i < c.captures; i++)
				for (size_t x = 0; x < slot; x++)
					adj[after[(size_t)c.cap_slot[i] * slot + x]] +=
						dS.h[(size_t)c.cap_slot[i] * slot + x];
			back_propagate();
			more = gradients(before, S.n, dS.h);
			/* the captures' slots are only read */
			for (int i = 0; i < c.captures; i++)
				for (size_t x = 0; x < slot; x++)
					more[(size_t)c.cap_slot[i] * slot + x] =
						dS.h[(size_t)c.cap_slot[i] * slot + x];
		}
		product_values("delta_bwd dq", dq, first ? gradients(Q, q.n, NULL) : NULL, GRADIENT);
		product_values("delta_bwd dk", dk, first ? gradients(K, k.n, NULL) : NULL, GRADIENT);
		product_values("delta_bwd dv", dv, first ? gradients(V, v.n, NULL) : NULL, GRADIENT);
		if (c.beta)
			product_values("delta_bwd db", db, first ? gradients(B, R, NULL) : NULL, GRADIENT);
		if (c.decay < 0)
			product_values("delta_bwd dg", dg, first ? gradients(Gs, R, NULL) : NULL, GRADIENT);
		product_values("delta_bwd dS", dS, more, GRADIENT);
	}
}

static void deltas(void)
{
	static const int lengths[] = { 1, 2, 15, 16, 17, 63, 64, 65, 130 };
	static const struct {
		int K, V;
	} width[] = { { 4, 4 }, { 8, 8 }, { 8, 20 }, { 100, 8 }, { 20, 100 }, { 128, 128 } };
	static const struct delta other[] = {
		/* captures at the first row, inside, on both sides of the chunks' ends, two at one row */
		/* clang-format off */
		{ .nb = 1, .steps = 130, .H = 2, .K = 8, .V = 8, .beta = true, .start = { 3 }, .captures = 8,
		  .cap_row = { 0, 17, 63, 64, 64, 127, 128, 129 }, .cap_slot = { 8, 0, 1, 2, 7, 6, 5, 4 } },
		/* branches that are long, wide, or both */
		{ .nb = 3, .steps = 65, .H = 1, .K = 8, .V = 8, .beta = true, .start = { 1, 2, 0 } },
		{ .nb = 3, .steps = 130, .n = 3, .H = 1, .K = 4, .V = 4, .beta = true, .start = { 1 } },
		{ .nb = 8, .steps = 3, .n = 3, .H = 1, .K = 100, .V = 100, .beta = true,
		  /* clang-format on */
		  .start = { 2, 0, 1 } },
		{ .nb = 3, .steps = 5, .H = 1, .K = 128, .V = 128, .beta = true, .start = { 2, 0, 1 } },
		{ .nb = 2, .steps = 3, .H = 1, .K = 12, .V = 300, .beta = true, .start = { 2, 1 } },
		/* every step is a reflection: no b, and beta is 2 */
		{ .nb = 3, .steps = 17, .H = 2, .K = 8, .V = 4, .beta_scale = 2, .start = { 1, 2, 0 } },
	};

	for (int i = 0; i < COUNT(lengths); i++) {
		int T = lengths[i];
		for (int j = 0; j < COUNT(width); j++)
			if (width[j].K * width[j].V < 1000 || T == 1 || T == 65)
				delta((struct delta){ .nb = 1,
				                      .steps = T,
				                      .H = width[j].K > 50 ? 1 : 3,
				                      .K = width[j].K,
				                      .V = width[j].V,
				                      .beta = true });
		delta((struct delta){ .nb = 1, .steps = T, .H = 2, .K = 8, .V = 4 });
		/* clang-format off */
		delta((struct delta){ .nb = 1, .steps = T, .H = 2, .K = 16, .V = 8, .beta = true,
		                      .beta_scale = 2, .start = { 2 } });
		/* a capture of the last state, and others */
		delta((struct delta){ .nb = 1, .steps = T, .H = 2, .K = 8, .V = 8, .beta = true,
		                      .captures = 1,
			.cap_row = { T - 1 }, .cap_slot = { 1 } });
		delta((struct delta){ .nb = 1, .steps = T, .H = 1, .K = 4, .V = 4, .beta = true,
		                      .start = { 1 }, .captures = 3,
			.cap_row = { 0, T / 2, T / 2 }, .cap_slot = { 4, 0, 3 } });
	}
	for (int j = 3; j < COUNT(width); j++)
		delta((struct delta){ .nb = 1, .steps = 64, .H = 2, .K = width[j].K, .V = width[j].V,
		                      /* clang-format on */
		                      .beta = true,
		                      .captures = 1,
		                      .cap_row = { 20 },
		                      .cap_slot = { 1 },
		                      .forward_only = true });
	for (int i = 0; i < COUNT(other); i++)
		delta(other[i]);
	/* branches: n sequences share a start state, in any order of the slots */
	for (int n = 1; n <= 7; n += 2) {
		/* clang-format off */
		delta((struct delta){ .nb = 3, .steps = n, .H = 2, .K = 8, .V = 4, .beta = true,
		                      .start = { 3, 0, 1 } });
		delta((struct delta){ .nb = 3, .steps = n, .n = 3, .H = 2, .K = 4, .V = 8, .beta = true,
		                      .start = { 1 } });
		delta((struct delta){ .nb = 8, .steps = n, .n = 3, .H = 3, .K = 16, .V = 16,
		                      .start = { 2, 1, 3 } });
		delta((struct delta){ .nb = 8, .steps = n, .H = 1, .K = 20, .V = 20, .beta = true,
		                      /* clang-format on */
		                      .beta_scale = 2,
		                      .start = { 7, 1, 2, 6, 4, 5, 3, 0 } });
	}
}

/* Checks decays from almost none to almost total in one row, and heads that share q and k. */
static void decays(void)
{
	static const int lengths[] = { 1, 16, 17, 64, 65, 130 };
	static const double least[] = { -0.01, -1, -30, -3000 };
	static const struct delta other[] = {
		/* clang-format off */
		{ .nb = 1, .steps = 130, .H = 4, .G = 2, .K = 8, .V = 8, .beta = true, .decay = -0.1,
		  .start = { 3 }, .captures = 8,
		  .cap_row = { 0, 17, 63, 64, 64, 127, 128, 129 }, .cap_slot = { 8, 0, 1, 2, 7, 6, 5, 4 } },
		{ .nb = 1, .steps = 66, .H = 2, .K = 20, .V = 4, .beta = true, .decay = -20, .captures = 3,
		  .cap_row = { 5, 40, 64 },
		  .cap_slot = { 8, 1, 2 } },
		{ .nb = 3, .steps = 66, .n = 3, .H = 3, .G = 1, .K = 4, .V = 4, .beta = true, .decay = -0.3,
		  .start = { 1 } },
		{ .nb = 8, .steps = 5, .n = 3, .H = 6, .G = 3, .K = 16, .V = 20, .decay = -0.3,
		  .start = { 2, 1, 3 } },
		{ .nb = 1, .steps = 100, .H = 1, .K = 128, .V = 128, .beta = true, .decay = -0.2 },
		/* more heads and chunks than are computed together */
		{ .nb = 1, .steps = 140, .H = 700, .G = 350, .K = 1, .V = 1, .beta = true, .decay = -0.3,
		  .start = { 1 }, .captures = 4,
		  .cap_row = { 5, 63, 127, 130 }, .cap_slot = { 4, 0, 2, 3 } },
		/* clang-format on */
	};

	for (int i = 0; i < COUNT(lengths); i++)
		for (int j = 0; j < COUNT(least); j++)
			/* clang-format off */
			delta((struct delta){ .nb = 1, .steps = lengths[i], .H = 2 + 2 * (j % 2), .G = 2,
			                      .K = j < 2 ? 8 : 20, .V = 12, .beta = true,
				.beta_scale = 1 + (i + j) % 2, .decay = least[j], .start = { 2 },
				.captures = 1, .cap_row = { lengths[i] - 1 - i % 2 * (i > 1) },
				.cap_slot = { 4 } });
	/* clang-format on */
	for (int i = 0; i < COUNT(other); i++)
		delta(other[i]);
}

/* Checks gradients of wide heads, also with rounded products: widths on both sides of 32, 64 and 128, odd
 * widths, the largest. */
static void wide_gradients(void)
{
	static const struct delta all[] = {
		/* clang-format off */
		{ .nb = 1, .steps = 130, .H = 2, .G = 1, .K = 100, .V = 72, .beta = true, .decay = -0.2,
		  .captures = 3, .cap_row = { 20, 63, 128 },
		  .cap_slot = { 1, 2, 3 } },
		{ .nb = 1, .steps = 140, .H = 2, .G = 1, .K = 64, .V = 128, .beta = true, .decay = -0.2,
		  .start = { 1 }, .captures = 8,
		  .cap_row = { 0, 17, 63, 64, 64, 127, 128, 139 }, .cap_slot = { 8, 0, 7, 2, 3, 6, 5, 4 } },
		{ .nb = 3, .steps = 70, .n = 2, .H = 2, .G = 1, .K = 100, .V = 72, .beta = true,
		  .start = { 1, 2 } },
		{ .nb = 5, .steps = 6, .n = 3, .H = 4, .G = 2, .K = 128, .V = 128, .beta = true,
		  .decay = -0.2, .start = { 1, 2 } },
		{ .nb = 1, .steps = 130, .H = 1, .K = 256, .V = 40, .beta = true, .captures = 1,
		  .cap_row = { 129 }, .cap_slot = { 1 } },
		{ .nb = 1, .steps = 66, .H = 1, .K = 40, .V = 300, .beta = true, .decay = -1, .captures = 1,
		  .cap_row = { 40 }, .cap_slot = { 1 } },
		/* clang-format on */
		{ .nb = 1, .steps = 65, .H = 3, .K = 65, .V = 33, .beta = true, .decay = -0.2 },
		{ .nb = 1, .steps = 65, .H = 3, .K = 34, .V = 66, .beta_scale = 2 },
	};

	for (int i = 0; i < COUNT(all); i++)
		delta(all[i]);
}

/* Checks only the forward pass, where a tape would be too long or products are rounded, and the log of a
 * capture. */
static void delta_wide(struct delta c)
{
	size_t R = (size_t)c.nb * (size_t)c.steps, slot = (size_t)c.H * (size_t)c.K * (size_t)c.V,
	       K = (size_t)c.K, V = (size_t)c.V;

	c.n += !c.n;
	c.G = c.G ? c.G : c.H;
	c.beta_scale = c.beta_scale > 0 ? c.beta_scale : 1;
	size_t hk = (size_t)c.G * K, hv = (size_t)c.H * V, H = (size_t)c.H;
	snprintf(label, sizeof label, "nb %d steps %d n %d H %d G %d K %d V %d b %d g %g", c.nb, c.steps, c.n,
	         c.H, c.G, c.K, c.V, c.beta, c.decay);
	for (EACH_DEVICE) {
		bool rounds = dev->math == RF_MATH_BF16;
		double limit = rounds ? 1e-2 : VALUE;
		float small = 1 / sqrtf((float)c.K);
		struct buf q = in(R * hk, -small, small), k = directions(R * (size_t)c.G, c.K),
			   v = in(R * hv, -1, 1), b = in(R * H, -3, 3);
		struct buf g = in(R * H, (float)c.decay, 0), u = out(R * hv), o = out(R * hv),
			   S = in(SLOTS * slot, -1, 1);
		struct buf log[4] = { in((SLOTS - 1) * slot, 0, 1), in((SLOTS - 1) * 64 * hk, 0, 1),
			              in((SLOTS - 1) * 64 * hv, 0, 1), in((SLOTS - 1) * 64 * H, 0, 1) };
		rf_i32 start = c.nb > 1 || c.start[0] ? in_i32(c.start, 8) : NULL,
		       cap_row = in_i32(c.cap_row, 8), cap_slot = in_i32(c.cap_slot, 8);
		double *U = keep(u.n, 8), *O = keep(o.n, 8), *after = keep(S.n, 8), *state = keep(K * V, 8),
		       *chunk = keep(K * V, 8), *logs[4];

		RF_RUN(dev, delta_fwd, .nb = c.nb, .steps = c.steps, .n = c.n, .H = c.H, .G = c.G, .K = c.K,
		       .V = c.V, .beta_scale = (float)c.beta_scale, .q = q.m, .k = k.m, .v = v.m,
		       .b = c.beta ? b.m : NULL, .g = c.decay < 0 ? g.m : NULL, .u = u.m, .o = o.m, .S = S.m,
		       .start = start, .captures = c.captures, .log_from = 1, .cap_row = cap_row,
		       .cap_slot = cap_slot, .log = { log[0].m, log[1].m, log[2].m, log[3].m });
		for (int i = 0; i < 4; i++) {
			logs[i] = keep(log[i].n, 8);
			for (size_t x = 0; x < log[i].n; x++)
				logs[i][x] = log[i].h[x];
		}
		for (size_t i = 0; i < S.n; i++)
			after[i] = S.h[i];
		for (size_t task = 0; first && task < (size_t)c.nb * H; task++) {
			size_t seq = task / H, h = task % H, kh = h * (size_t)c.G / H;
			int cap = 0;

			for (size_t i = 0; i < K * V; i++)
				state[i] = S.h[(size_t)c.start[seq / (size_t)c.n] * slot + h * K * V + i];
			for (int j = 0; j < c.steps; j++) {
				size_t row = (size_t)j * (size_t)c.nb + seq, at = row * H + h;
				const float *kk = k.h + row * hk + kh * K, *qq = q.h + row * hk + kh * K;
				double a = c.decay < 0 ? exp((double)g.h[at]) : 1,
				       beta = c.beta ? c.beta_scale / (1 + exp(-(double)b.h[at]))
				                     : c.beta_scale;

				if (j % 64 == 0)
					memcpy(chunk, state, K * V * 8);
				for (size_t y = 0; y < V; y++) {
					double wrong = v.h[at * V + y], sum = 0;
					for (size_t x = 0; x < K; x++)
						wrong -= (state[x * V + y] *= a) * (double)kk[x];
					U[at * V + y] = beta * wrong;
					for (size_t x = 0; x < K; x++)
						sum += (state[x * V + y] += (double)kk[x] * beta * wrong) *
						       (double)qq[x];
					O[at * V + y] = sum;
				}
				for (; cap < c.captures && c.cap_row[cap] == j; cap++) {
					size_t to = (size_t)c.cap_slot[cap], rows = (size_t)(j % 64 + 1),
					       from = (size_t)j + 1 - rows;

					memcpy(after + to * slot + h * K * V, state, K * V * 8);
					if (!to-- || rows == 64)
						continue;
					memcpy(logs[0] + to * slot + h * K * V, chunk, K * V * 8);
					for (size_t i = 0; i < rows; i++) {
						for (size_t x = 0; x < K; x++)
							logs[1][((to * 64 + i) * (size_t)c.G + kh) * K + x] =
								k.h[((from + i) * (size_t)c.G + kh) * K + x];
						for (size_t x = 0; x < V; x++)
							logs[2][((to * 64 + i) * H + h) * V + x] =
								U[((from + i) * H + h) * V + x];
						if (c.decay < 0)
							logs[3][(to * 64 + i) * H + h] =
								g.h[(from + i) * H + h];
					}
				}
			}
		}
		values(rounds ? "delta_fwd o in bf16" : "delta_fwd o", o, O, limit);
		values(rounds ? "delta_fwd u in bf16" : "delta_fwd u", u, U, limit);
		values(rounds ? "delta_fwd S in bf16" : "delta_fwd S", S, after, limit);
		for (int i = 0; i < 4; i++)
			values(rounds ? "delta_fwd log in bf16" : "delta_fwd log", log[i], logs[i], limit);
	}
}

static void wide_deltas(void)
{
	static const struct delta all[] = {
		/* widths on both sides of 64 and 128, odd widths, the largest */
		/* clang-format off */
		{ .nb = 1, .steps = 200, .H = 2, .G = 1, .K = 128, .V = 128, .beta = true, .captures = 8,
		  .cap_row = { 3, 63, 64, 70, 70, 127, 128, 199 }, .cap_slot = { 8, 1, 2, 7, 0, 6, 5, 4 } },
		{ .nb = 3, .steps = 97, .n = 3, .H = 2, .K = 100, .V = 40, .beta = true, .decay = -1,
		  .start = { 2 } },
		{ .nb = 1, .steps = 65, .H = 1, .K = 256, .V = 256, .beta = true, .beta_scale = 2,
		  .captures = 1, .cap_row = { 64 }, .cap_slot = { 2 } },
		/* more heads than are computed together; not first, because it is slow */
		{ .nb = 1, .steps = 130, .H = 513, .G = 171, .K = 32, .V = 5, .beta = true, .decay = -0.1,
		  .start = { 3 }, .captures = 4,
		  .cap_row = { 0, 63, 70, 129 }, .cap_slot = { 0, 1, 2, 8 } },
		{ .nb = 3, .steps = 5, .H = 2, .K = 64, .V = 64, .start = { 2, 0, 1 } },
		{ .nb = 2, .steps = 33, .H = 3, .G = 1, .K = 65, .V = 72, .beta = true, .decay = -30,
		  .start = { 1, 0 } },
		{ .nb = 1, .steps = 66, .H = 1, .K = 129, .V = 17, .beta = true, .decay = -0.01,
		  .captures = 2, .cap_row = { 31, 32 }, .cap_slot = { 2, 1 } },
		/* clang-format on */
	};

	for (int i = 0; i < COUNT(all); i++)
		delta_wide(all[i]);
}

/* Checks that sequences that continue at a capture of a text give the text's bits, in one call and step by
 * step.  A GPU may begin chunks elsewhere; there the numbers are equal except for rounding. */
static void continued(int H, int G, int K, int V, bool decay, bool keeps_state)
{
	enum { T = 270, AT = 8 };
	const size_t N = one_in() > 1 ? 70 : 130; /* rows that follow: over one or two borders of chunks */
	static const int32_t row[AT] = { 0, 17, 62, 63, 64, 126, 127, 139 },
			     lead[AT] = { 1, 18, 63, 0, 1, 63, 0, 12 };
	static const int32_t slot[AT] = { 4, 1, 2, 3, 8, 6, 7, 5 };
	size_t hk = (size_t)(G * K), hv = (size_t)(H * V), kv = (size_t)H * (size_t)(K * V);

	snprintf(label, sizeof label, "H %d G %d K %d V %d decay %d state %d", H, G, K, V, decay,
	         keeps_state);
	for (EACH_DEVICE) {
		struct buf q = in(T * hk, -0.3f, 0.3f), k = directions((size_t)(T * G), K),
			   v = in(T * hv, -1, 1), b = in((size_t)(T * H), -3, 3);
		struct buf g = in((size_t)(T * H), -0.2f, 0), u = out(T * hv), o = out(T * hv),
			   S = in(SLOTS * kv, 0, 0);
		struct buf log[4] = { in(AT * kv, 0, 0), in(AT * 64 * hk, 0, 0), in(AT * 64 * hv, 0, 0),
			              in((size_t)(AT * 64 * H), 0, 0) };
		struct buf all[5] = { in(N * AT * hk, 0, 0), in(N * AT * hk, 0, 0), in(N * AT * hv, 0, 0),
			              in(N * AT * (size_t)H, 0, 0),
			              in(N * AT * (size_t)H, 0, 0) }; /* q, k, v, b, g */
		struct buf from[5] = { q, k, v, b, g }, u1 = out(N * AT * hv), o1 = out(N * AT * hv),
			   open = in(AT * kv, 0, 0);
		size_t wide[5] = { hk, hk, hv, (size_t)H, (size_t)H };
		rf_i32 slots = in_i32(slot, AT), leads = in_i32(lead, AT), rows = in_i32(row, AT);
		/* clang-format off */
		struct rf_delta_fwd f = { .nb = 1, .steps = T, .H = H, .G = G, .K = K, .V = V,
		                          .beta_scale = 1, .q = q.m, .k = k.m, .v = v.m,
			.b = b.m, .g = decay ? g.m : NULL, .u = u.m, .o = o.m, .S = S.m, .captures = AT,
			.log_from = 1, .cap_row = rows, .cap_slot = slots,
			.log = { log[0].m, log[1].m, log[2].m, log[3].m } };
		/* clang-format on */
		float *text[2], *apart[2], most[2] = { 0 }, worst = 0;
		bool gpu = !strcmp(dev->ops->name, "cuda"), same = true;

		dev->ops->delta_fwd(dev, &f);
		for (int i = 0; i < 5; i++) { /* row (j, s) is the text's row row[s] + 1 + j */
			for (size_t j = 0; j < N; j++)
				for (size_t s = 0; s < AT; s++)
					memcpy(all[i].h + (j * AT + s) * wide[i],
					       from[i].h + ((size_t)row[s] + 1 + j) * wide[i], wide[i] * 4);
			dev->ops->upload(dev, all[i].m, all[i].h, all[i].n * 4);
		}
		f.nb = AT, f.steps = (int)N, f.captures = 0, f.start = slots, f.open_rows = leads, f.u = u1.m,
		f.o = o1.m;
		f.q = all[0].m, f.k = all[1].m, f.v = all[2].m, f.b = all[3].m, f.g = decay ? all[4].m : NULL;
		text[0] = get(u), text[1] = get(o);
		for (size_t i = 0; i < 2 * u.n; i++)
			most[i / u.n] = fmaxf(most[i / u.n], fabsf(text[i / u.n][i % u.n]));
		for (int how = 0; how < 2; how++) {
			if (how) {
				f.steps = 1;
				f.open = keeps_state ? open.m : NULL;
				for (f.decoded = 0; f.decoded < (int)N; f.decoded++) {
					size_t at = (size_t)f.decoded * AT;
					f.q = rf_at(all[0].m, at * hk), f.v = rf_at(all[2].m, at * hv),
					f.b = rf_at(all[3].m, at * (size_t)H);
					f.o = rf_at(o1.m, at * hv);
					dev->ops->delta_fwd(dev, &f);
				}
			} else {
				dev->ops->delta_fwd(dev, &f);
			}
			apart[0] = get(u1), apart[1] = get(o1);
			for (int i = 0; i < 2; i++) {
				for (size_t j = 0; j < N; j++)
					for (size_t s = 0; s < AT; s++)
						for (size_t x = 0; x < hv; x++) {
							float a = apart[i][(j * AT + s) * hv + x],
							      t = text[i][((size_t)row[s] + 1 + j) * hv + x];
							same &= !memcmp(&a, &t, sizeof a);
							if (!(fabsf(a - t) / most[i] <= worst))
								worst = fabsf(a - t) / most[i];
						}
				free(apart[i]);
			}
			if (gpu)
				judge(how ? "delta_fwd goes on, step by step" : "delta_fwd goes on",
				      (double)worst, VALUE);
			else
				judge(how ? "delta_fwd goes on to the bit, step by step"
				          : "delta_fwd goes on to the bit",
				      !same, 0);
		}
		free(text[0]);
		free(text[1]);
	}
}

/* Checks that a NaN of any operand shows in the outputs of its row. */
static void nans(void)
{
	enum { T = 70, H = 2, K = 8, D = H * K };

	for (int which = 0; which < 3; which++)
		for (EACH_DEVICE) {
			struct buf q = in(T * D, -1, 1), k = in(T * D, -0.3f, 0.3f), v = in(T * D, -1, 1),
				   b = in(T * H, -1, 1);
			struct buf o = in(T * D, 0, 0), u = in(T * D, 0, 0), S = in(H * K * K, 0, 0);
			struct buf *hit = which == 0 ? &q : which == 1 ? &k : &v;
			float nan = NAN;

			dev->ops->upload(dev, rf_at(hit->m, 66 * D + 3), &nan, sizeof nan);
			RF_RUN(dev, delta_fwd, .nb = 1, .steps = T, .H = H, .G = H, .K = K, .V = K,
			       .beta_scale = 1, .q = q.m, .k = k.m, .v = v.m, .b = b.m, .u = u.m, .o = o.m,
			       .S = S.m);
			keeps_nan("delta_fwd o", o);
		}
}

int main(int argc, char *argv[])
{
	in_bf16(argc, argv, wide_deltas);
	in_bf16(argc, argv, wide_gradients);
	open_devices(argc, argv, RF_MATH_F32);
	nans();
	deltas();
	decays();
	wide_gradients();
	wide_deltas();
	for (int i = 0; i < 8; i++)
		continued(i % 3 == 1 ? 4 : 2, i % 3 == 2 ? 1 : 2, (int[]){ 8, 20, 64 }[i % 3],
		          (int[]){ 16, 12, 32, 5 }[i % 4], i & 1, i & 2);
	return finish();
}
