/* buf.h -- bytes that grow. */
#ifndef RF_BUF_H
#define RF_BUF_H

#include <stdbool.h>
#include <stddef.h>

/* A failed allocation sticks (like ferror), so that it is asked for once, at the end. */
struct rf_buf { unsigned char *p; size_t n, cap; bool failed; };

void rf_buf_add(struct rf_buf *b, const void *data, size_t n);
void rf_buf_free(struct rf_buf *b);

#endif
