/* steps.h -- the steps of a run, by their names: what is there, and which is the newest. */
#ifndef RF_STEPS_H
#define RF_STEPS_H

#include <stdint.h>

#include "base/err.h"

/* "step-000012", and back: -1 for any other name. */
void rf_step_name(char name[32], int64_t step);
int64_t rf_step_number(const char *name);

/* The numbers of a run's steps, malloc'd, the oldest first. */
enum rf_code rf_step_list(const char *run, int64_t **steps, int *n, struct rf_err *e);
/* The newest of them.  RF_ENOINPUT: there is none. */
enum rf_code rf_step_newest(const char *run, int64_t *newest, struct rf_err *e);

/* The directory of the step that RUN/latest points to.  Where it points to nothing, or is not there, that is
 * the newest step there is, and `lost` says so in words; else `lost` is "".  RF_ENOINPUT: not a run;
 * RF_EMODEL: latest points to what is not the name of a step. */
enum { RF_STEP_LOST = 160 };
enum rf_code rf_step_latest(const char *run, char dir[4096], char lost[RF_STEP_LOST], struct rf_err *e);

#endif
