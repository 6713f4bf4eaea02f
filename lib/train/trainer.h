/* trainer.h -- a run that is open for training: rf-grpo, rf-ntp and rf-step feed it records, and it makes
 * optimizer steps and commits.
 *
 * A batch takes ceil(records / mini_batch) optimizer steps, or --steps; with --outer response it takes one
 * step more.  For rf-grpo and rf-ntp the stream is one batch; rf-step divides the stream into batches.  One
 * batch, or several together, are committed when the next record, or the end record of the stream, has been
 * read.  A failure before a commit leaves the run at its last commit. */
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
#include "train/batch.h"

enum rf_on_nan { RF_ON_NAN_FAIL, RF_ON_NAN_SKIP };
#define RF_ON_NAN_WORDS "fail|skip"
/* RESPONSE: after the steps on the tokens of a batch follows one step on its responses, with the weights of
 * that moment. */
enum rf_outer { RF_OUTER_NONE, RF_OUTER_RESPONSE };
#define RF_OUTER_WORDS "none|response"

/* Copies of records that wait for an optimizer step. */
struct rf_waiting {
	struct rf_record **r;
	int count, cap;
};

/* The batch that is trained on, and its counts so far. */
struct rf_trainer_batch {
	struct rf_waiting mini; /* the records of the current mini-batch */
	/* --outer response: prompt and response of each record that has one, without anything else */
	struct rf_waiting joined;
	int64_t part;                         /* the number of the mini-batch that is collected */
	uint64_t records;                     /* records of this rank's stream */
	uint64_t all_records, all_joined;     /* records of all ranks; those of them with a response */
	uint64_t all_rollouts, all_positions; /* tokens of rollouts, and at positions, of all ranks */
	int older;                    /* the largest number of commits by which rollouts are too old */
	uint64_t trained_on;          /* a hash of the records that were trained on */
	struct rf_group_stats groups; /* of the mini-batch */
	/* the sum and the number of the rewards of all ranks, for --baseline running */
	double rewards;
	uint64_t rewarded;
	int mini_batches, skipped, taught_nothing; /* all; gradient not finite; nothing to learn from */
};

/* The batches that the next commit will contain. */
struct rf_trainer_unsaved {
	int batches;
	uint64_t records;    /* of all ranks */
	double since;        /* the time of the last commit */
	struct rf_buf lines; /* lines for the log */
};

/* Hashes of facts that all ranks must share. */
struct rf_trainer_facts {
	uint64_t beginning; /* where the run is before the batch */
	uint64_t settings;
	uint64_t head; /* the head of the stream */
	uint64_t last_step;
};

/* The open run, and the place in the training. */
struct rf_trainer_open {
	bool done_before; /* the run is already past --at, so there is nothing to do */
	struct rf_run run;
	json_t *start, *stages; /* for the manifest: the run's beginning, the batch's history */
	int64_t step, updates;  /* optimizer steps; those of them that changed the weights */
	int64_t batches;        /* batches of the stream so far */
	struct rf_shard shard;  /* this rank's share of each mini-batch */
	int64_t met;            /* how often the ranks counted a mini-batch together */
	int64_t stale_commits;  /* --stale as a number; "any": INT64_MAX */
	/* --commit-every: batches between commits; 0: seconds between commits */
	int64_t every;
	double every_seconds;
	struct rf_trainer_facts facts;
	struct rf_trainer_unsaved unsaved;
};

struct rf_trainer {
	/* settings */
	int mini_batch; /* sequences per optimizer step; 0: the whole batch */
	/* if not 0: the stream has `expected` records, and `steps` optimizer steps share them as evenly as
	   they can, instead of by mini_batch; if there are more steps than records, each record has one */
	int expected, steps;
	int at;               /* step at which the run must be; -1: any */
	const char *stale;    /* rf-grpo: how many commits old rollouts may be, or "any" */
	int keep, keep_every; /* as in struct rf_commit */
	bool allow_empty;     /* accept a stream without records */
	bool need_rollouts;   /* with rl_coef, refuse a batch if none of its records has rollouts */
	enum rf_outer outer;
	enum rf_on_nan on_nan; /* what to do if a gradient is not finite */
	const char *log;       /* the file to append metrics to */
	const char *grad_in, *grad_out;
	int batch;                /* rf-step: records of a batch; 0: the whole stream */
	const char *commit_every; /* rf-step: "10": batches; "10m", "30s", "2h": time; NULL: one batch */
	const char *weights_out;  /* the directory of a checkpoint that is written instead of a commit */
	const volatile sig_atomic_t *stop; /* as in struct rf_ckpt_writer */
	/* the program's entry for the run's manifest (made.h), which the trainer releases; NULL: none */
	json_t *made;
	struct rf_engine engine;
	/* memory for training; a caller that has initialised it before opening chooses its use */
	struct rf_work work;
	struct rf_train train;
	struct rf_ranks ranks; /* the processes that train the run together */
	struct rf_trainer_open open;
	struct rf_trainer_batch current;
};
#define RF_TRAINER_DEFAULTS \
	{ \
		.at = -1, .stale = "0", .keep = 2, .open = { .run = { .lock = -1 } }, \
		.ranks = RF_RANKS_DEFAULTS, .engine = RF_ENGINE_DEFAULTS, .train = RF_TRAIN_DEFAULTS \
	}

