/* buf.h -- a byte buffer that grows. */
#ifndef RF_BUF_H
#define RF_BUF_H

#include <stdbool.h>
#include <stddef.h>

/* n bytes at p, room for cap; all zero: empty.  A failed allocation sets `failed`, and later additions then
 * do nothing.  So, as with ferror(), one check at the end is enough. */
struct rf_buf {
	unsigned char *p;
	size_t n, cap;
	bool failed;
};

void rf_buf_add(struct rf_buf *b, const void *data, size_t n);
void rf_buf_free(struct rf_buf *b);

#endif
