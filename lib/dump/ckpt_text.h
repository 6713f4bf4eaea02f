/* ckpt_text.h -- shows the contents of a run, a checkpoint or a safetensors file as text and JSON. */
#ifndef RF_CKPT_TEXT_H
#define RF_CKPT_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/print.h"
#include "ckpt/ckpt.h"
#include "ckpt/tensors.h"
#include "dump/table.h"

struct rf_ckpt_text {
	const char *path;
	char name[200]; /* path for messages, safe to show on a terminal */
	bool is_ckpt;   /* false: a file of tensors */
	struct rf_ckpt *ckpt;
	struct rf_tensors file;
	const struct rf_tensors *tensors;
	struct rf_saved_step *step; /* steps of a run, ascending */
	int steps;
	int64_t best;              /* step of the run's link `best`; -1: no such link */
	struct rf_rank_sign *rank; /* ranks that train the run now, ascending */
	int ranks;
	uint64_t count, bytes; /* sums over all tensors; count: in a checkpoint, the model's parameters */
	int name_width;
	json_t *manifest; /* lines of the run's manifest (manifest.h); NULL: not a run */
};

/* Returns whether rf_ckpt_text_open() can open this path: a directory, or a file that is named *.safetensors
 * or begins like such a file. */
bool rf_ckpt_text_is(const char *path);
enum rf_code rf_ckpt_text_open(struct rf_ckpt_text *x, const char *path, struct rf_err *e);
void rf_ckpt_text_close(struct rf_ckpt_text *x);

/* Computes the statistics of a tensor's elements, in double and in their order; NaN if the dtype is not a
 * floating-point type. */
enum rf_code rf_ckpt_text_stats(const struct rf_tensor *t, struct rf_stats *out, struct rf_err *e);
/* Checks that every number is finite, and that the files of a step have the hashes in its state.json.  If a
 * trainer removes the step meanwhile, opens and checks the newest step of the run instead. */
enum rf_code rf_ckpt_text_check(struct rf_ckpt_text *x, struct rf_err *e);

/* Append everything but the tensors.  As text: lines of at most `width` columns.  As JSON: one line for the
 * checkpoint, one for each step, and one for each line of the manifest. */
void rf_ckpt_text_print(const struct rf_ckpt_text *x, int width, struct rf_buf *p);
void rf_ckpt_text_json(const struct rf_ckpt_text *x, struct rf_buf *p);
/* Append one tensor, step or rank as a line.  stats: whether to show the statistics of a tensor's
 * elements. */
void rf_ckpt_text_print_row(const struct rf_ckpt_text *x, const struct rf_row *row, bool stats,
                            struct rf_buf *p);
void rf_ckpt_text_row_json(const struct rf_row *row, bool stats, struct rf_buf *p);

#endif
