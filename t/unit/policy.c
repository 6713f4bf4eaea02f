/* policy GOLDEN -- tests the policy loss and the baselines of advantages: against reference figures, formulas
 * by cases and finite differences.  Prints TAP; GOLDEN is t/golden. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "refine/advantage.h"
#include "refine/policy.h"
#include "unit/tap.h"

enum { MOST = 8 }; /* tokens of a rollout in these tests */

/* Returns number i of a stream of numbers in [0, 1), for the inputs of tests. */
static double noise(uint64_t i) { return rf_draw(0x9e3779b97f4a7c15, (uint32_t)i); }

/* ---- one token ------------------------------------------------------------------------------ */

/* Returns the loss of a token with these log-probabilities and the ratio of the token. */
static struct rf_policy_token token(const struct rf_policy *p, double logp, double old, double A)
{
	return rf_policy_token(p, logp, logp - old, A);
}

static void test_grid(void)
{
	const struct rf_policy p = RF_POLICY_DEFAULTS;
	const double advantages[] = { -2, -0.7, -1e-3, 0, 1e-3, 0.7, 2 }, h = 1e-6;
	double worst = 0, other = 0;
	int cut = 0, high = 0, dual = 0, clamped = 0;

	for (int x = -230; x <= 230; x++)
		for (size_t i = 0; i < sizeof advantages / sizeof *advantages; i++)
			for (int b = 0; b < 2; b++) {
				/* 0.0037 avoids the kinks at ln 0.8, ln 1.2, ln 3 and 20, which have no
				   derivative */
				double A = advantages[i], old = b ? -3.1 : -0.2, lr = 0.1 * x + 0.0037, r, l;
				struct rf_policy_token t = token(&p, old + lr, old, A);
				double up = token(&p, old + lr + h, old, A).loss,
				       down = token(&p, old + lr - h, old, A).loss;

				worst = fmax(worst,
				             fabs((up - down) / (2 * h) - t.dlogp) / fmax(1, fabs(t.dlogp)));
				/* the same loss, by cases */
				r = exp(fmin(fmax(lr, -20), 20));
				l = A >= 0 ? -A * fmin(r, 1.2) : -A * fmin(fmax(r, 0.8), 3);
				other = fmax(other, fabs(t.loss - l) / fmax(1, fabs(l)));
				cut += t.clipped;
				high += t.high;
				dual += t.dual;
				clamped += t.clamped;
			}
	ok(worst < 1e-7, "policy: the derivative equals finite differences, off by %.1e", worst);
	ok(other < 1e-12, "policy: the loss equals its formula by cases, off by %.1e", other);
	ok(cut > 100 && dual > 100 && clamped > 100 && high > 50 && cut - high > 50,
	   "policy: the grid has clips %d, of which %d above, dual clips %d, clamps %d", cut, high, dual,
	   clamped);
}

static void test_bounds(void)
{
	const struct rf_policy p = RF_POLICY_DEFAULTS;
	struct rf_policy_token t = token(&p, 1e3, -1e3, 1);

	ok(t.clamped && t.ratio == exp(20) && t.loss == -1.2 && t.dlogp == 0 && t.high,
	   "policy: log-ratios of 2000 are clamped, the loss is finite");
	t = token(&p, -1e3, 1e3, -1);
	ok(t.clamped && t.ratio == exp(-20) && t.loss == 0.8 && t.dlogp == 0 && t.clipped && !t.high,
	   "policy: log-ratios of -2000 are clamped, the loss is finite");
	t = token(&p, -21, -0.5, 1);
	ok(t.clamped && t.dlogp == 0 && t.loss == -exp(-20), "policy: a clamped ratio has no gradient");
	t = token(&p, -20, -0.5, 1);
	ok(!t.clamped && t.dlogp == -exp(-19.5),
	   "policy: a ratio inside the bounds has a gradient, however small");
	t = token(&p, -1, -1, 0.5);
	ok(t.ratio == 1 && t.loss == -0.5 && t.dlogp == -0.5 && !t.clipped && !t.dual && !t.clamped,
	   "policy: ratio 1 is the plain gradient");
	t = token(&p, -1, -5, 0);
	ok(t.loss == 0 && t.dlogp == 0, "policy: an advantage of 0 gives no gradient");
	ok(isnan(token(&p, NAN, -1, 1).loss) && isnan(token(&p, -1, -1, NAN).loss),
	   "policy: a NaN stays a NaN");
}

