/* ops-head -- the head, sampling and the optimizer against double precision.  Arguments: the devices,
 * instead of cpu with 1, 2, 3 threads and check. */
#include "unit/ops.h"

/* ---- the head ------------------------------------------------------------------------------ */

/* Returns log sum_j e^{z_j t} over n numbers. */
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
					z[j] += operand(h.h[i * d + l], bf16) * operand(w.h[j * d + l], bf16);
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

		/* each output may be absent, and the others have the same bits */
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
	head(2100, 3, 300, 0.8f); /* more rows and logits than are computed together */
	head(2000, 2, 4500, 1);
}

/* Checks ties: the operands are small integers, so equal logits have equal bits, and the lowest id is the arg
 * max. */
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
			w.h[i] = roundf(w.h[i % (N / 7 * D)]); /* each row occurs seven times */
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

/* Returns log softmax(Z t)[target], and the entropy of softmax(Z t) in *H.  e, x: room for N numbers. */
static num log_softmax(int N, const num *Z, float t, int target, num *e, num *x, num *H)
{
	num s, log_s;

	for (int j = 0; j < N; j++)
		e[j] = exponential(x[j] = scaled(Z[j], t));
	s = sum(N, e, 1);
	log_s = logarithm(s);
	*H = lin(1, log_s, -1, mul(dot(N, e, 1, x, 1), inverse(s)), 0);
	return lin(1, x[target], -1, log_s, 0);
}

/* Checks the gradient of the sum of -coef logp - entropy_coef H, and that the outputs have head_fwd's bits.
 * entropies: whether entropy_coef is given.  One row in eight has only entropy_coef, two have only coef, and
 * one has neither. */
static void head_gradient(int nrows, int d, int N, float inv_temp, bool entropies)
{
	const char *const dh_name = entropies ? "head_bwd dh with entropies" : "head_bwd dh";
	const char *const dw_name = entropies ? "head_bwd dw with entropies" : "head_bwd dw";
	const size_t n = (size_t)nrows, nh = n * (size_t)d, nw = (size_t)N * (size_t)d;

	snprintf(label, sizeof label, "rows %d d %d N %d inv_temp %g entropies %d", nrows, d, N,
	         (double)inv_temp, entropies);
	for (EACH_DEVICE) {
		const int most = dev->ops->logit_rows(N);
		const float width = 4 / sqrtf((float)d);
		struct buf h = in(nh, -width, width), w = in(nw, -1, 1), coef = in(n, -1, 1),
			   more = in(n, -1, 1);
		struct buf z = out((size_t)(nrows < most ? nrows : most) * (size_t)N), dh = out(nh),
			   dw = in(nw, -1, 1);
		struct buf entropy[2] = { out(n), out(n) }, logp[2] = { out(n), out(n) };
		int32_t *target = keep(n, sizeof *target), *top = keep(2 * n, sizeof *top);
		rf_i32 targets = some_indices(target, nrows, N),
		       tops[2] = { in_i32(top, nrows), in_i32(top, nrows) };
		num *H = NULL, *W = NULL, *L = NULL, *E = NULL;

		for (int i = 0; i < nrows; i += 4)
			coef.h[i] = 0;
		for (int i = 0; i < nrows; i++)
			if (!entropies || i % 8 == 4 || i % 4 == 1)
				more.h[i] = 0;
			else if (i % 8 == 0)
				target[i] = -1; /* where coef is 0 a row needs no target */
		dev->ops->upload(dev, coef.m, coef.h, n * sizeof(float));
		dev->ops->upload(dev, more.m, more.h, n * sizeof(float));
		dev->ops->upload(dev, targets, target, n * sizeof *target);
		RF_RUN(dev, head_fwd, .rows = nrows, .d = d, .N = N, .inv_temp = inv_temp, .h = h.m, .w = w.m,
		       .target = targets, .entropy = entropy[0].m, .logp = logp[0].m, .top = tops[0]);
		RF_RUN(dev, head_bwd, .rows = nrows, .d = d, .N = N, .inv_temp = inv_temp, .h = h.m, .w = w.m,
		       .target = targets, .coef = coef.m, .entropy_coef = entropies ? more.m : NULL,
		       .entropy = entropy[1].m, .logp = logp[1].m, .top = tops[1], .z = z.m, .dh = dh.m,
		       .dw = dw.m);
		float *was = get(entropy[0]), *is = get(entropy[1]);
		judge("head_bwd: entropies have the bits of head_fwd", memcmp(was, is, n * sizeof *is), 0);
		free(was);
		free(is);
		was = get(logp[0]), is = get(logp[1]);
		judge("head_bwd: logp has the bits of head_fwd", memcmp(was, is, n * sizeof *is), 0);
		free(was);
		free(is);
		dev->ops->download(dev, top, tops[0], n * sizeof *top);
		dev->ops->download(dev, top + n, tops[1], n * sizeof *top);
		judge("head_bwd: top is that of head_fwd", memcmp(top, top + n, n * sizeof *top), 0);
		if (first) {
			num *Z = room((size_t)N), *e = room((size_t)N), *x = room((size_t)N);

			H = nums(h), W = nums(w), L = room(n), E = room(n);
			for (int i = 0; i < nrows; i++) {
				for (int j = 0; j < N; j++)
					Z[j] = dot(d, H + i * d, 1, W + j * d, 1);
				L[i] = log_softmax(N, Z, inv_temp, target[i] < 0 ? 0 : target[i], e, x,
				                   &E[i]);
			}
			for (int i = 0; i < nrows; i++) {
				coef.h[i] = -coef.h[i];
				more.h[i] = -more.h[i];
			}
			seed_back(L, coef);
			seed_back(E, more);
			back_propagate();
		}
		values(dh_name, dh, first ? gradients(H, nh, NULL) : NULL, GRADIENT);
		values(dw_name, dw, first ? gradients(W, nw, dw.h) : NULL, GRADIENT);
	}
}

