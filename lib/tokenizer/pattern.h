/* pattern.h -- the regular expressions of tokenizer.json, by Oniguruma.
 *
 * The package `tokenizers` uses Oniguruma, too.  An expression therefore has the same meaning here and there,
 * and \p{L} and the like follow the version of Unicode of the installed library. */
#ifndef RF_PATTERN_H
#define RF_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct rf_pattern;

/* Compiles n bytes of UTF-8: an expression, or with `literal` a text that is matched as it is.  Errors:
 * RF_EDATA: the expression does not compile; RF_EMODEL: it has a construct in which versions of Oniguruma
 * differ, which the sentence names; RF_ENOMEM. */
enum rf_code rf_pattern_new(struct rf_pattern **p, const char *s, size_t n, bool literal, struct rf_err *e);
void rf_pattern_free(struct rf_pattern *p);

/* Scratch memory of matching, one per thread.  Returns NULL if memory runs out. */
struct rf_pattern_work;
struct rf_pattern_work *rf_pattern_work_new(void);
void rf_pattern_work_free(struct rf_pattern_work *w);

/* A walk over the matches of a pattern in n bytes of valid UTF-8.  A caller sets the first four members and
 * leaves the others 0. */
struct rf_matches {
	const struct rf_pattern *p;
	struct rf_pattern_work *w;
	const char *s;
	size_t n;
	size_t from; /* where the next search begins */
	size_t end;  /* where the last match ended */
	bool any;    /* there was a match */
};

/* Finds the next match; *at and *end are its first byte and the one after its last.  *found is false after
 * the last match.  As in `tokenizers`, an empty match directly after a match is left out, and an empty text
 * has no match.  Errors: RF_EDATA: the expression needs too many attempts, or too much memory, for this
 * text. */
enum rf_code rf_pattern_next(struct rf_matches *m, bool *found, size_t *at, size_t *end, struct rf_err *e);

/* Returns the character that ends right before s + at, and sets *len to its bytes; -1: these bytes are not a
 * character.  at must be positive. */
int32_t rf_character_before(const char *s, size_t at, size_t *len);
/* Checks for Unicode's White_Space. */
bool rf_is_white_space(int32_t c);

#endif