static void test_variants_of_a_token(void)
{
	struct rf_policy p = RF_POLICY_DEFAULTS, same = RF_POLICY_DEFAULTS;
	const double r = log(1.25);
	struct rf_policy_token t;

	p.clip_high = 0.28;
	t = rf_policy_token(&p, -1, r, 1);
	ok(!t.clipped && fabs(t.loss + 1.25) < 1e-15 && fabs(t.dlogp + 1.25) < 1e-15,
	   "policy: --clip-high 0.28 leaves a ratio of 1.25");
	t = rf_policy_token(&p, -1, log(1.3), 1);
	ok(t.clipped && t.high && t.loss == -1.28 && t.dlogp == 0,
	   "policy: --clip-high 0.28 clips a ratio of 1.3");
	t = rf_policy_token(&p, -1, log(0.79), -1);
	ok(t.clipped && !t.high && t.loss == 0.8, "policy: --clip-high leaves the lower bound");
	same.clip_high = 0.2;
	for (int i = 0; i < 400; i++) {
		const struct rf_policy q = RF_POLICY_DEFAULTS;
		const double x = 6 * noise((uint64_t)i) - 3, A = 4 * noise((uint64_t)i + 1000) - 2;
		const struct rf_policy_token a = rf_policy_token(&q, -1, x, A),
					     b = rf_policy_token(&same, -1, x, A);

		if (a.loss != b.loss || a.dlogp != b.dlogp) {
			ok(false, "policy: --clip-high 0.2 is the default at log-ratio %g", x);
			return;
		}
	}
	ok(true, "policy: --clip-high 0.2 is the default");
	p.objective = RF_OBJECTIVE_CISPO;
	t = rf_policy_token(&p, -1.5, log(5), 2);
	ok(t.clipped && t.high && fabs(t.loss - 1.28 * 2 * 1.5) < 1e-15 && t.dlogp == -1.28 * 2,
	   "policy: CISPO keeps the gradient of a clipped token");
	t = rf_policy_token(&p, -1.5, log(0.1), -2);
	ok(t.clipped && !t.high && fabs(t.dlogp - 1.6) < 1e-15, "policy: CISPO clips a small ratio, too");
	t = rf_policy_token(&p, -1.5, 1000, 1);
	ok(t.clamped && t.dlogp == -1.28, "policy: a clamped ratio does not stop the gradient of CISPO");
	ok(isnan(rf_policy_token(&p, NAN, NAN, 1).loss), "policy: a NaN stays a NaN with CISPO");
	p.clip = 1;
	t = rf_policy_token(&p, -1.5, log(1e-3), -2);
	ok(!t.clipped && fabs(t.dlogp - 2e-3) < 1e-15,
	   "policy: --clip 1 removes the lower bound (truncated importance sampling)");
}

/* ---- the divergence ------------------------------------------------------------------------- */

static void test_kl(void)
{
	const double h = 1e-5;
	double worst = 0, values = 0;
	struct rf_policy_kl x;

	for (int i = 0; i < 3000; i++) {
		const double logp = -10 * noise((uint64_t)i), d = 12 * noise((uint64_t)i + 5000) - 6,
			     ref = logp + d, want[] = { -d, d * d / 2, exp(d) - 1 - d };

		for (enum rf_kl kind = RF_KL_K1; kind <= RF_KL_K3; kind++) {
			const double up = rf_policy_kl(kind, logp + h, ref).value,
				     down = rf_policy_kl(kind, logp - h, ref).value;

			x = rf_policy_kl(kind, logp, ref);
			worst = fmax(worst, fabs((up - down) / (2 * h) - x.dlogp) / fmax(1, fabs(x.dlogp)));
			values = fmax(values, fabs(x.value - want[kind]) / fmax(1, fabs(want[kind])));
		}
	}
	ok(worst < 1e-8, "kl: the derivatives equal finite differences, off by %.1e", worst);
	ok(values < 1e-12, "kl: the values equal their formulas, off by %.1e", values);
	x = rf_policy_kl(RF_KL_K3, -1, -1 + 1e-9);
	ok(fabs(x.value - 5e-19) < 1e-25 && fabs(x.dlogp + 1e-9) < 1e-15,
	   "kl: k3 of a small difference keeps its digits");
	x = rf_policy_kl(RF_KL_K3, -1000, -1);
	ok(x.value == expm1(20) - 20 && x.dlogp == 0, "kl: a difference of 999 is clamped");
	ok(isnan(rf_policy_kl(RF_KL_K2, NAN, -1).value), "kl: a NaN stays a NaN");
}

