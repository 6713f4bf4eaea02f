/* jline.h -- writes a program's own figures as one line of JSON: an object of plain values. */
#ifndef RF_JLINE_H
#define RF_JLINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/* A line is rf_jline_begin(), one call for each value, and rf_jline_end(), which also adds the newline.
 * Names are written without escaping, texts with it.  Real numbers are written with the fewest digits that
 * read back as the same double, NaN and infinities as null.  If memory runs out, b->failed is set. */
void rf_jline_begin(struct rf_buf *b);
void rf_jline_bool(struct rf_buf *b, const char *name, bool v);
void rf_jline_int(struct rf_buf *b, const char *name, int64_t v);
void rf_jline_real(struct rf_buf *b, const char *name, double v);
void rf_jline_text(struct rf_buf *b, const char *name, const char *v);
void rf_jline_end(struct rf_buf *b);

#endif
