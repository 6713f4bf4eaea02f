/* engine.h -- what every program with a model does before its first record: open the checkpoint and the
 * device, plan memory, load the weights; and plan again for longer sequences than expected.
 *
 * With --max-len, memory is added up and allocated before the first record is read.  It is planned for
 * sequences of that length, with as many positions and rollouts as the stream's history announces, or else as
 * in the paper of ReFINE (arXiv:2602.16704).  So memory runs out at the start or never.  A longer record is
 * refused when it is read.  Without --max-len, memory is planned for the first record (in a trainer, for the
 * first mini-batch), and again for a longer one. */
#ifndef RF_ENGINE_H
#define RF_ENGINE_H

#include <stdbool.h>

#include "base/err.h"
#include "base/opt.h"
#include "ckpt/ckpt.h"
#include "device/dev.h"
#include "model/model.h"
#include "model/tree.h"
#include "stream/stream.h"

/* What memory is planned for: sequences of T tokens, c positions in each, n rollouts of k tokens at each
 * position. */
struct rf_shape { int T, c, n, k; };
#define RF_SHAPE_PAPER { .c = 8, .n = 1, .k = 5 }

/* What a stage needs for a shape. */
struct rf_demand {
	struct rf_plan plan;
	size_t extra;                /* device memory in addition to the tree: rf_engine_reserve() */
	size_t own;                  /* device memory that the stage has allocated itself */
	size_t host;                 /* host memory for the records that it holds and writes */
	const char *grows;           /* what the plan cannot count, for --dry-run to say; NULL: nothing */
};

struct rf_engine {
	/* settings */
	const char *path;            /* -m */
	const char *device, *isa;    /* NULL: those in the environment */
	int threads, max_len;
	int segment;                 /* 0: rf_engine_open() sets it: the comment there */
	enum rf_math math;           /* once the engine is open: the device's */
	bool deterministic;          /* no effect: every device is deterministic */
	bool dry_run;
	/* of a model that is trained, this process keeps the moments of the part-th of so many parts
	   (rf_params_part()); 0: of all */
	int part, parts;
	/* the stage; set before the engine is opened */

	/* computes what the stage needs for *shape; first overwrites what the stage itself decides of it */
	void (*needs)(const void *stage, struct rf_shape *shape, struct rf_demand *need);
	const void *stage;
	bool response;               /* the stage also reads the response that follows a record's tokens */
	/* whether the stage would accept this record of this stream, or else RF_EDATA; it may change the
	   record.  --dry-run calls it for the first record.  NULL: rf_engine_check_record() decides */
	enum rf_code (*fits)(const struct rf_head *h, struct rf_record *r, struct rf_err *e);
	/* open */
	const char *note;            /* what the user should know of the device; NULL: nothing */
	const struct rf_ckpt *ckpt;  /* names and hashes of the weights */
	struct rf_ckpt own;          /* opened by rf_engine_open() */
	struct rf_dev dev;
	struct rf_model model;
	struct rf_transfer transfer; /* copies to and from device memory, for loading and saving */
	struct rf_tree *tree;
	struct rf_plan plan;         /* of the tree */
	struct { int rollouts, steps; } now; /* what the device is prepared for: struct rf_workspace */
	void *extra;                 /* device memory of the stage, besides the tree: rf_engine_reserve() */
	size_t extra_bytes;
	bool train;
};
#define RF_ENGINE_DEFAULTS { .device = NULL }

/* -m, --device, --threads, --isa, --segment, --max-len, --dtype, --deterministic, --dry-run.  The default of
 * --device is $RF_DEVICE, else auto; the default of --isa is $RF_ISA, else auto.  model: the text of --help
 * for -m; NULL: a run or a checkpoint. */
enum { RF_ENGINE_OPTS = 10 };
void rf_engine_options(struct rf_engine *g, const char *model, struct rf_opt opts[RF_ENGINE_OPTS]);

