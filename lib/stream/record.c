/* record.c -- reads, checks, copies and writes a record.
 *
 * A table gives for every key its kind, its place in the struct and its dimensions; reading, checking,
 * copying and writing all follow that table, in its order, which is that of rf-stream(5).  A dimension is a
 * letter: the first array that has it sets its size, and later arrays must agree.
 *
 * The parts of a reward are a list of names.  Three of them, those of the first version of the format, have
 * keys of their own in the reward; all others are in its map `parts`.  In memory they are all alike. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "stream/msg.h"
#include "stream/wire.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "the arrays of a stream are little endian, and copied as they are");

enum kind { ID, LENGTH, TEXT, TEXTS, MAP, REAL, I4, F4, GROUP, PART, PARTS };

struct field {
	const char *key;
	enum kind kind;
	size_t at;           /* offset in struct rf_record; a part is found by its name */
	const char *dims;    /* of I4, F4, PART, PARTS */
	const struct field *sub;
};

#define AT(member) offsetof(struct rf_record, member)

static const struct field rollout_fields[] = {
	{ "temperature", REAL, AT(rollout.temperature), NULL, NULL },
	{ "tokens",      I4,   AT(rollout.tokens), "cnk",  NULL },
	{ "logp",        F4,   AT(rollout.logp),   "cnk",  NULL },
	{ "h_pred",      F4,   AT(rollout.h_pred), "cnkD", NULL },
	{ "h_gt",        F4,   AT(rollout.h_gt),   "ckD",  NULL },
	{ NULL, 0, 0, NULL, NULL },
};

static const struct field reward_fields[] = {
	{ "kind",   TEXT, AT(reward.kind), NULL, NULL },
	{ "total",  F4, AT(reward.total),  "cm", NULL },
	{ "cosine", PART,  0, "cm", NULL },
	{ "binary", PART,  0, "cm", NULL },
	{ "edit",   PART,  0, "cm", NULL },
	{ "parts",  PARTS, 0, "cm", NULL },
	{ NULL, 0, 0, NULL, NULL },
};

static const struct field record_fields[] = {
	{ "id",         ID,     AT(id),         NULL, NULL },
	{ "tokens",     I4,     AT(tokens),     "T",  NULL },
	{ "prompt_len", LENGTH, AT(prompt_len), NULL, NULL },
	{ "answers",    TEXTS,  AT(answer),     NULL, NULL },
	{ "source",     TEXT,   AT(source),     NULL, NULL },
	{ "meta",       MAP,    AT(meta),       NULL, NULL },
	{ "entropy",    F4,     AT(entropy),    "T",  NULL },
	{ "nll",        F4,     AT(nll),        "t",  NULL },
	{ "correct",    F4,     AT(correct),    "t",  NULL },
	{ "hidden",     F4,     AT(hidden),     "Td", NULL },
	{ "logits",     F4,     AT(logits),     "TN", NULL },
	{ "positions",  I4,     AT(positions),  "c",  NULL },
	{ "rollout",    GROUP,  AT(rollout),    NULL, rollout_fields },
	{ "reward",     GROUP,  AT(reward),     NULL, reward_fields },
	{ "advantage",  F4,     AT(advantage),  "cn", NULL },
	{ NULL, 0, 0, NULL, NULL },
};

enum { FIELDS_MAX = 16 };

/* The size that a letter stands for; t (T - 1) has none of its own. */
static int *size_of(struct rf_record *r, char letter)
{
	switch (letter) {
	case 'T': return &r->T;
	case 'd': return &r->d;
	case 'N': return &r->N;
	case 'c': return &r->c;
	case 'n': return &r->rollout.n;
	case 'k': return &r->rollout.k;
	case 'D': return &r->rollout.d;
	case 'm': return &r->reward.n;
	default:  return NULL;
	}
}

static int size_now(const struct rf_record *r, char letter)
{
	return letter == 't' ? r->T - 1 : *size_of((struct rf_record *)r, letter);
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
	for (const struct field *f = reward_fields; f->key; f++)
		if (f->kind == PART && !i--)
			return f->key;
	return NULL;
}

/* Whether the part has a key of its own in the reward. */
static bool known(const char *name)
{
	const char *key;

	for (int i = 0; (key = rf_part_known(i)); i++)
		if (!strcmp(key, name))
			return true;
	return false;
}

