/* cat.h -- streams joined, cut, shuffled, repeated: rf-cat(1).
 *
 * In this order: the inputs are joined; a range of their records is taken; each is cut to its prompt or
 * response; they are shuffled; all of that is repeated; ids are given anew. */
#ifndef RF_CAT_H
#define RF_CAT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/meter.h"
#include "stream/stream.h"

enum rf_record_part { RF_PART_ALL, RF_PART_PROMPT, RF_PART_RESPONSE };
#define RF_PART_WORDS "all|prompt|response"

struct rf_cat_options {
	const char *range;    /* "i:j", "i:", ":j": records i <= n < j, counted from 0; NULL: all */
	enum rf_record_part part;    /* of each record, that is kept */
	bool shuffle;
	uint64_t seed;
	int epoch;            /* which of the seed's orders, from 0; repetitions take the next ones */
	int repeat;           /* times; above 1 it renumbers too */
	bool renumber;        /* ids 0, 1, 2, ... in the order of the output */
	uint64_t max_record;
	struct rf_meter *meter; /* counts what is read; may be NULL */
};
#define RF_CAT_DEFAULTS { .seed = 1, .repeat = 1, .max_record = RF_MAX_RECORD }

struct rf_cat;

/* Opens the first of n inputs (n 0: standard input); the paths stay the caller's until rf_cat_close(). */
enum rf_code rf_cat_open(struct rf_cat **c, const struct rf_cat_options *o, char *const *paths, int n,
                         struct rf_err *e);
/* The head of the first input, without a model where the records lose what a model computed. */
struct rf_head *rf_cat_head(struct rf_cat *c);
/* Whether the output is more than a copy of one input, so that it belongs into the history. */
bool rf_cat_changes(const struct rf_cat *c);
/* The next record of the output; RF_EOF: every input was read to its end, but for those behind a range, which
 * are not opened.  Refuses inputs whose heads do not agree and ids that occur twice. */
enum rf_code rf_cat_next(struct rf_cat *c, struct rf_record **rec, struct rf_err *e);
void rf_cat_close(struct rf_cat *c);  /* NULL is fine */

/* Reads what rf-dump --json printed (path NULL or "-": standard input) and writes the stream that it shows.
 * Of o: max_record, meter, and renumber, with which messages are counted anew: records may be missing, added
 * or in another order; their ids stay. */
enum rf_code rf_cat_json(const char *path, const char *to, const struct rf_cat_options *o, struct rf_err *e);

#endif
