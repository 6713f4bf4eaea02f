/* cat.h -- joins, cuts, shuffles and repeats streams: rf-cat(1).
 *
 * The steps have this order:
 *  1. The inputs are joined.
 *  2. A range of their records is taken.
 *  3. Each record is cut to its prompt or response, or its response is split off or joined.
 *  4. The records are shuffled.
 *  5. The result is repeated.
 *  6. New ids are assigned.
 *  7. The share of one rank is taken from each mini-batch. */
#ifndef RF_CAT_H
#define RF_CAT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/meter.h"
#include "stream/stream.h"

enum rf_record_part { RF_PART_ALL, RF_PART_PROMPT, RF_PART_RESPONSE };
#define RF_PART_WORDS "all|prompt|response"

/* SPLIT moves the tokens after the prompt to the key `response` and removes prompt_len, so the tokens are
 * only the prompt.  A record that ends with its prompt gets no response.  JOIN is the inverse.  Both remove
 * the values that a model computed. */
enum rf_response { RF_RESPONSE_STAYS, RF_RESPONSE_SPLIT, RF_RESPONSE_JOIN };

struct rf_cat_options {
	const char *range;         /* "i:j", "i:", ":j": records i <= n < j, counted from 0; NULL: all */
	enum rf_record_part part;  /* part of each record to keep */
	bool split, join;          /* options --split-response and --join-response */
	enum rf_response response; /* the meaning of split and join, set by rf_cat_settle() */
	bool shuffle;
	uint64_t seed;          /* seed of the shuffle */
	int epoch;              /* number, from 0, of the seed's order; a repetition has the next number */
	int repeat;             /* number of times to write the records; above 1 implies renumber */
	bool renumber;          /* whether to assign ids 0, 1, 2, ... in the order of the output */
	const char *share;      /* "r/R" or "auto": the rank whose share is written; NULL: all records */
	struct rf_shard shard;  /* the share that is written; ranks 0 or 1: all records */
	uint64_t max_record;    /* largest number of bytes in a record's message */
	struct rf_meter *meter; /* counter of the records read; may be NULL */
};
#define RF_CAT_DEFAULTS \
	{ \
		.seed = 1, .repeat = 1, .max_record = RF_MAX_RECORD, .shard = {.mini_batch = 32 } \
	}

/* Adds the options of rf-cat to opts, and the options that have a meaning only with --shard to shares. */
void rf_cat_options(struct rf_cat_options *o, struct rf_opts *opts, struct rf_opts *shares);
/* Sets the members that follow from the options.  Errors: RF_EUSAGE: the options contradict each other, or
 * --shard does not name a share. */
enum rf_code rf_cat_settle(struct rf_cat_options *o, struct rf_err *e);

struct rf_cat;

/* Opens the first of n inputs (n 0: standard input) and reads its head.  paths must stay valid until
 * rf_cat_close().  Errors: RF_EUSAGE: o->range is malformed; those of rf_in_open(). */
enum rf_code rf_cat_open(struct rf_cat **c, const struct rf_cat_options *o, char *const *paths, int n,
                         struct rf_err *e);
/* Returns the head for the output: a copy of the head of the first input.  The caller may change it;
 * rf_cat_close() frees it.  It names no model if o->part or o->response removes the values that a model
 * computed. */
struct rf_head *rf_cat_head(struct rf_cat *c);
/* Returns whether the output is more than a copy of one input, so the history must record the stage. */
bool rf_cat_changes(const struct rf_cat *c);
/* Reads the next record of the output, valid until the next call.  Returns RF_EOF when every input has been
 * read to its end.  Inputs whose records all come after the range are not opened.  Errors: those of
 * rf_next(); RF_EDATA: two heads disagree; an id occurs twice and no new ids are assigned; the part of a
 * record that should be kept is empty or not known; a response cannot be split off or joined. */
enum rf_code rf_cat_next(struct rf_cat *c, struct rf_record **rec, struct rf_err *e);
void rf_cat_close(struct rf_cat *c); /* c may be NULL */

/* Reads the output of rf-dump --json from path (NULL or "-": standard input) and writes its stream to `to`.
 * A stage of rf-cat with the note "changed outside" is added to the history.  Only the options max_record,
 * meter and renumber have an effect.  With renumber the messages are numbered and counted again, so records
 * may be missing, added or reordered; their ids stay. */
enum rf_code rf_cat_json(const char *path, const char *to, const struct rf_cat_options *o, struct rf_err *e);

#endif
