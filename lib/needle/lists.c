/* lists.c -- tasks about frequent words: in a numbered list (cwe), and in a coded text (fwe), where the
 * frequency falls with the square of the rank.
 *
 * Each occurrence of a word has a random number in [0, 1), by which the list is sorted.  So more units
 * insert further occurrences, and the order of the others stays the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "needle/task.h"

/* Words of a list: the common words of the text, the words of the example, and the text's other words. */
enum { COMMON = 10, EXAMPLE_COMMON = 10, EXAMPLE_MOST = 40, LEAST_OTHERS = 10, LARGE = 4096 };

struct cwe {
	bool large;
	uint32_t times, other_times; /* occurrences of a common word, and of another word */
	struct rf_order order;       /* u, word, occurrence; of `ready` other words */
	size_t ready;
	const char **word; /* (words); NULL: the word was not made yet */
	size_t words;
	const char *worked;
};

/* ---- common words --------------------------------------------------------------------------------- */

/* Returns the i-th word of a sample: a word of the lists and, when they are used up, a pair of words. */
static const char *word_of(struct rf_prompt *s, struct cwe *c, size_t i)
{
	const struct rf_vocabulary *w = &s->of->words;
	const char **grown;
	struct rf_buf b = { 0 };
	const char *single;

	if (i >= c->words) {
		size_t words = 2 * i + 256;

		if (!(grown = rf_prompt_alloc(s, words, sizeof *grown)))
			return "";
		if (c->words)
			memcpy(grown, c->word, c->words * sizeof *grown);
		c->word = grown;
		c->words = words;
	}
	if (c->word[i])
		return c->word[i];
	if (i < w->singles) {
		single = w->single[rf_permuted(rf_prompt_key(s, RF_FOR_WORDS, 0), w->singles, i)];
		return c->word[i] = single;
	}
	rf_vocabulary_pair(w,
	                   rf_permuted(rf_prompt_key(s, RF_FOR_WORDS, 1), rf_vocabulary_pairs(w),
	                               i - w->singles),
	                   &b);
	c->word[i] = rf_prompt_text(s, b.p, b.n);
	s->failed |= b.failed;
	rf_buf_free(&b);
	return c->word[i];
}

static void add_times(struct rf_prompt *s, struct rf_order *o, enum rf_what what, uint32_t word,
                      uint32_t times)
{
	uint64_t key = rf_prompt_key(s, what, word);

	for (uint32_t r = 0; r < times; r++)
		rf_order_add(o, rf_draw(key, r), word, r);
}

/* Writes the words of an order before the word `end` as a numbered list, into s->context. */
static void write_list(struct rf_prompt *s, const struct rf_order *o, size_t end)
{
	struct rf_fill f = { .s = { NULL } };
	char number[24];
	unsigned long long i = 0;

	s->context.n = 0;
	for (size_t k = 0; k < o->n; k++) {
		if (o->item[k].a >= end)
			continue;
		if (i)
			rf_buf_add(&s->context, " ", 1);
		snprintf(number, sizeof number, "%llu", ++i);
		f.s[RF_I] = number;
		f.s[RF_WORD] = word_of(s, s->state, o->item[k].a);
		rf_template_fill(&s->of->wording, RF_CWE_ITEM, &f, &s->context);
	}
}

static void ask_common(struct rf_prompt *s)
{
	struct rf_fill f = { .s = { [RF_COUNT] = "10" } };

	rf_prompt_write(s, RF_CWE_INPUT, RF_CWE_PREFIX, &f);
}

static void make_example(struct rf_prompt *s, struct cwe *c)
{
	uint32_t words = c->large ? EXAMPLE_MOST : EXAMPLE_MOST / 2, from = COMMON;
	const char *answers[EXAMPLE_COMMON];
	struct rf_order o = { 0 };
	struct rf_buf out = { 0 };

	for (uint32_t w = from; w < from + words; w++)
		add_times(s, &o, RF_FOR_EXAMPLE, w,
		          w < from + EXAMPLE_COMMON ? (c->large ? 10 : 3) : (c->large ? 3 : 1));
	rf_order_sort(&o);
	s->prompt.n = 0;
	write_list(s, &o, from + words);
	ask_common(s);
	for (uint32_t i = 0; i < EXAMPLE_COMMON; i++)
		answers[i] = word_of(s, c, from + i);
	rf_prompt_example(s, RF_CWE_EXAMPLE, RF_CWE_ANSWER, RF_CWE_JOINT, answers, EXAMPLE_COMMON, &out);
	s->failed |= o.failed;
	c->worked = rf_prompt_text(s, out.p, out.n);
	rf_buf_free(&out);
	rf_order_free(&o);
}

static void set_size(struct rf_prompt *s, struct cwe *c, bool large)
{
	c->large = large;
	c->times = large ? 30 : 6;
	c->other_times = large ? 3 : 1;
	c->order.n = c->ready = 0;
	make_example(s, c);
}

static void drop_cwe(void *state) { rf_order_free(&((struct cwe *)state)->order); }

