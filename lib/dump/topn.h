/* topn.h -- which rows are shown, and in what order: --sample N, --sort, -n N.
 *
 * Rows come one after the other.  If they must be held back (a sample, a sorted table), only as many are kept
 * as can still be shown. */
#ifndef RF_TOPN_H
#define RF_TOPN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct rf_topn_spec {
	bool sort;                /* sort by key; false: the order in which the rows came */
	uint64_t sample;          /* rows drawn at random, without replacement; 0: all */
	uint64_t first;           /* how many of the remaining rows are shown; 0: all */
};

struct rf_topn_key {
	double sort;              /* smaller first, NaN last */
	double draw;              /* the row's random number; the smallest ones are the sample */
	uint64_t order;           /* 0, 1, 2, ...: decides between equal rows */
};

/* A row that is held back, with the text that the caller made of it. */
struct rf_topn_row {
	struct rf_topn_key key;
	char *text;               /* malloc'd; rf_topn frees it */
	uint64_t record, position; /* what it belongs to: neighbours may share a heading */
	size_t lead, lead_position, size; /* bytes of the record's heading, of the position's, of the text */
};

struct rf_topn {
	struct rf_topn_spec spec;
	struct rf_topn_row *row;  /* until rf_topn_end() a heap, with the next row to drop on top */
	size_t n, cap;
};

void rf_topn_begin(struct rf_topn *p, const struct rf_topn_spec *spec);
/* Whether rows must be held back; if not, they can be shown as they come. */
bool rf_topn_holds(const struct rf_topn *p);
/* Whether a row with this key may still be shown; if not, its text need not be made. */
bool rf_topn_wants(const struct rf_topn *p, const struct rf_topn_key *key);
/* Keeps the row and owns its text from now on, also if it fails.  Errors: RF_ENOMEM. */
enum rf_code rf_topn_take(struct rf_topn *p, const struct rf_topn_row *row, struct rf_err *e);
/* To be called after the last row: row[0..n-1] become the rows to show, in order. */
void rf_topn_end(struct rf_topn *p);
void rf_topn_free(struct rf_topn *p);

#endif
