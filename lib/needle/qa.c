/* qa.c -- tasks with questions about documents: the question's own paragraphs among other paragraphs.
 * Paragraphs with the same title are taken first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/rng.h"
#include "needle/task.h"

struct qa {
	const struct rf_questions *from;
	const struct rf_question *q;
	uint32_t *other;           /* the other paragraphs, in their order */
	size_t others, cap, tried; /* tried: number of the file's paragraphs that were considered */
	bool *mine;                /* (paragraphs) belongs to the question, or was taken */
	struct rf_order order;     /* u, 1 + index in `other` or 0, index in the question's own */
};

static void free_qa(void *state)
{
	struct qa *a = state;

	free(a->other);
	free(a->mine);
	rf_order_free(&a->order);
}

static void take_paragraph(struct rf_prompt *s, struct qa *a, uint32_t paragraph)
{
	if (a->mine[paragraph])
		return;
	if (!rf_grow(&a->other, a->others, &a->cap, sizeof *a->other)) {
		s->failed = true;
		return;
	}
	a->mine[paragraph] = true;
	a->other[a->others++] = paragraph;
}

/* Takes the other paragraphs with the title of one of the question's own, in random order. */
static void take_same_title(struct rf_prompt *s, struct qa *a)
{
	uint64_t key = rf_prompt_key(s, RF_FOR_PARAGRAPHS, 1);
	struct rf_order same = { 0 };

	for (uint32_t o = 0; o < a->q->own; o++) {
		uint64_t title = a->from->p[a->q->paragraph[o]].title;

		if (o && title == a->from->p[a->q->paragraph[o - 1]].title)
			continue;
		for (uint32_t p = 0; title && p < a->from->paragraphs; p++)
			if (a->from->p[p].title == title && !a->mine[p])
				rf_order_add(&same, rf_draw(key, p), p, 0);
	}
	rf_order_sort(&same);
	for (size_t i = 0; i < same.n; i++)
		take_paragraph(s, a, same.item[i].a);
	s->failed |= same.failed;
	rf_order_free(&same);
}

enum rf_code rf_qa_draw(struct rf_prompt *s, struct rf_err *e)
{
	const struct rf_questions *from = &s->of->questions[s->of->files > 1 ? s->task->questions - 1 : 0];
	struct qa *a = rf_prompt_alloc(s, 1, sizeof *a);
	size_t distinct = 0;
	uint64_t key;

	if (!a)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	s->state = a;
	s->drop = free_qa;
	a->from = from;
	/* every question is used once before one is used again */
	key = rf_draw_key(s->of->seed, RF_DRAW_NEEDLE, (uint64_t)s->task->id, s->number / from->n,
	                  RF_FOR_QUESTION, 0);
	a->q = &from->q[rf_permuted(key, from->n, s->number % from->n)];
	s->query = a->q->text;
	s->answer = a->q->answer;
	s->answers = a->q->answers;
	s->places = a->q->own;
	s->place = rf_prompt_alloc(s, s->places, sizeof *s->place);
	if (s->failed || !(a->mine = calloc(from->paragraphs, sizeof *a->mine)))
		return rf_fail(e, RF_ENOMEM, "out of memory");
	key = rf_prompt_key(s, RF_FOR_PLACES, 0);
	for (uint32_t i = 0; i < a->q->own; i++) {
		distinct += !a->mine[a->q->paragraph[i]];
		a->mine[a->q->paragraph[i]] = true;
		s->place[i].drawn = rf_draw(key, i);
		rf_order_add(&a->order, s->place[i].drawn, 0, i);
	}
	take_same_title(s, a);
	rf_order_sort(&a->order);
	if (distinct == from->paragraphs)
		s->most = 0;
	return RF_OK;
}

/* Makes n other paragraphs; they are repeated when the file has no more. */
static void make_others(struct rf_prompt *s, struct qa *a, size_t n)
{
	uint64_t all = a->from->paragraphs, order = rf_prompt_key(s, RF_FOR_ORDER, 0);
	uint64_t key = rf_prompt_key(s, RF_FOR_PARAGRAPHS, 0);
	size_t have = a->order.n - a->q->own;

	while (a->others < n && a->tried < all && !s->failed)
		take_paragraph(s, a, (uint32_t)rf_permuted(key, all, a->tried++));
	for (; have < n && !s->failed; have++)
		rf_order_add(&a->order, rf_draw(order, (uint32_t)have), (uint32_t)have + 1, 0);
	rf_order_sort(&a->order);
}

enum rf_code rf_qa_render(struct rf_prompt *s, size_t units, struct rf_err *e)
{
	struct qa *a = s->state;
	struct rf_fill f = { .s = { [RF_QUERY] = s->query } };
	char number[24];
	unsigned long long i = 0;

	if (a->order.n - a->q->own < units)
		make_others(s, a, units);
	if (s->failed || a->order.failed)
		return rf_fail(e, RF_ENOMEM, "out of memory");
	s->context.n = 0;
	for (size_t k = 0; k < a->order.n; k++) {
		const struct rf_item *item = &a->order.item[k];
		const struct rf_paragraph *p;
		struct rf_fill one = { .s = { [RF_I] = number } };
		size_t at;

		if (item->a > units)
			continue;
		p = &a->from->p[item->a ? a->other[(item->a - 1) % a->others] : a->q->paragraph[item->b]];
		if (i)
			rf_buf_add(&s->context, "\n\n", 2);
		at = s->context.n;
		snprintf(number, sizeof number, "%llu", ++i);
		one.s[RF_DOCUMENT] = p->s;
		one.n[RF_DOCUMENT] = p->n;
		rf_template_fill(&s->of->wording, RF_QA_DOCUMENT, &one, &s->context);
		if (!item->a) {
			s->place[item->b].at = at;
			s->place[item->b].n = s->context.n - at;
		}
	}
	rf_prompt_write(s, RF_QA_INPUT, RF_QA_PREFIX, &f);
	return RF_OK;
}
