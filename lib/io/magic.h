/* magic.h -- what a file that is compressed with zstd begins with (RFC 8878, section 3.1). */
#ifndef RF_MAGIC_H
#define RF_MAGIC_H

#include <stdbool.h>
#include <string.h>

/* Returns whether these four bytes begin a skippable frame.  Tools put one before the first frame (pzstd), or
 * a table of all frames after the last one (the seekable format); it has no text. */
static inline bool rf_magic_skippable(const void *bytes)
{
	const unsigned char *p = bytes;

	return p[0] >> 4 == 5 && p[1] == 0x2a && p[2] == 0x4d && p[3] == 0x18;
}

/* Returns whether a file that begins with these four bytes is compressed. */
static inline bool rf_magic_zstd(const void *bytes)
{
	return !memcmp(bytes, "\x28\xb5\x2f\xfd", 4) || rf_magic_skippable(bytes);
}

#endif
