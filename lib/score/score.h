/* score.h -- scores the answers of rf-generate in a stream, or predictions in JSON lines, and reports means:
 * rf-score(1). */
#ifndef RF_SCORE_H
#define RF_SCORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/meter.h"
#include "base/opt.h"
#include "io/skip.h"
#include "score/metric.h"
#include "score/tally.h"
#include "stream/stream.h"

enum rf_score_format { RF_SCORE_BY_NAME, RF_SCORE_STREAM, RF_SCORE_JSONL };
#define RF_SCORE_WORDS "name|stream|jsonl"

struct rf_score_settings {
	struct rf_scoring how;
	enum rf_score_format format; /* BY_NAME: *.jsonl and *.jsonl.zst are JSON lines */
	const char *task;            /* task of questions that name none; NULL: a question must name one */
	const char *by;   /* keys, separated by commas; each combination of their values is a group */
	bool check;       /* do not read answers, only check that each question can be scored */
	bool partial;     /* count questions without an answer, instead of failing */
	bool each;        /* keep the values that rf_scorer_each() prints for each question */
	const char *show; /* keys, separated by commas, that rf_scorer_each() prints; NULL: none */
	uint64_t max_record;
	struct rf_skip *skip;   /* bad lines of JSON lines; NULL: none may be bad */
	struct rf_meter *meter; /* counts the questions read; may be NULL */
};
#define RF_SCORE_DEFAULTS \
	{ \
		.by = "task", .max_record = RF_MAX_RECORD \
	}

void rf_score_options(struct rf_score_settings *s, struct rf_opts *opts);

struct rf_scorer;

/* Opens a scorer.  s must stay valid until rf_scorer_close().  Errors: RF_EUSAGE: s->by or s->show has an
 * empty key or too many keys, or s->show is given without s->each; RF_ENOMEM. */
enum rf_code rf_scorer_open(struct rf_scorer **to, const struct rf_score_settings *s, struct rf_err *e);
void rf_scorer_close(struct rf_scorer *c); /* c may be NULL */

/* Returns whether a path is read as JSON lines.  Standard input (NULL or "-") is so only if the format is
 * JSONL. */
bool rf_score_is_jsonl(const struct rf_score_settings *s, const char *path);

/* Scores all records of an open stream, and writes them to `out` unless that is NULL.  The score of a
 * question is the mean of its samples' scores; each sample's score becomes its generation.score.  Errors:
 * RF_EDATA: a record has no generation, text, reference, task or key of --by; those of rf_next() and
 * rf_put(). */
enum rf_code rf_scorer_stream(struct rf_scorer *c, struct rf_in *in, struct rf_out *out, struct rf_err *e);
/* Scores a file of JSON lines: the prediction in "pred", its references in "answers", "outputs" or "answer",
 * classes in "all_classes", the task in "task", "dataset" or "data_source", as the benchmarks' programs write
 * them.  A question's id is its number in its group.  Errors: RF_EDATA with file and line; those of
 * rf_lines_open(). */
enum rf_code rf_scorer_lines(struct rf_scorer *c, const char *path, struct rf_err *e);

/* Appends, with s->each, a line of JSON for each question: its group, id and score, 0 to 1; with the metric
 * ALL also the references that were found, as means over samples; the values of s->show. */
enum rf_code rf_scorer_each(const struct rf_scorer *c, struct rf_buf *to, struct rf_err *e);
/* Appends, with s->check, a line of JSON for each group, with the number of questions. */
enum rf_code rf_scorer_counts(const struct rf_scorer *c, struct rf_buf *to, struct rf_err *e);
/* Appends a line of JSON for each group: n, score, its standard error and 95 % interval, in percent.  After
 * each set of two or more groups that differ only in the first key comes a line for their mean.  against:
 * other answers to the same questions, whose paired differences are added; NULL: none.  Errors: RF_EDATA:
 * `against` has other questions, or no question of a group has an answer; RF_ENOMEM. */
enum rf_code rf_scorer_report(struct rf_scorer *c, struct rf_scorer *against, struct rf_buf *to,
                              struct rf_err *e);

#endif