enum rf_code rf_cwe_draw(struct rf_prompt *s, struct rf_err *e)
{
	struct cwe *c = rf_prompt_alloc(s, 1, sizeof *c);
	uint64_t all = s->of->words.singles + rf_vocabulary_pairs(&s->of->words);

	s->state = c;
	s->answer = rf_prompt_alloc(s, COMMON, sizeof *s->answer);
	if (s->failed)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	s->drop = drop_cwe;
	s->least = LEAST_OTHERS;
	s->most = (size_t)(all < UINT32_MAX ? all : UINT32_MAX) - COMMON - EXAMPLE_MOST;
	s->query = "";
	s->answers = COMMON;
	for (size_t i = 0; i < COMMON; i++)
		s->answer[i] = word_of(s, c, i);
	set_size(s, c, s->length >= LARGE);
	return RF_OK;
}

bool rf_cwe_shrink(struct rf_prompt *s)
{
	struct cwe *c = s->state;
	bool large = c->large;

	if (large)
		set_size(s, c, false);
	return large;
}

enum rf_code rf_cwe_render(struct rf_prompt *s, size_t units, struct rf_err *e)
{
	struct cwe *c = s->state;
	uint32_t from = COMMON + EXAMPLE_MOST;

	if (units > c->ready || !c->ready) {
		c->ready = units + units / 4;
		c->order.n = 0;
		for (uint32_t w = 0; w < COMMON; w++)
			add_times(s, &c->order, RF_FOR_ORDER, w, c->times);
		for (uint32_t w = from; w < from + c->ready; w++)
			add_times(s, &c->order, RF_FOR_ORDER, w, c->other_times);
		rf_order_sort(&c->order);
	}
	if (c->order.failed)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	write_list(s, &c->order, from + units);
	rf_buf_add(&s->prompt, c->worked, strlen(c->worked));
	ask_common(s);
	return RF_OK;
}

/* ---- frequent words of a code --------------------------------------------------------------------- */

enum { CODE_LETTERS = 6, FEWEST = 100, TOKENS_PER_WORD = 50, FIRST_RANK = 1, ANSWERS = 3 };

struct fwe {
	uint32_t vocabulary;
	struct rf_order order; /* u, rank - 1, occurrence; of `ready` units */
	size_t ready;
	char (*word)[CODE_LETTERS + 1];
};

/* Returns how often the word of a rank occurs in a text of n units: by the zeta distribution with exponent 2,
 * rounded down. */
static uint32_t times_of(uint32_t rank, size_t n)
{
	return (uint32_t)((double)n / (1.6449340668482264 * (double)rank * (double)rank));
}

static void drop_fwe(void *state) { rf_order_free(&((struct fwe *)state)->order); }

enum rf_code rf_fwe_draw(struct rf_prompt *s, struct rf_err *e)
{
	struct fwe *f = rf_prompt_alloc(s, 1, sizeof *f);
	uint64_t key = rf_prompt_key(s, RF_FOR_WORDS, 0), all = 1;
	int words = (s->length - s->task->max_new) / TOKENS_PER_WORD;

	if (!f)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	s->state = f;
	s->drop = drop_fwe;
	s->least = FEWEST;
	s->query = "";
	f->vocabulary = words > FIRST_RANK + ANSWERS + 1 ? (uint32_t)words : FIRST_RANK + ANSWERS + 1;
	f->word = rf_prompt_alloc(s, f->vocabulary, sizeof *f->word);
	s->answer = rf_prompt_alloc(s, ANSWERS, sizeof *s->answer);
	if (s->failed)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	for (int i = 0; i < CODE_LETTERS; i++)
		all *= 26;
	strcpy(f->word[0], "...");
	for (uint32_t w = FIRST_RANK; w < f->vocabulary; w++) {
		uint64_t number = rf_permuted(key, all, w);

		for (int j = 0; j < CODE_LETTERS; j++, number /= 26)
			f->word[w][j] = (char)('a' + number % 26);
	}
	s->answers = ANSWERS;
	for (int i = 0; i < ANSWERS; i++)
		s->answer[i] = f->word[FIRST_RANK + i];
	return RF_OK;
}

enum rf_code rf_fwe_render(struct rf_prompt *s, size_t units, struct rf_err *e)
{
	struct fwe *f = s->state;
	struct rf_fill none = { .s = { NULL } };

	if (units > f->ready) {
		f->ready = units + units / 4;
		f->order.n = 0;
		for (uint32_t w = 0; w < f->vocabulary; w++)
			add_times(s, &f->order, RF_FOR_ORDER, w, times_of(w + 1, f->ready));
		rf_order_sort(&f->order);
	}
	if (f->order.failed)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	s->context.n = 0;
	for (size_t k = 0; k < f->order.n; k++) {
		const struct rf_item *i = &f->order.item[k];

		if (i->b >= times_of(i->a + 1, units))
			continue;
		if (s->context.n)
			rf_buf_add(&s->context, " ", 1);
		rf_buf_add(&s->context, f->word[i->a], strlen(f->word[i->a]));
	}
	rf_prompt_write(s, RF_FWE_INPUT, RF_FWE_PREFIX, &none);
	return RF_OK;
}
