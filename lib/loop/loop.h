/* loop.h -- a run taken through a corpus: one line of the shell and one commit per batch.
 *
 * Which batch comes next is read from the run itself, which knows how many commits it has; the line reads
 * the weights of exactly that step and tells its trainer at which step it must be.  So after an end at any
 * moment the same words go on with every batch used once and only once, and end at the same bytes.
 *
 * A batch is the next `batch` sequences of the data, in an order that is drawn anew for each epoch; what is
 * left over at an epoch's end is less than a batch and waits for the next draw.
 *
 *     RUN/data/words        what the run was begun by (words.h); from the first commit on it stands
 *     RUN/data/epoch-0.rf   the data in the order of the epoch
 *     RUN/data/times.tsv    a line for each batch: its number from 1, the step after it, microseconds; which
 *                           commits are the loop's own
 *     RUN/data/after        the number of commits after which `after` ended well, and its microseconds
 *     RUN/data/made         what `make` made, to be known again; RUN/data/making is there while it does
 *     RUN/data/status       how the last loop ended: its exit status and why; not there while one works
 *     RUN/data/.lock        held by the loop, and by all that it starts (lock.h)
 *     RUN/streams/          streams that the line keeps */
#ifndef RF_LOOP_H
#define RF_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "io/child.h"
#include "io/lock.h"

struct rf_loop {
	/* settings; NULL or 0 where nothing was said */
	const char *run, *from, *data, *line;
	const char *make, *after;    /* lines of the shell */
	const char *words;           /* more text that the run is begun by */
	int batches, batch;          /* how many in all, sequences of each */
	uint64_t seed;
	bool keep_streams, wait;
	void (*say)(const struct rf_loop *l, const char *text);
	void (*advance)(const struct rf_loop *l, const char *text); /* a batch was done: l->done */
	/* below: loop.c's and loop_begin.c's */
	struct rf_child child;
	struct rf_lock lock;
	int64_t at, done;            /* the newest step, and how many commits led to it */
	uint64_t sequences, hash;    /* of the data */
	bool measured;               /* they are known */
	int status;                  /* of the command that failed, or of the signal */
	char begun_from[4096];       /* what its words say it began from, where --from does not */
	char path[4096], corpus[4096]; /* the run and the data, such that none is like an option */
};
#define RF_LOOP_DEFAULTS { .batches = 100, .batch = 128, .lock = RF_LOCK_NONE }

/* Works until so many batches are done, and returns the exit status that says how it ended: 0, the status
 * of the command that failed, 128 + N after signal N, or that of e's code; e says why. */
int rf_loop(struct rf_loop *l, struct rf_err *e);

#endif
