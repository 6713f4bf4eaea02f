/* prompt.c -- the parts of a sample that all tasks share: draws, memory, the prompt, and needles placed in a
 * haystack. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/rng.h"
#include "needle/task.h"

uint64_t rf_prompt_key(const struct rf_prompt *s, enum rf_what purpose, uint64_t of)
{
	return rf_draw_key(s->of->seed, RF_DRAW_NEEDLE, (uint64_t)s->task->id, s->number, (uint64_t)purpose,
	                   of);
}

uint64_t rf_draw_below(uint64_t key, uint32_t j, uint64_t n)
{
	uint64_t k = (uint64_t)(rf_draw(key, j) * (double)n);

	return k < n ? k : n - 1;
}

/* A Feistel network over an even number of bits, walked until it leads below n: at most four steps on
 * average. Black and Rogaway 2002, "Ciphers with arbitrary finite domains". */
uint64_t rf_permuted(uint64_t key, uint64_t n, uint64_t j)
{
	const uint32_t k[2] = { (uint32_t)key, (uint32_t)(key >> 32) };
	int half = 0;
	uint32_t mask, left, right, out[4];

	while (half < 31 && UINT64_C(1) << 2 * half < n)
		half++;
	mask = (UINT32_C(1) << half) - 1;
	do {
		left = (uint32_t)(j >> half);
		right = (uint32_t)j & mask;
		for (uint32_t round = 0; round < 6; round++) {
			const uint32_t counter[4] = { right, round, 1, 0 };
			uint32_t old = left;

			rf_philox4x32(counter, k, out);
			left = right;
			right = (old ^ out[0]) & mask;
		}
		j = (uint64_t)left << half | right;
	} while (j >= n);
	return j;
}

void *rf_prompt_alloc(struct rf_prompt *s, size_t count, size_t size)
{
	void *p = rf_region_alloc(&s->memory, count, size);

	if (!p)
		s->failed = true;
	else
		memset(p, 0, count * size);
	return p;
}

const char *rf_prompt_text(struct rf_prompt *s, const void *text, size_t n)
{
	const char *copy = rf_region_text(&s->memory, text, n);

	s->failed |= !copy;
	return copy ? copy : "";
}

void rf_prompt_write(struct rf_prompt *s, enum rf_wording input, enum rf_wording prefix,
                     const struct rf_fill *f)
{
	size_t before = s->prompt.n;
	struct rf_fill with = *f;

	with.s[RF_CONTEXT] = s->context.n ? (const char *)s->context.p : "";
	with.n[RF_CONTEXT] = s->context.n;
	s->context_at = before + rf_template_fill(&s->of->wording, input, &with, &s->prompt);
	s->input = s->prompt.n;
	rf_template_fill(&s->of->wording, prefix, f, &s->prompt);
}

void rf_prompt_example(struct rf_prompt *s, enum rf_wording example, enum rf_wording answer,
                       enum rf_wording joint, const char *const *answers, size_t n, struct rf_buf *out)
{
	const struct rf_template *between = &s->of->wording.t[joint];
	struct rf_fill f = { .s = { NULL } };
	struct rf_buf all = { 0 };
	char number[24];

	for (size_t i = 0; i < n; i++) {
		struct rf_fill one = { .s = { [RF_ANSWER] = answers[i], [RF_I] = number } };

		snprintf(number, sizeof number, "%zu", i + 1);
		if (i)
			rf_buf_add(&all, between->text, between->piece[0].n);
		rf_template_fill(&s->of->wording, answer, &one, &all);
	}
	f.s[RF_INPUT] = (char *)s->prompt.p;
	f.n[RF_INPUT] = s->input;
	f.s[RF_PREFIX] = (char *)s->prompt.p + s->input;
	f.n[RF_PREFIX] = s->prompt.n - s->input;
	f.s[RF_ANSWERS] = (char *)all.p;
	f.n[RF_ANSWERS] = all.n;
	if (!s->prompt.failed)
		rf_template_fill(&s->of->wording, example, &f, out);
	s->failed |= all.failed || out->failed || s->prompt.failed;
	rf_buf_free(&all);
}

enum rf_code rf_count_tokens(struct rf_material *m, const struct rf_buf *text, size_t *n, struct rf_err *e)
{
	enum rf_code rc;

	if (text->failed)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	*n = text->n;
	if (m->bytes)
		return RF_OK;
	m->ids.n = 0;
	rc = rf_tokenizer_encode(m->tokenizer, (const char *)text->p, text->n, &m->ids, e);
	*n = m->ids.n;
	return rc;
}

/* ---- needles in a haystack ------------------------------------------------------------------------- */

/* A line that is taken is replaced by the nearest free line. */
void rf_place_lines(const double *drawn, size_t k, size_t n, size_t *line)
{
	for (size_t i = 0; i < k; i++) {
		size_t wanted = (size_t)(drawn[i] * (double)(n + k));

		for (size_t d = 0; d <= n + k; d++) {
			bool below = d <= wanted, above = wanted + d < n + k;

			for (size_t j = 0; j < i; j++) {
				below = below && line[j] != wanted - d;
				above = above && line[j] != wanted + d;
			}
			if (below || above) {
				line[i] = above ? wanted + d : wanted - d;
				break;
			}
		}
	}
}

static void add_joint(struct rf_buf *context, char joint)
{
	if (context->n)
		rf_buf_add(context, &joint, 1);
}

void rf_scatter(struct rf_buf *context, const struct rf_units *u, size_t n, const char *const *needle,
                const size_t *before, const size_t *rank, size_t k, size_t *at)
{
	size_t done = 0;

	context->n = 0;
	for (size_t placed = 0; placed <= k; placed++) {
		size_t next = k, to;

		/* find the next needle by a linear search, because k is small */
		for (size_t i = 0; i < k; i++) {
			size_t earlier = 0;

			for (size_t j = 0; j < k; j++)
				earlier += before[j] < before[i] ||
				           (before[j] == before[i] && rank[j] < rank[i]);
			if (earlier == placed)
				next = i;
		}
		to = next < k ? before[next] : n;
		if (to > done) {
			add_joint(context, u->joint);
			rf_units_copy(u, done, to, context);
			done = to;
		}
		if (next < k) {
			add_joint(context, u->joint);
			at[next] = context->n;
			rf_buf_add(context, needle[next], strlen(needle[next]));
		}
	}
}

/* ---- order ---------------------------------------------------------------------------------------- */

void rf_order_add(struct rf_order *o, double u, uint32_t a, uint32_t b)
{
	o->failed = o->failed || !rf_grow(&o->item, o->n, &o->cap, sizeof *o->item);
	if (!o->failed)
		o->item[o->n++] = (struct rf_item){ u, a, b };
}

static int by_number(const void *a, const void *b)
{
	const struct rf_item *x = a, *y = b;

	if (x->u != y->u)
		return x->u < y->u ? -1 : 1;
	return x->a != y->a ? (x->a < y->a ? -1 : 1) : x->b < y->b ? -1 : x->b > y->b;
}

void rf_order_sort(struct rf_order *o)
{
	if (o->n)
		qsort(o->item, o->n, sizeof *o->item, by_number);
}

void rf_order_free(struct rf_order *o) { free(o->item); }
