/* lines.h -- a file of text, plain or compressed by zstd, line by line or whole, in bounded memory. */
#ifndef RF_LINES_H
#define RF_LINES_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct rf_lines;

/* path NULL or "-": standard input.  What begins with the magic number of zstd is decompressed, all frames of
 * it; a file whose name ends in .zst must.  max: no line, or whole file, may be longer.  RF_ENOINPUT, RF_EIO,
 * RF_ENOMEM. */
enum rf_code rf_lines_open(struct rf_lines **l, const char *path, size_t max, struct rf_err *e);
void rf_lines_close(struct rf_lines *l);                     /* NULL is fine */
const char *rf_lines_name(const struct rf_lines *l);         /* "<stdin>" or the path, fit for a terminal */
uint64_t rf_lines_number(const struct rf_lines *l);          /* of the line read last, from 1 */
uint64_t rf_lines_bytes(const struct rf_lines *l);           /* of the file, read so far */

/* The next line without its newline, which the last one need not have; the caller may write over it.  It
 * lives until the next call.  RF_EOF; RF_EDATA (too long, damaged zstd), RF_EIO: the sentence names the file,
 * not the line. */
enum rf_code rf_lines_next(struct rf_lines *l, char **line, size_t *n, struct rf_err *e);
/* Everything that is left. */
enum rf_code rf_lines_rest(struct rf_lines *l, char **text, size_t *n, struct rf_err *e);

#endif
