/* grad_file.h -- a gradient as a file, so that two programs can share one optimizer step.
 *
 * safetensors under the weights' names, float32, coefficients applied and not clipped; __metadata__ "weights"
 * is the hash of the weights it belongs to. */
#ifndef RF_GRAD_FILE_H
#define RF_GRAD_FILE_H

#include <signal.h>

#include "method/train.h"

/* Writes the model's gradient; the file appears whole or not at all.  stop (may be NULL) is looked at until
 * it has its name; set: nothing is there, RF_EIO "interrupted". */
enum rf_code rf_grad_file_write(struct rf_train *t, const char *path, const char *weights,
                               const volatile sig_atomic_t *stop, struct rf_err *e);
/* Before the work: whether the file can appear at path.  RF_EUSAGE: something is there that is no regular
 * file, or it would lie in the run, whose files are the run's alone. */
enum rf_code rf_grad_file_place(const char *path, const char *run, struct rf_err *e);
/* RF_EDATA: the file's gradient belongs to other weights, or is not finite; RF_EMODEL: names or
 * shapes differ. */
enum rf_code rf_grad_file_check(const struct rf_train *t, const char *path, const char *weights,
                               struct rf_err *e);
/* The same, and adds it to the model's gradient, which rf_train_gradient() has computed. */
enum rf_code rf_grad_file_add(struct rf_train *t, const char *path, const char *weights, struct rf_err *e);

#endif
