/* dry_run.h -- --dry-run: a program with a model checks all that can be known before its first record.
 *
 * It then says with which settings it would work, and how much memory and time that takes.  Nothing is
 * written or locked.  On the device only the operands of one product are allocated, which is timed. */
#ifndef RF_DRY_RUN_H
#define RF_DRY_RUN_H

#include "base/opt.h"
#include "engine/engine.h"

struct rf_dry_run {
	struct rf_engine *engine;              /* opened with dry_run */
	/* the program's tables of options, with the command line's values; ends with NULL */
	const struct rf_opt *const *opts;
	bool (*in_force)(const struct rf_opt *o); /* whether an option has an effect; others are not shown */
	const char *path;                      /* its input; read only if it is a regular file */
	uint64_t max_record;
};

/* Writes what to print to *text, malloc'd, as lines.  It fails where the program would: if the head or the
 * first record of the input (a regular file) does not fit the model, if the file of -o, --log or --grad-out
 * cannot be written, or if the plan's memory cannot be counted. */
enum rf_code rf_dry_run(const struct rf_dry_run *d, char **text, struct rf_err *e);

#endif
