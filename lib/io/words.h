/* words.h -- what a run was begun with, as lines of name=value in a file, and whether it is still the same.
 *
 * A line that begins with a blank continues the value of the line before.  Some words are known only later,
 * such as the size of data that the loop makes first.  They come last, and count only if both sides have
 * them. */
#ifndef RF_IO_WORDS_H
#define RF_IO_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

/* Appends a word; value NULL: an empty value. */
void rf_words_add(struct rf_buf *words, const char *name, const char *value);

/* Reads the words of a file; if there is no such file, *there is false and there are no words. */
enum rf_code rf_words_read(struct rf_buf *words, const char *path, bool *there, struct rf_err *e);

/* The line of the word `name`, *n bytes without its newline; *n 0: there is no such word. */
const char *rf_words_find(const struct rf_buf *words, const char *name, size_t *n);

/* Returns whether a and b are equal except for the values of an option, such as "--lr", in the word `name`,
 * which is a shell's commands.  The option counts where the command's program is one of `programs`, such as
 * "rf-grpo rf-ntp", and not in a quotation.  *was and *now become the first values that differ, texts that
 * the caller frees; NULL: there is none. */
bool rf_words_same_but(const struct rf_buf *a, const struct rf_buf *b, const char *late, const char *name,
                       const char *option, const char *programs, char **was, char **now);

/* Whether a and b are equal to the byte.  The words from `late` on count only if both have them.  If they are
 * not equal, differ() is called for each line that only one of them has, side '<' for a's and '>' for b's, or
 * once with a remark if only order or number of the lines differ. */
typedef void rf_words_fn(void *arg, char side, const char *line, size_t n);
bool rf_words_same(const struct rf_buf *a, const struct rf_buf *b, const char *late, rf_words_fn *differ,
                   void *arg);

#endif