static int find_part(const struct rf_reward *w, const char *name)
{
	int i = 0;

	while (i < w->parts && strcmp(w->part[i].name, name))
		i++;
	return i;
}

float *rf_part(const struct rf_reward *w, const char *name)
{
	int i = find_part(w, name);

	return i < w->parts ? w->part[i].value : NULL;
}

static int parts_in_map(const struct rf_reward *w)
{
	int n = 0;

	for (int i = 0; i < w->parts; i++)
		n += !known(w->part[i].name);
	return n;
}

static enum rf_code bad_name(const char *name, size_t n, struct rf_err *e)
{
	char shown[4 * RF_PART_NAME];

	return rf_fail(e, RF_EDATA,
	               "'%s' is not a name of up to %d letters, digits and '_' that begins with a letter",
	               rf_quote(shown, sizeof shown, name, n), RF_PART_NAME);
}

static enum rf_code too_many_parts(struct rf_err *e)
{
	return rf_fail(e, RF_EDATA, "reward has more than %d parts", RF_PARTS);
}

/* ---- fields -------------------------------------------------------------------------------- */

/* The pointer of an array or text. */
static void *get(const struct rf_record *r, const struct field *f)
{
	void *p;

	if (f->kind == PART)
		return rf_part(&r->reward, f->key);
	memcpy(&p, (const char *)r + f->at, sizeof p);
	return p;
}

static void set(struct rf_record *r, const struct field *f, void *p)
{
	struct rf_reward *w = &r->reward;

	if (f->kind == PART) {
		int i = find_part(w, f->key);

		w->part[i] = (struct rf_part){ f->key, p };
		w->parts += i == w->parts;
	} else {
		memcpy((char *)r + f->at, &p, sizeof p);
	}
}

static bool present(const struct rf_record *r, const struct field *f)
{
	switch (f->kind) {
	case ID:
	case REAL:   return true;
	case LENGTH: return r->prompt_len >= 0;
	case TEXTS:  return r->answers >= 0;
	case MAP:    return r->meta.data != NULL;
	case GROUP:  return f->sub == rollout_fields ? r->rollout.tokens != NULL : r->reward.kind != NULL;
	case PARTS:  return parts_in_map(&r->reward) > 0;
	default:     return get(r, f) != NULL;
	}
}

/* Numbers in an array, of PARTS in each; false: more than fit in memory. */
static bool count(const struct rf_record *r, const struct field *f, size_t *n)
{
	*n = 4;
	for (const char *l = f->dims; *l; l++)
		if (__builtin_mul_overflow(*n, (size_t)size_now(r, *l), n) || *n > PTRDIFF_MAX)
			return false;
	*n /= 4;
	return true;
}

static void unknown_of(struct rf_record *r, const struct field *fields, int **n, struct rf_raw **raw)
{
	*n = fields == record_fields    ? &r->unknowns
	     : fields == rollout_fields ? &r->rollout.unknowns
	                                : &r->reward.unknowns;
	*raw = fields == record_fields    ? &r->unknown
	       : fields == rollout_fields ? &r->rollout.unknown
	                                  : &r->reward.unknown;
}

/* ---- memory -------------------------------------------------------------------------------- */

struct rf_arena_block {
	struct rf_arena_block *next;
	size_t size, used;
	unsigned char *data; /* 64-byte aligned, behind this */
};

static void *arena_alloc(struct rf_arena_block **arena, size_t n)
{
	struct rf_arena_block *b = *arena;
	size_t size = 64 << 10;

	if (n > SIZE_MAX / 4)
		return NULL;
	n = (n + 63) & ~(size_t)63;
	if (!b || b->size - b->used < n) {
		/* each block as large as all before it: a record comes to rest in one */
		if (b && size < 2 * b->size)
			size = 2 * b->size;
		if (size < n)
			size = n;
		if (!(b = malloc(sizeof *b + 64 + size)))
			return NULL;
		*b = (struct rf_arena_block){ *arena, size, 0,
		                              (unsigned char *)(((uintptr_t)(b + 1) + 63) & ~(uintptr_t)63) };
		*arena = b;
	}
	b->used += n;
	return b->data + b->used - n;
}

void *rf_record_alloc(struct rf_record *r, size_t n, size_t size)
{
	return __builtin_mul_overflow(n, size, &n) ? NULL : arena_alloc(&r->arena, n ? n : 1);
}