/* Estimates with all tokens of a small vocabulary, each with its probability: exact means. */
static void test_kl_means(void)
{
	enum { N = 5 };
	double p[N], q[N], sp = 0, sq = 0, kl = 0, mean[3] = { 0 }, gradient[3] = { 0 };

	for (int i = 0; i < N; i++) {
		sp += p[i] = 0.1 + noise((uint64_t)i + 70);
		sq += q[i] = 0.1 + noise((uint64_t)i + 90);
	}
	for (int i = 0; i < N; i++) {
		p[i] /= sp;
		q[i] /= sq;
		kl += p[i] * log(p[i] / q[i]);
	}
	for (int i = 0; i < N; i++)
		for (enum rf_kl kind = RF_KL_K1; kind <= RF_KL_K3; kind++) {
			const struct rf_policy_kl x = rf_policy_kl(kind, log(p[i]), log(q[i]));

			mean[kind] += p[i] * x.value;
			/* by the logit of token 0: d logp_i = [i = 0] - p_0 */
			gradient[kind] += p[i] * x.dlogp * ((i == 0) - p[0]);
		}
	ok(fabs(mean[RF_KL_K1] - kl) < 1e-15 && fabs(mean[RF_KL_K3] - kl) < 1e-15,
	   "kl: k1 and k3 have the mean of the divergence, %.4f", kl);
	ok(fabs(gradient[RF_KL_K1]) < 1e-15, "kl: the gradient of k1 has a mean of 0");
	ok(fabs(gradient[RF_KL_K2] - p[0] * (log(p[0] / q[0]) - kl)) < 1e-15,
	   "kl: the gradient of k2 has the mean of the divergence's gradient");
	ok(fabs(gradient[RF_KL_K3] - (p[0] - q[0])) < 1e-15,
	   "kl: the gradient of k3 has the mean of the gradient of the opposite divergence");
}

/* ---- rollouts ------------------------------------------------------------------------------- */

struct rollout {
	int length;
	double logp[MOST], old[MOST], ref[MOST], A[MOST];
};
struct result {
	double loss[MOST], kl[MOST], dlogp[MOST];
};

static double mean_log_ratio(const struct rollout *o)
{
	double sum = 0;

	for (int i = 0; i < o->length; i++)
		sum += o->logp[i] - o->old[i];
	return sum / o->length;
}

/* Computes the loss of each token, and its derivative with that of the divergence. */
static void compute(const struct rf_policy *p, const struct rollout *o, struct result *x)
{
	for (int i = 0; i < o->length; i++) {
		const double lr = p->ratio == RF_RATIO_SEQUENCE ? mean_log_ratio(o) : o->logp[i] - o->old[i];
		const struct rf_policy_token t = rf_policy_token(p, o->logp[i], lr, o->A[i]);
		struct rf_policy_kl kl = { 0, 0 };

		if (p->kl_coef != 0)
			kl = rf_policy_kl(p->kl, o->logp[i], o->ref[i]);
		x->loss[i] = t.loss;
		x->kl[i] = kl.value;
		x->dlogp[i] = t.dlogp + p->kl_coef * kl.dlogp;
	}
}

