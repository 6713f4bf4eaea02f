/* reference.h -- a reference model, which only computes the log-probabilities of rollouts that another model
 * has drawn (RF_AS_REF in rollout.h), in the same program as that model.
 *
 *     rf_reference_init()     with the settings of the other engine, before that is opened
 *     rf_reference_open()     loads the weights
 *     for each record:        rf_reference_record()
 *     rf_reference_close() */
#ifndef RF_REFERENCE_H
#define RF_REFERENCE_H

#include "base/opt.h"
#include "refine/rollout.h"

struct rf_reference {
	const char *path; /* a run or a checkpoint; NULL: there is no reference model */
	struct rf_engine engine;
	struct rf_work work;
	struct rf_rollout_settings rollouts;
};

/* --reference */
void rf_reference_options(struct rf_reference *x, struct rf_opts *opts);

/* Takes over the settings of an engine: the device, threads, segments, --max-len and --dry-run. */
void rf_reference_init(struct rf_reference *x, const struct rf_engine *like);
/* Opens the model.  Errors: those of rf_engine_open(). */
enum rf_code rf_reference_open(struct rf_reference *x, struct rf_err *e);
/* Checks that the model fits a stream, and with --max-len takes its memory.  Errors: RF_EDATA, RF_ENOMEM. */
enum rf_code rf_reference_begin(struct rf_reference *x, const struct rf_head *h, struct rf_err *e);
/* Writes r->rollout.logp_ref.  Errors: those of rf_rollout_record(). */
enum rf_code rf_reference_record(struct rf_reference *x, struct rf_record *r, struct rf_err *e);
/* x NULL: does nothing. */
void rf_reference_close(struct rf_reference *x);

#endif
