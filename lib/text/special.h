/* special.h -- the files next to a tokenizer that name its special tokens: tokenizer_config.json,
 * special_tokens_map.json and added_tokens.json.
 *
 * They are read as transformers 5 reads them: if tokenizer_config.json has added_tokens_decoder, tokens come
 * from this file only; otherwise special_tokens_map.json comes before it, and added_tokens.json adds tokens.
 * If tokenizer_config.json names no end or beginning of a text, that of special_tokens_map.json counts. */
#ifndef RF_SPECIAL_H
#define RF_SPECIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct rf_special_token {
	char *text;              /* owned */
	size_t n;
	const char *file;        /* the name of the file that has the token */
	int64_t id;              /* the id that the file gives the token; -1: none */
	/* the flags of struct rf_added_token; described: the file has all of them */
	bool described, single_word, lstrip, rstrip, normalized, special;
};

/* The token that a file names at a key such as eos_token; text NULL: no file names one. */
struct rf_special_name { char *text; size_t n; const char *file; };

struct rf_special {
	struct rf_special_token *t; /* in the order in which transformers adds those that are new */
	int n;
	struct rf_special_name eos, bos;
	int prefix_space;           /* add_prefix_space: 1, 0, or -1 if no file says it */
	char warning[400];          /* about two files that contradict each other; "": none */
};

/* Reads the files in the folder of the tokenizer at `path`.  A file that does not exist is skipped.  Errors:
 * RF_EMODEL: a file has something other than it must have, which the sentence names; RF_EIO, RF_ENOMEM.  The
 * caller frees s with rf_special_free(), also after a failure. */
enum rf_code rf_special_read(struct rf_special *s, const char *path, struct rf_err *e);
/* Adds the names of the end and the beginning to the tokens.  Errors: RF_ENOMEM. */
enum rf_code rf_special_add_names(struct rf_special *s, struct rf_err *e);
void rf_special_free(struct rf_special *s);

#endif
