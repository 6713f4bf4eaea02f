/* rouge.c -- computes ROUGE-L of whole texts, as the package rouge 1.0.1 does (Lin 2004, section 3.2, on
 * sets of words): from the union, over all pairs of a sentence of the reference and one of the prediction,
 * of the words in their longest common subsequence. */
#include <string.h>
#include <xxhash.h>

#include "base/ids.h"
#include "score/metric.h"

/* The sentences of a text as numbers of words; equal words have equal numbers. */
struct sentences {
	struct sentence {
		int *word;
		size_t n;
	} * of;
	size_t n;
	size_t distinct;
};

/* Returns the number of a word, at most the number of words so far.  Equal words have equal numbers; words
 * are distinguished by their hashes.  0: memory ran out. */
static int number_word(struct rf_ids *words, struct rf_chars w)
{
	uint64_t hash = XXH64(w.c, w.n * sizeof *w.c, 0), before;

	return rf_ids_add(words, hash, &before, NULL) == RF_OK ? (int)rf_ids_first(words, hash) : 0;
}

/* Cuts a text into sentences, which end at dots.  A sentence of blanks has one word, the empty word.  most:
 * the number of words of all texts. */
static bool cut_sentences(struct sentences *to, struct rf_region *p, struct rf_chars s, struct rf_ids *ids,
                          size_t most)
{
	struct rf_chars rest = s;
	struct rf_words words;
	char *seen;
	size_t pieces = 1;

	for (size_t i = 0; i < s.n; i++)
		pieces += s.c[i] == '.';
	*to = (struct sentences){ rf_region_alloc(p, pieces, sizeof *to->of), 0, 0 };
	seen = rf_region_alloc(p, most + 1, 1);
	if (!to->of || !seen)
		return false;
	memset(seen, 0, most + 1);
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
			int w = of->word[of->n] = number_word(ids, words.word[of->n]);
			if (!w)
				return false;
			to->distinct += !seen[w];
			seen[w] = 1;
		}
		to->n++;
	}
	return true;
}

/* Fills the row of the table that belongs to a's word from the row above it. */
static void fill_row(int *t, const int *up, int word, const struct sentence *b)
{
	t[0] = 0;
	for (size_t j = 1; j <= b->n; j++)
		t[j] = word == b->word[j - 1] ? up[j - 1] + 1 : up[j] > t[j - 1] ? up[j] : t[j - 1];
}

/* Returns the rows of a block of the table.  A small table is one block. */
static size_t rows_of(const struct sentence *a, const struct sentence *b)
{
	size_t rows = 1;

	if ((a->n + 1) * (b->n + 1) <= 1 << 20)
		return a->n;
	while (rows * rows < a->n)
		rows++;
	return rows;
}

/* Returns the numbers that mark_common() needs: the first row of each block, and one block. */
static size_t table_size(const struct sentence *a, const struct sentence *b)
{
	const size_t rows = rows_of(a, b);

	return (a->n / rows + 1 + rows + 1) * (b->n + 1);
}

/* Marks the words of a longest common subsequence of a and b.  Returns the number of words that were not
 * marked before.  If two ways back through the table are equal, the function takes the one that leaves out
 * the word of b. It follows the way back in blocks of rows: the row above each block is kept, and the block
 * is filled again from that row. */
static size_t mark_common(const struct sentence *a, const struct sentence *b, int *kept, char *marked)
{
	const size_t row = b->n + 1, rows = rows_of(a, b), last = (a->n - 1) / rows;
	int *block = kept + (a->n / rows + 1) * row;
	size_t i, j, more = 0;

	memset(kept, 0, row * sizeof *kept);
	for (size_t k = 0; k < last; k++) {
		memcpy(block, kept + k * row, row * sizeof *block);
		for (i = 0; i < rows; i++)
			fill_row(block + (i + 1) * row, block + i * row, a->word[k * rows + i], b);
		memcpy(kept + (k + 1) * row, block + rows * row, row * sizeof *block);
	}
	i = a->n;
	j = b->n;
	for (size_t k = last + 1; k-- > 0 && j;) {
		const size_t from = k * rows;

		memcpy(block, kept + k * row, row * sizeof *block);
		for (size_t n = 0; n < i - from; n++)
			fill_row(block + (n + 1) * row, block + n * row, a->word[from + n], b);
		while (i > from && j) {
			const int *t = block + (i - from) * row, *up = t - row;

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
	}
	return more;
}

static enum rf_code rouge(struct rf_region *p, struct rf_steps *steps, struct rf_chars pred,
                          struct rf_chars reference, struct rf_ids *ids, double *f)
{
	const size_t most = pred.n + reference.n + 2;
	struct sentences hyp, ref;
	size_t longest = 0, union_lcs = 0;
	char *marked;
	int *table;

	*f = 0;
	if (!cut_sentences(&hyp, p, pred, ids, most) || !cut_sentences(&ref, p, reference, ids, most))
		return RF_ENOMEM;
	if (!hyp.n || !ref.n)
		return RF_OK;
	for (size_t i = 0; i < ref.n; i++)
		for (size_t j = 0; j < hyp.n; j++) {
			if (!rf_steps_take(steps, (uint64_t)(ref.of[i].n + 1) * (hyp.of[j].n + 1)))
				return RF_EDATA;
			if (table_size(&ref.of[i], &hyp.of[j]) > longest)
				longest = table_size(&ref.of[i], &hyp.of[j]);
		}
	table = rf_region_alloc(p, longest, sizeof *table);
	marked = rf_region_alloc(p, most + 1, 1);
	if (!table || !marked)
		return RF_ENOMEM;
	memset(marked, 0, most + 1);
	for (size_t i = 0; i < ref.n; i++)
		for (size_t j = 0; j < hyp.n; j++)
			union_lcs += mark_common(&ref.of[i], &hyp.of[j], table, marked);
	double precision = (double)union_lcs / (double)hyp.distinct;
	double recall = (double)union_lcs / (double)ref.distinct;
	*f = 2.0 * ((precision * recall) / (precision + recall + 1e-8));
	return RF_OK;
}

enum rf_code rf_rouge_l(struct rf_region *p, struct rf_steps *steps, struct rf_chars pred,
                        struct rf_chars reference, double *f)
{
	struct rf_ids ids = { 0 };
	enum rf_code rc = rouge(p, steps, pred, reference, &ids, f);

	rf_ids_free(&ids);
	return rc;
}
