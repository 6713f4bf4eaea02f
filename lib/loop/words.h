/* words.h -- what a run was begun by, as lines of name=value in a file, and whether it is the same now.
 *
 * A line that begins with a blank belongs to the value before it.  Some words are known only after others
 * had their effect, as the size of data that are made: they come last, and what only one side has of them
 * is no difference. */
#ifndef RF_WORDS_H
#define RF_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

/* Adds a word; value NULL: an empty one. */
void rf_words_add(struct rf_buf *words, const char *name, const char *value);

/* The words in the file; none, *there false, where there is no file. */
enum rf_code rf_words_read(struct rf_buf *words, const char *path, bool *there, struct rf_err *e);
/* The file appears whole, and outlives a power loss. */
enum rf_code rf_words_write(const struct rf_buf *words, const char *path, struct rf_err *e);

/* The line of a word without its newline; its length 0: there is none. */
const char *rf_words_find(const struct rf_buf *words, const char *name, size_t *n);

/* Whether they are the same to the byte; words from `late` on count only where both have them.  Where not,
 * differ() gets each line that only one of both has, '<' of a, '>' of b, or a remark that there is none. */
typedef void rf_words_fn(void *arg, char side, const char *line, size_t n);
bool rf_words_same(const struct rf_buf *a, const struct rf_buf *b, const char *late, rf_words_fn *differ,
                   void *arg);

#endif
