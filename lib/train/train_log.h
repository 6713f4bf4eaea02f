/* train_log.h -- the log's line for an optimizer step (rf-grpo(1) lists the keys). */
#ifndef RF_TRAIN_LOG_H
#define RF_TRAIN_LOG_H

#include "train/trainer.h"

/* Appends the line of a step to t->open.unsaved.lines, if the trainer has a log.  outer: the step is the one
 * on the responses, whose figures have other keys.  seconds: the time of the step.  Errors: RF_ENOMEM. */
enum rf_code rf_train_log(struct rf_trainer *t, const struct rf_train_stats *st, bool outer, double seconds,
                          struct rf_err *e);

#endif
