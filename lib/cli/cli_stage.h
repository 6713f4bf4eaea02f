/* cli_stage.h -- what programs that read a stream share: -o, --max-record, --progress, the loop over records.
 * Only tools/ includes this.  A failure in any of these functions ends the program. */
#ifndef RF_CLI_STAGE_H
#define RF_CLI_STAGE_H

#include "cli/cli.h"
#include "cli/progress.h"
#include "stream/stream.h"

typedef enum rf_code rf_stage_fn(void *arg, struct rf_record *r, struct rf_err *e);

struct rf_stage {
	/* settings */
	const char *output;          /* -o; NULL: standard output */
	bool follow;                 /* the input is a long stream, and so is the output */
	/* of a trainer, whose output is no part of the pipeline: looks at the number of a batch as soon as it
	   is known; NULL: it is a filter */
	enum rf_code (*on_batch)(void *arg, int64_t number, struct rf_err *e);
	void *batch_arg;
	int patience;                /* --follow-timeout: seconds; 0: for ever */
	const struct rf_opt *follows; /* the table of these two; NULL: there is none */
	uint64_t max_record;
	struct rf_progress progress;
	/* open */
	struct rf_head head;         /* the output's: the input's head, with this program in its history */
	struct rf_in *in;
	struct rf_out *out;
	/* records read; those that have what the stage works on, which its function counts */
	uint64_t records, fit;
	bool told;                   /* an earlier stage has reported already why no record has it */
	/* if not NULL, called instead of writing a record: rf-reward holds records back for its command */
	rf_stage_fn *pass_on;
};
/* How long its input may keep it waiting: a second more than the writer of the input has, which knows better
 * what is missing. */
double rf_stage_patience(const struct rf_stage *s);
#define RF_STAGE_DEFAULTS { .max_record = RF_MAX_RECORD, .patience = 3600 }

/* The options -o, --max-record and --progress.  output: the help of -o; NULL: that of a stream. */
enum { RF_STAGE_OPTS = 3 + RF_PROGRESS_OPTS - 1 };
void rf_stage_options(struct rf_stage *s, const char *output, struct rf_opt opts[RF_STAGE_OPTS]);

/* --follow --follow-timeout; and the second alone, for a program that knows by another option that it
 * follows */
enum { RF_STAGE_FOLLOW_OPTS = 3, RF_STAGE_PATIENCE_OPTS = 2 };
void rf_stage_patience_options(struct rf_stage *s, struct rf_opt opts[RF_STAGE_PATIENCE_OPTS]);
void rf_stage_follow_options(struct rf_stage *s, struct rf_opt opts[RF_STAGE_FOLLOW_OPTS]);

/* The descriptor that a program which follows writes to, so that it does not wait when the programs behind it
 * have ended; -1: none.  rf_stage_fail() ends the program by e, or where nobody reads there as a write would
 * end it. */
int rf_stage_watched(const struct rf_stage *s);
noreturn void rf_stage_fail(const struct rf_stage *s, const struct rf_err *e);

/* Opens the input (path NULL: standard input), makes the output's head and begins to show progress. */
void rf_stage_open(struct rf_stage *s, const struct rf_cli *cli, char *path);
/* Makes the output's head again: an option has its final value only now. */
void rf_stage_head(struct rf_stage *s, const struct rf_cli *cli);
/* Opens the output; s->head must be final by then.  Of a long stream, which is open already: writes the head
 * of a batch. */
void rf_stage_create(struct rf_stage *s);

/* Calls f for every record until the input ends; if there is an output and no pass_on, it then writes the
 * record.  A failure of f ends the program with a message that says where the record is.  If nothing is
 * written here, f or pass_on counts what is done (rf_meter_done). */
void rf_stage_each(struct rf_stage *s, rf_stage_fn *f, void *arg);

/* Like rf_stage_each(), but records that are read one after the other are worked on at once, and written when
 * that is done.  check() is called for each as it is read; room() says how many as the n that it is given, of
 * which the last is new, may be worked on at once, from 1 to `most`: at so many, run() is called for all.  A
 * failure of run() says in *bad which of them it is about. */
struct rf_batches {
	int most;
	rf_stage_fn *check;
	int (*room)(void *arg, const struct rf_record *r, int n);
	enum rf_code (*run)(void *arg, struct rf_record *r, int n, int *bad, struct rf_err *e);
};
void rf_stage_batches(struct rf_stage *s, const struct rf_batches *b, void *arg);

/* Of a long stream, after all records of a batch: ends the batch in the output, and goes on to the next one
 * of the input, for which s->head is made anew.  Returns false if there is none; and of a stream that is not
 * long, with nothing done. */
bool rf_stage_again(struct rf_stage *s, const struct rf_cli *cli);

/* To be called at the end.  If none of the records had what the stage works on, says "none of 16 records has
 * positions (rf-select writes them)", followed by `so`, the consequence; but nothing if s->told is set. */
void rf_stage_fits(const struct rf_stage *s, const char *what, const char *writer, const char *so);

/* Writes the output's end record, or closing mark, and closes output and input. */
void rf_stage_close(struct rf_stage *s);

#endif
