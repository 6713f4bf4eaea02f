/* engine.h -- the device, the checkpoint and the weights, which last as long as a program with a model.
 * Memory for sequences belongs to struct rf_work (work.h); an engine may have several. */
#ifndef RF_ENGINE_H
#define RF_ENGINE_H

#include <stdbool.h>

#include "base/err.h"
#include "base/opt.h"
#include "ckpt/ckpt.h"
#include "device/dev.h"
#include "model/model.h"
#include "stream/stream.h"

struct rf_work;

struct rf_engine {
	/* settings */
	const char *path;         /* -m */
	const char *device, *isa; /* NULL: the values in the environment */
	int threads, max_len;
	int segment;       /* 0: rf_engine_open() chooses it */
	enum rf_math math; /* when the engine is open: the type that the device uses */
	bool dry_run;
	/* in training: the part of the moments that this process keeps, and the number of parts
	   (rf_params_part()); parts 0: all moments */
	int part, parts;
	/* the stage; set before the engine is opened */
	struct rf_work *work; /* the memory to plan; rf_work_init() sets it */
	bool response;        /* whether the stage also reads the response after a record's tokens */
	/* checks that the stage accepts this record of this stream, else RF_EDATA; it may change the record.
	   --dry-run calls it for the first record.  NULL: rf_engine_check_record() is called */
	enum rf_code (*fits)(const struct rf_head *h, struct rf_record *r, struct rf_err *e);
	/* open */
	const char *note;           /* a note for the user about the device; NULL: none */
	const struct rf_ckpt *ckpt; /* names and hashes of the weights */
	struct rf_ckpt own;         /* the checkpoint that rf_engine_open() has opened */
	struct rf_dev dev;
	struct rf_model model;
	struct rf_transfer transfer; /* copies to and from device memory, for loading and saving */
	bool train;
};
#define RF_ENGINE_DEFAULTS \
	{ \
		.device = NULL \
	}

/* -m, --device, --threads, --isa, --segment, --max-len, --dtype, --dry-run.  The default of --device is
 * $RF_DEVICE, else auto; the default of --isa is $RF_ISA, else auto.  model: the help of -m; NULL: that of a
 * run or a checkpoint. */
void rf_engine_options(struct rf_engine *g, const char *model, struct rf_opts *opts);

/* Opens the device and the checkpoint at g->path, and loads the weights.  If `ckpt` is given, it is used
 * instead of g->path: a trainer passes the step of the run that it has locked.  With --dry-run the weights
 * are read and checked, and nothing is allocated on the device.  g->note is set by rf_dev_open().
 *
 * A segment of 0 becomes 2048 rows on the CPU, where longer segments gain nothing.  On a GPU it becomes 8192
 * rows in training, and 4096 rows with recomputation, whose memory grows with the segment, and in filters,
 * which share the GPU with a trainer.  The number is halved, down to 2048, until the memory of the stage for
 * --max-len, or for one segment without --max-len, fits into the memory of the GPU together with the other
 * programs of a pipeline: a trainer leaves room for two filters.  The whole memory of the GPU counts, not its
 * free memory, so that the same program on the same GPU always computes the same bits. */
enum rf_code rf_engine_open(struct rf_engine *g, const struct rf_ckpt *ckpt, bool train, struct rf_err *e);
void rf_engine_close(struct rf_engine *g);

/* Checks that the vocabulary and the tokenizer of a stream fit the model.  Errors: RF_EDATA; the message
 * names the values of stream and model. */
enum rf_code rf_engine_check_head(const struct rf_engine *g, const struct rf_head *h, struct rf_err *e);
/* Returns how many tokens the stage reads as one sequence. */
int rf_engine_length(const struct rf_engine *g, const struct rf_record *r);
/* Checks the length and the tokens of a record, because a stream may not name its vocabulary.  Errors:
 * RF_EDATA: the record is longer than --max-len, or a token of its sequence, of a rollout or of a response
 * that the stage reads is outside the model's vocabulary. */
enum rf_code rf_engine_check_record(const struct rf_engine *g, const struct rf_record *r, struct rf_err *e);
/* Records in the head of a stream that this model computed the newest values and, if the head has none, the
 * size of the vocabulary.  draws: whether the stage writes tokens that the model draws.  The vocabulary of a
 * model is usually padded, and larger than that of the tokenizer; with `draws` the head then gets the larger
 * size. */
void rf_engine_sign(const struct rf_engine *g, struct rf_head *h, bool draws);
/* Records in the newest stage of the history that this model computed the values of the stage, and leaves the
 * rest of the head as it is: its model stays the one that computed all other values.  Errors: RF_ENOMEM. */
enum rf_code rf_engine_sign_stage(const struct rf_engine *g, struct rf_head *h, struct rf_err *e);

#endif
