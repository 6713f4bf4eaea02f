/* tally.c -- computes means, their intervals, and paired differences. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "score/tally.h"

/* ---- groups -------------------------------------------------------------------------------- */

struct rf_score_group *rf_tally_group(struct rf_tally *t, const char *first, const char *rest)
{
	struct rf_score_group *g;

	for (size_t i = t->n; i-- > 0;)
		if (!strcmp(t->group[i].first, first) && !strcmp(t->group[i].rest, rest))
			return &t->group[i];
	if (!rf_grow(&t->group, t->n, &t->cap, sizeof *g))
		return NULL;
	g = &t->group[t->n];
	*g = (struct rf_score_group){ .first = rf_region_text(&t->names, first, strlen(first)),
		                      .rest = rf_region_text(&t->names, rest, strlen(rest)) };
	if (!g->first || !g->rest)
		return NULL;
	t->n++;
	return g;
}

enum rf_code rf_tally_add(struct rf_score_group *g, struct rf_scored s, struct rf_err *e)
{
	if (!rf_grow(&g->of, g->n, &g->cap, sizeof *g->of))
		return rf_fail(e, RF_ENOMEM, "out of memory (%zu scores)", g->n);
	g->of[g->n++] = s;
	return RF_OK;
}

void rf_tally_free(struct rf_tally *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->group[i].of);
	free(t->group);
	rf_region_free(&t->names);
	*t = (struct rf_tally){ 0 };
}

/* ---- means --------------------------------------------------------------------------------- */

/* Returns the probability that |t| is below x: 1 - I_{df/(df + x^2)}(df/2, 1/2), by the finite sums for
 * whole df (Abramowitz and Stegun 26.7.3 and 26.7.4). */
static double within(double x, int df)
{
	double theta = atan(x / sqrt(df)), c = cos(theta), sum = 0, term = df % 2 ? c : 1;

	for (int i = df % 2 ? 3 : 2; i <= df; i += 2) {
		sum += term;
		term *= c * c * (i - 1) / i;
	}
	return df % 2 ? 2 / M_PI * (theta + sin(theta) * sum) : sin(theta) * sum;
}

/* Returns the 0.975 quantile of Student's distribution with df >= 1 degrees of freedom. */
static double student(double df)
{
	/* from df = 10,000 on the quantile is within 1e-4 of that of the normal distribution */
	double low = 1.959963984540054, high = 13;

	if (df >= 10000)
		return low + (low * low * low + low) / (4 * df);
	for (int i = 0; i < 60; i++) {
		double mid = (low + high) / 2;
		*(within(mid, (int)df) < 0.95 ? &low : &high) = mid;
	}
	return high;
}

/* Returns the probability that at most x of n are right, each with probability p in (0, 1). */
static double at_most(size_t x, size_t n, double p)
{
	const double N = (double)n, all = lgamma(N + 1), right = log(p), wrong = log1p(-p);
	double sum = 0;

	for (size_t i = 0; i <= x; i++)
		sum += exp(all - lgamma((double)i + 1) - lgamma(N - (double)i + 1) + (double)i * right +
		           (N - (double)i) * wrong);
	return sum;
}

/* Returns the proportion for which at most x of n have the probability 0.025. */
static double greatest(size_t x, size_t n)
{
	double low = 0, high = 1;

	if (x == n)
		return 1;
	for (int i = 0; i < 60; i++) {
		double mid = (low + high) / 2;
		*(at_most(x, n, mid) > 0.025 ? &low : &high) = mid;
	}
	return high;
}

/* Computes the exact 95 % interval of a proportion if x of n >= 1 were observed. */
static void exact(size_t x, size_t n, double *low, double *high)
{
	*low = 1 - greatest(n - x, n);
	*high = greatest(x, n);
}

/* Returns the mean with its interval.  least: the least possible mean; the greatest is 1. */
static struct rf_mean interval(size_t n, double mean, double se, double df, double least)
{
	double t = df >= 1 ? student(df) : NAN, low = mean - t * se, high = mean + t * se;

	return (struct rf_mean){ n, mean, se, low < least ? least : low, high > 1 ? 1 : high, false };
}

static struct rf_mean mean_of(const double *x, size_t stride, size_t n, double least)
{
	double sum = 0, squares = 0, mean;

	for (size_t i = 0; i < n; i++)
		sum += x[i * stride];
	mean = sum / (double)n;
	for (size_t i = 0; i < n; i++)
		squares += (x[i * stride] - mean) * (x[i * stride] - mean);
	return interval(n, mean, n > 1 ? sqrt(squares / (double)(n - 1) / (double)n) : NAN, (double)n - 1,
	                least);
}

