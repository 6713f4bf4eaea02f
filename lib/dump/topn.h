/* topn.h -- which rows are shown and in what order: --sample N, --sort, -n N.
 *
 * Rows come one after the other; of those that must be held back (a sample, a sorted table) only as many are
 * kept as can still be shown. */
#ifndef RF_TOPN_H
#define RF_TOPN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct rf_topn_spec {
	bool sort;                /* by key, else in the order in which they came */
	uint64_t sample;          /* rows drawn at random, without replacement; 0: all */
	uint64_t first;           /* of those that remain; 0: all */
};

struct rf_topn_key {
	double sort;              /* smaller first, NaN last */
	double draw;              /* the row's random number: the smallest are the sample */
	uint64_t order;           /* 0, 1, 2, ...: decides between equals */
};

/* A row that waits: its text, made by who picks it. */
struct rf_topn_row {
	struct rf_topn_key key;
	char *text;               /* malloc'd; freed with the pick */
	uint64_t record, part;    /* what it belongs to, for headings */
	size_t lead, lead_part, size; /* bytes of heading of the record, of the part, and of it all */
};

struct rf_topn {
	struct rf_topn_spec spec;
	struct rf_topn_row *row;  /* a heap, the one to go first at the top, until rf_topn_end() */
	size_t n, cap;
};

void rf_topn_begin(struct rf_topn *p, const struct rf_topn_spec *spec);
/* Whether rows must be held back at all; if not they can be shown as they come. */
bool rf_topn_holds(const struct rf_topn *p);
/* Whether a row with this key has a chance: if not, its text need not be made. */
bool rf_topn_wants(const struct rf_topn *p, const struct rf_topn_key *key);
/* Takes the row and its text (also when it fails: RF_ENOMEM). */
enum rf_code rf_topn_take(struct rf_topn *p, const struct rf_topn_row *row, struct rf_err *e);
/* All rows have come: row[0..n-1] are those to show, in order. */
void rf_topn_end(struct rf_topn *p);
void rf_topn_free(struct rf_topn *p);

#endif
