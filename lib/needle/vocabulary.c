/* vocabulary.c -- reads lists of words.  A word that is in a list twice, or in both lists, is found by the
 * hash of its text. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/ids.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "io/lines.h"
#include "needle/vocabulary.h"

enum { MAX_FILE_LINE = 1 << 16, MAX_WORD = 60, LEAST_PAIRS = 64 };

static enum rf_code no_memory(struct rf_err *e) { return rf_fail(e, RF_ENOMEM, "out of memory"); }

/* Adds a word unless `seen` has it. */
static enum rf_code add_word(struct rf_region *memory, struct rf_ids *seen, const char *s, size_t n,
                             const char ***list, size_t *count, size_t *cap, struct rf_err *e)
{
	uint64_t before;

	if (rf_ids_add(seen, XXH64(s, n, 0), &before, e) != RF_OK)
		return RF_ENOMEM;
	if (before)
		return RF_OK;
	if (!rf_grow(list, *count, cap, sizeof **list) || !((*list)[*count] = rf_region_text(memory, s, n)))
		return no_memory(e);
	++*count;
	return RF_OK;
}

/* Returns why s is not a word; NULL: it is a word. */
static const char *wrong_with(const char *s, size_t n)
{
	int32_t c;

	if (n > MAX_WORD)
		return "is longer than 60 bytes";
	if (!rf_utf8(s, n))
		return "is not UTF-8";
	for (size_t i = 0; i < n; i += rf_utf8_next(s + i, n - i, &c))
		if ((unsigned char)s[i] <= ' ' || s[i] == 127 || s[i] == '-' ||
		    (rf_utf8_next(s + i, n - i, &c), c > 127 && rf_utf8_unsafe(c)))
			return "has a blank, a hyphen or a control character";
	return NULL;
}

static enum rf_code read_list(struct rf_region *memory, const char *path, const char ***list, size_t *count,
                              struct rf_err *e)
{
	struct rf_ids seen = { 0 };
	struct rf_lines *l;
	size_t n, cap = 0;
	const char *wrong;
	enum rf_code rc;
	char *s, q[100];

	if ((rc = rf_lines_open(&l, path, MAX_FILE_LINE, e)) != RF_OK)
		return rc;
	while (rc == RF_OK && (rc = rf_lines_next_written(l, &s, &n, e)) == RF_OK) {
		if (s[n - 1] == '\r')
			n--;
		if ((wrong = wrong_with(s, n)))
			rc = rf_fail(e, RF_EDATA, "%s: line %llu: the word '%s' %s", rf_lines_name(l),
			             (unsigned long long)rf_lines_number(l), rf_quote(q, sizeof q, s, n),
			             wrong);
		else
			rc = add_word(memory, &seen, s, n, list, count, &cap, e);
	}
	if (rc == RF_EOF)
		rc = *count ? RF_OK : rf_fail(e, RF_EDATA, "%s: there are no words", rf_lines_name(l));
	rf_ids_free(&seen);
	rf_lines_close(l);
	return rc;
}

static enum rf_code copy_list(struct rf_region *memory, const char *const *words, const char ***list,
                              size_t *count, struct rf_err *e)
{
	struct rf_ids seen = { 0 };
	enum rf_code rc = RF_OK;
	size_t cap = 0;

	for (; rc == RF_OK && *words; words++)
		rc = add_word(memory, &seen, *words, strlen(*words), list, count, &cap, e);
	rf_ids_free(&seen);
	return rc;
}

static enum rf_code join_lists(struct rf_vocabulary *w, struct rf_err *e)
{
	struct rf_ids seen = { 0 };
	enum rf_code rc = RF_OK;
	size_t cap = 0;

	for (size_t i = 0; rc == RF_OK && i < w->adjectives + w->nouns; i++) {
		const char *s = i < w->adjectives ? w->adjective[i] : w->noun[i - w->adjectives];

		rc = add_word(&w->memory, &seen, s, strlen(s), &w->single, &w->singles, &cap, e);
	}
	rf_ids_free(&seen);
	return rc;
}

enum rf_code rf_vocabulary_open(struct rf_vocabulary *w, const char *adjectives, const char *nouns,
                                struct rf_err *e)
{
	enum rf_code rc;

	memset(w, 0, sizeof *w);
	rc = adjectives ? read_list(&w->memory, adjectives, &w->adjective, &w->adjectives, e)
	                : copy_list(&w->memory, rf_adjectives, &w->adjective, &w->adjectives, e);
	if (rc == RF_OK)
		rc = nouns ? read_list(&w->memory, nouns, &w->noun, &w->nouns, e)
		           : copy_list(&w->memory, rf_nouns, &w->noun, &w->nouns, e);
	if (rc == RF_OK && rf_vocabulary_pairs(w) < LEAST_PAIRS)
		return rf_fail(e, RF_EDATA, "%s: %zu adjectives and %zu nouns make %llu keys, fewer than %d",
		               adjectives ? adjectives : nouns, w->adjectives, w->nouns,
		               (unsigned long long)rf_vocabulary_pairs(w), LEAST_PAIRS);
	return rc == RF_OK ? join_lists(w, e) : rc;
}

void rf_vocabulary_free(struct rf_vocabulary *w)
{
	free(w->adjective);
	free(w->noun);
	free(w->single);
	rf_region_free(&w->memory);
}

uint64_t rf_vocabulary_pairs(const struct rf_vocabulary *w) { return (uint64_t)w->adjectives * w->nouns; }

void rf_vocabulary_pair(const struct rf_vocabulary *w, uint64_t i, struct rf_buf *to)
{
	const char *a = w->adjective[i / w->nouns], *b = w->noun[i % w->nouns];

	rf_buf_add(to, a, strlen(a));
	rf_buf_add(to, "-", 1);
	rf_buf_add(to, b, strlen(b));
}