float *rf_part_add(struct rf_record *r, const char *name, struct rf_err *e)
{
	struct rf_reward *w = &r->reward;
	size_t n = strlen(name);
	float *value;
	char *copy;

	if (!rf_part_named(name, n))
		bad_name(name, n, e);
	else if (rf_part(w, name))
		rf_fail(e, RF_EDATA, "reward already has a part '%s'", name);
	else if (w->parts == RF_PARTS)
		too_many_parts(e);
	else if (!(copy = rf_record_alloc(r, n + 1, 1)) ||
	         !(value = rf_record_alloc(r, (size_t)r->c * (size_t)w->n, sizeof *value)))
		rf_fail(e, RF_ENOMEM, "out of memory");
	else {
		w->part[w->parts++] = (struct rf_part){ strcpy(copy, name), value };
		return value;
	}
	return NULL;
}

void rf_record_init(struct rf_record *r)
{
	memset(r, 0, sizeof *r);
	r->prompt_len = r->answers = -1;
}

void rf_record_clear(struct rf_record *r)
{
	struct rf_arena_block *b = r->arena;

	/* the newest block is the largest: it serves the next record */
	while (b && b->next) {
		struct rf_arena_block *old = b->next;
		b->next = old->next;
		free(old);
	}
	if (b)
		b->used = 0;
	rf_record_init(r);
	r->arena = b;
}

void rf_record_free(struct rf_record *r)
{
	rf_record_clear(r);
	free(r->arena);
	r->arena = NULL;
}

void rf_record_drop_advantage(struct rf_record *r)
{
	r->advantage = NULL;
}

void rf_record_drop_reward(struct rf_record *r)
{
	memset(&r->reward, 0, sizeof r->reward);
	rf_record_drop_advantage(r);
}

void rf_record_hide(struct rf_record *r)
{
	r->hidden = r->logits = r->rollout.h_pred = r->rollout.h_gt = NULL;
	r->d = r->N = r->rollout.d = 0;
}

void rf_record_drop_rollout(struct rf_record *r)
{
	memset(&r->rollout, 0, sizeof r->rollout);
	rf_record_drop_reward(r);
}

/* ---- copying ------------------------------------------------------------------------------- */

static void *dup(struct rf_record *r, const void *data, size_t n, bool *ok)
{
	void *p = rf_record_alloc(r, n, 1);

	if (p && n)
		memcpy(p, data, n);
	*ok = *ok && p;
	return p;
}

/* The parts in the map; the list is a copy already and points into the old record. */
static void copy_parts(struct rf_record *to, const struct field *f, bool *ok)
{
	size_t size;

	if (!count(to, f, &size)) {
		*ok = false;
		return;
	}
	for (int i = 0; i < to->reward.parts; i++) {
		struct rf_part *p = &to->reward.part[i];

		if (known(p->name))
			continue;
		p->name = dup(to, p->name, strlen(p->name) + 1, ok);
		p->value = dup(to, p->value, 4 * size, ok);
		if (!*ok)
			return;
	}
}

static void copy_fields(struct rf_record *to, const struct rf_record *from, const struct field *fields,
                        bool *ok)
{
	struct rf_raw *raw;
	int *n;
	size_t size;

	for (const struct field *f = fields; f->key; f++) {
		if (!present(from, f))
			continue;
		switch (f->kind) {
		case TEXT:
			set(to, f, dup(to, get(from, f), strlen(get(from, f)) + 1, ok));
			break;
		case TEXTS:
			to->answer = rf_record_alloc(to, (size_t)from->answers, sizeof *to->answer);
			for (int i = 0; i < from->answers && (*ok = *ok && to->answer); i++)
				to->answer[i] = dup(to, from->answer[i], strlen(from->answer[i]) + 1, ok);
			break;
		case MAP:
			to->meta.data = dup(to, from->meta.data, from->meta.size, ok);
			break;
		case I4:
		case F4:
		case PART:
			if (count(from, f, &size))
				set(to, f, dup(to, get(from, f), 4 * size, ok));
			else
				*ok = false;
			break;
		case GROUP:
			copy_fields(to, from, f->sub, ok);
			break;
		case PARTS:
			copy_parts(to, f, ok);
			break;
		default:
			break;
		}
	}
	unknown_of(to, fields, &n, &raw);
	if (*n)
		raw->data = dup(to, raw->data, raw->size, ok);
}

