/* utf8.h -- the characters of UTF-8, and which of them are not to be shown as they are. */
#ifndef RF_UTF8_H
#define RF_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads one character of n > 0 bytes (RFC 3629: shortest form, no surrogates, up to U+10FFFF).
 * Returns how many bytes it has; *c is -1 for a part that is none, which is then the longest that
 * could have begun one. */
size_t rf_utf8_next(const void *s, size_t n, int32_t *c);
/* Whether all of it is UTF-8. */
bool rf_utf8(const void *s, size_t n);

/* A character above 127 that steers a terminal, turns the direction of writing or is not seen, so that a line
 * would read as another one. */
bool rf_utf8_unsafe(int32_t c);

#endif