/* Checks that rows whose entropy_coef is 0 have the bits that they have without the array. */
static void head_entropy_bits(int nrows, int d, int N, float inv_temp)
{
	const size_t n = (size_t)nrows, nh = n * (size_t)d, nw = (size_t)N * (size_t)d;

	snprintf(label, sizeof label, "bits: rows %d d %d N %d", nrows, d, N);
	for (EACH_DEVICE) {
		struct buf h = in(nh, -3, 3), w = in(nw, -1, 1), coef = in(n, -1, 1), more = in(n, 0, 0),
			   z = out(n * (size_t)N), dh[3], dw[3];
		int32_t *target = keep(n, sizeof *target);
		const rf_i32 targets = some_indices(target, nrows, N);
		float *got[3], *sums[3];

		for (int k = 0; k < 3;
		     k++) { /* without the array; with zeros; with others in every second row */
			for (int i = 1; k == 2 && i < nrows; i += 2)
				more.h[i] = 0.3f;
			dev->ops->upload(dev, more.m, more.h, n * sizeof(float));
			dh[k] = out(nh), dw[k] = in(nw, 0, 0);
			RF_RUN(dev, head_bwd, .rows = nrows, .d = d, .N = N, .inv_temp = inv_temp, .h = h.m,
			       .w = w.m, .target = targets, .coef = coef.m, .entropy_coef = k ? more.m : NULL,
			       .z = z.m, .dh = dh[k].m, .dw = dw[k].m);
			got[k] = get(dh[k]), sums[k] = get(dw[k]);
		}
		bool other = memcmp(got[0], got[1], nh * 4) || memcmp(sums[0], sums[1], nw * 4);
		bool unlike = false;
		for (int i = 0; i < nrows; i++) {
			const bool equal = !memcmp(got[0] + i * d, got[2] + i * d, (size_t)d * 4);

			other |= i % 2 == 0 && !equal;
			unlike |= i % 2 && !equal;
		}
		judge("head_bwd: entropy_coef 0 has the bits of NULL", other || !unlike, 0);
		for (int k = 0; k < 3; k++) {
			free(got[k]);
			free(sums[k]);
		}
	}
}

/* Checks the gradient of one logit after the other: h is 1 and d is 1, so w is the logits, and dw their
 * gradient.  The logit of one id is `peak` above the others, which lie around `around`; some ids have
 * probability 0. */
