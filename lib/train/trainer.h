/* trainer.h -- what rf-grpo, rf-ntp and rf-step share: a run that is open for training, mini-batches from a
 * stream, the commit.
 *
 * A batch is ceil(records / mini_batch) optimizer steps, or as many as asked for, with --outer response one
 * more.  For rf-grpo and rf-ntp the stream is one batch; rf-step divides it.  A batch, or several together,
 * is committed after the record after it, or the stream's end record, has been read.  Whatever happens before
 * a commit leaves the run at the commit before. */
#ifndef RF_TRAINER_H
#define RF_TRAINER_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/opt.h"
#include "ckpt/ckpt.h"
#include "engine/engine.h"
#include "ranks/ranks.h"
#include "refine/advantage.h"
#include "stream/record.h"
#include "train/train.h"

enum rf_on_nan { RF_ON_NAN_FAIL, RF_ON_NAN_SKIP };
#define RF_ON_NAN_WORDS "fail|skip"
/* What follows the steps on the tokens: one step on the responses, by the weights as they are then. */
enum rf_outer { RF_OUTER_NONE, RF_OUTER_RESPONSE };
#define RF_OUTER_WORDS "none|response"

/* Copies of records that wait for an optimizer step. */
struct rf_waiting { struct rf_record **r; int count, cap; };

/* The batch that is trained on, and its counts so far. */
struct rf_trainer_batch {
	struct rf_waiting mini;      /* the records of the current mini-batch */
	/* --outer response: prompt and response of each record that has one, without anything else */
	struct rf_waiting joined;
	int64_t part;                /* the number of the mini-batch that is collected */
	uint64_t records;            /* records of this rank's stream */
	uint64_t all_records, all_joined; /* records of all ranks; those of them with a response */
	uint64_t all_rollouts, all_positions; /* tokens of rollouts, and at positions, of all ranks */
	int older;                   /* the largest number of commits by which rollouts are too old */
	uint64_t trained_on;         /* a hash of the records that were trained on */
	struct rf_group_stats groups; /* of the mini-batch */
	int mini_batches, skipped, taught_nothing; /* all; gradient not finite; nothing to learn from */
};

/* What the next commit will contain of earlier batches. */
struct rf_trainer_unsaved {
	int batches;
	uint64_t records;            /* of all ranks */
	double since;                /* the time of the last commit */
	struct rf_buf lines;         /* lines for the log */
};

/* Hashes of facts that all ranks must share. */
struct rf_trainer_facts {
	uint64_t beginning;          /* where the run is before the batch */
	uint64_t settings;
	uint64_t head;               /* the head of the stream */
	uint64_t last_step;
};

/* What rf_trainer_open() opens, and where training is. */
struct rf_trainer_open {
	bool done_before;            /* the run is already past --at, so there is nothing to do */
	struct rf_run run;
	json_t *start, *stages;      /* for the manifest: the run's beginning, the batch's history */
	int64_t step, updates;       /* optimizer steps; those of them that changed the weights */
	int64_t batches;             /* batches of the stream so far */
	struct rf_shard shard;       /* this rank's share of each mini-batch */
	int64_t met;                 /* how often the ranks counted a mini-batch together */
	int64_t stale_commits;       /* --stale as a number; "any": INT64_MAX */
	/* --commit-every: batches between commits; 0: seconds between commits */
	int64_t every;
	double every_seconds;
	struct rf_trainer_facts facts;
	struct rf_trainer_unsaved unsaved;
};

struct rf_trainer {
	/* settings */
	int mini_batch;              /* sequences per optimizer step; 0: the whole batch */
	/* if not 0: the stream has `expected` records, and `steps` optimizer steps share them as evenly as
	   they can, instead of by mini_batch; if there are more steps than records, each record has one */
	int expected, steps;
	int at;                      /* step at which the run must be; -1: any */
	const char *stale;           /* rf-grpo: how many commits old rollouts may be, or "any" */
	int keep, keep_every;        /* as in struct rf_commit */
	bool allow_empty;            /* accept a stream without records */
	bool need_rollouts;          /* with rl_coef, refuse a batch if none of its records has rollouts */
	enum rf_outer outer;
	enum rf_on_nan on_nan;       /* what to do if a gradient is not finite */
	const char *log;             /* the file to append metrics to */
	const char *grad_in, *grad_out;
	int batch;                   /* rf-step: records of a batch; 0: the whole stream */
	const char *commit_every;    /* rf-step: "10": batches; "10m", "30s", "2h": time; NULL: one batch */
	const char *weights_out;     /* the directory of a checkpoint that is written instead of a commit */
	const volatile sig_atomic_t *stop; /* as in struct rf_ckpt_writer */
	/* the program's entry for the run's manifest (made.h), which the trainer releases; NULL: none */
	json_t *made;
	struct rf_engine engine;
	/* memory for training; a caller that has initialised it before opening chooses its use */
	struct rf_work work;
	struct rf_train train;
	struct rf_ranks ranks;       /* the processes that train the run together */
	struct rf_trainer_open open;
	struct rf_trainer_batch current;
};
#define RF_TRAINER_DEFAULTS { .at = -1, .stale = "0", .keep = 2, .open = { .run = { .lock = -1 } }, \
                              .ranks = RF_RANKS_DEFAULTS, \
                              .engine = RF_ENGINE_DEFAULTS, .train = RF_TRAIN_DEFAULTS }

