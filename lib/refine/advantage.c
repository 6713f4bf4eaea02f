/* advantage.c -- advantages within a group.
 *
 * Rewards are compared to find whether all of them are equal.  Otherwise the rounding error of their mean
 * could be divided by a deviation of almost 0, and noise of 1e-8 would become advantages of 1. */
#include <math.h>
#include <string.h>

#include "refine/advantage.h"

void rf_advantage_options(struct rf_advantage *a, struct rf_opts *opts)
{
	const struct rf_opt table[] = {
		OPT_ENUM("advantage", &a->from, RF_FROM_WORDS,
		         "compute advantages from rewards of rollouts or tokens, or take those of the stream",
		         .noted = RF_OPT_RESULT),
		OPT_ENUM("group", &a->group, RF_GROUP_WORDS,
		         "rollouts to compare; auto: of a position, or of the sequence if n is 1",
		         .noted = RF_OPT_RESULT),
		OPT_ENUM("baseline", &a->baseline, RF_BASELINE_WORDS,
		         "rewards to subtract: the mean of the group, of its other rollouts, or of batches",
		         .noted = RF_OPT_RESULT),
		OPT_REAL("baseline-decay", &a->decay, 0, 1, "d",
		         "running baseline: weight of its old value after each batch",
		         .noted = RF_OPT_RESULT),
		OPT_ENUM("zero-spread", &a->zero_spread, RF_ZERO_SPREAD_WORDS,
		         "drop: leave groups of equal rewards out of the policy loss and its means",
		         .noted = RF_OPT_RESULT),
		OPT_FLAG("no-std", &a->no_std, "do not divide advantages by the standard deviation",
		         .noted = RF_OPT_RESULT),
		OPT_FLAG("allow-single", &a->allow_single,
		         "accept groups of one rollout: the advantage is the reward", .noted = RF_OPT_RESULT),
		OPT_END,
	};

	rf_opts_add(opts, table);
}

int rf_advantage_size(enum rf_advantage_group group, const struct rf_record *r)
{
	const int n = r->rollout.n;

	return group == RF_GROUP_SEQUENCE || (group == RF_GROUP_AUTO && n == 1) ? r->c * n : n;
}

/* Returns whether a group has two or more rewards, and all of them are equal. */
static bool all_equal(const float *R, int G)
{
	for (int g = 1; g < G; g++)
		if (R[g] != R[0])
			return false;
	return G > 1;
}

static enum rf_code refuse_single(struct rf_err *e)
{
	return rf_fail(e, RF_EDATA,
	               "a group of one rollout has nothing to compare it with (use more rollouts, another "
	               "--group, or --allow-single)");
}

/* Computes A (G) = (R - mean) / (std + 1e-6); with no_std it does not divide. */
static void standardize(const struct rf_advantage *a, const float *R, int G, double *A)
{
	double mean = 0, square = 0, scale = 1;
	const bool equal = all_equal(R, G);

	for (int g = 0; g < G; g++)
		mean += R[g];
	mean /= G;
	for (int g = 0; g < G; g++)
		square += (R[g] - mean) * (R[g] - mean);
	if (!a->no_std)
		scale = sqrt(square / (G - 1)) + 1e-6;
	for (int g = 0; g < G; g++)
		A[g] = equal ? 0 : (R[g] - mean) / scale;
}

/* Computes A (G) = R - the mean of the other rewards. */
static void leave_one_out(const float *R, int G, double *A)
{
	const bool equal = all_equal(R, G);
	double sum = 0;

	for (int g = 0; g < G; g++)
		sum += R[g];
	for (int g = 0; g < G; g++)
		A[g] = equal ? 0 : R[g] - (sum - R[g]) / (G - 1);
}

static bool has_running(const struct rf_advantage *a)
{
	return a->baseline == RF_BASELINE_RUNNING && !isnan(a->running);
}

enum rf_code rf_advantage_group(const struct rf_advantage *a, const float *R, int G, double *A,
                                struct rf_err *e)
{
	if (has_running(a)) {
		for (int g = 0; g < G; g++)
			A[g] = R[g] - a->running;
		return RF_OK;
	}
	if (G < 2 && !a->allow_single)
		return refuse_single(e);
	if (G < 2)
		A[0] = R[0];
	else if (a->baseline == RF_BASELINE_GROUP)
		standardize(a, R, G, A);
	else
		leave_one_out(R, G, A);
	return RF_OK;
}

double rf_advantage_next(const struct rf_advantage *a, double mean)
{
	return isnan(a->running) ? mean : a->decay * a->running + (1 - a->decay) * mean;
}

enum rf_code rf_advantage_tokens(const struct rf_advantage *a, const struct rf_rollout *o, const float *r,
                                 size_t from, int G, float *own, double *A, struct rf_err *e)
{
	const size_t k = (size_t)o->k;
	int N = 0;

	if (G < 2 && !a->allow_single)
		return refuse_single(e);
	for (size_t g = from; g < from + (size_t)G; g++)
		for (int j = 0; j < rf_rollout_length(o, g); j++)
			own[N++] = r[g * k + (size_t)j];
	if (G < 2)
		for (int i = 0; i < N; i++)
			A[i] = own[i];
	else
		standardize(a, own, N, A);
	/* from the last token back: the sum over a token and all later tokens of its rollout */
	for (size_t g = from + (size_t)G, i = (size_t)N; g-- > from;)
		for (int j = rf_rollout_length(o, g) - 1; j >= 0; j--) {
			i--;
			A[i] += j + 1 < rf_rollout_length(o, g) ? A[i + 1] : 0;
		}
	return RF_OK;
}

