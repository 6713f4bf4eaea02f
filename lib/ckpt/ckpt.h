/* ckpt.h -- checkpoints and run directories: where weights come from and where they go.
 *
 *     RUN/step-000012/   a complete Hugging Face checkpoint: config.json, model.safetensors, tokenizer files,
 *                        and optim.safetensors (exp_avg.NAME, exp_avg_sq.NAME), state.json (written last)
 *     RUN/latest         a symbolic link to the newest step
 *     RUN/.lock          held (flock) by a trainer from start to end
 *
 * A commit writes RUN/.step-N.tmp-PID/, fsyncs every file and the directory, renames it (that is the commit),
 * fsyncs RUN, swaps latest by rename.  At any instant a reader finds the old step or the new one. */
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

/* A checkpoint that was opened for reading: a bare directory, a step of a run, or a run (its latest,
 * rf_step_latest()). */
struct rf_ckpt {
	char dir[4096];           /* the directory of config.json */
	bool in_run;              /* it has a state.json */
	bool config_only;         /* dir is a config's file: there are no tensors, and all hashes are "" */
	struct rf_config cfg;
	struct rf_params params;
	struct rf_tensors tensors;
	bool tied;                /* no lm_head.weight in the file (or equal to the embeddings') */
	char warning[300];        /* what the user should know; "" for nothing */
	/* of that: latest points to nothing, and this is the newest step there is */
	char lost[RF_STEP_LOST];
	int64_t step;             /* 0 for a bare checkpoint */
	int64_t commits;          /* commits since the run began */
	int64_t updates;          /* steps that changed the weights: what AdamW's bias correction counts */
	char weights[17], arch[17], tokenizer[17]; /* hashes; tokenizer "" where there is none */
	/* weights hashes of this and the last commits, newest first */
	char past[RF_HASH_HISTORY + 1][17];
	int past_count;
	int64_t parent;           /* the step before; -1: none, or not known */
	char moments[17];         /* the hash of optim.safetensors; "" where the step has none */
	char data_hash[17];       /* state.json's data: what the run was fed with */
	int64_t data_next;
};

/* Opens and checks everything but the values: config, names and shapes (all that are missing, unexpected or
 * of another shape in one sentence), state.json.  RF_ENOINPUT, RF_EMODEL, RF_EIO. */
enum rf_code rf_ckpt_open(struct rf_ckpt *c, const char *path, struct rf_err *e);
/* For who wants no weights: whether path is a file, as a config is, and no directory; and the checkpoint that
 * it would make. */
bool rf_is_config(const char *path);
enum rf_code rf_ckpt_of_config(struct rf_ckpt *c, const char *path, struct rf_err *e);
/* Writes the weights as float32 into flat (params.total floats; padding is zeroed).  NaN or Inf in a weight:
 * RF_ENUMERIC names the tensor. */
enum rf_code rf_ckpt_load(const struct rf_ckpt *c, float *flat, struct rf_err *e);
/* The optimizer's moments; *there false (and zeros) where the step has none. */
enum rf_code rf_ckpt_load_moments(const struct rf_ckpt *c, float *m, float *v, bool *there, struct rf_err *e);
/* The weights, and with `moments` both moments, block by block, into memory that `reach` writes and reads and
 * that is zero before.  With w, m, v NULL the values are checked and go nowhere. */
enum rf_code rf_ckpt_load_to(const struct rf_ckpt *c, float *w, float *m, float *v, bool moments,
                             const struct rf_transfer *reach, struct rf_err *e);
/* Compares every byte with what state.json says of it (opening looks at sizes and small files only).  Of a
 * bare checkpoint there is nothing to compare. */
enum rf_code rf_ckpt_verify(const struct rf_ckpt *c, struct rf_err *e);
void rf_ckpt_close(struct rf_ckpt *c);

/* A run that is open for training. */
struct rf_run {
	char path[4096];
	int lock;
	struct rf_ckpt at;        /* the newest step */
	/* what the user should know of the last commit: old steps that stay, a disk that fills; "" */
	char warning[300];
};

/* Where path is RUN/latest or RUN/step-000012, the length of RUN in it; else 0. */
int rf_run_of_step(const char *path);

/* The lock alone: *lock is its file, and closed gives it back.  RF_EBUSY at once if another holds it. */
enum rf_code rf_run_lock(const char *run, int *lock, struct rf_err *e);
/* Locks (RF_EBUSY at once if another holds it), removes what a killed trainer left, repairs `latest` (and
 * warns, in `at`, where it pointed to nothing), opens the newest step.  A bare checkpoint is RF_EUSAGE and
 * says how to begin a run. */
enum rf_code rf_run_open(struct rf_run *r, const char *path, struct rf_err *e);
/* The same without the lock, and without changing anything: only to look.  A config's file is a run at its
 * beginning. */
enum rf_code rf_run_look(struct rf_run *r, const char *path, struct rf_err *e);
void rf_run_close(struct rf_run *r);
/* Before the work: whether a step with moments could be written, as far as looking can tell.  RF_EIO. */
enum rf_code rf_run_can_commit(const struct rf_run *r, struct rf_err *e);

struct rf_commit {
	int64_t step;             /* the number of the new step: optimizer steps since the run began */
	int64_t updates;          /* those of them that changed the weights */
	/* flat, as the table of r->at.params says; m, v may be NULL (no moments yet) */
	const float *weights, *m, *v;
	/* how they are read where they are a device's memory; NULL: they are the host's */
	const struct rf_transfer *reach;
	const char *data_hash;    /* NULL: as before */
	int64_t data_next;
	int keep;                 /* newest steps that stay, >= 1 */
	int keep_every;           /* and every step that this divides; 0: none */
	/* looked at until the rename; set: nothing changed, RF_EIO "interrupted" */
	const volatile sig_atomic_t *stop;
};

/* Commits a step.  Tensors of the checkpoint that are not the model's, and its other files, are
 * carried along unchanged.  Where nothing was learned the weights may equal the old ones.  After
 * RF_OK it survives a power loss. */
enum rf_code rf_run_commit(struct rf_run *r, const struct rf_commit *c, struct rf_err *e);

/* The three below make a directory that appears whole or not at all; stop (may be NULL) as in struct
 * rf_commit. */

/* Begins a run: RUN/step-000000 from a checkpoint (saved as float32), atomically; RUN must not
 * exist or be empty. */
enum rf_code rf_run_begin(const struct rf_ckpt *from, const char *run, const volatile sig_atomic_t *stop,
                          struct rf_err *e);
/* Writes a bare checkpoint of these weights as float32, bf16 or f16 into dir, which must not exist.  A weight
 * that f16 or bf16 cannot hold is RF_ENUMERIC. */
enum rf_code rf_ckpt_export(const struct rf_ckpt *from, const float *flat, enum rf_dtype dtype,
                            const char *dir, const volatile sig_atomic_t *stop, struct rf_err *e);
/* The same for fresh weights: cfg and table are given instead of a checkpoint, and tokenizer is "bytes", a
 * directory to copy tokenizer files from, or NULL. */
enum rf_code rf_ckpt_create(const struct rf_config *cfg, const struct rf_params *params, const float *flat,
                            const char *tokenizer, const char *dir, const volatile sig_atomic_t *stop,
                            struct rf_err *e);

#endif
