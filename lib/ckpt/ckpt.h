/* ckpt.h -- reads checkpoints, and opens and commits runs.
 *
 *     RUN/step-000012/   a complete Hugging Face checkpoint: config.json, model.safetensors, tokenizer files,
 *                        and optim.safetensors (exp_avg.NAME, exp_avg_sq.NAME), state.json (written last)
 *     RUN/latest         a symbolic link to the newest step
 *     RUN/manifest.json  the inputs, programs and machines that made the run (manifest.h)
 *     RUN/.lock          held (flock) by a trainer from start to end
 *
 * A commit writes RUN/.step-N.tmp-PID/, fsyncs every file and the directory, renames it (this is the commit),
 * fsyncs RUN, and replaces `latest` by rename.  At any instant a reader finds the old step or the new one. */
#ifndef RF_CKPT_H
#define RF_CKPT_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "ckpt/tensors.h"
#include "io/steps.h"
#include "model/config.h"
#include "model/params.h"

enum { RF_HASH_HISTORY = 16 };

/* A checkpoint that is open for reading: a bare directory, a step of a run, or a run, which means its latest
 * step (rf_step_latest()). */
struct rf_ckpt {
	char dir[4096];   /* the directory of config.json */
	bool in_run;      /* it has a state.json */
	bool config_only; /* dir is a config file: there are no tensors, and all hashes are "" */
	struct rf_config cfg;
	struct rf_params params;
	struct rf_tensors tensors;
	bool tied;         /* the file has no lm_head.weight, or one equal to the embedding */
	char warning[700]; /* a warning for the user; "": none */
	/* the part of `warning` about files and tensors that are not read; "": none */
	char unread[400];
	/* the part of `warning` about a link `latest` that does not lead to a step; "": none */
	char lost[RF_STEP_LOST];
	int64_t step;    /* 0 for a bare checkpoint */
	int64_t commits; /* commits since the run began */
	int64_t updates; /* steps that changed the weights, for AdamW's bias correction */
	char weights[17], arch[17], tokenizer[17]; /* hashes; tokenizer "": it has no tokenizer */
	/* hashes of the weights of this and the previous commits, newest first */
	char past[RF_HASH_HISTORY + 1][17];
	int past_count;
	int64_t parent;     /* the step before; -1: none, or unknown */
	char moments[17];   /* the hash of optim.safetensors; "": the step has no moments */
	char data_hash[17]; /* the hash of the last batch's records, from state.json; "": unknown */
	int64_t data_next;  /* the number of records that the run was trained on */
	/* the mean reward of the batches that were trained on with --baseline running */
	bool has_reward_mean;
	double reward_mean;
};

/* Opens a checkpoint and checks everything except the values: the config, state.json, and the names and
 * shapes of the tensors (one sentence lists all that are missing, unexpected or of another shape).  Tensors
 * that the model does not own (rf_config_owns()) are not read, whatever their types and wherever an index
 * places them.  The warning counts them unless the checkpoint is a step of a run.  Errors: RF_ENOINPUT,
 * RF_EMODEL, RF_EIO. */
enum rf_code rf_ckpt_open(struct rf_ckpt *c, const char *path, struct rf_err *e);
/* For callers that need no weights.  rf_is_config(): returns whether path is a regular file, as a config is.
 * rf_ckpt_of_config(): opens a checkpoint without weights that has this config. */
bool rf_is_config(const char *path);
enum rf_code rf_ckpt_of_config(struct rf_ckpt *c, const char *path, struct rf_err *e);
/* Reads the weights as float32 into flat, params.total floats; the padding is zeroed.  Errors: RF_ENUMERIC: a
 * weight is NaN or Inf, and the message names the tensor; RF_EMODEL: the weights of a step do not have the
 * hash in its state.json. */
enum rf_code rf_ckpt_load(const struct rf_ckpt *c, float *flat, struct rf_err *e);
/* Reads the moments of the optimizer.  *there: whether the step has moments; if not, m and v are zeroed. */
enum rf_code rf_ckpt_load_moments(const struct rf_ckpt *c, float *m, float *v, bool *there, struct rf_err *e);
/* Reads the weights, and both moments of the span `own` (NULL: no moments), block by block, into memory that
 * `transfer` accesses and that the caller has zeroed.  If the memory cannot be read back, the weights of a
 * step are read from their file a second time, to compare them with their hash.  m, v: own->n floats each.
 * w, m and v NULL: only checks the values. */
