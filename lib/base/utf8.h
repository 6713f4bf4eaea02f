/* utf8.h -- reads UTF-8, and knows which characters must not be shown as they are. */
#ifndef RF_UTF8_H
#define RF_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads one character from n > 0 bytes (RFC 3629: shortest form, no surrogates, up to U+10FFFF) into *c.
 * Returns its length in bytes.  If no character begins at s, *c is -1 and the return value, at least 1, is
 * the length of the longest piece that could have begun one. */
size_t rf_utf8_next(const void *s, size_t n, int32_t *c);
/* Returns whether all n bytes are UTF-8. */
bool rf_utf8(const void *s, size_t n);
/* Returns the number of bytes at the end that begin an incomplete character: 0 to 3. */
size_t rf_utf8_unfinished(const void *s, size_t n);

/* Returns whether c, a character above 127, controls a terminal, changes the direction of writing or is
 * invisible, so that a line containing it could be mistaken for another. */
bool rf_utf8_unsafe(int32_t c);

/* Returns whether c is one of the 29 characters for which Python's str.isspace() is true. */
bool rf_utf8_blank(int32_t c);

#endif
