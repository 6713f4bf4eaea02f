/* reward.c -- how well rollouts agree with the text; computed in double, kept as float32.
 *
 * The hidden states are compared at the same positions: h_pred[j] is the state at rollout token j, h_gt[j]
 * the state at the text's token in its place (paper, eq. 8). */
#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "method/reward.h"

enum { MAX_K = 65536 };

/* A rollout of k tokens and the text that it is compared with; of both the hidden states (k, d). */
struct pair {
	const int32_t *rollout, *text;
	const float *h_pred, *h_gt;
	int k, d;
};

double rf_cosine(const float *a, const float *b, int d)
{
	double ab = 0, aa = 0, bb = 0;

	for (int i = 0; i < d; i++) {
		ab += (double)a[i] * b[i];
		aa += (double)a[i] * a[i];
		bb += (double)b[i] * b[i];
	}
	return ab / (fmax(sqrt(aa), 1e-8) * fmax(sqrt(bb), 1e-8));
}

int rf_levenshtein(const int32_t *a, int n, const int32_t *b, int m)
{
	int row[MAX_K + 1]; /* row[j]: the distance from a's first i tokens to b's first j */

	for (int j = 0; j <= m; j++)
		row[j] = j;
	for (int i = 1; i <= n; i++) {
		int diagonal = row[0];

		row[0] = i;
		for (int j = 1; j <= m; j++) {
			int best = diagonal + (a[i - 1] != b[j - 1]);

			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			diagonal = row[j];
			row[j] = best;
		}
	}
	return row[m];
}

static double cosine(const struct pair *p)
{
	size_t d = (size_t)p->d;
	double total = 0;

	for (size_t j = 0; j < (size_t)p->k; j++)
		total += rf_cosine(p->h_pred + j * d, p->h_gt + j * d, p->d);
	return total / p->k;
}

static double binary(const struct pair *p)
{
	int equal = 0;

	for (int j = 0; j < p->k; j++)
		equal += p->rollout[j] == p->text[j];
	return (double)equal / p->k;
}

static double edit(const struct pair *p)
{
	return 1 - (double)rf_levenshtein(p->rollout, p->k, p->text, p->k) / p->k;
}

/* In this order parts are computed and kept. */
static const struct {
	const char *name; /* as rf_part_named() has it */
	double (*of)(const struct pair *p);
	const char *key;  /* of its mean in a log; NULL: "reward/NAME_mean" */
} part[] = {
	{ "cosine", cosine, "reward/cs_reward_mean" },
	{ "binary", binary, "reward/binary_reward_mean" },
	{ "edit",   edit,   "reward/edit_reward_mean" },
};

/* Kinds are the parts, then these sums of two, then the control. */
static const struct { const char *name, *of[2]; } sum[] = {
	{ "hybrid", { "cosine", "binary" } },
};

enum { PARTS = sizeof part / sizeof *part, SUMS = sizeof sum / sizeof *sum, RANDOM = PARTS + SUMS, KINDS };
_Static_assert((int)PARTS <= (int)RF_PARTS, "a record has room for them");

static const char *kind_name(int kind)
{
	return kind < PARTS ? part[kind].name : kind < RANDOM ? sum[kind - PARTS].name : "random";
}

char *rf_reward_kinds(char words[RF_REWARD_WORDS])
{
	int n = 0;

	for (int i = 0; i < KINDS; i++) {
		n += snprintf(words + n, (size_t)(RF_REWARD_WORDS - n), i ? "|%s" : "%s", kind_name(i));
		assert(n < RF_REWARD_WORDS);
	}
	return words;
}

