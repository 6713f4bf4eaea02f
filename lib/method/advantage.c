/* advantage.c -- advantages within a group.
 *
 * Whether all rewards are equal is found by comparing them.  Otherwise the rounding error of their mean could
 * be divided by a deviation of almost 0, and noise of 1e-8 would become advantages of 1. */
#include <math.h>

#include "method/advantage.h"

void rf_advantage_options(struct rf_advantage *a, struct rf_opt opts[RF_ADVANTAGE_OPTS])
{
	const struct rf_opt table[] = {
		{ "group", 0, RF_OPT_ENUM, &a->group, 0, 0, RF_GROUP_WORDS,
		  "rollouts to compare; auto: of a position, or of the sequence if n is 1", true },
		{ "no-std", 0, RF_OPT_FLAG, &a->no_std, 0, 0, NULL,
		  "do not divide advantages by the standard deviation", true },
		{ "allow-single", 0, RF_OPT_FLAG, &a->allow_single, 0, 0, NULL,
		  "accept groups of one rollout: the advantage is the reward", true },
		{ .name = NULL },
	};

	RF_OPT_FILL(opts, table, RF_ADVANTAGE_OPTS);
}

static bool spread_free(const float *R, int G)
{
	for (int g = 1; g < G; g++)
		if (R[g] != R[0])
			return false;
	return G > 1;
}

enum rf_code rf_advantage_group(const struct rf_advantage *a, const float *R, int G, double *A,
                                struct rf_err *e)
{
	double mean = 0, square = 0, scale = 1;
	bool equal = spread_free(R, G);

	if (G < 2 && !a->allow_single)
		return rf_fail(e, RF_EDATA,
		               "a group of one rollout has nothing to compare it with (use more rollouts, "
		               "another --group, or --allow-single)");
	if (G < 2) {
		A[0] = R[0];
		return RF_OK;
	}
	for (int g = 0; g < G; g++)
		mean += R[g];
	mean /= G;
	for (int g = 0; g < G; g++)
		square += (R[g] - mean) * (R[g] - mean);
	if (!a->no_std)
		scale = sqrt(square / (G - 1)) + 1e-6;
	for (int g = 0; g < G; g++)
		A[g] = equal ? 0 : (R[g] - mean) / scale;
	return RF_OK;
}

enum rf_code rf_advantage_record(const struct rf_advantage *a, struct rf_record *r, struct rf_group_stats *st,
                                 struct rf_err *e)
{
	int n = r->rollout.n, total = r->c * n;
	int G = a->group == RF_GROUP_SEQUENCE || (a->group == RF_GROUP_AUTO && n == 1) ? total : n;
	float *out;
	double *A;

	if (!r->rollout.tokens)
		return RF_OK;
	if (!r->reward.kind)
		return rf_fail(e, RF_EDATA, "the record has rollouts but no reward (rf-reward writes it)");
	if (r->reward.n != n)
		return rf_fail(e, RF_EDATA, "reward has %d numbers per position, but rollout has %d",
		               r->reward.n, n);
	rf_record_drop_advantage(r);
	out = rf_record_alloc(r, (size_t)total, sizeof *out);
	A = rf_record_alloc(r, (size_t)G, sizeof *A);
	if (!out || !A)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	for (int from = 0; from < total; from += G) {
		enum rf_code rc = rf_advantage_group(a, r->reward.total + from, G, A, e);

		if (rc != RF_OK)
			return rc;
		for (int g = 0; g < G; g++)
			if (!isfinite(out[from + g] = (float)A[g]))
				return rf_fail(e, RF_ENUMERIC,
				               "the advantage of reward %g is %g, which float32 cannot hold",
				               (double)r->reward.total[from + g], A[g]);
		if (st) {
			st->groups++;
			st->spread_free += spread_free(r->reward.total + from, G);
		}
	}
	r->advantage = out;
	return RF_OK;
}