/* Counts the scores of 1.  Returns false if a score is neither 0 nor 1, or if there is only one. */
static bool proportion(const struct rf_score_group *g, size_t *right)
{
	*right = 0;
	for (size_t i = 0; i < g->n; i++) {
		if (g->of[i].score != 0 && g->of[i].score != 1)
			return false;
		*right += g->of[i].score == 1;
	}
	return g->n > 1;
}

struct rf_mean rf_tally_mean(const struct rf_score_group *g)
{
	struct rf_mean m = mean_of(&g->of->score, sizeof *g->of / sizeof(double), g->n, 0);
	size_t right;

	if (proportion(g, &right)) {
		exact(right, g->n, &m.low, &m.high);
		m.proportions = true;
	}
	return m;
}

struct rf_mean rf_tally_mean_of(const struct rf_mean *of, size_t k)
{
	double sum = 0, variance = 0, df = 0, below = 0, above = 0, least = 0;
	struct rf_mean m;
	size_t n = 0;
	bool proportions = false;

	for (size_t i = 0; i < k; i++) {
		sum += of[i].mean;
		variance += of[i].se * of[i].se;
		df += pow(of[i].se, 4) / ((double)of[i].n - 1); /* Welch and Satterthwaite */
		n += of[i].n;
		below += (of[i].mean - of[i].low) * (of[i].mean - of[i].low);
		above += (of[i].high - of[i].mean) * (of[i].high - of[i].mean);
		proportions |= of[i].proportions;
		least = of[i].low < 0 ? -1 : least; /* a difference may be as low as -1 */
	}
	df = df > 0 ? floor(variance * variance / df) : (double)n - (double)k;
	m = interval(n, sum / (double)k, sqrt(variance) / (double)k, df, least);
	if (proportions && !isnan(below + above)) {
		m.proportions = true;
		m.low = m.mean - sqrt(below) / (double)k;
		m.high = m.mean + sqrt(above) / (double)k;
	}
	return m;
}

/* ---- pairs --------------------------------------------------------------------------------- */

static int by_id(const void *x, const void *y)
{
	const struct rf_scored *a = x, *b = y;

	return (a->id > b->id) - (a->id < b->id);
}

static enum rf_code sorted(struct rf_score_group *g, struct rf_err *e)
{
	qsort(g->of, g->n, sizeof *g->of, by_id);
	for (size_t i = 1; i < g->n; i++)
		if (g->of[i].id == g->of[i - 1].id)
			return rf_fail(e, RF_EDATA,
			               "%s: the id %llu occurs twice, so its questions cannot "
			               "be paired (rf-cat --renumber)",
			               g->first, (unsigned long long)g->of[i].id);
	return RF_OK;
}

/* Sets Wald's interval with one more pair better and one more worse. */
static void pairs_interval(struct rf_pairs *p, size_t n)
{
	const double N = (double)n + 2, better = ((double)p->better + 1) / N;
	const double worse = ((double)p->worse + 1) / N, d = better - worse;
	const double half = 1.959963984540054 * sqrt((better + worse - d * d) / N);

	p->difference.low = d - half < -1 ? -1 : d - half;
	p->difference.high = d + half > 1 ? 1 : d + half;
	p->difference.proportions = true;
}

enum rf_code rf_tally_pairs(struct rf_score_group *a, struct rf_score_group *b, struct rf_pairs *p,
                            struct rf_err *e)
{
	double *d;
	size_t right;
	enum rf_code rc;

	*p = (struct rf_pairs){ .better = 0 };
	if ((rc = sorted(a, e)) != RF_OK || (rc = sorted(b, e)) != RF_OK)
		return rc;
	if (!(d = calloc(a->n ? a->n : 1, sizeof *d)))
		return rf_fail(e, RF_ENOMEM, "out of memory (%zu differences)", a->n);
	for (size_t i = 0; i < a->n && rc == RF_OK; i++) {
		if (i >= b->n || a->of[i].id != b->of[i].id)
			rc = rf_fail(e, RF_EDATA, "%s: the question %llu has an answer in one of both only",
			             a->first,
			             (unsigned long long)(i >= b->n || a->of[i].id < b->of[i].id
			                                          ? a->of[i].id
			                                          : b->of[i].id));
		else if (a->of[i].question != b->of[i].question)
			rc = rf_fail(e, RF_EDATA, "%s: the id %llu stands for two different questions",
			             a->first, (unsigned long long)a->of[i].id);
		else {
			d[i] = a->of[i].score - b->of[i].score;
			p->better += d[i] > 0;
			p->worse += d[i] < 0;
		}
	}
	if (rc == RF_OK && b->n > a->n)
		rc = rf_fail(e, RF_EDATA, "%s: the question %llu has an answer in one of both only", a->first,
		             (unsigned long long)b->of[a->n].id);
	if (rc == RF_OK) {
		p->difference = mean_of(d, 1, a->n, -1);
		if (proportion(a, &right) && proportion(b, &right))
			pairs_interval(p, a->n);
	}
	free(d);
	return rc;
}
