/* ckpt_text.h -- what a run, a checkpoint or a safetensors file holds. */
#ifndef RF_CKPT_TEXT_H
#define RF_CKPT_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/page.h"
#include "ckpt/ckpt.h"
#include "ckpt/tensors.h"
#include "dump/table.h"

struct rf_ckpt_text {
	const char *path;
	char name[200];           /* of it, for messages */
	bool is_ckpt;             /* else it is a file of tensors */
	struct rf_ckpt *ckpt;
	struct rf_tensors file;
	const struct rf_tensors *tensors;
	struct rf_step *step;     /* of a run, ascending */
	int steps;
	uint64_t count, bytes;    /* of all tensors; count: of a checkpoint the model's parameters */
	int name_width;
};

/* Whether the path is for rf_ckpt_text_open(): a directory, or a file that begins as safetensors does or has
 * its name. */
bool rf_ckpt_text_is(const char *path);
enum rf_code rf_ckpt_text_open(struct rf_ckpt_text *x, const char *path, struct rf_err *e);
void rf_ckpt_text_close(struct rf_ckpt_text *x);

/* Of a tensor's elements, in double, in their order; NaN where the dtype is not one of floats. */
enum rf_code rf_ckpt_text_stats(const struct rf_tensor *t, struct rf_stats *out, struct rf_err *e);
/* That every number is finite, and every byte of a step what its state.json says.  Of a run whose step is
 * removed meanwhile the newest is opened instead. */
enum rf_code rf_ckpt_text_check(struct rf_ckpt_text *x, struct rf_err *e);

/* Everything but the tensors: text of that width; lines of JSON, one for the checkpoint and one for
 * each step. */
void rf_ckpt_text_text(const struct rf_ckpt_text *x, int width, struct rf_buf *p);
void rf_ckpt_text_json(const struct rf_ckpt_text *x, struct rf_buf *p);
/* A tensor or a step as a line. */
void rf_ckpt_text_row_text(const struct rf_ckpt_text *x, const struct rf_row *row, bool stats,
                           struct rf_buf *p);
void rf_ckpt_text_row_json(const struct rf_row *row, bool stats, struct rf_buf *p);

#endif
