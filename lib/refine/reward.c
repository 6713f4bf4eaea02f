/* reward.c -- how well rollouts agree with the text.
 *
 * The hidden states are compared at the same positions: h_pred[j] is the state at token j of the rollout, and
 * h_gt[j] is the state at the token of the text at the same position (paper, eq. 9).  Rewards are computed in
 * double and stored as float32. */
#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "refine/reward.h"

enum { MAX_K = 65536 };

/* A rollout of k tokens and the text that it is compared with, with their hidden states (k, d). */
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
	int row[MAX_K + 1]; /* row[j]: the distance of the first i tokens of a from the first j of b */

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

static double cosine_at(const struct pair *p, int j)
{
	const size_t at = (size_t)j * (size_t)p->d;

	return rf_cosine(p->h_pred + at, p->h_gt + at, p->d);
}

static double equal_at(const struct pair *p, int j) { return p->rollout[j] == p->text[j]; }

/* Returns the mean of phi over the rollout's tokens (paper, eq. 9). */
static double mean_over_tokens(const struct pair *p, double (*phi)(const struct pair *p, int j))
{
	double total = 0;

	for (int j = 0; j < p->k; j++)
		total += phi(p, j);
	return total / p->k;
}

static double edit_similarity(const struct pair *p)
{
	return 1 - (double)rf_levenshtein(p->rollout, p->k, p->text, p->k) / p->k;
}

/* The parts, in the order in which they are computed and stored.  A part is a mean over tokens (phi), or a
 * function of the whole rollout (of). */
static const struct {
	const char *name; /* as rf_part_named() requires */
	double (*phi)(const struct pair *p, int j);
	double (*of)(const struct pair *p);
	const char *key; /* the name in a log; NULL: `name` */
} part[] = {
	{ "cosine", cosine_at, NULL, "cs_reward" },
	/* clang-format off */
	{ "binary", equal_at,  NULL, "binary_reward" },
	{ "edit",   NULL,      edit_similarity, "edit_reward" },
	/* clang-format on */
};

/* The sums of two parts.  The kinds are the parts, then these sums, then the control. */
static const struct {
	const char *name, *of[2];
} sum[] = {
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

void rf_reward_options(struct rf_reward_settings *s, struct rf_opts *opts)
{
	const struct rf_opt table[] = {
		OPT_ENUM("kind", &s->kind, rf_reward_kinds(s->words), "how the reward is computed",
		         .noted = RF_OPT_RESULT),
		OPT_INT("shift", &s->shift, 0, 1 << 24, "n",
		        "compare with the text at the n-th next chosen position: a chance baseline",
		        .noted = RF_OPT_RESULT),
		OPT_FLAG("per-token", &s->per_token, "also write the reward of each token",
		         .noted = RF_OPT_RESULT),
		OPT_U64("seed", &s->seed, "n", "random seed (for --kind random)", .noted = RF_OPT_RESULT),
		OPT_INT("draw-step", &s->draw_step, -1, INT_MAX, "n",
		        "training step for the random numbers; -1: the step of the model",
		        .noted = RF_OPT_RESULT),
		OPT_END,
	};

	s->kind = rf_reward_kind("cosine");
	rf_opts_add(opts, table);
}

int rf_reward_kind(const char *name)
{
	for (int i = 0; i < KINDS; i++)
		if (!strcmp(kind_name(i), name))
			return i;
	return -1;
}

char *rf_reward_key(char key[RF_REWARD_KEY], const char *name, const char *figure)
{
	const char *in = "";

	for (int i = 0; i < PARTS; i++) {
		const char *own = part[i].key ? part[i].key : part[i].name;

		if (!strcmp(part[i].name, name)) {
			snprintf(key, RF_REWARD_KEY, "reward/%s_%s", own, figure);
			return key;
		}
		if (!strcmp(own, name))
			in = "part/";
	}
	snprintf(key, RF_REWARD_KEY, "reward/%s%s_%s", in, name, figure);
	return key;
}

static enum rf_code check_rollouts(const struct rf_record *r, struct rf_err *e)
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
			               "%d with its %d tokens",
			               r->T, r->positions[i], o->k);
	return RF_OK;
}

struct place {
	int32_t s;
	int i;
};

static int by_place(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return x->s != y->s ? (x->s > y->s) - (x->s < y->s) : (x->i > y->i) - (x->i < y->i);
}

/* Finds, for each position, the position whose text its rollouts are compared with: `shift` places further in
 * the ring of the distinct positions, in the order of the text.  *texts is NULL if this is the same place. */
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
	/* move the distinct positions to place[0 .. different - 1] */
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

/* Returns rollout g and the text that it is compared with, which has the same length. */
static struct pair pair_of(const struct rf_record *r, const int *texts, size_t g)
{
	const struct rf_rollout *o = &r->rollout;
	const size_t k = (size_t)o->k, d = (size_t)o->d, at = (size_t)texts[g / (size_t)o->n];

	return (struct pair){
		.rollout = o->tokens + g * k,
		.text = r->tokens + r->positions[at],
		.h_pred = o->h_pred + g * k * d,
		.h_gt = o->h_gt + at * k * d,
		.k = rf_rollout_length(o, g),
		.d = o->d,
	};
}

