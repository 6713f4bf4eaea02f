/* figures.c -- adds up the figures of a mini-batch from the shares of its records.
 *
 * Spreads are added up with the formula of Chan et al. 1979, which is numerically stable. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/utf8.h"
#include "train/figures.h"

/* Copies at most `most` bytes of a name, and only whole characters. */
static void copy_name(char *to, const char *name, size_t most)
{
	size_t n = strnlen(name, most);

	n -= rf_utf8_unfinished(name, n);
	memcpy(to, name, n);
	to[n] = 0;
}

/* Returns the spread of n numbers. */
static struct rf_spread spread_of(const float *x, size_t n)
{
	struct rf_spread s = { .n = n };

	for (size_t i = 0; i < n; i++)
		s.sum += (double)x[i];
	for (size_t i = 0; i < n; i++)
		s.square += ((double)x[i] - s.sum / (double)n) * ((double)x[i] - s.sum / (double)n);
	return s;
}

/* Adds the numbers of *b to those of *a (Chan et al. 1979). */
static void add_spread(struct rf_spread *a, const struct rf_spread *b)
{
	if (a->n && b->n) {
		const double n = (double)a->n, m = (double)b->n, apart = b->sum / m - a->sum / n;

		a->square += apart * apart * n * m / (n + m);
	}
	a->n += b->n;
	a->sum += b->sum;
	a->square += b->square;
}

double rf_spread_mean(const struct rf_spread *s) { return s->n ? s->sum / (double)s->n : NAN; }

double rf_spread_std(const struct rf_spread *s)
{
	return s->n > 1 ? sqrt(s->square / (double)(s->n - 1)) : NAN;
}

/* Returns the spread of the rewards from which the advantages of one group were computed. */
static struct rf_spread group_of(const struct rf_record *r, const struct rf_advantage *a, size_t from,
                                 size_t G)
{
	const struct rf_rollout *o = &r->rollout;
	struct rf_spread all = { .n = 0 };

	if (a->from == RF_FROM_REWARD)
		return spread_of(r->reward.total + from, G);
	for (size_t g = from; g < from + G; g++) {
		const struct rf_spread one =
			spread_of(r->reward.per_token + g * (size_t)o->k, (size_t)rf_rollout_length(o, g));

		add_spread(&all, &one);
	}
	return all;
}

/* Adds the standard deviations of the record's groups. */
static void add_groups(struct rf_share *s, const struct rf_record *r, const struct rf_advantage *a)
{
	const size_t G = (size_t)rf_advantage_size(a->group, r), all = (size_t)r->c * (size_t)r->reward.n;

	if (a->from == RF_FROM_STREAM || (a->from == RF_FROM_TOKEN && !r->reward.per_token))
		return;
	for (size_t from = 0; G > 1 && from < all; from += G) {
		const struct rf_spread one = group_of(r, a, from, G);

		s->group_std += rf_spread_std(&one);
		s->groups++;
	}
}

/* Adds how the record's rewards vary between positions and within them. */
static void add_positions(struct rf_share *s, const struct rf_record *r)
{
	const struct rf_reward *w = &r->reward;
	const size_t n = (size_t)w->n, all = (size_t)r->c * n;
	struct rf_variance *v = &s->variance;

	if (n < 2 || r->c < 2)
		return;
	for (size_t from = 0; from < all; from += n) {
		const struct rf_spread one = spread_of(w->total + from, n);
		const double apart = rf_spread_mean(&one) - rf_spread_mean(&s->reward);

		v->within += one.square;
		v->between += (double)n * apart * apart;
	}
	v->within_df = all - (size_t)r->c;
	v->between_df = (uint64_t)r->c - 1;
	v->per = n * v->between_df;
}

void rf_share_of(struct rf_share *s, const struct rf_record *r, const struct rf_advantage *a,
                 const struct rf_counts *count)
{
	const struct rf_reward *w = &r->reward;
	const size_t rewarded = w->kind ? (size_t)r->c * (size_t)w->n : 0;

	/* clang-format off */
	*s = (struct rf_share){ .id = r->id, .tokens = (uint64_t)r->T, .hash = rf_record_hash(r),
	                        .ntp_tokens = count->ntp, .position_tokens = count->positions,
	                        .rl_tokens = count->rl, .rl_terms = count->rl_terms,
	                        .uncertain = r->entropy ? (uint64_t)r->T : 0, .parts = w->parts };
	/* clang-format on */
	for (uint64_t i = 0; i < s->uncertain; i++)
		s->entropy += (double)r->entropy[i];
	if (!rewarded)
		return;
	copy_name(s->kind, w->kind, RF_KIND_NAME);
	s->reward = spread_of(w->total, rewarded);
	add_groups(s, r, a);
	add_positions(s, r);
	for (int i = 0; i < w->parts; i++) {
		copy_name(s->part[i].name, w->part[i].name, RF_PART_NAME);
		s->part[i].of = spread_of(w->part[i].value, rewarded);
	}
}

