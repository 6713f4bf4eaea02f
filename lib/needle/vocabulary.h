/* vocabulary.h -- the adjectives and nouns of keys and of lists of words. */
#ifndef RF_VOCABULARY_H
#define RF_VOCABULARY_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/region.h"

/* Common English words, with NULL at the end: common_words.c. */
extern const char *const rf_adjectives[], *const rf_nouns[];

struct rf_vocabulary {
	const char **adjective, **noun, **single; /* single: the words of both, each once */
	size_t adjectives, nouns, singles;
	struct rf_region memory;
};

/* Reads files with one word on each line; a path that is NULL stands for the built-in words.  Empty lines
 * and repeated words are left out.  w must be released in any case.  Errors: RF_EDATA with file and line: a
 * word has a blank, a hyphen, bytes that are not UTF-8 or that a terminal obeys; the file has no words, or
 * both lists together have too few for any task; those of rf_lines_open(). */
enum rf_code rf_vocabulary_open(struct rf_vocabulary *w, const char *adjectives, const char *nouns,
                                struct rf_err *e);
void rf_vocabulary_free(struct rf_vocabulary *w);

/* Returns the number of pairs "adjective-noun". */
uint64_t rf_vocabulary_pairs(const struct rf_vocabulary *w);
/* Appends the i-th pair. */
void rf_vocabulary_pair(const struct rf_vocabulary *w, uint64_t i, struct rf_buf *to);

#endif
