/* engine.h -- what lasts as long as a program with a model: the device, the checkpoint, the weights.  Memory
 * for sequences is that of struct rf_work (work.h), of which an engine may have several. */
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
	const char *path;            /* -m */
	const char *device, *isa;    /* NULL: those in the environment */
	int threads, max_len;
	int segment;                 /* 0: rf_engine_open() sets it: the comment there */
	enum rf_math math;           /* once the engine is open: the device's */
	bool dry_run;
	/* of a model that is trained, this process keeps the moments of the part-th of so many parts
	   (rf_params_part()); 0: of all */
	int part, parts;
	/* the stage; set before the engine is opened */
	struct rf_work *work;        /* what memory is planned for; rf_work_init() sets it */
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
	bool train;
};
#define RF_ENGINE_DEFAULTS { .device = NULL }

/* -m, --device, --threads, --isa, --segment, --max-len, --dtype, --dry-run.  The default of
 * --device is $RF_DEVICE, else auto; the default of --isa is $RF_ISA, else auto.  model: the text of --help
 * for -m; NULL: a run or a checkpoint. */
void rf_engine_options(struct rf_engine *g, const char *model, struct rf_opts *opts);

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

#endif
