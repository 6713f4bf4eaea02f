/* fields.c -- the tables of a record's keys, and the way from a key to its value in the struct. */
#include <string.h>

#include "stream/fields.h"

static const struct rf_field rollout_fields[] = {
	{ "temperature", RF_OF_REAL, true,  RF_AT(rollout.temperature), NULL, NULL },
	{ "tokens",      RF_OF_I4,   true,  RF_AT(rollout.tokens), "cnk",  NULL },
	{ "length",      RF_OF_I4,   false, RF_AT(rollout.length), "cn",   NULL },
	{ "logp",        RF_OF_F4,   false, RF_AT(rollout.logp),   "cnk",  NULL },
	{ "h_pred",      RF_OF_F4,   false, RF_AT(rollout.h_pred), "cnkD", NULL },
	{ "h_gt",        RF_OF_F4,   false, RF_AT(rollout.h_gt),   "ckD",  NULL },
	{ NULL, 0, false, 0, NULL, NULL },
};

static const struct rf_field reward_fields[] = {
	{ "kind",   RF_OF_TEXT,  true,  RF_AT(reward.kind), NULL, NULL },
	{ "total",  RF_OF_F4,    false, RF_AT(reward.total), "cm", NULL },
	{ "cosine", RF_OF_PART,  false, 0, "cm", NULL },
	{ "binary", RF_OF_PART,  false, 0, "cm", NULL },
	{ "edit",   RF_OF_PART,  false, 0, "cm", NULL },
	{ "parts",  RF_OF_PARTS, false, 0, "cm", NULL },
	{ "per_token", RF_OF_F4, false, RF_AT(reward.per_token), "cmk", NULL },
	{ NULL, 0, false, 0, NULL, NULL },
};

static const struct rf_field generation_fields[] = {
	{ "temperature", RF_OF_REAL,  true, RF_AT(generation.temperature), NULL, NULL },
	{ "tokens",      RF_OF_I4,    true, RF_AT(generation.tokens), "gl", NULL },
	{ "length",      RF_OF_I4,    true, RF_AT(generation.length), "g",  NULL },
	{ "stop",        RF_OF_TEXTS, true, RF_AT(generation.stop),   "g",  NULL },
	{ "text",        RF_OF_TEXTS, false, RF_AT(generation.text),  "g",  NULL },
	{ "score",       RF_OF_F4,    false, RF_AT(generation.score), "g",  NULL },
	{ "metric",      RF_OF_TEXT,  false, RF_AT(generation.metric), NULL, NULL },
	{ NULL, 0, false, 0, NULL, NULL },
};

static const struct rf_field choice_fields[] = {
	{ "tokens", RF_OF_I4, true,  RF_AT(choice.tokens), "qw", NULL },
	{ "length", RF_OF_I4, true,  RF_AT(choice.length), "q",  NULL },
	{ "from",   RF_OF_I4, false, RF_AT(choice.from),   "q",  NULL },
	{ "logp",   RF_OF_F4, false, RF_AT(choice.logp),   "q",  NULL },
	{ "greedy", RF_OF_I4, false, RF_AT(choice.greedy), "q",  NULL },
	{ NULL, 0, false, 0, NULL, NULL },
};

