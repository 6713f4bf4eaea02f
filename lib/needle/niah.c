/* niah.c -- tasks with needles in a haystack: keys with values among the words of an essay, among lines of
 * noise, or among lines with other keys and values. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "needle/task.h"

enum { NEAR = 32 };

struct niah {
	size_t needles;
	const char **needle;
	double *drawn;
	size_t *before, *rank, *at;
	const char *type; /* the type of value in the prompt, in the singular or the plural */
	bool one;
	struct rf_units other; /* lines with other keys */
};

/* Appends a uuid of version 4 (RFC 9562). */
static void add_uuid(struct rf_buf *to, uint64_t key, uint64_t i)
{
	const uint32_t counter[4] = { (uint32_t)i, (uint32_t)(i >> 32) },
		       k[2] = { (uint32_t)key, (uint32_t)(key >> 32) };
	uint32_t r[4];
	char s[40];
	int n;

	rf_philox4x32(counter, k, r);
	n = snprintf(s, sizeof s, "%08x-%04x-4%03x-%04x-%04x%08x", (unsigned)r[0], (unsigned)r[1] >> 16,
	             (unsigned)r[1] & 0xfff, ((unsigned)r[2] >> 16 & 0x3fff) | 0x8000,
	             (unsigned)r[2] & 0xffff, (unsigned)r[3]);
	rf_buf_add(to, s, (size_t)n);
}

/* Appends the i-th key of a sample.  Keys, and values, are distinct as long as there are enough. */
static void add_key(const struct rf_prompt *s, uint64_t i, struct rf_buf *to)
{
	uint64_t key = rf_prompt_key(s, RF_FOR_KEYS, 0), all = rf_vocabulary_pairs(&s->of->words);
	uint64_t asked = (uint64_t)s->task->keys;

	if (s->task->uuid_keys) {
		add_uuid(to, key, i);
	} else {
		i = i < all ? i : asked + (i - asked) % (all - asked);
		rf_vocabulary_pair(&s->of->words, rf_permuted(key, all, i), to);
	}
}

static void add_value(const struct rf_prompt *s, uint64_t i, struct rf_buf *to)
{
	const uint64_t key = rf_prompt_key(s, RF_FOR_VALUES, 0);
	const uint64_t asked = (uint64_t)(s->task->keys * s->task->values);
	uint64_t least = 1, all;
	char number[24];
	int n;

	if (s->task->uuid_values) {
		add_uuid(to, key, i);
	} else {
		for (int k = 1; k < s->of->digits; k++)
			least *= 10;
		all = 9 * least;
		i = i < all ? i : asked + (i - asked) % (all - asked); /* never the value of an answer */
		n = snprintf(number, sizeof number, "%llu",
		             (unsigned long long)(least + rf_permuted(key, all, i)));
		rf_buf_add(to, number, (size_t)n);
	}
}

static const char *wording_of(const struct rf_prompt *s, enum rf_wording w)
{
	return s->of->wording.t[w].text;
}

/* Replaces line by the needle with this key and value. */
static void make_needle(const struct rf_prompt *s, uint64_t key, uint64_t value, struct rf_buf *line)
{
	struct rf_buf k = { 0 }, v = { 0 };
	struct rf_fill f = { .s = { [RF_TYPE] = wording_of(s, s->task->uuid_values ? RF_TYPE_UUIDS
		                                                                   : RF_TYPE_NUMBERS) } };

	line->n = 0;
	add_key(s, key, &k);
	add_value(s, value, &v);
	f.s[RF_KEY] = (char *)k.p;
	f.n[RF_KEY] = k.n;
	f.s[RF_VALUE] = (char *)v.p;
	f.n[RF_VALUE] = v.n;
	rf_template_fill(&s->of->wording, RF_NIAH_NEEDLE, &f, line);
	line->failed |= k.failed || v.failed;
	rf_buf_free(&k);
	rf_buf_free(&v);
}

/* Writes the names of the query: "a, b, c, and d". */
static void name_query(struct rf_prompt *s)
{
	struct rf_buf b = { 0 };
	const char *last = wording_of(s, RF_NIAH_AND);

	for (int q = 0; q < s->task->queries; q++) {
		if (q && q == s->task->queries - 1)
			rf_buf_add(&b, last, strlen(last));
		else if (q)
			rf_buf_add(&b, ", ", 2);
		add_key(s, (uint64_t)q, &b);
	}
	s->failed |= b.failed;
	s->query = rf_prompt_text(s, b.p, b.n);
	rf_buf_free(&b);
}

static void free_niah(void *state) { rf_units_free(&((struct niah *)state)->other); }