bool rf_advantage_counts(const struct rf_advantage *a, const struct rf_record *r, size_t b)
{
	const struct rf_rollout *o = &r->rollout;
	const size_t G = (size_t)rf_advantage_size(a->group, r), from = b / G * G, k = (size_t)o->k;

	if (a->zero_spread == RF_ZERO_SPREAD_KEEP || a->from == RF_FROM_STREAM || G < 2)
		return true;
	if (a->from == RF_FROM_REWARD)
		return !all_equal(r->reward.total + from, (int)G);
	for (size_t g = from; g < from + G; g++)
		for (int j = 0; j < rf_rollout_length(o, g); j++)
			if (r->reward.per_token[g * k + (size_t)j] != r->reward.per_token[from * k])
				return true;
	return false;
}

/* Stores an advantage as float32.  Errors: RF_ENUMERIC: float32 cannot hold it. */
static enum rf_code store_advantage(float *to, double A, double reward, struct rf_err *e)
{
	*to = (float)A;
	return isfinite(*to)
	               ? RF_OK
	               : rf_fail(e, RF_ENUMERIC,
	                         "the advantage of reward %g is %g, which float32 cannot hold", reward, A);
}

/* Writes one advantage for each rollout. */
static enum rf_code rollout_advantages(const struct rf_advantage *a, struct rf_record *r, int G,
                                       struct rf_group_stats *st, struct rf_err *e)
{
	const int total = r->c * r->rollout.n;
	float *out = rf_record_alloc(r, (size_t)total, sizeof *out);
	double *A = rf_record_alloc(r, (size_t)G, sizeof *A);
	enum rf_code rc = RF_OK;

	if (!out || !A)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	for (int from = 0; from < total; from += G) {
		const float *R = r->reward.total + from;

		rc = rf_advantage_group(a, R, G, A, e);
		for (int g = 0; rc == RF_OK && g < G; g++)
			rc = store_advantage(&out[from + g], A[g], (double)R[g], e);
		if (rc != RF_OK)
			return rc;
		st->groups++;
		st->spread_free += all_equal(R, G);
	}
	r->advantage = out;
	return RF_OK;
}

/* Writes one advantage for each token; 0 after the end of a rollout. */
static enum rf_code token_advantages(const struct rf_advantage *a, struct rf_record *r, int G,
                                     struct rf_group_stats *st, struct rf_err *e)
{
	const struct rf_rollout *o = &r->rollout;
	const size_t total = (size_t)r->c * (size_t)o->n, k = (size_t)o->k;
	float *out = rf_record_alloc(r, total * k, sizeof *out), *own;
	double *A = rf_record_alloc(r, (size_t)G * k, sizeof *A);
	enum rf_code rc;

	own = rf_record_alloc(r, (size_t)G * k, sizeof *own);
	if (!out || !A || !own)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	memset(out, 0, total * k * sizeof *out);
	for (size_t from = 0; from < total; from += (size_t)G) {
		int i = 0;

		rc = rf_advantage_tokens(a, o, r->reward.per_token, from, G, own, A, e);
		for (size_t g = from; rc == RF_OK && g < from + (size_t)G; g++)
			for (int j = 0; rc == RF_OK && j < rf_rollout_length(o, g); j++, i++)
				rc = store_advantage(&out[g * k + (size_t)j], A[i], (double)own[i], e);
		if (rc != RF_OK)
			return rc;
		st->groups++;
		st->spread_free += G > 1 && all_equal(own, i);
	}
	r->advantage_per_token = out;
	return RF_OK;
}

enum rf_code rf_advantage_record(const struct rf_advantage *a, struct rf_record *r, struct rf_group_stats *st,
                                 struct rf_err *e)
{
	struct rf_group_stats unused;
	const int G = rf_advantage_size(a->group, r);

	if (!r->rollout.tokens)
		return RF_OK;
	if (a->from == RF_FROM_STREAM)
		return r->advantage || r->advantage_per_token
		               ? RF_OK
		               : rf_fail(e, RF_EDATA,
		                         "the record has rollouts but no advantages, which --advantage "
		                         "stream takes from it");
	if (!r->reward.kind)
		return rf_fail(e, RF_EDATA, "the record has rollouts but no reward (rf-reward writes it)");
	if (r->reward.n != r->rollout.n)
		return rf_fail(e, RF_EDATA, "reward has %d numbers per position, but rollout has %d",
		               r->reward.n, r->rollout.n);
	if (a->from == RF_FROM_TOKEN && !r->reward.per_token)
		return rf_fail(e, RF_EDATA,
		               "the reward has no per_token, which --advantage token needs (rf-reward "
		               "--per-token writes it)");
	rf_record_drop_advantage(r);
	st = st ? st : &unused;
	return (a->from == RF_FROM_TOKEN ? token_advantages : rollout_advantages)(a, r, G, st, e);
}
