/* reference.c -- a second model in a program, for the log-probabilities of rollouts. */
#include "refine/reference.h"

void rf_reference_options(struct rf_reference *x, struct rf_opts *opts)
{
	const struct rf_opt table[] = {
		OPT_TEXT("reference", &x->path, "model",
		         "reference model for --kl-coef: a run or a checkpoint", .noted = RF_OPT_RESULT),
		OPT_END,
	};

	rf_opts_add(opts, table);
}

void rf_reference_init(struct rf_reference *x, const struct rf_engine *like)
{
	x->engine = (struct rf_engine){
		.path = x->path,
		.device = like->device,
		.isa = like->isa,
		.threads = like->threads,
		.max_len = like->max_len,
		.segment = like->segment,
		.math = like->math,
		.dry_run = like->dry_run,
	};
	x->rollouts = (struct rf_rollout_settings)RF_ROLLOUT_DEFAULTS;
	x->rollouts.work = &x->work;
	x->rollouts.score = true;
	x->rollouts.as = RF_AS_REF;
	rf_work_init(&x->work, &x->engine, rf_rollout_use(&x->rollouts));
}

enum rf_code rf_reference_open(struct rf_reference *x, struct rf_err *e)
{
	return rf_engine_open(&x->engine, NULL, false, e);
}

enum rf_code rf_reference_begin(struct rf_reference *x, const struct rf_head *h, struct rf_err *e)
{
	enum rf_code rc = rf_engine_check_head(&x->engine, h, e);

	return rc == RF_OK ? rf_work_ahead(&x->engine, h, e) : rc;
}

enum rf_code rf_reference_record(struct rf_reference *x, struct rf_record *r, struct rf_err *e)
{
	return rf_rollout_record(&x->rollouts, r, e);
}

void rf_reference_close(struct rf_reference *x)
{
	if (x)
		rf_engine_close(&x->engine);
}
