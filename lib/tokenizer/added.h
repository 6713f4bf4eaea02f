/* added.h -- the added tokens of tokenizer.json: texts that become tokens wherever they occur, before the
 * text is normalized and divided. */
#ifndef RF_ADDED_H
#define RF_ADDED_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct rf_added_token {
	char *text; /* owned; as in the file */
	size_t n;
	char *match; /* owned; the text that is searched for: `text` or its normalized form */
	size_t match_n;
	int id;
	bool single_word;    /* not next to a letter, mark, digit or connector */
	bool lstrip, rstrip; /* also takes the white space before it, after it */
	bool normalized;     /* searched for in the normalized text, else in the original text */
	bool special;
};

struct rf_added {
	struct rf_added_token *t;
	int n;
	size_t cap;
	bool split; /* special tokens are not searched for, so they are ordinary text */
};
void rf_added_free(struct rf_added *a);

/* Finds the first token in s at or after *scan, and the longest of several tokens that begin at the same
 * place. from and end are its place with the white space that it takes, but not before `done`, where the
 * token before it ended.  *scan becomes where to search for the next token.  Returns NULL if there is no
 * token. */
const struct rf_added_token *rf_added_find(const struct rf_added *a, bool normalized, const char *s, size_t n,
                                           size_t *scan, size_t done, size_t *from, size_t *end);

#endif