enum rf_code rf_record_copy(struct rf_record *to, const struct rf_record *from, struct rf_err *e)
{
	struct rf_arena_block *arena;
	bool ok = true;

	rf_record_clear(to);
	arena = to->arena;
	*to = *from;
	to->arena = arena;
	copy_fields(to, from, record_fields, &ok);
	if (!ok) {
		rf_record_clear(to);
		return rf_fail(e, RF_ENOMEM, "out of memory (a copy of record id %llu)",
		               (unsigned long long)from->id);
	}
	return RF_OK;
}

/* ---- checking ------------------------------------------------------------------------------ */

static const char *prefix(const struct field *fields)
{
	return fields == rollout_fields ? "rollout." : fields == reward_fields ? "reward." : "";
}

static enum rf_code check_floats(const float *x, size_t n, const char *pre, const char *key, struct rf_err *e)
{
	for (size_t i = 0; i < n; i++)
		if (!isfinite(x[i]))
			return rf_fail(e, RF_EDATA, "%s%s is %s (number %zu)", pre, key,
			               isnan(x[i]) ? "NaN" : "infinite", i);
	return RF_OK;
}

static enum rf_code check_ints(const int32_t *x, size_t n, int64_t min, int64_t end, const char *pre,
                               const char *key, struct rf_err *e)
{
	for (size_t i = 0; i < n; i++)
		if (x[i] < min || x[i] >= end)
			return rf_fail(e, RF_EDATA, "%s%s: number %zu is %ld, outside %lld to %lld", pre, key,
			               i, (long)x[i], (long long)min, (long long)end - 1);
	return RF_OK;
}

static enum rf_code check_raw(struct rf_raw raw, const char *key, struct rf_err *e)
{
	const unsigned char *p = raw.data;

	if (rf_msg_check(raw.data, raw.size, e) != RF_OK)
		return rf_blame(e, "%s", key);
	if (*p >> 4 != 8 && *p != 0xde && *p != 0xdf)
		return rf_fail(e, RF_EDATA, "%s is not a map", key);
	return RF_OK;
}

static const char in_map[] = "reward.parts.";

/* How many numbers the array has, which must be some and not too many. */
static enum rf_code check_size(const struct rf_record *r, const struct field *f, const char *pre,
                               const char *key, size_t *n, struct rf_err *e)
{
	for (const char *l = f->dims; *l; l++)
		if (size_now(r, *l) < (*l != 't'))
			return rf_fail(e, RF_EDATA, "%s%s is empty", pre, key);
	if (!count(r, f, n) || *n > UINT32_MAX / 4)
		return rf_fail(e, RF_EIO,
		               "%s%s has 4 GiB or more, which no message can hold: use shorter sequences",
		               pre,
		               key);
	return RF_OK;
}

static enum rf_code check_parts(const struct rf_record *r, const struct field *f, struct rf_err *e)
{
	const struct rf_reward *w = &r->reward;
	enum rf_code rc = RF_OK;
	size_t n;

	for (int i = 0; i < w->parts && rc == RF_OK; i++) {
		const struct rf_part *p = &w->part[i];

		if (!rf_part_named(p->name, strlen(p->name))) {
			bad_name(p->name, strlen(p->name), e);
			return rf_blame(e, "reward.parts");
		}
		if (find_part(w, p->name) < i)
			return rf_fail(e, RF_EDATA, "reward has the part '%s' twice", p->name);
		if (!known(p->name) && (rc = check_size(r, f, in_map, p->name, &n, e)) == RF_OK)
			rc = check_floats(p->value, n, in_map, p->name, e);
	}
	return rc;
}

static enum rf_code check_fields(const struct rf_record *r, const struct field *fields, int vocab,
                                 struct rf_err *e)
{
	const char *pre = prefix(fields);
	enum rf_code rc = RF_OK;
	size_t n;

