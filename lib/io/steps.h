/* steps.h -- the steps of a run, recognized by their names: which ones exist, and which is the newest. */
#ifndef RF_STEPS_H
#define RF_STEPS_H

#include <stdint.h>

#include "base/err.h"

/* Writes the name of a step, such as "step-000012". */
void rf_step_name(char name[32], int64_t step);
/* Returns the number of the step with this name; -1: it is not the name of a step. */
int64_t rf_step_number(const char *name);

/* Returns the length of RUN in a path RUN/latest or RUN/step-000012; 0 for any other path. */
int rf_run_of_step(const char *path);

/* Lists the numbers of a run's steps in *steps, malloc'd, the oldest first.  Errors: RF_ENOINPUT: the
 * directory does not exist; RF_EIO, RF_ENOMEM. */
enum rf_code rf_step_list(const char *run, int64_t **steps, int *n, struct rf_err *e);
/* Stores the number of the newest step in *newest.  Errors: those of rf_step_list(); RF_ENOINPUT: the run has
 * no step. */
enum rf_code rf_step_newest(const char *run, int64_t *newest, struct rf_err *e);

/* Writes to dir the directory of the step that the link RUN/latest points to.  If the link is missing or its
 * target does not exist, dir is that of the newest step and `lost` is a sentence about it; otherwise `lost`
 * is "". Errors: RF_ENOINPUT: run has no step, so it is not a run; RF_EMODEL: latest is not a link, or does
 * not point to the name of a step; RF_EIO. */
enum { RF_STEP_LOST = 160 };
enum rf_code rf_step_latest(const char *run, char dir[4096], char lost[RF_STEP_LOST], struct rf_err *e);

#endif
