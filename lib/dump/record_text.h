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
	int width;   /* columns of a line */
	bool files;  /* whether headings name the file */
	bool colour; /* whether the output is a terminal with colours */
};

/* Appends the text of a row.  It has three parts: the heading of its record, the heading of its position,
 * and the row itself.  *lead and *lead_position become the sizes in bytes of the two headings.  The caller
 * leaves a heading out if the row before had the same one. */
void rf_record_text_row(struct rf_buf *p, const struct rf_record_text *s, enum rf_row_kind rows,
                        const struct rf_row *row, size_t *lead, size_t *lead_position);

/* Appends the body of a head: its facts about the data, and its history, each stage as a command that can be
 * typed. */
void rf_record_text_head(struct rf_buf *p, struct rf_mp body);
/* Appends the next value of a message that has passed rf_msg_check(), which bounds its depth. */
void rf_record_text_value(struct rf_buf *p, struct rf_mp *m);

#endif
