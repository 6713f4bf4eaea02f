/* rf-logp -- computes the log-probability of every choice, with one pass over the text that they continue. */
#include <inttypes.h>

#include "cli/cli_model.h"
#include "decode/logp.h"

static struct rf_engine engine = RF_ENGINE_DEFAULTS;
static struct rf_work work;
static struct rf_logp logp = { .work = &work };
static struct rf_stage stage = RF_STAGE_DEFAULTS;

static enum rf_code fits(const struct rf_head *h, struct rf_record *r, struct rf_err *e)
{
	(void)h;
	return rf_logp_check(&logp, r, e);
}

static enum rf_code measure(void *arg, struct rf_record *r, struct rf_err *e)
{
	(void)arg;
	stage.fit += r->choice.tokens != NULL;
	return rf_logp_record(&logp, r, e);
}

int main(int argc, char *argv[])
{
	struct rf_opts model = { 0 }, stream = { 0 };
	const struct rf_cli cli = {
		.name = "rf-logp",
		.usage = "-m model [-o file] [options] [file]",
		.summary = "Computes how probable each choice is after the text that all choices continue.",
		.example = "rf-tokenize --tokenizer RUN --prompt-key q --choices-key choices data.jsonl | "
			   "rf-logp -m RUN | rf-dump",
		.also = "rf-tokenize(1), rf-dump(1), rf-entropy(1), rf-stream(5)",
		.opts = (const struct rf_opt *const[]){ model.row, stream.row, NULL },
		.max_args = 1,
		.about = rf_dev_about,
	};

	rf_engine_options(&engine, NULL, &model);
	rf_stage_options(&stage, NULL, &stream);
	if (rf_cli_parse(&cli, argc, argv) == 0)
		argv[1] = NULL;

	rf_work_init(&work, &engine, rf_logp_use(&logp));
	engine.fits = fits;
	rf_cli_filter_open(&stage, &cli, &engine, argv[1]);
	rf_engine_sign(&engine, &stage.head, false);
	rf_stage_create(&stage);
	rf_stage_each(&stage, measure, NULL);
	rf_cli_filter_close(&stage, &engine);
	rf_stage_fits(&stage, "choices", "rf-tokenize --choices-key", "");
	if (stage.fit)
		rf_say("%" PRIu64 " choice%s of %" PRIu64 " record%s: %" PRIu64 " rows, where one pass per "
		       "choice has %" PRIu64,
		       logp.choices, logp.choices == 1 ? "" : "s", stage.fit, stage.fit == 1 ? "" : "s",
		       logp.rows, logp.alone);
	rf_engine_close(&engine);
	return 0;
}
