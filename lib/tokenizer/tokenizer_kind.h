/* tokenizer_kind.h -- the interface that one kind of tokenizer implements; only tokenizer*.c include this. */
#ifndef RF_TOKENIZER_KIND_H
#define RF_TOKENIZER_KIND_H

#include "tokenizer/token_ids.h"

struct rf_tokenizer;

enum { RF_TOKENIZER_OPEN = -2 };

struct rf_tokenizer_kind {
	const char *name;
	const char *class; /* the tokenizer_class that names this kind in tokenizer_config.json */
	/* path: the file that named the kind; NULL for rf_tokenizer_bytes() */
	enum rf_code (*open)(struct rf_tokenizer *t, const char *path, struct rf_err *e);
	/* hashes everything that decides the ids, for t->hash; NULL: only the file */
	enum rf_code (*hash)(const char *path, char hash[17], struct rf_err *e);
	/* finds the end token, or -1, without opening the tokenizer, or reports that the tokenizer must be
	   opened; NULL: it must always be opened */
	enum rf_code (*end)(const char *path, struct rf_end_token *eos, struct rf_err *e);
	/* forgets the tokens from this id on that t->own does not count; NULL: t->own counts all tokens */
	void (*limit)(struct rf_tokenizer *t, int vocab);
	enum rf_code (*encode)(const struct rf_tokenizer *t, const char *text, size_t n,
	                       struct rf_id_list *ids, struct rf_err *e);
	/* decodes ids.  special: special tokens become their names; otherwise they are left out.  *held:
	   number of bytes at the end that stand for an incomplete character */
	enum rf_code (*decode)(const struct rf_tokenizer *t, const int32_t *ids, size_t count, bool special,
	                       char **text, size_t *n, size_t *held, struct rf_err *e);
	void (*close)(struct rf_tokenizer *t);
	/* decodes with special tokens, by the names in the model's tokenizer_config.json; NULL: decode gives
	   the same names */
	enum rf_code (*decode_named)(const struct rf_tokenizer *t, const int32_t *ids, size_t count,
	                             char **text, size_t *n, size_t *held, struct rf_err *e);
};

struct rf_tokenizer {
	const struct rf_tokenizer_kind *kind;
	char hash[17];
	int vocab, bos; /* bos: -1: none */
	struct rf_end_token eos;
	int own;               /* the vocabulary without the tokens of the files next to the tokenizer */
	const int32_t *before; /* the ids that its own files put before a text; owned by the kind */
	size_t before_count;
	char warning[1200]; /* a warning for the user; "": none */
	void *data;         /* private to the kind */
};

extern const struct rf_tokenizer_kind rf_tokenizer_kind_bytes, rf_tokenizer_kind_json,
	rf_tokenizer_kind_sentencepiece;

#endif
