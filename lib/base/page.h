/* page.h -- text for people that grows in a buffer, and what of foreign bytes may stand in it.
 *
 * As with rf_buf_add(), a failure (memory) sticks to the buffer: whoever prints the text asks once. */
#ifndef RF_PAGE_H
#define RF_PAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

void rf_page_puts(struct rf_buf *p, const char *s);
void rf_page_printf(struct rf_buf *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The shortest decimal of at least so many digits that reads back as the same double, or the same float32. */
void rf_page_real(struct rf_buf *p, double x, int digits);
void rf_page_single(struct rf_buf *p, float x, int digits);
void rf_page_fill(struct rf_buf *p, char c, size_t n);
void rf_page_clear(struct rf_buf *p);       /* empties it and forgets the failure; keeps the memory */

/* Bytes from outside as UTF-8 that a terminal, a line of TSV and a reader's eyes can take: \t \n \r \\ and
 * \xNN for control characters, \uNNNN for those that steer a terminal or turn the direction of writing,
 * U+FFFD for what is not UTF-8.  Where `quotes` says so, " becomes \". */
void rf_page_safe(struct rf_buf *p, const void *s, size_t n, bool quotes);
/* A text of JSON; what a terminal obeys or cannot show, which only its strings can hold, is escaped. */
void rf_page_json(struct rf_buf *p, const char *text);

/* Columns that n bytes of such text take on a terminal. */
int rf_columns(const void *s, size_t n);
/* Bytes of the longest beginning, or end, of such text that takes at most so many columns. */
size_t rf_columns_head(const void *s, size_t n, int columns);
size_t rf_columns_tail(const void *s, size_t n, int columns);

/* Text that is laid out item after item, a new line where the width ends. */
struct rf_flow {
	struct rf_buf *p;
	int indent, width;
	int lines, max_lines;     /* so far; 0: any number */
	int column;               /* where the line ends so far */
	int left_out;             /* items that found no room */
};

/* label stands in the indent of the first line; NULL: none. */
void rf_flow_begin(struct rf_flow *f, struct rf_buf *p, const char *label, int indent, int width,
                   int max_lines);
/* Two blanks, then the item (safe text).  paint: how a terminal is told its colour, or NULL. */
void rf_flow_item(struct rf_flow *f, const void *item, size_t n, const char *paint);
void rf_flow_printf(struct rf_flow *f, const char *paint, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Ends the line; says how many items were left out. */
void rf_flow_end(struct rf_flow *f);

#endif
