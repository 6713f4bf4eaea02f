/* vocabulary.h -- the adjectives and nouns that keys and lists of words are made of. */
#ifndef RF_VOCABULARY_H
#define RF_VOCABULARY_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/region.h"

/* Common English words, NULL at the end: common_words.c. */
extern const char *const rf_adjectives[], *const rf_nouns[];

struct rf_vocabulary {
	const char **adjective, **noun, **single;   /* single: the words of both, each once */
	size_t adjectives, nouns, singles;
	struct rf_region memory;
};

/* Reads files of one word per line; a path that is NULL stands for the words above.  Empty lines and words
 * that came before are left out.  w must be released in any case.  Errors: RF_EDATA with file and line: a
 * word has a blank, a hyphen, or bytes that are not UTF-8 or a terminal obeys; the file has no words, or
 * both lists together too few for any task; those of rf_lines_open(). */
enum rf_code rf_vocabulary_open(struct rf_vocabulary *w, const char *adjectives, const char *nouns,
                                struct rf_err *e);
void rf_vocabulary_free(struct rf_vocabulary *w);

/* How many pairs there are, and the i-th, "adjective-noun". */
uint64_t rf_vocabulary_pairs(const struct rf_vocabulary *w);
void rf_vocabulary_pair(const struct rf_vocabulary *w, uint64_t i, struct rf_buf *to);

#endif
