/* fields.c -- the table of a record's keys, and the way from a key to its value in struct rf_record. */
#include <string.h>

#include "base/memory.h"
#include "stream/fields.h"

/* ---- the table ----------------------------------------------------------------------------- */

/* clang-format off */
#define FIELD(key, type, needed, member, shape, rule_) \
	{ key, type, needed, RF_AT(member), shape, .rule = rule_ }
#define UP_TO(letter) RF_RULE_UP_TO, .limit = letter
#define PART(key) \
	{ key, RF_OF_PART, false, 0, "cm", .rule = RF_RULE_FINITE }
#define PARTS(key) \
	{ key, RF_OF_PARTS, false, 0, "cm", .rule = RF_RULE_PARTS }
#define GROUP(map) \
	{ #map, RF_OF_GROUP, false, 0, NULL, .group = &map }
#define RF_AT(member) offsetof(struct rf_record, member)
enum { OPTIONAL = false, NEEDED = true };

static const struct rf_field rollout_fields[] = {
	/*    key            type         needed    member               shape   rule */
	FIELD("temperature", RF_OF_REAL,  NEEDED,   rollout.temperature, NULL,   RF_RULE_ABOVE_0),
	FIELD("tokens",      RF_OF_I4,    NEEDED,   rollout.tokens,      "cnk",  RF_RULE_TOKENS),
	FIELD("length",      RF_OF_I4,    OPTIONAL, rollout.length,      "cn",   UP_TO('k')),
	FIELD("logp",        RF_OF_F4,    OPTIONAL, rollout.logp,        "cnk",  RF_RULE_FINITE),
	FIELD("logp_ref",    RF_OF_F4,    OPTIONAL, rollout.logp_ref,    "cnk",  RF_RULE_FINITE),
	FIELD("kept",        RF_OF_F4,    OPTIONAL, rollout.kept,        "cnk",  RF_RULE_SHARE),
	FIELD("h_pred",      RF_OF_F4,    OPTIONAL, rollout.h_pred,      "cnkD", RF_RULE_FINITE),
	FIELD("h_gt",        RF_OF_F4,    OPTIONAL, rollout.h_gt,        "ckD",  RF_RULE_FINITE),
	{ .key = NULL },
};

static const struct rf_field reward_fields[] = {
	FIELD("kind",        RF_OF_TEXT,  NEEDED,   reward.kind,         NULL,   RF_RULE_UTF8),
	FIELD("total",       RF_OF_F4,    OPTIONAL, reward.total,        "cm",   RF_RULE_FINITE),
	PART("cosine"),
	PART("binary"),
	PART("edit"),
	PARTS("parts"),
	FIELD("per_token",   RF_OF_F4,    OPTIONAL, reward.per_token,    "cmk",  RF_RULE_FINITE),
	{ .key = NULL },
};

static const struct rf_field generation_fields[] = {
	FIELD("temperature", RF_OF_REAL,  NEEDED,   generation.temperature, NULL, RF_RULE_FROM_0),
	FIELD("tokens",      RF_OF_I4,    NEEDED,   generation.tokens,   "gl",   RF_RULE_TOKENS),
	FIELD("length",      RF_OF_I4,    NEEDED,   generation.length,   "g",    UP_TO('l')),
	FIELD("stop",        RF_OF_TEXTS, NEEDED,   generation.stop,     "g",    RF_RULE_STOP),
	FIELD("text",        RF_OF_TEXTS, OPTIONAL, generation.text,     "g",    RF_RULE_UTF8),
	FIELD("score",       RF_OF_F4,    OPTIONAL, generation.score,    "g",    RF_RULE_FINITE),
	FIELD("metric",      RF_OF_TEXT,  OPTIONAL, generation.metric,   NULL,   RF_RULE_UTF8),
	{ .key = NULL },
};

static const struct rf_field choice_fields[] = {
	FIELD("tokens",      RF_OF_I4,    NEEDED,   choice.tokens,       "qw",   RF_RULE_TOKENS),
	FIELD("length",      RF_OF_I4,    NEEDED,   choice.length,       "q",    UP_TO('w')),
	FIELD("from",        RF_OF_I4,    OPTIONAL, choice.from,         "q",    RF_RULE_CONTEXT),
	FIELD("logp",        RF_OF_F4,    OPTIONAL, choice.logp,         "q",    RF_RULE_FINITE),
	FIELD("greedy",      RF_OF_I4,    OPTIONAL, choice.greedy,       "q",    RF_RULE_BITS),
	{ .key = NULL },
};

#define MAP(map, there) { #map, #map ".", map##_fields, RF_AT(map.there), RF_AT(map.unknown) }

static const struct rf_field_group rollout = MAP(rollout, tokens), reward = MAP(reward, kind),
                                   generation = MAP(generation, tokens), choice = MAP(choice, tokens);

static const struct rf_field record_fields[] = {
	FIELD("id",          RF_OF_ID,    NEEDED,   id,                  NULL,   RF_RULE_NONE),
	FIELD("tokens",      RF_OF_I4,    NEEDED,   tokens,              "T",    RF_RULE_TOKENS),
	FIELD("response",    RF_OF_I4,    OPTIONAL, response,            "r",    RF_RULE_TOKENS),
	FIELD("prompt_len",  RF_OF_LENGTH, OPTIONAL, prompt_len,         NULL,   RF_RULE_PROMPT),
	FIELD("answers",     RF_OF_TEXTS, OPTIONAL, answer,              "a",    RF_RULE_UTF8),
	FIELD("source",      RF_OF_TEXT,  OPTIONAL, source,              NULL,   RF_RULE_UTF8),
	FIELD("meta",        RF_OF_MAP,   OPTIONAL, meta,                NULL,   RF_RULE_MAP),
	FIELD("entropy",     RF_OF_F4,    OPTIONAL, entropy,             "T",    RF_RULE_FINITE),
	FIELD("nll",         RF_OF_F4,    OPTIONAL, nll,                 "t",    RF_RULE_FINITE),
	FIELD("correct",     RF_OF_F4,    OPTIONAL, correct,             "t",    RF_RULE_FINITE),
	FIELD("hidden",      RF_OF_F4,    OPTIONAL, hidden,              "Td",   RF_RULE_FINITE),
	FIELD("logits",      RF_OF_F4,    OPTIONAL, logits,              "TN",   RF_RULE_FINITE),
	FIELD("positions",   RF_OF_I4,    OPTIONAL, positions,           "c",    UP_TO('t')),
	GROUP(rollout),
	GROUP(reward),
	FIELD("advantage",   RF_OF_F4,    OPTIONAL, advantage,           "cn",   RF_RULE_FINITE),
	FIELD("advantage_per_token", RF_OF_F4, OPTIONAL, advantage_per_token, "cnk", RF_RULE_FINITE),
	GROUP(generation),
	GROUP(choice),
	{ .key = NULL },
};
/* clang-format on */
_Static_assert(sizeof record_fields / sizeof *record_fields <= RF_FIELDS_MAX + 1, "RF_FIELDS_MAX");

const struct rf_field_group rf_record_group = { "record", "", record_fields, RF_AT(tokens), RF_AT(unknown) };

/* ---- sizes and values ---------------------------------------------------------------------- */

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
	default: return NULL;
	}
}

