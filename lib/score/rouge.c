/* rouge.c -- ROUGE-L of whole texts, as the package rouge 1.0.1 computes it (Lin 2004, section 3.2, on sets
 * of words): the words that the longest common subsequences of a sentence of the reference and one of the
 * prediction have, of all pairs together. */
#include <string.h>

#include "score/metric.h"

/* A text's sentences as numbers of its words, the same number for the same word. */
struct sentences {
	struct sentence { int *word; size_t n; } *of;
	size_t n;
	size_t distinct;
};

/* Distinct words, found by hash. */
struct vocabulary { struct rf_chars *word; int *slot; size_t n, slots; };

static bool vocabulary(struct vocabulary *v, struct rf_region *p, size_t words)
{
	*v = (struct vocabulary){ .slots = 16 };
	while (v->slots < 2 * words + 2)
		v->slots *= 2;
	if (!(v->word = rf_region_alloc(p, words + 1, sizeof *v->word)) ||
	    !(v->slot = rf_region_alloc(p, v->slots, sizeof *v->slot)))
		return false;
	for (size_t i = 0; i < v->slots; i++)
		v->slot[i] = -1;
	return true;
}

static int number(struct vocabulary *v, struct rf_chars w)
{
	uint64_t h = 14695981039346656037u; /* FNV-1a */
	size_t at;

	for (size_t i = 0; i < w.n; i++)
		h = (h ^ (uint32_t)w.c[i]) * 1099511628211u;
	for (at = h & (v->slots - 1); v->slot[at] >= 0; at = (at + 1) & (v->slots - 1))
		if (rf_chars_equal(v->word[v->slot[at]], w))
			return v->slot[at];
	v->word[v->n] = w;
	return v->slot[at] = (int)v->n++;
}

/* Sentences end at dots; one of nothing but blanks has one word, the empty one. */
static bool cut(struct sentences *to, struct rf_region *p, struct rf_chars s, struct vocabulary *v)
{
	struct rf_chars rest = s;
	struct rf_words words;
	char *seen;
	size_t pieces = 1;

	for (size_t i = 0; i < s.n; i++)
		pieces += s.c[i] == '.';
	*to = (struct sentences){ rf_region_alloc(p, pieces, sizeof *to->of), 0, 0 };
	seen = rf_region_alloc(p, v->slots, 1);
	if (!to->of || !seen)
		return false;
	memset(seen, 0, v->slots);
	while (rest.c) {
		struct rf_chars piece = rf_chars_until(rest, '.', &rest);
		struct sentence *of = &to->of[to->n];
		if (!piece.n)
			continue;
		if (!rf_chars_words(&words, p, piece))
			return false;
		if (!words.n)
			words.word[words.n++] = (struct rf_chars){ NULL, 0 };
		if (!(of->word = rf_region_alloc(p, words.n, sizeof *of->word)))
			return false;
		for (of->n = 0; of->n < words.n; of->n++) {
			int w = of->word[of->n] = number(v, words.word[of->n]);
			to->distinct += !seen[w];
			seen[w] = 1;
		}
		to->n++;
	}
	return true;
}

/* Marks the words of a longest common subsequence of a and b; returns how many were not marked before.  Of
 * equal ways back the one that leaves out b's word is taken. */
static size_t common(const struct sentence *a, const struct sentence *b, int *table, char *marked)
{
	size_t row = b->n + 1, i, j, more = 0;

	memset(table, 0, row * sizeof *table);
	for (i = 1; i <= a->n; i++) {
		int *t = table + i * row, *up = t - row;
		for (t[0] = 0, j = 1; j <= b->n; j++)
			t[j] = a->word[i - 1] == b->word[j - 1] ? up[j - 1] + 1
			     : up[j] > t[j - 1]                 ? up[j] : t[j - 1];
	}
	for (i = a->n, j = b->n; i && j;) {
		const int *t = table + i * row, *up = t - row;
		if (a->word[i - 1] == b->word[j - 1]) {
			more += !marked[a->word[i - 1]];
			marked[a->word[i - 1]] = 1;
			i--;
			j--;
		} else if (up[j] > t[j - 1])
			i--;
		else
			j--;
	}
	return more;
}

bool rf_rouge_l(struct rf_region *p, struct rf_chars pred, struct rf_chars reference, double *f)
{
	struct vocabulary v;
	struct sentences hyp, ref;
	size_t longest = 0, union_lcs = 0;
	char *marked;
	int *table;

	*f = 0;
	if (!vocabulary(&v, p, pred.n + reference.n + 2) || !cut(&hyp, p, pred, &v) ||
	    !cut(&ref, p, reference, &v))
		return false;
	if (!hyp.n || !ref.n)
		return true;
	for (size_t i = 0; i < ref.n; i++)
		for (size_t j = 0; j < hyp.n; j++)
			if ((ref.of[i].n + 1) * (hyp.of[j].n + 1) > longest)
				longest = (ref.of[i].n + 1) * (hyp.of[j].n + 1);
	table = rf_region_alloc(p, longest, sizeof *table);
	marked = rf_region_alloc(p, v.n, 1);
	if (!table || !marked)
		return false;
	memset(marked, 0, v.n);
	for (size_t i = 0; i < ref.n; i++)
		for (size_t j = 0; j < hyp.n; j++)
			union_lcs += common(&ref.of[i], &hyp.of[j], table, marked);
	double precision = (double)union_lcs / (double)hyp.distinct;
	double recall = (double)union_lcs / (double)ref.distinct;
	*f = 2.0 * ((precision * recall) / (precision + recall + 1e-8));
	return true;
}
