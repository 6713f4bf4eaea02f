/* magic.h -- the first bytes of a zstd file (RFC 8878, section 3.1) and of other compressed files. */
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
/* Returns the name of the program (gzip, bzip2, xz, lz4) that compressed a file with these first n bytes;
 * NULL if the bytes are of no such file. */
static inline const char *rf_magic_packed(const void *bytes, size_t n)
{
	const unsigned char *p = bytes;

	/* clang-format off */
	return n >= 2 && !memcmp(p, "\x1f\x8b", 2)                                       ? "gzip"
	       : n >= 7 && !memcmp(p, "BZh", 3) && !memcmp(p + 4, "1AY", 3)              ? "bzip2"
	       : n >= 5 && !memcmp(p, "\xfd" "7zXZ", 5)                                  ? "xz"
	       : n >= 4 && !memcmp(p, "\x04\x22\x4d\x18", 4)                             ? "lz4"
	                                                                                 : NULL;
	/* clang-format on */
}

#endif
