/* cat.h -- joins, cuts, shuffles and repeats streams: rf-cat(1).
 *
 * The order is this: the inputs are joined; a range of their records is taken; each record is cut to its
 * prompt or response, or its response is split off or joined; the records are shuffled; the result is
 * repeated; new ids are assigned; of each mini-batch a rank's share remains. */
#ifndef RF_CAT_H
#define RF_CAT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/meter.h"
#include "stream/stream.h"

enum rf_record_part { RF_PART_ALL, RF_PART_PROMPT, RF_PART_RESPONSE };
#define RF_PART_WORDS "all|prompt|response"

/* SPLIT: the tokens behind the prompt become the key `response`, the prompt alone stays in tokens, and there
 * is no prompt_len; a record that ends with its prompt gets no response.  JOIN is the exact inverse for
 * records without values that a model computed, which both remove. */
enum rf_response { RF_RESPONSE_STAYS, RF_RESPONSE_SPLIT, RF_RESPONSE_JOIN };

struct rf_cat_options {
	const char *range;    /* "i:j", "i:", ":j": records i <= n < j, counted from 0; NULL: all */
	enum rf_record_part part; /* what is kept of each record */
	bool split, join;     /* where its response is put: */
	enum rf_response response; /* as split and join say, set by rf_cat_settle() */
	bool shuffle;
	uint64_t seed;        /* of the shuffle */
	int epoch;            /* number, from 0, of the seed's shuffled order; a repetition takes the next */
	int repeat;           /* how often the records are written; above 1 implies renumber */
	bool renumber;        /* assign ids 0, 1, 2, ... in the order of the output */
	const char *share;    /* "r/R", "auto": whose share is written; NULL: all */
	struct rf_shard shard; /* the share that is written; ranks 0 or 1: all */
	uint64_t max_record;  /* bytes of a record's message at most */
	struct rf_meter *meter; /* counts the records read; may be NULL */
};
#define RF_CAT_DEFAULTS { .seed = 1, .repeat = 1, .max_record = RF_MAX_RECORD, \
                          .shard = { .mini_batch = 32 } }

/* shares: those that only --shard gives a meaning */
void rf_cat_options(struct rf_cat_options *o, struct rf_opts *opts, struct rf_opts *shares);
/* Sets what follows from the options.  Errors: RF_EUSAGE: they contradict each other, or name no share. */
enum rf_code rf_cat_settle(struct rf_cat_options *o, struct rf_err *e);

struct rf_cat;

/* Opens the first of n inputs (n 0: standard input) and reads its head.  paths must stay valid until
 * rf_cat_close().  Errors: RF_EUSAGE: o->range is malformed; those of rf_in_open(). */
enum rf_code rf_cat_open(struct rf_cat **c, const struct rf_cat_options *o, char *const *paths, int n,
                         struct rf_err *e);
/* Returns the head for the output: a copy of the first input's.  The caller may change it; rf_cat_close()
 * frees it.  It names no model if o->part or o->response removes what a model computed. */
struct rf_head *rf_cat_head(struct rf_cat *c);
/* Whether the output is more than a copy of one input, so that the stage must be recorded in the history. */
bool rf_cat_changes(const struct rf_cat *c);
/* Reads the next record of the output, valid until the next call.  Returns RF_EOF when every input has been
 * read to its end; inputs that lie wholly behind the range are not opened.  Errors: those of rf_next();
 * RF_EDATA: two heads disagree, an id occurs twice and ids are not assigned anew, or the part to be kept of a
 * record is empty or not known, or a response cannot be split off or joined. */
enum rf_code rf_cat_next(struct rf_cat *c, struct rf_record **rec, struct rf_err *e);
void rf_cat_close(struct rf_cat *c);  /* c may be NULL */

/* Reads the output of rf-dump --json from path (NULL or "-": standard input) and writes the stream that it
 * shows to `to`, with a stage of rf-cat in its history whose note is "changed outside".  It uses three
 * options of o: max_record, meter and renumber.  With renumber the messages are numbered and counted again,
 * so records may be missing, added or reordered; their ids stay. */
enum rf_code rf_cat_json(const char *path, const char *to, const struct rf_cat_options *o, struct rf_err *e);

#endif
