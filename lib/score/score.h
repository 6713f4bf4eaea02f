/* score.h -- scores answers, those of rf-generate in a stream or predictions in JSON lines, and says what
 * they come to: rf-score(1). */
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
	enum rf_score_format format; /* BY_NAME: *.jsonl and *.jsonl.zst are JSON lines, all else streams */
	const char *task;         /* of questions that name none; NULL: that is an error */
	const char *by;           /* keys, separated by commas: each of their values is a group of its own */
	bool check;               /* answers are not read: only whether each question can be scored */
	bool partial;             /* questions without an answer are counted, and are no error */
	bool each;                /* keeps what rf_scorer_each() prints of a question besides its score */
	const char *show;         /* keys, separated by commas, whose values that has; NULL: none */
	uint64_t max_record;
	struct rf_skip *skip;     /* bad lines of JSON lines; NULL: none may be bad */
	struct rf_meter *meter;   /* counts the questions read; may be NULL */
};
#define RF_SCORE_DEFAULTS { .by = "task", .max_record = RF_MAX_RECORD }

void rf_score_options(struct rf_score_settings *s, struct rf_opts *opts);

struct rf_scorer;

/* s must stay valid until rf_scorer_close().  Errors: RF_EUSAGE: s->by or s->show has an empty
 * or too many keys, or there is s->show without s->each; RF_ENOMEM. */
enum rf_code rf_scorer_open(struct rf_scorer **to, const struct rf_score_settings *s, struct rf_err *e);
void rf_scorer_close(struct rf_scorer *c);   /* c may be NULL */

/* Whether a path is read as JSON lines; NULL or "-", standard input, only if the format says so. */
bool rf_score_is_jsonl(const struct rf_score_settings *s, const char *path);

/* Scores all records of an open stream, and writes them to `out` unless that is NULL.  A question's score is
 * the mean of its samples' scores, and each of these becomes the sample's generation.score.  Errors:
 * RF_EDATA: there is no generation, text, reference, task or key of --by; those of rf_next() and
 * rf_put(). */
enum rf_code rf_scorer_stream(struct rf_scorer *c, struct rf_in *in, struct rf_out *out, struct rf_err *e);
/* Scores a file of JSON lines: the prediction in "pred", its references in "answers", "outputs" or "answer",
 * classes in "all_classes", the task in "task", "dataset" or "data_source", as the benchmarks' programs write
 * them.  A question's id is its number in its group.  Errors: RF_EDATA with file and line; those of
 * rf_lines_open(). */
enum rf_code rf_scorer_lines(struct rf_scorer *c, const char *path, struct rf_err *e);

/* Appends a line of JSON for each question, with s->each: its group, id and score, 0 to 1; by the metric ALL
 * also which references were found, the mean over samples; the values of s->show. */
enum rf_code rf_scorer_each(const struct rf_scorer *c, struct rf_buf *to, struct rf_err *e);
/* Appends a line of JSON for each group, with s->check: how many questions there are. */
enum rf_code rf_scorer_counts(const struct rf_scorer *c, struct rf_buf *to, struct rf_err *e);
/* Appends a line of JSON for each group, and behind each set of two or more that have all but the first key
 * in common one for their mean: n, score, its standard error and 95 % interval, in percent.  against: others'
 * answers to the same questions, NULL: there are none; then also the difference, paired.  Errors: RF_EDATA:
 * `against` has other ones, or none of a
 * group's questions has an answer; RF_ENOMEM. */
enum rf_code rf_scorer_report(struct rf_scorer *c, struct rf_scorer *against, struct rf_buf *to,
                              struct rf_err *e);

#endif
