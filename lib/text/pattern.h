/* pattern.h -- the regular expressions of tokenizer.json, which are Oniguruma's, by PCRE2.
 *
 * Over all code points the two agree on \p{L}, \p{N} and \p{M}.  White space differs in one character, so \s
 * and \S are spelled out.  What the two read in different ways is refused, never approximated. */
#ifndef RF_PATTERN_H
#define RF_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct rf_pattern;

/* Compiles n bytes of an expression, or with `literal` a text to be found as it is.  Errors: RF_EDATA: it
 * does not compile; RF_EMODEL: it has something that is not supported, which the sentence names. */
enum rf_code rf_pattern_new(struct rf_pattern **p, const char *s, size_t n, bool literal, struct rf_err *e);
void rf_pattern_free(struct rf_pattern *p);

/* Scratch memory of matching: one per thread.  NULL: out of memory. */
struct rf_pattern_work;
struct rf_pattern_work *rf_pattern_work_new(void);
void rf_pattern_work_free(struct rf_pattern_work *w);

/* Finds the first match in n bytes of valid UTF-8 at or after `from`; *at and *end are its place.  *found
 * says whether there is one.  Errors: RF_EDATA: the expression tries too much on this text. */
enum rf_code rf_pattern_find(const struct rf_pattern *p, struct rf_pattern_work *w, const char *s, size_t n,
                             size_t from, bool *found, size_t *at, size_t *end, struct rf_err *e);

/* Where to look for the next match: at the end of this one, or, if it is empty, a character later. */
size_t rf_pattern_from(const char *s, size_t n, size_t at, size_t end);
/* Unicode's White_Space, which is what \s means. */
bool rf_is_white_space(int32_t c);

#endif
