/* writer.h -- writes a checkpoint directory, which appears whole or not at all:
 *
 *     rf_ckpt_begin()         makes the directory under a temporary name, and copies into it the files that
 *                             do not depend on the weights
 *     rf_ckpt_put_weights()   writes config.json and model.safetensors
 *     rf_ckpt_put_moments()   writes optim.safetensors, if the writer has moments
 *     rf_ckpt_finish()        writes the list of files, syncs the directory, and renames it
 *
 * All programs write checkpoints in this order.  A function that fails also removes the temporary directory;
 * after that the writer holds nothing.  A caller that gives up in between calls rf_ckpt_abandon(). */
#ifndef RF_WRITER_H
#define RF_WRITER_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"
#include "ckpt/ckpt.h"

struct rf_ckpt_writer {
	/* settings */
	/* the checkpoint whose other files, and tensors that the model does not have, are copied; NULL:
	   none */
	const struct rf_ckpt *from;
	const struct rf_config *cfg;
	const struct rf_params *params;
	enum rf_dtype dtype; /* the type of the weights in the file: F32, BF16 or F16 */
	/* how to read weights and moments that are in a device's memory; then dtype must be F32.  NULL: they
	   are in host memory */
	const struct rf_transfer *transfer;
	/* "bytes", or a directory whose tokenizer files are copied; NULL: the tokenizer is that of `from` */
	const char *tokenizer;
	bool with_moments; /* rf_ckpt_put_moments() will be called */
	/* a step whose run has a manifest gets a README.md that is a model card (rf_card() in manifest.h) */
	bool with_card;
	/* the directory may exist if a writer with this setting made it; then the new one replaces it.  Where
	   the file system cannot exchange two names, there is no directory for a moment */
	bool replace;
	/* checked until the rename; if it is set, nothing has changed, and RF_EIO says "interrupted"; may be
	   NULL */
	const volatile sig_atomic_t *stop;
	/* open */
	char to[4096], dir[4096];      /* the directory, and its temporary name */
	json_t *files;                 /* {name: {size, xxh64}} of the files in it; NULL: nothing is open */
	char *card;                    /* the text of README.md; NULL: none */
	char weights[17], moments[17]; /* hashes of the weights and of optim.safetensors; "": not written */
	uint64_t parts;                /* bytes of a file of moments that processes share; 0: not shared */
};
/* A writer whose checkpoint has the config of `ckpt`, and its other files and tensors. */
#define RF_CKPT_WRITER(ckpt) \
	{ \
		.from = (ckpt), .cfg = &(ckpt)->cfg, .params = &(ckpt)->params, .dtype = RF_F32 \
	}

/* Begins a checkpoint directory at `path`, which must not exist unless w->replace is set.  Errors: RF_EUSAGE:
 * path exists, or the directory is not one that may be replaced; RF_EIO: no permission, or too little
 * room. */
enum rf_code rf_ckpt_begin(struct rf_ckpt_writer *w, const char *path, struct rf_err *e);
/* Writes the weights, flat in the order of w->params.  Errors: RF_ENUMERIC: w->dtype cannot hold a weight. */
enum rf_code rf_ckpt_put_weights(struct rf_ckpt_writer *w, const float *weights, struct rf_err *e);
/* Writes both moments of all weights. */
enum rf_code rf_ckpt_put_moments(struct rf_ckpt_writer *w, const float *m, const float *v, struct rf_err *e);
/* Finishes the checkpoint, which then survives a power loss.  state: the contents of state.json; NULL: a bare
 * checkpoint.  Errors: RF_EIO; RF_EUSAGE: someone changed the directory that is to be replaced. */
struct rf_state;
enum rf_code rf_ckpt_finish(struct rf_ckpt_writer *w, const struct rf_state *state, struct rf_err *e);
/* Removes what was written so far; does nothing if nothing is open. */
void rf_ckpt_abandon(struct rf_ckpt_writer *w);

/* Writes a bare checkpoint: begins, puts the weights, finishes. */
enum rf_code rf_ckpt_write(struct rf_ckpt_writer *w, const char *path, const float *weights,
                           struct rf_err *e);

/* If several processes have the moments, one has the writer, and calls this instead of
 * rf_ckpt_put_moments(): it makes the file, whose path is stored, without the moments.  Each process then
 * writes its span with rf_ckpt_put_span(), and the writer finishes when all have done so. */
enum rf_code rf_ckpt_share_moments(struct rf_ckpt_writer *w, char path[4096], struct rf_err *e);
/* Writes a span of the moments into the file at `path`, and syncs it.  m, v: span->n floats each.  Errors:
 * RF_EIO; RF_EMODEL: the file is not of these parameters. */
enum rf_code rf_ckpt_put_span(const char *path, const struct rf_params *params, const struct rf_span *span,
                              const float *m, const float *v, const struct rf_transfer *transfer,
                              struct rf_err *e);

/* Checks before the work, as far as that can be known, that a writer with `replace` can write to path.
 * Errors: those of rf_ckpt_begin(); RF_EUSAGE: path is part of the checkpoint `from` or of its run. */
enum rf_code rf_ckpt_can_replace(const struct rf_ckpt *from, const char *path, struct rf_err *e);

#endif