static void head_logits(int N, float inv_temp, float around, float peak, float coef, float more)
{
	const int target = N / 2, high = N / 3;

	snprintf(label, sizeof label, "N %d inv_temp %g around %g peak %g coef %g entropy_coef %g", N,
	         (double)inv_temp, (double)around, (double)peak, (double)coef, (double)more);
	for (EACH_DEVICE) {
		struct buf h = in(1, 1, 1), w = in((size_t)N, around - 1, around + 1), c = in(1, coef, coef),
			   e = in(1, more, more), z = out((size_t)N), dh = out(1), dw = in((size_t)N, 0, 0);
		double *ref = keep((size_t)N, sizeof *ref), top, s = 0, H = 0, most = 1e-6;

		w.h[high] = around + peak;
		if (N > 20) {
			w.h[N - 2] = -1e30f;
			w.h[7] = -3e38f;
			w.h[8] = -INFINITY;
		}
		dev->ops->upload(dev, w.m, w.h, w.n * sizeof(float));
		RF_RUN(dev, head_bwd, .rows = 1, .d = 1, .N = N, .inv_temp = inv_temp, .h = h.m, .w = w.m,
		       .target = in_i32(&target, 1), .coef = c.m, .entropy_coef = e.m, .z = z.m, .dh = dh.m,
		       .dw = dw.m);
		top = w.h[high];
		for (int j = 0; j < N; j++)
			s += exp((w.h[j] - top) * inv_temp);
		for (int j = 0; j < N; j++) {
			const double l = (w.h[j] - top) * inv_temp - log(s);

			H -= exp(l) > 0 ? exp(l) * l : 0;
		}
		for (int j = 0; j < N; j++) {
			const double l = (w.h[j] - top) * inv_temp - log(s), p = exp(l);

			ref[j] = inv_temp * (coef * (p - (j == target)) + (p > 0 ? more * p * (l + H) : 0));
			most = fmax(most, fabs(ref[j]));
		}
		float *got = get(dw);
		for (int j = 0; first && j < N; j++)
			/* float32 rounds logits around 100, and so the logarithms, to 4e-6 */
			judge("head_bwd: the gradient of one logit", fabs(got[j] - ref[j]) / most, 2e-5);
		same_bits("head_bwd: the gradient of one logit", got, (size_t)N * sizeof *got);
	}
}

/* Checks that a row whose coefficients are 0 has no effect, whatever it contains. */
static void head_unwanted(void)
{
	enum { D = 3, N = 1100 };

	snprintf(label, sizeof label, "a NaN in a row of coef 0");
	for (EACH_DEVICE) {
		struct buf h = in(2 * D, -1, 1), w = in(N * D, -1, 1), coef = in(2, 0, 0), more = in(2, 0, 0),
			   z = out(2 * N), dh = out(2 * D), dw = in(N * D, 0, 0);
		const float nan = NAN;
		const int32_t target[] = { 2, 5 };
		double *zeros = keep(N * D, sizeof *zeros);

		dev->ops->upload(dev, rf_at(z.m, 7), &nan, sizeof nan);
		dev->ops->upload(dev, rf_at(h.m, 1), &(float){ 1e30f }, sizeof nan);
		dev->ops->upload(dev, rf_at(w.m, 1), &(float){ 1e30f }, sizeof nan);
		for (int k = 0; k < 2; k++) {
			RF_RUN(dev, head_bwd, .rows = 2, .d = D, .N = N, .inv_temp = 1, .h = h.m, .w = w.m,
			       .target = in_i32(target, 2), .coef = coef.m, .entropy_coef = k ? more.m : NULL,
			       .z = z.m, .dh = dh.m, .dw = dw.m);
			values("head_bwd dh: coef 0 gives zeros", dh, zeros, 0);
			values("head_bwd dw: coef 0 gives zeros", dw, zeros, 0);
		}
	}
}

static void head_entropies(void)
{
	static const int sizes[] = { 3001, 1003, 2, 40000 };
	static const float inv_temp[] = { 1.3f, 0.7f, 1 };

	head_gradient(9, 5, 1003, 0.6f, true);
	head_gradient(3, 40, 3001, 1, true);
	head_gradient(300, 16, 70, 1.3f, true);
	head_entropy_bits(9, 17, 1003, 1.3f);
	head_entropy_bits(300, 7, 70, 0.7f);
	head_entropy_bits(3, 5, 3001, 1);
	for (int i = 0; i < COUNT(sizes); i++)
		for (int k = 0; k < 12; k++)
			head_logits(sizes[i], inv_temp[k % 3], k & 1 ? 0 : 50, (float)(k / 3 * 12),
			            k % 2 ? 0.3f : 0, k % 5 ? 0.5f : -1);
}

