/* loop.h -- trains a run on a corpus: for each batch, one shell command line that makes one commit.
 *
 * The number of the run's commits decides which batch is next.  The line reads the weights of exactly that
 * step and tells its trainer which step to expect.  So the loop may be killed at any moment: started again
 * with the same words, it uses every batch exactly once and ends with the same bytes.
 *
 * A batch is the next `batch` sequences of the data.  Their order is drawn for each epoch, or is that of the
 * file.  Sequences that are left over at the end of an epoch, fewer than a batch, are its last batch with
 * `rest`, and are otherwise not used in that epoch.
 *
 * With `many` a line gets all batches that are left of an epoch as one range.  Its trainer cuts the range
 * into batches, and commits every n-th batch or after a time.  With `after` such a line ends where a commit
 * is due.
 *
 * If outputs count as batches, the line commits nothing: a batch is done when the line has written the file
 * $OUTPUT, which appears whole or not at all.  Such a loop needs no weights: without `from` it makes no
 * step, and the line names its weights.
 *
 *     RUN/data/words        the settings that the run was begun with (words.h)
 *     RUN/data/epoch-0.rf   the data in the order of the epoch
 *     RUN/data/times.tsv    a line for each batch: its number from 1, the step after it, microseconds;
 *                           commits that are missing here were made by other programs
 *     RUN/data/after        the number of commits after which `after` last succeeded, and its microseconds
 *     RUN/data/status       how the last loop ended: its exit status and why; absent while a loop works
 *     RUN/data/line         the batches that a line for many may commit; absent while no such line works
 *     RUN/stop              a request to end after the current batch; the loop removes the file
 *     RUN/data/.lock        held by the loop, and by all programs that it starts (lock.h)
 *     RUN/streams/          streams that the line keeps
 *     RUN/OUTPUTS/          files batch-000000.rf, ..., that the line or `after` writes as $OUTPUT */
#ifndef RF_LOOP_H
#define RF_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "proc/child.h"
#include "proc/lock.h"

enum rf_loop_order { RF_LOOP_SHUFFLE, RF_LOOP_FILE };
#define RF_LOOP_ORDER_WORDS "shuffle|file"
enum rf_loop_count { RF_LOOP_COMMITS, RF_LOOP_OUTPUTS };
#define RF_LOOP_COUNT_WORDS "commits|outputs"

struct rf_loop;

struct rf_loop_settings {
	/* NULL or 0: not given */
	const char *run, *from, *data, *line;
	const char *make, *after; /* shell command lines */
	const char *launch;       /* command that starts the line's shell, once for each rank */
	bool many;                /* a line gets all batches that are left of an epoch */
	const char *commit_every; /* with many: number of batches, or time as 10m, between two commits */
	const char *words;        /* further text that is one of the run's words */
	const char *scripts;      /* names of files, one a line, that must not change within the run */
	int batches, batch;       /* batches in all; sequences of a batch */
	int epochs;               /* passes over the data, instead of `batches`; 0: not given */
	uint64_t seed;
	enum rf_loop_order order;
	bool rest;                /* the sequences that are left over are a batch, too */
	const char *outputs;      /* folder in the run; NULL: there is no $OUTPUT */
	enum rf_loop_count count; /* whether commits or outputs count as batches */
	int len;                  /* tokens that a sequence is meant to have; 0: not given */
	const char *len_advice;   /* advice if the first batch has less than half of that on average */
	bool keep_streams, wait;
	void (*say)(const struct rf_loop *l, const char *text);
};

struct rf_loop {
	struct rf_loop_settings set;
	/* open */
	struct rf_child child;
	struct rf_lock lock;
	char path[4096], corpus[4096]; /* run and data, as paths that cannot be taken for an option */
	char begun_from[4096];         /* --from as the run's words have it, if it was not given */
	struct rf_buf noted;           /* the words of the scripts as they were when the loop began */
	bool measured;                 /* sequences and hash are known */
	uint64_t sequences, hash;      /* number of the data's sequences, and their hash */
	/* counters */
	int64_t at, done; /* the newest step; the number of batches done */
	int64_t since;    /* the step before the batches that are reported next */
	int64_t every;    /* batches between two commits; 0: commit_every is a time */
	int64_t end;      /* the number of batches done when the line has ended */
	double seen;      /* time of the line's last finished batch, or of the line's start */
	/* result */
	bool stopped; /* the loop ended because RUN/stop existed */
	int status;   /* exit status: of the command that failed, or 128 + the signal */
};
#define RF_LOOP_DEFAULTS \
	{ \
		.set = { .batches = 100, .batch = 128, .commit_every = "1" }, .lock = RF_LOCK_NONE \
	}

/* Works until l->set.batches batches are done, or the file RUN/stop exists.  Returns the exit status: 0, the
 * status of the command that failed, 128 + N after signal N, or the status of e's code; e has the reason. */
int rf_loop(struct rf_loop *l, struct rf_err *e);

#endif
