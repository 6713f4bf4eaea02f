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
	uint64_t max_record;
	struct rf_progress progress;
	/* open */
	struct rf_head head;         /* the output's: the input's head, with this program in its history */
	struct rf_in *in;
	struct rf_out *out;
	/* records read; those that have what the stage works on, which its function counts */
	uint64_t records, fit;
	/* if not NULL, called instead of writing a record: rf-reward holds records back for its command */
	rf_stage_fn *pass_on;
};
#define RF_STAGE_DEFAULTS { .max_record = RF_MAX_RECORD }

/* The options -o, --max-record and --progress.  output: the help of -o; NULL: that of a stream. */
void rf_stage_options(struct rf_stage *s, const char *output, struct rf_opts *opts);

/* Opens the input (path NULL: standard input), makes the output's head and begins to show progress. */
void rf_stage_open(struct rf_stage *s, const struct rf_cli *cli, char *path);
/* Opens the output; s->head must be final by then. */
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

/* Records that are read before any is worked on. */
struct rf_read {
	struct rf_record **r;        /* copies, */
	struct rf_place *place;      /* and where they were read */
	int n, room;
	bool more, ended;            /* another one follows, which has been read; the end record was read */
};
/* Reads up to `most` records into b, which must be empty or have been read before.  Returns their number.
 * The end record, or the record after them, has been read when it returns. */
int rf_stage_read(struct rf_stage *s, struct rf_read *b, int most);
/* Replaces the i-th record by a copy of r that has no hidden states.  r may be that record. */
enum rf_code rf_read_replace(struct rf_read *b, int i, const struct rf_record *r, struct rf_err *e);
/* Ends the program by a failure with the i-th of them. */
noreturn void rf_stage_blame(const struct rf_stage *s, const struct rf_read *b, int i, struct rf_err *e);

/* To be called at the end.  If none of the records had what the stage works on, says "none of 16 records has
 * positions (rf-select writes them)", followed by `so`, the consequence. */
void rf_stage_fits(const struct rf_stage *s, const char *what, const char *writer, const char *so);

/* Writes the output's end record, and closes output and input. */
void rf_stage_close(struct rf_stage *s);

#endif
