/* trainer.h -- what rf-grpo and rf-ntp share: a run that is open for training, mini-batches out of a stream,
 * the commit.
 *
 * One stream is one batch: ceil(records / mini_batch) optimizer steps, then one commit, made only after the
 * stream's end record was read.  Whatever happens before the commit leaves the run as it was. */
#ifndef RF_TRAINER_H
#define RF_TRAINER_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/opt.h"
#include "ckpt/ckpt.h"
#include "engine/engine.h"
#include "method/train.h"
#include "stream/record.h"

enum rf_on_nan { RF_ON_NAN_FAIL, RF_ON_NAN_SKIP };
#define RF_ON_NAN_WORDS "fail|skip"

struct rf_trainer {
	/* settings */
	int mini_batch;              /* sequences per optimizer step; 0: the whole stream */
	int at;                      /* step at which the run must be; -1: any */
	const char *stale;           /* how many commits old rollouts may be, or "any"; rf-grpo's option */
	int64_t stale_commits;       /* the same as a number */
	int keep, keep_every;
	bool allow_empty;
	enum rf_on_nan on_nan;       /* what is done if a gradient is not finite */
	const char *log;             /* file that metrics are appended to */
	const char *grad_in, *grad_out;
	const volatile sig_atomic_t *stop;
	struct rf_engine engine;
	struct rf_train train;
	/* open */
	bool done_before;            /* --at: the run is past it already; nothing is to be done */
	struct rf_run run;
	int64_t step, updates;       /* optimizer steps, those of them that changed something */
	struct rf_record **batch;
	int count, capacity;
	uint64_t records;            /* of the stream */
	int groups, spread_free;     /* of the mini-batch: rf-grpo counts them */
	int mini_batches, skipped, taught_nothing;
	struct rf_buf lines;         /* metrics that are not in the file yet */
	double started;
};
#define RF_TRAINER_DEFAULTS { .at = -1, .stale = "0", .keep = 2, .run = { .lock = -1 }, \
                              .engine = RF_ENGINE_DEFAULTS, .train = RF_TRAIN_DEFAULTS }

/* --mini-batch --at --keep --keep-every --on-nan --log */
enum { RF_TRAINER_OPTS = 7 };
void rf_trainer_options(struct rf_trainer *t, struct rf_opt opts[RF_TRAINER_OPTS]);
/* --ntp-coef --loss --allow-empty */
enum { RF_TRAINER_LOSS_OPTS = 4 };
void rf_trainer_loss_options(struct rf_trainer *t, struct rf_opt opts[RF_TRAINER_LOSS_OPTS]);

/* Locks the run, checks --at and --grad-in, opens device and model, and takes the optimizer's memory.  With
 * --dry-run all is checked and nothing is locked, allocated or changed. */
enum rf_code rf_trainer_open(struct rf_trainer *t, struct rf_err *e);
/* RF_EDATA where the stream's rollouts were made by weights that are too old, or unknown. */
enum rf_code rf_trainer_check_weights(const struct rf_trainer *t, const struct rf_head *h, struct rf_err *e);
/* Takes a copy of r; steps when a mini-batch is full. */
enum rf_code rf_trainer_add(struct rf_trainer *t, const struct rf_record *r, struct rf_err *e);
/* After the end record: the last mini-batch. */
enum rf_code rf_trainer_rest(struct rf_trainer *t, struct rf_err *e);
/* The metrics, and the commit (or the gradient of --grad-out): the only thing that changes anything.
 * data_hash: of the stream.  From here on `stop` is looked at, until what is written has its name. */
enum rf_code rf_trainer_commit(struct rf_trainer *t, const char data_hash[17], struct rf_err *e);
/* What the user should know of mini-batches that were no step, as a line; "" for nothing. */
const char *rf_trainer_remark(const struct rf_trainer *t, char *buf, size_t size);
void rf_trainer_close(struct rf_trainer *t);

#endif
