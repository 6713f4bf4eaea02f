/* vt.c -- the task of tracking variables: a chain of names in lines among noise.  The first name gets a
 * value, and each other name the value of the name before it.  A worked example with shorter names precedes
 * the text. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "needle/task.h"

enum {
	HOPS = 4,
	NAMES = HOPS + 1,
	LETTERS = 5,
	EXAMPLE_LETTERS = 3,
	EXAMPLE_VALUE = 12345,
	EXAMPLE_TOKENS = 500,
	EXAMPLE_SHARE = 8
};

struct chain {
	const char *name[NAMES], *line[NAMES], *value;
	double drawn[NAMES]; /* in ascending order */
	size_t at[NAMES];
};

struct vt {
	struct chain chain, example;
	const char *worked;
};

static int by_size(const void *a, const void *b)
{
	const size_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static int by_number(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void draw_chain(struct rf_prompt *s, struct chain *c, int letters, int value, uint64_t names,
                       uint64_t places)
{
	struct rf_buf b = { 0 };
	uint64_t all = 1;
	char text[24];

	for (int i = 0; i < letters; i++)
		all *= 26;
	c->value = rf_prompt_text(s, text, (size_t)snprintf(text, sizeof text, "%d", value));
	for (int i = 0; i < NAMES; i++) {
		struct rf_fill f = { .s = { [RF_VALUE] = c->value } };
		uint64_t number = rf_permuted(names, all, (uint64_t)i);

		for (int j = 0; j < letters; j++, number /= 26)
			text[j] = (char)('A' + number % 26);
		c->name[i] = f.s[RF_NAME] = rf_prompt_text(s, text, (size_t)letters);
		if (i)
			f.s[RF_FROM] = c->name[i - 1];
		b.n = 0;
		rf_template_fill(&s->of->wording, i ? RF_VT_NEXT : RF_VT_FIRST, &f, &b);
		c->line[i] = rf_prompt_text(s, b.p, b.n);
		c->drawn[i] = rf_draw(places, (uint32_t)i);
	}
	qsort(c->drawn, NAMES, sizeof *c->drawn, by_number);
	s->failed |= b.failed;
	rf_buf_free(&b);
}

/* Writes the chain's lines among n lines of noise into s->context, and the prompt about them. */
static void write_chain(struct rf_prompt *s, struct chain *c, size_t n)
{
	size_t line[NAMES], before[NAMES];
	struct rf_fill f = { .s = { [RF_QUERY] = c->value, [RF_COUNT] = "5" } };

	static_assert(NAMES == 5, "the count says so");
	rf_place_lines(c->drawn, NAMES, n, line);
	qsort(line, NAMES, sizeof *line, by_size);
	for (size_t i = 0; i < NAMES; i++)
		before[i] = line[i] - i;
	rf_scatter(&s->context, &s->of->noise, n, c->line, before, line, NAMES, c->at);
	rf_prompt_write(s, RF_VT_INPUT, RF_VT_PREFIX, &f);
}

/* Writes the example with n lines of noise into s->prompt. */
static void write_example(struct rf_prompt *s, size_t n)
{
	struct vt *v = s->state;
	struct rf_buf out = { 0 };

	s->prompt.n = s->context.n = 0;
	write_chain(s, &v->example, n);
	rf_prompt_example(s, RF_VT_EXAMPLE, RF_VT_ANSWER, RF_VT_JOINT, v->example.name, NAMES, &out);
	rf_buf_free(&s->prompt);
	s->prompt = out;
}

static enum rf_code measure_example(void *of, size_t units, size_t *n, struct rf_err *e)
{
	struct rf_prompt *s = of;

	write_example(s, units);
	return rf_count_tokens(s->of, &s->prompt, n, e);
}

enum rf_code rf_vt_draw(struct rf_prompt *s, struct rf_err *e)
{
	struct vt *v = rf_prompt_alloc(s, 1, sizeof *v);
	const struct rf_fit fit = { measure_example, s };
	size_t room = (size_t)s->length / EXAMPLE_SHARE, units, measured;
	enum rf_code rc;
	int value;

	s->state = v;
	s->answer = rf_prompt_alloc(s, NAMES, sizeof *s->answer);
	s->place = rf_prompt_alloc(s, NAMES, sizeof *s->place);
	if (s->failed)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	/* from 10000 to 99998, and different from the value of the example */
	value = 10000 + (int)rf_draw_below(rf_prompt_key(s, RF_FOR_VALUES, 0), 0, 89998);
	draw_chain(s, &v->chain, LETTERS, value + (value >= EXAMPLE_VALUE), rf_prompt_key(s, RF_FOR_NAMES, 0),
	           rf_prompt_key(s, RF_FOR_PLACES, 0));
	draw_chain(s, &v->example, EXAMPLE_LETTERS, EXAMPLE_VALUE, rf_prompt_key(s, RF_FOR_EXAMPLE, 0),
	           rf_prompt_key(s, RF_FOR_EXAMPLE, 1));
	s->query = v->chain.value;
	s->answers = s->places = NAMES;
	for (int i = 0; i < NAMES; i++) {
		s->answer[i] = v->chain.name[i];
		s->place[i].drawn = v->chain.drawn[i];
	}
	room = room > EXAMPLE_TOKENS ? EXAMPLE_TOKENS : room;
	rc = rf_fit(&fit, 0, room, room, &units, &measured, e);
	if (rc != RF_OK && rc != RF_EOF)
		return rc;
	write_example(s, units);
	if (!s->failed)
		v->worked = rf_prompt_text(s, s->prompt.p, s->prompt.n);
	return RF_OK;
}

enum rf_code rf_vt_render(struct rf_prompt *s, size_t units, struct rf_err *e)
{
	struct vt *v = s->state;

	(void)e;
	rf_buf_add(&s->prompt, v->worked, strlen(v->worked));
	write_chain(s, &v->chain, units);
	for (int i = 0; i < NAMES; i++) {
		s->place[i].at = v->chain.at[i];
		s->place[i].n = strlen(v->chain.line[i]);
	}
	return RF_OK;
}
