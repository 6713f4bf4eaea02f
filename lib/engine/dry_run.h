/* dry_run.h -- --dry-run: a program with a model checks all that can be known before the first record, and
 * says with which settings it would work and how much memory and time that takes.  Nothing is written or
 * locked, and nothing is allocated on the device but for one product, which is timed. */
#ifndef RF_DRY_RUN_H
#define RF_DRY_RUN_H

#include "base/opt.h"
#include "engine/engine.h"

struct rf_dry_run {
	struct rf_engine *engine;              /* opened with dry_run */
	/* the program's tables, NULL at the end, as the command line left them */
	const struct rf_opt *const *opts;
	const char *path;                      /* its input: looked into only where it is a regular file */
	uint64_t max_record;
};

/* What to print, as lines, malloc'd into *text.  Fails as the program would: where the input's head or first
 * record does not fit the model (of a regular file), where -o, --log or --grad-out cannot be written, where
 * the plan cannot be counted. */
enum rf_code rf_dry_run(const struct rf_dry_run *d, char **text, struct rf_err *e);

#endif
