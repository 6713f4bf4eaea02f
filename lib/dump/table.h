/* table.h -- what a stream or a checkpoint holds, as rows with named columns: what --tsv prints, what --where
 * and --sort speak of.
 *
 * A rollout has a column for each part of its reward, and which parts there are only the records say: a table
 * is opened before the first of them, and meets them as they come.
 *
 * A row is a record, a position of one, a rollout at one, a token of the text, a tensor, or a step of a run.
 * A row has the columns of what it belongs to as well (a rollout those of its position and record).  What a
 * row lacks is NaN: it is printed so, matches no condition and is sorted last. */
#ifndef RF_TABLE_H
#define RF_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/page.h"
#include "ckpt/tensors.h"
#include "stream/record.h"
#include "text/tokenizer.h"

enum rf_row_kind {
	/* of a record its rollouts, else its positions, else itself; of a checkpoint tensors */
	RF_ROWS_AUTO,
	RF_ROWS_RECORD, RF_ROWS_POSITION, RF_ROWS_ROLLOUT, RF_ROWS_TOKEN, RF_ROWS_TENSOR, RF_ROWS_STEP,
};
#define RF_ROWS_WORDS "auto|record|position|rollout|token|tensor|step"

/* ---- rows ---------------------------------------------------------------------------------- */

struct rf_range { double mean, min, max; };   /* NaN: of nothing */

/* What is computed of a tensor's elements, in double and in their order. */
struct rf_stats { double min, max, mean, std, norm; uint64_t nonfinite; };

struct rf_step { int64_t step, commits; char weights[17]; uint64_t bytes; };

struct rf_row {
	const char *file;         /* where it comes from */
	uint64_t record;          /* its number in the stream, from 1, as in messages */
	const struct rf_record *rec;
	struct rf_range entropy, nll, correct, reward; /* of the record */
	int i, r;                 /* position, rollout; -1: none */
	int t;                    /* the token's row; of a position s - 1, where it was chosen; -1: none */
	const struct rf_tensor *tensor;
	struct rf_stats stats;
	const struct rf_step *step;
};

/* Begins with a record: everything but i, r and t. */
void rf_row_of(struct rf_row *row, const char *file, uint64_t record, const struct rf_record *rec);
/* How many rows the record has, and the index-th of them. */
uint64_t rf_row_count(const struct rf_record *rec, enum rf_row_kind rows);
void rf_row_at(struct rf_row *row, enum rf_row_kind rows, uint64_t index);

/* ---- tokens as text ------------------------------------------------------------------------ */

struct rf_words {
	const struct rf_tokenizer *tokenizer; /* NULL: tokens are shown as numbers */
	int context;              /* tokens of a prefix that are shown */
};

enum { RF_AHEAD = 8 };        /* tokens shown of the text behind a position that has no rollouts */

/* The text of n tokens, safe to show; `quotes`: in quotes, if there is a tokenizer. */
void rf_words(struct rf_buf *p, const struct rf_words *w, const int32_t *ids, int n, bool quotes);
/* The last tokens of the prefix x[0..s-1]; the text from s on that stands against a rollout's k tokens. */
void rf_words_prefix(struct rf_buf *p, const struct rf_words *w, const struct rf_record *rec, int s);
void rf_words_truth(struct rf_buf *p, const struct rf_words *w, const struct rf_record *rec, int s);

/* ---- columns ------------------------------------------------------------------------------- */

struct rf_table_spec {
	enum rf_row_kind rows;        /* AUTO is as ROLLOUT here */
	const char *columns;      /* "a,b,c"; NULL: those that belong to such rows */
	/* "reward<0.1,k>=5": all must hold; also joined with "and"; NULL: every row */
	const char *where;
	const char *sort;         /* a column, "-" before it: descending; NULL: as they come */
	bool files;               /* more than one file: its name is the first column */
	bool stats;               /* tensors: with min, max, mean, std, norm, nonfinite */
};

enum { RF_MAX_COLUMNS = 128, RF_MAX_TERMS = 16, RF_MAX_PARTS = 64 };

/* A part of the reward that is a column. */
struct rf_table_part {
	char name[RF_PART_NAME + 1];
	char head[RF_PART_NAME + sizeof "reward."]; /* its column's name */
	const char *option;       /* that named it alone, which may be a mistake; NULL: it is one for sure */
};

struct rf_table {
	enum rf_row_kind rows;
	int column[RF_MAX_COLUMNS], columns; /* of the list of columns, or behind it a part */
	struct rf_table_part part[RF_MAX_PARTS];
	int parts;
	bool unasked;             /* its columns are those that are shown unasked */
	bool began, met;          /* a row's record was seen, and one with rewards */
	struct { int column, op; double number; bool there; } term[RF_MAX_TERMS]; /* there: some row had it */
	int terms;
	int sort;                 /* a column; -1: none */
	bool descending;
	bool stats;               /* a column asks for a tensor's elements */
};

/* RF_EUSAGE: an unknown column (the known ones are named), a comparison that cannot be read.  A name that may
 * be a part's is no mistake yet. */
enum rf_code rf_table_open(struct rf_table *t, const struct rf_table_spec *spec, struct rf_err *e);
/* For each record that has rows, before these.  The first one's parts become columns that are shown unasked;
 * of the first one that has rewards every name must be a part that was given without "reward." in front. */
enum rf_code rf_table_meet(struct rf_table *t, const struct rf_record *rec, struct rf_err *e);
/* There are no more records: RF_EUSAGE where no part was there to be what such a name says. */
enum rf_code rf_table_end(const struct rf_table *t, struct rf_err *e);
/* The first line, and a row's: tabs between, a newline at the end, as many columns in each. */
void rf_table_names(const struct rf_table *t, struct rf_buf *p);
void rf_table_line(const struct rf_table *t, const struct rf_words *w, const struct rf_row *row,
                   struct rf_buf *p);
bool rf_table_match(struct rf_table *t, const struct rf_row *row);
/* A column of --where that no row had which rf_table_match() has seen; NULL: none. */
const char *rf_table_missing(const struct rf_table *t);
/* "40,16"; "scalar" of no dimensions. */
void rf_table_shape(const struct rf_tensor *t, struct rf_buf *p);
/* What the row is sorted by: smaller first, NaN last. */
double rf_table_key(const struct rf_table *t, const struct rf_row *row);

#endif
