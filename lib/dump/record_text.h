/* record_text.h -- records and heads as text for people. */
#ifndef RF_RECORD_TEXT_H
#define RF_RECORD_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/page.h"
#include "dump/table.h"
#include "stream/pack.h"

struct rf_record_text {
	struct rf_words words;
	int width;                /* columns of a line */
	bool files;               /* there are several: a heading says which */
	bool colour;              /* the reader is a terminal that knows colours */
};

/* A row's text in three parts: the heading of its record, of its position, and what the row itself
 * says.  *lead and *lead_part are the bytes of the first two, which are left out where the row
 * before had the same. */
void rf_record_text_row(struct rf_buf *p, const struct rf_record_text *s, enum rf_row_kind rows,
                        const struct rf_row *row, size_t *lead, size_t *lead_part);

/* A head's body: what it says of the data, and its history with each stage as a command that can be typed. */
void rf_record_text_head(struct rf_buf *p, struct rf_mp body);

#endif
