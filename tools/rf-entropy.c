/* rf-entropy -- computes the model's uncertainty at every position, in one forward pass. */
#include "cli/cli_model.h"
#include "refine/entropy.h"

static enum rf_code measure(void *entropy, struct rf_record *r, struct rf_err *e)
{
	return rf_entropy_record(entropy, r, e);
}

int main(int argc, char *argv[])
{
	struct rf_engine engine = RF_ENGINE_DEFAULTS;
	struct rf_work work;
	struct rf_entropy entropy = { .work = &work };
	struct rf_stage stage = RF_STAGE_DEFAULTS;
	const char *keep = NULL;
	struct rf_opts model = { 0 }, stream = { 0 };
	const struct rf_opt method[] = {
		OPT_FLAG("nll", &entropy.nll, "also write nll and correct of each next token",
		         .noted = RF_OPT_RESULT),
		OPT_TEXT("keep", &keep, "hidden,logits", "also write these in full (for small models)",
		         .noted = RF_OPT_RESULT),
		OPT_END,
	};
	const struct rf_cli cli = {
		.name = "rf-entropy",
		.usage = "-m model [-o file] [options] [file]",
		.summary =
			"Computes the entropy of the model's prediction at every position of each sequence.",
		.example = "rf-entropy -m RUN corpus.rf | rf-select | rf-rollout -m RUN | rf-reward | "
			   "rf-grpo -m RUN",
		.also = "rf-select(1), rf-ntp(1), rf-stream(5)",
		.opts = (const struct rf_opt *const[]){ model.row, method, stream.row, NULL },
		.max_args = 1,
		.about = rf_dev_about,
	};

	rf_engine_options(&engine, NULL, &model);
	rf_stage_options(&stage, NULL, &stream);
	if (rf_cli_parse(&cli, argc, argv) == 0)
		argv[1] = NULL;
	if (!rf_entropy_keep(&entropy, keep))
		rf_die(EX_USAGE, "--keep: '%s' is not a list of 'hidden' and 'logits' (try --help)", keep);

	rf_work_init(&work, &engine, rf_entropy_use(&entropy));
	rf_cli_filter_open(&stage, &cli, &engine, argv[1]);
	rf_engine_sign(&engine, &stage.head, false);
	rf_stage_create(&stage);
	rf_stage_each(&stage, measure, &entropy);
	rf_cli_filter_close(&stage, &engine);
	rf_engine_close(&engine);
	return 0;
}
