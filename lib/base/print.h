/* print.h -- builds text for people in a buffer, and makes bytes from outside safe to show in it.
 *
 * As with rf_buf_add(), a failed allocation sets p->failed, so the caller checks once, before printing. */
#ifndef RF_PRINT_H
#define RF_PRINT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

void rf_print_text(struct rf_buf *p, const char *s);
void rf_print(struct rf_buf *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Appends a finite x as the decimal of the fewest significant digits that reads back as the same double
 * (rf_print_real), or as the same float32, whether it is read as one or as a double that is then rounded
 * (rf_print_single).  A negative zero is -0.0, since JSON's -0 is often read as an integer; other whole
 * numbers have no point. */
void rf_print_real(struct rf_buf *p, double x);
void rf_print_single(struct rf_buf *p, float x);
/* Appends x as rf_print_real() does, but always with a point or an exponent (1 as 1.0), so that readers do
 * not take the number for an integer. */
void rf_print_float(struct rf_buf *p, double x);
void rf_print_fill(struct rf_buf *p, char c, size_t n);
void rf_print_clear(struct rf_buf *p); /* empties the buffer and resets `failed`; keeps the memory */

/* Appends bytes from outside as UTF-8 that is safe on a terminal, in a line of TSV and for a human reader.
 * Control characters and the backslash become \t \n \r \\ or \xNN.  Characters that rf_utf8_unsafe() names
 * become \uNNNN, or \UNNNNNNNN above U+FFFF.  Bytes that are not UTF-8 become U+FFFD.  If `quotes` is set, "
 * becomes \". */
void rf_print_safe(struct rf_buf *p, const void *s, size_t n, bool quotes);
/* Copies a line for a terminal, with its NUL, into a buffer of `size` bytes: the same escapes, but a
 * backslash stays, since the names in a message may be quoted already (rf_quote()), and a byte that is not
 * UTF-8 becomes \xNN, so that a file can be found by its name.  A text that does not fit ends in "...".
 * Nothing is allocated.  Returns the length.  Every message and every line of progress goes through here. */
size_t rf_print_line(char *to, size_t size, const void *s, size_t n);
/* Appends a valid JSON text.  Characters that a terminal obeys or cannot show, which can occur only in its
 * strings, are replaced by JSON escapes. */
void rf_print_json(struct rf_buf *p, const char *text);
/* Appends n bytes of UTF-8 as a JSON string, with its quotes.  Bytes that are not UTF-8 become U+FFFD.
 * Characters that a terminal obeys or cannot show are escaped, so that a string cannot imitate another
 * line. */
void rf_print_string(struct rf_buf *p, const void *s, size_t n);

/* Returns the number of terminal columns that n bytes of safe text take. */
int rf_columns(const void *s, size_t n);
/* Return the number of bytes of the longest beginning (head) or end (tail) of a safe text that takes at most
 * `columns` columns. */
size_t rf_columns_head(const void *s, size_t n, int columns);
size_t rf_columns_tail(const void *s, size_t n, int columns);

/* A list of items laid out one after the other; an item that would pass the width begins a new line. */
struct rf_flow {
	struct rf_buf *p;
	int indent, width;    /* in columns */
	int lines, max_lines; /* lines so far, lines allowed (0: any number) */
	int column;           /* where the current line ends so far */
	int left_out;         /* items left out because max_lines were full */
};

/* Begins a list in p.  label is written into the indent of the first line; NULL: none. */
void rf_flow_begin(struct rf_flow *f, struct rf_buf *p, const char *label, int indent, int width,
                   int max_lines);
/* Appends an item of safe text, after two blanks unless it begins a line.  paint: the parameters of the
 * terminal escape sequence that sets its colour ("1;31"), or NULL. */
void rf_flow_item(struct rf_flow *f, const void *item, size_t n, const char *paint);
void rf_flow_printf(struct rf_flow *f, const char *paint, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Ends the last line, first adding how many items were left out, if any. */
void rf_flow_end(struct rf_flow *f);

#endif
