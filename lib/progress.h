/* progress.h -- one line on stderr that says how far a program is and what it waits for: on a terminal, or with
 * --progress.  Only tools/ includes this. */
#ifndef RF_PROGRESS_H
#define RF_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "err.h"
#include "opt.h"
#include "stream.h"

struct rf_progress {
	bool asked;              /* --progress */
	bool on, shown;
	double from, last, waited;
	uint64_t tokens;
};

/* --progress.  opts holds at least 2. */
void rf_progress_options(struct rf_progress *p, struct rf_opt *opts);
/* rf_next(), with the line before and after it. */
enum rf_code rf_progress_next(struct rf_progress *p, struct rf_in *in, struct rf_record **r, struct rf_err *e);
/* Clears the line. */
void rf_progress_end(struct rf_progress *p);

#endif