	for (const struct field *f = fields; f->key && rc == RF_OK; f++) {
		if (!present(r, f))
			continue;
		switch (f->kind) {
		case I4:
		case F4:
		case PART:
			if ((rc = check_size(r, f, pre, f->key, &n, e)) != RF_OK)
				return rc;
			if (f->kind != I4)
				rc = check_floats(get(r, f), n, pre, f->key, e);
			else if (f->at == AT(positions))
				rc = check_ints(r->positions, n, 1, r->T, pre, f->key, e);
			else
				rc = check_ints(get(r, f), n, 0, vocab ? vocab : INT64_C(1) << 31, pre,
				                f->key, e);
			break;
		case TEXT:
			if (!rf_utf8(get(r, f), strlen(get(r, f))))
				rc = rf_fail(e, RF_EDATA, "%s%s is not UTF-8", pre, f->key);
			break;
		case TEXTS:
			for (int i = 0; i < r->answers && rc == RF_OK; i++)
				if (!rf_utf8(r->answer[i], strlen(r->answer[i])))
					rc = rf_fail(e, RF_EDATA, "answers: number %d is not UTF-8", i);
			break;
		case LENGTH:
			if (r->prompt_len > r->T)
				rc = rf_fail(e, RF_EDATA,
				             "prompt_len is %d, but the sequence has only %d tokens",
				             r->prompt_len, r->T);
			break;
		case MAP:
			rc = check_raw(r->meta, f->key, e);
			break;
		case REAL:
			if (!isfinite(r->rollout.temperature) || r->rollout.temperature <= 0)
				rc = rf_fail(e, RF_EDATA, "rollout.temperature is %g, not a number above 0",
				             r->rollout.temperature);
			break;
		case GROUP:
			rc = check_fields(r, f->sub, vocab, e);
			break;
		case PARTS:
			rc = check_parts(r, f, e);
			break;
		case ID:
			break;
		}
	}
	return rc;
}

enum rf_code rf_record_check(const struct rf_record *r, int vocab, struct rf_err *e)
{
	if (!r->tokens)
		return rf_fail(e, RF_EDATA, "the record has no 'tokens'");
	if (r->rollout.tokens && !r->positions)
		return rf_fail(e, RF_EDATA, "the record has a rollout but no positions");
	if (r->reward.kind && !r->rollout.tokens)
		return rf_fail(e, RF_EDATA, "the record has a reward but no rollout");
	if (r->advantage && !r->rollout.tokens)
		return rf_fail(e, RF_EDATA, "the record has an advantage but no rollout");
	if (!r->rollout.h_pred != !r->rollout.h_gt)
		return rf_fail(e, RF_EDATA, "rollout has %s but no %s", r->rollout.h_pred ? "h_pred" : "h_gt",
		               r->rollout.h_pred ? "h_gt" : "h_pred");
	if (r->reward.kind && !r->reward.total)
		return rf_fail(e, RF_EDATA, "reward has no 'total'");
	if (r->reward.kind && r->reward.n != r->rollout.n)
		return rf_fail(e, RF_EDATA, "reward has %d numbers per position, but rollout has %d",
		               r->reward.n,
		               r->rollout.n);
	return check_fields(r, record_fields, vocab, e);
}

/* ---- reading ------------------------------------------------------------------------------- */

static enum rf_code no_memory(const char *key, struct rf_err *e)
{
	return rf_fail(e, RF_ENOMEM, "out of memory (%s)", key);
}

/* The shape as text for a message: "(4, 3)". */
static const char *shape_text(char *buf, size_t size, const uint64_t *shape, int n)
{
	int w = snprintf(buf, size, "(");

	for (int i = 0; i < n && (size_t)w < size; i++)
		w += snprintf(buf + w, size - (size_t)w, "%s%llu", i ? ", " : "",
		              (unsigned long long)shape[i]);
	if ((size_t)w < size)
		snprintf(buf + w, size - (size_t)w, ")");
	return buf;
}

/* Takes {dtype, shape, data} apart; what is wrong with it, or NULL.  The data's length is not yet
 * compared. */
static const char *open_array(struct rf_mp v, const char *dtype, uint64_t *shape, int ndim,
                              struct rf_mp_item *data)
{
	struct rf_mp_item it;

