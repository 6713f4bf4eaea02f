/* live.h -- the weights of a run between two commits, which its trainer publishes for the programs before it
 * in a long-lived pipeline.
 *
 *     LIVE/step-000012/  a step as in the run, without the optimizer's moments; a few are kept
 *     LIVE/latest        a link to the newest
 *     LIVE/trainer       the trainer's process: while it lives, what is there is of this run and of now
 *     LIVE/.lock         held by it
 *
 * So -m LIVE works in every program.  The folder belongs where memory is (/dev/shm); the trainer makes and
 * removes it.  What a killed trainer left is removed by the next. */
#ifndef RF_LIVE_H
#define RF_LIVE_H

#include "ckpt/ckpt.h"

struct rf_live {
	struct rf_run run;        /* its path; the step published last */
	int lock;                 /* -1: not open */
};
#define RF_LIVE_DEFAULTS { .run = { .lock = -1 }, .lock = -1 }

/* Makes the folder, and publishes the step that a run is at.  weights, transfer: as in struct rf_commit.
 * Errors: RF_EUSAGE: it is something else, or another user's; RF_EBUSY: another trainer publishes there;
 * RF_EIO. */
enum rf_code rf_live_open(struct rf_live *l, const char *path, const struct rf_ckpt *at, const float *weights,
                          const struct rf_transfer *transfer, struct rf_err *e);
/* Publishes the next step, as rf_run_commit() commits one, c->keep of them, and without the moments. */
enum rf_code rf_live_publish(struct rf_live *l, const struct rf_commit *c, struct rf_err *e);
/* Removes the folder, if it was made. */
void rf_live_close(struct rf_live *l);

/* Waits until a trainer that lives has published the weights after so many commits of the run, or later
 * ones, and opens the oldest of them.  patience: seconds to wait at most; 0: for ever.  watched: a
 * descriptor to which the caller writes; -1: none.  Errors: RF_EBUSY: the trainer is gone, they did not come
 * in that time, or nobody reads there any more (rf_file_abandoned()); those of rf_ckpt_open(). */
enum rf_code rf_live_wait(struct rf_ckpt *c, const char *path, int64_t commits, double patience, int watched,
                          struct rf_err *e);

#endif