/* --mini-batch --steps --records --at --keep --keep-every --on-nan --log --weights-out */
void rf_trainer_options(struct rf_trainer *t, struct rf_opts *opts);
/* --ntp-coef --loss --mean --outer --allow-empty */
void rf_trainer_loss_options(struct rf_trainer *t, struct rf_opts *opts);

/* --rl-coef --clip --dual-clip --need-rollouts --log-gradients */
void rf_trainer_policy_options(struct rf_trainer *t, struct rf_opts *opts);
/* --position-coef --length; lets --loss of the other table be "positions", too */
void rf_trainer_position_options(struct rf_trainer *t, struct rf_opts *loss, struct rf_opts *opts);
/* --batch --commit-every */
void rf_trainer_batch_options(struct rf_trainer *t, struct rf_opts *opts);

/* The use of memory that training makes, which another may contain. */
struct rf_use rf_trainer_use(struct rf_trainer *t);

/* Of several ranks, 0 alone locks the run, writes the log and commits; but a failure of one, in any of these
 * functions, is a failure of all: they vote (ranks.h).
 *
 * Locks the run, checks --at, --grad-in and the places of all outputs, opens device and model, and allocates
 * the optimizer's memory.  With --dry-run everything is checked, but nothing is locked, allocated or changed.
 * With --weights-out the model may be any, and it is only read.  If the run is already past --at, sets
 * t->open.done_before and does nothing more. */
enum rf_code rf_trainer_open(struct rf_trainer *t, struct rf_err *e);
/* Notes for the log how many commits old they are.  Errors: RF_EDATA: the stream's rollouts were made by
 * weights that are too old (--stale), or unknown. */
enum rf_code rf_trainer_check_weights(struct rf_trainer *t, const struct rf_head *h, struct rf_err *e);
/* How many records this rank has of a batch; INT_MAX: all of the stream. */
int rf_trainer_share(const struct rf_trainer *t);
/* How many of the first n of these are of its first mini-batch. */
int rf_trainer_first(const struct rf_trainer *t, int n);
/* Begins a batch.  Looks at whose share the stream is.  Errors: RF_EDATA: not this rank's, or of other
 * mini-batches. */
enum rf_code rf_trainer_begin(struct rf_trainer *t, const struct rf_head *h, struct rf_err *e);
/* Finds out whether any rank has records of the next batch; mine: this rank has. */
enum rf_code rf_trainer_more(struct rf_trainer *t, bool mine, bool *any, struct rf_err *e);
/* Adds up what the ranks announce of their records of a mini-batch, before the rollouts exist: *totals is
 * this rank's, and becomes that of all. */
enum rf_code rf_trainer_announce(struct rf_trainer *t, struct rf_totals *totals, struct rf_err *e);
/* Adds a copy of r to the mini-batch, and makes an optimizer step when this rank's share of it is full.
 * groups: of its advantages, for the log; NULL: it has none. */
enum rf_code rf_trainer_add(struct rf_trainer *t, const struct rf_record *r,
                            const struct rf_group_stats *groups, struct rf_err *e);
/* Call it after the end record: makes the optimizer step of the last mini-batch, and the outer step.  Errors:
 * RF_EDATA: there were no records, or --outer response and no response. */
enum rf_code rf_trainer_rest(struct rf_trainer *t, struct rf_err *e);
/* Writes the metrics and commits the step, with --weights-out the checkpoint; or with --grad-out writes the
 * gradient alone.  If the stream had no records, does nothing.  The run's steps do not change before this.
 * t->stop is checked until what is written gets its name. */
enum rf_code rf_trainer_commit(struct rf_trainer *t, struct rf_err *e);
/* Ends one of several batches: commits it, with those before it that are not, if that is due, if it is the
 * last, or if the file RUN/stop exists, which then is in *stopped. */
enum rf_code rf_trainer_end(struct rf_trainer *t, bool last, bool *stopped, struct rf_err *e);
/* Writes a line about mini-batches that made no optimizer step to buf, and returns buf; "": there were
 * none. */
const char *rf_trainer_remark(const struct rf_trainer *t, char *buf, size_t size);
/* Tells the other ranks, at their next vote, that this rank ends with the failure in e; then e becomes the
 * failure that all ranks end with.  Does nothing if the failure came from another rank, or if the other ranks
 * have ended. */
void rf_trainer_leave(struct rf_trainer *t, struct rf_err *e);
void rf_trainer_close(struct rf_trainer *t);

#endif