/* ---- sampling ------------------------------------------------------------------------------ */

struct likely {
	double z;
	int id;
};
static int more_likely(const void *a, const void *b)
{
	const struct likely *x = a, *y = b;

	return x->z != y->z ? (x->z < y->z ? 1 : -1) : x->id - y->id;
}

/* Sets p (N) to the probabilities of ids that may be drawn, 0 elsewhere, and returns their sum. */
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

/* Judges sample's output `kept` relative to the reference.  whole: all ids may be drawn. */
static void judge_kept(struct buf part, const double *ref, bool whole)
{
	float *h = get(part);

	for (size_t i = 0; i < part.n; i++) {
		if (first)
			judge("sample kept", fabs(h[i] - ref[i]) / ref[i],
			      limit_on_device("sample kept", VALUE));
		judge("sample kept: at most 1, or 1 for all ids", !(h[i] <= 1) || (whole && h[i] != 1), 0);
	}
	same_bits("sample kept", h, part.n * sizeof *h);
}

/* Checks draws from equal rows with u = (i + 1/2) / rows: each id is drawn rows p times, give or take one.
 * In the first two rows u is 0 and just below 1. */
static void sample(int nrows, int per, int N, float inv_temp, int top_k, double top_p, int bans)
{
	snprintf(label, sizeof label, "rows %d per %d N %d inv_temp %g top_k %d top_p %g banned %d", nrows,
	         per, N, (double)inv_temp, top_k, top_p, bans);
	for (EACH_DEVICE) {
		struct buf z = in((size_t)((nrows + per - 1) / per * N), -4, 4), logp = out((size_t)nrows),
			   part = out((size_t)nrows), only = out((size_t)nrows);
		double *u = keep((size_t)nrows, sizeof *u), *lp = keep((size_t)nrows, sizeof *lp),
		       *kp = keep((size_t)nrows, sizeof *kp);
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
		/* the other outputs have the same bits with `kept` */
		int32_t *again = need((size_t)nrows, sizeof *again);
		RF_RUN(dev, sample, .rows = nrows, .n = per, .N = N, .top_k = top_k, .banned = bans,
		       .inv_temp = inv_temp, .top_p = top_p, .z = z.m, .banned_ids = bans ? banned_ids : NULL,
		       .u = us, .token = tokens, .logp = only.m, .kept = part.m);
		dev->ops->download(dev, again, tokens, (size_t)nrows * sizeof *again);
		float *was = get(logp), *is = get(only);
		judge("sample: the same draws with kept",
		      memcmp(token, again, (size_t)nrows * sizeof *again) ||
		              memcmp(was, is, (size_t)nrows * sizeof *is),
		      0);
		free(again);
		free(was);
		free(is);

		for (int j = 0; j < N; j++)
			zd[j] = z.h[j];
		total = allowed(zd, N, inv_temp, top_k, top_p, banned, bans, p);
		ls = log_sum(zd, N, inv_temp);
		for (int i = 0; i < nrows; i++) {
			double before = 0;
			kp[i] = total;
			if (token[i] < 0 || token[i] >= N || p[token[i]] == 0) {
				judge("sample: an id that may be drawn", 1, 0);
				lp[i] = NAN;
				continue;
			}
			judge("sample: an id that may be drawn", 0, 0);
			for (int j = 0; j < token[i]; j++)
				before += p[j];
			/* u total is in [before, before + p), except for float32's rounding of p */
			judge("sample: the id at u",
			      fmax(before - u[i] * total, u[i] * total - before - p[token[i]]), 1e-6);
			lp[i] = zd[token[i]] * inv_temp - ls;
			count[token[i]] += i > 1;
		}
		for (int j = 0; j < N && nrows > 2; j++)
			judge("sample: frequencies", fabs(count[j] - (nrows - 2) * p[j] / total), 1.01);
		values("sample logp", logp, lp, VALUE);
		judge_kept(part, kp, !bans && !top_k && top_p >= 1);
		same_bits("sample: the id at u", token, (size_t)nrows * sizeof *token);
	}
}

/* Checks `kept` in rows of z that differ.  The banned ids of row q have a negligible probability if q % 3 is
 * 0, and almost all of it if q % 3 is 2. */