static double sum_of(const struct rf_policy *p, const struct rollout *o)
{
	struct result x;
	double sum = 0;

	compute(p, o, &x);
	for (int i = 0; i < o->length; i++)
		sum += x.loss[i] + p->kl_coef * x.kl[i];
	return sum;
}

/* The derivatives of a rollout's loss by each log-probability, for the ratio of the whole rollout, too. */
static void test_sequences(void)
{
	const double h = 1e-6;
	double worst = 0;
	int clipped = 0, free = 0;

	for (uint64_t n = 0; n < 4000; n++) {
		struct rf_policy p = RF_POLICY_DEFAULTS;
		struct rollout o = { .length = 1 + (int)(n % MOST) };
		struct result x;
		bool kink = false;
		double s;

		p.ratio = RF_RATIO_SEQUENCE;
		p.clip_high = n % 3 ? 0.28 : NAN;
		p.kl_coef = n % 4 ? 0 : 0.3;
		p.kl = (enum rf_kl)(n / 4 % 3);
		for (int i = 0; i < o.length; i++) {
			o.logp[i] = -4 * noise(100 * n + (uint64_t)i);
			o.old[i] = o.logp[i] + 3 * noise(100 * n + (uint64_t)i + 20) - 1.5;
			o.ref[i] = o.logp[i] + noise(100 * n + (uint64_t)i + 40) - 0.5;
			o.A[i] = 4 * noise(100 * n + 60) - 2;
		}
		s = exp(mean_log_ratio(&o));
		compute(&p, &o, &x);
		for (int i = 0; i < 4; i++)
			kink |= fabs(s - (const double[]){ 0.8, 1.2, 1.28, 3 }[i]) < 1e-4;
		if (kink)
			continue;
		clipped += x.dlogp[0] == 0;
		free += x.dlogp[0] != 0;
		for (int i = 0; i < o.length; i++) {
			struct rollout up = o, down = o;

			up.logp[i] += h;
			down.logp[i] -= h;
			worst = fmax(worst,
			             fabs((sum_of(&p, &up) - sum_of(&p, &down)) / (2 * h) - x.dlogp[i]));
		}
	}
	ok(worst < 1e-8 && clipped > 500 && free > 500,
	   "policy: the derivatives of sequence ratios equal finite differences, off by %.1e", worst);
}

/* With the weight of a ratio held constant, the derivative of CISPO is that of a weighted log-probability. */
static void test_weighted(void)
{
	double worst = 0;

	for (uint64_t n = 0; n < 1000; n++) {
		struct rf_policy p = { .objective = RF_OBJECTIVE_CISPO, .clip = 0.2, .clip_high = 0.5 };
		const double logp = -5 * noise(n), lr = 2 * noise(n + 2000) - 1, A = 4 * noise(n + 4000) - 2,
			     h = 1e-4;
		const double up = rf_policy_token(&p, logp + h, lr, A).loss,
			     down = rf_policy_token(&p, logp - h, lr, A).loss;

		worst = fmax(worst, fabs((up - down) / (2 * h) - rf_policy_token(&p, logp, lr, A).dlogp));
	}
	ok(worst < 1e-10, "policy: the derivative of CISPO equals finite differences, off by %.1e", worst);
}

static void test_means(void)
{
	struct rf_policy p = RF_POLICY_DEFAULTS;
	const float logp[] = { -1, 9, -2, 9, -4.5f }, old[] = { -1.5f, -1, -4 };

	ok(rf_policy_weight(&p, 3) == 1 && rf_policy_terms(&p, 4, 9, 5) == 9,
	   "policy: the mean of tokens has a term for each token");
	p.mean = RF_RL_MEAN_ROLLOUTS;
	ok(rf_policy_weight(&p, 4) == 0.25 && rf_policy_terms(&p, 4, 9, 5) == 4,
	   "policy: the mean of rollouts has a term for each rollout");
	p.mean = RF_RL_MEAN_CONSTANT;
	ok(rf_policy_weight(&p, 4) == 1 && rf_policy_terms(&p, 4, 9, 5) == 20,
	   "policy: the constant mean has k terms for each rollout");
	ok(rf_policy_mean_log_ratio(logp, 2, old, 3) == (0.5 - 1 - 0.5) / 3,
	   "policy: the log-ratio of a rollout is a mean over its tokens");
}

