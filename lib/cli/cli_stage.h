/* cli_stage.h -- what the programs that read a stream share: -o, --max-record, --progress, the loop.  Only
 * tools/ includes this.  What fails here ends the program. */
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
	struct rf_head head;         /* of the output: the input's, with this program in its history */
	struct rf_in *in;
	struct rf_out *out;
	/* all of them; those that have what the stage works on: its function counts these */
	uint64_t records, fit;
	/* in place of writing a record: what rf-reward's command judges waits first */
	rf_stage_fn *pass_on;
};
#define RF_STAGE_DEFAULTS { .max_record = RF_MAX_RECORD }

/* -o, --max-record, --progress.  output: what goes there, for --help; NULL: the stream. */
enum { RF_STAGE_OPTS = 3 + RF_PROGRESS_OPTS - 1 };
void rf_stage_options(struct rf_stage *s, const char *output, struct rf_opt opts[RF_STAGE_OPTS]);

/* Opens the input (path NULL: standard input), makes the output's head, begins to show progress. */
void rf_stage_open(struct rf_stage *s, const struct rf_cli *cli, char *path);
/* Opens the output; the head is what it shall be by now. */
void rf_stage_create(struct rf_stage *s);

/* Calls f for every record, to the input's end, and tells a failure of f with the record's place; then, where
 * there is an output, the record goes there.  Without one, or with pass_on, they count what is done
 * (rf_meter_done). */
void rf_stage_each(struct rf_stage *s, rf_stage_fn *f, void *arg);

/* Where none of the records had what the stage works on, so that it did nothing: says "none of 16 records has
 * positions (rf-select writes them)", and what follows from it, `so`.  At the end. */
void rf_stage_fits(const struct rf_stage *s, const char *what, const char *writer, const char *so);

/* The output's end record, and the end of both. */
void rf_stage_close(struct rf_stage *s);

#endif