/* Computes the parts with the texts at these positions, and makes room for the total. */
static enum rf_code compute_parts(struct rf_record *r, const char *kind, const int *texts, struct rf_err *e)
{
	struct rf_reward *w = &r->reward;
	const size_t G = (size_t)r->c * (size_t)r->rollout.n;
	float *value[PARTS];
	char *name;

	rf_record_drop_reward(r);
	name = rf_record_alloc(r, strlen(kind) + 1, 1);
	w->total = rf_record_alloc(r, G, sizeof *w->total);
	if (!name || !w->total)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	w->kind = strcpy(name, kind);
	w->n = r->rollout.n;
	for (int i = 0; i < PARTS; i++)
		if (!(value[i] = rf_part_add(r, part[i].name, e)))
			return e->code;
	for (size_t g = 0; g < G; g++) {
		const struct pair p = pair_of(r, texts, g);

		for (int i = 0; i < PARTS; i++)
			value[i][g] =
				(float)(part[i].phi ? mean_over_tokens(&p, part[i].phi) : part[i].of(&p));
	}
	return RF_OK;
}

/* Finds the indices of the one or two parts of a kind; -1: no such part.  "random" has no parts. */
static void find_parts(int kind, int of[2])
{
	of[0] = kind < PARTS ? kind : -1;
	of[1] = -1;
	for (int i = 0; i < 2 && kind >= PARTS && kind < RANDOM; i++)
		of[i] = rf_reward_kind(sum[kind - PARTS].of[i]);
}

enum rf_code rf_reward_check(const struct rf_reward_settings *s, struct rf_err *e)
{
	int of[2];

	find_parts(s->kind, of);
	for (int i = 0; i < 2 && s->per_token; i++)
		if (of[i] >= 0 && !part[of[i]].phi)
			return rf_fail(e, RF_EUSAGE,
			               "--per-token needs a kind that is a mean over tokens, and '%s' is not",
			               kind_name(s->kind));
	return RF_OK;
}

/* Returns the random number of the control for token j of rollout g. */
static double random_at(const struct rf_reward_settings *s, uint64_t step, const struct rf_record *r,
                        size_t g, int j)
{
	const size_t n = (size_t)r->reward.n;

	return rf_draw(rf_draw_key(s->seed, RF_DRAW_REWARD, step, r->id, g / n, g % n), (uint32_t)j);
}

/* Fills the total of a record, from its parts. */
static void set_total(struct rf_record *r, const struct rf_reward_settings *s, uint64_t step)
{
	const struct rf_reward *w = &r->reward;
	const size_t G = (size_t)r->c * (size_t)w->n;
	const float *a, *b;
	int of[2];

	find_parts(s->kind, of);
	a = of[0] < 0 ? NULL : rf_part(w, part[of[0]].name);
	b = of[1] < 0 ? NULL : rf_part(w, part[of[1]].name);
	for (size_t g = 0; g < G; g++)
		w->total[g] = !a ? (float)random_at(s, step, r, g, 0) : b ? a[g] + b[g] : a[g];
}

/* Writes the reward of each token.  The total of "random" becomes the mean of its tokens, as for the other
 * kinds. */
static enum rf_code compute_tokens(struct rf_record *r, const struct rf_reward_settings *s, uint64_t step,
                                   const int *texts, struct rf_err *e)
{
	struct rf_reward *w = &r->reward;
	const size_t G = (size_t)r->c * (size_t)w->n, k = (size_t)r->rollout.k;
	int of[2];
	float *to;

	find_parts(s->kind, of);
	if (!(to = rf_reward_per_token_given(r, e)))
		return e->code;
	for (size_t g = 0; g < G; g++) {
		const struct pair p = pair_of(r, texts, g);
		double total = 0;

		for (int j = 0; j < p.k; j++) {
			double x = of[0] < 0 ? random_at(s, step, r, g, j) : part[of[0]].phi(&p, j);

			x += of[1] < 0 ? 0 : part[of[1]].phi(&p, j);
			to[g * k + (size_t)j] = (float)x;
			total += x;
		}
		if (of[0] < 0)
			w->total[g] = (float)(total / p.k);
	}
	return RF_OK;
}

enum rf_code rf_reward_record(const struct rf_reward_settings *s, uint64_t step, struct rf_record *r,
                              bool *alone, struct rf_err *e)
{
	enum rf_code rc;
	int *texts = NULL;

	if (alone)
		*alone = false;
	if (!r->rollout.tokens)
		return RF_OK;
	if ((rc = check_rollouts(r, e)) != RF_OK || (rc = find_texts(r, s->shift, &texts, e)) != RF_OK)
		return rc;
	if (!texts) {
		*alone = true;
		rf_record_drop_rollout(r);
		r->positions = NULL;
		r->c = 0;
		return RF_OK;
	}
	if ((rc = compute_parts(r, kind_name(s->kind), texts, e)) != RF_OK)
		return rc;
	set_total(r, s, step);
	return s->per_token ? compute_tokens(r, s, step, texts, e) : RF_OK;
}

float *rf_reward_per_token_given(struct rf_record *r, struct rf_err *e)
{
	const size_t size = (size_t)r->c * (size_t)r->rollout.n * (size_t)r->rollout.k;
	float *to = rf_record_alloc(r, size, sizeof *to);

	if (to)
		memset(to, 0, size * sizeof *to);
	else
		rf_fail(e, RF_ENOMEM, "out of memory (rewards of tokens)");
	return r->reward.per_token = to;
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