	rf_mp_next(&v, &it);
	if (it.type != RF_MP_MAP || it.n != 3)
		return "is not an array {dtype, shape, data}";
	rf_mp_next(&v, &it);
	if (!rf_mp_is(&it, "dtype"))
		return "is not an array {dtype, shape, data}, in this order";
	rf_mp_next(&v, &it);
	if (!rf_mp_is(&it, dtype))
		return *dtype == '<' && dtype[1] == 'i' ? "does not have the dtype <i4"
		                                        : "does not have the dtype <f4";
	rf_mp_next(&v, &it);
	if (!rf_mp_is(&it, "shape"))
		return "is not an array {dtype, shape, data}, in this order";
	rf_mp_next(&v, &it);
	if (it.type != RF_MP_ARRAY || it.n != (uint32_t)ndim)
		return ndim == 1   ? "does not have 1 dimension"
		       : ndim == 2 ? "does not have 2 dimensions"
		       : ndim == 3 ? "does not have 3 dimensions"
		                   : "does not have 4 dimensions";
	for (int i = 0; i < ndim; i++) {
		rf_mp_next(&v, &it);
		if (it.type != RF_MP_UINT || it.u > INT32_MAX)
			return "has a size that is not a whole number below 2^31";
		shape[i] = it.u;
	}
	rf_mp_next(&v, &it);
	if (!rf_mp_is(&it, "data"))
		return "is not an array {dtype, shape, data}, in this order";
	rf_mp_next(&v, data);
	return data->type == RF_MP_BIN ? NULL : "has data that are not binary";
}

/* Reads an array into memory of the record's; key is what it is called, of a part not what the field is. */
static enum rf_code read_array(struct rf_record *r, const struct field *f, const char *pre, const char *key,
                               struct rf_mp v, void **to, struct rf_err *e)
{
	uint64_t shape[4], want[4];
	int ndim = (int)strlen(f->dims);
	struct rf_mp_item data;
	const char *why = open_array(v, f->kind == I4 ? "<i4" : "<f4", shape, ndim, &data);
	char a[80], b[80];
	size_t n;

	if (why)
		return rf_fail(e, RF_EDATA, "%s%s %s", pre, key, why);
	for (int i = 0; i < ndim; i++) {
		int *size = size_of(r, f->dims[i]);
		/* it would say nothing, and 0 stands for a size that is not known yet */
		if (size && !shape[i])
			return rf_fail(e, RF_EDATA, "%s%s is empty", pre, key);
		if (size && !*size)
			*size = (int)shape[i];
		want[i] = (uint64_t)size_now(r, f->dims[i]);
	}
	if (memcmp(shape, want, (size_t)ndim * sizeof *shape))
		return rf_fail(e, RF_EDATA, "%s%s has the shape %s where %s was expected", pre, key,
		               shape_text(a, sizeof a, shape, ndim), shape_text(b, sizeof b, want, ndim));
	if (!count(r, f, &n) || 4 * n != data.n)
		return rf_fail(e, RF_EDATA, "%s%s has %lu bytes of data, which does not match its shape %s",
		               pre, key, (unsigned long)data.n, shape_text(a, sizeof a, shape, ndim));
	if (!(*to = rf_record_alloc(r, n, 4)))
		return no_memory(key, e);
	if (n)
		memcpy(*to, data.data, 4 * n);
	return RF_OK;
}

static enum rf_code read_string(struct rf_record *r, const char *pre, const char *key, struct rf_mp *v,
                                const char **to, struct rf_err *e)
{
	struct rf_mp_item it;
	char *s;

	rf_mp_next(v, &it);
	if (it.type != RF_MP_STR)
		return rf_fail(e, RF_EDATA, "%s%s is not a string", pre, key);
	if (memchr(it.data, 0, it.n))
		return rf_fail(e, RF_EDATA, "%s%s contains a NUL", pre, key);
	if (!(s = rf_record_alloc(r, (size_t)it.n + 1, 1)))
		return no_memory(key, e);
	memcpy(s, it.data, it.n);
	s[it.n] = 0;
	*to = s;
	return RF_OK;
}

static enum rf_code read_answers(struct rf_record *r, struct rf_mp v, struct rf_err *e)
{
	struct rf_mp_item it;
	enum rf_code rc = RF_OK;

	rf_mp_next(&v, &it);
	if (it.type != RF_MP_ARRAY)
		return rf_fail(e, RF_EDATA, "answers is not a list");
	if (!(r->answer = rf_record_alloc(r, it.n, sizeof *r->answer)))
		return no_memory("answers", e);
	r->answers = (int)it.n;
	for (uint32_t i = 0; i < it.n && rc == RF_OK; i++)
		rc = read_string(r, "an element of ", "answers", &v, &r->answer[i], e);
	return rc;
}

