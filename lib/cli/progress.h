/* progress.h -- a line on stderr that says how far a program is and what it waits for.  Only tools/ includes
 * this.
 *
 *     rf-rollout: 12 records, 24576 tokens, 3504 tokens/s, 41 s left, waiting for input
 *     rf-ntp: 40 of 128 records, 2 steps, loss/ntp 2.1874, 81920 tokens, 812 tokens/s, 240 s left, computing
 *
 * On a terminal the line is rewritten four times a second, and each program of a pipe has its own line, one
 * below the other.  When the program ends the line disappears; with --progress its last state stays.  If
 * stderr is not a terminal, --progress writes whole lines: at growing intervals, and one at the end. */
#ifndef RF_PROGRESS_H
#define RF_PROGRESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/meter.h"
#include "base/opt.h"

struct rf_progress {
	bool asked;                   /* --progress */
	struct rf_meter meter;        /* the code that does the work counts in it */
	/* below: progress.c's own, under its lock */
	const char *name;
	_Atomic(const char *) doing;
	uint64_t size;                /* bytes of all inputs; 0: unknown */
	double from;
	int row;                      /* the line's distance below the cursor; -1: stderr is no terminal */
	bool shown, quiet, over;
	pthread_t thread;
};

/* --progress */
enum { RF_PROGRESS_OPTS = 2 };
void rf_progress_options(struct rf_progress *p, struct rf_opt opts[RF_PROGRESS_OPTS]);

/* Shows the line from here on, if stderr is a terminal or --progress was given.  paths: the n inputs; n 0:
 * standard input.  A program shows one line at a time; p and the strings must stay valid until the program
 * ends. */
void rf_progress_begin(struct rf_progress *p, const char *name, char *const *paths, int n);
/* Sets what the program does now: "computing", "waiting for input". */
void rf_progress_doing(struct rf_progress *p, const char *what);
/* To be called before it begins: nothing is ever shown. */
void rf_progress_hush(void);
/* Shows the last state and ends the display. */
void rf_progress_end(struct rf_progress *p);

/* For a program that starts others: draws a bar and a text on the current line; the next call draws over it.
 * The lines of the programs that it starts stand below.  of 0: ends the bar, which stays on the screen.
 * Returns false if stderr is not a terminal. */
bool rf_progress_bar(int64_t done, int64_t of, const char *text);

/* For messages: rf_progress_pause() clears what is shown, and nothing is drawn before
 * rf_progress_resume(). */
void rf_progress_pause(void);
void rf_progress_resume(void);
/* For a signal handler: clears the line. */
void rf_progress_wipe(void);

#endif
