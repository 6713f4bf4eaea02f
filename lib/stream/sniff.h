/* sniff.h -- what was piped in by mistake. */
#ifndef RF_SNIFF_H
#define RF_SNIFF_H

#include <stddef.h>

enum { RF_SNIFF = 64 };

/* What these first bytes of an input look like, in words ("looks like text: 'hello...'"); NULL: a zstd frame,
 * which may be a stream. */
const char *rf_sniff(char *buf, size_t size, const void *data, size_t n);

#endif