static void sample_kept(int nrows, int per, int N, float inv_temp, int top_k, double top_p, int bans)
{
	const int32_t banned[3] = { 0, (int32_t)(N - 1), 5 };
	const int zrows = (nrows + per - 1) / per;

	snprintf(label, sizeof label, "kept: rows %d per %d N %d inv_temp %g top_k %d top_p %g banned %d",
	         nrows, per, N, (double)inv_temp, top_k, top_p, bans);
	for (EACH_DEVICE) {
		struct buf z = in((size_t)(zrows * N), -4, 4), logp = out((size_t)nrows),
			   part = out((size_t)nrows);
		double *u = keep((size_t)nrows, sizeof *u), *kp = keep((size_t)nrows, sizeof *kp),
		       *p = keep((size_t)N, sizeof *p), *zd = keep((size_t)N, sizeof *zd);
		int32_t *token = keep((size_t)nrows, sizeof *token);

		for (int q = 0; q < zrows; q++)
			for (int i = 0; i < bans; i++)
				z.h[q * N + banned[i]] += q % 3 == 0 ? -60 : q % 3 == 1 ? 0 : 30;
		dev->ops->upload(dev, z.m, z.h, z.n * sizeof(float));
		for (int i = 0; i < nrows; i++) {
			for (int j = 0; j < N; j++)
				zd[j] = z.h[i / per * N + j];
			kp[i] = allowed(zd, N, inv_temp, top_k, top_p, banned, bans, p);
			u[i] = (i + 0.5) / nrows;
		}
		RF_RUN(dev, sample, .rows = nrows, .n = per, .N = N, .top_k = top_k, .banned = bans,
		       .inv_temp = inv_temp, .top_p = top_p, .z = z.m,
		       .banned_ids = bans ? in_i32(banned, bans) : NULL, .u = in_f64(u, nrows),
		       .token = in_i32(token, nrows), .logp = logp.m, .kept = part.m);
		judge_kept(part, kp, !bans && !top_k && top_p >= 1);
	}
}

/* Checks draws that are known exactly, since ids of equal logits have equal probabilities on every device.
 * In row q of z every third id from q on may be drawn; the others have negligible probabilities, and a banned
 * id would be almost certain. */
static void sample_equals(int nrows, int per, int N, int top_k, double top_p, bool ban)
{
	const int32_t banned[4] = { 3, N - 1, 3, N / 2 };
	const int zrows = (nrows + per - 1) / per;

	snprintf(label, sizeof label, "equals: rows %d per %d N %d top_k %d top_p %g ban %d", nrows, per, N,
	         top_k, top_p, ban);
	for (EACH_DEVICE) {
		struct buf z = in((size_t)(zrows * N), -50, -40), logp = out((size_t)nrows),
			   part = out((size_t)nrows);
		double *u = keep((size_t)nrows, sizeof *u), *lp = keep((size_t)nrows, sizeof *lp),
		       *kp = keep((size_t)nrows, sizeof *kp);
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
		       .u = us, .token = tokens, .logp = logp.m, .kept = part.m);
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
			kp[i] = few * exp(2) / all;
		}
		values("sample logp", logp, lp, VALUE);
		judge_kept(part, kp, !ban && !top_k && top_p >= 1);
		same_bits("sample: equal probabilities, equal draws", token, (size_t)nrows * sizeof *token);
	}
}

/* Checks that a row in which no id may be drawn reports this. */
static void sample_nothing(void)
{
	enum { N = 40 };

	snprintf(label, sizeof label, "nothing");
	for (EACH_DEVICE) {
		struct buf z = in(2 * N, -1, 1), logp = out(2), part = out(2), none = out(2);
		const double u[2] = { 0.5, 0.5 };
		int32_t token[2];
		rf_i32 tokens = in_i32(token, 2);

		for (int i = 0; i < N; i++)
			z.h[i] = NAN;
		dev->ops->upload(dev, z.m, z.h, z.n * sizeof(float));
		for (int k = 0; k < 2; k++) {
			RF_RUN(dev, sample, .rows = 2, .N = N, .top_k = 3 * k, .inv_temp = 1,
			       .top_p = k ? 0.5 : 1, .z = z.m, .u = in_f64(u, 2), .token = tokens,
			       .logp = logp.m, .kept = part.m);
			dev->ops->download(dev, token, tokens, sizeof token);
			float *h = get(logp), *kept_h = get(part);
			judge("sample: nothing to draw from",
			      !isnan(h[0]) || isnan(h[1]) || token[0] != 0 || token[1] < 0 || token[1] >= N,
			      0);
			judge("sample: nothing is kept", !isnan(kept_h[0]) || !(kept_h[1] > 0), 0);
			free(h);
			free(kept_h);
		}
		if (strcmp(dev->ops->name, "cuda")) /* other devices stay failed */
			continue;
		int32_t all[N];
		for (int i = 0; i < N; i++)
			all[i] = i;
		RF_RUN(dev, sample, .rows = 1, .N = N, .inv_temp = 1, .top_p = 1, .banned = N,
		       .banned_ids = in_i32(all, N), .z = rf_at(z.m, N), .u = in_f64(u, 2), .token = tokens,
		       .logp = none.m, .kept = rf_at(none.m, 1));
		float *h = get(none);
		judge("sample: nothing to draw from", !isnan(h[0]), 0);
		judge("sample: nothing is kept", h[1] != 0, 0);
		free(h);
	}
}

