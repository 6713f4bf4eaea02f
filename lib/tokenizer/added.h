/* added.h -- the added tokens of tokenizer.json: texts that are tokens wherever they stand, before anything
 * is normalized or divided. */
#ifndef RF_ADDED_H
#define RF_ADDED_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct rf_added_token {
	char *text;              /* owned; as the file has it */
	size_t n;
	char *match;             /* owned; what is looked for: the text, or its normalized form */
	size_t match_n;
	int id;
	bool single_word;        /* not next to a letter, mark, digit or connector */
	bool lstrip, rstrip;     /* takes the white space before, behind it, too */
	bool normalized;         /* found in the normalized text, else in the text */
	bool special;
};

struct rf_added {
	struct rf_added_token *t;
	int n;
	size_t cap;
	bool split;              /* special tokens are not found, so they are ordinary text */
};
void rf_added_free(struct rf_added *a);

/* Finds the first token in s at or after *scan: of those that begin there the longest.  from and end are its
 * place with the white space that it takes, but not before `done`, where the one before it ended.  *scan is
 * set to where to look for the next.  NULL: there is none. */
const struct rf_added_token *rf_added_find(const struct rf_added *a, bool normalized, const char *s, size_t n,
                                           size_t *scan, size_t done, size_t *from, size_t *end);

#endif
