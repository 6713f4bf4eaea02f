/* tokenizer_kind.h -- what one kind of tokenizer consists of; only tokenizer*.c include this. */
#ifndef RF_TOKENIZER_KIND_H
#define RF_TOKENIZER_KIND_H

#include "text/tokenizer.h"

struct rf_tokenizer_kind {
	const char *name;
	const char *class;       /* the tokenizer_class by which tokenizer_config.json calls it */
	/* path: the file that named it */
	enum rf_code (*open)(struct rf_tokenizer *t, const char *path, struct rf_err *e);
	enum rf_code (*encode)(const struct rf_tokenizer *t, const char *text, size_t n, int32_t **ids,
	                       size_t *count, size_t *cap, struct rf_err *e);
	enum rf_code (*decode)(const struct rf_tokenizer *t, const int32_t *ids, size_t count, char **text,
	                       size_t *n, struct rf_err *e);
	void (*close)(struct rf_tokenizer *t);
};

struct rf_tokenizer {
	const struct rf_tokenizer_kind *kind;
	char hash[17];
	int vocab, eos;
	void *data;              /* the kind's own */
};

extern const struct rf_tokenizer_kind rf_tokenizer_kind_bytes;

#endif
