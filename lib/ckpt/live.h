/* live.h -- the weights of a run between two commits, which its trainer publishes for the programs before it
 * in a long-lived pipeline.
 *
 *     LIVE/step-000012/  a step as in the run, without the optimizer's moments; a few are kept
 *     LIVE/latest        a link to the newest
 *     LIVE/trainer       the trainer's process (io/lock.h): while it lives, the steps are of this run and of
 *                        now; also the mark by which the folder is known to be a trainer's;
 *                        .trainer until the first step is published
 *     LIVE/.lock         an empty file, locked by the trainer
 *
 * So -m LIVE works in every program.  The folder belongs where memory is (/dev/shm); the trainer makes and
 * removes it.  The next trainer removes the files that a killed trainer left.
 *
 * A folder may be used if it is the user's own, not a link, and either empty or marked.  A marked folder may
 * hold only these entries, and in each step only the files that its state.json lists.  A step with moments
 * is never one that a trainer has published. */
#ifndef RF_LIVE_H
#define RF_LIVE_H

#include "ckpt/ckpt.h"

struct rf_live {
	struct rf_run run;        /* its path; the step published last */
	int lock;                 /* -1: not open */
	int alive;                /* the note, which is locked while the trainer lives; -1: not yet */
	bool made;                /* the trainer made the folder */
	bool begun;               /* the caller sets it when the first bytes of the input were read */
};
#define RF_LIVE_DEFAULTS { .run = { .lock = -1 }, .lock = -1, .alive = -1 }

/* Checks, without changing anything, whether a folder may be used.  *left: it holds what a killed trainer
 * left there, which rf_live_open() would remove.  Errors: RF_EUSAGE: it may not; RF_EIO. */
enum rf_code rf_live_look(const char *path, bool *left, struct rf_err *e);
/* Removes a folder that may be used and in which no trainer publishes; leaves any other as it is. */
void rf_live_discard(const char *path);
/* Makes or takes the folder, and publishes the step that a run is at.  weights, transfer: as in struct
 * rf_commit.  Errors: RF_EUSAGE: it may not be used; RF_EBUSY: another trainer publishes there; RF_EIO. */
enum rf_code rf_live_open(struct rf_live *l, const char *path, const struct rf_ckpt *at, const float *weights,
                          const struct rf_transfer *transfer, struct rf_err *e);
/* Publishes the next step, as rf_run_commit() commits one, c->keep of them, and without the moments. */
enum rf_code rf_live_publish(struct rf_live *l, const struct rf_commit *c, struct rf_err *e);
/* Removes what the trainer wrote; and the folder, unless it was there before and the input was never read.
 * Entries that came from elsewhere stay. */
void rf_live_close(struct rf_live *l);

/* Waits until a trainer that lives has published the weights after so many commits of the run, or later
 * ones, and opens the oldest of them.  patience: seconds to wait at most; 0: for ever.  watched: a
 * descriptor to which the caller writes; -1: none.  Errors: RF_EBUSY: the trainer is gone, they did not come
 * in that time, or nobody reads there any more (rf_file_abandoned()); those of rf_ckpt_open(). */
enum rf_code rf_live_wait(struct rf_ckpt *c, const char *path, int64_t commits, double patience, int watched,
                          struct rf_err *e);

#endif