/* The map of parts, behind those that have keys of their own. */
static enum rf_code read_parts(struct rf_record *r, const struct field *f, struct rf_mp map, struct rf_err *e)
{
	struct rf_reward *w = &r->reward;
	struct rf_mp_item it, key;
	struct rf_mp v;
	enum rf_code rc = RF_OK;

	rf_mp_next(&map, &it);
	if (it.type != RF_MP_MAP)
		return rf_fail(e, RF_EDATA, "reward.parts is not a map");
	if (!it.n)
		return rf_fail(e, RF_EDATA, "reward.parts is empty");
	for (uint32_t left = it.n; left && rc == RF_OK; left--) {
		char *name;
		void *p;

		rf_mp_pair(&map, &key, &v);
		if (!rf_part_named((const char *)key.data, key.n)) {
			bad_name((const char *)key.data, key.n, e);
			return rf_blame(e, "reward.parts");
		}
		if (w->parts == RF_PARTS)
			return too_many_parts(e);
		if (!(name = rf_record_alloc(r, (size_t)key.n + 1, 1)))
			return no_memory("parts", e);
		memcpy(name, key.data, key.n);
		name[key.n] = 0;
		if (known(name))
			return rf_fail(e, RF_EDATA, "reward.parts has '%s', which is a key of reward itself",
			               name);
		if ((rc = read_array(r, f, in_map, name, v, &p, e)) == RF_OK)
			w->part[w->parts++] = (struct rf_part){ name, p };
	}
	return rc;
}

static enum rf_code read_fields(struct rf_record *r, const struct field *fields, struct rf_mp map,
                                struct rf_err *e);

static enum rf_code read_field(struct rf_record *r, const struct field *f, const char *pre, struct rf_mp v,
                               struct rf_err *e)
{
	struct rf_mp at = v;
	struct rf_mp_item it;
	enum rf_code rc;
	const char *text;
	void *p;

	rf_mp_next(&at, &it);
	switch (f->kind) {
	case ID:
		if (it.type != RF_MP_UINT)
			return rf_fail(e, RF_EDATA, "id is not a whole number of 0 or more");
		r->id = it.u;
		return RF_OK;
	case LENGTH:
		if (it.type != RF_MP_UINT || it.u > INT32_MAX)
			return rf_fail(e, RF_EDATA, "prompt_len is not a whole number of 0 or more");
		r->prompt_len = (int)it.u;
		return RF_OK;
	case REAL:
		if (it.type != RF_MP_REAL && it.type != RF_MP_UINT)
			return rf_fail(e, RF_EDATA, "%s%s is not a number", pre, f->key);
		r->rollout.temperature = it.type == RF_MP_REAL ? it.f : (double)it.u;
		return RF_OK;
	case TEXT:
		if ((rc = read_string(r, pre, f->key, &v, &text, e)) == RF_OK)
			set(r, f, (void *)text);
		return rc;
	case TEXTS:
		return read_answers(r, v, e);
	case MAP:
		if (!(p = rf_record_alloc(r, (size_t)(v.end - v.p), 1)))
			return no_memory(f->key, e);
		memcpy(p, v.p, (size_t)(v.end - v.p));
		r->meta = (struct rf_raw){ p, (size_t)(v.end - v.p) };
		return RF_OK;
	case GROUP:
		return read_fields(r, f->sub, v, e);
	case PARTS:
		return read_parts(r, f, v, e);
	default:
		if ((rc = read_array(r, f, pre, f->key, v, &p, e)) == RF_OK)
			set(r, f, p);
		return rc;
	}
}

/* Keys without which a map says nothing. */
static bool needed(const struct field *f)
{
	return f->kind == ID || f->kind == REAL ||
	       (f->kind != GROUP &&
	        (f->at == AT(tokens) || f->at == AT(rollout.tokens) || f->at == AT(reward.kind)));
}

static enum rf_code read_fields(struct rf_record *r, const struct field *fields, struct rf_mp map,
                                struct rf_err *e)
{
	const char *pre = prefix(fields), *what = *pre == 0                  ? "record"
	                                          : fields == rollout_fields ? "rollout"
	                                                                     : "reward";
	const char *keys[FIELDS_MAX];
	struct rf_mp v[FIELDS_MAX];
	struct rf_buf unknown = { 0 };
	struct rf_raw *raw;
	enum rf_code rc;
	bool ok = true;
	int n = 0, *unknowns;

