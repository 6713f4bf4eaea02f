#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/utf8.h"
#include "method/figures.h"

/* Copies at most `most` bytes of a name, and no part of a character. */
static void copy_name(char *to, const char *name, size_t most)
{
	size_t n = strnlen(name, most);

	n -= rf_utf8_unfinished(name, n);
	memcpy(to, name, n);
	to[n] = 0;
}

void rf_share_of(struct rf_share *s, const struct rf_record *r, uint64_t ntp_tokens, uint64_t rl_tokens)
{
	const struct rf_reward *w = &r->reward;
	const size_t rewarded = w->kind ? (size_t)r->c * (size_t)w->n : 0;

	*s = (struct rf_share){ .id = r->id, .tokens = (uint64_t)r->T, .hash = rf_record_hash(r),
	                        .ntp_tokens = ntp_tokens,
	                        .rl_tokens = rl_tokens, .rollouts = rewarded,
	                        .uncertain = r->entropy ? (uint64_t)r->T : 0, .parts = w->parts };
	if (rewarded)
		copy_name(s->kind, w->kind, RF_KIND_NAME);
	for (uint64_t i = 0; i < s->uncertain; i++)
		s->entropy += (double)r->entropy[i];
	for (size_t b = 0; b < rewarded; b++)
		s->reward += (double)w->total[b];
	for (int i = 0; i < w->parts; i++) {
		struct rf_part_sum *to = &s->part[i];

		copy_name(to->name, w->part[i].name, RF_PART_NAME);
		to->rollouts = rewarded;
		for (size_t b = 0; b < rewarded; b++)
			to->value += (double)w->part[i].value[b];
	}
}

static void add_part(struct rf_train_stats *st, const struct rf_part_sum *p)
{
	int at = 0;

	while (at < st->parts && strcmp(st->part[at].name, p->name))
		at++;
	if (at == RF_PART_MEANS)
		return;
	if (at == st->parts)
		memcpy(st->part[st->parts++].name, p->name, sizeof p->name);
	st->part[at].value += p->value;
	st->part[at].rollouts += p->rollouts;
}

int rf_share_by_id(const void *a, const void *b)
{
	const struct rf_share *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

static double per(double sum, double n) { return n > 0 ? sum / n : sum; }

void rf_figures(struct rf_train_stats *st, struct rf_share *s, int n, double ntp_weight)
{
	uint64_t uncertain = 0, clipped = 0, dual = 0;
	double R;

	*st = (struct rf_train_stats){ .records = n, .norm_rl = NAN, .norm_ntp = NAN, .grad_cosine = NAN,
	                               .grad_norm = NAN };
	qsort(s, (size_t)n, sizeof *s, rf_share_by_id);
	for (int i = 0; i < n; i++) {
		st->records_hash = XXH64(&s[i].hash, sizeof s[i].hash, st->records_hash);
		st->tokens += s[i].tokens;
		st->ntp_tokens += s[i].ntp_tokens;
		st->ntp_sequences += s[i].ntp_tokens > 0;
		st->rl_tokens += s[i].rl_tokens;
		st->rollouts += s[i].rollouts;
		uncertain += s[i].uncertain;
		st->entropy += s[i].entropy;
		st->reward += s[i].reward;
		if (*s[i].kind && strcmp(s[i].kind, st->kind))
			strcpy(st->kind, *st->kind ? "mixed" : s[i].kind);
		for (int k = 0; k < s[i].parts; k++)
			add_part(st, &s[i].part[k]);
		st->loss_ntp += s[i].loss_ntp;
		st->loss_rl += s[i].loss_rl;
		st->kl += s[i].kl;
		st->abs_diff += s[i].abs_diff;
		st->ratio_max = s[i].ratio_max > st->ratio_max ? s[i].ratio_max : st->ratio_max;
		clipped += s[i].clipped;
		dual += s[i].dual;
		st->clamped += s[i].clamped;
	}
	R = (double)st->rl_tokens;
	st->entropy = uncertain ? st->entropy / (double)uncertain : NAN;
	st->reward = per(st->reward, (double)st->rollouts);
	for (int i = 0; i < st->parts; i++)
		st->part[i].value = per(st->part[i].value, (double)st->part[i].rollouts);
	st->loss_ntp = per(st->loss_ntp, ntp_weight);
	st->loss_rl = per(st->loss_rl, R);
	st->kl = per(st->kl, R);
	st->abs_diff = per(st->abs_diff, R);
	st->clip_fraction = per((double)clipped, R);
	st->dual_fraction = per((double)dual, R);
}
