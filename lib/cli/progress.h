/* progress.h -- lines on stderr that show how far a program is and what it waits for.  Only tools/ includes
 * this.
 *
 *     rf-rollout: 12 records, 24576 tokens, 3504 tokens/s, 41 s left, waiting for input
 *     rf-ntp: 40 of 128 records, 2 steps, loss/ntp 2.1874, 81920 tokens, 812 tokens/s, 240 s left, computing
 *
 * With --progress a program writes such lines from the start, at growing intervals, and one at the end.
 * Without the option a program writes them only in the foreground of a terminal, and only if it works for
 * five seconds or longer. */
#ifndef RF_PROGRESS_H
#define RF_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/meter.h"
#include "base/opt.h"

struct rf_progress {
	bool asked;            /* --progress */
	struct rf_meter meter; /* the counters that the working code advances */
	/* below: for progress.c only */
	const char *name;
	_Atomic(const char *) doing;
	uint64_t size; /* bytes of all inputs; 0: unknown */
	double from;
	bool shown; /* a line was written */
};

/* Adds --progress. */
void rf_progress_options(struct rf_progress *p, struct rf_opts *opts);

/* Shows progress from here on, if stderr is a terminal or --progress was given.  paths: the n inputs; n 0:
 * standard input.  A program does this once; p and the strings must stay valid until rf_progress_end(). */
void rf_progress_begin(struct rf_progress *p, const char *name, char *const *paths, int n);
/* Sets what the program does now: "computing", "waiting for input". */
void rf_progress_doing(struct rf_progress *p, const char *what);
/* Writes no more lines from here on.  A process that has failed calls it before its message, which is then
 * the last line. */
void rf_progress_hush(void);
/* Writes the last line and ends the display. */
void rf_progress_end(struct rf_progress *p);

#endif
