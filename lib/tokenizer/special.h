/* special.h -- the files next to a tokenizer that name its special tokens: tokenizer_config.json,
 * special_tokens_map.json and added_tokens.json.
 *
 * They are read as transformers 5 reads them.  If tokenizer_config.json has added_tokens_decoder, tokens come
 * from this file only.  Otherwise each key of special_tokens_map.json comes before the same key of
 * tokenizer_config.json, except for two lists:
 *   - extra_special_tokens: the list of special_tokens_map.json follows that of tokenizer_config.json.
 *   - additional_special_tokens: the list is another name of an extra_special_tokens that is missing or
 *     empty.  The list in special_tokens_map.json counts only if tokenizer_config.json has neither key.
 * added_tokens.json adds tokens.  The flags of a token replace those that tokenizer.json gives the same token
 * only in added_tokens_decoder; elsewhere they count for tokens that tokenizer.json lacks.
 *
 * One rule differs from transformers: if tokenizer_config.json has no key eos_token or bos_token, the key in
 * special_tokens_map.json counts in any case.  A key with null means that there is no such token. */
#ifndef RF_SPECIAL_H
#define RF_SPECIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct rf_special_token {
	char *text; /* owned */
	size_t n;
	const char *file; /* the name of the file that has the token */
	int64_t id;       /* the id that the file gives the token; -1: none */
	bool replaces;    /* its flags replace those of the same token in tokenizer.json */
	bool named;       /* a key of its own makes it special, also in tokenizer.json */
	bool is_name;     /* only eos_token or bos_token name it, so it does not extend a vocabulary */
	bool plain;       /* a string without flags gave it */
	bool defaults;    /* no file gives normalized, so it is the opposite of special */
	/* the flags of struct rf_added_token */
	bool single_word, lstrip, rstrip, normalized, special;
};

/* The token that a file names at a key such as eos_token; text NULL: no file names one. */
struct rf_special_name {
	char *text;
	size_t n;
	const char *file;
	bool given; /* a file has the key, so that text NULL says that there is no such token */
};

/* A token of a list that does not count next to another value. */
struct rf_special_ignored {
	char *text; /* owned */
	size_t n;
	const char *key, *file, *other_key, *other_file;
};

struct rf_special {
	struct rf_special_token *t; /* in the order in which transformers adds those that are new */
	int n;
	struct rf_special_ignored *ignored;
	int n_ignored;
	size_t cap, ignored_cap;
	struct rf_special_name eos, bos;
	int prefix_space;  /* add_prefix_space: 1, 0, or -1 if no file says it */
	int split;         /* split_special_tokens: 1: special tokens in a text are ordinary text */
	char warning[600]; /* about two files that contradict each other; "": none */
};

/* Reads the files in the folder of the tokenizer at `path`.  A file that does not exist is skipped.  Errors:
 * RF_EMODEL: a file has something other than it must have, which the sentence names; RF_EIO, RF_ENOMEM.  The
 * caller frees s with rf_special_free(), also after a failure. */
enum rf_code rf_special_read(struct rf_special *s, const char *path, struct rf_err *e);
/* Adds the names of the end and the beginning to the tokens, with is_name false.  Errors: RF_ENOMEM. */
enum rf_code rf_special_add_names(struct rf_special *s, struct rf_err *e);
void rf_special_free(struct rf_special *s);

#endif
