/* topn.c -- a bounded heap.  A sample of N rows is the N rows with the smallest random numbers, and the
 * first N rows of a sorted table are the N rows with the smallest keys.  In both cases a heap keeps the N
 * smallest rows so far.  Its first row is the largest of them, which is dropped when a smaller row comes.
 * So memory is that of N rows, however long the stream is. */
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "dump/topn.h"

void rf_topn_begin(struct rf_topn *p, const struct rf_topn_spec *spec)
{
	*p = (struct rf_topn){ .spec = *spec };
}

bool rf_topn_holds(const struct rf_topn *p) { return p->spec.sort || p->spec.sample; }

static int compare_numbers(double a, double b)
{
	return isnan(a) || isnan(b) ? isnan(a) - isnan(b) : (a > b) - (a < b);
}

static int by_order(const struct rf_topn_key *a, const struct rf_topn_key *b)
{
	return (a->order > b->order) - (a->order < b->order);
}

static int by_draw(const struct rf_topn_key *a, const struct rf_topn_key *b)
{
	int d = compare_numbers(a->draw, b->draw);

	return d ? d : by_order(a, b);
}

static int by_key(const struct rf_topn_key *a, const struct rf_topn_key *b)
{
	int d = compare_numbers(a->sort, b->sort);

	return d ? d : by_order(a, b);
}

/* Compares two rows while rows come: by random number for a sample, whatever order it will be shown in. */
static int compare_rows(const struct rf_topn *p, const struct rf_topn_key *a, const struct rf_topn_key *b)
{
	return p->spec.sample ? by_draw(a, b) : by_key(a, b);
}

/* Returns how many rows are kept. */
static uint64_t rows_kept(const struct rf_topn *p)
{
	return p->spec.sample ? p->spec.sample : p->spec.first ? p->spec.first : UINT64_MAX;
}

bool rf_topn_wants(const struct rf_topn *p, const struct rf_topn_key *key)
{
	return p->n < rows_kept(p) || compare_rows(p, key, &p->row[0].key) < 0;
}

static void swap_rows(struct rf_topn *p, size_t a, size_t b)
{
	struct rf_topn_row x = p->row[a];

	p->row[a] = p->row[b];
	p->row[b] = x;
}

static void sift_up(struct rf_topn *p, size_t i)
{
	for (; i && compare_rows(p, &p->row[i].key, &p->row[(i - 1) / 2].key) > 0; i = (i - 1) / 2)
		swap_rows(p, i, (i - 1) / 2);
}

static void sift_down(struct rf_topn *p, size_t i)
{
	for (size_t child; (child = 2 * i + 1) < p->n; i = child) {
		if (child + 1 < p->n && compare_rows(p, &p->row[child + 1].key, &p->row[child].key) > 0)
			child++;
		if (compare_rows(p, &p->row[child].key, &p->row[i].key) <= 0)
			return;
		swap_rows(p, i, child);
	}
}

enum rf_code rf_topn_take(struct rf_topn *p, const struct rf_topn_row *row, struct rf_err *e)
{
	if (p->n == rows_kept(p)) {
		free(p->row[0].text);
		p->row[0] = *row;
		sift_down(p, 0);
		return RF_OK;
	}
	if (!rf_grow(&p->row, p->n, &p->cap, sizeof *p->row)) {
		free(row->text);
		return rf_fail(e, RF_ENOMEM, "out of memory: %zu rows wait to be sorted (-n keeps fewer)",
		               p->n);
	}
	p->row[p->n] = *row;
	sift_up(p, p->n++);
	return RF_OK;
}

static int by_sort(const void *a, const void *b)
{
	return by_key(&((const struct rf_topn_row *)a)->key, &((const struct rf_topn_row *)b)->key);
}

static int as_they_came(const void *a, const void *b)
{
	return by_order(&((const struct rf_topn_row *)a)->key, &((const struct rf_topn_row *)b)->key);
}

void rf_topn_end(struct rf_topn *p)
{
	if (p->n)
		qsort(p->row, p->n, sizeof *p->row, p->spec.sort ? by_sort : as_they_came);
	while (p->spec.first && p->n > p->spec.first)
		free(p->row[--p->n].text);
}

void rf_topn_free(struct rf_topn *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->row[i].text);
	free(p->row);
	*p = (struct rf_topn){ 0 };
}
