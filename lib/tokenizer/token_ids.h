/* token_ids.h -- the ids of tokens: a list of ids that grows, and the token that ends a text. */
#ifndef RF_TOKEN_IDS_H
#define RF_TOKEN_IDS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* A list of ids that grows; all zero: empty.  The caller frees ids->p. */
struct rf_id_list {
	int32_t *p;
	size_t n, cap;
};
/* Appends n ids to the list.  Errors: RF_ENOMEM; the list is unchanged. */
enum rf_code rf_id_list_add(struct rf_id_list *ids, const int32_t *more, size_t n, struct rf_err *e);

/* The token that ends a text, and the name of the file that names it; id -1: no file names one. */
struct rf_end_token {
	int id;
	const char *file;
};

#endif
