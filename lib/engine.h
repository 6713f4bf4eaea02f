/* engine.h -- what every program with a model does before its first record: open the checkpoint and the device, plan
 * memory, load; and, for a longer sequence than planned, plan again.
 *
 * Memory is added up and allocated before the first record where --max-len says how long sequences get, else for the
 * first record, and again for a longer one: it runs out at the start or never. */
#ifndef RF_ENGINE_H
#define RF_ENGINE_H

#include <stdbool.h>

#include "dev.h"
#include "err.h"
#include "model.h"
#include "opt.h"
#include "run.h"
#include "stream.h"
#include "tree.h"

struct rf_engine {
	/* settings */
	const char *path;            /* -m */
	const char *device;
	int threads, segment, max_len;
	int math;                    /* enum rf_math */
	bool dry_run;
	/* open */
	const char *note;            /* what the user should know of the device; NULL: nothing */
	const struct rf_ckpt *ckpt;  /* the weights' names and hashes */
	struct rf_ckpt own;          /* opened by rf_engine_open() */
	struct rf_dev dev;
	struct rf_model model;
	struct rf_tree *tree;
	struct rf_plan plan;         /* of the tree */
	void *extra;                 /* device memory of the stage, beside the tree: rf_engine_extra() */
	size_t extra_bytes;
	bool train;
};
#define RF_ENGINE_DEFAULTS { .device = NULL, .segment = 2048 }

/* -m, --device, --threads, --segment, --max-len, --dtype, --dry-run.  The default device is $RF_DEVICE, else
 * auto. */
enum { RF_ENGINE_OPTS = 8 };
void rf_engine_options(struct rf_engine *g, struct rf_opt opts[RF_ENGINE_OPTS]);

/* Opens the device, and the checkpoint at g->path unless `ckpt` is given (a trainer's, whose run is locked); loads the
 * weights.  With --dry-run nothing is loaded or allocated on the device. */
enum rf_code rf_engine_open(struct rf_engine *g, const struct rf_ckpt *ckpt, bool train, struct rf_err *e);
void rf_engine_close(struct rf_engine *g);

/* RF_EDATA with both sides' values where a stream's vocabulary or tokenizer is not the model's. */
enum rf_code rf_engine_check_head(const struct rf_engine *g, const struct rf_head *h, struct rf_err *e);
/* RF_EDATA where a token, of the text or of a rollout, is not in the model's vocabulary: a stream need not say its own. */
enum rf_code rf_engine_check_record(const struct rf_engine *g, const struct rf_record *r, struct rf_err *e);
/* Says in a head that the newest values are this model's, and which vocabulary and tokenizer that is where it is silent. */
void rf_engine_sign(const struct rf_engine *g, struct rf_head *h);

/* Makes the tree large enough for `want` (its segment is the engine's own) and `extra` bytes of stage memory at g->extra;
 * what was in them is lost where they grow.  RF_EDATA: longer than --max-len. */
enum rf_code rf_engine_reserve(struct rf_engine *g, const struct rf_plan *want, size_t extra, struct rf_err *e);

/* Device bytes in all for a plan: weights, tree and extra. */
size_t rf_engine_bytes(struct rf_engine *g, const struct rf_plan *want, size_t extra);

/* Texts for --dry-run: settings and memory, as lines into buf. */
void rf_engine_describe(struct rf_engine *g, const struct rf_plan *want, size_t extra, char *buf, size_t size);

#endif