enum rf_code rf_niah_draw(struct rf_prompt *s, struct rf_err *e)
{
	const struct rf_task *t = s->task;
	struct niah *h = rf_prompt_alloc(s, 1, sizeof *h);
	size_t k = (size_t)(t->keys * t->values), answers = (size_t)(t->queries * t->values);
	uint64_t places = rf_prompt_key(s, RF_FOR_PLACES, 0);
	struct rf_buf b = { 0 };

	if (!h)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	s->state = h;
	s->drop = free_niah;
	h->needles = k;
	h->needle = rf_prompt_alloc(s, k, sizeof *h->needle);
	h->drawn = rf_prompt_alloc(s, k, sizeof *h->drawn);
	h->before = rf_prompt_alloc(s, 3 * k, sizeof *h->before);
	s->answer = rf_prompt_alloc(s, answers, sizeof *s->answer);
	s->place = rf_prompt_alloc(s, answers, sizeof *s->place);
	if (s->failed)
		return RF_OK;
	h->rank = h->before + k;
	h->at = h->rank + k;
	h->other.joint = '\n';
	h->one = answers == 1;
	h->type = wording_of(s, t->uuid_values ? (h->one ? RF_TYPE_UUID : RF_TYPE_UUIDS)
	                                       : (h->one ? RF_TYPE_NUMBER : RF_TYPE_NUMBERS));
	for (size_t i = 0; i < k; i++) {
		make_needle(s, i / (size_t)t->values, i, &b);
		h->needle[i] = rf_prompt_text(s, b.p, b.n);
		h->drawn[i] = rf_draw(places, (uint32_t)i);
	}
	s->answers = s->places = answers;
	for (size_t i = 0; i < answers; i++) {
		b.n = 0;
		add_value(s, i, &b);
		s->answer[i] = rf_prompt_text(s, b.p, b.n);
		s->place[i].drawn = h->drawn[i];
	}
	s->failed |= b.failed;
	rf_buf_free(&b);
	name_query(s);
	return RF_OK;
}

/* Returns the end of a sentence, or of the text, that is nearest to word p of n; p if none is near. */
static size_t nearest_end(const struct rf_units *u, size_t n, size_t p)
{
	for (size_t d = 0; d <= NEAR; d++) {
		if (d <= p && (p == d || rf_units_stop(u, p - d - 1)))
			return p - d;
		if (p + d <= n && (p + d == n || rf_units_stop(u, p + d - 1)))
			return p + d;
	}
	return p;
}

/* Places the needles in an essay of n words: each at the end of the sentence that is nearest to its drawn
 * place among n + 1. */
static void place_in_essay(struct niah *h, const struct rf_units *u, size_t n)
{
	for (size_t i = 0; i < h->needles; i++) {
		h->before[i] = nearest_end(u, n, (size_t)(h->drawn[i] * (double)(n + 1)));
		h->rank[i] = 0;
		for (size_t j = 0; j < h->needles; j++)
			h->rank[i] += h->drawn[j] < h->drawn[i] || (h->drawn[j] == h->drawn[i] && j < i);
	}
}

static void place_in_lines(struct niah *h, size_t n)
{
	rf_place_lines(h->drawn, h->needles, n, h->rank);
	for (size_t i = 0; i < h->needles; i++) {
		h->before[i] = h->rank[i];
		for (size_t j = 0; j < h->needles; j++)
			h->before[i] -= h->rank[j] < h->rank[i];
	}
}

enum rf_code rf_niah_render(struct rf_prompt *s, size_t units, struct rf_err *e)
{
	struct niah *h = s->state;
	const struct rf_units *u = s->task->haystack == RF_NOISES  ? &s->of->noise
	                           : s->task->haystack == RF_ESSAY ? &s->of->essay
	                                                           : &h->other;
	struct rf_fill f = { .s = { [RF_TYPE] = h->type, [RF_QUERY] = s->query } };
	struct rf_buf b = { 0 };

	if (s->task->haystack == RF_NEEDLES)
		while (h->other.n < units && !h->other.failed && !b.failed) {
			make_needle(s, (uint64_t)s->task->keys + h->other.n, h->needles + h->other.n, &b);
			rf_units_add(&h->other, b.p, b.n);
		}
	s->failed |= h->other.failed || b.failed;
	rf_buf_free(&b);
	if (s->failed)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	if (s->task->haystack == RF_ESSAY)
		place_in_essay(h, u, units);
	else
		place_in_lines(h, units);
	rf_scatter(&s->context, u, units, h->needle, h->before, h->rank, h->needles, h->at);
	for (size_t i = 0; i < s->places; i++) {
		s->place[i].at = h->at[i];
		s->place[i].n = strlen(h->needle[i]);
	}
	rf_prompt_write(s, h->one ? RF_NIAH_INPUT_ONE : RF_NIAH_INPUT,
	                h->one ? RF_NIAH_PREFIX_ONE : RF_NIAH_PREFIX, &f);
	return RF_OK;
}
