/* rf-rollout -- continues each sequence at its chosen positions, or scores existing continuations. */
#include "cli/cli_model.h"
#include "refine/rollout.h"

static struct rf_rollout_settings rollouts = RF_ROLLOUT_DEFAULTS;
static struct rf_stage stage = RF_STAGE_DEFAULTS;

static enum rf_code roll(void *arg, struct rf_record *r, struct rf_err *e)
{
	(void)arg;
	stage.fit += rollouts.score ? r->rollout.tokens != NULL : r->positions != NULL;
	return rf_rollout_record(&rollouts, r, e);
}

static enum rf_code fits(const struct rf_head *h, struct rf_record *r, struct rf_err *e)
{
	(void)h;
	return rf_rollout_check(&rollouts, r, e);
}

/* Refuses --as without --score, and the options of the draw with --score: they would have no effect, and in
 * the history their values would replace the numbers of the stage that drew the rollouts. */
static void settle(const struct rf_opt *method)
{
	static const char *const draw[] = { "length", "rollouts", "temperature", "top-p", "top-k",
		                            "eos",    "seed",     "draw-step",   NULL };

	for (const char *const *name = draw; rollouts.score && *name; name++)
		rf_cli_without(method, *name, "cannot be combined with --score");
	if (!rollouts.score)
		rf_cli_without(method, "as", "requires --score");
}

/* Records which model computes the values of this stage: in the head or, if it is a reference, in the
 * history.  The model of the head is then still the one that drew the rollouts. */
static void sign(const struct rf_engine *g)
{
	struct rf_err err;

	if (!rollouts.score || rollouts.as == RF_AS_POLICY)
		rf_engine_sign(g, &stage.head, !rollouts.score);
	else if (rf_engine_sign_stage(g, &stage.head, &err) != RF_OK)
		rf_die_err(&err);
}

int main(int argc, char *argv[])
{
	int64_t length;
	bool told; /* rf-select has reported already why no record has positions */
	struct rf_engine engine = RF_ENGINE_DEFAULTS;
	struct rf_work work;
	struct rf_opts model = { 0 }, method = { 0 }, stream = { 0 };
	const struct rf_cli cli = {
		.name = "rf-rollout",
		.usage = "-m model [-k tokens] [-n rollouts] [-o file] [options] [file]\n"
			 "       rf-rollout -m model --score [--as policy|ref] [-o file] [options] [file]",
		.summary = "Draws n continuations of k tokens at each chosen position, with their hidden "
			   "states.",
		.example = "rf-entropy -m RUN corpus.rf | rf-select -k 5 | rf-rollout -m RUN -k 5 -n 8 | "
			   "rf-reward",
		.also = "rf-select(1), rf-reward(1), rf-stream(5)",
		.opts = (const struct rf_opt *const[]){ model.row, method.row, stream.row, NULL },
		.max_args = 1,
		.about = rf_dev_about,
	};

	rollouts.work = &work;
	rf_engine_options(&engine, NULL, &model);
	rf_rollout_options(&rollouts, &method);
	rf_rollout_score_options(&rollouts, &method);
	rf_stage_options(&stage, NULL, &stream);
	if (rf_cli_parse(&cli, argc, argv) == 0)
		argv[1] = NULL;
	settle(method.row);

	rf_work_init(&work, &engine, rf_rollout_use(&rollouts));
	engine.fits = fits;
	rf_cli_filter_open(&stage, &cli, &engine, argv[1]);
	if (!rollouts.score) {
		rf_cli_fit_end(&engine);
		rf_cli_chosen_by(&stage, &engine);
	}
	sign(&engine);
	rf_stage_create(&stage);
	told = rf_head_asked(&stage.head, "rf-select", "length", &length);
	rf_stage_each(&stage, roll, NULL);
	rf_cli_filter_close(&stage, &engine);
	if (rollouts.score)
		rf_stage_fits(&stage, "rollouts", "rf-rollout without --score", "");
	else if (!told)
		rf_stage_fits(&stage, "positions", "rf-select", "");
	rf_engine_close(&engine);
	return 0;
}