/* ---- the optimizer ------------------------------------------------------------------------- */

static void dots(size_t n)
{
	snprintf(label, sizeof label, "n %zu", n);
	for (EACH_DEVICE) {
		struct buf x = in(n, -1, 1), y = in(n, -1, 1);
		const size_t tiles = (n + RF_DOT_TILE - 1) / RF_DOT_TILE;
		double *got = need(2 * tiles, sizeof *got), *zero = need(2 * tiles, sizeof *zero);
		rf_f64 sums = in_f64(zero, (int)(2 * tiles)),
		       second = (rf_f64)(void *)((char *)sums + tiles * sizeof *got);

		free(zero);
		RF_RUN(dev, dot, .n = n, .x = x.m, .y = x.m, .out = sums);
		RF_RUN(dev, dot, .n = n, .x = x.m, .y = y.m, .out = second);
		dev->ops->download(dev, got, sums, 2 * tiles * sizeof *got);
		for (size_t tile = 0; tile < tiles; tile++) {
			double xx = 0, xy = 0;

			for (size_t i = tile * RF_DOT_TILE; i < n && i < (tile + 1) * RF_DOT_TILE; i++) {
				xx += (double)x.h[i] * x.h[i];
				xy += (double)x.h[i] * y.h[i];
			}
			judge("dot", fabs(got[tile] - xx) / xx, 1e-12);
			judge("dot", fabs(got[tiles + tile] - xy) / xx, 1e-12);
		}
		same_bits("dot", got, 2 * tiles * sizeof *got);
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

static rf_i64 in_i64(const int64_t *x, size_t n)
{
	return (rf_i64)(void *)(reals[nreals++] = on_device(x, n * sizeof *x));
}

/* Checks sums of two terms whose sizes go from the smallest to the largest that count: as integers, they add
 * up without error. */
static void exact_sums(size_t n, int unit)
{
	const float by = ldexpf(1, unit);

	snprintf(label, sizeof label, "n %zu unit 2^%d", n, unit);
	for (EACH_DEVICE) {
		struct buf x = in(n, -1, 1), y = in(n, -1, 1), got = out(n), largest = in(1, 0, 0);
		int64_t *sum = need(n, sizeof *sum), *want = keep(n, sizeof *want);
		double *zero = keep(n, sizeof *zero), *ref = keep(n, sizeof *ref), most = 0;
		rf_i64 sums;
		int wrong = 0;

		for (size_t i = 0; i < n; i++) {
			x.h[i] = ldexpf(x.h[i], unit + 56 - (int)(i % 62));
			y.h[i] = i % 7 ? ldexpf(y.h[i], unit + 56 - (int)(i % 7)) : ldexpf(1, unit + 56);
			want[i] = sum[i] = (int64_t)ldexp(uniform(-1, 1), (int)(i % 62));
			want[i] += llrint((double)x.h[i] / (double)by) + llrint((double)y.h[i] / (double)by);
			ref[i] = (double)((float)want[i] * by);
			most = fmax(most, fmax(fabs((double)x.h[i]), fabs((double)y.h[i])));
		}
		dev->ops->upload(dev, x.m, x.h, n * sizeof *x.h);
		dev->ops->upload(dev, y.m, y.h, n * sizeof *y.h);
		sums = in_i64(sum, n);
		RF_RUN(dev, sum_add, .n = n, .unit = by, .x = x.m, .largest = largest.m, .sum = sums);
		RF_RUN(dev, sum_add, .n = n, .unit = by, .x = y.m, .largest = largest.m, .sum = sums);
		RF_RUN(dev, sum_take, .n = n, .unit = by, .sum = sums, .y = got.m);
		dev->ops->download(dev, sum, sums, n * sizeof *sum);
		for (size_t i = 0; i < n; i++)
			wrong += sum[i] != want[i];
		judge("sum_add", wrong, 0);
		values("sum_add: the term is cleared", x, zero, 0);
		values("sum_add: the term is cleared", y, zero, 0);
		values("sum_add: largest", largest, &most, 0);
		values("sum_take", got, ref, 0);
		same_bits("sum_add", sum, n * sizeof *sum);
	}
}

/* Checks that numbers that are too large, and NaN, add nothing and show in `largest`. */
static void no_sums(size_t n, int unit)
{
	const float by = ldexpf(1, unit), bad[] = { NAN, -INFINITY, ldexpf(-1.0001f, unit + 56) };

	for (int i = 0; i < COUNT(bad); i++)
		for (EACH_DEVICE) {
			struct buf x = in(n, -by, by), largest = in(1, 3 * by, 3 * by);
			int64_t *sum = keep(n, sizeof *sum), wrong = 0;
			const float want = isnan(bad[i]) ? INFINITY : fabsf(bad[i]);
			rf_i64 sums = in_i64(sum, n);
			float *most;

			snprintf(label, sizeof label, "n %zu with %g", n, (double)bad[i]);
			x.h[n / 2] = bad[i];
			dev->ops->upload(dev, x.m, x.h, n * sizeof *x.h);
			RF_RUN(dev, sum_add, .n = n, .unit = by, .x = x.m, .largest = largest.m, .sum = sums);
			dev->ops->download(dev, sum, sums, n * sizeof *sum);
			for (size_t k = 0; k < n; k++)
				wrong += sum[k] != (k == n / 2 ? 0 : llrint((double)x.h[k] / (double)by));
			judge("sum_add: invalid terms add nothing", (double)wrong, 0);
			most = get(largest);
			judge("sum_add: invalid terms show", *most == want ? 0 : 1, 0);
			free(most);
		}
}

/* Checks that a NaN of any input shows in every output. */
static void nans(void)
{
	enum { R = 3, D = 20, N = 50 };

	for (int which = 0; which < 2; which++)
		for (EACH_DEVICE) {
			struct buf x = in(R * D, -1, 1), w = in(N * D, -1, 1), z = in(R * N, -1, 1),
				   a = in(R, 0, 0), b = in(R, 0, 0), coef = in(R, 1, 1), none = in(R, 0, 0),
				   dh = out(R * D), dw = in(N * D, 0, 0), dh1 = out(R * D),
				   dw1 = in(N * D, 0, 0);
			int32_t target[R] = { 1, 2, 3 };
			double u[R] = { 0.1, 0.5, 0.9 }, sum = 0;
			rf_i32 targets = in_i32(target, R), tokens = in_i32(target, R);
			rf_f64 us = in_f64(u, R), out = in_f64(&sum, 1);
			float nan = NAN;

			dev->ops->upload(dev, which ? rf_at(w.m, 7) : rf_at(x.m, D + 7), &nan, sizeof nan);
			dev->ops->upload(dev, rf_at(z.m, N + 7), &nan, sizeof nan);
			RF_RUN(dev, head_fwd, .rows = R, .d = D, .N = N, .inv_temp = 1, .h = x.m, .w = w.m,
			       .target = targets, .entropy = a.m, .logp = b.m);
			keeps_nan("head_fwd entropy", a);
			keeps_nan("head_fwd logp", b);
			RF_RUN(dev, sample, .rows = R, .N = N, .inv_temp = 1, .top_p = 1, .z = z.m, .u = us,
			       .token = tokens, .logp = b.m, .kept = a.m);
			keeps_nan("sample logp", b);
			keeps_nan("sample kept", a);
			RF_RUN(dev, head_bwd, .rows = R, .d = D, .N = N, .inv_temp = 1, .h = x.m, .w = w.m,
			       .target = targets, .coef = coef.m, .logp = b.m, .z = z.m, .dh = dh.m,
			       .dw = dw.m);
			keeps_nan("head_bwd logp", b);
			keeps_nan("head_bwd dh", dh);
			keeps_nan("head_bwd dw", dw);
			RF_RUN(dev, head_bwd, .rows = R, .d = D, .N = N, .inv_temp = 1, .h = x.m, .w = w.m,
			       .target = targets, .coef = none.m, .entropy_coef = coef.m, .z = z.m,
			       .dh = dh1.m, .dw = dw1.m);
			keeps_nan("head_bwd dh of entropies", dh1);
			keeps_nan("head_bwd dw of entropies", dw1);
			RF_RUN(dev, dot, .n = R * D, .x = x.m, .y = w.m, .out = out);
			dev->ops->download(dev, &sum, out, sizeof sum);
			judge("a NaN that goes in comes out", !isnan(sum), 0);
			RF_RUN(dev, axpy, .n = R * D, .scale = 1, .add = true, .x = x.m, .y = w.m);
			keeps_nan("axpy", w);
		}
}

int main(int argc, char *argv[])
{
	static const size_t sizes[] = { 1, 7, 16, 17, 512, 4097, 65537, 100003 };

	in_bf16(argc, argv, heads);
	open_devices(argc, argv, RF_MATH_F32);
	nans();
	for (shift = 0; shift < 4; shift++) { /* arrays that begin anywhere */
		dots(40004);
		adamw(400, 0.1);
		axpy(400, true);
		exact_sums(400, -48);
	}
	shift = 0;
	heads();
	head_ties(70, 24, 700);
	head_ties(20, 6, 7 * 320);
	head_ties(20, 3, 7 * 5888);
	head_gradient(2100, 3, 43, 1.3f, true); /* more rows than are computed together */
	for (int i = 0; i < COUNT(rows_of); i++)
		for (int j = 0; j < COUNT(vocabs); j++) {
			head_gradient(rows_of[i], widths[(i + j) % COUNT(widths)], vocabs[j],
			              (i + j) & 1 ? 1.3f : 1, false);
			sample(rows_of[i], 1 + j, vocabs[j], 1, 0, 1, 0);
		}
	for (int i = 0; i < COUNT(vocabs); i++) {
		sample(3000, 700, vocabs[i], 0.8f, 0, 1, 3);
		sample(3000, 700, vocabs[i], 1.2f, 10, 1, 1);
		sample(3000, 700, vocabs[i], 1, 0, 0.8, 0);
		sample(3000, 700, vocabs[i], 1, 30, 0.5, 2);
		sample(3000, 700, vocabs[i], 1, 1, 1, 0);
	}
	sample_kept(64, 2, 1000, 1.3f, 0, 1, 3);
	for (int i = 0; i < 10; i++) {
		const int N = i < 8 ? vocabs[i % COUNT(vocabs)] : 5000;

		sample_kept(11, 2, N, 0.8f + 0.1f * (float)i, i & 1 ? 30 : 0, i & 2 ? 0.7 : 1, i & 4 ? 3 : 0);
		sample_kept(3, 1, N, 1.3f, i & 1 ? N : 0, 1, i & 2 ? 2 : 0);
	}
	for (int i = 0; i < 8; i++) {
		const int top_k = i & 1 ? 25 + 300 * (i & 2) : 0;
		const double top_p = i & 4 ? 0.4 : 1;

		sample_equals(60, 20, 1000, top_k, top_p, i & 2);
		sample_equals(16, 8, 70001, top_k, top_p, !(i & 2));
	}
	sample_equals(9, 3, 100, 0, 0, true);
	sample_nothing();
	for (int e = 0; e < 2; e++) {
		head_gradient(2, 2, 40000, 1.1f, e);
		head_gradient(600, 3, 70, 1, e);  /* blocks of 256 on the CPU */
		head_gradient(57, 24, 384, 1, e); /* with AVX-512 oneDNN sums in another order for some ldc */
		head_gradient(2500, 1, 20, 0.9f, e); /* blocks of 2048 on a GPU */
	}
	head_unwanted();
	head_entropies();
	for (int i = 0; i < COUNT(sizes); i++) {
		dots(sizes[i]);
		adamw(sizes[i], 0);
		adamw(sizes[i], 0.1);
		axpy(sizes[i], false);
		axpy(sizes[i], true);
		for (int unit = -68; unit <= 12; unit += 20) {
			exact_sums(sizes[i], unit);
			no_sums(sizes[i], unit);
		}
	}
	return finish();
}