/* --mini-batch --steps --records --at --keep --keep-every --on-nan --log --weights-out */
void rf_trainer_options(struct rf_trainer *t, struct rf_opts *opts);
/* --ntp-coef --loss --mean --outer --allow-empty */
void rf_trainer_loss_options(struct rf_trainer *t, struct rf_opts *opts);

/* --rl-coef --need-rollouts --log-gradients, and those of rf_policy_options() */
void rf_trainer_policy_options(struct rf_trainer *t, struct rf_opts *opts);
/* --position-coef --length; lets --loss of the other table be "positions", too */
void rf_trainer_position_options(struct rf_trainer *t, struct rf_opts *loss, struct rf_opts *opts);
/* --batch --commit-every */
void rf_trainer_batch_options(struct rf_trainer *t, struct rf_opts *opts);

/* If there are several ranks, only rank 0 locks the run, writes the log and commits.  A failure of one rank
 * in any of the functions below is a failure of all ranks, because they vote (ranks.h).
 *
 * Locks the run, checks --at, --grad-in and the paths of all outputs, opens device and model, and allocates
 * the memory of the optimizer.  With --dry-run it checks everything, but locks, allocates and changes
 * nothing.  With --weights-out the model may be any checkpoint, and is only read.  If the run is already past
 * --at, sets t->open.done_before and does nothing else. */
enum rf_code rf_trainer_open(struct rf_trainer *t, struct rf_err *e);
/* Checks that the rollouts of the stream were made by weights that are recent enough (--stale), and notes
 * their age for the log.  Errors: RF_EDATA: the weights are too old, or unknown. */
enum rf_code rf_trainer_check_weights(struct rf_trainer *t, const struct rf_head *h, struct rf_err *e);
/* Returns the number of records of a batch that this rank has; INT_MAX: the whole stream. */
int rf_trainer_share(const struct rf_trainer *t);
/* Returns how many of the first n records of this rank belong to the first mini-batch. */
int rf_trainer_first(const struct rf_trainer *t, int n);
/* Begins a batch, and checks that the stream is the share of this rank.  Errors: RF_EDATA: it is the share of
 * another rank, or was divided by other mini-batches. */
enum rf_code rf_trainer_begin(struct rf_trainer *t, const struct rf_head *h, struct rf_err *e);
/* Finds out whether any rank has records of the next batch; mine: this rank has. */
enum rf_code rf_trainer_more(struct rf_trainer *t, bool mine, bool *any, struct rf_err *e);
/* Adds up the totals of all ranks for a mini-batch whose rollouts do not exist yet.  *totals: in: those of
 * this rank; out: the sums. */
enum rf_code rf_trainer_announce(struct rf_trainer *t, struct rf_totals *totals, struct rf_err *e);
/* Adds a copy of r to the mini-batch, and makes an optimizer step when this rank's share of the mini-batch is
 * full.  groups: counts of the record's groups, for the log; NULL: the record has no advantages. */
enum rf_code rf_trainer_add(struct rf_trainer *t, const struct rf_record *r,
                            const struct rf_group_stats *groups, struct rf_err *e);
/* Ends the records of a batch: makes the optimizer step of the last mini-batch, and with --outer response the
 * step on the responses.  Errors: RF_EDATA: there were no records; no record had the response, the rollouts
 * or the positions that the options need. */
enum rf_code rf_trainer_rest(struct rf_trainer *t, struct rf_err *e);
/* Appends the lines to the log and commits the step.  With --weights-out it writes the checkpoint instead of
 * a step, with --grad-out only the gradient.  Does nothing if the stream had no records.  t->stop is checked
 * until the new directory or file gets its name. */
enum rf_code rf_trainer_commit(struct rf_trainer *t, struct rf_err *e);
/* Ends one of several batches.  Commits all batches since the last commit if --commit-every says so, if this
 * batch is the last one, or if the file RUN/stop exists; *stopped: whether it exists. */
enum rf_code rf_trainer_end(struct rf_trainer *t, bool last, bool *stopped, struct rf_err *e);
/* Writes a sentence about the mini-batches without an optimizer step to buf, and returns buf; "": every
 * mini-batch made one. */
const char *rf_trainer_remark(const struct rf_trainer *t, char *buf, size_t size);
/* Tells the other ranks, at their next vote, that this rank ends with the failure in e; then e becomes the
 * failure that all ranks end with.  Does nothing if the failure came from another rank, or if the other ranks
 * have ended. */
void rf_trainer_leave(struct rf_trainer *t, struct rf_err *e);
void rf_trainer_close(struct rf_trainer *t);

#endif
