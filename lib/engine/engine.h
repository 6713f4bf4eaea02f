/* engine.h -- what every program with a model does before its first record: open the checkpoint and the
 * device, plan memory, load; and, for longer sequences than planned, plan again.
 *
 * With --max-len memory is added up and allocated before the first record is read, for sequences of that
 * length with as many positions and rollouts as the stream's history says (else as the paper of ReFINE has
 * them, arXiv:2602.16704), so it runs out at the start or never; a longer record is refused where it stands.
 * Without it memory is planned for the first record (a trainer: for the first mini-batch), and again for a
 * longer one. */
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

/* What memory is planned for: sequences of T tokens, c positions, n rollouts of k tokens at each. */
struct rf_shape { int T, c, n, k; };
#define RF_SHAPE_PAPER { .c = 8, .n = 1, .k = 5 }

/* What a stage needs for a shape. */
struct rf_demand {
	struct rf_plan plan;
	size_t extra;                /* device memory beside the tree */
	size_t host;                 /* of the records it holds and writes */
};

struct rf_engine {
	/* settings */
	const char *path;            /* -m */
	const char *device, *isa;    /* NULL: the environment's */
	int threads, segment, max_len;
	enum rf_math math;           /* once the engine is open, the device's */
	bool deterministic;          /* no effect: every device is deterministic */
	bool dry_run;
	/* the stage, set before its input is opened */
	/* sets what it decides itself of the shape */
	void (*needs)(const void *stage, struct rf_shape *shape, struct rf_demand *need);
	const void *stage;
	/* RF_EDATA where the stage would refuse a record of such a stream, which it may change: --dry-run
	 * asks it of the first.  NULL: it takes what rf_engine_check_record() takes */
	enum rf_code (*fits)(const struct rf_head *h, struct rf_record *r, struct rf_err *e);
	/* open */
	const char *note;            /* what the user should know of the device; NULL: nothing */
	const struct rf_ckpt *ckpt;  /* the weights' names and hashes */
	struct rf_ckpt own;          /* opened by rf_engine_open() */
	struct rf_dev dev;
	struct rf_model model;
	struct rf_transfer reach;       /* to the device's memory, for loading and saving */
	struct rf_tree *tree;
	struct rf_plan plan;         /* of the tree */
	void *extra;                 /* device memory of the stage, beside the tree: rf_engine_reserve() */
	size_t extra_bytes;
	bool train;
};
#define RF_ENGINE_DEFAULTS { .device = NULL, .segment = 2048 }

/* -m, --device, --threads, --isa, --segment, --max-len, --dtype, --deterministic, --dry-run.  The default
 * device is $RF_DEVICE, else auto, and so is the level of the instruction set, $RF_ISA.  model: what -m
 * takes, for --help; NULL: a run or a checkpoint. */
enum { RF_ENGINE_OPTS = 10 };
void rf_engine_options(struct rf_engine *g, const char *model, struct rf_opt opts[RF_ENGINE_OPTS]);

/* Opens the device, and the checkpoint at g->path unless `ckpt` is given (a trainer's, whose run is locked);
 * loads the weights.  With --dry-run they are read and checked, and nothing is allocated on the device.
 * g->note is rf_dev_open()'s. */
enum rf_code rf_engine_open(struct rf_engine *g, const struct rf_ckpt *ckpt, bool train, struct rf_err *e);
void rf_engine_close(struct rf_engine *g);

/* RF_EDATA with both sides' values where a stream's vocabulary or tokenizer is not the model's. */
enum rf_code rf_engine_check_head(const struct rf_engine *g, const struct rf_head *h, struct rf_err *e);
/* RF_EDATA where a record is longer than --max-len, or a token, of the text or of a rollout, is not in the
 * model's vocabulary: a stream need not say its own. */
enum rf_code rf_engine_check_record(const struct rf_engine *g, const struct rf_record *r, struct rf_err *e);
/* Says in a head that the newest values are this model's, and where it is silent which vocabulary that is.
 * draws: tokens of the model's own are written, and its vocabulary may be larger than the tokenizer's
 * (padded, as is usual): then the head's grows to it. */
void rf_engine_sign(const struct rf_engine *g, struct rf_head *h, bool draws);

/* The shape that a stream's history announces; what it does not say, or says beyond reason, stays as it is in
 * *shape.  Whether it says anything. */
bool rf_engine_expect(const struct rf_head *h, struct rf_shape *shape);
/* With --max-len: the memory that the stage needs for it, before the first record. */
enum rf_code rf_engine_ahead(struct rf_engine *g, const struct rf_head *h, struct rf_err *e);
/* Makes the tree large enough for the plan (its segment is the engine's own) and g->extra for the stage; what
 * was in them is lost where they grow. */
enum rf_code rf_engine_reserve(struct rf_engine *g, const struct rf_plan *want, size_t extra,
                               struct rf_err *e);

/* Where a program's memory goes, in bytes. */
struct rf_memory {
	size_t all;
	size_t weights;              /* with gradient and moments where it trains */
	size_t pass;                 /* tree and extra */
	size_t device;               /* what the device takes beside: struct rf_workspace */
	size_t host;                 /* the program, its libraries, and records */
};
/* RF_ENOMEM: more than can be counted. */
enum rf_code rf_engine_memory(struct rf_engine *g, struct rf_shape *shape, struct rf_memory *m,
                              struct rf_err *e);

/* What the stage computes for one sequence of a shape with its rollouts, in matrix products and mixers; and
 * how much of it the device does in a second, by one product of the model's that is timed now (some
 * hundredths of a second, some MiB). */
struct rf_speed { double flops, per_second; };
enum rf_code rf_engine_speed(struct rf_engine *g, struct rf_shape *shape, struct rf_speed *s,
                             struct rf_err *e);

#endif
