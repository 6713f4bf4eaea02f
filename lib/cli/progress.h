/* progress.h -- a line on stderr that says how far a program is and what it waits for.  Only tools/
 * includes this.
 *
 *     rf-rollout: 12 records, 24576 tokens, 3504 tokens/s, 41 s left, waiting for input
 *     rf-ntp: 40 of 128 records, 2 steps, loss/ntp 2.1874, 81920 tokens, 812 tokens/s, 240 s left, computing
 *
 * On a terminal it is rewritten four times a second, and the programs of a pipe have a line each, one below
 * the other; when the program ends it goes, and with --progress its last state stays.  Elsewhere --progress
 * writes whole lines, the more seldom the longer it takes, the last one at the end. */
#ifndef RF_PROGRESS_H
#define RF_PROGRESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/meter.h"
#include "base/opt.h"

struct rf_progress {
	bool asked;                   /* --progress */
	struct rf_meter meter;        /* whoever works turns it */
	/* below: of progress.c, under its lock */
	const char *name;
	_Atomic(const char *) doing;
	uint64_t size;                /* bytes of the inputs; 0: they do not say */
	double from;
	int row;                      /* lines below the cursor's; -1: stderr is no terminal */
	bool shown, quiet, over;
	pthread_t thread;
};

/* --progress */
enum { RF_PROGRESS_OPTS = 2 };
void rf_progress_options(struct rf_progress *p, struct rf_opt opts[RF_PROGRESS_OPTS]);

/* From here on the line is shown, if stderr is a terminal or it was asked for.  n inputs, none: standard
 * input.  One at a time in a program; p and the strings stay where they are until its end. */
void rf_progress_begin(struct rf_progress *p, const char *name, char *const *paths, int n);
/* What the program does now: "computing", "waiting for input". */
void rf_progress_doing(struct rf_progress *p, const char *what);
/* The last line, and no more. */
void rf_progress_end(struct rf_progress *p);

/* For a program that starts others: draws a bar and a text on the current line, to be drawn again in its
 * place.  What the others draw stands below it.  of 0: it was the last time, and the line stays.  False:
 * stderr is no terminal. */
bool rf_progress_bar(int64_t done, int64_t of, const char *text);

/* For messages: clears what is shown; no line comes in between before rf_progress_resume(). */
void rf_progress_pause(void);
void rf_progress_resume(void);
/* For a handler of signals: clears the line. */
void rf_progress_wipe(void);

#endif
