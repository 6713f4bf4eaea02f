/* buf.c -- a byte buffer that grows. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

void rf_buf_add(struct rf_buf *b, const void *data, size_t n)
{
	size_t need, cap;
	unsigned char *p;

	if (b->failed || !n)
		return;
	if (__builtin_add_overflow(b->n, n, &need) || need > SIZE_MAX / 2) {
		b->failed = true;
		return;
	}
	if (need > b->cap) {
		for (cap = b->cap ? b->cap : 256; cap < need; cap *= 2)
			;
		if (!(p = realloc(b->p, cap))) {
			b->failed = true;
			return;
		}
		b->p = p;
		b->cap = cap;
	}
	memcpy(b->p + b->n, data, n);
	b->n = need;
}

void rf_buf_free(struct rf_buf *b)
{
	free(b->p);
	memset(b, 0, sizeof *b);
}