	for (; fields[n].key; n++)
		keys[n] = fields[n].key;
	unknown_of(r, fields, &unknowns, &raw);
	rc = rf_map_sort(map, what, keys, n, v, &unknown, unknowns, e);
	if (rc == RF_OK && unknown.n) {
		*raw = (struct rf_raw){ dup(r, unknown.p, unknown.n, &ok), unknown.n };
		rc = ok ? RF_OK : no_memory("unknown keys", e);
	}
	rf_buf_free(&unknown);
	for (int i = 0; i < n && rc == RF_OK; i++)
		if (v[i].p)
			rc = read_field(r, &fields[i], pre, v[i], e);
		else if (needed(&fields[i]))
			rc = rf_fail(e, RF_EDATA, "%s has no '%s'", what, keys[i]);
	return rc;
}

enum rf_code rf_record_decode(struct rf_record *r, const void *msg, size_t n, int vocab, struct rf_err *e)
{
	struct rf_mp body = { msg, (const unsigned char *)msg + n };
	enum rf_code rc;

	rf_record_clear(r);
	rc = read_fields(r, record_fields, body, e);
	return rc == RF_OK ? rf_record_check(r, vocab, e) : rc;
}

/* ---- writing ------------------------------------------------------------------------------- */

static void pack_numbers(msgpack_packer *pk, const struct rf_record *r, const struct field *f, const void *p)
{
	int shape[4];
	size_t n;

	for (int i = 0; f->dims[i]; i++)
		shape[i] = size_now(r, f->dims[i]);
	count(r, f, &n);
	rf_pack_array(pk, f->kind == I4 ? "<i4" : "<f4", (int)strlen(f->dims), shape, p, 4 * n);
}

static void pack_parts(msgpack_packer *pk, const struct rf_record *r, const struct field *f)
{
	const struct rf_reward *w = &r->reward;

	msgpack_pack_map(pk, (size_t)parts_in_map(w));
	for (int i = 0; i < w->parts; i++)
		if (!known(w->part[i].name)) {
			rf_pack_text(pk, w->part[i].name);
			pack_numbers(pk, r, f, w->part[i].value);
		}
}

static void pack_fields(struct rf_buf *b, const struct rf_record *r, const struct field *fields)
{
	struct rf_raw *raw;
	msgpack_packer pk;
	size_t keys;
	int *unknowns;

	unknown_of((struct rf_record *)r, fields, &unknowns, &raw);
	keys = (size_t)*unknowns;
	for (const struct field *f = fields; f->key; f++)
		keys += present(r, f);
	rf_pack_init(&pk, b);
	msgpack_pack_map(&pk, keys);
	for (const struct field *f = fields; f->key; f++) {
		if (!present(r, f))
			continue;
		rf_pack_text(&pk, f->key);
		switch (f->kind) {
		case ID:     msgpack_pack_uint64(&pk, r->id); break;
		case LENGTH: msgpack_pack_int(&pk, r->prompt_len); break;
		case REAL:   msgpack_pack_double(&pk, r->rollout.temperature); break;
		case TEXT:   rf_pack_text(&pk, get(r, f)); break;
		case TEXTS:
			msgpack_pack_array(&pk, (size_t)r->answers);
			for (int i = 0; i < r->answers; i++)
				rf_pack_text(&pk, r->answer[i]);
			break;
		case MAP:    rf_buf_add(b, r->meta.data, r->meta.size); break;
		case GROUP:  pack_fields(b, r, f->sub); break;
		case PARTS:  pack_parts(&pk, r, f); break;
		default:     pack_numbers(&pk, r, f, get(r, f));
		}
	}
	rf_buf_add(b, raw->data, raw->size);
}

void rf_record_encode(struct rf_buf *b, uint64_t seq, const struct rf_record *r)
{
	msgpack_packer pk;

	rf_pack_init(&pk, b);
	msgpack_pack_array(&pk, 3);
	msgpack_pack_uint64(&pk, seq);
	rf_pack_text(&pk, "seq");
	pack_fields(b, r, record_fields);
}
