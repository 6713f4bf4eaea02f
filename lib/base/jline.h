/* jline.h -- a line of JSON that a program writes of its own figures: an object of plain values. */
#ifndef RF_JLINE_H
#define RF_JLINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/* A line is begun, gets its values, whose names need no escapes, and is ended, newline included; a failure
 * (memory) sticks to the buffer.  A real number has nine digits; what is not finite is null. */
void rf_jline_begin(struct rf_buf *b);
void rf_jline_bool(struct rf_buf *b, const char *name, bool v);
void rf_jline_int(struct rf_buf *b, const char *name, int64_t v);
void rf_jline_real(struct rf_buf *b, const char *name, double v);
void rf_jline_end(struct rf_buf *b);

#endif