int rf_field_size_now(const struct rf_record *r, char letter)
{
	return letter == 't' ? r->T - 1 : *rf_field_size((struct rf_record *)r, letter);
}

/* Sets the shape and the count of the value. */
static void set_shape(const struct rf_record *r, const char *letters, struct rf_value *v)
{
	size_t bytes = sizeof(float);
	bool fits = true;

	for (; letters[v->ndim]; v->ndim++) {
		v->shape[v->ndim] = rf_field_size_now(r, letters[v->ndim]);
		fits = fits && !__builtin_mul_overflow(bytes, (size_t)v->shape[v->ndim], &bytes) &&
		       bytes <= PTRDIFF_MAX;
	}
	v->count = fits ? bytes / sizeof(float) : SIZE_MAX;
}

/* Returns the pointer that is stored at an offset of the record. */
static void *pointer_at(const struct rf_record *r, size_t at)
{
	void *p;

	memcpy(&p, (const char *)r + at, sizeof p);
	return p;
}

bool rf_field_value(const struct rf_record *r, const struct rf_field *f, struct rf_value *v)
{
	*v = (struct rf_value){ .p = (char *)r + f->at };
	if (f->shape)
		set_shape(r, f->shape, v);
	switch (f->type) {
	case RF_OF_ID:
	case RF_OF_REAL: return true;
	case RF_OF_LENGTH: return *(int *)v->p >= 0;
	case RF_OF_MAP: return ((struct rf_raw *)v->p)->data != NULL;
	case RF_OF_GROUP: return pointer_at(r, f->group->there) != NULL;
	case RF_OF_PARTS: return rf_parts_in_map(&r->reward) > 0;
	case RF_OF_PART: return (v->p = rf_part(&r->reward, f->key)) != NULL;
	case RF_OF_TEXTS:
		v->p = pointer_at(r, f->at);
		return f->at == RF_AT(answer) ? r->answers >= 0 : v->p != NULL; /* there may be no answers */
	default: return (v->p = pointer_at(r, f->at)) != NULL;
	}
}

void rf_field_set(struct rf_record *r, const struct rf_field *f, void *p)
{
	struct rf_reward *w = &r->reward;

	if (f->type == RF_OF_PART) {
		int i = rf_part_find(w, f->key);

		w->part[i] = (struct rf_part){ f->key, p };
		w->parts += i == w->parts;
	} else {
		memcpy((char *)r + f->at, &p, sizeof p);
	}
}

struct rf_unknown *rf_field_unknown(const struct rf_record *r, const struct rf_field_group *g)
{
	return (struct rf_unknown *)((char *)r + g->unknown);
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
		if (f->type == RF_OF_PART && !i--)
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

float *rf_part_add(struct rf_record *r, const char *name, struct rf_err *e)
{
	struct rf_reward *w = &r->reward;
	size_t n = strlen(name);
	float *value;
	char *copy;

	if (!rf_part_named(name, n))
		rf_part_bad_name(name, n, e);
	else if (rf_part(w, name))
		rf_fail(e, RF_EDATA, "reward already has a part '%s'", name);
	else if (w->parts == RF_PARTS)
		rf_part_too_many(e);
	else if (!(copy = rf_region_text(&r->region, name, n)) ||
	         !(value = rf_record_alloc(r, (size_t)r->c * (size_t)w->n, sizeof *value)))
		rf_fail(e, RF_ENOMEM, "out of memory");
	else {
		w->part[w->parts++] = (struct rf_part){ copy, value };
		return value;
	}
	return NULL;
}
