/* difflib.c -- the similarity of two lines: the ratio of Python's difflib.SequenceMatcher, written from its
 * documentation.  It finds the longest block that two texts a and b share, then does the same to its left
 * and to its right.  Among blocks of the same length it takes the first in a, then the first in b.  If b has
 * 200 characters or more, a character that makes up more than 1 % of b begins no block ("autojunk"), so the
 * ratio is not symmetric. */
#define _GNU_SOURCE /* qsort_r */
#include <stdlib.h>
#include <string.h>

#include "score/metric.h"

struct matcher {
	struct rf_chars a, b;
	int *next;          /* (|b|): next place of the same character in b; -1: none */
	int *first;         /* (|a|): first place of a's character in b; -1: none, or too frequent */
	int *before, *here; /* (|b| + 1): lengths of the blocks that end at j - 1 in b */
};

struct block {
	int a, b, n;
};

static int by_character(const void *x, const void *y, void *arg)
{
	const int32_t *c = arg;
	int i = *(const int *)x, j = *(const int *)y;

	return c[i] != c[j] ? (c[i] > c[j]) - (c[i] < c[j]) : i - j;
}

/* Fills next and first. */
static enum rf_code prepare(struct matcher *m, struct rf_region *p, struct rf_steps *steps)
{
	int nb = (int)m->b.n, na = (int)m->a.n;
	int *sorted = rf_region_alloc(p, m->b.n, sizeof *sorted);

	m->next = rf_region_alloc(p, m->b.n, sizeof *m->next);
	m->first = rf_region_alloc(p, m->a.n, sizeof *m->first);
	m->before = rf_region_alloc(p, m->b.n + 1, sizeof *m->before);
	m->here = rf_region_alloc(p, m->b.n + 1, sizeof *m->here);
	if (!sorted || !m->next || !m->first || !m->before || !m->here)
		return RF_ENOMEM;
	for (int j = 0; j < nb; j++)
		sorted[j] = j;
	qsort_r(sorted, m->b.n, sizeof *sorted, by_character, (void *)m->b.c);
	for (int k = 0; k < nb; k++)
		m->next[sorted[k]] =
			k + 1 < nb && m->b.c[sorted[k + 1]] == m->b.c[sorted[k]] ? sorted[k + 1] : -1;
	for (int i = 0; i < na; i++) {
		int lo = 0, hi = nb, end;
		while (lo < hi) {
			int mid = (lo + hi) / 2;
			if (m->b.c[sorted[mid]] < m->a.c[i])
				lo = mid + 1;
			else
				hi = mid;
		}
		for (end = lo; end < nb && m->b.c[sorted[end]] == m->a.c[i];)
			end++;
		if (!rf_steps_take(steps, (uint64_t)(end - lo)))
			return RF_EDATA;
		m->first[i] = end == lo || (nb >= 200 && end - lo > nb / 100 + 1) ? -1 : sorted[lo];
	}
	return RF_OK;
}

/* Finds the longest block.  Takes a step for each character of b, and for each pair that matches. */
static struct block longest(struct matcher *m, struct rf_steps *steps, int a0, int a1, int b0, int b1)
{
	struct block best = { a0, b0, 0 };

	memset(m->before + b0, 0, (size_t)(b1 - b0 + 1) * sizeof *m->before);
	for (int i = a0; i < a1 && rf_steps_take(steps, (uint64_t)(b1 - b0)); i++) {
		int *swap = m->before, pairs = 0;
		memset(m->here + b0, 0, (size_t)(b1 - b0 + 1) * sizeof *m->here);
		for (int j = m->first[i]; j >= 0 && j < b1; j = m->next[j]) {
			int n;

			pairs++;
			if (j < b0)
				continue;
			n = m->here[j + 1] = (j > b0 ? m->before[j] : 0) + 1;
			if (n > best.n)
				best = (struct block){ i - n + 1, j - n + 1, n };
		}
		rf_steps_take(steps, (uint64_t)pairs);
		m->before = m->here;
		m->here = swap;
	}
	/* extend the block over characters that may not begin one */
	while (best.a > a0 && best.b > b0 && m->a.c[best.a - 1] == m->b.c[best.b - 1]) {
		best.a--;
		best.b--;
		best.n++;
	}
	while (best.a + best.n < a1 && best.b + best.n < b1 &&
	       m->a.c[best.a + best.n] == m->b.c[best.b + best.n])
		best.n++;
	return best;
}

enum rf_code rf_difflib_ratio(struct rf_region *p, struct rf_steps *steps, struct rf_chars a,
                              struct rf_chars b, double *ratio)
{
	struct matcher m = { .a = a, .b = b };
	struct {
		int a0, a1, b0, b1;
	} * todo;
	size_t n = 0;
	double matched = 0;
	enum rf_code rc;

	/* the remaining pieces of a do not touch: a block lies between any two of them */
	if ((rc = prepare(&m, p, steps)) != RF_OK)
		return rc;
	if (!(todo = rf_region_alloc(p, a.n + 1, sizeof *todo)))
		return RF_ENOMEM;
	todo[n].a0 = todo[n].b0 = 0;
	todo[n].a1 = (int)a.n;
	todo[n++].b1 = (int)b.n;
	while (n) {
		int a0 = todo[--n].a0, a1 = todo[n].a1, b0 = todo[n].b0, b1 = todo[n].b1;
		struct block k = longest(&m, steps, a0, a1, b0, b1);

		if (!steps->left)
			return RF_EDATA;
		if (!k.n)
			continue;
		matched += k.n;
		if (a0 < k.a && b0 < k.b) {
			todo[n].a0 = a0;
			todo[n].a1 = k.a;
			todo[n].b0 = b0;
			todo[n++].b1 = k.b;
		}
		if (k.a + k.n < a1 && k.b + k.n < b1) {
			todo[n].a0 = k.a + k.n;
			todo[n].a1 = a1;
			todo[n].b0 = k.b + k.n;
			todo[n++].b1 = b1;
		}
	}
	*ratio = 2.0 * matched / (double)(a.n + b.n);
	return RF_OK;
}

enum rf_code rf_levenshtein_ratio(struct rf_region *p, struct rf_steps *steps, struct rf_chars a,
                                  struct rf_chars b, double *ratio)
{
	/* lengths of the longest common subsequences with the prefixes of b */
	int *row = rf_region_alloc(p, b.n + 1, sizeof *row);

	if (!row)
		return RF_ENOMEM;
	if (!rf_steps_take(steps, (uint64_t)a.n * b.n))
		return RF_EDATA;
	memset(row, 0, (b.n + 1) * sizeof *row);
	for (size_t i = 0; i < a.n; i++)
		for (size_t j = 0, diagonal = 0; j < b.n; j++) {
			size_t up = (size_t)row[j + 1];
			if (a.c[i] == b.c[j])
				row[j + 1] = (int)diagonal + 1;
			else if (row[j] > row[j + 1])
				row[j + 1] = row[j];
			diagonal = up;
		}
	*ratio = 2.0 * row[b.n] / (double)(a.n + b.n);
	return RF_OK;
}
