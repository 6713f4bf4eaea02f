/* table.h -- the contents of a stream or a checkpoint as rows with named columns, which --tsv and --csv
 * print and --where and --sort refer to.
 *
 * A row is a record, a position, a rollout, a token of the text, a sample of a generation, a choice, a
 * tensor, a step of a run, or a rank that trains a run.  A row also has the columns of the rows that contain
 * it: a rollout has the columns of its position and of its record.  A column that a row lacks is printed as
 * NaN, in CSV as an empty cell.  It matches no condition and is sorted last.
 *
 * A rollout has a column for each part of its reward.  Only the records say which parts exist.  So a table
 * is opened before the first record, and learns the parts as records come. */
#ifndef RF_TABLE_H
#define RF_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/print.h"
#include "ckpt/tensors.h"
#include "ranks/ranks.h"
#include "stream/record.h"
#include "tokenizer/tokenizer.h"

enum rf_row_kind {
	/* the rollouts of a record, else its positions, else the record; the tensors of a checkpoint */
	RF_ROWS_AUTO,
	RF_ROWS_RECORD,
	RF_ROWS_POSITION,
	RF_ROWS_ROLLOUT,
	RF_ROWS_TOKEN,
	RF_ROWS_SAMPLE,
	RF_ROWS_CHOICE,
	RF_ROWS_TENSOR,
	RF_ROWS_STEP,
	RF_ROWS_RANK,
};
#define RF_ROWS_WORDS "auto|record|position|rollout|token|sample|choice|tensor|step|rank"

/* ---- rows ---------------------------------------------------------------------------------- */

struct rf_range {
	double mean, min, max;
}; /* NaN without numbers */
/* Returns the range of n numbers; x NULL: of none. */
struct rf_range rf_range_of(const float *x, size_t n);

/* Statistics of a tensor's elements, computed in double and in their order. */
struct rf_stats {
	double min, max, mean, std, norm;
	uint64_t nonfinite;
};

struct rf_saved_step {
	int64_t step, commits;
	char weights[17];
	uint64_t bytes;
};

struct rf_row {
	const char *file; /* name of the file */
	uint64_t record;  /* number of the record in the stream, from 1, as in messages */
	const struct rf_record *rec;
	struct rf_range entropy, nll, correct, reward; /* ranges over the whole record */
	int i, r;                                      /* numbers of the position and the rollout; -1: none */
	int t;      /* number of the token; for a position s - 1; -1: none */
	int sample; /* number of the sample of a generation; -1: none */
	int choice; /* number of the choice; -1: none */
	const struct rf_tensor *tensor;
	struct rf_stats stats;
	const struct rf_saved_step *step;
	const struct rf_rank_sign *rank;
};

/* Begins the rows of a record: sets the members that its rows share, and i, r, t, sample and choice to -1. */
void rf_row_of(struct rf_row *row, const char *file, uint64_t record, const struct rf_record *rec);
/* rf_row_count() returns how many rows of this kind the record has.  rf_row_at() makes `row` the index-th of
 * them. */
uint64_t rf_row_count(const struct rf_record *rec, enum rf_row_kind rows);
void rf_row_at(struct rf_row *row, enum rf_row_kind rows, uint64_t index);

/* ---- tokens as text ------------------------------------------------------------------------ */

/* How tokens are shown. */
struct rf_token_text {
	const struct rf_tokenizer *tokenizer; /* NULL: tokens are shown as numbers */
	int context;                          /* number of tokens of a prefix that are shown */
	bool *numbers;                        /* set when tokens were shown as numbers; may be NULL */
};

enum { RF_AHEAD = 8 }; /* number of tokens shown after a position without rollouts */

/* Appends the text of n tokens, safe to show on a terminal.  quotes: whether to put it in quotes if there is
 * a tokenizer. */
void rf_token_text(struct rf_buf *p, const struct rf_token_text *w, const int32_t *ids, int n, bool quotes);
/* rf_token_text_prefix() appends the last w->context tokens of the prefix x[0..s-1].  rf_token_text_truth()
 * appends the tokens of the record from s on, as many as a rollout has, or RF_AHEAD without rollouts. */
void rf_token_text_prefix(struct rf_buf *p, const struct rf_token_text *w, const struct rf_record *rec,
                          int s);
void rf_token_text_truth(struct rf_buf *p, const struct rf_token_text *w, const struct rf_record *rec, int s);
/* Appends the text of a sample, or its tokens if the generation has no text. */
void rf_token_text_sample(struct rf_buf *p, const struct rf_token_text *w, const struct rf_generation *g,
                          int sample);