enum rf_code rf_ckpt_load_to(const struct rf_ckpt *c, float *w, const struct rf_span *own, float *m, float *v,
                             const struct rf_transfer *transfer, struct rf_err *e);
/* Compares every byte with the hashes in state.json.  (Opening compares only the sizes of the files, and the
 * bytes of all files except .safetensors.)  Does nothing for a bare checkpoint, which has no hashes. */
enum rf_code rf_ckpt_verify(const struct rf_ckpt *c, struct rf_err *e);
/* Checks that the model can read a stream with this head.  Errors: RF_EDATA: the stream has a larger
 * vocabulary, or was made with another tokenizer. */
struct rf_head;
enum rf_code rf_ckpt_check_head(const struct rf_ckpt *c, const struct rf_head *h, struct rf_err *e);
void rf_ckpt_close(struct rf_ckpt *c);

/* A run that is open for training. */
struct rf_run {
	char path[4096];
	int lock;          /* the file that holds the lock; -1: not locked */
	struct rf_ckpt at; /* the newest step */
	/* a warning of the last commit: old steps were not removed, or the disk is nearly full; "": none */
	char warning[300];
};

/* Takes only the lock, without waiting.  *lock: the file that holds it; closing the file releases the lock.
 * Errors: RF_EBUSY: another process holds the lock. */
enum rf_code rf_run_lock(const char *run, int *lock, struct rf_err *e);
/* Locks the run, removes the temporary files of a killed trainer, opens the newest step and repairs `latest`;
 * if `latest` led nowhere, r->at has a warning.  Errors: RF_EBUSY: another process holds the lock; RF_EUSAGE:
 * path is a bare checkpoint, and the message tells how to begin a run. */
enum rf_code rf_run_open(struct rf_run *r, const char *path, struct rf_err *e);
/* Opens the newest step without taking the lock or changing anything.  A config file counts as a run at its
 * beginning. */
enum rf_code rf_run_look(struct rf_run *r, const char *path, struct rf_err *e);
void rf_run_close(struct rf_run *r);
/* Returns the number of bytes that the next step takes at most, with moments. */
uint64_t rf_run_step_bytes(const struct rf_run *r);
/* Checks before the work, as far as that can be known, that a step with moments can be written.  Errors:
 * RF_EIO: no permission, or too little room. */
enum rf_code rf_run_can_commit(const struct rf_run *r, struct rf_err *e);

/* A step that is to be committed, apart from its weights and moments. */
struct rf_commit {
	int64_t step;    /* the number of the new step: optimizer steps since the run began */
	int64_t updates; /* how many of them changed the weights */
	/* the number of batches since the last commit, by which `commits` in state.json grows; 0 counts as
	   1 */
	int batches;
	const char *data_hash; /* NULL: data_hash and data_next stay as they were */
	int64_t data_next;
	bool has_reward_mean; /* false: the mean stays as it was */
	double reward_mean;
	int keep;       /* the number of newest steps to keep, >= 1 */
	int keep_every; /* also keep every step that this divides; 0: no others */
};

/* A commit is written by a writer (writer.h) with the settings RF_CKPT_WRITER(&r->at): rf_commit_begin(),
 * then weights and moments, then rf_commit_finish(), which moves r->at to the new step.  The weights may
 * equal the old ones, if nothing was learned.  After RF_OK the step survives a power loss. */
struct rf_ckpt_writer;
enum rf_code rf_commit_begin(const struct rf_run *r, const struct rf_commit *c, struct rf_ckpt_writer *w,
                             struct rf_err *e);
enum rf_code rf_commit_finish(struct rf_run *r, const struct rf_commit *c, struct rf_ckpt_writer *w,
                              struct rf_err *e);

/* Moves r->at to a step that another process has committed.  weights: their hash. */
void rf_run_follow(struct rf_run *r, const struct rf_commit *c, const char weights[17]);

/* Begins a run: writes RUN/step-000000 from a checkpoint, as float32.  RUN must not exist, or be an empty
 * directory; it appears whole or not at all.  stop: checked until then; may be NULL.  moments: the checkpoint
 * is a step of a run, and the new run begins with the step's moments, its mean reward, and its numbers of
 * steps and updates, so its first step has the same name.  Its commits begin at 0.  Errors: RF_EMODEL: the
 * step has no moments. */
enum rf_code rf_run_begin(const struct rf_ckpt *from, const char *run, bool moments,
                          const volatile sig_atomic_t *stop, struct rf_err *e);

#endif