static void add_part(struct rf_train_stats *st, const struct rf_part_spread *p)
{
	int at = 0;

	while (at < st->parts && strcmp(st->part[at].name, p->name))
		at++;
	if (at == RF_PART_MEANS)
		return;
	if (at == st->parts)
		memcpy(st->part[st->parts++].name, p->name, sizeof p->name);
	add_spread(&st->part[at].of, &p->of);
}

int rf_share_by_id(const void *a, const void *b)
{
	const struct rf_share *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

static double divide(double sum, double n) { return n > 0 ? sum / n : sum; }

/* Returns the fraction of the variance of the rewards that lies between positions.  A negative estimate of
 * the component between positions counts as 0. */
static double position_share(const struct rf_variance *v)
{
	double within, between;

	if (!v->within_df || !v->between_df)
		return NAN;
	within = v->within / (double)v->within_df;
	between = (v->between / (double)v->between_df - within) / ((double)v->per / (double)v->between_df);
	between = between > 0 ? between : 0;
	return between + within > 0 ? between / (between + within) : NAN;
}

static void add_variance(struct rf_variance *a, const struct rf_variance *b)
{
	a->within += b->within;
	a->between += b->between;
	a->within_df += b->within_df;
	a->between_df += b->between_df;
	a->per += b->per;
}

void rf_figures(struct rf_train_stats *st, struct rf_share *s, int n, double ntp_weight)
{
	uint64_t uncertain = 0, clipped = 0, high = 0, dual = 0, groups = 0, rl_terms = 0;
	struct rf_spread reward = { .n = 0 };
	struct rf_variance variance = { .within_df = 0 };
	double R, terms, group_std = 0;

	*st = (struct rf_train_stats){
		.records = n, .norm_rl = NAN, .norm_ntp = NAN, .grad_cosine = NAN, .grad_norm = NAN
	};
	qsort(s, (size_t)n, sizeof *s, rf_share_by_id);
	for (int i = 0; i < n; i++) {
		st->records_hash = XXH64(&s[i].hash, sizeof s[i].hash, st->records_hash);
		st->tokens += s[i].tokens;
		st->ntp_tokens += s[i].ntp_tokens;
		st->ntp_sequences += s[i].ntp_tokens > 0;
		st->position_tokens += s[i].position_tokens;
		st->rl_tokens += s[i].rl_tokens;
		rl_terms += s[i].rl_terms;
		add_spread(&reward, &s[i].reward);
		add_variance(&variance, &s[i].variance);
		group_std += s[i].group_std;
		groups += s[i].groups;
		uncertain += s[i].uncertain;
		st->entropy += s[i].entropy;
		if (*s[i].kind && strcmp(s[i].kind, st->kind))
			strcpy(st->kind, *st->kind ? "mixed" : s[i].kind);
		for (int k = 0; k < s[i].parts; k++)
			add_part(st, &s[i].part[k]);
		st->loss_ntp += s[i].loss_ntp;
		st->loss_positions += s[i].loss_positions;
		st->loss_rl += s[i].loss_rl;
		st->kl_ref += s[i].kl_ref;
		st->rl_entropy += s[i].rl_entropy;
		st->kl += s[i].kl;
		st->kl3 += s[i].kl3;
		st->abs_diff += s[i].abs_diff;
		st->ratio_max = s[i].ratio_max > st->ratio_max ? s[i].ratio_max : st->ratio_max;
		clipped += s[i].clipped;
		high += s[i].high;
		dual += s[i].dual;
		st->clamped += s[i].clamped;
	}
	R = (double)st->rl_tokens;
	terms = (double)rl_terms;
	st->entropy = uncertain ? st->entropy / (double)uncertain : NAN;
	st->rollouts = reward.n;
	st->reward = reward.n ? rf_spread_mean(&reward) : 0;
	st->reward_std = rf_spread_std(&reward);
	st->group_std = groups ? group_std / (double)groups : NAN;
	st->position_share = position_share(&variance);
	st->loss_ntp = divide(st->loss_ntp, ntp_weight);
	st->loss_positions = divide(st->loss_positions, (double)st->position_tokens);
	st->loss_rl = divide(st->loss_rl, terms);
	st->kl_ref = divide(st->kl_ref, terms);
	st->rl_entropy = divide(st->rl_entropy, terms);
	st->kl = divide(st->kl, R);
	st->kl3 = divide(st->kl3, R);
	st->abs_diff = divide(st->abs_diff, R);
	st->clip_fraction = divide((double)clipped, R);
	st->high_fraction = divide((double)high, R);
	st->dual_fraction = divide((double)dual, R);
}
