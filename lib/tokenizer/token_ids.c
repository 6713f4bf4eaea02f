/* token_ids.c -- appends to a list of token ids. */
#include <stdlib.h>
#include <string.h>

#include "tokenizer/token_ids.h"

enum rf_code rf_id_list_add(struct rf_id_list *ids, const int32_t *more, size_t n, struct rf_err *e)
{
	size_t need, cap = ids->cap;

	if (!n)
		return RF_OK;
	if (__builtin_add_overflow(ids->n, n, &need))
		return rf_fail(e, RF_ENOMEM, "out of memory");
	if (need > cap) {
		int32_t *p;

		cap = need + need / 2 + 64;
		if (cap > SIZE_MAX / sizeof *p || !(p = realloc(ids->p, cap * sizeof *p)))
			return rf_fail(e, RF_ENOMEM, "out of memory");
		ids->p = p;
		ids->cap = cap;
	}
	memcpy(ids->p + ids->n, more, n * sizeof *more);
	ids->n = need;
	return RF_OK;
}
