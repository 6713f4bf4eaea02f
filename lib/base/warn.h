/* warn.h -- collects sentences for the user in one text. */
#ifndef RF_WARN_H
#define RF_WARN_H

#include <stddef.h>

/* Appends a sentence to a text of at most `size` bytes with its NUL; "; " comes between two of them.  A
 * text that does not fit is cut. */
void rf_warn(char *to, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
