/* gradient.h -- a gradient as a file, so that two programs can share one optimizer step.
 *
 * safetensors under the weights' names, float32, coefficients applied and not clipped; __metadata__ "weights" is the hash
 * of the weights it belongs to. */
#ifndef RF_GRADIENT_H
#define RF_GRADIENT_H

#include "train.h"

enum rf_code rf_gradient_write(struct rf_train *t, const char *path, const char *weights, struct rf_err *e);
/* Adds the file's gradient to the model's.  RF_EDATA: it belongs to other weights; RF_EMODEL: names or shapes differ. */
enum rf_code rf_gradient_add(struct rf_train *t, const char *path, const char *weights, struct rf_err *e);

#endif