/* ---- baselines ------------------------------------------------------------------------------ */

static void test_baselines(void)
{
	struct rf_advantage a = RF_ADVANTAGE_DEFAULTS;
	const float R[] = { 0.25f, 1, 0.5f, 0.75f }, same[] = { 0.1f, 0.1f, 0.1f };
	double A[4], sum = 0;
	struct rf_err e;

	a.baseline = RF_BASELINE_LOO;
	ok(rf_advantage_group(&a, R, 4, A, &e) == RF_OK && A[0] == 0.25 - 0.75 && A[1] == 1 - 0.5,
	   "advantage: leave-one-out subtracts the mean of the other rewards");
	for (int g = 0; g < 4; g++)
		sum += A[g];
	ok(fabs(sum) < 1e-15, "advantage: leave-one-out advantages sum up to 0");
	rf_advantage_group(&a, same, 3, A, &e);
	ok(A[0] == 0 && A[1] == 0 && A[2] == 0, "advantage: leave-one-out of equal rewards is exactly 0");
	ok(rf_advantage_group(&a, R, 1, A, &e) == RF_EDATA,
	   "advantage: leave-one-out of one reward is an error");

	a.baseline = RF_BASELINE_RUNNING;
	rf_advantage_group(&a, R, 4, A, &e);
	ok(A[0] == 0.25 - 0.75, "advantage: the first batch of a running baseline leaves one out");
	ok(rf_advantage_next(&a, 0.5) == 0.5,
	   "advantage: the first running baseline is the mean of the batch");
	a.running = 0.5;
	ok(rf_advantage_next(&a, 1.5) == 0.9 * 0.5 + (1 - 0.9) * 1.5,
	   "advantage: a running baseline decays by 0.9");
	ok(rf_advantage_group(&a, R, 4, A, &e) == RF_OK && A[0] == -0.25 && A[1] == 0.5 && A[2] == 0,
	   "advantage: a running baseline is subtracted");
	ok(rf_advantage_group(&a, R, 1, A, &e) == RF_OK && A[0] == -0.25,
	   "advantage: a running baseline needs no group");
}

static void test_zero_spread(void)
{
	struct rf_advantage a = { .zero_spread = RF_ZERO_SPREAD_DROP };
	float R[] = { 0.5f, 0.5f, 0.5f, 0.25f }, own[] = { 1, 1, 1, 2, 3, 3, 3, 7 };
	int32_t length[] = { 2, 1, 2, 1 };
	struct rf_record r;

	rf_record_init(&r);
	r.c = 2;
	r.rollout = (struct rf_rollout){ .n = 2, .k = 2, .tokens = (int32_t[8]){ 0 }, .length = length };
	r.reward = (struct rf_reward){ .kind = "x", .n = 2, .total = R, .per_token = own };
	ok(!rf_advantage_counts(&a, &r, 0) && !rf_advantage_counts(&a, &r, 1) &&
	           rf_advantage_counts(&a, &r, 2) && rf_advantage_counts(&a, &r, 3),
	   "advantage: drop leaves out the group of equal rewards");
	a.from = RF_FROM_TOKEN;
	ok(!rf_advantage_counts(&a, &r, 1) && !rf_advantage_counts(&a, &r, 3),
	   "advantage: drop compares the rewards of tokens before the end of each rollout");
	own[5] = 4;
	ok(rf_advantage_counts(&a, &r, 3), "advantage: drop keeps a group with one other token");
	a.from = RF_FROM_STREAM;
	ok(rf_advantage_counts(&a, &r, 0), "advantage: advantages of the stream all count");
	a = (struct rf_advantage){ .zero_spread = RF_ZERO_SPREAD_DROP, .group = RF_GROUP_SEQUENCE };
	ok(rf_advantage_counts(&a, &r, 0),
	   "advantage: drop compares the whole sequence if that is the group");
	a.zero_spread = RF_ZERO_SPREAD_KEEP;
	a.group = RF_GROUP_POSITION;
	ok(rf_advantage_counts(&a, &r, 0), "advantage: keep counts every rollout");
}

