/* sniff.h -- recognizes input that is not a stream, for error messages. */
#ifndef RF_SNIFF_H
#define RF_SNIFF_H

#include <stddef.h>

enum { RF_SNIFF = 64 }; /* number of bytes that decide */

/* Describes in buf what the first bytes of an input look like ("it looks like text: 'hello...' ..."), and
 * returns buf.  Returns NULL if the bytes begin a zstd frame, which may be a stream. */
const char *rf_sniff(char *buf, size_t size, const void *data, size_t n);

#endif
