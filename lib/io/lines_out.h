/* lines_out.h -- writes a text file, plain or compressed with zstd, that appears whole or not at all. */
#ifndef RF_LINES_OUT_H
#define RF_LINES_OUT_H

#include <stddef.h>

#include "base/err.h"

struct rf_lines_out;

/* Begins a file as rf_tempfile_open() does; path NULL or "-": standard output.  One whose name ends in .zst
 * is compressed.  Errors: those of rf_tempfile_open(); RF_ENOMEM. */
enum rf_code rf_lines_out_open(struct rf_lines_out **l, const char *path, struct rf_err *e);
/* Writes n bytes.  Errors: RF_EIO, RF_ENOMEM. */
enum rf_code rf_lines_out_put(struct rf_lines_out *l, const void *data, size_t n, struct rf_err *e);
/* Makes the file appear, and frees l in any case.  Errors: RF_EIO, RF_ENOMEM; no file appears then. */
enum rf_code rf_lines_out_finish(struct rf_lines_out *l, struct rf_err *e);

#endif
