/* words.h -- the words of a run: the settings that the run was started with, as lines of name=value in a
 * file, and the comparison with the settings of a later start.
 *
 * A line that begins with a blank continues the value of the line before.  Some words become known only
 * later, such as the size of data that the loop makes first.  These late words come last, and are compared
 * only if both sides have them. */
#ifndef RF_IO_WORDS_H
#define RF_IO_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

/* Appends a word; value NULL: an empty value. */
void rf_words_add(struct rf_buf *words, const char *name, const char *value);

/* Reads the words of a file.  If the file does not exist, *there is false and words is empty. */
enum rf_code rf_words_read(struct rf_buf *words, const char *path, bool *there, struct rf_err *e);

/* Returns the line of the word `name`, *n bytes without its newline; *n 0: there is no such word. */
const char *rf_words_find(const struct rf_buf *words, const char *name, size_t *n);

/* Returns whether the word `name` has the same value in a and b, all of its lines included. */
bool rf_words_same_word(const struct rf_buf *a, const struct rf_buf *b, const char *name);

/* Returns whether a and b are equal except for the values of an option, such as "--lr", in the word `name`,
 * whose value is shell commands.  The option is recognized in commands whose program is one of `programs`,
 * such as "rf-grpo rf-ntp", and not inside quotations.  *was and *now become the first values that differ,
 * which the caller frees; NULL: no values differ. */
bool rf_words_same_but(const struct rf_buf *a, const struct rf_buf *b, const char *late, const char *name,
                       const char *option, const char *programs, char **was, char **now);

/* Returns whether a and b are equal to the byte.  The words from `late` on are compared only if both have
 * them. If a and b differ, differ() is called for each line that only one of them has, side '<' for a's and
 * '>' for b's, or once with a remark if only the order or number of lines differs. */
typedef void rf_words_fn(void *arg, char side, const char *line, size_t n);
bool rf_words_same(const struct rf_buf *a, const struct rf_buf *b, const char *late, rf_words_fn *differ,
                   void *arg);

#endif
