/* made.h -- writes a trainer's lines of the run's manifest (ckpt/manifest.h): the program and its options,
 * the stages that made the batch, the device, the libraries; in the first line also the weights and the data
 * that the run began with. */
#ifndef RF_MADE_H
#define RF_MADE_H

#include "train/trainer.h"

/* Notes the weights that the run began with, if the step's history still has their hash, and checks that the
 * run's manifest and words can be read.  Errors: those of rf_manifest_read() and rf_manifest_words(). */
enum rf_code rf_made_begin(struct rf_trainer *t, struct rf_err *e);
/* Notes the stages in the history of a batch. */
enum rf_code rf_made_stages(struct rf_trainer *t, const struct rf_head *h, struct rf_err *e);
/* Writes the parts that have changed into the run's manifest.  Call it just before a step is committed. */
enum rf_code rf_made_note(struct rf_trainer *t, struct rf_err *e);
void rf_made_free(struct rf_trainer *t);

#endif
