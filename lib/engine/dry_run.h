/* dry_run.h -- --dry-run: a program with a model checks everything that is known before its first record.
 *
 * It then prints the settings with which it would work, the device memory and the operations of a sequence.
 * Nothing is written, locked or allocated on the device. */
#ifndef RF_DRY_RUN_H
#define RF_DRY_RUN_H

#include "base/opt.h"
#include "engine/engine.h"

struct rf_dry_run {
	struct rf_engine *engine; /* opened with dry_run */
	/* the program's tables of options, with the values of the command line; NULL ends the list */
	const struct rf_opt *const *opts;
	bool (*in_force)(const struct rf_opt *o); /* whether an option has an effect and is printed */
	const char *path;                         /* the input; read only if it is a regular file */
	uint64_t max_record;
};

/* Writes the lines to print to *text, malloc'd.  Fails as the program would fail: if the head or the first
 * record of the input (a regular file) does not fit the model, if the file of -o, --log or --grad-out cannot
 * be written, or if the memory of the plan cannot be counted. */
enum rf_code rf_dry_run(const struct rf_dry_run *d, char **text, struct rf_err *e);

#endif
