/* cli_stage.h -- programs that read a stream: -o, --max-record, --progress, the loop over records.  Only
 * tools/ includes this.  A failure in any of these functions ends the program. */
#ifndef RF_CLI_STAGE_H
#define RF_CLI_STAGE_H

#include "cli/cli.h"
#include "cli/progress.h"
#include "stream/stream.h"

typedef enum rf_code rf_stage_fn(void *arg, struct rf_record *r, struct rf_err *e);

struct rf_stage {
	/* settings */
	const char *output; /* -o; NULL: standard output */
	uint64_t max_record;
	struct rf_progress progress;
	/* open */
	struct rf_head head; /* head of the output: the input's, with this program in its history */
	struct rf_in *in;
	struct rf_out *out;
	/* number of records read; number of records that the stage worked on, counted by its function */
	uint64_t records, fit;
	/* if not NULL, called instead of writing a record: rf-reward holds records until its command
	 * answers */
	rf_stage_fn *pass_on;
};
#define RF_STAGE_DEFAULTS \
	{ \
		.max_record = RF_MAX_RECORD \
	}

/* Adds the options -o, --max-record and --progress.  output: the help of -o; NULL: that of a stream. */
void rf_stage_options(struct rf_stage *s, const char *output, struct rf_opts *opts);

/* Opens the input (path NULL: standard input), makes the output's head and begins to show progress. */
void rf_stage_open(struct rf_stage *s, const struct rf_cli *cli, char *path);
/* Opens the output; s->head must be final by then. */
void rf_stage_create(struct rf_stage *s);

/* Calls f for every record until the input ends; if there is an output and no pass_on, it then writes the
 * record.  A failure of f ends the program with a message that says where the record is.  If nothing is
 * written here, f or pass_on counts what is done (rf_meter_done). */
void rf_stage_each(struct rf_stage *s, rf_stage_fn *f, void *arg);

/* Works on several records together.  check() is called for each record as it is read.  room() gets the n
 * records that are held, the last of which is new, and returns how many records of this size may be worked on
 * together, from 1 to `most`.  When this number is reached, run() is called for all of them, and they are
 * written.  If run() fails, *bad is the index of the record that the failure is about. */
struct rf_batches {
	int most;
	rf_stage_fn *check;
	int (*room)(void *arg, const struct rf_record *r, int n);
	enum rf_code (*run)(void *arg, struct rf_record *r, int n, int *bad, struct rf_err *e);
};
void rf_stage_batches(struct rf_stage *s, const struct rf_batches *b, void *arg);

/* Records that are read before work on them begins. */
struct rf_read {
	struct rf_record **r;   /* copies of the records */
	struct rf_place *place; /* the places where they were read */
	int n, room;
	bool more, ended; /* one more record was read after them; the end record was read */
};
/* Reads up to `most` records into b, which must be empty or filled by an earlier call.  Returns their number.
 * The function also reads the end record, or the record after them. */
int rf_stage_read(struct rf_stage *s, struct rf_read *b, int most);
/* Replaces the i-th record by a copy of r that has no hidden states.  r may be that record. */
enum rf_code rf_read_replace(struct rf_read *b, int i, const struct rf_record *r, struct rf_err *e);
/* Ends the program with a failure about the i-th record. */
noreturn void rf_stage_blame(const struct rf_stage *s, const struct rf_read *b, int i, struct rf_err *e);

/* Reports, at the end, if the stage found nothing to work on in any record: "none of 16 records has positions
 * (rf-select writes them)", followed by `so`, the consequence. */
void rf_stage_fits(const struct rf_stage *s, const char *what, const char *writer, const char *so);

/* Writes the output's end record, and closes output and input. */
void rf_stage_close(struct rf_stage *s);

#endif