/* Appends the tokens of a choice without its context. */
void rf_token_text_choice(struct rf_buf *p, const struct rf_token_text *w, const struct rf_choice *c,
                          int choice);

/* ---- columns ------------------------------------------------------------------------------- */

struct rf_table_spec {
	enum rf_row_kind rows; /* AUTO means ROLLOUT here */
	const char *columns;   /* "a,b,c"; NULL: the default columns of such rows */
	/* conditions that must all hold, "reward<0.1,text~\"word\"", also joined by "and"; NULL: none */
	const char *where;
	const char *sort; /* a column; "-" before it: descending; NULL: rows keep their order */
	bool files;       /* whether the first column is the file's name */
	bool stats;       /* whether tensors have the columns min, max, mean, std, norm, nonfinite */
	bool csv;         /* whether lines are CSV (RFC 4180) instead of TSV */
};

enum { RF_MAX_COLUMNS = 160, RF_MAX_TERMS = 16, RF_MAX_PARTS = 64 };

/* A part of the reward that has a column. */
struct rf_table_part {
	char name[RF_PART_NAME + 1];
	char head[RF_PART_NAME + sizeof "reward."]; /* name of the column */
	/* the option that names the part without "reward.", perhaps by mistake; NULL: surely a part */
	const char *option;
};

struct rf_table {
	enum rf_row_kind rows;
	int column[RF_MAX_COLUMNS], columns; /* indices: first the listed columns, then the parts */
	struct rf_table_part part[RF_MAX_PARTS];
	int parts;
	bool unasked;    /* whether it shows the default columns */
	bool began, met; /* whether rf_table_meet() has seen a record, and a record with rewards */
	/* the conditions; text: n bytes, for a column of text; there: whether some row had the column */
	struct rf_table_term {
		int column, op;
		double number;
		uint64_t whole; /* the number, if it is written with digits only */
		bool is_whole;
		char *text;
		size_t n;
		bool there;
	} term[RF_MAX_TERMS];
	int terms;
	bool tokens;        /* whether a column or a condition needs the text of tokens */
	struct rf_buf cell; /* text that a condition is compared with */
	int sort;           /* column to sort by; -1: none */
	bool descending;
	bool stats; /* whether a column needs the statistics of tensors */
	bool csv;
};

/* Opens a table.  A name that may be a part of the reward is accepted until a record shows that it is not.
 * Errors: RF_EUSAGE: a column is unknown (the message lists the known ones), or a condition cannot be
 * read. */
enum rf_code rf_table_open(struct rf_table *t, const struct rf_table_spec *spec, struct rf_err *e);
/* Frees the memory that rf_table_open() allocated, even if it failed. */
void rf_table_close(struct rf_table *t);
/* Learns the parts of a record.  To be called for each record that has rows, before its rows.  If the table
 * shows the default columns, the parts of the first such record become columns.  Errors: RF_EUSAGE: the
 * first record with rewards lacks a part that an option names without "reward.". */
enum rf_code rf_table_meet(struct rf_table *t, const struct rf_record *rec, struct rf_err *e);
/* Checks the names after the last record.  Errors: RF_EUSAGE: no record had rewards, but an option names a
 * column without "reward." that could only be a part. */
enum rf_code rf_table_end(const struct rf_table *t, struct rf_err *e);
/* rf_table_names() appends the header line, rf_table_line() the line of a row.  Both have the same number of
 * columns, separated by tabs, and end with a newline.  In CSV the separator is a comma, a text is in quotes,
 * a quote in a text is doubled, and a value that the row lacks is an empty cell without quotes. */
void rf_table_names(const struct rf_table *t, struct rf_buf *p);
void rf_table_line(const struct rf_table *t, const struct rf_token_text *w, const struct rf_row *row,
                   struct rf_buf *p);
/* Returns whether a row meets all conditions.  If memory ran out, sets t->cell.failed and returns true. */
bool rf_table_match(struct rf_table *t, const struct rf_token_text *w, const struct rf_row *row);
/* Returns the name of a column of --where that no row given to rf_table_match() had; NULL: every column was
 * in some row. */
const char *rf_table_missing(const struct rf_table *t);
/* Appends the shape of a tensor: "40,16", or "scalar" without dimensions. */
void rf_table_shape(const struct rf_tensor *t, struct rf_buf *p);
/* Returns the number by which the row is sorted: smaller numbers first, NaN last. */
double rf_table_key(const struct rf_table *t, const struct rf_row *row);

#endif
