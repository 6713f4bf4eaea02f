/* memory.c -- a list doubles its room, so that n elements are moved fewer than 2 n times. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

bool rf_grow(void *list, size_t n, size_t *cap, size_t size)
{
	const size_t more = *cap ? 2 * *cap : 64;
	void *p;

	if (n < *cap)
		return true;
	memcpy(&p, list, sizeof p);
	if (!(p = reallocarray(p, more, size)))
		return false;
	memcpy(list, &p, sizeof p);
	*cap = more;
	return true;
}

char *rf_region_text(struct rf_region *p, const void *s, size_t n)
{
	char *copy = rf_region_alloc(p, n + 1, 1);

	if (copy && n)
		memcpy(copy, s, n);
	if (copy)
		copy[n] = 0;
	return copy;
}

bool rf_buf_give(struct rf_buf *b, char **text, size_t *n)
{
	rf_buf_add(b, "", 1);
	if (b->failed) {
		rf_buf_free(b);
		return false;
	}
	*text = (char *)b->p;
	if (n)
		*n = b->n - 1;
	return true;
}
