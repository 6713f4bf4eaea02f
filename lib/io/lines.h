/* lines.h -- reads a text file, plain or compressed with zstd, line by line or whole, in bounded memory. */
#ifndef RF_LINES_H
#define RF_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "io/jscan.h"

struct rf_lines;

/* Opens a file; path NULL or "-": standard input.  A file that begins with a frame of zstd, also a skippable
 * one, is decompressed, all its frames; one whose name ends in .zst must begin so.  max: bytes that a line,
 * or the rest of the file, may have; at least 64 KiB is allowed.  Errors: RF_ENOINPUT; RF_EDATA: the file is
 * named .zst but is empty, or it is compressed with gzip, bzip2, xz or lz4; RF_EIO, RF_ENOMEM. */
enum rf_code rf_lines_open(struct rf_lines **l, const char *path, size_t max, struct rf_err *e);
/* Opens a file as rf_lines_open() does, but only a regular file of at most `max` bytes, such as a folder
 * from elsewhere holds.  Errors: also those of rf_file_open(); RF_EMODEL: the file is longer. */
enum rf_code rf_lines_open_file(struct rf_lines **l, const char *path, size_t max, struct rf_err *e);
/* Makes the sentence about a line or a text that is too long name the option --max-record.  For programs
 * whose max is this option's value. */
void rf_lines_advise(struct rf_lines *l);
/* Computes XXH64, as 16 hex digits, of the bytes read so far of a file that rf_lines_open_file() opened; of
 * the whole file after rf_lines_rest(). */
void rf_lines_hash(const struct rf_lines *l, char hex[17]);
void rf_lines_close(struct rf_lines *l);             /* l may be NULL */
const char *rf_lines_name(const struct rf_lines *l); /* "<stdin>" or the path, safe to print */
uint64_t rf_lines_number(const struct rf_lines *l);  /* number of the line read last, from 1 */
uint64_t rf_lines_bytes(const struct rf_lines *l);   /* bytes of the file (compressed) read so far */

/* Reads the next line, without its newline, which the last line need not have.  *line is valid until the next
 * call; the caller may write over it.  Returns RF_EOF after the last line.  Errors: RF_EDATA: the line is too
 * long or the zstd data are damaged; RF_EIO, RF_ENOMEM.  The sentence names the file; the line only if it is
 * too long. */
enum rf_code rf_lines_next(struct rf_lines *l, char **line, size_t *n, struct rf_err *e);
/* Reads the next line that has more than white space.  rf_lines_number() counts blank lines too. */
enum rf_code rf_lines_next_written(struct rf_lines *l, char **line, size_t *n, struct rf_err *e);
/* Reads the next line that has more than white space as a JSON object, by the rules of rf_jscan_check().
 * Errors: those of rf_lines_next(); RF_EDATA: the line is not JSON, or not an object; the sentence names file
 * and line. */
enum rf_code rf_lines_next_object(struct rf_lines *l, struct rf_jvalue *object, struct rf_err *e);
/* Returns whether the last failure concerned one line only, so that the next line can be read. */
bool rf_lines_goes_on(const struct rf_lines *l);
/* Prepends the place of the line read last, "name: line 17: ", to the sentence about a failure that was found
 * in it.  Returns e's code. */
enum rf_code rf_lines_blame(const struct rf_lines *l, struct rf_err *e);
/* Reads the rest of the file as one piece. */
enum rf_code rf_lines_rest(struct rf_lines *l, char **text, size_t *n, struct rf_err *e);

#endif