void rf_reward_options(struct rf_reward_settings *s, struct rf_opt opts[RF_REWARD_OPTS])
{
	const struct rf_opt table[] = {
		{ "kind", 0, RF_OPT_ENUM, &s->kind, 0, 0, rf_reward_kinds(s->words),
		  "how the reward is computed", true },
		{ "shift", 0, RF_OPT_INT, &s->shift, 0, 1 << 24, "n",
		  "compare with the text at the n-th next chosen position: a chance baseline", true },
		{ "seed", 0, RF_OPT_U64, &s->seed, 0, 0, "n", "random seed (for --kind random)", true },
		{ "draw-step", 0, RF_OPT_INT, &s->draw_step, -1, INT_MAX, "n",
		  "training step for the random numbers; -1: the model's", true },
		{ .name = NULL },
	};

	s->kind = rf_reward_kind("cosine");
	RF_OPT_FILL(opts, table, RF_REWARD_OPTS);
}

int rf_reward_kind(const char *name)
{
	for (int i = 0; i < KINDS; i++)
		if (!strcmp(kind_name(i), name))
			return i;
	return -1;
}

char *rf_reward_key(char key[RF_REWARD_KEY], const char *name)
{
	snprintf(key, RF_REWARD_KEY, "reward/%s_mean", name);
	for (int i = 0; i < PARTS; i++)
		if (!strcmp(part[i].name, name)) {
			if (part[i].key)
				snprintf(key, RF_REWARD_KEY, "%s", part[i].key);
			return key;
		}
	for (int i = 0; i < PARTS; i++)
		if (part[i].key && !strcmp(part[i].key, key))
			snprintf(key, RF_REWARD_KEY, "reward/part/%s_mean", name);
	return key;
}

static enum rf_code computable(const struct rf_record *r, struct rf_err *e)
{
	const struct rf_rollout *o = &r->rollout;

	if (!o->h_pred || !o->h_gt)
		return rf_fail(e, RF_EDATA, "rollout has no %s (rf-rollout --score computes it)",
		               o->h_pred ? "h_gt" : "h_pred");
	if (o->k > MAX_K)
		return rf_fail(e, RF_EDATA, "the rollouts have %d tokens each, more than the limit of %d",
		               o->k, MAX_K);
	for (int i = 0; i < r->c; i++)
		if (r->positions[i] < 0 || r->positions[i] > r->T - o->k)
			return rf_fail(e, RF_EDATA,
			               "the sequence of %d tokens has no room for the rollout at position "
			               "%d with its %d tokens", r->T, r->positions[i], o->k);
	return RF_OK;
}

struct place { int32_t s; int i; };

static int by_place(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return x->s != y->s ? (x->s > y->s) - (x->s < y->s) : (x->i > y->i) - (x->i < y->i);
}

/* For each position the one whose text its rollouts are compared with: shift places on in the ring of those
 * that differ, in the order of the text.  *texts NULL: that is the same place. */
static enum rf_code find_texts(struct rf_record *r, int shift, int **texts, struct rf_err *e)
{
	size_t c = (size_t)r->c;
	struct place *place = rf_record_alloc(r, c + 1, sizeof *place);
	int *rank = rf_record_alloc(r, c + 1, sizeof *rank), *text = rf_record_alloc(r, c + 1, sizeof *text);
	int different = 0;

	if (!place || !rank || !text)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	for (int i = 0; i < r->c; i++)
		place[i] = (struct place){ r->positions[i], i };
	qsort(place, c, sizeof *place, by_place);
	/* place[0 .. different - 1] become those that differ */
	for (int i = 0; i < r->c; i++) {
		if (!i || place[i].s != place[different - 1].s)
			place[different++] = place[i];
		rank[place[i].i] = different - 1;
	}
	for (int i = 0; i < r->c; i++)
		text[i] = shift ? place[(rank[i] + shift % different) % different].i : i;
	*texts = shift && different && shift % different == 0 ? NULL : text;
	return RF_OK;
}

/* Computes the parts against the texts of these positions, and makes room for the total. */
static enum rf_code compute_parts(struct rf_record *r, const char *kind, const int *texts, struct rf_err *e)
{
	const struct rf_rollout *o = &r->rollout;
	struct rf_reward *w = &r->reward;
	size_t n = (size_t)o->n, k = (size_t)o->k, d = (size_t)o->d, G = (size_t)r->c * n;
	float *value[PARTS];
	char *name;

