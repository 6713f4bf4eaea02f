/* bytes.h -- the bytes of an input, from a descriptor through a buffer or in memory. */
#ifndef RF_BYTES_H
#define RF_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct rf_bytes {
	int fd;             /* -1: all bytes are in memory */
	char name[200];     /* name for messages, safe to show on a terminal */
	off_t file_size;    /* -1: not a regular file */
	unsigned char *buf; /* the available bytes are [at, have) */
	size_t at, have, cap;
	uint64_t offset; /* offset of buf[at] in the input */
	bool eof;        /* whether the input has no bytes after these */
};

/* Opens a file; path NULL or "-": standard input, which must not be a terminal.  To be closed in any case.
 * Errors: RF_ENOINPUT: the input cannot be opened; RF_EUSAGE: standard input is a terminal. */
enum rf_code rf_bytes_open(struct rf_bytes *b, const char *path, struct rf_err *e);
/* Makes n bytes in memory the input.  The caller keeps them valid. */
void rf_bytes_open_memory(struct rf_bytes *b, const void *data, size_t n, const char *name);
void rf_bytes_close(struct rf_bytes *b);

/* Reads until n bytes are available, or the input has ended.  Errors: RF_EIO, RF_ENOMEM. */
enum rf_code rf_bytes_fill(struct rf_bytes *b, size_t n, struct rf_err *e);
/* Returns the available bytes. */
const unsigned char *rf_bytes_next(const struct rf_bytes *b);
/* Returns how many bytes are available. */
size_t rf_bytes_left(const struct rf_bytes *b);
/* Returns whether fewer than n bytes are available. */
bool rf_bytes_fewer(const struct rf_bytes *b, size_t n);
/* Moves past n available bytes. */
void rf_bytes_take(struct rf_bytes *b, size_t n);
/* Moves past n bytes of a regular file.  Sets *cut if the file ends before.  Errors: RF_EIO. */
enum rf_code rf_bytes_pass(struct rf_bytes *b, uint64_t n, bool *cut, struct rf_err *e);
/* Moves back to an offset of a regular file.  Errors: RF_EIO. */
enum rf_code rf_bytes_rewind(struct rf_bytes *b, uint64_t offset, struct rf_err *e);

#endif
