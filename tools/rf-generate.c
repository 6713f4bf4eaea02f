/* rf-generate -- continues each prompt by sampling from a model. */
#include "cli/cli_model.h"
#include "decode/generate.h"

static struct rf_generate_settings how = RF_GENERATE_DEFAULTS;
static struct rf_stage stage = RF_STAGE_DEFAULTS;

static enum rf_code fits(const struct rf_head *h, struct rf_record *r, struct rf_err *e)
{
	(void)h;
	return rf_generate_expect(&how, r, e);
}

static enum rf_code check(void *arg, struct rf_record *r, struct rf_err *e)
{
	(void)arg;
	return rf_generate_check(&how, r, e);
}

static int room(void *arg, const struct rf_record *r, int n)
{
	(void)arg;
	return rf_generate_room(&how, r, n);
}

static enum rf_code generate(void *arg, struct rf_record *r, int n, int *bad, struct rf_err *e)
{
	(void)arg;
	return rf_generate_records(&how, r, n, bad, e);
}

int main(int argc, char *argv[])
{
	struct rf_engine engine = RF_ENGINE_DEFAULTS;
	struct rf_work work;
	struct rf_opts model = { 0 }, method = { 0 }, stream = { 0 };
	const struct rf_cli cli = {
		.name = "rf-generate",
		.usage = "-m model [--max-new tokens | --max-new-key key] [-n samples] [-o file] [options] "
			 "[file]",
		.summary = "Continues each prompt with a model: writes tokens and, with a tokenizer, text.",
		.example = "rf-tokenize --tokenizer RUN --prompt-key question data.jsonl | "
			   "rf-generate -m RUN | rf-dump",
		.also = "rf-tokenize(1), rf-dump(1), rf-rollout(1), rf-stream(5)",
		.opts = (const struct rf_opt *const[]){ method.row, stream.row, model.row, NULL },
		.max_args = 1,
		.about = rf_dev_about,
	};
	struct rf_err err;

	how.work = &work;
	rf_engine_options(&engine, NULL, &model);
	rf_generate_options(&how, &method);
	rf_stage_options(&stage, NULL, &stream);
	if (rf_cli_parse(&cli, argc, argv) == 0)
		argv[1] = NULL;
	if (how.max_new_key)
		rf_cli_without(method.row, "max-new", "cannot be combined with --max-new-key");
	if (rf_generate_ready(&how, &err) != RF_OK)
		rf_die_err(&err);

	rf_work_init(&work, &engine, rf_generate_use(&how));
	engine.fits = fits;
	rf_cli_filter_open(&stage, &cli, &engine, argv[1]);
	if (rf_generate_open(&how, &stage.head, &err) != RF_OK) {
		if (err.code == RF_EDATA)
			rf_blame(&err, "%s", rf_in_name(stage.in));
		rf_die_err(&err);
	}
	if (*how.warning)
		rf_say("warning: %s", how.warning);
	if (how.words && *rf_tokenizer_warning(how.words))
		rf_say("%s: warning: %s", how.tokenizer ? how.tokenizer : engine.path,
		       rf_tokenizer_warning(how.words));
	rf_engine_sign(&engine, &stage.head, true);
	rf_stage_create(&stage);
	rf_stage_batches(&stage, &(struct rf_batches){ rf_generate_most(&how), check, room, generate }, NULL);
	rf_cli_filter_close(&stage, &engine);
	if (*how.note)
		rf_say("no text was written: %s", how.note);
	rf_generate_close(&how);
	rf_engine_close(&engine);
	return 0;
}