/* ---- the reference figures of policy.json ---------------------------------------------------- */

static double real(const json_t *of, const char *key) { return json_number_value(json_object_get(of, key)); }

static int word(const json_t *of, const char *key, const char *words)
{
	return rf_opt_index(words, json_string_value(json_object_get(of, key)));
}

/* Reads numbers; a number stands for a list of `most` equal ones. */
static int read_numbers(const json_t *x, double *to, int most)
{
	for (int i = 0; i < most; i++)
		to[i] = json_number_value(json_is_array(x) ? json_array_get(x, (size_t)i) : x);
	return (int)json_array_size(x);
}

/* Returns the larger of two differences; a NaN is the largest. */
static double worse(double a, double b) { return b <= a ? a : b; }

/* Returns the largest difference of n numbers from a list, relative to the larger of 1 and the number.
 * Infinity: the list has another length. */
static double off(const double *have, const json_t *list, int n)
{
	double want[MOST], worst = read_numbers(list, want, n) == n ? 0 : INFINITY;

	for (int i = 0; i < n; i++)
		worst = worse(worst, fabs(have[i] - want[i]) / fmax(1, fabs(want[i])));
	return worst;
}

static void test_variant(const json_t *variant)
{
	const json_t *s = json_object_get(variant, "settings"),
		     *rollouts = json_object_get(variant, "rollouts");
	const struct rf_policy p = {
		.objective = (enum rf_objective)word(s, "objective", RF_OBJECTIVE_WORDS),
		.ratio = (enum rf_ratio)word(s, "ratio", RF_RATIO_WORDS),
		.clip = real(s, "eps_low"),
		.clip_high = real(s, "eps_high"),
		.dual_clip = real(s, "c_dual"),
		.kl_coef = real(s, "kl_coef"),
		.kl = (enum rf_kl)word(s, "kl", RF_KL_WORDS),
	};
	double worst = 0;
	json_t *x;
	size_t i;

	json_array_foreach (rollouts, i, x) {
		struct rollout o = { .length = (int)json_array_size(json_object_get(x, "logp")) };
		struct result r;

		read_numbers(json_object_get(x, "logp"), o.logp, o.length);
		read_numbers(json_object_get(x, "old"), o.old, o.length);
		read_numbers(json_object_get(x, "ref"), o.ref, o.length);
		read_numbers(json_object_get(x, "A"), o.A, o.length);
		compute(&p, &o, &r);
		worst = worse(worst,
		              off(r.loss, json_array_get(json_object_get(variant, "loss"), i), o.length));
		worst = worse(worst, off(r.kl, json_array_get(json_object_get(variant, "kl"), i), o.length));
		worst = worse(worst,
		              off(r.dlogp, json_array_get(json_object_get(variant, "dlogp"), i), o.length));
	}
	/* 1e-8: the reference's gradient of GSPO-token does not end at the clamp, where it is e^-20 */
	ok(i == 12 &&
	           worst < (json_is_array(json_object_get(json_array_get(rollouts, 0), "A")) ? 1e-8 : 1e-12),
	   "reference: losses and derivatives of %s agree, off by %.1e",
	   json_string_value(json_object_get(variant, "name")), worst);
}

static void test_reference(const char *golden)
{
	char path[4096];
	json_error_t why;
	json_t *all, *variant;
	size_t i;

	snprintf(path, sizeof path, "%s/losses/policy.json", golden);
	all = json_load_file(path, 0, &why);
	ok(json_array_size(all) == 18, "reference: %s has 18 variants", path);
	json_array_foreach (all, i, variant)
		test_variant(variant);
	json_decref(all);
}

int main(int argc, char *argv[])
{
	test_reference(argc > 1 ? argv[1] : "t/golden");
	test_grid();
	test_bounds();
	test_variants_of_a_token();
	test_kl();
	test_kl_means();
	test_sequences();
	test_weighted();
	test_means();
	test_baselines();
	test_zero_spread();
	return tap_end();
}
