/* grad_file.h -- writes and reads a gradient, so that two programs can share one optimizer step.
 *
 * The file is safetensors, float32, under the weights' names.  The losses' coefficients are applied, and the
 * gradient is not clipped.  "weights" in __metadata__ is the hash of the weights that it belongs to. */
#ifndef RF_GRAD_FILE_H
#define RF_GRAD_FILE_H

#include <signal.h>

#include "train/train.h"

/* Writes the model's gradient; the file appears whole or not at all.  stop (may be NULL) is checked until the
 * file gets its name; if it is set, there is no file, and RF_EIO says "interrupted".  Errors: RF_ENUMERIC:
 * the gradient is not finite. */
enum rf_code rf_grad_file_write(struct rf_train *t, const char *path, const char *weights,
                                const volatile sig_atomic_t *stop, struct rf_err *e);
/* Checks before the work whether the file can be written at path.  Errors: RF_EUSAGE: path is "-", exists and
 * is not a regular file, or lies inside the run. */
enum rf_code rf_grad_file_place(const char *path, const char *run, struct rf_err *e);
/* Checks the whole file.  Errors: RF_EDATA: its gradient belongs to other weights, or is not finite;
 * RF_EMODEL: names or shapes differ. */
enum rf_code rf_grad_file_check(const struct rf_train *t, const char *path, const char *weights,
                                struct rf_err *e);
/* Checks the whole file, and adds its gradient to the model's gradient that rf_train_gradient() has
 * computed. */
enum rf_code rf_grad_file_add(struct rf_train *t, const char *path, const char *weights, struct rf_err *e);

#endif
