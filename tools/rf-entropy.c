/* rf-entropy -- the model's uncertainty at every position, in one forward pass. */
#include "cli_model.h"
#include "entropy.h"
#include "progress.h"
#include "stream.h"

int main(int argc, char *argv[])
{
	struct rf_engine engine = RF_ENGINE_DEFAULTS;
	struct rf_entropy entropy = { .engine = &engine };
	const char *output = NULL, *keep = NULL;
	uint64_t max_record = RF_MAX_RECORD;
	struct rf_progress progress = { 0 };
	struct rf_opt model[8], show[4];
	const struct rf_opt stream[] = {
		{ "nll", 0, RF_OPT_FLAG, &entropy.nll, 0, 0, NULL, "also the next tokens' nll, and whether they were the most likely", true },
		{ "keep", 0, RF_OPT_TEXT, &keep, 0, 0, "hidden,logits", "also these, whole: for small models", true },
		{ "output", 'o', RF_OPT_TEXT, &output, 0, 0, "file", "instead of stdout; appears whole or not at all", false },
		{ "max-record", 0, RF_OPT_SIZE, &max_record, 0, 0, "size", "refuse records of more bytes", false },
		{ .name = NULL },
	};
	const struct rf_cli cli = {
		.name = "rf-entropy",
		.usage = "-m model [-o file] [options] [file]",
		.summary = "Computes the entropy of the model's prediction at every position of each sequence.",
		.example = "rf-entropy -m RUN corpus.rf | rf-select | rf-rollout -m RUN | rf-reward | rf-grpo -m RUN",
		.also = "rf-select(1), rf-ntp(1), rf-stream(5)",
		.opts = (const struct rf_opt *const[]){ model, stream, show, NULL },
		.max_args = 1,
	};
	struct rf_err err;
	struct rf_head head;
	struct rf_record *r;
	struct rf_in *in;
	struct rf_out *out;
	enum rf_code rc;

	rf_engine_options(&engine, model);
	rf_progress_options(&progress, show);
	if (rf_cli_parse(&cli, argc, argv) == 0)
		argv[1] = NULL;
	if (!rf_entropy_keep(&entropy, keep))
		rf_die(64, "--keep: '%s' is not made of 'hidden' and 'logits' (try --help)", keep);

	engine.needs = rf_entropy_needs;
	engine.stage = &entropy;
	if (rf_engine_open(&engine, NULL, false, &err) != RF_OK)
		rf_die_err(&err);
	rf_cli_notes(&engine);
	in = rf_cli_model_input(&cli, &engine, argv[1], max_record, &head);
	rf_engine_sign(&engine, &head, false);
	if (rf_out_open(&out, output, &head, &err) != RF_OK)
		rf_die_err(&err);

	while ((rc = rf_progress_next(&progress, in, &r, &err)) == RF_OK) {
		if ((rc = rf_entropy_record(&entropy, r, &err)) != RF_OK) {
			rf_in_blame(in, &err);
			break;
		}
		if ((rc = rf_put(out, r, &err)) != RF_OK)
			break;
	}
	rf_progress_end(&progress);
	if (rc != RF_EOF)
		rf_die_err(&err);
	if (rf_dev_sync(&engine.dev, &err) != RF_OK || rf_out_finish(out, &err) != RF_OK)
		rf_die_err(&err);
	rf_in_close(in);
	rf_head_free(&head);
	rf_engine_close(&engine);
	return 0;
}
