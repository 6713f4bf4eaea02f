/* columns.h -- the interface between columns.c, where.c and table_text.c: the list of columns, and
 * conditions. */
#ifndef RF_COLUMNS_H
#define RF_COLUMNS_H

#include "dump/table.h"

/* ---- columns.c ----------------------------------------------------------------------------- */

/* The value of a column of numbers. */
struct rf_cell {
	enum { RF_MISSING, RF_WHOLE, RF_SINGLE, RF_REAL } is; /* RF_SINGLE: a float32 of the stream */
	uint64_t whole;
	double real;
};

struct rf_column {
	const char *name;
	int has, shown; /* rows that have the column; rows whose tables show it by default */
	struct rf_cell (*get)(const struct rf_row *);
	/* for a column of text: appends the text; false: the row has no text */
	bool (*write)(const struct rf_row *, const struct rf_token_text *, struct rf_buf *);
	bool stats;  /* whether the value is computed from a tensor's elements */
	bool parts;  /* whether the parts of the reward follow the column */
	bool tokens; /* whether the value is the text of tokens */
	bool file;   /* whether the value is the name of the file */
};

extern const struct rf_column rf_column_list[];
extern const int rf_column_count;

/* A column of a table is an index in the list, or rf_column_count and more for a part of the reward. */

/* Returns the listed column; NULL for a part of the reward. */
const struct rf_column *rf_column_at(int column);
/* Returns the index of a name in the list, whichever rows have the column; -1 if the list lacks it. */
int rf_column_find(const char *name, size_t n);
/* Returns the name of a table's column. */
const char *rf_column_name(const struct rf_table *t, int column);
/* Returns the value of a table's column that is not text. */
struct rf_cell rf_column_value(const struct rf_table *t, int column, const struct rf_row *row);
bool rf_column_is_text(int column);

/* Returns the column of a part of the reward, which is added if the table lacks it; -1 if there are too many
 * parts.  option: the option that names the part, perhaps by mistake; NULL: surely a part. */
int rf_column_of_part(struct rf_table *t, const char *name, size_t n, const char *option);
/* Returns RF_EUSAGE, with a sentence that lists the known columns.  rec: a record with other parts; NULL:
 * none. */
enum rf_code rf_column_unknown(const struct rf_table *t, const struct rf_record *rec, const char *option,
                               const char *name, size_t n, struct rf_err *e);
/* Finds the column with a name of n bytes that an option has.  Errors: RF_EUSAGE: no such column. */
enum rf_code rf_table_find(struct rf_table *t, const char *option, const char *name, size_t n, int *found,
                           struct rf_err *e);

/* ---- where.c ------------------------------------------------------------------------------- */

/* Reads the conditions of --where into t->term.  Errors: RF_EUSAGE, RF_ENOMEM. */
enum rf_code rf_where_read(struct rf_table *t, const char *where, struct rf_err *e);
void rf_where_free(struct rf_table *t);

#endif