	rf_record_drop_reward(r);
	name = rf_record_alloc(r, strlen(kind) + 1, 1);
	w->total = rf_record_alloc(r, G, sizeof *w->total);
	if (!name || !w->total)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	w->kind = strcpy(name, kind);
	w->n = o->n;
	for (int i = 0; i < PARTS; i++)
		if (!(value[i] = rf_part_add(r, part[i].name, e)))
			return e->code;
	for (size_t g = 0; g < G; g++) {
		size_t at = (size_t)texts[g / n];
		const struct pair p = {
			.rollout = o->tokens + g * k, .text = r->tokens + r->positions[at],
			.h_pred = o->h_pred + g * k * d, .h_gt = o->h_gt + at * k * d, .k = o->k, .d = o->d,
		};

		for (int i = 0; i < PARTS; i++)
			value[i][g] = (float)part[i].of(&p);
	}
	return RF_OK;
}

/* Fills the total of a record whose parts are there. */
static void choose(struct rf_record *r, int kind, uint64_t seed, uint64_t step)
{
	const struct rf_reward *w = &r->reward;
	size_t G = (size_t)r->c * (size_t)w->n, n = (size_t)w->n;
	const float *a = NULL, *b = NULL;

	if (kind < PARTS) {
		a = rf_part(w, part[kind].name);
	} else if (kind < RANDOM) {
		a = rf_part(w, sum[kind - PARTS].of[0]);
		b = rf_part(w, sum[kind - PARTS].of[1]);
	}
	for (size_t g = 0; g < G; g++)
		if (a)
			w->total[g] = b ? a[g] + b[g] : a[g];
		else
			w->total[g] = (float)rf_draw(
				rf_draw_key(seed, RF_DRAW_REWARD, step, r->id, g / n, g % n), 0);
}

enum rf_code rf_reward_record(struct rf_record *r, int kind, int shift, uint64_t seed,
                              uint64_t step, bool *alone, struct rf_err *e)
{
	enum rf_code rc;
	int *texts = NULL;

	if (alone)
		*alone = false;
	if (!r->rollout.tokens)
		return RF_OK;
	if ((rc = computable(r, e)) != RF_OK || (rc = find_texts(r, shift, &texts, e)) != RF_OK)
		return rc;
	if (!texts) {
		*alone = true;
		rf_record_drop_rollout(r);
		r->positions = NULL;
		r->c = 0;
		return RF_OK;
	}
	if ((rc = compute_parts(r, kind_name(kind), texts, e)) == RF_OK)
		choose(r, kind, seed, step);
	return rc;
}

float *rf_reward_part_given(struct rf_record *r, const char *name, struct rf_err *e)
{
	for (int i = 0; i < PARTS; i++)
		if (!strcmp(part[i].name, name)) {
			rf_fail(e, RF_EDATA, "'%s' is a built-in part: use another name", name);
			return NULL;
		}
	return rf_part_add(r, name, e);
}

enum rf_code rf_reward_record_given(struct rf_record *r, const char *kind, const double *total,
                                    struct rf_err *e)
{
	size_t G = (size_t)r->c * (size_t)r->rollout.n;
	char *name;

	if (!r->rollout.tokens)
		return RF_OK;
	for (size_t g = 0; g < G; g++)
		if (!isfinite((float)total[g]))
			return rf_fail(e, RF_EDATA, "reward %zu of %zu is %g, which float32 cannot hold",
			               g + 1, G, total[g]);
	if (!(name = rf_record_alloc(r, strlen(kind) + 1, 1)))
		return rf_fail(e, RF_ENOMEM, "out of memory");
	r->reward.kind = strcpy(name, kind);
	for (size_t g = 0; g < G; g++)
		r->reward.total[g] = (float)total[g];
	return RF_OK;
}