#define GROUP(map, there) \
	{ #map, #map ".", map##_fields, RF_AT(map.there), RF_AT(map.unknowns), RF_AT(map.unknown) }

static const struct rf_group rollout = GROUP(rollout, tokens), reward = GROUP(reward, kind),
                             generation = GROUP(generation, tokens), choice = GROUP(choice, tokens);

static const struct rf_field record_fields[] = {
	{ "id",         RF_OF_ID,     true,  RF_AT(id),         NULL, NULL },
	{ "tokens",     RF_OF_I4,     true,  RF_AT(tokens),     "T",  NULL },
	{ "response",   RF_OF_I4,     false, RF_AT(response),   "r",  NULL },
	{ "prompt_len", RF_OF_LENGTH, false, RF_AT(prompt_len), NULL, NULL },
	{ "answers",    RF_OF_TEXTS,  false, RF_AT(answer),     "a",  NULL },
	{ "source",     RF_OF_TEXT,   false, RF_AT(source),     NULL, NULL },
	{ "meta",       RF_OF_MAP,    false, RF_AT(meta),       NULL, NULL },
	{ "entropy",    RF_OF_F4,     false, RF_AT(entropy),    "T",  NULL },
	{ "nll",        RF_OF_F4,     false, RF_AT(nll),        "t",  NULL },
	{ "correct",    RF_OF_F4,     false, RF_AT(correct),    "t",  NULL },
	{ "hidden",     RF_OF_F4,     false, RF_AT(hidden),     "Td", NULL },
	{ "logits",     RF_OF_F4,     false, RF_AT(logits),     "TN", NULL },
	{ "positions",  RF_OF_I4,     false, RF_AT(positions),  "c",  NULL },
	{ "rollout",    RF_OF_GROUP,  false, 0,                 NULL, &rollout },
	{ "reward",     RF_OF_GROUP,  false, 0,                 NULL, &reward },
	{ "advantage",  RF_OF_F4,     false, RF_AT(advantage),  "cn", NULL },
	{ "advantage_per_token", RF_OF_F4, false, RF_AT(advantage_per_token), "cnk", NULL },
	{ "generation", RF_OF_GROUP,  false, 0,                 NULL, &generation },
	{ "choice",     RF_OF_GROUP,  false, 0,                 NULL, &choice },
	{ NULL, 0, false, 0, NULL, NULL },
};

const struct rf_group rf_record_group = { "record", "", record_fields, RF_AT(tokens), RF_AT(unknowns),
                                          RF_AT(unknown) };

/* ---- sizes --------------------------------------------------------------------------------- */

int *rf_field_size(struct rf_record *r, char letter)
{
	switch (letter) {
	case 'T': return &r->T;
	case 'r': return &r->response_len;
	case 'a': return &r->answers;
	case 'd': return &r->d;
	case 'N': return &r->N;
	case 'c': return &r->c;
	case 'n': return &r->rollout.n;
	case 'k': return &r->rollout.k;
	case 'D': return &r->rollout.d;
	case 'm': return &r->reward.n;
	case 'g': return &r->generation.n;
	case 'l': return &r->generation.m;
	case 'q': return &r->choice.n;
	case 'w': return &r->choice.m;
	default:  return NULL;
	}
}

int rf_field_size_now(const struct rf_record *r, char letter)
{
	return letter == 't' ? r->T - 1 : *rf_field_size((struct rf_record *)r, letter);
}

bool rf_field_count(const struct rf_record *r, const struct rf_field *f, size_t *n)
{
	*n = 4;
	for (const char *l = f->dims; *l; l++)
		if (__builtin_mul_overflow(*n, (size_t)rf_field_size_now(r, *l), n) || *n > PTRDIFF_MAX)
			return false;
	*n /= 4;
	return true;
}

/* ---- values -------------------------------------------------------------------------------- */

void *rf_field_get(const struct rf_record *r, const struct rf_field *f)
{
	void *p;

	if (f->kind == RF_OF_PART)
		return rf_part(&r->reward, f->key);
	memcpy(&p, (const char *)r + f->at, sizeof p);
	return p;
}

void rf_field_set(struct rf_record *r, const struct rf_field *f, void *p)
{
	struct rf_reward *w = &r->reward;

	if (f->kind == RF_OF_PART) {
		int i = rf_part_find(w, f->key);

		w->part[i] = (struct rf_part){ f->key, p };
		w->parts += i == w->parts;
	} else {
		memcpy((char *)r + f->at, &p, sizeof p);
	}
}

double *rf_field_real(const struct rf_record *r, const struct rf_field *f)
{
	return (double *)((char *)r + f->at);
}

struct rf_raw *rf_group_unknown(const struct rf_record *r, const struct rf_group *g, int **count)
{
	char *p = (char *)r;

	*count = (int *)(p + g->unknowns);
	return (struct rf_raw *)(p + g->unknown);
}

static bool group_there(const struct rf_record *r, const struct rf_group *g)
{
	void *p;

	memcpy(&p, (const char *)r + g->there, sizeof p);
	return p != NULL;
}

bool rf_field_there(const struct rf_record *r, const struct rf_field *f)
{
	switch (f->kind) {
	case RF_OF_ID:
	case RF_OF_REAL:   return true;
	case RF_OF_LENGTH: return r->prompt_len >= 0;
	case RF_OF_TEXTS:  return f->at == RF_AT(answer) ? r->answers >= 0 : rf_field_get(r, f) != NULL;
	case RF_OF_MAP:    return r->meta.data != NULL;
	case RF_OF_GROUP:  return group_there(r, f->group);
	case RF_OF_PARTS:  return rf_parts_in_map(&r->reward) > 0;
	default:        return rf_field_get(r, f) != NULL;
	}
}

/* ---- parts of a reward --------------------------------------------------------------------- */

bool rf_part_named(const char *name, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		bool letter = (name[i] >= 'a' && name[i] <= 'z') || (name[i] >= 'A' && name[i] <= 'Z');

		if (!letter && (!i || (name[i] != '_' && (name[i] < '0' || name[i] > '9'))))
			return false;
	}
	return n > 0 && n <= RF_PART_NAME;
}

const char *rf_part_known(int i)
{
	for (const struct rf_field *f = reward_fields; f->key; f++)
		if (f->kind == RF_OF_PART && !i--)
			return f->key;
	return NULL;
}

bool rf_part_has_key(const char *name)
{
	const char *key;

	for (int i = 0; (key = rf_part_known(i)); i++)
		if (!strcmp(key, name))
			return true;
	return false;
}

int rf_part_find(const struct rf_reward *w, const char *name)
{
	int i = 0;

	while (i < w->parts && strcmp(w->part[i].name, name))
		i++;
	return i;
}

float *rf_part(const struct rf_reward *w, const char *name)
{
	int i = rf_part_find(w, name);

	return i < w->parts ? w->part[i].value : NULL;
}

int rf_parts_in_map(const struct rf_reward *w)
{
	int n = 0;

	for (int i = 0; i < w->parts; i++)
		n += !rf_part_has_key(w->part[i].name);
	return n;
}

enum rf_code rf_part_bad_name(const char *name, size_t n, struct rf_err *e)
{
	char shown[4 * RF_PART_NAME];

	return rf_fail(e, RF_EDATA,
	               "'%s' is not a name of up to %d letters, digits and '_' that begins with a letter",
	               rf_quote(shown, sizeof shown, name, n), RF_PART_NAME);
}

enum rf_code rf_part_too_many(struct rf_err *e)
{
	return rf_fail(e, RF_EDATA, "reward has more than %d parts", RF_PARTS);
}

