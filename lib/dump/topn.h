/* topn.h -- chooses the rows to show, and their order: --sample N, --sort, -n N.
 *
 * Rows come one after the other.  For a sample or a sorted table they must wait until the last one has
 * come.  Only rows that can still be shown are kept. */
#ifndef RF_TOPN_H
#define RF_TOPN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct rf_topn_spec {
	bool sort;       /* true: rows are sorted by key; false: rows keep their order */
	uint64_t sample; /* number of rows drawn at random, without replacement; 0: all */
	uint64_t first;  /* number of these rows that are shown; 0: all */
};

struct rf_topn_key {
	double sort;    /* number to sort by: smaller numbers first, NaN last */
	double draw;    /* random number; the rows with the smallest ones are the sample */
	uint64_t order; /* 0, 1, 2, ...: decides between equal rows */
};

/* A row that waits, with its text. */
struct rf_topn_row {
	struct rf_topn_key key;
	char *text;                /* malloc'd; rf_topn frees it */
	uint64_t record, position; /* record and position of the row; neighbours may share headings */
	/* bytes of the heading of the record, of the heading of the position, of the whole text */
	size_t lead, lead_position, size;
};

struct rf_topn {
	struct rf_topn_spec spec;
	struct rf_topn_row *row; /* until rf_topn_end() a heap, whose first row is the next one to drop */
	size_t n, cap;
};

void rf_topn_begin(struct rf_topn *p, const struct rf_topn_spec *spec);
/* Returns whether rows must wait; if not, they can be shown as they come. */
bool rf_topn_holds(const struct rf_topn *p);
/* Returns whether a row with this key may still be shown; if not, its text need not be made. */
bool rf_topn_wants(const struct rf_topn *p, const struct rf_topn_key *key);
/* Keeps the row.  Its text belongs to p from now on, also after a failure.  Errors: RF_ENOMEM. */
enum rf_code rf_topn_take(struct rf_topn *p, const struct rf_topn_row *row, struct rf_err *e);
/* Makes row[0..n-1] the rows to show, in order.  To be called after the last row. */
void rf_topn_end(struct rf_topn *p);
void rf_topn_free(struct rf_topn *p);

#endif