/* Opens the device and the checkpoint at g->path, and loads the weights.  If `ckpt` is given, it is used
 * instead; a trainer passes the step of the run that it has locked.  With --dry-run the weights are read and
 * checked, and nothing is allocated on the device.  g->note is set by rf_dev_open().
 *
 * A segment of 0 becomes 2048 rows on the CPU, where more gain nothing.  A GPU wants more: 8192 in training,
 * 4096 with recomputation, which pays for rows by memory, and in filters, which share the GPU with a trainer.
 * It is halved, down to 2048, until what the stage needs for --max-len, or for one segment without it, fits
 * into the GPU's memory, beside the other programs of a pipeline: a trainer leaves room for two filters.
 * That is reckoned from all memory that the GPU has, not from what is free, so that the same program on the
 * same GPU always has the same bits. */
enum rf_code rf_engine_open(struct rf_engine *g, const struct rf_ckpt *ckpt, bool train, struct rf_err *e);
/* For an engine that was opened on its own checkpoint: goes on with the weights of `next`, a later step of
 * the same run, which it takes.  Errors: RF_EMODEL: it is another model. */
enum rf_code rf_engine_renew(struct rf_engine *g, struct rf_ckpt *next, struct rf_err *e);
void rf_engine_close(struct rf_engine *g);

/* Checks that a stream's vocabulary and tokenizer fit the model.  Errors: RF_EDATA: they do not, and the
 * message has the values of both sides. */
enum rf_code rf_engine_check_head(const struct rf_engine *g, const struct rf_head *h, struct rf_err *e);
/* How many tokens the stage reads as one sequence. */
int rf_engine_length(const struct rf_engine *g, const struct rf_record *r);
/* Errors: RF_EDATA: a record is longer than --max-len, or one of its tokens, in the sequence, in a rollout or
 * in a response that the stage reads, is outside the model's vocabulary (a stream need not say its own
 * vocabulary). */
enum rf_code rf_engine_check_record(const struct rf_engine *g, const struct rf_record *r, struct rf_err *e);
/* Writes into a stream's head that this model computed the newest values and, if the head does not say it,
 * the size of the vocabulary.  draws: the stage writes tokens that this model draws.  The model's vocabulary
 * may be larger than the tokenizer's (it is usually padded), so the head's then grows to it. */
void rf_engine_sign(const struct rf_engine *g, struct rf_head *h, bool draws);

/* Sets *shape to what a stream's history announces.  What it does not say, or says beyond reason, stays as it
 * is in *shape.  Returns whether it says anything. */
bool rf_engine_expect(const struct rf_head *h, struct rf_shape *shape);
/* With --max-len: allocates the memory that the stage needs for that length, before the first record.
 * Without: does nothing. */
enum rf_code rf_engine_ahead(struct rf_engine *g, const struct rf_head *h, struct rf_err *e);
/* Makes the tree large enough for the plan (with the engine's own segment), and g->extra for the stage.  What
 * was in either is lost if it grows. */
enum rf_code rf_engine_reserve(struct rf_engine *g, const struct rf_plan *want, size_t extra,
                               struct rf_err *e);

/* Frees the tree and g->extra: what is reserved next does not have to hold what was reserved before. */
void rf_engine_forget(struct rf_engine *g);
/* Bytes of the tree that rf_engine_reserve() would make for this plan.  0: the plan is too large to count, or
 * out of memory. */
size_t rf_engine_tree_bytes(const struct rf_engine *g, const struct rf_plan *want);

/* What a program's memory is used for, in bytes. */
struct rf_memory {
	size_t all;
	size_t weights;              /* with gradient, its exact sum, and moments, if it trains */
	size_t pass;                 /* tree and extra */
	size_t device;               /* what the device takes for operations: struct rf_workspace */
	size_t host;                 /* the program, its libraries, and records */
	const char *grows;           /* what is not counted; NULL: nothing */
};
/* Counts the memory that the stage needs for a shape, without allocating it on the device.  Errors:
 * RF_ENOMEM: it is more than can be counted. */
enum rf_code rf_engine_memory(struct rf_engine *g, struct rf_shape *shape, struct rf_memory *m,
                              struct rf_err *e);

/* flops: what the stage computes for one sequence of a shape with its rollouts, in matrix products and
 * mixers.  per_second: the speed of the device, measured now with one product of the model (which takes some
 * hundredths of a second and some MiB). */
struct rf_speed { double flops, per_second; };
enum rf_code rf_engine_speed(struct rf_engine *g, struct rf_shape *shape, struct rf_speed *s,
                             struct rf_err *e);

#endif
