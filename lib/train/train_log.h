/* train_log.h -- the line that each optimizer step has in the log (rf-grpo(1) lists the keys). */
#ifndef RF_TRAIN_LOG_H
#define RF_TRAIN_LOG_H

#include "train/trainer.h"

/* Appends the line of a step to t->open.unsaved.lines, if the trainer has a log.  outer: it is the step on
 * the responses, whose figures have names of their own.  seconds: that the step took.  Errors: RF_ENOMEM. */
enum rf_code rf_train_log(struct rf_trainer *t, const struct rf_train_stats *st, bool outer, double seconds,
                          struct rf_err *e);

#endif
