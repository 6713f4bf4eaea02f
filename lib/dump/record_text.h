/* record_text.h -- records and stream heads as text for people. */
#ifndef RF_RECORD_TEXT_H
#define RF_RECORD_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/print.h"
#include "dump/table.h"
#include "stream/pack.h"

struct rf_record_text {
	struct rf_token_text tokens;
	int width;                /* columns of a line */
	bool files;               /* there are several files: headings name them */
	bool colour;              /* the output is a terminal that knows colours */
};

/* Appends a row's text, which has three parts: the heading of its record, the heading of its position, and
 * the row itself.  *lead and *lead_position become the sizes in bytes of the first two, which the caller
 * leaves out if the row before it had the same ones. */
void rf_record_text_row(struct rf_buf *p, const struct rf_record_text *s, enum rf_row_kind rows,
                        const struct rf_row *row, size_t *lead, size_t *lead_position);

/* Appends a head's body: what it says of the data, and its history, each stage as a command that can be
 * typed. */
void rf_record_text_head(struct rf_buf *p, struct rf_mp body);

#endif
